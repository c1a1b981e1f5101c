//! Better places for errors of `sqlparser`.
//!
//! It tries one alternative after another and reports the error of the last, often at the start of what it could have
//! parsed; and it accepts reserved words as names. So after an error the tokens are examined again: the error is
//! placed at a subquery that is invalid by itself, or at a clause that begins where a table's name should be.

use sqlparser::tokenizer::Token as Kind;

use super::{cursor::Cursor, lexer::Token};
use crate::diagnostic::Diagnostic;

/// The diagnostic with a better place, if there is one.
pub(super) fn improve(cursor: &Cursor<'_>, error: Diagnostic) -> Diagnostic {
    if error.code != "42601" {
        return error;
    }
    if let Some(inner) = broken_subquery(cursor) {
        return inner;
    }
    let start = error.span.map_or(u32::MAX, |span| span.start);
    if let Some(at) = clause_for_a_table(cursor.tokens_left(), start) {
        let mut before = *cursor;
        before.take(at);
        return before.expected("a table");
    }
    if error.help.is_none() && begins_statement(cursor, start) {
        return error.help("is a \";\" missing before it?");
    }
    error
}

/// The error of the first subquery that is invalid by itself.
fn broken_subquery(cursor: &Cursor<'_>) -> Option<Diagnostic> {
    let mut at = *cursor;
    while let Some(token) = at.peek() {
        let opens = token.kind == Kind::LParen
            && at
                .peek_at(1)
                .is_some_and(|next| next.is_word("select") || next.is_word("with"));
        if !opens {
            at.next();
            continue;
        }
        let mut after = at;
        if let Ok(inside) = after.parenthesised() {
            if let Err(error) = inside.query() {
                return Some(error);
            }
            // Its own subqueries are valid, too.
            at = after;
        } else {
            at.next();
        }
    }
    None
}

/// The first place before `end` where FROM, JOIN, INTO or UPDATE is followed by another clause.
fn clause_for_a_table(tokens: &[Token], end: u32) -> Option<usize> {
    const BEFORE: [&str; 4] = ["from", "join", "into", "update"];
    const CLAUSES: [&str; 10] = [
        "where",
        "group",
        "order",
        "having",
        "limit",
        "union",
        "on",
        "set",
        "values",
        "returning",
    ];
    let is = |token: &Token, words: &[&str]| words.iter().any(|word| token.is_word(word));
    tokens
        .windows(2)
        .position(|pair| is(&pair[0], &BEFORE) && is(&pair[1], &CLAUSES))
        .map(|at| at + 1)
        .filter(|at| tokens[*at].span.start < end)
}

/// Whether the token at this byte is a word that begins a statement.
fn begins_statement(cursor: &Cursor<'_>, start: u32) -> bool {
    const WORDS: [&str; 18] = [
        "begin", "continue", "create", "delete", "elsif", "else", "end", "exit", "for", "foreach",
        "if", "insert", "loop", "perform", "raise", "return", "update", "while",
    ];
    cursor
        .tokens_left()
        .iter()
        .skip(1)
        .find(|token| token.span.start == start)
        .is_some_and(|token| WORDS.iter().any(|word| token.is_word(word)))
}
