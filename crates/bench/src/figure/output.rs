//! A report as text for a terminal, as JSON, and as a folder of files.

use std::path::{Path, PathBuf};

use super::chart::{Chart, ChartError};
use super::page;
use super::report::{Comparison, HEADS, Report, Section};
use crate::table::Table;

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
        /// Its path.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

impl Report {
    /// Renders the report for a terminal: published numbers, ours, ratios.
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

    /// Renders the report as JSON (`docs/schemas/reproduce.schema.json`).
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

    /// Writes `index.html`, `report.json` and each chart as SVG and PNG into `folder`, creating it if
    /// needed, and returns the page's path.
    ///
    /// # Errors
    /// When a chart cannot be drawn or a file cannot be written.
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

/// Breaks a paragraph into lines of at most `width` characters; a longer word has a line to itself.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Target;

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
    fn a_missed_target_is_printed_and_counts() {
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
    fn the_page_escapes_text() {
        let html = page::render(&report(vec![comparison(1.0, None)])).expect("no charts");
        assert!(html.contains("A &lt;test&gt;") && html.contains("Costs &amp; calibration."));
        assert!(!html.contains("<test>"));
    }
}
