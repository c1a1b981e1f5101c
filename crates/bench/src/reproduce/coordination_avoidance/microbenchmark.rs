//! Figure 1: transactions that write one to eight of eight registers, each on a server of its own.
//!
//! The paper fills its servers with 2,048 clients each. That many transactions over several servers are too
//! many events to simulate, so there are fewer clients. Without locks no transaction waits for another:
//! there the throughput is divided by the share of the time that servers are busy. Under locking the
//! registers are the limit, and they are locked all the time.

use anabranch_sim::{ProtocolName, Throughput};

use super::super::simulation::{Calls, Database, Job, Results};
use super::{Effort, MEDIAN_ROUND_TRIP_MICROS, label, published, run_line, tone};
use crate::figure::{Axis, Chart, Comparison, Origin, Section, Series};

/// The most virtual milliseconds to count: locks over eight servers admit a few hundred transactions a second.
const MILLIS_MAX: u64 = 2_000;

const PROTOCOLS: [ProtocolName; 3] = [
    ProtocolName::RampFast,
    ProtocolName::Nwnr,
    ProtocolName::Locking,
];

/// The runs of a point with several numbers of clients, of which the best counts.
fn choices(effort: &Effort, protocol: ProtocolName, span: usize) -> Vec<Job> {
    let [free, locking] = effort.writers_distributed;
    let clients = match (span, protocol) {
        (1, _) => std::slice::from_ref(&effort.writers),
        (_, ProtocolName::Locking) => locking,
        _ => free,
    };
    let job = |clients: &u32| Job {
        servers: published::SERVERS,
        cores: effort.cores,
        database: Database::Registers,
        calls: Calls::Writes(span),
        protocol,
        clients: *clients,
        blocked: 0,
        round_trip_micros: MEDIAN_ROUND_TRIP_MICROS,
        transactions: effort.writes,
        millis_max: MILLIS_MAX,
    };
    clients.iter().map(job).collect()
}

/// The runs that the figure needs.
pub(super) fn jobs(effort: &Effort) -> Vec<Job> {
    let each = effort
        .spans
        .iter()
        .flat_map(|span| PROTOCOLS.map(|protocol| (protocol, *span)));
    each.flat_map(|(protocol, span)| choices(effort, protocol, span))
        .collect()
}

/// The throughput of saturated servers.
fn saturated(protocol: ProtocolName, found: &Throughput) -> f64 {
    match (protocol, found.utilization) {
        (ProtocolName::Locking, _) | (_, None) => found.per_second,
        (_, Some(busy)) => found.per_second / busy,
    }
}

/// The figure.
pub(super) fn section(effort: &Effort, results: &Results) -> Section {
    let rate = |protocol, span| {
        let choices = choices(effort, protocol, span);
        saturated(protocol, results.best(&choices).1)
    };
    let runs = jobs(effort);
    Section {
        title: "Figure 1: what coordination costs transactions of growing size".into(),
        text: vec![
            "Eight registers on eight servers; a transaction writes one at its own server and the others at \
             random. Without coordination the processors are the limit; under locking every transaction holds \
             its registers over a round trip to each server, in order, and two for the commit."
                .into(),
            "Fewer clients than the paper's saturate no server when a transaction spans several. Without locks \
             no transaction waits for another, so the throughput of partly busy servers is divided by the share \
             of the time that they are busy (the table of runs has both)."
                .into(),
            "The published points for eight items follow from the paper's text: a linear decrease, and a drop \
             by more than three orders of magnitude."
                .into(),
        ],
        parameters: vec![
            ("servers".into(), published::SERVERS.to_string()),
            (
                "clients of each server".into(),
                format!(
                    "{} for one item; for more {:?}, and the best of {:?} under locking",
                    effort.writers, effort.writers_distributed[0], effort.writers_distributed[1]
                ),
            ),
            ("transactions counted".into(), effort.writes.to_string()),
        ],
        charts: vec![Chart {
            name: "figure-1".into(),
            title: "Writes to one to eight servers (Figure 1)".into(),
            x: Axis::linear("items written, each on another server"),
            y: Axis::logarithmic("transactions a second"),
            series: series(effort, &rate),
            levels: Vec::new(),
        }],
        comparisons: comparisons(effort, &rate),
        runs: runs
            .iter()
            .map(|job| {
                let what = match job.calls {
                    Calls::Writes(span) => format!("writes to {span}"),
                    _ => String::new(),
                };
                run_line(what, job, results.of(job))
            })
            .collect(),
    }
}

fn comparisons(effort: &Effort, rate: &dyn Fn(ProtocolName, usize) -> f64) -> Vec<Comparison> {
    let (free, locking) = (ProtocolName::RampFast, ProtocolName::Locking);
    let last = effort.spans[effort.spans.len() - 1];
    let drop = |protocol| rate(protocol, 1) / rate(protocol, last);
    vec![
        Comparison::simulated("one item, without coordination", "/s", rate(free, 1))
            .beside(published::WRITES_FREE),
        Comparison::simulated("one item, two-phase locking", "/s", rate(locking, 1))
            .beside(published::WRITES_LOCKING),
        Comparison::simulated(
            "one item, the first over the second",
            "x",
            rate(free, 1) / rate(locking, 1),
        )
        .beside(published::WRITES_FREE / published::WRITES_LOCKING),
        Comparison::simulated(
            format!("from one item to {last}, without coordination: falls by"),
            "x",
            drop(free),
        )
        .beside(published::WRITES_FREE_DROP),
        Comparison::simulated(
            format!("from one item to {last}, two-phase locking: falls by"),
            "x",
            drop(locking),
        )
        .beside(published::WRITES_LOCKING_DROP),
        Comparison::simulated(
            format!("{last} items, the first over the second"),
            "x",
            rate(free, last) / rate(locking, last),
        ),
    ]
}

fn series(effort: &Effort, rate: &dyn Fn(ProtocolName, usize) -> f64) -> Vec<Series> {
    let line = |protocol: ProtocolName, origin, points| Series {
        name: label(protocol).into(),
        origin,
        tone: tone(protocol),
        points,
    };
    let simulated = PROTOCOLS.iter().map(|protocol| {
        let spans = effort.spans.iter();
        let points = spans.map(|span| (*span as f64, rate(*protocol, *span)));
        line(*protocol, Origin::Simulated, points.collect())
    });
    let published = [
        (
            ProtocolName::RampFast,
            published::WRITES_FREE,
            published::WRITES_FREE_DROP,
        ),
        (
            ProtocolName::Locking,
            published::WRITES_LOCKING,
            published::WRITES_LOCKING_DROP,
        ),
    ]
    .map(|(protocol, first, drop)| {
        let points = vec![(1.0, first), (8.0, first / drop)];
        line(protocol, Origin::Published, points)
    });
    simulated.chain(published).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_without_locks_is_scaled_to_busy_servers() {
        let found = Throughput {
            committed: 1,
            per_second: 100.0,
            retries: 0.0,
            messages: 0.0,
            mean_ms: 1.0,
            p99_ms: 1.0,
            utilization: Some(0.25),
            usage: Default::default(),
            lock_wait_nanos: 0.0,
            events: 1,
            trace: 0,
        };
        assert_eq!(saturated(ProtocolName::RampFast, &found), 400.0);
        assert_eq!(saturated(ProtocolName::Locking, &found), 100.0);
    }
}
