//! Foreign keys: looks up parents when a child is written, and children when a parent is deleted or its key changes.

use anabranch_types::{
    ColumnIndex, ColumnSchema, ColumnSet, Effect, EffectError, Fetched, Key, KeyRange, Patch,
    Pending, Read, Row, TableId, TableSchema, Value, access::whole_table, text::format_value,
};
use smallvec::SmallVec;

use super::{BATCH_TUPLES, Nested, Run, encode::Encoded, key::primary_key};
use crate::{
    TransactionError,
    catalog::{Deferrability, ReferentialAction},
    constraint::{ChildReference, ParentReference},
    deferred::{Check, ConstraintSelection, Side},
    expression::{Batch, Failure},
    transaction::Transaction,
};

/// A row that children may refer to, and that is deleted or gets another key.
#[derive(Debug)]
pub(super) struct ParentChange {
    parent: TableId,
    /// The foreign key's place among those that refer to the table.
    child: usize,
    /// The values that children refer to.
    before: Vec<Value>,
    /// Those that the row has then; `None` if it is deleted.
    after: Option<Vec<Value>>,
}

/// Until when the check of a foreign key waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// COMMIT, or SET CONSTRAINTS … IMMEDIATE.
    Commit,
    /// All parts of a compound statement have run.
    AllParts,
}

/// Child rows, to look up their parents.
pub(super) trait ChildRows {
    /// Their table.
    fn schema(&self) -> &TableSchema;
    /// Their number.
    fn count(&self) -> usize;
    /// Whether a row's column is NULL.
    fn is_null(&self, row: usize, column: ColumnIndex) -> bool;
    /// Whether a row's column has the same value as that of the row before it.
    fn same_as_before(&self, row: usize, column: ColumnIndex) -> bool;
    /// The pending value of a column, if it is known only at commit.
    fn pending(&self, row: usize, column: ColumnIndex) -> Option<Pending>;
    /// Appends a column's value to a key, as a column of the parent. False if the parent's type does not have the
    /// value.
    fn push(&self, row: usize, column: ColumnIndex, as_of: &ColumnSchema, key: &mut Key) -> bool;
    /// The value of a column.
    fn value(&self, row: usize, column: ColumnIndex) -> Value;

    /// Whether some row may have a pending value in its parent's key.
    fn may_wait(&self, _parent: &ParentReference) -> bool {
        true
    }

    /// The key of a row's parent, if it is known to consist of integers without NULL.
    fn integer_key(&self, _row: usize, _parent: &ParentReference) -> Option<Key> {
        None
    }
}

/// Rows of values, one after the other.
pub(super) struct RowValues<'v> {
    pub(super) schema: &'v TableSchema,
    pub(super) values: &'v [Value],
}

impl RowValues<'_> {
    fn at(&self, row: usize, column: ColumnIndex) -> &Value {
        &self.values[row * self.schema.columns.len() + column.index()]
    }
}

impl ChildRows for RowValues<'_> {
    fn schema(&self) -> &TableSchema {
        self.schema
    }

    fn count(&self) -> usize {
        self.values.len() / self.schema.columns.len()
    }

    fn is_null(&self, row: usize, column: ColumnIndex) -> bool {
        self.at(row, column).is_null()
    }

    fn same_as_before(&self, row: usize, column: ColumnIndex) -> bool {
        self.at(row, column) == self.at(row - 1, column)
    }

    fn pending(&self, row: usize, column: ColumnIndex) -> Option<Pending> {
        match self.at(row, column) {
            Value::Pending(pending) => Some(*pending),
            _ => None,
        }
    }

    fn push(&self, row: usize, column: ColumnIndex, as_of: &ColumnSchema, key: &mut Key) -> bool {
        let value = self.at(row, column);
        key.try_push_value(&as_of.data_type, as_of.nullable, value)
            .is_ok()
    }

    fn value(&self, row: usize, column: ColumnIndex) -> Value {
        self.at(row, column).clone()
    }
}

impl ChildRows for Encoded<'_> {
    fn schema(&self) -> &TableSchema {
        self.schema
    }

    fn count(&self) -> usize {
        self.rows.len()
    }

    #[inline]
    fn is_null(&self, row: usize, column: ColumnIndex) -> bool {
        self.rows[row].is_null(&self.schema.layout, column)
    }

    #[inline]
    fn same_as_before(&self, row: usize, column: ColumnIndex) -> bool {
        let layout = &self.schema.layout;
        let bytes = |row: usize| self.rows[row].column_bytes(layout, column);
        self.is_null(row, column) == self.is_null(row - 1, column) && bytes(row) == bytes(row - 1)
    }

    fn pending(&self, _: usize, column: ColumnIndex) -> Option<Pending> {
        let patch = self.patches.iter().find(|patch| patch.column == column)?;
        Some(Pending {
            slot: patch.slot,
            offset: patch.offset,
        })
    }

    fn push(&self, row: usize, column: ColumnIndex, as_of: &ColumnSchema, key: &mut Key) -> bool {
        let value = self.rows[row].get(&self.schema.layout, column);
        key.try_push_value(&as_of.data_type, as_of.nullable, &value)
            .is_ok()
    }

    fn value(&self, row: usize, column: ColumnIndex) -> Value {
        self.rows[row].get(&self.schema.layout, column)
    }

    fn may_wait(&self, parent: &ParentReference) -> bool {
        let concerned = |patch: &Patch| parent.columns.contains(&patch.column);
        self.patches.iter().any(concerned)
    }

    #[inline]
    fn integer_key(&self, row: usize, parent: &ParentReference) -> Option<Key> {
        let row = &self.rows[row];
        let mut key = Key::empty();
        for (at, width) in parent.integers.as_ref()? {
            key.push_int(*width, row.stored(*at)?).ok()?;
        }
        Some(key)
    }
}

/// The key of a row's parent; `None` when no parent can have it.
fn parent_key(rows: &impl ChildRows, row: usize, parent: &ParentReference) -> Option<Key> {
    let mut key = Key::empty();
    let columns = parent.parent.key_columns(parent.index);
    for (column, place) in columns.iter().zip(&parent.order) {
        let described = &parent.parent.columns[column.index()];
        if !rows.push(row, parent.columns[*place], described, &mut key) {
            return None;
        }
    }
    Some(key)
}

/// The key of the parent with these values of the foreign key's columns; `None` when no parent can have it.
fn parent_key_of(values: &[Value], parent: &ParentReference) -> Option<Key> {
    let mut key = Key::empty();
    let columns = parent.parent.key_columns(parent.index);
    for (column, place) in columns.iter().zip(&parent.order) {
        let described = &parent.parent.columns[column.index()];
        key.try_push_value(&described.data_type, described.nullable, &values[*place])
            .ok()?;
    }
    Some(key)
}

/// The look-up of a parent.
fn parent_read(parent: &ParentReference, key: Key) -> Read {
    let table = parent.parent.id;
    match parent.index {
        None => Read::Point { table, key },
        index => Read::Range {
            table,
            index,
            range: KeyRange::prefix_of(key),
            reverse: false,
            limit: Some(1),
        },
    }
}

/// Whether the look-up of a parent has found none.
fn is_missing(answer: Fetched) -> bool {
    match answer.into_answer() {
        Fetched::Point(row) => row.is_none(),
        Fetched::Range(rows) => rows.is_empty(),
        Fetched::Locked | Fetched::Recorded(_) => unreachable!("an answer is a point or a range"),
    }
}

/// The pending columns of the key of a row's parent.
fn pending_of(rows: &impl ChildRows, row: usize, parent: &ParentReference) -> SmallVec<[Patch; 1]> {
    let columns = parent.parent.key_columns(parent.index);
    let mut patches: SmallVec<[Patch; 1]> = SmallVec::new();
    for (column, place) in columns.iter().zip(&parent.order) {
        if let Some(Pending { slot, offset }) = rows.pending(row, parent.columns[*place]) {
            patches.push(Patch {
                slot,
                offset,
                column: *column,
            });
        }
    }
    patches
}

impl<T: Transaction> Run<'_, T> {
    /// Looks up the parents of rows just written. `changed` restricts it to foreign keys with a changed column. A
    /// foreign key over columns of `same` alone is looked up for the first row only. Parents known to exist are not
    /// read.
    pub(super) async fn check_parents(
        &mut self,
        rows: &impl ChildRows,
        same: Option<ColumnSet>,
        changed: Option<&[ColumnIndex]>,
    ) -> Result<(), TransactionError> {
        let schema = rows.schema();
        let constraints = self.constraints;
        let parents = &constraints.of(schema.id).parents;
        if parents.is_empty() {
            return Ok(());
        }
        let mut reads = Vec::new();
        let mut looked_up = Vec::new();
        for (number, parent) in parents.iter().enumerate() {
            let bears =
                |changed: &[ColumnIndex]| parent.columns.iter().any(|c| changed.contains(c));
            if !changed.is_none_or(bears) {
                continue;
            }
            let all_same =
                |same: ColumnSet| parent.columns.iter().all(|column| same.contains(*column));
            let count = match rows.count() {
                count if count > 1 && same.is_some_and(all_same) => 1,
                count => count,
            };
            let columns = || parent.columns.iter();
            let may_wait = rows.may_wait(parent);
            let waits = self.waits(&parent.name, parent.deferrability);
            let mut before: Option<Key> = None;
            for row in 0..count {
                // Rows of one statement often share a parent.
                let key = match rows.integer_key(row, parent) {
                    Some(key) if before.as_ref() == Some(&key) => continue,
                    Some(key) => before.insert(key).clone(),
                    None => {
                        before = None;
                        let same = |column: &ColumnIndex| rows.same_as_before(row, *column);
                        let null = |column: &ColumnIndex| rows.is_null(row, *column);
                        if row > 0 && columns().all(same) || columns().any(null) {
                            continue;
                        }
                        match parent_key(rows, row, parent) {
                            Some(key) => key,
                            None => match waits {
                                Some(until) => {
                                    let values = columns().map(|column| rows.value(row, *column));
                                    let values = values.collect();
                                    self.defer(until, Side::Child, (schema.id, number), values);
                                    continue;
                                }
                                None => return Err(self.no_parent(rows, row, parent).into()),
                            },
                        }
                    }
                };
                let pending = match may_wait {
                    true => pending_of(rows, row, parent),
                    false => SmallVec::new(),
                };
                let table = parent.parent.id;
                if let (Some(until), true) = (waits, pending.is_empty()) {
                    let values = columns().map(|column| rows.value(row, *column)).collect();
                    self.defer(until, Side::Child, (schema.id, number), values);
                    continue;
                }
                if parent.index.is_none() && self.transaction.is_known(table, &key, &pending) {
                    continue;
                }
                if !pending.is_empty() {
                    let why = "a foreign key refers to a value that is known only at commit";
                    return Err(TransactionError::Retry(why));
                }
                looked_up.push((row, parent));
                reads.push(parent_read(parent, key));
            }
        }
        if reads.is_empty() {
            return Ok(());
        }
        self.context.budget.spend(reads.len());
        self.pause_if_due().await?;
        let fetched = self.transaction.read(self.statement, false, reads).await?;
        for (answer, (row, parent)) in fetched.into_iter().zip(looked_up) {
            if is_missing(answer) {
                return Err(self.no_parent(rows, row, parent).into());
            }
        }
        Ok(())
    }

    /// Deletes rows, and applies the ON DELETE actions to their children.
    pub(super) fn delete_rows<'f>(
        &'f mut self,
        schema: &'f TableSchema,
        targets: Vec<(Key, Row)>,
    ) -> Nested<'f, ()> {
        Box::pin(async move {
            for (key, _) in &targets {
                let effect = Effect::Delete {
                    table: schema.id,
                    key: key.clone(),
                };
                self.write(effect)?;
            }
            let constraints = self.constraints;
            for (place, child) in constraints.of(schema.id).children.iter().enumerate() {
                for (_, row) in &targets {
                    let columns = child.parent_columns.iter();
                    let change = ParentChange {
                        parent: schema.id,
                        child: place,
                        before: columns
                            .map(|column| row.get(&schema.layout, *column))
                            .collect(),
                        after: None,
                    };
                    self.parent_changed(change).await?;
                }
            }
            Ok(())
        })
    }

    /// Applies the ON UPDATE actions to the children of a row with a changed key.
    pub(super) async fn follow_change(
        &mut self,
        schema: &TableSchema,
        old: &Row,
        new: &Row,
        changed: &[ColumnIndex],
    ) -> Result<(), TransactionError> {
        let constraints = self.constraints;
        for (place, child) in constraints.of(schema.id).children.iter().enumerate() {
            let columns = &child.parent_columns;
            if !columns.iter().any(|column| changed.contains(column)) {
                continue;
            }
            let of = |row: &Row| -> Vec<Value> {
                columns
                    .iter()
                    .map(|column| row.get(&schema.layout, *column))
                    .collect()
            };
            let (before, after) = (of(old), of(new));
            if before != after {
                let change = ParentChange {
                    parent: schema.id,
                    child: place,
                    before,
                    after: Some(after),
                };
                self.parent_changed(change).await?;
            }
        }
        Ok(())
    }

    /// Does what a foreign key says about the children of a row that is deleted, or whose key has changed. Between the
    /// parts of a compound statement that waits: other parts may write the children, and what they have written is not
    /// there yet.
    pub(super) async fn parent_changed(
        &mut self,
        change: ParentChange,
    ) -> Result<(), TransactionError> {
        if let Some(part_effects) = &mut self.part_effects
            && !part_effects.is_written
        {
            part_effects.parents.push(change);
            return Ok(());
        }
        let constraints = self.constraints;
        let child = &constraints.of(change.parent).children[change.child];
        let parent = &constraints.of(child.child.id).parents[child.number].parent;
        let action = match change.after {
            None => child.on_delete,
            Some(_) => child.on_update,
        };
        if let Some(until) = self.parent_waits(child, action) {
            if !change.before.iter().any(Value::is_null) {
                let key = (child.child.id, child.number);
                self.defer(until, Side::Parent, key, change.before);
            }
            return Ok(());
        }
        let found = self.children(child, &change.before).await?;
        self.act(parent, child, action, found, change.after).await
    }

    /// Until when the check of a foreign key waits; `None` if it is run at once.
    fn waits(&mut self, name: &str, deferrability: Deferrability) -> Option<Until> {
        let checks = match deferrability.is_deferrable() {
            true => self.transaction.deferred_checks(),
            false => None,
        };
        match checks.is_some_and(|checks| checks.defers(name, deferrability)) {
            true => Some(Until::Commit),
            // Other parts of the statement may write the parent, or the children.
            false => self.part_effects.is_some().then_some(Until::AllParts),
        }
    }

    /// Until when the check waits that a parent has no children; `None` for an action, and for RESTRICT.
    fn parent_waits(&mut self, child: &ChildReference, action: ReferentialAction) -> Option<Until> {
        match action {
            ReferentialAction::NoAction => self.waits(&child.name, child.deferrability),
            _ => None,
        }
    }

    fn defer(&mut self, until: Until, side: Side, key: (TableId, usize), values: Vec<Value>) {
        let statement = self.statement;
        let checks = match until {
            Until::Commit => self.transaction.deferred_checks(),
            Until::AllParts => self
                .part_effects
                .as_mut()
                .map(|part_effects| &mut part_effects.checks),
        };
        if let Some(checks) = checks {
            checks.note(statement, side, key, values);
        }
    }

    /// Runs the deferred checks of the selected foreign keys, or all. Each reads on behalf of the statement that noted
    /// it.
    pub(crate) async fn check_deferred(
        &mut self,
        selection: &ConstraintSelection,
    ) -> Result<(), TransactionError> {
        let constraints = self.constraints;
        let key_of = |check: &Check| &constraints.of(check.child).parents[check.number];
        let Some(checks) = self.transaction.deferred_checks() else {
            return Ok(());
        };
        let due = checks.waiting(|check| selection.contains(&key_of(check).name));
        for part in due.chunk_by(|(_, one), (_, next)| one.statement == next.statement) {
            self.statement = part[0].1.statement;
            for part in part.chunks(BATCH_TUPLES) {
                self.check_deferred_part(part).await?;
            }
        }
        if let Some(checks) = self.transaction.deferred_checks() {
            checks.pass(due.iter().map(|(place, _)| *place));
        }
        Ok(())
    }

    /// Runs checks that one statement has noted.
    pub(super) async fn check_deferred_part(
        &mut self,
        part: &[(usize, Check)],
    ) -> Result<(), TransactionError> {
        let constraints = self.constraints;
        let mut reads = Vec::new();
        let mut looked_up = Vec::new();
        for (_, check) in part {
            let parent = &constraints.of(check.child).parents[check.number];
            let table = parent.parent.id;
            let key = parent_key_of(&check.values, parent);
            let is_known =
                |key: &Key| parent.index.is_none() && self.transaction.is_known(table, key, &[]);
            if key.as_ref().is_some_and(is_known) {
                continue;
            }
            looked_up.push((check, parent, key.is_some()));
            reads.extend(key.map(|key| parent_read(parent, key)));
        }
        if looked_up.is_empty() {
            return Ok(());
        }
        self.context.budget.spend(reads.len());
        self.pause_if_due().await?;
        let mut fetched = match reads.is_empty() {
            true => Vec::new(),
            false => self.transaction.read(self.statement, false, reads).await?,
        }
        .into_iter();
        for (check, parent, is_read) in looked_up {
            if is_read && fetched.next().is_some_and(|answer| !is_missing(answer)) {
                continue;
            }
            let children = &constraints.of(parent.parent.id).children;
            let is_key =
                |of: &&ChildReference| of.child.id == check.child && of.number == check.number;
            let Some(child) = children.iter().find(is_key) else {
                continue;
            };
            let found = self.children(child, &check.values).await?;
            let Some((_, row)) = found.first() else {
                continue;
            };
            return Err(match check.side {
                Side::Parent => self.has_children(&parent.parent, child, row),
                Side::Child => {
                    let schema = &*child.child;
                    let values = row.values(&schema.layout);
                    let rows = RowValues {
                        schema,
                        values: &values,
                    };
                    self.no_parent(&rows, 0, parent)
                }
            }
            .into());
        }
        Ok(())
    }

    /// The rows of a child table that point to a parent.
    async fn children(
        &mut self,
        child: &ChildReference,
        parent: &[Value],
    ) -> Result<Vec<(Key, Row)>, TransactionError> {
        if parent.iter().any(Value::is_null) {
            return Ok(Vec::new());
        }
        let schema = &*child.child;
        let read = match &child.path {
            None => whole_table(schema.id),
            Some(path) => {
                let columns = schema.key_columns(path.index);
                let mut key = Key::empty();
                for (column, place) in columns.iter().zip(&path.order) {
                    let described = &schema.columns[column.index()];
                    let pushed = key.try_push_value(
                        &described.data_type,
                        described.nullable,
                        &parent[*place],
                    );
                    if pushed.is_err() {
                        return Ok(Vec::new());
                    }
                }
                Read::Range {
                    table: schema.id,
                    index: path.index,
                    range: KeyRange::prefix_of(key),
                    reverse: false,
                    limit: None,
                }
            }
        };
        let acts = !matches!(
            child.on_delete,
            ReferentialAction::NoAction | ReferentialAction::Restrict
        );
        let fetched = self
            .transaction
            .read(self.statement, acts, vec![read])
            .await?;
        let mut rows = match fetched.into_iter().next() {
            Some(Fetched::Range(rows)) => rows,
            _ => Vec::new(),
        };
        self.context.budget.spend(1 + rows.len());
        self.pause_if_due().await?;
        rows.retain(|(_, row)| {
            let pairs = child.columns.iter().zip(parent);
            pairs.into_iter().all(|(column, value)| {
                row.get(&schema.layout, *column)
                    .compare(value)
                    .is_some_and(std::cmp::Ordering::is_eq)
            })
        });
        Ok(rows)
    }

    /// Applies an action to child rows. `after` are the parent's new values, unless it is deleted.
    async fn act(
        &mut self,
        parent: &TableSchema,
        child: &ChildReference,
        action: ReferentialAction,
        rows: Vec<(Key, Row)>,
        after: Option<Vec<Value>>,
    ) -> Result<(), TransactionError> {
        if rows.is_empty() {
            return Ok(());
        }
        let schema = &*child.child;
        let values: Vec<Value> = match (action, after) {
            (ReferentialAction::NoAction | ReferentialAction::Restrict, _) => {
                return Err(self.has_children(parent, child, &rows[0].1).into());
            }
            (ReferentialAction::Cascade, None) => return self.delete_rows(schema, rows).await,
            (ReferentialAction::Cascade, Some(after)) => after,
            (ReferentialAction::SetNull, _) => child.columns.iter().map(|_| Value::Null).collect(),
            (ReferentialAction::SetDefault, _) => {
                let batch = Batch::single(1);
                self.draw(
                    child
                        .defaults
                        .iter()
                        .map(crate::expression::Expression::uniques)
                        .sum(),
                );
                let frame = self.frame(&batch, 0);
                let defaults = child
                    .defaults
                    .iter()
                    .map(|default| default.evaluate(&frame));
                defaults.collect::<Result<_, Failure>>()?
            }
        };
        let changes: Vec<(ColumnIndex, Value)> =
            child.columns.iter().copied().zip(values).collect();
        for (key, row) in rows {
            self.change_child(child, key, row, &changes).await?;
        }
        Ok(())
    }

    async fn change_child(
        &mut self,
        child: &ChildReference,
        key: Key,
        row: Row,
        changes: &[(ColumnIndex, Value)],
    ) -> Result<(), TransactionError> {
        let schema = &*child.child;
        let mut changes = changes.to_vec();
        self.compute(schema, &row, &child.computed, &mut changes)?;
        let new = self.changed_row(schema, &row, &changes)?;
        let new_key = match schema.primary_key.is_empty() {
            true => key.clone(),
            false => primary_key(schema, &new),
        };
        if new_key == key {
            let arguments = changes.iter().map(|(_, value)| value.clone()).collect();
            let (table, program) = (schema.id, child.set);
            let effect = Effect::Update {
                table,
                key,
                program,
                arguments,
                outputs: None,
            };
            self.write(effect)?;
        } else {
            let table = schema.id;
            self.write(Effect::Delete { table, key })?;
            let values = new.values(&schema.layout);
            self.insert_row(schema, new_key, &values)?;
        }
        let values = new.values(&schema.layout);
        let rows = RowValues {
            schema,
            values: &values,
        };
        let changed: Vec<ColumnIndex> = changes.iter().map(|(column, _)| *column).collect();
        self.check_parents(&rows, None, Some(&changed)).await?;
        let follow: Nested<'_, ()> = Box::pin(self.follow_change(schema, &row, &new, &changed));
        follow.await
    }

    /// A row whose parent is missing.
    #[cold]
    fn no_parent(&self, rows: &impl ChildRows, row: usize, parent: &ParentReference) -> Failure {
        let (schema, name) = (rows.schema(), &parent.name);
        let message = format!(
            "insert or update on table \"{}\" violates foreign key constraint \"{name}\"",
            schema.name
        );
        let described = parent.columns.iter().map(|column| {
            let described = &schema.columns[column.index()];
            let value = rows.value(row, *column);
            let text = format_value(&value, &described.data_type, &self.context.zone);
            (described.name.as_str(), text)
        });
        let detail = format!(
            "Key {} is not present in table \"{}\".",
            key_detail(described),
            parent.parent.name
        );
        let error = EffectError::new("23503", message)
            .of_table(schema.name.clone())
            .of_constraint(name.clone())
            .with_detail(detail);
        Box::new(error)
    }

    /// A row that children still refer to, one of them `row`.
    #[cold]
    fn has_children(&self, parent: &TableSchema, child: &ChildReference, row: &Row) -> Failure {
        let schema = &*child.child;
        let message = format!(
            "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
            parent.name, child.name, schema.name
        );
        let pairs = child.parent_columns.iter().zip(&child.columns);
        let described = pairs.map(|(of_parent, column)| {
            let described = &parent.columns[of_parent.index()];
            let value = row.get(&schema.layout, *column);
            let text = format_value(&value, &described.data_type, &self.context.zone);
            (described.name.as_str(), text)
        });
        let detail = format!(
            "Key {} is still referenced from table \"{}\".",
            key_detail(described),
            schema.name
        );
        let error = EffectError::new("23503", message)
            .of_table(schema.name.clone())
            .of_constraint(child.name.clone())
            .with_detail(detail);
        Box::new(error)
    }
}

/// Columns and their values: `(a, b)=(1, x)`.
fn key_detail<'s>(described: impl Iterator<Item = (&'s str, String)>) -> String {
    let (names, values): (Vec<&str>, Vec<String>) = described.unzip();
    format!("({})=({})", names.join(", "), values.join(", "))
}
