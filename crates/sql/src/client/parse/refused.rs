//! Statements of PostgreSQL that are not supported, and what to do instead.

use crate::{
    diagnostic::Diagnostic,
    parse::cursor::{Cursor, Parsed},
};

/// The refusals: the first words, and the advice.
const REFUSED: &[(&[&str], &str)] = &[
    (&["create"], "leave it out: the server has nothing like it"),
    (&["alter"], "leave it out: the server has nothing like it"),
    (&["drop"], "leave it out: the server has nothing like it"),
    (&["do"], "declare a procedure and CALL it"),
    (
        &["lock"],
        "leave it out: transactions are ordered by the rows that they touch",
    ),
    (&["reassign"], "leave it out: there are no roles yet"),
    (&["security"], "leave it out: there are no roles yet"),
    (&["load"], "leave it out: there are no shared libraries"),
    (&["refresh"], "use a view, which is always current"),
    (&["import"], "declare ordinary tables and insert the rows"),
];

/// The refusal of the statement that stands here.
///
/// # Errors
/// A syntax error, if it is no statement of PostgreSQL.
pub(super) fn refuse(cursor: &Cursor<'_>) -> Parsed<Diagnostic> {
    let Some((words, advice)) = REFUSED.iter().find(|(words, _)| cursor.at_words(words)) else {
        return Err(cursor.expected("a statement"));
    };
    let mut shown = *cursor;
    let mut span = shown.take(words.len()).whole_span();
    let mut construct = words.join(" ").to_uppercase();
    // The kind of object belongs to the name of a definition.
    if ["create", "alter", "drop", "refresh"].contains(&words[0])
        && let Some(next) = shown.peek()
        && matches!(&next.kind, sqlparser::tokenizer::Token::Word(word) if word.quote_style.is_none())
    {
        construct.push(' ');
        construct.push_str(&cursor.file().slice(next.span).to_uppercase());
        span = span.to(next.span);
    }
    Ok(Diagnostic::unsupported(construct, span).help(*advice))
}
