//! Translates declarations in PostgreSQL's files that the catalog does not have into such as it has.
//!
//! | PostgreSQL | here |
//! |---|---|
//! | `CREATE TYPE t AS ENUM ('a', 'b')` | a column of it is `text … CHECK (c IN ('a', 'b'))` |
//! | `CREATE DOMAIN d AS integer CHECK (VALUE > 0)` | a column of it is `integer … CHECK (c > 0)` |
//! | `jsonb`, `text[]`, `citext`, any other type | opaque: `text` of which only NULL is known, as a register |
//! | `GENERATED ALWAYS AS (a + b) STORED` | a column; a read of it reads `a` and `b` |
//! | a trigger that sets a column to the current time | a column that every INSERT or UPDATE writes |
//! | `CREATE TABLE a PARTITION OF b`, `ATTACH PARTITION a` | a view of all of `b` |
//! | `CREATE MATERIALIZED VIEW` | a view |
//! | `CREATE UNIQUE INDEX … ON t (lower(a)) WHERE b` | an equivalent assertion |
//! | `COLLATE "de_DE"`, `STORAGE`, `UNLOGGED`, the start of an identity | nothing |
//!
//! A translation is a list of edits ([`Edit`]): text in the place of a range. Some ranges can be skipped by themselves
//! ([`OptionalPart`]). A CHECK or a DEFAULT that cannot be analysed does not take its table with it: transactions that
//! write under the CHECK become unknown, and the DEFAULT may be any value.
//!
//! An opaque column is sound as text because nothing follows from its values: no condition on it tells which rows
//! match, and no CHECK on it is analysed. Like any assigned column, it keeps one of the assigned values as a whole.

mod casts;
mod relation;
mod table;
mod trigger;
mod types;
mod unique;

use std::collections::BTreeSet;
use std::ops::Range;

use super::{
    column_properties::ColumnProperties,
    scan::starts_among,
    tokens::{Token, after_if, begin, name_of, tokens},
};
use crate::source::Translated;

pub(super) use casts::statement;
pub(super) use relation::Relations;
pub(super) use trigger::{TimestampFunction, all_timestamp_functions};
use trigger::{stamp, stamps};
pub(super) use types::Types;

/// A replacement of a range of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Edit {
    pub(super) range: Range<usize>,
    pub(super) text: String,
    /// The position that diagnostics name for the new text.
    pub(super) place: usize,
    /// Whether it is inside a string, where the new text must have the same length.
    pub(super) in_string: bool,
}

impl Edit {
    pub(super) fn new(range: Range<usize>, text: impl Into<String>) -> Edit {
        Edit {
            place: range.start,
            range,
            text: text.into(),
            in_string: false,
        }
    }
}

/// A part of a declaration that can be skipped by itself.
#[derive(Clone, Debug)]
pub(super) struct OptionalPart {
    pub(super) range: Range<usize>,
    /// The part as a declaration of its own.
    pub(super) text: String,
    pub(super) kind: PartKind,
    /// Why it cannot be analysed, if that is known from the start.
    pub(super) why: Option<String>,
}

/// The kind of an optional part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    /// A constraint.
    Constraint,
    /// A CHECK of one opaque column: a transaction that writes the column checks its whole new value.
    OpaqueCheck,
    /// The DEFAULT of a column.
    Default,
}

/// The translation of a declaration.
#[derive(Clone, Debug, Default)]
pub(super) struct Translation {
    pub(super) edits: Vec<Edit>,
    pub(super) parts: Vec<OptionalPart>,
    /// Keys with a column of a type or collation that has its own equality.
    pub(super) keys: Vec<(Range<usize>, String)>,
    /// Types of columns that are neither declared nor built in.
    pub(super) unknown_types: Vec<(Range<usize>, String)>,
}

impl Translation {
    /// Adds edits, except those inside the present ones.
    pub(super) fn beside(&mut self, edits: &[Edit]) {
        let taken: Vec<Range<usize>> = self.edits.iter().map(|e| e.range.clone()).collect();
        let inside = |edit: &&Edit| {
            let mut taken = taken.iter();
            taken.any(|t| t.start <= edit.range.start && edit.range.end <= t.end && !t.is_empty())
        };
        let others = edits.iter().filter(|edit| !inside(edit)).cloned();
        self.edits.extend(others);
        let order = |edit: &Edit| (edit.range.start, edit.range.end);
        self.edits.sort_by_key(order);
    }
}

/// The definitions in other declarations that a translation uses.
#[derive(Clone, Copy)]
pub(super) struct Definitions<'k> {
    pub(super) types: &'k Types,
    pub(super) stamps: &'k [TimestampFunction],
    pub(super) relations: &'k Relations,
}

/// Translates the declaration in `text`, at `base` in its file, except its parts that begin where `skipped` holds.
/// Column properties go to `properties`.
pub(super) fn declaration(
    text: &str,
    base: usize,
    known: Definitions<'_>,
    skipped: &dyn Fn(usize) -> bool,
    properties: &mut ColumnProperties,
) -> Translation {
    let mut translation = translated(text, base, known, skipped, properties);
    translation.beside(&casts::casts(text, base, known.types));
    translation
}

/// The same without the types in expressions and routines.
pub(super) fn translated(
    text: &str,
    base: usize,
    known: Definitions<'_>,
    skipped: &dyn Fn(usize) -> bool,
    properties: &mut ColumnProperties,
) -> Translation {
    let mut translation = Translation::default();
    let is_stamp = stamp(text).is_some() || stamps(text, known.stamps, properties);
    if types::declares(text) || is_stamp {
        translation
            .edits
            .push(Edit::new(base..base + text.len(), String::new()));
        return translation;
    }
    let is_read = known.relations.read(text, base, &mut translation)
        || unique::unique(text, base, known.types, properties, &mut translation);
    if !is_read {
        table::table(
            text,
            base,
            known.types,
            skipped,
            properties,
            &mut translation,
        );
    }
    translation
}

/// Whether an expression compares by order.
fn compares(expression: &[Token<'_>]) -> bool {
    let sign = |at: usize, sign: char| expression.get(at).is_some_and(|t| t.is_sign(sign));
    (0..expression.len()).any(|at| {
        let differs = sign(at, '<') && sign(at + 1, '>');
        let of_those = sign(at, '>') && at > 0 && sign(at - 1, '<');
        (sign(at, '<') || sign(at, '>')) && !differs && !of_those || expression[at].is("between")
    })
}

/// A declared view.
pub(super) struct View {
    name: String,
    /// All names in it.
    names: BTreeSet<String>,
}

/// The view that a text declares.
pub(super) fn view(text: &str) -> Option<View> {
    if !starts_among(text, 5, &["view"]) {
        return None;
    }
    let all = tokens(text);
    let at = all.iter().take(5).position(|t| t.is("view"))?;
    let (name, _) = name_of(&all, after_if(&all, at + 1))?;
    begin(&all, &["create"]).then(|| View {
        name,
        names: all.iter().filter_map(Token::name).collect(),
    })
}

/// Why an assertion or a unique index cannot be analysed: it names a column with a property that rules it out.
pub(super) fn unsupported_reason(
    text: &str,
    properties: &ColumnProperties,
    views: &[View],
) -> Option<String> {
    if !starts_among(text, 3, &["assertion", "index"]) {
        return None;
    }
    let all = tokens(text);
    let is_index = begin(&all, &["create", "unique", "index"]);
    if !is_index && !begin(&all, &["create", "assertion"]) {
        return None;
    }
    let mut named: BTreeSet<String> = all.iter().filter_map(Token::name).collect();
    let mut views: Vec<&View> = views.iter().collect();
    while let Some(at) = views.iter().position(|view| named.contains(&view.name)) {
        named.extend(views.swap_remove(at).names.iter().cloned());
    }
    let is_named = |key: &&(String, String)| named.contains(&key.0) && named.contains(&key.1);
    if is_index {
        let (_, column) = properties.generated.keys().find(is_named)?;
        return Some(format!(
            "a unique index on the generated column \"{column}\""
        ));
    }
    let compares = compares(&all);
    let unknown = properties.own_equality.iter();
    let disordered = properties.own_order.iter().filter(|_| compares);
    let (_, column) = unknown.chain(disordered).find(is_named)?;
    Some(format!(
        "an assertion about \"{column}\", with values that the analysis does not know,"
    ))
}

/// Applies edits to the text of a file. Edits inside strings are made in place, where the new text fits; the others
/// make the result, which is `None` if there are none.
pub(super) fn edited(text: &mut String, edits: &[Edit]) -> Option<Translated> {
    for edit in edits.iter().filter(|edit| edit.in_string) {
        let length = edit.range.len();
        if edit.text.len() <= length {
            let padded = format!("{:length$}", edit.text);
            text.replace_range(edit.range.clone(), &padded);
        }
    }
    let others: Vec<&Edit> = edits.iter().filter(|edit| !edit.in_string).collect();
    if others.is_empty() {
        return None;
    }
    let mut out = Translated::default();
    let mut done = 0;
    for edit in others {
        if edit.range.start < done {
            continue;
        }
        out.copy(&text[done..edit.range.start], done);
        out.write(&edit.text, edit.place);
        done = edit.range.end;
    }
    out.copy(&text[done..], done);
    out.places
        .push(u32::try_from(text.len()).unwrap_or(u32::MAX));
    Some(out)
}
