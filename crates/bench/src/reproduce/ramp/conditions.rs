//! Figure 5: reads, the length of transactions, the size of values and of the database vary, on the embedded
//! cluster. The paper's text does not describe its fifth panel; ours varies the skew of items.
//!
//! The embedded cluster has no network, so no transaction waits for a lock over a round trip. The paper's
//! contention is simulated in Figure 4.

use super::measured::{Measured, Point, Request};
use super::{Effort, MEASURED, label, measured_run, published, tone};
use crate::experiment::ProtocolChoice;
use crate::figure::{Axis, Chart, Comparison, Origin, Section, Series, Target};

/// A panel: its axis and its points.
struct Panel {
    name: &'static str,
    title: &'static str,
    x: Axis,
    points: Vec<(f64, Point)>,
}

/// The most bytes of all values together.
const VALUES_BYTES_MAX: u64 = 256 << 20;

fn panels(effort: &Effort) -> Vec<Panel> {
    let default = Point::DEFAULT;
    let reads = effort.reads.iter().map(|reads| {
        let reads_percent = *reads;
        (
            f64::from(*reads),
            Point {
                reads_percent,
                ..default
            },
        )
    });
    let lengths = effort.lengths.iter().map(|length| {
        let length = *length;
        (length as f64, Point { length, ..default })
    });
    let values = effort.values.iter().map(|bytes| {
        let value_bytes = *bytes;
        let items = (VALUES_BYTES_MAX / value_bytes.max(1) as u64).min(default.items);
        (
            *bytes as f64,
            Point {
                items,
                value_bytes,
                ..default
            },
        )
    });
    let items = effort.items.iter().map(|items| {
        let items = *items;
        (items as f64, Point { items, ..default })
    });
    let skews = effort.skews.iter().map(|skew| {
        let skew = *skew;
        (f64::from(skew) / 100.0, Point { skew, ..default })
    });
    vec![
        Panel {
            name: "figure-5-reads",
            title: "Read proportion (Figure 5)",
            x: Axis::linear("transactions that read, in percent"),
            points: reads.collect(),
        },
        Panel {
            name: "figure-5-length",
            title: "Transaction size (Figure 5)",
            x: Axis::logarithmic("operations of a transaction"),
            points: lengths.collect(),
        },
        Panel {
            name: "figure-5-values",
            title: "Value size (Figure 5)",
            x: Axis::logarithmic("bytes of a value"),
            points: values.collect(),
        },
        Panel {
            name: "figure-5-items",
            title: "Database size (Figure 5)",
            x: Axis::logarithmic("items"),
            points: items.collect(),
        },
        Panel {
            name: "figure-5-skew",
            title: "Skew (of our choice)",
            x: Axis::linear("Zipf's constant; 0: uniform"),
            points: skews.collect(),
        },
    ]
}

/// The points that the section needs.
pub(super) fn points(effort: &Effort) -> Vec<Request> {
    let all = panels(effort).into_iter().flat_map(|panel| panel.points);
    all.map(|(_, point)| (point, effort.short, &MEASURED[..]))
        .collect()
}

/// The section of the report.
pub(super) fn section(effort: &Effort, measured: &Measured) -> Section {
    let panels = panels(effort);
    let over = |point, protocol| measured.over((point, protocol), (point, ProtocolChoice::Nwnr));
    let charts = panels.iter().flat_map(|panel| {
        let lines = |y: &dyn Fn(Point, ProtocolChoice) -> f64| {
            let line = |protocol: &ProtocolChoice| Series {
                name: label(protocol.name()).into(),
                origin: Origin::Measured,
                tone: tone(protocol.name()),
                points: panel
                    .points
                    .iter()
                    .map(|(x, point)| (*x, y(*point, *protocol)))
                    .collect(),
            };
            MEASURED.iter().map(line).collect::<Vec<Series>>()
        };
        let chart = |suffix: &str, y: Axis, series| Chart {
            name: format!("{}{suffix}", panel.name),
            title: panel.title.into(),
            x: panel.x.clone(),
            y,
            series,
            levels: Vec::new(),
        };
        [
            chart(
                "",
                Axis::logarithmic("item operations a second"),
                lines(&|point, protocol| measured.rate(point, protocol)),
            ),
            chart(
                "-relative",
                Axis::linear("of no concurrency control"),
                lines(&over),
            ),
        ]
    });
    let charts = charts.collect();
    let runs = panels.iter().flat_map(|panel| {
        panel.points.iter().flat_map(|(x, point)| {
            let what = format!("{}: {x}", panel.title);
            MEASURED.map(|protocol| {
                measured_run(
                    what.clone(),
                    *point,
                    protocol,
                    measured.of(*point, protocol),
                )
            })
        })
    });
    Section {
        title: "Figure 5: reads, transactions, values, items and skew".into(),
        text: vec![
            "Each panel varies one parameter of the default workload, on this machine. The paper's text describes \
             the first four of its five panels; the parameter of the last one is our choice. The embedded cluster \
             has no network, so contention for locks over one is not measured; Figure 4 simulates it."
                .into(),
        ],
        parameters: vec![
            ("clients".into(), Point::DEFAULT.clients.to_string()),
            ("milliseconds of each run".into(), effort.short.millis.to_string()),
            ("rounds, of which the median counts".into(), effort.short.rounds.to_string()),
            (
                "items where values are large".into(),
                format!("as many as {} MiB hold", VALUES_BYTES_MAX >> 20),
            ),
        ],
        charts,
        comparisons: comparisons(&panels, measured, &over),
        runs: runs.collect(),
    }
}

fn comparisons(
    panels: &[Panel],
    measured: &Measured,
    over: &dyn Fn(Point, ProtocolChoice) -> f64,
) -> Vec<Comparison> {
    let found = |what: String, value| Comparison::new(what, "x", value, Origin::Measured);
    let [reads, _, values, items, skews] = panels else {
        unreachable!("there are five panels")
    };
    let (first, last) = (
        |panel: &Panel| panel.points[0].1,
        |panel: &Panel| panel.points[panel.points.len() - 1].1,
    );
    let ramps = [
        ProtocolChoice::RampFast,
        ProtocolChoice::RampHybrid,
        ProtocolChoice::RampSmall,
    ];
    let mut all = Vec::new();
    for protocol in ramps {
        let name = label(protocol.name());
        let writes = over(first(reads), protocol);
        all.push(
            found(format!("{name} over NWNR, writes alone"), writes)
                .beside(published::WRITES_ALONE),
        );
    }
    all.push(
        found(
            "RAMP-F over NWNR, reads alone".into(),
            over(last(reads), ramps[0]),
        )
        .beside(1.0),
    );
    let bytes = first(values).value_bytes;
    all.push(
        found(
            format!("RAMP-F over NWNR, values of {bytes} B"),
            over(first(values), ramps[0]),
        )
        .beside((bytes == 1).then_some(published::ONE_BYTE)),
    );
    let fallen = measured.rate(first(values), ramps[0]) / measured.rate(last(values), ramps[0]);
    let large = last(values).value_bytes;
    all.push(
        found(
            format!("RAMP-F falls from values of {bytes} B to {large} B by"),
            fallen,
        )
        .beside((large == 100_000).then_some(published::LARGE_VALUES_DROP)),
    );
    let few = first(items).items;
    all.push(
        found(
            format!("RAMP-F over NWNR, {few} items"),
            over(first(items), ramps[0]),
        )
        .beside((few == 1_000).then_some(published::FEW_ITEMS)),
    );
    for (which, panel) in [("uniformly", first(skews)), ("with most skew", last(skews))] {
        all.push(found(
            format!("RAMP-F over NWNR, items drawn {which}"),
            over(panel, ramps[0]),
        ));
    }
    for protocol in [ProtocolChoice::RampFast, ProtocolChoice::RampHybrid] {
        let points = panels.iter().flat_map(|panel| &panel.points);
        let least = points
            .map(|(_, point)| over(*point, protocol))
            .fold(f64::INFINITY, f64::min);
        all.push(
            found(
                format!("{} over NWNR, at least", label(protocol.name())),
                least,
            )
            .beside(published::LEAST)
            .aimed_at(Target::AtLeast(published::LEAST)),
        );
    }
    all
}
