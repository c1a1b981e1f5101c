//! `anabranch demo`: plans and runs TPC-C, in a minute.

use std::error::Error;

use anabranch_analysis::{Guarantee, report};
use anabranch_bench::application;
use anabranch_bench::experiment::ProtocolChoice;
use anabranch_bench::outcome::Run;
use anabranch_bench::table::counted;
use anabranch_engine::PlannedApplication;
use clap::Args;

use super::bench::ClusterArguments;
use super::bench::tpcc::{MixArgument, TpccArguments};
use super::output::say;
use super::{Verdict, bench};

#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// One-way message delay between partitions, in milliseconds; 1 is typical between zones of a region
    #[arg(long, value_name = "MS", default_value_t = 1.0)]
    delay_ms: f64,
    /// How long to measure each protocol
    #[arg(long, value_name = "SECONDS", default_value_t = 8.0)]
    seconds: f64,
    /// Warehouses, spread over two partitions
    #[arg(long, value_name = "N", default_value_t = 2)]
    warehouses: u32,
    /// Concurrent calls
    #[arg(long, value_name = "N", default_value_t = 256)]
    clients: usize,
}

pub(crate) fn run(arguments: &DemoArguments) -> Result<Verdict, Box<dyn Error>> {
    let tpcc = TpccArguments {
        cluster: ClusterArguments {
            protocol: vec![ProtocolChoice::RampFast, ProtocolChoice::Locking],
            filter_bits: None,
            one_phase: false,
            causal: false,
            lost_commits: 0,
            terminate_after_ms: None,
            partitions: 2,
            clients: arguments.clients,
            seconds: arguments.seconds,
            warmup_seconds: 1.0,
            delay_ms: arguments.delay_ms,
            seed: 1,
            repeat: 1,
            reserve_mb: 0,
            code_path: false,
            data: None,
            json: None,
            history: None,
        },
        warehouses: arguments.warehouses,
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
        counted(arguments.warehouses.into(), "warehouse"),
        counted(arguments.clients as u64, "client"),
        arguments.delay_ms
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
