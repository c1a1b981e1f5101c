//! Parses `ALTER TABLE` and `DROP TABLE`, as far as `pg_dump` and migrations need them: columns, constraints, defaults,
//! and identity.

use sqlparser::tokenizer::Token as Kind;

use super::{
    cursor::{Cursor, Name, Parsed},
    declaration::{AlterAction, AlterDeclaration, ColumnAlteration, ExpressionDropped},
    table,
};
use crate::{catalog::ColumnDefault, diagnostic::Diagnostic};

/// `ALTER TABLE`.
pub(crate) fn alter_table(cursor: &mut Cursor<'_>) -> Parsed<AlterDeclaration> {
    cursor.expect_words(&["alter", "table"])?;
    cursor.eat_words(&["if", "exists"]);
    cursor.eat_word("only");
    let mut declared = AlterDeclaration {
        table: cursor.schema_name("a table name")?,
        actions: Vec::new(),
    };
    loop {
        let action = action(cursor, &declared.table)?;
        declared.actions.push(action);
        if !cursor.eat(&Kind::Comma) {
            break;
        }
    }
    cursor.finish("\";\" at the end of the statement")?;
    Ok(declared)
}

/// `DROP TABLE`, from after these two words: the names, and whether it has IF EXISTS.
pub(crate) fn drop_tables(cursor: &mut Cursor<'_>) -> Parsed<(Vec<Name>, bool)> {
    let if_exists = cursor.eat_words(&["if", "exists"]);
    let mut names = vec![cursor.schema_name("a table name")?];
    while cursor.eat(&Kind::Comma) {
        names.push(cursor.schema_name("a table name")?);
    }
    behaviour(cursor);
    cursor.finish("\";\" at the end of the statement")?;
    Ok((names, if_exists))
}

/// CASCADE or RESTRICT.
fn behaviour(cursor: &mut Cursor<'_>) {
    if !cursor.eat_word("cascade") {
        cursor.eat_word("restrict");
    }
}

fn action(cursor: &mut Cursor<'_>, table: &Name) -> Parsed<AlterAction> {
    const CONSTRAINTS: [&str; 6] = [
        "constraint",
        "primary",
        "unique",
        "foreign",
        "check",
        "exclude",
    ];
    let start = *cursor;
    if cursor.eat_word("add") {
        if cursor.at_any(&CONSTRAINTS) {
            return table::table_constraint(cursor).map(AlterAction::Constrain);
        }
        cursor.eat_word("column");
        let if_not_exists = cursor.eat_words(&["if", "not", "exists"]);
        let (column, constraints) = table::added_column(cursor, table)?;
        return Ok(AlterAction::AddColumn {
            column,
            constraints,
            if_not_exists,
        });
    }
    if cursor.eat_word("drop") {
        let is_constraint = cursor.eat_word("constraint");
        if !is_constraint {
            cursor.eat_word("column");
        }
        let if_exists = cursor.eat_words(&["if", "exists"]);
        let name = cursor.name(match is_constraint {
            true => "a constraint name",
            false => "a column name",
        })?;
        behaviour(cursor);
        return Ok(match is_constraint {
            true => AlterAction::DropConstraint { name, if_exists },
            false => AlterAction::DropColumn {
                column: name,
                if_exists,
            },
        });
    }
    if cursor.eat_word("alter") {
        cursor.eat_word("column");
        let column = cursor.name("a column name")?;
        if let Some(alteration) = alter_column(cursor, column)? {
            return Ok(AlterAction::AlterColumn(alteration));
        }
    }
    *cursor = start;
    let form = cursor.take_until(|at| at.at(&Kind::Comma));
    let words = form
        .tokens_left()
        .iter()
        .take(2)
        .map(|token| cursor.file().slice(token.span));
    let shown = words.collect::<Vec<_>>().join(" ").to_uppercase();
    Err(Diagnostic::unsupported(format!("ALTER TABLE … {shown}"), form.span()).help(
        "only ADD and DROP of columns and constraints, and ALTER COLUMN … TYPE, SET and DROP of DEFAULT and NOT \
         NULL, and ADD GENERATED are; write the rest in CREATE TABLE",
    ))
}

fn alter_column(cursor: &mut Cursor<'_>, column: Name) -> Parsed<Option<ColumnAlteration>> {
    let mut alteration = ColumnAlteration {
        column,
        default: None,
        not_null: None,
        data_type: None,
        expression_dropped: None,
    };
    if cursor.eat_words(&["set", "not", "null"]) {
        alteration.not_null = Some(true);
    } else if cursor.eat_words(&["drop", "not", "null"]) {
        alteration.not_null = Some(false);
    } else if cursor.eat_words(&["set", "default"]) {
        alteration.default = Some(table::default_value(cursor)?);
    } else if cursor.eat_words(&["drop", "default"]) {
        alteration.default = Some(ColumnDefault::Null);
    } else if cursor.eat_words(&["add", "generated"]) {
        let always = table::identity(cursor, None)?;
        alteration.default = Some(ColumnDefault::Generated {
            always,
            serial: false,
        });
        alteration.not_null = Some(true);
    } else if cursor.eat_words(&["drop", "expression"]) {
        let if_exists = cursor.eat_words(&["if", "exists"]);
        alteration.expression_dropped = Some(ExpressionDropped { if_exists });
    } else if cursor.eat_words(&["set", "data", "type"]) || cursor.eat_word("type") {
        alteration.data_type = Some(table::column_type(cursor)?);
        // The conversion of existing rows does not matter afterwards.
        if cursor.eat_word("using") {
            cursor.take_until(|at| at.at(&Kind::Comma));
        }
    } else {
        return Ok(None);
    }
    Ok(Some(alteration))
}
