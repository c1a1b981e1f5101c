//! Unique indexes on expressions, or on some rows of a table, translated to equivalent assertions.
//!
//! `CREATE UNIQUE INDEX i ON t (a, lower(b)) WHERE p` asserts: among the rows with `p`, no two have the same `a` and
//! `lower(b)`, unless one of these is NULL.

use super::{Edit, Translation, casts::casts, compares, types::Types};
use crate::script::{
    column_properties::ColumnProperties,
    scan::starts_among,
    tokens::{Token, after_if, begin, closing, listed, name_of, quoted, tokens},
};

/// Translates the unique index in `text`, at `base` in its file, if only an assertion can express it; returns whether
/// it did.
pub(super) fn unique(
    text: &str,
    base: usize,
    types: &Types,
    properties: &ColumnProperties,
    translation: &mut Translation,
) -> bool {
    let assertion = assertion(text, types, properties);
    let found = assertion.is_some();
    let whole = base..base + text.len();
    translation
        .edits
        .extend(assertion.map(|words| Edit::new(whole, words)));
    found
}

fn assertion(text: &str, types: &Types, properties: &ColumnProperties) -> Option<String> {
    if !starts_among(text, 3, &["index"]) {
        return None;
    }
    let all = tokens(text);
    if !begin(&all, &["create", "unique", "index"]) {
        return None;
    }
    let at = 3 + usize::from(all.get(3)?.is("concurrently"));
    let at = after_if(&all, at);
    let (name, on) = match all.get(at)?.is("on") {
        true => (None, at),
        false => name_of(&all, at).map(|(name, next)| (Some(name), next))?,
    };
    if !all.get(on)?.is("on") {
        return None;
    }
    let (table, next) = name_of(&all, on + 1 + usize::from(all.get(on + 1)?.is("only")))?;
    let open = next + 2 * usize::from(begin(&all[next..], &["using", "btree"]));
    if !all.get(open)?.is_sign('(') {
        return None;
    }
    let close = closing(&all, open)?;
    let (distinct, condition) = behind(&all, close + 1)?;
    let elements = listed(&all[open + 1..close]);
    let keys: Vec<&[Token<'_>]> = elements.iter().map(|of| key(of)).collect::<Option<_>>()?;
    let is_plain = keys.iter().all(|key| key.len() == 1);
    if is_plain && condition.is_empty() || unsupported_reason(&keys, condition, &table, properties)
    {
        return None;
    }
    let written = |of: &[Token<'_>]| with_casts(text, of, types);
    let keys: Vec<String> = keys.into_iter().map(written).collect();
    let mut conditions = Vec::new();
    if !condition.is_empty() {
        conditions.push(format!("({})", written(condition)));
    }
    if distinct {
        conditions.extend(keys.iter().map(|key| format!("{key} IS NOT NULL")));
    }
    let filter = match conditions.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", conditions.join(" AND ")),
    };
    let name = name.unwrap_or_else(|| format!("{table}_{}_idx", elements.len()));
    Some(format!(
        "CREATE ASSERTION {} CHECK (NOT EXISTS (SELECT 1 FROM {}{filter} GROUP BY {} HAVING count(*) > 1))",
        quoted(&name),
        quoted(&table),
        keys.join(", ")
    ))
}

/// What follows the keys: whether NULLs are distinct, and the condition.
fn behind<'a, 't>(all: &'a [Token<'t>], mut at: usize) -> Option<(bool, &'a [Token<'t>])> {
    let mut distinct = true;
    while let Some(token) = all.get(at) {
        let rest = &all[at..];
        at = match () {
            () if token.is("include") || token.is("with") => closing(all, at + 1)? + 1,
            () if token.is("tablespace") => name_of(all, at + 1)?.1,
            () if begin(rest, &["nulls", "not", "distinct"]) => {
                distinct = false;
                at + 3
            }
            () if begin(rest, &["nulls", "distinct"]) => at + 2,
            () if token.is("where") => return Some((distinct, &rest[1..])),
            () => return None,
        };
    }
    Some((distinct, &[]))
}

/// The column or expression of an index element, without its operator class and order.
fn key<'a, 't>(element: &'a [Token<'t>]) -> Option<&'a [Token<'t>]> {
    let first = element.first()?;
    let mut end = match first.is_sign('(') {
        true => closing(element, 0)? + 1,
        false => name_of(element, 0)?.1,
    };
    if element.get(end).is_some_and(|token| token.is_sign('(')) {
        end = closing(element, end)? + 1;
    }
    // Another collation may have another equality.
    let compared = element[end..].iter().any(|token| token.is("collate"));
    (!compared).then_some(&element[..end])
}

/// Whether it is over columns with properties that rule it out.
fn unsupported_reason(
    keys: &[&[Token<'_>]],
    condition: &[Token<'_>],
    table: &str,
    properties: &ColumnProperties,
) -> bool {
    let ordered = |of: &[Token<'_>]| compares(of);
    let keyed = keys.iter().copied();
    keyed.chain([condition]).any(|of| {
        let mut names = of.iter().filter_map(Token::name);
        let is_ordered = ordered(of);
        names.any(|name| {
            let column = (table.to_owned(), name);
            properties.own_equality.contains(&column)
                || is_ordered && properties.own_order.contains(&column)
                || properties.generated.contains_key(&column)
        })
    })
}

/// The text of tokens, with declared types replaced by those that represent them.
fn with_casts(text: &str, of: &[Token<'_>], types: &Types) -> String {
    let (Some(first), Some(last)) = (of.first(), of.last()) else {
        return String::new();
    };
    // White space after the last token is dropped.
    let mut written = text[first.start..last.end].trim_end().to_owned();
    let edits = casts(&written, 0, types);
    for edit in edits.iter().rev().filter(|edit| !edit.in_string) {
        written.replace_range(edit.range.clone(), &edit.text);
    }
    written
}
