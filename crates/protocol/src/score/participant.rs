//! A partition's side: reads of snapshots, and votes.

use anabranch_storage::{BelowTime, Item, LoggedChange, Version};
use anabranch_types::{
    Access, Activity, Effect, Fetched, LockPolicy, NodeId, Read, TableId, Ticks, Timestamp,
};

use super::message::{Commitment, Message, Preparation, Vote};
use super::record::{ScoreRecord, VotedRecord};
use super::{ScoreNode, just_after};
use crate::contract::{AbortReason, Age, Outbox, TransactionId};
use crate::locks::{LockOwner, Progress, Signal};

/// A transaction that wants to commit, at one of its participants: it holds locks here, or waits for one.
#[derive(Clone, Debug)]
pub(super) struct Guest {
    pub(super) owner: LockOwner,
    age: Age,
    pub(super) snapshot: Option<Timestamp>,
    /// What it has read here, and the rows that its effects looked for and did not find.
    reads: Vec<Read>,
    stage: GuestStage,
}

/// How far a transaction is at a participant.
#[derive(Clone, Debug)]
enum GuestStage {
    /// It waits for a lock; with its effects here.
    Locking(Vec<Effect>),
    /// The participant has voted yes, and only the coordinator's decision ends it.
    Voted {
        /// The lowest timestamp at which it may commit in the present.
        timestamp: Timestamp,
        /// Whether, as far as this participant knows, it may commit at its snapshot instead.
        may_warp: bool,
        /// Whether the vote is of before the node's last restart: what the transaction has read here is not known.
        is_restored: bool,
    },
}

impl Guest {
    pub(super) fn has_voted(&self) -> bool {
        matches!(self.stage, GuestStage::Voted { .. })
    }

    /// Whether it may still commit at a position that this snapshot includes.
    fn may_enter(&self, snapshot: Timestamp) -> bool {
        match self.stage {
            GuestStage::Locking(_) => false,
            GuestStage::Voted {
                timestamp,
                may_warp,
                ..
            } => {
                let warped = self.snapshot.filter(|_| may_warp);
                timestamp <= snapshot || warped.is_some_and(|at| just_after(at) <= snapshot)
            }
        }
    }
}

/// A read that waits for the decision on a transaction that may write what it reads.
#[derive(Clone, Debug)]
pub(super) struct BlockedRead {
    transaction: TransactionId,
    snapshot: Timestamp,
    reads: Vec<Read>,
    since: Ticks,
}

impl BlockedRead {
    pub(super) fn transaction(&self) -> TransactionId {
        self.transaction
    }
}

/// Reads.
impl ScoreNode {
    /// Reads from a snapshot; answers at once, or when the decisions are known that the answer depends on.
    pub(super) fn read_here(
        &mut self,
        now: Ticks,
        transaction: TransactionId,
        (snapshot, is_first): (Timestamp, bool),
        reads: Vec<Read>,
        out: &mut Outbox<Message>,
    ) {
        self.participant.clock.observe(snapshot);
        let snapshot = match is_first {
            true => self.draw(now),
            false => snapshot,
        };
        // From here on no transaction that has not voted commits at or below the snapshot: it would vote for a later
        // timestamp, and the stamp keeps it from its own snapshot.
        if let Some(stamps) = &mut self.stamps {
            for read in &reads {
                stamps.raise(read, snapshot);
            }
        }
        let read = BlockedRead {
            transaction,
            snapshot,
            reads,
            since: now,
        };
        match self.is_blocked(&read) {
            true => {
                self.counters.waits += 1;
                self.blocked.push(read);
            }
            false => self.answer_read(now, read, out),
        }
    }

    /// Whether a transaction may still enter the snapshot with a change of what is read.
    fn is_blocked(&self, read: &BlockedRead) -> bool {
        if self.voted == 0 {
            return false;
        }
        let mut reads = read.reads.iter();
        reads.any(|one| {
            let writers = self.participant.prepared_writers(one, read.snapshot);
            let mut guests = writers.iter().filter_map(|owner| self.guest_of(*owner));
            guests.any(|guest| guest.may_enter(read.snapshot))
        })
    }

    fn guest_of(&self, owner: LockOwner) -> Option<&Guest> {
        let id = self.participant.transaction_of(owner)?;
        self.guests.get(&id)
    }

    fn answer_read(&mut self, now: Ticks, read: BlockedRead, out: &mut Outbox<Message>) {
        self.counters.blocked_ticks += now.since(read.since).0;
        let BlockedRead {
            transaction: id,
            snapshot,
            reads,
            ..
        } = read;
        let rows = match snapshot < self.read_floor {
            true => None,
            false => self.fetch(&reads, snapshot).ok(),
        };
        let is_own = id.node == self.node();
        match (rows, is_own) {
            (Some(rows), true) => self.handle_fetched(id, self.own, snapshot, rows, out),
            (Some(rows), false) => {
                let fetched = Message::Fetched {
                    transaction: id,
                    snapshot,
                    rows,
                };
                self.send_to_node(id.node, fetched, out);
            }
            (None, _) => self.refuse(id, AbortReason::BelowFloor, out),
        }
    }

    fn fetch(&self, reads: &[Read], snapshot: Timestamp) -> Result<Vec<Fetched>, BelowTime> {
        let mut rows = Vec::with_capacity(reads.len());
        let store = &self.participant.store;
        let fetch = || store.fetch_up_to(reads.iter(), snapshot, &mut rows);
        self.participant.probe.within(Activity::Storage, fetch)?;
        Ok(rows)
    }

    /// Answers the reads that no open decision blocks any more.
    pub(super) fn retry_blocked(&mut self, now: Ticks, out: &mut Outbox<Message>) {
        for read in std::mem::take(&mut self.blocked) {
            match self.is_blocked(&read) {
                true => self.blocked.push(read),
                false => self.answer_read(now, read, out),
            }
        }
    }

    /// Tells a transaction's coordinator that it has to abort.
    fn refuse(&mut self, id: TransactionId, reason: AbortReason, out: &mut Outbox<Message>) {
        match id.node == self.node() {
            true => self.handle_refused(id, self.own, reason, out),
            false => {
                let refused = Message::Refused {
                    transaction: id,
                    reason,
                    clock: Timestamp::new(self.participant.clock.last(), NodeId(0)),
                };
                self.send_to_node(id.node, refused, out);
            }
        }
    }
}

/// Votes.
impl ScoreNode {
    /// Locks what a transaction has read and writes here, and votes once all locks are held.
    pub(super) fn prepare_here(
        &mut self,
        now: Ticks,
        preparation: Preparation,
        out: &mut Outbox<Message>,
    ) {
        let Preparation {
            transaction: id,
            age,
            snapshot,
            reads,
            effects,
        } = preparation;
        let owner = self.participant.begin(id, Some(age));
        let read = reads.iter().map(|read| (read.clone(), READ));
        let write = effects.iter().map(|effect| {
            let (table, key) = (effect.table(), effect.key().clone());
            (Read::Point { table, key }, WRITE)
        });
        let locks = read.chain(write).collect();
        let guest = Guest {
            owner,
            age,
            snapshot,
            reads,
            stage: GuestStage::Locking(effects),
        };
        let before = self.guests.insert(id, guest);
        assert!(before.is_none(), "{id:?} is prepared once");
        let at = snapshot.unwrap_or(Timestamp::MAX);
        let progress = self
            .participant
            .lock_snapshot(now, owner, locks, at, &mut self.counters);
        self.go_on(now, id, progress, out);
    }

    /// Goes on with a transaction whose lock request has got somewhere.
    fn go_on(
        &mut self,
        now: Ticks,
        id: TransactionId,
        progress: Progress,
        out: &mut Outbox<Message>,
    ) {
        let vote = match progress {
            Progress::Waiting => return,
            Progress::Granted(_) => self.vote(now, id),
            Progress::Conflict => Err(AbortReason::Conflict),
        };
        match vote {
            Err(reason) => {
                self.end_guest(id);
                self.refuse(id, reason, out);
            }
            Ok(vote) if id.node == self.node() => self.handle_voted(now, id, self.own, vote, out),
            Ok(vote) => {
                self.record_vote(id);
                let voted = Message::Voted {
                    transaction: id,
                    vote,
                };
                self.send_to_node(id.node, voted, out);
            }
        }
    }

    /// Validates a transaction whose locks are all held, and stages its effects.
    fn vote(&mut self, now: Ticks, id: TransactionId) -> Result<Vote, AbortReason> {
        let guest = self.guests.get_mut(&id).expect("its locks were granted");
        let GuestStage::Locking(effects) = &mut guest.stage else {
            unreachable!("{id:?} has voted before");
        };
        let effects = std::mem::take(effects);
        let guest = &self.guests[&id];
        let (owner, snapshot) = (guest.owner, guest.snapshot);
        let validate = || self.is_stale(guest);
        let is_stale = self.participant.probe.within(Activity::Guard, validate)?;
        let is_late = self.is_late(snapshot, &effects);
        if is_stale && is_late {
            return Err(AbortReason::Conflict);
        }
        let absent = self.absent(&effects);
        let has_changed = snapshot.is_some_and(|at| self.has_changed(at, &effects));
        let slots = match self.participant.stage(owner, effects, true) {
            // It may be due to a row that the transaction would have seen, had it not been overtaken.
            Err(AbortReason::Failed(_)) if is_stale || has_changed => {
                return Err(AbortReason::Conflict);
            }
            staged => staged?,
        };
        let timestamp = self.draw(now);
        self.voted += 1;
        let guest = self.guests.get_mut(&id).expect("looked up above");
        guest.reads.extend(absent);
        guest.stage = GuestStage::Voted {
            timestamp,
            may_warp: !is_late,
            is_restored: false,
        };
        Ok(Vote {
            timestamp,
            slots,
            is_stale,
            is_late,
        })
    }

    /// Whether something that was read here has changed since the snapshot.
    ///
    /// # Errors
    /// It has changed so soon after the snapshot that there is no position between; or versions that would tell are gone.
    fn is_stale(&self, guest: &Guest) -> Result<bool, AbortReason> {
        let Some(snapshot) = guest.snapshot else {
            return Ok(false);
        };
        if snapshot < self.read_floor && !guest.reads.is_empty() {
            return Err(AbortReason::BelowFloor);
        }
        let store = &self.participant.store;
        // The lowest position after the snapshot at which something has changed.
        let mut changed: Option<Timestamp> = None;
        let mut look_at = |item: &Item| {
            let positions = item.versions().map(Version::timestamp);
            let later = positions.take_while(|position| *position > snapshot).last();
            changed = changed.into_iter().chain(later).min();
        };
        for read in &guest.reads {
            if let Read::Point { table, key } = read
                && let Some(item) = store.item(*table, key)
            {
                look_at(item);
                continue;
            }
            // A row that is not there may have been deleted, and its last version dropped.
            store
                .read_up_to(read, snapshot, &mut |_, item, _| look_at(item))
                .map_err(|BelowTime { .. }| AbortReason::BelowFloor)?;
        }
        match changed {
            Some(position) if position < just_after(snapshot) => Err(AbortReason::Conflict),
            changed => Ok(changed.is_some()),
        }
    }

    /// The rows that effects look for and do not find: reads of the newest state.
    fn absent(&self, effects: &[Effect]) -> Vec<Read> {
        let store = &self.participant.store;
        let absent = effects.iter().filter(|effect| {
            let item = store.item(effect.table(), effect.key());
            let has_row = item.is_some_and(|item| item.latest().row().is_some());
            !matches!(effect, Effect::Insert { .. }) && !has_row
        });
        absent
            .map(|effect| Read::Point {
                table: effect.table(),
                key: effect.key().clone(),
            })
            .collect()
    }

    /// Whether a row that effects replace, or may collide with, has come after the snapshot.
    fn has_changed(&self, snapshot: Timestamp, effects: &[Effect]) -> bool {
        let store = &self.participant.store;
        effects.iter().any(|effect| {
            let (table, key) = (effect.table(), effect.key());
            let newest = store.item(table, key).map(|item| item.latest().timestamp());
            newest.is_some_and(|newest| newest > snapshot)
                || (self.has_unique(table) && store.newest_time(table) > snapshot)
        })
    }

    /// Whether effects must not be visible at the transaction's snapshot. Without time-warping none may.
    fn is_late(&self, snapshot: Option<Timestamp>, effects: &[Effect]) -> bool {
        let (Some(stamps), Some(snapshot)) = (&self.stamps, snapshot) else {
            return true;
        };
        let store = &self.participant.store;
        effects.iter().any(|effect| {
            let (table, key) = (effect.table(), effect.key());
            let newest = store.item(table, key).map(|item| item.latest().timestamp());
            // The number in its key is drawn now, and so is what a unique index has.
            let is_of_now = match effect {
                Effect::Insert { patches, .. } => !patches.is_empty() || self.has_unique(table),
                Effect::Update { .. } => self.has_unique(table),
                Effect::Delete { .. } => false,
            };
            is_of_now
                || newest.is_some_and(|newest| newest > snapshot)
                || store.time_floor(table) > snapshot
                || stamps.of(table, key) > snapshot
        })
    }

    fn has_unique(&self, table: TableId) -> bool {
        let schema = self.participant.store.schema(table);
        schema.indexes.iter().any(|index| index.unique)
    }

    /// Commits a transaction here. Returns its after-images, if the node keeps a log and it has effects here.
    pub(super) fn commit_here(
        &mut self,
        now: Ticks,
        id: TransactionId,
        commit: Commitment,
    ) -> Option<Vec<LoggedChange>> {
        let guest = self.guests.remove(&id)?;
        let GuestStage::Voted { is_restored, .. } = guest.stage else {
            panic!("{id:?} commits before this participant has voted");
        };
        self.voted -= 1;
        self.participant.clock.observe(commit.timestamp);
        if let Some(stamps) = &mut self.stamps {
            for read in &guest.reads {
                stamps.raise(read, commit.position);
            }
            if is_restored {
                stamps.raise_all(commit.position);
            }
        }
        let changes = match self.keeps_records() {
            true => self.participant.staged_changes(guest.owner),
            false => None,
        };
        self.participant.install(now, guest.owner, commit.position);
        self.participant.end(guest.owner);
        self.released = true;
        changes.filter(|changes| !changes.is_empty())
    }

    /// Releases a transaction's locks here and forgets it. Returns whether the participant had voted.
    pub(super) fn end_guest(&mut self, id: TransactionId) -> bool {
        let Some(guest) = self.guests.remove(&id) else {
            return false;
        };
        self.voted -= usize::from(guest.has_voted());
        self.participant.end(guest.owner);
        self.released = true;
        guest.has_voted()
    }

    /// Handles [`Message::Commit`].
    pub(super) fn handle_commit(
        &mut self,
        now: Ticks,
        id: TransactionId,
        commit: Commitment,
        out: &mut Outbox<Message>,
    ) {
        match self.guests.contains_key(&id) {
            true => {
                self.commit_here(now, id, commit);
                self.record(|| ScoreRecord::Committed {
                    transaction: id,
                    commit,
                });
            }
            // After a restart of one of the two nodes, the message was sent twice.
            false => assert!(self.keeps_records(), "{id:?} commits without a vote"),
        }
        if self.keeps_records() {
            let acknowledged = Message::Acknowledged { transaction: id };
            self.send_to_node(id.node, acknowledged, out);
        }
    }

    /// Handles [`Message::Release`].
    pub(super) fn handle_release(&mut self, id: TransactionId) {
        self.drop_blocked(id);
        if self.end_guest(id) {
            self.record(|| ScoreRecord::Aborted { transaction: id });
        }
    }

    /// The coordinator of transactions has restarted: drops what it does not remember, and asks about the rest.
    pub(super) fn forget_coordinator(&mut self, node: NodeId, out: &mut Outbox<Message>) {
        self.blocked.retain(|read| read.transaction.node != node);
        for id in self.guests_of(Some(node)) {
            match self.guests[&id].has_voted() {
                true => self.send_to_node(node, Message::Inquire { transaction: id }, out),
                false => drop(self.end_guest(id)),
            }
        }
    }

    /// Goes on with transactions whose locks this step has released, and gives transactions the signals that waits of
    /// this step cause.
    pub(super) fn resume_woken(&mut self, now: Ticks, out: &mut Outbox<Message>) {
        loop {
            if let Some((id, signal)) = self.participant.next_signal(true) {
                // All wait by age, so that none has to yield.
                debug_assert_eq!(signal, Signal::Wound);
                match id.node == self.node() {
                    true => self.handle_wound(id, out),
                    false => self.send_to_node(id.node, Message::Wound { transaction: id }, out),
                }
            } else if let Some((owner, id)) = self.participant.next_woken() {
                let progress = self.participant.resume(now, owner, &mut self.counters);
                self.go_on(now, id, progress, out);
            } else if std::mem::take(&mut self.released) {
                self.retry_blocked(now, out);
            } else {
                return;
            }
        }
    }
}

/// Logging.
impl ScoreNode {
    fn record_vote(&mut self, id: TransactionId) {
        if self.keeps_records()
            && let Some(record) = self.voted_record(id)
        {
            self.record(|| ScoreRecord::Voted(Box::new(record)));
        }
    }

    pub(super) fn voted_record(&self, id: TransactionId) -> Option<VotedRecord> {
        let guest = self.guests.get(&id)?;
        let GuestStage::Voted {
            timestamp,
            may_warp,
            ..
        } = guest.stage
        else {
            return None;
        };
        Some(VotedRecord {
            prepared: self.participant.prepared_record(guest.owner)?,
            age: guest.age,
            snapshot: guest.snapshot,
            timestamp,
            may_warp,
        })
    }

    pub(super) fn restore_vote(
        &mut self,
        record: VotedRecord,
    ) -> Result<(), crate::record::ReplayError> {
        let VotedRecord {
            prepared,
            age,
            snapshot,
            timestamp,
            may_warp,
        } = record;
        let id = prepared.transaction;
        let owner = self.participant.begin(id, Some(age));
        self.participant.restore_prepared(owner, prepared)?;
        let stage = GuestStage::Voted {
            timestamp,
            may_warp,
            is_restored: true,
        };
        let guest = Guest {
            owner,
            age,
            snapshot,
            reads: Vec::new(),
            stage,
        };
        self.guests.insert(id, guest);
        self.voted += 1;
        Ok(())
    }
}

const READ: Access = Access {
    for_write: false,
    guard: false,
    lock: LockPolicy::Wait,
};

const WRITE: Access = Access {
    for_write: true,
    guard: false,
    lock: LockPolicy::Wait,
};
