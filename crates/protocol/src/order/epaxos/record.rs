//! Log records of EPaxos. What a message promises is durable before the message leaves.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::order::{Ballot, BatchId, Delivered, Prefix};

use super::entry::{Decision, Proposal};

/// A record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum EpaxosRecord<P> {
    /// The site has answered a proposal. At the batch's site: its number is used.
    PreAccepted {
        /// The batch.
        id: BatchId,
        /// The proposal.
        proposal: Proposal<P>,
        /// The answer.
        dependencies: BTreeSet<BatchId>,
    },
    /// The site knows a proposal that it has not answered: what it answers from now on includes the batch.
    Proposed {
        /// The batch.
        id: BatchId,
        /// The proposal.
        proposal: Proposal<P>,
    },
    /// The site takes part in no earlier ballot of the batch.
    Promised {
        /// The batch.
        id: BatchId,
        /// The ballot.
        ballot: Ballot,
    },
    /// The site has accepted a decision, and promised its ballot.
    Accepted {
        /// The batch.
        id: BatchId,
        /// The ballot.
        ballot: Ballot,
        /// The decision.
        decision: Decision,
        /// The proposal, if an earlier record does not have it.
        proposal: Option<Proposal<P>>,
    },
    /// The decision is final. The site delivers the batch as soon as all that it depends on is committed: so the order of
    /// these records determines the order of its deliveries.
    Committed {
        /// The batch.
        id: BatchId,
        /// The decision.
        decision: Decision,
        /// The proposal, if an earlier record does not have it.
        proposal: Option<Proposal<P>>,
    },
    /// The state beside the entries: in a checkpoint, and after a state transfer.
    Base(Base),
}

/// A site's state beside its entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// What is delivered.
    pub delivered: Delivered,
    /// What is pruned: no entry is kept for it.
    pub pruned: Prefix,
    /// The depths of the delivered batches that are not pruned.
    pub depths: Vec<(BatchId, u64)>,
    /// The highest depth of a delivered batch.
    pub deepest: u64,
    /// The number of the site's last batch.
    pub sequence: u64,
}

impl<P> EpaxosRecord<P> {
    /// Whether output is held until this record is durable. All are: each states what an answer promises.
    pub fn is_forced(&self) -> bool {
        true
    }
}

/// The state of a site for another one: what it has delivered, and all decisions that it has not pruned.
#[derive(Clone, Debug)]
pub struct Transfer<P> {
    /// What the sender has delivered and pruned.
    pub base: Base,
    /// The decisions that the sender has not pruned.
    pub committed: Vec<(BatchId, Decision, Option<Proposal<P>>)>,
}
