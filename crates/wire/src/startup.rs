//! Decodes what a client may send first: a start-up packet, a request for encryption, a cancel request. Checks and
//! their order are PostgreSQL's (`ProcessStartupPacket`).

use anabranch_types::EffectError;

use crate::{
    BackendKey, Startup,
    body::{Body, violation},
    format,
};

/// The newest minor version of protocol 3 that is spoken.
pub(crate) const MINOR_MAX: u16 = 2;

/// What a client sends first.
#[derive(Debug)]
pub(crate) enum First {
    /// `SSLRequest`.
    Tls,
    /// `GSSENCRequest`.
    Gss,
    /// `CancelRequest`; `None` if its key can be no connection's.
    Cancel(Option<BackendKey>),
    /// A start-up packet of protocol 3.
    Startup(Box<Packet>),
    /// A start-up packet of another protocol.
    Unsupported {
        /// The major version.
        major: u16,
        /// The minor version.
        minor: u16,
    },
}

/// A start-up packet of protocol 3.
#[derive(Debug)]
pub(crate) struct Packet {
    /// The minor version that the client asks for.
    pub(crate) minor: u16,
    /// Its parameters, or why they cannot be read.
    pub(crate) parameters: Result<StartupParameters, EffectError>,
}

/// The parameters of a start-up packet.
#[derive(Debug)]
pub(crate) struct StartupParameters {
    /// Who the client is. The user's name may be empty still.
    startup: Startup,
    /// Names that begin with `_pq_.`: options of the protocol itself, of which none is known.
    pub(crate) protocol_options: Vec<String>,
}

/// Decodes a packet without its length. It has four bytes at least.
pub(crate) fn decode(packet: &[u8]) -> First {
    let mut body = Body::new(packet);
    let (Ok(major), Ok(minor)) = (body.u16(), body.u16()) else {
        unreachable!("the packet's length is checked before it is read");
    };
    match (major, minor) {
        (1234, 5678) => First::Cancel(cancel(&mut body)),
        (1234, 5679) => First::Tls,
        (1234, 5680) => First::Gss,
        (3, minor) => First::Startup(Box::new(Packet {
            minor,
            parameters: parameters(body.rest()),
        })),
        (major, minor) => First::Unsupported { major, minor },
    }
}

fn cancel(body: &mut Body<'_>) -> Option<BackendKey> {
    let process = body.u32().ok()? as i32;
    BackendKey::received(process, body.rest())
}

/// Reads names and values, which end at a NUL each, up to an empty name. Nothing may stand behind it.
fn parameters(bytes: &[u8]) -> Result<StartupParameters, EffectError> {
    let mut found = StartupParameters {
        startup: Startup {
            user: String::new(),
            database: String::new(),
            parameters: Vec::new(),
        },
        protocol_options: Vec::new(),
    };
    let mut rest = bytes;
    loop {
        let name = c_string(&mut rest)?;
        if name.is_empty() {
            break;
        }
        let value = c_string(&mut rest)?.to_owned();
        match name {
            "user" => found.startup.user = value,
            "database" => found.startup.database = value,
            name if name.starts_with("_pq_.") => found.protocol_options.push(name.to_owned()),
            name => found.startup.parameters.push((name.to_owned(), value)),
        }
    }
    if rest.is_empty() {
        Ok(found)
    } else {
        Err(no_terminator())
    }
}

fn c_string<'b>(rest: &mut &'b [u8]) -> Result<&'b str, EffectError> {
    let end = rest
        .iter()
        .position(|byte| *byte == 0)
        .ok_or_else(no_terminator)?;
    let text = format::text_of(&rest[..end])?;
    *rest = &rest[end + 1..];
    Ok(text)
}

fn no_terminator() -> EffectError {
    violation("invalid startup packet layout: expected terminator as last byte")
}

impl StartupParameters {
    /// What the session is given: with a user, and a database that is called like the user if none is named.
    pub(crate) fn into_startup(self) -> Result<Startup, EffectError> {
        let mut startup = self.startup;
        if startup.user.is_empty() {
            let message = "no PostgreSQL user name specified in startup packet";
            return Err(EffectError::new("28000", message));
        }
        if startup.database.is_empty() {
            startup.database.clone_from(&startup.user);
        }
        Ok(startup)
    }
}
