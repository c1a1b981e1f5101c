//! The connections that one node's thread owns: sockets, deadlines and the way between sessions and calls.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anabranch_engine::Outcome;
use anabranch_types::NodeId;
use anabranch_wire::BackendKey;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use rustc_hash::FxHashMap;

use super::environment::Environment;
use super::session::{Commit, Scope, Session, Unpublished};
use crate::frontend::{ConnectionId, Frontend, JobDone, JobResult, NodeRequest, Note, Post};
use crate::thread::CLIENT_BITS;

/// What a socket is read into.
const READ_BYTES: usize = 64 << 10;
/// The most bytes that are read of a connection in one turn, so that one client does not delay the others.
const READ_BYTES_A_TURN: usize = 1 << 20;

/// How long a statement runs on after its client has sent its last byte. The client may have closed its end of the
/// connection alone and wait for answers; but most often it has gone, and the statement may hold locks.
const GONE_AFTER: Duration = Duration::from_secs(1);

/// The token of what wakes the poll.
pub(crate) const WAKER: Token = Token(usize::MAX);

/// What a session of these connections can do beyond itself.
macro_rules! scope {
    ($connections:ident, $number:expr, $place:expr) => {
        Scope {
            node: $connections.node,
            connection: $number,
            place: $place,
            now: Instant::now(),
            requests: &mut $connections.requests,
            calls: &mut $connections.calls,
            next_call: &mut $connections.next_call,
            post: $connections.post.as_ref(),
        }
    };
}

/// The connections that one node's thread owns.
pub(crate) struct Connections {
    node: NodeId,
    environment: Arc<Environment>,
    post: Option<Arc<dyn Post>>,
    poll: Poll,
    events: Events,
    /// The connections, by place.
    open: Vec<Option<Open>>,
    free: Vec<usize>,
    /// The places of connections that may have something to do, each once.
    active: Vec<usize>,
    /// The places whose answers are to be sent.
    touched: Vec<usize>,
    /// When something is due at a place.
    deadlines: BTreeSet<(Instant, usize)>,
    /// The place of the connection that waits for a call. A call of a connection that is closed has none.
    calls: FxHashMap<u64, usize>,
    /// The notifications of transactions whose commits are under way, and whose connections have ended.
    unpublished: Vec<(u64, Unpublished)>,
    requests: Vec<(NodeId, NodeRequest)>,
    next_call: u64,
    next_connection: u64,
    buffer: Box<[u8]>,
    /// Whether the server shuts down.
    shut_down: bool,
}

/// An open connection.
struct Open {
    socket: TcpStream,
    session: Session,
    /// Its number, never used again.
    number: u64,
    /// Whether the socket may have something to read; the poll tells of a change only.
    readable: bool,
    /// Whether the poll has told of the client's last byte, which it does once, perhaps together with bytes before it.
    is_cut: bool,
    writable: bool,
    /// Whether the client has sent its last byte.
    ended: bool,
    /// When its statement is given up, if that runs and the client has sent its last byte.
    gone_at: Option<Instant>,
    is_active: bool,
    deadline: Option<Instant>,
}

impl Connections {
    /// No connections, for the thread of this node.
    pub(crate) fn new(node: NodeId, environment: Arc<Environment>, poll: Poll) -> Connections {
        Connections {
            node,
            environment,
            post: None,
            poll,
            events: Events::with_capacity(256),
            open: Vec::new(),
            free: Vec::new(),
            active: Vec::new(),
            touched: Vec::new(),
            deadlines: BTreeSet::new(),
            calls: FxHashMap::default(),
            unpublished: Vec::new(),
            requests: Vec::new(),
            next_call: 0,
            next_connection: 0,
            buffer: vec![0; READ_BYTES].into(),
            shut_down: false,
        }
    }

    /// Goes on under the environment of all.
    fn adopt_common(&mut self) {
        let Some(common) = self.environment.shared.common() else {
            return;
        };
        for open in self.open.iter_mut().flatten() {
            open.session.adopt(&common);
        }
        self.environment = common;
    }

    fn accept(&mut self, mut socket: TcpStream) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self
            .poll
            .registry()
            .register(&mut socket, Token(place), interest);
        self.next_connection += 1;
        let key = self.environment.new_key(self.node, place);
        let (Ok(()), Ok(key)) = (registered, key) else {
            // Without a place in the poll or a secret the client cannot be served: it sees the connection close.
            self.free.push(place);
            self.environment
                .shared
                .connections
                .fetch_sub(1, Ordering::Relaxed);
            return;
        };
        let peer = socket.peer_addr().ok();
        let connection = ConnectionId {
            node: self.node,
            connection: self.next_connection,
            place,
        };
        let environment = Arc::clone(&self.environment);
        let mut session = Session::new(environment, (key, connection), peer, Instant::now());
        if self.shut_down {
            session.shut_down(&mut scope!(self, self.next_connection, place));
        }
        self.open[place] = Some(Open {
            socket,
            session,
            number: self.next_connection,
            readable: true,
            is_cut: false,
            writable: true,
            ended: false,
            gone_at: None,
            is_active: false,
            deadline: None,
        });
        self.activate(place);
    }

    /// Has the connection at a place looked at in the next turn.
    fn activate(&mut self, place: usize) {
        if let Some(Some(open)) = self.open.get_mut(place)
            && !open.is_active
        {
            open.is_active = true;
            self.active.push(place);
        }
    }

    /// Reads what the client has sent, as long as its session takes it.
    fn read(&mut self, place: usize) {
        let Some(Some(open)) = self.open.get_mut(place) else {
            return;
        };
        let mut taken = 0;
        while open.readable && open.session.takes_input() && taken < READ_BYTES_A_TURN {
            match open.socket.read(&mut self.buffer) {
                Ok(0) => {
                    open.ended = true;
                    open.gone_at = Some(Instant::now() + GONE_AFTER);
                    open.readable = false;
                }
                Ok(count) => {
                    open.session.receive(&self.buffer[..count]);
                    taken += count;
                    // A short read has emptied the socket: the poll tells of what comes next, unless it has told already.
                    open.readable = count == self.buffer.len() || open.is_cut;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => open.readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.close(place);
                    return;
                }
            }
        }
    }

    /// Has a session handle what it has received.
    fn advance(&mut self, place: usize) {
        self.read(place);
        let Some(Some(open)) = self.open.get_mut(place) else {
            return;
        };
        let number = open.number;
        open.session.advance(&mut scope!(self, number, place));
        self.set_deadline(place);
    }

    fn run_active(&mut self) {
        let mut active = std::mem::take(&mut self.active);
        for place in active.drain(..) {
            if let Some(Some(open)) = self.open.get_mut(place) {
                open.is_active = false;
            }
            self.advance(place);
            self.touched.push(place);
        }
        // What has become active meanwhile waits for the next turn.
        active.append(&mut self.active);
        self.active = active;
    }

    fn set_deadline(&mut self, place: usize) {
        let Some(Some(open)) = self.open.get_mut(place) else {
            return;
        };
        let next = open
            .session
            .deadline()
            .into_iter()
            .chain(open.gone_at)
            .min();
        if next != open.deadline {
            if let Some(before) = std::mem::replace(&mut open.deadline, next) {
                self.deadlines.remove(&(before, place));
            }
            self.deadlines.extend(next.map(|at| (at, place)));
        }
    }

    /// Sends a connection's answers, and closes it if it has ended.
    fn write(&mut self, place: usize) {
        let Some(Some(open)) = self.open.get_mut(place) else {
            return;
        };
        while open.writable && open.session.has_answer() {
            match open.socket.write(open.session.output()) {
                Ok(0) => open.writable = false,
                Ok(count) => open.session.sent(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => open.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.close(place);
                    return;
                }
            }
        }
        let is_sent = open.session.output().is_empty();
        let awaits = open.session.is_idle() || open.session.awaits_data();
        let is_over = open.session.is_closing() || (open.ended && awaits);
        if is_over && (is_sent || !open.session.has_answer()) {
            self.close(place);
        } else if open.session.can_go_on() || (open.readable && open.session.takes_input()) {
            self.activate(place);
        }
    }

    fn close(&mut self, place: usize) {
        let Some(mut open) = self.open.get_mut(place).and_then(Option::take) else {
            return;
        };
        let number = open.number;
        let unpublished = open.session.abandon(&mut scope!(self, number, place));
        self.unpublished.extend(unpublished.map(|it| (number, it)));
        if let Some(deadline) = open.deadline {
            self.deadlines.remove(&(deadline, place));
        }
        self.active.retain(|active| *active != place);
        // The client may have closed it already.
        let _ = self.poll.registry().deregister(&mut open.socket);
        let _ = open.socket.shutdown(Shutdown::Both);
        self.free.push(place);
        self.environment
            .shared
            .connections
            .fetch_sub(1, Ordering::Relaxed);
    }

    /// Publishes the notifications of a transaction whose connection has ended, if it has committed.
    fn publish(&mut self, is_of: impl Fn(u64, Commit) -> bool, has_committed: bool) {
        let mut all = self.unpublished.iter();
        let Some(place) = all.position(|(connection, it)| is_of(*connection, it.commit)) else {
            return;
        };
        let (_, unpublished) = self.unpublished.swap_remove(place);
        if has_committed {
            let shared = &self.environment.shared;
            shared.publish(unpublished.process, &unpublished.notifications);
        }
    }

    /// Cancels what the connection with this key runs. A key that fits none does nothing, as in PostgreSQL.
    fn cancel(&mut self, key: &BackendKey, by: ConnectionId) {
        self.cancel_session(key);
        if let Some(post) = &self.post {
            let ConnectionId {
                node,
                connection,
                place,
            } = by;
            post.post(node, Note::Cancelled { connection, place });
        }
    }

    fn cancel_session(&mut self, key: &BackendKey) {
        let place = self.environment.place(key);
        let Some(Some(open)) = self.open.get_mut(place) else {
            return;
        };
        if open.session.has_key(key) {
            let number = open.number;
            open.session.cancel(&mut scope!(self, number, place));
            self.activate(place);
        }
    }

    fn expire(&mut self, now: Instant) {
        while let Some((at, place)) = self.deadlines.first().copied()
            && at <= now
        {
            self.deadlines.pop_first();
            let Some(Some(open)) = self.open.get_mut(place) else {
                continue;
            };
            open.deadline = None;
            if open.gone_at.is_some_and(|at| at <= now) {
                if open.session.is_running() {
                    self.close(place);
                    continue;
                }
                // What has been computed is sent, however slowly it is read.
                open.gone_at = Some(now + GONE_AFTER);
            }
            if open.session.deadline().is_some_and(|at| at <= now) {
                let number = open.number;
                open.session.expire(&mut scope!(self, number, place));
            }
            self.activate(place);
            self.set_deadline(place);
        }
    }
}

impl Frontend for Connections {
    fn begin(&mut self) {
        let shared = Arc::clone(&self.environment.shared);
        self.post = Some(Arc::clone(&shared.post) as Arc<dyn Post>);
        let Some(common) = shared.common() else {
            return;
        };
        let exclusive = shared.exclusive();
        for open in self.open.iter_mut().flatten() {
            let own = exclusive
                .as_ref()
                .filter(|(client, _)| client.node == self.node && client.connection == open.number);
            open.session.adopt(own.map_or(&common, |(_, own)| own));
        }
        self.environment = common;
    }

    fn poll(&mut self, until: Option<Instant>) {
        let wait = until.map(|until| until.saturating_duration_since(Instant::now()));
        // An interrupted wait is one without events.
        if self.poll.poll(&mut self.events, wait).is_err() {
            return;
        }
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        for event in &events {
            let place = event.token().0;
            let Some(Some(open)) = self.open.get_mut(place) else {
                continue;
            };
            open.is_cut |= event.is_read_closed() || event.is_error();
            open.readable |= event.is_readable() || open.is_cut;
            open.writable |= event.is_writable();
            self.activate(place);
        }
        events.clear();
        self.events = events;
    }

    fn turn(&mut self, now: Instant) {
        self.expire(now);
        self.run_active();
    }

    fn note(&mut self, note: Note) {
        match note {
            Note::Accepted(socket) => self.accept(socket),
            Note::Cancel { key, by } => self.cancel(&key, by),
            Note::Cancelled { connection, place } => {
                if let Some(Some(open)) = self.open.get_mut(place)
                    && open.number == connection
                {
                    open.session.cancel_done();
                    self.activate(place);
                }
            }
            Note::Done {
                connection,
                place,
                result,
            } => {
                let is_of = |of: u64, commit| of == connection && commit == Commit::Change;
                self.publish(is_of, has_changed(&result));
                let Some(Some(open)) = self.open.get_mut(place) else {
                    return;
                };
                if open.number == connection {
                    open.session
                        .job_done(result, &mut scope!(self, connection, place));
                    self.activate(place);
                }
            }
            Note::Notified { connection, place } => {
                if let Some(Some(open)) = self.open.get_mut(place)
                    && open.number == connection
                {
                    open.session.notified();
                    self.activate(place);
                }
            }
            Note::Opened => {
                self.adopt_common();
                for place in 0..self.open.len() {
                    if let Some(Some(open)) = self.open.get_mut(place) {
                        let number = open.number;
                        open.session.gate_opened(&mut scope!(self, number, place));
                        self.activate(place);
                    }
                }
            }
            Note::Describe(answer) => {
                let open = self.open.iter().flatten();
                let described = open.filter_map(|open| open.session.open_transaction());
                // It has waited for too long if nothing takes the answer.
                let _ = answer.send(described.collect());
            }
            Note::ShutDown => {
                self.shut_down = true;
                for place in 0..self.open.len() {
                    if let Some(Some(open)) = self.open.get_mut(place) {
                        let number = open.number;
                        open.session.shut_down(&mut scope!(self, number, place));
                        self.activate(place);
                    }
                }
            }
        }
    }

    fn complete(&mut self, outcome: Outcome) {
        let id = outcome.id;
        self.publish(
            |_, commit| commit == Commit::Call(id),
            outcome.result.is_ok(),
        );
        let number = outcome.id.0 & (u64::MAX >> CLIENT_BITS);
        // A connection that has closed takes no outcome.
        let Some(place) = self.calls.remove(&number) else {
            return;
        };
        if let Some(Some(open)) = self.open.get_mut(place) {
            let connection = open.number;
            open.session
                .complete(outcome, &mut scope!(self, connection, place));
            self.activate(place);
        }
    }

    fn take_requests(&mut self, to: &mut Vec<(NodeId, NodeRequest)>) {
        to.append(&mut self.requests);
    }

    fn flush(&mut self) {
        // What outcomes have woken answers in the same turn.
        self.run_active();
        let mut touched = std::mem::take(&mut self.touched);
        for place in touched.drain(..) {
            self.write(place);
        }
        self.touched = touched;
    }

    fn is_busy(&self) -> bool {
        !self.active.is_empty()
    }

    fn next_due(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }
}

/// Whether the thread that changes the schema has done what it was asked for.
fn has_changed(result: &JobResult) -> bool {
    matches!(result, Ok(JobDone::Changed(changed)) if changed.refused.is_none())
}
