//! The columns of a row that decide whether the new value of an UPDATE is NULL: another transaction that changes one of
//! them may make it NULL.

use anabranch_sql::summary::{ColumnWrite, Term, WriteClass};
use anabranch_sql::{Application, SourceFile, load, render};
use anabranch_types::Value;

const TABLE: &str = "CREATE TABLE t (id bigint PRIMARY KEY, b boolean NOT NULL, c boolean, n integer NOT NULL, m integer, s text);";

/// How `SET column = expression` writes the column.
fn written(column: &str, expression: &str) -> ColumnWrite {
    let text = format!(
        "{TABLE}
CREATE FUNCTION f(k bigint, p integer, q integer) RETURNS void LANGUAGE sql
BEGIN ATOMIC UPDATE t SET {column} = {expression} WHERE id = k; END;"
    );
    let files = vec![SourceFile::new("a.sql", text)];
    let catalog = load(files.clone()).unwrap_or_else(|p| panic!("{}", render(&p, &files)));
    let application = Application::compile(catalog).unwrap_or_else(|p| panic!("{p:?}"));
    let access = &application.summaries()[0].statements[0].accesses[0];
    let [write] = &access.writes[..] else {
        panic!("{expression}: {:?}", access.writes)
    };
    write.clone()
}

/// The columns for `SET column = expression`.
fn null_by(column: &str, expression: &str) -> Vec<usize> {
    let write = written(column, expression);
    assert_eq!(write.class, WriteClass::FromRow, "{expression}");
    write.null_by.iter().map(|column| column.index()).collect()
}

#[test]
fn a_truth_is_null_by_what_it_is_about() {
    for (expression, columns) in [
        ("NOT b", &[][..]),
        ("NOT c", &[2]),
        ("n > 3", &[]),
        ("n > m", &[4]),
        ("n > p", &[]),
        ("NOT (s = 'x')", &[5]),
        ("c IS NULL", &[]),
        ("c IS NOT TRUE", &[]),
        ("m IS DISTINCT FROM n", &[]),
    ] {
        assert_eq!(null_by("b", expression), columns, "{expression}");
    }
}

/// What may be NULL by itself is no reason to pass over the columns beside it.
#[test]
fn a_value_that_may_be_null_leaves_the_choice_to_the_row() {
    for (expression, columns) in [
        ("coalesce(nullif(p, 5), m)", &[4][..]),
        ("coalesce(nullif(p, 5), n)", &[]),
        ("CASE WHEN n > 3 THEN round(p) ELSE nullif(p, 5) END", &[3]),
        (
            "CASE WHEN n > 3 THEN nullif(p, 4) ELSE nullif(p, 5) END",
            &[3],
        ),
        ("CASE WHEN n > 3 THEN p ELSE p + 1 END", &[]),
    ] {
        assert_eq!(null_by("n", expression), columns, "{expression}");
    }
}

#[test]
fn an_amount_is_null_by_what_it_is_computed_from() {
    let p = || Term::Parameter(1);
    let q = || Term::Parameter(2);
    for (amount, expected) in [
        ("1", Some(vec![])),
        ("p", Some(vec![p()])),
        ("p * 2", Some(vec![p()])),
        ("(p + q)", Some(vec![p(), q()])),
        ("abs(p)", Some(vec![p()])),
        ("CASE WHEN p > 0 THEN p ELSE q END", Some(vec![p(), q()])),
        ("coalesce(p, 0)", Some(vec![])),
        ("coalesce(p, q)", None),
        ("NULL", Some(vec![Term::Constant(Value::Null)])),
        (
            "CASE WHEN p > 0 THEN 1 END",
            Some(vec![Term::Constant(Value::Null)]),
        ),
        ("nullif(p, 3)", None),
    ] {
        for expression in [format!("m + {amount}"), format!("m - {amount}")] {
            let write = written("m", &expression);
            assert!(
                matches!(write.class, WriteClass::Add { .. }),
                "{expression}"
            );
            assert_eq!(write.amount_null_by, expected, "{expression}");
        }
    }
    assert_eq!(written("m", "p").amount_null_by, None);
}
