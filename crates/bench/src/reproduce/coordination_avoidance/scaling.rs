//! Figure 6: New-Orders on more and more servers, one warehouse each.
//!
//! Two hundred servers of sixteen cores do a hundred million orders a second, too many events to simulate for
//! long enough. So two cores of each server are simulated, and rates are compared by core.

use anabranch_sim::ProtocolName;

use super::super::simulation::{Database, Job, Results};
use super::{Effort, new_order, published, run_line};
use crate::figure::{Axis, Chart, Comparison, Origin, Section, Series, Target, Tone};

fn job(effort: &Effort, servers: u16) -> Job {
    Job {
        servers,
        cores: effort.cores_each,
        database: Database::Warehouses {
            each: 1,
            items: effort.items_each,
        },
        transactions: effort.orders_each * u64::from(servers),
        ..new_order::specified(effort, ProtocolName::RampFast, effort.clients_each)
    }
}

/// The runs that the figure needs.
pub(super) fn jobs(effort: &Effort) -> Vec<Job> {
    let each = effort.servers.iter();
    each.map(|servers| job(effort, *servers)).collect()
}

/// New-Orders a second on so many servers.
fn rate(effort: &Effort, results: &Results, servers: u16) -> f64 {
    results.of(&job(effort, servers)).per_second
}

/// New-Orders a second of a core of so many servers.
fn core_rate(effort: &Effort, results: &Results, servers: u16) -> f64 {
    rate(effort, results, servers) / f64::from(servers * effort.cores_each)
}

/// The published rate of a core of most servers, and of Figure 5's eight.
fn published_core_rates() -> [f64; 2] {
    let (most, rate) = published::SCALED;
    let core = |rate, servers: u16| rate / f64::from(servers * published::CORES);
    [
        core(rate, most),
        core(published::ORDERS, published::SERVERS),
    ]
}

/// The figure.
pub(super) fn section(effort: &Effort, results: &Results) -> Section {
    Section {
        title: "Figure 6: scaling out".into(),
        text: vec![
            "One warehouse a server, one order in ten distributed, and the same number of clients for each \
             server. Two cores of each server are simulated: two hundred servers of sixteen make more events than \
             can be simulated for long enough. So rates are compared by core. All servers are in one datacenter; \
             the paper's deployment spanned three from a hundred servers on, and each did somewhat less there."
                .into(),
        ],
        parameters: vec![
            ("cores of a server".into(), effort.cores_each.to_string()),
            ("clients of a server".into(), effort.clients_each.to_string()),
            ("items".into(), effort.items_each.to_string()),
            ("transactions counted for each server".into(), effort.orders_each.to_string()),
        ],
        charts: charts(effort, results),
        comparisons: comparisons(effort, results),
        runs: effort
            .servers
            .iter()
            .map(|servers| {
                let job = job(effort, *servers);
                run_line(format!("{servers} servers"), &job, results.of(&job))
            })
            .collect(),
    }
}

fn comparisons(effort: &Effort, results: &Results) -> Vec<Comparison> {
    let first = effort.servers[0];
    let last = effort.servers[effort.servers.len() - 1];
    let is_published = last == published::SCALED.0;
    let [published_last, published_first] = published_core_rates();
    let core = |servers| core_rate(effort, results, servers);
    vec![
        Comparison::simulated(format!("a core, of {last} servers"), "/s", core(last))
            .beside(is_published.then_some(published_last)),
        Comparison::simulated(
            format!("a core of {last} servers over one of {first}"),
            "x",
            core(last) / core(first),
        )
        .beside(is_published.then_some(published_last / published_first))
        .aimed_at(Target::AtLeast(0.95)),
    ]
}

fn charts(effort: &Effort, results: &Results) -> Vec<Chart> {
    let points = |value: &dyn Fn(u16) -> f64| -> Vec<(f64, f64)> {
        let all = effort.servers.iter();
        all.map(|servers| (f64::from(*servers), value(*servers)))
            .collect()
    };
    let first = core_rate(effort, results, effort.servers[0]);
    let linear = |servers| first * f64::from(servers) * f64::from(effort.cores_each);
    let [published_last, published_first] = published_core_rates();
    vec![
        chart(
            "figure-6",
            "Scaling out, two cores a server (Figure 6)",
            "New-Orders a second",
            vec![
                Series {
                    name: "linear from the first".into(),
                    origin: Origin::Computed,
                    tone: Tone::Neutral,
                    points: points(&linear),
                },
                avoiding(
                    Origin::Simulated,
                    points(&|servers| rate(effort, results, servers)),
                ),
            ],
        ),
        chart(
            "figure-6-core",
            "A core of so many servers (Figure 6)",
            "New-Orders a second and core",
            vec![
                avoiding(
                    Origin::Simulated,
                    points(&|servers| core_rate(effort, results, servers)),
                ),
                avoiding(
                    Origin::Published,
                    vec![
                        (f64::from(published::SERVERS), published_first),
                        (f64::from(published::SCALED.0), published_last),
                    ],
                ),
            ],
        ),
    ]
}

fn avoiding(origin: Origin, points: Vec<(f64, f64)>) -> Series {
    Series {
        name: "coordination-avoiding".into(),
        origin,
        tone: Tone::Avoiding,
        points,
    }
}

fn chart(name: &str, title: &str, y: &str, series: Vec<Series>) -> Chart {
    Chart {
        name: name.into(),
        title: title.into(),
        x: Axis::linear("servers"),
        y: Axis::linear(y),
        series,
        levels: Vec::new(),
    }
}
