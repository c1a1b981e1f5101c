//! Replicated nodes: the hosts of their replicas, elections as seen from outside, and quiescence.
//!
//! Replica *i* of node *n* is host *n* + *i* times the number of nodes. The [`ReplicaPlacement`] gives its server.
//! A server's faults affect all of its hosts, and links are between servers. A node is where its latest
//! incarnation started. A deposed primary that has not learned of it keeps running: its clients wait for answers
//! that never come, and nothing that it does has an effect.

use std::rc::Rc;

use anabranch_engine::{
    DurableError, GroupOptions, Node, NodeFactory, ReplicaEvent, ReplicaInput, ReplicaNode,
    ReplicaOutbox,
};
use anabranch_protocol::link::{Incarnation, Links, Packet};
use anabranch_protocol::replication::{ReplicaId, ReplicaOptions, ReplicaPlacement};
use anabranch_storage::media::memory::MemoryDisk;
use anabranch_storage::{LogPosition, Store};
use anabranch_types::{NodeId, Ticks};

use super::host::{Host, Incarnations, LOGS, NodeBuilder, NodeState};
use super::network::Arrivals;
use super::{Cluster, Event};
use crate::clock::EPOCH;
use crate::latency::Network;
use crate::protocols::Simulated;
use crate::report::{NODE_LOST_CALLS, NODE_RESTARTED};
use crate::rows::rows_of;

/// The heartbeat interval, in longest median latencies.
const TRIPS_HEARTBEAT: u64 = 2;

/// Backups start an election after a silence of so many of them.
const TRIPS_SILENT: u64 = 8;

/// A primary steps down after so many unanswered heartbeats. That is mostly later than another is elected, so that
/// runs have deposed primaries.
const HEARTBEATS_MISSED: u32 = 16;

/// The options of replication groups on this network.
pub(crate) fn replica_options(network: &Network, nodes: u16, seed: u64) -> ReplicaOptions {
    let trip = network.longest(nodes).0;
    ReplicaOptions {
        heartbeat: Ticks(trip * TRIPS_HEARTBEAT),
        silence_max: Ticks(trip * TRIPS_SILENT),
        heartbeats_missed_max: HEARTBEATS_MISSED,
        seed,
        ..ReplicaOptions::default()
    }
}

/// All replicas of all nodes, and the nodes' incarnations.
type Replicas<P> = (Vec<Host<P>>, Vec<Incarnations>);

/// Builds every replica of a cluster.
pub(crate) fn build<P: Simulated>(
    node_builder: &Rc<NodeBuilder>,
    stores: Vec<Store>,
    placement: ReplicaPlacement,
    replicas: ReplicaOptions,
) -> Result<Replicas<P>, DurableError> {
    let (mut hosts, mut incarnations) = (Vec::new(), Vec::new());
    for replica in placement.replicas() {
        for (store, node) in stores.iter().zip(0..) {
            if replica == ReplicaId(0) {
                incarnations.push(Incarnations::new(node, Some(Box::new(store.clone()))));
            }
            let options = options(node, replica, placement, replicas);
            let factory = factory(node_builder, node, Some(store.clone()));
            let opened =
                ReplicaNode::open(MemoryDisk::new(), options, Ticks(EPOCH as u64), factory)?;
            hosts.push(Host::new(NodeState::Replica(Box::new(opened)), EPOCH));
        }
    }
    Ok((hosts, incarnations))
}

fn options(
    node: u16,
    replica: ReplicaId,
    placement: ReplicaPlacement,
    replicas: ReplicaOptions,
) -> GroupOptions {
    GroupOptions {
        id: replica,
        count: placement.factor(),
        durable: LOGS,
        replica: ReplicaOptions {
            seed: replicas.seed ^ u64::from(node) << 32,
            ..replicas
        },
        part_records: 2,
    }
}

fn factory<P: Simulated>(
    node_builder: &Rc<NodeBuilder>,
    node: u16,
    mut loaded: Option<Store>,
) -> NodeFactory<P> {
    let (for_protocol, for_node) = (Rc::clone(node_builder), Rc::clone(node_builder));
    NodeFactory {
        protocol: Box::new(move |beginning| {
            let mut store = match beginning {
                anabranch_engine::NodeStart::New => loaded.take(),
                anabranch_engine::NodeStart::Recovered => None,
            }
            .unwrap_or_else(|| for_protocol.empty.clone());
            store.record();
            P::make(NodeId(node), &for_protocol.shared, store)
        }),
        node: Box::new(move |protocol, incarnation| for_node.node(node, protocol, incarnation)),
    }
}

/// The hosts of replicas.
impl<P: Simulated> Cluster<P> {
    /// The node of the replica on a host.
    pub(crate) fn node_of(&self, host: u16) -> u16 {
        host % self.placement.nodes()
    }

    /// The replica that a host has.
    pub(crate) fn replica_of(&self, host: u16) -> ReplicaId {
        ReplicaId((host / self.placement.nodes()) as u8)
    }

    /// The server that a host is on.
    pub(crate) fn server_of(&self, host: u16) -> u16 {
        let node = NodeId(self.node_of(host));
        self.placement.server(node, self.replica_of(host))
    }

    /// The host of a replica.
    fn host_of(&self, node: NodeId, replica: ReplicaId) -> u16 {
        node.0 + u16::from(replica.0) * self.placement.nodes()
    }

    /// All hosts on a server.
    pub(crate) fn hosts_at(&self, server: u16) -> Vec<u16> {
        let here = self.placement.at(server);
        here.map(|(node, replica)| self.host_of(node, replica))
            .collect()
    }

    /// The host to which a host sends packets for a node.
    pub(crate) fn cached_primary_of(&self, host: u16, node: NodeId) -> u16 {
        let server = usize::from(self.server_of(host));
        self.host_of(node, self.primary_caches[server].of(node))
    }

    /// The host that a backup takes for its node's primary; `None` for a primary, and during a pause.
    pub(crate) fn primary_known_to(&self, host: u16) -> Option<u16> {
        let number = usize::from(host);
        let replica = self.hosts[number].replica()?;
        let primary = replica.group().primary()?;
        let node = NodeId(self.node_of(host));
        let is_running = self.hosts[number].pauses == 0;
        (is_running && primary != self.replica_of(host)).then(|| self.host_of(node, primary))
    }
}

/// The steps of replicas.
impl<P: Simulated> Cluster<P> {
    /// Steps a replica with an input.
    pub(crate) fn drive_replica(&mut self, host: u16, input: ReplicaInput<P::Message>) {
        self.use_replica(host, |replica, now, out| {
            replica.step(now, input);
            replica.flush(now, out)
        });
    }

    /// Gives a replica an input that is not its node's, at once or when its pause ends.
    pub(crate) fn give_replica(&mut self, host: u16, input: ReplicaInput<P::Message>) {
        let on = &mut self.hosts[usize::from(host)];
        if on.pauses > 0 {
            on.missed.push_back(input);
            return;
        }
        self.drive_replica(host, input);
        self.check_node(host);
        self.reset_tick(host);
    }

    /// Ends a sync of a replica's disk.
    pub(crate) fn sync_replica(&mut self, host: u16, until: LogPosition) {
        let mut has_checkpoint = false;
        self.use_replica(host, |replica, now, out| {
            replica.end_sync(now, until, out)?;
            has_checkpoint = replica.checkpoint_if_due(now, out)?;
            Ok(())
        });
        if has_checkpoint {
            self.statistics.sometimes("a node wrote a checkpoint");
        }
        self.check_node(host);
        self.reset_tick(host);
    }

    /// Sends the messages that a replica has released, and handles its events.
    pub(crate) fn release_replica_output(&mut self, host: u16, out: ReplicaOutbox<P>) {
        let node = NodeId(self.node_of(host));
        for (to, message) in out.replicas {
            let to = self.host_of(node, to);
            // The replication protocol does not depend on their order.
            let Arrivals { first, duplicate } = self.travel(host, to, false);
            let event = |message| Event::Replica {
                from: host,
                to,
                message: Box::new(message),
            };
            if let Some(at) = duplicate {
                self.queue.push(at, event(message.clone()));
            }
            if let Some(at) = first {
                self.queue.push(at, event(message));
            }
        }
        for event in out.events {
            match event {
                ReplicaEvent::Promoted(incarnation) => self.node_started(host, incarnation),
                ReplicaEvent::Output(output) => {
                    self.out = Some(Box::new(output));
                    self.release_output(host);
                }
                ReplicaEvent::Demoted(node) => {
                    self.statistics.sometimes("a primary was deposed");
                    self.node_is_lost(host, &node);
                    self.close_links(host);
                }
            }
        }
    }

    /// Whether a packet introduces two incarnations to each other and has to wait. The receiver first has to
    /// confirm that it was not deposed: a greeting has to be answered by the latest incarnation, since the sender
    /// would not greet again. A paused node cannot confirm that and drops the packet; the sender greets again.
    pub(crate) fn waits_for_confirmation(
        &mut self,
        from: u16,
        to: u16,
        packet: &Packet<P::Message>,
    ) -> bool {
        let node = NodeId(self.node_of(from));
        let host = &mut self.hosts[usize::from(to)];
        let NodeState::Replica(replica) = &mut host.state else {
            return false;
        };
        if host
            .links
            .as_ref()
            .is_some_and(|links| links.knows(node, packet))
        {
            return false;
        }
        if host.pauses == 0
            && let Some(round) = replica.want_confirmation()
        {
            host.unconfirmed.push_back((round, from, packet.clone()));
            self.use_replica(to, |replica, now, out| replica.flush(now, out));
        }
        true
    }

    /// Delivers the packets of confirmed rounds.
    pub(crate) fn receive_confirmed(&mut self, to: u16) {
        loop {
            let host = &mut self.hosts[usize::from(to)];
            let confirmed = host.replica().and_then(ReplicaNode::confirmed);
            let first = host.unconfirmed.front().map(|(round, ..)| *round);
            if first.is_none() || confirmed < first {
                return;
            }
            if let Some((_, from, packet)) = host.unconfirmed.pop_front() {
                self.take_packet(from, to, packet);
            }
        }
    }

    /// An incarnation of a node has started on a host.
    fn node_started(&mut self, host: u16, incarnation: Incarnation) {
        let node = self.node_of(host);
        self.statistics.sometimes("a replica became the primary");
        let links = self.make_links(host, incarnation);
        self.hosts[usize::from(host)].links = links;
        self.use_links(host, |links, now, out| links.greet(now, out));
        // A replica that was paused during its election may start after a later incarnation. It has no effect.
        if incarnation <= self.incarnations[usize::from(node)].latest {
            self.statistics
                .sometimes("an incarnation started after a later one");
            return;
        }
        let before = self.incarnations[usize::from(node)].host;
        if before != host {
            self.statistics.sometimes("a backup took over as primary");
            // A deposed primary that has not learned of it may have installed what the new one lacks.
            if let Some(deposed) = self.hosts[usize::from(before)].node() {
                self.statistics.sometimes("a deposed primary kept running");
                let installed = deposed.protocol().store().installed().to_vec();
                self.incarnations[usize::from(node)].lost = installed;
            }
        }
        let incarnations = &mut self.incarnations[usize::from(node)];
        (incarnations.host, incarnations.latest) = (host, incarnation);
        self.check_recovered(node);
    }

    /// A node is gone with its running calls: its host crashed, or it was deposed.
    pub(crate) fn node_is_lost(&mut self, host: u16, node: &Node<P>) {
        if node.calls() > 0 {
            self.statistics.sometimes(NODE_LOST_CALLS);
        }
        let incarnations = &mut self.incarnations[usize::from(host % self.placement.nodes())];
        if incarnations.host == host {
            incarnations.lost = node.protocol().store().installed().to_vec();
        }
        if let Some(recording) = &mut self.recording {
            recording.lost(node.open_attempts(), self.now);
        }
    }

    /// Restarts a replica that is down.
    pub(crate) fn restart_replica(&mut self, host: u16, disk: MemoryDisk, now: Ticks) {
        let (node, replica) = (self.node_of(host), self.replica_of(host));
        let mut options = options(node, replica, self.placement, self.replicas);
        // A replica's election timeouts differ between its starts.
        options.replica.seed ^= self.events << 8;
        let factory = factory(&self.node_builder, node, None);
        let opened = match ReplicaNode::open(disk, options, now, factory) {
            Ok(opened) => opened,
            Err(error) => return self.restart_failed(host, &error),
        };
        self.statistics.sometimes(NODE_RESTARTED);
        if opened.opened().cut > 0 {
            self.statistics
                .sometimes("a torn end of a log was truncated");
        }
        self.place_replica(host, opened);
        self.use_replica(host, |replica, now, out| replica.flush(now, out));
        self.reset_tick(host);
    }

    /// Checks those invariants of a group that are visible from outside, after a step of one of its replicas.
    pub(crate) fn check_replica(&mut self, host: u16) {
        let node = self.node_of(host);
        let Some(replica) = self.hosts[usize::from(host)].replica() else {
            return;
        };
        if self.watch.invariants_every == 0 {
            return;
        }
        let group = replica.group();
        let mut broken = group.check_invariants().err();
        if replica.applied() > group.committed() && !group.is_primary() {
            broken = Some(format!(
                "REPL-I6: {} entries are applied and {} committed",
                replica.applied(),
                group.committed()
            ));
        }
        if replica.counters().installed > 0 {
            self.statistics
                .sometimes
                .entry("a backup was restored from a checkpoint")
                .or_insert(1);
        }
        let known = &mut self.incarnations[usize::from(node)].committed;
        let from = known.last_key_value().map_or(1, |(index, _)| *index + 1);
        let from = from.min(group.committed());
        for index in from.max(group.base().index)..=group.committed() {
            let Some(view) = group.view_at(index).filter(|_| index > 0) else {
                continue;
            };
            let first = *known.entry(index).or_insert(view);
            if first != view {
                broken = Some(format!(
                    "REPL-I3: entry {index} was committed in {first} and is of {view} here"
                ));
            }
        }
        if let Some(broken) = broken {
            self.violate(host, &broken);
        }
    }

    /// Why the cluster is not quiescent, in a run with heartbeats. At rest every node has a primary, all output
    /// was delivered, and all replicas that are up have applied the whole log.
    pub(crate) fn unfinished(&self) -> Option<String> {
        (0..self.placement.nodes()).find_map(|number| self.unfinished_at(number))
    }

    fn unfinished_at(&self, number: u16) -> Option<String> {
        let host = self.incarnations[usize::from(number)].host;
        let host = &self.hosts[usize::from(host)];
        let (Some(node), Some(primary)) = (host.node(), host.replica()) else {
            return Some(format!("n{number} has no primary"));
        };
        if node.calls() > 0 || primary.holds_output() {
            return Some(format!("n{number} has calls or output left"));
        }
        if let Some(left) = node.protocol().leftovers() {
            return Some(format!("at n{number} {left}"));
        }
        if !host.links.as_ref().is_some_and(Links::is_idle) {
            return Some(format!("n{number} has messages that were not acknowledged"));
        }
        let last = primary.group().last();
        let mut others = self.replicas_of(number);
        let lags =
            others.find(|(_, other)| other.group().last() != last || other.applied() != last.index);
        lags.map(|(host, other)| {
            format!(
                "{} of n{number} has applied {} of {:?}, and the primary is at {last:?}",
                self.replica_of(host),
                other.applied(),
                other.group().last()
            )
        })
    }

    /// The replicas of a node that are up, by host.
    fn replicas_of(
        &self,
        node: u16,
    ) -> impl Iterator<Item = (u16, &ReplicaNode<P, MemoryDisk>)> + '_ {
        let hosts = self.placement.replicas();
        let hosts = hosts.map(move |replica| self.host_of(NodeId(node), replica));
        hosts.filter_map(|host| Some((host, self.hosts[usize::from(host)].replica()?)))
    }

    /// At rest: the replicas with other rows than their primary, or with more versions of them (REPL-I7); and how many
    /// were compared.
    pub(crate) fn replicas_that_differ(&self) -> (Vec<String>, u64) {
        let (mut found, mut compared) = (Vec::new(), 0);
        for node in 0..self.placement.nodes() {
            let Some(primary) = self.node(node) else {
                found.push(format!("n{node} has no primary"));
                continue;
            };
            let store = primary.protocol().store();
            let (rows, versions) = (rows_of(store), store.versions());
            for (host, replica) in self.replicas_of(node) {
                compared += 1;
                let store = replica.protocol().store();
                let (replica, kept) = (self.replica_of(host), store.versions());
                if rows_of(store) != rows {
                    found.push(format!(
                        "REPL-I7: the rows of n{node} at {replica} are not the primary's"
                    ));
                }
                if kept > versions {
                    found.push(format!(
                        "REPL-I7: {replica} of n{node} keeps {kept} versions, and its primary {versions}"
                    ));
                }
            }
        }
        (found, compared)
    }
}
