//! The options of EXPLAIN.

/// The options of EXPLAIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExplainOptions {
    /// ANALYZE: run the statement, and report what that took.
    pub analyze: bool,
    /// COORDINATION: report the plan entry (ours).
    pub coordination: bool,
    /// VERBOSE
    pub verbose: bool,
    /// COSTS; on unless switched off.
    pub costs: bool,
    /// BUFFERS
    pub buffers: bool,
    /// TIMING; with ANALYZE, on unless switched off.
    pub timing: bool,
    /// SUMMARY; `None` follows ANALYZE.
    pub summary: Option<bool>,
    /// SETTINGS
    pub settings: bool,
    /// WAL
    pub wal: bool,
    /// FORMAT
    pub format: ExplainFormat,
}

/// The format of an explanation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExplainFormat {
    /// One row a line.
    #[default]
    Text,
    /// One row, with a JSON document.
    Json,
}

impl Default for ExplainOptions {
    fn default() -> ExplainOptions {
        ExplainOptions {
            analyze: false,
            coordination: false,
            verbose: false,
            costs: true,
            buffers: false,
            timing: true,
            summary: None,
            settings: false,
            wal: false,
            format: ExplainFormat::Text,
        }
    }
}
