//! The plan as text, for people: each transaction type with what it is ordered on and why, where
//! the data lives, and a table of types and invariants.
//!
//! No line is longer than [`WIDTH`] columns, unless a name alone is.

use std::fmt::Write;

use anabranch_sql::catalog::Catalog;
use anabranch_sql::source::Span;
use anabranch_sql::summary::{Role, TableAccess, TransactionSummary};
use anabranch_types::{ColumnIndex, Placement};

use super::deferral;
use super::json::{class_name, merge_name};
use crate::invariant::names;
use crate::plan::{
    Confluence, CoordinationClass, Guard, GuardKeeping, InvariantKind, MergePolicy, Plan,
    PlanEntry, ReadSubset, Verdict,
};

/// The width of the text, in columns.
pub const WIDTH: usize = 100;

/// The widest name of an invariant that is shown whole.
const NAME_MAX: usize = 32;

/// What is left for the rules at the end of a line of the table.
const RULES_WIDTH: usize = 20;

/// Where the explanation of a transaction's line begins.
const MARGIN: usize = 16;

/// The whole report.
pub fn render(plan: &Plan, catalog: &Catalog, summaries: &[TransactionSummary]) -> String {
    let mut out = String::new();
    summary(plan, &mut out);
    transactions(plan, catalog, summaries, &mut out);
    placements(plan, catalog, &mut out);
    merges(plan, catalog, &mut out);
    matrix(plan, &mut out);
    out
}

/// The transactions and the placement alone: the first screen of the demo.
pub fn render_transactions(
    plan: &Plan,
    catalog: &Catalog,
    summaries: &[TransactionSummary],
) -> String {
    let mut out = String::new();
    summary(plan, &mut out);
    transactions(plan, catalog, summaries, &mut out);
    placements(plan, catalog, &mut out);
    out
}

pub(super) fn heading(out: &mut String, title: &str) {
    let _ = writeln!(out, "{title}\n{}", "─".repeat(title.chars().count()));
}

fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn summary(plan: &Plan, out: &mut String) {
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
        _ if plan.entries.is_empty() => " No procedure is declared: there is nothing to analyse.",
        (0, _) => " Nothing needs coordination.",
        (_, 0) => " Nothing waits for another partition.",
        _ => " What is global waits for other partitions.",
    });
    paragraph(out, 0, &line);
    out.push('\n');
}

fn transactions(
    plan: &Plan,
    catalog: &Catalog,
    summaries: &[TransactionSummary],
    out: &mut String,
) {
    heading(out, "Transactions");
    let wide = plan
        .entries
        .iter()
        .map(|e| e.name.chars().count())
        .max()
        .unwrap_or(0);
    for (entry, summary) in plan.entries.iter().zip(summaries) {
        let routing: Vec<&str> = entry
            .routing
            .iter()
            .map(|p| summary.parameters[*p].0.as_str())
            .collect();
        let routed = match routing.as_slice() {
            [] => "runs anywhere".to_owned(),
            names => format!("routed by {}", names.join(", ")),
        };
        let read = if entry.read_only { ", read-only" } else { "" };
        let _ = writeln!(
            out,
            "{} {:wide$}  {:<6} {routed}{read}",
            mark(entry.class),
            entry.name,
            class_name(entry.class),
        );
        for (place, guard) in entry.guards.iter().enumerate() {
            // Two rows of one table may read alike.
            let line = guard_line(guard);
            if entry.guards[..place].iter().any(|g| guard_line(g) == line) {
                continue;
            }
            labelled(out, "ordered on", &line);
            for (i, why) in reasons(plan, entry, guard).iter().enumerate() {
                labelled(out, if i == 0 { "  why" } else { "" }, why);
            }
        }
        for check in &entry.checks {
            let name = &plan.invariants[check.invariant].name;
            labelled(out, "checked", &format!("{name}, before it commits"));
            labelled(
                out,
                "  why",
                "run alone, it might violate it: what violates it is refused",
            );
        }
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
            if entry.deferred.contains(&statement.id) {
                labelled(out, "at commit", &format!("{what}, by the row's owner"));
            } else {
                labelled(out, "read first", &what);
            }
            labelled(out, "  why", &why);
        }
        if entry.guards.is_empty() {
            labelled(out, "because", &free_reason(plan, entry));
        }
        out.push('\n');
    }
}

/// The sign of a class.
fn mark(class: CoordinationClass) -> char {
    match class {
        CoordinationClass::Free => '○',
        CoordinationClass::Local => '◐',
        CoordinationClass::Global => '●',
    }
}

fn guard_line(guard: &Guard) -> String {
    let key: Vec<String> = guard
        .key
        .iter()
        .map(|k| match k.from.as_str() {
            "computed" | "not known" => k.name.clone(),
            from => format!("{} = {from}", k.name),
        })
        .collect();
    let one = if key.is_empty() {
        "all of it together".to_owned()
    } else {
        format!("one for each ({})", key.join(", "))
    };
    let keeping = match guard.keeping {
        GuardKeeping::AtCommit => "decided by its owner at commit",
        GuardKeeping::Validated => "held from prepare to commit",
    };
    format!("{}, {one}; {keeping}", guard.item)
}

/// Why a guard is needed: the invariants that fail without it, by rule.
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
        .map(|(rule, why, names)| format!("{}: {why} [{rule}]", names.join(", ")))
        .collect()
}

/// An UPDATE, in short, with its place.
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
        let sees = "it writes nothing; it sees all of a transaction's effects or none";
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
            "none of the {} concerns it",
            count(plan.invariants.len(), "invariant", "invariants")
        );
    }
    format!(
        "{}; all survive without coordination, by {}",
        count(
            entry.verdicts.len(),
            "invariant concerns it",
            "invariants concern it"
        ),
        rules.join(", ")
    )
}

fn placements(plan: &Plan, catalog: &Catalog, out: &mut String) {
    heading(out, "Where the rows live");
    let tables = &catalog.schema.tables;
    let wide = tables
        .iter()
        .map(|t| t.name.chars().count())
        .max()
        .unwrap_or(0);
    let where_: Vec<String> = tables
        .iter()
        .zip(&plan.placements)
        .map(|(table, placement)| match placement {
            Placement::Replicated => "everywhere".to_owned(),
            Placement::Whole => "one partition".to_owned(),
            Placement::Columns(columns) => format!("by {}", names(table, columns)),
        })
        .collect();
    let middle = where_.iter().map(|w| w.chars().count()).max().unwrap_or(0);
    for ((table, place), reason) in tables.iter().zip(&where_).zip(&plan.placement_reasons) {
        let start = format!("  {:wide$}  {place:middle$}  ", table.name);
        hanging(out, &start, reason);
    }
    out.push('\n');
}

fn merges(plan: &Plan, catalog: &Catalog, out: &mut String) {
    let policies = [
        (MergePolicy::Counter, "increments add up"),
        (
            MergePolicy::OwnerOrder,
            "computed from the row by its owner, in the order of commits",
        ),
        (MergePolicy::LastWriter, "the highest timestamp wins"),
        (
            MergePolicy::Guarded,
            "written from data that was read: its writers are ordered",
        ),
    ];
    if plan
        .columns
        .iter()
        .all(|c| c.policy == MergePolicy::Immutable)
    {
        return;
    }
    heading(out, "How concurrent writes to a column are merged");
    for (policy, words) in policies {
        let columns: Vec<String> = plan
            .columns
            .iter()
            .filter(|c| c.policy == policy)
            .map(|c| {
                let table = catalog.schema.table(c.table);
                format!("{}.{}", table.name, table.columns[c.column.index()].name)
            })
            .collect();
        if !columns.is_empty() {
            let start = format!("  {:<12}", merge_name(policy));
            hanging(out, &start, &format!("{words}: {}", columns.join(", ")));
        }
    }
    let rest = plan
        .columns
        .iter()
        .filter(|c| c.policy == MergePolicy::Immutable)
        .count();
    if rest > 0 {
        hanging(
            out,
            &format!("  {:<12}", merge_name(MergePolicy::Immutable)),
            &format!(
                "{} written with their rows alone",
                count(rest, "column,", "columns,")
            ),
        );
    }
    out.push('\n');
}

/// Types by invariants, as many types at a time as fit. Invariants that no type can affect are
/// counted only.
fn matrix(plan: &Plan, out: &mut String) {
    heading(
        out,
        "Invariants: ✓ holds without coordination, ✗ needs it, ? not known",
    );
    let mut rows: Vec<usize> = (0..plan.invariants.len())
        .filter(|i| plan.entries.iter().any(|e| e.verdict(*i).is_some()))
        .collect();
    rows.sort_by_key(|i| (kind_order(plan.invariants[*i].kind), *i));
    let named = rows
        .iter()
        .map(|i| plan.invariants[*i].name.chars().count());
    let wide = named.chain([9]).max().unwrap_or(9).min(NAME_MAX);
    let mut types: Vec<(&PlanEntry, usize)> = plan
        .entries
        .iter()
        .filter(|e| !e.verdicts.is_empty())
        .map(|e| (e, e.name.chars().count().clamp(4, 16)))
        .collect();
    while !types.is_empty() {
        let mut room = WIDTH - 2 - wide - RULES_WIDTH;
        let fits = types.iter().take_while(|(_, cell)| {
            let enough = room >= cell + 2;
            room = room.saturating_sub(cell + 2);
            enough
        });
        let rest = types.split_off(fits.count().max(1));
        part_of_matrix(plan, &rows, &types, wide, out);
        types = rest;
        if !types.is_empty() {
            out.push('\n');
        }
    }
    let untouched = plan.invariants.len() - rows.len();
    if untouched > 0 {
        let text = format!(
            "{} that no transaction type can affect {} not shown.",
            count(untouched, "invariant", "invariants"),
            if untouched == 1 { "is" } else { "are" }
        );
        let _ = writeln!(out, "  {text}");
    }
}

/// The columns of some types, with the invariants that they can affect.
fn part_of_matrix(
    plan: &Plan,
    rows: &[usize],
    types: &[(&PlanEntry, usize)],
    wide: usize,
    out: &mut String,
) {
    let mut header = format!("  {:wide$}", "invariant");
    for (entry, cell) in types {
        let _ = write!(header, "  {:<cell$}", clip(&entry.name, *cell));
    }
    let _ = writeln!(out, "{header}  rule");
    for i in rows {
        let mut line = format!("  {:wide$}", clip(&plan.invariants[*i].name, wide));
        let mut rules: Vec<&str> = Vec::new();
        for (entry, cell) in types {
            let verdict = entry.verdict(*i);
            let _ = write!(line, "  {:<cell$}", verdict.map_or(' ', sign));
            rules.extend(verdict.map(|v| v.rule));
        }
        rules.sort_unstable();
        rules.dedup();
        if !rules.is_empty() {
            hanging(out, &format!("{line}  "), &rules.join(", "));
        }
    }
}

fn sign(verdict: &Verdict) -> char {
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

fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width - 1).collect();
    short.push('…');
    short
}

/// A line of a transaction, with its label.
fn labelled(out: &mut String, label: &str, text: &str) {
    hanging(
        out,
        &format!("    {label:<width$}", width = MARGIN - 4),
        text,
    );
}

/// A paragraph indented by `indent`.
pub(super) fn paragraph(out: &mut String, indent: usize, text: &str) {
    hanging(out, &" ".repeat(indent), text);
}

/// Text behind `start`, wrapped under itself.
fn hanging(out: &mut String, start: &str, text: &str) {
    let indent = start.chars().count();
    let mut line = start.to_owned();
    let mut width = indent;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if width > indent && width + 1 + length > WIDTH {
            out.push_str(line.trim_end());
            out.push('\n');
            line = " ".repeat(indent);
            width = indent;
        }
        if width > indent {
            line.push(' ');
            width += 1;
        }
        line.push_str(word);
        width += length;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

/// `file:line` of a place; empty for a place that is not in a file.
fn excerpt_place(catalog: &Catalog, span: Span) -> String {
    let Some(file) = catalog
        .files
        .get(usize::from(span.file))
        .filter(|_| span.end > 0)
    else {
        return String::new();
    };
    format!("{}:{}", file.name, line_of(&file.text, span.start))
}

/// The line of a byte, from 1.
pub(super) fn line_of(text: &str, byte: u32) -> usize {
    let end = (byte as usize).min(text.len());
    1 + text.as_bytes()[..end]
        .iter()
        .filter(|b| **b == b'\n')
        .count()
}

/// The text of a statement on one line.
pub(super) fn excerpt(catalog: &Catalog, span: Span) -> String {
    let Some(file) = catalog.files.get(usize::from(span.file)) else {
        return String::new();
    };
    let text = file
        .text
        .get(span.start as usize..span.end as usize)
        .unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
