//! Reads the bodies of the frontend's messages. Every count and length is held against the body before it is believed.

use bytes::{Buf, Bytes};

use crate::error_fields::ErrorFields;
use crate::format::{self, Format};
use crate::request::{Formats, Request, Target};

/// Why a message cannot be read.
pub(crate) type Decoded<T> = Result<T, ErrorFields>;

/// A violation of the protocol.
pub(crate) fn violation(message: impl Into<String>) -> ErrorFields {
    ErrorFields::error("08P01", message)
}

/// Reads the body of one message.
pub(crate) struct Body {
    rest: Bytes,
    name: &'static str,
}

impl Body {
    /// The body of the message with this name.
    pub(crate) fn new(body: Bytes, name: &'static str) -> Body {
        Body { rest: body, name }
    }

    fn short(&self) -> ErrorFields {
        violation(format!(
            "insufficient data left in message {}: a count or length exceeds it",
            self.name
        ))
    }

    fn check(&self, count: usize) -> Decoded<()> {
        match self.rest.len() >= count {
            true => Ok(()),
            false => Err(self.short()),
        }
    }

    pub(crate) fn u8(&mut self) -> Decoded<u8> {
        self.check(1)?;
        Ok(self.rest.get_u8())
    }

    pub(crate) fn i16(&mut self) -> Decoded<i16> {
        self.check(2)?;
        Ok(self.rest.get_i16())
    }

    pub(crate) fn i32(&mut self) -> Decoded<i32> {
        self.check(4)?;
        Ok(self.rest.get_i32())
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Decoded<Bytes> {
        self.check(count)?;
        Ok(self.rest.split_to(count))
    }

    /// A text that ends with a NUL.
    pub(crate) fn text(&mut self) -> Decoded<String> {
        let end = self.rest.iter().position(|byte| *byte == 0);
        let Some(end) = end else {
            return Err(violation(format!(
                "invalid string in message {}: its end is missing",
                self.name
            )));
        };
        let text = format::text_of(&self.rest[..end])
            .map_err(|error| ErrorFields::error(error.code, error.message))?
            .to_owned();
        self.rest.advance(end + 1);
        Ok(text)
    }

    /// A number of things, each of at least `size` bytes. PostgreSQL takes it as unsigned: up to 65,535 parameters.
    fn count(&mut self, size: usize) -> Decoded<usize> {
        let count = usize::from(self.i16()? as u16);
        self.check(count * size)?;
        Ok(count)
    }

    fn formats(&mut self) -> Decoded<Formats> {
        let count = self.count(2)?;
        let mut formats = Vec::with_capacity(count);
        for _ in 0..count {
            let format = Format::from_code(self.i16()?)
                .map_err(|error| ErrorFields::error(error.code, error.message))?;
            formats.push(format);
        }
        Ok(match formats.as_slice() {
            [] => Formats::All(Format::Text),
            [one] => Formats::All(*one),
            _ => Formats::Each(formats),
        })
    }

    /// Nothing may be left.
    pub(crate) fn end(self) -> Decoded<()> {
        match self.rest.is_empty() {
            true => Ok(()),
            false => Err(violation(format!(
                "invalid message format: message {} is longer than its contents",
                self.name
            ))),
        }
    }
}

/// Reads a message of a client that has been let in. `None` for one that means nothing here.
pub(crate) fn request(kind: u8, body: Bytes) -> Decoded<Option<Request>> {
    match kind {
        b'Q' => read(body, "Query", |body| {
            Ok(Request::Query { text: body.text()? })
        }),
        b'P' => read(body, "Parse", |body| {
            let (statement, text) = (body.text()?, body.text()?);
            let count = body.count(4)?;
            let mut parameter_types = Vec::with_capacity(count);
            for _ in 0..count {
                parameter_types.push(body.i32()? as u32);
            }
            Ok(Request::Parse {
                statement,
                text,
                parameter_types,
            })
        }),
        b'B' => read(body, "Bind", bind),
        b'D' => read(body, "Describe", |body| {
            Ok(Request::Describe(target(body)?))
        }),
        b'C' => read(body, "Close", |body| Ok(Request::Close(target(body)?))),
        b'E' => read(body, "Execute", |body| {
            let portal = body.text()?;
            // As in PostgreSQL: nothing or less than nothing is everything.
            let rows_max = body.i32()?.max(0) as u32;
            Ok(Request::Execute { portal, rows_max })
        }),
        b'H' => read(body, "Flush", |_| Ok(Request::Flush)),
        b'S' => read(body, "Sync", |_| Ok(Request::Sync)),
        b'X' => read(body, "Terminate", |_| Ok(Request::Terminate)),
        // Copies that have failed leave such messages behind; PostgreSQL ignores them, too.
        b'd' | b'c' | b'f' => Ok(None),
        b'F' => Err(
            ErrorFields::error("0A000", "the function call protocol is not supported")
                .with_hint("Call the function in a SELECT."),
        ),
        b'p' => Err(violation("a password was sent, and none was asked for")),
        kind => Err(violation(format!("invalid frontend message type {kind}"))),
    }
}

fn read(
    body: Bytes,
    name: &'static str,
    contents: impl FnOnce(&mut Body) -> Decoded<Request>,
) -> Decoded<Option<Request>> {
    let mut body = Body::new(body, name);
    let request = contents(&mut body)?;
    body.end()?;
    Ok(Some(request))
}

fn bind(body: &mut Body) -> Decoded<Request> {
    let (portal, statement) = (body.text()?, body.text()?);
    let parameter_formats = body.formats()?;
    // Each parameter has a length at least.
    let count = body.count(4)?;
    let mut parameters = Vec::with_capacity(count);
    for _ in 0..count {
        parameters.push(match body.i32()? {
            -1 => None,
            length => {
                let length = usize::try_from(length).map_err(|_| body.short())?;
                Some(body.bytes(length)?)
            }
        });
    }
    Ok(Request::Bind {
        portal,
        statement,
        parameter_formats,
        parameters,
        result_formats: body.formats()?,
    })
}

fn target(body: &mut Body) -> Decoded<Target> {
    match body.u8()? {
        b'S' => Ok(Target::Statement(body.text()?)),
        b'P' => Ok(Target::Portal(body.text()?)),
        other => Err(violation(format!(
            "invalid {} message subtype {other}",
            body.name.to_uppercase()
        ))),
    }
}
