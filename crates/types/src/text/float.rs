//! Binary floating point as text.

use super::{TextSink, invalid_syntax, trimmed};
use crate::{DataType, EffectError, Value};

/// Writes the shortest text that reads back as the same number, in PostgreSQL's choice of notation.
pub(super) fn write(out: &mut impl TextSink, float: f64, single: bool) {
    if float.is_nan() {
        return out.push_str("NaN");
    }
    if float.is_infinite() {
        return out.push_str(if float > 0.0 { "Infinity" } else { "-Infinity" });
    }
    let shortest = if single {
        format!("{:e}", float as f32)
    } else {
        format!("{float:e}")
    };
    let (mantissa, exponent) = shortest.split_once('e').expect("{:e} writes an exponent");
    let exponent: i32 = exponent.parse().expect("{:e} writes an integer exponent");
    let limit = if single { 6 } else { 15 };
    if (-4..limit).contains(&exponent) {
        out.push_str(&if single {
            format!("{}", float as f32)
        } else {
            format!("{float}")
        });
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        out.push_str(&format!("{mantissa}e{sign}{:02}", exponent.abs()));
    }
}

pub(super) fn parse(text: &str, data_type: &DataType) -> Result<Value, EffectError> {
    let number = trimmed(text);
    let is = |words: &[&str]| words.iter().any(|word| number.eq_ignore_ascii_case(word));
    if is(&["nan"]) {
        return Ok(Value::Float(f64::NAN));
    }
    if is(&["infinity", "+infinity", "inf", "+inf"]) {
        return Ok(Value::Float(f64::INFINITY));
    }
    if is(&["-infinity", "-inf"]) {
        return Ok(Value::Float(f64::NEG_INFINITY));
    }
    let parsed = match data_type {
        DataType::Real => number.parse::<f32>().map(f64::from),
        _ => number.parse::<f64>(),
    };
    let float = parsed.map_err(|_| invalid_syntax(data_type, text))?;
    // Too small a number is refused as well, unlike 0 itself.
    let zero = || {
        let digits = number.split(['e', 'E']).next().unwrap_or("");
        !digits.bytes().any(|byte| (b'1'..=b'9').contains(&byte))
    };
    if float.is_infinite() || float == 0.0 && !zero() {
        let message = format!("\"{number}\" is out of range for type {data_type}");
        return Err(EffectError::new("22003", message));
    }
    Ok(Value::Float(float))
}
