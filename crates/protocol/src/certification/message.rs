//! Messages of sites: those of the orderer, and those of a state transfer (`docs/protocols/alvin.md`, *State transfer
//! between stores*). The network may lose, duplicate or reorder them.

use anabranch_storage::{CheckpointItem, CommitSequence};
use anabranch_types::TableId;

use crate::order::Delivered;

use super::outcomes::CommittedOutcome;

/// A message. `M` and `T` are the orderer's messages and its state transfers.
#[derive(Clone, Debug)]
pub enum SiteMessage<M, T> {
    /// A message of the orderer.
    Order(M),
    /// Sender to receiver: the next part of a state.
    Part {
        /// The transfer: its number among the sender's.
        transfer: u64,
        /// The part's number in it, from 0.
        number: u64,
        /// The part.
        part: StatePart<T>,
    },
    /// Receiver to sender: it has all earlier parts, durably, and requests this one.
    Request {
        /// The transfer.
        transfer: u64,
        /// The number of the part.
        number: u64,
    },
    /// Receiver to sender: it needs nothing more of this transfer.
    End {
        /// The transfer.
        transfer: u64,
    },
}

/// A part of a state.
#[derive(Clone, Debug)]
pub enum StatePart<T> {
    /// The first part: the moment.
    Begin {
        /// The sender's last commit.
        last: CommitSequence,
        /// What the sender has delivered.
        delivered: Box<Delivered>,
    },
    /// Rows of one table, in order.
    Rows {
        /// The table.
        table: TableId,
        /// The newest versions.
        items: Vec<CheckpointItem>,
    },
    /// The last part: what is beside the rows.
    Rest(Box<StateRest<T>>),
}

/// What a state has beside the rows.
#[derive(Clone, Debug)]
pub struct StateRest<T> {
    /// The orderer's.
    pub orderer: T,
    /// What became of transactions that their sites may still have to answer.
    pub outcomes: Vec<CommittedOutcome>,
}
