//! PostgreSQL's program `pgbench`: the client that measures a server over PostgreSQL's protocol.

use std::path::{Path, PathBuf};
use std::process::Command;

use anabranch_dbms::postgres::Installation;

/// What pgbench runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Script {
    /// Its built-in script of this name.
    BuiltIn(&'static str),
    /// A file, in which the variable `scale` has this value.
    File(PathBuf, u32),
}

/// Where a server listens, and what a client of it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The port of 127.0.0.1.
    pub port: u16,
    /// The user.
    pub user: String,
    /// The database.
    pub database: String,
}

/// How pgbench runs a script: always with prepared statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The script.
    pub script: Script,
    /// Connections, each with one open transaction.
    pub clients: u32,
    /// Threads of pgbench.
    pub threads: u32,
    /// For how long, in seconds.
    pub seconds: u32,
}

/// What pgbench reports of one run.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Measured {
    /// Committed transactions a second, without the time to connect.
    pub transactions_per_s: f64,
    /// The mean latency of a transaction, in milliseconds.
    pub latency_ms: f64,
    /// Transactions that committed.
    pub transactions: u64,
    /// Transactions that failed with a serialization failure or a deadlock.
    pub failed: u64,
}

/// The runs of one server.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Measurements {
    /// The server.
    pub server: String,
    /// The run with the median rate.
    #[serde(flatten)]
    pub median: Measured,
    /// Its rate divided by the other server's, once both are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// All runs, in their order.
    pub runs: Vec<Measured>,
}

impl Measurements {
    /// `None` without a run.
    pub fn new(server: String, runs: Vec<Measured>) -> Option<Measurements> {
        let mut sorted = runs.clone();
        sorted.sort_by(|a, b| a.transactions_per_s.total_cmp(&b.transactions_per_s));
        let median = *sorted.get(sorted.len() / 2)?;
        Some(Measurements {
            server,
            median,
            ratio: None,
            runs,
        })
    }

    /// The lowest and the highest rate.
    pub fn extremes(&self) -> (f64, f64) {
        let rates = self.runs.iter().map(|run| run.transactions_per_s);
        rates.fold((f64::INFINITY, 0.0), |(low, high), rate| {
            (rate.min(low), rate.max(high))
        })
    }

    /// The failed transactions of all runs.
    pub fn failed(&self) -> u64 {
        self.runs.iter().map(|run| run.failed).sum()
    }
}

/// Why pgbench gives no figures.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramError {
    /// It is not installed.
    NotFound,
    /// It cannot be started: the reason of the operating system.
    System(String),
    /// It has failed: its last lines.
    Failed(String),
    /// It has ended without a figure: what is missing.
    NoFigure(&'static str),
}

impl std::fmt::Display for ProgramError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProgramError::NotFound => f.write_str(
                "pgbench is neither in PATH nor beside an installed PostgreSQL; type: sudo apt-get install -y \
                 --no-install-recommends postgresql-contrib (or your system's like)",
            ),
            ProgramError::System(reason) => write!(f, "pgbench cannot be started: {reason}"),
            ProgramError::Failed(lines) => write!(f, "pgbench failed:\n{lines}"),
            ProgramError::NoFigure(what) => write!(f, "pgbench has not reported its {what}"),
        }
    }
}

impl std::error::Error for ProgramError {}

/// The program.
#[derive(Clone, Debug)]
pub struct Pgbench(PathBuf);

impl Pgbench {
    /// Finds it beside an installed PostgreSQL server, or else in PATH.
    ///
    /// # Errors
    /// When it is in neither place.
    pub fn find() -> Result<Pgbench, ProgramError> {
        let beside = Installation::find()
            .ok()
            .map(|found| found.program("pgbench"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let in_path = std::env::split_paths(&path).map(|folder| folder.join("pgbench"));
        let mut places = beside.into_iter().chain(in_path);
        places
            .find(|place| place.is_file())
            .map(Pgbench)
            .ok_or(ProgramError::NotFound)
    }

    fn command(&self, target: &Target) -> Command {
        let mut command = Command::new(&self.0);
        command
            .args(["-h", "127.0.0.1", "-p", &target.port.to_string()])
            .args(["-U", &target.user])
            .env("LC_ALL", "C")
            .stdin(std::process::Stdio::null());
        command
    }

    /// Creates and fills its tables.
    ///
    /// # Errors
    /// When the server refuses it.
    pub fn initialize(&self, target: &Target, scale: u32) -> Result<(), ProgramError> {
        let mut command = self.command(target);
        command.args(["-i", "-q", "-s", &scale.to_string(), &target.database]);
        output(command).map(|_| ())
    }

    /// Measures a server.
    ///
    /// # Errors
    /// When a client is refused, or a statement fails other than by a conflict.
    pub fn run(&self, target: &Target, load: &Load) -> Result<Measured, ProgramError> {
        let mut command = self.command(target);
        command
            .args(["-n", "-M", "prepared"])
            .args([
                "-c",
                &load.clients.to_string(),
                "-j",
                &load.threads.to_string(),
            ])
            .args(["-T", &load.seconds.to_string()]);
        match &load.script {
            Script::BuiltIn(name) => command.args(["-b", name]),
            Script::File(path, scale) => {
                command.arg("-f").arg(path).args(["-s", &scale.to_string()])
            }
        };
        command.arg(&target.database);
        measured(&output(command)?)
    }
}

/// Runs a command; returns what it writes to standard output.
fn output(mut command: Command) -> Result<String, ProgramError> {
    let output = command
        .output()
        .map_err(|error| ProgramError::System(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().collect();
    Err(ProgramError::Failed(
        lines[lines.len().saturating_sub(5)..].join("\n"),
    ))
}

/// Reads the report of a run.
fn measured(report: &str) -> Result<Measured, ProgramError> {
    let number = |head: &str| {
        let line = report.lines().find_map(|line| line.strip_prefix(head))?;
        line.split_whitespace().next()?.split('/').next()
    };
    let missing = ProgramError::NoFigure;
    let float = |head: &str| number(head)?.parse::<f64>().ok();
    let count = |head: &str| number(head)?.parse::<u64>().ok();
    Ok(Measured {
        transactions_per_s: float("tps = ").ok_or(missing("rate"))?,
        latency_ms: float("latency average = ").ok_or(missing("latency"))?,
        transactions: count("number of transactions actually processed: ")
            .ok_or(missing("number of transactions"))?,
        // Versions before 15 report none.
        failed: count("number of failed transactions: ").unwrap_or(0),
    })
}

/// The path of the script that calls TPC-C's New-Order, written into a folder: an order of ten lines at the customer's
/// warehouse. Items ascend, as the procedure demands.
///
/// # Errors
/// When it cannot be written.
pub fn write_new_order(folder: &Path) -> std::io::Result<PathBuf> {
    const LINES: u32 = 10;
    let mut script =
        String::from("\\set w random(1, :scale)\n\\set d random(1, 10)\n\\set c random(1, 3000)\n");
    for line in 0..LINES {
        let (low, high) = (line * 10_000 + 1, (line + 1) * 10_000);
        script += &format!("\\set i{line} random({low}, {high})\n\\set q{line} random(1, 10)\n");
    }
    let list = |name: &str| {
        let each: Vec<String> = (0..LINES).map(|line| format!(":{name}{line}")).collect();
        format!("ARRAY[{}]::integer[]", each.join(", "))
    };
    let home = vec![":w"; LINES as usize].join(", ");
    script += &format!(
        "SELECT order_id FROM new_order(:w, :d, :c, now()::timestamp, {}, ARRAY[{home}]::integer[], {});\n",
        list("i"),
        list("q")
    );
    let path = folder.join("new-order.sql");
    std::fs::write(&path, script)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "pgbench (15.14 (Debian 15.14-0+deb12u1))
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 10
query mode: prepared
number of clients: 8
number of threads: 2
maximum number of tries: 1
duration: 4 s
number of transactions actually processed: 8487
number of failed transactions: 12 (0.141%)
latency average = 3.771 ms
initial connection time = 8.109 ms
tps = 2121.665664 (without initial connection time)
";

    #[test]
    fn a_report_is_read() {
        let expected = Measured {
            transactions_per_s: 2121.665664,
            latency_ms: 3.771,
            transactions: 8487,
            failed: 12,
        };
        assert_eq!(measured(REPORT), Ok(expected));
        // With a limit on transactions, both numbers are on the line; PostgreSQL 14 has no line of failed ones.
        let older = REPORT.replace(": 8487", ": 80/80");
        let older = older.replace("number of failed transactions: 12 (0.141%)\n", "");
        let read = measured(&older).expect("all figures are there");
        assert_eq!((read.transactions, read.failed), (80, 0));
    }

    #[test]
    fn a_report_without_a_rate_is_none() {
        let cut = &REPORT[..REPORT.len() - 60];
        assert_eq!(measured(cut), Err(ProgramError::NoFigure("rate")));
    }
}
