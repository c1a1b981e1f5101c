//! Columns that the database compares in another way than this crate compares text.

use std::collections::BTreeSet;

use anabranch_types::{ColumnIndex, TableId, Value};

use super::Script;
use crate::{
    catalog::Catalog,
    summary::{Comparison, Term, TransactionSummary, WriteClass},
};

/// Columns, by the names of table and column.
pub type ColumnNames = BTreeSet<(String, String)>;

/// Drops conditions with `<`, `<=`, `>` and `>=` on these columns: the database orders their values in another way.
pub fn forget_order(script: &mut Script, columns: &ColumnNames) {
    let catalog = script.application.catalog();
    forget_order_conditions(&mut script.summaries, catalog, columns);
}

pub(super) fn forget_order_conditions(
    summaries: &mut [TransactionSummary],
    catalog: &Catalog,
    columns: &ColumnNames,
) {
    let named = named(catalog, columns);
    forget(summaries, &named, |comparison| {
        use Comparison::{Greater, GreaterOrEqual, Less, LessOrEqual};
        matches!(comparison, Less | LessOrEqual | Greater | GreaterOrEqual)
    });
}

/// Drops all conditions on these columns but `IS [NOT] NULL`, and the values of constants assigned to them: the
/// database may hold different texts for equal ('a' and 'A').
pub(super) fn forget_equality(
    summaries: &mut [TransactionSummary],
    catalog: &Catalog,
    columns: &ColumnNames,
) {
    let named = named(catalog, columns);
    forget(summaries, &named, |comparison| {
        !matches!(comparison, Comparison::IsNull | Comparison::IsNotNull)
    });
    for access in summaries
        .iter_mut()
        .flat_map(|summary| &mut summary.statements)
        .flat_map(|statement| &mut statement.accesses)
    {
        for write in &mut access.writes {
            if let WriteClass::Assign(term @ Term::Constant(Value::Text(_))) = &mut write.class
                && named.contains(&(access.table, write.column))
            {
                *term = Term::Pure;
            }
        }
    }
}

pub(super) fn named(catalog: &Catalog, columns: &ColumnNames) -> BTreeSet<(TableId, ColumnIndex)> {
    let mut named = BTreeSet::new();
    for table in &catalog.schema.tables {
        for (at, column) in table.columns.iter().enumerate() {
            let key = (table.name.to_string(), column.name.to_string());
            if columns.contains(&key) {
                named.insert((table.id, ColumnIndex(u16::try_from(at).unwrap_or(u16::MAX))));
            }
        }
    }
    named
}

fn forget(
    summaries: &mut [TransactionSummary],
    columns: &BTreeSet<(TableId, ColumnIndex)>,
    forgotten: impl Fn(Comparison) -> bool,
) {
    if columns.is_empty() {
        return;
    }
    for access in summaries
        .iter_mut()
        .flat_map(|summary| &mut summary.statements)
        .flat_map(|statement| &mut statement.accesses)
    {
        let before = access.conditions.len();
        let table = access.table;
        access.conditions.retain(|condition| {
            !(columns.contains(&(table, condition.column)) && forgotten(condition.comparison))
        });
        access.has_other_conditions |= access.conditions.len() < before;
    }
}
