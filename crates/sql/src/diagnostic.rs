//! What is wrong with the input, where, and what to do about it.

use crate::source::Span;

/// One finding about the input. Rendered with the source line and a caret by [`render`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// PostgreSQL's SQLSTATE where it has one for this, such as `42703` for an unknown column;
    /// `0A000` for what is not supported.
    pub code: &'static str,
    /// What is wrong, in PostgreSQL's words where it has some.
    pub message: String,
    /// Where; `None` when no place is to blame.
    pub span: Option<Span>,
    /// What to do about it.
    pub help: Option<String>,
}
