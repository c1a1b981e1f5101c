//! What a transaction asks of the data: point and range reads, in batches.

use std::ops::Bound;

use crate::{IndexId, Key, KeyRange, Row, TableId, Timestamp};

/// One read. A statement issues all that it can know at once as one batch, so that each partition
/// is asked once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The row with this primary key.
    Point {
        /// The table.
        table: TableId,
        /// The primary key.
        key: Key,
    },
    /// The rows in a range of the primary key or of a secondary index, in key order.
    Range {
        /// The table.
        table: TableId,
        /// The index whose order is meant; `None` is the primary key.
        index: Option<IndexId>,
        /// The range, in that index's keys.
        range: KeyRange,
        /// From the upper end downwards.
        reverse: bool,
        /// Stop after this many rows; `None` reads all.
        limit: Option<u32>,
    },
}

impl Read {
    /// The table that is read.
    #[inline]
    pub fn table(&self) -> TableId {
        match self {
            Read::Point { table, .. } | Read::Range { table, .. } => *table,
        }
    }
}

/// Why a transaction reads an item: what a protocol may need to know to order it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Access {
    /// The transaction will, or may, write what it reads here (`locking` takes the exclusive lock
    /// at once, so that no lock is upgraded).
    pub for_write: bool,
    /// The item is a guard: the transaction must be ordered against every other that has it. A
    /// protocol that takes no locks validates it at commit.
    pub guard: bool,
}

/// The answer to one [`Read`].
#[derive(Clone, Debug)]
pub enum Fetched {
    /// The row, if there is one.
    Point(Option<Row>),
    /// Primary keys and rows, in the order asked for.
    Range(Vec<(Key, Row)>),
    /// One of the others, and where it comes from: what a store gives while it records. The engine
    /// takes it apart ([`Fetched::into_answer`]) before a statement sees it.
    Recorded(Box<Recorded>),
}

/// An answer with the versions that it was taken from.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The answer.
    pub answer: Fetched,
    /// For each row of the answer the transaction that wrote its version. For a point without a
    /// row, that of the deletion, if it is still kept.
    pub versions: Vec<Timestamp>,
    /// The partition's state that was read.
    pub state: RecordedState,
}

/// A state of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedState {
    /// What had been installed up to this sequence.
    Sequence(u64),
    /// What transactions with timestamps up to this one have installed.
    UpTo(Timestamp),
}

impl RecordedState {
    /// Whether a transaction is part of it that was installed at this sequence.
    pub fn includes(self, sequence: u64, timestamp: Timestamp) -> bool {
        match self {
            RecordedState::Sequence(last) => sequence <= last,
            RecordedState::UpTo(last) => timestamp <= last,
        }
    }

    /// The sequence, of a state that is all that was installed up to one.
    pub fn sequence(self) -> Option<u64> {
        match self {
            RecordedState::Sequence(last) => Some(last),
            RecordedState::UpTo(_) => None,
        }
    }
}

impl Fetched {
    /// The answer itself.
    pub fn answer(&self) -> &Fetched {
        match self {
            Fetched::Recorded(recorded) => recorded.answer.answer(),
            answer => answer,
        }
    }

    /// The answer itself.
    pub fn into_answer(self) -> Fetched {
        match self {
            Fetched::Recorded(recorded) => recorded.answer.into_answer(),
            answer => answer,
        }
    }
}

/// The smallest range that holds every key: a convenience for whole-table scans.
pub fn whole_table(table: TableId) -> Read {
    Read::Range {
        table,
        index: None,
        range: KeyRange {
            prefix: Key::empty(),
            lower: Bound::Unbounded,
            upper: Bound::Unbounded,
        },
        reverse: false,
        limit: None,
    }
}
