//! Clients of a ring of real processes: closed loops of calls, each at its site.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anabranch_analysis::Plan;
use anabranch_analysis::partition::{KeyPlacement, OperationRouter};
use anabranch_workload::mix::SLOTS;
use anabranch_workload::{Caller, ClientPlacement, Operation, Workload, rubis};
use fastrand::Rng;
use hdrhistogram::Histogram;
use postgres::{Client, IsolationLevel};

use super::super::databases::{self, DatabaseError, call_text};
use super::super::traffic::Application;
use super::ring::Ring;
use super::two_phase::{Coordinator, Failure};

/// The longest pause before a call is repeated is 2 to this, in milliseconds.
const REPEAT_MAX_LOG2: u32 = 8;

/// How long a run lasts, and how clients pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Clients of each of the five sites.
    pub clients: u32,
    /// The mean pause before a call, in milliseconds.
    pub think_millis: u64,
    /// Before the measurement, in milliseconds.
    pub warmup_millis: u64,
    /// Of the measurement.
    pub millis: u64,
}

/// What clients found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Latencies in microseconds.
    pub(super) all: Histogram<u64>,
    /// Of operations that run at once, on the client's server.
    pub(super) local: Histogram<u64>,
    /// Of operations that run at once, on another server.
    pub(super) forwarded: Histogram<u64>,
    /// Of operations that wait for the token.
    pub(super) global: Histogram<u64>,
    /// Calls that ran on another server than the client's, global ones included.
    pub(super) elsewhere: u64,
    /// The latencies of the network between clients and their servers, both ways, in microseconds: one for each measured call.
    pub(super) network: Histogram<u64>,
    /// Calls that were repeated since the server asked for it (40001, 40P01).
    pub(super) retries: u64,
    /// Calls that succeeded since the beginning, by procedure.
    pub(super) done: BTreeMap<String, u64>,
    /// Calls that failed, by SQLSTATE and message.
    pub(super) failed: BTreeMap<String, u64>,
    /// The measured time.
    pub(super) seconds: f64,
}

impl Found {
    fn new() -> Found {
        let empty = || Histogram::new(3).expect("three significant digits are supported");
        Found {
            all: empty(),
            local: empty(),
            forwarded: empty(),
            global: empty(),
            network: empty(),
            elsewhere: 0,
            retries: 0,
            done: BTreeMap::new(),
            failed: BTreeMap::new(),
            seconds: 0.0,
        }
    }

    fn add(&mut self, other: &Found) {
        for (sum, part) in [
            (&mut self.all, &other.all),
            (&mut self.local, &other.local),
            (&mut self.forwarded, &other.forwarded),
            (&mut self.global, &other.global),
            (&mut self.network, &other.network),
        ] {
            sum.add(part).expect("histograms of one precision add up");
        }
        self.elsewhere += other.elsewhere;
        self.retries += other.retries;
        for (sum, part) in [
            (&mut self.done, &other.done),
            (&mut self.failed, &other.failed),
        ] {
            for (name, count) in part {
                *sum.entry(name.clone()).or_default() += count;
            }
        }
    }

    /// Operations a second.
    pub(super) fn per_second(&self) -> f64 {
        self.all.len() as f64 / self.seconds
    }
}

/// A call: its text, its procedure, and whether it waits for the token.
pub(super) struct Call {
    /// As a client writes it.
    pub(super) text: String,
    /// What it changes on the other servers, if that is known without running it.
    pub(super) changes: Option<String>,
    /// The procedure.
    pub(super) name: &'static str,
    /// Whether it is global.
    pub(super) is_global: bool,
    /// Whether its key belongs to another server than the client's.
    pub(super) is_elsewhere: bool,
    /// Whether it belongs to the page of the call before it.
    pub(super) follows: bool,
}

/// How a client's operations get to the databases.
#[derive(Clone, Copy, Debug)]
pub(super) enum CommitPath {
    /// Each is sent to the client's server: a middleware, or PostgreSQL itself.
    Sent,
    /// The client's server coordinates two-phase commit.
    TwoPhase(IsolationLevel),
}

/// The connections of one client.
enum Connections {
    Sent(Client),
    TwoPhase(Coordinator),
}

impl Connections {
    fn new(
        ring: &Ring,
        path: CommitPath,
        place: ClientPlacement,
    ) -> Result<Connections, DatabaseError> {
        Ok(match path {
            CommitPath::Sent => Connections::Sent(ring.connect(place.node)?),
            CommitPath::TwoPhase(isolation) => {
                Connections::TwoPhase(Coordinator::new(ring, place.node, place.client, isolation)?)
            }
        })
    }

    fn run(&mut self, call: &Call) -> Result<(), Failure> {
        match self {
            Connections::Sent(connection) => connection
                .batch_execute(&call.text)
                .map_err(Failure::Refused),
            Connections::TwoPhase(coordinator) => {
                let changes = call
                    .is_global
                    .then(|| call.changes.as_ref().unwrap_or(&call.text));
                coordinator.run(&call.text, changes.map(String::as_str))
            }
        }
    }

    /// Waits until every server has done what was decided.
    fn await_decisions(&mut self) -> Result<(), Failure> {
        match self {
            Connections::Sent(_) => Ok(()),
            Connections::TwoPhase(coordinator) => coordinator.await_decisions(),
        }
    }
}

/// What one client calls.
pub(super) trait Calls: Send {
    /// The next call.
    fn next(&mut self) -> Call;
}

/// The calls of an application's mix.
pub(super) struct Mix {
    application: Application,
    workload: Box<dyn Workload>,
    caller: Box<dyn Caller>,
    router: Option<OperationRouter>,
    home: u16,
}

impl Mix {
    /// Those of a client at a server of so many; `plan` of the application.
    pub(super) fn new(
        application: Application,
        plan: Option<&Plan>,
        place: ClientPlacement,
        seed: u64,
    ) -> Result<Mix, DatabaseError> {
        let workload = application.workload();
        let planned = databases::planned(application)?;
        let caller = workload.caller(seed + u64::from(place.client), place, &planned);
        let keys = KeyPlacement::new(0, SLOTS as u16, place.nodes);
        let names = workload.procedures().iter().copied();
        Ok(Mix {
            application,
            router: plan.and_then(|plan| OperationRouter::new(plan, names, keys)),
            workload,
            caller,
            home: place.node,
        })
    }
}

impl Calls for Mix {
    fn next(&mut self) -> Call {
        let Operation {
            procedure,
            arguments,
        } = self.caller.next();
        let name = self.workload.procedures()[procedure];
        let router = self.router.as_ref();
        // As the middleware does: a call goes to the server of its key, also if every server has its rows.
        let route = router.map(|router| router.route(procedure, &arguments));
        let server = route.and_then(|route| route.server);
        Call {
            text: call_text(self.workload.files(), name, &arguments),
            changes: None,
            name,
            is_global: route.is_some_and(|route| route.is_global),
            is_elsewhere: server.is_some_and(|server| server != self.home),
            follows: self.application == Application::Rubis
                && rubis::FOLLOWERS.contains(&procedure),
        }
    }
}

/// Operations of 5 ms, of which a percentage is local.
pub(super) struct Fixed {
    rng: Rng,
    local: u8,
    /// The residues of keys that belong to the client's server.
    slots: Vec<i64>,
}

impl Fixed {
    /// Those of a client.
    pub(super) fn new(local: u8, place: ClientPlacement, seed: u64) -> Fixed {
        let slots =
            (0..SLOTS).filter(|slot| slot % i64::from(place.nodes) == i64::from(place.node));
        Fixed {
            rng: Rng::with_seed(seed + u64::from(place.client)),
            local,
            slots: slots.collect(),
        }
    }
}

impl Calls for Fixed {
    fn next(&mut self) -> Call {
        let is_global = self.rng.u8(0..100) >= self.local;
        let slot = self.slots[self.rng.usize(0..self.slots.len())];
        let key = slot + SLOTS * self.rng.i64(0..60);
        let name = if is_global { "run_global" } else { "run_local" };
        Call {
            text: format!("CALL {name}({key})"),
            changes: is_global.then(|| format!("UPDATE shared SET n = n + 1 WHERE id = {key}")),
            name,
            is_global,
            is_elsewhere: false,
            follows: false,
        }
    }
}

/// Runs clients at all five sites, each at its nearest server, and joins what they found.
///
/// # Errors
/// When a client cannot connect.
pub(super) fn run(
    ring: &Ring,
    path: CommitPath,
    pace: Pace,
    seed: u64,
    calls: &dyn Fn(ClientPlacement) -> Result<Box<dyn Calls>, DatabaseError>,
) -> Result<Found, DatabaseError> {
    let groups = ring.links.nearest.len() as u32;
    let mut clients = Vec::new();
    for client in 0..groups * pace.clients {
        let group = (client % groups) as usize;
        let server = ring.links.nearest[group];
        let place = ClientPlacement {
            client,
            node: server,
            nodes: ring.databases.len() as u16,
        };
        let takes = ring.links.to_server[group][usize::from(server)];
        clients.push((
            Connections::new(ring, path, place)?,
            calls(place)?,
            Duration::from_nanos(takes),
            Rng::with_seed(seed ^ (0x9e37_79b9 + u64::from(client))),
        ));
    }
    let begin = Barrier::new(clients.len() + 1);
    let mut found = Found::new();
    thread::scope(|scope| {
        let threads: Vec<_> = clients
            .into_iter()
            .map(|(connection, calls, takes, rng)| {
                let begin = &begin;
                scope.spawn(move || {
                    begin.wait();
                    one(connection, calls, takes, rng, pace)
                })
            })
            .collect();
        begin.wait();
        for thread in threads {
            found.add(&thread.join().expect("clients do not panic"));
        }
    });
    found.seconds = pace.millis as f64 / 1e3;
    Ok(found)
}

fn one(
    mut connections: Connections,
    mut calls: Box<dyn Calls>,
    takes: Duration,
    mut rng: Rng,
    pace: Pace,
) -> Found {
    let mut found = all_calls(&mut connections, &mut *calls, takes, &mut rng, pace);
    if let Err(failure) = connections.await_decisions() {
        *found
            .failed
            .entry(format!("a decision: {}", failure.describe()))
            .or_default() += 1;
    }
    found
}

fn all_calls(
    connections: &mut Connections,
    calls: &mut dyn Calls,
    takes: Duration,
    rng: &mut Rng,
    pace: Pace,
) -> Found {
    let begun = Instant::now();
    let warm = Duration::from_millis(pace.warmup_millis);
    let end = warm + Duration::from_millis(pace.millis);
    let mut found = Found::new();
    loop {
        let call = calls.next();
        // A page is called whole, so that counters and their rows can be compared.
        if begun.elapsed() >= end && !call.follows {
            return found;
        }
        if pace.think_millis > 0 && !call.follows {
            let mean = pace.think_millis as f64 / 1e3;
            let pause = -(1.0 - rng.f64()).ln() * mean;
            let left = end.saturating_sub(begun.elapsed());
            thread::sleep(Duration::from_secs_f64(pause).min(left));
            if begun.elapsed() >= end {
                return found;
            }
        }
        let sent = Instant::now();
        // The way to the server and back: its latency is here, since a call is one message and its answer.
        thread::sleep(takes);
        let mut repeated = 0;
        let done = loop {
            match connections.run(&call) {
                Ok(()) => break Ok(()),
                Err(failure) if failure.may_be_repeated() => {
                    found.retries += 1;
                    // Of many that want one row, fewer begin again at the same moment.
                    let most = 1 << repeated.min(REPEAT_MAX_LOG2);
                    thread::sleep(Duration::from_millis(rng.u64(0..most)));
                    repeated += 1;
                }
                Err(failure) => break Err((failure.ends_all(), failure.describe())),
            }
        };
        thread::sleep(takes);
        match done {
            Ok(()) => {
                *found.done.entry(call.name.to_owned()).or_default() += 1;
                let now = begun.elapsed();
                if now >= warm && now < end {
                    let micros = sent.elapsed().as_micros() as u64;
                    found.elsewhere += u64::from(call.is_elsewhere);
                    let of = match (call.is_global, call.is_elsewhere) {
                        (true, _) => &mut found.global,
                        (false, true) => &mut found.forwarded,
                        (false, false) => &mut found.local,
                    };
                    let network = 2 * takes.as_micros() as u64;
                    for (histogram, micros) in [
                        (of, micros),
                        (&mut found.all, micros),
                        (&mut found.network, network),
                    ] {
                        histogram
                            .record(micros)
                            .expect("a growing histogram takes all");
                    }
                }
            }
            Err((ends, text)) => {
                let text = format!("{}: {text}", call.name);
                *found.failed.entry(text).or_default() += 1;
                if ends {
                    return found;
                }
            }
        }
    }
}
