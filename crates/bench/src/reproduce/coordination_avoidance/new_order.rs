//! Figure 5: New-Orders on eight servers under growing load, with fewer and fewer conflicts, and from none to
//! all distributed; a further panel varies the network.
//!
//! Locking does less when more clients wait than its hottest rows can serve: a distributed order that waits
//! for a district keeps its locks on servers of lower number. So each protocol runs with as many clients as
//! suit it best, except in the load's own panel.

use anabranch_sim::ProtocolName;

use super::super::simulation::{Calls, Database, Job, Results};
use super::{Effort, MEDIAN_ROUND_TRIP_MICROS, label, published, run_line, tone};
use crate::figure::{Axis, Chart, Comparison, Level, Origin, Section, Series, Target};

const PROTOCOLS: [ProtocolName; 2] = [ProtocolName::RampFast, ProtocolName::Locking];

/// The paper's default: eight servers, one warehouse each, one order in ten distributed.
pub(super) fn specified(effort: &Effort, protocol: ProtocolName, clients: u32) -> Job {
    Job {
        servers: published::SERVERS,
        cores: effort.cores,
        database: Database::Warehouses {
            each: 1,
            items: effort.items,
        },
        calls: Calls::OrdersAsSpecified,
        protocol,
        clients,
        blocked: 0,
        round_trip_micros: MEDIAN_ROUND_TRIP_MICROS,
        transactions: orders(effort, protocol, clients),
        millis_max: 10_000,
    }
}

/// The number of orders to count.
fn orders(effort: &Effort, protocol: ProtocolName, clients: u32) -> u64 {
    let [free, locking] = effort.orders;
    let each = effort.calls_each * u64::from(published::SERVERS) * u64::from(clients);
    let orders = match protocol {
        ProtocolName::Locking => locking,
        _ => free.max(each),
    };
    // Few clients need fewer orders.
    orders.min(u64::from(clients) * 1_000)
}

/// The runs of the load's panel.
pub(super) fn loaded(effort: &Effort, protocol: ProtocolName) -> Vec<Job> {
    let loads = effort.loads.iter();
    loads
        .map(|clients| specified(effort, protocol, *clients))
        .collect()
}

/// From this percentage on, distributed orders need more clients to fill the servers.
const DISTRIBUTED_MANY: u8 = 25;

/// The runs of a point with several numbers of clients, of which the best counts; more clients where
/// `answers_take_long`.
fn choices(
    effort: &Effort,
    protocol: ProtocolName,
    warehouses: u16,
    answers_take_long: bool,
) -> Vec<Job> {
    let [free, locking, spread] = effort.clients;
    let clients = match (protocol, warehouses) {
        (ProtocolName::Locking, 1) => locking,
        (ProtocolName::Locking, _) => spread,
        _ if answers_take_long => effort.clients_waiting,
        _ => free,
    };
    let job = |clients: &u32| specified(effort, protocol, *clients);
    clients.iter().map(job).collect()
}

fn spread(effort: &Effort, protocol: ProtocolName, (each, items): (u16, u32)) -> Vec<Job> {
    let mut jobs = choices(effort, protocol, each, false);
    for job in &mut jobs {
        job.database = Database::Warehouses { each, items };
    }
    jobs
}

fn distributed(effort: &Effort, protocol: ProtocolName, percent: u8) -> Vec<Job> {
    let mut jobs = choices(effort, protocol, 1, percent >= DISTRIBUTED_MANY);
    for job in &mut jobs {
        job.calls = Calls::OrdersDistributed(percent);
    }
    jobs
}

fn far(effort: &Effort, protocol: ProtocolName, micros: u32) -> Vec<Job> {
    let mut jobs = choices(effort, protocol, 1, micros > MEDIAN_ROUND_TRIP_MICROS);
    for job in &mut jobs {
        job.round_trip_micros = micros;
    }
    jobs
}

/// A panel's runs, each with its description.
fn panel<T: Copy>(
    effort: &Effort,
    over: &[T],
    jobs: fn(&Effort, ProtocolName, T) -> Vec<Job>,
    what: fn(T) -> String,
) -> Vec<(String, Job)> {
    let each = over
        .iter()
        .flat_map(|at| PROTOCOLS.map(|protocol| (*at, protocol)));
    each.flat_map(|(at, protocol)| {
        let jobs = jobs(effort, protocol, at).into_iter();
        jobs.map(move |job| (what(at), job))
    })
    .collect()
}

fn all(effort: &Effort) -> Vec<(String, Job)> {
    let load = PROTOCOLS
        .iter()
        .flat_map(|protocol| loaded(effort, *protocol));
    let mut all: Vec<(String, Job)> = load.map(|job| ("load".to_owned(), job)).collect();
    all.extend(panel(effort, effort.warehouses, spread, |(each, items)| {
        format!("contention: {each} warehouses a server of {items} items")
    }));
    all.extend(panel(effort, effort.distributed, distributed, |percent| {
        format!("distribution: {percent}%")
    }));
    all.extend(panel(effort, effort.round_trips, far, |micros| {
        format!("network: {micros} µs there and back")
    }));
    all
}

/// The runs that the figure needs.
pub(super) fn jobs(effort: &Effort) -> Vec<Job> {
    all(effort).into_iter().map(|(_, job)| job).collect()
}

/// A line of simulated points for each protocol.
fn lines<T: Copy>(
    over: &[T],
    x: impl Fn(T) -> f64,
    y: impl Fn(ProtocolName, T) -> f64,
) -> Vec<Series> {
    let line = |protocol: ProtocolName| Series {
        name: label(protocol).into(),
        origin: Origin::Simulated,
        tone: tone(protocol),
        points: over.iter().map(|at| (x(*at), y(protocol, *at))).collect(),
    };
    PROTOCOLS.map(line).to_vec()
}

fn peaks() -> Vec<Level> {
    let peak = |protocol, y| Level {
        name: format!("{}, peak", label(protocol)),
        origin: Origin::Published,
        tone: tone(protocol),
        y,
    };
    vec![
        peak(ProtocolName::RampFast, published::ORDERS),
        peak(ProtocolName::Locking, published::ORDERS_LOCKING),
    ]
}

/// The figure.
pub(super) fn section(effort: &Effort, results: &Results) -> Section {
    let rate = |jobs: Vec<Job>| results.best(&jobs).1.per_second;
    Section {
        title: "Figure 5: TPC-C New-Orders on eight servers".into(),
        text: vec![
            "New-Orders alone, without think time, as published. A coordination-avoiding order draws its id \
             at the district's owner in the step that commits. Under locking the district's lock is held as long \
             as the transaction runs, and over up to two round trips if it is distributed."
                .into(),
            "Too many clients harm locking: a distributed order that waits for a hot district keeps its locks on \
             the servers before it in the order. So all panels but the first compare each protocol with as \
             many clients as suit it best."
                .into(),
            "The distribution panel shows throughput relative to none distributed, since the paper prints only \
             the loss."
                .into(),
        ],
        parameters: vec![
            ("servers".into(), published::SERVERS.to_string()),
            ("cores of each".into(), effort.cores.to_string()),
            (
                "clients of each server: the best of".into(),
                format!(
                    "{:?}, {:?} where replies take long; {:?} under locking, {:?} with more than one \
                     warehouse",
                    effort.clients[0],
                    effort.clients_waiting,
                    effort.clients[1],
                    effort.clients[2]
                ),
            ),
            ("warehouses of each server, unless varied".into(), "1".into()),
            ("items, unless warehouses vary".into(), effort.items.to_string()),
            (
                "transactions counted, without locks and with".into(),
                format!("{:?}", effort.orders),
            ),
        ],
        charts: charts(effort, &rate),
        comparisons: comparisons(effort, &rate),
        runs: all(effort)
            .into_iter()
            .map(|(what, job)| run_line(what, &job, results.of(&job)))
            .collect(),
    }
}

fn charts(effort: &Effort, rate: &dyn Fn(Vec<Job>) -> f64) -> Vec<Chart> {
    let servers = f64::from(published::SERVERS);
    let load = Chart {
        name: "figure-5-load".into(),
        title: "Load (Figure 5)".into(),
        x: Axis::logarithmic("clients, on eight servers"),
        y: Axis::logarithmic("New-Orders a second"),
        series: lines(
            effort.loads,
            |clients| servers * f64::from(clients),
            |protocol, clients| rate(vec![specified(effort, protocol, clients)]),
        ),
        levels: peaks(),
    };
    let (warehouses, spread_rate) = published::ORDERS_LOCKING_SPREAD;
    let mut contention = lines(
        effort.warehouses,
        |(each, _)| f64::from(each),
        |protocol, at| rate(spread(effort, protocol, at)),
    );
    contention.push(Series {
        name: label(ProtocolName::Locking).into(),
        origin: Origin::Published,
        tone: tone(ProtocolName::Locking),
        points: vec![(1.0, published::ORDERS_LOCKING), (warehouses, spread_rate)],
    });
    contention.push(Series {
        name: label(ProtocolName::RampFast).into(),
        origin: Origin::Published,
        tone: tone(ProtocolName::RampFast),
        points: vec![(1.0, published::ORDERS)],
    });
    let contention = Chart {
        name: "figure-5-contention".into(),
        title: "Contention (Figure 5)".into(),
        x: Axis::logarithmic("warehouses a server"),
        y: Axis::logarithmic("New-Orders a second"),
        series: contention,
        levels: Vec::new(),
    };
    let share = |protocol, percent| {
        let none = rate(distributed(effort, protocol, effort.distributed[0]));
        100.0 * rate(distributed(effort, protocol, percent)) / none
    };
    let mut distribution = lines(effort.distributed, f64::from, share);
    for (protocol, lost) in [
        (ProtocolName::RampFast, published::LOST),
        (ProtocolName::Locking, published::LOST_LOCKING),
    ] {
        distribution.push(Series {
            name: label(protocol).into(),
            origin: Origin::Published,
            tone: tone(protocol),
            points: vec![(100.0, 100.0 * (1.0 - lost))],
        });
    }
    let distribution = Chart {
        name: "figure-5-distribution".into(),
        title: "Distribution (Figure 5)".into(),
        x: Axis::linear("distributed New-Orders, in percent"),
        y: Axis::linear("New-Orders, in percent of none distributed"),
        series: distribution,
        levels: Vec::new(),
    };
    let network = Chart {
        name: "figure-5-network".into(),
        title: "Network (not in the paper)".into(),
        x: Axis::logarithmic("median round trip, in milliseconds"),
        y: Axis::logarithmic("New-Orders a second"),
        series: lines(
            effort.round_trips,
            |micros| f64::from(micros) / 1_000.0,
            |protocol, micros| rate(far(effort, protocol, micros)),
        ),
        levels: Vec::new(),
    };
    vec![load, contention, distribution, network]
}

fn comparisons(effort: &Effort, rate: &dyn Fn(Vec<Job>) -> f64) -> Vec<Comparison> {
    let avoiding = rate(loaded(effort, ProtocolName::RampFast));
    let locking = rate(loaded(effort, ProtocolName::Locking));
    let core = |rate: f64| rate / f64::from(published::SERVERS * published::CORES);
    let mut found = vec![
        Comparison::simulated("coordination-avoiding, at its peak", "/s", avoiding)
            .beside(published::ORDERS),
        Comparison::simulated("two-phase locking, at its peak", "/s", locking)
            .beside(published::ORDERS_LOCKING),
        Comparison::simulated("the first over the second", "x", avoiding / locking)
            .beside(published::ORDERS / published::ORDERS_LOCKING)
            .aimed_at(Target::AtLeast(16.0)),
        Comparison::simulated(
            "coordination-avoiding, a core of a server",
            "/s",
            avoiding / f64::from(published::SERVERS * effort.cores),
        )
        .beside(core(published::ORDERS))
        .aimed_at(Target::AtLeast(core(published::ORDERS))),
    ];
    let loads = effort.loads;
    let crowded = |protocol| rate(vec![specified(effort, protocol, loads[loads.len() - 1])]);
    let clients = loads[loads.len() - 1] * u32::from(published::SERVERS);
    found.push(Comparison::simulated(
        format!("the first over the second, {clients} clients for either"),
        "x",
        crowded(ProtocolName::RampFast) / crowded(ProtocolName::Locking),
    ));
    let most = effort.warehouses[effort.warehouses.len() - 1];
    let (warehouses, published_rate) = published::ORDERS_LOCKING_SPREAD;
    let alike = f64::from(most.0) == warehouses;
    found.push(
        Comparison::simulated(
            format!("two-phase locking, {} warehouses a server", most.0),
            "/s",
            rate(spread(effort, ProtocolName::Locking, most)),
        )
        .beside(alike.then_some(published_rate)),
    );
    found.push(Comparison::simulated(
        format!("coordination-avoiding, {} warehouses over one", most.0),
        "x",
        rate(spread(effort, ProtocolName::RampFast, most)) / avoiding,
    ));
    let lost = |protocol| {
        let [none, all] = [0, 100].map(|percent| rate(distributed(effort, protocol, percent)));
        100.0 * (1.0 - all / none)
    };
    found.push(
        Comparison::simulated(
            "coordination-avoiding, lost from none to all distributed",
            "%",
            lost(ProtocolName::RampFast),
        )
        .beside(100.0 * published::LOST)
        .aimed_at(Target::AtMost(100.0 * published::LOST)),
    );
    found.push(
        Comparison::simulated(
            "two-phase locking, lost from none to all distributed",
            "%",
            lost(ProtocolName::Locking),
        )
        .beside(100.0 * published::LOST_LOCKING)
        .aimed_at(Target::AtLeast(100.0 * published::LOST_LOCKING)),
    );
    let all = |protocol| rate(distributed(effort, protocol, 100));
    found.push(Comparison::simulated(
        "all distributed, the first over the second",
        "x",
        all(ProtocolName::RampFast) / all(ProtocolName::Locking),
    ));
    for &micros in effort.round_trips {
        let [avoiding, locking] = PROTOCOLS.map(|protocol| rate(far(effort, protocol, micros)));
        found.push(Comparison::simulated(
            format!(
                "the first over the second, {} ms there and back",
                f64::from(micros) / 1e3
            ),
            "x",
            avoiding / locking,
        ));
    }
    found
}
