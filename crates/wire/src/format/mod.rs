//! Values as clients send and receive them: PostgreSQL's type OIDs, and the text and binary form of every type.
//!
//! The text form is [`anabranch_types::text`]'s, which the SQL of casts uses as well. The binary form is that of
//! PostgreSQL 15's `…send` and `…recv` functions. What a client sends is checked before it is believed: each length
//! against the bytes that are there, each number against its type. What PostgreSQL's types hold and ours do not is
//! refused: `NaN` and infinities of `numeric`, more than 38 digits, infinite dates, arrays of several dimensions or
//! with bounds of their own.
//!
//! NULL has no form; a message says that a value is NULL by a length of -1 ([`encode`] writes it).

mod binary;
mod oid;
mod record;

use anabranch_types::text::{TextSink, parse_value, write_value};
use anabranch_types::{DataType, EffectError, TimeZone, Value};
use bytes::{BufMut, BytesMut};

pub use binary::{decode_binary, encode_binary};
pub use oid::{UNKNOWN, array_oid_of, data_type_of, oid_of, type_length_of, type_modifier_of};

/// The form of a value in a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text, in UTF-8.
    #[default]
    Text,
    /// PostgreSQL's binary form of the type.
    Binary,
}

impl Format {
    /// The format with a message's code.
    ///
    /// # Errors
    /// `22023` for an unknown code, as PostgreSQL.
    pub fn from_code(code: i16) -> Result<Format, EffectError> {
        match code {
            0 => Ok(Format::Text),
            1 => Ok(Format::Binary),
            _ => Err(EffectError::new(
                "22023",
                format!("unsupported format code: {code}"),
            )),
        }
    }

    /// The code in a message.
    pub fn code(self) -> i16 {
        match self {
            Format::Text => 0,
            Format::Binary => 1,
        }
    }
}

/// Appends a value as a column of a `DataRow`: its length, or -1 for NULL, and its bytes.
///
/// # Errors
/// As [`encode_binary`]. Nothing is appended then.
pub fn encode(
    value: &Value,
    data_type: &DataType,
    format: Format,
    zone: &TimeZone,
    out: &mut BytesMut,
) -> Result<(), EffectError> {
    if value.is_null() {
        out.put_i32(-1);
        return Ok(());
    }
    binary::with_length(out, |out| match format {
        Format::Text => {
            encode_text(value, data_type, zone, out);
            Ok(())
        }
        Format::Binary => encode_binary(value, data_type, out),
    })
}

/// Appends the text of a value that is not NULL, without its length. A `timestamptz` is in local time.
pub fn encode_text(value: &Value, data_type: &DataType, zone: &TimeZone, out: &mut BytesMut) {
    write_value(&mut Utf8(out), value, data_type, zone);
}

/// The value of a parameter. `None` is NULL.
///
/// # Errors
/// As [`decode_text`] and [`decode_binary`].
pub fn decode(
    bytes: Option<&[u8]>,
    data_type: &DataType,
    format: Format,
    zone: &TimeZone,
) -> Result<Value, EffectError> {
    match (bytes, format) {
        (None, _) => Ok(Value::Null),
        (Some(bytes), Format::Text) => decode_text(bytes, data_type, zone),
        (Some(bytes), Format::Binary) => decode_binary(bytes, data_type),
    }
}

/// The value with this text. A `timestamptz` that names no time zone is taken in `zone`.
///
/// # Errors
/// With PostgreSQL's SQLSTATE and message: no UTF-8, a NUL, not a value of the type, out of range.
pub fn decode_text(
    bytes: &[u8],
    data_type: &DataType,
    zone: &TimeZone,
) -> Result<Value, EffectError> {
    parse_value(text_of(bytes)?, data_type, zone)
}

/// A client's bytes as text.
///
/// # Errors
/// `22021` if they are not UTF-8, or have a NUL.
pub fn text_of(bytes: &[u8]) -> Result<&str, EffectError> {
    let invalid = |at: usize| {
        let shown: Vec<String> = bytes[at..]
            .iter()
            .take(sequence_length(bytes[at]))
            .map(|byte| format!("0x{byte:02x}"))
            .collect();
        let message = format!(
            "invalid byte sequence for encoding \"UTF8\": {}",
            shown.join(" ")
        );
        EffectError::new("22021", message)
    };
    let text = std::str::from_utf8(bytes).map_err(|error| invalid(error.valid_up_to()))?;
    match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => Err(invalid(at)),
        None => Ok(text),
    }
}

/// The bytes of the character that begins so, if it were valid.
fn sequence_length(first: u8) -> usize {
    match first {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    }
}

/// Takes text into a message.
struct Utf8<'b>(&'b mut BytesMut);

impl TextSink for Utf8<'_> {
    #[inline]
    fn push_str(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }
}
