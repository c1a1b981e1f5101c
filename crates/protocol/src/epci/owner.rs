//! The owner of a partition: what is pending here, and reads as of a timestamp.
//!
//! A transaction is *pending* from its vote until it is installed or aborted. While it is undecided
//! all that is known is a timestamp that it commits *above*; a commit check raises it. A decided one
//! is installed as soon as nobody who writes the same item may still come before it, so that each
//! item's versions stand in the order of their timestamps.

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

/// What a node's owner and coordinator share.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) node: NodeId,
    pub(super) now: Ticks,
    pub(super) clock: HybridClock,
    pub(super) probe: ActivityProbe,
}

/// What follows from something that the owner was told.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A commit check has to be made.
    Check {
        transaction: TransactionId,
        at: Timestamp,
    },
    /// A read has come to its end.
    Answer {
        reader: TransactionId,
        result: Result<Vec<Fetched>, AbortReason>,
    },
}

/// What a transaction may do beside others that are pending on the same item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Change the row, in a way that cannot fail whatever the others do.
    Change,
    /// Anything: alone.
    Alone,
}

/// What is known here of a transaction that has voted.
#[derive(Clone, Debug)]
struct Pending {
    effects: Vec<Effect>,
    /// What the effects came to at the vote, and after which commit that was.
    rehearsed: Option<(Staged, CommitSequence)>,
    /// What it writes, each item once.
    items: SmallVec<[(ItemTag, Kind); 4]>,
    /// It commits above this.
    above: Timestamp,
    /// The highest timestamp at which a commit check has been asked for.
    asked: Timestamp,
    /// Its timestamp, once that is known.
    decided: Option<Timestamp>,
    /// The reads to look at again when more is known of it.
    waiting: SmallVec<[TransactionId; 1]>,
}

/// A read that waits for a commit check.
#[derive(Clone, Debug)]
struct Parked {
    at: Timestamp,
    reads: Vec<Read>,
}

/// One partition's owner.
#[derive(Clone)]
pub(super) struct Owner {
    pub(super) store: Store,
    programs: Arc<dyn RowPrograms>,
    pending: BTreeMap<TransactionId, Pending>,
    /// The pending transactions that write an item.
    by_item: FxHashMap<ItemTag, SmallVec<[TransactionId; 2]>>,
    /// By reader: a transaction has one read open.
    parked: BTreeMap<TransactionId, Parked>,
    /// What follows, until the node takes it.
    pub(super) events: Vec<Event>,
    /// How many reads have waited for a commit check. Only counted.
    pub(super) delayed: u64,
    /// An invariant that was found broken.
    broken: Option<String>,
}

/// What a step may depend on; not the programs, which are the same for ever.
impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner")
            .field("store", &self.store)
            .field("pending", &self.pending)
            .field("parked", &self.parked)
            .field("broken", &self.broken)
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
            parked: BTreeMap::new(),
            events: Vec::new(),
            delayed: 0,
            broken: None,
        }
    }

    /// Whether nothing is pending here and no read waits.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.parked.is_empty()
    }
}

/// Reads.
impl Owner {
    /// Reads as of a timestamp; the answer is an event, perhaps of a later step.
    pub(super) fn read(
        &mut self,
        context: &mut Context,
        reader: TransactionId,
        at: Timestamp,
        reads: Vec<Read>,
    ) {
        // Whoever votes from now on does so above it.
        context.clock.observe(at);
        let asking = Parked { at, reads };
        if !self.look(context, reader, &asking) {
            self.delayed += 1;
            self.parked.insert(reader, asking);
        }
    }

    /// Answers a read, unless it has to wait: then it is among those who wait for what is in its way.
    fn look(&mut self, context: &mut Context, reader: TransactionId, asking: &Parked) -> bool {
        if let Some(obstacle) = self.obstacle(context, asking) {
            let pending = self.pending.get_mut(&obstacle);
            pending
                .expect("an obstacle is pending")
                .waiting
                .push(reader);
            return false;
        }
        let mut fetched = Vec::with_capacity(asking.reads.len());
        let found = context.probe.within(Activity::Storage, || {
            self.store
                .fetch_up_to(asking.reads.iter(), asking.at, &mut fetched)
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

    /// A transaction that has to be known more of before this is read; commit checks are made for
    /// all of these.
    fn obstacle(&mut self, context: &mut Context, asking: &Parked) -> Option<TransactionId> {
        if self.pending.is_empty() {
            return None;
        }
        loop {
            let mut raised = Vec::new();
            let mut obstacle = None;
            let mut open = self.concerned(&asking.reads);
            let mut seen = BTreeSet::new();
            while let Some(id) = open.pop() {
                if !seen.insert(id) {
                    continue;
                }
                let Some(pending) = self.pending.get_mut(&id) else {
                    continue;
                };
                match pending.decided {
                    Some(commit) if commit > asking.at => {}
                    // It belongs to the answer, and waits for others to be installed.
                    Some(commit) => open.extend(self.before(id, commit)),
                    None if pending.above >= asking.at => {}
                    // It is decided here, by a clock that has seen the reader's timestamp.
                    None if id.node == context.node => {
                        pending.above = asking.at;
                        raised.push(id);
                    }
                    None => {
                        obstacle = obstacle.or(Some(id));
                        if pending.asked < asking.at {
                            pending.asked = asking.at;
                            self.events.push(Event::Check {
                                transaction: id,
                                at: asking.at,
                            });
                        }
                    }
                }
            }
            if raised.is_empty() {
                return obstacle;
            }
            for id in raised {
                self.settle(context, self.neighbours(id));
            }
        }
    }

    /// The pending transactions that write what is read.
    fn concerned(&self, reads: &[Read]) -> Vec<TransactionId> {
        let mut concerned = Vec::new();
        for read in reads {
            match read {
                Read::Point { table, key } => {
                    let writers = self.by_item.get(&ItemTag::of(*table, key));
                    concerned.extend(writers.into_iter().flatten().copied());
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
                    concerned.extend(writers.map(|(id, _)| *id));
                }
            }
        }
        concerned
    }

    /// Looks again at those who have waited for more to be known of a transaction.
    fn look_again(&mut self, context: &mut Context, waiting: SmallVec<[TransactionId; 1]>) {
        for reader in waiting {
            let asking = self.parked.remove(&reader).expect("who waits is parked");
            if !self.look(context, reader, &asking) {
                self.parked.insert(reader, asking);
            }
        }
    }
}

/// Commits.
impl Owner {
    /// Sees whether a transaction can be committed, and keeps it until that is decided. Returns its
    /// vote.
    pub(super) fn prepare(
        &mut self,
        context: &mut Context,
        transaction: TransactionId,
        effects: Vec<Effect>,
    ) -> Result<Timestamp, AbortReason> {
        let items = self.wanted(&effects);
        if self.is_excluded(&items) {
            return Err(AbortReason::Conflict);
        }
        let vote = context.clock.next(context.now);
        let rehearse = || self.store.prestage(vote, &effects, &*self.programs);
        let rehearsed = context.probe.within(Activity::Storage, rehearse);
        let (staged, _) = rehearsed?;
        if !self.fits_beside_pending(&effects) {
            return Err(AbortReason::Conflict);
        }
        for (item, _) in &items {
            self.by_item.entry(*item).or_default().push(transaction);
        }
        let pending = Pending {
            effects,
            rehearsed: Some((staged, self.store.last())),
            items,
            above: vote,
            asked: Timestamp::ZERO,
            decided: None,
            waiting: SmallVec::new(),
        };
        let before = self.pending.insert(transaction, pending);
        assert!(before.is_none(), "{transaction:?} prepares once");
        Ok(vote)
    }

    /// Commits a transaction that has no other participant, above what its coordinator has seen.
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

    /// A transaction is decided.
    pub(super) fn commit(
        &mut self,
        context: &mut Context,
        transaction: TransactionId,
        timestamp: Timestamp,
    ) {
        context.clock.observe(timestamp);
        let Some(pending) = self.pending.get_mut(&transaction) else {
            self.broken = Some(format!("EPCI-I1: {transaction:?} commits unprepared"));
            return;
        };
        if timestamp <= pending.above {
            let above = pending.above;
            self.broken = Some(format!(
                "EPCI-I1: {transaction:?} was to commit above {above}, and does at {timestamp}"
            ));
        }
        pending.decided = Some(timestamp);
        let waiting = std::mem::take(&mut pending.waiting);
        // Those who are decided to come before it need not wait for it any more.
        let mut candidates = self.neighbours(transaction);
        candidates.push(transaction);
        self.settle(context, candidates);
        self.look_again(context, waiting);
    }

    /// A transaction is not to be.
    pub(super) fn abort(&mut self, context: &mut Context, transaction: TransactionId) {
        let neighbours = self.neighbours(transaction);
        let Some(pending) = self.forget(transaction) else {
            return; // It had been refused here.
        };
        self.settle(context, neighbours);
        self.look_again(context, pending.waiting);
    }

    /// A commit check has been answered, and nothing of a decision came before.
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
        self.settle(context, self.neighbours(transaction));
        self.look_again(context, waiting);
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

    /// The other transactions that are pending on what this one writes.
    fn neighbours(&self, transaction: TransactionId) -> Vec<TransactionId> {
        let Some(pending) = self.pending.get(&transaction) else {
            return Vec::new();
        };
        let items = pending.items.iter();
        let writers = items.filter_map(|(item, _)| self.by_item.get(item));
        let others = writers.flatten().copied();
        others.filter(|other| *other != transaction).collect()
    }

    /// Those among them that may come before it if it commits at this timestamp.
    fn before(&self, transaction: TransactionId, commit: Timestamp) -> Vec<TransactionId> {
        let mut neighbours = self.neighbours(transaction);
        neighbours.retain(|other| {
            let pending = &self.pending[other];
            pending.decided.unwrap_or(pending.above) < commit
        });
        neighbours
    }

    /// Installs those of these that are decided and that nobody can come before any more, and
    /// whoever can be installed after them.
    fn settle(&mut self, context: &mut Context, candidates: Vec<TransactionId>) {
        let decided = |owner: &Owner, id: TransactionId| {
            let commit = owner.pending.get(&id)?.decided?;
            Some((commit, id))
        };
        let open = candidates.into_iter().filter_map(|id| decided(self, id));
        let mut open: BTreeSet<(Timestamp, TransactionId)> = open.collect();
        while let Some((commit, id)) = open.pop_first() {
            if !self.before(id, commit).is_empty() {
                continue;
            }
            let after = self.neighbours(id);
            open.extend(after.into_iter().filter_map(|id| decided(self, id)));
            let pending = self.forget(id).expect("it was looked at");
            self.install(context, commit, pending);
        }
    }

    fn install(&mut self, context: &mut Context, commit: Timestamp, pending: Pending) {
        let (now, budget) = (context.now, pending.effects.len() + 1);
        let staged = match pending.rehearsed {
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
                self.broken = Some(format!("EPCI-I4: {commit} cannot be installed: {error}"));
                return;
            }
        };
        for change in staged.changes() {
            let newest = self.store.item(change.table(), change.key());
            let newest = newest.map_or(Timestamp::ZERO, |item| item.latest().timestamp());
            if newest >= commit {
                let (table, key) = (change.table(), change.key());
                self.broken = Some(format!(
                    "EPCI-I2: {table} {key} has {newest} when {commit} is installed"
                ));
            }
        }
        context.probe.within(Activity::Storage, || {
            self.store.install(now, commit, staged);
            self.store.collect(now, budget);
        });
    }

    /// What the effects write, each item once.
    fn wanted(&self, effects: &[Effect]) -> SmallVec<[(ItemTag, Kind); 4]> {
        let mut items: SmallVec<[(ItemTag, Kind); 4]> = SmallVec::new();
        let mut want =
            |item: ItemTag, kind: Kind| match items.iter_mut().find(|(held, _)| *held == item) {
                Some((_, held)) => *held = kind.max(*held),
                None => items.push((item, kind)),
            };
        for effect in effects {
            let table = effect.table();
            let kind = match effect {
                Effect::Update { program, .. } if !self.programs.may_violate(*program) => {
                    Kind::Change
                }
                _ => Kind::Alone,
            };
            want(ItemTag::of(table, effect.key()), kind);
            let mut indexes = self.store.schema(table).indexes.iter();
            if indexes.any(|index| index.unique) && !matches!(effect, Effect::Delete { .. }) {
                want(ItemTag::unknown(table), Kind::Alone);
            }
        }
        items
    }

    /// Whether somebody is pending on one of these items whom this cannot be beside.
    fn is_excluded(&self, items: &[(ItemTag, Kind)]) -> bool {
        items.iter().any(|(item, kind)| {
            let writers = self.by_item.get(item).into_iter().flatten();
            let mut kinds = writers.filter_map(|writer| self.pending[writer].kind_on(*item));
            kinds.any(|other| *kind == Kind::Alone || other == Kind::Alone)
        })
    }

    /// Whether these updates and those that are pending on the same rows can run in any order
    /// without one that fails: all of them are promised.
    fn fits_beside_pending(&self, effects: &[Effect]) -> bool {
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
            newest.is_none_or(|newest| self.programs.fit_together(newest, &runs))
        })
    }
}

impl Pending {
    fn kind_on(&self, item: ItemTag) -> Option<Kind> {
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
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let mut listed = 0;
        for (id, pending) in &self.pending {
            if let Some(commit) = pending.decided
                && self.before(*id, commit).is_empty()
            {
                return Err(format!("EPCI-I3: {id:?} could be installed, and is not"));
            }
            for (item, kind) in &pending.items {
                listed += 1;
                let writers = self.by_item.get(item).into_iter().flatten();
                let others = writers.filter(|other| *other != id);
                for other in others {
                    let beside = self.pending.get(other).and_then(|p| p.kind_on(*item));
                    if *kind == Kind::Alone || beside != Some(Kind::Change) {
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
        self.check_parked()
    }

    /// EPCI-I5: whoever waits does so for the answer to one commit check.
    fn check_parked(&self) -> Result<(), String> {
        let mut waiting: Vec<TransactionId> = Vec::new();
        for (id, pending) in &self.pending {
            for reader in &pending.waiting {
                let asking = self.parked.get(reader);
                let due = asking.is_some_and(|asking| {
                    pending.decided.is_none()
                        && pending.above < asking.at
                        && asking.at <= pending.asked
                });
                if !due {
                    return Err(format!("EPCI-I5: {asking:?} waits for nothing of {id:?}"));
                }
                waiting.push(*reader);
            }
        }
        waiting.sort_unstable();
        if !waiting.iter().eq(self.parked.keys()) {
            return Err(format!(
                "EPCI-I5: {waiting:?} wait, and {} reads are parked",
                self.parked.len()
            ));
        }
        Ok(())
    }
}
