//! Frames: batches of records, each with a length, a checksum and a position.
//!
//! | bytes | |
//! |---|---|
//! | 4 | CRC-32 of everything after it |
//! | 4 | the payload's length; the highest bit is set for a [marker](super::epoch) |
//! | 8 | the frame's position (in a checkpoint: its offset) |
//! | 8 | up to where the log was durable when it was written (in a checkpoint: its position) |
//! | … | the payload: records, encoded by `postcard`, one after the other; of a marker, the number of its epoch |
//!
//! Numbers are little-endian. The checksum covers the position, so stale bytes of an earlier use of the
//! same disk space are not taken for a frame.

use serde::Serialize;

use super::LogError;

/// The bytes before the payload.
pub(super) const HEADER: usize = 24;

/// The longest payload.
const PAYLOAD_MAX: usize = 1 << 30;

/// The bit of the length that tells a marker from records.
const MARKER: u32 = 1 << 31;

/// The size of a marker.
pub(super) const MARKER_BYTES: usize = HEADER + 8;

/// What a frame holds.
#[derive(Clone, Copy)]
pub(super) enum Frame<'b> {
    /// Records.
    Records(&'b [u8]),
    /// The begin of an epoch.
    Marker(u64),
}

impl Frame<'_> {
    /// The frame's size in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Frame::Records(payload) => HEADER + payload.len(),
            Frame::Marker(_) => MARKER_BYTES,
        }
    }
}

/// The result of looking for a frame.
pub(super) enum Found<'b> {
    /// A complete frame.
    Whole { durable: u64, frame: Frame<'b> },
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
    fill(buffer, length, position, durable);
}

/// Makes a marker of `buffer`.
pub(super) fn marker(buffer: &mut Vec<u8>, epoch: u64, position: u64, durable: u64) {
    buffer.clear();
    begin(buffer);
    buffer.extend_from_slice(&epoch.to_le_bytes());
    fill(buffer, MARKER | 8, position, durable);
}

fn fill(buffer: &mut [u8], length: u32, position: u64, durable: u64) {
    buffer[4..8].copy_from_slice(&length.to_le_bytes());
    buffer[8..16].copy_from_slice(&position.to_le_bytes());
    buffer[16..24].copy_from_slice(&durable.to_le_bytes());
    let checksum = crc32fast::hash(&buffer[4..]);
    buffer[..4].copy_from_slice(&checksum.to_le_bytes());
}

/// The payload's length, if the header has a valid one.
pub(super) fn length(header: &[u8]) -> Option<usize> {
    let length = (word(header, 4)? & !MARKER) as usize;
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
    let is_marker = word(whole, 4).is_some_and(|length| length & MARKER != 0);
    let frame = match (is_marker, long(whole, HEADER)) {
        (false, _) => Frame::Records(&whole[HEADER..]),
        (true, Some(epoch)) if whole.len() == MARKER_BYTES => Frame::Marker(epoch),
        (true, _) => return Found::Broken("the frame is a marker of another size"),
    };
    Found::Whole {
        durable: long(whole, 16).unwrap_or(0),
        frame,
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
