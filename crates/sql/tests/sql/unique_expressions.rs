//! Unique indexes on expressions, or on some rows, as assertions.

use anabranch_sql::script::{Script, read};
use anabranch_sql::testing::{Store, ready};
use anabranch_sql::{SourceFile, render};

const TABLE: &str = "CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TABLE public.t (id bigint PRIMARY KEY, a bigint, b text NOT NULL, live boolean, m mood, data jsonb,
  twice bigint GENERATED ALWAYS AS (a * 2) STORED);
";

fn script(text: &str) -> Script {
    let files = vec![SourceFile::new("a.sql", format!("{TABLE}{text}"))];
    read(files.clone()).unwrap_or_else(|found| panic!("{}", render(&found, &files)))
}

/// Whether the assertion holds for these rows.
fn holds(index: &str, rows: &str) -> bool {
    let script = script(&format!("{index};"));
    assert!(script.skipped.len() <= 1, "{index}: {:?}", script.skipped);
    let application = &script.application;
    let [assertion] = application.assertions() else {
        panic!("{index}: {:?}", script.skipped);
    };
    let mut store = Store::new(application);
    let mut transaction = store.begin();
    let insert = format!("INSERT INTO t (id, a, b, live, m) VALUES {rows}");
    let statement = application.statement(&insert).expect(&insert);
    ready(statement.execute(&mut transaction, &[])).expect(&insert);
    ready(assertion.holds(&mut transaction)).expect(index)
}

#[test]
fn the_assertion_is_equivalent_to_the_index() {
    let one = "(1, 1, 'x', true, 'sad')";
    for (index, other, expected) in [
        (
            "CREATE UNIQUE INDEX i ON t (a) WHERE live",
            "(2, 1, 'y', true, 'sad')",
            false,
        ),
        (
            "CREATE UNIQUE INDEX i ON t (a) WHERE live",
            "(2, 1, 'y', false, 'sad')",
            true,
        ),
        (
            "CREATE UNIQUE INDEX i ON t (a) WHERE live",
            "(2, 2, 'y', true, 'sad')",
            true,
        ),
        (
            "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS i ON ONLY public.t USING btree (lower(b) text_pattern_ops DESC NULLS LAST)",
            "(2, 1, 'X', NULL, NULL)",
            false,
        ),
        (
            "CREATE UNIQUE INDEX ON t (lower(b))",
            "(2, 1, 'Y', NULL, NULL)",
            true,
        ),
        (
            "CREATE UNIQUE INDEX i ON t ((a + 1), b) INCLUDE (live) WITH (fillfactor = 70) TABLESPACE fast WHERE m = 'sad'::public.mood",
            "(2, 1, 'x', NULL, 'sad')",
            false,
        ),
        (
            "CREATE UNIQUE INDEX i ON t ((a + 1), b) INCLUDE (live) WITH (fillfactor = 70) TABLESPACE fast WHERE m = 'sad'::public.mood",
            "(2, 1, 'x', NULL, 'happy')",
            true,
        ),
    ] {
        assert_eq!(
            holds(index, &format!("{one}, {other}")),
            expected,
            "{index}: {other}"
        );
    }
}

#[test]
fn nulls_are_distinct_unless_declared_otherwise() {
    let rows = "(1, NULL, 'x', true, 'sad'), (2, NULL, 'y', true, 'sad')";
    assert!(holds("CREATE UNIQUE INDEX i ON t (a) WHERE live", rows));
    assert!(holds(
        "CREATE UNIQUE INDEX i ON t (a) NULLS DISTINCT WHERE live",
        rows
    ));
    assert!(!holds(
        "CREATE UNIQUE INDEX i ON t (a) NULLS NOT DISTINCT WHERE live",
        rows
    ));
}

#[test]
fn indexes_over_opaque_columns_are_skipped() {
    for index in [
        "CREATE UNIQUE INDEX i ON t (a) WHERE data IS NOT NULL",
        "CREATE UNIQUE INDEX i ON t ((data ->> 'x'))",
        "CREATE UNIQUE INDEX i ON t ((twice + 1))",
        "CREATE UNIQUE INDEX i ON t (b COLLATE \"de_DE\") WHERE live",
        "CREATE UNIQUE INDEX i ON t USING hash (a) WHERE live",
        "CREATE UNIQUE INDEX i ON t (soundex(b))",
        "CREATE UNIQUE INDEX i ON t (a) WHERE m > 'sad'",
    ] {
        let text =
            format!("{index};\n-- name: Put :exec\nINSERT INTO t (id, a, b) VALUES ($1, $2, $3);");
        let script = script(&text);
        assert!(script.application.assertions().is_empty(), "{index}");
        let put = script
            .summaries
            .iter()
            .find(|s| s.name == "Put")
            .expect("it is there");
        assert!(put.unknown.is_some(), "{index}");
    }
}

/// An index on plain columns stays a key.
#[test]
fn indexes_on_plain_columns_are_keys() {
    let script = script("CREATE UNIQUE INDEX i ON t (a, b DESC);");
    assert!(script.application.assertions().is_empty());
    let indexes = &script.application.catalog().schema.tables[0].indexes;
    assert!(indexes.iter().any(|index| index.unique));
}
