//! Declarations in PostgreSQL's files that the catalog does not have: enumerations, domains, opaque types, generated
//! columns; and parts of a table that are skipped without the table.

use anabranch_sql::script::{Script, read};
use anabranch_sql::summary::{Role, TableAccess, Term, TransactionSummary, WriteClass};
use anabranch_sql::{SourceFile, render};

fn script(text: &str) -> Script {
    let files = vec![SourceFile::new("a.sql", text)];
    read(files.clone()).unwrap_or_else(|found| panic!("{}", render(&found, &files)))
}

fn find<'s>(script: &'s Script, name: &str) -> &'s TransactionSummary {
    let mut all = script.summaries.iter();
    all.find(|s| s.name == name).expect("it is there")
}

fn access<'s>(script: &'s Script, name: &str) -> &'s TableAccess {
    &find(script, name).statements[0].accesses[0]
}

/// The names of the unknown types.
fn unknown(script: &Script) -> Vec<&str> {
    let all = script.summaries.iter().filter(|s| s.unknown.is_some());
    all.map(|s| s.name.as_str()).collect()
}

/// What is skipped: the text at its place, and the consequence.
fn skipped(script: &Script) -> Vec<(String, &str)> {
    let told = |left: &'_ anabranch_sql::script::Skipped| {
        let span = left.diagnostic.span.expect("it has a place");
        let file = &script.application.catalog().files[usize::from(span.file)];
        file.slice(span).to_owned()
    };
    let all = script.skipped.iter();
    all.map(|left| (told(left), left.meaning.as_str()))
        .collect()
}

/// The CHECKs of a table, with their texts.
fn checks(script: &Script, table: usize) -> Vec<String> {
    let table = &script.application.catalog().tables[table];
    table
        .checks
        .iter()
        .map(|c| c.expression.to_string())
        .collect()
}

fn column_type(script: &Script, column: usize) -> (String, bool) {
    let column = &script.application.catalog().schema.tables[0].columns[column];
    (column.data_type.to_string(), column.nullable)
}

#[test]
fn an_enumeration_is_text_with_a_check_of_its_labels() {
    let script = script(
        "CREATE TYPE public.mood AS ENUM ('sad', 'it''s', 'happy');
CREATE TABLE t (id bigint PRIMARY KEY, is mood DEFAULT 'sad'::mood NOT NULL, was public.mood);
-- name: Cheer :exec
UPDATE t SET is = 'happy'::public.mood WHERE id = $1 AND is = CAST('sad' AS mood);
-- name: Low :many
SELECT id FROM t WHERE is < 'sad';
CREATE FUNCTION be(k bigint, m mood) RETURNS mood LANGUAGE plpgsql AS $$
DECLARE before mood;
BEGIN
  SELECT is INTO before FROM t WHERE id = k;
  UPDATE t SET is = m WHERE id = k;
  RETURN before;
END $$;
",
    );
    assert!(script.skipped.is_empty(), "{:?}", script.skipped);
    assert_eq!(unknown(&script), [""; 0]);
    assert_eq!(column_type(&script, 1), ("text".into(), false));
    assert_eq!(column_type(&script, 2), ("text".into(), true));
    let expected = [
        "\"is\" IN ('sad', 'it''s', 'happy')",
        "was IN ('sad', 'it''s', 'happy')",
    ];
    assert_eq!(checks(&script, 0), expected);
    assert_eq!(access(&script, "Cheer").conditions.len(), 2);
    // 'sad' is the least label, and 'happy' comes before it as text.
    let low = access(&script, "Low");
    assert!(low.conditions.is_empty() && low.has_other_conditions);
}

/// Labels in the order of text are ordered like text; a CHECK that compares others cannot be analysed.
#[test]
fn the_order_of_an_enumeration_is_its_own() {
    let text = "CREATE TYPE size AS ENUM ('a', 'b');
CREATE TYPE odd AS ENUM ('b', 'a');
CREATE TABLE t (id bigint PRIMARY KEY, s size, o odd, CHECK (s < 'b'), CHECK (o < 'a'), CHECK (o <> 'a'));
-- name: Small :many
SELECT id FROM t WHERE s < 'b';
-- name: Set :exec
UPDATE t SET o = $1 WHERE id = $2;
-- name: Other :exec
UPDATE t SET s = $1 WHERE id = $2;
";
    let script = script(text);
    assert_eq!(access(&script, "Small").conditions.len(), 1);
    assert_eq!(unknown(&script), ["Set"]);
    let [(place, meaning)] = &skipped(&script)[..] else {
        panic!("{:?}", script.skipped)
    };
    assert!(place.starts_with("CHECK (o < 'a'"), "{place}");
    assert!(meaning.contains("t (o) are unknown"), "{meaning}");
    assert_eq!(checks(&script, 0).len(), 4);
}

#[test]
fn a_domain_is_its_base_with_its_checks() {
    let script = script(
        "CREATE DOMAIN positive AS integer DEFAULT 1 NOT NULL CHECK (VALUE > 0);
CREATE DOMAIN small positive CONSTRAINT few CHECK (value < 10);
CREATE DOMAIN odd AS integer CHECK (is_odd(VALUE));
CREATE TABLE t (id bigint PRIMARY KEY, n small, m odd, k positive DEFAULT 7);
-- name: Set :exec
UPDATE t SET m = $1 WHERE id = $2;
-- name: More :exec
UPDATE t SET n = n + 1::small WHERE id = $1;
",
    );
    assert_eq!(column_type(&script, 1), ("integer".into(), false));
    let expected = ["n > 0", "n < 10", "k > 0"];
    assert_eq!(checks(&script, 0), expected);
    let defaults = &script.application.catalog().tables[0].defaults;
    let shown = |at: usize| match &defaults[at] {
        anabranch_sql::catalog::ColumnDefault::Expression(tree, _) => tree.to_string(),
        other => format!("{other:?}"),
    };
    assert_eq!([shown(1), shown(3)], ["1", "7"]);
    // Only the CHECK that cannot be analysed is skipped, at the place of the type.
    let told = skipped(&script);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].1.contains("t (m) are unknown"), "{told:?}");
    assert_eq!(unknown(&script), ["Set"]);
}

#[test]
fn columns_of_other_types_are_opaque() {
    let script = script(
        "CREATE TYPE place AS (x integer, y integer);
CREATE TABLE t (
  id bigint PRIMARY KEY, data jsonb NOT NULL DEFAULT '{}'::jsonb, tags text[] DEFAULT '{}', at place,
  mail citext UNIQUE, since timestamp(3) with time zone, title text COLLATE \"de_DE\",
  CHECK (jsonb_typeof(data) = 'object'), CHECK (cardinality(tags) < id), n integer CHECK (n > 0)
);
-- name: Put :exec
UPDATE t SET data = $1::jsonb WHERE mail = $2 AND title = 'x';
-- name: Tag :exec
UPDATE t SET tags = $1 WHERE id = $2;
-- name: Add :exec
INSERT INTO t (id, n) VALUES ($1, 1);
-- name: Look :many
SELECT data ->> 'x' FROM t WHERE id = $1;
",
    );
    let types: Vec<String> = (1..7).map(|at| column_type(&script, at).0).collect();
    let time = "timestamp with time zone";
    assert_eq!(types, ["text", "text", "text", "text", time, "text"]);
    // A comparison with it tells nothing; a transaction that writes it checks it.
    let put = access(&script, "Put");
    assert!(put.conditions.is_empty() && put.has_other_conditions);
    // A transaction that writes one of two columns may violate a CHECK of both.
    assert_eq!(unknown(&script), ["Tag", "Add"]);
    let told = skipped(&script);
    let expected = [
        ("citext", "the analysis takes its columns for text"),
        (
            "UNIQUE",
            "to route by this key, write equal values in one form",
        ),
        ("CHECK (jsonb_typeof(data) = 'object')", "it has no verdict"),
        (
            "CHECK (cardinality(tags) < id)",
            "transactions that write t (id, tags) are unknown",
        ),
        (
            "data ->> 'x'",
            "the analysis assumes that it may be any value",
        ),
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for ((place, meaning), (at, begins)) in told.iter().zip(expected) {
        assert!(
            place.starts_with(at) && meaning.starts_with(begins),
            "{told:#?}"
        );
    }
    // The default is not known.
    let add = access(&script, "Add");
    let given = |column: usize| {
        &add.writes
            .iter()
            .find(|w| w.column.index() == column)
            .expect("it is written")
            .class
    };
    assert_eq!(given(1), &WriteClass::Assign(Term::Unknown));
    assert_eq!(
        given(7),
        &WriteClass::Assign(Term::Constant(anabranch_types::Value::Int(1)))
    );
}

/// Different texts may be equal values of an opaque type: so only a cast of a literal to such a type is dropped.
#[test]
fn a_cast_to_an_opaque_type_is_not_dropped() {
    let script = script(
        "CREATE TYPE mood AS ENUM ('a');
CREATE TABLE t (id bigint PRIMARY KEY, name text, data jsonb);
-- name: Literal :many
SELECT id FROM t WHERE data = '{}'::jsonb;
-- name: Computed :many
SELECT id FROM t WHERE name::jsonb = data;
-- name: Caseless :many
SELECT id FROM t WHERE name = 'x'::citext;
",
    );
    let told: Vec<String> = skipped(&script).into_iter().map(|(at, _)| at).collect();
    assert_eq!(told, ["name", "citext"]);
    for name in ["Literal", "Computed", "Caseless"] {
        assert!(access(&script, name).conditions.is_empty(), "{name}");
    }
}

/// A read of a generated column reads its sources, and a write of a source may violate a constraint on it.
#[test]
fn a_generated_column_stands_for_its_sources() {
    let table = "CREATE TABLE t (id bigint PRIMARY KEY, a integer, b integer, c integer,
  total integer GENERATED ALWAYS AS (a + b) STORED REST);
-- name: Total :one
SELECT total FROM t WHERE id = $1 AND total > 3;
-- name: Set :exec
UPDATE t SET b = $1 WHERE id = $2;
-- name: Other :exec
UPDATE t SET c = $1 WHERE id = $2;
";
    let plain = script(&table.replace(" REST", ""));
    assert_eq!(unknown(&plain), [""; 0]);
    let total = access(&plain, "Total");
    let read: Vec<usize> = total.columns_read.iter().map(|c| c.index()).collect();
    assert_eq!(read, [0, 1, 2, 4]);
    assert_eq!(total.conditions.len(), 1);
    for rest in [" UNIQUE", " CHECK (total > 0)", " NOT NULL"] {
        let script = script(&table.replace(" REST", rest));
        assert_eq!(unknown(&script), ["Set"], "{rest}");
        assert!(script.skipped[0].meaning.contains("are unknown"), "{rest}");
    }
    let index = format!(
        "CREATE UNIQUE INDEX ON t (total);\n{}",
        table.replace(" REST", "")
    );
    assert_eq!(unknown(&script(&index)), ["Set"]);
}

/// Tokens without the form of a type make the table unreadable.
#[test]
fn tokens_that_are_no_type_are_not_text() {
    let script = script(
        "CREATE TABLE t (id bigint PRIMARY KEY);
CREATE TABLE u (a integer b text);
CREATE TABLE w (LIKE t INCLUDING ALL, n integer CHECK (n > 0));
CREATE TABLE v (a double precision, b timestamp(3) without time zone, c interval day to second, d geometry(Point, 4326)[]);
",
    );
    assert_eq!(script.application.catalog().tables.len(), 2);
    let told = skipped(&script);
    assert_eq!(
        (told[0].0.as_str(), told[1].0.as_str()),
        ("b", "LIKE"),
        "{told:?}"
    );
}

/// A constraint or a default that cannot be analysed is skipped without its table.
#[test]
fn a_part_of_a_table_is_skipped_by_itself() {
    let script = script(
        "CREATE UNLOGGED TABLE t (
  id bigint GENERATED BY DEFAULT AS IDENTITY (START WITH 100 INCREMENT BY 5) PRIMARY KEY,
  n integer DEFAULT next_one() NOT NULL, -- one, two
  m integer CONSTRAINT odd CHECK (m @> 3) REFERENCES nowhere (id),
  p bigint REFERENCES t (id) ON DELETE SET NULL CHECK (p > 0) NOT NULL,
  EXCLUDE USING gist (m WITH &&),
  CONSTRAINT some CHECK (n @> m)
);
-- name: Add :exec
INSERT INTO t (m) VALUES ($1);
-- name: Set :exec
UPDATE t SET n = 1 WHERE id = $1;
-- name: Drop :exec
DELETE FROM t WHERE id = $1;
",
    );
    let told: Vec<String> = skipped(&script).into_iter().map(|(at, _)| at).collect();
    assert_eq!(checks(&script, 0), ["p > 0"]);
    assert_eq!(column_type(&script, 3), ("bigint".into(), false));
    assert_eq!(told.len(), 5, "{told:#?}");
    let meanings: Vec<&str> = script.skipped.iter().map(|l| l.meaning.as_str()).collect();
    assert_eq!(meanings[0], "the default of t.n may be any value");
    assert_eq!(unknown(&script), ["Add", "Set"]);
    let add = access(&script, "Add");
    let n = add
        .writes
        .iter()
        .find(|w| w.column.index() == 1)
        .expect("it is written");
    assert_eq!(n.class, WriteClass::Assign(Term::Unknown));
    assert_eq!(access(&script, "Drop").role, Role::Delete);
}

/// Tables as migrations leave them: columns added, dropped and changed; down migrations are skipped.
#[test]
fn migrations_are_followed() {
    let script = script(
        "-- +goose Up
DROP TABLE IF EXISTS t, old;
CREATE TYPE mood AS ENUM ('sad');
CREATE DOMAIN positive AS integer CHECK (VALUE > 0) NOT NULL;
CREATE TABLE old (id bigint PRIMARY KEY);
CREATE TABLE t (id bigint PRIMARY KEY, n text, gone integer UNIQUE CHECK (gone > 1), m integer CHECK (m < 9), k integer NOT NULL CHECK (k > 0) CHECK (k < 7));
CREATE UNIQUE INDEX ON t (gone);
CREATE INDEX ON old (id);
ALTER TYPE mood ADD VALUE IF NOT EXISTS 'wild';
ALTER TABLE t ADD COLUMN is mood DEFAULT 'sad' NOT NULL, ADD f bigint REFERENCES t ON DELETE SET NULL, ADD j jsonb;
ALTER TABLE IF EXISTS ONLY t DROP COLUMN gone CASCADE, DROP CONSTRAINT t_m_check, DROP CONSTRAINT t_k_check1, ALTER k DROP NOT NULL;
ALTER TABLE t ALTER COLUMN n SET DATA TYPE positive USING n::integer, ADD UNIQUE (m);
ALTER TABLE t ADD COLUMN IF NOT EXISTS m text, DROP COLUMN IF EXISTS nothing, DROP CONSTRAINT IF EXISTS nothing;
DROP TABLE old CASCADE;
-- +goose Down
ALTER TABLE t DROP COLUMN m;
DROP TABLE t;
-- +goose Up
-- name: Set :exec
UPDATE t SET is = 'wild', n = n + 1, j = $2 WHERE id = $1 AND m = 2;
",
    );
    let catalog = script.application.catalog();
    let [table] = &catalog.schema.tables[..] else {
        panic!("{:?}", catalog.schema.tables)
    };
    let columns: Vec<String> = table
        .columns
        .iter()
        .map(|c| {
            format!(
                "{} {}{}",
                c.name,
                c.data_type,
                if c.nullable { "" } else { " NOT NULL" }
            )
        })
        .collect();
    let expected = [
        "id bigint NOT NULL",
        "n integer NOT NULL",
        "m integer",
        "k integer",
        "is text NOT NULL",
        "f bigint",
        "j text",
    ];
    assert_eq!(columns, expected);
    let keys: Vec<usize> = table.indexes.iter().map(|i| i.columns[0].index()).collect();
    assert_eq!(keys, [2]);
    assert_eq!(
        checks(&script, 0),
        ["k > 0", "\"is\" IN ('sad', 'wild')", "n > 0"]
    );
    assert_eq!(catalog.tables[0].foreign_keys.len(), 1);
    assert_eq!(unknown(&script), [""; 0]);
    assert_eq!(access(&script, "Set").conditions.len(), 2);
    let [(place, meaning)] = &skipped(&script)[..] else {
        panic!("{:?}", script.skipped)
    };
    assert!(
        place.trim().starts_with("ALTER TABLE t DROP COLUMN m;"),
        "{place}"
    );
    assert_eq!(*meaning, "down migrations are not analysed");
}

/// A down migration declares nothing.
#[test]
fn a_down_migration_is_skipped() {
    let files = vec![
        SourceFile::new("1.down.sql", "DROP TABLE t;"),
        SourceFile::new("1.up.sql", "CREATE TABLE t (id bigint PRIMARY KEY);"),
        SourceFile::new("2.down.sql", "ALTER TABLE t DROP COLUMN id;"),
    ];
    let script = read(files).expect("it can be read");
    assert_eq!(script.application.catalog().tables.len(), 1);
    let told = &script.skipped[0].diagnostic.message;
    assert_eq!(told, "2 down migrations, the first of them here");
}

/// Statements of a migration run once; one with a name is a transaction all the same.
#[test]
fn statements_of_a_migration_are_no_transactions() {
    let files = vec![SourceFile::new(
        "db/migrations/2_fill.sql",
        "CREATE TABLE t (id bigint PRIMARY KEY, n integer);
BEGIN;
ALTER TABLE t ADD COLUMN m integer;
UPDATE t SET m = gone;
DELETE FROM nothing;
COMMIT;
INSERT INTO t VALUES (1, 2);
-- name: Set :exec
UPDATE t SET n = $2 WHERE id = $1;",
    )];
    let script = read(files).expect("it can be read");
    let names: Vec<&str> = script.summaries.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["Set"]);
    let [left] = &script.skipped[..] else {
        panic!("{:?}", script.skipped)
    };
    assert_eq!(
        left.diagnostic.message,
        "3 statements are part of a migration, the first of them here"
    );
}

/// An ALTER that fails is reported at its place.
#[test]
fn an_alter_of_something_missing_is_skipped() {
    for (text, code, at) in [
        ("ALTER TABLE t ADD COLUMN id integer", "42701", "id"),
        ("ALTER TABLE t DROP COLUMN x", "42703", "x"),
        ("ALTER TABLE t DROP CONSTRAINT x", "42704", "x"),
        ("ALTER TABLE t RENAME COLUMN id TO x", "0A000", "RENAME"),
        ("DROP TABLE x", "42P01", "x"),
        ("ALTER TABLE t ALTER id TYPE text", "22023", "text"),
    ] {
        let files = vec![SourceFile::new(
            "a.sql",
            format!("CREATE TABLE t (id serial PRIMARY KEY);\n{text};"),
        )];
        let problems = anabranch_sql::load(files.clone()).expect_err(text);
        let span = problems[0].span.expect("it has a place");
        assert_eq!(
            (problems[0].code, files[0].slice(span)),
            (code, at),
            "{text}"
        );
    }
}

/// Schemas are dropped from names; if two relations differ in their schema alone, neither is read.
#[test]
fn schemas_are_dropped_from_names() {
    let text = "CREATE SCHEMA IF NOT EXISTS app;
CREATE TYPE app.mood AS ENUM ('a');
CREATE TABLE app.users (id bigint PRIMARY KEY, m app.mood NOT NULL, n integer CHECK (n > 0));
CREATE TABLE app.posts (id bigint PRIMARY KEY, by bigint REFERENCES app.users (id));
CREATE FUNCTION app.feel(k bigint, m app.mood) RETURNS void LANGUAGE plpgsql AS $$
DECLARE was app.mood;
BEGIN
  SELECT u.m INTO was FROM app.users u WHERE u.id = k;
  UPDATE app.users SET m = feel.m WHERE id = k;
END $$;
-- name: Set :exec
UPDATE app.users SET n = $1 WHERE app.users.id = $2 AND users.m = 'a'::app.mood;
-- name: Call :one
SELECT app.feel(id, m) FROM app.users;
";
    let one = script(text);
    assert_eq!(one.application.catalog().tables.len(), 2);
    assert_eq!(unknown(&one), ["Call"]);
    assert_eq!(access(&one, "Set").conditions.len(), 2);
    let two = script(&format!(
        "{text}CREATE TABLE users (id bigint PRIMARY KEY);"
    ));
    assert!(unknown(&two).contains(&"Set"), "{:?}", two.skipped);
}

/// A skipped routine is known by its name, without its schema.
#[test]
fn a_skipped_routine_is_no_opaque_function() {
    let script = script(
        "CREATE TABLE users (id bigint PRIMARY KEY, n integer);
CREATE TABLE own.users (id bigint PRIMARY KEY);
CREATE FUNCTION own.spend(k bigint) RETURNS integer LANGUAGE c AS 'lib', 'spend';
-- name: Bare :one
SELECT spend(id) FROM public.users WHERE id = $1;
-- name: Whole :one
SELECT own.spend(id) FROM public.users WHERE id = $1;
",
    );
    assert_eq!(unknown(&script), ["spend", "Bare", "Whole"]);
}

/// An assertion over such a column, directly or in a view, is skipped; transactions that write its table are unknown.
#[test]
fn an_assertion_over_an_opaque_column_is_skipped() {
    for (from, column) in [("t", "price"), ("w", "p")] {
        let script = script(&format!(
            "CREATE TABLE t (id bigint PRIMARY KEY, price money, n integer);
CREATE VIEW v AS SELECT id, price AS p FROM t;
CREATE OR REPLACE VIEW w AS SELECT * FROM v;
CREATE ASSERTION cheap CHECK (NOT EXISTS (SELECT 1 FROM {from} WHERE {column} > '100'));
-- name: Set :exec
UPDATE t SET price = $1 WHERE id = $2;
"
        ));
        assert!(script.application.catalog().assertions.is_empty(), "{from}");
        assert_eq!(unknown(&script), ["Set"], "{from}");
    }
}

/// NOWAIT and SKIP LOCKED do not change what may be read.
#[test]
fn locks_without_waiting_are_locks() {
    let script = script(
        "CREATE TABLE jobs (id bigint PRIMARY KEY, queue text, skip integer);
CREATE TABLE others (id bigint PRIMARY KEY);
-- name: Take :one
UPDATE jobs SET queue = $1 WHERE id = (SELECT id FROM jobs WHERE queue IS NULL ORDER BY id FOR NO KEY UPDATE SKIP LOCKED LIMIT 1) RETURNING id;
-- name: Look :many
SELECT j.id FROM jobs j, others o WHERE j.id = o.id FOR SHARE OF j, o NOWAIT;
-- name: Column :many
SELECT skip locked FROM jobs;
",
    );
    assert_eq!(unknown(&script), [""; 0], "{:?}", script.skipped);
    assert_eq!(find(&script, "Look").statements[0].accesses.len(), 2);
    let columns = &find(&script, "Column").statements[0].accesses[0].columns_read;
    assert_eq!(columns.len(), 1);
}

/// A realistic shop: all of its twenty-three types are analysed.
#[test]
fn a_shop_is_read() {
    let script = script(include_str!("postgres/shop.sql"));
    assert_eq!(script.application.catalog().tables.len(), 5);
    assert_eq!(script.summaries.len(), 23);
    assert_eq!(unknown(&script), [""; 0]);
}

/// A timestamp trigger is a write of its column; any other trigger may do anything.
#[test]
fn a_timestamp_trigger_is_analysed() {
    let body = "NEW.changed := now() AT TIME ZONE 'utc'; NEW.made = CURRENT_TIMESTAMP; RETURN NEW;";
    let events = "BEFORE INSERT OR UPDATE ON public.t FOR EACH ROW EXECUTE FUNCTION touch()";
    let with = |body: &str, events: &str| {
        script(&format!(
            "CREATE TABLE t (id bigint PRIMARY KEY, n integer, changed timestamp, made timestamp);
CREATE TABLE log (n integer);
CREATE OR REPLACE FUNCTION touch() RETURNS trigger AS $$ BEGIN {body} END; $$ LANGUAGE plpgsql;
CREATE TRIGGER touched {events};
-- name: Set :exec
UPDATE t SET n = 1, made = $2 WHERE id = $1;
-- name: Add :exec
INSERT INTO t (id, made) VALUES ($1, $2);
"
        ))
    };
    let understood = with(body, events);
    assert!(understood.skipped.is_empty(), "{:?}", understood.skipped);
    let written = |name: &str| -> Vec<(usize, WriteClass)> {
        let writes = access(&understood, name).writes.iter();
        writes
            .map(|w| (w.column.index(), w.class.clone()))
            .collect()
    };
    let now = || WriteClass::Assign(Term::Now);
    let set = written("Set");
    assert_eq!(set[1..], [(2, now()), (3, now())]);
    assert_eq!(written("Add")[2..], [(2, now()), (3, now())]);
    let of_updates = with(body, &events.replace("INSERT OR UPDATE", "UPDATE OF n"));
    let made = &access(&of_updates, "Add").writes[3].class;
    assert_eq!(made, &WriteClass::Assign(Term::Parameter(1)));
    // The trigger may not run for this UPDATE.
    let set = access(&of_updates, "Set").writes.iter();
    let set: Vec<(usize, WriteClass)> = set.map(|w| (w.column.index(), w.class.clone())).collect();
    assert_eq!(
        set[1..],
        [(3, WriteClass::Assign(Term::Parameter(0))), (2, now())]
    );
    for (body, events) in [
        ("NEW.n := NEW.n + 1; RETURN NEW;", events.to_owned()),
        ("NEW.changed := OLD.changed; RETURN NEW;", events.to_owned()),
        ("NEW.changed := later(); RETURN NEW;", events.to_owned()),
        ("NEW.changed := now(); RETURN NULL;", events.to_owned()),
        ("INSERT INTO log VALUES (1); RETURN NEW;", events.to_owned()),
        (
            "IF NEW.n > 1 THEN NEW.changed := now(); END IF; RETURN NEW;",
            events.to_owned(),
        ),
        (body, events.replace("BEFORE", "AFTER")),
        (body, events.replace("EXECUTE", "WHEN (NEW.n > 1) EXECUTE")),
        (body, events.replace("UPDATE", "DELETE")),
        (body, events.replace("ROW", "STATEMENT")),
        (body, events.replace("touch()", "other()")),
    ] {
        let script = with(body, &events);
        assert_eq!(unknown(&script), ["Set", "Add"], "{body} {events}");
    }
}

/// The last declaration of a function replaces the others.
#[test]
fn a_replaced_timestamp_function_is_none() {
    let function = |body: &str| {
        format!(
            "CREATE OR REPLACE FUNCTION touch() RETURNS trigger AS $$ BEGIN {body} RETURN NEW; END; $$ LANGUAGE plpgsql;"
        )
    };
    let script = script(&format!(
        "CREATE TABLE t (id bigint PRIMARY KEY, n integer, changed timestamp);
CREATE TABLE log (n integer);
{}
CREATE TRIGGER touched BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION touch();
{}
-- name: Set :exec
UPDATE t SET n = 1 WHERE id = $1;
",
        function("NEW.changed := now();"),
        function("INSERT INTO log VALUES (1);"),
    ));
    assert_eq!(unknown(&script), ["Set"]);
}

/// A constraint that is added to a domain is not analysed.
#[test]
fn an_altered_domain_is_opaque() {
    let script = script(
        "CREATE DOMAIN amount AS integer CHECK (VALUE >= 0);
ALTER DOMAIN amount ADD CHECK (VALUE < 100);
CREATE TABLE t (id bigint PRIMARY KEY, n amount);
-- name: More :exec
UPDATE t SET n = n + 1 WHERE id = $1;
",
    );
    assert_eq!(skipped(&script).len(), 2, "{:?}", script.skipped);
    assert_eq!(
        access(&script, "More").writes[0].class,
        WriteClass::FromData
    );
}
