//! What is locked, and for how long.

use anabranch_types::{Access, TableId};

/// How long read locks are held. Locks of reads for a write, and of guards, are always held to the end
/// of the transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadLocks {
    /// To the end of the transaction (LWLR): serializable.
    #[default]
    Long,
    /// Until the rows have been read (LWSR): read committed; each read returns the newest rows.
    Short,
    /// Not at all (LWNR): read committed.
    None,
}

impl ReadLocks {
    /// Whether the lock of a read with this access is held to the end of the transaction.
    pub(crate) fn keeps(self, access: Access) -> bool {
        self == ReadLocks::Long || access.for_write || access.guard
    }
}

/// Options of locking.
#[derive(Clone, Debug, Default)]
pub struct LockingOptions {
    /// How long read locks are held.
    pub read_locks: ReadLocks,
    /// Tables that no transaction writes, such as replicated ones: they are read without locks.
    pub unlocked_tables: Vec<TableId>,
}

impl LockingOptions {
    pub(crate) fn is_unlocked(&self, table: TableId) -> bool {
        self.unlocked_tables.contains(&table)
    }
}
