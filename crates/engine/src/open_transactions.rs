//! What a node knows of transactions that have not ended, for people: it decides nothing.

use anabranch_protocol::TransactionId;

use crate::call::CallId;
use crate::step::BlockId;

/// The transactions that have not ended at a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeTransactions {
    /// Those that run at the node.
    pub own: Vec<OpenTransaction>,
    /// Those of any node that wait for a lock at the node's partition.
    pub waits: Vec<NodeWait>,
    /// Those of any node that are prepared there.
    pub prepared: Vec<TransactionId>,
}

/// For whom a transaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionClient {
    /// A block.
    Block(BlockId),
    /// A call by itself.
    Call(CallId),
}

/// A transaction that runs at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// For whom.
    pub client: TransactionClient,
    /// Its attempt, if one is under way.
    pub transaction: Option<TransactionId>,
    /// Whether it has asked to commit and has no answer yet.
    pub is_committing: bool,
    /// The attempts so far.
    pub attempts: u32,
}

/// A wait for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeWait {
    /// What waits.
    pub transaction: TransactionId,
    /// For what: `items (id = 5)`.
    pub what: String,
    /// For whom, each once.
    pub blockers: Vec<TransactionId>,
}
