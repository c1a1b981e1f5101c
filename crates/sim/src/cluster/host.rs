//! A host: a node and the machine it runs on, with its disk, its crashes and its restarts.
//!
//! If the fault plan includes crashes or disk failures, each node keeps a log on a disk of its own
//! ([`MemoryDisk`]), which survives the node. A crash may come between any two events: while records
//! wait for a sync, or while a sync runs. Records that were not synced are then torn or lost, as on a
//! real disk. Output that the node held back is lost, and so are the calls of its clients.
//!
//! After a restart the store is compared with its state before the crash (DUR-I2): it has to equal
//! the state after some prefix of its commits. At the end of the run every acknowledged commit has to
//! be there (`check`).
//!
//! Where nodes have replicas, each replica has a host, and a server's faults affect all of its hosts.
//! The replication group itself is in `replicas`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use anabranch_engine::backoff::Backoff;
use anabranch_engine::sequence::SequenceStarts;
use anabranch_engine::{
    Admission, AttemptOutcome, AttemptRecord, DurableError, DurableNode, DurableOptions, Node,
    NodeInput, NodeOptions, NodeStart, OutputRule, ReplicaInput, ReplicaNode, ReplicaOutbox,
};
use anabranch_protocol::link::{Incarnation, Links, Packet};
use anabranch_protocol::replication::View;
use anabranch_storage::media::memory::{DiskFaults, MemoryDisk};
use anabranch_storage::{
    CommitSequence, Installed, LogError, LogOptions, LogPosition, StateOrigin, Store,
};
use anabranch_types::{Key, NodeId, PartitionId, Row, TableId, Ticks, Timestamp};

use super::{Cluster, Event, network};
use crate::clock::local;
use crate::cost::Cores;
use crate::fault::DiskFailure;
use crate::latency::{self, Network};
use crate::protocols::{Shared, Simulated};
use crate::report::{NODE_LOST_CALLS, NODE_RESTARTED};
use crate::rows::{rows_at, rows_of};

/// The median time of a sync on a healthy disk: a solid-state disk that honours syncs.
pub(super) const SYNC: Ticks = Ticks::from_micros(60);

/// How long a client waits before it retries a node that is down.
const RETRY: Ticks = Ticks::from_micros(500);

/// Sizes of logs and checkpoints: so small that segments and checkpoints turn over in a short run.
pub(crate) const LOGS: DurableOptions = DurableOptions {
    log: LogOptions {
        segment_bytes: 1 << 10,
        reserve_bytes: 2 << 10,
        ahead_bytes: 300,
    },
    checkpoint_bytes: 2 << 10,
    checkpoint_unsynced_max: 1 << 10,
    output: OutputRule::Durable,
    incarnation: Incarnation::FIRST,
};

/// What runs on a host.
pub(crate) enum NodeState<P: Simulated> {
    /// A node without a log. It cannot crash in this run.
    Volatile(Box<Node<P>>),
    /// A node with a log.
    Durable(Box<DurableNode<P, MemoryDisk>>),
    /// One replica of a replicated node.
    Replica(Box<ReplicaNode<P, MemoryDisk>>),
    /// Nothing; the disk remains.
    Down(MemoryDisk),
}

/// A node and the machine it runs on.
pub(crate) struct Host<P: Simulated> {
    pub(crate) state: NodeState<P>,
    /// The node's links, in a run with faults.
    pub(crate) links: Option<Links<P::Message>>,
    /// When the next [`Event::LinkTick`] is due, if one is queued.
    pub(crate) link_tick: Option<Ticks>,
    /// The offset of its clock from virtual time, in nanoseconds.
    pub(crate) skew: i64,
    /// When the next [`Event::Tick`] is due, if one is queued.
    pub(crate) tick: Option<Ticks>,
    /// How many pause faults are active.
    pub(crate) pauses: u32,
    /// Inputs that arrived during a pause.
    pub(crate) missed: VecDeque<ReplicaInput<P::Message>>,
    /// Packets that introduce one incarnation to another. They wait until a round confirms that this
    /// node is still the primary. Each with its round and the sending host.
    pub(crate) unconfirmed: VecDeque<(u64, u16, Packet<P::Message>)>,
    /// How many times a replica was started here.
    starts: u64,
    /// Steps of the node's protocol that were observed, over all incarnations.
    pub(crate) steps: u32,
    /// The incarnation, and the number of its steps, at the last check of invariants.
    pub(crate) last_checked: Option<(Incarnation, u64)>,
    /// Its cores, where processing costs time.
    pub(crate) cores: Cores<NodeInput<P::Message>>,
    /// How many crash faults are active.
    pub(crate) crashes: u32,
    /// How many failures of each kind its disk has at the moment.
    disk_failures: BTreeMap<DiskFailure, u32>,
    /// By how many percent syncs take longer than usual.
    pub(crate) slowdown_percent: u64,
    /// A sync that ended during a pause.
    synced: Option<LogPosition>,
}

/// The incarnations of one node, on whichever hosts they ran.
pub(crate) struct Incarnations {
    /// The host of the latest one.
    pub(crate) host: u16,
    /// The latest one.
    pub(crate) latest: Incarnation,
    /// The store at the start of the latest incarnation, in a run with logs.
    pub(super) base: Option<Box<Store>>,
    /// What the incarnation that ended last had installed.
    pub(crate) lost: Vec<Installed>,
    /// What earlier incarnations installed and later ones recovered.
    recovered: InstalledAt,
    /// In a run with replicas: the view that wrote each committed log entry, by index.
    pub(crate) committed: BTreeMap<u64, View>,
}

/// What a node has installed: transactions, and states of other nodes that it took.
#[derive(Clone, Debug, Default)]
struct InstalledAt {
    transactions: BTreeMap<Timestamp, CommitSequence>,
    /// With the commit as which each was taken.
    states: Vec<(CommitSequence, StateOrigin)>,
}

impl InstalledAt {
    fn add(&mut self, one: &Installed) {
        match one.origin {
            Some(origin) => self.states.push((one.sequence, origin)),
            None => {
                let sequence = self.transactions.entry(one.timestamp);
                sequence.or_insert(one.sequence);
            }
        }
    }
}

/// Whether a transaction is in a node's state as of a commit: the node has installed it, or has taken a state with it.
fn includes(
    all: &BTreeMap<NodeId, InstalledAt>,
    node: NodeId,
    until: CommitSequence,
    timestamp: Timestamp,
) -> bool {
    let Some(installed) = all.get(&node) else {
        return false;
    };
    let own = installed.transactions.get(&timestamp);
    let mut states = installed.states.iter();
    own.is_some_and(|sequence| *sequence <= until)
        || states.any(|(sequence, origin)| {
            *sequence <= until && includes(all, origin.node, origin.sequence, timestamp)
        })
}

impl Incarnations {
    pub(crate) fn new(host: u16, base: Option<Box<Store>>) -> Incarnations {
        Incarnations {
            host,
            latest: Incarnation::FIRST,
            base,
            lost: Vec::new(),
            recovered: InstalledAt::default(),
            committed: BTreeMap::new(),
        }
    }

    /// The last commit that the latest incarnation recovered; later ones are its own.
    pub(crate) fn recovered_until(&self) -> CommitSequence {
        let base = self.base.as_ref();
        base.map_or(CommitSequence::LOADED, |base| base.last())
    }
}

impl<P: Simulated> Host<P> {
    pub(crate) fn new(state: NodeState<P>, skew: i64) -> Host<P> {
        Host {
            state,
            links: None,
            link_tick: None,
            skew,
            tick: None,
            pauses: 0,
            missed: VecDeque::new(),
            unconfirmed: VecDeque::new(),
            starts: 0,
            steps: 0,
            last_checked: None,
            cores: Cores::default(),
            crashes: 0,
            disk_failures: BTreeMap::new(),
            slowdown_percent: 0,
            synced: None,
        }
    }

    /// The node, if it is up. On a replica's host: if the replica believes to be the primary.
    pub(crate) fn node(&self) -> Option<&Node<P>> {
        self.node_and_incarnation().map(|(node, _)| node)
    }

    /// The node and its incarnation, if it is up.
    fn node_and_incarnation(&self) -> Option<(&Node<P>, Incarnation)> {
        match &self.state {
            NodeState::Volatile(node) => Some((node, Incarnation::FIRST)),
            NodeState::Durable(durable) => Some((durable.node(), durable.incarnation())),
            NodeState::Replica(replica) => replica.serving(),
            NodeState::Down(_) => None,
        }
    }

    /// The replica, if this host has one and is up.
    pub(crate) fn replica(&self) -> Option<&ReplicaNode<P, MemoryDisk>> {
        match &self.state {
            NodeState::Replica(replica) => Some(replica),
            _ => None,
        }
    }

    /// The earliest timer of what runs here, by the local clock.
    pub(crate) fn next_alarm(&self) -> Option<Ticks> {
        match &self.state {
            NodeState::Replica(replica) => Some(replica.next_alarm()),
            _ => self.node().and_then(Node::next_alarm),
        }
    }

    /// The incarnation of what runs here. For a replica it is the number of its starts.
    pub(super) fn incarnation(&self) -> Option<Incarnation> {
        match &self.state {
            NodeState::Durable(durable) => Some(durable.incarnation()),
            NodeState::Replica(_) => Some(Incarnation(self.starts)),
            NodeState::Volatile(_) | NodeState::Down(_) => None,
        }
    }

    /// The node's incarnation, and the number of steps that it has taken; `None` if no node runs here.
    pub(crate) fn progress(&self) -> Option<(Incarnation, u64)> {
        let (node, incarnation) = self.node_and_incarnation()?;
        Some((incarnation, node.steps()))
    }

    pub(crate) fn is_down(&self) -> bool {
        matches!(self.state, NodeState::Down(_))
    }

    fn disk(&mut self) -> Option<&mut MemoryDisk> {
        match &mut self.state {
            NodeState::Volatile(_) => None,
            NodeState::Durable(durable) => Some(durable.media_mut()),
            NodeState::Replica(replica) => Some(replica.media_mut()),
            NodeState::Down(disk) => Some(disk),
        }
    }

    /// Sets the disk's behaviour from the active faults.
    fn apply_disk_failures(&mut self) {
        let has = |failure| {
            self.disk_failures
                .get(&failure)
                .is_some_and(|count| *count > 0)
        };
        let (full, reads_fail) = (has(DiskFailure::Full), has(DiskFailure::ReadsFail));
        let (syncs_fail, sync_lies) = (has(DiskFailure::SyncsFail), has(DiskFailure::SyncsLie));
        if let Some(disk) = self.disk() {
            let capacity = disk.faults().capacity.or_else(|| Some(disk.used()));
            disk.set_faults(DiskFaults {
                capacity: capacity.filter(|_| full),
                reads_fail,
                syncs_fail,
                sync_lies,
            });
        }
    }

    fn has_disk_failure(&self) -> bool {
        self.disk_failures.values().any(|count| *count > 0)
    }
}

/// The longest backoff of an aborted attempt. The conflicting transaction may hold its intents or locks for
/// some round trips until it has committed; more frequent retries would only fail again.
fn backoff_max(network: &Network, nodes: u16) -> Ticks {
    let trip = network.longest(nodes);
    Backoff::default().longest.max(Ticks(trip.0 * 8))
}

/// Builds nodes, at the start of a run and after crashes.
#[derive(Clone)]
pub(crate) struct NodeBuilder {
    pub(crate) shared: Shared,
    durable: bool,
    /// Whether nodes and stores record attempts and installations.
    records: bool,
    /// An empty store of the application's tables.
    pub(crate) empty: Store,
    /// The highest values of identity columns in the initial rows.
    numbers: SequenceStarts,
    /// The longest backoff of an aborted attempt.
    backoff_max: Ticks,
}

impl NodeBuilder {
    pub(crate) fn new(
        shared: &Shared,
        durable: bool,
        history: bool,
        empty: Store,
        numbers: SequenceStarts,
        network: &Network,
    ) -> NodeBuilder {
        NodeBuilder {
            numbers,
            backoff_max: backoff_max(network, shared.topology.owners.len() as u16),
            shared: shared.clone(),
            durable,
            records: durable || history,
            empty,
        }
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.durable
    }

    pub(crate) fn node<P: Simulated>(
        &self,
        number: u16,
        protocol: P,
        incarnation: Incarnation,
    ) -> Node<P> {
        let options = NodeOptions {
            declares: self.shared.protocol.declares(),
            sequences: (self.shared.protocol.has_sites()).then_some((number, self.shared.clusters)),
            // The cost model needs to know which rows attempts changed.
            records: self.records || self.shared.processor.is_some(),
            incarnation,
            backoff: Backoff {
                longest: self.backoff_max,
                ..Backoff::default()
            },
            ..NodeOptions::default()
        };
        Node::new(
            NodeId(number),
            PartitionId(number / self.shared.clusters),
            Arc::clone(&self.shared.planned),
            protocol,
            options,
        )
        .with_sequence_starts(&self.numbers)
    }

    /// A node in its first incarnation, and a copy of its store if it has a log.
    pub(crate) fn build<P: Simulated>(
        &self,
        number: u16,
        mut store: Store,
    ) -> Result<(NodeState<P>, Option<Box<Store>>), DurableError> {
        if self.records {
            store.record();
        }
        if !self.durable {
            let protocol = P::make(NodeId(number), &self.shared, store);
            let node = self.node(number, protocol, Incarnation::FIRST);
            return Ok((NodeState::Volatile(Box::new(node)), None));
        }
        let base = Box::new(store.clone());
        let node = self.open(number, MemoryDisk::new(), Ticks(0), store)?;
        Ok((NodeState::Durable(Box::new(node)), Some(base)))
    }

    fn open<P: Simulated>(
        &self,
        number: u16,
        disk: MemoryDisk,
        now: Ticks,
        store: Store,
    ) -> Result<DurableNode<P, MemoryDisk>, DurableError> {
        let mut loaded = Some(store);
        let protocol = |beginning| {
            let mut store = match beginning {
                NodeStart::New => loaded.take().unwrap_or_else(|| self.empty.clone()),
                NodeStart::Recovered => self.empty.clone(),
            };
            store.record();
            P::make(NodeId(number), &self.shared, store)
        };
        DurableNode::open(disk, LOGS, now, protocol, |protocol, incarnation| {
            self.node(number, protocol, incarnation)
        })
    }
}

impl<P: Simulated> Cluster<P> {
    /// Steps a node with an input, and releases its output.
    pub(crate) fn drive(&mut self, node: u16, input: NodeInput<P::Message>) {
        let costs = self.model.is_some() || self.meter.is_some();
        let host = &mut self.hosts[usize::from(node)];
        let now = local(self.now, host.skew);
        if let (NodeInput::Restarted { node: back }, Some(links)) = (&input, &mut host.links) {
            links.noticed(*back);
        }
        if let NodeState::Replica(_) = &host.state {
            let input = match input {
                NodeInput::Tick => ReplicaInput::Tick,
                other => ReplicaInput::Node(other),
            };
            return self.drive_replica(node, input);
        }
        let mut out = self.out.take().unwrap_or_default();
        let flushed = match &mut host.state {
            NodeState::Volatile(_) if costs => {
                self.drive_timed(node, input, &mut out);
                Ok(())
            }
            NodeState::Volatile(plain) => {
                plain.step(now, input, &mut out);
                Ok(())
            }
            NodeState::Durable(durable) => {
                durable.step(now, input);
                let flushed = durable.flush(&mut out);
                flushed.and_then(|()| durable.make_room(&mut out))
            }
            NodeState::Replica(_) | NodeState::Down(_) => Ok(()),
        };
        self.out = Some(out);
        self.after_step(node, flushed);
    }

    /// Ends a sync of a node's disk, unless the incarnation that began it is over.
    pub(crate) fn sync_ends(&mut self, node: u16, incarnation: Incarnation, until: LogPosition) {
        let host = &mut self.hosts[usize::from(node)];
        if host.incarnation() != Some(incarnation) {
            return;
        }
        if host.pauses > 0 {
            host.synced = Some(until);
            return;
        }
        if let NodeState::Replica(_) = &host.state {
            return self.sync_replica(node, until);
        }
        let mut out = self.out.take().unwrap_or_default();
        let synced = match &mut host.state {
            NodeState::Durable(durable) => durable.end_sync(until, &mut out),
            _ => Ok(()),
        };
        self.out = Some(out);
        self.after_step(node, synced);
    }

    /// Ends a node's pause: it takes all inputs that arrived meanwhile.
    pub(crate) fn resume(&mut self, node: u16) {
        let host = &mut self.hosts[usize::from(node)];
        if let (Some(until), Some(incarnation)) = (host.synced.take(), host.incarnation()) {
            self.sync_ends(node, incarnation, until);
        }
        let missed = std::mem::take(&mut self.hosts[usize::from(node)].missed);
        for input in missed {
            match input {
                ReplicaInput::Node(input) => self.give(node, input),
                other => self.give_replica(node, other),
            }
        }
    }

    pub(crate) fn after_step(&mut self, node: u16, result: Result<(), LogError>) {
        self.release_output(node);
        if let Err(error) = result {
            self.disk_failed(node, &error);
        }
        self.write_slice(node);
        self.begin_sync(node);
        self.begin_checkpoint_sync(node);
        self.flush_links(node);
    }

    /// Passes a host's new installations to the diagram's recorder.
    fn record_installed(&mut self, host: u16) {
        let node = self.node_of(host) % self.placement.nodes();
        let alive = self.hosts[usize::from(host)].node();
        if let (Some(recorder), Some(alive)) = (&mut self.recorder, alive) {
            let installed = alive.protocol().store().installed();
            let schema = self.node_builder.shared.planned.schema();
            recorder.installed(host, node, self.now, installed, schema);
        }
    }

    /// Sends the messages and answers that a node has released.
    pub(crate) fn release_output(&mut self, node: u16) {
        if self.recorder.is_some() {
            self.record_installed(node);
        }
        let Some(mut out) = self.out.take() else {
            return;
        };
        // Most steps leave one message or one outcome: skip what is empty.
        if !out.messages.is_empty() {
            for (to, message) in out.messages.drain(..) {
                self.send(node, to.0, message);
            }
        }
        if !out.attempts.is_empty() {
            for attempt in out.attempts.drain(..) {
                self.record_acknowledged(&attempt);
                if let Some(recorder) = &mut self.recorder {
                    recorder.ended(&attempt);
                }
                if let Some(recording) = &mut self.recording {
                    recording.ended(attempt, self.now);
                }
            }
        }
        if !out.outcomes.is_empty() {
            for outcome in out.outcomes.drain(..) {
                self.client_answered(node, outcome);
            }
        }
        self.out = Some(out);
    }

    /// Records an acknowledged commit, which must never be lost.
    fn record_acknowledged(&mut self, attempt: &AttemptRecord) {
        let AttemptOutcome::Committed(timestamp) = attempt.outcome else {
            return;
        };
        let parts = attempt.effects.iter().filter(|on| !on.effects.is_empty());
        let partitions: Vec<PartitionId> = parts.map(|on| on.partition).collect();
        if partitions.is_empty() {
            return;
        }
        if self.acknowledged.insert(timestamp, partitions).is_some() {
            let what = format!("DUR-I3: two transactions have committed as {timestamp}");
            self.violate(attempt.transaction.node.0, &what);
        }
    }

    fn begin_sync(&mut self, node: u16) {
        let host = &mut self.hosts[usize::from(node)];
        let until = match &mut host.state {
            NodeState::Durable(durable) => durable.begin_sync(),
            NodeState::Replica(replica) => replica.begin_sync(),
            NodeState::Volatile(_) | NodeState::Down(_) => None,
        };
        let (Some(until), Some(incarnation)) = (until, host.incarnation()) else {
            return;
        };
        let takes = latency::sample(SYNC, &mut self.disk_random);
        let takes = Ticks(takes.0 * (100 + host.slowdown_percent) / 100);
        let done = Event::Synced {
            node,
            incarnation,
            until,
        };
        self.queue.push(self.now + takes, done);
    }

    /// Crashes a node after a failure of its disk.
    pub(super) fn disk_failed(&mut self, node: u16, error: &LogError) {
        if !self.hosts[usize::from(node)].has_disk_failure() {
            self.violate(node, &format!("its log has failed: {error}"));
        }
        self.statistics
            .sometimes("a node stopped, since its disk had failed");
        self.lose_node(node);
    }

    /// Ends a node's incarnation: only its disk remains, without unsynced records or with torn ones.
    fn lose_node(&mut self, node: u16) {
        let host = &mut self.hosts[usize::from(node)];
        let state = std::mem::replace(&mut host.state, NodeState::Down(MemoryDisk::new()));
        let mut disk = match state {
            NodeState::Durable(durable) => {
                if durable.node().calls() > 0 {
                    self.statistics.sometimes(NODE_LOST_CALLS);
                }
                if durable.holds_output() {
                    self.statistics
                        .sometimes("a node crashed with output held back");
                }
                if durable.is_writing_checkpoint() {
                    self.statistics
                        .sometimes("a node crashed between slices of a checkpoint");
                }
                let installed = durable.node().protocol().store().installed();
                self.incarnations[usize::from(node)].lost = installed.to_vec();
                if let Some(recording) = &mut self.recording {
                    recording.lost(durable.node().open_attempts(), self.now);
                }
                durable.into_media()
            }
            NodeState::Replica(replica) => {
                let (disk, lost) = replica.into_parts();
                if let Some(lost) = lost {
                    self.node_is_lost(node, &lost);
                }
                disk
            }
            NodeState::Down(disk) => disk,
            NodeState::Volatile(_) => unreachable!("a node without a log cannot crash"),
        };
        disk.crash(&mut |below| self.disk_random.below(below));
        let host = &mut self.hosts[usize::from(node)];
        host.state = NodeState::Down(disk);
        host.missed.clear();
        host.tick = None;
        host.synced = None;
        self.close_links(node);
    }

    /// Closes the links of a host after the loss of its node; calls that were running there are lost.
    pub(crate) fn close_links(&mut self, host: u16) {
        let number = usize::from(host);
        self.hosts[number].link_tick = None;
        self.hosts[number].unconfirmed.clear();
        if let Some(links) = self.hosts[number].links.take() {
            network::add(&mut self.closed_links, &links.counters());
        }
        let node = self.node_of(host);
        if let Some(recorder) = &mut self.recorder {
            recorder.crashed(node);
        }
        self.lose_calls_at(host);
    }

    /// Begins or ends a crash fault.
    pub(crate) fn crash(&mut self, node: u16, clock_us: i64, begins: bool) {
        let host = &mut self.hosts[usize::from(node)];
        if begins {
            host.crashes += 1;
            if !host.is_down() {
                self.lose_node(node);
            }
            return;
        }
        host.crashes -= 1;
        // The clock need not go on from where it was.
        host.skew += clock_us * 1_000;
        self.restart(node);
    }

    /// Begins or ends a disk failure.
    pub(crate) fn set_disk_failure(&mut self, node: u16, failure: DiskFailure, begins: bool) {
        let host = &mut self.hosts[usize::from(node)];
        let count = host.disk_failures.entry(failure).or_insert(0);
        *count = if begins { *count + 1 } else { *count - 1 };
        host.apply_disk_failures();
        let waits = match &host.state {
            NodeState::Durable(durable) => durable.admission() != Admission::All,
            _ => false,
        };
        if !begins {
            self.restart(node);
            if waits {
                self.statistics
                    .sometimes("a node went on after its disk had been full");
                self.give(node, NodeInput::Tick);
            }
        }
    }

    /// Restarts a node that is down, unless another crash fault is active.
    fn restart(&mut self, node: u16) {
        let host = &mut self.hosts[usize::from(node)];
        if host.crashes > 0 || !host.is_down() {
            return;
        }
        let NodeState::Down(disk) = &host.state else {
            return;
        };
        let now = local(self.now, host.skew);
        let disk = disk.clone();
        if self.placement.factor() > 1 {
            return self.restart_replica(node, disk, now);
        }
        let empty = self.node_builder.empty.clone();
        let opened = self.node_builder.open::<P>(node, disk, now, empty);
        let durable = match opened {
            Ok(durable) => durable,
            Err(error) => return self.restart_failed(node, &error),
        };
        self.statistics.sometimes(NODE_RESTARTED);
        if durable.opened().cut > 0 {
            self.statistics
                .sometimes("a torn end of a log was truncated");
        }
        if durable.opened().checkpointed > 0 && durable.incarnation().0 > 2 {
            self.statistics.sometimes("a node restarted more than once");
        }
        let incarnation = durable.incarnation();
        self.hosts[usize::from(node)].state = NodeState::Durable(Box::new(durable));
        self.check_recovered(node);
        let links = self.make_links(node, incarnation);
        self.hosts[usize::from(node)].links = links;
        self.use_links(node, |links, now, out| links.greet(now, out));
        let mut out = self.out.take().unwrap_or_default();
        let flushed = match &mut self.hosts[usize::from(node)].state {
            NodeState::Durable(durable) => durable.flush(&mut out),
            _ => Ok(()),
        };
        self.out = Some(out);
        self.after_step(node, flushed);
        self.check_node(node);
        self.reset_tick(node);
    }

    /// Records that a node could not restart. That is a violation unless its disk has a failure.
    pub(crate) fn restart_failed(&mut self, node: u16, error: &DurableError) {
        self.statistics
            .sometimes("a node could not restart at once");
        if !self.hosts[usize::from(node)].has_disk_failure() {
            self.violate(node, &format!("it cannot restart: {error}"));
        }
    }

    /// Puts a replica on its host.
    pub(crate) fn place_replica(&mut self, host: u16, replica: ReplicaNode<P, MemoryDisk>) {
        let host = &mut self.hosts[usize::from(host)];
        host.state = NodeState::Replica(Box::new(replica));
        host.starts += 1;
    }

    /// Runs an action on a replica, and releases its output.
    pub(crate) fn use_replica(
        &mut self,
        host: u16,
        act: impl FnOnce(
            &mut ReplicaNode<P, MemoryDisk>,
            Ticks,
            &mut ReplicaOutbox<P>,
        ) -> Result<(), LogError>,
    ) {
        let on = &mut self.hosts[usize::from(host)];
        let now = local(self.now, on.skew);
        let NodeState::Replica(replica) = &mut on.state else {
            return;
        };
        let mut out = ReplicaOutbox::default();
        let done = act(replica, now, &mut out);
        self.release_replica_output(host, out);
        self.after_step(host, done);
        self.receive_confirmed(host);
    }

    /// DUR-I2: a recovered store is what it was after some prefix of its commits.
    pub(crate) fn check_recovered(&mut self, node: u16) {
        self.compared += 1;
        let incarnations = &mut self.incarnations[usize::from(node)];
        let lost = std::mem::take(&mut incarnations.lost);
        let alive = self.hosts[usize::from(incarnations.host)].node();
        let (Some(base), Some(alive)) = (&incarnations.base, alive) else {
            return;
        };
        let store = alive.protocol().store();
        let last = store.last();
        let lost: Vec<Installed> = lost
            .into_iter()
            .filter(|one| one.sequence > base.last())
            .collect();
        let beyond = lost.iter().any(|one| one.sequence > last);
        let end = lost.last().map_or(base.last(), |one| one.sequence);
        let mut broken = (last > end)
            .then(|| format!("DUR-I2: it recovered up to {last}, and had committed up to {end}"));
        let rows = rows_at(base, &lost, last);
        let kept: Vec<Installed> = lost
            .into_iter()
            .filter(|one| one.sequence <= last)
            .collect();
        for one in &kept {
            incarnations.recovered.add(one);
        }
        let now = rows_of(store);
        if let Some(recording) = &mut self.recording {
            let partition = PartitionId(node / self.clusters);
            recording.installed_in(node % self.clusters, partition, kept);
        }
        if now != rows {
            let differs = |(item, row): &(&(TableId, Key), &Row)| now.get(item) != Some(row);
            let first = rows.iter().find(differs).map(|(item, _)| item.clone());
            let first = first.or_else(|| now.keys().find(|k| !rows.contains_key(k)).cloned());
            broken.get_or_insert(format!(
                "DUR-I2: it recovered up to {last} with other rows than it had then; the first is \
                 {first:?}"
            ));
        }
        if let Err(error) = store.check_invariants() {
            broken.get_or_insert(format!("its recovered store is broken: {error}"));
        }
        let mut base = Box::new(store.clone());
        base.take_installed();
        incarnations.base = Some(base);
        if beyond {
            self.statistics
                .sometimes("a crash lost a commit that was not acknowledged");
        }
        if let Some(broken) = broken {
            self.violate(node, &broken);
        }
    }

    /// When a client retries a node that is down.
    pub(crate) fn retry_at(&self) -> Ticks {
        self.now + RETRY
    }

    /// What each node has installed.
    fn installed(&self) -> BTreeMap<NodeId, InstalledAt> {
        let all = (0..).map(NodeId).zip(&self.incarnations);
        all.map(|(number, incarnations)| {
            let mut installed = incarnations.recovered.clone();
            if let Some(node) = self.hosts[usize::from(incarnations.host)].node() {
                let own = node.protocol().store().installed().iter();
                own.for_each(|one| installed.add(one));
            }
            (number, installed)
        })
        .collect()
    }

    /// Acknowledged commits that some node lacks (DUR-I1).
    pub(crate) fn missing_commits(&self) -> Vec<String> {
        let installed = self.installed();
        let newest = CommitSequence(u64::MAX);
        let mut missing = Vec::new();
        let mut look_at = |node: u16, timestamp: Timestamp| {
            if !includes(&installed, NodeId(node), newest, timestamp) {
                missing.push(format!(
                    "DUR-I1: {timestamp} was acknowledged, and is not at n{node}"
                ));
            }
        };
        for (timestamp, partitions) in &self.acknowledged {
            if self.node_builder.shared.protocol.partitions_operations() {
                look_at(timestamp.node().0, *timestamp);
                continue;
            }
            for partition in partitions {
                let first = partition.0 * self.clusters;
                (first..first + self.clusters).for_each(|node| look_at(node, *timestamp));
            }
        }
        missing
    }
}
