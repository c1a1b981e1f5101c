//! Records of installed transactions, for recorded histories.

use anabranch_types::{IndexId, Key, Row, TableId, Ticks, Timestamp};

use crate::version::CommitSequence;

/// A transaction as installed at this store.
#[derive(Clone, Debug)]
pub struct Installed {
    /// Its position in the order of installation.
    pub sequence: CommitSequence,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// When it was installed.
    pub now: Ticks,
    /// Its changes, one an item.
    pub changes: Vec<InstalledChange>,
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
