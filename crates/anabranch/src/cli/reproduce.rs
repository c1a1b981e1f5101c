//! `anabranch reproduce …`

use std::error::Error;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anabranch_bench::calibrate::Calibration;
use anabranch_bench::reproduce::coordination_avoidance::{Effort, Figure, Settings, reproduce};
use clap::{Args, ValueEnum};

use super::Verdict;
use super::output::say;
use super::progress::steps;

#[derive(Debug, Args)]
pub(crate) struct ReproduceArguments {
    /// Whose figures
    paper: Paper,
    /// Fewer points and shorter runs
    #[arg(long)]
    quick: bool,
    /// Which of its figures, separated by commas; all without it
    #[arg(long, value_name = "FIGURE", value_delimiter = ',')]
    figure: Vec<FigureArgument>,
    /// The folder of the report: index.html, report.json (docs/schemas/reproduce.schema.json), and each
    /// chart as SVG and PNG; the paper's name without it
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// What steps cost (anabranch calibrate); one is built in
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// The seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How many runs are made at a time, which changes none; as many as there are cores without it
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

/// Papers whose figures can be found again.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Paper {
    /// Bailis et al.: Coordination Avoidance in Database Systems
    CoordinationAvoidance,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FigureArgument {
    /// Transactions of one to eight writes
    #[value(name = "1")]
    One,
    /// The bounds of atomic commitment
    #[value(name = "2")]
    Two,
    /// New-Orders under load, contention and distribution
    #[value(name = "5")]
    Five,
    /// New-Orders on up to two hundred servers
    #[value(name = "6")]
    Six,
    /// The table of code paths
    CodePaths,
}

impl FigureArgument {
    fn figure(self) -> Figure {
        match self {
            FigureArgument::One => Figure::Microbenchmark,
            FigureArgument::Two => Figure::Commitment,
            FigureArgument::Five => Figure::NewOrder,
            FigureArgument::Six => Figure::Scaling,
            FigureArgument::CodePaths => Figure::CodePaths,
        }
    }
}

fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

pub(crate) fn run(arguments: &ReproduceArguments) -> Result<Verdict, Box<dyn Error>> {
    let calibration = match &arguments.calibration {
        Some(path) => Calibration::read(path).map_err(|error| format!("error: {error}"))?,
        None => Calibration::built_in(),
    };
    let Paper::CoordinationAvoidance = arguments.paper;
    let mut figures: Vec<Figure> = arguments.figure.iter().map(|f| f.figure()).collect();
    figures.sort_unstable();
    figures.dedup();
    if figures.is_empty() {
        figures = Figure::ALL.to_vec();
    }
    let settings = Settings {
        figures,
        effort: match arguments.quick {
            true => Effort::QUICK,
            false => Effort::FULL,
        },
        calibration,
        seed: arguments.seed,
        threads: arguments.threads.unwrap_or_else(cores),
    };
    let report = steps("simulating", |progress| reproduce(&settings, progress));
    let report = report.map_err(|error| format!("error: {error}"))?;
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
