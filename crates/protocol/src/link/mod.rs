//! Reliable links over a network that is not: each message once and in order, or a restart noticed.
//!
//! The protocols assume that messages from one node to another arrive, once, in the order in which
//! they were sent, for as long as both nodes live; and that whoever lives is told when the other
//! has come back without its memory. The embedded cluster's queues give that for nothing. Where
//! packets may be lost, doubled, overtaken or held up, each node has one [`Links`] between its
//! protocol and the network. The page `docs/protocols/link.md` has the packet, the states, the
//! numbered invariants and why they hold.
//!
//! It is a state machine like the protocols: no clock, no thread, no socket. Its driver
//!
//! 1. makes one for each life of a node, with that life's [`Incarnation`], which must be durable
//!    before the first packet leaves; after a restart it calls [`Links::greet`];
//! 2. hands every message that the node sends to [`Links::send`] and, once a batch,
//!    calls [`Links::flush`], which also acknowledges what the batch has received;
//! 3. hands every packet to [`Links::receive`], and gives the node the [`LinkEvent`]s in order, as
//!    soon as it can: between everything that the node says before it hears of a restart and
//!    everything after that, it calls [`Links::noticed`];
//! 4. calls [`Links::tick`] when [`Links::next_alarm`] has come.
//!
//! Acknowledged means received, not durable: who needs to know that something is durable waits for
//! a message that says so, and hears of a restart before that ([`LinkEvent::Restarted`]).
//!
//! What it does not do: it detects no failures (a silent peer is asked again for ever, ever more
//! seldom), measures no round trips, and checks no bytes, which is the transport's part.

mod peer;

use std::fmt;

use anabranch_types::{NodeId, Ticks};

use self::peer::Peer;

/// Which life of a node: 1 after its birth, one more after each restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// The first life.
    pub const FIRST: Incarnation = Incarnation(1);

    /// The life after this one.
    pub fn next(self) -> Incarnation {
        Incarnation(self.0 + 1)
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "life {}", self.0)
    }
}

/// What travels between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<M> {
    /// The sender's life.
    pub from: Incarnation,
    /// The receiver's life, for which this is meant; `None` if the sender does not know it yet,
    /// and then there are no messages.
    pub to: Option<Incarnation>,
    /// The sender has received all of the receiver's messages up to this number.
    pub received: u64,
    /// The first message's number. Messages are numbered from 1 for each pair of lives.
    pub first: u64,
    /// Messages, numbered consecutively.
    pub messages: Vec<M>,
}

/// What a link tells its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent<M> {
    /// A message has arrived.
    Message {
        /// From which node.
        from: NodeId,
        /// What it says.
        message: M,
    },
    /// A node has come back to life. What it knew and had not made durable is gone. Messages to
    /// it that are not known to have arrived are dropped: some of them may have been received.
    /// Comes before every message of its new life. Answered by [`Links::noticed`].
    Restarted {
        /// Which node.
        node: NodeId,
        /// Its new life.
        incarnation: Incarnation,
        /// How many messages to it were dropped.
        dropped: usize,
    },
}

/// What follows from what has happened at a link. The driver empties it.
#[derive(Clone, Debug)]
pub struct LinkOutbox<M> {
    /// To be put on the network.
    pub packets: Vec<(NodeId, Packet<M>)>,
    /// To be given to the node, in order.
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

/// How links behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkOptions {
    /// How long to wait for an acknowledgement before sending again. The wait doubles with each
    /// attempt in vain.
    pub resend_after: Ticks,
    /// The longest such wait.
    pub resend_after_max: Ticks,
    /// The most messages under way to one peer; a receiver keeps as many that came too early.
    pub window: usize,
    /// The most messages kept for one peer, those under way included.
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

/// A peer acknowledges nothing and as many messages are kept for it as may be. The driver can
/// hold the node's clients back before it comes to that ([`Links::backlog`]); when it does come to
/// that, the node has to stop: a protocol's message must not be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlogged {
    /// Which peer.
    pub node: NodeId,
    /// How many messages are kept for it.
    pub kept: usize,
}

impl fmt::Display for Backlogged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "node {} acknowledges nothing, and {} messages are kept for it",
            self.node, self.kept
        )
    }
}

impl std::error::Error for Backlogged {}

/// What the links of one node have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets sent, of every kind.
    pub packets: u64,
    /// Messages delivered to the node.
    pub delivered: u64,
    /// Messages sent again.
    pub resent: u64,
    /// Messages received more than once.
    pub duplicates: u64,
    /// Packets from an earlier life of their sender, or with messages for another life of ours.
    pub fenced: u64,
    /// Peers that came back to life.
    pub restarts: u64,
    /// Messages that a node gave to its links before it heard that their receiver had died.
    pub misdirected: u64,
}

/// One node's links to all others, in one of its lives.
#[derive(Debug)]
pub struct Links<M> {
    own: NodeId,
    incarnation: Incarnation,
    options: LinkOptions,
    peers: Vec<Peer<M>>,
    /// Peers for which the next flush may have something to do, each once.
    dirty: Vec<NodeId>,
    /// No later than the first time at which something is due.
    alarm: Option<Ticks>,
    counters: LinkCounters,
}

impl<M: Clone> Links<M> {
    /// Links of node `own`, in this life, to all of `nodes` nodes. Says nothing by itself.
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

    /// The node's life.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The life in which a peer is known to be.
    pub fn incarnation_of(&self, node: NodeId) -> Option<Incarnation> {
        self.peers[node.index()].incarnation
    }

    /// What has been counted.
    pub fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// Whether a packet is from the life in which its sender is known to be, and meant for this one.
    /// Any other makes two lives known to each other: a node with replicas takes it when it knows
    /// that it is still the primary (`docs/protocols/replication.md`, REPL-I4).
    pub fn knows(&self, from: NodeId, packet: &Packet<M>) -> bool {
        let is_for_this = packet.to == Some(self.incarnation);
        is_for_this && self.incarnation_of(from) == Some(packet.from)
    }

    /// The most messages kept for any one peer. A driver that stops taking clients' calls at
    /// half of [`LinkOptions::queue_max`] never meets [`Backlogged`].
    pub fn backlog(&self) -> usize {
        let kept = self.peers.iter().map(|peer| peer.outgoing.len());
        kept.max().unwrap_or(0)
    }

    /// Whether every message sent is known to have arrived.
    pub fn is_idle(&self) -> bool {
        self.backlog() == 0
    }

    /// Tells every peer of this life, again and again until it has heard. For a node that has come
    /// back: its peers have to know, even those that it has nothing else to say to.
    pub fn greet(&mut self, now: Ticks, out: &mut LinkOutbox<M>) {
        for node in (0..self.peers.len() as u16).map(NodeId) {
            if node != self.own {
                self.peers[node.index()].greeting = true;
                self.mark(node);
            }
        }
        self.flush(now, out);
    }

    /// The node is about to hear of a peer's restart, told by [`LinkEvent::Restarted`]: what it says
    /// from now on is meant for the new life. What it has said since the links knew of that life was
    /// meant for the dead, and was dropped (LINK-I7).
    pub fn noticed(&mut self, node: NodeId) {
        let peer = &mut self.peers[node.index()];
        debug_assert!(peer.untold > 0, "LINK-I7: {node} has not come back");
        peer.untold = peer.untold.saturating_sub(1);
    }

    /// Takes a message; the next [`Links::flush`] sends it, if there is room for it under way. One
    /// to a peer of whose restart the node has yet to hear is dropped.
    ///
    /// # Errors
    /// [`Backlogged`], and the message is not taken.
    pub fn send(&mut self, to: NodeId, message: M) -> Result<(), Backlogged> {
        let peer = &mut self.peers[to.index()];
        if peer.untold > 0 {
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

    /// Sends what may be sent, and acknowledges what has been received.
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

    /// Takes a packet from the network.
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
            None => peer.meet(packet.from),
        }
        let peer = &mut self.peers[from.index()];
        if packet.to == Some(self.incarnation) {
            peer.acknowledged(now, packet.received, &self.options);
            self.alarm = earlier(self.alarm, peer.resend_at);
            peer.owes_answer |= !packet.messages.is_empty();
            let counters = &mut self.counters;
            for (number, message) in (packet.first..).zip(packet.messages) {
                let taken = peer.take(number, message, self.options.window, |message| {
                    counters.delivered += 1;
                    out.events.push(LinkEvent::Message { from, message });
                });
                counters.duplicates += u64::from(!taken);
            }
        } else {
            // It does not know this life: the answer tells it.
            self.counters.fenced += u64::from(!packet.messages.is_empty());
            peer.owes_answer = true;
        }
        self.mark(from);
    }

    /// Sends again what has waited too long for its acknowledgement.
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

    /// When to call [`Links::tick`] next; a call too early does no harm.
    pub fn next_alarm(&self) -> Option<Ticks> {
        self.alarm
    }

    fn mark(&mut self, node: NodeId) {
        let peer = &mut self.peers[node.index()];
        if !std::mem::replace(&mut peer.dirty, true) {
            self.dirty.push(node);
        }
    }

    /// Checks what one node can see of the page's invariants.
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
