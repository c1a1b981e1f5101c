//! The owner of a partition: answers reads, prepares, commits, and knows what is unstable.

mod aside;
mod binding;
mod doubt;
mod evidence;
mod fit;
mod invariants;
mod past;
mod shown;
mod termination;
mod writers;
mod written;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use anabranch_storage::{ApplyError, CommitSequence, ItemTag, SlotValues, Staged, Store};
use anabranch_types::{
    Activity, ActivityProbe, Effect, EffectError, HybridClock, Key, NodeId, PartitionId, Read,
    RowPrograms, TableId, Ticks, Timestamp,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::attempt::{Footprint, footprint_of};
use super::holds::{GuardRange, Holds, Mode, Wanted};
use super::message::{At, Findings, Got, Known, Participants, Prepare, Refusal, Required, Slots};
use super::message::{UpTo, Work};
use super::past::Past;
use super::record::RampRecord;
use super::siblings::{Metadata, Siblings, Trace};
use super::stability::Stability;
use super::{RampOptions, misnamed};
use crate::record::Journal;
use crate::{AbortReason, Record, TransactionId};

use self::aside::AsideBy;
use self::invariants::{in_doubt, missing_row};
use self::shown::ShownBy;
pub(super) use self::termination::{Overdue, Standing};
use self::writers::{AssignedRows, Writers};
use self::written::write_prepared;

/// How many items are looked at when versions are dropped on a timer.
const COLLECT_BUDGET: usize = 256;

/// What a node's participant and coordinator share.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) now: Ticks,
    pub(super) clock: HybridClock,
    /// How far ahead of it another node's may be.
    pub(super) ahead_max: Ticks,
    pub(super) stability: Stability,
    /// What has to be written down, in a node that keeps records.
    pub(super) journal: Option<Box<Journal>>,
    pub(super) probe: ActivityProbe,
}

impl Context {
    /// By how many microseconds a timestamp is ahead of this node's clock, if that is more than permitted.
    fn too_far_ahead(&self, timestamp: Timestamp) -> Option<u64> {
        let known = self.clock.last().max(self.now.as_micros());
        let ahead = timestamp.logical().saturating_sub(known);
        (ahead > self.ahead_max.as_micros()).then_some(ahead)
    }

    /// Why the clock does not follow a timestamp that another node's has given.
    pub(super) fn refuses_clock(&self, timestamp: Timestamp, node: NodeId) -> Option<EffectError> {
        let ahead = self.too_far_ahead(timestamp)?;
        let most = self.ahead_max.as_micros();
        Some(misnamed(format!(
            "{timestamp} is {ahead} us ahead of this node's clock, and at most {most} us are \
             permitted: set {node}'s clock right"
        )))
    }

    /// Lets the clock follow another node's, unless that is too far ahead.
    pub(super) fn follow_clock(&mut self, timestamp: Timestamp) {
        if self.too_far_ahead(timestamp).is_none() {
            self.clock.observe(timestamp);
        }
    }
}

/// What is to become of an insert whose key is drawn at commit, if the key is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drawing {
    /// It is checked as it is installed, and nothing has been promised.
    MayFail,
    /// It is promised: what draws the key is held, so that the key checked is the key inserted.
    Held,
}

/// Prepared: checked and held, shown to nobody. All that is known here is that this participant
/// voted yes; the transaction may be committed elsewhere already.
#[derive(Clone, Debug)]
struct Prepared {
    transaction: TransactionId,
    /// Everybody who was sent Prepare.
    participants: Participants,
    /// Its place among the writers of a register, if another cluster has given it one.
    place: Option<Timestamp>,
    /// When this one voted yes, in an earlier life at the beginning of time; or when it asked last.
    since: Ticks,
    /// How often this one has asked the others what has become of it.
    asked: u32,
    effects: Vec<Effect>,
    /// What the effects came to at the vote, and after which commit that was.
    rehearsed: Option<(Staged, SlotValues, CommitSequence)>,
    siblings: Option<Arc<Siblings>>,
    past: Option<Arc<Past>>,
    held: SmallVec<[(ItemTag, Mode); 8]>,
    /// In a node that keeps records: what a checkpoint has to say of it.
    kept: Option<Box<Kept>>,
}

/// What a checkpoint has to say of a prepared transaction beside its effects.
#[derive(Clone, Debug)]
struct Kept {
    promise: Promise,
    wanted: Wanted,
}

/// A vote for yes.
#[derive(Clone, Copy, Debug)]
struct Promise {
    prepared: Timestamp,
    /// The transaction commits above it.
    vote: Timestamp,
    /// The newest commit at the vote, which is above all that was installed by then.
    after: CommitSequence,
}

/// Committed here, and perhaps not everywhere.
#[derive(Clone, Debug)]
struct Recent {
    sequence: CommitSequence,
    /// What its deferred effects produced, until Commit asks for it.
    slots: Slots,
}

/// The committed part of a transaction that wrote nothing here, or nothing elsewhere.
#[derive(Clone, Debug)]
struct Repeat {
    prepared: Timestamp,
    /// What its deferred effects produced.
    slots: Slots,
}

/// One partition's owner.
#[derive(Clone)]
pub(super) struct Participant {
    partition: PartitionId,
    metadata: Metadata,
    /// Whether transactions follow others.
    causal: bool,
    /// Whether this is one of several copies, some of which may lack what has committed.
    is_copy: bool,
    pub(super) store: Store,
    programs: Arc<dyn RowPrograms>,
    holds: Holds,
    /// By the timestamp of Prepare.
    prepared: FxHashMap<Timestamp, Prepared>,
    /// By commit timestamp: transactions over several partitions.
    recent: FxHashMap<Timestamp, Recent>,
    /// By commit timestamp: committed parts of other transactions in two phases, in case that Commit
    /// comes again, or another participant asks.
    repeats: BTreeMap<Timestamp, Repeat>,
    /// By coordinator: the keys of `recent` in order of installation.
    shown: Vec<ShownBy>,
    /// By coordinator: the highest commit timestamp ever in `shown`. Most readers know more of most
    /// coordinators than that, and so pass over them at a glance.
    shown_max: Vec<Timestamp>,
    /// None of `shown` was installed before this.
    shown_since: CommitSequence,
    /// By item: the keys of `recent` that wrote it, and can be seen in some snapshot.
    writers: Writers,
    /// Whether what is replaced is not seen any more, and not asked for.
    replaces: bool,
    /// By coordinator: those of `recent` that have left `shown`, and were set aside.
    aside: Vec<AsideBy>,
    /// Whether there are any.
    has_aside: bool,
    /// Every transaction that has left `recent` was installed here at or before this.
    settled: CommitSequence,
    /// By coordinator: the highest commit timestamp that has left `shown`. Nobody can be given evidence
    /// of it any more.
    forgotten: Vec<Timestamp>,
    /// By node: the highest timestamp of Prepare seen, or refused for ever.
    prepared_max: Vec<Timestamp>,
    /// By order of vote: the votes of what is prepared, and of some that is no more.
    votes: VecDeque<Promise>,
    /// The tables of which a reader has lately read on in a snapshot that was not the newest any
    /// more, and when it last did.
    past_read: Vec<(TableId, Ticks)>,
    /// An invariant that was found broken.
    broken: Option<String>,
    /// How often a filter has let somebody ask for what was not written here. Only counted.
    false_positives: u64,
    /// How many transactions have ended here after this owner had asked about them. Only counted.
    terminations: u64,
}

/// What a step may depend on; not the programs, which are the same for ever.
impl fmt::Debug for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Participant")
            .field("store", &self.store)
            .field("holds", &self.holds)
            .field("prepared", &self.prepared)
            .field("recent", &self.recent)
            .field("repeats", &self.repeats)
            .field("shown", &self.shown)
            .field("aside", &self.aside)
            .field("writers", &self.writers)
            .field("settled", &self.settled)
            .field("prepared_max", &self.prepared_max)
            .field("votes", &self.votes)
            .field("past_read", &self.past_read)
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

/// Commit timestamps of transactions.
type Commits = SmallVec<[Timestamp; 16]>;

impl Participant {
    pub(super) fn new(
        partition: PartitionId,
        options: &RampOptions,
        store: Store,
        programs: Arc<dyn RowPrograms>,
        nodes: usize,
    ) -> Participant {
        Participant {
            partition,
            metadata: options.metadata,
            causal: options.causal,
            is_copy: options.quorum.is_some(),
            store,
            programs,
            holds: Holds::default(),
            prepared: FxHashMap::default(),
            recent: FxHashMap::default(),
            repeats: BTreeMap::new(),
            shown: vec![ShownBy::default(); nodes],
            shown_max: vec![Timestamp::ZERO; nodes],
            shown_since: CommitSequence::LOADED,
            writers: Writers::default(),
            replaces: !options.causal && !options.sticky && !options.binds(),
            aside: vec![AsideBy::default(); nodes],
            has_aside: false,
            settled: CommitSequence::LOADED,
            forgotten: vec![Timestamp::ZERO; nodes],
            prepared_max: vec![Timestamp::ZERO; nodes],
            votes: VecDeque::new(),
            past_read: Vec::new(),
            broken: None,
            false_positives: 0,
            terminations: 0,
        }
    }

    /// How many transactions are prepared.
    pub(super) fn prepared(&self) -> usize {
        self.prepared.len()
    }

    /// How many transactions have ended here after this owner had asked about them, since this was
    /// last asked.
    #[inline]
    pub(super) fn take_terminations(&mut self) -> u64 {
        std::mem::take(&mut self.terminations)
    }

    /// How often a filter has let somebody ask for what was not written here, since this was last
    /// asked.
    #[inline]
    pub(super) fn take_false_positives(&mut self) -> u64 {
        std::mem::take(&mut self.false_positives)
    }

    // Reads

    /// Answers reads in a snapshot, which includes what is required as far as `at` permits.
    pub(super) fn get<'r>(
        &mut self,
        context: &mut Context,
        at: At,
        reads: impl ExactSizeIterator<Item = &'r Read> + Clone,
        require: &[Required],
        known: &Known,
        up_to: Option<&UpTo>,
    ) -> Result<Got, Refusal> {
        if reads.len() > 0 && self.has_forgotten(known, &context.stability) {
            return Err(Refusal::forgotten(context.stability.known()));
        }
        if let Metadata::Hybrid(_) = self.metadata
            && !require.is_empty()
        {
            self.count_false_positives(context, reads.clone(), require);
        }
        let reach = up_to.map_or(CommitSequence::LOADED, |up_to| up_to.sequence);
        let mut lacking = Vec::new();
        let absent = self.absent(context, require);
        let snapshot = match at {
            At::Unless(snapshot) => {
                if self.is_as_good(snapshot, up_to) == Ok(true)
                    && self.stands(context, snapshot, reads.clone(), require, &mut lacking)
                {
                    return Ok(Got {
                        snapshot,
                        fetched: Vec::new(),
                        findings: Findings {
                            reach,
                            lacking,
                            absent,
                            evidence: Vec::new(),
                        }
                        .some(),
                    });
                }
                lacking.clear();
                self.include_all(context, require)?
            }
            At::Newest => self.include_all(context, require)?,
            At::Fixed(snapshot) => {
                for required in require {
                    lacking.extend(self.look_back(context, snapshot, *required)?);
                }
                if !self.is_as_good(snapshot, up_to)? {
                    return Err(Refusal::Fractured);
                }
                snapshot
            }
        };
        if snapshot < self.store.last() {
            self.keep_past(context.now, reads.clone());
        }
        let since = self.first_unknown(known);
        let since = since.filter(|first| *first <= snapshot);
        let mut fetched = Vec::with_capacity(reads.len());
        let mut touched: SmallVec<[usize; 8]> = SmallVec::new();
        let (asked, at) = (reads.clone(), Some(snapshot));
        let found = context.probe.within(Activity::Storage, || {
            self.store
                .fetch_all(asked, at, since, &mut fetched, &mut touched)
        });
        found.map_err(|_| Refusal::BelowFloor)?;
        let evidence = if touched.is_empty() {
            Vec::new()
        } else {
            let mut footprint: Footprint = SmallVec::new();
            let mut places = touched.into_iter().peekable();
            for (place, read) in reads.enumerate() {
                if places.next_if_eq(&place).is_some() {
                    footprint.push(footprint_of(read));
                }
            }
            self.evidence(&footprint, snapshot, known)
        };
        Ok(Got {
            snapshot,
            fetched,
            findings: Findings {
                reach,
                lacking,
                absent,
                evidence,
            }
            .some(),
        })
    }

    /// A snapshot of now, with all that is required.
    fn include_all(
        &mut self,
        context: &mut Context,
        require: &[Required],
    ) -> Result<CommitSequence, Refusal> {
        for required in require {
            self.include(context, None, *required)?;
        }
        Ok(self.store.last())
    }

    /// Makes sure that a snapshot includes a transaction that has committed elsewhere; shows it
    /// here if nobody has yet (ramp.txt §4.8, faster commit detection). One that is unknown has
    /// written nothing here, if metadata leave that open.
    fn include(
        &mut self,
        context: &mut Context,
        at: Option<CommitSequence>,
        required: Required,
    ) -> Result<(), Refusal> {
        let latest = if let Some(recent) = self.recent.get(&required.commit) {
            recent.sequence
        } else if self.show_if_prepared(context, required) {
            self.store.last()
        } else if context.stability.is_settled(required.commit) {
            self.settled
        } else if !self.metadata.is_exact() {
            return Ok(());
        } else if self.is_copy {
            // What a snapshot of before lacks it lacks for ever; a new one may be another copy's.
            return Err(match at {
                Some(_) => Refusal::Fractured,
                None => Refusal::NotHere,
            });
        } else {
            self.break_invariant(format!(
                "RAMP-I1: {required:?} is committed, and unknown here"
            ));
            return Err(Refusal::BelowFloor);
        };
        match at {
            Some(snapshot) if latest > snapshot => Err(Refusal::Fractured),
            _ => Ok(()),
        }
    }

    /// Shows a transaction that has committed elsewhere, if it is prepared here.
    fn show_if_prepared(&mut self, context: &mut Context, required: Required) -> bool {
        let is_prepared = self.prepared.contains_key(&required.prepared);
        // An error is recorded as a broken invariant; there is nobody here to be told.
        if is_prepared
            && let Ok(slots) = self.show(context, required)
            && let Some(recent) = self.recent.get_mut(&required.commit)
        {
            recent.slots = slots;
        }
        is_prepared
    }

    // Commits

    /// Checks and installs a transaction that has no other participant.
    pub(super) fn commit_alone(
        &mut self,
        context: &mut Context,
        work: Work,
        past: Option<Arc<Past>>,
    ) -> Result<(Timestamp, Slots), AbortReason> {
        if let Some(past) = &past {
            // What is shown takes the clock along as well: only then is it known how far ahead the rest is.
            self.show_past(context, past);
            past.take_clock_along(context)
                .map_err(AbortReason::Failed)?;
        }
        if let Some(place) = work.place {
            context.clock.observe(place);
        }
        self.refuses(context, &work)?;
        let timestamp = context.clock.next(context.now);
        if work.effects.is_empty() {
            return Ok((timestamp, Slots::new()));
        }
        let trace = self.trace_alone(timestamp, past, &work.effects);
        let at = work.place.unwrap_or(timestamp);
        let (staged, slots) = self
            .stage(context, at, work.effects)
            .map_err(AbortReason::from)?;
        let sequence = self.install(context, at, staged, None);
        if let Some(trace) = &trace {
            self.show_alone(context, sequence, timestamp, trace.clone());
        }
        if let Some(journal) = &mut context.journal {
            let changes = journal.take_changes().unwrap_or_default();
            journal.write(Record::Ramp(RampRecord::Alone {
                timestamp,
                changes,
                trace,
                place: work.place,
            }));
        }
        Ok((timestamp, slots))
    }

    /// Checks that a transaction can be installed later, and holds what keeps it so.
    pub(super) fn prepare(
        &mut self,
        context: &mut Context,
        prepare: Prepare,
    ) -> Result<Timestamp, AbortReason> {
        let prepared = prepare.prepared;
        if prepared <= self.prepared_max[prepared.node().index()] {
            // A timestamp names one transaction for ever: a second one must take a new one. Or this
            // owner has promised never to prepare it.
            return Err(AbortReason::Conflict);
        }
        let place = prepare.work.place;
        self.prepare_at(context, prepare, place)
    }

    /// Prepares, at a place among the writers of registers that is known already, or above the vote.
    fn prepare_at(
        &mut self,
        context: &mut Context,
        prepare: Prepare,
        place: Option<Timestamp>,
    ) -> Result<Timestamp, AbortReason> {
        let Prepare {
            transaction,
            prepared,
            work,
            siblings,
            past,
            participants,
        } = prepare;
        let highest = &mut self.prepared_max[prepared.node().index()];
        *highest = prepared.max(*highest);
        if let Some(past) = &past {
            self.show_past(context, past);
        }
        let mut wanted = context.probe.within(Activity::Guard, || {
            let wanted = self.wanted(&work, Drawing::Held);
            if self.holds.exclude(&wanted) {
                return Err(AbortReason::Conflict);
            }
            self.validate(&work)?;
            Ok(wanted)
        })?;
        // Above everything installed here, so that what the effects come to is what they will come
        // to at the commit timestamp, as long as their items stay as they are.
        let vote = context.clock.next(context.now);
        let mut rehearsed = None;
        if !work.effects.is_empty() {
            let at = place.unwrap_or(vote);
            let rehearse = || self.store.prestage(at, &work.effects, &*self.programs);
            let (staged, slots) = context
                .probe
                .within(Activity::Storage, rehearse)
                .map_err(AbortReason::from)?;
            context.probe.within(Activity::Guard, || {
                self.keep_absent(&mut wanted, &work.effects, &staged)?;
                match place {
                    Some(_) => Ok(()),
                    None => self.fits_beside_prepared(&work.effects),
                }
            })?;
            rehearsed = Some((staged, slots, self.store.last()));
        }
        let promise = Promise {
            prepared,
            vote,
            after: self.store.last(),
        };
        let mut entry = Prepared {
            transaction,
            participants,
            place: work.place,
            since: context.now,
            asked: 0,
            effects: work.effects,
            rehearsed,
            siblings,
            past,
            held: SmallVec::new(),
            kept: None,
        };
        entry.kept = write_prepared(context, promise, &entry, &wanted);
        let take = || self.holds.take(prepared, wanted);
        entry.held = context.probe.within(Activity::Guard, take);
        self.votes.push_back(promise);
        self.prepared.insert(prepared, entry);
        Ok(vote)
    }

    /// Shows a prepared transaction. Returns the values of its deferred effects, which are given
    /// out once.
    pub(super) fn commit(
        &mut self,
        context: &mut Context,
        decided: Required,
    ) -> Result<Slots, EffectError> {
        if let Some(recent) = self.recent.get_mut(&decided.commit) {
            return Ok(std::mem::take(&mut recent.slots));
        }
        if let Some(repeat) = self.repeats.get_mut(&decided.commit) {
            return Ok(std::mem::take(&mut repeat.slots));
        }
        if self.prepared.contains_key(&decided.prepared) {
            let shown = self.show(context, decided);
            if let Err(error) = &shown {
                let what = format!("RAMP-I1: {decided:?} cannot be installed: {error}");
                self.break_invariant(what);
            }
            return shown.map_err(|error| error.into_effect_error().unwrap_or_else(missing_row));
        }
        if context.journal.is_some() && context.stability.is_settled(decided.commit) {
            // Its coordinator has come back without having written down that all was done.
            return Ok(Slots::new());
        }
        self.break_invariant(format!(
            "RAMP-I1: {decided:?} is committed, and unknown here"
        ));
        Err(in_doubt(
            "its commit met a participant that had not prepared it",
        ))
    }

    /// Whether the coordinator's own partition would refuse this work at once. What it would take
    /// to find out that it violates a constraint is left to the decision.
    pub(super) fn refuses(&self, context: &Context, work: &Work) -> Result<(), AbortReason> {
        context.probe.within(Activity::Guard, || {
            if !self.holds.is_empty() {
                self.check_against_holds(work)?;
            }
            self.validate(work)
        })
    }

    /// Checks and shows a decided transaction on the coordinator's own partition. It has not been
    /// prepared here, since it is shown here before it is shown elsewhere, and may still fail.
    pub(super) fn commit_first(
        &mut self,
        context: &mut Context,
        commit: Timestamp,
        work: Work,
        trace: Option<Trace>,
    ) -> Result<Slots, AbortReason> {
        self.refuses(context, &work)?;
        if work.effects.is_empty() {
            return Ok(Slots::new());
        }
        let at = work.place.unwrap_or(commit);
        let (staged, slots) = self
            .stage(context, at, work.effects)
            .map_err(AbortReason::from)?;
        self.install(context, at, staged, trace.map(|trace| (commit, trace)));
        Ok(slots)
    }

    fn show(&mut self, context: &mut Context, decided: Required) -> Result<Slots, ApplyError> {
        let prepared = self
            .prepared
            .remove(&decided.prepared)
            .expect("the caller has looked");
        self.terminations += u64::from(prepared.asked > 0);
        let release = || self.holds.release(decided.prepared, &prepared.held);
        context.probe.within(Activity::Guard, release);
        // It is decided: whoever decided it has seen to it that it is not too far ahead of any vote.
        context.clock.observe(decided.commit);
        let place = prepared.place.unwrap_or(decided.commit);
        if prepared.effects.is_empty() {
            self.write_committed(context, decided, false, &Slots::new());
            return Ok(Slots::new());
        }
        let trace = prepared
            .siblings
            .map(|siblings| Trace::new(siblings, prepared.past, &prepared.effects));
        let several = trace.is_some();
        let (staged, slots) = match prepared.rehearsed {
            Some((staged, slots, since)) if self.store.is_current(&staged, since, Some(place)) => {
                (staged, slots.into_vec())
            }
            _ => self.stage(context, place, prepared.effects)?,
        };
        let trace = trace.map(|trace| (decided.commit, trace));
        self.install(context, place, staged, trace);
        self.write_committed(context, decided, several, &slots);
        Ok(slots)
    }

    /// What effects come to, at a timestamp, by what is installed.
    fn stage(
        &self,
        context: &Context,
        at: Timestamp,
        effects: Vec<Effect>,
    ) -> Result<(Staged, Slots), ApplyError> {
        let mut slots = SlotValues::default();
        let stage = || self.store.stage(at, effects, &mut slots, &*self.programs);
        let staged = context.probe.within(Activity::Storage, stage)?;
        Ok((staged, slots.into_vec()))
    }

    /// Shows what was staged, and remembers whose it is if it is a transaction over several partitions.
    fn install(
        &mut self,
        context: &mut Context,
        at: Timestamp,
        mut staged: Staged,
        of_several: Option<(Timestamp, Trace)>,
    ) -> CommitSequence {
        if let Some(journal) = &mut context.journal {
            journal.note(&staged);
        }
        let assigned = match of_several {
            Some(_) => self.assigned_rows(at, &staged),
            None => AssignedRows::new(),
        };
        self.forget_past(context);
        // Whatever is prepared holds what it writes.
        staged.expect_late_writes(|change| {
            let item = ItemTag::of(change.table(), change.key());
            [item, ItemTag::unknown(change.table())]
                .into_iter()
                .any(|item| self.holds.is_held(item))
        });
        let budget = staged.changes().len() + 1;
        let sequence = context.probe.within(Activity::Storage, || {
            let sequence = self.store.install(context.now, at, staged);
            self.store.collect(context.now, budget);
            sequence
        });
        if let Some((commit, trace)) = of_several {
            self.remember(sequence, commit, trace, &assigned);
        }
        sequence
    }

    /// Somebody reads on in an older snapshot: from now on the past of these tables is kept.
    fn keep_past<'r>(&mut self, now: Ticks, reads: impl Iterator<Item = &'r Read>) {
        for table in reads.map(Read::table) {
            match self.past_read.iter_mut().find(|(of, _)| *of == table) {
                Some((_, at)) => *at = now,
                None => {
                    self.past_read.push((table, now));
                    self.store.retain_history(table, true);
                }
            }
        }
    }

    /// Lets the commit that comes next replace rows where they are, except in tables that somebody
    /// has lately read on in an older snapshot. Most readers never do: they read a partition once,
    /// or before anything else is committed there. One that does, after a time in which nobody did,
    /// may be restarted (`below_floor`), and finds the past kept from then on.
    fn forget_past(&mut self, context: &Context) {
        let window = self.store.window();
        let store = &mut self.store;
        self.past_read.retain(|(table, at)| {
            let lately = context.now.since(*at) <= window;
            if !lately {
                store.retain_history(*table, false);
            }
            lately
        });
        let late = self.hold_back();
        self.store.discard_history(late);
    }

    /// Keeps what decides between what is installed and what is prepared, which commits above its
    /// vote, and so above all that was installed by then. Whatever comes to be prepared commits
    /// above all that is installed by now. Returns the timestamp that all to come will exceed.
    fn hold_back(&mut self) -> Timestamp {
        while let Some(promise) = self.votes.front()
            && !self.prepared.contains_key(&promise.prepared)
        {
            self.votes.pop_front();
        }
        let oldest = self.votes.front();
        self.store.hold_horizon(oldest.map(|promise| promise.after));
        oldest.map_or(Timestamp::MAX, |promise| promise.vote)
    }

    /// Forgets a prepared transaction. One that is not prepared here was refused here.
    pub(super) fn abort(&mut self, context: &mut Context, prepared: Timestamp) {
        if let Some(dropped) = self.prepared.remove(&prepared) {
            self.terminations += u64::from(dropped.asked > 0);
            self.holds.release(prepared, &dropped.held);
            if let Some(journal) = &mut context.journal {
                journal.write(Record::Ramp(RampRecord::Aborted { prepared }));
            }
        }
    }

    /// Drops versions that nobody can ask for any more, as far as they are due.
    pub(super) fn collect(&mut self, context: &Context) {
        self.hold_back();
        context.probe.within(Activity::Storage, || {
            self.store.collect(context.now, COLLECT_BUDGET);
        });
    }

    // Guards and holds

    /// Whether every guard read is still as the transaction saw it.
    fn validate(&self, work: &Work) -> Result<(), AbortReason> {
        let Some(snapshot) = work.snapshot else {
            return Ok(());
        };
        if work.guard_reads.is_empty() || snapshot == self.store.last() {
            return Ok(());
        }
        if snapshot < self.store.last_removal() {
            return Err(AbortReason::BelowFloor);
        }
        let mut changed = false;
        for read in &work.guard_reads {
            let visited = self.store.read(read, None, &mut |_, item, _| {
                changed |= item.latest().sequence() > snapshot;
            });
            visited.expect("the newest versions are always there");
        }
        if changed {
            Err(AbortReason::Conflict)
        } else {
            Ok(())
        }
    }

    fn check_against_holds(&self, work: &Work) -> Result<(), AbortReason> {
        let wanted = self.wanted(work, Drawing::MayFail);
        if self.holds.exclude(&wanted) {
            return Err(AbortReason::Conflict);
        }
        self.fits_beside_prepared(&work.effects)
    }

    /// What must be held for this work.
    fn wanted(&self, work: &Work, drawing: Drawing) -> Wanted {
        let mut wanted = Wanted::default();
        let draws = work
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::Insert { patches, .. } if !patches.is_empty()));
        for effect in &work.effects {
            let table = effect.table();
            let item = || ItemTag::of(table, effect.key());
            match effect {
                Effect::Insert { patches, .. } => {
                    let mode = match (patches.is_empty(), drawing) {
                        (true, _) => {
                            wanted.items.push((item(), Mode::Insert));
                            Mode::Known
                        }
                        (false, Drawing::MayFail) => Mode::Drawn,
                        (false, Drawing::Held) => Mode::DrawnHeld,
                    };
                    wanted.want_table(table, mode);
                }
                Effect::Update {
                    program, outputs, ..
                } => {
                    let held_draw = draws && drawing == Drawing::Held && outputs.is_some();
                    let exclusive = held_draw || self.programs.may_violate(*program);
                    match (exclusive, outputs.is_some()) {
                        (false, false) => {
                            let replaces = self.programs.replaces(*program);
                            let mode = replaces.map_or(Mode::Update, Mode::Replace);
                            wanted.items.push((item(), mode));
                        }
                        (false, true) => wanted.items.push((item(), Mode::Present)),
                        (true, false) => wanted.items.push((item(), Mode::Exclusive)),
                        (true, true) => {
                            wanted.items.push((item(), Mode::Exclusive));
                            wanted.items.push((item(), Mode::Present));
                        }
                    }
                }
                Effect::Delete { .. } => wanted.items.push((item(), Mode::Delete)),
            }
            let mut indexes = self.store.schema(table).indexes.iter();
            if indexes.any(|index| index.unique) && self.may_take_key(effect) {
                wanted.want_table(table, Mode::Unique);
            }
        }
        for guard in &work.guards {
            let effect = &work.effects[*guard as usize];
            let key = known_key(effect);
            if let Some(key) = &key {
                wanted
                    .items
                    .push((ItemTag::of(effect.table(), key), Mode::GuardWrite));
            }
            wanted.guard_writes.push((effect.table(), key));
        }
        for read in &work.guard_reads {
            match read {
                Read::Point { table, key } => {
                    wanted
                        .items
                        .push((ItemTag::of(*table, key), Mode::GuardRead));
                }
                Read::Range { .. } => wanted.ranges.extend(GuardRange::of(read)),
            }
        }
        wanted
    }

    /// Whether an effect on a table with a unique secondary index may take a key of it. What merges with
    /// every other program writes no column of it.
    fn may_take_key(&self, effect: &Effect) -> bool {
        match effect {
            Effect::Insert { .. } => true,
            Effect::Update { program, .. } => self.programs.merging(*program).is_none(),
            Effect::Delete { .. } => false,
        }
    }
}

/// The row that an effect updates.
fn updated(effect: &Effect) -> Option<(TableId, &Key)> {
    match effect {
        Effect::Update { table, key, .. } => Some((*table, key)),
        Effect::Insert { .. } | Effect::Delete { .. } => None,
    }
}

/// The key of what an effect writes, where it is known before commit.
fn known_key(effect: &Effect) -> Option<Key> {
    match effect {
        Effect::Insert { patches, .. } if !patches.is_empty() => None,
        _ => Some(effect.key().clone()),
    }
}

impl Wanted {
    /// Adds a hold of a table once.
    fn want_table(&mut self, table: TableId, mode: Mode) {
        let wanted = (ItemTag::unknown(table), mode);
        if !self.items.contains(&wanted) {
            self.items.push(wanted);
        }
    }
}
