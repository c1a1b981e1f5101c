//! Statements over `json` and `jsonb` answer what PostgreSQL 15 answers.
//!
//! `json.txt` has its answers: each statement behind `> ` and the answer in the next line: columns joined by `|`, rows by
//! `;`, NULL as `-`, line ends as `\n`, and the code of an error.

use anabranch_types::{Jsonb, Value};

use crate::support::Database;

const SCHEMA: &str = "
    CREATE TABLE doc (
        id int PRIMARY KEY,
        data jsonb NOT NULL DEFAULT '{}'::jsonb,
        note json,
        CHECK (jsonb_typeof(data) = 'object')
    );";

const ROWS: &str = "INSERT INTO doc VALUES \
    (1, '{\"name\":\"ann\",\"tags\":[\"x\",\"y\"],\"n\":1}', '{\"k\" : [1,  2]}'), \
    (2, '{\"name\":\"bob\",\"n\":1.0}', '{\"k\":\"q\\\"r\"}'), \
    (3, '{\"tags\":[],\"n\":2}', NULL), \
    (4, '{}', NULL), \
    (5, '{\"n\":1.0,\"name\":\"bob\"}', NULL)";

#[test]
fn statements_answer_as_in_postgresql() {
    let mut database = Database::with(SCHEMA, &[ROWS]);
    database.check_all(include_str!("json.txt"), 200);
}

/// A parameter takes its type from its use: a document where a document stands, a text where a key does.
#[test]
fn parameters_take_their_types_from_their_use() {
    let mut database = Database::with(SCHEMA, &[ROWS]);
    let of = |text: &str| Value::Jsonb(Jsonb::parse(text).unwrap());
    for (statement, parameters, expected) in [
        (
            "SELECT data -> $1 FROM doc WHERE id = 1",
            vec![Value::text("n")],
            "1",
        ),
        (
            "SELECT count(*) FROM doc WHERE data @> $1",
            vec![of("{\"n\": 1}")],
            "3",
        ),
        (
            "INSERT INTO doc (id, data) VALUES (6, $1)",
            vec![of("{\"b\": 1, \"a\": 2}")],
            "#1",
        ),
        (
            "UPDATE doc SET data = data || $1 WHERE id = $2 RETURNING data",
            vec![of("{\"b\": null}"), Value::Int(6)],
            "{\"a\": 2, \"b\": null}",
        ),
        (
            "SELECT data #>> $1 FROM doc WHERE id = 1",
            vec![Value::Array([Value::text("tags"), Value::text("1")].into())],
            "y",
        ),
    ] {
        let answer = database.run_with(statement, &parameters);
        assert_eq!(answer.as_deref(), Ok(expected), "{statement}");
    }
}

/// What has no order and no equality here has neither keys nor indexes.
#[test]
fn keys_of_documents_are_refused() {
    for declaration in [
        "CREATE TABLE t (data jsonb PRIMARY KEY);",
        "CREATE TABLE t (id int PRIMARY KEY, data jsonb UNIQUE);",
        "CREATE TABLE t (id int PRIMARY KEY, data json); CREATE INDEX ON t (data);",
    ] {
        let files = vec![anabranch_sql::SourceFile::new("schema.sql", declaration)];
        let problems = anabranch_sql::load(files).unwrap_err();
        assert_eq!(problems[0].code, "0A000", "{declaration}: {problems:?}");
    }
}
