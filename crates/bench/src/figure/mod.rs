//! Reports that set a paper's figures beside ours: charts as SVG and PNG, one HTML page, a table for
//! the terminal, and JSON.
//!
//! Every number has an [`Origin`]: measured on this machine, simulated with a named calibration, drawn
//! from a distribution, computed from a formula, or published in a paper.
//!
//! * [`chart`]: lines over two axes.
//! * [`report`]: sections of text, charts and comparisons.
//! * [`output`]: the report as text, as JSON, and as a folder of files.
//! * `page`: the report as HTML.

pub mod chart;
pub mod output;
mod page;
pub mod report;

pub use chart::{Axis, Chart, ChartError, Level, Scale, Series, Tone};
pub use output::ReportError;
pub use report::{Comparison, Report, RunLine, Section, Target};

/// Where a number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Printed in the paper, or read off its figure.
    Published,
    /// Measured on this machine.
    Measured,
    /// From a run in virtual time, with costs from a calibration.
    Simulated,
    /// From many draws from a distribution.
    Drawn,
    /// From a formula.
    Computed,
}

impl Origin {
    /// The name in tables and legends.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Published => "published",
            Origin::Measured => "measured",
            Origin::Simulated => "simulated",
            Origin::Drawn => "drawn",
            Origin::Computed => "computed",
        }
    }
}
