//! What a transaction follows: the metadata of causal RAMP (ramp.txt §6.3).
//!
//! Read atomic isolation shows a transaction whole. That whoever sees it also sees what its writer had
//! seen takes more metadata: its [`CausalContext`]. The paper would replace timestamps by vectors with an entry
//! for each client, and bound them by bounding how many clients write. Here nodes coordinate, so a vector
//! has an entry a node, however many clients there are; but a vector of timestamps alone does not tell an
//! owner which of the transactions that it has prepared are committed. So a past has two parts: the
//! transactions that may not be shown everywhere yet, by name, and a [`SequenceVector`] that covers all others.
//! How many may be named is bounded ([`super::RampOptions::dependencies_max`]): that is the paper's bound on
//! writers, taken from what is in flight instead of from who may write.
//!
//! The page `docs/protocols/ramp-causal.md` has the rules and why they hold.

use std::sync::Arc;

use anabranch_storage::CommitSequence;
use anabranch_types::{PartitionId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::SessionToken;
use crate::ramp::collection::stable_vector::StableVector;
use crate::ramp::core::message::Decision;
use crate::ramp::core::metadata::Siblings;

/// How far owners had come, by partition: an entry a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceVector(Vec<CommitSequence>);

impl SequenceVector {
    /// At one partition.
    #[inline]
    pub fn of(&self, partition: PartitionId) -> CommitSequence {
        let covered = self.0.get(partition.index());
        covered.copied().unwrap_or(CommitSequence::LOADED)
    }

    /// Whether it says nothing of any partition.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// At least this far at one partition.
    pub(crate) fn raise(&mut self, partition: PartitionId, sequence: CommitSequence) {
        let at = partition.index();
        if at >= self.0.len() {
            self.0.resize(at + 1, CommitSequence::LOADED);
        }
        self.0[at] = self.0[at].max(sequence);
    }

    /// At least as far as another one.
    pub(crate) fn merge(&mut self, other: &SequenceVector) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), CommitSequence::LOADED);
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }

    /// Whether it is at least as far as another one.
    pub(crate) fn covers(&self, other: &SequenceVector) -> bool {
        let mut places = (0..).map(PartitionId).zip(&other.0);
        places.all(|(partition, sequence)| self.of(partition) >= *sequence)
    }
}

/// What a transaction, or a client, has seen, and what those had seen that wrote it; and so on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CausalContext {
    /// All of it that is not named was installed at or before this.
    pub covered: SequenceVector,
    /// The transactions over several partitions that may not be shown on all of them, by commit timestamp.
    pub dependencies: Box<[Dependency]>,
}

/// A transaction of a [`CausalContext`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    /// Its commit timestamp.
    pub commit: Timestamp,
    /// What it wrote where; names it by the timestamp of Prepare.
    pub siblings: Arc<Siblings>,
}

impl Dependency {
    /// The transaction.
    pub fn decision(&self) -> Decision {
        Decision {
            prepared: self.siblings.timestamp,
            commit: self.commit,
        }
    }
}

impl SessionToken for CausalContext {}

impl CausalContext {
    /// The highest commit timestamp that it names.
    pub(crate) fn newest(&self) -> Option<Timestamp> {
        self.dependencies.last().map(|dependency| dependency.commit)
    }

    /// Whether all that it names is known to be shown everywhere.
    pub(crate) fn is_known(&self, known: &StableVector) -> bool {
        self.dependencies
            .iter()
            .all(|dependency| known.includes(dependency.commit))
    }
}

/// What one node knows to be shown everywhere: rides on every message.
#[derive(Clone, Debug)]
pub struct Frontier {
    /// All transactions up to here, and all that they follow.
    pub known: StableVector,
    /// Each of these, and whatever it follows, was installed at or before this.
    pub covered: SequenceVector,
}
