//! Messages of locking. `docs/protocols/locking.md` has the table of senders, receivers and replies.

use anabranch_types::{Access, Effect, Fetched, Read, SlotId, Timestamp, Value};

use crate::contract::{AbortReason, Age, TransactionId};

/// A message between two nodes. Between the same two, messages keep their order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Message {
    /// Coordinator to participant: acquire these locks, and read the rows that they protect.
    Lock {
        /// The transaction.
        transaction: TransactionId,
        /// The reads, each with whether its rows will be written.
        reads: Vec<(Read, Access)>,
        /// The transaction's age, if it waits by age rather than in the lock order.
        age: Option<Age>,
        /// Whether the request may wait. In the lock order: the transaction holds no lock on a higher partition.
        /// By age: it need not yield. Otherwise a lock that is not free is refused.
        wait: bool,
    },
    /// Participant to coordinator: an older transaction waits for this one, or it has to yield and waits. Abort it,
    /// unless it commits. Not answered.
    Wound {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Participant to coordinator: a transaction that waits in the lock order waits for this one. Abort it if it
    /// waits; from now on it must not wait. Not answered.
    Yield {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Coordinator to owner, for reads that need no lock (all but those for a write under
    /// [`ReadLocks::None`](super::ReadLocks::None), or by their own access): read the newest committed rows.
    Get {
        /// The transaction.
        transaction: TransactionId,
        /// The reads.
        reads: Vec<Read>,
    },
    /// The answer to a [`Message::Get`].
    Got {
        /// The transaction.
        transaction: TransactionId,
        /// One answer a read, in the order of the request.
        rows: Vec<Fetched>,
        /// A timestamp above those of all transactions that these rows may include.
        clock: Timestamp,
    },
    /// The answer to a [`Message::Lock`] when all its locks are held, but for those of reads that are answered by
    /// [`Fetched::Locked`].
    Granted {
        /// The transaction.
        transaction: TransactionId,
        /// One answer a read, in the order of the request.
        rows: Vec<Fetched>,
        /// A timestamp above those of all transactions that these rows may include.
        clock: Timestamp,
        /// Whether the rows may be lost in a crash of the participant: the message has not waited for its log. Then the
        /// coordinator has them confirmed before it decides.
        provisional: bool,
    },
    /// A refusal of any request. The participant has released all locks of the transaction and forgotten
    /// it.
    Refused {
        /// The transaction.
        transaction: TransactionId,
        /// Why the transaction must abort.
        reason: AbortReason,
    },
    /// Coordinator to one of several writers: stage these effects and vote.
    Prepare {
        /// The transaction.
        transaction: TransactionId,
        /// Its effects on this partition.
        effects: Vec<Effect>,
    },
    /// The answer to a [`Message::Prepare`]: a yes vote, binding until the decision.
    Prepared {
        /// The transaction.
        transaction: TransactionId,
        /// The values of its deferred effects: final, since their rows are locked.
        slots: Vec<(SlotId, Value)>,
        /// A timestamp above those of all transactions that have written the same rows.
        clock: Timestamp,
    },
    /// Coordinator to a participant without effects that has sent provisional rows: answer when they are durable.
    Confirm {
        /// The transaction.
        transaction: TransactionId,
    },
    /// The answer to a [`Message::Confirm`]: all rows that the transaction was sent are durable.
    Confirmed {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Coordinator to a prepared writer: the transaction commits.
    Commit {
        /// The transaction.
        transaction: TransactionId,
        /// Its timestamp.
        timestamp: Timestamp,
    },
    /// The answer of a node with a log to a [`Message::Commit`]: it need not be sent again.
    Acknowledged {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Coordinator to the only remote writer, once all else is ready: decide, and commit at once if
    /// possible. (The *last agent* of two-phase commit.)
    Decide {
        /// The transaction.
        transaction: TransactionId,
        /// Its effects on this partition.
        effects: Vec<Effect>,
        /// The commit timestamp has to be above this one.
        above: Timestamp,
    },
    /// The answer to a [`Message::Decide`]: the transaction has committed.
    Committed {
        /// The transaction.
        transaction: TransactionId,
        /// Its timestamp.
        timestamp: Timestamp,
        /// The values of its deferred effects.
        slots: Vec<(SlotId, Value)>,
    },
    /// Coordinator to a participant: release all locks of the transaction and forget it. It also cancels
    /// a queued lock request of the transaction. Not answered.
    Release {
        /// The transaction.
        transaction: TransactionId,
        /// Its timestamp if it has committed without effects on this partition.
        committed: Option<Timestamp>,
    },
    /// Prepared writer to coordinator, after one of the two has restarted: what is the outcome?
    Inquire {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Restarted node to all: it has recovered, and grants no lock before every node has answered.
    Returned {
        /// A timestamp above those of all transactions of its earlier incarnations.
        clock: Timestamp,
    },
    /// The answer to a [`Message::Returned`]: no undecided transaction of the sender relies on a lock of
    /// the earlier incarnations.
    Noticed {
        /// A timestamp above those of all transactions of the sender that did.
        clock: Timestamp,
    },
}
