//! How columns merge: what all programs of an application together make of each of them.
//!
//! Where copies of a row install transactions in different orders, and none may refuse one, its columns
//! must come to the same in any order. Last writer wins does that for assignments, whatever else
//! is done; sums, greatest and least values do it where nothing else is done to the column. So the
//! policy of a column is chosen by those who write its statements, and holds if all of them agree:
//!
//! | every statement sets column `c` to | policy |
//! |---|---|
//! | what does not depend on the row | [`ColumnPolicy::LastWriter`] |
//! | `c + x`, `c - x`, of integers | [`ColumnPolicy::Counter`] |
//! | `greatest(c, x, …)` | [`ColumnPolicy::Greatest`] |
//! | `least(c, x, …)` | [`ColumnPolicy::Least`] |
//!
//! `x` does not depend on the row. Where members of a set are columns, `greatest` is its union: false is
//! less than true. Numbers with a scale are left out, since rounding a sum depends on what it was, and
//! equal ones may be written in several ways; so are floating-point numbers, whose sums depend on the
//! order.

use anabranch_types::{ColumnIndex, DataType, Merging, TableId, TableSchema};
use rustc_hash::FxHashMap;

use crate::expression::{Domain, Expression, Function, Operator};
use crate::program::{Program, reads_row};

/// What a column comes to when several transactions have written it, in whatever order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnPolicy {
    /// What the writer with the highest place has assigned.
    LastWriter,
    /// What was there, with all that was added and subtracted.
    Counter,
    /// The greatest value that anybody has given it; NULL is less than any.
    Greatest,
    /// The least value that anybody has given it; NULL is greater than any.
    Least,
}

/// The policy of each column that some program writes; `None` where they do not agree on one.
#[derive(Debug, Default)]
pub(crate) struct Policies(FxHashMap<(TableId, ColumnIndex), Option<ColumnPolicy>>);

impl Policies {
    /// What programs agree on.
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

    /// The policy of a column; nobody has said otherwise of one that no program writes.
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

/// What one assignment asks for.
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

/// Whether values that are neither less nor greater are the same.
fn is_told_apart(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Bool
                | DataType::Text
                | DataType::Varchar(None)
                | DataType::Bytea
                | DataType::Uuid
                | DataType::Timestamp
                | DataType::TimestampTz
                | DataType::Date
        )
}
