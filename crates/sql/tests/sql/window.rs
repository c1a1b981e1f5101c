//! Window functions answer what PostgreSQL 15 answers, work no more than they have to, and hold no more than they may.
//!
//! `window.txt` has its answers, in the form of `json.txt`.

use crate::support::Database;

const SCHEMA: &str = "
    CREATE TABLE sale (
        id integer PRIMARY KEY, shop text, day integer, amount numeric(10, 2), n bigint, ok boolean, f double precision
    );";

const ROWS: &str = "INSERT INTO sale VALUES \
    (1, 'a', 1, 5.00, 10, true, 0.1), (2, 'b', 1, 2.50, 20, true, 0.2), (3, 'a', 3, NULL, 5, false, 0.7), \
    (4, NULL, 2, 7.25, NULL, NULL, 1e10), (5, 'b', NULL, 5.00, -3, false, NULL), \
    (6, 'c', 5, 0.10, 9000000000, true, -1e10), (7, 'a', 3, 10.00, 1, true, 0.3), (8, 'b', NULL, 3, 2, false, 0.4)";

#[test]
fn statements_answer_as_in_postgresql() {
    let mut database = Database::with(SCHEMA, &[ROWS]);
    database.check_all(include_str!("window.txt"), 100);
}

/// Windows of one partition and order are one step of work, behind the groups that they are over.
#[test]
fn windows_are_sorted_once_and_behind_the_groups() {
    let database = Database::with(
        &format!(
            "{SCHEMA} CREATE PROCEDURE p(least bigint) LANGUAGE plpgsql AS $$
            BEGIN
                PERFORM shop, rank() OVER w, sum(sum(n)) OVER (PARTITION BY shop ORDER BY count(*)), \
                    lag(day) OVER (ORDER BY day)
                FROM sale GROUP BY shop, day HAVING sum(n) > least
                WINDOW w AS (PARTITION BY shop ORDER BY count(*));
            END $$;"
        ),
        &[],
    );
    let expected = "\
0: Select
  Full Scan on sale
  Aggregate count, sum by shop, day
  Filter: aggregate.2 > least
  Window rank, sum by (shop) in the order of (aggregate.1)
  Window lag by () in the order of (day)
";
    assert_eq!(database.application.procedures[0].explain(), expected);
}

/// An aggregate over frames that only grow adds each row once: otherwise this would take minutes.
#[test]
fn frames_that_grow_are_not_computed_anew() {
    let mut database = Database::with(SCHEMA, &[]);
    database.check(
        "SELECT max(s), min(t), count(*) FROM ( \
            SELECT sum(x) OVER (ORDER BY x) AS s, \
                sum(x) OVER (ORDER BY x ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS t \
            FROM generate_series(1, 50000) AS x) AS o",
        "1250025000|50000|50000",
    );
}

/// A parameter is an offset, and its type follows from its place.
#[test]
fn offsets_and_buckets_are_parameters() {
    use anabranch_types::Value;
    let mut database = Database::with(SCHEMA, &[ROWS]);
    let answer = database.run_with(
        "SELECT sum(id) OVER (ORDER BY id ROWS $1 PRECEDING), ntile($2) OVER (ORDER BY id) FROM sale WHERE id < 5",
        &[Value::Int(1), Value::Int(2)],
    );
    assert_eq!(answer.as_deref(), Ok("1|1;3|1;5|2;7|2"));
}
