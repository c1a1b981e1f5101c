//! A value that is read and that determines on which partition a transaction's guards lie: passed as one more
//! parameter instead (operation-partitioning.txt §3.1).
//!
//! The read stays, with a condition on the passed value: with a wrong value it finds nothing.

use std::collections::BTreeSet;

use anabranch_sql::catalog::{ParameterMode, describe};
use anabranch_sql::summary::{Comparison, Role, StatementId, TableAccess, Term};
use anabranch_types::ColumnIndex;

use super::body::Body;
use super::edit::Edit;
use super::generated::parameters;
use super::tokens::{at, qualifier, span, with_condition};
use super::{Candidate, kind};
use crate::footprint::Footprint;
use crate::plan::{CoordinationClass, Plan};

/// One candidate for each value that is part of a type's guard keys and that the type reads.
pub(super) fn candidates(
    footprint: &Footprint<'_>,
    bodies: &[Body<'_>],
    plan: &Plan,
) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for body in bodies.iter().filter(|body| body.is_routine()) {
        let entry = &plan.entries[body.owner];
        if entry.class != CoordinationClass::Global && !entry.routing.is_empty() {
            continue;
        }
        let mut seen: BTreeSet<(StatementId, usize, ColumnIndex)> = BTreeSet::new();
        for key in entry.guards.iter().flat_map(|guard| &guard.key) {
            if let Term::Column {
                statement,
                access,
                column,
            } = key.term
                && seen.insert((statement, access, column))
            {
                candidates.extend(candidate(footprint, body, statement, access, column));
            }
        }
    }
    candidates
}

fn candidate(
    footprint: &Footprint<'_>,
    body: &Body<'_>,
    statement: StatementId,
    access: usize,
    column: ColumnIndex,
) -> Option<Candidate> {
    let summary = footprint.statement(body.owner, statement)?;
    let read = summary.accesses.get(access)?;
    let place = at(&body.words, read.span)?;
    if read.role != Role::Read || !finds_one(footprint, read) {
        return None;
    }
    let described = &footprint.table(read.table).columns[column.index()];
    let name = format!("p_{}", described.name);
    let is_plain = name
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if body.knows(&name) || !is_plain {
        return None;
    }
    let condition = match summary.accesses.len() {
        1 => format!("{} = {name}", described.name),
        _ => {
            let table = &body.words[qualifier(&body.words, place)];
            format!(
                "{}.{} = {name}",
                body.file.slice(table.span),
                described.name
            )
        }
    };
    let mut edits = with_condition(&body.words, place, &condition)?;
    edits.push(one_more(body, &name, &describe(&described.data_type))?);
    let looked_up = footprint.column_name(read.table, column);
    Some(Candidate {
        kind: kind("repair-routing-parameter"),
        title: format!(
            "let callers of {} pass {looked_up}, which it looks up now",
            body.procedure.name
        ),
        at: vec![summary.span],
        edits,
        accepts: vec![format!(
            "callers have to know {looked_up}: a call with another value finds no row"
        )],
        accepts_at_commit: None,
        guarantee: None,
    })
}

/// Whether the read finds at most one row: then a condition on its value finds no other.
fn finds_one(footprint: &Footprint<'_>, read: &TableAccess) -> bool {
    let table = footprint.table(read.table);
    let given = |column: &ColumnIndex| {
        let mut conditions = read.conditions.iter();
        conditions.any(|c| c.column == *column && c.comparison == Comparison::Equal)
    };
    let unique = table.indexes.iter().filter(|index| index.unique);
    unique
        .map(|index| &index.columns)
        .chain([&table.primary_key])
        .any(|key| !key.is_empty() && key.iter().all(given))
}

/// One more input parameter, behind the required ones.
pub(super) fn one_more(body: &Body<'_>, name: &str, data_type: &str) -> Option<Edit> {
    let list = parameters(body)?;
    let given = body
        .procedure
        .parameters
        .iter()
        .take_while(|p| p.mode != ParameterMode::Out && p.default.is_none())
        .count();
    let declared = format!("{name} {data_type}");
    let words = |place: usize| span(&body.header[list[place].clone()]);
    Some(match given {
        0 if list.is_empty() => {
            let open = body.header.iter().find(|word| word.is_sign("("))?;
            Edit::insert_after(open.span, declared)
        }
        0 => Edit::insert_before(words(0)?, format!("{declared}, ")),
        given => Edit::insert_after(words(given - 1)?, format!(", {declared}")),
    })
}
