//! Reliable links over an unreliable network: each message arrives once and in order, or the node
//! learns of a restart.
//!
//! The protocols assume that, while two nodes run, each message between them arrives once and in the
//! order of sending, and that a node learns when the other has restarted without its memory. The
//! queues of the embedded cluster guarantee that. Over a network that may lose, duplicate, reorder or
//! delay packets, each node has one [`Links`] between its protocol and the network.
//! `docs/protocols/link.md` has the packet, the states, the numbered invariants and why they hold.
//!
//! It is a state machine like the protocols: no clock, no thread, no socket. Its driver
//!
//! 1. makes one for each [`Incarnation`] of a node; the incarnation must be durable before the first
//!    packet leaves; after a restart the driver calls [`Links::greet`];
//! 2. passes every message of the node to [`Links::send`] and calls [`Links::flush`] once a batch,
//!    which also acknowledges what the batch has received;
//! 3. passes every packet to [`Links::receive`], and the [`LinkEvent`]s to the node, in order, as soon
//!    as it can; it calls [`Links::noticed`] between the node's messages of before it learns of a
//!    restart and those of after;
//! 4. calls [`Links::tick`] when [`Links::next_alarm`] has come.
//!
//! Acknowledged means received, not durable. A node that needs durability waits for a message that
//! reports it, and learns of a restart before that ([`LinkEvent::Restarted`]).
//!
//! It detects no failures (it resends to a silent peer for ever, at growing intervals), measures no
//! round trips, and checks no bytes, which is the transport's task.

mod peer;

use std::fmt;

use anabranch_types::{NodeId, Ticks};

use self::peer::Peer;

/// The number of one run of a node between a start and a crash: 1 for the first, one more after each
/// restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// The first incarnation.
    pub const FIRST: Incarnation = Incarnation(1);

    /// The next incarnation.
    pub fn next(self) -> Incarnation {
        Incarnation(self.0 + 1)
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "incarnation {}", self.0)
    }
}

/// A packet between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<M> {
    /// The sender's incarnation.
    pub from: Incarnation,
    /// The receiver's incarnation that the packet is addressed to. `None`, and no messages, if the sender
    /// does not know it yet.
    pub to: Option<Incarnation>,
    /// The acknowledgement: the sender has received all messages up to this number.
    pub received: u64,
    /// The first message's number. Messages are numbered from 1 for each pair of incarnations.
    pub first: u64,
    /// Messages, numbered consecutively.
    pub messages: Vec<M>,
}

/// An event that a link reports to its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent<M> {
    /// A message has arrived.
    Message {
        /// The sender.
        from: NodeId,
        /// The message.
        message: M,
    },
    /// A node has restarted and has lost everything that was not durable. Unacknowledged messages to it
    /// are dropped; it may have received some of them. Comes before every message of its new incarnation.
    /// The driver answers by [`Links::noticed`].
    Restarted {
        /// The node.
        node: NodeId,
        /// Its new incarnation.
        incarnation: Incarnation,
        /// How many messages to it were dropped.
        dropped: usize,
    },
}

/// The output of a link's steps. The driver empties it.
#[derive(Clone, Debug)]
pub struct LinkOutbox<M> {
    /// Packets for the network.
    pub packets: Vec<(NodeId, Packet<M>)>,
    /// Events for the node, in order.
    pub events: Vec<LinkEvent<M>>,
}

impl<M> Default for LinkOutbox<M> {
    fn default() -> Self {
        LinkOutbox {
            packets: Vec::new(),
            events: Vec::new(),
        }
    }
}

/// Options of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkOptions {
    /// How long to wait for an acknowledgement before resending. The wait doubles with each resend.
    pub resend_after: Ticks,
    /// The longest such wait.
    pub resend_after_max: Ticks,
    /// The most messages under way to one peer. A receiver buffers as many that arrive out of order.
    pub window: usize,
    /// The most messages queued for one peer, including those under way.
    pub queue_max: usize,
    /// The most messages in one packet.
    pub packet_max: usize,
}

impl Default for LinkOptions {
    /// 20 ms doubling up to 1 s; 1,024 under way, 65,536 kept, 64 a packet.
    fn default() -> Self {
        LinkOptions {
            resend_after: Ticks::from_millis(20),
            resend_after_max: Ticks::from_millis(1_000),
            window: 1_024,
            queue_max: 65_536,
            packet_max: 64,
        }
    }
}

/// The queue to a peer that acknowledges nothing is full. The node has to stop, since a protocol's
/// message must not be dropped. A driver prevents this by accepting no client calls while
/// [`Links::backlog`] is high.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlogged {
    /// The peer.
    pub node: NodeId,
    /// The number of messages queued for it.
    pub kept: usize,
}

impl fmt::Display for Backlogged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "node {} acknowledges nothing, and {} messages to it are queued: this node has to stop",
            self.node, self.kept
        )
    }
}

impl std::error::Error for Backlogged {}

/// Counters of one node's links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets sent.
    pub packets: u64,
    /// Messages delivered to the node.
    pub delivered: u64,
    /// Messages resent.
    pub resent: u64,
    /// Messages received more than once.
    pub duplicates: u64,
    /// Packets from an earlier incarnation of the sender, or with messages to another incarnation of this
    /// node.
    pub fenced: u64,
    /// Restarts of peers.
    pub restarts: u64,
    /// Messages dropped because the node sent them before it learned that the receiver had restarted.
    pub misdirected: u64,
}

/// One node's links to all others, in one incarnation.
#[derive(Debug)]
pub struct Links<M> {
    own: NodeId,
    incarnation: Incarnation,
    options: LinkOptions,
    peers: Vec<Peer<M>>,
    /// Peers that the next flush has to examine, each once.
    dirty: Vec<NodeId>,
    /// A time no later than the first resend that is due.
    alarm: Option<Ticks>,
    counters: LinkCounters,
}

impl<M: Clone> Links<M> {
    /// The links of node `own` in this incarnation to all of `nodes` nodes. Sends nothing by itself.
    pub fn new(
        own: NodeId,
        incarnation: Incarnation,
        nodes: u16,
        options: LinkOptions,
    ) -> Links<M> {
        Links {
            own,
            incarnation,
            options,
            peers: (0..nodes).map(|_| Peer::default()).collect(),
            dirty: Vec::new(),
            alarm: None,
            counters: LinkCounters::default(),
        }
    }

    /// The node's incarnation.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The latest known incarnation of a peer.
    pub fn incarnation_of(&self, node: NodeId) -> Option<Incarnation> {
        self.peers[node.index()].incarnation
    }

    /// Its counters.
    pub fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// Whether a packet is from the latest known incarnation of its sender and addressed to this one. Any
    /// other packet introduces two incarnations: a replicated node accepts it once a majority has
    /// confirmed it as the primary (`docs/protocols/replication.md`, REPL-I4).
    pub fn knows(&self, from: NodeId, packet: &Packet<M>) -> bool {
        let is_for_this = packet.to == Some(self.incarnation);
        is_for_this && self.incarnation_of(from) == Some(packet.from)
    }

    /// The longest queue to a peer, in messages. A driver that stops accepting clients' calls at half of
    /// [`LinkOptions::queue_max`] does not meet [`Backlogged`].
    pub fn backlog(&self) -> usize {
        let kept = self.peers.iter().map(|peer| peer.outgoing.len());
        kept.max().unwrap_or(0)
    }

    /// Whether every message is acknowledged.
    pub fn is_idle(&self) -> bool {
        self.backlog() == 0
    }

    /// Announces this incarnation to every peer, and repeats it until the peer has answered. For a
    /// restarted node: all peers have to learn of the restart.
    pub fn greet(&mut self, now: Ticks, out: &mut LinkOutbox<M>) {
        for node in (0..self.peers.len() as u16).map(NodeId) {
            if node != self.own {
                self.peers[node.index()].greeting = true;
                self.mark(node);
            }
        }
        self.flush(now, out);
    }

    /// The node learns now of a peer's restart, reported by [`LinkEvent::Restarted`]: its messages from
    /// now on are addressed to the new incarnation. Messages that it sent since the links knew of the
    /// restart were addressed to the former one and are dropped (LINK-I7).
    pub fn noticed(&mut self, node: NodeId) {
        let peer = &mut self.peers[node.index()];
        debug_assert!(
            peer.unnoticed_restarts > 0,
            "LINK-I7: {node} has not restarted"
        );
        peer.unnoticed_restarts = peer.unnoticed_restarts.saturating_sub(1);
    }

    /// Queues a message; [`Links::flush`] sends it as soon as the window permits. A message to a peer
    /// whose restart the node has not noticed is dropped.
    ///
    /// # Errors
    /// [`Backlogged`]: the message is not queued.
    pub fn send(&mut self, to: NodeId, message: M) -> Result<(), Backlogged> {
        let peer = &mut self.peers[to.index()];
        if peer.unnoticed_restarts > 0 {
            self.counters.misdirected += 1;
            return Ok(());
        }
        let kept = peer.outgoing.len();
        if kept >= self.options.queue_max {
            return Err(Backlogged { node: to, kept });
        }
        peer.outgoing.push_back(message);
        self.mark(to);
        Ok(())
    }

    /// Sends queued messages within the window, and acknowledgements.
    pub fn flush(&mut self, now: Ticks, out: &mut LinkOutbox<M>) {
        for node in std::mem::take(&mut self.dirty) {
            let peer = &mut self.peers[node.index()];
            peer.dirty = false;
            let before = out.packets.len();
            peer.flush(now, self.incarnation, &self.options, |packet| {
                out.packets.push((node, packet));
            });
            self.counters.packets += (out.packets.len() - before) as u64;
            self.alarm = earlier(self.alarm, self.peers[node.index()].resend_at);
        }
    }

    /// Handles a packet from the network.
    pub fn receive(
        &mut self,
        now: Ticks,
        from: NodeId,
        packet: Packet<M>,
        out: &mut LinkOutbox<M>,
    ) {
        let peer = &mut self.peers[from.index()];
        match peer.incarnation {
            Some(known) if packet.from < known => {
                self.counters.fenced += 1;
                return;
            }
            Some(known) if packet.from > known => {
                let dropped = peer.restart(packet.from);
                self.counters.restarts += 1;
                out.events.push(LinkEvent::Restarted {
                    node: from,
                    incarnation: packet.from,
                    dropped,
                });
            }
            Some(_) => {}
            None => peer.first_contact(packet.from),
        }
        let peer = &mut self.peers[from.index()];
        if packet.to == Some(self.incarnation) {
            peer.acknowledged(now, packet.received, &self.options);
            self.alarm = earlier(self.alarm, peer.resend_at);
            peer.owes_ack |= !packet.messages.is_empty();
            let counters = &mut self.counters;
            for (number, message) in (packet.first..).zip(packet.messages) {
                let taken = peer.take(number, message, self.options.window, |message| {
                    counters.delivered += 1;
                    out.events.push(LinkEvent::Message { from, message });
                });
                counters.duplicates += u64::from(!taken);
            }
        } else {
            // The sender does not know this incarnation: the answer has it.
            self.counters.fenced += u64::from(!packet.messages.is_empty());
            peer.owes_ack = true;
        }
        self.mark(from);
    }

    /// Resends messages whose acknowledgement is overdue.
    pub fn tick(&mut self, now: Ticks, out: &mut LinkOutbox<M>) {
        if self.alarm.is_none_or(|at| at > now) {
            return;
        }
        self.alarm = None;
        for node in (0..self.peers.len() as u16).map(NodeId) {
            let peer = &mut self.peers[node.index()];
            if peer.resend_at.is_some_and(|at| at <= now) {
                let packet = peer.resend(now, self.incarnation, &self.options);
                self.counters.packets += 1;
                self.counters.resent += packet.messages.len() as u64;
                out.packets.push((node, packet));
            }
            self.alarm = earlier(self.alarm, self.peers[node.index()].resend_at);
        }
    }

    /// When to call [`Links::tick`] next; an early call does no harm.
    pub fn next_alarm(&self) -> Option<Ticks> {
        self.alarm
    }

    fn mark(&mut self, node: NodeId) {
        let peer = &mut self.peers[node.index()];
        if !std::mem::replace(&mut peer.dirty, true) {
            self.dirty.push(node);
        }
    }

    /// Checks the invariants of `docs/protocols/link.md` that one node can see.
    ///
    /// # Errors
    /// The invariant's name and what contradicts it.
    pub fn check_invariants(&self) -> Result<(), String> {
        for (node, peer) in self.peers.iter().enumerate() {
            peer.check_invariants(&self.options, self.alarm)
                .map_err(|broken| format!("{broken}, at the link from {} to n{node}", self.own))?;
        }
        Ok(())
    }
}

fn earlier(a: Option<Ticks>, b: Option<Ticks>) -> Option<Ticks> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
