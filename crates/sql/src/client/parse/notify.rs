//! Parses LISTEN, UNLISTEN and NOTIFY.

use sqlparser::tokenizer::Token as Kind;

use crate::{
    client::statement::ClientStatementKind,
    parse::cursor::{Cursor, Parsed},
};

/// The statement about notifications that stands here; `None` if it is another.
pub(super) fn statement(cursor: &mut Cursor<'_>) -> Parsed<Option<ClientStatementKind>> {
    let found = if cursor.eat_word("listen") {
        ClientStatementKind::Listen(channel(cursor)?)
    } else if cursor.eat_word("unlisten") {
        ClientStatementKind::Unlisten(match cursor.eat(&Kind::Mul) {
            true => None,
            false => Some(channel(cursor)?),
        })
    } else if cursor.eat_word("notify") {
        let channel = channel(cursor)?;
        let payload = match cursor.eat(&Kind::Comma) {
            true => cursor.string()?.0,
            false => String::new(),
        };
        ClientStatementKind::Notify { channel, payload }
    } else {
        return Ok(None);
    };
    cursor.finish("the end of the statement")?;
    Ok(Some(found))
}

fn channel(cursor: &mut Cursor<'_>) -> Parsed<String> {
    Ok(cursor.name("a channel's name")?.text)
}
