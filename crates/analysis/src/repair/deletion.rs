//! A row that others refer to and that is deleted (coordination-avoidance.txt Table 2, rows 7 and 8): marked as
//! deleted instead, or deleted with the rows that refer to it.
//!
//! A marked row stays, so that no reference to it dangles. Queries exclude it; a blind write may change it, which
//! no query sees. If one more condition in each query cannot do that (views, outer joins, assertions that count),
//! there is no such repair.

use std::collections::BTreeSet;

use anabranch_sql::catalog::ReferentialAction;
use anabranch_sql::parse::{Lexeme, lexemes};
use anabranch_sql::source::Span;
use anabranch_sql::summary::{ResultUse, Role};
use anabranch_types::TableId;

use super::body::Body;
use super::edit::Edit;
use super::generated::column_declaration;
use super::tokens::{at, depths, find, qualifier, with_condition};
use super::{Candidate, kind};
use crate::footprint::{Action, Footprint};
use crate::invariant::{Content, Declared};
use crate::plan::Plan;

/// For each table from which rows cannot be deleted without coordination because of references: one candidate that
/// marks, and one that cascades.
pub(super) fn candidates(
    footprint: &Footprint<'_>,
    bodies: &[Body<'_>],
    plan: &Plan,
    declared: &[Declared],
    files: usize,
) -> Vec<Candidate> {
    let verdicts = plan.entries.iter().flat_map(|entry| &entry.verdicts);
    let blamed: BTreeSet<usize> = verdicts
        .filter(|verdict| matches!(verdict.rule, "fk-delete" | "fk-cascade"))
        .map(|verdict| verdict.invariant)
        .collect();
    let mut candidates = Vec::new();
    let mut parents = BTreeSet::new();
    for invariant in blamed {
        let Content::ForeignKey { table, key } = &declared[invariant].content else {
            continue;
        };
        let keeps = [ReferentialAction::NoAction, ReferentialAction::Restrict];
        if keeps.contains(&key.on_delete) && usize::from(key.span.file) < files {
            candidates.extend(cascading(footprint, *table, key.parent, key.span));
        }
        if parents.insert(key.parent) {
            candidates.extend(marking(footprint, bodies, key.parent, files));
        }
    }
    candidates
}

fn cascading(
    footprint: &Footprint<'_>,
    child: TableId,
    parent: TableId,
    place: Span,
) -> Option<Candidate> {
    let file = footprint.catalog.files.get(usize::from(place.file))?;
    let words = lexemes(file, place);
    let says = words
        .windows(2)
        .any(|w| w[0].is_word("on") && w[1].is_word("delete"));
    let (child, parent) = (&footprint.table(child).name, &footprint.table(parent).name);
    (!says).then(|| Candidate {
        kind: kind("repair-cascade"),
        title: format!(
            "delete the rows of {child} together with the row of {parent} that they refer to"
        ),
        at: vec![place],
        edits: vec![Edit::insert_after(place, " ON DELETE CASCADE")],
        accepts: vec![format!(
            "rows of {child} are deleted with the row of {parent}"
        )],
        accepts_at_commit: None,
        guarantee: None,
    })
}

fn marking(
    footprint: &Footprint<'_>,
    bodies: &[Body<'_>],
    table: TableId,
    files: usize,
) -> Option<Candidate> {
    let schema = footprint.table(table);
    let names = ["deleted", "is_deleted"];
    let taken = |name: &&str| {
        schema.columns.iter().any(|c| c.name == *name) || bodies.iter().any(|b| b.knows(name))
    };
    let mark = names.into_iter().find(|name| !taken(name))?;
    if !is_left_out_of_conditions(footprint, &schema.name) {
        return None;
    }
    let mut edits = vec![declaration(footprint, table, mark, files)?];
    let mut places = Vec::new();
    for action in footprint.on_table(table) {
        let body = bodies.iter().find(|body| body.owner == action.owner)?;
        if action.cascaded {
            return None;
        }
        let place = at(&body.words, action.access.span)?;
        match action.access.role {
            Role::Insert => continue,
            // Changes of marked rows are invisible.
            Role::Update if action.result == ResultUse::Unused => continue,
            Role::Read | Role::Update => {}
            Role::Delete => {
                edits.extend(marked(body, place, mark)?);
                places.push(footprint.statement(action.owner, action.statement)?.span);
            }
        }
        let blind = action.access.role == Role::Delete && action.result == ResultUse::Unused;
        if !blind {
            edits.extend(excluding_marked(body, place, action, mark)?);
        }
    }
    let mut accepts = vec![format!(
        "marked rows of {} stay: a key that was deleted cannot be inserted again, and queries outside these files \
         have to exclude them",
        schema.name
    )];
    let own = footprint.catalog.table(table).foreign_keys.iter();
    for parent in own.map(|key| &footprint.table(key.parent).name) {
        accepts.push(format!(
            "marked rows still refer to rows of {parent}, which then cannot be deleted"
        ));
    }
    for of in &footprint.catalog.tables {
        for key in of.foreign_keys.iter().filter(|key| key.parent == table) {
            let child = &of.name;
            accepts.push(match key.on_delete {
                ReferentialAction::NoAction | ReferentialAction::Restrict => format!(
                    "a row can be marked while rows of {child} refer to it, and rows of {child} can refer to a marked \
                     row: both were refused before"
                ),
                ReferentialAction::Cascade => format!(
                    "rows of {child} that refer to a marked row stay, and new ones can be inserted: they were deleted \
                     with the row, or refused, before"
                ),
                ReferentialAction::SetNull | ReferentialAction::SetDefault => format!(
                    "rows of {child} still refer to a marked row, and new ones can: their references were removed, or \
                     refused, before"
                ),
            });
        }
    }
    Some(Candidate {
        kind: kind("repair-mark-deleted"),
        title: format!(
            "mark rows of {} as deleted instead of deleting them",
            schema.name
        ),
        at: places,
        edits,
        accepts,
        accepts_at_commit: None,
        guarantee: None,
    })
}

/// Declares the column of the mark.
fn declaration(
    footprint: &Footprint<'_>,
    table: TableId,
    mark: &str,
    files: usize,
) -> Option<Edit> {
    let last = footprint.table(table).columns.last()?;
    let (first, last) = column_declaration(footprint, table, &last.name, files)?;
    let text = &footprint.catalog.files.get(usize::from(first.file))?.text;
    let line = text[..first.start as usize].rfind('\n').map(|at| at + 1);
    let indent = line.map(|line| &text[line..first.start as usize]);
    let apart = match indent.filter(|indent| indent.trim().is_empty()) {
        Some(indent) => format!(",\n{indent}"),
        None => ", ".to_owned(),
    };
    Some(Edit::insert_after(
        last,
        format!("{apart}{mark} boolean NOT NULL DEFAULT false"),
    ))
}

/// `DELETE FROM t` as `UPDATE t SET mark = true`.
fn marked(body: &Body<'_>, place: usize, mark: &str) -> Option<Vec<Edit>> {
    let words = &body.words;
    let from = words.get(place.checked_sub(1)?)?;
    let delete = words.get(place.checked_sub(2)?)?;
    if !from.is_word("from") || !delete.is_word("delete") {
        return None;
    }
    let end = (place..words.len()).find(|at| words[*at].is_sign(";"));
    let end = end.unwrap_or(words.len());
    if find(words, place..end, "using").is_some() {
        return None;
    }
    let named = words[qualifier(words, place)].span;
    Some(vec![
        Edit::replace(delete.span.to(from.span), "UPDATE"),
        Edit::insert_after(named, format!(" SET {mark} = true")),
    ])
}

/// A query, UPDATE or DELETE that excludes marked rows.
fn excluding_marked(
    body: &Body<'_>,
    place: usize,
    action: &Action,
    mark: &str,
) -> Option<Vec<Edit>> {
    let words = &body.words;
    if action.access.role == Role::Read && returns_everything(words, place) {
        return None;
    }
    let table = body.file.slice(words[qualifier(words, place)].span);
    with_condition(words, place, &format!("NOT {table}.{mark}"))
}

/// Whether the query that names a table at `place` returns all columns (`*`).
fn returns_everything(words: &[Lexeme], place: usize) -> bool {
    let depths = depths(words);
    let own = |at: &usize| depths[*at] == depths[place];
    let select = (0..place)
        .rev()
        .filter(own)
        .find(|at| words[*at].is_word("select"));
    let Some(select) = select else {
        return false;
    };
    let asked = select >= 2 && words[select - 2].is_word("exists");
    let before = |at: usize| &words[at - 1];
    !asked
        && (select + 1..place).filter(own).any(|at| {
            words[at].is_sign("*")
                && (at == select + 1 || before(at).is_sign(".") || before(at).is_sign(","))
        })
}

/// Whether assertions and views keep their meaning if marked rows count: an assertion that forbids something of
/// each row also forbids it of marked ones.
fn is_left_out_of_conditions(footprint: &Footprint<'_>, table: &str) -> bool {
    let catalog = footprint.catalog;
    let words = |span: Span| {
        let file = catalog.files.get(usize::from(span.file));
        file.map_or(Vec::new(), |file| lexemes(file, span))
    };
    let mentions = |words: &[Lexeme]| -> Vec<usize> {
        // In front of a period the name qualifies a column.
        let named = |at: &usize| {
            let column = words.get(at + 1).is_some_and(|next| next.is_sign("."));
            words[*at].name() == Some(table) && !column
        };
        (0..words.len()).filter(named).collect()
    };
    let is_each = |words: &[Lexeme], place: usize| {
        let depths = depths(words);
        let depth = depths[place];
        let own = |at: &usize| depths[*at] == depth;
        let Some(open) = (0..place).rev().find(|at| depths[*at] < depth) else {
            return false;
        };
        let says = |at: Option<usize>, word: &str| {
            at.and_then(|at| words.get(at))
                .is_some_and(|w| w.is_word(word))
        };
        let forbids = says(open.checked_sub(1), "exists")
            && says(open.checked_sub(2), "not")
            && says(open.checked_sub(4), "check");
        let counts = (open + 1..words.len())
            .filter(own)
            .any(|at| words[at].is_word("group") || words[at].is_word("having"));
        forbids && !counts && words[place - 1].is_word("from")
    };
    let views = catalog.views.iter().map(|view| view.span);
    let assertions = catalog.assertions.iter().map(|of| of.span);
    views.map(words).all(|words| mentions(&words).is_empty())
        && assertions
            .map(words)
            .all(|words| match mentions(&words).as_slice() {
                [] => true,
                [one] => is_each(&words, *one),
                _ => false,
            })
}
