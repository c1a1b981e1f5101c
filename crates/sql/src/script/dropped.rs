//! Drops: indexes, views, triggers, rules, policies and routines that a later statement drops are not declared.
//!
//! Declarations are followed in their order, by final names. What is dropped by its name, or with its table, is void,
//! and so is the statement that drops it; a later declaration may create a thing of the same name. Tables, their
//! columns and their constraints are dropped by the catalog ([`crate::catalog`]).

use std::collections::{BTreeMap, BTreeSet};

use super::{
    scan::starts_among,
    tokens::{Token, after_if, altered, begin, closing, name_of, tokens},
};

/// The declarations of things that are dropped later, and the statements that drop them, by number.
pub(super) fn dropped<'t>(declarations: impl Iterator<Item = &'t str> + Clone) -> BTreeSet<usize> {
    let mut found = Dropping::default();
    // Most files drop nothing.
    if !declarations
        .clone()
        .any(|text| starts_among(text, 1, &["drop"]))
    {
        return found.void;
    }
    for (at, text) in declarations.enumerate() {
        let all = tokens(text);
        if begin(&all, &["create"]) {
            found.create(text, &all, at);
        } else if begin(&all, &["alter", "table"]) {
            found.alter(&all, at);
        } else if begin(&all, &["drop"]) {
            found.drop(&all, at);
        }
    }
    found.void
}

/// The kind of a thing, its name, and its table if its name is unique only there.
type Thing = (&'static str, String, Option<String>);

#[derive(Default)]
struct Dropping {
    /// Things that exist, with their declarations; a routine may have several.
    live: BTreeMap<Thing, Vec<usize>>,
    /// The parameters of routines, as they are written.
    parameters: BTreeMap<usize, String>,
    /// The things that are dropped with a table.
    on: BTreeMap<String, Vec<(Thing, usize)>>,
    void: BTreeSet<usize>,
}

/// The kinds of things that are followed, by the word after CREATE and DROP.
const KINDS: [&str; 8] = [
    "index",
    "view",
    "trigger",
    "rule",
    "policy",
    "function",
    "procedure",
    "extension",
];

fn kind(token: &Token<'_>) -> Option<&'static str> {
    KINDS.into_iter().find(|kind| token.is(kind))
}

/// The table after ON, or after a rule's TO.
fn table_of(all: &[Token<'_>], kind: &str, from: usize) -> Option<String> {
    let word = |t: &Token<'_>| t.is("on");
    let mut on = from + all.get(from..)?.iter().position(word)?;
    if kind == "rule" && !begin(all, &["drop"]) {
        on = from + all.get(from..)?.iter().position(|t| t.is("to"))?;
    }
    let only = usize::from(all.get(on + 1)?.is("only"));
    Some(name_of(all, on + 1 + only)?.0)
}

impl Dropping {
    fn create(&mut self, text: &str, all: &[Token<'_>], at: usize) -> Option<()> {
        let (found, kind) = all
            .iter()
            .take(6)
            .enumerate()
            .find_map(|(at, token)| Some((at, kind(token)?)))?;
        let concurrently = usize::from(all.get(found + 1)?.is("concurrently"));
        let name_at = after_if(all, found + 1 + concurrently);
        // An index may have no name.
        let name = match all.get(name_at)?.is("on") && kind == "index" {
            true => None,
            false => Some(name_of(all, name_at)?),
        };
        if let ("function" | "procedure", Some((_, open))) = (kind, &name) {
            let inside = all.get(open + 1..closing(all, *open)?)?.iter();
            let words: Vec<&str> = inside.map(|t| text[t.start..t.end].trim()).collect();
            self.parameters.insert(at, words.join(" "));
        }
        let name = name.map(|(name, _)| name);
        let on_table = ["index", "trigger", "rule", "policy"].contains(&kind);
        let table = match on_table {
            true => Some(table_of(all, kind, name_at)?),
            false => None,
        };
        let own = table.clone().filter(|_| kind != "index");
        let thing = (kind, name.unwrap_or_default(), own);
        if let Some(table) = table {
            self.on.entry(table).or_default().push((thing.clone(), at));
        }
        if !thing.1.is_empty() {
            self.live.entry(thing).or_default().push(at);
        }
        Some(())
    }

    /// An ALTER TABLE is void if its table is dropped.
    fn alter(&mut self, all: &[Token<'_>], at: usize) -> Option<()> {
        let (table, _) = name_of(all, altered(all)?)?;
        let thing = ("table", String::new(), None);
        self.on.entry(table).or_default().push((thing, at));
        Some(())
    }

    fn drop(&mut self, all: &[Token<'_>], at: usize) -> Option<()> {
        let materialized = usize::from(all.get(1)?.is("materialized"));
        let first = all.get(1 + materialized)?;
        let is_table = first.is("table");
        let kind = if is_table { Some("table") } else { kind(first) }?;
        let mut next = 2 + materialized;
        next += usize::from(all.get(next)?.is("concurrently"));
        let may_be_gone = after_if(all, next) > next;
        next = after_if(all, next);
        let mut every = true;
        loop {
            let (name, behind) = name_of(all, next)?;
            if is_table {
                self.with_table(&name);
            } else {
                let table = match ["trigger", "rule", "policy"].contains(&kind) {
                    true => Some(table_of(all, kind, behind)?),
                    false => None,
                };
                let gone = self.live.remove(&(kind, name.clone(), table.clone()));
                let gone = match gone {
                    // Overloaded routines are not told apart: all of them stay.
                    Some(all) if self.are_several(&all) => {
                        self.live.insert((kind, name, table), all);
                        Some(Vec::new())
                    }
                    gone => gone,
                };
                every &= gone.is_some() || may_be_gone || kind == "extension";
                self.void.extend(gone.unwrap_or_default());
            }
            // The parameters of a routine.
            next = match all.get(behind) {
                Some(token) if token.is_sign('(') => closing(all, behind)? + 1,
                _ => behind,
            };
            if !all.get(next).is_some_and(|t| t.is_sign(',')) {
                break;
            }
            next += 1;
        }
        // The catalog reports a drop of something that was never declared.
        if every && !is_table {
            self.void.insert(at);
        }
        Some(())
    }

    /// Whether routines of one name have different parameters.
    fn are_several(&self, routines: &[usize]) -> bool {
        let mut parameters = routines.iter().filter_map(|at| self.parameters.get(at));
        let first = parameters.next();
        parameters.any(|other| Some(other) != first)
    }

    /// Drops the things on a table.
    fn with_table(&mut self, table: &str) {
        for (thing, at) in self.on.remove(table).unwrap_or_default() {
            self.void.insert(at);
            if let Some(live) = self.live.get_mut(&thing) {
                live.retain(|one| *one != at);
            }
        }
    }
}
