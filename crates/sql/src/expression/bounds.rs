//! The bounds of types: the range of an integer, the precision of a numeric, the length of a text.

use anabranch_types::{DataType, Decimal, Value};

use super::{
    Failure,
    arithmetic::{Domain, decimal_failure, in_range},
    failure,
};

/// The domain of an integer type.
#[inline]
pub(super) fn integer_domain(data_type: &DataType) -> Option<Domain> {
    match data_type {
        DataType::Int2 => Some(Domain::Int2),
        DataType::Int4 => Some(Domain::Int4),
        DataType::Int8 => Some(Domain::Int8),
        _ => None,
    }
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
