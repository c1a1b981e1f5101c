//! Decodes the messages of a client that has been let in. A frame has been cut out by its length; every count and inner
//! length is held against it here, before anything is made room for. Errors and their order are PostgreSQL's
//! (`postgres.c`).

use anabranch_types::EffectError;
use bytes::Bytes;

use crate::{
    body::{Body, violation},
    format::Format,
    request::{Formats, Request, Target},
};

/// The longest message of a type that has no text of any length, its length included (`PQ_SMALL_MESSAGE_LIMIT`).
const SMALL_BYTES_MAX: usize = 10_000;

/// How messages of a type are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// The most that the message's length may be, its own four bytes included.
    pub(crate) bytes_max: usize,
    /// Whether it belongs to the extended protocol, in which an error skips to `Sync`.
    pub(crate) is_extended: bool,
    /// Whether it is read though an error has made the connection skip to `Sync`.
    pub(crate) ends_skipping: bool,
    /// Whether it is ignored outside of COPY: a client sends on until it has read that its COPY has failed.
    pub(crate) is_copy: bool,
}

impl Kind {
    /// How messages of the type with this letter are treated, or `None` for an unknown type.
    pub(crate) fn of(letter: u8, message_bytes_max: usize) -> Option<Kind> {
        let bytes_max = match letter {
            b'Q' | b'F' | b'B' | b'P' | b'd' => message_bytes_max,
            b'C' | b'D' | b'E' | b'H' | b'S' | b'X' | b'c' | b'f' => {
                SMALL_BYTES_MAX.min(message_bytes_max)
            }
            _ => return None,
        };
        Some(Kind {
            bytes_max,
            is_extended: matches!(letter, b'B' | b'P' | b'C' | b'D' | b'E' | b'H'),
            ends_skipping: matches!(letter, b'S' | b'X'),
            is_copy: matches!(letter, b'd' | b'c' | b'f'),
        })
    }
}

/// Decodes the body of a message whose letter has a [`Kind`].
pub(crate) fn decode(letter: u8, frame: &Bytes) -> Result<Request, EffectError> {
    let mut body = Body::new(frame);
    let request = match letter {
        b'Q' => query(&mut body)?,
        b'P' => parse(&mut body)?,
        b'B' => bind(&mut body, frame)?,
        b'D' => Request::Describe(target(&mut body, "DESCRIBE")?),
        b'E' => execute(&mut body)?,
        b'C' => Request::Close(target(&mut body, "CLOSE")?),
        b'd' => return Ok(Request::CopyData(frame.clone())),
        b'c' => Request::CopyDone,
        b'f' => {
            let message = body.text()?.to_owned();
            Request::CopyFail { message }
        }
        b'H' => Request::Flush,
        b'S' => Request::Sync,
        // The client is gone: what else it has sent does not matter.
        b'X' => return Ok(Request::Terminate),
        b'F' => {
            let message =
                "the message FunctionCall is not supported: call the function with SELECT";
            return Err(EffectError::new("0A000", message));
        }
        _ => unreachable!("the type of a message is checked before its body is read"),
    };
    body.end()?;
    Ok(request)
}

fn query(body: &mut Body<'_>) -> Result<Request, EffectError> {
    let text = body.text()?.to_owned();
    Ok(Request::Query { text })
}

fn parse(body: &mut Body<'_>) -> Result<Request, EffectError> {
    let statement = body.text()?.to_owned();
    let text = body.text()?.to_owned();
    let parameter_types = body
        .array(4)?
        .chunks_exact(4)
        .map(|oid| u32::from_be_bytes([oid[0], oid[1], oid[2], oid[3]]))
        .collect();
    Ok(Request::Parse {
        statement,
        text,
        parameter_types,
    })
}

fn bind(body: &mut Body<'_>, frame: &Bytes) -> Result<Request, EffectError> {
    let portal = body.text()?.to_owned();
    let statement = body.text()?.to_owned();
    let parameter_formats = formats(body)?;
    let count = usize::from(body.u16()?);
    if let Formats::Each(formats) = &parameter_formats
        && formats.len() != count
    {
        return Err(violation(format!(
            "bind message has {} parameter formats but {count} parameters",
            formats.len()
        )));
    }
    // Each value has a length of four bytes, so that there are not more than this.
    let mut parameters = Vec::with_capacity(count.min(body.rest().len() / 4));
    for _ in 0..count {
        parameters.push(match body.u32()? {
            u32::MAX => None,
            length => {
                let start = body.position();
                body.take(length as usize)?;
                Some(frame.slice(start..body.position()))
            }
        });
    }
    let result_formats = formats(body)?;
    Ok(Request::Bind {
        portal,
        statement,
        parameter_formats,
        parameters,
        result_formats,
    })
}

fn formats(body: &mut Body<'_>) -> Result<Formats, EffectError> {
    let format = |code: &[u8]| Format::from_code(i16::from_be_bytes([code[0], code[1]]));
    Ok(match body.array(2)? {
        [] => Formats::All(Format::Text),
        one @ [_, _] => Formats::All(format(one)?),
        codes => Formats::Each(
            codes
                .chunks_exact(2)
                .map(format)
                .collect::<Result<_, _>>()?,
        ),
    })
}

fn execute(body: &mut Body<'_>) -> Result<Request, EffectError> {
    let portal = body.text()?.to_owned();
    // As in PostgreSQL, less than no rows are all of them.
    let rows_max = (body.u32()? as i32).max(0) as u32;
    Ok(Request::Execute { portal, rows_max })
}

fn target(body: &mut Body<'_>, command: &str) -> Result<Target, EffectError> {
    let letter = body.byte()?;
    let name = body.text()?.to_owned();
    body.end()?;
    match letter {
        b'S' => Ok(Target::Statement(name)),
        b'P' => Ok(Target::Portal(name)),
        _ => Err(violation(format!(
            "invalid {command} message subtype {letter}"
        ))),
    }
}
