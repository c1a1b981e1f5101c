//! What a store's log and checkpoints are made of: changes and items as they are, and back.
//!
//! The log keeps what a commit *came to* (after-images), not what it was asked to do. Row programs
//! may be run again as often as one likes, but what they meet depends on which older versions had
//! been dropped by then (a late effect leaves alone what a later transaction has assigned, as far
//! as that is remembered); after-images, installed in the order of the log, give the same newest
//! versions at the same sequences whatever was dropped when. So who follows a log drops whatever nobody
//! can ask for as it goes, as its node does, and a replica takes no more memory than its primary. A
//! checkpoint holds every version kept, so that what is still prepared meets the same past.

use std::sync::Arc;

use anabranch_types::{ColumnSet, Key, Row, Schema, TableId, Ticks, Timestamp};
use serde::{Deserialize, Serialize};

use crate::apply::{Change, Staged};
use crate::collection::Queued;
use crate::store::{Store, StoreSettings, row_bytes};
use crate::version::{CommitSequence, Version};

/// One change of a commit, as it is logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedChange {
    /// The item's table.
    pub table: TableId,
    /// The item's key.
    pub key: Key,
    /// The new row; `None` when it is deleted.
    pub row: Option<Row>,
    /// The columns that are assigned as registers.
    pub assigned: ColumnSet,
}

/// An item with all its versions, as a checkpoint keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointItem {
    /// The item's key.
    pub key: Key,
    /// Its versions in order of installation.
    pub versions: Vec<CheckpointVersion>,
    /// Who wrote each of its registers last, if that is kept ([`Store::keep_writers`]).
    pub writers: Vec<(Timestamp, ColumnSet)>,
}

/// A version, as a checkpoint keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointVersion {
    /// The transaction.
    pub timestamp: Timestamp,
    /// When it was installed.
    pub sequence: CommitSequence,
    /// The row; `None` when it was deleted.
    pub row: Option<Row>,
    /// The columns assigned as registers.
    pub assigned: ColumnSet,
}

impl Staged {
    /// The changes, to be logged.
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

/// Recovery. None of this is for a store that transactions run on.
impl Store {
    /// What was logged, staged again: install it when its commit's turn has come.
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

    /// Installs a logged commit again, at the next sequence, and drops what it supersedes: who follows a
    /// log answers no reads, and who has come back by one refuses every snapshot of before
    /// ([`Store::invalidate_snapshots`]). What [`Store::hold_horizon`] asks for stays; `late` is as in
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

    /// Drops every superseded version that [`Store::hold_horizon`] does not ask for, however young.
    pub fn drop_superseded(&mut self) {
        self.collector.trim.decide(self.last);
        self.collect(Ticks::default(), usize::MAX);
    }

    /// A store of the same tables and settings, without a row.
    #[must_use]
    pub fn emptied(&self) -> Store {
        let tables = self.tables.iter().map(|table| Arc::clone(&table.schema));
        let schema = Schema {
            tables: tables.collect(),
        };
        let window = self.collector.window;
        Store::new(&schema, StoreSettings { window })
    }

    /// How many tables there are.
    pub fn tables(&self) -> u16 {
        self.tables.len() as u16
    }

    /// Up to `count` items of a table with keys above `after`, in order: all of a table, from
    /// `None` on, is what a checkpoint keeps of it.
    pub fn export(&self, table: TableId, after: Option<&Key>, count: usize) -> Vec<CheckpointItem> {
        let held = &self.tables[table.index()];
        let items = &held.items;
        let start = after.cloned().unwrap_or_else(Key::empty);
        let from = items.range(&start, None);
        from.filter(|(key, _)| after.is_none_or(|after| *key > after))
            .take(count)
            .map(|(key, item)| {
                let mut versions: Vec<CheckpointVersion> = item
                    .versions()
                    .map(|version| CheckpointVersion {
                        timestamp: version.timestamp,
                        sequence: version.sequence,
                        row: version.row.clone(),
                        assigned: version.assigned,
                    })
                    .collect();
                versions.reverse();
                let writers = held.writers.as_ref();
                let writers = writers.map_or(&[][..], |writers| writers.of(key));
                CheckpointItem {
                    key: key.clone(),
                    versions,
                    writers: writers.to_vec(),
                }
            })
            .collect()
    }

    /// Puts items back that were exported from a table of the same description.
    ///
    /// # Panics
    /// When an item is there already, or has no version.
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
                let item = item.expect("its first version is there");
                held.live -= usize::from(item.head.row.is_some());
                held.live += usize::from(version.row.is_some());
                let before = item.head.row.clone();
                let older = std::mem::replace(&mut item.head, version);
                item.head.older = Some(Box::new(older));
                if let Some(row) = &row {
                    held.add_entries(&key, before.as_ref(), row);
                }
            }
            let item = held.items.get_mut(&key).expect("it was just put there");
            // What was assigned last may be kept no longer as a version.
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

    /// Ends a series of imports: the store's last commit, and the oldest snapshot that could be
    /// read. Nothing below `last` can be read any more: whoever had a snapshot is asked again.
    pub fn finish_import(&mut self, last: CommitSequence) {
        self.last = last;
        self.invalidate_snapshots();
        self.collector.sort();
    }

    /// Refuses every snapshot older than the newest commit from now on, and every guard that was
    /// read in one.
    pub fn invalidate_snapshots(&mut self) {
        for table in &mut self.tables {
            table.raise_floor((self.last, table.newest_time));
        }
        self.collector.trim.invalidate_snapshots(self.last);
    }
}
