//! How an INSERT's rows are made straight from the tuples of its query.
//!
//! Most columns of an inserted row are the same in all rows of a statement (parameters, variables,
//! constants), or integers. So what a row is made of is settled here, when the statement is
//! compiled; [`crate::execute::encode`] encodes the first kind once, computes the second in
//! registers, and evaluates only what is left, a row at a time and straight into the encoded row.

use anabranch_types::{ColumnIndex, ColumnSet, StoredInt, TableSchema, key::int_width};

use super::{Body, Distinct, Query, Select, Step};
use crate::expression::{
    Expression,
    frame::column_index,
    integer::{Integer, Shapes},
};

/// How each column of a new row comes by its value.
#[derive(Debug)]
pub(crate) struct RowPlan {
    /// By column.
    pub(crate) columns: Vec<Making>,
    /// Columns that are the same in all rows; none that shares its bit with one that is not.
    pub(crate) same: ColumnSet,
    /// How many leading columns of the primary key are.
    pub(crate) key_same: usize,
    /// The other columns of the primary key, where all of them are integers: where the rows have
    /// each, and the bytes that it takes in the key.
    pub(crate) key_integers: Option<Vec<(StoredInt, usize)>>,
}

/// How one column comes by its value.
#[derive(Debug)]
pub(crate) enum Making {
    /// The same in all rows of a statement.
    Same,
    /// An integer, computed for each row.
    Integer { at: StoredInt, value: Integer },
    /// A CASE whose operand is the same for all rows: what it comes to is, too.
    Chosen,
    /// Evaluated for each row.
    Each,
}

impl RowPlan {
    /// The plan for the rows of a query; `None` where they are not simply made of its tuples.
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
                Making::Same => same = same.with(column),
                _ => different = different.with(column),
            }
            columns.push(making);
        }
        let key = schema.primary_key.iter();
        let key_same = key.take_while(|c| matches!(columns[c.index()], Making::Same));
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
            Body::SetOperation(_) => unreachable!("rows are planned for a SELECT alone"),
        }
    }
}

fn making(
    shapes: &Shapes<'_>,
    schema: &TableSchema,
    column: ColumnIndex,
    expression: &Expression,
) -> Making {
    let differs = |e: &Expression| e.any(&mut |e| matches!(e, Expression::Column { .. }));
    if !differs(expression) {
        return Making::Same;
    }
    if let Expression::Switch {
        operand, branches, ..
    } = expression
        && !differs(operand)
        && !branches.iter().any(|(value, _)| differs(value))
    {
        return Making::Chosen;
    }
    let to = &schema.columns[column.index()].data_type;
    let integer = schema.layout.stored_int(column);
    match integer.and_then(|at| Some((at, shapes.stored(expression, to)?))) {
        Some((at, value)) => Making::Integer { at, value },
        None => Making::Each,
    }
}

/// What the sources of a pipeline are.
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
