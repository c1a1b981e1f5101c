//! Reliable links over a network that loses, duplicates and reorders packets, between nodes that restart.

use std::collections::BTreeMap;

use anabranch_protocol::link::{
    Backlogged, Incarnation, LinkEvent, LinkOptions, LinkOutbox, Links, Packet,
};
use anabranch_types::{NodeId, Ticks};

use crate::support::random::Random;

/// A message has its sender's incarnation and its number among those to the same receiver.
type Message = (Incarnation, u64);

struct Node {
    links: Links<Message>,
    /// By receiver: how many messages this incarnation has sent.
    sent: Vec<u64>,
    /// By receiver and its incarnation: the first message addressed to it.
    start: BTreeMap<(NodeId, Incarnation), u64>,
    /// By sender and its incarnation: the next message expected.
    next: BTreeMap<(NodeId, Incarnation), u64>,
    /// By sender: the latest known incarnation.
    known: Vec<Option<Incarnation>>,
}

impl Node {
    fn new(own: NodeId, incarnation: Incarnation, nodes: u16, options: LinkOptions) -> Node {
        Node {
            links: Links::new(own, incarnation, nodes, options),
            sent: vec![0; usize::from(nodes)],
            start: BTreeMap::new(),
            next: BTreeMap::new(),
            known: vec![None; usize::from(nodes)],
        }
    }
}

struct World {
    seed: u64,
    now: Ticks,
    options: LinkOptions,
    nodes: Vec<Node>,
    network: Vec<(NodeId, NodeId, Packet<Message>)>,
    out: LinkOutbox<Message>,
    restarts_noticed: u64,
}

impl World {
    fn new(seed: u64, nodes: u16, options: LinkOptions) -> World {
        let node = |n| Node::new(NodeId(n), Incarnation::FIRST, nodes, options);
        World {
            seed,
            now: Ticks(0),
            options,
            nodes: (0..nodes).map(node).collect(),
            network: Vec::new(),
            out: LinkOutbox::default(),
            restarts_noticed: 0,
        }
    }

    /// Runs `act` on one node's links, and checks its output.
    fn at(&mut self, at: NodeId, act: impl FnOnce(&mut Node, Ticks, &mut LinkOutbox<Message>)) {
        act(&mut self.nodes[at.index()], self.now, &mut self.out);
        for (to, packet) in self.out.packets.drain(..) {
            assert_ne!(to, at, "no node sends to itself");
            self.network.push((at, to, packet));
        }
        let own = self.nodes[at.index()].links.incarnation();
        for event in std::mem::take(&mut self.out.events) {
            match event {
                LinkEvent::Restarted {
                    node, incarnation, ..
                } => {
                    self.restarts_noticed += 1;
                    let sent = self.nodes[at.index()].sent[node.index()];
                    let me = &mut self.nodes[at.index()];
                    me.links.noticed(node);
                    me.start.insert((node, incarnation), sent);
                    let before = me.known[node.index()].replace(incarnation);
                    assert!(before < Some(incarnation), "seed {}", self.seed);
                }
                LinkEvent::Message {
                    from,
                    message: (life, number),
                } => {
                    let sender = &self.nodes[from.index()];
                    let me = &self.nodes[at.index()];
                    assert!(
                        me.known[from.index()] <= Some(life),
                        "seed {}: {from} speaks from an earlier life",
                        self.seed
                    );
                    // A former incarnation's numbers are lost, so only a running sender can be checked.
                    let first = match sender.links.incarnation() == life {
                        true => sender.start.get(&(at, own)).copied().unwrap_or(0),
                        false => number,
                    };
                    let me = &mut self.nodes[at.index()];
                    me.known[from.index()] = Some(life);
                    let next = me.next.entry((from, life)).or_insert(first);
                    assert_eq!(
                        *next, number,
                        "seed {}: {at} in {own} hears {from} in {life}",
                        self.seed
                    );
                    *next += 1;
                }
            }
        }
        let checked = self.nodes[at.index()].links.check_invariants();
        checked.unwrap_or_else(|broken| panic!("seed {}: {broken}", self.seed));
    }

    fn send(&mut self, from: NodeId, to: NodeId) -> Result<(), Backlogged> {
        let node = &mut self.nodes[from.index()];
        let message = (node.links.incarnation(), node.sent[to.index()]);
        node.links.send(to, message)?;
        node.sent[to.index()] += 1;
        Ok(())
    }

    fn restart(&mut self, node: NodeId) {
        let life = self.nodes[node.index()].links.incarnation().next();
        let nodes = self.nodes.len() as u16;
        self.nodes[node.index()] = Node::new(node, life, nodes, self.options);
        self.at(node, |node, now, out| node.links.greet(now, out));
    }

    fn deliver(&mut self, at: usize, keep: bool) {
        let (from, to, packet) = match keep {
            true => self.network[at].clone(),
            false => self.network.swap_remove(at),
        };
        self.at(to, |node, now, out| {
            node.links.receive(now, from, packet, out);
        });
    }

    fn tick(&mut self, ticks: Ticks) {
        self.now = self.now + ticks;
        for node in (0..self.nodes.len() as u16).map(NodeId) {
            let due = self.nodes[node.index()].links.next_alarm();
            if due.is_some_and(|at| at <= self.now) {
                self.at(node, |node, now, out| node.links.tick(now, out));
            }
        }
    }

    fn flush(&mut self, node: NodeId) {
        self.at(node, |node, now, out| node.links.flush(now, out));
    }

    /// From here on no packet is lost and no node crashes: all messages arrive.
    fn heal(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "seed {}: no end", self.seed);
            while !self.network.is_empty() {
                self.deliver(0, false);
            }
            for node in (0..self.nodes.len() as u16).map(NodeId) {
                self.flush(node);
            }
            if self.network.is_empty() && self.nodes.iter().all(|node| node.links.is_idle()) {
                break;
            }
            if self.network.is_empty() {
                self.tick(self.options.resend_after_max);
            }
        }
        for (from, sender) in self.nodes.iter().enumerate() {
            for (to, receiver) in self.nodes.iter().enumerate() {
                let key = (NodeId(from as u16), sender.links.incarnation());
                let to_life = (NodeId(to as u16), receiver.links.incarnation());
                let first = sender.start.get(&to_life).copied().unwrap_or(0);
                let arrived = receiver.next.get(&key).copied().unwrap_or(first);
                assert_eq!(
                    arrived, sender.sent[to],
                    "seed {}: from {from} to {to} not all has arrived",
                    self.seed
                );
            }
        }
    }
}

/// A window and packets so small that every limit is reached.
const TIGHT: LinkOptions = LinkOptions {
    resend_after: Ticks::from_millis(1),
    resend_after_max: Ticks::from_millis(8),
    window: 5,
    queue_max: 12,
    packet_max: 2,
};

fn sweep(seed: u64, restarts: bool) -> (u64, u64, u64) {
    let mut random = Random::new(seed);
    let nodes = 2 + random.below(3) as u16;
    let options = if random.percent(50) {
        TIGHT
    } else {
        LinkOptions::default()
    };
    let mut world = World::new(seed, nodes, options);
    let (lossy, doubling) = (random.below(40), random.below(40));
    for _ in 0..1_500 {
        let node = NodeId(random.below(u64::from(nodes)) as u16);
        match random.below(100) {
            0..30 => {
                let to = NodeId(random.below(u64::from(nodes)) as u16);
                if to != node {
                    // The sender handles a full queue: here it does not send the message.
                    let _ = world.send(node, to);
                }
            }
            30..50 => world.flush(node),
            50..95 if !world.network.is_empty() => {
                let at = random.below(world.network.len() as u64) as usize;
                if random.percent(lossy) {
                    world.network.swap_remove(at);
                } else {
                    world.deliver(at, random.percent(doubling));
                }
            }
            95..99 => world.tick(Ticks(random.below(4_000_000))),
            99 if restarts => world.restart(node),
            _ => {}
        }
    }
    world.heal();
    let sum = |count: fn(&Links<Message>) -> u64| world.nodes.iter().map(|n| count(&n.links)).sum();
    (
        world.restarts_noticed,
        sum(|links| links.counters().resent),
        sum(|links| links.counters().fenced),
    )
}

#[test]
fn each_message_arrives_once_and_in_order_whatever_the_network_does() {
    let mut resent = 0;
    for seed in 0..400 {
        let (restarts, again, fenced) = sweep(seed, false);
        assert_eq!((restarts, fenced), (0, fenced), "seed {seed}");
        resent += again;
    }
    assert!(resent > 1_000, "the network has to lose packets");
}

#[test]
fn a_restart_is_noticed_and_no_message_crosses_incarnations() {
    let (mut restarts, mut fenced) = (0, 0);
    for seed in 1_000..1_600 {
        let (noticed, _, kept_out) = sweep(seed, true);
        restarts += noticed;
        fenced += kept_out;
    }
    assert!(restarts > 1_000 && fenced > 1_000, "{restarts} {fenced}");
}

#[test]
fn messages_to_a_former_incarnation_are_reported_and_not_delivered() {
    let (a, b) = (NodeId(0), NodeId(1));
    let mut world = World::new(0, 2, LinkOptions::default());
    world.send(a, b).expect("there is room");
    world.flush(a);
    assert_eq!(
        world.network[0].2.to, None,
        "first it requests b's incarnation"
    );
    world.heal();
    world.send(a, b).expect("there is room");
    world.flush(a);
    let late = world.network.pop().expect("a message is under way");
    world.restart(b);
    world.network = vec![late];
    world.deliver(0, false);
    assert_eq!(world.nodes[1].links.counters().delivered, 0);
    world.flush(b);
    let (_, _, answer) = world.network[0].clone();
    assert_eq!(answer.from, Incarnation(2));
    world.deliver(0, false);
    assert_eq!(world.restarts_noticed, 1);
    assert!(
        world.nodes[0].links.is_idle(),
        "no message to the former incarnation is queued"
    );
    world.send(a, b).expect("there is room");
    world.heal();
    assert_eq!(world.nodes[1].links.counters().delivered, 1);
}

#[test]
fn a_message_sent_before_a_restart_is_noticed_is_dropped() {
    let (a, b, now) = (NodeId(0), NodeId(1), Ticks(0));
    let mut links: Links<&str> = Links::new(a, Incarnation::FIRST, 2, LinkOptions::default());
    let mut out = LinkOutbox::default();
    for number in [1, 2, 3] {
        let question = Packet {
            from: Incarnation(number),
            to: None,
            received: 0,
            first: 1,
            messages: Vec::new(),
        };
        links.receive(now, b, question, &mut out);
    }
    assert_eq!(out.events.len(), 2, "it has restarted twice");
    links
        .send(b, "to its first incarnation")
        .expect("there is room");
    links.noticed(b);
    links
        .send(b, "to its second incarnation")
        .expect("there is room");
    links.noticed(b);
    links
        .send(b, "to its third incarnation")
        .expect("there is room");
    links.flush(now, &mut out);
    let sent = out.packets.iter().flat_map(|(_, packet)| &packet.messages);
    assert_eq!(sent.collect::<Vec<_>>(), [&"to its third incarnation"]);
    assert_eq!(links.counters().misdirected, 2);
}

#[test]
fn a_silent_peer_costs_a_bounded_queue_and_ever_fewer_packets() {
    let (a, b) = (NodeId(0), NodeId(1));
    let mut world = World::new(0, 2, TIGHT);
    world.send(a, b).expect("there is room");
    world.heal();
    for _ in 0..TIGHT.queue_max {
        world.send(a, b).expect("there is room");
    }
    assert_eq!(
        world.send(a, b),
        Err(Backlogged { node: b, kept: 12 }),
        "the thirteenth is refused, not dropped"
    );
    world.flush(a);
    world.network.clear();
    for _ in 0..1_000 {
        world.tick(Ticks::from_millis(1));
    }
    // After 1, 2, 4 and then each 8 ms.
    assert!(
        (100..140).contains(&world.network.len()),
        "{}",
        world.network.len()
    );
    assert!(
        world
            .network
            .iter()
            .all(|(_, _, packet)| packet.messages.len() <= 2)
    );
    world.heal();
}

/// Three packets are lost. Only the oldest is resent; the others count as lost with it, and follow as soon as it
/// is acknowledged, without another wait.
#[test]
fn what_was_lost_with_the_oldest_packet_follows_it_at_once() {
    let (a, b) = (NodeId(0), NodeId(1));
    let mut world = World::new(0, 2, TIGHT);
    world.send(a, b).expect("there is room");
    world.heal();
    for _ in 0..TIGHT.window {
        world.send(a, b).expect("there is room");
    }
    world.flush(a);
    assert_eq!(world.network.drain(..).count(), 3);
    world.tick(TIGHT.resend_after);
    let again = world.network.iter().map(|(_, _, packet)| &packet.messages);
    let again: Vec<usize> = again.map(Vec::len).collect();
    assert_eq!(again, [TIGHT.packet_max]);
    world.deliver(0, false);
    world.flush(b);
    world.deliver(0, false);
    world.flush(a);
    while !world.network.is_empty() {
        world.deliver(0, false);
    }
    let arrived = world.nodes[b.index()].links.counters().delivered;
    assert_eq!(arrived, 1 + TIGHT.window as u64);
    world.heal();
}

#[test]
fn a_seed_runs_the_same_twice() {
    assert_eq!(sweep(7, true), sweep(7, true));
}
