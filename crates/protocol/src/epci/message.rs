//! What E-PCI's nodes say to each other. The page `docs/protocols/baselines.md` has the table.

use anabranch_types::{Effect, Fetched, Read, Timestamp};

use crate::{AbortReason, TransactionId};

/// A message between two nodes. Between the same two, messages keep their order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Message {
    /// Coordinator to owner: read this as of a timestamp.
    Get {
        /// For which transaction.
        transaction: TransactionId,
        /// The transaction's read timestamp.
        at: Timestamp,
        /// What to read.
        reads: Vec<Read>,
    },
    /// The answer to a [`Message::Get`].
    Got {
        /// For which transaction.
        transaction: TransactionId,
        /// One answer a read, in the order asked; or why there are none.
        result: Result<Vec<Fetched>, AbortReason>,
        /// The owner's clock.
        clock: Timestamp,
    },
    /// Coordinator to one of several participants: see whether this can be committed, and keep it.
    Prepare {
        /// Which transaction.
        transaction: TransactionId,
        /// What it does on this partition.
        effects: Vec<Effect>,
    },
    /// The answer to a [`Message::Prepare`].
    Vote {
        /// Which transaction.
        transaction: TransactionId,
        /// A timestamp that it has to commit above; or why it cannot.
        vote: Result<Timestamp, AbortReason>,
    },
    /// Coordinator to participant: all have voted for it.
    Commit {
        /// Which transaction.
        transaction: TransactionId,
        /// Its timestamp.
        timestamp: Timestamp,
    },
    /// Coordinator to participant: forget it.
    Abort {
        /// Which transaction.
        transaction: TransactionId,
    },
    /// Coordinator to the only participant: commit this if you can.
    CommitAlone {
        /// Which transaction.
        transaction: TransactionId,
        /// What it does.
        effects: Vec<Effect>,
        /// It has to commit above.
        above: Timestamp,
    },
    /// The answer to a [`Message::CommitAlone`].
    CommittedAlone {
        /// Which transaction.
        transaction: TransactionId,
        /// Its timestamp; or why it has not committed.
        result: Result<Timestamp, AbortReason>,
    },
    /// Participant to coordinator, the commit check: somebody reads what this transaction has
    /// prepared here, as of this timestamp. Has it committed at or below it?
    Check {
        /// The transaction that is prepared.
        transaction: TransactionId,
        /// The reader's timestamp.
        at: Timestamp,
    },
    /// The answer to a [`Message::Check`]: what has been decided has been said before this, on the
    /// same link. If nothing has, the transaction will commit above `at` or not at all.
    Checked {
        /// The transaction that is prepared.
        transaction: TransactionId,
        /// The reader's timestamp.
        at: Timestamp,
    },
}
