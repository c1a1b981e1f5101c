//! Nodes with replicas: which host is which, elections seen from outside, and rest.
//!
//! Replica *i* of node *n* is host *n* + *i* times the number of nodes; which server it is on says the
//! [`ReplicaPlacement`]. What befalls a server befalls all its hosts; wires are between servers. A node is
//! where the last of its lives rose. A primary that has been deposed and does not know it goes on, and its
//! clients wait for answers that never come: nothing of what it does counts.

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

use crate::cluster::{Cluster, EPOCH, Event};
use crate::host::{Host, LOGS, Lives, Revival, Seat, rows_of};
use crate::latency::Network;
use crate::network::Arrivals;
use crate::protocols::Simulated;

/// A heartbeat comes after so many of the longest usual trips.
const TRIPS_HEARTBEAT: u64 = 2;

/// A primary that was not heard for so many of them is taken for dead.
const TRIPS_SILENT: u64 = 8;

/// A primary gives up after so many heartbeats in vain: later than another is elected, mostly, so that
/// there are primaries that are none any more.
const HEARTBEATS_MISSED: u32 = 16;

/// How replicas behave on this network.
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

/// All replicas of all nodes, and what is known of the nodes' lives.
type Births<P> = (Vec<Host<P>>, Vec<Lives>);

/// Makes every replica of a cluster.
pub(crate) fn give_birth<P: Simulated>(
    revival: &Rc<Revival>,
    stores: Vec<Store>,
    placement: ReplicaPlacement,
    replicas: ReplicaOptions,
) -> Result<Births<P>, DurableError> {
    let (mut hosts, mut lives) = (Vec::new(), Vec::new());
    for replica in placement.replicas() {
        for (store, node) in stores.iter().zip(0..) {
            if replica == ReplicaId(0) {
                lives.push(Lives::new(node, Some(Box::new(store.clone()))));
            }
            let options = options(node, replica, placement, replicas);
            let maker = maker(revival, node, Some(store.clone()));
            let made = ReplicaNode::open(MemoryDisk::new(), options, Ticks(EPOCH as u64), maker)?;
            hosts.push(Host::new(Seat::Replica(Box::new(made)), EPOCH));
        }
    }
    Ok((hosts, lives))
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

fn maker<P: Simulated>(
    revival: &Rc<Revival>,
    node: u16,
    mut loaded: Option<Store>,
) -> NodeFactory<P> {
    let (for_protocol, for_node) = (Rc::clone(revival), Rc::clone(revival));
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
        node: Box::new(move |protocol, life| for_node.node(node, protocol, life)),
    }
}

/// Which host is which.
impl<P: Simulated> Cluster<P> {
    /// The node that a host has a replica of.
    pub(crate) fn node_of(&self, host: u16) -> u16 {
        host % self.placement.nodes()
    }

    /// Which replica that is.
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

    /// Where a host sends what is meant for a node.
    pub(crate) fn whereabouts_of(&self, host: u16, node: NodeId) -> u16 {
        let server = usize::from(self.server_of(host));
        self.host_of(node, self.whereabouts[server].of(node))
    }

    /// Whom a backup that is awake takes for its node's primary.
    pub(crate) fn primary_known_to(&self, host: u16) -> Option<u16> {
        let number = usize::from(host);
        let replica = self.hosts[number].replica()?;
        let primary = replica.group().primary()?;
        let node = NodeId(self.node_of(host));
        let is_awake = self.hosts[number].pauses == 0;
        (is_awake && primary != self.replica_of(host)).then(|| self.host_of(node, primary))
    }
}

/// What replicas do.
impl<P: Simulated> Cluster<P> {
    /// Lets a replica take an input.
    pub(crate) fn drive_replica(&mut self, host: u16, input: ReplicaInput<P::Message>) {
        self.use_replica(host, |replica, now, out| {
            replica.step(now, input);
            replica.flush(now, out)
        });
    }

    /// Gives a replica an input that is not its node's, now or when it wakes.
    pub(crate) fn give_replica(&mut self, host: u16, input: ReplicaInput<P::Message>) {
        let seat = &mut self.hosts[usize::from(host)];
        if seat.pauses > 0 {
            seat.missed.push_back(input);
            return;
        }
        self.drive_replica(host, input);
        self.check_node(host);
        self.reset_tick(host);
    }

    /// A sync has ended at a replica's disk.
    pub(crate) fn sync_replica(&mut self, host: u16, until: LogPosition) {
        let mut has_checkpoint = false;
        self.use_replica(host, |replica, now, out| {
            replica.end_sync(now, until, out)?;
            has_checkpoint = replica.checkpoint_if_due(now, out)?;
            Ok(())
        });
        if has_checkpoint {
            self.happened.sometimes("a node wrote a checkpoint");
        }
        self.check_node(host);
        self.reset_tick(host);
    }

    /// Sees to what a replica has let out.
    pub(crate) fn replica_said(&mut self, host: u16, out: ReplicaOutbox<P>) {
        let node = NodeId(self.node_of(host));
        for (to, message) in out.replicas {
            let to = self.host_of(node, to);
            // Nothing rests on their order, and nobody waits for those before.
            let Arrivals { first, again } = self.travel(host, to, false);
            let event = |message| Event::Replica {
                from: host,
                to,
                message: Box::new(message),
            };
            if let Some(at) = again {
                self.queue.push(at, event(message.clone()));
            }
            if let Some(at) = first {
                self.queue.push(at, event(message));
            }
        }
        for event in out.events {
            match event {
                ReplicaEvent::Promoted(life) => self.rose(host, life),
                ReplicaEvent::Output(said) => {
                    self.out = Some(Box::new(said));
                    self.let_out(host);
                }
                ReplicaEvent::Demoted(node) => {
                    self.happened.sometimes("a primary was deposed");
                    self.node_is_lost(host, &node);
                    self.take_links(host);
                }
            }
        }
    }

    /// Whether a packet makes two lives known to each other. Then the node that receives it has to know
    /// that it is not deposed: whoever greets must be answered by the newest life, or it would never
    /// greet that. What sleeps does not find out, and is greeted again.
    pub(crate) fn waits_for_confirmation(
        &mut self,
        from: u16,
        to: u16,
        packet: &Packet<P::Message>,
    ) -> bool {
        let node = NodeId(self.node_of(from));
        let host = &mut self.hosts[usize::from(to)];
        let Seat::Replica(replica) = &mut host.seat else {
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

    /// Takes the packets that waited for a round that is confirmed.
    pub(crate) fn take_confirmed(&mut self, to: u16) {
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

    /// A node has begun a life at a host.
    fn rose(&mut self, host: u16, life: Incarnation) {
        let node = self.node_of(host);
        self.happened.sometimes("a replica became the primary");
        let links = self.make_links(host, life);
        self.hosts[usize::from(host)].links = links;
        self.use_links(host, |links, now, out| links.greet(now, out));
        // One that slept while it rose may hear of it when a later life has risen: nobody heeds it.
        if life <= self.lives[usize::from(node)].life {
            self.happened.sometimes("a life rose after a later one");
            return;
        }
        let before = self.lives[usize::from(node)].host;
        if before != host {
            self.happened.sometimes("a backup took over from another");
            // Who has lost it and does not know has installed what the new one need not have.
            if let Some(deposed) = self.hosts[usize::from(before)].node() {
                self.happened
                    .sometimes("a primary lived on that was none any more");
                let installed = deposed.protocol().store().installed().to_vec();
                self.lives[usize::from(node)].lost = installed;
            }
        }
        let lives = &mut self.lives[usize::from(node)];
        (lives.host, lives.life) = (host, life);
        self.compare(node);
    }

    /// A node is gone with what it had under way: its host died, or it was deposed.
    pub(crate) fn node_is_lost(&mut self, host: u16, node: &Node<P>) {
        if node.calls() > 0 {
            self.happened.sometimes("a node died with calls under way");
        }
        let lives = &mut self.lives[usize::from(host % self.placement.nodes())];
        if lives.host == host {
            lives.lost = node.protocol().store().installed().to_vec();
        }
        if let Some(recording) = &mut self.recording {
            recording.lost(node.open_attempts(), self.now);
        }
    }

    /// Lets a dead replica come back.
    pub(crate) fn revive_replica(&mut self, host: u16, disk: MemoryDisk, now: Ticks) {
        let (node, replica) = (self.node_of(host), self.replica_of(host));
        let mut options = options(node, replica, self.placement, self.replicas);
        // No two lives of a replica wait alike.
        options.replica.seed ^= self.events << 8;
        let maker = maker(&self.revival, node, None);
        let opened = match ReplicaNode::open(disk, options, now, maker) {
            Ok(opened) => opened,
            Err(error) => return self.stays_down(host, &error),
        };
        self.happened.sometimes("a node came back");
        if opened.opened().cut > 0 {
            self.happened.sometimes("a torn end of a log was cut off");
        }
        self.seat_replica(host, opened);
        self.use_replica(host, |replica, now, out| replica.flush(now, out));
        self.reset_tick(host);
    }

    /// What can be seen of a group's invariants from outside after a step of one of its replicas.
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
            self.happened
                .sometimes
                .entry("a backup was brought up by a checkpoint")
                .or_insert(1);
        }
        let known = &mut self.lives[usize::from(node)].committed;
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

    /// What keeps the cluster from rest, where nothing is left to be done but heartbeats: every node
    /// has its primary, everything was said and heard, and all replicas that live have all of it.
    pub(crate) fn unrest(&self) -> Option<String> {
        (0..self.placement.nodes()).find_map(|number| self.unrest_of(number))
    }

    fn unrest_of(&self, number: u16) -> Option<String> {
        let host = self.lives[usize::from(number)].host;
        let seat = &self.hosts[usize::from(host)];
        let (Some(node), Some(primary)) = (seat.node(), seat.replica()) else {
            return Some(format!("n{number} has no primary"));
        };
        if node.calls() > 0 || primary.holds_output() {
            return Some(format!("n{number} has something to answer"));
        }
        if let Some(left) = node.protocol().leftovers() {
            return Some(format!("at n{number} {left}"));
        }
        if !seat.links.as_ref().is_some_and(Links::is_idle) {
            return Some(format!("n{number} has said what was not heard"));
        }
        let last = primary.group().last();
        let mut others = self.replicas_of(number);
        let lags =
            others.find(|(_, other)| other.group().last() != last || other.applied() != last.index);
        lags.map(|(host, other)| {
            format!(
                "{} of n{number} has come to {} in {:?}, and the primary to {last:?}",
                self.replica_of(host),
                other.applied(),
                other.group().last()
            )
        })
    }

    /// The replicas of a node that live, by host.
    fn replicas_of(
        &self,
        node: u16,
    ) -> impl Iterator<Item = (u16, &ReplicaNode<P, MemoryDisk>)> + '_ {
        let hosts = self.placement.replicas();
        let hosts = hosts.map(move |replica| self.host_of(NodeId(node), replica));
        hosts.filter_map(|host| Some((host, self.hosts[usize::from(host)].replica()?)))
    }

    /// At rest: replicas whose rows are not their primary's, or that keep more versions of them (REPL-I7),
    /// and how many were compared.
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
