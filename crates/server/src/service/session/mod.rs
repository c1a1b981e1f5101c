//! A connection's session: what a client's requests mean, and what is answered.
//!
//! A session has no socket. It takes bytes, makes calls of nodes through its [`Scope`], takes their outcomes, and has
//! bytes to send. It handles one request at a time: while a call is under way, requests wait.
//!
//! A statement by itself is one transaction. Several are one in a [`block`]: between BEGIN and COMMIT, in one text, and in
//! one pipeline up to its Sync.

mod answer;
mod block;
mod change;
mod copy;
mod cursor;
mod describe;
mod explain;
mod extended;
mod locks;
mod notify;
mod run;
mod simple;
mod statements;
mod utility;
mod values;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anabranch_engine::{BlockId, Call, CallId, Outcome};
use anabranch_sql::client::ClientStatement;
use anabranch_sql::sequence::SessionSequences;
use anabranch_types::{NodeId, Value};
use anabranch_wire::{BackendKey, Connection, ErrorFields, Limits, Names, Request, Startup};
use rustc_hash::FxHashMap;

use super::changes::ClientState;
use super::environment::{Environment, now_micros};
use super::errors::{error, error_with_hint};
use super::gate::Permit;
use super::options::{DATABASE, Guarantee};
use super::prepared::Prepared;
use super::settings::{Identity, Settings};
use crate::frontend::{ConnectionId, Gathered, JobDone, JobResult, NodeRequest, Note, Post};
use crate::open_transactions::TransactionRow;
use crate::ring_look::RingRows;
use crate::thread::CLIENT_BITS;
use answer::Sending;
use block::{Block, Control};
use change::{Accepting, Finishing, Waiting};
use copy::CopyIn;
use cursor::SqlCursor;
use extended::Portal;
use locks::SessionLocks;
use notify::Listening;
use run::Run;

pub(crate) use notify::{Commit, Unpublished};

/// What a session can do beyond itself.
pub(crate) struct Scope<'s> {
    /// The node whose thread has the connection.
    pub(crate) node: NodeId,
    /// The connection's number.
    pub(crate) connection: u64,
    /// Its place among those of its thread.
    pub(crate) place: usize,
    pub(crate) now: Instant,
    pub(crate) requests: &'s mut Vec<(NodeId, NodeRequest)>,
    /// The place of the connection that waits for a call.
    pub(crate) calls: &'s mut FxHashMap<u64, usize>,
    pub(crate) next_call: &'s mut u64,
    /// The way for other threads to answer; there once the thread runs.
    pub(crate) post: Option<&'s Arc<dyn Post>>,
}

impl Scope<'_> {
    /// The connection, as other threads name it.
    fn id(&self) -> ConnectionId {
        ConnectionId {
            node: self.node,
            connection: self.connection,
            place: self.place,
        }
    }

    /// Makes a call at a node; the outcome comes to [`Session::complete`].
    fn call(&mut self, node: NodeId, make: impl FnOnce(CallId) -> Call) -> PendingCall {
        let id = CallId(self.next_id());
        self.calls.insert(*self.next_call, self.place);
        self.requests.push((node, NodeRequest::Call(make(id))));
        PendingCall {
            id,
            node,
            since: now_micros(),
        }
    }

    /// A call whose outcome nothing waits for.
    fn unanswered_call(&mut self, make: impl FnOnce(CallId) -> Call) -> Call {
        make(CallId(self.next_id()))
    }

    /// A number that no other call or block of any connection has.
    fn next_id(&mut self) -> u64 {
        *self.next_call += 1;
        u64::from(self.node.0) << (64 - CLIENT_BITS) | *self.next_call
    }
}

/// A call under way.
#[derive(Clone, Copy, Debug)]
struct PendingCall {
    id: CallId,
    node: NodeId,
    /// When it was made, in microseconds since 2000-01-01 UTC.
    since: i64,
}

/// A client's session.
pub(crate) struct Session {
    wire: Connection,
    environment: Arc<Environment>,
    key: BackendKey,
    /// The client's address.
    peer: Option<SocketAddr>,
    state: State,
    settings: Settings,
    statements: Names<Arc<Prepared>>,
    portals: Names<Portal>,
    /// The statements of the text that is being run, which are still to come; `None` outside of a simple query.
    batch: Option<Batch>,
    /// The transaction that is open.
    block: Option<Box<Block>>,
    /// The open cursors, in the order in which they were declared.
    cursors: Vec<SqlCursor>,
    /// The number of the last one.
    next_cursor: u64,
    /// Blocks that their nodes have to end without effects.
    rolled_back: Vec<(NodeId, BlockId)>,
    /// Whether a Sync waits for its transaction to be committed.
    syncs: bool,
    /// Whether what has been answered is to be sent, though no Sync has come.
    flushes: bool,
    /// When the statement that runs is cancelled.
    deadline: Option<Instant>,
    /// Why the statement that runs is being cancelled.
    cancelled: Option<Box<ErrorFields>>,
    /// Whether the server shuts down.
    ending: bool,
    /// Its name for other threads.
    connection: ConnectionId,
    locks: SessionLocks,
    listening: Listening,
    /// What it has drawn from sequences.
    sequences: Arc<SessionSequences>,
    /// The values of the connection for the statement that runs, as far as they are there.
    hidden: Vec<Value>,
    /// What all sessions have open, for the statement that runs, if it reads that.
    gathered: Option<Arc<Vec<TransactionRow>>>,
    /// The ring that the database is in, for the statement that runs, if it reads that.
    ring_rows: Option<Arc<RingRows>>,
    /// The right to have a transaction at a node.
    permit: Option<Permit>,
    /// What the changer is told while it works for the session.
    change: Option<Arc<ClientState>>,
    /// The statement that runs, if the plan changes for it.
    accepting: Option<Accepting>,
    /// Whether a helper thread makes a backup for it, and keeps the schema from changing.
    backs_up: bool,
    /// A COPY of which a part is being written.
    copying: Option<Box<CopyIn>>,
    /// The rows of its parts so far.
    copied: u64,
    /// The end, under way, of a transaction that has changed the schema.
    finishing: Option<Finishing>,
}

/// The statements of a simple query.
struct Batch {
    /// The text that places are counted in.
    text: Arc<str>,
    items: VecDeque<BatchItem>,
}

/// A statement of a simple query.
enum BatchItem {
    Parsed(ClientStatement),
    /// One that has been compiled before.
    Prepared(Arc<Prepared>),
}

/// What a session does.
enum State {
    /// The client has to be let in until this time.
    Starting { until: Instant },
    /// It waits for a request.
    Idle,
    /// A call is under way.
    Calling { call: PendingCall, awaited: Awaited },
    /// A helper thread works for it.
    Working { run: Box<Run> },
    /// Another transaction changes the schema. This goes on when it has ended.
    Waiting(Box<Waiting>),
    /// The data of a COPY is coming in.
    CopyingIn(Box<CopyIn>),
    /// Rows are being sent.
    Sending(Box<Sending>),
    /// The cancel request that it has brought is under way. The client waits for the end of the connection, so that the
    /// cancel does not meet its next statement.
    Cancelling,
    /// It has ended.
    Ended,
}

/// What a call is made for.
enum Awaited {
    Statement(Box<Run>),
    Control(Box<Control>),
}

impl Session {
    /// The session of a connection that was just opened.
    pub(crate) fn new(
        environment: Arc<Environment>,
        (key, connection): (BackendKey, ConnectionId),
        peer: Option<SocketAddr>,
        now: Instant,
    ) -> Session {
        let options = environment.options;
        let limits = Limits {
            startup_bytes_max: options.startup_message_bytes_max,
            message_bytes_max: options.message_bytes_max,
        };
        Session {
            wire: Connection::new(limits),
            key,
            peer,
            state: State::Starting {
                until: now + options.startup_timeout,
            },
            settings: Settings::new(identity(&environment, String::new())),
            statements: Names::statements(options.prepared_statements_max),
            portals: Names::portals(options.portals_max),
            batch: None,
            block: None,
            cursors: Vec::new(),
            next_cursor: 0,
            rolled_back: Vec::new(),
            syncs: false,
            flushes: false,
            deadline: None,
            cancelled: None,
            ending: false,
            connection,
            locks: SessionLocks::default(),
            listening: Listening::default(),
            sequences: Arc::default(),
            hidden: Vec::new(),
            gathered: None,
            ring_rows: None,
            permit: None,
            change: None,
            accepting: None,
            backs_up: false,
            copying: None,
            copied: 0,
            finishing: None,
            environment,
        }
    }

    /// Whether a client that has sent this key may cancel what the session runs.
    pub(crate) fn has_key(&self, given: &BackendKey) -> bool {
        self.key.matches(given, self.wire.minor_version())
    }

    /// Whether it takes more input: not while it has much to send or much to handle.
    pub(crate) fn takes_input(&self) -> bool {
        let max = self.environment.options.output_bytes_max;
        self.wire.output().len() < max && !self.is_closing() && self.wire.wants_input()
    }

    /// Takes bytes from the client.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.wire.receive(bytes);
    }

    /// The bytes to send.
    pub(crate) fn output(&self) -> &[u8] {
        self.wire.output()
    }

    /// Whether the bytes to send should leave now. Answers to the parts of a pipeline leave together.
    pub(crate) fn has_answer(&self) -> bool {
        const PACKET_BYTES: usize = 8 << 10;
        let waiting = self.wire.output().len();
        let is_awaited = self.flushes || matches!(self.state, State::Starting { .. });
        waiting > 0 && (is_awaited || self.is_closing() || waiting >= PACKET_BYTES)
    }

    /// Notes that bytes were sent.
    pub(crate) fn sent(&mut self, count: usize) {
        self.wire.sent(count);
        if matches!(self.state, State::Sending(_)) && self.is_exclusive() {
            self.deadline = self.idle_deadline(Instant::now());
        }
        self.flushes &= !self.wire.output().is_empty();
    }

    /// Whether the connection is to be closed when its output is sent.
    pub(crate) fn is_closing(&self) -> bool {
        match self.state {
            State::Ended => true,
            State::Cancelling => false,
            _ => self.wire.is_closing(),
        }
    }

    /// Whether a statement runs.
    pub(crate) fn is_running(&self) -> bool {
        matches!(
            self.state,
            State::Calling { .. } | State::Working { .. } | State::Waiting(_)
        )
    }

    /// Whether it can go on only with more of a COPY's data.
    pub(crate) fn awaits_data(&self) -> bool {
        matches!(self.state, State::CopyingIn(_))
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(
            self.state,
            State::Idle | State::Starting { .. } | State::Ended
        ) && self.batch.is_none()
            && !self.syncs
            && self.finishing.is_none()
    }

    /// Whether it stopped because too much was waiting to be sent, and can go on.
    pub(crate) fn can_go_on(&self) -> bool {
        let has_room = self.wire.output().len() < self.environment.options.output_bytes_max;
        has_room && (matches!(self.state, State::Sending(_)) || self.listening.is_held)
    }

    /// When something is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Starting { until } => Some(until),
            _ => self.deadline,
        }
    }

    /// Handles what has been received, as far as it does not wait.
    pub(crate) fn advance(&mut self, scope: &mut Scope<'_>) {
        self.run_on(scope);
        self.leave_gate();
        self.send_rollbacks(scope);
        self.send_finish(scope);
    }

    fn run_on(&mut self, scope: &mut Scope<'_>) {
        loop {
            if self.finishing.is_some() {
                return;
            }
            match &mut self.state {
                State::Ended
                | State::Cancelling
                | State::Calling { .. }
                | State::Waiting(_)
                | State::Working { .. } => return,
                State::Sending(_) => {
                    if !self.send_rows() {
                        return;
                    }
                }
                State::CopyingIn(_) => {
                    if !self.copy_more(scope) {
                        return;
                    }
                }
                State::Starting { .. } | State::Idle => {
                    if self.syncs {
                        if !self.send_notifications() {
                            return;
                        }
                        self.end_sync();
                        continue;
                    }
                    if self.batch.is_some() {
                        if !self.next_of_batch(scope) {
                            return;
                        }
                        continue;
                    }
                    if self.ending {
                        self.terminate(shut_down_message());
                        return;
                    }
                    if !self.take_note(scope) {
                        return;
                    }
                    if self.wire.output().len() >= self.environment.options.output_bytes_max {
                        return;
                    }
                    let request = self.wire.next_request();
                    // A message that was refused is answered already, and its client waits for that.
                    if self.wire.take_refused() {
                        self.flushes = true;
                        self.fail_block("08P01");
                    }
                    match request {
                        Some(request) => self.handle(request, scope),
                        None => return,
                    }
                }
            }
        }
    }

    fn handle(&mut self, request: Request, scope: &mut Scope<'_>) {
        self.listening.is_ready = false;
        let Some(request) = self.admit_request(request, scope) else {
            return;
        };
        match request {
            Request::Start(startup) => self.start(startup),
            Request::Cancel(key) => {
                self.state = State::Ended;
                if let (Some(owner), Some(post)) = (self.environment.owner(&key), scope.post) {
                    post.post(
                        owner,
                        Note::Cancel {
                            key,
                            by: scope.id(),
                        },
                    );
                    self.state = State::Cancelling;
                }
            }
            Request::Terminate => self.state = State::Ended,
            Request::Query { text } => self.simple_query(&text),
            Request::Sync => {
                self.syncs = true;
                if self.in_implicit_block() {
                    self.commit(None, "COMMIT", false, scope);
                }
            }
            Request::Flush => self.flushes = true,
            extended => {
                if let Err(fields) = self.extended(extended, scope) {
                    self.fail(&fields);
                }
            }
        }
    }

    /// Lets a client in, or refuses it.
    fn start(&mut self, startup: Startup) {
        let options = &self.environment.options;
        let open = self.environment.shared.connections.load(Ordering::Relaxed);
        if open > options.connections_max {
            return self.terminate(error("53300", "sorry, too many clients already"));
        }
        if startup.database != DATABASE {
            let message = format!("database \"{}\" does not exist", startup.database);
            let hint = format!("The database of this server is called \"{DATABASE}\".");
            return self.terminate(error_with_hint("3D000", message, hint));
        }
        if startup.parameters.iter().any(|(name, value)| {
            name == "replication" && !["false", "off", "no", "0"].contains(&value.as_str())
        }) {
            return self.terminate(error("0A000", "replication connections are not supported"));
        }
        self.settings = Settings::new(identity(&self.environment, startup.user));
        if let Err(fields) = self.settings.start(&startup.parameters) {
            return self.terminate(fields);
        }
        let reported = self.settings.reported();
        let reported: Vec<(&str, &str)> = reported
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        self.wire.accept(&reported, &self.key);
        self.state = State::Idle;
        self.ready();
    }

    /// Ends a pipeline.
    fn end_sync(&mut self) {
        self.syncs = false;
        if self.block.is_none() {
            self.portals.clear();
        }
        self.ready();
    }

    /// Tells the client that the next request is awaited.
    fn ready(&mut self) {
        self.wire.ready(self.transaction_status());
        self.listening.is_ready = true;
        self.flushes = true;
        self.deadline = self.idle_deadline(Instant::now());
    }

    /// Tells the client of an error, which ends the rest of its text or pipeline.
    fn fail(&mut self, fields: &ErrorFields) {
        self.wire.error(fields);
        self.copying = None;
        self.copied = 0;
        self.end_statement();
        self.fail_block(fields.code);
        if let Some(batch) = &mut self.batch {
            batch.items.clear();
        }
    }

    /// Notes that a statement has ended.
    fn end_statement(&mut self) {
        if !matches!(self.state, State::Ended) {
            self.state = State::Idle;
        }
        // Others wait for a client that runs alone, whether or not it is told that the next request is awaited.
        self.deadline = match self.is_exclusive() {
            true => self.idle_deadline(Instant::now()),
            false => None,
        };
        self.cancelled = None;
        self.accepting = None;
        self.backs_up = false;
        self.hidden.clear();
        self.gathered = None;
        self.ring_rows = None;
        if self.block.is_none() {
            self.release_locks_after(0);
        }
    }

    /// Tells the client why the connection ends.
    fn terminate(&mut self, fields: Box<ErrorFields>) {
        self.wire.fatal(&fields);
        self.state = State::Ended;
    }

    /// Takes the outcome of its call.
    pub(crate) fn complete(&mut self, outcome: Outcome, scope: &mut Scope<'_>) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Calling { call, awaited } if call.id == outcome.id => {
                let taken = match awaited {
                    Awaited::Statement(run) => {
                        let called = self.called(*run, outcome);
                        if called.is_ok() && self.copying.is_some() {
                            self.commit_copied(scope);
                        }
                        called
                    }
                    Awaited::Control(control) => self.controlled(*control, outcome, scope),
                };
                if let Err(fields) = taken {
                    self.fail(&fields);
                }
            }
            other => self.state = other,
        }
    }

    /// Takes the result of a helper thread's work.
    pub(crate) fn job_done(&mut self, result: JobResult, scope: &mut Scope<'_>) {
        if let Some(Finishing { control, .. }) = self.finishing.take() {
            let refused = match result {
                Ok(JobDone::Changed(changed)) => changed.refused,
                Ok(_) => None,
                Err(fields) => Some(fields),
            };
            self.finished_change(control, refused, scope);
            return;
        }
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Working { run } if self.change.is_some() => {
                let done = match result {
                    Ok(JobDone::Changed(changed)) if run.prepared.change_tag().is_none() => {
                        self.admitted_alone(*run, *changed, scope)
                    }
                    Ok(JobDone::Changed(changed)) => self.changed(&run, *changed, scope),
                    Ok(_) => Ok(()),
                    Err(fields) => Err(fields),
                };
                if let Err(fields) = done {
                    self.fail(&fields);
                }
            }
            State::Working { run } => {
                self.lock_granted();
                let done = match (self.cancelled.take(), result) {
                    (Some(fields), _) | (None, Err(fields)) => Err(fields),
                    (None, Ok(JobDone::Analysed(entry))) => self.analysed(*run, entry, scope),
                    (None, Ok(JobDone::Acceptable(shape))) => self.accept_plan(*shape, *run, scope),
                    (None, Ok(JobDone::Completed(tag))) => {
                        self.complete_without_rows(&run.destination, tag);
                        Ok(())
                    }
                    (None, Ok(JobDone::Gathered(rows))) => {
                        match rows {
                            Gathered::Transactions(rows) => self.gathered = Some(rows),
                            Gathered::Ring(rows) => self.ring_rows = Some(rows),
                        }
                        self.run(*run, scope)
                    }
                    (None, Ok(JobDone::LockGranted)) => {
                        self.hidden.push(Value::text(""));
                        self.run(*run, scope)
                    }
                    (None, Ok(JobDone::Changed(_))) => Ok(()),
                };
                if let Err(fields) = done {
                    self.fail(&fields);
                }
            }
            other => self.state = other,
        }
    }

    /// Ends the connection of a cancel request that is done.
    pub(crate) fn cancel_done(&mut self) {
        if matches!(self.state, State::Cancelling) {
            self.state = State::Ended;
        }
    }

    /// Cancels what runs, at the client's request.
    pub(crate) fn cancel(&mut self, scope: &mut Scope<'_>) {
        let message = "canceling statement due to user request";
        self.cancel_by(error("57014", message), scope);
    }

    /// Cancels what runs; the client is told this instead of its result, unless it has committed.
    fn cancel_by(&mut self, fields: Box<ErrorFields>, scope: &mut Scope<'_>) {
        if self.locks.waits() && self.stop_waiting_for_lock() {
            return self.fail(&fields);
        }
        match &self.state {
            State::Calling { call, .. } => {
                scope
                    .requests
                    .push((call.node, NodeRequest::Cancel(call.id)));
                self.cancelled = Some(fields);
            }
            State::Working { .. } => {
                self.cancelled = Some(fields);
                if let Some(client_state) = &self.change {
                    client_state.cancel();
                    self.environment.shared.gate.notify();
                }
            }
            State::Waiting(_) => self.stop_waiting(&fields),
            State::CopyingIn(_) => self.fail(&fields),
            // Rows that are being sent belong to a transaction that has ended.
            _ => {}
        }
    }

    /// Handles a deadline that has passed.
    pub(crate) fn expire(&mut self, scope: &mut Scope<'_>) {
        match self.state {
            // PostgreSQL closes without a word, too: the client has not begun to speak.
            State::Starting { .. } => self.state = State::Ended,
            State::Idle | State::Sending(_) if self.is_exclusive() => {
                let message = "terminating connection due to idle-in-transaction timeout";
                self.roll_back(false, scope);
                self.terminate(error("25P03", message));
            }
            State::Idle if self.in_explicit_block() && self.batch.is_none() => {
                let message = "terminating connection due to idle-in-transaction timeout";
                self.terminate(error("25P03", message));
            }
            State::Working { .. } if self.locks.is_timed_out(scope.now) => {
                self.deadline = None;
                let message = "canceling statement due to lock timeout";
                self.cancel_by(error("55P03", message), scope);
            }
            State::Waiting(_) if self.lock_timeout_is_first() => {
                self.deadline = None;
                let message = "canceling statement due to lock timeout";
                self.cancel_by(error("55P03", message), scope);
            }
            _ => {
                self.deadline = None;
                let message = "canceling statement due to statement timeout";
                self.cancel_by(error("57014", message), scope);
            }
        }
    }

    /// Ends the session as soon as what runs has been cancelled or has ended.
    pub(crate) fn shut_down(&mut self, scope: &mut Scope<'_>) {
        self.ending = true;
        if let Some(batch) = &mut self.batch {
            batch.items.clear();
        }
        self.cancel_by(shut_down_message(), scope);
    }

    /// Releases what the session holds when its connection has gone. Returns the notifications of a transaction whose commit
    /// is under way.
    pub(crate) fn abandon(&mut self, scope: &mut Scope<'_>) -> Option<Unpublished> {
        let unpublished = self.unpublished();
        self.abandon_channels();
        self.cancel(scope);
        if self.change.is_some() || self.is_exclusive() || self.finishing.is_some() {
            self.give_up_change(scope.id());
        }
        self.abandon_block();
        self.abandon_locks();
        self.send_rollbacks(scope);
        self.permit = None;
        self.state = State::Ended;
        unpublished
    }
}

fn identity(environment: &Environment, user: String) -> Identity {
    Identity {
        user,
        database: DATABASE.to_owned(),
        connections_max: environment.options.connections_max,
        port: environment.options.listen.port(),
        isolation: match environment.guarantee {
            Guarantee::Serializable => "serializable",
            Guarantee::Invariants => "read committed",
        },
    }
}

fn shut_down_message() -> Box<ErrorFields> {
    error(
        "57P01",
        "terminating connection due to administrator command",
    )
}
