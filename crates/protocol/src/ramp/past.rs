//! What a transaction follows: the metadata of causal RAMP (ramp.txt §6.3).
//!
//! Read atomic isolation shows a transaction whole. That whoever sees it also sees what its writer had
//! seen takes more metadata: its [`Past`]. The paper would replace timestamps by vectors with an entry
//! for each client, and bound them by bounding how many clients write. Here nodes coordinate, so a vector
//! has an entry a node, however many clients there are; but a vector of timestamps alone does not tell an
//! owner which of the transactions that it has prepared are committed. So a past has two parts: the
//! transactions that may not be shown everywhere yet, by name, and a [`Reach`] that covers all others.
//! How many may be named is bounded ([`super::RampOptions::past_max`]): that is the paper's bound on
//! writers, taken from what is in flight instead of from who may write.
//!
//! The page `docs/protocols/ramp-causal.md` has the rules and why they hold.

use std::sync::Arc;

use anabranch_storage::CommitSequence;
use anabranch_types::{EffectError, PartitionId, Timestamp};
use serde::{Deserialize, Serialize};

use super::attempt::Includes;
use super::known::Known;
use super::message::{Evidence, Required};
use super::participant::Context;
use super::siblings::Siblings;

/// How far owners had come, by partition: an entry a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach(Vec<CommitSequence>);

impl Reach {
    /// At one partition.
    #[inline]
    pub fn of(&self, partition: PartitionId) -> CommitSequence {
        let reach = self.0.get(partition.index());
        reach.copied().unwrap_or(CommitSequence::LOADED)
    }

    /// Whether it says nothing of any partition.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// At least this far at one partition.
    pub(super) fn raise(&mut self, partition: PartitionId, sequence: CommitSequence) {
        let at = partition.index();
        if at >= self.0.len() {
            self.0.resize(at + 1, CommitSequence::LOADED);
        }
        self.0[at] = self.0[at].max(sequence);
    }

    /// At least as far as another one.
    pub(super) fn merge(&mut self, other: &Reach) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), CommitSequence::LOADED);
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }

    /// Whether it is at least as far as another one.
    pub(super) fn covers(&self, other: &Reach) -> bool {
        let mut places = (0..).map(PartitionId).zip(&other.0);
        places.all(|(partition, sequence)| self.of(partition) >= *sequence)
    }
}

/// What a transaction, or a client, has seen, and what those had seen that wrote it; and so on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// All of it that is not named was installed at or before this.
    pub reach: Reach,
    /// The transactions over several partitions that may not be shown on all of them, by commit timestamp.
    pub named: Box<[Named]>,
}

/// A transaction of a [`Past`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its commit timestamp.
    pub commit: Timestamp,
    /// What it wrote where; names it by the timestamp of Prepare.
    pub siblings: Arc<Siblings>,
}

impl Named {
    /// The transaction.
    pub fn required(&self) -> Required {
        Required {
            prepared: self.siblings.timestamp,
            commit: self.commit,
        }
    }
}

impl Past {
    /// The highest commit timestamp that it names.
    pub(super) fn newest(&self) -> Option<Timestamp> {
        self.named.last().map(|named| named.commit)
    }

    /// Takes this node's clock along, so that what follows this gets a timestamp above all that it names
    /// (CAUSAL-I5).
    ///
    /// # Errors
    /// The clock would have to follow one that is too far ahead.
    pub(super) fn take_clock_along(&self, context: &mut Context) -> Result<(), EffectError> {
        let Some(newest) = self.newest() else {
            return Ok(());
        };
        match context.refuses_clock(newest, newest.node()) {
            Some(error) => Err(error),
            None => {
                context.clock.observe(newest);
                Ok(())
            }
        }
    }

    /// Whether all that it names is known to be shown everywhere.
    pub(super) fn is_known(&self, known: &Known) -> bool {
        self.named.iter().all(|named| known.includes(named.commit))
    }
}

/// What one node knows to be shown everywhere: rides on every message.
#[derive(Clone, Debug)]
pub struct Frontier {
    /// All transactions up to here, and all that they follow.
    pub known: Known,
    /// Each of these, and whatever it follows, was installed at or before this.
    pub reach: Reach,
}

/// What an attempt has come to know of: what it is to see in every snapshot, and follows if it commits.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Transactions that some snapshot of the attempt includes, or that one of these follows; each once.
    pub(super) evidence: Vec<Evidence>,
    /// What they follow beside those.
    pub(super) reach: Reach,
}

impl Seen {
    /// Whether nothing was seen that has to be looked for elsewhere: so it is for most readers.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.evidence.is_empty() && self.reach.is_empty()
    }

    /// Adds what a snapshot shows.
    pub(super) fn add(&mut self, known: &Known, includes: &mut Includes, shown: Vec<Evidence>) {
        for mut new in shown {
            if let Some(past) = new.past.take() {
                self.follow(&past, known);
            }
            // What stands alone has no siblings and is named by nobody, so no snapshot is ever asked for it.
            if !new.alone {
                includes.name(new.commit);
                self.require(new);
            }
        }
    }

    /// Adds what something that was seen follows, but for what had been shown everywhere before the
    /// attempt began: every snapshot of it includes that.
    pub(super) fn follow(&mut self, past: &Past, known: &Known) {
        self.reach.merge(&past.reach);
        for named in &*past.named {
            if !known.includes(named.commit) {
                self.require(Evidence {
                    commit: named.commit,
                    siblings: Arc::clone(&named.siblings),
                    past: None,
                    alone: false,
                });
            }
        }
    }

    fn require(&mut self, new: Evidence) {
        if !self.evidence.iter().any(|old| old.commit == new.commit) {
            self.evidence.push(new);
        }
    }

    /// What is named of it by somebody who knows this to be shown everywhere; by commit timestamp.
    pub(super) fn named(&self, known: &Known) -> Vec<Named> {
        let unknown = self.evidence.iter();
        let unknown = unknown.filter(|evidence| !known.includes(evidence.commit));
        let named = unknown.map(|evidence| Named {
            commit: evidence.commit,
            siblings: Arc::clone(&evidence.siblings),
        });
        let mut named: Vec<Named> = named.collect();
        named.sort_unstable_by_key(|named| named.commit);
        named
    }
}
