//! The interface between a node's thread and the connections that it owns.
//!
//! A thread with connections sleeps in their poll and no longer on its inbox. The connections make calls, of their own
//! node or another, and take the outcomes.

use std::sync::Arc;
use std::time::Instant;

use anabranch_engine::{BlockId, Call, CallId, Outcome};
use anabranch_types::NodeId;
use anabranch_wire::{BackendKey, ErrorFields};
use mio::net::TcpStream;

use anabranch_engine::undeclared::{AcceptedShape, StatementEntry};
use anabranch_sql::change::Notice;

use crate::open_transactions::{Describe, TransactionRow};
use crate::ring_look::RingRows;

/// Connections of clients, owned by one node's thread.
pub(crate) trait Frontend: Send {
    /// Begins to work for a node's thread: before anything else, and again when another thread takes over.
    fn begin(&mut self);

    /// Waits for sockets until `until`; for none if that has passed, and without end if there is no such time.
    fn poll(&mut self, until: Option<Instant>);

    /// Handles what sockets have received, and what is due.
    fn turn(&mut self, now: Instant);

    /// Handles a note.
    fn note(&mut self, note: Note);

    /// Takes the outcome of one of its calls.
    fn complete(&mut self, outcome: Outcome);

    /// Moves its requests into `to`.
    fn take_requests(&mut self, to: &mut Vec<(NodeId, NodeRequest)>);

    /// Sends answers, as far as sockets take them.
    fn flush(&mut self);

    /// Whether it has something to do at once.
    fn is_busy(&self) -> bool;

    /// When its next timer is due.
    fn next_due(&self) -> Option<Instant>;
}

/// The result of a helper thread's work for a session, or why it is refused.
pub(crate) type JobResult = Result<JobDone, Box<ErrorFields>>;

/// What a helper thread has done for a session.
pub(crate) enum JobDone {
    /// It has analysed the statement, which can be called now.
    Analysed(Arc<StatementEntry>),
    /// It has analysed the statement, which changes the plan, and its client accepts that.
    Acceptable(Box<AcceptedShape>),
    /// It has done the whole statement: its command tag.
    Completed(&'static str),
    /// The schema has changed, or a transaction that has changed it has ended.
    Changed(Box<Changed>),
    /// The advisory lock is granted for which it waits.
    LockGranted,
    /// The rows that the statement reads are there.
    Gathered(Gathered),
}

/// Rows that a statement reads and a helper thread has gathered.
#[derive(Clone)]
pub(crate) enum Gathered {
    /// What all sessions have open.
    Transactions(Arc<Vec<TransactionRow>>),
    /// The ring that the database is in.
    Ring(Arc<RingRows>),
}

/// What the changer has done for a session.
pub(crate) struct Changed {
    /// Why it has not done what it was asked for, if it has not.
    pub(crate) refused: Option<Box<ErrorFields>>,
    pub(crate) notices: Vec<Notice>,
    /// Whether the session is alone now.
    pub(crate) is_exclusive: bool,
    /// Whether what the transaction had run is at its node still.
    pub(crate) keeps_part: bool,
}

impl Changed {
    /// Nothing was done yet.
    pub(crate) fn nothing() -> Changed {
        Changed {
            refused: None,
            notices: Vec::new(),
            is_exclusive: false,
            keeps_part: true,
        }
    }
}

/// A request of connections to a node.
#[derive(Debug)]
pub(crate) enum NodeRequest {
    /// Run this; the outcome comes back.
    Call(Call),
    /// Cancel this earlier call, if it has not ended.
    Cancel(CallId),
    /// End the attempt of this block, if no step of it is under way: its next step runs it again.
    Suspend(BlockId),
}

/// A connection, as other threads name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionId {
    /// The node whose thread has it.
    pub(crate) node: NodeId,
    /// Its number, unique in its thread.
    pub(crate) connection: u64,
    /// Its place among those of its thread.
    pub(crate) place: usize,
}

/// Something for the connections of a thread that comes from another thread.
pub(crate) enum Note {
    /// A new connection.
    Accepted(TcpStream),
    /// A client asks to cancel what the connection with this key runs.
    Cancel {
        /// The key.
        key: BackendKey,
        /// The connection that brought the request; it is open until the request is done.
        by: ConnectionId,
    },
    /// A cancel request is done: what comes later is not met by it.
    Cancelled {
        /// The connection's number, unique in its thread.
        connection: u64,
        /// Its place among them.
        place: usize,
    },
    /// A helper thread has done a connection's work.
    Done {
        /// The connection's number, unique in its thread.
        connection: u64,
        /// Its place among them.
        place: usize,
        /// What the session waits for.
        result: JobResult,
    },
    /// Notifications wait for a connection.
    Notified {
        /// The connection's number, unique in its thread.
        connection: u64,
        /// Its place among them.
        place: usize,
    },
    /// Transactions may begin again.
    Opened,
    /// What has each session open? The answer goes there.
    Describe(Describe),
    /// The server ends: connections are told and closed.
    ShutDown,
}

/// Sends notes to the connections of a node's thread.
pub(crate) trait Post: Send + Sync {
    /// Sends a note.
    fn post(&self, node: NodeId, note: Note);
}
