//! Figure 6: New-Orders on more and more servers, one warehouse each.
//!
//! Two hundred servers of sixteen cores do a hundred million orders a second, more than can be simulated
//! for long enough. So of each server two cores are simulated, and rates are compared a core.

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

/// The figure.
pub(super) fn section(effort: &Effort, results: &Results) -> Section {
    let rate = |servers: u16| results.of(&job(effort, servers)).per_second;
    let each = |servers: u16| rate(servers) / f64::from(servers * effort.cores_each);
    let first = effort.servers[0];
    let last = effort.servers[effort.servers.len() - 1];
    let (most, published_rate) = published::SCALED;
    let alike = last == most;
    let published_each = published_rate / f64::from(most * published::CORES);
    let published_first = published::ORDERS / f64::from(published::SERVERS * published::CORES);
    let comparisons = vec![
        Comparison::simulated(format!("a core, of {last} servers"), "/s", each(last))
            .beside(alike.then_some(published_each)),
        Comparison::simulated(
            format!("a core of {last} servers over one of {first}"),
            "x",
            each(last) / each(first),
        )
        .beside(alike.then_some(published_each / published_first))
        .aimed_at(Target::AtLeast(0.95)),
    ];
    let line = |name: &str, origin, tone, points| Series {
        name: name.into(),
        origin,
        tone,
        points,
    };
    let points = |value: &dyn Fn(u16) -> f64| -> Vec<(f64, f64)> {
        let all = effort.servers.iter();
        all.map(|servers| (f64::from(*servers), value(*servers)))
            .collect()
    };

    let chart = |name: &str, title: &str, y: Axis, series| Chart {
        name: name.into(),
        title: title.into(),
        x: Axis::linear("servers"),
        y,
        series,
        levels: Vec::new(),
    };
    Section {
        title: "Figure 6: scaling out".into(),
        text: vec![
            "One warehouse a server, one order in ten distributed, and as many clients a server however many \
             there are. Two cores of each are simulated: two hundred servers of sixteen do more than can be \
             followed for long enough. So rates are compared a core. All servers are in one datacenter: the paper's deployment spanned three from a \
             hundred servers on, and each did somewhat less there."
                .into(),
        ],
        parameters: vec![
            ("cores of a server".into(), effort.cores_each.to_string()),
            ("clients a server".into(), effort.clients_each.to_string()),
            ("items".into(), effort.items_each.to_string()),
            ("transactions counted a server".into(), effort.orders_each.to_string()),
        ],
        charts: vec![
            chart(
                "figure-6",
                "Scaling out, two cores a server (Figure 6)",
                Axis::linear("New-Orders a second"),
                vec![
                    line(
                        "linear from the first",
                        Origin::Computed,
                        Tone::Neutral,
                        points(&|servers| {
                            each(first) * f64::from(servers) * f64::from(effort.cores_each)
                        }),
                    ),
                    line(
                        "coordination-avoiding",
                        Origin::Simulated,
                        Tone::Avoiding,
                        points(&rate),
                    ),
                ],
            ),
            chart(
                "figure-6-core",
                "A core of so many servers (Figure 6)",
                Axis::linear("New-Orders a second and core"),
                vec![
                    line(
                        "coordination-avoiding",
                        Origin::Simulated,
                        Tone::Avoiding,
                        points(&each),
                    ),
                    line(
                        "coordination-avoiding",
                        Origin::Published,
                        Tone::Avoiding,
                        vec![
                            (f64::from(published::SERVERS), published_first),
                            (f64::from(most), published_each),
                        ],
                    ),
                ],
            ),
        ],
        comparisons,
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
