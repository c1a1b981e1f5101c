//! What files say of columns that the words they are read in do not.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_types::{ColumnIndex, TableId};

use super::order::{Columns, forget_equality, forget_less, named};
use crate::{
    catalog::Catalog,
    summary::{ColumnWrite, Role, TableAccess, Term, TransactionSummary, WriteClass},
};

/// What is peculiar about columns, by the names of table and column.
#[derive(Clone, Debug, Default)]
pub(super) struct Peculiar {
    /// Columns whose values are equal otherwise than text is: text without regard to case, and what is of a type
    /// that there is none of here.
    pub(super) equal_otherwise: Columns,
    /// Columns that order their values otherwise than text.
    pub(super) ordered_otherwise: Columns,
    /// Columns that every UPDATE of their row sets to the time, unless it sets them itself.
    pub(super) stamped: Columns,
    /// Columns that every UPDATE of their row sets to the time, whatever it sets them to itself.
    pub(super) stamped_anyway: Columns,
    /// Columns that every INSERT sets to the time.
    pub(super) stamped_at_first: Columns,
    /// Columns whose DEFAULT may be any value.
    pub(super) defaulted: Columns,
    /// Columns that the database computes from these others of their row.
    pub(super) generated: BTreeMap<(String, String), Vec<String>>,
    /// The columns of tables.
    pub(super) columns: BTreeMap<String, BTreeSet<String>>,
    /// Tables and views that are declared.
    pub(super) declared: BTreeSet<String>,
}

impl Peculiar {
    /// Makes summaries true of such columns.
    pub(super) fn correct(&self, summaries: &mut [TransactionSummary], catalog: &Catalog) {
        let stamped = named(catalog, &self.stamped);
        let anyway = named(catalog, &self.stamped_anyway);
        let at_first = named(catalog, &self.stamped_at_first);
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
            for (table, column) in stamped.union(&anyway) {
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
        // Constants are forgotten last: a default's must be seen.
        forget_equality(summaries, catalog, &self.equal_otherwise);
        forget_less(summaries, catalog, &self.ordered_otherwise);
    }

    /// The generated columns that there are, and what they are computed from.
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

/// An UPDATE of a table writes this column, too.
fn stamp(access: &mut TableAccess, table: TableId, column: ColumnIndex) {
    let written = |access: &TableAccess| access.writes.iter().any(|w| w.column == column);
    if access.role == Role::Update && access.table == table && !written(access) {
        access.writes.push(ColumnWrite {
            column,
            class: WriteClass::Assign(Term::Now),
            null_by: Vec::new(),
        });
    }
}
