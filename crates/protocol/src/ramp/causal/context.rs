//! What a transaction depends on: the metadata of causal RAMP (ramp.txt §6.3).
//!
//! Read atomic isolation shows a transaction whole. Causal consistency also shows what the transaction's writer had
//! seen. That takes more metadata: its [`CausalContext`]. The paper replaces timestamps by vectors with an entry for
//! each client, and bounds them by the number of clients that write. Here nodes coordinate, so a vector has an entry
//! for each node, however many clients there are. But a vector of timestamps does not tell an owner which of its
//! prepared transactions are committed. So a context has two parts: the dependencies that may not be installed
//! everywhere yet, by name, and a [`SequenceVector`] that covers all others. The number of named dependencies is
//! bounded ([`crate::ramp::RampOptions::dependencies_max`]): the paper's bound on writers, applied to what is in
//! flight.
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

    /// Whether it has no entry for any partition.
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
    /// The transactions over several partitions that may not be installed on all of them, by commit timestamp.
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

    /// Whether all named dependencies are known to be stable.
    pub(crate) fn is_known(&self, known: &StableVector) -> bool {
        self.dependencies
            .iter()
            .all(|dependency| known.includes(dependency.commit))
    }
}

/// What one node knows to be installed everywhere. Part of every message.
#[derive(Clone, Debug)]
pub struct Frontier {
    /// All transactions up to here, and all their dependencies.
    pub known: StableVector,
    /// Each of these, and all its dependencies, was installed at or before this.
    pub covered: SequenceVector,
}
