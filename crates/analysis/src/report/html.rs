//! The plan as one self-contained HTML page: the coordination graph, the transaction types, the table of types and
//! invariants, operation partitioning, counterexamples step by step, repairs, the placement of rows, and what was
//! skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use anabranch_sql::catalog::Catalog;
use anabranch_sql::script::{ProbableInvariant, Skipped};
use anabranch_sql::source::Span;
use anabranch_sql::summary::TransactionSummary;
use anabranch_types::markup::{escaped, page};

use super::counterexample::{
    ReplayedBy, missing, not_shown, read_committed, unconfirmed, unsearched, violated,
};
use super::findings::{Baseline, Finding};
use super::graph::svg;
use super::names::{class_name, merge_name};
use super::not_analysed::{self, name_of};
use super::notes::{affected, count, mark, notes, placed, routed, sign, summary, unaffected};
use super::partition::{PartitioningView, put_html};
use super::probable;
use super::repairs::{self, BestRepairs};
use super::skipped::{NOT_COMPLETE, located};
use crate::explore::{Counterexample, Search};
use crate::plan::{Confluence, Edge, MergePolicy, Plan, Verdict};
use crate::rule::rule;

const STYLE: &str = "
h3 { font-size: 1rem; margin: 1.3rem 0 .3rem; }
h3 .soft, .soft { color: var(--soft); font-weight: 400; }
th, td { text-align: left; vertical-align: top; overflow-wrap: break-word; max-width: 30rem; }
code, pre { font: .84rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
pre { background: #f5f7f9; border-radius: 8px; padding: .8rem 1rem; overflow-x: auto; margin: .5rem 0 0; }
a { color: var(--accent); }
.free { color: #00704f; } .local { color: #8a5a00; } .global { color: #b3261e; }
.notes { display: grid; grid-template-columns: 7rem 1fr; gap: .15rem .8rem; margin: .2rem 0 0; }
.notes dt { color: var(--soft); } .notes dd { margin: 0; max-width: 46rem; }
.matrix td:not(:first-child), .matrix th:not(:first-child) { text-align: center; white-space: nowrap; }
.matrix td:first-child, .matrix th:first-child { position: sticky; left: 0; background: #fff; max-width: 11rem; }
.matrix td small { color: var(--soft); display: block; }
.yes { color: #00704f; } .no { color: #b3261e; font-weight: 700; } .unknown { color: #8a5a00; font-weight: 700; }
.steps td { white-space: pre-wrap; font: .84rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.steps td:first-child { font: inherit; color: var(--soft); white-space: nowrap; width: 1%; }
.broken td { color: #b3261e; font-family: inherit; }
.crowd td:first-child { min-width: 11rem; } .crowd td:nth-child(2), .crowd th { white-space: nowrap; }
.repair + .repair { border-top: 1px solid var(--line); }
.gone { color: #b3261e; } .come { color: #00704f; } .kept { color: var(--soft); }
@media (max-width: 40rem) {
  .notes { grid-template-columns: 1fr; } .notes dt:not(:empty) { margin-top: .4rem; }
  .crowd, .crowd tbody, .crowd tr, .crowd td { display: block; } .crowd th { display: none; }
  .crowd td { overflow-wrap: anywhere; }
  .crowd td + td { border-top: 0; padding-top: 0; } .crowd td:first-child { font-weight: 600; }
  .crowd td:nth-child(2)::after { content: \" pairs\"; }
}
";

/// The contents of the page.
#[derive(Clone, Copy)]
pub struct Page<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The application's catalog.
    pub catalog: &'a Catalog,
    /// What its transaction types read and write.
    pub summaries: &'a [TransactionSummary],
    /// Counterexamples, if they were searched.
    pub counterexamples: Option<&'a Search>,
    /// Repairs, if they were searched.
    pub repairs: Option<BestRepairs<'a>>,
    /// The command that runs one of the counterexamples.
    pub replayed_by: &'a ReplayedBy<'a>,
    /// The findings: what needs coordination.
    pub findings: &'a [Finding<'a>],
    /// Pieces of the files that the analyser skipped.
    pub skipped: &'a [Skipped],
    /// Rules that programs probably rely on.
    pub probable: &'a [ProbableInvariant],
    /// The known findings, if a baseline was given.
    pub baseline: Option<&'a Baseline>,
}

/// The graph is not drawn with more edges than this.
const EDGES_MAX: usize = 300;

/// In the table that replaces a graph, an invariant names at most this many types.
const TYPES_MAX: usize = 20;

/// More files than this are only counted.
const FILES_MAX: usize = 12;

/// The introduction of a graph without edges where some types were not analysed.
const ONLY_NOT_ANALYSED: &str = "<p>Calls of transaction types that were not analysed have to be ordered against each \
     other, for every invariant. No other transaction type has to be ordered against another one.</p>\n";

/// The introduction of the graph under serializability.
const EVERYTHING: &str = "<p>Everything is ordered (<code>--guarantee serializable</code>): every row that \
     is read or written is a guard. Types wait for each other wherever they conflict; the section on operation \
     partitioning lists the conflicts. The edges show only what the invariants demand.</p>\n";

impl Page<'_> {
    /// The page.
    pub fn render(&self) -> String {
        let mut header = format!("<p>{}</p>\n", escaped(&summary(self.plan)));
        let names: Vec<&str> = self.catalog.files.iter().map(|f| f.name.as_str()).collect();
        if names.len() > FILES_MAX {
            let _ = writeln!(header, "<p>Read from {} files.</p>", names.len());
        } else if !names.is_empty() {
            let _ = writeln!(header, "<p>Read from {}.</p>", escaped(&names.join(", ")));
        }
        let mut body = String::new();
        self.put_graph(&mut body);
        self.put_baseline(&mut body);
        self.put_types(&mut body);
        self.put_matrix(&mut body);
        if let Some(found) = &self.plan.partitioning {
            let view = PartitioningView {
                found,
                catalog: self.catalog,
                summaries: self.summaries,
            };
            put_html(view, &mut body);
        }
        self.put_counterexamples(&mut body);
        if let Some(shown) = self.repairs {
            repairs::put_html(shown, &mut body);
        }
        self.put_placements(&mut body);
        self.put_merges(&mut body);
        self.put_skipped(&mut body);
        self.put_probable(&mut body);
        page("What needs coordination", STYLE, &header, &body)
    }

    fn put_graph(&self, out: &mut String) {
        let plan = self.plan;
        if plan.entries.is_empty() {
            return;
        }
        let edges = plan.edges();
        out.push_str("<section>\n<h2>The coordination graph</h2>\n");
        let everything = self.plan.partitioning.is_some();
        let some_not_analysed = plan.entries.iter().any(|entry| entry.may_change_any_table);
        out.push_str(match edges.is_empty() {
            _ if everything => EVERYTHING,
            true if some_not_analysed => ONLY_NOT_ANALYSED,
            true => "<p>No transaction type has to be ordered against another one.</p>\n",
            false => {
                "<p>An edge joins types whose calls have to be ordered against each other. It names the invariants \
                 that demand this. Types without an edge between them do not wait for each other.</p>\n"
            }
        });
        if edges.len() > EDGES_MAX {
            self.put_crowd(out, &edges);
            out.push_str("</section>\n");
            return;
        }
        let _ = writeln!(
            out,
            "<figure class=\"scroll\">{}</figure>",
            svg(plan, &edges)
        );
        if !edges.is_empty() {
            out.push_str(
                "<div class=\"scroll\"><table>\n<tr><th></th><th>types</th>\
                 <th>ordered for</th></tr>\n",
            );
            for (number, edge) in (1..).zip(&edges) {
                self.put_edge(out, number, edge);
            }
            out.push_str("</table></div>\n");
        }
        out.push_str("</section>\n");
    }

    /// Writes a table by invariant in place of a graph with too many edges.
    fn put_crowd(&self, out: &mut String, edges: &[Edge]) {
        let _ = writeln!(
            out,
            "<p>The graph has {} pairs, too many to draw. JSON lists all of them (<code>--format json</code>, in the \
             verdicts).</p>\n<div class=\"scroll\"><table class=\"crowd\">\n<tr><th>ordered for</th>\
             <th>pairs</th><th>types</th></tr>",
            edges.len()
        );
        let mut of_invariants: BTreeMap<usize, (usize, BTreeSet<usize>)> = BTreeMap::new();
        for edge in edges {
            for invariant in edge.invariants.keys() {
                let (pairs, types) = of_invariants.entry(*invariant).or_default();
                *pairs += 1;
                types.extend([edge.ends.0, edge.ends.1]);
            }
        }
        let mut rows: Vec<_> = of_invariants.into_iter().collect();
        rows.sort_by_key(|(_, (pairs, _))| std::cmp::Reverse(*pairs));
        for (invariant, (pairs, types)) in rows {
            let names = types.iter().take(TYPES_MAX);
            let names: Vec<String> = names
                .map(|at| name_of(self.plan, &self.plan.entries[*at]))
                .collect();
            let more = match types.len().saturating_sub(TYPES_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let _ = writeln!(
                out,
                "<tr><td>{}</td><td>{pairs}</td><td>{}{more}</td></tr>",
                escaped(&self.plan.invariants[invariant].name),
                escaped(&names.join(", "))
            );
        }
        out.push_str("</table></div>\n");
    }

    fn put_edge(&self, out: &mut String, number: usize, edge: &Edge) {
        let name = |at: usize| escaped(&name_of(self.plan, &self.plan.entries[at]));
        let (one, other) = edge.ends;
        let ends = match one == other {
            true => format!("{} with itself", name(one)),
            false => format!("{}, {}", name(one), name(other)),
        };
        let invariants = edge.invariants.iter().map(|(invariant, rules)| {
            let rules: Vec<&str> = rules.iter().copied().collect();
            format!(
                "{} <span class=\"soft\">[{}]</span>",
                escaped(&self.plan.invariants[*invariant].name),
                escaped(&rules.join(", "))
            )
        });
        let invariants: Vec<String> = invariants.collect();
        let _ = writeln!(
            out,
            "<tr><td>{number}</td><td>{ends}</td><td>{}</td></tr>",
            invariants.join(", ")
        );
    }

    fn put_baseline(&self, out: &mut String) {
        let Some(baseline) = self.baseline else {
            return;
        };
        out.push_str("<section>\n<h2>Against the baseline</h2>\n");
        let new = self.findings.iter().filter(|f| !baseline.knows(f));
        let new: Vec<String> = new
            .map(|f| {
                format!(
                    "<tr><td class=\"no\">new</td><td>{}</td></tr>\n",
                    escaped(&f.message())
                )
            })
            .collect();
        let skipped = baseline.new_skipped(self.skipped, self.catalog);
        let skipped: Vec<String> = skipped
            .map(|piece| {
                let message = escaped(&piece.diagnostic.message);
                format!("<tr><td class=\"no\">new</td><td>skipped: {message}</td></tr>\n")
            })
            .collect();
        if new.is_empty() {
            out.push_str("<p>Nothing new needs coordination.</p>\n");
        }
        let gone = baseline.gone(self.findings);
        let gone: Vec<String> = gone
            .into_iter()
            .map(|print| {
                let print = escaped(&print.to_string());
                format!(
                    "<tr><td class=\"yes\">gone</td><td>{print}: not found any more</td></tr>\n"
                )
            })
            .collect();
        let rows = [new, skipped, gone].concat().concat();
        if !rows.is_empty() {
            let _ = writeln!(out, "<table>\n{rows}</table>");
        }
        out.push_str("</section>\n");
    }

    fn put_types(&self, out: &mut String) {
        out.push_str("<section>\n<h2>Transaction types</h2>\n");
        if self.plan.entries.is_empty() {
            out.push_str("<p>Found no SQL to analyse in these files.</p>\n");
        }
        let entries = self.plan.entries.iter().zip(self.summaries).enumerate();
        for (at, (entry, types)) in entries.filter(|(_, (entry, _))| !entry.may_change_any_table) {
            let class = class_name(entry.class);
            let read = if entry.read_only { ", read-only" } else { "" };
            let _ = writeln!(
                out,
                "<h3 id=\"type-{at}\"><span class=\"{class}\">{}</span> {} <span class=\"soft\">{class}, \
                 {}{read}</span></h3>\n<dl class=\"notes\">",
                mark(entry.class),
                escaped(&entry.name),
                escaped(&routed(entry, types)),
            );
            for (label, text) in notes(self.plan, self.catalog, self.summaries, entry, types) {
                let (label, text) = (label.trim(), escaped(&text));
                let _ = writeln!(out, "<dt>{label}</dt><dd>{text}</dd>");
            }
            out.push_str("</dl>\n");
            let mut declared = self.catalog.procedures.iter();
            if let Some(procedure) = declared.find(|p| p.name == entry.name) {
                self.put_source(out, procedure.span);
            }
        }
        not_analysed::put_html(self.plan, out);
        out.push_str("</section>\n");
    }

    /// Writes the SQL of a procedure, folded.
    fn put_source(&self, out: &mut String, span: Span) {
        let file = self.catalog.files.get(usize::from(span.file));
        let text = file.and_then(|file| file.text.get(span.start as usize..span.end as usize));
        let (Some(file), Some(text)) = (file, text) else {
            return;
        };
        let line = file.line_column(span.start).0;
        let _ = writeln!(
            out,
            "<details><summary>{}:{line}</summary><pre>{}</pre></details>",
            escaped(&file.name),
            escaped(text.trim())
        );
    }

    fn put_matrix(&self, out: &mut String) {
        let plan = self.plan;
        let rows = affected(plan);
        let types: Vec<_> = plan
            .entries
            .iter()
            .filter(|e| !e.verdicts.is_empty())
            .collect();
        out.push_str("<section>\n<h2>Types and invariants</h2>\n");
        if self.plan.partitioning.is_some() {
            out.push_str(
                "<p>This is what the invariants demand; serializability orders more.</p>\n",
            );
        }
        if !rows.is_empty() {
            out.push_str(
                "<p><span class=\"yes\">✓</span> holds without coordination, <span class=\"no\">✗</span> \
                 needs it, <span class=\"unknown\">?</span> is not known, which counts as needing it. Below \
                 each sign is the rule that decided; point at it to read why.</p>\n\
                 <div class=\"scroll\"><table class=\"matrix\">\n<tr><th>invariant</th>",
            );
            for entry in &types {
                let _ = write!(out, "<th>{}</th>", escaped(&entry.name));
            }
            out.push_str("</tr>\n");
            for at in rows.iter().copied() {
                let invariant = &plan.invariants[at];
                let _ = write!(
                    out,
                    "<tr><td>{}<small>{}</small></td>",
                    escaped(&invariant.name),
                    escaped(&invariant.description)
                );
                for entry in &types {
                    out.push_str(
                        &entry
                            .verdict(at)
                            .map_or_else(|| "<td></td>".to_owned(), cell),
                    );
                }
                out.push_str("</tr>\n");
            }
            out.push_str("</table></div>\n");
        }
        if let Some(text) = unaffected(plan, rows.len()) {
            let _ = writeln!(out, "<p class=\"soft\">{text}</p>");
        }
        out.push_str("</section>\n");
    }

    fn put_counterexamples(&self, out: &mut String) {
        let Some(search) = self.counterexamples else {
            return;
        };
        let found = &search.found;
        let none = missing(self.plan, search);
        if found.is_empty() && none.is_empty() && not_shown(search).is_empty() {
            return;
        }
        out.push_str(
            "<section>\n<h2>Counterexamples</h2>\n<p>Two replicas run these calls without coordination, each on a \
             copy of the initial rows. Then their writes are merged.</p>\n",
        );
        for example in found {
            self.put_counterexample(out, example);
        }
        if !none.is_empty() {
            let names = escaped(&none.join(", "));
            let _ = writeln!(
                out,
                "<p class=\"soft\">Found no counterexample in the cases tried for: {names}.</p>"
            );
        }
        let listed = not_shown(search);
        if !listed.is_empty() {
            out.push_str("<p class=\"soft\">Verdicts without a counterexample, and why:</p>\n<ul class=\"soft\">\n");
            for sentence in listed {
                let _ = writeln!(out, "<li>{}</li>", escaped(&sentence));
            }
            out.push_str("</ul>\n");
        }
        for sentence in [unconfirmed(search), unsearched(search)]
            .into_iter()
            .flatten()
        {
            let _ = writeln!(out, "<p class=\"soft\">{}</p>", escaped(&sentence));
        }
        out.push_str("</section>\n");
    }

    fn put_counterexample(&self, out: &mut String, example: &Counterexample) {
        let _ = writeln!(
            out,
            "<h3>{} <span class=\"soft\">{}</span></h3>\n<div class=\"scroll\"><table class=\"steps\">\n\
             <tr><th></th><th>replica 1</th><th>replica 2</th></tr>",
            escaped(&example.invariant),
            escaped(&example.transactions.join(", "))
        );
        let lines = |lines: &[String], otherwise: &str| match lines.is_empty() {
            true => escaped(otherwise),
            false => escaped(&lines.join("\n")),
        };
        let whole = |out: &mut String, class: &str, label: &str, text: &str| {
            let _ = writeln!(
                out,
                "<tr class=\"{class}\"><td>{label}</td><td colspan=\"2\">{text}</td></tr>"
            );
        };
        whole(out, "", "initially", &lines(&example.initial, "-- no rows"));
        let mut turns = [example.replicas[0].iter(), example.replicas[1].iter()];
        for (step, replica) in (1..).zip(&example.order) {
            let call = turns[*replica].next().map_or("", String::as_str);
            let mut cells = ["", ""];
            cells[*replica] = call;
            let [one, other] = cells.map(escaped);
            let _ = writeln!(
                out,
                "<tr><td>{step}</td><td>{one}</td><td>{other}</td></tr>"
            );
        }
        let mut merged = example.merged.clone();
        let emptied = example.emptied.iter();
        merged.extend(emptied.map(|table| format!("-- no row is left in {table}")));
        whole(out, "", "merged", &lines(&merged, "-- unchanged"));
        if let Some(what) = violated(self.plan, example) {
            whole(out, "broken", "violates", &escaped(what));
        }
        if let Some(failure) = &example.isolation {
            let said = format!("{}: {}", failure.kind.title(), failure.explanation);
            whole(out, "broken", "result", &escaped(&said));
            whole(out, "", "PostgreSQL", &escaped(&read_committed(failure)));
        }
        whole(out, "", "replay", &escaped(&(self.replayed_by)(example)));
        out.push_str("</table></div>\n");
    }

    fn put_skipped(&self, out: &mut String) {
        if self.skipped.is_empty() {
            return;
        }
        out.push_str("<section>\n<h2>Skipped</h2>\n");
        if self.skipped.iter().any(Skipped::is_missing) {
            let _ = writeln!(out, "<p><strong>{}</strong></p>", escaped(NOT_COMPLETE));
        }
        out.push_str(
            "<p>The analyser skipped these pieces of the files. It never calls \
             something safe because of a skipped piece.</p>\n\
             <div class=\"scroll\"><table>\n<tr><th>where</th><th>why</th><th>so</th></tr>\n",
        );
        for piece in self.skipped {
            let piece = located(piece, self.catalog);
            let place = match (piece.file, piece.line, piece.column) {
                (Some(file), Some(line), Some(column)) => format!("{file}:{line}:{column}"),
                _ => piece.files.unwrap_or_default().join(", "),
            };
            let _ = writeln!(
                out,
                "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
                escaped(&place),
                escaped(piece.message),
                escaped(piece.meaning)
            );
        }
        out.push_str("</table></div>\n</section>\n");
    }

    fn put_probable(&self, out: &mut String) {
        if self.probable.is_empty() {
            return;
        }
        let _ = writeln!(
            out,
            "<section>\n<h2>Probable invariants</h2>\n<p>{}</p>\n<div class=\"scroll\"><table>\n\
             <tr><th>rule</th><th>confidence</th><th>where</th><th>why</th></tr>",
            escaped(probable::MEANING)
        );
        for one in self.probable {
            let one = probable::located(one, self.catalog);
            let place = format!("{}:{}:{}", one.file, one.line, one.column);
            let _ = writeln!(
                out,
                "<tr><td>{}</td><td>{}</td><td>{} in {}: <code>{}</code></td><td>{}</td></tr>",
                escaped(one.rule),
                one.confidence,
                escaped(&place),
                escaped(one.transaction),
                escaped(one.guard),
                escaped(one.why)
            );
        }
        out.push_str("</table></div>\n</section>\n");
    }

    fn put_placements(&self, out: &mut String) {
        out.push_str(
            "<section>\n<h2>Where the rows live</h2>\n<div class=\"scroll\"><table>\n\
             <tr><th>table</th><th>rows live</th><th>why</th></tr>\n",
        );
        let tables = self.catalog.schema.tables.iter();
        let placements = self
            .plan
            .placements
            .iter()
            .zip(&self.plan.placement_reasons);
        for (table, (placement, reason)) in tables.zip(placements) {
            let _ = writeln!(
                out,
                "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
                escaped(&table.name),
                escaped(&placed(table, placement)),
                escaped(reason)
            );
        }
        out.push_str("</table></div>\n</section>\n");
    }

    fn put_merges(&self, out: &mut String) {
        let columns = &self.plan.columns;
        let written: Vec<_> = columns
            .iter()
            .filter(|c| c.policy != MergePolicy::Immutable)
            .collect();
        if written.is_empty() {
            return;
        }
        out.push_str(
            "<section>\n<h2>How concurrent writes to a column are merged</h2>\n<div class=\"scroll\"><table>\n\
             <tr><th>column</th><th>merge</th><th>why</th></tr>\n",
        );
        for merge in &written {
            let table = self.catalog.schema.table(merge.table);
            let column = &table.columns[merge.column.index()].name;
            let _ = writeln!(
                out,
                "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
                escaped(&format!("{}.{column}", table.name)),
                merge_name(merge.policy),
                escaped(&merge.reason)
            );
        }
        out.push_str("</table></div>\n");
        let rest = columns.len() - written.len();
        if rest > 0 {
            let rest = count(rest, "column is", "columns are");
            let _ = writeln!(
                out,
                "<p class=\"soft\">{rest} written with their rows alone.</p>"
            );
        }
        out.push_str("</section>\n");
    }
}

/// The table's cell for a verdict.
fn cell(verdict: &Verdict) -> String {
    let class = match verdict.confluent {
        Confluence::Yes => "yes",
        Confluence::No => "no",
        Confluence::Unknown => "unknown",
    };
    let mut why = verdict.explanation.clone();
    if let Some(rule) = rule(verdict.rule) {
        let _ = write!(why, " ({})", rule.source);
    }
    format!(
        "<td title=\"{}\"><span class=\"{class}\">{}</span><small>{}</small></td>",
        escaped(&why),
        sign(verdict),
        escaped(verdict.rule)
    )
}
