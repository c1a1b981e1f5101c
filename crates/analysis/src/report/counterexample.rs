//! Counterexamples as text, for people: what is there, what two replicas run, what merging comes to.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::text::{heading, paragraph};
use crate::explore::{Counterexample, Search};
use crate::plan::{Confluence, InvariantKind, Plan};

/// The command that runs a counterexample.
pub type ReplayedBy<'r> = dyn Fn(&Counterexample) -> String + 'r;

/// All of them, with the command that runs each; and, of what is not confluent, that for which none was
/// found.
pub fn render(plan: &Plan, search: &Search, replayed_by: &ReplayedBy<'_>) -> String {
    let mut out = String::new();
    let missing = missing(plan, search);
    let found = &search.found;
    if found.is_empty() && missing.is_empty() {
        return out;
    }
    out.push('\n');
    heading(&mut out, "Counterexamples, without the guards");
    for example in found {
        render_one(plan, example, &mut out);
        line(&mut out, "replay", &replayed_by(example));
        out.push('\n');
    }
    if !missing.is_empty() {
        paragraph(
            &mut out,
            0,
            &format!(
                "None was found in the cases tried of: {}.",
                missing.join(", ")
            ),
        );
    }
    if let Some(said) = unconfirmed(search) {
        paragraph(&mut out, 0, &said);
    }
    if let Some(said) = unsearched(search) {
        paragraph(&mut out, 0, &said);
    }
    out
}

/// The invariants that need coordination, and of which no counterexample was found.
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

/// Of what the solver has an invalid merge, and no calls.
pub(super) fn unconfirmed(search: &Search) -> Option<String> {
    let names = search.unconfirmed.join(", ");
    (!names.is_empty()).then(|| {
        format!(
            "The solver has an invalid merge, and no calls were found that make it, of: {names}."
        )
    })
}

/// So many invariants of which nothing was looked for are named to people.
const UNSEARCHED_MAX: usize = 20;

/// What was not looked for, where there is too much of it.
pub(super) fn unsearched(search: &Search) -> Option<String> {
    if search.searched == search.asked {
        return None;
    }
    let mut said = format!(
        "Counterexamples were looked for of {} of {} verdicts, up to {} cases each: more would take too long.",
        search.searched, search.asked, search.cases
    );
    if !search.unsearched.is_empty() {
        let names = search.unsearched.iter().take(UNSEARCHED_MAX);
        let names: Vec<&str> = names.map(String::as_str).collect();
        let _ = write!(said, " None was looked for of: {}", names.join(", "));
        match search.unsearched.len().saturating_sub(UNSEARCHED_MAX) {
            0 => said.push('.'),
            more => {
                let _ = write!(said, ", and {more} more (--format json has all).");
            }
        }
    }
    Some(said)
}

/// One: what is there, what replicas run, what merging comes to and what that violates.
pub fn render_one(plan: &Plan, example: &Counterexample, out: &mut String) {
    let _ = writeln!(
        out,
        "{}: {}",
        example.invariant,
        example.transactions.join(", ")
    );
    render_case(plan, example, out);
}

/// The same without its heading.
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
        line(out, label, "-- as it was");
    }
    if let Some(what) = violated(plan, example) {
        line(out, "violates", what);
    }
}

/// What a counterexample's merged state is not.
pub fn violated<'p>(plan: &'p Plan, example: &Counterexample) -> Option<&'p str> {
    let mut invariants = plan.invariants.iter();
    let invariant = invariants.find(|i| i.name == example.invariant)?;
    Some(match invariant.kind {
        InvariantKind::NoLostUpdate => "neither call after the other comes to that",
        _ => invariant
            .condition
            .as_ref()
            .unwrap_or(&invariant.description),
    })
}

/// A statement is not broken into lines: it is there to be copied.
fn line(out: &mut String, label: &str, text: &str) {
    let _ = writeln!(out, "  {label:<11}{text}");
}
