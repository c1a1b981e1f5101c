//! Parts of a statement, found by its tokens.

use std::ops::Range;

use anabranch_sql::parse::Lexeme;
use anabranch_sql::source::Span;

use super::edit::Edit;

/// Words that end a clause of a query, outside of brackets; or the query itself, if a loop or a condition contains
/// it.
const ENDS: [&str; 14] = [
    "loop",
    "then",
    "group",
    "having",
    "window",
    "order",
    "limit",
    "offset",
    "fetch",
    "for",
    "union",
    "except",
    "intersect",
    "returning",
];

/// Words that may follow a table's name and are no alias of it.
const NO_ALIAS: [&str; 22] = [
    "as",
    "on",
    "set",
    "into",
    "join",
    "where",
    "inner",
    "cross",
    "natural",
    "left",
    "right",
    "full",
    "using",
    "values",
    "select",
    "group",
    "order",
    "limit",
    "for",
    "union",
    "returning",
    "default",
];

/// The number of brackets around each token.
pub(super) fn depths(words: &[Lexeme]) -> Vec<usize> {
    let mut depth = 0_usize;
    words
        .iter()
        .map(|word| {
            let opens = word.is_sign("(") || word.is_sign("[");
            let closes = word.is_sign(")") || word.is_sign("]");
            if closes {
                depth = depth.saturating_sub(1);
            }
            let here = depth;
            if opens {
                depth += 1;
            }
            here
        })
        .collect()
}

/// The first token of `from` that is this word, at the same bracket depth as `words[from.start]`.
pub(super) fn find(words: &[Lexeme], from: Range<usize>, word: &str) -> Option<usize> {
    let depths = depths(words);
    let depth = *depths.get(from.start)?;
    from.clone()
        .find(|at| depths[*at] == depth && words[*at].is_word(word))
}

/// Splits a range at commas outside of brackets.
pub(super) fn parts(words: &[Lexeme], of: Range<usize>) -> Vec<Range<usize>> {
    let depths = depths(words);
    let mut parts = Vec::new();
    let mut start = of.start;
    let outer = of.clone().map(|at| depths[at]).min().unwrap_or_default();
    for at in of.clone() {
        if depths[at] == outer && words[at].is_sign(",") {
            parts.push(start..at);
            start = at + 1;
        }
    }
    if start < of.end {
        parts.push(start..of.end);
    }
    parts
}

/// The bracket that closes the one at `open`.
pub(super) fn closing(words: &[Lexeme], open: usize) -> Option<usize> {
    let depths = depths(words);
    (open + 1..words.len()).find(|at| depths[*at] == depths[open] && words[*at].is_sign(")"))
}

/// The span from the first to the last token.
pub(super) fn span(words: &[Lexeme]) -> Option<Span> {
    Some(words.first()?.span.to(words.last()?.span))
}

/// The index of the token that is the table's name at this place.
pub(super) fn at(words: &[Lexeme], place: Span) -> Option<usize> {
    // A qualified name ends with the table's.
    words
        .iter()
        .position(|word| word.span.file == place.file && word.span.end == place.end)
        .or_else(|| words.iter().position(|word| word.span.start == place.start))
}

/// The index of the token by which columns of the table at `place` are qualified.
pub(super) fn qualifier(words: &[Lexeme], place: usize) -> usize {
    let mut next = place + 1;
    let explicit = words.get(next).is_some_and(|word| word.is_word("as"));
    if explicit {
        next += 1;
    }
    let alias = words.get(next).and_then(Lexeme::name);
    match alias {
        Some(name) if explicit || !NO_ALIAS.contains(&name) && !ENDS.contains(&name) => next,
        _ => place,
    }
}

/// Adds a condition to the query, UPDATE or DELETE that names a table at `place`. `None` if rows of the table may
/// be missing from the result otherwise than by WHERE (outer joins).
pub(super) fn with_condition(words: &[Lexeme], place: usize, condition: &str) -> Option<Vec<Edit>> {
    let depths = depths(words);
    let depth = depths[place];
    let own = |at: &usize| depths[*at] == depth;
    let opened = (0..place)
        .rev()
        .find(|at| depths[*at] < depth || words[*at].is_sign(";"));
    let first = opened.map_or(0, |at| at + 1);
    let closed = (place..words.len()).find(|at| depths[*at] < depth || words[*at].is_sign(";"));
    let last = closed.unwrap_or(words.len());
    let outer = ["left", "right", "full"];
    if (first..last)
        .filter(own)
        .any(|at| outer.iter().any(|word| words[at].is_word(word)))
    {
        return None;
    }
    let filter = (place..last)
        .filter(own)
        .find(|at| words[*at].is_word("where"));
    let ends = |at: &usize| {
        let word = &words[*at];
        ENDS.iter().any(|end| word.is_word(end))
            || word.is_word("into")
            || word.is_word("on") && words.get(at + 1).is_some_and(|w| w.is_word("conflict"))
    };
    let end = (filter.unwrap_or(place) + 1..last)
        .filter(own)
        .find(ends)
        .unwrap_or(last);
    let behind = words.get(end.checked_sub(1)?)?.span;
    let Some(filter) = filter else {
        return Some(vec![Edit::insert_after(
            behind,
            format!(" WHERE {condition}"),
        )]);
    };
    let either = (filter + 1..end)
        .filter(own)
        .any(|at| words[at].is_word("or"));
    Some(match either {
        false => vec![Edit::insert_after(behind, format!(" AND {condition}"))],
        true => vec![
            Edit::insert_before(words.get(filter + 1)?.span, "("),
            Edit::insert_after(behind, format!(") AND {condition}")),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::super::edit::{applied, ordered};
    use super::*;
    use anabranch_sql::parse::lexemes;
    use anabranch_sql::source::SourceFile;

    fn demanded(text: &str) -> Option<String> {
        let file = SourceFile::new("a.sql", text);
        let whole = Span {
            file: 0,
            start: 0,
            end: text.len() as u32,
        };
        let words = lexemes(&file, whole);
        let place = words.iter().position(|word| word.is_word("t"))?;
        let edits = ordered(&with_condition(&words, place, "NOT gone")?)?;
        Some(applied(&[file], &edits)?[0].text.to_string())
    }

    #[test]
    fn a_condition_is_added_to_the_others() {
        for (before, after) in [
            ("SELECT a FROM t", "SELECT a FROM t WHERE NOT gone"),
            (
                "SELECT a FROM t WHERE b = 1 ORDER BY a",
                "SELECT a FROM t WHERE b = 1 AND NOT gone ORDER BY a",
            ),
            (
                "SELECT a FROM t WHERE b = 1 OR (c OR d) INTO x",
                "SELECT a FROM t WHERE (b = 1 OR (c OR d)) AND NOT gone INTO x",
            ),
            (
                "SELECT (SELECT a FROM t JOIN u ON b = c), d FROM v WHERE e",
                "SELECT (SELECT a FROM t JOIN u ON b = c WHERE NOT gone), d FROM v WHERE e",
            ),
            (
                "UPDATE t SET a = 1 WHERE (b OR c) RETURNING a",
                "UPDATE t SET a = 1 WHERE (b OR c) AND NOT gone RETURNING a",
            ),
        ] {
            assert_eq!(demanded(before).as_deref(), Some(after));
        }
        assert_eq!(demanded("SELECT a FROM u LEFT JOIN t ON b = c"), None);
    }

    #[test]
    fn a_table_is_named_by_its_alias() {
        for (text, name) in [
            ("FROM t WHERE", "t"),
            ("FROM t AS a", "a"),
            ("FROM t b JOIN", "b"),
        ] {
            let file = SourceFile::new("a.sql", text);
            let end = text.len() as u32;
            let words = lexemes(
                &file,
                Span {
                    file: 0,
                    start: 0,
                    end,
                },
            );
            assert_eq!(words[qualifier(&words, 1)].name(), Some(name));
        }
    }
}
