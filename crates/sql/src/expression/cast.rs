//! Casts between types, and the changes that a column's type makes to a stored value.

use anabranch_types::{DataType, Decimal, Value};
use compact_str::CompactString;

use super::{
    Failure,
    arithmetic::{Domain, decimal_failure, in_range},
    bounds::{bound_numeric, bound_text, integer_domain},
    datetime, failure,
    text::{format_text, parse},
};

/// A value of one type as a value of another. The binder has checked that the cast exists;
/// `explicit` casts cut what is too long for a text type, others refuse it.
///
/// # Errors
/// When the value has no counterpart in the type: out of range, too long, not a number.
pub(crate) fn cast(
    value: Value,
    from: &DataType,
    to: &DataType,
    explicit: bool,
) -> Result<Value, Failure> {
    // First what is frequent, without comparing the types.
    if let (Value::Int(i), Some(domain)) = (&value, integer_domain(to)) {
        return in_range(domain, Some(*i)).map(Value::Int);
    }
    if value.is_null() || from == to {
        return Ok(value);
    }
    match (value, to) {
        (Value::Int(i), DataType::Numeric(_)) => bound_numeric(Decimal::from_i64(i), to),
        (Value::Int(i), DataType::Double) => Ok(Value::Float(i as f64)),
        (Value::Int(i), DataType::Real) => Ok(Value::Float(f64::from(i as f32))),
        (Value::Int(i), DataType::Bool) => Ok(Value::Bool(i != 0)),
        (Value::Bool(b), DataType::Int2 | DataType::Int4 | DataType::Int8) => {
            Ok(Value::Int(i64::from(b)))
        }
        (Value::Numeric(d), DataType::Numeric(_)) => bound_numeric(d, to),
        (Value::Numeric(d), DataType::Int2 | DataType::Int4 | DataType::Int8) => {
            let rounded = d.round(0).map_err(decimal_failure)?;
            in_range(
                Domain::of(to).expect("an integer type has a domain"),
                rounded.to_i64(),
            )
            .map(Value::Int)
        }
        (Value::Numeric(d), DataType::Double) => Ok(Value::Float(d.to_f64())),
        (Value::Numeric(d), DataType::Real) => single(d.to_f64()),
        (Value::Float(f), DataType::Int2 | DataType::Int4 | DataType::Int8) => {
            let rounded = f.round_ties_even();
            let fits =
                (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded);
            let int = fits.then_some(rounded as i64);
            in_range(Domain::of(to).expect("an integer type has a domain"), int).map(Value::Int)
        }
        (Value::Float(f), DataType::Numeric(_)) => {
            let decimal = match from {
                DataType::Real => Decimal::from_f32(f as f32),
                _ => Decimal::from_f64(f),
            };
            bound_numeric(decimal.map_err(decimal_failure)?, to)
        }
        (Value::Float(f), DataType::Real) => single(f),
        (Value::Float(f), DataType::Double) => Ok(Value::Float(f)),
        (Value::Timestamp(t), DataType::Timestamp | DataType::TimestampTz) => {
            Ok(Value::Timestamp(t))
        }
        (Value::Timestamp(t), DataType::Date) => {
            Ok(Value::Date(t.div_euclid(datetime::DAY) as i32))
        }
        (Value::Date(d), DataType::Timestamp | DataType::TimestampTz) => {
            Ok(Value::Timestamp(i64::from(d) * datetime::DAY))
        }
        (Value::Array(list), DataType::Array(target)) => {
            let DataType::Array(source) = from else {
                return Err(failure("XX000", "an array has an array's type"));
            };
            let elements = list
                .iter()
                .map(|v| cast(v.clone(), source, target, explicit));
            Ok(Value::Array(
                elements.collect::<Result<Vec<_>, _>>()?.into(),
            ))
        }
        (Value::Text(text), to) if to.is_text() => bound_text(Value::Text(text), to, explicit),
        (Value::Text(text), to) => parse(&text, to),
        // A pending value is only ever widened: the binder's analysis saw to it.
        (Value::Pending(pending), _) => Ok(Value::Pending(pending)),
        (value, to) if to.is_text() => {
            // A boolean's cast to text is spelt out, unlike its output.
            let text = match &value {
                Value::Bool(truth) => {
                    CompactString::const_new(if *truth { "true" } else { "false" })
                }
                value => CompactString::from(format_text(value, from)),
            };
            bound_text(Value::Text(text), to, explicit)
        }
        (_, to) => Err(failure("42846", format!("cannot cast type {from} to {to}"))),
    }
}

fn single(f: f64) -> Result<Value, Failure> {
    let narrow = f as f32;
    if narrow.is_infinite() && f.is_finite() {
        return Err(failure("22003", "value out of range: overflow"));
    }
    if narrow == 0.0 && f != 0.0 {
        return Err(failure("22003", "value out of range: underflow"));
    }
    Ok(Value::Float(f64::from(narrow)))
}
