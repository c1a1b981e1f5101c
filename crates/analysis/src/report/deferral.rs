//! The reason why an UPDATE is deferred to commit, or is not.

use anabranch_sql::catalog::Catalog;
use anabranch_sql::summary::{
    Comparison, Deferral, ResultUse, Role, StatementSummary, TableAccess, Term, TransactionSummary,
    WriteClass,
};
use anabranch_types::ColumnIndex;

use crate::plan::PlanEntry;

/// An UPDATE of a row that is found by its key, in a table that another column places.
const ELSEWHERE: &str =
    "its key does not tell on which partition the row is: the row has to be found first";

/// The reason in words. `summaries` are those of all transaction types.
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
                "the row is read first; no transaction type changes the columns that are used of its result"
            }
            _ => {
                "the row is not read first: its new values depend only on the row and on values known before"
            }
        }
        .to_owned();
        if entry.serializable {
            why += "; under serializability the row is a guard, as every row is";
        }
        return why;
    }
    let returns_none = update.columns_returned.is_empty();
    match statement.deferral {
        Deferral::Unread => ELSEWHERE.to_owned(),
        Deferral::AfterReading if returns_none => ELSEWHERE.to_owned(),
        Deferral::AfterReading => returned_changes(catalog, summaries, update),
        _ => undeferrable(catalog, statement, update),
    }
}

/// The returned column that another transaction type may change before the row's owner evaluates the UPDATE.
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
    "it returns a column that a foreign key's action changes".to_owned()
}

/// The reason why the row's owner cannot evaluate the UPDATE, independent of the other transaction types.
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
        return format!(
            "its WHERE clause does not give the key column {}, so the rows have to be found first",
            name(free)
        );
    }
    let keys = update.conditions.iter().map(|c| &c.column);
    let mut others = keys.filter(|column| !table.primary_key.contains(column));
    if update.has_other_conditions || others.next().is_some() {
        return "its WHERE clause tests more than the row's key".to_owned();
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
        WriteClass::FromData => true,
        WriteClass::Assign(term) | WriteClass::Add { term, .. } => matches!(term, Term::Unknown),
        WriteClass::FromRow => false,
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
        return format!("a later statement uses the new {}", name(column));
    }
    "a later statement of its procedure may read the row, or another procedure calls its procedure"
        .to_owned()
}
