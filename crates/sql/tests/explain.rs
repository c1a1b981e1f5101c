//! What a compiled plan looks like to a person.

use anabranch_sql::{Application, SourceFile, load};

#[test]
fn plans_name_their_access_paths() {
    let text = "
CREATE TABLE t (a integer, b integer, c text NOT NULL, PRIMARY KEY (a, b));
CREATE INDEX t_by_c ON t (c);
CREATE PROCEDURE p(x integer, y integer, names text[]) LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    SELECT max(b) INTO n FROM t WHERE a = x;
    PERFORM b FROM t WHERE a = x AND b > y ORDER BY b LIMIT 3;
    PERFORM u.c FROM t u JOIN unnest(names) AS s (name) ON u.c = s.name WHERE b <> 7;
    UPDATE t SET c = c || 'x' WHERE a = x AND b = n;
END $$;";
    let catalog = load(vec![SourceFile::new("t.sql", text)]).unwrap();
    let application = Application::compile(catalog).unwrap();
    let expected = "\
0: Select
  Range Scan Backward on t using primary key
    Range: a = x
    Stop after: 1
  Aggregate max
1: Select
  Range Scan on t using primary key
    Range: a = x AND b > y
    Stop after: 3
  Limit 3
2: Select
  Function unnest(names) f2
  Range Scan on t using t_by_c
    Range: c = f2.1
    Filter: b <> 7
3: Update on t (can be deferred)
  Key Lookup on t for update
    Key: a = x AND b = n
  Set: c = (c || 'x')
";
    assert_eq!(application.procedures[0].explain(), expected);
}
