//! A number that is read, stored in rows, and incremented by an UPDATE of its own: taken by UPDATE … RETURNING
//! instead. If nothing is computed from it, the row's owner draws it at commit (coordination-avoidance.txt §6.1).
//!
//! The UPDATE moves to where the number was read, so that the statements that use the number do not change. The
//! result is the same, when the transaction runs alone, if nothing between the two accesses the table.

use std::collections::BTreeMap;

use anabranch_sql::catalog::Statement;
use anabranch_sql::parse::{Lexeme, LexemeKind};
use anabranch_sql::source::Span;
use anabranch_sql::summary::{ResultUse, Role};
use anabranch_types::{ColumnIndex, TableId};

use super::body::{Body, Origin};
use super::edit::Edit;
use super::increment::assignments;
use super::tokens::span;
use super::{Candidate, kind};
use crate::footprint::Footprint;

/// A number that a body takes from a counter.
struct TakenNumber {
    counter: (TableId, ColumnIndex),
    at: Span,
    edits: Vec<Edit>,
}

/// One candidate for each counter, in all bodies that take numbers from it in this way.
pub(super) fn candidates(footprint: &Footprint<'_>, bodies: &[Body<'_>]) -> Vec<Candidate> {
    let mut counters: BTreeMap<(TableId, ColumnIndex), Vec<TakenNumber>> = BTreeMap::new();
    for body in bodies.iter().filter(|body| !body.asks_for_outcome()) {
        for update in 0..body.nodes.len() {
            if let Some(taken) = taken_number(body, update) {
                counters.entry(taken.counter).or_default().push(taken);
            }
        }
    }
    counters
        .into_iter()
        .map(|((table, column), taken)| {
            let name = footprint.column_name(table, column);
            Candidate {
                kind: kind("repair-take-number"),
                title: format!("take the number from {name} by one UPDATE … RETURNING"),
                at: taken.iter().map(|t| t.at).collect(),
                edits: taken.into_iter().flat_map(|t| t.edits).collect(),
                accepts: Vec::new(),
                accepts_at_commit: Some(
                    "the number is known only after the commit: nothing may be computed from it or depend on it",
                ),
                guarantee: None,
            }
        })
        .collect()
}

/// `SELECT c INTO v …; UPDATE … SET c = v + 1 …` in `body`, whose UPDATE is `update`.
fn taken_number(body: &Body<'_>, update: usize) -> Option<TakenNumber> {
    let action = body.only_access(update, Role::Update)?;
    if body.summary(update)?.result != ResultUse::Unused {
        return None;
    }
    let table = action.access.table;
    let set = assignments(body, update, action);
    let [(column, value)] = set.as_slice() else {
        return None;
    };
    let words = &body.nodes[update].words;
    let value = words.get(value.clone())?;
    let (from, sign, step) = counted_on(value)?;
    let same = |node: usize| {
        let read = body.only_access(node, Role::Read);
        read.is_some_and(|read| body.same_row(read, action))
            && body.runs_with(node, update)
            && !body.touched_between(table, node, update, true)
    };
    let is_column = body.column_names(table).get(column.index()) == Some(&from);
    let read = match body.origin(from) {
        Some(Origin::Set(node)) => node,
        None if is_column => (0..update).rev().find(|node| same(*node))?,
        _ => return None,
    };
    let Statement::Sql { into, strict, .. } = body.nodes[read].statement else {
        return None;
    };
    let selected = body.selected(read)?;
    let of_column = |part: &std::ops::Range<usize>| {
        let found = body.column_at(read, part.clone());
        found.is_some_and(|(found, _)| found == *column)
    };
    let place = selected.iter().position(of_column)?;
    let variable = into.get(place)?;
    let lone = is_column || from == variable;
    if !lone || !same(read) || into.len() != selected.len() || !body.fits(variable, table, *column)
    {
        return None;
    }
    // It runs where the number is read: the names in it must be known there.
    let known = |name: &str| match body.origin(name) {
        Some(Origin::Set(node)) => body.runs_before(node, read),
        Some(Origin::Unclear) => false,
        Some(Origin::Input) | None => true,
    };
    let value_span = span(value)?;
    let mut elsewhere = words
        .iter()
        .filter(|word| word.span.end <= value_span.start || value_span.end <= word.span.start);
    if !elsewhere.all(|word| word.name().is_none_or(known)) {
        return None;
    }
    let name = body.file.slice(words[set[0].1.start - 2].span);
    let back = if sign == "+" { "-" } else { "+" };
    let whole = body.nodes[update].span;
    let file = body.file;
    let (front, behind) = (
        Span {
            end: value_span.start,
            ..whole
        },
        Span {
            start: value_span.end,
            ..whole
        },
    );
    let strict = if *strict { "STRICT " } else { "" };
    let target = body.file.slice(*body.targets(read)?.get(place)?);
    let taking = format!(
        "{}{name} {sign} {step}{} RETURNING {name} {back} {step} INTO {strict}{target}",
        file.slice(front),
        file.slice(behind),
    );
    let at = body.nodes[read].span;
    let mut edits = vec![body.removed(whole)];
    if into.len() == 1 {
        edits.push(Edit::replace(at, taking));
    } else {
        edits.extend(body.without(read, &[place])?);
        let indent = indent_at(&file.text, at.start as usize);
        edits.push(Edit::insert_after(at, format!(";\n{indent}{taking}")));
    }
    Some(TakenNumber {
        counter: (table, *column),
        at,
        edits,
    })
}

/// `v + 1`, `1 + v` or `v - 1`: the name, which is the column or the variable that it was read into; the sign; and the
/// number.
fn counted_on(value: &[Lexeme]) -> Option<(&str, &'static str, &str)> {
    let [one, sign, other] = value else {
        return None;
    };
    let adds = sign.is_sign("+");
    let (from, step) = match (&one.kind, &other.kind) {
        (_, LexemeKind::Number(step)) if adds || sign.is_sign("-") => (one, step),
        (LexemeKind::Number(step), _) if adds => (other, step),
        _ => return None,
    };
    Some((from.name()?, if adds { "+" } else { "-" }, step))
}

/// The spaces before the first word of the line that holds this byte.
fn indent_at(text: &str, byte: usize) -> String {
    let line = text[..byte].rfind('\n').map_or(0, |line| line + 1);
    text[line..].chars().take_while(|c| *c == ' ').collect()
}
