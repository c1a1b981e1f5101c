//! For a process between clients and servers: frames that are passed on as they are, requests out of those that have to be
//! understood, and answers of one's own between those of a server.
//!
//! A [`Connection`](crate::Connection) answers every request itself. Here the server does, and its answers are not looked into
//! further than their letters.

use anabranch_types::EffectError;
use bytes::{Buf, Bytes, BytesMut};

use crate::connection::TransactionStatus;
use crate::decode::{self, Kind};
use crate::encode::{self, Field};
use crate::error_fields::ErrorFields;
use crate::key::BackendKey;
use crate::request::{Request, Startup};
use crate::startup;

/// A message with its letter and its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame(Bytes);

impl Frame {
    /// The message's letter.
    pub fn letter(&self) -> u8 {
        self.0[0]
    }

    /// All of it.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// What is behind the length.
    pub fn body(&self) -> Bytes {
        self.0.slice(5..)
    }

    /// The request in it.
    ///
    /// # Errors
    /// When its counts and lengths do not fit the message, or a text in it is none.
    pub fn request(&self) -> Result<Request, EffectError> {
        match Kind::of(self.letter(), usize::MAX) {
            Some(_) => decode::decode(self.letter(), &self.body()),
            None => Err(crate::body::violation(format!(
                "invalid frontend message type {}",
                self.letter()
            ))),
        }
    }

    /// The text of a field of an ErrorResponse or NoticeResponse, by the field's letter: `C` is the SQLSTATE, `M` the message.
    pub fn field(&self, letter: u8) -> Option<&str> {
        let mut rest = self.0.get(5..)?;
        while let [of, tail @ ..] = rest
            && *of != 0
        {
            let end = tail.iter().position(|byte| *byte == 0)?;
            if *of == letter {
                return std::str::from_utf8(&tail[..end]).ok();
            }
            rest = &tail[end + 1..];
        }
        None
    }

    /// The name and the value of a ParameterStatus.
    pub fn parameter(&self) -> Option<(&str, &str)> {
        let texts = std::str::from_utf8(self.0.get(5..)?).ok()?;
        let mut texts = texts.split_terminator('\0');
        match self.letter() {
            b'S' => Some((texts.next()?, texts.next()?)),
            _ => None,
        }
    }

    /// What a ReadyForQuery says of the transaction.
    pub fn status(&self) -> Option<TransactionStatus> {
        match (self.letter(), self.0.get(5)?) {
            (b'Z', b'I') => Some(TransactionStatus::Idle),
            (b'Z', b'T') => Some(TransactionStatus::Open),
            (b'Z', b'E') => Some(TransactionStatus::Failed),
            _ => None,
        }
    }
}

/// A message is longer than is allowed, or is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {length} bytes, where {bytes_max} are the most")]
pub struct FrameError {
    /// Its length, as its head says it.
    pub length: usize,
    /// The limit.
    pub bytes_max: usize,
}

/// Cuts what a socket gives into messages.
#[derive(Debug)]
pub struct Frames {
    input: BytesMut,
    bytes_max: usize,
}

impl Frames {
    /// Nothing received yet; messages are of so many bytes at most.
    pub fn new(bytes_max: usize) -> Frames {
        Frames {
            input: BytesMut::new(),
            bytes_max,
        }
    }

    /// The buffer to which what the socket gave is appended.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// The next message, if it is there as a whole.
    ///
    /// # Errors
    /// When it is longer than allowed.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(length) = self.length(1)? else {
            return Ok(None);
        };
        if self.input.len() < 1 + length {
            return Ok(None);
        }
        Ok(Some(Frame(self.input.split_to(1 + length).freeze())))
    }

    /// The first packet of a client, which has no letter, if it is there as a whole.
    ///
    /// # Errors
    /// When it is longer than allowed.
    pub fn next_first(&mut self) -> Result<Option<First>, FrameError> {
        let Some(length) = self.length(0)? else {
            return Ok(None);
        };
        if self.input.len() < length {
            return Ok(None);
        }
        if length < 8 {
            return Err(FrameError {
                length,
                bytes_max: self.bytes_max,
            });
        }
        let packet = self.input.split_to(length).freeze();
        Ok(Some(match startup::decode(&packet[4..]) {
            startup::First::Tls | startup::First::Gss => First::Encryption,
            startup::First::Cancel(key) => First::Cancel(key),
            startup::First::Startup(packet) => {
                let newer = packet.minor > startup::MINOR_MAX;
                let options = packet.parameters.as_ref();
                let options = options.map(|p| p.protocol_options.clone());
                First::Startup {
                    options: options.unwrap_or_default(),
                    newer,
                    startup: packet.parameters.and_then(|p| p.into_startup()),
                }
            }
            startup::First::Unsupported { major, minor } => First::Unsupported { major, minor },
        }))
    }

    fn length(&self, head: usize) -> Result<Option<usize>, FrameError> {
        let Some(mut length) = self.input.get(head..head + 4) else {
            return Ok(None);
        };
        let length = length.get_u32() as usize;
        match length < 4 || length > self.bytes_max {
            true => Err(FrameError {
                length,
                bytes_max: self.bytes_max,
            }),
            false => Ok(Some(length)),
        }
    }
}

/// What a client sends first.
#[derive(Debug)]
pub enum First {
    /// It asks for encryption.
    Encryption,
    /// It cancels what another connection runs; `None` if no connection has such a key.
    Cancel(Option<BackendKey>),
    /// It wants in.
    Startup {
        /// Who it is, or why that cannot be read.
        startup: Result<Startup, EffectError>,
        /// The options of the protocol that it asks for, of which none is there.
        options: Vec<String>,
        /// Whether it would speak a newer version of protocol 3.
        newer: bool,
    },
    /// It speaks another protocol.
    Unsupported {
        /// The major version.
        major: u16,
        /// The minor version.
        minor: u16,
    },
}

/// Appends a server's messages to an output.
#[derive(Debug)]
pub struct Answers<'o>(pub &'o mut BytesMut);

impl Answers<'_> {
    /// An ErrorResponse.
    pub fn error(&mut self, fields: &ErrorFields) {
        encode::fields(self.0, b'E', fields);
    }

    /// A NoticeResponse.
    pub fn notice(&mut self, fields: &ErrorFields) {
        encode::fields(self.0, b'N', fields);
    }

    /// A ReadyForQuery.
    pub fn ready(&mut self, status: TransactionStatus) {
        let letter = match status {
            TransactionStatus::Idle => b'I',
            TransactionStatus::Open => b'T',
            TransactionStatus::Failed => b'E',
        };
        encode::message(self.0, b'Z', |out| out.extend_from_slice(&[letter]));
    }

    /// A ParameterStatus.
    pub fn parameter_status(&mut self, name: &str, value: &str) {
        encode::parameter_status(self.0, name, value);
    }

    /// A CommandComplete.
    pub fn command_complete(&mut self, tag: &str) {
        encode::message(self.0, b'C', |out| encode::text(out, tag));
    }

    /// A message of a letter alone: ParseComplete is `1`, BindComplete `2`, CloseComplete `3`, NoData `n`, EmptyQueryResponse `I`.
    pub fn letter(&mut self, letter: u8) {
        encode::message(self.0, letter, |_| {});
    }

    /// A ParameterDescription.
    pub fn parameter_description(&mut self, oids: &[u32]) {
        encode::parameter_description(self.0, oids);
    }

    /// A RowDescription.
    pub fn row_description(&mut self, fields: &[Field]) {
        encode::row_description(self.0, fields);
    }

    /// A row of one text.
    pub fn text_row(&mut self, text: &str) {
        encode::message(self.0, b'D', |out| {
            out.extend_from_slice(&1_u16.to_be_bytes());
            out.extend_from_slice(&(text.len() as u32).to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        });
    }

    /// A NegotiateProtocolVersion: version 3.0, and none of these options.
    pub fn negotiate(&mut self, options: &[String]) {
        encode::negotiate_protocol_version(self.0, 0, options);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_out_however_they_come() {
        let mut bytes = BytesMut::new();
        let mut answers = Answers(&mut bytes);
        answers.error(&ErrorFields::error("40001", "again"));
        answers.parameter_status("TimeZone", "");
        answers.ready(TransactionStatus::Open);
        for step in 1..bytes.len() {
            let mut frames = Frames::new(1_000);
            let mut found = Vec::new();
            for piece in bytes.chunks(step) {
                frames.buffer().extend_from_slice(piece);
                while let Ok(Some(frame)) = frames.next_frame() {
                    found.push(frame);
                }
            }
            let letters: Vec<u8> = found.iter().map(Frame::letter).collect();
            assert_eq!(letters, *b"ESZ");
            assert_eq!(found[0].field(b'C'), Some("40001"));
            assert_eq!(found[0].field(b'M'), Some("again"));
            assert_eq!(found[0].field(b'D'), None);
            assert_eq!(found[0].parameter(), None);
            assert_eq!(found[1].parameter(), Some(("TimeZone", "")));
            assert_eq!(found[2].status(), Some(TransactionStatus::Open));
        }
    }

    #[test]
    fn lengths_are_limited() {
        for (length, is_fine) in [(3_u32, false), (4, true), (100, true), (101, false)] {
            let mut frames = Frames::new(100);
            frames.buffer().extend_from_slice(b"Q");
            frames.buffer().extend_from_slice(&length.to_be_bytes());
            assert_eq!(frames.next_frame().is_ok(), is_fine, "{length}");
        }
    }
}
