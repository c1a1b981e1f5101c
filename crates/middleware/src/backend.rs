//! A connection to the own database or to another middleware, as a client of it.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anabranch_dbms::postgres::address::Endpoint;
use anabranch_dbms::postgres::numbers::NUMBER;
use anabranch_protocol::belt::Hop;
use anabranch_wire::TransactionStatus;
use anabranch_wire::relay::{Frame, Frames};
use bytes::{BufMut, BytesMut};
use postgres::config::Host;
use postgres_protocol::authentication::{md5_hash, sasl};
use postgres_protocol::message::frontend;

/// How long a connection, and each answer while it begins, is waited for.
pub const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The longest message of a server.
const FRAME_BYTES_MAX: usize = 1 << 30;

/// How much is read at once.
const READ_BYTES: usize = 32 << 10;

/// A socket of either kind.
#[derive(Debug)]
pub enum Socket {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Socket {
    /// Connects.
    ///
    /// # Errors
    /// When the server is not reached in time.
    pub fn connect(endpoint: &Endpoint) -> io::Result<Socket> {
        match &endpoint.host {
            Host::Tcp(host) => Socket::connect_to(&format!("{host}:{}", endpoint.port)),
            #[cfg(unix)]
            Host::Unix(directory) => {
                let path = directory.join(format!(".s.PGSQL.{}", endpoint.port));
                Ok(Socket::Unix(UnixStream::connect(path)?))
            }
        }
    }

    /// Connects by TCP to `host:port`.
    ///
    /// # Errors
    /// When the server is not reached in time.
    pub fn connect_to(address: &str) -> io::Result<Socket> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_MAX) {
                Ok(stream) => {
                    // Answers are small and each is waited for. Without the option they are slower, not wrong.
                    let _ = stream.set_nodelay(true);
                    return Ok(Socket::Tcp(stream));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// How long a read waits.
    ///
    /// # Errors
    /// The system's.
    pub fn set_read_timeout(&self, longest: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_read_timeout(longest),
            #[cfg(unix)]
            Socket::Unix(stream) => stream.set_read_timeout(longest),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            #[cfg(unix)]
            Socket::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            #[cfg(unix)]
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads whole messages from a socket.
#[derive(Debug)]
pub struct Reader {
    /// The socket.
    pub socket: Socket,
    frames: Frames,
    buffer: Box<[u8]>,
}

impl Reader {
    /// Reads from a socket messages of at most so many bytes.
    pub fn new(socket: Socket, bytes_max: usize) -> Reader {
        Reader {
            socket,
            frames: Frames::new(bytes_max),
            buffer: vec![0; READ_BYTES].into(),
        }
    }

    /// What has been received and not been cut out.
    pub fn frames(&mut self) -> &mut Frames {
        &mut self.frames
    }

    /// Waits for more bytes.
    ///
    /// # Errors
    /// The socket's; when it has ended, or its timeout has passed.
    pub fn fill(&mut self) -> io::Result<()> {
        loop {
            match self.socket.read(&mut self.buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    let bytes = &self.buffer[..count];
                    self.frames.buffer().extend_from_slice(bytes);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// As [`fill`](Reader::fill); when the message is longer than allowed.
    pub fn next_frame(&mut self) -> io::Result<Frame> {
        loop {
            let next = self.frames.next_frame();
            match next.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
                Some(frame) => return Ok(frame),
                None => self.fill()?,
            }
        }
    }
}

/// The key by which what a connection runs is cancelled, and where to.
#[derive(Clone, Debug)]
pub struct CancelKey {
    /// Where its server is.
    pub to: Destination,
    /// The process, and the secret.
    pub key: (i32, i32),
}

/// Where a connection goes.
#[derive(Clone, Debug)]
pub enum Destination {
    /// To a database.
    Database(Endpoint),
    /// To a middleware, as `host:port`.
    Middleware(String),
}

impl Destination {
    /// Connects.
    ///
    /// # Errors
    /// When it is not reached in time.
    pub fn connect(&self) -> io::Result<Socket> {
        match self {
            Destination::Database(endpoint) => Socket::connect(endpoint),
            Destination::Middleware(address) => Socket::connect_to(address),
        }
    }
}

impl CancelKey {
    /// Cancels what runs. The server does not say whether anything did.
    ///
    /// # Errors
    /// When the server is not reached.
    pub fn cancel(&self) -> io::Result<()> {
        let mut socket = self.to.connect()?;
        let mut bytes = BytesMut::new();
        frontend::cancel_request(self.key.0, self.key.1, &mut bytes);
        socket.write_all(&bytes)?;
        // The server closes once it has done it.
        socket.set_read_timeout(Some(CONNECT_MAX))?;
        let _ = socket.read(&mut [0; 1])?;
        Ok(())
    }
}

/// What is sent to a server at once: messages of the client, to the end of a query or up to a Sync.
#[derive(Debug, Default)]
pub struct Sent {
    bytes: BytesMut,
    /// For each answer that completes a message, in order: whether the client gets it.
    expected: VecDeque<bool>,
}

impl Sent {
    /// A message whose answer the client gets, or does not get.
    pub fn push(&mut self, frame: &[u8], is_for_client: bool) {
        // Flush and Sync have no answer of their own here.
        if matches!(frame.first(), Some(b'P' | b'B' | b'D' | b'E' | b'C')) {
            self.expected.push_back(is_for_client);
        }
        self.bytes.extend_from_slice(frame);
    }

    /// Closes a prepared statement before one of the same name is made again.
    pub fn close_statement(&mut self, name: &str) {
        let mut bytes = BytesMut::new();
        // The name came in a message, so that it has no NUL.
        let _ = frontend::close(b'S', name, &mut bytes);
        self.push(&bytes, false);
    }

    /// Ends it with a Sync.
    pub fn sync(&mut self) {
        frontend::sync(&mut self.bytes);
    }
}

/// What a server has answered.
#[derive(Debug)]
pub struct Answer {
    /// The messages for the client, without the last, ReadyForQuery.
    pub bytes: BytesMut,
    /// Whether a part of it has been sent to the client already.
    pub has_begun: bool,
    /// The SQLSTATE of the error that ended it.
    pub error: Option<String>,
    /// What the transaction is now.
    pub status: TransactionStatus,
    /// What tells this answer from another: rows, tags and errors.
    pub digest: u64,
    /// How many statements were prepared before an error.
    pub parsed: usize,
    /// The numbers that were drawn from sequences, if the transaction tells them.
    pub numbers: Vec<String>,
}

/// A connection to a server.
#[derive(Debug)]
pub struct Backend {
    reader: Reader,
    destination: Destination,
    /// The process and the secret.
    key: (i32, i32),
    /// Settings that have changed by statements of the middleware's own, which its client has to hear of.
    reported: Vec<Frame>,
    /// Whether statements of the middleware's own have run: a query by text ends the unnamed prepared statement.
    has_run_own: bool,
    /// The last hold under which another middleware has committed something of this connection.
    committed: Hop,
}

/// The parameter by which a middleware reports to another one the hold under which it has committed what that one has sent.
pub const COMMITTED: &str = "anabranch.committed";

/// What becomes of an answer while it comes.
pub trait Sink {
    /// Takes what has come, and leaves the buffer empty, or leaves it as it is.
    ///
    /// # Errors
    /// When the client is gone.
    fn take(&mut self, bytes: &mut BytesMut) -> io::Result<bool>;
}

/// Keeps an answer as a whole.
#[derive(Debug)]
pub struct Keep {
    /// The most bytes that are kept.
    pub bytes_max: usize,
}

impl Sink for Keep {
    fn take(&mut self, bytes: &mut BytesMut) -> io::Result<bool> {
        match bytes.len() <= self.bytes_max {
            true => Ok(false),
            false => Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "the answer is larger than is kept",
            )),
        }
    }
}

/// Reads an answer that nothing is done with.
#[derive(Debug)]
pub struct Discard;

impl Sink for Discard {
    fn take(&mut self, bytes: &mut BytesMut) -> io::Result<bool> {
        bytes.clear();
        Ok(false)
    }
}

impl Backend {
    /// Sends a start-up message. What the server then asks for is answered by [`authenticate`](Backend::authenticate), or by
    /// the client itself.
    ///
    /// # Errors
    /// When the server is not reached.
    pub fn connect(destination: Destination, parameters: &[(&str, &str)]) -> io::Result<Backend> {
        let socket = destination.connect()?;
        socket.set_read_timeout(Some(CONNECT_MAX))?;
        let mut bytes = BytesMut::new();
        frontend::startup_message(parameters.iter().copied(), &mut bytes)?;
        let mut backend = Backend {
            reader: Reader::new(socket, FRAME_BYTES_MAX),
            destination,
            key: (0, 0),
            reported: Vec::new(),
            has_run_own: false,
            committed: Hop(0),
        };
        backend.write(&bytes)?;
        Ok(backend)
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// The socket's.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.socket.write_all(bytes)
    }

    /// The next message.
    ///
    /// # Errors
    /// The socket's.
    pub fn read(&mut self) -> io::Result<Frame> {
        self.reader.next_frame()
    }

    /// Notes the key that the server gives, and that no further answer is limited in time.
    ///
    /// # Errors
    /// The socket's.
    pub fn begin(&mut self, key: &Frame) -> io::Result<()> {
        let body = key.body();
        if let (Some(process), Some(secret)) = (body.first_chunk::<4>(), body.get(4..8)) {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(secret);
            self.key = (i32::from_be_bytes(*process), i32::from_be_bytes(bytes));
        }
        self.reader.socket.set_read_timeout(None)
    }

    /// The key by which what it runs is cancelled.
    pub fn cancel_key(&self) -> CancelKey {
        CancelKey {
            to: self.destination.clone(),
            key: self.key,
        }
    }

    /// Does what the server asks for before it lets a role in.
    ///
    /// # Errors
    /// When the connection is lost, or the server refuses: then with its message.
    pub fn authenticate(&mut self, role: &str, password: Option<&str>) -> io::Result<()> {
        let missing = || {
            io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("it asks for the password of \"{role}\", and ~/.pgpass has none for it"),
            )
        };
        let unknown = |what: &str| {
            io::Error::new(
                io::ErrorKind::Unsupported,
                format!(
                    "it asks for {what}; the methods trust, password, md5 and scram-sha-256 are supported"
                ),
            )
        };
        let mut scram: Option<sasl::ScramSha256> = None;
        loop {
            let frame = self.read()?;
            let body = frame.body();
            match frame.letter() {
                b'R' => {}
                b'E' => return Err(refused(&frame)),
                b'K' => {
                    self.begin(&frame)?;
                    continue;
                }
                b'Z' => return Ok(()),
                _ => continue,
            }
            let Some((code, rest)) = body.split_first_chunk::<4>() else {
                return Err(unknown("nothing"));
            };
            let mut out = BytesMut::new();
            match u32::from_be_bytes(*code) {
                0 => continue,
                3 => {
                    frontend::password_message(password.ok_or_else(missing)?.as_bytes(), &mut out)?
                }
                5 => {
                    let salt: [u8; 4] = rest.try_into().map_err(|_| unknown("a damaged salt"))?;
                    let password = password.ok_or_else(missing)?;
                    let hash = md5_hash(role.as_bytes(), password.as_bytes(), salt);
                    frontend::password_message(hash.as_bytes(), &mut out)?;
                }
                10 => {
                    let has = rest.split(|b| *b == 0).any(|m| m == b"SCRAM-SHA-256");
                    if !has {
                        return Err(unknown("another mechanism of SASL"));
                    }
                    let password = password.ok_or_else(missing)?.as_bytes();
                    let begun =
                        sasl::ScramSha256::new(password, sasl::ChannelBinding::unsupported());
                    frontend::sasl_initial_response("SCRAM-SHA-256", begun.message(), &mut out)?;
                    scram = Some(begun);
                }
                11 => {
                    let scram = scram.as_mut().ok_or_else(|| unknown("SASL out of order"))?;
                    scram.update(rest)?;
                    frontend::sasl_response(scram.message(), &mut out)?;
                }
                12 => {
                    let scram = scram.as_mut().ok_or_else(|| unknown("SASL out of order"))?;
                    scram.finish(rest)?;
                    continue;
                }
                _ => return Err(unknown("another method")),
            }
            self.write(&out)?;
        }
    }

    /// Whether [`Backend::run`] has been called since this was asked last: it ends the unnamed prepared statement.
    pub fn has_run_own(&mut self) -> bool {
        std::mem::take(&mut self.has_run_own)
    }

    /// Runs statements of the middleware's own, and returns the error that ended them.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn run(&mut self, statements: &str) -> io::Result<Result<(), Frame>> {
        self.has_run_own = true;
        let mut bytes = BytesMut::new();
        frontend::query(statements, &mut bytes)?;
        self.write(&bytes)?;
        let mut error = None;
        loop {
            let frame = self.read()?;
            match frame.letter() {
                b'E' => error = Some(frame),
                b'S' => self.note_parameter(frame),
                b'Z' => {
                    return Ok(match error {
                        Some(error) => Err(error),
                        None => Ok(()),
                    });
                }
                _ => {}
            }
        }
    }

    /// The settings that have changed by statements of the middleware's own since the last call.
    pub fn take_reported(&mut self) -> Vec<Frame> {
        std::mem::take(&mut self.reported)
    }

    /// The last hold under which another middleware has committed something of this connection; 0 if none has.
    pub fn committed(&self) -> Hop {
        self.committed
    }

    fn note_parameter(&mut self, frame: Frame) {
        match (&self.destination, frame.parameter()) {
            (Destination::Middleware(_), Some((COMMITTED, hop))) => {
                let hop = hop.parse().map_or(self.committed, Hop);
                self.committed = self.committed.max(hop);
            }
            _ => self.reported.push(frame),
        }
    }

    /// Sends messages and reads the answer to all of them.
    ///
    /// # Errors
    /// When the connection is lost; and, inside, why the sink took no more.
    pub fn exchange(
        &mut self,
        sent: Sent,
        sink: &mut dyn Sink,
    ) -> io::Result<Result<Answer, io::Error>> {
        let Sent {
            bytes,
            mut expected,
        } = sent;
        self.write(&bytes)?;
        let mut digest = DefaultHasher::new();
        let mut answer = Answer {
            bytes: BytesMut::new(),
            has_begun: false,
            error: None,
            status: TransactionStatus::Idle,
            digest: 0,
            parsed: 0,
            numbers: Vec::new(),
        };
        // The rest of an answer that the sink does not take is read all the same.
        let mut refused = None;
        loop {
            let frame = self.read()?;
            let letter = frame.letter();
            let is_for_client = match letter {
                b'Z' => {
                    answer.status = frame.status().unwrap_or(answer.status);
                    break;
                }
                b'1' | b'2' | b'3' | b'T' | b'n' | b'C' | b'I' | b's' => {
                    let of = expected.pop_front().unwrap_or(true);
                    answer.parsed += usize::from(letter == b'1' && of);
                    of
                }
                b'N' if frame.field(b'C') == Some(NUMBER) => {
                    answer.numbers.extend(frame.field(b'M').map(str::to_owned));
                    false
                }
                // The client hears of it before it is told that the session is ready, also if the rest is dropped.
                b'S' => {
                    self.note_parameter(frame);
                    continue;
                }
                b't' => expected.front().copied().unwrap_or(true),
                _ => true,
            };
            match letter {
                b'D' | b'C' | b'I' | b's' => digest.write(frame.bytes()),
                b'E' => {
                    let code = frame.field(b'C').unwrap_or_default();
                    digest.write(code.as_bytes());
                    answer.error = Some(code.to_owned());
                    expected.clear();
                }
                _ => {}
            }
            if is_for_client && refused.is_none() {
                answer.bytes.put_slice(frame.bytes());
                match sink.take(&mut answer.bytes) {
                    Ok(has_taken) => answer.has_begun |= has_taken,
                    Err(error) => refused = Some(error),
                }
            }
        }
        answer.digest = digest.finish();
        Ok(match refused {
            Some(error) => Err(error),
            None => Ok(answer),
        })
    }
}

/// A server's refusal as an error.
fn refused(frame: &Frame) -> io::Error {
    let text = format!(
        "{} (SQLSTATE {})",
        frame.field(b'M').unwrap_or_default(),
        frame.field(b'C').unwrap_or_default()
    );
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

/// The password of a role for a server, from the file that libpq reads (`PGPASSFILE`, or `~/.pgpass`), or `PGPASSWORD`.
pub fn password(host: &str, port: &str, database: &str, role: &str) -> Option<String> {
    let file = std::env::var_os("PGPASSFILE").map(std::path::PathBuf::from);
    let file = file.or_else(|| Some(std::env::home_dir()?.join(".pgpass")));
    let found = file
        .and_then(|file| std::fs::read_to_string(file).ok())
        .and_then(|text| password_in(&text, [host, port, database, role]));
    found.or_else(|| std::env::var("PGPASSWORD").ok())
}

/// The first line that fits: `host:port:database:role:password`, where `*` fits all.
fn password_in(text: &str, of: [&str; 4]) -> Option<String> {
    text.lines().find_map(|line| {
        let mut fields = vec![String::new()];
        let mut letters = line.chars();
        while let Some(letter) = letters.next() {
            let last = fields.last_mut()?;
            match letter {
                '\\' => last.extend(letters.next()),
                ':' => fields.push(String::new()),
                other => last.push(other),
            }
        }
        let fits = fields.len() >= 5
            && !line.starts_with('#')
            && (fields.iter().zip(of)).all(|(field, of)| field == "*" || field == of);
        fits.then(|| fields[4..].join(":"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_as_libpq_does() {
        let file = "# a comment\nhost:5432:shop:belt:one\\:two\n*:*:*:belt:three\n";
        let of = |host, role| password_in(file, [host, "5432", "shop", role]);
        assert_eq!(of("host", "belt").as_deref(), Some("one:two"));
        assert_eq!(of("other", "belt").as_deref(), Some("three"));
        assert_eq!(of("other", "shop"), None);
    }
}
