//! What lies between the nodes: a network that may lose, double, overtake and hold up.
//!
//! A run without faults needs no more than that messages take their time: each arrives once and in
//! order. In a run with faults the network knows packets, and does to them what networks do. Each
//! node then speaks through its [`Links`], the same code that a real network would need, which make
//! of packets what the protocols' contract asks for: each message once and in order.

use anabranch_engine::NodeInput;
use anabranch_protocol::link::{
    Incarnation, LinkCounters, LinkEvent, LinkOptions, LinkOutbox, Links, Packet,
};
use anabranch_types::{NodeId, SplitMix64, Ticks};

use crate::cluster::{Cluster, Event};
use crate::latency::{self, Network};
use crate::protocols::Simulated;

/// The way from one node to another.
struct Wire {
    median: Ticks,
    extra: Ticks,
    /// How many partitions cut it.
    cuts: u32,
    /// When the last message arrives, if none overtakes another.
    last: Ticks,
    /// How long messages take in a spell, and which it is ([`Spells`]); and how far it is ahead of the clock with them.
    usual: Ticks,
    spell: Option<u64>,
    ahead: Ticks,
}

/// How a network behaves each of whose wires is as fast or as slow for a while ([`Network::in_spells`]). When, and how
/// fast, the seed decides and nothing else: whatever is sent through it meets the same weather.
#[derive(Clone, Copy)]
struct Spells {
    length: Ticks,
    seed: u64,
}

impl Spells {
    /// How far a wire is ahead: they do not all change at the same time.
    fn ahead(self, wire: usize) -> Ticks {
        let mut random = SplitMix64::stream(self.seed, "begin of spells", wire as u64);
        Ticks(random.below(self.length.0))
    }

    /// What chance says of a spell.
    fn random(self, wire: usize, spell: u64) -> SplitMix64 {
        let number = ((wire as u64) << 40) | spell;
        SplitMix64::stream(self.seed, "spells", number)
    }
}

/// How badly all wires behave at the moment; what overlaps adds up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// Packets that are lost, of 100.
    pub(crate) lost: u64,
    /// Packets that arrive twice, of 100.
    pub(crate) doubled: u64,
    /// Packets that come late and are overtaken, of 100.
    pub(crate) overtaken: u64,
    /// How much more than their usual time all messages take, in percent.
    pub(crate) slower: u64,
}

/// When a packet arrives, and when it does a second time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrivals {
    pub(crate) first: Option<Ticks>,
    pub(crate) again: Option<Ticks>,
}

/// All wires.
pub(crate) struct Wires {
    nodes: u16,
    wires: Vec<Wire>,
    pub(crate) weather: Weather,
    random: SplitMix64,
    spells: Option<Spells>,
}

impl Wires {
    pub(crate) fn new(seed: u64, nodes: u16, network: &Network) -> Wires {
        let pairs = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
        let spells = network.spell().map(|length| Spells { length, seed });
        let wires = pairs.enumerate().map(|(at, (from, to))| Wire {
            median: network.median(from, to),
            extra: Ticks(0),
            cuts: 0,
            last: Ticks(0),
            usual: Ticks(0),
            spell: None,
            ahead: spells.map_or(Ticks(0), |spells| spells.ahead(at)),
        });
        Wires {
            nodes,
            wires: wires.collect(),
            weather: Weather::default(),
            random: SplitMix64::stream(seed, "network", 0),
            spells,
        }
    }

    fn wire(&mut self, from: u16, to: u16) -> &mut Wire {
        let at = self.place(from, to);
        &mut self.wires[at]
    }

    fn place(&self, from: u16, to: u16) -> usize {
        usize::from(from) * usize::from(self.nodes) + usize::from(to)
    }

    /// A wire gets slower, or as fast again as it was.
    pub(crate) fn slow(&mut self, from: u16, to: u16, by: Ticks, begins: bool) {
        let wire = self.wire(from, to);
        wire.extra = if begins {
            wire.extra + by
        } else {
            wire.extra.since(by)
        };
    }

    /// A partition begins or ends on a wire.
    pub(crate) fn cut(&mut self, from: u16, to: u16, begins: bool) {
        let wire = self.wire(from, to);
        if begins {
            wire.cuts += 1;
        } else {
            wire.cuts -= 1;
        }
    }

    fn is_cut(&mut self, from: u16, to: u16) -> bool {
        self.wire(from, to).cuts > 0
    }

    /// How long a message takes that is sent now.
    fn latency(&mut self, now: Ticks, from: u16, to: u16) -> Ticks {
        let percent = 100 + self.weather.slower;
        let at = self.place(from, to);
        let wire = &mut self.wires[at];
        let usual = match self.spells {
            None => latency::sample(wire.median, &mut self.random),
            Some(spells) => {
                let spell = (now.0 + wire.ahead.0) / spells.length.0;
                if wire.spell != Some(spell) {
                    wire.spell = Some(spell);
                    wire.usual = latency::sample(wire.median, &mut spells.random(at, spell));
                }
                wire.usual
            }
        };
        Ticks(usual.0 * percent / 100) + wire.extra
    }

    /// When a message arrives that is sent now, on a wire that keeps the order.
    pub(crate) fn arrival(&mut self, now: Ticks, from: u16, to: u16) -> Ticks {
        let latency = self.latency(now, from, to);
        let wire = self.wire(from, to);
        let arrival = (now + latency).max(wire.last + Ticks(1));
        wire.last = arrival;
        arrival
    }

    fn chance(&mut self, percent: u64) -> bool {
        percent > 0 && self.random.percent(percent)
    }
}

/// How links behave on this network: the first wait is a few round trips.
pub(crate) fn link_options(network: &Network, nodes: u16) -> LinkOptions {
    let trip = network.longest(nodes).0;
    LinkOptions {
        resend_after: Ticks(trip * 5),
        resend_after_max: Ticks(trip * 100),
        ..LinkOptions::default()
    }
}

impl<P: Simulated> Cluster<P> {
    /// A node's links in one of its lives; none in a run without faults.
    pub(crate) fn make_links(&self, node: u16, life: Incarnation) -> Option<Links<P::Message>> {
        // Where a backup is, the node has no links.
        self.hosts[usize::from(node)].node()?;
        let nodes = self.placement.nodes();
        let own = NodeId(self.node_of(node));
        self.link_options
            .map(|options| Links::new(own, life, nodes, options))
    }

    /// A node has said something to another.
    pub(crate) fn send(&mut self, from: u16, to: u16, message: P::Message) {
        self.happened.messages += 1;
        if let Some(recorder) = &mut self.recorder {
            let from = from % self.placement.nodes();
            recorder.sent(from, to, self.now, P::label(&message));
        }
        if let Some(links) = &mut self.hosts[usize::from(from)].links {
            if let Err(full) = links.send(NodeId(to), message) {
                self.violate(from, &format!("its links have to stop: {full}"));
            }
            return;
        }
        let arrival = self.wires.arrival(self.now, from, to);
        self.queue
            .push(arrival, Event::Deliver { from, to, message });
    }

    /// A node's links send what its last step has said, and answer what it has received.
    pub(crate) fn flush_links(&mut self, node: u16) {
        self.use_links(node, |links, now, out| links.flush(now, out));
    }

    /// Lets a node's links do something, sends the packets that follow from it, and gives the node
    /// what has arrived.
    pub(crate) fn use_links(
        &mut self,
        node: u16,
        action: impl FnOnce(&mut Links<P::Message>, Ticks, &mut LinkOutbox<P::Message>),
    ) {
        self.work_links(node, false, action);
    }

    fn work_links(
        &mut self,
        node: u16,
        sends_again: bool,
        action: impl FnOnce(&mut Links<P::Message>, Ticks, &mut LinkOutbox<P::Message>),
    ) {
        let host = &mut self.hosts[usize::from(node)];
        let Some(links) = &mut host.links else {
            return;
        };
        let mut out = LinkOutbox::default();
        action(links, self.now, &mut out);
        if self.watch.invariants_every > 0
            && let Err(broken) = links.check_invariants()
        {
            self.violate(node, &broken);
        }
        for (to, packet) in out.packets {
            if sends_again {
                let server = usize::from(self.server_of(node));
                self.whereabouts[server].try_next(to);
            }
            let to = self.whereabouts_of(node, to);
            self.put_on_wire(node, to, packet, false);
        }
        self.reset_link_tick(node);
        for event in out.events {
            self.link_event(node, event);
        }
    }

    /// Links send again what has waited too long. Whoever has not answered may be elsewhere.
    pub(crate) fn links_tick(&mut self, host: u16) {
        self.work_links(host, true, |links, now, out| links.tick(now, out));
    }

    /// A packet reaches a host. What sleeps, or is dead, has nobody to take it; a backup passes it on
    /// to whom it takes for the primary, once.
    pub(crate) fn packet_arrives(
        &mut self,
        from: u16,
        to: u16,
        packet: Packet<P::Message>,
        passed_on: bool,
    ) {
        if self.hosts[usize::from(to)].links.is_none() {
            if let Some(primary) = self.primary_known_to(to).filter(|_| !passed_on) {
                self.happened
                    .sometimes("a backup passed a packet on to the primary");
                self.pass_on(from, to, primary, packet);
            }
            return;
        }
        if self.waits_for_confirmation(from, to, &packet) {
            return;
        }
        self.take_packet(from, to, packet);
    }

    /// Gives a packet to the links that it is for.
    pub(crate) fn take_packet(&mut self, from: u16, to: u16, packet: Packet<P::Message>) {
        let (node, replica) = (NodeId(self.node_of(from)), self.replica_of(from));
        let server = usize::from(self.server_of(to));
        self.whereabouts[server].learn(node, replica, packet.from);
        self.use_links(to, |links, now, out| {
            links.receive(now, node, packet, out);
        });
        self.flush_links(to);
    }

    fn link_event(&mut self, node: u16, event: LinkEvent<P::Message>) {
        match event {
            LinkEvent::Message { from, message } => {
                if let Some(recorder) = &mut self.recorder {
                    let to = node % self.placement.nodes();
                    recorder.received(from.0, to, self.now);
                }
                self.give(node, NodeInput::Message { from, message });
            }
            LinkEvent::Restarted { node: back, .. } => {
                self.happened
                    .sometimes("a node heard that another had come back");
                self.give(node, NodeInput::Restarted { node: back });
            }
        }
    }

    /// A packet goes from one host to another.
    fn put_on_wire(&mut self, from: u16, to: u16, packet: Packet<P::Message>, passed_on: bool) {
        let event = |packet| Event::Packet {
            from,
            to,
            packet: Box::new(packet),
            passed_on,
        };
        let Arrivals { first, again } = self.travel(from, to, true);
        if let Some(at) = again {
            self.queue.push(at, event(packet.clone()));
        }
        if let Some(at) = first {
            self.queue.push(at, event(packet));
        }
    }

    /// A backup hands on a packet that was meant for its node.
    fn pass_on(&mut self, from: u16, by: u16, to: u16, packet: Packet<P::Message>) {
        let Arrivals { first, .. } = self.travel(by, to, true);
        if let Some(at) = first {
            let packet = Box::new(packet);
            let passed_on = Event::Packet {
                from,
                to,
                packet,
                passed_on: true,
            };
            self.queue.push(at, passed_on);
        }
    }

    /// When what one host sends reaches another: not at all, once or twice; behind what was sent
    /// before, as a rule, or not.
    pub(crate) fn travel(&mut self, from: u16, to: u16, in_order: bool) -> Arrivals {
        let (from, to) = (self.server_of(from), self.server_of(to));
        let mut arrivals = Arrivals::default();
        self.happened.packets += 1;
        if self.wires.is_cut(from, to) {
            self.happened.sometimes("a partition cut something off");
            return arrivals;
        }
        let Weather {
            lost,
            doubled,
            overtaken,
            ..
        } = self.wires.weather;
        if self.wires.chance(lost) {
            self.happened.sometimes("the network lost a packet");
            return arrivals;
        }
        if self.wires.chance(doubled) {
            self.happened.sometimes("the network doubled a packet");
            arrivals.again = Some(self.now + self.wires.latency(self.now, from, to));
        }
        arrivals.first = Some(if self.wires.chance(overtaken) {
            self.happened
                .sometimes("the network let a packet be overtaken");
            // Not before twice its time has passed, and not kept in order.
            self.now
                + self.wires.latency(self.now, from, to)
                + Ticks(self.wires.latency(self.now, from, to).0 * 3)
        } else if in_order {
            self.wires.arrival(self.now, from, to)
        } else {
            self.now + self.wires.latency(self.now, from, to)
        });
        arrivals
    }

    /// Sees to it that a node's links are woken when they have to send something again.
    pub(crate) fn reset_link_tick(&mut self, node: u16) {
        let host = &mut self.hosts[usize::from(node)];
        let Some(alarm) = host.links.as_ref().and_then(Links::next_alarm) else {
            return;
        };
        let due = alarm.max(self.now);
        if host.link_tick.is_none_or(|tick| due < tick) {
            host.link_tick = Some(due);
            self.queue.push(due, Event::LinkTick { node });
        }
    }

    /// What all links have counted.
    pub(crate) fn link_counters(&self) -> LinkCounters {
        let mut sum = self.buried_links;
        for links in self.hosts.iter().filter_map(|host| host.links.as_ref()) {
            add(&mut sum, &links.counters());
        }
        sum
    }
}

/// Adds another's counts.
pub(crate) fn add(sum: &mut LinkCounters, other: &LinkCounters) {
    sum.packets += other.packets;
    sum.delivered += other.delivered;
    sum.resent += other.resent;
    sum.duplicates += other.duplicates;
    sum.fenced += other.fenced;
    sum.restarts += other.restarts;
    sum.misdirected += other.misdirected;
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPELL: Ticks = Ticks::from_millis(1);

    fn network() -> Network {
        Network::matrix("lan", "sites lan\nlan 0.489\n").expect("it is a matrix")
    }

    /// How long messages take in the mean, in medians, of which one is sent every so often.
    fn mean(network: &Network, every: Ticks) -> f64 {
        let mut wires = Wires::new(5, 2, network);
        let (mut now, mut sum, mut count) = (Ticks(0), 0, 0);
        let mut last = Ticks(0);
        while now < Ticks::from_millis(400) {
            let arrival = wires.arrival(now, 0, 1);
            assert!(arrival > last, "none overtakes another");
            (sum, count, last) = (sum + arrival.since(now).0, count + 1, arrival);
            now = now + every;
        }
        sum as f64 / f64::from(count) / network.median(0, 1).0 as f64
    }

    /// However much a way carries: what each message draws for itself makes a busy one as slow as the slowest.
    #[test]
    fn a_busy_way_in_spells_takes_as_long_as_a_quiet_one() {
        let (seldom, often) = (Ticks::from_millis(2), Ticks(1_000));
        let each_its_own = network();
        let quiet = mean(&each_its_own, seldom);
        assert!((1.0..1.4).contains(&quiet), "{quiet}");
        assert!(mean(&each_its_own, often) > 4.0 * quiet);
        let in_spells = network().in_spells(SPELL);
        let [quiet, busy] = [seldom, often].map(|every| mean(&in_spells, every));
        assert!((1.0..1.4).contains(&quiet), "{quiet}");
        assert!((0.8..1.3).contains(&(busy / quiet)), "{busy} and {quiet}");
    }

    /// A wire is as fast for whoever uses it, and wires change by themselves.
    #[test]
    fn the_seed_alone_decides_on_spells() {
        let in_spells = network().in_spells(SPELL);
        let at = |seed, from, to, millis: u64, before: u64| {
            let mut wires = Wires::new(seed, 2, &in_spells);
            for earlier in 0..before {
                wires.latency(Ticks(earlier * 10_000), 0, 1);
            }
            wires.latency(Ticks::from_millis(millis), from, to)
        };
        let mut kinds = std::collections::BTreeSet::new();
        for millis in 0..40 {
            let alone = at(1, 0, 1, millis, 0);
            assert_eq!(at(1, 0, 1, millis, 700), alone);
            kinds.extend([alone, at(1, 1, 0, millis, 0), at(2, 0, 1, millis, 0)]);
        }
        assert!(kinds.len() > 100, "{}", kinds.len());
        let none = network().in_spells(Ticks(0));
        assert!(Wires::new(1, 2, &none).spells.is_none());
    }
}
