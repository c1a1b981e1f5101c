//! Closed loops for a given virtual time, and the throughput that comes of it.
//!
//! Unlike a [`crate::Case`] a load has no faults and no end: it is cut off in the middle, and what is
//! checked at rest is not. With a [`Processor`] its numbers are simulated throughput; without one they
//! say what messages alone would permit.

use std::sync::Arc;

use anabranch_protocol::epci::EPciNode;
use anabranch_protocol::locking::LockingNode;
use anabranch_protocol::nwnr::NwnrNode;
use anabranch_protocol::ramp::{FilterSize, RampNode};
use anabranch_protocol::replication::ReplicaPlacement;
use anabranch_protocol::{Counters, Topology};
use anabranch_storage::Store;
use anabranch_types::Ticks;

use crate::case::{CaseError, Prepared, check_guards};
use crate::clients::{Clients, Settings};
use crate::cluster::{Cluster, Watch};
use crate::cost::{Meter, Processor, Usage};
use crate::fault::FaultPlan;
use crate::latency::Network;
use crate::protocols::{Extras, ProtocolName, Shared, Simulated, Termination};
use crate::report::Happenings;

/// Closed loops over a cluster.
#[derive(Clone, Debug)]
pub struct Load {
    /// The protocol.
    pub protocol: ProtocolName,
    /// The seed.
    pub seed: u64,
    /// Clients, each with one call under way. Calls go where the plan routes them; clients are spread over the
    /// nodes, and what any node may run goes to its client's.
    pub clients: u32,
    /// How RAMP's participants find out what has become of a transaction.
    pub termination: Termination,
    /// The median time from an answer to the next call: the way to the client and back.
    pub think: Ticks,
    /// The network between the nodes.
    pub network: Network,
    /// What the nodes' work costs.
    pub processor: Option<Processor>,
    /// Virtual time before anything is counted.
    pub warmup: Ticks,
    /// Virtual time during which it is.
    pub measured: Ticks,
    /// Transactions after which counting ends before its time; and half as many end the time before
    /// it.
    pub transactions_max: u64,
}

/// What came of a [`Load`].
#[derive(Clone, Debug, PartialEq)]
pub struct Throughput {
    /// Transactions that committed while it was counted.
    pub committed: u64,
    /// The same a second of virtual time.
    pub per_second: f64,
    /// Attempts that were made again, a committed transaction.
    pub retries: f64,
    /// Messages between nodes, a committed transaction.
    pub messages: f64,
    /// The mean time from call to answer, as the node sees it, in milliseconds.
    pub mean_ms: f64,
    /// The time that 99 of 100 calls take at most, in milliseconds.
    pub p99_ms: f64,
    /// The share of the cores that was busy; none without a [`Processor`].
    pub utilization: Option<f64>,
    /// What the cores did; nothing without a [`Processor`].
    pub usage: Usage,
    /// Nanoseconds for which requests waited in lock tables, a committed transaction.
    pub lock_wait_nanos: f64,
    /// Events, from the beginning.
    pub events: u64,
    /// A hash of all that happened, from the beginning.
    pub trace: u64,
}

/// What has been counted up to a moment.
struct Counted {
    happened: Happenings,
    counters: Counters,
    usage: Usage,
}

impl Load {
    /// Runs it over filled stores ([`Prepared::stores`], calm).
    ///
    /// # Errors
    /// When a number is out of range, or an answer was wrong under a protocol that promises better.
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
        check_guards(self.protocol, prepared)?;
        match self.protocol {
            ProtocolName::RampFast | ProtocolName::RampSmall | ProtocolName::RampHybrid => {
                self.run_as::<RampNode>(prepared, stores, meter)
            }
            ProtocolName::Nwnr => self.run_as::<NwnrNode>(prepared, stores, meter),
            ProtocolName::EPci => self.run_as::<EPciNode>(prepared, stores, meter),
            ProtocolName::Locking | ProtocolName::LockingShort | ProtocolName::Lwnr => {
                self.run_as::<LockingNode>(prepared, stores, meter)
            }
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
            extras: Extras::default(),
            kept: prepared.kept(&self.network, true),
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
            roaming: false,
            routed: true,
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

    /// Lets things happen for a time, or until so many transactions have committed.
    fn advance<P: Simulated>(&self, cluster: &mut Cluster<P>, time: Ticks, transactions: u64) {
        let until = cluster.now() + time;
        let enough = cluster.happened.committed.saturating_add(transactions);
        while cluster.now() < until && cluster.happened.committed < enough && !cluster.is_quiet() {
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
        let committed = after.happened.committed - before.happened.committed;
        let each = |count: u64| count as f64 / committed.max(1) as f64;
        let retried = |happened: &Happenings| -> u64 {
            let again = happened.aborts.iter();
            let again = again.filter(|(reason, _)| reason.ends_with("tried again"));
            again.map(|(_, count)| count).sum()
        };
        let usage = after.usage.since(&before.usage);
        let mut latencies = cluster.clients.latencies.take().unwrap_or_default();
        latencies.sort_unstable();
        let millis = |ticks: Ticks| ticks.0 as f64 / 1e6;
        let total: u64 = latencies.iter().map(|latency| latency.0).sum();
        let cores = self.processor.as_ref().map(|processor| processor.cores);
        let capacity = |cores: u16| f64::from(nodes) * f64::from(cores) * elapsed.0 as f64;
        Throughput {
            committed,
            per_second: committed as f64 * 1e9 / elapsed.0 as f64,
            retries: each(retried(&after.happened) - retried(&before.happened)),
            messages: each(after.happened.messages - before.happened.messages),
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
        happened: cluster.happened.clone(),
        counters: cluster.counters(),
        usage: model.map(|model| model.usage).unwrap_or_default(),
    }
}
