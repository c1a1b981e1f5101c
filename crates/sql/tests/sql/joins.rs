//! The rows and columns of FULL JOIN, USING and NATURAL are PostgreSQL 15's.
//!
//! `joins.txt` has its answers, in the form of `json.txt`.

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
    database.check_all(include_str!("joins.txt"), 60);
}

/// Neither side of a FULL JOIN is read by a condition behind it.
#[test]
fn conditions_come_behind_a_full_join() {
    let database = Database::with(
        &format!(
            "{SCHEMA} CREATE PROCEDURE p(one integer) LANGUAGE plpgsql AS $$
            BEGIN
                PERFORM w FROM ta FULL JOIN tb ON ta.id = tb.id JOIN tc ON tc.id = tb.id WHERE ta.id = one;
            END $$;"
        ),
        &[],
    );
    let expected = "\
0: Select
  Full Scan on ta
  Full Join Full Scan on tb
    Hash: id = id
  Filter: id = one
  Key Lookup on tc
    Key: id = id
";
    assert_eq!(database.application.procedures[0].explain(), expected);
}

/// Many rows without a match are made in pieces.
#[test]
fn a_full_join_of_many_rows_pauses() {
    let mut database = Database::with(SCHEMA, &[]);
    database.check(
        "SELECT count(*), count(a.x), count(b.x), sum(b.x) FROM generate_series(1, 40000) AS a (x)
            FULL JOIN (SELECT y AS x FROM generate_series(39000, 80000) AS y) AS b ON a.x = b.x",
        "80000|40000|41001|2439559500",
    );
}

/// A subquery in an item of FROM is computed before the item, and a function in the list of a SELECT adds no name.
#[test]
fn functions_of_subqueries_answer_as_in_postgresql() {
    let mut database = Database::with("", &[]);
    database.check_all(include_str!("list_functions.txt"), 26);
    database.check(
        "SELECT json_each.key, json_array_elements.value FROM json_each('{\"a\": 1}'), json_array_elements('[5]')",
        "a|5",
    );
    database.check(
        "SELECT ('[1, 2]'::jsonb)['1'], ('{\"1\": 7}'::jsonb)['1']",
        "2|7",
    );
    database.check(
        "SELECT ARRAY['1', '2']::int[], ARRAY[1.5, 2]::int[]",
        "{1,2}|{2,2}",
    );
    database.check(
        "SELECT (timestamp '2024-01-01' AT TIME ZONE '+02')::text, (timestamp '2024-01-01' AT TIME ZONE '+02:30')::text",
        "2024-01-01 02:00:00+00|2024-01-01 02:30:00+00",
    );
}
