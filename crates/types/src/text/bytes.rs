//! UUIDs and byte strings as text.

use super::TextSink;
use crate::EffectError;

const HEXADECIMAL: &[u8; 16] = b"0123456789abcdef";

/// Writes `a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11`.
pub fn write_uuid(out: &mut impl TextSink, uuid: &[u8; 16]) {
    for (place, byte) in uuid.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            out.push_str("-");
        }
        push_hexadecimal(out, *byte);
    }
}

/// Writes `\x` and hexadecimal.
pub fn write_bytea(out: &mut impl TextSink, bytes: &[u8]) {
    out.push_str("\\x");
    for byte in bytes {
        push_hexadecimal(out, *byte);
    }
}

fn push_hexadecimal(out: &mut impl TextSink, byte: u8) {
    let digits = [
        HEXADECIMAL[usize::from(byte >> 4)],
        HEXADECIMAL[usize::from(byte & 15)],
    ];
    out.push_str(std::str::from_utf8(&digits).expect("digits are ASCII"));
}

/// Parses PostgreSQL's forms: hexadecimal of either case, a hyphen after any group of four digits or none, braces
/// around it or none. `None` for anything else.
pub fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let inner = match text.strip_prefix('{') {
        Some(inner) => inner.strip_suffix('}')?,
        None => text,
    };
    let mut uuid = [0; 16];
    let mut digits = 0;
    let mut hyphen_allowed = false;
    for c in inner.chars() {
        if c == '-' && hyphen_allowed && digits < 32 {
            hyphen_allowed = false;
            continue;
        }
        let digit = c.to_digit(16)? as u8;
        *uuid.get_mut(digits / 2)? |= digit << if digits % 2 == 0 { 4 } else { 0 };
        digits += 1;
        hyphen_allowed = digits % 4 == 0;
    }
    (digits == 32).then_some(uuid)
}

/// Parses PostgreSQL's two input forms: `\x` and hexadecimal (blanks between bytes), or text with `\\` and `\ooo`.
///
/// # Errors
/// `22023` for bad hexadecimal, `22P02` for a bad escape, as PostgreSQL.
pub fn parse_bytea(text: &str) -> Result<Vec<u8>, EffectError> {
    match text.strip_prefix("\\x") {
        Some(hexadecimal) => parse_hexadecimal(hexadecimal),
        None => parse_escaped(text.as_bytes())
            .ok_or_else(|| EffectError::new("22P02", "invalid input syntax for type bytea")),
    }
}

fn parse_hexadecimal(text: &str) -> Result<Vec<u8>, EffectError> {
    let digit = |c: char| {
        c.to_digit(16)
            .map(|digit| digit as u8)
            .ok_or_else(|| EffectError::new("22023", format!("invalid hexadecimal digit: \"{c}\"")))
    };
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if matches!(c, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let high = digit(c)?;
        let low = rest.next().ok_or_else(|| {
            EffectError::new("22023", "invalid hexadecimal data: odd number of digits")
        })?;
        bytes.push(high << 4 | digit(low)?);
    }
    Ok(bytes)
}

fn parse_escaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        match (text[at], text.get(at + 1..at + 4)) {
            (b'\\', _) if text.get(at + 1) == Some(&b'\\') => {
                bytes.push(b'\\');
                at += 2;
            }
            (b'\\', Some(&[high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7'])) => {
                bytes.push((high - b'0') * 64 + (middle - b'0') * 8 + (low - b'0'));
                at += 4;
            }
            (b'\\', _) => return None,
            (byte, _) => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    Some(bytes)
}
