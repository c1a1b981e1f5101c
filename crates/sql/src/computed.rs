//! Generated columns: `GENERATED ALWAYS AS (expression) STORED`.
//!
//! An INSERT computes them from its whole rows, in [`Computed::rows`]. An UPDATE, an ON CONFLICT DO UPDATE and a foreign
//! key's action compute those that read what they assign, after the new values of the other columns are known; so an
//! assigned expression is evaluated once. The analyser, and the row programs of deferred UPDATEs, see the same as an
//! assignment, in which the assigned expressions stand in place of their columns ([`Computed::assigned`]).

use anabranch_types::{ColumnIndex, TableId};

use crate::{
    bind::{
        Binder, NoVariables,
        convert::{Context, exists},
        scope::Scope,
    },
    catalog::{Catalog, ColumnDefault, plain_type},
    diagnostic::Diagnostic,
    expression::{Expression, frame::column_index},
};

/// A generated column.
#[derive(Clone, Debug)]
pub(crate) struct Computed {
    pub(crate) column: ColumnIndex,
    /// The name of the invariant that it fits its row.
    pub(crate) name: String,
    /// Its value, over the row (source 1).
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
        let bound = binder.expression(syntax)?;
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
        let mut reads = Vec::new();
        expression.each_column(&mut |_, place| {
            if !reads.contains(&column_index(place)) {
                reads.push(column_index(place));
            }
        });
        let other = reads
            .iter()
            .find(|of| matches!(defaults[of.index()], ColumnDefault::Computed(..)));
        if let Some(other) = other {
            let message = format!(
                "cannot use generated column \"{}\" in column generation expression",
                described[other.index()].name
            );
            return Err(Diagnostic::new("42P17", message, *span)
                .detail("A generated column cannot reference another generated column."));
        }
        if !expression.is_immutable() {
            let message = "generation expression is not immutable";
            return Err(Diagnostic::new("42P17", message, *span));
        }
        Ok(Some(Computed {
            column,
            name: catalog.generated_name(table, column),
            expression,
            reads,
        }))
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

    /// The name of the invariant that a generated column fits its row.
    pub fn generated_name(&self, table: TableId, column: ColumnIndex) -> String {
        let schema = self.schema.table(table);
        let column = &schema.columns[column.index()].name;
        format!("{}_{column}_generated", schema.name)
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
