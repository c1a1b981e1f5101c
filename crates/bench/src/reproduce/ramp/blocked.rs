//! §5.3: what blocked writes cost. Of some transactions the commits are never sent: their clients are
//! answered, and the participants end them by themselves, by the termination protocol
//! (`docs/protocols/ramp.md`).
//!
//! Measured on the embedded cluster. What one blocked write in a thousand costs is less than a run differs
//! from the next on a machine that others use as well, so that the few are simulated besides, on the
//! paper's servers under its clients. (The many are not: the calibration has no costs of asking.)

use anabranch_sim::ProtocolName;

use super::super::simulation::{Job, Results, run_line};
use super::measured::{Asked, Measured, Point};
use super::{Effort, clients, measured_run, published};
use crate::experiment::{BLOCKED_AFTER, ProtocolChoice};
use crate::figure::{Axis, Chart, Comparison, Origin, Section, Series, Target, Tone};

/// The table is RAMP-F's alone.
const FAST: [ProtocolChoice; 1] = [ProtocolChoice::RampFast];

/// For how many milliseconds participants wait, where that is what varies: with half of all writes blocked.
const PATIENCES: [u64; 4] = [3, 10, 30, 100];
const MOST: f64 = 50.0;
/// Up to so many percent are few, of which at least so much of the throughput is to be left.
const FEW: f64 = 0.1;
const LEFT_OF_FEW: f64 = 0.9986;

/// Half of the writes are blocked, and participants wait for so many milliseconds.
fn patient(millis: u64) -> Point {
    Point {
        patience: millis,
        ..point(MOST)
    }
}

/// Writes alone, of which so many percent are blocked.
fn point(percent: f64) -> Point {
    Point {
        reads_percent: 0,
        blocked: (percent * 10_000.0).round() as u32,
        ..Point::DEFAULT
    }
}

/// Few blocked writes, in percent, and what the paper had left: these are simulated, beside none.
fn few() -> impl Iterator<Item = (f64, f64)> {
    let all = published::BLOCKED.into_iter();
    all.filter(|(percent, _)| *percent <= FEW)
}

/// The percents of which simulated runs are made.
fn simulated_percents() -> impl Iterator<Item = f64> {
    std::iter::once(0.0).chain(few().map(|(percent, _)| percent))
}

fn job(effort: &Effort, percent: f64) -> Job {
    Job {
        blocked: point(percent).blocked,
        ..clients::writes(effort, ProtocolName::RampFast, published::CLIENTS)
    }
}

/// The simulated runs that it needs.
pub(super) fn jobs(effort: &Effort) -> Vec<Job> {
    simulated_percents()
        .map(|percent| job(effort, percent))
        .collect()
}

/// What it needs measured.
pub(super) fn points(effort: &Effort) -> Vec<Asked> {
    let percents = published::BLOCKED.iter().map(|(percent, _)| *percent);
    let all = std::iter::once(0.0).chain(percents);
    all.map(point)
        .chain(PATIENCES.map(patient))
        .map(|point| (point, effort.long, &FAST[..]))
        .collect()
}

/// The section.
pub(super) fn section(effort: &Effort, results: &Results, measured: &Measured) -> Section {
    let [fast] = FAST;
    let of_none = |blocked| measured.over((blocked, fast), (point(0.0), fast));
    let left = |percent| of_none(point(percent));
    let comparisons = published::BLOCKED.iter().map(|(percent, published)| {
        let what = format!("RAMP-F, {percent}% of writes blocked, of none blocked");
        let found = Comparison::new(what, "x", left(*percent), Origin::Measured);
        let found = found.beside(*published);
        match *percent {
            FEW => found.aimed_at(Target::AtLeast(LEFT_OF_FEW)),
            MOST => found.aimed_at(Target::AtLeast(0.68)),
            _ => found,
        }
    });
    let simulated = |percent| {
        let rate = |percent| results.of(&job(effort, percent)).per_second;
        rate(percent) / rate(0.0)
    };
    let alone = few().map(|(percent, published)| {
        let what = format!("RAMP-F, {percent}% of writes blocked, of none blocked, five servers");
        let found = Comparison::simulated(what, "x", simulated(percent)).beside(published);
        match percent {
            FEW => found.aimed_at(Target::AtLeast(LEFT_OF_FEW)),
            _ => found,
        }
    });
    let others = || {
        let all = PATIENCES.into_iter();
        all.filter(|millis| *millis != Point::DEFAULT.patience)
    };
    let patiences = others().map(|millis| {
        let what = format!("RAMP-F, {MOST}% blocked, asked after {millis} ms, of none blocked");
        Comparison::new(what, "x", of_none(patient(millis)), Origin::Measured)
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
    let percents = std::iter::once(0.0).chain(percents).map(|percent| {
        let what = format!("{percent}% blocked");
        (what, point(percent))
    });
    let runs = percents.chain(others().map(|millis| {
        let what = format!("{MOST}% blocked, asked after {millis} ms");
        (what, patient(millis))
    }));
    let runs = runs.map(|(what, point)| measured_run(what, point, fast, measured.of(point, fast)));
    let simulated_runs = simulated_percents().map(|percent| {
        let job = job(effort, percent);
        let what = format!("{percent}% blocked, five servers");
        run_line(what, &job, results.of(&job))
    });
    Section {
        title: "§5.3: blocked writes".into(),
        text: vec![
            format!(
                "Writes alone. Of a share of them no commit is sent, as if their clients had died; the participants \
                 wait for {} ms (the paper's for 5 s, in runs of a minute, and over a network) and then ask each \
                 other. That is several times what a transaction takes here.",
                BLOCKED_AFTER.as_millis()
            ),
            format!(
                "What a blocked write costs is asking, which the paper measures too, and room while it waits: the \
                 longer participants are patient, the more of them are prepared at a time, in memory that is in no \
                 cache. The second chart has {MOST}% of writes blocked, and varies that."
            ),
            format!(
                "One blocked write in a thousand costs less than measured runs differ by themselves, so up to {FEW}% are \
                 simulated, too: the paper's five servers under its {} clients. Who is blocked is answered a round \
                 sooner there, since nobody is told to commit.",
                published::CLIENTS
            ),
        ],
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
        charts: vec![
            Chart {
                name: "blocked-writes".into(),
                title: "Blocked writes (§5.3)".into(),
                x: Axis::logarithmic("blocked writes, in percent"),
                y: Axis::linear("throughput, of none blocked"),
                series: vec![
                    line(Origin::Measured, Tone::Avoiding, &|percent, _| {
                        left(percent)
                    }),
                    line(Origin::Published, Tone::Avoiding, &|_, published| published),
                    // By another tone than what is measured, so that the two lines can be told apart.
                    Series {
                        name: "RAMP-F, five servers".into(),
                        origin: Origin::Simulated,
                        tone: Tone::Neutral,
                        points: few()
                            .map(|(percent, _)| (percent, simulated(percent)))
                            .collect(),
                    },
                ],
                levels: Vec::new(),
            },
            Chart {
                name: "blocked-writes-patience".into(),
                title: format!("{MOST}% of writes blocked, by how long participants wait"),
                x: Axis::logarithmic("milliseconds until a participant asks"),
                y: Axis::linear("throughput, of none blocked"),
                series: vec![Series {
                    name: "RAMP-F".into(),
                    origin: Origin::Measured,
                    tone: Tone::Avoiding,
                    points: PATIENCES
                        .map(|millis| (millis as f64, of_none(patient(millis))))
                        .to_vec(),
                }],
                levels: Vec::new(),
            },
        ],
        comparisons: comparisons.chain(alone).chain(patiences).collect(),
        runs: runs.chain(simulated_runs).collect(),
    }
}
