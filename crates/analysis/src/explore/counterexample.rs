//! Counterexamples as SQL.

use anabranch_types::{Effect, TableId, Value};

use super::World;
use super::call::Side;
use super::case::Case;
use super::failure::{IsolationFailure, failure};
use super::state::{Log, State};
use super::statement::{call, inserts};

/// A minimal failure: initial rows, the calls of each of two replicas, the merged rows, and the invariant that
/// these violate. Nothing of it can be left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Counterexample {
    /// The violated invariant's name.
    pub invariant: String,
    /// The transaction types that run, each once, in order of declaration.
    pub transactions: Vec<String>,
    /// The initial rows, as INSERTs, parents first.
    pub initial: Vec<String>,
    /// The calls of each replica. A value that a call generated follows it as a comment.
    pub replicas: [Vec<String>; 2],
    /// The replica (0 or 1) of each call, in the order of timestamps.
    pub order: Vec<usize>,
    /// All rows of the merged state, as INSERTs, parents first.
    pub merged: Vec<String>,
    /// Tables that have initial rows and no row in the merged state.
    pub emptied: Vec<String>,
    /// The initial rows, with a value for each column: `initial` as data.
    pub rows: Vec<(TableId, Vec<Value>)>,
    /// The calls in the order of timestamps: `replicas` and `order` as data.
    pub calls: Vec<ReplicaCall>,
    /// For isolation: what the two calls do wrong, and the same in two sessions of PostgreSQL.
    pub isolation: Option<Box<IsolationFailure>>,
}

/// A call on one of two replicas.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaCall {
    /// Which replica: 0 or 1.
    pub replica: usize,
    /// The index of the procedure in the application's list, and of the transaction type in the plan.
    pub procedure: usize,
    /// Its arguments, in order.
    pub arguments: Vec<Value>,
    /// The rows that it inserted where the search ran it, in order. Generated keys differ in another run: a caller
    /// finds by these rows which key another call's argument refers to.
    pub inserted: Vec<(TableId, Vec<Value>)>,
}

impl Counterexample {
    /// An identifier that stays the same while the counterexample has the same invariant and transaction types:
    /// their names.
    pub fn id(&self) -> String {
        format!("{}/{}", self.invariant, self.transactions.join("+"))
    }
}

/// Writes a case as SQL; `None` if it does not run.
pub(super) fn counterexample(
    world: &World<'_>,
    case: &Case,
    invariant: &str,
    planned: bool,
) -> Option<Counterexample> {
    let (ancestor, logs) = case.ran(world, planned)?;
    let merged = case.merged(world, planned)?;
    let of = |side: Side| -> Vec<String> {
        let calls = case.calls.iter().filter(|c| c.side == side);
        calls.map(|c| call(world, c)).collect()
    };
    let before = case.calls.iter().filter(|c| c.side == Side::Before);
    let mut initial = inserts(world, &State::of(world.schema(), &case.rows)?);
    initial.extend(before.map(|c| call(world, c)));
    let changed: Vec<TableId> = world
        .schema()
        .tables
        .iter()
        .map(|t| t.id)
        .filter(|t| ancestor.of_table(*t) != merged.of_table(*t))
        .collect();
    let mut types: Vec<usize> = case.calls.iter().map(|c| c.procedure).collect();
    types.sort_unstable();
    types.dedup();
    let names = |t: &TableId| world.schema().table(*t).name.clone();
    let isolation = match world.isolated_table(invariant) {
        Some(table) => Some(Box::new(failure(world, case, table)?)),
        None => None,
    };
    Some(Counterexample {
        invariant: invariant.to_owned(),
        transactions: types
            .iter()
            .map(|t| world.plan.entries[*t].name.clone())
            .collect(),
        initial,
        replicas: [of(Side::Left), of(Side::Right)],
        order: case
            .calls
            .iter()
            .filter(|c| c.side != Side::Before)
            .map(|c| usize::from(c.side == Side::Right))
            .collect(),
        merged: inserts(world, &merged),
        emptied: changed
            .iter()
            .filter(|t| merged.of_table(**t).is_empty())
            .map(names)
            .collect(),
        rows: case.rows.clone(),
        calls: case
            .calls
            .iter()
            .filter(|c| c.side != Side::Before)
            .zip(&logs)
            .map(|(c, log)| ReplicaCall {
                replica: usize::from(c.side == Side::Right),
                procedure: c.procedure,
                arguments: c.arguments.clone(),
                inserted: inserted(world, log),
            })
            .collect(),
        isolation,
    })
}

/// The rows that a call has inserted.
fn inserted(world: &World<'_>, log: &Log) -> Vec<(TableId, Vec<Value>)> {
    let effects = log.effects.iter();
    let inserts = effects.filter(|done| matches!(done.effect, Effect::Insert { .. }));
    inserts
        .filter_map(|done| {
            let table = done.effect.table();
            let layout = &world.schema().table(table).layout;
            Some((table, done.after.as_ref()?.values(layout)))
        })
        .collect()
}
