//! Figures 1(a), 1(b) and 3: throughput by sites.

use super::load::{
    Point, SMALL_WAREHOUSE, Series, Spread, System, Task, Traffic, Warehouses, run_all,
};
use super::{Context, ReproduceError, published};
use crate::figure::{self, Axis, Chart, Comparison, Origin, Section, Target};

/// Regions of three nodes.
const TRIPLES: (u16, u16) = (3, 3);

/// All points of some systems: one node a region, and three regions of three nodes if they are asked for.
fn tasks(
    context: &Context<'_>,
    traffic: Traffic,
    systems: &[System],
    clients: &[u32],
    triples: bool,
) -> Vec<Task> {
    let regions = context.settings.effort.regions.iter();
    let shapes = regions.map(|regions| (*regions, 1));
    let mut tasks = Vec::new();
    for (regions, nodes) in shapes.chain(triples.then_some(TRIPLES)) {
        for system in systems {
            tasks.push(Task {
                point: Point {
                    traffic,
                    system: *system,
                    regions,
                    nodes,
                },
                clients: clients.to_vec(),
                all: false,
                batches: true,
                spread: Spread::Periods,
                millis: context.settings.effort.millis,
            });
        }
    }
    tasks
}

/// The series of a system at one shape.
fn at(found: &[Series], system: System, replicas: u16) -> Option<&Series> {
    let mut all = found.iter();
    all.find(|series| (series.point.system, series.point.replicas()) == (system, replicas))
}

/// The highest rates of some systems by nodes.
fn chart(name: &str, title: &str, found: &[Series], systems: &[System]) -> Chart {
    let mut replicas: Vec<u16> = found.iter().map(|it| it.point.replicas()).collect();
    replicas.sort_unstable();
    replicas.dedup();
    let line = |system: &System| figure::Series {
        name: system.name().into(),
        origin: Origin::Simulated,
        tone: system.tone(),
        points: replicas
            .iter()
            .filter_map(|count| Some((f64::from(*count), at(found, *system, *count)?.rate())))
            .collect(),
    };
    Chart {
        name: name.into(),
        title: title.into(),
        x: Axis::linear("nodes with all of the data"),
        y: Axis::linear("transactions a second"),
        series: systems.iter().map(line).collect(),
        levels: Vec::new(),
    }
}

/// The shape of a point in words.
fn shape(series: &Series) -> String {
    match series.point.nodes {
        1 => format!("{} sites", series.point.regions),
        nodes => format!("{} sites of {nodes} nodes", series.point.regions),
    }
}

/// One system's rate over another's at each shape.
fn over(
    found: &[Series],
    system: System,
    other: System,
) -> impl Iterator<Item = (&Series, String, f64)> {
    let all = found.iter().filter(move |it| it.point.system == system);
    all.filter_map(move |series| {
        let beside = at(found, other, series.point.replicas())?;
        let what = format!("{}: {} over {}", shape(series), system.name(), other.name());
        Some((series, what, series.rate() / beside.rate().max(1e-9)))
    })
}

/// The rates of all points, as comparisons without published numbers.
fn rates(found: &[Series]) -> impl Iterator<Item = Comparison> + '_ {
    found.iter().map(|series| {
        let what = format!("{}: {}", shape(series), series.point.system.name());
        Comparison::simulated(what, "/s", series.rate())
    })
}

/// What the matrix alone permits one system over another, where clients wait for the network and for nothing else: the
/// mean over the nodes of what a client can do.
fn permitted(series: &Series, other: &Series) -> f64 {
    let rate = |of: &Series| {
        let load = &of.peak().load;
        let each = (0..load.sites).map(|site| 1.0 / load.bound(site).commit.0.max(1) as f64);
        each.sum::<f64>()
    };
    rate(series) / rate(other)
}

fn parameters(context: &Context<'_>, clients: &[u32]) -> Vec<(String, String)> {
    let clients: Vec<String> = clients.iter().map(u32::to_string).collect();
    let [before, of] = context.settings.effort.millis;
    vec![
        ("clients of each node".into(), clients.join(", ")),
        (
            "virtual milliseconds before the measurement and of it".into(),
            format!("{before}, {of}"),
        ),
    ]
}

const LATENCY_BOUND: &str = "Clients are closed loops that wait for the network most of the time. So a protocol's rate follows \
    its round trips: one to a fast quorum under EPaxos, two to a majority under ALVIN, or one to all sites with fast decisions. \
    \"By the matrix alone\" is the ratio that these give.";

/// Figure 1(a).
pub(super) fn write_intensive(
    context: &Context<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    progress("simulating Figure 1(a)");
    let systems = [
        System::AlvinSr,
        System::AlvinFast,
        System::Epaxos,
        System::PaxosLow,
        System::PaxosHigh,
    ];
    let clients = context.settings.effort.clients;
    let traffic = Traffic::Tpcc {
        reads: published::READS,
        warehouses: Warehouses::OfNodes,
    };
    let found = run_all(
        context,
        tasks(context, traffic, &systems, clients, true),
        progress,
    )?;
    let mut section = Section {
        title: "Figure 1(a): TPC-C, 3% read-only".into(),
        text: vec![
            "Three sites of one node and of three nodes (nine in the chart); five and seven of one. The paper says \"up to 26%\" \
             of ALVIN over EPaxos, for the cost of EPaxos's graph."
                .into(),
            LATENCY_BOUND.into(),
        ],
        parameters: parameters(context, clients),
        charts: vec![chart(
            "figure-1a",
            "TPC-C, 3% read-only (Figure 1a)",
            &found,
            &systems,
        )],
        ..Section::default()
    };
    for system in [System::AlvinSr, System::AlvinFast] {
        for (series, what, ratio) in over(&found, system, System::Epaxos) {
            let published = published::SR_OVER_EPAXOS;
            section
                .comparisons
                .push(Comparison::simulated(what, "x", ratio).beside(published));
            if let Some(other) = at(&found, System::Epaxos, series.point.replicas()) {
                let what = format!("{}: the same by the matrix alone", shape(series));
                let permitted = permitted(series, other);
                section
                    .comparisons
                    .push(Comparison::computed(what, "x", permitted));
            }
        }
    }
    for (_, what, ratio) in over(&found, System::Epaxos, System::PaxosLow) {
        section
            .comparisons
            .push(Comparison::simulated(what, "x", ratio));
    }
    section.comparisons.extend(rates(&found));
    section.runs = found.iter().flat_map(Series::lines).collect();
    Ok(section)
}

/// Figure 1(b).
pub(super) fn read_dominated(
    context: &Context<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    progress("simulating Figure 1(b)");
    let systems = [
        System::AlvinSr,
        System::AlvinEus,
        System::Epaxos,
        System::PaxosLow,
        System::PaxosHigh,
    ];
    let clients = context.settings.effort.clients_of_readers;
    let (items, customers) = SMALL_WAREHOUSE;
    let mut section = Section {
        title: "Figure 1(b): TPC-C, 50% and 90% read-only".into(),
        text: vec![
            "One node a site. Under EUS, and under MultiPaxos, transactions that only read commit at their site; under SR they \
             are ordered like all others."
                .into(),
            format!(
                "The paper does not say how many warehouses it has. Here each client has one, of {items} items and {customers} \
                 customers of a district: where clients share warehouses, those that write wait for each other under every \
                 protocol, and how readers commit hardly matters."
            ),
        ],
        parameters: parameters(context, clients),
        ..Section::default()
    };
    for reads in [50, 90] {
        let traffic = Traffic::Tpcc {
            reads,
            warehouses: Warehouses::OfClients,
        };
        let found = run_all(
            context,
            tasks(context, traffic, &systems, clients, false),
            progress,
        )?;
        section.charts.push(chart(
            &format!("figure-1b-{reads}"),
            &format!("TPC-C, {reads}% read-only (Figure 1b)"),
            &found,
            &systems,
        ));
        for other in [System::Epaxos, System::AlvinSr] {
            for (series, what, ratio) in over(&found, System::AlvinEus, other) {
                let what = format!("{reads}%, {what}");
                let compared = Comparison::simulated(what, "x", ratio);
                let is_most = (reads, series.point.regions) == (90, 7);
                section.comparisons.push(match (is_most, other) {
                    (true, System::Epaxos) => compared
                        .beside(published::EUS_OVER_EPAXOS)
                        .aimed_at(Target::AtLeast(published::EUS_OVER_EPAXOS)),
                    (true, _) => compared.beside(published::EUS_OVER_EPAXOS),
                    _ => compared,
                });
            }
        }
        let rates = rates(&found).map(|mut rate| {
            rate.what = format!("{reads}%, {}", rate.what);
            rate
        });
        section.comparisons.extend(rates);
        section.runs.extend(found.iter().flat_map(Series::lines));
    }
    Ok(section)
}

/// Figure 3.
pub(super) fn bank(
    context: &Context<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    progress("simulating Figure 3");
    let systems = [
        System::AlvinSr,
        System::AlvinFast,
        System::Epaxos,
        System::PaxosLow,
        System::PaxosHigh,
    ];
    let effort = &context.settings.effort;
    let clients = effort.clients_of_bank;
    let found = run_all(
        context,
        tasks(context, Traffic::Bank, &systems, clients, true),
        progress,
    )?;
    let (least, most) = published::ABORTS;
    let mut section = Section {
        title: "Figure 3: Bank".into(),
        text: vec![
            format!(
                "Transfers between {} accounts for each client, drawn uniformly, so that {least}% to {most}% of the attempts \
                 abort in the mean. Each transfer changes two accounts and the funds of their branches.",
                effort.accounts_a_client
            ),
            LATENCY_BOUND.into(),
        ],
        parameters: parameters(context, clients),
        charts: vec![chart("figure-3", "Bank (Figure 3)", &found, &systems)],
        ..Section::default()
    };
    for system in [System::AlvinSr, System::AlvinFast] {
        for (series, what, ratio) in over(&found, system, System::Epaxos) {
            // "Comparable in almost all configurations": the target is that of the project.
            let compared = Comparison::simulated(what, "x", ratio);
            section
                .comparisons
                .push(compared.aimed_at(Target::AtLeast(0.97)));
            if let Some(other) = at(&found, System::Epaxos, series.point.replicas()) {
                let what = format!("{}: the same by the matrix alone", shape(series));
                let permitted = permitted(series, other);
                section
                    .comparisons
                    .push(Comparison::computed(what, "x", permitted));
            }
        }
    }
    let aborts: Vec<f64> = found
        .iter()
        .map(|series| 100.0 * series.peak().result.abort_rate)
        .collect();
    let mean = aborts.iter().sum::<f64>() / aborts.len().max(1) as f64;
    for (what, target) in [
        (
            "attempts that abort, mean of all points",
            Target::AtLeast(least),
        ),
        ("the same", Target::AtMost(most)),
    ] {
        let compared = Comparison::simulated(what, "%", mean);
        section.comparisons.push(compared.aimed_at(target));
    }
    section.comparisons.extend(rates(&found));
    section.runs = found.iter().flat_map(Series::lines).collect();
    Ok(section)
}
