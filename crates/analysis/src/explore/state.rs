//! Small database states, and transactions that run on them.
//!
//! A [`State`] has a few rows in each table. An [`Attempt`] runs one call on it, through the compiled procedure
//! that the engine also runs, and logs the call's effects: [`super::merge`] merges that log elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use anabranch_sql::deferred::{ConstraintSelection, DeferredChecks};
use anabranch_sql::sequence::ResolvedSequence;
use anabranch_sql::summary::StatementId;
use anabranch_sql::testing::ready;
use anabranch_sql::transaction::{NoSequences, Sequences};
use anabranch_sql::{StatementResult, Transaction, TransactionError};
use anabranch_types::{
    ColumnIndex, ColumnSet, Effect, EffectError, Fetched, Key, KeyRange, Patch, Read, Row, Schema,
    SlotId, TableId, TableSchema, Value,
};

use super::World;

/// The rows of a table, by primary key.
pub(super) type Rows = BTreeMap<Key, Row>;

/// The rows of every table. A copy shares the tables that it does not change.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// In order of tables; a table that is missing here has no rows.
    tables: Vec<(TableId, Rc<Rows>)>,
}

impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        self.tables().eq(other.tables())
    }
}

impl State {
    /// The tables that have rows, in order.
    pub(super) fn tables(&self) -> impl Iterator<Item = (TableId, &Rows)> {
        let tables = self.tables.iter().map(|(table, rows)| (*table, &**rows));
        tables.filter(|(_, rows)| !rows.is_empty())
    }

    /// The tables whose rows are not shared with another state, in order: they include all that changed since one
    /// was copied from the other.
    pub(super) fn changed_tables(&self, other: &State) -> Vec<TableId> {
        let shares = |(table, rows): &&(TableId, Rc<Rows>)| {
            let place = other.tables.binary_search_by_key(table, |(of, _)| *of);
            place.is_ok_and(|place| Rc::ptr_eq(rows, &other.tables[place].1))
        };
        let mine = self.tables.iter().filter(|one| !shares(one));
        let mut unlike: Vec<TableId> = mine.map(|(table, _)| *table).collect();
        let theirs = other.tables.iter().map(|(table, _)| *table);
        unlike.extend(theirs.filter(|table| {
            self.tables
                .binary_search_by_key(table, |(of, _)| *of)
                .is_err()
        }));
        unlike.sort_unstable();
        unlike
    }

    /// The rows of a table.
    pub(super) fn of_table(&self, table: TableId) -> &Rows {
        static NONE: Rows = BTreeMap::new();
        match self.tables.binary_search_by_key(&table, |(of, _)| *of) {
            Ok(place) => &self.tables[place].1,
            Err(_) => &NONE,
        }
    }

    /// The rows of a table, mutably.
    pub(super) fn of_table_mut(&mut self, table: TableId) -> &mut Rows {
        let place = match self.tables.binary_search_by_key(&table, |(of, _)| *of) {
            Ok(place) => place,
            Err(place) => {
                self.tables.insert(place, (table, Rc::default()));
                place
            }
        };
        Rc::make_mut(&mut self.tables[place].1)
    }

    /// A state of these rows; `None` if a value does not fit its column or two rows have one key.
    pub(super) fn of(schema: &Schema, rows: &[(TableId, Vec<Value>)]) -> Option<State> {
        let mut state = State::default();
        for (place, (table, values)) in rows.iter().enumerate() {
            let table = schema.table(*table);
            let row = table.layout.encode(values).ok()?;
            let key = key_of(table, &row)
                .unwrap_or_else(|| Key::from_bytes(&(place as u128).to_be_bytes()));
            if state.of_table_mut(table.id).insert(key, row).is_some() {
                return None;
            }
        }
        Some(state)
    }

    /// All rows, decoded, in order of tables and keys.
    pub(super) fn rows(&self, schema: &Schema) -> Vec<(TableId, Vec<Value>)> {
        let mut rows = Vec::new();
        for (table, stored) in self.tables() {
            let layout = &schema.table(table).layout;
            rows.extend(stored.values().map(|r| (table, r.values(layout))));
        }
        rows
    }

    fn read(&self, schema: &Schema, read: &Read) -> Fetched {
        let stored = self.of_table(read.table());
        match read {
            Read::Point { key, .. } => Fetched::Point(stored.get(key).cloned()),
            Read::Range {
                table,
                index,
                range,
                reverse,
                limit,
            } => {
                let table = schema.table(*table);
                let mut found: Vec<(Key, &Key, &Row)> = stored
                    .iter()
                    .map(|(key, row)| {
                        let entry = match index {
                            None => key.clone(),
                            Some(index) => {
                                entry_of(table, &table.indexes[index.index()].columns, row, key)
                            }
                        };
                        (entry, key, row)
                    })
                    .filter(|(entry, ..)| is_within(range, entry))
                    .collect();
                found.sort_by(|a, b| a.0.cmp(&b.0));
                if *reverse {
                    found.reverse();
                }
                found.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
                let pairs = found.into_iter();
                Fetched::Range(pairs.map(|(_, k, r)| (k.clone(), r.clone())).collect())
            }
        }
    }
}

fn is_within(range: &KeyRange, entry: &Key) -> bool {
    range.contains(entry)
}

/// The primary key of a row; `None` for a table without one.
pub(super) fn key_of(table: &TableSchema, row: &Row) -> Option<Key> {
    (!table.primary_key.is_empty()).then(|| entry_of(table, &table.primary_key, row, &Key::empty()))
}

/// A row's index entry: the columns' values and the primary key.
pub(super) fn entry_of(table: &TableSchema, columns: &[ColumnIndex], row: &Row, key: &Key) -> Key {
    let mut entry = Key::empty();
    for column in columns {
        let described = &table.columns[column.index()];
        let value = row.get(&table.layout, *column);
        entry.push_value(&described.data_type, described.nullable, &value);
    }
    entry.push_bytes(key.as_bytes());
    entry
}

/// The row with the values of slots put into it.
pub(super) fn patched(
    table: &TableSchema,
    row: &Row,
    patches: &[Patch],
    slots: &[Value],
) -> Option<Row> {
    let mut row = row.clone();
    for patch in patches {
        let Some(Value::Int(value)) = slots.get(patch.slot.index()) else {
            return None;
        };
        if !row.patch_int(&table.layout, patch.column, value + patch.offset) {
            return None;
        }
    }
    Some(row)
}

/// One effect of a call, with the row before and after it where the call ran.
#[derive(Clone, Debug)]
pub(super) struct LoggedEffect {
    pub(super) statement: StatementId,
    /// How many statements of the call had ended before.
    pub(super) at: usize,
    pub(super) effect: Effect,
    pub(super) before: Option<Row>,
    pub(super) after: Option<Row>,
}

/// The log of a call.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    pub(super) effects: Vec<LoggedEffect>,
    pub(super) seen: Vec<RowsRead>,
    pub(super) slots: usize,
    /// The results of its statements, in order of execution.
    pub(super) results: Rc<Vec<StatementResult>>,
    /// The rows that the procedure returned to its client.
    pub(super) returned: Vec<Vec<Value>>,
}

/// Rows of a table that a statement has read.
#[derive(Clone, Debug)]
pub(super) struct RowsRead {
    pub(super) statement: StatementId,
    /// How many statements of the call had ended before.
    pub(super) at: usize,
    pub(super) table: TableId,
    pub(super) rows: Vec<Row>,
}

/// One running call.
pub(super) struct Attempt<'w> {
    world: &'w World<'w>,
    pub(super) state: State,
    /// Different in every call of a case; generated values are derived from it.
    number: u64,
    /// Whether UPDATEs are deferred as in the plan.
    planned: bool,
    drawn: u64,
    /// The pauses so far.
    pauses: u32,
    slots: Vec<Value>,
    inserted: BTreeSet<(u16, Key)>,
    deferred: DeferredChecks,
    /// The state that statements see once so many have ended, beside what the call itself has written: a snapshot
    /// of its own for each statement.
    next_snapshot: Option<(usize, State)>,
    pub(super) log: Log,
}

/// Puts the row that an effect left where it ran into a state.
pub(super) fn apply_rows(world: &World<'_>, state: &mut State, done: &LoggedEffect) {
    let table = world.schema().table(done.effect.table());
    let rows = state.of_table_mut(table.id);
    let key = done.effect.key();
    match &done.after {
        None => drop(rows.remove(key)),
        Some(row) => {
            let inserted = done.before.is_none().then(|| key_of(table, row)).flatten();
            rows.insert(inserted.unwrap_or_else(|| key.clone()), row.clone());
        }
    }
}

/// A part of each sequence from which no other call draws numbers.
#[derive(Debug)]
struct OwnSequencePart {
    first: i64,
    given: std::cell::Cell<i64>,
}

/// The first number that the call with this number draws for an identity column.
pub(super) fn number_given(call: u64) -> i64 {
    100 * (call as i64 + 1) + 1
}

impl Sequences for OwnSequencePart {
    fn next(&self, _: &ResolvedSequence) -> Option<i64> {
        self.given.set(self.given.get() + 1);
        Some(self.first + self.given.get())
    }
}

impl<'w> Attempt<'w> {
    pub(super) fn new(
        world: &'w World<'w>,
        state: State,
        number: u64,
        planned: bool,
    ) -> Attempt<'w> {
        Attempt {
            world,
            state,
            number,
            planned,
            drawn: 0,
            pauses: 0,
            slots: Vec::new(),
            inserted: BTreeSet::new(),
            deferred: DeferredChecks::default(),
            next_snapshot: None,
            log: Log::default(),
        }
    }

    /// The same, where another state is visible once `ended` statements have ended.
    pub(super) fn then_seeing(mut self, ended: usize, state: State) -> Attempt<'w> {
        self.next_snapshot = Some((ended, state));
        self
    }

    /// Moves on to the later state if it is due.
    fn advance(&mut self) {
        let ended = self.log.results.len();
        let Some((_, state)) = self.next_snapshot.take_if(|(at, _)| ended >= *at) else {
            return;
        };
        self.state = state;
        for done in &self.log.effects {
            apply_rows(self.world, &mut self.state, done);
        }
    }

    /// Runs the checks that wait for the end of the call.
    ///
    /// # Errors
    /// SQLSTATE `23503` if a foreign key is violated.
    pub(super) fn check_deferred(&mut self) -> Result<(), TransactionError> {
        let application = self.world.application;
        ready(application.check_deferred(self, &ConstraintSelection::All))
    }

    /// Returns the state that the call leaves, and its log.
    pub(super) fn into_parts(mut self) -> (State, Log) {
        self.log.slots = self.slots.len();
        (self.state, self.log)
    }

    fn change(&mut self, statement: StatementId, effect: Effect, key: Key, after: Option<Row>) {
        let rows = self.state.of_table_mut(effect.table());
        let before = match &after {
            Some(row) => rows.insert(key, row.clone()),
            None => rows.remove(&key),
        };
        self.log.effects.push(LoggedEffect {
            statement,
            at: self.log.results.len(),
            effect,
            before,
            after,
        });
    }

    fn is_taken(&self, table: &TableSchema, key: &Key, row: &Row) -> bool {
        let rows = self.state.of_table(table.id);
        let taken = |columns: &[ColumnIndex]| {
            let null = |c: &ColumnIndex| row.is_null(&table.layout, *c);
            let of = |r: &Row| entry_of(table, columns, r, &Key::empty());
            !columns.iter().any(null) && rows.values().any(|r| of(r) == of(row))
        };
        rows.contains_key(key) || table.indexes.iter().any(|i| i.unique && taken(&i.columns))
    }
}

/// The pauses of a call that is followed to its end.
const PAUSES_MAX: u32 = 4;

fn failed(code: &'static str, message: &str) -> TransactionError {
    TransactionError::Failed(EffectError::new(code, message))
}

impl Transaction for Attempt<'_> {
    async fn read(
        &mut self,
        statement: StatementId,
        _: bool,
        reads: Vec<Read>,
    ) -> Result<Vec<Fetched>, TransactionError> {
        self.advance();
        let schema = self.world.schema();
        let mut answers = Vec::with_capacity(reads.len());
        for read in &reads {
            let answer = self.state.read(schema, read);
            let rows: Vec<Row> = match &answer {
                Fetched::Point(row) => row.iter().cloned().collect(),
                Fetched::Range(pairs) => pairs.iter().map(|(_, row)| row.clone()).collect(),
                Fetched::Locked | Fetched::Recorded(_) => Vec::new(), // No state records.
            };
            if !rows.is_empty() {
                self.log.seen.push(RowsRead {
                    statement,
                    at: self.log.results.len(),
                    table: read.table(),
                    rows,
                });
            }
            answers.push(answer);
        }
        Ok(answers)
    }

    fn write(&mut self, statement: StatementId, effect: Effect) -> Result<(), TransactionError> {
        self.advance();
        let world = self.world;
        let table = world.schema().table(effect.table());
        match &effect {
            Effect::Insert {
                key, row, patches, ..
            } => {
                self.inserted.insert((table.id.0, key.clone()));
                let Some(row) = patched(table, row, patches, &self.slots) else {
                    return Err(failed("22003", "integer out of range"));
                };
                let key = key_of(table, &row).unwrap_or_else(|| key.clone());
                if self.is_taken(table, &key, &row) {
                    return Err(failed("23505", "duplicate key value"));
                }
                self.change(statement, effect, key, Some(row));
            }
            Effect::Delete { key, .. } => {
                let key = key.clone();
                self.change(statement, effect, key, None);
            }
            Effect::Update {
                key,
                program,
                arguments,
                outputs,
                ..
            } => {
                let Some(row) = self.state.of_table(table.id).get(key) else {
                    return match outputs {
                        None => Ok(()),
                        Some(_) => Err(failed("P0002", "query returned no rows")),
                    };
                };
                let applied = world
                    .programs
                    .apply(*program, row, arguments, ColumnSet::EMPTY)
                    .map_err(TransactionError::Failed)?;
                if let Some(first) = outputs {
                    // Effects that were committed elsewhere have slots that were not allocated here.
                    let end = first.index() + applied.outputs.len();
                    self.slots.resize(self.slots.len().max(end), Value::Null);
                    for (place, value) in applied.outputs.into_iter().enumerate() {
                        self.slots[first.index() + place] = value;
                    }
                }
                let key = key.clone();
                self.change(statement, effect, key, Some(applied.row));
            }
        }
        Ok(())
    }

    fn defers(&self, statement: StatementId) -> bool {
        self.world.defers(statement, self.planned)
    }

    fn is_known(&mut self, table: TableId, key: &Key, _: &[Patch]) -> bool {
        self.inserted.contains(&(table.0, key.clone()))
    }

    fn slots(&mut self, count: u16) -> SlotId {
        let first = self.slots.len() as u16;
        let len = self.slots.len() + usize::from(count);
        self.slots.resize(len, Value::Null);
        SlotId(first)
    }

    fn unique(&mut self) -> u128 {
        self.drawn += 1;
        u128::from(self.number + 1) << 64 | u128::from(self.drawn)
    }

    fn sequences(&self) -> Rc<dyn Sequences> {
        Rc::new(OwnSequencePart {
            first: number_given(self.number) - 1,
            given: std::cell::Cell::default(),
        })
    }

    fn deferred_checks(&mut self) -> Option<&mut DeferredChecks> {
        Some(&mut self.deferred)
    }

    fn note_result(&mut self, statement: StatementId, rows: &[Vec<Value>], count: u64) {
        Rc::make_mut(&mut self.log.results).push(StatementResult {
            statement,
            rows: rows.to_vec(),
            count,
        });
    }

    /// A call that computes for long on a handful of rows computes for long on others, too: the search goes on without
    /// it, as if it had failed.
    async fn pause(&mut self) -> Result<(), TransactionError> {
        self.pauses += 1;
        if self.pauses > PAUSES_MAX {
            return Err(failed("54000", "the call computes for too long"));
        }
        Ok(())
    }

    fn timestamp(&self) -> i64 {
        self.number as i64 * 1_000_000
    }
}

/// A read-only view of a state, to evaluate assertions.
pub(super) struct StateReader<'w> {
    pub(super) schema: &'w Schema,
    pub(super) state: &'w State,
}

impl Transaction for StateReader<'_> {
    async fn read(
        &mut self,
        _: StatementId,
        _: bool,
        reads: Vec<Read>,
    ) -> Result<Vec<Fetched>, TransactionError> {
        let answers = reads.iter().map(|r| self.state.read(self.schema, r));
        Ok(answers.collect())
    }

    fn write(&mut self, _: StatementId, _: Effect) -> Result<(), TransactionError> {
        Err(failed("25006", "an assertion only reads"))
    }

    fn defers(&self, _: StatementId) -> bool {
        false
    }

    fn is_known(&mut self, _: TableId, _: &Key, _: &[Patch]) -> bool {
        false
    }

    fn slots(&mut self, _: u16) -> SlotId {
        SlotId(0)
    }

    fn unique(&mut self) -> u128 {
        0
    }

    fn sequences(&self) -> Rc<dyn Sequences> {
        Rc::new(NoSequences)
    }

    fn timestamp(&self) -> i64 {
        0
    }
}
