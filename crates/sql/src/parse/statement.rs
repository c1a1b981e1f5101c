//! Parses one statement of a file.
//!
//! Accepted and ignored, since they do not affect the data: `COMMENT ON`, `SET` and `RESET`, `SELECT set_config(…)`
//! (`pg_dump` writes it), `GRANT`, `REVOKE`, `… OWNER TO`, `ALTER SEQUENCE … OWNED BY`, `CREATE EXTENSION`, `CREATE
//! SCHEMA public`, `ANALYZE`, `VACUUM`, and the transaction statements around a script (`BEGIN`, `START TRANSACTION`,
//! `COMMIT`, `END`).

use sqlparser::tokenizer::Token as Kind;

use super::{
    alter,
    cursor::{Cursor, Parsed},
    declaration::{Declaration, ViewDeclaration},
    enumeration, sequence,
    split::{StatementTokens, is_routine},
    table, trigger,
};
use crate::{
    diagnostic::Diagnostic,
    source::{SourceFile, Span},
};

/// Parses one statement.
pub(crate) fn declaration(
    file: &SourceFile,
    statement: StatementTokens<'_>,
) -> Parsed<Declaration> {
    if is_routine(statement.tokens) {
        return Ok(Declaration::Routine);
    }
    declaration_at(cursor_of(file, statement))
}

/// Parses a statement that creates no routine.
pub(crate) fn declaration_at(mut cursor: Cursor<'_>) -> Parsed<Declaration> {
    if let Some(owner) = sequence::owner(&cursor)? {
        return Ok(owner);
    }
    if changes_nothing(&cursor) {
        return Ok(Declaration::Nothing);
    }
    let start = cursor.span();
    if cursor.eat_word("create") {
        create(&mut cursor, start)
    } else if cursor.at_words(&["alter", "table"]) {
        alter::alter_table(&mut cursor).map(Declaration::Alter)
    } else if cursor.eat_words(&["drop", "table"]) {
        let (names, if_exists) = alter::drop_tables(&mut cursor)?;
        Ok(Declaration::DropTables { names, if_exists })
    } else if cursor.eat_words(&["alter", "type"]) {
        enumeration::alter_type(&mut cursor).map(Declaration::AddLabel)
    } else if cursor.eat_words(&["drop", "type"]) {
        let (names, if_exists) = alter::drop_tables(&mut cursor)?;
        Ok(Declaration::DropTypes { names, if_exists })
    } else {
        Err(refuse(&cursor))
    }
}

/// A cursor over a statement, with what ends it behind.
pub(crate) fn cursor_of<'a>(file: &'a SourceFile, statement: StatementTokens<'a>) -> Cursor<'a> {
    if statement.open {
        Cursor::new(file, statement.tokens, statement.end)
    } else {
        Cursor::ending_at(file, statement.tokens, statement.end)
    }
}

fn changes_nothing(cursor: &Cursor<'_>) -> bool {
    const FIRST: [&str; 10] = [
        "comment", "set", "reset", "grant", "revoke", "analyze", "vacuum", "commit", "end", "start",
    ];
    let harmless_set = !cursor.at_words(&["set", "constraints"]);
    let set_config = cursor.at_word("select")
        && (1..=3).any(|n| {
            cursor
                .peek_at(n)
                .is_some_and(|token| token.is_word("set_config"))
        });
    let owner = cursor.at_word("alter")
        && cursor
            .tokens_left()
            .windows(2)
            .any(|w| w[0].is_word("owner") && w[1].is_word("to"));
    let owned = cursor.at_words(&["alter", "sequence"])
        && cursor
            .tokens_left()
            .windows(2)
            .any(|w| w[0].is_word("owned") && w[1].is_word("by"));
    let public = cursor.at_words(&["create", "schema"])
        && cursor
            .tokens_left()
            .last()
            .is_some_and(|token| token.is_word("public"));
    cursor.at_any(&FIRST) && harmless_set
        || cursor.at_word("begin")
        || cursor.at_words(&["create", "extension"])
        || set_config
        || owner
        || owned
        || public
}

fn create(cursor: &mut Cursor<'_>, start: Span) -> Parsed<Declaration> {
    let or_replace = cursor.eat_words(&["or", "replace"]);
    if cursor.eat_word("table") {
        return table::create_table(cursor, start).map(Declaration::Table);
    }
    if cursor.eat_words(&["unique", "index"]) {
        return table::create_index(cursor, start, true).map(Declaration::Index);
    }
    if cursor.eat_word("index") {
        return table::create_index(cursor, start, false).map(Declaration::Index);
    }
    if cursor.eat_word("view") {
        return view(cursor, start, or_replace).map(Declaration::View);
    }
    if cursor.eat_word("sequence") {
        return sequence::create_sequence(cursor).map(Declaration::Sequence);
    }
    if cursor.eat_word("type") {
        return enumeration::create_type(cursor, start).map(Declaration::Type);
    }
    if cursor.eat_word("assertion") {
        return assertion(cursor, start);
    }
    if cursor.eat_word("trigger") {
        return trigger::create_trigger(cursor, start, or_replace).map(Declaration::Trigger);
    }
    Err(refuse_create(cursor, start))
}

fn view(cursor: &mut Cursor<'_>, start: Span, or_replace: bool) -> Parsed<ViewDeclaration> {
    let name = cursor.schema_name("a view name")?;
    let columns = match cursor.at(&Kind::LParen) {
        true => cursor.names("a column name")?,
        false => Vec::new(),
    };
    if cursor.at_word("with") {
        let construct = "a view option";
        return Err(Diagnostic::unsupported(construct, cursor.span()).help("leave WITH (…) out"));
    }
    cursor.expect_words(&["as"])?;
    let tokens = cursor.tokens_left();
    if let [.., check, option] = tokens
        && check.is_word("check")
        && option.is_word("option")
    {
        return Err(
            Diagnostic::unsupported("WITH CHECK OPTION", check.span.to(option.span))
                .help("state the condition as a CHECK of the table or as an assertion"),
        );
    }
    let query = cursor.query()?;
    let span = tokens.last().map_or(start, |last| start.to(last.span));
    Ok(ViewDeclaration {
        name,
        or_replace,
        columns,
        query,
        span,
    })
}

fn assertion(cursor: &mut Cursor<'_>, start: Span) -> Parsed<Declaration> {
    let name = cursor.schema_name("an assertion name")?;
    cursor.expect_words(&["check"])?;
    let inside = cursor.parenthesised()?;
    let expression = inside.expression()?;
    // Deferral does not matter: an assertion holds in every committed state.
    cursor.eat_words(&["not", "deferrable"]);
    cursor.eat_word("deferrable");
    if cursor.eat_word("initially") && !cursor.eat_word("immediate") {
        cursor.expect_words(&["deferred"])?;
    }
    cursor.finish("\";\" at the end of the statement")?;
    Ok(Declaration::Assertion {
        name,
        expression,
        span: cursor.since(start),
    })
}

fn refuse_create(cursor: &Cursor<'_>, start: Span) -> Diagnostic {
    const KNOWN: [(&str, &str); 16] = [
        ("constraint", "state the rule with CREATE ASSERTION"),
        ("domain", "repeat its type and CHECK at each column"),
        ("schema", "there is one schema, \"public\""),
        ("rule", "use a view"),
        ("policy", "filter rows in the procedures"),
        (
            "materialized",
            "use a view, or a table that the procedures maintain",
        ),
        ("recursive", "write the recursion as a loop in a procedure"),
        ("temporary", "use variables and arrays in the procedure"),
        ("temp", "use variables and arrays in the procedure"),
        ("local", "use variables and arrays in the procedure"),
        ("global", "use variables and arrays in the procedure"),
        ("unlogged", "leave UNLOGGED out"),
        ("foreign", "declare an ordinary table"),
        ("aggregate", "use the built-in aggregates"),
        ("operator", "use a function"),
        ("cast", "cast explicitly to a built-in type"),
    ];
    for (word, help) in KNOWN {
        if cursor.at_word(word) {
            let construct = format!("CREATE {}", word.to_uppercase());
            return Diagnostic::unsupported(construct, start.to(cursor.span())).help(help);
        }
    }
    const OTHERS: [&str; 16] = [
        "access",
        "collation",
        "conversion",
        "database",
        "default",
        "event",
        "group",
        "language",
        "publication",
        "role",
        "server",
        "statistics",
        "subscription",
        "tablespace",
        "text",
        "user",
    ];
    if cursor.at_any(&OTHERS) {
        let word = cursor.file().slice(cursor.span()).to_uppercase();
        return Diagnostic::unsupported(format!("CREATE {word}"), start.to(cursor.span()))
            .help("leave it out of the application's files");
    }
    cursor.expected("TABLE, INDEX, VIEW, ASSERTION, FUNCTION or PROCEDURE")
}

fn refuse(cursor: &Cursor<'_>) -> Diagnostic {
    const DATA: [&str; 9] = [
        "insert", "update", "delete", "select", "with", "copy", "truncate", "merge", "values",
    ];
    const OTHERS: [&str; 21] = [
        "alter",
        "call",
        "checkpoint",
        "close",
        "cluster",
        "deallocate",
        "declare",
        "discard",
        "do",
        "drop",
        "execute",
        "explain",
        "fetch",
        "import",
        "listen",
        "load",
        "lock",
        "notify",
        "prepare",
        "refresh",
        "rollback",
    ];
    let span = cursor.span();
    let word = cursor.file().slice(span).to_uppercase();
    if cursor.at_any(&DATA) {
        return Diagnostic::unsupported(format!("{word} in an application's files"), span)
            .help("they declare tables, assertions and procedures; load rows through a client");
    }
    if cursor.at_any(&OTHERS) || cursor.at_words(&["set", "constraints"]) {
        return Diagnostic::unsupported(format!("{word} in an application's files"), span)
            .help("they declare tables, indexes, views, assertions and procedures");
    }
    cursor.expected("CREATE TABLE, INDEX, VIEW, ASSERTION, FUNCTION or PROCEDURE")
}
