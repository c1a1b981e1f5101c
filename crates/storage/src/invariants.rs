//! The invariants of a store between any two calls; the checks examine the whole store.

use std::collections::BTreeSet;

use anabranch_types::{Key, Row};

use crate::index;
use crate::store::{Store, Table, row_bytes};
use crate::version::Version;

impl Store {
    /// Checks the store's invariants. Slow: for tests and simulations.
    ///
    /// # Errors
    /// The invariant's name and what contradicts it:
    ///
    /// * `STORE-I1`: a chain's sequences descend, and none is above the last commit.
    /// * `STORE-I2`: a version's `timestamp_max` is no lower than any timestamp in the chain below it.
    /// * `STORE-I3`: an index has exactly the entries of the retained versions' rows.
    /// * `STORE-I4`: the counts of live rows and of bytes are correct.
    /// * `STORE-I5`: an item with something to drop is in one of the collector's queues, once.
    pub fn check_invariants(&self) -> Result<(), String> {
        for table in &self.tables {
            table.check_chains(self)?;
            table.check_indexes()?;
            table.check_counts()?;
        }
        self.check_queue()
    }

    fn check_queue(&self) -> Result<(), String> {
        let mut queued = BTreeSet::new();
        for entry in self.collector.queued() {
            if !queued.insert((entry.table, &entry.key)) {
                return Err(format!(
                    "STORE-I5: {} {} is queued twice",
                    entry.table, entry.key
                ));
            }
        }
        for table in &self.tables {
            for (key, item) in table.items.range(&Key::empty(), None) {
                let head = &item.head;
                let due = head.older.is_some() || head.row.is_none();
                let listed = queued.contains(&(table.schema.id, key));
                if listed != item.queued || due && !listed {
                    return Err(format!(
                        "STORE-I5: {} {key} is not queued",
                        table.schema.name
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Table {
    fn check_chains(&self, store: &Store) -> Result<(), String> {
        for (key, item) in self.items.range(&Key::empty(), None) {
            if item.head.sequence > store.last {
                return Err(format!(
                    "STORE-I1: {} {key} is ahead of the store",
                    self.schema.name
                ));
            }
            for version in item.versions() {
                let older = version.older();
                if older.is_some_and(|older| older.sequence >= version.sequence) {
                    return Err(format!("STORE-I1: {} {key} ascends", self.schema.name));
                }
                let below = older.map_or(version.timestamp, |older| older.timestamp_max);
                if version.timestamp_max < below.max(version.timestamp) {
                    return Err(format!(
                        "STORE-I2: {} {key} forgets {below}",
                        self.schema.name
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_indexes(&self) -> Result<(), String> {
        for (described, index) in self.schema.indexes.iter().zip(&self.indexes) {
            let mut expected = BTreeSet::new();
            for (key, item) in self.items.range(&Key::empty(), None) {
                let entry = |row: &Row| index::entry_key(&self.schema, described, row, key).0;
                expected.extend(item.versions().filter_map(Version::row).map(entry));
            }
            let first = Key::empty();
            let held = index.entries.range(&first, None).map(|(entry, _)| entry);
            if !held.eq(expected.iter()) {
                return Err(format!("STORE-I3: {} has other entries", described.name));
            }
            let bytes: usize = expected
                .iter()
                .map(|entry| index::heap_bytes(entry.len()))
                .sum();
            if bytes != index.bytes {
                return Err(format!(
                    "STORE-I4: {} counts {} bytes",
                    described.name, index.bytes
                ));
            }
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<(), String> {
        let (mut live, mut bytes) = (0, 0);
        for (key, item) in self.items.range(&Key::empty(), None) {
            live += usize::from(item.head.row.is_some());
            bytes += index::heap_bytes(key.len());
            bytes += item.versions().map(row_bytes).sum::<usize>();
            bytes += item.versions().skip(1).count() * size_of::<Version>();
        }
        if (live, bytes) != (self.live, self.bytes) {
            return Err(format!(
                "STORE-I4: {} counts {} rows and {} bytes where {live} and {bytes} are",
                self.schema.name, self.live, self.bytes
            ));
        }
        Ok(())
    }
}
