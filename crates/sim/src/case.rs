//! One case: everything that decides a run, and the run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use anabranch_analysis::{Guarantee, Topology as Shape, analyze};
use anabranch_engine::load::Loader;
use anabranch_engine::routing::Target;
use anabranch_engine::{DurableError, PlannedApplication};
use anabranch_history::Model;
use anabranch_history::record::{AssignmentOrder, Header};
use anabranch_protocol::Topology;
use anabranch_protocol::epci::EPciNode;
use anabranch_protocol::locking::LockingNode;
use anabranch_protocol::nwnr::NwnrNode;
use anabranch_protocol::ramp::{FilterSize, RampNode};
use anabranch_protocol::replication::{PlacementError, ReplicaPlacement};
use anabranch_sql::application::Application;
use anabranch_sql::diagnostic;
use anabranch_sql::source::SourceFile;
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::row::RowBuilder;
use anabranch_types::{NodeId, PartitionId, Ticks, Value};
use anabranch_workload::{Workload, by_name};

use crate::check;
use crate::clients::{Clients, Settings};
use crate::cluster::{Cluster, Watch};
use crate::clusters::{self, ClustersError};
use crate::diagram::Recorder;
use crate::fault::{FaultLevel, FaultPlan};
use crate::history::{ASSIGNMENTS, RunHistory};
use crate::latency::Network;
use crate::protocols::{Extras, ProtocolName, Shared, Simulated, Termination};
use crate::report::{Checked, Report, Verdict};
use crate::stale::stale_reads;

/// Virtual time without an answer, with calls under way, after which a healed cluster is stuck.
const PATIENCE: Ticks = Ticks::from_millis(60_000);

/// The same where nodes have replicas, in the longest usual trips of a message, since heartbeats take
/// events as long as it lasts: 2 s in a local network.
const TRIPS_PATIENCE: u64 = 40_000;

/// With replicas a message waits for round trips within its group: calls take about so many times as
/// long, so do drawn faults, and participants ask so much later what has become of a transaction.
const REPLICATED_SLOWER: u64 = 6;

/// Virtual time that messages and timers may take to come to rest when no call is under way.
const REST: Ticks = Ticks::from_millis(60_000);

/// Overwritten versions are kept for at least so many of the longest usual trips of a message.
const TRIPS_KEPT: u64 = 40;

/// Where nothing goes wrong, they are kept for so long at least.
const CALM_KEPT: Ticks = Ticks::from_millis(20);

/// Where something goes wrong, participants ask what has become of a transaction after so many of the
/// longest usual trips: less than most crashes take.
const TRIPS_TERMINATED: u64 = 8;

/// After so many events it is asked again whether a cluster with replicas is at rest.
const REST_EVENTS: u32 = 32;

/// A run is stopped as stuck after this many events for each of its calls.
const EVENTS_A_CALL_MAX: u64 = 100_000;

/// An application, planned for a number of nodes, with its initial rows: what many runs share.
pub struct Prepared {
    /// The workload.
    pub workload: Arc<dyn Workload>,
    /// Its application, planned.
    pub planned: Arc<PlannedApplication>,
    /// How many nodes it is planned for.
    pub nodes: u16,
    pub(crate) procedures: Vec<usize>,
}

/// Why a case cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CaseError {
    /// There is no workload of this name.
    NoWorkload(String),
    /// The workload's SQL is wrong; rendered for people.
    Sql(String),
    /// The workload names a procedure that its SQL lacks.
    NoProcedure(&'static str),
    /// A row of its initial database does not load.
    Row(String),
    /// A number is out of range.
    OutOfRange {
        /// Which.
        what: &'static str,
        /// What it may be.
        permitted: String,
    },
    /// Nodes or disks fail in the plan, or nodes have replicas, and the protocol makes nothing
    /// durable.
    NotDurable(DurableError),
    /// The cluster cannot have so many replicas.
    Replicas(PlacementError),
    /// There cannot be several clusters, or not so.
    Clusters(ClustersError),
    /// Servers that die for good leave a node without a majority of its replicas.
    NoMajority {
        /// The node.
        node: u16,
        /// How many of its replicas are left.
        left: u8,
        /// How many it has.
        replicas: u8,
    },
    /// An answer cannot be right, in a run that has no verdict to say so.
    Wrong(String),
    /// The fault plan does not fit the cluster.
    Plan(crate::fault::FaultError),
    /// An option of RAMP's, and the protocol is none.
    NoRamp {
        /// Which option.
        option: &'static str,
        /// The protocol's name.
        protocol: &'static str,
    },
    /// The workload's plan has guards, and the protocol takes none.
    Guards {
        /// The protocol's name.
        protocol: &'static str,
        /// A procedure that has some.
        procedure: String,
    },
}

impl std::fmt::Display for CaseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CaseError::NoWorkload(name) => write!(
                f,
                "there is no workload \"{name}\"; there are: {}",
                anabranch_workload::NAMES.join(", ")
            ),
            CaseError::Sql(text) => f.write_str(text.trim_end()),
            CaseError::NoProcedure(name) => {
                write!(f, "the application has no procedure \"{name}\"")
            }
            CaseError::Row(text) => f.write_str(text),
            CaseError::OutOfRange { what, permitted } => {
                write!(f, "the number of {what} has to be {permitted}")
            }
            CaseError::NotDurable(error) => {
                write!(
                    f,
                    "nodes have replicas, or the fault plan takes nodes or disks away: {error}"
                )
            }
            CaseError::Replicas(error) => error.fmt(f),
            CaseError::Clusters(error) => error.fmt(f),
            CaseError::NoMajority {
                node,
                left,
                replicas,
            } => write!(
                f,
                "servers die for good in the fault plan, and n{node} would have {left} of its \
                 {replicas} replicas left, no majority: let fewer die, or give nodes more replicas"
            ),
            CaseError::Wrong(what) => write!(f, "an answer is wrong: {what}"),
            CaseError::Plan(error) => write!(f, "the fault plan: {error}"),
            CaseError::NoRamp { option, protocol } => write!(
                f,
                "{option}: {protocol} is no RAMP; there are: ramp-fast, ramp-small, ramp-hybrid"
            ),
            CaseError::Guards {
                protocol,
                procedure,
            } => write!(
                f,
                "{protocol} takes no guards, and by its plan \"{procedure}\" has some: run this \
                 workload under another protocol"
            ),
        }
    }
}

impl std::error::Error for CaseError {}

/// Refuses what the protocol would refuse call by call.
pub(crate) fn check_guards(protocol: ProtocolName, prepared: &Prepared) -> Result<(), CaseError> {
    match prepared.planned.plan.guarded() {
        Some(entry) if !protocol.takes_guards() => Err(CaseError::Guards {
            protocol: protocol.name(),
            procedure: entry.name.clone(),
        }),
        _ => Ok(()),
    }
}

impl Prepared {
    /// Loads, compiles and plans a workload for a cluster of `nodes`.
    ///
    /// # Errors
    /// When there is no such workload, or its SQL does not compile.
    pub fn new(workload: &str, nodes: u16) -> Result<Prepared, CaseError> {
        if !(1..=NODES_MAX).contains(&nodes) {
            return Err(CaseError::OutOfRange {
                what: "nodes",
                permitted: format!("between 1 and {NODES_MAX}"),
            });
        }
        let found = by_name(workload, nodes);
        let workload = found.ok_or_else(|| CaseError::NoWorkload(workload.to_owned()))?;
        Prepared::from_workload(workload, nodes)
    }

    /// The same for any workload.
    ///
    /// # Errors
    /// When its SQL does not compile.
    pub fn from_workload(workload: Arc<dyn Workload>, nodes: u16) -> Result<Prepared, CaseError> {
        let files = workload.files().iter();
        let files: Vec<SourceFile> = files
            .map(|(name, text)| SourceFile::new(*name, *text))
            .collect();
        let failed =
            |found: Vec<diagnostic::Diagnostic>| CaseError::Sql(diagnostic::render(&found, &files));
        let catalog = anabranch_sql::catalog::load(files.clone()).map_err(failed)?;
        let application = Application::compile(catalog).map_err(failed)?;
        let plan = analyze(
            application.catalog(),
            application.summaries(),
            Shape::Partitioned,
            Guarantee::Invariants,
        );
        let named = workload.procedures().iter().map(|name| {
            let mut all = application.procedures.iter();
            all.position(|p| p.name() == *name)
                .ok_or(CaseError::NoProcedure(name))
        });
        let procedures = named.collect::<Result<Vec<usize>, CaseError>>()?;
        Ok(Prepared {
            workload,
            planned: PlannedApplication::new(application, plan, nodes),
            nodes,
            procedures,
        })
    }

    /// For how long nodes keep what has been overwritten: a transaction takes several trips, and
    /// what it reads must be there for that long. Where nothing goes wrong, that is enough.
    pub(crate) fn kept(&self, network: &Network, calm: bool) -> Ticks {
        self.kept_among(network, calm, self.nodes)
    }

    /// The same where there are more nodes than one cluster's.
    fn kept_among(&self, network: &Network, calm: bool, nodes: u16) -> Ticks {
        let trips = Ticks(network.longest(nodes).0.saturating_mul(TRIPS_KEPT));
        if calm {
            trips.max(CALM_KEPT)
        } else {
            trips.max(StoreSettings::default().window)
        }
    }

    /// One filled store for each node. `calm` says that nothing will go wrong.
    ///
    /// # Errors
    /// When a row of the workload does not load.
    pub fn stores(
        &self,
        seed: u64,
        network: &Network,
        calm: bool,
    ) -> Result<Vec<Store>, CaseError> {
        self.stores_keeping(seed, self.kept(network, calm))
    }

    fn stores_keeping(&self, seed: u64, window: Ticks) -> Result<Vec<Store>, CaseError> {
        let settings = StoreSettings { window };
        let loader = |node| Loader::new(Arc::clone(&self.planned), PartitionId(node), settings);
        let mut loaders: Vec<Loader> = (0..self.nodes).map(loader).collect();
        let schema = self.planned.schema();
        let mut failed = None;
        let mut builder = RowBuilder::default();
        self.workload.rows(seed, &mut |name, columns, values| {
            let Some(table) = schema.tables.iter().find(|t| t.name == name) else {
                failed.get_or_insert(format!("there is no table \"{name}\" to load"));
                return;
            };
            let ordered: Vec<Value> = table
                .columns
                .iter()
                .map(|column| {
                    let at = columns.iter().position(|c| *c == column.name);
                    at.map_or(Value::Null, |at| values[at].clone())
                })
                .collect();
            // Where it lives nobody else needs to look at it.
            let target = builder.build(&table.layout, &ordered).ok();
            let target = target.map(|row| self.planned.execution.router.row(table.id, &row));
            let owners = match target {
                Some(Target::One(owner)) => usize::from(owner.0)..usize::from(owner.0) + 1,
                _ => 0..loaders.len(),
            };
            for loader in &mut loaders[owners] {
                if let Err(error) = loader.row(table.id, &ordered) {
                    failed.get_or_insert(error.to_string());
                }
            }
        });
        match failed {
            Some(reason) => Err(CaseError::Row(reason)),
            None => Ok(loaders.into_iter().map(Loader::into_store).collect()),
        }
    }
}

/// The most nodes a simulated cluster may have.
pub const NODES_MAX: u16 = 500;

/// Everything that decides a run, beside the [`Prepared`] workload.
#[derive(Clone, Debug)]
pub struct Case {
    /// The protocol.
    pub protocol: ProtocolName,
    /// How large RAMP-Hybrid's filters are.
    pub filter: FilterSize,
    /// How RAMP's participants find out what has become of a transaction.
    pub termination: Termination,
    /// The seed.
    pub seed: u64,
    /// Clients, each with one call under way.
    pub clients: u32,
    /// What clients give up or ask for beyond RAMP, if it is one.
    pub extras: Extras,
    /// Whether each client goes to the next node with each call, instead of staying with one.
    pub roaming: bool,
    /// How many replicas each node has, itself counted.
    pub replicas: u16,
    /// How many clusters there are, each of as many nodes as the workload was prepared for: node *n* is
    /// in cluster *n* modulo that.
    pub clusters: u16,
    /// Calls that they make between them while faults may come.
    pub transactions: u64,
    /// The network.
    pub network: Network,
    /// What goes wrong.
    pub plan: FaultPlan,
    /// How closely the run is watched.
    pub watch: Watch,
}

/// A run, and what was kept of it.
#[derive(Debug)]
pub struct Run {
    /// What it has been.
    pub report: Report,
    /// What a diagram is drawn from, if that was asked for.
    pub diagram: Option<Recorder>,
    /// Its history, if the case asks for one ([`Watch::history`]); nothing of a run that crashed.
    pub history: Option<RunHistory>,
}

impl Case {
    /// A case whose faults are drawn from the seed.
    pub fn new(
        protocol: ProtocolName,
        seed: u64,
        nodes: u16,
        clients: u32,
        transactions: u64,
        network: Network,
        level: FaultLevel,
    ) -> Case {
        // For as long as the calls take, about: each client needs a few trips a call.
        let trip = network.longest(nodes).0;
        let calls = transactions / u64::from(clients.max(1)) + 1;
        let horizon = Ticks(calls.saturating_mul(trip * 4));
        let plan = match FaultPlan::draw(level, seed, nodes, clients.max(1), horizon) {
            plan if protocol.is_durable() => plan,
            plan => plan.without_crashes(),
        };
        Case {
            protocol,
            filter: FilterSize::default(),
            termination: Termination {
                after_us: terminates_after(&network, nodes, &plan),
                lost_commits: 0,
            },
            extras: Extras::default(),
            seed,
            clients,
            roaming: false,
            replicas: 1,
            clusters: 1,
            transactions,
            plan,
            network,
            watch: Watch::CLOSE,
        }
    }

    /// The same case, as it was drawn, with so many replicas of each node.
    #[must_use]
    pub fn replicated(mut self, replicas: u16) -> Case {
        if self.replicas == 1 && replicas > 1 {
            let after_us = &mut self.termination.after_us;
            *after_us = after_us.saturating_mul(REPLICATED_SLOWER);
            self.plan = self.plan.stretched(REPLICATED_SLOWER);
        }
        self.replicas = replicas;
        self
    }

    /// The same case with this plan instead of its own, as it is: participants ask what has become of a
    /// transaction as soon as if it had been drawn.
    #[must_use]
    pub fn planned(mut self, nodes: u16, plan: FaultPlan) -> Case {
        let after_us = terminates_after(&self.network, nodes, &plan);
        let times = if self.replicas > 1 {
            REPLICATED_SLOWER
        } else {
            1
        };
        self.termination.after_us = after_us.saturating_mul(times);
        self.plan = plan;
        self
    }

    /// For how long a healed cluster may go on without an answer, or without coming to rest.
    fn patience(&self, usual: Ticks, nodes: u16) -> Ticks {
        match self.replicas {
            1 => usual,
            _ => Ticks(self.network.longest(nodes).0.saturating_mul(TRIPS_PATIENCE)).min(usual),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// When it cannot be run at all.
    pub fn run(&self, prepared: &Prepared) -> Result<Report, CaseError> {
        self.run_recorded(prepared, None).map(|run| run.report)
    }

    /// Runs it, lets a recorder look on, and keeps the history.
    ///
    /// # Errors
    /// When it cannot be run at all.
    pub fn run_recorded(
        &self,
        prepared: &Prepared,
        recorder: Option<Recorder>,
    ) -> Result<Run, CaseError> {
        if self.clients == 0 || self.clients > 1_000_000 {
            return Err(CaseError::OutOfRange {
                what: "clients",
                permitted: "between 1 and 1000000".to_owned(),
            });
        }
        self.termination.check()?;
        self.extras.check(self.protocol)?;
        clusters::check(self, prepared)?;
        let nodes = prepared.nodes * self.clusters;
        self.plan
            .check(nodes, self.clients)
            .map_err(CaseError::Plan)?;
        check_guards(self.protocol, prepared)?;
        let placement = self.placement(nodes)?;
        match self.protocol {
            ProtocolName::RampFast | ProtocolName::RampSmall | ProtocolName::RampHybrid => {
                self.run_as::<RampNode>(prepared, placement, recorder)
            }
            ProtocolName::Nwnr => self.run_as::<NwnrNode>(prepared, placement, recorder),
            ProtocolName::EPci => self.run_as::<EPciNode>(prepared, placement, recorder),
            ProtocolName::Locking | ProtocolName::LockingShort | ProtocolName::Lwnr => {
                self.run_as::<LockingNode>(prepared, placement, recorder)
            }
        }
    }

    /// Where replicas are, if the cluster can have them and enough of them stay alive.
    fn placement(&self, nodes: u16) -> Result<ReplicaPlacement, CaseError> {
        let placement = ReplicaPlacement::new(nodes, self.replicas).map_err(CaseError::Replicas)?;
        if u32::from(nodes) * u32::from(placement.factor()) > u32::from(u16::MAX) {
            return Err(CaseError::OutOfRange {
                what: "replicas of all nodes",
                permitted: format!("at most {}", u16::MAX),
            });
        }
        let dead = self.plan.deaths();
        for node in 0..nodes {
            let lives = |replica| !dead.contains(&placement.server(NodeId(node), replica));
            let left = placement.replicas().filter(|one| lives(*one)).count() as u8;
            let replicas = placement.factor();
            if left <= replicas / 2 {
                return Err(CaseError::NoMajority {
                    node,
                    left,
                    replicas,
                });
            }
        }
        Ok(placement)
    }

    fn run_as<P: Simulated>(
        &self,
        prepared: &Prepared,
        placement: ReplicaPlacement,
        recorder: Option<Recorder>,
    ) -> Result<Run, CaseError> {
        let (calm, nodes) = (self.plan.faults.is_empty(), placement.nodes());
        let kept = prepared.kept_among(&self.network, calm, nodes);
        let shared = Shared {
            planned: Arc::clone(&prepared.planned),
            topology: Arc::new(Topology::one_each(prepared.nodes)),
            clusters: self.clusters,
            commutes: self.clusters > 1 && clusters::commutes(prepared),
            placement,
            protocol: self.protocol,
            filter: self.filter,
            termination: self.termination,
            extras: self.extras,
            kept,
            processor: None,
        };
        let clients = Clients::new(
            prepared,
            Settings {
                seed: self.seed,
                nodes: prepared.nodes,
                clusters: self.clusters,
                count: self.clients,
                transactions: self.transactions,
                think: Ticks(self.network.median(0, 0).0 / 2),
                healed_at: self.plan.healed_at(),
                roaming: self.roaming,
                routed: false,
            },
        );
        let stores = prepared.stores_keeping(self.seed, kept)?;
        let in_each = |store| std::iter::repeat_n(store, usize::from(self.clusters));
        let stores = stores.into_iter().flat_map(in_each).collect();
        let mut cluster: Cluster<P> = Cluster::new(
            self.seed,
            &shared,
            stores,
            &self.network,
            &self.plan,
            self.watch,
            clients,
        )
        .map_err(CaseError::NotDurable)?;
        cluster.recorder = recorder;
        let ended = catch_unwind(AssertUnwindSafe(|| self.drive(&mut cluster)));
        let mut checked = check::on_the_way(&cluster, self.watch);
        let ended = ended.and_then(|unrest| match unrest {
            Some(why) => Ok(Some(why)),
            None => catch_unwind(AssertUnwindSafe(|| {
                check::at_rest(&mut cluster, &prepared.planned, &mut checked);
                None
            })),
        });
        let at_rest = matches!(ended, Ok(None));
        let mut found = std::mem::take(&mut cluster.violations);
        // Whoever promises no right answers has not failed by giving wrong ones: what stops it has.
        let failed = !found.is_empty() && self.protocol.is_read_atomic();
        let verdict = match ended {
            Err(panic) if failed => {
                found.push(format!("then a node panicked: {}", words(panic.as_ref())));
                Verdict::Violated(found)
            }
            Err(panic) => Verdict::Crashed(words(panic.as_ref())),
            Ok(Some(stuck)) if found.is_empty() => Verdict::Stuck(stuck),
            Ok(Some(stuck)) => {
                found.push(format!("then there was no progress: {stuck}"));
                Verdict::Violated(found)
            }
            Ok(None) if found.is_empty() => Verdict::Fine,
            Ok(None) => Verdict::Violated(found),
        };
        let (verdict, history) = self.judge(&mut cluster, prepared, verdict, at_rest, &mut checked);
        let counters = cluster.counters();
        let mut happened = std::mem::take(&mut cluster.happened);
        let recorded = history.as_ref().filter(|_| self.extras.quorum.is_some());
        let stale = recorded.map_or(0, |history| stale_reads(&history.transactions));
        let early = match self.extras.quorum {
            Some(_) => check::SHOWN_EARLY,
            None => check::PREPARED_EARLY,
        };
        let links = cluster.link_counters();
        happened.resent = links.resent;
        for (name, count) in [
            ("a second round of reads repaired a race", counters.repairs),
            (
                "a reader asked in vain since a filter let it",
                counters.false_positives,
            ),
            (
                "a prepared transaction ended after its participant had asked",
                counters.terminations,
            ),
            (
                "a transaction was set aside, and readers were told of it by name",
                counters.exceptions,
            ),
            (early, counters.early_answers),
            (check::STALE, stale),
            (check::OTHER_COPY, counters.other_replicas),
            (
                "a cluster took over what another had committed",
                counters.applied_remote,
            ),
            ("an owner made a commit check", counters.commit_checks),
            ("a request waited for another transaction", counters.waits),
            ("a link sent a message again", links.resent),
            ("a link was given a message twice", links.duplicates),
        ] {
            if count > 0 {
                happened.sometimes.insert(name, count);
            }
        }
        let missing = check::missing(self, &happened);
        let unseen = check::unseen(self, prepared, &happened);
        let report = Report {
            happened,
            counters,
            checked,
            at_rest,
            missing,
            unseen,
            answered: cluster.clients.last_answer,
            elapsed: cluster.now(),
            events: cluster.events,
            trace: cluster.trace(),
            verdict,
        };
        Ok(Run {
            report,
            diagram: cluster.recorder.take(),
            history,
        })
    }

    /// What a run's history is held against. A client that is answered before all participants show its
    /// commit need not read its writes at another node, nor are its next ones sure to stand behind them;
    /// where the commit is not even sent, at the same node neither. Under causal RAMP a client brings along
    /// what it has written.
    fn models(&self) -> &'static [Model] {
        if self.extras.prepare_f.is_some() {
            // Names of transactions ascend at a node, and an item has one owner in a cluster.
            return match self.roaming {
                true => &[Model::ReadAtomic],
                false => &[
                    Model::ReadAtomic,
                    Model::MonotonicReads,
                    Model::MonotonicWrites,
                ],
            };
        }
        if self.extras.quorum.is_some() {
            // Another copy may answer next time; names ascend at a node.
            return match self.roaming {
                true => &[Model::ReadAtomic],
                false => &[Model::ReadAtomic, Model::MonotonicWrites],
            };
        }
        if self.clusters > 1 && self.roaming {
            return &[Model::ReadAtomic];
        }
        if self.extras.causal {
            return &[Model::ReadAtomic, Model::Sessions, Model::Causal];
        }
        let early = self.extras.one_phase && self.roaming;
        match self.termination.lost_commits > 0 || early {
            false => self.protocol.models(),
            true => &[
                Model::ReadAtomic,
                Model::MonotonicReads,
                Model::WritesFollowReads,
            ],
        }
    }

    /// Holds the run's history against what the protocol promises, if the run came to rest: what is
    /// under way has committed here and is not installed there, and would be taken for lost.
    fn judge<P: Simulated>(
        &self,
        cluster: &mut Cluster<P>,
        prepared: &Prepared,
        verdict: Verdict,
        at_rest: bool,
        checked: &mut Checked,
    ) -> (Verdict, Option<RunHistory>) {
        if let Verdict::Crashed(_) = verdict {
            return (verdict, None);
        }
        let models = self.models();
        let header = Header {
            protocol: self.protocol.name().to_owned(),
            workload: prepared.workload.name().to_owned(),
            seed: self.seed,
            nodes: prepared.nodes,
            models: models.to_vec(),
            assignments: match self.clusters {
                1 => ASSIGNMENTS,
                _ => AssignmentOrder::Copies,
            },
            ..Header::default()
        };
        let Some(history) = cluster.take_history(&prepared.planned, header) else {
            return (verdict, None);
        };
        let found = match verdict {
            verdict if !at_rest => return (verdict, Some(history)),
            Verdict::Violated(mut found) => {
                found.extend(history.judge());
                found
            }
            _ => history.judge(),
        };
        let names: Vec<&str> = models.iter().map(|model| model.name()).collect();
        let what = format!("attempts in the history: {}", names.join(", "));
        checked.add(what, history.transactions.len() as u64);
        match found.is_empty() {
            true => (Verdict::Fine, Some(history)),
            false => (Verdict::Violated(found), Some(history)),
        }
    }

    /// Lets things happen until every client is done and the cluster has come to rest; or says
    /// why that will never be. What must not be wrong and is, is not tried any longer: clients make
    /// no further calls, and what is under way is waited for, so that it can be judged.
    fn drive<P: Simulated>(&self, cluster: &mut Cluster<P>) -> Option<String> {
        let calls = self.transactions + u64::from(self.clients) * 4;
        let events_max = calls.saturating_mul(EVENTS_A_CALL_MAX);
        let healed_at = self.plan.healed_at();
        let patience = self.patience(PATIENCE, cluster.placement.nodes());
        while cluster.clients.busy() > 0 {
            if cluster.is_quiet() {
                return Some(stuck(cluster, "nothing is under way between nodes"));
            }
            if cluster
                .now
                .since(cluster.clients.last_answer.max(healed_at))
                > patience
            {
                return Some(stuck(cluster, "no call has ended for long"));
            }
            if cluster.events > events_max {
                let why = match cluster.now < healed_at {
                    true => "its events ran out before its faults ended",
                    false => "there is no end of events",
                };
                return Some(stuck(cluster, why));
            }
            if !cluster.violations.is_empty() && self.protocol.is_read_atomic() {
                cluster.clients.stop();
            }
            cluster.advance();
        }
        let until = cluster.now + self.patience(REST, cluster.placement.nodes());
        if self.replicas > 1 {
            // Heartbeats go on for ever.
            while let Some(unrest) = cluster.unrest() {
                if cluster.now > until {
                    let why = format!("nodes and replicas do not come to rest: {unrest}");
                    return Some(stuck(cluster, &why));
                }
                for _ in 0..REST_EVENTS {
                    cluster.advance();
                }
            }
            return None;
        }
        while !cluster.is_quiet() {
            if cluster.now > until {
                return Some(stuck(cluster, "messages and timers do not come to rest"));
            }
            cluster.advance();
        }
        None
    }
}

/// After how long participants ask what has become of a transaction, in microseconds.
fn terminates_after(network: &Network, nodes: u16, plan: &FaultPlan) -> u64 {
    match plan.faults.is_empty() {
        true => Termination::default().after_us,
        false => {
            let trip_us = network.longest(nodes).0 / 1_000;
            trip_us.saturating_mul(TRIPS_TERMINATED).max(1)
        }
    }
}

fn stuck<P: Simulated>(cluster: &Cluster<P>, why: &str) -> String {
    let under_way = cluster.clients.under_way();
    let shown = under_way.iter().take(5).cloned().collect::<Vec<_>>();
    format!(
        "at {} us {why}, and {}: {}{}",
        cluster.now.as_micros(),
        match under_way.len() {
            1 => "1 call waits".to_owned(),
            count => format!("{count} calls wait"),
        },
        shown.join(", "),
        if shown.len() < under_way.len() {
            ", …"
        } else {
            ""
        }
    )
}

/// What a panic said.
fn words(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(text), _) => text.clone(),
        (_, Some(text)) => (*text).to_owned(),
        _ => "a panic without words".to_owned(),
    }
}

#[cfg(test)]
mod tests;
