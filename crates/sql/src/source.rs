//! Source files and places in them.

use std::sync::Arc;

/// One file of an application's SQL.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The name to show to people: a path relative to where the user stands.
    pub name: String,
    /// The whole text.
    pub text: Arc<str>,
}

/// A stretch of a source file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Which file, as an index into the list of files that was loaded.
    pub file: u16,
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}
