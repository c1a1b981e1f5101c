//! A node: takes calls, runs their procedures over a protocol, and retries aborted attempts.

mod belt;
mod blocks;
mod declared;
mod ending;
mod open_transactions;
mod sequences;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use anabranch_protocol::link::Incarnation;
use anabranch_protocol::{
    AbortReason, Durable, Input, Outbox, Protocol, Record, Reply, Request, TimerId, TransactionId,
};
use anabranch_sql::application::ResultSet;
use anabranch_sql::deferred::ConstraintSelection;
use anabranch_sql::transaction::TransactionError;
use anabranch_types::{
    Activity, ActivityProbe, Fetched, NodeId, PartitionId, SlotId, Ticks, Value,
};
use rustc_hash::FxHashMap;

use crate::admission::Admission;
use crate::application::PlannedApplication;
use crate::backoff::Backoff;
use crate::belt::BeltTables;
use crate::call::{Call, CallError, CallId, Cost, Outcome, Retries, Work};
use crate::interactive::{Block, CallSequences, TransactionSlot};
use crate::limits::{TransactionLimits, is_larger};
use crate::record::{AttemptOutcome, AttemptRecord, RecordedRead};
use crate::sequence::{NodeSequences, SequenceStarts};
use crate::step::BlockId;
use crate::transaction::{AttemptIdentity, Mailbox, NodeTransaction};

/// Settings of a node.
#[derive(Clone, Copy, Debug)]
pub struct NodeOptions {
    /// Whether the protocol is sent a transaction's accesses before it runs ([`Request::Declare`]).
    pub declares: bool,
    /// The node's number among those that draw from the same sequences, and their count. `None`: the own partition's
    /// among all partitions.
    pub sequences: Option<(u16, u16)>,
    /// The pause before an aborted attempt is retried.
    pub backoff: Backoff,
    /// The number of attempts after which a call fails.
    pub attempts_max: u32,
    /// How large a transaction may become.
    pub limits: TransactionLimits,
    /// The time of [`Ticks`] 0 in microseconds since 2000-01-01 00:00:00 UTC, for `now()`.
    pub epoch_micros: i64,
    /// The node's incarnation, which is the high part of its transactions' names.
    pub incarnation: Incarnation,
    /// The number of the last transaction of a predecessor in the same incarnation ([`Node::hand_over`]); 0 without one.
    pub last_transaction: u64,
    /// Whether a statement that writes needs a plan entry, because the protocol alone does not keep the guarantee.
    /// One without is refused with SQLSTATE `55000`.
    pub needs_entries: bool,
    /// Whether each attempt leaves an [`AttemptRecord`] in [`NodeOutbox::attempts`].
    pub records: bool,
}

impl Default for NodeOptions {
    fn default() -> Self {
        NodeOptions {
            declares: false,
            sequences: None,
            backoff: Backoff::default(),
            attempts_max: 1_000,
            limits: TransactionLimits::default(),
            epoch_micros: 0,
            incarnation: Incarnation::FIRST,
            last_transaction: 0,
            needs_entries: false,
            records: false,
        }
    }
}

/// An input of a node.
#[derive(Clone, Debug)]
pub enum NodeInput<M> {
    /// A client's call.
    Call(Call),
    /// The client does not want the outcome of this call any more. A call that runs, pauses, waits for a read or a
    /// lock, or waits for a retry ends with [`CallError::Cancelled`], and releases its locks and write intents. One that
    /// commits ends as its commit does, but is not retried. Ignored for a call that has ended.
    Cancel(CallId),
    /// Another node's message.
    Message {
        /// The sender.
        from: NodeId,
        /// The message.
        message: M,
    },
    /// The block loses its attempt, and with it all locks and write intents, if no step of it is under way. The next step
    /// runs its log again.
    Suspend(BlockId),
    /// Time has passed: timers that are due run.
    Tick,
    /// Another node has restarted without its volatile state. Comes before the first message of its new
    /// incarnation.
    Restarted {
        /// The node.
        node: NodeId,
    },
}

/// The output of one or more inputs. The driver empties it after each batch.
#[derive(Clone, Debug)]
pub struct NodeOutbox<M> {
    /// Records for the node's log, if it has one, to be appended before other output leaves: see
    /// [`anabranch_protocol::Outbox::records`].
    pub records: Vec<Record>,
    /// Messages to other nodes, in order for each destination.
    pub messages: Vec<(NodeId, M)>,
    /// Results for clients.
    pub outcomes: Vec<Outcome>,
    /// Ended attempts, if the node records them.
    pub attempts: Vec<AttemptRecord>,
}

impl<M> Default for NodeOutbox<M> {
    fn default() -> Self {
        NodeOutbox {
            records: Vec::new(),
            messages: Vec::new(),
            outcomes: Vec::new(),
            attempts: Vec::new(),
        }
    }
}

impl<M> NodeOutbox<M> {
    /// Whether there is output, apart from records.
    pub fn has_output(&self) -> bool {
        !(self.messages.is_empty() && self.outcomes.is_empty() && self.attempts.is_empty())
    }
}

/// One node of a cluster, driven by [`Node::step`].
pub struct Node<P: Protocol> {
    id: NodeId,
    home: PartitionId,
    planned: Arc<PlannedApplication>,
    options: NodeOptions,
    protocol: P,
    out: Outbox<P::Message>,
    /// Attempts that wait for the protocol or pause, by sequence.
    waiting: FxHashMap<u64, Attempt>,
    /// The attempts among them that pause, in the order in which they go on. Some may have ended.
    paused: VecDeque<u64>,
    /// When the first of them goes on.
    resume_at: Ticks,
    alarms: BinaryHeap<Reverse<Alarm>>,
    next_sequence: u64,
    next_alarm: u64,
    /// Clients' open transactions.
    blocks: FxHashMap<BlockId, Block>,
    /// Numbers of sequences.
    sequences: Rc<NodeSequences>,
    probe: ActivityProbe,
    /// The number of steps that its protocol has taken.
    steps: u64,
    admission: Admission,
    /// The ring that its database is in.
    belt: Option<Arc<BeltTables>>,
}

/// What a node leaves to its successor: see [`Node::hand_over`].
pub struct HandedOver<P> {
    /// The protocol, with the store.
    pub protocol: P,
    /// How far each sequence has come.
    pub numbers: SequenceStarts,
    /// The node's incarnation.
    pub incarnation: Incarnation,
    /// See [`NodeOptions::last_transaction`].
    pub last_transaction: u64,
}

/// A call that has no outcome yet: what its attempts share.
struct OpenCall {
    call: Call,
    /// The value of `now()` in all attempts.
    timestamp: i64,
    /// When its first attempt began.
    began: Ticks,
    /// The attempts so far, the current one included, and the pauses between them.
    attempts: u32,
    backoff: Ticks,
    retries: Retries,
    /// Whether the plan's deferrals are used.
    deferral: bool,
    /// Whether it was cancelled while it committed.
    cancelled: bool,
    /// The transaction of its first attempt.
    first_attempt: Option<TransactionId>,
    /// What its attempts have drawn from sequences, after the first has begun.
    sequences: Option<Rc<CallSequences>>,
}

/// One attempt of one call.
struct Attempt {
    open: OpenCall,
    /// The work of this attempt alone.
    cost: Cost,
    transaction: TransactionId,
    mailbox: Rc<RefCell<Mailbox>>,
    stage: AttemptStage,
    /// Its record, if attempts are recorded.
    record: Option<Box<AttemptRecord>>,
    /// The block whose step it runs.
    block: Option<(BlockId, TransactionSlot)>,
    /// How often it has waited for the protocol.
    waits: u32,
}

type Running = Pin<Box<dyn Future<Output = Result<ResultSet, TransactionError>>>>;

impl Attempt {
    /// Whether it has not asked to commit.
    fn is_running(&self) -> bool {
        matches!(self.stage, AttemptStage::Running(_))
    }

    /// Adds a request to the attempt's cost and record.
    fn note_request(&mut self, request: &Request) {
        match request {
            Request::Read(reads) => {
                self.cost.read_rounds += 1;
                self.cost.items_read += reads.len() as u32;
            }
            Request::Commit(partitions) => {
                self.cost.partitions_written = partitions.len() as u16;
                let effects = partitions.iter().map(|part| part.effects.len() as u32);
                self.cost.effects = effects.sum();
            }
            _ => {}
        }
        let Some(record) = &mut self.record else {
            return;
        };
        match request {
            Request::Read(reads) => record.reads.extend(reads.iter().map(RecordedRead::asked)),
            Request::Commit(effects) => record.effects.clone_from(effects),
            _ => {}
        }
    }

    /// Adds the answers to the last reads to the attempt's record, and returns them without versions.
    fn note_answers(&mut self, answers: Vec<Fetched>) -> Vec<Fetched> {
        if let Some(record) = &mut self.record {
            let first = record.reads.len() - answers.len();
            for (read, answer) in record.reads[first..].iter_mut().zip(&answers) {
                read.fetched.clone_from(answer);
            }
        }
        answers.into_iter().map(Fetched::into_answer).collect()
    }

    /// Outputs the attempt's record.
    fn end<M>(&mut self, now: Ticks, outcome: AttemptOutcome, out: &mut NodeOutbox<M>) {
        if let Some(mut record) = self.record.take() {
            record.ended = Some(now);
            record.results = self.mailbox.borrow_mut().results.take().unwrap_or_default();
            record.outcome = outcome;
            out.attempts.push(*record);
        }
    }
}

/// An attempt's stage.
enum AttemptStage {
    /// The procedure runs, pauses or waits for a read. (Before its first step, it waits for its declaration.)
    Running(Running),
    /// The procedure has returned this result, and the protocol commits its effects.
    Committing(ResultSet),
}

/// The next action on an attempt.
enum Next {
    /// Poll the procedure.
    Poll,
    /// Pass its request to the protocol.
    Send(Request),
    /// Pass it the protocol's reply.
    Resume(Reply),
}

/// A timer, in a heap; ties are broken by the order of setting.
struct Alarm {
    at: Ticks,
    order: u64,
    what: AlarmKind,
}

enum AlarmKind {
    Protocol(TimerId),
    /// A call's next attempt.
    Retry(Box<OpenCall>),
    /// An attempt has waited for as long as it may, if it waits for this time still.
    LockTimeout {
        sequence: u64,
        waits: u32,
    },
}

/// Why an attempt ends before it commits.
enum AttemptEnd {
    /// Its protocol or procedure aborted it.
    Aborted(AbortReason),
    /// The call ends with this error.
    Refused(CallError),
    /// The step of a block has ended, and its attempt goes on.
    Stepped(Result<ResultSet, CallError>),
}

impl PartialEq for Alarm {
    fn eq(&self, other: &Alarm) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Alarm {}

impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Alarm) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Alarm {
    fn cmp(&self, other: &Alarm) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl<P: Protocol> Node<P> {
    /// A node without history; `home` is the partition that its protocol owns.
    pub fn new(
        id: NodeId,
        home: PartitionId,
        planned: Arc<PlannedApplication>,
        protocol: P,
        options: NodeOptions,
    ) -> Node<P> {
        let partitions = planned.execution.router.partitions();
        let (place, places) = options.sequences.unwrap_or((home.0, partitions));
        Node {
            id,
            home,
            planned,
            options,
            protocol,
            out: Outbox::default(),
            waiting: FxHashMap::default(),
            blocks: FxHashMap::default(),
            paused: VecDeque::new(),
            resume_at: Ticks(0),
            alarms: BinaryHeap::new(),
            // Each incarnation's transactions have distinct names.
            next_sequence: (options.incarnation.0.saturating_sub(1) << INCARNATION_SHIFT)
                .max(options.last_transaction),
            next_alarm: 0,
            probe: ActivityProbe::default(),
            steps: 0,
            admission: Admission::All,
            sequences: Rc::new(NodeSequences::new(PartitionId(place), places)),
            belt: None,
        }
    }

    /// Reports the node's activity to this probe from now on.
    pub fn observe(&mut self, probe: ActivityProbe) {
        self.protocol.observe(probe.clone());
        self.probe = probe;
    }

    /// Which transactions are let commit from now on.
    pub fn admit(&mut self, admission: Admission) {
        self.admission = admission;
    }

    /// Drops up to `budget` versions that nothing needs any more ([`Protocol::collect_versions`]).
    pub fn collect_versions(&mut self, now: Ticks, budget: usize) {
        self.protocol.collect_versions(now, budget);
    }

    /// Its protocol.
    pub fn protocol(&self) -> &P {
        &self.protocol
    }

    /// The protocol, between two steps.
    pub(crate) fn protocol_mut(&mut self) -> &mut P {
        &mut self.protocol
    }

    /// The number of steps that its protocol has taken, including recovery. The protocol's state is unchanged
    /// while this number is.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The protocol with its store, without the node.
    pub fn into_protocol(self) -> P {
        self.protocol
    }

    /// Gives up the node for what its successor needs. No call may be under way; open blocks are lost, unless they were
    /// [taken out](Node::take_block) before.
    pub fn hand_over(self) -> HandedOver<P> {
        HandedOver {
            numbers: self.sequences.drawn(),
            incarnation: self.options.incarnation,
            last_transaction: self.next_sequence,
            protocol: self.protocol,
        }
    }

    /// The number of calls that run, pause or wait for a retry.
    pub fn calls(&self) -> usize {
        let retries = self
            .alarms
            .iter()
            .filter(|a| matches!(a.0.what, AlarmKind::Retry(_)))
            .count();
        self.waiting.len() + retries
    }

    /// The records of open attempts, in the order in which they began: those that a crash would leave.
    pub fn open_attempts(&self) -> Vec<AttemptRecord> {
        // tidy: order-free because it is sorted below.
        let mut open: Vec<AttemptRecord> = self
            .waiting
            .values()
            .filter_map(|attempt| attempt.record.as_deref().cloned())
            .collect();
        open.sort_unstable_by_key(|record| record.transaction);
        open
    }

    /// When the next timer is due, or an attempt that pauses goes on.
    pub fn next_alarm(&self) -> Option<Ticks> {
        let alarm = self.alarms.peek().map(|alarm| alarm.0.at);
        let resume = (!self.paused.is_empty()).then_some(self.resume_at);
        alarm.into_iter().chain(resume).min()
    }

    /// Takes one input at time `now`.
    pub fn step(
        &mut self,
        now: Ticks,
        input: NodeInput<P::Message>,
        out: &mut NodeOutbox<P::Message>,
    ) {
        let before = self.probe.enter(Activity::Procedure);
        match input {
            NodeInput::Call(call) => {
                let clock = self.options.epoch_micros;
                let clock = clock.saturating_add(now.as_micros() as i64);
                let open = OpenCall {
                    timestamp: call.timestamp.unwrap_or(clock),
                    call,
                    began: now,
                    attempts: 0,
                    backoff: Ticks(0),
                    retries: Retries::default(),
                    deferral: true,
                    cancelled: false,
                    first_attempt: None,
                    sequences: None,
                };
                self.start(now, open, out);
            }
            NodeInput::Cancel(call) => self.cancel(now, call, out),
            NodeInput::Suspend(block) => self.suspend(now, block, out),
            NodeInput::Message { from, message } => {
                self.step_protocol(now, Input::Message { from, message });
            }
            NodeInput::Tick => {
                self.run_due_timers(now, out);
                self.resume(now, out);
            }
            NodeInput::Restarted { node } => {
                self.step_protocol(now, Input::Restarted { node });
            }
        }
        self.deliver(now, out);
        self.probe.enter(before);
    }

    /// Runs one step of the protocol.
    fn step_protocol(&mut self, now: Ticks, input: Input<P::Message>) {
        let before = self.probe.enter(Activity::Protocol);
        self.steps += 1;
        self.protocol.step(now, input, &mut self.out);
        self.probe.enter(before);
    }

    /// Runs every timer that is due.
    fn run_due_timers(&mut self, now: Ticks, out: &mut NodeOutbox<P::Message>) {
        while self.alarms.peek().is_some_and(|alarm| alarm.0.at <= now) {
            let Some(Reverse(alarm)) = self.alarms.pop() else {
                return;
            };
            match alarm.what {
                AlarmKind::Protocol(timer) => {
                    self.step_protocol(now, Input::Timer(timer));
                }
                AlarmKind::Retry(retry) => self.start(now, *retry, out),
                AlarmKind::LockTimeout { sequence, waits } => {
                    let waiting = self.waiting.get(&sequence);
                    if waiting.is_some_and(|attempt| attempt.waits == waits && attempt.is_running())
                    {
                        self.end_early(now, sequence, CallError::LockTimeout, out);
                    }
                }
            }
            self.deliver(now, out);
        }
    }

    /// Lets the first attempt that pauses go on, if it is due. The others wait for the next tick, so that the
    /// node takes other input after each.
    fn resume(&mut self, now: Ticks, out: &mut NodeOutbox<P::Message>) {
        if self.resume_at > now {
            return;
        }
        while let Some(sequence) = self.paused.pop_front() {
            // It may have been cancelled or aborted.
            if let Some(attempt) = self.waiting.remove(&sequence) {
                self.resume_at = Ticks(now.0 + 1);
                attempt.mailbox.borrow_mut().paused = false;
                self.drive(now, attempt, Next::Poll, out);
                return;
            }
        }
    }

    /// Lets an attempt wait for the protocol's reply.
    fn wait(&mut self, now: Ticks, mut attempt: Attempt) {
        attempt.waits += 1;
        let sequence = attempt.transaction.sequence;
        if let Some(limit) = attempt.open.call.lock_timeout {
            let waits = attempt.waits;
            self.set_alarm(now + limit, AlarmKind::LockTimeout { sequence, waits });
        }
        self.waiting.insert(sequence, attempt);
    }

    /// Lets an attempt wait until the node has taken other input.
    fn pause(&mut self, now: Ticks, attempt: Attempt) {
        let sequence = attempt.transaction.sequence;
        if self.paused.is_empty() {
            self.resume_at = Ticks(now.0 + 1);
        }
        self.paused.push_back(sequence);
        self.waiting.insert(sequence, attempt);
    }

    /// Delivers the protocol's replies, messages, records and timers, until none is left.
    fn deliver(&mut self, now: Ticks, out: &mut NodeOutbox<P::Message>) {
        // Nearly always one reply at most; replies that follow from it come after the others.
        while !self.out.replies.is_empty() {
            let (transaction, reply) = self.out.replies.remove(0);
            // A reply may come after its attempt has ended.
            if let Some(attempt) = self.waiting.remove(&transaction.sequence) {
                self.drive(now, attempt, Next::Resume(reply), out);
            }
        }
        append_all(&mut self.out.records, &mut out.records);
        append_all(&mut self.out.messages, &mut out.messages);
        while !self.out.timers.is_empty() {
            let (at, timer) = self.out.timers.remove(0);
            self.set_alarm(at, AlarmKind::Protocol(timer));
        }
    }

    fn set_alarm(&mut self, at: Ticks, what: AlarmKind) {
        self.next_alarm += 1;
        self.alarms.push(Reverse(Alarm {
            at,
            order: self.next_alarm,
            what,
        }));
    }

    /// Starts an attempt of a call.
    fn start(&mut self, now: Ticks, mut open: OpenCall, out: &mut NodeOutbox<P::Message>) {
        open.attempts += 1;
        if let Work::Step(step) = &open.call.work {
            let step = step.clone();
            return self.start_step(now, open, step, out);
        }
        let call = &open.call;
        self.next_sequence += 1;
        let transaction = TransactionId {
            node: self.id,
            sequence: self.next_sequence,
        };
        let mailbox = Mailbox::new(self.limits_of(&call.work));
        let identity = AttemptIdentity {
            home: self.home,
            unique: u64::from(self.id.0) << 48 | transaction.sequence,
            timestamp: open.timestamp,
            time_zone: call.time_zone.clone(),
            deferral: open.deferral,
        };
        let node = &self.sequences;
        let sequences = open.sequences.get_or_insert_with(|| {
            let sequences = CallSequences::new(Rc::clone(node));
            sequences.enter(call.id, call.sequences.clone());
            Rc::new(sequences)
        });
        sequences.begin_attempt();
        let mut procedure_transaction = NodeTransaction::new(
            Arc::clone(&self.planned),
            identity,
            Rc::clone(&mailbox),
            Rc::<CallSequences>::clone(sequences),
        )
        .locking(self.options.declares);
        procedure_transaction.set_belt(self.belt.clone());
        let planned = Arc::clone(&self.planned);
        let (work, arguments) = (call.work.clone(), Arc::clone(&call.arguments));
        let declared = if self.options.declares {
            self.declared(call)
        } else {
            Vec::new()
        };
        let needs_entry = self.options.needs_entries;
        let running: Running = Box::pin(async move {
            let transaction = &mut procedure_transaction;
            match work {
                Work::Procedure(number) => {
                    let procedure = &planned.application.procedures[number];
                    let result = procedure.call(transaction, &arguments).await?;
                    transaction
                        .check_deferred(&ConstraintSelection::All)
                        .await?;
                    let checks = planned.execution.checks(number);
                    if !checks.is_empty() {
                        transaction.check_assertions(checks).await?;
                    }
                    transaction.check_local().await?;
                    Ok(result)
                }
                Work::Statement { statement, entry } => {
                    transaction.enter_statement(entry, needs_entry);
                    let result = statement.execute(transaction, &arguments).await?;
                    transaction
                        .check_deferred(&ConstraintSelection::All)
                        .await?;
                    transaction.check_statement().await?;
                    transaction.check_local().await?;
                    Ok(result)
                }
                Work::Belt(work) => {
                    let answer = transaction.run_belt(&work).await?;
                    Ok(answer.into_result())
                }
                Work::Step(_) => unreachable!("a step runs in its block"),
            }
        });
        open.first_attempt.get_or_insert(transaction);
        let record = (self.options.records).then(|| record(now, &open, transaction));
        if record.is_some() {
            mailbox.borrow_mut().results = Some(Vec::new());
        }
        let attempt = Attempt {
            open,
            cost: Cost::default(),
            transaction,
            mailbox,
            stage: AttemptStage::Running(running),
            record,
            block: None,
            waits: 0,
        };
        if !attempt.open.call.session.is_empty() {
            let session = attempt.open.call.session.clone();
            self.request(now, transaction, Request::Follow(session));
        }
        if attempt.open.call.is_global {
            self.request(now, transaction, Request::Global);
        }
        if matches!(attempt.open.call.work, Work::Belt(_)) {
            self.go_first(now, &attempt.open, transaction);
        } else if self.options.declares
            && (self.belt.is_some() || Self::waits_by_age(&attempt.open))
        {
            // In a ring one order has to have all: a transaction of the belt that queues behind a call without an age would
            // wait for what that call waits for.
            self.wait_by_age(now, &attempt.open, transaction);
        }
        let first = if declared.is_empty() {
            Next::Poll
        } else {
            Next::Send(Request::Declare(declared))
        };
        self.drive(now, attempt, first, out);
    }

    /// Runs an attempt until it waits or pauses: polls the procedure, passes its requests to the protocol, and
    /// continues with replies that come within the step.
    fn drive(
        &mut self,
        now: Ticks,
        mut attempt: Attempt,
        mut next: Next,
        out: &mut NodeOutbox<P::Message>,
    ) {
        loop {
            next = match next {
                Next::Poll => match self.poll(now, &mut attempt) {
                    Ok(Some(request)) => Next::Send(request),
                    Ok(None) => return self.pause(now, attempt),
                    Err(AttemptEnd::Aborted(reason)) => {
                        return self.aborted(now, attempt, reason, out);
                    }
                    Err(AttemptEnd::Refused(error)) => {
                        return self.refuse(now, attempt, error, out);
                    }
                    Err(AttemptEnd::Stepped(result)) => {
                        return self.stepped(now, attempt, result, out);
                    }
                },
                Next::Send(request) => {
                    let transaction = attempt.transaction;
                    attempt.note_request(&request);
                    let request = Input::Request {
                        transaction,
                        request,
                    };
                    let messages = self.out.messages.len();
                    self.step_protocol(now, request);
                    attempt.cost.messages += (self.out.messages.len() - messages) as u32;
                    match self
                        .out
                        .replies
                        .iter()
                        .position(|(to, _)| *to == transaction)
                    {
                        Some(at) => Next::Resume(self.out.replies.remove(at).1),
                        None => return self.wait(now, attempt),
                    }
                }
                Next::Resume(Reply::Declared) => Next::Poll,
                Next::Resume(Reply::Fetched(mut answers)) => {
                    let is_recorded = |answer: &Fetched| matches!(answer, Fetched::Recorded(_));
                    if answers.iter().any(is_recorded) {
                        answers = attempt.note_answers(answers);
                    }
                    attempt.cost.rows_read += answers.iter().map(rows).sum::<u64>();
                    attempt.mailbox.borrow_mut().response = Some(answers);
                    Next::Poll
                }
                Next::Resume(Reply::Committed {
                    slots,
                    timestamp,
                    session,
                }) => {
                    attempt.end(now, AttemptOutcome::Committed(timestamp), out);
                    let AttemptStage::Committing(mut result) = attempt.stage else {
                        unreachable!("{:?} committed while it runs", attempt.transaction)
                    };
                    result.resolve(&by_slot(slots));
                    if let Some((block, _)) = attempt.block {
                        self.blocks.remove(&block);
                    }
                    let outcome = attempt.open.outcome(now, Ok(result), attempt.cost);
                    out.outcomes.push(Outcome { session, ..outcome });
                    return;
                }
                Next::Resume(Reply::Aborted(reason)) => {
                    return self.aborted(now, attempt, reason, out);
                }
                Next::Resume(reply) => {
                    unreachable!("{reply:?} is no reply to a node's request")
                }
            };
        }
    }

    /// Polls the procedure until it waits, pauses or returns. Returns its request to the protocol (`None` if it
    /// pauses), or why the attempt ends.
    fn poll(&mut self, now: Ticks, attempt: &mut Attempt) -> Result<Option<Request>, AttemptEnd> {
        let AttemptStage::Running(running) = &mut attempt.stage else {
            unreachable!("{:?} is polled while it commits", attempt.transaction)
        };
        match running
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Pending => {
                let mut mailbox = attempt.mailbox.borrow_mut();
                if mailbox.paused {
                    return Ok(None);
                }
                let request = mailbox.request.take();
                Ok(Some(Request::Read(request.expect(
                    "a procedure waits only for its own reads and pauses",
                ))))
            }
            Poll::Ready(result) if attempt.is_step_with_transaction() => {
                let told = result.map_err(|error| match error {
                    TransactionError::Failed(error) => CallError::Failed(error),
                    lost => unreachable!("a lost attempt has no transaction: {lost:?}"),
                });
                Err(AttemptEnd::Stepped(told))
            }
            Poll::Ready(Ok(result)) => {
                let bytes_max = self.limits_of(&attempt.open.call.work).result_bytes_max;
                if is_larger(&result, bytes_max) {
                    self.abort(now, attempt.transaction);
                    return Err(AttemptEnd::Refused(CallError::ResultTooLarge { bytes_max }));
                }
                let effects = attempt.mailbox.borrow_mut().take_effects();
                if let Some(shortage) = self.refuses(&attempt.open.call.work, &effects) {
                    self.abort(now, attempt.transaction);
                    if let Some((block, _)) = &attempt.block {
                        self.blocks.remove(block);
                    }
                    return Err(AttemptEnd::Refused(CallError::Shortage(shortage)));
                }
                attempt.stage = AttemptStage::Committing(result);
                let only_reads = effects.is_empty()
                    && matches!(&attempt.open.call.work, Work::Step(step) if !step.options.validates_reads);
                Ok(Some(match only_reads {
                    true => Request::CommitReads,
                    false => Request::Commit(effects),
                }))
            }
            Poll::Ready(Err(error)) => {
                self.abort(now, attempt.transaction);
                attempt.open.deferral &= !attempt.mailbox.borrow().deferral_failed;
                Err(AttemptEnd::Aborted(match error {
                    TransactionError::Failed(error) => AbortReason::Failed(error),
                    _ => AbortReason::Conflict,
                }))
            }
        }
    }

    /// Sends the protocol the abort of a transaction that has not asked to commit.
    fn abort(&mut self, now: Ticks, transaction: TransactionId) {
        let request = Request::Abort;
        self.step_protocol(
            now,
            Input::Request {
                transaction,
                request,
            },
        );
    }
}

impl<P: Durable> Node<P> {
    /// Recovers after the replay of the log: continues the protocol's open transactions.
    pub fn recover(&mut self, now: Ticks, out: &mut NodeOutbox<P::Message>) {
        self.steps += 1;
        self.protocol.recover(now, &mut self.out);
        self.deliver(now, out);
    }
}

/// The bits of a transaction's number below those of the node's incarnation. Of the 48 bits that a unique
/// number has for both, they leave 4,096 incarnations with 68 thousand million attempts each.
const INCARNATION_SHIFT: u32 = 36;

/// The record of an attempt that begins.
fn record(now: Ticks, open: &OpenCall, transaction: TransactionId) -> Box<AttemptRecord> {
    Box::new(AttemptRecord {
        transaction,
        call: open.call.id,
        work: open.call.work.clone(),
        arguments: Arc::clone(&open.call.arguments),
        attempt: open.attempts,
        began: now,
        ended: None,
        reads: Vec::new(),
        results: Vec::new(),
        effects: Vec::new(),
        outcome: AttemptOutcome::Open,
    })
}

/// The number of rows in an answer.
fn rows(answer: &Fetched) -> u64 {
    match answer {
        Fetched::Point(row) => u64::from(row.is_some()),
        Fetched::Range(rows) => rows.len() as u64,
        Fetched::Locked | Fetched::Recorded(_) => 0,
    }
}

/// Moves all of `from` to the end of `to`.
fn append_all<T>(from: &mut Vec<T>, to: &mut Vec<T>) {
    if to.is_empty() {
        std::mem::swap(from, to);
    } else if !from.is_empty() {
        to.append(from);
    }
}

/// The values of slots, indexed by slot; NULL where none was produced.
fn by_slot(slots: Vec<(SlotId, Value)>) -> Vec<Value> {
    let count = slots
        .iter()
        .map(|(slot, _)| slot.index() + 1)
        .max()
        .unwrap_or(0);
    let mut values = vec![Value::Null; count];
    for (slot, value) in slots {
        values[slot.index()] = value;
    }
    values
}
