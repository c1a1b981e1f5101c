//! The primary's part of the state machine: appends entries, replicates them, confirms rounds.

use std::sync::Arc;

use anabranch_types::Ticks;

use super::message::{LogId, Message, ReplicaId, View};
use super::primary_state::{SILENT_HEARTBEATS, StateTransfer};
use super::replica::{Event, GroupOutbox, Replica, Role};

impl<T: Clone> Replica<T> {
    /// Appends an entry to the log and returns its index.
    ///
    /// # Panics
    /// When this is not the primary.
    pub fn append(&mut self, payload: T, out: &mut GroupOutbox<T>) -> u64 {
        assert!(self.is_primary(), "only the primary appends");
        let id = LogId {
            view: self.view,
            index: self.log.last().index + 1,
        };
        self.push(id, payload, out);
        id.index
    }

    /// Requests a confirmation that this is still the primary; returns the round that will bring it.
    ///
    /// # Panics
    /// When this is not the primary.
    pub fn want_confirmation(&mut self) -> u64 {
        let Role::Primary(primary) = &mut self.role else {
            panic!("only a primary can be confirmed");
        };
        primary.round_wanted = true;
        primary.round + 1
    }

    /// Ends a batch: sends what has been appended, and begins a round if one is requested. A round
    /// without entries waits while `rounds_max` others are under way, then serves all requests.
    pub fn flush(&mut self, out: &mut GroupOutbox<T>) {
        let last = self.log.last().index;
        let Role::Primary(primary) = &self.role else {
            return;
        };
        let under_way = primary.round - primary.confirmed_round(self.id);
        let confirms = primary.round_wanted && under_way < self.options.rounds_max;
        if last > primary.broadcast || confirms {
            self.broadcast(out);
        }
    }

    /// Begins a round of confirmation with all backups.
    fn broadcast(&mut self, out: &mut GroupOutbox<T>) {
        let last = self.log.last().index;
        if let Role::Primary(primary) = &mut self.role {
            primary.round += 1;
            primary.round_wanted = false;
            primary.broadcast = last;
        }
        self.counters.rounds += 1;
        for to in self.others() {
            self.send_entries(to, out);
        }
        // A group of one confirms its rounds at once.
        self.advance();
    }

    /// Sends one backup the entries after those it has been sent.
    fn send_entries(&mut self, to: ReplicaId, out: &mut GroupOutbox<T>) {
        let (base, last) = (self.log.base(), self.log.last());
        let (view, committed) = (self.view, self.committed);
        let entries_max = self.options.entries_max;
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let round = primary.round;
        let backup = &mut primary.backups[to.index()];
        let is_compacted = backup.next <= base.index;
        let is_there = backup.silent_heartbeats <= SILENT_HEARTBEATS;
        let (previous, entries) = if is_compacted {
            // Its next entries are compacted: the state is sent separately, this only confirms the round.
            (last, Vec::new())
        } else {
            let entries = match is_there {
                true => self.log.from(backup.next, entries_max),
                false => Vec::new(),
            };
            let previous = self.log.id(backup.next - 1);
            backup.next += entries.len() as u64;
            (previous.expect("the log reaches back to its base"), entries)
        };
        let append = Message::Append {
            view,
            previous,
            entries,
            committed,
            round,
        };
        out.messages.push((to, append));
        // A silent backup is sent no state: the transfer would pin the log's base.
        if is_compacted && backup.part.is_none() && is_there {
            backup.part = Some(0);
            self.send_part(to, out);
        }
    }

    /// Sends one backup the part of the state that it waits for, or asks the driver for the state.
    fn send_part(&mut self, to: ReplicaId, out: &mut GroupOutbox<T>) {
        let view = self.view;
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let Some(part) = primary.backups[to.index()].part else {
            return;
        };
        let Some(transfer) = &primary.transfer else {
            if !std::mem::replace(&mut primary.state_requested, true) {
                out.events.push(Event::NeedsState);
            }
            return;
        };
        // A backup that has all parts and has not reported so is sent the last one again.
        let part = part.min(transfer.parts.len() as u32 - 1);
        let payload = &transfer.parts[part as usize];
        self.counters.parts += 1;
        let install = Message::Install {
            view,
            base: transfer.base,
            part,
            parts: transfer.parts.len() as u32,
            payload: payload.clone(),
        };
        out.messages.push((to, install));
    }

    /// Takes the state at the log's base, in parts, from the driver: the answer to [`Event::NeedsState`].
    ///
    /// # Panics
    /// When there is no part.
    pub fn offer(&mut self, parts: Vec<T>, out: &mut GroupOutbox<T>) {
        assert!(!parts.is_empty(), "a state has at least one part");
        let base = self.log.base();
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        primary.state_requested = false;
        primary.transfer = Some(StateTransfer {
            base,
            parts: Arc::new(parts),
        });
        for to in self.others() {
            self.send_part(to, out);
        }
    }

    /// Sends a heartbeat, resends lost entries, and steps down if no majority answers any more.
    pub(super) fn heartbeat(&mut self, now: Ticks, out: &mut GroupOutbox<T>) {
        let options = self.options;
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        primary.heartbeat_at = now + options.heartbeat;
        let confirmed = primary.confirmed_round(self.id);
        let is_confirmed = confirmed > primary.confirmed || primary.round == confirmed;
        primary.confirmed = confirmed;
        primary.missed = if is_confirmed { 0 } else { primary.missed + 1 };
        if primary.missed >= options.heartbeats_missed_max {
            self.counters.gave_up += 1;
            self.follow(None, now, out);
            return;
        }
        for backup in &mut primary.backups {
            backup.silent_heartbeats = backup.silent_heartbeats.saturating_add(1);
            if backup.silent_heartbeats > options.heartbeats_missed_max.max(SILENT_HEARTBEATS) {
                backup.part = None;
            }
            if backup.matched == backup.matched_before && backup.part.is_none() {
                backup.next = backup.next.min(backup.resend_from);
            }
            backup.matched_before = backup.matched;
        }
        primary.end_transfer_if_idle();
        self.broadcast(out);
        for to in self.others() {
            self.send_part(to, out);
        }
    }

    /// Handles [`Message::Appended`]: the backup's log equals this one up to `matched`.
    pub(super) fn appended(
        &mut self,
        from: ReplicaId,
        matched: u64,
        round: u64,
        out: &mut GroupOutbox<T>,
    ) {
        let (base, last) = (self.log.base().index, self.log.last().index);
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let backup = &mut primary.backups[from.index()];
        assert!(
            matched <= last && round <= primary.round,
            "REPL-I2: {from} has more of this view's log than its primary"
        );
        backup.silent_heartbeats = 0;
        backup.matched = backup.matched.max(matched);
        backup.next = backup.next.max(backup.matched + 1);
        backup.resend_from = backup.matched + 1;
        backup.confirmed = backup.confirmed.max(round);
        if backup.matched >= base && backup.part.take().is_some() {
            primary.end_transfer_if_idle();
        }
        self.advance();
        // A backup that waits for the state can use nothing else. Answering each of its answers would let the two
        // exchange messages at network speed until its disk is done (seed 31838).
        let more = match &self.role {
            Role::Primary(primary) => {
                let backup = &primary.backups[from.index()];
                let waits = backup.next <= base && backup.part.is_some();
                backup.next <= last && !waits
            }
            _ => false,
        };
        if more {
            self.send_entries(from, out);
        }
        self.flush(out);
    }

    /// Handles [`Message::Behind`]: the backup's log diverges from this one at `last` or before.
    pub(super) fn behind(
        &mut self,
        from: ReplicaId,
        last: u64,
        round: u64,
        out: &mut GroupOutbox<T>,
    ) {
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let backup = &mut primary.backups[from.index()];
        backup.silent_heartbeats = 0;
        backup.confirmed = backup.confirmed.max(round);
        backup.resend_from = (last + 1).max(backup.matched + 1);
        let next = backup.next.min(backup.resend_from);
        let goes_back = next < backup.next && backup.part.is_none();
        if goes_back {
            backup.next = next;
        }
        self.advance();
        if goes_back {
            self.send_entries(from, out);
        }
        self.flush(out);
    }

    /// Handles [`Message::Installed`]: the backup waits for this part of the state.
    pub(super) fn installed_part(
        &mut self,
        from: ReplicaId,
        base: LogId,
        next: u32,
        out: &mut GroupOutbox<T>,
    ) {
        let Role::Primary(primary) = &mut self.role else {
            return;
        };
        let is_this = primary
            .transfer
            .as_ref()
            .is_some_and(|transfer| transfer.base == base);
        let backup = &mut primary.backups[from.index()];
        if is_this && backup.part.is_some_and(|part| part != next) {
            backup.part = Some(next);
            self.send_part(from, out);
        }
    }

    /// Commits what a majority has made durable, once that includes an entry of this view (Raft §5.4.2).
    pub(super) fn advance(&mut self) {
        let Role::Primary(primary) = &self.role else {
            return;
        };
        let replicated = primary.replicated(self.id, self.durable);
        let of_this_view = |id: LogId| id.view == self.view;
        if replicated > self.committed && self.log.id(replicated).is_some_and(of_this_view) {
            self.committed = replicated;
        }
    }

    /// The last round that a majority has confirmed; none if this is not the primary.
    pub fn confirmed(&self) -> Option<u64> {
        match &self.role {
            Role::Primary(primary) => Some(primary.confirmed_round(self.id)),
            _ => None,
        }
    }

    /// Whether a state transfer to a backup pins the log's base.
    pub fn is_installing(&self) -> bool {
        match &self.role {
            Role::Primary(primary) => primary.is_installing() || primary.state_requested,
            _ => false,
        }
    }

    /// The view of the entry at an index, if the log holds it.
    pub fn view_at(&self, index: u64) -> Option<View> {
        self.log.id(index).map(|id| id.view)
    }
}
