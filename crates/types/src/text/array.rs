//! One-dimensional arrays as text: `{1,2,"a b",NULL}`.

use super::{TextSink, is_blank, moment, parse_value, trimmed, write_value};
use crate::zone::TimeZone;
use crate::{DataType, EffectError, Value};

/// Writes an array. The type may be the element's.
pub(super) fn write(
    out: &mut impl TextSink,
    elements: &[Value],
    data_type: &DataType,
    zone: &TimeZone,
) {
    let element_type = match data_type {
        DataType::Array(element) => element,
        other => other,
    };
    let mut text = String::new();
    out.push_str("{");
    for (place, element) in elements.iter().enumerate() {
        if place > 0 {
            out.push_str(",");
        }
        if element.is_null() {
            out.push_str("NULL");
            continue;
        }
        text.clear();
        write_value(&mut text, element, element_type, zone);
        write_element(out, &text);
    }
    out.push_str("}");
}

/// Writes an `int2vector` or `oidvector`: numbers with blanks between them.
pub(super) fn write_vector(out: &mut impl TextSink, elements: &[Value]) {
    for (place, element) in elements.iter().enumerate() {
        if place > 0 {
            out.push_str(" ");
        }
        write_value(out, element, &DataType::Int8, &TimeZone::UTC);
    }
}

/// Parses an `int2vector` or `oidvector`.
pub(super) fn parse_vector(text: &str, element_type: &DataType) -> Result<Value, EffectError> {
    let numbers = text.split(is_blank).filter(|number| !number.is_empty());
    let values = numbers.map(|number| parse_value(number, element_type, &TimeZone::UTC));
    Ok(Value::Array(values.collect::<Result<Vec<_>, _>>()?.into()))
}

fn write_element(out: &mut impl TextSink, text: &str) {
    let special = |c: char| matches!(c, '{' | '}' | ',' | '"' | '\\') || is_blank(c);
    if !text.is_empty() && !text.eq_ignore_ascii_case("null") && !text.contains(special) {
        return out.push_str(text);
    }
    out.push_str("\"");
    let mut rest = text;
    while let Some(at) = rest.find(['"', '\\']) {
        out.push_str(&rest[..at]);
        out.push_str("\\");
        out.push_str(&rest[at..=at]);
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push_str("\"");
}

pub(super) fn parse(
    text: &str,
    element_type: &DataType,
    zone: &TimeZone,
) -> Result<Value, EffectError> {
    let values = elements(text)?;
    let values = values.into_iter().map(|element| match element {
        None => Ok(Value::Null),
        Some(element) => parse_value(&element, element_type, zone),
    });
    Ok(Value::Array(values.collect::<Result<Vec<_>, _>>()?.into()))
}

/// Whether an element, read as a `timestamptz`, depends on the time zone.
pub(super) fn depends_on_zone(text: &str) -> bool {
    let elements = elements(text).unwrap_or_default();
    elements
        .iter()
        .flatten()
        .any(|element| moment::depends_on_zone(element))
}

/// The texts of the elements; `None` for NULL.
fn elements(text: &str) -> Result<Vec<Option<String>>, EffectError> {
    let malformed = || EffectError::new("22P02", format!("malformed array literal: \"{text}\""));
    let unsupported = |what: &str| {
        let message = format!("{what} is not supported: \"{text}\"");
        EffectError::new("0A000", message)
    };
    let whole = trimmed(text);
    if whole.starts_with('[') {
        return Err(unsupported("an array with bounds of its own"));
    }
    let inner = whole
        .strip_prefix('{')
        .and_then(|inner| inner.strip_suffix('}'))
        .ok_or_else(malformed)?;
    let mut values = Vec::new();
    let mut characters = inner.chars().peekable();
    if trimmed(inner).is_empty() {
        return Ok(values);
    }
    loop {
        let mut item = String::new();
        let mut quoted = false;
        while characters.next_if(|c| is_blank(*c)).is_some() {}
        if characters.next_if_eq(&'"').is_some() {
            quoted = true;
            loop {
                match characters.next().ok_or_else(malformed)? {
                    '"' => break,
                    '\\' => item.push(characters.next().ok_or_else(malformed)?),
                    c => item.push(c),
                }
            }
            while characters.next_if(|c| is_blank(*c)).is_some() {}
        } else {
            // Blanks before the end are passed over, unless they are escaped.
            let mut kept = 0;
            while let Some(c) = characters.next_if(|c| *c != ',') {
                match c {
                    '{' if item.is_empty() => {
                        return Err(unsupported("an array of several dimensions"));
                    }
                    '{' | '}' | '"' => return Err(malformed()),
                    '\\' => {
                        item.push(characters.next().ok_or_else(malformed)?);
                        kept = item.len();
                    }
                    c => {
                        item.push(c);
                        if !is_blank(c) {
                            kept = item.len();
                        }
                    }
                }
                // An escape makes NULL a text.
                quoted |= c == '\\';
            }
            item.truncate(kept);
            if item.is_empty() {
                return Err(malformed());
            }
        }
        let null = !quoted && item.eq_ignore_ascii_case("null");
        values.push((!null).then_some(item));
        match characters.next() {
            None => return Ok(values),
            Some(',') => {}
            Some(_) => return Err(malformed()),
        }
    }
}
