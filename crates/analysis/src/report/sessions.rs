//! Counterexamples as a script for `psql`: initial rows, the calls of two sessions, and a query that returns a row
//! for each violation.

use std::collections::BTreeSet;
use std::fmt::Write;

use anabranch_sql::catalog::Catalog;
use anabranch_types::{ColumnIndex, TableId, TableSchema};

use super::counterexample::violated;
use crate::explore::{Counterexample, quoted};
use crate::invariant::not_null_name;
use crate::plan::Plan;

/// The first line of what [`render`] writes. A file that begins with it may be replaced.
pub const FIRST_LINE: &str =
    "-- Two sessions that have to be ordered: written by anabranch replay.";

/// The script, to be run in a database that has the application's tables and no rows. It rolls everything back.
pub fn render(plan: &Plan, catalog: &Catalog, shown: &[&Counterexample], command: &str) -> String {
    let mut out = format!(
        "{FIRST_LINE}
--
--     {command}
--
-- Run it with psql, in a database that has the application's tables and no rows. Each part is rolled back.
-- The sessions of each part run one after the other, and the result is valid: the last query of each part
-- returns no row. A call may be refused for that; psql then continues.
-- PostgreSQL has no assertions: the script checks them after each call, and undoes a call that violates one.
-- The comments show the result without coordination: each session runs on a copy of the initial rows, and the
-- copies are merged.

\\set ON_ERROR_STOP off
\\set ON_ERROR_ROLLBACK on
"
    );
    for one in shown {
        part(plan, catalog, one, &mut out);
    }
    out
}

fn part(plan: &Plan, catalog: &Catalog, shown: &Counterexample, out: &mut String) {
    let _ = writeln!(out, "\n-- {}", comment(&shown.id()));
    if let Some(what) = violated(plan, shown) {
        let _ = writeln!(out, "-- violates: {}", comment(what));
    }
    out.push_str("BEGIN;\n");
    for statement in &shown.initial {
        let _ = writeln!(out, "{statement}");
    }
    let mut invariants = plan.invariants.iter();
    let condition = invariants
        .find(|invariant| invariant.name == shown.invariant)
        .and_then(|invariant| invariant.condition.as_ref()?.strip_prefix("CHECK "));
    for (number, calls) in (1..).zip(&shown.replicas) {
        let _ = writeln!(out, "\n-- Session {number}:");
        for call in calls {
            let _ = match condition {
                None => writeln!(out, "{call}"),
                Some(condition) => writeln!(
                    out,
                    "SAVEPOINT before;\n{call}\nSELECT coalesce(NOT {condition}, false) AS violated \\gset\n\\if \
                     :violated\nROLLBACK TO SAVEPOINT before;\n\\endif"
                ),
            };
        }
    }
    out.push_str("\n-- Without coordination the merged result is:\n");
    for statement in &shown.merged {
        let _ = writeln!(out, "--   {}", comment(statement));
    }
    for table in &shown.emptied {
        let _ = writeln!(out, "--   no row is left in {}", comment(table));
    }
    match check(catalog, plan, &shown.invariant) {
        Some(query) => {
            let _ = writeln!(out, "-- Must return no row:\n{query}");
        }
        None => {
            out.push_str(
                "-- Must be the result of one session after the other, and not the merged result above:\n",
            );
            let tables: BTreeSet<TableId> = shown.rows.iter().map(|(table, _)| *table).collect();
            for table in tables {
                let name = quoted(&catalog.schema.table(table).name);
                let _ = writeln!(out, "SELECT * FROM {name};");
            }
        }
    }
    out.push_str("ROLLBACK;\n");
}

/// The text on one line.
fn comment(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// A query that returns a row for each violation of an invariant; None for isolation.
fn check(catalog: &Catalog, plan: &Plan, name: &str) -> Option<String> {
    let assertion = plan.invariants.iter().find(|i| i.name == name)?;
    if let Some(condition) = &assertion.condition {
        let condition = condition.strip_prefix("CHECK ")?;
        let name = name.replace('\'', "''");
        return Some(format!(
            "SELECT '{name}' AS violated WHERE NOT {condition};"
        ));
    }
    let tables = catalog.schema.tables.iter().zip(&catalog.tables);
    for (table, declared) in tables {
        if not_null_name(&table.name) == name {
            let columns = table.columns.iter().filter(|c| !c.nullable);
            let null: Vec<String> = columns
                .map(|c| format!("{} IS NULL", quoted(&c.name)))
                .collect();
            return Some(of(table, &null.join(" OR ")));
        }
        if let Some(found) = declared.checks.iter().find(|check| check.name == name) {
            return Some(of(table, &format!("NOT ({})", found.expression)));
        }
        if let Some(key) = declared.foreign_keys.iter().find(|key| key.name == name) {
            let parent = catalog.schema.table(key.parent);
            let refers = key.columns.iter().zip(&key.parent_columns);
            let refers: Vec<String> = refers
                .map(|(c, p)| {
                    format!(
                        "parent.{} = child.{}",
                        column(parent, *p),
                        column(table, *c)
                    )
                })
                .collect();
            let there: Vec<String> = key
                .columns
                .iter()
                .map(|c| format!("child.{} IS NOT NULL", column(table, *c)))
                .collect();
            return Some(format!(
                "SELECT child.* FROM {} AS child WHERE {} AND NOT EXISTS (SELECT 1 FROM {} AS parent WHERE {});",
                quoted(&table.name),
                there.join(" AND "),
                quoted(&parent.name),
                refers.join(" AND ")
            ));
        }
        let default = format!("{}_pkey", table.name);
        let primary = declared.primary_key_name.as_deref().unwrap_or(&default);
        let unique = table.indexes.iter().filter(|index| index.unique);
        let mut keys = unique.map(|index| (index.name.as_str(), &index.columns));
        let mut keys = std::iter::once((primary, &table.primary_key)).chain(&mut keys);
        if let Some((_, columns)) = keys.find(|(key, columns)| *key == name && !columns.is_empty())
        {
            let columns: Vec<String> = columns.iter().map(|c| column(table, *c)).collect();
            let list = columns.join(", ");
            let there = columns.join(" IS NOT NULL AND ");
            return Some(format!(
                "SELECT {list}, count(*) FROM {} WHERE {there} IS NOT NULL GROUP BY {list} HAVING count(*) > 1;",
                quoted(&table.name)
            ));
        }
    }
    None
}

fn of(table: &TableSchema, condition: &str) -> String {
    format!("SELECT * FROM {} WHERE {condition};", quoted(&table.name))
}

fn column(table: &TableSchema, column: ColumnIndex) -> String {
    quoted(&table.columns[column.index()].name)
}
