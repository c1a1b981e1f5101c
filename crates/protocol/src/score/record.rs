//! The log records of a SCORe node. `docs/protocols/durability.md` has the table.

use anabranch_storage::LoggedChange;
use anabranch_types::{PartitionId, Timestamp};
use serde::{Deserialize, Serialize};

use super::message::Commitment;
use crate::locks::PreparedRecord;
use crate::{Age, TransactionId};

/// A record of a SCORe node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ScoreRecord {
    /// A transaction of this partition alone has committed.
    Alone {
        /// Its position in the serial order.
        position: Timestamp,
        /// Its after-images.
        changes: Vec<LoggedChange>,
    },
    /// The participant has voted yes on a transaction of another node.
    Voted(Box<VotedRecord>),
    /// The transaction is installed.
    Committed {
        /// The transaction.
        transaction: TransactionId,
        /// How it commits.
        commit: Commitment,
    },
    /// The transaction is forgotten.
    Aborted {
        /// The transaction.
        transaction: TransactionId,
    },
    /// The coordinator has decided to commit, and has installed the effects on its own partition.
    Decided(Box<DecidedRecord>),
    /// Every participant has acknowledged the decision: none will inquire about it again.
    Ended {
        /// The transaction.
        transaction: TransactionId,
    },
}

impl ScoreRecord {
    /// See [`crate::Record::is_forced`].
    pub(crate) fn is_forced(&self) -> bool {
        !matches!(
            self,
            ScoreRecord::Aborted { .. } | ScoreRecord::Ended { .. }
        )
    }
}

/// See [`ScoreRecord::Voted`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VotedRecord {
    /// Its effects and locks here; a participant that was only read has the locks.
    pub prepared: PreparedRecord,
    /// Its age: others wait for it by age after a restart, too.
    pub age: Age,
    /// Its snapshot.
    pub snapshot: Option<Timestamp>,
    /// The lowest timestamp at which it may commit in the present.
    pub timestamp: Timestamp,
    /// Whether, as far as this partition knows, it may commit at its snapshot instead.
    pub may_warp: bool,
}

/// See [`ScoreRecord::Decided`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DecidedRecord {
    /// The transaction.
    pub transaction: TransactionId,
    /// How it commits.
    pub commit: Commitment,
    /// The participants that have not acknowledged it.
    pub others: Vec<PartitionId>,
    /// Its after-images on the own partition. `None` if it has no effects there, or in a checkpoint, whose rows include
    /// them.
    pub changes: Option<Vec<LoggedChange>>,
}
