//! Records of installed transactions, for recorded histories.

use anabranch_types::{IndexId, Key, NodeId, Row, TableId, Ticks, Timestamp};
use serde::{Deserialize, Serialize};

use crate::version::CommitSequence;

/// A transaction as installed at this store; or the rows that have [replaced](crate::Store::replace) all others.
#[derive(Clone, Debug)]
pub struct Installed {
    /// Its position in the order of installation.
    pub sequence: CommitSequence,
    /// Its timestamp; zero of a replacement.
    pub timestamp: Timestamp,
    /// Of a replacement: the state that the rows are of.
    pub origin: Option<StateOrigin>,
    /// When it was installed.
    pub now: Ticks,
    /// Its changes, one an item.
    pub changes: Vec<InstalledChange>,
}

/// A state of another node's store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateOrigin {
    /// The node.
    pub node: NodeId,
    /// Its last commit in that state.
    pub sequence: CommitSequence,
}

/// One item of an installed transaction.
#[derive(Clone, Debug)]
pub struct InstalledChange {
    /// The item's table.
    pub table: TableId,
    /// The item's primary key.
    pub key: Key,
    /// The kind of change.
    pub kind: InstalledKind,
    /// The new row; `None` if it is deleted.
    pub row: Option<Row>,
    /// The row's entry in each secondary index of the table.
    pub entries: Vec<(IndexId, Key)>,
}

/// The kind of a change of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstalledKind {
    /// A new row.
    Insert,
    /// A changed row.
    Update,
    /// A changed row of which all columns but the key were assigned: it does not depend on the row
    /// before.
    Assign,
    /// A deleted row.
    Delete,
}
