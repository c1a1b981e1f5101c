//! What an attempt has come to know of: the transactions that all its snapshots have to include.

use crate::ramp::core::coordinator::inclusion::Inclusion;
use crate::ramp::core::extension::SequenceVector;
use crate::ramp::core::extension::StableVector;
use crate::ramp::core::message::SiblingMetadata;

/// What an attempt has to see in every snapshot, and depends on if it commits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// Transactions that some snapshot of the attempt includes, or that one of these depends on; each once.
    pub(crate) siblings: Vec<SiblingMetadata>,
    /// What they depend on beside those.
    pub(crate) covered: SequenceVector,
}

impl Observed {
    /// Whether nothing was seen that has to be looked for elsewhere: so it is for most readers.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.siblings.is_empty() && self.covered.is_empty()
    }

    /// Adds what a snapshot includes.
    pub(crate) fn add(
        &mut self,
        known: &StableVector,
        includes: &mut Inclusion,
        installed: Vec<SiblingMetadata>,
    ) {
        for mut new in installed {
            if let Some(causal_context) = new.causal_context.take() {
                self.follow(&causal_context, known);
            }
            // A transaction without siblings is no one's dependency by name, so no snapshot is ever asked for it.
            if !new.alone {
                includes.include(new.commit);
                self.require(new);
            }
        }
    }

    pub(crate) fn require(&mut self, new: SiblingMetadata) {
        if !self.siblings.iter().any(|old| old.commit == new.commit) {
            self.siblings.push(new);
        }
    }
}
