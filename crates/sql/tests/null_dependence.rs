//! The columns of a row that decide whether the new value of an UPDATE is NULL: another transaction that changes one of
//! them may make it NULL.

use anabranch_sql::summary::WriteClass;
use anabranch_sql::{Application, SourceFile, load, render};

const TABLE: &str = "CREATE TABLE t (id bigint PRIMARY KEY, b boolean NOT NULL, c boolean, n integer NOT NULL, m integer, s text);";

/// The columns for `SET b = expression`.
fn null_by(expression: &str) -> Vec<usize> {
    let text = format!(
        "{TABLE}
CREATE FUNCTION f(k bigint, p integer) RETURNS void LANGUAGE sql
BEGIN ATOMIC UPDATE t SET b = {expression} WHERE id = k; END;"
    );
    let files = vec![SourceFile::new("a.sql", text)];
    let catalog = load(files.clone()).unwrap_or_else(|p| panic!("{}", render(&p, &files)));
    let application = Application::compile(catalog).unwrap_or_else(|p| panic!("{p:?}"));
    let access = &application.summaries()[0].statements[0].accesses[0];
    let [write] = &access.writes[..] else {
        panic!("{expression}: {:?}", access.writes)
    };
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
        assert_eq!(null_by(expression), columns, "{expression}");
    }
}
