//! Votes of a participant (ramp.txt, Algorithm 1, PREPARE), and the guards and write intents behind them.

use anabranch_storage::ItemTag;
use anabranch_types::{Activity, Effect, Key, Read, TableId, Timestamp};
use smallvec::SmallVec;

use crate::AbortReason;
use crate::ramp::core::context::Context;
use crate::ramp::core::message::{Prepare, Work};
use crate::ramp::core::participant::intents::{GuardRange, Mode, RequestedIntents};
use crate::ramp::core::participant::{Participant, Prepared, Promise};

/// What is to become of an insert whose key is drawn at commit, if the key is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drawing {
    /// It is checked as it is installed, and nothing has been promised.
    MayFail,
    /// It is promised: write intents protect what draws the key, so that the key checked is the key inserted.
    Promised,
}

impl Participant {
    /// Checks that a transaction can be installed later, and protects that by write intents. The answer is the vote.
    pub(crate) fn prepare(
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
        let origin_commit = prepare.work.origin_commit;
        self.prepare_at(context, prepare, origin_commit)
    }

    /// Prepares at the commit timestamp of the origin cluster if there is one, or above the vote.
    pub(crate) fn prepare_at(
        &mut self,
        context: &mut Context,
        prepare: Prepare,
        origin_commit: Option<Timestamp>,
    ) -> Result<Timestamp, AbortReason> {
        let Prepare {
            transaction,
            prepared,
            work,
            siblings,
            causal_context,
            participants,
        } = prepare;
        let highest = &mut self.prepared_max[prepared.node().index()];
        *highest = prepared.max(*highest);
        if let Some(causal_context) = &causal_context {
            self.install_dependencies(context, causal_context);
        }
        let mut requested = context.probe.within(Activity::Guard, || {
            let requested = self.requested(&work, Drawing::Promised);
            if self.is_excluded(&work, &requested) {
                return Err(AbortReason::Conflict);
            }
            self.validate(&work)?;
            Ok(requested)
        })?;
        // Above everything installed here, so that what the effects come to is what they will come
        // to at the commit timestamp, as long as their items stay as they are.
        let vote = context.clock.next(context.now);
        let mut prestaged = None;
        if !work.effects.is_empty() {
            let at = origin_commit.unwrap_or(vote);
            let prestage = || self.store.prestage(at, &work.effects, &*self.programs);
            let (staged, slots) = context
                .probe
                .within(Activity::Storage, prestage)
                .map_err(AbortReason::from)?;
            context.probe.within(Activity::Guard, || {
                self.keep_absent(&mut requested, &work.effects, &staged)?;
                match origin_commit {
                    Some(_) => Ok(()),
                    None => self.fits_beside_prepared(&work.effects),
                }
            })?;
            prestaged = Some((staged, slots, self.store.last()));
        }
        let promise = Promise {
            prepared,
            vote,
            after: self.store.last(),
        };
        let mut entry = Prepared {
            transaction,
            participants,
            origin_commit: work.origin_commit,
            since: context.now,
            asked: 0,
            effects: work.effects,
            prestaged,
            siblings,
            causal_context,
            intents: SmallVec::new(),
            kept: None,
        };
        entry.kept = entry.record_vote(context, promise, &requested);
        let take = || self.intents.take(prepared, requested);
        entry.intents = context.probe.within(Activity::Guard, take);
        self.votes.push_back(promise);
        self.prepared.insert(prepared, entry);
        Ok(vote)
    }

    /// Forgets a prepared transaction. One that is not prepared here was refused here.
    pub(crate) fn abort(&mut self, context: &mut Context, prepared: Timestamp) {
        if let Some(dropped) = self.prepared.remove(&prepared) {
            self.terminations += u64::from(dropped.asked > 0);
            self.intents.release(prepared, &dropped.intents);
            context.record_aborted(prepared);
        }
    }

    /// Checks what commits in one step against the write intents of others, and validates its guards. Constraints
    /// are checked when it is staged.
    pub(crate) fn check_unprepared(
        &self,
        context: &Context,
        work: &Work,
    ) -> Result<(), AbortReason> {
        context.probe.within(Activity::Guard, || {
            if !self.intents.is_empty() {
                self.check_against_intents(work)?;
            }
            self.validate(work)
        })
    }

    /// Whether every guard read is still as the transaction saw it.
    pub(crate) fn validate(&self, work: &Work) -> Result<(), AbortReason> {
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

    fn check_against_intents(&self, work: &Work) -> Result<(), AbortReason> {
        let requested = self.requested(work, Drawing::MayFail);
        if self.is_excluded(work, &requested) {
            return Err(AbortReason::Conflict);
        }
        self.fits_beside_prepared(&work.effects)
    }

    /// Whether the intents of prepared transactions exclude a transaction: on an item, or because one of the two writes
    /// in a range that the other has read as a guard.
    fn is_excluded(&self, work: &Work, requested: &RequestedIntents) -> bool {
        let covers =
            |range: &GuardRange, effect| range.covers(effect, &self.store, &*self.programs);
        let mut prepared_ranges = self.intents.ranges();
        self.intents.excludes_any(requested)
            || prepared_ranges.any(|range| work.effects.iter().any(|effect| covers(range, effect)))
            || requested.ranges.iter().any(|range| {
                // tidy: order-free because each is looked at alone
                let mut prepared = self.prepared.values();
                prepared.any(|other| other.effects.iter().any(|effect| covers(range, effect)))
            })
    }

    /// The write intents that this work needs.
    fn requested(&self, work: &Work, drawing: Drawing) -> RequestedIntents {
        let mut requested = RequestedIntents::default();
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
                            requested.items.push((item(), Mode::Insert));
                            Mode::KnownKey
                        }
                        (false, Drawing::MayFail) => Mode::Drawn,
                        (false, Drawing::Promised) => Mode::DrawnHeld,
                    };
                    requested.request_table(table, mode);
                }
                Effect::Update {
                    program, outputs, ..
                } => {
                    let held_draw = draws && drawing == Drawing::Promised && outputs.is_some();
                    let exclusive = held_draw || self.programs.may_violate(*program);
                    match (exclusive, outputs.is_some()) {
                        (false, false) => {
                            let replaces = self.programs.replaces(*program);
                            let mode = replaces.map_or(Mode::Update, Mode::Replace);
                            requested.items.push((item(), mode));
                        }
                        (false, true) => requested.items.push((item(), Mode::Present)),
                        (true, false) => requested.items.push((item(), Mode::Exclusive)),
                        (true, true) => {
                            requested.items.push((item(), Mode::Exclusive));
                            requested.items.push((item(), Mode::Present));
                        }
                    }
                }
                Effect::Delete { .. } => requested.items.push((item(), Mode::Delete)),
            }
            let mut indexes = self.store.schema(table).indexes.iter();
            if indexes.any(|index| index.unique) && self.may_take_key(effect) {
                requested.request_table(table, Mode::Unique);
            }
        }
        for guard in &work.guards {
            let effect = &work.effects[*guard as usize];
            if let Some(key) = known_key(effect) {
                let item = ItemTag::of(effect.table(), &key);
                requested.items.push((item, Mode::GuardWrite));
            }
        }
        for read in &work.guard_reads {
            match read {
                Read::Point { table, key } => {
                    requested
                        .items
                        .push((ItemTag::of(*table, key), Mode::GuardRead));
                }
                Read::Range { .. } => requested.ranges.extend(GuardRange::of(read)),
            }
        }
        requested
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
pub(crate) fn updated(effect: &Effect) -> Option<(TableId, &Key)> {
    match effect {
        Effect::Update { table, key, .. } => Some((*table, key)),
        Effect::Insert { .. } | Effect::Delete { .. } => None,
    }
}

/// The key of what an effect writes, where it is known before commit.
pub(crate) fn known_key(effect: &Effect) -> Option<Key> {
    match effect {
        Effect::Insert { patches, .. } if !patches.is_empty() => None,
        _ => Some(effect.key().clone()),
    }
}

impl RequestedIntents {
    /// Adds an intent on a table, once.
    pub(crate) fn request_table(&mut self, table: TableId, mode: Mode) {
        let requested = (ItemTag::unknown(table), mode);
        if !self.items.contains(&requested) {
            self.items.push(requested);
        }
    }
}
