//! Whether a state satisfies every declared invariant.

use std::collections::BTreeSet;

use anabranch_sql::application::CompiledAssertion;
use anabranch_sql::testing::ready;
use anabranch_types::{ColumnIndex, Key, Row, Schema, TableId, TableSchema, Value};

use super::World;
use super::state::{Rows, State, StateReader, entry_of};
use crate::invariant::not_null_name;

/// The names of the invariants that a state violates, in a fixed order.
pub(super) fn violated(world: &World<'_>, state: &State) -> Vec<String> {
    found(world, state, None)
}

/// The same for a state that derives from one that violates nothing: what has not changed is not evaluated.
pub(super) fn violated_since(world: &World<'_>, state: &State, valid: &State) -> Vec<String> {
    found(world, state, Some(&state.changed_tables(valid)))
}

fn found(world: &World<'_>, state: &State, changed: Option<&[TableId]>) -> Vec<String> {
    let mut found = Vec::new();
    let schema = world.schema();
    let is_changed =
        |table: TableId| changed.is_none_or(|changed| changed.binary_search(&table).is_ok());
    for (table, rows) in state.tables() {
        let (table, declared) = (schema.table(table), world.catalog().table(table));
        if is_changed(table.id) {
            by_itself(world, table, rows, &mut found);
        }
        let keys = declared.foreign_keys.iter();
        for key in keys.filter(|key| is_changed(table.id) || is_changed(key.parent)) {
            let parent = schema.table(key.parent);
            let parents = state.of_table(key.parent);
            for row in rows.values().filter(|r| !has_null(table, r, &key.columns)) {
                let refers = values(table, row, &key.columns);
                let is_it = |p: &Row| same(&values(parent, p, &key.parent_columns), &refers);
                if !parents.values().any(is_it) {
                    note(&mut found, &key.name);
                }
            }
        }
    }
    let assertions = world.application.assertions().iter();
    for (assertion, known) in assertions.zip(&world.assertions) {
        if !known.tables.iter().any(|table| is_changed(*table)) && changed.is_some() {
            continue;
        }
        let empty = || known.tables.iter().all(|t| state.of_table(*t).is_empty());
        let holds = match empty() {
            true => known.holds_empty,
            false => holds(schema, assertion, state),
        };
        if !holds {
            note(&mut found, assertion.name());
        }
    }
    found
}

/// Evaluates the invariants that concern one table's rows alone: NOT NULL, CHECK, keys.
fn by_itself(world: &World<'_>, table: &TableSchema, rows: &Rows, found: &mut Vec<String>) {
    for row in rows.values() {
        let null = |c: usize| {
            !table.columns[c].nullable && row.is_null(&table.layout, ColumnIndex(c as u16))
        };
        if (0..table.columns.len()).any(null) {
            note(found, &not_null_name(&table.name));
        }
        for check in world.application.violated_checks(table.id, row) {
            note(found, check);
        }
    }
    let indexes = table.indexes.iter().filter(|i| i.unique);
    for index in indexes.filter(|_| rows.len() > 1) {
        let mut seen = BTreeSet::new();
        for row in rows
            .values()
            .filter(|r| !has_null(table, r, &index.columns))
        {
            if !seen.insert(entry_of(table, &index.columns, row, &Key::empty())) {
                note(found, &index.name);
            }
        }
    }
}

/// Whether a state satisfies an assertion.
pub(super) fn holds(schema: &Schema, assertion: &CompiledAssertion, state: &State) -> bool {
    let mut look = StateReader { schema, state };
    matches!(ready(assertion.holds(&mut look)), Ok(true))
}

fn note(found: &mut Vec<String>, name: &str) {
    if !found.iter().any(|f| f == name) {
        found.push(name.to_owned());
    }
}

fn has_null(table: &TableSchema, row: &Row, columns: &[ColumnIndex]) -> bool {
    columns.iter().any(|c| row.is_null(&table.layout, *c))
}

fn values(table: &TableSchema, row: &Row, columns: &[ColumnIndex]) -> Vec<Value> {
    let of = |c: &ColumnIndex| row.get(&table.layout, *c);
    columns.iter().map(of).collect()
}

fn same(a: &[Value], b: &[Value]) -> bool {
    let equal = |(a, b): (&Value, &Value)| a.compare(b) == Some(std::cmp::Ordering::Equal);
    a.iter().zip(b).all(equal)
}
