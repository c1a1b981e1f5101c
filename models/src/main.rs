//! Runs the models at any size: `cargo run -p anabranch-models --release -- ramp --readers 3`.

use std::process::ExitCode;
use std::time::Instant;

use anabranch_models::explore::Limits;
use anabranch_models::model::{MODELS, Model, Size};
use clap::Parser;

/// Explores small clusters of the protocols exhaustively.
///
/// Exit codes: 0 nothing wrong was found (in a self-test: it was), 1 something was (or was not),
/// 2 misuse, 3 not everything was explored.
#[derive(Parser)]
#[command(name = "anabranch-models")]
struct Arguments {
    /// The models to run; all of them if none is named.
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
    /// Readers read one partition after the other, and pause in between.
    #[arg(long)]
    one_by_one: bool,
    /// Clients are at nodes of their own, not at the owners of the partitions.
    #[arg(long)]
    apart: bool,
    /// How many coordinators of writers may crash.
    #[arg(long, default_value_t = 0)]
    crashes: u32,
    /// How often a node may die and come back.
    #[arg(long, default_value_t = 0)]
    returns: u32,
    /// How often time may jump by more than half of what evidence and versions are kept for.
    #[arg(long, default_value_t = 0)]
    jumps: u32,
    /// Participants ask what has become of what they have prepared (RAMP).
    #[arg(long)]
    terminates: bool,
    /// Gives up after this many states.
    #[arg(long, default_value_t = 100_000_000)]
    states_max: u64,
    /// Takes every step from every state, also where another order comes to the same.
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
                eprintln!("error: there is no model `{name}`; --list names them");
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
        one_by_one: arguments.one_by_one,
        apart: arguments.apart,
        crashes: arguments.crashes,
        returns: arguments.returns,
        jumps: arguments.jumps,
        terminates: arguments.terminates,
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
        Some((_, story)) => {
            println!("  found, in the fewest steps:\n{story}");
            u8::from(!model.finds)
        }
        None if !visited.complete => {
            println!("  not everything was explored");
            3
        }
        None => {
            println!("  every state was visited; nothing is wrong");
            u8::from(model.finds)
        }
    }
}
