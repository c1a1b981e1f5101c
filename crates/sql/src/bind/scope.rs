//! Scopes: the sources of each query around a place, in which names are looked up.

use std::ops::RangeInclusive;

use anabranch_types::{DataType, TableId};

use super::{
    RawAccess,
    aggregate::Aggregate,
    window::{WindowDefinition, WindowPlace},
};
use crate::{expression::Expression, plan};

/// The name of the item of FROM that a function in the list of a SELECT becomes. Its columns are found by it alone, so that
/// statements do not see them.
pub(crate) const LIST_FUNCTION: &str = "a function of the list";

/// One query's names, while it is bound.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// Its FROM list; source number `i + 1` in plans.
    pub(crate) sources: Vec<ScopeSource>,
    /// Whether the FROM list is being bound.
    pub(crate) is_listing: bool,
    /// Its joins by columns of one name, inner ones first.
    pub(crate) usings: Vec<Using>,
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
    /// Merged into the column of the same name of another source by USING: not found by its bare name.
    pub(crate) merged: bool,
}

/// A join by USING or NATURAL.
#[derive(Clone, Debug)]
pub(crate) struct Using {
    /// The sources that it joins.
    pub(crate) sources: RangeInclusive<usize>,
    /// Source and column of each column that stands for both sides.
    pub(crate) columns: Vec<(usize, usize)>,
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
    /// A number for a source beyond the FROM list. While that list is bound, it takes a place in it: the numbers of the
    /// items that follow are theirs.
    pub(crate) fn allocate_source(&mut self) -> usize {
        if self.is_listing {
            self.sources.push(ScopeSource {
                name: String::new(),
                columns: Vec::new(),
                access: None,
                table: None,
                elements: None,
                hidden: true,
                nullable: false,
            });
            return self.sources.len();
        }
        self.extra_sources += 1;
        self.sources.len() + self.extra_sources
    }

    /// The column with this name, in one of the sources or in the one named.
    pub(crate) fn find(&self, qualifier: Option<&str>, name: &str) -> Found {
        let mut found = Found::None;
        for (place, source) in self.sources.iter().enumerate() {
            let is_named = match qualifier {
                Some(qualifier) => qualifier == source.name,
                None => source.name != LIST_FUNCTION,
            };
            if source.hidden || !is_named {
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

    /// The columns of some sources in the order of `*`: those of a join by USING come before the others of its sources.
    pub(crate) fn shown(&self, sources: RangeInclusive<usize>) -> Vec<(usize, usize)> {
        let is_shown = |(source, column): &(usize, usize)| {
            let source = &self.sources[*source - 1];
            !source.hidden && source.name != LIST_FUNCTION && !source.columns[*column].merged
        };
        let mut list: Vec<(usize, usize)> = sources
            .clone()
            .flat_map(|source| {
                let columns = 0..self.sources[source - 1].columns.len();
                columns.map(move |column| (source, column))
            })
            .filter(is_shown)
            .collect();
        for using in &self.usings {
            let place = list.iter().position(|(of, _)| using.sources.contains(of));
            let (Some(place), true) = (place, sources.contains(using.sources.end())) else {
                continue;
            };
            let first = using.columns.iter().copied().filter(is_shown);
            let first: Vec<(usize, usize)> = first.collect();
            list.retain(|column| !first.contains(column));
            list.splice(place..place, first);
        }
        list
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
