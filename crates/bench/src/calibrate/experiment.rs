//! The experiments of a calibration, and the measurement of their steps.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use anabranch_sim::cost::{Costs, StepCost, StepKind};
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
    let built_in = Calibration::built_in();
    Ok(Costs {
        calibration: format!(
            "steps measured on this machine before the run; transport: {}",
            built_in.name()
        ),
        message_nanos: built_in.transport.message.nanos(),
        client_nanos: built_in.transport.client.nanos(),
        guard_nanos: built_in.paths.guard_nanos,
        steps: steps_at_sites(&[(load, prepared, store)])?,
    })
}

/// Measures the steps of several loads of sites together.
pub(crate) fn steps_at_sites(
    loads: &[(&SiteLoad, &Prepared, &Store)],
) -> Result<Vec<StepCost>, CaseError> {
    let mut rounds = Vec::new();
    for round in 0..SITES_ROUNDS {
        let times = Rc::new(RefCell::new(Times::new()));
        for (load, prepared, store) in loads {
            let clock = Clock::new(Rc::clone(&times));
            let load = SiteLoad {
                seed: load.seed + round,
                measured: Ticks(load.measured.0.div_ceil(SITES_ROUNDS)),
                calls: load.calls.map(|calls| calls.div_ceil(SITES_ROUNDS)),
                ..(*load).clone()
            };
            load.run(prepared, store, Some(Box::new(clock)))?;
        }
        rounds.push(times.take());
    }
    Ok(sum(rounds))
}

/// For each kind of step, the lower quartile of the rounds' means. Steps that differ only in the number of transactions
/// that they certify are one kind, whose cost is a line over that number.
fn sum(rounds: Vec<Times>) -> Vec<StepCost> {
    let mut means: BTreeMap<_, (Vec<f64>, u64)> = BTreeMap::new();
    for (kind, mut times) in rounds.into_iter().flatten() {
        let (means, steps) = means.entry(kind).or_default();
        means.push(trimmed_mean(&mut times));
        *steps += times.len() as u64;
    }
    let mut kinds: BTreeMap<_, Vec<(u16, f64, u64)>> = BTreeMap::new();
    for (kind, (means, steps)) in means {
        let alike = StepKind {
            certified: 0,
            ..kind
        };
        let points = kinds.entry(alike).or_default();
        points.push((kind.certified, lower_quartile(means), steps));
    }
    let tenth = |nanos: f64| (nanos * 10.0).round() / 10.0;
    let costs = kinds.into_iter().map(|(kind, points)| {
        let (nanos, certified_nanos) = line(&points);
        StepCost {
            step: kind.name(),
            nanos: tenth(nanos),
            certified_nanos: tenth(certified_nanos),
            steps: points.iter().map(|(_, _, steps)| steps).sum(),
        }
    });
    costs.collect()
}

/// The nanoseconds of a step that certifies nothing, and more for each certified transaction: the line of least squares,
/// weighted by the numbers of steps. Neither is below 0. With one number of transactions, all time is theirs.
fn line(points: &[(u16, f64, u64)]) -> (f64, f64) {
    if let [(certified, nanos, _)] = points {
        return match certified {
            0 => (*nanos, 0.0),
            _ => (0.0, nanos / f64::from(*certified)),
        };
    }
    let total: f64 = points.iter().map(|(_, _, steps)| *steps as f64).sum();
    let mean = |of: &dyn Fn(&(u16, f64, u64)) -> f64| {
        let sum: f64 = points.iter().map(|it| it.2 as f64 * of(it)).sum();
        sum / total.max(1.0)
    };
    let (x, y) = (mean(&|it| f64::from(it.0)), mean(&|it| it.1));
    let variance = mean(&|it| (f64::from(it.0) - x).powi(2));
    let covariance = mean(&|it| (f64::from(it.0) - x) * (it.1 - y));
    let slope = (covariance / variance).max(0.0);
    let base = y - slope * x;
    match base < 0.0 {
        true => (0.0, y / x),
        false => (base, slope),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_costs_a_line_over_its_transactions() {
        let (base, each) = line(&[(1, 1_100.0, 5), (10, 2_000.0, 50), (40, 5_000.0, 2)]);
        assert!((base - 1_000.0).abs() < 1e-6 && (each - 100.0).abs() < 1e-6);
        assert_eq!(line(&[(0, 70.0, 3)]), (70.0, 0.0));
        assert_eq!(line(&[(4, 80.0, 3)]), (0.0, 20.0));
        // Less for more is noise, and less than nothing for none is none.
        assert_eq!(line(&[(1, 20.0, 1), (2, 10.0, 1)]), (15.0, 0.0));
        assert_eq!(line(&[(1, 0.0, 1), (3, 40.0, 1)]), (0.0, 10.0));
    }
}
