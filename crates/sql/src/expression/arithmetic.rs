//! Arithmetic in the domains of PostgreSQL's number types.

use anabranch_types::decimal::DecimalError;
use anabranch_types::{DataType, Decimal, Pending, Value};

use super::{Failure, failure};

/// A binary operator on numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
}

impl Operator {
    /// The operator as SQL writes it.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
            Operator::Modulo => "%",
            Operator::Power => "^",
            Operator::BitAnd => "&",
            Operator::BitOr => "|",
            Operator::BitXor => "#",
            Operator::ShiftLeft => "<<",
            Operator::ShiftRight => ">>",
        }
    }
}

/// The domain of the operands and the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    Int2,
    Int4,
    Int8,
    Numeric,
    Real,
    Double,
    /// `date ± integer`, `integer + date`, `date - date`.
    Date,
}

impl Domain {
    /// The domain of a type, if it is a number's.
    pub(crate) fn of(data_type: &DataType) -> Option<Domain> {
        Some(match data_type {
            DataType::Int2 => Domain::Int2,
            DataType::Int4 => Domain::Int4,
            DataType::Int8 => Domain::Int8,
            DataType::Numeric(_) => Domain::Numeric,
            DataType::Real => Domain::Real,
            DataType::Double => Domain::Double,
            _ => return None,
        })
    }
}

/// Checks that an integer is in its type's range.
#[inline]
pub(crate) fn in_range(domain: Domain, int: Option<i64>) -> Result<i64, Failure> {
    match (domain, int) {
        (Domain::Int4, Some(i)) if i32::try_from(i).is_ok() => Ok(i),
        (Domain::Int8, Some(i)) => Ok(i),
        (Domain::Int2, Some(i)) if i16::try_from(i).is_ok() => Ok(i),
        _ => Err(out_of_range(domain)),
    }
}

#[cold]
fn out_of_range(domain: Domain) -> Failure {
    let message = match domain {
        Domain::Int8 => "bigint out of range",
        Domain::Int2 => "smallint out of range",
        _ => "integer out of range",
    };
    failure("22003", message)
}

/// A decimal operation's failure, with its SQLSTATE.
#[cold]
pub(crate) fn decimal_failure(error: DecimalError) -> Failure {
    Box::new(error.into())
}

#[cold]
fn division_by_zero() -> Failure {
    failure("22012", "division by zero")
}

/// `left operator right`, neither of them NULL.
#[inline]
pub(crate) fn compute(
    operator: Operator,
    domain: Domain,
    left: &Value,
    right: &Value,
) -> Result<Value, Failure> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => integers(operator, domain, *a, *b).map(Value::Int),
        (Value::Numeric(a), Value::Numeric(b)) => {
            decimals(operator, domain, *a, *b).map(Value::Numeric)
        }
        (Value::Float(a), Value::Float(b)) => floats(operator, domain, *a, *b),
        (Value::Pending(pending), Value::Int(b)) => {
            let shift = match operator {
                Operator::Add => Some(*b),
                Operator::Subtract => b.checked_neg(),
                _ => None,
            };
            shifted(pending, shift)
        }
        (Value::Int(a), Value::Pending(pending)) if operator == Operator::Add => {
            shifted(pending, Some(*a))
        }
        (Value::Date(a), Value::Int(b)) => {
            let days = match operator {
                Operator::Add => i64::from(*a).checked_add(*b),
                _ => i64::from(*a).checked_sub(*b),
            };
            date(days)
        }
        (Value::Int(a), Value::Date(b)) => date(i64::from(*b).checked_add(*a)),
        (Value::Date(a), Value::Date(b)) => Ok(Value::Int(i64::from(*a) - i64::from(*b))),
        _ => Err(undefined(operator, domain)),
    }
}

/// A value known only at commit, moved by a constant.
fn shifted(pending: &Pending, shift: Option<i64>) -> Result<Value, Failure> {
    shift
        .and_then(|shift| pending.offset.checked_add(shift))
        .map(|offset| {
            Value::Pending(Pending {
                slot: pending.slot,
                offset,
            })
        })
        .ok_or_else(|| {
            failure(
                "XX000",
                "a value known only at commit cannot be computed with",
            )
        })
}

fn date(days: Option<i64>) -> Result<Value, Failure> {
    days.and_then(|days| i32::try_from(days).ok())
        .map(Value::Date)
        .ok_or_else(|| failure("22008", "date out of range"))
}

#[cold]
fn undefined(operator: Operator, domain: Domain) -> Failure {
    failure(
        "XX000",
        format!(
            "operator {} is not defined in {domain:?}",
            operator.symbol()
        ),
    )
}

/// `a operator b` for numerics.
#[inline]
pub(crate) fn decimals(
    operator: Operator,
    domain: Domain,
    a: Decimal,
    b: Decimal,
) -> Result<Decimal, Failure> {
    match operator {
        Operator::Add => a.try_add(b),
        Operator::Subtract => a.try_sub(b),
        Operator::Multiply => a.try_mul(b),
        Operator::Divide => a.try_div(b),
        Operator::Modulo => a.try_rem(b),
        _ => return Err(undefined(operator, domain)),
    }
    .map_err(decimal_failure)
}

/// `a operator b` for integers.
#[inline]
pub(crate) fn integers(operator: Operator, domain: Domain, a: i64, b: i64) -> Result<i64, Failure> {
    let result = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide if b == 0 => return Err(division_by_zero()),
        Operator::Divide => a.checked_div(b),
        Operator::Modulo if b == 0 => return Err(division_by_zero()),
        Operator::Modulo => Some(a.checked_rem(b).unwrap_or(0)),
        Operator::BitAnd => Some(a & b),
        Operator::BitOr => Some(a | b),
        Operator::BitXor => Some(a ^ b),
        Operator::ShiftLeft | Operator::ShiftRight => Some(shift(operator, domain, a, b)),
        Operator::Power => return Err(undefined(operator, domain)),
    };
    in_range(domain, result)
}

/// Shifts as C does on PostgreSQL's machines: the count modulo the width, bits lost in silence.
fn shift(operator: Operator, domain: Domain, a: i64, b: i64) -> i64 {
    match (operator, domain) {
        (Operator::ShiftLeft, Domain::Int8) => a.wrapping_shl(b as u32),
        (Operator::ShiftLeft, Domain::Int4) => i64::from((a as i32).wrapping_shl(b as u32)),
        (Operator::ShiftLeft, _) => i64::from((a as i32).wrapping_shl(b as u32) as i16),
        (_, Domain::Int8) => a.wrapping_shr(b as u32),
        (_, Domain::Int4) => i64::from((a as i32).wrapping_shr(b as u32)),
        (_, _) => i64::from((a as i32).wrapping_shr(b as u32) as i16),
    }
}

fn floats(operator: Operator, domain: Domain, a: f64, b: f64) -> Result<Value, Failure> {
    let result = match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide if b == 0.0 && !a.is_nan() => return Err(division_by_zero()),
        Operator::Divide => a / b,
        Operator::Power => return power(a, b).map(Value::Float),
        _ => return Err(undefined(operator, domain)),
    };
    let result = if domain == Domain::Real {
        f64::from(result as f32)
    } else {
        result
    };
    if result.is_infinite() && !a.is_infinite() && !b.is_infinite() {
        return Err(failure("22003", "value out of range: overflow"));
    }
    let vanished = result == 0.0
        && match operator {
            Operator::Multiply => a != 0.0 && b != 0.0,
            Operator::Divide => a != 0.0 && !b.is_infinite(),
            _ => false,
        };
    if vanished {
        return Err(failure("22003", "value out of range: underflow"));
    }
    Ok(Value::Float(result))
}

/// `a ^ b` in double precision.
pub(crate) fn power(a: f64, b: f64) -> Result<f64, Failure> {
    if a == 0.0 && b < 0.0 {
        return Err(failure(
            "2201F",
            "zero raised to a negative power is undefined",
        ));
    }
    if a < 0.0 && b.floor() != b && b.is_finite() {
        let message = "a negative number raised to a non-integer power yields a complex result";
        return Err(failure("2201F", message));
    }
    let result = a.powf(b);
    if result.is_infinite() && a.is_finite() && b.is_finite() {
        return Err(failure("22003", "value out of range: overflow"));
    }
    Ok(result)
}

/// `- value`.
pub(crate) fn negate(domain: Domain, value: Value) -> Result<Value, Failure> {
    match value {
        Value::Int(i) => in_range(domain, i.checked_neg()).map(Value::Int),
        Value::Numeric(d) => Ok(Value::Numeric(d.negated())),
        Value::Float(f) => Ok(Value::Float(-f)),
        Value::Null => Ok(Value::Null),
        _ => Err(undefined(Operator::Subtract, domain)),
    }
}
