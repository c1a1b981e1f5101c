//! Scalable Atomic Visibility with RAMP Transactions (Bailis et al., TODS 41(3), 2016): Figures 4, 5 and
//! 6, the table of blocked writes and §6.2's latencies, beside what the paper prints.
//!
//! What one machine can show is *measured*, on the embedded cluster: the default workload, and all that
//! Figure 5 varies. What needs servers of the paper's size and number, or a network, is *simulated*, as
//! for [`super::coordination_avoidance`]: the engine's nodes run unchanged in virtual time, and each of
//! their steps occupies a core for as long as steps of its kind have taken the real code. §6.2 computes
//! from distributions that others fit, and so do we.
//!
//! * `published`: what the paper prints.
//! * `default`: its default workload.
//! * `blocked`: §5.3, the table of blocked writes.
//! * `clients`: Figure 4, more and more clients.
//! * `conditions`: Figure 5, what else varies.
//! * `scaling`: Figure 6, up to two hundred servers.
//! * `quorum`: §6.2.
//!
//! **The protocols.** RAMP-F, RAMP-S, RAMP-H and NWNR are ours of these names; LWLR is our two-phase
//! locking, LWSR and LWNR the same with short read locks and with none. They differ from the paper's in that they take all the
//! locks of a transaction on one server with one message. **The server and the network** are those of
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

use self::measured::{Asked, Measured, Pace, Point};
use super::simulation::{Job, Results, SimulationError};
use crate::application::ApplicationError;
use crate::calibrate::{Calibration, Name};
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
    /// All of them, as the paper has them.
    pub const ALL: [Figure; 6] = [
        Figure::Default,
        Figure::Clients,
        Figure::Conditions,
        Figure::Blocked,
        Figure::Scaling,
        Figure::Quorum,
    ];

    /// The simulated runs that it needs.
    fn jobs(self, effort: &Effort) -> Vec<Job> {
        match self {
            Figure::Clients => clients::jobs(effort),
            Figure::Scaling => scaling::jobs(effort),
            Figure::Blocked => blocked::jobs(effort),
            Figure::Default | Figure::Conditions | Figure::Quorum => Vec::new(),
        }
    }

    /// The points that it needs measured.
    fn points(self, effort: &Effort) -> Vec<Asked> {
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

/// What is measured.
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

/// What is simulated: what the calibration has costs of.
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
    /// How the default workload is measured, and how all else is.
    long: Pace,
    short: Pace,
    /// The points of Figure 5's axes.
    reads: &'static [u8],
    lengths: &'static [usize],
    values: &'static [usize],
    items: &'static [u64],
    skews: &'static [u8],
    /// Clients of Figure 4, in all.
    clients: &'static [u32],
    /// Items of Figure 4, in all.
    items_all: u32,
    /// Transactions that are counted in each of its runs, and the virtual time that they may take.
    transactions: u64,
    millis_max: u64,
    /// Servers of Figure 6.
    servers: &'static [u16],
    /// Transactions that are counted there, a server.
    transactions_each: u64,
    /// Draws from each distribution of §6.2.
    draws: u32,
}

impl Effort {
    /// As published: some minutes on two cores.
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

/// What decides a reproduction.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which figures.
    pub figures: Vec<Figure>,
    /// How much is measured and simulated.
    pub effort: Effort,
    /// What simulated steps cost.
    pub calibration: Calibration,
    /// What chance begins with.
    pub seed: u64,
    /// On how many threads to simulate. What is found does not depend on it.
    pub threads: NonZeroUsize,
}

/// Why the figures could not be found again.
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
    /// An answer of a measured run cannot be.
    #[error("error: a run under {protocol} went wrong: {wrong}")]
    Wrong {
        /// Under which protocol.
        protocol: &'static str,
        /// What was found.
        wrong: String,
    },
}

/// Finds the figures again; `progress` is told how far it is.
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
    // One after the other: what is measured wants the machine for itself.
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
         numbers are those that the paper's text prints; of its curves nothing is read off. LWLR is our \
         two-phase locking, LWSR and LWNR the same with short read locks and with none."
            .into(),
        format!(
            "What is said to be measured was measured on this machine, on the embedded cluster. What is said \
             to be simulated ran in virtual time: the real code, each of whose steps occupies a core for as \
             long as it took on a real one, by the {}. There a server of Figure 4 has {} cores that share its \
             store, the cores of the paper's cr1.8xlarge; caches and memory bandwidth are not shared; the \
             network takes 0.54 ms there and back in the mean.",
            calibration.name_of(Name::Items),
            published::CORES,
        ),
        "E-PCI and LWNR are measured and not simulated: the calibration has no costs of them.".into(),
        format!(
            "Effort: {}. Seed: {seed}. Simulated and drawn numbers are the same for the same seed, effort \
             and calibration; measured ones are this machine's of the moment.",
            effort.name
        ),
    ]
}

/// What the paper calls a protocol.
fn called(protocol: &'static str) -> &'static str {
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

/// Which colour runs of a protocol have.
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

/// A measured run for the report's appendix.
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
