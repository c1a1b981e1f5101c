//! The run of a case: it drives the cluster until it is at rest, and judges the outcome.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use anabranch_history::Model;
use anabranch_history::record::{AssignmentOrder, Header};
use anabranch_protocol::certification::CertificationSite;
use anabranch_protocol::epci::EPciNode;
use anabranch_protocol::guards::GuardSite;
use anabranch_protocol::locking::LockingNode;
use anabranch_protocol::nwnr::NwnrNode;
use anabranch_protocol::ramp::RampNode;
use anabranch_protocol::replication::ReplicaPlacement;
use anabranch_protocol::score::ScoreNode;
use anabranch_protocol::{Counters, Topology};
use anabranch_types::{NodeId, PartitionId, Ticks};

use crate::belt::BeltSite;
use crate::case::Case;
use crate::check;
use crate::cluster::Cluster;
use crate::cluster::clients::{Clients, Settings};
use crate::clusters;
use crate::diagram::Recorder;
use crate::error::CaseError;
use crate::history::{ASSIGNMENTS, RunHistory};
use crate::prepared::Prepared;
use crate::protocols::{ProtocolName, Shared, Simulated};
use crate::report::{Checked, Report, RunStatistics, Verdict};
use crate::site_options::OrderOver;
use crate::sites::{self, Epaxos, MultiPaxos, Pob};
use crate::stale::stale_reads;

/// A healed cluster is stuck if calls are running and none ends for this virtual time.
const PROGRESS_TIMEOUT: Ticks = Ticks::from_millis(60_000);

/// The same for replicated nodes, in longest median latencies: 2 s in a local network. It is shorter because
/// heartbeats cost events for as long as the run lasts.
const LATENCIES_PROGRESS_TIMEOUT: u64 = 40_000;

/// Virtual time that messages and timers may take to come to rest when no call is running.
const REST_TIMEOUT: Ticks = Ticks::from_millis(60_000);

/// A cluster with replicas is tested for rest after every so many events.
const REST_EVENTS: u32 = 32;

/// A run is stopped as stuck after this many events for each of its calls.
const EVENTS_A_CALL_MAX: u64 = 100_000;

/// A run that has ended.
#[derive(Debug)]
pub struct Run {
    /// Its report.
    pub report: Report,
    /// The recorder of its diagram, if one was given.
    pub diagram: Option<Recorder>,
    /// Its history, if the case asks for one ([`Watch::history`](crate::Watch::history)) and no node panicked.
    pub history: Option<RunHistory>,
}

/// How driving a cluster ended: at rest, stuck for a reason, or with a node's panic.
type Ended = Result<Option<String>, Box<dyn Any + Send>>;

impl Case {
    /// Runs the case.
    ///
    /// # Errors
    /// If the case cannot be run at all.
    pub fn run(&self, prepared: &Prepared) -> Result<Report, CaseError> {
        self.run_recorded(prepared, None).map(|run| run.report)
    }

    /// Runs the case with a recorder for a diagram, and keeps the history.
    ///
    /// # Errors
    /// If the case cannot be run at all.
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
        self.extensions.check(self.protocol)?;
        sites::check_options(self.sites, self.protocol)?;
        match self.protocol.has_sites() {
            true => sites::check(self, prepared)?,
            false => clusters::check(self, prepared)?,
        }
        let over_guards = match self.sites.order_over {
            OrderOver::Accesses => None,
            OrderOver::Guards => Some(prepared.over_guards(self.clusters)?),
        };
        let is_over_guards = over_guards.is_some();
        let prepared = over_guards.as_ref().unwrap_or(prepared);
        let nodes = prepared.nodes * self.clusters;
        self.plan
            .check(nodes, self.clients)
            .map_err(CaseError::Plan)?;
        prepared.check_guards(self.protocol)?;
        let placement = self.placement(nodes)?;
        match self.protocol {
            ProtocolName::RampFast | ProtocolName::RampSmall | ProtocolName::RampHybrid => {
                self.run_as::<RampNode>(prepared, placement, recorder)
            }
            ProtocolName::Nwnr => self.run_as::<NwnrNode>(prepared, placement, recorder),
            ProtocolName::EPci => self.run_as::<EPciNode>(prepared, placement, recorder),
            ProtocolName::Score | ProtocolName::Bumper => {
                self.run_as::<ScoreNode>(prepared, placement, recorder)
            }
            ProtocolName::Locking | ProtocolName::LockingShort | ProtocolName::Lwnr => {
                self.run_as::<LockingNode>(prepared, placement, recorder)
            }
            ProtocolName::Alvin if is_over_guards => {
                self.run_as::<GuardSite<Pob>>(prepared, placement, recorder)
            }
            ProtocolName::Multipaxos if is_over_guards => {
                self.run_as::<GuardSite<MultiPaxos>>(prepared, placement, recorder)
            }
            ProtocolName::Epaxos if is_over_guards => {
                self.run_as::<GuardSite<Epaxos>>(prepared, placement, recorder)
            }
            ProtocolName::Alvin => {
                self.run_as::<CertificationSite<Pob>>(prepared, placement, recorder)
            }
            ProtocolName::Multipaxos => {
                self.run_as::<CertificationSite<MultiPaxos>>(prepared, placement, recorder)
            }
            ProtocolName::Epaxos => {
                self.run_as::<CertificationSite<Epaxos>>(prepared, placement, recorder)
            }
            ProtocolName::Belt => self.run_as::<BeltSite>(prepared, placement, recorder),
        }
    }

    /// The placement of replicas, if the cluster can have so many and a majority of each node's survives.
    fn placement(&self, nodes: u16) -> Result<ReplicaPlacement, CaseError> {
        let placement = ReplicaPlacement::new(nodes, self.replicas).map_err(CaseError::Replicas)?;
        if u32::from(nodes) * u32::from(placement.factor()) > u32::from(u16::MAX) {
            return Err(CaseError::OutOfRange {
                what: "replicas of all nodes",
                permitted: format!("at most {}", u16::MAX),
            });
        }
        let lost = self.plan.permanent_losses();
        for node in 0..nodes {
            let survives = |replica| !lost.contains(&placement.server(NodeId(node), replica));
            let left = placement.replicas().filter(|one| survives(*one)).count() as u8;
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
        let mut cluster: Cluster<P> = self.cluster(prepared, placement)?;
        cluster.recorder = recorder;
        let ended = catch_unwind(AssertUnwindSafe(|| self.drive(&mut cluster)));
        let mut checked = check::during_run(&cluster, self.watch);
        let ended = ended.and_then(|stuck| match stuck {
            Some(why) => Ok(Some(why)),
            None => catch_unwind(AssertUnwindSafe(|| {
                check::at_rest(&mut cluster, &prepared.planned, &mut checked);
                None
            })),
        });
        let at_rest = matches!(ended, Ok(None));
        let verdict = self.verdict(std::mem::take(&mut cluster.violations), ended);
        let (verdict, history) = self.judge(&mut cluster, prepared, verdict, at_rest, &mut checked);
        let counters = cluster.counters();
        let statistics = self.statistics(&mut cluster, &counters, history.as_ref());
        let missing = check::missing(self, &statistics);
        let unseen = check::unseen(self, prepared, &statistics);
        let report = Report {
            statistics,
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

    /// The cluster at the beginning of the run.
    fn cluster<P: Simulated>(
        &self,
        prepared: &Prepared,
        placement: ReplicaPlacement,
    ) -> Result<Cluster<P>, CaseError> {
        let (calm, nodes) = (self.plan.faults.is_empty(), placement.nodes());
        let retention = prepared.retention_among(&self.network, calm, nodes);
        let shared = Shared {
            planned: Arc::clone(&prepared.planned),
            topology: Arc::new(Topology::one_each(prepared.nodes)),
            clusters: self.clusters,
            commutes: self.clusters > 1
                && !self.protocol.has_sites()
                && clusters::commutes(prepared),
            placement,
            protocol: self.protocol,
            filter: self.filter,
            termination: self.termination,
            extensions: self.extensions,
            sites: self.sites,
            homes: prepared.homes(),
            latency: self.network.longest(nodes),
            retention,
            processor: None,
        };
        let settings = Settings {
            seed: self.seed,
            nodes: prepared.nodes,
            clusters: self.clusters,
            count: self.clients,
            transactions: self.transactions,
            think: Ticks(self.network.median(0, 0).0 / 2),
            healed_at: self.plan.healed_at(),
            clients_switch_nodes: self.clients_switch_nodes,
            routed: false,
            interactive: self.interactive,
            partitions_operations: self.protocol.partitions_operations(),
            round_trips: Vec::new(),
        };
        let clients = Clients::new(prepared, settings);
        let stores = prepared.stores_retaining(self.seed, retention)?;
        let in_each = |store| std::iter::repeat_n(store, usize::from(self.clusters));
        let stores = stores.into_iter().flat_map(in_each).collect();
        Cluster::new(
            self.seed,
            &shared,
            stores,
            &self.network,
            &self.plan,
            self.watch,
            clients,
        )
        .map_err(CaseError::NotDurable)
    }

    /// The verdict before the history is checked.
    fn verdict(&self, mut found: Vec<String>, ended: Ended) -> Verdict {
        // A protocol that is not read atomic has not failed by giving wrong answers; a panic is the finding then.
        let failed = !found.is_empty() && self.protocol.is_read_atomic();
        match ended {
            Err(panic) if failed => {
                found.push(format!("then a node panicked: {}", message(panic.as_ref())));
                Verdict::Violated(found)
            }
            Err(panic) => Verdict::Crashed(message(panic.as_ref())),
            Ok(Some(stuck)) if found.is_empty() => Verdict::Stuck(stuck),
            Ok(Some(stuck)) => {
                found.push(format!("then there was no progress: {stuck}"));
                Verdict::Violated(found)
            }
            Ok(None) if found.is_empty() => Verdict::Fine,
            Ok(None) => Verdict::Violated(found),
        }
    }

    /// The run's statistics, completed from the counters of nodes and links and from the history.
    fn statistics<P: Simulated>(
        &self,
        cluster: &mut Cluster<P>,
        counters: &Counters,
        history: Option<&RunHistory>,
    ) -> RunStatistics {
        let mut statistics = std::mem::take(&mut cluster.statistics);
        let recorded = history.filter(|_| self.extensions.quorum.is_some());
        let stale = recorded.map_or(0, |history| stale_reads(&history.transactions));
        let early = match self.extensions.quorum {
            Some(_) => check::VISIBLE_EARLY,
            None => check::PREPARED_EARLY,
        };
        let links = cluster.link_counters();
        statistics.resent = links.resent;
        for (name, count) in [
            (check::REPAIRED, counters.repairs),
            (
                "a Bloom filter gave a false positive",
                counters.false_positives,
            ),
            (
                "a participant's inquiry ended a prepared transaction",
                counters.terminations,
            ),
            (
                "a transaction became an exception of the stable vector",
                counters.exceptions,
            ),
            (early, counters.early_answers),
            (check::STALE, stale),
            (check::OTHER_COPY, counters.other_replicas),
            (check::APPLIED_REMOTE, counters.applied_remote),
            (check::COMMIT_CHECK, counters.commit_checks),
            (check::LOCK_WAIT, counters.waits),
            ("a link retransmitted a message", links.resent),
            ("a link received a duplicate", links.duplicates),
        ] {
            if count > 0 {
                statistics.sometimes.insert(name, count);
            }
        }
        for (name, count) in cluster.protocols().flat_map(Simulated::situations) {
            if count > 0 {
                *statistics.sometimes.entry(name).or_default() += count;
            }
        }
        statistics
    }

    /// The models that the run's history has to satisfy.
    ///
    /// A client that is answered before all participants have installed its commit may miss its writes at another
    /// node, and its next transactions need not be ordered after them. Where the commit is not even sent, that
    /// holds at the same node, too. Causal RAMP's clients carry what they have written along.
    fn models(&self) -> &'static [Model] {
        if self.protocol.partitions_operations() {
            return self.protocol.models();
        }
        if self.protocol.has_sites() {
            return sites::models(self.sites, self.clients_switch_nodes);
        }
        if self.extensions.prepare_f.is_some() {
            // Timestamps ascend at a node, and an item has one owner in a cluster.
            return match self.clients_switch_nodes {
                true => &[Model::ReadAtomic],
                false => &[
                    Model::ReadAtomic,
                    Model::MonotonicReads,
                    Model::MonotonicWrites,
                ],
            };
        }
        if self.extensions.quorum.is_some() {
            // The next read may go to another copy. Timestamps ascend at a node.
            return match self.clients_switch_nodes {
                true => &[Model::ReadAtomic],
                false => &[Model::ReadAtomic, Model::MonotonicWrites],
            };
        }
        if self.clusters > 1 && self.clients_switch_nodes {
            return &[Model::ReadAtomic];
        }
        if self.extensions.causal {
            return &[Model::ReadAtomic, Model::Sessions, Model::Causal];
        }
        let early = self.extensions.one_phase && self.clients_switch_nodes;
        match self.termination.lost_commits > 0 || early {
            false => self.protocol.models(),
            true => &[
                Model::ReadAtomic,
                Model::MonotonicReads,
                Model::WritesFollowReads,
            ],
        }
    }

    /// Checks the run's history against [`Case::models`], if the run came to rest. Otherwise some transactions have
    /// committed and are not installed everywhere yet; the checkers would report them as lost.
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
            assignments: match (self.clusters, self.protocol.has_sites()) {
                // Sites install in the order of conflicts; over guards, each has versions of its own.
                (_, true) => AssignmentOrder::Installation,
                (1, false) => ASSIGNMENTS,
                (_, false) => AssignmentOrder::Copies,
            },
            ..Header::default()
        };
        let Some(history) = take_history(cluster, prepared, header) else {
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

    /// Processes events until every client is done and the cluster is at rest; returns why, if that never happens.
    ///
    /// After a violation clients make no further calls, and running calls are waited for, so that the history can be
    /// checked. That holds for protocols that are read atomic.
    fn drive<P: Simulated>(&self, cluster: &mut Cluster<P>) -> Option<String> {
        let calls = self.transactions + u64::from(self.clients) * 4;
        let events_max = calls.saturating_mul(EVENTS_A_CALL_MAX);
        let healed_at = self.plan.healed_at();
        let nodes = cluster.placement.nodes();
        let timeout = self.timeout(PROGRESS_TIMEOUT, nodes);
        while cluster.clients.busy() > 0 {
            if cluster.is_quiet() {
                return Some(stuck(cluster, "no event is left"));
            }
            let progress_at = cluster.clients.last_answer.max(healed_at);
            if cluster.now.since(progress_at) > timeout {
                return Some(stuck(cluster, "no call has ended for long"));
            }
            if cluster.events > events_max {
                let why = match cluster.now < healed_at {
                    true => "the limit of events was reached before the faults ended",
                    false => "the limit of events was reached",
                };
                return Some(stuck(cluster, why));
            }
            if !cluster.violations.is_empty() && self.protocol.is_read_atomic() {
                cluster.clients.stop();
            }
            cluster.advance();
        }
        let until = cluster.now + self.timeout(REST_TIMEOUT, nodes);
        if self.replicas > 1 {
            // Heartbeats never end.
            while let Some(unfinished) = cluster.unfinished() {
                if cluster.now > until {
                    let why = format!("nodes and replicas do not come to rest: {unfinished}");
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

    /// How long a healed cluster may go without an answer, or without coming to rest.
    fn timeout(&self, usual: Ticks, nodes: u16) -> Ticks {
        match self.replicas {
            1 => usual,
            _ => {
                let latency = self.network.longest(nodes).0;
                Ticks(latency.saturating_mul(LATENCIES_PROGRESS_TIMEOUT)).min(usual)
            }
        }
    }
}

/// Takes the recorded history of a cluster, completed with what is installed now; `None` if nothing was recorded.
fn take_history<P: Simulated>(
    cluster: &mut Cluster<P>,
    prepared: &Prepared,
    header: Header,
) -> Option<RunHistory> {
    let mut recording = cluster.recording.take()?;
    for (number, incarnations) in (0u16..).zip(&cluster.incarnations) {
        if let Some(node) = cluster.node(number) {
            if let Some(origins) = node.protocol().origins() {
                recording.originated(number, origins);
            }
            let installed = node.protocol().store().installed().iter();
            // Earlier incarnations have reported what this one recovered from its log.
            let new = installed.filter(|one| one.sequence > incarnations.recovered_until());
            let of = number % cluster.clusters;
            let partition = PartitionId(number / cluster.clusters);
            recording.installed_in(of, partition, new.cloned().collect());
            let open = node.open_attempts();
            if !open.is_empty() {
                recording.lost(open, cluster.now);
            }
        }
    }
    Some(recording.finish(&prepared.planned, header))
}

fn stuck<P: Simulated>(cluster: &Cluster<P>, why: &str) -> String {
    let running = cluster.clients.running_calls();
    let listed = running.iter().take(5).cloned().collect::<Vec<_>>();
    format!(
        "at {} us {why}, and {}: {}{}",
        cluster.now.as_micros(),
        match running.len() {
            1 => "1 call waits".to_owned(),
            count => format!("{count} calls wait"),
        },
        listed.join(", "),
        if listed.len() < running.len() {
            ", …"
        } else {
            ""
        }
    )
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(text), _) => text.clone(),
        (_, Some(text)) => (*text).to_owned(),
        _ => "a panic without a message".to_owned(),
    }
}

#[cfg(test)]
mod tests;
