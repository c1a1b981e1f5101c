//! Placeholders as clients write them, turned into parameters of a procedure.
//!
//! `$1`, `?`, `?1`, `:name`, `@name`, `sqlc.arg(name)` and `sqlc.narg(name)`. Positions count within one statement: the
//! `$1` of the next statement is another parameter. Names are the same throughout the transaction.

use super::scan::{Part, parts};

/// A statement's text with its placeholders replaced.
#[derive(Clone, Debug, Default)]
pub(super) struct Rewritten {
    /// With `$n` in the place of each, counted over the whole transaction.
    pub(super) text: String,
    /// The position in the file of each byte of `text`, and of its end.
    pub(super) places: Vec<u32>,
}

/// The parameters of one transaction, in order of appearance.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameters {
    /// Their names, each as it is spelt.
    pub(super) names: Vec<String>,
    /// The number of bare `?` so far.
    bare: usize,
}

impl Parameters {
    fn number(&mut self, name: String) -> usize {
        let known = self.names.iter().position(|n| *n == name);
        known.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        })
    }
}

/// A placeholder as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placeholder<'t> {
    /// `$1`: the digits.
    Dollar(&'t str),
    /// `?`, or the digits of `?1`.
    Question(Option<&'t str>),
    /// `:name`, with the sign; `sqlc.arg(name)` is `@name`.
    Named(char, &'t str),
}

/// Replaces the placeholders of a statement by `$n`. `base` is the position of its first byte in the file;
/// `of_several` is its number in the transaction, if that has more than one.
pub(super) fn rewrite(
    text: &str,
    base: usize,
    of_several: Option<usize>,
    parameters: &mut Parameters,
) -> Rewritten {
    let numbered = |n: String| match of_several {
        Some(statement) => format!("{n} of {statement}"),
        None => n,
    };
    let place = |at: usize| u32::try_from(base + at).unwrap_or(u32::MAX);
    let (text, places) = substitute(text, place, |placeholder| {
        let name = match placeholder {
            Placeholder::Dollar(n) => numbered(format!("${n}")),
            Placeholder::Question(Some(n)) => numbered(format!("?{n}")),
            Placeholder::Question(None) => {
                parameters.bare += 1;
                format!("?{}", parameters.bare)
            }
            Placeholder::Named(sign, name) => format!("{sign}{name}"),
        };
        format!("${}", parameters.number(name) + 1)
    });
    Rewritten { text, places }
}

/// Replaces each placeholder by the text from `value`, such as `$1`, and MySQL's backticks by double quotes. Returns the
/// new text with the position of each of its bytes, and of its end; `place` gives the position of a byte of `text`.
pub fn substitute(
    text: &str,
    place: impl Fn(usize) -> u32,
    mut value: impl FnMut(Placeholder<'_>) -> String,
) -> (String, Vec<u32>) {
    let parts: Vec<(usize, Part<'_>)> = parts(text).collect();
    let mut out = Rewritten::default();
    let mut at = 0;
    let mut indexing = 0_usize;
    while at < parts.len() {
        let (start, part) = parts[at];
        let next = |ahead: usize| parts.get(at + ahead).map(|(_, part)| *part);
        let before = match at {
            0 => None,
            _ => Some(parts[at - 1].1),
        };
        let word = |ahead: usize| match next(ahead) {
            Some(Part::Word(word)) => Some(word),
            _ => None,
        };
        let digits = word(1).filter(|w| w.bytes().all(|b| b.is_ascii_digit()));
        let name = word(1).filter(|w| !w.starts_with(|c: char| c.is_ascii_digit()));
        let found: Option<(Placeholder<'_>, usize)> = match part {
            Part::Sign('[') => {
                indexing += 1;
                None
            }
            Part::Sign(']') => {
                indexing = indexing.saturating_sub(1);
                None
            }
            Part::Sign('$') => digits.map(|n| (Placeholder::Dollar(n), 2)),
            Part::Sign('?') if !is_operand(&parts[..at]) => Some((
                Placeholder::Question(digits),
                1 + usize::from(digits.is_some()),
            )),
            Part::Sign(':') if indexing == 0 && !matches!(before, Some(Part::Sign(':'))) => {
                name.map(|n| (Placeholder::Named(':', n), 2))
            }
            Part::Sign('@') if !matches!(before, Some(Part::Sign('@' | '<' | '|' | '!' | '~'))) => {
                name.map(|n| (Placeholder::Named('@', n), 2))
            }
            Part::Word("sqlc") if next(1) == Some(Part::Sign('.')) => {
                let named = matches!(word(2), Some("arg" | "narg"))
                    && next(3) == Some(Part::Sign('('))
                    && next(5) == Some(Part::Sign(')'));
                match next(4) {
                    Some(Part::Word(n)) if named => Some((Placeholder::Named('@', n), 6)),
                    Some(Part::Quoted(n)) if named => {
                        Some((Placeholder::Named('@', n.trim_matches(['\'', '"'])), 6))
                    }
                    _ => None,
                }
            }
            _ => None,
        };
        if let Some((placeholder, length)) = found {
            push(&mut out, &value(placeholder), |_| place(start));
            at += length;
            continue;
        }
        let end = parts.get(at + 1).map_or(text.len(), |(next, _)| *next);
        let source = &text[start..end];
        match part {
            // MySQL's backticks.
            Part::Quoted(name) if name.starts_with('`') && name.len() > 1 => {
                let name = format!("\"{}\"", &name[1..name.len() - 1]);
                push(&mut out, &name, |offset| place(start + offset));
            }
            _ => push(&mut out, source, |offset| place(start + offset)),
        }
        at += 1;
    }
    out.places.push(place(text.len()));
    (out.text, out.places)
}

fn push(out: &mut Rewritten, text: &str, place: impl Fn(usize) -> u32) {
    out.text.push_str(text);
    out.places.extend((0..text.len()).map(place));
}

/// Whether a value ends here, so that a `?` after it is PostgreSQL's operator on jsonb.
fn is_operand(before: &[(usize, Part<'_>)]) -> bool {
    const KEYWORDS: [&str; 24] = [
        "values", "limit", "offset", "like", "ilike", "in", "and", "or", "not", "between", "set",
        "where", "select", "then", "else", "when", "case", "return", "any", "all", "on", "having",
        "is", "by",
    ];
    let mut significant = before.iter().rev().map(|(_, part)| part);
    match significant.find(|part| !matches!(part, Part::Blank(_))) {
        Some(Part::Word(word)) => !KEYWORDS.contains(&word.to_lowercase().as_str()),
        Some(Part::Quoted(_)) => true,
        Some(Part::Sign(c)) => matches!(c, ')' | ']' | '?'),
        _ => false,
    }
}
