//! Coordination Avoidance in Database Systems (Bailis et al., VLDB 2015): Figures 1, 2, 5 and 6 and
//! the table of code paths, beside what the paper prints.
//!
//! What the paper measured on eight to two hundred servers of Amazon EC2 is *simulated* here: the
//! engine's nodes run unchanged in virtual time, and each of their steps occupies one of the server's
//! cores for as long as steps of its kind have taken the real code ([`crate::calibrate`],
//! [`anabranch_sim::cost`]).
//!
//! * `published`: what the paper prints.
//! * `microbenchmark`: Figure 1, transactions of one to eight writes.
//! * `commitment`: Figure 2, the bounds of atomic commitment (computed and drawn, not simulated).
//! * `new_order`: Figure 5, New-Orders under load, contention and distribution.
//! * `code_paths`: §6.2's table.
//! * `scaling`: Figure 6, up to two hundred servers.
//!
//! **The server.** One node with 16 cores that share its store, as the threads of the paper's prototype
//! do; each core is as fast as the calibration's. Our embedded cluster gives each partition to one
//! thread instead: it would run 16 nodes on such a server.
//!
//! **The network.** Two messages, there and back, take as long in the mean as an exchange between two
//! servers took in the trace behind the paper's Figure 2a ([`super::atomic_commit::LAN`]): 0.54 ms. How
//! much depends on it is shown beside Figure 5.
//!
//! **What is smaller than the paper's.** Runs are cut off after a number of transactions instead of two
//! minutes; a district has 30 customers instead of 3,000; and where many warehouses would not fit into
//! this machine's memory, they have fewer items. What steps cost was calibrated at full size.

mod code_paths;
mod commitment;
mod microbenchmark;
mod new_order;
mod published;
mod scaling;

use std::num::NonZeroUsize;

use anabranch_sim::ProtocolName;

use super::simulation::{Job, MEDIAN_ROUND_TRIP_MICROS, Results, SimulationError, run_line};
use crate::calibrate::Calibration;
use crate::figure::{Report, Section, Tone};

/// A figure or table of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Figure 1.
    Microbenchmark,
    /// Figure 2.
    Commitment,
    /// Figure 5.
    NewOrder,
    /// The table of §6.2.
    CodePaths,
    /// Figure 6.
    Scaling,
}

impl Figure {
    /// All of them, as the paper has them.
    pub const ALL: [Figure; 5] = [
        Figure::Microbenchmark,
        Figure::Commitment,
        Figure::NewOrder,
        Figure::CodePaths,
        Figure::Scaling,
    ];

    /// The runs that it needs.
    fn jobs(self, effort: &Effort) -> Vec<Job> {
        match self {
            Figure::Microbenchmark => microbenchmark::jobs(effort),
            Figure::Commitment => Vec::new(),
            Figure::NewOrder => new_order::jobs(effort),
            Figure::CodePaths => code_paths::jobs(effort),
            Figure::Scaling => scaling::jobs(effort),
        }
    }

    fn section(self, settings: &Settings, results: &Results) -> Section {
        let effort = &settings.effort;
        match self {
            Figure::Microbenchmark => microbenchmark::section(effort, results),
            Figure::Commitment => commitment::section(effort, settings.seed),
            Figure::NewOrder => new_order::section(effort, results),
            Figure::CodePaths => code_paths::section(effort, &settings.calibration, results),
            Figure::Scaling => scaling::section(effort, results),
        }
    }
}

/// How much is simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Its name.
    pub name: &'static str,
    /// Transactions that are counted in each run of TPC-C on eight servers, without locks and with. Half
    /// as many come before them: enough that what is distributed has come to its end as often as what is
    /// not.
    orders: [u64; 2],
    /// Without locks, so many transactions of each client are counted at least: many clients that begin
    /// together stay in step for their first few calls, and servers stand idle between their waves.
    calls_each: u64,
    /// Items, where there is a warehouse a server.
    items: u32,
    /// Clients a server: the points of the load's axis.
    loads: &'static [u32],
    /// Clients a server, of which those count with whom it does most: without locks, with locks, and
    /// with locks on several warehouses.
    clients: [&'static [u32]; 3],
    /// The same without locks where answers take long: much is distributed, or the network is slow.
    clients_waiting: &'static [u32],
    /// Warehouses a server and items: the points of the contention's axis.
    warehouses: &'static [(u16, u32)],
    /// Percent distributed.
    distributed: &'static [u8],
    /// Microseconds from server to server and back.
    round_trips: &'static [u32],
    /// Servers.
    servers: &'static [u16],
    /// Cores of each.
    cores: u16,
    /// Cores of each while servers grow in number, and their clients.
    cores_each: u16,
    clients_each: u32,
    /// Transactions a server that are counted while servers grow in number.
    orders_each: u64,
    /// Items a warehouse while servers grow in number.
    items_each: u32,
    /// Transactions that are counted in each run of the microbenchmark.
    writes: u64,
    /// Clients a server of the microbenchmark for transactions at home.
    writers: u32,
    /// The same for distributed ones, of which those count with whom it does most: without locks, and
    /// with.
    writers_distributed: [&'static [u32]; 2],
    /// Writes of a transaction.
    spans: &'static [usize],
    /// Commits drawn for each bound.
    commits: u32,
}

impl Effort {
    /// As published: some minutes on two cores.
    pub const FULL: Effort = Effort {
        name: "full",
        orders: [64_000, 20_000],
        calls_each: 8,
        items: 100_000,
        loads: &[2, 8, 16, 32, 48, 64, 128, 256, 512, 1_024],
        clients_waiting: &[3_072],
        clients: [&[512], &[16, 32, 48, 64, 128], &[64, 256, 1_024]],
        warehouses: &[(1, 100_000), (4, 50_000), (16, 20_000), (64, 6_000)],
        distributed: &[0, 10, 25, 50, 100],
        round_trips: &[100, 250, MEDIAN_ROUND_TRIP_MICROS, 1_000, 2_000],
        servers: &[8, 25, 50, 100, 150, 200],
        cores: published::CORES,
        cores_each: 2,
        clients_each: 256,
        orders_each: 1_200,
        items_each: 5_000,
        writes: 80_000,
        writers: 4_096,
        writers_distributed: [&[64], &[2, 16, 64]],
        spans: &[1, 2, 3, 4, 5, 6, 7, 8],
        commits: 200_000,
    };

    /// The same shapes from fewer points and shorter runs.
    pub const QUICK: Effort = Effort {
        name: "quick",
        orders: [20_000, 8_000],
        calls_each: 3,
        items: 20_000,
        loads: &[8, 48, 512],
        clients_waiting: &[3_072],
        clients: [&[512], &[48, 128], &[256]],
        warehouses: &[(1, 20_000), (8, 5_000)],
        distributed: &[0, 100],
        round_trips: &[100, MEDIAN_ROUND_TRIP_MICROS],
        servers: &[8, 50, 200],
        clients_each: 128,
        orders_each: 200,
        items_each: 1_000,
        writes: 15_000,
        writers_distributed: [&[32], &[16]],
        spans: &[1, 2, 8],
        commits: 50_000,
        ..Effort::FULL
    };
}

/// What decides a reproduction.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which figures.
    pub figures: Vec<Figure>,
    /// How much is simulated.
    pub effort: Effort,
    /// What it costs.
    pub calibration: Calibration,
    /// What chance begins with.
    pub seed: u64,
    /// How many runs are made at a time; they are the same however many.
    pub threads: NonZeroUsize,
}

/// Finds the figures again; `progress` is told how far it is.
///
/// # Errors
/// When a run cannot be simulated.
pub fn reproduce(
    settings: &Settings,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, SimulationError> {
    let Settings {
        figures,
        effort,
        calibration,
        seed,
        threads,
    } = settings;
    let jobs = figures.iter().flat_map(|figure| figure.jobs(effort));
    let results = Results::run(jobs, calibration, *seed, *threads, progress)?;
    progress("drawing");
    let sections = figures
        .iter()
        .map(|figure| figure.section(settings, &results));
    Ok(Report {
        name: "coordination-avoidance".into(),
        title: "Coordination Avoidance in Database Systems, reproduced".into(),
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
        "Figures 1, 2, 5 and 6 and the table of code paths of P. Bailis, A. Fekete, M. J. Franklin, \
         A. Ghodsi, J. M. Hellerstein, I. Stoica: Coordination Avoidance in Database Systems, PVLDB 8(3), \
         2015. Published numbers are those that the paper's text prints; of its curves nothing is read \
         off."
            .into(),
        format!(
            "Throughput is simulated: the real code runs in virtual time, and each of its steps occupies a \
             core for as long as it took on a real one, by the {}. A server is one node with {} cores that \
             share its store, the cores of the paper's cr1.8xlarge; caches and memory bandwidth are not \
             shared. The network takes {} ms there and back in the mean, as in the trace behind the paper's \
             Figure 2a.",
            calibration.name(),
            effort.cores,
            0.54
        ),
        format!(
            "Effort: {}. Seed: {seed}. Every run is deterministic: the same seed, effort and calibration \
             give the same numbers.",
            effort.name
        ),
    ]
}

/// Which colour runs of a protocol have.
fn tone(protocol: ProtocolName) -> Tone {
    match protocol {
        protocol if protocol.read_locks().is_some() => Tone::Locking,
        ProtocolName::Nwnr => Tone::Unprotected,
        _ => Tone::Avoiding,
    }
}

/// What people call a protocol.
fn called(protocol: ProtocolName) -> &'static str {
    match protocol {
        protocol if protocol.read_locks().is_some() => "two-phase locking",
        ProtocolName::Nwnr => "no concurrency control",
        _ => "coordination-avoiding",
    }
}

#[cfg(test)]
mod tests;
