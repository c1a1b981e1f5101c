//! Computes keys and ranges from a tuple, and keys from an encoded row.
//!
//! A value that is compared with a key column may be of another number type than the column. Equality holds only for a
//! value that the column can hold; a bound is moved to the nearest such value.

use std::ops::Bound;

use anabranch_types::{
    ColumnIndex, DataType, Decimal, Key, KeyRange, Row, TableSchema, Value, key::int_width,
};
use smallvec::SmallVec;

use crate::{
    expression::{
        Expression, Failure, Frame, failure,
        frame::Tuples,
        registers::{Column, LANES},
    },
    plan::{KeyPart, RangePath},
};

/// Appends a part's value to a key. False if no stored key can equal it: it is NULL, or not a value of the column's
/// type.
#[inline]
pub(crate) fn push(key: &mut Key, part: &KeyPart, frame: &Frame<'_>) -> Result<bool, Failure> {
    if let Some(integer) = &part.integer
        && let Some(int) = integer.value.value(frame)
    {
        return Ok(key.push_int(integer.width, int).is_ok());
    }
    push_evaluated(key, part, frame)
}

/// The columns of the keys of some tuples, where all are integers.
pub(crate) struct KeyColumns<'p> {
    parts: &'p [KeyPart],
    columns: SmallVec<[Column; 4]>,
}

impl<'p> KeyColumns<'p> {
    /// `None` if some column needs the full evaluation of each tuple.
    pub(crate) fn of(parts: &'p [KeyPart], tuples: &Tuples<'_>) -> Option<KeyColumns<'p>> {
        let mut columns: SmallVec<[Column; 4]> = SmallVec::from_elem([0; LANES], parts.len());
        for (part, column) in parts.iter().zip(&mut columns) {
            part.integer.as_ref()?.value.column(tuples, column)?;
        }
        Some(KeyColumns { parts, columns })
    }

    /// The key of a tuple; `None` when no stored key can equal it.
    #[inline]
    pub(crate) fn key(&self, lane: usize) -> Option<Key> {
        let mut key = Key::empty();
        for (part, column) in self.parts.iter().zip(&self.columns) {
            let width = part.integer.as_ref()?.width;
            key.push_int(width, column[lane]).ok()?;
        }
        Some(key)
    }
}

fn push_evaluated(key: &mut Key, part: &KeyPart, frame: &Frame<'_>) -> Result<bool, Failure> {
    let mut held = Value::Null;
    let value = part.value.operand(frame, &mut held)?;
    push_value(key, part, &value.to_value())
}

/// As [`push`], for a value.
fn push_value(key: &mut Key, part: &KeyPart, value: &Value) -> Result<bool, Failure> {
    match value {
        Value::Null => Ok(false),
        Value::Pending(_) => Err(pending()),
        Value::Int(_) | Value::Numeric(_) | Value::Float(_) => {
            match exact(value, &part.data_type) {
                Some(value) => Ok(key
                    .try_push_value(&part.data_type, part.nullable, &value)
                    .is_ok()),
                None => Ok(false),
            }
        }
        _ => Ok(key
            .try_push_value(&part.data_type, part.nullable, value)
            .is_ok()),
    }
}

#[cold]
fn pending() -> Failure {
    failure(
        "XX000",
        "a row cannot be looked up by a value known only at commit",
    )
}

/// The same number in a column's type.
fn exact(value: &Value, data_type: &DataType) -> Option<Value> {
    Some(match (value, data_type) {
        (Value::Int(i), DataType::Numeric(_)) => Value::Numeric(Decimal::from_i64(*i)),
        (Value::Int(i), DataType::Real | DataType::Double) => Value::Float(*i as f64),
        (Value::Numeric(d), t) if t.is_integer() => Value::Int(d.to_scaled(0)?),
        (Value::Numeric(d), DataType::Real | DataType::Double) => Value::Float(d.to_f64()),
        (Value::Float(f), t) if t.is_integer() => {
            let whole = f.trunc() == *f && f.abs() < 9e15;
            Value::Int(whole.then_some(*f as i64)?)
        }
        (Value::Float(f), DataType::Numeric(_)) => Value::Numeric(Decimal::from_f64(*f).ok()?),
        _ => value.clone(),
    })
}

/// The range for a tuple; `None` when nothing can be in it.
pub(crate) fn range(path: &RangePath, frame: &Frame<'_>) -> Result<Option<KeyRange>, Failure> {
    let mut prefix = Key::empty();
    for part in &path.prefix {
        if !push(&mut prefix, part, frame)? {
            return Ok(None);
        }
    }
    let mut lower = Bound::Unbounded;
    let mut upper = Bound::Unbounded;
    if let Some((part, inclusive)) = &path.lower {
        match bound(part, *inclusive, true, frame)? {
            Edge::Nothing => return Ok(None),
            Edge::Open => {}
            Edge::At(bound) => lower = bound,
        }
        if part.nullable && path.upper.is_none() {
            // NULLs come after all values, and no bound includes them.
            upper = Bound::Included(Key::from_bytes(&[0]));
        }
    }
    if let Some((part, inclusive)) = &path.upper {
        match bound(part, *inclusive, false, frame)? {
            Edge::Nothing => return Ok(None),
            Edge::Open if part.nullable => upper = Bound::Included(Key::from_bytes(&[0])),
            Edge::Open => {}
            Edge::At(bound) => upper = bound,
        }
    }
    Ok(Some(KeyRange {
        prefix,
        lower,
        upper,
    }))
}

enum Edge {
    /// No value satisfies the bound.
    Nothing,
    /// Every value does.
    Open,
    At(Bound<Key>),
}

fn bound(
    part: &KeyPart,
    inclusive: bool,
    is_lower: bool,
    frame: &Frame<'_>,
) -> Result<Edge, Failure> {
    let value = part.value.evaluate(frame)?;
    let nearest = match (&value, &part.data_type) {
        (Value::Null, _) => return Ok(Edge::Nothing),
        (Value::Pending(_), _) => return Err(pending()),
        (Value::Int(_) | Value::Numeric(_) | Value::Float(_), t) => match nearest(&value, t) {
            Some(nearest) => nearest,
            // Approximate: the conjunct is tested again on the rows.
            None => return Ok(Edge::Open),
        },
        _ => Nearest { value, exact: true },
    };
    let mut key = Key::empty();
    if key
        .try_push_value(&part.data_type, part.nullable, &nearest.value)
        .is_err()
    {
        let negative = match &nearest.value {
            Value::Int(i) => *i < 0,
            Value::Numeric(d) => d.is_negative(),
            Value::Float(f) => *f < 0.0,
            _ => return Ok(Edge::Open),
        };
        // Beyond one end of the column's type.
        return Ok(if negative == is_lower {
            Edge::Open
        } else {
            Edge::Nothing
        });
    }
    // An inexact value is just above the nearest one.
    let included = match (nearest.exact, is_lower) {
        (true, _) => inclusive,
        (false, true) => false,
        (false, false) => true,
    };
    Ok(Edge::At(if included {
        Bound::Included(key)
    } else {
        Bound::Excluded(key)
    }))
}

/// The greatest value of a column's type that is not above a number.
struct Nearest {
    value: Value,
    exact: bool,
}

fn nearest(value: &Value, data_type: &DataType) -> Option<Nearest> {
    let decimal = match value {
        Value::Int(i) if data_type.is_integer() => {
            return Some(Nearest {
                value: Value::Int(*i),
                exact: true,
            });
        }
        Value::Int(i) => Decimal::from_i64(*i),
        Value::Numeric(d) => *d,
        Value::Float(f) => match data_type {
            DataType::Double => {
                return Some(Nearest {
                    value: Value::Float(*f),
                    exact: true,
                });
            }
            _ => Decimal::from_f64(*f).ok()?,
        },
        _ => return None,
    };
    match data_type {
        t if t.is_integer() => {
            let floor = decimal.floor();
            let value = Value::Int(floor.to_scaled(0).unwrap_or(if decimal.is_negative() {
                i64::MIN
            } else {
                i64::MAX
            }));
            Some(Nearest {
                value,
                exact: floor == decimal,
            })
        }
        DataType::Numeric(None) => Some(Nearest {
            value: Value::Numeric(decimal),
            exact: true,
        }),
        DataType::Numeric(Some(bounds)) => {
            let mut floor = decimal.trunc(i32::from(bounds.scale)).ok()?;
            let exact = floor == decimal;
            if !exact && decimal.is_negative() {
                floor = floor.try_sub(Decimal::from_scaled(1, bounds.scale)).ok()?;
            }
            Some(Nearest {
                value: Value::Numeric(floor),
                exact,
            })
        }
        DataType::Double => Some(Nearest {
            value: Value::Float(decimal.to_f64()),
            exact: true,
        }),
        _ => None,
    }
}

/// LIMIT plus OFFSET as a number of rows.
pub(crate) fn row_limit(
    limit: &(Expression, Option<Expression>),
    frame: &Frame<'_>,
) -> Result<Option<u32>, Failure> {
    let count = |expression: &Expression| -> Result<Option<u64>, Failure> {
        match expression.evaluate(frame)? {
            Value::Int(i) => Ok(Some(u64::try_from(i).unwrap_or(0))),
            _ => Ok(None),
        }
    };
    let Some(most) = count(&limit.0)? else {
        return Ok(None);
    };
    let skipped = match &limit.1 {
        Some(offset) => count(offset)?.unwrap_or(0),
        None => 0,
    };
    Ok(u32::try_from(most.saturating_add(skipped)).ok())
}

/// The primary key of an encoded row.
pub(super) fn primary_key(schema: &TableSchema, row: &Row) -> Key {
    let mut key = Key::empty();
    for column in &schema.primary_key {
        push_column(schema, row, *column, &mut key);
    }
    key
}

/// Appends a column of an encoded row to a key.
pub(super) fn push_column(schema: &TableSchema, row: &Row, column: ColumnIndex, key: &mut Key) {
    let described = &schema.columns[column.index()];
    if let (false, true, Some(at)) = (
        described.nullable,
        described.data_type.is_integer(),
        schema.layout.stored_int(column),
    ) && let Some(int) = row.stored(at)
        && key.push_int(int_width(&described.data_type), int).is_ok()
    {
        return;
    }
    let value = row.get(&schema.layout, column);
    key.push_value(&described.data_type, described.nullable, &value);
}
