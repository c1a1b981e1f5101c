//! What an assertion or a CHECK says, recognised by the shape of its condition.
//!
//! Confluence rules are about kinds of invariants; SQL's conditions are free text. A [`Formula`] stands between
//! them. A condition becomes clauses that must all hold; each is one of the [`Shape`]s that a rule exists for, or
//! [`Shape::Unrecognised`] with the reason. Recognition looks at structure alone, never at names: `NOT EXISTS (…
//! WHERE a <> (SELECT sum(b) …))`, GROUP BY with HAVING, derived tables and views come to the same sums.
//!
//! Constants beside sums are dropped, since rules are about differences; [`Clause::constants`] records that there
//! were some. NULL is not followed: a comparison with NULL satisfies an assertion in SQL, and it does so here.

mod recognise;
mod row;

pub(crate) use anabranch_sql::every_row::EveryRow;
pub(crate) use recognise::read_assertion;
pub(crate) use row::{Atom, RowScope, columns_of, read_check, simple_column};

use anabranch_types::{ColumnIndex, TableId, Value};

/// A column of a table.
pub(crate) type TableColumn = (TableId, ColumnIndex);

/// Clauses that must all hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Formula {
    /// The clauses.
    pub(crate) clauses: Vec<Clause>,
    /// What the clauses say of each row of a table by itself, if they say nothing else.
    pub(crate) every_row: Option<Box<EveryRow>>,
    /// Whether it is evaluated on the rows that a transaction changes.
    pub(crate) is_checked_by_row: bool,
    /// The text in lower case, if the condition uses only columns that the text names.
    pub(crate) text: Option<String>,
}

impl Formula {
    /// Whether the formula may read a column of this name.
    pub(crate) fn may_look_at(&self, column: &str) -> bool {
        let column = column.to_lowercase();
        let is_word = |c: char| c == '_' || c.is_alphanumeric();
        let named = |text: &String| match column.chars().all(is_word) {
            true => text.split(|c| !is_word(c)).any(|word| word == column),
            false => text.contains(&column),
        };
        self.text.as_ref().is_none_or(named)
    }
}

/// One clause.
#[derive(Clone, Debug)]
pub(crate) struct Clause {
    /// What it says.
    pub(crate) shape: Shape,
    /// Columns that the clause equates across tables. They form the groups of rows that belong together.
    pub(crate) links: Links,
    /// Every table that the clause mentions.
    pub(crate) tables: Vec<TableId>,
    /// Whether a constant other than zero stands beside the sums, or replaces the sum of no rows.
    pub(crate) constants: bool,
}

impl Clause {
    /// Tables that the clause mentions without comparing their columns or rows: their rows determine which groups
    /// exist.
    pub(crate) fn beside(&self) -> Vec<TableId> {
        let of_region = |region: &Region| -> Vec<TableId> {
            let filters = region.filters.iter().map(|f| f.column.0);
            region.tables.iter().copied().chain(filters).collect()
        };
        let compared: Vec<TableId> = match &self.shape {
            Shape::Balance(parts) | Shape::Bound { parts, .. } | Shape::Extremum(parts) => parts
                .iter()
                .flat_map(|part| match &part.source {
                    Source::Column((table, _)) => vec![*table],
                    Source::Aggregate { region, .. } => of_region(region),
                })
                .collect(),
            Shape::Iff(facets) => facets.iter().map(Facet::table).collect(),
            Shape::Inclusion { child, parent, .. } => {
                let mut tables = of_region(parent);
                tables.push(*child);
                tables
            }
            Shape::Row { table, .. } => vec![*table],
            Shape::AtLeastOne { region, .. } => of_region(region),
            Shape::Unrecognised(_) => self.tables.clone(),
        };
        let mut beside = self.tables.clone();
        beside.retain(|table| !compared.contains(table));
        beside
    }
}

/// What a clause says.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// For each group, the parts add up to a constant.
    Balance(Vec<Part>),
    /// For each group, the parts add up to at most (`upper`) or at least a constant.
    Bound {
        /// The parts.
        parts: Vec<Part>,
        /// At most, rather than at least.
        upper: bool,
    },
    /// As `Balance`, with the greatest or least value of a column among the parts: ids without gaps, or a stored
    /// extremum.
    Extremum(Vec<Part>),
    /// For each group, all of these hold or none does.
    Iff(Vec<Facet>),
    /// For each such child row there is such a parent row.
    Inclusion {
        /// The table whose rows require a row of the other.
        child: TableId,
        /// Which of its rows require one.
        filters: Vec<Filter>,
        /// The required rows.
        parent: Region,
    },
    /// Each row of the table satisfies all atoms.
    Row {
        /// The table.
        table: TableId,
        /// The atoms.
        atoms: Vec<Atom>,
    },
    /// At least one such row exists.
    AtLeastOne {
        /// The rows.
        region: Region,
        /// Whether the whole primary key is fixed, so that one specific row must exist.
        certain: bool,
    },
    /// No rule knows the condition; the reason.
    Unrecognised(String),
}

/// A term of a sum.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// What it is multiplied by.
    pub(crate) factor: f64,
    /// The column or aggregate.
    pub(crate) source: Source,
    /// Whether the part is NULL where there are no rows, so that the clause requires nothing then: a sum without
    /// `coalesce(…, 0)`.
    pub(crate) null_of_nothing: bool,
}

/// What a [`Part`] adds up.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A column of the group's row.
    Column(TableColumn),
    /// An aggregate over rows of the group.
    Aggregate {
        /// Which one.
        function: Aggregate,
        /// The columns of its argument; none for `count(*)`.
        columns: Vec<TableColumn>,
        /// Whether the argument is that one column itself, not computed from it.
        plain: bool,
        /// The rows aggregated.
        region: Region,
    },
}

/// An aggregate function that rules know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregate {
    /// `sum(x)`
    Sum,
    /// `count(*)`, `count(x)`
    Count,
    /// `max(x)`
    Max,
    /// `min(x)`
    Min,
}

/// The rows of a query: tables joined on the clause's links, and filters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region {
    /// The tables.
    pub(crate) tables: Vec<TableId>,
    /// Further conditions on each row.
    pub(crate) filters: Vec<Filter>,
}

/// A condition on one column.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    /// The column.
    pub(crate) column: TableColumn,
    /// The test.
    pub(crate) test: Test,
}

/// The test of a [`Filter`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    /// `IS NULL`
    Null,
    /// `IS NOT NULL`
    NotNull,
    /// Equal to this constant.
    Equals(Value),
    /// Something else.
    Other,
}

/// One side of an equivalence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Facet {
    /// A column of the row is (or is not) NULL.
    Null(TableColumn),
    /// A boolean column of the row is (or is not) true.
    True(TableColumn),
    /// A row of the table exists in the group.
    Row(TableId),
}

impl Facet {
    /// The table it looks at.
    pub(crate) fn table(&self) -> TableId {
        match self {
            Facet::Null((table, _)) | Facet::True((table, _)) | Facet::Row(table) => *table,
        }
    }
}

/// Columns that are equal in each group, as classes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    classes: Vec<Vec<TableColumn>>,
}

impl Links {
    /// Records that two columns are equal.
    pub(crate) fn join(&mut self, a: TableColumn, b: TableColumn) {
        let of = |classes: &[Vec<TableColumn>], x| classes.iter().position(|c| c.contains(&x));
        match (of(&self.classes, a), of(&self.classes, b)) {
            (Some(i), Some(j)) if i != j => {
                let (low, high) = (i.min(j), i.max(j));
                let moved = self.classes.remove(high);
                self.classes[low].extend(moved);
            }
            (Some(_), Some(_)) => {}
            (Some(i), None) => self.classes[i].push(b),
            (None, Some(j)) => self.classes[j].push(a),
            (None, None) => self.classes.push(if a == b { vec![a] } else { vec![a, b] }),
        }
    }

    /// The classes.
    pub(crate) fn classes(&self) -> &[Vec<TableColumn>] {
        &self.classes
    }

    /// Whether two columns are known to be equal.
    pub(crate) fn are_equal(&self, a: TableColumn, b: TableColumn) -> bool {
        a == b
            || self
                .classes
                .iter()
                .any(|c| c.contains(&a) && c.contains(&b))
    }

    /// The columns of one table that take part, ascending.
    pub(crate) fn columns_of(&self, table: TableId) -> Vec<ColumnIndex> {
        let mut columns: Vec<ColumnIndex> = self
            .classes
            .iter()
            .flatten()
            .filter(|c| c.0 == table)
            .map(|c| c.1)
            .collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}
