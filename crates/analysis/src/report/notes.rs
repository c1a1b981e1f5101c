//! The notes on transaction types, invariants and tables that the text report and the HTML page share.

use std::borrow::Borrow;

use anabranch_sql::catalog::Catalog;
use anabranch_sql::source::Span;
use anabranch_sql::summary::{Role, TableAccess, TransactionSummary};
use anabranch_types::{ColumnIndex, Placement, TableSchema};

use super::deferral;
use crate::invariant::names;
use crate::plan::{
    Confluence, CoordinationClass, Guard, InvariantKind, Plan, PlanEntry, ReadSubset, Verdict,
};

/// The rule of verdicts that the solver proved.
const PROVED: &str = "solver";

/// A note names at most this many invariants; the table names all.
const NAMES_MAX: usize = 6;

/// A number with the noun in the singular or plural.
pub(super) fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// The plan in a sentence or two.
pub(super) fn summary(plan: &Plan) -> String {
    let of = |class| plan.entries.iter().filter(|e| e.class == class).count();
    let (free, local, global) = (
        of(CoordinationClass::Free),
        of(CoordinationClass::Local),
        of(CoordinationClass::Global),
    );
    let mut line = format!(
        "{}: {free} free, {local} local, {global} global; {} considered.",
        count(plan.entries.len(), "transaction type", "transaction types"),
        count(plan.invariants.len(), "invariant", "invariants"),
    );
    line.push_str(match (local + global, global) {
        _ if plan.entries.is_empty() => " Found no SQL to analyse in these files.",
        (0, _) => " No transaction type needs coordination.",
        (_, 0) => " No transaction type waits for another partition.",
        _ => " Global transaction types wait for other partitions.",
    });
    line
}

/// The symbol of a class.
pub(super) fn mark(class: CoordinationClass) -> char {
    match class {
        CoordinationClass::Free => '○',
        CoordinationClass::Local => '◐',
        CoordinationClass::Global => '●',
    }
}

/// The routing of a type's calls, in words.
pub(super) fn routed(entry: &PlanEntry, summary: &TransactionSummary) -> String {
    let name = |p: &usize| summary.parameters[*p].0.as_str();
    let names: Vec<&str> = entry.routing.iter().map(name).collect();
    routed_by(&names, entry.routing_array.as_ref().map(name))
}

/// The routing by these parameters, or by this array's elements, in words.
pub(super) fn routed_by(names: &[impl Borrow<str>], array: Option<&str>) -> String {
    match (names, array) {
        ([], None) => "any node".to_owned(),
        ([], Some(array)) => format!("routed by most of {array}"),
        (names, _) => format!("routed by {}", names.join(", ")),
    }
}

/// The notes on a transaction type, as label and text: what it coordinates on, its checks, and its deferred updates,
/// with reasons. A note with an empty label continues the one before it.
pub(super) fn notes(
    plan: &Plan,
    catalog: &Catalog,
    summaries: &[TransactionSummary],
    entry: &PlanEntry,
    summary: &TransactionSummary,
) -> Vec<(&'static str, String)> {
    let mut notes = Vec::new();
    for (place, guard) in entry.guards.iter().enumerate() {
        // Two rows of one table may read alike.
        let line = guard.to_string();
        if entry.guards[..place].iter().any(|g| g.to_string() == line) {
            continue;
        }
        notes.push(("coordinates on", line));
        for (i, why) in reasons(plan, entry, guard).into_iter().enumerate() {
            notes.push((if i == 0 { "  why" } else { "" }, why));
        }
    }
    if let Some(reason) = &entry.unknown {
        notes.push(("not analysed", reason.clone()));
    }
    let all_of = |invariants: Vec<usize>| {
        let names = invariants.iter().map(|i| plan.invariants[*i].name.as_str());
        let they = if invariants.len() == 1 { "it" } else { "them" };
        (names.collect::<Vec<_>>().join(", "), they)
    };
    if !entry.checks.is_empty() {
        let (names, they) = all_of(entry.checks.iter().map(|check| check.invariant).collect());
        notes.push(("checked", format!("{names}, before it commits")));
        let why = format!("a call that runs alone may violate {they}; a call that does is refused");
        notes.push(("  why", why));
    }
    if !entry.declared_by_author.is_empty() {
        let (names, they) = all_of(entry.declared_by_author.clone());
        let text = format!(
            "by the author: it keeps {names} when it runs alone; the analyser does not check {they}"
        );
        notes.push(("declared", text));
    }
    for verdict in entry.verdicts.iter().filter(|v| v.rule == PROVED) {
        let name = &plan.invariants[verdict.invariant].name;
        let how = verdict.explanation.trim_start_matches("proved ");
        notes.push(("proved", format!("{name}, {how} [{PROVED}]")));
    }
    let mut updates_of: Vec<(&'static str, String, Vec<String>)> = Vec::new();
    for statement in &summary.statements {
        if statement.accesses.iter().any(|a| a.role == Role::Insert) {
            continue;
        }
        let updates = |a: &&TableAccess| a.role == Role::Update && !a.writes.is_empty();
        let Some(update) = statement.accesses.iter().find(updates) else {
            continue;
        };
        let what = updated(catalog, statement.span, update);
        let why = deferral::reason(entry, catalog, summaries, statement, update);
        let (label, line) = match entry.deferred.contains(&statement.id) {
            true => ("deferred to commit", format!("{what}, by the row's owner")),
            false => ("read before write", what),
        };
        match updates_of.last_mut() {
            Some((known, reason, lines)) if (*known, &*reason) == (label, &why) => lines.push(line),
            _ => updates_of.push((label, why, vec![line])),
        }
    }
    // Consecutive updates with the same reason share one line for it.
    for (label, why, lines) in updates_of {
        for (at, line) in lines.into_iter().enumerate() {
            notes.push((if at == 0 { label } else { "" }, line));
        }
        notes.push(("  why", why));
    }
    let is_free = entry.unknown.is_none() || entry.class == CoordinationClass::Free;
    if entry.guards.is_empty() && is_free {
        notes.push(("because", free_reason(plan, entry)));
    }
    notes
}

/// The reasons for a guard: the invariants that fail without it, by rule.
fn reasons(plan: &Plan, entry: &PlanEntry, guard: &Guard) -> Vec<String> {
    let mut by_rule: Vec<(&'static str, &str, Vec<&str>)> = Vec::new();
    for invariant in &guard.invariants {
        let Some(verdict) = entry.verdict(*invariant) else {
            continue;
        };
        let name = plan.invariants[*invariant].name.as_str();
        match by_rule.iter_mut().find(|(rule, ..)| *rule == verdict.rule) {
            Some((_, _, names)) => names.push(name),
            None => by_rule.push((verdict.rule, &verdict.explanation, vec![name])),
        }
    }
    by_rule
        .into_iter()
        .map(|(rule, why, names)| format!("{}: {why} [{rule}]", few(&names)))
        .collect()
}

/// The names; of many only the first, and the number of the rest.
fn few(names: &[&str]) -> String {
    match names.len().saturating_sub(NAMES_MAX) {
        0 | 1 => names.join(", "),
        more => format!("{} and {more} more", names[..NAMES_MAX].join(", ")),
    }
}

/// An UPDATE in short, with its place.
fn updated(catalog: &Catalog, span: Span, update: &TableAccess) -> String {
    let table = catalog.schema.table(update.table);
    let columns: Vec<ColumnIndex> = update.writes.iter().map(|w| w.column).collect();
    let place = match excerpt_place(catalog, span) {
        place if place.is_empty() => place,
        place => format!(" ({place})"),
    };
    format!(
        "UPDATE {} SET {}{place}",
        table.name,
        names(table, &columns)
    )
}

fn free_reason(plan: &Plan, entry: &PlanEntry) -> String {
    if entry.read_only {
        let sees = "it writes nothing, and sees all of a transaction's effects or none";
        return match &entry.read_subset {
            None => sees.into(),
            Some(ReadSubset::Serializable) => {
                format!("{sees}; what it reads is always written together: serializable [rsiw]")
            }
            Some(ReadSubset::Beside(other)) => format!(
                "{sees}; what it reads is always written together, but not what {other} reads or \
                 writes [rsiw]"
            ),
        };
    }
    let mut rules: Vec<&'static str> = Vec::new();
    for verdict in &entry.verdicts {
        if !rules.contains(&verdict.rule) {
            rules.push(verdict.rule);
        }
    }
    if rules.is_empty() {
        return format!(
            "it affects none of the {}",
            count(plan.invariants.len(), "invariant", "invariants")
        );
    }
    format!(
        "it affects {}; all hold without coordination, by {}",
        count(entry.verdicts.len(), "invariant", "invariants"),
        rules.join(", ")
    )
}

/// The placement of a table's rows, in words.
pub(super) fn placed(table: &TableSchema, placement: &Placement) -> String {
    match placement {
        Placement::Replicated => "every partition".to_owned(),
        Placement::Whole => "one partition".to_owned(),
        Placement::Columns(columns) => format!("by {}", names(table, columns)),
    }
}

/// The invariants that some type can affect, assertions first.
pub(super) fn affected(plan: &Plan) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..plan.invariants.len())
        .filter(|i| plan.entries.iter().any(|e| e.verdict(*i).is_some()))
        .collect();
    rows.sort_by_key(|i| (kind_order(plan.invariants[*i].kind), *i));
    rows
}

/// The sentence on the invariants that are not [`affected`], if there are any.
pub(super) fn unaffected(plan: &Plan, affected: usize) -> Option<String> {
    let left = plan.invariants.len() - affected;
    (left > 0).then(|| {
        format!(
            "{} that no transaction type affects {} not listed.",
            count(left, "invariant", "invariants"),
            if left == 1 { "is" } else { "are" }
        )
    })
}

/// The symbol of a verdict.
pub(super) fn sign(verdict: &Verdict) -> char {
    match verdict.confluent {
        Confluence::Yes => '✓',
        Confluence::No => '✗',
        Confluence::Unknown => '?',
    }
}

/// Assertions first, then what tables declare.
fn kind_order(kind: InvariantKind) -> u8 {
    match kind {
        InvariantKind::Other
        | InvariantKind::MaterializedView
        | InvariantKind::SequentialId
        | InvariantKind::Existence
        | InvariantKind::NonEmpty
        | InvariantKind::Size => 0,
        InvariantKind::NoLostUpdate => 1,
        InvariantKind::Uniqueness => 2,
        InvariantKind::ForeignKey => 3,
        InvariantKind::LowerBound | InvariantKind::UpperBound | InvariantKind::RowCheck => 4,
        InvariantKind::RowEquality => 5,
        InvariantKind::SecondaryIndex => 6,
    }
}

/// `file:line` of a span; empty for a span that is in no file.
fn excerpt_place(catalog: &Catalog, span: Span) -> String {
    let Some(file) = catalog
        .files
        .get(usize::from(span.file))
        .filter(|_| span.end > 0)
    else {
        return String::new();
    };
    format!("{}:{}", file.name, file.line_column(span.start).0)
}
