//! Casts between types, and what a column's type does to a value stored in it.

use anabranch_types::{DataType, Decimal, Value};
use compact_str::CompactString;

use super::{
    Failure,
    arithmetic::{Domain, decimal_failure, in_range},
    datetime, failure,
    text::{format_text, parse},
};

/// The domain of an integer type.
#[inline]
fn integer_domain(data_type: &DataType) -> Option<Domain> {
    match data_type {
        DataType::Int2 => Some(Domain::Int2),
        DataType::Int4 => Some(Domain::Int4),
        DataType::Int8 => Some(Domain::Int8),
        _ => None,
    }
}

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

/// An integer checked against the range of an integer type.
#[inline]
pub(crate) fn bound_int(int: i64, data_type: &DataType) -> Result<i64, Failure> {
    match integer_domain(data_type) {
        Some(domain) => in_range(domain, Some(int)),
        None => Ok(int),
    }
}

/// A decimal rounded to the scale of a `numeric(p, s)` and checked against its precision.
#[inline]
pub(crate) fn bound_decimal(decimal: Decimal, data_type: &DataType) -> Result<Decimal, Failure> {
    match data_type {
        DataType::Numeric(Some(bounds)) => decimal.rescale(*bounds).map_err(decimal_failure),
        _ => Ok(decimal),
    }
}

/// As [`bound_decimal`].
pub(crate) fn bound_numeric(decimal: Decimal, data_type: &DataType) -> Result<Value, Failure> {
    bound_decimal(decimal, data_type).map(Value::Numeric)
}

/// A text checked against the length of `varchar(n)` or `char(n)`. Blanks at the end may be cut
/// always, other characters only by an explicit cast; `char(n)` is held without them.
pub(crate) fn bound_text(
    value: Value,
    data_type: &DataType,
    explicit: bool,
) -> Result<Value, Failure> {
    let Value::Text(mut text) = value else {
        return Ok(value);
    };
    let (limit, padded) = match data_type {
        DataType::Varchar(Some(limit)) => (*limit as usize, false),
        DataType::Char(limit) => (*limit as usize, true),
        _ => return Ok(Value::Text(text)),
    };
    // No text has more characters than bytes.
    if text.len() > limit
        && let Some((cut, _)) = text.char_indices().nth(limit)
    {
        if !explicit && !text[cut..].bytes().all(|b| b == b' ') {
            let message = format!("value too long for type {data_type}");
            return Err(failure("22001", message));
        }
        text.truncate(cut);
    }
    if padded {
        let kept = text.trim_end_matches(' ').len();
        text.truncate(kept);
    }
    Ok(Value::Text(text))
}
