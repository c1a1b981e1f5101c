//! Why a history cannot be judged.

/// A history that is cut short, not valid, from a newer format, or contradicts itself. There is no
/// verdict on such a one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct HistoryError {
    /// Where, from 1 on.
    pub line: u64,
    /// What.
    pub problem: Problem,
}

/// What is wrong with a history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// There is nothing in it.
    #[error("the history is empty")]
    Empty,
    /// It does not begin with a header.
    #[error("this is no history: it does not begin with {{\"anabranch_history\": 1, …}}: {0}")]
    NoHeader(String),
    /// It begins with a header that is not valid.
    #[error("the history's first line is not valid: {0}")]
    Header(String),
    /// A later program wrote it.
    #[error("the history has format {found}; this program reads format {known}")]
    Newer {
        /// The format that the header names.
        found: u64,
        /// The newest one known.
        known: u32,
    },
    /// The end is missing.
    #[error("the history is cut short: its last line, {{\"end\": …}}, is missing")]
    CutShort,
    /// A value has no end.
    #[error("the history is cut short: it ends in the middle of a value")]
    CutInside,
    /// Lines are missing, or too many.
    #[error("the history is incomplete: its end counts {promised}, found were {found}")]
    Counts {
        /// What the last line says.
        promised: String,
        /// What came before it.
        found: String,
    },
    /// There is more behind the end.
    #[error("there is something behind the end of the history")]
    AfterEnd,
    /// A line is not what the format asks for.
    #[error("not valid: {0}")]
    Invalid(String),
    /// The input could not be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// Lines contradict each other.
    #[error("the history contradicts itself: {0}")]
    Contradiction(String),
}
