//! The experiments of a calibration, and the measurement of their steps.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use anabranch_sim::cost::{Costs, StepCost};
use anabranch_sim::{CaseError, Load, Network, Prepared, ProtocolName, SiteLoad, Termination};
use anabranch_storage::Store;
use anabranch_types::Ticks;
use anabranch_workload::Workload;
use anabranch_workload::register::Writers;
use anabranch_workload::tpcc::{Distribution, Mix, Scale, Tpcc};
use anabranch_workload::ycsb::{Parameters, Ycsb};

use super::meter::{Clock, Times, lower_quartile, trimmed_mean};
use super::{Calibration, CalibrationError, Effort, Measured};

/// An experiment of a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExperimentName {
    /// TPC-C's New-Orders, one in ten distributed, as specified.
    NewOrder,
    /// New-Orders, half of them distributed. Distributed orders evict the data of local ones from the caches, so
    /// that a local order costs more.
    NewOrderDistributed,
    /// Writes to so many of eight registers on eight nodes.
    Writes(usize),
    /// Transactions over four of a million items on five nodes, 95 of 100 reading (ramp.txt §5.1).
    Items,
}

/// Registers and nodes of [`ExperimentName::Writes`], as in coordination-avoidance.txt, Figure 1.
const REGISTERS: u16 = 8;

/// Nodes of [`ExperimentName::Items`], as in ramp.txt.
const ITEMS_NODES: u16 = 5;

/// The protocols of most experiments.
const PROTOCOLS: [ProtocolName; 3] = [
    ProtocolName::RampFast,
    ProtocolName::Nwnr,
    ProtocolName::Locking,
];

/// Every experiment under every protocol.
pub(super) fn all() -> Vec<(ExperimentName, ProtocolName)> {
    let writes = (1..=usize::from(REGISTERS)).map(ExperimentName::Writes);
    let orders = [
        ExperimentName::NewOrder,
        ExperimentName::NewOrderDistributed,
    ];
    let names = orders.into_iter().chain(writes);
    let names = names.chain([ExperimentName::Items]);
    let pairs = names.flat_map(|name| {
        let protocols = name.protocols().iter();
        protocols.map(move |protocol| (name, *protocol))
    });
    pairs.collect()
}

/// The protocols of [`ExperimentName::Items`].
const ITEMS_PROTOCOLS: [ProtocolName; 6] = [
    ProtocolName::RampFast,
    ProtocolName::RampSmall,
    ProtocolName::RampHybrid,
    ProtocolName::Nwnr,
    ProtocolName::Locking,
    ProtocolName::LockingShort,
];

impl ExperimentName {
    /// The name in a calibration.
    pub fn text(self) -> String {
        match self {
            ExperimentName::NewOrder => "new-order".to_owned(),
            ExperimentName::NewOrderDistributed => "new-order-distributed".to_owned(),
            ExperimentName::Writes(span) => format!("writes-{span}"),
            ExperimentName::Items => "items".to_owned(),
        }
    }

    /// The experiment of this name.
    pub fn by_text(text: &str) -> Option<ExperimentName> {
        let mut names = all().into_iter().map(|(name, _)| name);
        names.find(|name| name.text() == text)
    }

    fn protocols(self) -> &'static [ProtocolName] {
        match self {
            ExperimentName::Items => &ITEMS_PROTOCOLS,
            ExperimentName::NewOrder
            | ExperimentName::NewOrderDistributed
            | ExperimentName::Writes(_) => &PROTOCOLS,
        }
    }

    fn workload(self, effort: Effort) -> (u16, Arc<dyn Workload>) {
        match self {
            ExperimentName::NewOrder | ExperimentName::NewOrderDistributed => {
                let nodes = 2;
                let scale = if effort.full_size {
                    Scale::specified(u32::from(nodes))
                } else {
                    Scale::small(u32::from(nodes))
                };
                let tpcc = Tpcc {
                    scale,
                    distribution: match self {
                        ExperimentName::NewOrder => Distribution::Specified,
                        _ => Distribution::Percent(50.0),
                    },
                    mix: Mix::NEW_ORDER,
                };
                (nodes, Arc::new(tpcc))
            }
            ExperimentName::Writes(span) => {
                let registers = i64::from(REGISTERS);
                (REGISTERS, Arc::new(Writers { registers, span }))
            }
            ExperimentName::Items => {
                let parameters = Parameters {
                    items: if effort.full_size { 1_000_000 } else { 5_000 },
                    ..Parameters::RAMP
                };
                let ycsb = Ycsb::with(parameters).expect("these make sense");
                (ITEMS_NODES, Arc::new(ycsb))
            }
        }
    }

    /// Clients for each node: enough that calls wait for locks now and then, and several for one lock.
    fn clients(self) -> u32 {
        match self {
            ExperimentName::NewOrder
            | ExperimentName::NewOrderDistributed
            | ExperimentName::Items => 32,
            ExperimentName::Writes(_) => 8,
        }
    }
}

/// Measures one experiment or all, round by round, so that a disturbance affects all equally. `between` runs after
/// each, for measurements that are spread over the same time.
pub(super) fn measure(
    only: Option<ExperimentName>,
    effort: Effort,
    between: &mut dyn FnMut() -> Result<(), CalibrationError>,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Measured>, CalibrationError> {
    let mut all = all();
    all.retain(|(name, _)| only.is_none_or(|only| only == *name));
    let mut rounds: Vec<Vec<Times>> = vec![Vec::new(); all.len()];
    progress("loading");
    let mut filled: Vec<(ExperimentName, Filled)> = Vec::new();
    for (name, _) in &all {
        if filled.last().is_none_or(|(last, _)| last != name) {
            filled.push((*name, Filled::new(*name, effort)?));
        }
    }
    for round in 0..effort.rounds {
        for ((name, protocol), times) in all.iter().zip(&mut rounds) {
            progress(&format!(
                "{} under {}, round {} of {}",
                name.text(),
                protocol.name(),
                round + 1,
                effort.rounds
            ));
            let filled = filled.iter().find(|(filled, _)| filled == name);
            let (_, filled) = filled.expect("each was filled");
            times.push(filled.run(*name, *protocol, effort, round as u64)?);
            between()?;
        }
    }
    let summed = all.into_iter().zip(rounds);
    let summed = summed.map(|((name, protocol), rounds)| Measured {
        experiment: name.text(),
        protocol: protocol.name().to_owned(),
        provenance: None,
        steps: sum(rounds),
    });
    Ok(summed.collect())
}

/// An experiment with its database.
struct Filled {
    prepared: Prepared,
    stores: Vec<Store>,
}

impl Filled {
    fn new(name: ExperimentName, effort: Effort) -> Result<Filled, CaseError> {
        let (nodes, workload) = name.workload(effort);
        let prepared = Prepared::from_workload(workload, nodes)?;
        let stores = prepared.stores(1, &Network::lan(), true)?;
        Ok(Filled { prepared, stores })
    }

    fn run(
        &self,
        name: ExperimentName,
        protocol: ProtocolName,
        effort: Effort,
        seed: u64,
    ) -> Result<Times, CaseError> {
        let times = Rc::new(RefCell::new(Times::new()));
        let load = Load {
            termination: Termination::default(),
            protocol,
            seed,
            clients: name.clients() * u32::from(self.prepared.nodes),
            think: Ticks::from_micros(100),
            network: Network::lan(),
            processor: None,
            warmup: Ticks::from_millis(match name {
                ExperimentName::NewOrder | ExperimentName::NewOrderDistributed => {
                    effort.warmup_millis
                }
                ExperimentName::Writes(_) | ExperimentName::Items => effort.millis / 5,
            }),
            measured: Ticks::from_millis(effort.millis),
            transactions_max: u64::MAX,
        };
        let clock = Clock::new(Rc::clone(&times));
        load.run(&self.prepared, self.stores.clone(), Some(Box::new(clock)))?;
        Ok(times.take())
    }
}

/// Rounds of a measurement at sites.
const SITES_ROUNDS: u64 = 3;

/// Measures the steps of a load of sites, which has no costs, with the clock of this machine. Transport costs are the
/// built-in calibration's.
pub(crate) fn costs_at_sites(
    load: &SiteLoad,
    prepared: &Prepared,
    store: &Store,
) -> Result<Costs, CaseError> {
    let mut rounds = Vec::new();
    for round in 0..SITES_ROUNDS {
        let times = Rc::new(RefCell::new(Times::new()));
        let clock = Clock::new(Rc::clone(&times));
        let load = SiteLoad {
            seed: load.seed + round,
            measured: Ticks(load.measured.0.div_ceil(SITES_ROUNDS)),
            ..load.clone()
        };
        load.run(prepared, store, Some(Box::new(clock)))?;
        rounds.push(times.take());
    }
    let built_in = Calibration::built_in();
    Ok(Costs {
        calibration: format!(
            "steps measured on this machine before the run; transport: {}",
            built_in.name()
        ),
        message_nanos: built_in.transport.message.nanos(),
        client_nanos: built_in.transport.client.nanos(),
        guard_nanos: built_in.paths.guard_nanos,
        steps: sum(rounds),
    })
}

/// For each kind of step, the lower quartile of the rounds' means.
fn sum(rounds: Vec<Times>) -> Vec<StepCost> {
    let mut means: BTreeMap<_, (Vec<f64>, u64)> = BTreeMap::new();
    for (kind, mut times) in rounds.into_iter().flatten() {
        let (means, steps) = means.entry(kind).or_default();
        means.push(trimmed_mean(&mut times));
        *steps += times.len() as u64;
    }
    let costs = means.into_iter().map(|(kind, (means, steps))| StepCost {
        step: kind.name(),
        nanos: (lower_quartile(means) * 10.0).round() / 10.0,
        steps,
    });
    costs.collect()
}
