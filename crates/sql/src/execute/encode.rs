//! Encodes new rows directly from tuples: columns that are the same in all rows once, the others in place.
//!
//! Rare cases are left to the evaluation of whole rows of values (see [`super::insert`]): if anything fails here, or
//! might, nothing has been written, and that evaluation decides which error comes first. See [`crate::plan::rows`].

use anabranch_types::{
    ColumnIndex, Effect, Key, Patch, Row, RowBuilder, RowTemplate, StoredInt, TableSchema, Value,
    ValueRef,
};
use smallvec::SmallVec;

use super::{Run, key::push_column};
use crate::{
    TransactionError,
    expression::{
        Batch, Expression, Frame, Source,
        evaluate::chosen,
        frame::{Tuples, column_index},
        integer::Integer,
        registers::{Column, LANES},
    },
    plan::rows::{ColumnPlan, RowPlan},
    program::check::Check,
    transaction::Transaction,
};

/// Rows to be inserted.
pub(super) struct Encoded<'s> {
    pub(super) schema: &'s TableSchema,
    pub(super) rows: Vec<Row>,
    /// The pending values of each of them, set at commit.
    pub(super) patches: SmallVec<[Patch; 1]>,
}

/// How a column of the current rows gets its value.
enum Part<'p> {
    /// A column without a fixed position that is the same in all rows.
    Same(Value),
    Integer(StoredInt, &'p Integer),
    /// A text of a source's row.
    Text(usize, ColumnIndex),
    Each(&'p Expression),
}

/// The common part of the current rows, and how the others are made.
struct Parts<'p> {
    schema: &'p TableSchema,
    template: RowTemplate<'p>,
    patches: SmallVec<[Patch; 1]>,
    /// Empty if the template is complete.
    parts: SmallVec<[(ColumnIndex, Part<'p>); 8]>,
}

impl<T: Transaction> Run<'_, T> {
    /// The rows of a batch's tuples; `None` if they need the evaluation as values.
    pub(super) fn encoded<'s>(
        &self,
        schema: &'s TableSchema,
        plan: &RowPlan,
        projection: &[Expression],
        batch: &Batch<'_>,
    ) -> Option<Encoded<'s>> {
        if batch.len() == 0 {
            let (rows, patches) = (Vec::new(), SmallVec::new());
            return Some(Encoded {
                schema,
                rows,
                patches,
            });
        }
        let parts = self.parts(schema, plan, projection, batch)?;
        let patched = parts.patches.iter().map(|patch| patch.column);
        let checks = &self.constraints.of(schema.id).checks;
        let pending = |check: &Check| patched.clone().any(|column| check.columns.contains(column));
        if checks.iter().any(pending) {
            return None;
        }
        let mut builder = RowBuilder::default();
        let mut rows = Vec::with_capacity(batch.len());
        for tuples in Tuples::of(batch, self.variables) {
            let first = rows.len();
            self.encode(&parts, batch, &tuples, &mut builder, &mut rows)?;
            for check in checks {
                // Columns that are the same in all rows are tested once.
                let tested = match check.columns.0 & !plan.same.0 {
                    0 if first > 0 => &[],
                    0 => &rows[..1],
                    _ => &rows[first..],
                };
                if !self.hold(schema, check, tested) {
                    return None;
                }
            }
        }
        Some(Encoded {
            schema,
            rows,
            patches: parts.patches,
        })
    }

    /// Appends the rows of the next tuples; `None` if they need the evaluation as values.
    fn encode(
        &self,
        parts: &Parts<'_>,
        batch: &Batch<'_>,
        tuples: &Tuples<'_>,
        builder: &mut RowBuilder,
        rows: &mut Vec<Row>,
    ) -> Option<()> {
        let Parts {
            schema,
            template,
            parts,
            ..
        } = parts;
        let mut integers: SmallVec<[Column; 8]> = SmallVec::new();
        for (_, part) in parts {
            if let Part::Integer(_, integer) = part {
                let mut column = [0; LANES];
                integer.column(tuples, &mut column)?;
                integers.push(column);
            }
        }
        let first = rows.len();
        for lane in 0..tuples.len() {
            let tuple = first + lane;
            let mut integers = integers.iter();
            let mut writer = builder.start_like(template);
            for (column, part) in parts {
                match part {
                    Part::Integer(at, _) => {
                        if !writer.set_int(*at, integers.next()?[lane]) {
                            return None;
                        }
                    }
                    Part::Text(source, of) => {
                        let copied = match &batch.sources[*source] {
                            Source::Rows { layout, rows, .. } => {
                                let row = rows.get(batch.tuple(tuple)[*source] as usize)?;
                                writer.push_text_of(row, layout, *of).ok()?
                            }
                            _ => false,
                        };
                        if !copied {
                            return None;
                        }
                    }
                    Part::Same(value) => writer.push(*column, value.borrowed()).ok()?,
                    Part::Each(expression) => {
                        let frame = self.frame(batch, tuple);
                        let mut held = Value::Null;
                        let value = expression.operand(&frame, &mut held).ok()?;
                        let refused = value.is_null() && !schema.columns[column.index()].nullable;
                        if refused || is_pending(value) {
                            return None;
                        }
                        match schema.layout.is_fixed(*column) {
                            true => writer.set(*column, value),
                            false => writer.push(*column, value).ok()?,
                        }
                    }
                }
            }
            rows.push(writer.finish().ok()?);
        }
        Some(())
    }

    fn parts<'p>(
        &'p self,
        schema: &'p TableSchema,
        plan: &'p RowPlan,
        projection: &'p [Expression],
        batch: &'p Batch<'p>,
    ) -> Option<Parts<'p>> {
        let frame = self.frame(batch, 0);
        let layout = &schema.layout;
        let mut template = RowTemplate::new(layout);
        let mut patches = SmallVec::new();
        let mut parts = SmallVec::new();
        for (place, (making, expression)) in plan.columns.iter().zip(projection).enumerate() {
            let column = column_index(place);
            match making {
                ColumnPlan::Same => {
                    let mut held = Value::Null;
                    let value = expression.operand(&frame, &mut held).ok()?;
                    if value.is_null() && !schema.columns[place].nullable {
                        return None;
                    }
                    if let ValueRef::Other(Value::Pending(pending)) = value {
                        patches.push(Patch {
                            slot: pending.slot,
                            offset: pending.offset,
                            column,
                        });
                    }
                    match layout.is_fixed(column) {
                        true => template.set(column, value),
                        false => parts.push((column, Part::Same(value.to_value()))),
                    }
                }
                ColumnPlan::Integer { at, value } => {
                    parts.push((column, Part::Integer(*at, value)))
                }
                ColumnPlan::Each => parts.push((column, part(schema, column, expression, batch))),
                ColumnPlan::Chosen => {
                    let Expression::Switch {
                        operand,
                        branches,
                        otherwise,
                    } = expression
                    else {
                        return None;
                    };
                    let result = chosen(operand, branches, otherwise, &frame).ok()?;
                    parts.push((column, part(schema, column, result, batch)));
                }
            }
        }
        Some(Parts {
            schema,
            template,
            patches,
            parts,
        })
    }

    /// Whether a CHECK is certain to allow some rows.
    fn hold(&self, schema: &TableSchema, check: &Check, rows: &[Row]) -> bool {
        if rows.len() > 1 && check.hold(rows) == Some(true) {
            return true;
        }
        let layout = &schema.layout;
        rows.iter().all(|row| {
            check.holds(row).unwrap_or_else(|| {
                let sources = [Source::Empty, Source::Row { layout, row }];
                let frame = Frame::of_rows(self.variables, &sources, self.context);
                matches!(check.evaluate(&frame), Ok(truth) if truth != Some(false))
            })
        })
    }

    /// Writes new rows.
    pub(super) fn write_encoded(
        &mut self,
        encoded: &Encoded<'_>,
        plan: &RowPlan,
    ) -> Result<(), TransactionError> {
        let schema = encoded.schema;
        let mut prefix = Key::empty();
        let (same, different) = schema.primary_key.split_at(plan.key_same);
        if let Some(row) = encoded.rows.first() {
            same.iter()
                .for_each(|column| push_column(schema, row, *column, &mut prefix));
        }
        for row in &encoded.rows {
            let mut key = prefix.clone();
            if schema.primary_key.is_empty() {
                key = Key::from_bytes(&self.transaction.unique().to_be_bytes());
            }
            match &plan.key_integers {
                Some(integers) => push_integers(row, integers, &mut key),
                None => {
                    for column in different {
                        push_column(schema, row, *column, &mut key);
                    }
                }
            }
            let effect = Effect::Insert {
                table: schema.id,
                key,
                row: row.clone(),
                patches: encoded.patches.clone(),
            };
            self.write(effect)?;
        }
        Ok(())
    }
}

/// Appends a row's integers to a key.
///
/// # Panics
/// If one of them is NULL: a row with a NULL in its key is not encoded here.
fn push_integers(row: &Row, integers: &[(StoredInt, usize)], key: &mut Key) {
    for (at, width) in integers {
        let int = row.stored(*at).expect("a column of the key is not NULL");
        let pushed = key.push_int(*width, int);
        pushed.expect("what its column holds has that column's width");
    }
}

/// How an expression is evaluated for each row.
fn part<'p>(
    schema: &TableSchema,
    column: ColumnIndex,
    expression: &'p Expression,
    batch: &Batch<'_>,
) -> Part<'p> {
    if let Expression::Column {
        depth: 0,
        source,
        column: of,
    } = expression
        && let Source::Rows { layout, .. } = &batch.sources[*source]
        && layout.is_text(column_index(*of))
        && schema.layout.is_text(column)
    {
        return Part::Text(*source, column_index(*of));
    }
    Part::Each(expression)
}

fn is_pending(value: ValueRef<'_>) -> bool {
    matches!(value, ValueRef::Other(Value::Pending(_)))
}
