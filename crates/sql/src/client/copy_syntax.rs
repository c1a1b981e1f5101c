//! COPY, parsed.

use crate::source::Span;

/// A COPY, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyStatement {
    /// What is copied.
    pub source: CopySource,
    /// Whether rows come from the client.
    pub is_from: bool,
    /// The form of the data.
    pub options: CopySyntax,
    /// The place of what is copied.
    pub span: Span,
}

/// What a COPY copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopySource {
    /// A table.
    Table {
        /// Its name.
        name: String,
        /// The columns that are named; all, if none is.
        columns: Vec<String>,
    },
    /// The rows of a query.
    Query(String),
}

/// The format that a COPY names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyKind {
    /// `text`
    #[default]
    Text,
    /// `csv`
    Csv,
    /// `binary`
    Binary,
}

/// The columns that an option names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CopyColumns {
    /// None.
    #[default]
    None,
    /// `*`
    All,
    /// These.
    Named(Vec<String>),
}

/// The options of a COPY, as far as they are named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopySyntax {
    /// FORMAT
    pub kind: CopyKind,
    /// DELIMITER
    pub delimiter: Option<String>,
    /// NULL
    pub null: Option<String>,
    /// HEADER
    pub header: bool,
    /// HEADER MATCH
    pub header_match: bool,
    /// QUOTE
    pub quote: Option<String>,
    /// ESCAPE
    pub escape: Option<String>,
    /// FORCE_QUOTE
    pub force_quote: CopyColumns,
    /// FORCE_NOT_NULL
    pub force_not_null: CopyColumns,
    /// FORCE_NULL
    pub force_null: CopyColumns,
}
