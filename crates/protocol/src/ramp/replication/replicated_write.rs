//! A transaction that is prepared in every cluster before it is installed in any (Prepare-F, quorums).

use std::sync::Arc;

use anabranch_types::{Effect, NodeId, PartitionId, Timestamp};
use smallvec::SmallVec;

use crate::TransactionId;
use crate::ramp::core::message::Decision;
use crate::ramp::core::metadata::Siblings;
use crate::ramp::recovery::record::ReplicatedWriteRecord;

/// A transaction that is being prepared in every cluster. It is installed nowhere, and will be installed everywhere,
/// unless it is refused before its client has been answered.
#[derive(Clone, Debug)]
pub(crate) struct ReplicatedWrite {
    /// Its only timestamp: it is prepared under it, and registers take it.
    pub(crate) name: Timestamp,
    /// What is to be done on each partition, in every cluster; sorted.
    pub(crate) works: Vec<(PartitionId, Vec<Effect>)>,
    /// What it writes where, if that is on several partitions.
    pub(crate) siblings: Option<Arc<Siblings>>,
    /// The nodes that have prepared it durably.
    pub(crate) prepared: SmallVec<[NodeId; 8]>,
    /// The nodes that have refused it since they were asked last.
    pub(crate) refused: SmallVec<[NodeId; 2]>,
    /// The client has been answered, or there is none any more.
    pub(crate) is_acknowledged: bool,
    /// Quorum operation: a majority of the replicas of each partition has prepared it. It will be installed.
    pub(crate) is_decided: bool,
    /// Quorum operation: the replicas that have installed it durably.
    pub(crate) installed: SmallVec<[NodeId; 8]>,
}

impl ReplicatedWrite {
    pub(crate) fn decided(&self) -> Decision {
        Decision {
            prepared: self.name,
            commit: self.name,
        }
    }

    pub(crate) fn record(&self, transaction: TransactionId) -> ReplicatedWriteRecord {
        ReplicatedWriteRecord {
            transaction,
            name: self.name,
            works: self.works.clone(),
            siblings: self.siblings.clone(),
        }
    }
}
