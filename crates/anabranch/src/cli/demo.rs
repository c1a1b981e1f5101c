//! `anabranch demo`: plans and runs TPC-C, in a minute: on an embedded cluster, or on simulated sites.

use std::error::Error;

use anabranch_analysis::{Guarantee, report};
use anabranch_bench::application;
use anabranch_bench::experiment::ProtocolChoice;
use anabranch_bench::outcome::Run;
use anabranch_bench::sites::{SiteExperiment, SiteWorkload, competitors};
use anabranch_bench::table::counted;
use anabranch_engine::PlannedApplication;
use anabranch_protocol::order::SITES_MAX;
use anabranch_types::Ticks;
use anabranch_workload::tpcc::Mix;
use clap::{Args, ValueEnum};

use super::bench::ClusterArguments;
use super::bench::sites::{introduction, network_or_regions, run_all, verdict};
use super::bench::tpcc::{MixArgument, TpccArguments};
use super::output::say;
use super::{Verdict, bench};

#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Where it runs
    #[arg(long, value_enum, default_value_t = Topology::Partitioned)]
    topology: Topology,
    /// partitioned: one-way message delay between partitions, in milliseconds; 1 is typical between zones of a region
    /// [default: 1]
    #[arg(long, value_name = "MS")]
    delay_ms: Option<f64>,
    /// How long to measure each protocol, on sites in virtual time [default: 8]
    #[arg(long, value_name = "SECONDS", default_value_t = 8.0)]
    seconds: f64,
    /// partitioned: warehouses, spread over two partitions [default: 2]
    #[arg(long, value_name = "N")]
    warehouses: Option<u32>,
    /// Concurrent calls; of each site, if replicated [default: 256; 32 of each site]
    #[arg(long, value_name = "N")]
    clients: Option<usize>,
    /// replicated: the number of sites [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(SITES_MAX)))]
    sites: Option<u16>,
    /// replicated: the network, lan or wan:FILE with a matrix of round-trip times [default: eight regions of Amazon
    /// EC2, examples/networks/ec2-regions.txt]
    #[arg(long, value_name = "lan|wan:FILE")]
    net: Option<String>,
}

/// The topologies of the demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Topology {
    /// Two partitions of an embedded cluster: RAMP-Fast beside two-phase locking
    Partitioned,
    /// Sites that each have all of the data, simulated: ALVIN beside EPaxos and MultiPaxos
    Replicated,
}

impl DemoArguments {
    /// Refuses options of the other topology.
    fn check(&self) -> Result<(), String> {
        let is_replicated = self.topology == Topology::Replicated;
        for (option, given, of_replicated) in [
            ("--delay-ms", self.delay_ms.is_some(), false),
            ("--warehouses", self.warehouses.is_some(), false),
            ("--sites", self.sites.is_some(), true),
            ("--net", self.net.is_some(), true),
        ] {
            if given && of_replicated != is_replicated {
                let other = match of_replicated {
                    true => "replicated",
                    false => "partitioned",
                };
                return Err(format!("error: {option}: give it with --topology {other}"));
            }
        }
        Ok(())
    }
}

/// The median time from an answer to a client's next call: clients that wait for nothing do not call all the time.
const THINK: Ticks = Ticks::from_millis(50);

/// The committed calls that end the measurement of a protocol whose calls wait for nothing.
const CALLS: u64 = 2_500;

/// Runs TPC-C at sites under each of the protocols that order transactions among sites.
fn run_replicated(arguments: &DemoArguments) -> Result<Verdict, Box<dyn Error>> {
    let clients = u32::try_from(arguments.clients.unwrap_or(32));
    let seconds = arguments.seconds;
    if !(0.001..=3_600.0).contains(&seconds) {
        return Err(
            format!("error: --seconds: has to be between 0.001 and 3600, not {seconds}").into(),
        );
    }
    let experiment = SiteExperiment {
        workload: SiteWorkload::Tpcc {
            warehouses_each: 2,
            mix: Mix::FULL,
        },
        sites: arguments.sites.unwrap_or(5),
        network: network_or_regions(arguments.net.as_deref())?,
        clients: clients.map_err(|_| "error: --clients: too many")?,
        cores: 8,
        seed: 1,
        warmup: Ticks::from_millis(2_000),
        measured: Ticks((seconds * 1e9) as u64),
        think: THINK,
        calls: Some(CALLS),
    };
    say!(
        "TPC-C's full mix, two warehouses of each site. {}",
        introduction(&experiment)
    )?;
    let runs = run_all(&experiment, &competitors())?;
    say!("{}", experiment.summary(&runs))?;
    let verdict = verdict(&runs)?;
    if verdict == Verdict::Fine {
        say!(
            "\n  After each run all sites have the same rows, and all twelve consistency conditions hold at each.\n"
        )?;
    }
    Ok(verdict)
}

pub(crate) fn run(arguments: &DemoArguments) -> Result<Verdict, Box<dyn Error>> {
    arguments.check()?;
    match arguments.topology {
        Topology::Partitioned => run_partitioned(arguments),
        Topology::Replicated => run_replicated(arguments),
    }
}

fn run_partitioned(arguments: &DemoArguments) -> Result<Verdict, Box<dyn Error>> {
    let (clients, delay_ms) = (
        arguments.clients.unwrap_or(256),
        arguments.delay_ms.unwrap_or(1.0),
    );
    let warehouses = arguments.warehouses.unwrap_or(2);
    let tpcc = TpccArguments {
        cluster: ClusterArguments {
            protocol: vec![ProtocolChoice::RampFast, ProtocolChoice::Locking],
            filter_bits: None,
            one_phase: false,
            causal: false,
            lost_commits: 0,
            terminate_after_ms: None,
            partitions: 2,
            clients,
            seconds: arguments.seconds,
            warmup_seconds: 1.0,
            delay_ms,
            seed: 1,
            repeat: 1,
            reserve_mb: 0,
            code_path: false,
            data: None,
            json: None,
            history: None,
        },
        warehouses,
        remote_percent: None,
        mix: MixArgument::Full,
        versus: None,
        files: None,
    };
    let experiment = tpcc.experiment()?;
    say!("TPC-C, from examples/tpcc/: schema.sql, assertions.sql, procedures.sql\n\n")?;
    let compiled = application::compile(tpcc.sources()?)?;
    let plan = application::analyze(&compiled, Guarantee::Invariants);
    say!(
        "{}",
        report::text::render(&plan, compiled.catalog(), compiled.summaries())
    )?;
    say!(
        "\nRunning the full mix on an embedded cluster: 2 partitions, {}, {}, \
         messages delayed by {} ms one way.\n\n",
        counted(warehouses.into(), "warehouse"),
        counted(clients as u64, "client"),
        delay_ms
    )?;
    let planned = PlannedApplication::new(compiled, plan, experiment.settings.partitions);
    let runs = bench::run_all(&planned, &experiment, &tpcc.cluster, None)?;
    say!("{}", bench::summary(&runs))?;
    if let [avoiding, locking] = &runs[..] {
        say!(
            "\n  Coordination-avoiding over two-phase locking: {:.1} times the New-Orders.\n",
            avoiding.rate() / locking.rate().max(f64::MIN_POSITIVE)
        )?;
    }
    let consistent = runs.iter().all(Run::is_consistent);
    if consistent {
        say!("  All twelve consistency conditions hold after each run.\n")?;
    }
    Ok(if consistent {
        Verdict::Fine
    } else {
        Verdict::Finding
    })
}
