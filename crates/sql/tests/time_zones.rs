//! Statements in several time zones answer what PostgreSQL 15 answers.
//!
//! `time_zones.txt` has its answers: after `zone NAME`, each statement behind `> ` and the answer in the next line.
//! `crates/bench/tests/oracle_values.rs` asks a server the same again.

#[allow(dead_code)]
mod support;

use anabranch_sql::testing::ready;
use anabranch_types::{DataType, TimeZone, Value, text::format_value};
use support::Database;

/// A statement's answer in a time zone: columns joined by `|`, rows by `;`, NULL as `-`.
fn ask(database: &mut Database, text: &str, zone: &TimeZone) -> String {
    let statement = match database.application.statement(text) {
        Ok(statement) => statement,
        Err(problems) => return format!("error {}", problems[0].code),
    };
    let mut transaction = database.store.begin();
    transaction.zone = zone.clone();
    let result = match ready(statement.execute(&mut transaction, &[])) {
        Ok(result) => result,
        Err(anabranch_sql::TransactionError::Failed(error)) => {
            transaction.rollback();
            return format!("error {}", error.code);
        }
        Err(other) => panic!("{other:?}"),
    };
    let cell = |(value, (_, data_type)): (&Value, &(String, DataType))| match value {
        Value::Null => "-".to_owned(),
        value => format_value(value, data_type, zone),
    };
    let row = |row: &Vec<Value>| {
        let cells: Vec<String> = row.iter().zip(result.columns.iter()).map(cell).collect();
        cells.join("|")
    };
    result.rows.iter().map(row).collect::<Vec<_>>().join(";")
}

#[test]
fn statements_answer_as_in_postgresql() {
    let mut database = Database::with("CREATE TABLE nothing (id int PRIMARY KEY);", &[]);
    let mut zone = TimeZone::UTC;
    let mut wrong = Vec::new();
    let mut asked = 0;
    let mut lines = include_str!("time_zones.txt").lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("zone ") {
            zone = TimeZone::named(name).unwrap();
            continue;
        }
        let statement = line.strip_prefix("> ").expect("a statement");
        let expected = lines.next().expect("an answer");
        let answer = ask(&mut database, statement, &zone);
        if answer != expected {
            wrong.push(format!(
                "{zone}: {statement}\n  PostgreSQL: {expected}\n  here:       {answer}"
            ));
        }
        asked += 1;
    }
    assert!(asked > 600, "only {asked} statements");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
