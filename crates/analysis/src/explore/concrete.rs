//! Cases from the solver's models: a row and calls that may merge into an invalid one, run.
//!
//! The numbers of such a case are as far from random ones as the constraint's are. What the model leaves open (the
//! other columns and rows, the other parameters, the order of the calls) is random, in several tries, and only what
//! breaks when it is run counts.

use anabranch_sql::summary::{Comparison, Term};
use anabranch_types::{DataType, Decimal, TableId, Value};

use super::World;
use super::call::{Call, Side};
use super::case::Case;
use super::generate::Generator;
use crate::proof::{InvalidMerge, ModelCall};

/// Cases tried for one invalid merge.
pub(super) const CASES_MAX: u32 = 24;

impl Generator<'_> {
    /// Makes a case of an invalid merge; it may not break, or not even run.
    pub(super) fn made(&mut self, merge: &InvalidMerge) -> Case {
        let world = self.source.world;
        let state = self.any_ancestor();
        let mut rows = state.rows(world.schema());
        let places = rows.iter().enumerate();
        let places: Vec<usize> = places
            .filter(|(_, (table, _))| *table == merge.table)
            .map(|(place, _)| place)
            .collect();
        let place = match self.random.pick(&places) {
            Some(place) => *place,
            None => {
                let values = self.row(merge.table, &state);
                rows.push((merge.table, values));
                rows.len() - 1
            }
        };
        for (column, value) in &merge.row {
            rows[place].1[column.index()] = value.clone();
        }
        let row = rows[place].1.clone();
        let mut sides: [Vec<Call>; 2] = Default::default();
        let mut number = 0;
        for of_model in &merge.calls {
            if of_model.guessed && self.random.one_in(3) {
                continue;
            }
            number += 1;
            let side = if of_model.on_left {
                Side::Left
            } else {
                Side::Right
            };
            sides[usize::from(!of_model.on_left)].push(Call {
                procedure: of_model.owner,
                arguments: self.completed(of_model, &row, &rows, &merge.numbers),
                side,
                number,
            });
        }
        // Timestamps: any order.
        let mut calls = Vec::new();
        while let Some(side) = match (sides[0].is_empty(), sides[1].is_empty()) {
            (true, true) => None,
            (true, false) => Some(1),
            (false, true) => Some(0),
            (false, false) => Some(usize::from(self.random.one_in(2))),
        } {
            let next = self.random.below(sides[side].len() as u64) as usize;
            calls.push(sides[side].remove(next));
        }
        Case { rows, calls }
    }

    /// The arguments of a call: those that the model gives, those that name the row, those that name other rows,
    /// and random ones.
    fn completed(
        &mut self,
        of_model: &ModelCall,
        row: &[Value],
        rows: &[(TableId, Vec<Value>)],
        numbers: &[i64],
    ) -> Vec<Value> {
        let world = self.source.world;
        let procedure = &world.application.procedures[of_model.owner];
        let types: Vec<DataType> = procedure
            .parameters()
            .iter()
            .map(|(_, t)| t.clone())
            .collect();
        let mut arguments: Vec<Option<Value>> = vec![None; types.len()];
        for (parameter, value) in &of_model.arguments {
            arguments[*parameter] = Some(value.clone());
        }
        for (column, parameter) in &of_model.of_row {
            let value = in_array(row[column.index()].clone(), &types[*parameter]);
            arguments[*parameter].get_or_insert(value);
        }
        let statements = &world.application.summaries()[of_model.owner].statements;
        for access in statements.iter().flat_map(|statement| &statement.accesses) {
            let there: Vec<&Vec<Value>> = rows
                .iter()
                .filter(|(table, _)| *table == access.table)
                .map(|(_, values)| values)
                .collect();
            let Some(other) = self.random.pick(&there).copied() else {
                continue;
            };
            for condition in &access.conditions {
                if condition.comparison == Comparison::Equal
                    && let Term::Parameter(p) | Term::Element(p) = condition.term
                    && !self.random.one_in(4)
                {
                    let value = in_array(other[condition.column.index()].clone(), &types[p]);
                    arguments[p].get_or_insert(value);
                }
            }
        }
        let any = self.arguments(of_model.owner, &super::state::State::default());
        let numbers = numbers.iter().map(|number| Value::Int(*number));
        let numbers: Vec<Value> = numbers.collect();
        let each = arguments.into_iter().zip(any).zip(&types);
        each.map(|((argument, any), data_type)| {
            argument.unwrap_or_else(|| {
                let from = match self.random.below(4) {
                    0 | 1 => &of_model.written,
                    2 => &numbers,
                    _ => return one_element(any),
                };
                let fitting: Vec<Value> =
                    from.iter().filter_map(|v| fitted(v, data_type)).collect();
                let picked = self.random.pick(&fitting).cloned();
                picked.unwrap_or_else(|| one_element(any))
            })
        })
        .collect()
    }
}

/// Tuples of several arrays have as many elements in each: one.
pub(super) fn one_element(value: Value) -> Value {
    match value {
        Value::Array(values) => Value::Array(values.iter().take(1).cloned().collect()),
        other => other,
    }
}

/// Converts a value to this type, if possible.
pub(super) fn fitted(value: &Value, data_type: &DataType) -> Option<Value> {
    if let DataType::Array(of) = data_type {
        return fitted(value, of).map(|value| in_array(value, data_type));
    }
    match (value, data_type) {
        (Value::Int(n), DataType::Numeric(_)) => Some(Value::Numeric(Decimal::from_i64(*n))),
        (Value::Int(_), _) => data_type.is_integer().then(|| value.clone()),
        (Value::Numeric(_), DataType::Numeric(_))
        | (Value::Text(_), DataType::Text | DataType::Varchar(_))
        | (Value::Bool(_), DataType::Bool)
        | (Value::Uuid(_), DataType::Uuid)
        | (Value::Float(_), DataType::Real | DataType::Double)
        | (Value::Timestamp(_), DataType::Timestamp | DataType::TimestampTz)
        | (Value::Date(_), DataType::Date) => Some(value.clone()),
        (Value::Text(label), DataType::Enum(of)) => of.place(label).map(|_| value.clone()),
        (Value::Null, _) => Some(Value::Null),
        _ => None,
    }
}

pub(super) fn in_array(value: Value, data_type: &DataType) -> Value {
    match data_type {
        DataType::Array(_) => Value::Array(vec![value].into()),
        _ => value,
    }
}

/// The numbers that procedures writing a table name, the largest first.
pub(super) fn numbers(world: &World<'_>, table: TableId) -> Vec<i64> {
    let catalog = world.catalog();
    let mut numbers: Vec<i64> = Vec::new();
    for summary in world.application.summaries() {
        let mut accesses = summary.statements.iter().flat_map(|s| &s.accesses);
        if !accesses.any(|access| access.table == table && !access.writes.is_empty()) {
            continue;
        }
        let file = catalog.files.get(usize::from(summary.span.file));
        let (start, end) = (summary.span.start as usize, summary.span.end as usize);
        let text = file.and_then(|file| file.text.get(start..end));
        let words = text
            .unwrap_or_default()
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        numbers.extend(
            words
                .filter_map(|word| word.parse::<i64>().ok())
                .filter(|n| *n > 1),
        );
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers.reverse();
    numbers
}
