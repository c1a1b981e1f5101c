//! One replica: follows a primary, votes, is elected. What it does as a primary is in `lead`.

use std::collections::VecDeque;

use anabranch_types::{SplitMix64, Ticks};

use super::entries::Entries;
use super::lead::Lead;
use super::message::{Entry, Message, Place, ReplicaId, View};

/// How replicas behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaOptions {
    /// How often a primary is heard at least.
    pub heartbeat: Ticks,
    /// A backup that has heard no primary for so long, or up to twice as long by chance, asks to be
    /// elected.
    pub silence_max: Ticks,
    /// A primary gives up when so many heartbeats in a row have brought no confirmation.
    pub heartbeats_missed_max: u32,
    /// The most rounds of confirmation under way that carry no entries; what wants one more waits,
    /// and shares the next.
    pub rounds_max: u64,
    /// The most entries in one message.
    pub entries_max: usize,
    /// Of the chance by which replicas do not ask at the same time.
    pub seed: u64,
}

impl Default for ReplicaOptions {
    /// A heartbeat every 50 ms, an election after 300 to 600 ms of silence; two rounds under way, 256
    /// entries a message.
    fn default() -> Self {
        ReplicaOptions {
            heartbeat: Ticks::from_millis(50),
            silence_max: Ticks::from_millis(300),
            heartbeats_missed_max: 6,
            rounds_max: 2,
            entries_max: 256,
            seed: 0,
        }
    }
}

/// What a replica wants to be written down, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write<T> {
    /// It is in this view, and has voted so in it.
    View {
        /// The view.
        view: View,
        /// For whom.
        voted: Option<ReplicaId>,
    },
    /// The next entry. One whose index was there before stands for that one, and for all above it.
    Entry(Entry<T>),
}

/// What the driver has to do or to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<T> {
    /// This replica is the primary of its view. The entries before are its node's past; the first
    /// thing to append is the node's new life.
    Elected,
    /// It is the primary no more: nothing that it has not said will ever be said.
    Deposed,
    /// A backup lacks entries that are kept no longer: [`Replica::offer`] the state at the base.
    NeedsState,
    /// A part of the primary's state at `base`: the first begins it anew, and after the last the
    /// driver makes it durable and calls [`Replica::installed`].
    Part {
        /// Where the log goes on from the state.
        base: Place,
        /// Which part, from 0, in order.
        part: u32,
        /// Whether it is the last.
        is_last: bool,
        /// The part.
        payload: T,
    },
}

/// What follows from what has happened at a replica. The driver empties it.
#[derive(Clone, Debug)]
pub struct Out<T> {
    /// To be appended to the disk's log, in order. Reported by [`Replica::persisted`] when durable.
    pub writes: Vec<Write<T>>,
    /// To other replicas. They may leave at once: what has to be durable before is held back inside.
    pub messages: Vec<(ReplicaId, Message<T>)>,
    /// To the driver, in order.
    pub events: Vec<Event<T>>,
}

impl<T> Default for Out<T> {
    fn default() -> Self {
        Out {
            writes: Vec::new(),
            messages: Vec::new(),
            events: Vec::new(),
        }
    }
}

/// What a replica counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaCounters {
    /// Times that it was elected.
    pub elections: u64,
    /// Times that it gave up being the primary, since it heard of no majority.
    pub gave_up: u64,
    /// Rounds of confirmation that it began.
    pub rounds: u64,
    /// Parts of a state that it sent.
    pub parts: u64,
}

/// What a replica that comes back has found on its disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored<T> {
    /// The view that it was in.
    pub view: View,
    /// For whom it had voted in it.
    pub voted: Option<ReplicaId>,
    /// The place of its state.
    pub base: Place,
    /// The entries that follow.
    pub entries: Vec<Entry<T>>,
}

/// What a replica is at the moment.
#[derive(Clone, Debug)]
pub(super) enum Role<T> {
    /// It follows whoever is the primary.
    Backup,
    /// It has heard none for long, and asks whether it would be elected: who has said yes.
    Wavering(Vec<ReplicaId>),
    /// It has left the view before, and asks to be elected: who has voted for it.
    Candidate(Vec<ReplicaId>),
    /// It is the primary of its view.
    Primary(Box<Lead<T>>),
}

/// A state that comes in parts.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    view: View,
    base: Place,
    next: u32,
}

/// One replica. See the module.
#[derive(Clone, Debug)]
pub struct Replica<T> {
    pub(super) id: ReplicaId,
    count: u8,
    pub(super) options: ReplicaOptions,
    random: SplitMix64,
    pub(super) view: View,
    voted: Option<ReplicaId>,
    pub(super) log: Entries<T>,
    /// Everything up to here is committed.
    pub(super) committed: u64,
    pub(super) role: Role<T>,
    /// Who is taken for the primary.
    primary: Option<ReplicaId>,
    /// When that was heard last.
    heard: Option<Ticks>,
    /// When to ask to be elected.
    deadline: Ticks,
    now: Ticks,
    /// How many writes there have been, and how many of them are durable.
    written: u64,
    persisted: u64,
    /// The number of the write that said the view last.
    view_written: u64,
    /// Entries that are not durable: the number of their write, and how far the log reached then.
    unsynced: VecDeque<(u64, u64)>,
    /// The log is durable up to here.
    pub(super) durable: u64,
    /// Messages that wait for a write to be durable.
    held: VecDeque<(u64, ReplicaId, Message<T>)>,
    incoming: Option<Incoming>,
    pub(super) counters: ReplicaCounters,
}

impl<T: Clone> Replica<T> {
    /// A replica of a group that begins: replica 0 is its primary. The group's first state, at place
    /// 0, and the vote are to be durable.
    pub fn new(id: ReplicaId, count: u8, options: ReplicaOptions, now: Ticks) -> Replica<T> {
        let restored = Restored {
            view: View::FIRST,
            voted: Some(ReplicaId(0)),
            base: Place::default(),
            entries: Vec::new(),
        };
        let mut replica = Replica::restored(id, count, options, now, restored);
        replica.primary = Some(ReplicaId(0));
        replica.heard = Some(now);
        if id == ReplicaId(0) {
            let lead = Lead::new(count, Place::default(), now);
            replica.role = Role::Primary(Box::new(lead));
        }
        replica
    }

    /// A replica that comes back with what it had made durable: a backup.
    pub fn restored(
        id: ReplicaId,
        count: u8,
        options: ReplicaOptions,
        now: Ticks,
        restored: Restored<T>,
    ) -> Replica<T> {
        let Restored {
            view,
            voted,
            base,
            entries,
        } = restored;
        let log = Entries::new(base, entries);
        let mut replica = Replica {
            id,
            count,
            options,
            random: SplitMix64::stream(options.seed, "replica", u64::from(id.0)),
            view,
            voted,
            committed: base.index,
            durable: log.last().index,
            log,
            role: Role::Backup,
            primary: None,
            heard: None,
            deadline: now,
            now,
            written: 0,
            persisted: 0,
            view_written: 0,
            unsynced: VecDeque::new(),
            held: VecDeque::new(),
            incoming: None,
            counters: ReplicaCounters::default(),
        };
        replica.wait_for_primary();
        replica
    }

    /// Its number.
    pub fn id(&self) -> ReplicaId {
        self.id
    }

    /// The view that it is in.
    pub fn view(&self) -> View {
        self.view
    }

    /// For whom it has voted in this view.
    pub fn voted(&self) -> Option<ReplicaId> {
        self.voted
    }

    /// Whether it takes itself for the primary. Whether it is, a confirmation tells.
    pub fn is_primary(&self) -> bool {
        matches!(self.role, Role::Primary(_))
    }

    /// Whom it takes for the primary.
    pub fn primary(&self) -> Option<ReplicaId> {
        match self.role {
            Role::Primary(_) => Some(self.id),
            _ => self.primary,
        }
    }

    /// Everything up to this index is known to be committed.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Where its log ends.
    pub fn last(&self) -> Place {
        self.log.last()
    }

    /// The place of the state that its log goes on from.
    pub fn base(&self) -> Place {
        self.log.base()
    }

    /// The entry at an index, if it is kept.
    pub fn entry(&self, index: u64) -> Option<&Entry<T>> {
        self.log.get(index)
    }

    /// What has been counted.
    pub fn counters(&self) -> ReplicaCounters {
        self.counters
    }

    /// How many writes there have been: the number to be reported when they are durable.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// When to call [`Replica::tick`] next; a call too early does no harm.
    pub fn next_alarm(&self) -> Ticks {
        match &self.role {
            Role::Primary(lead) => lead.heartbeat_at,
            _ => self.deadline,
        }
    }

    /// All others.
    pub(super) fn others(&self) -> impl Iterator<Item = ReplicaId> + use<T> {
        let own = self.id;
        (0..self.count).map(ReplicaId).filter(move |id| *id != own)
    }

    /// Takes note of the time. A clock that goes back takes along what was to happen by it.
    fn look_at_clock(&mut self, now: Ticks) {
        let back = self.now.since(now);
        if back > Ticks(0) {
            self.deadline = Ticks(self.deadline.0.saturating_sub(back.0));
            self.heard = self.heard.map(|at| Ticks(at.0.saturating_sub(back.0)));
            if let Role::Primary(lead) = &mut self.role {
                lead.set_back(back);
            }
        }
        self.now = now;
    }

    fn wait_for_primary(&mut self) {
        let chance = self.random.below(self.options.silence_max.0.max(1));
        self.deadline = self.now + self.options.silence_max + Ticks(chance);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Ticks, out: &mut Out<T>) {
        self.look_at_clock(now);
        if now < self.next_alarm() {
            return;
        }
        match self.role {
            Role::Primary(_) => self.beat(now, out),
            _ => self.waver(out),
        }
    }

    /// Takes a message of another replica.
    pub fn receive(&mut self, now: Ticks, from: ReplicaId, message: Message<T>, out: &mut Out<T>) {
        self.look_at_clock(now);
        if from == self.id || from.0 >= self.count {
            return;
        }
        match message {
            Message::RequestVote {
                wanted, last, pre, ..
            } => return self.asked_for_vote(from, wanted, last, pre, out),
            Message::Vote { granted: true, .. } => {}
            ref other if other.view() < self.view => {
                let is_answer = matches!(
                    other,
                    Message::Appended { .. }
                        | Message::Behind { .. }
                        | Message::Installed { .. }
                        | Message::Newer { .. }
                        | Message::Vote { .. }
                );
                if !is_answer {
                    let newer = Message::Newer { view: self.view };
                    self.say(from, newer, self.view_written, out);
                }
                return;
            }
            _ => {}
        }
        self.enter(message.view(), out);
        match message {
            Message::Append {
                previous,
                entries,
                committed,
                round,
                ..
            } => self.take_entries(from, previous, entries, committed, round, out),
            Message::Install {
                base,
                part,
                parts,
                payload,
                ..
            } => self.take_part(from, base, part, parts, payload, out),
            Message::Appended { matched, round, .. } => self.appended(from, matched, round, out),
            Message::Behind { last, round, .. } => self.behind(from, last, round, out),
            Message::Installed { base, next, .. } => self.installed_part(from, base, next, out),
            Message::Vote {
                wanted,
                pre,
                granted: true,
                ..
            } => self.take_vote(from, wanted, pre, out),
            _ => {}
        }
    }

    /// Writes that were handed out, so many from the first one on, are durable.
    pub fn persisted(&mut self, writes: u64, out: &mut Out<T>) {
        debug_assert!(
            writes <= self.written,
            "what was not written is not durable"
        );
        self.persisted = self.persisted.max(writes);
        while let Some(&(number, reaches)) = self.unsynced.front()
            && number <= self.persisted
        {
            self.unsynced.pop_front();
            self.durable = reaches;
        }
        let ready = self.held.iter().take_while(|(n, ..)| *n <= self.persisted);
        let count = ready.count();
        let ready = self.held.drain(..count);
        out.messages.extend(ready.map(|(_, to, said)| (to, said)));
        self.advance();
        self.flush(out);
    }

    /// The driver's state is durable at this place, and stands for the entries up to it.
    ///
    /// # Panics
    /// When they are not committed.
    pub fn compacted(&mut self, base: Place) {
        assert!(
            base.index <= self.committed && self.log.place(base.index) == Some(base),
            "REPL-I6: a state holds what is committed"
        );
        self.log.compact(base);
    }

    /// The state that came in parts is durable, with this view and vote.
    pub fn installed(&mut self, base: Place, out: &mut Out<T>) {
        let Some(incoming) = self.incoming.take() else {
            return;
        };
        debug_assert_eq!(incoming.base, base);
        self.log = Entries::new(base, Vec::new());
        self.committed = base.index;
        self.durable = base.index;
        self.unsynced.clear();
        if incoming.view == self.view
            && let Some(primary) = self.primary
        {
            let appended = Message::Appended {
                view: self.view,
                matched: base.index,
                round: 0,
            };
            self.say(primary, appended, self.written, out);
        }
    }

    /// Says something when a write is durable.
    fn say(&mut self, to: ReplicaId, message: Message<T>, after: u64, out: &mut Out<T>) {
        if after <= self.persisted {
            out.messages.push((to, message));
        } else {
            // Held in the order of what they wait for.
            let place = self.held.partition_point(|(number, ..)| *number <= after);
            self.held.insert(place, (after, to, message));
        }
    }

    fn write_view(&mut self, out: &mut Out<T>) {
        let (view, voted) = (self.view, self.voted);
        out.writes.push(Write::View { view, voted });
        self.written += 1;
        self.view_written = self.written;
    }

    /// Adds the next entry, and has it written.
    pub(super) fn push(&mut self, place: Place, payload: T, out: &mut Out<T>) {
        let entry = Entry { place, payload };
        out.writes.push(Write::Entry(entry.clone()));
        self.written += 1;
        self.unsynced.push_back((self.written, place.index));
        self.log.push(entry);
    }

    /// Somebody is in this view.
    fn enter(&mut self, view: View, out: &mut Out<T>) {
        if view <= self.view {
            return;
        }
        self.view = view;
        self.voted = None;
        self.write_view(out);
        self.follow(None, self.now, out);
    }

    /// Becomes a backup, of this primary if it is known.
    pub(super) fn follow(&mut self, primary: Option<ReplicaId>, now: Ticks, out: &mut Out<T>) {
        let before = std::mem::replace(&mut self.role, Role::Backup);
        if matches!(before, Role::Primary(_)) {
            out.events.push(Event::Deposed);
            self.wait_for_primary();
        }
        self.primary = primary;
        self.heard = primary.map(|_| now);
        if primary.is_some() {
            self.wait_for_primary();
        }
    }

    fn hears_primary(&self) -> bool {
        let recently = |at| self.now.since(at) < self.options.silence_max;
        self.is_primary() || self.heard.is_some_and(recently)
    }

    /// No primary has been heard for long: would the others elect this one?
    fn waver(&mut self, out: &mut Out<T>) {
        self.primary = None;
        self.heard = None;
        self.role = Role::Wavering(vec![self.id]);
        self.wait_for_primary();
        self.request_votes(self.view.next(), true, out);
        self.count_votes(out);
    }

    fn request_votes(&mut self, wanted: View, pre: bool, out: &mut Out<T>) {
        let request = Message::RequestVote {
            view: self.view,
            wanted,
            last: self.log.last(),
            pre,
        };
        for to in self.others() {
            self.say(to, request.clone(), self.view_written, out);
        }
    }

    fn asked_for_vote(
        &mut self,
        from: ReplicaId,
        wanted: View,
        last: Place,
        pre: bool,
        out: &mut Out<T>,
    ) {
        let knows_enough = last >= self.log.last();
        let granted = if pre {
            wanted > self.view && knows_enough && !self.hears_primary()
        } else {
            self.enter(wanted, out);
            let free = self.voted.is_none_or(|voted| voted == from);
            let granted = wanted == self.view && free && knows_enough;
            if granted && self.voted.is_none() {
                self.voted = Some(from);
                self.write_view(out);
                self.wait_for_primary();
            }
            granted
        };
        let vote = Message::Vote {
            view: self.view,
            wanted,
            pre,
            granted,
        };
        self.say(from, vote, self.view_written, out);
    }

    fn take_vote(&mut self, from: ReplicaId, wanted: View, pre: bool, out: &mut Out<T>) {
        let votes = match &mut self.role {
            Role::Wavering(votes) if pre && wanted == self.view.next() => votes,
            Role::Candidate(votes) if !pre && wanted == self.view => votes,
            _ => return,
        };
        if !votes.contains(&from) {
            votes.push(from);
        }
        self.count_votes(out);
    }

    fn count_votes(&mut self, out: &mut Out<T>) {
        let is_majority = |votes: &[ReplicaId]| votes.len() > usize::from(self.count) / 2;
        match &self.role {
            Role::Wavering(votes) if is_majority(votes) => {
                self.view = self.view.next();
                self.voted = Some(self.id);
                self.role = Role::Candidate(vec![self.id]);
                self.write_view(out);
                self.wait_for_primary();
                self.request_votes(self.view, false, out);
                self.count_votes(out);
            }
            Role::Candidate(votes) if is_majority(votes) => {
                self.counters.elections += 1;
                let lead = Lead::new(self.count, self.log.last(), self.now);
                self.role = Role::Primary(Box::new(lead));
                self.incoming = None;
                out.events.push(Event::Elected);
            }
            _ => {}
        }
    }

    /// The primary of this view has spoken.
    fn hear_primary(&mut self, from: ReplicaId, out: &mut Out<T>) {
        assert!(
            !self.is_primary(),
            "REPL-I1: {} and {from} are primaries of {}",
            self.id,
            self.view
        );
        self.follow(Some(from), self.now, out);
    }

    fn take_entries(
        &mut self,
        from: ReplicaId,
        previous: Place,
        entries: Vec<Entry<T>>,
        committed: u64,
        round: u64,
        out: &mut Out<T>,
    ) {
        self.hear_primary(from, out);
        let view = self.view;
        let base = self.log.base();
        let matches =
            previous.index < base.index || self.log.place(previous.index) == Some(previous);
        if !matches {
            let last = self.log.last().index.min(previous.index.saturating_sub(1));
            let behind = Message::Behind { view, last, round };
            self.say(from, behind, self.view_written, out);
            return;
        }
        let mut matched = previous.index;
        let mut after = self.view_written;
        for entry in entries {
            matched = entry.place.index;
            if matched <= base.index {
                continue;
            }
            match self.log.place(matched) {
                Some(place) if place == entry.place => continue,
                Some(_) => self.cut_above(matched - 1),
                None => {}
            }
            self.push(entry.place, entry.payload, out);
            after = self.written;
        }
        self.committed = self.committed.max(committed.min(matched));
        if after < self.written || after <= self.persisted {
            // Of what was here before not everything need be durable when this leaves.
            matched = matched.min(self.durable);
        }
        let appended = Message::Appended {
            view,
            matched,
            round,
        };
        self.say(from, appended, after, out);
    }

    /// Drops entries that are not the primary's.
    fn cut_above(&mut self, index: u64) {
        assert!(
            index >= self.committed,
            "REPL-I3: what is committed is in every later primary's log"
        );
        self.log.cut_above(index);
        self.durable = self.durable.min(index);
        for (_, reaches) in &mut self.unsynced {
            *reaches = index.min(*reaches);
        }
    }

    fn take_part(
        &mut self,
        from: ReplicaId,
        base: Place,
        part: u32,
        parts: u32,
        payload: T,
        out: &mut Out<T>,
    ) {
        self.hear_primary(from, out);
        let view = self.view;
        let has = base.index <= self.committed || self.log.place(base.index) == Some(base);
        if has {
            let appended = Message::Appended {
                view,
                matched: base.index.min(self.durable),
                round: 0,
            };
            self.say(from, appended, self.view_written, out);
            return;
        }
        let mut next = match self.incoming {
            Some(known) if known.base == base && known.view == view => known.next,
            _ => 0,
        };
        if part == next {
            next += 1;
            self.incoming = Some(Incoming { view, base, next });
            out.events.push(Event::Part {
                base,
                part,
                is_last: next == parts,
                payload,
            });
        }
        let installed = Message::Installed { view, base, next };
        self.say(from, installed, self.view_written, out);
    }

    /// Checks what one replica can see of the page's invariants.
    ///
    /// # Errors
    /// The invariant's name and what contradicts it.
    pub fn check_invariants(&self) -> Result<(), String> {
        let (base, last) = (self.log.base(), self.log.last());
        if self.is_primary() && self.voted != Some(self.id) {
            return Err(format!("REPL-I1: the primary has voted {:?}", self.voted));
        }
        if last.view > self.view || !self.log.ascends() {
            return Err(format!(
                "REPL-I2: the log reaches {last:?} in {}",
                self.view
            ));
        }
        if self.committed > last.index || self.durable > last.index {
            return Err(format!(
                "REPL-I3: {} is committed, {} durable, and the log ends at {last:?}",
                self.committed, self.durable
            ));
        }
        if base.index > self.committed {
            return Err(format!(
                "REPL-I6: the state at {base:?} is beyond what is committed, {}",
                self.committed
            ));
        }
        Ok(())
    }
}
