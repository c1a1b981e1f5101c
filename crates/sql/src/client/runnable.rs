//! Statements over data, parsed.

use std::sync::Arc;

use sqlparser::ast;

use crate::source::Span;

/// The file number in places of a client's text, which is none of the application's files.
pub const CLIENT_TEXT: u16 = u16::MAX;

/// A statement over data, parsed and not compiled.
#[derive(Clone, Debug)]
pub struct Runnable {
    pub(super) syntax: Arc<ast::Statement>,
    pub(super) text: Arc<str>,
    pub(super) start: usize,
    pub(super) parameters: usize,
}

impl Runnable {
    /// Its own text. Two statements with the same text and the same parameter types have the same plan.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The first byte of its text in the message.
    pub fn start(&self) -> usize {
        self.start
    }

    /// The greatest `n` of its `$n`; 0 without any.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// The place of the whole.
    pub(super) fn span(&self) -> Span {
        Span {
            file: CLIENT_TEXT,
            start: 0,
            end: u32::try_from(self.text.len()).unwrap_or(u32::MAX),
        }
    }
}
