//! Requests of sessions to the thread that changes the schema and the plan ([`super::exclusive`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Instant;

use anabranch_engine::BlockId;
use anabranch_engine::undeclared::AcceptedShape;
use anabranch_sql::change::{ChangeSettings, ChangeStatement};
use anabranch_types::NodeId;
use anabranch_wire::ErrorFields;

use super::errors::error;
use super::gate::Gate;
use crate::frontend::ConnectionId;

/// Requests to the changer.
#[derive(Clone)]
pub(crate) struct ChangeQueue {
    requests: std::sync::mpsc::Sender<ChangeRequest>,
}

impl ChangeQueue {
    /// A queue, and its end for the changer.
    pub(crate) fn new() -> (ChangeQueue, Receiver<ChangeRequest>) {
        let (requests, received) = std::sync::mpsc::channel();
        (ChangeQueue { requests }, received)
    }

    /// Queues a request; returns whether the changer runs.
    pub(crate) fn push(&self, gate: &Gate, request: ChangeRequest) -> bool {
        let is_taken = self.requests.send(request).is_ok();
        // It may wait for the gate.
        gate.notify();
        is_taken
    }
}

/// What a session asks of the changer.
pub(crate) enum ChangeRequest {
    /// To change the schema. The answer is a [`crate::frontend::Note::Done`].
    Change(Box<ChangeWork>),
    /// To keep rows as they are now, so that a rollback can put them back; of one table, or of all.
    Keep {
        /// Its connection.
        client: ConnectionId,
        table: Option<String>,
    },
    /// To end the transaction that changes the schema.
    Finish {
        /// Its connection.
        client: ConnectionId,
        /// Whether it commits.
        commits: bool,
        /// Whether the connection waits for an answer.
        is_awaited: bool,
    },
    /// To end, after which the nodes may be stopped.
    End(SyncSender<()>),
}

/// A change of the plan for the schema as it is.
#[derive(Clone)]
pub(crate) enum PlanChange {
    /// This shape is accepted.
    Accept(AcceptedShape),
    /// No shape is accepted any more.
    Forget,
}

/// A statement that changes the schema or the plan, or is to be alone for another reason.
pub(crate) struct ChangeWork {
    /// Its connection.
    pub(crate) client: ConnectionId,
    /// `None` for a change of the plan, and for a transaction that is to be alone before it changes anything.
    pub(crate) statement: Option<Arc<ChangeStatement>>,
    /// The change of the plan, if it is one.
    pub(crate) plan: Option<PlanChange>,
    /// The version of the environment in which its connection asked for it.
    pub(crate) version: u64,
    pub(crate) settings: ChangeSettings,
    /// The text that it is a part of, and where it begins in it.
    pub(crate) whole: Arc<str>,
    pub(crate) start: usize,
    /// What its transaction has run since the schema was changed last.
    pub(crate) part: Option<OpenPart>,
    /// Whether it is a transaction of its own.
    pub(crate) is_alone: bool,
    /// Whether its connection has a permit.
    pub(crate) has_permit: bool,
    /// What has become of its client meanwhile.
    pub(crate) client_state: Arc<ClientState>,
    /// Until when it waits for others.
    pub(crate) until: Option<Instant>,
}

/// What a session tells the changer while that works for it.
#[derive(Default)]
pub(crate) struct ClientState {
    is_cancelled: AtomicBool,
    is_gone: AtomicBool,
}

impl ClientState {
    /// Notes that the client does not want it any more.
    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::SeqCst);
    }

    /// Notes that the connection ends. Its session sends the rollback of its block afterwards.
    pub(crate) fn leave(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
        self.cancel();
    }

    fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::SeqCst)
    }

    /// Whether the connection has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::SeqCst)
    }
}

impl ChangeWork {
    /// Why it is not to wait any longer, if so.
    pub(crate) fn given_up(&self) -> Option<Box<ErrorFields>> {
        if self.client_state.is_cancelled() {
            let message = "canceling statement due to user request";
            return Some(error("57014", message));
        }
        let is_late = self.until.is_some_and(|until| until <= Instant::now());
        is_late.then(|| error("55P03", "canceling statement due to lock timeout"))
    }
}

/// A block whose effects belong to a transaction that changes the schema.
#[derive(Clone, Copy)]
pub(crate) struct OpenPart {
    pub(crate) node: NodeId,
    pub(crate) block: BlockId,
    /// Whether it has written.
    pub(crate) wrote: bool,
}
