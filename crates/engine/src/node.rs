//! A node: takes calls, runs their procedures over a protocol, retries what deserves it.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use anabranch_protocol::link::Incarnation;
use anabranch_protocol::{
    AbortReason, Durable, Input, Outbox, PartitionRead, Protocol, Record, Reply, Request, Session,
    TimerId, TransactionId,
};
use anabranch_sql::application::ResultSet;
use anabranch_sql::transaction::TransactionError;
use anabranch_types::random::mix;
use anabranch_types::{
    Access, Activity, ActivityProbe, ColumnIndex, Fetched, NodeId, PartitionId, Read, SlotId,
    TableId, Ticks, Value,
};
use rustc_hash::FxHashMap;

use crate::application::PlannedApplication;
use crate::backoff::Backoff;
use crate::call::{Call, CallError, Outcome, Retries, Work};
use crate::limits::TransactionLimits;
use crate::record::{AttemptOutcome, AttemptRecord, RecordedRead};
use crate::routing::Target;
use crate::sequence::{NodeSequences, SequenceStarts};
use crate::transaction::{AttemptIdentity, Mailbox, NodeTransaction};

/// Settings of a node.
#[derive(Clone, Copy, Debug)]
pub struct NodeOptions {
    /// Whether the protocol wants to know a transaction's accesses before it runs
    /// ([`Request::Declare`]).
    pub declares: bool,
    /// How long to wait before an aborted attempt is made again.
    pub backoff: Backoff,
    /// A call is given up after this many attempts.
    pub attempts_max: u32,
    /// How large a transaction may become.
    pub limits: TransactionLimits,
    /// What [`Ticks`] 0 is in microseconds since 2000-01-01 00:00:00 UTC, for `now()`.
    pub epoch_micros: i64,
    /// Which life of the node this is: names of transactions begin with it.
    pub incarnation: Incarnation,
    /// Whether each attempt leaves an [`AttemptRecord`] in [`NodeOutbox::attempts`].
    pub records: bool,
}

impl Default for NodeOptions {
    fn default() -> Self {
        NodeOptions {
            declares: false,
            backoff: Backoff::default(),
            attempts_max: 1_000,
            limits: TransactionLimits::default(),
            epoch_micros: 0,
            incarnation: Incarnation::FIRST,
            records: false,
        }
    }
}

/// What a node is given.
#[derive(Clone, Debug)]
pub enum NodeInput<M> {
    /// A client's call.
    Call(Call),
    /// Another node's message.
    Message {
        /// Which node.
        from: NodeId,
        /// What it says.
        message: M,
    },
    /// Time has passed: timers that are due run out.
    Tick,
    /// Another node has come back without what it had not made durable. Before the first message of
    /// its new life.
    Restarted {
        /// Which node.
        node: NodeId,
    },
}

/// What follows from one or more inputs. The driver empties it after each batch.
#[derive(Clone, Debug)]
pub struct NodeOutbox<M> {
    /// To be appended to the node's log before anything else leaves, if it keeps one: see
    /// [`anabranch_protocol::Outbox::records`].
    pub records: Vec<Record>,
    /// To other nodes, in order for each destination.
    pub messages: Vec<(NodeId, M)>,
    /// To clients.
    pub outcomes: Vec<Outcome>,
    /// Attempts that have ended, if the node records them.
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
    /// Whether anything is to leave the node, records not counted.
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
    /// Attempts that wait for the protocol, by sequence.
    waiting: FxHashMap<u64, Attempt>,
    alarms: BinaryHeap<Reverse<Alarm>>,
    next_sequence: u64,
    next_alarm: u64,
    /// Numbers for identity columns.
    sequences: Rc<NodeSequences>,
    probe: ActivityProbe,
    /// How many steps its protocol has taken.
    steps: u64,
}

/// One attempt of one call.
struct Attempt {
    call: Call,
    attempt: u32,
    retries: Retries,
    deferral: bool,
    transaction: TransactionId,
    mailbox: Rc<RefCell<Mailbox>>,
    stage: Stage,
    /// What is told of it when it ends, if somebody wants to know.
    record: Option<Box<AttemptRecord>>,
}

type Running = Pin<Box<dyn Future<Output = Result<ResultSet, TransactionError>>>>;

impl Attempt {
    /// Takes note of what is asked.
    fn note_request(&mut self, request: &Request) {
        let Some(record) = &mut self.record else {
            return;
        };
        match request {
            Request::Read(reads) => record.reads.extend(reads.iter().map(|asked| RecordedRead {
                partition: asked.partition,
                read: asked.read.clone(),
                fetched: Fetched::Range(Vec::new()),
            })),
            Request::Commit(effects) => record.effects.clone_from(effects),
            _ => {}
        }
    }

    /// Takes note of the answers to the last reads, and gives them as the procedure wants them.
    fn note_answers(&mut self, answers: Vec<Fetched>) -> Vec<Fetched> {
        if let Some(record) = &mut self.record {
            let first = record.reads.len() - answers.len();
            for (read, answer) in record.reads[first..].iter_mut().zip(&answers) {
                read.fetched.clone_from(answer);
            }
        }
        answers.into_iter().map(Fetched::into_answer).collect()
    }

    /// Hands out the record.
    fn end<M>(&mut self, now: Ticks, outcome: AttemptOutcome, out: &mut NodeOutbox<M>) {
        if let Some(mut record) = self.record.take() {
            record.ended = Some(now);
            record.outcome = outcome;
            out.attempts.push(*record);
        }
    }
}

/// How far an attempt has come.
enum Stage {
    /// The procedure runs, or waits for a read (or, before its first step, for its declaration).
    Running(Running),
    /// The procedure has returned this; its effects are being committed.
    Committing(ResultSet),
}

/// What is to be done next with an attempt.
enum Next {
    /// Let the procedure run.
    Poll,
    /// Hand its request to the protocol.
    Ask(Request),
    /// Give it the protocol's answer.
    Take(Reply),
}

/// Something that happens at a time: kept in a heap, ties broken by order of setting.
struct Alarm {
    at: Ticks,
    order: u64,
    what: AlarmKind,
}

enum AlarmKind {
    Protocol(TimerId),
    Retry(Box<Retry>),
}

struct Retry {
    call: Call,
    attempt: u32,
    retries: Retries,
    deferral: bool,
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
    /// A node that has seen nothing yet; `home` is the partition that its protocol owns.
    pub fn new(
        id: NodeId,
        home: PartitionId,
        planned: Arc<PlannedApplication>,
        protocol: P,
        options: NodeOptions,
    ) -> Node<P> {
        let partitions = planned.execution.router.partitions();
        Node {
            id,
            home,
            planned,
            options,
            protocol,
            out: Outbox::default(),
            waiting: FxHashMap::default(),
            alarms: BinaryHeap::new(),
            // A life's transactions have names of their own.
            next_sequence: options.incarnation.0.saturating_sub(1) << INCARNATION_SHIFT,
            next_alarm: 0,
            probe: ActivityProbe::default(),
            steps: 0,
            sequences: Rc::new(NodeSequences::new(home, partitions)),
        }
    }

    /// The same node, giving identity and serial columns only numbers above what the cluster's
    /// tables hold.
    #[must_use]
    pub fn with_sequence_starts(self, starts: &SequenceStarts) -> Node<P> {
        self.sequences.start_after(starts);
        self
    }

    /// Sequences that have passed what was written down of them, and up to where they may go from
    /// now on.
    pub(crate) fn passed_bounds(&self) -> Vec<(TableId, ColumnIndex, i64)> {
        self.sequences.passed_bounds()
    }

    /// From now on says to this probe what it is at.
    pub fn observe(&mut self, probe: ActivityProbe) {
        self.protocol.observe(probe.clone());
        self.probe = probe;
    }

    /// Its protocol, to look at.
    pub fn protocol(&self) -> &P {
        &self.protocol
    }

    /// How many steps its protocol has taken, recovery being one: while this stays the same, so does the
    /// protocol.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Gives up the node for its protocol, and so its store.
    pub fn into_protocol(self) -> P {
        self.protocol
    }

    /// Calls that are running or waiting to be retried.
    pub fn calls(&self) -> usize {
        let retries = self
            .alarms
            .iter()
            .filter(|a| matches!(a.0.what, AlarmKind::Retry(_)))
            .count();
        self.waiting.len() + retries
    }

    /// The records of attempts that have not ended, in the order in which they began: what a node
    /// that is lost would have left behind.
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

    /// When the next timer is due.
    pub fn next_alarm(&self) -> Option<Ticks> {
        self.alarms.peek().map(|alarm| alarm.0.at)
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
                let fresh = Retry {
                    call,
                    attempt: 1,
                    retries: Retries::default(),
                    deferral: true,
                };
                self.start(now, fresh, out);
            }
            NodeInput::Message { from, message } => {
                self.tell(now, Input::Message { from, message });
            }
            NodeInput::Tick => self.ring(now, out),
            NodeInput::Restarted { node } => {
                self.tell(now, Input::Restarted { node });
            }
        }
        self.settle(now, out);
        self.probe.enter(before);
    }

    /// Has the protocol take one input.
    fn tell(&mut self, now: Ticks, input: Input<P::Message>) {
        let before = self.probe.enter(Activity::Protocol);
        self.steps += 1;
        self.protocol.step(now, input, &mut self.out);
        self.probe.enter(before);
    }

    /// Runs every timer that is due.
    fn ring(&mut self, now: Ticks, out: &mut NodeOutbox<P::Message>) {
        while self.alarms.peek().is_some_and(|alarm| alarm.0.at <= now) {
            let Some(Reverse(alarm)) = self.alarms.pop() else {
                return;
            };
            match alarm.what {
                AlarmKind::Protocol(timer) => {
                    self.tell(now, Input::Timer(timer));
                }
                AlarmKind::Retry(retry) => self.start(now, *retry, out),
            }
            self.settle(now, out);
        }
    }

    /// Delivers what the protocol has answered to whom it concerns, until nothing is left to do.
    fn settle(&mut self, now: Ticks, out: &mut NodeOutbox<P::Message>) {
        // One at most, nearly always; what follows from one comes behind the others.
        while !self.out.replies.is_empty() {
            let (transaction, reply) = self.out.replies.remove(0);
            // A reply to an attempt that is gone answers a request that was overtaken by its end.
            if let Some(attempt) = self.waiting.remove(&transaction.sequence) {
                self.drive(now, attempt, Next::Take(reply), out);
            }
        }
        hand_on(&mut self.out.records, &mut out.records);
        hand_on(&mut self.out.messages, &mut out.messages);
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

    /// Makes an attempt of a call.
    fn start(&mut self, now: Ticks, retry: Retry, out: &mut NodeOutbox<P::Message>) {
        let Retry {
            call,
            attempt,
            retries,
            deferral,
        } = retry;
        self.next_sequence += 1;
        let transaction = TransactionId {
            node: self.id,
            sequence: self.next_sequence,
        };
        let mailbox = Mailbox::new(self.options.limits);
        let identity = AttemptIdentity {
            home: self.home,
            unique: u64::from(self.id.0) << 48 | transaction.sequence,
            timestamp: self
                .options
                .epoch_micros
                .saturating_add(now.as_micros() as i64),
            deferral,
        };
        let mut procedure_transaction = NodeTransaction::new(
            Arc::clone(&self.planned),
            identity,
            Rc::clone(&mailbox),
            Rc::clone(&self.sequences),
        );
        let planned = Arc::clone(&self.planned);
        let (work, arguments) = (call.work.clone(), Arc::clone(&call.arguments));
        let declared = if self.options.declares {
            self.declared(&call)
        } else {
            Vec::new()
        };
        let running: Running = Box::pin(async move {
            let transaction = &mut procedure_transaction;
            match work {
                Work::Procedure(number) => {
                    let procedure = &planned.application.procedures[number];
                    let result = procedure.call(transaction, &arguments).await?;
                    if !planned.execution.checks(number).is_empty() {
                        transaction.check_assertions(number).await?;
                    }
                    Ok(result)
                }
                Work::Statement(statement) => statement.execute(transaction, &arguments).await,
            }
        });
        let record = self.options.records.then(|| {
            Box::new(AttemptRecord {
                transaction,
                call: call.id,
                work: call.work.clone(),
                arguments: Arc::clone(&call.arguments),
                attempt,
                began: now,
                ended: None,
                reads: Vec::new(),
                effects: Vec::new(),
                outcome: AttemptOutcome::Open,
            })
        });
        let attempt = Attempt {
            call,
            attempt,
            retries,
            deferral,
            transaction,
            mailbox,
            stage: Stage::Running(running),
            record,
        };
        if !attempt.call.session.is_empty() {
            let request = Request::Follow(attempt.call.session.clone());
            self.tell(
                now,
                Input::Request {
                    transaction,
                    request,
                },
            );
        }
        let first = if declared.is_empty() {
            Next::Poll
        } else {
            Next::Ask(Request::Declare(declared))
        };
        self.drive(now, attempt, first, out);
    }

    /// The accesses that are known before the procedure runs, sorted by partition and key, each
    /// once.
    fn declared(&self, call: &Call) -> Vec<PartitionRead> {
        let router = &self.planned.execution.router;
        let Work::Procedure(number) = call.work else {
            return Vec::new();
        };
        let procedure = &self.planned.application.procedures[number];
        let mut declared: Vec<PartitionRead> = Vec::new();
        for (_, for_write, read) in procedure.declared_reads(&call.arguments) {
            let partitions = match router.read(&read) {
                Target::One(partition) => partition.0..partition.0 + 1,
                Target::Anywhere => continue,
                Target::Everywhere => 0..router.partitions(),
            };
            let access = Access {
                for_write,
                guard: false,
            };
            declared.extend(partitions.map(|partition| PartitionRead {
                partition: PartitionId(partition),
                read: read.clone(),
                access,
            }));
        }
        declared.sort_by(|a, b| {
            a.partition
                .cmp(&b.partition)
                .then_with(|| place(&a.read).cmp(&place(&b.read)))
        });
        declared.dedup_by(|next, kept| {
            let same = next.partition == kept.partition && same_items(&next.read, &kept.read);
            if same {
                kept.access.for_write |= next.access.for_write;
            }
            same
        });
        declared
    }

    /// Takes an attempt as far as it comes without waiting for others: lets the procedure run,
    /// hands its requests to the protocol, and goes on with answers that come within the step.
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
                    Ok(request) => Next::Ask(request),
                    Err(reason) => return self.aborted(now, attempt, reason, out),
                },
                Next::Ask(request) => {
                    let transaction = attempt.transaction;
                    attempt.note_request(&request);
                    let request = Input::Request {
                        transaction,
                        request,
                    };
                    self.tell(now, request);
                    match self
                        .out
                        .replies
                        .iter()
                        .position(|(to, _)| *to == transaction)
                    {
                        Some(at) => Next::Take(self.out.replies.remove(at).1),
                        None => {
                            self.waiting.insert(transaction.sequence, attempt);
                            return;
                        }
                    }
                }
                Next::Take(Reply::Declared) => Next::Poll,
                Next::Take(Reply::Fetched(mut answers)) => {
                    if matches!(answers.first(), Some(Fetched::Recorded(_))) {
                        answers = attempt.note_answers(answers);
                    }
                    attempt.mailbox.borrow_mut().response = Some(answers);
                    Next::Poll
                }
                Next::Take(Reply::Committed {
                    slots,
                    timestamp,
                    session,
                }) => {
                    attempt.end(now, AttemptOutcome::Committed(timestamp), out);
                    let Stage::Committing(mut result) = attempt.stage else {
                        unreachable!("{:?} committed while it runs", attempt.transaction)
                    };
                    result.resolve(&by_slot(slots));
                    let Attempt { call, retries, .. } = attempt;
                    out.outcomes.push(Outcome {
                        id: call.id,
                        result: Ok(result),
                        retries,
                        session,
                    });
                    return;
                }
                Next::Take(Reply::Aborted(reason)) => {
                    return self.aborted(now, attempt, reason, out);
                }
                Next::Take(reply) => {
                    unreachable!("{reply:?} answers nothing that a node asks")
                }
            };
        }
    }

    /// Lets the procedure run until it waits or returns. What it then asks of the protocol, or why
    /// the attempt ends.
    fn poll(&mut self, now: Ticks, attempt: &mut Attempt) -> Result<Request, AbortReason> {
        let Stage::Running(running) = &mut attempt.stage else {
            unreachable!(
                "{:?} was asked to go on while it commits",
                attempt.transaction
            )
        };
        match running
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Pending => {
                let request = attempt.mailbox.borrow_mut().request.take();
                Ok(Request::Read(
                    request.expect("a procedure waits for its own reads alone"),
                ))
            }
            Poll::Ready(Ok(result)) => {
                attempt.stage = Stage::Committing(result);
                Ok(Request::Commit(attempt.mailbox.borrow_mut().take_effects()))
            }
            Poll::Ready(Err(error)) => {
                let transaction = attempt.transaction;
                let abort = Input::Request {
                    transaction,
                    request: Request::Abort,
                };
                self.tell(now, abort);
                attempt.deferral &= !attempt.mailbox.borrow().deferral_failed;
                Err(match error {
                    TransactionError::Failed(error) => AbortReason::Failed(error),
                    _ => AbortReason::Conflict,
                })
            }
        }
    }

    /// Ends an attempt that did not commit: with an outcome, or to be made again.
    fn aborted(
        &mut self,
        now: Ticks,
        mut attempt: Attempt,
        reason: AbortReason,
        out: &mut NodeOutbox<P::Message>,
    ) {
        if attempt.record.is_some() {
            attempt.end(now, AttemptOutcome::Aborted(reason.clone()), out);
        }
        let Attempt {
            call,
            attempt: number,
            mut retries,
            mut deferral,
            ..
        } = attempt;
        let name = reason.name();
        match reason {
            AbortReason::Failed(error) => {
                let result = Err(CallError::Failed(error));
                out.outcomes.push(Outcome {
                    id: call.id,
                    result,
                    retries,
                    session: Session::default(),
                });
                return;
            }
            AbortReason::InDoubt => {
                out.outcomes.push(Outcome {
                    id: call.id,
                    result: Err(CallError::InDoubt),
                    retries,
                    session: Session::default(),
                });
                return;
            }
            AbortReason::Restarted => retries.restarted += 1,
            AbortReason::Fractured => retries.fractured += 1,
            AbortReason::BelowFloor => retries.below_floor += 1,
            AbortReason::RowMissing => {
                retries.row_missing += 1;
                deferral = false;
            }
            _ => retries.conflict += 1,
        }
        if number >= self.options.attempts_max {
            let error = CallError::TooManyRetries {
                attempts: number,
                reason: name,
            };
            out.outcomes.push(Outcome {
                id: call.id,
                result: Err(error),
                retries,
                session: Session::default(),
            });
            return;
        }
        let identity = mix(call.id.0 ^ u64::from(self.id.0) << 48);
        let at = now + self.options.backoff.wait(identity, number);
        let retry = Retry {
            call,
            attempt: number + 1,
            retries,
            deferral,
        };
        self.set_alarm(at, AlarmKind::Retry(Box::new(retry)));
    }
}

impl<P: Durable> Node<P> {
    /// What it had made durable has been replayed: goes on with what was under way.
    pub fn recover(&mut self, now: Ticks, out: &mut NodeOutbox<P::Message>) {
        self.steps += 1;
        self.protocol.recover(now, &mut self.out);
        self.settle(now, out);
    }
}

/// A transaction's number has so many bits below those of the node's life: enough for 68 thousand
/// million attempts in each of 4,096 lives, in the 48 bits that a unique number leaves for it.
const INCARNATION_SHIFT: u32 = 36;

/// Appends all of `from` to `to`.
fn hand_on<T>(from: &mut Vec<T>, to: &mut Vec<T>) {
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

/// Where a read stands in the order in which items are declared.
fn place(read: &Read) -> (u16, u32, Vec<u8>, Vec<u8>) {
    let index =
        |index: &Option<anabranch_types::IndexId>| index.map_or(0, |index| u32::from(index.0) + 1);
    match read {
        Read::Point { table, key } => (table.0, 0, key.as_bytes().to_vec(), Vec::new()),
        Read::Range {
            table,
            index: i,
            range,
            ..
        } => {
            let bytes = |key: Option<anabranch_types::Key>| {
                key.map_or_else(Vec::new, |key| key.as_bytes().to_vec())
            };
            (table.0, index(i), bytes(range.start()), bytes(range.end()))
        }
    }
}

/// Whether two reads name the same items, whatever their order and limit.
fn same_items(a: &Read, b: &Read) -> bool {
    match (a, b) {
        (Read::Point { table: t, key: k }, Read::Point { table: u, key: l }) => t == u && k == l,
        (
            Read::Range {
                table: t,
                index: i,
                range: r,
                reverse: v,
                limit: n,
            },
            Read::Range {
                table: u,
                index: j,
                range: s,
                reverse: w,
                limit: m,
            },
        ) => t == u && i == j && r == s && v == w && n == m,
        _ => false,
    }
}
