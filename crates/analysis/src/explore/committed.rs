//! Counterexamples that were run elsewhere: by the nodes of a cluster.
//!
//! The caller that runs a counterexample knows the initial rows, the effects that each call committed, and the
//! final rows. This module merges the effects of two replicas and evaluates the invariants, by the same policies
//! and the same SQL that the search uses.

use std::rc::Rc;

use anabranch_sql::summary::StatementId;
use anabranch_sql::{StatementResult, Transaction};
use anabranch_types::{Effect, Key, Row, TableId, Value};

use super::Explorer;
use super::call::{Call, Side};
use super::case::Case;
use super::counterexample::Counterexample;
use super::merge::{Merged, merge, violated_by};
use super::state::{Attempt, Log, State};
use super::statement::inserts;
use super::validity::violated;

/// A row as a node stores it: its table, its key and its values.
pub type StoredRow = (TableId, Key, Row);

/// What a call has committed on one of two replicas.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Which replica: 0 or 1.
    pub replica: usize,
    /// Its effects, in order.
    pub effects: Vec<Effect>,
}

/// The merged state of two replicas.
#[derive(Clone, Debug)]
pub struct MergedRows {
    /// The rows.
    pub rows: Vec<StoredRow>,
    /// The violated invariants, except isolation: those that the rows violate, and those that the merge itself
    /// found violated (a key that both have inserted is one).
    pub violated: Vec<String>,
}

/// A statement id that no application has: committed effects do not name their statement.
const NO_STATEMENT: StatementId = StatementId(u32::MAX);

impl Explorer<'_> {
    /// Merges what two replicas have committed on the same initial rows, in the order of timestamps. `None` if a
    /// call could not have committed so.
    pub fn merged(&self, initial: &[StoredRow], committed: &[Committed]) -> Option<MergedRows> {
        let world = &self.world;
        let ancestor = state_of(initial);
        let mut replicas = [ancestor.clone(), ancestor.clone()];
        let mut logs: Vec<Log> = Vec::with_capacity(committed.len());
        for call in committed {
            let state = replicas.get_mut(call.replica)?;
            let mut attempt = Attempt::new(world, state.clone(), 0, false);
            for effect in &call.effects {
                attempt.write(NO_STATEMENT, effect.clone()).ok()?;
            }
            let (after, log) = attempt.into_parts();
            *state = after;
            logs.push(log);
        }
        let Merged::State(merged, broken) =
            merge(world, &ancestor, &logs.iter().collect::<Vec<_>>())
        else {
            return None;
        };
        let names = violated_by(broken.as_ref(), || violated(world, &merged));
        let rows = merged.tables().flat_map(|(table, rows)| {
            rows.iter()
                .map(move |(key, row)| (table, key.clone(), row.clone()))
        });
        Some(MergedRows {
            rows: rows.collect(),
            violated: names,
        })
    }

    /// The invariants, except isolation, that rows violate.
    pub fn violated(&self, rows: &[StoredRow]) -> Vec<String> {
        violated(&self.world, &state_of(rows))
    }

    /// What a call of a counterexample of isolation has returned to its client, as far as it counts: the results of
    /// its statements, and at last the rows that the procedure returned. Empty if the plan does not order the calls
    /// for this invariant.
    pub fn answers(
        &self,
        counterexample: &Counterexample,
        place: usize,
        results: &[StatementResult],
        returned: &[Vec<Value>],
    ) -> Vec<StatementResult> {
        let world = &self.world;
        let (Some(table), [one, other]) = (
            world.isolated_table(&counterexample.invariant),
            counterexample.calls.as_slice(),
        ) else {
            return Vec::new();
        };
        if !world.has_edge(one.procedure, other.procedure, &counterexample.invariant) {
            return Vec::new();
        }
        let Some(called) = counterexample.calls.get(place) else {
            return Vec::new();
        };
        let mut log = Log {
            results: Rc::new(results.to_vec()),
            returned: returned.to_vec(),
            ..Log::default()
        };
        world.ends_without_a_write(&mut log);
        let answers = world.answers(called.procedure, &log, table);
        let returned = (!answers.returned.is_empty()).then(|| StatementResult {
            statement: NO_STATEMENT,
            count: answers.returned.len() as u64,
            rows: answers.returned,
        });
        answers.statements.into_iter().chain(returned).collect()
    }

    /// Rows as INSERT statements, parents first.
    pub fn statements(&self, rows: &[StoredRow]) -> Vec<String> {
        inserts(&self.world, &state_of(rows))
    }

    /// Whether the initial rows and calls of a counterexample, as they stand in it, break its invariant without
    /// guards.
    pub fn shows(&self, counterexample: &Counterexample) -> bool {
        let calls = (1..).zip(&counterexample.calls).map(|(number, call)| Call {
            procedure: call.procedure,
            arguments: call.arguments.clone(),
            side: match call.replica {
                0 => Side::Left,
                _ => Side::Right,
            },
            number,
        });
        let case = Case {
            rows: counterexample.rows.clone(),
            calls: calls.collect(),
        };
        case.breaks(&self.world, &counterexample.invariant, false)
    }
}

fn state_of(rows: &[StoredRow]) -> State {
    let mut state = State::default();
    for (table, key, row) in rows {
        let rows = state.of_table_mut(*table);
        rows.insert(key.clone(), row.clone());
    }
    state
}
