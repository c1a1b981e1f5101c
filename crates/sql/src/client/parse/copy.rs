//! Parses COPY and its options, in their present form and in that before PostgreSQL 9.0.

use sqlparser::tokenizer::Token as Kind;

use crate::{
    client::{
        copy_syntax::{CopyColumns, CopyKind, CopySource, CopyStatement, CopySyntax},
        statement::ClientStatementKind,
    },
    diagnostic::Diagnostic,
    parse::cursor::{Cursor, Parsed},
};

/// What follows COPY.
pub(super) fn copy(cursor: &mut Cursor<'_>) -> Parsed<ClientStatementKind> {
    let mut options = CopySyntax::default();
    if cursor.eat_word("binary") {
        options.kind = CopyKind::Binary;
    }
    let start = cursor.span();
    let (source, span) = if cursor.at(&Kind::LParen) {
        let inside = cursor.parenthesised()?;
        let span = inside.whole_span();
        (
            CopySource::Query(cursor.file().slice(span).to_owned()),
            span,
        )
    } else {
        let name = cursor.schema_name("a table")?.text;
        let span = cursor.since(start);
        let mut columns = Vec::new();
        if cursor.at(&Kind::LParen) {
            let mut inside = cursor.parenthesised()?;
            columns = names(&mut inside)?;
            inside.finish("\",\" or \")\"")?;
        }
        (CopySource::Table { name, columns }, span)
    };
    let is_query = matches!(source, CopySource::Query(_));
    let is_from = match (cursor.eat_word("from"), is_query) {
        (true, true) => return Err(cursor.expected("TO")),
        (true, false) => true,
        (false, _) => {
            if !cursor.eat_word("to") {
                return Err(cursor.expected(if is_query { "TO" } else { "FROM or TO" }));
            }
            false
        }
    };
    if let Some(refused) = other_end(cursor, is_from)? {
        return Ok(ClientStatementKind::Unsupported(refused));
    }
    cursor.eat_word("with");
    if cursor.at(&Kind::LParen) {
        let mut inside = cursor.parenthesised()?;
        option(&mut inside, &mut options)?;
        while inside.eat(&Kind::Comma) {
            option(&mut inside, &mut options)?;
        }
        inside.finish("\",\" or \")\"")?;
    } else {
        while !cursor.is_done() && !cursor.at_word("where") {
            old_option(cursor, &mut options)?;
        }
    }
    if cursor.at_word("where") {
        let refused = Diagnostic::unsupported("COPY … WHERE", cursor.span())
            .help("copy into a table, and INSERT from there what is wanted");
        return Ok(ClientStatementKind::Unsupported(refused));
    }
    cursor.finish("the end of the statement")?;
    check(&options)?;
    Ok(ClientStatementKind::Copy(Box::new(CopyStatement {
        source,
        is_from,
        options,
        span,
    })))
}

/// The other end of the copy: the client. A file or program of the server's is refused.
fn other_end(cursor: &mut Cursor<'_>, is_from: bool) -> Parsed<Option<Diagnostic>> {
    let place = cursor.span();
    if cursor.eat_word("stdin") || cursor.eat_word("stdout") {
        return Ok(None);
    }
    let is_program = cursor.eat_word("program");
    if !is_program
        && !matches!(
            cursor.peek().map(|t| &t.kind),
            Some(Kind::SingleQuotedString(_))
        )
    {
        return Err(cursor.expected(if is_from { "STDIN" } else { "STDOUT" }));
    }
    let what = match (is_program, is_from) {
        (true, _) => "COPY with a program of the server",
        (false, true) => "COPY from a file of the server",
        (false, false) => "COPY to a file of the server",
    };
    let end = if is_from { "FROM STDIN" } else { "TO STDOUT" };
    Ok(Some(Diagnostic::unsupported(what, place).help(format!(
        "write {end} and let the client have the file: psql's \\copy does that"
    ))))
}

fn names(cursor: &mut Cursor<'_>) -> Parsed<Vec<String>> {
    let mut names = vec![cursor.name("a column")?.text];
    while cursor.eat(&Kind::Comma) {
        names.push(cursor.name("a column")?.text);
    }
    Ok(names)
}

fn option(cursor: &mut Cursor<'_>, options: &mut CopySyntax) -> Parsed<()> {
    if cursor.eat_word("null") {
        options.null = Some(cursor.string()?.0);
        return Ok(());
    }
    let name = cursor.name("an option of COPY")?;
    match name.text.as_str() {
        "format" => {
            let kind = word(cursor)?;
            options.kind = match kind.as_str() {
                "text" => CopyKind::Text,
                "csv" => CopyKind::Csv,
                "binary" => CopyKind::Binary,
                other => {
                    let message = format!("COPY format \"{other}\" not recognized");
                    return Err(Diagnostic::new("22023", message, name.span));
                }
            };
        }
        "delimiter" => options.delimiter = Some(cursor.string()?.0),
        "quote" => options.quote = Some(cursor.string()?.0),
        "escape" => options.escape = Some(cursor.string()?.0),
        "header" => {
            options.header_match = cursor.eat_word("match");
            options.header = options.header_match || truth(cursor)?;
        }
        "force_quote" => options.force_quote = columns(cursor)?,
        "force_not_null" => options.force_not_null = columns(cursor)?,
        "force_null" => options.force_null = columns(cursor)?,
        // Rows are visible when the transaction commits, whatever FREEZE says.
        "freeze" => {
            truth(cursor)?;
        }
        "encoding" => {
            let (encoding, span) = cursor.string()?;
            if !["utf8", "utf-8", "unicode"].contains(&encoding.to_lowercase().as_str()) {
                return Err(
                    Diagnostic::unsupported(format!("the encoding {encoding}"), span)
                        .help("send UTF8"),
                );
            }
        }
        other => {
            let message = format!("option \"{other}\" not recognized");
            return Err(Diagnostic::new("42601", message, name.span));
        }
    }
    Ok(())
}

/// A word or string.
fn word(cursor: &mut Cursor<'_>) -> Parsed<String> {
    match cursor.peek().map(|token| &token.kind) {
        Some(Kind::SingleQuotedString(_)) => Ok(cursor.string()?.0),
        _ => Ok(cursor.name("a value")?.text),
    }
}

/// A boolean, true if it is left out.
fn truth(cursor: &mut Cursor<'_>) -> Parsed<bool> {
    if cursor.is_done() || cursor.at(&Kind::Comma) {
        return Ok(true);
    }
    if let Some(Kind::Number(digits, _)) = cursor.peek().map(|token| &token.kind) {
        let is_true = digits == "1";
        if is_true || digits == "0" {
            cursor.next();
            return Ok(is_true);
        }
    }
    // These are reserved words.
    if cursor.eat_word("true") || cursor.eat_word("on") {
        return Ok(true);
    }
    if cursor.eat_word("false") {
        return Ok(false);
    }
    let place = cursor.span();
    match word(cursor)?.to_lowercase().as_str() {
        "true" | "on" => Ok(true),
        "false" | "off" => Ok(false),
        _ => Err(Diagnostic::new(
            "42601",
            "this option requires a Boolean value",
            place,
        )),
    }
}

fn columns(cursor: &mut Cursor<'_>) -> Parsed<CopyColumns> {
    if cursor.eat(&Kind::Mul) {
        return Ok(CopyColumns::All);
    }
    let mut inside = cursor.parenthesised()?;
    let named = names(&mut inside)?;
    inside.finish("\",\" or \")\"")?;
    Ok(CopyColumns::Named(named))
}

fn old_option(cursor: &mut Cursor<'_>, options: &mut CopySyntax) -> Parsed<()> {
    let list = |cursor: &mut Cursor<'_>| match cursor.eat(&Kind::Mul) {
        true => Ok(CopyColumns::All),
        false => names(cursor).map(CopyColumns::Named),
    };
    if cursor.eat_word("binary") {
        options.kind = CopyKind::Binary;
    } else if cursor.eat_word("csv") {
        options.kind = CopyKind::Csv;
    } else if cursor.eat_word("header") {
        options.header = true;
    } else if cursor.eat_word("freeze") {
        // As above.
    } else if cursor.eat_words(&["force", "quote"]) {
        options.force_quote = list(cursor)?;
    } else if cursor.eat_words(&["force", "not", "null"]) {
        options.force_not_null = list(cursor)?;
    } else if cursor.eat_words(&["force", "null"]) {
        options.force_null = list(cursor)?;
    } else {
        let target = if cursor.eat_word("delimiter") || cursor.eat_word("delimiters") {
            &mut options.delimiter
        } else if cursor.eat_word("null") {
            &mut options.null
        } else if cursor.eat_word("quote") {
            &mut options.quote
        } else if cursor.eat_word("escape") {
            &mut options.escape
        } else {
            return Err(cursor.expected("an option of COPY"));
        };
        cursor.eat_word("as");
        *target = Some(cursor.string()?.0);
    }
    Ok(())
}

/// Checks the options against each other, with PostgreSQL's errors.
fn check(options: &CopySyntax) -> Parsed<()> {
    // As in PostgreSQL, these have no place.
    let refuse = |code: &'static str, message: &str| {
        Err(Diagnostic {
            code,
            message: message.to_owned(),
            span: None,
            detail: None,
            help: None,
        })
    };
    let one = |text: &Option<String>| text.as_ref().is_none_or(|text| text.len() == 1);
    let is = |kind: CopyKind| options.kind == kind;
    if is(CopyKind::Binary) {
        if options.delimiter.is_some() {
            return refuse("42601", "cannot specify DELIMITER in BINARY mode");
        }
        if options.null.is_some() {
            return refuse("42601", "cannot specify NULL in BINARY mode");
        }
        if options.header {
            return refuse("0A000", "cannot specify HEADER in BINARY mode");
        }
    }
    if !one(&options.delimiter) {
        return refuse(
            "0A000",
            "COPY delimiter must be a single one-byte character",
        );
    }
    let delimiter = options.delimiter.as_deref().unwrap_or(match options.kind {
        CopyKind::Csv => ",",
        _ => "\t",
    });
    if matches!(delimiter, "\n" | "\r") {
        return refuse(
            "22023",
            "COPY delimiter cannot be newline or carriage return",
        );
    }
    if options
        .null
        .as_ref()
        .is_some_and(|null| null.contains(['\n', '\r']))
    {
        return refuse(
            "22023",
            "COPY null representation cannot use newline or carriage return",
        );
    }
    let forbidden =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"\\.".contains(&byte);
    if is(CopyKind::Text) && delimiter.bytes().any(forbidden) {
        return refuse(
            "22023",
            &format!("COPY delimiter cannot be \"{delimiter}\""),
        );
    }
    if !is(CopyKind::Csv) {
        for (is_given, what) in [
            (options.quote.is_some(), "quote"),
            (options.escape.is_some(), "escape"),
            (options.force_quote != CopyColumns::None, "force quote"),
            (
                options.force_not_null != CopyColumns::None,
                "force not null",
            ),
            (options.force_null != CopyColumns::None, "force null"),
        ] {
            if is_given {
                return refuse("0A000", &format!("COPY {what} available only in CSV mode"));
            }
        }
        return Ok(());
    }
    if !one(&options.quote) {
        return refuse("0A000", "COPY quote must be a single one-byte character");
    }
    if !one(&options.escape) {
        return refuse("0A000", "COPY escape must be a single one-byte character");
    }
    let quote = options.quote.as_deref().unwrap_or("\"");
    if delimiter == quote {
        return refuse("22023", "COPY delimiter and quote must be different");
    }
    if options
        .null
        .as_ref()
        .is_some_and(|null| null.contains(delimiter))
    {
        return refuse(
            "22023",
            "COPY delimiter must not appear in the NULL specification",
        );
    }
    if options
        .null
        .as_ref()
        .is_some_and(|null| null.contains(quote))
    {
        return refuse(
            "22023",
            "CSV quote character must not appear in the NULL specification",
        );
    }
    Ok(())
}
