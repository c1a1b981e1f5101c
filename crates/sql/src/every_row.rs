//! Assertions that are CHECK constraints by another name: `NOT EXISTS (SELECT … FROM t WHERE c)`.
//!
//! A row violates such an assertion if `c` is true of it, not if `c` is NULL: each row satisfies `c IS NOT TRUE`.
//! Several such clauses about one table form one condition. A transaction that may violate it need only look at the
//! rows that it has changed ([`checked_row`]).
//!
//! Only a query that is equivalent to such a CHECK is taken: one table, no view, no alias of its columns; no
//! grouping and no function in the select list, which may make a row where there is none; no LIMIT, which may drop
//! one. The solver's front end checks whether the condition is about columns of the row alone.

use anabranch_types::TableId;
use sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Query, Select, SelectItem, SetExpr, TableFactor,
    UnaryOperator,
};

use crate::{
    bind::fold, catalog::Catalog, constraint, diagnostic::Diagnostic, program::check::Check,
    source::Span,
};

/// A condition on each row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct EveryRow {
    /// The table.
    pub table: TableId,
    /// The name by which the condition may call the row.
    pub name: String,
    /// The condition that each row satisfies, as a CHECK would state it.
    pub condition: Expr,
}

impl EveryRow {
    /// Binds the condition.
    ///
    /// # Errors
    /// If it depends on more than the row.
    pub(crate) fn bind(&self, catalog: &Catalog, span: Span) -> Result<Check, Diagnostic> {
        constraint::bind_row(catalog, (self.table, &self.name), &self.condition, span)
    }
}

/// Returns what an assertion says of each row of a table by itself, if it says nothing else.
pub fn every_row(catalog: &Catalog, assertion: &Expr) -> Option<EveryRow> {
    match assertion {
        Expr::Nested(inner) => every_row(catalog, inner),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => {
            let (left, right) = (every_row(catalog, left)?, every_row(catalog, right)?);
            let [one, other] = [left.condition, right.condition].map(Box::new);
            let alike = left.table == right.table && left.name == right.name;
            alike.then_some(EveryRow {
                table: left.table,
                name: left.name,
                condition: Expr::BinaryOp {
                    left: one,
                    op: BinaryOperator::And,
                    right: other,
                },
            })
        }
        _ => of_query(catalog, assertion),
    }
}

/// Reads one NOT EXISTS.
fn of_query(catalog: &Catalog, assertion: &Expr) -> Option<EveryRow> {
    let select = forbidden(assertion, false)?;
    let (table, name) = only_table(catalog, select)?;
    let wrong = select.selection.as_ref()?;
    Some(EveryRow {
        table,
        name,
        condition: Expr::IsNotTrue(Box::new(Expr::Nested(Box::new(wrong.clone())))),
    })
}

/// The query that must return no row.
fn forbidden(assertion: &Expr, negated: bool) -> Option<&Select> {
    match assertion {
        Expr::Nested(inner) => forbidden(inner, negated),
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr,
        } => forbidden(expr, !negated),
        Expr::Exists {
            subquery,
            negated: not,
        } if *not != negated => plain(subquery),
        _ => None,
    }
}

fn plain(query: &Query) -> Option<&Select> {
    let whole = query.with.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    match query.body.as_ref() {
        SetExpr::Select(select) if whole => Some(select),
        SetExpr::Query(inner) if whole => plain(inner),
        _ => None,
    }
}

/// The table of a query that returns one row for each table row that satisfies the WHERE clause.
fn only_table(catalog: &Catalog, select: &Select) -> Option<(TableId, String)> {
    let groups = match &select.group_by {
        GroupByExpr::Expressions(columns, modifiers) => {
            !columns.is_empty() || !modifiers.is_empty()
        }
        GroupByExpr::All(_) => true,
    };
    let of_rows = |item: &SelectItem| match item {
        SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => true,
        SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } => matches!(
            e,
            Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_)
        ),
        _ => false,
    };
    if groups
        || select.having.is_some()
        || select.qualify.is_some()
        || select.top.is_some()
        || !select.projection.iter().all(of_rows)
    {
        return None;
    }
    let [from] = select.from.as_slice() else {
        return None;
    };
    let TableFactor::Table {
        name,
        alias,
        args: None,
        sample: None,
        ..
    } = &from.relation
    else {
        return None;
    };
    if !from.joins.is_empty() || alias.as_ref().is_some_and(|a| !a.columns.is_empty()) {
        return None;
    }
    let of_table = fold(name.0.last()?.as_ident()?);
    let called = alias.as_ref().map_or(of_table.clone(), |a| fold(&a.name));
    let mut tables = catalog.schema.tables.iter();
    let table = tables.find(|t| t.name == of_table)?;
    Some((table.id, called))
}

/// Returns what an assertion says of each row of a table, if it can be evaluated on one row, and the table's rows are
/// told apart by a primary key: then it is evaluated on the rows that a transaction changes.
pub fn checked_row(catalog: &Catalog, assertion: &Expr) -> Option<EveryRow> {
    let every = every_row(catalog, assertion)?;
    let place = Span {
        file: 0,
        start: 0,
        end: 0,
    };
    let has_key = !catalog.schema.table(every.table).primary_key.is_empty();
    (has_key && every.bind(catalog, place).is_ok()).then_some(every)
}
