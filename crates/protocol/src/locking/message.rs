//! What locking's nodes say to each other. The page has the table of who sends what when.

use anabranch_types::{Access, Effect, Fetched, Read, SlotId, Timestamp, Value};

use crate::contract::{AbortReason, TransactionId};

/// A message between two nodes. Between the same two, messages keep their order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Message {
    /// Coordinator to participant: take these locks, and read what they protect.
    Lock {
        /// For which transaction.
        transaction: TransactionId,
        /// What to read, and whether it will be written.
        reads: Vec<(Read, Access)>,
        /// Whether a lock may be waited for: the transaction holds nothing on any higher
        /// partition. Otherwise what cannot be had at once is refused.
        wait: bool,
    },
    /// Coordinator to owner, under [`ReadLocks::None`](super::ReadLocks::None): read the newest
    /// committed rows.
    Get {
        /// For which transaction.
        transaction: TransactionId,
        /// What to read.
        reads: Vec<Read>,
    },
    /// The answer to a [`Message::Get`].
    Got {
        /// For which transaction.
        transaction: TransactionId,
        /// One answer a read, in the order asked.
        rows: Vec<Fetched>,
        /// Above every transaction that these rows can show.
        clock: Timestamp,
    },
    /// The answer when all of a [`Message::Lock`] is held.
    Granted {
        /// For which transaction.
        transaction: TransactionId,
        /// One answer a read, in the order asked.
        rows: Vec<Fetched>,
        /// Above every transaction that these rows can show.
        clock: Timestamp,
    },
    /// The answer when it is not to be, to any request. The participant has released everything of
    /// the transaction and forgotten it.
    Refused {
        /// Which transaction.
        transaction: TransactionId,
        /// Why it must abort.
        reason: AbortReason,
    },
    /// Coordinator to one of several writers: make sure that this can be committed.
    Prepare {
        /// For which transaction.
        transaction: TransactionId,
        /// What it does on this partition.
        effects: Vec<Effect>,
    },
    /// The answer to a [`Message::Prepare`]: a vote for it, which holds until the decision.
    Prepared {
        /// For which transaction.
        transaction: TransactionId,
        /// The values of its deferred effects: final, since their rows are locked.
        slots: Vec<(SlotId, Value)>,
        /// Above every transaction that has written what it will write.
        clock: Timestamp,
    },
    /// Coordinator to a writer that has prepared: it is decided.
    Commit {
        /// Which transaction.
        transaction: TransactionId,
        /// Its timestamp.
        timestamp: Timestamp,
    },
    /// The answer of a node that keeps records to a [`Message::Commit`]: it need not be said again.
    Acknowledged {
        /// Which transaction.
        transaction: TransactionId,
    },
    /// Coordinator to the only remote writer, once all else is ready: decide, and commit at once
    /// if you can. (The *last agent* of two-phase commit.)
    Decide {
        /// Which transaction.
        transaction: TransactionId,
        /// What it does on this partition.
        effects: Vec<Effect>,
        /// Below the timestamp that it is to have.
        above: Timestamp,
    },
    /// The answer to a [`Message::Decide`]: it has committed.
    Committed {
        /// Which transaction.
        transaction: TransactionId,
        /// Its timestamp.
        timestamp: Timestamp,
        /// The values of its deferred effects.
        slots: Vec<(SlotId, Value)>,
    },
    /// Coordinator to a participant whose part is over: release everything and forget it. Also
    /// overtakes the transaction's own queued lock request. Not answered.
    Release {
        /// Which transaction.
        transaction: TransactionId,
        /// Its timestamp if it has committed, with nothing written on this partition.
        committed: Option<Timestamp>,
    },
    /// A writer that has prepared to its coordinator, after one of them has come back: what has
    /// become of it?
    Inquire {
        /// Which transaction.
        transaction: TransactionId,
    },
    /// A node has come back. It grants nothing before everybody has noticed.
    Returned {
        /// Above every transaction of its lost lives.
        clock: Timestamp,
    },
    /// The answer to a [`Message::Returned`]: nothing of the sender's that is undecided relies on a
    /// lock of the lost lives.
    Noticed {
        /// Above every transaction of the sender's that did.
        clock: Timestamp,
    },
}
