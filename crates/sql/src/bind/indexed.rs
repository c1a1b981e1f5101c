//! Conditions in the terms of indexes of expressions and of partial indexes: their hidden columns stand in place of what
//! they hold, so that the planner and the analyser see a column.

use anabranch_types::{ColumnIndex, TableId};

use super::{Binder, computed::IndexedPart, from::FromList};
use crate::expression::Expression;

impl Binder<'_> {
    /// Rewrites the conjuncts of a WHERE, or of an inner join's ON. The rows of the other side of an outer join may be
    /// missing, and then an expression over their columns need not be NULL as the hidden column is.
    pub(super) fn use_indexes(&mut self, conjuncts: &mut Vec<Expression>, list: &FromList) {
        if !list.full_joins.is_empty() {
            return;
        }
        let Some(scope) = self.scopes.last() else {
            return;
        };
        let sources = scope.sources.iter().zip(1..);
        let tables: Vec<(usize, TableId, Option<usize>)> = sources
            .filter(|(source, _)| !source.nullable)
            .filter_map(|(source, number)| Some((number, source.table?, source.access)))
            .collect();
        for (source, table, access) in tables {
            let used = conditions_of(conjuncts, source, IndexedPart::of(self.catalog, table));
            if let Some(access) = access {
                for column in used {
                    self.accesses[access].reads(column);
                }
            }
        }
    }
}

/// Rewrites the conjuncts for one source; returns the hidden columns that they name.
fn conditions_of(
    conjuncts: &mut Vec<Expression>,
    source: usize,
    parts: Vec<IndexedPart>,
) -> Vec<ColumnIndex> {
    let mut used = Vec::new();
    let given = conjuncts.clone();
    let (partial, whole): (Vec<IndexedPart>, Vec<IndexedPart>) = parts
        .into_iter()
        .partition(|part| !part.predicate.is_empty());
    // The rows that satisfy the condition of an index have the values in it, so what is true of these is true of its
    // columns. The conjuncts stay, since other rows have NULL there.
    for part in partial {
        let holds = |of: &Expression| {
            let of = at(of, source);
            given.iter().any(|conjunct| conjunct.is_identical(&of))
        };
        if !part.predicate.iter().all(holds) {
            continue;
        }
        let value = at(&part.expression, source);
        for conjunct in &given {
            let Expression::Compare {
                relation,
                left,
                right,
            } = conjunct
            else {
                continue;
            };
            let side = |of: &Expression| match of.is_identical(&value) {
                true => hidden(source, part.column),
                false => of.clone(),
            };
            // What is drawn twice differs.
            let is_one_side = left.is_identical(&value) != right.is_identical(&value);
            if is_one_side && !conjunct.is_volatile() {
                conjuncts.push(Expression::Compare {
                    relation: *relation,
                    left: Box::new(side(left)),
                    right: Box::new(side(right)),
                });
                used.push(part.column);
            }
        }
    }
    for part in whole {
        // A column is its own value.
        if matches!(
            part.expression,
            Expression::Column { .. } | Expression::Constant(_)
        ) {
            continue;
        }
        let value = at(&part.expression, source);
        for conjunct in conjuncts.iter_mut() {
            if put(conjunct, &value, &hidden(source, part.column)) {
                used.push(part.column);
            }
        }
    }
    used
}

/// Puts a column in place of a value; returns whether it is there.
fn put(expression: &mut Expression, value: &Expression, column: &Expression) -> bool {
    if expression.is_identical(value) {
        *expression = column.clone();
        return true;
    }
    let mut found = false;
    expression.each_child_mut(|child| found |= put(child, value, column));
    found
}

fn hidden(source: usize, column: ColumnIndex) -> Expression {
    Expression::Column {
        depth: 0,
        source,
        column: column.index(),
    }
}

/// An expression over a row (source 1), over another source.
fn at(expression: &Expression, source: usize) -> Expression {
    let mut moved = expression.clone();
    if let Expression::Column {
        depth: 0,
        source: of,
        ..
    } = &mut moved
    {
        *of = source;
    }
    moved.each_child_mut(|child| *child = at(child, source));
    moved
}
