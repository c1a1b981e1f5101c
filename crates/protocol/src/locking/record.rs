//! The log records of a locking node. `docs/protocols/durability.md` has the table.

use anabranch_storage::LoggedChange;
use anabranch_types::{PartitionId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::TransactionId;
use crate::locks::PreparedRecord;

/// A record of a locking node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum LockingRecord {
    /// A transaction with effects on this partition only has committed.
    Alone {
        /// Its timestamp.
        timestamp: Timestamp,
        /// Its after-images.
        changes: Vec<LoggedChange>,
    },
    /// The participant has voted yes.
    Prepared(Box<PreparedRecord>),
    /// The prepared transaction is installed, at this timestamp.
    Committed {
        /// The transaction.
        transaction: TransactionId,
        /// Its timestamp.
        timestamp: Timestamp,
    },
    /// The prepared transaction is forgotten.
    Aborted {
        /// The transaction.
        transaction: TransactionId,
    },
    /// The coordinator has decided to commit and installed the effects on its own partition.
    Decided(Box<DecidedRecord>),
    /// Every participant has acknowledged the decision: none will inquire about it again.
    Ended {
        /// The transaction.
        transaction: TransactionId,
    },
}

impl LockingRecord {
    /// See [`crate::Record::is_forced`].
    pub(crate) fn is_forced(&self) -> bool {
        !matches!(
            self,
            LockingRecord::Aborted { .. } | LockingRecord::Ended { .. }
        )
    }
}

/// See [`LockingRecord::Decided`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DecidedRecord {
    /// The transaction.
    pub transaction: TransactionId,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// The writers that have not acknowledged it.
    pub others: Vec<PartitionId>,
    /// Its after-images on the own partition. `None` if it has no effects there, or in a checkpoint,
    /// whose rows include them.
    pub changes: Option<Vec<LoggedChange>>,
}
