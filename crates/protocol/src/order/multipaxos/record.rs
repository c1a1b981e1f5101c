//! Log records of MultiPaxos. What a message promises is durable before the message leaves.

use serde::{Deserialize, Serialize};

use crate::order::{Ballot, Batch, BatchId, Delivered};

use super::message::Value;

/// A record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum MultiPaxosRecord<P> {
    /// A batch of this site, which it forwards until it is delivered.
    Own {
        /// The batch.
        id: BatchId,
        /// Its payloads.
        batch: Batch<P>,
    },
    /// The site takes part in no earlier ballot.
    Promised(Ballot),
    /// The site has accepted a value, and promised its ballot.
    Accepted {
        /// The slot.
        slot: u64,
        /// The ballot.
        ballot: Ballot,
        /// The value.
        value: Value<P>,
    },
    /// A value is chosen.
    Chosen {
        /// The slot.
        slot: u64,
        /// The value, unless it is the one that was accepted last.
        value: Option<Value<P>>,
    },
    /// In a checkpoint: the state beside the slots.
    Base {
        /// What is delivered.
        delivered: Delivered,
        /// The first slot that is not delivered.
        next: u64,
        /// The first slot that is kept.
        first: u64,
        /// The number of the site's last batch.
        sequence: u64,
    },
}

impl<P> MultiPaxosRecord<P> {
    /// Whether output is held until this record is durable. All are: each states what an answer promises.
    pub fn is_forced(&self) -> bool {
        true
    }
}

/// The state of a site for another one: what it has delivered, and all that it keeps.
#[derive(Clone, Debug)]
pub struct Transfer<P> {
    /// What is delivered.
    pub delivered: Delivered,
    /// The first slot that is not delivered.
    pub next: u64,
    /// Chosen values from there on.
    pub chosen: Vec<(u64, Value<P>)>,
}
