//! The virtual cluster: engine nodes, unchanged, in one thread and in virtual time.
//!
//! Everything that happens is an event of one queue: a message arrives, a node's timer runs out, a
//! client goes on, a fault begins or ends. Nothing else decides anything, so the seed gives the
//! run, and two runs of one seed have the same [trace hash](Cluster::trace).
//!
//! How messages travel is [`crate::network`]'s part. What a paused node would receive waits for it.

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

use crate::clients::Clients;
use crate::cost::{Meter, Model};
use crate::diagram::Recorder;
use crate::fault::{Fault, FaultKind, FaultPlan};
use crate::history::Recording;
use crate::host::{Host, Lives, Revival};
use crate::latency::Network;
use crate::network::{Wires, link_options};
use crate::protocols::{Shared, Simulated};
use crate::queue::Queue;
use crate::replicas::replica_options;
use crate::report::Happenings;

/// How closely a run is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Every so many steps of a node its invariants are checked; 0 is never.
    pub invariants_every: u32,
    /// Whether the trace hash takes in what messages say, not only when they arrive and where.
    pub hash_contents: bool,
    /// Whether the run's history is recorded, and judged at its end.
    pub history: bool,
}

impl Watch {
    /// Everything.
    pub const CLOSE: Watch = Watch {
        invariants_every: 1,
        hash_contents: true,
        history: true,
    };
    /// As little as a run for speed can do with.
    pub const FAST: Watch = Watch {
        invariants_every: 0,
        hash_contents: false,
        history: false,
    };
}

/// What may happen next.
pub(crate) enum Event<M> {
    /// A message reaches its node.
    Deliver { from: u16, to: u16, message: M },
    /// A packet reaches a host, passed on or not.
    Packet {
        from: u16,
        to: u16,
        packet: Box<Packet<M>>,
        passed_on: bool,
    },
    /// A message reaches another replica of its sender's node.
    Replica {
        from: u16,
        to: u16,
        message: Box<replication::Message<Batch>>,
    },
    /// A node's links may have something to send again.
    LinkTick { node: u16 },
    /// A sync ends at the disk of a node in this life.
    Synced {
        node: u16,
        life: Incarnation,
        until: LogPosition,
    },
    /// A core has done its step.
    CoreFree { node: u16 },
    /// Answers leave a node; with them the core that has made them may be free.
    Answers {
        node: u16,
        outcomes: Vec<Outcome>,
        frees: bool,
    },
    /// A node's timer may have run out.
    Tick { node: u16 },
    /// A client does what it does next.
    Client(u32),
    /// The fault of this number begins.
    Begin(u32),
    /// The fault of this number ends.
    End(u32),
}

/// What every clock shows when virtual time is 0, so that a clock that is behind is not before the
/// beginning.
pub(crate) const EPOCH: i64 = 10_000_000_000;

/// A cluster under simulation.
pub struct Cluster<P: Simulated> {
    pub(crate) now: Ticks,
    /// One for each replica: first the replicas 0 of all nodes, then the replicas 1, and so on. What
    /// is called a node below is its number, and without replicas the node's.
    pub(crate) hosts: Vec<Host<P>>,
    /// How many clusters there are, each with all partitions: node *n* is in cluster *n* modulo that,
    /// and owns partition *n* by that.
    pub(crate) clusters: u16,
    /// Which replica is where.
    pub(crate) placement: ReplicaPlacement,
    /// How replicas behave.
    pub(crate) replicas: ReplicaOptions,
    /// Of each node.
    pub(crate) lives: Vec<Lives>,
    /// Of each server: where it believes the nodes to be.
    pub(crate) whereabouts: Vec<PrimaryCache>,
    pub(crate) wires: Wires,
    /// How links behave; none in a run without faults.
    pub(crate) link_options: Option<LinkOptions>,
    /// What links have counted that are no more.
    pub(crate) buried_links: LinkCounters,
    pub(crate) revival: Rc<Revival>,
    pub(crate) disk_random: SplitMix64,
    /// In a run with logs: what clients were told has committed, and where it wrote.
    pub(crate) acknowledged: BTreeMap<Timestamp, Vec<PartitionId>>,
    /// Stores that have come back and were compared with what they had been.
    pub(crate) compared: u64,
    pub(crate) queue: Queue<Event<P::Message>>,
    pub(crate) clients: Clients,
    faults: Vec<Fault>,
    pub(crate) watch: Watch,
    /// What follows from a step, between steps; kept for its room.
    pub(crate) out: Option<Box<NodeOutbox<P::Message>>>,
    trace: FxHasher,
    text: String,
    /// Events so far.
    pub(crate) events: u64,
    /// What has been counted.
    pub(crate) happened: Happenings,
    /// What was wrong, first things first.
    pub(crate) violations: Vec<String>,
    /// What the diagram is drawn from.
    pub(crate) recorder: Option<Recorder>,
    /// What the run's history is made from.
    pub(crate) recording: Option<Recording>,
    /// What steps cost; without it they take no time.
    pub(crate) model: Option<Model>,
    /// Looks at a clock around each step.
    pub(crate) meter: Option<Box<dyn Meter>>,
}

impl<P: Simulated> Cluster<P> {
    /// A cluster of a node for each store, with so many replicas of each, at time 0.
    ///
    /// # Errors
    /// When nodes or disks may fail and the protocol keeps no records.
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
        let revival = Revival::new(shared, durable, watch.history, empty, numbers, network);
        let revival = Rc::new(revival);
        let replicas = replica_options(network, nodes, seed);
        let (mut hosts, mut lives) = (Vec::with_capacity(stores.len()), Vec::new());
        if replicated {
            (hosts, lives) = crate::replicas::give_birth(&revival, stores, placement, replicas)?;
        } else {
            for (store, number) in stores.into_iter().zip(0..) {
                let (seat, base) = revival.give_birth(number, store)?;
                hosts.push(Host::new(seat, EPOCH));
                lives.push(Lives::new(number, base));
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
            lives,
            whereabouts: vec![PrimaryCache::new(nodes, placement.factor()); usize::from(nodes)],
            wires: Wires::new(seed, nodes, network),
            link_options: (replicated || !plan.faults.is_empty())
                .then(|| link_options(network, nodes)),
            buried_links: LinkCounters::default(),
            revival,
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
            happened: Happenings::default(),
            violations: Vec::new(),
            recorder: None,
            recording: watch
                .history
                .then(|| Recording::of_clusters(shared.clusters, shared.commutes)),
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

    /// A hash of everything that has happened, in order.
    pub fn trace(&self) -> u64 {
        self.trace.finish()
    }

    /// The protocols of the nodes that live.
    pub fn protocols(&self) -> impl Iterator<Item = &P> {
        let nodes = (0..self.lives.len()).filter_map(|node| self.node(node as u16));
        nodes.map(|node| node.protocol())
    }

    /// The node of this number, in its last life, if it lives.
    pub(crate) fn node(&self, node: u16) -> Option<&Node<P>> {
        let host = self.lives[usize::from(node)].host;
        self.hosts[usize::from(host)].node()
    }

    /// What the nodes have counted.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for protocol in self.protocols() {
            sum.add(protocol.counters());
        }
        sum
    }

    /// Calls that some node still runs.
    pub(crate) fn calls(&self) -> usize {
        let nodes = self.hosts.iter().filter_map(Host::node);
        nodes.map(|node| node.calls()).sum()
    }

    /// Whether nothing will ever happen again.
    pub fn is_quiet(&self) -> bool {
        self.queue.is_empty()
    }

    /// Lets the next thing happen.
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
                passed_on,
            } => {
                self.trace
                    .write_u32(3 << 30 | u32::from(from) << 15 | u32::from(to));
                if self.watch.hash_contents {
                    self.hash_contents(&packet);
                }
                self.packet_arrives(from, to, *packet, passed_on);
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
            Event::Synced { node, life, until } => {
                self.trace.write_u32(1 << 18 | u32::from(node));
                self.trace.write_u64(until.0);
                self.sync_ends(node, life, until);
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
                self.client_goes_on(client);
            }
            Event::Begin(number) => {
                let kind = self.faults[number as usize].kind.clone();
                self.happened.fault(&kind);
                self.change(&kind, true);
            }
            Event::End(number) => {
                let kind = self.faults[number as usize].kind.clone();
                self.change(&kind, false);
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

    /// Gives a node an input, now or when it wakes.
    pub(crate) fn give(&mut self, node: u16, input: NodeInput<P::Message>) {
        let host = &mut self.hosts[usize::from(node)];
        if host.pauses > 0 {
            self.happened.sometimes("a paused node missed something");
            host.missed.push_back(ReplicaInput::Node(input));
            return;
        }
        if let Some(input) = self.waits_for_core(node, input) {
            self.step(node, input);
        }
    }

    /// Lets a node take an input now, and looks whether all is well.
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
        // Between its steps a protocol is as it was: what a replica hears from the others, most of all
        // that they are there, changes nothing to look at.
        let Some(progress) = host.progress() else {
            return;
        };
        if host.looked.replace(progress) == Some(progress) {
            return;
        }
        host.steps += 1;
        if host.steps.is_multiple_of(every)
            && let Some(alive) = host.node()
            && let Err(broken) = alive.protocol().check_invariants()
        {
            self.violate(node, &broken);
        }
    }

    /// Something is wrong at a node.
    pub(crate) fn violate(&mut self, node: u16, what: &str) {
        if let Some(recorder) = &mut self.recorder {
            recorder.found_wrong(self.now);
        }
        self.violations
            .push(format!("n{node} at {} us: {what}", self.now.as_micros()));
    }

    /// Sees to it that a node is woken when its next timer runs out.
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

    /// A fault begins or ends.
    fn change(&mut self, kind: &FaultKind, begins: bool) {
        match kind {
            FaultKind::LatencySpike { percent } => {
                turn(&mut self.wires.weather.slower, percent - 100, begins);
            }
            FaultKind::Loss { percent } => turn(&mut self.wires.weather.lost, *percent, begins),
            FaultKind::Duplication { percent } => {
                turn(&mut self.wires.weather.doubled, *percent, begins);
            }
            FaultKind::Reordering { percent } => {
                turn(&mut self.wires.weather.overtaken, *percent, begins);
            }
            FaultKind::SlowLink { from, to, extra_us } => {
                let extra = Ticks::from_micros(*extra_us);
                self.wires.slow(*from, *to, extra, begins);
            }
            FaultKind::Partition { from, to, one_way } => {
                for (a, b) in from.iter().flat_map(|a| to.iter().map(move |b| (*a, *b))) {
                    self.wires.cut(a, b, begins);
                    if !one_way {
                        self.wires.cut(b, a, begins);
                    }
                }
            }
            FaultKind::Crash { node, clock_us } => {
                for host in self.hosts_at(*node) {
                    self.crash(host, *clock_us, begins);
                }
            }
            FaultKind::Death { node } => {
                for host in self.hosts_at(*node).into_iter().filter(|_| begins) {
                    self.crash(host, 0, true);
                }
            }
            FaultKind::Disk { node, trouble } => {
                for host in self.hosts_at(*node) {
                    self.trouble(host, *trouble, begins);
                }
            }
            FaultKind::SlowDisk { node, percent } => {
                for host in self.hosts_at(*node) {
                    let host = &mut self.hosts[usize::from(host)];
                    turn(&mut host.slower, percent - 100, begins);
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
                    // What was set by the old clock rings by the new one.
                    host.tick = None;
                    self.reset_tick(number);
                }
            }
            FaultKind::ClientDeath { client } => {
                if begins {
                    self.client_dies(*client);
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
            self.wake_up(node);
        }
    }
}

/// Adds while a fault lasts, and takes away again what it has added.
fn turn(number: &mut u64, by: u64, begins: bool) {
    *number = if begins { *number + by } else { *number - by };
}

/// What a node's clock shows.
pub(crate) fn local(now: Ticks, skew: i64) -> Ticks {
    Ticks((now.0 as i64 + skew).max(0) as u64)
}
