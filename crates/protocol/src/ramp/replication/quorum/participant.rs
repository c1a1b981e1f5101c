//! A replica in quorum operation: what it has prepared of transactions that have committed elsewhere.

use anabranch_storage::CommitSequence;
use anabranch_types::Timestamp;

use crate::ramp::core::context::Context;
use crate::ramp::core::message::{Decision, LookedUp, MissingWrites, Refusal};
use crate::ramp::core::participant::Participant;

impl Participant {
    /// Of transactions that have committed elsewhere, those that this replica has not prepared, where metadata do not
    /// say that they wrote here. Other replicas of the partition may have.
    pub(crate) fn not_prepared(&self, context: &Context, required: &[Decision]) -> Vec<Timestamp> {
        if !self.is_replica || self.metadata.is_exact() {
            return Vec::new();
        }
        let is_absent = |decision: &&Decision| {
            !self.recent.contains_key(&decision.commit)
                && !self.prepared.contains_key(&decision.prepared)
                && !context.stability.is_settled(decision.commit)
        };
        let not_prepared = required.iter().filter(is_absent);
        not_prepared.map(|decision| decision.commit).collect()
    }

    /// What this replica has of transactions that may have written on its partition.
    pub(crate) fn look_up(
        &self,
        context: &Context,
        required: &[Decision],
    ) -> Result<LookedUp, Refusal> {
        let not_prepared = self.not_prepared(context, required);
        let mut written = Vec::new();
        for decision in required {
            let commit = decision.commit;
            // As what the empty snapshot lacks of it.
            match self.lacks(context, CommitSequence::LOADED, *decision) {
                Ok(Some(lacks)) => written.push(lacks),
                Ok(None) if not_prepared.contains(&commit) => {}
                Ok(None) => written.push(MissingWrites {
                    commit,
                    written: Box::default(),
                }),
                Err(_) => return Err(Refusal::forgotten(context.stability.known())),
            }
        }
        Ok(LookedUp {
            written,
            not_prepared,
        })
    }
}
