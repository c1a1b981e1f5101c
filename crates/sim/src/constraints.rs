//! The schema's constraints on the merged state: CHECK, UNIQUE, primary and foreign keys. (The encoding
//! of rows enforces NOT NULL.)
//!
//! Nodes check every write where it is installed. This module checks the final rows of all partitions
//! together: a row with columns that several transactions changed, a key that two partitions generated, a
//! child of a deleted parent.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_engine::PlannedApplication;
use anabranch_storage::Store;
use anabranch_types::access::whole_table;
use anabranch_types::{ColumnIndex, Fetched, Key, Placement, Row, TableId, TableSchema};

/// The number of rows that the report of one violated constraint lists.
const LISTED_MAX: usize = 3;

/// The violated constraints, and the number of constraints that were checked.
pub(crate) fn violated(planned: &PlannedApplication, stores: &[&Store]) -> (Vec<String>, usize) {
    Merged::new(planned, stores).violated()
}

struct Findings {
    violated: Vec<String>,
    constraints: usize,
}

impl Findings {
    /// Counts a constraint, and reports it if rows violate it.
    fn check<'k>(&mut self, constraint: &str, what: &str, rows: impl Iterator<Item = &'k Key>) {
        self.constraints += 1;
        let rows: Vec<String> = rows.map(|key| format!("{key:?}")).collect();
        if !rows.is_empty() {
            let count = rows.len();
            let listed = rows[..count.min(LISTED_MAX)].join(", ");
            self.violated.push(format!(
                "constraint {constraint}: {what}: {count} rows, {listed}"
            ));
        }
    }
}

/// The rows of all partitions.
struct Merged<'p> {
    planned: &'p PlannedApplication,
    /// By [`TableId`].
    tables: Vec<Vec<(Key, Row)>>,
}

impl<'p> Merged<'p> {
    fn new(planned: &'p PlannedApplication, stores: &[&Store]) -> Merged<'p> {
        let count = planned.schema().tables.len() as u16;
        let tables = (0..count).map(TableId).map(|table| {
            let copied = *planned.execution.router.placement(table) == Placement::Replicated;
            let stores = if copied { &stores[..1] } else { stores };
            let mut rows = Vec::new();
            for store in stores {
                let fetched = store.fetch(&whole_table(table), None);
                let fetched = fetched.expect("the newest state is above the floor");
                if let Fetched::Range(found) = fetched.into_answer() {
                    rows.extend(found);
                }
            }
            rows
        });
        Merged {
            planned,
            tables: tables.collect(),
        }
    }

    fn violated(&self) -> (Vec<String>, usize) {
        let mut findings = Findings {
            violated: Vec::new(),
            constraints: 0,
        };
        for table in &self.planned.application.catalog().tables {
            self.rows_by_themselves(table.id, &mut findings);
            self.keys(table.id, &mut findings);
            for foreign in &table.foreign_keys {
                let known = self.values(foreign.parent, &foreign.parent_columns);
                let known: BTreeSet<&Vec<String>> = known.iter().map(|(of, _)| of).collect();
                let children = self.values(table.id, &foreign.columns);
                let orphans = children.iter().filter(|(of, _)| !known.contains(of));
                findings.check(&foreign.name, "has no parent", orphans.map(|(_, key)| key));
            }
        }
        (findings.violated, findings.constraints)
    }

    fn schema(&self, table: TableId) -> &TableSchema {
        self.planned.schema().table(table)
    }

    /// CHECK, and generated columns.
    fn rows_by_themselves(&self, table: TableId, findings: &mut Findings) {
        let rows = &self.tables[table.index()];
        let mut violating: BTreeMap<&str, Vec<&Key>> = BTreeMap::new();
        for (key, row) in rows {
            for check in self.planned.application.violated_checks(table, row) {
                violating.entry(check).or_default().push(key);
            }
        }
        let catalog = self.planned.application.catalog();
        let checks = catalog.table(table).checks.iter();
        let generated = catalog.generated_columns(table).into_iter();
        let generated = generated.map(|(column, _)| catalog.generated_name(table, column));
        for name in checks.map(|check| check.name.clone()).chain(generated) {
            let rows = violating.get(name.as_str()).into_iter().flatten();
            findings.check(&name, "is violated", rows.copied());
        }
    }

    /// The primary key and UNIQUE.
    fn keys(&self, table: TableId, findings: &mut Findings) {
        let schema = self.schema(table);
        let unique = schema.indexes.iter().filter(|index| index.unique);
        let unique = unique.map(|index| (index.name.as_str(), &index.columns));
        let primary = ("the primary key", &schema.primary_key);
        let primary = [primary]
            .into_iter()
            .filter(|(_, columns)| !columns.is_empty());
        for (name, columns) in primary.chain(unique) {
            let mut seen = BTreeSet::new();
            let values = self.values(table, columns);
            let twice = values.iter().filter(|(values, _)| !seen.insert(values));
            let twice: Vec<&Key> = twice.map(|(_, key)| key).collect();
            let name = format!("\"{}\", {name}", schema.name);
            findings.check(&name, "is there twice", twice.into_iter());
        }
    }

    /// The values of rows in some columns, without rows that have a NULL there.
    fn values(&self, table: TableId, columns: &[ColumnIndex]) -> Vec<(Vec<String>, Key)> {
        let layout = &self.schema(table).layout;
        let rows = self.tables[table.index()].iter();
        let whole = rows.filter(|(_, row)| columns.iter().all(|c| !row.is_null(layout, *c)));
        whole
            .map(|(key, row)| {
                let values = columns.iter().map(|c| format!("{:?}", row.get(layout, *c)));
                (values.collect(), key.clone())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use anabranch_types::Value;

    use super::*;
    use crate::{Network, Prepared};

    /// The violations after a change of one column in the first row of a table.
    fn damaged(workload: &str, damage: Option<(&str, &str, Value)>) -> Vec<String> {
        let prepared = Prepared::new(workload, 2).expect("it compiles");
        let stores = prepared
            .stores(1, &Network::lan(), false)
            .expect("its rows load");
        let stores: Vec<&Store> = stores.iter().collect();
        let mut merged = Merged::new(&prepared.planned, &stores);
        if let Some((table, column, value)) = damage {
            let schema = prepared.planned.schema();
            let schema = schema.tables.iter().find(|of| of.name == table);
            let schema = schema.expect("the table is there");
            let at = schema.columns.iter().position(|of| of.name == column);
            let at = ColumnIndex(at.expect("the column is there") as u16);
            let (_, row) = &mut merged.tables[schema.id.index()][0];
            *row = row.with(&schema.layout, &[(at, value)]).expect("it fits");
        }
        let (violated, checked) = merged.violated();
        assert!(checked > 0);
        violated
    }

    #[test]
    fn what_is_loaded_keeps_all_constraints() {
        for workload in anabranch_workload::NAMES {
            assert_eq!(damaged(workload, None), [""; 0], "{workload}");
        }
    }

    #[test]
    fn what_violates_a_constraint_is_named() {
        let cases = [
            ("bank", "accounts", "balance", Value::Int(-1), "is violated"),
            ("bank", "accounts", "id", Value::Int(1), "is there twice"),
            (
                "tpcc",
                "orders",
                "o_c_id",
                Value::Int(77_777),
                "has no parent",
            ),
        ];
        for (workload, table, column, value, words) in cases {
            let wrong = damaged(workload, Some((table, column, value)));
            assert!(
                wrong.iter().any(|what| what.contains(words)),
                "{words}: {wrong:?}"
            );
        }
    }
}
