//! Cuts a client's text into statements and says what each is.

mod copy;
mod cursor;
mod explain;
mod notify;
mod places;
mod prepare;
mod refused;
mod runnable;
mod set;
mod transaction;

use places::{back, forward, moved};

use super::{
    runnable::CLIENT_TEXT,
    statement::{ClientStatement, ClientStatementKind, DiscardKind},
};
use crate::{
    change::parse,
    diagnostic::Diagnostic,
    parse::{
        cursor::{Cursor, Parsed},
        lexer::{Places, Text, lex},
        split::{self, StatementTokens},
        statement::cursor_of,
    },
    source::{SourceFile, Span},
};

/// Parses the text of a Query or Parse message. An empty list is an empty query.
///
/// # Errors
/// The first syntax error, with its place in the message: as in PostgreSQL, no statement of the message runs.
pub fn parse(text: &str) -> Result<Vec<ClientStatement>, Diagnostic> {
    let Ok(end) = u32::try_from(text.len()) else {
        return Err(Diagnostic {
            code: "54000",
            message: "the text of a statement is at most 4 GB long".into(),
            span: None,
            detail: None,
            help: None,
        });
    };
    let (tokens, error) = lex(Text {
        file: CLIENT_TEXT,
        text,
        places: Places::From(0),
    });
    if let Some(error) = error {
        return Err(error);
    }
    let text_end = Span {
        file: CLIENT_TEXT,
        start: end,
        end,
    };
    split::statements(&tokens, text_end)
        .into_iter()
        .map(|tokens| one(text, tokens))
        .collect()
}

/// Parses one statement of a message.
fn one(message: &str, statement: StatementTokens<'_>) -> Result<ClientStatement, Diagnostic> {
    let start = statement.tokens[0].span.start;
    let last = statement.tokens.last().map_or(start, |t| t.span.end);
    // The file reaches to what ends the statement, so that errors can name that.
    let reach = statement.end.end.max(last);
    let slice = |end: u32| &message[start as usize..end as usize];
    let file = SourceFile::new("statement", slice(reach));
    let tokens = moved(statement.tokens, start);
    let statement = StatementTokens {
        tokens: &tokens,
        end: back(statement.end, start),
        open: statement.open,
    };
    let cursor = cursor_of(&file, statement);
    let kind = kind(cursor, start as usize).map_err(|error| forward(error, start))?;
    Ok(ClientStatement {
        kind,
        text: slice(last).into(),
        start: start as usize,
    })
}

/// The meaning of a statement whose text begins at `start` of the message.
fn kind(mut cursor: Cursor<'_>, start: usize) -> Parsed<ClientStatementKind> {
    if runnable::begins(&cursor) {
        return runnable::runnable(&cursor, start).map(ClientStatementKind::Run);
    }
    if let Some(statement) = transaction::statement(&mut cursor)? {
        cursor.finish("the end of the statement")?;
        return Ok(statement);
    }
    if let Some(statement) = cursor::statement(&mut cursor, start)? {
        return Ok(statement);
    }
    if let Some(statement) = notify::statement(&mut cursor)? {
        return Ok(statement);
    }
    let found = if cursor.eat_words(&["set", "constraints"]) {
        Some(set::constraints(&mut cursor)?)
    } else if cursor.eat_word("set") {
        Some(set::set(&mut cursor)?)
    } else if cursor.eat_word("reset") {
        Some(ClientStatementKind::Reset(set::setting_or_all(
            &mut cursor,
        )?))
    } else if cursor.eat_words(&["alter", "system", "reset"]) {
        let name = set::setting_or_all(&mut cursor)?;
        Some(ClientStatementKind::ResetSystem(name))
    } else if cursor.eat_word("show") {
        Some(ClientStatementKind::Show(set::setting_or_all(&mut cursor)?))
    } else if cursor.eat_word("discard") {
        Some(ClientStatementKind::Discard(discard(&mut cursor)?))
    } else if cursor.eat_word("explain") {
        return explain::explain(&mut cursor, start);
    } else if cursor.eat_word("copy") {
        return copy::copy(&mut cursor);
    } else if cursor.eat_word("prepare") {
        return prepare::prepare(&mut cursor, start);
    } else if cursor.eat_word("execute") {
        Some(prepare::execute(&mut cursor)?)
    } else if cursor.eat_words(&["backup", "to"]) {
        let (folder, _) = cursor.string()?;
        Some(ClientStatementKind::Backup { folder })
    } else if cursor.eat_word("deallocate") {
        Some(prepare::deallocate(&mut cursor)?)
    } else {
        None
    };
    match found {
        Some(kind) => {
            cursor.finish("the end of the statement")?;
            Ok(kind)
        }
        None => match maintenance(&cursor) {
            Some(tag) => Ok(ClientStatementKind::Maintenance { tag }),
            None => change(&cursor),
        },
    }
}

/// A statement that changes the schema, or one that is not supported.
fn change(cursor: &Cursor<'_>) -> Parsed<ClientStatementKind> {
    match parse::change(cursor) {
        Ok(Some(statement)) => Ok(ClientStatementKind::Change(Box::new(statement))),
        Ok(None) => refused::refuse(cursor).map(ClientStatementKind::Unsupported),
        // The statements before it may run.
        Err(problem) if problem.code != "42601" => Ok(ClientStatementKind::Unsupported(problem)),
        Err(problem) => Err(problem),
    }
}

fn discard(cursor: &mut Cursor<'_>) -> Parsed<DiscardKind> {
    const WORDS: [(&str, DiscardKind); 5] = [
        ("all", DiscardKind::All),
        ("plans", DiscardKind::Plans),
        ("sequences", DiscardKind::Sequences),
        ("temp", DiscardKind::Temp),
        ("temporary", DiscardKind::Temp),
    ];
    for (word, kind) in WORDS {
        if cursor.eat_word(word) {
            return Ok(kind);
        }
    }
    Err(cursor.expected("ALL, PLANS, SEQUENCES or TEMP"))
}

/// The tag of a statement that has nothing to do: it only tells PostgreSQL how to keep its files.
fn maintenance(cursor: &Cursor<'_>) -> Option<&'static str> {
    const WORDS: [(&str, &str); 6] = [
        ("vacuum", "VACUUM"),
        ("analyze", "ANALYZE"),
        ("analyse", "ANALYZE"),
        ("checkpoint", "CHECKPOINT"),
        ("reindex", "REINDEX"),
        ("cluster", "CLUSTER"),
    ];
    let found = WORDS.iter().find(|(word, _)| cursor.at_word(word));
    found.map(|(_, tag)| *tag)
}
