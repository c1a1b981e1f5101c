//! Generated columns: `GENERATED ALWAYS AS (expression) STORED`, and the hidden ones of indexes ([`crate::catalog`]).
//!
//! An INSERT computes them from its whole rows. An UPDATE, an ON CONFLICT DO UPDATE and a foreign
//! key's action compute those that read what they assign, after the new values of the other columns are known; so an
//! assigned expression is evaluated once. The analyser, and the row programs of deferred UPDATEs, see the same as an
//! assignment, in which the assigned expressions stand in place of their columns ([`Computed::assigned`]).
//!
//! What triggers assign ([`super::trigger`]) is computed beside them, from the row as the statement has made it, and wins
//! over what the statement assigns to the same column. Generated columns are computed from what the triggers leave.

use anabranch_types::{ColumnIndex, DataType, IndexId, TableId};
use sqlparser::ast::Expr;

use crate::{
    bind::{
        Binder, NoVariables,
        convert::{Context, exists},
        from::split,
        scope::Scope,
        substitution::{replaced, replaced_all},
        trigger::{Assigned, RowTriggers},
    },
    catalog::{Catalog, ColumnDefault, IndexPart, plain_type},
    diagnostic::Diagnostic,
    expression::{Expression, frame::column_index},
    source::Span,
};

/// A generated column, or one that triggers assign.
#[derive(Clone, Debug)]
pub(crate) struct Computed {
    pub(crate) column: ColumnIndex,
    /// The name of the invariant that a generated column fits its row; `None` for what triggers assign.
    pub(crate) name: Option<String>,
    /// Its value, over the row (source 1) and, under triggers on UPDATE, the old row (source 2). It reads no generated
    /// column of the row.
    pub(crate) expression: Expression,
    /// The columns of the row that the expression reads.
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
            name: Some(catalog.generated_name(table, column)),
            reads: read_by(&expression),
            expression,
        }
    }

    /// What an INSERT computes.
    pub(crate) fn on_insert(computed: &[Computed], triggers: &RowTriggers) -> Vec<Computed> {
        Computed::beside(triggers.on_insert(), computed.iter())
    }

    /// What an UPDATE computes that assigns these columns, and sets generated ones to DEFAULT.
    pub(crate) fn on_update(
        computed: &[Computed],
        triggers: &RowTriggers,
        assigned: &[ColumnIndex],
        defaulted: &[ColumnIndex],
    ) -> Vec<Computed> {
        let changing = |columns: &[ColumnIndex]| -> Vec<&Computed> {
            let changes = |of: &&Computed| of.reads_any(columns) || defaulted.contains(&of.column);
            computed.iter().filter(changes).collect()
        };
        let mut changed = assigned.to_vec();
        changed.extend(changing(assigned).into_iter().map(|of| of.column));
        let mut by_triggers = triggers.on_update(&changed);
        // A trigger that keeps a column as it was (`NEW.id := OLD.id`) changes nothing if the statement does not.
        by_triggers.retain(|(column, value)| {
            let is_kept = matches!(value, Expression::Column { depth: 0, source: 1 | 2, column: of }
                if *of == column.index());
            !is_kept || changed.contains(column)
        });
        let mut all = assigned.to_vec();
        all.extend(by_triggers.iter().map(|(column, _)| *column));
        Computed::beside(&by_triggers, changing(&all).into_iter())
    }

    /// What triggers assign, and generated columns of the row that they leave.
    fn beside<'c>(
        by_triggers: &Assigned,
        generated: impl Iterator<Item = &'c Computed>,
    ) -> Vec<Computed> {
        let mut all: Vec<Computed> = by_triggers
            .iter()
            .map(|(column, expression)| Computed {
                column: *column,
                name: None,
                reads: read_by(expression),
                expression: expression.clone(),
            })
            .collect();
        let left = |column: ColumnIndex| {
            let found = by_triggers.iter().find(|(of, _)| *of == column)?;
            Some(found.1.clone())
        };
        all.extend(generated.map(|of| {
            let expression = match by_triggers.is_empty() {
                true => of.expression.clone(),
                false => replaced(of.expression.clone(), &left),
            };
            Computed {
                column: of.column,
                name: of.name.clone(),
                reads: read_by(&expression),
                expression,
            }
        }));
        all
    }

    /// Whether triggers assign it.
    pub(crate) fn is_by_trigger(&self) -> bool {
        self.name.is_none()
    }

    /// Whether an assignment to one of these columns changes it.
    pub(crate) fn reads_any(&self, columns: &[ColumnIndex]) -> bool {
        self.reads.iter().any(|of| columns.contains(of))
    }

    /// Its new value in an UPDATE with these assignments, over the old row and the tables beside it.
    pub(crate) fn assigned(&self, assignments: &[(ColumnIndex, Expression)]) -> Expression {
        replaced_all(self.expression.clone(), &|source, column| {
            if source == 2 {
                return Some(Expression::Column {
                    depth: 0,
                    source: 1,
                    column: column.index(),
                });
            }
            let mut assigned = assignments.iter();
            let found = assigned.find(|(of, _)| *of == column)?;
            Some(found.1.clone())
        })
    }
}

/// The columns of a row (source 1) that an expression reads.
fn read_by(expression: &Expression) -> Vec<ColumnIndex> {
    let mut reads = Vec::new();
    expression.each_column(&mut |source, place| {
        if source == 1 && !reads.contains(&column_index(place)) {
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

    /// The columns of a table that an UPDATE of these columns computes: generated columns, and those that triggers assign,
    /// which may be among these columns.
    pub fn changed_with(&self, table: TableId, columns: &[ColumnIndex]) -> Vec<ColumnIndex> {
        let computed = self.computed_by_update(table, columns).into_iter();
        computed.map(|(column, _)| column).collect()
    }

    /// The same, each with the columns of the row that it is computed from, before the UPDATE or after it.
    pub fn computed_by_update(
        &self,
        table: TableId,
        columns: &[ColumnIndex],
    ) -> Vec<(ColumnIndex, Vec<ColumnIndex>)> {
        // What does not bind is reported when the application is compiled.
        let computed = Computed::of(self, table).unwrap_or_default();
        let triggers = RowTriggers::of(self, table).unwrap_or_default();
        let changed = Computed::on_update(&computed, &triggers, columns, &[]);
        let with_reads = |of: Computed| {
            let mut reads = of.reads;
            of.expression.each_column(&mut |_, place| {
                if !reads.contains(&column_index(place)) {
                    reads.push(column_index(place));
                }
            });
            (of.column, reads)
        };
        changed.into_iter().map(with_reads).collect()
    }
}
