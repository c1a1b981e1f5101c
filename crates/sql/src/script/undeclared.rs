//! Skipped declarations: routines, views and tables that other statements name all the same.

use super::{
    scan::{Part, words},
    tokens::tokens,
};
use crate::catalog::Catalog;

/// All skipped declarations. Each unparsed transaction is compared with each of them, so they are read once.
pub(super) struct Undeclared<'t> {
    declarations: Vec<Declaration<'t>>,
    /// Views (analysed or skipped) and tables that inherit, with the names in them.
    through: Vec<(String, Vec<String>)>,
}

struct Declaration<'t> {
    text: &'t str,
    /// The kind in lower case, and the name.
    declares: Option<(String, String)>,
    /// The query of a view: the text after AS.
    query: Option<&'t str>,
}

impl<'t> Undeclared<'t> {
    pub(super) fn new(texts: Vec<&'t str>, catalog: &Catalog) -> Undeclared<'t> {
        let declaration = |text: &'t str| {
            let declares = declared(text);
            let is_view = declares.as_ref().is_some_and(|(kind, _)| kind == "view");
            let query = is_view.then(|| behind(text, "as")).flatten();
            Declaration {
                text,
                declares,
                query,
            }
        };
        let declarations: Vec<Declaration<'t>> = texts.into_iter().map(declaration).collect();
        let mut through = Vec::new();
        for view in &catalog.views {
            let query = view.query.to_string();
            through.push((view.name.clone(), words(&query).collect()));
        }
        for of in &declarations {
            let Some((kind, name)) = &of.declares else {
                continue;
            };
            // Rows of a table that inherits are rows of its parents, too.
            let parents = || behind(of.text, "inherits");
            let named = match kind.as_str() {
                "table" => parents(),
                _ => of.query,
            };
            if let Some(text) = named {
                through.push((name.clone(), words(text).collect()));
            }
        }
        Undeclared {
            declarations,
            through,
        }
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &'t str> {
        self.declarations.iter().map(|of| of.text)
    }

    /// What each declares: the kind in lower case, and the name.
    pub(super) fn declared(&self) -> impl Iterator<Item = (&str, &str)> {
        let known = self
            .declarations
            .iter()
            .filter_map(|of| of.declares.as_ref());
        known.map(|(kind, name)| (kind.as_str(), name.as_str()))
    }

    /// The views among them, with their queries.
    pub(super) fn views(&self) -> impl Iterator<Item = (&str, &'t str)> {
        let views = self.declarations.iter();
        views.filter_map(|of| Some((of.declares.as_ref()?.1.as_str(), of.query?)))
    }

    /// Adds to `named` the names in every view that is named, directly or through other views.
    pub(super) fn through_views(&self, named: &mut Vec<String>) {
        let mut views: Vec<&(String, Vec<String>)> = self.through.iter().collect();
        let is_named = |named: &[String], name: &str| {
            let mut named = named.iter();
            named.any(|word| word.eq_ignore_ascii_case(name))
        };
        while let Some(at) = views.iter().position(|(name, _)| is_named(named, name)) {
            let (_, names) = views.swap_remove(at);
            named.extend(names.iter().cloned());
        }
    }
}

/// The text after a word.
fn behind<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let all = tokens(text);
    let end = all.iter().find(|token| token.is(word))?.end;
    Some(&text[end..])
}

/// What a text declares: the kind in lower case, and the name.
pub(super) fn declared(text: &str) -> Option<(String, String)> {
    const SKIPPED: [&str; 15] = [
        "create",
        "or",
        "replace",
        "temp",
        "temporary",
        "unlogged",
        "unique",
        "materialized",
        "recursive",
        "if",
        "not",
        "exists",
        "constraint",
        "concurrently",
        "foreign",
    ];
    let all = tokens(text);
    let mut at = 0;
    let word = |at: usize| match all.get(at)?.part {
        Part::Word(word) => Some(word.to_lowercase()),
        Part::Quoted(_) => all[at].name(),
        _ => None,
    };
    let next = |at: &mut usize| loop {
        let found = word(*at)?;
        *at += 1;
        if !SKIPPED.contains(&found.as_str()) {
            return Some(found);
        }
    };
    let kind = next(&mut at)?;
    let mut name = next(&mut at)?;
    // Behind its schema.
    while all.get(at).is_some_and(|t| t.is_sign('.')) {
        name = word(at + 1)?;
        at += 2;
    }
    Some((kind, name))
}

/// The name of the routine that a text declares.
pub(super) fn routine(text: &str) -> Option<String> {
    let (kind, name) = declared(text)?;
    let trigger = words(text).any(|word| word == "trigger");
    // MySQL's events run by themselves.
    let is_routine = ["function", "procedure", "event"].contains(&kind.as_str());
    (is_routine && !trigger).then_some(name)
}

/// Whether a text declares something that runs when another statement writes.
pub(super) fn is_trigger(text: &str) -> bool {
    is_cascade(text)
        || is_policy(text)
        || matches!(declared(text), Some((kind, _)) if kind == "trigger" || kind == "rule")
}

/// Whether a text declares a row-level security policy.
pub(super) fn is_policy(text: &str) -> bool {
    matches!(declared(text), Some((kind, _)) if kind == "policy")
}

/// Whether a text gives a table a foreign key with actions that write.
pub(super) fn is_cascade(text: &str) -> bool {
    let words: Vec<String> = words(text).collect();
    let has = |word: &str| words.iter().any(|w| w == word);
    words.first().is_some_and(|w| w == "alter")
        && has("references")
        && (has("cascade") || has("set"))
}

/// Whether a text declares the function of a trigger.
pub(super) fn is_trigger_function(text: &str) -> bool {
    let words: Vec<String> = words(text).collect();
    words
        .windows(2)
        .any(|pair| pair[0] == "returns" && pair[1] == "trigger")
}
