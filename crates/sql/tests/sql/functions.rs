//! Functions, operators, aggregates and grouping sets answer what PostgreSQL 15 answers.
//!
//! `functions.txt` has its answers: each statement behind `> ` and the answer in the next line: columns joined by `|`,
//! rows by `;`, NULL as `-`, line ends as `\n`, and the code of an error.

use crate::support::Database;

const SCHEMA: &str = "
    CREATE TABLE n (
        id integer PRIMARY KEY, g text, i integer, b bigint, d numeric(10, 2), e numeric, f double precision, r real,
        t text, a integer[], x text[]
    );";

const ROWS: [&str; 5] = [
    "INSERT INTO n VALUES (1, 'a', 3, 300, 1.50, 0.001, 2.5, 1.5, 'foo bar', ARRAY[1, 2, 3, 2], ARRAY['p', 'q', NULL])",
    "INSERT INTO n VALUES (2, 'a', 5, 500000000000, 2.25, 12.34567, -1.25, 2.25, 'The quick brown fox', \
     ARRAY[]::integer[], ARRAY['x'])",
    "INSERT INTO n VALUES (3, 'b', NULL, 7, NULL, -3, 1e10, 0.1, 'a1b22c333', NULL, NULL)",
    "INSERT INTO n VALUES (4, 'b', 3, 9, 99999.99, 100000.00001, 3.75, 7, '2024-02-29', ARRAY[4, 5, 6, 7], \
     ARRAY['a', 'b', 'c'])",
    "INSERT INTO n VALUES (5, 'c', 12, 12, 0.01, 5, 0, 1, NULL, ARRAY[9], NULL)",
];

#[test]
fn statements_answer_as_in_postgresql() {
    let mut database = Database::with(SCHEMA, &ROWS);
    let mut wrong = Vec::new();
    let mut asked = 0;
    let mut lines = include_str!("functions.txt").lines();
    while let Some(line) = lines.next() {
        let statement = line.strip_prefix("> ").expect("a statement");
        let expected = lines.next().expect("an answer");
        let answer = match database.run(statement) {
            Ok(answer) => answer.replace('\n', "\\n"),
            Err(error) => format!("error {}", &error[..5]),
        };
        if answer != expected {
            wrong.push(format!(
                "{statement}\n  PostgreSQL: {expected}\n  here:       {answer}"
            ));
        }
        asked += 1;
    }
    assert!(asked > 250, "only {asked} statements");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What PostgreSQL computes and this server does not is refused, not approximated.
#[test]
fn what_is_not_computed_exactly_is_refused() {
    let mut database = Database::with(SCHEMA, &ROWS);
    for statement in [
        "SELECT power(2.0, 0.5)",
        "SELECT log(2.0)",
        "SELECT log(2, 64)",
        "SELECT ln(2.0)",
        "SELECT exp(1.0)",
        "SELECT regexp_replace('a', 'a', 'b', 'x')",
        "SELECT regexp_match('a', '(a)\\1')",
        "SELECT to_date('2024 1', 'IYYY IW')",
        "SELECT to_date('2460000 1', 'J DD')",
        "SELECT array_fill(1, ARRAY[2, 2])",
        "SELECT array_fill(1, ARRAY[2], ARRAY[3])",
        "SELECT ~ i + 1 FROM n",
        "SELECT percentile_cont(f) WITHIN GROUP (ORDER BY f) FROM n GROUP BY f",
        "SELECT count(*) OVER (), g FROM n GROUP BY ROLLUP (g)",
        "SELECT g, (SELECT 1) FROM n GROUP BY ROLLUP (g)",
        "SELECT rank(1) WITHIN GROUP (ORDER BY f) FROM n",
    ] {
        database.refuse(statement, "0A000");
    }
}

/// A pattern whose parts can match in very many ways is refused before it takes long.
#[test]
fn a_regular_expression_ends() {
    let mut database = Database::with(SCHEMA, &ROWS);
    database.check(
        "SELECT length(regexp_replace(repeat('ab ', 20000), '\\s+', '', 'g'))",
        "40000",
    );
    database.check(
        "SELECT (regexp_match(repeat('a', 3000), '(a|b)*(a)'))[2]",
        "a",
    );
    database.check(
        "SELECT length(regexp_replace(repeat('<p class=x>text</p> ', 5000), '<.*?>', '', 'g'))",
        "25000",
    );
    database.refuse(
        "SELECT regexp_match(repeat('a', 80000) || 'b', '(a*?)(a{250})(a{250})b')",
        "0A000",
    );
}

/// A value that is given for a column GENERATED ALWAYS has to say that it overrides.
#[test]
fn an_identity_is_overridden() {
    let schema = "CREATE TABLE a (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, t text);";
    let mut database = Database::with(schema, &[]);
    database.check(
        "INSERT INTO a (id, t) OVERRIDING SYSTEM VALUE VALUES (100, 'x') RETURNING id, t",
        "100|x",
    );
    database.check(
        "WITH x AS (SELECT 7 AS i) INSERT INTO a (id) OVERRIDING SYSTEM VALUE SELECT i FROM x RETURNING id",
        "7",
    );
    database.refuse("INSERT INTO a (id) VALUES (102)", "428C9");
    database.refuse(
        "INSERT INTO a (id) OVERRIDING USER VALUE VALUES (1)",
        "0A000",
    );
    database.refuse("INSERT INTO a (t) OVERRIDING VALUE VALUES ('x')", "42601");
}
