//! Tuples: the data that an expression is evaluated over.
//!
//! A query's sources hold their rows once; a tuple is one index into each source. So a join copies numbers, and a
//! column of a row is decoded only when an expression needs it.

use std::sync::Arc;

use anabranch_types::{Key, Row, RowLayout, Value, ValueRef};
use smallvec::SmallVec;

use super::{
    EvaluationContext,
    registers::{Cells, Column, LANES, Lanes, Operand, pad, raised, scaled},
};

/// The index for a missing row of a source: the missing side of an outer join.
pub(crate) const NONE: u32 = u32::MAX;

/// The rows of one source of a query.
#[derive(Debug, Default)]
pub(crate) enum Source<'a> {
    /// Not read yet, or the place of the parent's tuple.
    #[default]
    Empty,
    /// Rows of a table; `keys` beside them where they will be written.
    Rows {
        layout: &'a RowLayout,
        rows: Vec<Row>,
        keys: Vec<Key>,
    },
    /// The one row that a row program or a CHECK looks at.
    Row { layout: &'a RowLayout, row: &'a Row },
    /// Computed values, `width` to a row.
    Values { width: usize, values: Vec<Value> },
    /// The elements of arrays side by side, NULLs after the end of the shorter ones, and their
    /// places, counted from 1, as a last column where `ordinality` is set.
    Arrays {
        arrays: Vec<Value>,
        ordinality: bool,
    },
    /// Computed values shared with other readers.
    Shared {
        width: usize,
        values: Arc<Vec<Value>>,
    },
}

impl Source<'_> {
    /// The number of its rows, if it is one of rows or values.
    pub(crate) fn count(&self) -> usize {
        match self {
            Source::Rows { rows, .. } => rows.len(),
            Source::Values { width, values } => values.len() / width,
            Source::Shared { width, values } => values.len() / width,
            Source::Row { .. } | Source::Arrays { .. } | Source::Empty => 0,
        }
    }

    /// One column of one row.
    #[inline]
    pub(crate) fn value(&self, row: u32, column: usize) -> Value {
        if row == NONE {
            return Value::Null;
        }
        match self {
            Source::Rows { layout, rows, .. } => {
                rows[row as usize].get(layout, column_index(column))
            }
            Source::Row { layout, row } => row.get(layout, column_index(column)),
            Source::Values { width, values } => values[row as usize * width + column].clone(),
            Source::Shared { width, values } => values[row as usize * width + column].clone(),
            Source::Arrays { arrays, ordinality } => match arrays.get(column) {
                Some(Value::Array(list)) => {
                    list.get(row as usize).map_or(Value::Null, Value::clone)
                }
                None if *ordinality => Value::Int(i64::from(row) + 1),
                _ => Value::Null,
            },
            Source::Empty => unreachable!("a source is read before its columns are"),
        }
    }

    /// One column of one row, by reference if possible; a value that has to be made is put into `held`.
    #[inline]
    fn borrow<'v>(&'v self, row: u32, column: usize, held: &'v mut Value) -> ValueRef<'v> {
        if row == NONE {
            return ValueRef::Null;
        }
        match self {
            Source::Rows { layout, rows, .. } => {
                rows[row as usize].get_ref(layout, column_index(column), held)
            }
            Source::Row { layout, row } => row.get_ref(layout, column_index(column), held),
            Source::Values { width, values } => values[row as usize * width + column].borrowed(),
            Source::Shared { width, values } => values[row as usize * width + column].borrowed(),
            Source::Arrays { arrays, ordinality } => match arrays.get(column) {
                Some(Value::Array(list)) => list
                    .get(row as usize)
                    .map_or(ValueRef::Null, Value::borrowed),
                None if *ordinality => ValueRef::Int(i64::from(row) + 1),
                _ => ValueRef::Null,
            },
            Source::Empty => unreachable!("a source is read before its columns are"),
        }
    }
}

impl Cells for Frame<'_> {
    #[inline]
    fn load(&self, operand: &Operand) -> Option<i64> {
        match operand {
            Operand::Constant(int) => Some(*int),
            Operand::Variable { slot, scale } => scaled(&self.variables[*slot], *scale),
            Operand::Stored { source, at } => match &self.sources[*source] {
                // The row that a tuple has not is beyond the last.
                Source::Rows { rows, .. } => rows.get(self.tuple[*source] as usize)?.stored(*at),
                Source::Row { row, .. } => row.stored(*at),
                _ => None,
            },
            Operand::Cell {
                source,
                column,
                scale,
            } => {
                let row = self.tuple[*source];
                match &self.sources[*source] {
                    Source::Arrays { arrays, ordinality } => match arrays.get(*column) {
                        Some(Value::Array(list)) => scaled(list.get(row as usize)?, *scale),
                        None if *ordinality => raised(i64::from(row) + 1, *scale),
                        _ => None,
                    },
                    Source::Values { width, values } if row != NONE => {
                        scaled(values.get(row as usize * width + column)?, *scale)
                    }
                    _ => None,
                }
            }
        }
    }
}

/// Some consecutive tuples of a batch, at most [`LANES`] of them.
#[derive(Clone, Copy)]
pub(crate) struct Tuples<'a> {
    variables: &'a [Value],
    sources: &'a [Source<'a>],
    stride: usize,
    indices: &'a [u32],
    count: usize,
}

impl<'a> Tuples<'a> {
    /// All tuples of a batch, in order.
    pub(crate) fn of(
        batch: &'a Batch<'a>,
        variables: &'a [Value],
    ) -> impl Iterator<Item = Tuples<'a>> {
        let chunks = batch.indices.chunks(LANES * batch.stride);
        chunks.map(move |indices| Tuples {
            variables,
            sources: &batch.sources,
            stride: batch.stride,
            indices,
            count: indices.len() / batch.stride,
        })
    }

    /// Their number.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Puts what `of` gives for each tuple's row of a source into a column.
    #[inline(always)]
    fn fill(
        &self,
        source: usize,
        column: &mut Column,
        of: impl Fn(u32) -> Option<i64>,
    ) -> Option<()> {
        let mut at = source;
        for lane in column.iter_mut().take(self.count) {
            *lane = of(*self.indices.get(at)?)?;
            at += self.stride;
        }
        pad(column, self.count);
        Some(())
    }
}

impl Lanes for Tuples<'_> {
    fn load(&self, operand: &Operand, to: &mut Column) -> Option<()> {
        match operand {
            Operand::Constant(int) => *to = [*int; LANES],
            Operand::Variable { slot, scale } => {
                *to = [scaled(&self.variables[*slot], *scale)?; LANES];
            }
            Operand::Stored { source, at } => {
                let Source::Rows { rows, .. } = &self.sources[*source] else {
                    return None;
                };
                // The row that a tuple has not is beyond the last.
                self.fill(*source, to, |row| rows.get(row as usize)?.stored(*at))?;
            }
            Operand::Cell {
                source,
                column,
                scale,
            } => match &self.sources[*source] {
                Source::Arrays { arrays, ordinality } => match arrays.get(*column) {
                    Some(Value::Array(list)) => {
                        self.fill(*source, to, |row| scaled(list.get(row as usize)?, *scale))?;
                    }
                    None if *ordinality => {
                        self.fill(*source, to, |row| raised(i64::from(row) + 1, *scale))?;
                    }
                    _ => return None,
                },
                Source::Values { width, values } => self.fill(*source, to, |row| match row {
                    NONE => None,
                    row => scaled(values.get(row as usize * width + column)?, *scale),
                })?,
                _ => return None,
            },
        }
        Some(())
    }
}

/// The index type of `types`.
#[inline]
pub(crate) fn column_index(column: usize) -> anabranch_types::ColumnIndex {
    anabranch_types::ColumnIndex(column as u16)
}

/// A query's sources. (A `SmallVec` would be invariant in `'a`.)
pub(crate) type Sources<'a> = Vec<Source<'a>>;
/// A query's tuples; a single one stays inline.
pub(crate) type Indices = SmallVec<[u32; 8]>;

/// Tuples of a query in progress.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    /// The enclosing query; index 0 of each tuple is its tuple there.
    pub(crate) parent: Option<&'a Batch<'a>>,
    /// The sources; place 0 stands for the parent.
    pub(crate) sources: Sources<'a>,
    /// Indices in a tuple.
    pub(crate) stride: usize,
    /// All tuples, one after the other.
    pub(crate) indices: Indices,
}

impl<'a> Batch<'a> {
    /// One tuple of no source.
    pub(crate) fn single(stride: usize) -> Batch<'a> {
        let mut sources = Sources::new();
        sources.resize_with(stride, Source::default);
        Batch {
            parent: None,
            sources,
            stride,
            indices: SmallVec::from_elem(NONE, stride),
        }
    }

    /// One tuple for each tuple of `parent` in `range`.
    pub(crate) fn under(
        parent: &'a Batch<'a>,
        range: std::ops::Range<usize>,
        stride: usize,
    ) -> Batch<'a> {
        let mut sources = Sources::new();
        sources.resize_with(stride, Source::default);
        let mut indices = Indices::with_capacity(range.len() * stride);
        for tuple in range {
            indices.push(tuple as u32);
            indices.resize(indices.len() + stride - 1, NONE);
        }
        Batch {
            parent: Some(parent),
            sources,
            stride,
            indices,
        }
    }

    /// The number of tuples.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.indices.len() / self.stride
    }

    /// The indices of one tuple.
    #[inline]
    pub(crate) fn tuple(&self, tuple: usize) -> &[u32] {
        &self.indices[tuple * self.stride..(tuple + 1) * self.stride]
    }
}

/// One tuple, with everything that an expression may refer to.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    /// Parameters and variables.
    pub(crate) variables: &'a [Value],
    /// The transaction's constants.
    pub(crate) context: &'a EvaluationContext,
    /// The sources of the query.
    sources: &'a [Source<'a>],
    /// The tuple: an index into each source.
    tuple: &'a [u32],
    /// The query around it.
    parent: Option<&'a Batch<'a>>,
}

impl<'a> Frame<'a> {
    /// A frame over one tuple of a batch.
    #[inline]
    pub(crate) fn new(
        variables: &'a [Value],
        batch: &'a Batch<'a>,
        tuple: usize,
        context: &'a EvaluationContext,
    ) -> Frame<'a> {
        Frame {
            variables,
            context,
            sources: &batch.sources,
            tuple: batch.tuple(tuple),
            parent: batch.parent,
        }
    }

    /// A frame over the first row of each of some sources; place 0 is not one.
    #[inline]
    pub(crate) fn of_rows(
        variables: &'a [Value],
        sources: &'a [Source<'a>],
        context: &'a EvaluationContext,
    ) -> Frame<'a> {
        Frame {
            variables,
            context,
            sources,
            tuple: &[0; 3][..sources.len()],
            parent: None,
        }
    }

    /// The same tuple with other constants.
    pub(crate) fn with_context<'b>(self, context: &'b EvaluationContext) -> Frame<'b>
    where
        'a: 'b,
    {
        Frame { context, ..self }
    }

    /// The value of a column of this query's own.
    #[inline]
    pub(crate) fn operand<'v>(
        &self,
        source: usize,
        column: usize,
        held: &'v mut Value,
    ) -> ValueRef<'v>
    where
        'a: 'v,
    {
        self.sources[source].borrow(self.tuple[source], column, held)
    }

    /// The value of a column.
    #[inline]
    pub(crate) fn column(&self, depth: usize, source: usize, column: usize) -> Value {
        let (mut sources, mut tuple, mut parent) = (self.sources, self.tuple, self.parent);
        for _ in 0..depth {
            let batch = parent.expect("a correlated query runs under its parent");
            tuple = batch.tuple(tuple[0] as usize);
            sources = &batch.sources;
            parent = batch.parent;
        }
        sources[source].value(tuple[source], column)
    }
}
