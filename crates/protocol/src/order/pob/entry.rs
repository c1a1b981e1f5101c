//! What a site knows of one batch: the tuples of the paper's delivery queue, with epochs.

use std::collections::BTreeSet;
use std::fmt;

use anabranch_types::Ticks;
use serde::{Deserialize, Serialize};

use crate::order::quorum::next_number;
use crate::order::{Batch, BatchId, Prefix, SiteId};

/// A delivery slot. A batch of site *i* has only positions that are *i* modulo N (the paper's Rule 1).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Position(pub u64);

impl Position {
    /// The least position of `site` above this one, in a group of `sites`.
    pub fn next_of(self, site: SiteId, sites: u8) -> Position {
        Position(next_number(self.0, site, sites))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The order of conflicting batches: by position, then by id. Positions of decided batches are unique, but those that
/// sites hold before the decision are not (the paper orders by position alone, and deadlocks).
pub type Order = (Position, BatchId);

/// A Paxos ballot of one batch. Epoch 0 is that of the batch's site; epoch *e* > 0 belongs to site *e* modulo N.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of the site that broadcast the batch.
    pub const INITIAL: Epoch = Epoch(0);

    /// The least epoch of `site` above this one, in a group of `sites`.
    pub fn next_of(self, site: SiteId, sites: u8) -> Epoch {
        Epoch(next_number(self.0, site, sites))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}", self.0)
    }
}

/// The batches that precede a batch: the paper's *deps*.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Dependencies {
    /// By id: conflicting batches.
    pub ids: BTreeSet<BatchId>,
    /// All of these, whether they conflict or not: what a site had discarded before every site delivered it. Nearly
    /// always empty.
    pub discarded: Prefix,
}

impl Dependencies {
    /// Adds the other's.
    pub fn merge(&mut self, other: &Dependencies) {
        self.ids.extend(&other.ids);
        self.discarded.merge(&other.discarded);
    }
}

/// A position and the dependencies that go with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Slot {
    /// The paper's *pos*.
    pub position: Position,
    /// The paper's *deps*.
    pub dependencies: Dependencies,
}

/// What is decided, or about to be decided, of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Decision {
    /// It is delivered, in this slot.
    Deliver(Slot),
    /// It is never delivered. Its site, if it is up, broadcasts the payloads again in another batch.
    NoOp,
}

impl Decision {
    /// The slot, unless it is a no-op.
    pub fn slot(&self) -> Option<&Slot> {
        match self {
            Decision::Deliver(slot) => Some(slot),
            Decision::NoOp => None,
        }
    }

    /// Whether both have the same effect: two decisions of one batch may differ in dependencies that the removal rule
    /// removes.
    pub fn agrees_with(&self, other: &Decision) -> bool {
        self.slot().map(|slot| slot.position) == other.slot().map(|slot| slot.position)
    }
}

/// A site's answer to a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pending {
    /// What the leader proposed.
    pub proposed: Slot,
    /// What this site answered: the paper's *newPos* and *newDeps*.
    pub answered: Slot,
}

impl Pending {
    /// Whether the site knew nothing that the leader did not.
    pub fn agrees(&self) -> bool {
        self.proposed == self.answered
    }
}

/// The status of a batch at a site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The site has not seen a proposal. It may know the id, as a dependency or by a recovery.
    Unknown,
    /// PENDING: the site has answered the leader's proposal.
    Pending(Pending),
    /// ACCEPTED: the site has accepted a decision in an epoch.
    Accepted {
        /// The site's answer to the proposal, if it has seen that.
        pending: Option<Pending>,
        /// The epoch of the ACCEPT: never the promised one in its place.
        epoch: Epoch,
        /// What was accepted.
        decision: Decision,
    },
    /// STABLE: the decision is final.
    Stable {
        /// The decision.
        decision: Decision,
    },
}

/// A batch at a site.
#[derive(Clone, Debug, Hash)]
pub struct Entry<P> {
    /// The highest epoch in which the site takes part. Kept apart from the accepted epoch.
    pub promised: Epoch,
    /// The highest epoch that another site has refused an earlier one for. Not durable.
    pub refused: Epoch,
    /// The payloads, once the site has them.
    pub batch: Option<Batch<P>>,
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
            promised: Epoch::INITIAL,
            refused: Epoch::INITIAL,
            batch: None,
            status: Status::Unknown,
            touched: now,
            attempts: 0,
        }
    }

    /// The decision, once it is STABLE.
    pub fn stable(&self) -> Option<&Decision> {
        match &self.status {
            Status::Stable { decision } => Some(decision),
            _ => None,
        }
    }

    /// The site's answer to the proposal, until the batch is STABLE.
    pub fn pending(&self) -> Option<&Pending> {
        match &self.status {
            Status::Pending(pending) => Some(pending),
            Status::Accepted { pending, .. } => pending.as_ref(),
            Status::Unknown | Status::Stable { .. } => None,
        }
    }

    /// The least and the highest position at which the batch may be decided, as far as this site knows; `None` if it
    /// has no position here.
    ///
    /// What the site has accepted may not be the decision, but the decision's position is at least the answered one
    /// wherever the answer counts. So the answer stays the lower bound until the batch is STABLE.
    pub fn positions(&self) -> Option<(Position, Position)> {
        let decided = match &self.status {
            Status::Unknown | Status::Pending(_) => None,
            Status::Accepted { decision, .. } | Status::Stable { decision } => {
                decision.slot().map(|slot| slot.position)
            }
        };
        let answered = self.pending().map(|pending| pending.answered.position);
        let least = answered.or(decided)?;
        Some((least, decided.unwrap_or(least).max(least)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_has_the_positions_of_its_residue() {
        for sites in 1..=9 {
            for site in (0..sites).map(SiteId) {
                for from in 0..40 {
                    let next = Position(from).next_of(site, sites).0;
                    let least = (from + 1..).find(|p| p % u64::from(sites) == u64::from(site.0));
                    assert_eq!(Some(next), least, "after {from} of {site} of {sites}");
                }
            }
        }
    }
}
