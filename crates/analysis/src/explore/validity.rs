//! Whether a state satisfies everything that is declared.

use std::collections::BTreeSet;

use anabranch_sql::testing::ready;
use anabranch_types::{ColumnIndex, Key, Row, TableSchema, Value};

use super::World;
use super::state::{Look, State, entry_of};
use crate::invariant::not_null_name;

/// The names of the invariants that a state violates, in a fixed order.
pub(super) fn violated(world: &World<'_>, state: &State) -> Vec<String> {
    let mut found = Vec::new();
    let schema = world.schema();
    for (table, declared) in schema.tables.iter().zip(&world.catalog().tables) {
        let rows = &state.tables[table.id.index()];
        for row in rows.values() {
            let null = |c: usize| {
                !table.columns[c].nullable && row.is_null(&table.layout, ColumnIndex(c as u16))
            };
            if (0..table.columns.len()).any(null) {
                note(&mut found, &not_null_name(&table.name));
            }
            for check in world.application.violated_checks(table.id, row) {
                note(&mut found, check);
            }
        }
        for index in table.indexes.iter().filter(|i| i.unique) {
            let mut seen = BTreeSet::new();
            for row in rows
                .values()
                .filter(|r| !has_null(table, r, &index.columns))
            {
                if !seen.insert(entry_of(table, &index.columns, row, &Key::empty())) {
                    note(&mut found, &index.name);
                }
            }
        }
        for key in &declared.foreign_keys {
            let parent = schema.table(key.parent);
            let parents = &state.tables[key.parent.index()];
            for row in rows.values().filter(|r| !has_null(table, r, &key.columns)) {
                let refers = values(table, row, &key.columns);
                let is_it = |p: &Row| same(&values(parent, p, &key.parent_columns), &refers);
                if !parents.values().any(is_it) {
                    note(&mut found, &key.name);
                }
            }
        }
    }
    for assertion in world.application.assertions() {
        let mut look = Look { schema, state };
        if !matches!(ready(assertion.holds(&mut look)), Ok(true)) {
            note(&mut found, assertion.name());
        }
    }
    found
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
