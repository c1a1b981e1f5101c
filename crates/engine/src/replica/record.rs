//! What a replica's log holds.

use std::sync::Arc;

use anabranch_protocol::replication::{Place, ReplicaId, View, Write};
use serde::{Deserialize, Serialize};

use super::Batch;
use crate::durable::NodeRecord;

/// One record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum ReplicaRecord {
    /// The replica is in this view, and has voted so in it.
    View {
        view: View,
        voted: Option<ReplicaId>,
    },
    /// Of a checkpoint: which entry its state includes last.
    State { base: Place },
    /// Of a checkpoint: a part of the state.
    Node(NodeRecord),
    /// An entry; it stands for those that were logged at its index and above before.
    Entry {
        place: Place,
        #[serde(with = "shared")]
        batch: Batch,
    },
}

impl From<Write<Batch>> for ReplicaRecord {
    fn from(write: Write<Batch>) -> ReplicaRecord {
        match write {
            Write::View { view, voted } => ReplicaRecord::View { view, voted },
            Write::Entry(entry) => ReplicaRecord::Entry {
                place: entry.place,
                batch: entry.payload,
            },
        }
    }
}

/// Batches as plain lists.
mod shared {
    use super::{Arc, Batch, Deserialize, NodeRecord, Serialize};

    pub(super) fn serialize<S: serde::Serializer>(
        batch: &Batch,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        batch.as_slice().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Batch, D::Error> {
        Vec::<NodeRecord>::deserialize(deserializer).map(Arc::new)
    }
}
