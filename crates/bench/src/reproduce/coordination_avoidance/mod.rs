//! Coordination Avoidance in Database Systems (Bailis et al., VLDB 2015): Figures 1, 2, 5 and 6 and
//! the table of code paths, beside what the paper prints.
//!
//! The paper measured eight to two hundred servers of Amazon EC2. Here they are *simulated*: the engine's
//! nodes run unchanged in virtual time, and each step occupies one of the server's cores for as long as
//! steps of its kind took on a real one ([`crate::calibrate`], [`anabranch_sim::cost`]).
//!
//! * `published`: the paper's numbers.
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
//! **The network.** A round trip takes 0.54 ms in the mean, as in the trace behind the paper's Figure 2a
//! ([`super::atomic_commit::LAN`]). A panel of Figure 5 varies it.
//!
//! **What is smaller than in the paper.** Runs end after a number of transactions instead of two minutes. A
//! district has 30 customers instead of 3,000. Where many warehouses would not fit into this machine's
//! memory, they have fewer items. The costs of steps were calibrated at full size.

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
    /// All figures in the paper's order.
    pub const ALL: [Figure; 5] = [
        Figure::Microbenchmark,
        Figure::Commitment,
        Figure::NewOrder,
        Figure::CodePaths,
        Figure::Scaling,
    ];

    /// The runs that the figure needs.
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
    /// Transactions to count in each run of TPC-C on eight servers, without locks and with. Half as many come
    /// before them, so that distributed transactions complete as often as local ones.
    orders: [u64; 2],
    /// The fewest transactions to count of each client, without locks: many clients that begin together stay
    /// in step for their first few calls, and servers idle between their waves.
    calls_each: u64,
    /// Items, with one warehouse for each server.
    items: u32,
    /// Clients for each server: the points of the load's axis.
    loads: &'static [u32],
    /// Clients for each server; the number with the highest throughput counts. Without locks, with locks, and
    /// with locks on several warehouses.
    clients: [&'static [u32]; 3],
    /// The same without locks where replies take long: much is distributed, or the network is slow.
    clients_waiting: &'static [u32],
    /// Warehouses for each server, and items: the points of the contention's axis.
    warehouses: &'static [(u16, u32)],
    /// Percentages of distributed orders.
    distributed: &'static [u8],
    /// Median round trips in microseconds.
    round_trips: &'static [u32],
    /// Numbers of servers in Figure 6.
    servers: &'static [u16],
    /// Cores of each server.
    cores: u16,
    /// Cores and clients of each server in Figure 6.
    cores_each: u16,
    clients_each: u32,
    /// Transactions to count for each server in Figure 6.
    orders_each: u64,
    /// Items of a warehouse in Figure 6.
    items_each: u32,
    /// Transactions to count in each run of the microbenchmark.
    writes: u64,
    /// Clients for each server of the microbenchmark, for transactions on one server.
    writers: u32,
    /// The same for distributed transactions, without locks and with; the number with the highest throughput
    /// counts.
    writers_distributed: [&'static [u32]; 2],
    /// Writes of a transaction.
    spans: &'static [usize],
    /// Commits drawn for each bound.
    commits: u32,
}

impl Effort {
    /// All points: some minutes on two cores.
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

/// Settings of a reproduction.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The figures to reproduce.
    pub figures: Vec<Figure>,
    /// How much is simulated.
    pub effort: Effort,
    /// The costs of simulated steps.
    pub calibration: Calibration,
    /// The seed of all random draws.
    pub seed: u64,
    /// How many runs are made at a time. Results do not depend on it.
    pub threads: NonZeroUsize,
}

/// Reproduces the figures, and reports to `progress`.
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
         2015. Published numbers are those in the paper's text; none is read off its curves."
            .into(),
        format!(
            "Throughput is simulated: the real code runs in virtual time, and each of its steps occupies a \
             core for as long as it took on a real one, by the {}. A server is one node with {} cores that \
             share its store, the cores of the paper's cr1.8xlarge; caches and memory bandwidth are not \
             shared. A round trip takes {} ms in the mean, as in the trace behind the paper's Figure 2a.",
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

/// The colour of a protocol's runs.
fn tone(protocol: ProtocolName) -> Tone {
    match protocol {
        protocol if protocol.read_locks().is_some() => Tone::Locking,
        ProtocolName::Nwnr => Tone::Unprotected,
        _ => Tone::Avoiding,
    }
}

/// The name of a protocol in charts and tables.
fn label(protocol: ProtocolName) -> &'static str {
    match protocol {
        protocol if protocol.read_locks().is_some() => "two-phase locking",
        ProtocolName::Nwnr => "no concurrency control",
        _ => "coordination-avoiding",
    }
}

#[cfg(test)]
mod tests;
