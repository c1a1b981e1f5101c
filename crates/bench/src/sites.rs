//! Sites, each with all of the data, on simulated servers: throughput, and latencies beside what the network permits.
//!
//! Everything but the costs of steps is simulated. These are measured before each run, by the same load without costs,
//! with the clock of this machine. A site has several cores: steps of one site overlap, so that transactions are certified
//! and installed in parallel ([`anabranch_sim::cost`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_sim::cost::Processor;
use anabranch_sim::{
    CaseError, ConsistencyName, LatencyBound, Network, OrderOver, Prepared, ProtocolName,
    SiteLatencies, SiteLoad, SiteOptions, SiteThroughput,
};
use anabranch_storage::Store;
use anabranch_types::Ticks;
use anabranch_workload::Workload;
use anabranch_workload::bank::Bank;
use anabranch_workload::tpcc::{Distribution, Mix, Scale, Tpcc};

use crate::calibrate;
use crate::table::{Table, grouped};

/// A protocol and its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Competitor {
    /// The protocol: one with sites.
    pub protocol: ProtocolName,
    /// Its options.
    pub options: SiteOptions,
}

impl Competitor {
    /// Its name in tables: the protocol, what it promises, and whether it decides fast.
    pub fn label(self) -> String {
        if self.options.order_over == OrderOver::Guards {
            let fast = match self.options.fast_decisions {
                true => ", fast decisions",
                false => "",
            };
            return format!("{} over guards{fast}", self.protocol.name());
        }
        let consistency = self.options.consistency.name();
        let fast = match self.options.fast_decisions {
            true => ", fast decisions",
            false => "",
        };
        format!("{} {consistency}{fast}", self.protocol.name())
    }
}

/// A workload at sites.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SiteWorkload {
    /// TPC-C, with the items and customers of a small database.
    Tpcc {
        /// Warehouses of each site: the terminals of these are there.
        warehouses_each: u16,
        /// The mix of transactions.
        mix: Mix,
    },
    /// Transfers between accounts, drawn uniformly: fewer accounts, more aborts.
    Bank {
        /// The accounts.
        accounts: u32,
    },
}

/// Loads of sites, one after the other, over the same initial data.
#[derive(Clone, Debug)]
pub struct SiteExperiment {
    /// The workload.
    pub workload: SiteWorkload,
    /// The number of sites.
    pub sites: u16,
    /// The network between them.
    pub network: Network,
    /// Clients of each site.
    pub clients: u32,
    /// Cores of each site.
    pub cores: u16,
    /// The seed.
    pub seed: u64,
    /// Virtual time before the measurement.
    pub warmup: Ticks,
    /// Virtual time of the measurement.
    pub measured: Ticks,
    /// The median time from an answer to a client's next call.
    pub think: Ticks,
    /// The committed calls that end the measurement earlier ([`SiteLoad::calls`]).
    pub calls: Option<u64>,
}

/// The result of one load.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteRun {
    /// The protocol.
    pub competitor: Competitor,
    /// What the load found.
    pub found: SiteThroughput,
    /// What the network permits at each site.
    pub bounds: Vec<LatencyBound>,
}

/// The conditions of TPC-C (3.3.2).
const CONDITIONS: &str = "assertion ";

impl SiteExperiment {
    fn workload(&self) -> Arc<dyn Workload> {
        match self.workload {
            SiteWorkload::Tpcc {
                warehouses_each,
                mix,
            } => Arc::new(Tpcc {
                scale: Scale::small(u32::from(self.sites) * u32::from(warehouses_each)),
                distribution: Distribution::Specified,
                mix,
            }),
            SiteWorkload::Bank { accounts } => Arc::new(Bank::of_accounts(accounts)),
        }
    }

    /// The procedure whose rate stands for the workload.
    pub fn main_procedure(&self) -> &'static str {
        match self.workload {
            SiteWorkload::Tpcc { .. } => "new_order",
            SiteWorkload::Bank { .. } => "transfer",
        }
    }

    /// The application and a site's initial rows.
    ///
    /// # Errors
    /// If the workload does not compile or load.
    pub fn prepare(&self) -> Result<(Prepared, Store), CaseError> {
        let prepared = Prepared::from_workload(self.workload(), 1)?;
        let stores = prepared.stores(self.seed, &self.network, true)?;
        let store = stores.into_iter().next().expect("there is one partition");
        Ok((prepared, store))
    }

    fn load(&self, competitor: Competitor, processor: Option<Processor>) -> SiteLoad {
        SiteLoad {
            protocol: competitor.protocol,
            options: competitor.options,
            sites: self.sites,
            seed: self.seed,
            clients: self.clients,
            think: self.think,
            network: self.network.clone(),
            processor,
            warmup: self.warmup,
            measured: self.measured,
            calls: self.calls,
        }
    }

    /// Measures the costs of a protocol's steps, and then runs the load with these costs.
    ///
    /// # Errors
    /// If a number is out of range, or an answer was wrong.
    pub fn run(
        &self,
        competitor: Competitor,
        prepared: &Prepared,
        store: &Store,
        step: &mut dyn FnMut(&str),
    ) -> Result<SiteRun, CaseError> {
        step("measuring the costs of steps");
        let costs = calibrate::costs_at_sites(&self.load(competitor, None), prepared, store)?;
        step("running");
        let cores = self.cores;
        let load = self.load(competitor, Some(Processor { cores, costs }));
        let found = load.run(prepared, store, None)?;
        Ok(SiteRun {
            competitor,
            bounds: (0..self.sites).map(|site| load.bound(site)).collect(),
            found,
        })
    }

    /// The results of several loads as a table.
    pub fn summary(&self, runs: &[SiteRun]) -> String {
        let main = match self.workload {
            SiteWorkload::Tpcc { .. } => "New-Order/s",
            SiteWorkload::Bank { .. } => "transfer/s",
        };
        let heads = [
            "protocol",
            main,
            "all tx/s",
            "in s",
            "p50 ms",
            "p99 ms",
            "alone",
            "aborts",
            "messages/tx",
            "cores busy",
            "conditions",
            "sites",
        ];
        let mut table = Table::new(heads);
        for run in runs {
            let found = &run.found;
            let percent = |share: f64| format!("{:.1}%", 100.0 * share);
            table.row([
                run.competitor.label(),
                grouped(found.per_second(self.main_procedure())),
                grouped(found.all_per_second()),
                format!("{:.2}", seconds(found.elapsed)),
                millis(found.all.p50),
                millis(found.all.p99),
                percent(found.alone),
                percent(found.abort_rate),
                format!("{:.1}", found.messages),
                found.utilization.map_or_else(String::new, percent),
                run.conditions(self.sites),
                run.equality().to_owned(),
            ]);
        }
        table.to_string()
    }

    /// The results of several loads as JSON (`docs/schemas/sites.schema.json`).
    pub fn json(&self, runs: &[SiteRun]) -> serde_json::Value {
        let workload = match self.workload {
            SiteWorkload::Tpcc {
                warehouses_each,
                mix,
            } => serde_json::json!({
                "name": "tpcc", "warehouses_of_each_site": warehouses_each, "mix": mix.0,
            }),
            SiteWorkload::Bank { accounts } => serde_json::json!({
                "name": "bank", "accounts": accounts,
            }),
        };
        let names = (0..self.sites).map(|site| self.network.site(site));
        serde_json::json!({
            "version": 1,
            "experiment": {
                "workload": workload,
                "network": self.network.name(),
                "sites": names.collect::<Vec<_>>(),
                "clients_of_each_site": self.clients,
                "think_ms": ms(self.think),
                "cores_of_each_site": self.cores,
                "seed": self.seed,
                "warmup_s": seconds(self.warmup),
                "measured_s": seconds(self.measured),
                "calls": self.calls,
            },
            "runs": runs.iter().map(|run| self.json_of(run)).collect::<Vec<_>>(),
        })
    }

    fn json_of(&self, run: &SiteRun) -> serde_json::Value {
        let SiteRun {
            competitor,
            found,
            bounds,
        } = run;
        let latency = |of: &SiteLatencies| serde_json::json!({ "mean": ms(of.mean), "p50": ms(of.p50), "p99": ms(of.p99) });
        let sites = (0..).zip(found.by_site.iter().zip(bounds));
        let sites = sites.map(|(site, (at, bound))| {
            serde_json::json!({
                "name": self.network.site(site), "committed": at.committed,
                "latency_ms": latency(at), "bound_ms": ms(bound.commit), "bound": bound.path,
            })
        });
        let options = competitor.options;
        serde_json::json!({
            "protocol": competitor.protocol.name(),
            "consistency": options.consistency.name(),
            "fast_decisions": options.fast_decisions,
            "leader": options.leader,
            "batch_window_ms": ms(options.batch_window),
            "measured_s": seconds(found.elapsed),
            "transactions_per_s": found.all_per_second(),
            "committed": found.committed,
            "latency_ms": latency(&found.all),
            "abort_rate": found.abort_rate,
            "messages_per_transaction": found.messages,
            "utilization": found.utilization,
            "guessed": found.guessed,
            "sites": sites.collect::<Vec<_>>(),
            "checked": found.checked.iter().cloned().collect::<BTreeMap<String, u64>>(),
            "violations": found.violations,
        })
    }

    /// The latencies of one load at each site, beside what the network permits there.
    pub fn by_site(&self, run: &SiteRun) -> String {
        let heads = ["site", "bound ms", "p50 ms", "p99 ms", "committed"];
        let mut table = Table::new(heads);
        for (number, (at, bound)) in (0..).zip(run.found.by_site.iter().zip(&run.bounds)) {
            let SiteLatencies {
                committed,
                p50,
                p99,
                ..
            } = *at;
            table.row([
                format!("{number} {}", self.network.site(number)),
                millis(bound.commit),
                millis(p50),
                millis(p99),
                grouped(committed as f64),
            ]);
        }
        table.to_string()
    }
}

impl SiteRun {
    /// Whether all sites are equal at rest, and all conditions hold at each.
    pub fn is_consistent(&self) -> bool {
        self.found.violations.is_empty()
    }

    /// The conditions that hold, once for each site, of those that were checked.
    fn conditions(&self, sites: u16) -> String {
        let all = self.found.checked.iter();
        let all = all.filter(|(what, _)| what.starts_with(CONDITIONS));
        let checked: u64 = all.map(|(_, count)| *count).sum();
        let failed = self.found.violations.iter();
        let failed = failed.filter(|what| what.starts_with(CONDITIONS)).count() as u64;
        let (held, sites) = (checked - failed.min(checked), u64::from(sites).max(1));
        match checked {
            0 => "not checked".to_owned(),
            _ if failed == 0 => format!("{}/{} at each", held / sites, checked / sites),
            _ => format!("{held} of {checked}"),
        }
    }

    /// Whether the sites have the same rows at rest.
    fn equality(&self) -> &'static str {
        let differ = |what: &String| {
            what.starts_with("PCC-I5")
                || what.starts_with("GRD-I7")
                || what.contains("come to rest")
        };
        match self.found.violations.iter().any(differ) {
            true => "differ",
            false => "equal",
        }
    }
}

fn ms(ticks: Ticks) -> f64 {
    ticks.0 as f64 / 1e6
}

fn seconds(ticks: Ticks) -> f64 {
    ticks.0 as f64 / 1e9
}

fn millis(ticks: Ticks) -> String {
    format!("{:.1}", ms(ticks))
}

/// The five that are compared: ALVIN over guards and with both consistencies, EPaxos and MultiPaxos.
pub fn competitors() -> [Competitor; 5] {
    let with = |protocol, consistency| Competitor {
        protocol,
        options: SiteOptions {
            consistency,
            ..SiteOptions::default()
        },
    };
    let over_guards = Competitor {
        protocol: ProtocolName::Alvin,
        options: SiteOptions {
            order_over: OrderOver::Guards,
            ..SiteOptions::default()
        },
    };
    [
        over_guards,
        with(ProtocolName::Alvin, ConsistencyName::Eus),
        with(ProtocolName::Alvin, ConsistencyName::Sr),
        with(ProtocolName::Epaxos, ConsistencyName::Sr),
        with(ProtocolName::Multipaxos, ConsistencyName::Sr),
    ]
}

/// The built-in network: eight regions of Amazon EC2 (`examples/networks/ec2-regions.txt`).
///
/// # Panics
/// Never: the file is well-formed, as a test shows.
pub fn regions() -> Network {
    let text = include_str!("../../../examples/networks/ec2-regions.txt");
    Network::matrix("examples/networks/ec2-regions.txt", text).expect("the file is a matrix")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(workload: SiteWorkload) -> SiteExperiment {
        SiteExperiment {
            workload,
            sites: 3,
            network: regions(),
            clients: 6,
            cores: 8,
            seed: 1,
            warmup: Ticks::from_millis(500),
            measured: Ticks::from_millis(2_000),
            think: Ticks::from_millis(10),
            calls: Some(400),
        }
    }

    #[test]
    fn all_end_equal_with_every_condition_at_each_site() {
        let experiment = experiment(SiteWorkload::Tpcc {
            warehouses_each: 1,
            mix: Mix::FULL,
        });
        let (prepared, store) = experiment.prepare().expect("TPC-C compiles");
        let run = |competitor| {
            let run = experiment.run(competitor, &prepared, &store, &mut |_| ());
            run.expect("it can be run")
        };
        let runs = competitors().map(run);
        let text = experiment.summary(&runs);
        assert!(runs.iter().all(SiteRun::is_consistent), "{text}");
        assert_eq!(text.matches("12/12 at each").count(), 5, "{text}");
        assert_eq!(text.matches("equal").count(), 5, "{text}");
        for run in &runs {
            assert!(run.found.per_second("new_order") > 1.0, "{text}");
            assert!(run.found.utilization > Some(0.0), "{text}");
        }
        let [guards, _, serializable, ..] = &runs;
        let (guards, serializable) = (&guards.found, &serializable.found);
        assert!(guards.alone > 0.9 && serializable.alone < 0.2, "{text}");
        // The one ends by calls, the other by time.
        assert!((400..450).contains(&guards.all.committed), "{text}");
        assert!(guards.elapsed < Ticks::from_millis(1_000), "{text}");
        assert!(serializable.elapsed >= experiment.measured, "{text}");
        assert!(
            guards.per_second("new_order") > 3.0 * serializable.per_second("new_order"),
            "{text}"
        );
        let sites = experiment.by_site(&runs[3]);
        assert!(sites.contains("1 california"), "{sites}");
    }

    #[test]
    fn fewer_accounts_make_more_aborts() {
        let aborts = [30, 3_000].map(|accounts| {
            let experiment = experiment(SiteWorkload::Bank { accounts });
            let (prepared, store) = experiment.prepare().expect("the bank compiles");
            let run = experiment.run(competitors()[2], &prepared, &store, &mut |_| ());
            let run = run.expect("it can be run");
            assert!(run.is_consistent(), "{:?}", run.found.violations);
            run.found.abort_rate
        });
        assert!(
            aborts[0] > 0.05 && aborts[0] > 4.0 * aborts[1],
            "{aborts:?}"
        );
    }
}
