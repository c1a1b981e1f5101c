//! Executes the steps that join a source to the tuples before it.

use std::sync::Arc;

use anabranch_types::{Fetched, Key, KeyRange, Read, Row, Value, access::whole_table};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::{
    BATCH_TUPLES, Run,
    expand::{Expansion, Matches, Stretches, stretch},
    key::{self, KeyColumns},
};
use crate::{
    TransactionError,
    expression::{
        Batch, EvaluationContext, Expression, Failure, Frame, NONE, Source,
        budget::bytes,
        compare::{Fingerprint, push_fingerprint},
        failure,
        frame::Tuples,
    },
    plan::{
        FunctionStep, Join, KeyPart, Path, QueryStep, RowsOf, TableFunction, TableRead, WhenLocked,
    },
    transaction::Transaction,
};

impl<T: Transaction> Run<'_, T> {
    /// Joins a table: reads its rows. Returns the join to be made, if it is not made yet.
    pub(super) async fn read<'p>(
        &mut self,
        read: &'p TableRead,
        batch: &mut Batch<'p>,
    ) -> Result<Option<Expansion<'p>>, TransactionError> {
        if batch.indices.is_empty() && !read.join.full {
            batch.sources[read.source] = table_source(read, Vec::new(), Vec::new());
            return Ok(None);
        }
        if let Path::Point { key } = &read.path
            && read.join.is_plain()
            && !read.wants_keys
            && batch.len() <= BATCH_TUPLES
            && let Some(reads) = self.point_reads(read, key, batch)?
        {
            let fetched = self.fetch(read, batch, reads).await?;
            keep_found(read, fetched, batch);
            if let Source::Rows { rows, keys, .. } = &batch.sources[read.source] {
                self.take_rows(0, rows, keys)?;
            }
            return Ok(None);
        }
        let mut rows = Vec::new();
        let mut keys = Vec::new();
        let matches = match &read.path {
            Path::Point { key } => {
                Matches::Stretches(self.points(read, key, batch, &mut rows, &mut keys).await?)
            }
            Path::Range(path) => {
                Matches::Stretches(self.ranges(read, path, batch, &mut rows, &mut keys).await?)
            }
            Path::Scan { .. } => {
                let all = vec![whole_table(read.schema.id)];
                let fetched = self.fetch(read, batch, all).await?;
                for answer in fetched {
                    take_range(answer, read.wants_keys, &mut rows, &mut keys);
                }
                self.take_rows(1, &rows, &keys)?;
                Matches::All(rows.len() as u32)
            }
        };
        batch.sources[read.source] = table_source(read, rows, keys);
        let matches = match (&read.path, matches) {
            (Path::Scan { hash }, Matches::All(count)) if !hash.is_empty() => {
                self.hashed(read.source, hash, count, batch).await?
            }
            (Path::Range(range), Matches::Stretches(stretches))
                if !range.hash.is_empty() && are_one(&stretches) =>
            {
                let (_, count) = stretches[0];
                self.hashed(read.source, &range.hash, count, batch).await?
            }
            (_, matches) => matches,
        };
        Ok(Some(Expansion::new(read.source, &read.join, matches)))
    }

    /// Reads rows of a table for the tuples, of which there is one at least.
    async fn fetch(
        &mut self,
        read: &TableRead,
        batch: &Batch<'_>,
        reads: Vec<Read>,
    ) -> Result<Vec<Fetched>, TransactionError> {
        let (statement, for_write) = (self.statement, read.for_write);
        if read.when_locked != WhenLocked::Wait && self.transaction.locks_rows() {
            return self.fetch_without_waiting(read, reads).await;
        }
        match self.placing(read, batch) {
            Some(placing) => {
                let transaction = &mut *self.transaction;
                transaction
                    .read_placed(statement, for_write, reads, placing)
                    .await
            }
            None => self.transaction.read(statement, for_write, reads).await,
        }
    }

    /// The value of the column that places the rows, if all rows that are wanted have the same.
    fn placing(&self, read: &TableRead, batch: &Batch<'_>) -> Option<Key> {
        if read.fixed.is_empty() {
            return None;
        }
        let column = self.transaction.placed_by(read.schema.id)?;
        let part = read.fixed.iter().find(|part| part.column == column)?;
        let frame = self.frame(batch, 0);
        let mut placing = Key::empty();
        // An error is that of the condition, where it is evaluated on a row.
        let is_known = key::push(&mut placing, part, &frame).unwrap_or(false);
        is_known.then_some(placing)
    }

    /// Counts the work of some reads, and holds the rows and keys that they have returned.
    fn take_rows(&self, reads: usize, rows: &[Row], keys: &[Key]) -> Result<(), Failure> {
        let budget = &self.context.budget;
        budget.spend(reads + rows.len());
        let of_rows = rows.iter().map(|row| row.as_bytes().len()).sum::<usize>();
        let of_keys = keys.iter().map(Key::len).sum::<usize>();
        budget.hold(size_of_val(rows) + size_of_val(keys) + of_rows + of_keys)
    }

    /// The read of each tuple's row; `None` where some tuple has none.
    fn point_reads(
        &self,
        read: &TableRead,
        parts: &[KeyPart],
        batch: &Batch<'_>,
    ) -> Result<Option<Vec<Read>>, Failure> {
        let table = read.schema.id;
        let mut reads = Vec::with_capacity(batch.len());
        self.each_key(parts, batch, |_, key| {
            if let Some(key) = key {
                reads.push(Read::Point { table, key });
            }
        })?;
        Ok((reads.len() == batch.len()).then_some(reads))
    }

    /// Calls `take` with each tuple and its key, `None` where no stored key can equal it.
    pub(super) fn each_key(
        &self,
        parts: &[KeyPart],
        batch: &Batch<'_>,
        mut take: impl FnMut(usize, Option<Key>),
    ) -> Result<(), Failure> {
        let mut done = 0;
        if batch.len() > 1 {
            for tuples in Tuples::of(batch, self.variables) {
                let Some(columns) = KeyColumns::of(parts, &tuples) else {
                    break;
                };
                for lane in 0..tuples.len() {
                    take(done + lane, columns.key(lane));
                }
                done += tuples.len();
            }
        }
        // The others one by one.
        for tuple in done..batch.len() {
            let frame = self.frame(batch, tuple);
            let mut key = Key::empty();
            let mut known = true;
            for part in parts {
                known = known && key::push(&mut key, part, &frame)?;
            }
            take(tuple, known.then_some(key));
        }
        Ok(())
    }

    /// Reads one row for each tuple.
    async fn points(
        &mut self,
        read: &TableRead,
        parts: &[KeyPart],
        batch: &Batch<'_>,
        rows: &mut Vec<Row>,
        keys: &mut Vec<Key>,
    ) -> Result<SmallVec<[(u32, u32); 2]>, TransactionError> {
        let count = batch.len();
        let mut stretches: SmallVec<[(u32, u32); 2]> = SmallVec::with_capacity(count);
        rows.reserve(count.min(BATCH_TUPLES));
        let table = read.schema.id;
        let mut start = 0;
        while start < count {
            let end = count.min(start + BATCH_TUPLES);
            let mut reads = Vec::with_capacity(end - start);
            let first = stretches.len();
            let (before, before_keys) = (rows.len(), keys.len());
            for tuple in start..end {
                let frame = self.frame(batch, tuple);
                let mut key = Key::empty();
                let mut known = true;
                for part in parts {
                    known = known && key::push(&mut key, part, &frame)?;
                }
                // Keys are kept until the answers are there.
                stretches.push((0, u32::from(known)));
                if known {
                    if read.wants_keys {
                        keys.push(key.clone());
                    }
                    reads.push(Read::Point { table, key });
                }
            }
            let fetched = match reads.is_empty() {
                true => Vec::new(),
                false => self.fetch(read, batch, reads).await?,
            };
            let mut answers = fetched.into_iter();
            let mut kept_keys = rows.len();
            let mut asked = rows.len();
            for stretch in &mut stretches[first..] {
                let begin = rows.len() as u32;
                if stretch.1 == 1 {
                    if let Some(Fetched::Point(Some(row))) = answers.next() {
                        rows.push(row);
                        if read.wants_keys {
                            keys.swap(kept_keys, asked);
                            kept_keys += 1;
                        }
                    }
                    asked += 1;
                }
                *stretch = (begin, rows.len() as u32);
            }
            if read.wants_keys {
                keys.truncate(kept_keys);
            }
            self.take_rows(end - start, &rows[before..], &keys[before_keys..])?;
            start = end;
            self.pause_if_due().await?;
        }
        Ok(stretches)
    }

    /// Reads a range for each tuple; where tuples that follow each other have the same one, once for all of them. A
    /// subquery whose range is the same for every row of its query is read once.
    async fn ranges(
        &mut self,
        read: &TableRead,
        path: &crate::plan::RangePath,
        batch: &Batch<'_>,
        rows: &mut Vec<Row>,
        keys: &mut Vec<Key>,
    ) -> Result<SmallVec<[(u32, u32); 2]>, TransactionError> {
        let count = batch.len();
        let mut stretches: SmallVec<[(u32, u32); 2]> = SmallVec::with_capacity(count);
        let mut ranges: SmallVec<[TupleRange; 2]> = SmallVec::new();
        let mut last: Option<(KeyRange, Option<u32>)> = None;
        let mut shared = (0, 0);
        let mut start = 0;
        while start < count {
            let end = count.min(start + BATCH_TUPLES);
            let mut reads = Vec::new();
            ranges.clear();
            let (before, before_keys) = (rows.len(), keys.len());
            for tuple in start..end {
                let frame = self.frame(batch, tuple);
                let range = key::range(path, &frame)?;
                let limit = match &path.limit {
                    Some(limit) => key::row_limit(limit, &frame)?,
                    None => None,
                };
                let limit = match read.when_locked {
                    WhenLocked::Skip => limit.map(|most| most.saturating_add(self.rows_ahead)),
                    WhenLocked::Wait | WhenLocked::Fail => limit,
                };
                let Some(range) = range else {
                    ranges.push(TupleRange::Empty);
                    continue;
                };
                let asked = (range, limit);
                if last.as_ref() == Some(&asked) {
                    ranges.push(TupleRange::AsBefore);
                    continue;
                }
                ranges.push(TupleRange::Read);
                if batch.len() > 1 {
                    last = Some(asked.clone());
                }
                let (range, limit) = asked;
                reads.push(Read::Range {
                    table: read.schema.id,
                    index: path.index,
                    range,
                    reverse: path.reverse,
                    limit,
                });
            }
            let fetched = match reads.is_empty() {
                true => Vec::new(),
                false => self.fetch(read, batch, reads).await?,
            };
            let mut answers = fetched.into_iter();
            for range in &ranges {
                match range {
                    TupleRange::Empty => stretches.push((0, 0)),
                    TupleRange::AsBefore => stretches.push(shared),
                    TupleRange::Read => {
                        let begin = rows.len() as u32;
                        if let Some(answer) = answers.next() {
                            take_range(answer, read.wants_keys, rows, keys);
                        }
                        shared = (begin, rows.len() as u32);
                        stretches.push(shared);
                    }
                }
            }
            self.take_rows(end - start, &rows[before..], &keys[before_keys..])?;
            start = end;
            self.pause_if_due().await?;
        }
        Ok(stretches)
    }

    /// A hash table over the rows of a source, and the tuples' fingerprints.
    async fn hashed(
        &mut self,
        source: usize,
        pairs: &[(Expression, Expression)],
        count: u32,
        batch: &mut Batch<'_>,
    ) -> Result<Matches, TransactionError> {
        let mut prints = Vec::with_capacity(batch.len());
        while prints.len() < batch.len() {
            self.pause_if_due().await?;
            self.print_tuples(pairs, batch, &mut prints)?;
        }
        let mut table: FxHashMap<Fingerprint, Vec<u32>> = FxHashMap::default();
        let mut row = 0;
        while row < count {
            self.pause_if_due().await?;
            self.print_rows(source, pairs, count, batch, &mut row, &mut table)?;
        }
        Ok(Matches::Hashed(table, prints))
    }

    /// The fingerprint of a tuple's hash key, or of its new row's; `None` if a part of it is NULL.
    fn print(
        &self,
        pairs: &[(Expression, Expression)],
        batch: &Batch<'_>,
        tuple: usize,
        row_side: bool,
    ) -> Result<Option<Fingerprint>, Failure> {
        let frame = self.frame(batch, tuple);
        let budget = &self.context.budget;
        budget.spend(1);
        let mut print = Fingerprint::new();
        for (of_row, of_tuple) in pairs {
            let value = if row_side { of_row } else { of_tuple }.evaluate(&frame)?;
            if value.is_null() {
                return Ok(None);
            }
            push_fingerprint(&mut print, &value);
        }
        budget.hold(size_of::<Fingerprint>() + print.len())?;
        Ok(Some(print))
    }

    /// Appends the fingerprints of the next tuples, until a pause is due.
    fn print_tuples(
        &self,
        pairs: &[(Expression, Expression)],
        batch: &Batch<'_>,
        prints: &mut Vec<Fingerprint>,
    ) -> Result<(), Failure> {
        while prints.len() < batch.len() && !self.context.budget.is_due() {
            // A key with a NULL matches nothing: the empty fingerprint is never in the table.
            let print = self.print(pairs, batch, prints.len(), false)?;
            prints.push(print.unwrap_or_default());
        }
        Ok(())
    }

    /// Puts the next rows of the new source into the hash table, until a pause is due.
    fn print_rows(
        &self,
        source: usize,
        pairs: &[(Expression, Expression)],
        count: u32,
        batch: &mut Batch<'_>,
        row: &mut u32,
        table: &mut FxHashMap<Fingerprint, Vec<u32>>,
    ) -> Result<(), Failure> {
        // The row's side is evaluated over a tuple of its own, behind the others.
        let scratch = batch.len();
        batch
            .indices
            .extend(std::iter::repeat_n(NONE, batch.stride));
        while *row < count && !self.context.budget.is_due() {
            batch.indices[scratch * batch.stride + source] = *row;
            if let Some(print) = self.print(pairs, batch, scratch, true)? {
                table.entry(print).or_default().push(*row);
            }
            *row += 1;
        }
        batch.indices.truncate(scratch * batch.stride);
        Ok(())
    }

    /// Joins a table function's rows: makes them. Returns the join to be made.
    pub(super) async fn function<'p>(
        &mut self,
        step: &'p FunctionStep,
        batch: &mut Batch<'p>,
    ) -> Result<Option<Expansion<'p>>, TransactionError> {
        // As in PostgreSQL, a function of constants is called once for all tuples.
        let once = batch.len() > 1 && !step.arguments.iter().any(depends_on_tuple);
        let tuples = if once { 1 } else { batch.len() };
        let mut making = FunctionRows::new(step, tuples);
        while !making.make_some(batch, self.variables, self.context)? {
            self.pause_if_due().await?;
        }
        let count = making.stretches.first().map_or(0, |(_, end)| *end);
        let stretches = making.into_source(batch);
        let matches = match once {
            true => Matches::All(count),
            false => Matches::Stretches(stretches),
        };
        Ok(Some(Expansion::new(step.source, &step.join, matches)))
    }

    /// Joins the rows of VALUES: evaluates them. Returns the join to be made.
    pub(super) async fn constant_rows<'p>(
        &mut self,
        source: usize,
        rows: &'p [Vec<Expression>],
        join: &'p Join,
        batch: &mut Batch<'p>,
    ) -> Result<Option<Expansion<'p>>, TransactionError> {
        let width = rows.first().map_or(1, Vec::len);
        let mut values = Vec::new();
        let mut stretches = Stretches::new();
        for tuple in 0..batch.len() {
            let begin = (values.len() / width) as u32;
            for row in rows {
                self.row_of(row, batch, tuple, &mut values)?;
                self.pause_if_due().await?;
            }
            stretches.push((begin, (values.len() / width) as u32));
        }
        batch.sources[source] = Source::Values { width, values };
        let matches = Matches::Stretches(stretches);
        Ok(Some(Expansion::new(source, join, matches)))
    }

    fn row_of(
        &self,
        row: &[Expression],
        batch: &Batch<'_>,
        tuple: usize,
        values: &mut Vec<Value>,
    ) -> Result<(), Failure> {
        let frame = self.frame(batch, tuple);
        let budget = &self.context.budget;
        for expression in row {
            let value = expression.evaluate(&frame)?;
            budget.hold(bytes(&value))?;
            values.push(value);
        }
        budget.spend(1);
        Ok(())
    }

    /// Joins a derived table or common table expression: evaluates it. Returns the join to be made.
    pub(super) async fn derived<'p>(
        &mut self,
        step: &'p QueryStep,
        batch: &mut Batch<'p>,
    ) -> Result<Option<Expansion<'p>>, TransactionError> {
        let matches = match &step.rows {
            RowsOf::Cte { number, width } => {
                let values = self.ctes.get(*number).and_then(Option::clone);
                let values: Arc<Vec<Value>> = values.ok_or_else(|| {
                    failure("XX000", "a common table expression was not evaluated")
                })?;
                // As `Rows::into_values`.
                let width = *width.max(&1);
                let count = values.len() / width;
                batch.sources[step.source] = Source::Shared { width, values };
                Matches::All(count as u32)
            }
            RowsOf::Constant { values, width } => {
                let count = values.len() / width;
                batch.sources[step.source] = Source::Shared {
                    width: *width,
                    values: Arc::clone(values),
                };
                Matches::All(count as u32)
            }
            RowsOf::Query(query) if query.correlated => {
                let mut values = Vec::new();
                let mut stretches = SmallVec::new();
                let width = query.columns.len().max(1);
                let count = batch.len();
                let mut start = 0;
                while start < count {
                    let end = count.min(start + BATCH_TUPLES);
                    let rows = self.nested(query, Some((&*batch, start..end))).await?;
                    let base = (values.len() / width) as u32;
                    let mut row = 0;
                    for tuple in start..end {
                        let begin = row;
                        while row < rows.count && rows.owners[row] as usize == tuple {
                            row += 1;
                        }
                        stretches.push((base + begin as u32, base + row as u32));
                    }
                    values.extend(rows.into_values().1);
                    start = end;
                }
                batch.sources[step.source] = Source::Values { width, values };
                Matches::Stretches(stretches)
            }
            RowsOf::Query(query) => {
                let rows = self.nested(query, None).await?;
                let count = rows.count;
                let (width, values) = rows.into_values();
                batch.sources[step.source] = Source::Values { width, values };
                Matches::All(count as u32)
            }
        };
        let matches = match matches {
            Matches::All(count) if !step.hash.is_empty() => {
                self.hashed(step.source, &step.hash, count, batch).await?
            }
            matches => matches,
        };
        Ok(Some(Expansion::new(step.source, &step.join, matches)))
    }
}

/// Whether an expression has another value for another tuple.
fn depends_on_tuple(expression: &Expression) -> bool {
    expression.any(&mut |part| {
        matches!(
            part,
            Expression::Column { .. }
                | Expression::Unique
                | Expression::Next(_)
                | Expression::OfSequence { .. }
        )
    })
}

/// The rows of a table function, while they are made.
struct FunctionRows<'p> {
    step: &'p FunctionStep,
    width: usize,
    values: Vec<Value>,
    /// The arrays that stand for the rows, in place of values.
    arrays: Option<Vec<Value>>,
    /// Which rows belong to each tuple.
    stretches: Stretches,
    /// The tuples for which the function is called.
    tuples: usize,
    /// The rest of a series, and the place of its next element, counted from 1.
    series: Option<(Series, i64)>,
}

impl<'p> FunctionRows<'p> {
    fn new(step: &'p FunctionStep, tuples: usize) -> FunctionRows<'p> {
        let width = match step.function {
            TableFunction::Unnest | TableFunction::Elements => step.arguments.len(),
            TableFunction::GenerateSeries => 1,
        } + usize::from(step.ordinality);
        FunctionRows {
            step,
            width,
            values: Vec::new(),
            arrays: None,
            stretches: Stretches::new(),
            tuples,
            series: None,
        }
    }

    /// Makes the rows of the next tuples, until a pause is due. Returns whether all are made.
    fn make_some(
        &mut self,
        batch: &Batch<'_>,
        variables: &[Value],
        context: &EvaluationContext,
    ) -> Result<bool, Failure> {
        let budget = &context.budget;
        while self.stretches.len() < self.tuples || self.series.is_some() {
            if budget.is_due() {
                return Ok(false);
            }
            let step = self.step;
            if self.series.is_none() {
                let frame = Frame::new(variables, batch, self.stretches.len(), context);
                let mut arguments: SmallVec<[Value; 4]> = SmallVec::new();
                for argument in &step.arguments {
                    let value = argument.evaluate(&frame)?;
                    budget.make(&value)?;
                    arguments.push(value);
                }
                let begin = (self.values.len() / self.width) as u32;
                self.stretches.push((begin, begin));
                match step.function {
                    TableFunction::Unnest if self.tuples == 1 => {
                        self.stretches[0].1 = longest(&arguments) as u32;
                        budget.hold(arguments.iter().map(bytes).sum())?;
                        self.arrays = Some(arguments.into_vec());
                        budget.spend(1);
                        continue;
                    }
                    TableFunction::Unnest => {
                        unnest(&arguments, step.ordinality, &mut self.values);
                    }
                    TableFunction::Elements => elements(&arguments, &mut self.values),
                    TableFunction::GenerateSeries => {
                        self.series = Series::of(&arguments)?.map(|series| (series, 0));
                    }
                }
                budget.spend(1);
            }
            if let Some((series, place)) = &mut self.series {
                let mut room = budget.left().max(1);
                while room > 0
                    && let Some(value) = series.next()
                {
                    room -= 1;
                    self.values.push(Value::Int(value));
                    *place += 1;
                    if step.ordinality {
                        self.values.push(Value::Int(*place));
                    }
                }
                if room > 0 {
                    self.series = None;
                }
            }
            let rows = self.values.len() / self.width;
            if let Some((begin, end)) = self.stretches.last_mut() {
                let added = rows - *end as usize;
                let new = &self.values[*end as usize * self.width..];
                budget.spend(added);
                budget.hold(match step.function {
                    TableFunction::GenerateSeries => size_of_val(new),
                    _ => new.iter().map(bytes).sum(),
                })?;
                debug_assert!(begin <= end);
                *end = rows as u32;
            }
        }
        Ok(true)
    }

    /// Makes the rows the batch's source. Returns which of them belong to each tuple.
    fn into_source(self, batch: &mut Batch<'_>) -> Stretches {
        batch.sources[self.step.source] = match self.arrays {
            Some(arrays) => Source::Arrays {
                arrays,
                ordinality: self.step.ordinality,
            },
            None => Source::Values {
                width: self.width,
                values: self.values,
            },
        };
        self.stretches
    }
}

/// Joins a table function's rows without any filter: for a run without data.
pub(crate) fn pure_rows(
    step: &FunctionStep,
    batch: &mut Batch<'_>,
    variables: &[Value],
    context: &EvaluationContext,
) -> Result<(), Failure> {
    let mut making = FunctionRows::new(step, batch.len());
    // More rows than fit into one piece are left to the call itself.
    if !making.make_some(batch, variables, context)? {
        let message = "too many rows for a run without data";
        return Err(failure("54000", message));
    }
    let stretches = making.into_source(batch);
    stretch(step.source, &stretches, batch);
    Ok(())
}

/// Makes the results of one read per tuple the batch's source, and keeps the tuples with a row.
fn keep_found<'p>(read: &'p TableRead, fetched: Vec<Fetched>, batch: &mut Batch<'p>) {
    let stride = batch.stride;
    let mut rows = Vec::with_capacity(fetched.len());
    let indices = batch.indices.as_mut_slice();
    for (tuple, answer) in fetched.into_iter().enumerate() {
        let Fetched::Point(Some(row)) = answer else {
            continue;
        };
        let kept = rows.len();
        if kept < tuple {
            indices.copy_within(tuple * stride..(tuple + 1) * stride, kept * stride);
        }
        indices[kept * stride + read.source] = kept as u32;
        rows.push(row);
    }
    batch.indices.truncate(rows.len() * stride);
    batch.sources[read.source] = table_source(read, rows, Vec::new());
}

fn table_source<'p>(read: &'p TableRead, rows: Vec<Row>, keys: Vec<Key>) -> Source<'p> {
    Source::Rows {
        layout: &read.schema.layout,
        rows,
        keys,
    }
}

fn take_range(answer: Fetched, wants_keys: bool, rows: &mut Vec<Row>, keys: &mut Vec<Key>) {
    let Fetched::Range(found) = answer else {
        return;
    };
    rows.reserve(found.len());
    for (key, row) in found {
        rows.push(row);
        if wants_keys {
            keys.push(key);
        }
    }
}

/// The length of the longest of some arrays; a NULL has no elements.
fn longest(arrays: &[Value]) -> usize {
    let lengths = arrays.iter().map(|array| match array {
        Value::Array(list) => list.len(),
        _ => 0,
    });
    lengths.max().unwrap_or(0)
}

fn unnest(arrays: &[Value], ordinality: bool, values: &mut Vec<Value>) {
    let element = |array: &Value, place: usize| match array {
        Value::Array(list) => list.get(place).cloned().unwrap_or(Value::Null),
        _ => Value::Null,
    };
    let longest = longest(arrays);
    values.reserve(longest * (arrays.len() + usize::from(ordinality)));
    for place in 0..longest {
        values.extend(arrays.iter().map(|array| element(array, place)));
        if ordinality {
            values.push(Value::Int(place as i64 + 1));
        }
    }
}

/// Appends the distinct rows of arrays of equal length that have no NULL.
fn elements(arrays: &[Value], values: &mut Vec<Value>) {
    let width = arrays.len();
    let count = longest(arrays);
    let element = |array: usize, place: usize| match &arrays[array] {
        Value::Array(list) => list.get(place).filter(|value| !value.is_null()),
        _ => None,
    };
    let begin = values.len();
    let mut seen: FxHashSet<Fingerprint> = FxHashSet::default();
    let mut row: SmallVec<[&Value; 4]> = SmallVec::new();
    for place in 0..count {
        row.clear();
        row.extend((0..width).map_while(|array| element(array, place)));
        if row.len() < width {
            continue;
        }
        let is_new = if count > FEW_ELEMENTS {
            let mut print = Fingerprint::new();
            row.iter()
                .for_each(|value| push_fingerprint(&mut print, value));
            seen.insert(print)
        } else {
            let equals = |known: &[Value]| {
                let mut pairs = known.iter().zip(&row);
                pairs.all(|(known, value)| known.total_cmp(value).is_eq())
            };
            !values[begin..].chunks_exact(width).any(equals)
        };
        if is_new {
            values.extend(row.iter().map(|value| (*value).clone()));
        }
    }
}

/// Whether several tuples have all of the rows, which are more than a few.
fn are_one(stretches: &[(u32, u32)]) -> bool {
    let [first, others @ ..] = stretches else {
        return false;
    };
    let is_all = first.0 == 0 && first.1 as usize > FEW_ELEMENTS;
    is_all && !others.is_empty() && others.iter().all(|other| other == first)
}

/// What is read for a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TupleRange {
    /// Nothing: no row can match.
    Empty,
    /// The range of the last tuple that had one.
    AsBefore,
    /// A range of its own.
    Read,
}

/// Duplicates among so few elements are found by comparing each with each.
const FEW_ELEMENTS: usize = 16;

/// The rest of `generate_series`.
struct Series {
    next: Option<i64>,
    to: i64,
    by: i64,
}

impl Series {
    /// The series of some arguments; `None` if one of them is NULL.
    fn of(arguments: &[Value]) -> Result<Option<Series>, Failure> {
        let (from, to, by) = match arguments {
            [Value::Int(from), Value::Int(to)] => (*from, *to, 1),
            [Value::Int(from), Value::Int(to), Value::Int(by)] => (*from, *to, *by),
            _ => return Ok(None),
        };
        if by == 0 {
            return Err(failure("22023", "step size cannot equal zero"));
        }
        let next = Some(from);
        Ok(Some(Series { next, to, by }))
    }
}

impl Iterator for Series {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let Series { next, to, by } = self;
        let value = next.filter(|value| if *by > 0 { value <= to } else { value >= to })?;
        *next = value.checked_add(*by);
        Some(value)
    }
}
