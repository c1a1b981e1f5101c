//! Loads of sites: what is run, over which data, and what is checked after it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anabranch_sim::cost::Processor;
use anabranch_sim::{
    CaseError, ConsistencyName, Prepared, ProtocolName, SiteLoad, SiteOptions, SiteThroughput,
};
use anabranch_storage::Store;
use anabranch_types::Ticks;
use anabranch_workload::Workload;
use anabranch_workload::bank::Bank;
use anabranch_workload::tpcc::{Distribution, Mix, Scale, Tpcc};

use super::{BATCH_WINDOW, CORES, Context, Effort, ReproduceError, regions};
use crate::figure::{Origin, RunLine, Tone};
use crate::reproduce::pool::{self, Event, Group};

/// A system of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum System {
    /// ALVIN under SR, with classic decisions.
    AlvinSr,
    /// ALVIN under SR, with fast decisions, which need all sites.
    AlvinFast,
    /// ALVIN under EUS, with classic decisions.
    AlvinEus,
    /// EPaxos under SR.
    Epaxos,
    /// MultiPaxos, led from the site with the lowest mean latency. Transactions that only read commit at their site.
    PaxosLow,
    /// The same, led from the site with the highest.
    PaxosHigh,
}

impl System {
    /// All systems.
    pub(super) const ALL: [System; 6] = [
        System::AlvinSr,
        System::AlvinFast,
        System::AlvinEus,
        System::Epaxos,
        System::PaxosLow,
        System::PaxosHigh,
    ];

    /// The name in tables and charts.
    pub(super) fn name(self) -> &'static str {
        match self {
            System::AlvinSr => "ALVIN SR",
            System::AlvinFast => "ALVIN SR, fast decisions",
            System::AlvinEus => "ALVIN EUS",
            System::Epaxos => "EPaxos",
            System::PaxosLow => "Paxos-LO",
            System::PaxosHigh => "Paxos-HI",
        }
    }

    /// Its orderer.
    pub(super) fn protocol(self) -> ProtocolName {
        match self {
            System::AlvinSr | System::AlvinFast | System::AlvinEus => ProtocolName::Alvin,
            System::Epaxos => ProtocolName::Epaxos,
            System::PaxosLow | System::PaxosHigh => ProtocolName::Multipaxos,
        }
    }

    /// Its colour.
    pub(super) fn tone(self) -> Tone {
        match self {
            System::AlvinSr => Tone::Avoiding,
            System::AlvinFast => Tone::AvoidingHybrid,
            System::AlvinEus => Tone::Unprotected,
            System::Epaxos => Tone::Locking,
            System::PaxosLow => Tone::LockingShort,
            System::PaxosHigh => Tone::LockingWrites,
        }
    }

    /// Its options at so many regions.
    pub(super) fn options(self, regions: u16) -> SiteOptions {
        let (low, high) = regions::leaders(regions);
        SiteOptions {
            consistency: match self {
                System::AlvinEus | System::PaxosLow | System::PaxosHigh => ConsistencyName::Eus,
                _ => ConsistencyName::Sr,
            },
            fast_decisions: self == System::AlvinFast,
            leader: match self {
                System::PaxosLow => low,
                System::PaxosHigh => high,
                _ => 0,
            },
            ..SiteOptions::default()
        }
    }
}

/// How many warehouses TPC-C has: the paper does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Warehouses {
    /// As many for each node as the effort has: clients wait for each other at their rows.
    OfNodes,
    /// One for each client: they wait for the network alone.
    OfClients,
}

/// The calls of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Traffic {
    /// TPC-C.
    Tpcc {
        /// The percentage of transactions that only read.
        reads: u8,
        /// How many warehouses there are.
        warehouses: Warehouses,
    },
    /// Transfers between accounts, so many that 10 to 20% of the attempts abort.
    Bank,
    /// Transfers between so many accounts that hardly any two conflict.
    Calm,
}

impl Traffic {
    /// The workload in the table of costs.
    pub(super) fn workload(self) -> &'static str {
        match self {
            Traffic::Tpcc { .. } => "tpcc",
            Traffic::Bank | Traffic::Calm => "bank",
        }
    }

    /// Whether clients share warehouses.
    fn shares_warehouses(self) -> bool {
        let Traffic::Tpcc { warehouses, .. } = self else {
            return true;
        };
        warehouses == Warehouses::OfNodes
    }

    /// The name in tables.
    pub(super) fn name(self) -> String {
        match self {
            Traffic::Tpcc { reads, .. } => format!("TPC-C, {reads}% read-only"),
            Traffic::Bank => "Bank".to_owned(),
            Traffic::Calm => "Bank without conflicts".to_owned(),
        }
    }
}

/// Initial rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Data {
    traffic: Traffic,
    /// Warehouses, or accounts.
    size: u32,
    items: u32,
    customers: u32,
    regions: u16,
}

impl Data {
    fn workload(&self) -> Arc<dyn Workload> {
        match self.traffic {
            Traffic::Tpcc { reads, .. } => Arc::new(Tpcc {
                scale: Scale {
                    warehouses: self.size,
                    items: self.items,
                    customers: self.customers,
                },
                distribution: Distribution::Specified,
                mix: Mix::reading(reads).expect("a percentage is at most 100"),
            }),
            Traffic::Bank | Traffic::Calm => Arc::new(Bank::of_accounts(self.size)),
        }
    }
}

/// An application and a site's initial rows.
pub(super) struct Filled {
    pub(super) prepared: Prepared,
    pub(super) store: Store,
}

impl Filled {
    pub(super) fn new(data: &Data, seed: u64) -> Result<Filled, CaseError> {
        let prepared = Prepared::from_workload(data.workload(), 1)?;
        let stores = prepared.stores(seed, &regions::first(data.regions), true)?;
        let store = stores.into_iter().next().expect("there is one partition");
        Ok(Filled { prepared, store })
    }
}

/// Items, and customers of a district, where each client has a warehouse: every node has all of them in memory.
pub(super) const SMALL_WAREHOUSE: (u32, u32) = (200, 30);

/// A line of a chart at one number of sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    pub(super) traffic: Traffic,
    pub(super) system: System,
    /// Regions: the paper's sites.
    pub(super) regions: u16,
    /// Nodes of each, which each have all of the data.
    pub(super) nodes: u16,
}

impl Point {
    /// Nodes in all.
    pub(super) fn replicas(&self) -> u16 {
        self.regions * self.nodes
    }

    /// The label in tables.
    pub(super) fn name(&self) -> String {
        let Point {
            system,
            regions,
            nodes,
            ..
        } = self;
        let traffic = self.traffic.name();
        format!("{traffic}: {}, {regions} x {nodes} nodes", system.name())
    }

    /// Its initial rows with so many clients at each node.
    pub(super) fn data(&self, effort: &Effort, clients: u32) -> Data {
        let replicas = u32::from(self.replicas());
        let size = match self.traffic {
            Traffic::Tpcc { warehouses, .. } => match warehouses {
                Warehouses::OfNodes => replicas * u32::from(effort.warehouses),
                Warehouses::OfClients => replicas * clients,
            },
            Traffic::Bank => replicas * clients * effort.accounts_a_client / 3 * 3,
            Traffic::Calm => 60_000,
        };
        let (items, customers) = match self.traffic.shares_warehouses() {
            true => (effort.items, effort.customers),
            false => SMALL_WAREHOUSE,
        };
        Data {
            traffic: self.traffic,
            size,
            items,
            customers,
            regions: self.regions,
        }
    }

    /// Its load, without costs and batches. `millis` are those before the measurement and of it.
    pub(super) fn load(&self, clients: u32, millis: [u64; 2], seed: u64) -> SiteLoad {
        SiteLoad {
            protocol: self.system.protocol(),
            options: self.system.options(self.regions),
            sites: self.replicas(),
            seed,
            clients,
            think: Ticks::from_millis(1),
            network: regions::first(self.regions),
            processor: None,
            warmup: Ticks::from_millis(millis[0]),
            measured: Ticks::from_millis(millis[1]),
            calls: None,
        }
    }
}

/// How latencies vary around the medians of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// Each message takes the median.
    None,
    /// A link keeps its latency for [`LATENCY_PERIOD`].
    Periods,
    /// Each message draws its own.
    Messages,
}

/// How long a link keeps its latency: between regions the causes of high latency, such as routes, last.
const LATENCY_PERIOD: Ticks = Ticks::from_millis(1_000);

/// Runs of one point.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) point: Point,
    /// Clients of each node: one run each, as long as the rate grows.
    pub(super) clients: Vec<u32>,
    /// Whether all numbers of clients are run, also when the rate does not grow.
    pub(super) all: bool,
    /// Whether transactions are batched.
    pub(super) batches: bool,
    /// How latencies vary.
    pub(super) spread: Spread,
    /// Virtual milliseconds before the measurement and of it.
    pub(super) millis: [u64; 2],
}

/// One run.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) load: SiteLoad,
    pub(super) result: SiteThroughput,
}

/// The runs of a task, in the order of their clients.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) point: Point,
    pub(super) runs: Vec<Found>,
}

/// More clients have to add so much to the rate.
const GROWS: f64 = 1.02;

impl Series {
    /// The run with the highest rate.
    pub(super) fn peak(&self) -> &Found {
        let rate = |run: &&Found| run.result.all_per_second();
        let best = self.runs.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
        best.expect("a task has a run")
    }

    /// Its highest rate.
    pub(super) fn rate(&self) -> f64 {
        self.peak().result.all_per_second()
    }

    /// Its runs in the report's table.
    pub(super) fn lines(&self) -> impl Iterator<Item = RunLine> + '_ {
        self.runs.iter().map(|run| run.line(self.point.name()))
    }
}

impl Found {
    /// A run in the report's table.
    pub(super) fn line(&self, what: String) -> RunLine {
        let found = &self.result;
        RunLine {
            what,
            origin: Origin::Simulated,
            protocol: self.load.protocol.name(),
            servers: self.load.sites,
            clients: self.load.clients * u32::from(self.load.sites),
            committed: found.all.committed,
            per_second: found.all_per_second(),
            mean_ms: millis(found.all.mean),
            p99_ms: millis(found.all.p99),
            utilization: found.utilization,
            messages: found.messages,
            retries: found.abort_rate / (1.0 - found.abort_rate).max(1e-9),
            lock_wait_ms: 0.0,
            guessed: found.guessed,
        }
    }
}

pub(super) fn millis(ticks: Ticks) -> f64 {
    ticks.0 as f64 / 1e6
}

/// One run with costs, checked at rest.
fn run(
    task: &Task,
    clients: u32,
    filled: &Filled,
    context: &Context<'_>,
) -> Result<Found, ReproduceError> {
    let Context {
        settings, costs, ..
    } = context;
    let point = &task.point;
    let mut load = point.load(clients, task.millis, settings.seed);
    if task.batches {
        load.options.batch_window = BATCH_WINDOW;
    }
    load.network = match task.spread {
        Spread::None => load.network.without_spread(),
        Spread::Periods => load.network.with_latency_periods(LATENCY_PERIOD),
        Spread::Messages => load.network,
    };
    load.processor = Some(Processor {
        cores: CORES,
        costs: costs.of(point.traffic.workload(), point.system.protocol()),
    });
    let result = load.run(&filled.prepared, &filled.store, None)?;
    if let Some(violation) = result.violations.first() {
        return Err(ReproduceError::Wrong {
            what: format!("{}, {clients} clients of each node", point.name()),
            violation: violation.clone(),
        });
    }
    context.checked.fetch_add(1, Ordering::Relaxed);
    Ok(Found { load, result })
}

/// Runs all tasks on the threads of the settings, those over the same rows together. Results have the order of the tasks.
pub(super) fn run_all(
    context: &Context<'_>,
    tasks: Vec<Task>,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Series>, ReproduceError> {
    let settings = context.settings;
    let mut groups: Vec<Group<Data, (usize, Task)>> = Vec::new();
    for (number, task) in tasks.into_iter().enumerate() {
        let most = task.clients.iter().max().copied().unwrap_or(1);
        let data = task.point.data(&settings.effort, most);
        match groups.iter_mut().find(|group| group.data == data) {
            Some(group) => group.jobs.push((number, task)),
            None => groups.push(Group {
                data,
                jobs: vec![(number, task)],
            }),
        }
    }
    // The largest first, so that threads end together.
    groups.sort_by_key(|group| std::cmp::Reverse(group.jobs[0].1.point.replicas()));
    let runs: usize = groups.iter().map(|group| group.jobs.len()).sum();
    let mut found: Vec<(usize, Series)> = Vec::new();
    pool::run(
        &groups,
        settings.threads,
        |data| Ok::<_, ReproduceError>(Arc::new(Filled::new(data, settings.seed)?)),
        |(number, task), filled| {
            let mut series = Series {
                point: task.point,
                runs: Vec::new(),
            };
            for clients in &task.clients {
                let before = series.runs.last().map(|run| run.result.all_per_second());
                let next = run(task, *clients, &filled, context)?;
                let rate = next.result.all_per_second();
                series.runs.push(next);
                if !task.all && before.is_some_and(|before| rate < GROWS * before) {
                    break;
                }
            }
            Ok((*number, series))
        },
        |event| match event {
            Event::Preparing(data) => {
                let regions = data.regions;
                progress(&format!(
                    "{} of {runs}, filling {regions} sites",
                    found.len()
                ));
            }
            Event::Done((_, task), one) => {
                found.push(one);
                progress(&format!("{} of {runs}: {}", found.len(), task.point.name()));
            }
        },
    )?;
    found.sort_by_key(|(number, _)| *number);
    Ok(found.into_iter().map(|(_, series)| series).collect())
}
