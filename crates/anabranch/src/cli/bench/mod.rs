//! `anabranch bench …`

mod analyze;
mod check;
mod history;
mod pgbench;
pub(crate) mod sites;
mod summary;
pub(crate) mod tpcc;
mod ycsb;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anabranch_bench::application;
use anabranch_bench::embedded::{self, RunResult};
use anabranch_bench::experiment::{Experiment, ProtocolChoice, Settings};
use anabranch_bench::outcome::{Outcome, Run};
use anabranch_bench::recorded::RecordedRun;
use anabranch_engine::PlannedApplication;
use anabranch_protocol::ramp::FilterSize;
use anabranch_server::DataFolder;
use anabranch_sql::source::SourceFile;
use anabranch_storage::{Store, StoreSettings};
use clap::{Args, Subcommand};

use super::output::{cannot_write, check_outputs, say, write_file};
use super::{Verdict, progress};
use crate::memory;

pub(crate) use summary::summary;

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// TPC-C on the embedded cluster, with its twelve consistency conditions checked after each run
    #[command(allow_negative_numbers = true)]
    Tpcc(tpcc::TpccArguments),
    /// YCSB on the embedded cluster: transactions over several items, or a published workload
    #[command(allow_negative_numbers = true)]
    Ycsb(ycsb::YcsbArguments),
    /// Sites that each have all of the data, simulated: ALVIN, EPaxos and MultiPaxos over a wide area network
    #[command(allow_negative_numbers = true)]
    Sites(sites::SitesArguments),
    /// A server of ours, and one of PostgreSQL, measured over the wire in turns by PostgreSQL's pgbench
    #[command(allow_negative_numbers = true)]
    Pgbench(pgbench::PgbenchArguments),
    /// The history of clients' transactions on a running server, for `anabranch check`
    #[command(allow_negative_numbers = true)]
    History(history::HistoryArguments),
    /// The time that the checkers take for a generated history
    #[command(allow_negative_numbers = true)]
    Check(check::CheckArguments),
    /// The time that the analyser takes for a generated application, and for one more type of TPC-C
    #[command(allow_negative_numbers = true)]
    Analyze(analyze::AnalyzeArguments),
}

/// The arguments of all experiments on the embedded cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClusterArguments {
    /// Protocols to run one after the other, each over a fresh database: ramp-fast, ramp-small, ramp-hybrid, nwnr,
    /// locking, locking-short, lwnr, score, bumper, e-pci
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "ramp-fast", value_parser = protocol)]
    pub(crate) protocol: Vec<ProtocolChoice>,
    /// The size of ramp-hybrid's Bloom filters [default: 256]
    #[arg(long, value_name = "BITS", value_parser = super::filter_bits)]
    pub(crate) filter_bits: Option<FilterSize>,
    /// RAMP: answer a client when its transaction is decided, before it is visible at all participants
    #[arg(long)]
    pub(crate) one_phase: bool,
    /// RAMP: causal consistency. Each concurrent client is a session, whose calls depend on everything that its
    /// earlier calls have read
    #[arg(long)]
    pub(crate) causal: bool,
    /// RAMP: of a million transactions over several partitions, decide N without sending commits to the
    /// participants, as if their coordinators had failed (blocked writes, ramp.txt §5.3)
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) lost_commits: u32,
    /// RAMP: how long a participant waits for the outcome of a prepared transaction before it starts termination, in
    /// milliseconds [default: 10 with --lost-commits, else 5000]
    #[arg(long, value_name = "MS")]
    pub(crate) terminate_after_ms: Option<f64>,
    /// The number of nodes, with one partition each
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) partitions: u16,
    /// Concurrent calls
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) clients: usize,
    /// How long to measure
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// How long to warm up before measuring
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub(crate) warmup_seconds: f64,
    /// One-way message delay between partitions, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    pub(crate) delay_ms: f64,
    /// The seed of the database and of the calls
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Repeat each run N times over fresh databases, and report the run with the median rate
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) repeat: u32,
    /// Memory to allocate and touch before the first run, in MiB, so that the system does not clear pages during the
    /// measurement
    #[arg(long, value_name = "MIB", default_value_t = 0)]
    pub(crate) reserve_mb: u64,
    /// Also report the code paths that the nodes spent their time on, by sampling
    #[arg(long)]
    pub(crate) code_path: bool,
    /// Keep the data in this folder: acknowledged writes are there when the next run opens it. For one protocol and
    /// one run; not for nwnr or e-pci
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    /// Record a history of the run, warm-up included, for `anabranch check` (docs/histories.md). For one protocol and
    /// one run; takes some kilobytes of memory per transaction until the end
    #[arg(long, value_name = "FILE.jsonl", conflicts_with = "data")]
    pub(crate) history: Option<PathBuf>,
    /// Write the results to this file (docs/schemas/bench.schema.json)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

fn protocol(name: &str) -> Result<ProtocolChoice, String> {
    ProtocolChoice::by_name(name).ok_or_else(|| {
        let names: Vec<&str> = ProtocolChoice::ALL
            .iter()
            .map(|choice| choice.name())
            .collect();
        format!("unknown protocol; known are: {}", names.join(", "))
    })
}

/// The duration that the option `name` gives as `count` times `unit` seconds.
fn duration(name: &str, count: f64, unit: f64) -> Result<Duration, String> {
    Duration::try_from_secs_f64(count * unit)
        .map_err(|_| format!("error: {name}: has to be a duration of 0 or more, not {count}"))
}

impl ClusterArguments {
    /// The settings of the experiment.
    fn settings(&self) -> Result<Settings, String> {
        if self.repeat == 0 {
            return Err("error: --repeat: has to be at least 1".to_owned());
        }
        let terminate_after = self.terminate_after_ms.map(|millis| {
            let after = duration("--terminate-after-ms", millis, 1e-3)?;
            match after.is_zero() {
                true => Err("error: --terminate-after-ms: has to be longer than 0".to_owned()),
                false => Ok(after),
            }
        });
        Ok(Settings {
            partitions: self.partitions,
            clients: self.clients,
            duration: duration("--seconds", self.seconds, 1.0)?,
            warmup: duration("--warmup-seconds", self.warmup_seconds, 1.0)?,
            delay: duration("--delay-ms", self.delay_ms, 1e-3)?,
            seed: self.seed,
            code_path: self.code_path,
            recorded: self.history.is_some(),
            reserved: self.reserve_mb.saturating_mul(1 << 20),
            filter: self.filter_bits.unwrap_or_default(),
            lost_commits: self.lost_commits,
            terminate_after: terminate_after.transpose()?,
            one_phase: self.one_phase,
            causal: self.causal,
        })
    }

    /// Refuses combinations that a data folder or a recorded history excludes.
    fn check_once(&self) -> Result<(), String> {
        if self.history.is_some() && (self.protocol.len() > 1 || self.repeat > 1) {
            return Err("error: --history: give one protocol, and no --repeat".to_owned());
        }
        if self.data.is_none() {
            return Ok(());
        }
        if self.protocol.len() > 1 || self.repeat > 1 {
            return Err("error: --data: give one protocol, and no --repeat".to_owned());
        }
        match self.protocol.iter().find(|choice| !choice.is_durable()) {
            Some(choice) => Err(format!(
                "error: --data: protocol {} keeps no records, so its nodes cannot be durable; choose another protocol",
                choice.name()
            )),
            None => Ok(()),
        }
    }

    /// Checks the arguments, plans the application, and reserves memory.
    fn begin(
        &self,
        settings: &Settings,
        sources: Vec<SourceFile>,
    ) -> Result<Arc<PlannedApplication>, Box<dyn Error>> {
        self.check_once()?;
        let hybrid = self.protocol.contains(&ProtocolChoice::RampHybrid);
        super::check_filter_bits(self.filter_bits, hybrid)?;
        let lost_commits = self.lost_commits > 0;
        for (option, on) in [
            ("--one-phase", self.one_phase),
            ("--causal", self.causal),
            ("--lost-commits", lost_commits),
            ("--terminate-after-ms", self.terminate_after_ms.is_some()),
        ] {
            if on && !self.protocol.iter().any(|choice| choice.is_ramp()) {
                return Err(format!(
                    "error: {option}: no RAMP is among the protocols; name one with --protocol"
                )
                .into());
            }
        }
        check_outputs(
            &[
                ("--json", self.json.as_deref()),
                ("--history", self.history.as_deref()),
            ],
            &[],
        )?;
        let planned = application::plan(sources, settings.partitions)?;
        for choice in &self.protocol {
            embedded::check_guards(&planned, *choice)?;
        }
        memory::reserve(settings.reserved);
        Ok(planned)
    }

    /// The arguments for the JSON result; `workload` has those of the workload.
    fn describe(&self, settings: &Settings, workload: serde_json::Value) -> serde_json::Value {
        let mut described = serde_json::json!({
            "partitions": self.partitions,
            "clients": self.clients,
            "seconds": self.seconds,
            "delay_ms": self.delay_ms,
            "seed": self.seed,
            "reserve_mb": self.reserve_mb,
            "repeat": self.repeat,
            "filter_bits": settings.filter.bits(),
            "one_phase": settings.one_phase,
            "causal": settings.causal,
            "lost_commits": settings.lost_commits,
            "terminate_after_ms": settings.terminate_after.map(|after| after.as_secs_f64() * 1e3),
        });
        if let (Some(all), serde_json::Value::Object(more)) = (described.as_object_mut(), workload)
        {
            all.extend(more);
        }
        described
    }
}

/// The application in a folder, or the built-in one.
fn sources(
    folder: Option<&Path>,
    built_in: &[(&str, &str)],
) -> Result<Vec<SourceFile>, Box<dyn Error>> {
    Ok(match folder {
        Some(folder) => application::read_sources(&[folder.to_owned()])?,
        None => {
            let files = built_in.iter();
            files
                .map(|(name, text)| SourceFile::new(*name, *text))
                .collect()
        }
    })
}

pub(crate) fn run(arguments: &BenchArguments) -> Result<Verdict, Box<dyn Error>> {
    match &arguments.workload {
        Workload::Tpcc(arguments) => tpcc::run(arguments),
        Workload::Ycsb(arguments) => ycsb::run(arguments),
        Workload::Sites(arguments) => sites::run(arguments),
        Workload::Pgbench(arguments) => pgbench::run(arguments),
        Workload::History(arguments) => history::run(arguments),
        Workload::Check(arguments) => check::run(arguments),
        Workload::Analyze(arguments) => analyze::run(arguments),
    }
}

/// Runs the experiment on another database; the argument names the round.
pub(crate) type Rival<'r> = dyn Fn(&str) -> Result<Run, Box<dyn Error>> + 'r;

/// Runs an experiment under all protocols of the arguments, and reports the results.
fn run_experiment(
    arguments: &ClusterArguments,
    planned: &Arc<PlannedApplication>,
    experiment: &dyn Experiment,
    rival: Option<Box<Rival<'_>>>,
    described: serde_json::Value,
) -> Result<Verdict, Box<dyn Error>> {
    let runs = run_all(planned, experiment, arguments, rival.as_deref())?;
    let mut text = summary(&runs);
    for run in &runs {
        if let Some(shares) = &run.code_path {
            text.push_str(&format!("\n{}", summary::code_path(&run.protocol, shares)));
        }
    }
    let consistent = runs.iter().all(Run::is_consistent);
    if let Some(path) = &arguments.json {
        let outcome = Outcome {
            version: 1,
            experiment: arguments.describe(experiment.settings(), described),
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

/// Runs every protocol and the other database in turn. Repeated runs take turns as well, so that a drift of the
/// machine's speed affects all alike.
pub(crate) fn run_all(
    planned: &Arc<PlannedApplication>,
    experiment: &dyn Experiment,
    arguments: &ClusterArguments,
    rival: Option<&Rival<'_>>,
) -> Result<Vec<Run>, Box<dyn Error>> {
    let rivals = usize::from(rival.is_some());
    let mut rounds: Vec<Vec<Run>> = vec![Vec::new(); arguments.protocol.len() + rivals];
    for round in 0..arguments.repeat {
        let of = if arguments.repeat > 1 {
            format!(" {}/{}", round + 1, arguments.repeat)
        } else {
            String::new()
        };
        for (runs, choice) in rounds.iter_mut().zip(&arguments.protocol) {
            let data = arguments.data.as_deref();
            let RunResult { mut run, recorded } = run_one(planned, experiment, *choice, &of, data)?;
            if let (Some(path), Some(recorded)) = (&arguments.history, recorded)
                && let Some(wrong) = write_history(planned, path, recorded)?
            {
                run.conditions.insert(format!("history: {wrong}"), false);
            }
            runs.push(run);
        }
        if let (Some(rival), Some(runs)) = (rival, rounds.last_mut()) {
            runs.push(rival(&of)?);
        }
    }
    Ok(rounds.into_iter().filter_map(median).collect())
}

/// Fills fresh stores and runs one protocol over them.
fn run_one(
    planned: &Arc<PlannedApplication>,
    experiment: &dyn Experiment,
    choice: ProtocolChoice,
    of: &str,
    data: Option<&Path>,
) -> Result<RunResult, Box<dyn Error>> {
    let data = data
        .map(|path| DataFolder::open(path, &embedded::description(planned, experiment, choice)))
        .transpose()
        .map_err(|error| format!("error: --data: {error}"))?;
    let name = format!("{}{of}", choice.name());
    let stores = if data.as_ref().is_some_and(|data| !data.is_new()) {
        let empty = || Store::new(planned.schema(), StoreSettings::default());
        (0..experiment.settings().partitions)
            .map(|_| empty())
            .collect()
    } else {
        let loaded = Arc::new(AtomicU64::new(0));
        let message = format!("{name}: loading");
        progress::bar(&message, experiment.rows(), &loaded, || {
            experiment.fill(planned, StoreSettings::default(), &loaded)
        })?
    };
    Ok(progress::steps(&name, |step| {
        embedded::run(planned, experiment, choice, stores, data.as_ref(), step)
    })?)
}

/// Writes what was recorded; the first thing in it that cannot be.
fn write_history(
    planned: &PlannedApplication,
    path: &Path,
    recorded: RecordedRun,
) -> Result<Option<String>, String> {
    let written = File::create(path).and_then(|file| recorded.write(planned, BufWriter::new(file)));
    let violations = written.map_err(|error| cannot_write(path, &error))?;
    Ok(violations.into_iter().next())
}

/// The run with the median rate. A condition of it holds only if it held in every run.
fn median(mut runs: Vec<Run>) -> Option<Run> {
    runs.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    let mut conditions = BTreeMap::new();
    for (name, held) in runs.iter().flat_map(|run| &run.conditions) {
        *conditions.entry(name.clone()).or_insert(true) &= held;
    }
    let middle = runs.len() / 2;
    let mut run = runs.into_iter().nth(middle)?;
    run.conditions = conditions;
    Some(run)
}
