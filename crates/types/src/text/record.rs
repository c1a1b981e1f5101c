//! A row as one text: `(1,"a b",)`, where NULL is empty.

use super::{TextSink, is_blank, write_value};
use crate::zone::TimeZone;
use crate::{DataType, Value};

/// Writes a row of columns of these types.
pub(super) fn write(
    out: &mut impl TextSink,
    columns: &[Value],
    types: &[DataType],
    zone: &TimeZone,
) {
    let mut text = String::new();
    out.push_str("(");
    for (place, (value, data_type)) in columns.iter().zip(types).enumerate() {
        if place > 0 {
            out.push_str(",");
        }
        if value.is_null() {
            continue;
        }
        text.clear();
        write_value(&mut text, value, data_type, zone);
        write_column(out, &text);
    }
    out.push_str(")");
}

fn write_column(out: &mut impl TextSink, text: &str) {
    let special = |c: char| matches!(c, '"' | '\\' | '(' | ')' | ',') || is_blank(c);
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
