//! The store of one partition: tables, reads, loading, sizes.

use std::fmt;
use std::sync::Arc;

use anabranch_types::{
    ColumnIndex, ColumnSet, Fetched, IndexId, Key, KeyRange, Read, Row, Schema, TableId,
    TableSchema, Ticks, Timestamp,
};
use smallvec::SmallVec;

use crate::collector::{CHAIN_MIN, Collector};
use crate::index::{self, Index};
use crate::installed::Installed;
use crate::tree::{Position, Tree};
use crate::version::{CommitSequence, Item, ReadPoint, Version};
use crate::writers::LastWriters;

/// Options of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// How long a version is kept after another has superseded it: snapshots up to this age can be read.
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

/// The snapshot is below the table's floor: versions that it needs may have been dropped. The caller
/// has to read again in a new snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the snapshot {snapshot} is older than the versions kept (from {floor} on): read in a new snapshot"
)]
pub struct BelowFloor {
    /// The requested snapshot.
    pub snapshot: CommitSequence,
    /// The oldest snapshot in which the table can be read.
    pub floor: CommitSequence,
}

/// The timestamp is below the table's floor: versions that belong to the answer may have been dropped.
/// The caller has to read again up to a higher timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the timestamp {asked} is below the versions kept (from {floor} on): read up to a higher one"
)]
pub struct BelowTime {
    /// The requested timestamp.
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
    /// Whether superseded rows are kept for the window: see [`Store::retain_history`].
    pub(crate) retains_history: bool,
    /// The oldest snapshot that can be read.
    pub(crate) floor: CommitSequence,
    /// The lowest timestamp that can be read up to: the highest of a version whose predecessor has been
    /// dropped.
    pub(crate) floor_time: Timestamp,
    /// The highest timestamp installed.
    pub(crate) newest_time: Timestamp,
    /// The position of the last loaded row, which the next one mostly follows.
    pub(crate) loaded: Position,
    /// The last writer of each register, if kept: see [`Store::keep_writers`].
    pub(crate) writers: Option<LastWriters>,
}

/// Prints the rows, not their schema.
impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("items", &self.items)
            .field("indexes", &self.indexes)
            .field("writers", &self.writers)
            .finish_non_exhaustive()
    }
}

/// The multi-version store of one partition. See the [crate] for its guarantees.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) tables: Vec<Table>,
    pub(crate) last: CommitSequence,
    pub(crate) collector: Collector,
    /// The commits installed and not taken since recording began; `None` if it has not.
    pub(crate) recording: Option<Vec<Installed>>,
    /// How often all rows were [replaced](Store::replace) before.
    pub(crate) generation: u64,
    /// The rows that were replaced last, while an export of them or of those before them runs.
    pub(crate) replaced: Option<Box<Store>>,
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
            generation: 0,
            replaced: None,
        }
    }

    /// Keeps the last writer of each register from now on, so that transactions can be installed at
    /// timestamps below those of others, however old. Must be called before the first installation. It
    /// covers updates only: a late insert or delete still depends on the versions that are kept.
    pub fn keep_writers(&mut self) {
        for table in &mut self.tables {
            table.writers.get_or_insert_default();
        }
    }

    /// The newest commit: the snapshot of a reader that starts now.
    #[inline]
    pub fn last(&self) -> CommitSequence {
        self.last
    }

    /// How long a superseded version is kept.
    #[inline]
    pub fn window(&self) -> Ticks {
        self.collector.window
    }

    /// One item with its versions; `None` if it has none.
    #[inline]
    pub fn item(&self, table: TableId, key: &Key) -> Option<&Item> {
        self.tables[table.index()].items.get(key)
    }

    /// Visits the items that a read finds, in the read's order.
    ///
    /// It calls `visit` for *every* item in the range, with the version that belongs to the answer: the
    /// one that `snapshot` sees (`None`: the newest), if it is a row and, through a secondary index, lies
    /// in the range. It also visits items without such a version: their versions may show that the
    /// snapshot misses a transaction. `limit` counts rows of the answer, and the visit ends with the last
    /// of them.
    ///
    /// Through a secondary index an item may be visited more than once, but is in the answer once.
    ///
    /// # Errors
    /// [`BelowFloor`]: no item is visited.
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

    /// Visits the items that a read finds as of a timestamp, as [`Store::read`] does.
    ///
    /// Correct under the conditions of [`Store::fetch_up_to`].
    ///
    /// # Errors
    /// [`BelowTime`]: no item is visited.
    pub fn read_up_to(
        &self,
        read: &Read,
        timestamp: Timestamp,
        visit: &mut impl FnMut(&Key, &Item, Option<&Version>),
    ) -> Result<(), BelowTime> {
        let floor = self.time_floor(read.table());
        if timestamp < floor {
            return Err(BelowTime {
                asked: timestamp,
                floor,
            });
        }
        self.visit(read, ReadPoint::Timestamp(timestamp), visit);
        Ok(())
    }

    /// The lowest timestamp that a table can be read up to.
    pub fn time_floor(&self, table: TableId) -> Timestamp {
        self.tables[table.index()].floor_time
    }

    /// The highest position at which a table was changed, as far as it is known.
    pub fn newest_time(&self, table: TableId) -> Timestamp {
        self.tables[table.index()].newest_time
    }

    /// [`Store::read`] without the check of the floor.
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

    /// Adds the answers to several reads in a snapshot (`None`: the newest versions) to `fetched`, in
    /// order. Consecutive point reads of a table are searched in step, and their rows are loaded into
    /// the processor's caches together; otherwise each would wait for memory several times.
    ///
    /// `touched` gets the index in `fetched` of each answer that may depend on a commit at or after
    /// `since`, in order (`None`: of none): points whose newest version is not older, points that find
    /// nothing, and ranges.
    ///
    /// # Errors
    /// [`BelowFloor`]: `fetched` is incomplete.
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

    /// Adds the answers to several reads as of a timestamp to `fetched`, in order: they include the
    /// transactions with timestamps up to this one that are installed here.
    ///
    /// Correct only if each item's versions are installed in the order of their timestamps, and no
    /// transaction with a timestamp up to this one is installed later.
    ///
    /// # Errors
    /// [`BelowTime`]: `fetched` is incomplete.
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

    /// The answers to several reads, each at the read point that `point_of` gives for its table.
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
                // `touched` must be the same with recording: otherwise recorded histories would not
                // show that a caller has skipped a read by mistake.
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

    /// Adds the items of a table with these keys to `found`, and starts loading their rows into the
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

    /// Loads a row, at [`Timestamp::ZERO`], before all transactions. Fastest when a table's rows come in
    /// key order. Unique indexes are not checked.
    ///
    /// # Errors
    /// [`LoadError::Duplicate`]: the existing row stays.
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

    /// The approximate size of the store in bytes.
    pub fn memory(&self) -> usize {
        let tables: usize = self.tables.iter().map(Table::memory).sum();
        tables + self.collector.approximate_bytes()
    }

    /// The number of rows of a table, in the newest versions.
    pub fn rows(&self, table: TableId) -> usize {
        self.tables[table.index()].live
    }

    /// The number of versions kept of all items, including superseded ones and tombstones. Visits every
    /// item.
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

/// Reads a byte of each cache line of the items' newest rows, so that their memory accesses overlap.
pub(crate) fn touch<'i>(items: impl Iterator<Item = &'i Item>) {
    let mut sum = 0u8;
    for row in items.filter_map(|item| item.head.row()) {
        let lines = row.as_bytes().chunks(64);
        sum = lines.fold(sum, |sum, line| sum ^ line[0]);
    }
    std::hint::black_box(sum);
}

/// Whether the answer to a point read may depend on a commit at or after `since`.
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
    /// Whether an assignment of these columns replaces a row except for its key, and affects no index.
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

    /// Whether this index entry is the version's; a single version's always is.
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

    /// Adds the index entries of an item's new row that the row `before` does not have.
    pub(crate) fn add_entries(&mut self, key: &Key, before: Option<&Row>, row: &Row) {
        for (described, index) in self.schema.indexes.iter().zip(&mut self.indexes) {
            let made = before
                .is_some_and(|before| index::same_entry(&self.schema, described, before, row));
            if !made {
                index.add(&self.schema, described, row, key);
            }
        }
    }

    /// Inserts a new item with its first version.
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

/// The memory of a version's row: its bytes, its reference counts, the allocator's header.
pub(crate) fn row_bytes(version: &Version) -> usize {
    version
        .row
        .as_ref()
        .map_or(0, |row| row.as_bytes().len() + 24)
}

/// Visits entries in ascending or descending order while `visit` returns true.
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
