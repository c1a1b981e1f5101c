//! What a site knows of one batch: proposal, decision, ballots and status.

use std::collections::BTreeSet;

use anabranch_types::Ticks;
use serde::{Deserialize, Serialize};

use crate::order::{Ballot, Batch, BatchId, Prefix};

/// What a site proposes of its batch. It never changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Proposal<P> {
    /// The payloads.
    pub batch: Batch<P>,
    /// The conflicting batches that the site knew and had not pruned (EPaxos\*: *initDep*).
    pub dependencies: BTreeSet<BatchId>,
    /// What the site had pruned: all sites had delivered it.
    pub pruned: Prefix,
    /// The highest depth of a batch that the site had delivered.
    pub depth: u64,
}

/// What is decided, or about to be decided, of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Decision {
    /// It is delivered, with these dependencies.
    Deliver(BTreeSet<BatchId>),
    /// It is never delivered. Its site, if it is up, broadcasts the payloads again in another batch.
    NoOp,
}

impl Decision {
    /// The dependencies, unless it is a no-op.
    pub fn dependencies(&self) -> Option<&BTreeSet<BatchId>> {
        match self {
            Decision::Deliver(dependencies) => Some(dependencies),
            Decision::NoOp => None,
        }
    }
}

/// The status of a batch at a site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The site has not answered the proposal. It may know the id alone, as a dependency or by a recovery, or the
    /// proposal through a validation.
    Unknown,
    /// The site has answered the proposal.
    PreAccepted {
        /// Its answer: the proposed dependencies, and the conflicting batches that it knew.
        dependencies: BTreeSet<BatchId>,
    },
    /// The site has accepted a decision in a ballot.
    Accepted {
        /// The ballot of the ACCEPT: never the promised one in its place.
        ballot: Ballot,
        /// What was accepted.
        decision: Decision,
    },
    /// The decision is final.
    Committed {
        /// The decision.
        decision: Decision,
    },
}

/// A batch at a site.
#[derive(Clone, Debug, Hash)]
pub struct Entry<P> {
    /// The highest ballot in which the site takes part. Kept apart from the accepted one.
    pub promised: Ballot,
    /// The highest ballot that another site has refused an earlier one for. Not durable.
    pub refused: Ballot,
    /// The proposal, once the site has it.
    pub proposal: Option<Proposal<P>>,
    /// The status.
    pub status: Status,
    /// When the site last received something about it.
    pub touched: Ticks,
    /// The recoveries of it that this site has started.
    pub attempts: u32,
}

impl<P> Entry<P> {
    /// A batch of which the site knows the id alone.
    pub fn unknown(now: Ticks) -> Entry<P> {
        Entry {
            promised: Ballot::default(),
            refused: Ballot::default(),
            proposal: None,
            status: Status::Unknown,
            touched: now,
            attempts: 0,
        }
    }

    /// The decision, once it is final.
    pub fn committed(&self) -> Option<&Decision> {
        match &self.status {
            Status::Committed { decision } => Some(decision),
            _ => None,
        }
    }
}
