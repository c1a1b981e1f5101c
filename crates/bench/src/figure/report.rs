//! A report: a paper's figures beside ours.

use serde::Serialize;

use super::Origin;
use super::chart::Chart;
use crate::table::quantity;

/// A paper's figures beside ours.
#[derive(Clone, Debug)]
pub struct Report {
    /// Names its folder and its JSON.
    pub name: String,
    /// One line: the subject.
    pub title: String,
    /// What is measured, what is simulated, and with which costs.
    pub preface: Vec<String>,
    /// One section a figure or table of the paper.
    pub sections: Vec<Section>,
}

/// One figure or table.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The figure's number in the paper and its subject.
    pub title: String,
    /// Paragraphs above the charts.
    pub text: Vec<String>,
    /// Parameters of its runs: names and values.
    pub parameters: Vec<(String, String)>,
    /// Its charts.
    pub charts: Vec<Chart>,
    /// Published numbers beside ours.
    pub comparisons: Vec<Comparison>,
    /// The runs behind them.
    pub runs: Vec<RunLine>,
}

/// The result of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunLine {
    /// What was run.
    pub what: String,
    /// Measured or simulated.
    pub origin: Origin,
    /// The protocol.
    pub protocol: &'static str,
    /// The number of servers.
    pub servers: u16,
    /// The number of clients in all; each has one call in flight.
    pub clients: u32,
    /// Committed transactions in the measured period.
    pub committed: u64,
    /// Committed transactions a second; a second of virtual time in a simulated run.
    pub per_second: f64,
    /// Mean latency of a call, in milliseconds.
    pub mean_ms: f64,
    /// 99th percentile of the latency, in milliseconds.
    pub p99_ms: f64,
    /// The share (0 to 1) of the cores that was busy, in a simulated run.
    pub utilization: Option<f64>,
    /// Messages between servers for each committed transaction.
    pub messages: f64,
    /// Retries for each committed transaction.
    pub retries: f64,
    /// Time that requests waited for locks, for each committed transaction, in milliseconds.
    pub lock_wait_ms: f64,
    /// The share (0 to 1) of steps for which the calibration has no cost, in a simulated run.
    pub guessed: Option<f64>,
}

impl RunLine {
    /// The column heads of a table of runs.
    pub(super) const HEADS: [&'static str; 12] = [
        "run",
        "is",
        "protocol",
        "clients",
        "a second",
        "mean ms",
        "p99 ms",
        "cores busy",
        "messages",
        "retries",
        "lock wait ms",
        "steps guessed",
    ];

    /// The cells of its row.
    pub(super) fn cells(&self) -> [String; 12] {
        let percent = |share: Option<f64>| {
            share.map_or_else(|| "–".to_owned(), |share| format!("{:.1}%", 100.0 * share))
        };
        [
            self.what.clone(),
            self.origin.name().into(),
            self.protocol.into(),
            quantity(f64::from(self.clients)),
            quantity(self.per_second),
            quantity(self.mean_ms),
            quantity(self.p99_ms),
            percent(self.utilization),
            quantity(self.messages),
            quantity(self.retries),
            quantity(self.lock_wait_ms),
            percent(self.guessed),
        ]
    }
}

/// A published number beside ours.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// What is compared.
    pub what: String,
    /// The unit; empty for a ratio or a share.
    pub unit: &'static str,
    /// The number in the paper, if it prints one.
    pub published: Option<f64>,
    /// Our number.
    pub ours: f64,
    /// Where our number comes from.
    pub origin: Origin,
    /// What our number is meant to reach.
    pub target: Option<Target>,
}

/// What a number is meant to reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
}

impl Target {
    /// Whether `value` reaches the target.
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Target::AtLeast(least) => value >= least,
            Target::AtMost(most) => value <= most,
        }
    }

    /// The target in words.
    pub fn describe(self) -> String {
        match self {
            Target::AtLeast(least) => format!("at least {}", quantity(least)),
            Target::AtMost(most) => format!("at most {}", quantity(most)),
        }
    }
}

impl Comparison {
    /// A number of ours, with no published number and no target.
    pub fn new(
        what: impl Into<String>,
        unit: &'static str,
        ours: f64,
        origin: Origin,
    ) -> Comparison {
        Comparison {
            what: what.into(),
            unit,
            published: None,
            ours,
            origin,
            target: None,
        }
    }

    /// A number from a simulated run.
    pub fn simulated(what: impl Into<String>, unit: &'static str, ours: f64) -> Comparison {
        Comparison::new(what, unit, ours, Origin::Simulated)
    }

    /// A number from a formula.
    pub fn computed(what: impl Into<String>, unit: &'static str, ours: f64) -> Comparison {
        Comparison::new(what, unit, ours, Origin::Computed)
    }

    /// Adds the number in the paper, if it prints one.
    #[must_use]
    pub fn beside(mut self, published: impl Into<Option<f64>>) -> Comparison {
        self.published = published.into();
        self
    }

    /// Adds a target.
    #[must_use]
    pub fn aimed_at(mut self, target: Target) -> Comparison {
        self.target = Some(target);
        self
    }

    /// Our number divided by the published one.
    pub fn ratio(&self) -> Option<f64> {
        let published = self.published.filter(|published| *published != 0.0)?;
        Some(self.ours / published)
    }

    /// Whether its target is met; `None` where there is none.
    pub fn is_met(&self) -> Option<bool> {
        self.target.map(|target| target.is_met(self.ours))
    }

    /// The cells of its row, under [`HEADS`].
    pub(super) fn cells(&self) -> [String; 6] {
        let with_unit = |value: f64| match self.unit {
            "" => quantity(value),
            unit => format!("{} {unit}", quantity(value)),
        };
        [
            self.what.clone(),
            self.published.map_or_else(|| "–".into(), with_unit),
            with_unit(self.ours),
            self.ratio().map_or_else(|| "–".into(), quantity),
            self.origin.name().into(),
            match (self.target, self.is_met()) {
                (Some(target), Some(true)) => format!("{}: met", target.describe()),
                (Some(target), _) => format!("{}: MISSED", target.describe()),
                (None, _) => String::new(),
            },
        ]
    }
}

/// The column heads of a table of comparisons.
pub(super) const HEADS: [&str; 6] = ["", "published", "ours", "ratio", "ours is", "target"];

impl Report {
    /// All comparisons, section by section.
    pub fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        self.sections
            .iter()
            .flat_map(|section| &section.comparisons)
    }

    /// Whether every target is met.
    pub fn is_met(&self) -> bool {
        self.comparisons()
            .all(|found| found.is_met() != Some(false))
    }

    /// The number of targets, and how many of them are met.
    pub fn targets(&self) -> (usize, usize) {
        let judged = self.comparisons().filter_map(Comparison::is_met);
        judged.fold((0, 0), |(all, met), is| (all + 1, met + usize::from(is)))
    }
}
