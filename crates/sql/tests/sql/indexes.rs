//! Indexes of expressions and partial indexes: their hidden columns hold what they are of, are used by queries, and are
//! seen by none.
//!
//! `changes/indexes.sql` has what is reported to clients of them, with PostgreSQL 15's answers.

use anabranch_sql::{
    Application, SourceFile, load,
    summary::{Comparison, Term, WriteClass},
};

use crate::support::Database;

const SCHEMA: &str = "
    CREATE TABLE t (id integer PRIMARY KEY, email varchar(40), a integer, b integer, live boolean NOT NULL DEFAULT true);
    CREATE UNIQUE INDEX t_email ON t (lower(email));
    CREATE INDEX t_sum ON t ((a + b), id);
    CREATE UNIQUE INDEX t_live ON t (a) WHERE live AND b > 0;
    CREATE INDEX t_zero ON t (coalesce(a, 0));
    CREATE TABLE o (id integer PRIMARY KEY, t integer, name text);
    CREATE INDEX o_name ON o (upper(name)) WHERE t IS NOT NULL;";

const ROWS: [&str; 2] = [
    "INSERT INTO t VALUES (1, 'Ann', 1, 2, true), (2, 'BOB', 2, 1, false), (3, NULL, NULL, 5, true), \
     (4, 'eve', 2, 4, true), (5, 'Zoe', 2, 9, false), (6, 'yan', NULL, NULL, true)",
    "INSERT INTO o VALUES (1, 1, 'x'), (2, 3, 'y'), (3, NULL, 'X'), (4, 9, 'Y')",
];

fn compiled(text: &str) -> Application {
    let catalog = load(vec![SourceFile::new("a.sql", text)]).unwrap_or_else(|p| panic!("{p:?}"));
    Application::compile(catalog).unwrap_or_else(|p| panic!("{p:?}"))
}

/// The reads of a statement of a procedure with an integer `n` and a text `s`.
fn scans(statement: &str) -> Vec<String> {
    let application = compiled(&format!(
        "{SCHEMA} CREATE PROCEDURE p(n integer, s text) LANGUAGE plpgsql AS $$ BEGIN {statement}; END $$;"
    ));
    let explained = application.procedures[0].explain();
    let lines = explained
        .lines()
        .map(str::trim)
        .filter(|line| line.contains("Scan on") || line.starts_with("Range:"));
    lines.map(str::to_owned).collect()
}

#[test]
fn queries_use_them() {
    let by_email = [
        "Range Scan on t using t_email",
        "Range: lower(email::text) = s",
    ];
    let by_sum = ["Range Scan on t using t_sum", "Range: (a + b) = n"];
    let by_live = ["Range Scan on t using t_live", "Range: a = n"];
    let scan = ["Full Scan on t"];
    for (statement, expected) in [
        ("PERFORM id FROM t WHERE lower(email) = s", &by_email[..]),
        (
            "PERFORM id FROM t AS x WHERE s = lower(x.email) AND a > 1",
            &by_email,
        ),
        (
            "UPDATE t SET a = 1 WHERE lower(email) = s",
            &["Range Scan on t using t_email for update", by_email[1]],
        ),
        (
            "DELETE FROM t WHERE a + b = n",
            &["Range Scan on t using t_sum for update", by_sum[1]],
        ),
        // As pg_dump writes it.
        (
            "PERFORM id FROM t WHERE (lower((email)::text) = s)",
            &by_email,
        ),
        ("PERFORM id FROM t WHERE a + b = n", &by_sum),
        ("PERFORM id FROM t WHERE b + a = n", &scan),
        ("PERFORM id FROM t WHERE upper(email) = s", &scan),
        ("PERFORM id FROM t WHERE a = n AND live AND b > 0", &by_live),
        (
            "PERFORM id FROM t WHERE b > 0 AND n = a AND live AND id > 0",
            &by_live,
        ),
        ("PERFORM id FROM t WHERE a = n AND live", &scan),
        ("PERFORM id FROM t WHERE a = n AND (live OR b > 0)", &scan),
        (
            "PERFORM o.id FROM o JOIN t ON lower(t.email) = o.name AND o.t = n",
            &[
                "Full Scan on o",
                by_email[0],
                "Range: lower(email::text) = name",
            ],
        ),
        (
            "PERFORM o.id FROM o WHERE t IS NOT NULL AND upper(name) = s",
            &["Range Scan on o using o_name", "Range: upper(name) = s"],
        ),
        (
            "PERFORM o.id FROM o WHERE upper(name) = s",
            &["Full Scan on o"],
        ),
    ] {
        assert_eq!(scans(statement), expected, "{statement}");
    }
}

/// A row that an outer join adds has no hidden columns: an expression over its columns need not be NULL.
#[test]
fn rows_that_an_outer_join_adds_are_as_without_them() {
    let mut database = Database::with(SCHEMA, &ROWS);
    for (statement, answer) in [
        (
            "SELECT o.id FROM o LEFT JOIN t ON t.id = o.t WHERE coalesce(t.a, 0) = 0 ORDER BY 1",
            "2;3;4",
        ),
        (
            "SELECT o.id FROM t RIGHT JOIN o ON t.id = o.t WHERE coalesce(t.a, 0) = 0 ORDER BY 1",
            "2;3;4",
        ),
        (
            "SELECT o.id, t.id FROM t FULL JOIN o ON t.id = o.t WHERE coalesce(t.a, 0) = 0 ORDER BY 1, 2",
            "2|3;3|-;4|-;-|6",
        ),
        (
            "SELECT id FROM t WHERE coalesce(a, 0) = 0 ORDER BY 1",
            "3;6",
        ),
        (
            "SELECT o.id FROM o JOIN t ON coalesce(t.a, 0) = o.id - 2 ORDER BY 1",
            "2;2;3;4;4;4",
        ),
        (
            "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM o WHERE o.t = t.id AND coalesce(t.a, 0) = 0)",
            "3",
        ),
        (
            "SELECT id FROM t WHERE lower(email) IN ('bob', 'eve') ORDER BY 1",
            "2;4",
        ),
        (
            "SELECT id FROM t WHERE lower(email) > 'b' ORDER BY lower(email)",
            "2;4;6;5",
        ),
        ("SELECT id FROM t WHERE lower(email) IS NULL", "3"),
        ("SELECT id FROM t WHERE a = 2 AND live AND b > 0", "4"),
        (
            "SELECT id FROM t WHERE a >= 1 AND b > 0 AND live ORDER BY 1",
            "1;4",
        ),
        ("SELECT max(lower(email)) FROM t", "zoe"),
    ] {
        database.check(statement, answer);
    }
}

/// Equal constants that are written with other digits give other texts.
#[test]
fn an_expression_is_used_as_it_is_written() {
    let schema = "CREATE TABLE p (id integer PRIMARY KEY, price numeric(9, 2), live boolean);
        CREATE UNIQUE INDEX p_text ON p (((price * 1.0)::text));
        CREATE INDEX p_some ON p (price) WHERE id > 0 AND live;";
    let rows = ["INSERT INTO p VALUES (1, 5, true), (2, 6, true)"];
    let mut database = Database::with(schema, &rows);
    for (statement, answer) in [
        ("SELECT id FROM p WHERE (price * 1.0)::text = '5.000'", "1"),
        (
            "SELECT id FROM p WHERE (price * 1.00)::text = '5.0000'",
            "1",
        ),
        (
            "SELECT count(*) FROM p WHERE live AND id > 0 AND price > random()",
            "2",
        ),
    ] {
        database.check(statement, answer);
    }
    database.refuse(
        "INSERT INTO p VALUES (3, 5, true) ON CONFLICT (((price * 1.00)::text)) DO NOTHING",
        "42P10",
    );
    database.check(
        "INSERT INTO p VALUES (3, 5, true) ON CONFLICT (((price * 1.0)::text)) DO NOTHING",
        "#0",
    );
}

#[test]
fn no_statement_sees_them() {
    let mut database = Database::with(SCHEMA, &ROWS);
    for (statement, answer) in [
        ("SELECT * FROM t WHERE id = 1", "1|Ann|1|2|t"),
        (
            "SELECT t.*, o.* FROM t NATURAL JOIN o WHERE id = 1",
            "1|Ann|1|2|t|1|1|x",
        ),
        (
            "SELECT row_to_json(o) FROM o WHERE id = 1",
            "{\"id\":1,\"t\":1,\"name\":\"x\"}",
        ),
        ("INSERT INTO o VALUES (5, 5, 'z') RETURNING *", "5|5|z"),
        ("UPDATE o SET name = 'w' WHERE id = 5 RETURNING *", "5|5|w"),
        ("DELETE FROM o WHERE id = 5 RETURNING *", "5|5|w"),
        (
            "SELECT count(*) FROM (SELECT * FROM t) AS x JOIN (SELECT * FROM o) AS y USING (id)",
            "4",
        ),
    ] {
        database.check(statement, answer);
    }
    for (statement, code) in [
        ("SELECT \"lower(email::text)\" FROM t", "42703"),
        ("SELECT t.\"lower(email::text)\" FROM t", "42703"),
        ("UPDATE t SET \"lower(email::text)\" = 'x'", "42703"),
        (
            "INSERT INTO t (id, \"lower(email::text)\") VALUES (9, 'x')",
            "42703",
        ),
        ("INSERT INTO o VALUES (5, 5, 'z', 'Z')", "42601"),
        (
            "INSERT INTO t (id) VALUES (9) ON CONFLICT (\"lower(email::text)\") DO NOTHING",
            "42703",
        ),
    ] {
        database.refuse(statement, code);
    }
}

/// The analyser sees that the values of an index change, and a condition on an expression as one on a column.
#[test]
fn the_analyser_sees_them() {
    let application = compiled(&format!(
        "{SCHEMA}
         CREATE FUNCTION f(i integer, e varchar) RETURNS void LANGUAGE sql BEGIN ATOMIC
             UPDATE t SET email = e WHERE id = i; END;
         CREATE FUNCTION g(e text) RETURNS void LANGUAGE sql BEGIN ATOMIC
             UPDATE t SET b = b + 1 WHERE lower(email) = e; END;"
    ));
    let schema = &application.schema().tables[0];
    let hidden: Vec<&str> = schema.columns[schema.visible_columns().len()..]
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(
        hidden,
        ["lower(email::text)", "(a + b)", "a", "COALESCE(a, 0)"]
    );
    let access = |place: usize| &application.summaries()[place].statements[0].accesses[0];
    let written: Vec<(usize, &WriteClass)> = access(0)
        .writes
        .iter()
        .map(|w| (w.column.index(), &w.class))
        .collect();
    let (given, computed) = (
        WriteClass::Assign(Term::Pure),
        WriteClass::Assign(Term::Pure),
    );
    assert_eq!(written, [(1, &given), (5, &computed)]);
    let condition = &access(1).conditions[0];
    assert_eq!(condition.column.index(), 5);
    assert_eq!(condition.comparison, Comparison::Equal);
    let written = access(1).writes.iter().map(|w| w.column.index());
    assert_eq!(written.collect::<Vec<_>>(), [3, 6, 7]);
}

/// Indexes with the same part share its column.
#[test]
fn equal_parts_are_kept_once() {
    let application = compiled(
        "CREATE TABLE t (id integer PRIMARY KEY, a text);
         CREATE INDEX ON t (lower(a));
         CREATE INDEX ON t (lower(a), id);
         CREATE INDEX ON t ((lower(a)));
         CREATE INDEX ON t (a) WHERE id > 1;
         CREATE UNIQUE INDEX ON t (a, id) WHERE id > 1;",
    );
    let schema = &application.schema().tables[0];
    assert_eq!(schema.columns.len() - schema.visible_columns().len(), 3);
}

/// What `pg_dump` 15 writes of `schemas/goods.sql` declares the same columns, and is used by the same queries.
#[test]
fn a_dump_declares_the_same() {
    let texts = [
        include_str!("schemas/goods.sql"),
        include_str!("schemas/goods_dumped.sql"),
    ];
    let procedure = "CREATE PROCEDURE p(n numeric, s text) LANGUAGE plpgsql AS $$ BEGIN
        PERFORM id FROM goods WHERE lower(name) = s;
        PERFORM id FROM goods WHERE live AND name <> 'x' AND name = s AND gross = n;
        PERFORM id FROM goods WHERE live AND id + 1 = 3 AND (net IS NULL) = true AND coalesce(net, 0) = n;
        END $$;";
    let [own, dumped] = texts.map(|text| compiled(&format!("{text}\n{procedure}")));
    let columns = |application: &Application| -> Vec<String> {
        let columns = application.schema().tables[0].columns.iter();
        let mut described: Vec<String> = columns
            .map(|of| format!("{} {} {}", of.name, of.data_type, of.nullable))
            .map(|text| text.replace("0::numeric", "0"))
            .collect();
        described.sort();
        described
    };
    assert_eq!(columns(&own), columns(&dumped));
    let used = |application: &Application| -> Vec<String> {
        let explained = application.procedures[0].explain();
        let scans = explained.lines().filter(|line| line.contains("Scan on"));
        scans.map(|line| line.trim().to_owned()).collect()
    };
    let indexes = ["goods_name", "goods_live", "goods_sum"];
    let scans = indexes.map(|index| format!("Range Scan on goods using {index}"));
    assert_eq!(used(&own), scans);
    assert_eq!(used(&dumped), scans);
    let again = compiled(&dumped.declarations());
    assert_eq!(again.declarations(), dumped.declarations());
}
