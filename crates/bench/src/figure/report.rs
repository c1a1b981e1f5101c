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
    /// Its charts.
    pub charts: Vec<Chart>,
    /// Numbers beside each other.
    pub comparisons: Vec<Comparison>,
}

/// A published number beside ours.
#[derive(Clone, Debug, Serialize)]
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

    /// The report for a terminal: published, ours, ratio.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.title);
        for section in self.sections.iter().filter(|s| !s.comparisons.is_empty()) {
            let mut table = Table::new(HEADS);
            for comparison in &section.comparisons {
                table.row(comparison.cells());
            }
            text.push_str(&format!("\n{}\n\n{table}", section.title));
        }
        text
    }

    /// The report for other programs.
    pub fn json(&self) -> serde_json::Value {
        let section = |section: &Section| {
            let series = |chart: &Chart| {
                let lines = chart.series.iter().map(|series| {
                    serde_json::json!({
                        "name": series.name, "origin": series.origin, "points": series.points,
                    })
                });
                serde_json::json!({
                    "name": chart.name, "title": chart.title,
                    "x": chart.x.label, "y": chart.y.label,
                    "series": lines.collect::<Vec<_>>(),
                })
            };
            serde_json::json!({
                "title": section.title,
                "comparisons": section.comparisons,
                "charts": section.charts.iter().map(series).collect::<Vec<_>>(),
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
        Comparison {
            what: "throughput".into(),
            unit: "/s",
            published: Some(50.0),
            ours,
            origin: Origin::Simulated,
            target,
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
        assert!(
            missed.text().contains("2.00"),
            "the ratio: {}",
            missed.text()
        );
    }

    #[test]
    fn the_page_escapes_what_it_is_given() {
        let html = page::render(&report(vec![comparison(1.0, None)])).expect("no charts");
        assert!(html.contains("A &lt;test&gt;") && html.contains("Costs &amp; calibration."));
        assert!(!html.contains("<test>"));
    }
}
