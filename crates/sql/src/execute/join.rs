//! Executes the steps that join a source to the tuples before it.

use std::sync::Arc;

use anabranch_types::{Fetched, Key, Read, Row, Value, access::whole_table};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{
    BATCH_TUPLES, Run,
    key::{self, KeyColumns},
};
use crate::{
    TransactionError,
    expression::{
        Batch, EvaluationContext, Expression, Failure, Frame, NONE, Source,
        compare::{Fingerprint, push_fingerprint},
        failure,
        frame::{Indices, Tuples},
    },
    plan::{FunctionStep, Join, KeyPart, Path, QueryStep, RowsOf, TableFunction, TableRead},
    transaction::Transaction,
};

/// The rows of the new source that belong to each tuple.
enum Matches {
    /// A range of rows for each tuple.
    Stretches(SmallVec<[(u32, u32); 2]>),
    /// All of so many rows, for each tuple.
    All(u32),
    /// Through a hash table: the rows of each tuple's fingerprint.
    Hashed(
        FxHashMap<Fingerprint, Vec<u32>>,
        /* the tuples' key */ Vec<Fingerprint>,
    ),
}

impl<T: Transaction> Run<'_, T> {
    /// Joins a table.
    pub(super) async fn read<'p>(
        &mut self,
        read: &'p TableRead,
        batch: &mut Batch<'p>,
    ) -> Result<(), TransactionError> {
        if batch.indices.is_empty() {
            batch.sources[read.source] = table_source(read, Vec::new(), Vec::new());
            return Ok(());
        }
        if let Path::Point { key } = &read.path
            && read.join.is_plain()
            && !read.wants_keys
            && batch.len() <= BATCH_TUPLES
            && let Some(reads) = self.point_reads(read, key, batch)?
        {
            let fetched = self
                .transaction
                .read(self.statement, read.for_write, reads)
                .await?;
            keep_found(read, fetched, batch);
            return Ok(());
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
                let fetched = self
                    .transaction
                    .read(self.statement, read.for_write, all)
                    .await?;
                for answer in fetched {
                    take_range(answer, read.wants_keys, &mut rows, &mut keys);
                }
                Matches::All(rows.len() as u32)
            }
        };
        batch.sources[read.source] = table_source(read, rows, keys);
        let matches = match (&read.path, matches) {
            (Path::Scan { hash }, Matches::All(count)) if !hash.is_empty() => {
                self.hashed(read.source, hash, count, batch)?
            }
            (_, matches) => matches,
        };
        self.expand(read.source, &read.join, &matches, batch)?;
        Ok(())
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
                false => {
                    self.transaction
                        .read(self.statement, read.for_write, reads)
                        .await?
                }
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
            start = end;
        }
        Ok(stretches)
    }

    /// Reads a range for each tuple.
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
        let mut start = 0;
        while start < count {
            let end = count.min(start + BATCH_TUPLES);
            let mut reads = Vec::with_capacity(end - start);
            let first = stretches.len();
            for tuple in start..end {
                let frame = self.frame(batch, tuple);
                let range = key::range(path, &frame)?;
                let limit = match &path.limit {
                    Some(limit) => key::row_limit(limit, &frame)?,
                    None => None,
                };
                stretches.push((0, u32::from(range.is_some())));
                if let Some(range) = range {
                    reads.push(Read::Range {
                        table: read.schema.id,
                        index: path.index,
                        range,
                        reverse: path.reverse,
                        limit,
                    });
                }
            }
            let fetched = match reads.is_empty() {
                true => Vec::new(),
                false => {
                    self.transaction
                        .read(self.statement, read.for_write, reads)
                        .await?
                }
            };
            let mut answers = fetched.into_iter();
            for stretch in &mut stretches[first..] {
                let begin = rows.len() as u32;
                if stretch.1 == 1
                    && let Some(answer) = answers.next()
                {
                    take_range(answer, read.wants_keys, rows, keys);
                }
                *stretch = (begin, rows.len() as u32);
            }
            start = end;
        }
        Ok(stretches)
    }

    /// A hash table over the rows of a source, and the tuples' fingerprints.
    fn hashed(
        &self,
        source: usize,
        pairs: &[(Expression, Expression)],
        count: u32,
        batch: &mut Batch<'_>,
    ) -> Result<Matches, Failure> {
        let fingerprint = |batch: &Batch<'_>, tuple, row_side: bool| {
            let frame = self.frame(batch, tuple);
            let mut print = Fingerprint::new();
            for (of_row, of_tuple) in pairs {
                let value = if row_side { of_row } else { of_tuple }.evaluate(&frame)?;
                if value.is_null() {
                    return Ok(None);
                }
                push_fingerprint(&mut print, &value);
            }
            Ok::<_, Failure>(Some(print))
        };
        let mut prints = Vec::with_capacity(batch.len());
        for tuple in 0..batch.len() {
            // A key with a NULL matches nothing: the empty fingerprint is never in the table.
            prints.push(fingerprint(batch, tuple, false)?.unwrap_or_default());
        }
        // The row's side is evaluated over a tuple of its own, behind the others.
        let scratch = batch.len();
        let mut table: FxHashMap<Fingerprint, Vec<u32>> = FxHashMap::default();
        batch
            .indices
            .extend(std::iter::repeat_n(NONE, batch.stride));
        for row in 0..count {
            batch.indices[scratch * batch.stride + source] = row;
            if let Some(print) = fingerprint(batch, scratch, true)? {
                table.entry(print).or_default().push(row);
            }
        }
        batch.indices.truncate(scratch * batch.stride);
        Ok(Matches::Hashed(table, prints))
    }

    /// Replaces each tuple by its matches.
    fn expand(
        &self,
        source: usize,
        join: &Join,
        matches: &Matches,
        batch: &mut Batch<'_>,
    ) -> Result<(), Failure> {
        let stride = batch.stride;
        if let (Matches::Stretches(stretches), true) = (matches, join.is_plain()) {
            stretch(source, stretches, batch);
            return Ok(());
        }
        let old = std::mem::take(&mut batch.indices);
        batch.indices.reserve(old.len());
        let empty: &[u32] = &[];
        for (tuple, indices) in old.chunks(stride).enumerate() {
            let mut matched = false;
            let mut try_row = |row: u32, batch: &mut Batch<'_>| -> Result<(), Failure> {
                let end = batch.indices.len();
                batch.indices.extend_from_slice(indices);
                batch.indices[end + source] = row;
                let place = end / stride;
                if !join.matches.is_empty() && !self.passes(&join.matches, batch, place)? {
                    batch.indices.truncate(end);
                    return Ok(());
                }
                matched = true;
                if !join.filters.is_empty() && !self.passes(&join.filters, batch, place)? {
                    batch.indices.truncate(end);
                }
                Ok(())
            };
            match matches {
                Matches::Stretches(stretches) => {
                    let (begin, end) = stretches[tuple];
                    for row in begin..end {
                        try_row(row, batch)?;
                    }
                }
                Matches::All(count) => {
                    for row in 0..*count {
                        try_row(row, batch)?;
                    }
                }
                Matches::Hashed(table, prints) => {
                    for row in table.get(&prints[tuple]).map_or(empty, Vec::as_slice) {
                        try_row(*row, batch)?;
                    }
                }
            }
            if join.left && !matched {
                let end = batch.indices.len();
                batch.indices.extend_from_slice(indices);
                batch.indices[end + source] = NONE;
                if !self.passes(&join.filters, batch, end / stride)? {
                    batch.indices.truncate(end);
                }
            }
        }
        Ok(())
    }

    /// Joins a table function's rows.
    pub(super) fn function(
        &self,
        step: &FunctionStep,
        batch: &mut Batch<'_>,
    ) -> Result<(), Failure> {
        let stretches = function_rows(step, batch, self.variables, self.context)?;
        self.expand(
            step.source,
            &step.join,
            &Matches::Stretches(stretches),
            batch,
        )
    }

    /// Joins the rows of VALUES.
    pub(super) fn constant_rows(
        &self,
        source: usize,
        rows: &[Vec<Expression>],
        join: &Join,
        batch: &mut Batch<'_>,
    ) -> Result<(), Failure> {
        let width = rows.first().map_or(1, Vec::len);
        let mut values = Vec::new();
        let mut stretches = SmallVec::new();
        for tuple in 0..batch.len() {
            let frame = self.frame(batch, tuple);
            let begin = (values.len() / width) as u32;
            for expression in rows.iter().flatten() {
                values.push(expression.evaluate(&frame)?);
            }
            stretches.push((begin, (values.len() / width) as u32));
        }
        batch.sources[source] = Source::Values { width, values };
        self.expand(source, join, &Matches::Stretches(stretches), batch)
    }

    /// Joins a derived table or common table expression.
    pub(super) async fn derived<'p>(
        &mut self,
        step: &'p QueryStep,
        batch: &mut Batch<'p>,
    ) -> Result<(), TransactionError> {
        let matches = match &step.rows {
            RowsOf::Cte { number, width } => {
                let values = self.ctes.get(*number).and_then(Option::clone);
                let values: Arc<Vec<Value>> = values.ok_or_else(|| {
                    failure("XX000", "a common table expression was not evaluated")
                })?;
                let count = values.len() / width;
                batch.sources[step.source] = Source::Shared {
                    width: *width,
                    values,
                };
                Matches::All(count as u32)
            }
            RowsOf::Query(query) if query.correlated => {
                let mut values = Vec::new();
                let mut stretches = SmallVec::new();
                let width = query.columns.len();
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
                    values.extend(rows.values);
                    start = end;
                }
                batch.sources[step.source] = Source::Values { width, values };
                Matches::Stretches(stretches)
            }
            RowsOf::Query(query) => {
                let rows = self.nested(query, None).await?;
                let source = Source::Values {
                    width: rows.width,
                    values: rows.values,
                };
                batch.sources[step.source] = source;
                Matches::All(rows.count as u32)
            }
        };
        let matches = match matches {
            Matches::All(count) if !step.hash.is_empty() => {
                self.hashed(step.source, &step.hash, count, batch)?
            }
            matches => matches,
        };
        self.expand(step.source, &step.join, &matches, batch)?;
        Ok(())
    }
}

/// Makes a table function's rows the batch's source: which of them belong to each tuple.
fn function_rows(
    step: &FunctionStep,
    batch: &mut Batch<'_>,
    variables: &[Value],
    context: &EvaluationContext,
) -> Result<SmallVec<[(u32, u32); 2]>, Failure> {
    let mut values = Vec::new();
    let width = match step.function {
        TableFunction::Unnest => step.arguments.len(),
        _ => 1,
    } + usize::from(step.ordinality);
    let mut stretches = SmallVec::new();
    if let (TableFunction::Unnest, 1) = (step.function, batch.len()) {
        let frame = Frame::new(variables, batch, 0, context);
        let mut arrays = Vec::with_capacity(step.arguments.len());
        for argument in &step.arguments {
            arrays.push(argument.evaluate(&frame)?);
        }
        stretches.push((0, longest(&arrays) as u32));
        batch.sources[step.source] = Source::Arrays {
            arrays,
            ordinality: step.ordinality,
        };
        return Ok(stretches);
    }
    for tuple in 0..batch.len() {
        let frame = Frame::new(variables, batch, tuple, context);
        let mut arguments: SmallVec<[Value; 4]> = SmallVec::new();
        for argument in &step.arguments {
            arguments.push(argument.evaluate(&frame)?);
        }
        let begin = (values.len() / width) as u32;
        match step.function {
            TableFunction::Unnest => unnest(&arguments, step.ordinality, &mut values),
            TableFunction::Elements => elements(&arguments, &mut values),
            TableFunction::GenerateSeries => series(&arguments, step.ordinality, &mut values)?,
        }
        stretches.push((begin, (values.len() / width) as u32));
    }
    batch.sources[step.source] = Source::Values { width, values };
    Ok(stretches)
}

/// Joins a table function's rows without any filter: for a run without data.
pub(crate) fn pure_rows(
    step: &FunctionStep,
    batch: &mut Batch<'_>,
    variables: &[Value],
    context: &EvaluationContext,
) -> Result<(), Failure> {
    let stretches = function_rows(step, batch, variables, context)?;
    stretch(step.source, &stretches, batch);
    Ok(())
}

/// Replaces each tuple by one for each row of its range.
fn stretch(source: usize, stretches: &[(u32, u32)], batch: &mut Batch<'_>) {
    let stride = batch.stride;
    if stretches.iter().all(|(begin, end)| end - begin <= 1) {
        // Each tuple goes on in its place, or not at all.
        let mut kept = 0;
        let indices = batch.indices.as_mut_slice();
        for (tuple, (begin, end)) in stretches.iter().enumerate() {
            if begin == end {
                continue;
            }
            if kept < tuple {
                indices.copy_within(tuple * stride..(tuple + 1) * stride, kept * stride);
            }
            indices[kept * stride + source] = *begin;
            kept += 1;
        }
        batch.indices.truncate(kept * stride);
        return;
    }
    if let ([(begin, end)], true) = (stretches, batch.indices.iter().all(|index| *index == NONE)) {
        // The first source of a query without a parent.
        let mut indices = Indices::from_elem(NONE, (end - begin) as usize * stride);
        for (row, place) in (*begin..*end).zip(indices.chunks_exact_mut(stride)) {
            place[source] = row;
        }
        batch.indices = indices;
        return;
    }
    let rows = stretches.iter().map(|(begin, end)| (end - begin) as usize);
    let mut indices = Indices::from_elem(NONE, rows.sum::<usize>() * stride);
    let mut places = indices.chunks_exact_mut(stride);
    for (tuple, (begin, end)) in batch.indices.chunks_exact(stride).zip(stretches) {
        for (row, place) in (*begin..*end).zip(&mut places) {
            place.copy_from_slice(tuple);
            place[source] = row;
        }
    }
    batch.indices = indices;
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

fn elements(arrays: &[Value], values: &mut Vec<Value>) {
    let [Value::Array(list)] = arrays else { return };
    let begin = values.len();
    for value in list.iter().filter(|value| !value.is_null()) {
        if !values[begin..]
            .iter()
            .any(|seen| seen.total_cmp(value).is_eq())
        {
            values.push(value.clone());
        }
    }
}

fn series(arguments: &[Value], ordinality: bool, values: &mut Vec<Value>) -> Result<(), Failure> {
    let (from, to, by) = match arguments {
        [Value::Int(from), Value::Int(to)] => (*from, *to, 1),
        [Value::Int(from), Value::Int(to), Value::Int(by)] => (*from, *to, *by),
        _ => return Ok(()),
    };
    if by == 0 {
        return Err(failure("22023", "step size cannot equal zero"));
    }
    let mut next = Some(from);
    let mut place = 0;
    while let Some(value) = next.filter(|value| if by > 0 { *value <= to } else { *value >= to }) {
        values.push(Value::Int(value));
        place += 1;
        if ordinality {
            values.push(Value::Int(place));
        }
        next = value.checked_add(by);
    }
    Ok(())
}
