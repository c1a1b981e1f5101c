//! Rules that programs probably rely on, by checks in their code: what, where, and how sure that is.

use anabranch_sql::catalog::Catalog;
use anabranch_sql::script::ProbableInvariant;
use serde::Serialize;

use super::text::{heading, paragraph};

/// The most that are told one by one to people.
const SHOWN_MAX: usize = 50;

/// What is said of them all.
pub(super) const MEANING: &str = "No verdict relies on these. Whoever wants one kept declares it: as a \
     constraint, or as an assertion (--invariants).";

/// As text; nothing where there is none.
pub fn render(probable: &[ProbableInvariant], catalog: &Catalog) -> String {
    let mut out = String::new();
    if probable.is_empty() {
        return out;
    }
    out.push('\n');
    heading(&mut out, "Probable invariants");
    paragraph(&mut out, 2, MEANING);
    for one in probable.iter().take(SHOWN_MAX) {
        let told = told(one, catalog);
        let place = format!("{}:{}:{}", told.file, told.line, told.column);
        let first = format!(
            "{} ({} confidence): {place}: `{}` in {}",
            told.rule, told.confidence, told.guard, told.transaction
        );
        paragraph(&mut out, 2, &first);
        paragraph(&mut out, 6, &format!("{}.", told.why));
    }
    if probable.len() > SHOWN_MAX {
        let more = probable.len() - SHOWN_MAX;
        paragraph(
            &mut out,
            2,
            &format!("and {more} more (--format json has all)"),
        );
    }
    out
}

/// As JSON has it.
#[derive(Serialize)]
pub(super) struct Told<'a> {
    pub(super) rule: &'a str,
    pub(super) transaction: &'a str,
    pub(super) guard: &'a str,
    pub(super) confidence: &'a str,
    pub(super) why: &'a str,
    pub(super) file: &'a str,
    pub(super) line: u32,
    pub(super) column: u32,
}

pub(super) fn told<'a>(one: &'a ProbableInvariant, catalog: &'a Catalog) -> Told<'a> {
    let file = catalog.files.get(one.file);
    let start = u32::try_from(one.range.start).unwrap_or(u32::MAX);
    let (line, column) = file.map_or((0, 0), |file| file.line_column(start));
    Told {
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
