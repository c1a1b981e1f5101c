//! What an owner answers where metadata leave it open: whether a transaction that has committed elsewhere wrote here,
//! and whether a snapshot lacks it (ramp.txt, Algorithms 2 and 3, GET with a set of timestamps).
//!
//! The paper's servers look among an item's versions for one of the set. Here an owner knows of each transaction over
//! several partitions what it wrote here, for as long as a reader may ask: of a prepared one by its effects, of an
//! installed one by its trace. One that has been forgotten differs from one that was never here by the watermark
//! below which everything is forgotten. It counts as included only in a snapshot that is younger than all forgotten
//! ones.

use anabranch_storage::{CommitSequence, ItemTag};
use anabranch_types::{Read, Timestamp};

use crate::ramp::core::context::Context;
use crate::ramp::core::message::{Decision, MissingWrites, Refusal};
use crate::ramp::core::metadata::{ReadSet, read_tag, tags, touches};
use crate::ramp::core::participant::Participant;

impl Participant {
    /// Whether a snapshot includes all that is required and has written what was read in it. What it
    /// lacks of the rest is added to `missing`.
    pub(crate) fn is_complete<'r>(
        &self,
        context: &Context,
        snapshot: CommitSequence,
        reads: impl Iterator<Item = &'r Read>,
        required: &[Decision],
        missing: &mut Vec<MissingWrites>,
    ) -> bool {
        let read_set: ReadSet = reads.map(read_tag).collect();
        for decision in required {
            let Ok(lacks) = self.lacks(context, snapshot, *decision) else {
                // It has been forgotten since: a newer snapshot has it for sure.
                return false;
            };
            if let Some(lacks) = lacks {
                if touches(&lacks.written, &read_set) {
                    return false;
                }
                missing.push(lacks);
            }
        }
        true
    }

    /// What a snapshot that cannot be changed lacks of a transaction. RAMP-Fast's coordinators ask
    /// only for what has written what they have read.
    pub(crate) fn look_back(
        &mut self,
        context: &mut Context,
        snapshot: CommitSequence,
        decision: Decision,
    ) -> Result<Option<MissingWrites>, Refusal> {
        match self.metadata.is_exact() {
            true => self
                .include(context, Some(snapshot), decision)
                .map(|()| None),
            false => self.lacks(context, snapshot, decision),
        }
    }

    /// What a snapshot lacks of a transaction that has committed elsewhere, and may have written nothing here. What
    /// is prepared stays prepared, so no other reader sees a difference.
    pub(crate) fn lacks(
        &self,
        context: &Context,
        snapshot: CommitSequence,
        decision: Decision,
    ) -> Result<Option<MissingWrites>, Refusal> {
        if self.is_forgotten(context, decision) {
            return match self.settled <= snapshot {
                true => Ok(None),
                false => Err(Refusal::BelowFloor),
            };
        }
        let missing = |written: Box<[ItemTag]>| MissingWrites {
            commit: decision.commit,
            written,
        };
        if let Some(recent) = self.recent.get(&decision.commit) {
            let written = || self.written_here(decision.commit);
            return Ok((recent.sequence > snapshot).then(|| missing(written().into())));
        }
        let prepared = self.prepared.get(&decision.prepared);
        let written = prepared.map(|prepared| tags(&prepared.effects));
        let written = written.filter(|tags| !tags.is_empty());
        Ok(written.map(|tags| missing(tags.into_boxed_slice())))
    }

    /// Whether this owner would not know any more if the transaction had written here.
    fn is_forgotten(&self, context: &Context, decision: Decision) -> bool {
        context.stability.is_settled(decision.commit)
            && !self.recent.contains_key(&decision.commit)
            && !self.prepared.contains_key(&decision.prepared)
    }

    /// What a transaction wrote that is remembered here.
    fn written_here(&self, commit: Timestamp) -> &[ItemTag] {
        let installed = self
            .remembered(commit)
            .expect("what is recent is remembered");
        installed.trace.written(self.partition)
    }

    /// Counts what a filter has let pass although it wrote nothing of what is read.
    pub(crate) fn count_false_positives<'r>(
        &mut self,
        context: &Context,
        reads: impl Iterator<Item = &'r Read>,
        required: &[Decision],
    ) {
        let read_set: ReadSet = reads.map(read_tag).collect();
        let in_vain = |decision: &&Decision| {
            if self.is_forgotten(context, **decision) {
                return false;
            }
            // What was read in an earlier round is not known here.
            let touches = |written: &[ItemTag]| read_set.is_empty() || touches(written, &read_set);
            match (
                self.recent.get(&decision.commit),
                self.prepared.get(&decision.prepared),
            ) {
                (Some(_), _) => !touches(self.written_here(decision.commit)),
                (None, Some(prepared)) => !touches(&tags(&prepared.effects)),
                // A replica that lacks it may be the one that lags: see `RampNode::count_denied`.
                (None, None) => !self.is_replica,
            }
        };
        self.false_positives += required.iter().filter(in_vain).count() as u64;
    }
}
