//! Merge policies of columns: how concurrent writes to a column combine, given all programs of an application.
//!
//! If replicas install transactions in different orders, and none may refuse one, each column must end in the same
//! value in any order. Last writer wins achieves that for assignments, whatever else is done; sums, greatest and least
//! values do if nothing else is done to the column. So the statements of the application determine the policy of a
//! column, if all of them agree:
//!
//! | every statement sets column `c` to | policy |
//! |---|---|
//! | a value that does not depend on the row | [`ColumnPolicy::LastWriter`] |
//! | `c + x`, `c - x`, of integers | [`ColumnPolicy::Counter`] |
//! | `greatest(c, x, …)` | [`ColumnPolicy::Greatest`] |
//! | `least(c, x, …)` | [`ColumnPolicy::Least`] |
//!
//! `x` does not depend on the row. For members of a set as boolean columns, `greatest` is the union: false is less
//! than true. Excluded are numbers with a scale, since the rounding of a sum depends on its previous value, and equal
//! ones may have several representations; and floating-point numbers, since their sums depend on the order.

use anabranch_types::{ColumnIndex, DataType, Merging, TableId, TableSchema};
use rustc_hash::FxHashMap;

use super::{Program, reads_row};
use crate::expression::{Domain, Expression, Function, Operator};

/// The value of a column after several transactions have written it, in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnPolicy {
    /// The value assigned by the transaction that is last in the order.
    LastWriter,
    /// The initial value, with all increments and decrements.
    Counter,
    /// The greatest of the values written; NULL is less than any.
    Greatest,
    /// The least of the values written; NULL is greater than any.
    Least,
}

/// The policy of each column that some program writes; `None` if the programs do not agree on one.
#[derive(Debug, Default)]
pub(crate) struct Policies(FxHashMap<(TableId, ColumnIndex), Option<ColumnPolicy>>);

impl Policies {
    /// The policies that the programs agree on.
    pub(crate) fn agreed<'p>(programs: impl Iterator<Item = &'p Program>) -> Policies {
        let mut policies = Policies::default();
        for program in programs.filter(|program| !program.stands_in) {
            for (column, expression) in &program.assignments {
                let policy = policy_of(&program.schema, *column, expression);
                let column = (program.schema.id, *column);
                let agreed = policies.0.entry(column).or_insert(policy);
                if *agreed != policy {
                    *agreed = None;
                }
            }
        }
        policies
    }

    /// The policy of a column; last writer wins if no program writes it.
    pub(crate) fn of(&self, table: TableId, column: ColumnIndex) -> Option<ColumnPolicy> {
        let found = self.0.get(&(table, column));
        found.copied().unwrap_or(Some(ColumnPolicy::LastWriter))
    }

    /// How a program merges with those that have agreed: see [`anabranch_types::RowPrograms::merging`].
    pub(crate) fn merging(&self, program: &Program) -> Option<Merging> {
        let schema = &program.schema;
        let writes = |column: &ColumnIndex| {
            let mut assignments = program.assignments.iter();
            assignments.any(|(written, _)| written == column)
        };
        let mut unique = schema.indexes.iter().filter(|index| index.unique);
        if program.is_looked_at() || unique.any(|index| index.columns.iter().any(writes)) {
            return None;
        }
        let mut merging = Merging::LastWriter;
        for (column, expression) in &program.assignments {
            let policy = policy_of(schema, *column, expression)?;
            if self.of(schema.id, *column) != Some(policy) {
                return None;
            }
            if policy != ColumnPolicy::LastWriter {
                merging = Merging::Commuting;
            }
        }
        Some(merging)
    }
}

/// The policy that one assignment requires.
fn policy_of(
    schema: &TableSchema,
    column: ColumnIndex,
    expression: &Expression,
) -> Option<ColumnPolicy> {
    if !reads_row(expression) {
        return Some(ColumnPolicy::LastWriter);
    }
    let data_type = &schema.columns[column.index()].data_type;
    match expression {
        Expression::Call {
            function: function @ (Function::Greatest | Function::Least),
            arguments,
        } if is_told_apart(data_type) => {
            let own = arguments.iter().filter(|e| is_column(e, column)).count();
            let others = arguments.iter().filter(|e| !reads_row(e)).count();
            let policy = match function {
                Function::Greatest => ColumnPolicy::Greatest,
                _ => ColumnPolicy::Least,
            };
            (own > 0 && own + others == arguments.len()).then_some(policy)
        }
        _ if data_type.is_integer() => adds(expression, column).then_some(ColumnPolicy::Counter),
        _ => None,
    }
}

/// Whether an expression is an integer column with something added to it that does not depend on the row.
fn adds(expression: &Expression, column: ColumnIndex) -> bool {
    match expression {
        Expression::Column { .. } => is_column(expression, column),
        Expression::Arithmetic {
            operator: operator @ (Operator::Add | Operator::Subtract),
            domain: Domain::Int2 | Domain::Int4 | Domain::Int8,
            left,
            right,
        } => {
            (adds(left, column) && !reads_row(right))
                || (*operator == Operator::Add && adds(right, column) && !reads_row(left))
        }
        Expression::Cast {
            operand, from, to, ..
        } => from.is_integer() && to.is_integer() && adds(operand, column),
        _ => false,
    }
}

fn is_column(expression: &Expression, target: ColumnIndex) -> bool {
    matches!(expression, Expression::Column { column, .. } if *column == target.index())
}

/// Whether values of this type that compare equal are identical.
fn is_told_apart(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Bool
                | DataType::Text
                | DataType::Varchar(None)
                | DataType::Bytea
                | DataType::Uuid
                | DataType::Enum(_)
                | DataType::Timestamp
                | DataType::TimestampTz
                | DataType::Date
        )
}
