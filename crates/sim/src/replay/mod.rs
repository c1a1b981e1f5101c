//! Runs a counterexample of the analyser on real nodes.
//!
//! It runs twice:
//!
//! * *Without coordination*, on two replicas (coordination-avoidance.txt, §3): two clusters of one node,
//!   each with all of the data, that exchange no messages. Each runs its calls with the engine, protocol
//!   and store of any cluster. The committed effects are taken from the nodes and merged as the plan
//!   prescribes for each column. The merged rows should violate the invariant; otherwise the analyser
//!   was wrong.
//! * *With the plan*, on one cluster of two partitions. Two clients make the calls of the two replicas
//!   concurrently, many times, while a seed delays each message. Each time the invariant should hold in
//!   the final rows; otherwise the plan was wrong. Refused calls are counted by reason.
//!
//! Isolation is judged by the final rows. They have to equal the rows that the calls leave one after the
//! other, in one order or the other, on the same nodes. If the invariant's table agrees, all tables are
//! compared. Keys, numbers and times that a node generates are ignored.
//!
//! The purpose of a single guard ([`Replayer::purpose`]) is shown in the same way: the replicas keep all
//! of the plan except this guard ([`Replayer::without_guard`]), and the rest orders none of their calls. That
//! needs two replicas. In one cluster a row has one owner, which checks the row's CHECK conditions at
//! commit, whatever the plan orders.
//!
//! It departs from the paper in one point: there the replicas exchange their effects; here the effects
//! are merged outside of the nodes, since our clusters keep the order of a row's owner.

mod nodes;

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_analysis::Plan;
use anabranch_analysis::explore::{
    Committed, Counterexample, Effort, Explorer, Purpose, ReplicaCall, StoredRow,
};
use anabranch_engine::PlannedApplication;
use anabranch_engine::load::RowError;
use anabranch_engine::sequence::SequenceStarts;
use anabranch_protocol::link::Incarnation;
use anabranch_sql::Application;
use anabranch_sql::StatementResult;
use anabranch_sql::catalog::{Catalog, ColumnDefault};
use anabranch_sql::script::ClientTransaction;
use anabranch_types::{ColumnIndex, Effect, TableId, Value};

use nodes::{CallResult, Outcomes, Start, concurrently, sequentially};

/// Partitions of the cluster that runs the plan.
const PARTITIONS: u16 = 2;

/// Generated numbers of identity columns are higher than this, and higher than the counterexample's own numbers, so
/// that the two can be distinguished.
const NUMBERS_ABOVE: i64 = 10_000;

/// The distance between the generated numbers of two replicas.
const NUMBERS_STEP: i64 = 1_000;

/// The reason why a counterexample could not be run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReplayError {
    /// An initial row does not load.
    Row(RowError),
    /// A node has violated an invariant of its protocol.
    Protocol(String),
    /// The calls do not end.
    NoEnd,
}

impl std::fmt::Display for ReplayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReplayError::Row(error) => write!(f, "an initial row does not load: {error}"),
            ReplayError::Protocol(what) => {
                write!(
                    f,
                    "a node has violated an invariant of its protocol: {what}"
                )
            }
            ReplayError::NoEnd => f.write_str("the calls do not end"),
        }
    }
}

impl std::error::Error for ReplayError {}

/// The result of replaying a counterexample.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The run without coordination.
    pub without: UncoordinatedRun,
    /// The runs with the plan.
    pub with: CoordinatedRun,
}

/// The result of the run on two replicas.
#[derive(Clone, Debug)]
pub struct UncoordinatedRun {
    /// The errors of the calls, in the counterexample's order; `None` for calls that committed.
    pub refused: Vec<Option<String>>,
    /// The merged rows, as INSERT statements; empty if a call failed.
    pub merged: Vec<String>,
    /// Whether the merged rows violate the counterexample's invariant.
    pub is_broken: bool,
}

/// The result of the runs in one cluster under the plan.
#[derive(Clone, Debug)]
pub struct CoordinatedRun {
    /// The number of runs, each with other delays.
    pub interleavings: u32,
    /// The number of failures of each call, by error, in the counterexample's order.
    pub refused: Vec<BTreeMap<String, u32>>,
    /// The first run in which an invariant was violated.
    pub broken: Option<BrokenPlan>,
}

/// A run in which the plan did not preserve an invariant.
#[derive(Clone, Debug)]
pub struct BrokenPlan {
    /// The seed of the delays.
    pub seed: u64,
    /// The final rows, as INSERT statements.
    pub rows: Vec<String>,
    /// The violated invariants.
    pub violated: Vec<String>,
}

impl Replayed {
    /// Whether the invariant was violated without coordination, and held with the plan.
    pub fn confirms_analysis(&self) -> bool {
        self.without.is_broken && self.with.broken.is_none()
    }
}

/// Replays an application's counterexamples.
pub struct Replayer {
    plan: Plan,
    /// The transactions that clients run.
    clients: Vec<ClientTransaction>,
    /// One partition; no guards, or all but one.
    uncoordinated: Arc<PlannedApplication>,
    /// Two partitions; all guards.
    coordinated: Arc<PlannedApplication>,
}

impl Replayer {
    /// A replayer for an application and its plan. The application is compiled twice from the same files.
    pub fn new(application: Application, again: Application, plan: Plan) -> Replayer {
        let unguarded = plan.without_guards(application.summaries());
        Replayer {
            uncoordinated: PlannedApplication::new(application, unguarded, 1),
            coordinated: PlannedApplication::new(again, plan.clone(), PARTITIONS),
            plan,
            clients: Vec::new(),
        }
    }

    /// The replayer where clients run these transactions of their own: see [`Explorer::with_clients`].
    #[must_use]
    pub fn with_clients(self, clients: Vec<ClientTransaction>) -> Replayer {
        Replayer { clients, ..self }
    }

    /// The replayer with another plan for the coordinated runs, for example one that lacks a guard.
    #[must_use]
    pub fn with_plan(mut self, again: Application, plan: Plan) -> Replayer {
        self.coordinated = PlannedApplication::new(again, plan, PARTITIONS);
        self
    }

    /// The replayer with replicas that keep all of the plan except one guard of one transaction type.
    ///
    /// # Panics
    /// If there is no such guard.
    #[must_use]
    pub fn without_guard(self, entry: usize, guard: usize) -> Replayer {
        let less = |application: &Application| {
            let summaries = application.summaries();
            self.plan.without_guard(summaries, entry, guard)
        };
        let uncoordinated = match Arc::into_inner(self.uncoordinated) {
            Some(planned) => {
                let less = less(&planned.application);
                PlannedApplication::new(planned.application, less, 1)
            }
            None => unreachable!("no run holds the application between replays"),
        };
        Replayer {
            uncoordinated,
            ..self
        }
    }

    /// The purpose of one guard of one transaction type: see [`Explorer::purpose`].
    ///
    /// # Panics
    /// If there is no such guard.
    pub fn purpose(&self, entry: usize, guard: usize, seed: u64, effort: Effort) -> Purpose {
        self.explorer().purpose(entry, guard, seed, effort)
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The catalog of the application.
    pub fn catalog(&self) -> &Catalog {
        self.uncoordinated.application.catalog()
    }

    /// The application's counterexamples: see [`Explorer::counterexamples`].
    pub fn counterexamples(&self, seed: u64, effort: Effort) -> Vec<Counterexample> {
        self.explorer().counterexamples(seed, effort)
    }

    fn explorer(&self) -> Explorer<'_> {
        Explorer::new(&self.uncoordinated.application, &self.plan).with_clients(&self.clients)
    }

    /// Runs a counterexample once without coordination, and `interleavings` times with the plan.
    ///
    /// # Errors
    /// If the nodes cannot run it.
    pub fn replay(
        &self,
        counterexample: &Counterexample,
        interleavings: u32,
    ) -> Result<Replayed, ReplayError> {
        let mut judge = Judge::new(self, counterexample)?;
        Ok(Replayed {
            without: self.uncoordinated(&mut judge)?,
            with: self.coordinated(&judge, interleavings)?,
        })
    }

    fn uncoordinated(&self, judge: &mut Judge<'_>) -> Result<UncoordinatedRun, ReplayError> {
        let counterexample = judge.counterexample;
        let initial = nodes::stored(&judge.start(&self.uncoordinated, 0))?;
        let mut ran = self.run_uncoordinated(judge, &counterexample.calls)?;
        if let Some(calls) = self.renamed(&counterexample.calls, &ran.effects) {
            ran = self.run_uncoordinated(judge, &calls)?;
        }
        let refused = ran.results.iter().map(refusal).collect();
        let answers = judge.answers(&self.explorer(), &ran.results, &ran.statements);
        let mut run = UncoordinatedRun {
            refused,
            merged: Vec::new(),
            is_broken: false,
        };
        if run.refused.iter().any(Option::is_some) {
            return Ok(run);
        }
        let calls = counterexample.calls.iter().zip(ran.effects);
        let committed: Vec<Committed> = calls
            .map(|(call, effects)| Committed {
                replica: call.replica,
                effects,
            })
            .collect();
        let explorer = self.explorer();
        if let Some(merged) = explorer.merged(&initial, &committed) {
            run.merged = explorer.statements(&merged.rows);
            run.is_broken = match &mut judge.isolation {
                Some(isolation) => isolation.is_lost(&merged.rows, &answers),
                None => merged.violated.contains(&counterexample.invariant),
            };
        }
        Ok(run)
    }

    /// Runs the calls of each replica on its own node. The rows of the outcomes are empty: they are in two stores.
    fn run_uncoordinated(
        &self,
        judge: &Judge<'_>,
        calls: &[ReplicaCall],
    ) -> Result<Outcomes, ReplayError> {
        let mut results: Vec<Option<CallResult>> = calls.iter().map(|_| None).collect();
        let mut effects = vec![Vec::new(); calls.len()];
        let mut statements = vec![Vec::new(); calls.len()];
        for replica in 0..2 {
            let numbers = judge.numbers(&self.uncoordinated, replica)?;
            let start = Start {
                numbers: &numbers,
                incarnation: Incarnation(replica as u64 + 1),
                ..judge.start(&self.uncoordinated, 0)
            };
            let mine = |place: &usize| calls[*place].replica == replica;
            let places: Vec<usize> = (0..calls.len()).filter(mine).collect();
            let calls: Vec<ReplicaCall> = places.iter().map(|p| calls[*p].clone()).collect();
            let order: Vec<usize> = (0..calls.len()).collect();
            let outcomes = sequentially(&start, &calls, &order)?;
            let done = outcomes.effects.into_iter().zip(outcomes.statements);
            for ((place, end), (done, answered)) in
                places.into_iter().zip(outcomes.results).zip(done)
            {
                results[place] = Some(end);
                effects[place] = done;
                statements[place] = answered;
            }
        }
        Ok(Outcomes {
            results: results.into_iter().flatten().collect(),
            effects,
            statements,
            rows: Vec::new(),
        })
    }

    /// The calls with generated keys replaced: where an argument is a key that another call generated in the
    /// counterexample, it becomes the key that this call generated here. `None` if there is no such argument.
    fn renamed(&self, calls: &[ReplicaCall], effects: &[Vec<Effect>]) -> Option<Vec<ReplicaCall>> {
        let mut other: Vec<(&Value, Value)> = Vec::new();
        for (call, effects) in calls.iter().zip(effects) {
            let rows = effects.iter().filter_map(|effect| match effect {
                Effect::Insert { table, row, .. } => Some((*table, row)),
                _ => None,
            });
            for ((table, row), (of, values)) in rows.zip(&call.inserted) {
                let layout = &self.uncoordinated.schema().table(table).layout;
                let pairs = values.iter().zip(row.values(layout));
                let generated = |value: &Value| matches!(value, Value::Int(_) | Value::Uuid(_));
                let pairs = pairs.filter(|(there, _)| table == *of && generated(there));
                other.extend(pairs.filter(|(there, here)| *there != here));
            }
        }
        let mut renamed = calls.to_vec();
        for argument in renamed.iter_mut().flat_map(|call| &mut call.arguments) {
            if let Some((_, here)) = other.iter().find(|(there, _)| **there == *argument) {
                *argument = here.clone();
            }
        }
        (renamed != calls).then_some(renamed)
    }

    fn coordinated(
        &self,
        judge: &Judge<'_>,
        interleavings: u32,
    ) -> Result<CoordinatedRun, ReplayError> {
        let counterexample = judge.counterexample;
        let explorer = self.explorer();
        let mut runs = CoordinatedRun {
            interleavings,
            refused: vec![BTreeMap::new(); counterexample.calls.len()],
            broken: None,
        };
        for seed in 1..=u64::from(interleavings) {
            let start = judge.start(&self.coordinated, seed);
            let numbers = judge.numbers(&self.coordinated, 0)?;
            let start = Start {
                numbers: &numbers,
                ..start
            };
            let outcomes = concurrently(&start, &counterexample.calls)?;
            for (counts, end) in runs.refused.iter_mut().zip(&outcomes.results) {
                if let Err(error) = end {
                    *counts.entry(error.to_string()).or_default() += 1;
                }
            }
            let mut violated = explorer.violated(&outcomes.rows);
            if let Some(isolation) = &judge.isolation
                && !isolation.permits(
                    &outcomes.rows,
                    &judge.answers(&explorer, &outcomes.results, &outcomes.statements),
                )
            {
                violated.push(counterexample.invariant.clone());
            }
            if !violated.is_empty() && runs.broken.is_none() {
                runs.broken = Some(BrokenPlan {
                    seed,
                    rows: explorer.statements(&outcomes.rows),
                    violated,
                });
            }
        }
        Ok(runs)
    }
}

/// What a call has returned; `None` if it was refused.
type Answers = Option<Vec<StatementResult>>;

/// The error of a call that was refused.
fn refusal(result: &CallResult) -> Option<String> {
    result.as_ref().err().map(ToString::to_string)
}

/// The checks after a run of a counterexample.
struct Judge<'c> {
    counterexample: &'c Counterexample,
    isolation: Option<Isolation>,
    none: SequenceStarts,
}

impl<'c> Judge<'c> {
    fn new(
        replayer: &Replayer,
        counterexample: &'c Counterexample,
    ) -> Result<Judge<'c>, ReplayError> {
        let mut judge = Judge {
            counterexample,
            isolation: None,
            none: SequenceStarts::default(),
        };
        let name = counterexample.invariant.strip_prefix("isolation(");
        let name = name.and_then(|rest| rest.strip_suffix(')'));
        let tables = &replayer.coordinated.schema().tables;
        if let Some(table) = name.and_then(|name| tables.iter().find(|t| t.name == name)) {
            let mut isolation = Isolation {
                tables: vec![table.id],
                known: known(counterexample),
                generated: generated_or_referencing(&replayer.coordinated),
                planned: Arc::clone(&replayer.coordinated),
                permitted: Vec::new(),
            };
            for order in [[0, 1], [1, 0]] {
                let start = judge.start(&replayer.coordinated, 0);
                let numbers = judge.numbers(&replayer.coordinated, 0)?;
                let start = Start {
                    numbers: &numbers,
                    ..start
                };
                let outcomes = sequentially(&start, &counterexample.calls, &order)?;
                let explorer = replayer.explorer();
                let answers = judge.answers(&explorer, &outcomes.results, &outcomes.statements);
                isolation.permitted.push((outcomes.rows, answers));
            }
            judge.isolation = Some(isolation);
        }
        Ok(judge)
    }

    /// What each call has returned, as far as it counts for isolation.
    fn answers(
        &self,
        explorer: &Explorer<'_>,
        results: &[CallResult],
        statements: &[Vec<StatementResult>],
    ) -> Vec<Answers> {
        let calls = results.iter().zip(statements).enumerate();
        let of_call =
            |(place, (end, statements)): (usize, (&CallResult, &Vec<StatementResult>))| {
                let returned = &end.as_ref().ok()?.rows;
                Some(explorer.answers(self.counterexample, place, statements, returned))
            };
        calls.map(of_call).collect()
    }

    /// The starts of generated numbers, which differ between the replicas.
    fn numbers(
        &self,
        planned: &Arc<PlannedApplication>,
        replica: usize,
    ) -> Result<SequenceStarts, ReplayError> {
        let mut numbers = nodes::numbers(&self.start(planned, 0))?;
        let known = known(self.counterexample);
        let known = known.iter().filter_map(|value| match value {
            Value::Int(number) => Some(*number),
            _ => None,
        });
        // A number near a column's limit would leave no numbers to generate.
        let fitting = known.filter(|number| *number < NUMBERS_ABOVE + NUMBERS_STEP);
        let above = fitting.max().unwrap_or(0).max(NUMBERS_ABOVE);
        let offset = NUMBERS_STEP * replica as i64;
        for sequence in planned.application.catalog().all_sequences() {
            numbers.include(&sequence, above + offset);
        }
        Ok(numbers)
    }

    fn start<'s>(&'s self, planned: &'s Arc<PlannedApplication>, seed: u64) -> Start<'s> {
        Start {
            planned,
            rows: &self.counterexample.rows,
            numbers: &self.none,
            incarnation: Incarnation::FIRST,
            seed,
        }
    }
}

/// The final rows of serial runs.
struct Isolation {
    /// The tables that are compared.
    tables: Vec<TableId>,
    /// Values of the counterexample, which are not generated.
    known: Vec<Value>,
    /// Columns of generated numbers, and columns that refer to them.
    generated: Vec<(TableId, ColumnIndex)>,
    planned: Arc<PlannedApplication>,
    /// The permitted final rows, each with the answers of the calls.
    permitted: Vec<(Vec<StoredRow>, Vec<Answers>)>,
}

impl Isolation {
    fn permits(&self, rows: &[StoredRow], answers: &[Answers]) -> bool {
        let left = (self.comparable(rows), self.comparable_answers(answers));
        self.permitted.iter().any(|(rows, answers)| {
            (self.comparable(rows), self.comparable_answers(answers)) == left
        })
    }

    /// The answers, with NULL in the place of generated values; `None` for a call that was refused.
    fn comparable_answers(&self, answers: &[Answers]) -> Vec<Option<Vec<String>>> {
        let result = |result: &StatementResult| {
            let rows = result.rows.iter().map(|row| {
                let values = row.iter().cloned();
                let values = values.map(|value| self.without_generated_value(value));
                format!("{:?}", values.collect::<Vec<_>>())
            });
            // Rows of several partitions come in any order.
            let mut rows: Vec<String> = rows.collect();
            rows.sort_unstable();
            format!("{:?} {} {rows:?}", result.statement, result.count)
        };
        let of_call = |answers: &Answers| {
            let answers = answers.as_ref()?;
            Some(answers.iter().map(result).collect())
        };
        answers.iter().map(of_call).collect()
    }

    /// A value that a statement returned, or NULL in the place of a generated one.
    fn without_generated_value(&self, value: Value) -> Value {
        let generates = match &value {
            Value::Uuid(_) | Value::Timestamp(_) | Value::Date(_) => true,
            Value::Int(number) => *number > NUMBERS_ABOVE && !self.generated.is_empty(),
            _ => false,
        };
        match generates && !self.known.contains(&value) {
            true => Value::Null,
            false => value,
        }
    }

    /// Whether isolation was violated in the invariant's table, or else in any table. From then on all tables are
    /// compared.
    fn is_lost(&mut self, rows: &[StoredRow], answers: &[Answers]) -> bool {
        if !self.permits(rows, answers) {
            return true;
        }
        let all = 0..self.planned.schema().tables.len() as u16;
        self.tables = all.map(TableId).collect();
        !self.permits(rows, answers)
    }

    /// The tables' rows, with NULL in the place of generated values.
    fn comparable(&self, rows: &[StoredRow]) -> BTreeMap<TableId, Vec<String>> {
        let mut comparable: BTreeMap<TableId, Vec<String>> = BTreeMap::new();
        for (table, _, row) in rows
            .iter()
            .filter(|(table, ..)| self.tables.contains(table))
        {
            let values = row.values(&self.planned.schema().table(*table).layout);
            let values = values.into_iter().zip(0..);
            let given = values
                .map(|(value, column)| self.without_generated(value, *table, ColumnIndex(column)));
            let row = format!("{:?}", given.collect::<Vec<_>>());
            comparable.entry(*table).or_default().push(row);
        }
        comparable
            .values_mut()
            .for_each(|rows| rows.sort_unstable());
        comparable
    }

    /// A value, or NULL in the place of a generated one.
    fn without_generated(&self, value: Value, table: TableId, column: ColumnIndex) -> Value {
        let generates = match &value {
            Value::Uuid(_) | Value::Timestamp(_) | Value::Date(_) => true,
            _ => self.generated.contains(&(table, column)),
        };
        match generates && !self.known.contains(&value) {
            true => Value::Null,
            false => value,
        }
    }
}

/// All values in a counterexample.
fn known(counterexample: &Counterexample) -> Vec<Value> {
    let rows = counterexample.rows.iter().flat_map(|(_, values)| values);
    let arguments = counterexample.calls.iter().flat_map(|call| &call.arguments);
    let mut known: Vec<Value> = Vec::new();
    for value in rows.chain(arguments) {
        match value {
            Value::Array(values) => known.extend(values.iter().cloned()),
            value => known.push(value.clone()),
        }
    }
    known
}

/// The identity and serial columns.
fn generated(planned: &PlannedApplication) -> Vec<(TableId, ColumnIndex)> {
    let tables = &planned.application.catalog().tables;
    let columns = tables.iter().flat_map(|table| {
        let defaults = table.defaults.iter().zip(0..);
        defaults.filter_map(|(default, column)| match default {
            ColumnDefault::Generated { .. } => Some((table.id, ColumnIndex(column))),
            ColumnDefault::Null | ColumnDefault::Expression(..) | ColumnDefault::Computed(..) => {
                None
            }
        })
    });
    columns.collect()
}

/// The identity and serial columns, and the columns that refer to them.
fn generated_or_referencing(planned: &PlannedApplication) -> Vec<(TableId, ColumnIndex)> {
    let tables = &planned.application.catalog().tables;
    let keys = || {
        tables
            .iter()
            .flat_map(|table| table.foreign_keys.iter().map(|key| (table.id, key)))
    };
    let mut generated_or_referencing = generated(planned);
    let mut next = 0;
    while let Some(parent) = generated_or_referencing.get(next).copied() {
        next += 1;
        for (table, key) in keys() {
            for (column, of) in key.columns.iter().zip(&key.parent_columns) {
                if (key.parent, *of) == parent
                    && !generated_or_referencing.contains(&(table, *column))
                {
                    generated_or_referencing.push((table, *column));
                }
            }
        }
    }
    generated_or_referencing
}
