//! Generated columns: `GENERATED ALWAYS AS (expression) STORED`, and the hidden ones of indexes ([`crate::catalog`]).
//!
//! An INSERT computes them from its whole rows. An UPDATE, an ON CONFLICT DO UPDATE and a foreign
//! key's action compute those that read what they assign, after the new values of the other columns are known; so an
//! assigned expression is evaluated once. The analyser, and the row programs of deferred UPDATEs, see the same as an
//! assignment, in which the assigned expressions stand in place of their columns ([`Computed::assigned`]).

use anabranch_types::{ColumnIndex, DataType, IndexId, TableId};
use sqlparser::ast::Expr;

use crate::{
    bind::{
        Binder, NoVariables,
        convert::{Context, exists},
        from::split,
        scope::Scope,
    },
    catalog::{Catalog, ColumnDefault, IndexPart, plain_type},
    diagnostic::Diagnostic,
    expression::{Expression, frame::column_index},
    source::Span,
};

/// A generated column.
#[derive(Clone, Debug)]
pub(crate) struct Computed {
    pub(crate) column: ColumnIndex,
    /// The name of the invariant that it fits its row.
    pub(crate) name: String,
    /// Its value, over the row (source 1). It reads no generated column.
    pub(crate) expression: Expression,
    /// The columns that the expression reads.
    pub(crate) reads: Vec<ColumnIndex>,
}

impl Computed {
    /// The generated columns of a table.
    ///
    /// # Errors
    /// The problems of their expressions.
    pub(crate) fn of(catalog: &Catalog, table: TableId) -> Result<Vec<Computed>, Vec<Diagnostic>> {
        let mut computed = Vec::new();
        let mut problems = Vec::new();
        for place in 0..catalog.table(table).defaults.len() {
            match Computed::bound(catalog, table, column_index(place)) {
                Ok(found) => computed.extend(found),
                Err(problem) => problems.push(problem),
            }
        }
        match problems.is_empty() {
            true => Ok(computed),
            false => Err(problems),
        }
    }

    fn bound(
        catalog: &Catalog,
        table: TableId,
        column: ColumnIndex,
    ) -> Result<Option<Computed>, Diagnostic> {
        let defaults = &catalog.table(table).defaults;
        let ColumnDefault::Computed(syntax, span) = &defaults[column.index()] else {
            return Ok(None);
        };
        let described = &catalog.schema.table(table).columns;
        let to = &described[column.index()].data_type;
        let mut binder = Binder::new(catalog, &NoVariables, *span);
        binder.stored = true;
        binder.scopes.push(Scope {
            clause: "column generation expressions",
            ..Scope::default()
        });
        binder.row_source(table, None);
        // The parts of an index have been tested by themselves.
        let bound = binder.expression(syntax)?;
        let is_hidden = described[column.index()].is_hidden;
        let reads = read_by(&bound.expression);
        let other = reads
            .iter()
            .find(|of| matches!(defaults[of.index()], ColumnDefault::Computed(..)));
        if let Some(other) = other.filter(|_| !is_hidden) {
            let message = format!(
                "cannot use generated column \"{}\" in column generation expression",
                described[other.index()].name
            );
            return Err(Diagnostic::new("42P17", message, *span)
                .detail("A generated column cannot reference another generated column."));
        }
        let is_of_generated = other.is_some();
        if let Some(from) = &bound.data_type
            && !exists(from, to, Context::Assignment)
        {
            let message = format!(
                "column \"{}\" is of type {} but default expression is of type {}",
                described[column.index()].name,
                plain_type(to),
                plain_type(from)
            );
            return Err(Diagnostic::new("42804", message, *span)
                .help("You will need to rewrite or cast the expression."));
        }
        let expression = binder.coerce(bound, to, Context::Assignment, syntax)?;
        if !binder.scope().subqueries.is_empty() {
            let message = "cannot use subquery in column generation expression";
            return Err(Diagnostic::new("0A000", message, *span));
        }
        if is_of_generated {
            // An index may be of a generated column.
            let expression = over_others(catalog, table, expression)?;
            return Ok(Some(Computed::new(catalog, table, column, expression)));
        }
        if !expression.is_immutable() {
            let message = "generation expression is not immutable";
            return Err(Diagnostic::new("42P17", message, *span));
        }
        Ok(Some(Computed::new(catalog, table, column, expression)))
    }

    fn new(
        catalog: &Catalog,
        table: TableId,
        column: ColumnIndex,
        expression: Expression,
    ) -> Computed {
        Computed {
            column,
            name: catalog.generated_name(table, column),
            reads: read_by(&expression),
            expression,
        }
    }

    /// Whether an assignment to one of these columns changes it.
    pub(crate) fn reads_any(&self, columns: &[ColumnIndex]) -> bool {
        self.reads.iter().any(|of| columns.contains(of))
    }

    /// Its new value in an UPDATE with these assignments, over the old row.
    pub(crate) fn assigned(&self, assignments: &[(ColumnIndex, Expression)]) -> Expression {
        let new = |column: ColumnIndex| {
            let mut assigned = assignments.iter();
            let found = assigned.find(|(of, _)| *of == column)?;
            Some(found.1.clone())
        };
        replaced(self.expression.clone(), &new)
    }
}

/// The columns that an expression over a row reads.
fn read_by(expression: &Expression) -> Vec<ColumnIndex> {
    let mut reads = Vec::new();
    expression.each_column(&mut |_, place| {
        if !reads.contains(&column_index(place)) {
            reads.push(column_index(place));
        }
    });
    reads
}

/// An expression over a row, with the expressions of generated columns in place of these.
fn over_others(
    catalog: &Catalog,
    table: TableId,
    expression: Expression,
) -> Result<Expression, Diagnostic> {
    let mut of_columns = Vec::new();
    let mut problem = None;
    expression.each_column(&mut |_, place| match Computed::bound(
        catalog,
        table,
        column_index(place),
    ) {
        Ok(found) => of_columns.extend(found),
        Err(error) => problem = Some(error),
    });
    if let Some(problem) = problem {
        return Err(problem);
    }
    Ok(replaced(expression, &|column| {
        let mut all = of_columns.iter();
        let found = all.find(|of| of.column == column)?;
        Some(found.expression.clone())
    }))
}

/// An expression of an index over a row of its table (source 1), and its type.
///
/// # Errors
/// Why an index cannot have it.
pub(crate) fn bound_part(
    catalog: &Catalog,
    table: TableId,
    syntax: &Expr,
    span: Span,
) -> Result<(Expression, DataType), Diagnostic> {
    let mut binder = row_binder(catalog, table, span, "index expressions");
    let bound = binder.expression(syntax)?;
    let (expression, data_type) = binder.settled(bound, syntax)?;
    check_part(&mut binder, &expression, "index expression")?;
    Ok((expression, data_type))
}

/// The condition of a partial index over a row of its table (source 1).
///
/// # Errors
/// Why an index cannot have it.
pub(crate) fn bound_predicate(
    catalog: &Catalog,
    table: TableId,
    syntax: &Expr,
    span: Span,
) -> Result<Expression, Diagnostic> {
    let mut binder = row_binder(catalog, table, span, "index predicates");
    let bound = binder.expression(syntax)?;
    if let Some(other) = bound.data_type.as_ref().filter(|of| **of != DataType::Bool) {
        let message = format!(
            "argument of WHERE must be type boolean, not type {}",
            plain_type(other)
        );
        return Err(Diagnostic::new("42804", message, span));
    }
    let expression = binder.coerce(bound, &DataType::Bool, Context::Implicit, syntax)?;
    check_part(&mut binder, &expression, "index predicate")?;
    Ok(expression)
}

fn row_binder<'c>(
    catalog: &'c Catalog,
    table: TableId,
    span: Span,
    clause: &'static str,
) -> Binder<'c> {
    let mut binder = Binder::new(catalog, &NoVariables, span);
    binder.stored = true;
    binder.scopes.push(Scope {
        clause,
        ..Scope::default()
    });
    binder.row_source(table, None);
    binder
}

fn check_part(
    binder: &mut Binder<'_>,
    expression: &Expression,
    what: &str,
) -> Result<(), Diagnostic> {
    let place = binder.place;
    if !binder.scope().subqueries.is_empty() {
        let message = format!("cannot use subquery in {what}");
        return Err(Diagnostic::new("0A000", message, place));
    }
    if !expression.is_immutable() {
        let message = format!("functions in {what} must be marked IMMUTABLE");
        return Err(Diagnostic::new("42P17", message, place));
    }
    Ok(())
}

/// A part of an index of expressions, or of a partial one.
pub(crate) struct IndexedPart {
    pub(crate) index: IndexId,
    /// The hidden column that has its value.
    pub(crate) column: ColumnIndex,
    /// Its value, over the row (source 1).
    pub(crate) expression: Expression,
    /// The conjuncts of the condition of the index.
    pub(crate) predicate: Vec<Expression>,
}

impl IndexedPart {
    /// Those of a table.
    pub(crate) fn of(catalog: &Catalog, table: TableId) -> Vec<IndexedPart> {
        let declared = &catalog.table(table).indexes;
        let mut found = Vec::new();
        for (definition, index) in declared.iter().zip(&catalog.schema.table(table).indexes) {
            if definition.is_plain() {
                continue;
            }
            // They were bound when the catalog was made.
            let mut predicate = Vec::new();
            if let Some((condition, span)) = &definition.predicate
                && let Ok(condition) = bound_predicate(catalog, table, condition, *span)
            {
                split(condition, &mut predicate);
            }
            for (part, column) in definition.parts.iter().zip(&index.columns) {
                let expression = match part {
                    IndexPart::Column(own) => Expression::Column {
                        depth: 0,
                        source: 1,
                        column: own.index(),
                    },
                    IndexPart::Expression(syntax, span) => {
                        match bound_part(catalog, table, syntax, *span) {
                            Ok((expression, _)) => expression,
                            Err(_) => continue,
                        }
                    }
                };
                found.push(IndexedPart {
                    index: index.id,
                    column: *column,
                    expression,
                    predicate: predicate.clone(),
                });
            }
        }
        found
    }
}

/// An expression over a row (source 1), with other expressions in place of columns.
pub(crate) fn replaced(
    expression: Expression,
    new: &impl Fn(ColumnIndex) -> Option<Expression>,
) -> Expression {
    match expression {
        Expression::Column {
            depth: 0,
            source: 1,
            column,
        } => new(column_index(column)).unwrap_or(expression),
        mut other => {
            other.each_child_mut(|child| {
                let taken = std::mem::replace(child, Expression::NULL);
                *child = replaced(taken, new);
            });
            other.folded()
        }
    }
}

impl Catalog {
    /// The generated columns of a table, each with the columns that it is computed from.
    pub fn generated_columns(&self, table: TableId) -> Vec<(ColumnIndex, Vec<ColumnIndex>)> {
        // What does not bind is reported when the application is compiled.
        let computed = Computed::of(self, table).unwrap_or_default();
        computed
            .into_iter()
            .map(|of| (of.column, of.reads))
            .collect()
    }

    /// The name of the invariant that a generated column fits its row. A hidden one is named by its index: it has a name like
    /// that of a visible column.
    pub fn generated_name(&self, table: TableId, column: ColumnIndex) -> String {
        let schema = self.schema.table(table);
        let described = &schema.columns[column.index()];
        if described.is_hidden {
            for index in &schema.indexes {
                if let Some(part) = index.columns.iter().position(|of| *of == column) {
                    return format!("{}_{}_generated", index.name, part + 1);
                }
            }
        }
        format!("{}_{}_generated", schema.name, described.name)
    }

    /// The generated columns of a table that change with these columns.
    pub fn generated_from(&self, table: TableId, columns: &[ColumnIndex]) -> Vec<ColumnIndex> {
        let changes = |reads: &[ColumnIndex]| reads.iter().any(|of| columns.contains(of));
        let all = self.generated_columns(table).into_iter();
        all.filter(|(_, reads)| changes(reads))
            .map(|(column, _)| column)
            .collect()
    }
}
