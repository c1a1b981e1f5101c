//! A server of the Conveyor Belt in the simulator: the protocol's state machine over a [`Database`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_protocol::belt::{
    BeltOptions, BeltServer, Hop, Input as BeltInput, Message, Outbox as BeltOutbox,
    Reply as BeltReply, Request as BeltRequest, RowImages, ServerId, Timer,
};
use anabranch_protocol::{
    AbortReason, Counters, Durable, Input, NoRecords, Outbox, PartitionEffects, Protocol, Record,
    ReplayError, Reply, Request, Session, TimerId, TransactionId,
};
use anabranch_storage::Store;
use anabranch_types::{
    ActivityProbe, Effect, EffectError, NodeId, Read, SplitMix64, Ticks, Timestamp,
};

use super::database::{Database, DatabaseTransaction, Progress};
use crate::diagram::Label;
use crate::protocols::{Shared, Simulated};

/// The deadline of a global operation, in longest median latencies.
const LATENCIES_DEADLINE: u64 = 4_000;

/// When an unanswered message is sent again, in longest median latencies.
const LATENCIES_RESEND: u64 = 8;

/// The timers of the protocol; higher ones are steps of the database.
const RESEND: u64 = 0;
const DEADLINE: u64 = 1;

/// A step of the database that takes place after a pause.
#[derive(Clone, Debug)]
enum Step {
    Read(TransactionId, Vec<Read>),
    End(TransactionId, Vec<Effect>),
    Advance(DatabaseTransaction),
    Pass(Hop, BTreeSet<ServerId>),
}

/// An operation that the engine runs here.
#[derive(Clone, Debug)]
struct Operation {
    is_global: bool,
    /// The hold in which it runs, if it is global and does.
    hold: Option<Hop>,
    /// Its first request, while it waits for the token.
    pending: Option<Request>,
    /// Its result, until the protocol lets it leave.
    result: Option<Reply>,
    /// Whether it was given up before its next request.
    expired: bool,
}

type Machine = BeltServer<RowImages, TransactionId>;

/// A server of the ring, with its database.
pub(crate) struct BeltSite {
    id: ServerId,
    database: Database,
    machine: Machine,
    options: BeltOptions,
    operations: BTreeMap<TransactionId, Operation>,
    steps: BTreeMap<u64, Step>,
    next_step: u64,
    /// The longest pause between two steps of the database.
    pause: Ticks,
    deadline: Ticks,
    random: SplitMix64,
    keeps_records: bool,
    global_commits: u64,
    counters: Counters,
    probe: ActivityProbe,
}

/// Situations that a run may reach.
const UPDATE_APPLIED: &str = "a server applied an update of another";
const RECEIVE_ABORTED: &str = "a database aborted the transaction that receives a token";
const DANGEROUS: &str = "COMMIT aborted a dangerous structure";
const GLOBAL_COMMITTED: &str = "a global operation committed";

/// What a client receives whose operation has met its deadline.
fn expired() -> Reply {
    let message = "canceling statement: the global operation has met its deadline";
    Reply::Aborted(AbortReason::Failed(EffectError::new(EXPIRED, message)))
}

/// The SQLSTATE of an operation that has met its deadline: PostgreSQL's `query_canceled`.
pub(crate) const EXPIRED: &str = "57014";

impl BeltSite {
    /// The timestamps at their origins of what was applied here, by their timestamps here.
    pub(crate) fn origins(&self) -> &BTreeMap<Timestamp, Timestamp> {
        &self.database.origins
    }

    /// Steps the protocol, and everything that follows at once.
    fn belt(
        &mut self,
        now: Ticks,
        input: BeltInput<RowImages, TransactionId>,
        out: &mut Outbox<Message<RowImages>>,
    ) {
        let mut belt = BeltOutbox::default();
        self.machine.step(now, input, &mut belt);
        self.take(now, belt, out);
    }

    fn take(
        &mut self,
        now: Ticks,
        first: BeltOutbox<RowImages, TransactionId>,
        out: &mut Outbox<Message<RowImages>>,
    ) {
        let mut outboxes = VecDeque::from([first]);
        while let Some(belt) = outboxes.pop_front() {
            for (to, message) in belt.messages {
                self.counters.messages += 1;
                out.messages.push((NodeId(to.0), message));
            }
            for (at, timer) in belt.timers {
                let id = match timer {
                    Timer::Resend => RESEND,
                    Timer::Deadline => DEADLINE,
                };
                out.timers.push((at, TimerId(id)));
            }
            for reply in belt.replies {
                self.reply(reply, out);
            }
            for request in belt.requests {
                if let Some(answer) = self.request(now, request, out) {
                    let mut next = BeltOutbox::default();
                    self.machine.step(now, answer, &mut next);
                    outboxes.push_back(next);
                }
            }
        }
    }

    fn reply(&mut self, reply: BeltReply<TransactionId>, out: &mut Outbox<Message<RowImages>>) {
        match reply {
            BeltReply::Answer(operation) => {
                let ended = self.operations.remove(&operation);
                if let Some(result) = ended.and_then(|operation| operation.result) {
                    out.replies.push((operation, result));
                }
            }
            BeltReply::Expired(operation) => {
                if let Some(waiting) = self.operations.get_mut(&operation) {
                    self.counters.aborts += 1;
                    match waiting.pending.take() {
                        Some(_) => {
                            self.operations.remove(&operation);
                            out.replies.push((operation, expired()));
                        }
                        None => waiting.expired = true,
                    }
                }
            }
            _ => {}
        }
    }

    /// Passes a request of the protocol to the database. Returns the answer, if it comes at once.
    fn request(
        &mut self,
        now: Ticks,
        request: BeltRequest<RowImages, TransactionId>,
        out: &mut Outbox<Message<RowImages>>,
    ) -> Option<BeltInput<RowImages, TransactionId>> {
        match request {
            BeltRequest::Receive(token) => {
                self.database.begin_receive(token);
                self.schedule(now, Step::Advance(DatabaseTransaction::Receive), out);
                None
            }
            BeltRequest::Run { operation, hold } => match self.operations.get_mut(&operation) {
                Some(waiting) => {
                    waiting.hold = Some(hold);
                    if let Some(pending) = waiting.pending.take() {
                        self.begin_statement(now, operation, pending, out);
                    }
                    None
                }
                None => Some(BeltInput::Ended {
                    operation,
                    committed: false,
                }),
            },
            BeltRequest::Cancel(operation) => {
                let running = self.operations.get(&operation)?;
                if running.result.is_some() {
                    return None;
                }
                self.database
                    .roll_back(DatabaseTransaction::Operation(operation));
                self.operations.remove(&operation);
                self.wake(now, out);
                self.counters.aborts += 1;
                out.replies.push((operation, expired()));
                Some(BeltInput::Ended {
                    operation,
                    committed: false,
                })
            }
            BeltRequest::Pass { hold, wishes } => {
                self.schedule(now, Step::Pass(hold, wishes), out);
                None
            }
            BeltRequest::Promise(epoch) => Some(BeltInput::Promised {
                epoch,
                standing: self.database.promise(epoch),
            }),
            BeltRequest::Install(epoch, members) => Some(BeltInput::Installed {
                epoch,
                done: self.database.install(epoch, members.clone()),
                members,
            }),
        }
    }

    /// Lets a step take place after a pause.
    fn schedule(&mut self, now: Ticks, step: Step, out: &mut Outbox<Message<RowImages>>) {
        let at = Ticks(now.0 + 1 + self.random.below(self.pause.0.max(1)));
        let number = self.next_step;
        self.next_step += 1;
        self.steps.insert(number, step);
        out.timers.push((at, TimerId(number)));
    }

    /// Transactions that waited for one that has ended go on.
    fn wake(&mut self, now: Ticks, out: &mut Outbox<Message<RowImages>>) {
        for id in self.database.woken() {
            self.schedule(now, Step::Advance(id), out);
        }
    }

    fn begin_statement(
        &mut self,
        now: Ticks,
        operation: TransactionId,
        request: Request,
        out: &mut Outbox<Message<RowImages>>,
    ) {
        let step = match request {
            Request::Read(reads) => {
                let reads = reads.into_iter().map(|asked| asked.read);
                Step::Read(operation, reads.collect())
            }
            Request::Commit(effects) => {
                let effects = effects
                    .into_iter()
                    .flat_map(|on: PartitionEffects| on.effects);
                Step::End(operation, effects.collect())
            }
            _ => Step::End(operation, Vec::new()),
        };
        self.schedule(now, step, out);
    }

    /// A request of the engine.
    fn engine(
        &mut self,
        now: Ticks,
        id: TransactionId,
        request: Request,
        out: &mut Outbox<Message<RowImages>>,
    ) {
        match request {
            Request::Follow(_) | Request::WaitByAge(_) => {}
            Request::Global => {
                let waiting = Operation {
                    is_global: true,
                    hold: None,
                    pending: None,
                    result: None,
                    expired: false,
                };
                self.operations.insert(id, waiting);
                let deadline = now + self.deadline;
                let operation = BeltInput::Operation {
                    operation: id,
                    deadline,
                };
                self.belt(now, operation, out);
            }
            Request::Declare(_) => out.replies.push((id, Reply::Declared)),
            Request::Abort => {
                let Some(operation) = self.operations.remove(&id) else {
                    return;
                };
                self.counters.aborts += 1;
                self.database.roll_back(DatabaseTransaction::Operation(id));
                self.wake(now, out);
                match (operation.is_global, operation.hold) {
                    (false, _) => {}
                    (true, None) => self.belt(now, BeltInput::Withdraw(id), out),
                    (true, Some(_)) => self.ended(now, id, false, out),
                }
            }
            request => {
                let operation = self.operations.entry(id).or_insert(Operation {
                    is_global: false,
                    hold: None,
                    pending: None,
                    result: None,
                    expired: false,
                });
                if operation.expired {
                    self.operations.remove(&id);
                    out.replies.push((id, expired()));
                } else if operation.is_global && operation.hold.is_none() {
                    operation.pending = Some(request);
                } else {
                    self.begin_statement(now, id, request, out);
                }
            }
        }
    }

    fn ended(
        &mut self,
        now: Ticks,
        operation: TransactionId,
        committed: bool,
        out: &mut Outbox<Message<RowImages>>,
    ) {
        let ended = BeltInput::Ended {
            operation,
            committed,
        };
        self.belt(now, ended, out);
    }

    /// A step of the database.
    fn step_database(&mut self, now: Ticks, step: Step, out: &mut Outbox<Message<RowImages>>) {
        match step {
            Step::Read(id, _) | Step::End(id, _) if !self.operations.contains_key(&id) => {}
            Step::Read(id, reads) => match self.database.read(id, reads) {
                Ok(fetched) => out.replies.push((id, Reply::Fetched(fetched))),
                Err(reason) => {
                    self.database.roll_back(DatabaseTransaction::Operation(id));
                    self.end(now, id, Err(reason), false, out);
                }
            },
            Step::End(id, effects) => {
                let hold = self.operations[&id].hold;
                self.database.end_operation(id, effects, hold);
                self.advance(now, DatabaseTransaction::Operation(id), out);
            }
            Step::Advance(id) => self.advance(now, id, out),
            Step::Pass(hold, wishes) => {
                let passed = self.database.pass(hold, wishes);
                self.belt(now, BeltInput::Passed(passed), out);
            }
        }
    }

    fn advance(
        &mut self,
        now: Ticks,
        id: DatabaseTransaction,
        out: &mut Outbox<Message<RowImages>>,
    ) {
        let progress = self.database.advance(now, id);
        match (progress, id) {
            (Progress::More, _) => self.schedule(now, Step::Advance(id), out),
            (Progress::Waits, _) => {
                self.counters.waits += 1;
            }
            (
                Progress::Committed {
                    timestamp,
                    slots,
                    has_update,
                },
                DatabaseTransaction::Operation(operation),
            ) => {
                let result = Reply::Committed {
                    timestamp,
                    slots,
                    session: Session::default(),
                };
                self.end(now, operation, Ok(result), has_update, out);
            }
            (Progress::Aborted(reason), DatabaseTransaction::Operation(operation)) => {
                self.end(now, operation, Err(reason), false, out);
            }
            (Progress::Received(result), _) => {
                self.wake(now, out);
                self.belt(now, BeltInput::Received(result), out);
            }
            (Progress::Aborted(_), DatabaseTransaction::Receive) => {
                self.wake(now, out);
                self.belt(now, BeltInput::ReceiveAborted, out);
            }
            (Progress::Committed { .. }, DatabaseTransaction::Receive) => {}
        }
    }

    /// An operation's transaction has ended.
    fn end(
        &mut self,
        now: Ticks,
        id: TransactionId,
        result: Result<Reply, AbortReason>,
        has_update: bool,
        out: &mut Outbox<Message<RowImages>>,
    ) {
        self.wake(now, out);
        let Some(operation) = self.operations.get_mut(&id) else {
            return;
        };
        match &result {
            Ok(_) => self.counters.commits += 1,
            Err(_) => self.counters.aborts += 1,
        }
        match result {
            Ok(reply) if operation.is_global => {
                self.global_commits += 1;
                operation.result = Some(reply);
            }
            Ok(reply) => {
                self.operations.remove(&id);
                return out.replies.push((id, reply));
            }
            Err(reason) => {
                let is_global = operation.is_global;
                self.operations.remove(&id);
                out.replies.push((id, Reply::Aborted(reason)));
                if !is_global {
                    return;
                }
            }
        }
        self.ended(now, id, has_update, out);
    }
}

impl Protocol for BeltSite {
    type Message = Message<RowImages>;

    fn step(
        &mut self,
        now: Ticks,
        input: Input<Message<RowImages>>,
        out: &mut Outbox<Message<RowImages>>,
    ) {
        match input {
            Input::Request {
                transaction,
                request,
            } => self.engine(now, transaction, request, out),
            Input::Message { from, message } => {
                let from = ServerId(from.0);
                self.belt(now, BeltInput::Message { from, message }, out);
            }
            Input::Timer(TimerId(RESEND)) => {
                self.belt(now, BeltInput::Timer(Timer::Resend), out);
            }
            Input::Timer(TimerId(DEADLINE)) => {
                self.belt(now, BeltInput::Timer(Timer::Deadline), out);
            }
            Input::Timer(TimerId(number)) => {
                if let Some(step) = self.steps.remove(&number) {
                    self.step_database(now, step, out);
                }
            }
            // Its messages are sent again until they are answered.
            _ => {}
        }
        let records = self.database.records.drain(..);
        if self.keeps_records {
            let records = records.map(|record| Record::Belt(Box::new(record)));
            out.records.extend(records);
        }
    }

    fn observe(&mut self, probe: ActivityProbe) {
        self.probe = probe;
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn check_invariants(&self) -> Result<(), String> {
        self.machine.check_invariants()?;
        self.database.rows.check_invariants()
    }
}

impl Durable for BeltSite {
    fn keep_records(&mut self) -> Result<(), NoRecords> {
        self.keeps_records = true;
        Ok(())
    }

    fn replay(&mut self, record: Record) -> Result<(), ReplayError> {
        match record {
            Record::Items { table, items } => self.database.store.import(table, items),
            Record::Store { last } => self.database.store.finish_import(last),
            Record::Belt(record) => self.database.replay(*record)?,
            other => {
                return Err(ReplayError(format!(
                    "a server of the Conveyor Belt cannot replay {other:?}"
                )));
            }
        }
        Ok(())
    }

    fn recover(&mut self, now: Ticks, out: &mut Outbox<Message<RowImages>>) {
        let mut belt = BeltOutbox::default();
        let standing = self.database.rows.standing();
        self.machine = Machine::recover(now, self.id, self.options, standing, &mut belt);
        self.take(now, belt, out);
    }

    fn items(&self) -> &Store {
        &self.database.store
    }

    fn items_mut(&mut self) -> &mut Store {
        &mut self.database.store
    }

    fn checkpoint_state(&self, sink: &mut dyn FnMut(Record)) {
        if self.keeps_records {
            sink(Record::Belt(Box::new(self.database.state())));
        }
    }
}

impl Simulated for BeltSite {
    fn make(node: NodeId, shared: &Shared, store: Store) -> BeltSite {
        let times = |latencies: u64| Ticks(shared.latency.0.max(1).saturating_mul(latencies));
        let id = ServerId(node.0);
        let members: Vec<ServerId> = (0..shared.clusters).map(ServerId).collect();
        let options = BeltOptions {
            operations_max: 4,
            token_bytes_max: 256,
            resend: times(LATENCIES_RESEND),
            ..BeltOptions::default()
        };
        let programs = shared.planned.application.programs();
        BeltSite {
            id,
            database: Database::new(node, shared.clusters, store, programs),
            machine: Machine::new(id, options, members),
            options,
            operations: BTreeMap::new(),
            steps: BTreeMap::new(),
            next_step: 2,
            pause: times(1),
            deadline: times(LATENCIES_DEADLINE),
            random: SplitMix64::stream(u64::from(node.0), "pauses", 0),
            keeps_records: false,
            global_commits: 0,
            counters: Counters::default(),
            probe: ActivityProbe::default(),
        }
    }

    fn store(&self) -> &Store {
        &self.database.store
    }

    fn leftovers(&self) -> Option<String> {
        let is_idle = self.machine.is_at_rest() && self.database.is_idle();
        let left = "operations or updates are under way";
        (!is_idle || !self.operations.is_empty()).then(|| left.to_owned())
    }

    fn kind(message: &Self::Message) -> &'static str {
        match message {
            Message::Token { .. } => "Token",
            Message::Fetch { .. } => "Fetch",
            Message::Part { .. } => "Part",
            Message::Acknowledge { .. } => "Acknowledge",
            Message::Wish { .. } => "Wish",
            Message::Promise { .. } => "Promise",
            Message::Promised { .. } => "Promised",
            Message::Refuse { .. } => "Refuse",
            Message::Install { .. } => "Install",
            Message::Installed { .. } => "Installed",
        }
    }

    fn label(message: &Self::Message) -> Label {
        let kind = <BeltSite as Simulated>::kind(message);
        match message {
            Message::Refuse { .. } => Label::refusal(kind, None),
            _ => Label::other(kind),
        }
    }

    fn situations(&self) -> Vec<(&'static str, u64)> {
        vec![
            (UPDATE_APPLIED, self.database.updates_applied),
            (RECEIVE_ABORTED, self.database.receives_aborted),
            (DANGEROUS, self.database.dangerous),
            (GLOBAL_COMMITTED, self.global_commits),
        ]
    }

    fn origins(&self) -> Option<&BTreeMap<Timestamp, Timestamp>> {
        Some(BeltSite::origins(self))
    }
}
