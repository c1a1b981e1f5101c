//! Messages of MultiPaxos. The network may lose, duplicate or reorder them.

use crate::order::{Ballot, Batch, BatchId, Prefix};

use serde::{Deserialize, Serialize};

/// The value of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Value<P> {
    /// A batch.
    Batch {
        /// Its id.
        id: BatchId,
        /// Its payloads.
        batch: Batch<P>,
    },
    /// Nothing: a gap that a new leader has filled.
    NoOp,
}

/// A slot as a site tells it to a new leader.
#[derive(Clone, Debug)]
pub struct AcceptedSlot<P> {
    /// The slot.
    pub slot: u64,
    /// The ballot in which the value was accepted.
    pub ballot: Ballot,
    /// The value.
    pub value: Value<P>,
    /// Whether it is chosen.
    pub is_chosen: bool,
}

/// A message.
#[derive(Clone, Debug)]
pub enum Message<P> {
    /// To the leader, until it is delivered: a batch of the sender.
    Forward {
        /// The batch.
        id: BatchId,
        /// Its payloads.
        batch: Batch<P>,
    },
    /// Leader to all: a value to accept.
    Accept {
        /// The leader's ballot.
        ballot: Ballot,
        /// The slot.
        slot: u64,
        /// The value.
        value: Value<P>,
    },
    /// The answer: accepted, durably.
    Accepted {
        /// The ballot.
        ballot: Ballot,
        /// The slot.
        slot: u64,
    },
    /// Leader to all: what was accepted in this slot and ballot is chosen.
    Chosen {
        /// The ballot.
        ballot: Ballot,
        /// The slot.
        slot: u64,
    },
    /// A site that wants to lead to all: a request to take part in no earlier ballot.
    Prepare {
        /// The sender's ballot.
        ballot: Ballot,
        /// The first slot that the sender has not delivered.
        from: u64,
    },
    /// The answer, durable at the sender.
    Promise {
        /// The ballot.
        ballot: Ballot,
        /// What the sender has accepted from that slot on.
        accepted: Vec<AcceptedSlot<P>>,
    },
    /// The answer to a message of an earlier ballot than the sender has promised, and to a batch that was forwarded to a
    /// site that does not lead.
    Refuse {
        /// The promised ballot.
        promised: Ballot,
    },
    /// To each site, from time to time while they differ.
    Report {
        /// What the sender has delivered.
        delivered: Prefix,
        /// The first slot that the sender has not delivered.
        next: u64,
        /// The first slot that the receiver had not delivered, as far as the sender knows.
        received: u64,
        /// Whether the sender does not know that the receiver knows `next`.
        needs_answer: bool,
    },
    /// To a site that has delivered more: a request for chosen values from this slot on.
    Fetch {
        /// The slot.
        from: u64,
    },
    /// The answer: chosen values.
    Learn {
        /// Slots and their values.
        values: Vec<(u64, Value<P>)>,
    },
}
