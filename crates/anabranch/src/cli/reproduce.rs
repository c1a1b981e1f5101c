//! `anabranch reproduce …`

use std::error::Error;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anabranch_bench::calibrate::Calibration;
use anabranch_bench::figure::Report;
use anabranch_bench::reproduce::{alvin, coordination_avoidance, operation_partitioning, ramp};
use clap::{Args, ValueEnum};

use super::Verdict;
use super::output::say;
use super::progress::steps;

#[derive(Debug, Args)]
pub(crate) struct ReproduceArguments {
    /// The paper
    paper: Paper,
    /// Run fewer points, for a shorter time
    #[arg(long)]
    quick: bool,
    /// Figures of the paper, separated by commas. Of coordination-avoidance: 1, 2, 5, 6, code-paths; of ramp: default,
    /// 4, 5, blocked, 6, quorums; of operation-partitioning: table-1, 3, table-3,
    /// table-3-measured, 4, 5, 5-measured, 6; of alvin: 1a, 1b, 2a, 2b, 3, commit, certification, threads [default: all]
    #[arg(long, value_name = "FIGURE", value_delimiter = ',')]
    figure: Vec<String>,
    /// The folder of the report: index.html, report.json (docs/schemas/reproduce.schema.json), and each chart as SVG
    /// and PNG [default: the paper's name]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// A calibration file (anabranch calibrate) [default: the built-in calibration]
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// The seed of all runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The number of runs at a time, which does not affect their results [default: the number of cores]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

/// The papers whose figures can be reproduced.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Paper {
    /// Bailis et al.: Coordination Avoidance in Database Systems
    CoordinationAvoidance,
    /// Bailis et al.: Scalable Atomic Visibility with RAMP Transactions
    Ramp,
    /// Saissi et al.: Scaling Out ACID Applications with Operation Partitioning
    OperationPartitioning,
    /// Turcu et al.: Be General and Don't Give Up Consistency in Geo-Replicated Transactional Systems
    Alvin,
}

/// The named figures of a paper, each once, in the paper's order; all if none is named.
fn figures<F: Copy>(asked: &[String], all: &[(&str, F)]) -> Result<Vec<F>, String> {
    if let Some(unknown) = asked
        .iter()
        .find(|name| all.iter().all(|(known, _)| name != known))
    {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        return Err(format!(
            "error: --figure: the paper has no figure \"{unknown}\"; it has {}",
            names.join(", ")
        ));
    }
    let chosen = all
        .iter()
        .filter(|(known, _)| asked.is_empty() || asked.iter().any(|name| name == known));
    Ok(chosen.map(|(_, figure)| *figure).collect())
}

fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

fn coordination_avoidance(
    arguments: &ReproduceArguments,
    calibration: Calibration,
) -> Result<Report, Box<dyn Error>> {
    use coordination_avoidance::{Effort, Figure, Settings, reproduce};
    let settings = Settings {
        figures: figures(
            &arguments.figure,
            &[
                ("1", Figure::Microbenchmark),
                ("2", Figure::Commitment),
                ("5", Figure::NewOrder),
                ("code-paths", Figure::CodePaths),
                ("6", Figure::Scaling),
            ],
        )?,
        effort: match arguments.quick {
            true => Effort::QUICK,
            false => Effort::FULL,
        },
        calibration,
        seed: arguments.seed,
        threads: arguments.threads.unwrap_or_else(cores),
    };
    let report = steps("simulating", |progress| reproduce(&settings, progress));
    Ok(report.map_err(|error| format!("error: {error}"))?)
}

fn ramp(
    arguments: &ReproduceArguments,
    calibration: Calibration,
) -> Result<Report, Box<dyn Error>> {
    use ramp::{Effort, Figure, Settings, reproduce};
    let settings = Settings {
        figures: figures(
            &arguments.figure,
            &[
                ("default", Figure::Default),
                ("4", Figure::Clients),
                ("5", Figure::Conditions),
                ("blocked", Figure::Blocked),
                ("6", Figure::Scaling),
                ("quorums", Figure::Quorum),
            ],
        )?,
        effort: match arguments.quick {
            true => Effort::QUICK,
            false => Effort::FULL,
        },
        calibration,
        seed: arguments.seed,
        threads: arguments.threads.unwrap_or_else(cores),
    };
    Ok(steps("reproducing", |progress| {
        reproduce(&settings, progress)
    })?)
}

fn operation_partitioning(arguments: &ReproduceArguments) -> Result<Report, Box<dyn Error>> {
    use operation_partitioning::{Effort, Figure, Settings, reproduce};
    if arguments.calibration.is_some() {
        return Err("error: --calibration: the figures of operation-partitioning use no calibration of the engine; leave it out".into());
    }
    let settings = Settings {
        figures: figures(
            &arguments.figure,
            &[
                ("table-1", Figure::Classes),
                ("3", Figure::OneSite),
                ("table-3", Figure::Latency),
                ("table-3-measured", Figure::LatencyMeasured),
                ("4", Figure::Sites),
                ("5", Figure::LocalShare),
                ("5-measured", Figure::LocalShareMeasured),
                ("6", Figure::LocalShareLatency),
            ],
        )?,
        effort: match arguments.quick {
            true => Effort::QUICK,
            false => Effort::FULL,
        },
        seed: arguments.seed,
        threads: arguments.threads.unwrap_or_else(cores),
        program: std::env::current_exe()?,
    };
    Ok(steps("reproducing", |progress| {
        reproduce(&settings, progress)
    })?)
}

fn alvin(arguments: &ReproduceArguments) -> Result<Report, Box<dyn Error>> {
    use alvin::{Effort, Figure, Settings, reproduce};
    if arguments.calibration.is_some() {
        return Err("error: --calibration: the figures of alvin have costs of sites, which no calibration has; leave it out".into());
    }
    let settings = Settings {
        figures: figures(
            &arguments.figure,
            &[
                ("1a", Figure::WriteIntensive),
                ("1b", Figure::ReadDominated),
                ("2a", Figure::Clients),
                ("2b", Figure::FastDecisions),
                ("3", Figure::Bank),
                ("commit", Figure::Commit),
                ("certification", Figure::Certification),
                ("threads", Figure::Threads),
            ],
        )?,
        effort: match arguments.quick {
            true => Effort::QUICK,
            false => Effort::FULL,
        },
        seed: arguments.seed,
        threads: arguments.threads.unwrap_or_else(cores),
    };
    Ok(steps("reproducing", |progress| {
        reproduce(&settings, progress)
    })?)
}

pub(crate) fn run(arguments: &ReproduceArguments) -> Result<Verdict, Box<dyn Error>> {
    let calibration = match &arguments.calibration {
        Some(path) => Calibration::read(path).map_err(|error| format!("error: {error}"))?,
        None => Calibration::built_in(),
    };
    let report = match arguments.paper {
        Paper::CoordinationAvoidance => coordination_avoidance(arguments, calibration)?,
        Paper::Ramp => ramp(arguments, calibration)?,
        Paper::OperationPartitioning => operation_partitioning(arguments)?,
        Paper::Alvin => alvin(arguments)?,
    };
    let folder = arguments.out.clone();
    let folder = folder.unwrap_or_else(|| PathBuf::from(&report.name));
    let page = report
        .write(&folder)
        .map_err(|error| format!("error: {error}"))?;
    say!("{}\nwritten to {}\n", report.text(), page.display())?;
    Ok(if report.is_met() {
        Verdict::Fine
    } else {
        Verdict::Finding
    })
}
