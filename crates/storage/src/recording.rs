//! Recording of reads and commits, for recorded histories.
//!
//! It is off by default, and then costs one comparison a read or commit. When it is on, each answer has
//! the versions that it was taken from ([`Fetched::Recorded`]), and each installed commit is appended
//! to a list, since versions themselves are collected. The list grows until it is taken.

use std::collections::BTreeMap;

use anabranch_types::{
    ColumnIndex, ColumnSet, Fetched, IndexSchema, Key, Read, Recorded, RecordedState, Row, TableId,
    TableSchema, Ticks, Timestamp,
};

use crate::apply::Change;
use crate::index;
use crate::installed::{Installed, InstalledChange, InstalledKind};
use crate::store::Store;
use crate::version::ReadPoint;

/// A row's entry in a secondary index: the key at which a range of that index finds it.
pub fn index_entry(schema: &TableSchema, of: &IndexSchema, row: &Row, key: &Key) -> Key {
    index::entry_key(schema, of, row, key).0
}

impl Store {
    /// Starts recording.
    pub fn record(&mut self) {
        self.recording.get_or_insert_default();
    }

    /// Whether the store records.
    #[inline]
    pub fn is_recording(&self) -> bool {
        self.recording.is_some()
    }

    /// The installed commits that have not been taken, in the order of installation.
    pub fn installed(&self) -> &[Installed] {
        self.recording.as_deref().unwrap_or_default()
    }

    /// Takes the commits installed since the last call.
    pub fn take_installed(&mut self) -> Vec<Installed> {
        self.recording
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// [`Store::fetch`] with the versions.
    pub(crate) fn fetch_recorded(&self, read: &Read, at: ReadPoint) -> Fetched {
        let mut rows = Vec::new();
        let mut versions = Vec::new();
        let held = &self.tables[read.table().index()];
        self.visit(read, at, &mut |key, item, version| {
            if let Some((version, row)) = version.and_then(|v| v.row().map(|row| (v, row))) {
                rows.push((key.clone(), row.clone()));
                // Where commits may be installed in any order: the last writer that the row includes.
                let shown = held.writers.is_some() && assigns_all(&held.schema, version.assigned());
                versions.push(match shown {
                    true => version.timestamp_max,
                    false => version.timestamp(),
                });
            } else if let Read::Point { .. } = read {
                versions.extend(item.seen(at).map(|deleted| deleted.timestamp()));
            }
        });
        let answer = match read {
            Read::Point { .. } => Fetched::Point(rows.pop().map(|(_, row)| row)),
            Read::Range { .. } => Fetched::Range(rows),
        };
        Fetched::Recorded(Box::new(Recorded {
            answer,
            versions,
            state: match at {
                ReadPoint::Newest => RecordedState::Sequence(self.last.0),
                ReadPoint::Sequence(snapshot) => RecordedState::Sequence(snapshot.0),
                ReadPoint::Timestamp(timestamp) => RecordedState::Timestamp(timestamp),
            },
        }))
    }

    /// Records the commit that is about to be installed at the newest sequence.
    pub(crate) fn record_install(&mut self, now: Ticks, timestamp: Timestamp, changes: &[Change]) {
        let changes = changes.iter().map(|change| self.describe(change)).collect();
        let installed = Installed {
            sequence: self.last,
            timestamp,
            origin: None,
            now,
            changes,
        };
        self.recording.get_or_insert_default().push(installed);
    }

    /// The changes that make the newest rows of another store of these: what [`Store::replace`] records.
    pub(crate) fn differences(&self, other: &Store) -> Vec<InstalledChange> {
        let newest = |store: &Store, table: TableId| -> BTreeMap<Key, (Timestamp, Row)> {
            let held = &store.tables[table.index()];
            let items = held.items.range(&Key::empty(), None);
            items
                .filter_map(|(key, item)| {
                    let version = item.latest();
                    let row = version.row()?.clone();
                    Some((key.clone(), (version.timestamp(), row)))
                })
                .collect()
        };
        let mut changes = Vec::new();
        for table in (0..self.tables()).map(TableId) {
            let (before, after) = (newest(self, table), newest(other, table));
            let schema = &self.tables[table.index()].schema;
            for (key, (writer, row)) in &after {
                if before.get(key).is_some_and(|(by, _)| by == writer) {
                    continue;
                }
                let entries = schema.indexes.iter();
                changes.push(InstalledChange {
                    table,
                    key: key.clone(),
                    kind: match before.contains_key(key) {
                        true => InstalledKind::Update,
                        false => InstalledKind::Insert,
                    },
                    row: Some(row.clone()),
                    entries: entries
                        .map(|of| (of.id, index_entry(schema, of, row, key)))
                        .collect(),
                });
            }
            let gone = before.keys().filter(|key| !after.contains_key(*key));
            changes.extend(gone.map(|key| InstalledChange {
                table,
                key: key.clone(),
                kind: InstalledKind::Delete,
                row: None,
                entries: Vec::new(),
            }));
        }
        changes
    }

    fn describe(&self, change: &Change) -> InstalledChange {
        let (table, key) = (change.table(), change.key());
        let held = &self.tables[table.index()];
        let existed = self
            .item(table, key)
            .is_some_and(|item| item.latest().row().is_some());
        let entries = change.row().map_or_else(Vec::new, |row| {
            let indexes = held.schema.indexes.iter();
            indexes
                .map(|of| (of.id, index_entry(&held.schema, of, row, key)))
                .collect()
        });
        InstalledChange {
            table,
            key: key.clone(),
            kind: match (existed, change.row()) {
                (_, None) => InstalledKind::Delete,
                (false, Some(_)) => InstalledKind::Insert,
                (true, Some(_)) if assigns_all(&held.schema, change.assigned) => {
                    InstalledKind::Assign
                }
                (true, Some(_)) => InstalledKind::Update,
            },
            row: change.row().cloned(),
            entries,
        }
    }
}

/// Whether these are all columns of a table but those of its primary key; false if the set is inexact.
fn assigns_all(schema: &TableSchema, assigned: ColumnSet) -> bool {
    let count = schema.columns.len() as u16;
    let mut others = (0..count).map(ColumnIndex);
    count <= ColumnSet::EXACT_MAX
        && others.all(|column| assigned.contains(column) || schema.primary_key.contains(&column))
}
