//! The columns that global operations alone write: at rest all servers have them alike, byte for byte.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_analysis::partition::OperationClass;
use anabranch_engine::PlannedApplication;
use anabranch_sql::summary::Role;
use anabranch_storage::Store;
use anabranch_types::{ColumnIndex, Key, Row, TableId};

use crate::rows::rows_of;

/// What operations that may be local write.
#[derive(Debug, Default)]
struct LocalWrites {
    /// Tables whose rows they insert or delete.
    rows: BTreeSet<TableId>,
    /// Columns that they update.
    columns: BTreeSet<(TableId, ColumnIndex)>,
}

impl LocalWrites {
    fn of(planned: &PlannedApplication) -> LocalWrites {
        let mut local = LocalWrites::default();
        let Some(partitioning) = &planned.plan.partitioning else {
            return local;
        };
        let summaries = planned.application.summaries().iter();
        for (summary, of) in summaries.zip(&partitioning.types) {
            if of.class == OperationClass::Global {
                continue;
            }
            let accesses = summary.statements.iter().flat_map(|it| &it.accesses);
            for access in accesses {
                match access.role {
                    Role::Read => {}
                    Role::Insert | Role::Delete => {
                        local.rows.insert(access.table);
                        // INSERT … ON CONFLICT DO UPDATE.
                        let columns = access.writes.iter().map(|it| (access.table, it.column));
                        local.columns.extend(columns);
                    }
                    Role::Update => {
                        let columns = access.writes.iter().map(|it| (access.table, it.column));
                        local.columns.extend(columns);
                    }
                }
            }
        }
        local
    }
}

type Rows = BTreeMap<(TableId, Key), Row>;

/// The replicated rows and columns in which servers differ (BELT-I3), and the number of rows that were compared.
pub(crate) fn differences(planned: &PlannedApplication, stores: &[&Store]) -> (Vec<String>, u64) {
    let local = LocalWrites::of(planned);
    let all: Vec<Rows> = stores.iter().map(|store| rows_of(store)).collect();
    let (mut found, mut compared) = (Vec::new(), 0);
    let Some((first, others)) = all.split_first() else {
        return (found, compared);
    };
    for (other, server) in others.iter().zip(1..) {
        let keys: BTreeSet<&(TableId, Key)> = first.keys().chain(other.keys()).collect();
        for item in keys {
            let schema = planned.schema().table(item.0);
            let (one, two) = match (first.get(item), other.get(item)) {
                (Some(one), Some(two)) => (one, two),
                _ if local.rows.contains(&item.0) => continue,
                _ => {
                    found.push(format!(
                        "BELT-I3: a row of \"{}\" is at one of s0 and s{server}",
                        schema.name
                    ));
                    continue;
                }
            };
            compared += 1;
            let columns = (0..schema.columns.len() as u16).map(ColumnIndex);
            let replicated = columns.filter(|it| !local.columns.contains(&(item.0, *it)));
            let layout = &schema.layout;
            let differs = |column: &ColumnIndex| {
                let is_null = |row: &Row| row.is_null(layout, *column);
                is_null(one) != is_null(two)
                    || one.column_bytes(layout, *column) != two.column_bytes(layout, *column)
            };
            for column in replicated.filter(differs) {
                found.push(format!(
                    "BELT-I3: \"{}\".{} of a row is {:?} at s0 and {:?} at s{server}",
                    schema.name,
                    schema.columns[column.index()].name,
                    one.get(layout, column),
                    two.get(layout, column),
                ));
            }
        }
    }
    (found, compared)
}
