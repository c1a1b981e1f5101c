//! Names in the texts of expressions and views: whether they are there, and renames.

use super::declared::{
    DeclaredColumn, DeclaredDefault, DeclaredIndex, DeclaredPart, DeclaredTable, Relation,
};
use crate::{
    parse::{Lexeme, LexemeKind, lexemes, sequence::relation_name},
    source::{SourceFile, Span},
    system::names::quoted,
};

/// An expression over one table, with a column renamed.
pub(super) fn columns(expression: &str, from: &str, to: &str) -> String {
    let file = SourceFile::new("expression", expression);
    let words = lexemes(&file, whole(expression));
    let places = (0..words.len()).filter(|at| is_column(&words, *at, from));
    replaced(expression, places.map(|at| words[at].span), to)
}

/// An expression over one table, with the table renamed where it qualifies a column.
pub(super) fn qualifiers(expression: &str, from: &str, to: &str) -> String {
    let file = SourceFile::new("expression", expression);
    let words = lexemes(&file, whole(expression));
    let is_qualifier = |at: &usize| {
        let next = words.get(at + 1);
        words[*at].name() == Some(from) && next.is_some_and(|next| next.is_sign("."))
    };
    let places = (0..words.len()).filter(is_qualifier);
    replaced(expression, places.map(|at| words[at].span), to)
}

/// A CREATE VIEW, with a table or a column renamed in its query. Nothing else in the query may have the name.
pub(super) fn in_query(text: &str, from: &str, to: &str) -> String {
    let file = SourceFile::new("view", text);
    let words = lexemes(&file, whole(text));
    let query = words.iter().position(|word| word.is_word("as"));
    let is_renamed = |at: &usize| {
        let next = words.get(at + 1);
        let is_function = next.is_some_and(|next| next.is_sign("("));
        let is_alias = words[at - 1].is_word("as");
        words[*at].name() == Some(from) && !is_function && !is_alias
    };
    let places = query.map_or(words.len(), |at| at + 1)..words.len();
    let places = places.filter(is_renamed);
    replaced(text, places.map(|at| words[at].span), to)
}

/// A CREATE VIEW that names its columns; unchanged if it does already.
pub(super) fn with_columns(text: &str, columns: &[String]) -> String {
    let file = SourceFile::new("view", text);
    let words = lexemes(&file, whole(text));
    let Some(at) = words.iter().position(|word| word.is_word("as")) else {
        return text.to_owned();
    };
    if at > 0 && words[at - 1].is_sign(")") {
        return text.to_owned();
    }
    let place = words[at].span.start as usize;
    let names: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
    format!(
        "{}({}) {}",
        &text[..place],
        names.join(", "),
        &text[place..]
    )
}

/// A CREATE VIEW, with another name for the view.
pub(super) fn created(text: &str, to: &str) -> String {
    let file = SourceFile::new("view", text);
    let words = lexemes(&file, whole(text));
    let view = words.iter().position(|word| word.is_word("view"));
    let mut at = view.map_or(0, |at| at + 1);
    if words.get(at + 1).is_some_and(|word| word.is_sign(".")) {
        at += 2;
    }
    replaced(text, words.get(at).map(|word| word.span).into_iter(), to)
}

/// The sequences that an expression names, each with the place of the literal: `nextval('name')`.
pub(super) fn sequences_in(expression: &str) -> Vec<(Span, String)> {
    let file = SourceFile::new("expression", expression);
    let words = lexemes(&file, whole(expression));
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let is_function = ["nextval", "currval", "setval"]
            .iter()
            .any(|name| word.is_word(name));
        let is_open = words.get(at + 1).is_some_and(|next| next.is_sign("("));
        let Some(literal) = words.get(at + 2).filter(|_| is_function && is_open) else {
            continue;
        };
        let text = &expression[literal.span.start as usize..literal.span.end as usize];
        let inner = text.strip_prefix('\'').and_then(|of| of.strip_suffix('\''));
        let name = inner.and_then(|inner| relation_name(&inner.replace("''", "'")));
        if let Some(name) = name {
            found.push((literal.span, name));
        }
    }
    found
}

/// An expression, with a sequence that it names renamed.
pub(super) fn sequence(expression: &str, from: &str, to: &str) -> String {
    let literal = format!("'{}'", quoted(to).replace('\'', "''"));
    let mut changed = String::new();
    let mut done = 0;
    for (place, name) in sequences_in(expression) {
        if name == from {
            changed.push_str(&expression[done..place.start as usize]);
            changed.push_str(&literal);
            done = place.end as usize;
        }
    }
    changed.push_str(&expression[done..]);
    changed
}

fn replaced(text: &str, places: impl Iterator<Item = Span>, to: &str) -> String {
    let mut changed = String::new();
    let mut done = 0;
    for place in places {
        changed.push_str(&text[done..place.start as usize]);
        changed.push_str(&quoted(to));
        done = place.end as usize;
    }
    changed.push_str(&text[done..]);
    changed
}

/// A relation's kind in messages.
pub(super) fn kind(relation: Relation) -> &'static str {
    match relation {
        Relation::Table(_) => "table",
        Relation::View(_) => "view",
        Relation::Sequence(_) | Relation::SerialSequence(..) => "sequence",
        Relation::PrimaryKey(_) | Relation::Index(..) => "index",
    }
}

/// Whether an expression over one table names a column.
pub(super) fn names_column(expression: &str, column: &str) -> bool {
    let file = SourceFile::new("expression", expression);
    let words = lexemes(&file, whole(expression));
    (0..words.len()).any(|at| is_column(&words, at, column))
}

impl DeclaredTable {
    /// The generated columns that are computed from a column.
    pub(super) fn computed_from<'t>(
        &'t self,
        column: &'t str,
    ) -> impl Iterator<Item = &'t DeclaredColumn> {
        self.columns.iter().filter(move |of| match &of.default {
            DeclaredDefault::Computed(expression) => names_column(expression, column),
            _ => false,
        })
    }
}

impl DeclaredIndex {
    /// Whether it is of this column, or computed from it.
    pub(super) fn names(&self, column: &str) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| match part {
            DeclaredPart::Column(name) => name == column,
            DeclaredPart::Expression(expression) => names_column(expression, column),
        }) || self.predicate.iter().any(|of| names_column(of, column))
    }
}

/// The place of a whole text.
fn whole(text: &str) -> Span {
    Span {
        file: 0,
        start: 0,
        end: u32::try_from(text.len()).unwrap_or(u32::MAX),
    }
}

/// Whether a word of an expression over one table is the name of this column: no function, no type before a literal.
fn is_column(words: &[Lexeme], at: usize, column: &str) -> bool {
    if words[at].name() != Some(column) {
        return false;
    }
    let next = words.get(at + 1);
    let is_quoted = matches!(words[at].kind, LexemeKind::Quoted(_));
    let is_function = next.is_some_and(|next| next.is_sign("("));
    let is_qualifier = next.is_some_and(|next| next.is_sign("."));
    let is_literal = next.is_some_and(|next| next.kind == LexemeKind::Text) && !is_quoted;
    let is_type = at > 0 && words[at - 1].is_sign("::");
    !(is_function || is_qualifier || is_literal || is_type)
}

/// Whether a text has this name as a word, in any position: more than what depends on it.
pub(super) fn mentions(text: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let is_plain = name.chars().all(is_word);
    match is_plain {
        true => text
            .split(|c| !is_word(c))
            .any(|word| word.eq_ignore_ascii_case(name)),
        false => text.contains(name),
    }
}
