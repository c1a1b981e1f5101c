//! Parses sequences: `CREATE SEQUENCE`, the options of an identity, and `nextval` in a default.

use sqlparser::{ast, tokenizer::Token as Kind};

use super::{
    cursor::{Cursor, Name, Parsed},
    declaration::Declaration,
};
use crate::diagnostic::Diagnostic;

/// `CREATE SEQUENCE`, from after these two words.
pub(crate) fn create_sequence(cursor: &mut Cursor<'_>) -> Parsed<Name> {
    cursor.eat_words(&["if", "not", "exists"]);
    let name = cursor.schema_name("a sequence name")?;
    sequence_options(*cursor)?;
    Ok(name)
}

/// `ALTER SEQUENCE name OWNED BY table.column`, if the statement is one.
pub(crate) fn owner(cursor: &Cursor<'_>) -> Parsed<Option<Declaration>> {
    let mut at = *cursor;
    if !at.eat_words(&["alter", "sequence"]) {
        return Ok(None);
    }
    let name = at.schema_name("a sequence name")?;
    if !at.eat_words(&["owned", "by"]) {
        return Ok(None);
    }
    let mut names = vec![at.name("a table name")?];
    while at.eat(&Kind::Period) {
        names.push(at.name("a column name")?);
    }
    let column = names.pop();
    Ok(match (names.pop(), column) {
        (Some(table), Some(column)) => Some(Declaration::SequenceOwner([
            name.text,
            table.text,
            column.text,
        ])),
        _ => None,
    })
}

/// The rest of a statement as options of a sequence, if they are the defaults. The database chooses the numbers of a
/// column, so it could not keep any other options.
pub(crate) fn sequence_options(mut cursor: Cursor<'_>) -> Parsed<()> {
    while !cursor.is_done() {
        let start = cursor.span();
        let one = |cursor: &mut Cursor<'_>| matches!(cursor.integer(), Ok((1, _)));
        let usual = if cursor.eat_word("start") {
            cursor.eat_word("with");
            one(&mut cursor)
        } else if cursor.eat_word("increment") {
            cursor.eat_word("by");
            one(&mut cursor)
        } else if cursor.eat_word("cache") {
            cursor.integer().is_ok()
        } else if cursor.eat_word("as") {
            super::data_type::serialless(&mut cursor)?.is_integer()
        } else if cursor.eat_words(&["sequence", "name"]) {
            cursor.schema_name("a sequence name")?;
            true
        } else if cursor.eat_words(&["owned", "by"]) {
            cursor.take_until(|_| false);
            true
        } else {
            cursor.eat_words(&["no", "minvalue"])
                || cursor.eat_words(&["no", "maxvalue"])
                || cursor.eat_words(&["no", "cycle"])
        };
        if !usual {
            return Err(Diagnostic::unsupported("this option of a sequence", start)
                .help("leave it out: the database chooses the numbers"));
        }
    }
    Ok(())
}

/// Whether an expression takes the next number of a sequence.
pub(crate) fn is_nextval(expression: &ast::Expr) -> bool {
    match expression {
        ast::Expr::Function(function) => {
            let name = function.name.to_string();
            name == "nextval" || name == "pg_catalog.nextval"
        }
        _ => false,
    }
}
