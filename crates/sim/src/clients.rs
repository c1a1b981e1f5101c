//! The clients: closed loops, one call under way each.
//!
//! A client makes its share of the run's calls. When it has made them it waits until all faults
//! have ended, and then makes a few more, which must succeed: a cluster that has been hurt must
//! heal. A client that dies forgets its call; the one that takes its place has another name.

use std::sync::Arc;

use anabranch_engine::{Call, CallError, CallId, NodeInput, Outcome, PlannedApplication, Work};
use anabranch_protocol::Session;
use anabranch_sql::expression::text::literal;
use anabranch_types::{SplitMix64, Ticks};
use anabranch_workload::{Caller, Operation, Place, Workload};

use crate::case::Prepared;
use crate::cluster::Cluster;
use crate::latency;
use crate::protocols::Simulated;

/// Calls that each client makes after the last fault has ended.
pub const HEALED_CALLS: u64 = 3;

/// How many violations are kept.
const VIOLATIONS_MAX: usize = 20;

/// What decides what clients do.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The run's seed.
    pub seed: u64,
    /// Nodes of a cluster; clients are spread over them.
    pub nodes: u16,
    /// Clusters; clients are spread over them.
    pub clusters: u16,
    /// How many clients there are.
    pub count: u32,
    /// Calls that they make between them while faults may come.
    pub transactions: u64,
    /// The median pause between an answer and the next call.
    pub think: Ticks,
    /// When all faults have ended.
    pub healed_at: Ticks,
    /// Whether each goes to the next node with each call, in the next cluster if there are several.
    pub roaming: bool,
    /// Whether calls go where the plan routes them, and those that any node may run to their client's node:
    /// as a cluster's clients do. For one cluster without faults.
    pub routed: bool,
}

/// Every client of a run.
pub struct Clients {
    workload: Arc<dyn Workload>,
    /// By number of the workload's procedures: the application's.
    procedures: Vec<usize>,
    planned: Arc<PlannedApplication>,
    seed: u64,
    nodes: u16,
    clusters: u16,
    clients: Vec<Client>,
    random: SplitMix64,
    think: Ticks,
    healed_at: Ticks,
    roaming: bool,
    routed: bool,
    /// Clients that have more to do.
    busy: u32,
    /// Whether they were told to make no further calls.
    stopped: bool,
    names: u32,
    /// When the last call ended.
    pub(crate) last_answer: Ticks,
    /// How long calls took that committed, if somebody wants to know.
    pub(crate) latencies: Option<Vec<Ticks>>,
}

struct Client {
    caller: Box<dyn Caller>,
    place: Place,
    /// Its cluster.
    cluster: u16,
    /// Calls to be made before it waits for the cluster to heal, and after.
    left: u64,
    healed_left: u64,
    /// Which replica of its node it takes for the primary, and the host that its call is at.
    replica: u8,
    at: u16,
    /// The call under way, and its number.
    current: Option<(CallId, Operation, Ticks)>,
    number: u64,
    dying: bool,
    /// What it has seen, where the protocol promises causal consistency.
    session: Session,
}

impl Clients {
    /// Clients that make calls of the workload that was prepared.
    pub fn new(prepared: &Prepared, settings: Settings) -> Clients {
        let Settings {
            seed,
            nodes,
            clusters,
            count,
            transactions,
            think,
            healed_at,
            roaming,
            routed,
        } = settings;
        let clients = (0..count).map(|number| {
            let (place, cluster) = placed(number, nodes, clusters);
            let share = transactions / u64::from(count);
            let rest = u64::from(u64::from(number) < transactions % u64::from(count));
            Client {
                caller: caller(&prepared.workload, seed, place, &prepared.planned),
                place,
                cluster,
                left: share + rest,
                healed_left: HEALED_CALLS,
                replica: 0,
                at: place.node * clusters + cluster,
                current: None,
                number: 0,
                dying: false,
                session: Session::default(),
            }
        });
        let clients: Vec<Client> = clients.collect();
        Clients {
            procedures: prepared.procedures.clone(),
            planned: Arc::clone(&prepared.planned),
            seed,
            nodes,
            clusters,
            random: SplitMix64::stream(seed, "clients", 0),
            think,
            healed_at,
            roaming,
            routed,
            busy: count,
            stopped: false,
            names: count,
            clients,
            workload: Arc::clone(&prepared.workload),
            last_answer: Ticks(0),
            latencies: None,
        }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.clients.len() as u32
    }

    /// No client makes another call, now or when the faults have ended.
    pub(crate) fn stop(&mut self) {
        if !std::mem::replace(&mut self.stopped, true) {
            for client in &mut self.clients {
                (client.left, client.healed_left) = (0, 0);
            }
        }
    }

    /// How many have more to do.
    pub fn busy(&self) -> u32 {
        self.busy
    }

    /// When a client begins.
    pub(crate) fn first_call(&mut self, _: u32) -> Ticks {
        Ticks(self.random.below(self.think.0.max(1) * 2))
    }

    fn pause(&mut self) -> Ticks {
        latency::sample(self.think, &mut self.random)
    }

    /// The name of what a call calls.
    pub(crate) fn procedure_name(&self, work: &Work) -> &'static str {
        let names = self.workload.procedures().iter();
        let found = match work {
            Work::Procedure(called) => names
                .zip(&self.procedures)
                .find(|(_, number)| *number == called),
            Work::Statement(_) => None,
        };
        found.map_or("a statement", |(name, _)| name)
    }

    /// Calls under way, for a person.
    pub(crate) fn under_way(&self) -> Vec<String> {
        let each = self.clients.iter().filter_map(|client| {
            let (_, operation, since) = client.current.as_ref()?;
            let name = self.workload.procedures()[operation.procedure];
            Some(format!(
                "{name} at n{} since {} us",
                client.at,
                since.as_micros()
            ))
        });
        each.collect()
    }
}

/// Where a client is: its cluster, and its node there.
fn placed(client: u32, nodes: u16, clusters: u16) -> (Place, u16) {
    let count = u32::from(clusters);
    let place = Place {
        client,
        node: (client / count % u32::from(nodes)) as u16,
        nodes,
    };
    (place, (client % count) as u16)
}

fn caller(
    workload: &Arc<dyn Workload>,
    seed: u64,
    place: Place,
    planned: &PlannedApplication,
) -> Box<dyn Caller> {
    let seed = SplitMix64::stream(seed, "caller", u64::from(place.client)).bits();
    workload.caller(seed, place, planned)
}

impl<P: Simulated> Cluster<P> {
    /// A client makes its next call, or waits, or is done.
    pub(crate) fn client_goes_on(&mut self, number: u32) {
        let healed_at = self.clients.healed_at;
        let (nodes, roaming) = (self.clients.nodes, self.clients.roaming);
        let clusters = self.clients.clusters;
        let client = &mut self.clients.clients[number as usize];
        if roaming && client.current.is_none() {
            client.place.node = (client.place.node + 1) % nodes;
            client.cluster = (client.cluster + 1) % clusters;
        }
        let client = &self.clients.clients[number as usize];
        if client.current.is_some() {
            return;
        }
        // There are several replicas or several clusters, and not both.
        let at = client.place.node * clusters + client.cluster + u16::from(client.replica) * nodes;
        if self.hosts[usize::from(at)].node().is_none() {
            self.happened.sometimes("a client found its node dead");
            let factor = self.placement.factor();
            let client = &mut self.clients.clients[number as usize];
            client.replica = (client.replica + 1) % factor;
            self.wake(number, self.retry_at());
            return;
        }
        let client = &mut self.clients.clients[number as usize];
        client.at = at;
        if client.left > 0 {
            client.left -= 1;
        } else if self.now < healed_at {
            self.wake(number, healed_at);
            return;
        } else if client.healed_left > 0 {
            client.healed_left -= 1;
        } else {
            self.clients.busy -= 1;
            return;
        }
        client.number += 1;
        let operation = client.caller.next();
        let procedure = self.clients.procedures[operation.procedure];
        if self.clients.routed
            && let execution = &self.clients.planned.execution
            && let turn = u64::from(number) + client.number
            && let Some(home) = execution.home(procedure, &operation.arguments, turn)
        {
            client.at = home.0;
        }
        let at = client.at;
        let id = CallId(u64::from(client.place.client) << 32 | client.number);
        let call = Call {
            id,
            work: Work::Procedure(procedure),
            arguments: Arc::clone(&operation.arguments),
            session: client.session.clone(),
        };
        client.current = Some((id, operation, self.now));
        let (node, dying) = (at % self.placement.nodes(), client.dying);
        if let Some(recorder) = &mut self.recorder {
            let procedure = self.clients.clients[number as usize].current.as_ref();
            let procedure = procedure.map_or(0, |(_, operation, _)| operation.procedure);
            let name = self.clients.workload.procedures()[procedure];
            recorder.called(node, self.now, id, name);
        }
        if let Some(recording) = &mut self.recording {
            recording.called(id, id.0 >> 32, self.now);
        }
        self.give(at, NodeInput::Call(call));
        if dying {
            self.client_dies(number);
        }
    }

    /// A call has ended.
    pub(crate) fn client_answered(&mut self, node: u16, outcome: Outcome) {
        self.clients.last_answer = self.now;
        self.happened.retried(&outcome.retries);
        if let Some(recorder) = &mut self.recorder {
            let node = node % self.placement.nodes();
            recorder.answered(node, self.now, outcome.id, outcome.result.is_ok());
        }
        let name = (outcome.id.0 >> 32) as u32;
        let clients = &mut self.clients.clients;
        let number = if (name as usize) < clients.len() {
            Some(name as usize)
        } else {
            clients.iter().position(|c| c.place.client == name)
        };
        let waits = |n: &usize| {
            let current = &self.clients.clients[*n].current;
            current.as_ref().is_some_and(|(id, ..)| *id == outcome.id)
        };
        let Some(number) = number.filter(waits) else {
            self.happened
                .sometimes("a call ended after its client had died");
            return;
        };
        let client = &mut self.clients.clients[number];
        let (_, operation, since) = client.current.take().expect("it waits for this call");
        if let (Some(latencies), true) = (&mut self.clients.latencies, outcome.result.is_ok()) {
            latencies.push(Ticks(self.now.0 - since.0));
        }
        if outcome.result.is_ok() {
            client.session = outcome.session.clone();
        }
        self.judge(&operation, &outcome);
        let at = self.now + self.clients.pause();
        self.wake(number as u32, at);
    }

    /// A node has died: its clients' calls are lost, and nobody knows what became of them.
    pub(crate) fn clients_lose(&mut self, host: u16) {
        for number in 0..self.clients.count() {
            let client = &mut self.clients.clients[number as usize];
            if client.at == host && client.current.take().is_some() {
                self.happened.abort("lost with its node");
                let at = self.now + self.clients.pause();
                self.wake(number, at);
            }
        }
    }

    /// Looks at what a call was answered.
    fn judge(&mut self, operation: &Operation, outcome: &Outcome) {
        let workload = &self.clients.workload;
        let name = workload.procedures()[operation.procedure];
        self.happened.answers += 1;
        let wrong = match &outcome.result {
            Ok(result) => {
                self.happened.committed += 1;
                workload.judge(operation, &result.rows).err()
            }
            Err(CallError::Failed(error)) => {
                self.happened.abort(&format!("refused {}", error.code));
                (!workload.refuses(error.code))
                    .then(|| format!("it failed with {}: {}", error.code, error.message))
            }
            Err(CallError::TooManyRetries { .. }) => {
                self.happened.abort("gave up");
                None
            }
            Err(CallError::InDoubt) => {
                self.happened.abort("in doubt");
                self.happened.sometimes("a call was left in doubt");
                None
            }
            Err(other) => Some(other.to_string()),
        };
        if let Some(wrong) = wrong {
            self.happened.wrong_answers += 1;
            if let Some(recorder) = &mut self.recorder {
                recorder.found_wrong(self.now);
            }
            if self.violations.len() < VIOLATIONS_MAX {
                let arguments: Vec<String> = operation.arguments.iter().map(literal).collect();
                self.violations.push(format!(
                    "{name}({}) at {} us: {wrong}",
                    arguments.join(", "),
                    self.now.as_micros()
                ));
            }
        }
    }

    /// A client dies; if it is not in the middle of a transaction, then in its next one.
    pub(crate) fn client_dies(&mut self, number: u32) {
        let clients = &mut self.clients;
        let Some(client) = clients.clients.get_mut(number as usize) else {
            return;
        };
        if client.current.take().is_none() {
            client.dying = true;
            return;
        }
        self.happened
            .sometimes("a client died in the middle of a transaction");
        client.dying = false;
        client.session = Session::default();
        client.number = 0;
        (client.place, client.cluster) = placed(clients.names, clients.nodes, clients.clusters);
        clients.names += 1;
        client.caller = caller(
            &clients.workload,
            clients.seed,
            client.place,
            &clients.planned,
        );
        let at = self.now + clients.pause();
        self.wake(number, at);
    }
}
