//! A value that is computed from what was read, and written: computed by the UPDATE instead, from the row itself
//! (coordination-avoidance.txt §5.2). The row's owner then applies it, and no update is lost.
//!
//! The result is the same when the transaction runs alone: in every run, the variable has the value that the row
//! still has. That is so if one SELECT of that row by its whole key sets the variable, and nothing between the two
//! writes to the table.

use std::collections::BTreeSet;
use std::ops::Range;

use anabranch_sql::catalog::Statement;
use anabranch_sql::parse::Lexeme;
use anabranch_sql::source::Span;
use anabranch_sql::summary::Role;
use anabranch_types::{ColumnIndex, TableId};

use super::body::{Body, Origin};
use super::edit::Edit;
use super::tokens::{find, parts};
use super::{Candidate, kind};
use crate::footprint::{Action, Footprint};
use crate::rule::isolation::is_computed;

/// The most steps from one variable to another.
const DEPTH_MAX: usize = 8;

/// Words of expressions that may give another result when evaluated again.
pub(super) const COMPUTED_ONCE: [&str; 5] = [
    "select",
    "random",
    "nextval",
    "gen_random_uuid",
    "clock_timestamp",
];

/// The assignments of one body that the row can compute.
struct Converted {
    columns: BTreeSet<(TableId, ColumnIndex)>,
    at: Span,
    edits: Vec<Edit>,
}

/// One candidate for each column, in all bodies that write it in this way; and one for each body.
pub(super) fn candidates(footprint: &Footprint<'_>, bodies: &[Body<'_>]) -> Vec<Candidate> {
    let converted: Vec<(&Body<'_>, Converted)> = bodies
        .iter()
        .filter_map(|body| Some((body, converted(body)?)))
        .collect();
    let of_all: BTreeSet<(TableId, ColumnIndex)> = converted
        .iter()
        .flat_map(|(_, c)| c.columns.iter().copied())
        .collect();
    let candidate = |of: Vec<&(&Body<'_>, Converted)>| {
        let columns: BTreeSet<_> = of.iter().flat_map(|(_, c)| &c.columns).collect();
        let names: Vec<String> = columns
            .iter()
            .map(|(table, column)| footprint.column_name(*table, *column))
            .collect();
        let names = names.join(", ");
        Candidate {
            kind: kind("repair-increment"),
            title: format!("let the UPDATE compute {names} from the row itself, not from what was read before"),
            at: of.iter().map(|(_, c)| c.at).collect(),
            edits: of.iter().flat_map(|(_, c)| c.edits.clone()).collect(),
            accepts: vec![
                "the UPDATE uses the row as it is at commit, which may be newer than what was read before"
                    .to_owned(),
            ],
            accepts_at_commit: None,
            guarantee: None,
        }
    };
    let mut candidates: Vec<Candidate> = of_all
        .iter()
        .map(|column| {
            let of_column = converted.iter().filter(|(_, c)| c.columns.contains(column));
            candidate(of_column.collect())
        })
        .collect();
    candidates.extend(converted.iter().map(|one| candidate(vec![one])));
    candidates
}

fn converted(body: &Body<'_>) -> Option<Converted> {
    let mut done = Converted {
        columns: BTreeSet::new(),
        at: body.nodes.first()?.span,
        edits: Vec::new(),
    };
    let (mut reads, mut gone) = (BTreeSet::new(), Vec::new());
    for node in 0..body.nodes.len() {
        let Some(update) = body.only_access(node, Role::Update) else {
            continue;
        };
        for (column, value) in assignments(body, node, update) {
            let computed = update.write(column).is_some_and(|w| is_computed(&w.class));
            let words = &body.nodes[node].words[value];
            let mut rewriting = Rewriting::new(body, update, node);
            if let (true, Some(text)) = (computed, rewriting.rewritten(words, 0))
                && !rewriting.reads.is_empty()
                && let Some(span) = super::tokens::span(words)
            {
                if done.columns.is_empty() {
                    done.at = body.nodes[node].span;
                }
                done.columns.insert((update.access.table, column));
                done.edits.push(Edit::replace(span, text));
                gone.push(span);
                gone.append(&mut rewriting.gone);
                reads.extend(rewriting.reads);
            }
        }
    }
    if done.columns.is_empty() {
        return None;
    }
    done.edits.extend(without_unneeded(body, &reads, &gone));
    done.edits.extend(body.declares_nothing(&done.edits));
    Some(done)
}

/// Removes what is unused once a row computes values: `reads` of the row, and the inlined assignments, which are in
/// `gone` with all other removed text.
pub(super) fn without_unneeded(
    body: &Body<'_>,
    reads: &BTreeSet<usize>,
    gone: &[Span],
) -> Vec<Edit> {
    let mut edits = Vec::new();
    // An inlined assignment is unused if nothing else reads its variable.
    let apart: Vec<usize> = (0..body.nodes.len())
        .filter(|node| match body.nodes[*node].statement {
            Statement::Assign { target, .. } => {
                let span = body.nodes[*node].span;
                let mut besides = gone.to_vec();
                besides.push(span);
                besides.extend(body.declaration(target));
                gone.contains(&span)
                    && !body.is_output(target)
                    && !body.is_named_outside(target, &besides)
            }
            _ => false,
        })
        .collect();
    let is_assignment = |span: &Span| {
        let mut nodes = body.nodes.iter();
        nodes.any(|n| n.span == *span && matches!(n.statement, Statement::Assign { .. }))
    };
    let mut removed: Vec<Span> = gone.to_vec();
    removed.retain(|span| !is_assignment(span));
    for node in &apart {
        let span = body.nodes[*node].span;
        edits.push(body.removed(span));
        removed.push(span);
        if let Statement::Assign { target, .. } = body.nodes[*node].statement
            && let Some(declaration) = body.declaration(target)
        {
            edits.push(body.removed(declaration));
            removed.push(declaration);
        }
    }
    let reads: Vec<usize> = reads.iter().copied().collect();
    edits.extend(body.unneeded(&reads, &removed));
    edits
}

/// `SET column = value`: each column with the tokens of its value.
pub(super) fn assignments(
    body: &Body<'_>,
    node: usize,
    update: &Action,
) -> Vec<(ColumnIndex, Range<usize>)> {
    let words = &body.nodes[node].words;
    let Some(set) = find(words, 0..words.len(), "set") else {
        return Vec::new();
    };
    let ends = ["from", "where", "returning"];
    let end = ends
        .iter()
        .filter_map(|end| find(words, set..words.len(), end))
        .min()
        .unwrap_or(words.len());
    let schema = body.column_names(update.access.table);
    parts(words, set + 1..end)
        .into_iter()
        .filter_map(|part| {
            let name = words[part.start].name()?;
            let column = schema.iter().position(|column| *column == name)?;
            let is_assignment = words.get(part.start + 1)?.is_sign("=");
            is_assignment.then_some((
                ColumnIndex(u16::try_from(column).ok()?),
                part.start + 2..part.end,
            ))
        })
        .collect()
}

/// Rewrites a written value, or a condition on it, for the row's UPDATE.
pub(super) struct Rewriting<'b, 'a> {
    body: &'b Body<'a>,
    update: &'b Action,
    node: usize,
    /// SELECTs whose values the rewritten text no longer uses.
    pub(super) reads: BTreeSet<usize>,
    /// The columns that replace variables.
    pub(super) columns: BTreeSet<ColumnIndex>,
    /// Assignments that were inlined.
    pub(super) gone: Vec<Span>,
}

impl<'b, 'a> Rewriting<'b, 'a> {
    /// Rewrites for an UPDATE, as of the statement `node`.
    pub(super) fn new(body: &'b Body<'a>, update: &'b Action, node: usize) -> Rewriting<'b, 'a> {
        Rewriting {
            body,
            update,
            node,
            reads: BTreeSet::new(),
            columns: BTreeSet::new(),
            gone: Vec::new(),
        }
    }

    /// Returns the tokens with the row's columns in the place of variables that hold them. Text of the UPDATE
    /// itself has depth 0; inlined text has more, and is refused if a variable would be taken for a column there.
    pub(super) fn rewritten(&mut self, words: &[Lexeme], depth: usize) -> Option<String> {
        let mut text = String::new();
        let mut done = words.first()?.span;
        done.end = done.start;
        let mut at = 0;
        while at < words.len() {
            let (length, replacement) = match self.replacement(words, at, depth) {
                Some(found) => found,
                None if depth > 0 && self.would_be_column(words, at) => return None,
                None => (1, None),
            };
            let span = words[at].span.to(words[at + length - 1].span);
            let between = Span {
                start: done.end,
                end: span.start,
                ..span
            };
            text.push_str(self.body.file.slice(between));
            match replacement {
                Some(new) => text.push_str(&new),
                None => text.push_str(self.body.file.slice(span)),
            }
            done = span;
            at += length;
        }
        Some(text)
    }

    /// Whether a name that stays would mean a column in the UPDATE.
    fn would_be_column(&self, words: &[Lexeme], at: usize) -> bool {
        let is_sign = |at: Option<usize>, sign| {
            let word = at.and_then(|at| words.get(at));
            word.is_some_and(|word| word.is_sign(sign))
        };
        let qualified = is_sign(at.checked_sub(1), ".");
        let called = is_sign(Some(at + 1), "(");
        let names = self.body.column_names(self.update.access.table);
        !qualified && !called && words[at].name().is_some_and(|name| names.contains(&name))
    }

    /// The replacement of the tokens from here on, and how many it replaces.
    fn replacement(
        &mut self,
        words: &[Lexeme],
        at: usize,
        depth: usize,
    ) -> Option<(usize, Option<String>)> {
        let body = self.body;
        let name = words[at].name()?;
        let qualified = at > 0 && words[at - 1].is_sign(".");
        let Some(Origin::Set(set)) = body.origin(name).filter(|_| !qualified) else {
            return None;
        };
        let field = (words.get(at + 1).is_some_and(|dot| dot.is_sign("."))).then_some(at + 2);
        let table = self.update.access.table;
        match body.nodes[set].statement {
            // First of all: another table has other columns.
            Statement::Sql { into, .. } if self.still_holds(set) => {
                let (column, text) = match field {
                    Some(field) if body.is_record(name) => {
                        self.field_of(set, words.get(field)?.name()?)?
                    }
                    None => {
                        let place = into.iter().position(|target| target == name)?;
                        let part = body.selected(set)?.get(place)?.clone();
                        let (column, word) = body.column_at(set, part)?;
                        let fits = body.fits(name, table, column);
                        fits.then(|| (column, body.file.slice(word.span).to_owned()))?
                    }
                    Some(_) => return None,
                };
                self.reads.insert(set);
                self.columns.insert(column);
                Some((field.map_or(1, |_| 3), Some(text)))
            }
            Statement::Assign { .. } if field.is_none() && depth < DEPTH_MAX => {
                if !body.runs_before(set, self.node) {
                    return None;
                }
                let of = &body.nodes[set].words;
                let sign = of.iter().position(|w| w.is_sign(":=") || w.is_sign("="))?;
                let value = of.get(sign + 1..)?;
                // An expression whose value may have changed since, or differs each time, is not evaluated again.
                let changes = |word: &Lexeme| {
                    let origin = word.name().and_then(|name| body.origin(name));
                    matches!(origin, Some(Origin::Unclear))
                        || COMPUTED_ONCE.iter().any(|once| word.is_word(once))
                };
                if value.iter().any(changes) {
                    return None;
                }
                let before = (self.reads.clone(), self.columns.clone(), self.gone.len());
                let text = self.rewritten(value, depth + 1);
                let Some(text) = text.filter(|_| self.reads.len() > before.0.len()) else {
                    (self.reads, self.columns) = (before.0, before.1);
                    self.gone.truncate(before.2);
                    return None;
                };
                self.gone.push(body.nodes[set].span);
                let alone = words.len() == 1 || value.len() == 1;
                Some((1, Some(if alone { text } else { format!("({text})") })))
            }
            _ => None,
        }
    }

    /// The column that a record's field holds.
    fn field_of(&self, set: usize, field: &str) -> Option<(ColumnIndex, String)> {
        let body = self.body;
        let table = self.update.access.table;
        for part in body.selected(set)? {
            let words = &body.nodes[set].words[part.clone()];
            if let [star] = words
                && star.is_sign("*")
            {
                let names = body.column_names(table);
                let place = names.iter().position(|name| *name == field)?;
                let column = ColumnIndex(u16::try_from(place).ok()?);
                return Some((column, field.to_owned()));
            }
            if let Some((column, word)) = body.column_at(set, part)
                && word.name() == Some(field)
            {
                return Some((column, body.file.slice(word.span).to_owned()));
            }
        }
        None
    }

    /// Whether the row that is updated is unchanged since this SELECT read it.
    fn still_holds(&self, set: usize) -> bool {
        let body = self.body;
        let read = body.only_access(set, Role::Read);
        read.is_some_and(|read| body.same_row(read, self.update))
            && body.runs_before(set, self.node)
            && !body.touched_between(self.update.access.table, set, self.node, false)
    }
}
