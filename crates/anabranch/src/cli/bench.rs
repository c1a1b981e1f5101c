//! `anabranch bench …`

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anabranch_bench::application;
use anabranch_bench::histories;
use anabranch_bench::outcome::{Outcome, Run};
use anabranch_bench::table::{Table, counted, grouped};
use anabranch_bench::tpcc::embedded::Ran;
use anabranch_bench::tpcc::experiment::{Experiment, ProtocolChoice};
use anabranch_bench::tpcc::recorded::Recorded;
use anabranch_bench::tpcc::{embedded, fill, postgres};
use anabranch_engine::PlannedApplication;
use anabranch_protocol::ramp::FilterSize;
use anabranch_server::DataFolder;
use anabranch_sql::source::SourceFile;
use anabranch_storage::{Store, StoreSettings};
use anabranch_workload::tpcc::{self, Distribution, Mix, Scale};
use clap::{Args, Subcommand, ValueEnum};

use super::output::{cannot_write, check_writable, say, write_file};
use super::{Verdict, progress};
use crate::memory;

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// TPC-C on the embedded cluster; its twelve conditions are checked after each run
    Tpcc(TpccArguments),
    /// How long the checkers take for a generated history
    Check(CheckArguments),
}

/// Exit code 1 says that a checker has found something in a history that is strictly serializable.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckArguments {
    /// How long the history is
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    transactions: u64,
    /// The seed of the history
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Keep the history in this file; without it, it is removed
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

/// Exit code 1 says that a consistency condition does not hold.
#[derive(Clone, Debug, Args)]
pub(crate) struct TpccArguments {
    /// Protocols to run, one after the other over fresh databases: ramp-fast, ramp-small,
    /// ramp-hybrid, nwnr, locking, locking-short, lwnr
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "ramp-fast", value_parser = protocol)]
    pub(crate) protocol: Vec<ProtocolChoice>,
    /// How large ramp-hybrid's Bloom filters are [default: 256]
    #[arg(long, value_name = "BITS", value_parser = super::filter_bits)]
    pub(crate) filter_bits: Option<FilterSize>,
    /// Nodes with one partition each
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) partitions: u16,
    /// Warehouses, spread over the partitions
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) warehouses: u32,
    /// Calls under way at any time
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) clients: usize,
    /// How long to measure
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// How long to run before measuring
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub(crate) warmup_seconds: f64,
    /// This percentage of New-Orders takes a line from another partition (without it: 1% of the
    /// lines comes from another warehouse, as specified)
    #[arg(long, value_name = "PERCENT")]
    pub(crate) remote_percent: Option<f64>,
    /// Delay between partitions, one way, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    pub(crate) delay_ms: f64,
    /// Which transactions
    #[arg(long, value_enum, default_value_t = MixArgument::Full)]
    pub(crate) mix: MixArgument,
    /// The seed of the database and of the calls
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Repeat each run this often over fresh databases and report the run with the median
    /// New-Order rate
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) repeat: u32,
    /// Memory to take from the system, and touch, before the first run, in MiB: what the database then
    /// grows by need not be cleared while it is measured
    #[arg(long, value_name = "MIB", default_value_t = 0)]
    pub(crate) reserve_mb: u64,
    /// Also show what the nodes spent their time on, as sampled while they were measured
    #[arg(long)]
    pub(crate) code_path: bool,
    /// Run the same files on another database as well, on this machine
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) versus: Option<Versus>,
    /// Keep the data in this folder: what was acknowledged is there when the next run opens it. One
    /// protocol, once; not nwnr
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    /// Record a history of all of the run, warm-up included, for `anabranch check`
    /// (docs/histories.md). One protocol, once; some kilobytes a transaction, held in memory until
    /// the end
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = ["data", "versus"])]
    pub(crate) history: Option<PathBuf>,
    /// Write the result to this file (docs/schemas/bench.schema.json)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Read the application from this folder instead of the one built in
    #[arg(long, value_name = "FOLDER")]
    pub(crate) files: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MixArgument {
    /// All five transactions: 45% New-Order, 43% Payment, 4% of each other
    Full,
    /// New-Order alone
    NewOrder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Versus {
    /// A PostgreSQL server that is started for the run
    Postgres,
}

fn protocol(name: &str) -> Result<ProtocolChoice, String> {
    ProtocolChoice::by_name(name).ok_or_else(|| {
        let names: Vec<&str> = ProtocolChoice::ALL
            .iter()
            .map(|choice| choice.name())
            .collect();
        format!(
            "there is no protocol of this name; there are: {}",
            names.join(", ")
        )
    })
}

/// A length of time that the option `name` gives as `count` times `unit` seconds.
fn duration(name: &str, count: f64, unit: f64) -> Result<Duration, String> {
    Duration::try_from_secs_f64(count * unit)
        .map_err(|_| format!("error: {name}: has to be a length of time from 0 on, not {count}"))
}

impl TpccArguments {
    /// Refuses what cannot be done with a data folder, or recorded.
    fn check_once(&self) -> Result<(), String> {
        if self.history.is_some() && (self.protocol.len() > 1 || self.repeat > 1) {
            return Err("error: --history: the history is one protocol's, run once".to_owned());
        }
        if self.data.is_none() {
            return Ok(());
        }
        if self.protocol.len() > 1 || self.repeat > 1 || self.versus.is_some() {
            return Err("error: --data: one protocol runs over a data folder, and once".to_owned());
        }
        match self.protocol.iter().find(|choice| !choice.is_durable()) {
            Some(choice) => Err(format!(
                "error: --data: protocol {} keeps no records: its nodes cannot be made durable",
                choice.name()
            )),
            None => Ok(()),
        }
    }

    pub(crate) fn experiment(&self) -> Result<Experiment, Box<dyn Error>> {
        let experiment = Experiment {
            scale: Scale::specified(self.warehouses),
            partitions: self.partitions,
            clients: self.clients,
            duration: duration("--seconds", self.seconds, 1.0)?,
            warmup: duration("--warmup-seconds", self.warmup_seconds, 1.0)?,
            distribution: self
                .remote_percent
                .map_or(Distribution::Specified, Distribution::Percent),
            mix: match self.mix {
                MixArgument::Full => Mix::FULL,
                MixArgument::NewOrder => Mix::NEW_ORDER,
            },
            delay: duration("--delay-ms", self.delay_ms, 1e-3)?,
            seed: self.seed,
            code_path: self.code_path,
            recorded: self.history.is_some(),
            reserved: self.reserve_mb.saturating_mul(1 << 20),
            filter: self.filter_bits.unwrap_or_default(),
        };
        experiment.check()?;
        if self.repeat == 0 {
            return Err("error: --repeat: has to be at least 1".into());
        }
        Ok(experiment)
    }

    pub(crate) fn sources(&self) -> Result<Vec<SourceFile>, Box<dyn Error>> {
        Ok(match &self.files {
            Some(folder) => application::read_sources(std::slice::from_ref(folder))?,
            None => built_in(),
        })
    }
}

/// The application that is built in: a copy of `examples/tpcc/`.
pub(crate) fn built_in() -> Vec<SourceFile> {
    let source = |(name, text): (&str, &str)| SourceFile {
        name: name.to_owned(),
        text: text.into(),
    };
    tpcc::FILES.into_iter().map(source).collect()
}

pub(crate) fn run(arguments: &BenchArguments) -> Result<Verdict, Box<dyn Error>> {
    let arguments = match &arguments.workload {
        Workload::Tpcc(arguments) => arguments,
        Workload::Check(arguments) => return run_check(arguments),
    };
    let experiment = arguments.experiment()?;
    arguments.check_once()?;
    let hybrid = arguments.protocol.contains(&ProtocolChoice::RampHybrid);
    super::check_filter_bits(arguments.filter_bits, hybrid)?;
    check_writable(arguments.json.as_deref())?;
    check_writable(arguments.history.as_deref())?;
    memory::reserve(experiment.reserved);
    let planned = application::plan(arguments.sources()?, experiment.partitions)?;
    let runs = run_all(&planned, &experiment, arguments)?;
    let mut text = summary(&runs);
    for run in &runs {
        if let Some(shares) = &run.code_path {
            text.push_str(&format!("\n{}", code_path(&run.protocol, shares)));
        }
    }
    let consistent = runs.iter().all(Run::is_consistent);
    if let Some(path) = &arguments.json {
        let outcome = Outcome {
            version: 1,
            experiment: describe(arguments, &experiment),
            runs,
        };
        write_file(path, serde_json::to_string_pretty(&outcome)? + "\n")?;
    }
    say!("{text}")?;
    Ok(if consistent {
        Verdict::Fine
    } else {
        Verdict::Finding
    })
}

fn run_check(arguments: &CheckArguments) -> Result<Verdict, Box<dyn Error>> {
    check_writable(arguments.history.as_deref())?;
    let name = format!("anabranch-check-{}.jsonl", std::process::id());
    let path = match &arguments.history {
        Some(path) => path.clone(),
        None => std::env::temp_dir().join(name),
    };
    let measured = histories::measure(&path, arguments.seed, arguments.transactions);
    if arguments.history.is_none() {
        // Nothing was written if it cannot be removed.
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

/// Every protocol asked for, and the rival, in turn; repeated runs take turns as well, so that a
/// machine whose speed drifts is as kind to one as to the other.
pub(crate) fn run_all(
    planned: &Arc<PlannedApplication>,
    experiment: &Experiment,
    arguments: &TpccArguments,
) -> Result<Vec<Run>, Box<dyn Error>> {
    let rivals = usize::from(arguments.versus.is_some());
    let mut rounds: Vec<Vec<Run>> = vec![Vec::new(); arguments.protocol.len() + rivals];
    for round in 0..arguments.repeat {
        let of = if arguments.repeat > 1 {
            format!(" {}/{}", round + 1, arguments.repeat)
        } else {
            String::new()
        };
        for (runs, choice) in rounds.iter_mut().zip(&arguments.protocol) {
            let data = arguments.data.as_deref();
            let Ran { mut run, recorded } = run_one(planned, experiment, *choice, &of, data)?;
            if let (Some(path), Some(recorded)) = (&arguments.history, recorded)
                && let Some(wrong) = write_history(planned, path, recorded)?
            {
                run.conditions.insert(format!("history: {wrong}"), false);
            }
            runs.push(run);
        }
        if let Some(Versus::Postgres) = arguments.versus {
            let run = progress::steps(&format!("postgres{of}"), |step| {
                postgres::run(planned, experiment, step)
            })?;
            if let Some(runs) = rounds.last_mut() {
                runs.push(run);
            }
        }
    }
    Ok(rounds.into_iter().filter_map(median).collect())
}

/// Fills fresh stores and runs one protocol over them.
pub(crate) fn run_one(
    planned: &Arc<PlannedApplication>,
    experiment: &Experiment,
    choice: ProtocolChoice,
    of: &str,
    data: Option<&Path>,
) -> Result<Ran, Box<dyn Error>> {
    let data = data
        .map(|path| DataFolder::open(path, &embedded::description(planned, experiment, choice)))
        .transpose()
        .map_err(|error| format!("error: --data: {error}"))?;
    let name = format!("{}{of}", choice.name());
    if data.as_ref().is_some_and(|data| !data.is_new()) {
        let empty = || Store::new(planned.schema(), StoreSettings::default());
        let stores = (0..experiment.partitions).map(|_| empty()).collect();
        return Ok(progress::steps(&name, |step| {
            embedded::run(planned, experiment, choice, stores, data.as_ref(), step)
        })?);
    }
    let loaded = Arc::new(AtomicU64::new(0));
    let rows = fill::rows(&experiment.scale, experiment.partitions);
    let message = format!("{}{of}: loading", choice.name());
    let stores = progress::bar(&message, rows, &loaded, || {
        let settings = StoreSettings::default();
        fill::fill(
            planned,
            &experiment.scale,
            experiment.seed,
            settings,
            &loaded,
        )
    })?;
    Ok(progress::steps(&name, |step| {
        embedded::run(planned, experiment, choice, stores, data.as_ref(), step)
    })?)
}

/// Writes what was recorded; the first thing in it that cannot be.
fn write_history(
    planned: &PlannedApplication,
    path: &Path,
    recorded: Recorded,
) -> Result<Option<String>, String> {
    let written = File::create(path).and_then(|file| recorded.write(planned, BufWriter::new(file)));
    let violations = written.map_err(|error| cannot_write(path, &error))?;
    Ok(violations.into_iter().next())
}

/// The run with the median New-Order rate; its conditions hold only if every run's did.
fn median(mut runs: Vec<Run>) -> Option<Run> {
    runs.sort_by(|a, b| a.new_orders_per_s.total_cmp(&b.new_orders_per_s));
    let mut conditions = std::collections::BTreeMap::new();
    for (name, held) in runs.iter().flat_map(|run| &run.conditions) {
        *conditions.entry(name.clone()).or_insert(true) &= held;
    }
    let middle = runs.len() / 2;
    let mut run = runs.into_iter().nth(middle)?;
    run.conditions = conditions;
    Some(run)
}

fn describe(arguments: &TpccArguments, experiment: &Experiment) -> serde_json::Value {
    serde_json::json!({
        "workload": "tpcc",
        "partitions": arguments.partitions,
        "warehouses": arguments.warehouses,
        "clients": arguments.clients,
        "seconds": arguments.seconds,
        "remote_percent": arguments.remote_percent,
        "delay_ms": arguments.delay_ms,
        "mix": match arguments.mix { MixArgument::Full => "full", MixArgument::NewOrder => "new-order" },
        "seed": arguments.seed,
        "reserve_mb": arguments.reserve_mb,
        "repeat": arguments.repeat,
        "filter_bits": experiment.filter.bits(),
    })
}

/// What each code path is called in the table, and what the prototype of the second paper spent on
/// it (coordination-avoidance.txt §6.2; none where it has no such line).
const CODE_PATHS: [(&str, &str, &str); 5] = [
    (
        "storage",
        "Storage (lookup, row programs, install)",
        "45.3%",
    ),
    ("procedure", "Procedure execution", "14.4%"),
    (
        "transport",
        "Queues between threads (the paper: RPC, serialization)",
        "25.8%",
    ),
    (
        "guard",
        "Guards (the paper: ID assignment synchronization)",
        "0.19%",
    ),
    (
        "protocol",
        "The protocol's bookkeeping (the paper: other)",
        "14.3%",
    ),
];

/// The paper's code-path table, with this run beside it.
fn code_path(protocol: &str, shares: &std::collections::BTreeMap<String, f64>) -> String {
    let mut table = Table::new([&format!("{protocol}: code path"), "share", "published"]);
    for (name, text, published) in CODE_PATHS {
        let share = shares.get(name).copied().unwrap_or(0.0);
        table.row([text, &format!("{:.2}%", share * 100.0), published]);
    }
    table.to_string()
}

/// One table over all runs, the ratio to the last of them where there are several, and what did not
/// hold.
pub(crate) fn summary(runs: &[Run]) -> String {
    let several = runs.len() > 1;
    let mut heads = vec![
        "protocol",
        "New-Order/s",
        "all tx/s",
        "mean ms",
        "p50 ms",
        "p99 ms",
        "aborts/tx",
        "messages/tx",
        "blocked ms/tx",
        "conditions",
    ];
    if several {
        heads.push("ratio");
    }
    let mut table = Table::new(heads);
    let last = runs.last().map_or(1.0, |run| run.new_orders_per_s);
    for run in runs {
        let aborted: u64 = run.aborts.values().sum();
        let number =
            |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.2}"));
        let held = run.conditions.values().filter(|held| **held).count();
        let mut row = vec![
            run.protocol.clone(),
            grouped(run.new_orders_per_s),
            grouped(run.transactions_per_s),
            format!("{:.2}", run.latency_ms.mean),
            format!("{:.2}", run.latency_ms.p50),
            format!("{:.2}", run.latency_ms.p99),
            format!("{:.3}", aborted as f64 / run.transactions.max(1) as f64),
            number(run.messages_per_transaction),
            number(run.blocked_ms_per_transaction),
            format!("{held}/{}", run.conditions.len()),
        ];
        if several {
            row.push(format!("{:.2}x", run.new_orders_per_s / last));
        }
        table.row(row);
    }
    let mut text = table.to_string();
    for run in runs {
        if let ("ramp-small" | "ramp-hybrid", Some(rounds), Some(in_vain)) = (
            &*run.protocol,
            run.second_rounds_per_transaction,
            run.false_positives_per_transaction,
        ) {
            text.push_str(&format!(
                "  {}: {rounds:.4} second rounds a transaction, {in_vain:.4} false positives\n",
                run.protocol
            ));
        }
        for (name, _) in run.conditions.iter().filter(|(_, held)| !**held) {
            text.push_str(&format!(
                "  {}: condition {name} does not hold\n",
                run.protocol
            ));
        }
    }
    text
}
