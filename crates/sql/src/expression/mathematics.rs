//! Mathematical functions beyond arithmetic.

use anabranch_types::{Decimal, Value, decimal::DecimalError};

use super::{
    Domain, Failure,
    arithmetic::{decimal_failure, in_range},
    failure,
    wide::{self, Wide},
};

/// The binary digits of a power that is computed exactly.
const POWER_BITS_MAX: usize = 16_384;

/// `float.c`: a degree in radians.
const RADIANS_PER_DEGREE: f64 = 0.017_453_292_519_943_295;

/// A function of one `double precision`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfDouble {
    Cbrt,
    Degrees,
    Radians,
    Sin,
    Cos,
    Tan,
    Cot,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    /// To the base of 10.
    Log,
}

impl OfDouble {
    /// The function with this name.
    pub(crate) fn named(name: &str) -> Option<OfDouble> {
        Some(match name {
            "cbrt" => OfDouble::Cbrt,
            "degrees" => OfDouble::Degrees,
            "radians" => OfDouble::Radians,
            "sin" => OfDouble::Sin,
            "cos" => OfDouble::Cos,
            "tan" => OfDouble::Tan,
            "cot" => OfDouble::Cot,
            "asin" => OfDouble::Asin,
            "acos" => OfDouble::Acos,
            "atan" => OfDouble::Atan,
            "sinh" => OfDouble::Sinh,
            "cosh" => OfDouble::Cosh,
            "tanh" => OfDouble::Tanh,
            "asinh" => OfDouble::Asinh,
            "acosh" => OfDouble::Acosh,
            "atanh" => OfDouble::Atanh,
            "log" | "log10" => OfDouble::Log,
            _ => return None,
        })
    }

    fn compute(self, of: f64) -> Result<f64, Failure> {
        let is_outside = match self {
            OfDouble::Sin | OfDouble::Cos | OfDouble::Tan | OfDouble::Cot => of.is_infinite(),
            OfDouble::Asin | OfDouble::Acos | OfDouble::Atanh => of.abs() > 1.0,
            OfDouble::Acosh => of < 1.0,
            _ => false,
        };
        if is_outside {
            return Err(failure("22003", "input is out of range"));
        }
        let result = match self {
            OfDouble::Cbrt => of.cbrt(),
            OfDouble::Degrees => of / RADIANS_PER_DEGREE,
            OfDouble::Radians => of * RADIANS_PER_DEGREE,
            OfDouble::Sin => of.sin(),
            OfDouble::Cos => of.cos(),
            OfDouble::Tan => of.tan(),
            // Infinite at 0, as in PostgreSQL.
            OfDouble::Cot => return Ok(1.0 / of.tan()),
            OfDouble::Asin => of.asin(),
            OfDouble::Acos => of.acos(),
            OfDouble::Atan => of.atan(),
            OfDouble::Sinh => return Ok(of.sinh()),
            OfDouble::Cosh => return Ok(of.cosh()),
            OfDouble::Tanh => of.tanh(),
            OfDouble::Asinh => of.asinh(),
            OfDouble::Acosh => of.acosh(),
            OfDouble::Atanh => return Ok(of.atanh()),
            OfDouble::Log if of == 0.0 => {
                return Err(failure("2201E", "cannot take logarithm of zero"));
            }
            OfDouble::Log if of < 0.0 => {
                let message = "cannot take logarithm of a negative number";
                return Err(failure("2201E", message));
            }
            OfDouble::Log => of.log10(),
        };
        if result.is_infinite() && of.is_finite() {
            return Err(failure("22003", "value out of range: overflow"));
        }
        if result == 0.0 && of != 0.0 && matches!(self, OfDouble::Degrees | OfDouble::Radians) {
            return Err(failure("22003", "value out of range: underflow"));
        }
        Ok(result)
    }
}

/// A mathematical function with the types of its arguments settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mathematics {
    OfDouble(OfDouble),
    Atan2,
    /// `~` of an integer.
    BitNot,
    /// The quotient of two numerics, truncated.
    Div,
    /// Of two integers of a type, or two numerics.
    Gcd(Domain),
    Lcm(Domain),
    Factorial,
    /// Of three doubles or numerics, and a count.
    WidthBucket,
    /// Of a numeric.
    Sqrt,
    /// Of two numerics.
    Power,
    Scale,
    MinScale,
    TrimScale,
}

/// The value of a function for arguments that are not NULL.
pub(crate) fn call(function: Mathematics, arguments: &[Value]) -> Result<Value, Failure> {
    match (function, arguments) {
        (Mathematics::OfDouble(function), [Value::Float(of)]) => {
            function.compute(*of).map(Value::Float)
        }
        (Mathematics::Atan2, [Value::Float(y), Value::Float(x)]) => Ok(Value::Float(y.atan2(*x))),
        (Mathematics::BitNot, [Value::Int(int)]) => Ok(Value::Int(!int)),
        (Mathematics::Div, [Value::Numeric(a), Value::Numeric(b)]) => {
            let (a, b, _) = aligned(*a, *b).map_err(decimal_failure)?;
            let quotient = a.checked_div(b).ok_or(DecimalError::DivisionByZero);
            let quotient = quotient.and_then(|quotient| Decimal::from_parts(quotient, 0));
            quotient.map(Value::Numeric).map_err(decimal_failure)
        }
        (Mathematics::Gcd(domain), [Value::Int(a), Value::Int(b)]) => {
            let found = gcd((*a).into(), (*b).into());
            in_range(domain, i64::try_from(found).ok()).map(Value::Int)
        }
        (Mathematics::Lcm(domain), [Value::Int(a), Value::Int(b)]) => {
            let (a, b) = (i128::from(*a), i128::from(*b));
            let found = match gcd(a, b) {
                0 => 0,
                divisor => (a / divisor as i128 * b).unsigned_abs(),
            };
            in_range(domain, i64::try_from(found).ok()).map(Value::Int)
        }
        (Mathematics::Gcd(_) | Mathematics::Lcm(_), [Value::Numeric(a), Value::Numeric(b)]) => {
            let (a, b, scale) = aligned(*a, *b).map_err(decimal_failure)?;
            let divisor = gcd(a, b) as i128;
            let found = match function {
                Mathematics::Gcd(_) => Some(divisor),
                _ if divisor == 0 => Some(0),
                _ => (a / divisor).checked_mul(b).map(i128::abs),
            };
            let found = found.ok_or(DecimalError::Overflow);
            let found = found.and_then(|found| Decimal::from_parts(found, scale));
            found.map(Value::Numeric).map_err(decimal_failure)
        }
        (Mathematics::Factorial, [Value::Int(of)]) => factorial(*of),
        (
            Mathematics::WidthBucket,
            [
                Value::Float(of),
                Value::Float(low),
                Value::Float(high),
                Value::Int(count),
            ],
        ) => bucket_of_double(*of, *low, *high, *count),
        (
            Mathematics::WidthBucket,
            [
                Value::Numeric(of),
                Value::Numeric(low),
                Value::Numeric(high),
                Value::Int(count),
            ],
        ) => bucket_of_numeric(*of, *low, *high, *count),
        (Mathematics::Sqrt, [Value::Numeric(of)]) if of.is_negative() => Err(failure(
            "2201F",
            "cannot take square root of a negative number",
        )),
        (Mathematics::Sqrt, [Value::Numeric(of)]) => {
            let number = Wide::of(of.mantissa().unsigned_abs());
            let digits = wide::root_digits(&number, of.scale().into());
            let root = wide::root(&number, of.scale().into(), digits);
            let root = root.decimal(false, digits);
            root.map(Value::Numeric).map_err(decimal_failure)
        }
        (Mathematics::Power, [Value::Numeric(base), Value::Numeric(exponent)]) => {
            power(*base, *exponent)
        }
        (Mathematics::Scale, [Value::Numeric(of)]) => Ok(Value::Int(of.scale().into())),
        (Mathematics::MinScale, [Value::Numeric(of)]) => {
            Ok(Value::Int(trimmed(*of).scale().into()))
        }
        (Mathematics::TrimScale, [Value::Numeric(of)]) => Ok(Value::Numeric(trimmed(*of))),
        _ => {
            let message = format!("{function:?} is not defined on {arguments:?}");
            Err(failure("XX000", message))
        }
    }
}

/// Without zeros at the end behind the point.
fn trimmed(of: Decimal) -> Decimal {
    let (mut mantissa, mut scale) = (of.mantissa(), of.scale());
    while scale > 0 && mantissa % 10 == 0 {
        mantissa /= 10;
        scale -= 1;
    }
    Decimal::from_parts(mantissa, scale).unwrap_or(of)
}

fn gcd(a: i128, b: i128) -> u128 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Two decimals as integers of one scale.
fn aligned(a: Decimal, b: Decimal) -> Result<(i128, i128, u16), DecimalError> {
    let scale = a.scale().max(b.scale());
    let scaled = |of: Decimal| {
        let factor = 10i128.checked_pow((scale - of.scale()).into());
        let scaled = factor.and_then(|factor| of.mantissa().checked_mul(factor));
        scaled.ok_or(DecimalError::Overflow)
    };
    Ok((scaled(a)?, scaled(b)?, scale))
}

fn factorial(of: i64) -> Result<Value, Failure> {
    if of < 0 {
        let message = "factorial of a negative number is undefined";
        return Err(failure("22003", message));
    }
    let mut product = Some(1i128);
    for factor in 2..=of {
        product = product.and_then(|product| product.checked_mul(factor.into()));
        if product.is_none() {
            break;
        }
    }
    let product = product.ok_or(DecimalError::Overflow);
    let product = product.and_then(|product| Decimal::from_parts(product, 0));
    product.map(Value::Numeric).map_err(decimal_failure)
}

fn check_count(count: i64) -> Result<(), Failure> {
    match count > 0 {
        true => Ok(()),
        false => Err(failure("2201G", "count must be greater than zero")),
    }
}

fn equal_bounds() -> Failure {
    failure("2201G", "lower bound cannot equal upper bound")
}

fn bucket_of_double(of: f64, low: f64, high: f64, count: i64) -> Result<Value, Failure> {
    check_count(count)?;
    if of.is_nan() || low.is_nan() || high.is_nan() {
        let message = "operand, lower bound, and upper bound cannot be NaN";
        return Err(failure("2201G", message));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(failure("2201G", "lower and upper bounds must be finite"));
    }
    if low == high {
        return Err(equal_bounds());
    }
    // Buckets that count downwards are those of the negated numbers.
    let (of, low, high) = match low < high {
        true => (of, low, high),
        false => (-of, -low, -high),
    };
    let bucket = if of < low {
        0
    } else if of >= high {
        count + 1
    } else {
        let share = match (high - low).is_infinite() {
            false => (of - low) / (high - low),
            true => (of / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0),
        };
        ((count as f64 * share) as i64).min(count - 1) + 1
    };
    in_range(Domain::Int4, Some(bucket)).map(Value::Int)
}

fn bucket_of_numeric(
    of: Decimal,
    low: Decimal,
    high: Decimal,
    count: i64,
) -> Result<Value, Failure> {
    check_count(count)?;
    let (low_alone, high_alone, _) = aligned(low, high).map_err(decimal_failure)?;
    if low_alone == high_alone {
        return Err(equal_bounds());
    }
    let (of, low, high) = match low_alone < high_alone {
        true => (of, low, high),
        false => (of.negated(), low.negated(), high.negated()),
    };
    let (of_low, low_of, _) = aligned(of, low).map_err(decimal_failure)?;
    let (of_high, high_of, _) = aligned(of, high).map_err(decimal_failure)?;
    let bucket = if of_low < low_of {
        0
    } else if of_high >= high_of {
        count + 1
    } else {
        let part = of.try_sub(low).map_err(decimal_failure)?;
        let all = high.try_sub(low).map_err(decimal_failure)?;
        let (part, all, _) = aligned(part, all).map_err(decimal_failure)?;
        let dividend = Wide::of(part.unsigned_abs()).times(&Wide::of(count.unsigned_abs().into()));
        let share = dividend.over(&Wide::of(all.unsigned_abs()));
        let share = share.decimal(false, 0).map_err(decimal_failure)?;
        share.to_i64().map_or(count, |share| share + 1)
    };
    in_range(Domain::Int4, Some(bucket)).map(Value::Int)
}

/// A power with a whole exponent, exact before it is rounded.
fn power(base: Decimal, exponent: Decimal) -> Result<Value, Failure> {
    if base.is_zero() && exponent.is_negative() {
        let message = "zero raised to a negative power is undefined";
        return Err(failure("2201F", message));
    }
    let whole = trimmed(exponent);
    if whole.scale() > 0 {
        if base.is_negative() {
            let message = "a negative number raised to a non-integer power yields a complex result";
            return Err(failure("2201F", message));
        }
        let message = "a power of numeric whose exponent is not a whole number is not supported";
        return Err(failure("0A000", message));
    }
    let digits = u32::from(base.scale()).max(wide::SIGNIFICANT_DIGITS_MIN as u32);
    let times = whole.mantissa().unsigned_abs();
    let mantissa = Wide::of(base.mantissa().unsigned_abs());
    let bits = (mantissa.bits() as u128).saturating_mul(times);
    if bits > POWER_BITS_MAX as u128 && mantissa != Wide::of(1) {
        // Beyond 38 digits before the point, unless the base is close to 1 or below.
        let message = "a power of numeric of so many digits is not supported";
        return Err(failure("0A000", message));
    }
    let (Ok(times), Some(scale)) = (
        u32::try_from(times),
        u32::try_from(times)
            .ok()
            .and_then(|times| times.checked_mul(base.scale().into())),
    ) else {
        let message = "a power of numeric of so many digits is not supported";
        return Err(failure("0A000", message));
    };
    if scale as usize > POWER_BITS_MAX {
        let message = "a power of numeric of so many digits is not supported";
        return Err(failure("0A000", message));
    }
    let negative = base.is_negative() && times % 2 == 1;
    let power = mantissa.power(times);
    let result = if whole.is_negative() {
        let one = Wide::power_of_ten(scale + digits + 1);
        one.over(&power).without_digits(1)
    } else if scale > digits {
        power.without_digits(scale - digits)
    } else {
        power.times(&Wide::power_of_ten(digits - scale))
    };
    let result = result.decimal(negative && !result.is_zero(), digits);
    result.map(Value::Numeric).map_err(decimal_failure)
}
