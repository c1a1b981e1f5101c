//! Errors in histories.

/// A history that is truncated, invalid, from a newer format, or contradictory. There is no verdict on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct HistoryError {
    /// The line, from 1.
    pub line: u64,
    /// The error.
    pub problem: Problem,
}

/// What is wrong with a history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The input is empty.
    #[error("the history is empty")]
    Empty,
    /// It does not begin with a header.
    #[error("not a history: it does not begin with {{\"anabranch_history\": 1, …}}: {0}")]
    NoHeader(String),
    /// The header is not valid.
    #[error("the history's first line is not valid: {0}")]
    Header(String),
    /// A newer version of the program wrote it.
    #[error("the history has format {found}; this program reads format {known}")]
    Newer {
        /// The format that the header names.
        found: u64,
        /// The newest format that this program reads.
        known: u32,
    },
    /// The last line is missing.
    #[error("the history is truncated: its last line, {{\"end\": …}}, is missing")]
    Truncated,
    /// The input ends within a value.
    #[error("the history is truncated: it ends within a value")]
    TruncatedValue,
    /// There are fewer or more lines than the last one counts.
    #[error("the history is incomplete: its last line counts {promised}, but there are {found}")]
    Counts {
        /// The counts in the last line.
        promised: String,
        /// The counts of the lines read.
        found: String,
    },
    /// There are lines after the end.
    #[error("there are lines after the end of the history")]
    AfterEnd,
    /// A line violates the format.
    #[error("not valid: {0}")]
    Invalid(String),
    /// The input could not be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// Lines contradict each other.
    #[error("the history contradicts itself: {0}")]
    Contradiction(String),
}
