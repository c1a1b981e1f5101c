//! Writes JSON: strings with their escapes, and documents in normal form.

use std::cmp::Ordering;

use super::{DEPTH_MAX, JsonError, Kind, Node, TEXT_BYTES_MAX, number};

/// Appends a string with its quotes and escapes.
pub fn write_string(out: &mut String, content: &str) {
    out.push('"');
    let mut done = 0;
    for (at, byte) in content.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x08 => "\\b",
            0x0c => "\\f",
            0x00..=0x1f => "",
            _ => continue,
        };
        out.push_str(&content[done..at]);
        done = at + 1;
        match escape {
            "" => out.push_str(&format!("\\u{byte:04x}")),
            escape => out.push_str(escape),
        }
    }
    out.push_str(&content[done..]);
    out.push('"');
}

/// The order of an object's keys in normal form.
fn by_length(left: &str, right: &str) -> Ordering {
    let lengths = left.len().cmp(&right.len());
    lengths.then_with(|| left.as_bytes().cmp(right.as_bytes()))
}

/// Appends a node's normal text. `depth` is the number of levels around it: a node may be made of parsed ones.
pub(super) fn normal(node: &Node<'_>, depth: usize, out: &mut String) -> Result<(), JsonError> {
    if depth >= DEPTH_MAX && !node.is_scalar() {
        return Err(JsonError::too_deep());
    }
    if out.len() > TEXT_BYTES_MAX {
        return Err(JsonError::new("54000", "the JSON value is too long").with_hint(format!(
            "A value has at most {TEXT_BYTES_MAX} bytes; numbers with large exponents are written out."
        )));
    }
    match &node.kind {
        Kind::Null => out.push_str("null"),
        Kind::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Kind::Number => out.push_str(&number::normal(&node.text)?),
        Kind::String(content) => write_string(out, content),
        Kind::Array(elements) => {
            out.push('[');
            for (place, element) in elements.iter().enumerate() {
                if place > 0 {
                    out.push_str(", ");
                }
                normal(element, depth + 1, out)?;
            }
            out.push(']');
        }
        Kind::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            // Stable: of equal keys the last comes last.
            sorted.sort_by(|(left, _), (right, _)| by_length(left, right));
            out.push('{');
            let mut is_first = true;
            for (place, (name, value)) in sorted.iter().enumerate() {
                if sorted.get(place + 1).is_some_and(|(next, _)| next == name) {
                    // PostgreSQL checks the values that it drops.
                    normal(value, depth + 1, &mut String::new())?;
                    continue;
                }
                if !is_first {
                    out.push_str(", ");
                }
                is_first = false;
                write_string(out, name);
                out.push_str(": ");
                normal(value, depth + 1, out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

/// Appends a text that equal values share: the normal text, but for zeros behind the points of numbers. The node is of a normal
/// text.
pub(super) fn canonical(node: &Node<'_>, out: &mut String) {
    match &node.kind {
        Kind::Number => out.push_str(number::canonical(&node.text)),
        Kind::Array(elements) => {
            out.push('[');
            for (place, element) in elements.iter().enumerate() {
                out.push_str(if place > 0 { ", " } else { "" });
                canonical(element, out);
            }
            out.push(']');
        }
        Kind::Object(members) => {
            out.push('{');
            for (place, (name, value)) in members.iter().enumerate() {
                out.push_str(if place > 0 { ", " } else { "" });
                write_string(out, name);
                out.push_str(": ");
                canonical(value, out);
            }
            out.push('}');
        }
        _ => out.push_str(&node.text),
    }
}

/// Appends a document over several lines, as `jsonb_pretty` does. The node is of a normal text. It stops where the text has more
/// than [`TEXT_BYTES_MAX`] bytes.
pub fn write_pretty(node: &Node<'_>, depth: usize, out: &mut String) {
    const INDENT: &str = "    ";
    if out.len() > TEXT_BYTES_MAX {
        return;
    }
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(INDENT, depth));
    };
    match &node.kind {
        Kind::Array(elements) => {
            out.push('[');
            for (place, element) in elements.iter().enumerate() {
                out.push_str(if place > 0 { "," } else { "" });
                line(out, depth + 1);
                write_pretty(element, depth + 1, out);
            }
            line(out, depth);
            out.push(']');
        }
        Kind::Object(members) => {
            out.push('{');
            for (place, (name, value)) in members.iter().enumerate() {
                out.push_str(if place > 0 { "," } else { "" });
                line(out, depth + 1);
                write_string(out, name);
                out.push_str(": ");
                write_pretty(value, depth + 1, out);
            }
            line(out, depth);
            out.push('}');
        }
        _ => out.push_str(&node.text),
    }
}
