//! The plan as text: each transaction type with what it coordinates on and why, the placement of rows, and a table
//! of types and invariants.
//!
//! No line is longer than [`WIDTH`] columns, unless a name alone is.

use std::fmt::Write;

use anabranch_sql::catalog::Catalog;
use anabranch_sql::source::Span;
use anabranch_sql::summary::TransactionSummary;

use super::layout::{WIDTH, hanging, heading, paragraph};
use super::names::{class_name, merge_name};
use super::not_analysed;
use super::notes::{affected, count, mark, notes, placed, routed, sign, summary, unaffected};
use super::partition::{PartitioningView, put_text};
use crate::plan::{MergePolicy, Plan, PlanEntry};

/// Longer names of invariants are cut, in columns.
const NAME_MAX: usize = 32;

/// The width of the rules at the end of a line of the table, in columns.
const RULES_WIDTH: usize = 20;

/// The column at which the text behind a transaction's labels begins.
const MARGIN: usize = 24;

/// The whole report.
pub fn render(plan: &Plan, catalog: &Catalog, summaries: &[TransactionSummary]) -> String {
    let mut out = String::new();
    heading_line(plan, &mut out);
    transactions(plan, catalog, summaries, &mut out);
    placements(plan, catalog, &mut out);
    if let Some(found) = &plan.partitioning {
        let view = PartitioningView {
            found,
            catalog,
            summaries,
        };
        put_text(view, &mut out);
    }
    merges(plan, catalog, &mut out);
    matrix(plan, &mut out);
    out
}

/// The transactions and the placement only: the first screen of the demo.
pub fn render_transactions(
    plan: &Plan,
    catalog: &Catalog,
    summaries: &[TransactionSummary],
) -> String {
    let mut out = String::new();
    heading_line(plan, &mut out);
    transactions(plan, catalog, summaries, &mut out);
    placements(plan, catalog, &mut out);
    out
}

fn heading_line(plan: &Plan, out: &mut String) {
    paragraph(out, 0, &summary(plan));
    out.push('\n');
}

fn transactions(
    plan: &Plan,
    catalog: &Catalog,
    summaries: &[TransactionSummary],
    out: &mut String,
) {
    heading(out, "Transactions");
    let analysed = || {
        let entries = plan.entries.iter().zip(summaries);
        entries.filter(|(entry, _)| !entry.may_change_any_table)
    };
    let names = analysed().map(|(entry, _)| entry.name.chars().count());
    let wide = names.max().unwrap_or(0);
    for (entry, summary) in analysed() {
        transaction(plan, catalog, summaries, (entry, summary), wide, out);
        out.push('\n');
    }
    not_analysed::put_text(plan, out);
}

/// One transaction type, its name padded to `wide` columns.
pub(super) fn transaction(
    plan: &Plan,
    catalog: &Catalog,
    summaries: &[TransactionSummary],
    (entry, summary): (&PlanEntry, &TransactionSummary),
    wide: usize,
    out: &mut String,
) {
    let routed = routed(entry, summary);
    let read = if entry.read_only { ", read-only" } else { "" };
    let _ = writeln!(
        out,
        "{} {:wide$}  {:<6} {routed}{read}",
        mark(entry.class),
        entry.name,
        class_name(entry.class),
    );
    for (label, text) in notes(plan, catalog, summaries, entry, summary) {
        labelled(out, label, &text);
    }
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
        .map(|(table, placement)| placed(table, placement))
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

/// The table of types and invariants, in parts of as many types as fit the width. Invariants that no type can affect
/// are only counted.
fn matrix(plan: &Plan, out: &mut String) {
    heading(
        out,
        "Invariants: ✓ holds without coordination, ✗ needs it, ? not known",
    );
    let rows = affected(plan);
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
    if let Some(text) = unaffected(plan, rows.len()) {
        let _ = writeln!(out, "  {text}");
    }
}

/// One part of the table: the columns of these types.
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

fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width - 1).collect();
    short.push('…');
    short
}

/// Writes a line of a transaction, with its label.
fn labelled(out: &mut String, label: &str, text: &str) {
    hanging(
        out,
        &format!("    {label:<width$}", width = MARGIN - 4),
        text,
    );
}

/// The text of a statement, on one line.
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
