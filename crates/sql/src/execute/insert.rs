//! Executes INSERT.

use std::borrow::Cow;

use anabranch_types::{
    ColumnIndex, ColumnSet, Effect, Fetched, Key, KeyRange, Patch, Read, Row, RowBuilder,
    TableSchema, Value,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{PIECE_TUPLES, Rows, Run, referential::RowValues};
use crate::{
    TransactionError,
    expression::{
        Batch, Expression, Failure, Frame, NONE, Source,
        budget::bytes,
        failure,
        frame::{Indices, Sources},
    },
    plan::{
        rows::RowPlan,
        statement::{Conflict, ConflictUpdate, Insert},
    },
    program::{not_null, violated},
    transaction::Transaction,
};

/// The source of the rows to be inserted.
const ROW: usize = 1;

/// The result of a data-modifying statement.
pub(crate) struct Changed {
    /// The number of inserted, updated or deleted rows.
    pub(crate) count: u64,
    /// The RETURNING list's rows.
    pub(crate) rows: Vec<Vec<Value>>,
}

impl<T: Transaction> Run<'_, T> {
    /// Runs an INSERT.
    pub(crate) async fn insert(&mut self, insert: &Insert) -> Result<Changed, TransactionError> {
        let Some(plan) = &insert.rows else {
            let rows = self.query(&insert.query, None).await?;
            return self.insert_values(insert, rows).await;
        };
        let select = RowPlan::select(&insert.query);
        let mut batch = Batch::single(select.stride);
        self.steps(&select.steps, &mut batch).await?;
        let encoded = match batch.len() {
            // Many rows are made with pauses.
            count if count > PIECE_TUPLES => None,
            _ => self.encoded(&insert.schema, plan, &select.projection, &batch),
        };
        let Some(encoded) = encoded else {
            let rows = self.project(select, &batch).await?;
            return self.insert_values(insert, rows).await;
        };
        drop(batch);
        self.context.budget.spend(encoded.rows.len());
        self.pause_if_due().await?;
        self.write_encoded(&encoded, plan)?;
        self.context.budget.spend(encoded.rows.len());
        self.pause_if_due().await?;
        self.check_parents(&encoded, Some(plan.same), None).await?;
        Ok(Changed {
            count: encoded.rows.len() as u64,
            rows: Vec::new(),
        })
    }

    /// Inserts rows of values.
    async fn insert_values(
        &mut self,
        insert: &Insert,
        rows: Rows,
    ) -> Result<Changed, TransactionError> {
        let (width, row_count) = (rows.width, rows.count);
        let schema = &*insert.schema;
        let batch = values_batch(rows.values, width);
        let Source::Values { values, .. } = &batch.sources[ROW] else {
            return Ok(Changed {
                count: 0,
                rows: Vec::new(),
            });
        };
        self.check_nulls(schema, values, width)?;
        let mut row = 0;
        while row < row_count {
            self.check_rows(schema, values, &batch, &mut row)?;
            self.pause_if_due().await?;
        }
        let mut count = row_count as u64;
        let mut written: Vec<Vec<Value>> = Vec::new();
        if let Some(conflict) = &insert.conflict {
            count = 0;
            let existing = self.existing(schema, conflict, values, width).await?;
            self.insert_or(insert, conflict, values, existing, &mut count, &mut written)
                .await?;
        } else {
            let mut builder = RowBuilder::default();
            for values in values.chunks_exact(width) {
                let key = self.new_key(schema, values);
                let row = builder.build(&schema.layout, values).map_err(too_long)?;
                self.write_new(schema, key, row, values)?;
                self.context.budget.spend(1);
                self.pause_if_due().await?;
            }
            self.check_parents(&RowValues { schema, values }, None, None)
                .await?;
        }
        let returned = match &insert.returning {
            None => Vec::new(),
            Some(list) if insert.conflict.is_some() => {
                let count = written.len();
                let batch = values_batch(written.concat(), width);
                self.returned(list, &batch, 0..count).await?
            }
            Some(list) => self.returned(list, &batch, 0..row_count).await?,
        };
        Ok(Changed {
            count,
            rows: returned,
        })
    }

    /// NOT NULL, over whole rows.
    fn check_nulls(
        &self,
        schema: &TableSchema,
        values: &[Value],
        width: usize,
    ) -> Result<(), Failure> {
        for row in values.chunks_exact(width) {
            for (place, value) in row.iter().enumerate() {
                if value.is_null() && !schema.columns[place].nullable {
                    let column = ColumnIndex(place as u16);
                    let values = row.iter().map(Cow::Borrowed);
                    return Err(not_null(schema, column, values, &self.context.zone));
                }
            }
        }
        Ok(())
    }

    /// CHECK, over the next of these whole rows, until a pause is due.
    fn check_rows(
        &self,
        schema: &TableSchema,
        values: &[Value],
        batch: &Batch<'_>,
        tuple: &mut usize,
    ) -> Result<(), Failure> {
        let checks = &self.constraints.of(schema.id).checks;
        if checks.is_empty() {
            *tuple = batch.len();
        }
        let width = schema.columns.len();
        let budget = &self.context.budget;
        while *tuple < batch.len() && !budget.is_due() {
            let frame = self.frame(batch, *tuple);
            let row = &values[*tuple * width..(*tuple + 1) * width];
            *tuple += 1;
            budget.spend(1);
            let mut pending = ColumnSet::EMPTY;
            for (place, value) in row.iter().enumerate() {
                if matches!(value, Value::Pending(_)) {
                    pending = pending.with(ColumnIndex(place as u16));
                }
            }
            for check in checks {
                if check.columns.intersects(pending) {
                    let message = "a CHECK cannot be tested on a value known only at commit";
                    return Err(failure("XX000", message));
                }
                if check.evaluate(&frame)? == Some(false) {
                    let values = row.iter().map(Cow::Borrowed);
                    return Err(violated(schema, &check.name, values, &self.context.zone));
                }
            }
        }
        Ok(())
    }

    /// The RETURNING list's values for some tuples.
    pub(super) async fn returned(
        &mut self,
        list: &[Expression],
        batch: &Batch<'_>,
        tuples: impl Iterator<Item = usize>,
    ) -> Result<Vec<Vec<Value>>, TransactionError> {
        let mut rows = Vec::new();
        for tuple in tuples {
            rows.push(self.returned_row(list, batch, tuple)?);
            self.pause_if_due().await?;
        }
        Ok(rows)
    }

    fn returned_row(
        &self,
        list: &[Expression],
        batch: &Batch<'_>,
        tuple: usize,
    ) -> Result<Vec<Value>, Failure> {
        let frame = self.frame(batch, tuple);
        let mut row = Vec::with_capacity(list.len());
        for expression in list {
            let value = expression.evaluate(&frame)?;
            self.context.budget.hold(bytes(&value))?;
            row.push(value);
        }
        self.context.budget.spend(1);
        Ok(row)
    }

    /// The primary key of a new row; a hidden one is drawn where the table has none.
    pub(super) fn new_key(&mut self, schema: &TableSchema, row: &[Value]) -> Key {
        if schema.primary_key.is_empty() {
            return Key::from_bytes(&self.transaction.unique().to_be_bytes());
        }
        key_of(schema, &schema.primary_key, row)
    }

    /// Writes a new row.
    pub(super) fn insert_row(
        &mut self,
        schema: &TableSchema,
        key: Key,
        values: &[Value],
    ) -> Result<(), TransactionError> {
        let row = schema.layout.encode(values).map_err(too_long)?;
        self.write_new(schema, key, row, values)
    }

    /// Writes a new row, encoded from these values.
    fn write_new(
        &mut self,
        schema: &TableSchema,
        key: Key,
        row: Row,
        values: &[Value],
    ) -> Result<(), TransactionError> {
        let mut patches: SmallVec<[Patch; 1]> = SmallVec::new();
        for (place, value) in values.iter().enumerate() {
            if let Value::Pending(pending) = value {
                let column = ColumnIndex(place as u16);
                patches.push(Patch {
                    slot: pending.slot,
                    offset: pending.offset,
                    column,
                });
            }
        }
        let effect = Effect::Insert {
            table: schema.id,
            key,
            row,
            patches,
        };
        self.write(effect)
    }

    /// For each row, the existing row that it conflicts with.
    async fn existing(
        &mut self,
        schema: &TableSchema,
        conflict: &Conflict,
        rows: &[Value],
        width: usize,
    ) -> Result<Vec<Option<(Key, Row)>>, TransactionError> {
        let mut reads = Vec::new();
        let mut of_row = Vec::new();
        for (place, row) in rows.chunks_exact(width).enumerate() {
            for arbiter in &conflict.arbiters {
                let columns = schema.key_columns(*arbiter);
                if columns.iter().any(|column| row[column.index()].is_null()) {
                    continue;
                }
                let key = key_of(schema, columns, row);
                of_row.push((place, key.clone()));
                reads.push(match arbiter {
                    None => Read::Point {
                        table: schema.id,
                        key,
                    },
                    Some(_) => Read::Range {
                        table: schema.id,
                        index: *arbiter,
                        range: KeyRange::prefix_of(key),
                        reverse: false,
                        limit: Some(1),
                    },
                });
            }
        }
        let mut existing: Vec<Option<(Key, Row)>> = vec![None; rows.len() / width];
        if reads.is_empty() {
            return Ok(existing);
        }
        let for_write = conflict.update.is_some();
        let fetched = self
            .transaction
            .read(self.statement, for_write, reads)
            .await?;
        for ((place, key), answer) in of_row.into_iter().zip(fetched) {
            let found = match answer.into_answer() {
                Fetched::Point(row) => row.map(|row| (key, row)),
                Fetched::Range(mut found) => found.pop(),
                Fetched::Locked | Fetched::Recorded(_) => {
                    unreachable!("an answer is a point or a range")
                }
            };
            if existing[place].is_none() {
                existing[place] = found;
            }
        }
        Ok(existing)
    }

    /// Inserts rows, with ON CONFLICT.
    async fn insert_or(
        &mut self,
        insert: &Insert,
        conflict: &Conflict,
        rows: &[Value],
        existing: Vec<Option<(Key, Row)>>,
        count: &mut u64,
        written: &mut Vec<Vec<Value>>,
    ) -> Result<(), TransactionError> {
        let schema = &*insert.schema;
        // Keys that this statement has inserted or updated itself, by arbiter.
        let mut taken: FxHashMap<(usize, Key), ()> = FxHashMap::default();
        for (values, existing) in rows.chunks_exact(schema.columns.len()).zip(existing) {
            let mut own = Vec::new();
            for (place, arbiter) in conflict.arbiters.iter().enumerate() {
                let columns = schema.key_columns(*arbiter);
                if columns
                    .iter()
                    .all(|column| !values[column.index()].is_null())
                {
                    own.push((place, key_of(schema, columns, values)));
                }
            }
            if own.iter().any(|key| taken.contains_key(key)) {
                if conflict.update.is_none() {
                    continue;
                }
                let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
                return Err(failure("21000", message).into());
            }
            let changed = match (existing, &conflict.update) {
                (None, _) => {
                    let key = self.new_key(schema, values);
                    self.insert_row(schema, key, values)?;
                    self.check_parents(&RowValues { schema, values }, None, None)
                        .await?;
                    Some(values.to_vec())
                }
                (Some(_), None) => None,
                (Some((key, row)), Some(update)) => {
                    self.conflict_update(schema, update, key, row, values)
                        .await?
                }
            };
            self.context.budget.spend(1);
            self.pause_if_due().await?;
            if let Some(row) = changed {
                taken.extend(own.into_iter().map(|key| (key, ())));
                *count += 1;
                written.push(row);
            }
        }
        Ok(())
    }

    async fn conflict_update(
        &mut self,
        schema: &TableSchema,
        update: &ConflictUpdate,
        key: Key,
        row: Row,
        proposed: &[Value],
    ) -> Result<Option<Vec<Value>>, TransactionError> {
        let mut changes = {
            let sources: Sources<'_> = vec![
                Source::Empty,
                Source::Row {
                    layout: &schema.layout,
                    row: &row,
                },
                Source::Values {
                    width: proposed.len(),
                    values: proposed.to_vec(),
                },
            ];
            let indices = SmallVec::from_slice(&[NONE, 0, 0]);
            let batch = Batch {
                parent: None,
                sources,
                stride: 3,
                indices,
            };
            let frame = Frame::new(self.variables, &batch, 0, self.context);
            if let Some(condition) = &update.condition
                && condition.test(&frame)? != Some(true)
            {
                return Ok(None);
            }
            let mut changes = Vec::new();
            for (column, expression) in &update.assignments {
                changes.push((*column, expression.evaluate(&frame)?));
            }
            changes
        };
        self.compute(schema, &row, &update.computed, &mut changes)?;
        let new = self.changed_row(schema, &row, &changes)?;
        let values = new.values(&schema.layout);
        let arguments = changes.iter().map(|(_, value)| value.clone()).collect();
        self.write(Effect::Update {
            table: schema.id,
            key,
            program: update.program,
            arguments,
            outputs: None,
        })?;
        let assigned: Vec<ColumnIndex> = changes.iter().map(|(column, _)| *column).collect();
        let rows = RowValues {
            schema,
            values: &values,
        };
        self.check_parents(&rows, None, Some(&assigned)).await?;
        self.follow_change(schema, &row, &new, &assigned).await?;
        Ok(Some(values))
    }
}

/// Rows of values as source 1.
fn values_batch<'v>(values: Vec<Value>, width: usize) -> Batch<'v> {
    let count = values.len() / width;
    let sources = vec![Source::Empty, Source::Values { width, values }];
    let mut indices = Indices::with_capacity(2 * count);
    for row in 0..count as u32 {
        indices.push(NONE);
        indices.push(row);
    }
    Batch {
        parent: None,
        sources,
        stride: 2,
        indices,
    }
}

/// The error for a row that is too long to be stored.
#[cold]
pub(super) fn too_long(error: impl std::fmt::Display) -> Failure {
    failure("54000", error.to_string())
}

/// The key that some columns of a row make.
fn key_of(schema: &TableSchema, columns: &[ColumnIndex], values: &[Value]) -> Key {
    let mut key = Key::empty();
    for column in columns {
        let described = &schema.columns[column.index()];
        let value = &values[column.index()];
        key.push_value(&described.data_type, described.nullable, value);
    }
    key
}
