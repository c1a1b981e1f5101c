//! §5.3: the cost of blocked writes. The commit messages of some transactions are lost: their clients get a
//! reply, and the participants terminate them (`docs/protocols/ramp.md`).
//!
//! Measured on the embedded cluster. One blocked write in a thousand costs less than two runs differ on a
//! machine with other load, so few blocked writes are simulated besides, on the paper's servers under its
//! clients. (Many are not: the calibration has no costs for the termination protocol.)

use anabranch_sim::ProtocolName;

use super::super::simulation::{Job, Results, run_line};
use super::measured::{Measured, Point, Request};
use super::{Effort, clients, measured_run, published};
use crate::experiment::{BLOCKED_AFTER, ProtocolChoice};
use crate::figure::{Axis, Chart, Comparison, Origin, RunLine, Section, Series, Target, Tone};

/// The table has RAMP-F only.
const FAST: ProtocolChoice = ProtocolChoice::RampFast;

/// How many milliseconds participants wait, where that varies: with half of all writes blocked.
const TIMEOUTS_MILLIS: [u64; 4] = [3, 10, 30, 100];
/// The largest percentage of blocked writes.
const MOST: f64 = 50.0;
/// Up to this percentage, blocked writes count as few.
const FEW: f64 = 0.1;
/// The share of the throughput that has to be left with [`FEW`] blocked writes.
const LEFT_OF_FEW: f64 = 0.9986;

/// Half of the writes are blocked, and participants wait for so many milliseconds.
fn timeout_point(terminate_after_millis: u64) -> Point {
    Point {
        terminate_after_millis,
        ..point(MOST)
    }
}

/// All transactions write, and this percentage is blocked.
fn point(percent: f64) -> Point {
    Point {
        reads_percent: 0,
        blocked: (percent * 10_000.0).round() as u32,
        ..Point::DEFAULT
    }
}

/// The measured percentages; 0 comes first.
fn percents() -> impl Iterator<Item = f64> {
    let published = published::BLOCKED.iter().map(|(percent, _)| *percent);
    std::iter::once(0.0).chain(published)
}

/// The published percentages that are few, with the published share of the throughput.
fn few() -> impl Iterator<Item = (f64, f64)> {
    let all = published::BLOCKED.into_iter();
    all.filter(|(percent, _)| *percent <= FEW)
}

/// The simulated percentages; 0 comes first.
fn simulated_percents() -> impl Iterator<Item = f64> {
    std::iter::once(0.0).chain(few().map(|(percent, _)| percent))
}

/// The measured timeouts other than the default, which the other points have.
fn other_timeouts() -> impl Iterator<Item = u64> {
    let all = TIMEOUTS_MILLIS.into_iter();
    all.filter(|millis| *millis != Point::DEFAULT.terminate_after_millis)
}

fn job(effort: &Effort, percent: f64) -> Job {
    Job {
        blocked: point(percent).blocked,
        ..clients::writes(effort, ProtocolName::RampFast, published::CLIENTS)
    }
}

/// The simulated runs that the section needs.
pub(super) fn jobs(effort: &Effort) -> Vec<Job> {
    simulated_percents()
        .map(|percent| job(effort, percent))
        .collect()
}

/// The points that the section needs.
pub(super) fn points(effort: &Effort) -> Vec<Request> {
    percents()
        .map(point)
        .chain(TIMEOUTS_MILLIS.map(timeout_point))
        .map(|point| (point, effort.long, &[FAST][..]))
        .collect()
}

/// The measured throughput at a point over that with none blocked.
fn measured_share(measured: &Measured, at: Point) -> f64 {
    measured.over((at, FAST), (point(0.0), FAST))
}

/// The same of simulated runs.
fn simulated_share(effort: &Effort, results: &Results, percent: f64) -> f64 {
    let rate = |percent| results.of(&job(effort, percent)).per_second;
    rate(percent) / rate(0.0)
}

/// The section of the report.
pub(super) fn section(effort: &Effort, results: &Results, measured: &Measured) -> Section {
    Section {
        title: "§5.3: blocked writes".into(),
        text: text(),
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
            percent_chart(effort, results, measured),
            timeout_chart(measured),
        ],
        comparisons: comparisons(effort, results, measured),
        runs: runs(effort, results, measured),
    }
}

fn text() -> Vec<String> {
    vec![
        format!(
            "All transactions write. The commit messages of a share of them are lost, as if their clients had \
             failed. The participants wait for {} ms, several times the latency of a transaction here, and then run \
             the termination protocol. (The paper's wait for 5 s, in runs of a minute over a network.)",
            BLOCKED_AFTER.as_millis()
        ),
        format!(
            "A blocked write costs the messages of the termination protocol, as in the paper, and memory while it \
             waits: the longer participants wait, the more transactions are prepared at a time, in memory that is in \
             no cache. The second chart has {MOST}% of writes blocked, and varies the wait."
        ),
        format!(
            "One blocked write in a thousand costs less than two measured runs differ, so up to {FEW}% are simulated, \
             too, on the paper's five servers under its {} clients. A blocked write is answered a round sooner there, \
             since its coordinator waits for no commit.",
            published::CLIENTS
        ),
    ]
}

/// Throughput by the percentage of blocked writes.
fn percent_chart(effort: &Effort, results: &Results, measured: &Measured) -> Chart {
    let line = |origin, value: &dyn Fn(f64, f64) -> f64| Series {
        name: "RAMP-F".into(),
        origin,
        tone: Tone::Avoiding,
        points: published::BLOCKED
            .iter()
            .map(|(percent, published)| (*percent, value(*percent, *published)))
            .collect(),
    };
    // Another tone than the measured line's, so that the two can be told apart.
    let simulated = Series {
        name: "RAMP-F, five servers".into(),
        origin: Origin::Simulated,
        tone: Tone::Neutral,
        points: few()
            .map(|(percent, _)| (percent, simulated_share(effort, results, percent)))
            .collect(),
    };
    Chart {
        name: "blocked-writes".into(),
        title: "Blocked writes (§5.3)".into(),
        x: Axis::logarithmic("blocked writes, in percent"),
        y: Axis::linear("throughput, over none blocked"),
        series: vec![
            line(Origin::Measured, &|percent, _| {
                measured_share(measured, point(percent))
            }),
            line(Origin::Published, &|_, published| published),
            simulated,
        ],
        levels: Vec::new(),
    }
}

/// Throughput by how long participants wait.
fn timeout_chart(measured: &Measured) -> Chart {
    Chart {
        name: "blocked-writes-timeout".into(),
        title: format!("{MOST}% of writes blocked, by how long participants wait"),
        x: Axis::logarithmic("milliseconds until a participant terminates a write"),
        y: Axis::linear("throughput, over none blocked"),
        series: vec![Series {
            name: "RAMP-F".into(),
            origin: Origin::Measured,
            tone: Tone::Avoiding,
            points: TIMEOUTS_MILLIS
                .map(|millis| {
                    (
                        millis as f64,
                        measured_share(measured, timeout_point(millis)),
                    )
                })
                .to_vec(),
        }],
        levels: Vec::new(),
    }
}

fn comparisons(effort: &Effort, results: &Results, measured: &Measured) -> Vec<Comparison> {
    let by_percent = published::BLOCKED.iter().map(|(percent, published)| {
        let what = format!("RAMP-F, {percent}% of writes blocked, over none blocked");
        let ours = measured_share(measured, point(*percent));
        let found = Comparison::new(what, "x", ours, Origin::Measured).beside(*published);
        match *percent {
            FEW => found.aimed_at(Target::AtLeast(LEFT_OF_FEW)),
            MOST => found.aimed_at(Target::AtLeast(0.68)),
            _ => found,
        }
    });
    let simulated = few().map(|(percent, published)| {
        let what = format!("RAMP-F, {percent}% of writes blocked, over none blocked, five servers");
        let ours = simulated_share(effort, results, percent);
        let found = Comparison::simulated(what, "x", ours).beside(published);
        match percent {
            FEW => found.aimed_at(Target::AtLeast(LEFT_OF_FEW)),
            _ => found,
        }
    });
    let by_timeout = other_timeouts().map(|millis| {
        let what =
            format!("RAMP-F, {MOST}% blocked, terminated after {millis} ms, over none blocked");
        let ours = measured_share(measured, timeout_point(millis));
        Comparison::new(what, "x", ours, Origin::Measured)
    });
    by_percent.chain(simulated).chain(by_timeout).collect()
}

fn runs(effort: &Effort, results: &Results, measured: &Measured) -> Vec<RunLine> {
    let by_percent = percents().map(|percent| (format!("{percent}% blocked"), point(percent)));
    let by_timeout = other_timeouts().map(|millis| {
        let what = format!("{MOST}% blocked, terminated after {millis} ms");
        (what, timeout_point(millis))
    });
    let measured = by_percent
        .chain(by_timeout)
        .map(|(what, point)| measured_run(what, point, FAST, measured.of(point, FAST)));
    let simulated = simulated_percents().map(|percent| {
        let job = job(effort, percent);
        let what = format!("{percent}% blocked, five servers");
        run_line(what, &job, results.of(&job))
    });
    measured.chain(simulated).collect()
}
