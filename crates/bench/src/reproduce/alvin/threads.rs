//! One setting on real threads: a thread for each site, and messages that take as long as the matrix says. Beside it, the
//! same setting simulated.
//!
//! A thread owns its site's node and its clients, which are closed loops as in the simulator. It has one core, where a
//! simulated site has eight. Messages are handed over in memory, and held back until they are due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anabranch_engine::sequence::SequenceStarts;
use anabranch_engine::{
    Call, CallError, CallId, Node, NodeInput, NodeOptions, NodeOutbox, Outcome, Work,
};
use anabranch_protocol::certification::{
    Certificate, CertificationSite, Consistency, LoggedOrderer,
};
use anabranch_protocol::order::SiteId;
use anabranch_protocol::order::epaxos::{EpaxosOptions, EpaxosSite};
use anabranch_protocol::order::multipaxos::{MultiPaxosOptions, MultiPaxosSite};
use anabranch_protocol::order::pob::{FastDecisions, PobOptions, PobSite};
use anabranch_protocol::{Protocol, Topology};
use anabranch_sim::{CaseError, ConsistencyName, ProtocolName, SiteLoad, rows_of};
use anabranch_storage::Store;
use anabranch_types::{NodeId, PartitionId, SplitMix64, Ticks};
use anabranch_workload::{Caller, ClientPlacement, Operation};

use super::load::{Filled, Point, Spread, System, Task, Traffic, Warehouses, millis, run_all};
use super::{Context, ReproduceError, published};
use crate::conditions;
use crate::figure::{Comparison, Origin, RunLine, Section};

/// What sites send each other.
type MessageOf<O> = <CertificationSite<O> as Protocol>::Message;

/// Regions of the setting.
const REGIONS: u16 = 3;

/// The pause of a client between an answer and its next call.
const THINK: Duration = Duration::from_millis(1);

/// Sites without clients have to come to rest within this time.
const REST_MAX: Duration = Duration::from_secs(60);

/// What all threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Phase {
    /// Clients call; nothing counts.
    Warmup,
    /// Answers count.
    Measured,
    /// No client calls any more.
    Rest,
    /// The threads end.
    End,
}

/// What a site reports to the main thread.
#[derive(Debug, Default)]
struct Status {
    /// Messages sent and received.
    sent: AtomicU64,
    received: AtomicU64,
    /// Calls and protocol work that are left; 0 at rest.
    left: AtomicU64,
}

/// What all threads share.
struct Shared {
    phase: AtomicU8,
    start: Instant,
    status: Vec<Status>,
}

impl Shared {
    fn set(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::SeqCst);
    }

    fn is(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::SeqCst) == phase as u8
    }
}

/// A message on its way, by the time when it is due.
struct Packet<M> {
    due: Instant,
    number: u64,
    from: NodeId,
    message: M,
}

impl<M> PartialEq for Packet<M> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<M> Eq for Packet<M> {}

impl<M> PartialOrd for Packet<M> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<M> Ord for Packet<M> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.from, self.number).cmp(&(other.due, other.from, other.number))
    }
}

/// A client of a site.
struct Client {
    caller: Box<dyn Caller>,
    running: Option<(CallId, Operation, Instant)>,
    /// When it makes its next call.
    next: Instant,
}

/// What a site's thread has found.
struct Ended {
    store: Store,
    /// Latencies of committed calls in the measured time.
    latencies: Vec<Duration>,
    retries: u64,
    messages: u64,
    /// An answer that the workload does not permit.
    wrong: Option<String>,
}

/// A site's thread.
struct SiteThread<O: LoggedOrderer> {
    id: NodeId,
    node: Node<CertificationSite<O>>,
    delays: Vec<Duration>,
    peers: Vec<Sender<Packet<MessageOf<O>>>>,
    inbox: Receiver<Packet<MessageOf<O>>>,
    waiting: BinaryHeap<Reverse<Packet<MessageOf<O>>>>,
    clients: Vec<Client>,
    procedures: Vec<usize>,
    filled: Arc<Filled>,
    shared: Arc<Shared>,
    calls: u64,
    sent: u64,
    received: u64,
    latencies: Vec<Duration>,
    retries: u64,
    messages: u64,
    wrong: Option<String>,
}

impl<O: LoggedOrderer> SiteThread<O> {
    fn run(mut self) -> Ended {
        let mut out = NodeOutbox::default();
        while !self.shared.is(Phase::End) {
            let now = Instant::now();
            while self.waiting.peek().is_some_and(|next| next.0.due <= now) {
                if let Some(Reverse(Packet { from, message, .. })) = self.waiting.pop() {
                    self.received += 1;
                    let input = NodeInput::Message { from, message };
                    self.node.step(self.ticks(), input, &mut out);
                }
            }
            self.call(now, &mut out);
            let ticks = self.ticks();
            if self.node.next_alarm().is_some_and(|at| at <= ticks) {
                self.node.step(ticks, NodeInput::Tick, &mut out);
            }
            self.flush(&mut out);
            self.report();
            self.sleep();
        }
        Ended {
            store: self.node.hand_over().protocol.store().clone(),
            latencies: self.latencies,
            retries: self.retries,
            messages: self.messages,
            wrong: self.wrong,
        }
    }

    fn ticks(&self) -> Ticks {
        Ticks(self.shared.start.elapsed().as_nanos() as u64)
    }

    /// Begins the calls of clients that have paused long enough.
    fn call(&mut self, now: Instant, out: &mut NodeOutbox<MessageOf<O>>) {
        if self.shared.phase.load(Ordering::SeqCst) >= Phase::Rest as u8 {
            return;
        }
        for number in 0..self.clients.len() {
            let client = &mut self.clients[number];
            if client.running.is_some() || client.next > now {
                continue;
            }
            let operation = client.caller.next();
            self.calls += 1;
            let id = CallId((number as u64) << 40 | self.calls);
            let work = Work::Procedure(self.procedures[operation.procedure]);
            let call = Call::new(id, work, Arc::clone(&operation.arguments));
            client.running = Some((id, operation, Instant::now()));
            self.node.step(self.ticks(), NodeInput::Call(call), out);
        }
    }

    fn flush(&mut self, out: &mut NodeOutbox<MessageOf<O>>) {
        let is_measured = self.shared.is(Phase::Measured);
        let now = Instant::now();
        for (to, message) in out.messages.drain(..) {
            self.sent += 1;
            self.messages += u64::from(is_measured);
            let packet = Packet {
                due: now + self.delays[to.index()],
                number: self.sent,
                from: self.id,
                message,
            };
            // A thread that has ended receives nothing more: it ends when all are at rest.
            let _ = self.peers[to.index()].send(packet);
        }
        for outcome in std::mem::take(&mut out.outcomes) {
            self.answered(now, outcome, is_measured);
        }
    }

    fn answered(&mut self, now: Instant, outcome: Outcome, is_measured: bool) {
        let client = &mut self.clients[(outcome.id.0 >> 40) as usize];
        let Some((_, operation, began)) = client.running.take() else {
            unreachable!("a client has one call")
        };
        client.next = now + THINK;
        let workload = &self.filled.prepared.workload;
        self.retries += match is_measured {
            true => u64::from(outcome.retries.total()),
            false => 0,
        };
        let wrong = match &outcome.result {
            Ok(result) => {
                if is_measured {
                    self.latencies.push(now - began);
                }
                workload.judge(&operation, &result.rows).err()
            }
            Err(CallError::Failed(error)) if workload.refuses(error.code) => None,
            Err(error) => Some(format!("{error:?}")),
        };
        self.wrong = self.wrong.take().or(wrong);
    }

    fn report(&self) {
        let running = self.clients.iter().filter(|it| it.running.is_some());
        let left = running.count() as u64
            + self.waiting.len() as u64
            + u64::from(!self.node.protocol().is_idle());
        let status = &self.shared.status[self.id.index()];
        status.left.store(left, Ordering::SeqCst);
        status.received.store(self.received, Ordering::SeqCst);
        status.sent.store(self.sent, Ordering::SeqCst);
    }

    /// Waits for the next thing to do, at most for some milliseconds.
    fn sleep(&mut self) {
        let now = Instant::now();
        let mut until = now + Duration::from_millis(5);
        if let Some(Reverse(next)) = self.waiting.peek() {
            until = until.min(next.due);
        }
        if let Some(at) = self.node.next_alarm() {
            until = until.min(self.shared.start + Duration::from_nanos(at.0));
        }
        for client in &self.clients {
            if client.running.is_none()
                && self.shared.phase.load(Ordering::SeqCst) < Phase::Rest as u8
            {
                until = until.min(client.next);
            }
        }
        match self
            .inbox
            .recv_timeout(until.saturating_duration_since(now))
        {
            Ok(packet) => {
                self.waiting.push(Reverse(packet));
                self.waiting.extend(self.inbox.try_iter().map(Reverse));
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
}

/// The setting of a run.
struct Setting {
    load: SiteLoad,
    filled: Arc<Filled>,
    /// Milliseconds before the measurement and of it.
    millis: [u64; 2],
}

/// The results of a run.
struct Measured {
    committed: u64,
    per_second: f64,
    mean: f64,
    p50: f64,
    p99: f64,
    retries: f64,
    messages: f64,
}

impl Setting {
    /// Runs a thread for each site, and checks what must hold at rest.
    fn run(&self) -> Result<Measured, ReproduceError> {
        let options = self.load.options;
        let sites = self.load.sites as u8;
        let longest = self.load.network.longest(self.load.sites);
        // As in the simulator.
        let times = |latencies: u64| Ticks(longest.0 * latencies);
        let (retry, patience, fast_wait) = (times(8), times(24), times(3));
        let batch_window = options.batch_window;
        match self.load.protocol {
            ProtocolName::Epaxos => self.run_over(move |site| {
                EpaxosSite::<Certificate>::new(EpaxosOptions {
                    retry,
                    patience,
                    fast_wait,
                    batch_window,
                    ..EpaxosOptions::new(site, sites)
                })
                .expect("the number of sites is permitted")
            }),
            ProtocolName::Multipaxos => self.run_over(move |site| {
                MultiPaxosSite::<Certificate>::new(MultiPaxosOptions {
                    leader: SiteId(options.leader as u8),
                    retry,
                    patience,
                    batch_window,
                    ..MultiPaxosOptions::new(site, sites)
                })
                .expect("the number of sites is permitted")
            }),
            _ => self.run_over(move |site| {
                PobSite::<Certificate>::new(PobOptions {
                    fast: match options.fast_decisions {
                        true => FastDecisions::AllSites,
                        false => FastDecisions::Off,
                    },
                    retry,
                    patience,
                    fast_wait,
                    batch_window,
                    retained_max: usize::MAX,
                    ..PobOptions::new(site, sites)
                })
                .expect("the number of sites is permitted")
            }),
        }
    }

    fn run_over<O>(
        &self,
        orderer: impl Fn(SiteId) -> O + Clone + Send + 'static,
    ) -> Result<Measured, ReproduceError>
    where
        O: LoggedOrderer + 'static,
        O::Message: Send + 'static,
        O::Transfer: Send + 'static,
    {
        let sites = self.load.sites;
        let shared = Arc::new(Shared {
            phase: AtomicU8::new(Phase::Warmup as u8),
            start: Instant::now(),
            status: (0..sites).map(|_| Status::default()).collect(),
        });
        let (peers, inboxes): (Vec<_>, Vec<_>) = (0..sites).map(|_| channel()).unzip();
        let mut threads = Vec::new();
        for (number, inbox) in (0..sites).zip(inboxes) {
            let (site_shared, filled) = (Arc::clone(&shared), Arc::clone(&self.filled));
            let (peers, orderer, load) = (peers.clone(), orderer.clone(), self.load.clone());
            let spawned = std::thread::Builder::new()
                .name(format!("site {number}"))
                .spawn(move || {
                    let node = node(number, &load, &filled, orderer(SiteId(number as u8)));
                    let clients = (0..load.clients)
                        .map(|client| client_of(number, client, &load, &filled))
                        .collect();
                    let delay = |to| Duration::from_nanos(load.network.median(number, to).0);
                    SiteThread {
                        id: NodeId(number),
                        node,
                        delays: (0..load.sites).map(delay).collect(),
                        peers,
                        inbox,
                        waiting: BinaryHeap::new(),
                        clients,
                        procedures: filled.prepared.procedures().to_vec(),
                        filled,
                        shared: site_shared,
                        calls: 0,
                        sent: 0,
                        received: 0,
                        latencies: Vec::new(),
                        retries: 0,
                        messages: 0,
                        wrong: None,
                    }
                    .run()
                });
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    shared.set(Phase::End);
                    return Err(ReproduceError::Thread(error));
                }
            }
        }
        drop(peers);
        std::thread::sleep(Duration::from_millis(self.millis[0]));
        shared.set(Phase::Measured);
        let began = Instant::now();
        std::thread::sleep(Duration::from_millis(self.millis[1]));
        shared.set(Phase::Rest);
        let elapsed = began.elapsed();
        let at_rest = come_to_rest(&shared);
        shared.set(Phase::End);
        let mut ended = Vec::new();
        for thread in threads {
            let panicked = |_| self.wrong("a site's thread has panicked".to_owned());
            ended.push(thread.join().map_err(panicked)?);
        }
        if !at_rest {
            return Err(self.wrong("the sites do not come to rest".to_owned()));
        }
        self.check(&ended)?;
        Ok(sum(&ended, elapsed))
    }

    fn wrong(&self, violation: String) -> ReproduceError {
        ReproduceError::Wrong {
            what: format!("{} on real threads", self.load.protocol.name()),
            violation,
        }
    }

    /// No answer was wrong, all sites have the same rows, and every condition holds.
    fn check(&self, ended: &[Ended]) -> Result<(), ReproduceError> {
        if let Some(wrong) = ended.iter().find_map(|it| it.wrong.clone()) {
            return Err(ReproduceError::Case(CaseError::Wrong(wrong)));
        }
        let first = rows_of(&ended[0].store);
        for (number, site) in ended.iter().enumerate() {
            if rows_of(&site.store) != first {
                let violation = format!("PCC-I5: site {number} has other rows than site 0");
                return Err(self.wrong(violation));
            }
            let planned = &self.filled.prepared.planned;
            let held = conditions::check(planned, &[&site.store], |_| {})
                .map_err(|error| self.wrong(format!("a condition: {error:?}")))?;
            if let Some((name, _)) = held.iter().find(|(_, held)| !**held) {
                return Err(self.wrong(format!("condition {name} does not hold at {number}")));
            }
        }
        Ok(())
    }
}

/// Waits until no call is running and no message is under way, twice in a row.
fn come_to_rest(shared: &Shared) -> bool {
    let until = Instant::now() + REST_MAX;
    let mut before = None;
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
        let sum = |of: fn(&Status) -> &AtomicU64| -> u64 {
            let all = shared.status.iter();
            all.map(|status| of(status).load(Ordering::SeqCst)).sum()
        };
        let (left, received) = (sum(|it| &it.left), sum(|it| &it.received));
        let now = (left, received, sum(|it| &it.sent));
        if left == 0 && now.1 == now.2 && before == Some(now) {
            return true;
        }
        before = Some(now);
    }
    false
}

fn node<O: LoggedOrderer>(
    number: u16,
    load: &SiteLoad,
    filled: &Filled,
    orderer: O,
) -> Node<CertificationSite<O>> {
    let planned = &filled.prepared.planned;
    let store = filled.store.clone();
    let starts = SequenceStarts::of(planned, std::slice::from_ref(&store));
    let consistency = match load.options.consistency {
        ConsistencyName::Sr => Consistency::Serializable,
        ConsistencyName::Eus => Consistency::UpdateSerializable,
    };
    let topology = Topology::clusters(load.sites, 1, number);
    let programs = planned.application.programs();
    let id = NodeId(number);
    let protocol = CertificationSite::new(id, &topology, orderer, store, programs, consistency);
    let options = NodeOptions {
        sequences: Some((number, load.sites)),
        ..NodeOptions::default()
    };
    Node::new(id, PartitionId(0), Arc::clone(planned), protocol, options)
        .with_sequence_starts(&starts)
}

/// A client, with the calls of the simulator's client of the same number.
fn client_of(site: u16, client: u32, load: &SiteLoad, filled: &Filled) -> Client {
    let number = client * u32::from(load.sites) + u32::from(site);
    let seed = SplitMix64::stream(load.seed, "caller", u64::from(number)).bits();
    let place = ClientPlacement {
        client: number,
        node: 0,
        nodes: 1,
    };
    let prepared = &filled.prepared;
    Client {
        caller: prepared.workload.caller(seed, place, &prepared.planned),
        running: None,
        next: Instant::now(),
    }
}

fn sum(ended: &[Ended], elapsed: Duration) -> Measured {
    let mut latencies: Vec<Duration> = ended
        .iter()
        .flat_map(|site| site.latencies.iter().copied())
        .collect();
    latencies.sort_unstable();
    let committed = latencies.len() as u64;
    let count = latencies.len().max(1) as f64;
    let ms = |latency: Duration| latency.as_secs_f64() * 1e3;
    let at = |percent: usize| latencies.get(latencies.len() * percent / 100).copied();
    let total = |of: fn(&Ended) -> u64| ended.iter().map(of).sum::<u64>() as f64;
    Measured {
        committed,
        per_second: committed as f64 / elapsed.as_secs_f64(),
        mean: latencies.iter().map(|it| ms(*it)).sum::<f64>() / count,
        p50: ms(at(50).unwrap_or_default()),
        p99: ms(at(99).unwrap_or_default()),
        retries: total(|it| it.retries) / count,
        messages: total(|it| it.messages) / count,
    }
}

/// Each system on real threads, beside the simulator.
pub(super) fn section(
    context: &Context<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    let settings = context.settings;
    let effort = &settings.effort;
    let clients = effort.clients_of_threads;
    let systems = [
        System::AlvinSr,
        System::AlvinFast,
        System::AlvinEus,
        System::Epaxos,
        System::PaxosLow,
    ];
    let point = |system| Point {
        traffic: Traffic::Tpcc {
            reads: published::READS,
            warehouses: Warehouses::OfNodes,
        },
        system,
        regions: REGIONS,
        nodes: 1,
    };
    let task = |system: &System| Task {
        point: point(*system),
        clients: vec![clients],
        all: true,
        batches: true,
        spread: Spread::None,
        millis: effort.millis_of_threads,
    };
    let simulated = run_all(context, systems.iter().map(task).collect(), progress)?;
    let data = point(System::AlvinSr).data(effort, clients);
    let filled = Arc::new(Filled::new(&data, settings.seed)?);
    let mut section = Section {
        title: "Real threads beside the simulator: TPC-C, 3% read-only, 3 sites".into(),
        text: vec![format!(
            "A thread for each site, {clients} clients of each, messages held back as long as the matrix says. Checked after \
             each run: the same rows at all sites, and every condition at each. In both a message takes the median of its link."
        )],
        ..Section::default()
    };
    for (system, beside) in systems.iter().zip(&simulated) {
        progress(&format!("{} on real threads", system.name()));
        let run = beside.peak();
        let setting = Setting {
            load: run.load.clone(),
            filled: Arc::clone(&filled),
            millis: effort.millis_of_threads,
        };
        let found = setting.run()?;
        let name = system.name();
        for (what, unit, ours, other) in [
            ("rate", "/s", found.per_second, run.result.all_per_second()),
            ("median", "ms", found.p50, millis(run.result.all.p50)),
        ] {
            let measured = format!("{name}: {what}");
            let all = &mut section.comparisons;
            all.push(Comparison::new(measured, unit, ours, Origin::Measured));
            all.push(Comparison::simulated(
                format!("{name}: {what}, simulated"),
                unit,
                other,
            ));
        }
        section.runs.push(RunLine {
            what: format!("{} on real threads", beside.point.name()),
            origin: Origin::Measured,
            protocol: setting.load.protocol.name(),
            servers: REGIONS,
            clients: clients * u32::from(REGIONS),
            committed: found.committed,
            per_second: found.per_second,
            mean_ms: found.mean,
            p99_ms: found.p99,
            utilization: None,
            messages: found.messages,
            retries: found.retries,
            lock_wait_ms: 0.0,
            guessed: None,
        });
        section.runs.extend(beside.lines());
    }
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::super::Effort;
    use super::*;

    fn ended(filled: &Filled, wrong: Option<&str>) -> Ended {
        Ended {
            store: filled.store.clone(),
            latencies: Vec::new(),
            retries: 0,
            messages: 0,
            wrong: wrong.map(str::to_owned),
        }
    }

    /// What a run must not end with is found: a site with other rows, and an answer that is not permitted.
    #[test]
    fn other_rows_and_wrong_answers_are_found() {
        let point = Point {
            traffic: Traffic::Tpcc {
                reads: 3,
                warehouses: Warehouses::OfNodes,
            },
            system: System::Epaxos,
            regions: 3,
            nodes: 1,
        };
        let data = point.data(&Effort::QUICK, 1);
        let [one, other] = [1, 2].map(|seed| Filled::new(&data, seed).expect("it loads"));
        let sound = [ended(&one, None), ended(&one, None)];
        let differ = [ended(&one, None), ended(&other, None)];
        let wrong = [ended(&one, None), ended(&one, Some("an order twice"))];
        let setting = Setting {
            load: point.load(1, [1, 1], 1),
            filled: Arc::new(one),
            millis: [1, 1],
        };
        setting.check(&sound).expect("nothing is wrong");
        let found = setting.check(&differ).expect_err("rows differ");
        assert!(found.to_string().contains("PCC-I5: site 1"), "{found}");
        let found = setting.check(&wrong).expect_err("an answer is wrong");
        assert!(found.to_string().contains("an order twice"), "{found}");
    }
}
