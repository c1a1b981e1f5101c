//! The store of one partition: tables, reads, loading, sizes.

use std::fmt;
use std::sync::Arc;

use anabranch_types::{
    ColumnIndex, ColumnSet, Fetched, IndexId, Key, KeyRange, Read, Row, Schema, TableId,
    TableSchema, Ticks, Timestamp,
};
use smallvec::SmallVec;

use crate::collection::{CHAIN_MIN, Collector};
use crate::index::{self, Index};
use crate::recording::Installed;
use crate::tree::{Position, Tree};
use crate::version::{CommitSequence, Item, ReadPoint, Version};
use crate::writers::LastWriters;

/// How a store behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// For how long a version is kept after another has superseded it: a snapshot no older than
    /// this can be read.
    pub window: Ticks,
}

impl Default for StoreSettings {
    /// 500 ms.
    fn default() -> Self {
        StoreSettings {
            window: Ticks::from_millis(500),
        }
    }
}

/// The snapshot lies below the store's floor: versions that it needs may be gone. Read again in a
/// new snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the snapshot {snapshot} is older than the versions kept (from {floor} on)")]
pub struct BelowFloor {
    /// What was asked.
    pub snapshot: CommitSequence,
    /// The oldest snapshot in which the table can be read.
    pub floor: CommitSequence,
}

/// A timestamp lies below those that a table can still be read up to: versions that belong to the
/// answer may be gone. Read again up to a higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the timestamp {asked} is below the versions kept (from {floor} on)")]
pub struct BelowTime {
    /// What was asked.
    pub asked: Timestamp,
    /// The lowest timestamp that the table can be read up to.
    pub floor: Timestamp,
}

/// Why a row cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The table holds a row with this primary key already.
    #[error("table \"{table}\" has two rows with key {key}")]
    Duplicate {
        /// The table's name.
        table: String,
        /// The key's bytes, in hexadecimal.
        key: Key,
    },
}

/// One table of a store.
#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) schema: Arc<TableSchema>,
    /// The columns that are not in the primary key.
    pub(crate) beside_key: ColumnSet,
    pub(crate) items: Tree<Item>,
    pub(crate) indexes: Vec<Index>,
    /// Items whose newest version is a row.
    pub(crate) live: usize,
    /// Rows, older versions and long keys: what the tree's nodes point to.
    pub(crate) bytes: usize,
    /// Superseded rows are kept for the window, whatever is said of the past: see
    /// [`Store::retain_history`].
    pub(crate) retains_history: bool,
    /// The oldest snapshot that can be read.
    pub(crate) floor: CommitSequence,
    /// The lowest timestamp that can be read up to: of the newest version that something older has
    /// been dropped for.
    pub(crate) floor_time: Timestamp,
    /// The highest timestamp installed.
    pub(crate) newest_time: Timestamp,
    /// Where the last row was loaded: the next one mostly follows it.
    pub(crate) loaded: Position,
    /// Who wrote each register last, if that is kept: see [`Store::keep_writers`].
    pub(crate) writers: Option<LastWriters>,
}

/// The rows, not their schema.
impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("items", &self.items)
            .field("indexes", &self.indexes)
            .field("writers", &self.writers)
            .finish_non_exhaustive()
    }
}

/// The multi-version store of one partition. See the [crate] for what it promises.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) tables: Vec<Table>,
    pub(crate) last: CommitSequence,
    pub(crate) collector: Collector,
    /// What has been installed since recording began, if it has.
    pub(crate) recording: Option<Vec<Installed>>,
}

impl Store {
    /// An empty store for these tables.
    pub fn new(schema: &Schema, settings: StoreSettings) -> Store {
        let table = |schema: &Arc<TableSchema>| Table {
            schema: Arc::clone(schema),
            beside_key: beside_key(schema),
            items: Tree::default(),
            indexes: schema.indexes.iter().map(|_| Index::default()).collect(),
            live: 0,
            bytes: 0,
            retains_history: false,
            floor: CommitSequence::LOADED,
            floor_time: Timestamp::ZERO,
            newest_time: Timestamp::ZERO,
            loaded: Position::ANYWHERE,
            writers: None,
        };
        Store {
            tables: schema.tables.iter().map(table).collect(),
            last: CommitSequence::LOADED,
            collector: Collector::new(settings.window),
            recording: None,
        }
    }

    /// From now on keeps who has written each register last, so that transactions may be installed at
    /// timestamps below those of others, however long those have been there. To be called before
    /// anything is installed. For rows that neither come nor go: what an insert or a delete does at a
    /// timestamp below another's rests on the versions that are kept, as ever.
    pub fn keep_writers(&mut self) {
        for table in &mut self.tables {
            table.writers.get_or_insert_default();
        }
    }

    /// The newest commit: the snapshot to take for a reader that starts now.
    #[inline]
    pub fn last(&self) -> CommitSequence {
        self.last
    }

    /// For how long a superseded version is kept.
    #[inline]
    pub fn window(&self) -> Ticks {
        self.collector.window
    }

    /// One item with its versions; `None` if no version of it is kept.
    #[inline]
    pub fn item(&self, table: TableId, key: &Key) -> Option<&Item> {
        self.tables[table.index()].items.get(key)
    }

    /// Visits the items that a read finds, in the order asked for.
    ///
    /// `visit` is called for *every* item in the range that has a version kept, with the version
    /// that belongs to the answer: the one that `snapshot` sees (`None`: the newest), if it is a
    /// row and, through a secondary index, lies in the range. Items without one are visited too:
    /// their versions may be evidence of a transaction that the snapshot lacks. `limit` counts
    /// rows of the answer, and the visit ends with the last of them.
    ///
    /// Through a secondary index an item may be visited more than once, and is in the answer once.
    ///
    /// # Errors
    /// [`BelowFloor`], and nothing is visited.
    pub fn read(
        &self,
        read: &Read,
        snapshot: Option<CommitSequence>,
        visit: &mut impl FnMut(&Key, &Item, Option<&Version>),
    ) -> Result<(), BelowFloor> {
        self.check_floor(read.table(), snapshot)?;
        self.visit(read, snapshot.into(), visit);
        Ok(())
    }

    /// [`Store::read`], where the floor has been looked at.
    pub(crate) fn visit(
        &self,
        read: &Read,
        at: ReadPoint,
        visit: &mut impl FnMut(&Key, &Item, Option<&Version>),
    ) {
        let table = &self.tables[read.table().index()];
        match read {
            Read::Point { key, .. } => {
                if let Some(item) = table.items.get(key) {
                    visit(key, item, live(item, at));
                }
            }
            Read::Range {
                index,
                range,
                reverse,
                limit,
                ..
            } => {
                table.read_range(*index, range, *reverse, *limit, at, visit);
            }
        }
    }

    /// The answers to several reads in a snapshot (`None`: the newest versions), added to
    /// `fetched` in order. Point reads of a table that follow each other are found in step, and
    /// their rows brought into the processor's caches together: each would otherwise wait for
    /// memory several times.
    ///
    /// `touched` gets the place in `fetched` of each answer that may come of a commit at or after
    /// `since`, in order (`None`: of none): points whose newest version is not older, points that
    /// find nothing, and ranges.
    ///
    /// # Errors
    /// [`BelowFloor`]; `fetched` is then of no use.
    pub fn fetch_all<'r>(
        &self,
        reads: impl Iterator<Item = &'r Read>,
        snapshot: Option<CommitSequence>,
        since: Option<CommitSequence>,
        fetched: &mut Vec<Fetched>,
        touched: &mut SmallVec<[usize; 8]>,
    ) -> Result<(), BelowFloor> {
        self.fetch_points_and_ranges(reads, since, fetched, touched, |table| {
            self.check_floor(table, snapshot)
                .map(|()| ReadPoint::from(snapshot))
        })
    }

    /// The answers to several reads with all that transactions with timestamps up to this one have
    /// installed here, added to `fetched` in order.
    ///
    /// Right only where each item's versions are installed in the order of their timestamps, and
    /// nothing will come with a timestamp up to this one any more.
    ///
    /// # Errors
    /// [`BelowTime`]; `fetched` is then of no use.
    pub fn fetch_up_to<'r>(
        &self,
        reads: impl Iterator<Item = &'r Read>,
        timestamp: Timestamp,
        fetched: &mut Vec<Fetched>,
    ) -> Result<(), BelowTime> {
        let mut touched = SmallVec::new();
        self.fetch_points_and_ranges(reads, None, fetched, &mut touched, |table| {
            let floor = self.tables[table.index()].floor_time;
            let asked = timestamp;
            match asked < floor {
                true => Err(BelowTime { asked, floor }),
                false => Ok(ReadPoint::Timestamp(asked)),
            }
        })
    }

    /// What several reads find in the view that each one's table permits.
    fn fetch_points_and_ranges<'r, E>(
        &self,
        reads: impl Iterator<Item = &'r Read>,
        since: Option<CommitSequence>,
        fetched: &mut Vec<Fetched>,
        touched: &mut SmallVec<[usize; 8]>,
        point_of: impl Fn(TableId) -> Result<ReadPoint, E>,
    ) -> Result<(), E> {
        let mut rest = reads.peekable();
        while let Some(read) = rest.next() {
            let (Read::Point { table, key }, false) = (read, self.is_recording()) else {
                let may_come_of = |since| match read {
                    Read::Point { table, key } => is_since(self.item(*table, key), since),
                    Read::Range { .. } => true,
                };
                // What is recorded is told of like what is not: else simulated histories would
                // show nothing of whoever was passed over by mistake.
                if since.is_some_and(may_come_of) {
                    touched.push(fetched.len());
                }
                let at = point_of(read.table())?;
                fetched.push(self.fetch_at(read, at));
                continue;
            };
            let next_key = || match rest.peek()? {
                Read::Point { table: of, key } if of == table => {
                    rest.next();
                    Some(key)
                }
                _ => None,
            };
            let keys = std::iter::once(key).chain(std::iter::from_fn(next_key));
            let mut found = SmallVec::new();
            let at = point_of(*table)?;
            self.find_points(*table, keys, &mut found);
            if let Some(since) = since {
                let places = (fetched.len()..).zip(&found);
                let changed = places.filter(|(_, item)| is_since(**item, since));
                touched.extend(changed.map(|(place, _)| place));
            }
            let row = |item: &Item| live(item, at).and_then(row_of);
            let points = found.iter().map(|item| item.and_then(row));
            fetched.extend(points.map(Fetched::Point));
        }
        Ok(())
    }

    /// Adds to `found` the items of a table that have these keys, their rows on the way into the
    /// processor's caches.
    fn find_points<'s, 'k>(
        &'s self,
        table: TableId,
        keys: impl Iterator<Item = &'k Key>,
        found: &mut SmallVec<[Option<&'s Item>; 32]>,
    ) {
        let items = &self.tables[table.index()].items;
        items.find_in_step(keys, |at| found.push(at.map(|at| items.at(at))));
        if found.len() > 1 {
            touch(found.iter().copied().flatten());
        }
    }

    fn check_floor(
        &self,
        table: TableId,
        snapshot: Option<CommitSequence>,
    ) -> Result<(), BelowFloor> {
        let floor = self.tables[table.index()].floor;
        match snapshot {
            Some(snapshot) if snapshot < floor => Err(BelowFloor { snapshot, floor }),
            _ => Ok(()),
        }
    }

    /// The rows that a read finds in a snapshot (`None`: the newest versions).
    ///
    /// # Errors
    /// [`BelowFloor`].
    pub fn fetch(
        &self,
        read: &Read,
        snapshot: Option<CommitSequence>,
    ) -> Result<Fetched, BelowFloor> {
        self.check_floor(read.table(), snapshot)?;
        Ok(self.fetch_at(read, snapshot.into()))
    }

    fn fetch_at(&self, read: &Read, at: ReadPoint) -> Fetched {
        if self.recording.is_some() {
            return self.fetch_recorded(read, at);
        }
        match read {
            Read::Point { .. } => {
                let mut row = None;
                self.visit(read, at, &mut |_, _, version| {
                    row = version.and_then(row_of)
                });
                Fetched::Point(row)
            }
            Read::Range { .. } => {
                let mut rows = Vec::new();
                self.visit(read, at, &mut |key, _, version| {
                    rows.extend(version.and_then(row_of).map(|row| (key.clone(), row)));
                });
                Fetched::Range(rows)
            }
        }
    }

    /// Adds a row that every transaction comes after, at [`Timestamp::ZERO`]. Fastest when a
    /// table's rows come in the order of their keys. Unique indexes are not checked.
    ///
    /// # Errors
    /// [`LoadError::Duplicate`]; the row that was there stays.
    pub fn load(&mut self, table: TableId, key: Key, row: Row) -> Result<(), LoadError> {
        let table = &mut self.tables[table.index()];
        let Err(place) = table.items.seek_near(table.loaded, &key) else {
            return Err(LoadError::Duplicate {
                table: table.schema.name.clone(),
                key,
            });
        };
        table.loaded = place;
        let version = Version {
            timestamp: Timestamp::ZERO,
            timestamp_max: Timestamp::ZERO,
            sequence: CommitSequence::LOADED,
            row: Some(row),
            assigned: ColumnSet::ALL,
            older: None,
        };
        if let Some(row) = &version.row {
            table.add_entries(&key, None, row);
        }
        table.insert_item(place, key, version, false);
        Ok(())
    }

    /// About how many bytes the store takes.
    pub fn memory(&self) -> usize {
        let tables: usize = self.tables.iter().map(Table::memory).sum();
        tables + self.collector.approximate_bytes()
    }

    /// How many rows of a table the newest versions are.
    pub fn rows(&self, table: TableId) -> usize {
        self.tables[table.index()].live
    }

    /// How many versions of all items are kept, superseded ones and deletions among them. Looks at every item.
    pub fn versions(&self) -> usize {
        let all = |table: &Table| {
            let items = table.items.range(&Key::empty(), None);
            items
                .map(|(_, item)| item.versions().count())
                .sum::<usize>()
        };
        self.tables.iter().map(all).sum()
    }

    /// The table's description.
    pub fn schema(&self, table: TableId) -> &Arc<TableSchema> {
        &self.tables[table.index()].schema
    }
}

/// Reads a byte of each cache line of the items' newest rows, so that the memory accesses of all of
/// them are under way together.
pub(crate) fn touch<'i>(items: impl Iterator<Item = &'i Item>) {
    let mut sum = 0u8;
    for row in items.filter_map(|item| item.head.row()) {
        let lines = row.as_bytes().chunks(64);
        sum = lines.fold(sum, |sum, line| sum ^ line[0]);
    }
    std::hint::black_box(sum);
}

/// Whether what is found of a key, or that nothing is, may come of a commit at or after another.
fn is_since(item: Option<&Item>, since: CommitSequence) -> bool {
    item.is_none_or(|item| item.latest().sequence() >= since)
}

fn row_of(version: &Version) -> Option<Row> {
    version.row().cloned()
}

fn live(item: &Item, at: ReadPoint) -> Option<&Version> {
    item.seen(at).filter(|version| version.row.is_some())
}

/// The columns of a table that are not in its primary key.
fn beside_key(schema: &TableSchema) -> ColumnSet {
    let columns = (0..schema.columns.len() as u16).map(ColumnIndex);
    columns
        .filter(|column| !schema.primary_key.contains(column))
        .fold(ColumnSet::EMPTY, ColumnSet::with)
}

impl Table {
    /// Whether nothing is left of a row of which these columns are assigned, except for its key, and no other
    /// row has a say in it.
    pub(crate) fn is_overwritten(&self, columns: ColumnSet) -> bool {
        self.schema.columns.len() < usize::from(ColumnSet::EXACT_MAX)
            && columns.covers(self.beside_key)
            && self.schema.indexes.is_empty()
            && self.writers.is_none()
    }

    fn read_range(
        &self,
        index: Option<IndexId>,
        range: &KeyRange,
        reverse: bool,
        limit: Option<u32>,
        at: ReadPoint,
        visit: &mut impl FnMut(&Key, &Item, Option<&Version>),
    ) {
        let Some(start) = range.start() else { return };
        let end = range.end();
        let bounds = (&start, end.as_ref());
        let mut left = limit.unwrap_or(u32::MAX);
        if left == 0 {
            return;
        }
        match index {
            None => walk(&self.items, bounds, reverse, |key, item| {
                let version = live(item, at);
                visit(key, item, version);
                left -= u32::from(version.is_some());
                left > 0
            }),
            Some(index) => {
                let entries = &self.indexes[index.index()].entries;
                walk(entries, bounds, reverse, |entry, offset| {
                    let key = index::primary_key(entry, *offset);
                    let item = self.items.get(&key).expect("an entry's item is kept");
                    let version = live(item, at)
                        .filter(|version| self.is_at_entry(index, item, version, &key, entry));
                    visit(&key, item, version);
                    left -= u32::from(version.is_some());
                    left > 0
                });
            }
        }
    }

    /// Whether the version's columns make this entry; a single version's always do.
    fn is_at_entry(
        &self,
        index: IndexId,
        item: &Item,
        version: &Version,
        key: &Key,
        entry: &Key,
    ) -> bool {
        let described = &self.schema.indexes[index.index()];
        item.head.older.is_none()
            || version
                .row()
                .is_some_and(|row| index::entry_key(&self.schema, described, row, key).0 == *entry)
    }

    /// Adds the index entries of an item's new row, as far as the row `before` has not made them.
    pub(crate) fn add_entries(&mut self, key: &Key, before: Option<&Row>, row: &Row) {
        for (described, index) in self.schema.indexes.iter().zip(&mut self.indexes) {
            let made = before
                .is_some_and(|before| index::same_entry(&self.schema, described, before, row));
            if !made {
                index.add(&self.schema, described, row, key);
            }
        }
    }

    /// Puts an item that has no version yet.
    pub(crate) fn insert_item(&mut self, near: Position, key: Key, head: Version, queued: bool) {
        self.bytes += row_bytes(&head) + index::heap_bytes(key.len());
        self.live += usize::from(head.row.is_some());
        let item = Item {
            head,
            queued,
            until_truncation: CHAIN_MIN,
        };
        let replaced = self.items.insert_near(near, key, item);
        assert!(replaced.is_none(), "an item is inserted once");
    }

    fn memory(&self) -> usize {
        let indexes: usize = self
            .indexes
            .iter()
            .map(|index| index.bytes + index.entries.approximate_bytes())
            .sum();
        self.bytes + self.items.approximate_bytes() + indexes
    }
}

/// What a version's row takes: its bytes, its reference counts, the allocator's header.
pub(crate) fn row_bytes(version: &Version) -> usize {
    version
        .row
        .as_ref()
        .map_or(0, |row| row.as_bytes().len() + 24)
}

/// Goes through the entries in the order asked for, while `visit` says so.
fn walk<V>(
    tree: &Tree<V>,
    (start, end): (&Key, Option<&Key>),
    reverse: bool,
    mut visit: impl FnMut(&Key, &V) -> bool,
) {
    if reverse {
        tree.range_reverse(start, end)
            .all(|(key, value)| visit(key, value));
    } else {
        tree.range(start, end).all(|(key, value)| visit(key, value));
    }
}
