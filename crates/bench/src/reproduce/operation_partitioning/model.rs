//! Servers in virtual time: cores that operations occupy for as long as they took on a real PostgreSQL, a network, and the
//! belt's own state machine ([`anabranch_protocol::belt`]) with its tables.
//!
//! What is not modelled: aborts and retries, memory, disks, the size of messages. A core takes waiting work in the order of
//! its arrival.
//!
//! * [`Load`] describes a run, [`Load::run`] makes it.
//! * [`partitioned`](super::partitioned) runs operations over partitioned rows with two-phase commit.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use anabranch_analysis::partition::OperationClass;
use anabranch_protocol::belt::{
    BeltOptions, BeltServer, Hop, Input, Message, Outbox, Payload, Reply, Request, Rows, ServerId,
    Timer, Token,
};
use anabranch_types::{SplitMix64, Ticks};
use hdrhistogram::Histogram;

use super::costs::Costs;
use super::network::{Links, Place};
use super::partitioned::{Locks, Plan};
use super::traffic::Traffic;

/// How operations are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum System {
    /// One server.
    Centralised,
    /// The Conveyor Belt.
    Belt,
    /// The Conveyor Belt with every operation that writes as a global one.
    ReadOnly,
    /// Rows partitioned by the same plan, and two-phase commit, READ COMMITTED.
    TwoPhase,
}

impl System {
    /// The name in charts.
    pub(super) fn name(self) -> &'static str {
        match self {
            System::Centralised => "one server",
            System::Belt => "Conveyor Belt",
            System::ReadOnly => "read-only local",
            System::TwoPhase => "two-phase commit",
        }
    }

    /// The name in JSON.
    pub(super) fn protocol(self) -> &'static str {
        match self {
            System::Centralised => "centralised",
            System::Belt => "belt",
            System::ReadOnly => "belt-read-only",
            System::TwoPhase => "two-phase-commit",
        }
    }
}

/// What clients call.
#[derive(Clone, Debug)]
pub(super) enum Calls {
    /// An application's operations.
    Application(Arc<Traffic>),
    /// Operations that take as long each, of which this percentage is local (§7.3).
    Fixed {
        /// Percentage of local operations.
        local: u8,
    },
}

/// One run.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// How operations are run.
    pub(super) system: System,
    /// What clients call.
    pub(super) calls: Calls,
    /// Servers.
    pub(super) servers: u16,
    /// Where they are.
    pub(super) place: Place,
    /// Clients in all, each with one call in flight.
    pub(super) clients: u32,
    /// The mean time from an answer to the next call; drawn from an exponential distribution.
    pub(super) think: Ticks,
    /// Virtual time before the measurement.
    pub(super) warmup: Ticks,
    /// Virtual time of the measurement.
    pub(super) measured: Ticks,
    /// The seed.
    pub(super) seed: u64,
}

/// Latencies of one kind of operations.
#[derive(Clone, Debug)]
pub(super) struct Latencies(Histogram<u64>);

impl Latencies {
    fn new() -> Latencies {
        Latencies(Histogram::new(3).expect("three significant digits are supported"))
    }

    fn add(&mut self, nanos: u64) {
        self.0
            .record(nanos / 1_000)
            .expect("a growing histogram takes all");
    }

    /// How many.
    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The mean in milliseconds.
    pub(super) fn mean_ms(&self) -> f64 {
        self.0.mean() / 1e3
    }

    /// A quantile (0 to 1) in milliseconds.
    pub(super) fn quantile_ms(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// What a run found.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// All operations.
    pub(super) all: Latencies,
    /// Those that ran at once on the client's server.
    pub(super) local: Latencies,
    /// Those that ran at once on another one.
    pub(super) forwarded: Latencies,
    /// Those that waited for the token, or wrote rows of several partitions.
    pub(super) global: Latencies,
    /// Global calls that began within the measurement.
    pub(super) global_begun: u64,
    /// Operations a second.
    pub(super) per_second: f64,
    /// The share of the cores that was busy.
    pub(super) utilization: f64,
    /// Messages between servers for each operation.
    pub(super) messages: f64,
    /// How long operations waited for locks, for each operation, in milliseconds.
    pub(super) lock_wait_ms: f64,
    /// What contradicts the belt's invariants, at the end.
    pub(super) violations: Vec<String>,
}

impl Outcome {
    /// Whether clients wait at least so long in the mean, in milliseconds. Calls that have not ended count as well: so many
    /// clients without pauses, divided by their rate, are their mean wait (Little's law). A run in which fewer global calls
    /// end than begin is slow, too: its clients still gather behind the token, and what they did before is not its rate.
    pub(super) fn is_slow(&self, clients: u32, limit_ms: f64) -> bool {
        let wait_ms = f64::from(clients) / self.per_second.max(1e-9) * 1e3;
        wait_ms.max(self.all.mean_ms()) >= limit_ms || self.gathers()
    }

    /// Whether at least a tenth of the global calls that began did not end. Some dozens are the chance of where the
    /// measurement begins and ends.
    fn gathers(&self) -> bool {
        let left = self.global_begun.saturating_sub(self.global.count());
        left > 50 && 10 * left >= self.global_begun
    }
}

/// The update of one operation: which type it has, and how large it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Image {
    kind: u16,
    bytes: u16,
}

impl Payload for Image {
    fn bytes(&self) -> usize {
        usize::from(self.bytes)
    }
}

type Machine = BeltServer<Image, u32>;

/// The bytes of a changed row in an update.
const ROW_BYTES: u16 = 120;

/// How a call ends in the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Local,
    Forwarded,
    Global,
}

/// A call under way.
#[derive(Clone, Debug)]
struct Call {
    client: u32,
    operation: u16,
    began: u64,
    /// The client's server.
    home: u16,
    /// The server that runs it.
    server: u16,
    kind: Kind,
    /// Over partitioned rows.
    plan: Option<Plan>,
    /// Replies that are missing in this step of the plan.
    missing: u16,
}

/// Work for a core.
#[derive(Clone, Debug)]
enum Work {
    /// Run an operation at once.
    Run(u32),
    /// Run a global operation inside a hold.
    Global(u32, Hop),
    /// Receive a token.
    Receive(Box<Token<Image>>),
    /// Close a hold.
    Pass(Hop, BTreeSet<ServerId>),
    /// A part of a step of a plan.
    Part(u32),
    /// The end of a distributed transaction at a participant: its locks are released.
    Release(u32),
}

#[derive(Clone, Debug)]
enum Event {
    /// A client makes its next call.
    Next(u32),
    /// A call is at a server.
    Arrive(u32),
    /// A part of a plan is at a server.
    ArrivePart(u32, u16, u64, bool),
    /// A part of a plan has been answered.
    Answered(u32),
    /// The commit of a distributed transaction is at a participant.
    ArriveCommit(u32, u16, u64),
    /// An operation that sleeps wakes.
    Wake(u16, u64, Work),
    /// A core has done its work.
    Done(u16, Work),
    Message(ServerId, ServerId, Box<Message<Image>>),
    Timer(u16, Timer),
}

/// An event at its time; the number keeps the order of equal times.
struct Due(u64, u64, Event);

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

struct Server {
    idle: u16,
    waiting: VecDeque<(u64, Work)>,
    machine: Machine,
    rows: Rows<Image>,
    /// Updates of other servers that were applied here.
    applied: u64,
}

/// A run under way.
struct Run<'l> {
    load: &'l Load,
    costs: &'l Costs,
    links: Links,
    now: u64,
    next: u64,
    due: BinaryHeap<Reverse<Due>>,
    servers: Vec<Server>,
    calls: HashMap<u32, Call>,
    next_call: u32,
    locks: Locks,
    lock_waits: HashMap<u32, u64>,
    random: SplitMix64,
    outcome: Outcome,
    busy: u64,
    messages: u64,
    lock_wait: u64,
    is_ending: bool,
    committed: u64,
}

impl Load {
    /// Makes the run.
    pub(super) fn run(&self, costs: &Costs) -> Outcome {
        let servers = match self.system {
            System::Centralised => 1,
            _ => self.servers,
        };
        let mut run = Run {
            load: self,
            costs,
            links: Links::new(self.place, servers),
            now: 0,
            next: 0,
            due: BinaryHeap::new(),
            servers: (0..servers).map(|id| server(id, servers)).collect(),
            calls: HashMap::new(),
            next_call: 0,
            locks: Locks::default(),
            lock_waits: HashMap::new(),
            random: SplitMix64::stream(self.seed, "operation partitioning", 0),
            outcome: Outcome {
                all: Latencies::new(),
                local: Latencies::new(),
                forwarded: Latencies::new(),
                global: Latencies::new(),
                global_begun: 0,
                per_second: 0.0,
                utilization: 0.0,
                messages: 0.0,
                lock_wait_ms: 0.0,
                violations: Vec::new(),
            },
            busy: 0,
            messages: 0,
            lock_wait: 0,
            is_ending: false,
            committed: 0,
        };
        run.go();
        run.outcome
    }

    fn is_belt(&self) -> bool {
        matches!(self.system, System::Belt | System::ReadOnly)
    }
}

fn server(id: u16, servers: u16) -> Server {
    let members: Vec<ServerId> = (0..servers).map(ServerId).collect();
    Server {
        idle: super::costs::CORES,
        waiting: VecDeque::new(),
        machine: Machine::new(ServerId(id), BeltOptions::default(), members.clone()),
        rows: Rows::new(ServerId(id), members),
        applied: 0,
    }
}

/// A number from 0 (included) to 1 (excluded).
fn unit(random: &mut SplitMix64) -> f64 {
    (random.bits() >> 11) as f64 / (1u64 << 53) as f64
}

impl Run<'_> {
    fn go(&mut self) {
        for client in 0..self.load.clients {
            // Clients do not begin in step.
            let spread = self.load.think.0.max(Ticks::from_millis(100).0);
            let at = self.random.below(spread);
            self.at(at, Event::Next(client));
        }
        let end = self.load.warmup.0 + self.load.measured.0;
        while let Some(Reverse(Due(at, _, event))) = self.due.pop() {
            if at >= end && !self.is_ending {
                self.is_ending = true;
                self.sum_up();
            }
            self.now = at;
            self.take(event);
        }
        self.check();
    }

    fn sum_up(&mut self) {
        let seconds = self.load.measured.0 as f64 / 1e9;
        let done = self.outcome.all.count();
        let cores = self.servers.len() as f64 * f64::from(super::costs::CORES);
        self.outcome.per_second = done as f64 / seconds;
        self.outcome.utilization = self.busy as f64 / 1e9 / seconds / cores;
        self.outcome.messages = self.messages as f64 / done.max(1) as f64;
        self.outcome.lock_wait_ms = self.lock_wait as f64 / 1e6 / done.max(1) as f64;
    }

    /// At rest: every call has ended, and every update is applied on all servers, once.
    fn check(&mut self) {
        let violations = &mut self.outcome.violations;
        if !self.calls.is_empty() {
            violations.push(format!("{} calls have not ended", self.calls.len()));
        }
        if !self.locks.is_empty() {
            violations.push("locks are held at the end".to_owned());
        }
        if !self.load.is_belt() {
            return;
        }
        let first = &self.servers[0].rows.applied;
        for server in &self.servers {
            if let Err(what) = server.rows.check_invariants() {
                violations.push(what);
            }
            if let Err(what) = server.machine.check_invariants() {
                violations.push(what);
            }
            if server.rows.applied != *first {
                violations.push(format!(
                    "{:?} has applied {:?}, and the first server {first:?}",
                    server.rows.server, server.rows.applied
                ));
            }
        }
        let applied: u64 = self.servers.iter().map(|server| server.applied).sum();
        let expected = self.committed * (self.servers.len() as u64 - 1);
        if applied != expected {
            violations.push(format!(
                "{applied} updates were applied instead of {expected}"
            ));
        }
    }

    fn at(&mut self, at: u64, event: Event) {
        self.next += 1;
        self.due.push(Reverse(Due(at, self.next, event)));
    }

    fn is_measured(&self) -> bool {
        self.now >= self.load.warmup.0 && !self.is_ending
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Next(client) => self.next_call(client),
            Event::Arrive(call) => self.arrive(call),
            Event::ArrivePart(call, server, cost, takes_lock) => {
                self.arrive_part(call, server, cost, takes_lock);
            }
            Event::Answered(call) => {
                let of = self.calls.get_mut(&call).expect("it has not ended");
                of.missing -= 1;
                if of.missing == 0 {
                    self.next_step(call);
                }
            }
            Event::ArriveCommit(call, server, cost) => {
                self.work(server, cost, Work::Release(call));
            }
            Event::Wake(server, cost, work) => self.work(server, cost, work),
            Event::Done(server, work) => self.done(server, work),
            Event::Message(from, to, message) => {
                let input = Input::Message {
                    from,
                    message: *message,
                };
                self.belt(to.0, input);
            }
            Event::Timer(server, timer) => self.belt(server, Input::Timer(timer)),
        }
    }

    /// A client draws its next call.
    fn next_call(&mut self, client: u32) {
        if self.is_ending {
            return;
        }
        let groups = self.links.nearest.len() as u32;
        let group = (client % groups) as usize;
        let home = self.links.nearest[group];
        let servers = self.servers.len() as u64;
        let (operation, is_foreign, kind) = match &self.load.calls {
            Calls::Fixed { local } => {
                let is_local = self.random.percent(u64::from(*local));
                let kind = match is_local || self.load.system == System::Centralised {
                    true => Kind::Local,
                    false => Kind::Global,
                };
                (0, false, kind)
            }
            Calls::Application(traffic) => {
                let operation = traffic.mix.draw(unit(&mut self.random));
                let of = &traffic.types[operation];
                let is_foreign = unit(&mut self.random) < of.foreign;
                (operation as u16, is_foreign, Kind::Local)
            }
        };
        let drawn = match is_foreign {
            true => self.random.below(servers) as u16,
            false => home,
        };
        let mut call = Call {
            client,
            operation,
            began: self.now,
            home,
            server: home,
            kind,
            plan: None,
            missing: 0,
        };
        if let Calls::Application(traffic) = &self.load.calls {
            let of = &traffic.types[usize::from(operation)];
            match self.load.system {
                System::Centralised => {}
                System::Belt => match of.class {
                    OperationClass::Commutative => {}
                    OperationClass::LocalOrGlobal if drawn != home => call.kind = Kind::Global,
                    OperationClass::Local | OperationClass::LocalOrGlobal if of.needs_key => {
                        call.server = drawn;
                    }
                    OperationClass::Global => {
                        call.kind = Kind::Global;
                        if of.needs_key {
                            call.server = drawn;
                        }
                    }
                    OperationClass::Local | OperationClass::LocalOrGlobal => {}
                },
                System::ReadOnly if !of.is_read_only => call.kind = Kind::Global,
                System::ReadOnly => {}
                System::TwoPhase => {
                    let servers = self.servers.len() as u16;
                    let random = &mut self.random;
                    let plan = Plan::new(of, home, servers, self.costs, random);
                    if plan.is_distributed() {
                        call.kind = Kind::Global;
                    }
                    call.plan = Some(plan);
                }
            }
        }
        if call.kind == Kind::Local && call.server != home {
            call.kind = Kind::Forwarded;
        }
        if call.kind == Kind::Global && self.is_measured() {
            self.outcome.global_begun += 1;
        }
        let mut takes = self.links.to_server[group][usize::from(home)];
        if call.server != home {
            takes += self.links.between[usize::from(home)][usize::from(call.server)];
            self.count_message();
        }
        let number = self.next_call;
        self.next_call += 1;
        self.calls.insert(number, call);
        self.at(self.now + takes, Event::Arrive(number));
    }

    fn count_message(&mut self) {
        if self.is_measured() {
            self.messages += 1;
        }
    }

    /// What a call costs the server that runs it, and how long it sleeps there, in nanoseconds.
    fn cost(&self, call: &Call) -> (u64, u64) {
        match &self.load.calls {
            Calls::Fixed { .. } => {
                let captured = match call.kind {
                    Kind::Global => self.costs.fixed_capture,
                    _ => 0,
                };
                (
                    self.costs.fixed + captured + self.costs.middleware,
                    Ticks::from_millis(super::published::EXECUTION_MS).0,
                )
            }
            Calls::Application(traffic) => {
                let name = traffic.types[usize::from(call.operation)].name;
                let of = self.costs.of(traffic.application, name);
                let cost = match (self.load.is_belt(), call.kind) {
                    (true, Kind::Global) => of.global + self.costs.middleware,
                    (true, _) => of.plain + self.costs.middleware,
                    (false, _) => of.plain,
                };
                (cost, 0)
            }
        }
    }

    /// What applying an update costs, in nanoseconds.
    fn apply_cost(&self, kind: u16) -> u64 {
        match &self.load.calls {
            Calls::Fixed { .. } => self.costs.fixed_apply,
            Calls::Application(traffic) => {
                let name = traffic.types[usize::from(kind)].name;
                self.costs.of(traffic.application, name).apply
            }
        }
    }

    fn image(&self, operation: u16) -> Image {
        let rows = match &self.load.calls {
            Calls::Fixed { .. } => 1,
            Calls::Application(traffic) => {
                let name = traffic.types[usize::from(operation)].name;
                self.costs.of(traffic.application, name).rows
            }
        };
        Image {
            kind: operation,
            bytes: ROW_BYTES.saturating_mul(rows),
        }
    }

    fn arrive(&mut self, number: u32) {
        let call = self.calls[&number].clone();
        if call.plan.is_some() {
            return self.next_step(number);
        }
        if call.kind == Kind::Global && self.load.is_belt() {
            let input = Input::Operation {
                operation: number,
                deadline: Ticks(u64::MAX),
            };
            return self.belt(call.server, input);
        }
        let (cost, sleeps) = self.cost(&call);
        self.begin(call.server, cost, sleeps, Work::Run(number));
    }

    fn begin(&mut self, server: u16, cost: u64, sleeps: u64, work: Work) {
        match sleeps {
            0 => self.work(server, cost, work),
            _ => self.at(self.now + sleeps, Event::Wake(server, cost, work)),
        }
    }

    /// Work comes to a server.
    fn work(&mut self, server: u16, cost: u64, work: Work) {
        let of = &mut self.servers[usize::from(server)];
        if of.idle == 0 {
            return of.waiting.push_back((cost, work));
        }
        of.idle -= 1;
        self.start(server, cost, work);
    }

    fn start(&mut self, server: u16, cost: u64, work: Work) {
        if self.is_measured() {
            self.busy += cost;
        }
        self.at(self.now + cost, Event::Done(server, work));
    }

    fn done(&mut self, server: u16, work: Work) {
        match self.servers[usize::from(server)].waiting.pop_front() {
            Some((cost, next)) => self.start(server, cost, next),
            None => self.servers[usize::from(server)].idle += 1,
        }
        match work {
            Work::Run(call) => self.answer(call),
            Work::Global(call, hold) => {
                let image = self.image(self.calls[&call].operation);
                let rows = &mut self.servers[usize::from(server)].rows;
                let sequence = rows.draw();
                let committed = rows.commit_operation(hold, sequence, image).is_ok();
                self.committed += u64::from(committed);
                let ended = Input::Ended {
                    operation: call,
                    committed,
                };
                self.belt(server, ended);
            }
            Work::Receive(token) => {
                let of = &mut self.servers[usize::from(server)];
                let received = of.rows.receive(*token);
                if let Ok(new) = &received {
                    of.applied += new.len() as u64;
                }
                self.belt(server, Input::Received(received.map(|_| ())));
            }
            Work::Pass(hold, wishes) => {
                let rows = &mut self.servers[usize::from(server)].rows;
                let passed = rows.pass(hold, wishes).cloned();
                self.belt(server, Input::Passed(passed));
            }
            Work::Part(call) => {
                let home = self.calls[&call].home;
                let takes = self.links.between[usize::from(server)][usize::from(home)];
                match server == home {
                    true => self.at(self.now, Event::Answered(call)),
                    false => {
                        self.count_message();
                        self.at(self.now + takes, Event::Answered(call));
                    }
                }
            }
            Work::Release(call) => {
                for next in self.locks.release(call, server) {
                    self.lock_granted(next);
                }
            }
        }
    }

    /// One step of a server's belt, and what follows from it.
    fn belt(&mut self, server: u16, input: Input<Image, u32>) {
        let mut out = Outbox::default();
        let place = usize::from(server);
        self.servers[place]
            .machine
            .step(Ticks(self.now), input, &mut out);
        for request in out.requests {
            match request {
                Request::Receive(token) => {
                    let applied = &self.servers[place].rows.applied;
                    let new = token.updates.iter().filter(|update| {
                        let at = applied.get(&update.origin);
                        update.origin.0 != server && at.is_none_or(|at| *at < update.sequence)
                    });
                    let cost: u64 = new.map(|update| self.apply_cost(update.payload.kind)).sum();
                    let cost = cost + self.costs.receive;
                    self.work(server, cost, Work::Receive(Box::new(token)));
                }
                Request::Run { operation, hold } => {
                    let call = self.calls[&operation].clone();
                    let (cost, sleeps) = self.cost(&call);
                    self.begin(server, cost, sleeps, Work::Global(operation, hold));
                }
                Request::Pass { hold, wishes } => {
                    self.work(server, self.costs.pass, Work::Pass(hold, wishes));
                }
                Request::Cancel(_) | Request::Promise(_) | Request::Install(..) => {
                    unreachable!("no operation has a deadline, and no server is removed")
                }
            }
        }
        for (to, message) in out.messages {
            self.count_message();
            let takes = self.links.between[place][usize::from(to.0)];
            let event = Event::Message(ServerId(server), to, Box::new(message));
            self.at(self.now + takes, event);
        }
        for (at, timer) in out.timers {
            if at < Ticks(u64::MAX) {
                self.at(at.0.max(self.now), Event::Timer(server, timer));
            }
        }
        for reply in out.replies {
            if let Reply::Answer(call) = reply {
                self.answer(call);
            }
        }
    }

    /// The answer of a call leaves its server.
    fn answer(&mut self, number: u32) {
        let call = self.calls.remove(&number).expect("it ends once");
        let groups = self.links.nearest.len() as u32;
        let group = (call.client % groups) as usize;
        let mut takes = self.links.to_server[group][usize::from(call.home)];
        if call.server != call.home {
            takes += self.links.between[usize::from(call.server)][usize::from(call.home)];
            self.count_message();
        }
        let ends = self.now + takes;
        let end = self.load.warmup.0 + self.load.measured.0;
        if ends >= self.load.warmup.0 && ends < end && !self.is_ending {
            let nanos = ends - call.began;
            self.outcome.all.add(nanos);
            match call.kind {
                Kind::Local => self.outcome.local.add(nanos),
                Kind::Forwarded => self.outcome.forwarded.add(nanos),
                Kind::Global => self.outcome.global.add(nanos),
            }
        }
        let thinks = match self.load.think.0 {
            0 => 0,
            mean => (-(1.0 - unit(&mut self.random)).ln() * mean as f64) as u64,
        };
        self.at(ends + thinks, Event::Next(call.client));
    }

    /// The next step of an operation over partitioned rows.
    fn next_step(&mut self, number: u32) {
        let call = self.calls.get_mut(&number).expect("it has not ended");
        let home = call.home;
        let plan = call.plan.as_mut().expect("it has a plan");
        let Some(step) = plan.next() else {
            let commits = std::mem::take(&mut plan.commits);
            // The decision is logged: the client is answered, and participants commit.
            for (server, cost) in commits {
                let takes = self.links.between[usize::from(home)][usize::from(server)];
                let takes = if server == home { 0 } else { takes };
                if server != home {
                    self.count_message();
                }
                self.at(self.now + takes, Event::ArriveCommit(number, server, cost));
            }
            return self.answer(number);
        };
        call.missing = step.len() as u16;
        for part in step {
            let takes = match part.server == home {
                true => 0,
                false => {
                    self.count_message();
                    self.links.between[usize::from(home)][usize::from(part.server)]
                }
            };
            if let Some(item) = part.locks {
                self.locks.expect(number, part.server, item);
            }
            let event = Event::ArrivePart(number, part.server, part.cost, part.locks.is_some());
            self.at(self.now + takes, event);
        }
    }

    fn arrive_part(&mut self, call: u32, server: u16, cost: u64, takes_lock: bool) {
        if takes_lock && !self.locks.acquire(call, server, cost) {
            self.lock_waits.insert(call, self.now);
            return;
        }
        self.work(server, cost, Work::Part(call));
    }

    fn lock_granted(&mut self, (call, server, cost): (u32, u16, u64)) {
        if let Some(since) = self.lock_waits.remove(&call)
            && self.is_measured()
        {
            self.lock_wait += self.now - since;
        }
        self.work(server, cost, Work::Part(call));
    }
}
