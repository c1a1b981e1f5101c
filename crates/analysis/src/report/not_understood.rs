//! Transaction types that may do anything to every table: what each is not understood for says all of them.

use std::collections::BTreeMap;
use std::fmt::Write;

use anabranch_types::markup::escaped;

use super::notes::{count, mark};
use super::text::{hanging, heading, paragraph};
use crate::plan::{CoordinationClass, Plan, PlanEntry};

/// What it means.
const MEANING: &str = "As far as can be told, each of these may do anything to every table: it counts as breaking every \
     invariant, and is ordered against the others of them and against whoever may break one beside it.";

/// The types that may do anything, by what is not understood of them: most types first.
fn by_reason(plan: &Plan) -> Vec<(&str, Vec<&str>)> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for entry in plan.entries.iter().filter(|entry| entry.does_anything) {
        let reason = entry.unknown.as_deref().unwrap_or_default();
        reasons.entry(reason).or_default().push(&entry.name);
    }
    let mut reasons: Vec<(&str, Vec<&str>)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    reasons
}

/// How many they are; None where all is understood so far that it cannot do anything.
fn how_many(plan: &Plan) -> Option<String> {
    let number = plan.entries.iter().filter(|e| e.does_anything).count();
    (number > 0).then(|| count(number, "transaction type", "transaction types"))
}

/// What the entry is called where one that may do anything stands for all of them.
pub(super) fn name_of(plan: &Plan, entry: &PlanEntry) -> String {
    match how_many(plan).filter(|_| entry.does_anything) {
        Some(number) => format!("{number} not understood"),
        None => entry.name.clone(),
    }
}

/// The entries, of those that may do anything the first for all.
pub(super) fn distinct(plan: &Plan) -> impl Iterator<Item = usize> {
    let first = plan.entries.iter().position(|entry| entry.does_anything);
    (0..plan.entries.len()).filter(move |at| !plan.entries[*at].does_anything || first == Some(*at))
}

/// As text.
pub(super) fn put_text(plan: &Plan, out: &mut String) {
    let Some(number) = how_many(plan) else {
        return;
    };
    heading(out, "Not understood");
    hanging(
        out,
        &format!("{} ", mark(CoordinationClass::Global)),
        &number,
    );
    paragraph(out, 2, MEANING);
    out.push('\n');
    for (reason, names) in by_reason(plan) {
        paragraph(out, 2, &format!("{reason} ({})", names.len()));
        paragraph(out, 6, &names.join(", "));
    }
    out.push('\n');
}

/// As a part of the page.
pub(super) fn put_html(plan: &Plan, out: &mut String) {
    let Some(number) = how_many(plan) else {
        return;
    };
    let first = plan.entries.iter().position(|entry| entry.does_anything);
    let _ = writeln!(
        out,
        "<h3 id=\"type-{}\"><span class=\"global\">{}</span> {number} not understood \
         <span class=\"soft\">global</span></h3>\n<p>{MEANING}</p>\n<div class=\"scroll\"><table class=\"crowd\">\n\
         <tr><th>why</th><th></th><th>types</th></tr>",
        first.unwrap_or_default(),
        mark(CoordinationClass::Global),
    );
    for (reason, names) in by_reason(plan) {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(reason),
            names.len(),
            escaped(&names.join(", "))
        );
    }
    out.push_str("</table></div>\n");
}
