//! The subcommands of the `anabranch` command, a module each.

mod analyze;
mod backup;
mod belt;
mod bench;
mod calibrate;
mod check;
mod counterexample;
mod demo;
mod dump;
mod explain;
mod input;
mod live;
pub(crate) mod mistakes;
pub(crate) mod output;
mod program;
mod progress;
mod replay;
mod reproduce;
mod serve;
mod shell;
mod signals;
mod sim;
mod solver;
mod text;
mod traffic;
mod verify_data;

use std::error::Error;

use anabranch_protocol::ramp::FilterSize;
use clap::{Parser, Subcommand};

/// The transactional database that coordinates only when it must.
#[derive(Debug, Parser)]
#[command(name = "anabranch", version, about, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "Exit codes: 0 no finding; 1 a finding (a transaction that needs coordination, a part of an \
application that was skipped, a counterexample that does not behave as predicted, a condition that does not hold, a \
figure that is not reached, a damaged data folder); 2 wrong usage, or the command failed, or it found nothing to analyse; for a simulation also: 3 no progress after the faults ended, 4 a node panicked.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Plan TPC-C, load it, run it with and without distributed coordination, and compare
    Demo(demo::DemoArguments),
    /// Serve an application to PostgreSQL's clients
    Serve(serve::ServeArguments),
    /// Copy the data of a running server into a folder, while everything runs
    Backup(backup::BackupArguments),
    /// Make a data folder of a backup
    Restore(backup::RestoreArguments),
    /// Write a database as SQL that PostgreSQL loads
    Dump(dump::DumpArguments),
    /// Read all of a data folder or backup, and name the first damage
    VerifyData(verify_data::VerifyDataArguments),
    /// Make PostgreSQL servers a ring of the Conveyor Belt: check them, install triggers, remove them
    Belt(belt::BeltArguments),
    /// Report which transactions need coordination, on what, and why
    Analyze(analyze::AnalyzeArguments),
    /// Run the counterexamples of `analyze` on the nodes of a cluster, without coordination and with the plan
    Replay(replay::ReplayArguments),
    /// Run one experiment
    Bench(bench::BenchArguments),
    /// Run a cluster in virtual time under one seed, with faults, and check all guarantees
    Sim(sim::SimArguments),
    /// Check a recorded history against isolation and consistency models
    Check(check::CheckArguments),
    /// Measure the cost of the real code on this machine, for simulated servers
    Calibrate(calibrate::CalibrateArguments),
    /// Reproduce a paper's figures in simulation, and compare them with the published ones
    Reproduce(reproduce::ReproduceArguments),
    /// Explain a procedure's compiled statements, a rule, or a repair
    Explain(explain::ExplainArguments),
}

/// What a command found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No finding.
    Fine,
    /// A finding, such as a condition that does not hold.
    Finding,
    /// The files hold nothing that could be analysed.
    NothingAnalysed,
    /// A simulated cluster made no progress after the faults ended.
    NoProgress,
    /// A simulated node panicked.
    Crash,
}

impl Verdict {
    /// The exit code: [`AFTER_HELP`] says what each means.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Verdict::Fine => 0,
            Verdict::Finding => 1,
            Verdict::NothingAnalysed => 2,
            Verdict::NoProgress => 3,
            Verdict::Crash => 4,
        }
    }
}

/// Parses the size of a Bloom filter.
fn filter_bits(text: &str) -> Result<FilterSize, String> {
    let bits: u32 = text
        .parse()
        .map_err(|_| "not a whole number of bits".to_owned())?;
    FilterSize::try_from(bits).map_err(|error| error.to_string())
}

/// Refuses the size of a filter for protocols without filters.
fn check_filter_bits(size: Option<FilterSize>, hybrid: bool) -> Result<(), String> {
    match (size, hybrid) {
        (Some(_), false) => {
            Err("error: --filter-bits: only the protocol ramp-hybrid has Bloom filters".to_owned())
        }
        _ => Ok(()),
    }
}

/// Runs the command that the arguments name.
pub(crate) fn run(arguments: Arguments) -> Result<Verdict, Box<dyn Error>> {
    match arguments.command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Backup(arguments) => backup::back_up(&arguments),
        Command::Belt(arguments) => belt::run(arguments),
        Command::Restore(arguments) => backup::restore(&arguments),
        Command::Dump(arguments) => dump::run(&arguments),
        Command::VerifyData(arguments) => verify_data::run(&arguments),
        Command::Analyze(arguments) => analyze::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Calibrate(arguments) => calibrate::run(&arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
    }
}
