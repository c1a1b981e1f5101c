//! A server of the ring: receives the token, runs the global operations that wait, passes the token on.
//!
//! `membership` removes a server from the ring; `awaited` says what a server waits for.

mod awaited;
mod membership;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use anabranch_types::Ticks;

use super::message::Message;
use super::rows::{Refused, Standing};
use super::token::{Epoch, Hop, Payload, Sequence, ServerId, Token, Update};

pub use awaited::Awaited;
use membership::Removal;

/// When the client of a global operation is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Acknowledge {
    /// When the operation has committed in its server's database (the paper).
    #[default]
    Commit,
    /// When the next server of the ring has its update, durably.
    Next,
}

/// Options of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BeltOptions {
    /// The most operations of one hold.
    pub operations_max: usize,
    /// The most bytes of updates in one message; a single larger update has a message of its own.
    pub token_bytes_max: usize,
    /// When an unanswered message is sent again.
    pub resend: Ticks,
    /// When clients are answered.
    pub acknowledge: Acknowledge,
}

impl Default for BeltOptions {
    /// 256 operations, 1 MiB, 200 ms.
    fn default() -> Self {
        BeltOptions {
            operations_max: 256,
            token_bytes_max: 1 << 20,
            resend: Ticks::from_millis(200),
            acknowledge: Acknowledge::Commit,
        }
    }
}

/// What a server is given. `O` names a global operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Input<U, O> {
    /// A client's global operation. It waits for the token.
    Operation {
        /// Its name; never used again.
        operation: O,
        /// When it is given up if it does not run by then, or is cancelled if it does.
        deadline: Ticks,
    },
    /// The client does not want a waiting operation any more.
    Withdraw(O),
    /// A message of another server.
    Message {
        /// The sender.
        from: ServerId,
        /// The message.
        message: Message<U>,
    },
    /// The database has answered [`Request::Receive`].
    Received(Result<(), Refused>),
    /// The database's transaction for [`Request::Receive`] was aborted (a conflict, a deadlock).
    ReceiveAborted,
    /// An operation has ended: its transaction has committed, or never will.
    Ended {
        /// The operation.
        operation: O,
        /// Whether an update of it is in the outbox.
        committed: bool,
    },
    /// The database has answered [`Request::Pass`].
    Passed(Result<Token<U>, Refused>),
    /// The database's transaction for [`Request::Pass`] was aborted.
    PassAborted,
    /// The database has answered [`Request::Promise`].
    Promised {
        /// The epoch.
        epoch: Epoch,
        /// The server's state, unless a later epoch has been promised.
        standing: Option<Box<Standing<U>>>,
    },
    /// The database has answered [`Request::Install`].
    Installed {
        /// The epoch.
        epoch: Epoch,
        /// The servers of the epoch.
        members: Vec<ServerId>,
        /// Whether the server takes part in it.
        done: bool,
    },
    /// The operator removes a server that will not return.
    Remove(ServerId),
    /// A timer has run out. It may be late, never early.
    Timer(Timer),
}

/// A request to the server's database. Each is one database transaction, answered by one [`Input`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request<U, O> {
    /// [`Rows::receive`](super::Rows::receive), with the changes of the updates that are new here.
    Receive(Token<U>),
    /// Run an operation: its transaction ends with [`Rows::commit_operation`](super::Rows::commit_operation). Several
    /// run at the same time.
    Run {
        /// The operation.
        operation: O,
        /// The hold.
        hold: Hop,
    },
    /// Cancel an operation that runs. It ends in any case; not answered otherwise.
    Cancel(O),
    /// [`Rows::pass`](super::Rows::pass).
    Pass {
        /// The hold.
        hold: Hop,
        /// The servers that wait for the token, for the token.
        wishes: BTreeSet<ServerId>,
    },
    /// [`Rows::promise`](super::Rows::promise).
    Promise(Epoch),
    /// [`Rows::install`](super::Rows::install).
    Install(Epoch, Vec<ServerId>),
}

/// What clients and operators receive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply<O> {
    /// The operation has ended, and its result may leave.
    Answer(O),
    /// The operation has not run, and never will: its deadline has passed.
    Expired(O),
    /// The removal has ended.
    Removed {
        /// The removed server.
        server: ServerId,
        /// The last update of it that the ring has. What it acknowledged beyond is lost.
        through: Sequence,
    },
    /// The removal was given up: a later one is under way, or the server is no member, or the last one.
    NotRemoved(ServerId),
}

/// A timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// An unanswered message may have to be sent again.
    Resend,
    /// A deadline may have passed.
    Deadline,
}

/// The output of one or more steps.
#[derive(Clone, Debug)]
pub struct Outbox<U, O> {
    /// Requests to the database, in order.
    pub requests: Vec<Request<U, O>>,
    /// Messages to other servers.
    pub messages: Vec<(ServerId, Message<U>)>,
    /// Replies to clients and operators.
    pub replies: Vec<Reply<O>>,
    /// Timers to set.
    pub timers: Vec<(Ticks, Timer)>,
}

impl<U, O> Default for Outbox<U, O> {
    fn default() -> Self {
        Outbox {
            requests: Vec::new(),
            messages: Vec::new(),
            replies: Vec::new(),
            timers: Vec::new(),
        }
    }
}

/// A global operation that waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting<O> {
    operation: O,
    deadline: Ticks,
}

/// Where a server is between two hops.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase<U, O> {
    /// Another server has the token, or no epoch is under way.
    Away,
    /// A token has arrived, and some of its updates are still to be fetched.
    Fetching {
        from: ServerId,
        token: Token<U>,
        total: usize,
    },
    /// The database receives a token.
    Receiving { from: ServerId, token: Token<U> },
    /// The hold is open.
    Holding {
        /// The operations that run, with their deadlines.
        running: BTreeMap<O, Ticks>,
        /// Those of them that were cancelled.
        cancelled: BTreeSet<O>,
        /// Whether the token has to go on: there are updates that some server has not applied.
        has_updates: bool,
    },
    /// The database closes the hold.
    Passing,
    /// The next server has not acknowledged the token.
    Sending { token: Token<U> },
}

/// A server of the ring.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BeltServer<U, O: Ord> {
    id: ServerId,
    options: BeltOptions,
    epoch: Epoch,
    promised: Epoch,
    members: Vec<ServerId>,
    /// The last hop that the database has received.
    received: Hop,
    phase: Phase<U, O>,
    queue: VecDeque<Waiting<O>>,
    /// Other servers that wait for the token, as far as this one has learned.
    wishes: BTreeSet<ServerId>,
    /// Operations that have committed, of clients that wait until the next server has the update.
    unanswered: Vec<O>,
    removal: Option<Removal<U>>,
    /// The highest number of an epoch that a message has named.
    highest_epoch: u64,
    /// When the next timer to send again is due, if one is set.
    resend_at: Option<Ticks>,
}

impl<U: Payload, O: Ord + Clone + fmt::Debug> BeltServer<U, O> {
    /// A server of a new ring, whose database has [`Rows::new`](super::Rows::new) for these members. The first of them
    /// has the token.
    pub fn new(id: ServerId, options: BeltOptions, members: Vec<ServerId>) -> BeltServer<U, O> {
        let is_first = members.first() == Some(&id);
        BeltServer {
            id,
            options,
            epoch: Epoch::default(),
            promised: Epoch::default(),
            members,
            received: Hop(u64::from(is_first)),
            phase: match is_first {
                true => Phase::Holding {
                    running: BTreeMap::new(),
                    cancelled: BTreeSet::new(),
                    has_updates: false,
                },
                false => Phase::Away,
            },
            queue: VecDeque::new(),
            wishes: BTreeSet::new(),
            unanswered: Vec::new(),
            removal: None,
            highest_epoch: 0,
            resend_at: None,
        }
    }

    /// A server that goes on from the state in its database, after an earlier incarnation.
    ///
    /// A hold that is open is passed first: operations of the earlier incarnation may still commit in it until then, and
    /// this one learns of them only from the database.
    pub fn recover(
        now: Ticks,
        id: ServerId,
        options: BeltOptions,
        standing: Standing<U>,
        out: &mut Outbox<U, O>,
    ) -> BeltServer<U, O> {
        let is_member = standing.members.contains(&id);
        let takes_part = is_member && standing.promised == standing.epoch;
        let is_open = standing.received > standing.passed;
        let Standing { token, passed, .. } = standing;
        let was_passed = token.hop > passed && token.epoch == standing.epoch;
        let mut server = BeltServer {
            id,
            options,
            epoch: standing.epoch,
            promised: standing.promised,
            members: standing.members,
            received: standing.received,
            phase: match (takes_part, is_open, was_passed) {
                (true, true, _) => Phase::Holding {
                    running: BTreeMap::new(),
                    cancelled: BTreeSet::new(),
                    has_updates: true,
                },
                (true, false, true) => Phase::Sending { token },
                _ => Phase::Away,
            },
            queue: VecDeque::new(),
            wishes: BTreeSet::new(),
            unanswered: Vec::new(),
            removal: None,
            highest_epoch: standing.promised.number,
            resend_at: None,
        };
        if is_open && takes_part {
            // The predecessor may have got no acknowledgement.
            server.acknowledge(server.predecessor(), server.received, out);
        }
        server.send_again(out);
        server.go_on(now, out);
        server.set_resend(now, out);
        server
    }

    /// Takes one input at time `now`.
    pub fn step(&mut self, now: Ticks, input: Input<U, O>, out: &mut Outbox<U, O>) {
        match input {
            Input::Operation {
                operation,
                deadline,
            } => {
                out.timers.push((deadline, Timer::Deadline));
                self.queue.push_back(Waiting {
                    operation,
                    deadline,
                });
                let has_wished = self.queue.len() > 1;
                self.go_on(now, out);
                if !has_wished && self.is_waiting() {
                    self.wish(out);
                    self.set_resend(now, out);
                }
            }
            Input::Withdraw(operation) => {
                self.queue.retain(|waiting| waiting.operation != operation);
            }
            Input::Message { from, message } => self.take_message(now, from, message, out),
            Input::Received(result) => self.take_received(now, result, out),
            Input::ReceiveAborted => {
                // Never skipped: the token's updates are applied here before anything else of this ring.
                if let Phase::Receiving { token, .. } = &self.phase {
                    out.requests.push(Request::Receive(token.clone()));
                }
            }
            Input::Ended {
                operation,
                committed,
            } => self.take_ended(now, operation, committed, out),
            Input::Passed(Ok(token)) => self.take_passed(now, token, out),
            Input::Passed(Err(_)) => {
                // A promise has closed the hold.
                if matches!(self.phase, Phase::Passing) {
                    self.phase = Phase::Away;
                }
            }
            Input::PassAborted => {
                if matches!(self.phase, Phase::Passing) {
                    self.pass(out);
                }
            }
            Input::Promised { epoch, standing } => {
                self.take_promised(now, epoch, standing, out);
            }
            Input::Installed {
                epoch,
                members,
                done,
            } => self.take_installed(now, epoch, members, done, out),
            Input::Remove(server) => self.remove(now, server, out),
            Input::Timer(Timer::Resend) => self.resend(now, out),
            Input::Timer(Timer::Deadline) => self.expire(now, out),
        }
    }

    /// This server.
    pub fn id(&self) -> ServerId {
        self.id
    }

    /// The epoch that the server takes part in.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The servers of the epoch, in the order of the ring.
    pub fn members(&self) -> &[ServerId] {
        &self.members
    }

    /// The last hop received.
    pub fn received(&self) -> Hop {
        self.received
    }

    /// Whether the hold is open here, by what this server knows.
    pub fn is_holding(&self) -> bool {
        matches!(self.phase, Phase::Holding { .. })
    }

    /// Whether this server has nothing to do: no operation waits or runs, no update is under way, no message is
    /// unanswered. A ring of which each server is at rest sends nothing.
    pub fn is_at_rest(&self) -> bool {
        let is_still = match &self.phase {
            Phase::Away => true,
            Phase::Holding {
                running,
                has_updates,
                ..
            } => running.is_empty() && (!has_updates || self.is_alone()),
            _ => false,
        };
        is_still && self.queue.is_empty() && self.removal.is_none() && self.unanswered.is_empty()
    }

    /// The number of operations that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn is_alone(&self) -> bool {
        self.members.len() == 1
    }

    /// Whether operations wait here for a token that is elsewhere.
    fn is_waiting(&self) -> bool {
        let is_away = matches!(self.phase, Phase::Away | Phase::Sending { .. });
        is_away && !self.queue.is_empty()
    }

    fn place(&self) -> usize {
        let mut members = self.members.iter();
        members.position(|one| *one == self.id).unwrap_or(0)
    }

    /// The next server of the ring.
    fn successor(&self) -> ServerId {
        self.members[(self.place() + 1) % self.members.len()]
    }

    /// The server before this one.
    fn predecessor(&self) -> ServerId {
        let count = self.members.len();
        self.members[(self.place() + count - 1) % count]
    }

    fn take_message(
        &mut self,
        now: Ticks,
        from: ServerId,
        message: Message<U>,
        out: &mut Outbox<U, O>,
    ) {
        match message {
            Message::Token { token, total } => self.take_token(from, token, total, now, out),
            Message::Fetch { epoch, hop, have } => self.send_part(from, epoch, hop, have, out),
            Message::Part {
                epoch,
                hop,
                from: place,
                updates,
            } => {
                if let Phase::Fetching { token, .. } = &mut self.phase
                    && (token.epoch, token.hop) == (epoch, hop)
                    && token.updates.len() == place
                {
                    token.updates.extend(updates);
                    self.receive_or_fetch(now, out);
                }
            }
            Message::Acknowledge { epoch, hop } => {
                if let Phase::Sending { token } = &self.phase
                    && (token.epoch, token.hop) == (epoch, hop)
                {
                    self.has_passed(now, out);
                }
            }
            Message::Wish { epoch } => {
                if epoch == self.epoch && from != self.id {
                    self.wishes.insert(from);
                    self.go_on(now, out);
                }
            }
            Message::Promise { epoch } => self.take_promise(from, epoch, out),
            Message::Promised { epoch, standing } => {
                self.collect(now, from, epoch, *standing, out);
            }
            Message::Refuse { epoch, promised } => {
                self.highest_epoch = self.highest_epoch.max(promised.number);
                self.give_up_removal(epoch, out);
            }
            Message::Install { epoch, members } => {
                out.requests.push(Request::Install(epoch, members));
            }
            Message::Installed { epoch } => self.count_installed(now, from, epoch, out),
        }
    }

    /// A token arrives, perhaps again.
    fn take_token(
        &mut self,
        from: ServerId,
        token: Token<U>,
        total: usize,
        now: Ticks,
        out: &mut Outbox<U, O>,
    ) {
        if token.epoch != self.epoch || self.promised != self.epoch {
            return;
        }
        if token.hop <= self.received {
            return self.acknowledge(from, token.hop, out);
        }
        match &self.phase {
            Phase::Sending { .. } => self.has_passed(now, out),
            Phase::Away => {}
            // The same hop is being received, or a database transaction is under way.
            _ => return,
        }
        self.phase = Phase::Fetching { from, token, total };
        self.receive_or_fetch(now, out);
    }

    /// The updates of the arriving token are complete, or more of them have to be fetched.
    fn receive_or_fetch(&mut self, now: Ticks, out: &mut Outbox<U, O>) {
        let Phase::Fetching { from, token, total } = &self.phase else {
            return;
        };
        if token.updates.len() < *total {
            self.fetch(out);
            return self.set_resend(now, out);
        }
        let (from, token) = (*from, token.clone());
        out.requests.push(Request::Receive(token.clone()));
        self.phase = Phase::Receiving { from, token };
    }

    /// Requests the next updates of the arriving token.
    fn fetch(&self, out: &mut Outbox<U, O>) {
        if let Phase::Fetching { from, token, .. } = &self.phase {
            let fetch = Message::Fetch {
                epoch: token.epoch,
                hop: token.hop,
                have: token.updates.len(),
            };
            out.messages.push((*from, fetch));
        }
    }

    /// Sends more updates of the token that is under way.
    fn send_part(&self, to: ServerId, epoch: Epoch, hop: Hop, have: usize, out: &mut Outbox<U, O>) {
        if let Phase::Sending { token } = &self.phase
            && (token.epoch, token.hop) == (epoch, hop)
        {
            let rest = token.updates.get(have..).unwrap_or_default();
            let part = Message::Part {
                epoch,
                hop,
                from: have,
                updates: self.fitting(rest, 1),
            };
            out.messages.push((to, part));
        }
    }

    /// As many of these updates as fit in a message, at least so many.
    fn fitting(&self, updates: &[Update<U>], least: usize) -> Vec<Update<U>> {
        let mut bytes = 0;
        let fits = |(place, update): &(usize, &Update<U>)| {
            bytes += update.payload.bytes();
            *place < least || bytes <= self.options.token_bytes_max
        };
        let fitting = updates.iter().enumerate().take_while(fits);
        fitting.map(|(_, update)| update.clone()).collect()
    }

    fn take_received(&mut self, now: Ticks, result: Result<(), Refused>, out: &mut Outbox<U, O>) {
        let Phase::Receiving { from, token } = &self.phase else {
            return;
        };
        let (from, hop) = (*from, token.hop);
        let has_updates = !token.updates.is_empty();
        let wishes = token.wishes.iter().filter(|server| **server != self.id);
        let wishes: Vec<ServerId> = wishes.copied().collect();
        match result {
            Ok(()) => {
                self.wishes.extend(wishes);
                self.received = hop;
                self.phase = Phase::Holding {
                    running: BTreeMap::new(),
                    cancelled: BTreeSet::new(),
                    has_updates,
                };
                if from != self.id {
                    self.acknowledge(from, hop, out);
                }
                self.run(now, out);
                self.go_on(now, out);
            }
            Err(Refused::OldHop(_)) => {
                self.phase = Phase::Away;
                self.acknowledge(from, hop, out);
            }
            Err(_) => self.phase = Phase::Away,
        }
    }

    fn acknowledge(&self, to: ServerId, hop: Hop, out: &mut Outbox<U, O>) {
        let epoch = self.epoch;
        let acknowledge = Message::Acknowledge { epoch, hop };
        if to != self.id {
            out.messages.push((to, acknowledge));
        }
    }

    /// Runs the operations that wait now, up to the limit: the atomic snapshot of the queue (Algorithm 2, line 16).
    fn run(&mut self, now: Ticks, out: &mut Outbox<U, O>) {
        let hold = self.received;
        let Phase::Holding { running, .. } = &mut self.phase else {
            return;
        };
        let room = self.options.operations_max.saturating_sub(running.len());
        for _ in 0..room.min(self.queue.len()) {
            let Some(Waiting {
                operation,
                deadline,
            }) = self.queue.pop_front()
            else {
                return;
            };
            if deadline <= now {
                out.replies.push(Reply::Expired(operation));
                continue;
            }
            running.insert(operation.clone(), deadline);
            out.requests.push(Request::Run { operation, hold });
        }
    }

    fn take_ended(&mut self, now: Ticks, operation: O, committed: bool, out: &mut Outbox<U, O>) {
        if let Phase::Holding {
            running,
            cancelled,
            has_updates,
        } = &mut self.phase
        {
            running.remove(&operation);
            cancelled.remove(&operation);
            *has_updates |= committed;
        }
        match self.options.acknowledge {
            Acknowledge::Next if committed && !self.is_alone() => self.unanswered.push(operation),
            _ => out.replies.push(Reply::Answer(operation)),
        }
        self.go_on(now, out);
    }

    /// Does what an open hold without running operations calls for: passes the token, runs what waits, or parks.
    fn go_on(&mut self, now: Ticks, out: &mut Outbox<U, O>) {
        let is_alone = self.is_alone();
        let Phase::Holding {
            running,
            has_updates,
            ..
        } = &self.phase
        else {
            return;
        };
        if !running.is_empty() {
            return;
        }
        if !is_alone && (*has_updates || !self.wishes.is_empty()) {
            return self.pass(out);
        }
        // Parked: the hold stays open, and no message is sent.
        self.run(now, out);
    }

    fn pass(&mut self, out: &mut Outbox<U, O>) {
        self.phase = Phase::Passing;
        let mut wishes = self.wishes.clone();
        if !self.queue.is_empty() {
            wishes.insert(self.id);
        }
        out.requests.push(Request::Pass {
            hold: self.received,
            wishes,
        });
    }

    fn take_passed(&mut self, now: Ticks, token: Token<U>, out: &mut Outbox<U, O>) {
        if !matches!(self.phase, Phase::Passing) {
            return;
        }
        // They travel in the token.
        self.wishes.clear();
        self.phase = Phase::Sending { token };
        self.send_token(out);
        self.set_resend(now, out);
    }

    fn send_token(&self, out: &mut Outbox<U, O>) {
        if let Phase::Sending { token } = &self.phase {
            let message = Message::Token {
                token: Token {
                    updates: self.fitting(&token.updates, 0),
                    ..token.clone()
                },
                total: token.updates.len(),
            };
            out.messages.push((self.successor(), message));
        }
    }

    /// The next server has the token.
    fn has_passed(&mut self, now: Ticks, out: &mut Outbox<U, O>) {
        self.phase = Phase::Away;
        let answered = self.unanswered.drain(..).map(Reply::Answer);
        out.replies.extend(answered);
        if !self.queue.is_empty() {
            self.set_resend(now, out);
        }
    }

    /// Tells all other servers that operations wait here.
    fn wish(&self, out: &mut Outbox<U, O>) {
        let epoch = self.epoch;
        let others = self.members.iter().filter(|one| **one != self.id);
        let wishes = others.map(|one| (*one, Message::Wish { epoch }));
        out.messages.extend(wishes);
    }

    fn set_resend(&mut self, now: Ticks, out: &mut Outbox<U, O>) {
        if self.resend_at.is_none() {
            let at = now + self.options.resend;
            self.resend_at = Some(at);
            out.timers.push((at, Timer::Resend));
        }
    }

    /// Sends what may have been lost.
    fn send_again(&mut self, out: &mut Outbox<U, O>) {
        self.send_token(out);
        self.fetch(out);
        if self.is_waiting() && self.promised == self.epoch {
            self.wish(out);
        }
        self.send_membership_again(out);
    }

    fn resend(&mut self, now: Ticks, out: &mut Outbox<U, O>) {
        self.resend_at = None;
        let before = out.messages.len();
        self.send_again(out);
        if out.messages.len() > before || self.removal.is_some() {
            self.set_resend(now, out);
        }
    }

    /// Gives up waiting operations whose deadline has passed, and cancels running ones.
    fn expire(&mut self, now: Ticks, out: &mut Outbox<U, O>) {
        let is_late = |waiting: &Waiting<O>| waiting.deadline <= now;
        let late = self.queue.iter().filter(|waiting| is_late(waiting));
        let expired = late.map(|waiting| Reply::Expired(waiting.operation.clone()));
        out.replies.extend(expired);
        self.queue.retain(|waiting| !is_late(waiting));
        if let Phase::Holding {
            running, cancelled, ..
        } = &mut self.phase
        {
            for (operation, deadline) in running.iter() {
                if *deadline <= now && cancelled.insert(operation.clone()) {
                    out.requests.push(Request::Cancel(operation.clone()));
                }
            }
        }
    }

    /// Checks what one server can see.
    ///
    /// # Errors
    /// The invariant and what contradicts it.
    pub fn check_invariants(&self) -> Result<(), String> {
        let complains = |what: String| Err(format!("{}: {what}", self.id));
        match &self.phase {
            Phase::Sending { token } if token.hop != self.received.next() => complains(format!(
                "BELT-I1: it sends {:?} after it has received {:?}",
                token.hop, self.received
            )),
            Phase::Receiving { token, .. } | Phase::Fetching { token, .. }
                if token.hop <= self.received =>
            {
                complains(format!(
                    "BELT-I1: it receives {:?} again, after {:?}",
                    token.hop, self.received
                ))
            }
            Phase::Holding { running, .. } if running.len() > self.options.operations_max => {
                complains(format!("{} operations run", running.len()))
            }
            _ => Ok(()),
        }
    }
}
