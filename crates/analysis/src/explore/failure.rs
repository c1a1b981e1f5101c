//! What two calls that are not isolated do wrong: which effect is lost, or what only one of them could have claimed.

use std::collections::BTreeSet;

use anabranch_sql::expression::text::literal;
use anabranch_types::{ColumnIndex, Effect, Key, Row, TableId, Value};

use super::World;
use super::call::{Call, replica, run};
use super::case::Case;
use super::serial::{Answers, PairOutcome};
use super::sessions::{TwoSessions, two_sessions};
use super::state::{Log, State};
use super::statement::inserts;
use crate::plan::MergePolicy;

/// The kinds of failure of two calls that are not isolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// One call overwrites what the other has written, without having read it.
    LostUpdate,
    /// Both calls do what only one of them does in any order.
    DoubleClaim,
    /// Each call acts on what the other changes.
    WriteSkew,
    /// The rows are those of an order, but what the calls have read is not.
    ImpossibleRead,
}

impl FailureKind {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            FailureKind::LostUpdate => "lost-update",
            FailureKind::DoubleClaim => "double-claim",
            FailureKind::WriteSkew => "write-skew",
            FailureKind::ImpossibleRead => "impossible-read",
        }
    }

    /// Its name in text.
    pub fn title(self) -> &'static str {
        match self {
            FailureKind::LostUpdate => "lost update",
            FailureKind::DoubleClaim => "double claim",
            FailureKind::WriteSkew => "write skew",
            FailureKind::ImpossibleRead => "a read that no order shows",
        }
    }
}

/// The outcome of the two calls one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct SerialOrder {
    /// The replica (0 or 1) whose call runs first.
    pub first: usize,
    /// All rows that the two leave, as INSERTs.
    pub rows: Vec<String>,
    /// Whether the call that runs second is refused.
    pub is_second_refused: bool,
}

/// How two calls fail to be isolated.
#[derive(Clone, Debug, PartialEq)]
pub struct IsolationFailure {
    /// The kind.
    pub kind: FailureKind,
    /// One sentence: which effect is lost, or what only one call could have claimed.
    pub explanation: String,
    /// Both serial orders.
    pub serial: [SerialOrder; 2],
    /// The same calls in two sessions of PostgreSQL.
    pub sessions: TwoSessions,
}

/// Describes the failure of a case in which isolation on a table fails; `None` if the case does not run.
pub(super) fn failure(world: &World<'_>, case: &Case, table: TableId) -> Option<IsolationFailure> {
    let apart = case.concurrent();
    let [one, other] = apart[..] else {
        return None;
    };
    let calls = [one, other];
    let merged = case.merge(world, false)?;
    let mut logs = Vec::new();
    let mut alone = Vec::new();
    let mut answers = Vec::new();
    for call in calls {
        let (state, log) = run(world, merged.ancestor(), call, false)?;
        answers.push(world.answers(call.procedure, &log, table));
        alone.push(state);
        logs.push(log);
    }
    let mut orders = Vec::new();
    for first in [0, 1] {
        orders.push(PairOutcome::serial(
            world,
            merged.ancestor(),
            calls,
            first,
            table,
        )?);
    }
    let seen = Observed {
        world,
        table,
        calls,
        logs: &logs,
        answers: &answers,
        alone: &alone,
        merged: merged.state(),
        orders: &orders,
    };
    let (kind, explanation) = seen.explained();
    let serial = [0, 1].map(|first: usize| SerialOrder {
        first: replica(calls[first]),
        rows: inserts(world, &orders[first].state),
        is_second_refused: orders[first].second.is_none(),
    });
    let sessions = two_sessions(world, case, merged.ancestor(), calls, &orders, table)?;
    Some(IsolationFailure {
        kind,
        explanation,
        serial,
        sessions,
    })
}

/// A value of a row, or the row itself.
type Cell<'k> = (TableId, &'k Key, Option<ColumnIndex>);

/// What two calls have done, side by side and one after the other.
struct Observed<'o> {
    world: &'o World<'o>,
    table: TableId,
    calls: [&'o Call; 2],
    /// What each did on the common snapshot.
    logs: &'o [Log],
    answers: &'o [Answers],
    /// What each leaves if the other does not run.
    alone: &'o [State],
    merged: &'o State,
    orders: &'o [PairOutcome],
}

impl Observed<'_> {
    fn explained(&self) -> (FailureKind, String) {
        if let Some(text) = self.double_claim() {
            return (FailureKind::DoubleClaim, text);
        }
        if let Some(text) = self.lost_update() {
            return (FailureKind::LostUpdate, text);
        }
        match self.difference() {
            Some(text) => {
                let table = self.table_name(self.table);
                let text =
                    format!("each call acts on rows of {table} that the other changes: {text}");
                (FailureKind::WriteSkew, text)
            }
            None => (FailureKind::ImpossibleRead, self.reads()),
        }
    }

    /// `replica 1` or `replica 2`.
    fn name(&self, call: usize) -> String {
        format!("replica {}", replica(self.calls[call]) + 1)
    }

    fn table_name(&self, table: TableId) -> &str {
        &self.world.schema().table(table).name
    }

    /// The row's key in words: `(id = 1)`; empty for a row without a key.
    fn row_name(&self, table: TableId, key: &Key) -> String {
        let schema = self.world.schema().table(table);
        let states = [self.merged, &self.alone[0], &self.alone[1]];
        let orders = self.orders.iter().map(|order| &order.state);
        let row = states
            .into_iter()
            .chain(orders)
            .find_map(|state| state.of_table(table).get(key))
            .or_else(|| {
                let effects = self.logs.iter().flat_map(|log| &log.effects);
                let mut of_it =
                    effects.filter(|done| done.effect.table() == table && done.effect.key() == key);
                of_it.find_map(|done| done.before.as_ref())
            });
        let Some(row) = row.filter(|_| !schema.primary_key.is_empty()) else {
            return String::new();
        };
        let named: Vec<String> = schema
            .primary_key
            .iter()
            .map(|column| {
                let name = &schema.columns[column.index()].name;
                format!("{name} = {}", literal(&row.get(&schema.layout, *column)))
            })
            .collect();
        format!(" ({})", named.join(", "))
    }

    fn cell_name(&self, (table, key, column): Cell<'_>) -> String {
        let row = self.row_name(table, key);
        match column {
            Some(column) => {
                let schema = self.world.schema().table(table);
                let name = &schema.columns[column.index()].name;
                format!("{}.{name}{row}", schema.name)
            }
            None => format!("a row of {}{row}", self.table_name(table)),
        }
    }

    fn value(&self, state: &State, (table, key, column): Cell<'_>) -> Option<Value> {
        let layout = &self.world.schema().table(table).layout;
        let row = state.of_table(table).get(key)?;
        Some(column.map_or(Value::Bool(true), |column| row.get(layout, column)))
    }

    fn said(&self, state: &State, cell: Cell<'_>) -> String {
        match (self.value(state, cell), cell.2) {
            (Some(value), Some(_)) => literal(&value),
            (Some(_), None) => "there".to_owned(),
            (None, _) => "gone".to_owned(),
        }
    }

    /// The value of a cell in each order: `in either serial order 2`.
    fn in_orders(&self, cell: Cell<'_>) -> String {
        let [one, other] = [0, 1].map(|first| self.said(&self.orders[first].state, cell));
        match one == other {
            true => format!("in either serial order {one}"),
            false => format!(
                "with {} first {one}, with {} first {other}",
                self.name(0),
                self.name(1)
            ),
        }
    }

    /// Both do what in each order only the first one does.
    fn double_claim(&self) -> Option<String> {
        if self.logs.iter().any(|log| log.effects.is_empty()) {
            return None;
        }
        let takes = |effect: &Effect, (table, key): (TableId, &Key)| {
            matches!(effect, Effect::Delete { .. })
                && (effect.table(), effect.key()) == (table, key)
        };
        let taken = self.both(|effect| matches!(effect, Effect::Delete { .. }));
        // The second call may insert the row again, and delete it.
        let taken = taken.filter(|row| {
            let mut seconds = self.orders.iter().filter_map(|order| order.second.as_ref());
            seconds.all(|log| !log.effects.iter().any(|done| takes(&done.effect, *row)))
        });
        if let Some((table, key)) = taken {
            let name = self.table_name(table);
            return Some(format!(
                "both calls take the row of {name}{} and delete it; in a serial order the call that runs second does \
                 not find it",
                self.row_name(table, key)
            ));
        }
        let mut ends = BTreeSet::new();
        for order in self.orders {
            ends.insert(match &order.second {
                None => "is refused",
                Some(log) if !log.effects.is_empty() => return None,
                Some(log) => {
                    let finds = log.results.last().is_some_and(|last| {
                        self.world.find_none.contains(&last.statement) && !last.rows.is_empty()
                    });
                    match finds {
                        true => "finds the row of the first and writes nothing",
                        false => "writes nothing",
                    }
                }
            });
        }
        let inserts = |log: &Log, table: TableId| {
            let mut effects = log.effects.iter();
            effects.any(|done| {
                matches!(done.effect, Effect::Insert { .. }) && done.effect.table() == table
            })
        };
        let tables = self.world.order.iter().copied();
        let mut tables = std::iter::once(self.table).chain(tables);
        let inserted = tables.find(|table| self.logs.iter().all(|log| inserts(log, *table)));
        let updated = self.both(|effect| matches!(effect, Effect::Update { .. }));
        let what = match (updated, inserted) {
            (Some((table, key)), _) if table == self.table => format!(
                "change the row of {}{}",
                self.table_name(table),
                self.row_name(table, key)
            ),
            (_, Some(table)) => format!("insert a row into {}", self.table_name(table)),
            (Some((table, key)), None) => format!(
                "change the row of {}{}",
                self.table_name(table),
                self.row_name(table, key)
            ),
            (None, None) => format!("act on what they find in {}", self.table_name(self.table)),
        };
        let ends: Vec<&str> = ends.into_iter().collect();
        Some(format!(
            "both calls {what}; in either serial order the call that runs second {}",
            ends.join(" or ")
        ))
    }

    /// A row to which both calls do something of a kind; one of the invariant's table first.
    fn both(&self, is_of_kind: impl Fn(&Effect) -> bool) -> Option<(TableId, &Key)> {
        let of = |log: usize| {
            let effects = self.logs[log].effects.iter().map(|done| &done.effect);
            effects.filter(|effect| is_of_kind(effect))
        };
        let meets = |effect: &&Effect| {
            of(1).any(|other| other.table() == effect.table() && other.key() == effect.key())
        };
        let found = of(0).filter(meets);
        let found = found.min_by_key(|effect| effect.table() != self.table)?;
        Some((found.table(), found.key()))
    }

    /// The columns of rows that a call has updated, without those in which increments add up.
    fn overwritten(&self, call: usize) -> BTreeSet<(TableId, &Key, ColumnIndex)> {
        let mut found = BTreeSet::new();
        for done in &self.logs[call].effects {
            let Effect::Update { key, .. } = &done.effect else {
                continue;
            };
            let table = self.world.schema().table(done.effect.table());
            let columns = self.world.written(done, table).into_iter();
            let columns = columns
                .filter(|column| self.world.policy(table.id, *column) != MergePolicy::Counter);
            found.extend(columns.map(|column| (table.id, key, column)));
        }
        found
    }

    /// One call overwrites the other's change of a column.
    fn lost_update(&self) -> Option<String> {
        let [one, other] = [0, 1].map(|call| self.overwritten(call));
        let common: Vec<Cell<'_>> = one
            .intersection(&other)
            .map(|(table, key, column)| (*table, *key, Some(*column)))
            .collect();
        let common = || {
            let of_table = |cell: &&Cell<'_>| cell.0 == self.table;
            let others = common.iter().filter(move |cell| !of_table(cell));
            common.iter().filter(of_table).chain(others)
        };
        let value = |state: &State, cell: &Cell<'_>| self.value(state, *cell);
        let differs = |cell: &&&Cell<'_>| {
            let left = value(self.merged, cell);
            (self.orders.iter()).all(|order| value(&order.state, cell) != left)
        };
        if let Some(cell) = common().find(|cell| differs(&cell)) {
            let left = value(self.merged, cell);
            let kept = [0, 1].map(|call| value(&self.alone[call], cell) == left);
            let name = self.cell_name(*cell);
            let lost = match kept {
                [false, true] => format!("the change of {name} by {} is lost", self.name(0)),
                [true, false] => format!("the change of {name} by {} is lost", self.name(1)),
                [true, true] => format!("one of the two changes of {name} is lost"),
                [false, false] => return None,
            };
            return Some(format!(
                "{lost}: after both it is {}, {}",
                self.said(self.merged, *cell),
                self.in_orders(*cell)
            ));
        }
        if self.difference().is_some() {
            return None;
        }
        // The value is one that an order leaves, but the call that wrote it has not read the other's.
        let cell = common().next()?;
        let left = value(self.merged, cell);
        let last = match value(&self.alone[1], cell) == left {
            true => 1,
            false => 0,
        };
        let name = self.cell_name(*cell);
        Some(format!(
            "the change of {name} by {} is lost: {} writes {} and has read what was there before that change; in a \
             serial order the call that runs second reads what the first has written",
            self.name(1 - last),
            self.name(last),
            self.said(self.merged, *cell)
        ))
    }

    /// The cells in which the merged rows differ from those of an order.
    fn differences(&self, order: usize) -> Vec<Cell<'_>> {
        let mut found = Vec::new();
        let left = &self.orders[order].state;
        for table in std::iter::once(&self.table).chain(&self.world.order) {
            let (here, there) = (self.merged.of_table(*table), left.of_table(*table));
            let schema = self.world.schema().table(*table);
            let keys: BTreeSet<&Key> = here.keys().chain(there.keys()).collect();
            for key in keys {
                match (here.get(key), there.get(key)) {
                    (Some(here), Some(there)) => {
                        let value = |row: &Row, c: ColumnIndex| row.get(&schema.layout, c);
                        let columns = (0..schema.columns.len()).map(|c| ColumnIndex(c as u16));
                        let unlike = columns.filter(|c| value(here, *c) != value(there, *c));
                        found.extend(unlike.map(|column| (*table, key, Some(column))));
                    }
                    (None, None) => {}
                    _ => found.push((*table, key, None)),
                }
            }
        }
        found
    }

    /// The difference between the merged rows and those of both orders; `None` if the rows are those of an order.
    fn difference(&self) -> Option<String> {
        let [one, other] = [0, 1].map(|order| self.differences(order));
        let after = |cell: &Cell<'_>| {
            let (name, value) = (self.cell_name(*cell), self.said(self.merged, *cell));
            format!("after both, {name} is {value}")
        };
        if let Some(cell) = one.iter().find(|cell| other.contains(cell)) {
            return Some(format!("{}, {}", after(cell), self.in_orders(*cell)));
        }
        let (first, second) = (one.first()?, other.first()?);
        Some(format!(
            "{}, with {} first {}; and {} is {}, with {} first {}",
            after(first),
            self.name(0),
            self.said(&self.orders[0].state, *first),
            self.cell_name(*second),
            self.said(self.merged, *second),
            self.name(1),
            self.said(&self.orders[1].state, *second)
        ))
    }

    /// What the calls have read, and what they read in each order.
    fn reads(&self) -> String {
        let unlike = |call: usize, order: usize| {
            self.orders[order].answers[call].as_ref() != Some(&self.answers[call])
        };
        let parts: Vec<String> = [0, 1]
            .into_iter()
            .filter_map(|order| {
                let call = [0, 1].into_iter().find(|call| unlike(*call, order))?;
                let there = match &self.orders[order].answers[call] {
                    Some(answers) => answered(answers),
                    None => "nothing, because it is refused".to_owned(),
                };
                Some(format!(
                    "with {} first {} reads {there}",
                    self.name(order),
                    self.name(call)
                ))
            })
            .collect();
        let read: Vec<String> = [0, 1]
            .iter()
            .map(|call| {
                format!(
                    "{} reads {}",
                    self.name(*call),
                    answered(&self.answers[*call])
                )
            })
            .collect();
        format!("{}; {}", read.join(" and "), parts.join(", "))
    }
}

/// Answers in words.
fn answered(answers: &Answers) -> String {
    let rows = answers.statements.iter().flat_map(|result| &result.rows);
    let rows: Vec<String> = rows
        .chain(&answers.returned)
        .map(|row| tuple(row))
        .collect();
    match rows.is_empty() {
        true => "no row".to_owned(),
        false => rows.join(" "),
    }
}

/// A row in parentheses.
pub(super) fn tuple(row: &[Value]) -> String {
    let values: Vec<String> = row.iter().map(literal).collect();
    format!("({})", values.join(", "))
}
