//! Figures 2(a) and 2(b): latency and throughput by clients.

use super::load::{
    Found, Point, Series, Spread, System, Task, Traffic, Warehouses, millis, run_all,
};
use super::{Context, ReproduceError, published};
use crate::figure::{self, Axis, Chart, Comparison, Origin, Section};

/// Two charts over the clients of each site: mean latency and throughput.
fn charts(number: &str, subject: &str, found: &[Series]) -> Vec<Chart> {
    let chart = |kind: &str, label: &str, of: &dyn Fn(&Found) -> f64| {
        let line = |series: &Series| figure::Series {
            name: series.point.system.name().into(),
            origin: Origin::Simulated,
            tone: series.point.system.tone(),
            points: series
                .runs
                .iter()
                .map(|run| (f64::from(run.load.clients), of(run)))
                .collect(),
        };
        Chart {
            name: format!("figure-{number}-{kind}"),
            title: format!("{subject}: {kind} (Figure {number})"),
            x: Axis::linear("clients of each site"),
            y: Axis::linear(label),
            series: found.iter().map(line).collect(),
            levels: Vec::new(),
        }
    };
    vec![
        chart("latency", "mean latency, ms", &|run| {
            millis(run.result.all.mean)
        }),
        chart("throughput", "transactions a second", &|run| {
            run.result.all_per_second()
        }),
    ]
}

fn run(
    context: &Context<'_>,
    regions: u16,
    systems: &[System],
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Series>, ReproduceError> {
    let task = |system: &System| Task {
        point: Point {
            traffic: Traffic::Tpcc {
                reads: published::READS,
                warehouses: Warehouses::OfNodes,
            },
            system: *system,
            regions,
            nodes: 1,
        },
        clients: context.settings.effort.clients_of_latency.to_vec(),
        all: true,
        batches: true,
        spread: Spread::Periods,
        millis: context.settings.effort.millis,
    };
    run_all(context, systems.iter().map(task).collect(), progress)
}

/// The mean latency of a run.
fn mean(run: &Found) -> f64 {
    millis(run.result.all.mean)
}

/// Figure 2(a): 5 sites.
pub(super) fn clients(
    context: &Context<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    progress("simulating Figure 2(a)");
    let systems = [
        System::AlvinSr,
        System::AlvinFast,
        System::Epaxos,
        System::PaxosLow,
    ];
    let found = run(context, 5, &systems, progress)?;
    let mut section = Section {
        title: "Figure 2(a): latency and throughput by clients, TPC-C, 5 sites".into(),
        text: vec![
            "The workload of Figure 1(a). The paper leaves MultiPaxos out of its plot, \"3x slower than the other competitors\"; \
             here it is, led from the site with the lowest mean latency."
                .into(),
            "A latency is the time from a call to its answer, retries included: under contention most of it is retries.".into(),
        ],
        charts: charts("2a", "TPC-C, 5 sites", &found),
        ..Section::default()
    };
    let [alvin, fast, epaxos, paxos] = &found[..] else {
        unreachable!("there is a series for each system")
    };
    // The first number of clients after which the rate grows by less than 2%.
    let saturates = |series: &Series| {
        let pairs = series.runs.iter().zip(series.runs.iter().skip(1));
        let mut stopped = pairs.filter(|(one, next)| {
            next.result.all_per_second() < 1.02 * one.result.all_per_second()
        });
        let last = series.runs.last().expect("there is a run");
        f64::from(stopped.next().map_or(last, |(one, _)| one).load.clients)
    };
    let (epaxos_stops, alvin_stops) = published::SATURATE;
    for (series, printed) in [
        (alvin, alvin_stops),
        (fast, alvin_stops),
        (epaxos, epaxos_stops),
    ] {
        let name = series.point.system.name();
        section.comparisons.push(
            Comparison::simulated(
                format!("{name}: the rate grows until, clients of each site"),
                "",
                saturates(series),
            )
            .beside(f64::from(printed)),
        );
        let most = series.runs.last().expect("there is a run");
        let what = format!("{name}: mean latency with {} clients", most.load.clients);
        section
            .comparisons
            .push(Comparison::simulated(what, "ms", mean(most)));
    }
    for series in [alvin, fast, epaxos] {
        let what = format!("{} over Paxos-LO", series.point.system.name());
        let ratio = series.rate() / paxos.rate().max(1e-9);
        section
            .comparisons
            .push(Comparison::simulated(what, "x", ratio).beside(published::OVER_MULTIPAXOS));
    }
    section.runs = found.iter().flat_map(Series::lines).collect();
    Ok(section)
}

/// Figure 2(b): 7 sites, with and without fast decisions.
pub(super) fn fast_decisions(
    context: &Context<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    progress("simulating Figure 2(b)");
    let found = run(context, 7, &[System::AlvinSr, System::AlvinFast], progress)?;
    let mut section = Section {
        title: "Figure 2(b): ALVIN with and without fast decisions, TPC-C, 7 sites".into(),
        text: vec![
            "The workload of Figure 1(a). The paper's fast quorum has 5 of 7 sites; ours has all, since a smaller one decides \
             twice. A leader whose majority agrees waits for the others, and if one has seen a conflict it needs another round \
             trip: without fast decisions it never waits for the farthest site."
                .into(),
        ],
        charts: charts("2b", "ALVIN, TPC-C, 7 sites", &found),
        ..Section::default()
    };
    let [classic, fast] = &found[..] else {
        unreachable!("there is a series for each system")
    };
    let mut most = f64::MIN;
    for (classic, fast) in classic.runs.iter().zip(&fast.runs) {
        let saved = mean(fast) - mean(classic);
        most = most.max(saved);
        let what = format!(
            "{} clients of each site: saved without fast decisions",
            classic.load.clients
        );
        section
            .comparisons
            .push(Comparison::simulated(what, "ms", saved));
    }
    section.comparisons.push(
        Comparison::simulated("saved without fast decisions, at most", "ms", most)
            .beside(published::SAVED_MS),
    );
    section.runs = found.iter().flat_map(Series::lines).collect();
    Ok(section)
}
