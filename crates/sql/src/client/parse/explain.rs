//! Parses EXPLAIN and its options.

use sqlparser::tokenizer::Token as Kind;

use super::runnable::{self, runnable};
use crate::{
    client::{
        explain::{ExplainFormat, ExplainOptions},
        statement::ClientStatementKind,
    },
    diagnostic::Diagnostic,
    parse::cursor::{Cursor, Parsed},
};

/// What follows EXPLAIN, in a text that begins at `start` of the message.
pub(super) fn explain(cursor: &mut Cursor<'_>, start: usize) -> Parsed<ClientStatementKind> {
    let mut options = ExplainOptions::default();
    if cursor.at(&Kind::LParen) && !opens_query(cursor) {
        let mut inside = cursor.parenthesised()?;
        option(&mut inside, &mut options)?;
        while inside.eat(&Kind::Comma) {
            option(&mut inside, &mut options)?;
        }
        inside.finish("\",\" or \")\"")?;
    } else {
        loop {
            if cursor.eat_word("analyze") || cursor.eat_word("analyse") {
                options.analyze = true;
            } else if cursor.eat_word("verbose") {
                options.verbose = true;
            } else if cursor.eat_word("coordination") {
                options.coordination = true;
            } else {
                break;
            }
        }
    }
    if runnable::begins(cursor) {
        let statement = runnable(cursor, start)?;
        return Ok(ClientStatementKind::Explain { options, statement });
    }
    const OTHERS: [&str; 4] = ["execute", "declare", "create", "refresh"];
    if cursor.at_any(&OTHERS) {
        let word = cursor.file().slice(cursor.span()).to_uppercase();
        let construct = format!("EXPLAIN {word}");
        let refused = Diagnostic::unsupported(construct, cursor.span())
            .help("explain the SELECT, INSERT, UPDATE, DELETE or CALL itself");
        return Ok(ClientStatementKind::Unsupported(refused));
    }
    Err(cursor.expected("SELECT, INSERT, UPDATE, DELETE or CALL"))
}

/// Whether the bracket here opens a query, and no list of options.
fn opens_query(cursor: &Cursor<'_>) -> bool {
    cursor.peek_at(1).is_some_and(|next| {
        next.kind == Kind::LParen
            || ["select", "values", "with", "table"]
                .iter()
                .any(|word| next.is_word(word))
    })
}

fn option(cursor: &mut Cursor<'_>, options: &mut ExplainOptions) -> Parsed<()> {
    let span = cursor.span();
    let name = match cursor.eat_word("analyze") || cursor.eat_word("analyse") {
        true => "analyze".to_owned(),
        false => cursor.name("an option of EXPLAIN")?.text,
    };
    match name.as_str() {
        "format" => options.format = format(cursor)?,
        "analyze" => options.analyze = truth(cursor, &name)?,
        "coordination" => options.coordination = truth(cursor, &name)?,
        "verbose" => options.verbose = truth(cursor, &name)?,
        "costs" => options.costs = truth(cursor, &name)?,
        "buffers" => options.buffers = truth(cursor, &name)?,
        "timing" => options.timing = truth(cursor, &name)?,
        "summary" => options.summary = Some(truth(cursor, &name)?),
        "settings" => options.settings = truth(cursor, &name)?,
        "wal" => options.wal = truth(cursor, &name)?,
        other => {
            let message = format!("unrecognized EXPLAIN option \"{other}\"");
            return Err(Diagnostic::new("42601", message, span));
        }
    }
    Ok(())
}

fn format(cursor: &mut Cursor<'_>) -> Parsed<ExplainFormat> {
    let span = cursor.span();
    let name = match cursor.peek().map(|token| &token.kind) {
        Some(Kind::SingleQuotedString(_)) => cursor.string()?.0,
        _ => cursor.name("text or json")?.text,
    };
    match name.as_str() {
        "text" => Ok(ExplainFormat::Text),
        "json" => Ok(ExplainFormat::Json),
        "xml" | "yaml" => Err(
            Diagnostic::unsupported(format!("EXPLAIN (FORMAT {name})"), span)
                .help("use FORMAT text or json"),
        ),
        other => {
            let message = format!("unrecognized value for EXPLAIN option \"format\": \"{other}\"");
            Err(Diagnostic::new("22023", message, span))
        }
    }
}

/// The value of an option that is on or off; on if none is given.
fn truth(cursor: &mut Cursor<'_>, name: &str) -> Parsed<bool> {
    let value = match cursor.peek().map(|token| &token.kind) {
        None | Some(Kind::Comma) => return Ok(true),
        Some(Kind::Word(word)) => word.value.to_lowercase(),
        Some(Kind::SingleQuotedString(text)) => text.to_lowercase(),
        Some(Kind::Number(digits, _)) => digits.clone(),
        Some(_) => return Err(cursor.expected("a Boolean value")),
    };
    let truth = match value.as_str() {
        "true" | "on" | "1" => true,
        "false" | "off" | "0" => false,
        _ => {
            let message = format!("{name} requires a Boolean value");
            return Err(Diagnostic::new("42601", message, cursor.span()));
        }
    };
    cursor.next();
    Ok(truth)
}
