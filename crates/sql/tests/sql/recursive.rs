//! WITH RECURSIVE answers what PostgreSQL 15 answers, and holds no more than it may.
//!
//! `recursive.txt` has its answers, in the form of `json.txt`.

use crate::support::Database;

const SCHEMA: &str = "
    CREATE TABLE part (id integer PRIMARY KEY, parent integer, name text, cost numeric(8, 2));
    CREATE TABLE link (a integer, b integer, PRIMARY KEY (a, b));";

const ROWS: &[&str] = &[
    "INSERT INTO part VALUES (1, NULL, 'car', 10), (2, 1, 'engine', 20), (3, 1, 'door', 5), (4, 2, 'piston', 3.5), \
        (5, 2, 'valve', 1), (6, 4, 'ring', 0.25), (7, NULL, 'bike', 2)",
    "INSERT INTO link VALUES (1, 2), (2, 3), (3, 1), (3, 4), (5, 1)",
];

/// In a scalar subquery it is refused when its value is needed.
#[test]
fn a_reference_to_an_outer_query_is_refused() {
    let mut database = Database::with(
        "CREATE TABLE a (id integer PRIMARY KEY, n integer)",
        &["INSERT INTO a VALUES (1, 2)"],
    );
    let of = "WITH RECURSIVE r (i) AS (SELECT n UNION SELECT i + 1 FROM r WHERE i < 9) SELECT max(i) FROM r";
    let plain = "WITH r AS (SELECT n AS i) SELECT i FROM r";
    for with in [of, plain] {
        for statement in [
            format!("SELECT ({with}) FROM a"),
            format!("SELECT id FROM a WHERE ({with}) > 1"),
            format!("SELECT id FROM a WHERE n IN ({with})"),
            format!("SELECT id FROM a WHERE EXISTS ({with})"),
            format!("SELECT id FROM a WHERE id = (SELECT 1 WHERE EXISTS ({with}))"),
            format!("SELECT ARRAY({with}) FROM a"),
            format!("SELECT id FROM a, LATERAL ({with}) AS l"),
        ] {
            database.refuse(&statement, "0A000");
        }
        let unused = format!("SELECT id, CASE WHEN n > 2 THEN ({with}) END FROM a");
        database.check(&unused, "1|-");
    }
}

#[test]
fn statements_answer_as_in_postgresql() {
    let mut database = Database::with(SCHEMA, ROWS);
    database.check_all(include_str!("recursive.txt"), 60);
}

/// A plan shows both parts of the query.
#[test]
fn plans_show_the_base_and_the_step() {
    let database = Database::with(
        &format!(
            "{SCHEMA} CREATE INDEX part_by_parent ON part (parent);
            CREATE PROCEDURE p(root integer) LANGUAGE plpgsql AS $$
            BEGIN
                PERFORM id FROM (
                    WITH RECURSIVE below AS (
                        SELECT id FROM part WHERE id = root
                        UNION ALL SELECT p.id FROM below JOIN part p ON p.parent = below.id
                    ) SELECT id FROM below
                ) AS o;
            END $$;"
        ),
        &[],
    );
    let expected = "\
0: Select
  Nested Loop with query1
    CTE 0
      Recursive Union All
        Key Lookup on part
          Key: id = root
        Nested Loop with query1
          CTE Scan 0
        Range Scan on part using part_by_parent
          Range: parent = query1.1
    Nested Loop with query1
      CTE Scan 0
";
    assert_eq!(database.application.procedures[0].explain(), expected);
}

/// A recursion that does not end holds no more than a statement may.
#[test]
fn a_recursion_without_an_end_is_refused() {
    let mut database = Database::with(SCHEMA, &[]);
    let long = "repeat('x', 100000)";
    database.refuse(
        &format!(
            "WITH RECURSIVE t (n) AS (SELECT {long} UNION ALL SELECT {long} FROM t) SELECT count(*) FROM t"
        ),
        "53200",
    );
}
