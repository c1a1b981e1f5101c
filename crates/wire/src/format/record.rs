//! A row as one value: the text and binary form of type `record`.

use anabranch_types::text::{TextSink, format_value};
use anabranch_types::{DataType, EffectError, TimeZone, Value};
use bytes::{BufMut, BytesMut};

use super::{Format, encode, oid_of};

/// Appends a row in binary form: the number of columns, then each one's OID, its length or -1 for NULL, and its bytes.
///
/// # Errors
/// As [`super::encode_binary`].
pub fn encode_record(
    columns: &[(&Value, &DataType)],
    out: &mut BytesMut,
) -> Result<(), EffectError> {
    let count = i32::try_from(columns.len())
        .map_err(|_| EffectError::new("54011", "a row has too many columns"))?;
    out.put_i32(count);
    for (value, data_type) in columns {
        out.put_u32(oid_of(data_type));
        encode(value, data_type, Format::Binary, &TimeZone::UTC, out)?;
    }
    Ok(())
}

/// Appends a row as text: `(1,"a b",)`, where NULL is empty.
pub fn write_record(out: &mut impl TextSink, columns: &[(&Value, &DataType)], zone: &TimeZone) {
    out.push_str("(");
    for (place, (value, data_type)) in columns.iter().enumerate() {
        if place > 0 {
            out.push_str(",");
        }
        if !value.is_null() {
            write_column(out, &format_value(value, data_type, zone));
        }
    }
    out.push_str(")");
}

fn write_column(out: &mut impl TextSink, text: &str) {
    let special =
        |c: char| matches!(c, '"' | '\\' | '(' | ')' | ',' | '\x0b') || c.is_ascii_whitespace();
    if !text.is_empty() && !text.contains(special) {
        return out.push_str(text);
    }
    out.push_str("\"");
    let mut rest = text;
    while let Some(at) = rest.find(['"', '\\']) {
        out.push_str(&rest[..=at]);
        out.push_str(&rest[at..=at]);
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push_str("\"");
}
