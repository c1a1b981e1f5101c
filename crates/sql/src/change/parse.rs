//! Parses statements that change the schema. What files may declare is parsed by the functions that read files.

use std::sync::Arc;

use sqlparser::tokenizer::Token as Kind;

use super::statement::{
    Action, ChangeKind, ChangeStatement, ObjectKind, RoutineName, RoutineObject,
};
use crate::{
    catalog::{ColumnDefault, RoutineKind},
    diagnostic::Diagnostic,
    parse::{
        cursor::{Cursor, Name, Parsed},
        data_type,
        declaration::Declaration,
        enumeration, sequence,
        statement::declaration_at,
        table,
    },
};

const END: &str = "the end of the statement";

/// The statement at the cursor, if it is one that changes the schema.
///
/// # Errors
/// Syntax errors, and constructs that are not supported.
pub(crate) fn change(cursor: &Cursor<'_>) -> Parsed<Option<ChangeStatement>> {
    let mut at = *cursor;
    let text = || Arc::from(cursor.file().slice(cursor.whole_span()));
    let Some((kind, tag)) = kind(&mut at)? else {
        return Ok(None);
    };
    Ok(Some(ChangeStatement {
        kind,
        text: text(),
        tag,
    }))
}

fn kind(cursor: &mut Cursor<'_>) -> Parsed<Option<(ChangeKind, &'static str)>> {
    if cursor.at_word("create") {
        return create(cursor);
    }
    if cursor.eat_word("drop") {
        return drop(cursor);
    }
    if cursor.eat_word("alter") {
        return alter(cursor);
    }
    if cursor.eat_word("truncate") {
        return truncate(cursor).map(|kind| Some((kind, "TRUNCATE TABLE")));
    }
    if cursor.eat_words(&["comment", "on"]) {
        return comment(cursor).map(|kind| Some((kind, "COMMENT")));
    }
    if cursor.at_any(&["grant", "revoke"]) {
        let tag = match cursor.eat_word("grant") {
            true => "GRANT",
            false => {
                cursor.next();
                "REVOKE"
            }
        };
        return Ok(Some((privileges(cursor)?, tag)));
    }
    Ok(None)
}

/// `CREATE …`
fn create(cursor: &mut Cursor<'_>) -> Parsed<Option<(ChangeKind, &'static str)>> {
    let mut at = *cursor;
    at.eat_word("create");
    let or_replace = at.eat_words(&["or", "replace"]);
    if at.at_any(&["function", "procedure"]) {
        let is_procedure = at.eat_word("procedure");
        if !is_procedure {
            at.eat_word("function");
        }
        let name = at.schema_name("a name")?;
        let (kind, tag) = match is_procedure {
            true => (RoutineKind::Procedure, "CREATE PROCEDURE"),
            false => (RoutineKind::Function, "CREATE FUNCTION"),
        };
        let kind = ChangeKind::CreateRoutine {
            name,
            kind,
            or_replace,
        };
        return Ok(Some((kind, tag)));
    }
    if at.eat_word("schema") {
        let if_not_exists = at.eat_words(&["if", "not", "exists"]);
        let name = at.name("a schema name")?;
        if name.text != "public" {
            let construct = "a schema beside \"public\"";
            return Err(Diagnostic::unsupported(construct, name.span)
                .help("create the tables in \"public\""));
        }
        let kind = ChangeKind::Existing {
            if_not_exists,
            what: "schema \"public\"".into(),
            code: "42P06",
        };
        return Ok(Some((kind, "CREATE SCHEMA")));
    }
    if at.eat_word("extension") {
        let if_not_exists = at.eat_words(&["if", "not", "exists"]);
        let name = at.name("an extension name")?;
        if name.text != "plpgsql" {
            let construct = format!("extension \"{}\"", name.text);
            return Err(Diagnostic::unsupported(construct, name.span));
        }
        let kind = ChangeKind::Existing {
            if_not_exists,
            what: "extension \"plpgsql\"".into(),
            code: "42710",
        };
        return Ok(Some((kind, "CREATE EXTENSION")));
    }
    if at.eat_word("sequence") {
        let declared = sequence::create_sequence(&mut at)?;
        return Ok(Some((
            ChangeKind::CreateSequence(declared),
            "CREATE SEQUENCE",
        )));
    }
    if cursor.at_words(&["create", "unlogged", "table"]) {
        // A table's rows are as durable as others.
        let mut tokens = cursor.tokens_left().to_vec();
        tokens.remove(1);
        return declared(declaration_at(cursor.over(&tokens))?);
    }
    declared(declaration_at(*cursor)?)
}

fn declared(found: Declaration) -> Parsed<Option<(ChangeKind, &'static str)>> {
    Ok(Some(match found {
        Declaration::Table(table) => (ChangeKind::CreateTable(table), "CREATE TABLE"),
        Declaration::Type(declared) => (ChangeKind::CreateType(declared), "CREATE TYPE"),
        Declaration::Index(index) => (ChangeKind::CreateIndex(Box::new(index)), "CREATE INDEX"),
        Declaration::View(view) => {
            let kind = ChangeKind::CreateView {
                name: view.name,
                or_replace: view.or_replace,
            };
            (kind, "CREATE VIEW")
        }
        Declaration::Assertion { name, .. } => {
            (ChangeKind::CreateAssertion(name), "CREATE ASSERTION")
        }
        Declaration::Trigger(trigger) => {
            let kind = ChangeKind::CreateTrigger(Box::new(trigger));
            (kind, "CREATE TRIGGER")
        }
        _ => return Ok(None),
    }))
}

/// `DROP …`, from after this word.
fn drop(cursor: &mut Cursor<'_>) -> Parsed<Option<(ChangeKind, &'static str)>> {
    const RELATIONS: [(&str, ObjectKind, &str); 6] = [
        ("table", ObjectKind::Table, "DROP TABLE"),
        ("view", ObjectKind::View, "DROP VIEW"),
        ("index", ObjectKind::Index, "DROP INDEX"),
        ("sequence", ObjectKind::Sequence, "DROP SEQUENCE"),
        ("assertion", ObjectKind::Assertion, "DROP ASSERTION"),
        ("type", ObjectKind::Type, "DROP TYPE"),
    ];
    const ROUTINES: [(&str, RoutineObject, &str); 3] = [
        ("function", RoutineObject::Function, "DROP FUNCTION"),
        ("procedure", RoutineObject::Procedure, "DROP PROCEDURE"),
        ("routine", RoutineObject::Routine, "DROP ROUTINE"),
    ];
    for (word, object, tag) in RELATIONS {
        if !cursor.eat_word(word) {
            continue;
        }
        if object == ObjectKind::Index {
            cursor.eat_word("concurrently");
        }
        let if_exists = cursor.eat_words(&["if", "exists"]);
        let mut names = vec![cursor.schema_name("a name")?];
        while cursor.eat(&Kind::Comma) {
            names.push(cursor.schema_name("a name")?);
        }
        let cascade = behaviour(cursor);
        cursor.finish(END)?;
        let kind = ChangeKind::Drop {
            object,
            names,
            if_exists,
            cascade,
        };
        return Ok(Some((kind, tag)));
    }
    if cursor.eat_word("trigger") {
        let if_exists = cursor.eat_words(&["if", "exists"]);
        let (name, table) = trigger(cursor)?;
        behaviour(cursor);
        cursor.finish(END)?;
        let kind = ChangeKind::DropTrigger {
            name,
            table,
            if_exists,
        };
        return Ok(Some((kind, "DROP TRIGGER")));
    }
    for (word, object, tag) in ROUTINES {
        if !cursor.eat_word(word) {
            continue;
        }
        let if_exists = cursor.eat_words(&["if", "exists"]);
        let mut routines = vec![routine_name(cursor)?];
        while cursor.eat(&Kind::Comma) {
            routines.push(routine_name(cursor)?);
        }
        let cascade = behaviour(cursor);
        cursor.finish(END)?;
        let kind = ChangeKind::DropRoutine {
            object,
            routines,
            if_exists,
            cascade,
        };
        return Ok(Some((kind, tag)));
    }
    Ok(None)
}

/// `name ON table`
fn trigger(cursor: &mut Cursor<'_>) -> Parsed<(Name, Name)> {
    let name = cursor.name("a trigger name")?;
    cursor.expect_words(&["on"])?;
    Ok((name, cursor.schema_name("a table name")?))
}

/// A routine's name, with the types of its parameters if they are given.
fn routine_name(cursor: &mut Cursor<'_>) -> Parsed<RoutineName> {
    let name = cursor.schema_name("a name")?;
    if !cursor.at(&Kind::LParen) {
        let arguments = None;
        return Ok(RoutineName { name, arguments });
    }
    let mut inside = cursor.parenthesised()?;
    let mut arguments = Vec::new();
    while !inside.is_done() {
        let out = inside.eat_word("out");
        if !out && !inside.eat_word("inout") {
            inside.eat_word("in");
        }
        let start = inside;
        let data_type = match data_type::serialless(&mut inside) {
            Ok(found) if inside.is_done() || inside.at(&Kind::Comma) => found,
            _ => {
                // A parameter's name before its type.
                inside = start;
                inside.name("a type")?;
                data_type::serialless(&mut inside)?
            }
        };
        if !out {
            arguments.push(data_type);
        }
        if !inside.is_done() {
            inside.expect(&Kind::Comma)?;
        }
    }
    let arguments = Some(arguments);
    Ok(RoutineName { name, arguments })
}

/// Whether CASCADE follows, rather than RESTRICT or nothing.
fn behaviour(cursor: &mut Cursor<'_>) -> bool {
    let cascade = cursor.eat_word("cascade");
    if !cascade {
        cursor.eat_word("restrict");
    }
    cascade
}

/// `TRUNCATE`, from after this word.
fn truncate(cursor: &mut Cursor<'_>) -> Parsed<ChangeKind> {
    cursor.eat_word("table");
    let mut names = Vec::new();
    loop {
        cursor.eat_word("only");
        names.push(cursor.schema_name("a table name")?);
        cursor.eat(&Kind::Mul);
        if !cursor.eat(&Kind::Comma) {
            break;
        }
    }
    let restart = cursor.eat_words(&["restart", "identity"]);
    if !restart {
        cursor.eat_words(&["continue", "identity"]);
    }
    let cascade = behaviour(cursor);
    cursor.finish(END)?;
    Ok(ChangeKind::Truncate {
        names,
        restart,
        cascade,
    })
}

/// `COMMENT ON`, from after these words: comments are not kept.
fn comment(cursor: &mut Cursor<'_>) -> Parsed<ChangeKind> {
    let mut relations = Vec::new();
    let (mut of_type, mut of_trigger) = (None, None);
    if cursor.eat_word("type") {
        of_type = Some(cursor.schema_name("a name")?);
    } else if cursor.eat_word("trigger") {
        of_trigger = Some(trigger(cursor)?);
    } else if cursor.at_any(&["table", "view", "index", "sequence"]) {
        cursor.next();
        relations.push(cursor.schema_name("a name")?);
    }
    let is = |at: &Cursor<'_>| at.at_word("is");
    cursor.take_until(is);
    cursor.expect_words(&["is"])?;
    if !cursor.eat_word("null") {
        cursor.string()?;
    }
    cursor.finish(END)?;
    Ok(match (of_type, of_trigger) {
        (Some(name), _) => ChangeKind::AcceptedOfType(name),
        (None, Some((name, table))) => ChangeKind::AcceptedOfTrigger { name, table },
        (None, None) => ChangeKind::Accepted { relations },
    })
}

/// GRANT and REVOKE, from after this word: there are no privileges.
fn privileges(cursor: &mut Cursor<'_>) -> Parsed<ChangeKind> {
    let ends = |at: &Cursor<'_>| at.at_any(&["to", "from"]);
    let mut before = cursor.take_until(ends);
    if cursor.is_done() {
        return Err(cursor.syntax_error());
    }
    let mut relations = Vec::new();
    before.take_until(|at| at.at_word("on"));
    if before.eat_word("on") {
        const OTHERS: [&str; 12] = [
            "all",
            "schema",
            "database",
            "function",
            "procedure",
            "routine",
            "language",
            "sequence",
            "tablespace",
            "type",
            "domain",
            "foreign",
        ];
        if !before.at_any(&OTHERS) {
            before.eat_word("table");
            relations.push(before.schema_name("a table name")?);
            while before.eat(&Kind::Comma) {
                relations.push(before.schema_name("a table name")?);
            }
        }
    }
    Ok(ChangeKind::Accepted { relations })
}

/// `ALTER …`, from after this word.
fn alter(cursor: &mut Cursor<'_>) -> Parsed<Option<(ChangeKind, &'static str)>> {
    if cursor.eat_words(&["default", "privileges"]) {
        let relations = Vec::new();
        let kind = ChangeKind::Accepted { relations };
        return Ok(Some((kind, "ALTER DEFAULT PRIVILEGES")));
    }
    const OTHERS: [(&str, &str); 4] = [
        ("function", "ALTER FUNCTION"),
        ("procedure", "ALTER PROCEDURE"),
        ("schema", "ALTER SCHEMA"),
        ("database", "ALTER DATABASE"),
    ];
    for (word, tag) in OTHERS {
        if cursor.at_word(word) {
            let tokens = cursor.tokens_left();
            let mut pairs = tokens.windows(2);
            if pairs.any(|pair| pair[0].is_word("owner") && pair[1].is_word("to")) {
                let relations = Vec::new();
                return Ok(Some((ChangeKind::Accepted { relations }, tag)));
            }
        }
    }
    if cursor.at_word("trigger") {
        let mut at = *cursor;
        at.eat_word("trigger");
        let (name, table) = trigger(&mut at)?;
        if at.eat_words(&["rename", "to"]) {
            let to = at.name("a trigger name")?;
            at.finish(END)?;
            let kind = ChangeKind::RenameTrigger { name, table, to };
            return Ok(Some((kind, "ALTER TRIGGER")));
        }
        return Ok(None);
    }
    if cursor.eat_word("type") {
        return alter_type(cursor).map(|kind| Some((kind, "ALTER TYPE")));
    }
    if cursor.eat_word("sequence") {
        return alter_sequence(cursor).map(|kind| Some((kind, "ALTER SEQUENCE")));
    }
    const KINDS: [(&str, ObjectKind, &str); 3] = [
        ("table", ObjectKind::Table, "ALTER TABLE"),
        ("view", ObjectKind::View, "ALTER VIEW"),
        ("index", ObjectKind::Index, "ALTER INDEX"),
    ];
    for (word, object, tag) in KINDS {
        if cursor.eat_word(word) {
            let if_exists = cursor.eat_words(&["if", "exists"]);
            cursor.eat_word("only");
            let name = cursor.schema_name("a name")?;
            cursor.eat(&Kind::Mul);
            let mut actions = Vec::new();
            loop {
                actions.push(action(cursor, object, &name)?);
                if !cursor.eat(&Kind::Comma) {
                    break;
                }
            }
            cursor.finish(END)?;
            let kind = ChangeKind::AlterTable {
                object,
                name,
                if_exists,
                actions,
            };
            return Ok(Some((kind, tag)));
        }
    }
    Ok(None)
}

fn alter_type(cursor: &mut Cursor<'_>) -> Parsed<ChangeKind> {
    let mut at = *cursor;
    let name = at.schema_name("a type name")?;
    if at.eat_words(&["owner", "to"]) {
        at.next();
        at.finish(END)?;
        return Ok(ChangeKind::AcceptedOfType(name));
    }
    enumeration::alter_type(cursor).map(ChangeKind::AddLabel)
}

fn alter_sequence(cursor: &mut Cursor<'_>) -> Parsed<ChangeKind> {
    let if_exists = cursor.eat_words(&["if", "exists"]);
    let name = cursor.schema_name("a sequence name")?;
    if cursor.eat_words(&["owner", "to"]) {
        return Ok(ChangeKind::Accepted {
            relations: vec![name],
        });
    }
    if cursor.eat_words(&["rename", "to"]) {
        let actions = vec![Action::RenameRelation(cursor.name("a name")?)];
        cursor.finish(END)?;
        return Ok(ChangeKind::AlterTable {
            object: ObjectKind::Sequence,
            name,
            if_exists,
            actions,
        });
    }
    if cursor.is_done() {
        return Err(cursor.syntax_error());
    }
    let settings = sequence::settings(cursor, true)?;
    Ok(ChangeKind::AlterSequence {
        name,
        if_exists,
        settings,
    })
}

/// An action of ALTER TABLE, ALTER VIEW or ALTER INDEX.
fn action(cursor: &mut Cursor<'_>, object: ObjectKind, table: &Name) -> Parsed<Action> {
    let start = *cursor;
    if cursor.eat_words(&["rename", "to"]) {
        return cursor.name("a name").map(Action::RenameRelation);
    }
    if cursor.eat_words(&["owner", "to"]) || cursor.eat_words(&["set", "tablespace"]) {
        cursor.next();
        return Ok(Action::Accepted { column: None });
    }
    if object == ObjectKind::Table {
        if cursor.eat_word("rename") {
            return rename(cursor);
        }
        if cursor.eat_word("add") {
            return add(cursor, table);
        }
        if cursor.eat_word("drop") {
            return drop_action(cursor);
        }
        if cursor.eat_words(&["validate", "constraint"]) {
            return cursor
                .name("a constraint name")
                .map(Action::ValidateConstraint);
        }
        if cursor.eat_words(&["alter", "constraint"]) {
            let name = cursor.name("a constraint name")?;
            let deferrability = table::deferrability(cursor)?.unwrap_or_default();
            return Ok(Action::AlterConstraint {
                name,
                deferrability,
            });
        }
        if cursor.eat_word("alter") {
            cursor.eat_word("column");
            let column = cursor.name("a column name")?;
            if let Some(action) = alter_column(cursor, column)? {
                return Ok(action);
            }
        }
        *cursor = start;
        const STORAGE: [&[&str]; 8] = [
            &["replica", "identity"],
            &["cluster", "on"],
            &["set", "without", "cluster"],
            &["set", "logged"],
            &["set", "unlogged"],
            &["set", "without", "oids"],
            &["set", "access", "method"],
            &["reset"],
        ];
        let parameters = cursor.at_word("set")
            && cursor
                .peek_at(1)
                .is_some_and(|token| token.kind == Kind::LParen);
        if parameters || STORAGE.iter().any(|words| cursor.at_words(words)) {
            cursor.take_until(|at| at.at(&Kind::Comma));
            return Ok(Action::Accepted { column: None });
        }
    }
    *cursor = start;
    let form = cursor.take_until(|at| at.at(&Kind::Comma));
    let mut shown = Vec::new();
    for token in form.tokens_left().iter().take(4) {
        if matches!(&token.kind, Kind::Word(word) if word.quote_style.is_none()) {
            shown.push(cursor.file().slice(token.span).to_uppercase());
        }
    }
    if shown.is_empty() {
        return Err(form.syntax_error());
    }
    let word = match object {
        ObjectKind::View => "VIEW",
        ObjectKind::Index => "INDEX",
        _ => "TABLE",
    };
    let construct = format!("ALTER {word} … {}", shown.join(" "));
    Err(Diagnostic::unsupported(construct, form.whole_span()))
}

/// After RENAME of a table.
fn rename(cursor: &mut Cursor<'_>) -> Parsed<Action> {
    if cursor.eat_word("constraint") {
        let name = cursor.name("a constraint name")?;
        cursor.expect_words(&["to"])?;
        let to = cursor.name("a constraint name")?;
        return Ok(Action::RenameConstraint { name, to });
    }
    cursor.eat_word("column");
    let column = cursor.name("a column name")?;
    cursor.expect_words(&["to"])?;
    let to = cursor.name("a column name")?;
    Ok(Action::RenameColumn { column, to })
}

/// After ADD.
fn add(cursor: &mut Cursor<'_>, table: &Name) -> Parsed<Action> {
    const CONSTRAINTS: [&str; 6] = [
        "constraint",
        "primary",
        "unique",
        "foreign",
        "check",
        "exclude",
    ];
    if !cursor.at_any(&CONSTRAINTS) {
        cursor.eat_word("column");
        let if_not_exists = cursor.eat_words(&["if", "not", "exists"]);
        let (column, constraints) = table::added_column(cursor, table)?;
        return Ok(Action::AddColumn {
            column,
            constraints,
            if_not_exists,
        });
    }
    if let Some(action) = using_index(cursor)? {
        return Ok(action);
    }
    let mut ahead = *cursor;
    let form = ahead.take_until(|at| at.at(&Kind::Comma));
    let mut pairs = form.tokens_left().windows(2);
    let not_valid = pairs.any(|pair| pair[0].is_word("not") && pair[1].is_word("valid"));
    let constraint = table::table_constraint(cursor)?;
    Ok(Action::AddConstraint {
        constraint,
        not_valid,
    })
}

/// `[CONSTRAINT name] PRIMARY KEY | UNIQUE USING INDEX index`, if it is one.
fn using_index(cursor: &mut Cursor<'_>) -> Parsed<Option<Action>> {
    let mut at = *cursor;
    let name = match at.eat_word("constraint") {
        true => Some(at.name("a constraint name")?),
        false => None,
    };
    let primary = at.eat_words(&["primary", "key"]);
    if !primary && !at.eat_word("unique") {
        return Ok(None);
    }
    if at.at_words(&["using", "index", "tablespace"]) || !at.eat_words(&["using", "index"]) {
        return Ok(None);
    }
    let index = at.name("an index name")?;
    at.eat_words(&["not", "deferrable"]);
    *cursor = at;
    Ok(Some(Action::AddUsingIndex {
        name,
        primary,
        index,
    }))
}

/// After DROP of a table's action.
fn drop_action(cursor: &mut Cursor<'_>) -> Parsed<Action> {
    let is_constraint = cursor.eat_word("constraint");
    if !is_constraint {
        cursor.eat_word("column");
    }
    let if_exists = cursor.eat_words(&["if", "exists"]);
    let name = cursor.name(match is_constraint {
        true => "a constraint name",
        false => "a column name",
    })?;
    let cascade = behaviour(cursor);
    Ok(match is_constraint {
        true => Action::DropConstraint {
            name,
            if_exists,
            cascade,
        },
        false => Action::DropColumn {
            column: name,
            if_exists,
            cascade,
        },
    })
}

/// After ALTER COLUMN and its name.
fn alter_column(cursor: &mut Cursor<'_>, column: Name) -> Parsed<Option<Action>> {
    if cursor.eat_words(&["set", "not", "null"]) {
        let not_null = true;
        return Ok(Some(Action::SetNotNull { column, not_null }));
    }
    if cursor.eat_words(&["drop", "not", "null"]) {
        let not_null = false;
        return Ok(Some(Action::SetNotNull { column, not_null }));
    }
    if cursor.eat_words(&["set", "default"]) {
        let default = table::default_value(cursor)?;
        return Ok(Some(Action::SetDefault { column, default }));
    }
    if cursor.eat_words(&["drop", "default"]) {
        let default = ColumnDefault::Null;
        return Ok(Some(Action::SetDefault { column, default }));
    }
    if cursor.eat_words(&["add", "generated"]) {
        let always = table::identity(cursor, None)?;
        return Ok(Some(Action::AddIdentity { column, always }));
    }
    if cursor.eat_words(&["set", "generated"]) {
        let always = cursor.eat_word("always");
        if !always {
            cursor.expect_words(&["by", "default"])?;
        }
        return Ok(Some(Action::SetGenerated { column, always }));
    }
    if cursor.eat_words(&["drop", "expression"]) {
        let if_exists = cursor.eat_words(&["if", "exists"]);
        return Ok(Some(Action::DropExpression { column, if_exists }));
    }
    if cursor.eat_words(&["drop", "identity"]) {
        let if_exists = cursor.eat_words(&["if", "exists"]);
        return Ok(Some(Action::DropIdentity { column, if_exists }));
    }
    if cursor.eat_words(&["set", "data", "type"]) || cursor.eat_word("type") {
        let declared = table::column_type(cursor)?;
        if cursor.eat_word("collate") {
            table::collation(cursor)?;
        }
        let mut using = None;
        if cursor.eat_word("using") {
            let expression = cursor.take_until(|at| at.at(&Kind::Comma));
            using = Some((expression.expression()?, expression.whole_span()));
        }
        return Ok(Some(Action::SetType {
            column,
            declared,
            using,
        }));
    }
    let storage = cursor.at_words(&["set", "statistics"])
        || cursor.at_words(&["set", "storage"])
        || cursor.at_words(&["set", "compression"]);
    if storage {
        cursor.take_until(|at| at.at(&Kind::Comma));
        let column = Some(column);
        return Ok(Some(Action::Accepted { column }));
    }
    Ok(None)
}
