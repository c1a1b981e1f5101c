//! Arithmetic and rounding, with the result scales of PostgreSQL 15's `numeric.c`.

use super::{Decimal, DecimalError, MANTISSA_MAX, POWERS, SCALE_MAX};
use crate::NumericBounds;

/// `numeric.c`: a quotient has at least this many significant digits.
const SIGNIFICANT_DIGITS_MIN: i32 = 16;
/// `numeric.c`: no quotient has more digits after the point.
const QUOTIENT_SCALE_MAX: i32 = 1_000;
/// `numeric.c` counts weights in digits of base 10,000.
const DIGITS_PER_WEIGHT: i32 = 4;

impl Decimal {
    /// The sum, with the larger of the two scales.
    ///
    /// # Errors
    /// [`DecimalError::Overflow`] beyond 38 digits; so for the other operations.
    #[inline]
    pub fn try_add(self, other: Decimal) -> Result<Decimal, DecimalError> {
        let (left, right, scale) = aligned(self, other)?;
        Decimal::from_parts(
            left.checked_add(right).ok_or(DecimalError::Overflow)?,
            scale,
        )
    }

    /// The difference, with the larger of the two scales.
    ///
    /// # Errors
    /// [`DecimalError::Overflow`].
    #[inline]
    pub fn try_sub(self, other: Decimal) -> Result<Decimal, DecimalError> {
        let (left, right, scale) = aligned(self, other)?;
        Decimal::from_parts(
            left.checked_sub(right).ok_or(DecimalError::Overflow)?,
            scale,
        )
    }

    /// The product, with the sum of the scales.
    ///
    /// # Errors
    /// [`DecimalError::Overflow`].
    #[inline]
    pub fn try_mul(self, other: Decimal) -> Result<Decimal, DecimalError> {
        let product = self
            .mantissa()
            .checked_mul(other.mantissa())
            .ok_or(DecimalError::Overflow)?;
        Decimal::from_parts(product, self.scale + other.scale)
    }

    /// The quotient, rounded half away from zero to the scale that PostgreSQL gives it: at least
    /// 16 significant digits, and no fewer digits after the point than either operand.
    ///
    /// # Errors
    /// [`DecimalError::DivisionByZero`], [`DecimalError::Overflow`].
    pub fn try_div(self, other: Decimal) -> Result<Decimal, DecimalError> {
        if other.is_zero() {
            return Err(DecimalError::DivisionByZero);
        }
        let scale = quotient_scale(self, other);
        let negative = self.is_negative() != other.is_negative();
        let shift = i32::from(scale) + i32::from(other.scale) - i32::from(self.scale);
        let (dividend, divisor) = (
            self.mantissa().unsigned_abs(),
            other.mantissa().unsigned_abs(),
        );
        let (quotient, remainder, divisor) = divide_shifted(dividend, divisor, shift)?;
        let quotient = quotient + u128::from(remainder >= divisor - remainder);
        signed(negative, quotient, scale)
    }

    /// The remainder of the quotient truncated to an integer: it has the dividend's sign and the
    /// larger of the two scales.
    ///
    /// # Errors
    /// [`DecimalError::DivisionByZero`], [`DecimalError::Overflow`].
    pub fn try_rem(self, other: Decimal) -> Result<Decimal, DecimalError> {
        if other.is_zero() {
            return Err(DecimalError::DivisionByZero);
        }
        let (left, right, scale) = aligned(self, other)?;
        Decimal::from_parts(left % right, scale)
    }

    /// The number with the other sign.
    #[must_use]
    pub fn negated(self) -> Decimal {
        Decimal::new(-self.mantissa(), self.scale)
    }

    /// The number without its sign.
    #[must_use]
    pub fn abs(self) -> Decimal {
        Decimal::new(self.mantissa().abs(), self.scale)
    }

    /// -1, 0 or 1.
    pub fn signum(self) -> i32 {
        self.mantissa().signum() as i32
    }

    /// Rounded half away from zero to `places` digits after the point (before it, when negative),
    /// which is also the result's scale: `round(1.5, 3)` is `1.500`.
    ///
    /// # Errors
    /// [`DecimalError::Overflow`].
    pub fn round(self, places: i32) -> Result<Decimal, DecimalError> {
        self.reduced(places, |quotient, remainder, power| {
            let up = remainder.unsigned_abs() >= power - remainder.unsigned_abs();
            quotient + if up { remainder.signum() } else { 0 }
        })
    }

    /// Cut off after `places` digits after the point (before it, when negative), which is also the
    /// result's scale.
    ///
    /// # Errors
    /// [`DecimalError::Overflow`].
    pub fn trunc(self, places: i32) -> Result<Decimal, DecimalError> {
        self.reduced(places, |quotient, _, _| quotient)
    }

    /// The smallest integer that is not below the number.
    #[must_use]
    pub fn ceil(self) -> Decimal {
        self.reduced(0, |quotient, remainder, _| {
            quotient + i128::from(remainder > 0)
        })
        .expect("a number with a fraction has room for one more")
    }

    /// The largest integer that is not above the number.
    #[must_use]
    pub fn floor(self) -> Decimal {
        self.reduced(0, |quotient, remainder, _| {
            quotient - i128::from(remainder < 0)
        })
        .expect("a number with a fraction has room for one more")
    }

    /// As a value of the type `numeric(precision, scale)`: rounded, then checked.
    ///
    /// # Errors
    /// [`DecimalError::FieldOverflow`] when the rounded value has too many digits,
    /// [`DecimalError::Overflow`] when it has more than a decimal can hold.
    #[inline]
    pub fn rescale(self, bounds: NumericBounds) -> Result<Decimal, DecimalError> {
        let rounded = if self.scale == bounds.scale {
            self
        } else {
            self.round(i32::from(bounds.scale)).map_err(|overflow| {
                // Too many digits for 38 are too many for a smaller precision, too.
                if bounds.precision <= 38 {
                    DecimalError::FieldOverflow
                } else {
                    overflow
                }
            })?
        };
        match POWERS.get(usize::from(bounds.precision)) {
            Some(limit) if rounded.mantissa().abs() >= *limit => Err(DecimalError::FieldOverflow),
            _ => Ok(rounded),
        }
    }

    /// Rounded half away from zero to an integer; `None` beyond 64 bits.
    pub fn to_i64(self) -> Option<i64> {
        i64::try_from(self.round(0).ok()?.mantissa()).ok()
    }

    /// Brings the number to `max(places, 0)` digits after the point; where digits go, `settle`
    /// makes the last one from (quotient, remainder, power of ten).
    fn reduced(
        self,
        places: i32,
        settle: impl Fn(i128, i128, u128) -> i128,
    ) -> Result<Decimal, DecimalError> {
        let mantissa = self.mantissa();
        let scale = u16::try_from(places.max(0)).map_err(|_| DecimalError::Overflow)?;
        let dropped = i32::from(self.scale) - places.max(-2_000);
        if dropped <= 0 {
            return Decimal::from_parts(raised(mantissa, scale - self.scale)?, scale);
        }
        // A power of ten beyond 10^38 is more than twice every mantissa; so is `u128::MAX`, which
        // stands for it.
        let settled = match POWERS.get(dropped as usize) {
            Some(power) => settle(mantissa / power, mantissa % power, power.unsigned_abs()),
            None => settle(0, mantissa, u128::MAX),
        };
        match places {
            0.. => Decimal::from_parts(settled, scale),
            _ => Decimal::from_parts(raised(settled, places.unsigned_abs().min(2_000) as u16)?, 0),
        }
    }
}

/// `mantissa × 10^shift`.
#[inline]
fn raised(mantissa: i128, shift: u16) -> Result<i128, DecimalError> {
    match POWERS.get(usize::from(shift)) {
        _ if mantissa == 0 => Ok(0),
        Some(power) => mantissa.checked_mul(*power).ok_or(DecimalError::Overflow),
        None => Err(DecimalError::Overflow),
    }
}

/// Both mantissas at the larger scale.
#[inline]
fn aligned(left: Decimal, right: Decimal) -> Result<(i128, i128, u16), DecimalError> {
    let scale = left.scale.max(right.scale);
    let bring = |decimal: Decimal| {
        if decimal.scale == scale {
            return Ok(decimal.mantissa());
        }
        let mantissa = raised(decimal.mantissa(), scale - decimal.scale)?;
        // A mantissa above the domain leaves no room for the other operand; it can only come back
        // into it when the two cancel out, which is refused as well.
        if mantissa.abs() > MANTISSA_MAX {
            Err(DecimalError::Overflow)
        } else {
            Ok(mantissa)
        }
    };
    Ok((bring(left)?, bring(right)?, scale))
}

/// `select_div_scale` of `numeric.c`.
fn quotient_scale(dividend: Decimal, divisor: Decimal) -> u16 {
    let (weight_dividend, first_dividend) = leading(dividend);
    let (weight_divisor, first_divisor) = leading(divisor);
    let mut weight = weight_dividend - weight_divisor;
    if first_dividend <= first_divisor {
        weight -= 1;
    }
    let scale = (SIGNIFICANT_DIGITS_MIN - weight * DIGITS_PER_WEIGHT)
        .max(i32::from(dividend.scale))
        .max(i32::from(divisor.scale))
        .clamp(0, QUOTIENT_SCALE_MAX);
    scale as u16
}

/// The weight and value of the first digit in base 10,000 that is not 0; `(0, 0)` for 0.
fn leading(decimal: Decimal) -> (i32, u128) {
    let mantissa = decimal.mantissa().unsigned_abs();
    if mantissa == 0 {
        return (0, 0);
    }
    // The power of ten of the first decimal digit, then the base-10,000 digit that holds it.
    let digits = mantissa.ilog10() as i32;
    let power = digits - i32::from(decimal.scale);
    let weight = power.div_euclid(DIGITS_PER_WEIGHT);
    // How many decimal digits of the mantissa lie at or above the weight's unit.
    let kept = power - weight * DIGITS_PER_WEIGHT;
    let first = if digits >= kept {
        mantissa / POWERS[(digits - kept) as usize].unsigned_abs()
    } else {
        mantissa * POWERS[(kept - digits) as usize].unsigned_abs()
    };
    (weight, first)
}

/// `dividend × 10^shift / divisor` as quotient, remainder and the divisor that it is a remainder
/// of. The quotient is below 2^127.
fn divide_shifted(
    dividend: u128,
    divisor: u128,
    shift: i32,
) -> Result<(u128, u128, u128), DecimalError> {
    let shift_abs = shift.unsigned_abs() as usize;
    if dividend == 0 {
        return Ok((0, 0, divisor));
    }
    if shift < 0 {
        // The operands' own scales ask for fewer digits: never so, since the quotient's scale is
        // at least the dividend's.
        return Err(DecimalError::Overflow);
    }
    if let Some(shifted) = POWERS
        .get(shift_abs)
        .and_then(|power| dividend.checked_mul(power.unsigned_abs()))
    {
        return Ok((shifted / divisor, shifted % divisor, divisor));
    }
    // Long division, a decimal digit at a time.
    let (mut quotient, mut remainder) = (dividend / divisor, dividend % divisor);
    for _ in 0..shift_abs {
        let (digit, rest) = tenfold(remainder, divisor);
        remainder = rest;
        quotient = quotient
            .checked_mul(10)
            .and_then(|quotient| quotient.checked_add(digit))
            .filter(|quotient| *quotient <= MANTISSA_MAX.unsigned_abs())
            .ok_or(DecimalError::Overflow)?;
    }
    Ok((quotient, remainder, divisor))
}

/// `remainder × 10` divided by `divisor`, which is above `remainder` and below 10^38: ten times it
/// need not fit 128 bits, twice it always does.
fn tenfold(remainder: u128, divisor: u128) -> (u128, u128) {
    if let Some(shifted) = remainder.checked_mul(10) {
        return (shifted / divisor, shifted % divisor);
    }
    let twice = |(digit, rest): (u128, u128)| match rest * 2 {
        doubled if doubled >= divisor => (digit * 2 + 1, doubled - divisor),
        doubled => (digit * 2, doubled),
    };
    // 10 = 2 × (2 × 2 + 1)
    let (digit, rest) = twice(twice((0, remainder)));
    let (digit, rest) = match rest + remainder {
        sum if sum >= divisor => (digit + 1, sum - divisor),
        sum => (digit, sum),
    };
    twice((digit, rest))
}

fn signed(negative: bool, magnitude: u128, scale: u16) -> Result<Decimal, DecimalError> {
    let mantissa = i128::try_from(magnitude).map_err(|_| DecimalError::Overflow)?;
    if scale > SCALE_MAX {
        return Err(DecimalError::Overflow);
    }
    Decimal::from_parts(if negative { -mantissa } else { mantissa }, scale)
}
