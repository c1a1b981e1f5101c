//! A history in the form that the checkers need: names interned, versions ordered, reads resolved.
//!
//! Transactions, items and spaces are numbers. The versions of an item are numbered: 0 is the initial one, *p* is the
//! one that the *p*-th writer installed. [`crate::builder`] refuses contradictory input.

use rustc_hash::FxHashMap;

use crate::forest::Forest;
use crate::graph::Dependency;
use crate::numbers::{ItemNumber, Position, TransactionNumber};
use crate::record::{Header, PartitionSequence, WriteKind};

/// A recorded history, consistent in itself, ready to be checked.
#[derive(Debug)]
pub struct History {
    pub(crate) header: Header,
    pub(crate) transactions: Vec<TransactionFacts>,
    pub(crate) items: Names,
    pub(crate) sessions: Names,
    /// Every read of a committed transaction, grouped by transaction, in order of execution.
    pub(crate) reads: Vec<ReadFact>,
    /// Every write of a committed transaction that is in its item's version order, grouped by
    /// transaction, sorted by item.
    pub(crate) writes: Vec<WriteFact>,
    /// Each item's versions, grouped by item, the first one first.
    pub(crate) versions: Vec<VersionFact>,
    /// Where an item's versions begin in `versions`; one more entry than there are items.
    pub(crate) version_starts: Vec<u32>,
    pub(crate) scans: Vec<ScanFact>,
    /// Positions of versions in spaces other than the item's own: (item, position, space).
    pub(crate) placed: FxHashMap<(ItemNumber, Position, u32), Box<str>>,
    pub(crate) spaces: Names,
    /// Phenomena found while resolving reads.
    pub(crate) direct: Vec<DirectAnomaly>,
    /// Dependencies inferred from values, beyond those of the version order.
    pub(crate) inferred: Vec<(TransactionNumber, TransactionNumber, Dependency, ItemNumber)>,
    /// The partial order of versions, if the history does not determine a total one.
    pub(crate) forest: Option<Forest>,
    /// The number of items that a scan missed and that may have been read in one of several versions.
    pub(crate) unjudged: u64,
}

/// The facts about one transaction.
#[derive(Clone, Debug)]
pub(crate) struct TransactionFacts {
    pub(crate) name: Box<str>,
    /// The procedure and its arguments, for the reader of an explanation.
    pub(crate) call: Option<Box<str>>,
    pub(crate) session: Option<u32>,
    pub(crate) invoked: Option<u64>,
    pub(crate) completed: Option<u64>,
    pub(crate) committed: bool,
    pub(crate) stamp: Option<u64>,
    pub(crate) line: u64,
    pub(crate) reads: (u32, u32),
    pub(crate) writes: (u32, u32),
    /// The operations by item as the source format writes them; empty for this program's own format.
    pub(crate) source_operations: Vec<(ItemNumber, Box<str>)>,
}

/// One read of one item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadFact {
    pub(crate) item: ItemNumber,
    /// The version that was read.
    pub(crate) position: Position,
    /// The first later version that changes the result, if any.
    pub(crate) next: Option<Position>,
    /// The version that the result shows: the one read or, for an item that a scan missed, the one that removed it
    /// from the range; 0 if none did.
    pub(crate) shown: Position,
    /// Which operation of the transaction it belongs to.
    pub(crate) step: u32,
    /// The scan that found or missed it.
    pub(crate) scan: Option<u32>,
    /// Whether a scan missed it.
    pub(crate) absent: bool,
}

/// One write that is in its item's version order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteFact {
    pub(crate) item: ItemNumber,
    pub(crate) position: Position,
}

/// One version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VersionFact {
    pub(crate) writer: TransactionNumber,
    pub(crate) kind: WriteKind,
}

/// The range of a scan.
#[derive(Clone, Debug)]
pub(crate) struct ScanFact {
    pub(crate) space: u32,
    pub(crate) lower: Option<Box<str>>,
    pub(crate) upper: Option<Box<str>>,
    pub(crate) at: Option<PartitionSequence>,
}

impl ScanFact {
    pub(crate) fn contains(&self, position: &str) -> bool {
        self.lower.as_deref().is_none_or(|lower| lower <= position)
            && self.upper.as_deref().is_none_or(|upper| position < upper)
    }
}

/// A phenomenon of a single read or write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectAnomaly {
    pub(crate) what: DirectAnomalyKind,
    pub(crate) transaction: TransactionNumber,
    pub(crate) item: ItemNumber,
    /// The other transaction, if any.
    pub(crate) other: Option<TransactionNumber>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectAnomalyKind {
    /// A read of a write by an aborted transaction (`other`).
    AbortedRead,
    /// A read of a version that its own writer (`other`) replaced.
    IntermediateRead,
    /// A committed write that was never installed.
    LostWrite,
    /// A read that no order of versions explains together with `other`'s read.
    IncompatibleOrder,
    /// A read that contains an element twice.
    DuplicateElement,
    /// A read that contradicts the transaction's own operations.
    Internal,
    /// A read that differs from the version installed at its sequence (`other`'s version).
    WrongVersion,
}

impl History {
    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The number of transactions, aborted ones included.
    pub fn transactions(&self) -> usize {
        self.transactions.len()
    }

    /// The number of committed transactions.
    pub fn committed(&self) -> usize {
        self.transactions.iter().filter(|t| t.committed).count()
    }

    pub(crate) fn facts(&self, transaction: TransactionNumber) -> &TransactionFacts {
        &self.transactions[transaction as usize]
    }

    pub(crate) fn reads_of(&self, transaction: TransactionNumber) -> &[ReadFact] {
        let (start, end) = self.facts(transaction).reads;
        &self.reads[start as usize..end as usize]
    }

    pub(crate) fn writes_of(&self, transaction: TransactionNumber) -> &[WriteFact] {
        let (start, end) = self.facts(transaction).writes;
        &self.writes[start as usize..end as usize]
    }

    /// The position of this transaction's version of the item, if it wrote the item.
    pub(crate) fn position(
        &self,
        transaction: TransactionNumber,
        item: ItemNumber,
    ) -> Option<Position> {
        let writes = self.writes_of(transaction);
        let at = writes
            .binary_search_by_key(&item, |write| write.item)
            .ok()?;
        Some(writes[at].position)
    }

    /// The item's versions; the first one has position 1.
    pub(crate) fn versions_of(&self, item: ItemNumber) -> &[VersionFact] {
        let item = item as usize;
        let (start, end) = (self.version_starts[item], self.version_starts[item + 1]);
        &self.versions[start as usize..end as usize]
    }

    /// The writer of a version; `None` for the initial one.
    pub(crate) fn writer(&self, item: ItemNumber, position: Position) -> Option<TransactionNumber> {
        let before = position.checked_sub(1)?;
        self.versions_of(item)
            .get(before as usize)
            .map(|version| version.writer)
    }

    /// The item's name.
    pub(crate) fn item(&self, item: ItemNumber) -> &str {
        self.items.name(item)
    }

    /// Whether this version of the item lies in the scan's range.
    pub(crate) fn matches(&self, scan: u32, item: ItemNumber, position: Position) -> bool {
        let scan = &self.scans[scan as usize];
        if position == 0 {
            return false;
        }
        let version = self.versions_of(item)[position as usize - 1];
        if version.kind == WriteKind::Delete {
            return false;
        }
        let (own, place) = crate::record::split_item(self.item(item));
        if own == self.spaces.name(scan.space) {
            return scan.contains(place);
        }
        self.placed
            .get(&(item, position, scan.space))
            .is_some_and(|place| scan.contains(place))
    }

    /// How many times a scan missed an item in one of several absent versions (before its insertion, or after its
    /// deletion) and the history does not say which. The checkers conclude nothing from these, and may miss an
    /// anomaly. A history with `at` in its reads and writes has none.
    pub fn unjudged_absences(&self) -> u64 {
        self.unjudged
    }

    /// Committed transactions.
    pub(crate) fn committed_numbers(&self) -> impl Iterator<Item = TransactionNumber> + '_ {
        (0..self.transactions.len() as u32).filter(|number| self.facts(*number).committed)
    }
}

/// Names and their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    numbers: FxHashMap<Box<str>, u32>,
    names: Vec<Box<str>>,
}

impl Names {
    /// The number of a name; a new name gets the next one.
    pub(crate) fn intern(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.numbers.insert(name.into(), number);
        self.names.push(name.into());
        number
    }

    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    pub(crate) fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}
