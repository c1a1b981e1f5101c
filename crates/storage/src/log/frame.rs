//! Frames: batches of records, each with a length, a checksum and a position.
//!
//! | bytes | |
//! |---|---|
//! | 4 | CRC-32 of everything after it |
//! | 4 | the payload's length |
//! | 8 | the frame's position (in a checkpoint: its offset) |
//! | 8 | up to where the log was durable when it was written (in a checkpoint: its position) |
//! | … | the payload: records, encoded by `postcard`, one after the other |
//!
//! Numbers are little-endian. The checksum covers the position, so stale bytes of an earlier use of the
//! same disk space are not taken for a frame.

use serde::Serialize;

use super::LogError;

/// The bytes before the payload.
pub(super) const HEADER: usize = 24;

/// The longest payload.
const PAYLOAD_MAX: usize = 1 << 30;

/// The result of looking for a frame.
pub(super) enum Found<'b> {
    /// A complete frame.
    Whole { durable: u64, payload: &'b [u8] },
    /// No complete frame, with the reason.
    Broken(&'static str),
}

/// Reserves space for the header.
pub(super) fn begin(buffer: &mut Vec<u8>) {
    buffer.extend_from_slice(&[0; HEADER]);
}

/// Adds a record.
pub(super) fn put<R: Serialize>(buffer: &mut Vec<u8>, record: &R) -> Result<(), LogError> {
    let unloggable = |reason: String| LogError::Unloggable { reason };
    postcard::to_io(record, &mut *buffer).map_err(|error| unloggable(error.to_string()))?;
    if buffer.len() > PAYLOAD_MAX {
        return Err(unloggable(format!(
            "its frame has {} bytes, more than the limit of {PAYLOAD_MAX}",
            buffer.len()
        )));
    }
    Ok(())
}

/// Fills in the header.
pub(super) fn end(buffer: &mut [u8], position: u64, durable: u64) {
    let length = (buffer.len() - HEADER) as u32;
    buffer[4..8].copy_from_slice(&length.to_le_bytes());
    buffer[8..16].copy_from_slice(&position.to_le_bytes());
    buffer[16..24].copy_from_slice(&durable.to_le_bytes());
    let checksum = crc32fast::hash(&buffer[4..]);
    buffer[..4].copy_from_slice(&checksum.to_le_bytes());
}

/// The payload's length, if the header has a valid one.
pub(super) fn length(header: &[u8]) -> Option<usize> {
    let length = word(header, 4)? as usize;
    (length <= PAYLOAD_MAX).then_some(length)
}

/// Looks for the frame with this position at the beginning of `bytes`.
pub(super) fn find(bytes: &[u8], position: u64) -> Found<'_> {
    if bytes.len() < HEADER {
        return Found::Broken("the file ends within a frame's header");
    }
    if long(bytes, 8) != Some(position) {
        return Found::Broken("there is no frame with this position");
    }
    let Some(whole) = length(bytes).and_then(|length| bytes.get(..HEADER + length)) else {
        return Found::Broken("the file ends within a frame");
    };
    if word(whole, 0) != Some(crc32fast::hash(&whole[4..])) {
        return Found::Broken("the frame's checksum is wrong");
    }
    Found::Whole {
        durable: long(whole, 16).unwrap_or(0),
        payload: &whole[HEADER..],
    }
}

/// Whether a later frame shows that the broken frame at `position`, with which `bytes` begin, had been
/// durable.
pub(super) fn was_durable(bytes: &[u8], position: u64) -> bool {
    (1..bytes.len().saturating_sub(HEADER - 1)).any(|offset| {
        match find(&bytes[offset..], position + offset as u64) {
            Found::Whole { durable, .. } => durable > position,
            Found::Broken(_) => false,
        }
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}
