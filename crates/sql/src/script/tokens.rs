//! A statement's tokens with their positions, and a writer of translations.

use super::scan::{Part, parts};
use crate::source::Translated;

/// A token with its range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'t> {
    pub(super) part: Part<'t>,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl<'t> Token<'t> {
    /// Whether it is this word, unquoted, in any case.
    pub(super) fn is(&self, word: &str) -> bool {
        matches!(self.part, Part::Word(found) if found.eq_ignore_ascii_case(word))
    }

    pub(super) fn is_sign(&self, sign: char) -> bool {
        self.part == Part::Sign(sign)
    }

    /// Its name, if it is a word or a quoted name.
    pub(super) fn name(&self) -> Option<String> {
        match self.part {
            Part::Word(word) => Some(word.to_ascii_lowercase()),
            Part::Quoted(text) if text.starts_with('"') && text.len() > 2 => {
                Some(text[1..text.len() - 1].to_owned())
            }
            _ => None,
        }
    }
}

/// The tokens of a text, without white space and comments.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let all: Vec<(usize, Part<'_>)> = parts(text).collect();
    let mut found = Vec::new();
    for (at, (start, part)) in all.iter().enumerate() {
        let end = all.get(at + 1).map_or(text.len(), |(next, _)| *next);
        if !matches!(part, Part::Blank(_)) {
            found.push(Token {
                part: *part,
                start: *start,
                end,
            });
        }
    }
    found
}

/// The position of the bracket that closes the one at `open`.
pub(super) fn closing(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.is_sign('(') {
            depth += 1;
        } else if token.is_sign(')') {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return Some(at);
            }
        }
    }
    None
}

/// Splits tokens at the commas outside of brackets.
pub(super) fn listed<'a, 't>(tokens: &'a [Token<'t>]) -> Vec<&'a [Token<'t>]> {
    let mut depth = 0_usize;
    let mut stretches = Vec::new();
    let mut start = 0;
    for (at, token) in tokens.iter().enumerate() {
        if token.is_sign('(') {
            depth += 1;
        } else if token.is_sign(')') {
            depth = depth.saturating_sub(1);
        } else if token.is_sign(',') && depth == 0 {
            stretches.push(&tokens[start..at]);
            start = at + 1;
        }
    }
    stretches.push(&tokens[start..]);
    stretches
}

/// Whether the tokens begin with these words.
pub(super) fn begin(tokens: &[Token<'_>], words: &[&str]) -> bool {
    words.len() <= tokens.len() && words.iter().zip(tokens).all(|(word, token)| token.is(word))
}

/// Writes the translation of a text.
pub(super) struct Writer<'t> {
    pub(super) text: &'t str,
    /// The position of the text in its file.
    pub(super) base: usize,
    pub(super) out: Translated,
}

impl<'t> Writer<'t> {
    pub(super) fn new(text: &'t str, base: usize) -> Writer<'t> {
        Writer {
            text,
            base,
            out: Translated::default(),
        }
    }

    /// Copies these tokens, with the text between them.
    pub(super) fn copy(&mut self, tokens: &[Token<'_>]) {
        if let (Some(first), Some(last)) = (tokens.first(), tokens.last()) {
            let text = &self.text[first.start..last.end];
            self.out.copy(text, self.base + first.start);
            self.out.write(" ", self.base + last.end);
        }
    }

    /// Copies the token at a position, with the text up to the next.
    pub(super) fn copy_one(&mut self, tokens: &[Token<'_>], at: usize) {
        let token = &tokens[at];
        let end = tokens.get(at + 1).map_or(token.end, |next| next.start);
        let text = &self.text[token.start..end];
        self.out.copy(text, self.base + token.start);
    }

    /// Writes text in the place of a token.
    pub(super) fn write(&mut self, text: &str, at: usize) {
        self.out.write(text, self.base + at);
    }
}

/// The position after `IF [NOT] EXISTS`.
pub(super) fn after_if(all: &[Token<'_>], at: usize) -> usize {
    let rest = all.get(at..).unwrap_or_default();
    match (
        begin(rest, &["if", "not", "exists"]),
        begin(rest, &["if", "exists"]),
    ) {
        (true, _) => at + 3,
        (_, true) => at + 2,
        _ => at,
    }
}

/// The position of the table's name in an ALTER TABLE.
pub(super) fn altered(all: &[Token<'_>]) -> Option<usize> {
    let at = after_if(all, 2);
    begin(all, &["alter", "table"]).then_some(at + usize::from(all.get(at)?.is("only")))
}

/// The name at a position, without its schema, and the position after it.
pub(super) fn name_of(all: &[Token<'_>], at: usize) -> Option<(String, usize)> {
    let name = all.get(at)?.name()?;
    match all.get(at + 1).is_some_and(|t| t.is_sign('.')) {
        true => Some((all.get(at + 2)?.name()?, at + 3)),
        false => Some((name, at + 1)),
    }
}

/// The name in double quotes.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}
