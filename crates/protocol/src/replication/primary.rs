//! What a primary knows of its backups, and what it does for them.

use std::sync::Arc;

use anabranch_types::Ticks;

use super::message::{Message, Place, ReplicaId, View};
use super::replica::{Event, Out, Replica, Role};

/// A primary's view of its group.
#[derive(Clone, Debug)]
pub(super) struct Lead<T> {
    /// The last round of confirmation that has begun.
    pub(super) round: u64,
    /// Something waits for a round that has not begun.
    pub(super) wanted: bool,
    /// Entries up to here have been sent, to those who could take them.
    broadcast: u64,
    pub(super) heartbeat_at: Ticks,
    /// How many heartbeats in a row have brought no confirmation.
    missed: u32,
    /// The round that was confirmed at the last heartbeat.
    confirmed: u64,
    /// By number; the own place is not used.
    followers: Vec<Follower>,
    /// The state that is being sent to who lacks what is kept no longer.
    state: Option<State<T>>,
    /// The driver has been asked for it.
    asked: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Follower {
    /// Its log is the primary's up to here, durably.
    matched: u64,
    /// The next entry to be sent.
    next: u64,
    /// Where its log may go on as this one does, by what it has said last; before it has, where this one
    /// ended when its primary was elected. What is lost is sent again from here, and not from where it is
    /// known to match: a new primary knows that of nobody.
    said: u64,
    /// The last round that it has confirmed.
    confirmed: u64,
    /// What it had matched at the last heartbeat: where that has not grown, entries may be lost.
    matched_before: u64,
    /// How many heartbeats have come since it was heard.
    silent: u32,
    /// Which part of the state it waits for.
    part: Option<u32>,
}

/// Who has not been heard for more heartbeats than this is asked only whether it is there.
const SILENT_BEATS: u32 = 2;

#[derive(Clone, Debug)]
struct State<T> {
    base: Place,
    parts: Arc<Vec<T>>,
}

/// What more than half of all have reached.
fn reached_by_majority(mut values: Vec<u64>) -> u64 {
    values.sort_unstable_by(|a, b| b.cmp(a));
    values[values.len() / 2]
}

impl<T: Clone> Lead<T> {
    /// Elected just now, with a log that ends at `last`.
    pub(super) fn new(count: u8, last: Place, now: Ticks) -> Lead<T> {
        let follower = Follower {
            next: last.index + 1,
            said: last.index + 1,
            silent: SILENT_BEATS,
            ..Follower::default()
        };
        Lead {
            round: 0,
            wanted: false,
            broadcast: last.index,
            heartbeat_at: now,
            missed: 0,
            confirmed: 0,
            followers: vec![follower; usize::from(count)],
            state: None,
            asked: false,
        }
    }

    /// The last round that a majority has confirmed, the primary itself counted.
    pub(super) fn confirmed_round(&self, own: ReplicaId) -> u64 {
        let all = self.followers.iter().enumerate();
        let rounds = all.map(|(number, follower)| match number == own.index() {
            true => self.round,
            false => follower.confirmed,
        });
        reached_by_majority(rounds.collect())
    }

    /// The last entry that a majority has made durable.
    fn replicated(&self, own: ReplicaId, durable: u64) -> u64 {
        let all = self.followers.iter().enumerate();
        let matched = all.map(|(number, follower)| match number == own.index() {
            true => durable,
            false => follower.matched,
        });
        reached_by_majority(matched.collect())
    }

    /// The clock has gone back.
    pub(super) fn set_back(&mut self, by: Ticks) {
        self.heartbeat_at = Ticks(self.heartbeat_at.0.saturating_sub(by.0));
    }

    /// Whether a state is on its way to somebody.
    pub(super) fn is_installing(&self) -> bool {
        self.state.is_some()
    }
}

impl<T: Clone> Replica<T> {
    /// Adds an entry to the log.
    ///
    /// # Panics
    /// When this is not the primary.
    pub fn append(&mut self, payload: T, out: &mut Out<T>) -> u64 {
        assert!(self.is_primary(), "the primary alone writes");
        let place = Place {
            view: self.view,
            index: self.log.last().index + 1,
        };
        self.push(place, payload, out);
        place.index
    }

    /// Something was said that has to be confirmed: by which round it will be.
    ///
    /// # Panics
    /// When this is not the primary.
    pub fn want_confirmation(&mut self) -> u64 {
        let Role::Primary(lead) = &mut self.role else {
            panic!("the primary alone is confirmed");
        };
        lead.wanted = true;
        lead.round + 1
    }

    /// Ends a batch: sends what has been appended, and begins the round that is wanted. A round that
    /// carries no entries waits while others are under way, and then serves all who want one.
    pub fn flush(&mut self, out: &mut Out<T>) {
        let last = self.log.last().index;
        let Role::Primary(lead) = &self.role else {
            return;
        };
        let under_way = lead.round - lead.confirmed_round(self.id);
        let confirms = lead.wanted && under_way < self.options.rounds_max;
        if last > lead.broadcast || confirms {
            self.broadcast(out);
        }
    }

    /// Begins a round.
    fn broadcast(&mut self, out: &mut Out<T>) {
        let last = self.log.last().index;
        if let Role::Primary(lead) = &mut self.role {
            lead.round += 1;
            lead.wanted = false;
            lead.broadcast = last;
        }
        self.counters.rounds += 1;
        for to in self.others() {
            self.send_entries(to, out);
        }
        // Alone it has everything confirmed at once.
        self.advance();
    }

    /// Sends one backup what comes next for it.
    fn send_entries(&mut self, to: ReplicaId, out: &mut Out<T>) {
        let (base, last) = (self.log.base(), self.log.last());
        let (view, committed) = (self.view, self.committed);
        let entries_max = self.options.entries_max;
        let Role::Primary(lead) = &mut self.role else {
            return;
        };
        let round = lead.round;
        let follower = &mut lead.followers[to.index()];
        let lacks = follower.next <= base.index;
        let is_there = follower.silent <= SILENT_BEATS;
        let (previous, entries) = if lacks {
            // What it lacks is not kept: the state comes beside; here it confirms the round.
            (last, Vec::new())
        } else {
            let entries = match is_there {
                true => self.log.from(follower.next, entries_max),
                false => Vec::new(),
            };
            let previous = self.log.place(follower.next - 1);
            follower.next += entries.len() as u64;
            (previous.expect("it is kept from the base on"), entries)
        };
        let append = Message::Append {
            view,
            previous,
            entries,
            committed,
            round,
        };
        out.messages.push((to, append));
        // Who is gone is sent no state: it would keep the log's base where it is.
        if lacks && follower.part.is_none() && is_there {
            follower.part = Some(0);
            self.send_part(to, out);
        }
    }

    /// Sends one backup the part of the state that it waits for, or asks the driver for the state.
    fn send_part(&mut self, to: ReplicaId, out: &mut Out<T>) {
        let view = self.view;
        let Role::Primary(lead) = &mut self.role else {
            return;
        };
        let Some(part) = lead.followers[to.index()].part else {
            return;
        };
        let Some(state) = &lead.state else {
            if !std::mem::replace(&mut lead.asked, true) {
                out.events.push(Event::NeedsState);
            }
            return;
        };
        // Who has them all and has not said so is asked by the last one.
        let part = part.min(state.parts.len() as u32 - 1);
        let payload = &state.parts[part as usize];
        self.counters.parts += 1;
        let install = Message::Install {
            view,
            base: state.base,
            part,
            parts: state.parts.len() as u32,
            payload: payload.clone(),
        };
        out.messages.push((to, install));
    }

    /// The driver hands over the state at the log's base, in parts, as [`Event::NeedsState`] asks.
    ///
    /// # Panics
    /// When there is no part.
    pub fn offer(&mut self, parts: Vec<T>, out: &mut Out<T>) {
        assert!(!parts.is_empty(), "a state has a part at least");
        let base = self.log.base();
        let Role::Primary(lead) = &mut self.role else {
            return;
        };
        lead.asked = false;
        lead.state = Some(State {
            base,
            parts: Arc::new(parts),
        });
        for to in self.others() {
            self.send_part(to, out);
        }
    }

    /// The heartbeat: is the group still there, and what has to be sent again?
    pub(super) fn beat(&mut self, now: Ticks, out: &mut Out<T>) {
        let options = self.options;
        let Role::Primary(lead) = &mut self.role else {
            return;
        };
        lead.heartbeat_at = now + options.heartbeat;
        let confirmed = lead.confirmed_round(self.id);
        let is_heard = confirmed > lead.confirmed || lead.round == confirmed;
        lead.confirmed = confirmed;
        lead.missed = if is_heard { 0 } else { lead.missed + 1 };
        if lead.missed >= options.heartbeats_missed_max {
            self.counters.gave_up += 1;
            self.follow(None, now, out);
            return;
        }
        for follower in &mut lead.followers {
            follower.silent = follower.silent.saturating_add(1);
            if follower.silent > options.heartbeats_missed_max.max(SILENT_BEATS) {
                follower.part = None;
            }
            if follower.matched == follower.matched_before && follower.part.is_none() {
                follower.next = follower.next.min(follower.said);
            }
            follower.matched_before = follower.matched;
        }
        self.end_of_installing();
        self.broadcast(out);
        for to in self.others() {
            self.send_part(to, out);
        }
    }

    /// A backup's log is this one's up to `matched`.
    pub(super) fn appended(&mut self, from: ReplicaId, matched: u64, round: u64, out: &mut Out<T>) {
        let (base, last) = (self.log.base().index, self.log.last().index);
        let Role::Primary(lead) = &mut self.role else {
            return;
        };
        let follower = &mut lead.followers[from.index()];
        assert!(
            matched <= last && round <= lead.round,
            "REPL-I2: {from} has more of this view's log than its primary"
        );
        follower.silent = 0;
        follower.matched = follower.matched.max(matched);
        follower.next = follower.next.max(follower.matched + 1);
        follower.said = follower.matched + 1;
        follower.confirmed = follower.confirmed.max(round);
        if follower.matched >= base && follower.part.take().is_some() {
            self.end_of_installing();
        }
        self.advance();
        // While the state is on its way nothing else helps who lacks it, and no answer is worth another: the two would
        // talk as fast as the network lets them until its disk has done (seed 31838).
        let more = match &self.role {
            Role::Primary(lead) => {
                let follower = &lead.followers[from.index()];
                let waits = follower.next <= base && follower.part.is_some();
                follower.next <= last && !waits
            }
            _ => false,
        };
        if more {
            self.send_entries(from, out);
        }
        self.flush(out);
    }

    /// A backup's log parts from this one at `last` or before.
    pub(super) fn behind(&mut self, from: ReplicaId, last: u64, round: u64, out: &mut Out<T>) {
        let Role::Primary(lead) = &mut self.role else {
            return;
        };
        let follower = &mut lead.followers[from.index()];
        follower.silent = 0;
        follower.confirmed = follower.confirmed.max(round);
        follower.said = (last + 1).max(follower.matched + 1);
        let next = follower.next.min(follower.said);
        let goes_back = next < follower.next && follower.part.is_none();
        if goes_back {
            follower.next = next;
        }
        self.advance();
        if goes_back {
            self.send_entries(from, out);
        }
        self.flush(out);
    }

    /// A backup waits for a part of the state.
    pub(super) fn installed_part(
        &mut self,
        from: ReplicaId,
        base: Place,
        next: u32,
        out: &mut Out<T>,
    ) {
        let Role::Primary(lead) = &mut self.role else {
            return;
        };
        let is_this = lead.state.as_ref().is_some_and(|state| state.base == base);
        let follower = &mut lead.followers[from.index()];
        if is_this && follower.part.is_some_and(|part| part != next) {
            follower.part = Some(next);
            self.send_part(from, out);
        }
    }

    /// Lets go of the state if nobody waits for it.
    fn end_of_installing(&mut self) {
        if let Role::Primary(lead) = &mut self.role
            && lead
                .followers
                .iter()
                .all(|follower| follower.part.is_none())
        {
            lead.state = None;
            lead.asked = false;
        }
    }

    /// What a majority has, and an entry of this view is among it, is committed (Raft §5.4.2).
    pub(super) fn advance(&mut self) {
        let Role::Primary(lead) = &self.role else {
            return;
        };
        let replicated = lead.replicated(self.id, self.durable);
        let of_this_view = |place: Place| place.view == self.view;
        if replicated > self.committed && self.log.place(replicated).is_some_and(of_this_view) {
            self.committed = replicated;
        }
    }

    /// The last round that a majority has confirmed; none if this is not the primary.
    pub fn confirmed(&self) -> Option<u64> {
        match &self.role {
            Role::Primary(lead) => Some(lead.confirmed_round(self.id)),
            _ => None,
        }
    }

    /// Whether a state is on its way to a backup: the log's base has to stay where it is.
    pub fn is_installing(&self) -> bool {
        match &self.role {
            Role::Primary(lead) => lead.is_installing() || lead.asked,
            _ => false,
        }
    }

    /// The view of an entry that is kept.
    pub fn view_at(&self, index: u64) -> Option<View> {
        self.log.place(index).map(|place| place.view)
    }
}
