//! Decimals from and to text and binary floating point, in PostgreSQL's forms.

use std::fmt;
use std::str::FromStr;

use super::{Decimal, DecimalError, POWERS, SCALE_MAX};

impl Decimal {
    /// Parses PostgreSQL's input syntax: `[+-]digits[.digits][e[+-]digits]`, with blanks around it.
    ///
    /// # Errors
    /// [`DecimalError::Syntax`], [`DecimalError::Overflow`], and [`DecimalError::NotFinite`] for
    /// `NaN` and `Infinity`.
    pub fn parse(text: &str) -> Result<Decimal, DecimalError> {
        let text = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if ["infinity", "inf"]
            .iter()
            .any(|word| unsigned.eq_ignore_ascii_case(word))
            || text.eq_ignore_ascii_case("nan")
        {
            return Err(DecimalError::NotFinite);
        }
        let (number, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => (&unsigned[..at], parse_exponent(&unsigned[at + 1..])?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return Err(DecimalError::Syntax);
        }
        let mut mantissa = 0i128;
        let mut overflow = false;
        for digit in whole.bytes().chain(fraction.bytes()) {
            if !digit.is_ascii_digit() {
                return Err(DecimalError::Syntax);
            }
            match mantissa.checked_mul(10) {
                Some(tenfold) if tenfold < POWERS[38] => {
                    mantissa = tenfold + i128::from(digit - b'0')
                }
                _ => overflow = true,
            }
        }
        if overflow {
            return Err(DecimalError::Overflow);
        }
        let scale = i64::try_from(fraction.len()).map_err(|_| DecimalError::Overflow)? - exponent;
        if scale < 0 && mantissa != 0 {
            let power = usize::try_from(-scale)
                .ok()
                .and_then(|shift| POWERS.get(shift));
            mantissa = power
                .and_then(|power| mantissa.checked_mul(*power))
                .ok_or(DecimalError::Overflow)?;
        }
        let scale = u16::try_from(scale.max(0)).map_err(|_| DecimalError::Overflow)?;
        Decimal::from_parts(if negative { -mantissa } else { mantissa }, scale)
    }

    /// The nearest `double precision`.
    pub fn to_f64(self) -> f64 {
        const EXACT: i128 = 1 << 53;
        let mantissa = self.mantissa();
        if mantissa.abs() <= EXACT && self.scale <= 22 {
            // Both operands are exact, so the quotient is rounded once.
            return mantissa as f64 / POWERS[usize::from(self.scale)] as f64;
        }
        self.to_string()
            .parse()
            .expect("a decimal's text is a float's")
    }

    /// A `double precision` as a decimal: its 15 significant digits, as PostgreSQL casts it.
    ///
    /// # Errors
    /// [`DecimalError::NotFinite`]; [`DecimalError::Overflow`] beyond 38 digits.
    pub fn from_f64(float: f64) -> Result<Decimal, DecimalError> {
        Decimal::from_float_text(float.is_finite(), &format!("{float:.14e}"))
    }

    /// A `real` as a decimal: its 6 significant digits, as PostgreSQL casts it.
    ///
    /// # Errors
    /// [`DecimalError::NotFinite`]; [`DecimalError::Overflow`] beyond 38 digits.
    pub fn from_f32(float: f32) -> Result<Decimal, DecimalError> {
        Decimal::from_float_text(float.is_finite(), &format!("{float:.5e}"))
    }

    fn from_float_text(finite: bool, scientific: &str) -> Result<Decimal, DecimalError> {
        if !finite {
            return Err(DecimalError::NotFinite);
        }
        // C's %g, which PostgreSQL goes through, drops trailing zeros of the digits.
        let (digits, exponent) = scientific.split_once('e').ok_or(DecimalError::Syntax)?;
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        Ok(Decimal::parse(&format!("{digits}e{exponent}"))?.normalized())
    }
}

fn parse_exponent(text: &str) -> Result<i64, DecimalError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(DecimalError::Syntax);
    }
    let exponent: i64 = text.parse().map_err(|_| DecimalError::Overflow)?;
    if exponent.abs() > i64::from(SCALE_MAX) * 2 {
        Err(DecimalError::Overflow)
    } else {
        Ok(exponent)
    }
}

impl FromStr for Decimal {
    type Err = DecimalError;

    fn from_str(text: &str) -> Result<Decimal, DecimalError> {
        Decimal::parse(text)
    }
}

/// The number as PostgreSQL prints it: all digits of its scale, no exponent.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative() { "-" } else { "" };
        let digits = self.mantissa().unsigned_abs();
        let scale = usize::from(self.scale);
        if scale == 0 {
            return write!(f, "{sign}{digits}");
        }
        match POWERS.get(scale) {
            Some(power) => {
                let power = power.unsigned_abs();
                write!(f, "{sign}{}.{:0scale$}", digits / power, digits % power)
            }
            None => write!(f, "{sign}0.{digits:0scale$}"),
        }
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
