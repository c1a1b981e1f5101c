//! The records of a replica's log.

use std::sync::Arc;

use anabranch_protocol::replication::{LogId, LogWrite, ReplicaId, View};
use serde::{Deserialize, Serialize};

use super::Batch;
use crate::log_record::NodeRecord;

/// One record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum ReplicaRecord {
    /// The replica is in this view, with this vote.
    View {
        view: View,
        voted: Option<ReplicaId>,
    },
    /// In a checkpoint: the last entry that its state includes.
    State { base: LogId },
    /// In a checkpoint: a record of the state.
    Node(NodeRecord),
    /// An entry. It replaces entries logged earlier at its index and above.
    Entry {
        id: LogId,
        #[serde(with = "shared")]
        batch: Batch,
    },
}

impl From<LogWrite<Batch>> for ReplicaRecord {
    fn from(write: LogWrite<Batch>) -> ReplicaRecord {
        match write {
            LogWrite::View { view, voted } => ReplicaRecord::View { view, voted },
            LogWrite::Entry(entry) => ReplicaRecord::Entry {
                id: entry.id,
                batch: entry.payload,
            },
        }
    }
}

/// Serialization of a shared batch as a plain list.
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
