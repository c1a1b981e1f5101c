//! What migration tools rest on: deferred foreign keys and advisory locks, through unmodified clients.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anabranch_server::service::{Guarantee, Service};
use postgres::Client;

use crate::support::*;

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

fn is(client: &mut Client, text: &str) -> bool {
    let row = client.query_one(text, &[]);
    row.unwrap_or_else(|error| panic!("{text}: {error:?}"))
        .get(0)
}

/// Runs a text on a connection of its own thread. The connection comes back with the SQLSTATE, if it is refused.
fn begin(mut client: Client, text: &str) -> Receiver<(Client, Option<String>)> {
    let (sender, receiver) = channel();
    let text = text.to_owned();
    std::thread::spawn(move || {
        let done = client.batch_execute(&text);
        let code = done.err().map(|error| code(&error).to_owned());
        let _ = sender.send((client, code));
    });
    receiver
}

const SOON: Duration = Duration::from_millis(300);
const LATE: Duration = Duration::from_secs(20);

fn waits(running: &Receiver<(Client, Option<String>)>) -> bool {
    running.recv_timeout(SOON).is_err()
}

fn ended(running: &Receiver<(Client, Option<String>)>) -> (Client, Option<String>) {
    running.recv_timeout(LATE).expect("it ends")
}

/// The same without an error.
fn done(running: &Receiver<(Client, Option<String>)>) -> Client {
    let (client, refused) = ended(running);
    assert_eq!(refused, None);
    client
}

#[test]
fn an_advisory_lock_excludes_other_connections_until_it_is_released() {
    for service in services() {
        let (mut ann, mut ben) = (connect(&service), connect(&service));
        run(
            &mut ann,
            "SELECT pg_advisory_lock(7), pg_advisory_lock(7), pg_advisory_lock(1, 7)",
        );
        assert!(!is(&mut ben, "SELECT pg_try_advisory_lock(7)"));
        assert!(!is(&mut ben, "SELECT pg_try_advisory_lock_shared(1, 7)"));
        assert!(is(&mut ben, "SELECT pg_try_advisory_lock(1, 8)"));
        assert!(
            !is(&mut ben, "SELECT pg_advisory_unlock(7)"),
            "it is not Ben's"
        );
        let ben = begin(ben, "SELECT pg_advisory_lock(7)");
        assert!(waits(&ben));
        assert!(is(&mut ann, "SELECT pg_advisory_unlock(7)"));
        assert!(waits(&ben), "it was taken twice");
        assert!(is(&mut ann, "SELECT pg_advisory_unlock(7)"));
        let mut ben = done(&ben);
        assert!(!is(&mut ann, "SELECT pg_try_advisory_lock($$7$$::bigint)"));
        run(&mut ben, "SELECT pg_advisory_unlock_all()");
        assert!(is(&mut ann, "SELECT pg_try_advisory_lock(7)"));
        // A connection that ends has none, nor one that discards all.
        drop(ben);
        let ben = begin(connect(&service), "SELECT pg_advisory_lock(7)");
        assert!(waits(&ben));
        drop(ann);
        let mut ben = done(&ben);
        run(&mut ben, "DISCARD ALL");
        assert!(is(&mut connect(&service), "SELECT pg_try_advisory_lock(7)"));
        service.stop().expect("it stops");
    }
}

#[test]
fn a_lock_of_a_transaction_ends_with_it_or_with_its_savepoint() {
    for service in services() {
        let (mut ann, mut ben) = (connect(&service), connect(&service));
        run(&mut ann, "SELECT pg_advisory_xact_lock(1)");
        assert!(
            is(&mut ben, "SELECT pg_try_advisory_lock(1)"),
            "its statement has ended"
        );
        run(&mut ben, "SELECT pg_advisory_unlock(1)");
        for end in ["COMMIT", "ROLLBACK"] {
            run(
                &mut ann,
                "BEGIN; SELECT pg_advisory_xact_lock(1); INSERT INTO parents VALUES (1, 'a')",
            );
            assert!(!is(&mut ben, "SELECT pg_try_advisory_xact_lock(1)"));
            assert!(
                !is(&mut ann, "SELECT pg_advisory_unlock(1)"),
                "it is the transaction's"
            );
            run(&mut ann, end);
            assert!(is(&mut ben, "SELECT pg_try_advisory_xact_lock(1)"));
            run(&mut ann, "DELETE FROM parents");
        }
        run(
            &mut ann,
            "BEGIN; SELECT pg_advisory_xact_lock_shared(1); SAVEPOINT a; SELECT pg_advisory_xact_lock(2); \
             SELECT pg_advisory_lock(3); ROLLBACK TO a",
        );
        assert!(is(&mut ben, "SELECT pg_try_advisory_xact_lock(2)"));
        assert!(is(&mut ben, "SELECT pg_try_advisory_xact_lock_shared(1)"));
        assert!(!is(&mut ben, "SELECT pg_try_advisory_xact_lock(1)"));
        assert!(
            !is(&mut ben, "SELECT pg_try_advisory_xact_lock(3)"),
            "ROLLBACK does not release it"
        );
        // What fails gives up its locks at once.
        assert_eq!(refused(&mut ann, "SELECT 1 / 0").0, "22012");
        run(&mut ann, "ROLLBACK TO a; SELECT pg_advisory_xact_lock(2)");
        assert_eq!(refused(&mut ann, "RELEASE a; SELECT 1 / 0").0, "22012");
        assert!(is(&mut ben, "SELECT pg_try_advisory_xact_lock(1)"));
        run(&mut ann, "ROLLBACK");
        // A text of several statements is one transaction.
        let ann = begin(
            ann,
            "SELECT pg_advisory_xact_lock(4); SELECT pg_advisory_lock(5); SELECT 1",
        );
        let mut ann = done(&ann);
        assert!(is(&mut ben, "SELECT pg_try_advisory_lock(4)"));
        let waiting = begin(
            connect(&service),
            "SELECT pg_advisory_xact_lock(6); SELECT pg_advisory_lock(5)",
        );
        assert!(waits(&waiting));
        assert!(!is(&mut ben, "SELECT pg_try_advisory_lock(6)"));
        run(&mut ann, "SELECT pg_advisory_unlock(5)");
        drop(done(&waiting));
        assert_eq!(
            refused(&mut ann, "SELECT pg_advisory_lock(id) FROM parents").0,
            "0A000"
        );
        service.stop().expect("it stops");
    }
}

#[test]
fn a_wait_for_an_advisory_lock_ends_by_cancel_and_by_time() {
    let service = start_with(&[SCHEMA], Guarantee::Serializable, options());
    let mut ann = connect(&service);
    run(&mut ann, "SELECT pg_advisory_lock(1)");
    let mut ben = connect(&service);
    run(&mut ben, "SET lock_timeout = 50");
    assert_eq!(refused(&mut ben, "SELECT pg_advisory_lock(1)").0, "55P03");
    run(&mut ben, "SET lock_timeout = 0; SET statement_timeout = 50");
    assert_eq!(refused(&mut ben, "SELECT pg_advisory_lock(1)").0, "57014");
    run(
        &mut ben,
        "SET statement_timeout = 0; BEGIN; INSERT INTO parents VALUES (1, 'a')",
    );
    let cancel = ben.cancel_token();
    let ben = begin(ben, "SELECT pg_advisory_xact_lock(1)");
    assert!(waits(&ben));
    cancel.cancel_query(postgres::NoTls).expect("it is sent");
    let (mut ben, refused) = ended(&ben);
    assert_eq!(refused.as_deref(), Some("57014"));
    run(&mut ben, "ROLLBACK");
    // One that has gone stands in no queue.
    let gone = begin(ben, "SELECT pg_advisory_lock(1)");
    assert!(waits(&gone));
    run(&mut ann, "SELECT pg_advisory_unlock(1)");
    let mut ben = done(&gone);
    assert_eq!(number(&mut ben, "SELECT count(*) FROM parents"), 0);
    service.stop().expect("it stops");
}

#[test]
fn two_connections_that_wait_for_each_other_are_told() {
    for service in services() {
        let (mut ann, mut ben) = (connect(&service), connect(&service));
        run(&mut ann, "SELECT pg_advisory_lock(1)");
        run(&mut ben, "BEGIN; SELECT pg_advisory_xact_lock(2)");
        let ann = begin(ann, "SELECT pg_advisory_lock(2)");
        assert!(waits(&ann));
        let (code, message) = refused(&mut ben, "SELECT pg_advisory_lock(1)");
        assert_eq!(
            (code.as_str(), message.as_str()),
            ("40P01", "deadlock detected")
        );
        // Its transaction has failed, and with it its lock is free.
        let mut ann = done(&ann);
        run(&mut ben, "ROLLBACK");
        // A transaction that waits here holds no rows that the other wants, and goes on as if it had run later.
        run(&mut ben, "INSERT INTO parents VALUES (5, 'e')");
        run(
            &mut ben,
            "BEGIN; UPDATE parents SET name = 'b' WHERE id = 5",
        );
        let ben = begin(ben, "SELECT pg_advisory_xact_lock(1); COMMIT");
        assert!(waits(&ben));
        run(&mut ann, "SET lock_timeout = '5s'");
        run(&mut ann, "UPDATE parents SET name = 'a' WHERE id = 5");
        run(&mut ann, "SELECT pg_advisory_unlock_all()");
        let mut ben = done(&ben);
        assert!(is(&mut ben, "SELECT name = 'b' FROM parents WHERE id = 5"));
        service.stop().expect("it stops");
    }
}

/// Flyway, Prisma and golang-migrate hold a lock while they change the schema, and others wait for it.
#[test]
fn a_lock_is_held_while_its_connection_changes_the_schema() {
    let service = start_with(&[], Guarantee::Serializable, options());
    let (mut ann, ben) = (connect(&service), connect(&service));
    run(&mut ann, "SELECT pg_advisory_lock(72707369)");
    let ben = begin(ben, "SELECT pg_advisory_lock(72707369)");
    assert!(waits(&ben));
    run(&mut ann, "CREATE TABLE t (id integer PRIMARY KEY)");
    run(
        &mut ann,
        "BEGIN; ALTER TABLE t ADD COLUMN n integer; INSERT INTO t VALUES (1, 1); COMMIT",
    );
    assert!(waits(&ben), "the lock is held still");
    run(&mut ann, "SELECT pg_advisory_unlock(72707369)");
    let mut ben = done(&ben);
    assert_eq!(number(&mut ben, "SELECT count(*) FROM t"), 1);
    // A transaction that is open and waits for the lock would keep the schema from changing for ever.
    run(&mut ann, "BEGIN; SELECT count(*) FROM t");
    let ann = begin(ann, "SELECT pg_advisory_xact_lock(72707369)");
    assert!(waits(&ann));
    assert_eq!(refused(&mut ben, "ALTER TABLE t DROP COLUMN n").0, "40P01");
    run(&mut ben, "SELECT pg_advisory_unlock(72707369)");
    let mut ann = done(&ann);
    run(&mut ann, "COMMIT");
    // Nor can what runs alone wait for others.
    run(&mut ann, "SELECT pg_advisory_lock(1)");
    run(
        &mut ben,
        "BEGIN; ALTER TABLE t ADD COLUMN m integer; SELECT pg_advisory_xact_lock(2)",
    );
    assert_eq!(refused(&mut ben, "SELECT pg_advisory_lock(1)").0, "40P01");
    run(&mut ben, "ROLLBACK");
    run(&mut ann, "ALTER TABLE t ADD COLUMN m integer");
    assert!(is(&mut ann, "SELECT pg_advisory_unlock(1)"));
    service.stop().expect("it stops");
}
