//! A transaction's effects on one partition, all or nothing.
//!
//! Two passes. The first *stages*: it computes every new row, runs the row programs, and checks
//! uniqueness against the newest versions and within the transaction. It does not change the store, so
//! an error leaves no trace. The second *installs* all changes at one sequence and cannot fail.
//! [`Store::check`] is the first pass alone, for a participant that prepares.

use anabranch_types::{
    ColumnIndex, ColumnSet, Effect, EffectError, IndexSchema, Key, KeyReader, Patch, ProgramId,
    Row, RowPrograms, SlotId, TableId, TableSchema, Ticks, TimeZone, Timestamp, Value, text,
};
use smallvec::SmallVec;

use crate::change_index::{ChangeIndex, INDEXED_FROM};
use crate::collector::{Queued, Trim};
use crate::index;
use crate::store::{Store, Table, row_bytes, touch};
use crate::tree::Position;
use crate::version::{CommitSequence, Item, Version, hash_key};

/// One transaction's commit on this partition.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The transaction.
    pub timestamp: Timestamp,
    /// Its effects here, in order of execution.
    pub effects: Vec<Effect>,
}

/// The values that a transaction's deferred effects have produced.
#[derive(Clone, Debug, Default)]
pub struct SlotValues {
    values: SmallVec<[(SlotId, Value); 1]>,
}

impl SlotValues {
    /// The value in a slot, if it is filled.
    pub fn get(&self, slot: SlotId) -> Option<&Value> {
        self.values
            .iter()
            .find(|(at, _)| *at == slot)
            .map(|(_, value)| value)
    }

    /// Fills a slot.
    pub fn set(&mut self, slot: SlotId, value: Value) {
        match self.values.iter_mut().find(|(at, _)| *at == slot) {
            Some((_, held)) => *held = value,
            None => self.values.push((slot, value)),
        }
    }

    /// The slots and their values, in the order in which they were filled.
    pub fn iter(&self) -> impl Iterator<Item = &(SlotId, Value)> {
        self.values.iter()
    }

    /// The slots and their values, in the order in which they were filled.
    pub fn into_vec(self) -> Vec<(SlotId, Value)> {
        self.values.into_vec()
    }
}

/// Why a transaction's effects cannot be installed. None of them is installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The primary key or a unique index's key is taken.
    #[error(
        "duplicate key value violates unique constraint \"{constraint}\": key {key} exists in \"{table}\""
    )]
    Duplicate {
        /// The table's name.
        table: String,
        /// The unique index's name; `TABLE_pkey` for the primary key.
        constraint: String,
        /// Columns and values, as `(a, b)=(1, 2)`.
        key: String,
    },
    /// An update with outputs found no row.
    #[error("an update whose result is needed found no row in table \"{table}\"")]
    MissingRow {
        /// The table's name.
        table: String,
    },
    /// A row program failed: a constraint, or the domain of a type.
    #[error("{}", .0.message)]
    Effect(EffectError),
}

impl ApplyError {
    /// The error of a row whose primary key is taken.
    pub fn duplicate_key(schema: &TableSchema, row: &Row) -> ApplyError {
        duplicate(schema, None, row)
    }

    /// The error for the user, with its SQLSTATE; `None` for a missing row, after which the transaction has
    /// to run again without deferral.
    pub fn into_effect_error(self) -> Option<EffectError> {
        match self {
            ApplyError::Duplicate {
                table,
                constraint,
                key,
            } => {
                let message =
                    format!("duplicate key value violates unique constraint \"{constraint}\"");
                let error = EffectError::new("23505", message)
                    .of_table(table)
                    .of_constraint(constraint)
                    .with_detail(format!("Key {key} already exists."));
                Some(error)
            }
            ApplyError::MissingRow { .. } => None,
            ApplyError::Effect(error) => Some(error),
        }
    }
}

impl Store {
    /// Installs a transaction's effects at the next sequence.
    ///
    /// Outputs of row programs go into `slots`, from which patches of inserted rows and keys are resolved.
    /// `now` is for the collector (see [`Store::collect`]).
    ///
    /// The rules, for a transaction with timestamp *t*:
    ///
    /// * An insert fails if the newest version is a row, whatever its timestamp.
    /// * An update of a missing row does nothing, unless it has outputs: then it fails.
    /// * An update skips a column that a version above *t* has assigned; an insert or a delete above *t*
    ///   takes precedence over a delete or an insert at *t*. A skipped change still leaves a version at
    ///   *t*, so that a reader sees that the transaction is included.
    ///
    /// # Errors
    /// [`ApplyError`]: nothing is installed, and `slots` is unchanged.
    pub fn apply(
        &mut self,
        now: Ticks,
        commit: Commit,
        slots: &mut SlotValues,
        programs: &dyn RowPrograms,
    ) -> Result<CommitSequence, ApplyError> {
        let Commit { timestamp, effects } = commit;
        let staged = match self.stage(timestamp, effects, slots, programs) {
            Ok(staged) => staged,
            Err(error) => {
                self.collector.trim.history_discarded = None;
                return Err(error);
            }
        };
        Ok(self.install(now, timestamp, staged))
    }

    /// The first pass of [`Store::apply`]: computes the changes and does not change the store.
    ///
    /// If the participant excludes other writers of these items until [`Store::install`], the values in
    /// `slots` are final.
    ///
    /// # Errors
    /// As [`Store::apply`].
    pub fn stage(
        &self,
        timestamp: Timestamp,
        effects: Vec<Effect>,
        slots: &mut SlotValues,
        programs: &dyn RowPrograms,
    ) -> Result<Staged, ApplyError> {
        let slots_before = slots.values.len();
        let mut staging = Staging::new(self, timestamp, programs, effects.len());
        let places = self.locate(&effects);
        for (effect, place) in effects.into_iter().zip(places) {
            let staged = match effect {
                Effect::Insert {
                    table,
                    key,
                    row,
                    patches,
                } => staging.insert(table, key, row, &patches, slots),
                Effect::Update {
                    table,
                    key,
                    program,
                    arguments,
                    outputs,
                } => {
                    let update = Update {
                        program,
                        arguments: &arguments,
                        outputs,
                    };
                    staging.update(table, key, place, update, slots)
                }
                Effect::Delete { table, key } => {
                    staging.delete(table, &key);
                    Ok(())
                }
            };
            if let Err(error) = staged {
                slots.values.truncate(slots_before);
                return Err(error);
            }
        }
        Ok(Staged {
            changes: staging.changes,
        })
    }

    /// The second pass of [`Store::apply`]: installs the staged changes at the next sequence.
    ///
    /// The rows that the first pass read must not have changed since.
    pub fn install(&mut self, now: Ticks, timestamp: Timestamp, staged: Staged) -> CommitSequence {
        self.last = CommitSequence(self.last.0 + 1);
        self.collector.mark(now, self.last);
        if self.recording.is_some() {
            self.record_install(now, timestamp, &staged.changes);
        }
        for change in staged.changes {
            self.install_change(change, timestamp);
        }
        self.collector.trim.history_discarded = None;
        self.last
    }

    /// Checks whether [`Store::apply`] would succeed now: the dry run of a participant that prepares.
    ///
    /// # Errors
    /// As [`Store::apply`].
    pub fn check(
        &self,
        timestamp: Timestamp,
        effects: &[Effect],
        programs: &dyn RowPrograms,
    ) -> Result<(), ApplyError> {
        self.prestage(timestamp, effects, programs).map(|_| ())
    }

    /// [`Store::check`] that returns the staged changes. If `timestamp` is above all installed ones, they
    /// can be installed later at a timestamp no lower, provided that they [are still
    /// current](Store::is_current).
    ///
    /// # Errors
    /// As [`Store::apply`].
    pub fn prestage(
        &self,
        timestamp: Timestamp,
        effects: &[Effect],
        programs: &dyn RowPrograms,
    ) -> Result<(Staged, SlotValues), ApplyError> {
        let mut slots = SlotValues::default();
        let mut staging = Staging::new(self, timestamp, programs, effects.len());
        let places = self.locate(effects);
        for (effect, place) in effects.iter().zip(places) {
            match effect {
                Effect::Insert {
                    table,
                    key,
                    row,
                    patches,
                } => {
                    staging.insert(*table, key.clone(), row.clone(), patches, &slots)?;
                }
                Effect::Update {
                    table,
                    key,
                    program,
                    arguments,
                    outputs,
                } => {
                    let update = Update {
                        program: *program,
                        arguments,
                        outputs: *outputs,
                    };
                    staging.update(*table, key.clone(), place, update, &mut slots)?;
                }
                Effect::Delete { table, key } => staging.delete(*table, key),
            }
        }
        let changes = staging.changes;
        Ok((Staged { changes }, slots))
    }

    /// Enters the values of slots in an inserted row and its key, as [`Store::apply`] does. Every slot of `patches` must
    /// be filled.
    ///
    /// # Errors
    /// If a value is out of the column's range, or NULL.
    pub fn resolve(
        &self,
        table: TableId,
        patches: &[Patch],
        slots: &SlotValues,
        key: &mut Key,
        row: &mut Row,
    ) -> Result<(), ApplyError> {
        let schema = &self.tables[table.index()].schema;
        patches
            .iter()
            .try_for_each(|patch| resolve(schema, patch, slots, key, row))
    }

    /// The positions of updated rows, one entry an effect. Consecutive updates of one table are searched
    /// in step, and their rows are loaded into the processor's caches together.
    fn locate(&self, effects: &[Effect]) -> SmallVec<[Option<Position>; 32]> {
        let mut places: SmallVec<[Option<Position>; 32]> = SmallVec::new();
        while let Some(effect) = effects.get(places.len()) {
            let Effect::Update { table, .. } = effect else {
                places.push(None);
                continue;
            };
            let begin = places.len();
            let run = effects[begin..].iter().map_while(|effect| match effect {
                Effect::Update { table: of, key, .. } if of == table => Some(key),
                _ => None,
            });
            let items = &self.tables[table.index()].items;
            items.find_in_step(run, |at| places.push(at));
            if places.len() > begin + 1 {
                touch(places[begin..].iter().flatten().map(|at| items.at(*at)));
            }
        }
        places
    }

    /// Whether changes staged when the newest commit was `since` equal those that would be staged now, and
    /// so may be installed: no item that they touch has a newer version, or its newer versions make no
    /// difference. The latter needs the timestamp `at` of the installation, and a caller that excludes
    /// inserts and deletes of updated rows.
    pub fn is_current(
        &self,
        staged: &Staged,
        since: CommitSequence,
        at: Option<Timestamp>,
    ) -> bool {
        let is_current = |change: &Change| {
            self.item_of(change).is_none_or(|item| {
                item.head.sequence <= since
                    || (change.overwrites
                        && item.head.row.is_some()
                        && at.is_some_and(|at| item.head.timestamp_max < at))
            })
        };
        self.last == since || staged.changes.iter().all(is_current)
    }

    /// The item of a change, if it exists; the search starts at its position when it was staged.
    pub fn item_of(&self, change: &Change) -> Option<&Item> {
        let items = &self.tables[change.table.index()].items;
        match change.place {
            Ok(at) => items.get_at(at, &change.key),
            Err(_) => items.get(&change.key),
        }
    }

    fn install_change(&mut self, change: Change, timestamp: Timestamp) {
        let table = &mut self.tables[change.table.index()];
        table.newest_time = table.newest_time.max(timestamp);
        if let Some(writers) = &mut table.writers {
            writers.wrote(&change.key, timestamp, change.assigned);
        }
        let version = Version {
            timestamp,
            timestamp_max: timestamp,
            sequence: self.last,
            row: change.row,
            assigned: change.assigned,
            older: None,
        };
        let key = &change.key;
        let found = match change.place {
            Ok(at) => table.items.get_mut_at(at, key),
            Err(_) => None,
        };
        let (Ok(place) | Err(place)) = change.place;
        let due = if let Some(item) = found {
            let trim = &mut self.collector.trim;
            let late = |late| match change.late_writes_possible {
                true => late,
                false => Timestamp::MAX,
            };
            let history_discarded = trim
                .history_discarded
                .filter(|_| !table.retains_history && trim.is_unpinned(&item.head))
                .map(late);
            let same_entries =
                history_discarded.is_some() && indexed_alike(&table.schema, &item.head, &version);
            if let Some(late) = history_discarded
                && same_entries
                && replaceable(item, &version, late)
            {
                table.bytes += row_bytes(&version);
                table.bytes -= row_bytes(&item.head);
                replace(item, version);
                table.raise_floor((self.last, timestamp));
                return;
            }
            let indexed = !table.indexes.is_empty() && !same_entries;
            let shared = |row: &Option<Row>| if indexed { row.clone() } else { None };
            let (before, after) = (shared(&item.head.row), shared(&version.row));
            table.live -= usize::from(item.head.row.is_some());
            table.live += usize::from(version.row.is_some());
            table.bytes += row_bytes(&version) + size_of::<Version>();
            if same_entries {
                // The superseded version stays to decide between the writers of its registers; its row is
                // not read.
                table.bytes -= row_bytes(&item.head);
                item.head.row = None;
                table.floor = self.last;
                table.floor_time = table.floor_time.max(timestamp);
            }
            push(item, version, trim);
            let queue = !std::mem::replace(&mut item.queued, true);
            item.until_truncation -= 1;
            let truncate = item.until_truncation == 0;
            if let Some(after) = after {
                table.add_entries(key, before.as_ref(), &after);
            }
            if truncate {
                table.truncate(key, &mut self.collector.trim);
            }
            queue
        } else {
            let queue = version.row.is_none();
            if let Some(row) = &version.row {
                table.add_entries(key, None, row);
            }
            if !queue {
                table.insert_item(place, change.key, version, queue);
                return;
            }
            table.insert_item(place, key.clone(), version, queue);
            queue
        };
        if due {
            let queued = Queued {
                sequence: self.last,
                table: change.table,
                key: change.key,
                position: Some(place),
            };
            self.collector.put(table.retains_history, queued);
        }
    }
}

/// Whether both are rows with the same entries in every secondary index.
fn indexed_alike(schema: &TableSchema, head: &Version, version: &Version) -> bool {
    let (Some(before), Some(row)) = (&head.row, &version.row) else {
        return false;
    };
    schema
        .indexes
        .iter()
        .all(|index| index::same_entry(schema, index, before, row))
}

/// Whether a version may replace an item's newest one, if no reader needs old versions: every later
/// transaction has a timestamp above the replaced version's (`late`), or the new version assigns all of
/// its registers, so that a late transaction skips them all.
fn replaceable(item: &Item, version: &Version, late: Timestamp) -> bool {
    let head = &item.head;
    head.timestamp_max < version.timestamp
        && (version.assigned.covers(head.assigned) || head.timestamp_max <= late)
}

/// Replaces the newest version.
fn replace(item: &mut Item, mut version: Version) {
    version.older = item.head.older.take();
    item.head = version;
}

/// Makes a version the newest of an item.
fn push(item: &mut Item, mut version: Version, trim: &mut Trim) {
    version.timestamp_max = version.timestamp.max(item.head.timestamp_max);
    let older = std::mem::replace(&mut item.head, version);
    item.head.older = Some(trim.boxed(older));
}

/// The staged changes of a transaction: see [`Store::stage`].
#[derive(Clone, Debug)]
pub struct Staged {
    pub(crate) changes: Vec<Change>,
}

impl Staged {
    /// The changes, one an item, in the order of first access.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Declares for which items a transaction with a lower timestamp may still be installed, within the
    /// limit of [`Store::discard_history`]. For the others, no version is kept to decide between the two.
    /// The default is all items.
    pub fn expect_late_writes(&mut self, is_contested: impl Fn(&Change) -> bool) {
        for change in &mut self.changes {
            change.late_writes_possible = is_contested(change);
        }
    }
}

/// The change of one item.
#[derive(Clone, Debug)]
pub struct Change {
    pub(crate) table: TableId,
    pub(crate) key: Key,
    pub(crate) row: Option<Row>,
    pub(crate) assigned: ColumnSet,
    pub(crate) replaces: Option<ColumnSet>,
    /// Whether the new row replaces the old one except for its key.
    pub(crate) overwrites: bool,
    /// See [`Staged::expect_late_writes`].
    pub(crate) late_writes_possible: bool,
    /// The item's position, or about where it would be inserted.
    pub(crate) place: Result<Position, Position>,
}

impl Change {
    /// The item's table.
    #[inline]
    pub fn table(&self) -> TableId {
        self.table
    }

    /// The item's primary key, patched.
    #[inline]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The new row; `None` when it is deleted.
    #[inline]
    pub fn row(&self) -> Option<&Row> {
        self.row.as_ref()
    }

    /// The columns that were assigned, if nothing else was done to the row.
    #[inline]
    pub fn replaces(&self) -> Option<ColumnSet> {
        self.replaces
    }
}

/// The state of the first pass: the store, and the transaction's changes so far.
struct Staging<'s> {
    store: &'s Store,
    programs: &'s dyn RowPrograms,
    timestamp: Timestamp,
    changes: Vec<Change>,
    /// A hash of each change's item, for a quick search.
    hashes: SmallVec<[u64; 32]>,
    /// A Bloom filter of the hashes: an item whose bit is not set has no change.
    filter: [u64; 4],
    /// Finds changes, if there are many.
    index: Option<Box<ChangeIndex>>,
    /// The position of the last insertion, which the next one mostly follows.
    inserted: (TableId, Position),
}

/// The program of an update, with its arguments.
struct Update<'u> {
    program: ProgramId,
    arguments: &'u [Value],
    outputs: Option<SlotId>,
}

impl<'s> Staging<'s> {
    fn new(
        store: &'s Store,
        timestamp: Timestamp,
        programs: &'s dyn RowPrograms,
        effects: usize,
    ) -> Staging<'s> {
        Staging {
            store,
            programs,
            timestamp,
            changes: Vec::with_capacity(effects),
            hashes: SmallVec::new(),
            filter: [0; 4],
            index: None,
            inserted: (TableId(0), Position::ANYWHERE),
        }
    }

    fn insert(
        &mut self,
        table: TableId,
        mut key: Key,
        mut row: Row,
        patches: &[Patch],
        slots: &SlotValues,
    ) -> Result<(), ApplyError> {
        let held = &self.store.tables[table.index()];
        for patch in patches {
            resolve(&held.schema, patch, slots, &mut key, &mut row)?;
        }
        let (staged, hash) = self.staged(table, &key);
        let place = match self.inserted {
            (of, near) if of == table => held.items.seek_near(near, &key),
            _ => held.items.seek(&key),
        };
        let (Ok(near) | Err(near)) = place;
        self.inserted = (table, near);
        let item = place.ok().map(|at| held.items.at(at));
        let current = match staged {
            Some(staged) => self.changes[staged].row.as_ref(),
            None => item.and_then(|item| item.head.row.as_ref()),
        };
        if current.is_some() {
            return Err(duplicate(&held.schema, None, &row));
        }
        let late = item.is_some_and(|item| {
            self.assigned_later(held, &key, item, || ColumnSet::ALL) == ColumnSet::ALL
        });
        let (row, assigned) = if late {
            (None, ColumnSet::EMPTY)
        } else {
            (Some(row), ColumnSet::ALL)
        };
        if let Some(row) = &row {
            self.check_unique(held, &key, row, None)?;
        }
        self.stage(
            staged,
            hash,
            Change {
                table,
                key,
                row,
                assigned,
                replaces: None,
                overwrites: false,
                late_writes_possible: true,
                place,
            },
        );
        Ok(())
    }

    /// `place` is the item's position in the store, if it exists.
    fn update(
        &mut self,
        table: TableId,
        key: Key,
        place: Option<Position>,
        update: Update,
        slots: &mut SlotValues,
    ) -> Result<(), ApplyError> {
        let Update {
            program,
            arguments,
            outputs,
        } = update;
        let held = &self.store.tables[table.index()];
        let (staged, hash) = self.staged(table, &key);
        let item = place.map(|at| held.items.at(at));
        let current = match staged {
            Some(staged) => self.changes[staged].row.as_ref(),
            None => item.and_then(|item| item.head.row.as_ref()),
        };
        let Some(current) = current else {
            return match outputs {
                Some(_) => Err(ApplyError::MissingRow {
                    table: held.schema.name.clone(),
                }),
                None => Ok(()),
            };
        };
        let skip = item.map_or(ColumnSet::EMPTY, |item| {
            // A later assignment of a column also supersedes an increment of it.
            let asked = || self.programs.replaces(program).unwrap_or(ColumnSet::ALL);
            self.assigned_later(held, &key, item, asked)
        });
        let applied = self
            .programs
            .apply(program, current, arguments, skip)
            .map_err(ApplyError::Effect)?;
        self.check_unique(held, &key, &applied.row, Some(current))?;
        if let Some(first) = outputs {
            for (number, value) in applied.outputs.into_iter().enumerate() {
                slots.set(SlotId(first.0 + number as u16), value);
            }
        }
        let replaces = self.programs.replaces(program);
        let assigned = replaces.unwrap_or_else(|| self.programs.assigned(program));
        self.stage(
            staged,
            hash,
            Change {
                table,
                key,
                row: Some(applied.row),
                assigned,
                replaces,
                overwrites: replaces.is_some_and(|columns| held.is_overwritten(columns)),
                late_writes_possible: true,
                place: place.ok_or(Position::ANYWHERE),
            },
        );
        Ok(())
    }

    fn delete(&mut self, table: TableId, key: &Key) {
        let held = &self.store.tables[table.index()];
        let (staged, hash) = self.staged(table, key);
        let place = held.items.seek(key);
        let item = place.ok().map(|at| held.items.at(at));
        let current = match staged {
            Some(staged) => self.changes[staged].row.clone(),
            None => item.and_then(|item| item.head.row.clone()),
        };
        if current.is_none() {
            return;
        }
        let late = item.is_some_and(|item| {
            self.assigned_later(held, key, item, || ColumnSet::ALL) == ColumnSet::ALL
        });
        let (row, assigned) = if late {
            (current, ColumnSet::EMPTY)
        } else {
            (None, ColumnSet::ALL)
        };
        self.stage(
            staged,
            hash,
            Change {
                table,
                key: key.clone(),
                row,
                assigned,
                replaces: None,
                overwrites: false,
                late_writes_possible: true,
                place,
            },
        );
    }

    /// The index of the transaction's change of this item, if any, and the item's hash.
    fn staged(&self, table: TableId, key: &Key) -> (Option<usize>, u64) {
        let hash = hash_key(key).wrapping_add(u64::from(table.0));
        let (word, bit) = filtered(hash);
        if self.filter[word] & bit == 0 {
            return (None, hash);
        }
        let is_it = |at: &usize| self.changes[*at].table == table && self.changes[*at].key == *key;
        let found = match &self.index {
            Some(index) => index.of_item(hash).find(is_it),
            None => {
                let mut same = (0..).zip(&self.hashes).filter(|(_, held)| **held == hash);
                same.find(|(at, _)| is_it(at)).map(|(at, _)| at)
            }
        };
        (found, hash)
    }

    fn stage(&mut self, staged: Option<usize>, hash: u64, change: Change) {
        match staged {
            Some(staged) => {
                let held = &mut self.changes[staged];
                held.assigned = held.assigned.union(change.assigned);
                held.row = change.row;
                held.replaces = None;
                held.overwrites = false;
                self.note_row(staged);
            }
            None => {
                let place = self.changes.len();
                self.changes.push(change);
                self.hashes.push(hash);
                let (word, bit) = filtered(hash);
                self.filter[word] |= bit;
                if let Some(index) = &mut self.index {
                    index.note_item(place, hash);
                    self.note_row(place);
                } else if self.changes.len() == INDEXED_FROM {
                    let mut index = ChangeIndex::default();
                    for (place, hash) in self.hashes.iter().enumerate() {
                        index.note_item(place, *hash);
                    }
                    self.index = Some(Box::new(index));
                    (0..INDEXED_FROM).for_each(|place| self.note_row(place));
                }
            }
        }
    }

    /// Notes the row that a change leaves in the index, if there is one.
    fn note_row(&mut self, place: usize) {
        let change = &self.changes[place];
        if let (Some(index), Some(row)) = (&mut self.index, &change.row) {
            let schema = &self.store.tables[change.table.index()].schema;
            index.note_row(place, schema, row);
        }
    }

    /// The columns that transactions with higher timestamps have assigned; the search may stop once all
    /// `asked` columns are among them.
    fn assigned_later(
        &self,
        held: &Table,
        key: &Key,
        item: &Item,
        asked: impl FnOnce() -> ColumnSet,
    ) -> ColumnSet {
        if let Some(writers) = &held.writers {
            return writers.after(key, self.timestamp);
        }
        let mut columns = ColumnSet::EMPTY;
        if item.head.timestamp_max <= self.timestamp {
            return columns;
        }
        let asked = asked();
        let may_be_later = |version: &&Version| version.timestamp_max > self.timestamp;
        for version in item.versions().take_while(may_be_later) {
            if version.timestamp > self.timestamp {
                columns = columns.union(version.assigned);
            }
            if columns.covers(asked) {
                break;
            }
        }
        columns
    }

    /// Fails if another row has this row's key in a unique index.
    fn check_unique(
        &self,
        held: &Table,
        key: &Key,
        row: &Row,
        before: Option<&Row>,
    ) -> Result<(), ApplyError> {
        for described in held.schema.indexes.iter().filter(|index| index.unique) {
            let unchanged = before
                .is_some_and(|before| index::same_entry(&held.schema, described, before, row));
            if unchanged || index::has_null(&held.schema, described, row) {
                continue;
            }
            let prefix = index::index_prefix(&held.schema, described, row);
            if self.taken(held, described, &prefix, key) {
                return Err(duplicate(&held.schema, Some(described), row));
            }
        }
        Ok(())
    }

    /// Whether a row with another primary key has this key of a unique index, in the store or among the
    /// transaction's changes.
    fn taken(&self, held: &Table, described: &IndexSchema, prefix: &Key, key: &Key) -> bool {
        let agrees = |row: &Row| index::index_prefix(&held.schema, described, row) == *prefix;
        let entries = &held.indexes[described.id.index()].entries;
        let stored = entries
            .range(prefix, prefix.successor().as_ref())
            .any(|(entry, offset)| {
                let other = index::primary_key(entry, *offset);
                other != *key
                    && self.staged(held.schema.id, &other).0.is_none()
                    && held
                        .items
                        .get(&other)
                        .and_then(|item| item.head.row.as_ref())
                        .is_some_and(agrees)
            });
        let has_it = |change: &Change| {
            change.table == held.schema.id
                && change.key != *key
                && change.row.as_ref().is_some_and(agrees)
        };
        let is_staged = || match &self.index {
            Some(index) => {
                let mut places = index.of_key(held.schema.id, described.id, prefix);
                places.any(|place| has_it(&self.changes[place]))
            }
            None => self.changes.iter().any(has_it),
        };
        stored || is_staged()
    }
}

/// A hash's word and bit in [`Staging::filter`].
fn filtered(hash: u64) -> (usize, u64) {
    ((hash >> 6 & 3) as usize, 1 << (hash & 63))
}

/// Writes a slot's value into a row to be inserted, and into its key.
fn resolve(
    schema: &TableSchema,
    patch: &Patch,
    slots: &SlotValues,
    key: &mut Key,
    row: &mut Row,
) -> Result<(), ApplyError> {
    let column = &schema.columns[patch.column.index()];
    let value = match slots.get(patch.slot) {
        Some(Value::Int(int)) => int.checked_add(patch.offset),
        Some(Value::Null) => {
            let message = format!(
                "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                column.name, schema.name
            );
            let error = EffectError::new("23502", message)
                .of_table(schema.name.clone())
                .of_column(column.name.clone());
            return Err(ApplyError::Effect(error));
        }
        other => panic!("{} holds {other:?} when an insert needs it", patch.slot),
    };
    let out_of_range = || {
        let message = format!("{} out of range", column.data_type);
        ApplyError::Effect(EffectError::new("22003", message))
    };
    let value = value.ok_or_else(out_of_range)?;
    if !row.patch_int(&schema.layout, patch.column, value) {
        return Err(out_of_range());
    }
    let Some(position) = schema.primary_key.iter().position(|c| *c == patch.column) else {
        return Ok(());
    };
    let offset = {
        let mut reader = KeyReader::new(key.as_bytes());
        for before in &schema.primary_key[..position] {
            let before = &schema.columns[before.index()];
            reader
                .skip(&before.data_type, before.nullable)
                .expect("the key has all its columns");
        }
        reader.position() + usize::from(column.nullable)
    };
    let width = anabranch_types::key::key_width(&column.data_type, false).expect("an integer");
    key.patch_int(offset, width, value)
        .map_err(|_| out_of_range())
}

fn duplicate(schema: &TableSchema, index: Option<&IndexSchema>, row: &Row) -> ApplyError {
    let columns = index.map_or(&schema.primary_key, |index| &index.columns);
    let list = |of: &dyn Fn(ColumnIndex) -> String| {
        columns
            .iter()
            .map(|column| of(*column))
            .collect::<Vec<_>>()
            .join(", ")
    };
    ApplyError::Duplicate {
        table: schema.name.clone(),
        constraint: index.map_or_else(|| format!("{}_pkey", schema.name), |i| i.name.clone()),
        key: format!(
            "({})=({})",
            list(&|column| schema.columns[column.index()].name.clone()),
            list(&|column| {
                let data_type = &schema.columns[column.index()].data_type;
                match row.get(&schema.layout, column) {
                    Value::Null => "null".to_owned(),
                    value => text::format_value(&value, data_type, &TimeZone::UTC),
                }
            }),
        ),
    }
}
