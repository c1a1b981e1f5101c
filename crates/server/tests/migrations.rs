//! What migration tools rest on: deferred foreign keys, under both guarantees, through unmodified clients.

mod support;

use anabranch_server::service::{Guarantee, Service};
use postgres::Client;
use support::*;

const SCHEMA: &str = "
CREATE TABLE parents (id integer PRIMARY KEY, name text);
CREATE TABLE children (
    id integer PRIMARY KEY,
    parent integer CONSTRAINT to_parent REFERENCES parents DEFERRABLE INITIALLY DEFERRED
);
CREATE INDEX ON children (parent);
";

const PROCEDURES: &str = "
CREATE PROCEDURE add_both(p_child integer, p_parent integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO children VALUES (p_child, p_parent);
    INSERT INTO parents VALUES (p_parent, 'late');
END;
CREATE PROCEDURE add_child(p_child integer, p_parent integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO children VALUES (p_child, p_parent);
END;
CREATE PROCEDURE remove(p_parent integer) LANGUAGE SQL BEGIN ATOMIC
    DELETE FROM parents WHERE id = p_parent;
END;
";

fn services() -> [Service; 2] {
    [
        start_with(&[SCHEMA], Guarantee::Serializable, options()),
        start_with(&[SCHEMA, PROCEDURES], Guarantee::Invariants, options()),
    ]
}

fn run(client: &mut Client, text: &str) {
    let done = client.batch_execute(text);
    done.unwrap_or_else(|error| panic!("{text}: {error:?}"));
}

/// The SQLSTATE and the message of a text that is refused.
fn refused(client: &mut Client, text: &str) -> (String, String) {
    let error = client.batch_execute(text).expect_err(text);
    (code(&error).to_owned(), message(&error).to_owned())
}

fn number(client: &mut Client, text: &str) -> i64 {
    let row = client.query_one(text, &[]);
    row.unwrap_or_else(|error| panic!("{text}: {error:?}"))
        .get(0)
}

fn orphans(client: &mut Client) -> i64 {
    number(
        client,
        "SELECT count(*) FROM children WHERE NOT EXISTS (SELECT 1 FROM parents WHERE parents.id = children.parent)",
    )
}

#[test]
fn a_deferred_key_is_checked_at_the_end_under_both_guarantees() {
    for service in services() {
        let mut ann = connect(&service);
        run(
            &mut ann,
            "BEGIN; INSERT INTO children VALUES (1, 1), (2, 2); INSERT INTO parents VALUES (1, 'a'), (2, 'b'); COMMIT",
        );
        run(&mut ann, "BEGIN; INSERT INTO children VALUES (3, 3)");
        let (code, message) = refused(&mut ann, "COMMIT");
        assert_eq!(code, "23503");
        assert_eq!(
            message,
            "insert or update on table \"children\" violates foreign key constraint \"to_parent\""
        );
        run(
            &mut ann,
            "BEGIN; DELETE FROM parents WHERE id = 1; UPDATE children SET parent = 2 WHERE parent = 1; COMMIT",
        );
        run(&mut ann, "BEGIN; DELETE FROM parents WHERE id = 2");
        assert_eq!(
            refused(&mut ann, "SET CONSTRAINTS ALL IMMEDIATE").0,
            "23503"
        );
        run(&mut ann, "ROLLBACK");
        assert_eq!(
            refused(&mut ann, "INSERT INTO children VALUES (4, 4)").0,
            "23503"
        );
        assert_eq!(
            refused(&mut ann, "DELETE FROM parents WHERE id = 2").0,
            "23503"
        );
        assert_eq!(orphans(&mut ann), 0);
        service.stop().expect("it stops");
    }
}

#[test]
fn a_declared_procedure_may_insert_the_child_first() {
    let service = start_with(&[SCHEMA, PROCEDURES], Guarantee::Invariants, options());
    let mut ann = connect(&service);
    run(&mut ann, "CALL add_both(1, 1)");
    run(&mut ann, "CALL add_child(2, 1)");
    assert_eq!(refused(&mut ann, "CALL add_child(3, 3)").0, "23503");
    assert_eq!(refused(&mut ann, "CALL remove(1)").0, "23503");
    run(
        &mut ann,
        "BEGIN; CALL add_child(3, 3); CALL add_both(4, 3); COMMIT",
    );
    assert_eq!(number(&mut ann, "SELECT count(*) FROM children"), 4);
    service.stop().expect("it stops");
}

/// One connection inserts a child, the other deletes its parent; the one that commits second meets what the first has done.
#[test]
fn a_parent_that_goes_at_the_same_time_leaves_no_orphan() {
    for service in services() {
        let (mut ann, mut ben) = (connect(&service), connect(&service));
        for round in 0..20 {
            run(
                &mut ann,
                &format!("INSERT INTO parents VALUES ({round}, 'a')"),
            );
            run(
                &mut ann,
                &format!("BEGIN; INSERT INTO children VALUES ({round}, {round})"),
            );
            let of_ben = std::thread::scope(|scope| {
                let ben = &mut ben;
                let other = scope.spawn(move || {
                    let text = format!("BEGIN; DELETE FROM parents WHERE id = {round}; COMMIT");
                    let done = ben.batch_execute(&text);
                    let code = done.err().map(|error| code(&error).to_owned());
                    if code.is_some() {
                        run(ben, "ROLLBACK");
                    }
                    code
                });
                if round % 2 == 0 {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                let of_ann = ann.batch_execute("COMMIT");
                let of_ann = of_ann.err().map(|error| code(&error).to_owned());
                let of_ben = other.join().expect("it ends");
                assert!(
                    of_ann.is_some() || of_ben.is_some(),
                    "round {round}: both have committed"
                );
                for code in of_ann.iter().chain(&of_ben) {
                    assert!(["23503", "40001"].contains(&code.as_str()), "{code}");
                }
                of_ben
            });
            if of_ben.is_none() {
                run(&mut ann, "ROLLBACK");
            }
            assert_eq!(orphans(&mut ann), 0, "round {round}");
        }
        service.stop().expect("it stops");
    }
}

#[test]
fn a_restart_and_a_change_of_the_schema_keep_what_is_deferred() {
    let scratch = Scratch::new("deferred");
    let service = start_in(&[], Guarantee::Serializable, options(), Some(&scratch.0));
    let service = service.expect("it starts");
    let mut ann = connect(&service);
    run(&mut ann, SCHEMA);
    run(
        &mut ann,
        "ALTER TABLE children ADD COLUMN note text DEFAULT 'n'",
    );
    service.stop().expect("it stops");
    let service = restart(&scratch);
    let mut ann = connect(&service);
    run(
        &mut ann,
        "BEGIN; INSERT INTO children VALUES (1, 1); INSERT INTO parents VALUES (1, 'a'); COMMIT",
    );
    // A change of the schema in the same transaction comes after the checks.
    run(&mut ann, "BEGIN; INSERT INTO children VALUES (2, 2)");
    assert_eq!(
        refused(&mut ann, "ALTER TABLE parents ADD COLUMN more integer").0,
        "23503"
    );
    run(&mut ann, "ROLLBACK");
    run(
        &mut ann,
        "BEGIN; ALTER TABLE parents ADD COLUMN more integer; INSERT INTO children VALUES (2, 2)",
    );
    assert_eq!(refused(&mut ann, "COMMIT").0, "23503");
    assert_eq!(number(&mut ann, "SELECT count(*) FROM children"), 1);
    assert!(ann.query("SELECT more FROM parents", &[]).is_err());
    service.stop().expect("it stops");
}

/// A block that is run again after a conflict says what its SET CONSTRAINTS said before.
#[test]
fn a_block_that_is_run_again_keeps_its_constraints() {
    let service = start_with(&[SCHEMA], Guarantee::Serializable, options());
    let (mut ann, mut ben) = (connect(&service), connect(&service));
    run(&mut ann, "INSERT INTO parents VALUES (1, 'a'), (2, 'b')");
    // Ann's transaction is older, and wounds Ben's.
    run(&mut ann, "BEGIN; SELECT name FROM parents WHERE id = 1");
    run(
        &mut ben,
        "BEGIN; INSERT INTO children VALUES (9, 9); INSERT INTO parents VALUES (9, 'i'); \
         SET CONSTRAINTS ALL IMMEDIATE; UPDATE parents SET name = 'B' WHERE id = 2",
    );
    run(
        &mut ann,
        "UPDATE parents SET name = 'A' WHERE id = 2; COMMIT",
    );
    assert_eq!(
        refused(&mut ben, "DELETE FROM parents WHERE id = 9").0,
        "23503",
        "it is immediate still"
    );
    run(&mut ben, "ROLLBACK");
    service.stop().expect("it stops");
}
