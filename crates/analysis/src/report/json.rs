//! The plan as JSON. The schema is docs/schemas/analyze.schema.json. Within a version of the format names do not
//! change, but properties may be added.

use anabranch_sql::catalog::Catalog;
use anabranch_sql::script::{ProbableInvariant, Skipped};
use anabranch_sql::summary::{StatementId, TransactionSummary};
use anabranch_types::Placement;
use serde::Serialize;

use super::counterexample::ReplayedBy;
use super::findings::{Baseline, Finding, Fingerprint};
use super::names::{class_name, merge_name};
use super::probable;
use super::repairs::BestRepairs;
use super::skipped::{Located, located};
use crate::explore::{
    Counterexample, IsolationFailure, NotShown, NotShownReason, ReadCommitted, Search,
};
use crate::plan::{Confluence, Guard, GuardKeeping, InvariantKind, Plan, PlanEntry, ReadSubset};

/// The version of the format.
pub const VERSION: u32 = 1;

#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    transactions: Vec<Transaction<'a>>,
    columns: Vec<Column<'a>>,
    tables: Vec<Table<'a>>,
    invariants: Vec<Invariant<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partitioning: Option<super::partition::Report<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counterexamples: Option<Vec<CounterexampleReport<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    search: Option<SearchReport<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repairs: Option<Vec<super::repairs::RepairReport<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repair_search: Option<super::repairs::SearchReport<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    against_baseline: Option<Comparison<'a>>,
    skipped: Vec<Located<'a>>,
    probable_invariants: Vec<probable::Located<'a>>,
}

#[derive(Serialize)]
struct Comparison<'a> {
    new: Vec<New<'a>>,
    gone: Vec<Fingerprint>,
    new_skipped: Vec<Located<'a>>,
}

#[derive(Serialize)]
struct New<'a> {
    transaction: &'a str,
    invariant: &'a str,
    rule: &'a str,
    message: String,
    file: Option<&'a str>,
    line: Option<u32>,
}

#[derive(Serialize)]
struct SearchReport<'a> {
    verdicts: usize,
    searched: usize,
    cases_each: u32,
    unsearched: &'a [String],
    unconfirmed: &'a [String],
    not_shown: Vec<NotShownReport<'a>>,
}

#[derive(Serialize)]
struct NotShownReport<'a> {
    invariant: &'a str,
    transaction: &'a str,
    code: &'static str,
    reason: String,
}

#[derive(Serialize)]
struct CounterexampleReport<'a> {
    id: String,
    replay: String,
    invariant: &'a str,
    transactions: &'a [String],
    initial: &'a [String],
    replicas: &'a [Vec<String>; 2],
    order: &'a [usize],
    merged: &'a [String],
    emptied: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    isolation: Option<IsolationReport<'a>>,
}

#[derive(Serialize)]
struct IsolationReport<'a> {
    kind: &'static str,
    explanation: &'a str,
    serial: Vec<SerialReport<'a>>,
    postgresql: SessionsReport<'a>,
}

#[derive(Serialize)]
struct SerialReport<'a> {
    first: usize,
    rows: &'a [String],
    second_refused: bool,
}

#[derive(Serialize)]
struct SessionsReport<'a> {
    read_committed: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    session_1: usize,
    setup: &'a [String],
    steps: Vec<StepReport<'a>>,
    check: Vec<CheckReport<'a>>,
}

#[derive(Serialize)]
struct StepReport<'a> {
    session: usize,
    sql: &'a str,
    waits: bool,
    refused: bool,
    returns: Option<&'a [String]>,
    in_order: [Option<&'a [String]>; 2],
}

#[derive(Serialize)]
struct CheckReport<'a> {
    sql: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<&'a [String]>,
    in_order: &'a [Vec<String>; 2],
}

#[derive(Serialize)]
struct Transaction<'a> {
    name: &'a str,
    class: &'static str,
    routing: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    routing_array: Option<&'a str>,
    guards: Vec<GuardReport<'a>>,
    protocol: &'static str,
    deferred: Vec<Effect>,
    checks: Vec<Check<'a>>,
    declared_by_author: Vec<&'a str>,
    verdicts: Vec<Verdict<'a>>,
    read_only: bool,
    read_subset: Option<&'static str>,
    serializable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_analysed: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    may_change_any_table: bool,
}

#[derive(Serialize)]
struct GuardReport<'a> {
    item: &'a str,
    key: Vec<&'a str>,
    invariants: Vec<&'a str>,
    from: Vec<&'a str>,
    keeping: &'static str,
}

#[derive(Serialize)]
struct Check<'a> {
    invariant: &'a str,
    guarded: bool,
}

#[derive(Serialize)]
struct Effect {
    statement: u32,
    text: String,
    file: String,
    line: u32,
}

#[derive(Serialize)]
struct Verdict<'a> {
    invariant: &'a str,
    confluent: &'static str,
    rule: &'a str,
    because: &'a [String],
    explanation: &'a str,
}

#[derive(Serialize)]
struct Column<'a> {
    table: &'a str,
    column: &'a str,
    merge: &'static str,
    reason: &'a str,
}

#[derive(Serialize)]
struct Table<'a> {
    table: &'a str,
    placement: &'static str,
    columns: Vec<&'a str>,
    reason: &'a str,
}

#[derive(Serialize)]
struct Invariant<'a> {
    name: &'a str,
    kind: &'static str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<&'a str>,
}

/// The parts of the report beside the plan.
#[derive(Clone, Copy, Default)]
pub struct Sections<'a> {
    /// Counterexamples, with the commands that run them, if they were searched.
    pub counterexamples: Option<(&'a Search, &'a ReplayedBy<'a>)>,
    /// Repairs, if they were searched.
    pub repairs: Option<BestRepairs<'a>>,
    /// The baseline, with the findings that are compared with it.
    pub baseline: Option<(&'a Baseline, &'a [Finding<'a>])>,
    /// Pieces of the files that the analyser skipped.
    pub skipped: &'a [Skipped],
    /// Rules that programs probably rely on.
    pub probable: &'a [ProbableInvariant],
}

/// The plan as one JSON document, indented, with a newline at its end.
pub fn render(
    plan: &Plan,
    catalog: &Catalog,
    summaries: &[TransactionSummary],
    sections: Sections<'_>,
) -> String {
    let Sections {
        counterexamples,
        repairs,
        baseline,
        skipped,
        probable,
    } = sections;
    let partitioned = plan
        .partitioning
        .as_ref()
        .map(|found| super::partition::PartitioningView {
            found,
            catalog,
            summaries,
        });
    let report = Report {
        version: VERSION,
        transactions: plan
            .entries
            .iter()
            .zip(summaries)
            .map(|(entry, summary)| transaction(plan, catalog, entry, summary))
            .collect(),
        columns: plan
            .columns
            .iter()
            .map(|c| {
                let table = catalog.schema.table(c.table);
                Column {
                    table: &table.name,
                    column: &table.columns[c.column.index()].name,
                    merge: merge_name(c.policy),
                    reason: &c.reason,
                }
            })
            .collect(),
        tables: tables(plan, catalog),
        invariants: plan
            .invariants
            .iter()
            .map(|i| Invariant {
                name: &i.name,
                kind: kind_name(i.kind),
                description: &i.description,
                condition: i.condition.as_deref(),
            })
            .collect(),
        partitioning: partitioned.as_ref().map(super::partition::report),
        counterexamples: counterexamples.map(|(search, replayed_by)| {
            let found = search.found.iter();
            found.map(|one| counterexample(one, replayed_by)).collect()
        }),
        search: counterexamples.map(|(search, _)| SearchReport {
            verdicts: search.asked,
            searched: search.searched,
            cases_each: search.cases,
            unsearched: &search.unsearched,
            unconfirmed: &search.unconfirmed,
            not_shown: search.not_shown.iter().map(not_shown).collect(),
        }),
        repairs: repairs.map(super::repairs::report),
        repair_search: repairs.map(super::repairs::search),
        against_baseline: baseline.map(|(known, found)| Comparison {
            new: found
                .iter()
                .filter(|finding| !known.knows(finding))
                .map(new)
                .collect(),
            gone: known.gone(found),
            new_skipped: known
                .new_skipped(skipped, catalog)
                .map(|piece| located(piece, catalog))
                .collect(),
        }),
        skipped: skipped
            .iter()
            .map(|piece| located(piece, catalog))
            .collect(),
        probable_invariants: probable
            .iter()
            .map(|one| probable::located(one, catalog))
            .collect(),
    };
    // The report is plain data with string keys: it cannot fail to serialize.
    let mut text = serde_json::to_string_pretty(&report).unwrap_or_default();
    text.push('\n');
    text
}

/// One transaction type: its object in the report.
pub(super) fn render_transaction(
    plan: &Plan,
    catalog: &Catalog,
    entry: &PlanEntry,
    summary: &TransactionSummary,
) -> String {
    // The report is plain data with string keys: it cannot fail to serialize.
    serde_json::to_string_pretty(&transaction(plan, catalog, entry, summary)).unwrap_or_default()
}

fn new<'a>(finding: &Finding<'a>) -> New<'a> {
    let place = finding.place;
    New {
        transaction: finding.transaction,
        invariant: finding.invariant,
        rule: finding.rule.code,
        message: finding.message(),
        file: place.map(|(file, _)| file.name.as_str()),
        line: place.map(|(file, span)| file.line_column(span.start).0),
    }
}

fn counterexample<'a>(
    found: &'a Counterexample,
    replayed_by: &ReplayedBy<'_>,
) -> CounterexampleReport<'a> {
    CounterexampleReport {
        id: found.id(),
        replay: replayed_by(found),
        invariant: &found.invariant,
        transactions: &found.transactions,
        initial: &found.initial,
        replicas: &found.replicas,
        order: &found.order,
        merged: &found.merged,
        emptied: &found.emptied,
        isolation: found.isolation.as_deref().map(isolation),
    }
}

fn not_shown(one: &NotShown) -> NotShownReport<'_> {
    NotShownReport {
        invariant: &one.invariant,
        transaction: &one.transaction,
        code: match &one.reason {
            NotShownReason::NotAnalysed(_) => "not-analysed",
            NotShownReason::Limit => "limit",
            NotShownReason::NoCalls(_) => "no-calls",
            NotShownReason::OtherInvariant(_) => "other-invariant",
            NotShownReason::NothingBroke { .. } => "nothing-broke",
        },
        reason: one.reason.to_string(),
    }
}

fn isolation(failure: &IsolationFailure) -> IsolationReport<'_> {
    let sessions = &failure.sessions;
    let (read_committed, reason) = match &sessions.verdict {
        ReadCommitted::Permitted => ("permitted", None),
        ReadCommitted::Prevented(why) => ("prevented", Some(why.as_str())),
        ReadCommitted::NotDecided(why) => ("not-decided", Some(why.as_str())),
    };
    let is_certain = read_committed != "not-decided";
    IsolationReport {
        kind: failure.kind.name(),
        explanation: &failure.explanation,
        serial: failure
            .serial
            .iter()
            .map(|order| SerialReport {
                first: order.first,
                rows: &order.rows,
                second_refused: order.is_second_refused,
            })
            .collect(),
        postgresql: SessionsReport {
            read_committed,
            reason,
            session_1: sessions.first,
            setup: &sessions.setup,
            steps: sessions
                .steps
                .iter()
                .map(|step| StepReport {
                    session: step.session,
                    sql: &step.sql,
                    waits: step.waits,
                    refused: step.is_refused,
                    returns: step.returns.as_deref(),
                    in_order: [0, 1].map(|order| step.in_order[order].as_deref()),
                })
                .collect(),
            check: sessions
                .queries
                .iter()
                .map(|query| CheckReport {
                    sql: &query.sql,
                    seen: is_certain.then_some(query.seen.as_slice()),
                    in_order: &query.in_order,
                })
                .collect(),
        },
    }
}

fn transaction<'a>(
    plan: &'a Plan,
    catalog: &Catalog,
    entry: &'a PlanEntry,
    summary: &'a TransactionSummary,
) -> Transaction<'a> {
    let name = |p: &usize| summary.parameters[*p].0.as_str();
    Transaction {
        name: &entry.name,
        class: class_name(entry.class),
        routing: entry.routing.iter().map(name).collect(),
        routing_array: entry.routing_array.as_ref().map(name),
        guards: entry.guards.iter().map(|g| guard(plan, g)).collect(),
        protocol: entry.protocol,
        deferred: entry
            .deferred
            .iter()
            .map(|s| effect(catalog, summary, *s))
            .collect(),
        checks: entry
            .checks
            .iter()
            .map(|c| Check {
                invariant: &plan.invariants[c.invariant].name,
                guarded: c.guarded,
            })
            .collect(),
        declared_by_author: entry
            .declared_by_author
            .iter()
            .map(|i| plan.invariants[*i].name.as_str())
            .collect(),
        verdicts: entry
            .verdicts
            .iter()
            .map(|v| Verdict {
                invariant: &plan.invariants[v.invariant].name,
                confluent: confluence_name(v.confluent),
                rule: v.rule,
                because: &v.because,
                explanation: &v.explanation,
            })
            .collect(),
        read_only: entry.read_only,
        read_subset: entry.read_subset.as_ref().map(|subset| match subset {
            ReadSubset::Serializable => "serializable",
            ReadSubset::Beside(_) => "read-atomic",
        }),
        serializable: entry.serializable,
        not_analysed: entry.unknown.as_deref(),
        may_change_any_table: entry.may_change_any_table,
    }
}

fn guard<'a>(plan: &'a Plan, guard: &'a Guard) -> GuardReport<'a> {
    GuardReport {
        item: &guard.item,
        key: guard.key.iter().map(|k| k.name.as_str()).collect(),
        invariants: guard
            .invariants
            .iter()
            .map(|i| plan.invariants[*i].name.as_str())
            .collect(),
        from: guard.key.iter().map(|k| k.from.as_str()).collect(),
        keeping: match guard.keeping {
            GuardKeeping::AtCommit => "deferred-to-commit",
            GuardKeeping::Validated => "validated",
        },
    }
}

fn effect(catalog: &Catalog, summary: &TransactionSummary, statement: StatementId) -> Effect {
    let span = summary
        .statements
        .iter()
        .find(|s| s.id == statement)
        .map(|s| s.span);
    let file = span.and_then(|s| catalog.files.get(usize::from(s.file)));
    let text = span
        .map(|s| super::text::excerpt(catalog, s))
        .unwrap_or_default();
    let line = match (span, file) {
        (Some(span), Some(file)) => file.line_column(span.start).0,
        _ => 0,
    };
    Effect {
        statement: statement.0,
        text,
        file: file.map(|f| f.name.clone()).unwrap_or_default(),
        line,
    }
}

fn tables<'a>(plan: &'a Plan, catalog: &'a Catalog) -> Vec<Table<'a>> {
    let placed = catalog
        .schema
        .tables
        .iter()
        .zip(&plan.placements)
        .zip(&plan.placement_reasons);
    placed
        .map(|((table, placement), reason)| {
            let (placement, columns) = match placement {
                Placement::Replicated => ("replicated", Vec::new()),
                Placement::Whole => ("whole", Vec::new()),
                Placement::Columns(columns) => (
                    "columns",
                    columns
                        .iter()
                        .map(|c| table.columns[c.index()].name.as_str())
                        .collect(),
                ),
            };
            Table {
                table: &table.name,
                placement,
                columns,
                reason,
            }
        })
        .collect()
}

/// The name of a confluence in reports.
pub fn confluence_name(confluence: Confluence) -> &'static str {
    match confluence {
        Confluence::Yes => "yes",
        Confluence::No => "no",
        Confluence::Unknown => "unknown",
    }
}

/// The name of a kind of invariant in reports.
pub fn kind_name(kind: InvariantKind) -> &'static str {
    match kind {
        InvariantKind::RowEquality => "row-equality",
        InvariantKind::LowerBound => "lower-bound",
        InvariantKind::UpperBound => "upper-bound",
        InvariantKind::RowCheck => "row-check",
        InvariantKind::Uniqueness => "uniqueness",
        InvariantKind::SecondaryIndex => "secondary-index",
        InvariantKind::ForeignKey => "foreign-key",
        InvariantKind::SequentialId => "sequential-id",
        InvariantKind::MaterializedView => "materialized-view",
        InvariantKind::Existence => "existence",
        InvariantKind::NonEmpty => "non-empty",
        InvariantKind::Size => "size",
        InvariantKind::NoLostUpdate => "no-lost-update",
        InvariantKind::Other => "other",
    }
}
