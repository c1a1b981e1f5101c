//! The bounds of types: the range of an integer, and what [`anabranch_types::bounds`] has.

use anabranch_types::{DataType, Decimal, Value, bounds};

use super::{
    Failure,
    arithmetic::{Domain, in_range},
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

/// As [`bounds::bound_decimal`].
#[inline]
pub(crate) fn bound_decimal(decimal: Decimal, data_type: &DataType) -> Result<Decimal, Failure> {
    bounds::bound_decimal(decimal, data_type).map_err(Box::new)
}

/// As [`bounds::bound_numeric`].
pub(crate) fn bound_numeric(decimal: Decimal, data_type: &DataType) -> Result<Value, Failure> {
    bounds::bound_numeric(decimal, data_type).map_err(Box::new)
}

/// As [`bounds::bound_text`]; other values are left as they are.
pub(crate) fn bound_text(
    value: Value,
    data_type: &DataType,
    explicit: bool,
) -> Result<Value, Failure> {
    match value {
        Value::Text(text) => bounds::bound_text(text, data_type, explicit)
            .map(Value::Text)
            .map_err(Box::new),
        other => Ok(other),
    }
}
