//! Columns that a database compares otherwise than text is compared here.

use std::collections::BTreeSet;

use anabranch_types::{ColumnIndex, TableId, Value};

use super::Script;
use crate::{
    catalog::Catalog,
    summary::{Comparison, Term, TransactionSummary, WriteClass},
};

/// Columns of tables, by their names.
pub type Columns = BTreeSet<(String, String)>;

/// What is less than what is another thing in these columns than here: such conditions tell nothing.
pub fn forget_order(script: &mut Script, columns: &Columns) {
    let catalog = script.application.catalog();
    forget_less(&mut script.summaries, catalog, columns);
}

pub(super) fn forget_less(
    summaries: &mut [TransactionSummary],
    catalog: &Catalog,
    columns: &Columns,
) {
    let named = named(catalog, columns);
    forget(summaries, &named, |comparison| {
        use Comparison::{Greater, GreaterOrEqual, Less, LessOrEqual};
        matches!(comparison, Less | LessOrEqual | Greater | GreaterOrEqual)
    });
}

/// What is equal to what is another thing, too ('a' and 'A' may be one): no condition tells anything, and two
/// constants may be the same.
pub(super) fn forget_equality(
    summaries: &mut [TransactionSummary],
    catalog: &Catalog,
    columns: &Columns,
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

pub(super) fn named(catalog: &Catalog, columns: &Columns) -> BTreeSet<(TableId, ColumnIndex)> {
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
        access.filtered_otherwise |= access.conditions.len() < before;
    }
}
