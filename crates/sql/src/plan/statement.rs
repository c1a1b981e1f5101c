//! Compiled statements: queries, and the plans of INSERT, UPDATE and DELETE.

use std::sync::{Arc, OnceLock};

use anabranch_types::{ColumnIndex, IndexId, ProgramId, TableSchema};

use super::{DeferredUpdate, OutputColumn, Query, Step, rows::RowPlan};
use crate::{
    bind::computed::Computed,
    bind::{RawAccess, term::RawTerm},
    expression::Expression,
    source::Span,
};

/// A compiled statement.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) kind: StatementKind,
    /// Its common table expressions, unless it is a query, which has its own.
    pub(crate) ctes: Vec<(usize, Query)>,
    /// The columns of its result; none for a data-modifying statement without RETURNING.
    pub(crate) columns: Vec<OutputColumn>,
    /// Its accesses to tables.
    pub(crate) accesses: Vec<RawAccess>,
    /// The origins of the result's columns.
    pub(crate) terms: Vec<RawTerm>,
    pub(crate) span: Span,
    /// Whether it draws numbers anywhere, once that is known ([`draws`](super::walk::draws)).
    pub(crate) draws: OnceLock<bool>,
}

/// The kind of a statement.
#[derive(Debug)]
pub(crate) enum StatementKind {
    Query(Query),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    Compound(CompoundStatement),
}

/// A statement of several, each of which sees the rows as they were before all of them.
#[derive(Debug)]
pub(crate) struct CompoundStatement {
    pub(crate) kind: CompoundKind,
    pub(crate) parts: Vec<Statement>,
}

/// What a compound statement was written as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CompoundKind {
    /// A WITH with statements that change data, and the statement behind it.
    With {
        /// The common table expressions whose rows the parts return, in the order of parts: the last has none.
        numbers: Vec<usize>,
    },
    /// A MERGE with its clauses.
    Merge,
}

impl StatementKind {
    /// Its last part, which gives its result; the statement itself unless it is compound.
    pub(crate) fn last(&self) -> &StatementKind {
        self.parts().last().map_or(self, |last| &last.kind)
    }

    /// Its parts, if it is compound.
    pub(crate) fn parts(&self) -> &[Statement] {
        match self {
            StatementKind::Compound(several) => &several.parts,
            _ => &[],
        }
    }
}

impl Statement {
    /// A query, with the tables that it mentions.
    pub(crate) fn query(query: Query, accesses: Vec<RawAccess>, span: Span) -> Statement {
        Statement {
            columns: query.columns.clone(),
            terms: query.terms.clone(),
            ctes: Vec::new(),
            kind: StatementKind::Query(query),
            accesses,
            span,
            draws: OnceLock::new(),
        }
    }
}

/// INSERT.
#[derive(Debug)]
pub(crate) struct Insert {
    pub(crate) schema: Arc<TableSchema>,
    /// Gives whole rows, in the order of the table's columns.
    pub(crate) query: Query,
    /// How its rows are made, if they are made directly from its tuples.
    pub(crate) rows: Option<RowPlan>,
    pub(crate) conflict: Option<Conflict>,
    /// RETURNING, over the new row (source 1).
    pub(crate) returning: Option<Vec<Expression>>,
}

/// ON CONFLICT.
#[derive(Debug)]
pub(crate) struct Conflict {
    /// The keys on which a row may conflict: `None` is the primary key.
    pub(crate) arbiters: Vec<Option<IndexId>>,
    /// DO UPDATE: the existing row is source 1, the proposed one source 2.
    pub(crate) update: Option<ConflictUpdate>,
}

/// DO UPDATE.
#[derive(Debug)]
pub(crate) struct ConflictUpdate {
    pub(crate) assignments: Vec<(ColumnIndex, Expression)>,
    /// The generated columns that change with them, and what triggers assign.
    pub(crate) computed: Vec<Computed>,
    pub(crate) condition: Option<Expression>,
    /// Takes the new values of the assigned columns, then those of the other computed ones.
    pub(crate) program: ProgramId,
}

/// UPDATE: the target is source 1.
#[derive(Debug)]
pub(crate) struct Update {
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) stride: usize,
    pub(crate) steps: Vec<Step>,
    pub(crate) assignments: Vec<(ColumnIndex, Expression)>,
    /// The generated columns that change with them, and what triggers assign.
    pub(crate) computed: Vec<Computed>,
    /// Numbers that one tuple's assignments draw.
    pub(crate) uniques: usize,
    /// Takes the new values of the assigned columns, then those of the other computed ones.
    pub(crate) program: ProgramId,
    /// Whether a column of the primary key changes.
    pub(crate) moves: bool,
    /// RETURNING, over the tuple with the new row.
    pub(crate) returning: Option<Vec<Expression>>,
    /// Whether RETURNING gives the same over the old row.
    pub(crate) returns_old: bool,
    pub(crate) deferred: Option<DeferredUpdate>,
}

/// DELETE: the target is source 1.
#[derive(Debug)]
pub(crate) struct Delete {
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) stride: usize,
    pub(crate) steps: Vec<Step>,
    pub(crate) returning: Option<Vec<Expression>>,
}
