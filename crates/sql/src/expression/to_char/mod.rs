//! `to_char()`, `to_date()` and `to_timestamp()`: numbers and moments by a template (PostgreSQL's manual, 9.8).
//!
//! Follows `formatting.c` in the order of its steps, because the details of its output follow from them. The locale is
//! "C": English names, `.` and `,`, no currency symbol.

mod input;
mod moment;
mod number;

pub(crate) use input::moment_of;
pub(crate) use moment::{Moment, of_moment};
pub(crate) use number::{Digits, of_number};

use super::{Failure, failure};

/// A part of a template: a keyword of the list, or a character that is copied. Input tells those between double quotes
/// apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part<K> {
    Keyword(K),
    Copied(char),
    Quoted(char),
}

/// Cuts a template into parts. `keyword` takes a keyword from the beginning of a text, and gives what is left.
fn parts<K>(
    template: &str,
    mut keyword: impl FnMut(&str) -> Result<Option<(K, &str)>, Failure>,
) -> Result<Vec<Part<K>>, Failure> {
    let mut parts = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        if let Some((found, left)) = keyword(rest)? {
            parts.push(Part::Keyword(found));
            rest = left;
            continue;
        }
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut characters = quoted.chars();
            while let Some(c) = characters.next() {
                match c {
                    '"' => break,
                    // A backslash quotes the next character, if there is one.
                    '\\' => parts.push(Part::Quoted(characters.next().unwrap_or('\\'))),
                    c => parts.push(Part::Quoted(c)),
                }
            }
            rest = characters.as_str();
            continue;
        }
        // Elsewhere it quotes a double quote alone.
        let plain = match rest.starts_with("\\\"") {
            true => &rest[1..],
            false => rest,
        };
        let mut characters = plain.chars();
        parts.extend(characters.next().map(Part::Copied));
        rest = characters.as_str();
    }
    Ok(parts)
}

/// The ending of an ordinal number: `st`, `nd`, `rd`, `th`.
fn ordinal(number: &str) -> &'static str {
    let digits = number.as_bytes();
    let is_teen = digits.len() > 1 && digits[digits.len() - 2] == b'1';
    match digits.last() {
        _ if is_teen => "th",
        Some(b'1') => "st",
        Some(b'2') => "nd",
        Some(b'3') => "rd",
        _ => "th",
    }
}

fn unsupported(what: &str) -> Failure {
    failure(
        "0A000",
        format!("{what} in a template of to_char is not supported"),
    )
}
