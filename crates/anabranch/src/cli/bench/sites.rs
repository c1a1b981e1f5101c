//! `anabranch bench sites`

use std::error::Error;
use std::path::PathBuf;

use anabranch_bench::sites::{Competitor, SiteExperiment, SiteRun, SiteWorkload, regions};
use anabranch_bench::table::counted;
use anabranch_protocol::order::SITES_MAX;
use anabranch_sim::{ConsistencyName, Network, OrderOver, ProtocolName, SiteOptions};
use anabranch_types::Ticks;
use anabranch_workload::tpcc::Mix;
use clap::{Args, ValueEnum};

use super::super::output::{check_outputs, say, write_file};
use super::super::sim::{consistency, network, on_or_off, order_over};
use super::super::{Verdict, progress};
use super::duration;

/// Simulated: the network, and the sites' cores with costs that are measured on this machine before each run. After
/// each run all sites have to have the same rows, and every condition has to hold at each. Exit code 1: one does not.
#[derive(Clone, Debug, Args)]
pub(crate) struct SitesArguments {
    /// The workload
    #[arg(value_enum)]
    workload: WorkloadArgument,
    /// Protocols to run one after the other: alvin, epaxos, multipaxos
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "alvin,epaxos,multipaxos",
          value_parser = protocol)]
    protocol: Vec<ProtocolName>,
    /// What transactions that only read are promised: sr (they are ordered like all others), eus (they commit at their
    /// site), or both, each in a run of its own
    #[arg(long, value_name = "sr|eus", value_delimiter = ',', default_value = "sr", value_parser = consistency)]
    consistency: Vec<ConsistencyName>,
    /// Whether alvin decides on an order after one round trip, if all sites agree
    #[arg(long, value_name = "on|off", default_value = "off", value_parser = on_or_off,
          action = clap::ArgAction::Set)]
    fast_decisions: bool,
    /// The site that leads at first under multipaxos, from 0
    #[arg(long, value_name = "SITE", default_value_t = 0)]
    leader: u16,
    /// What is ordered: accesses, guards (only transactions that can break an invariant together; the others commit at their
    /// site, whatever --consistency says), or both, each in a run of its own
    #[arg(long, value_name = "accesses|guards", value_delimiter = ',', default_value = "accesses",
          value_parser = order_over)]
    order_over: Vec<OrderOver>,
    /// The number of sites
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(SITES_MAX)))]
    nodes: u16,
    /// The network: lan, or wan:FILE with a matrix of round-trip times [default: eight regions of Amazon EC2,
    /// examples/networks/ec2-regions.txt]
    #[arg(long, value_name = "lan|wan:FILE")]
    net: Option<String>,
    /// Clients of each site, each with one running call
    #[arg(long, value_name = "N", default_value_t = 32)]
    clients: u32,
    /// How long a site gathers transactions for a batch, in milliseconds, under every protocol. 0: each is ordered by
    /// itself. (alvin.txt §5 has 20 to 50.)
    #[arg(long, value_name = "MILLIS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    batch_window: u64,
    /// Cores of each site, on which transactions are certified and installed in parallel
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    cores: u16,
    /// Virtual time to measure
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    seconds: f64,
    /// Virtual time to warm up before measuring
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    warmup_seconds: f64,
    /// The committed calls that end a measurement earlier, and a quarter of which end its warm-up: calls that wait for no
    /// other site are thousands in a second of virtual time
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    calls: u64,
    /// The median time from an answer to a client's next call, in milliseconds
    #[arg(long, value_name = "MILLIS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    think_ms: u64,
    /// The seed of the data, the calls and the network
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// tpcc: warehouses of each site [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    warehouses: Option<u16>,
    /// tpcc: the percentage of transactions that only read [default: 8, the full mix]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    read_only: Option<u8>,
    /// bank: the number of accounts, a multiple of 3; fewer accounts make more aborts [default: 1200]
    #[arg(long, value_name = "N", value_parser = accounts)]
    accounts: Option<u32>,
    /// Write the results to this file (docs/schemas/sites.schema.json)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WorkloadArgument {
    /// TPC-C with 1,000 items, 120 customers of a district, and remote warehouses as specified
    Tpcc,
    /// Transfers between accounts
    Bank,
}

fn protocol(name: &str) -> Result<ProtocolName, String> {
    let found = ProtocolName::by_name(name).filter(|protocol| protocol.has_sites());
    found
        .ok_or_else(|| "unknown protocol of sites; known are: alvin, epaxos, multipaxos".to_owned())
}

fn accounts(text: &str) -> Result<u32, String> {
    let count: Option<u32> = text.parse().ok();
    let is_fine = |count: &u32| *count >= 6 && count.is_multiple_of(3) && *count <= 3_000_000;
    let found = count.filter(is_fine);
    found.ok_or_else(|| "expected a multiple of 3 between 6 and 3000000".to_owned())
}

/// The network that `--net` names, or the built-in one.
pub(crate) fn network_or_regions(net: Option<&str>) -> Result<Network, String> {
    net.map_or_else(|| Ok(regions()), network)
}

/// Virtual time.
fn ticks(option: &str, seconds: f64) -> Result<Ticks, String> {
    let time = duration(option, seconds, 1.0)?;
    let nanos = u64::try_from(time.as_nanos()).ok();
    let nanos = nanos.filter(|nanos| *nanos <= 3_600_000_000_000);
    nanos
        .map(Ticks)
        .ok_or_else(|| format!("error: {option}: has to be at most 3600, not {seconds}"))
}

impl SitesArguments {
    fn workload(&self) -> Result<SiteWorkload, String> {
        let tpcc = self.workload == WorkloadArgument::Tpcc;
        for (option, given, fits) in [
            ("--warehouses", self.warehouses.is_some(), tpcc),
            ("--read-only", self.read_only.is_some(), tpcc),
            ("--accounts", self.accounts.is_some(), !tpcc),
        ] {
            if given && !fits {
                return Err(format!(
                    "error: {option}: the other workload has this option"
                ));
            }
        }
        Ok(match tpcc {
            true => SiteWorkload::Tpcc {
                warehouses_each: self.warehouses.unwrap_or(2),
                mix: match self.read_only {
                    Some(percent) => Mix::reading(percent).expect("it is at most 100"),
                    None => Mix::FULL,
                },
            },
            false => SiteWorkload::Bank {
                accounts: self.accounts.unwrap_or(1_200),
            },
        })
    }

    fn experiment(&self) -> Result<SiteExperiment, String> {
        let measured = ticks("--seconds", self.seconds)?;
        if measured == Ticks(0) {
            return Err("error: --seconds: has to be longer than 0".to_owned());
        }
        Ok(SiteExperiment {
            workload: self.workload()?,
            sites: self.nodes,
            network: network_or_regions(self.net.as_deref())?,
            clients: self.clients,
            cores: self.cores,
            seed: self.seed,
            warmup: ticks("--warmup-seconds", self.warmup_seconds)?,
            measured,
            think: Ticks::from_millis(self.think_ms),
            calls: Some(self.calls),
        })
    }

    /// Every protocol with every consistency. Options of one protocol are for that alone.
    fn competitors(&self) -> Result<Vec<Competitor>, String> {
        let has = |protocol| self.protocol.contains(&protocol);
        for (option, given, of) in [
            (
                "--fast-decisions on",
                self.fast_decisions,
                ProtocolName::Alvin,
            ),
            ("--leader", self.leader > 0, ProtocolName::Multipaxos),
        ] {
            if given && !has(of) {
                let of = of.name();
                return Err(format!("error: {option}: {of} is not among the protocols"));
            }
        }
        let orders = |over| self.order_over.contains(&over);
        let mut promises = Vec::new();
        if orders(OrderOver::Guards) {
            promises.push((ConsistencyName::Sr, OrderOver::Guards));
        }
        if orders(OrderOver::Accesses) {
            let each = self.consistency.iter();
            promises.extend(each.map(|consistency| (*consistency, OrderOver::Accesses)));
        }
        let each = |protocol: &ProtocolName| {
            let protocol = *protocol;
            let each = promises.iter();
            let with = each.map(move |(consistency, order_over)| Competitor {
                protocol,
                options: SiteOptions {
                    consistency: *consistency,
                    fast_decisions: self.fast_decisions && protocol == ProtocolName::Alvin,
                    leader: match protocol {
                        ProtocolName::Multipaxos => self.leader,
                        _ => 0,
                    },
                    batch_window: Ticks::from_millis(self.batch_window),
                    order_over: *order_over,
                    retained_max: None,
                },
            });
            with.collect::<Vec<Competitor>>()
        };
        Ok(self.protocol.iter().flat_map(each).collect())
    }
}

pub(super) fn run(arguments: &SitesArguments) -> Result<Verdict, Box<dyn Error>> {
    let experiment = arguments.experiment()?;
    let competitors = arguments.competitors()?;
    check_outputs(&[("--json", arguments.json.as_deref())], &[])?;
    say!("{}", introduction(&experiment))?;
    let runs = run_all(&experiment, &competitors)?;
    if let Some(path) = &arguments.json {
        let outcome = experiment.json(&runs);
        write_file(path, serde_json::to_string_pretty(&outcome)? + "\n")?;
    }
    say!("{}", experiment.summary(&runs))?;
    for run in &runs {
        let path = run.bounds.first().map_or("", |bound| bound.path);
        say!(
            "\n  {}: latencies at each site. Bound: {path}, without conflicts.\n\n{}",
            run.competitor.label(),
            experiment.by_site(run)
        )?;
    }
    verdict(&runs)
}

/// What is about to run.
pub(crate) fn introduction(experiment: &SiteExperiment) -> String {
    let names: Vec<&str> = (0..experiment.sites)
        .map(|site| experiment.network.site(site))
        .collect();
    format!(
        "Simulated: {} with all of the data ({}), {} a site, {} a site, network {}.\n\
         A client thinks for {} ms before its next call. A measurement takes {} s of virtual time (the column *in s*){}.\n\
         Costs of steps are measured on this machine before each run.\n\n",
        counted(experiment.sites.into(), "site"),
        names.join(", "),
        counted(experiment.cores.into(), "core"),
        counted(experiment.clients.into(), "client"),
        experiment.network.name(),
        experiment.think.0 as f64 / 1e6,
        experiment.measured.0 as f64 / 1e9,
        experiment.calls.map_or_else(String::new, |calls| format!(
            ", or ends with {}",
            counted(calls, "committed call")
        )),
    )
}

/// Runs the competitors one after the other over the same initial data.
pub(crate) fn run_all(
    experiment: &SiteExperiment,
    competitors: &[Competitor],
) -> Result<Vec<SiteRun>, Box<dyn Error>> {
    let (prepared, store) = experiment.prepare()?;
    let mut runs = Vec::new();
    for competitor in competitors {
        runs.push(progress::steps(&competitor.label(), |step| {
            experiment.run(*competitor, &prepared, &store, step)
        })?);
    }
    Ok(runs)
}

/// Reports what the checks have found.
pub(crate) fn verdict(runs: &[SiteRun]) -> Result<Verdict, Box<dyn Error>> {
    let mut verdict = Verdict::Fine;
    for run in runs {
        for violation in &run.found.violations {
            say!("\n  {}: {violation}", run.competitor.label())?;
            verdict = Verdict::Finding;
        }
    }
    Ok(verdict)
}
