//! The connections between the middlewares of a ring.
//!
//! Each middleware connects to each other one, and sends on the connection that it has made; it receives on those that
//! the others have made. A connection begins with a [`Hello`], and then carries messages: a length of four bytes, the lowest
//! first, and the message in postcard's format. What cannot be sent is dropped, since the belt sends again
//! whatever is not acknowledged.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anabranch_dbms::belt::Changes;
use anabranch_protocol::belt::{Message, ServerId};
use serde::{Deserialize, Serialize};

use crate::waits::Waits;

/// The version of the messages.
const VERSION: u16 = 1;

/// What marks the beginning of a connection.
const MAGIC: [u8; 8] = *b"anabelt\0";

/// How many messages wait for one server. Further ones are dropped.
const QUEUE_MAX: usize = 64;

/// The longest message, in bytes. A message has one update at least, and an operation's update has to fit.
const FRAME_BYTES_MAX: usize = 1 << 30;

/// The longest [`Hello`], in bytes.
const HELLO_BYTES_MAX: usize = 16_384;

/// How long a new connection may take to say who it is, and a write may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait before connecting again.
const PAUSE: Duration = Duration::from_millis(200);

/// The first message of a connection.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    magic: [u8; 8],
    version: u16,
    /// The ring: servers of another one are refused.
    ring: String,
    from: ServerId,
}

/// The other servers of the ring, as one of them reaches them.
#[derive(Debug)]
pub struct Peers {
    to: Vec<(ServerId, SyncSender<Message<Changes>>)>,
    stopped: Arc<AtomicBool>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

/// Who takes part in a ring.
#[derive(Clone, Debug)]
pub struct Membership {
    /// A text that is the same on all servers of the ring, and on no other ring's.
    pub ring: String,
    /// This server.
    pub own: ServerId,
    /// Where the others wait for connections.
    pub others: Vec<(ServerId, SocketAddr)>,
}

impl Peers {
    /// Waits for connections of the others, and connects to them. Messages go to `deliver`, on threads of their own. `waits`
    /// learns which of them are reached.
    ///
    /// # Errors
    /// When the listener's thread cannot begin.
    pub(crate) fn start(
        listener: TcpListener,
        membership: &Membership,
        waits: &Arc<Waits>,
        deliver: impl Fn(ServerId, Message<Changes>) + Clone + Send + 'static,
    ) -> io::Result<Peers> {
        let stopped = Arc::new(AtomicBool::new(false));
        let address = listener.local_addr()?;
        let accepting = Accepting {
            listener,
            ring: membership.ring.clone(),
            members: membership
                .others
                .iter()
                .map(|(server, _)| *server)
                .collect(),
            stopped: Arc::clone(&stopped),
        };
        let accepting = thread::Builder::new()
            .name("belt-accept".to_owned())
            .spawn(move || accepting.run(&deliver))?;
        let mut to = Vec::new();
        for (server, address) in &membership.others {
            let (sender, messages) = sync_channel(QUEUE_MAX);
            let sending = Sending {
                server: *server,
                waits: Arc::clone(waits),
                address: *address,
                hello: Hello {
                    magic: MAGIC,
                    version: VERSION,
                    ring: membership.ring.clone(),
                    from: membership.own,
                },
                messages,
                stopped: Arc::clone(&stopped),
            };
            thread::Builder::new()
                .name(format!("belt-to-{server}"))
                .spawn(move || sending.run())?;
            to.push((*server, sender));
        }
        Ok(Peers {
            to,
            stopped,
            address,
            accepting: Some(accepting),
        })
    }

    /// Sends a message, or drops it if the server is not reached.
    pub fn send(&self, to: ServerId, message: Message<Changes>) {
        if let Some((_, sender)) = self.to.iter().find(|(server, _)| *server == to) {
            // A full queue: the server is not reached, and the belt sends again what is not acknowledged.
            let _ = sender.try_send(message);
        }
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        // The listener's thread wakes, and sees that it has to end.
        let woken = TcpStream::connect_timeout(&self.address, PAUSE);
        // The port is free when this returns.
        if let (Ok(_), Some(accepting)) = (woken, self.accepting.take()) {
            let _ = accepting.join();
        }
    }
}

/// The listener's thread.
struct Accepting {
    listener: TcpListener,
    ring: String,
    members: Vec<ServerId>,
    stopped: Arc<AtomicBool>,
}

impl Accepting {
    fn run(self, deliver: &(impl Fn(ServerId, Message<Changes>) + Clone + Send + 'static)) {
        loop {
            let accepted = self.listener.accept();
            if self.stopped.load(Ordering::Acquire) {
                return;
            }
            let Ok((stream, _)) = accepted else {
                // Too many open files, perhaps: others are closed meanwhile.
                thread::sleep(PAUSE);
                continue;
            };
            let (ring, members) = (self.ring.clone(), self.members.clone());
            let (deliver, stopped) = (deliver.clone(), Arc::clone(&self.stopped));
            // A thread that cannot begin closes the connection, and the other server connects again.
            let _ = thread::Builder::new()
                .name("belt-from".to_owned())
                .spawn(move || {
                    // An error ends the connection; the other server makes another one.
                    let _ = receive(stream, &ring, &members, &stopped, &deliver);
                });
        }
    }
}

fn receive(
    mut stream: TcpStream,
    ring: &str,
    members: &[ServerId],
    stopped: &AtomicBool,
    deliver: &impl Fn(ServerId, Message<Changes>),
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let hello: Hello = decoded(&read_frame(&mut stream, HELLO_BYTES_MAX)?)?;
    let is_known = hello.magic == MAGIC
        && hello.version == VERSION
        && hello.ring == ring
        && members.contains(&hello.from);
    if !is_known {
        return Err(io::Error::other("a server of another ring"));
    }
    // An idle ring sends nothing.
    stream.set_read_timeout(None)?;
    loop {
        let message = decoded(&read_frame(&mut stream, FRAME_BYTES_MAX)?)?;
        if stopped.load(Ordering::Acquire) {
            return Ok(());
        }
        deliver(hello.from, message);
    }
}

fn decoded<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> io::Result<T> {
    postcard::from_bytes(bytes).map_err(io::Error::other)
}

/// Reads one frame. Memory grows with what has arrived, not with the length that the frame claims.
fn read_frame(stream: &mut impl Read, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > bytes_max {
        return Err(io::Error::other("a frame is too long"));
    }
    let mut bytes = Vec::new();
    let read = stream.take(length as u64).read_to_end(&mut bytes)?;
    match read == length {
        true => Ok(bytes),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn write_frame(stream: &mut TcpStream, value: &impl Serialize) -> io::Result<()> {
    let mut bytes = vec![0; 4];
    bytes = postcard::to_extend(value, bytes).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len() - 4).map_err(io::Error::other)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    stream.write_all(&bytes)
}

/// The thread that sends to one server.
struct Sending {
    server: ServerId,
    waits: Arc<Waits>,
    address: SocketAddr,
    hello: Hello,
    messages: Receiver<Message<Changes>>,
    stopped: Arc<AtomicBool>,
}

impl Sending {
    fn run(self) {
        let mut stream: Option<TcpStream> = None;
        loop {
            let message = match self.messages.recv_timeout(PATIENCE) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if self.stopped.load(Ordering::Acquire) {
                return;
            }
            if stream.is_none() {
                stream = self.connect().ok();
            }
            let sent = match &mut stream {
                Some(stream) => write_frame(stream, &message),
                None => {
                    thread::sleep(PAUSE);
                    continue;
                }
            };
            if sent.is_err() {
                // The other server has begun anew, perhaps: once more, on a new connection.
                stream = self.connect().ok();
                if let Some(again) = &mut stream
                    && write_frame(again, &message).is_err()
                {
                    stream = None;
                }
            }
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let connected = self.connect_once();
        let reached = connected.as_ref().map(|_| ());
        let reached = reached.map_err(|error| error.to_string());
        self.waits.note_reached(self.server, reached);
        connected
    }

    fn connect_once(&self) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        write_frame(&mut stream, &self.hello)?;
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_hold_what_they_claim() {
        let frame = |length: u32, bytes: &[u8]| [&length.to_le_bytes(), bytes].concat();
        let read = |bytes: Vec<u8>| read_frame(&mut &bytes[..], 100).ok();
        assert_eq!(read(frame(2, &[7, 8])), Some(vec![7, 8]));
        assert_eq!(read(frame(3, &[7, 8])), None);
        assert_eq!(read(frame(101, &[7; 101])), None);
        assert_eq!(read(vec![1, 0]), None);
    }
}
