//! The binary form of every type, as PostgreSQL's `…send` functions write it and its `…recv` functions read it.

mod array;
mod numeric;

use anabranch_types::bounds::{bound_numeric, bound_text};
use anabranch_types::calendar::{is_date, is_timestamp};
use anabranch_types::text::parse_value;
use anabranch_types::{DataType, EffectError, TimeZone, Value};
use bytes::{Buf, BufMut, BytesMut};

use super::record::encode_record;
use super::{encode_text, text_of};

/// The first byte of a `jsonb`; its text follows.
const JSONB_VERSION: u8 = 1;

/// Appends the binary form of a value that is not NULL, without its length.
///
/// # Errors
/// `XX000` if the value is not of the type; `54000` if it has more bytes than a message can say. What has been
/// appended until then stays.
pub fn encode_binary(
    value: &Value,
    data_type: &DataType,
    out: &mut BytesMut,
) -> Result<(), EffectError> {
    match (value, data_type) {
        (Value::Bool(truth), DataType::Bool) => out.put_u8(u8::from(*truth)),
        (Value::Int(int), DataType::Int2) => out.put_i16(*int as i16),
        (Value::Int(int), DataType::Int4) => out.put_i32(*int as i32),
        (Value::Int(int), DataType::Int8) => out.put_i64(*int),
        (Value::Float(float), DataType::Real) => out.put_f32(*float as f32),
        (Value::Float(float), DataType::Double) => out.put_f64(*float),
        (Value::Numeric(decimal), DataType::Numeric(_)) => numeric::encode(*decimal, out),
        (Value::Int(oid), DataType::Oid | DataType::OidAlias(_)) => out.put_u32(*oid as u32),
        // The byte, or 0 where there is none.
        (Value::Text(text), DataType::SingleByte) => {
            out.put_u8(text.as_bytes().first().copied().unwrap_or(0));
        }
        (Value::Text(_), DataType::Void) => {}
        // Blank-padded as in text.
        (Value::Text(_), data_type) if data_type.is_text() => {
            encode_text(value, data_type, &TimeZone::UTC, out);
        }
        (Value::Text(_), DataType::Json | DataType::Enum(_)) => {
            encode_text(value, data_type, &TimeZone::UTC, out)
        }
        (Value::Jsonb(json), DataType::Jsonb) => {
            out.put_u8(JSONB_VERSION);
            out.extend_from_slice(json.as_str().as_bytes());
        }
        (Value::Bytes(bytes), DataType::Bytea) => out.extend_from_slice(bytes),
        (Value::Uuid(uuid), DataType::Uuid) => out.extend_from_slice(uuid),
        (Value::Timestamp(micros), DataType::Timestamp | DataType::TimestampTz) => {
            out.put_i64(*micros);
        }
        (Value::Date(days), DataType::Date) => out.put_i32(*days),
        (Value::Array(elements), DataType::Array(element_type)) => {
            return array::encode(elements, element_type, 1, out);
        }
        (Value::Array(elements), DataType::Int2Vector) => {
            return array::encode(elements, &DataType::Int2, 0, out);
        }
        (Value::Array(elements), DataType::OidVector) => {
            return array::encode(elements, &DataType::Oid, 0, out);
        }
        (Value::Array(columns), DataType::Record(types)) => {
            return encode_record(columns, types, out);
        }
        _ => {
            let message = format!("{value:?} has no binary form as {data_type}");
            return Err(EffectError::new("XX000", message));
        }
    }
    Ok(())
}

/// Appends what `write` appends, with its length in four bytes before it; nothing if it fails.
pub(super) fn with_length(
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> Result<(), EffectError>,
) -> Result<(), EffectError> {
    let start = out.len();
    out.put_i32(0);
    let written = write(out).and_then(|()| {
        i32::try_from(out.len() - start - 4)
            .map_err(|_| EffectError::new("54000", "a value is longer than 2,147,483,647 bytes"))
    });
    match written {
        Ok(length) => {
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
            Ok(())
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

/// The value with this binary form.
///
/// # Errors
/// `08P01` if bytes are missing and `22P03` if some are left or wrong, as PostgreSQL; `22003`, `22008` or `22001` if
/// the value is out of its type's range; `0A000` if the type holds it in PostgreSQL alone.
pub fn decode_binary(bytes: &[u8], data_type: &DataType) -> Result<Value, EffectError> {
    let mut input = Input { bytes, data_type };
    let value = match data_type {
        DataType::Bool => Value::Bool(input.take::<1>()?[0] != 0),
        DataType::Int2 => Value::Int(i16::from_be_bytes(input.take()?).into()),
        DataType::Int4 => Value::Int(i32::from_be_bytes(input.take()?).into()),
        DataType::Int8 => Value::Int(i64::from_be_bytes(input.take()?)),
        DataType::Real => Value::Float(f32::from_be_bytes(input.take()?).into()),
        DataType::Double => Value::Float(f64::from_be_bytes(input.take()?)),
        DataType::Numeric(_) => bound_numeric(numeric::decode(&mut input)?, data_type)?,
        DataType::Oid => Value::Int(u32::from_be_bytes(input.take()?).into()),
        DataType::SingleByte => match input.take::<1>()? {
            [0] => Value::text(""),
            byte => Value::text(text_of(&byte)?),
        },
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Name => {
            let text = text_of(input.rest())?;
            Value::Text(bound_text(text.into(), data_type, false)?)
        }
        DataType::Json | DataType::Jsonb | DataType::Enum(_) => {
            if *data_type == DataType::Jsonb {
                let [version] = input.take()?;
                if version != JSONB_VERSION {
                    let message = format!("unsupported jsonb version number {version}");
                    return Err(EffectError::new("XX000", message));
                }
            }
            // Neither depends on a time zone.
            parse_value(text_of(input.rest())?, data_type, &TimeZone::UTC)?
        }
        DataType::Bytea => Value::Bytes(input.rest().into()),
        DataType::Uuid => Value::Uuid(input.take()?),
        DataType::Timestamp | DataType::TimestampTz => {
            timestamp(i64::from_be_bytes(input.take()?))?
        }
        DataType::Date => date(i32::from_be_bytes(input.take()?))?,
        DataType::Array(element_type) => array::decode(&mut input, element_type)?,
        _ => {
            let message = format!("type {data_type} has no binary form");
            return Err(EffectError::new("0A000", message));
        }
    };
    input.end()?;
    Ok(value)
}

fn timestamp(micros: i64) -> Result<Value, EffectError> {
    match micros {
        i64::MIN | i64::MAX => Err(EffectError::new(
            "0A000",
            "an infinite timestamp is not supported",
        )),
        micros if is_timestamp(micros) => Ok(Value::Timestamp(micros)),
        _ => Err(EffectError::new("22008", "timestamp out of range")),
    }
}

fn date(days: i32) -> Result<Value, EffectError> {
    match days {
        i32::MIN | i32::MAX => Err(EffectError::new(
            "0A000",
            "an infinite date is not supported",
        )),
        days if is_date(days) => Ok(Value::Date(days)),
        _ => Err(EffectError::new("22008", "date out of range")),
    }
}

/// The bytes of a value that have not been read yet.
pub(super) struct Input<'b> {
    bytes: &'b [u8],
    /// For messages.
    data_type: &'b DataType,
}

impl<'b> Input<'b> {
    /// The next `N` bytes.
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], EffectError> {
        let (taken, rest) = self
            .bytes
            .split_first_chunk::<N>()
            .ok_or_else(|| self.missing())?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// The next `count` bytes.
    pub(super) fn take_slice(&mut self, count: usize) -> Result<&'b [u8], EffectError> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(count)
            .ok_or_else(|| self.missing())?;
        self.bytes = rest;
        Ok(taken)
    }

    /// All bytes that are left.
    pub(super) fn rest(&mut self) -> &'b [u8] {
        std::mem::take(&mut self.bytes)
    }

    /// The number of bytes that are left.
    pub(super) fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    /// An error about bytes that are not there.
    fn missing(&self) -> EffectError {
        let message = format!(
            "insufficient data left in message for type {}",
            self.data_type
        );
        EffectError::new("08P01", message)
    }

    /// An error about bytes that say what no value is.
    pub(super) fn wrong(&self, what: impl Into<String>) -> EffectError {
        EffectError::new("22P03", what)
    }

    /// Checks that nothing is left.
    fn end(&self) -> Result<(), EffectError> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let message = format!(
            "incorrect binary data format for type {}: {} bytes too many",
            self.data_type,
            self.bytes.len()
        );
        Err(self.wrong(message))
    }
}
