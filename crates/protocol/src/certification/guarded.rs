//! What a certificate has beside its accesses where transactions are ordered over guards alone
//! (`docs/protocols/alvin.md`, *Order over guards*).

use anabranch_types::{Key, Timestamp};
use serde::{Deserialize, Serialize};

use crate::order::{BatchId, Delivered};

use super::access_set::AccessSet;

/// The part of a [`Certificate`](super::Certificate) that is ordered over guards.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuardedCommit {
    /// The transaction's timestamp, by its site's clock.
    pub timestamp: Timestamp,
    /// What its site had applied when it was evaluated.
    pub seen: Seen,
    /// The guard accesses whose versions are compared: all but those of numbers that are drawn.
    pub compared: AccessSet,
    /// The versions of each of these: of the points, then of the spans.
    pub versions: Vec<Vec<GuardVersion>>,
    /// The effects (indexes, ascending) that draw numbers when they are applied.
    pub draws: Vec<u32>,
}

/// The last transaction that has written a guard: its key, or the least key of the span that it has written.
pub type GuardVersion = (Key, Timestamp);

/// What a site has applied: what follows from it at another site has to be applied after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// For each site, how much of its stream.
    pub streams: Vec<u64>,
    /// What its orderer has delivered.
    pub delivered: Delivered,
    /// Batches among these that were not applied yet.
    pub except: Vec<BatchId>,
}

impl Seen {
    /// Whether it includes a batch.
    pub fn has_batch(&self, id: BatchId) -> bool {
        self.delivered.contains(id) && !self.except.contains(&id)
    }
}
