//! How concurrent writes to each column are merged, and what the rules may assume of merging.

use anabranch_sql::summary::{Role, WriteClass};
use anabranch_types::{ColumnIndex, TableId};

use crate::Topology;
use crate::footprint::Footprint;
use crate::plan::{ColumnMerge, MergePolicy};

/// What the rules may assume of merging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MergeModel {
    /// Whether merging deletes a child that was inserted concurrently with a cascading deletion of its parent. This
    /// store does not do that.
    pub(crate) cascades: bool,
}

/// One entry for each column that some type writes, in order of tables and columns. `guarded` are columns whose
/// writers compute new values from data that they have read.
pub(crate) fn policies(
    footprint: &Footprint<'_>,
    topology: Topology,
    guarded: &[(TableId, ColumnIndex)],
) -> Vec<ColumnMerge> {
    let mut columns = Vec::new();
    for table in &footprint.catalog.schema.tables {
        let facts = footprint.facts(table.id);
        for index in 0..table.columns.len() {
            let column = ColumnIndex(index as u16);
            let updated = !facts.updaters[index].is_empty();
            if !updated && facts.inserters.is_empty() {
                continue;
            }
            let (policy, reason) = policy(footprint, topology, guarded, (table.id, column));
            columns.push(ColumnMerge {
                table: table.id,
                column,
                policy,
                reason: reason.into(),
            });
        }
    }
    columns
}

fn policy(
    footprint: &Footprint<'_>,
    topology: Topology,
    guarded: &[(TableId, ColumnIndex)],
    (table, column): (TableId, ColumnIndex),
) -> (MergePolicy, &'static str) {
    let classes: Vec<&WriteClass> = footprint
        .on_table(table)
        .filter(|a| a.access.role == Role::Update && !a.carried)
        .filter_map(|a| a.write(column).map(|w| &w.class))
        .collect();
    let adds = classes
        .iter()
        .filter(|c| matches!(c, WriteClass::Add { .. }))
        .count();
    let computes = classes.iter().any(|c| matches!(c, WriteClass::FromRow));
    if classes.is_empty() {
        (
            MergePolicy::Immutable,
            "written only when the row is inserted",
        )
    } else if adds == classes.len() {
        (MergePolicy::Counter, "every write adds to it")
    } else if guarded.contains(&(table, column)) {
        (
            MergePolicy::Guarded,
            "computed from data that was read: its writers are ordered",
        )
    } else if computes || adds > 0 {
        match topology {
            Topology::Partitioned => (
                MergePolicy::OwnerOrder,
                "a function of the row, applied by its one owner in order",
            ),
        }
    } else {
        (
            MergePolicy::LastWriter,
            "assigned values that do not depend on what was there",
        )
    }
}
