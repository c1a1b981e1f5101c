//! `anabranch bench history`

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anabranch_bench::over_wire::{self, IsolationLevel, Settings};
use anabranch_bench::table::{counted, grouped};
use anabranch_server::service::DATABASE;
use clap::{Args, ValueEnum};

use super::super::output::{cannot_write, check_writable, say};
use super::super::{Verdict, progress};

/// Clients append to lists and read them, in transactions of several statements. `anabranch check` judges what they saw.
#[derive(Clone, Debug, Args)]
pub(super) struct HistoryArguments {
    /// The server: a URL or `host=… port=…`. What is left out is 127.0.0.1, 5433, and the database and user anabranch
    #[arg(long, value_name = "ADDRESS", default_value = "")]
    connect: String,
    /// Connections, each with one open transaction
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=400))]
    connections: u32,
    /// How long they run
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Lists in use at a time: the fewer, the more conflicts
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    keys: u64,
    /// The most reads and appends of a transaction
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=100))]
    operations: u64,
    /// The isolation level that every transaction asks for
    #[arg(long, value_enum, default_value_t = IsolationArgument::Serializable)]
    isolation: IsolationArgument,
    /// The seed of what the clients choose; the server's order is its own
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// The table anabranch_history (key bigint PRIMARY KEY, elements text NOT NULL) is there, empty, and stays: for servers
    /// that refuse changes of the schema
    #[arg(long)]
    keep_table: bool,
    /// Write the history to this file, in Jepsen's form (docs/histories.md)
    #[arg(long, value_name = "FILE.edn")]
    history: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum IsolationArgument {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

/// The address with what was left out.
fn address(given: &str) -> String {
    if given.contains("://") {
        return given.to_owned();
    }
    let mut address = given.to_owned();
    let defaults = [
        ("host", "127.0.0.1"),
        ("port", "5433"),
        ("user", DATABASE),
        ("dbname", DATABASE),
    ];
    for (name, value) in defaults {
        if !given.contains(&format!("{name}=")) {
            address += &format!(" {name}={value}");
        }
    }
    address
}

pub(super) fn run(arguments: &HistoryArguments) -> Result<Verdict, Box<dyn Error>> {
    check_writable(Some(&arguments.history))?;
    let settings = Settings {
        connect: address(&arguments.connect),
        connections: arguments.connections,
        duration: Duration::from_secs(arguments.seconds),
        keys: arguments.keys,
        operations_max: arguments.operations,
        isolation: match arguments.isolation {
            IsolationArgument::ReadCommitted => IsolationLevel::ReadCommitted,
            IsolationArgument::RepeatableRead => IsolationLevel::RepeatableRead,
            IsolationArgument::Serializable => IsolationLevel::Serializable,
        },
        seed: arguments.seed,
        keeps_table: arguments.keep_table,
    };
    let file = File::create(&arguments.history)
        .map_err(|error| cannot_write(&arguments.history, &error))?;
    let mut out = BufWriter::new(file);
    let end = Instant::now() + settings.duration;
    let ended = progress::steps("clients run", |step| {
        over_wire::record(&settings, &mut out, || {
            let left = end.saturating_duration_since(Instant::now());
            step(&format!("{} s left", left.as_secs()));
        })
    })?;
    say!(
        "{} committed, {} refused, {} rolled back, {} with an unknown outcome, by {} in {} s\n\nanabranch check {} --model serializable\n",
        counted(ended.committed, "transaction"),
        grouped(ended.refused as f64),
        grouped(ended.rolled_back as f64),
        grouped(ended.unknown as f64),
        counted(u64::from(arguments.connections), "connection"),
        arguments.seconds,
        arguments.history.display(),
    )?;
    Ok(Verdict::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_address_leaves_out_is_our_server() {
        let whole = "host=127.0.0.1 port=5433 user=anabranch dbname=anabranch";
        assert_eq!(address("").trim(), whole);
        assert_eq!(
            address("port=6500 user=me"),
            "port=6500 user=me host=127.0.0.1 dbname=anabranch"
        );
        assert_eq!(
            address("postgresql://me@there/app"),
            "postgresql://me@there/app"
        );
    }
}
