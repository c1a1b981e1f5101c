//! Pieces of the files that the analyser skipped: where, why, and the effect on the verdicts.

use anabranch_sql::catalog::Catalog;
use anabranch_sql::script::Skipped;
use serde::Serialize;
use std::fmt::Write;

use super::layout::{heading, paragraph};

/// The text report lists at most this many.
const SHOWN_MAX: usize = 50;

/// What a report with a missing piece says first.
pub(super) const NOT_COMPLETE: &str =
    "A part of the application was not analysed, so this report is no all-clear.";

/// The section of the text report; empty where nothing was skipped.
pub fn render(skipped: &[Skipped], catalog: &Catalog) -> String {
    let mut out = String::new();
    if skipped.is_empty() {
        return out;
    }
    out.push('\n');
    heading(&mut out, "Skipped");
    if skipped.iter().any(Skipped::is_missing) {
        paragraph(&mut out, 2, NOT_COMPLETE);
        out.push('\n');
    }
    // Whole files first: the list is cut at its end.
    let of_files = skipped.iter().filter(|piece| piece.unread.is_some());
    let others = skipped.iter().filter(|piece| piece.unread.is_none());
    for piece in of_files.chain(others).take(SHOWN_MAX) {
        let piece = located(piece, catalog);
        let place = match (piece.file, piece.line, piece.column) {
            (Some(file), Some(line), Some(column)) => format!("{file}:{line}:{column}: "),
            _ => String::new(),
        };
        paragraph(&mut out, 2, &format!("{place}{}", piece.message));
        paragraph(&mut out, 6, &format!("So {}.", piece.meaning));
    }
    if skipped.len() > SHOWN_MAX {
        let _ = writeln!(
            out,
            "  and {} more (--format json lists all)",
            skipped.len() - SHOWN_MAX
        );
    }
    out
}

/// The pieces as JSON, for reports other than that of the plan.
pub fn as_json(skipped: &[Skipped], catalog: &Catalog) -> serde_json::Value {
    let pieces = skipped.iter().map(|piece| located(piece, catalog));
    // Plain data with string keys cannot fail to serialize.
    serde_json::to_value(pieces.collect::<Vec<_>>()).unwrap_or_default()
}

/// A skipped piece with its file, line and column. JSON has it in this form.
#[derive(Serialize)]
pub(super) struct Located<'a> {
    pub(super) file: Option<&'a str>,
    pub(super) line: Option<u32>,
    pub(super) column: Option<u32>,
    pub(super) code: &'a str,
    pub(super) message: &'a str,
    pub(super) meaning: &'a str,
    pub(super) transaction: Option<&'a str>,
    /// Whether a part of the application is missing from the analysis.
    pub(super) missing: bool,
    /// The language that is not read, and its files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) language: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) files: Option<&'a [String]>,
}

impl Located<'_> {
    /// Why the piece was skipped, and the effect.
    pub(super) fn sentence(&self) -> String {
        format!("{}. So {}.", self.message, self.meaning)
    }
}

pub(super) fn located<'a>(piece: &'a Skipped, catalog: &'a Catalog) -> Located<'a> {
    let place = piece.diagnostic.span.and_then(|span| {
        let file = catalog.files.get(usize::from(span.file))?;
        Some((file.name.as_str(), file.line_column(span.start)))
    });
    Located {
        file: place.map(|(file, _)| file),
        line: place.map(|(_, (line, _))| line),
        column: place.map(|(_, (_, column))| column),
        code: piece.diagnostic.code,
        message: &piece.diagnostic.message,
        meaning: &piece.meaning,
        transaction: piece.transaction.as_deref(),
        missing: piece.is_missing(),
        language: piece.unread.as_ref().map(|unread| &*unread.language),
        files: piece.unread.as_ref().map(|unread| &*unread.files),
    }
}
