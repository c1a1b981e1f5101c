//! Values of every type as text, in PostgreSQL's forms: what its output functions write and its input functions read.
//!
//! The forms are those of the settings that all sessions have: `DateStyle = ISO`, `bytea_output = hex` and the shortest
//! text for a float (`extra_float_digits = 1`). The session's time zone is a parameter, because it decides how a
//! `timestamptz` is written, and how it is read where the text names no time zone.

mod array;
pub mod bytes;
mod float;
pub mod moment;
mod record;

use crate::bounds::{bound_numeric, bound_text};
use crate::zone::TimeZone;
use crate::{DataType, Decimal, EffectError, Jsonb, Value, json};

/// Takes text: a `String`, or the UTF-8 bytes of a message.
pub trait TextSink {
    /// Appends a text.
    fn push_str(&mut self, text: &str);
}

impl TextSink for String {
    #[inline]
    fn push_str(&mut self, text: &str) {
        String::push_str(self, text);
    }
}

impl TextSink for Vec<u8> {
    #[inline]
    fn push_str(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
    }
}

/// A value as [`write_value`] writes it.
pub fn format_value(value: &Value, data_type: &DataType, zone: &TimeZone) -> String {
    let mut out = String::new();
    write_value(&mut out, value, data_type, zone);
    out
}

/// Appends the text of a value of a type. NULL is empty; to distinguish it from an empty text, use
/// [`Value::is_null`] first. `char(n)` is blank-padded to its `n` characters.
pub fn write_value(out: &mut impl TextSink, value: &Value, data_type: &DataType, zone: &TimeZone) {
    match value {
        Value::Null => {}
        Value::Bool(truth) => out.push_str(if *truth { "t" } else { "f" }),
        Value::Int(int) => write_int(out, *int),
        Value::Float(float) => float::write(out, *float, matches!(data_type, DataType::Real)),
        Value::Numeric(decimal) => write_decimal(out, *decimal),
        Value::Text(text) => {
            out.push_str(text);
            if let DataType::Char(length) = data_type
                && *data_type != DataType::BPCHAR
            {
                let missing = (*length as usize).saturating_sub(text.chars().count());
                push_blanks(out, missing);
            }
        }
        Value::Bytes(bytes) => bytes::write_bytea(out, bytes),
        Value::Uuid(uuid) => bytes::write_uuid(out, uuid),
        Value::Timestamp(micros) => match data_type {
            DataType::TimestampTz => moment::write_timestamptz(out, *micros, zone),
            _ => moment::write_timestamp(out, *micros),
        },
        Value::Date(days) => moment::write_date(out, *days),
        Value::Jsonb(json) => out.push_str(json.as_str()),
        Value::Array(elements) => match data_type {
            DataType::Int2Vector | DataType::OidVector => array::write_vector(out, elements),
            DataType::Record(types) => record::write(out, elements, types, zone),
            _ => array::write(out, elements, data_type, zone),
        },
        Value::Pending(pending) => {
            out.push_str(&format!("<{} {:+}>", pending.slot, pending.offset));
        }
    }
}

/// The value that PostgreSQL's input function of a type makes of a text: the inverse of [`write_value`].
///
/// # Errors
/// When the text is not a value of the type, with PostgreSQL's SQLSTATE and message.
pub fn parse_value(
    text: &str,
    data_type: &DataType,
    zone: &TimeZone,
) -> Result<Value, EffectError> {
    match data_type {
        DataType::Bool => parse_bool(trimmed(text)).ok_or_else(|| invalid_syntax(data_type, text)),
        DataType::Int2 | DataType::Int4 | DataType::Int8 => parse_int(text, data_type),
        DataType::Numeric(_) => {
            let decimal = Decimal::parse(text).map_err(|error| match EffectError::from(error) {
                EffectError { code: "22P02", .. } => invalid_syntax(&DataType::Numeric(None), text),
                other => other,
            })?;
            bound_numeric(decimal, data_type)
        }
        DataType::Real | DataType::Double => float::parse(text, data_type),
        DataType::Text
        | DataType::Varchar(_)
        | DataType::Char(_)
        | DataType::Name
        | DataType::SingleByte => bound_text(text.into(), data_type, false).map(Value::Text),
        DataType::Oid => parse_oid(text),
        DataType::OidAlias(_) => parse_oid(text).map_err(|_| {
            let message = format!("an object's name is not supported here: \"{text}\"");
            EffectError::new("0A000", message)
        }),
        DataType::Int2Vector => array::parse_vector(text, &DataType::Int2),
        DataType::OidVector => array::parse_vector(text, &DataType::Oid),
        DataType::Bytea => bytes::parse_bytea(text).map(|bytes| Value::Bytes(bytes.into())),
        DataType::Uuid => bytes::parse_uuid(trimmed(text))
            .map(Value::Uuid)
            .ok_or_else(|| invalid_syntax(data_type, text)),
        DataType::Timestamp => moment::parse_timestamp(text).map(Value::Timestamp),
        DataType::TimestampTz => moment::parse_timestamptz(text, zone).map(Value::Timestamp),
        DataType::Date => moment::parse_date(text).map(Value::Date),
        DataType::Json => {
            json::check(text)?;
            Ok(Value::text(text))
        }
        DataType::Jsonb => Ok(Value::Jsonb(Jsonb::parse(text)?)),
        DataType::Enum(of) => match of.place(text) {
            Some(_) => Ok(Value::text(text)),
            None => {
                let message = format!("invalid input value for enum {data_type}: \"{text}\"");
                Err(EffectError::new("22P02", message))
            }
        },
        DataType::Array(element) => array::parse(text, element, zone),
        DataType::Record(_) | DataType::Void => {
            let message = format!("input of type {data_type} is not implemented");
            Err(EffectError::new("0A000", message))
        }
    }
}

impl From<json::JsonError> for EffectError {
    fn from(error: json::JsonError) -> EffectError {
        let mut failure = EffectError::new(error.code, error.message);
        if let Some(detail) = error.detail {
            failure = failure.with_detail(detail);
        }
        if let Some(hint) = error.hint {
            failure = failure.with_hint(hint);
        }
        failure
    }
}

/// Whether the value that [`parse_value`] makes of this text depends on the time zone.
pub fn depends_on_zone(text: &str, data_type: &DataType) -> bool {
    match data_type {
        DataType::TimestampTz => moment::depends_on_zone(text),
        DataType::Array(element) => {
            **element == DataType::TimestampTz && array::depends_on_zone(text)
        }
        _ => false,
    }
}

/// A value for a message to people, if its type is not at hand.
pub fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Pending(pending) => format!("{} + {}", pending.slot, pending.offset),
        value => format_value(value, &DataType::Text, &TimeZone::UTC),
    }
}

/// Without the blanks that PostgreSQL's input functions pass over.
fn trimmed(text: &str) -> &str {
    text.trim_matches(is_blank)
}

fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

fn invalid_syntax(data_type: &DataType, text: &str) -> EffectError {
    let message = format!("invalid input syntax for type {data_type}: \"{text}\"");
    EffectError::new("22P02", message)
}

fn out_of_range(data_type: &DataType, text: &str) -> EffectError {
    let message = format!("value \"{text}\" is out of range for type {data_type}");
    EffectError::new("22003", message)
}

fn parse_bool(text: &str) -> Option<Value> {
    let is = |word: &str, shortest: usize| {
        (shortest..=word.len()).contains(&text.len())
            && word.as_bytes()[..text.len()].eq_ignore_ascii_case(text.as_bytes())
    };
    if is("true", 1) || is("yes", 1) || is("on", 2) || text == "1" {
        Some(Value::Bool(true))
    } else if is("false", 1) || is("no", 1) || is("off", 2) || text == "0" {
        Some(Value::Bool(false))
    } else {
        None
    }
}

fn parse_oid(text: &str) -> Result<Value, EffectError> {
    match parse_int(text, &DataType::Int8) {
        Ok(Value::Int(int)) if u32::try_from(int).is_ok() => Ok(Value::Int(int)),
        Ok(_) => Err(out_of_range(&DataType::Oid, text)),
        Err(error) if error.code == "22003" => Err(out_of_range(&DataType::Oid, text)),
        Err(_) => Err(invalid_syntax(&DataType::Oid, text)),
    }
}

fn parse_int(text: &str, data_type: &DataType) -> Result<Value, EffectError> {
    let trimmed = trimmed(text);
    let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid_syntax(data_type, text));
    }
    let fits = |int: &i64| match data_type {
        DataType::Int2 => i16::try_from(*int).is_ok(),
        DataType::Int4 => i32::try_from(*int).is_ok(),
        _ => true,
    };
    let parsed = trimmed.parse().ok().filter(fits);
    parsed
        .map(Value::Int)
        .ok_or_else(|| out_of_range(data_type, text))
}

fn write_int(out: &mut impl TextSink, int: i64) {
    if int < 0 {
        out.push_str("-");
    }
    push_digits(out, int.unsigned_abs(), 1);
}

/// Appends a number with at least so many digits.
fn push_digits(out: &mut impl TextSink, mut number: u64, digits_min: usize) {
    let mut digits = [b'0'; 20];
    let mut first = digits.len();
    while number > 0 {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    let first = first.min(digits.len() - digits_min);
    out.push_str(std::str::from_utf8(&digits[first..]).expect("digits are ASCII"));
}

fn write_decimal(out: &mut impl TextSink, decimal: Decimal) {
    let digits = decimal.mantissa().unsigned_abs();
    match (u64::try_from(digits), decimal.scale()) {
        // Most decimals, without the machinery of formatting.
        (Ok(digits), scale @ 0..=18) => {
            if decimal.is_negative() {
                out.push_str("-");
            }
            let power = 10u64.pow(u32::from(scale));
            push_digits(out, digits / power, 1);
            if scale > 0 {
                out.push_str(".");
                push_digits(out, digits % power, usize::from(scale));
            }
        }
        _ => out.push_str(&decimal.to_string()),
    }
}

fn push_blanks(out: &mut impl TextSink, mut count: usize) {
    const BLANKS: &str = "                                ";
    while count > 0 {
        let some = count.min(BLANKS.len());
        out.push_str(&BLANKS[..some]);
        count -= some;
    }
}
