//! Why an UPDATE is, or is not, left to the owner of its row.

use anabranch_sql::catalog::Catalog;
use anabranch_sql::summary::{
    Comparison, Deferral, ResultUse, Role, StatementSummary, TableAccess, Term, TransactionSummary,
    WriteClass,
};
use anabranch_types::ColumnIndex;

use crate::plan::PlanEntry;

/// The reason, for people. `summaries` are all transaction types.
pub(super) fn reason(
    entry: &PlanEntry,
    catalog: &Catalog,
    summaries: &[TransactionSummary],
    statement: &StatementSummary,
    update: &TableAccess,
) -> String {
    if entry.deferred.contains(&statement.id) {
        let mut why = match statement.deferral {
            Deferral::AfterReading => {
                "once it is read: what is used of its result is no column that anybody changes"
            }
            _ => "unread: its new values depend on the row and on what is known before",
        }
        .to_owned();
        if entry.serializable {
            why += "; the row is a guard all the same, as every row is under serializability";
        }
        return why;
    }
    match statement.deferral {
        Deferral::AfterReading => returned_changes(catalog, summaries, update),
        _ => undeferrable(catalog, statement, update),
    }
}

/// What is returned of the row may have changed when the row's owner comes to it.
fn returned_changes(
    catalog: &Catalog,
    summaries: &[TransactionSummary],
    update: &TableAccess,
) -> String {
    let changes = |summary: &TransactionSummary, column: ColumnIndex| {
        let mut accesses = summary.statements.iter().flat_map(|s| &s.accesses);
        accesses.any(|a| {
            a.table == update.table
                && a.role == Role::Update
                && a.writes.iter().any(|w| w.column == column)
        })
    };
    let table = catalog.schema.table(update.table);
    for column in &update.columns_returned {
        if let Some(changing) = summaries.iter().find(|s| changes(s, *column)) {
            let column = &table.columns[column.index()].name;
            return format!("it returns {column}, which {} changes", changing.name);
        }
    }
    "it returns what a foreign key's action changes".to_owned()
}

/// Why no owner of a row could evaluate it, whatever the other transactions do.
fn undeferrable(catalog: &Catalog, statement: &StatementSummary, update: &TableAccess) -> String {
    let table = catalog.schema.table(update.table);
    let name = |column: &ColumnIndex| table.columns[column.index()].name.as_str();
    let fixed = |column: &ColumnIndex| {
        let mut conditions = update.conditions.iter();
        conditions.any(|c| c.column == *column && c.comparison == Comparison::Equal)
    };
    if table.primary_key.is_empty() {
        return format!("{} has no primary key", table.name);
    }
    if let Some(free) = table.primary_key.iter().find(|column| !fixed(column)) {
        return format!("{} is not given, so its rows are to be found", name(free));
    }
    let keys = update.conditions.iter().map(|c| &c.column);
    let mut others = keys.filter(|column| !table.primary_key.contains(column));
    if update.filtered_otherwise || others.next().is_some() {
        return "more is asked of its rows than their key".to_owned();
    }
    let unique = |column: &ColumnIndex| {
        let indexes = table.indexes.iter().filter(|index| index.unique);
        table.primary_key.contains(column)
            || indexes
                .flat_map(|index| &index.columns)
                .any(|c| c == column)
            || catalog
                .tables
                .iter()
                .flat_map(|t| t.foreign_keys.iter().map(move |k| (t, k)))
                .any(|(of, key)| {
                    (of.id == update.table && key.columns.contains(column))
                        || (key.parent == update.table && key.parent_columns.contains(column))
                })
    };
    if let Some(write) = update.writes.iter().find(|w| unique(&w.column)) {
        return format!("{} is part of a key", name(&write.column));
    }
    let of_data = |class: &WriteClass| match class {
        WriteClass::OfData => true,
        WriteClass::Assign(term) | WriteClass::Add { term, .. } => matches!(term, Term::Unknown),
        WriteClass::OfRow => false,
    };
    let reads_others = statement.accesses.len() > 1;
    if let Some(write) = update.writes.iter().find(|w| of_data(&w.class))
        && reads_others
    {
        return format!("{} is computed from other rows", name(&write.column));
    }
    let returned = update.writes.iter().map(|w| &w.column);
    let mut returned = returned.filter(|column| update.columns_returned.contains(column));
    if statement.result == ResultUse::Used
        && let Some(column) = returned.next()
    {
        return format!("the new {} is used by what comes after it", name(column));
    }
    "what comes after it in its procedure may read the row, or it stands in a procedure that \
     another calls"
        .to_owned()
}
