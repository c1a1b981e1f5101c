//! How a client's connection begins: it authenticates to the own database, through the middleware.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use anabranch_protocol::belt::Hop;
use anabranch_wire::relay::{Answers, First, Frame};
use anabranch_wire::{ErrorFields, Severity, Startup, TransactionStatus};
use bytes::BytesMut;

use super::links::FORWARDED;
use super::unit::OnServer;
use super::{Client, End, Session};
use crate::backend::{Backend, CONNECT_MAX, Destination, Reader, Socket};
use crate::shared::Shared;

/// The longest start-up packet.
const STARTUP_BYTES_MAX: usize = 10_000;

/// Serves a connection until it ends.
pub(crate) fn serve(shared: &Arc<Shared>, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let socket = Socket::Tcp(stream);
    let mut client = Client {
        reader: Reader::new(socket, shared.options.message_bytes_max),
        out: BytesMut::new(),
        has_timeout: false,
    };
    // A client that sends nothing does not keep its place.
    if client
        .reader
        .socket
        .set_read_timeout(Some(CONNECT_MAX))
        .is_err()
    {
        return;
    }
    let Some(startup) = first(shared, &mut client) else {
        return;
    };
    match begin(shared, client, startup) {
        Ok(mut session) => {
            let end = session.run();
            session.end(end);
            let number = session.handle.number;
            drop(session);
            shared.forget(number);
        }
        Err(refused) => {
            if let (mut client, Some(error)) = *refused {
                fatal(&mut client, error);
            }
        }
    }
}

/// Reads up to the start-up message. Cancel requests are done here.
fn first(shared: &Arc<Shared>, client: &mut Client) -> Option<Startup> {
    let mut asked = 0;
    loop {
        let first = loop {
            match client.reader.frames().next_first() {
                Ok(Some(first)) => break first,
                Ok(None) => client.reader.fill().ok()?,
                Err(_) => return None,
            }
            if client.reader.frames().buffer().len() > STARTUP_BYTES_MAX {
                return None;
            }
        };
        match first {
            First::Encryption => {
                asked += 1;
                // What has come behind the request would be taken for encrypted.
                let is_more = !client.reader.frames().buffer().is_empty();
                if asked > 2 || is_more || client.reader.socket.write_all(b"N").is_err() {
                    return None;
                }
            }
            First::Cancel(key) => {
                if let Some(key) = key {
                    shared.cancel(&key);
                }
                return None;
            }
            First::Startup {
                startup,
                options,
                newer,
            } => {
                if newer || !options.is_empty() {
                    client.answers().negotiate(&options);
                }
                match startup {
                    Ok(startup) => return Some(startup),
                    Err(error) => {
                        fatal(client, error.into());
                        return None;
                    }
                }
            }
            First::Unsupported { major, minor } => {
                let message =
                    format!("unsupported frontend protocol {major}.{minor}: server supports 3.0");
                fatal(client, ErrorFields::error("0A000", message));
                return None;
            }
        }
    }
}

fn fatal(client: &mut Client, error: ErrorFields) {
    let error = ErrorFields {
        severity: Severity::Fatal,
        ..error
    };
    client.answers().error(&error);
    let _ = client.flush();
}

/// A client that is not let in, and what it is told, if it was not told yet.
type Refused = Box<(Client, Option<ErrorFields>)>;

/// Lets a client in.
fn begin(shared: &Arc<Shared>, mut client: Client, startup: Startup) -> Result<Session, Refused> {
    if shared.is_full() {
        let error = ErrorFields::error("53300", "too many connections")
            .with_hint(format!("The limit is {}.", shared.options.connections_max));
        return Err(Box::new((client, Some(error))));
    }
    let own = &shared.home;
    if startup.database != own.database {
        let message = format!("database \"{}\" does not exist", startup.database);
        let error = ErrorFields::error("3D000", message)
            .with_hint(format!("This middleware serves \"{}\".", own.database));
        return Err(Box::new((client, Some(error))));
    }
    let mut parameters = vec![
        ("user", startup.user.as_str()),
        ("database", own.database.as_str()),
    ];
    let mut is_forwarded = false;
    for (name, value) in &startup.parameters {
        // Names of settings are the same in upper and lower case.
        let lower = value.to_ascii_lowercase();
        let is_own = name.eq_ignore_ascii_case("options") && lower.contains("anabranch");
        let is_unsafe = name.eq_ignore_ascii_case("client_encoding")
            && matches!(
                crate::command::command(&format!(
                    "SET client_encoding = '{}'",
                    lower.replace('\'', "")
                )),
                Ok(crate::command::Command::Refused { .. })
            );
        if is_own || is_unsafe {
            let error = ErrorFields::error(
                "0A000",
                format!("the parameter {name} = {value} is not supported by the belt's middleware"),
            );
            return Err(Box::new((client, Some(error))));
        }
        match name.to_ascii_lowercase().as_str() {
            FORWARDED => is_forwarded = true,
            "replication" => {
                let error = ErrorFields::error(
                    "0A000",
                    "replication is not supported by the belt's middleware",
                );
                return Err(Box::new((client, Some(error))));
            }
            own if own.starts_with("anabranch.") => {}
            _ => parameters.push((name, value.as_str())),
        }
    }
    let connected = Backend::connect(Destination::Database(own.clone()), &parameters);
    let mut home = match connected {
        Ok(home) => home,
        Err(error) => return Err(Box::new((client, Some(unreached(shared, &error))))),
    };
    let greeting = match authenticate(&mut client, &mut home) {
        Ok(Some(greeting)) => greeting,
        Ok(None) => return Err(Box::new((client, None))),
        Err(End::Home(error)) => return Err(Box::new((client, Some(unreached(shared, &error))))),
        Err(_) => return Err(Box::new((client, None))),
    };
    let own = &shared.options.statements;
    for statements in [own.settings, own.checks] {
        match home.run(statements) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let code = error.field(b'C').unwrap_or_default();
                let hint = match code {
                    "42501" | "3F000" | "42883" => format!(
                        "Add the role to `applications` of the ring's servers, and install the belt: role \"{}\".",
                        startup.user
                    ),
                    _ => "See the settings of the role and of the database.".to_owned(),
                };
                let message = error.field(b'M').unwrap_or_default();
                let error =
                    ErrorFields::error("55000", format!("the belt cannot be used: {message}"))
                        .with_hint(hint);
                return Err(Box::new((client, Some(error))));
            }
            Err(error) => return Err(Box::new((client, Some(unreached(shared, &error))))),
        }
    }
    let stream = match &client.reader.socket {
        Socket::Tcp(stream) => stream.try_clone().ok(),
        #[cfg(unix)]
        Socket::Unix(_) => None,
    };
    let handle = shared.register(home.cancel_key(), stream);
    for frame in &greeting {
        client.out.extend_from_slice(frame.bytes());
    }
    Answers(&mut client.out).ready(TransactionStatus::Idle);
    let ready = client.flush().and_then(|()| {
        client
            .reader
            .socket
            .set_read_timeout(None)
            .map_err(|_| End::Client)
    });
    if ready.is_err() {
        shared.forget(handle.number);
        return Err(Box::new((client, None)));
    }
    Ok(Session {
        shared: Arc::clone(shared),
        handle,
        client,
        home,
        on_home: OnServer::new(),
        links: BTreeMap::new(),
        role: startup.user,
        is_forwarded,
        settings: Vec::new(),
        parameters: startup
            .parameters
            .into_iter()
            .filter(|(name, _)| {
                !name.to_ascii_lowercase().starts_with("anabranch.")
                    && name != "application_name"
                    && name != "replication"
            })
            .collect(),
        prepared: HashMap::new(),
        prepared_by_sql: HashMap::new(),
        portals: HashMap::new(),
        next_generation: 0,
        pipeline: Vec::new(),
        pipeline_bytes: 0,
        skips: false,
        block: None,
        committed: Hop(0),
        reported: Hop(0),
    })
}

fn unreached(shared: &Shared, error: &std::io::Error) -> ErrorFields {
    let name = shared.name_of(shared.options.own);
    ErrorFields::error(
        "08006",
        format!("the database of {name} is not reached: {error}"),
    )
    .with_hint("Check that it runs; the middleware tries again with the next connection.")
}

/// Passes what the database asks for on to the client, and the client's answers back. Returns what the client is told when
/// it is let in, or nothing if it is not.
fn authenticate(client: &mut Client, home: &mut Backend) -> Result<Option<Vec<Frame>>, End> {
    let mut greeting = Vec::new();
    loop {
        let frame = home.read().map_err(End::Home)?;
        let body = frame.body();
        let code = body
            .first_chunk::<4>()
            .map(|code| u32::from_be_bytes(*code));
        match (frame.letter(), code) {
            // AuthenticationOk, and the final message of SASL, which has no answer.
            (b'R', Some(0)) => greeting.push(frame),
            (b'R', Some(12)) => client.send(frame.bytes())?,
            (b'R', _) => {
                client.send(frame.bytes())?;
                client.flush()?;
                let answer = client.reader.next_frame().map_err(|_| End::Client)?;
                if answer.letter() != b'p' {
                    return Err(End::Client);
                }
                home.write(answer.bytes()).map_err(End::Home)?;
            }
            (b'E', _) => {
                client.send(frame.bytes())?;
                client.flush()?;
                return Ok(None);
            }
            (b'K', _) => {
                home.begin(&frame).map_err(End::Home)?;
                greeting.push(frame);
            }
            (b'Z', _) => return Ok(Some(greeting)),
            _ => greeting.push(frame),
        }
    }
}

impl Session {
    /// Ends the connection: the client is told why, if it was not the client itself.
    fn end(&mut self, end: End) {
        let error = match end {
            End::Client => None,
            End::Stopped => Some(ErrorFields::error(
                "57P01",
                "the middleware ends: reconnect to another server, or in a moment to this one",
            )),
            End::Home(error) => Some(
                ErrorFields::error(
                    "08006",
                    format!("the connection to the database was lost: {error}"),
                )
                .with_hint("Whether a statement that was running has been done is not known: read before you repeat it."),
            ),
        };
        if let Some(error) = error {
            fatal(&mut self.client, error);
        }
    }
}
