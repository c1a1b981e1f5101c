//! What an owner says where metadata do not: whether a transaction that has committed elsewhere wrote
//! here, and whether a snapshot lacks it (ramp.txt, Algorithms 2 and 3, GET with a set of timestamps).
//!
//! The paper's servers look among an item's versions for one of the set. Here an owner knows of each
//! transaction over several partitions what it wrote here, for as long as a reader may ask: one that is
//! prepared by its effects, one that is shown by its trace. One that has been forgotten is told from one
//! that was never here by the watermark below which everything has been forgotten, and counts as
//! included only in a snapshot that is younger than all of those.

use anabranch_storage::{CommitSequence, ItemTag};
use anabranch_types::{Read, Timestamp};

use super::{Context, Participant};
use crate::ramp::attempt::{Footprint, footprint_of, touches};
use crate::ramp::message::{Lacking, LookedUp, Refusal, Required};
use crate::ramp::siblings::tags;

impl Participant {
    /// Whether a snapshot includes all that is required and has written what was read in it. What it
    /// lacks of the rest is added to `lacking`.
    pub(super) fn stands<'r>(
        &self,
        context: &Context,
        snapshot: CommitSequence,
        reads: impl Iterator<Item = &'r Read>,
        require: &[Required],
        lacking: &mut Vec<Lacking>,
    ) -> bool {
        let footprint: Footprint = reads.map(footprint_of).collect();
        for required in require {
            let Ok(lacks) = self.lacks(context, snapshot, *required) else {
                // It has been forgotten since: a newer snapshot has it for sure.
                return false;
            };
            if let Some(lacks) = lacks {
                if touches(&lacks.written, &footprint) {
                    return false;
                }
                lacking.push(lacks);
            }
        }
        true
    }

    /// What a snapshot that cannot be changed lacks of a transaction. RAMP-Fast's coordinators ask
    /// only for what has written what they have read.
    pub(in crate::ramp) fn look_back(
        &mut self,
        context: &mut Context,
        snapshot: CommitSequence,
        required: Required,
    ) -> Result<Option<Lacking>, Refusal> {
        match self.metadata.is_exact() {
            true => self
                .include(context, Some(snapshot), required)
                .map(|()| None),
            false => self.lacks(context, snapshot, required),
        }
    }

    /// What a snapshot lacks of a transaction that has committed elsewhere, and may have written
    /// nothing here. Nobody else's view of it changes: what is prepared stays prepared.
    fn lacks(
        &self,
        context: &Context,
        snapshot: CommitSequence,
        required: Required,
    ) -> Result<Option<Lacking>, Refusal> {
        if self.is_forgotten(context, required) {
            return match self.settled <= snapshot {
                true => Ok(None),
                false => Err(Refusal::BelowFloor),
            };
        }
        let lacking = |written: Box<[ItemTag]>| Lacking {
            commit: required.commit,
            written,
        };
        if let Some(recent) = self.recent.get(&required.commit) {
            let written = || self.written_here(required.commit);
            return Ok((recent.sequence > snapshot).then(|| lacking(written().into())));
        }
        let prepared = self.prepared.get(&required.prepared);
        let written = prepared.map(|prepared| tags(&prepared.effects));
        let written = written.filter(|tags| !tags.is_empty());
        Ok(written.map(|tags| lacking(tags.into_boxed_slice())))
    }

    /// Of transactions that have committed elsewhere, those that this copy has not prepared, where
    /// metadata do not say that they wrote here. Others of the partition's copies may have.
    pub(in crate::ramp) fn absent(
        &self,
        context: &Context,
        require: &[Required],
    ) -> Vec<Timestamp> {
        if !self.is_copy || self.metadata.is_exact() {
            return Vec::new();
        }
        let is_absent = |required: &&Required| {
            !self.recent.contains_key(&required.commit)
                && !self.prepared.contains_key(&required.prepared)
                && !context.stability.is_settled(required.commit)
        };
        let absent = require.iter().filter(is_absent);
        absent.map(|required| required.commit).collect()
    }

    /// What this copy has of transactions that may have written on its partition.
    pub(in crate::ramp) fn look_up(
        &self,
        context: &Context,
        require: &[Required],
    ) -> Result<LookedUp, Refusal> {
        let absent = self.absent(context, require);
        let mut written = Vec::new();
        for required in require {
            let commit = required.commit;
            // As what the empty snapshot lacks of it.
            match self.lacks(context, CommitSequence::LOADED, *required) {
                Ok(Some(lacks)) => written.push(lacks),
                Ok(None) if absent.contains(&commit) => {}
                Ok(None) => written.push(Lacking {
                    commit,
                    written: Box::default(),
                }),
                Err(_) => return Err(Refusal::forgotten(context.stability.known())),
            }
        }
        Ok(LookedUp { written, absent })
    }

    /// Whether this owner would not know any more if the transaction had written here.
    fn is_forgotten(&self, context: &Context, required: Required) -> bool {
        context.stability.is_settled(required.commit)
            && !self.recent.contains_key(&required.commit)
            && !self.prepared.contains_key(&required.prepared)
    }

    /// What a transaction wrote that is remembered here.
    fn written_here(&self, commit: Timestamp) -> &[ItemTag] {
        let shown = self.remembered(commit).expect("what is recent was shown");
        shown.trace.written(self.partition)
    }

    /// Counts what a filter has let pass although it wrote nothing of what is read.
    pub(super) fn count_false_positives<'r>(
        &mut self,
        context: &Context,
        reads: impl Iterator<Item = &'r Read>,
        require: &[Required],
    ) {
        let footprint: Footprint = reads.map(footprint_of).collect();
        let in_vain = |required: &&Required| {
            if self.is_forgotten(context, **required) {
                return false;
            }
            // What was read in an earlier round is not known here.
            let touches =
                |written: &[ItemTag]| footprint.is_empty() || touches(written, &footprint);
            match (
                self.recent.get(&required.commit),
                self.prepared.get(&required.prepared),
            ) {
                (Some(_), _) => !touches(self.written_here(required.commit)),
                (None, Some(prepared)) => !touches(&tags(&prepared.effects)),
                // What one copy has not got is not in vain for all that: see `RampNode::count_denied`.
                (None, None) => !self.is_copy,
            }
        };
        self.false_positives += require.iter().filter(in_vain).count() as u64;
    }
}
