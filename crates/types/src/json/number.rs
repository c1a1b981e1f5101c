//! JSON's numbers as PostgreSQL's `numeric` writes them, with any count of digits.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::JsonError;

/// The most digits before and behind the point of PostgreSQL's `numeric`.
const WHOLE_MAX: usize = 131_072;
const SCALE_MAX: usize = 16_383;

/// The normal text of a JSON number: no exponent, as many digits behind the point as PostgreSQL keeps, no sign of 0.
pub(super) fn normal(text: &str) -> Result<Cow<'_, str>, JsonError> {
    let overflow = || JsonError::new("22003", "value overflows numeric format");
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (true, unsigned),
        None => (false, text),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_zero = mantissa.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let Some(exponent) = exponent else {
        if whole.len() > WHOLE_MAX || fraction.len() > SCALE_MAX {
            return Err(overflow());
        }
        return Ok(Cow::Borrowed(if is_zero { unsigned } else { text }));
    };
    // Far beyond the limits, whichever digits there are.
    let exponent: i64 = exponent.parse().unwrap_or(match exponent.starts_with('-') {
        true => -1_000_000_000,
        false => 1_000_000_000,
    });
    let scale = (fraction.len() as i64).saturating_sub(exponent).max(0);
    let point = (whole.len() as i64).saturating_add(exponent);
    if scale > SCALE_MAX as i64 || point > WHOLE_MAX as i64 && !is_zero {
        return Err(overflow());
    }
    let scale = scale as usize;
    let mut out = String::new();
    if negative && !is_zero {
        out.push('-');
    }
    if is_zero {
        out.push('0');
        push_fraction(&mut out, std::iter::repeat_n('0', scale));
        return Ok(Cow::Owned(out));
    }
    let digits = || whole.chars().chain(fraction.chars());
    let before = usize::try_from(point).unwrap_or(0);
    let padded = digits().chain(std::iter::repeat('0')).take(before);
    let mut significant = padded.skip_while(|digit| *digit == '0').peekable();
    if significant.peek().is_none() {
        out.push('0');
    }
    out.extend(significant);
    let gap = usize::try_from(-point).unwrap_or(0);
    let behind = std::iter::repeat_n('0', gap).chain(digits().skip(before));
    push_fraction(&mut out, behind.take(scale));
    Ok(Cow::Owned(out))
}

fn push_fraction(out: &mut String, digits: impl Iterator<Item = char>) {
    let mut digits = digits.peekable();
    if digits.peek().is_some() {
        out.push('.');
        out.extend(digits);
    }
}

/// The shortest normal text of the number.
pub(super) fn canonical(normal: &str) -> &str {
    match normal.contains('.') {
        true => normal.trim_end_matches('0').trim_end_matches('.'),
        false => normal,
    }
}

/// The order of two numbers, by their normal texts.
pub fn compare(left: &str, right: &str) -> Ordering {
    match (left.strip_prefix('-'), right.strip_prefix('-')) {
        (None, None) => magnitudes(left, right),
        (Some(left), Some(right)) => magnitudes(right, left),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
    }
}

fn magnitudes(left: &str, right: &str) -> Ordering {
    fn parts(of: &str) -> (&str, &str) {
        let (whole, fraction) = of.split_once('.').unwrap_or((of, ""));
        (whole, fraction.trim_end_matches('0'))
    }
    let ((whole, fraction), (other_whole, other_fraction)) = (parts(left), parts(right));
    let lengths = whole.len().cmp(&other_whole.len());
    lengths
        .then(whole.cmp(other_whole))
        .then(fraction.cmp(other_fraction))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_become_digits_and_scales_are_kept() {
        for (text, expected) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.00", "0.00"),
            ("1.10", "1.10"),
            ("-1.5", "-1.5"),
            ("1e5", "100000"),
            ("1E+2", "100"),
            ("1.50e1", "15.0"),
            ("1.5e3", "1500"),
            ("0.5e1", "5"),
            ("12.345e-2", "0.12345"),
            ("1e-3", "0.001"),
            ("-0e-2", "0.00"),
            ("0e5", "0"),
            ("0e1000000", "0"),
        ] {
            assert_eq!(normal(text).unwrap(), expected, "{text}");
        }
        for text in ["1e131073", "1e-16384", "1e99999999999999999999"] {
            assert_eq!(normal(text).unwrap_err().code, "22003", "{text}");
        }
    }

    #[test]
    fn numbers_are_ordered_by_value() {
        let ordered = [
            "-10", "-9.5", "-1", "0", "0.001", "0.01", "1", "1.05", "1.1", "9", "10",
        ];
        for (at, left) in ordered.iter().enumerate() {
            for (other, right) in ordered.iter().enumerate() {
                assert_eq!(compare(left, right), at.cmp(&other), "{left} {right}");
            }
        }
        assert_eq!(compare("1.0", "1"), Ordering::Equal);
        assert_eq!(canonical("1.50"), "1.5");
        assert_eq!(canonical("10.00"), "10");
        assert_eq!(canonical("100"), "100");
    }
}
