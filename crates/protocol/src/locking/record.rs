//! What a locking node makes durable. The page `docs/protocols/durability.md` has the table.

use anabranch_storage::LoggedChange;
use anabranch_types::{Key, PartitionId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::TransactionId;

/// A record of a locking node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum LockingRecord {
    /// A transaction that writes on no other partition has committed here.
    Alone {
        /// Its timestamp.
        timestamp: Timestamp,
        /// What it came to.
        changes: Vec<LoggedChange>,
    },
    /// A participant has voted yes.
    Prepared(Box<PreparedRecord>),
    /// What was prepared is installed, at this timestamp.
    Committed {
        /// The transaction.
        transaction: TransactionId,
        /// Its timestamp.
        timestamp: Timestamp,
    },
    /// What was prepared is forgotten.
    Aborted {
        /// The transaction.
        transaction: TransactionId,
    },
    /// A coordinator has decided to commit, and its own partition shows the transaction.
    Decided(Box<DecidedRecord>),
    /// Every participant has acknowledged the decision: nobody will ask for it again.
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

/// See [`LockingRecord::Prepared`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PreparedRecord {
    /// Whose.
    pub transaction: TransactionId,
    /// What it will have come to here: final, since its rows are locked.
    pub changes: Vec<LoggedChange>,
    /// All that it holds here.
    pub locks: Vec<LockRecord>,
}

/// A lock that is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockRecord {
    /// The number of the index's space in the lock table.
    pub space: u32,
    /// Whether it keeps readers out.
    pub exclusive: bool,
    /// What it covers.
    pub extent: Extent,
}

/// What a lock covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Extent {
    /// One key.
    Key(Key),
    /// The keys from the first up to but without the second (`None`: no end).
    Span(Key, Option<Key>),
}

/// See [`LockingRecord::Decided`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DecidedRecord {
    /// Whose.
    pub transaction: TransactionId,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// The writers that have not acknowledged it.
    pub others: Vec<PartitionId>,
    /// What it came to on the own partition; none if it did nothing there (or, in a checkpoint, if
    /// the rows show it already).
    pub changes: Option<Vec<LoggedChange>>,
}
