//! Counterexamples as text: the initial rows, the calls of two replicas, and the merged rows.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::layout::{hanging, heading, paragraph};
use crate::explore::{Counterexample, IsolationFailure, NotShownReason, ReadCommitted, Search};
use crate::plan::{Confluence, InvariantKind, Plan};

/// The command that runs a counterexample.
pub type ReplayedBy<'r> = dyn Fn(&Counterexample) -> String + 'r;

/// The section of the report: each counterexample with the command that runs it, and the invariants that need
/// coordination but have none.
pub fn render(plan: &Plan, search: &Search, replayed_by: &ReplayedBy<'_>) -> String {
    let mut out = String::new();
    let missing = missing(plan, search);
    let found = &search.found;
    if found.is_empty() && missing.is_empty() && not_shown(search).is_empty() {
        return out;
    }
    out.push('\n');
    heading(&mut out, "Counterexamples: what breaks without the guards");
    for example in found {
        render_one(plan, example, &mut out);
        let command = replayed_by(example);
        line(&mut out, "replay", &command);
        if example.isolation.is_some() {
            let write = format!("{command} --write-sessions sessions.sql");
            line(&mut out, "sessions", &write);
        }
        out.push('\n');
    }
    if !missing.is_empty() {
        paragraph(
            &mut out,
            0,
            &format!(
                "Found no counterexample in the cases tried for: {}.",
                missing.join(", ")
            ),
        );
    }
    let listed = not_shown(search);
    if !listed.is_empty() {
        paragraph(&mut out, 0, "Verdicts without a counterexample, and why:");
        for sentence in listed {
            hanging(&mut out, "  ", &sentence);
        }
    }
    if let Some(sentence) = unconfirmed(search) {
        paragraph(&mut out, 0, &sentence);
    }
    if let Some(sentence) = unsearched(search) {
        paragraph(&mut out, 0, &sentence);
    }
    out
}

/// The invariants that need coordination, but have no counterexample.
pub(super) fn missing<'p>(plan: &'p Plan, search: &Search) -> Vec<&'p str> {
    let needing = plan.entries.iter().flat_map(|entry| &entry.verdicts);
    let needing = needing.filter(|verdict| verdict.confluent != Confluence::Yes);
    let needing: BTreeSet<usize> = needing.map(|verdict| verdict.invariant).collect();
    let found: BTreeSet<&str> = search.found.iter().map(|f| f.invariant.as_str()).collect();
    let unsearched: BTreeSet<&str> = search.unsearched.iter().map(String::as_str).collect();
    let names = needing
        .into_iter()
        .map(|index| plan.invariants[index].name.as_str());
    names
        .filter(|name| !found.contains(name) && !unsearched.contains(name))
        .collect()
}

/// The sentence on invalid merges of the solver for which no calls were found.
pub(super) fn unconfirmed(search: &Search) -> Option<String> {
    let names = search.unconfirmed.join(", ");
    (!names.is_empty()).then(|| {
        format!(
            "The solver found an invalid merge, but the search found no calls that produce it, for: {names}."
        )
    })
}

/// The text names at most this many verdicts without a counterexample.
const NOT_SHOWN_MAX: usize = 20;

/// A line for each verdict without a counterexample, with the reason. The sentence of [`unsearched`] speaks of those
/// that the limits left out.
pub(super) fn not_shown(search: &Search) -> Vec<String> {
    let told = search.not_shown.iter();
    let told = told.filter(|one| one.reason != NotShownReason::Limit);
    let mut lines: Vec<String> = told
        .map(|one| format!("{} of {}: {}", one.invariant, one.transaction, one.reason))
        .collect();
    let more = lines.len().saturating_sub(NOT_SHOWN_MAX);
    lines.truncate(NOT_SHOWN_MAX);
    if more > 0 {
        lines.push(format!("and {more} more (--format json lists all)"));
    }
    lines
}

/// What PostgreSQL in READ COMMITTED makes of two calls that are not isolated.
pub(super) fn read_committed(failure: &IsolationFailure) -> String {
    match &failure.sessions.verdict {
        ReadCommitted::Permitted => "READ COMMITTED permits it".to_owned(),
        ReadCommitted::Prevented(why) => {
            format!("READ COMMITTED prevents it: {why}; on replicas without the guard it happens")
        }
        ReadCommitted::NotDecided(why) => {
            format!("READ COMMITTED may prevent it: {why}; run the sessions to see")
        }
    }
}

/// The text names at most this many invariants that were not searched.
const UNSEARCHED_MAX: usize = 20;

/// The sentences on what was not searched, where the limits ended the search.
pub(super) fn unsearched(search: &Search) -> Option<String> {
    if search.searched == search.asked {
        return None;
    }
    let mut text = format!(
        "Searched {} of {} verdicts for counterexamples, up to {} cases each, to bound the time.",
        search.searched, search.asked, search.cases
    );
    if !search.unsearched.is_empty() {
        let names = search.unsearched.iter().take(UNSEARCHED_MAX);
        let names: Vec<&str> = names.map(String::as_str).collect();
        let _ = write!(text, " Not searched: {}", names.join(", "));
        match search.unsearched.len().saturating_sub(UNSEARCHED_MAX) {
            0 => text.push('.'),
            more => {
                let _ = write!(text, ", and {more} more (--format json lists all).");
            }
        }
    }
    Some(text)
}

/// One counterexample: the initial rows, the calls, the merged rows, and what they violate.
pub fn render_one(plan: &Plan, example: &Counterexample, out: &mut String) {
    let _ = writeln!(
        out,
        "{}: {}",
        example.invariant,
        example.transactions.join(", ")
    );
    render_case(plan, example, out);
}

/// One counterexample without its heading.
pub fn render_case(plan: &Plan, example: &Counterexample, out: &mut String) {
    let mut label = "initially";
    let none = ["-- no rows".to_owned()];
    let or_none = |rows: &[String]| {
        if rows.is_empty() {
            none.to_vec()
        } else {
            rows.to_vec()
        }
    };
    for statement in or_none(&example.initial) {
        line(out, label, &statement);
        label = "";
    }
    let mut turns = [example.replicas[0].iter(), example.replicas[1].iter()];
    let mut before = None;
    for replica in &example.order {
        let name = if *replica == 0 {
            "replica 1"
        } else {
            "replica 2"
        };
        if let Some(call) = turns[*replica].next() {
            line(out, if before == Some(replica) { "" } else { name }, call);
        }
        before = Some(replica);
    }
    label = "merged";
    for statement in &example.merged {
        line(out, label, statement);
        label = "";
    }
    for table in &example.emptied {
        line(out, label, &format!("-- no row is left in {table}"));
        label = "";
    }
    if label == "merged" {
        line(out, label, "-- unchanged");
    }
    if let Some(what) = violated(plan, example) {
        line(out, "violates", what);
    }
    if let Some(failure) = &example.isolation {
        let said = format!("{}: {}", failure.kind.title(), failure.explanation);
        hanging(out, &format!("  {:<11}", "result"), &said);
        hanging(
            out,
            &format!("  {:<11}", "PostgreSQL"),
            &read_committed(failure),
        );
    }
}

/// What the merged rows of a counterexample violate.
pub fn violated<'p>(plan: &'p Plan, example: &Counterexample) -> Option<&'p str> {
    let mut invariants = plan.invariants.iter();
    let invariant = invariants.find(|i| i.name == example.invariant)?;
    Some(match invariant.kind {
        InvariantKind::NoLostUpdate => "no serial order of the calls gives this result",
        _ => invariant
            .condition
            .as_ref()
            .unwrap_or(&invariant.description),
    })
}

/// Writes a line. Statements are not wrapped, so that they can be copied.
fn line(out: &mut String, label: &str, text: &str) {
    let _ = writeln!(out, "  {label:<11}{text}");
}
