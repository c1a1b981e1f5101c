//! Transaction types that the analyser could not read: it assumes that they may change any table. Reports list them
//! together, by reason.

use std::collections::BTreeMap;
use std::fmt::Write;

use anabranch_types::markup::escaped;

use super::layout::{hanging, heading, paragraph};
use super::notes::{count, mark};
use crate::plan::{CoordinationClass, Plan, PlanEntry};

/// The effect on the plan.
const EFFECT: &str = "The analyser could not read these; it assumes that they may change any table. Each counts as \
     breaking every invariant. It is ordered against the others listed here, and against each type that may break an \
     invariant beside it.";

/// The types that were not analysed, by reason: the reason of most types first.
fn by_reason(plan: &Plan) -> Vec<(&str, Vec<&str>)> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for entry in plan
        .entries
        .iter()
        .filter(|entry| entry.may_change_any_table)
    {
        let reason = entry.unknown.as_deref().unwrap_or_default();
        reasons.entry(reason).or_default().push(&entry.name);
    }
    let mut reasons: Vec<(&str, Vec<&str>)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    reasons
}

/// How many types were not analysed; None where all were.
fn how_many(plan: &Plan) -> Option<String> {
    let number = plan
        .entries
        .iter()
        .filter(|e| e.may_change_any_table)
        .count();
    (number > 0).then(|| count(number, "transaction type", "transaction types"))
}

/// The entry's name. One that was not analysed stands for all of them.
pub(super) fn name_of(plan: &Plan, entry: &PlanEntry) -> String {
    match how_many(plan).filter(|_| entry.may_change_any_table) {
        Some(number) => format!("{number}, not analysed"),
        None => entry.name.clone(),
    }
}

/// The indexes of the entries; of those that were not analysed, only the first.
pub(super) fn distinct(plan: &Plan) -> impl Iterator<Item = usize> {
    let first = plan
        .entries
        .iter()
        .position(|entry| entry.may_change_any_table);
    (0..plan.entries.len())
        .filter(move |at| !plan.entries[*at].may_change_any_table || first == Some(*at))
}

/// Writes the section of the text report.
pub(super) fn put_text(plan: &Plan, out: &mut String) {
    let Some(number) = how_many(plan) else {
        return;
    };
    heading(out, "Not analysed");
    hanging(
        out,
        &format!("{} ", mark(CoordinationClass::Global)),
        &number,
    );
    paragraph(out, 2, EFFECT);
    out.push('\n');
    for (reason, names) in by_reason(plan) {
        paragraph(out, 2, &format!("{reason} ({})", names.len()));
        paragraph(out, 6, &names.join(", "));
    }
    out.push('\n');
}

/// Writes the part of the HTML page.
pub(super) fn put_html(plan: &Plan, out: &mut String) {
    let Some(number) = how_many(plan) else {
        return;
    };
    let first = plan
        .entries
        .iter()
        .position(|entry| entry.may_change_any_table);
    let _ = writeln!(
        out,
        "<h3 id=\"type-{}\"><span class=\"global\">{}</span> {number}, not analysed \
         <span class=\"soft\">global</span></h3>\n<p>{EFFECT}</p>\n<div class=\"scroll\"><table class=\"crowd\">\n\
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
