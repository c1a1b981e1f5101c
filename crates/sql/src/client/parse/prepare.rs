//! Parses PREPARE, EXECUTE and DEALLOCATE.

use sqlparser::tokenizer::Token as Kind;

use super::runnable::{self, runnable};
use crate::{
    argument::ArgumentSyntax,
    client::statement::ClientStatementKind,
    parse::{
        cursor::{Cursor, Parsed},
        data_type::serialless,
    },
};

/// What follows PREPARE, in a text that begins at `start` of the message.
pub(super) fn prepare(cursor: &mut Cursor<'_>, start: usize) -> Parsed<ClientStatementKind> {
    let name = cursor.name("the name of a prepared statement")?.text;
    let mut parameter_types = Vec::new();
    if cursor.at(&Kind::LParen) {
        let mut inside = cursor.parenthesised()?;
        loop {
            let data_type = match inside.eat_word("unknown") {
                true => None,
                false => Some(serialless(&mut inside)?),
            };
            parameter_types.push(data_type);
            if !inside.eat(&Kind::Comma) {
                break;
            }
        }
        inside.finish("\",\" or \")\"")?;
    }
    cursor.expect_words(&["as"])?;
    // As in PostgreSQL, a call is no statement that can be prepared by hand.
    if !runnable::begins(cursor) || cursor.at_word("call") {
        return Err(cursor.expected("SELECT, VALUES, INSERT, UPDATE or DELETE"));
    }
    Ok(ClientStatementKind::Prepare {
        name,
        parameter_types,
        statement: runnable(cursor, start)?,
    })
}

/// What follows EXECUTE.
pub(super) fn execute(cursor: &mut Cursor<'_>) -> Parsed<ClientStatementKind> {
    let name = cursor.name("the name of a prepared statement")?.text;
    let mut arguments = Vec::new();
    if cursor.at(&Kind::LParen) {
        let mut inside = cursor.parenthesised()?;
        loop {
            let argument = inside.take_until(|at| at.at(&Kind::Comma));
            arguments.push((argument.expression()?, argument.whole_span()));
            if !inside.eat(&Kind::Comma) {
                break;
            }
        }
        inside.finish("\",\" or \")\"")?;
    }
    let arguments = ArgumentSyntax::new(arguments);
    Ok(ClientStatementKind::Execute { name, arguments })
}

/// What follows DEALLOCATE.
pub(super) fn deallocate(cursor: &mut Cursor<'_>) -> Parsed<ClientStatementKind> {
    // `DEALLOCATE prepare` names a statement of that name.
    if cursor.at_word("prepare") && cursor.left() > 1 {
        cursor.next();
    }
    if cursor.eat_word("all") {
        return Ok(ClientStatementKind::Deallocate(None));
    }
    let name = cursor
        .name("the name of a prepared statement, or ALL")?
        .text;
    Ok(ClientStatementKind::Deallocate(Some(name)))
}
