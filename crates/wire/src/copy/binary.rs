//! The binary format: a header, then for each row the number of its values, and each value with its length.

use anabranch_types::{DataType, EffectError, Value};

use super::bad_format;
use crate::format::decode_binary;

/// The first bytes of the data.
pub(super) const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// Flags, and the length of the header's extension.
const HEADER_BYTES: usize = SIGNATURE.len() + 8;

/// How far the data is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Signature,
    Rows,
}

/// What was read.
pub(super) enum Step {
    Incomplete,
    Header,
    Row(Vec<Value>),
    End,
}

/// Reads the header or a row at `from`, and moves it behind. An error names the column, where one is concerned.
pub(super) fn step(
    progress: &mut Progress,
    data: &[u8],
    from: &mut usize,
    columns: &[(String, DataType)],
) -> Result<Step, (EffectError, Option<usize>)> {
    let rest = &data[*from..];
    if *progress == Progress::Signature {
        let known = rest.len().min(SIGNATURE.len());
        if rest[..known] != SIGNATURE[..known] {
            return Err((bad_format("COPY file signature not recognized"), None));
        }
        let Some(header) = rest.get(..HEADER_BYTES) else {
            return Ok(Step::Incomplete);
        };
        let number = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        // The high half of the flags must be understood; the only one of it says that rows have OIDs.
        if number(SIGNATURE.len()) >> 16 != 0 {
            let message = "unrecognized critical flags in COPY file header";
            return Err((bad_format(message), None));
        }
        let extension = number(SIGNATURE.len() + 4) as usize;
        if rest.len() - HEADER_BYTES < extension {
            return Ok(Step::Incomplete);
        }
        *from += HEADER_BYTES + extension;
        *progress = Progress::Rows;
        return Ok(Step::Header);
    }
    let mut at = 0;
    let Some(count) = rest.get(..2) else {
        return Ok(Step::Incomplete);
    };
    at += 2;
    let count = i16::from_be_bytes([count[0], count[1]]);
    if count == -1 {
        *from += at;
        return Ok(Step::End);
    }
    if usize::try_from(count).ok() != Some(columns.len()) {
        let message = format!("row field count is {count}, expected {}", columns.len());
        return Err((bad_format(message), None));
    }
    let mut values = Vec::with_capacity(columns.len());
    for (column, (_, data_type)) in columns.iter().enumerate() {
        let Some(length) = rest.get(at..at + 4) else {
            return Ok(Step::Incomplete);
        };
        at += 4;
        let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
        if length == -1 {
            values.push(Value::Null);
            continue;
        }
        let Ok(length) = usize::try_from(length) else {
            return Err((bad_format("invalid field size"), Some(column)));
        };
        let Some(bytes) = rest.get(at..).and_then(|rest| rest.get(..length)) else {
            return Ok(Step::Incomplete);
        };
        at += length;
        values.push(decode_binary(bytes, data_type).map_err(|error| (error, Some(column)))?);
    }
    *from += at;
    Ok(Step::Row(values))
}
