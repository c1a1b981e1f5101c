//! Figure 6: more and more servers, items drawn uniformly. Simulated.
//!
//! Two cores of each server are simulated: a hundred servers of sixteen make too many events to simulate for
//! long enough. So servers are compared with each other, and RAMP with no concurrency control.

use anabranch_sim::ProtocolName;

use super::super::simulation::{Calls, Database, Job, MEDIAN_ROUND_TRIP_MICROS, Results, run_line};
use super::{Effort, label, published, tone};
use crate::figure::{Axis, Chart, Comparison, Origin, Section, Series, Target};

const PROTOCOLS: [ProtocolName; 4] = [
    ProtocolName::RampFast,
    ProtocolName::RampHybrid,
    ProtocolName::RampSmall,
    ProtocolName::Nwnr,
];

/// Cores of each server.
const CORES: u16 = 2;
/// From so many servers on, nearly all four items of a transaction are on different servers. It runs on one of
/// them, so that it involves 2.8 others; 2.9 with a hundred servers. With ten servers it involves 2.4, so that a
/// transaction is less work there, under any protocol.
const SPREAD: u16 = 25;
/// Clients of each server, enough to keep its cores busy.
const CLIENTS: u32 = 384;
/// Items of each server: the paper's million on a hundred servers, and equally many writers of an item everywhere.
const ITEMS: u32 = 10_000;

fn job(effort: &Effort, protocol: ProtocolName, servers: u16) -> Job {
    Job {
        servers,
        cores: CORES,
        database: Database::Items { each: ITEMS },
        calls: Calls::Items {
            length: 4,
            reads_percent: 95,
            uniform: true,
        },
        protocol,
        clients: CLIENTS,
        blocked: 0,
        round_trip_micros: MEDIAN_ROUND_TRIP_MICROS,
        transactions: effort.transactions_each * u64::from(servers),
        millis_max: 10_000,
    }
}

/// The runs that the section needs.
pub(super) fn jobs(effort: &Effort) -> Vec<Job> {
    let each = effort
        .servers
        .iter()
        .flat_map(|servers| PROTOCOLS.map(|protocol| job(effort, protocol, *servers)));
    each.collect()
}

/// The section of the report.
pub(super) fn section(effort: &Effort, results: &Results) -> Section {
    let of = |protocol, servers| results.of(&job(effort, protocol, servers));
    let each = |protocol, servers: u16| 4.0 * of(protocol, servers).per_second / f64::from(servers);
    let line = |protocol: &ProtocolName, y: &dyn Fn(ProtocolName, u16) -> f64| Series {
        name: label(protocol.name()).into(),
        origin: Origin::Simulated,
        tone: tone(protocol.name()),
        points: effort
            .servers
            .iter()
            .map(|servers| (f64::from(*servers), y(*protocol, *servers)))
            .collect(),
    };
    let chart = |name: &str, title: &str, y: &str, of: &dyn Fn(ProtocolName, u16) -> f64| Chart {
        name: name.into(),
        title: title.into(),
        x: Axis::linear("servers"),
        y: Axis::linear(y),
        series: PROTOCOLS
            .iter()
            .map(|protocol| line(protocol, of))
            .collect(),
        levels: Vec::new(),
    };
    let runs = effort.servers.iter().flat_map(|servers| {
        PROTOCOLS.map(|protocol| {
            let job = job(effort, protocol, *servers);
            run_line(format!("{servers} servers"), &job, results.of(&job))
        })
    });
    Section {
        title: "Figure 6: scaling out".into(),
        text: vec![format!(
            "Items are drawn uniformly, and each server has the same number of clients and items; on a hundred \
             servers there are the paper's million items. Two cores of each server are simulated. A transaction runs \
             where most of its items are. The more servers, the fewer items share one, so that it sends more \
             messages: beside its own server, four items are on 2.4 servers of ten, on 2.8 of twenty-five and on 2.9 \
             of a hundred; more servers hardly change that. So throughput is to be linear from {SPREAD} servers on. \
             On ten a transaction is less work, without concurrency control, too."
        )],
        parameters: vec![
            ("cores of a server".into(), CORES.to_string()),
            ("clients of a server".into(), CLIENTS.to_string()),
            ("items of a server".into(), ITEMS.to_string()),
            (
                "transactions counted for each server".into(),
                effort.transactions_each.to_string(),
            ),
        ],
        charts: vec![
            chart(
                "figure-6",
                "Scaling out, two cores a server (Figure 6)",
                "item operations a second",
                &|protocol, servers| 4.0 * of(protocol, servers).per_second,
            ),
            chart(
                "figure-6-server",
                "A server of so many (Figure 6)",
                "item operations a second and server",
                &each,
            ),
        ],
        comparisons: comparisons(effort, &each),
        runs: runs.collect(),
    }
}

fn comparisons(effort: &Effort, each: &dyn Fn(ProtocolName, u16) -> f64) -> Vec<Comparison> {
    let (most, published_each) = published::SCALED;
    let mut found = vec![
        Comparison::simulated(
            format!("RAMP-F, item operations a core of {most} servers"),
            "/s",
            each(ProtocolName::RampFast, most) / f64::from(CORES),
        )
        .beside(published_each / f64::from(published::CORES)),
    ];
    let (fast, hybrid, small) = published::SCALED_RATIOS;
    for (protocol, share) in [
        (ProtocolName::RampFast, fast),
        (ProtocolName::RampHybrid, hybrid),
        (ProtocolName::RampSmall, small),
    ] {
        let what = format!("{} over NWNR, {most} servers", label(protocol.name()));
        let over = each(protocol, most) / each(ProtocolName::Nwnr, most);
        found.push(Comparison::simulated(what, "x", over).beside(share));
    }
    let larger = effort.servers.iter().copied().filter(|s| *s >= most);
    for servers in larger {
        let smaller = effort.servers.iter().copied().filter(|s| *s < most);
        let smaller = smaller.filter(|s| *s <= SPREAD);
        for few in smaller {
            let over = |protocol| each(protocol, servers) / each(protocol, few);
            let what = format!("RAMP-F, a server of {servers} over one of {few}");
            let compared = Comparison::simulated(what, "x", over(ProtocolName::RampFast));
            found.push(match few {
                SPREAD => compared.aimed_at(Target::AtLeast(0.95)),
                _ => compared,
            });
            let what = format!("NWNR, a server of {servers} over one of {few}");
            found.push(Comparison::simulated(what, "x", over(ProtocolName::Nwnr)));
        }
    }
    found
}
