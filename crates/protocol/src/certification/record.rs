//! Log records of certification beside those of its orderer.

use anabranch_storage::{CheckpointItem, StateOrigin};
use anabranch_types::TableId;
use serde::{Deserialize, Serialize};

use crate::record::Record;

use super::outcomes::CommittedOutcome;

/// A record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum CertificationRecord {
    /// In a checkpoint: what became of transactions that their sites may still have to answer.
    Outcomes(Vec<CommittedOutcome>),
    /// The site begins to collect a state. What it had collected of another one is dropped.
    Begin,
    /// Rows of the state that it collects.
    Rows {
        /// Their table.
        table: TableId,
        /// The newest versions.
        items: Vec<CheckpointItem>,
    },
    /// What is collected is complete, and replaces the site's state. The orderer's records are a part of this one, so
    /// that a crash leaves all of the old state or all of the new one.
    Take {
        /// The state.
        origin: StateOrigin,
        /// The outcomes that came with it.
        outcomes: Vec<CommittedOutcome>,
        /// The orderer's records of the same step.
        orderer: Vec<Record>,
    },
}
