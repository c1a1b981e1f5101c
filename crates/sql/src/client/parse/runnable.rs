//! Parses statements over data.

use std::sync::Arc;

use sqlparser::{ast, tokenizer::Token as Kind};

use super::places::{forward, moved};
use crate::{
    client::runnable::Runnable,
    diagnostic::Diagnostic,
    parse::{
        cursor::{Cursor, Parsed},
        lexer::Token,
    },
    source::{SourceFile, Span},
};

/// The greatest number of a parameter: a Bind message has no room for more.
const PARAMETERS_MAX: usize = 65_535;

/// Whether a statement over data begins here.
pub(super) fn begins(cursor: &Cursor<'_>) -> bool {
    const WORDS: [&str; 9] = [
        "select", "values", "with", "table", "insert", "update", "delete", "call", "merge",
    ];
    cursor.at_any(&WORDS) || cursor.at(&Kind::LParen)
}

/// Parses the rest as a statement over data. The cursor's text begins at `start` of the message.
pub(super) fn runnable(cursor: &Cursor<'_>, start: usize) -> Parsed<Runnable> {
    let whole = cursor.whole_span();
    let offset = whole.start;
    let parameters = parameters(cursor.tokens_left())?;
    let mut tokens = moved(cursor.tokens_left(), offset);
    if let Some(first) = tokens.first()
        && first.is_word("table")
    {
        let place = first.span;
        tokens.splice(0..1, select_all(place));
    }
    check_words(cursor)?;
    forget_key_locks(&mut tokens);
    for token in &mut tokens {
        // PostgreSQL's older sign of a named argument, which the parser takes for an assignment.
        if token.kind == Kind::Assignment {
            token.kind = Kind::RArrow;
        }
    }
    let file = cursor.file();
    let reach = cursor.end_span().end.max(whole.end);
    let text = |end: u32| {
        file.slice(Span {
            start: offset,
            end,
            ..whole
        })
    };
    let own = SourceFile::new("statement", text(reach));
    let inner = cursor.relative_to(&own, &tokens, offset);
    let syntax = match tokens.first().map(|token| &token.kind) {
        Some(Kind::LParen) => inner.query().map(ast::Statement::Query),
        _ => inner.statement(),
    };
    Ok(Runnable {
        syntax: Arc::new(syntax.map_err(|error| forward(error, offset))?),
        text: text(whole.end).into(),
        start: start + offset as usize,
        parameters,
    })
}

/// `SELECT * FROM`, in the place of TABLE.
fn select_all(place: Span) -> [Token; 3] {
    let token = |kind| Token { kind, span: place };
    let word = |text: &str| token(Kind::make_word(text, None));
    [word("select"), token(Kind::Mul), word("from")]
}

/// Refuses a string where PostgreSQL allows none, which the parser takes for an alias, and a clause in the place of a
/// table, which the parser takes for the table's name.
fn check_words(cursor: &Cursor<'_>) -> Parsed<()> {
    const CLAUSES: [&str; 12] = [
        "from",
        "where",
        "group",
        "order",
        "having",
        "limit",
        "offset",
        "union",
        "intersect",
        "except",
        "on",
        "using",
    ];
    let is_string = |token: &Token| matches!(token.kind, Kind::SingleQuotedString(_));
    for (place, pair) in cursor.tokens_left().windows(2).enumerate() {
        let before = matches!(
            pair[0].kind,
            Kind::SingleQuotedString(_) | Kind::Number(..) | Kind::Placeholder(_) | Kind::RBracket
        );
        let is_clause = || CLAUSES.iter().any(|word| pair[1].is_word(word));
        let is_wrong = is_string(&pair[1]) && (before || pair[0].is_word("as"))
            || pair[0].is_word("from") && is_clause();
        if is_wrong {
            let mut at = *cursor;
            at.take(place + 1);
            return Err(at.syntax_error());
        }
    }
    Ok(())
}

/// Makes FOR NO KEY UPDATE and FOR KEY SHARE the stronger FOR UPDATE and FOR SHARE, which the parser knows.
fn forget_key_locks(tokens: &mut Vec<Token>) {
    let mut at = 0;
    while at < tokens.len() {
        let follows = |words: &[&str]| {
            let found = tokens[at..]
                .iter()
                .zip(words)
                .filter(|(token, word)| token.is_word(word));
            found.count() == words.len()
        };
        if follows(&["for", "no", "key", "update"]) {
            tokens.drain(at + 1..at + 3);
        } else if follows(&["for", "key", "share"]) {
            tokens.remove(at + 1);
        }
        at += 1;
    }
}

/// The greatest number of a parameter among tokens.
fn parameters(tokens: &[Token]) -> Parsed<usize> {
    let mut greatest = 0;
    for token in tokens {
        let Kind::Placeholder(name) = &token.kind else {
            continue;
        };
        let number = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
        match number {
            Some(number) if (1..=PARAMETERS_MAX).contains(&number) => {
                greatest = greatest.max(number);
            }
            _ => {
                let message = format!("there is no parameter {name}");
                return Err(Diagnostic::new("42P02", message, token.span)
                    .help(format!("parameters are $1 to ${PARAMETERS_MAX}")));
            }
        }
    }
    Ok(greatest)
}
