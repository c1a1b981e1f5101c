//! A reader of one message's body, which never leaves its frame: it takes the part of PostgreSQL's `pqformat.c`, with
//! its messages.

use anabranch_types::EffectError;

use crate::format;

/// The rest of a body.
pub(crate) struct Body<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Body<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Body<'b> {
        Body { bytes, at: 0 }
    }

    /// Where the reader stands.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// What has not been read.
    pub(crate) fn rest(&self) -> &'b [u8] {
        &self.bytes[self.at..]
    }

    /// The next bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'b [u8], EffectError> {
        let taken = self
            .rest()
            .get(..count)
            .ok_or_else(|| violation("insufficient data left in message"))?;
        self.at += count;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, EffectError> {
        match self.rest() {
            [] => Err(violation("no data left in message")),
            [first, ..] => {
                self.at += 1;
                Ok(*first)
            }
        }
    }

    pub(crate) fn u16(&mut self) -> Result<u16, EffectError> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, EffectError> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// As many elements of so many bytes as the next two bytes say: nothing is made room for before it is known to be
    /// there.
    pub(crate) fn array(&mut self, element_bytes: usize) -> Result<&'b [u8], EffectError> {
        let count = usize::from(self.u16()?);
        self.take(count * element_bytes)
    }

    /// Text up to a NUL.
    pub(crate) fn text(&mut self) -> Result<&'b str, EffectError> {
        let rest = self.rest();
        let end = rest
            .iter()
            .position(|byte| *byte == 0)
            .ok_or_else(|| violation("invalid string in message"))?;
        self.at += end + 1;
        format::text_of(&rest[..end])
    }

    /// Asserts that all has been read.
    pub(crate) fn end(&self) -> Result<(), EffectError> {
        match self.rest() {
            [] => Ok(()),
            _ => Err(violation("invalid message format")),
        }
    }
}

/// A violation of the protocol.
pub(crate) fn violation(message: impl Into<String>) -> EffectError {
    EffectError::new("08P01", message)
}
