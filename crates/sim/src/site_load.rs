//! Closed loops at sites, each with all of the data, for a given virtual time: their throughput, and the latencies at each
//! site beside what the network permits.
//!
//! After the measurement the clients stop, the sites come to rest, and everything is checked that a [`crate::Case`] checks
//! at rest: all sites have the same rows, and all constraints and assertions hold at each of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_protocol::Topology;
use anabranch_protocol::certification::CertificationSite;
use anabranch_protocol::guards::GuardSite;
use anabranch_protocol::order::{Quorums, SITES_MAX};
use anabranch_protocol::ramp::FilterSize;
use anabranch_protocol::replication::ReplicaPlacement;
use anabranch_storage::Store;
use anabranch_types::Ticks;

use crate::check;
use crate::cluster::clients::{Answered, Clients, Settings};
use crate::cluster::{Cluster, Watch};
use crate::cost::{Meter, Processor, Usage};
use crate::error::CaseError;
use crate::fault::FaultPlan;
use crate::latency::Network;
use crate::prepared::Prepared;
use crate::protocols::{ProtocolName, RampExtensions, Shared, Simulated, Termination};
use crate::report::Checked;
use crate::site_options::OrderOver;
use crate::site_options::SiteOptions;
use crate::sites::{self, Epaxos, MultiPaxos, Pob};

/// Closed loops over sites.
#[derive(Clone, Debug)]
pub struct SiteLoad {
    /// The protocol: one with sites.
    pub protocol: ProtocolName,
    /// Its options.
    pub options: SiteOptions,
    /// The number of sites.
    pub sites: u16,
    /// The seed.
    pub seed: u64,
    /// Clients of each site, each with one running call there.
    pub clients: u32,
    /// The median time from an answer to the next call.
    pub think: Ticks,
    /// The network between the sites.
    pub network: Network,
    /// The sites' processors; `None` if processing takes no time.
    pub processor: Option<Processor>,
    /// Virtual time before the measurement.
    pub warmup: Ticks,
    /// Virtual time of the measurement.
    pub measured: Ticks,
    /// The measurement ends earlier when so many calls have committed, and the time before it when a quarter as many have;
    /// but neither before the longest latency of the network has passed, so that all sites also do the others' work.
    /// Clients that wait for no other site do thousands of calls in a second of virtual time.
    pub calls: Option<u64>,
}

/// The results of a [`SiteLoad`].
#[derive(Clone, Debug, PartialEq)]
pub struct SiteThroughput {
    /// Committed calls during the measurement, by procedure.
    pub committed: BTreeMap<&'static str, u64>,
    /// The virtual time of the measurement.
    pub elapsed: Ticks,
    /// The share of committed calls that waited for no other site.
    pub alone: f64,
    /// Aborts that were retried, in each attempt to commit: between 0 and 1.
    pub abort_rate: f64,
    /// Messages between sites per committed call.
    pub messages: f64,
    /// The latencies of committed calls at all sites.
    pub all: SiteLatencies,
    /// The same at each site, in order.
    pub by_site: Vec<SiteLatencies>,
    /// The share of the cores' time that was busy; `None` without a [`Processor`].
    pub utilization: Option<f64>,
    /// The share of steps whose kind the costs lack; `None` without a [`Processor`].
    pub guessed: Option<f64>,
    /// What was checked at rest, and how often.
    pub checked: Vec<(String, u64)>,
    /// What the checks have found: nothing if all sites are equal and every constraint and assertion holds at each.
    pub violations: Vec<String>,
    /// A hash of all events.
    pub trace: u64,
}

/// Latencies of committed calls, from the call to its answer, retries included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteLatencies {
    /// The calls.
    pub committed: u64,
    /// The mean.
    pub mean: Ticks,
    /// The median.
    pub p50: Ticks,
    /// The 99th percentile.
    pub p99: Ticks,
}

/// What the network permits: the latency of a commit without conflicts at a site, by median latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyBound {
    /// The time until the nearest sufficient quorum has answered as often as the protocol needs.
    pub commit: Ticks,
    /// In round trips: what [`LatencyBound::commit`] is made of.
    pub path: &'static str,
}

impl SiteThroughput {
    /// Committed calls of a procedure per second of virtual time.
    pub fn per_second(&self, procedure: &str) -> f64 {
        let committed = self.committed.get(procedure).copied().unwrap_or(0);
        committed as f64 * 1e9 / self.elapsed.0.max(1) as f64
    }

    /// Committed calls per second of virtual time.
    pub fn all_per_second(&self) -> f64 {
        self.all.committed as f64 * 1e9 / self.elapsed.0.max(1) as f64
    }
}

/// The part of [`SiteLoad::calls`] that ends the time before the measurement.
const CALLS_BEFORE: u64 = 4;

/// Virtual time in which sites without clients have to come to rest.
const REST_MAX: Ticks = Ticks::from_millis(600_000);

/// Counts up to a moment.
struct Counted {
    retries: u64,
    messages: u64,
    /// Transactions that were ordered.
    ordered: u64,
    usage: Usage,
}

impl SiteLoad {
    /// Runs the load. Every site begins with a copy of `store`, which has the initial rows of one partition
    /// ([`Prepared::for_sites`], [`Prepared::stores`], calm).
    ///
    /// # Errors
    /// If a number is out of range, the protocol has no sites, or an answer is wrong.
    pub fn run(
        &self,
        prepared: &Prepared,
        store: &Store,
        meter: Option<Box<dyn Meter>>,
    ) -> Result<SiteThroughput, CaseError> {
        self.check(prepared)?;
        if self.options.order_over == OrderOver::Guards {
            let prepared = &prepared.over_guards(self.sites)?;
            return match self.protocol {
                ProtocolName::Epaxos => self.run_as::<GuardSite<Epaxos>>(prepared, store, meter),
                ProtocolName::Multipaxos => {
                    self.run_as::<GuardSite<MultiPaxos>>(prepared, store, meter)
                }
                _ => self.run_as::<GuardSite<Pob>>(prepared, store, meter),
            };
        }
        match self.protocol {
            ProtocolName::Alvin => self.run_as::<CertificationSite<Pob>>(prepared, store, meter),
            ProtocolName::Epaxos => {
                self.run_as::<CertificationSite<Epaxos>>(prepared, store, meter)
            }
            ProtocolName::Multipaxos => {
                self.run_as::<CertificationSite<MultiPaxos>>(prepared, store, meter)
            }
            other => Err(CaseError::NoSites {
                option: "a load of sites",
                protocol: other.name(),
                of: "alvin, epaxos and multipaxos do",
            }),
        }
    }

    fn check(&self, prepared: &Prepared) -> Result<(), CaseError> {
        let out_of_range = |what, permitted: String| Err(CaseError::OutOfRange { what, permitted });
        if !(1..=u16::from(SITES_MAX)).contains(&self.sites) || prepared.nodes != 1 {
            return out_of_range("sites", format!("between 1 and {SITES_MAX}"));
        }
        if self.clients == 0 || self.clients > 100_000 {
            return out_of_range("clients of a site", "between 1 and 100000".to_owned());
        }
        if self.measured.0 == 0 {
            return out_of_range("measured nanoseconds", "at least 1".to_owned());
        }
        if self.calls == Some(0) {
            return out_of_range("measured calls", "at least 1".to_owned());
        }
        if self.options.leader >= self.sites {
            let permitted = format!("below the number of sites, {}", self.sites);
            return out_of_range("the leading site", permitted);
        }
        sites::check_options(self.options, self.protocol)
    }

    /// What the network permits at a site. Calls are answered at once where they need no order.
    pub fn bound(&self, site: u16) -> LatencyBound {
        let quorums = Quorums::of(self.sites as u8).expect("the number of sites was checked");
        // The time until so many sites, the given one among them, have answered it.
        let answered_by = |site: u16, count: usize| {
            let round_trip = |other: u16| match other == site {
                true => Ticks(0),
                false => self.network.median(site, other) + self.network.median(other, site),
            };
            let mut all: Vec<Ticks> = (0..self.sites).map(round_trip).collect();
            all.sort_unstable();
            all[count - 1]
        };
        if self.options.order_over == OrderOver::Guards {
            return LatencyBound {
                commit: Ticks(0),
                path: "nothing for transactions without ordered guards",
            };
        }
        let (commit, path) = match self.protocol {
            ProtocolName::Epaxos => (
                answered_by(site, quorums.fast()),
                "one round trip to a fast quorum",
            ),
            ProtocolName::Multipaxos => {
                let leader = self.options.leader;
                let there_and_back = match leader == site {
                    true => Ticks(0),
                    false => self.network.median(site, leader) + self.network.median(leader, site),
                };
                let commit = there_and_back + answered_by(leader, quorums.classic());
                (
                    commit,
                    "to the leader and back, and its round trip to a majority",
                )
            }
            _ if self.options.fast_decisions => (
                answered_by(site, usize::from(quorums.sites())),
                "one round trip to all sites",
            ),
            _ => (
                Ticks(answered_by(site, quorums.classic()).0 * 2),
                "two round trips to a majority",
            ),
        };
        LatencyBound { commit, path }
    }

    /// The median round trip between each two sites.
    fn round_trips(&self) -> Vec<Vec<Ticks>> {
        let between = |one: u16, two: u16| match one == two {
            true => Ticks(0),
            false => self.network.median(one, two) + self.network.median(two, one),
        };
        let from = |one| (0..self.sites).map(|two| between(one, two)).collect();
        (0..self.sites).map(from).collect()
    }

    fn run_as<P: Simulated>(
        &self,
        prepared: &Prepared,
        store: &Store,
        meter: Option<Box<dyn Meter>>,
    ) -> Result<SiteThroughput, CaseError> {
        let mut cluster: Cluster<P> = self.cluster(prepared, store)?;
        let before = self.calls.map(|calls| calls.div_ceil(CALLS_BEFORE));
        self.advance(&mut cluster, self.warmup, before);
        let begin = cluster.now();
        cluster.meter = meter;
        cluster.clients.latencies = Some(Vec::new());
        let before = counted(&cluster);
        self.advance(&mut cluster, self.measured, self.calls);
        let elapsed = Ticks(cluster.now().since(begin).0.max(1));
        let answered = cluster.clients.latencies.take().unwrap_or_default();
        let after = counted(&cluster);
        cluster.meter = None;
        if let Some(wrong) = cluster.violations.first() {
            return Err(CaseError::Wrong(wrong.clone()));
        }
        let mut found = self.sum(prepared, elapsed, &answered, &before, &after);
        // Rest takes virtual time, but no measured one.
        cluster.clients.stop();
        let until = cluster.now() + REST_MAX;
        while !cluster.is_quiet() && cluster.now() < until {
            cluster.advance();
        }
        if !cluster.is_quiet() {
            found.violations = vec!["the sites do not come to rest".to_owned()];
            return Ok(found);
        }
        let mut checked = Checked::default();
        check::at_rest(&mut cluster, &prepared.planned, &mut checked);
        let checked = checked.iter();
        found.checked = checked
            .map(|(what, count)| (what.to_owned(), count))
            .collect();
        found.violations = std::mem::take(&mut cluster.violations);
        found.trace = cluster.trace();
        Ok(found)
    }

    /// Processes events for a time, or until so many calls have committed.
    fn advance<P: Simulated>(&self, cluster: &mut Cluster<P>, time: Ticks, calls: Option<u64>) {
        let until = cluster.now() + time;
        let least = cluster.now() + self.network.longest(self.sites);
        let enough = calls.map(|calls| cluster.statistics.committed + calls);
        while cluster.now() < until && !cluster.is_quiet() {
            let has_enough = enough.is_some_and(|count| cluster.statistics.committed >= count);
            if has_enough && cluster.now() >= least {
                return;
            }
            cluster.advance();
        }
    }

    fn cluster<P: Simulated>(
        &self,
        prepared: &Prepared,
        store: &Store,
    ) -> Result<Cluster<P>, CaseError> {
        let retention = prepared.retention_among(&self.network, true, self.sites);
        let shared = Shared {
            planned: Arc::clone(&prepared.planned),
            topology: Arc::new(Topology::one_each(1)),
            clusters: self.sites,
            commutes: false,
            placement: ReplicaPlacement::new(self.sites, 1).map_err(CaseError::Replicas)?,
            protocol: self.protocol,
            filter: FilterSize::default(),
            termination: Termination::default(),
            extensions: RampExtensions::default(),
            sites: self.options,
            homes: prepared.homes(),
            latency: self.network.longest(self.sites),
            retention,
            processor: self.processor.clone(),
        };
        let settings = Settings {
            seed: self.seed,
            nodes: 1,
            clusters: self.sites,
            count: self.clients * u32::from(self.sites),
            transactions: u64::MAX,
            think: self.think,
            healed_at: Ticks(0),
            clients_switch_nodes: false,
            routed: false,
            interactive: false,
            partitions_operations: false,
            round_trips: self.round_trips(),
        };
        let stores = vec![store.clone(); usize::from(self.sites)];
        Cluster::new(
            self.seed,
            &shared,
            stores,
            &self.network,
            &FaultPlan::default(),
            Watch::FAST,
            Clients::new(prepared, settings),
        )
        .map_err(CaseError::NotDurable)
    }

    fn sum(
        &self,
        prepared: &Prepared,
        elapsed: Ticks,
        answered: &[Answered],
        before: &Counted,
        after: &Counted,
    ) -> SiteThroughput {
        let mut committed = BTreeMap::new();
        for call in answered {
            let name = prepared.workload.procedures()[call.procedure];
            *committed.entry(name).or_insert(0) += 1;
        }
        let at = |site: u16| {
            let calls = answered.iter().filter(|it| it.host == site);
            SiteLatencies::of(calls.map(|it| it.latency).collect())
        };
        let count = answered.len().max(1) as f64;
        let away = answered.iter().filter(|it| it.is_away).count() as f64;
        let waited = away + (after.ordered - before.ordered) as f64;
        let retries = (after.retries - before.retries) as f64;
        let usage = after.usage.since(&before.usage);
        let cores = self.processor.as_ref().map(|processor| processor.cores);
        let capacity = |cores: u16| f64::from(self.sites) * f64::from(cores) * elapsed.0 as f64;
        SiteThroughput {
            committed,
            elapsed,
            alone: (1.0 - waited / count).max(0.0),
            abort_rate: retries / (retries + count),
            messages: (after.messages - before.messages) as f64 / count,
            all: SiteLatencies::of(answered.iter().map(|it| it.latency).collect()),
            by_site: (0..self.sites).map(at).collect(),
            utilization: cores.map(|cores| usage.busy as f64 / capacity(cores)),
            guessed: cores.map(|_| usage.guessed as f64 / usage.steps.max(1) as f64),
            checked: Vec::new(),
            violations: Vec::new(),
            trace: 0,
        }
    }
}

impl SiteLatencies {
    fn of(mut latencies: Vec<Ticks>) -> SiteLatencies {
        latencies.sort_unstable();
        let at = |percent: usize| latencies.get(latencies.len() * percent / 100).copied();
        let sum: u64 = latencies.iter().map(|latency| latency.0).sum();
        SiteLatencies {
            committed: latencies.len() as u64,
            mean: Ticks(sum / (latencies.len() as u64).max(1)),
            p50: at(50).unwrap_or_default(),
            p99: at(99).unwrap_or_default(),
        }
    }
}

fn counted<P: Simulated>(cluster: &Cluster<P>) -> Counted {
    let model = cluster.model.as_ref();
    Counted {
        retries: cluster.statistics.retries(),
        messages: cluster.statistics.messages,
        ordered: cluster.protocols().map(|it| it.counters().ordered).sum(),
        usage: model.map(|model| model.usage).unwrap_or_default(),
    }
}
