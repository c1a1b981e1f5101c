//! Opaque expressions, in the SQL of other applications: each may be any value, depends on the columns in it, and
//! makes no transaction unknown.

use anabranch_sql::script::{Script, read};
use anabranch_sql::summary::{Deferral, Role, TableAccess, Term, TransactionSummary, WriteClass};
use anabranch_sql::{SourceFile, render};

const TABLE: &str = "CREATE TABLE t (id bigint PRIMARY KEY, data jsonb, at timestamp, n integer, name text, tags text[]);\n";

fn script(text: &str) -> Script {
    let files = vec![SourceFile::new("a.sql", format!("{TABLE}{text}"))];
    read(files.clone()).unwrap_or_else(|found| panic!("{}", render(&found, &files)))
}

fn find<'s>(script: &'s Script, name: &str) -> &'s TransactionSummary {
    let mut all = script.summaries.iter();
    let found = all.find(|s| s.name == name);
    let found = found.unwrap_or_else(|| panic!("{name}: {:?}", script.skipped));
    assert_eq!(found.unknown, None, "{name}: {:?}", script.skipped);
    found
}

/// The columns that a query reads of the table.
fn read_columns(query: &str) -> Vec<usize> {
    let script = script(&format!("-- name: Q :many\n{query};"));
    let access: &TableAccess = &find(&script, "Q").statements[0].accesses[0];
    assert_eq!(access.role, Role::Read);
    assert!(!script.skipped.is_empty(), "{query}");
    let mut columns: Vec<usize> = access.columns_read.iter().map(|c| c.index()).collect();
    columns.sort_unstable();
    columns
}

#[test]
fn an_expression_reads_the_columns_that_it_names() {
    for (query, columns) in [
        ("SELECT data ->> 'x' FROM t WHERE id = $1", &[0, 1][..]),
        (
            "SELECT id FROM t WHERE data @> $1::jsonb AND n = 1",
            &[0, 1, 3],
        ),
        (
            "SELECT to_char(at, 'YYYY'), id FROM t ORDER BY age(at) DESC",
            &[0, 2],
        ),
        ("SELECT age(at), count(*) FROM t GROUP BY age(at)", &[2]),
        (
            "SELECT n, jsonb_object_agg(name, id) FROM t GROUP BY n",
            &[0, 3, 4],
        ),
        (
            "SELECT sum(n) OVER (PARTITION BY name ORDER BY at RANGE '1 day' PRECEDING), id FROM t",
            &[0, 2, 3, 4],
        ),
        ("SELECT id FROM t WHERE $1 = ANY(tags)", &[0, 5]),
        ("SELECT tags[1:2], data #>> '{a,b}' FROM t", &[1, 5]),
        ("SELECT to_jsonb(t) FROM t", &[0, 1, 2, 3, 4, 5]),
        (
            "SELECT row_to_json(o) FROM (SELECT id, n FROM t) AS o",
            &[0, 3],
        ),
        (
            "SELECT (SELECT json_agg(o) FROM t AS o WHERE o.n = t.n) FROM t",
            &[3],
        ),
        (
            "SELECT id FROM t WHERE similarity(name, 'x') > 0.5 OR name ~ $1",
            &[0, 4],
        ),
        (
            "SELECT at AT TIME ZONE 'UTC', at + n * interval '1 day' FROM t",
            &[2, 3],
        ),
        (
            "SELECT CASE WHEN data ? 'a' THEN n ELSE 0 END + 1 FROM t",
            &[1, 3],
        ),
        (
            "SELECT upper(unaccent(name)) || 'x' FROM t WHERE length(unaccent(name)) > 3",
            &[4],
        ),
    ] {
        assert_eq!(read_columns(query), columns, "{query}");
    }
}

/// Nothing follows from an opaque value: it is no key and no increment of a known sign, and no owner of a row computes
/// it.
#[test]
fn nothing_follows_from_an_opaque_value() {
    let script = script(
        "-- name: Set :exec
UPDATE t SET data = jsonb_set(data, '{a}', $2), name = unaccent($3) WHERE id = $1;
-- name: Add :exec
UPDATE t SET n = n + similarity($2, 'x') WHERE id = $1;
-- name: Find :exec
UPDATE t SET n = 1 WHERE id = hashtext($1);
-- name: Put :exec
INSERT INTO t (id, n) VALUES (uuid_generate_v5($1), $2);
",
    );
    let of = |name: &str| &find(&script, name).statements[0];
    let class = |name: &str, column: usize| {
        let mut writes = of(name).accesses[0].writes.iter();
        writes
            .find(|w| w.column.index() == column)
            .expect("it is written")
            .class
            .clone()
    };
    assert_eq!(class("Set", 1), WriteClass::FromData);
    assert_eq!(class("Set", 4), WriteClass::Assign(Term::Unknown));
    assert_eq!(of("Set").deferral, Deferral::None);
    assert!(
        matches!(
            class("Add", 3),
            WriteClass::Add {
                term: Term::Unknown,
                ..
            }
        ),
        "{:?}",
        class("Add", 3)
    );
    assert_eq!(of("Add").deferral, Deferral::None);
    let find = of("Find");
    assert!(find.accesses[0].conditions.is_empty() && find.accesses[0].has_other_conditions);
    assert_eq!(find.deferral, Deferral::None);
    assert_eq!(class("Put", 0), WriteClass::Assign(Term::Unknown));
    // Each is reported at its place.
    let file = &script.application.catalog().files[0];
    let told = script.skipped.iter().map(|left| {
        let span = left.diagnostic.span.expect("it has a place");
        assert_eq!(
            left.meaning,
            "the analysis assumes that it may be any value"
        );
        file.slice(span)
            .split('(')
            .next()
            .unwrap_or_default()
            .to_owned()
    });
    let expected = [
        "jsonb_set",
        "unaccent",
        "similarity",
        "hashtext",
        "uuid_generate_v5",
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

/// In a routine, too; and the routine is declared.
#[test]
fn routines_may_have_opaque_expressions() {
    let script = script(
        "CREATE FUNCTION f(k bigint, s text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE x text := crypt(s, 'x');
BEGIN
  IF encode(x) IS NULL THEN RETURN; END IF;
  UPDATE t SET name = x WHERE id = k;
END $$;
",
    );
    let summary = find(&script, "f");
    let access = &summary.statements[0].accesses[0];
    assert_eq!(access.writes[0].class, WriteClass::Assign(Term::Unknown));
    assert_eq!(script.skipped.len(), 2, "{:?}", script.skipped);
}

/// In a view, too, since it is no constraint.
#[test]
fn a_view_may_have_opaque_expressions() {
    let script = script(
        "CREATE VIEW v AS SELECT id, age(at) AS year FROM t;
-- name: Q :many
SELECT id FROM v WHERE year = $1;
",
    );
    let access = &find(&script, "Q").statements[0].accesses[0];
    let read: Vec<usize> = access.columns_read.iter().map(|c| c.index()).collect();
    assert_eq!(read, [0, 2]);
    assert!(access.conditions.is_empty());
}

/// An assertion over such a view cannot be analysed.
#[test]
fn an_assertion_over_an_opaque_view_is_skipped() {
    for view in ["age(at)", "(SELECT x FROM nowhere)"] {
        let script = script(&format!(
            "CREATE TABLE other (id bigint PRIMARY KEY, n integer);
CREATE VIEW v AS SELECT id, n, {view} AS year FROM t;
CREATE VIEW w AS SELECT * FROM v;
CREATE ASSERTION old CHECK (NOT EXISTS (SELECT 1 FROM w WHERE year < '2000'));
-- name: Set :exec
UPDATE t SET at = $1 WHERE id = $2;
-- name: Other :exec
UPDATE other SET n = $1 WHERE id = $2;
"
        ));
        assert!(script.application.catalog().assertions.is_empty());
        let unknown = script.summaries.iter().filter(|s| s.unknown.is_some());
        let names: Vec<&str> = unknown.map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["Set"], "{view}");
    }
}

/// A function with effects is not opaque, and neither is an expression in a constraint.
#[test]
fn effects_and_constraints_are_not_opaque() {
    let script = script("CREATE FUNCTION own(k bigint) RETURNS bigint LANGUAGE sql AS $$ DELETE FROM t WHERE id = k RETURNING id $$;
CREATE FUNCTION lost(k bigint) RETURNS bigint LANGUAGE c AS 'lib', 'lost';
ALTER TABLE t ADD CHECK (is_good(n));
-- name: Own :one
SELECT own(id) FROM t WHERE id = $1;
-- name: Lost :one
SELECT lost(id) FROM t WHERE id = $1;
-- name: Next :one
SELECT nextval('numbers');
-- name: Set :exec
UPDATE t SET n = $1 WHERE id = $2;
-- name: Nowhere :one
SELECT f(nothing) FROM t;
");
    let unknown = script.summaries.iter().filter(|s| s.unknown.is_some());
    let names: Vec<&str> = unknown.map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["Set", "lost", "Own", "Lost", "Next", "Nowhere"]);
}

/// Files that are run may not have opaque expressions.
#[test]
fn files_that_run_have_no_opaque_expressions() {
    let text = format!(
        "{}CREATE FUNCTION f(k bigint) RETURNS void LANGUAGE sql AS $$ UPDATE t SET n = nosuch(n) WHERE id = k $$;",
        TABLE.replace("jsonb", "text").replace("text[]", "text")
    );
    let problems = anabranch_sql::load(vec![SourceFile::new("a.sql", text)])
        .map_err(|problems| problems[0].code)
        .and_then(|catalog| {
            let compiled = anabranch_sql::Application::compile(catalog);
            compiled.map(|_| ()).map_err(|problems| problems[0].code)
        });
    assert_eq!(problems, Err("42883"));
}

#[test]
fn functions_in_from_are_rows_of_any_values() {
    for (query, columns) in [
        (
            "SELECT t.id, e.key, e.value FROM t, jsonb_each(t.data) e WHERE t.n = 1",
            &[0, 1, 3][..],
        ),
        (
            "SELECT t.id FROM t CROSS JOIN LATERAL jsonb_array_elements_text(data -> 'x') WITH ORDINALITY AS e (tag, place)
             WHERE e.tag = name AND place > 1",
            &[0, 1, 4],
        ),
        (
            "SELECT n FROM t JOIN jsonb_to_recordset($1) AS x (id bigint, m citext) ON x.id = t.id",
            &[0, 3],
        ),
        (
            "SELECT id FROM t WHERE name IN (SELECT w FROM string_to_table($1, ',') AS w)",
            &[0, 4],
        ),
        (
            "SELECT id, unnest FROM t, unnest(tsvector_to_array(name))",
            &[0, 4],
        ),
        (
            "SELECT id, day FROM t, generate_series(at, now()::timestamp, '1 day') AS day",
            &[0, 2],
        ),
    ] {
        assert_eq!(read_columns(query), columns, "{query}");
    }
    let script = script(
        "-- name: Load :exec
INSERT INTO t (id, n, name) SELECT x.id, x.n, x.name FROM jsonb_to_recordset($1) AS x (id bigint, n integer, name text);
-- name: Add :exec
UPDATE t SET n = t.n + v.n FROM unnest($1::bigint[], tsvector_to_array($2)) AS v (id, n) WHERE t.id = v.id;",
    );
    let added = &find(&script, "Add").statements[0].accesses[0];
    assert_eq!(added.role, Role::Update);
    assert!(added.conditions.iter().all(|c| c.term == Term::Unknown));
    let loaded = &find(&script, "Load").statements[0];
    assert!(!loaded.inserts_one);
    assert_eq!(loaded.accesses[0].role, Role::Insert);
    assert_eq!(
        loaded.accesses[0].writes[0].class,
        WriteClass::Assign(Term::Unknown)
    );
}

#[test]
fn declared_routines_are_no_opaque_functions() {
    let script = script(
        "CREATE FUNCTION odd() RETURNS SETOF t LANGUAGE plperl AS $$ return; $$;
-- name: Own :many
SELECT * FROM odd() AS o;
-- name: Rows :many
SELECT * FROM jsonb_populate_recordset(null::t, $1) AS o;
-- name: Far :many
SELECT * FROM dblink('x', 'DELETE FROM y') AS o (a int);",
    );
    for name in ["Own", "Rows", "Far"] {
        let summary = script.summaries.iter().find(|s| s.name == name);
        assert!(summary.expect("it is there").unknown.is_some(), "{name}");
    }
}

/// All accesses of a type: tables, by number, and roles.
fn accesses_of(script: &Script, name: &str) -> Vec<(u16, Role)> {
    let mut all = script.summaries.iter();
    let summary = all.find(|s| s.name == name).expect("it is there");
    assert!(summary.unknown.is_some(), "{name}");
    let all_done = summary.possible_statements(script.application.catalog());
    let accesses = all_done.iter().flat_map(|s| &s.accesses);
    let mut found: Vec<(u16, Role)> = accesses.map(|a| (a.table.0, a.role)).collect();
    found.sort_by_key(|(table, role)| (*table, *role as u8));
    assert_eq!(
        summary.only_reads,
        found.iter().all(|(_, role)| *role == Role::Read),
        "{name}"
    );
    found
}

const EVERYTHING: [(u16, Role); 8] = [
    (0, Role::Read),
    (0, Role::Insert),
    (0, Role::Update),
    (0, Role::Delete),
    (1, Role::Read),
    (1, Role::Insert),
    (1, Role::Update),
    (1, Role::Delete),
];

/// A function that is neither declared nor built in may be a procedure of the application.
#[test]
fn an_unknown_function_may_do_anything() {
    for statement in [
        "SELECT transfer($1, $2)",
        "SELECT id FROM t WHERE shop.audit(id) > 1",
        "UPDATE t SET n = transfer(n) WHERE id = $1",
        "INSERT INTO t (id, n) VALUES ($1, \"Transfer\"($2))",
        "SELECT * FROM transfer($1) AS x (a, b)",
        "SELECT count(*) FILTER (WHERE transfer(id)) OVER w FROM t WINDOW w AS (ORDER BY id)",
        "SELECT * FROM seen",
    ] {
        let script = script(&format!(
            "CREATE TABLE u (id bigint PRIMARY KEY);
CREATE VIEW seen AS SELECT transfer(id) FROM u;
-- name: Q :exec
{statement};"
        ));
        assert_eq!(accesses_of(&script, "Q"), EVERYTHING, "{statement}");
    }
}

/// A query that calls no unknown function only reads.
#[test]
fn a_query_that_is_not_analysed_writes_nothing() {
    for (query, tables) in [
        (
            "SELECT id, any_value(n) OVER w FROM t WINDOW w AS (ORDER BY id)",
            &[0][..],
        ),
        (
            "WITH RECURSIVE r (id) AS (SELECT id FROM u UNION ALL (SELECT t.id FROM t JOIN r ON r.id = t.n EXCEPT SELECT 1)) SELECT * FROM r",
            &[0, 1],
        ),
        ("SELECT DISTINCT n FROM t GROUP BY CUBE (n)", &[0]),
        ("SELECT * FROM nosuch", &[]),
        ("SELECT * FROM \"Odd\" JOIN t USING (id)", &[0, 1]),
        ("SELECT * FROM plain NATURAL JOIN odder", &[0, 1]),
    ] {
        let script = script(&format!(
            "CREATE TABLE u (id bigint PRIMARY KEY);
CREATE VIEW plain AS SELECT id FROM t;
CREATE OR REPLACE VIEW \"Odd\" AS SELECT id FROM u TABLESAMPLE SYSTEM (1);
CREATE MATERIALIZED VIEW odder AS SELECT * FROM \"Odd\" WINDOW w AS (ORDER BY id);
-- name: Q :many
{query};"
        ));
        let expected: Vec<(u16, Role)> = tables.iter().map(|table| (*table, Role::Read)).collect();
        assert_eq!(accesses_of(&script, "Q"), expected, "{query}");
        let told = script
            .skipped
            .iter()
            .find(|left| left.transaction.is_some());
        let meaning = &told.expect("it is told").meaning;
        assert_eq!(
            meaning, "the analysis assumes that Q may read all of the tables that it names",
            "{query}"
        );
    }
}
