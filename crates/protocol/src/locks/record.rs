//! What is kept in the log of a transaction that is prepared under locks.

use anabranch_storage::LoggedChange;
use anabranch_types::Key;
use serde::{Deserialize, Serialize};

use crate::TransactionId;

/// A transaction that has this partition's vote.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PreparedRecord {
    /// The transaction.
    pub transaction: TransactionId,
    /// Its after-images on this partition: final, since its rows are locked.
    pub changes: Vec<LoggedChange>,
    /// All locks that it holds here.
    pub locks: Vec<LockRecord>,
}

/// A lock that is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockRecord {
    /// The number of the index's space in the lock table.
    pub space: u32,
    /// Whether the lock is exclusive.
    pub exclusive: bool,
    /// The keys that it covers.
    pub range: LockRange,
}

/// The keys that a lock covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockRange {
    /// One key.
    Key(Key),
    /// The keys from the first up to the second, exclusive (`None`: no end).
    Span(Key, Option<Key>),
}
