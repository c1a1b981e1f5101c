//! Interactive clients: each runs the workload's operations as statements of its own transactions.
//!
//! A transaction is a few operations, one after the other, with savepoints, returns to them, statements that are
//! cancelled, and an end by COMMIT or ROLLBACK (`docs/protocols/interactive.md`). One that fails goes back to a savepoint
//! or is rolled back. A client that crashes leaves its transaction open: its node learns it, as a server does whose
//! connection ends.

use anabranch_engine::{
    BlockId, BlockOptions, Call, CallError, CallId, NodeInput, Outcome, SavepointId, StatementCode,
    StatementWork, Step, StepAction, Work,
};
use anabranch_types::{SplitMix64, Value};
use anabranch_workload::Operation;

use super::Cluster;
use crate::protocols::Simulated;

/// The most operations of a transaction.
const OPERATIONS_MAX: u64 = 4;

/// One of so many statements is cancelled.
const CANCELS: u64 = 20;

/// The transaction that a client has open.
pub(super) struct ClientBlock {
    id: BlockId,
    /// All steps have the same, one after the other.
    call: CallId,
    /// Operations that are still to come.
    left: u64,
    savepoints: Vec<SavepointId>,
    next_savepoint: u64,
    has_failed: bool,
    /// What the step under way does.
    step: ClientStep,
}

/// A step of a client.
enum ClientStep {
    Statement(Operation),
    Savepoint,
    RollbackTo,
    Commit,
    Rollback,
}

impl ClientBlock {
    pub(super) fn new(call: CallId, random: &mut SplitMix64) -> ClientBlock {
        ClientBlock {
            id: BlockId(call.0),
            call,
            left: 1 + random.below(OPERATIONS_MAX),
            savepoints: Vec::new(),
            next_savepoint: 0,
            has_failed: false,
            step: ClientStep::Commit,
        }
    }

    /// The call of the step under way.
    pub(super) fn call(&self) -> CallId {
        self.call
    }

    /// Chooses the next step.
    fn choose(
        &mut self,
        random: &mut SplitMix64,
        next: impl FnOnce() -> (Operation, usize),
    ) -> (StepAction, Vec<Value>) {
        let chance = random.below(8);
        let back = self.savepoints.len().checked_sub(1);
        let back = back.filter(|_| chance == 0 || self.has_failed && chance < 5);
        if let Some(last) = back {
            let place = random.below(last as u64 + 1) as usize;
            self.savepoints.truncate(place + 1);
            self.step = ClientStep::RollbackTo;
            return (StepAction::RollbackTo(self.savepoints[place]), Vec::new());
        }
        if self.has_failed || self.left == 0 && chance == 1 {
            self.step = ClientStep::Rollback;
            return (StepAction::Rollback, Vec::new());
        }
        if self.left == 0 {
            self.step = ClientStep::Commit;
            return (StepAction::Commit, Vec::new());
        }
        if chance == 2 {
            self.next_savepoint += 1;
            let id = SavepointId(self.next_savepoint);
            self.savepoints.push(id);
            self.step = ClientStep::Savepoint;
            return (StepAction::Savepoint(id), Vec::new());
        }
        self.left -= 1;
        let (operation, procedure) = next();
        let arguments = operation.arguments.to_vec();
        self.step = ClientStep::Statement(operation);
        let work = StatementWork {
            code: StatementCode::Procedure(procedure),
            entry: None,
            timing: None,
        };
        (StepAction::Statement(work), arguments)
    }
}

impl<P: Simulated> Cluster<P> {
    /// Sends the next step of a client's open transaction.
    pub(super) fn send_step(&mut self, number: u32) {
        let clients = &mut self.clients;
        let client = &mut clients.clients[number as usize];
        let Some(block) = &mut client.block else {
            return;
        };
        let caller = &mut client.caller;
        let procedures = &clients.procedures;
        let (action, arguments) = block.choose(&mut clients.random, || {
            let operation = caller.next();
            let procedure = procedures[operation.procedure];
            (operation, procedure)
        });
        let is_statement = matches!(action, StepAction::Statement(_));
        let step = Step {
            block: block.id,
            options: BlockOptions {
                validates_reads: clients.random.below(2) == 0,
                ..BlockOptions::default()
            },
            action,
        };
        let (call, at) = (block.call, client.at);
        let request =
            Call::new(call, Work::Step(step), arguments).with_session(client.session.clone());
        client.is_stepping = true;
        let cancels = is_statement && clients.random.below(CANCELS) == 0;
        let crashes = client.crashes;
        self.give(at, NodeInput::Call(request));
        if cancels {
            self.give(at, NodeInput::Cancel(call));
        }
        if crashes {
            self.crash_client(number);
        }
    }

    /// A client receives the outcome of a step. Returns whether its transaction goes on.
    pub(super) fn step_answered(&mut self, number: usize, outcome: &Outcome) {
        let client = &mut self.clients.clients[number];
        client.is_stepping = false;
        let Some(block) = &mut client.block else {
            return;
        };
        let mut ends = false;
        let mut judged = None;
        match (&block.step, &outcome.result) {
            (ClientStep::Statement(operation), Ok(_)) => judged = Some(operation.clone()),
            (ClientStep::Statement(operation), Err(error)) => {
                block.has_failed = true;
                // A replay that differs, or a conflict for too long, ends the transaction.
                ends = error.code() == "40001" || *error == CallError::InDoubt;
                if !ends && *error != CallError::Cancelled {
                    judged = Some(operation.clone());
                }
            }
            (ClientStep::RollbackTo, Ok(_)) => block.has_failed = false,
            (ClientStep::Savepoint, Ok(_)) => {}
            (ClientStep::Savepoint | ClientStep::RollbackTo, Err(_)) => ends = true,
            (ClientStep::Commit | ClientStep::Rollback, _) => ends = true,
        }
        let is_commit = matches!(block.step, ClientStep::Commit);
        if ends {
            client.block = None;
        }
        if let (true, Ok(_)) = (is_commit, &outcome.result) {
            client.session = outcome.session.clone();
            self.statistics.committed += 1;
            self.statistics
                .sometimes("an interactive transaction committed");
        } else if ends {
            self.statistics.abort(match &outcome.result {
                Ok(_) => "rolled back by its client",
                Err(error) => error.code(),
            });
        }
        if outcome.retries.total() > 0 {
            self.statistics.sometimes("a block was run again");
        }
        if let Some(operation) = judged {
            self.check_answer(&operation, outcome);
        }
    }

    /// A client with an open transaction has gone: its node ends it.
    pub(super) fn leave_block(&mut self, number: u32) {
        let client = &mut self.clients.clients[number as usize];
        client.is_stepping = false;
        let Some(block) = client.block.take() else {
            return;
        };
        let step = Step {
            block: block.id,
            options: BlockOptions::default(),
            action: StepAction::Rollback,
        };
        // Another number than the step's under way, whose outcome comes to nothing as well.
        let call = CallId(block.call.0 | ABANDONED);
        let at = client.at;
        if self.hosts[usize::from(at)].node().is_some() {
            self.give(at, NodeInput::Call(Call::new(call, Work::Step(step), [])));
        }
        self.statistics
            .sometimes("a client left its transaction open");
    }
}

/// Distinguishes the last call of a transaction whose client has gone.
const ABANDONED: u64 = 1 << 31;
