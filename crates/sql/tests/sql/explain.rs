//! EXPLAIN output of compiled plans.

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

/// An UPDATE that returns unchanged columns can be evaluated by the row's owner; one that returns a changed column, in
/// a result that is used, cannot.
#[test]
fn plans_say_what_can_be_deferred() {
    let text = "
CREATE TABLE t (id integer PRIMARY KEY, kind integer NOT NULL, n integer NOT NULL);
CREATE TABLE kinds (kind integer PRIMARY KEY, total integer NOT NULL);
CREATE PROCEDURE add(p integer, amount integer) LANGUAGE plpgsql AS $$
DECLARE
    k integer;
BEGIN
    UPDATE t SET n = n + amount WHERE id = p RETURNING kind INTO k;
    UPDATE kinds SET total = total + amount WHERE kind = k;
END $$;
CREATE PROCEDURE add_if_there(p integer) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE t SET n = n + 1 WHERE id = p;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no %', p;
    END IF;
END $$;
CREATE PROCEDURE add_and_look(p integer) LANGUAGE plpgsql AS $$
DECLARE
    m integer;
BEGIN
    UPDATE t SET n = n + 1 WHERE id = p RETURNING n INTO m;
    IF m > 10 THEN
        RAISE EXCEPTION 'too many';
    END IF;
END $$;";
    let catalog = load(vec![SourceFile::new("t.sql", text)]).unwrap();
    let application = Application::compile(catalog).unwrap();
    let heads = |name: &str| -> Vec<String> {
        let explained = application.find(name).unwrap().explain();
        let heads = explained.lines().filter(|line| !line.starts_with(' '));
        heads.map(str::to_owned).collect()
    };
    assert_eq!(
        heads("add"),
        [
            "0: Update on t (can be deferred once the row is read)",
            "1: Update on kinds (can be deferred)"
        ]
    );
    assert_eq!(
        heads("add_if_there"),
        ["2: Update on t (can be deferred once the row is read)"]
    );
    assert_eq!(heads("add_and_look"), ["3: Update on t"]);
}
