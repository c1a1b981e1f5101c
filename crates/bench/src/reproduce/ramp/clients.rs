//! Figure 4: five servers under more and more clients, up to the paper's ten thousand. Simulated.

use anabranch_sim::ProtocolName;

use super::super::simulation::{Calls, Database, Job, MEDIAN_ROUND_TRIP_MICROS, Results, run_line};
use super::{Effort, SIMULATED, label, published, tone};
use crate::figure::{Axis, Chart, Comparison, Origin, Section, Series, Target};

fn job(effort: &Effort, protocol: ProtocolName, clients: u32) -> Job {
    Job {
        servers: published::SERVERS,
        cores: published::CORES,
        database: Database::Items {
            each: effort.items_all / u32::from(published::SERVERS),
        },
        calls: Calls::Items {
            length: 4,
            reads_percent: 95,
            uniform: false,
        },
        protocol,
        clients: clients / u32::from(published::SERVERS),
        blocked: 0,
        round_trip_micros: MEDIAN_ROUND_TRIP_MICROS,
        // Few clients, and locks, need fewer transactions.
        transactions: effort.transactions.min(u64::from(clients) * 200),
        millis_max: effort.millis_max,
    }
}

/// A run of Figure 4 in which all transactions write.
pub(super) fn writes(effort: &Effort, protocol: ProtocolName, clients: u32) -> Job {
    Job {
        calls: Calls::Items {
            length: 4,
            reads_percent: 0,
            uniform: false,
        },
        ..job(effort, protocol, clients)
    }
}

/// The runs that the section needs.
pub(super) fn jobs(effort: &Effort) -> Vec<Job> {
    let each = effort.clients.iter().flat_map(|clients| {
        SIMULATED
            .iter()
            .map(|protocol| job(effort, *protocol, *clients))
    });
    each.collect()
}

/// The section of the report.
pub(super) fn section(effort: &Effort, results: &Results) -> Section {
    let of = |protocol, clients| results.of(&job(effort, protocol, clients));
    let rate = |protocol, clients| of(protocol, clients).per_second;
    let lines = |y: &dyn Fn(ProtocolName, u32) -> f64| {
        let line = |protocol: &ProtocolName| Series {
            name: label(protocol.name()).into(),
            origin: Origin::Simulated,
            tone: tone(protocol.name()),
            points: effort
                .clients
                .iter()
                .map(|clients| (f64::from(*clients), y(*protocol, *clients)))
                .collect(),
        };
        SIMULATED.iter().map(line).collect::<Vec<Series>>()
    };
    let chart = |name: &str, title: &str, y: &str, series| Chart {
        name: name.into(),
        title: title.into(),
        x: Axis::logarithmic("clients, on five servers"),
        y: Axis::logarithmic(y),
        series,
        levels: Vec::new(),
    };
    let runs = effort.clients.iter().flat_map(|clients| {
        SIMULATED.iter().map(move |protocol| {
            let job = job(effort, *protocol, *clients);
            run_line(format!("{clients} clients"), &job, results.of(&job))
        })
    });
    Section {
        title: "Figure 4: clients".into(),
        text: vec![
            "Five servers, transactions of four operations over a million items by Zipf's law, 95 of 100 \
             reading, values of a byte; each client makes its next call when the last one has returned. Our \
             servers do more with a core than the paper's, so that ten thousand clients load them less. More \
             clients mean more transactions in flight, and more of them need the same lock."
                .into(),
        ],
        parameters: vec![
            ("servers".into(), published::SERVERS.to_string()),
            ("cores of each".into(), published::CORES.to_string()),
            ("items".into(), effort.items_all.to_string()),
            ("transactions counted, at most".into(), effort.transactions.to_string()),
        ],
        charts: vec![
            chart(
                "figure-4-throughput",
                "Throughput (Figure 4)",
                "transactions a second",
                lines(&rate),
            ),
            chart(
                "figure-4-latency",
                "Latency (Figure 4)",
                "mean milliseconds",
                lines(&|protocol, clients| of(protocol, clients).mean_ms),
            ),
        ],
        comparisons: comparisons(effort, &rate, &|protocol, clients| {
            of(protocol, clients).mean_ms
        }),
        runs: runs.collect(),
    }
}

fn comparisons(
    effort: &Effort,
    rate: &dyn Fn(ProtocolName, u32) -> f64,
    mean_ms: &dyn Fn(ProtocolName, u32) -> f64,
) -> Vec<Comparison> {
    let most = effort.clients[effort.clients.len() - 1];
    let over_at = |protocol, clients| rate(protocol, clients) / rate(ProtocolName::Nwnr, clients);
    let over = |protocol| over_at(protocol, most);
    let mut found = Vec::new();
    let usual = published::CLIENTS;
    if usual < most && effort.clients.contains(&usual) {
        for (protocol, share) in [
            (ProtocolName::RampFast, published::FAST),
            (ProtocolName::RampHybrid, published::FAST),
            (ProtocolName::RampSmall, published::SMALL),
        ] {
            let what = format!("{} over NWNR, {usual} clients", label(protocol.name()));
            let found_there = Comparison::simulated(what, "x", over_at(protocol, usual));
            found.push(found_there.aimed_at(Target::AtLeast(share)));
        }
    }
    for (protocol, share) in [
        (ProtocolName::RampFast, published::FAST),
        (ProtocolName::RampHybrid, published::FAST),
        (ProtocolName::RampSmall, published::SMALL),
    ] {
        let what = format!("{} over NWNR, {most} clients", label(protocol.name()));
        found.push(
            Comparison::simulated(what, "x", over(protocol))
                .beside(share)
                .aimed_at(Target::AtLeast(share)),
        );
    }
    found.push(
        Comparison::simulated(
            format!("LWLR over NWNR, {most} clients"),
            "x",
            over(ProtocolName::Locking),
        )
        .beside(published::LONG_LOCKS),
    );
    found.push(
        Comparison::simulated(
            format!("RAMP-F over LWLR, {most} clients"),
            "x",
            rate(ProtocolName::RampFast, most) / rate(ProtocolName::Locking, most),
        )
        .beside(published::FAST / published::LONG_LOCKS)
        .aimed_at(Target::AtLeast(25.0)),
    );
    let peak = effort
        .clients
        .iter()
        .map(|clients| rate(ProtocolName::Locking, *clients));
    found.push(
        Comparison::simulated("LWLR, at its peak", "/s", peak.fold(0.0, f64::max))
            .beside(published::LONG_LOCKS_PEAK),
    );
    found.push(Comparison::simulated(
        format!("RAMP-F, {most} clients"),
        "/s",
        rate(ProtocolName::RampFast, most),
    ));
    let half = most / 2;
    if effort.clients.contains(&half) {
        let (fast, small) = published::LATENCY;
        for (protocol, published) in [
            (ProtocolName::RampFast, fast),
            (ProtocolName::RampHybrid, fast),
            (ProtocolName::RampSmall, small),
        ] {
            let what = format!("{}, mean latency, {half} clients", label(protocol.name()));
            found
                .push(Comparison::simulated(what, "ms", mean_ms(protocol, half)).beside(published));
        }
    }
    found
}
