//! One node's side of the link to one peer.

use std::collections::{BTreeMap, VecDeque};

use anabranch_types::Ticks;

use super::{Incarnation, LinkOptions, Packet};

/// The state of the link to one peer.
#[derive(Debug)]
pub(super) struct Peer<M> {
    /// Its latest known incarnation; `None` before the first packet.
    pub(super) incarnation: Option<Incarnation>,
    /// Whether this incarnation has to be announced to it, and is not acknowledged.
    pub(super) greeting: bool,
    /// Unacknowledged messages, oldest first.
    pub(super) outgoing: VecDeque<M>,
    /// How many of them, from the oldest on, are sent and not presumed lost.
    in_flight: usize,
    /// How many of them, from the oldest on, have ever been sent.
    sent: usize,
    /// The peer has acknowledged all messages up to this number.
    acknowledged: u64,
    /// When to resend.
    pub(super) resend_at: Option<Ticks>,
    /// How many resends in a row brought no acknowledgement.
    attempts: u32,
    /// The peer's messages up to this number have been delivered to the node.
    received: u64,
    /// Received messages that wait for an earlier one.
    out_of_order: BTreeMap<u64, M>,
    /// Whether the peer waits for an acknowledgement, or for this incarnation's number.
    pub(super) owes_ack: bool,
    /// Whether it is in the list of peers to be flushed.
    pub(super) dirty: bool,
    /// How many of its restarts the node has not noticed. Messages that the node sends meanwhile are
    /// addressed to a former incarnation.
    pub(super) unnoticed_restarts: u32,
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
            out_of_order: BTreeMap::new(),
            owes_ack: false,
            dirty: false,
            unnoticed_restarts: 0,
        }
    }
}

impl<M: Clone> Peer<M> {
    /// The first packet of the peer has come: queued messages can be sent.
    pub(super) fn first_contact(&mut self, incarnation: Incarnation) {
        self.incarnation = Some(incarnation);
        self.stop_timer();
    }

    /// The peer has restarted: messages of the new pair of incarnations are numbered from 1. Returns how
    /// many messages to the former incarnation are dropped.
    pub(super) fn restart(&mut self, incarnation: Incarnation) -> usize {
        let dropped = self.outgoing.len();
        let (dirty, greeting, unnoticed_restarts) =
            (self.dirty, self.greeting, self.unnoticed_restarts + 1);
        *self = Peer {
            dirty,
            greeting,
            unnoticed_restarts,
            incarnation: Some(incarnation),
            ..Peer::default()
        };
        dropped
    }

    /// Stops the resend timer; the next message sent starts it.
    fn stop_timer(&mut self) {
        self.resend_at = None;
        self.attempts = 0;
    }

    /// Handles an acknowledgement of this incarnation and of all messages up to `received`.
    pub(super) fn acknowledged(&mut self, now: Ticks, received: u64, options: &LinkOptions) {
        if std::mem::take(&mut self.greeting) && self.in_flight == 0 {
            self.stop_timer();
        }
        let new = received.saturating_sub(self.acknowledged) as usize;
        if new == 0 {
            return;
        }
        assert!(
            new <= self.sent,
            "LINK-I2: a peer acknowledges a message that was not sent"
        );
        self.outgoing.drain(..new);
        self.sent -= new;
        self.in_flight = self.in_flight.saturating_sub(new);
        self.acknowledged = received;
        self.stop_timer();
        if self.in_flight > 0 {
            self.resend_at = Some(now + options.resend_after);
        }
    }

    /// Receives one message. Delivers it and those that waited for it, if it is the next one. Returns
    /// false for a duplicate.
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
            return true; // No room: the peer will resend it.
        }
        if number > self.received + 1 {
            return self.out_of_order.insert(number, message).is_none();
        }
        self.received = number;
        deliver(message);
        while let Some(next) = self.out_of_order.remove(&(self.received + 1)) {
            self.received += 1;
            deliver(next);
        }
        true
    }

    /// Sends new messages within the window, an acknowledgement, or a greeting, as needed.
    pub(super) fn flush(
        &mut self,
        now: Ticks,
        own: Incarnation,
        options: &LinkOptions,
        mut send: impl FnMut(Packet<M>),
    ) {
        if self.incarnation.is_none() {
            let has_reason = self.greeting || !self.outgoing.is_empty();
            if has_reason && self.resend_at.is_none() {
                self.resend_at = Some(now + options.resend_after);
                send(self.hello(own));
            }
            return;
        }
        let until = self.outgoing.len().min(options.window);
        while self.in_flight < until {
            let next = (self.in_flight + options.packet_max).min(until);
            send(self.packet(own, self.in_flight..next));
            self.in_flight = next;
            self.sent = self.sent.max(next);
            self.owes_ack = false;
            self.resend_at.get_or_insert(now + options.resend_after);
        }
        if self.owes_ack {
            send(self.packet(own, 0..0));
            self.owes_ack = false;
        }
        if self.greeting && self.resend_at.is_none() {
            send(self.hello(own));
            self.resend_at = Some(now + options.resend_after);
        }
    }

    /// Resends the oldest messages, or the hello. Later messages under way are presumed lost: they follow
    /// when the oldest are acknowledged.
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
            return self.hello(own);
        }
        self.owes_ack = false;
        self.in_flight = self.in_flight.min(options.packet_max);
        self.packet(own, 0..self.in_flight)
    }

    /// Announces this incarnation and requests the peer's. The peer answers it, since it is addressed to
    /// no incarnation.
    fn hello(&self, own: Incarnation) -> Packet<M> {
        Packet {
            to: None,
            ..self.packet(own, 0..0)
        }
    }

    /// A packet with this range of the unacknowledged messages.
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
        if self.outgoing.len() > options.queue_max
            || self.out_of_order.len() >= options.window.max(1)
        {
            return Err("LINK-I3: a queue is longer than its limit".to_string());
        }
        let next = self.received + 1;
        let beyond = self.received + options.window as u64;
        if self
            .out_of_order
            .keys()
            .any(|&number| number <= next || number > beyond)
        {
            return Err(format!(
                "LINK-I1: {next} is next, and a buffered message is not after it"
            ));
        }
        if self.incarnation.is_none() && (self.in_flight > 0 || self.received > 0) {
            return Err("LINK-I4: messages go to or come from an unknown incarnation".to_string());
        }
        let waits = self.in_flight > 0;
        if (waits && self.resend_at.is_none())
            || self
                .resend_at
                .is_some_and(|at| alarm.is_none_or(|alarm| alarm > at))
        {
            return Err("LINK-I5: an acknowledgement is awaited without a timer".to_string());
        }
        Ok(())
    }
}
