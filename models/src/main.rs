//! Runs the models at any size: `cargo run -p anabranch-models --release -- ramp --readers 3`.

use std::process::ExitCode;
use std::time::Instant;

use anabranch_models::explore::Limits;
use anabranch_models::model::{MODELS, Model, Size};
use clap::Parser;

/// Explores small clusters of the protocols exhaustively.
///
/// Exit codes: 0 no violation (in a self-test: a violation), 1 a violation (in a self-test: none), 2 misuse, 3 the
/// search is incomplete.
#[derive(Parser)]
#[command(name = "anabranch-models")]
struct Arguments {
    /// The models to run [default: all]
    models: Vec<String>,
    /// Lists the models.
    #[arg(long)]
    list: bool,
    /// Transactions that write all partitions.
    #[arg(long, default_value_t = 2)]
    writers: u32,
    /// Transactions that read all partitions.
    #[arg(long, default_value_t = 2)]
    readers: u32,
    /// Partitions.
    #[arg(long, default_value_t = 2)]
    partitions: u16,
    /// Readers read one partition after the other, with pauses between them.
    #[arg(long)]
    sequential_reads: bool,
    /// Clients are at nodes of their own, which own no partition, so that no access is local.
    #[arg(long)]
    remote_clients: bool,
    /// The number of writers' coordinators that may crash.
    #[arg(long, default_value_t = 0)]
    crashes: u32,
    /// How often nodes may crash and restart.
    #[arg(long, default_value_t = 0)]
    restarts: u32,
    /// How often time may jump by more than half of the retention of sibling metadata and versions.
    #[arg(long, default_value_t = 0)]
    jumps: u32,
    /// Participants inquire about transactions that are in doubt (RAMP).
    #[arg(long)]
    terminates: bool,
    /// How often a site may recover a batch (orderers).
    #[arg(long, default_value_t = 1)]
    recoveries: u32,
    /// Sites (orderers).
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    sites: u8,
    /// Ends the search after this many states.
    #[arg(long, default_value_t = 100_000_000)]
    states_max: u64,
    /// Takes every step from every state, without reduction by sleep sets.
    #[arg(long)]
    every_order: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        for model in MODELS {
            println!("{:<20} {}", model.name, model.about);
        }
        return ExitCode::SUCCESS;
    }
    let mut models = Vec::new();
    for name in &arguments.models {
        match Model::named(name) {
            Some(model) => models.push(model),
            None => {
                eprintln!("error: unknown model `{name}`; --list shows all models");
                return ExitCode::from(2);
            }
        }
    }
    if models.is_empty() {
        models.extend(MODELS);
    }
    models
        .into_iter()
        .map(|model| run(model, &arguments))
        .max()
        .map_or(ExitCode::SUCCESS, ExitCode::from)
}

/// The exit code of one model.
fn run(model: &Model, arguments: &Arguments) -> u8 {
    let size = Size {
        writers: arguments.writers,
        readers: arguments.readers,
        partitions: arguments.partitions,
        sequential_reads: arguments.sequential_reads,
        remote_clients: arguments.remote_clients,
        crashes: arguments.crashes,
        restarts: arguments.restarts,
        jumps: arguments.jumps,
        terminates: arguments.terminates,
        recoveries: arguments.recoveries,
        sites: arguments.sites,
    };
    let limits = Limits {
        states_max: arguments.states_max,
        reduce: !arguments.every_order,
    };
    println!("{}: {}", model.name, model.about);
    let began = Instant::now();
    let report = match model.run(size, limits) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("error: {error}");
            return 2;
        }
    };
    let visited = report.visited;
    println!(
        "  {} states, {} steps, {} ends, {} deep, {:.1} s",
        visited.states,
        visited.steps,
        visited.ends,
        visited.depth,
        began.elapsed().as_secs_f64()
    );
    match report.found {
        Some(found) => {
            println!("  violation, in the fewest steps:\n{}", found.story);
            u8::from(!model.is_self_test)
        }
        None if !visited.complete => {
            println!("  incomplete: the limit of states was reached");
            3
        }
        None => {
            println!("  complete: no violation in any state");
            u8::from(model.is_self_test)
        }
    }
}
