//! Executes GROUP BY and aggregates.

use anabranch_types::{DataType, Decimal, Value, ValueRef};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::Run;
use crate::{
    bind::aggregate::{Aggregate, AggregateFunction},
    expression::{
        Batch, Expression, Failure, Frame, NONE, Source,
        arithmetic::decimal_failure,
        compare::{Fingerprint, push_fingerprint},
        failure,
        frame::{Indices, Tuples},
        registers::LANES,
    },
    plan::integers::Summand,
    transaction::Transaction,
};

/// The state of an aggregate for a group.
#[derive(Debug, Default)]
struct State {
    /// Rows that count: those that pass the filter and are not NULL.
    count: i64,
    total: Total,
    /// The least or greatest, or the conjunction or disjunction, so far.
    value: Option<Value>,
    /// The values of `array_agg` and `string_agg`.
    collected: Vec<Collected>,
    seen: FxHashSet<Fingerprint>,
    /// Whether it has seen all rows.
    together: bool,
}

/// One value that an aggregate collects.
#[derive(Debug)]
struct Collected {
    /// The keys of the aggregate's ORDER BY.
    keys: SmallVec<[Value; 1]>,
    value: Value,
    /// The separator before it, for `string_agg`.
    separator: Value,
}

#[derive(Debug, Default)]
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
    fn add(&mut self, aggregate: &Aggregate, frame: &Frame<'_>) -> Result<(), Failure> {
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
        let mut held = Value::Null;
        let value = argument.operand(frame, &mut held)?;
        let collects = aggregate.function == AggregateFunction::ArrayAgg;
        if value.is_null() && !collects {
            return Ok(());
        }
        if aggregate.distinct {
            let mut print = Fingerprint::new();
            push_fingerprint(&mut print, &value.to_value());
            if !self.seen.insert(print) {
                return Ok(());
            }
        }
        self.count += 1;
        match aggregate.function {
            AggregateFunction::Count => {}
            AggregateFunction::Sum | AggregateFunction::Average => {
                self.total
                    .add(value, aggregate.input == Some(DataType::Real))?;
            }
            AggregateFunction::Min => {
                self.keep(value.to_value(), |new, old| new.total_cmp(old).is_lt())
            }
            AggregateFunction::Max => {
                self.keep(value.to_value(), |new, old| new.total_cmp(old).is_gt())
            }
            AggregateFunction::BoolAnd => {
                self.keep(value.to_value(), |new, _| *new == Value::Bool(false))
            }
            AggregateFunction::BoolOr => {
                self.keep(value.to_value(), |new, _| *new == Value::Bool(true))
            }
            AggregateFunction::ArrayAgg | AggregateFunction::StringAgg => {
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
                self.collected.push(Collected {
                    keys,
                    value: value.to_value(),
                    separator,
                });
            }
        }
        Ok(())
    }

    fn keep(&mut self, new: Value, better: impl Fn(&Value, &Value) -> bool) {
        match &self.value {
            Some(old) if !better(&new, old) => {}
            _ => self.value = Some(new),
        }
    }

    fn finish(mut self, aggregate: &Aggregate) -> Result<Value, Failure> {
        match aggregate.function {
            AggregateFunction::Count => Ok(Value::Int(self.count)),
            _ if self.count == 0 => Ok(Value::Null),
            AggregateFunction::Sum => self.total.sum(aggregate.input.as_ref()),
            AggregateFunction::Average => self.total.average(self.count),
            AggregateFunction::Min
            | AggregateFunction::Max
            | AggregateFunction::BoolAnd
            | AggregateFunction::BoolOr => Ok(self.value.unwrap_or(Value::Null)),
            AggregateFunction::ArrayAgg if self.together => Ok(self.value.unwrap_or(Value::Null)),
            AggregateFunction::ArrayAgg => {
                self.sort(aggregate);
                let values = self.collected.into_iter().map(|one| one.value);
                Ok(Value::Array(values.collect()))
            }
            AggregateFunction::StringAgg => {
                self.sort(aggregate);
                Ok(joined(&self.collected))
            }
        }
    }

    /// Sorts the values by the aggregate's ORDER BY; without it, those of a DISTINCT aggregate by their own order.
    fn sort(&mut self, aggregate: &Aggregate) {
        if aggregate.order.is_empty() {
            if aggregate.distinct {
                self.collected.sort_by(|a, b| a.value.total_cmp(&b.value));
            }
            return;
        }
        self.collected.sort_by(|a, b| {
            let keys = a.keys.iter().zip(&b.keys).zip(&aggregate.order);
            let mut orders = keys.map(|((a, b), (_, descending, nulls_first))| {
                super::finish::compare(a, b, *descending, *nulls_first)
            });
            orders
                .find(|order| order.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        });
    }
}

fn joined(collected: &[Collected]) -> Value {
    let mut out = String::new();
    for (place, one) in collected.iter().enumerate() {
        if let (true, Value::Text(separator)) = (place > 0, &one.separator) {
            out.push_str(separator);
        }
        if let Value::Text(text) = &one.value {
            out.push_str(text);
        }
    }
    Value::Text(out.into())
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

impl<T: Transaction> Run<'_, T> {
    /// Groups the tuples: the first of each group goes on, with its aggregates as a source. A `grand` total (no GROUP
    /// BY) has a row for each owner, even without tuples.
    pub(super) fn group(
        &self,
        source: usize,
        keys: &[Expression],
        aggregates: &[Aggregate],
        grand: bool,
        owners: Option<&[u32]>,
        batch: &mut Batch<'_>,
    ) -> Result<(), Failure> {
        let stride = batch.stride;
        let mut indices = Indices::new();
        let mut states: Vec<State> = Vec::new();
        let mut groups: FxHashMap<Fingerprint, usize> = FxHashMap::default();
        let mut owner_groups: FxHashMap<u32, usize> = FxHashMap::default();
        let new_group = |states: &mut Vec<State>, indices: &mut Indices, tuple: &[u32]| {
            let group = indices.len() / stride;
            indices.extend_from_slice(tuple);
            indices[group * stride + source] = group as u32;
            states.extend(aggregates.iter().map(|_| State::default()));
            group
        };
        if grand {
            let mut blank = vec![NONE; stride];
            for owner in owners.unwrap_or(&[NONE]) {
                blank[0] = *owner;
                let group = new_group(&mut states, &mut indices, &blank);
                if owners.is_some() {
                    owner_groups.insert(*owner, group);
                }
            }
        }
        let mut filled = vec![false; indices.len() / stride];
        if grand && owners.is_none() && batch.len() > 0 {
            for (state, aggregate) in states.iter_mut().zip(aggregates) {
                state.together = self.add_together(aggregate, batch, state);
            }
        }
        // All aggregates are computed, so the one group only needs a tuple to represent it.
        let complete = grand && owners.is_none() && states.iter().all(|state| state.together);
        let count = match complete {
            true => batch.len().min(1),
            false => batch.len(),
        };
        for tuple in 0..count {
            let frame = self.frame(batch, tuple);
            let own = batch.tuple(tuple);
            let group = if grand {
                let group = match owners {
                    None => 0,
                    Some(_) => owner_groups[&own[0]],
                };
                // The representative's columns are those of some tuple of the group.
                if !filled[group] {
                    filled[group] = true;
                    indices[group * stride..(group + 1) * stride].copy_from_slice(own);
                    indices[group * stride + source] = group as u32;
                }
                group
            } else {
                let mut print = Fingerprint::new();
                print.extend_from_slice(&own[0].to_le_bytes());
                for key in keys {
                    push_fingerprint(&mut print, &key.evaluate(&frame)?);
                }
                match groups.get(&print) {
                    Some(group) => *group,
                    None => {
                        let group = new_group(&mut states, &mut indices, own);
                        groups.insert(print, group);
                        group
                    }
                }
            };
            let first = group * aggregates.len();
            for (state, aggregate) in states[first..].iter_mut().zip(aggregates) {
                if !state.together {
                    state.add(aggregate, &frame)?;
                }
            }
        }
        let mut values = Vec::with_capacity(states.len());
        for (place, state) in states.into_iter().enumerate() {
            values.push(state.finish(&aggregates[place % aggregates.len()])?);
        }
        batch.indices = indices;
        batch.sources[source] = Source::Values {
            width: aggregates.len().max(1),
            values,
        };
        Ok(())
    }

    /// Adds all tuples to an aggregate at once, if none of them can fail; otherwise adds nothing and returns false.
    fn add_together(&self, aggregate: &Aggregate, batch: &Batch<'_>, state: &mut State) -> bool {
        if aggregate.filter.is_some() {
            return false;
        }
        let count = batch.len() as i64;
        if aggregate.arguments.is_empty() {
            state.count = count;
            return true;
        }
        if aggregate.function == AggregateFunction::ArrayAgg {
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
        state.count = count;
        state.total = match scale {
            None => Total::Int(total),
            Some(scale) => Total::Scaled(total, *scale),
        };
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
