//! Column properties that the parser's types cannot express: collation, generated columns, columns set by triggers.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_types::{ColumnIndex, TableId};

use super::collation::{ColumnNames, forget_equality, forget_order_conditions, named};
use crate::{
    catalog::Catalog,
    summary::{ColumnWrite, Role, TableAccess, Term, TransactionSummary, WriteClass},
};

/// Such properties, by the names of table and column.
#[derive(Clone, Debug, Default)]
pub(super) struct ColumnProperties {
    /// Columns with an equality other than that of text: case-insensitive text, and types that the catalog does not
    /// have.
    pub(super) own_equality: ColumnNames,
    /// Columns with an order other than that of text.
    pub(super) own_order: ColumnNames,
    /// Columns that every UPDATE of their row sets to the current time, unless it assigns them itself.
    pub(super) set_on_update: ColumnNames,
    /// Columns that every UPDATE of their row sets to the current time, even if it assigns them itself.
    pub(super) always_set_on_update: ColumnNames,
    /// Columns that every INSERT sets to the current time.
    pub(super) set_on_insert: ColumnNames,
    /// Columns with a DEFAULT that may be any value.
    pub(super) defaulted: ColumnNames,
    /// Generated columns, with the columns of their row that they are computed from.
    pub(super) generated: BTreeMap<(String, String), Vec<String>>,
    /// The columns of tables.
    pub(super) columns: BTreeMap<String, BTreeSet<String>>,
    /// The declared tables and views.
    pub(super) declared: BTreeSet<String>,
}

impl ColumnProperties {
    /// Applies these properties to the summaries.
    pub(super) fn correct(&self, summaries: &mut [TransactionSummary], catalog: &Catalog) {
        let set_on_update = named(catalog, &self.set_on_update);
        let anyway = named(catalog, &self.always_set_on_update);
        let at_first = named(catalog, &self.set_on_insert);
        let defaulted = named(catalog, &self.defaulted);
        let generated = self.computed(catalog);
        for access in summaries
            .iter_mut()
            .flat_map(|summary| &mut summary.statements)
            .flat_map(|statement| &mut statement.accesses)
        {
            for (table, column) in &anyway {
                if access.table == *table && access.role == Role::Update {
                    access.writes.retain(|write| write.column != *column);
                }
            }
            for (table, column) in set_on_update.union(&anyway) {
                stamp(access, *table, *column);
            }
            if access.role == Role::Insert {
                for write in &mut access.writes {
                    if at_first.contains(&(access.table, write.column)) {
                        write.class = WriteClass::Assign(Term::Now);
                    }
                    if let WriteClass::Assign(term @ Term::Constant(_)) = &mut write.class
                        && defaulted.contains(&(access.table, write.column))
                    {
                        *term = Term::Unknown;
                    }
                }
            }
            for ((table, column), sources) in &generated {
                if *table != access.table {
                    continue;
                }
                for read in [&mut access.columns_read, &mut access.columns_returned] {
                    if read.contains(column) {
                        read.extend(sources);
                        read.sort_unstable();
                        read.dedup();
                    }
                }
            }
        }
        // Constants go last, since the steps above look for those of defaults.
        forget_equality(summaries, catalog, &self.own_equality);
        forget_order_conditions(summaries, catalog, &self.own_order);
    }

    /// The generated columns in the catalog, with the columns that they are computed from.
    pub(super) fn computed(
        &self,
        catalog: &Catalog,
    ) -> Vec<((TableId, ColumnIndex), Vec<ColumnIndex>)> {
        let mut found = Vec::new();
        for ((table, column), sources) in &self.generated {
            let of = |column: &String| named(catalog, &[(table.clone(), column.clone())].into());
            let sources = sources.iter().flat_map(of).map(|(_, column)| column);
            let sources: Vec<ColumnIndex> = sources.collect();
            found.extend(of(column).into_iter().map(|key| (key, sources.clone())));
        }
        found
    }
}

/// Adds a write of this column to an UPDATE of its table.
fn stamp(access: &mut TableAccess, table: TableId, column: ColumnIndex) {
    let written = |access: &TableAccess| access.writes.iter().any(|w| w.column == column);
    if access.role == Role::Update && access.table == table && !written(access) {
        access.writes.push(ColumnWrite {
            column,
            class: WriteClass::Assign(Term::Now),
            null_by: Vec::new(),
            amount_null_by: None,
        });
    }
}
