//! Log records of partial order broadcast. What a message promises is durable before the message leaves.

use serde::{Deserialize, Serialize};

use crate::order::{Batch, BatchId, Delivered, Prefix};

use super::entry::{Decision, Epoch, Pending, Position};

/// A record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PobRecord<P> {
    /// The site has answered a proposal. At the leader: the batch, its position and its number are used.
    Pending {
        /// The batch.
        id: BatchId,
        /// The proposal and the answer.
        pending: Pending,
        /// The payloads.
        batch: Batch<P>,
    },
    /// The site takes part in no earlier epoch of the batch.
    Promised {
        /// The batch.
        id: BatchId,
        /// The epoch.
        epoch: Epoch,
    },
    /// The site has accepted a decision, and promised its epoch.
    Accepted {
        /// The batch.
        id: BatchId,
        /// The epoch.
        epoch: Epoch,
        /// The decision.
        decision: Decision,
        /// The payloads, if an earlier record does not have them.
        batch: Option<Batch<P>>,
    },
    /// The decision is final. The site delivers the batch as soon as its dependencies are delivered: so the order of
    /// these records determines the order of its deliveries.
    Stable {
        /// The batch.
        id: BatchId,
        /// The decision.
        decision: Decision,
        /// The payloads, if an earlier record does not have them.
        batch: Option<Batch<P>>,
    },
    /// What the site knows of cuts: it has promised an epoch, accepted a cut, or knows of a chosen one.
    Cut(CutState),
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
    /// What was pruned, at this site or at one whose state it took, before all sites had delivered it.
    pub discarded: Prefix,
    /// The highest position of a pruned batch.
    pub floor: Position,
    /// The highest position that the site has seen.
    pub highest: Position,
    /// The highest position that the site has given to a batch of its own.
    pub used: Position,
    /// The number of the site's last batch.
    pub sequence: u64,
    /// What the site knows of cuts.
    pub cuts: CutState,
}

/// What a site knows of cuts, durably.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CutState {
    /// The number of the last cut that is known to be chosen. 0: none is.
    pub number: u64,
    /// That cut.
    pub chosen: Prefix,
    /// The site takes part in no earlier epoch of the next cut.
    pub promised: Epoch,
    /// What it has accepted as the next cut, and in which epoch.
    pub accepted: Option<(Epoch, Prefix)>,
}

impl CutState {
    /// A cut was chosen: nothing is known of the next one.
    pub(super) fn after(number: u64, chosen: Prefix) -> CutState {
        CutState {
            number,
            chosen,
            promised: Epoch::INITIAL,
            accepted: None,
        }
    }
}

impl<P> PobRecord<P> {
    /// Whether output is held until this record is durable. All are: each states what an answer promises.
    pub fn is_forced(&self) -> bool {
        true
    }
}

/// The state of a site for another one that was away too long: what it has delivered, and all decisions that it has
/// not pruned.
#[derive(Clone, Debug)]
pub struct Transfer<P> {
    /// What the sender has delivered, pruned and discarded, and its positions.
    pub base: Base,
    /// The decisions that the sender has not pruned.
    pub stable: Vec<(BatchId, Decision, Option<Batch<P>>)>,
}
