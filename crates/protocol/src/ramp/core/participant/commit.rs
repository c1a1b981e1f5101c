//! Commits of a participant (ramp.txt, Algorithm 1, COMMIT).

use std::sync::Arc;

use anabranch_storage::{ApplyError, CommitSequence, ItemTag, SlotValues, Staged};
use anabranch_types::{Activity, Effect, EffectError, Timestamp};

use crate::ramp::core::context::Context;
use crate::ramp::core::extension::CausalContext;
use crate::ramp::core::message::{Decision, Work};
use crate::ramp::core::participant::Participant;
use crate::ramp::core::participant::invariants::{in_doubt, missing_row};
use crate::ramp::core::participant::writers::AssignedRows;
use crate::ramp::core::trace::Trace;
use crate::{AbortReason, Slots};

impl Participant {
    /// Installs a prepared transaction. Returns the values of its deferred effects, once.
    pub(crate) fn commit(
        &mut self,
        context: &mut Context,
        decided: Decision,
    ) -> Result<Slots, EffectError> {
        if let Some(recent) = self.recent.get_mut(&decided.commit) {
            return Ok(std::mem::take(&mut recent.slots));
        }
        if let Some(commit_reply) = self.commit_replies.get_mut(&decided.commit) {
            return Ok(std::mem::take(&mut commit_reply.slots));
        }
        if self.prepared.contains_key(&decided.prepared) {
            let installed = self.install_prepared(context, decided);
            if let Err(error) = &installed {
                let what = format!("RAMP-I1: {decided:?} cannot be installed: {error}");
                self.break_invariant(what);
            }
            return installed
                .map_err(|error| error.into_effect_error().unwrap_or_else(missing_row));
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

    /// Checks and installs a transaction that has no other participant.
    pub(crate) fn commit_alone(
        &mut self,
        context: &mut Context,
        work: Work,
        causal_context: Option<Arc<CausalContext>>,
    ) -> Result<(Timestamp, Slots), AbortReason> {
        if let Some(causal_context) = &causal_context {
            // What is installed advances the clock as well: only then is it known how far ahead the rest is.
            self.install_dependencies(context, causal_context);
            causal_context
                .advance_clock(context)
                .map_err(AbortReason::Failed)?;
        }
        if let Some(origin_commit) = work.origin_commit {
            context.clock.observe(origin_commit);
        }
        self.check_unprepared(context, &work)?;
        let timestamp = context.clock.next(context.now);
        if work.effects.is_empty() {
            return Ok((timestamp, Slots::new()));
        }
        let trace = self.trace_alone(timestamp, causal_context, &work.effects);
        let at = work.origin_commit.unwrap_or(timestamp);
        let (staged, slots) = self
            .stage(context, at, work.effects)
            .map_err(AbortReason::from)?;
        let sequence = self.install(context, at, staged, None);
        if let Some(trace) = &trace {
            self.remember_alone(context, sequence, timestamp, trace.clone());
        }
        context.record_alone(timestamp, trace, work.origin_commit);
        Ok((timestamp, slots))
    }

    /// Checks and installs a decided transaction on the coordinator's own partition. It was not prepared here, since
    /// it is installed here before any other partition installs it; so it may still fail.
    pub(crate) fn commit_first(
        &mut self,
        context: &mut Context,
        commit: Timestamp,
        work: Work,
        trace: Option<Trace>,
    ) -> Result<Slots, AbortReason> {
        self.check_unprepared(context, &work)?;
        if work.effects.is_empty() {
            return Ok(Slots::new());
        }
        let at = work.origin_commit.unwrap_or(commit);
        let (staged, slots) = self
            .stage(context, at, work.effects)
            .map_err(AbortReason::from)?;
        self.install(context, at, staged, trace.map(|trace| (commit, trace)));
        Ok(slots)
    }

    pub(crate) fn install_prepared(
        &mut self,
        context: &mut Context,
        decided: Decision,
    ) -> Result<Slots, ApplyError> {
        let prepared = self
            .prepared
            .remove(&decided.prepared)
            .expect("the caller has looked");
        self.terminations += u64::from(prepared.asked > 0);
        let release = || self.intents.release(decided.prepared, &prepared.intents);
        context.probe.within(Activity::Guard, release);
        // The coordinator has checked that this is not too far ahead of any vote.
        context.clock.observe(decided.commit);
        let origin_commit = prepared.origin_commit.unwrap_or(decided.commit);
        if prepared.effects.is_empty() {
            self.record_committed(context, decided, false, &Slots::new());
            return Ok(Slots::new());
        }
        let trace = prepared
            .siblings
            .map(|siblings| Trace::new(siblings, prepared.causal_context, &prepared.effects));
        let several = trace.is_some();
        let (staged, slots) = match prepared.prestaged {
            Some((staged, slots, since))
                if self.store.is_current(&staged, since, Some(origin_commit)) =>
            {
                (staged, slots.into_vec())
            }
            _ => self.stage(context, origin_commit, prepared.effects)?,
        };
        let trace = trace.map(|trace| (decided.commit, trace));
        self.install(context, origin_commit, staged, trace);
        self.record_committed(context, decided, several, &slots);
        Ok(slots)
    }

    /// What effects come to, at a timestamp, by what is installed.
    pub(crate) fn stage(
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

    /// Installs what was staged, and remembers the transaction if it is one over several partitions.
    pub(crate) fn install(
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
        self.discard_history(context);
        // Every prepared transaction has write intents on what it writes.
        staged.expect_late_writes(|change| {
            let item = ItemTag::of(change.table(), change.key());
            [item, ItemTag::unknown(change.table())]
                .into_iter()
                .any(|item| self.intents.has_intent(item))
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
}
