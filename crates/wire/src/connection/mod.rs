//! The server's end of a connection.
//!
//! ```text
//! Starting ──StartupMessage──► Started ──accept──► Open ──► Closing
//!     └────────────────────────────┴─ fatal, Terminate, Cancel ─┘
//! ```
//!
//! | phase | reads | a message may have |
//! |---|---|---|
//! | `Starting` | SSLRequest and GSSENCRequest (once each), CancelRequest, a start-up packet | `startup_bytes_max` |
//! | `Started` | nothing: the owner decides about the start-up packet | – |
//! | `Open` | one message at a time; the next after the answer to the last | `message_bytes_max` |
//! | `Closing` | nothing; what is received is dropped | – |
//!
//! A frame is read when it is there as a whole. Its length is checked as soon as it is there, so that nothing longer is
//! held. What is skipped is dropped as it comes.
//!
//! An answer that does not belong to the request under way would shift all later answers to other requests. It is a bug
//! of the owner: it panics where assertions are on, and ends this connection (XX000) elsewhere.

mod answers;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::body::violation;
use crate::decode::{self, Kind};
use crate::encode;
use crate::error_fields::{ErrorFields, Severity};
use crate::request::{Request, Target};
use crate::startup::{self, First, MINOR_MAX, Packet};

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

/// The most input that is taken ahead of the request that is being handled.
const INPUT_AHEAD: usize = 64 << 10;

/// An output buffer that has grown beyond this is released once all is sent, so that idle connections are small.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// The server's end of one client's connection.
#[derive(Debug)]
pub struct Connection {
    limits: Limits,
    phase: Phase,
    input: BytesMut,
    /// Bytes of a message that is skipped which are still to come.
    skipped_bytes: usize,
    output: BytesMut,
    /// The protocol's minor version that both sides speak.
    minor: u16,
    /// What the client was last told of the transaction.
    status: TransactionStatus,
    /// Whether a message was refused since the owner has asked.
    has_refused: bool,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing, or a request for encryption, has come. At most one request for each kind is answered.
    Starting {
        asked_tls: bool,
        asked_gss: bool,
        last_was_tls: bool,
    },
    /// The start-up message has come, and its owner has not answered.
    Started,
    /// The client is let in.
    Open {
        under_way: UnderWay,
        /// After an error in the extended protocol: what comes before Sync is skipped.
        skips: bool,
    },
    /// The connection ends when its output is sent.
    Closing,
}

/// The request that is being answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnderWay {
    Nothing,
    /// The client was let in, and waits for `ready`.
    Start,
    /// A simple query, until `ready`.
    Query,
    /// Until `ready`.
    Sync,
    Parse,
    Bind,
    /// A prepared statement is described: its parameters come first.
    DescribeStatement,
    /// Rows are described.
    DescribeRows,
    Execute,
    Close,
    /// The data of a COPY, in a simple query or not, until it is complete.
    Copy {
        is_simple: bool,
    },
}

impl Connection {
    /// A connection that was just opened.
    pub fn new(limits: Limits) -> Connection {
        Connection {
            limits,
            phase: Phase::Starting {
                asked_tls: false,
                asked_gss: false,
                last_was_tls: false,
            },
            input: BytesMut::new(),
            skipped_bytes: 0,
            output: BytesMut::new(),
            minor: 0,
            status: TransactionStatus::Idle,
            has_refused: false,
        }
    }

    /// Takes bytes that the socket gave. What is held is bounded if the socket is read only while
    /// [`wants_input`](Connection::wants_input).
    pub fn receive(&mut self, bytes: &[u8]) {
        let skipped = self.skipped_bytes.min(bytes.len());
        self.skipped_bytes -= skipped;
        let bytes = &bytes[skipped..];
        match self.phase {
            Phase::Closing => {}
            // The client has not seen the answer to its request for encryption, so that it believes to send this
            // encrypted.
            Phase::Starting { last_was_tls, .. }
                if !self.output.is_empty() && !bytes.is_empty() =>
            {
                self.refuse_unencrypted(last_was_tls);
            }
            _ => self.input.extend_from_slice(bytes),
        }
    }

    /// The number of bytes received and not taken as requests.
    pub fn buffered(&self) -> usize {
        self.input.len()
    }

    /// Whether more input should be read: the next message is not there as a whole, or little is waiting. So at most
    /// one message and a little more is buffered.
    pub fn wants_input(&self) -> bool {
        let (head, ahead, max) = match self.phase {
            Phase::Closing => return false,
            Phase::Starting { .. } | Phase::Started => {
                // The length does not count itself here.
                let max = self.limits.startup_bytes_max.saturating_add(4);
                (0, max, max)
            }
            Phase::Open { .. } => (1, INPUT_AHEAD, self.limits.message_bytes_max),
        };
        let length = self.input.get(head..).and_then(read_length);
        // A length that exceeds its limit is refused before it is waited for.
        let next = length.map_or(0, |length| length.min(max) + head);
        self.input.len() < next.max(ahead)
    }

    /// Whether Sync is known to be the next message: then what is answered now is the last of its pipeline.
    pub fn is_sync_next(&self) -> bool {
        self.input.first() == Some(&b'S')
    }

    /// The bytes to send.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Notes that this many bytes were sent.
    ///
    /// # Panics
    /// When the output is shorter.
    pub fn sent(&mut self, count: usize) {
        self.output.advance(count);
        if self.output.is_empty() && self.output.try_reclaim(KEPT_BYTES_MAX + 1) {
            self.output = BytesMut::new();
        }
    }

    /// Whether the connection ends when its output is sent.
    pub fn is_closing(&self) -> bool {
        self.phase == Phase::Closing
    }

    /// The protocol's minor version: 0, or 2.
    pub fn minor_version(&self) -> u16 {
        self.minor
    }

    /// What the client was last told of the transaction. A message that is refused makes an open one fail.
    pub fn status(&self) -> TransactionStatus {
        self.status
    }

    /// Whether a message was refused since the last call: one that its frame contradicts, or that is not supported. The
    /// client has been answered. It counts as a statement that failed, and the owner's transaction fails with it.
    pub fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.has_refused)
    }

    /// The next request. `None` while the last one is not answered, if the client has to send more, or if the
    /// connection is closing.
    pub fn next_request(&mut self) -> Option<Request> {
        match self.phase {
            Phase::Starting { .. } => self.next_first(),
            Phase::Open {
                under_way: UnderWay::Nothing | UnderWay::Copy { .. },
                ..
            } => self.next_message(),
            Phase::Started | Phase::Open { .. } | Phase::Closing => None,
        }
    }

    /// Takes what the client sends before it has started.
    fn next_first(&mut self) -> Option<Request> {
        let length = read_length(&self.input)?;
        // As in PostgreSQL, the version has to be there, and the length does not count itself.
        if length < 8 || length - 4 > self.limits.startup_bytes_max {
            self.refuse_startup_length(length);
            return None;
        }
        if self.input.len() < length {
            return None;
        }
        let packet = take(&mut self.input, length);
        match startup::decode(&packet[4..]) {
            First::Tls => self.refuse_encryption(true),
            First::Gss => self.refuse_encryption(false),
            First::Cancel(key) => {
                self.close();
                // A key that can be no connection's cancels nothing. The client expects no answer.
                return key.map(Request::Cancel);
            }
            First::Startup(packet) => return self.start(*packet),
            First::Unsupported { major, minor } => self.refuse_version(major, minor),
        }
        None
    }

    /// Answers a request for encryption that there is none. A client may ask for each kind once.
    fn refuse_encryption(&mut self, tls: bool) {
        if let Phase::Starting {
            asked_tls,
            asked_gss,
            last_was_tls,
        } = &mut self.phase
        {
            *last_was_tls = tls;
            let asked = if tls { asked_tls } else { asked_gss };
            if std::mem::replace(asked, true) {
                self.refuse_version(1234, if tls { 5679 } else { 5680 });
                return;
            }
        }
        self.output.put_u8(b'N');
        if !self.input.is_empty() {
            self.refuse_unencrypted(tls);
        }
    }

    fn refuse_unencrypted(&mut self, tls: bool) {
        let request = if tls {
            "SSL request"
        } else {
            "GSSAPI encryption request"
        };
        let error = violation(format!("received unencrypted data after {request}"));
        let detail = "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.";
        self.fatal(&ErrorFields::from(error).with_detail(detail));
    }

    fn refuse_startup_length(&mut self, length: usize) {
        let error = ErrorFields::from(violation("invalid length of startup packet"));
        self.fatal(&error.with_detail(format!(
            "The length is {length} bytes; it has to be from 8 to {}.",
            self.limits.startup_bytes_max.saturating_add(4)
        )));
    }

    fn refuse_version(&mut self, major: u16, minor: u16) {
        let error = ErrorFields {
            severity: Severity::Fatal,
            ..ErrorFields::error(
                "0A000",
                format!(
                    "unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.{MINOR_MAX}"
                ),
            )
        };
        if major >= 3 {
            self.fatal(&error);
        } else {
            encode::error_of_protocol_2(&mut self.output, &error);
            self.close();
        }
    }

    /// Negotiates the version, and gives the start-up message to the owner.
    fn start(&mut self, packet: Packet) -> Option<Request> {
        let startup = packet.parameters.and_then(|parameters| {
            let unknown = &parameters.protocol_options;
            if packet.minor > MINOR_MAX || !unknown.is_empty() {
                let minor = packet.minor.min(MINOR_MAX);
                encode::negotiate_protocol_version(&mut self.output, minor, unknown);
            }
            parameters.into_startup()
        });
        match startup {
            Ok(startup) => {
                // There was no 3.1.
                self.minor = if packet.minor >= 2 { 2 } else { 0 };
                self.phase = Phase::Started;
                Some(Request::Start(startup))
            }
            Err(error) => {
                self.fatal(&error.into());
                None
            }
        }
    }

    /// Takes the next message of a client that is let in.
    fn next_message(&mut self) -> Option<Request> {
        loop {
            let letter = *self.input.first()?;
            let Some(kind) = Kind::of(letter, self.limits.message_bytes_max) else {
                let error = violation(format!("invalid frontend message type {letter}"));
                self.fatal(&error.into());
                return None;
            };
            let length = read_length(&self.input[1..])?;
            if length < 4 || length > kind.bytes_max {
                self.fatal(&invalid_length(length, kind.bytes_max));
                return None;
            }
            let Phase::Open { under_way, skips } = &mut self.phase else {
                return None;
            };
            let copies = matches!(under_way, UnderWay::Copy { .. });
            if copies && !kind.is_copy && !matches!(letter, b'H' | b'S') {
                let message =
                    format!("unexpected message type 0x{letter:02X} during COPY from stdin");
                self.fatal(&violation(message).into());
                return None;
            }
            // As in PostgreSQL, Flush and Sync are ignored while data of a COPY comes.
            if kind.is_copy != copies || *skips && !kind.ends_skipping {
                // A client that sends Flush waits for the error.
                self.has_refused |= letter == b'H';
                self.skip(1 + length);
                continue;
            }
            if self.input.len() < 1 + length {
                return None;
            }
            *skips = false;
            let frame = take(&mut self.input, 1 + length);
            match decode::decode(letter, &frame.slice(5..)) {
                Ok(request) => {
                    *under_way = match (*under_way, UnderWay::of(&request)) {
                        (UnderWay::Copy { is_simple }, _) => match request {
                            Request::CopyData(_) => UnderWay::Copy { is_simple },
                            _ if is_simple => UnderWay::Query,
                            _ => UnderWay::Execute,
                        },
                        (_, next) => next,
                    };
                    if matches!(request, Request::Terminate) {
                        self.close();
                    }
                    return Some(request);
                }
                Err(error) if copies => {
                    self.fatal(&error.into());
                    return None;
                }
                Err(error) => {
                    *skips = kind.is_extended;
                    self.refuse_message(&error.into(), !kind.is_extended);
                }
            }
        }
    }

    /// Answers a message that cannot be decoded. Its end is known, so that the connection goes on.
    fn refuse_message(&mut self, error: &ErrorFields, ready: bool) {
        self.has_refused = true;
        if self.status == TransactionStatus::Open {
            self.status = TransactionStatus::Failed;
        }
        encode::fields(&mut self.output, b'E', error);
        if ready {
            self.write_ready();
        }
    }

    /// Drops so many bytes, also those that are still to come.
    fn skip(&mut self, count: usize) {
        let here = count.min(self.input.len());
        drop(take(&mut self.input, here));
        self.skipped_bytes = count - here;
    }

    fn close(&mut self) {
        self.phase = Phase::Closing;
        self.input = BytesMut::new();
        self.skipped_bytes = 0;
    }
}

impl UnderWay {
    fn of(request: &Request) -> UnderWay {
        match request {
            Request::Query { .. } => UnderWay::Query,
            Request::Parse { .. } => UnderWay::Parse,
            Request::Bind { .. } => UnderWay::Bind,
            Request::Describe(Target::Statement(_)) => UnderWay::DescribeStatement,
            Request::Describe(Target::Portal(_)) => UnderWay::DescribeRows,
            Request::Execute { .. } => UnderWay::Execute,
            Request::Close(_) => UnderWay::Close,
            Request::Sync => UnderWay::Sync,
            Request::Start(_)
            | Request::Cancel(_)
            | Request::Flush
            | Request::Terminate
            | Request::CopyData(_)
            | Request::CopyDone
            | Request::CopyFail { .. } => UnderWay::Nothing,
        }
    }
}

/// The length at the head of a frame, which counts its own four bytes.
fn read_length(bytes: &[u8]) -> Option<usize> {
    let length: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    Some(u32::from_be_bytes(length) as usize)
}

/// PostgreSQL closes the connection without telling its client; here it is told.
fn invalid_length(length: usize, bytes_max: usize) -> ErrorFields {
    // The length is a signed number.
    if length < 4 || length > i32::MAX as usize {
        return violation("invalid message length").into();
    }
    let message =
        format!("a message of {length} bytes exceeds the limit of {bytes_max} bytes for its type");
    ErrorFields::error("54000", message)
        .with_hint("Send large amounts of data in several statements.")
}

/// Takes bytes from the front. With the last of them goes the memory: an idle connection has none, whatever it has
/// received.
fn take(buffer: &mut BytesMut, count: usize) -> Bytes {
    if count == buffer.len() {
        std::mem::take(buffer).freeze()
    } else {
        buffer.split_to(count).freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_holds_little_memory() {
        let mut connection = Connection::new(Limits::default());
        let query = |length: u32| {
            let mut message = vec![b'Q'];
            message.extend((length + 5).to_be_bytes());
            message.resize(message.len() + length as usize, b'x');
            message.push(0);
            message
        };
        connection.phase = Phase::Open {
            under_way: UnderWay::Nothing,
            skips: false,
        };
        // A large message with a small one behind it, and rows that are sent in two parts.
        connection.receive(&[query(5_000_000), query(10)].concat());
        for length in [5_000_000, 10] {
            assert!(connection.next_request().is_some());
            let mut row = connection.data_row(1);
            row.buffer().put_u32(length);
            row.buffer().put_bytes(b'y', length as usize);
            row.finish();
            connection.ready(TransactionStatus::Idle);
        }
        assert!(connection.next_request().is_none());
        connection.sent(1_000_000);
        let rest = connection.output().len();
        assert!(rest > 4_000_000);
        connection.sent(rest);
        assert!(!connection.input.try_reclaim(1_000));
        assert!(!connection.output.try_reclaim(KEPT_BYTES_MAX + 1));
    }
}
