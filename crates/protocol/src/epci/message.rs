//! Messages of E-PCI. `docs/protocols/baselines.md` has the table of senders, receivers and replies.

use anabranch_types::{Effect, Fetched, Read, Timestamp};

use crate::{AbortReason, TransactionId};

/// A message between two nodes. Between the same two, messages keep their order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Message {
    /// Coordinator to owner: read as of a timestamp.
    Get {
        /// The transaction.
        transaction: TransactionId,
        /// The transaction's read timestamp.
        at: Timestamp,
        /// The reads.
        reads: Vec<Read>,
    },
    /// The answer to a [`Message::Get`].
    Got {
        /// The transaction.
        transaction: TransactionId,
        /// One answer a read, in the order of the request; or why the read failed.
        result: Result<Vec<Fetched>, AbortReason>,
        /// The owner's clock.
        clock: Timestamp,
    },
    /// Coordinator to one of several participants: check these effects, keep them and vote.
    Prepare {
        /// The transaction.
        transaction: TransactionId,
        /// Its effects on this partition.
        effects: Vec<Effect>,
    },
    /// The answer to a [`Message::Prepare`].
    Vote {
        /// The transaction.
        transaction: TransactionId,
        /// Yes, with a timestamp that it has to commit above; or why it cannot commit.
        vote: Result<Timestamp, AbortReason>,
    },
    /// Coordinator to participant: the transaction commits.
    Commit {
        /// The transaction.
        transaction: TransactionId,
        /// Its timestamp.
        timestamp: Timestamp,
    },
    /// Coordinator to participant: the transaction aborts.
    Abort {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Coordinator to the only participant: commit at once if possible.
    CommitAlone {
        /// The transaction.
        transaction: TransactionId,
        /// Its effects.
        effects: Vec<Effect>,
        /// The commit timestamp has to be above this one.
        above: Timestamp,
    },
    /// The answer to a [`Message::CommitAlone`].
    CommittedAlone {
        /// The transaction.
        transaction: TransactionId,
        /// Its timestamp, or why it has not committed.
        result: Result<Timestamp, AbortReason>,
    },
    /// The commit check, participant to coordinator: has this transaction committed at or below a
    /// reader's timestamp?
    Check {
        /// The prepared transaction.
        transaction: TransactionId,
        /// The reader's timestamp.
        at: Timestamp,
    },
    /// The answer to a [`Message::Check`]. A decision made before it was sent before it, on the same link;
    /// otherwise the transaction commits above `at` or not at all.
    Checked {
        /// The prepared transaction.
        transaction: TransactionId,
        /// The reader's timestamp.
        at: Timestamp,
    },
}
