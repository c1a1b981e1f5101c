//! The serialized form of changes and items, for the log and its checkpoints.
//!
//! The log holds the after-images of a commit, not its effects. A row program that ran again could give
//! another result, since a late effect skips the columns that a later transaction has assigned, and the
//! versions that show this may have been dropped. After-images installed in the order of the log give the
//! same newest versions at the same sequences, whatever was dropped when. So a replica drops old versions
//! while it replays, and takes no more memory than its primary. A checkpoint holds every retained
//! version, so that prepared transactions meet the same versions after a recovery.
//!
//! Items are exported in slices while the store goes on ([`Store::begin_export`]). The export is a snapshot:
//! it has the versions up to one commit, and the collector drops none of those that the snapshot sees until
//! the export ends. Several may run at a time. Only the last writers of registers may be newer. They name transactions whose records
//! follow in the log, and replay installs after-images, which do not depend on them.

use std::sync::Arc;

use anabranch_types::{ColumnSet, Key, Row, Schema, TableId, Ticks, Timestamp};
use serde::{Deserialize, Serialize};

use crate::apply::{Change, Staged};
use crate::collector::Queued;
use crate::store::{Store, StoreSettings, Table, row_bytes};
use crate::version::{CommitSequence, Item, ReadPoint, Version};

/// One change of a commit, as logged: an after-image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedChange {
    /// The item's table.
    pub table: TableId,
    /// The item's key.
    pub key: Key,
    /// The new row; `None` if it is deleted.
    pub row: Option<Row>,
    /// The columns assigned as registers.
    pub assigned: ColumnSet,
}

/// An item with all its versions, in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointItem {
    /// The item's key.
    pub key: Key,
    /// Its versions in order of installation.
    pub versions: Vec<CheckpointVersion>,
    /// The last writers of its registers, if kept ([`Store::keep_writers`]).
    pub writers: Vec<(Timestamp, ColumnSet)>,
}

/// A version, in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointVersion {
    /// The transaction.
    pub timestamp: Timestamp,
    /// The commit that installed it.
    pub sequence: CommitSequence,
    /// The row; `None` if it was deleted.
    pub row: Option<Row>,
    /// The columns assigned as registers.
    pub assigned: ColumnSet,
}

/// An export of a snapshot's items in slices.
#[derive(Clone, Debug)]
pub struct SnapshotExport {
    snapshot: CommitSequence,
    /// The store's, when the export began.
    pub(crate) generation: u64,
    /// The table that the next slice continues, and the last of its keys that was visited.
    table: TableId,
    after: Option<Key>,
}

impl SnapshotExport {
    /// The last commit of the snapshot.
    pub fn snapshot(&self) -> CommitSequence {
        self.snapshot
    }
}

/// The size in bytes that an exported version has beside its row, roughly. An item that the snapshot does not
/// see counts as one: it takes time to visit.
const VERSION_BYTES: usize = 48;

impl Staged {
    /// The after-images of the changes, for the log.
    pub fn logged_changes(&self) -> Vec<LoggedChange> {
        let logged = |change: &Change| LoggedChange {
            table: change.table(),
            key: change.key().clone(),
            row: change.row().cloned(),
            assigned: change.assigned,
        };
        self.changes().iter().map(logged).collect()
    }
}

/// Recovery. Not for a store on which transactions run.
impl Store {
    /// Stages logged changes, to be installed when their transaction commits.
    pub fn restage(&self, logged: Vec<LoggedChange>) -> Staged {
        let change = |logged: LoggedChange| {
            let place = self.tables[logged.table.index()].items.seek(&logged.key);
            Change {
                place,
                table: logged.table,
                key: logged.key,
                row: logged.row,
                assigned: logged.assigned,
                replaces: None,
                overwrites: false,
                late_writes_possible: true,
            }
        };
        Staged {
            changes: logged.into_iter().map(change).collect(),
        }
    }

    /// Installs a logged commit at the next sequence and drops the versions that it supersedes: a replica
    /// that replays answers no reads, and a recovered store refuses every earlier snapshot
    /// ([`Store::invalidate_snapshots`]). Versions held by [`Store::hold_horizon`] stay. `late` is as in
    /// [`Store::discard_history`].
    pub fn redo(
        &mut self,
        timestamp: Timestamp,
        logged: Vec<LoggedChange>,
        late: Timestamp,
    ) -> CommitSequence {
        self.discard_history(late);
        let staged = self.restage(logged);
        let sequence = self.install(Ticks::default(), timestamp, staged);
        self.drop_superseded();
        sequence
    }

    /// Drops every superseded version that [`Store::hold_horizon`] does not hold, however young.
    pub fn drop_superseded(&mut self) {
        self.collector.trim.decide(self.last);
        self.collect(Ticks::default(), usize::MAX);
    }

    /// An empty store of the same tables and settings.
    #[must_use]
    pub fn emptied(&self) -> Store {
        let tables = self.tables.iter().map(|table| Arc::clone(&table.schema));
        let schema = Schema {
            tables: tables.collect(),
        };
        let window = self.collector.window;
        Store::new(&schema, StoreSettings { window })
    }

    /// The number of tables.
    pub fn tables(&self) -> u16 {
        self.tables.len() as u16
    }

    /// Begins an export of the newest commit's snapshot, and pins the snapshot: versions that it sees are neither
    /// dropped nor replaced in place until [`Store::end_export`].
    pub fn begin_export(&mut self) -> SnapshotExport {
        self.collector.trim.pinned.push(self.last);
        SnapshotExport {
            snapshot: self.last,
            generation: self.generation,
            table: TableId(0),
            after: None,
        }
    }

    /// Ends an export: releases its snapshot.
    ///
    /// # Panics
    /// When the export has ended already.
    pub fn end_export(&mut self, export: SnapshotExport) {
        let store = self.of_generation_mut(export.generation);
        let pinned = &mut store.collector.trim.pinned;
        let place = pinned.iter().position(|it| *it == export.snapshot);
        pinned.swap_remove(place.expect("an export ends once"));
        self.drop_replaced();
    }

    /// The next items of an export, of one table, in order: about `bytes` of them. `None` after the last. The work is
    /// bounded by `bytes` too, except for an item of many versions: so a slice of items that the snapshot does not see
    /// is empty.
    pub fn export_slice(
        &self,
        export: &mut SnapshotExport,
        bytes: usize,
    ) -> Option<(TableId, Vec<CheckpointItem>)> {
        let store = self.of_generation(export.generation);
        debug_assert!(store.collector.trim.pinned.contains(&export.snapshot));
        let mut left = bytes.max(1);
        while let Some(held) = store.tables.get(export.table.index()) {
            let mut items = Vec::new();
            let start = export.after.take();
            for (key, item) in held.items_after(start.as_ref()) {
                let exported = held.export_item(key, item, ReadPoint::Sequence(export.snapshot));
                let size = exported
                    .as_ref()
                    .map_or(VERSION_BYTES, CheckpointItem::size);
                items.extend(exported);
                left = left.saturating_sub(size);
                if left == 0 {
                    export.after = Some(key.clone());
                    break;
                }
            }
            let table = export.table;
            if export.after.is_none() {
                export.table = TableId(table.0 + 1);
            }
            // Without items: a stretch that the snapshot does not see.
            if !items.is_empty() || left == 0 {
                return Some((table, items));
            }
        }
        None
    }

    /// Up to `count` items of a table with keys above `after` (`None`: from the first), with all versions, in order.
    pub fn export(&self, table: TableId, after: Option<&Key>, count: usize) -> Vec<CheckpointItem> {
        let held = &self.tables[table.index()];
        let items = held.items_after(after).take(count);
        items
            .filter_map(|(key, item)| held.export_item(key, item, ReadPoint::Newest))
            .collect()
    }

    /// Imports items that were exported from a table with the same schema.
    ///
    /// # Panics
    /// When an item exists already, or has no version.
    pub fn import(&mut self, table: TableId, items: Vec<CheckpointItem>) {
        for CheckpointItem {
            key,
            versions,
            writers,
        } in items
        {
            let (last, held) = (versions.len() - 1, &mut self.tables[table.index()]);
            let newest = writers.iter().map(|(timestamp, _)| *timestamp).max();
            let mut timestamp_max = Timestamp::ZERO;
            let mut queue = last > 0;
            for (number, kept) in versions.into_iter().enumerate() {
                timestamp_max = timestamp_max.max(kept.timestamp);
                held.newest_time = held.newest_time.max(kept.timestamp);
                queue |= number == last && kept.row.is_none();
                let version = Version {
                    timestamp: kept.timestamp,
                    timestamp_max,
                    sequence: kept.sequence,
                    row: kept.row,
                    assigned: kept.assigned,
                    older: None,
                };
                let row = version.row.clone();
                if number == 0 {
                    if let Some(row) = &row {
                        held.add_entries(&key, None, row);
                    }
                    let Err(place) = held.items.seek_near(held.loaded, &key) else {
                        panic!("an item is imported once");
                    };
                    held.loaded = place;
                    held.insert_item(place, key.clone(), version, false);
                    continue;
                }
                held.bytes += row_bytes(&version) + size_of::<Version>();
                let item = held.items.get_mut(&key);
                let item = item.expect("its first version was inserted");
                held.live -= usize::from(item.head.row.is_some());
                held.live += usize::from(version.row.is_some());
                let before = item.head.row.clone();
                let older = std::mem::replace(&mut item.head, version);
                item.head.older = Some(Box::new(older));
                if let Some(row) = &row {
                    held.add_entries(&key, before.as_ref(), row);
                }
            }
            let item = held.items.get_mut(&key).expect("it was just inserted");
            // The version of the last assignment may have been dropped.
            let newest = newest.unwrap_or(Timestamp::ZERO);
            item.head.timestamp_max = item.head.timestamp_max.max(newest);
            if let Some(kept) = &mut held.writers {
                kept.restore(&key, writers.into());
            }
            if queue {
                item.queued = true;
                let sequence = item.head.sequence;
                let queued = Queued {
                    sequence,
                    table,
                    key,
                    position: None,
                };
                self.collector.put(held.retains_history, queued);
            }
        }
    }

    /// Ends a series of imports; `last` is the store's last commit. Snapshots below it are refused, and
    /// their readers have to read again.
    pub fn finish_import(&mut self, last: CommitSequence) {
        self.last = last;
        self.invalidate_snapshots();
        self.collector.sort();
    }

    /// Refuses every snapshot older than the newest commit from now on, and with it the validation of
    /// guards that were read in one.
    pub fn invalidate_snapshots(&mut self) {
        for table in &mut self.tables {
            table.raise_floor((self.last, table.newest_time));
        }
        self.collector.trim.invalidate_snapshots(self.last);
    }
}

impl Table {
    /// The items with keys above `after`, in order.
    fn items_after(&self, after: Option<&Key>) -> impl Iterator<Item = (&Key, &Item)> {
        let start = after.cloned().unwrap_or_else(Key::empty);
        let from = self.items.range(&start, None);
        let after = after.cloned();
        from.skip_while(move |(key, _)| after.as_ref() == Some(*key))
    }

    /// The versions of an item at a read point; `None` if there are none.
    fn export_item(&self, key: &Key, item: &Item, at: ReadPoint) -> Option<CheckpointItem> {
        let is_in = |version: &&Version| match at {
            ReadPoint::Sequence(snapshot) => version.sequence <= snapshot,
            ReadPoint::Newest | ReadPoint::Timestamp(_) => true,
        };
        let versions = item.versions().filter(is_in);
        let mut versions: Vec<CheckpointVersion> = versions
            .map(|version| CheckpointVersion {
                timestamp: version.timestamp,
                sequence: version.sequence,
                row: version.row.clone(),
                assigned: version.assigned,
            })
            .collect();
        if versions.is_empty() {
            return None;
        }
        versions.reverse();
        let writers = self.writers.as_ref();
        let writers = writers.map_or(&[][..], |writers| writers.of(key));
        Some(CheckpointItem {
            key: key.clone(),
            versions,
            writers: writers.to_vec(),
        })
    }
}

impl CheckpointItem {
    /// Its size in bytes, roughly.
    fn size(&self) -> usize {
        let row = |version: &CheckpointVersion| {
            version.row.as_ref().map_or(0, |row| row.as_bytes().len())
        };
        let versions = self
            .versions
            .iter()
            .map(|version| VERSION_BYTES + row(version));
        self.key.len() + versions.sum::<usize>() + 24 * self.writers.len()
    }
}
