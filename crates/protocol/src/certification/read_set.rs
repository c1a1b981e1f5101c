//! The versions that a transaction has read, named by their writers.
//!
//! Sites install transactions without conflict in different orders. So a version is named by the transaction that wrote
//! it, which is the same at all sites, and not by its sequence in a store.

use anabranch_storage::Store;
use anabranch_types::{Key, Read, TableId, Timestamp};
use serde::{Deserialize, Serialize};

/// The versions that a transaction has read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadSet {
    /// Rows that were read by primary key.
    pub points: Vec<PointRead>,
    /// Ranges that were read.
    pub ranges: Vec<RangeRead>,
}

/// A read by primary key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointRead {
    /// The table.
    pub table: TableId,
    /// The primary key.
    pub key: Key,
    /// The writer of the row; `None` if there was no row.
    pub writer: Option<Timestamp>,
}

/// A read of a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeRead {
    /// The read: a range.
    pub read: Read,
    /// The rows found, in order: primary key and writer.
    pub rows: Vec<(Key, Timestamp)>,
}

impl ReadSet {
    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && self.ranges.is_empty()
    }

    /// Whether the newest versions of a store are those that were read: the certification of a transaction.
    pub fn is_current(&self, store: &Store) -> bool {
        self.compare(store, &mut |_, _| ())
    }

    /// The same. Passes each row that was read by primary key to `seen`, with the writer of its newest version.
    pub(super) fn compare(
        &self,
        store: &Store,
        seen: &mut dyn FnMut(&PointRead, Timestamp),
    ) -> bool {
        let mut are_current = true;
        for point in &self.points {
            are_current &= point.is_current(store, seen);
        }
        are_current && self.ranges.iter().all(|range| range.is_current(store))
    }

    /// Whether a row was read, by key or in a range.
    pub(super) fn has_row(&self, table: TableId, key: &Key) -> bool {
        let by_key = |point: &PointRead| point.table == table && point.key == *key;
        let in_range = |range: &RangeRead| {
            range.read.table() == table && range.rows.iter().any(|(found, _)| found == key)
        };
        self.points.iter().any(by_key) || self.ranges.iter().any(in_range)
    }
}

impl PointRead {
    fn is_current(&self, store: &Store, seen: &mut dyn FnMut(&PointRead, Timestamp)) -> bool {
        let newest = store.item(self.table, &self.key).map(|item| item.latest());
        if let Some(version) = newest {
            seen(self, version.timestamp());
        }
        let row = newest.filter(|version| version.row().is_some());
        row.map(|version| version.timestamp()) == self.writer
    }
}

impl RangeRead {
    fn is_current(&self, store: &Store) -> bool {
        let mut expected = self.rows.iter();
        let mut same = true;
        let found = store.read(&self.read, None, &mut |key, _, version| {
            if let Some(version) = version {
                let found = expected.next();
                same &= found.is_some_and(|(row, by)| row == key && *by == version.timestamp());
            }
        });
        found.expect("the newest versions are kept");
        same && expected.next().is_none()
    }
}
