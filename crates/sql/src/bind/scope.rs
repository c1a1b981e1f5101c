//! Scopes: the sources of each query around a place, in which names are looked up.

use anabranch_types::{DataType, TableId};

use super::{
    RawAccess,
    aggregate::Aggregate,
    window::{WindowDefinition, WindowPlace},
};
use crate::{expression::Expression, plan};

/// One query's names, while it is bound.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// Its FROM list; source number `i + 1` in plans.
    pub(crate) sources: Vec<ScopeSource>,
    /// Sources beyond the FROM list: subqueries' values, aggregates, window functions.
    pub(crate) extra_sources: usize,
    /// Its aggregates, and the number of the source that will hold them.
    pub(crate) aggregates: Vec<Aggregate>,
    pub(crate) aggregate_source: Option<usize>,
    /// Its subqueries, each a source of one column.
    pub(crate) subqueries: Vec<plan::Subquery>,
    /// The windows of its WINDOW clause, by name.
    pub(crate) named_windows: Vec<(String, WindowDefinition)>,
    /// Its window functions, if it has some, with the source that will hold their values.
    pub(crate) windows: Option<plan::window::WindowStep>,
    /// Whether window functions are allowed at the current place.
    pub(crate) window_place: WindowPlace,
    /// Whether aggregates are allowed at the current place, and why not.
    pub(crate) aggregates_allowed: bool,
    /// Inside an aggregate's arguments.
    pub(crate) in_aggregate: bool,
    /// Inside an aggregate's FILTER.
    pub(crate) in_filter: bool,
    /// In a clause of this name, which allows no aggregates.
    pub(crate) clause: &'static str,
    /// The number of queries outwards that its expressions refer to.
    pub(crate) escapes: usize,
    /// Columns of this query that its subqueries refer to.
    pub(crate) inner_references: Vec<(usize, usize)>,
}

/// One source of a FROM list.
#[derive(Clone, Debug)]
pub(crate) struct ScopeSource {
    /// Its alias or name.
    pub(crate) name: String,
    /// Its columns.
    pub(crate) columns: Vec<ScopeColumn>,
    /// Its index among the statement's accesses, if it is a table.
    pub(crate) access: Option<usize>,
    /// The table, if it is one.
    pub(crate) table: Option<TableId>,
    /// The arguments, if it is a table function.
    pub(crate) elements: Option<Vec<Expression>>,
    /// Whether it is hidden (a sibling of a derived table that is not LATERAL).
    pub(crate) hidden: bool,
    /// Whether an outer join may extend it with NULLs.
    pub(crate) nullable: bool,
}

/// A column of a source.
#[derive(Clone, Debug)]
pub(crate) struct ScopeColumn {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    /// Merged into the column of the same name of an earlier source by USING: not found by its
    /// bare name.
    pub(crate) merged: bool,
}

/// The result of a lookup.
pub(crate) enum Found {
    None,
    One {
        source: usize,
        column: usize,
        data_type: DataType,
    },
    Ambiguous,
}

impl Scope {
    /// A number for a source beyond the FROM list.
    pub(crate) fn allocate_source(&mut self) -> usize {
        self.extra_sources += 1;
        self.sources.len() + self.extra_sources
    }

    /// The column with this name, in one of the sources or in the one named.
    pub(crate) fn find(&self, qualifier: Option<&str>, name: &str) -> Found {
        let mut found = Found::None;
        for (place, source) in self.sources.iter().enumerate() {
            if source.hidden || qualifier.is_some_and(|qualifier| qualifier != source.name) {
                continue;
            }
            for (column, candidate) in source.columns.iter().enumerate() {
                if candidate.name != name || (candidate.merged && qualifier.is_none()) {
                    continue;
                }
                if !matches!(found, Found::None) {
                    return Found::Ambiguous;
                }
                let data_type = candidate.data_type.clone();
                found = Found::One {
                    source: place + 1,
                    column,
                    data_type,
                };
            }
        }
        found
    }

    /// Notes a column as read in the statement's summary.
    pub(crate) fn note_read(&self, accesses: &mut [RawAccess], source: usize, column: usize) {
        let access = self
            .sources
            .get(source - 1)
            .and_then(|source| source.access);
        if let Some(access) = access {
            accesses[access].reads(crate::expression::frame::column_index(column));
        }
    }
}
