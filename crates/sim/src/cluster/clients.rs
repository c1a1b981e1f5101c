//! The clients: closed loops with one running call each.
//!
//! A client makes its share of the run's calls. Then it waits until all faults have ended, and makes a
//! few more calls, which have to succeed: the cluster has to heal. A client that crashes forgets its
//! call; its replacement has another number.

use std::sync::Arc;

use anabranch_analysis::partition::{KeyPlacement, OperationRouter};
use anabranch_engine::{
    Call, CallError, CallId, NodeInput, Outcome, PlannedApplication, Shortage, Work,
};
use anabranch_protocol::Session;
use anabranch_sql::expression::text::literal;
use anabranch_types::{SplitMix64, Ticks};
use anabranch_workload::{Caller, ClientPlacement, Operation, Workload};

use super::Cluster;
use super::blocks::ClientBlock;
use crate::belt::EXPIRED;
use crate::homes::Homes;
use crate::latency;
use crate::prepared::Prepared;
use crate::protocols::Simulated;

/// Calls that each client makes after all faults have ended.
pub const HEALED_CALLS: u64 = 3;

/// The number of violations that are recorded.
const VIOLATIONS_MAX: usize = 20;

/// The settings of all clients.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The run's seed.
    pub seed: u64,
    /// Nodes of a cluster; clients are spread over them.
    pub nodes: u16,
    /// Clusters; clients are spread over them.
    pub clusters: u16,
    /// The number of clients.
    pub count: u32,
    /// Calls that all clients make together, before the calls after the last fault.
    pub transactions: u64,
    /// The median pause between an answer and the next call.
    pub think: Ticks,
    /// The end of the last fault.
    pub healed_at: Ticks,
    /// Whether each client switches to the next node with each call, and to the next cluster if there are several.
    pub clients_switch_nodes: bool,
    /// Whether calls go where the plan routes them, as a real cluster's clients send them; calls that any node may
    /// run go to their client's node. For one cluster without faults.
    pub routed: bool,
    /// Whether each client runs its operations as statements of transactions of its own, one after the other.
    pub interactive: bool,
    /// Whether calls go to the server of their operation.
    pub partitions_operations: bool,
    /// What a call to another site takes there and back, by the client's site and the other; nothing if it is empty.
    pub round_trips: Vec<Vec<Ticks>>,
}

/// Every client of a run.
pub struct Clients {
    workload: Arc<dyn Workload>,
    /// The application's number of each procedure of the workload.
    pub(super) procedures: Vec<usize>,
    planned: Arc<PlannedApplication>,
    seed: u64,
    nodes: u16,
    clusters: u16,
    pub(super) clients: Vec<Client>,
    pub(super) random: SplitMix64,
    think: Ticks,
    healed_at: Ticks,
    clients_switch_nodes: bool,
    routed: bool,
    interactive: bool,
    /// The routes of operations, if calls go to the server of their operation.
    operations: Option<OperationRouter>,
    /// The homes of guards, if calls with homed guards go there.
    homes: Option<Arc<Homes>>,
    round_trips: Vec<Vec<Ticks>>,
    /// The number of clients that have more calls to make.
    busy: u32,
    /// Whether the clients were stopped.
    stopped: bool,
    next_number: u32,
    /// The time of the last answer.
    pub(crate) last_answer: Ticks,
    /// The committed calls, if they are recorded.
    pub(crate) latencies: Option<Vec<Answered>>,
}

/// A call that has committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    /// The time from the call to its answer, retries included.
    pub(crate) latency: Ticks,
    /// The host that answered.
    pub(crate) host: u16,
    /// The workload's number of its procedure.
    pub(crate) procedure: usize,
    /// Whether that was at another site than the client's.
    pub(crate) is_away: bool,
}

pub(super) struct Client {
    pub(super) caller: Box<dyn Caller>,
    place: ClientPlacement,
    /// Its cluster.
    cluster: u16,
    /// Calls left before it waits for the cluster to heal, and after.
    left: u64,
    healed_left: u64,
    /// The replica of its node that it takes for the primary, and the host of its call.
    replica: u8,
    pub(super) at: u16,
    /// The running call, when it was made, and its number.
    current: Option<(CallId, Operation, Ticks)>,
    number: u64,
    /// An operation whose server was down.
    deferred: Option<Operation>,
    /// Whether it crashes in its next call.
    pub(super) crashes: bool,
    /// The session token of its last answer.
    pub(super) session: Session,
    /// Its open transaction, if it is interactive.
    pub(super) block: Option<ClientBlock>,
    /// Whether a step of that is under way.
    pub(super) is_stepping: bool,
}

impl Clients {
    /// Clients that make calls of a workload.
    pub fn new(prepared: &Prepared, settings: Settings) -> Clients {
        let Settings {
            seed,
            nodes,
            clusters,
            count,
            transactions,
            think,
            healed_at,
            clients_switch_nodes,
            routed,
            interactive,
            partitions_operations,
            round_trips,
        } = settings;
        let clients = (0..count).map(|number| {
            let (place, cluster) = placed(number, nodes, clusters);
            let homes = prepared.homes.as_deref();
            let share = transactions / u64::from(count);
            let rest = u64::from(u64::from(number) < transactions % u64::from(count));
            Client {
                caller: caller(
                    &prepared.workload,
                    seed,
                    at_home(place, homes, cluster, clusters),
                    homes.map_or(&prepared.planned, |homes| &homes.planned),
                ),
                place,
                cluster,
                left: share + rest,
                healed_left: HEALED_CALLS,
                replica: 0,
                at: place.node * clusters + cluster,
                current: None,
                number: 0,
                deferred: None,
                crashes: false,
                session: Session::default(),
                block: None,
                is_stepping: false,
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
            clients_switch_nodes,
            routed,
            interactive,
            operations: partitions_operations
                .then(|| router(&prepared.planned, clusters))
                .flatten(),
            homes: prepared.homes.clone(),
            round_trips,
            busy: count,
            stopped: false,
            next_number: count,
            clients,
            workload: Arc::clone(&prepared.workload),
            last_answer: Ticks(0),
            latencies: None,
        }
    }

    /// The number of clients.
    pub fn count(&self) -> u32 {
        self.clients.len() as u32
    }

    /// Stops all clients: none makes another call, not even after the faults.
    pub(crate) fn stop(&mut self) {
        if !std::mem::replace(&mut self.stopped, true) {
            for client in &mut self.clients {
                (client.left, client.healed_left) = (0, 0);
            }
        }
    }

    /// The number of clients that have more calls to make.
    pub fn busy(&self) -> u32 {
        self.busy
    }

    /// The time of a client's first call.
    pub(crate) fn first_call(&mut self, _: u32) -> Ticks {
        Ticks(self.random.below(self.think.0.max(1) * 2))
    }

    fn pause(&mut self) -> Ticks {
        latency::sample(self.think, &mut self.random)
    }

    /// The name of a call's procedure.
    pub(crate) fn procedure_name(&self, work: &Work) -> &'static str {
        let names = self.workload.procedures().iter();
        let found = match work {
            Work::Procedure(called) => names
                .zip(&self.procedures)
                .find(|(_, number)| *number == called),
            Work::Statement { .. } | Work::Step(_) | Work::Belt(_) => None,
        };
        found.map_or("a statement", |(name, _)| name)
    }

    /// The running calls, described for people.
    pub(crate) fn running_calls(&self) -> Vec<String> {
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

/// A client's node and its cluster.
fn placed(client: u32, nodes: u16, clusters: u16) -> (ClientPlacement, u16) {
    let count = u32::from(clusters);
    let place = ClientPlacement {
        client,
        node: (client / count % u32::from(nodes)) as u16,
        nodes,
    };
    (place, (client % count) as u16)
}

/// The place by which a client's operations are drawn: where guards have homes, that of its site.
fn at_home(
    place: ClientPlacement,
    homes: Option<&Homes>,
    cluster: u16,
    clusters: u16,
) -> ClientPlacement {
    match homes {
        None => place,
        Some(_) => ClientPlacement {
            node: cluster,
            nodes: clusters,
            ..place
        },
    }
}

/// The routes of calls on so many servers, whose sequences begin at 1 and count in steps of their number.
fn router(planned: &PlannedApplication, servers: u16) -> Option<OperationRouter> {
    let procedures = planned.application.procedures.iter();
    let keys = KeyPlacement::new(1, servers, servers);
    OperationRouter::new(&planned.plan, procedures.map(|it| it.name()), keys)
}

fn caller(
    workload: &Arc<dyn Workload>,
    seed: u64,
    place: ClientPlacement,
    planned: &PlannedApplication,
) -> Box<dyn Caller> {
    let seed = SplitMix64::stream(seed, "caller", u64::from(place.client)).bits();
    workload.caller(seed, place, planned)
}

impl<P: Simulated> Cluster<P> {
    /// Continues a client: it makes its next call, waits or ends.
    pub(crate) fn advance_client(&mut self, number: u32) {
        let healed_at = self.clients.healed_at;
        let (nodes, clients_switch_nodes) = (self.clients.nodes, self.clients.clients_switch_nodes);
        let clusters = self.clients.clusters;
        let client = &mut self.clients.clients[number as usize];
        if clients_switch_nodes && client.current.is_none() && client.block.is_none() {
            client.place.node = (client.place.node + 1) % nodes;
            client.cluster = (client.cluster + 1) % clusters;
        }
        let client = &self.clients.clients[number as usize];
        if client.current.is_some() || client.is_stepping {
            return;
        }
        if client.block.is_some() {
            return self.send_step(number);
        }
        // A case has several replicas or several clusters, not both.
        let at = client.place.node * clusters + client.cluster + u16::from(client.replica) * nodes;
        if self.hosts[usize::from(at)].node().is_none() {
            self.statistics.sometimes("a client found its node down");
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
        // Every other transaction is a plain call.
        if self.clients.interactive && client.number % 2 == 1 {
            let call = CallId(u64::from(client.place.client) << 32 | client.number);
            client.block = Some(ClientBlock::new(call, &mut self.clients.random));
            if let Some(recording) = &mut self.recording {
                recording.called(call, call.0 >> 32, self.now);
            }
            return self.send_step(number);
        }
        let operation = client
            .deferred
            .take()
            .unwrap_or_else(|| client.caller.next());
        let procedure = self.clients.procedures[operation.procedure];
        let mut is_global = false;
        let mut routed = None;
        if let Some(operations) = &self.clients.operations {
            let route = operations.route(procedure, &operation.arguments);
            is_global = route.is_global;
            routed = Some(route.server.unwrap_or(client.at));
        } else if let Some(homes) = &self.clients.homes {
            routed = homes.of_call(procedure, &operation.arguments);
        }
        if let Some(routed) = routed {
            client.at = routed;
            if self.hosts[usize::from(client.at)].node().is_none() {
                self.statistics.sometimes("a client found its node down");
                client.deferred = Some(operation);
                match self.now < healed_at {
                    true => client.left += 1,
                    false => client.healed_left += 1,
                }
                self.wake(number, self.retry_at());
                return;
            }
        }
        if self.clients.routed
            && let execution = &self.clients.planned.execution
            && let turn = u64::from(number) + client.number
            && let Some(home) = execution.home(procedure, &operation.arguments, turn)
        {
            client.at = home.0;
        }
        let at = client.at;
        let id = CallId(u64::from(client.place.client) << 32 | client.number);
        let arguments = Arc::clone(&operation.arguments);
        let call = Call::new(id, Work::Procedure(procedure), arguments)
            .with_session(client.session.clone())
            .with_global(is_global);
        client.current = Some((id, operation, self.now));
        let (node, crashes) = (at % self.placement.nodes(), client.crashes);
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
        if crashes {
            self.crash_client(number);
        }
    }

    /// A client receives the outcome of a call.
    pub(crate) fn client_answered(&mut self, node: u16, outcome: Outcome) {
        self.clients.last_answer = self.now;
        self.statistics.retried(&outcome.retries);
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
            let client = &self.clients.clients[*n];
            let current = client.current.as_ref().map(|(id, ..)| *id);
            let step = client.block.as_ref().filter(|_| client.is_stepping);
            current.or(step.map(ClientBlock::call)) == Some(outcome.id)
        };
        let Some(number) = number.filter(waits) else {
            self.statistics
                .sometimes("a call ended after its client had crashed");
            return;
        };
        if self.clients.clients[number].block.is_some() {
            self.step_answered(number, &outcome);
            let at = self.now + self.clients.pause();
            return self.wake(number as u32, at);
        }
        let round_trips = &self.clients.round_trips;
        let client = &mut self.clients.clients[number];
        let (_, operation, since) = client.current.take().expect("it waits for this call");
        let from = round_trips.get(usize::from(client.cluster));
        let away = from.and_then(|to| to.get(usize::from(client.at))).copied();
        let away = away.unwrap_or_default();
        if let (Some(latencies), true) = (&mut self.clients.latencies, outcome.result.is_ok()) {
            latencies.push(Answered {
                latency: Ticks(self.now.0 - since.0) + away,
                host: client.at,
                procedure: operation.procedure,
                is_away: away > Ticks(0),
            });
        }
        if outcome.result.is_ok() {
            client.session = outcome.session.clone();
        }
        self.check_answer(&operation, &outcome);
        let at = self.now + self.clients.pause() + away;
        self.wake(number as u32, at);
    }

    /// A host's node is gone: the running calls of its clients are lost, with unknown outcomes.
    pub(crate) fn lose_calls_at(&mut self, host: u16) {
        for number in 0..self.clients.count() {
            let client = &mut self.clients.clients[number as usize];
            let is_waiting = client.current.is_some() || client.is_stepping;
            let has_lost = client.at == host && (is_waiting || client.block.is_some());
            if has_lost {
                (client.current, client.block, client.is_stepping) = (None, None, false);
            }
            // A client that thinks finds out when it goes on.
            if has_lost && is_waiting {
                self.statistics.abort("lost with its node");
                let at = self.now + self.clients.pause();
                self.wake(number, at);
            }
        }
    }

    /// Checks the answer to a call.
    pub(super) fn check_answer(&mut self, operation: &Operation, outcome: &Outcome) {
        let workload = &self.clients.workload;
        let name = workload.procedures()[operation.procedure];
        self.statistics.answers += 1;
        let wrong = match &outcome.result {
            Ok(result) => {
                self.statistics.committed += 1;
                workload.judge(operation, &result.rows).err()
            }
            Err(CallError::Failed(error)) => {
                self.statistics.abort(&format!("refused {}", error.code));
                let has_deadline = self.clients.operations.is_some();
                if has_deadline && error.code == EXPIRED {
                    self.statistics
                        .sometimes("a global operation met its deadline");
                }
                let is_expired = has_deadline && error.code == EXPIRED;
                (!is_expired && !workload.refuses(error.code))
                    .then(|| format!("it failed with {}: {}", error.code, error.message))
            }
            Err(CallError::TooManyRetries { .. }) => {
                self.statistics.abort("gave up");
                None
            }
            Err(CallError::InDoubt) => {
                self.statistics.abort("in doubt");
                self.statistics.sometimes("a call was left in doubt");
                None
            }
            Err(CallError::Shortage(Shortage::Disk)) => {
                self.statistics.abort("refused 53100");
                self.statistics
                    .sometimes("a write was refused, since a disk was full");
                None
            }
            Err(other) => Some(other.to_string()),
        };
        if let Some(wrong) = wrong {
            self.statistics.wrong_answers += 1;
            if let Some(recorder) = &mut self.recorder {
                recorder.violated(self.now);
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

    /// Crashes a client, in the middle of its transaction or, if it has none, of its next one.
    pub(crate) fn crash_client(&mut self, number: u32) {
        let clients = &mut self.clients;
        let Some(client) = clients.clients.get_mut(number as usize) else {
            return;
        };
        let is_stepping = client.is_stepping;
        if client.current.take().is_none() && !is_stepping {
            client.crashes = true;
            return;
        }
        if is_stepping {
            self.leave_block(number);
        }
        let clients = &mut self.clients;
        let client = &mut clients.clients[number as usize];
        self.statistics
            .sometimes("a client crashed in the middle of a transaction");
        client.crashes = false;
        client.session = Session::default();
        client.number = 0;
        (client.place, client.cluster) =
            placed(clients.next_number, clients.nodes, clients.clusters);
        clients.next_number += 1;
        let homes = clients.homes.as_deref();
        client.caller = caller(
            &clients.workload,
            clients.seed,
            at_home(client.place, homes, client.cluster, clients.clusters),
            homes.map_or(&clients.planned, |homes| &homes.planned),
        );
        let at = self.now + clients.pause();
        self.wake(number, at);
    }
}
