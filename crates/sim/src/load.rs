//! Closed loops for a given virtual time, and their throughput.
//!
//! Unlike a [`crate::Case`] a load has no faults and no end: it is cut off in the middle, and the checks
//! at rest are not made. With a [`Processor`] its numbers are simulated throughput; without one they are
//! the throughput that messages alone would permit.

use std::sync::Arc;

use anabranch_protocol::epci::EPciNode;
use anabranch_protocol::locking::LockingNode;
use anabranch_protocol::nwnr::NwnrNode;
use anabranch_protocol::ramp::{FilterSize, RampNode};
use anabranch_protocol::replication::ReplicaPlacement;
use anabranch_protocol::score::ScoreNode;
use anabranch_protocol::{Counters, Topology};
use anabranch_storage::Store;
use anabranch_types::Ticks;

use crate::cluster::clients::{Clients, Settings};
use crate::cluster::{Cluster, Watch};
use crate::cost::{Meter, Processor, Usage};
use crate::error::CaseError;
use crate::fault::FaultPlan;
use crate::latency::Network;
use crate::prepared::Prepared;
use crate::protocols::{ProtocolName, RampExtensions, Shared, Simulated, Termination};
use crate::report::RunStatistics;
use crate::site_options::SiteOptions;

/// Closed loops over a cluster.
#[derive(Clone, Debug)]
pub struct Load {
    /// The protocol.
    pub protocol: ProtocolName,
    /// The seed.
    pub seed: u64,
    /// The number of clients, each with one running call. Calls go where the plan routes them. Clients are spread over
    /// the nodes, and a call that any node may run goes to its client's node.
    pub clients: u32,
    /// Cooperative termination in RAMP.
    pub termination: Termination,
    /// The median time from an answer to the next call: the round trip to the client.
    pub think: Ticks,
    /// The network between the nodes.
    pub network: Network,
    /// The nodes' processors; `None` if processing takes no time.
    pub processor: Option<Processor>,
    /// Virtual time before the measurement.
    pub warmup: Ticks,
    /// Virtual time of the measurement.
    pub measured: Ticks,
    /// The measurement ends early after so many transactions, and the warm-up after half as many.
    pub transactions_max: u64,
}

/// The results of a [`Load`].
#[derive(Clone, Debug, PartialEq)]
pub struct Throughput {
    /// Transactions that committed during the measurement.
    pub committed: u64,
    /// Committed transactions per second of virtual time.
    pub per_second: f64,
    /// Retries per committed transaction.
    pub retries: f64,
    /// Messages between nodes per committed transaction.
    pub messages: f64,
    /// The mean latency of committed calls at the node, in milliseconds.
    pub mean_ms: f64,
    /// The 99th percentile of these latencies, in milliseconds.
    pub p99_ms: f64,
    /// The share of the cores' time that was busy; `None` without a [`Processor`].
    pub utilization: Option<f64>,
    /// The usage of the cores; zero without a [`Processor`].
    pub usage: Usage,
    /// Nanoseconds that requests waited in lock tables, per committed transaction.
    pub lock_wait_nanos: f64,
    /// The number of events since the beginning.
    pub events: u64,
    /// The hash of all events since the beginning.
    pub trace: u64,
}

/// Counts up to a moment.
struct Counted {
    statistics: RunStatistics,
    counters: Counters,
    usage: Usage,
}

impl Load {
    /// Runs the load over stores with their initial rows ([`Prepared::stores`], calm).
    ///
    /// # Errors
    /// If a number is out of range, or an answer is wrong under a protocol that is read atomic.
    pub fn run(
        &self,
        prepared: &Prepared,
        stores: Vec<Store>,
        meter: Option<Box<dyn Meter>>,
    ) -> Result<Throughput, CaseError> {
        for (what, count) in [
            ("clients", u64::from(self.clients)),
            ("measured nanoseconds", self.measured.0),
        ] {
            if count == 0 {
                let permitted = "at least 1".to_owned();
                return Err(CaseError::OutOfRange { what, permitted });
            }
        }
        self.termination.check()?;
        prepared.check_guards(self.protocol)?;
        match self.protocol {
            ProtocolName::RampFast | ProtocolName::RampSmall | ProtocolName::RampHybrid => {
                self.run_as::<RampNode>(prepared, stores, meter)
            }
            ProtocolName::Nwnr => self.run_as::<NwnrNode>(prepared, stores, meter),
            ProtocolName::EPci => self.run_as::<EPciNode>(prepared, stores, meter),
            ProtocolName::Score | ProtocolName::Bumper => {
                self.run_as::<ScoreNode>(prepared, stores, meter)
            }
            ProtocolName::Locking | ProtocolName::LockingShort | ProtocolName::Lwnr => {
                self.run_as::<LockingNode>(prepared, stores, meter)
            }
            ProtocolName::Alvin
            | ProtocolName::Multipaxos
            | ProtocolName::Epaxos
            | ProtocolName::Belt => Err(CaseError::Sites {
                option: "a load of partitions (SiteLoad is one of sites)",
            }),
        }
    }

    fn run_as<P: Simulated>(
        &self,
        prepared: &Prepared,
        stores: Vec<Store>,
        meter: Option<Box<dyn Meter>>,
    ) -> Result<Throughput, CaseError> {
        let shared = Shared {
            planned: Arc::clone(&prepared.planned),
            topology: Arc::new(Topology::one_each(prepared.nodes)),
            clusters: 1,
            commutes: false,
            placement: ReplicaPlacement::new(prepared.nodes, 1).map_err(CaseError::Replicas)?,
            protocol: self.protocol,
            filter: FilterSize::default(),
            termination: self.termination,
            extensions: RampExtensions::default(),
            sites: SiteOptions::default(),
            homes: None,
            latency: self.network.longest(prepared.nodes),
            retention: prepared.retention(&self.network, true),
            processor: self.processor.clone(),
        };
        let settings = Settings {
            seed: self.seed,
            nodes: prepared.nodes,
            clusters: 1,
            count: self.clients,
            transactions: u64::MAX,
            think: self.think,
            healed_at: Ticks(0),
            clients_switch_nodes: false,
            routed: true,
            interactive: false,
            partitions_operations: false,
            round_trips: Vec::new(),
        };
        let clients = Clients::new(prepared, settings);
        let mut cluster: Cluster<P> = Cluster::new(
            self.seed,
            &shared,
            stores,
            &self.network,
            &FaultPlan::default(),
            Watch::FAST,
            clients,
        )
        .map_err(CaseError::NotDurable)?;
        self.advance(&mut cluster, self.warmup, self.transactions_max / 2);
        let begin = cluster.now();
        cluster.meter = meter;
        cluster.clients.latencies = Some(Vec::new());
        let before = counted(&cluster);
        self.advance(&mut cluster, self.measured, self.transactions_max);
        let elapsed = Ticks(cluster.now().since(begin).0.max(1));
        if self.protocol.is_read_atomic()
            && let Some(wrong) = cluster.violations.first()
        {
            return Err(CaseError::Wrong(wrong.clone()));
        }
        Ok(self.sum(prepared.nodes, elapsed, &mut cluster, &before))
    }

    /// Processes events for a time, or until so many transactions have committed.
    fn advance<P: Simulated>(&self, cluster: &mut Cluster<P>, time: Ticks, transactions: u64) {
        let until = cluster.now() + time;
        let enough = cluster.statistics.committed.saturating_add(transactions);
        while cluster.now() < until && cluster.statistics.committed < enough && !cluster.is_quiet()
        {
            cluster.advance();
        }
    }

    fn sum<P: Simulated>(
        &self,
        nodes: u16,
        elapsed: Ticks,
        cluster: &mut Cluster<P>,
        before: &Counted,
    ) -> Throughput {
        let after = counted(cluster);
        let committed = after.statistics.committed - before.statistics.committed;
        let each = |count: u64| count as f64 / committed.max(1) as f64;
        let usage = after.usage.since(&before.usage);
        let answered = cluster.clients.latencies.take().unwrap_or_default();
        let mut latencies: Vec<Ticks> = answered.iter().map(|it| it.latency).collect();
        latencies.sort_unstable();
        let millis = |ticks: Ticks| ticks.0 as f64 / 1e6;
        let total: u64 = latencies.iter().map(|latency| latency.0).sum();
        let cores = self.processor.as_ref().map(|processor| processor.cores);
        let capacity = |cores: u16| f64::from(nodes) * f64::from(cores) * elapsed.0 as f64;
        Throughput {
            committed,
            per_second: committed as f64 * 1e9 / elapsed.0 as f64,
            retries: each(after.statistics.retries() - before.statistics.retries()),
            messages: each(after.statistics.messages - before.statistics.messages),
            mean_ms: total as f64 / 1e6 / latencies.len().max(1) as f64,
            p99_ms: latencies
                .get(latencies.len() * 99 / 100)
                .map_or(0.0, |latency| millis(*latency)),
            utilization: cores.map(|cores| usage.busy as f64 / capacity(cores)),
            usage,
            lock_wait_nanos: each(after.counters.blocked_ticks - before.counters.blocked_ticks),
            events: cluster.events,
            trace: cluster.trace(),
        }
    }
}

fn counted<P: Simulated>(cluster: &Cluster<P>) -> Counted {
    let model = cluster.model.as_ref();
    Counted {
        statistics: cluster.statistics.clone(),
        counters: cluster.counters(),
        usage: model.map(|model| model.usage).unwrap_or_default(),
    }
}
