//! MySQL's and MariaDB's SQL, as PostgreSQL's.
//!
//! Whether files are MySQL's is seen by their tables (`speaks`). Then their quotes, comments and delimiters are made
//! the standard's, byte for byte (`plain`), so that every place stays where it was; what they declare is told in
//! PostgreSQL's words (`declaration`), and so are the few forms of statements that only MySQL has
//! (`statement`). What is not known is handed on as it is: the parser refuses it, and it is left out and told.
//!
//! Two things go beyond words. Text is compared without regard to case, unless its collation ends in `_bin`: so a
//! condition on such a column tells nothing of which rows it meets. And a column with ON UPDATE
//! CURRENT_TIMESTAMP is written by every UPDATE of its row.

mod declaration;
mod plain;
mod statement;
mod tokens;

use std::collections::BTreeSet;

use anabranch_types::ColumnIndex;

use super::order::{Columns, forget_equality, named};
use crate::{
    catalog::Catalog,
    summary::{ColumnWrite, Role, Term, TransactionSummary, WriteClass},
};

pub(super) use declaration::{declaration, declares};
pub(super) use plain::{plain, speaks};
pub(super) use statement::statement;

/// A text with the byte of the file that each of its bytes comes from, and the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Translated {
    pub(crate) text: String,
    pub(crate) places: Vec<u32>,
}

impl Translated {
    /// Text of the file.
    fn copy(&mut self, text: &str, start: usize) {
        self.text.push_str(text);
        let place = |at: usize| u32::try_from(start + at).unwrap_or(u32::MAX);
        self.places.extend((0..text.len()).map(place));
    }

    /// Other words, for what stands there.
    fn say(&mut self, text: &str, at: usize) {
        self.text.push_str(text);
        let place = u32::try_from(at).unwrap_or(u32::MAX);
        self.places.extend(std::iter::repeat_n(place, text.len()));
    }
}

/// What files say of columns that PostgreSQL's words do not.
#[derive(Clone, Debug, Default)]
pub(super) struct Peculiar {
    /// Columns of text in which case tells nothing apart.
    pub(super) caseless: Columns,
    /// Columns that every UPDATE of their row sets to the time.
    pub(super) stamped: Columns,
    /// Tables and views that are declared.
    pub(super) declared: BTreeSet<String>,
}

impl Peculiar {
    /// Makes summaries true of such columns.
    pub(super) fn correct(&self, summaries: &mut [TransactionSummary], catalog: &Catalog) {
        forget_equality(summaries, catalog, &self.caseless);
        let stamped = named(catalog, &self.stamped);
        for access in summaries
            .iter_mut()
            .flat_map(|summary| &mut summary.statements)
            .flat_map(|statement| &mut statement.accesses)
        {
            if access.role != Role::Update {
                continue;
            }
            let written: Vec<ColumnIndex> = access.writes.iter().map(|w| w.column).collect();
            for (table, column) in &stamped {
                if *table == access.table && !written.contains(column) {
                    access.writes.push(ColumnWrite {
                        column: *column,
                        class: WriteClass::Assign(Term::Now),
                        null_by: Vec::new(),
                    });
                }
            }
        }
    }
}
