//! Log records of a database in memory that has the belt's tables: one for each database transaction.

use std::collections::BTreeSet;

use anabranch_storage::LoggedChange;
use anabranch_types::Timestamp;
use serde::{Deserialize, Serialize};

use super::images::RowImages;
use super::rows::Rows;
use super::token::{Epoch, Hop, Sequence, ServerId, Token};

/// The record of one database transaction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum BeltRecord {
    /// An operation has committed.
    Committed {
        /// Its timestamp here.
        timestamp: Timestamp,
        /// Its changes.
        changes: Vec<LoggedChange>,
        /// Of a global operation: its hold, its number and its update.
        update: Option<(Hop, Sequence, RowImages)>,
    },
    /// A token was received.
    Received {
        /// The token.
        token: Token<RowImages>,
        /// For each update that was new: its timestamp here, that of its origin, and the changes.
        applied: Vec<(Timestamp, Timestamp, Vec<LoggedChange>)>,
    },
    /// A hold was closed.
    Passed {
        /// The hold.
        hold: Hop,
        /// The servers that wait for the token.
        wishes: BTreeSet<ServerId>,
    },
    /// An epoch was promised.
    Promised(Epoch),
    /// The server takes part in an epoch.
    Installed(Epoch, Vec<ServerId>),
    /// In a checkpoint: the belt's tables, and the timestamps at their origins of what was applied here.
    State(Box<Rows<RowImages>>, Vec<(Timestamp, Timestamp)>),
}
