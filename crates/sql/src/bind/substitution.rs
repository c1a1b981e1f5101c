//! Expressions in place of columns, and expressions that may be evaluated in more places than they stand in.

use anabranch_types::{ColumnIndex, DataType};

use crate::expression::{Expression, frame::column_index};

/// An expression over a row (source 1), with other expressions in place of columns.
pub(crate) fn replaced(
    expression: Expression,
    new: &impl Fn(ColumnIndex) -> Option<Expression>,
) -> Expression {
    replaced_all(expression, &|source, column| {
        (source == 1).then(|| new(column))?
    })
}

/// An expression over several rows, with other expressions in place of columns, which are given by source and column.
pub(crate) fn replaced_all(
    expression: Expression,
    new: &impl Fn(usize, ColumnIndex) -> Option<Expression>,
) -> Expression {
    match expression {
        Expression::Column {
            depth: 0,
            source,
            column,
        } => new(source, column_index(column)).unwrap_or(expression),
        mut other => {
            other.each_child_mut(|child| {
                let taken = std::mem::replace(child, Expression::NULL);
                *child = replaced_all(taken, new);
            });
            other.folded()
        }
    }
}

/// Whether an expression has a value for all values of its variables, so that it can be evaluated even where a CASE
/// around it would not do so.
pub(crate) fn cannot_fail(expression: &Expression) -> bool {
    let own = matches!(
        expression,
        Expression::Constant(_)
            | Expression::Variable(_)
            | Expression::Column { .. }
            | Expression::Now
            | Expression::Not(_)
            | Expression::And(_)
            | Expression::Or(_)
            | Expression::IsNull { .. }
            | Expression::IsBool { .. }
            | Expression::Compare { .. }
            | Expression::Distinct { .. }
            | Expression::Case { .. }
            | Expression::Switch { .. }
            | Expression::Coalesce(_)
            | Expression::InList { .. }
            | Expression::Quantified { .. }
    ) || now_in_range(expression);
    let mut all = own;
    expression.each_child(|child| all = all && cannot_fail(child));
    all
}

/// Whether it is the transaction's time as another type, which every session's time zone has in range.
fn now_in_range(expression: &Expression) -> bool {
    match expression {
        Expression::Cast { operand, to, .. } => {
            matches!(**operand, Expression::Now)
                && matches!(to, DataType::Timestamp | DataType::Date)
        }
        _ => false,
    }
}
