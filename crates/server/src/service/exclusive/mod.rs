//! Exclusive mode: how the schema changes while clients are connected.
//!
//! One thread, the *changer*, changes the schema for all connections. A transaction with a statement that changes it runs
//! alone:
//!
//! 1. The [`gate`] is closed: no other transaction begins, and those that are open are waited for. The transaction's own
//!    statements so far, if there are any, are taken out of their node before that, so that it holds nothing that others
//!    wait for.
//! 2. The nodes end, and leave their rows and connections. The rows are changed, and other nodes begin under the new
//!    schema, without logs, for this client alone. What is replaced is kept.
//! 3. Further statements of the transaction run at these nodes. Before the schema changes again, they are committed there.
//! 4. COMMIT writes the rows and the application into the data folder as its next generation ([`crate::data`]), and lets
//!    that count. ROLLBACK puts back what was replaced. Then nodes with logs begin, and the gate is opened.
//!
//! Nothing of the transaction is durable before its COMMIT, and no other session sees any of it.
//!
//! A change of the plan alone ([`plan`]) waits as in 1, after which the nodes end and others begin under the new plan at once.
//!
//! [`gate`]: super::gate

mod apply;
mod finish;
mod plan;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch_engine::DetachedBlock;
use anabranch_engine::schema_change::Undo;
use anabranch_sql::change::SequenceMove;
use anabranch_storage::{DetachedTable, Store};
use anabranch_types::TableId;
use anabranch_wire::ErrorFields;

use super::changes::{ChangeRequest, ChangeWork, OpenPart};
use super::environment::{Environment, SharedState};
use super::errors::{error, of_change};
use super::memory::MemoryWatch;
use super::nodes::{Caller, Nodes, Past};
use crate::cluster::ClusterError;
use crate::data::DataFolder;
use crate::frontend::{Changed, ConnectionId, JobDone, Note, Post};
use crate::open_transactions::{Look, LookAtNodes};

pub use plan::{plan_accepting, plan_application};

/// The nodes that run, for those who look whether they have failed.
#[derive(Default)]
pub(crate) struct NodesSlot {
    state: Mutex<SlotState>,
    /// What looks at the same nodes. Apart, since the changer holds the other lock for as long as a query takes.
    look: Mutex<Option<Arc<dyn LookAtNodes>>>,
}

#[derive(Default)]
struct SlotState {
    nodes: Option<Box<dyn Nodes>>,
    failure: Option<String>,
}

impl NodesSlot {
    fn lock(&self) -> MutexGuard<'_, SlotState> {
        // Each change of the state is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) -> MutexGuard<'_, Option<Arc<dyn LookAtNodes>>> {
        self.look.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the server has failed, if it has.
    pub(crate) fn failure(&self) -> Option<String> {
        let state = self.lock();
        let of_nodes = || Some(state.nodes.as_ref()?.failure()?.to_owned());
        state.failure.clone().or_else(of_nodes)
    }

    /// Notes that the server cannot go on.
    pub(crate) fn fail(&self, reason: &str) {
        self.lock().failure.get_or_insert(reason.to_owned());
    }

    pub(crate) fn put(&self, nodes: Box<dyn Nodes>) {
        *self.look() = Some(nodes.look());
        self.lock().nodes = Some(nodes);
    }

    /// Takes the nodes, to stop them.
    pub(crate) fn take(&self) -> Option<Box<dyn Nodes>> {
        *self.look() = None;
        self.lock().nodes.take()
    }

    /// Makes calls of the nodes, if any run.
    pub(crate) fn caller(&self) -> Option<Box<dyn Caller>> {
        self.lock().nodes.as_ref().map(|nodes| nodes.caller())
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&dyn Nodes) -> Result<T, ClusterError>,
    ) -> Result<T, Refused> {
        match &self.lock().nodes {
            Some(nodes) => work(&**nodes).map_err(|failure| Refused::fatal(&failure)),
            None => Err(Refused::fatal(&"no nodes run")),
        }
    }
}

impl LookAtNodes for NodesSlot {
    fn begin(&self) -> Look {
        let nodes = self.look().clone();
        nodes.map_or_else(Look::at_none, |nodes| nodes.begin())
    }
}

/// The thread that changes the schema.
pub(crate) struct Changer {
    pub(crate) shared: Arc<SharedState>,
    pub(crate) slot: Arc<NodesSlot>,
    pub(crate) requests: Receiver<ChangeRequest>,
    /// Requests that came while another transaction was waited for.
    pub(crate) waiting: VecDeque<ChangeRequest>,
    pub(crate) data: Option<DataFolder>,
    pub(crate) analysis: anabranch_analysis::Options,
    /// The environment of all but the transaction that changes it.
    pub(crate) environment: Arc<Environment>,
    pub(crate) last_version: u64,
    pub(crate) memory: Option<MemoryWatch>,
    /// The transaction that changes the schema.
    pub(crate) exclusive: Option<Exclusive>,
}

/// A transaction that changes the schema.
pub(crate) struct Exclusive {
    client: ConnectionId,
    environment: Arc<Environment>,
    /// The way back, the last step last.
    undo: Vec<UndoStep>,
    /// Whether the nodes that run are its own, without logs.
    has_nodes: bool,
}

/// A step of the way back.
enum UndoStep {
    /// The schema.
    Schema {
        /// What was replaced with it.
        undo: Box<Undo>,
        /// The environment before.
        environment: Arc<Environment>,
        /// What the nodes before left.
        past: Past,
        /// The sequences that went on.
        sequences: Vec<SequenceMove>,
    },
    /// The rows before statements were committed.
    Rows(Vec<Store>),
    /// Those of one table.
    Table(TableId, Vec<DetachedTable>),
}

/// Why a request is refused.
struct Refused {
    fields: Box<ErrorFields>,
    /// Whether no nodes can be started any more.
    is_fatal: bool,
}

impl Refused {
    fn fatal(reason: &dyn std::fmt::Display) -> Refused {
        Refused {
            fields: error("XX000", reason.to_string()),
            is_fatal: true,
        }
    }
}

impl From<Box<ErrorFields>> for Refused {
    fn from(fields: Box<ErrorFields>) -> Refused {
        Refused {
            fields,
            is_fatal: false,
        }
    }
}

/// How long the changer waits before it looks again whether it may go on.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Changer {
    /// Serves requests until the server ends.
    pub(crate) fn run(mut self) {
        while let Some(next) = self.next_request() {
            match next {
                ChangeRequest::End(ended) => {
                    if self.exclusive.is_some() {
                        // If that fails, no nodes run, which their end tells.
                        let _ = self.finish(false);
                    }
                    // The receiver is gone if the server has not waited.
                    let _ = ended.send(());
                    return;
                }
                ChangeRequest::Change(work) => {
                    let mut changed = Changed::nothing();
                    let result = self.change(&work, &mut changed);
                    changed.is_exclusive = self.exclusive.is_some();
                    self.answer(work.client, changed, result);
                }
                ChangeRequest::Keep { client, table } => {
                    let result = self.keep_rows(table.as_deref());
                    self.answer(client, Changed::nothing(), result);
                }
                ChangeRequest::Finish {
                    client,
                    commits,
                    is_awaited,
                } => {
                    let own = self.exclusive.as_ref().map(|it| it.client);
                    let is_own = own.is_some_and(|own| is_same(own, client));
                    let result = match is_own {
                        true => self.finish(commits),
                        false => Ok(()),
                    };
                    if is_awaited {
                        self.answer(client, Changed::nothing(), result);
                    }
                }
            }
        }
    }

    /// The next request that can be served: while a transaction changes the schema, those of others wait.
    fn next_request(&mut self) -> Option<ChangeRequest> {
        loop {
            let Some(exclusive) = &self.exclusive else {
                let waiting = self.waiting.pop_front();
                return waiting.or_else(|| self.requests.recv().ok());
            };
            let client = exclusive.client;
            self.answer_given_up();
            let next = match self.waiting.is_empty() {
                true => self.requests.recv().ok()?,
                false => match self.requests.recv_timeout(LOOK_EVERY) {
                    Ok(next) => next,
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => return None,
                },
            };
            match &next {
                ChangeRequest::Change(work) if !is_same(work.client, client) => {
                    self.waiting.push_back(next);
                }
                _ => return Some(next),
            }
        }
    }

    /// Answers those that wait no longer.
    fn answer_given_up(&mut self) {
        for _ in 0..self.waiting.len() {
            let Some(request) = self.waiting.pop_front() else {
                return;
            };
            match &request {
                ChangeRequest::Change(work) if work.given_up().is_some() => {
                    let refused = work.given_up().map_or(Ok(()), |it| Err(it.into()));
                    self.answer(work.client, Changed::nothing(), refused);
                }
                _ => self.waiting.push_back(request),
            }
        }
    }

    fn answer(&self, client: ConnectionId, changed: Changed, result: Result<(), Refused>) {
        let refused = result.err().map(|refused| {
            if refused.is_fatal {
                self.slot.fail(&refused.fields.message);
            }
            refused.fields
        });
        let note = Note::Done {
            connection: client.connection,
            place: client.place,
            result: Ok(JobDone::Changed(Box::new(Changed { refused, ..changed }))),
        };
        self.shared.post.post(client.node, note);
    }

    /// Does a statement that changes the schema or the plan.
    fn change(&mut self, work: &ChangeWork, changed: &mut Changed) -> Result<(), Refused> {
        if let Some(plan) = &work.plan {
            return self.change_plan(work, plan, changed);
        }
        let environment = match &self.exclusive {
            Some(exclusive) => Arc::clone(&exclusive.environment),
            None => Arc::clone(&self.environment),
        };
        let is_first = self.exclusive.is_none();
        // Before others are waited for: most mistakes are found at once.
        let application = &environment.planned.application;
        let tried = work.statement.as_ref();
        let tried = tried.map(|it| application.change_with(it, work.settings));
        let tried = tried.transpose();
        let mut tried = tried.map_err(|refusal| of_change(&refusal, &work.whole, work.start))?;
        if let Some(change) = &mut tried {
            changed.notices = std::mem::take(&mut change.notices);
            if change.is_nothing() {
                return Ok(());
            }
        }
        let mut detached = None;
        if is_first {
            detached = self.acquire(work)?;
            self.exclusive = Some(Exclusive {
                client: work.client,
                environment: Arc::clone(&self.environment),
                undo: Vec::new(),
                has_nodes: false,
            });
        }
        changed.keeps_part = false;
        let applied = self.apply(work, tried, (detached, &mut changed.notices));
        match applied {
            Ok(()) if work.is_alone => self.finish(true),
            Ok(()) => Ok(()),
            Err(refused) => {
                if is_first {
                    self.finish(false)?;
                }
                Err(refused)
            }
        }
    }

    /// Waits until the transaction is alone. Returns what it has run.
    fn acquire(&mut self, work: &ChangeWork) -> Result<Option<DetachedBlock>, Refused> {
        self.shared.gate.close();
        let taken = match work.part {
            Some(part) => self
                .slot
                .with(|nodes| nodes.take_block(part.node, part.block)),
            None => Ok(None),
        };
        let waited = taken.and_then(|detached| match self.wait(work) {
            Ok(()) => Ok(detached),
            Err(refused) => {
                if let (Some(part), Some(block)) = (work.part, detached) {
                    self.put_back(work, part, block)?;
                }
                Err(refused)
            }
        });
        if waited.is_err() {
            self.open_gate();
        }
        waited
    }

    /// Gives a block to a node again. If its client has gone, its rollback may have found no block there: then the block ends
    /// here (INT-I6).
    fn put_back(
        &self,
        work: &ChangeWork,
        part: OpenPart,
        block: DetachedBlock,
    ) -> Result<(), Refused> {
        self.slot.with(|nodes| nodes.put_block(part.node, block))?;
        // Looked at afterwards: a client that goes later sends its rollback later, too.
        if work.client_state.is_gone() {
            let taken = self
                .slot
                .with(|nodes| nodes.take_block(part.node, part.block))?;
            drop(taken);
        }
        Ok(())
    }

    /// Waits until this transaction is alone inside the gate.
    fn wait(&mut self, work: &ChangeWork) -> Result<(), Refused> {
        let own = usize::from(work.has_permit);
        loop {
            // Looked at before the client: one that vanishes gives up first, and its permit afterwards.
            let is_alone = self.shared.gate.inside() <= own;
            if let Some(fields) = work.given_up() {
                return Err(fields.into());
            }
            if is_alone {
                return Ok(());
            }
            self.answer_given_up();
            if self.shared.advisory.is_waited_for_inside(work.client) {
                let mut fields = error("40P01", "deadlock detected");
                fields.detail = Some(
                    "A change of the schema waits for every open transaction, and one of them waits for an advisory lock \
                     that this connection holds."
                        .to_owned(),
                );
                return Err(fields.into());
            }
            match self.requests.try_recv() {
                Ok(ChangeRequest::Change(other)) if other.has_permit => {
                    let mut fields = error("40P01", "deadlock detected");
                    fields.detail = Some(
                        "Another transaction changes the schema and waits for this one to end."
                            .to_owned(),
                    );
                    self.answer(other.client, Changed::nothing(), Err(fields.into()));
                }
                Ok(ChangeRequest::End(ended)) => {
                    self.waiting.push_back(ChangeRequest::End(ended));
                    let message = "terminating connection due to administrator command";
                    return Err(error("57P01", message).into());
                }
                Ok(other) => self.waiting.push_back(other),
                Err(TryRecvError::Empty) => self.shared.gate.wait(LOOK_EVERY),
                Err(TryRecvError::Disconnected) => return Err(Refused::fatal(&"the server ends")),
            }
        }
    }

    fn exclusive(&mut self) -> Result<&mut Exclusive, Refused> {
        self.exclusive
            .as_mut()
            .ok_or_else(|| Refused::fatal(&"no transaction changes the schema"))
    }
}

fn is_same(one: ConnectionId, other: ConnectionId) -> bool {
    one.node == other.node && one.connection == other.connection
}
