//! What a certificate has beside its accesses where transactions are ordered over guards alone
//! (`docs/protocols/alvin.md`, *Order over guards*).

use std::sync::Arc;

use anabranch_types::{Key, Timestamp};
use serde::{Deserialize, Serialize};

use crate::contract::TransactionId;
use crate::guards::StreamCommit;
use crate::order::{BatchId, Delivered, SiteId};

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
    /// What is seen in it and is not known to be at a majority of the sites, by stream, in order: a site that delivers
    /// the transaction can apply it even if all sites that had these commits are lost.
    pub carried: Vec<(SiteId, Arc<StreamCommit>)>,
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
    /// Committed transactions of these batches that were not applied yet.
    pub except: Vec<TransactionId>,
}

impl Seen {
    /// Whether it includes a committed transaction of a batch.
    pub fn has_ordered(&self, batch: BatchId, transaction: TransactionId) -> bool {
        self.delivered.contains(batch) && !self.except.contains(&transaction)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_types::NodeId;

    use super::*;

    /// One transaction of a batch is applied, and another one waits: only the other one is not seen.
    #[test]
    fn a_batch_may_be_seen_in_part() {
        let batch = BatchId {
            site: SiteId(0),
            sequence: 1,
        };
        let [applied, waiting] = [1, 2].map(|sequence| TransactionId {
            node: NodeId(0),
            sequence,
        });
        let mut delivered = Delivered::none(3);
        let of = |delivered: &Delivered| Seen {
            streams: vec![0; 3],
            delivered: delivered.clone(),
            except: vec![waiting],
        };
        assert!(!of(&delivered).has_ordered(batch, applied));
        delivered.insert(batch);
        assert!(of(&delivered).has_ordered(batch, applied));
        assert!(!of(&delivered).has_ordered(batch, waiting));
    }
}
