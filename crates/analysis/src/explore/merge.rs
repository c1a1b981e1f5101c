//! Merges the effects of two replicas, by the merge policies of the plan.
//!
//! Calls are applied in the order of their timestamps, which keeps the order of each replica. Inserted rows are
//! added, deleted rows are removed, and each column of an updated row follows its [`MergePolicy`]: amounts are
//! added, assigned values are kept from the highest timestamp, and what a row's owner computes is computed again
//! from the row as it then is.

use std::collections::btree_map::Entry;

use anabranch_types::{ColumnIndex, ColumnSet, Effect, Key, Row, TableSchema, Value};

use super::World;
use super::state::{Log, LoggedEffect, State, key_of, patched};
use crate::plan::MergePolicy;

/// The result of a merge.
pub(super) enum Merged {
    /// A state; with the invariant that the merge found violated, if a key was inserted twice or an owner could not
    /// evaluate an update.
    State(State, Option<Broken>),
    /// A call could not have committed so: the case says nothing.
    Impossible,
}

/// What a merge found violated by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    /// The invariant.
    pub(super) invariant: String,
    /// Whether what the state violates besides is a counterexample of its own.
    pub(super) further: FurtherViolations,
}

/// Which invariants besides the one that the merge found are shown to break by a merged state. What follows from two
/// causes is the stronger of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FurtherViolations {
    /// Each that the state violates.
    All,
    /// Those for which the plan orders the calls: two rows have one key, so that what relates this table to others counts
    /// one of them twice, whichever statement wrote it.
    Ordered,
    /// None: the state lacks a value that an acknowledged call has written, since its owner could not compute it.
    None,
}

/// The invariants that a merged state violates: the one that the merge found, and those that are `found` in the state.
pub(super) fn violated_by(
    broken: Option<&Broken>,
    found: impl FnOnce() -> Vec<String>,
) -> Vec<String> {
    let Some(broken) = broken else {
        return found();
    };
    let mut names = match broken.further {
        FurtherViolations::None => Vec::new(),
        FurtherViolations::Ordered | FurtherViolations::All => found(),
    };
    if !names.contains(&broken.invariant) {
        names.insert(0, broken.invariant.clone());
    }
    names
}

/// Applies the calls' effects to the ancestor, in the order of `logs`.
pub(super) fn merge(world: &World<'_>, ancestor: &State, logs: &[&Log]) -> Merged {
    let mut state = ancestor.clone();
    let mut broken: Option<Broken> = None;
    for log in logs {
        let mut slots = vec![Value::Null; log.slots];
        for done in &log.effects {
            match apply(world, &mut state, done, &mut slots) {
                Ok(None) => {}
                Ok(Some(found)) => {
                    let further = found.further;
                    let first = broken.get_or_insert(found);
                    first.further = first.further.max(further);
                }
                Err(()) => return Merged::Impossible,
            }
        }
    }
    Merged::State(state, broken)
}

/// Applies one effect. Returns the invariant that it violates, if any; an error if it could not have committed.
fn apply(
    world: &World<'_>,
    state: &mut State,
    done: &LoggedEffect,
    slots: &mut [Value],
) -> Result<Option<Broken>, ()> {
    let table = world.schema().table(done.effect.table());
    let rows = state.of_table_mut(table.id);
    match &done.effect {
        Effect::Insert {
            key, row, patches, ..
        } => {
            let row = patched(table, row, patches, slots).ok_or(())?;
            let key = key_of(table, &row).unwrap_or_else(|| key.clone());
            let mut beside = key.clone();
            if let Entry::Vacant(place) = rows.entry(key) {
                place.insert(row);
                return Ok(None);
            }
            if !patches.is_empty() {
                // An owner drew its number, and would have refused this key.
                return Err(());
            }
            // Both rows are kept, so that the counterexample lists both.
            beside.push_bytes(&[u8::MAX]);
            rows.insert(beside, row);
            Ok(Some(Broken {
                invariant: world.primary_key_name(table.id),
                further: FurtherViolations::Ordered,
            }))
        }
        Effect::Delete { key, .. } => {
            rows.remove(key);
            Ok(None)
        }
        Effect::Update {
            key,
            program,
            arguments,
            outputs,
            ..
        } => {
            let Some(row) = rows.get(key).cloned() else {
                return if outputs.is_some() { Err(()) } else { Ok(None) };
            };
            let mut columns = world.written(done, table);
            let owner = |c: &ColumnIndex| world.is_owned(*program, table.id, *c);
            let mut computed = None;
            let mut refused = None;
            let unknown = !world.statements.contains_key(&done.statement);
            if outputs.is_some() || unknown || columns.iter().any(owner) {
                match world
                    .programs
                    .apply(*program, &row, arguments, ColumnSet::EMPTY)
                {
                    Ok(applied) => computed = Some(applied),
                    // The call was already acknowledged: what it adds to a counter is added all the same.
                    Err(error) => refused = Some(world.refused(table.id, &error).ok_or(())?),
                }
            }
            if let (true, Some(applied)) = (unknown, &computed) {
                // A column that it left unchanged where it ran may change here.
                let all = (0..table.columns.len()).map(|c| ColumnIndex(c as u16));
                let differs = |c: &ColumnIndex| {
                    row.get(&table.layout, *c) != applied.row.get(&table.layout, *c)
                };
                columns.extend(all.filter(differs));
                columns.sort_unstable();
                columns.dedup();
            }
            if let (Some(first), Some(applied)) = (outputs, &computed) {
                for (place, value) in applied.outputs.iter().enumerate() {
                    slots[first.index() + place] = value.clone();
                }
            }
            let computed = computed.map(|applied| applied.row);
            let adds_up = |c: &ColumnIndex| {
                let policy = world.policy(table.id, *c);
                matches!(policy, MergePolicy::Counter | MergePolicy::Immutable)
            };
            let lacks_a_value = columns.iter().any(|c| owner(c) && !adds_up(c));
            let value = |column: ColumnIndex| {
                let value = merged_value(world, done, &row, computed.as_ref(), owner, column)?;
                Ok((column, value))
            };
            let changes: Vec<(ColumnIndex, Value)> =
                columns.into_iter().map(value).collect::<Result<_, ()>>()?;
            put(table, rows, key, &row, &changes).ok_or(())?;
            Ok(refused.map(|invariant| Broken {
                invariant,
                further: match lacks_a_value {
                    true => FurtherViolations::None,
                    false => FurtherViolations::All,
                },
            }))
        }
    }
}

/// The value that an update leaves in a column of `row`, by the column's merge policy. `computed` is the row that the
/// owner's program makes of it, `owner` whether that program computes a column.
fn merged_value(
    world: &World<'_>,
    done: &LoggedEffect,
    row: &Row,
    computed: Option<&Row>,
    owner: impl Fn(&ColumnIndex) -> bool,
    column: ColumnIndex,
) -> Result<Value, ()> {
    let table = world.schema().table(done.effect.table());
    let of = |row: &Option<Row>| row.as_ref().map(|r| r.get(&table.layout, column));
    let (Some(before), Some(after)) = (of(&done.before), of(&done.after)) else {
        return Err(());
    };
    let now = row.get(&table.layout, column);
    let policy = world.policy(table.id, column);
    if policy == MergePolicy::OwnerOrder
        && now != before
        && world.is_computed_from_found_row(done, table.id, column)
    {
        return Err(());
    }
    Ok(match (policy, computed) {
        // By the policy it never changes: readers see the inserted value.
        (MergePolicy::Immutable, _) => now,
        (MergePolicy::Counter, _) => {
            with_difference(table, column, &now, &before, &after).ok_or(())?
        }
        _ if !owner(&column) => after,
        (_, Some(computed)) => computed.get(&table.layout, column),
        (_, None) => now,
    })
}

fn put(
    table: &TableSchema,
    rows: &mut std::collections::BTreeMap<Key, Row>,
    key: &Key,
    row: &Row,
    changes: &[(ColumnIndex, Value)],
) -> Option<()> {
    let new = row.with(&table.layout, changes).ok()?;
    rows.insert(key.clone(), new);
    Some(())
}

/// The value changed by the difference between two other values; `None` beyond the type's domain.
fn with_difference(
    table: &TableSchema,
    column: ColumnIndex,
    now: &Value,
    before: &Value,
    after: &Value,
) -> Option<Value> {
    let data_type = &table.columns[column.index()].data_type;
    Some(match (now, before, after) {
        (Value::Int(n), Value::Int(b), Value::Int(a)) => {
            let value = n.checked_add(a.checked_sub(*b)?)?;
            let bits = match data_type {
                anabranch_types::DataType::Int2 => 16,
                anabranch_types::DataType::Int4 => 32,
                _ => 64,
            };
            let most = i64::MAX >> (64 - bits);
            (-most - 1..=most)
                .contains(&value)
                .then_some(Value::Int(value))?
        }
        (Value::Numeric(n), Value::Numeric(b), Value::Numeric(a)) => {
            let value = n.try_add(a.try_sub(*b).ok()?).ok()?;
            match data_type {
                anabranch_types::DataType::Numeric(Some(bounds)) => {
                    Value::Numeric(value.rescale(*bounds).ok()?)
                }
                _ => Value::Numeric(value),
            }
        }
        (Value::Float(n), Value::Float(b), Value::Float(a)) => Value::Float(n + (a - b)),
        // Adding NULL gives NULL, and adding to NULL gives NULL.
        (Value::Null, ..) | (_, _, Value::Null) => Value::Null,
        _ => after.clone(),
    })
}
