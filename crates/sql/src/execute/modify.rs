//! Executes UPDATE and DELETE.

use anabranch_types::{ColumnIndex, Effect, Key, Pending, Row, SlotId, TableSchema, Value};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::{
    Run,
    insert::{Changed, too_long},
    key::primary_key,
    referential::RowValues,
};
use crate::{
    TransactionError,
    bind::{computed::Computed, modify::changed_columns},
    expression::{
        Batch, Failure, Frame, Source,
        budget::bytes,
        frame::Tuples,
        registers::{Column, LANES},
    },
    plan::{
        DeferredUpdate,
        statement::{Delete, Update},
    },
    program::{changed_values, not_null, row_values, violated},
    summary::Deferral,
    transaction::Transaction,
};

/// One row of an UPDATE: the tuple, the row's key, the row, and the new values.
type Change = (usize, Key, Row, Vec<(ColumnIndex, Value)>);

/// By place of the argument, and once for every [`LANES`] tuples.
type ArgumentColumns = SmallVec<[Option<Column>; 4]>;

/// The target's source in an UPDATE or DELETE.
const TARGET: usize = 1;

impl<T: Transaction> Run<'_, T> {
    /// Runs an UPDATE, deferred if the plan has that and `deferral` allows it.
    pub(crate) async fn update(
        &mut self,
        update: &Update,
        deferral: Deferral,
    ) -> Result<Changed, TransactionError> {
        if let Some(deferred) = &update.deferred
            && deferral != Deferral::None
            && self.transaction.defers(self.statement)
        {
            return match deferral {
                Deferral::AfterReading => self.deferred_once_read(update, deferred).await,
                _ => self.deferred(&update.schema, deferred).await,
            };
        }
        let mut batch = Batch::single(update.stride);
        self.steps(&update.steps, &mut batch).await?;
        let schema = &*update.schema;
        let chosen = self.targets(&batch)?;
        let mut changes: Vec<Change> = Vec::new();
        self.draw(update.uniques * chosen.len());
        for tuple in chosen {
            let mut values = self.assigned(update, &batch, tuple)?;
            let (key, row) = target_of(&batch, tuple);
            self.compute(schema, &row, &update.computed, &mut values)?;
            changes.push((tuple, key, row, values));
            self.pause_if_due().await?;
        }
        let named = update.assignments.iter().map(|(column, _)| column);
        let assigned = changed_columns(named, &update.computed);
        let by_program = update
            .deferred
            .as_ref()
            .filter(|_| self.transaction.writes_programs());
        let columns = by_program.map(|deferred| self.argument_columns(deferred, &batch));
        let mut new_rows = Vec::with_capacity(changes.len());
        for (tuple, key, row, values) in &changes {
            let new = self.changed_row(schema, row, values)?;
            match (by_program, &columns) {
                (Some(deferred), Some(columns)) => {
                    let frame = self.frame(&batch, *tuple);
                    let effect = Effect::Update {
                        table: schema.id,
                        key: key.clone(),
                        program: deferred.program,
                        arguments: arguments(deferred, columns, &frame, *tuple)?,
                        outputs: None,
                    };
                    self.write(effect)?;
                }
                _ => self.write_change(update, key, &new, values)?,
            }
            new_rows.push(new);
            self.context.budget.spend(1);
            self.pause_if_due().await?;
        }
        let constrained = self.constraints.of(schema.id);
        let bears =
            |columns: &[ColumnIndex]| columns.iter().any(|column| assigned.contains(column));
        if constrained
            .parents
            .iter()
            .any(|parent| bears(&parent.columns))
        {
            let values: Vec<Value> = new_rows
                .iter()
                .flat_map(|row| row.values(&schema.layout))
                .collect();
            let rows = RowValues {
                schema,
                values: &values,
            };
            self.check_parents(&rows, None, Some(&assigned)).await?;
        }
        if constrained
            .children
            .iter()
            .any(|child| bears(&child.parent_columns))
        {
            for ((_, _, old, _), new) in changes.iter().zip(&new_rows) {
                self.follow_change(schema, old, new, &assigned).await?;
            }
        }
        let count = changes.len() as u64;
        let Some(list) = &update.returning else {
            return Ok(Changed {
                count,
                rows: Vec::new(),
            });
        };
        for ((tuple, ..), new) in changes.iter().zip(new_rows) {
            let row = batch.tuple(*tuple)[TARGET];
            if let Source::Rows { rows, .. } = &mut batch.sources[TARGET] {
                rows[row as usize] = new;
            }
        }
        let tuples = changes.iter().map(|(tuple, ..)| *tuple);
        Ok(Changed {
            count,
            rows: self.returned(list, &batch, tuples).await?,
        })
    }

    /// The tuples of the rows that an UPDATE or DELETE changes, each row once.
    fn targets(&self, batch: &Batch<'_>) -> Result<Vec<usize>, Failure> {
        let chosen = distinct_targets(batch);
        match &self.part_effects {
            Some(part_effects) if chosen.len() < batch.len() => part_effects.check_repeated()?,
            _ => {}
        }
        Ok(chosen)
    }

    /// The new values of a row.
    fn assigned(
        &self,
        update: &Update,
        batch: &Batch<'_>,
        tuple: usize,
    ) -> Result<Vec<(ColumnIndex, Value)>, Failure> {
        let frame = self.frame(batch, tuple);
        let budget = &self.context.budget;
        let mut values = Vec::with_capacity(update.assignments.len());
        for (column, expression) in &update.assignments {
            let value = expression.evaluate(&frame)?;
            budget.hold(bytes(&value))?;
            values.push((*column, value));
        }
        budget.spend(1);
        Ok(values)
    }

    /// Adds the new values of generated columns, and what triggers assign, to the changes of a row.
    pub(super) fn compute(
        &self,
        schema: &TableSchema,
        row: &Row,
        computed: &[Computed],
        changes: &mut Vec<(ColumnIndex, Value)>,
    ) -> Result<(), Failure> {
        if computed.is_empty() {
            return Ok(());
        }
        let mut values = row.values(&schema.layout);
        for (column, value) in changes.iter() {
            values[column.index()] = value.clone();
        }
        let width = values.len();
        let layout = &schema.layout;
        let sources = [
            Source::Empty,
            Source::Values { width, values },
            Source::Row { layout, row },
        ];
        let frame = Frame::of_rows(self.variables, &sources, self.context);
        for of in computed {
            let value = of.expression.evaluate(&frame)?;
            self.context.budget.hold(bytes(&value))?;
            match changes.iter_mut().find(|(column, _)| *column == of.column) {
                // What a trigger assigns wins.
                Some(change) => change.1 = value,
                None => changes.push((of.column, value)),
            }
        }
        Ok(())
    }

    fn write_change(
        &mut self,
        update: &Update,
        key: &Key,
        new: &Row,
        values: &[(ColumnIndex, Value)],
    ) -> Result<(), TransactionError> {
        let schema = &*update.schema;
        if update.moves {
            let new_key = primary_key(schema, new);
            if new_key != *key {
                let delete = Effect::Delete {
                    table: schema.id,
                    key: key.clone(),
                };
                self.write(delete)?;
                let (row, patches) = (new.clone(), SmallVec::new());
                let insert = Effect::Insert {
                    table: schema.id,
                    key: new_key,
                    row,
                    patches,
                };
                return self.write(insert);
            }
        }
        let arguments = values.iter().map(|(_, value)| value.clone()).collect();
        let effect = Effect::Update {
            table: schema.id,
            key: key.clone(),
            program: update.program,
            arguments,
            outputs: None,
        };
        self.write(effect)
    }

    /// A row with some columns changed, checked against NOT NULL and CHECK.
    pub(super) fn changed_row(
        &self,
        schema: &TableSchema,
        row: &Row,
        changes: &[(ColumnIndex, Value)],
    ) -> Result<Row, Failure> {
        for (column, value) in changes {
            if value.is_null() && !schema.columns[column.index()].nullable {
                let values = changed_values(schema, row, changes);
                return Err(not_null(schema, *column, values, &self.context.zone));
            }
        }
        let new = row.with(&schema.layout, changes).map_err(too_long)?;
        let checks = &self.constraints.of(schema.id).checks;
        if !checks.is_empty() {
            let sources = [
                Source::Empty,
                Source::Row {
                    layout: &schema.layout,
                    row: &new,
                },
            ];
            let frame = Frame::of_rows(self.variables, &sources, self.context);
            for check in checks {
                let bears = changes
                    .iter()
                    .any(|(column, _)| check.columns.contains(*column));
                if bears && check.test(&frame, &new)? == Some(false) {
                    let values = row_values(schema, &new);
                    return Err(violated(schema, &check.name, values, &self.context.zone));
                }
            }
        }
        Ok(new)
    }

    /// Sends an UPDATE to the rows' owners without reading the rows.
    async fn deferred(
        &mut self,
        schema: &TableSchema,
        deferred: &DeferredUpdate,
    ) -> Result<Changed, TransactionError> {
        let mut batch = Batch::single(deferred.stride);
        self.steps(&deferred.steps, &mut batch).await?;
        let targets = self.deferred_targets(deferred, &batch)?;
        let mut rows = Vec::new();
        let count = targets.len() as u64;
        let columns = self.argument_columns(deferred, &batch);
        for (tuple, key) in targets {
            let frame = self.frame(&batch, tuple);
            let arguments = arguments(deferred, &columns, &frame, tuple)?;
            let outputs = match deferred.outputs {
                0 => None,
                count => Some(self.transaction.slots(count)),
            };
            if let Some(SlotId(first)) = outputs {
                let pending = (0..deferred.outputs).map(|output| {
                    Value::Pending(Pending {
                        slot: SlotId(first + output),
                        offset: 0,
                    })
                });
                rows.push(pending.collect());
            }
            let (table, program) = (schema.id, deferred.program);
            let effect = Effect::Update {
                table,
                key,
                program,
                arguments,
                outputs,
            };
            self.write(effect)?;
            self.context.budget.spend(1);
            self.pause_if_due().await?;
        }
        Ok(Changed { count, rows })
    }

    /// Reads the rows of an UPDATE, returns their unchanged columns, and sends the changes to the rows' owners. Each
    /// row must still exist when its change is evaluated.
    async fn deferred_once_read(
        &mut self,
        update: &Update,
        deferred: &DeferredUpdate,
    ) -> Result<Changed, TransactionError> {
        let mut batch = Batch::single(update.stride);
        self.steps(&update.steps, &mut batch).await?;
        let chosen = distinct_targets(&batch);
        let rows = match &update.returning {
            None => Vec::new(),
            Some(list) => self.returned(list, &batch, chosen.iter().copied()).await?,
        };
        let columns = self.argument_columns(deferred, &batch);
        for tuple in &chosen {
            let frame = self.frame(&batch, *tuple);
            let arguments = arguments(deferred, &columns, &frame, *tuple)?;
            let effect = Effect::Update {
                table: update.schema.id,
                key: target_of(&batch, *tuple).0,
                program: deferred.program,
                arguments,
                outputs: Some(self.transaction.slots(deferred.outputs)),
            };
            self.write(effect)?;
            self.context.budget.spend(1);
            self.pause_if_due().await?;
        }
        Ok(Changed {
            count: chosen.len() as u64,
            rows,
        })
    }

    /// The arguments of a deferred UPDATE that are integers, a column of some tuples after the other.
    fn argument_columns(&self, deferred: &DeferredUpdate, batch: &Batch<'_>) -> ArgumentColumns {
        let mut columns = SmallVec::new();
        for tuples in Tuples::of(batch, self.variables) {
            for argument in &deferred.arguments {
                let mut column = [0; LANES];
                let integer = argument.integer.as_ref();
                let all = integer.and_then(|integer| integer.column(&tuples, &mut column));
                columns.push(all.map(|()| column));
            }
        }
        columns
    }

    /// The rows that a deferred UPDATE names: each once, with the first tuple that names it, as in
    /// an UPDATE that reads.
    fn deferred_targets(
        &self,
        deferred: &DeferredUpdate,
        batch: &Batch<'_>,
    ) -> Result<Vec<(usize, Key)>, Failure> {
        let mut targets: Vec<(usize, Key)> = Vec::with_capacity(batch.len());
        self.each_key(&deferred.key, batch, |tuple, key| {
            targets.extend(key.map(|key| (tuple, key)));
        })?;
        // Keys in ascending order have no duplicates.
        if !targets.is_sorted_by(|(_, a), (_, b)| a < b) {
            let mut seen: FxHashSet<Key> = FxHashSet::default();
            targets.retain(|(_, key)| seen.insert(key.clone()));
        }
        Ok(targets)
    }

    /// Runs a DELETE.
    pub(crate) async fn delete(&mut self, delete: &Delete) -> Result<Changed, TransactionError> {
        let mut batch = Batch::single(delete.stride);
        self.steps(&delete.steps, &mut batch).await?;
        let chosen = self.targets(&batch)?;
        let rows = match &delete.returning {
            None => Vec::new(),
            Some(list) => self.returned(list, &batch, chosen.iter().copied()).await?,
        };
        let targets: Vec<(Key, Row)> = chosen
            .iter()
            .map(|tuple| target_of(&batch, *tuple))
            .collect();
        let count = targets.len() as u64;
        self.delete_rows(&delete.schema, targets).await?;
        Ok(Changed { count, rows })
    }
}

/// The arguments of a deferred UPDATE's row program for a tuple.
fn arguments(
    deferred: &DeferredUpdate,
    columns: &ArgumentColumns,
    frame: &Frame<'_>,
    tuple: usize,
) -> Result<Box<[Value]>, Failure> {
    let count = deferred.arguments.len();
    let columns = &columns[tuple / LANES * count..][..count];
    let mut arguments = Vec::with_capacity(count);
    for (argument, column) in deferred.arguments.iter().zip(columns) {
        arguments.push(match column {
            Some(column) => Value::Int(column[tuple % LANES]),
            None => argument.value.evaluate(frame)?,
        });
    }
    Ok(arguments.into_boxed_slice())
}

/// The first tuple of each target row.
fn distinct_targets(batch: &Batch<'_>) -> Vec<usize> {
    if batch.len() < 2 {
        return (0..batch.len()).collect();
    }
    let Source::Rows { keys, .. } = &batch.sources[TARGET] else {
        return Vec::new();
    };
    let mut seen: FxHashSet<&Key> = FxHashSet::default();
    (0..batch.len())
        .filter(|tuple| seen.insert(&keys[batch.tuple(*tuple)[TARGET] as usize]))
        .collect()
}

fn target_of(batch: &Batch<'_>, tuple: usize) -> (Key, Row) {
    let row = batch.tuple(tuple)[TARGET] as usize;
    match &batch.sources[TARGET] {
        Source::Rows { keys, rows, .. } => (keys[row].clone(), rows[row].clone()),
        other => unreachable!("a target is a table, not {other:?}"),
    }
}
