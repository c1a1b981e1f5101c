//! A report: a paper's figures beside ours, and how it is written down.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::chart::{Chart, ChartError};
use super::{Origin, page};
use crate::table::{Table, quantity};

/// A paper's figures beside ours.
#[derive(Clone, Debug)]
pub struct Report {
    /// Names its folder and its JSON.
    pub name: String,
    /// What it is about, in a line.
    pub title: String,
    /// What the reader must know first: what is measured, what is simulated, with which costs.
    pub preface: Vec<String>,
    /// One section a figure or table of the paper.
    pub sections: Vec<Section>,
}

/// One figure or table.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// What it shows.
    pub title: String,
    /// Paragraphs above the charts.
    pub text: Vec<String>,
    /// What its numbers were found with: names and values.
    pub parameters: Vec<(String, String)>,
    /// Its charts.
    pub charts: Vec<Chart>,
    /// Numbers beside each other.
    pub comparisons: Vec<Comparison>,
    /// The runs behind them.
    pub runs: Vec<RunLine>,
}

/// What came of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunLine {
    /// What was run.
    pub what: String,
    /// Whether it was measured or simulated.
    pub origin: Origin,
    /// Under which protocol.
    pub protocol: &'static str,
    /// Servers.
    pub servers: u16,
    /// Clients, each with one call under way, in all.
    pub clients: u32,
    /// Transactions that committed while they were counted.
    pub committed: u64,
    /// The same a second; of virtual time, if it was simulated.
    pub per_second: f64,
    /// The mean time from call to answer, in milliseconds.
    pub mean_ms: f64,
    /// The time that 99 of 100 calls take at most, in milliseconds.
    pub p99_ms: f64,
    /// The share of the cores that was busy; of a simulated run.
    pub utilization: Option<f64>,
    /// Messages between servers, a committed transaction.
    pub messages: f64,
    /// Attempts that were made again, a committed transaction.
    pub retries: f64,
    /// Milliseconds for which requests waited for others' locks, a committed transaction.
    pub lock_wait_ms: f64,
    /// The share of steps whose kind the calibration had not met; of a simulated run.
    pub guessed: Option<f64>,
}

impl RunLine {
    /// The heads of a table of runs.
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

    /// Its cells.
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
    /// Its unit; empty for a ratio or a share.
    pub unit: &'static str,
    /// What the paper prints, if it does.
    pub published: Option<f64>,
    /// What was found.
    pub ours: f64,
    /// How it was found.
    pub origin: Origin,
    /// What was aimed at.
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
    /// Whether `value` reaches it.
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Target::AtLeast(least) => value >= least,
            Target::AtMost(most) => value <= most,
        }
    }

    /// In words.
    pub fn describe(self) -> String {
        match self {
            Target::AtLeast(least) => format!("at least {}", quantity(least)),
            Target::AtMost(most) => format!("at most {}", quantity(most)),
        }
    }
}

impl Comparison {
    /// So much of something, found in this way: nothing is published of it, and nothing aimed at.
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

    /// The same of what a simulated cluster did.
    pub fn simulated(what: impl Into<String>, unit: &'static str, ours: f64) -> Comparison {
        Comparison::new(what, unit, ours, Origin::Simulated)
    }

    /// The same of what a formula gives.
    pub fn computed(what: impl Into<String>, unit: &'static str, ours: f64) -> Comparison {
        Comparison::new(what, unit, ours, Origin::Computed)
    }

    /// Beside what the paper prints, if it does.
    #[must_use]
    pub fn beside(mut self, published: impl Into<Option<f64>>) -> Comparison {
        self.published = published.into();
        self
    }

    /// With something to reach.
    #[must_use]
    pub fn aimed_at(mut self, target: Target) -> Comparison {
        self.target = Some(target);
        self
    }

    /// Ours over the published number.
    pub fn ratio(&self) -> Option<f64> {
        let published = self.published.filter(|published| *published != 0.0)?;
        Some(self.ours / published)
    }

    /// Whether its target is met; `None` where there is none.
    pub fn is_met(&self) -> Option<bool> {
        self.target.map(|target| target.is_met(self.ours))
    }

    /// Its cells for a table of [`HEADS`].
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

/// A paragraph in lines of at most so many letters, but for longer words.
fn folded(paragraph: &str, width: usize) -> String {
    let mut folded = String::new();
    let mut length = 0;
    for word in paragraph.split_whitespace() {
        let letters = word.chars().count();
        if length > 0 && length + 1 + letters > width {
            folded.push('\n');
            length = 0;
        } else if length > 0 {
            folded.push(' ');
            length += 1;
        }
        folded.push_str(word);
        length += letters;
    }
    folded
}

/// The heads of a table of comparisons.
pub(super) const HEADS: [&str; 6] = ["", "published", "ours", "ratio", "ours is", "target"];

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A chart could not be drawn.
    #[error(transparent)]
    Chart(#[from] ChartError),
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

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

    /// How many targets there are, and how many of them are met.
    pub fn targets(&self) -> (usize, usize) {
        let judged = self.comparisons().filter_map(Comparison::is_met);
        judged.fold((0, 0), |(all, met), is| (all + 1, met + usize::from(is)))
    }

    /// The report for a terminal: published, ours, ratio.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.title);
        for paragraph in &self.preface {
            text.push_str(&format!("\n{}\n", folded(paragraph, 100)));
        }
        for section in self.sections.iter().filter(|s| !s.comparisons.is_empty()) {
            let mut table = Table::new(HEADS);
            for comparison in &section.comparisons {
                table.row(comparison.cells());
            }
            text.push_str(&format!("\n{}\n\n{table}", section.title));
        }
        if let (all @ 1.., met) = self.targets() {
            text.push_str(&format!("\n{met} of {all} targets met.\n"));
        }
        text
    }

    /// The report for other programs (`docs/schemas/reproduce.schema.json`).
    pub fn json(&self) -> serde_json::Value {
        let compared = |comparison: &Comparison| {
            serde_json::json!({
                "what": comparison.what, "unit": comparison.unit,
                "published": comparison.published, "ours": comparison.ours,
                "ratio": comparison.ratio(), "origin": comparison.origin,
                "target": comparison.target, "met": comparison.is_met(),
            })
        };
        let section = |section: &Section| {
            let series = |chart: &Chart| {
                let lines = chart.series.iter().map(|series| {
                    serde_json::json!({
                        "name": series.name, "origin": series.origin, "points": series.points,
                    })
                });
                let levels = chart.levels.iter().map(|level| {
                    serde_json::json!({ "name": level.name, "origin": level.origin, "y": level.y })
                });
                serde_json::json!({
                    "name": chart.name, "title": chart.title,
                    "x": chart.x.label, "y": chart.y.label,
                    "series": lines.collect::<Vec<_>>(),
                    "levels": levels.collect::<Vec<_>>(),
                })
            };
            serde_json::json!({
                "title": section.title,
                "parameters": section.parameters,
                "comparisons": section.comparisons.iter().map(compared).collect::<Vec<_>>(),
                "charts": section.charts.iter().map(series).collect::<Vec<_>>(),
                "runs": section.runs,
            })
        };
        serde_json::json!({
            "version": 1,
            "name": self.name,
            "title": self.title,
            "preface": self.preface,
            "sections": self.sections.iter().map(section).collect::<Vec<_>>(),
        })
    }

    /// Writes `index.html`, `report.json` and each chart as SVG and PNG into `folder`, which is made
    /// if it is not there, and returns the page's path.
    ///
    /// # Errors
    /// If a chart cannot be drawn or a file not written.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, ReportError> {
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |source| ReportError::Write { path, source }
        };
        std::fs::create_dir_all(folder).map_err(failed(folder))?;
        let put = |file: &str, bytes: &[u8]| {
            let path = folder.join(file);
            std::fs::write(&path, bytes).map_err(failed(&path))?;
            Ok::<PathBuf, ReportError>(path)
        };
        for chart in self.sections.iter().flat_map(|section| &section.charts) {
            put(&format!("{}.svg", chart.name), chart.svg()?.as_bytes())?;
            put(&format!("{}.png", chart.name), &chart.png()?)?;
        }
        put("report.json", format!("{:#}\n", self.json()).as_bytes())?;
        put("index.html", page::render(self)?.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(ours: f64, target: Option<Target>) -> Comparison {
        let compared = Comparison::simulated("throughput", "/s", ours).beside(50.0);
        match target {
            Some(target) => compared.aimed_at(target),
            None => compared,
        }
    }

    fn report(comparisons: Vec<Comparison>) -> Report {
        Report {
            name: "test".into(),
            title: "A <test>".into(),
            preface: vec!["Costs & calibration.".into()],
            sections: vec![Section {
                title: "Figure 1".into(),
                comparisons,
                ..Section::default()
            }],
        }
    }

    #[test]
    fn a_missed_target_is_told_and_counts() {
        let met = report(vec![comparison(100.0, Some(Target::AtLeast(99.0)))]);
        assert!(met.is_met());
        let missed = report(vec![
            comparison(100.0, None),
            comparison(100.0, Some(Target::AtMost(99.0))),
        ]);
        assert!(!missed.is_met());
        assert!(missed.text().contains("at most 99: MISSED"));
        assert!(missed.text().ends_with("0 of 1 targets met.\n"));
        assert!(
            missed.text().contains("2.00"),
            "the ratio: {}",
            missed.text()
        );
    }

    #[test]
    fn a_paragraph_is_folded_between_words() {
        assert_eq!(folded("one two  three", 7), "one two\nthree");
        assert_eq!(folded("incomprehensible", 7), "incomprehensible");
    }

    #[test]
    fn the_page_escapes_what_it_is_given() {
        let html = page::render(&report(vec![comparison(1.0, None)])).expect("no charts");
        assert!(html.contains("A &lt;test&gt;") && html.contains("Costs &amp; calibration."));
        assert!(!html.contains("<test>"));
    }
}
