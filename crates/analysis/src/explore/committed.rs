//! Counterexamples that were run elsewhere: by the nodes of a cluster.
//!
//! The caller that runs a counterexample knows the initial rows, the effects that each call committed, and the
//! final rows. This module merges the effects of two replicas and evaluates the invariants, by the same policies
//! and the same SQL that the search uses.

use anabranch_sql::Transaction;
use anabranch_sql::summary::StatementId;
use anabranch_types::{Effect, Key, Row, TableId};

use super::Explorer;
use super::call::{Call, Side};
use super::case::Case;
use super::counterexample::{Counterexample, inserts};
use super::merge::{Merged, merge};
use super::state::{Attempt, Log, State};
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
        let mut names = violated(world, &merged);
        if let Some(broken) = broken
            && !names.contains(&broken)
        {
            names.insert(0, broken);
        }
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
