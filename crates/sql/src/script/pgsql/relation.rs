//! Relations over the rows of others: partitions and materialized views.
//!
//! A partition is read as a view of the whole table. A query on it may then read more rows than it does, which is
//! safe, and a constraint on the table covers the partition's rows, too. A further constraint of a partition is
//! skipped, and makes transactions that write the table unknown. A materialized view is read as a view that is
//! refreshed at every read; its REFRESH changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::{Edit, OptionalPart, PartKind, Translation};
use crate::script::{
    scan::starts_among,
    tokens::{Token, after_if, begin, closing, listed, name_of, quoted, tokens},
};

/// The partitions and materialized views among declarations.
#[derive(Clone, Debug, Default)]
pub(in crate::script) struct Relations {
    /// The table of each partition.
    partitions: BTreeMap<String, String>,
    materialized: BTreeSet<String>,
    /// The columns and constraints of partitioned tables.
    elements: BTreeMap<String, Vec<String>>,
    /// Indexes that are attached to one of the whole table.
    indexes: BTreeSet<String>,
}

impl Relations {
    pub(in crate::script) fn of<'t>(
        declarations: impl Iterator<Item = &'t str> + Clone,
    ) -> Relations {
        let mut found = Relations::default();
        let mut detached = BTreeSet::new();
        for text in declarations.clone() {
            if !starts_among(text, 3, &["table", "materialized", "index"]) {
                continue;
            }
            let all = tokens(text);
            if let Some((child, parent)) = partition(&all) {
                found.partitions.insert(child, parent);
            } else if let Some((child, parent)) = changed(&all, "attach") {
                found.partitions.insert(child, parent);
            } else if let Some((child, _)) = changed(&all, "detach") {
                detached.insert(child);
            } else if let Some(at) = materialized(&all) {
                let named = name_of(&all, after_if(&all, at + 2));
                found.materialized.extend(named.map(|(name, _)| name));
            } else if begin(&all, &["alter", "index"]) {
                let at = all.iter().position(|token| token.is("attach"));
                let named = at.and_then(|at| name_of(&all, at + 2));
                found.indexes.extend(named.map(|(name, _)| name));
            }
        }
        // A detached partition is a table of its own.
        found.partitions.retain(|name, _| !detached.contains(name));
        let parents: BTreeSet<&String> = found.partitions.values().collect();
        for text in declarations {
            if parents.is_empty() || !starts_among(text, 3, &["table"]) {
                continue;
            }
            let all = tokens(text);
            if let Some((name, elements)) =
                elements(&all, text).filter(|(of, _)| parents.contains(of))
            {
                found.elements.insert(name, elements);
            }
        }
        found
    }

    /// The table that a partition belongs to, directly or through other partitions.
    fn whole(&self, partition: &str) -> Option<&str> {
        let mut whole = self.partitions.get(partition)?;
        // Partitions in a ring belong to no table.
        for _ in 0..self.partitions.len() {
            match self.partitions.get(whole) {
                Some(next) => whole = next,
                None => return Some(whole),
            }
        }
        None
    }

    /// Translates the declaration in `text`, at `base` in its file, if it is about such a relation; returns whether it
    /// is.
    pub(super) fn read(&self, text: &str, base: usize, translation: &mut Translation) -> bool {
        if self.partitions.is_empty() && self.materialized.is_empty() {
            return false;
        }
        let all = tokens(text);
        let whole_text = base..base + text.len();
        let instead = |words: String| Edit::new(whole_text.clone(), words);
        if let Some(at) = materialized(&all) {
            let Some(end) = self.query_end(&all) else {
                return false;
            };
            let cut = |from: &Token<'_>, to: usize| Edit::new(base + from.start..base + to, "");
            let behind = after_if(&all, at + 2);
            translation.edits.push(cut(&all[at], all[at].end));
            if behind > at + 2 {
                translation.edits.push(cut(&all[at + 2], all[behind].start));
            }
            if let Some(rest) = all.get(end) {
                translation.edits.push(cut(rest, text.len()));
            }
            return true;
        }
        if begin(&all, &["refresh", "materialized", "view"]) {
            let at = 3 + usize::from(all.get(3).is_some_and(|t| t.is("concurrently")));
            let named = name_of(&all, at);
            let is_known = named.is_some_and(|(name, _)| self.materialized.contains(&name));
            if is_known {
                translation.edits.push(instead(String::new()));
            }
            return is_known;
        }
        if begin(&all, &["alter", "index"]) && all.iter().any(|token| token.is("attach")) {
            translation.edits.push(instead(String::new()));
            return true;
        }
        if changed(&all, "attach").is_some_and(|(child, _)| self.partitions.contains_key(&child)) {
            translation.edits.push(instead(String::new()));
            return true;
        }
        let Some((name, of)) = about(&all) else {
            return false;
        };
        if self.materialized.contains(&name) && of == Subject::Index {
            // An index of a materialized view constrains no table.
            translation.edits.push(instead(String::new()));
            return true;
        }
        let Some(whole) = self.whole(&name) else {
            return false;
        };
        let undeclared = |constraint: String| OptionalPart {
            range: whole_text.clone(),
            text: constraint,
            kind: PartKind::Constraint,
            why: Some("what a partition demands beyond its table".to_owned()),
        };
        let demand = |element: &str| format!("ALTER TABLE {} ADD {element}", quoted(whole));
        match of {
            Subject::Table => {
                let words = format!(
                    "CREATE VIEW {} AS SELECT * FROM {}",
                    quoted(&name),
                    quoted(whole)
                );
                translation.edits.push(instead(words));
                let of_whole = self.elements.get(whole);
                let known = |element: &String| of_whole.is_some_and(|all| all.contains(element));
                let own = elements(&all, text).map_or(Vec::new(), |(_, own)| own);
                let unsupported_reason = own
                    .iter()
                    .filter(|element| demands(element) && !known(element));
                translation
                    .parts
                    .extend(unsupported_reason.map(|element| undeclared(demand(element))));
            }
            Subject::Index | Subject::Alteration => {
                translation.edits.push(instead(String::new()));
                let is_part = all
                    .iter()
                    .filter_map(Token::name)
                    .any(|word| self.indexes.contains(&word));
                let is_unique =
                    of == Subject::Alteration || all.iter().any(|token| token.is("unique"));
                if demands(text) && is_unique && !is_part {
                    let columns = all.iter().map(|t| &text[t.start..t.end]);
                    let words: Vec<&str> = columns.filter(|word| *word != name).collect();
                    translation.parts.push(undeclared(demand(&format!(
                        "UNIQUE CHECK {}",
                        words.join(" ")
                    ))));
                }
            }
        }
        true
    }

    /// The end of a materialized view's query, before `WITH [NO] DATA`.
    fn query_end(&self, all: &[Token<'_>]) -> Option<usize> {
        let open = all.iter().position(|token| token.is("as"))?;
        // USING, WITH and TABLESPACE before AS are about storage.
        let (_, behind) = name_of(all, after_if(all, materialized(all)? + 2))?;
        let named = all.get(behind)?;
        let listed = match named.is_sign('(') {
            true => closing(all, behind)? + 1,
            false => behind,
        };
        if listed != open {
            return None;
        }
        let tail = [&["with", "data"][..], &["with", "no", "data"][..]];
        let ends = tail.iter().find(|words| {
            let at = all.len().checked_sub(words.len());
            at.is_some_and(|at| begin(&all[at..], words))
        });
        Some(all.len() - ends.map_or(0, |words| words.len()))
    }
}

/// The relation of a declaration to the table that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Table,
    Index,
    Alteration,
}

/// The table that a declaration names.
fn about(all: &[Token<'_>]) -> Option<(String, Subject)> {
    if begin(all, &["alter", "table"]) {
        let at = after_if(all, 2);
        let at = at + usize::from(all.get(at)?.is("only"));
        return Some((name_of(all, at)?.0, Subject::Alteration));
    }
    if !begin(all, &["create"]) {
        return None;
    }
    if let Some(at) = all.iter().take(3).position(|token| token.is("index")) {
        let on = at + all[at..].iter().position(|token| token.is("on"))? + 1;
        let on = on + usize::from(all.get(on)?.is("only"));
        return Some((name_of(all, on)?.0, Subject::Index));
    }
    let at = all.iter().take(3).position(|token| token.is("table"))?;
    Some((name_of(all, after_if(all, at + 1))?.0, Subject::Table))
}

/// `CREATE TABLE a PARTITION OF b`: a, and b.
fn partition(all: &[Token<'_>]) -> Option<(String, String)> {
    let (name, Subject::Table) = about(all)? else {
        return None;
    };
    let at = all.iter().position(|token| token.is("partition"))?;
    let (parent, behind) =
        begin(&all[at..], &["partition", "of"]).then(|| name_of(all, at + 2))??;
    // A partition with constraints of its own is not followed.
    (!all.get(behind)?.is_sign('(')).then_some((name, parent))
}

/// `ALTER TABLE b ATTACH PARTITION a`, or DETACH: a, and b.
fn changed(all: &[Token<'_>], how: &str) -> Option<(String, String)> {
    let (parent, Subject::Alteration) = about(all)? else {
        return None;
    };
    let at = all.iter().position(|token| token.is(how))?;
    let (child, _) = begin(&all[at + 1..], &["partition"]).then(|| name_of(all, at + 2))??;
    Some((child, parent))
}

/// The position of MATERIALIZED in a text that creates such a view.
fn materialized(all: &[Token<'_>]) -> Option<usize> {
    let at = all
        .iter()
        .take(4)
        .position(|token| token.is("materialized"))?;
    (begin(all, &["create"]) && all.get(at + 1)?.is("view")).then_some(at)
}

/// A table's name, and its columns and constraints with single blanks.
fn elements(all: &[Token<'_>], text: &str) -> Option<(String, Vec<String>)> {
    let (name, Subject::Table) = about(all)? else {
        return None;
    };
    let open = all.iter().position(|token| token.is_sign('('))?;
    let close = closing(all, open)?;
    let written = |element: &&[Token<'_>]| {
        let words: Vec<&str> = element.iter().map(|t| &text[t.start..t.end]).collect();
        words.join(" ")
    };
    Some((
        name,
        listed(&all[open + 1..close]).iter().map(written).collect(),
    ))
}

/// Whether a text has a constraint.
fn demands(text: &str) -> bool {
    const DEMANDS: [&str; 5] = ["check", "unique", "primary", "references", "exclude"];
    tokens(text)
        .iter()
        .any(|token| DEMANDS.iter().any(|word| token.is(word)))
}
