//! Functions do what PostgreSQL 15 does: CASE, ASSERT, labels, fields of records, STRICT.
//!
//! `schemas/control_flow.sql` declares them, and `schemas/control_flow.txt` has PostgreSQL's answers, as `functions.txt`
//! has.

use anabranch_sql::{TransactionError, expression::text::format_text, testing::ready};
use anabranch_types::Value;

use crate::support::Database;

const ROWS: &str = "INSERT INTO items VALUES (1, 'one', 10), (2, 'two', 20), (3, 'three', NULL)";

/// The answer to `SELECT * FROM name(arguments)`.
fn call(database: &mut Database, text: &str) -> String {
    let call = text.strip_prefix("SELECT * FROM ").expect("a call");
    let (name, arguments) = call.split_once('(').expect("its arguments");
    let arguments = arguments.trim_end_matches(')').split(", ");
    let value = |argument: &str| match argument {
        "NULL" => Value::Null,
        number => Value::Int(number.parse().expect("a number")),
    };
    let arguments: Vec<Value> = arguments.filter(|a| !a.is_empty()).map(value).collect();
    let procedure = database
        .application
        .find(name)
        .expect("it is declared")
        .clone();
    let mut transaction = database.store.begin();
    match ready(procedure.call(&mut transaction, &arguments)) {
        Ok(result) => {
            let shown = |row: &Vec<Value>| {
                let cells = row.iter().zip(result.columns.iter());
                let cells = cells.map(|(value, (_, data_type))| match value {
                    Value::Null => "-".to_owned(),
                    value => format_text(value, data_type),
                });
                cells.collect::<Vec<String>>().join("|")
            };
            result.rows.iter().map(shown).collect::<Vec<_>>().join(";")
        }
        Err(TransactionError::Failed(error)) => format!("error {}", error.code),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn functions_do_what_they_do_in_postgresql() {
    let mut database = Database::with(include_str!("schemas/control_flow.sql"), &[ROWS]);
    let mut wrong = Vec::new();
    let mut asked = 0;
    let mut lines = include_str!("schemas/control_flow.txt").lines();
    while let Some(line) = lines.next() {
        let text = line.strip_prefix("> ").expect("a call");
        let expected = lines.next().expect("an answer");
        let answer = call(&mut database, text);
        if answer != expected {
            wrong.push(format!(
                "{text}\n  PostgreSQL: {expected}\n  here:       {answer}"
            ));
        }
        asked += 1;
    }
    assert!(asked > 50, "only {asked} calls");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A subquery gives several columns their values.
#[test]
fn a_subquery_is_assigned_to_several_columns() {
    let schema = include_str!("schemas/control_flow.sql");
    let mut database = Database::with(schema, &[ROWS]);
    database.check(
        "UPDATE items SET (name, stock) = (SELECT o.name || '2', o.stock + 1 FROM items AS o WHERE o.id = items.id + 1) \
         RETURNING id, name, stock",
        "1|two2|21;2|three2|-;3|-|-",
    );
    database.check(
        "UPDATE items SET (name, stock) = (SELECT 'n', count(*) FROM items) WHERE id = 1 RETURNING name, stock",
        "n|3",
    );
    database.refuse("UPDATE items SET (name, stock) = (SELECT 'x')", "42601");
    database.refuse(
        "UPDATE items SET (name, stock) = (SELECT name, stock FROM items)",
        "21000",
    );
    database.refuse(
        "UPDATE items SET (name, stock) = (SELECT name, stock FROM items LIMIT 1)",
        "0A000",
    );
    database.refuse(
        "UPDATE items SET (name, stock) = (SELECT 'x', random()::integer)",
        "0A000",
    );
}

/// Where a label is wrong, PostgreSQL has the same words.
#[test]
fn labels_are_checked() {
    for (body, message) in [
        (
            "LOOP EXIT here; END LOOP;",
            "there is no label \"here\" attached",
        ),
        (
            "<<a>> LOOP EXIT; END LOOP b;",
            "end label \"b\" differs from block's label \"a\"",
        ),
        (
            "LOOP EXIT; END LOOP b;",
            "end label \"b\" specified for unlabeled block",
        ),
        (
            "<<b>> BEGIN LOOP CONTINUE b; END LOOP; END;",
            "block label \"b\" cannot be used in CONTINUE",
        ),
        (
            "<<b>> BEGIN EXIT; END;",
            "EXIT cannot be used outside a loop",
        ),
    ] {
        let text = format!(
            "CREATE FUNCTION f() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN {body} RETURN 1; END $$;"
        );
        let files = vec![anabranch_sql::SourceFile::new("f.sql", text)];
        let problems = anabranch_sql::load(files).expect_err(body);
        assert_eq!(problems[0].code, "42601", "{body}");
        assert!(
            problems[0].message.contains(message),
            "{body}: {problems:?}"
        );
    }
}
