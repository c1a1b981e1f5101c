//! What was not understood of the files: where, why, and what that means for the verdicts.

use anabranch_sql::catalog::Catalog;
use anabranch_sql::script::Skipped;
use serde::Serialize;
use std::fmt::Write;

use super::text::{heading, paragraph};

/// The most that are told one by one to people.
const SHOWN_MAX: usize = 50;

/// As text; nothing where nothing is left out.
pub fn render(left_out: &[Skipped], catalog: &Catalog) -> String {
    let mut out = String::new();
    if left_out.is_empty() {
        return out;
    }
    out.push('\n');
    heading(&mut out, "Left out");
    for left in left_out.iter().take(SHOWN_MAX) {
        let told = told(left, catalog);
        let place = match (told.file, told.line, told.column) {
            (Some(file), Some(line), Some(column)) => format!("{file}:{line}:{column}: "),
            _ => String::new(),
        };
        paragraph(&mut out, 2, &format!("{place}{}", told.message));
        paragraph(&mut out, 6, &format!("So {}.", told.meaning));
    }
    if left_out.len() > SHOWN_MAX {
        let _ = writeln!(
            out,
            "  and {} more (--format json has all)",
            left_out.len() - SHOWN_MAX
        );
    }
    out
}

/// As JSON has it.
#[derive(Serialize)]
pub(super) struct Told<'a> {
    pub(super) file: Option<&'a str>,
    pub(super) line: Option<u32>,
    pub(super) column: Option<u32>,
    pub(super) code: &'a str,
    pub(super) message: &'a str,
    pub(super) meaning: &'a str,
    pub(super) transaction: Option<&'a str>,
}

impl Told<'_> {
    /// Why it is left out, and what that means.
    pub(super) fn sentence(&self) -> String {
        format!("{}. So {}.", self.message, self.meaning)
    }
}

pub(super) fn told<'a>(left: &'a Skipped, catalog: &'a Catalog) -> Told<'a> {
    let place = left.diagnostic.span.and_then(|span| {
        let file = catalog.files.get(usize::from(span.file))?;
        Some((file.name.as_str(), file.line_column(span.start)))
    });
    Told {
        file: place.map(|(file, _)| file),
        line: place.map(|(_, (line, _))| line),
        column: place.map(|(_, (_, column))| column),
        code: left.diagnostic.code,
        message: &left.diagnostic.message,
        meaning: &left.meaning,
        transaction: left.transaction.as_deref(),
    }
}
