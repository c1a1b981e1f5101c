//! How the rows of an INSERT are made directly from the tuples of its query.
//!
//! Most columns of an inserted row are the same in all rows of a statement (parameters, variables, constants), or
//! integers. So the plan is made when the statement is compiled. [`crate::execute::encode`] encodes the constant
//! columns once, computes the integers in registers, and evaluates only the others, row by row and directly into the
//! encoded row.

use anabranch_types::{ColumnIndex, ColumnSet, StoredInt, TableSchema, key::int_width};

use super::{Body, Distinct, Query, Select, Step};
use crate::expression::{
    Expression,
    frame::column_index,
    integer::{Integer, Shapes},
};

/// How each column of a new row gets its value.
#[derive(Debug)]
pub(crate) struct RowPlan {
    /// By column.
    pub(crate) columns: Vec<ColumnPlan>,
    /// The columns that are the same in all rows, except those that share a bit of the set with one that is not.
    pub(crate) same: ColumnSet,
    /// The number of leading columns of the primary key that are the same in all rows.
    pub(crate) key_same: usize,
    /// The other columns of the primary key, if all of them are integers: the position of each in the rows, and its
    /// width in the key, in bytes.
    pub(crate) key_integers: Option<Vec<(StoredInt, usize)>>,
}

/// How one column gets its value.
#[derive(Debug)]
pub(crate) enum ColumnPlan {
    /// The same in all rows of a statement.
    Same,
    /// An integer, computed for each row.
    Integer { at: StoredInt, value: Integer },
    /// A CASE with an operand that is the same in all rows, and so with the same branch.
    Chosen,
    /// Evaluated for each row.
    Each,
}

impl RowPlan {
    /// The plan for the rows of a query; `None` if they are not made of its tuples one by one.
    pub(crate) fn of(schema: &TableSchema, query: &Query) -> Option<RowPlan> {
        let Body::Select(select) = &query.body else {
            return None;
        };
        let finish = &select.finish;
        let plain = query.ctes.is_empty()
            && finish.distinct == Distinct::None
            && finish.order.is_empty()
            && finish.limit.is_none()
            && finish.offset.is_none()
            && finish.visible == select.projection.len()
            && select.skipping().is_none()
            && !select.projection.iter().any(Expression::is_volatile);
        if !plain {
            return None;
        }
        let shapes = shapes(select.stride, &select.steps);
        let mut columns = Vec::with_capacity(select.projection.len());
        let (mut same, mut different) = (ColumnSet::EMPTY, ColumnSet::EMPTY);
        for (place, expression) in select.projection.iter().enumerate() {
            let column = column_index(place);
            let making = making(&shapes, schema, column, expression);
            match making {
                ColumnPlan::Same => same = same.with(column),
                _ => different = different.with(column),
            }
            columns.push(making);
        }
        let key = schema.primary_key.iter();
        let key_same = key.take_while(|c| matches!(columns[c.index()], ColumnPlan::Same));
        let key_same = key_same.count();
        let integer = |column: &ColumnIndex| {
            let described = &schema.columns[column.index()];
            let plain = described.data_type.is_integer() && !described.nullable;
            let at = schema.layout.stored_int(*column)?;
            plain.then(|| (at, int_width(&described.data_type)))
        };
        let different_key = schema.primary_key[key_same..].iter();
        Some(RowPlan {
            key_same,
            key_integers: different_key.map(integer).collect(),
            same: ColumnSet(same.0 & !different.0),
            columns,
        })
    }

    /// The SELECT that gives the tuples.
    pub(crate) fn select(query: &Query) -> &Select {
        match &query.body {
            Body::Select(select) => select,
            Body::SetOperation(_) | Body::Recursive(_) => {
                unreachable!("rows are planned for a SELECT alone")
            }
        }
    }
}

fn making(
    shapes: &Shapes<'_>,
    schema: &TableSchema,
    column: ColumnIndex,
    expression: &Expression,
) -> ColumnPlan {
    let differs = |e: &Expression| e.any(&mut |e| matches!(e, Expression::Column { .. }));
    if !differs(expression) {
        return ColumnPlan::Same;
    }
    if let Expression::Switch {
        operand, branches, ..
    } = expression
        && !differs(operand)
        && !branches.iter().any(|(value, _)| differs(value))
    {
        return ColumnPlan::Chosen;
    }
    let to = &schema.columns[column.index()].data_type;
    let integer = schema.layout.stored_int(column);
    match integer.and_then(|at| Some((at, shapes.stored(expression, to)?))) {
        Some((at, value)) => ColumnPlan::Integer { at, value },
        None => ColumnPlan::Each,
    }
}

/// The shapes of a pipeline's sources.
pub(crate) fn shapes(stride: usize, steps: &[Step]) -> Shapes<'_> {
    let mut shapes = Shapes {
        tables: vec![None; stride],
    };
    for step in steps {
        if let Step::Read(read) = step {
            shapes.tables[read.source] = Some(&read.schema);
        }
    }
    shapes
}
