//! Generated columns: whichever way a row comes to be, they are what their expression makes of the rest of it.
//!
//! `changes/generated.sql` has what changes of the schema do with them, with PostgreSQL 15's answers.

use anabranch_sql::{
    Application, SourceFile, load,
    summary::{Deferral, Term, WriteClass},
    testing::ready,
};
use anabranch_types::Value;

use crate::support::Database;

const SCHEMA: &str = "
    CREATE SEQUENCE s;
    CREATE TABLE t (
        id integer PRIMARY KEY, a integer DEFAULT nextval('s'), b integer GENERATED ALWAYS AS (a * 2) STORED,
        n integer NOT NULL DEFAULT 0, r double precision, e text GENERATED ALWAYS AS (lower(x) || '!') STORED, x text,
        k double precision GENERATED ALWAYS AS (r + 1) STORED
    );
    CREATE TABLE o (id integer PRIMARY KEY, v integer);";

const ROWS: [&str; 2] = [
    "INSERT INTO t (id, a, n, x) VALUES (1, 1, 10, 'Ann'), (2, 2, 20, NULL), (3, NULL, 30, 'BOB')",
    "INSERT INTO o VALUES (1, 7), (3, 9)",
];

/// No row breaks what the table declares.
#[track_caller]
fn fits(database: &mut Database) {
    database.check(
        "SELECT id FROM t WHERE b IS DISTINCT FROM a * 2 OR e IS DISTINCT FROM lower(x) || '!' \
         OR k IS DISTINCT FROM r + 1",
        "",
    );
}

#[test]
fn every_insert_computes_them() {
    let mut database = Database::with(SCHEMA, &ROWS);
    for (statement, answer) in [
        (
            "INSERT INTO t (id, x) VALUES (10, 'X') RETURNING a, b, e",
            "1|2|x!",
        ),
        ("INSERT INTO t (id) VALUES (11), (12)", "#2"),
        ("INSERT INTO t (id, r) VALUES (13, random())", "#1"),
        (
            "INSERT INTO t (id, r, x) SELECT g, random(), 'G' || g FROM generate_series(20, 24) AS g",
            "#5",
        ),
        (
            "INSERT INTO t (id, a) SELECT DISTINCT n + 100, a FROM t WHERE id < 3 ORDER BY 1",
            "#2",
        ),
        (
            "INSERT INTO t (id, a) SELECT 200, max(a) FROM t UNION ALL SELECT 201, 5",
            "#2",
        ),
        (
            "WITH c AS (SELECT id + 300 AS i, v FROM o) INSERT INTO t (id, a) SELECT i, v FROM c",
            "#2",
        ),
        (
            "INSERT INTO t (id, a, b, e) VALUES (400, (SELECT max(v) FROM o), DEFAULT, DEFAULT) RETURNING b",
            "18",
        ),
        (
            "INSERT INTO t (id, a, x) VALUES (1, 5, 'Y') ON CONFLICT (id) DO UPDATE SET x = excluded.e || t.e, a = nextval('s') RETURNING x, e",
            "y!ann!|y!ann!!",
        ),
        (
            "INSERT INTO t (id, a) VALUES (1, 50) ON CONFLICT (id) DO UPDATE SET a = excluded.b WHERE t.b < excluded.b RETURNING a, b",
            "100|200",
        ),
        (
            "INSERT INTO t (id, a) VALUES (1, 50) ON CONFLICT (id) DO UPDATE SET n = excluded.b RETURNING a, b, n",
            "100|200|100",
        ),
        (
            "INSERT INTO t (id, a) VALUES (1, 50) ON CONFLICT DO NOTHING",
            "#0",
        ),
    ] {
        database.check(statement, answer);
        fits(&mut database);
    }
    database.check(
        "SELECT count(DISTINCT a) FROM t WHERE id IN (10, 11, 12)",
        "3",
    );
    database.refuse("INSERT INTO t (id, b) VALUES (500, 1)", "428C9");
    database.refuse("INSERT INTO t (id, b) SELECT 500, NULL", "428C9");
    database.refuse("INSERT INTO t (id, b) VALUES (500, NULL)", "428C9");
}

/// What an UPDATE assigns is evaluated once, however many columns are computed of it.
#[test]
fn every_update_computes_them() {
    let mut database = Database::with(SCHEMA, &ROWS);
    for (statement, answer) in [
        ("UPDATE t SET a = nextval('s')", "#3"),
        (
            "UPDATE t SET a = a + nextval('s') RETURNING b - 2 * a",
            "0;0;0",
        ),
        ("UPDATE t SET r = random()", "#3"),
        (
            "UPDATE t SET a = (SELECT v FROM o WHERE o.id = t.id) RETURNING id, a, b",
            "1|7|14;2|-|-;3|9|18",
        ),
        (
            "UPDATE t SET (a, x) = (n, 'Z') WHERE id > 1 RETURNING b, e",
            "40|z!;60|z!",
        ),
        (
            "UPDATE t SET a = o.v + t.b FROM o WHERE o.id = t.id RETURNING t.b",
            "42;138",
        ),
        (
            "UPDATE t SET a = DEFAULT, b = DEFAULT WHERE id = 1 RETURNING b - 2 * a",
            "0",
        ),
        ("UPDATE t SET b = DEFAULT, e = DEFAULT", "#3"),
        (
            "UPDATE t SET id = id + 10, a = id RETURNING id, b",
            "11|2;12|4;13|6",
        ),
        ("UPDATE t SET n = n + b RETURNING n", "12;24;36"),
        ("UPDATE t SET x = NULL WHERE b = 4 RETURNING e", "-"),
    ] {
        database.check(statement, answer);
        fits(&mut database);
    }
    database.refuse("UPDATE t SET b = 1", "428C9");
    database.refuse("UPDATE t SET b = DEFAULT, b = DEFAULT", "42601");
    database.refuse("UPDATE t SET (a, b) = (SELECT 1, 2)", "428C9");
}

fn compiled(text: &str) -> Application {
    let catalog = load(vec![SourceFile::new("a.sql", text)]).unwrap_or_else(|p| panic!("{p:?}"));
    Application::compile(catalog).unwrap_or_else(|p| panic!("{p:?}"))
}

/// The analyser sees the column as if the statement assigned it, and a deferred UPDATE computes it where the row is.
#[test]
fn a_deferred_update_computes_them_of_the_row_at_commit() {
    let schema = format!(
        "{SCHEMA}
         CREATE FUNCTION grow(i integer, by integer) RETURNS void LANGUAGE sql BEGIN ATOMIC
             UPDATE t SET a = a + by WHERE id = i; END;
         CREATE FUNCTION put(i integer, to_a integer) RETURNS void LANGUAGE sql BEGIN ATOMIC
             UPDATE t SET a = to_a WHERE id = i; END;
         CREATE FUNCTION count(i integer) RETURNS void LANGUAGE sql BEGIN ATOMIC
             UPDATE t SET n = n + 1 WHERE id = i; END;
         CREATE FUNCTION copy(i integer, j integer) RETURNS void LANGUAGE plpgsql AS $$
         DECLARE was integer;
         BEGIN
             UPDATE t SET n = n + 1 WHERE id = i RETURNING n INTO was;
             INSERT INTO t (id, a) VALUES (j, was);
         END $$;
         CREATE FUNCTION add(i integer, p integer) RETURNS void LANGUAGE sql BEGIN ATOMIC
             INSERT INTO t (id, a) VALUES (i, p); END;"
    );
    let mut database = Database::with(&schema, &ROWS);
    let application = compiled(&schema);
    let of = |name: &str| {
        let found = application.summaries().iter().find(|s| s.name == name);
        found.expect("it is declared").statements.clone()
    };
    let written = |name: &str| -> Vec<(usize, WriteClass)> {
        let writes = of(name)[0].accesses[0].writes.clone();
        writes
            .into_iter()
            .map(|w| (w.column.index(), w.class))
            .collect()
    };
    let grown = WriteClass::Add {
        term: Term::Parameter(1),
        negated: false,
    };
    assert_eq!(written("grow"), [(1, grown), (2, WriteClass::FromRow)]);
    let put = WriteClass::Assign(Term::Parameter(1));
    assert_eq!(
        written("put"),
        [(1, put), (2, WriteClass::Assign(Term::Pure))]
    );
    assert_eq!(written("count").len(), 1);
    let added = written("add");
    assert_eq!(added[2], (2, WriteClass::Assign(Term::Pure)));
    for name in ["grow", "put", "count"] {
        assert_eq!(of(name)[0].deferral, Deferral::Unread, "{name}");
    }
    // The value is needed to compute another of it.
    assert_eq!(of("copy")[0].deferral, Deferral::None);
    for (name, arguments) in [
        ("grow", &[1, 5][..]),
        ("put", &[2, 8]),
        ("count", &[3]),
        ("copy", &[1, 40]),
        ("add", &[50, 6]),
    ] {
        let procedure = application.find(name).expect("it is declared").clone();
        let arguments: Vec<Value> = arguments.iter().map(|i| Value::Int(*i)).collect();
        let mut transaction = database.store.begin();
        transaction.defer = true;
        ready(procedure.call(&mut transaction, &arguments)).expect(name);
        fits(&mut database);
    }
    database.check(
        "SELECT id, a, b FROM t WHERE a IS NOT NULL ORDER BY id",
        "1|6|12;2|8|16;40|11|22;50|6|12",
    );
}

/// MERGE is an INSERT and an UPDATE to the analyser.
#[test]
fn what_a_merge_computes_is_seen() {
    let schema = "
        CREATE TABLE t (id integer PRIMARY KEY, a integer, b integer GENERATED ALWAYS AS (a * 2) STORED);
        CREATE FUNCTION m(i integer, p integer) RETURNS void LANGUAGE sql BEGIN ATOMIC
            MERGE INTO t USING (VALUES (i, p)) AS s (i, p) ON t.id = s.i
            WHEN MATCHED THEN UPDATE SET a = p, b = DEFAULT
            WHEN NOT MATCHED THEN INSERT (id, a) VALUES (i, p); END;";
    let application = compiled(schema);
    let accesses = &application.summaries()[0].statements[0].accesses;
    let of_target = accesses.iter().filter(|access| !access.writes.is_empty());
    let columns: Vec<Vec<usize>> = of_target
        .map(|access| access.writes.iter().map(|w| w.column.index()).collect())
        .collect();
    assert_eq!(columns, [vec![1, 2], vec![0, 1, 2]]);
}

/// A file has the forms of `pg_dump`, and those of migrations.
#[test]
fn files_declare_them() {
    let application = compiled(
        "CREATE TABLE public.t (id integer NOT NULL, a integer, b integer GENERATED ALWAYS AS ((a * 2)) STORED,
             c integer GENERATED ALWAYS AS (id) STORED NOT NULL, d text GENERATED ALWAYS AS ('x'::text) STORED);
         ALTER TABLE ONLY public.t ADD CONSTRAINT t_pkey PRIMARY KEY (c);
         ALTER TABLE t ADD COLUMN e integer GENERATED ALWAYS AS (a + id) STORED, ALTER COLUMN d DROP EXPRESSION;
         ALTER TABLE t ALTER d DROP EXPRESSION IF EXISTS;
         CREATE INDEX ON t (e, b);",
    );
    assert_eq!(
        application.declarations(),
        "CREATE TABLE t (
    id integer NOT NULL,
    a integer,
    b integer GENERATED ALWAYS AS ((a * 2)) STORED,
    c integer GENERATED ALWAYS AS (id) STORED NOT NULL,
    d text,
    e integer GENERATED ALWAYS AS (a + id) STORED,
    CONSTRAINT t_pkey PRIMARY KEY (c)
);
CREATE INDEX t_e_b_idx ON t (e, b);
"
    );
    for (text, code) in [
        ("ALTER TABLE t ALTER a DROP EXPRESSION;", "55000"),
        ("ALTER TABLE t ALTER b SET DEFAULT 1;", "42601"),
        ("ALTER TABLE t ALTER b DROP DEFAULT;", "42601"),
    ] {
        let text =
            format!("CREATE TABLE t (a integer, b integer GENERATED ALWAYS AS (a) STORED); {text}");
        let problems = load(vec![SourceFile::new("a.sql", text)]).expect_err("it is refused");
        assert_eq!(problems[0].code, code);
    }
}
