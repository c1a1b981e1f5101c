//! The owner of a partition: pending transactions, and reads as of a timestamp.
//!
//! A transaction is *pending* from its vote until it is installed or aborted. Of an undecided one the
//! owner knows only a lower bound of its commit timestamp, which a commit check raises. A decided one is
//! installed as soon as no other writer of the same item can commit before it. So each item's versions
//! are in the order of their timestamps.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use anabranch_storage::{CommitSequence, ItemTag, SlotValues, Staged, Store};
use anabranch_types::{
    Activity, ActivityProbe, Effect, Fetched, HybridClock, Key, NodeId, Read, RowPrograms, TableId,
    Ticks, Timestamp,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{AbortReason, TransactionId};

/// State that a node's owner and coordinator share.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) node: NodeId,
    pub(super) now: Ticks,
    pub(super) clock: HybridClock,
    pub(super) probe: ActivityProbe,
}

/// An action that the node has to take for its owner.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// Send a commit check.
    Check {
        transaction: TransactionId,
        at: Timestamp,
    },
    /// Answer a read.
    Answer {
        reader: TransactionId,
        result: Result<Vec<Fetched>, AbortReason>,
    },
}

/// Whether a write can be pending beside other writes of the same item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WriteKind {
    /// It changes the row and cannot fail, whatever the others do.
    Commuting,
    /// Any other write: it excludes others.
    Exclusive,
}

/// A pending transaction.
#[derive(Clone, Debug)]
struct Pending {
    effects: Vec<Effect>,
    /// The changes staged at the vote, and the last commit before it.
    prestaged: Option<(Staged, CommitSequence)>,
    /// The items that it writes, each once.
    items: SmallVec<[(ItemTag, WriteKind); 4]>,
    /// Its commit timestamp is above this one.
    above: Timestamp,
    /// The highest timestamp of a commit check sent for it.
    checked_at: Timestamp,
    /// Its commit timestamp, once it is decided.
    decided: Option<Timestamp>,
    /// The readers that wait for its decision or for a commit check.
    waiting: SmallVec<[TransactionId; 1]>,
}

/// A read that waits for a commit check.
#[derive(Clone, Debug)]
struct WaitingRead {
    at: Timestamp,
    reads: Vec<Read>,
}

/// The owner of one partition.
#[derive(Clone)]
pub(super) struct Owner {
    pub(super) store: Store,
    programs: Arc<dyn RowPrograms>,
    pending: BTreeMap<TransactionId, Pending>,
    /// The pending transactions that write an item.
    by_item: FxHashMap<ItemTag, SmallVec<[TransactionId; 2]>>,
    /// Reads that wait, by reader; a transaction has one open read.
    waiting_reads: BTreeMap<TransactionId, WaitingRead>,
    /// Events for the node.
    pub(super) events: Vec<Event>,
    /// How many reads have waited for a commit check: a counter.
    pub(super) delayed: u64,
    /// A violated invariant.
    violation: Option<String>,
}

/// The state that a step may depend on, without the programs, which are constant.
impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner")
            .field("store", &self.store)
            .field("pending", &self.pending)
            .field("waiting_reads", &self.waiting_reads)
            .field("violation", &self.violation)
            .finish_non_exhaustive()
    }
}

impl Owner {
    pub(super) fn new(store: Store, programs: Arc<dyn RowPrograms>) -> Owner {
        Owner {
            store,
            programs,
            pending: BTreeMap::new(),
            by_item: FxHashMap::default(),
            waiting_reads: BTreeMap::new(),
            events: Vec::new(),
            delayed: 0,
            violation: None,
        }
    }

    /// Whether no transaction is pending and no read waits.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.waiting_reads.is_empty()
    }
}

/// Reads.
impl Owner {
    /// Reads as of a timestamp. The answer is an event, perhaps in a later step.
    pub(super) fn read(
        &mut self,
        context: &mut Context,
        reader: TransactionId,
        at: Timestamp,
        reads: Vec<Read>,
    ) {
        // Later votes are above it.
        context.clock.observe(at);
        let waiting_read = WaitingRead { at, reads };
        if !self.try_read(context, reader, &waiting_read) {
            self.delayed += 1;
            self.waiting_reads.insert(reader, waiting_read);
        }
    }

    /// Answers a read and returns true, or registers it with the pending transaction that blocks it.
    fn try_read(
        &mut self,
        context: &mut Context,
        reader: TransactionId,
        waiting_read: &WaitingRead,
    ) -> bool {
        if let Some(blocker) = self.blocking_writer(context, waiting_read) {
            let pending = self.pending.get_mut(&blocker);
            pending
                .expect("a blocking writer is pending")
                .waiting
                .push(reader);
            return false;
        }
        let mut fetched = Vec::with_capacity(waiting_read.reads.len());
        let found = context.probe.within(Activity::Storage, || {
            self.store
                .fetch_up_to(waiting_read.reads.iter(), waiting_read.at, &mut fetched)
        });
        self.events.push(Event::Answer {
            reader,
            result: match found {
                Ok(()) => Ok(fetched),
                Err(_) => Err(AbortReason::BelowFloor),
            },
        });
        true
    }

    /// A pending transaction that blocks this read, if any. Sends commit checks for all that do.
    fn blocking_writer(
        &mut self,
        context: &mut Context,
        waiting_read: &WaitingRead,
    ) -> Option<TransactionId> {
        if self.pending.is_empty() {
            return None;
        }
        loop {
            let mut raised = Vec::new();
            let mut blocker = None;
            let mut open = self.writers_of(&waiting_read.reads);
            let mut seen = BTreeSet::new();
            while let Some(id) = open.pop() {
                if !seen.insert(id) {
                    continue;
                }
                let Some(pending) = self.pending.get_mut(&id) else {
                    continue;
                };
                match pending.decided {
                    Some(commit) if commit > waiting_read.at => {}
                    // It belongs to the answer, and is installed after these.
                    Some(commit) => open.extend(self.possible_predecessors(id, commit)),
                    None if pending.above >= waiting_read.at => {}
                    // This node decides it, with a clock that has passed the reader's timestamp.
                    None if id.node == context.node => {
                        pending.above = waiting_read.at;
                        raised.push(id);
                    }
                    None => {
                        blocker = blocker.or(Some(id));
                        if pending.checked_at < waiting_read.at {
                            pending.checked_at = waiting_read.at;
                            self.events.push(Event::Check {
                                transaction: id,
                                at: waiting_read.at,
                            });
                        }
                    }
                }
            }
            if raised.is_empty() {
                return blocker;
            }
            for id in raised {
                self.install_ready(context, self.conflicting_writers(id));
            }
        }
    }

    /// The pending transactions that write an item of these reads.
    fn writers_of(&self, reads: &[Read]) -> Vec<TransactionId> {
        let mut writers_of = Vec::new();
        for read in reads {
            match read {
                Read::Point { table, key } => {
                    let writers = self.by_item.get(&ItemTag::of(*table, key));
                    writers_of.extend(writers.into_iter().flatten().copied());
                }
                Read::Range {
                    table,
                    index,
                    range,
                    ..
                } => {
                    let is_in = |effect: &Effect| {
                        effect.table() == *table
                            && (index.is_some() || range.contains(effect.key()))
                    };
                    let writers = self.pending.iter();
                    let writers = writers.filter(|(_, p)| p.effects.iter().any(is_in));
                    writers_of.extend(writers.map(|(id, _)| *id));
                }
            }
        }
        writers_of
    }

    /// Retries the reads that have waited for a transaction.
    fn retry_reads(&mut self, context: &mut Context, waiting: SmallVec<[TransactionId; 1]>) {
        for reader in waiting {
            let waiting_read = self
                .waiting_reads
                .remove(&reader)
                .expect("a waiting reader has a waiting read");
            if !self.try_read(context, reader, &waiting_read) {
                self.waiting_reads.insert(reader, waiting_read);
            }
        }
    }
}

/// Commits.
impl Owner {
    /// Checks whether a transaction can commit, and makes it pending. Returns the vote: a lower bound of
    /// its commit timestamp.
    pub(super) fn prepare(
        &mut self,
        context: &mut Context,
        transaction: TransactionId,
        effects: Vec<Effect>,
    ) -> Result<Timestamp, AbortReason> {
        let items = self.written_items(&effects);
        if self.has_conflict(&items) {
            return Err(AbortReason::Conflict);
        }
        let vote = context.clock.next(context.now);
        let prestage = || self.store.prestage(vote, &effects, &*self.programs);
        let prestaged = context.probe.within(Activity::Storage, prestage);
        let (staged, _) = prestaged?;
        if !self.commutes_with_pending(&effects) {
            return Err(AbortReason::Conflict);
        }
        for (item, _) in &items {
            self.by_item.entry(*item).or_default().push(transaction);
        }
        let pending = Pending {
            effects,
            prestaged: Some((staged, self.store.last())),
            items,
            above: vote,
            checked_at: Timestamp::ZERO,
            decided: None,
            waiting: SmallVec::new(),
        };
        let before = self.pending.insert(transaction, pending);
        assert!(before.is_none(), "{transaction:?} prepares once");
        Ok(vote)
    }

    /// Commits a transaction without other participants, above its coordinator's clock.
    pub(super) fn commit_alone(
        &mut self,
        context: &mut Context,
        transaction: TransactionId,
        effects: Vec<Effect>,
        above: Timestamp,
    ) -> Result<Timestamp, AbortReason> {
        context.clock.observe(above);
        self.prepare(context, transaction, effects)?;
        let timestamp = context.clock.next(context.now);
        self.commit(context, transaction, timestamp);
        Ok(timestamp)
    }

    /// Handles the decision to commit a transaction.
    pub(super) fn commit(
        &mut self,
        context: &mut Context,
        transaction: TransactionId,
        timestamp: Timestamp,
    ) {
        context.clock.observe(timestamp);
        let Some(pending) = self.pending.get_mut(&transaction) else {
            self.violation = Some(format!("EPCI-I1: {transaction:?} commits unprepared"));
            return;
        };
        if timestamp <= pending.above {
            let above = pending.above;
            self.violation = Some(format!(
                "EPCI-I1: {transaction:?} has to commit above {above} and commits at {timestamp}"
            ));
        }
        pending.decided = Some(timestamp);
        let waiting = std::mem::take(&mut pending.waiting);
        // Decided transactions that commit before it need not wait for it any more.
        let mut candidates = self.conflicting_writers(transaction);
        candidates.push(transaction);
        self.install_ready(context, candidates);
        self.retry_reads(context, waiting);
    }

    /// Handles the abort of a transaction.
    pub(super) fn abort(&mut self, context: &mut Context, transaction: TransactionId) {
        let conflicting_writers = self.conflicting_writers(transaction);
        let Some(pending) = self.forget(transaction) else {
            return; // This owner has refused it.
        };
        self.install_ready(context, conflicting_writers);
        self.retry_reads(context, pending.waiting);
    }

    /// Handles the answer to a commit check: the transaction was not decided before it.
    pub(super) fn checked(
        &mut self,
        context: &mut Context,
        transaction: TransactionId,
        at: Timestamp,
    ) {
        let Some(pending) = self.pending.get_mut(&transaction) else {
            return;
        };
        if pending.decided.is_none() {
            pending.above = pending.above.max(at);
        }
        let waiting = std::mem::take(&mut pending.waiting);
        self.install_ready(context, self.conflicting_writers(transaction));
        self.retry_reads(context, waiting);
    }

    fn forget(&mut self, transaction: TransactionId) -> Option<Pending> {
        let pending = self.pending.remove(&transaction)?;
        for (item, _) in &pending.items {
            if let Some(writers) = self.by_item.get_mut(item) {
                writers.retain(|writer| *writer != transaction);
                if writers.is_empty() {
                    self.by_item.remove(item);
                }
            }
        }
        Some(pending)
    }

    /// The other pending transactions that write an item of this one.
    fn conflicting_writers(&self, transaction: TransactionId) -> Vec<TransactionId> {
        let Some(pending) = self.pending.get(&transaction) else {
            return Vec::new();
        };
        let items = pending.items.iter();
        let writers = items.filter_map(|(item, _)| self.by_item.get(item));
        let others = writers.flatten().copied();
        others.filter(|other| *other != transaction).collect()
    }

    /// The conflicting writers that may commit before this timestamp.
    fn possible_predecessors(
        &self,
        transaction: TransactionId,
        commit: Timestamp,
    ) -> Vec<TransactionId> {
        let mut conflicting_writers = self.conflicting_writers(transaction);
        conflicting_writers.retain(|other| {
            let pending = &self.pending[other];
            pending.decided.unwrap_or(pending.above) < commit
        });
        conflicting_writers
    }

    /// Installs the candidates that are decided and that no other writer can commit before, and then
    /// their successors.
    fn install_ready(&mut self, context: &mut Context, candidates: Vec<TransactionId>) {
        let decided = |owner: &Owner, id: TransactionId| {
            let commit = owner.pending.get(&id)?.decided?;
            Some((commit, id))
        };
        let open = candidates.into_iter().filter_map(|id| decided(self, id));
        let mut open: BTreeSet<(Timestamp, TransactionId)> = open.collect();
        while let Some((commit, id)) = open.pop_first() {
            if !self.possible_predecessors(id, commit).is_empty() {
                continue;
            }
            let after = self.conflicting_writers(id);
            open.extend(after.into_iter().filter_map(|id| decided(self, id)));
            let pending = self.forget(id).expect("it was looked at");
            self.install(context, commit, pending);
        }
    }

    fn install(&mut self, context: &mut Context, commit: Timestamp, pending: Pending) {
        let (now, budget) = (context.now, pending.effects.len() + 1);
        let staged = match pending.prestaged {
            Some((staged, since)) if self.store.is_current(&staged, since, None) => Ok(staged),
            _ => {
                let mut slots = SlotValues::default();
                self.store
                    .stage(commit, pending.effects, &mut slots, &*self.programs)
            }
        };
        let staged = match staged {
            Ok(staged) => staged,
            Err(error) => {
                self.violation = Some(format!("EPCI-I4: {commit} cannot be installed: {error}"));
                return;
            }
        };
        for change in staged.changes() {
            let newest = self.store.item(change.table(), change.key());
            let newest = newest.map_or(Timestamp::ZERO, |item| item.latest().timestamp());
            if newest >= commit {
                let (table, key) = (change.table(), change.key());
                self.violation = Some(format!(
                    "EPCI-I2: {table} {key} has {newest} when {commit} is installed"
                ));
            }
        }
        context.probe.within(Activity::Storage, || {
            self.store.install(now, commit, staged);
            self.store.collect(now, budget);
        });
    }

    /// The items that the effects write, each once.
    fn written_items(&self, effects: &[Effect]) -> SmallVec<[(ItemTag, WriteKind); 4]> {
        let mut items: SmallVec<[(ItemTag, WriteKind); 4]> = SmallVec::new();
        let mut want =
            |item: ItemTag, kind: WriteKind| match items.iter_mut().find(|(held, _)| *held == item)
            {
                Some((_, held)) => *held = kind.max(*held),
                None => items.push((item, kind)),
            };
        for effect in effects {
            let table = effect.table();
            let kind = match effect {
                Effect::Update { program, .. } if !self.programs.may_violate(*program) => {
                    WriteKind::Commuting
                }
                _ => WriteKind::Exclusive,
            };
            want(ItemTag::of(table, effect.key()), kind);
            let mut indexes = self.store.schema(table).indexes.iter();
            if indexes.any(|index| index.unique) && !matches!(effect, Effect::Delete { .. }) {
                want(ItemTag::unknown(table), WriteKind::Exclusive);
            }
        }
        items
    }

    /// Whether a pending write of one of these items excludes this one.
    fn has_conflict(&self, items: &[(ItemTag, WriteKind)]) -> bool {
        items.iter().any(|(item, kind)| {
            let writers = self.by_item.get(item).into_iter().flatten();
            let mut kinds = writers.filter_map(|writer| self.pending[writer].kind_on(*item));
            kinds.any(|other| *kind == WriteKind::Exclusive || other == WriteKind::Exclusive)
        })
    }

    /// Whether these updates and the pending ones of the same rows succeed in any order, as their votes
    /// promise.
    fn commutes_with_pending(&self, effects: &[Effect]) -> bool {
        effects.iter().enumerate().all(|(at, effect)| {
            let Some(row) = updated(effect) else {
                return true;
            };
            let Some(writers) = self.by_item.get(&ItemTag::of(row.0, row.1)) else {
                return true;
            };
            if effects[..at]
                .iter()
                .filter_map(updated)
                .any(|seen| seen == row)
            {
                return true;
            }
            let others = writers.iter().map(|writer| &self.pending[writer].effects);
            let runs: SmallVec<[_; 8]> = others
                .flatten()
                .chain(effects)
                .filter_map(|effect| match effect {
                    Effect::Update {
                        program, arguments, ..
                    } if updated(effect) == Some(row) => Some((*program, &**arguments)),
                    _ => None,
                })
                .collect();
            let item = self.store.item(row.0, row.1);
            let newest = item.and_then(|item| item.latest().row());
            newest.is_none_or(|newest| self.programs.are_compatible(newest, &runs))
        })
    }
}

impl Pending {
    fn kind_on(&self, item: ItemTag) -> Option<WriteKind> {
        let mut items = self.items.iter();
        items.find(|(held, _)| *held == item).map(|(_, kind)| *kind)
    }
}

fn updated(effect: &Effect) -> Option<(TableId, &Key)> {
    match effect {
        Effect::Update { table, key, .. } => Some((*table, key)),
        _ => None,
    }
}

/// Invariants.
impl Owner {
    pub(super) fn check_invariants(&self) -> Result<(), String> {
        if let Some(violation) = &self.violation {
            return Err(violation.clone());
        }
        let mut listed = 0;
        for (id, pending) in &self.pending {
            if let Some(commit) = pending.decided
                && self.possible_predecessors(*id, commit).is_empty()
            {
                return Err(format!("EPCI-I3: {id:?} can be installed and is not"));
            }
            for (item, kind) in &pending.items {
                listed += 1;
                let writers = self.by_item.get(item).into_iter().flatten();
                let others = writers.filter(|other| *other != id);
                for other in others {
                    let beside = self.pending.get(other).and_then(|p| p.kind_on(*item));
                    if *kind == WriteKind::Exclusive || beside != Some(WriteKind::Commuting) {
                        return Err(format!("EPCI-I4: {id:?} and {other:?} both write {item:?}"));
                    }
                }
            }
        }
        // tidy: order-free because a sum commutes
        let held: usize = self.by_item.values().map(SmallVec::len).sum();
        if held != listed {
            return Err(format!(
                "EPCI-I4: {held} writers of items, {listed} pending"
            ));
        }
        self.check_waiting_reads()
    }

    /// Checks EPCI-I5: every waiting read waits for the answer to one commit check.
    fn check_waiting_reads(&self) -> Result<(), String> {
        let mut waiting: Vec<TransactionId> = Vec::new();
        for (id, pending) in &self.pending {
            for reader in &pending.waiting {
                let waiting_read = self.waiting_reads.get(reader);
                let due = waiting_read.is_some_and(|waiting_read| {
                    pending.decided.is_none()
                        && pending.above < waiting_read.at
                        && waiting_read.at <= pending.checked_at
                });
                if !due {
                    return Err(format!(
                        "EPCI-I5: {waiting_read:?} waits for {id:?} without need"
                    ));
                }
                waiting.push(*reader);
            }
        }
        waiting.sort_unstable();
        if !waiting.iter().eq(self.waiting_reads.keys()) {
            return Err(format!(
                "EPCI-I5: {waiting:?} wait, and {} reads are waiting reads",
                self.waiting_reads.len()
            ));
        }
        Ok(())
    }
}
