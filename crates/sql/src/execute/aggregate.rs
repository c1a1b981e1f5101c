//! Executes GROUP BY and aggregates.

use std::cmp::Ordering;

use anabranch_types::{DataType, Decimal, Value, ValueRef};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::{
    PIECE_TUPLES, Run,
    collected::Collected,
    statistics::{self, Sums},
};
use crate::{
    TransactionError,
    bind::aggregate::{Aggregate, AggregateFunction, Regression},
    expression::{
        Batch, Budget, Expression, Failure, Frame, NONE, Source,
        arithmetic::decimal_failure,
        budget::{bytes, outside, within_value},
        compare::{Fingerprint, push_fingerprint},
        failure,
        frame::{Indices, Tuples},
        json,
        registers::LANES,
    },
    plan::{Step, integers::Summand},
    transaction::Transaction,
};

/// The state of an aggregate for a group.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Rows that count: those that pass the filter and are not NULL.
    count: i64,
    total: Total,
    /// The least or greatest, or the conjunction or disjunction, so far.
    value: Option<Value>,
    /// What a variance or regression keeps.
    sums: Option<Box<Sums>>,
    /// The values of `array_agg` and `string_agg`, and of a percentile.
    collected: Vec<Collected>,
    seen: FxHashSet<Fingerprint>,
    /// Whether it has seen all tuples of the current piece.
    together: bool,
}

#[derive(Clone, Debug, Default)]
enum Total {
    #[default]
    None,
    Int(i128),
    /// Decimals of one scale, as integers.
    Scaled(i128, u16),
    Numeric(Decimal),
    Float(f64),
}

impl State {
    /// Adds a tuple.
    pub(super) fn add(&mut self, aggregate: &Aggregate, frame: &Frame<'_>) -> Result<(), Failure> {
        if let Some(filter) = &aggregate.filter
            && filter.test(frame)? != Some(true)
        {
            return Ok(());
        }
        if let Some(summand) = &aggregate.summand
            && let Some(int) = summand.value.value(frame)
        {
            self.count += 1;
            return self.total.add_integer(int, summand.scale);
        }
        let Some(argument) = aggregate.arguments.first() else {
            self.count += 1;
            return Ok(());
        };
        let budget = &frame.context.budget;
        let mut held = Value::Null;
        let value = argument.operand(frame, &mut held)?;
        let collects = matches!(
            aggregate.function,
            AggregateFunction::ArrayAgg | AggregateFunction::JsonObjectAgg { .. }
        );
        if value.is_null() && !collects {
            return Ok(());
        }
        if aggregate.distinct {
            let mut print = Fingerprint::new();
            push_fingerprint(&mut print, &value.to_value());
            let size = size_of::<Fingerprint>() + print.len();
            if !self.seen.insert(print) {
                return Ok(());
            }
            budget.hold(size)?;
        }
        let mut dependent = None;
        if let (AggregateFunction::Regression(_), [_, other]) =
            (aggregate.function, &aggregate.arguments[..])
        {
            match other.evaluate(frame)? {
                Value::Float(float) => dependent = Some(float),
                _ => return Ok(()),
            }
        }
        self.count += 1;
        match aggregate.function {
            AggregateFunction::Count => {}
            AggregateFunction::Statistic(_) | AggregateFunction::Regression(_) => {
                let begun = || Box::new(Sums::new(aggregate.input.as_ref()));
                let sums = self.sums.get_or_insert_with(begun);
                sums.add(value, dependent)?;
            }
            AggregateFunction::BitAnd | AggregateFunction::BitOr | AggregateFunction::BitXor => {
                let ValueRef::Int(new) = value else {
                    let message = "a value known only at commit cannot be aggregated";
                    return Err(failure("XX000", message));
                };
                self.value = Some(Value::Int(match (&self.value, aggregate.function) {
                    (Some(Value::Int(old)), AggregateFunction::BitAnd) => old & new,
                    (Some(Value::Int(old)), AggregateFunction::BitOr) => old | new,
                    (Some(Value::Int(old)), _) => old ^ new,
                    _ => new,
                }));
            }
            // As in PostgreSQL, a sum of `real` is one, and an average is computed in double precision.
            AggregateFunction::Sum => {
                let is_single = aggregate.input == Some(DataType::Real);
                self.total.add(value, is_single)?;
            }
            AggregateFunction::Average => self.total.add(value, false)?,
            AggregateFunction::Min => {
                self.keep(budget, value.to_value(), |new, old| {
                    new.total_cmp(old).is_lt()
                })?;
            }
            AggregateFunction::Max => {
                self.keep(budget, value.to_value(), |new, old| {
                    new.total_cmp(old).is_gt()
                })?;
            }
            AggregateFunction::BoolAnd => {
                self.keep(budget, value.to_value(), |new, _| {
                    *new == Value::Bool(false)
                })?;
            }
            AggregateFunction::BoolOr => {
                self.keep(budget, value.to_value(), |new, _| *new == Value::Bool(true))?;
            }
            AggregateFunction::JsonObjectAgg { .. } if value.is_null() => {
                return Err(failure("22023", "field name must not be null"));
            }
            AggregateFunction::ArrayAgg
            | AggregateFunction::StringAgg
            | AggregateFunction::Percentile { .. }
            | AggregateFunction::Mode
            | AggregateFunction::JsonAgg { .. }
            | AggregateFunction::JsonObjectAgg { .. } => {
                let mut keys = SmallVec::new();
                for (key, ..) in &aggregate.order {
                    keys.push(key.evaluate(frame)?);
                }
                let separator = match aggregate.arguments.get(1) {
                    Some(separator) => separator.evaluate(frame)?,
                    None => Value::Null,
                };
                if self.collected.is_empty() {
                    self.collected.reserve(16);
                }
                let collected = Collected {
                    keys,
                    value: value.to_value(),
                    separator,
                };
                budget.hold(collected.bytes())?;
                self.collected.push(collected);
            }
        }
        Ok(())
    }

    fn keep(
        &mut self,
        budget: &Budget,
        new: Value,
        better: impl Fn(&Value, &Value) -> bool,
    ) -> Result<(), Failure> {
        match &self.value {
            Some(old) if !better(&new, old) => {}
            old => {
                budget.release(old.as_ref().map_or(0, outside));
                budget.hold(outside(&new))?;
                self.value = Some(new);
            }
        }
        Ok(())
    }

    /// The result of an aggregate without DISTINCT and ORDER BY for the tuples so far.
    pub(super) fn so_far(&self, aggregate: &Aggregate) -> Result<Value, Failure> {
        let state = State {
            count: self.count,
            total: self.total.clone(),
            value: self.value.clone(),
            sums: self.sums.clone(),
            collected: self.collected.clone(),
            ..State::default()
        };
        state.finish(aggregate)
    }

    /// The number of values that its result is made of.
    pub(super) fn collected(&self) -> usize {
        self.collected.len()
    }

    /// Its result. What it has collected is sorted.
    fn finish(self, aggregate: &Aggregate) -> Result<Value, Failure> {
        match aggregate.function {
            AggregateFunction::Count | AggregateFunction::Regression(Regression::Count) => {
                Ok(Value::Int(self.count))
            }
            _ if self.count == 0 => Ok(Value::Null),
            AggregateFunction::Sum => self.total.sum(aggregate.input.as_ref()),
            AggregateFunction::Average => self.total.average(self.count),
            AggregateFunction::Statistic(statistic) => match &self.sums {
                Some(sums) => sums.statistic(statistic, self.count),
                None => Ok(Value::Null),
            },
            AggregateFunction::Regression(regression) => {
                let sums = self.sums.as_ref();
                Ok(sums.map_or(Value::Null, |sums| sums.regression(regression)))
            }
            AggregateFunction::Percentile { is_continuous } => {
                statistics::percentile(&self.collected, is_continuous)
            }
            AggregateFunction::Mode => Ok(statistics::mode(&self.collected)),
            AggregateFunction::Min
            | AggregateFunction::Max
            | AggregateFunction::BitAnd
            | AggregateFunction::BitOr
            | AggregateFunction::BitXor
            | AggregateFunction::BoolAnd
            | AggregateFunction::BoolOr => Ok(self.value.unwrap_or(Value::Null)),
            AggregateFunction::ArrayAgg => {
                let array = match self.value {
                    Some(array) => array,
                    None => {
                        let values = self.collected.into_iter().map(|one| one.value);
                        Value::Array(values.collect())
                    }
                };
                within_value(outside(&array))?;
                Ok(array)
            }
            AggregateFunction::StringAgg => joined(&self.collected),
            AggregateFunction::JsonAgg { binary, lines } => {
                let text = json_array(&self.collected, lines && !binary)?;
                json::aggregated(text, binary)
            }
            AggregateFunction::JsonObjectAgg { binary } => {
                json::aggregated(json_object(&self.collected)?, binary)
            }
        }
    }
}

/// The order of two collected values: by the aggregate's ORDER BY; without it, those of a DISTINCT aggregate by their
/// own order.
fn compare(aggregate: &Aggregate, a: &Collected, b: &Collected) -> Ordering {
    if aggregate.order.is_empty() {
        return a.value.total_cmp(&b.value);
    }
    let keys = a.keys.iter().zip(&b.keys).zip(&aggregate.order);
    let mut orders = keys.map(|((a, b), (_, descending, nulls_first))| {
        super::finish::compare(a, b, *descending, *nulls_first)
    });
    orders
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

fn joined(collected: &[Collected]) -> Result<Value, Failure> {
    let mut out = String::new();
    for (place, one) in collected.iter().enumerate() {
        if let (true, Value::Text(separator)) = (place > 0, &one.separator) {
            out.push_str(separator);
        }
        if let Value::Text(text) = &one.value {
            out.push_str(text);
        }
        within_value(out.len())?;
    }
    Ok(Value::Text(out.into()))
}

/// The array of JSON values, as PostgreSQL writes it.
fn json_array(collected: &[Collected], lines: bool) -> Result<String, Failure> {
    let mut out = String::from("[");
    for (place, one) in collected.iter().enumerate() {
        if place > 0 {
            out.push_str(if lines { ", \n " } else { ", " });
        }
        if let Value::Text(text) = &one.value {
            out.push_str(text);
        }
        within_value(out.len())?;
    }
    out.push(']');
    Ok(out)
}

/// The object of keys and JSON values, as PostgreSQL writes it.
fn json_object(collected: &[Collected]) -> Result<String, Failure> {
    let mut out = String::from("{ ");
    for (place, one) in collected.iter().enumerate() {
        out.push_str(if place > 0 { ", " } else { "" });
        if let (Value::Text(key), Value::Text(value)) = (&one.value, &one.separator) {
            json::push_string(&mut out, key);
            out.push_str(" : ");
            out.push_str(value);
        }
        within_value(out.len())?;
    }
    out.push_str(" }");
    Ok(out)
}

impl Total {
    /// Adds an integer, or a decimal of this scale.
    fn add_integer(&mut self, int: i64, scale: Option<u16>) -> Result<(), Failure> {
        match (&mut *self, scale) {
            (Total::Int(total), None) => *total += i128::from(int),
            (Total::Scaled(total, of), Some(scale)) if *of == scale => *total += i128::from(int),
            (Total::None, Some(scale)) => *self = Total::Scaled(i128::from(int), scale),
            (_, None) => self.add(ValueRef::Int(int), false)?,
            (_, Some(scale)) => {
                self.add(ValueRef::Numeric(Decimal::from_scaled(int, scale)), false)?;
            }
        }
        Ok(())
    }

    /// Adds a sum of integers, or of decimals of this scale. Returns whether it could, as they are.
    fn add_sum(&mut self, sum: i128, of: Option<u16>) -> bool {
        match (&mut *self, of) {
            (Total::None, None) => *self = Total::Int(sum),
            (Total::None, Some(scale)) => *self = Total::Scaled(sum, scale),
            (Total::Int(total), None) => *total += sum,
            (Total::Scaled(total, scale), Some(of)) if *scale == of => *total += sum,
            _ => return false,
        }
        true
    }

    fn add(&mut self, value: ValueRef<'_>, single: bool) -> Result<(), Failure> {
        if let Total::Scaled(total, scale) = *self {
            *self = Total::Numeric(Decimal::from_parts(total, scale).map_err(decimal_failure)?);
        }
        *self = match (&self, value) {
            (Total::None, ValueRef::Int(i)) => Total::Int(i128::from(i)),
            (Total::Int(total), ValueRef::Int(i)) => Total::Int(total + i128::from(i)),
            (Total::None, ValueRef::Numeric(d)) => Total::Numeric(d),
            (Total::Numeric(total), ValueRef::Numeric(d)) => {
                Total::Numeric(total.try_add(d).map_err(decimal_failure)?)
            }
            (Total::None, ValueRef::Other(Value::Float(f))) => Total::Float(*f),
            (Total::Float(total), ValueRef::Other(Value::Float(f))) => {
                let sum = total + f;
                let sum = if single { f64::from(sum as f32) } else { sum };
                if sum.is_infinite() && total.is_finite() && f.is_finite() {
                    return Err(failure("22003", "value out of range: overflow"));
                }
                Total::Float(sum)
            }
            _ => {
                let message = "a value known only at commit cannot be aggregated";
                return Err(failure("XX000", message));
            }
        };
        Ok(())
    }

    fn sum(self, input: Option<&DataType>) -> Result<Value, Failure> {
        Ok(match self {
            Total::None => Value::Null,
            Total::Int(total) if input == Some(&DataType::Int8) => {
                Value::Numeric(Decimal::from_parts(total, 0).map_err(decimal_failure)?)
            }
            Total::Int(total) => Value::Int(
                i64::try_from(total).map_err(|_| failure("22003", "bigint out of range"))?,
            ),
            Total::Scaled(total, scale) => {
                Value::Numeric(Decimal::from_parts(total, scale).map_err(decimal_failure)?)
            }
            Total::Numeric(total) => Value::Numeric(total),
            Total::Float(total) => Value::Float(total),
        })
    }

    fn average(self, count: i64) -> Result<Value, Failure> {
        let total = match self {
            Total::None => return Ok(Value::Null),
            Total::Float(total) => return Ok(Value::Float(total / count as f64)),
            Total::Int(total) => Decimal::from_parts(total, 0).map_err(decimal_failure)?,
            Total::Scaled(total, scale) => {
                Decimal::from_parts(total, scale).map_err(decimal_failure)?
            }
            Total::Numeric(total) => total,
        };
        total
            .try_div(Decimal::from_i64(count))
            .map(Value::Numeric)
            .map_err(decimal_failure)
    }
}

/// A step that groups tuples.
pub(super) struct GroupStep<'p> {
    source: usize,
    keys: &'p [Expression],
    aggregates: &'p [Aggregate],
    grand: bool,
}

/// The groups so far.
pub(super) struct Groups<'o> {
    /// The parent's tuples, if there is a parent.
    owners: Option<&'o [u32]>,
    /// A tuple of each group.
    indices: Indices,
    /// The aggregates of each group.
    states: Vec<State>,
    of_key: FxHashMap<Fingerprint, usize>,
    of_owner: FxHashMap<u32, usize>,
    /// For grand totals: whether the group has a tuple of its own.
    filled: Vec<bool>,
}

impl<'p> GroupStep<'p> {
    /// The step, if it groups.
    pub(super) fn of(step: &'p Step) -> Option<GroupStep<'p>> {
        match step {
            Step::Group {
                source,
                keys,
                aggregates,
                grand,
            } => Some(GroupStep {
                source: *source,
                keys,
                aggregates,
                grand: *grand,
            }),
            _ => None,
        }
    }

    /// The groups before the first tuple: the grand totals.
    pub(super) fn begin<'o>(&self, owners: Option<&'o [u32]>, batch: &Batch<'_>) -> Groups<'o> {
        let mut groups = Groups {
            owners,
            indices: Indices::new(),
            states: Vec::new(),
            of_key: FxHashMap::default(),
            of_owner: FxHashMap::default(),
            filled: Vec::new(),
        };
        if self.grand {
            let mut blank = vec![NONE; batch.stride];
            for owner in owners.unwrap_or(&[NONE]) {
                blank[0] = *owner;
                let group = groups.add(self, &blank);
                if owners.is_some() {
                    groups.of_owner.insert(*owner, group);
                }
            }
            groups.filled = vec![false; groups.indices.len() / batch.stride];
        }
        groups
    }
}

impl Groups<'_> {
    /// A new group, which this tuple represents.
    fn add(&mut self, step: &GroupStep<'_>, tuple: &[u32]) -> usize {
        let (group, first) = (self.indices.len() / tuple.len(), self.indices.len());
        self.indices.extend_from_slice(tuple);
        self.indices[first + step.source] = group as u32;
        self.states
            .extend(step.aggregates.iter().map(|_| State::default()));
        group
    }
}

impl<T: Transaction> Run<'_, T> {
    /// Groups the tuples: the first of each group goes on, with its aggregates as a source. A `grand` total (no GROUP
    /// BY) has a row for each owner, even without tuples.
    pub(super) async fn group(
        &mut self,
        step: &GroupStep<'_>,
        owners: Option<&[u32]>,
        batch: &mut Batch<'_>,
    ) -> Result<(), TransactionError> {
        let mut groups = step.begin(owners, batch);
        if batch.len() <= PIECE_TUPLES {
            self.add_piece(step, &mut groups, true, batch).await?;
        } else {
            let all = std::mem::take(&mut batch.indices);
            for piece in all.chunks(PIECE_TUPLES * batch.stride) {
                batch.indices = Indices::from_slice(piece);
                self.add_piece(step, &mut groups, false, batch).await?;
            }
        }
        self.end_groups(step, groups, batch).await
    }

    /// Groups further tuples. `only` if there are no others.
    pub(super) async fn add_piece(
        &mut self,
        step: &GroupStep<'_>,
        groups: &mut Groups<'_>,
        only: bool,
        batch: &Batch<'_>,
    ) -> Result<(), TransactionError> {
        let total = step.grand && groups.owners.is_none();
        if total && batch.len() > 0 {
            self.context.budget.spend(batch.len() / LANES);
            for (state, aggregate) in groups.states.iter_mut().zip(step.aggregates) {
                state.together = self.add_together(aggregate, batch, only, state);
            }
        }
        // All aggregates are computed, so the one group only needs a tuple to represent it.
        let complete = total && groups.states.iter().all(|state| state.together);
        let count = match complete {
            true => batch.len().min(1),
            false => batch.len(),
        };
        let mut tuple = 0;
        loop {
            self.add_some(step, groups, batch, count, &mut tuple)?;
            self.pause_if_due().await?;
            if tuple == count {
                return Ok(());
            }
        }
    }

    /// Adds the next tuples to their groups, until a pause is due.
    fn add_some(
        &self,
        step: &GroupStep<'_>,
        groups: &mut Groups<'_>,
        batch: &Batch<'_>,
        count: usize,
        tuple: &mut usize,
    ) -> Result<(), Failure> {
        let stride = batch.stride;
        let budget = &self.context.budget;
        while *tuple < count && !budget.is_due() {
            let frame = self.frame(batch, *tuple);
            let own = batch.tuple(*tuple);
            let group = if step.grand {
                let group = match groups.owners {
                    None => 0,
                    Some(_) => groups.of_owner[&own[0]],
                };
                // The representative's columns are those of some tuple of the group.
                if !groups.filled[group] {
                    groups.filled[group] = true;
                    groups.indices[group * stride..(group + 1) * stride].copy_from_slice(own);
                    groups.indices[group * stride + step.source] = group as u32;
                }
                group
            } else {
                let mut print = Fingerprint::new();
                print.extend_from_slice(&own[0].to_le_bytes());
                for key in step.keys {
                    push_fingerprint(&mut print, &key.evaluate(&frame)?);
                }
                match groups.of_key.get(&print) {
                    Some(group) => *group,
                    None => {
                        let group = groups.add(step, own);
                        budget.hold(
                            size_of::<Fingerprint>()
                                + print.len()
                                + size_of_val(own)
                                + step.aggregates.len() * size_of::<State>(),
                        )?;
                        groups.of_key.insert(print, group);
                        group
                    }
                }
            };
            let first = group * step.aggregates.len();
            for (state, aggregate) in groups.states[first..].iter_mut().zip(step.aggregates) {
                if !state.together {
                    state.add(aggregate, &frame)?;
                }
            }
            *tuple += 1;
            budget.spend(1);
        }
        Ok(())
    }

    /// Makes the groups the batch's tuples.
    pub(super) async fn end_groups(
        &mut self,
        step: &GroupStep<'_>,
        groups: Groups<'_>,
        batch: &mut Batch<'_>,
    ) -> Result<(), TransactionError> {
        let mut values = Vec::with_capacity(groups.states.len());
        for (place, mut state) in groups.states.into_iter().enumerate() {
            let aggregate = &step.aggregates[place % step.aggregates.len()];
            if !state.collected.is_empty() && (aggregate.distinct || !aggregate.order.is_empty()) {
                let collected = std::mem::take(&mut state.collected);
                let order = |a: &Collected, b: &Collected| compare(aggregate, a, b);
                state.collected = self.sorted(collected, order).await?;
            }
            self.context.budget.spend(1 + state.collected.len());
            let value = state.finish(aggregate)?;
            self.context.budget.hold(bytes(&value))?;
            values.push(value);
            self.pause_if_due().await?;
        }
        batch.indices = groups.indices;
        batch.sources[step.source] = Source::Values {
            width: step.aggregates.len().max(1),
            values,
        };
        Ok(())
    }

    /// Adds all tuples to an aggregate at once, if none of them can fail; otherwise adds nothing and returns false.
    /// `only` if the batch has all tuples.
    fn add_together(
        &self,
        aggregate: &Aggregate,
        batch: &Batch<'_>,
        only: bool,
        state: &mut State,
    ) -> bool {
        if aggregate.filter.is_some() {
            return false;
        }
        let count = batch.len() as i64;
        if aggregate.arguments.is_empty() {
            state.count += count;
            return true;
        }
        if only && aggregate.function == AggregateFunction::ArrayAgg {
            let Some(array) = self.array_together(aggregate, batch) else {
                return false;
            };
            state.count = count;
            state.value = Some(array);
            return true;
        }
        let Some(Summand { value, scale }) = &aggregate.summand else {
            return false;
        };
        let mut total = 0i128;
        let mut column = [0; LANES];
        for tuples in Tuples::of(batch, self.variables) {
            if value.column(&tuples, &mut column).is_none() {
                return false;
            }
            let ints = column[..tuples.len()].iter();
            total += ints.map(|int| i128::from(*int)).sum::<i128>();
        }
        if !state.total.add_sum(total, *scale) {
            return false;
        }
        state.count += count;
        true
    }

    /// The result of `array_agg` for all tuples, if they are in its order.
    fn array_together(&self, aggregate: &Aggregate, batch: &Batch<'_>) -> Option<Value> {
        let unordered = aggregate.order.is_empty();
        if aggregate.distinct || !(unordered || aggregate.ascending.is_some()) {
            return None;
        }
        if let Some(key) = &aggregate.ascending {
            let mut before = i64::MIN;
            let mut column = [0; LANES];
            for tuples in Tuples::of(batch, self.variables) {
                key.column(&tuples, &mut column)?;
                for key in &column[..tuples.len()] {
                    if *key < before {
                        return None;
                    }
                    before = *key;
                }
            }
        }
        let argument = aggregate.arguments.first()?;
        let mut values = Vec::with_capacity(batch.len());
        for tuple in 0..batch.len() {
            let frame = self.frame(batch, tuple);
            let mut held = Value::Null;
            values.push(argument.operand(&frame, &mut held).ok()?.to_value());
        }
        Some(Value::Array(values.into()))
    }
}
