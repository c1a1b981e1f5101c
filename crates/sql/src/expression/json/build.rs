//! Makes JSON of values: `to_json` and the functions that build arrays, objects and rows.

use anabranch_types::{
    DataType, TimeZone, Value,
    json::{Kind, Node, write_string},
    text::{format_value, write_value},
};
use std::sync::Arc;

use super::{super::Failure, invalid};

/// The names and types of the columns of a row.
pub(crate) type Members = Arc<[(Box<str>, DataType)]>;

/// The JSON of a value of a type.
pub(super) fn text_of(
    value: &Value,
    data_type: &DataType,
    zone: &TimeZone,
) -> Result<String, Failure> {
    let mut out = String::new();
    push(&mut out, value, data_type, zone);
    super::within_value(out.len())?;
    Ok(out)
}

fn push(out: &mut String, value: &Value, data_type: &DataType, zone: &TimeZone) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Float(float) if !float.is_finite() => {
            write_string(out, &format_value(value, data_type, zone));
        }
        Value::Int(_) | Value::Float(_) | Value::Numeric(_) if data_type.is_numeric() => {
            write_value(out, value, data_type, zone);
        }
        Value::Jsonb(json) => out.push_str(json.as_str()),
        Value::Text(text) if *data_type == DataType::Json => out.push_str(text),
        Value::Array(elements) if data_type.element().is_some() => {
            let element = data_type.element().unwrap_or(&DataType::Text);
            out.push('[');
            for (place, value) in elements.iter().enumerate() {
                out.push_str(if place > 0 { "," } else { "" });
                push(out, value, element, zone);
            }
            out.push(']');
        }
        _ => write_string(out, &plain_text(value, data_type, zone)),
    }
}

/// The text of a scalar; a date and time has a `T` between them, as in ISO 8601, and minutes in its offset.
fn plain_text(value: &Value, data_type: &DataType, zone: &TimeZone) -> String {
    let text = format_value(value, data_type, zone);
    if !matches!(value, Value::Timestamp(_)) {
        return match value {
            Value::Bool(truth) => if *truth { "true" } else { "false" }.to_owned(),
            _ => text,
        };
    }
    let (moment, era) = match text.strip_suffix(" BC") {
        Some(moment) => (moment, " BC"),
        None => (text.as_str(), ""),
    };
    let mut moment = moment.replacen(' ', "T", 1);
    let offset = moment
        .rfind(['+', '-'])
        .filter(|at| moment[*at..].len() == 3);
    if *data_type == DataType::TimestampTz && offset.is_some() {
        moment.push_str(":00");
    }
    moment + era
}

/// The key that a value becomes, without quotes.
pub(super) fn key_of(value: &Value, data_type: &DataType, zone: &TimeZone) -> String {
    plain_text(value, data_type, zone)
}

pub(super) fn array(
    values: &[Value],
    types: &[DataType],
    zone: &TimeZone,
) -> Result<String, Failure> {
    let mut out = String::from("[");
    for (place, (value, data_type)) in values.iter().zip(types).enumerate() {
        out.push_str(if place > 0 { ", " } else { "" });
        push(&mut out, value, data_type, zone);
        super::within_value(out.len())?;
    }
    out.push(']');
    Ok(out)
}

pub(super) fn object(
    values: &[Value],
    types: &[DataType],
    zone: &TimeZone,
) -> Result<String, Failure> {
    let mut out = String::from("{");
    for (place, (pair, types)) in values.chunks(2).zip(types.chunks(2)).enumerate() {
        let ([key, value], [key_type, value_type]) = (pair, types) else {
            return Err(invalid("argument list must have even number of elements"));
        };
        if key.is_null() {
            let message = format!("argument {} cannot be null", 2 * place + 1);
            let error = invalid(message);
            return Err(Box::new(error.with_hint("Object keys should be text.")));
        }
        out.push_str(if place > 0 { ", " } else { "" });
        write_string(&mut out, &plain_text(key, key_type, zone));
        out.push_str(" : ");
        push(&mut out, value, value_type, zone);
        super::within_value(out.len())?;
    }
    out.push('}');
    Ok(out)
}

pub(super) fn row(values: &[Value], members: &Members, zone: &TimeZone) -> Result<String, Failure> {
    let mut out = String::from("{");
    for (place, (value, (name, data_type))) in values.iter().zip(members.iter()).enumerate() {
        out.push_str(if place > 0 { "," } else { "" });
        write_string(&mut out, name);
        out.push(':');
        push(&mut out, value, data_type, zone);
        super::within_value(out.len())?;
    }
    out.push('}');
    Ok(out)
}

/// Appends a document without blanks, its members in their order.
pub(super) fn compact(node: &Node<'_>, out: &mut String) {
    match &node.kind {
        Kind::Array(elements) => {
            out.push('[');
            for (place, element) in elements.iter().enumerate() {
                out.push_str(if place > 0 { "," } else { "" });
                compact(element, out);
            }
            out.push(']');
        }
        Kind::Object(members) => {
            out.push('{');
            for (place, (name, value)) in members.iter().enumerate() {
                out.push_str(if place > 0 { "," } else { "" });
                write_string(out, name);
                out.push(':');
                compact(value, out);
            }
            out.push('}');
        }
        Kind::String(content) => write_string(out, content),
        _ => out.push_str(&node.text),
    }
}
