//! The server's end of a connection.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::decode::{self, Body, violation};
use crate::encode::{self, DataRow, Field};
use crate::error_fields::{ErrorFields, Severity};
use crate::frame::{self, Frame, FrameError};
use crate::key::BackendKey;
use crate::request::{Request, Startup};

/// How much a client may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of a message before the client is let in.
    pub startup_bytes_max: usize,
    /// The most bytes of a message after that.
    pub message_bytes_max: usize,
}

impl Default for Limits {
    /// 10,000 bytes before the client is let in, 64 MiB after.
    fn default() -> Limits {
        Limits {
            startup_bytes_max: 10_000,
            message_bytes_max: 64 << 20,
        }
    }
}

/// What ReadyForQuery says of the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// There is none.
    Idle,
    /// One is open.
    Open,
    /// One is open and has failed.
    Failed,
}

/// The server's end of one client's connection.
#[derive(Debug)]
pub struct Connection {
    limits: Limits,
    phase: Phase,
    input: BytesMut,
    output: BytesMut,
    /// The protocol's minor version that both sides speak.
    minor: u16,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing, or a request for encryption, has come. At most one request for each kind is answered.
    Starting { asked_tls: bool, asked_gss: bool },
    /// The start-up message has come, and its owner has not answered.
    Started,
    /// Requests are taken.
    Ready,
    /// Requests of the extended protocol are taken: an error skips to the next Sync.
    Extended,
    /// Messages are skipped up to the next Sync.
    Skipping,
    /// The connection ends when its output is sent.
    Closing,
}

/// The versions and requests that begin a connection.
const VERSION_2: u32 = 2 << 16;
const VERSION_3: u32 = 3 << 16;
const MINOR_MAX: u16 = 2;
const CANCEL: u32 = 80_877_102;
const TLS: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

/// The most input that is taken ahead of the request that is being handled.
const INPUT_AHEAD: usize = 64 << 10;

impl Connection {
    /// A connection that was just opened.
    pub fn new(limits: Limits) -> Connection {
        Connection {
            limits,
            phase: Phase::Starting {
                asked_tls: false,
                asked_gss: false,
            },
            input: BytesMut::new(),
            output: BytesMut::new(),
            minor: 0,
        }
    }

    /// Takes bytes that the socket gave.
    pub fn receive(&mut self, bytes: &[u8]) {
        if self.phase != Phase::Closing {
            self.input.extend_from_slice(bytes);
        }
    }

    /// The number of bytes received and not taken as requests.
    pub fn buffered(&self) -> usize {
        self.input.len()
    }

    /// Whether more input should be read: the next message is not there as a whole, or little is waiting. So at most
    /// one message and a little more is buffered.
    pub fn wants_input(&self) -> bool {
        if self.phase == Phase::Closing {
            return false;
        }
        let typed = self.is_started();
        let head = usize::from(typed);
        let length = self.input.get(head..head + 4).map(|length| {
            u32::from_be_bytes(length.try_into().expect("it has four bytes")) as usize
        });
        // A length that exceeds its limit is refused before it is waited for.
        let next = length.map_or(0, |length| length.min(self.bytes_max()) + head + 4);
        self.input.len() < next.max(INPUT_AHEAD)
    }

    /// The bytes to send.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Notes that this many bytes were sent.
    pub fn sent(&mut self, count: usize) {
        self.output.advance(count);
    }

    /// Whether the connection ends when its output is sent.
    pub fn is_closing(&self) -> bool {
        self.phase == Phase::Closing
    }

    /// The protocol's minor version: 0, or 2.
    pub fn minor_version(&self) -> u16 {
        self.minor
    }

    fn is_started(&self) -> bool {
        !matches!(self.phase, Phase::Starting { .. })
    }

    fn bytes_max(&self) -> usize {
        match self.phase {
            Phase::Starting { .. } | Phase::Started => self.limits.startup_bytes_max,
            _ => self.limits.message_bytes_max,
        }
    }

    /// The next request. `None` if the client has to send more, or the connection is closing.
    pub fn next_request(&mut self) -> Option<Request> {
        loop {
            let max = self.bytes_max();
            match self.phase {
                Phase::Closing | Phase::Started => return None,
                Phase::Starting { .. } => {
                    // What follows a request for encryption before it is answered would be read as if it had been
                    // encrypted.
                    let frame = match frame::cut(&mut self.input, false, max) {
                        Ok(frame) => frame?,
                        Err(error) => {
                            self.refuse_length(error);
                            return None;
                        }
                    };
                    if let Some(request) = self.startup(frame) {
                        return Some(request);
                    }
                }
                Phase::Ready | Phase::Extended | Phase::Skipping => {
                    let frame = match frame::cut(&mut self.input, true, max) {
                        Ok(frame) => frame?,
                        Err(error) => {
                            self.refuse_length(error);
                            return None;
                        }
                    };
                    if let Some(request) = self.message(frame) {
                        return Some(request);
                    }
                }
            }
        }
    }

    fn refuse_length(&mut self, error: FrameError) {
        let fields = match error {
            FrameError::TooShort { length, .. } => {
                violation(format!("invalid message length {length}"))
            }
            FrameError::TooLong { length, max, .. } => {
                let fields = match self.is_started() {
                    true => ErrorFields::error(
                        "54000",
                        format!("a message of {length} bytes is too long"),
                    ),
                    false => violation(format!("invalid length of startup packet: {length}")),
                };
                fields.with_hint(format!("The limit is {max} bytes."))
            }
        };
        self.fatal(&fields);
    }

    /// Handles a message before start-up.
    fn startup(&mut self, frame: Frame) -> Option<Request> {
        let Phase::Starting {
            asked_tls,
            asked_gss,
        } = self.phase
        else {
            return None;
        };
        let mut body = Body::new(frame.body, "StartupMessage");
        let code = match body.i32() {
            Ok(code) => code as u32,
            Err(fields) => {
                self.fatal(&fields);
                return None;
            }
        };
        match code {
            TLS | GSS if (code == TLS && asked_tls) || (code == GSS && asked_gss) => {
                self.fatal(&violation("encryption was asked for twice"));
                None
            }
            TLS | GSS => {
                if !self.input.is_empty() {
                    let message = "received unencrypted data after an encryption request";
                    self.fatal(&violation(message));
                    return None;
                }
                if let Err(fields) = body.end() {
                    self.fatal(&fields);
                    return None;
                }
                self.phase = Phase::Starting {
                    asked_tls: asked_tls || code == TLS,
                    asked_gss: asked_gss || code == GSS,
                };
                // Not supported: the client may go on without.
                self.output.put_u8(b'N');
                None
            }
            CANCEL => {
                let key = cancel_key(body);
                self.phase = Phase::Closing;
                // A key that cannot be read fits no connection; the client expects no answer.
                key.ok().map(Request::Cancel)
            }
            VERSION_2 => {
                // In the form that such a client reads: a text.
                self.output.put_u8(b'E');
                encode::text(
                    &mut self.output,
                    "FATAL:  0A000: protocol 2.0 is not supported: use a client of PostgreSQL 7.4 or newer\n",
                );
                self.phase = Phase::Closing;
                None
            }
            version if version & 0xffff_0000 == VERSION_3 => {
                let minor = (version & 0xffff) as u16;
                match self.parameters(body, minor) {
                    Ok(startup) => {
                        self.phase = Phase::Started;
                        Some(Request::Start(startup))
                    }
                    Err(fields) => {
                        self.fatal(&fields);
                        None
                    }
                }
            }
            version => {
                let message = format!(
                    "unsupported frontend protocol {}.{}: server supports 3.0 to 3.{MINOR_MAX}",
                    version >> 16,
                    version & 0xffff
                );
                self.fatal(&ErrorFields::error("0A000", message));
                None
            }
        }
    }

    /// Reads the parameters of the start-up message, and negotiates the version.
    fn parameters(&mut self, mut body: Body, minor: u16) -> Result<Startup, ErrorFields> {
        let mut user = String::new();
        let mut database = String::new();
        let mut parameters = Vec::new();
        let mut options = Vec::new();
        loop {
            let name = body.text()?;
            if name.is_empty() {
                break;
            }
            let value = body.text()?;
            match name.as_str() {
                "user" => user = value,
                "database" => database = value,
                name if name.starts_with("_pq_.") => options.push(name.to_owned()),
                _ => parameters.push((name, value)),
            }
        }
        body.end()?;
        if user.is_empty() {
            let message = "no PostgreSQL user name specified in startup packet";
            return Err(ErrorFields::error("28000", message));
        }
        // There was no 3.1.
        self.minor = if minor >= MINOR_MAX { MINOR_MAX } else { 0 };
        if minor > MINOR_MAX || !options.is_empty() {
            encode::message(&mut self.output, b'v', |out| {
                out.put_u32(VERSION_3 | u32::from(MINOR_MAX.min(minor)));
                out.put_u32(options.len() as u32);
                options.iter().for_each(|option| encode::text(out, option));
            });
        }
        if database.is_empty() {
            database.clone_from(&user);
        }
        Ok(Startup {
            user,
            database,
            parameters,
        })
    }

    /// Handles a message after start-up.
    fn message(&mut self, frame: Frame) -> Option<Request> {
        let Frame { kind, body } = frame;
        let is_end = matches!(kind, b'S' | b'X');
        if self.phase == Phase::Skipping && !is_end {
            return None;
        }
        let is_extended = matches!(kind, b'P' | b'B' | b'D' | b'E' | b'C' | b'H' | b'F');
        self.phase = match (kind, self.phase) {
            (b'S' | b'Q', _) => Phase::Ready,
            _ if is_extended => Phase::Extended,
            (_, phase) => phase,
        };
        match decode::request(kind, body) {
            Ok(request) => request,
            Err(fields) if fields.code == "08P01" && !is_extended && kind != b'Q' => {
                // Neither its meaning nor its end can be trusted.
                self.fatal(&fields);
                None
            }
            Err(fields) => {
                self.error(&fields);
                if !is_extended {
                    self.ready(TransactionStatus::Idle);
                }
                None
            }
        }
    }

    /// Lets the client in: no password is asked for. `parameters` are the settings that it is told.
    pub fn accept(&mut self, parameters: &[(&str, &str)], key: &BackendKey) {
        encode::message(&mut self.output, b'R', |out| out.put_u32(0));
        for (name, value) in parameters {
            self.parameter_status(name, value);
        }
        let secret = key.secret(self.minor);
        encode::message(&mut self.output, b'K', |out| {
            out.put_i32(key.process());
            out.put_slice(secret);
        });
        self.phase = Phase::Ready;
    }

    /// The next request is awaited.
    pub fn ready(&mut self, status: TransactionStatus) {
        encode::message(&mut self.output, b'Z', |out| {
            out.put_u8(match status {
                TransactionStatus::Idle => b'I',
                TransactionStatus::Open => b'T',
                TransactionStatus::Failed => b'E',
            });
        });
    }

    /// A request has failed. In the extended protocol, what follows is skipped up to the next Sync.
    pub fn error(&mut self, fields: &ErrorFields) {
        encode::fields(&mut self.output, b'E', fields);
        if self.phase == Phase::Extended {
            self.phase = Phase::Skipping;
        }
    }

    /// The connection ends, for this reason.
    pub fn fatal(&mut self, fields: &ErrorFields) {
        let fields = ErrorFields {
            severity: Severity::Fatal,
            ..fields.clone()
        };
        encode::fields(&mut self.output, b'E', &fields);
        self.phase = Phase::Closing;
        self.input.clear();
    }

    /// Something that the client should know.
    pub fn notice(&mut self, fields: &ErrorFields) {
        encode::fields(&mut self.output, b'N', fields);
    }

    /// A setting's value.
    pub fn parameter_status(&mut self, name: &str, value: &str) {
        encode::message(&mut self.output, b'S', |out| {
            encode::text(out, name);
            encode::text(out, value);
        });
    }

    /// A statement is prepared.
    pub fn parse_complete(&mut self) {
        self.empty(b'1');
    }

    /// A portal is made.
    pub fn bind_complete(&mut self) {
        self.empty(b'2');
    }

    /// A statement or portal is forgotten.
    pub fn close_complete(&mut self) {
        self.empty(b'3');
    }

    /// A statement returns no rows.
    pub fn no_data(&mut self) {
        self.empty(b'n');
    }

    /// A text has no statement.
    pub fn empty_query(&mut self) {
        self.empty(b'I');
    }

    /// A portal may have more rows.
    pub fn portal_suspended(&mut self) {
        self.empty(b's');
    }

    fn empty(&mut self, kind: u8) {
        encode::message(&mut self.output, kind, |_| {});
    }

    /// The types of a statement's parameters.
    pub fn parameter_description(&mut self, oids: &[u32]) {
        encode::parameter_description(&mut self.output, oids);
    }

    /// The columns of a result.
    pub fn row_description(&mut self, fields: &[Field]) {
        encode::row_description(&mut self.output, fields);
    }

    /// A row of this many columns.
    pub fn data_row(&mut self, columns: usize) -> DataRow<'_> {
        DataRow::new(&mut self.output, columns)
    }

    /// A statement has ended.
    pub fn command_complete(&mut self, tag: &str) {
        encode::message(&mut self.output, b'C', |out| encode::text(out, tag));
    }
}

/// The key in a CancelRequest.
fn cancel_key(mut body: Body) -> Result<BackendKey, ErrorFields> {
    let process = body.i32()?;
    let mut secret: Vec<u8> = Vec::new();
    while let Ok(byte) = body.u8() {
        secret.push(byte);
    }
    let lengths = BackendKey::SHORT_BYTES..=256;
    match lengths.contains(&secret.len()) {
        true => Ok(BackendKey::received(process, &Bytes::from(secret))),
        false => Err(violation("invalid length of cancel request")),
    }
}
