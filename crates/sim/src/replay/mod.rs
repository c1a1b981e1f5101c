//! A counterexample of the analyser, run by the nodes of a cluster.
//!
//! Twice:
//!
//! * *Without coordination* there are two replicas (coordination-avoidance.txt, §3): two clusters of one
//!   node, each with all of the data, that say nothing to each other. Each runs its calls, with the same
//!   engine, protocol and store as any cluster; what its calls have committed is taken from its nodes, and
//!   merged as the plan says that columns are merged. The merged rows violate the invariant, as the
//!   analyser has foretold, or the analyser was wrong.
//! * *With the plan* there is one cluster of two partitions. Two clients make the calls of the two
//!   replicas at the same time, again and again, while a seed delays each message; each time the invariant
//!   holds in what is left, or the plan was wrong. What a client is refused for is counted.
//!
//! Isolation is judged by what is left: in its table what one call after the other leaves there, in one
//! order or the other, run by the same nodes; and in all tables where nothing else than that is found in
//! this one. Keys, numbers and times that a node has generated are not compared.
//!
//! What a guard of one type is for ([`Replayer::purpose`]) is run alike: the replicas keep all of the plan but this
//! guard ([`Replayer::but_for`]), and the rest orders none of their calls. It is shown apart, and not by one cluster
//! under the plan without the guard: there a row has one owner, who checks its CHECK conditions at commit whatever
//! the plan orders.
//!
//! It departs from the paper in one thing: there replicas exchange what they did; here it is merged
//! beside them, since no cluster of this house gives up the order of a row's owner.

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
use anabranch_sql::catalog::{Catalog, ColumnDefault};
use anabranch_types::{ColumnIndex, Effect, TableId, Value};

use nodes::{Start, at_once, one_by_one};

/// Partitions of the cluster that runs the plan.
const PARTITIONS: u16 = 2;

/// Numbers that are given to identity columns are higher than this, and than those that a counterexample names: so
/// it is seen that they are given.
const NUMBERS_ABOVE: i64 = 10_000;

/// So far apart are the numbers that two replicas give to identity columns.
const NUMBERS_APART: i64 = 1_000;

/// Why a counterexample could not be run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReplayError {
    /// An initial row does not load.
    Row(RowError),
    /// A node has broken an invariant of its protocol.
    Protocol(String),
    /// The calls do not end.
    NoEnd,
}

impl std::fmt::Display for ReplayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReplayError::Row(error) => write!(f, "an initial row does not load: {error}"),
            ReplayError::Protocol(what) => {
                write!(f, "a node has broken an invariant of its protocol: {what}")
            }
            ReplayError::NoEnd => f.write_str("the calls do not end"),
        }
    }
}

impl std::error::Error for ReplayError {}

/// What a counterexample came to.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Without coordination.
    pub without: Apart,
    /// With the plan.
    pub with: Together,
}

/// What two replicas came to.
#[derive(Clone, Debug)]
pub struct Apart {
    /// Why calls failed where they ran, in the counterexample's order; `None` for those that committed.
    pub refused: Vec<Option<String>>,
    /// The merged rows, as INSERT statements; none if a call failed.
    pub merged: Vec<String>,
    /// Whether they violate the counterexample's invariant.
    pub is_broken: bool,
}

/// What one cluster under the plan came to.
#[derive(Clone, Debug)]
pub struct Together {
    /// How often the calls were made, each time with other delays.
    pub interleavings: u32,
    /// How often each call failed, by what it was told, in the counterexample's order.
    pub refused: Vec<BTreeMap<String, u32>>,
    /// The first time that the invariant broke.
    pub broken: Option<BrokenPlan>,
}

/// What the plan let happen.
#[derive(Clone, Debug)]
pub struct BrokenPlan {
    /// The seed of the delays.
    pub seed: u64,
    /// What was left, as INSERT statements.
    pub rows: Vec<String>,
    /// The invariants that it violates.
    pub violated: Vec<String>,
}

impl Replayed {
    /// Whether the invariant broke without coordination, and held with the plan.
    pub fn is_as_told(&self) -> bool {
        self.without.is_broken && self.with.broken.is_none()
    }
}

/// Runs an application's counterexamples.
pub struct Replayer {
    plan: Plan,
    /// One partition, no guards, or all but one.
    apart: Arc<PlannedApplication>,
    /// Two partitions, all guards.
    together: Arc<PlannedApplication>,
}

impl Replayer {
    /// Of an application that was compiled twice from the same files, and its plan.
    pub fn new(application: Application, again: Application, plan: Plan) -> Replayer {
        let unguarded = plan.without_guards(application.summaries());
        Replayer {
            apart: PlannedApplication::new(application, unguarded, 1),
            together: PlannedApplication::new(again, plan.clone(), PARTITIONS),
            plan,
        }
    }

    /// The same with another plan for what runs together: one that lacks a guard, say.
    #[must_use]
    pub fn under(mut self, again: Application, plan: Plan) -> Replayer {
        self.together = PlannedApplication::new(again, plan, PARTITIONS);
        self
    }

    /// The same, whose replicas do without one guard of one type and keep all else of the plan.
    ///
    /// # Panics
    /// When there is no such guard.
    #[must_use]
    pub fn but_for(self, entry: usize, guard: usize) -> Replayer {
        let less = |application: &Application| {
            let summaries = application.summaries();
            self.plan.without_guard(summaries, entry, guard)
        };
        let apart = match Arc::into_inner(self.apart) {
            Some(planned) => {
                let less = less(&planned.application);
                PlannedApplication::new(planned.application, less, 1)
            }
            None => unreachable!("whoever runs it has it for as long as it runs"),
        };
        Replayer { apart, ..self }
    }

    /// What a guard of one type is for: see [`Explorer::purpose`].
    ///
    /// # Panics
    /// When there is no such guard.
    pub fn purpose(&self, entry: usize, guard: usize, seed: u64, effort: Effort) -> Purpose {
        self.explorer().purpose(entry, guard, seed, effort)
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What was analysed.
    pub fn catalog(&self) -> &Catalog {
        self.apart.application.catalog()
    }

    /// The application's counterexamples: see [`Explorer::counterexamples`].
    pub fn counterexamples(&self, seed: u64, effort: Effort) -> Vec<Counterexample> {
        self.explorer().counterexamples(seed, effort)
    }

    fn explorer(&self) -> Explorer<'_> {
        Explorer::new(&self.apart.application, &self.plan)
    }

    /// Runs a counterexample without coordination, and so often with the plan.
    ///
    /// # Errors
    /// When nodes cannot run it.
    pub fn replay(
        &self,
        shown: &Counterexample,
        interleavings: u32,
    ) -> Result<Replayed, ReplayError> {
        let mut judge = Judge::new(self, shown)?;
        Ok(Replayed {
            without: self.apart(&mut judge)?,
            with: self.together(&judge, interleavings)?,
        })
    }

    fn apart(&self, judge: &mut Judge<'_>) -> Result<Apart, ReplayError> {
        let shown = judge.shown;
        let initial = nodes::stored(&judge.start(&self.apart, 0))?;
        let (mut refused, mut effects) = self.each_by_itself(judge, &shown.calls)?;
        if let Some(calls) = self.meant(&shown.calls, &effects) {
            (refused, effects) = self.each_by_itself(judge, &calls)?;
        }
        let mut apart = Apart {
            refused,
            merged: Vec::new(),
            is_broken: false,
        };
        if apart.refused.iter().any(Option::is_some) {
            return Ok(apart);
        }
        let calls = shown.calls.iter().zip(effects);
        let committed: Vec<Committed> = calls
            .map(|(call, effects)| Committed {
                replica: call.replica,
                effects,
            })
            .collect();
        let explorer = self.explorer();
        if let Some(merged) = explorer.merged(&initial, &committed) {
            apart.merged = explorer.statements(&merged.rows);
            apart.is_broken = match &mut judge.isolation {
                Some(isolation) => isolation.is_lost(&merged.rows),
                None => merged.violated.contains(&shown.invariant),
            };
        }
        Ok(apart)
    }

    /// Has each replica run its own of these calls: why each failed, and what it has done.
    #[expect(
        clippy::type_complexity,
        reason = "two lists, in the order of the calls"
    )]
    fn each_by_itself(
        &self,
        judge: &Judge<'_>,
        calls: &[ReplicaCall],
    ) -> Result<(Vec<Option<String>>, Vec<Vec<Effect>>), ReplayError> {
        let mut refused = vec![None; calls.len()];
        let mut effects = vec![Vec::new(); calls.len()];
        for replica in 0..2 {
            let numbers = judge.numbers(&self.apart, replica)?;
            let start = Start {
                numbers: &numbers,
                life: Incarnation(replica as u64 + 1),
                ..judge.start(&self.apart, 0)
            };
            let mine = |place: &usize| calls[*place].replica == replica;
            let places: Vec<usize> = (0..calls.len()).filter(mine).collect();
            let calls: Vec<ReplicaCall> = places.iter().map(|p| calls[*p].clone()).collect();
            let order: Vec<usize> = (0..calls.len()).collect();
            let ended = one_by_one(&start, &calls, &order)?;
            for ((place, end), done) in places.into_iter().zip(ended.ends).zip(ended.effects) {
                refused[place] = end.err().map(|error| error.to_string());
                effects[place] = done;
            }
        }
        Ok((refused, effects))
    }

    /// The calls, where one names a key that another has generated: by the key that this one generates here.
    /// `None` where none does.
    fn meant(&self, calls: &[ReplicaCall], effects: &[Vec<Effect>]) -> Option<Vec<ReplicaCall>> {
        let mut other: Vec<(&Value, Value)> = Vec::new();
        for (call, effects) in calls.iter().zip(effects) {
            let rows = effects.iter().filter_map(|effect| match effect {
                Effect::Insert { table, row, .. } => Some((*table, row)),
                _ => None,
            });
            for ((table, row), (of, values)) in rows.zip(&call.inserted) {
                let layout = &self.apart.schema().table(table).layout;
                let pairs = values.iter().zip(row.values(layout));
                let generated = |value: &Value| matches!(value, Value::Int(_) | Value::Uuid(_));
                let pairs = pairs.filter(|(there, _)| table == *of && generated(there));
                other.extend(pairs.filter(|(there, here)| *there != here));
            }
        }
        let mut meant = calls.to_vec();
        for argument in meant.iter_mut().flat_map(|call| &mut call.arguments) {
            if let Some((_, here)) = other.iter().find(|(there, _)| **there == *argument) {
                *argument = here.clone();
            }
        }
        (meant != calls).then_some(meant)
    }

    fn together(&self, judge: &Judge<'_>, interleavings: u32) -> Result<Together, ReplayError> {
        let shown = judge.shown;
        let explorer = self.explorer();
        let mut together = Together {
            interleavings,
            refused: vec![BTreeMap::new(); shown.calls.len()],
            broken: None,
        };
        for seed in 1..=u64::from(interleavings) {
            let start = judge.start(&self.together, seed);
            let numbers = judge.numbers(&self.together, 0)?;
            let start = Start {
                numbers: &numbers,
                ..start
            };
            let ended = at_once(&start, &shown.calls)?;
            for (counts, end) in together.refused.iter_mut().zip(&ended.ends) {
                if let Err(error) = end {
                    *counts.entry(error.to_string()).or_default() += 1;
                }
            }
            let mut violated = explorer.violated(&ended.rows);
            if let Some(isolation) = &judge.isolation
                && !isolation.permits(&ended.rows)
            {
                violated.push(shown.invariant.clone());
            }
            if !violated.is_empty() && together.broken.is_none() {
                together.broken = Some(BrokenPlan {
                    seed,
                    rows: explorer.statements(&ended.rows),
                    violated,
                });
            }
        }
        Ok(together)
    }
}

/// What is looked at after a counterexample has run.
struct Judge<'c> {
    shown: &'c Counterexample,
    isolation: Option<Isolation>,
    none: SequenceStarts,
}

impl<'c> Judge<'c> {
    fn new(replayer: &Replayer, shown: &'c Counterexample) -> Result<Judge<'c>, ReplayError> {
        let mut judge = Judge {
            shown,
            isolation: None,
            none: SequenceStarts::default(),
        };
        let name = shown.invariant.strip_prefix("isolation(");
        let name = name.and_then(|rest| rest.strip_suffix(')'));
        let tables = &replayer.together.schema().tables;
        if let Some(table) = name.and_then(|name| tables.iter().find(|t| t.name == name)) {
            let mut isolation = Isolation {
                tables: vec![table.id],
                known: known(shown),
                generated: lent(&replayer.together),
                planned: Arc::clone(&replayer.together),
                permitted: Vec::new(),
            };
            for order in [[0, 1], [1, 0]] {
                let start = judge.start(&replayer.together, 0);
                let numbers = judge.numbers(&replayer.together, 0)?;
                let start = Start {
                    numbers: &numbers,
                    ..start
                };
                let ended = one_by_one(&start, &shown.calls, &order)?;
                isolation.permitted.push(ended.rows);
            }
            judge.isolation = Some(isolation);
        }
        Ok(judge)
    }

    /// What identity columns get numbers above: different on each replica.
    fn numbers(
        &self,
        planned: &Arc<PlannedApplication>,
        replica: usize,
    ) -> Result<SequenceStarts, ReplayError> {
        let mut numbers = nodes::numbers(&self.start(planned, 0))?;
        let known = known(self.shown);
        let known = known.iter().filter_map(|value| match value {
            Value::Int(number) => Some(*number),
            _ => None,
        });
        // Beyond what a column has room for there is nothing to give.
        let fitting = known.filter(|number| *number < NUMBERS_ABOVE + NUMBERS_APART);
        let above = fitting.max().unwrap_or(0).max(NUMBERS_ABOVE);
        let apart = NUMBERS_APART * replica as i64;
        for (table, column) in generated(planned) {
            numbers.include(table, column, above + apart);
        }
        Ok(numbers)
    }

    fn start<'s>(&'s self, planned: &'s Arc<PlannedApplication>, seed: u64) -> Start<'s> {
        Start {
            planned,
            rows: &self.shown.rows,
            numbers: &self.none,
            life: Incarnation::FIRST,
            seed,
        }
    }
}

/// What one call after the other leaves.
struct Isolation {
    /// The tables that are looked at.
    tables: Vec<TableId>,
    /// Values that are given, not generated.
    known: Vec<Value>,
    /// Columns of generated numbers, and those that refer to them.
    generated: Vec<(TableId, ColumnIndex)>,
    planned: Arc<PlannedApplication>,
    /// What may be left.
    permitted: Vec<Vec<StoredRow>>,
}

impl Isolation {
    fn permits(&self, rows: &[StoredRow]) -> bool {
        let left = self.told(rows);
        self.permitted.iter().any(|rows| self.told(rows) == left)
    }

    /// Whether something is lost in the table, or else in any: from then on all are looked at.
    fn is_lost(&mut self, rows: &[StoredRow]) -> bool {
        if !self.permits(rows) {
            return true;
        }
        let all = 0..self.planned.schema().tables.len() as u16;
        self.tables = all.map(TableId).collect();
        !self.permits(rows)
    }

    /// The tables' rows, without what nodes have generated.
    fn told(&self, rows: &[StoredRow]) -> BTreeMap<TableId, Vec<String>> {
        let mut told: BTreeMap<TableId, Vec<String>> = BTreeMap::new();
        for (table, _, row) in rows
            .iter()
            .filter(|(table, ..)| self.tables.contains(table))
        {
            let values = row.values(&self.planned.schema().table(*table).layout);
            let values = values.into_iter().zip(0..);
            let given =
                values.map(|(value, column)| self.given(value, *table, ColumnIndex(column)));
            let row = format!("{:?}", given.collect::<Vec<_>>());
            told.entry(*table).or_default().push(row);
        }
        told.values_mut().for_each(|rows| rows.sort_unstable());
        told
    }

    /// A value, or NULL in the place of one that a node has generated.
    fn given(&self, value: Value, table: TableId, column: ColumnIndex) -> Value {
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

/// All values of a counterexample.
fn known(shown: &Counterexample) -> Vec<Value> {
    let rows = shown.rows.iter().flat_map(|(_, values)| values);
    let arguments = shown.calls.iter().flat_map(|call| &call.arguments);
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
            ColumnDefault::Null | ColumnDefault::Expression(..) => None,
        })
    });
    columns.collect()
}

/// The same, and the columns that refer to them.
fn lent(planned: &PlannedApplication) -> Vec<(TableId, ColumnIndex)> {
    let tables = &planned.application.catalog().tables;
    let keys = || {
        tables
            .iter()
            .flat_map(|table| table.foreign_keys.iter().map(|key| (table.id, key)))
    };
    let mut lent = generated(planned);
    let mut next = 0;
    while let Some(parent) = lent.get(next).copied() {
        next += 1;
        for (table, key) in keys() {
            for (column, of) in key.columns.iter().zip(&key.parent_columns) {
                if (key.parent, *of) == parent && !lent.contains(&(table, *column)) {
                    lent.push((table, *column));
                }
            }
        }
    }
    lent
}
