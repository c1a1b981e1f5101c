//! The read-subset-items-written property (ramp.txt, §3.4 and Appendix A): every reader of a transaction reads only
//! items that the transaction wrote, and transactions either read or write. Then read atomic isolation *is* one-copy
//! serializability (Theorem 3.29).
//!
//! The property is one of the transactions, not of their isolation: a history may have it and still be fractured.

use rustc_hash::FxHashSet;

use crate::history::History;
use crate::numbers::TransactionNumber;
use crate::record::WriteKind;

/// Counts the committed transactions of a history by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rsiw {
    /// Write-only: they read nothing, and each write replaces the whole item.
    pub write_only: usize,
    /// Read-write: they read and write, or write values that depend on the previous ones.
    pub read_write: usize,
    /// Read-only.
    pub read_only: usize,
    /// The read-only transactions with the property (Definition 3.28): whenever one reads a version of a write-only
    /// transaction, that transaction wrote all items read. A transaction that read a range is not counted: its reads
    /// are not a set of items.
    pub subset: usize,
}

impl Rsiw {
    /// Counts the transactions of a history.
    pub fn of(history: &History) -> Rsiw {
        let mut found = Rsiw::default();
        for number in history.committed_numbers() {
            let (reads, writes) = (history.reads_of(number), history.writes_of(number));
            if writes.is_empty() {
                found.read_only += 1;
                found.subset += usize::from(reads_a_subset(history, number));
            } else if reads.is_empty() && replaces(history, number) {
                found.write_only += 1;
            } else {
                found.read_write += 1;
            }
        }
        found
    }

    /// Whether the whole history has the property, and so is serializable if it is read atomic.
    pub fn holds(&self) -> bool {
        self.read_write == 0 && self.subset == self.read_only
    }
}

/// Whether each write replaces the whole item.
fn replaces(history: &History, number: TransactionNumber) -> bool {
    history.writes_of(number).iter().all(|write| {
        let version = history.versions_of(write.item)[write.position as usize - 1];
        !matches!(
            version.kind,
            WriteKind::Apply | WriteKind::Increment | WriteKind::Append
        )
    })
}

fn reads_a_subset(history: &History, reader: TransactionNumber) -> bool {
    let reads = history.reads_of(reader);
    if reads.iter().any(|read| read.scan.is_some()) {
        return false;
    }
    let versions = reads.iter().filter(|read| read.position > 0);
    let writers: FxHashSet<TransactionNumber> = versions
        .map(|read| history.versions_of(read.item)[read.position as usize - 1].writer)
        .collect();
    // tidy: order-free because all writers are tested alike
    writers.iter().all(|writer| {
        let written = history.writes_of(*writer);
        let has = |item| {
            written
                .binary_search_by_key(&item, |write| write.item)
                .is_ok()
        };
        reads.iter().all(|read| has(read.item))
    })
}
