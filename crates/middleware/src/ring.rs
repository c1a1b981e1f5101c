//! One server's part in a ring: the thread that drives the belt's state machine over the server's database.
//!
//! The thread takes events one after the other: operations that want their turn, messages of other servers, timers. Transactions
//! of the belt run on this thread, since the state machine waits for each of them anyway. If the connection to the
//! database is lost, the thread makes another one, and goes on from what the database has.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anabranch_dbms::belt::{Changes, Database, Trouble};
use anabranch_protocol::belt::{
    BeltOptions, BeltServer, Hop, Input, Message, Outbox, Reply, Request, ServerId, Timer,
};
use anabranch_types::Ticks;

use crate::peers::{Membership, Peers};
use crate::waits::Waits;

/// The longest wait between two attempts to reach the database.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The longest sleep of the thread, if nothing is due.
const SLEEP_MAX: Duration = Duration::from_secs(3_600);

/// How long it may take until an operation that waits notices that it is cancelled.
const CANCELLED_AFTER: Duration = Duration::from_millis(100);

/// The settings of a server's part in a ring.
#[derive(Clone, Copy, Debug)]
pub struct RingOptions {
    /// Those of the belt.
    pub belt: BeltOptions,
    /// How long a global operation may take from its arrival, its wait for the token included.
    pub operation_max: Duration,
}

impl Default for RingOptions {
    /// The belt's own defaults, and 30 s for an operation.
    fn default() -> Self {
        RingOptions {
            belt: BeltOptions::default(),
            operation_max: Duration::from_secs(30),
        }
    }
}

/// Why an operation did not get its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTurn {
    /// The token did not come in time. The operation has not run.
    #[error("the token did not come in time; the operation has not run")]
    Expired,
    /// The operation was cancelled. It has not run.
    #[error("the operation was cancelled before its turn")]
    Cancelled,
    /// The middleware ends.
    #[error("the middleware ends; the operation has not run")]
    Ended,
    /// The ring has not come to the hop that was waited for.
    #[error("the ring has not come to that hop")]
    NoSuchHop,
}

/// What the thread is told.
enum Event {
    Operation {
        number: u64,
        deadline: Instant,
        waiter: Sender<Step>,
        canceller: Canceller,
    },
    Ended {
        number: u64,
        committed: bool,
    },
    /// Its session does not wait for an operation any more, whether it runs or not.
    GivenUp(u64),
    Message(ServerId, Message<Changes>),
    Remove(ServerId, Sender<Option<u64>>),
    Stop,
}

/// What cancels an operation that runs, once its session has said how.
type Canceller = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// What the thread tells an operation.
enum Step {
    Run(Hop),
    Expired,
    Answered,
}

/// One server's part in a ring.
pub struct Ring {
    events: Sender<Event>,
    thread: Option<JoinHandle<()>>,
    operation_max: Duration,
    /// The servers that were ever members.
    others: Vec<ServerId>,
    next: AtomicU64,
    /// The last hop that the database has received.
    received: Arc<AtomicU64>,
    waits: Arc<Waits>,
}

/// The permission to run an operation under a hold. It has to run within a transaction that
/// [`begin`](anabranch_dbms::postgres::ring::begin)s under [`Turn::hold`]. Dropped without [`Turn::end`], it counts as one
/// that may have committed.
pub struct Turn {
    hold: Hop,
    number: u64,
    steps: Receiver<Step>,
    events: Sender<Event>,
    canceller: Canceller,
    has_ended: bool,
}

/// Where the thread gets a database from, again after each lost connection.
pub type Connector<D> = Box<dyn FnMut() -> Result<D, Trouble> + Send>;

impl Ring {
    /// Takes part in a ring. Each time that the database is not reached, or refuses a transaction of the belt, `on_trouble` is
    /// told why; the thread then tries again.
    ///
    /// # Errors
    /// When a thread cannot begin.
    pub fn start<D: Database + Send + 'static>(
        membership: &Membership,
        listener: TcpListener,
        connector: Connector<D>,
        options: RingOptions,
        on_trouble: impl FnMut(&Trouble) + Send + 'static,
    ) -> io::Result<Ring> {
        let (events, inbox) = channel();
        let arrived = events.clone();
        let waits = Arc::new(Waits::default());
        let received = Arc::new(AtomicU64::new(0));
        let peers = Peers::start(listener, membership, &waits, move |from, message| {
            // The thread has ended: nothing is left to be told.
            let _ = arrived.send(Event::Message(from, message));
        })?;
        let driver = Driver {
            own: membership.own,
            options: options.belt,
            connector,
            on_trouble: Box::new(on_trouble),
            peers,
            inbox,
            begun: Instant::now(),
            served: None,
            requests: VecDeque::new(),
            timers: BinaryHeap::new(),
            waiters: BTreeMap::new(),
            removals: Vec::new(),
            pause: Duration::ZERO,
            reach_at: Instant::now(),
            received: Arc::clone(&received),
            waits: Arc::clone(&waits),
        };
        let thread = thread::Builder::new()
            .name("belt".to_owned())
            .spawn(move || driver.run())?;
        Ok(Ring {
            events,
            thread: Some(thread),
            operation_max: options.operation_max,
            others: membership
                .others
                .iter()
                .map(|(server, _)| *server)
                .collect(),
            next: AtomicU64::new(0),
            received,
            waits,
        })
    }

    /// Waits until a global operation may run.
    ///
    /// # Errors
    /// When the token does not come in time, or the middleware ends.
    pub fn turn(&self) -> Result<Turn, NoTurn> {
        self.turn_unless(|| false)
    }

    /// The same, for an operation that may be cancelled while it waits.
    ///
    /// # Errors
    /// When the token does not come in time, the operation is cancelled, or the middleware ends.
    pub fn turn_unless(&self, is_cancelled: impl Fn() -> bool) -> Result<Turn, NoTurn> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (waiter, steps) = channel();
        let canceller = Canceller::default();
        let operation = Event::Operation {
            number,
            deadline: Instant::now() + self.operation_max,
            waiter,
            canceller: Arc::clone(&canceller),
        };
        self.events.send(operation).map_err(|_| NoTurn::Ended)?;
        let why = loop {
            match steps.recv_timeout(CANCELLED_AFTER) {
                Ok(Step::Run(hold)) => {
                    return Ok(Turn {
                        hold,
                        number,
                        steps,
                        events: self.events.clone(),
                        canceller,
                        has_ended: false,
                    });
                }
                Ok(Step::Expired | Step::Answered) => break NoTurn::Expired,
                Err(RecvTimeoutError::Timeout) if is_cancelled() => break NoTurn::Cancelled,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break NoTurn::Ended,
            }
        };
        // Its turn may have come meanwhile, and nothing else would end it. An error: the thread has ended.
        let _ = self.events.send(Event::GivenUp(number));
        Err(why)
    }

    /// Whether the database has what was committed under a hold and before.
    pub fn has_received(&self, hop: Hop) -> bool {
        self.received.load(Ordering::Acquire) >= hop.0
    }

    /// Waits until the database has what was committed under a hold. A token that brings nothing new may be parked elsewhere: so
    /// this is an operation that asks for the token, too, and does nothing when it has it.
    ///
    /// # Errors
    /// As [`turn_unless`](Ring::turn_unless); when nothing was committed under that hold yet.
    pub fn catch_up(&self, hop: Hop, is_cancelled: impl Fn() -> bool) -> Result<(), NoTurn> {
        if self.has_received(hop) {
            return Ok(());
        }
        let came = match self.turn_unless(|| is_cancelled() || self.has_received(hop)) {
            Ok(turn) => {
                turn.end(false);
                Err(NoTurn::NoSuchHop)
            }
            Err(why) => Err(why),
        };
        match self.has_received(hop) {
            true => Ok(()),
            false => came,
        }
    }

    /// What the ring waits for at this server, for people; nothing if it waits for nothing.
    pub(crate) fn waits_for<'n>(&self, name: impl Fn(ServerId) -> &'n str) -> Option<String> {
        self.waits.text(name)
    }

    /// Removes a server that will not return. Returns the last of its updates that the ring has, or nothing if it was not
    /// removed.
    pub fn remove(&self, server: ServerId) -> Option<u64> {
        if !self.others.contains(&server) {
            return None;
        }
        let (asked, answer) = channel();
        self.events.send(Event::Remove(server, asked)).ok()?;
        answer.recv().ok().flatten()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // An error: the thread has ended already.
        let _ = self.events.send(Event::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Turn {
    /// The hold under which the operation has to run.
    pub fn hold(&self) -> Hop {
        self.hold
    }

    /// Says how the operation is cancelled, if it still runs at its deadline: otherwise it would hold up the ring.
    pub fn cancel_by(&self, cancel: impl FnOnce() + Send + 'static) {
        let mut canceller = self
            .canceller
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *canceller = Some(Box::new(cancel));
    }

    /// Says that the operation's transaction has ended, and waits until its client may be answered.
    pub fn end(mut self, committed: bool) {
        self.has_ended = true;
        let ended = Event::Ended {
            number: self.number,
            committed,
        };
        if self.events.send(ended).is_ok() {
            // An error: the middleware ends. The operation has committed, and its client may know.
            let _ = self.steps.recv();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.has_ended {
            // Whether its transaction has committed is not known here. The hold is closed behind it in any case.
            let ended = Event::Ended {
                number: self.number,
                committed: true,
            };
            let _ = self.events.send(ended);
        }
    }
}

/// An operation that has not ended.
struct Waiter {
    deadline: Instant,
    steps: Sender<Step>,
    canceller: Canceller,
    is_running: bool,
}

/// The belt and the database, while the database is reached.
struct Served<D> {
    belt: BeltServer<Changes, u64>,
    database: D,
}

struct Driver<D> {
    own: ServerId,
    options: BeltOptions,
    connector: Connector<D>,
    on_trouble: Box<dyn FnMut(&Trouble) + Send>,
    peers: Peers,
    inbox: Receiver<Event>,
    begun: Instant,
    served: Option<Served<D>>,
    /// What the state machine has requested, in order.
    requests: VecDeque<Request<Changes, u64>>,
    timers: BinaryHeap<Reverse<(Ticks, Timer)>>,
    waiters: BTreeMap<u64, Waiter>,
    removals: Vec<(ServerId, Sender<Option<u64>>)>,
    /// The wait after the next failed attempt to reach the database.
    pause: Duration,
    /// When to try again.
    reach_at: Instant,
    received: Arc<AtomicU64>,
    waits: Arc<Waits>,
}

impl<D: Database> Driver<D> {
    fn run(mut self) {
        loop {
            if self.served.is_none() && Instant::now() >= self.reach_at {
                self.reach();
            }
            match self.inbox.recv_timeout(self.sleep()) {
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(event) => self.take_event(event),
                Err(RecvTimeoutError::Timeout) => {}
            }
            // One after each event: a transaction that the database aborts again and again keeps nothing else waiting.
            if let Some(request) = self.requests.pop_front() {
                self.run_request(request);
            }
            self.expire();
            self.run_timers();
        }
    }

    fn now(&self) -> Ticks {
        let nanos = self.begun.elapsed().as_nanos();
        Ticks(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn ticks(&self, at: Instant) -> Ticks {
        let nanos = at.saturating_duration_since(self.begun).as_nanos();
        Ticks(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How long the thread may sleep.
    fn sleep(&self) -> Duration {
        if !self.requests.is_empty() {
            return Duration::ZERO;
        }
        if self.served.is_none() {
            return self.reach_at.saturating_duration_since(Instant::now());
        }
        match self.timers.peek() {
            Some(Reverse((at, _))) => Duration::from_nanos(at.since(self.now()).0),
            None => SLEEP_MAX,
        }
    }

    /// Connects to the database, and goes on from what it has.
    fn reach(&mut self) {
        let reached = (self.connector)().and_then(|mut database| {
            let standing = database.standing()?;
            Ok((database, standing))
        });
        let (database, standing) = match reached {
            Ok(reached) => reached,
            Err(trouble) => {
                (self.on_trouble)(&trouble);
                self.waits.note_trouble(trouble.to_string());
                self.pause = (self.pause * 2).clamp(Duration::from_millis(50), PAUSE_MAX);
                self.reach_at = Instant::now() + self.pause;
                return;
            }
        };
        self.pause = Duration::ZERO;
        self.timers.clear();
        self.requests.clear();
        let mut out = Outbox::default();
        let belt = BeltServer::recover(self.now(), self.own, self.options, standing, &mut out);
        self.waits.note(belt.awaits());
        self.received.store(belt.received().0, Ordering::Release);
        self.served = Some(Served { belt, database });
        self.take_outbox(out);
        let waiting = self.waiters.iter().filter(|(_, waiter)| !waiter.is_running);
        let waiting: Vec<(u64, Instant)> = waiting
            .map(|(number, waiter)| (*number, waiter.deadline))
            .collect();
        for (number, deadline) in waiting {
            self.submit(number, deadline);
        }
    }

    fn submit(&mut self, number: u64, deadline: Instant) {
        let deadline = self.ticks(deadline);
        self.step(Input::Operation {
            operation: number,
            deadline,
        });
    }

    fn take_event(&mut self, event: Event) {
        match event {
            Event::Operation {
                number,
                deadline,
                waiter,
                canceller,
            } => {
                let waiter = Waiter {
                    deadline,
                    steps: waiter,
                    canceller,
                    is_running: false,
                };
                self.waiters.insert(number, waiter);
                self.submit(number, deadline);
            }
            Event::Ended { number, committed } => {
                let operation = number;
                match self.served.is_some() {
                    true => self.step(Input::Ended {
                        operation,
                        committed,
                    }),
                    false => self.answer(number, Step::Answered),
                }
            }
            Event::GivenUp(number) => match self.waiters.remove(&number) {
                Some(waiter) if waiter.is_running => self.step(Input::Ended {
                    operation: number,
                    committed: false,
                }),
                Some(_) => self.step(Input::Withdraw(number)),
                None => {}
            },
            Event::Message(from, message) => self.step(Input::Message { from, message }),
            Event::Remove(server, asked) => {
                self.removals.push((server, asked));
                self.step(Input::Remove(server));
            }
            Event::Stop => {}
        }
    }

    /// Gives the state machine an input. Without a database nothing happens: operations are submitted, and messages come,
    /// again.
    fn step(&mut self, input: Input<Changes, u64>) {
        let now = self.now();
        let mut out = Outbox::default();
        if let Some(served) = &mut self.served {
            served.belt.step(now, input, &mut out);
            self.waits.note(served.belt.awaits());
            // Before an operation of the new hold runs.
            self.received
                .store(served.belt.received().0, Ordering::Release);
            self.take_outbox(out);
        }
    }

    fn take_outbox(&mut self, out: Outbox<Changes, u64>) {
        for (to, message) in out.messages {
            self.peers.send(to, message);
        }
        self.timers.extend(out.timers.into_iter().map(Reverse));
        for reply in out.replies {
            match reply {
                Reply::Answer(number) => self.answer(number, Step::Answered),
                Reply::Expired(number) => self.answer(number, Step::Expired),
                Reply::Removed { server, through } => self.removed(server, Some(through.0)),
                Reply::NotRemoved(server) => self.removed(server, None),
            }
        }
        self.requests.extend(out.requests);
    }

    /// Does what the state machine has requested, and gives it the answer.
    fn run_request(&mut self, request: Request<Changes, u64>) {
        let Some(served) = &mut self.served else {
            return;
        };
        let input = match request {
            Request::Run { operation, hold } => return self.let_run(operation, hold),
            Request::Cancel(operation) => return self.cancel(operation),
            Request::Receive(token) => match served.database.receive(&token) {
                Ok(received) => Ok(Input::Received(received)),
                Err(Trouble::Aborted(_)) => Ok(Input::ReceiveAborted),
                Err(trouble) => Err(trouble),
            },
            Request::Pass { hold, wishes } => match served.database.pass(hold, &wishes) {
                Ok(passed) => Ok(Input::Passed(passed)),
                Err(Trouble::Aborted(_)) => Ok(Input::PassAborted),
                Err(trouble) => Err(trouble),
            },
            Request::Promise(epoch) => served.database.promise(epoch).map(|standing| {
                let standing = standing.map(Box::new);
                Input::Promised { epoch, standing }
            }),
            Request::Install(epoch, members) => {
                let installed = served.database.install(epoch, &members);
                installed.map(|done| Input::Installed {
                    epoch,
                    members,
                    done,
                })
            }
        };
        match input {
            Ok(input) => self.step(input),
            Err(trouble) => {
                (self.on_trouble)(&trouble);
                self.waits.note_trouble(trouble.to_string());
                self.served = None;
                self.requests.clear();
                if matches!(trouble, Trouble::Failed(_)) {
                    // The database would refuse it again at once.
                    self.reach_at = Instant::now() + PAUSE_MAX;
                }
            }
        }
    }

    fn let_run(&mut self, number: u64, hold: Hop) {
        let runs = self.waiters.get_mut(&number).is_some_and(|waiter| {
            waiter.is_running = waiter.steps.send(Step::Run(hold)).is_ok();
            waiter.is_running
        });
        if !runs {
            self.waiters.remove(&number);
            let operation = number;
            self.step(Input::Ended {
                operation,
                committed: false,
            });
        }
    }

    /// Cancels an operation that runs, on a thread of its own: that takes a connection.
    fn cancel(&self, number: u64) {
        let waiter = self.waiters.get(&number);
        let cancel = waiter.and_then(|waiter| {
            let mut canceller = waiter
                .canceller
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            canceller.take()
        });
        if let Some(cancel) = cancel {
            // An error: no thread can begin, and the operation ends by itself.
            let _ = thread::Builder::new()
                .name("belt-cancel".to_owned())
                .spawn(cancel);
        }
    }

    fn answer(&mut self, number: u64, step: Step) {
        if let Some(waiter) = self.waiters.remove(&number) {
            // An error: the session has ended.
            let _ = waiter.steps.send(step);
        }
    }

    fn removed(&mut self, server: ServerId, through: Option<u64>) {
        let (done, rest) = std::mem::take(&mut self.removals)
            .into_iter()
            .partition(|(of, _)| *of == server);
        self.removals = rest;
        let done: Vec<(ServerId, Sender<Option<u64>>)> = done;
        for (_, asked) in done {
            let _ = asked.send(through);
        }
    }

    /// Gives up operations that wait past their deadlines while the database is not reached.
    fn expire(&mut self) {
        if self.served.is_some() {
            return;
        }
        let now = Instant::now();
        let late = self.waiters.iter();
        let late = late.filter(|(_, waiter)| !waiter.is_running && waiter.deadline <= now);
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        for number in late {
            self.answer(number, Step::Expired);
        }
    }

    fn run_timers(&mut self) {
        while let Some(Reverse((at, timer))) = self.timers.peek().copied()
            && at <= self.now()
        {
            self.timers.pop();
            self.step(Input::Timer(timer));
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn")
            .field("hold", &self.hold)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
