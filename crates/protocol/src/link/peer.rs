//! One node's side of the link to one peer.

use std::collections::{BTreeMap, VecDeque};

use anabranch_types::Ticks;

use super::{Incarnation, LinkOptions, Packet};

/// What is known of a peer, and what is under way to and from it.
#[derive(Debug)]
pub(super) struct Peer<M> {
    /// Its life; `None` before it has been heard.
    pub(super) incarnation: Option<Incarnation>,
    /// It has to be told of this life, and has not shown that it knows.
    pub(super) greeting: bool,
    /// Messages not known to have arrived, oldest first.
    pub(super) outgoing: VecDeque<M>,
    /// How many of them, from the oldest on, have been sent and are not given up for lost.
    in_flight: usize,
    /// How many of them, from the oldest on, have ever been sent.
    sent: usize,
    /// The peer is known to have received all messages up to this number.
    acknowledged: u64,
    /// When to send again.
    pub(super) resend_at: Option<Ticks>,
    /// How often in a row that was in vain.
    attempts: u32,
    /// All of the peer's messages up to this number have been given to the node.
    received: u64,
    /// Messages that came before one that has not come.
    early: BTreeMap<u64, M>,
    /// The peer waits to hear what has been received, or which life this is.
    pub(super) owes_answer: bool,
    /// It is in the list of those to be flushed.
    pub(super) dirty: bool,
    /// Of how many of its restarts the node has not been told: what the node says meanwhile is meant
    /// for the dead.
    pub(super) untold: u32,
}

impl<M> Default for Peer<M> {
    fn default() -> Self {
        Peer {
            incarnation: None,
            greeting: false,
            outgoing: VecDeque::new(),
            in_flight: 0,
            sent: 0,
            acknowledged: 0,
            resend_at: None,
            attempts: 0,
            received: 0,
            early: BTreeMap::new(),
            owes_answer: false,
            dirty: false,
            untold: 0,
        }
    }
}

impl<M: Clone> Peer<M> {
    /// It is heard for the first time: what was kept for it can go.
    pub(super) fn meet(&mut self, incarnation: Incarnation) {
        self.incarnation = Some(incarnation);
        self.rest();
    }

    /// It is heard from a new life: a new pair of lives, whose messages are numbered from 1.
    /// Returns how many messages to the old life are dropped.
    pub(super) fn restart(&mut self, incarnation: Incarnation) -> usize {
        let dropped = self.outgoing.len();
        let (dirty, greeting, untold) = (self.dirty, self.greeting, self.untold + 1);
        *self = Peer {
            dirty,
            greeting,
            untold,
            incarnation: Some(incarnation),
            ..Peer::default()
        };
        dropped
    }

    /// Nothing is waited for: the next thing sent starts the timer.
    fn rest(&mut self) {
        self.resend_at = None;
        self.attempts = 0;
    }

    /// The peer has shown that it knows this life, and that it has everything up to `received`.
    pub(super) fn acknowledged(&mut self, now: Ticks, received: u64, options: &LinkOptions) {
        if std::mem::take(&mut self.greeting) && self.in_flight == 0 {
            self.rest();
        }
        let new = received.saturating_sub(self.acknowledged) as usize;
        if new == 0 {
            return;
        }
        assert!(
            new <= self.sent,
            "LINK-I2: a peer acknowledges what was not sent"
        );
        self.outgoing.drain(..new);
        self.sent -= new;
        self.in_flight = self.in_flight.saturating_sub(new);
        self.acknowledged = received;
        self.rest();
        if self.in_flight > 0 {
            self.resend_at = Some(now + options.resend_after);
        }
    }

    /// Takes one message; gives it, and those that waited for it, to the node when its turn has
    /// come. False if it has been taken before.
    pub(super) fn take(
        &mut self,
        number: u64,
        message: M,
        window: usize,
        mut deliver: impl FnMut(M),
    ) -> bool {
        if number <= self.received {
            return false;
        }
        if number > self.received + window as u64 {
            return true; // No room: it will be sent again.
        }
        if number > self.received + 1 {
            return self.early.insert(number, message).is_none();
        }
        self.received = number;
        deliver(message);
        while let Some(next) = self.early.remove(&(self.received + 1)) {
            self.received += 1;
            deliver(next);
        }
        true
    }

    /// Everything new that may be under way, a greeting or an answer, as far as there is need.
    pub(super) fn flush(
        &mut self,
        now: Ticks,
        own: Incarnation,
        options: &LinkOptions,
        mut send: impl FnMut(Packet<M>),
    ) {
        if self.incarnation.is_none() {
            let wanted = self.greeting || !self.outgoing.is_empty();
            if wanted && self.resend_at.is_none() {
                self.resend_at = Some(now + options.resend_after);
                send(self.question(own));
            }
            return;
        }
        let until = self.outgoing.len().min(options.window);
        while self.in_flight < until {
            let next = (self.in_flight + options.packet_max).min(until);
            send(self.packet(own, self.in_flight..next));
            self.in_flight = next;
            self.sent = self.sent.max(next);
            self.owes_answer = false;
            self.resend_at.get_or_insert(now + options.resend_after);
        }
        if self.owes_answer {
            send(self.packet(own, 0..0));
            self.owes_answer = false;
        }
        if self.greeting && self.resend_at.is_none() {
            send(self.question(own));
            self.resend_at = Some(now + options.resend_after);
        }
    }

    /// The oldest messages again, or the question. The others under way are given up for lost:
    /// they follow when the oldest are acknowledged.
    pub(super) fn resend(
        &mut self,
        now: Ticks,
        own: Incarnation,
        options: &LinkOptions,
    ) -> Packet<M> {
        self.attempts += 1;
        let doubled = options.resend_after.0 << self.attempts.min(20);
        let wait = Ticks(doubled.min(options.resend_after_max.0));
        self.resend_at = Some(now + wait);
        if self.in_flight == 0 {
            return self.question(own);
        }
        self.owes_answer = false;
        self.in_flight = self.in_flight.min(options.packet_max);
        self.packet(own, 0..self.in_flight)
    }

    /// Tells of this life, and asks for the peer's: answered, since it is meant for no life.
    fn question(&self, own: Incarnation) -> Packet<M> {
        Packet {
            to: None,
            ..self.packet(own, 0..0)
        }
    }

    /// A packet with these of the messages kept.
    fn packet(&self, own: Incarnation, range: std::ops::Range<usize>) -> Packet<M> {
        Packet {
            from: own,
            to: self.incarnation,
            received: self.received,
            first: self.acknowledged + 1 + range.start as u64,
            messages: self.outgoing.range(range).cloned().collect(),
        }
    }

    pub(super) fn check_invariants(
        &self,
        options: &LinkOptions,
        alarm: Option<Ticks>,
    ) -> Result<(), String> {
        let fits = self.in_flight <= self.sent && self.sent <= self.outgoing.len();
        if !fits || self.sent > options.window {
            return Err(format!(
                "LINK-I3: {} messages are under way",
                self.in_flight
            ));
        }
        if self.outgoing.len() > options.queue_max || self.early.len() >= options.window.max(1) {
            return Err("LINK-I3: more is kept than may be".to_string());
        }
        let next = self.received + 1;
        let beyond = self.received + options.window as u64;
        if self
            .early
            .keys()
            .any(|&number| number <= next || number > beyond)
        {
            return Err(format!(
                "LINK-I1: {next} is next, and not all that is kept comes after it"
            ));
        }
        if self.incarnation.is_none() && (self.in_flight > 0 || self.received > 0) {
            return Err("LINK-I4: messages go to or come from an unknown life".to_string());
        }
        let waits = self.in_flight > 0;
        if (waits && self.resend_at.is_none())
            || self
                .resend_at
                .is_some_and(|at| alarm.is_none_or(|alarm| alarm > at))
        {
            return Err("LINK-I5: something is waited for without a timer".to_string());
        }
        Ok(())
    }
}
