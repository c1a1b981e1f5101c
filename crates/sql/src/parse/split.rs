//! Cuts a file's tokens into statements.
//!
//! As in `psql`, a semicolon ends a statement unless brackets are open, or the statement is a `CREATE FUNCTION` or
//! `CREATE PROCEDURE` within its `BEGIN ATOMIC … END` (where CASE and END pair, too).

use sqlparser::tokenizer::Token as Kind;

use super::lexer::Token;
use crate::source::Span;

/// One statement: its tokens without the semicolon, and the place of its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatementTokens<'a> {
    pub(crate) tokens: &'a [Token],
    /// The semicolon, or the end of the text.
    pub(crate) end: Span,
    /// No semicolon ends it.
    pub(crate) open: bool,
}

/// The statements of a list of tokens; `text_end` is the place behind the last.
pub(crate) fn statements(tokens: &[Token], text_end: Span) -> Vec<StatementTokens<'_>> {
    let mut found = Vec::new();
    let mut start = 0;
    while start < tokens.len() {
        let rest = &tokens[start..];
        let length = statement_length(rest);
        let (end, open) = match rest.get(length) {
            Some(semicolon) => (semicolon.span, false),
            None => (text_end, true),
        };
        if length > 0 {
            found.push(StatementTokens {
                tokens: &rest[..length],
                end,
                open,
            });
        }
        start += length + 1;
    }
    found
}

fn statement_length(tokens: &[Token]) -> usize {
    let is_routine = is_routine(tokens);
    let (mut brackets, mut blocks) = (0_usize, 0_usize);
    for (position, token) in tokens.iter().enumerate() {
        match &token.kind {
            Kind::LParen | Kind::LBracket => brackets += 1,
            Kind::RParen | Kind::RBracket => brackets = brackets.saturating_sub(1),
            Kind::SemiColon if blocks == 0 && ends_here(brackets, &tokens[position + 1..]) => {
                return position;
            }
            Kind::Word(_) if is_routine => {
                let atomic = || {
                    tokens
                        .get(position + 1)
                        .is_some_and(|t| t.is_word("atomic"))
                };
                if token.is_word("begin") && (blocks > 0 || atomic())
                    || token.is_word("case") && blocks > 0
                {
                    blocks += 1;
                } else if token.is_word("end") {
                    blocks = blocks.saturating_sub(1);
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// Whether a semicolon ends the statement. Within brackets it does only if a bracket is never closed, which the next
/// statement's first word shows.
fn ends_here(brackets: usize, after: &[Token]) -> bool {
    brackets == 0
        || after.first().is_none_or(|token| {
            [
                "create", "alter", "drop", "comment", "grant", "set", "insert", "select",
            ]
            .iter()
            .any(|word| token.is_word(word))
        })
}

/// Whether a statement creates a procedure or a function.
pub(crate) fn is_routine(tokens: &[Token]) -> bool {
    let mut words = tokens.iter();
    if !words.next().is_some_and(|token| token.is_word("create")) {
        return false;
    }
    let mut second = words.next();
    if second.is_some_and(|token| token.is_word("or")) {
        words.next();
        second = words.next();
    }
    second.is_some_and(|token| token.is_word("function") || token.is_word("procedure"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::lexer::{Places, Text, lex};

    fn split(text: &str) -> Vec<String> {
        let (tokens, _) = lex(Text {
            file: 0,
            text,
            places: Places::From(0),
        });
        let end = Span {
            file: 0,
            start: text.len() as u32,
            end: text.len() as u32,
        };
        statements(&tokens, end)
            .iter()
            .map(|statement| {
                let first = statement.tokens[0].span.start as usize;
                let last = statement.tokens[statement.tokens.len() - 1].span.end as usize;
                text[first..last].to_owned()
            })
            .collect()
    }

    #[test]
    fn semicolons_end_statements_outside_of_strings_and_bodies() {
        let body = "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN a THEN 1 END; \
                    SELECT 2; END";
        let text = format!("SELECT ';'; -- ;\n;; {body}; BEGIN; COMMIT");
        assert_eq!(split(&text), ["SELECT ';'", body, "BEGIN", "COMMIT"]);
    }

    #[test]
    fn a_bracket_left_open_does_not_swallow_the_file() {
        assert_eq!(
            split("CREATE TABLE t (a int; CREATE TABLE u (b int);"),
            ["CREATE TABLE t (a int", "CREATE TABLE u (b int)"]
        );
    }
}
