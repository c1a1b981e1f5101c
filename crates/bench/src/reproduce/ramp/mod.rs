//! Scalable Atomic Visibility with RAMP Transactions (Bailis et al., TODS 41(3), 2016): Figures 4, 5 and 6,
//! the table of blocked writes and §6.2's latencies, beside the published numbers.
//!
//! The default workload and all that Figure 5 varies are *measured*, on the embedded cluster. Figures that need
//! servers of the paper's size and number, or a network, are *simulated*, as for
//! [`super::coordination_avoidance`]: the engine's nodes run unchanged in virtual time, and each step occupies
//! a core for as long as steps of its kind took on a real one. §6.2 is computed from published distributions,
//! in the paper and here.
//!
//! * `published`: the paper's numbers.
//! * `default`: its default workload.
//! * `blocked`: §5.3, the table of blocked writes.
//! * `clients`: Figure 4, more and more clients.
//! * `conditions`: Figure 5, which varies all else.
//! * `scaling`: Figure 6, up to two hundred servers.
//! * `quorum`: §6.2.
//!
//! **The protocols.** RAMP-F, RAMP-S, RAMP-H and NWNR are ours of these names. LWLR is our two-phase locking;
//! LWSR and LWNR are the same with short read locks and with none. Unlike the paper's, they take all locks of a
//! transaction on one server with one message. **The server and the network** are those of
//! [`super::coordination_avoidance`].

mod blocked;
mod clients;
mod conditions;
mod default;
mod measured;
mod published;
mod quorum;
mod scaling;

use std::num::NonZeroUsize;

use anabranch_sim::ProtocolName;

use self::measured::{Measured, Pace, Point, Request};
use super::simulation::{Job, Results, SimulationError};
use crate::application::ApplicationError;
use crate::calibrate::{Calibration, ExperimentName};
use crate::embedded::RunError;
use crate::experiment::{ExperimentError, ProtocolChoice};
use crate::figure::{Origin, Report, RunLine, Section, Tone};
use crate::fill::FillError;
use crate::outcome::Run;

/// A figure, table or comparison of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// The default workload of §5.1.
    Default,
    /// Figure 4.
    Clients,
    /// Figure 5.
    Conditions,
    /// The table of §5.3.
    Blocked,
    /// Figure 6.
    Scaling,
    /// §6.2.
    Quorum,
}

impl Figure {
    /// All figures in the paper's order.
    pub const ALL: [Figure; 6] = [
        Figure::Default,
        Figure::Clients,
        Figure::Conditions,
        Figure::Blocked,
        Figure::Scaling,
        Figure::Quorum,
    ];

    /// The simulated runs that the figure needs.
    fn jobs(self, effort: &Effort) -> Vec<Job> {
        match self {
            Figure::Clients => clients::jobs(effort),
            Figure::Scaling => scaling::jobs(effort),
            Figure::Blocked => blocked::jobs(effort),
            Figure::Default | Figure::Conditions | Figure::Quorum => Vec::new(),
        }
    }

    /// The measured points that the figure needs.
    fn points(self, effort: &Effort) -> Vec<Request> {
        match self {
            Figure::Default => default::points(effort),
            Figure::Conditions => conditions::points(effort),
            Figure::Blocked => blocked::points(effort),
            Figure::Clients | Figure::Scaling | Figure::Quorum => Vec::new(),
        }
    }

    fn section(self, settings: &Settings, results: &Results, measured: &Measured) -> Section {
        let effort = &settings.effort;
        match self {
            Figure::Default => default::section(effort, measured),
            Figure::Clients => clients::section(effort, results),
            Figure::Conditions => conditions::section(effort, measured),
            Figure::Blocked => blocked::section(effort, results, measured),
            Figure::Scaling => scaling::section(effort, results),
            Figure::Quorum => quorum::section(effort.draws, settings.seed),
        }
    }
}

/// The protocols that are measured.
const MEASURED: [ProtocolChoice; 8] = [
    ProtocolChoice::RampFast,
    ProtocolChoice::RampHybrid,
    ProtocolChoice::RampSmall,
    ProtocolChoice::Nwnr,
    ProtocolChoice::EPci,
    ProtocolChoice::Lwnr,
    ProtocolChoice::LockingShort,
    ProtocolChoice::Locking,
];

/// The protocols that are simulated: those with costs in the calibration.
const SIMULATED: [ProtocolName; 6] = [
    ProtocolName::RampFast,
    ProtocolName::RampHybrid,
    ProtocolName::RampSmall,
    ProtocolName::Nwnr,
    ProtocolName::LockingShort,
    ProtocolName::Locking,
];

/// How much is measured and simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Effort {
    name: &'static str,
    /// The runs of the default workload and of blocked writes, and of Figure 5.
    long: Pace,
    short: Pace,
    /// The points of Figure 5's axes.
    reads: &'static [u8],
    lengths: &'static [usize],
    values: &'static [usize],
    items: &'static [u64],
    skews: &'static [u8],
    /// Total numbers of clients in Figure 4.
    clients: &'static [u32],
    /// Total number of items in Figure 4.
    items_all: u32,
    /// Transactions to count in each run of Figure 4, and the most virtual milliseconds.
    transactions: u64,
    millis_max: u64,
    /// Numbers of servers in Figure 6.
    servers: &'static [u16],
    /// Transactions to count for each server in Figure 6.
    transactions_each: u64,
    /// Draws from each distribution of §6.2.
    draws: u32,
}

impl Effort {
    /// All points: some minutes on two cores.
    pub const FULL: Effort = Effort {
        name: "full",
        long: Pace {
            millis: 1_000,
            warmup_millis: 250,
            rounds: 7,
        },
        short: Pace {
            millis: 200,
            warmup_millis: 100,
            rounds: 5,
        },
        reads: &[0, 25, 50, 75, 95, 100],
        lengths: &[2, 4, 8, 16, 32, 64, 128],
        values: &[1, 100, 10_000, 100_000],
        items: &[1_000, 10_000, 100_000, 1_000_000],
        skews: &[0, 50, 80, 90, 99],
        clients: &[50, 500, 2_000, 5_000, 10_000],
        items_all: 1_000_000,
        transactions: 200_000,
        millis_max: 2_000,
        servers: &[10, 25, 50, 100, 200],
        transactions_each: 1_500,
        draws: 1_000_000,
    };

    /// The same shapes from fewer points and shorter runs.
    pub const QUICK: Effort = Effort {
        name: "quick",
        long: Pace {
            millis: 300,
            warmup_millis: 100,
            rounds: 5,
        },
        short: Pace {
            millis: 200,
            warmup_millis: 50,
            rounds: 1,
        },
        reads: &[0, 50, 100],
        lengths: &[2, 32, 128],
        values: &[1, 10_000],
        items: &[1_000, 100_000],
        skews: &[0, 99],
        clients: &[50, 5_000, 10_000],
        transactions: 40_000,
        millis_max: 500,
        servers: &[25, 100],
        transactions_each: 1_200,
        draws: 200_000,
        ..Effort::FULL
    };
}

/// Settings of a reproduction.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The figures to reproduce.
    pub figures: Vec<Figure>,
    /// How much is measured and simulated.
    pub effort: Effort,
    /// The costs of simulated steps.
    pub calibration: Calibration,
    /// The seed of all random draws.
    pub seed: u64,
    /// How many simulated runs are made at a time. Results do not depend on it.
    pub threads: NonZeroUsize,
}

/// Why the figures could not be reproduced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReproduceError {
    /// A run could not be simulated.
    #[error("error: {0}")]
    Simulation(#[from] SimulationError),
    /// A run could not be measured.
    #[error(transparent)]
    Run(#[from] RunError),
    /// An experiment was refused.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The application does not compile.
    #[error(transparent)]
    Application(#[from] ApplicationError),
    /// A database was not filled.
    #[error(transparent)]
    Fill(#[from] FillError),
    /// A measured run gave an answer that its workload does not permit.
    #[error("error: a run under {protocol} gave a wrong answer: {wrong}")]
    Wrong {
        /// The protocol.
        protocol: &'static str,
        /// The condition that does not hold.
        wrong: String,
    },
}

/// Reproduces the figures, and reports to `progress`.
///
/// # Errors
/// When a run cannot be measured or simulated.
pub fn reproduce(
    settings: &Settings,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, ReproduceError> {
    let Settings {
        figures,
        effort,
        calibration,
        seed,
        threads,
    } = settings;
    // Measured before simulated: measured runs need the machine to themselves.
    let points = figures.iter().flat_map(|figure| figure.points(effort));
    let measured = Measured::run(points, *seed, progress)?;
    let jobs = figures.iter().flat_map(|figure| figure.jobs(effort));
    let results = Results::run(jobs, calibration, *seed, *threads, progress)?;
    progress("drawing");
    let sections = figures
        .iter()
        .map(|figure| figure.section(settings, &results, &measured));
    Ok(Report {
        name: "ramp".into(),
        title: "Scalable Atomic Visibility with RAMP Transactions, reproduced".into(),
        preface: preface(settings),
        sections: sections.collect(),
    })
}

fn preface(settings: &Settings) -> Vec<String> {
    let Settings {
        effort,
        calibration,
        seed,
        ..
    } = settings;
    vec![
        "Figures 4, 5 and 6, the table of §5.3 and §6.2's latencies of P. Bailis, A. Fekete, A. Ghodsi, J. M. Hellerstein, \
         I. Stoica: Scalable Atomic Visibility with RAMP Transactions, ACM TODS 41(3), 2016. Published \
         numbers are those in the paper's text; none is read off its curves. LWLR is our two-phase locking; \
         LWSR and LWNR are the same with short read locks and with none."
            .into(),
        format!(
            "Measured numbers are of this machine's embedded cluster. Simulated ones are of the real code in \
             virtual time: each step occupies a core for as long as it took on a real one, by the {}. A server \
             of Figure 4 has {} cores that share its store, the cores of the paper's cr1.8xlarge; caches and \
             memory bandwidth are not shared. A round trip takes 0.54 ms in the mean.",
            calibration.name_of(ExperimentName::Items),
            published::CORES,
        ),
        "E-PCI and LWNR are measured and not simulated: the calibration has no costs for them.".into(),
        format!(
            "Effort: {}. Seed: {seed}. Simulated and drawn numbers are the same for the same seed, effort \
             and calibration; measured ones differ with the machine and the moment.",
            effort.name
        ),
    ]
}

/// The paper's name for a protocol.
fn label(protocol: &'static str) -> &'static str {
    match protocol {
        "ramp-fast" => "RAMP-F",
        "ramp-hybrid" => "RAMP-H",
        "ramp-small" => "RAMP-S",
        "nwnr" => "NWNR",
        "locking" => "LWLR",
        "locking-short" => "LWSR",
        "lwnr" => "LWNR",
        "e-pci" => "E-PCI",
        other => other,
    }
}

/// The colour of a protocol's runs.
fn tone(protocol: &str) -> Tone {
    match protocol {
        "ramp-fast" => Tone::Avoiding,
        "ramp-hybrid" => Tone::AvoidingHybrid,
        "ramp-small" => Tone::AvoidingSmall,
        "nwnr" => Tone::Unprotected,
        "locking" => Tone::Locking,
        "locking-short" => Tone::LockingShort,
        "lwnr" => Tone::LockingWrites,
        "e-pci" => Tone::Checking,
        _ => Tone::Neutral,
    }
}

/// Lists a measured run in the report's table of runs.
fn measured_run(what: String, point: Point, protocol: ProtocolChoice, run: &Run) -> RunLine {
    let retried: u64 = run.aborts.values().sum();
    RunLine {
        what,
        origin: Origin::Measured,
        protocol: protocol.name(),
        servers: measured::PARTITIONS,
        clients: point.clients as u32,
        committed: run.transactions,
        per_second: run.transactions_per_s,
        mean_ms: run.latency_ms.mean,
        p99_ms: run.latency_ms.p99,
        utilization: None,
        messages: run.messages_per_transaction.unwrap_or_default(),
        retries: retried as f64 / run.transactions.max(1) as f64,
        lock_wait_ms: run.blocked_ms_per_transaction.unwrap_or_default(),
        guessed: None,
    }
}

#[cfg(test)]
mod tests;
