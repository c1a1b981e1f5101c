//! One replica: follows a primary, votes, is elected. Its work as a primary is in `primary`.

use std::collections::VecDeque;

use anabranch_types::{SplitMix64, Ticks};

use super::entries::Entries;
use super::message::{Entry, LogId, Message, ReplicaId, View};
use super::primary_state::PrimaryState;

/// How replicas behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaOptions {
    /// The longest time between two messages of a primary to a backup.
    pub heartbeat: Ticks,
    /// A backup starts an election after this long without a message of a primary, plus a random time
    /// of the same length at most.
    pub silence_max: Ticks,
    /// A primary steps down when this many heartbeats in a row have brought no confirmation.
    pub heartbeats_missed_max: u32,
    /// The most rounds of confirmation without entries that are under way at once. Further requests
    /// wait and share the next round.
    pub rounds_max: u64,
    /// The most entries in one message.
    pub entries_max: usize,
    /// The seed of the random election timeouts.
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

/// A record that a replica appends to its disk's log, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogWrite<T> {
    /// The replica is in this view, with this vote.
    View {
        /// The view.
        view: View,
        /// The replica that it has voted for.
        voted: Option<ReplicaId>,
    },
    /// The next entry. It replaces an earlier one with its index, and all entries above.
    Entry(Entry<T>),
}

/// An event that the driver has to handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<T> {
    /// This replica is now the primary of its view. The log up to here is its node's history; the first
    /// entry to append is the node's new incarnation.
    Elected,
    /// This replica is no longer the primary: its held output is dropped.
    Deposed,
    /// A backup lacks compacted entries: call [`Replica::offer`] with the state at the base.
    NeedsState,
    /// A part of the primary's state at `base`. Part 0 starts over; after the last part the driver makes
    /// the state durable and calls [`Replica::installed`].
    StatePart {
        /// The last entry that the state includes.
        base: LogId,
        /// The part's number, from 0; parts come in order.
        part: u32,
        /// Whether this is the last part.
        is_last: bool,
        /// The part's content.
        payload: T,
    },
}

/// The output of a replica's steps. The driver empties it.
#[derive(Clone, Debug)]
pub struct GroupOutbox<T> {
    /// Records to append to the disk's log, in order. The driver reports them durable by
    /// [`Replica::persisted`].
    pub writes: Vec<LogWrite<T>>,
    /// Messages to other replicas. They may leave at once: the replica holds those that wait for the
    /// disk.
    pub messages: Vec<(ReplicaId, Message<T>)>,
    /// Events for the driver, in order.
    pub events: Vec<Event<T>>,
}

impl<T> Default for GroupOutbox<T> {
    fn default() -> Self {
        GroupOutbox {
            writes: Vec::new(),
            messages: Vec::new(),
            events: Vec::new(),
        }
    }
}

/// Counters of a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaCounters {
    /// Elections that it won.
    pub elections: u64,
    /// Times that it stepped down as primary because no majority confirmed it.
    pub gave_up: u64,
    /// Rounds of confirmation begun.
    pub rounds: u64,
    /// Parts of a state sent.
    pub parts: u64,
}

/// What a restarted replica has read from its disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistedState<T> {
    /// The view that it was in.
    pub view: View,
    /// The replica that it had voted for in that view.
    pub voted: Option<ReplicaId>,
    /// The last entry that its state includes.
    pub base: LogId,
    /// The entries after it.
    pub entries: Vec<Entry<T>>,
}

/// A replica's role at the moment.
#[derive(Clone, Debug)]
pub(super) enum Role<T> {
    /// It follows the primary.
    Backup,
    /// It has heard no primary for long and holds a pre-vote: the replicas that granted it.
    PreCandidate(Vec<ReplicaId>),
    /// It has entered a new view and requests votes: the replicas that have voted for it.
    Candidate(Vec<ReplicaId>),
    /// It is the primary of its view.
    Primary(Box<PrimaryState<T>>),
}

/// A state that arrives in parts.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    view: View,
    base: LogId,
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
    /// The index up to which everything is known to be committed.
    pub(super) committed: u64,
    pub(super) role: Role<T>,
    /// The presumed primary.
    primary: Option<ReplicaId>,
    /// When its last message came.
    heard: Option<Ticks>,
    /// When to start an election.
    deadline: Ticks,
    now: Ticks,
    /// How many writes there have been, and how many of them are durable.
    written: u64,
    persisted: u64,
    /// The number of the last write of the view.
    view_written: u64,
    /// Writes of entries that are not durable: the write's number, and the log's last index after it.
    unsynced: VecDeque<(u64, u64)>,
    /// The log is durable up to here.
    pub(super) durable: u64,
    /// Messages that wait for a write to be durable, with the write's number.
    held: VecDeque<(u64, ReplicaId, Message<T>)>,
    incoming: Option<Incoming>,
    pub(super) counters: ReplicaCounters,
}

impl<T: Clone> Replica<T> {
    /// A replica of a new group, whose primary is replica 0. The group's first state, at index 0, and the
    /// vote have to be durable.
    pub fn new(id: ReplicaId, count: u8, options: ReplicaOptions, now: Ticks) -> Replica<T> {
        let restored = PersistedState {
            view: View::FIRST,
            voted: Some(ReplicaId(0)),
            base: LogId::default(),
            entries: Vec::new(),
        };
        let mut replica = Replica::restored(id, count, options, now, restored);
        replica.primary = Some(ReplicaId(0));
        replica.heard = Some(now);
        if id == ReplicaId(0) {
            let primary = PrimaryState::new(count, LogId::default(), now);
            replica.role = Role::Primary(Box::new(primary));
        }
        replica
    }

    /// A restarted replica with what it had made durable, as a backup.
    pub fn restored(
        id: ReplicaId,
        count: u8,
        options: ReplicaOptions,
        now: Ticks,
        restored: PersistedState<T>,
    ) -> Replica<T> {
        let PersistedState {
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

    /// Its number in the group.
    pub fn id(&self) -> ReplicaId {
        self.id
    }

    /// The view that it is in.
    pub fn view(&self) -> View {
        self.view
    }

    /// The replica that it has voted for in this view.
    pub fn voted(&self) -> Option<ReplicaId> {
        self.voted
    }

    /// Whether it takes itself for the primary; only a confirmed round proves it.
    pub fn is_primary(&self) -> bool {
        matches!(self.role, Role::Primary(_))
    }

    /// The replica that it takes for the primary.
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

    /// The last entry of its log.
    pub fn last(&self) -> LogId {
        self.log.last()
    }

    /// The last entry that its state includes: its log begins after it.
    pub fn base(&self) -> LogId {
        self.log.base()
    }

    /// The entry at an index, if the log holds it.
    pub fn entry(&self, index: u64) -> Option<&Entry<T>> {
        self.log.get(index)
    }

    /// Its counters.
    pub fn counters(&self) -> ReplicaCounters {
        self.counters
    }

    /// The number of writes so far: what [`Replica::persisted`] gets when they are durable.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// When to call [`Replica::tick`] next; an early call does no harm.
    pub fn next_alarm(&self) -> Ticks {
        match &self.role {
            Role::Primary(primary) => primary.heartbeat_at,
            _ => self.deadline,
        }
    }

    /// All other replicas.
    pub(super) fn others(&self) -> impl Iterator<Item = ReplicaId> + use<T> {
        let own = self.id;
        (0..self.count).map(ReplicaId).filter(move |id| *id != own)
    }

    /// Sets the time. If the clock was set back, deadlines move back with it.
    fn set_time(&mut self, now: Ticks) {
        let back = self.now.since(now);
        if back > Ticks(0) {
            self.deadline = Ticks(self.deadline.0.saturating_sub(back.0));
            self.heard = self.heard.map(|at| Ticks(at.0.saturating_sub(back.0)));
            if let Role::Primary(primary) = &mut self.role {
                primary.set_back(back);
            }
        }
        self.now = now;
    }

    fn wait_for_primary(&mut self) {
        let chance = self.random.below(self.options.silence_max.0.max(1));
        self.deadline = self.now + self.options.silence_max + Ticks(chance);
    }

    /// Handles the passing of time: heartbeats and elections that are due.
    pub fn tick(&mut self, now: Ticks, out: &mut GroupOutbox<T>) {
        self.set_time(now);
        if now < self.next_alarm() {
            return;
        }
        match self.role {
            Role::Primary(_) => self.heartbeat(now, out),
            _ => self.start_pre_vote(out),
        }
    }

    /// Handles a message of another replica.
    pub fn receive(
        &mut self,
        now: Ticks,
        from: ReplicaId,
        message: Message<T>,
        out: &mut GroupOutbox<T>,
    ) {
        self.set_time(now);
        if from == self.id || from.0 >= self.count {
            return;
        }
        match message {
            Message::RequestVote {
                wanted, last, pre, ..
            } => return self.handle_vote_request(from, wanted, last, pre, out),
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
                    self.send_after(from, newer, self.view_written, out);
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
            } => self.handle_append(from, previous, entries, committed, round, out),
            Message::Install {
                base,
                part,
                parts,
                payload,
                ..
            } => self.handle_install(from, base, part, parts, payload, out),
            Message::Appended { matched, round, .. } => self.appended(from, matched, round, out),
            Message::Behind { last, round, .. } => self.behind(from, last, round, out),
            Message::Installed { base, next, .. } => self.installed_part(from, base, next, out),
            Message::Vote {
                wanted,
                pre,
                granted: true,
                ..
            } => self.handle_vote(from, wanted, pre, out),
            _ => {}
        }
    }

    /// Learns that the first `writes` of all writes so far are durable.
    pub fn persisted(&mut self, writes: u64, out: &mut GroupOutbox<T>) {
        debug_assert!(
            writes <= self.written,
            "more writes are reported durable than were written"
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
        out.messages
            .extend(ready.map(|(_, to, message)| (to, message)));
        self.advance();
        self.flush(out);
    }

    /// Learns that the driver's state at `base` is durable, and drops the entries that it includes.
    ///
    /// # Panics
    /// When they are not committed.
    pub fn compacted(&mut self, base: LogId) {
        assert!(
            base.index <= self.committed && self.log.id(base.index) == Some(base),
            "REPL-I6: a state includes committed entries only"
        );
        self.log.compact(base);
    }

    /// Learns that the state received in parts is durable, with the replica's view and vote.
    pub fn installed(&mut self, base: LogId, out: &mut GroupOutbox<T>) {
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
            self.send_after(primary, appended, self.written, out);
        }
    }

    /// Sends a message once the write with number `after` is durable.
    fn send_after(
        &mut self,
        to: ReplicaId,
        message: Message<T>,
        after: u64,
        out: &mut GroupOutbox<T>,
    ) {
        if after <= self.persisted {
            out.messages.push((to, message));
        } else {
            // Held in order of the writes that they wait for.
            let id = self.held.partition_point(|(number, ..)| *number <= after);
            self.held.insert(id, (after, to, message));
        }
    }

    fn write_view(&mut self, out: &mut GroupOutbox<T>) {
        let (view, voted) = (self.view, self.voted);
        out.writes.push(LogWrite::View { view, voted });
        self.written += 1;
        self.view_written = self.written;
    }

    /// Appends the next entry to the log and to the writes.
    pub(super) fn push(&mut self, id: LogId, payload: T, out: &mut GroupOutbox<T>) {
        let entry = Entry { id, payload };
        out.writes.push(LogWrite::Entry(entry.clone()));
        self.written += 1;
        self.unsynced.push_back((self.written, id.index));
        self.log.push(entry);
    }

    /// Enters a view, if it is a later one.
    fn enter(&mut self, view: View, out: &mut GroupOutbox<T>) {
        if view <= self.view {
            return;
        }
        self.view = view;
        self.voted = None;
        self.write_view(out);
        self.follow(None, self.now, out);
    }

    /// Becomes a backup; of `primary`, if it is known.
    pub(super) fn follow(
        &mut self,
        primary: Option<ReplicaId>,
        now: Ticks,
        out: &mut GroupOutbox<T>,
    ) {
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

    fn has_live_primary(&self) -> bool {
        let recently = |at| self.now.since(at) < self.options.silence_max;
        self.is_primary() || self.heard.is_some_and(recently)
    }

    /// Starts a pre-vote (Ongaro §9.6): no primary has sent anything for long.
    fn start_pre_vote(&mut self, out: &mut GroupOutbox<T>) {
        self.primary = None;
        self.heard = None;
        self.role = Role::PreCandidate(vec![self.id]);
        self.wait_for_primary();
        self.request_votes(self.view.next(), true, out);
        self.count_votes(out);
    }

    fn request_votes(&mut self, wanted: View, pre: bool, out: &mut GroupOutbox<T>) {
        let request = Message::RequestVote {
            view: self.view,
            wanted,
            last: self.log.last(),
            pre,
        };
        for to in self.others() {
            self.send_after(to, request.clone(), self.view_written, out);
        }
    }

    fn handle_vote_request(
        &mut self,
        from: ReplicaId,
        wanted: View,
        last: LogId,
        pre: bool,
        out: &mut GroupOutbox<T>,
    ) {
        let knows_enough = last >= self.log.last();
        let granted = if pre {
            wanted > self.view && knows_enough && !self.has_live_primary()
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
        self.send_after(from, vote, self.view_written, out);
    }

    fn handle_vote(&mut self, from: ReplicaId, wanted: View, pre: bool, out: &mut GroupOutbox<T>) {
        let votes = match &mut self.role {
            Role::PreCandidate(votes) if pre && wanted == self.view.next() => votes,
            Role::Candidate(votes) if !pre && wanted == self.view => votes,
            _ => return,
        };
        if !votes.contains(&from) {
            votes.push(from);
        }
        self.count_votes(out);
    }

    fn count_votes(&mut self, out: &mut GroupOutbox<T>) {
        let is_majority = |votes: &[ReplicaId]| votes.len() > usize::from(self.count) / 2;
        match &self.role {
            Role::PreCandidate(votes) if is_majority(votes) => {
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
                let primary = PrimaryState::new(self.count, self.log.last(), self.now);
                self.role = Role::Primary(Box::new(primary));
                self.incoming = None;
                out.events.push(Event::Elected);
            }
            _ => {}
        }
    }

    /// Follows the primary of this view, which has sent a message.
    fn accept_primary(&mut self, from: ReplicaId, out: &mut GroupOutbox<T>) {
        assert!(
            !self.is_primary(),
            "REPL-I1: {} and {from} are primaries of {}",
            self.id,
            self.view
        );
        self.follow(Some(from), self.now, out);
    }

    fn handle_append(
        &mut self,
        from: ReplicaId,
        previous: LogId,
        entries: Vec<Entry<T>>,
        committed: u64,
        round: u64,
        out: &mut GroupOutbox<T>,
    ) {
        self.accept_primary(from, out);
        let view = self.view;
        let base = self.log.base();
        let matches = previous.index < base.index || self.log.id(previous.index) == Some(previous);
        if !matches {
            let last = self.log.last().index.min(previous.index.saturating_sub(1));
            let behind = Message::Behind { view, last, round };
            self.send_after(from, behind, self.view_written, out);
            return;
        }
        let mut matched = previous.index;
        let mut after = self.view_written;
        for entry in entries {
            matched = entry.id.index;
            if matched <= base.index {
                continue;
            }
            match self.log.id(matched) {
                Some(id) if id == entry.id => continue,
                Some(_) => self.cut_above(matched - 1),
                None => {}
            }
            self.push(entry.id, entry.payload, out);
            after = self.written;
        }
        self.committed = self.committed.max(committed.min(matched));
        if after < self.written || after <= self.persisted {
            // Entries that were here before need not be durable when this message leaves.
            matched = matched.min(self.durable);
        }
        let appended = Message::Appended {
            view,
            matched,
            round,
        };
        self.send_after(from, appended, after, out);
    }

    /// Drops entries above `index`, which the primary does not have.
    fn cut_above(&mut self, index: u64) {
        assert!(
            index >= self.committed,
            "REPL-I3: every later primary's log has the committed entries"
        );
        self.log.cut_above(index);
        self.durable = self.durable.min(index);
        for (_, reaches) in &mut self.unsynced {
            *reaches = index.min(*reaches);
        }
    }

    fn handle_install(
        &mut self,
        from: ReplicaId,
        base: LogId,
        part: u32,
        parts: u32,
        payload: T,
        out: &mut GroupOutbox<T>,
    ) {
        self.accept_primary(from, out);
        let view = self.view;
        let has = base.index <= self.committed || self.log.id(base.index) == Some(base);
        if has {
            let appended = Message::Appended {
                view,
                matched: base.index.min(self.durable),
                round: 0,
            };
            self.send_after(from, appended, self.view_written, out);
            return;
        }
        let mut next = match self.incoming {
            Some(known) if known.base == base && known.view == view => known.next,
            _ => 0,
        };
        if part == next {
            next += 1;
            self.incoming = Some(Incoming { view, base, next });
            out.events.push(Event::StatePart {
                base,
                part,
                is_last: next == parts,
                payload,
            });
        }
        let installed = Message::Installed { view, base, next };
        self.send_after(from, installed, self.view_written, out);
    }

    /// Checks the invariants of `docs/protocols/replication.md` that one replica can see.
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
