//! USING and NATURAL: the columns of joins are PostgreSQL 15's.
//!
//! `using.txt` has its answers, in the form of `json.txt`.

use crate::support::Database;

const SCHEMA: &str = "
    CREATE TABLE ta (v integer, id integer PRIMARY KEY);
    CREATE TABLE tb (w text, id integer PRIMARY KEY, v integer);
    CREATE TABLE tc (id bigint PRIMARY KEY, x integer);
    CREATE TABLE td (y integer PRIMARY KEY);";

const ROWS: &[&str] = &[
    "INSERT INTO ta VALUES (10, 1), (20, 2), (30, 3)",
    "INSERT INTO tb VALUES ('b', 2, 20), ('c', 3, 31), ('d', 4, 40)",
    "INSERT INTO tc VALUES (2, 7), (3, 8)",
    "INSERT INTO td VALUES (5), (6)",
];

#[test]
fn statements_answer_as_in_postgresql() {
    let mut database = Database::with(SCHEMA, ROWS);
    database.check_all(include_str!("using.txt"), 30);
}
