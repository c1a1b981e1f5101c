//! The network between the nodes: it delays packets, and may lose, duplicate and reorder them.
//!
//! In a run without faults each message arrives once and in order, after its latency. In a run with
//! faults nodes exchange packets, which the network may lose, duplicate or reorder. Each node then
//! sends through its [`Links`], the code that a real network needs as well: it delivers each message
//! once and in order, as the protocols' contract requires.

use anabranch_engine::NodeInput;
use anabranch_protocol::link::{
    Incarnation, LinkCounters, LinkEvent, LinkOptions, LinkOutbox, Links, Packet,
};
use anabranch_types::{NodeId, SplitMix64, Ticks};

use super::{Cluster, Event};
use crate::latency::{self, Network};
use crate::protocols::Simulated;

/// The directed link from one node to another.
struct LinkModel {
    median: Ticks,
    extra: Ticks,
    /// How many active partitions cut it.
    cuts: u32,
    /// When the last in-order message arrives.
    last: Ticks,
    /// The latency in the current period ([`LatencyPeriods`]), and the number of that period.
    current: Ticks,
    period: Option<u64>,
    /// The link's periods begin this much before the clock's multiples of their length.
    phase: Ticks,
}

/// Latencies that stay constant for a period on each link ([`Network::with_latency_periods`]). They depend on the seed
/// alone, so protocols that are compared meet the same network.
///
/// The names of the random streams decide what is drawn: they keep their old words, so that seeds give the same runs.
#[derive(Clone, Copy)]
struct LatencyPeriods {
    length: Ticks,
    seed: u64,
}

impl LatencyPeriods {
    /// The phase of a link's periods: links do not all change at the same time.
    fn phase(self, link: usize) -> Ticks {
        let mut random = SplitMix64::stream(self.seed, "begin of spells", link as u64);
        Ticks(random.below(self.length.0))
    }

    /// The random numbers of one link's period.
    fn random(self, link: usize, period: u64) -> SplitMix64 {
        let number = ((link as u64) << 40) | period;
        SplitMix64::stream(self.seed, "spells", number)
    }
}

/// The active faults of the whole network. Faults that overlap add up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NetworkFaults {
    /// Packets that are lost, of 100.
    pub(crate) loss_percent: u64,
    /// Packets that arrive twice, of 100.
    pub(crate) duplication_percent: u64,
    /// Packets that arrive late, after packets that were sent later, of 100.
    pub(crate) reordering_percent: u64,
    /// By how many percent all messages take longer than usual.
    pub(crate) slowdown_percent: u64,
}

/// When a packet arrives, and when its duplicate does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrivals {
    pub(crate) first: Option<Ticks>,
    pub(crate) duplicate: Option<Ticks>,
}

/// All links.
pub(crate) struct NetworkModel {
    nodes: u16,
    links: Vec<LinkModel>,
    pub(crate) faults: NetworkFaults,
    random: SplitMix64,
    periods: Option<LatencyPeriods>,
    /// Whether every message takes its link's median.
    steady: bool,
}

impl NetworkModel {
    pub(crate) fn new(seed: u64, nodes: u16, network: &Network) -> NetworkModel {
        let pairs = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
        let periods = network.latency_period();
        let periods = periods.map(|length| LatencyPeriods { length, seed });
        let links = pairs.enumerate().map(|(at, (from, to))| LinkModel {
            median: network.median(from, to),
            extra: Ticks(0),
            cuts: 0,
            last: Ticks(0),
            current: Ticks(0),
            period: None,
            phase: periods.map_or(Ticks(0), |periods| periods.phase(at)),
        });
        NetworkModel {
            nodes,
            links: links.collect(),
            faults: NetworkFaults::default(),
            random: SplitMix64::stream(seed, "network", 0),
            periods,
            steady: network.is_steady(),
        }
    }

    fn link(&mut self, from: u16, to: u16) -> &mut LinkModel {
        let at = self.index(from, to);
        &mut self.links[at]
    }

    fn index(&self, from: u16, to: u16) -> usize {
        usize::from(from) * usize::from(self.nodes) + usize::from(to)
    }

    /// Adds to a link's latency, or takes the addition back.
    pub(crate) fn slow(&mut self, from: u16, to: u16, by: Ticks, begins: bool) {
        let link = self.link(from, to);
        link.extra = if begins {
            link.extra + by
        } else {
            link.extra.since(by)
        };
    }

    /// A partition begins or ends on a link.
    pub(crate) fn cut(&mut self, from: u16, to: u16, begins: bool) {
        let link = self.link(from, to);
        if begins {
            link.cuts += 1;
        } else {
            link.cuts -= 1;
        }
    }

    fn is_cut(&mut self, from: u16, to: u16) -> bool {
        self.link(from, to).cuts > 0
    }

    /// The latency of a message that is sent now.
    fn latency(&mut self, now: Ticks, from: u16, to: u16) -> Ticks {
        let percent = 100 + self.faults.slowdown_percent;
        let at = self.index(from, to);
        let link = &mut self.links[at];
        let usual = match self.periods {
            _ if self.steady => link.median,
            None => latency::sample(link.median, &mut self.random),
            Some(periods) => {
                let period = (now.0 + link.phase.0) / periods.length.0;
                if link.period != Some(period) {
                    link.period = Some(period);
                    link.current = latency::sample(link.median, &mut periods.random(at, period));
                }
                link.current
            }
        };
        Ticks(usual.0 * percent / 100) + link.extra
    }

    /// When a message arrives that is sent now, on a link that keeps the order.
    pub(crate) fn arrival(&mut self, now: Ticks, from: u16, to: u16) -> Ticks {
        let latency = self.latency(now, from, to);
        let link = self.link(from, to);
        let arrival = (now + latency).max(link.last + Ticks(1));
        link.last = arrival;
        arrival
    }

    fn chance(&mut self, percent: u64) -> bool {
        percent > 0 && self.random.percent(percent)
    }
}

/// The links' timeouts on this network: the first retransmission comes after a few round trips.
pub(crate) fn link_options(network: &Network, nodes: u16) -> LinkOptions {
    let trip = network.longest(nodes).0;
    LinkOptions {
        resend_after: Ticks(trip * 5),
        resend_after_max: Ticks(trip * 100),
        ..LinkOptions::default()
    }
}

impl<P: Simulated> Cluster<P> {
    /// The links of one incarnation of a node; `None` in a run without faults.
    pub(crate) fn make_links(
        &self,
        node: u16,
        incarnation: Incarnation,
    ) -> Option<Links<P::Message>> {
        // On a backup's host the node has no links.
        self.hosts[usize::from(node)].node()?;
        let nodes = self.placement.nodes();
        let own = NodeId(self.node_of(node));
        self.link_options
            .map(|options| Links::new(own, incarnation, nodes, options))
    }

    /// Sends a message from one node to another.
    pub(crate) fn send(&mut self, from: u16, to: u16, message: P::Message) {
        self.statistics.messages += 1;
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
        let arrival = self.network.arrival(self.now, from, to);
        self.queue
            .push(arrival, Event::Deliver { from, to, message });
    }

    /// Has a node's links send the messages of its last step, and acknowledge what it received.
    pub(crate) fn flush_links(&mut self, node: u16) {
        self.use_links(node, |links, now, out| links.flush(now, out));
    }

    /// Runs an action on a node's links, sends the resulting packets, and delivers the resulting messages.
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
                self.primary_caches[server].try_next(to);
            }
            let to = self.cached_primary_of(node, to);
            self.send_packet(node, to, packet, false);
        }
        self.reset_link_tick(node);
        for event in out.events {
            self.link_event(node, event);
        }
    }

    /// Has links retransmit what was not acknowledged in time. A peer that does not answer may run on another
    /// host by now.
    pub(crate) fn links_tick(&mut self, host: u16) {
        self.work_links(host, true, |links, now, out| links.tick(now, out));
    }

    /// A packet reaches a host. A host without links drops it; a backup forwards it, at most once, to the
    /// replica that it takes for the primary.
    pub(crate) fn packet_arrives(
        &mut self,
        from: u16,
        to: u16,
        packet: Packet<P::Message>,
        is_forwarded: bool,
    ) {
        if self.hosts[usize::from(to)].links.is_none() {
            if let Some(primary) = self.primary_known_to(to).filter(|_| !is_forwarded) {
                self.statistics
                    .sometimes("a backup forwarded a packet to the primary");
                self.forward(from, to, primary, packet);
            }
            return;
        }
        if self.waits_for_confirmation(from, to, &packet) {
            return;
        }
        self.take_packet(from, to, packet);
    }

    /// Delivers a packet to the links of a host.
    pub(crate) fn take_packet(&mut self, from: u16, to: u16, packet: Packet<P::Message>) {
        let (node, replica) = (NodeId(self.node_of(from)), self.replica_of(from));
        let server = usize::from(self.server_of(to));
        self.primary_caches[server].learn(node, replica, packet.from);
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
                self.statistics
                    .sometimes("a node learned that another had restarted");
                self.give(node, NodeInput::Restarted { node: back });
            }
        }
    }

    /// Sends a packet from one host to another.
    fn send_packet(&mut self, from: u16, to: u16, packet: Packet<P::Message>, is_forwarded: bool) {
        let event = |packet| Event::Packet {
            from,
            to,
            packet: Box::new(packet),
            is_forwarded,
        };
        let Arrivals { first, duplicate } = self.travel(from, to, true);
        if let Some(at) = duplicate {
            self.queue.push(at, event(packet.clone()));
        }
        if let Some(at) = first {
            self.queue.push(at, event(packet));
        }
    }

    /// Forwards a packet from a backup to another host.
    fn forward(&mut self, from: u16, by: u16, to: u16, packet: Packet<P::Message>) {
        let Arrivals { first, .. } = self.travel(by, to, true);
        if let Some(at) = first {
            let packet = Box::new(packet);
            let is_forwarded = Event::Packet {
                from,
                to,
                packet,
                is_forwarded: true,
            };
            self.queue.push(at, is_forwarded);
        }
    }

    /// Decides when a packet from one host reaches another: never, once or twice. With `in_order` it arrives
    /// after earlier packets, unless a fault reorders it.
    pub(crate) fn travel(&mut self, from: u16, to: u16, in_order: bool) -> Arrivals {
        let (from, to) = (self.server_of(from), self.server_of(to));
        let mut arrivals = Arrivals::default();
        self.statistics.packets += 1;
        if self.network.is_cut(from, to) {
            self.statistics.sometimes("a partition dropped a packet");
            return arrivals;
        }
        let NetworkFaults {
            loss_percent,
            duplication_percent,
            reordering_percent,
            ..
        } = self.network.faults;
        if self.network.chance(loss_percent) {
            self.statistics.sometimes("the network lost a packet");
            return arrivals;
        }
        if self.network.chance(duplication_percent) {
            self.statistics.sometimes("the network duplicated a packet");
            arrivals.duplicate = Some(self.now + self.network.latency(self.now, from, to));
        }
        arrivals.first = Some(if self.network.chance(reordering_percent) {
            self.statistics.sometimes("the network reordered a packet");
            // Several latencies late, and not kept in order.
            self.now
                + self.network.latency(self.now, from, to)
                + Ticks(self.network.latency(self.now, from, to).0 * 3)
        } else if in_order {
            self.network.arrival(self.now, from, to)
        } else {
            self.now + self.network.latency(self.now, from, to)
        });
        arrivals
    }

    /// Schedules the next retransmission of a node's links.
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

    /// The counters of all links, closed ones included.
    pub(crate) fn link_counters(&self) -> LinkCounters {
        let mut sum = self.closed_links;
        for links in self.hosts.iter().filter_map(|host| host.links.as_ref()) {
            add(&mut sum, &links.counters());
        }
        sum
    }
}

/// Adds counters to a sum.
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

    const PERIOD: Ticks = Ticks::from_millis(1);

    fn network() -> Network {
        Network::matrix("lan", "sites lan\nlan 0.489\n").expect("it is a matrix")
    }

    /// The mean latency, in medians, when a message is sent every so often.
    fn mean(network: &Network, every: Ticks) -> f64 {
        let mut model = NetworkModel::new(5, 2, network);
        let (mut now, mut sum, mut count) = (Ticks(0), 0, 0);
        let mut last = Ticks(0);
        while now < Ticks::from_millis(400) {
            let arrival = model.arrival(now, 0, 1);
            assert!(arrival > last, "none overtakes another");
            (sum, count, last) = (sum + arrival.since(now).0, count + 1, arrival);
            now = now + every;
        }
        sum as f64 / f64::from(count) / network.median(0, 1).0 as f64
    }

    /// If each message draws its own latency, a busy link is as slow as its slowest message, since it keeps the
    /// order. With periods the load makes no difference.
    #[test]
    fn with_latency_periods_a_busy_link_is_as_fast_as_a_quiet_one() {
        let (seldom, often) = (Ticks::from_millis(2), Ticks(1_000));
        let each_its_own = network();
        let quiet = mean(&each_its_own, seldom);
        assert!((1.0..1.4).contains(&quiet), "{quiet}");
        assert!(mean(&each_its_own, often) > 4.0 * quiet);
        let periodic = network().with_latency_periods(PERIOD);
        let [quiet, busy] = [seldom, often].map(|every| mean(&periodic, every));
        assert!((1.0..1.4).contains(&quiet), "{quiet}");
        assert!((0.8..1.3).contains(&(busy / quiet)), "{busy} and {quiet}");
    }

    /// A link's latency does not depend on its traffic, and links change independently of each other.
    #[test]
    fn the_seed_alone_decides_on_latency_periods() {
        let periodic = network().with_latency_periods(PERIOD);
        let at = |seed, from, to, millis: u64, before: u64| {
            let mut model = NetworkModel::new(seed, 2, &periodic);
            for earlier in 0..before {
                model.latency(Ticks(earlier * 10_000), 0, 1);
            }
            model.latency(Ticks::from_millis(millis), from, to)
        };
        let mut kinds = std::collections::BTreeSet::new();
        for millis in 0..40 {
            let alone = at(1, 0, 1, millis, 0);
            assert_eq!(at(1, 0, 1, millis, 700), alone);
            kinds.extend([alone, at(1, 1, 0, millis, 0), at(2, 0, 1, millis, 0)]);
        }
        assert!(kinds.len() > 100, "{}", kinds.len());
        let none = network().with_latency_periods(Ticks(0));
        assert!(NetworkModel::new(1, 2, &none).periods.is_none());
    }
}
