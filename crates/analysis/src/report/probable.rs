//! Probable invariants: rules that programs seem to rely on, by checks in their code; with place and confidence.

use anabranch_sql::catalog::Catalog;
use anabranch_sql::script::ProbableInvariant;
use serde::Serialize;

use super::layout::{heading, paragraph};

/// The text report lists at most this many.
const SHOWN_MAX: usize = 50;

/// The introduction of the section.
pub(super) const MEANING: &str = "No verdict relies on these. Declare those that have to hold: as a constraint, or \
     as an assertion (--invariants).";

/// The section of the text report; empty where there is none.
pub fn render(probable: &[ProbableInvariant], catalog: &Catalog) -> String {
    let mut out = String::new();
    if probable.is_empty() {
        return out;
    }
    out.push('\n');
    heading(&mut out, "Probable invariants");
    paragraph(&mut out, 2, MEANING);
    for one in probable.iter().take(SHOWN_MAX) {
        let one = located(one, catalog);
        let place = format!("{}:{}:{}", one.file, one.line, one.column);
        let first = format!(
            "{} ({} confidence): {place}: `{}` in {}",
            one.rule, one.confidence, one.guard, one.transaction
        );
        paragraph(&mut out, 2, &first);
        paragraph(&mut out, 6, &format!("{}.", one.why));
    }
    if probable.len() > SHOWN_MAX {
        let more = probable.len() - SHOWN_MAX;
        paragraph(
            &mut out,
            2,
            &format!("and {more} more (--format json lists all)"),
        );
    }
    out
}

/// A probable invariant with its file, line and column. JSON has it in this form.
#[derive(Serialize)]
pub(super) struct Located<'a> {
    pub(super) rule: &'a str,
    pub(super) transaction: &'a str,
    pub(super) guard: &'a str,
    pub(super) confidence: &'a str,
    pub(super) why: &'a str,
    pub(super) file: &'a str,
    pub(super) line: u32,
    pub(super) column: u32,
}

pub(super) fn located<'a>(one: &'a ProbableInvariant, catalog: &'a Catalog) -> Located<'a> {
    let file = catalog.files.get(one.file);
    let start = u32::try_from(one.range.start).unwrap_or(u32::MAX);
    let (line, column) = file.map_or((0, 0), |file| file.line_column(start));
    Located {
        rule: &one.rule,
        transaction: &one.transaction,
        guard: &one.guard,
        confidence: one.confidence.name(),
        why: &one.why,
        file: file.map_or("", |file| file.name.as_str()),
        line,
        column,
    }
}
