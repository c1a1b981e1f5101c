//! Cuts messages out of the received bytes.
//!
//! A message begins with a type byte (none at start-up) and its length, which counts itself. The length is held
//! against the limit as soon as it has arrived, so that nothing longer is ever buffered.

use bytes::{Buf, Bytes, BytesMut};

/// One message: its type and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The type byte; 0 at start-up, where there is none.
    pub(crate) kind: u8,
    pub(crate) body: Bytes,
}

/// A length that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameError {
    /// It does not even count itself.
    TooShort { kind: u8, length: u32 },
    /// It exceeds the limit.
    TooLong { kind: u8, length: u32, max: usize },
}

/// The length of a length.
const LENGTH: usize = 4;

/// Cuts the next message out of `buffer`, if it is there as a whole. `typed`: it begins with a type byte.
pub(crate) fn cut(
    buffer: &mut BytesMut,
    typed: bool,
    max: usize,
) -> Result<Option<Frame>, FrameError> {
    let head = usize::from(typed);
    let Some(length) = buffer.get(head..head + LENGTH) else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(length.try_into().expect("it has four bytes"));
    let kind = if typed { buffer[0] } else { 0 };
    let whole = length as usize;
    if whole < LENGTH {
        return Err(FrameError::TooShort { kind, length });
    }
    if whole - LENGTH > max {
        return Err(FrameError::TooLong { kind, length, max });
    }
    if buffer.len() < head + whole {
        return Ok(None);
    }
    buffer.advance(head + LENGTH);
    let body = buffer.split_to(whole - LENGTH).freeze();
    Ok(Some(Frame { kind, body }))
}
