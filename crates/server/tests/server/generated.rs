//! Generated columns and indexes of expressions, over a restart.

use anabranch_server::service::Guarantee;
use postgres::Client;

use crate::schema::{refused, rows, run};
use crate::support::*;

/// They are computed by every way to write, from the log and from a snapshot, and COPY leaves them out.
#[test]
fn generated_columns_outlive_a_restart() {
    let scratch = Scratch::new("schema-generated");
    let service = start_in(&[], Guarantee::Serializable, options(), Some(&scratch.0));
    let service = service.expect("it starts");
    let mut ann = connect(&service);
    run(
        &mut ann,
        "CREATE TABLE p (id integer PRIMARY KEY);
         CREATE TABLE t (
             id integer PRIMARY KEY, a integer REFERENCES p ON UPDATE CASCADE,
             b integer GENERATED ALWAYS AS (a * 2) STORED UNIQUE
         );
         INSERT INTO p VALUES (1), (2), (3);
         INSERT INTO t VALUES (1, 1), (2, 2)",
    );
    run(
        &mut ann,
        "ALTER TABLE t ADD c text GENERATED ALWAYS AS ('no ' || id) STORED",
    );
    run(&mut ann, "UPDATE p SET id = 30 WHERE id = 2");
    service.stop().expect("it stops");
    let service = restart(&scratch);
    let mut ann = connect(&service);
    let shown = |client: &mut Client| -> Vec<String> {
        let found = rows(
            client,
            "SELECT concat_ws(' ', id, a, b, c) AS row FROM t ORDER BY id",
        );
        found.iter().map(|row| row.get("row")).collect()
    };
    assert_eq!(shown(&mut ann), ["1 1 2 no 1", "2 30 60 no 2"]);
    run(&mut ann, "UPDATE p SET id = 40 WHERE id = 30");
    let mut copy = ann.copy_in("COPY t FROM STDIN").expect("it copies");
    std::io::Write::write_all(&mut copy, b"3\t3\n4\t\\N\n").expect("it is sent");
    assert_eq!(copy.finish().expect("it is copied"), 2);
    let all = ["1 1 2 no 1", "2 40 80 no 2", "3 3 6 no 3", "4 no 4"];
    assert_eq!(shown(&mut ann), all);
    let mut copied = String::new();
    let mut out = ann.copy_out("COPY t TO STDOUT").expect("it copies");
    std::io::Read::read_to_string(&mut out, &mut copied).expect("it is received");
    drop(out);
    assert_eq!(copied.lines().count(), 4);
    assert!(
        copied.lines().all(|line| line.split('\t').count() == 2),
        "{copied}"
    );
    let (code, message) = refused(&mut ann, "COPY t (id, b) TO STDOUT");
    assert_eq!(code, "42P10");
    assert_eq!(message, "column \"b\" is a generated column");
    assert_eq!(refused(&mut ann, "INSERT INTO t VALUES (5, 3)").0, "23505");
    // A key that is computed: the row moves with what it is computed from.
    run(
        &mut ann,
        "CREATE TABLE k (a integer, b integer GENERATED ALWAYS AS (a / 10) STORED PRIMARY KEY)",
    );
    run(&mut ann, "INSERT INTO k VALUES (10), (20), (35)");
    assert_eq!(refused(&mut ann, "INSERT INTO k VALUES (19)").0, "23505");
    assert_eq!(
        refused(&mut ann, "UPDATE k SET a = 38 WHERE b = 1").0,
        "23505"
    );
    run(&mut ann, "UPDATE k SET a = 71 WHERE b = 1");
    let found = rows(&mut ann, "SELECT a FROM k WHERE b IN (7, 3) ORDER BY b");
    let found: Vec<i32> = found.iter().map(|row| row.get("a")).collect();
    assert_eq!(found, [35, 71]);
    let error = ann
        .batch_execute("UPDATE t SET b = 1")
        .expect_err("it is refused");
    let error = error.as_db_error().expect("the server refuses it");
    assert_eq!(error.code().code(), "428C9");
    assert_eq!(error.detail(), Some("Column \"b\" is a generated column."));
    service.stop().expect("it stops");
}

/// Their hidden columns are in no row that a client sees, and their keys are PostgreSQL's in messages.
#[test]
fn indexes_of_expressions_outlive_a_restart() {
    let scratch = Scratch::new("schema-expressions");
    let service = start_in(&[], Guarantee::Serializable, options(), Some(&scratch.0));
    let service = service.expect("it starts");
    let mut ann = connect(&service);
    run(
        &mut ann,
        "CREATE TABLE t (id integer PRIMARY KEY, email text, a integer, b integer);
         INSERT INTO t VALUES (1, 'Ann', 1, 1), (2, 'bob', 1, 0);
         CREATE UNIQUE INDEX t_email ON t (lower(email));
         CREATE UNIQUE INDEX t_some ON t (a) WHERE b > 0",
    );
    let detail = |client: &mut Client, text: &str| -> (String, String) {
        let error = client.batch_execute(text).expect_err(text);
        let error = error.as_db_error().expect("the server refuses it");
        assert_eq!(error.code().code(), "23505");
        let constraint = error.constraint().unwrap_or_default().to_owned();
        (constraint, error.detail().unwrap_or_default().to_owned())
    };
    let check = |client: &mut Client| {
        let of = |constraint: &str, detail: &str| (constraint.to_owned(), detail.to_owned());
        let email = of("t_email", "Key (lower(email))=(ann) already exists.");
        let some = of("t_some", "Key (a)=(1) already exists.");
        assert_eq!(
            detail(client, "INSERT INTO t VALUES (3, 'ANN', 2, 2)"),
            email
        );
        assert_eq!(
            detail(client, "UPDATE t SET email = 'aNN' WHERE id = 2"),
            email
        );
        assert_eq!(
            detail(client, "INSERT INTO t VALUES (3, 'cid', 1, 2)"),
            some
        );
        assert_eq!(detail(client, "UPDATE t SET b = 1 WHERE id = 2"), some);
    };
    check(&mut ann);
    service.stop().expect("it stops");
    let service = restart(&scratch);
    let mut ann = connect(&service);
    check(&mut ann);
    run(
        &mut ann,
        "INSERT INTO t VALUES (3, 'BOB', 5, 5) ON CONFLICT (lower(email)) DO UPDATE SET email = excluded.email",
    );
    run(
        &mut ann,
        "INSERT INTO t VALUES (3, 'x', 1, 5) ON CONFLICT (a) WHERE b > 0 DO UPDATE SET b = 7",
    );
    let found = rows(&mut ann, "SELECT * FROM t ORDER BY id");
    assert_eq!(found[0].len(), 4);
    let shown: Vec<(i32, String, i32)> = found
        .iter()
        .map(|row| (row.get("id"), row.get("email"), row.get("b")))
        .collect();
    assert_eq!(shown, [(1, "Ann".to_owned(), 7), (2, "BOB".to_owned(), 0)]);
    let statement = ann
        .prepare("SELECT id FROM t WHERE lower(email) = $1")
        .expect("it prepares");
    let found = ann.query(&statement, &[&"bob"]).expect("it runs");
    assert_eq!(found[0].get::<_, i32>(0), 2);
    run(&mut ann, "DROP INDEX t_some");
    run(&mut ann, "ALTER TABLE t ADD c integer DEFAULT 3");
    run(&mut ann, "INSERT INTO t VALUES (3, 'cid', 1, 2, 4)");
    let mut copied = String::new();
    let mut out = ann.copy_out("COPY t TO STDOUT").expect("it copies");
    std::io::Read::read_to_string(&mut out, &mut copied).expect("it is received");
    drop(out);
    assert!(copied.contains("3\tcid\t1\t2\t4\n"), "{copied}");
    service.stop().expect("it stops");
}
