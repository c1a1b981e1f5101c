//! Computes window functions.
//!
//! The tuples are sorted once for each partition and order, and computed partition by partition. An aggregate over
//! frames that grow, at their end or at their start, adds each tuple once. Over frames that slide it adds the tuples
//! of each frame anew, as it does over frames that grow at their start if the result depends on the order in which
//! values are added: those of `double precision`, texts and arrays.
//!
//! The tuples go on in the order of the first window that has one, as they usually do in PostgreSQL.

use std::cmp::Ordering;

use anabranch_types::{DataType, Value};

use super::{Run, aggregate::State, finish::compare};
use crate::{
    TransactionError,
    bind::aggregate::{Aggregate, AggregateFunction},
    expression::{
        Batch, Expression, Failure, Frame, Source, arithmetic::decimal_failure, budget::outside,
        failure, frame::Indices,
    },
    plan::window::{
        FrameBound, FrameUnit, Window, WindowCall, WindowFrame, WindowFunction, WindowStep,
    },
    transaction::Transaction,
};

/// The tuples of a batch in the order of a window.
struct Sorted {
    order: Vec<usize>,
    /// The values of the partition's and the order's keys, for each tuple of the batch.
    keys: Vec<Value>,
    width: usize,
}

/// The tuples of a partition, in order.
struct Partition<'s> {
    tuples: &'s [usize],
    sorted: &'s Sorted,
    /// The place of the key of ORDER BY among the keys, for RANGE with an offset; descending, NULLs first.
    key: Option<(usize, bool, bool)>,
    /// The first place of each group of equal tuples, and the end.
    groups: Vec<usize>,
    /// The group of each tuple.
    group_of: Vec<u32>,
}

/// One end of a frame, its offset computed.
#[derive(Clone, Debug)]
enum Edge {
    Unbounded,
    CurrentRow,
    Preceding(Offset),
    Following(Offset),
}

#[derive(Clone, Debug)]
enum Offset {
    /// Rows or groups.
    Count(usize),
    /// A difference of values.
    Value(Value),
}

/// A frame, its offsets computed.
struct Edges {
    unit: FrameUnit,
    start: Edge,
    end: Edge,
}

/// An aggregate over the frame of the last tuple.
#[derive(Default)]
struct Running {
    state: State,
    start: usize,
    end: usize,
    value: Option<Value>,
    /// The bytes that the state holds.
    held: u64,
}

/// The progress of `ntile` within a partition.
#[derive(Default)]
struct Buckets {
    /// The current bucket, from 1; 0 before the first.
    number: i64,
    /// The tuples in it so far, and in all.
    filled: usize,
    size: usize,
    /// The buckets that have one tuple more than the others.
    larger: usize,
}

impl<T: Transaction> Run<'_, T> {
    /// Computes the window functions of each tuple, as a source.
    pub(super) async fn windows(
        &mut self,
        step: &WindowStep,
        batch: &mut Batch<'_>,
    ) -> Result<(), TransactionError> {
        let count = batch.len();
        self.context
            .budget
            .hold(count * step.width * size_of::<Value>())?;
        let mut values = vec![Value::Null; count * step.width];
        let mut shown: Option<Vec<usize>> = None;
        for window in &step.windows {
            let before = self.context.budget.held();
            let sorted = self.sort_window(window, batch).await?;
            let held = self.context.budget.held() - before;
            self.window(window, &sorted, batch, step.width, &mut values)
                .await?;
            self.context.budget.release(held as usize);
            if shown.is_none() && sorted.width > 0 {
                shown = Some(sorted.order);
            }
        }
        let stride = batch.stride;
        if let Some(order) = shown {
            let old = std::mem::take(&mut batch.indices);
            let mut indices = Indices::with_capacity(old.len());
            for tuple in order {
                let end = indices.len();
                indices.extend_from_slice(&old[tuple * stride..(tuple + 1) * stride]);
                indices[end + step.source] = tuple as u32;
            }
            batch.indices = indices;
        } else {
            for tuple in 0..count {
                batch.indices[tuple * stride + step.source] = tuple as u32;
            }
        }
        batch.sources[step.source] = Source::Values {
            width: step.width,
            values,
        };
        Ok(())
    }

    /// The tuples by owner, partition and order.
    async fn sort_window(
        &mut self,
        window: &Window,
        batch: &Batch<'_>,
    ) -> Result<Sorted, TransactionError> {
        let count = batch.len();
        let width = window.partition.len() + window.order.len();
        self.context
            .budget
            .hold(count * (width * size_of::<Value>() + size_of::<usize>()))?;
        let order = window.order.iter().map(|(key, ..)| key);
        let keys: Vec<Expression> = window.partition.iter().chain(order).cloned().collect();
        let mut sorted = Sorted {
            order: (0..count).collect(),
            keys: Vec::with_capacity(count * width),
            width,
        };
        if width == 0 {
            return Ok(sorted);
        }
        let mut tuple = 0;
        loop {
            self.evaluate_some(&keys, batch, &mut tuple, &mut sorted.keys)?;
            if tuple == count {
                break;
            }
            self.pause_if_due().await?;
        }
        let order = std::mem::take(&mut sorted.order);
        let by = |a: &usize, b: &usize| {
            sorted
                .partitions(window, batch, *a, *b)
                .then_with(|| sorted.within(window, *a, *b))
        };
        sorted.order = self.sorted(order, by).await?;
        Ok(sorted)
    }

    /// Computes a window's functions, `values` being those of all windows.
    async fn window(
        &mut self,
        window: &Window,
        sorted: &Sorted,
        batch: &Batch<'_>,
        width: usize,
        values: &mut [Value],
    ) -> Result<(), TransactionError> {
        // Without a parent, the offsets are the same for all partitions, and have to be right even if there is none.
        let mut edges = Vec::new();
        if batch.parent.is_none() {
            let alone = Batch::single(1);
            for call in &window.calls {
                edges.push(edges_of(&call.frame, &self.frame(&alone, 0))?);
            }
        }
        let mut rest = sorted.order.as_slice();
        while let Some(first) = rest.first() {
            let before = self.context.budget.held();
            let partition = self.partition(window, sorted, rest, batch).await?;
            let held = self.context.budget.held() - before;
            rest = &rest[partition.tuples.len()..];
            if batch.parent.is_some() {
                edges.clear();
                for call in &window.calls {
                    edges.push(edges_of(&call.frame, &self.frame(batch, *first))?);
                }
            }
            for (call, edges) in window.calls.iter().zip(&edges) {
                partition.check(edges)?;
                match &call.function {
                    WindowFunction::Aggregate(aggregate) => {
                        self.window_aggregate(
                            call, aggregate, edges, &partition, batch, width, values,
                        )
                        .await?;
                    }
                    _ => {
                        self.ranks(call, edges, &partition, batch, width, values)
                            .await?;
                    }
                }
            }
            self.context.budget.release(held as usize);
        }
        Ok(())
    }

    /// The partition that the tuples begin with.
    async fn partition<'s>(
        &mut self,
        window: &Window,
        sorted: &'s Sorted,
        tuples: &'s [usize],
        batch: &Batch<'_>,
    ) -> Result<Partition<'s>, TransactionError> {
        let (mut groups, mut group_of) = (vec![0], Vec::new());
        for (place, tuple) in tuples.iter().enumerate() {
            if place > 0 {
                let before = tuples[place - 1];
                if sorted.partitions(window, batch, before, *tuple).is_ne() {
                    break;
                }
                if sorted.within(window, before, *tuple).is_ne() {
                    groups.push(place);
                }
            }
            group_of.push((groups.len() - 1) as u32);
            self.context
                .budget
                .hold(size_of::<usize>() + size_of::<u32>())?;
            self.context.budget.spend(1);
            self.pause_if_due().await?;
        }
        let tuples = &tuples[..group_of.len()];
        groups.push(tuples.len());
        let key = match window.order.as_slice() {
            [(_, descending, nulls_first)] => {
                Some((window.partition.len(), *descending, *nulls_first))
            }
            _ => None,
        };
        Ok(Partition {
            tuples,
            sorted,
            key,
            groups,
            group_of,
        })
    }

    /// Computes a function that is no aggregate for all tuples of a partition.
    async fn ranks(
        &mut self,
        call: &WindowCall,
        edges: &Edges,
        partition: &Partition<'_>,
        batch: &Batch<'_>,
        width: usize,
        values: &mut [Value],
    ) -> Result<(), TransactionError> {
        let mut buckets = Buckets::default();
        for (place, tuple) in partition.tuples.iter().enumerate() {
            let value = match &call.function {
                WindowFunction::Ntile(argument) => {
                    let frame = self.frame(batch, *tuple);
                    buckets.next(argument, partition.tuples.len(), &frame)?
                }
                function => self.rank(function, edges, partition, batch, place)?,
            };
            self.context.budget.hold(outside(&value))?;
            values[tuple * width + call.column] = value;
            self.context.budget.spend(1);
            self.pause_if_due().await?;
        }
        Ok(())
    }

    /// A function's value for the tuple at a place of its partition.
    fn rank(
        &self,
        function: &WindowFunction,
        edges: &Edges,
        partition: &Partition<'_>,
        batch: &Batch<'_>,
        place: usize,
    ) -> Result<Value, Failure> {
        let count = partition.tuples.len();
        let (group, end) = partition.peers(place);
        let at = |place: usize| self.frame(batch, partition.tuples[place]);
        Ok(match function {
            WindowFunction::RowNumber => Value::Int(place as i64 + 1),
            WindowFunction::Rank => Value::Int(group as i64 + 1),
            WindowFunction::DenseRank => Value::Int(i64::from(partition.group_of[place]) + 1),
            WindowFunction::PercentRank if count < 2 => Value::Float(0.0),
            WindowFunction::PercentRank => Value::Float(group as f64 / (count - 1) as f64),
            WindowFunction::CumeDist => Value::Float(end as f64 / count as f64),
            WindowFunction::Lag {
                value,
                offset,
                default,
                ahead,
            } => {
                let offset = match offset {
                    Some(offset) => offset.evaluate(&at(place))?,
                    None => Value::Int(1),
                };
                let Value::Int(offset) = offset else {
                    return Ok(Value::Null);
                };
                let offset = if *ahead { offset } else { -offset };
                let found = usize::try_from(place as i64 + offset).ok();
                match (found.filter(|found| *found < count), default) {
                    (Some(found), _) => value.evaluate(&at(found))?,
                    (None, Some(default)) => default.evaluate(&at(place))?,
                    (None, None) => Value::Null,
                }
            }
            WindowFunction::FirstValue(value) => {
                let (start, end) = partition.frame(edges, place)?;
                match start < end {
                    true => value.evaluate(&at(start))?,
                    false => Value::Null,
                }
            }
            WindowFunction::LastValue(value) => {
                let (start, end) = partition.frame(edges, place)?;
                match start < end {
                    true => value.evaluate(&at(end - 1))?,
                    false => Value::Null,
                }
            }
            WindowFunction::NthValue(value, number) => {
                let Value::Int(number) = number.evaluate(&at(place))? else {
                    return Ok(Value::Null);
                };
                let Ok(number @ 1..) = usize::try_from(number) else {
                    let message = "argument of nth_value must be greater than zero";
                    return Err(failure("22016", message));
                };
                let (start, end) = partition.frame(edges, place)?;
                match number <= end - start {
                    true => value.evaluate(&at(start + number - 1))?,
                    false => Value::Null,
                }
            }
            WindowFunction::Ntile(_) | WindowFunction::Aggregate(_) => {
                unreachable!("these depend on the tuples before")
            }
        })
    }

    /// Computes an aggregate for all tuples of a partition.
    #[expect(clippy::too_many_arguments, reason = "one caller, in this file")]
    async fn window_aggregate(
        &mut self,
        call: &WindowCall,
        aggregate: &Aggregate,
        edges: &Edges,
        partition: &Partition<'_>,
        batch: &Batch<'_>,
        width: usize,
        values: &mut [Value],
    ) -> Result<(), TransactionError> {
        let count = partition.tuples.len();
        let commutes = is_commutative(aggregate);
        // Frames that end with the partition grow at their start, seen from the last tuple.
        let backward = commutes && matches!(edges.end, Edge::Unbounded);
        let mut running = Running::default();
        for step in 0..count {
            let place = if backward { count - 1 - step } else { step };
            let (start, end) = partition.frame(edges, place)?;
            let grows_at_end = running.start == start && running.end <= end;
            let grows_at_start = commutes && running.end == end && start <= running.start;
            let added = if running.value.is_some() && grows_at_end {
                running.end..end
            } else if running.value.is_some() && grows_at_start {
                start..running.start
            } else {
                self.context.budget.release(running.held as usize);
                running = Running::default();
                start..end
            };
            let is_new = running.value.is_none() || !added.is_empty();
            (running.start, running.end) = (start, end);
            let before = self.context.budget.held();
            for place in added {
                let frame = self.frame(batch, partition.tuples[place]);
                running.state.add(aggregate, &frame)?;
                self.context.budget.spend(1);
                self.pause_if_due().await?;
            }
            running.held += self.context.budget.held().saturating_sub(before);
            if is_new {
                self.context.budget.spend(running.state.collected());
                running.value = Some(running.state.so_far(aggregate)?);
            }
            let value = running.value.clone().unwrap_or(Value::Null);
            self.context.budget.hold(outside(&value))?;
            values[partition.tuples[place] * width + call.column] = value;
            self.context.budget.spend(1);
            self.pause_if_due().await?;
        }
        self.context.budget.release(running.held as usize);
        Ok(())
    }
}

impl Sorted {
    fn key(&self, tuple: usize) -> &[Value] {
        &self.keys[tuple * self.width..(tuple + 1) * self.width]
    }

    /// The order of the partitions of two tuples, those of one owner together.
    fn partitions(&self, window: &Window, batch: &Batch<'_>, a: usize, b: usize) -> Ordering {
        let owner = |tuple: usize| match batch.parent {
            Some(_) => batch.tuple(tuple)[0],
            None => 0,
        };
        let pairs = self.key(a).iter().zip(self.key(b));
        let mut orders = pairs
            .take(window.partition.len())
            .map(|(a, b)| compare(a, b, false, false));
        owner(a).cmp(&owner(b)).then_with(|| {
            orders
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        })
    }

    /// The order of two tuples of a partition.
    fn within(&self, window: &Window, a: usize, b: usize) -> Ordering {
        let pairs = self.key(a).iter().zip(self.key(b));
        let pairs = pairs.skip(window.partition.len()).zip(&window.order);
        let mut orders = pairs
            .map(|((a, b), (_, descending, nulls_first))| compare(a, b, *descending, *nulls_first));
        orders
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

impl Partition<'_> {
    /// The tuples that are equal to the one at a place: first place and end.
    fn peers(&self, place: usize) -> (usize, usize) {
        let group = self.group_of[place] as usize;
        (self.groups[group], self.groups[group + 1])
    }

    /// The frame of the tuple at a place: first place and end.
    fn frame(&self, edges: &Edges, place: usize) -> Result<(usize, usize), Failure> {
        let count = self.tuples.len();
        let group = self.group_of[place] as usize;
        let last = self.groups.len() - 1;
        let start = match (&edges.start, edges.unit) {
            (Edge::Unbounded, _) => 0,
            (Edge::CurrentRow, FrameUnit::Rows) => place,
            (Edge::CurrentRow, _) => self.groups[group],
            (Edge::Preceding(Offset::Count(by)), FrameUnit::Rows) => place.saturating_sub(*by),
            (Edge::Following(Offset::Count(by)), FrameUnit::Rows) => {
                place.saturating_add(*by).min(count)
            }
            (Edge::Preceding(Offset::Count(by)), _) => self.groups[group.saturating_sub(*by)],
            (Edge::Following(Offset::Count(by)), _) => {
                self.groups[group.saturating_add(*by).min(last)]
            }
            (Edge::Preceding(Offset::Value(by)), _) => self.search(place, by, true, false)?,
            (Edge::Following(Offset::Value(by)), _) => self.search(place, by, false, false)?,
        };
        let end = match (&edges.end, edges.unit) {
            (Edge::Unbounded, _) => count,
            (Edge::CurrentRow, FrameUnit::Rows) => place + 1,
            (Edge::CurrentRow, _) => self.groups[group + 1],
            (Edge::Preceding(Offset::Count(by)), FrameUnit::Rows) => {
                (place + 1).saturating_sub(*by)
            }
            (Edge::Following(Offset::Count(by)), FrameUnit::Rows) => {
                place.saturating_add(*by).saturating_add(1).min(count)
            }
            (Edge::Preceding(Offset::Count(by)), _) => self.groups[(group + 1).saturating_sub(*by)],
            (Edge::Following(Offset::Count(by)), _) => {
                self.groups[group.saturating_add(*by).saturating_add(1).min(last)]
            }
            (Edge::Preceding(Offset::Value(by)), _) => self.search(place, by, true, true)?,
            (Edge::Following(Offset::Value(by)), _) => self.search(place, by, false, true)?,
        };
        Ok((start.min(end), end))
    }

    /// The first place that is in the frame of a tuple, which begins `by` before or behind it; with `is_end`, the first
    /// one that is behind a frame that ends there.
    fn search(
        &self,
        place: usize,
        by: &Value,
        precedes: bool,
        is_end: bool,
    ) -> Result<usize, Failure> {
        let (_, descending, nulls_first) = self.key.expect("RANGE with an offset has one key");
        let own = self.value(place);
        let subtracts = precedes != descending;
        let (mut low, mut high) = (0, self.tuples.len());
        while low < high {
            let middle = low.midpoint(high);
            let other = self.value(middle);
            // NULLs are in the frames of NULLs alone.
            let is_reached = match (other.is_null(), own.is_null()) {
                (false, false) => {
                    let order = compare_moved(other, own, by, subtracts)?;
                    let order = if descending { order.reverse() } else { order };
                    match is_end {
                        false => order.is_ge(),
                        true => order.is_gt(),
                    }
                }
                (true, true) => !is_end,
                (true, false) => !nulls_first,
                (false, true) => nulls_first,
            };
            match is_reached {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        Ok(low)
    }

    /// The value of the one key of ORDER BY.
    fn value(&self, place: usize) -> &Value {
        let (key, ..) = self.key.expect("RANGE with an offset has one key");
        &self.sorted.key(self.tuples[place])[key]
    }

    /// Checks that no offset of values is negative, unless there are none.
    fn check(&self, edges: &Edges) -> Result<(), Failure> {
        for edge in [&edges.start, &edges.end] {
            let (Edge::Preceding(Offset::Value(by)) | Edge::Following(Offset::Value(by))) = edge
            else {
                continue;
            };
            let is_negative = match by {
                Value::Int(by) => *by < 0,
                Value::Numeric(by) => by.is_negative(),
                _ => false,
            };
            let ends = [0, self.tuples.len() - 1];
            if is_negative && ends.iter().any(|place| !self.value(*place).is_null()) {
                let message = "invalid preceding or following size in window function";
                return Err(failure("22013", message));
            }
        }
        Ok(())
    }
}

/// The order of a value and another one that is moved.
fn compare_moved(
    value: &Value,
    base: &Value,
    by: &Value,
    subtracts: bool,
) -> Result<Ordering, Failure> {
    Ok(match (value, base, by) {
        (Value::Int(value), Value::Int(base), Value::Int(by)) => {
            let by = i128::from(if subtracts { -1 } else { 1 }) * i128::from(*by);
            i128::from(*value).cmp(&(i128::from(*base) + by))
        }
        (Value::Numeric(value), Value::Numeric(base), Value::Numeric(by)) => {
            let moved = match subtracts {
                true => base.try_sub(*by),
                false => base.try_add(*by),
            };
            value.cmp(&moved.map_err(decimal_failure)?)
        }
        _ => {
            let message = "a value known only at commit cannot be ordered";
            return Err(failure("XX000", message));
        }
    })
}

/// A frame's edges, their offsets computed over a tuple.
fn edges_of(frame: &WindowFrame, tuple: &Frame<'_>) -> Result<Edges, Failure> {
    let edge = |bound: &FrameBound, name: &str| -> Result<Edge, Failure> {
        let Some(offset) = bound.offset() else {
            return Ok(match bound {
                FrameBound::Unbounded => Edge::Unbounded,
                _ => Edge::CurrentRow,
            });
        };
        let offset = match (offset.evaluate(tuple)?, frame.unit) {
            (Value::Null, _) => {
                let message = format!("frame {name} offset must not be null");
                return Err(failure("22004", message));
            }
            (value, FrameUnit::Range) => Offset::Value(value),
            (Value::Int(count @ 0..), _) => {
                Offset::Count(usize::try_from(count).unwrap_or(usize::MAX))
            }
            _ => {
                let message = format!("frame {name} offset must not be negative");
                return Err(failure("22013", message));
            }
        };
        Ok(match bound {
            FrameBound::Preceding(_) => Edge::Preceding(offset),
            _ => Edge::Following(offset),
        })
    };
    Ok(Edges {
        unit: frame.unit,
        start: edge(&frame.start, "starting")?,
        end: edge(&frame.end, "ending")?,
    })
}

/// Whether an aggregate's result does not depend on the order in which tuples are added.
fn is_commutative(aggregate: &Aggregate) -> bool {
    match aggregate.function {
        AggregateFunction::Count
        | AggregateFunction::Min
        | AggregateFunction::Max
        | AggregateFunction::BitAnd
        | AggregateFunction::BitOr
        | AggregateFunction::BitXor
        | AggregateFunction::BoolAnd
        | AggregateFunction::BoolOr => true,
        AggregateFunction::Sum | AggregateFunction::Average => {
            let input = aggregate.input.as_ref();
            input.is_some_and(|of| of.is_integer() || matches!(of, DataType::Numeric(_)))
        }
        _ => false,
    }
}

impl Buckets {
    /// The bucket of the next of `count` tuples. The number of buckets is that of the first tuple where it is not NULL.
    fn next(
        &mut self,
        argument: &Expression,
        count: usize,
        frame: &Frame<'_>,
    ) -> Result<Value, Failure> {
        if self.number == 0 {
            let Value::Int(buckets) = argument.evaluate(frame)? else {
                return Ok(Value::Null);
            };
            let Ok(buckets @ 1..) = usize::try_from(buckets) else {
                return Err(failure(
                    "22014",
                    "argument of ntile must be greater than zero",
                ));
            };
            self.number = 1;
            self.size = (count / buckets).max(1);
            if count >= buckets {
                self.larger = count % buckets;
                self.size += usize::from(self.larger > 0);
            }
        }
        self.filled += 1;
        if self.filled > self.size {
            if self.larger > 0 && self.number == self.larger as i64 {
                self.larger = 0;
                self.size -= 1;
            }
            self.number += 1;
            self.filled = 1;
        }
        Ok(Value::Int(self.number))
    }
}
