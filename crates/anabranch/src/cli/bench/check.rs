//! `anabranch bench check`

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use anabranch_bench::histories;
use anabranch_bench::table::{Table, counted, grouped};
use clap::Args;

use super::super::Verdict;
use super::super::output::{check_writable, say};

/// Exit code 1: a checker reports a violation, although the history is strictly serializable.
#[derive(Clone, Debug, Args)]
pub(super) struct CheckArguments {
    /// The number of transactions of the history
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    transactions: u64,
    /// The seed of the history
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Keep the history in this file
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

pub(super) fn run(arguments: &CheckArguments) -> Result<Verdict, Box<dyn Error>> {
    check_writable(arguments.history.as_deref())?;
    let name = format!("anabranch-check-{}.jsonl", std::process::id());
    let path = match &arguments.history {
        Some(path) => path.clone(),
        None => std::env::temp_dir().join(name),
    };
    let measured = histories::measure(&path, arguments.seed, arguments.transactions);
    if arguments.history.is_none() {
        // The removal fails only if nothing was written.
        let _ = std::fs::remove_file(&path);
    }
    let measured = measured?;
    let mut table = Table::new(["", "seconds", "verdict"]);
    let seconds = |duration: Duration| format!("{:.2}", duration.as_secs_f64());
    let size = format!("reading {} MB", grouped(measured.bytes as f64 / 1e6));
    table.row([size, seconds(measured.read), String::new()]);
    for (model, took, satisfied) in &measured.models {
        let verdict = if *satisfied { "satisfied" } else { "violated" };
        table.row([model.name().to_owned(), seconds(*took), verdict.to_owned()]);
    }
    let count = counted(arguments.transactions, "transaction");
    say!("a generated history of {count}\n\n{table}")?;
    let all = measured.models.iter().all(|(_, _, satisfied)| *satisfied);
    Ok(if all { Verdict::Fine } else { Verdict::Finding })
}
