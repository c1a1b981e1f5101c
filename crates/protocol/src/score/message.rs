//! Messages of SCORe. `docs/protocols/score.md` has the table of senders, receivers and replies.

use anabranch_types::{Effect, Fetched, Read, Timestamp};

use crate::contract::{AbortReason, Age, Slots, TransactionId};

/// A message between two nodes. Between the same two, messages keep their order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Message {
    /// Coordinator to participant: read these rows from the transaction's snapshot.
    Read {
        /// The transaction.
        transaction: TransactionId,
        /// Its snapshot. For the first read: a lower bound, above which the participant draws the snapshot.
        snapshot: Timestamp,
        /// Whether it is the transaction's first read, at this participant alone.
        is_first: bool,
        /// The reads.
        reads: Vec<Read>,
    },
    /// The answer to a [`Message::Read`].
    Fetched {
        /// The transaction.
        transaction: TransactionId,
        /// Its snapshot.
        snapshot: Timestamp,
        /// One answer a read, in the order of the request.
        rows: Vec<Fetched>,
    },
    /// A refusal of a [`Message::Read`] or a [`Message::Prepare`]. The participant has forgotten the transaction.
    Refused {
        /// The transaction.
        transaction: TransactionId,
        /// Why the transaction must abort.
        reason: AbortReason,
        /// The participant's clock: another attempt's snapshot is above it.
        clock: Timestamp,
    },
    /// Coordinator to a participant: lock what was read and is written here, validate it, and vote.
    Prepare(Box<Preparation>),
    /// The answer to a [`Message::Prepare`]: a yes vote, binding until the decision.
    Voted {
        /// The transaction.
        transaction: TransactionId,
        /// The vote.
        vote: Vote,
    },
    /// Coordinator to a participant that has voted: the transaction commits.
    Commit {
        /// The transaction.
        transaction: TransactionId,
        /// How it commits.
        commit: Commitment,
    },
    /// The answer of a node with a log to a [`Message::Commit`]: it need not be sent again.
    Acknowledged {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Coordinator to a participant: the transaction has aborted. Release its locks and forget it. Not answered.
    Release {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Participant to coordinator: an older transaction waits for a lock of this one. Abort it, unless it is decided.
    /// Not answered.
    Wound {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Participant that has voted to coordinator, after one of the two has restarted: what is the outcome?
    Inquire {
        /// The transaction.
        transaction: TransactionId,
    },
}

/// What a transaction asks of one participant when it wants to commit.
#[derive(Clone, Debug)]
pub struct Preparation {
    /// The transaction.
    pub transaction: TransactionId,
    /// Its age: who waits for whom is decided by it.
    pub age: Age,
    /// Its snapshot; `None` if it has read nothing anywhere.
    pub snapshot: Option<Timestamp>,
    /// What it has read here.
    pub reads: Vec<Read>,
    /// Its effects here.
    pub effects: Vec<Effect>,
}

/// A participant's yes vote.
#[derive(Clone, Debug, PartialEq)]
pub struct Vote {
    /// The lowest timestamp at which the transaction may commit in the present: above every snapshot and every commit that
    /// this participant has seen.
    pub timestamp: Timestamp,
    /// The values of deferred effects: final, since their rows are locked.
    pub slots: Slots,
    /// Whether something that was read here has changed since the snapshot: then the transaction commits at its snapshot,
    /// or not at all.
    pub is_stale: bool,
    /// Whether the effects here must not be visible at the snapshot: another transaction after it has read what they
    /// overwrite, or they follow from later versions.
    pub is_late: bool,
}

/// How a transaction commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Commitment {
    /// Above every clock that took part in the decision.
    pub timestamp: Timestamp,
    /// Its position in the serial order: the timestamp of its versions.
    pub position: Timestamp,
}
