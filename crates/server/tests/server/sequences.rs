//! Sequences at a server: over restarts, over changes of the schema that are rolled back, over conflicts, and under a plan.

use anabranch_server::service::Guarantee;
use postgres::Client;

use crate::support::*;

const SCHEMA: &str = "
CREATE SEQUENCE tickets START WITH 100;
CREATE TABLE seats (id bigint DEFAULT nextval('tickets') PRIMARY KEY, holder text);
CREATE TABLE notes (id serial PRIMARY KEY, body text);
";

const PROCEDURES: &str = "
CREATE PROCEDURE book(p_holder text) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO seats (holder) VALUES (p_holder);
END;
";

fn run(client: &mut Client, text: &str) {
    let done = client.batch_execute(text);
    done.unwrap_or_else(|error| panic!("{text}: {error:?}"));
}

fn number(client: &mut Client, text: &str) -> i64 {
    let row = client.query_one(text, &[]);
    row.unwrap_or_else(|error| panic!("{text}: {error:?}"))
        .get(0)
}

#[test]
fn a_sequence_is_where_it_was_after_a_restart() {
    let scratch = Scratch::new("sequences");
    let first = start_in(
        &[SCHEMA],
        Guarantee::Serializable,
        options(),
        Some(&scratch.0),
    );
    let service = first.expect("it starts");
    let mut ann = connect(&service);
    for due in 100..140 {
        assert_eq!(number(&mut ann, "SELECT nextval('tickets')"), due);
    }
    run(&mut ann, "INSERT INTO notes (body) VALUES ('a'), ('b')");
    assert_eq!(number(&mut ann, "SELECT setval('notes_id_seq', 30)"), 30);
    // A change writes all points into the next generation.
    run(&mut ann, "CREATE TABLE others (id integer PRIMARY KEY)");
    assert_eq!(number(&mut ann, "SELECT nextval('tickets')"), 140);
    assert_eq!(number(&mut ann, "SELECT setval('tickets', 50, false)"), 50);
    service.stop().expect("it stops");
    let service = restart(&scratch);
    let mut ann = connect(&service);
    assert_eq!(number(&mut ann, "SELECT nextval('tickets')"), 50);
    assert_eq!(number(&mut ann, "SELECT nextval('notes_id_seq')"), 31);
    let error = ann.query_one("SELECT currval('seats_id_seq')", &[]);
    assert_eq!(code(&error.expect_err("there is none")), "42P01");
    service.stop().expect("it stops");
    let service = restart(&scratch);
    let mut ann = connect(&service);
    let next = number(&mut ann, "SELECT nextval('tickets')");
    assert!((51..=51 + 64).contains(&next), "{next}");
    service.stop().expect("it stops");
}

/// As in PostgreSQL, what was drawn and set stays so, whatever becomes of the transaction.
#[test]
fn a_rollback_takes_no_number_back() {
    let scratch = Scratch::new("sequences-rollback");
    let stored = start_in(
        &[SCHEMA],
        Guarantee::Serializable,
        options(),
        Some(&scratch.0),
    );
    let in_memory = start_with(&[SCHEMA], Guarantee::Serializable, options());
    for service in [stored.expect("it starts"), in_memory] {
        let (mut ann, mut ben) = (connect(&service), connect(&service));
        run(&mut ann, "BEGIN; ALTER TABLE notes ADD COLUMN more text");
        let mut last = 0;
        for _ in 0..100 {
            last = number(&mut ann, "SELECT nextval('tickets')");
        }
        assert_eq!(last, 199);
        assert_eq!(number(&mut ann, "SELECT setval('notes_id_seq', 70)"), 70);
        run(&mut ann, "ROLLBACK");
        assert_eq!(number(&mut ann, "SELECT currval('tickets')"), 199);
        let next = number(&mut ben, "SELECT nextval('tickets')");
        assert!((200..300).contains(&next), "{next}");
        let note = number(&mut ben, "SELECT nextval('notes_id_seq')");
        assert!((71..150).contains(&note), "{note}");
        run(
            &mut ann,
            "BEGIN; TRUNCATE notes RESTART IDENTITY; ALTER SEQUENCE tickets RESTART; ROLLBACK",
        );
        assert!(number(&mut ben, "SELECT nextval('tickets')") > next);
        assert!(number(&mut ben, "SELECT nextval('notes_id_seq')") > note);
        service.stop().expect("it stops");
    }
}

#[test]
fn a_conflict_sets_nothing_twice() {
    let schema =
        format!("{SCHEMA} CREATE TABLE rows (id integer PRIMARY KEY, n integer NOT NULL);");
    let service = start_with(&[&schema], Guarantee::Serializable, options());
    let (mut ann, mut ben) = (connect(&service), connect(&service));
    run(&mut ann, "INSERT INTO rows VALUES (1, 0), (2, 0)");
    for round in 0..10 {
        run(&mut ann, "BEGIN; UPDATE rows SET n = n + 1 WHERE id = 1");
        let set = format!("BEGIN; SELECT setval('tickets', {}); ", 1_000 * (round + 1));
        run(&mut ben, &set);
        let drawn = number(&mut ben, "SELECT nextval('tickets')");
        assert_eq!(drawn, 1_000 * (round + 1) + 1);
        run(&mut ben, "UPDATE rows SET n = n + 1 WHERE id = 2");
        std::thread::scope(|scope| {
            // The older one goes first: the younger is run again.
            let (ann, ben) = (&mut ann, &mut ben);
            let other = scope.spawn(move || {
                let done = ben.batch_execute("UPDATE rows SET n = n + 1 WHERE id = 1; COMMIT");
                if done.is_err() {
                    run(ben, "ROLLBACK");
                }
            });
            run(ann, "UPDATE rows SET n = n + 1 WHERE id = 2; COMMIT");
            other.join().expect("it ends");
        });
        assert_eq!(number(&mut ann, "SELECT nextval('tickets')"), drawn + 1);
    }
    service.stop().expect("it stops");
}

/// Drawing keys coordinates with no other transaction, and the plan relies on that numbers are new.
#[test]
fn a_plan_relies_on_numbers_that_do_not_come_again() {
    let service = start_with(&[SCHEMA, PROCEDURES], Guarantee::Invariants, options());
    let mut ann = connect(&service);
    run(&mut ann, "CALL book('ann')");
    run(&mut ann, "CALL book('ben')");
    assert_eq!(number(&mut ann, "SELECT max(id) FROM seats"), 101);
    let rows = ann.simple_query("EXPLAIN COORDINATION CALL book('cay')");
    let text = format!("{:?}", rows.expect("it explains"));
    assert!(!text.contains("coordinates on"), "{text}");
    let error = ann.query_one("SELECT setval('tickets', 100)", &[]);
    let error = error.expect_err("it would go back");
    assert_eq!(code(&error), "55000");
    assert_eq!(
        message(&error),
        "setval may not take sequence \"tickets\" back under this guarantee"
    );
    assert_eq!(number(&mut ann, "SELECT setval('tickets', 500)"), 500);
    run(&mut ann, "CALL book('cay')");
    assert_eq!(number(&mut ann, "SELECT max(id) FROM seats"), 501);
    service.stop().expect("it stops");
}
