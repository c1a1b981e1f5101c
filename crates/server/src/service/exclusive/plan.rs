//! The plan of an application that a server runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use anabranch_analysis::{Guarantee, Options, analyze_with, open_placements};
use anabranch_engine::PlannedApplication;
use anabranch_sql::Application;
use anabranch_types::Placement;

/// Plans an application for so many partitions.
///
/// Without declared procedures, nothing tells which tables are never written: then each table is partitioned by its
/// primary key, as far as its unique indexes allow it.
///
/// `replicated`, if rows are there, has the tables, by name, of which every partition has a copy
/// ([`HeldDatabase::replicated`](super::super::folder::HeldDatabase)): no other becomes one of them, since clients may write it.
pub fn plan_application(
    compiled: Application,
    partitions: u16,
    replicated: Option<&BTreeSet<String>>,
) -> Arc<PlannedApplication> {
    let options = Options {
        guarantee: Guarantee::Invariants,
        ..Options::default()
    };
    let mut plan = analyze_with(compiled.catalog(), compiled.summaries(), &options);
    let open = open_placements(compiled.schema());
    if compiled.procedures.is_empty() {
        plan.placements = open;
    } else if let Some(replicated) = replicated {
        let tables = compiled.schema().tables.iter().zip(open);
        for ((table, open), placement) in tables.zip(&mut plan.placements) {
            if *placement == Placement::Replicated && !replicated.contains(&table.name) {
                *placement = match open {
                    // The analysis places by one column.
                    Placement::Columns(columns) => Placement::Columns(columns[..1].to_vec()),
                    other => other,
                };
            }
        }
    }
    PlannedApplication::new(compiled, plan, partitions)
}
