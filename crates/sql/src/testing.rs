//! A store in memory for tests, of this crate and of those above it: one transaction at a time.
//!
//! Effects are applied as they are written, and undone on rollback. A deferred effect is applied at once too, so that
//! its outputs are known, but the statement gets pending values all the same.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use anabranch_types::{
    ColumnIndex, ColumnSet, Effect, EffectError, Fetched, Key, KeyRange, Read, Row, RowPrograms,
    Schema, SequenceId, SequencePoint, SlotId, TableId, TableSchema, TimeZone, Value,
};

use crate::{
    Transaction, TransactionError,
    application::Application,
    change::{MappingContext, SchemaChange, TableRows},
    sequence::{ResolvedSequence, SessionSequences},
    summary::StatementId,
    transaction::{SequenceError, Sequences},
};

/// A database in memory.
#[derive(Clone)]
pub struct Store {
    schema: Schema,
    programs: Arc<dyn RowPrograms>,
    tables: Vec<StoredTable>,
    transactions: u64,
    sequences: Rc<Counters>,
}

/// One counter a sequence, from 1.
#[derive(Debug, Default)]
struct Counters {
    points: RefCell<BTreeMap<SequenceId, SequencePoint>>,
    session: SessionSequences,
}

impl Counters {
    fn point(&self, sequence: &ResolvedSequence) -> SequencePoint {
        let points = self.points.borrow();
        let first = SequencePoint::first(sequence.options.start);
        points.get(&sequence.id).copied().unwrap_or(first)
    }
}

impl Sequences for Counters {
    fn next(&self, sequence: &ResolvedSequence) -> Option<i64> {
        let mut point = self.point(sequence);
        let number = sequence.options.number(point.base, point.drawn)?;
        point.drawn += 1;
        self.points.borrow_mut().insert(sequence.id, point);
        self.session.drawn(sequence, number);
        Some(number)
    }

    fn current(&self, sequence: &ResolvedSequence) -> Option<i64> {
        self.session.current(sequence)
    }

    fn last(&self) -> Option<i64> {
        self.session.last()
    }

    fn set(
        &self,
        sequence: &ResolvedSequence,
        number: i64,
        is_called: bool,
    ) -> Result<(), SequenceError> {
        let point = SequencePoint {
            epoch: self.point(sequence).epoch + 1,
            drawn: u64::from(is_called),
            base: number,
        };
        self.points.borrow_mut().insert(sequence.id, point);
        if is_called {
            self.session.set(sequence, number);
        }
        Ok(())
    }

    fn state(&self, sequence: &ResolvedSequence) -> (i64, bool) {
        sequence.options.last(self.point(sequence))
    }
}

#[derive(Clone, Default)]
struct StoredTable {
    rows: BTreeMap<Key, Row>,
    /// By index: the index's key followed by the primary key, and the primary key.
    indexes: Vec<BTreeMap<Key, Key>>,
}

/// A transaction on a [`Store`]. Dropping it keeps what it wrote.
pub struct StoreTransaction<'s> {
    store: &'s mut Store,
    undo: Vec<(TableId, Key, Option<Row>)>,
    slots: Vec<Value>,
    inserted: BTreeSet<(u16, Key)>,
    drawn: u64,
    /// Whether UPDATEs that can be deferred are.
    pub defer: bool,
    /// Every batch of reads: the statement, whether it is to write, and the reads.
    pub reads: Vec<(StatementId, bool, Vec<Read>)>,
    /// Every effect written.
    pub effects: Vec<Effect>,
    /// The value of `now()`.
    pub now: i64,
    /// The session's time zone.
    pub zone: TimeZone,
    /// Whether `reads` and `effects` are kept.
    pub record: bool,
}

impl Store {
    /// An empty database with an application's tables.
    pub fn new(application: &Application) -> Store {
        let schema = application.schema().clone();
        let tables = schema
            .tables
            .iter()
            .map(|table| StoredTable {
                rows: BTreeMap::new(),
                indexes: vec![BTreeMap::new(); table.indexes.len()],
            })
            .collect();
        Store {
            schema,
            programs: application.programs(),
            tables,
            transactions: 0,
            sequences: Rc::default(),
        }
    }

    /// This database after a change of its application: rows mapped and tested. This one stays as it is.
    ///
    /// # Errors
    /// What the mapping of a row raises, and what existing rows violate.
    pub fn changed(
        &self,
        application: &Application,
        change: &mut SchemaChange,
    ) -> Result<Store, EffectError> {
        let after = change.application.as_ref().unwrap_or(application);
        let mut store = Store::new(after);
        store.transactions = self.transactions + 1;
        let mut drawn = u128::from(store.transactions) << 64;
        for of in &change.sequences {
            let before = self.sequences.points.borrow().get(&of.from).copied();
            if let Some(point) = of.point(before) {
                store.sequences.points.borrow_mut().insert(of.to, point);
            }
        }
        for (to, of) in change.tables.iter_mut().enumerate() {
            let to = TableId(to as u16);
            let Some(from) = of.from else {
                continue;
            };
            let mut unique = || {
                drawn += 1;
                drawn
            };
            let mut context = MappingContext {
                timestamp: 0,
                zone: TimeZone::UTC,
                sequences: store.sequences.clone(),
                unique: &mut unique,
            };
            for (key, row) in &self.tables[from.index()].rows {
                let (key, row) = match &of.rows {
                    TableRows::Same => (key.clone(), row.clone()),
                    TableRows::Mapped(mapping) => mapping.apply(key, row, &mut context)?,
                    TableRows::Removed => break,
                };
                if let Some(verifier) = &mut of.verifier {
                    verifier.check(&row)?;
                }
                store.put(to, &key, Some(row));
            }
        }
        for verification in &change.verifications {
            let statement = after.statement(&verification.query).map_err(|problems| {
                let message = format!("{}: {}", verification.query, problems[0].message);
                EffectError::new(problems[0].code, message)
            })?;
            let found = match ready(statement.execute(&mut store.begin(), &[])) {
                Ok(found) => found,
                Err(TransactionError::Failed(error)) => return Err(error),
                Err(TransactionError::Retry(why)) => return Err(EffectError::new("40001", why)),
            };
            if let Some(row) = found.rows.first() {
                return Err(verification.error(row));
            }
        }
        Ok(store)
    }

    /// Begins a transaction.
    pub fn begin(&mut self) -> StoreTransaction<'_> {
        self.transactions += 1;
        StoreTransaction {
            store: self,
            undo: Vec::new(),
            slots: Vec::new(),
            inserted: BTreeSet::new(),
            drawn: 0,
            defer: false,
            reads: Vec::new(),
            effects: Vec::new(),
            now: 0,
            zone: TimeZone::UTC,
            record: false,
        }
    }

    /// All rows of a table in the order of their keys, decoded.
    pub fn rows(&self, table: &str) -> Vec<Vec<Value>> {
        let Some(schema) = self
            .schema
            .tables
            .iter()
            .find(|schema| schema.name == table)
        else {
            return Vec::new();
        };
        let rows = self.tables[schema.id.index()].rows.values();
        rows.map(|row| row.values(&schema.layout)).collect()
    }

    fn put(&mut self, table: TableId, key: &Key, row: Option<Row>) -> Option<Row> {
        let schema = self.schema.tables[table.index()].clone();
        let stored = &mut self.tables[table.index()];
        let old = match row.clone() {
            Some(row) => stored.rows.insert(key.clone(), row),
            None => stored.rows.remove(key),
        };
        for index in &schema.indexes {
            let entries = &mut stored.indexes[index.id.index()];
            if let Some(old) = &old {
                entries.remove(&entry(&schema, &index.columns, old, key));
            }
            if let Some(row) = &row {
                entries.insert(entry(&schema, &index.columns, row, key), key.clone());
            }
        }
        old
    }

    fn read(&self, read: &Read) -> Fetched {
        let stored = &self.tables[read.table().index()];
        match read {
            Read::Point { key, .. } => Fetched::Point(stored.rows.get(key).cloned()),
            Read::Range {
                index,
                range,
                reverse,
                limit,
                ..
            } => {
                let most = limit.map_or(usize::MAX, |limit| limit as usize);
                let Some(start) = range.start() else {
                    return Fetched::Range(Vec::new());
                };
                let found: Vec<(Key, Row)> = match index {
                    None => {
                        let rows = stored.rows.range(start..).map(|(key, row)| (key, key, row));
                        taken(rows, range, *reverse, most)
                    }
                    Some(index) => {
                        let entries = stored.indexes[index.index()].range(start..);
                        let rows = entries.map(|(entry, key)| (entry, key, &stored.rows[key]));
                        taken(rows, range, *reverse, most)
                    }
                };
                Fetched::Range(found)
            }
        }
    }
}

fn taken<'r>(
    rows: impl Iterator<Item = (&'r Key, &'r Key, &'r Row)>,
    range: &KeyRange,
    reverse: bool,
    most: usize,
) -> Vec<(Key, Row)> {
    let end = range.end();
    let within = rows.take_while(|(entry, ..)| end.as_ref().is_none_or(|end| *entry < end));
    let within = within.filter(|(entry, ..)| range.contains(entry));
    let pair = |(_, key, row): (&Key, &Key, &Row)| (key.clone(), row.clone());
    if !reverse {
        return within.take(most).map(pair).collect();
    }
    let mut all: Vec<(Key, Row)> = within.map(pair).collect();
    all.reverse();
    all.truncate(most);
    all
}

fn entry(schema: &TableSchema, columns: &[ColumnIndex], row: &Row, key: &Key) -> Key {
    let mut entry = Key::empty();
    for column in columns {
        let described = &schema.columns[column.index()];
        let value = row.get(&schema.layout, *column);
        entry.push_value(&described.data_type, described.nullable, &value);
    }
    entry.push_bytes(key.as_bytes());
    entry
}

impl StoreTransaction<'_> {
    /// Undoes everything.
    pub fn rollback(&mut self) {
        for (table, key, row) in std::mem::take(&mut self.undo).into_iter().rev() {
            self.store.put(table, &key, row);
        }
    }

    /// The values of its slots.
    pub fn slots_so_far(&self) -> &[Value] {
        &self.slots
    }

    fn change(&mut self, table: TableId, key: &Key, row: Option<Row>) {
        let old = self.store.put(table, key, row);
        self.undo.push((table, key.clone(), old));
    }

    fn insert(
        &mut self,
        table: TableId,
        key: Key,
        mut row: Row,
        patches: &[anabranch_types::Patch],
    ) -> Result<(), TransactionError> {
        let schema = self.store.schema.tables[table.index()].clone();
        self.inserted.insert((table.0, key.clone()));
        let mut key = key;
        for patch in patches {
            let Value::Int(value) = self.slots[patch.slot.index()] else {
                continue;
            };
            if !row.patch_int(&schema.layout, patch.column, value + patch.offset) {
                return Err(failed("22003", "integer out of range"));
            }
        }
        if !patches.is_empty() && !schema.primary_key.is_empty() {
            key = entry(&schema, &schema.primary_key, &row, &Key::empty());
        }
        let taken = |index: &anabranch_types::IndexSchema| {
            let null = |column: &ColumnIndex| row.is_null(&schema.layout, *column);
            if !index.unique || index.columns.iter().any(null) {
                return false;
            }
            let prefix = entry(&schema, &index.columns, &row, &Key::empty());
            let entries = &self.store.tables[table.index()].indexes[index.id.index()];
            entries
                .range(prefix.clone()..)
                .next()
                .is_some_and(|(e, _)| e.starts_with(&prefix))
        };
        if self.store.tables[table.index()].rows.contains_key(&key)
            || schema.indexes.iter().any(taken)
        {
            return Err(failed(
                "23505",
                "duplicate key value violates unique constraint",
            ));
        }
        self.change(table, &key, Some(row));
        Ok(())
    }
}

fn failed(code: &'static str, message: &str) -> TransactionError {
    TransactionError::Failed(EffectError::new(code, message))
}

impl Transaction for StoreTransaction<'_> {
    async fn read(
        &mut self,
        statement: StatementId,
        for_write: bool,
        reads: Vec<Read>,
    ) -> Result<Vec<Fetched>, TransactionError> {
        let answers = reads.iter().map(|read| self.store.read(read)).collect();
        if self.record {
            self.reads.push((statement, for_write, reads));
        }
        Ok(answers)
    }

    fn write(&mut self, _: StatementId, effect: Effect) -> Result<(), TransactionError> {
        if self.record {
            self.effects.push(effect.clone());
        }
        match effect {
            Effect::Insert {
                table,
                key,
                row,
                patches,
            } => self.insert(table, key, row, &patches),
            Effect::Delete { table, key } => {
                self.change(table, &key, None);
                Ok(())
            }
            Effect::Update {
                table,
                key,
                program,
                arguments,
                outputs,
            } => {
                let Some(row) = self.store.tables[table.index()].rows.get(&key).cloned() else {
                    return match outputs {
                        None => Ok(()),
                        Some(_) => Err(failed("P0002", "query returned no rows")),
                    };
                };
                let programs = self.store.programs.clone();
                let applied = programs
                    .apply(program, &row, &arguments, ColumnSet::EMPTY)
                    .map_err(TransactionError::Failed)?;
                if let Some(first) = outputs {
                    for (place, value) in applied.outputs.into_iter().enumerate() {
                        self.slots[first.index() + place] = value;
                    }
                }
                self.change(table, &key, Some(applied.row));
                Ok(())
            }
        }
    }

    fn defers(&self, _: StatementId) -> bool {
        self.defer
    }

    fn is_known(&mut self, table: TableId, key: &Key, _: &[anabranch_types::Patch]) -> bool {
        self.inserted.contains(&(table.0, key.clone()))
    }

    fn slots(&mut self, count: u16) -> SlotId {
        let first = self.slots.len() as u16;
        self.slots
            .resize(self.slots.len() + usize::from(count), Value::Null);
        SlotId(first)
    }

    fn unique(&mut self) -> u128 {
        self.drawn += 1;
        u128::from(self.store.transactions) << 64 | u128::from(self.drawn)
    }

    fn sequences(&self) -> Rc<dyn Sequences> {
        self.store.sequences.clone()
    }

    fn timestamp(&self) -> i64 {
        self.now
    }

    fn time_zone(&self) -> TimeZone {
        self.zone.clone()
    }
}

/// Runs a future that never waits.
///
/// # Panics
/// When it does.
pub fn ready<R>(future: impl Future<Output = R>) -> R {
    let mut future = pin!(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("a store in memory never waits"),
    }
}
