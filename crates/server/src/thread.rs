//! The loop of one node's thread: take all input, step the node through it, begin some of the waiting
//! calls, send the output, sleep.
//!
//! Messages go before calls. A message belongs to a transaction that has begun: to finish these first
//! keeps few transactions open, and their data in the processor's caches.
//!
//! A thread may own connections of clients ([`Frontend`]): it then sleeps in their poll.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use anabranch_engine::{
    Admission, AttemptRecord, BlockId, Call, CallError, CallId, DetachedBlock, HandedOver, Node,
    NodeInput, NodeOutbox, Outcome,
};
use anabranch_protocol::Protocol;
use anabranch_storage::LogError;
use anabranch_types::{Activity, ActivityProbe, NodeId, Ticks};

use crate::backup_step::BackupStep;
use crate::frontend::{Frontend, NodeRequest, Note};
use crate::inbox::Inbox;
use crate::options::ClusterOptions;
use crate::room::RoomGauge;
use crate::syncer::Synced;

/// Something to do with a node, between two steps.
pub(crate) type Look<P> = Box<dyn FnOnce(&mut Node<P>) + Send>;

/// What a node's thread receives.
pub(crate) enum Envelope<P: Protocol> {
    /// Messages from another node, not to be looked at before `due`.
    Messages {
        from: NodeId,
        due: Option<Instant>,
        messages: Vec<P::Message>,
    },
    /// Calls from a client, whose outcomes go to its inbox.
    Calls { client: u32, calls: Vec<Call> },
    /// A new client.
    Client {
        client: u32,
        outcomes: Arc<Inbox<Outcome>>,
    },
    /// Cancel a call.
    Cancel(CallId),
    /// Outcomes of calls that this thread's connections have made at another node.
    Outcomes(Vec<Outcome>),
    /// Connections, for this thread to own.
    Own(Box<dyn Frontend>),
    /// Something for this thread's connections.
    Note(Note),
    /// Something to do with the node, between two steps.
    Inspect(Look<P>),
    /// End the attempt of a block at rest.
    Suspend(BlockId),
    /// Take a block out of the node.
    TakeBlock {
        block: BlockId,
        taken: SyncSender<Option<DetachedBlock>>,
    },
    /// A request to report how busy the node is.
    Report(SyncSender<Report>),
    /// A sync of this node's disk has ended.
    Synced(Synced),
    /// A step of a backup.
    Backup(BackupStep),
    /// Nothing: the node takes a turn.
    Wake,
    /// End.
    Halt,
}

/// How busy a node is. A cluster is idle when no node has calls and every message that was sent has
/// been received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Calls that have no outcome, and 1 if output waits for the disk.
    pub calls: usize,
    pub sent: u64,
    pub received: u64,
}

/// An attempt that a node has recorded ([`anabranch_engine::NodeOptions::records`]).
#[derive(Clone, Debug)]
pub struct EndedAttempt {
    /// The node's record. Its times are of [`crate::Cluster::clock`], read before the step in question.
    pub record: AttemptRecord,
    /// A time of that clock between the attempt's end and the moment when its client could learn of it.
    pub ended: Ticks,
}

/// What a node's thread returns.
pub(crate) struct Ended<P> {
    pub node: HandedOver<P>,
    /// In the order in which they ended.
    pub attempts: Vec<EndedAttempt>,
    /// The connections that the thread owned.
    pub frontend: Option<Box<dyn Frontend>>,
}

/// The clock that all threads of a cluster share.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub(crate) start: Instant,
}

impl Clock {
    fn now(&self) -> Ticks {
        self.ticks(Instant::now())
    }

    /// The time at an instant; 0 before the cluster was started.
    pub fn ticks(&self, instant: Instant) -> Ticks {
        let since = instant.saturating_duration_since(self.start);
        Ticks(since.as_nanos() as u64)
    }

    fn instant(&self, ticks: Ticks) -> Instant {
        self.start + Duration::from_nanos(ticks.0)
    }
}

/// Messages in flight: a heap by time of arrival, ties in order of sending.
struct InFlight<M> {
    due: Instant,
    order: u64,
    from: NodeId,
    messages: Vec<M>,
}

impl<M> PartialEq for InFlight<M> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<M> Eq for InFlight<M> {}

impl<M> PartialOrd for InFlight<M> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<M> Ord for InFlight<M> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}

/// A node, with or without a log, as its thread drives it.
pub(crate) trait Driven<P: Protocol> {
    /// The default of [`ClusterOptions::calls_a_turn_max`]; `None` for all that have arrived.
    const CALLS_A_TURN_MAX: Option<NonZeroUsize>;

    /// Takes one input. Its output may be in `out` only after [`Driven::flush`].
    fn step(&mut self, now: Ticks, input: NodeInput<P::Message>, out: &mut NodeOutbox<P::Message>);

    /// Ends a batch: puts all output that may be sent into `out`.
    fn flush(&mut self, out: &mut NodeOutbox<P::Message>) -> Result<(), LogError>;

    /// The node itself, between two steps.
    fn node(&mut self) -> &mut Node<P>;

    /// Which transactions its disk has room for.
    fn admission(&self) -> Admission {
        Admission::All
    }

    /// Lets the node commit no more than this, beside what its disk has room for.
    fn limit_admission(&mut self, admission: Admission);

    /// Continues as far as the disk has room now; called from time to time while it has too little.
    fn make_room(&mut self, _: &mut NodeOutbox<P::Message>) -> Result<(), LogError> {
        Ok(())
    }

    /// Takes the end of a sync.
    fn synced(&mut self, _: Synced, _: &mut NodeOutbox<P::Message>) -> Result<(), LogError> {
        Ok(())
    }

    /// Does a step of a backup. A node without a log drops it, and with it the way to answer.
    fn back_up(&mut self, _: BackupStep) {}

    /// Whether another turn has something to do, even without input.
    fn is_busy(&self) -> bool {
        false
    }

    /// Whether output waits for the disk.
    fn holds_output(&self) -> bool {
        false
    }

    /// Gives up the node.
    fn hand_over(self) -> HandedOver<P>;
}

impl<P: Protocol> Driven<P> for Node<P> {
    const CALLS_A_TURN_MAX: Option<NonZeroUsize> = NonZeroUsize::new(8);

    #[inline]
    fn step(&mut self, now: Ticks, input: NodeInput<P::Message>, out: &mut NodeOutbox<P::Message>) {
        Node::step(self, now, input, out);
    }

    fn flush(&mut self, _: &mut NodeOutbox<P::Message>) -> Result<(), LogError> {
        Ok(())
    }

    fn node(&mut self) -> &mut Node<P> {
        self
    }

    fn limit_admission(&mut self, admission: Admission) {
        self.admit(admission);
    }

    fn hand_over(self) -> HandedOver<P> {
        Node::hand_over(self)
    }
}

/// What the threads of a cluster share.
pub(crate) struct Shared<P: Protocol> {
    pub inboxes: Arc<[Inbox<Envelope<P>>]>,
    pub clock: Clock,
    pub room: Arc<RoomGauge>,
}

/// A node's thread.
pub(crate) struct NodeThread<P: Protocol, N> {
    pub id: NodeId,
    pub node: N,
    pub inboxes: Arc<[Inbox<Envelope<P>>]>,
    pub clock: Clock,
    pub delay: Duration,
    /// The most calls that are begun in a turn; `None` for all that have arrived.
    calls_a_turn_max: Option<NonZeroUsize>,
    outcomes_at_once: usize,
    /// The clients, by number. The connections of node `n`'s thread are client `n`.
    clients: Vec<Option<ClientEnd>>,
    /// The connections that this thread owns.
    frontend: Option<Box<dyn Frontend>>,
    requests: Vec<(NodeId, NodeRequest)>,
    /// Outcomes that are not handed over to clients yet.
    outcomes: usize,
    /// Calls that have arrived and are not begun, in order.
    calls: VecDeque<Call>,
    in_flight: BinaryHeap<Reverse<InFlight<P::Message>>>,
    order: u64,
    out: NodeOutbox<P::Message>,
    outgoing: Vec<Vec<P::Message>>,
    /// Attempts that have ended, if the node records them.
    attempts: Vec<EndedAttempt>,
    sent: u64,
    received: u64,
    probe: ActivityProbe,
    /// What all nodes have room for.
    room: Arc<RoomGauge>,
    /// When to look for room again, while the disk has too little.
    room_due: Option<Instant>,
    /// What the node was let commit last, beside what its own disk has room for.
    admission: Admission,
    /// Why the disk has failed.
    failed: Option<LogError>,
}

/// How often a node that refuses writes, because its disk is full or memory is short, looks for room.
const LOOK_FOR_ROOM_EVERY: Duration = Duration::from_millis(250);
/// The most versions that are dropped at such a look: some milliseconds' work.
const COLLECTED_AT_A_LOOK: usize = 8_192;

struct ClientEnd {
    inbox: OutcomeInbox,
    outcomes: Vec<Outcome>,
}

/// Where a client's outcomes go.
enum OutcomeInbox {
    /// To a client of its own thread.
    Client(Arc<Inbox<Outcome>>),
    /// To the connections of a node's thread.
    Connections(NodeId),
}

/// The bits of a [`anabranch_engine::CallId`] that number a client; the rest number its calls.
pub(crate) const CLIENT_BITS: u32 = 20;

impl<P: Protocol, N: Driven<P>> NodeThread<P, N> {
    pub(crate) fn new(
        id: NodeId,
        node: N,
        shared: Shared<P>,
        options: &ClusterOptions,
        probe: ActivityProbe,
    ) -> NodeThread<P, N> {
        let Shared {
            inboxes,
            clock,
            room,
        } = shared;
        let outgoing = inboxes.iter().map(|_| Vec::new()).collect();
        let connections = (0..inboxes.len() as u16).map(|node| {
            Some(ClientEnd {
                inbox: OutcomeInbox::Connections(NodeId(node)),
                outcomes: Vec::new(),
            })
        });
        NodeThread {
            id,
            node,
            inboxes,
            clock,
            delay: options.delay,
            calls_a_turn_max: options.calls_a_turn_max.or(N::CALLS_A_TURN_MAX),
            outcomes_at_once: options.outcomes_at_once,
            clients: connections.collect(),
            frontend: None,
            requests: Vec::new(),
            outcomes: 0,
            calls: VecDeque::new(),
            in_flight: BinaryHeap::new(),
            order: 0,
            out: NodeOutbox::default(),
            outgoing,
            attempts: Vec::new(),
            sent: 0,
            received: 0,
            probe,
            room,
            room_due: None,
            admission: Admission::All,
            failed: None,
        }
    }

    /// Runs until [`Envelope::Halt`]. Returns the node's protocol, since a node cannot leave its thread.
    ///
    /// # Errors
    /// When the node's log has failed. No output was sent whose records are not durable.
    pub(crate) fn run(mut self) -> Result<Ended<P>, LogError> {
        let inboxes = Arc::clone(&self.inboxes);
        let inbox = &inboxes[self.id.index()];
        let mut batch = Vec::new();
        self.node.node().observe(self.probe.clone());
        self.probe.enter(Activity::Transport);
        loop {
            let received_before = self.received;
            for envelope in batch.drain(..) {
                if self.open(envelope) {
                    return Ok(Ended {
                        node: self.node.hand_over(),
                        attempts: self.attempts,
                        frontend: self.frontend,
                    });
                }
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            self.look_for_room()?;
            self.receive_due();
            if let Some(frontend) = &mut self.frontend {
                frontend.turn(Instant::now());
                self.send_requests();
            }
            self.begin_calls(self.received > received_before);
            let now = self.clock.now();
            if self.node.node().next_alarm().is_some_and(|at| at <= now) {
                self.node.step(now, NodeInput::Tick, &mut self.out);
            }
            self.node.flush(&mut self.out)?;
            self.flush();
            self.rest(inbox, &mut batch);
        }
    }

    /// Reports what the node's disk has room for, and limits what the node admits by what others have room for.
    fn look_for_room(&mut self) -> Result<(), LogError> {
        if self.node.admission() == Admission::All && self.admission == Admission::All {
            self.room_due = None;
        } else {
            let now = Instant::now();
            if self.room_due.is_some_and(|due| due <= now) {
                let ticks = self.clock.now();
                // Rows that were deleted are neither in a checkpoint nor in memory then.
                self.node
                    .node()
                    .collect_versions(ticks, COLLECTED_AT_A_LOOK);
                self.node.make_room(&mut self.out)?;
                self.room_due = None;
            }
            self.room_due.get_or_insert(now + LOOK_FOR_ROOM_EVERY);
        }
        self.room.set_disk(self.id, self.node.admission());
        let beside = self.room.beside(self.id);
        if self.admission != beside {
            self.admission = beside;
            self.node.limit_admission(beside);
        }
        Ok(())
    }

    /// Takes what has arrived, and sleeps if there is nothing to do.
    fn rest(&mut self, inbox: &Inbox<Envelope<P>>, batch: &mut Vec<Envelope<P>>) {
        let Some(frontend) = &mut self.frontend else {
            inbox.take(batch);
            if batch.is_empty() && self.calls.is_empty() && !self.node.is_busy() {
                self.probe.enter(Activity::Idle);
                inbox.wait(self.next_due(), batch);
                self.probe.enter(Activity::Transport);
            }
            return;
        };
        frontend.flush();
        self.send_requests();
        let due = self.next_due();
        let Some(frontend) = &mut self.frontend else {
            return;
        };
        let is_busy = frontend.is_busy() || !self.calls.is_empty() || self.node.is_busy();
        if is_busy || !inbox.fall_asleep() {
            inbox.take(batch);
            frontend.poll(Some(Instant::now()));
        } else {
            self.probe.enter(Activity::Idle);
            frontend.poll(earlier(due, frontend.next_due()));
            inbox.wake_up(batch);
            self.probe.enter(Activity::Transport);
        }
    }

    /// Sends what the connections request of nodes.
    fn send_requests(&mut self) {
        let Some(frontend) = &mut self.frontend else {
            return;
        };
        frontend.take_requests(&mut self.requests);
        for (node, request) in self.requests.drain(..) {
            let envelope = match request {
                NodeRequest::Call(call) if node == self.id => {
                    self.calls.push_back(call);
                    continue;
                }
                NodeRequest::Call(call) => Envelope::Calls {
                    client: u32::from(self.id.0),
                    calls: vec![call],
                },
                NodeRequest::Cancel(call) => Envelope::Cancel(call),
                NodeRequest::Suspend(block) => Envelope::Suspend(block),
            };
            self.inboxes[node.index()].put(envelope);
        }
    }

    /// Handles one envelope; returns whether the thread has to end.
    fn open(&mut self, envelope: Envelope<P>) -> bool {
        match envelope {
            Envelope::Messages {
                from,
                due: None,
                messages,
            } => self.receive(from, messages),
            Envelope::Messages {
                from,
                due: Some(due),
                messages,
            } => {
                self.order += 1;
                let order = self.order;
                self.in_flight.push(Reverse(InFlight {
                    due,
                    order,
                    from,
                    messages,
                }));
            }
            Envelope::Calls { client, calls } => {
                debug_assert!(
                    self.clients
                        .get(client as usize)
                        .is_some_and(Option::is_some)
                );
                self.calls.extend(calls);
            }
            Envelope::Client { client, outcomes } => {
                let client = client as usize;
                if self.clients.len() <= client {
                    self.clients.resize_with(client + 1, || None);
                }
                self.clients[client] = Some(ClientEnd {
                    inbox: OutcomeInbox::Client(outcomes),
                    outcomes: Vec::new(),
                });
            }
            Envelope::Cancel(call) => self.cancel(call),
            Envelope::Outcomes(outcomes) => {
                if let Some(frontend) = &mut self.frontend {
                    outcomes
                        .into_iter()
                        .for_each(|outcome| frontend.complete(outcome));
                }
            }
            Envelope::Own(frontend) => self.frontend = Some(frontend),
            Envelope::Note(note) => {
                if let Some(frontend) = &mut self.frontend {
                    frontend.note(note);
                }
            }
            Envelope::Inspect(look) => look(self.node.node()),
            Envelope::Suspend(block) => {
                let now = self.clock.now();
                self.node
                    .step(now, NodeInput::Suspend(block), &mut self.out);
            }
            Envelope::TakeBlock { block, taken } => {
                let now = self.clock.now();
                self.node
                    .step(now, NodeInput::Suspend(block), &mut self.out);
                // The receiver is gone if it has waited for too long.
                let _ = taken.send(self.node.node().take_block(block));
            }
            Envelope::Report(report) => {
                // The receiver is gone if another node has failed.
                let _ = report.send(Report {
                    calls: self.node.node().calls()
                        + self.calls.len()
                        + usize::from(self.node.holds_output()),
                    sent: self.sent,
                    received: self.received,
                });
            }
            Envelope::Synced(synced) => {
                if let Err(error) = self.node.synced(synced, &mut self.out) {
                    self.failed.get_or_insert(error);
                }
            }
            Envelope::Backup(step) => self.node.back_up(step),
            Envelope::Wake => {}
            Envelope::Halt => return true,
        }
        false
    }

    /// Cancels a call, begun or not.
    fn cancel(&mut self, id: CallId) {
        let now = self.clock.now();
        match self.calls.iter().position(|call| call.id == id) {
            Some(at) => {
                self.calls.remove(at);
                let cancelled = Outcome::new(id, Err(CallError::Cancelled));
                self.out.outcomes.push(cancelled);
            }
            None => self.node.step(now, NodeInput::Cancel(id), &mut self.out),
        }
    }

    /// Begins some of the waiting calls. If messages have arrived, more may follow: then it begins one
    /// call, so that no stream of messages starves the calls. Enough transactions are then open to cover
    /// the delay of messages, be it short or long.
    fn begin_calls(&mut self, has_received: bool) {
        let most = match self.calls_a_turn_max {
            None => self.calls.len(),
            Some(_) if has_received => 1,
            Some(most) => most.get(),
        };
        for call in self.calls.drain(..most.min(self.calls.len())) {
            let now = self.clock.now();
            self.node.step(now, NodeInput::Call(call), &mut self.out);
        }
    }

    fn receive(&mut self, from: NodeId, messages: Vec<P::Message>) {
        let now = self.clock.now();
        self.received += messages.len() as u64;
        for message in messages {
            self.node
                .step(now, NodeInput::Message { from, message }, &mut self.out);
        }
    }

    /// Receives the messages whose delay is over.
    fn receive_due(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        let now = Instant::now();
        while self.in_flight.peek().is_some_and(|next| next.0.due <= now) {
            if let Some(Reverse(next)) = self.in_flight.pop() {
                self.receive(next.from, next.messages);
            }
        }
    }

    /// Sends all output of this batch, in one envelope for each destination.
    fn flush(&mut self) {
        for (to, message) in self.out.messages.drain(..) {
            self.outgoing[to.index()].push(message);
        }
        let due = (self.delay > Duration::ZERO).then(|| Instant::now() + self.delay);
        for (to, messages) in self.outgoing.iter_mut().enumerate() {
            if !messages.is_empty() {
                let messages = std::mem::take(messages);
                self.sent += messages.len() as u64;
                self.inboxes[to].put(Envelope::Messages {
                    from: self.id,
                    due,
                    messages,
                });
            }
        }
        if !self.out.attempts.is_empty() {
            let ended = self.clock.now();
            let attempts = self.out.attempts.drain(..);
            self.attempts
                .extend(attempts.map(|record| EndedAttempt { record, ended }));
        }
        for outcome in self.out.outcomes.drain(..) {
            let client = (outcome.id.0 >> (64 - CLIENT_BITS)) as usize;
            if let Some(Some(end)) = self.clients.get_mut(client) {
                end.outcomes.push(outcome);
                self.outcomes += 1;
            }
        }
        if self.calls.is_empty() || self.outcomes >= self.outcomes_at_once {
            self.outcomes = 0;
            for end in self.clients.iter_mut().flatten() {
                match (&end.inbox, &mut self.frontend) {
                    (OutcomeInbox::Client(inbox), _) => inbox.put_all(&mut end.outcomes),
                    (OutcomeInbox::Connections(node), Some(frontend)) if *node == self.id => {
                        let outcomes = end.outcomes.drain(..);
                        outcomes.for_each(|outcome| frontend.complete(outcome));
                    }
                    (OutcomeInbox::Connections(node), _) if !end.outcomes.is_empty() => {
                        let outcomes = std::mem::take(&mut end.outcomes);
                        self.inboxes[node.index()].put(Envelope::Outcomes(outcomes));
                    }
                    (OutcomeInbox::Connections(_), _) => {}
                }
            }
        }
    }

    /// The time of the next arrival or alarm.
    fn next_due(&mut self) -> Option<Instant> {
        let arrival = self.in_flight.peek().map(|next| next.0.due);
        let alarm = self
            .node
            .node()
            .next_alarm()
            .map(|at| self.clock.instant(at));
        earlier(earlier(arrival, alarm), self.room_due)
    }
}

/// The earlier of two times, if there is one.
fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use anabranch_engine::{CallError, CallId, Work};
    use anabranch_protocol::ramp::RampNode;

    use super::*;

    type Message = <RampNode as Protocol>::Message;

    /// Counts the calls that are begun, and completes each at once.
    struct Counting<const CALLS_A_TURN: usize>(usize);

    /// For a node whose turns are expensive.
    const EXPENSIVE: usize = 0;

    impl<const CALLS_A_TURN: usize> Driven<RampNode> for Counting<CALLS_A_TURN> {
        const CALLS_A_TURN_MAX: Option<NonZeroUsize> = NonZeroUsize::new(CALLS_A_TURN);

        fn step(&mut self, _: Ticks, input: NodeInput<Message>, out: &mut NodeOutbox<Message>) {
            if let NodeInput::Call(call) = input {
                self.0 += 1;
                out.outcomes
                    .push(Outcome::new(call.id, Err(CallError::InDoubt)));
            }
        }

        fn flush(&mut self, _: &mut NodeOutbox<Message>) -> Result<(), LogError> {
            Ok(())
        }

        fn node(&mut self) -> &mut Node<RampNode> {
            unreachable!("no test inspects it")
        }

        fn limit_admission(&mut self, _: Admission) {}

        fn hand_over(self) -> HandedOver<RampNode> {
            unreachable!("no test stops it")
        }
    }

    type Thread<const CALLS_A_TURN: usize> = NodeThread<RampNode, Counting<CALLS_A_TURN>>;

    /// A thread with so many waiting calls of one client, and the client's inbox.
    fn with_calls<const CALLS_A_TURN: usize>(
        count: u64,
        options: &ClusterOptions,
    ) -> (Thread<CALLS_A_TURN>, Arc<Inbox<Outcome>>) {
        let inboxes: Arc<[Inbox<Envelope<RampNode>>]> = [Inbox::default()].into();
        let start = Instant::now();
        let clock = Clock { start };
        let (node, probe) = (Counting(0), ActivityProbe::default());
        let shared = Shared {
            inboxes,
            clock,
            room: Arc::new(RoomGauge::new(1)),
        };
        let mut thread = NodeThread::new(NodeId(0), node, shared, options, probe);
        let (client, outcomes) = (1_u32, Arc::new(Inbox::default()));
        let arrival = Envelope::Client {
            client,
            outcomes: Arc::clone(&outcomes),
        };
        let id = |number| CallId(u64::from(client) << (64 - CLIENT_BITS) | number);
        let call = |number| Call::new(id(number), Work::Procedure(0), []);
        let calls = (0..count).map(call).collect();
        for envelope in [arrival, Envelope::Calls { client, calls }] {
            assert!(!thread.open(envelope));
        }
        (thread, outcomes)
    }

    fn calls_a_turn(most: usize) -> ClusterOptions {
        ClusterOptions {
            calls_a_turn_max: NonZeroUsize::new(most),
            ..ClusterOptions::default()
        }
    }

    #[test]
    fn messages_go_before_calls_and_starve_none() {
        let (mut thread, _) = with_calls::<3>(10, &ClusterOptions::default());
        let begun = [true, true, false, false, false, false].map(|has_received| {
            thread.begin_calls(has_received);
            thread.node.0
        });
        assert_eq!(begun, [1, 2, 5, 8, 10, 10]);
    }

    /// A durable node would sync for each turn.
    #[test]
    fn where_turns_are_expensive_all_waiting_calls_are_begun() {
        let (mut thread, _) = with_calls::<EXPENSIVE>(10, &ClusterOptions::default());
        thread.begin_calls(true);
        assert_eq!(thread.node.0, 10);
    }

    #[test]
    fn a_limit_that_is_set_holds_for_any_node() {
        fn begun<const CALLS_A_TURN: usize>() -> usize {
            let (mut thread, _) = with_calls::<CALLS_A_TURN>(10, &calls_a_turn(4));
            thread.begin_calls(false);
            thread.node.0
        }
        assert_eq!([begun::<EXPENSIVE>(), begun::<3>(), begun::<9>()], [4; 3]);
    }

    #[test]
    fn outcomes_are_collected_while_calls_wait() {
        let at_once = |options: &ClusterOptions| {
            let (mut thread, inbox) = with_calls::<EXPENSIVE>(50, options);
            [(); 5].map(|()| {
                let mut taken = Vec::new();
                thread.begin_calls(false);
                thread.flush();
                inbox.take(&mut taken);
                taken.len()
            })
        };
        let options = calls_a_turn(10);
        assert_eq!(at_once(&options), [0, 0, 0, 40, 10]);
        let outcomes_at_once = 20;
        let sooner = ClusterOptions {
            outcomes_at_once,
            ..options
        };
        assert_eq!(at_once(&sooner), [0, 20, 0, 20, 10]);
    }
}
