//! Cuts a file of any SQL dialect into pieces. It looks at strings, comments, brackets and semicolons only, so that a
//! statement that cannot be parsed does not take its neighbours with it.

use std::ops::Range;

/// One piece of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    /// A statement without its semicolon; `lead` is the comments and white space before it.
    Statement {
        lead: Range<usize>,
        range: Range<usize>,
    },
    /// `name:` on its own before a statement.
    Label { name: String, at: usize },
    /// `name {`.
    Open { name: String, at: usize },
    /// `}`.
    Close,
}

/// The pieces of a text, in order.
pub(super) fn pieces(text: &str) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut position = 0;
    while position < text.len() {
        let start = after_blank(text, position);
        let rest = &text[start..];
        if rest.is_empty() {
            break;
        }
        if rest.starts_with([';', '}']) {
            if rest.starts_with('}') {
                found.push(Piece::Close);
            }
            position = start + 1;
            continue;
        }
        if let Some((name, length, opens)) = heading(rest) {
            let (name, at) = (name.to_owned(), start);
            found.push(match opens {
                true => Piece::Open { name, at },
                false => Piece::Label { name, at },
            });
            position = start + length;
            continue;
        }
        let end = statement_end(text, start);
        let range = start..start + text[start..end].trim_end().len();
        found.push(Piece::Statement {
            lead: position..start,
            range,
        });
        position = end + usize::from(text[end..].starts_with(';'));
    }
    found
}

/// The position after white space and comments.
pub(super) fn after_blank(text: &str, mut position: usize) -> usize {
    loop {
        let rest = &text[position..];
        let blank = rest.len() - rest.trim_start().len();
        if blank > 0 {
            position += blank;
        } else if let Some(length) = comment(rest) {
            position += length;
        } else {
            return position;
        }
    }
}

/// The length of the comment that a text begins with.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("--") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let (mut depth, mut position) = (0, 0);
    while position < text.len() {
        let rest = &text[position..];
        if rest.starts_with("/*") {
            (depth, position) = (depth + 1, position + 2);
        } else if rest.starts_with("*/") {
            (depth, position) = (depth - 1, position + 2);
            if depth == 0 {
                return Some(position);
            }
        } else {
            position += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    Some(text.len())
}

/// The length of the quoted stretch that a text begins with: a string, a quoted name, a dollar-quoted
/// string.
fn quoted(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    match first {
        '\'' | '"' | '`' => {
            let mut position = 1;
            while let Some(offset) = text[position..].find(first) {
                position += offset + 1;
                if !text[position..].starts_with(first) {
                    return Some(position);
                }
                position += 1;
            }
            Some(text.len())
        }
        '$' => {
            let tag = 1 + text[1..].find(|c: char| !is_word(c))?;
            let starts_a_tag = !text[1..].starts_with(|c: char| c.is_ascii_digit());
            if !text[tag..].starts_with('$') || !starts_a_tag {
                return None;
            }
            let mark = &text[..=tag];
            let end = text[mark.len()..].find(mark);
            Some(end.map_or(text.len(), |end| end + 2 * mark.len()))
        }
        _ => None,
    }
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A part of a statement's text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Part<'t> {
    /// A comment, or white space.
    Blank(&'t str),
    /// A quoted stretch.
    Quoted(&'t str),
    /// A name, a keyword or a number.
    Word(&'t str),
    /// Any other character.
    Sign(char),
}

/// The parts of a text with their positions.
pub(super) fn parts(text: &str) -> impl Iterator<Item = (usize, Part<'_>)> {
    let mut position = 0;
    std::iter::from_fn(move || {
        let rest = &text[position..];
        let first = rest.chars().next()?;
        let start = position;
        let part = if let Some(length) = comment(rest) {
            Part::Blank(&rest[..length])
        } else if first.is_whitespace() {
            Part::Blank(&rest[..rest.len() - rest.trim_start().len()])
        } else if let Some(length) = quoted(rest) {
            Part::Quoted(&rest[..length])
        } else if is_word(first) {
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            Part::Word(&rest[..length])
        } else {
            Part::Sign(first)
        };
        position += match part {
            Part::Blank(text) | Part::Quoted(text) | Part::Word(text) => text.len(),
            Part::Sign(c) => c.len_utf8(),
        };
        Some((start, part))
    })
}

/// The words of a text in lower case, and quoted names without their quotes; no strings.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    parts(text).filter_map(|(_, part)| match part {
        Part::Word(word) => Some(word.to_lowercase()),
        Part::Quoted(text) if text.starts_with(['"', '`']) && text.len() > 1 => {
            Some(text[1..text.len() - 1].to_owned())
        }
        _ => None,
    })
}

/// Whether one of these is among the first `count` words of a text.
pub(super) fn starts_among(text: &str, count: usize, wanted: &[&str]) -> bool {
    words(text)
        .take(count)
        .any(|word| wanted.contains(&word.as_str()))
}

/// `name {`, `name(…) {` or `name:` at the beginning of a text: the name, the length, and whether a group
/// opens.
fn heading(text: &str) -> Option<(&str, usize, bool)> {
    let length = text.find(|c| !is_word(c))?;
    let name = &text[..length];
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let rest = &text[length..];
    if rest.starts_with(':') && !rest.starts_with("::") && !rest.starts_with(":=") {
        return Some((name, length + 1, false));
    }
    let mut after = after_blank(text, length);
    if text[after..].starts_with('(') {
        after = after_blank(text, after + text[after..].find(')')? + 1);
    }
    text[after..]
        .starts_with('{')
        .then_some((name, after + 1, true))
}

/// The end of the statement at `start`: its semicolon, the end of the group around it, or the end of
/// the text.
fn statement_end(text: &str, start: usize) -> usize {
    let routine = {
        let head = &text[start..start + boundary(&text[start..], 200)];
        let first: Vec<String> = words(head).take(4).collect();
        let is = |at: usize, word: &str| first.get(at).is_some_and(|w| w == word);
        is(0, "create")
            && first[1..]
                .iter()
                .any(|w| w == "function" || w == "procedure" || w == "trigger")
    };
    let (mut brackets, mut blocks) = (0_usize, 0_usize);
    let mut word_before = String::new();
    for (position, part) in parts(&text[start..]) {
        match part {
            Part::Sign('(' | '[') => brackets += 1,
            Part::Sign(')' | ']') => brackets = brackets.saturating_sub(1),
            Part::Sign(';') if brackets == 0 && blocks == 0 => return start + position,
            Part::Sign('}') if brackets == 0 && blocks == 0 => return start + position,
            // A bracket that is never closed: the next statement's first word shows it.
            Part::Sign(';') if blocks == 0 && begins_another(&text[start + position + 1..]) => {
                return start + position;
            }
            Part::Word(word) if routine => {
                let word = word.to_lowercase();
                match word.as_str() {
                    "atomic" if word_before == "begin" => blocks += 1,
                    "begin" | "case" if blocks > 0 => blocks += 1,
                    "end" => blocks = blocks.saturating_sub(1),
                    _ => {}
                }
                word_before = word;
            }
            _ => {}
        }
    }
    text.len()
}

/// The last character boundary up to `at`.
pub(super) fn boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn begins_another(text: &str) -> bool {
    const FIRST: [&str; 12] = [
        "create", "alter", "drop", "comment", "grant", "set", "insert", "select", "update",
        "delete", "begin", "commit",
    ];
    let rest = &text[after_blank(text, 0)..];
    let first = words(&rest[..boundary(rest, 40)]).next();
    first.is_some_and(|word| FIRST.contains(&word.as_str()))
}
