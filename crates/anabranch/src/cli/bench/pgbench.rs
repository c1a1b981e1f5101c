//! `anabranch bench pgbench`: servers over the wire, in turns.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anabranch_bench::application;
use anabranch_bench::pgbench::SCHEMA;
use anabranch_bench::pgbench::program::{
    Load, Measurements, Pgbench, Script, Target, write_new_order,
};
use anabranch_bench::table::{Table, grouped, quantity};
use anabranch_bench::tpcc::postgres as tpcc_on_postgres;
use anabranch_dbms::postgres::{Server, Settings};
use anabranch_server::service::DATABASE;
use anabranch_workload::tpcc::{FILES, Scale};
use clap::{Args, ValueEnum};

use super::super::output::{check_outputs, say, write_file};
use super::super::{Verdict, progress};
use super::tpcc::Versus;

/// Exit code 1: a transaction of ours failed.
#[derive(Clone, Debug, Args)]
pub(super) struct PgbenchArguments {
    /// What the clients run: tpcb, select (pgbench's built-in scripts), new-order (TPC-C's New-Order by one call), or a
    /// file with a script for pgbench's tables
    #[arg(long, value_name = "SCRIPT", default_value = "tpcb")]
    script: String,
    /// Also measure another database on this machine, in turns with ours
    #[arg(long, value_enum, value_name = "WHAT")]
    versus: Option<Versus>,
    /// Connections, each with one open transaction
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=450))]
    clients: u32,
    /// Threads of pgbench
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// How long to measure
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// pgbench's scale: branches of a bank, or warehouses [default: 10; of new-order 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    scale: Option<u32>,
    /// Measure each server N times, and report the run with the median rate
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repeat: u32,
    /// What is promised of our transactions [default: as `serve` chooses]
    #[arg(long, value_enum)]
    guarantee: Option<GuaranteeArgument>,
    /// When what is acknowledged is on disk. PostgreSQL's synchronous_commit is on under sync, and else off
    #[arg(long, value_enum, default_value_t = DurabilityArgument::Sync)]
    durability: DurabilityArgument,
    /// Our partitions [default: as `serve` chooses]
    #[arg(long, value_name = "N")]
    partitions: Option<NonZeroU16>,
    /// Write the results to this file (docs/schemas/pgbench.schema.json)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GuaranteeArgument {
    Serializable,
    Invariants,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DurabilityArgument {
    Sync,
    Batch,
    None,
}

/// The argument's name on the command line.
fn name_of(argument: impl ValueEnum) -> String {
    let value = argument.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// What the clients run.
enum Workload {
    BuiltIn(&'static str),
    NewOrder,
    File(PathBuf),
}

impl PgbenchArguments {
    fn workload(&self) -> Result<Workload, String> {
        Ok(match &*self.script {
            "tpcb" => Workload::BuiltIn("tpcb-like"),
            "select" => Workload::BuiltIn("select-only"),
            "new-order" => Workload::NewOrder,
            file if Path::new(file).is_file() => Workload::File(file.into()),
            other => {
                return Err(format!(
                    "error: --script: {other} is neither tpcb, select or new-order, nor a file"
                ));
            }
        })
    }

    fn scale(&self, workload: &Workload) -> u32 {
        let default = if let Workload::NewOrder = workload {
            2
        } else {
            10
        };
        self.scale.unwrap_or(default)
    }
}

/// A folder for temporary files, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let path = std::env::temp_dir().join(format!("anabranch-pgbench-{}", std::process::id()));
        let failed = |error| format!("error: cannot make the folder {}: {error}", path.display());
        std::fs::create_dir(&path).map_err(failed)?;
        Ok(Folder(path))
    }

    fn put(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.0.join(name);
        write_file(&path, text)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed stays in the system's folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `anabranch serve` in a process of its own, ended when dropped.
struct Serving {
    process: Child,
    target: Target,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// How long our server may take until it listens.
const START_MAX: Duration = Duration::from_secs(600);

/// Starts our server with a new data folder.
fn serve(
    arguments: &PgbenchArguments,
    workload: &Workload,
    folder: &Folder,
) -> Result<Serving, Box<dyn Error>> {
    let scale = arguments.scale(workload);
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("serve");
    let filling = match workload {
        Workload::NewOrder => {
            for (name, text) in FILES {
                let name = name.rsplit('/').next().unwrap_or(name);
                command.arg(folder.put(name, text)?);
            }
            format!("tpcc:{scale}")
        }
        Workload::BuiltIn(_) | Workload::File(_) => {
            command.arg(folder.put(SCHEMA.0, SCHEMA.1)?);
            format!("pgbench:{scale}")
        }
    };
    command
        .args(["--fill", &filling, "--listen", "127.0.0.1:0"])
        .arg("--data")
        .arg(folder.0.join("data"))
        .args(["--durability", &name_of(arguments.durability)]);
    if let Some(guarantee) = arguments.guarantee {
        command.args(["--guarantee", &name_of(guarantee)]);
    }
    if let Some(partitions) = arguments.partitions {
        command.args(["--partitions", &partitions.to_string()]);
    }
    let errors = folder.0.join("errors");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(&errors)?);
    let mut serving = Serving {
        process: command.spawn()?,
        target: Target {
            port: 0,
            user: "bench".to_owned(),
            database: DATABASE.to_owned(),
        },
    };
    let Some(output) = serving.process.stdout.take() else {
        return Err("error: our server has no output".into());
    };
    let mut output = BufReader::new(output);
    let mut line = String::new();
    let begun = Instant::now();
    while begun.elapsed() < START_MAX {
        line.clear();
        if output.read_line(&mut line)? == 0 {
            let reason = std::fs::read_to_string(&errors).unwrap_or_default();
            return Err(format!("error: our server has not started:\n{reason}").into());
        }
        let port = line
            .strip_prefix("Serving PostgreSQL's protocol on 127.0.0.1:")
            .and_then(|rest| rest.split(',').next()?.parse().ok());
        if let Some(port) = port {
            serving.target.port = port;
            // What it writes later is read, so that it can be written.
            std::thread::spawn(move || {
                let mut rest = Vec::new();
                let _ = output.read_to_end(&mut rest);
            });
            return Ok(serving);
        }
    }
    Err("error: our server is not ready".into())
}

/// Starts PostgreSQL with the same rows.
fn start_postgres(
    arguments: &PgbenchArguments,
    workload: &Workload,
    pgbench: &Pgbench,
) -> Result<(Server, Target), Box<dyn Error>> {
    let scale = arguments.scale(workload);
    let tpcc = Scale::specified(scale);
    let bytes = match workload {
        Workload::NewOrder => u64::from(scale).saturating_mul(tpcc.warehouse_bytes()),
        // 100,000 accounts, with their index.
        Workload::BuiltIn(_) | Workload::File(_) => u64::from(scale) << 24,
    };
    let mebibytes = u32::try_from(256 + (bytes >> 20)).unwrap_or(u32::MAX);
    let server = Server::start(Settings {
        shared_buffers_mib: mebibytes.min(4_096),
        connections_max: arguments.clients + 10,
        has_port: true,
        synchronous_commit: arguments.durability == DurabilityArgument::Sync,
        ..Settings::default()
    })
    .map_err(|error| format!("error: {error}"))?;
    let target = Target {
        port: server.port(),
        user: server.superuser().to_owned(),
        database: "postgres".to_owned(),
    };
    match workload {
        Workload::NewOrder => {
            let files = super::sources(None, &FILES)?;
            let compiled = application::compile(files)?;
            let mut client = server
                .connect()
                .map_err(|error| format!("error: {error}"))?;
            tpcc_on_postgres::declare(&mut client, compiled.catalog())?;
            tpcc_on_postgres::fill(&mut client, &tpcc, 1)?;
        }
        Workload::BuiltIn(_) | Workload::File(_) => {
            let filled = pgbench.initialize(&target, scale);
            filled.map_err(|error| format!("error: {error}"))?;
        }
    }
    Ok((server, target))
}

pub(super) fn run(arguments: &PgbenchArguments) -> Result<Verdict, Box<dyn Error>> {
    let workload = arguments.workload()?;
    check_outputs(&[("--json", arguments.json.as_deref())], &[])?;
    let pgbench = Pgbench::find().map_err(|error| format!("error: {error}"))?;
    let folder = Folder::new()?;
    let scale = arguments.scale(&workload);
    let script = match &workload {
        Workload::BuiltIn(name) => Script::BuiltIn(name),
        Workload::NewOrder => Script::File(write_new_order(&folder.0)?, scale),
        Workload::File(path) => Script::File(path.clone(), scale),
    };
    let load = Load {
        script,
        clients: arguments.clients,
        threads: arguments.threads.min(arguments.clients),
        seconds: arguments.seconds,
    };
    // PostgreSQL first: if it is missing, that is known at once.
    let rival = match arguments.versus {
        Some(Versus::Postgres) => Some(progress::steps("postgres", |step| {
            step("starting and filling it");
            start_postgres(arguments, &workload, &pgbench)
        })?),
        None => None,
    };
    let ours = progress::steps("anabranch", |step| {
        step("starting and filling it");
        serve(arguments, &workload, &folder)
    })?;
    let mut servers = vec![("anabranch".to_owned(), &ours.target, Vec::new())];
    if let Some((server, target)) = &rival {
        servers.push((server.version().to_owned(), target, Vec::new()));
    }
    // The first round warms up.
    for round in 0..=arguments.repeat {
        for (name, target, runs) in &mut servers {
            let measured = progress::steps(name, |step| {
                step(&format!("run {round} of {}", arguments.repeat));
                let warm_up = Load {
                    seconds: 1,
                    ..load.clone()
                };
                pgbench.run(target, if round == 0 { &warm_up } else { &load })
            });
            let measured = measured.map_err(|error| format!("error: {name}: {error}"))?;
            if round > 0 {
                runs.push(measured);
            }
        }
    }
    let measurements = servers
        .into_iter()
        .filter_map(|(name, _, runs)| Measurements::new(name, runs));
    report(arguments, scale, measurements.collect())
}

/// Prints the results, and writes them.
fn report(
    arguments: &PgbenchArguments,
    scale: u32,
    mut measurements: Vec<Measurements>,
) -> Result<Verdict, Box<dyn Error>> {
    if let [ours, other] = &mut *measurements {
        ours.ratio = Some(ours.median.transactions_per_s / other.median.transactions_per_s);
    }
    let heads = [
        "",
        "transactions/s",
        "lowest",
        "highest",
        "latency ms",
        "failed",
        "ratio",
    ];
    let mut table = Table::new(heads);
    for of in &measurements {
        let (low, high) = of.extremes();
        table.row([
            of.server.clone(),
            grouped(of.median.transactions_per_s),
            grouped(low),
            grouped(high),
            quantity(of.median.latency_ms),
            grouped(of.failed() as f64),
            of.ratio
                .map_or_else(String::new, |ratio| format!("{ratio:.2}")),
        ]);
    }
    if let Some(path) = &arguments.json {
        let outcome = serde_json::json!({
            "version": 1,
            "experiment": {
                "workload": "pgbench",
                "script": arguments.script,
                "scale": scale,
                "clients": arguments.clients,
                "threads": arguments.threads,
                "seconds": arguments.seconds,
                "repeat": arguments.repeat,
                "guarantee": arguments.guarantee.map(name_of),
                "durability": name_of(arguments.durability),
                "partitions": arguments.partitions,
            },
            "servers": measurements,
        });
        write_file(path, serde_json::to_string_pretty(&outcome)? + "\n")?;
    }
    say!(
        "{}, scale {scale}, {} clients, {} s, prepared; the median of {}\n\n{table}",
        arguments.script,
        arguments.clients,
        arguments.seconds,
        arguments.repeat
    )?;
    let ours = measurements.first();
    Ok(match ours.is_some_and(|ours| ours.failed() == 0) {
        true => Verdict::Fine,
        false => Verdict::Finding,
    })
}
