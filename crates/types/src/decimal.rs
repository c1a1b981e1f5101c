//! Exact decimal numbers, as PostgreSQL's `numeric`.
//!
//! A decimal is an integer of at most 38 digits and a scale, the number of digits after the point:
//! `1.10` is 110 with scale 2 and keeps its trailing zero, as PostgreSQL does. Scales of results
//! follow `numeric.c` of PostgreSQL 15. Every operation is exact or rounds half away from zero
//! where PostgreSQL's does; a result of more than 38 digits is [`DecimalError::Overflow`], never
//! rounded in silence. PostgreSQL goes on to 131,072 digits, and has `NaN` and infinities, which
//! are refused here.

mod arithmetic;
mod text;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

/// `mantissa × 10^-scale`, in 24 bytes.
///
/// Equality, order and hash are those of the number: `1.0` equals `1.00`.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Decimal {
    high: i64,
    low: u64,
    scale: u16,
}

/// Why there is no decimal for a text, a number or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecimalError {
    /// More than 38 digits, or more than 16,383 of them after the point.
    #[error("value overflows numeric format: at most 38 digits are supported")]
    Overflow,
    /// The value, once rounded to the scale of its `numeric(p, s)`, has too many digits.
    #[error("numeric field overflow")]
    FieldOverflow,
    /// The divisor is 0.
    #[error("division by zero")]
    DivisionByZero,
    /// The text is not a number.
    #[error("invalid input syntax for type numeric")]
    Syntax,
    /// `NaN` and the infinities have no decimal here.
    #[error("NaN and infinity are not supported in numeric")]
    NotFinite,
}

/// The most digits a decimal has.
pub const DIGITS_MAX: u32 = 38;
/// The largest scale, as in PostgreSQL.
pub const SCALE_MAX: u16 = 16_383;

const POWERS: [i128; 39] = {
    let mut powers = [1i128; 39];
    let mut power = 1;
    while power < 39 {
        powers[power] = powers[power - 1] * 10;
        power += 1;
    }
    powers
};
const MANTISSA_MAX: i128 = POWERS[38] - 1;

impl Decimal {
    /// 0, with scale 0.
    pub const ZERO: Decimal = Decimal::new(0, 0);

    const fn new(mantissa: i128, scale: u16) -> Decimal {
        Decimal {
            high: (mantissa >> 64) as i64,
            low: mantissa as u64,
            scale,
        }
    }

    /// `mantissa × 10^-scale`.
    ///
    /// # Errors
    /// [`DecimalError::Overflow`] beyond 38 digits or a scale of 16,383.
    #[inline]
    pub const fn from_parts(mantissa: i128, scale: u16) -> Result<Decimal, DecimalError> {
        if mantissa > MANTISSA_MAX || mantissa < -MANTISSA_MAX || scale > SCALE_MAX {
            return Err(DecimalError::Overflow);
        }
        Ok(Decimal::new(mantissa, scale))
    }

    /// The integer, with scale 0.
    #[inline]
    pub const fn from_i64(int: i64) -> Decimal {
        Decimal::new(int as i128, 0)
    }

    /// `scaled × 10^-scale`: how a bounded `numeric` is stored.
    #[inline]
    pub const fn from_scaled(scaled: i64, scale: u16) -> Decimal {
        Decimal::new(scaled as i128, scale)
    }

    /// The number times `10^scale`, if that is an integer of 64 bits: the inverse of
    /// [`Decimal::from_scaled`], and never rounded.
    #[inline]
    pub fn to_scaled(self, scale: u16) -> Option<i64> {
        let mantissa = if self.scale == scale {
            self.mantissa()
        } else if self.scale < scale {
            let power = POWERS.get(usize::from(scale - self.scale));
            match (self.mantissa(), power) {
                (0, _) => 0,
                (mantissa, power) => mantissa.checked_mul(*power?)?,
            }
        } else {
            let power = POWERS.get(usize::from(self.scale - scale));
            match (self.mantissa(), power) {
                (0, _) => 0,
                (mantissa, Some(power)) if mantissa % power == 0 => mantissa / power,
                _ => return None,
            }
        };
        i64::try_from(mantissa).ok()
    }

    /// The number times `10^scale()`.
    #[inline]
    pub const fn mantissa(self) -> i128 {
        (self.high as i128) << 64 | self.low as i128
    }

    /// The number of digits after the point.
    #[inline]
    pub const fn scale(self) -> u16 {
        self.scale
    }

    /// True for 0 of any scale.
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.high == 0 && self.low == 0
    }

    /// True below 0.
    #[inline]
    pub const fn is_negative(self) -> bool {
        self.high < 0
    }

    /// The number with the smallest scale that holds it.
    #[must_use]
    pub fn normalized(self) -> Decimal {
        let mut mantissa = self.mantissa();
        let mut scale = self.scale;
        if mantissa == 0 {
            return Decimal::ZERO;
        }
        while scale > 0 && mantissa % 10 == 0 {
            mantissa /= 10;
            scale -= 1;
        }
        Decimal::new(mantissa, scale)
    }
}

impl From<i64> for Decimal {
    fn from(int: i64) -> Decimal {
        Decimal::from_i64(int)
    }
}

impl Default for Decimal {
    fn default() -> Decimal {
        Decimal::ZERO
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Decimal) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    #[inline]
    fn cmp(&self, other: &Decimal) -> Ordering {
        let (left, right) = (self.mantissa(), other.mantissa());
        match self.scale.cmp(&other.scale) {
            Ordering::Equal => left.cmp(&right),
            Ordering::Less => compare_scaled(left, right, other.scale - self.scale),
            Ordering::Greater => compare_scaled(right, left, self.scale - other.scale).reverse(),
        }
    }
}

/// `left × 10^shift` against `right`.
fn compare_scaled(left: i128, right: i128, shift: u16) -> Ordering {
    if left == 0 || left.signum() != right.signum() {
        return left.signum().cmp(&right.signum());
    }
    match POWERS
        .get(usize::from(shift))
        .and_then(|power| left.checked_mul(*power))
    {
        Some(left) => left.cmp(&right),
        // Beyond 38 digits, so further from 0 than `right` is.
        None => left.signum().cmp(&0),
    }
}

impl Hash for Decimal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let normalized = self.normalized();
        normalized.mantissa().hash(state);
        normalized.scale.hash(state);
    }
}
