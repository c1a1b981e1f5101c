//! Be General and Don't Give Up Consistency in Geo-Replicated Transactional Systems (Turcu, Peluso, Palmieri, Ravindran):
//! Figures 1(a), 1(b), 2(a), 2(b) and 3, beside the published numbers.
//!
//! * `published`: the paper's numbers. `regions`: the sites.
//! * `costs`: what the steps of a site cost. `load`: what is run, and the checks after each run.
//! * `throughput`: Figures 1(a), 1(b) and 3. `clients`: Figures 2(a) and 2(b).
//! * `commit`: the latency of a commit without conflicts, beside what the network permits.
//! * `certification`: how fast one core certifies. `threads`: one setting on real threads, beside the simulated one.
//! * `sample`: histories of small runs, judged by the checkers.
//!
//! **A node** has eight cores, as the paper's r3.2xlarge, and all of the data. The paper's sites of three nodes are regions
//! of three such nodes: all of them order and certify. A group has at most nine, so three regions have three nodes, and five
//! and seven have one.
//!
//! **Peaks** are those of closed loops with the paper's numbers of clients: more are tried as long as the rate grows.

mod certification;
mod clients;
mod commit;
mod costs;
mod load;
mod published;
mod regions;
mod sample;
mod threads;
mod throughput;

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicUsize;

use anabranch_sim::CaseError;
use anabranch_types::Ticks;

use self::costs::SiteCosts;
use crate::figure::{Report, Section};

/// A figure of the paper, or a figure beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Figure 1(a).
    WriteIntensive,
    /// Figure 1(b).
    ReadDominated,
    /// Figure 2(a).
    Clients,
    /// Figure 2(b).
    FastDecisions,
    /// Figure 3.
    Bank,
    /// The latency of a commit beside what the network permits.
    Commit,
    /// How fast one core certifies, measured.
    Certification,
    /// One setting on real threads.
    Threads,
}

impl Figure {
    /// All figures, those of the paper first.
    pub const ALL: [Figure; 8] = [
        Figure::WriteIntensive,
        Figure::ReadDominated,
        Figure::Clients,
        Figure::FastDecisions,
        Figure::Bank,
        Figure::Commit,
        Figure::Certification,
        Figure::Threads,
    ];
}

/// How much is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Its name.
    pub name: &'static str,
    /// Numbers of regions.
    regions: &'static [u16],
    /// Clients of each node in Figure 1(a); more are tried as long as the rate grows.
    clients: &'static [u32],
    /// The same in Figure 1(b), where each has a warehouse.
    clients_of_readers: &'static [u32],
    /// Clients of each node in Figures 2(a) and 2(b).
    clients_of_latency: &'static [u32],
    /// Clients of each node in Figure 3.
    clients_of_bank: &'static [u32],
    /// Accounts for each client there.
    accounts_a_client: u32,
    /// Warehouses of each node where clients share them.
    warehouses: u16,
    /// TPC-C's items.
    items: u32,
    /// Customers of a district.
    customers: u32,
    /// Virtual milliseconds before the measurement and of it.
    millis: [u64; 2],
    /// Virtual milliseconds of a commit's latency.
    millis_of_commit: [u64; 2],
    /// Transactions that one core certifies.
    certified: usize,
    /// Clients of each site on real threads.
    clients_of_threads: u32,
    /// Milliseconds on real threads.
    millis_of_threads: [u64; 2],
    /// Transactions of each history that is judged.
    sampled: u64,
}

impl Effort {
    /// All points.
    pub const FULL: Effort = Effort {
        name: "full",
        regions: &published::SITES,
        clients: &[25, 85],
        clients_of_readers: &[15],
        clients_of_latency: &[15, 45, 85, 125],
        clients_of_bank: &[25, 85],
        accounts_a_client: 30,
        warehouses: 6,
        items: 1_000,
        customers: 60,
        millis: [1_000, 1_500],
        millis_of_commit: [1_000, 8_000],
        certified: 50_000,
        clients_of_threads: 15,
        millis_of_threads: [2_000, 10_000],
        sampled: 600,
    };

    /// The same shapes from fewer points and shorter runs.
    pub const QUICK: Effort = Effort {
        name: "quick",
        regions: &[3, 7],
        clients: &[25],
        clients_of_latency: &[15, 45],
        clients_of_bank: &[25],
        warehouses: 3,
        items: 200,
        customers: 30,
        millis_of_commit: [500, 3_000],
        certified: 5_000,
        millis_of_threads: [1_000, 3_000],
        sampled: 150,
        ..Effort::FULL
    };
}

/// Settings of a reproduction.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The figures to reproduce.
    pub figures: Vec<Figure>,
    /// How much is run.
    pub effort: Effort,
    /// The seed of all random draws.
    pub seed: u64,
    /// How many simulated runs are made at a time. Their results do not depend on it.
    pub threads: NonZeroUsize,
}

/// Why figures cannot be reproduced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReproduceError {
    /// A run cannot be made, or an answer was wrong.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// A run ended in a state that the protocol excludes.
    #[error("error: {what}: what must hold after the run does not: {violation}")]
    Wrong {
        /// The run.
        what: String,
        /// The invariant and what contradicts it.
        violation: String,
    },
    /// The operating system gave no thread.
    #[error("error: a site has no thread: {0}")]
    Thread(std::io::Error),
}

/// Cores of a node: those of the paper's r3.2xlarge.
const CORES: u16 = 8;

/// How long a site gathers transactions, under every protocol: the lower end of the paper's 20 to 50 ms.
const BATCH_WINDOW: Ticks = Ticks::from_millis(20);

/// What all sections share.
struct Context<'s> {
    settings: &'s Settings,
    costs: SiteCosts,
    /// The simulated loads that were checked at rest.
    checked: AtomicUsize,
}

/// Reproduces the figures, and reports to `progress`.
///
/// # Errors
/// When a run cannot be made, or ends in a state that it must not.
pub fn reproduce(
    settings: &Settings,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, ReproduceError> {
    let context = Context {
        settings,
        costs: SiteCosts::built_in(),
        checked: AtomicUsize::new(0),
    };
    let mut sections: Vec<Section> = Vec::new();
    for figure in &settings.figures {
        sections.push(match figure {
            Figure::WriteIntensive => throughput::write_intensive(&context, progress)?,
            Figure::ReadDominated => throughput::read_dominated(&context, progress)?,
            Figure::Clients => clients::clients(&context, progress)?,
            Figure::FastDecisions => clients::fast_decisions(&context, progress)?,
            Figure::Bank => throughput::bank(&context, progress)?,
            Figure::Commit => commit::section(&context, progress)?,
            Figure::Certification => certification::section(&context, progress)?,
            Figure::Threads => threads::section(&context, progress)?,
        });
    }
    sections.push(sample::section(&context, progress)?);
    Ok(Report {
        name: "alvin".into(),
        title: "Be General and Don't Give Up Consistency in Geo-Replicated Transactional Systems, reproduced".into(),
        preface: preface(&context),
        sections,
    })
}

fn preface(context: &Context<'_>) -> Vec<String> {
    let settings = context.settings;
    let effort = &settings.effort;
    vec![
        "Figures 1(a), 1(b), 2(a), 2(b) and 3 of A. Turcu, S. Peluso, R. Palmieri, B. Ravindran: Be General and Don't Give Up \
         Consistency in Geo-Replicated Transactional Systems. Published numbers are those in the paper's text; none is read \
         off its curves."
            .into(),
        format!(
            "Simulated numbers are of the real protocols and the real engine in virtual time, on nodes of {CORES} cores. Each \
             step occupies a core for as long as it took: {}. The cost of a step that certifies a batch grows with its \
             transactions. Not modelled are disks, garbage collection of a runtime, and that one node certifies conflicting \
             transactions one after the other.",
            context.costs.measured,
        ),
        format!(
            "The network is {}: the paper names neither its regions nor their latencies. A link keeps its latency, drawn around \
             the median, for a second; the messages of a link arrive in order.",
            regions::NAME
        ),
        format!(
            "All protocols certify with the same code, and batch for {} ms (the paper: 20 to 50). MultiPaxos's readers commit \
             at their site, as in the paper. EPaxos has fast quorums of 2 of 3 sites, 3 of 5, 5 of 7 and 6 of 9; ALVIN's fast \
             decisions need all sites, since the paper's smaller quorum decides twice (docs/protocols/alvin.md).",
            BATCH_WINDOW.0 / 1_000_000
        ),
        format!(
            "The paper gives no size of its database. But for Figure 1(b) ours has {} warehouses for each node, {} items and {} \
             customers of a district; terminals stay at their warehouse. Three nodes of a region are three groups of clients with a copy \
             of the data each. A group has at most nine nodes: five and seven regions of three nodes are not run.",
            effort.warehouses, effort.items, effort.customers
        ),
        format!(
            "Effort: {}. Seed: {}. Simulated numbers are the same for the same seed and effort.",
            effort.name, settings.seed
        ),
    ]
}

#[cfg(test)]
mod tests;
