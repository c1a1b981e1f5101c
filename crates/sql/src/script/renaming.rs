//! Renames: a declaration under a name that a later statement changes is read under the final name.
//!
//! This covers `ALTER TABLE … RENAME`, as migrations have it, of tables, views, columns, constraints, types and their
//! labels. Readers of declarations need not know of it, since the texts are rewritten first: going from the last
//! declaration to the first, the final name of each thing is known, and each declaration is rewritten to final names,
//! with its own places ([`Renamed`]). A thing with a name that another thing takes over later has been dropped by
//! then; it gets a name of its own, under which it is declared and dropped.
//!
//! The text of a routine is not rewritten: PostgreSQL does not follow renames in it either. A view or an assertion
//! over a column that is renamed later is skipped: its output column keeps the old name.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    pgsql::{Edit, edited},
    scan::Part,
    tokens::{Token, after_if, altered, begin, closing, listed, name_of, quoted, tokens},
};
use crate::source::Translated;

/// A declaration, rewritten to final names.
#[derive(Clone, Debug)]
pub(super) struct Renamed {
    /// The new text, with the places in its file.
    pub(super) words: Translated,
    /// The same as edits of the file.
    pub(super) edits: Vec<Edit>,
    /// Why it cannot be rewritten.
    pub(super) why: Option<String>,
}

/// Rewrites the declarations that name something renamed later, and returns them by number. `declarations` are in
/// order, each with its text and its position in its file.
pub(super) fn renamed(declarations: &[(&str, usize)]) -> BTreeMap<usize, Renamed> {
    let mut found = BTreeMap::new();
    let mut names = Names::default();
    let mut renamings = BTreeMap::new();
    for (at, (text, base)) in declarations.iter().enumerate().rev() {
        // Most files rename nothing, and are not tokenised.
        if names.is_empty() && !holds_word(text, "rename") {
            continue;
        }
        let all = tokens(text);
        let renaming = Renaming::read(&all);
        if !renaming.is_empty() {
            // The name of a constraint or an index does not change what it demands.
            let says_nothing =
                |of: &Renaming| matches!(of.sort, Renamable::Constraint | Renamable::Index);
            if renaming.iter().all(says_nothing) {
                names.used.insert(at);
            }
            // Several renames in one statement apply one after the other.
            let last_first = renaming.into_iter().rev();
            last_first.for_each(|of| names.before(of, at));
            renamings.insert(at, (*text, *base));
            continue;
        }
        let mut pass = Rewriter::new(&all, &mut names);
        pass.declaration();
        let (edits, why) = (pass.edits, pass.why);
        if !edits.is_empty() || why.is_some() {
            found.insert(at, Renamed::new(text, *base, edits, why));
        }
    }
    // A rename of something that is not declared stays, and is reported.
    for at in names.used {
        if let Some((text, base)) = renamings.get(&at) {
            found.insert(at, Renamed::void(text, *base));
        }
    }
    found
}

fn holds_word(text: &str, word: &str) -> bool {
    let mut windows = text.as_bytes().windows(word.len());
    windows.any(|bytes| bytes.eq_ignore_ascii_case(word.as_bytes()))
}

impl Renamed {
    /// The text at `base` with these edits.
    fn new(text: &str, base: usize, mut edits: Vec<Edit>, why: Option<String>) -> Renamed {
        edits.sort_by_key(|edit| edit.range.start);
        let shift = |at: u32| at.saturating_add(u32::try_from(base).unwrap_or(u32::MAX));
        let mut words = edited(&mut text.to_owned(), &edits).unwrap_or_else(|| {
            let mut same = Translated::default();
            same.copy(text, 0);
            same.places
                .push(u32::try_from(text.len()).unwrap_or(u32::MAX));
            same
        });
        words
            .places
            .iter_mut()
            .for_each(|place| *place = shift(*place));
        for edit in &mut edits {
            edit.range = edit.range.start + base..edit.range.end + base;
            edit.place += base;
        }
        Renamed { words, edits, why }
    }

    /// The text at `base` with all of it blank: it declares nothing.
    pub(super) fn void(text: &str, base: usize) -> Renamed {
        let nothing = Edit::new(0..text.len(), String::new());
        Renamed::new(text, base, vec![nothing], None)
    }

    /// The position in the file of a byte of the new text.
    pub(super) fn place(&self, at: usize) -> usize {
        let places = &self.words.places;
        let at = places.get(at).or(places.last());
        at.map_or(0, |at| *at as usize)
    }
}

/// The final name of a thing, and the declarations that rename it.
#[derive(Clone, Debug, Default)]
struct FinalName {
    name: String,
    by: Vec<usize>,
    /// Whether it is dropped by then, and another thing has its name.
    gone: bool,
}

type FinalNames = BTreeMap<String, FinalName>;

/// The final names of things, at some declaration, where they differ from those there.
#[derive(Debug, Default)]
struct Names {
    relations: FinalNames,
    types: FinalNames,
    indexes: FinalNames,
    /// By the final name of the relation, or of the type.
    columns: BTreeMap<String, FinalNames>,
    constraints: BTreeMap<String, FinalNames>,
    labels: BTreeMap<String, FinalNames>,
    /// The renaming statements that apply to some declaration.
    used: BTreeSet<usize>,
    /// The number of dropped things with names that others have taken over.
    gone: usize,
}

/// One rename.
struct Renaming {
    sort: Renamable,
    /// The relation or type that the thing belongs to.
    of: String,
    from: String,
    to: String,
}

#[derive(Clone, Copy)]
enum Renamable {
    Relation,
    Type,
    Index,
    Column,
    Constraint,
    Label,
}

impl Renaming {
    fn read(all: &[Token<'_>]) -> Vec<Renaming> {
        match begin(all, &["rename", "table"]) {
            true => {
                let pairs = listed(&all[2..]);
                let pairs: Option<Vec<Renaming>> =
                    pairs.into_iter().map(Renaming::of_pair).collect();
                pairs.unwrap_or_default()
            }
            false => Renaming::of_alter(all).into_iter().collect(),
        }
    }

    /// MySQL's `a TO b`.
    fn of_pair(pair: &[Token<'_>]) -> Option<Renaming> {
        let (from, next) = name_of(pair, 0)?;
        let (to, end) = name_of(pair, next + 1)?;
        (pair.get(next)?.is("to") && end == pair.len()).then(|| Renaming {
            sort: Renamable::Relation,
            of: String::new(),
            from,
            to,
        })
    }

    fn of_alter(all: &[Token<'_>]) -> Option<Renaming> {
        if !begin(all, &["alter"]) {
            return None;
        }
        let of_type = all.get(1)?.is("type") || all.get(1)?.is("domain");
        let mut at = 1;
        while all.get(at)?.is("materialized") || all.get(at)?.is("foreign") {
            at += 1;
        }
        let of_index = all.get(at)?.is("index");
        let is_relation = all.get(at)?.is("table") || all.get(at)?.is("view");
        if !is_relation && !of_type && !of_index {
            return None;
        }
        at = after_if(all, at + 1);
        at += usize::from(all.get(at)?.is("only"));
        let (of, mut at) = name_of(all, at)?;
        at += usize::from(all.get(at)?.is_sign('*'));
        if !all.get(at)?.is("rename") {
            return None;
        }
        at += 1;
        let word = |word: &str| all.get(at).is_some_and(|t| t.is(word));
        let label = |at: usize| match all.get(at)?.part {
            Part::Quoted(text) if text.starts_with('\'') => Some(text.to_owned()),
            _ => None,
        };
        let name = |at: usize| all.get(at)?.name();
        let pair = |sort: Renamable, at: usize, end: usize| {
            let (from, to) = match sort {
                Renamable::Label => (label(at)?, label(at + 2)?),
                _ => (name(at)?, name(at + 2)?),
            };
            let is_all = all.get(at + 1)?.is("to") && all.len() == end;
            is_all.then_some((sort, from, to))
        };
        let names_itself = word("to") || word("as");
        let (sort, from, to) = match (of_type, all.len() - at) {
            (false, 1) => (Renamable::Relation, of.clone(), name(at)?),
            (_, 2) if names_itself => {
                let sort = match of_index {
                    true => Renamable::Index,
                    false if of_type => Renamable::Type,
                    false => Renamable::Relation,
                };
                (sort, of.clone(), name(at + 1)?)
            }
            (true, 4) if word("value") => pair(Renamable::Label, at + 1, at + 4)?,
            (false, 4) if word("constraint") => pair(Renamable::Constraint, at + 1, at + 4)?,
            (false, 4) if word("column") => pair(Renamable::Column, at + 1, at + 4)?,
            (false, 3) => pair(Renamable::Column, at, at + 3)?,
            _ => return None,
        };
        Some(Renaming { sort, of, from, to })
    }
}

impl Names {
    fn is_empty(&self) -> bool {
        let of = [&self.columns, &self.constraints, &self.labels];
        let plain = [&self.relations, &self.types, &self.indexes];
        plain.iter().all(|of| of.is_empty()) && of.iter().all(|of| of.is_empty())
    }

    /// The final name of a relation.
    fn relation(&self, name: &str) -> String {
        let found = self.relations.get(name);
        found.map_or(name, |of| of.name.as_str()).to_owned()
    }

    /// Steps back over a rename, by the declaration `at`.
    fn before(&mut self, renaming: Renaming, at: usize) {
        let Renaming { sort, of, from, to } = renaming;
        let called = match sort {
            Renamable::Relation => &mut self.relations,
            Renamable::Type => &mut self.types,
            Renamable::Index => &mut self.indexes,
            Renamable::Column => self
                .columns
                .entry(self_name(&self.relations, &of))
                .or_default(),
            Renamable::Constraint => {
                let of = self_name(&self.relations, &of);
                self.constraints.entry(of).or_default()
            }
            Renamable::Label => self.labels.entry(self_name(&self.types, &of)).or_default(),
        };
        let behind = called.get(&to).cloned();
        let mut it = behind.unwrap_or_else(|| FinalName {
            name: to.clone(),
            ..FinalName::default()
        });
        it.by.push(at);
        // A thing of the new name is dropped by now; it gets a unique name.
        self.gone += 1;
        let gone = match sort {
            Renamable::Label => format!("'{} (gone {})'", to.trim_matches('\''), self.gone),
            _ => format!("{to} (gone {})", self.gone),
        };
        let gone = FinalName {
            name: gone,
            gone: true,
            ..FinalName::default()
        };
        called.insert(to, gone);
        called.insert(from, it);
    }
}

fn self_name(called: &FinalNames, name: &str) -> String {
    let found = called.get(name);
    found.map_or(name, |of| of.name.as_str()).to_owned()
}

/// Rewrites one declaration to final names.
struct Rewriter<'a, 't> {
    all: &'a [Token<'t>],
    names: &'a mut Names,
    edits: Vec<Edit>,
    why: Option<String>,
}

/// Words that begin a table's constraint, and never a column.
const CONSTRAINTS: [&str; 6] = [
    "constraint",
    "primary",
    "unique",
    "check",
    "foreign",
    "like",
];

/// Words that begin a table's constraint, or a column of that name.
const PERHAPS_CONSTRAINTS: [&str; 5] = ["exclude", "key", "index", "fulltext", "spatial"];

impl<'a, 't> Rewriter<'a, 't> {
    fn new(all: &'a [Token<'t>], names: &'a mut Names) -> Rewriter<'a, 't> {
        Rewriter {
            all,
            names,
            edits: Vec::new(),
            why: None,
        }
    }

    fn declaration(&mut self) -> Option<()> {
        let all = self.all;
        let first = all.first()?;
        let word = |at: usize, word: &str| all.get(at).is_some_and(|t| t.is(word));
        if first.is("alter") && word(1, "table") {
            return self.alter();
        }
        if first.is("drop") {
            return self.drop();
        }
        if begin(all, &["alter", "type"]) || begin(all, &["alter", "domain"]) {
            return self.declared_type(2);
        }
        if !first.is("create") {
            return None;
        }
        let mut at = 1;
        const BETWEEN: [&str; 10] = [
            "or",
            "replace",
            "unlogged",
            "temp",
            "temporary",
            "unique",
            "materialized",
            "recursive",
            "constraint",
            "foreign",
        ];
        while BETWEEN.iter().any(|between| word(at, between)) {
            at += 1;
        }
        match () {
            () if word(at, "policy") => self.trigger(at + 1),
            () if word(at, "table") => self.table(at + 1),
            () if word(at, "index") => self.index(at + 1),
            () if word(at, "trigger") => self.trigger(at + 1),
            () if word(at, "rule") => {
                let to = at + all[at..].iter().position(|t| t.is("to"))?;
                self.relation(to + 1).map(|_| ())
            }
            () if word(at, "view") => self.view(at + 1),
            () if word(at, "assertion") => self.query(at + 1),
            () if word(at, "type") || word(at, "domain") => self.declared_type(at + 1),
            () => None,
        }
    }

    fn instead(&mut self, at: usize, words: String) {
        let token = &self.all[at];
        self.edits.push(Edit::new(token.start..token.end, words));
    }

    /// Rewrites the relation's name at a position; returns the final name, and the position after it.
    fn relation(&mut self, at: usize) -> Option<(String, usize)> {
        let (name, next) = name_of(self.all, at)?;
        let Some(found) = self.names.relations.get(&name).cloned() else {
            return Some((name, next));
        };
        self.names.used.extend(&found.by);
        self.instead(next - 1, quoted(&found.name));
        Some((found.name, next))
    }

    fn column(&mut self, table: &str, at: usize) {
        let Some(name) = self.all.get(at).and_then(Token::name) else {
            return;
        };
        let found = self.names.columns.get(table).and_then(|of| of.get(&name));
        if let Some(found) = found.cloned() {
            self.names.used.extend(&found.by);
            self.instead(at, quoted(&found.name));
        }
    }

    /// Rewrites an index's name, with or without a schema.
    fn index_name(&mut self, at: usize) {
        let Some((name, next)) = name_of(self.all, at) else {
            return;
        };
        if let Some(found) = self.names.indexes.get(&name).cloned() {
            self.names.used.extend(&found.by);
            self.instead(next - 1, quoted(&found.name));
        }
    }

    fn constraint(&mut self, table: &str, at: usize) {
        let Some(name) = self.all.get(at).and_then(Token::name) else {
            return;
        };
        let found = self
            .names
            .constraints
            .get(table)
            .and_then(|of| of.get(&name));
        if let Some(found) = found.cloned() {
            self.names.used.extend(&found.by);
            self.instead(at, quoted(&found.name));
        }
    }

    /// Rewrites a type's name, with or without a schema; returns the final name.
    fn type_name(&mut self, at: usize) -> Option<String> {
        let (name, next) = name_of(self.all, at)?;
        let Some(found) = self.names.types.get(&name).cloned() else {
            return Some(name);
        };
        self.names.used.extend(&found.by);
        self.instead(next - 1, quoted(&found.name));
        Some(found.name)
    }

    /// Rewrites CREATE TABLE, from its name on.
    fn table(&mut self, at: usize) -> Option<()> {
        let all = self.all;
        let (table, open) = self.relation(after_if(all, at))?;
        if begin(&all[open..], &["partition", "of"]) {
            self.relation(open + 2)?;
        }
        let Some(open) = (open..all.len()).find(|at| all[*at].is_sign('(')) else {
            return Some(());
        };
        let close = closing(all, open)?;
        let mut at = open + 1;
        for element in listed(&all[open + 1..close]) {
            self.element(&table, at, at + element.len());
            at += element.len() + 1;
        }
        let mut at = close + 1;
        while at < all.len() {
            let inherits = all[at].is("inherits");
            if (inherits || all[at].is("by")) && all[at..].iter().any(|t| t.is_sign('(')) {
                let open = at + all[at..].iter().position(|t| t.is_sign('('))?;
                let close = closing(all, open)?;
                match inherits {
                    true => {
                        for name in open + 1..close {
                            if !all[name].is_sign(',') && !all[name - 1].is_sign('.') {
                                self.relation(name);
                            }
                        }
                    }
                    false => self.expression(&table, open, close),
                }
                at = close;
            }
            at += 1;
        }
        Some(())
    }

    /// Rewrites a column or a constraint of a table, from `at` to `end`.
    fn element(&mut self, table: &str, at: usize, end: usize) {
        let Some(first) = self.all.get(at) else {
            return;
        };
        let columns = self.names.columns.get(table);
        let renamed = |word: &&str| columns.is_some_and(|of| of.contains_key(*word));
        let mut perhaps = PERHAPS_CONSTRAINTS.iter().filter(|word| !renamed(word));
        if CONSTRAINTS.iter().any(|word| first.is(word)) || perhaps.any(|word| first.is(word)) {
            if first.is("like") {
                self.relation(at + 1);
                return;
            }
            self.conditions(table, at, end);
            return;
        }
        self.column(table, at);
        self.type_name(at + 1);
        // The arguments of a type are no columns.
        let mut rest = name_of(self.all, at + 1).map_or(at + 1, |(_, next)| next);
        if rest < end && self.all[rest].is_sign('(') {
            rest = closing(self.all, rest).map_or(end, |close| close + 1);
        }
        self.conditions(table, rest, end);
    }

    /// Rewrites constraints: columns in brackets, the tables that they refer to, and their names.
    fn conditions(&mut self, table: &str, mut at: usize, end: usize) {
        while at < end {
            let token = &self.all[at];
            if token.is("constraint") {
                self.constraint(table, at + 1);
                at += 2;
            } else if token.is("references") {
                at = self.references(at + 1);
            } else if token.is_sign('(') {
                let close = closing(self.all, at).unwrap_or(end).min(end);
                self.expression(table, at + 1, close);
                at = close + 1;
            } else if self.is_cast(at) {
                self.type_name(at);
                at += 1;
            } else {
                at += 1;
            }
        }
    }

    /// Rewrites what follows REFERENCES; returns the position after it.
    fn references(&mut self, at: usize) -> usize {
        let named = name_of(self.all, at);
        let called = named
            .as_ref()
            .and_then(|(name, _)| self.names.relations.get(name));
        // A reference to a dropped table, if it still stands, is taken for one to the table with that name now: a
        // constraint too many does no harm.
        let told = match called.is_some_and(|of| of.gone) {
            true => named,
            false => self.relation(at),
        };
        let Some((parent, next)) = told else {
            return at;
        };
        match self.all.get(next) {
            Some(open) if open.is_sign('(') => {
                let close = closing(self.all, next).unwrap_or(self.all.len());
                self.expression(&parent, next + 1, close);
                close
            }
            _ => next,
        }
    }

    /// Whether a type stands at a position: `a::type`.
    fn is_cast(&self, at: usize) -> bool {
        at > 1 && self.all[at - 1].is_sign(':') && self.all[at - 2].is_sign(':')
    }

    /// Whether the name at a position is a type's: `date '2001-01-01'`, `CAST (a AS date)`.
    fn is_type(&self, at: usize) -> bool {
        let next = self.all.get(at + 1).map(|t| t.part);
        let literal = matches!(next, Some(Part::Quoted(text)) if text.starts_with('\''));
        literal || at > 0 && self.all[at - 1].is("as")
    }

    /// Rewrites the columns of a table in an expression.
    fn expression(&mut self, table: &str, from: usize, to: usize) {
        for at in from..to.min(self.all.len()) {
            let sign = |at: usize, sign: char| self.all.get(at).is_some_and(|t| t.is_sign(sign));
            if self.is_cast(at) {
                self.type_name(at);
            } else if sign(at + 1, '.') {
                if at == 0 || !sign(at - 1, '.') {
                    self.qualifier(table, at);
                }
            } else if !sign(at + 1, '(') && !self.is_type(at) {
                self.column(table, at);
            }
        }
    }

    /// Rewrites a table's name before a column of it.
    fn qualifier(&mut self, table: &str, at: usize) {
        let name = self.all[at].name().unwrap_or_default();
        if self.names.relation(&name) == table {
            self.relation_word(at);
        }
    }

    fn relation_word(&mut self, at: usize) {
        let name = self.all[at].name().unwrap_or_default();
        if let Some(found) = self.names.relations.get(&name).cloned() {
            self.names.used.extend(&found.by);
            self.instead(at, quoted(&found.name));
        }
    }

    fn alter(&mut self) -> Option<()> {
        let all = self.all;
        let (table, mut at) = self.relation(altered(all)?)?;
        for action in listed(&all[at..]) {
            let end = at + action.len();
            self.action(&table, at, end);
            at = end + 1;
        }
        Some(())
    }

    /// Rewrites one action of an ALTER TABLE, from `at` to `end`.
    fn action(&mut self, table: &str, at: usize, end: usize) {
        let all = self.all;
        let word = |at: usize, word: &str| at < end && all[at].is(word);
        let column = |at: usize| at + usize::from(word(at, "column"));
        if word(at, "add") {
            self.element(table, after_if(all, column(at + 1)), end);
        } else if word(at, "drop") && word(at + 1, "constraint") {
            self.constraint(table, after_if(all, at + 2));
        } else if word(at, "drop") {
            self.column(table, after_if(all, column(at + 1)));
        } else if word(at, "alter") && word(at + 1, "constraint")
            || word(at, "validate") && word(at + 1, "constraint")
        {
            self.constraint(table, at + 2);
        } else if word(at, "alter") || word(at, "modify") {
            let named = column(at + 1);
            self.column(table, named);
            for at in named + 1..end {
                if word(at - 1, "type") {
                    self.type_name(at);
                }
            }
            if let Some(using) = (named + 1..end).find(|at| word(*at, "using")) {
                self.expression(table, using + 1, end);
            } else {
                self.conditions(table, named + 1, end);
            }
        } else if word(at, "attach") || word(at, "detach") {
            self.relation(at + 2);
        } else if word(at, "inherit") {
            self.relation(at + 1);
        }
    }

    fn drop(&mut self) -> Option<()> {
        let all = self.all;
        let mut at = 1 + usize::from(all.get(1)?.is("materialized"));
        let kind = all.get(at)?;
        let of_type = kind.is("type") || kind.is("domain");
        let of_index = kind.is("index");
        if kind.is("trigger") || kind.is("rule") || kind.is("policy") {
            let on = at + all[at..].iter().position(|t| t.is("on"))?;
            return self.relation(on + 1).map(|_| ());
        }
        if !of_type && !of_index && !kind.is("table") && !kind.is("view") {
            return None;
        }
        at += usize::from(all.get(at + 1)?.is("concurrently"));
        at = after_if(all, at + 1);
        loop {
            let (_, next) = name_of(all, at)?;
            if of_type {
                self.type_name(at);
            } else if of_index {
                self.index_name(at);
            } else {
                self.relation(at);
            }
            if !all.get(next)?.is_sign(',') {
                return Some(());
            }
            at = next + 1;
        }
    }

    /// Rewrites CREATE INDEX, after these words.
    fn index(&mut self, at: usize) -> Option<()> {
        let all = self.all;
        let on = at + all[at..].iter().position(|t| t.is("on"))?;
        let name = after_if(all, at + usize::from(all.get(at)?.is("concurrently")));
        if name < on {
            self.index_name(name);
        }
        let named = on + 1 + usize::from(all.get(on + 1)?.is("only"));
        let (table, mut next) = self.relation(named)?;
        if all.get(next)?.is("using") {
            next += 2;
        }
        self.expression(&table, next, all.len());
        Some(())
    }

    fn trigger(&mut self, at: usize) -> Option<()> {
        let all = self.all;
        let on = at + all[at..].iter().position(|t| t.is("on"))?;
        let (table, next) = self.relation(on + 1)?;
        for at in at..on {
            if !all[at].is_sign(',') && all[..at].iter().any(|t| t.is("of")) {
                self.column(&table, at);
            }
        }
        for at in next + 2..all.len() {
            let of_row = all[at - 2].is("new") || all[at - 2].is("old");
            if of_row && all[at - 1].is_sign('.') {
                self.column(&table, at);
            }
        }
        Some(())
    }

    /// Rewrites a statement about a type, from its name on.
    fn declared_type(&mut self, at: usize) -> Option<()> {
        let at = after_if(self.all, at);
        let name = self.type_name(at)?;
        let labels = self.names.labels.get(&name).cloned().unwrap_or_default();
        for at in at..self.all.len() {
            if let Part::Quoted(text) = self.all[at].part
                && let Some(found) = labels.get(text)
            {
                self.names.used.extend(&found.by);
                self.instead(at, found.name.clone());
            }
        }
        Some(())
    }

    fn view(&mut self, at: usize) -> Option<()> {
        let at = after_if(self.all, at);
        let (_, next) = self.relation(at)?;
        self.query(next)
    }

    /// Rewrites a query: tables get their final names, with the old ones as aliases.
    fn query(&mut self, from: usize) -> Option<()> {
        let all = self.all;
        let words: BTreeSet<String> = all[from..].iter().filter_map(Token::name).collect();
        for name in &words {
            let table = self.names.relation(name);
            let columns = self.names.columns.get(&table);
            let column = columns.and_then(|of| of.keys().find(|column| words.contains(*column)));
            if let Some(column) = column {
                self.why = Some(format!(
                    "a query over \"{column}\" of \"{table}\" from before its rename"
                ));
                return None;
            }
        }
        for at in from..all.len() {
            let Some(name) = all[at].name() else {
                continue;
            };
            let Some(found) = self.names.relations.get(&name).cloned() else {
                continue;
            };
            let sign = |at: usize, sign: char| all.get(at).is_some_and(|t| t.is_sign(sign));
            // The name may have a schema.
            let first = match sign(at - 1, '.') {
                true => at - 2,
                false => at,
            };
            let is_table = all[first - 1].is("from") || all[first - 1].is("join");
            if !is_table {
                if !sign(at + 1, '.') {
                    self.why = Some(format!("a query over \"{name}\" from before its rename"));
                    return None;
                }
                continue;
            }
            const BEHIND: [&str; 20] = [
                "on",
                "where",
                "join",
                "inner",
                "left",
                "right",
                "full",
                "cross",
                "natural",
                "using",
                "group",
                "having",
                "order",
                "limit",
                "offset",
                "union",
                "except",
                "intersect",
                "for",
                "with",
            ];
            let alias = all.get(at + 1).is_some_and(|next| {
                next.name().is_some() && !BEHIND.iter().any(|word| next.is(word))
            });
            self.names.used.extend(&found.by);
            let words = match alias {
                true => quoted(&found.name),
                false => format!("{} AS {}", quoted(&found.name), quoted(&name)),
            };
            self.instead(at, words);
        }
        Some(())
    }
}
