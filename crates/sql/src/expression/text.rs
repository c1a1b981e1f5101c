//! Conversion of values to and from text, in PostgreSQL's forms.

use anabranch_types::{DataType, Decimal, EffectError, Value};

use super::{Failure, arithmetic::decimal_failure, bounds, datetime, failure};

/// A value of a type as PostgreSQL's output functions write it (`extra_float_digits` at its
/// default, dates in ISO style, the time zone UTC). NULL is empty; to distinguish it from an
/// empty text, use [`Value::is_null`] first. `char(n)` is blank-padded to its `n` characters.
pub fn format_text(value: &Value, data_type: &DataType) -> String {
    let mut out = String::new();
    write_text(&mut out, value, data_type);
    out
}

/// A value as a constant of SQL, for people: `42`, `'O''Hara'`, `NULL`, `'{1,2}'`.
pub fn literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(_) | Value::Numeric(_) => format_text(value, &DataType::Numeric(None)),
        // The type only decides how a real is rounded and whether a time zone is written.
        _ => {
            let text = format_text(value, &DataType::Array(Box::new(DataType::Text)));
            format!("'{}'", text.replace('\'', "''"))
        }
    }
}

/// Appends a value's text.
pub(crate) fn write_text(out: &mut String, value: &Value, data_type: &DataType) {
    use std::fmt::Write;
    let written = match value {
        Value::Null => Ok(()),
        Value::Bool(truth) => write!(out, "{}", if *truth { 't' } else { 'f' }),
        Value::Int(i) => write!(out, "{i}"),
        Value::Float(f) => {
            write_float(out, *f, matches!(data_type, DataType::Real));
            Ok(())
        }
        Value::Numeric(d) => write!(out, "{d}"),
        Value::Text(text) => {
            out.push_str(text);
            if let DataType::Char(length) = data_type {
                let missing = (*length as usize).saturating_sub(text.chars().count());
                out.extend(std::iter::repeat_n(' ', missing));
            }
            Ok(())
        }
        Value::Bytes(bytes) => {
            out.push_str("\\x");
            bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
        }
        Value::Uuid(bytes) => {
            for (place, byte) in bytes.iter().enumerate() {
                if matches!(place, 4 | 6 | 8 | 10) {
                    out.push('-');
                }
                let _ = write!(out, "{byte:02x}");
            }
            Ok(())
        }
        Value::Timestamp(micros) => {
            let zone = matches!(data_type, DataType::TimestampTz);
            datetime::format_timestamp(out, *micros, zone);
            Ok(())
        }
        Value::Date(days) => {
            datetime::format_date(out, i64::from(*days));
            Ok(())
        }
        Value::Array(list) => {
            write_array(out, list, data_type);
            Ok(())
        }
        Value::Pending(pending) => write!(out, "<{} {:+}>", pending.slot, pending.offset),
    };
    written.expect("a String takes everything");
}

fn write_array(out: &mut String, list: &[Value], data_type: &DataType) {
    let element = match data_type {
        DataType::Array(element) => element,
        other => other,
    };
    out.push('{');
    for (place, value) in list.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        if value.is_null() {
            out.push_str("NULL");
            continue;
        }
        let text = format_text(value, element);
        let special = |c: char| matches!(c, '{' | '}' | ',' | '"' | '\\') || c.is_whitespace();
        if text.is_empty() || text.eq_ignore_ascii_case("null") || text.contains(special) {
            out.push('"');
            for c in text.chars() {
                if matches!(c, '"' | '\\') {
                    out.push('\\');
                }
                out.push(c);
            }
            out.push('"');
        } else {
            out.push_str(&text);
        }
    }
    out.push('}');
}

/// The shortest text that reads back as the same number, in PostgreSQL's choice of notation.
fn write_float(out: &mut String, float: f64, single: bool) {
    use std::fmt::Write;
    if float.is_nan() {
        out.push_str("NaN");
        return;
    }
    if float.is_infinite() {
        out.push_str(if float > 0.0 { "Infinity" } else { "-Infinity" });
        return;
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
        let plain = if single {
            format!("{}", float as f32)
        } else {
            format!("{float}")
        };
        out.push_str(&plain);
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "{mantissa}e{sign}{:02}", exponent.abs()).expect("a String takes everything");
    }
}

fn invalid(data_type: &str, text: &str) -> Failure {
    failure(
        "22P02",
        format!("invalid input syntax for type {data_type}: \"{text}\""),
    )
}

/// The value that PostgreSQL's input function of a type makes of a text, which is the inverse of
/// [`format_text`].
///
/// # Errors
/// When the text is not a value of the type, with PostgreSQL's SQLSTATE and message.
pub fn parse_text(text: &str, data_type: &DataType) -> Result<Value, EffectError> {
    parse(text, data_type).map_err(|error| *error)
}

/// As [`parse_text`].
pub(crate) fn parse(text: &str, data_type: &DataType) -> Result<Value, Failure> {
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    match data_type {
        DataType::Bool => parse_bool(trimmed).ok_or_else(|| invalid("boolean", text)),
        DataType::Int2 | DataType::Int4 | DataType::Int8 => parse_int(text, trimmed, data_type),
        DataType::Numeric(_) => {
            let decimal = Decimal::parse(text).map_err(|error| {
                let mut failure = decimal_failure(error);
                if failure.code == "22P02" {
                    failure.message = format!("invalid input syntax for type numeric: \"{text}\"");
                }
                failure
            })?;
            bounds::bound_numeric(decimal, data_type)
        }
        DataType::Real | DataType::Double => parse_float(text, trimmed, data_type),
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) => {
            bounds::bound_text(Value::text(text), data_type, false)
        }
        DataType::Bytea => parse_bytes(text),
        DataType::Uuid => parse_uuid(trimmed).ok_or_else(|| invalid("uuid", text)),
        DataType::Timestamp => {
            datetime::parse_timestamp(text, false, "timestamp").map(Value::Timestamp)
        }
        DataType::TimestampTz => {
            datetime::parse_timestamp(text, true, "timestamp with time zone").map(Value::Timestamp)
        }
        DataType::Date => {
            let micros = datetime::parse_timestamp(text, false, "date")?;
            Ok(Value::Date(micros.div_euclid(datetime::DAY) as i32))
        }
        DataType::Array(element) => parse_array(text, trimmed, element),
        other => Err(failure("0A000", format!("type {other} is not supported"))),
    }
}

fn parse_bool(text: &str) -> Option<Value> {
    let lower = text.to_ascii_lowercase();
    let is = |word: &str, shortest: usize| lower.len() >= shortest && word.starts_with(&lower);
    if is("true", 1) || is("yes", 1) || is("on", 2) || lower == "1" {
        Some(Value::Bool(true))
    } else if is("false", 1) || is("no", 1) || is("off", 2) || lower == "0" {
        Some(Value::Bool(false))
    } else {
        None
    }
}

fn parse_int(text: &str, trimmed: &str, data_type: &DataType) -> Result<Value, Failure> {
    let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(invalid(&data_type.to_string(), text));
    }
    let fits = |i: &i64| match data_type {
        DataType::Int2 => i16::try_from(*i).is_ok(),
        DataType::Int4 => i32::try_from(*i).is_ok(),
        _ => true,
    };
    trimmed
        .parse()
        .ok()
        .filter(fits)
        .map(Value::Int)
        .ok_or_else(|| {
            failure(
                "22003",
                format!("value \"{text}\" is out of range for type {data_type}"),
            )
        })
}

fn parse_float(text: &str, trimmed: &str, data_type: &DataType) -> Result<Value, Failure> {
    let float: f64 = match trimmed.to_ascii_lowercase().as_str() {
        "nan" => f64::NAN,
        "infinity" | "+infinity" | "inf" | "+inf" => f64::INFINITY,
        "-infinity" | "-inf" => f64::NEG_INFINITY,
        number => {
            let single = matches!(data_type, DataType::Real);
            let parsed: f64 = if single {
                number.parse::<f32>().map(f64::from).map_err(|_| ())
            } else {
                number.parse().map_err(|_| ())
            }
            .map_err(|()| invalid(&data_type.to_string(), text))?;
            if parsed.is_infinite() {
                let message = format!("\"{text}\" is out of range for type {data_type}");
                return Err(failure("22003", message));
            }
            parsed
        }
    };
    Ok(Value::Float(float))
}

fn parse_bytes(text: &str) -> Result<Value, Failure> {
    let Some(hex) = text.strip_prefix("\\x") else {
        return match text.contains('\\') {
            true => Err(invalid("bytea", text)),
            false => Ok(Value::Bytes(text.as_bytes().into())),
        };
    };
    let nibble = |c: char| {
        let digit = c.to_digit(16).map(|d| d as u8);
        digit.ok_or_else(|| failure("22023", format!("invalid hexadecimal digit: \"{c}\"")))
    };
    let nibbles: Vec<u8> = hex.chars().map(nibble).collect::<Result<_, _>>()?;
    if !nibbles.len().is_multiple_of(2) {
        return Err(failure(
            "22023",
            "invalid hexadecimal data: odd number of digits",
        ));
    }
    let bytes: Vec<u8> = nibbles
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect();
    Ok(Value::Bytes(bytes.into()))
}

fn parse_uuid(text: &str) -> Option<Value> {
    let text = text
        .strip_prefix('{')
        .and_then(|t| t.strip_suffix('}'))
        .unwrap_or(text);
    let nibbles: Vec<u8> = text
        .chars()
        .filter(|c| *c != '-')
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect::<Option<_>>()?;
    if nibbles.len() != 32 {
        return None;
    }
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(nibbles.chunks(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Some(Value::Uuid(bytes))
}

/// `{1,2,"a b",NULL}`, one dimension.
fn parse_array(text: &str, trimmed: &str, element: &DataType) -> Result<Value, Failure> {
    let malformed = || failure("22P02", format!("malformed array literal: \"{text}\""));
    let inner = trimmed
        .strip_prefix('{')
        .and_then(|t| t.strip_suffix('}'))
        .ok_or_else(malformed)?;
    let mut values = Vec::new();
    let mut characters = inner.chars().peekable();
    if inner.trim().is_empty() {
        return Ok(Value::Array(values.into()));
    }
    loop {
        let mut item = String::new();
        let mut quoted = false;
        while characters.next_if(|c| c.is_whitespace()).is_some() {}
        if characters.next_if_eq(&'"').is_some() {
            quoted = true;
            loop {
                match characters.next().ok_or_else(malformed)? {
                    '"' => break,
                    '\\' => item.push(characters.next().ok_or_else(malformed)?),
                    c => item.push(c),
                }
            }
            while characters.next_if(|c| c.is_whitespace()).is_some() {}
        } else {
            while let Some(c) = characters.next_if(|c| *c != ',') {
                match c {
                    '{' | '}' | '"' => return Err(malformed()),
                    '\\' => item.push(characters.next().ok_or_else(malformed)?),
                    c => item.push(c),
                }
            }
            item.truncate(item.trim_end().len());
            if item.is_empty() {
                return Err(malformed());
            }
        }
        let null = !quoted && item.eq_ignore_ascii_case("null");
        values.push(if null {
            Value::Null
        } else {
            parse(&item, element)?
        });
        match characters.next() {
            None => return Ok(Value::Array(values.into())),
            Some(',') => {}
            Some(_) => return Err(malformed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_sql() {
        let numbers = Value::Array([Value::Int(1), Value::Null].into());
        let decimal = Value::Numeric(Decimal::from_scaled(-250, 2));
        for (value, text) in [
            (Value::Null, "NULL"),
            (Value::Bool(true), "true"),
            (Value::Int(-7), "-7"),
            (decimal, "-2.50"),
            (Value::text("O'Hara"), "'O''Hara'"),
            (Value::Date(0), "'2000-01-01'"),
            (Value::Timestamp(0), "'2000-01-01 00:00:00'"),
            (Value::Bytes([1, 255].into()), "'\\x01ff'"),
            (numbers, "'{1,NULL}'"),
        ] {
            assert_eq!(literal(&value), text);
        }
    }

    #[test]
    fn text_is_postgresqls() {
        let double = |f: f64| format_text(&Value::Float(f), &DataType::Double);
        assert_eq!(double(0.1), "0.1");
        assert_eq!(double(1e15), "1e+15");
        assert_eq!(double(123_456_789_012_345.0), "123456789012345");
        assert_eq!(double(0.00001), "1e-05");
        assert_eq!(double(0.0001), "0.0001");
        assert_eq!(double(-0.0), "-0");
        assert_eq!(double(1.5e300), "1.5e+300");
        let real = |f: f64| format_text(&Value::Float(f), &DataType::Real);
        assert_eq!(real(f64::from(0.1f32)), "0.1");
        assert_eq!(real(1e6), "1e+06");
        assert_eq!(real(123_456.0), "123456");
        let array = DataType::Array(Box::new(DataType::Text));
        let value = parse("{a, \"b c\",NULL,\"NULL\",\"\"}", &array).unwrap();
        assert_eq!(
            format_text(&value, &array),
            "{a,\"b c\",NULL,\"NULL\",\"\"}"
        );
        assert_eq!(format_text(&Value::text("ab"), &DataType::Char(4)), "ab  ");
        let bytes = parse("\\x00ff", &DataType::Bytea).unwrap();
        assert_eq!(format_text(&bytes, &DataType::Bytea), "\\x00ff");
    }

    #[test]
    fn bad_text_is_refused_with_postgresqls_code() {
        let code = |text: &str, data_type: DataType| parse(text, &data_type).unwrap_err().code;
        assert_eq!(code("1x", DataType::Int4), "22P02");
        assert_eq!(code("3000000000", DataType::Int4), "22003");
        assert_eq!(code("", DataType::Int4), "22P02");
        assert_eq!(code("maybe", DataType::Bool), "22P02");
        assert_eq!(
            code("{1,", DataType::Array(Box::new(DataType::Int4))),
            "22P02"
        );
        assert_eq!(code("abcd", DataType::Varchar(Some(3))), "22001");
    }
}
