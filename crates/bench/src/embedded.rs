//! Runs experiments on the embedded cluster.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_engine::sequence::SequenceStarts;
use anabranch_engine::{
    CallError, DurableNode, DurableOptions, Node, NodeOptions, NodeStart, Outcome,
    PlannedApplication,
};
use anabranch_history::record::Header;
use anabranch_protocol::epci::EPciNode;
use anabranch_protocol::link::Incarnation;
use anabranch_protocol::locking::{LockingNode, LockingOptions};
use anabranch_protocol::nwnr::NwnrNode;
use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_protocol::score::{ScoreNode, ScoreOptions};
use anabranch_protocol::{Counters, Durable, Protocol, RECORD_FORMAT, Session, Topology};
use anabranch_server::cluster::ClusterError;
use anabranch_server::{
    Client, Cluster, ClusterOptions, DataError, DataFolder, Profile, Profiler, SubmitError,
};
use anabranch_sim::Recording;
use anabranch_sim::history::ASSIGNMENTS;
use anabranch_sql::transaction::TransactionError;
use anabranch_storage::{LogError, Store};
use anabranch_types::{Activity, NodeId, PartitionId, Placement, TableId, Ticks};
use anabranch_workload::{Caller, Operation, Workload};
use rustc_hash::{FxHashMap, FxHasher};

use crate::conditions;
use crate::experiment::{BLOCKED_AFTER, Experiment, ProtocolChoice};
use crate::fill::FillError;
use crate::measure::Measurement;
use crate::outcome::{Latency, Run};
use crate::recorded::{Calls, RecordedRun};

/// Why a run failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The cluster did not start or did not stop.
    Cluster(ClusterError),
    /// The data folder cannot be used.
    Data(DataError),
    /// A call could not be made.
    Submit(SubmitError),
    /// A call failed in a way that the workload does not permit.
    Call {
        /// The procedure.
        procedure: &'static str,
        /// The error.
        error: CallError,
    },
    /// The plan has guards, and the protocol enforces none.
    Guards {
        /// The protocol's name.
        protocol: &'static str,
        /// A procedure with guards.
        procedure: String,
    },
    /// The application lacks a procedure.
    NoProcedure(&'static str),
    /// The schema is not the experiment's.
    Schema(FillError),
    /// A condition could not be evaluated.
    Condition(TransactionError),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::Cluster(error) => write!(f, "error: {error}"),
            RunError::Data(error) => write!(f, "error: --data: {error}"),
            RunError::Submit(error) => write!(f, "error: {error}"),
            RunError::Call { procedure, error } => write!(f, "error: {procedure} failed: {error}"),
            RunError::Guards {
                protocol,
                procedure,
            } => write!(
                f,
                "error: --protocol: {protocol} takes no guards, and the plan of \"{procedure}\" has \
                 some: choose another protocol"
            ),
            RunError::NoProcedure(name) => {
                write!(f, "error: the application has no procedure \"{name}\"")
            }
            RunError::Schema(error) => error.fmt(f),
            RunError::Condition(error) => {
                write!(f, "error: a condition cannot be evaluated: {error:?}")
            }
        }
    }
}

impl std::error::Error for RunError {}

/// Describes what must be the same when a data folder is opened again, in one line.
pub fn description(
    planned: &PlannedApplication,
    experiment: &dyn Experiment,
    protocol: ProtocolChoice,
) -> String {
    let mut hasher = FxHasher::default();
    hasher.write(format!("{:?}", planned.schema()).as_bytes());
    format!(
        "{} under {}, {} partitions, {}, schema {:016x}, records {RECORD_FORMAT}",
        experiment.workload().name(),
        protocol.name(),
        experiment.settings().partitions,
        experiment.size(),
        hasher.finish()
    )
}

/// The result of a run.
#[derive(Debug)]
pub struct RunResult {
    /// The measurements.
    pub run: Run,
    /// The history, if the experiment records one.
    pub recorded: Option<RecordedRun>,
}

/// Refuses a protocol that enforces no guards for a plan that has some. [`run`] does the same; calling this
/// first saves filling the stores.
///
/// # Errors
/// [`RunError::Guards`].
pub fn check_guards(
    planned: &PlannedApplication,
    protocol: ProtocolChoice,
) -> Result<(), RunError> {
    match planned.plan.guarded() {
        Some(entry) if !protocol.takes_guards() => Err(RunError::Guards {
            protocol: protocol.name(),
            procedure: entry.name.clone(),
        }),
        _ => Ok(()),
    }
}

/// Runs one protocol over filled stores, then checks the conditions. With a data folder, nodes keep their
/// logs there; if it is not new it holds the rows, and `stores` have to be empty.
///
/// # Errors
/// When the cluster fails, or a transaction fails in a way that its workload does not permit.
pub fn run(
    planned: &Arc<PlannedApplication>,
    experiment: &dyn Experiment,
    protocol: ProtocolChoice,
    stores: Vec<Store>,
    data: Option<&DataFolder>,
    progress: &mut dyn FnMut(&str),
) -> Result<RunResult, RunError> {
    let context = RunContext {
        planned,
        experiment,
        choice: protocol,
        data,
    };
    check_guards(planned, protocol)?;
    let topology = Arc::new(Topology::one_each(experiment.settings().partitions));
    let programs = planned.application.programs();
    match protocol {
        ProtocolChoice::RampFast | ProtocolChoice::RampSmall | ProtocolChoice::RampHybrid => {
            let settings = experiment.settings();
            let defaults = RampOptions::default();
            let options = RampOptions {
                metadata: protocol.ramp(settings.filter).unwrap_or_default(),
                lost_commits: settings.lost_commits,
                one_phase: settings.one_phase,
                causal: settings.causal,
                terminate_after: match (settings.terminate_after, settings.lost_commits) {
                    (None, 0) => defaults.terminate_after,
                    (after, _) => {
                        let after = after.unwrap_or(BLOCKED_AFTER).as_nanos();
                        Some(Ticks(u64::try_from(after).unwrap_or(u64::MAX)))
                    }
                },
                ..defaults
            };
            let make = move |id, store| {
                RampNode::new(
                    id,
                    Arc::clone(&topology),
                    store,
                    Arc::clone(&programs),
                    options,
                )
            };
            run_with(&context, stores, make, RampNode::into_store, progress)
        }
        ProtocolChoice::Nwnr => {
            let make = move |id, store| {
                NwnrNode::new(id, Arc::clone(&topology), store, Arc::clone(&programs))
            };
            run_with(&context, stores, make, NwnrNode::into_store, progress)
        }
        ProtocolChoice::EPci => {
            let make = move |id, store| {
                EPciNode::new(id, Arc::clone(&topology), store, Arc::clone(&programs))
            };
            run_with(&context, stores, make, EPciNode::into_store, progress)
        }
        ProtocolChoice::Score | ProtocolChoice::Bumper => {
            let options = ScoreOptions {
                time_warping: protocol == ProtocolChoice::Bumper,
                unlocked_tables: replicated_tables(planned),
            };
            let schema = Arc::new(planned.schema().clone());
            let make = move |id, store| {
                ScoreNode::new(
                    id,
                    Arc::clone(&topology),
                    Arc::clone(&schema),
                    store,
                    Arc::clone(&programs),
                    options.clone(),
                )
            };
            run_with(&context, stores, make, ScoreNode::into_store, progress)
        }
        ProtocolChoice::Locking | ProtocolChoice::LockingShort | ProtocolChoice::Lwnr => {
            let options = LockingOptions {
                read_locks: protocol.read_locks().unwrap_or_default(),
                unlocked_tables: replicated_tables(planned),
            };
            let schema = Arc::new(planned.schema().clone());
            let make = move |id, store| {
                LockingNode::new(
                    id,
                    Arc::clone(&topology),
                    Arc::clone(&schema),
                    store,
                    Arc::clone(&programs),
                    options.clone(),
                )
            };
            run_with(&context, stores, make, LockingNode::into_store, progress)
        }
    }
}

/// The tables that no transaction writes: each partition has a copy.
fn replicated_tables(planned: &PlannedApplication) -> Vec<TableId> {
    let router = &planned.execution.router;
    let tables = (0..planned.schema().tables.len() as u16).map(TableId);
    let replicated = tables.filter(|table| *router.placement(*table) == Placement::Replicated);
    replicated.collect()
}

/// What to run, and where.
struct RunContext<'s> {
    planned: &'s Arc<PlannedApplication>,
    experiment: &'s dyn Experiment,
    choice: ProtocolChoice,
    data: Option<&'s DataFolder>,
}

fn run_with<P>(
    context: &RunContext<'_>,
    mut stores: Vec<Store>,
    make: impl Fn(NodeId, Store) -> P + Clone + Send + 'static,
    into_store: impl Fn(P) -> Store,
    progress: &mut dyn FnMut(&str),
) -> Result<RunResult, RunError>
where
    P: Durable + Send + 'static,
    P::Message: 'static,
{
    let RunContext {
        planned,
        experiment,
        choice,
        ..
    } = *context;
    let settings = experiment.settings();
    if settings.recorded {
        stores.iter_mut().for_each(Store::record);
    }
    let cluster = start(context, stores, make, progress)?;
    progress("warming up");
    let mut driver = Driver::new(planned, experiment, cluster.client())?;
    driver.run_for(settings.warmup)?;
    driver.measurement = Measurement::default();
    let before = counters(&cluster)?;
    progress("measuring");
    let profiler = match settings.code_path {
        true => Some(cluster.profile(SAMPLE_EVERY).map_err(RunError::Cluster)?),
        false => None,
    };
    let elapsed = driver.run_for(settings.duration)?;
    let profile = profiler.map(Profiler::stop);
    let after = counters(&cluster)?;
    driver.measurement.measured_for(elapsed);
    let measurement = std::mem::take(&mut driver.measurement);
    driver.drain()?;
    let wrong_answer = driver.wrong_answer.take();
    let clock = cluster.clock();
    let stopped = cluster.stop().map_err(RunError::Cluster)?;
    let protocols = stopped.protocols.into_iter();
    let mut stores: Vec<Store> = protocols.map(into_store).collect();
    let recorded = driver.calls_made.map(|calls| {
        let installed = stores.iter_mut().map(Store::take_installed).collect();
        let header = header(context);
        let recording = match choice {
            ProtocolChoice::Score | ProtocolChoice::Bumper => Recording::by_timestamp(),
            _ => Recording::default(),
        };
        RecordedRun::new(
            recording,
            header,
            &calls,
            clock,
            stopped.attempts,
            installed,
        )
    });
    progress("checking the conditions");
    let mut held = conditions::check(planned, &stores.iter().collect::<Vec<_>>(), |_| {})
        .map_err(RunError::Condition)?;
    match wrong_answer {
        Some(wrong) => _ = held.insert(format!("answers: {wrong}"), false),
        // Without other conditions, report that the answers were checked.
        None if held.is_empty() => _ = held.insert("answers".to_owned(), true),
        None => {}
    }
    let committed = measurement.committed().max(1) as f64;
    let seconds = measurement.elapsed().as_secs_f64();
    let (mean, p50, p99) = measurement.latency_ms();
    let since = |count: fn(&Counters) -> u64| (count(&after) - count(&before)) as f64;
    let run = Run {
        protocol: choice.name().to_owned(),
        transactions_per_s: measurement.committed() as f64 / seconds,
        new_orders_per_s: calls(experiment.workload(), NEW_ORDER)
            .then(|| measurement.committed_of(NEW_ORDER) as f64 / seconds),
        operations_per_s: experiment
            .operations()
            .map(|each| measurement.committed() as f64 * each as f64 / seconds),
        latency_ms: Latency { mean, p50, p99 },
        aborts: measurement.aborts().clone(),
        messages_per_transaction: Some(since(|c| c.messages) / committed),
        blocked_ms_per_transaction: Some(since(|c| c.blocked_ticks) / 1e6 / committed),
        second_rounds_per_transaction: Some(since(|c| c.second_rounds) / committed),
        false_positives_per_transaction: Some(since(|c| c.false_positives) / committed),
        seconds,
        transactions: measurement.committed(),
        conditions: held,
        code_path: profile.as_ref().map(code_path),
    };
    Ok(RunResult { run, recorded })
}

/// The first line of a history.
fn header(context: &RunContext<'_>) -> Header {
    Header {
        protocol: context.choice.name().to_owned(),
        workload: context.experiment.workload().name().to_owned(),
        seed: context.experiment.settings().seed,
        nodes: context.experiment.settings().partitions,
        models: context.choice.models().to_vec(),
        assignments: ASSIGNMENTS,
        ..Header::default()
    }
}

/// The interval at which the nodes' activity is sampled.
const SAMPLE_EVERY: Duration = Duration::from_micros(500);

/// The share of busy nodes' time in each activity.
fn code_path(profile: &Profile) -> BTreeMap<String, f64> {
    Activity::ALL
        .into_iter()
        .filter(|activity| *activity != Activity::Idle)
        .map(|activity| (activity.name().to_owned(), profile.share(activity)))
        .collect()
}

/// Starts a cluster, with logs in the data folder if there is one.
fn start<P>(
    context: &RunContext<'_>,
    stores: Vec<Store>,
    make: impl Fn(NodeId, Store) -> P + Clone + Send + 'static,
    progress: &mut dyn FnMut(&str),
) -> Result<Cluster<P>, RunError>
where
    P: Durable + Send + 'static,
    P::Message: 'static,
{
    let RunContext {
        planned,
        experiment,
        choice,
        data,
    } = *context;
    let numbers = SequenceStarts::of(planned, &stores);
    let settings = experiment.settings();
    let options = ClusterOptions {
        delay: settings.delay,
        calls_max: settings.clients,
        profiled: settings.code_path,
        ..ClusterOptions::default()
    };
    let records = settings.recorded;
    let node = |id: NodeId| {
        let (planned, numbers) = (Arc::clone(planned), numbers.clone());
        move |protocol: P, life| {
            let options = NodeOptions {
                declares: choice.takes_locks(),
                records,
                incarnation: life,
                ..NodeOptions::default()
            };
            Node::new(id, PartitionId(id.0), planned, protocol, options)
                .with_sequence_starts(&numbers)
        }
    };
    let ids = (0..stores.len() as u16).map(NodeId);
    let Some(data) = data else {
        let makers = ids.zip(stores).map(|(id, store)| {
            let (make, node) = (make.clone(), node(id));
            move || node(make(id, store), Incarnation::FIRST)
        });
        return Cluster::start(makers.collect(), options).map_err(RunError::Cluster);
    };
    progress(if data.is_new() {
        "writing the first checkpoint"
    } else {
        "recovering"
    });
    let makers = ids.zip(stores).map(|(id, store)| {
        let (make, node, data) = (make.clone(), node(id), data.clone());
        move |now| {
            let disk = data.disk(id).map_err(LogError::Media)?;
            let mut loaded = Some(store);
            let empty = loaded.as_ref().map(Store::emptied);
            let protocol = |beginning| {
                let store = match beginning {
                    NodeStart::New => loaded.take(),
                    NodeStart::Recovered => empty.clone(),
                };
                make(id, store.expect("a store is taken once"))
            };
            DurableNode::open(disk, DurableOptions::default(), now, protocol, node)
        }
    });
    let cluster = Cluster::start_durable(makers.collect(), options).map_err(RunError::Cluster)?;
    if data.is_new() {
        data.claim().map_err(RunError::Data)?;
    }
    Ok(cluster)
}

fn counters<P>(cluster: &Cluster<P>) -> Result<Counters, RunError>
where
    P: Protocol + Send + 'static,
    P::Message: 'static,
{
    let each = cluster
        .inspect(|node: &Node<P>| node.protocol().counters().clone())
        .map_err(RunError::Cluster)?;
    Ok(each.iter().fold(Counters::default(), |mut sum, one| {
        sum.add(one);
        sum
    }))
}

/// A closed loop: as many calls in flight as there are clients, each followed by the next.
struct Driver<'e, P: Protocol> {
    client: Client<P>,
    workload: &'e dyn Workload,
    calls: Box<dyn Caller>,
    /// The index in the application of each of the workload's procedures.
    procedures: Vec<usize>,
    planned: Arc<PlannedApplication>,
    clients: usize,
    in_flight: FxHashMap<u64, (Operation, Instant, Session)>,
    /// The sessions of clients without a call in flight.
    sessions: Vec<Session>,
    measurement: Measurement,
    /// The first answer that the workload does not permit.
    wrong_answer: Option<String>,
    taken: Vec<Outcome>,
    /// The calls, in a run that is recorded.
    calls_made: Option<Calls>,
}

impl<'e, P: Protocol> Driver<'e, P> {
    fn new(
        planned: &Arc<PlannedApplication>,
        experiment: &'e dyn Experiment,
        client: Client<P>,
    ) -> Result<Driver<'e, P>, RunError> {
        let workload = experiment.workload();
        let procedures = workload.procedures().iter().map(|name| {
            let mut all = planned.application.procedures.iter();
            all.position(|p| p.name() == *name)
                .ok_or(RunError::NoProcedure(name))
        });
        let settings = experiment.settings();
        Ok(Driver {
            client,
            workload,
            calls: experiment.caller(planned).map_err(RunError::Schema)?,
            procedures: procedures.collect::<Result<_, RunError>>()?,
            planned: Arc::clone(planned),
            clients: settings.clients,
            in_flight: FxHashMap::default(),
            sessions: Vec::new(),
            measurement: Measurement::default(),
            wrong_answer: None,
            taken: Vec::new(),
            calls_made: settings.recorded.then(Calls::default),
        })
    }

    fn submit(&mut self, now: Instant) -> Result<(), RunError> {
        let call = self.calls.next();
        let arguments = Arc::clone(&call.arguments);
        let session = self.sessions.pop().unwrap_or_default();
        let id = self
            .client
            .submit_home_after(
                &self.planned.execution,
                self.procedures[call.procedure],
                arguments,
                session.clone(),
            )
            .map_err(RunError::Submit)?;
        self.in_flight.insert(id.0, (call, now, session));
        if let Some(calls) = &mut self.calls_made {
            calls.made(id, now);
        }
        Ok(())
    }

    /// Runs the loop for about `duration`; returns how long exactly.
    fn run_for(&mut self, duration: Duration) -> Result<Duration, RunError> {
        let start = Instant::now();
        let end = start + duration;
        let mut now = start;
        while now < end {
            while self.client.in_flight() < self.clients {
                self.submit(now)?;
            }
            self.take(end)?;
            now = Instant::now();
        }
        Ok(start.elapsed())
    }

    /// Waits until no call is in flight.
    fn drain(&mut self) -> Result<(), RunError> {
        while self.client.in_flight() > 0 {
            self.take(Instant::now() + Duration::from_secs(1))?;
        }
        Ok(())
    }

    fn take(&mut self, until: Instant) -> Result<(), RunError> {
        let mut taken = std::mem::take(&mut self.taken);
        self.client
            .take(until, &mut taken)
            .map_err(RunError::Submit)?;
        let now = Instant::now();
        for outcome in taken.drain(..) {
            self.count(&outcome, now)?;
        }
        self.taken = taken;
        Ok(())
    }

    fn count(&mut self, outcome: &Outcome, now: Instant) -> Result<(), RunError> {
        let Some((operation, started, before)) = self.in_flight.remove(&outcome.id.0) else {
            unreachable!("{:?} was never submitted", outcome.id)
        };
        if let Some(calls) = &mut self.calls_made {
            calls.answered(outcome.id);
        }
        let session = match outcome.result {
            Ok(_) => outcome.session.clone(),
            Err(_) => before,
        };
        if !session.is_empty() {
            self.sessions.push(session);
        }
        let retries = &outcome.retries;
        self.measurement
            .abort("conflict", u64::from(retries.conflict));
        self.measurement
            .abort("fractured", u64::from(retries.fractured));
        self.measurement
            .abort("below_floor", u64::from(retries.below_floor));
        self.measurement
            .abort("row_missing", u64::from(retries.row_missing));
        self.measurement
            .abort("restarted", u64::from(retries.restarted));
        let procedure = self.workload.procedures()[operation.procedure];
        match &outcome.result {
            Ok(result) => {
                self.measurement.commit(procedure, now - started);
                if self.wrong_answer.is_none() {
                    self.wrong_answer = self.workload.judge(&operation, &result.rows).err();
                }
            }
            Err(CallError::Failed(error)) if self.workload.refuses(error.code) => {
                self.measurement.abort("rollback", 1);
            }
            Err(CallError::InDoubt) => self.measurement.abort("in_doubt", 1),
            Err(error @ CallError::TooManyRetries { .. }) => {
                self.measurement.abort(
                    if error.is_retryable() {
                        "gave_up"
                    } else {
                        "failed"
                    },
                    1,
                );
            }
            Err(error) => {
                return Err(RunError::Call {
                    procedure,
                    error: error.clone(),
                });
            }
        }
        Ok(())
    }
}

/// TPC-C's transaction whose rate is reported separately.
const NEW_ORDER: &str = "new_order";

/// Whether the workload calls this procedure.
fn calls(workload: &dyn Workload, procedure: &str) -> bool {
    workload.procedures().contains(&procedure)
}
