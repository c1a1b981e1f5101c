//! Tables taken out of a store and put into another: for a change of the schema, while no transaction runs.
//!
//! A table that goes on with the columns and the primary key that it has keeps its rows, their versions and their
//! timestamps. Its secondary indexes are made anew where they differ.

use std::fmt;
use std::sync::Arc;

use anabranch_types::{DataType, Key, Row, Schema, TableId, TableSchema};

use crate::index::Index;
use crate::store::{Store, StoreSettings, Table};
use crate::version::Version;

/// A table with its rows, outside of a store.
pub struct DetachedTable(Table);

impl fmt::Debug for DetachedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DetachedTable")
            .field(&self.0.schema.name)
            .finish()
    }
}

impl DetachedTable {
    /// Its description.
    pub fn schema(&self) -> &TableSchema {
        &self.0.schema
    }

    /// The number of its rows.
    pub fn rows(&self) -> usize {
        self.0.live
    }

    /// Passes its rows to `visit` in key order, until that fails.
    ///
    /// # Errors
    /// Those of `visit`.
    pub fn try_for_each<E>(
        &self,
        mut visit: impl FnMut(&Key, &Row) -> Result<(), E>,
    ) -> Result<(), E> {
        self.0.try_for_each(&mut visit)
    }
}

impl Table {
    fn try_for_each<E>(
        &self,
        visit: &mut impl FnMut(&Key, &Row) -> Result<(), E>,
    ) -> Result<(), E> {
        self.items
            .range(&Key::empty(), None)
            .filter_map(|(key, item)| Some((key, item.latest().row()?)))
            .try_for_each(|(key, row)| visit(key, row))
    }
}

/// Not for a store on which transactions run.
impl Store {
    /// Passes the newest rows of a table to `visit` in key order, until that fails.
    ///
    /// # Errors
    /// Those of `visit`.
    pub fn try_for_each<E>(
        &self,
        table: TableId,
        mut visit: impl FnMut(&Key, &Row) -> Result<(), E>,
    ) -> Result<(), E> {
        self.tables[table.index()].try_for_each(&mut visit)
    }

    /// A copy of a table with its newest rows.
    pub fn copy_of(&self, table: TableId) -> DetachedTable {
        let mut empty = self.emptied();
        let mut copy = empty.tables.swap_remove(table.index());
        let held = &self.tables[table.index()];
        for (key, item) in held.items.range(&Key::empty(), None) {
            let latest = item.latest();
            let Some(row) = latest.row() else {
                continue;
            };
            copy.newest_time = copy.newest_time.max(latest.timestamp_max);
            let version = Version {
                timestamp: latest.timestamp,
                timestamp_max: latest.timestamp_max,
                sequence: latest.sequence,
                row: Some(row.clone()),
                assigned: latest.assigned,
                older: None,
            };
            copy.add_entries(key, None, row);
            if let Err(place) = copy.items.seek_near(copy.loaded, key) {
                copy.loaded = place;
                copy.insert_item(place, key.clone(), version, false);
            }
        }
        DetachedTable(copy)
    }

    /// Takes a store apart into its tables. Superseded versions are dropped.
    pub fn into_tables(mut self) -> Vec<DetachedTable> {
        self.hold_horizon(None);
        self.collector.trim.pinned.clear();
        self.drop_superseded();
        self.tables.into_iter().map(DetachedTable).collect()
    }

    /// A store for these tables, without any rows, that continues the commits of this one.
    #[must_use]
    pub fn successor(&self, schema: &Schema) -> Store {
        let window = self.collector.window;
        let mut next = Store::new(schema, StoreSettings { window });
        next.last = self.last;
        next.recording = self.recording.as_ref().map(|_| Vec::new());
        next
    }

    /// Puts a table with its rows in the place of one without. Secondary indexes that it does not have are made.
    ///
    /// # Panics
    /// When its columns or its primary key are not those of the place.
    pub fn attach(&mut self, table: TableId, detached: DetachedTable) {
        let DetachedTable(mut held) = detached;
        let place = &mut self.tables[table.index()];
        let (old, new) = (Arc::clone(&held.schema), Arc::clone(&place.schema));
        assert!(
            is_same_layout(&old, &new),
            "table \"{}\" keeps its columns and its primary key",
            new.name
        );
        let same_index = |at: usize| {
            let (Some(old), Some(new)) = (old.indexes.get(at), new.indexes.get(at)) else {
                return false;
            };
            old.columns == new.columns
        };
        let mut before: Vec<Option<Index>> = std::mem::take(&mut held.indexes)
            .into_iter()
            .map(Some)
            .collect();
        held.schema = Arc::clone(&new);
        for (at, described) in new.indexes.iter().enumerate() {
            let kept = match same_index(at) {
                true => before.get_mut(at).and_then(Option::take),
                false => None,
            };
            let index = kept.unwrap_or_else(|| {
                let mut made = Index::default();
                for (key, item) in held.items.range(&Key::empty(), None) {
                    for version in item.versions() {
                        if let Some(row) = version.row() {
                            made.add(&new, described, row, key);
                        }
                    }
                }
                made
            });
            held.indexes.push(index);
        }
        held.loaded = place.loaded;
        *place = held;
    }

    /// Refuses every snapshot from before the tables were attached. To be called after the last.
    pub fn finish_attaching(&mut self) {
        self.invalidate_snapshots();
    }
}

/// Whether rows and keys of one table can be those of the other: the encoding of both depends on types and on which
/// columns may be NULL.
pub fn is_same_layout(old: &TableSchema, new: &TableSchema) -> bool {
    let encoding = |of: &TableSchema| -> Vec<(DataType, bool)> {
        let columns = of.columns.iter();
        columns
            .map(|column| (column.data_type.clone(), column.nullable))
            .collect()
    };
    encoding(old) == encoding(new) && old.primary_key == new.primary_key
}
