//! Regular expressions: PostgreSQL's advanced ones, in terms of the `regex` crate.
//!
//! Both write most of a pattern alike. Translated are what differ: `.` and `[^a]` match a line's end too, `^` and `$`
//! stand for the text's ends, the escapes `\y`, `\Y`, `\m`, `\M`, `\A`, `\Z`, and what the crate alone gives a meaning
//! inside brackets. Refused are back references and lookaround, which no search in linear time has, and the directors
//! `***` and `(?xyz)` of PostgreSQL.

mod tree;

use std::sync::Arc;

use anabranch_types::{EffectError, Value};
use regex::{Regex, RegexBuilder};

use super::{Expression, Failure, failure};

pub(crate) use tree::{Match, Searcher};

/// The bytes that a compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A pattern, compiled beforehand if it is a constant.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    insensitive: bool,
    compiled: Option<Arc<Regex>>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        let text = |of: &Pattern| of.compiled.as_ref().map(|regex| regex.as_str().to_owned());
        self.insensitive == other.insensitive && text(self) == text(other)
    }
}

impl Pattern {
    /// The pattern of an expression.
    ///
    /// # Errors
    /// If it is a constant and no valid pattern.
    pub(crate) fn new(pattern: &Expression, insensitive: bool) -> Result<Pattern, Failure> {
        let compiled = match pattern {
            Expression::Constant(Value::Text(text)) => Some(Arc::new(compile(text, insensitive)?)),
            _ => None,
        };
        Ok(Pattern {
            insensitive,
            compiled,
        })
    }

    /// Whether a text has a match; `pattern` is the pattern's value.
    pub(crate) fn matches(&self, text: &str, pattern: &str) -> Result<bool, Failure> {
        match &self.compiled {
            Some(regex) => Ok(regex.is_match(text)),
            None => Ok(compile(pattern, self.insensitive)?.is_match(text)),
        }
    }
}

fn compile(pattern: &str, insensitive: bool) -> Result<Regex, Failure> {
    let translated = translate(pattern)?;
    tree::check(pattern)?;
    RegexBuilder::new(&translated)
        .case_insensitive(insensitive)
        .dot_matches_new_line(true)
        .size_limit(COMPILED_BYTES_MAX)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => failure(
                "2201B",
                "invalid regular expression: regular expression is too complex",
            ),
            _ => invalid("it cannot be read"),
        })
}

fn invalid(what: &str) -> Failure {
    failure("2201B", format!("invalid regular expression: {what}"))
}

fn unsupported(what: &str) -> Failure {
    let message = format!("{what} in a regular expression is not supported");
    Box::new(EffectError::new("0A000", message))
}

/// The pattern in the crate's syntax.
fn translate(pattern: &str) -> Result<String, Failure> {
    if pattern.starts_with("***") {
        return Err(unsupported("a director (***)"));
    }
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern.chars().peekable();
    // Whether something is there that a quantifier can repeat.
    while let Some(c) = rest.next() {
        match c {
            '\\' => escape(&mut rest, &mut out)?,
            '[' => brackets(&mut rest, &mut out)?,
            '(' if rest.peek() == Some(&'?') => {
                rest.next();
                match rest.next() {
                    Some(':') => out.push_str("(?:"),
                    Some('=' | '!' | '<') => return Err(unsupported("lookaround")),
                    _ => return Err(unsupported("embedded options")),
                }
            }
            // Only before a number does a brace begin a bound.
            '{' if !rest.peek().is_some_and(char::is_ascii_digit) => out.push_str("\\{"),
            '{' => {
                out.push('{');
                for c in rest.by_ref() {
                    out.push(c);
                    if c == '}' {
                        break;
                    }
                }
            }
            '}' => out.push_str("\\}"),
            ']' => out.push_str("\\]"),
            // The crate's `$` and `^` are the text's ends as well, as no other mode is asked for.
            other => out.push(other),
        }
    }
    Ok(out)
}

/// What is left of a pattern.
type Rest<'p> = std::iter::Peekable<std::str::Chars<'p>>;

/// What follows a backslash outside brackets.
fn escape(rest: &mut Rest<'_>, out: &mut String) -> Result<(), Failure> {
    let Some(c) = rest.next() else {
        return Err(invalid("invalid escape \\ sequence"));
    };
    match c {
        'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'A' | 'a' | 'f' | 'n' | 'r' | 't' | 'v' => {
            out.push('\\');
            out.push(c);
        }
        'Z' => out.push_str("\\z"),
        'y' => out.push_str("\\b"),
        'Y' => out.push_str("\\B"),
        'm' => out.push_str("\\b{start}"),
        'M' => out.push_str("\\b{end}"),
        'b' => out.push_str("\\x08"),
        'B' => out.push_str("\\\\"),
        '1'..='9' => return Err(unsupported("a back reference")),
        '0' | 'c' | 'e' | 'u' | 'U' | 'x' => return Err(unsupported("a character by its number")),
        c if c.is_ascii_alphanumeric() => return Err(invalid("invalid escape \\ sequence")),
        c => push_literal(c, out),
    }
    Ok(())
}

/// A character that stands for itself.
fn push_literal(c: char, out: &mut String) {
    if c.is_ascii_punctuation() {
        out.push('\\');
    }
    out.push(c);
}

/// What follows an opening bracket.
fn brackets(rest: &mut Rest<'_>, out: &mut String) -> Result<(), Failure> {
    let unbalanced = || invalid("brackets [] not balanced");
    out.push('[');
    if rest.peek() == Some(&'^') {
        rest.next();
        out.push('^');
    }
    let mut is_first = true;
    loop {
        let c = rest.next().ok_or_else(unbalanced)?;
        match c {
            ']' if !is_first => break,
            '[' => match rest.peek() {
                Some(':') => {
                    let mut name = String::new();
                    rest.next();
                    loop {
                        match rest.next().ok_or_else(unbalanced)? {
                            ':' if rest.peek() == Some(&']') => break,
                            c => name.push(c),
                        }
                    }
                    rest.next();
                    let known = [
                        "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print",
                        "punct", "space", "upper", "xdigit",
                    ];
                    if !known.contains(&name.as_str()) {
                        return Err(invalid("invalid character class"));
                    }
                    match name.as_str() {
                        // The crate's named classes are of ASCII alone.
                        "alpha" => out.push_str("\\p{Alphabetic}"),
                        "alnum" => out.push_str("\\p{Alphabetic}\\p{Nd}"),
                        "digit" => out.push_str("\\d"),
                        "lower" => out.push_str("\\p{Lowercase}"),
                        "space" => out.push_str("\\s"),
                        "upper" => out.push_str("\\p{Uppercase}"),
                        other => out.push_str(&format!("[:{other}:]")),
                    }
                }
                Some('.' | '=') => return Err(unsupported("a collating element")),
                _ => out.push_str("\\["),
            },
            '\\' => match rest.next().ok_or_else(unbalanced)? {
                c @ ('d' | 's' | 'w' | 'a' | 'f' | 'n' | 'r' | 't' | 'v') => {
                    out.push('\\');
                    out.push(c);
                }
                'b' => out.push_str("\\x08"),
                'B' => out.push_str("\\\\"),
                c if c.is_ascii_alphanumeric() => {
                    return Err(unsupported("this escape in brackets"));
                }
                c => push_literal(c, out),
            },
            // A range's dash keeps its meaning; at either end it is itself.
            '-' if is_first || rest.peek() == Some(&']') => out.push_str("\\-"),
            '-' => out.push('-'),
            c => push_literal(c, out),
        }
        is_first = false;
    }
    out.push(']');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(text: &str, pattern: &str) -> bool {
        compile(pattern, false).unwrap().is_match(text)
    }

    #[test]
    fn a_pattern_matches_what_postgresql_matches() {
        for (text, pattern, expected) in [
            ("orders", "^(orders)$", true),
            ("orders2", "^(orders)$", false),
            ("pg_toast_1", "^pg_toast", true),
            ("a\nb", "a.b", true),
            ("a\nb", "^b", false),
            ("a\nb", "a$", false),
            ("a{b", "a{b", true),
            ("aaa", "^a{2,3}$", true),
            ("a b", "\\mb\\M", true),
            ("ab", "\\mb", false),
            ("x-y", "[a-]", true),
            ("x&&y", "[&]{2}", true),
            ("[", "[[]", true),
            ("]", "[]]", true),
            ("^", "[a^]", true),
            ("é", "^[[:alpha:]]$", true),
            ("5", "^[^[:alpha:]]$", true),
            ("a.b", "a\\.b", true),
            ("axb", "a\\.b", false),
            ("ab", "(?:a)(b)", true),
            ("", "", true),
        ] {
            assert_eq!(matches(text, pattern), expected, "{text:?} ~ {pattern:?}");
        }
    }

    #[test]
    fn what_has_no_counterpart_is_refused() {
        let code = |pattern: &str| compile(pattern, false).unwrap_err().code;
        for pattern in [
            "(a)\\1", "(?=a)", "(?<!a)b", "***=a", "(?i)a", "\\x41", "[[.a.]]",
        ] {
            assert_eq!(code(pattern), "0A000", "{pattern}");
        }
        for pattern in [
            "(",
            "[a",
            "a{2",
            "*a(",
            "a\\",
            "[[:nothing:]]",
            "a{9999}{9999}",
        ] {
            assert_eq!(code(pattern), "2201B", "{pattern}");
        }
    }
}
