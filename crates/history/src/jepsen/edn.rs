//! A parser for the part of EDN (Clojure's data notation) that Jepsen writes.
//!
//! It covers nil, booleans, numbers, strings, characters, keywords, symbols, lists, vectors, maps, sets, tagged
//! values and comments. Errors name the line. Numbers are kept as text, since they only name things.

use std::fmt;

use crate::error::{HistoryError, Problem};

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Edn {
    Nil,
    /// A number, a boolean, a character or a symbol, as written.
    Atom(String),
    Keyword(String),
    Text(String),
    /// A list, a vector or a set.
    Sequence(Vec<Edn>),
    Map(Vec<(Edn, Edn)>),
}

impl Edn {
    /// The value of a keyword in a map.
    pub(super) fn get(&self, key: &str) -> Option<&Edn> {
        let Edn::Map(entries) = self else { return None };
        let is_it = |(name, _): &&(Edn, Edn)| matches!(name, Edn::Keyword(name) if name == key);
        entries.iter().find(is_it).map(|(_, value)| value)
    }

    pub(super) fn keyword(&self) -> Option<&str> {
        match self {
            Edn::Keyword(name) => Some(name),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Option<u64> {
        match self {
            Edn::Atom(text) => text.trim_end_matches('N').parse().ok(),
            _ => None,
        }
    }
}

impl fmt::Display for Edn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Edn::Nil => f.write_str("nil"),
            Edn::Atom(text) => f.write_str(text),
            Edn::Keyword(name) => write!(f, ":{name}"),
            Edn::Text(text) => write!(f, "{text:?}"),
            Edn::Sequence(values) => {
                let values: Vec<String> = values.iter().map(Edn::to_string).collect();
                write!(f, "[{}]", values.join(" "))
            }
            Edn::Map(entries) => {
                let entries: Vec<String> = entries
                    .iter()
                    .map(|(key, value)| format!("{key} {value}"))
                    .collect();
                write!(f, "{{{}}}", entries.join(", "))
            }
        }
    }
}

/// The deepest nesting of values.
const DEPTH_MAX: u32 = 64;

/// Reads a sequence of values.
pub(super) struct EdnReader<'t> {
    text: &'t str,
    at: usize,
    line: u64,
}

impl<'t> EdnReader<'t> {
    pub(super) fn new(text: &'t str) -> EdnReader<'t> {
        EdnReader {
            text,
            at: 0,
            line: 1,
        }
    }

    /// The line on which the next value begins.
    pub(super) fn line(&mut self) -> u64 {
        self.skip();
        self.line
    }

    /// Whether the input is exhausted.
    pub(super) fn is_at_end(&mut self) -> bool {
        self.skip();
        self.at == self.text.len()
    }

    /// Consumes this character if it is next. Returns whether it was.
    pub(super) fn take(&mut self, character: char) -> bool {
        self.skip();
        let is_it = self.peek() == Some(character);
        if is_it {
            self.advance();
        }
        is_it
    }

    /// The next value.
    pub(super) fn value(&mut self) -> Result<Edn, HistoryError> {
        self.nested(DEPTH_MAX)
    }

    fn nested(&mut self, depth: u32) -> Result<Edn, HistoryError> {
        self.skip();
        let Some(depth) = depth.checked_sub(1) else {
            return Err(self.invalid("values are nested too deeply"));
        };
        match self.peek() {
            None => Err(self.cut_short()),
            Some('"') => self.text_value(),
            Some('(') => self.sequence(')', depth),
            Some('[') => self.sequence(']', depth),
            Some('{') => self.map(depth),
            Some('#') => self.dispatched(depth),
            Some(':') => {
                self.advance();
                match self.token() {
                    "" if self.peek().is_none() => Err(self.cut_short()),
                    "" => Err(self.invalid("a keyword without a name")),
                    name => Ok(Edn::Keyword(name.to_string())),
                }
            }
            Some('\\') => {
                let start = self.at;
                self.advance();
                self.advance();
                self.token();
                Ok(Edn::Atom(self.text[start..self.at].to_string()))
            }
            Some(_) => match self.token() {
                "" => Err(self.invalid("a closing bracket that nothing has opened")),
                "nil" => Ok(Edn::Nil),
                token => Ok(Edn::Atom(token.to_string())),
            },
        }
    }

    /// A set, or a tagged value; the tag is ignored.
    fn dispatched(&mut self, depth: u32) -> Result<Edn, HistoryError> {
        self.advance();
        if self.peek() == Some('{') {
            return self.sequence('}', depth);
        }
        self.token();
        self.nested(depth)
    }

    fn sequence(&mut self, end: char, depth: u32) -> Result<Edn, HistoryError> {
        self.advance();
        let mut values = Vec::new();
        while !self.take(end) {
            values.push(self.nested(depth)?);
        }
        Ok(Edn::Sequence(values))
    }

    fn map(&mut self, depth: u32) -> Result<Edn, HistoryError> {
        self.advance();
        let mut entries = Vec::new();
        while !self.take('}') {
            let key = self.nested(depth)?;
            self.skip();
            if self.peek() == Some('}') {
                return Err(self.invalid("a map has a key without a value"));
            }
            entries.push((key, self.nested(depth)?));
        }
        Ok(Edn::Map(entries))
    }

    fn text_value(&mut self) -> Result<Edn, HistoryError> {
        self.advance();
        let mut text = String::new();
        loop {
            match self.advance() {
                None => return Err(self.cut_short()),
                Some('"') => return Ok(Edn::Text(text)),
                Some('\\') => match self.advance() {
                    None => return Err(self.cut_short()),
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some(other) => text.push(other),
                },
                Some(other) => text.push(other),
            }
        }
    }

    fn token(&mut self) -> &'t str {
        let start = self.at;
        while let Some(character) = self.peek() {
            if character.is_whitespace() || ",;\"()[]{}".contains(character) {
                break;
            }
            self.advance();
        }
        &self.text[start..self.at]
    }

    /// Skips blanks, commas, comments and discarded values.
    fn skip(&mut self) {
        loop {
            match self.peek() {
                Some(';') => while self.advance().is_some_and(|character| character != '\n') {},
                Some('#') if self.text[self.at..].starts_with("#_") => {
                    self.at += 2;
                    // An error in it shows where it ends.
                    if self.nested(DEPTH_MAX).is_err() {
                        return;
                    }
                }
                Some(character) if character.is_whitespace() || character == ',' => {
                    self.advance();
                }
                _ => return,
            }
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn advance(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.at += character.len_utf8();
        self.line += u64::from(character == '\n');
        Some(character)
    }

    fn invalid(&self, what: &str) -> HistoryError {
        HistoryError {
            line: self.line,
            problem: Problem::Invalid(what.to_string()),
        }
    }

    fn cut_short(&self) -> HistoryError {
        HistoryError {
            line: self.line,
            problem: Problem::TruncatedValue,
        }
    }
}
