//! A node and the machine it runs on: its disk, its crashes, its return.
//!
//! In a run whose faults may take nodes or disks away, each node keeps a log on a disk of its own
//! ([`MemoryDisk`]) that outlives it. A crash may come between any two events: while records are
//! appended and not synced, while a sync is under way, while others wait. What was not synced is
//! then torn or lost as disks do it; what the node had withheld is gone, its clients' calls with
//! it. When it returns, its store is compared with what it should be (DUR-I2): what it was after
//! some prefix of its commits; and in the end every acknowledged commit is looked for (`check`).
//!
//! Where nodes have replicas, each replica has a host of its own, and those of one server share what
//! becomes of it; what the group does is in `replicas`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use anabranch_engine::backoff::Backoff;
use anabranch_engine::sequence::SequenceStarts;
use anabranch_engine::{
    AttemptOutcome, AttemptRecord, DurableError, DurableNode, DurableOptions, Node, NodeInput,
    NodeOptions, NodeStart, ReplicaInput, ReplicaNode, ReplicaOutbox,
};
use anabranch_protocol::link::{Incarnation, Links, Packet};
use anabranch_protocol::replication::View;
use anabranch_storage::media::memory::{DiskFaults, MemoryDisk};
use anabranch_storage::{CommitSequence, Installed, LogError, LogOptions, LogPosition, Store};
use anabranch_types::access::whole_table;
use anabranch_types::{Fetched, Key, NodeId, PartitionId, Row, TableId, Ticks, Timestamp};

use crate::cluster::{Cluster, Event, local};
use crate::cost::Cores;
use crate::fault::DiskTrouble;
use crate::latency::{self, Network};
use crate::network;
use crate::protocols::{Shared, Simulated};

/// How long a sync of a healthy disk takes, in the median: a solid state disk that keeps its
/// promises.
const SYNC: Ticks = Ticks::from_micros(60);

/// How long a client waits before it tries a node again that is not there.
const RETRY: Ticks = Ticks::from_micros(500);

/// How logs behave: small enough for everything to happen in a short run.
pub(crate) const LOGS: DurableOptions = DurableOptions {
    log: LogOptions {
        segment_bytes: 1 << 10,
    },
    checkpoint_bytes: 2 << 10,
};

/// A node, dead or alive.
pub(crate) enum Seat<P: Simulated> {
    /// Alive, without a log: it cannot die in this run.
    Plain(Box<Node<P>>),
    /// Alive, with its log.
    Logged(Box<DurableNode<P, MemoryDisk>>),
    /// A replica of a node that has several.
    Replica(Box<ReplicaNode<P, MemoryDisk>>),
    /// Dead. Its disk is there.
    Down(MemoryDisk),
}

/// A node, and where it runs.
pub(crate) struct Host<P: Simulated> {
    pub(crate) seat: Seat<P>,
    /// What stands between it and the network, in a run with faults.
    pub(crate) links: Option<Links<P::Message>>,
    /// When its links are woken, if they are.
    pub(crate) link_tick: Option<Ticks>,
    /// How far its clock is from virtual time, in nanoseconds.
    pub(crate) skew: i64,
    /// When its next timer event is due, if one waits.
    pub(crate) tick: Option<Ticks>,
    /// How many pauses are on.
    pub(crate) pauses: u32,
    /// What a paused node has missed.
    pub(crate) missed: VecDeque<ReplicaInput<P::Message>>,
    /// Packets that make lives known to each other, until this node is known to serve still: which
    /// round says so, and who has sent them.
    pub(crate) unconfirmed: VecDeque<(u64, u16, Packet<P::Message>)>,
    /// How often it has come back.
    returns: u64,
    /// How many steps its node's protocol has been seen to have taken, in all of its lives.
    pub(crate) steps: u32,
    /// In which life its node was last looked at, and after how many steps of that life.
    pub(crate) looked: Option<(Incarnation, u64)>,
    /// What its cores do, where that costs time.
    pub(crate) cores: Cores<NodeInput<P::Message>>,
    /// How many crashes keep it down.
    pub(crate) crashes: u32,
    /// What is wrong with its disk: how often at once.
    troubles: BTreeMap<DiskTrouble, u32>,
    /// How much more than its usual time a sync takes, in percent.
    pub(crate) slower: u64,
    /// A sync that has ended while the node was paused.
    synced: Option<LogPosition>,
}

/// What is known of a node's lives, wherever they were.
pub(crate) struct Lives {
    /// The host of the last one.
    pub(crate) host: u16,
    /// The last one.
    pub(crate) life: Incarnation,
    /// The store as it was when this life began, in a run with logs.
    base: Option<Box<Store>>,
    /// What was installed in this life before the node died.
    pub(crate) lost: Vec<Installed>,
    /// Transactions installed in earlier lives and found again.
    found: BTreeSet<Timestamp>,
    /// In a run with replicas: which view wrote each entry that is known to be committed.
    pub(crate) committed: BTreeMap<u64, View>,
}

impl Lives {
    pub(crate) fn new(host: u16, base: Option<Box<Store>>) -> Lives {
        Lives {
            host,
            life: Incarnation::FIRST,
            base,
            lost: Vec::new(),
            found: BTreeSet::new(),
            committed: BTreeMap::new(),
        }
    }

    /// What this life found when it began: commits up to here are earlier lives'.
    pub(crate) fn found_until(&self) -> CommitSequence {
        let base = self.base.as_ref();
        base.map_or(CommitSequence::LOADED, |base| base.last())
    }
}

impl<P: Simulated> Host<P> {
    pub(crate) fn new(seat: Seat<P>, skew: i64) -> Host<P> {
        Host {
            seat,
            links: None,
            link_tick: None,
            skew,
            tick: None,
            pauses: 0,
            missed: VecDeque::new(),
            unconfirmed: VecDeque::new(),
            returns: 0,
            steps: 0,
            looked: None,
            cores: Cores::default(),
            crashes: 0,
            troubles: BTreeMap::new(),
            slower: 0,
            synced: None,
        }
    }

    /// The node, if it is alive; of a replica, if the node runs here as far as the replica knows.
    pub(crate) fn node(&self) -> Option<&Node<P>> {
        self.alive().map(|(node, _)| node)
    }

    /// The node, and which of its lives this is.
    fn alive(&self) -> Option<(&Node<P>, Incarnation)> {
        match &self.seat {
            Seat::Plain(node) => Some((node, Incarnation::FIRST)),
            Seat::Logged(durable) => Some((durable.node(), durable.incarnation())),
            Seat::Replica(replica) => replica.serving(),
            Seat::Down(_) => None,
        }
    }

    /// The replica, if there is one and it lives.
    pub(crate) fn replica(&self) -> Option<&ReplicaNode<P, MemoryDisk>> {
        match &self.seat {
            Seat::Replica(replica) => Some(replica),
            _ => None,
        }
    }

    /// When time has something to do here next.
    pub(crate) fn next_alarm(&self) -> Option<Ticks> {
        match &self.seat {
            Seat::Replica(replica) => Some(replica.next_alarm()),
            _ => self.node().and_then(Node::next_alarm),
        }
    }

    /// Which of its lives this is; a replica's are counted by the host.
    fn life(&self) -> Option<Incarnation> {
        match &self.seat {
            Seat::Logged(durable) => Some(durable.incarnation()),
            Seat::Replica(_) => Some(Incarnation(self.returns)),
            Seat::Plain(_) | Seat::Down(_) => None,
        }
    }

    /// The life of its node, and how many steps of that there were; nothing where no node is.
    pub(crate) fn progress(&self) -> Option<(Incarnation, u64)> {
        self.alive().map(|(node, life)| (life, node.steps()))
    }

    pub(crate) fn is_down(&self) -> bool {
        matches!(self.seat, Seat::Down(_))
    }

    fn disk(&mut self) -> Option<&mut MemoryDisk> {
        match &mut self.seat {
            Seat::Plain(_) => None,
            Seat::Logged(durable) => Some(durable.media_mut()),
            Seat::Replica(replica) => Some(replica.media_mut()),
            Seat::Down(disk) => Some(disk),
        }
    }

    /// Makes the disk as bad as the faults say that are on.
    fn set_troubles(&mut self) {
        let has = |trouble| self.troubles.get(&trouble).is_some_and(|count| *count > 0);
        let (full, reads_fail) = (has(DiskTrouble::Full), has(DiskTrouble::ReadsFail));
        let (syncs_fail, sync_lies) = (has(DiskTrouble::SyncsFail), has(DiskTrouble::SyncsLie));
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

    fn has_troubles(&self) -> bool {
        self.troubles.values().any(|count| *count > 0)
    }
}

/// How long an aborted attempt waits at most: what refused it may be held for as long as a transaction
/// takes to commit, which is some round trips, and asking more often than that is in vain.
fn longest_wait(network: &Network, nodes: u16) -> Ticks {
    let trip = network.longest(nodes);
    Backoff::default().longest.max(Ticks(trip.0 * 8))
}

/// What a cluster needs to bring a node back.
#[derive(Clone)]
pub(crate) struct Revival {
    pub(crate) shared: Shared,
    durable: bool,
    /// Whether nodes and stores record what they do.
    records: bool,
    /// An empty store of the application's tables.
    pub(crate) empty: Store,
    /// What identity columns held when the run began.
    numbers: SequenceStarts,
    /// No aborted attempt waits longer before it is made again.
    longest_wait: Ticks,
}

impl Revival {
    pub(crate) fn new(
        shared: &Shared,
        durable: bool,
        history: bool,
        empty: Store,
        numbers: SequenceStarts,
        network: &Network,
    ) -> Revival {
        Revival {
            numbers,
            longest_wait: longest_wait(network, shared.topology.owners.len() as u16),
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
        life: Incarnation,
    ) -> Node<P> {
        let options = NodeOptions {
            declares: self.shared.protocol.declares(),
            // Costs look at what attempts have changed.
            records: self.records || self.shared.processor.is_some(),
            incarnation: life,
            backoff: Backoff {
                longest: self.longest_wait,
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

    /// A node's first life.
    pub(crate) fn give_birth<P: Simulated>(
        &self,
        number: u16,
        mut store: Store,
    ) -> Result<(Seat<P>, Option<Box<Store>>), DurableError> {
        if self.records {
            store.record();
        }
        if !self.durable {
            let protocol = P::make(NodeId(number), &self.shared, store);
            let node = self.node(number, protocol, Incarnation::FIRST);
            return Ok((Seat::Plain(Box::new(node)), None));
        }
        let base = Box::new(store.clone());
        let seat = self.open(number, MemoryDisk::new(), Ticks(0), store)?;
        Ok((Seat::Logged(Box::new(seat)), Some(base)))
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
        DurableNode::open(disk, LOGS, now, protocol, |protocol, life| {
            self.node(number, protocol, life)
        })
    }
}

impl<P: Simulated> Cluster<P> {
    /// Lets a node do something, and sees to what follows from it.
    pub(crate) fn drive(&mut self, node: u16, input: NodeInput<P::Message>) {
        let costs = self.model.is_some() || self.meter.is_some();
        let host = &mut self.hosts[usize::from(node)];
        let now = local(self.now, host.skew);
        if let (NodeInput::Restarted { node: back }, Some(links)) = (&input, &mut host.links) {
            links.noticed(*back);
        }
        if let Seat::Replica(_) = &host.seat {
            let input = match input {
                NodeInput::Tick => ReplicaInput::Tick,
                other => ReplicaInput::Node(other),
            };
            return self.drive_replica(node, input);
        }
        let mut out = self.out.take().unwrap_or_default();
        let flushed = match &mut host.seat {
            Seat::Plain(_) if costs => {
                self.drive_timed(node, input, &mut out);
                Ok(())
            }
            Seat::Plain(plain) => {
                plain.step(now, input, &mut out);
                Ok(())
            }
            Seat::Logged(durable) => {
                durable.step(now, input);
                durable.flush(&mut out)
            }
            Seat::Replica(_) | Seat::Down(_) => Ok(()),
        };
        self.out = Some(out);
        self.after_step(node, flushed);
    }

    /// A sync has ended at a node's disk, if the node still lives the same life.
    pub(crate) fn sync_ends(&mut self, node: u16, life: Incarnation, until: LogPosition) {
        let host = &mut self.hosts[usize::from(node)];
        if host.life() != Some(life) {
            return;
        }
        if host.pauses > 0 {
            host.synced = Some(until);
            return;
        }
        if let Seat::Replica(_) = &host.seat {
            return self.sync_replica(node, until);
        }
        let mut out = self.out.take().unwrap_or_default();
        let synced = match &mut host.seat {
            Seat::Logged(durable) => durable
                .end_sync(until, &mut out)
                .and_then(|()| durable.checkpoint_if_due(&mut out)),
            _ => Ok(false),
        };
        self.out = Some(out);
        if synced == Ok(true) {
            self.happened.sometimes("a node wrote a checkpoint");
        }
        self.after_step(node, synced.map(|_| ()));
    }

    /// A node goes on after a pause.
    pub(crate) fn wake_up(&mut self, node: u16) {
        let host = &mut self.hosts[usize::from(node)];
        if let (Some(until), Some(life)) = (host.synced.take(), host.life()) {
            self.sync_ends(node, life, until);
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
        self.let_out(node);
        if let Err(error) = result {
            self.disk_failed(node, &error);
        }
        self.begin_sync(node);
        self.flush_links(node);
    }

    /// Lets a diagram know what a host's store has come to show.
    fn note_installed(&mut self, host: u16) {
        let node = self.node_of(host) % self.placement.nodes();
        let alive = self.hosts[usize::from(host)].node();
        if let (Some(recorder), Some(alive)) = (&mut self.recorder, alive) {
            let installed = alive.protocol().store().installed();
            let schema = self.revival.shared.planned.schema();
            recorder.installed(host, node, self.now, installed, schema);
        }
    }

    /// Sends and answers what a node has let out.
    pub(crate) fn let_out(&mut self, node: u16) {
        if self.recorder.is_some() {
            self.note_installed(node);
        }
        let Some(mut out) = self.out.take() else {
            return;
        };
        // Most steps leave one message or one outcome: what is empty is not gone through.
        if !out.messages.is_empty() {
            for (to, message) in out.messages.drain(..) {
                self.send(node, to.0, message);
            }
        }
        if !out.attempts.is_empty() {
            for attempt in out.attempts.drain(..) {
                self.acknowledge(&attempt);
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

    /// Takes note of what must never be gone.
    fn acknowledge(&mut self, attempt: &AttemptRecord) {
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
        let until = match &mut host.seat {
            Seat::Logged(durable) => durable.begin_sync(),
            Seat::Replica(replica) => replica.begin_sync(),
            Seat::Plain(_) | Seat::Down(_) => None,
        };
        let (Some(until), Some(life)) = (until, host.life()) else {
            return;
        };
        let takes = latency::sample(SYNC, &mut self.disk_random);
        let takes = Ticks(takes.0 * (100 + host.slower) / 100);
        let done = Event::Synced { node, life, until };
        self.queue.push(self.now + takes, done);
    }

    /// A node stops, since its disk has failed: it is as good as crashed.
    fn disk_failed(&mut self, node: u16, error: &LogError) {
        if !self.hosts[usize::from(node)].has_troubles() {
            self.violate(node, &format!("its log has failed: {error}"));
        }
        self.happened
            .sometimes("a node stopped, since its disk had failed");
        self.die(node);
    }

    /// A node dies: everything but its disk is gone, and of that what was not synced.
    fn die(&mut self, node: u16) {
        let host = &mut self.hosts[usize::from(node)];
        let seat = std::mem::replace(&mut host.seat, Seat::Down(MemoryDisk::new()));
        let mut disk = match seat {
            Seat::Logged(durable) => {
                if durable.node().calls() > 0 {
                    self.happened.sometimes("a node died with calls under way");
                }
                if durable.holds_output() {
                    self.happened
                        .sometimes("a node died with something unsaid, since it was not durable");
                }
                let installed = durable.node().protocol().store().installed();
                self.lives[usize::from(node)].lost = installed.to_vec();
                if let Some(recording) = &mut self.recording {
                    recording.lost(durable.node().open_attempts(), self.now);
                }
                durable.into_media()
            }
            Seat::Replica(replica) => {
                let (disk, lost) = replica.into_parts();
                if let Some(lost) = lost {
                    self.node_is_lost(node, &lost);
                }
                disk
            }
            Seat::Down(disk) => disk,
            Seat::Plain(_) => unreachable!("a node without a log cannot die"),
        };
        disk.crash(&mut |below| self.disk_random.below(below));
        let host = &mut self.hosts[usize::from(node)];
        host.seat = Seat::Down(disk);
        host.missed.clear();
        host.tick = None;
        host.synced = None;
        self.take_links(node);
    }

    /// Nothing speaks for a node from this host any more, and nobody answers who has called it here.
    pub(crate) fn take_links(&mut self, host: u16) {
        let number = usize::from(host);
        self.hosts[number].link_tick = None;
        self.hosts[number].unconfirmed.clear();
        if let Some(links) = self.hosts[number].links.take() {
            network::add(&mut self.buried_links, &links.counters());
        }
        let node = self.node_of(host);
        if let Some(recorder) = &mut self.recorder {
            recorder.died(node);
        }
        self.clients_lose(host);
    }

    /// A crash begins or ends.
    pub(crate) fn crash(&mut self, node: u16, clock_us: i64, begins: bool) {
        let host = &mut self.hosts[usize::from(node)];
        if begins {
            host.crashes += 1;
            if !host.is_down() {
                self.die(node);
            }
            return;
        }
        host.crashes -= 1;
        // It need not come back at the time at which it died.
        host.skew += clock_us * 1_000;
        self.revive(node);
    }

    /// A disk's trouble begins or ends.
    pub(crate) fn trouble(&mut self, node: u16, trouble: DiskTrouble, begins: bool) {
        let host = &mut self.hosts[usize::from(node)];
        let count = host.troubles.entry(trouble).or_insert(0);
        *count = if begins { *count + 1 } else { *count - 1 };
        host.set_troubles();
        if !begins {
            self.revive(node);
        }
    }

    /// Lets a dead node come back, if nothing keeps it down.
    fn revive(&mut self, node: u16) {
        let host = &mut self.hosts[usize::from(node)];
        if host.crashes > 0 || !host.is_down() {
            return;
        }
        let Seat::Down(disk) = &host.seat else { return };
        let now = local(self.now, host.skew);
        let disk = disk.clone();
        if self.placement.factor() > 1 {
            return self.revive_replica(node, disk, now);
        }
        let opened = self
            .revival
            .open::<P>(node, disk, now, self.revival.empty.clone());
        let durable = match opened {
            Ok(durable) => durable,
            Err(error) => return self.stays_down(node, &error),
        };
        self.happened.sometimes("a node came back");
        if durable.opened().cut > 0 {
            self.happened.sometimes("a torn end of a log was cut off");
        }
        if durable.opened().checkpointed > 0 && durable.incarnation().0 > 2 {
            self.happened.sometimes("a node came back more than once");
        }
        let life = durable.incarnation();
        self.hosts[usize::from(node)].seat = Seat::Logged(Box::new(durable));
        self.compare(node);
        let links = self.make_links(node, life);
        self.hosts[usize::from(node)].links = links;
        self.use_links(node, |links, now, out| links.greet(now, out));
        let mut out = self.out.take().unwrap_or_default();
        let flushed = match &mut self.hosts[usize::from(node)].seat {
            Seat::Logged(durable) => durable.flush(&mut out),
            _ => Ok(()),
        };
        self.out = Some(out);
        self.after_step(node, flushed);
        self.check_node(node);
        self.reset_tick(node);
    }

    /// A node cannot come back.
    pub(crate) fn stays_down(&mut self, node: u16, error: &DurableError) {
        self.happened
            .sometimes("a node could not come back at once");
        if !self.hosts[usize::from(node)].has_troubles() {
            self.violate(node, &format!("it cannot come back: {error}"));
        }
    }

    /// A replica lives, again or for the first time.
    pub(crate) fn seat_replica(&mut self, host: u16, replica: ReplicaNode<P, MemoryDisk>) {
        let host = &mut self.hosts[usize::from(host)];
        host.seat = Seat::Replica(Box::new(replica));
        host.returns += 1;
    }

    /// Lets a replica do something, and sees to what follows from it.
    pub(crate) fn use_replica(
        &mut self,
        host: u16,
        act: impl FnOnce(
            &mut ReplicaNode<P, MemoryDisk>,
            Ticks,
            &mut ReplicaOutbox<P>,
        ) -> Result<(), LogError>,
    ) {
        let seat = &mut self.hosts[usize::from(host)];
        let now = local(self.now, seat.skew);
        let Seat::Replica(replica) = &mut seat.seat else {
            return;
        };
        let mut out = ReplicaOutbox::default();
        let done = act(replica, now, &mut out);
        self.replica_said(host, out);
        self.after_step(host, done);
        self.take_confirmed(host);
    }

    /// DUR-I2: a store that has come back is what it was after some prefix of its commits.
    pub(crate) fn compare(&mut self, node: u16) {
        self.compared += 1;
        let lives = &mut self.lives[usize::from(node)];
        let lost = std::mem::take(&mut lives.lost);
        let alive = self.hosts[usize::from(lives.host)].node();
        let (Some(base), Some(alive)) = (&lives.base, alive) else {
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
            .then(|| format!("DUR-I2: it comes back with {last}, and had come to {end}"));
        let mut rows = rows_of(base);
        let kept: Vec<Installed> = lost
            .into_iter()
            .filter(|one| one.sequence <= last)
            .collect();
        for one in &kept {
            lives.found.insert(one.timestamp);
            for change in &one.changes {
                let item = (change.table, change.key.clone());
                match &change.row {
                    Some(row) => rows.insert(item, row.clone()),
                    None => rows.remove(&item),
                };
            }
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
                "DUR-I2: it comes back as of {last} with other rows than it had then; the first \
                 is {first:?}"
            ));
        }
        if let Err(error) = store.check_invariants() {
            broken.get_or_insert(format!("its store has come back broken: {error}"));
        }
        let mut base = Box::new(store.clone());
        base.take_installed();
        lives.base = Some(base);
        if beyond {
            self.happened
                .sometimes("a crash lost a commit that nobody had been told of");
        }
        if let Some(broken) = broken {
            self.violate(node, &broken);
        }
    }

    /// When a client tries a node again that is dead.
    pub(crate) fn retry_at(&self) -> Ticks {
        self.now + RETRY
    }

    /// Whether a transaction with this timestamp is installed at a node.
    fn has_installed(&self, node: u16, timestamp: Timestamp) -> bool {
        let lives = &self.lives[usize::from(node)];
        let here = |node: &Node<P>| {
            let installed = node.protocol().store().installed();
            installed.iter().any(|one| one.timestamp == timestamp)
        };
        let node = self.hosts[usize::from(lives.host)].node();
        lives.found.contains(&timestamp) || node.is_some_and(here)
    }

    /// What was acknowledged and is not there (DUR-I1).
    pub(crate) fn missing_commits(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for (timestamp, partitions) in &self.acknowledged {
            for partition in partitions {
                let first = partition.0 * self.clusters;
                for node in first..first + self.clusters {
                    if !self.has_installed(node, *timestamp) {
                        missing.push(format!(
                            "DUR-I1: {timestamp} was acknowledged, and is not at n{node}"
                        ));
                    }
                }
            }
        }
        missing
    }
}

/// A store's newest rows.
pub(crate) fn rows_of(store: &Store) -> BTreeMap<(TableId, Key), Row> {
    let mut rows = BTreeMap::new();
    for table in (0..store.tables()).map(TableId) {
        let fetched = store.fetch(&whole_table(table), None);
        let fetched = fetched.expect("the newest rows are kept");
        if let Fetched::Range(found) = fetched.into_answer() {
            rows.extend(found.into_iter().map(|(key, row)| ((table, key), row)));
        }
    }
    rows
}
