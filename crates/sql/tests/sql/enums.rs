//! Enumerations: their values have the order of the labels, are equal by their labels, and are no texts.
//!
//! `enums.txt` has PostgreSQL 15's answers in the form of `functions.txt`.

use anabranch_sql::{Application, SourceFile, load, render};
use anabranch_types::Value;

use crate::support::Database;

/// As texts, the labels of both types have another order.
const SCHEMA: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
    CREATE TYPE public.color AS ENUM ('red', 'green', 'blue');
    CREATE TABLE t (
        id integer PRIMARY KEY, m mood, c public.color DEFAULT 'red'::public.color, x text, ms mood[],
        CHECK (c IN ('red', 'green'))
    );
    CREATE INDEX t_m ON t (m, id);
    CREATE TABLE p (m mood PRIMARY KEY, n integer, CHECK (m < 'happy' OR n > 0));
    CREATE TABLE s (id integer PRIMARY KEY, m mood REFERENCES p ON UPDATE CASCADE, c color UNIQUE);
    CREATE VIEW v AS SELECT m, max(c) AS c, count(*) AS n FROM t GROUP BY m;";

const ROWS: [&str; 4] = [
    "INSERT INTO t VALUES (1, 'sad', 'red', 'ok', '{sad,happy}'), (2, 'happy', 'green', 'sad', '{}'), \
     (3, 'ok', NULL, 'zz', NULL)",
    "INSERT INTO t (id, m, x) VALUES (4, NULL, 'happy'), (5, 'ok', 'b'), (6, 'sad', NULL)",
    "INSERT INTO p VALUES ('ok', 1), ('sad', NULL)",
    "INSERT INTO s VALUES (1, 'ok', 'blue'), (2, 'sad', 'red')",
];

#[test]
fn statements_answer_as_in_postgresql() {
    let mut database = Database::with(SCHEMA, &ROWS);
    database.check_all(include_str!("enums.txt"), 180);
}

/// What would have the order of the texts is refused.
#[test]
fn what_has_no_order_of_labels_is_refused() {
    let mut database = Database::with(SCHEMA, &ROWS);
    for statement in [
        "SELECT id FROM t WHERE m < ANY ('{ok,sad}')",
        "SELECT id FROM t WHERE m >= ALL (SELECT m FROM p)",
        "SELECT id FROM t WHERE ms < '{ok}'",
        "SELECT id FROM t ORDER BY ms",
        "SELECT max(ms) FROM t",
        "SELECT greatest(ms, '{ok}') FROM t",
        "SELECT rank() OVER (ORDER BY ms) FROM t",
        "SELECT array_agg(id ORDER BY ms) FROM t",
        "SELECT ms FROM t UNION SELECT ms FROM t ORDER BY 1",
        "SELECT percentile_disc(ARRAY[0.1, 0.5]) WITHIN GROUP (ORDER BY m) FROM t",
        "SELECT json_agg(DISTINCT m) FROM t",
    ] {
        database.refuse(statement, "0A000");
    }
}

/// A parameter's type is that of the column that it is compared with; its label is checked when it is given.
#[test]
fn parameters_are_labels() {
    let mut database = Database::with(SCHEMA, &ROWS);
    let mut run = |text: &str, value: &str| database.run_with(text, &[Value::text(value)]);
    let found = "SELECT count(*) FROM t WHERE m = $1";
    assert_eq!(run(found, "ok").as_deref(), Ok("2"));
    let after = "SELECT count(*) FROM t WHERE m > $1";
    assert_eq!(run(after, "sad").as_deref(), Ok("3"));
    let cast = "SELECT $1::text::mood";
    assert_eq!(run(cast, "ok").as_deref(), Ok("ok"));
    assert_eq!(
        run(cast, "bad").unwrap_err(),
        "22P02 invalid input value for enum mood: \"bad\""
    );
}

fn compiled(text: &str) -> Application {
    let files = vec![SourceFile::new("a.sql", text)];
    load(files.clone())
        .and_then(Application::compile)
        .unwrap_or_else(|problems| panic!("{}", render(&problems, &files)))
}

/// An index has the order of the texts: it finds equal values, and nothing by their order.
#[test]
fn no_index_gives_the_order_of_labels() {
    let application = compiled(
        "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
         CREATE TABLE t (m mood NOT NULL, n integer NOT NULL, PRIMARY KEY (m, n));
         CREATE PROCEDURE p(x mood) LANGUAGE plpgsql AS $$
         BEGIN
             PERFORM n FROM t WHERE m = x AND n > 3 ORDER BY n LIMIT 1;
             PERFORM n FROM t WHERE m > x;
             PERFORM n FROM t ORDER BY m LIMIT 1;
             PERFORM max(m) FROM t;
             PERFORM n FROM t WHERE m::text > 'b';
         END $$;",
    );
    let explained = application.procedures[0].explain();
    let scans: Vec<&str> = explained
        .lines()
        .map(str::trim)
        .filter(|line| {
            line.contains(" on t") || line.starts_with("Range:") || line.starts_with("Stop")
        })
        .collect();
    assert_eq!(
        scans,
        [
            "Range Scan on t using primary key",
            "Range: m = x AND n > 3",
            "Stop after: 1",
            "Full Scan on t",
            "Full Scan on t",
            "Full Scan on t",
            "Full Scan on t",
        ],
        "{explained}"
    );
}

#[test]
fn routines_have_labels() {
    let mut database = Database::with(
        "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
         CREATE TABLE t (id integer PRIMARY KEY, m mood NOT NULL DEFAULT 'ok');
         CREATE FUNCTION next(was mood) RETURNS mood LANGUAGE plpgsql AS $$
         DECLARE
             found t.m%TYPE;
             named public.mood := 'happy';
         BEGIN
             IF was < 'ok' THEN
                 RETURN 'ok';
             END IF;
             SELECT max(m) INTO found FROM t WHERE m > was;
             RETURN coalesce(found, named);
         END $$;
         CREATE FUNCTION parsed(given text) RETURNS mood LANGUAGE plpgsql AS $$
         BEGIN
             RETURN given::mood;
         END $$;
         CREATE FUNCTION least_first(list mood[]) RETURNS TABLE (m mood) LANGUAGE sql AS
             'SELECT u FROM unnest(list) AS u ORDER BY u';",
        &[],
    );
    let mut call = |name: &str, argument: Value| -> Result<String, String> {
        let procedure = database.application.find(name).unwrap().clone();
        let mut transaction = database.store.begin();
        let run = procedure.call(&mut transaction, std::slice::from_ref(&argument));
        match anabranch_sql::testing::ready(run) {
            Ok(result) => Ok(format!("{:?}", result.rows)),
            Err(anabranch_sql::TransactionError::Failed(error)) => {
                transaction.rollback();
                Err(format!("{} {}", error.code, error.message))
            }
            Err(other) => panic!("{other:?}"),
        }
    };
    assert_eq!(
        call("next", Value::text("sad")).unwrap(),
        "[[Text(\"ok\")]]"
    );
    assert_eq!(
        call("next", Value::text("ok")).unwrap(),
        "[[Text(\"happy\")]]"
    );
    let bad = "22P02 invalid input value for enum mood: \"bad\"";
    assert_eq!(call("next", Value::text("bad")).unwrap_err(), bad);
    assert_eq!(
        call("parsed", Value::text("ok")).unwrap(),
        "[[Text(\"ok\")]]"
    );
    assert_eq!(call("parsed", Value::text("bad")).unwrap_err(), bad);
    let list = Value::Array(["happy", "sad", "ok"].map(Value::text).into());
    assert_eq!(
        call("least_first", list).unwrap(),
        "[[Text(\"sad\")], [Text(\"ok\")], [Text(\"happy\")]]"
    );
}

/// Files may name a type before they declare it, add labels to it, and drop it.
#[test]
fn files_declare_types_in_any_order() {
    let application = compiled(
        "DROP TYPE IF EXISTS mood;
         CREATE TABLE t (id integer PRIMARY KEY, m mood);
         ALTER TABLE t ADD COLUMN ms public.mood[];
         CREATE TYPE mood AS ENUM ('sad');
         CREATE TYPE gone AS ENUM ();
         ALTER TYPE mood ADD VALUE 'happy';
         ALTER TYPE public.mood ADD VALUE IF NOT EXISTS 'ok' BEFORE 'happy';
         ALTER TYPE mood OWNER TO app;
         COMMENT ON TYPE mood IS 'how it feels';
         DROP TYPE gone;",
    );
    let types = &application.catalog().types;
    assert_eq!(types.len(), 1);
    assert_eq!(types[0].labels, ["sad", "ok", "happy"]);
    assert_eq!(
        application.declarations(),
        "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');\n\
         CREATE TABLE t (\n    id integer NOT NULL,\n    m mood,\n    ms mood[],\n    \
         CONSTRAINT t_pkey PRIMARY KEY (id)\n);\n"
    );
}

#[test]
fn files_with_wrong_types_are_refused() {
    for (text, code) in [
        ("CREATE TYPE mood AS ENUM ('a', 'a');", "23505"),
        (
            "CREATE TYPE mood AS ENUM ('a'); CREATE TYPE mood AS ENUM ('b');",
            "42710",
        ),
        (
            "CREATE TYPE mood AS ENUM ('a'); CREATE TABLE mood (id integer);",
            "42710",
        ),
        ("CREATE TYPE mood AS ENUM ('a',);", "42601"),
        ("CREATE TYPE mood AS ENUM (a);", "42601"),
        ("CREATE TYPE s.mood AS ENUM ('a');", "3F000"),
        ("CREATE TYPE text AS ENUM ('a');", "0A000"),
        ("CREATE TYPE pair AS (a integer);", "0A000"),
        ("CREATE TABLE t (m mood);", "42704"),
        ("CREATE TABLE t (m varchar2(10));", "42704"),
        (
            "CREATE TYPE mood AS ENUM ('a'); CREATE TABLE t (m mood DEFAULT 'b');",
            "22P02",
        ),
        (
            "CREATE TYPE mood AS ENUM ('a'); CREATE TABLE t (m mood, CHECK (m <> 'b'));",
            "22P02",
        ),
        (
            "CREATE TYPE mood AS ENUM ('a'); CREATE TABLE t (m mood DEFAULT 'a'::text);",
            "42804",
        ),
        (
            "CREATE TYPE mood AS ENUM ('a'); ALTER TYPE mood RENAME VALUE 'a' TO 'b';",
            "0A000",
        ),
        ("ALTER TYPE mood ADD VALUE 'a';", "42704"),
        ("DROP TYPE mood;", "42704"),
        (
            "CREATE FUNCTION f(m mood) RETURNS integer LANGUAGE sql AS 'SELECT 1';",
            "42704",
        ),
    ] {
        let files = vec![SourceFile::new("a.sql", text)];
        let problems = load(files).and_then(Application::compile).expect_err(text);
        assert_eq!(problems[0].code, code, "{text}: {:?}", problems[0]);
    }
    let long = format!("CREATE TYPE mood AS ENUM ('{}');", "a".repeat(64));
    let problems = load(vec![SourceFile::new("a.sql", long)]).unwrap_err();
    assert_eq!(problems[0].code, "42602");
}
