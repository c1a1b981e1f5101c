//! `encode`, `decode`, and the conversion between text and bytes.

use anabranch_types::Value;

use super::{Failure, budget::within_value, failure};

/// A function over bytes or their text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Bytes as text in a format.
    Encode,
    /// The bytes of a text in a format.
    Decode,
    /// The text that bytes are in an encoding.
    ConvertFrom,
    /// The bytes of a text in an encoding.
    ConvertTo,
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The characters of a line in base64.
const LINE: usize = 76;

/// The value of a function for arguments that are not NULL.
pub(crate) fn call(function: Encoding, arguments: &[Value]) -> Result<Value, Failure> {
    match (function, arguments) {
        (Encoding::Encode, [Value::Bytes(bytes), Value::Text(format)]) => {
            within_value(bytes.len().saturating_mul(4))?;
            let text = match format.to_ascii_lowercase().as_str() {
                "hex" => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
                "base64" => to_base64(bytes),
                "escape" => to_escape(bytes),
                _ => return Err(unknown(format)),
            };
            within_value(text.len())?;
            Ok(Value::Text(text.into()))
        }
        (Encoding::Decode, [Value::Text(text), Value::Text(format)]) => {
            let bytes = match format.to_ascii_lowercase().as_str() {
                "hex" => of_hex(text)?,
                "base64" => of_base64(text)?,
                "escape" => of_escape(text)?,
                _ => return Err(unknown(format)),
            };
            Ok(Value::Bytes(bytes.into()))
        }
        (Encoding::ConvertFrom, [Value::Bytes(bytes), Value::Text(encoding)]) => {
            check_encoding(encoding)?;
            let text = std::str::from_utf8(bytes)
                .ok()
                .filter(|text| !text.contains('\0'));
            match text {
                Some(text) => Ok(Value::text(text)),
                None => Err(invalid_utf8(bytes)),
            }
        }
        (Encoding::ConvertTo, [Value::Text(text), Value::Text(encoding)]) => {
            check_encoding(encoding)?;
            Ok(Value::Bytes(text.as_bytes().into()))
        }
        _ => {
            let message = format!("{function:?} is not defined on {arguments:?}");
            Err(failure("XX000", message))
        }
    }
}

fn unknown(format: &str) -> Failure {
    failure("22023", format!("unrecognized encoding: \"{format}\""))
}

fn check_encoding(name: &str) -> Result<(), Failure> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    match plain.to_ascii_lowercase().as_str() {
        "utf8" | "unicode" => Ok(()),
        _ => {
            let message = format!("the encoding \"{name}\" is not supported");
            Err(failure("0A000", message))
        }
    }
}

fn invalid_utf8(bytes: &[u8]) -> Failure {
    let start = match std::str::from_utf8(bytes) {
        Ok(text) => text.find('\0').unwrap_or(0),
        Err(error) => {
            let valid = error.valid_up_to();
            bytes[..valid]
                .iter()
                .position(|byte| *byte == 0)
                .unwrap_or(valid)
        }
    };
    let length = match bytes.get(start) {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => 1,
    };
    let shown: Vec<String> = bytes[start..]
        .iter()
        .take(length)
        .map(|byte| format!("0x{byte:02x}"))
        .collect();
    let shown = shown.join(" ");
    failure(
        "22021",
        format!("invalid byte sequence for encoding \"UTF8\": {shown}"),
    )
}

fn to_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 4 / 3 + 4);
    let mut in_line = 0;
    for group in bytes.chunks(3) {
        let number = (0..3).fold(0u32, |number, place| {
            number << 8 | u32::from(group.get(place).copied().unwrap_or(0))
        });
        for place in 0..4 {
            match place <= group.len() {
                true => {
                    let digit = number >> (18 - 6 * place) & 63;
                    out.push(char::from(ALPHABET[digit as usize]));
                }
                false => out.push('='),
            }
        }
        in_line += 4;
        // Only a whole group ends a line.
        if in_line >= LINE && group.len() == 3 {
            out.push('\n');
            in_line = 0;
        }
    }
    out
}

fn of_base64(text: &str) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut number, mut place, mut padding) = (0u32, 0, 0);
    for c in text.chars() {
        if matches!(c, ' ' | '\t' | '\n' | '\r') {
            continue;
        }
        let digit = match c {
            '=' => {
                if padding == 0 {
                    padding = match place {
                        2 => 1,
                        3 => 2,
                        _ => {
                            let message = "unexpected \"=\" while decoding base64 sequence";
                            return Err(failure("22023", message));
                        }
                    };
                }
                0
            }
            c => {
                let found = ALPHABET.iter().position(|of| char::from(*of) == c);
                let Some(digit) = found else {
                    let message =
                        format!("invalid symbol \"{c}\" found while decoding base64 sequence");
                    return Err(failure("22023", message));
                };
                digit as u32
            }
        };
        number = number << 6 | digit;
        place += 1;
        if place == 4 {
            out.push((number >> 16) as u8);
            if padding == 0 || padding > 1 {
                out.push((number >> 8) as u8);
            }
            if padding == 0 || padding > 2 {
                out.push(number as u8);
            }
            (number, place) = (0, 0);
        }
    }
    match place {
        0 => Ok(out),
        _ => Err(failure("22023", "invalid base64 end sequence")),
    }
}

fn of_hex(text: &str) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for c in text.chars() {
        if high.is_none() && matches!(c, ' ' | '\t' | '\n' | '\r') {
            continue;
        }
        let Some(digit) = c.to_digit(16) else {
            let message = format!("invalid hexadecimal digit: \"{c}\"");
            return Err(failure("22023", message));
        };
        high = match high {
            None => Some(digit),
            Some(high) => {
                out.push((high << 4 | digit) as u8);
                None
            }
        };
    }
    match high {
        None => Ok(out),
        Some(_) => {
            let message = "invalid hexadecimal data: odd number of digits";
            Err(failure("22023", message))
        }
    }
}

fn to_escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            0 | 128.. => out.push_str(&format!("\\{byte:03o}")),
            b'\\' => out.push_str("\\\\"),
            byte => out.push(char::from(*byte)),
        }
    }
    out
}

fn of_escape(text: &str) -> Result<Vec<u8>, Failure> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match &bytes[at..] {
            [b'\\', b'\\', ..] => {
                out.push(b'\\');
                at += 2;
            }
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                at += 4;
            }
            [b'\\', ..] => {
                let message = "invalid input syntax for type bytea";
                return Err(failure("22P02", message));
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    Ok(out)
}
