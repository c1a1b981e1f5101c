//! The virtual cluster: the engine's nodes, unchanged, in one thread and in virtual time.
//!
//! One queue holds all events: a message arrives, a node's timer fires, a client continues, a fault
//! begins or ends. Nothing else influences a run. So the seed determines it, and two runs of one
//! seed have the same [trace hash](Cluster::trace).
//!
//! * `host`: a node's machine, with its disk, its crashes and its restarts.
//! * `checkpoints`: what nodes with logs write between their steps.
//! * `replicas`: nodes with replicas, and which of these is the primary.
//! * `network`: links that lose, duplicate and reorder packets.
//! * [`clients`]: closed loops that make calls and check the answers.
//! * `blocks`: clients that run transactions of their own, statement by statement.
//! * `cores`: the processing time of steps.

mod blocks;
mod checkpoints;
pub mod clients;
mod cores;
pub(crate) mod host;
mod network;
mod replicas;

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::hash::Hasher;
use std::rc::Rc;

use anabranch_engine::sequence::SequenceStarts;
use anabranch_engine::{Batch, DurableError, Node, NodeInput, NodeOutbox, Outcome, ReplicaInput};
use anabranch_protocol::Counters;
use anabranch_protocol::link::{Incarnation, LinkCounters, LinkOptions, Packet};
use anabranch_protocol::replication::{self, PrimaryCache, ReplicaOptions, ReplicaPlacement};
use anabranch_storage::{LogPosition, Store};
use anabranch_types::{NodeId, PartitionId, SplitMix64, Ticks, Timestamp};
use rustc_hash::FxHasher;

use self::clients::Clients;
use self::host::{Host, Incarnations, NodeBuilder};
use self::network::{NetworkModel, link_options};
use self::replicas::replica_options;
use crate::clock::EPOCH;
use crate::cost::{Meter, Model};
use crate::diagram::Recorder;
use crate::fault::{Fault, FaultKind, FaultPlan};
use crate::history::Recording;
use crate::latency::Network;
use crate::protocols::{Shared, Simulated};
use crate::queue::Queue;
use crate::report::RunStatistics;

/// How closely a run is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// A node's invariants are checked every so many of its steps; 0 is never.
    pub invariants_every: u32,
    /// Whether the trace hash covers the contents of messages, beside the times and places of their arrival.
    pub hash_contents: bool,
    /// Whether the run's history is recorded, and checked at its end.
    pub history: bool,
}

impl Watch {
    /// All checks, after every step.
    pub const CLOSE: Watch = Watch {
        invariants_every: 1,
        hash_contents: true,
        history: true,
    };
    /// No checks, for speed.
    pub const FAST: Watch = Watch {
        invariants_every: 0,
        hash_contents: false,
        history: false,
    };
}

/// An event of the simulation.
pub(crate) enum Event<M> {
    /// A message reaches its node.
    Deliver { from: u16, to: u16, message: M },
    /// A packet reaches a host, directly or forwarded by a backup.
    Packet {
        from: u16,
        to: u16,
        packet: Box<Packet<M>>,
        is_forwarded: bool,
    },
    /// A message between replicas of one node arrives.
    Replica {
        from: u16,
        to: u16,
        message: Box<replication::Message<Batch>>,
    },
    /// A node's links may have to retransmit something.
    LinkTick { node: u16 },
    /// A sync ends that this incarnation of a node began.
    Synced {
        node: u16,
        incarnation: Incarnation,
        until: LogPosition,
    },
    /// A sync of a checkpoint ends that this incarnation of a node began.
    CheckpointSynced {
        node: u16,
        incarnation: Incarnation,
        bytes: u64,
    },
    /// A core has finished its step.
    CoreFree { node: u16 },
    /// Answers leave a node. `frees` says whether the core that made them becomes free.
    Answers {
        node: u16,
        outcomes: Vec<Outcome>,
        frees: bool,
    },
    /// A node's timer may have fired.
    Tick { node: u16 },
    /// A client continues.
    Client(u32),
    /// The plan's fault of this number begins.
    Begin(u32),
    /// The plan's fault of this number ends.
    End(u32),
}

/// A cluster under simulation.
pub struct Cluster<P: Simulated> {
    pub(crate) now: Ticks,
    /// One host for each replica: first the replicas 0 of all nodes, then the replicas 1, and so on. Without
    /// replicas a node's number is its host's.
    pub(crate) hosts: Vec<Host<P>>,
    /// The number of clusters, each with all partitions. Node *n* is in cluster *n* mod `clusters`, and owns
    /// partition *n* / `clusters`.
    pub(crate) clusters: u16,
    /// The server of each replica.
    pub(crate) placement: ReplicaPlacement,
    /// Timeouts and other options of replication groups.
    pub(crate) replicas: ReplicaOptions,
    /// By node.
    pub(crate) incarnations: Vec<Incarnations>,
    /// By server: where it believes each node's primary to be.
    pub(crate) primary_caches: Vec<PrimaryCache>,
    pub(crate) network: NetworkModel,
    /// The links' timeouts; `None` in a run without faults.
    pub(crate) link_options: Option<LinkOptions>,
    /// The counters of closed links.
    pub(crate) closed_links: LinkCounters,
    pub(crate) node_builder: Rc<NodeBuilder>,
    pub(crate) disk_random: SplitMix64,
    /// In a run with logs: the acknowledged commits, and the partitions that they wrote.
    pub(crate) acknowledged: BTreeMap<Timestamp, Vec<PartitionId>>,
    /// The number of recovered stores that were compared with their earlier states.
    pub(crate) compared: u64,
    pub(crate) queue: Queue<Event<P::Message>>,
    pub(crate) clients: Clients,
    faults: Vec<Fault>,
    pub(crate) watch: Watch,
    /// A node's output, empty between steps; kept for its allocation.
    pub(crate) out: Option<Box<NodeOutbox<P::Message>>>,
    trace: FxHasher,
    text: String,
    /// The number of events so far.
    pub(crate) events: u64,
    /// What was counted.
    pub(crate) statistics: RunStatistics,
    /// The violations, earliest first.
    pub(crate) violations: Vec<String>,
    /// Records what a diagram needs.
    pub(crate) recorder: Option<Recorder>,
    /// Records the run's history.
    pub(crate) recording: Option<Recording>,
    /// The cost model; without it steps take no time.
    pub(crate) model: Option<Model>,
    /// Measures each step.
    pub(crate) meter: Option<Box<dyn Meter>>,
}

impl<P: Simulated> Cluster<P> {
    /// A cluster at time 0, with one node for each store.
    ///
    /// # Errors
    /// If nodes or disks may fail, or nodes are replicated, and the protocol writes no log records.
    pub fn new(
        seed: u64,
        shared: &Shared,
        stores: Vec<Store>,
        network: &Network,
        plan: &FaultPlan,
        watch: Watch,
        clients: Clients,
    ) -> Result<Cluster<P>, DurableError> {
        let nodes = stores.len() as u16;
        let empty = stores[0].emptied();
        let numbers = SequenceStarts::of(&shared.planned, &stores);
        let placement = shared.placement;
        let replicated = placement.factor() > 1;
        let durable = replicated || plan.needs_logs();
        let node_builder =
            NodeBuilder::new(shared, durable, watch.history, empty, numbers, network);
        let node_builder = Rc::new(node_builder);
        let replicas = replica_options(network, nodes, seed);
        let (mut hosts, mut incarnations) = (Vec::with_capacity(stores.len()), Vec::new());
        if replicated {
            (hosts, incarnations) = replicas::build(&node_builder, stores, placement, replicas)?;
        } else {
            for (store, number) in stores.into_iter().zip(0..) {
                let (state, base) = node_builder.build(number, store)?;
                hosts.push(Host::new(state, EPOCH));
                incarnations.push(Incarnations::new(number, base));
            }
        }
        let mut queue = Queue::new(seed);
        for (number, fault) in (0..).zip(&plan.faults) {
            queue.push(Ticks::from_micros(fault.at_us), Event::Begin(number));
            let end = fault.at_us.saturating_add(fault.for_us);
            queue.push(Ticks::from_micros(end), Event::End(number));
        }
        let mut cluster = Cluster {
            now: Ticks(0),
            hosts,
            clusters: shared.clusters,
            placement,
            replicas,
            incarnations,
            primary_caches: vec![PrimaryCache::new(nodes, placement.factor()); usize::from(nodes)],
            network: NetworkModel::new(seed, nodes, network),
            link_options: (replicated || !plan.faults.is_empty())
                .then(|| link_options(network, nodes)),
            closed_links: LinkCounters::default(),
            node_builder,
            disk_random: SplitMix64::stream(seed, "disks", 0),
            acknowledged: BTreeMap::new(),
            compared: 0,
            queue,
            clients,
            faults: plan.faults.clone(),
            watch,
            out: None,
            trace: FxHasher::default(),
            text: String::new(),
            events: 0,
            statistics: RunStatistics::default(),
            violations: Vec::new(),
            recorder: None,
            recording: watch.history.then(|| Recording::of_clusters(shared)),
            model: shared
                .processor
                .as_ref()
                .map(|processor| Model::new(processor, shared.protocol.declares())),
            meter: None,
        };
        for node in 0..nodes {
            let links = cluster.make_links(node, Incarnation::FIRST);
            cluster.hosts[usize::from(node)].links = links;
        }
        if replicated {
            for host in 0..cluster.hosts.len() as u16 {
                cluster.reset_tick(host);
            }
        }
        for client in 0..cluster.clients.count() {
            let at = cluster.clients.first_call(client);
            cluster.queue.push(at, Event::Client(client));
        }
        Ok(cluster)
    }

    /// Virtual time.
    pub fn now(&self) -> Ticks {
        self.now
    }

    /// A hash of all events so far, in order.
    pub fn trace(&self) -> u64 {
        self.trace.finish()
    }

    /// The protocols of the nodes that are up.
    pub fn protocols(&self) -> impl Iterator<Item = &P> {
        let nodes = (0..self.incarnations.len()).filter_map(|node| self.node(node as u16));
        nodes.map(|node| node.protocol())
    }

    /// The node of this number, in its latest incarnation, if that is up.
    pub(crate) fn node(&self, node: u16) -> Option<&Node<P>> {
        let host = self.incarnations[usize::from(node)].host;
        self.hosts[usize::from(host)].node()
    }

    /// The sum of the nodes' counters.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for protocol in self.protocols() {
            sum.add(protocol.counters());
        }
        sum
    }

    /// The number of calls that nodes are running.
    pub(crate) fn calls(&self) -> usize {
        let nodes = self.hosts.iter().filter_map(Host::node);
        nodes.map(|node| node.calls()).sum()
    }

    /// The number of transactions that clients have open.
    pub(crate) fn open_blocks(&self) -> usize {
        let nodes = self.hosts.iter().filter_map(Host::node);
        nodes.map(|node| node.open_blocks()).sum()
    }

    /// Whether no event is left.
    pub fn is_quiet(&self) -> bool {
        self.queue.is_empty()
    }

    /// Processes the next event.
    pub fn advance(&mut self) {
        let Some((at, event)) = self.queue.pop() else {
            return;
        };
        self.now = self.now.max(at);
        self.events += 1;
        self.trace.write_u64(self.now.0);
        match event {
            Event::Deliver { from, to, message } => {
                self.trace.write_u32(u32::from(from) << 16 | u32::from(to));
                if self.watch.hash_contents {
                    self.hash_contents(&message);
                }
                if let Some(recorder) = &mut self.recorder {
                    recorder.received(from, to, self.now);
                }
                let from = NodeId(from);
                self.give(to, NodeInput::Message { from, message });
            }
            Event::Packet {
                from,
                to,
                packet,
                is_forwarded,
            } => {
                self.trace
                    .write_u32(3 << 30 | u32::from(from) << 15 | u32::from(to));
                if self.watch.hash_contents {
                    self.hash_contents(&packet);
                }
                self.packet_arrives(from, to, *packet, is_forwarded);
            }
            Event::Replica { from, to, message } => {
                self.trace.write_u32(1 << 19 | 3 << 30);
                self.trace.write_u32(u32::from(from) << 16 | u32::from(to));
                if self.watch.hash_contents {
                    self.hash_contents(&message);
                }
                let from = self.replica_of(from);
                let message = *message;
                self.give_replica(to, ReplicaInput::Replica { from, message });
            }
            Event::LinkTick { node } => {
                self.trace.write_u32(1 << 17 | u32::from(node));
                if self.hosts[usize::from(node)].link_tick == Some(self.now) {
                    self.hosts[usize::from(node)].link_tick = None;
                    self.links_tick(node);
                    self.reset_link_tick(node);
                }
            }
            Event::Synced {
                node,
                incarnation,
                until,
            } => {
                self.trace.write_u32(1 << 18 | u32::from(node));
                self.trace.write_u64(until.0);
                self.sync_ends(node, incarnation, until);
            }
            Event::CheckpointSynced {
                node,
                incarnation,
                bytes,
            } => {
                self.trace.write_u32(1 << 20 | u32::from(node));
                self.trace.write_u64(bytes);
                self.checkpoint_synced(node, incarnation, bytes);
            }
            Event::Tick { node } => {
                self.trace.write_u32(1 << 16 | u32::from(node));
                let host = &mut self.hosts[usize::from(node)];
                if host.tick == Some(self.now) {
                    host.tick = None;
                    self.give(node, NodeInput::Tick);
                }
            }
            Event::CoreFree { node } => self.core_is_free(node),
            Event::Answers {
                node,
                outcomes,
                frees,
            } => self.answers_leave(node, outcomes, frees),
            Event::Client(client) => {
                self.trace.write_u32(1 << 31 | client);
                self.advance_client(client);
            }
            Event::Begin(number) => {
                let kind = self.faults[number as usize].kind.clone();
                self.statistics.fault(kind.name());
                self.apply_fault(&kind, true);
            }
            Event::End(number) => {
                let kind = self.faults[number as usize].kind.clone();
                self.apply_fault(&kind, false);
            }
        }
    }

    fn hash_contents(&mut self, message: &impl Debug) {
        self.text.clear();
        write!(self.text, "{message:?}").expect("writing to a string succeeds");
        self.trace.write(self.text.as_bytes());
    }

    /// Wakes a client at a time.
    pub(crate) fn wake(&mut self, client: u32, at: Ticks) {
        self.queue.push(at, Event::Client(client));
    }

    /// Gives a node an input, at once or when its pause ends.
    pub(crate) fn give(&mut self, node: u16, input: NodeInput<P::Message>) {
        let host = &mut self.hosts[usize::from(node)];
        if host.pauses > 0 {
            self.statistics.sometimes("an input reached a paused node");
            host.missed.push_back(ReplicaInput::Node(input));
            return;
        }
        if let Some(input) = self.waits_for_core(node, input) {
            self.step(node, input);
        }
    }

    /// Steps a node with an input, and checks its invariants.
    pub(crate) fn step(&mut self, node: u16, input: NodeInput<P::Message>) {
        self.drive(node, input);
        self.check_node(node);
        self.reset_tick(node);
    }

    pub(crate) fn check_node(&mut self, node: u16) {
        if self.hosts[usize::from(node)].replica().is_some() {
            self.check_replica(node);
        }
        let every = self.watch.invariants_every;
        if every == 0 {
            return;
        }
        let host = &mut self.hosts[usize::from(node)];
        // Only steps change a protocol's state. Heartbeats, the bulk of a replica's messages, do not step it.
        let Some(progress) = host.progress() else {
            return;
        };
        if host.last_checked.replace(progress) == Some(progress) {
            return;
        }
        host.steps += 1;
        if host.steps.is_multiple_of(every)
            && let Some(alive) = host.node()
            && let Err(broken) =
                (alive.protocol().check_invariants()).and_then(|()| alive.check_blocks())
        {
            self.violate(node, &broken);
        }
    }

    /// Records a violation at a node.
    pub(crate) fn violate(&mut self, node: u16, what: &str) {
        if let Some(recorder) = &mut self.recorder {
            recorder.violated(self.now);
        }
        self.violations
            .push(format!("n{node} at {} us: {what}", self.now.as_micros()));
    }

    /// Schedules the event of a node's next timer.
    pub(crate) fn reset_tick(&mut self, node: u16) {
        let host = &mut self.hosts[usize::from(node)];
        if host.cores.timer_waits {
            return;
        }
        let Some(alarm) = host.next_alarm() else {
            return;
        };
        let due = (alarm.0 as i64 - host.skew).max(self.now.0 as i64) as u64;
        if host.tick.is_none_or(|tick| due < tick.0) {
            host.tick = Some(Ticks(due));
            self.queue.push(Ticks(due), Event::Tick { node });
        }
    }

    /// Begins or ends a fault.
    fn apply_fault(&mut self, kind: &FaultKind, begins: bool) {
        match kind {
            FaultKind::LatencySpike { percent } => {
                adjust(
                    &mut self.network.faults.slowdown_percent,
                    percent - 100,
                    begins,
                );
            }
            FaultKind::Loss { percent } => {
                adjust(&mut self.network.faults.loss_percent, *percent, begins);
            }
            FaultKind::Duplication { percent } => {
                adjust(
                    &mut self.network.faults.duplication_percent,
                    *percent,
                    begins,
                );
            }
            FaultKind::Reordering { percent } => {
                adjust(
                    &mut self.network.faults.reordering_percent,
                    *percent,
                    begins,
                );
            }
            FaultKind::SlowLink { from, to, extra_us } => {
                let extra = Ticks::from_micros(*extra_us);
                self.network.slow(*from, *to, extra, begins);
            }
            FaultKind::Partition { from, to, one_way } => {
                for (a, b) in from.iter().flat_map(|a| to.iter().map(move |b| (*a, *b))) {
                    self.network.cut(a, b, begins);
                    if !one_way {
                        self.network.cut(b, a, begins);
                    }
                }
            }
            FaultKind::Crash { node, clock_us } => {
                for host in self.hosts_at(*node) {
                    self.crash(host, *clock_us, begins);
                }
            }
            FaultKind::PermanentLoss { node } => {
                for host in self.hosts_at(*node).into_iter().filter(|_| begins) {
                    self.crash(host, 0, true);
                }
            }
            FaultKind::Disk { node, failure } => {
                for host in self.hosts_at(*node) {
                    self.set_disk_failure(host, *failure, begins);
                }
            }
            FaultKind::SlowDisk { node, percent } => {
                for host in self.hosts_at(*node) {
                    let host = &mut self.hosts[usize::from(host)];
                    adjust(&mut host.slowdown_percent, percent - 100, begins);
                }
            }
            FaultKind::Pause { node } => {
                for host in self.hosts_at(*node) {
                    self.pause(host, begins);
                }
            }
            FaultKind::ClockSkew { node, by_us } => {
                let by = by_us * 1_000;
                for number in self.hosts_at(*node) {
                    let host = &mut self.hosts[usize::from(number)];
                    host.skew += if begins { by } else { -by };
                    // Timers that were set by the old clock fire by the new one.
                    host.tick = None;
                    self.reset_tick(number);
                }
            }
            FaultKind::ClientCrash { client } => {
                if begins {
                    self.crash_client(*client);
                }
            }
        }
    }

    fn pause(&mut self, node: u16, begins: bool) {
        let host = &mut self.hosts[usize::from(node)];
        if begins {
            host.pauses += 1;
            return;
        }
        host.pauses -= 1;
        if host.pauses == 0 {
            self.resume(node);
        }
    }
}

/// Adds `by` when a fault begins, and subtracts it when the fault ends.
fn adjust(number: &mut u64, by: u64, begins: bool) {
    *number = if begins { *number + by } else { *number - by };
}
