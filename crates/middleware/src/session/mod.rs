//! A client's connection: forwards what it asks for to the server that it belongs to.
//!
//! * An operation by itself (a query outside of a transaction) is recognised before it runs. A local one runs on its
//!   server's database as it is. A global one waits for its turn, and runs inside the hold.
//! * A transaction by hand ([`block`]) begins *provisionally*: its statements run on the database of the server that
//!   they seem to belong to, and are kept. At COMMIT a local one commits. A global one is rolled back, waits for its turn, and
//!   runs again inside the hold, where each statement has to give what its client has seen; otherwise it fails with
//!   40001. So no client has the token while it thinks.
//! * What belongs to another server is sent to that server's middleware ([`links`]), which recognises it again and does
//!   the same.
//!
//! The first database is the own one. Its connection is the client's own as well: the client authenticates to it, and its settings
//! and prepared statements are there.

mod begin;
mod block;
mod extended;
mod hold;
mod links;
mod own_writes;
mod simple;
mod unit;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use anabranch_dbms::postgres::literal;
use anabranch_protocol::belt::{Hop, ServerId};
use anabranch_wire::relay::{Answers, Frame, Frames};
use anabranch_wire::{ErrorFields, Field, Format, Severity, TransactionStatus};
use bytes::BytesMut;
use postgres_protocol::message::frontend;

use crate::backend::{Answer, Backend, Reader, Sent, Sink};
use crate::command::Command;
use crate::recognise::{Arguments, Class, Operation, Refusal, Route, Statement};
use crate::shared::{Handle, Shared};
use crate::waits;
use block::Block;
use links::Link;
use unit::{OnServer, Portal, Prepared, Unit};

pub(crate) use begin::serve;

/// How often a session whose transaction is open looks whether it has to give way.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// How much of an answer is gathered before it is sent.
const SENT_BYTES: usize = 64 << 10;

/// Where statements run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On the own database.
    Home,
    /// On another server, by its middleware.
    Other(ServerId),
}

/// Why the session ends.
#[derive(Debug)]
enum End {
    /// The client is gone, or its messages cannot be read.
    Client,
    /// The connection to the own database is lost.
    Home(io::Error),
    /// The middleware ends.
    Stopped,
}

/// Why a unit has no answer.
#[derive(Debug)]
enum Failure {
    /// The session ends.
    Ends(End),
    /// The statement fails with this error.
    Error(Box<ErrorFields>),
    /// The statement fails with this error of a server.
    Server(Frame),
}

impl Failure {
    /// The SQLSTATE.
    fn code(&self) -> Option<&str> {
        match self {
            Failure::Ends(_) => None,
            Failure::Error(error) => Some(error.code),
            Failure::Server(frame) => frame.field(b'C'),
        }
    }
}

impl From<End> for Failure {
    fn from(end: End) -> Failure {
        Failure::Ends(end)
    }
}

impl From<ErrorFields> for Failure {
    fn from(error: ErrorFields) -> Failure {
        Failure::Error(Box::new(error))
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        let error = ErrorFields::error(refusal.code, refusal.message);
        Failure::from(match refusal.hint {
            hint if hint.is_empty() => error,
            hint => error.with_hint(hint),
        })
    }
}

/// A statement that a client runs, with its arguments.
#[derive(Clone, Copy, Debug)]
struct Run<'r> {
    statement: &'r Statement,
    arguments: Arguments<'r>,
    text: &'r str,
}

struct Session {
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    client: Client,
    home: Backend,
    /// The prepared statements on the own database.
    on_home: OnServer,
    links: BTreeMap<ServerId, Link>,
    role: String,
    /// Whether the client is another middleware: then what it sends belongs to this server.
    is_forwarded: bool,
    /// The parameters that the client has begun with.
    parameters: Vec<(String, String)>,
    /// What the client has set, as statements, in order.
    settings: Vec<String>,
    prepared: HashMap<String, Arc<Prepared>>,
    /// The statements that it has prepared by SQL.
    prepared_by_sql: HashMap<String, String>,
    portals: HashMap<String, Portal>,
    next_generation: u64,
    /// The messages of the extended protocol since the last Sync.
    pipeline: Vec<Frame>,
    pipeline_bytes: usize,
    /// After an error in the extended protocol: what comes before Sync is skipped.
    skips: bool,
    block: Option<Block>,
    /// The last hold under which an operation of this client has committed, at any server.
    committed: Hop,
    /// The last such hold at this server that was reported to the middleware which forwards.
    reported: Hop,
}

/// The client's socket, and what is to be sent to it.
struct Client {
    reader: Reader,
    out: BytesMut,
    has_timeout: bool,
}

impl Client {
    fn send(&mut self, bytes: &[u8]) -> Result<(), End> {
        self.out.extend_from_slice(bytes);
        match self.out.len() > SENT_BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), End> {
        let sent = self.reader.socket.write_all(&self.out);
        self.out.clear();
        sent.map_err(|_| End::Client)
    }

    fn answers(&mut self) -> Answers<'_> {
        Answers(&mut self.out)
    }

    fn set_timeout(&mut self, wanted: bool) -> Result<(), End> {
        if wanted != self.has_timeout {
            let longest = wanted.then_some(LOOKS_EVERY);
            let set = self.reader.socket.set_read_timeout(longest);
            set.map_err(|_| End::Client)?;
            self.has_timeout = wanted;
        }
        Ok(())
    }
}

/// Sends an answer on while it comes, once there is much of it.
struct Forward<'c>(&'c mut Client);

impl Sink for Forward<'_> {
    fn take(&mut self, bytes: &mut BytesMut) -> io::Result<bool> {
        if bytes.len() <= SENT_BYTES {
            return Ok(false);
        }
        // What waits in `out` comes first.
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.0.send(bytes).map_err(gone)?;
        bytes.clear();
        Ok(true)
    }
}

/// What a client hears of an isolation level that it asks for.
const TAG_OF_SET: &str = "SET";

impl Session {
    /// Serves the client until it ends, or the database does.
    fn run(&mut self) -> End {
        loop {
            if let Err(end) = self.turn() {
                return end;
            }
        }
    }

    fn turn(&mut self) -> Result<(), End> {
        let frame = self.next_frame()?;
        match frame.letter() {
            b'X' => return Err(End::Client),
            // As PostgreSQL: all is skipped up to Sync.
            b'Q' | b'F' if self.skips => return Ok(()),
            b'Q' => {
                self.run_pipeline(false)?;
                self.simple(&frame)?;
                self.ready()?;
            }
            b'P' | b'B' | b'D' | b'E' | b'C' if self.skips => {}
            b'P' | b'B' | b'D' | b'E' | b'C' => {
                // What has been bound has to run before it is sent on in pieces.
                let is_execute = frame.letter() == b'E';
                self.pipeline_bytes += frame.bytes().len();
                if self.pipeline_bytes > 2 * self.shared.options.message_bytes_max {
                    let error = ErrorFields {
                        severity: Severity::Fatal,
                        ..ErrorFields::error(
                            "54000",
                            "the messages up to the next Execute are too long",
                        )
                    };
                    self.client.answers().error(&error);
                    self.client.flush()?;
                    return Err(End::Client);
                }
                self.pipeline.push(frame);
                if self.pipeline_bytes > SENT_BYTES && is_execute {
                    self.run_pipeline(false)?;
                }
                return Ok(());
            }
            b'H' => {
                self.run_pipeline(false)?;
                self.client.flush()?;
            }
            b'S' => {
                self.run_pipeline(true)?;
                self.skips = false;
                self.ready()?;
            }
            // As PostgreSQL, outside of COPY.
            b'd' | b'c' | b'f' => {}
            b'F' => {
                let error =
                    ErrorFields::error("0A000", "the message FunctionCall is not supported")
                        .with_hint("Call the function with SELECT.");
                self.client.answers().error(&error);
                self.ready()?;
            }
            letter => {
                let error = ErrorFields {
                    severity: Severity::Fatal,
                    ..ErrorFields::error("08P01", format!("invalid frontend message type {letter}"))
                };
                self.client.answers().error(&error);
                self.client.flush()?;
                return Err(End::Client);
            }
        }
        Ok(())
    }

    /// The client's next message. A session whose transaction blocks what other servers have done gives way meanwhile.
    fn next_frame(&mut self) -> Result<Frame, End> {
        loop {
            if self.shared.is_stopping() {
                return Err(End::Stopped);
            }
            let is_open = self.block.as_ref().is_some_and(Block::is_at_home);
            self.client.set_timeout(is_open)?;
            match self.client.reader.next_frame() {
                Ok(frame) => return Ok(frame),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    self.give_way()?;
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    let error = ErrorFields {
                        severity: Severity::Fatal,
                        ..ErrorFields::error("08P01", error.to_string())
                    };
                    self.client.answers().error(&error);
                    self.client.flush()?;
                    return Err(End::Client);
                }
                Err(_) if self.shared.is_stopping() => return Err(End::Stopped),
                Err(_) => return Err(End::Client),
            }
        }
    }

    fn ready(&mut self) -> Result<(), End> {
        let status = match &self.block {
            None => TransactionStatus::Idle,
            Some(block) if block.has_failed => TransactionStatus::Failed,
            Some(_) => TransactionStatus::Open,
        };
        self.report_committed();
        let links = self.links.values_mut().map(|link| &mut link.backend);
        for backend in std::iter::once(&mut self.home).chain(links) {
            for frame in backend.take_reported() {
                self.client.send(frame.bytes())?;
            }
        }
        self.client.answers().ready(status);
        self.client.flush()
    }

    /// Tells the client of an error. In the extended protocol, what comes before Sync is skipped then.
    fn fail(&mut self, failure: Failure) -> Result<(), End> {
        match failure {
            Failure::Ends(end) => Err(end),
            Failure::Error(error) => {
                self.client.answers().error(&error);
                Ok(())
            }
            Failure::Server(frame) => self.client.send(frame.bytes()),
        }
    }

    /// Runs a unit outside of a transaction. Returns whether it succeeded.
    fn run_alone(&mut self, unit: &Unit, runs: &[Run<'_>]) -> Result<bool, Failure> {
        let mut operation = Operation::default();
        for run in runs {
            if let Err(refusal) =
                self.shared
                    .recogniser
                    .advance(&mut operation, run.statement, &run.arguments)
            {
                return Err(self.refused(run.text, refusal)?);
            }
        }
        let route = match runs.last() {
            None => None,
            Some(last) => match self.shared.recogniser.finish(&operation) {
                Ok(route) => Some(route),
                Err(refusal) => return Err(self.refused(last.text, refusal)?),
            },
        };
        if unit.begins() && runs.iter().any(|run| waits::may_name_the_ring(run.text)) {
            self.tell_waits()?;
        }
        let answer = match route {
            Some(route) => match self.place_of(&route)? {
                Place::Home if matches!(route.class, Class::Global | Class::Open) => {
                    let answers = self.in_hold(&[(unit, None)], "")?;
                    self.note_answers(unit, answers)
                }
                place => {
                    // A global operation's server has all that came before when it has the token.
                    if route.class == Class::Local {
                        self.catch_up(place)?;
                    }
                    match place {
                        Place::Home => self.run_local(unit)?,
                        Place::Other(_) => self.exchange(place, unit, true)?,
                    }
                }
            },
            None => self.run_local(unit)?,
        };
        self.client.send(&answer.bytes)?;
        Ok(answer.error.is_none())
    }

    /// Tells the own database what the ring waits for, for `anabranch.ring`.
    fn tell_waits(&mut self) -> Result<(), End> {
        let shared = &self.shared;
        let waits_for = shared.ring.waits_for(|server| shared.name_of(server));
        let value = literal(&waits_for.unwrap_or_default());
        let told = self.home.run(&format!("SET anabranch.waits_for = {value}"));
        // A database that refuses it is not told.
        told.map(drop).map_err(End::Home)
    }

    /// What a client is told whose statement is refused: if the database finds it wrong, what that says.
    fn refused(&mut self, text: &str, refusal: Refusal) -> Result<Failure, End> {
        let mut frames = Frames::new(usize::MAX);
        let parsed = frontend::parse("", text, [], frames.buffer());
        let (Ok(()), Ok(Some(parse))) = (parsed, frames.next_frame()) else {
            return Ok(refusal.into());
        };
        let mut sent = Sent::default();
        sent.push(parse.bytes(), false);
        sent.sync();
        self.on_home.insert(String::new(), None);
        let mut keep = crate::backend::Keep {
            bytes_max: SENT_BYTES,
        };
        let answered = self.home.exchange(sent, &mut keep).map_err(End::Home)?;
        let wrong = answered.ok().filter(|answer| {
            // Syntax, names, types. That it cannot run in a transaction that has failed is no news.
            let code = answer.error.as_deref();
            code.is_some_and(|code| code.starts_with("42"))
        });
        let Some(answer) = wrong else {
            return Ok(refusal.into());
        };
        let mut frames = Frames::new(usize::MAX);
        frames.buffer().extend_from_slice(&answer.bytes);
        while let Ok(Some(frame)) = frames.next_frame() {
            if frame.letter() == b'E' {
                return Ok(Failure::Server(frame));
            }
        }
        Ok(refusal.into())
    }

    /// The last of some answers.
    fn note_answers(&mut self, unit: &Unit, mut answers: Vec<Answer>) -> Answer {
        let answer = answers.pop().unwrap_or_else(|| Answer {
            bytes: BytesMut::new(),
            has_begun: false,
            error: None,
            status: TransactionStatus::Idle,
            digest: 0,
            parsed: 0,
            numbers: Vec::new(),
        });
        self.note_prepared(unit, &answer);
        answer
    }

    /// Runs a unit on the own database, and again as long as it is the victim of others.
    fn run_local(&mut self, unit: &Unit) -> Result<Answer, Failure> {
        let mut attempts = 0;
        loop {
            self.handle.can_give_way(true);
            let answer = self.exchange(Place::Home, unit, true)?;
            attempts += 1;
            let is_again = match answer.error.as_deref() {
                Some("40001" | "40P01") => true,
                Some("57014") => self.handle.take_displaced(),
                _ => false,
            };
            if !is_again || answer.has_begun || attempts >= self.shared.options.attempts_max {
                self.handle.can_give_way(false);
                return Ok(answer);
            }
        }
    }

    /// A statement has ended its transaction, which no statement that is sent on can: the connection is given up, and what it
    /// has done is not known.
    fn ended_by_itself(&mut self) -> Failure {
        let error = io::Error::other("a statement has ended its transaction");
        Failure::Ends(End::Home(error))
    }

    /// The place of an operation with this route.
    fn place_of(&self, route: &Route) -> Result<Place, Failure> {
        match route.server {
            None => Ok(Place::Home),
            Some(server) if server == self.shared.options.own => Ok(Place::Home),
            Some(server) if self.is_forwarded => Err(ErrorFields::error(
                "XX000",
                format!(
                    "another middleware sent this operation here, and it belongs to {}",
                    self.shared.name_of(server)
                ),
            )
            .with_hint(
                "The middlewares disagree: start all of them with the same application and the same list of servers.",
            )
            .into()),
            Some(server) => Ok(Place::Other(server)),
        }
    }

    /// Sends a unit to a place and reads the answer. If `forwards`, a long answer is sent on while it comes.
    fn exchange(&mut self, place: Place, unit: &Unit, forwards: bool) -> Result<Answer, Failure> {
        if let Place::Other(server) = place {
            self.link(server)?;
        }
        let options = &self.shared.options;
        let mut keep = crate::backend::Keep {
            bytes_max: options.answer_bytes_max,
        };
        let (backend, on_server) = match place {
            Place::Home => (&mut self.home, &mut self.on_home),
            Place::Other(server) => match self.links.get_mut(&server) {
                Some(link) => (&mut link.backend, &mut link.on_server),
                None => {
                    return Err(links::unreachable(
                        &self.shared,
                        server,
                        "it is not connected",
                    ));
                }
            },
        };
        if backend.has_run_own() {
            on_server.insert(String::new(), None);
        }
        let sent = unit.sent(on_server);
        self.handle.runs_on(Some(backend.cancel_key()));
        let answered = match forwards {
            true => backend.exchange(sent, &mut Forward(&mut self.client)),
            false => backend.exchange(sent, &mut keep),
        };
        self.handle.runs_on(None);
        match (answered, place) {
            (Ok(Ok(answer)), _) => {
                if answer.error.is_some() {
                    for name in unit.names() {
                        on_server.insert(name.to_owned(), None);
                    }
                }
                if forwards {
                    self.note_prepared(unit, &answer);
                }
                self.note_committed_at(place);
                Ok(answer)
            }
            (Ok(Err(error)), _) if error.kind() == io::ErrorKind::FileTooLarge => {
                Err(ErrorFields::error(
                    "54000",
                    format!(
                        "the answer of a global operation is larger than the {} bytes that are kept until its COMMIT",
                        options.answer_bytes_max
                    ),
                )
                .with_hint("Read less at once.")
                .into())
            }
            (Ok(Err(_)), _) => Err(End::Client.into()),
            (Err(error), Place::Home) => Err(End::Home(error).into()),
            (Err(error), Place::Other(server)) => {
                self.links.remove(&server);
                Err(links::lost(&self.shared, server, &error.to_string()))
            }
        }
    }

    /// Forgets statements whose preparation has failed.
    fn note_prepared(&mut self, unit: &Unit, answer: &Answer) {
        if answer.error.is_some() {
            let failed: Vec<Arc<Prepared>> = unit.prepares().skip(answer.parsed).cloned().collect();
            for prepared in failed {
                if self
                    .prepared
                    .get(&prepared.name)
                    .is_some_and(|p| p.generation == prepared.generation)
                {
                    self.prepared.remove(&prepared.name);
                }
            }
        }
    }

    /// Does what a command means, apart from statements of the application. Returns whether it succeeded.
    fn command(&mut self, command: &Command, text: &str) -> Result<bool, End> {
        let outcome = match command {
            Command::Begin(modes) => self.begin_block(modes),
            Command::Commit => match self.commit() {
                Ok(tag) => {
                    self.client.answers().command_complete(tag);
                    Ok(())
                }
                Err(failure) => Err(failure),
            },
            Command::Rollback => {
                let was_open = self.block.is_some();
                self.rollback().map(|()| {
                    if !was_open {
                        self.warn("25P01", "there is no transaction in progress");
                    }
                    self.client.answers().command_complete("ROLLBACK");
                })
            }
            Command::IsolationLevel => {
                self.client.answers().command_complete(TAG_OF_SET);
                Ok(())
            }
            Command::Refused {
                code,
                message,
                hint,
            } => Err(ErrorFields::error(code, message.clone())
                .with_hint(*hint)
                .into()),
            Command::RemoveServer(name) => self.remove_server(name),
            // What is open would block what the token brings.
            Command::CatchUp(_) if self.block.is_some() => Err(ErrorFields::error(
                "25001",
                "anabranch.catch_up cannot run inside a transaction block",
            )
            .into()),
            Command::CatchUp(hop) => self.await_hop(Hop(*hop)).map(|()| {
                self.client.answers().command_complete("CALL");
            }),
            Command::ExplainCoordination(range) => self.explain(&text[range.clone()]),
            Command::Empty => {
                self.client.answers().letter(b'I');
                Ok(())
            }
            // The others are sent to a server.
            _ => Ok(()),
        };
        match outcome {
            Ok(()) => Ok(true),
            Err(failure) => {
                if !matches!(command, Command::Commit)
                    && let Some(block) = &mut self.block
                {
                    block.has_failed = true;
                }
                self.fail(failure)?;
                Ok(false)
            }
        }
    }

    fn warn(&mut self, code: &'static str, message: &str) {
        let fields = ErrorFields {
            severity: Severity::Warning,
            ..ErrorFields::error(code, message)
        };
        self.client.answers().notice(&fields);
    }

    /// Removes a server from the ring. The middleware's own role may do so.
    fn remove_server(&mut self, name: &str) -> Result<(), Failure> {
        let shared = &self.shared;
        if Some(self.role.as_str()) != shared.operator.as_deref() {
            return Err(ErrorFields::error(
                "42501",
                "only the role of the middleware may remove a server",
            )
            .into());
        }
        let Some(server) = shared.server_named(name) else {
            let message = format!("the ring has no server \"{name}\"");
            return Err(ErrorFields::error("42704", message).into());
        };
        let Some(through) = shared.ring.remove(server) else {
            return Err(
                ErrorFields::error("55000", format!("{name} was not removed"))
                    .with_hint("All other servers have to be reached, and it must not be this one.")
                    .into(),
            );
        };
        let fields = ErrorFields {
            severity: Severity::Info,
            ..ErrorFields::error(
                "00000",
                format!(
                    "{name} is removed; the ring has its operations up to number {through}, and later ones are lost"
                ),
            )
        };
        self.client.answers().notice(&fields);
        self.client.answers().command_complete("CALL");
        Ok(())
    }

    /// `EXPLAIN COORDINATION`: what a statement is by itself.
    fn explain(&mut self, text: &str) -> Result<(), Failure> {
        let statement = self.shared.recogniser.read(text);
        let mut operation = Operation::default();
        let recogniser = &self.shared.recogniser;
        recogniser.advance(&mut operation, &statement, &Arguments::NONE)?;
        let route = recogniser.finish(&operation)?;
        let class = match route.class {
            Class::Nothing => "reads no rows of the application",
            Class::Local => "local: runs at once",
            Class::Global => "global: runs when its server has the token",
            Class::Open => {
                "not certain yet: runs provisionally, and is global if nothing else becomes certain"
            }
        };
        let server = match route.server {
            Some(server) => self.shared.name_of(server).to_owned(),
            None => format!("any ({})", self.shared.name_of(self.shared.options.own)),
        };
        let mut lines = vec![class.to_owned(), format!("server: {server}")];
        lines.extend(route.operation.map(|name| format!("operation: {name}")));
        lines.push(format!("why: {}", route.why));
        let mut answers = self.client.answers();
        answers.row_description(&[coordination_field()]);
        for line in &lines {
            answers.text_row(line);
        }
        answers.command_complete("EXPLAIN");
        Ok(())
    }

    /// Keeps what a statement sets on the connection, so that links to other servers get it too.
    fn note_setting(&mut self, command: &Command, text: &str) {
        let words: Vec<&str> = text.split_whitespace().take(3).collect();
        let first = words.first().map(|w| w.to_ascii_lowercase());
        match (command, first.as_deref()) {
            (Command::ResetsAll, _) => {
                let is_all = words.get(1).is_some_and(|w| w.eq_ignore_ascii_case("all"));
                if first.as_deref() == Some("discard") && is_all {
                    self.forget_prepared();
                }
                self.settings.clear();
                self.settings.push(text.to_owned());
                for link in self.links.values_mut() {
                    link.forget_settings();
                }
            }
            (_, Some("deallocate")) => {
                let name = words
                    .iter()
                    .skip(1)
                    .find(|w| !w.eq_ignore_ascii_case("prepare"));
                match name.map(|n| n.trim_end_matches(';')) {
                    Some(all) if all.eq_ignore_ascii_case("all") => self.forget_prepared(),
                    Some(name) => {
                        let name = match name.strip_prefix('"') {
                            Some(name) => name.trim_end_matches('"').to_owned(),
                            None => name.to_lowercase(),
                        };
                        self.prepared.remove(&name);
                        self.prepared_by_sql.remove(&name);
                        self.on_home.insert(name, None);
                    }
                    None => {}
                }
                self.settings.push(text.to_owned());
            }
            (_, Some("prepare")) => self.settings.push(text.to_owned()),
            (_, Some("set"))
                if words
                    .get(1)
                    .is_some_and(|w| w.eq_ignore_ascii_case("local")) => {}
            _ => {
                // A setting that is set again and again is kept once.
                let same = |kept: &String| {
                    let of: Vec<&str> = kept.split_whitespace().take(2).collect();
                    of == words.iter().take(2).copied().collect::<Vec<_>>()
                };
                if self.settings.last().is_some_and(same) {
                    self.settings.pop();
                    for link in self.links.values_mut() {
                        link.forget_last_setting(self.settings.len());
                    }
                }
                self.settings.push(text.to_owned());
            }
        }
    }

    fn forget_prepared(&mut self) {
        self.prepared.clear();
        self.prepared_by_sql.clear();
        for generation in self.on_home.values_mut() {
            *generation = None;
        }
        for link in self.links.values_mut() {
            for generation in link.on_server.values_mut() {
                *generation = None;
            }
        }
    }

    /// `PREPARE name (types) AS statement`: what EXECUTE will mean, from now on, whatever becomes of the transaction.
    fn note_prepare(&mut self, text: &str) {
        let Ok(tokens) = crate::lex::tokens(text) else {
            return;
        };
        let tokens: Vec<_> = tokens
            .into_iter()
            .filter(|token| {
                !matches!(
                    token.kind,
                    crate::lex::TokenKind::Comment | crate::lex::TokenKind::Semicolon
                )
            })
            .collect();
        let (name, at) = (tokens.get(1), tokens.iter().position(|t| t.is(text, "as")));
        if let (Some(name), Some(at)) = (name, at)
            && let Some(begin) = tokens.get(at + 1)
        {
            let given = name.text(text);
            let name = match given.starts_with('"') {
                true => given.trim_matches('"').replace("\"\"", "\""),
                false => given.to_lowercase(),
            };
            self.prepared_by_sql
                .insert(name, text[begin.start..].to_owned());
        }
    }
}

/// The column of `EXPLAIN COORDINATION`.
fn coordination_field() -> Field {
    Field {
        name: "QUERY PLAN".to_owned(),
        // text
        type_oid: 25,
        type_length: -1,
        type_modifier: -1,
        format: Format::Text,
    }
}
