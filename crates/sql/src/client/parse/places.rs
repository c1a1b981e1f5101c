//! Places relative to a part of a text.

use crate::{diagnostic::Diagnostic, parse::lexer::Token, source::Span};

/// The tokens with places relative to `start`.
pub(super) fn moved(tokens: &[Token], start: u32) -> Vec<Token> {
    let moved = tokens.iter().map(|token| Token {
        kind: token.kind.clone(),
        span: back(token.span, start),
    });
    moved.collect()
}

/// The place relative to `start`.
pub(super) fn back(span: Span, start: u32) -> Span {
    Span {
        start: span.start.saturating_sub(start),
        end: span.end.saturating_sub(start),
        ..span
    }
}

/// A diagnostic that is relative to `start`, relative to what `start` is in.
pub(super) fn forward(diagnostic: Diagnostic, start: u32) -> Diagnostic {
    let span = diagnostic.span.map(|span| Span {
        start: span.start.saturating_add(start),
        end: span.end.saturating_add(start),
        ..span
    });
    Diagnostic { span, ..diagnostic }
}
