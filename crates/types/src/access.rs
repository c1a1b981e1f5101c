//! The reads of a transaction: points and ranges, in batches.

use std::ops::Bound;

use serde::{Deserialize, Serialize};

use crate::{IndexId, Key, KeyRange, Row, TableId, Timestamp};

/// One read. A statement issues as many reads as it can in one batch, so that each partition is contacted once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
        /// The index that orders the range; `None` is the primary key.
        index: Option<IndexId>,
        /// The range, in that index's keys.
        range: KeyRange,
        /// Whether to read from the upper end downwards.
        reverse: bool,
        /// Stop after this many rows; `None` reads all.
        limit: Option<u32>,
    },
}

impl Read {
    /// The table read.
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
    /// Whether the transaction may write the item. `locking` then takes the exclusive lock at once, so that no lock
    /// is upgraded.
    pub for_write: bool,
    /// Whether the item is a guard: the transaction must be ordered against every other one that has it. A protocol
    /// without locks validates it at commit.
    pub guard: bool,
    /// What becomes of the read if its lock is not free.
    pub lock: LockPolicy,
}

/// What a protocol that locks does about the lock of a read. Protocols without locks treat all reads alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LockPolicy {
    /// The lock is taken, if need be after a wait.
    #[default]
    Wait,
    /// The lock is taken if it is free. Otherwise the answer is [`Fetched::Locked`] at once: there is no wait, and the
    /// transactions that hold the lock are not disturbed.
    IfFree,
    /// No lock is taken: the answer has the newest committed rows, which may change at any time.
    Unlocked,
}

/// The result of one [`Read`].
#[derive(Clone, Debug)]
pub enum Fetched {
    /// The row, if it exists.
    Point(Option<Row>),
    /// Primary keys and rows, in the requested order.
    Range(Vec<(Key, Row)>),
    /// Nothing: a lock that the read needs under [`LockPolicy::IfFree`] is not free.
    Locked,
    /// One of the other results with its versions, from a store that records. The engine unwraps it
    /// ([`Fetched::into_answer`]) before a statement sees it.
    Recorded(Box<Recorded>),
}

/// A result with the versions that it was read from.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The result.
    pub answer: Fetched,
    /// For each row, the transaction that wrote its version. For a missing point, the transaction of the deletion, if
    /// the store still has it.
    pub versions: Vec<Timestamp>,
    /// The state of the partition that was read.
    pub state: RecordedState,
}

/// A state of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedState {
    /// Everything installed up to this sequence.
    Sequence(u64),
    /// Everything installed by transactions with timestamps up to this one.
    Timestamp(Timestamp),
}

impl RecordedState {
    /// Whether the state includes a transaction installed at this sequence.
    pub fn includes(self, sequence: u64, timestamp: Timestamp) -> bool {
        match self {
            RecordedState::Sequence(last) => sequence <= last,
            RecordedState::Timestamp(last) => timestamp <= last,
        }
    }

    /// The sequence, for a state given by one.
    pub fn sequence(self) -> Option<u64> {
        match self {
            RecordedState::Sequence(last) => Some(last),
            RecordedState::Timestamp(_) => None,
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
