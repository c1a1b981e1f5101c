//! §5.3: what blocked writes cost. Of some transactions the commits are never sent: their clients are
//! answered, and the participants end them by themselves, by the termination protocol
//! (`docs/protocols/ramp.md`).

use super::measured::{Asked, Measured, Point};
use super::{Effort, measured_run, published};
use crate::experiment::{BLOCKED_AFTER, ProtocolChoice};
use crate::figure::{Axis, Chart, Comparison, Origin, Section, Series, Target, Tone};

/// The table is RAMP-F's alone.
const FAST: [ProtocolChoice; 1] = [ProtocolChoice::RampFast];

/// Writes alone, of which so many percent are blocked.
fn point(percent: f64) -> Point {
    Point {
        reads_percent: 0,
        blocked: (percent * 10_000.0).round() as u32,
        ..Point::DEFAULT
    }
}

/// What it needs.
pub(super) fn points(effort: &Effort) -> Vec<Asked> {
    let percents = published::BLOCKED.iter().map(|(percent, _)| *percent);
    let all = std::iter::once(0.0).chain(percents);
    all.map(|percent| (point(percent), effort.long, &FAST[..]))
        .collect()
}

/// The section.
pub(super) fn section(effort: &Effort, measured: &Measured) -> Section {
    let [fast] = FAST;
    let left = |percent| measured.over((point(percent), fast), (point(0.0), fast));
    let comparisons = published::BLOCKED.iter().map(|(percent, published)| {
        let what = format!("RAMP-F, {percent}% of writes blocked, of none blocked");
        let found = Comparison::new(what, "x", left(*percent), Origin::Measured);
        let found = found.beside(*published);
        match *percent {
            0.1 => found.aimed_at(Target::AtLeast(0.9986)),
            50.0 => found.aimed_at(Target::AtLeast(0.68)),
            _ => found,
        }
    });
    let line = |origin, tone, value: &dyn Fn(f64, f64) -> f64| Series {
        name: "RAMP-F".into(),
        origin,
        tone,
        points: published::BLOCKED
            .iter()
            .map(|(percent, published)| (*percent, value(*percent, *published)))
            .collect(),
    };
    let percents = published::BLOCKED.iter().map(|(percent, _)| *percent);
    let runs = std::iter::once(0.0).chain(percents).map(|percent| {
        let point = point(percent);
        measured_run(
            format!("{percent}% blocked"),
            point,
            fast,
            measured.of(point, fast),
        )
    });
    Section {
        title: "§5.3: blocked writes".into(),
        text: vec![format!(
            "Writes alone. Of a share of them no commit is sent, as if their clients had died; the participants \
             wait for {} ms (the paper's for 5 s, in runs of a minute) and then ask each other.",
            BLOCKED_AFTER.as_millis()
        )],
        parameters: vec![
            ("clients".into(), Point::DEFAULT.clients.to_string()),
            (
                "rounds, of which the median counts".into(),
                effort.long.rounds.to_string(),
            ),
            (
                "milliseconds of each".into(),
                effort.long.millis.to_string(),
            ),
        ],
        charts: vec![Chart {
            name: "blocked-writes".into(),
            title: "Blocked writes (§5.3)".into(),
            x: Axis::logarithmic("blocked writes, in percent"),
            y: Axis::linear("throughput, of none blocked"),
            series: vec![
                line(Origin::Measured, Tone::Avoiding, &|percent, _| {
                    left(percent)
                }),
                line(Origin::Published, Tone::Avoiding, &|_, published| published),
            ],
            levels: Vec::new(),
        }],
        comparisons: comparisons.collect(),
        runs: runs.collect(),
    }
}
