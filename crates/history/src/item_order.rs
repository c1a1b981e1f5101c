//! The versions of one item while a history is built.

use rustc_hash::FxHashMap;

use crate::numbers::{ItemNumber, TransactionNumber};
use crate::record::{PartitionSequence, WriteKind};

/// The versions of one item.
#[derive(Debug, Default)]
pub(crate) struct ItemOrder {
    /// All installed versions in order, those of aborted transactions included.
    pub(crate) installed: Vec<(PartitionSequence, NamedWrite)>,
    /// The last write of each committed writer.
    pub(crate) committed: Vec<NamedWrite>,
    /// The version order.
    pub(crate) versions: Vec<NamedWrite>,
    /// The writer of the value that a version shows, if it is not the version's own.
    pub(crate) shows: FxHashMap<TransactionNumber, TransactionNumber>,
}

impl ItemOrder {
    /// The newest writer installed up to this sequence, aborted ones included.
    pub(crate) fn visible(&self, sequence: u64) -> Option<TransactionNumber> {
        let count = self
            .installed
            .partition_point(|(place, _)| place.sequence <= sequence);
        Some(self.installed[count.checked_sub(1)?].1.transaction)
    }

    /// The partition that the item is on, if its versions say so.
    pub(crate) fn partition(&self) -> Option<u16> {
        self.installed.first().map(|(place, _)| place.partition)
    }
}

/// A write before its version has a position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedWrite {
    pub(crate) transaction: TransactionNumber,
    pub(crate) item: ItemNumber,
    pub(crate) kind: WriteKind,
    pub(crate) at: Option<PartitionSequence>,
    /// Its index among all writes, by which `places` name it.
    pub(crate) number: u32,
    /// This write's number among the transaction's writes of the item, from 1.
    pub(crate) ordinal: u32,
}
