//! `anabranch.transactions`: open transactions and what they wait for, through unmodified clients.

mod support;

use std::time::{Duration, Instant};

use anabranch_server::service::{Guarantee, Service};
use postgres::Client;
use support::*;

const COLUMNS: &str = "pid, usename, application_name, node, state, waits_for, blocked_by, replays, statement, \
                       since <= now(), since > now() - interval '1 minute'";

/// A row of the relation: pid, state, what it waits for, for whom, replays, statement.
type Row = (
    i32,
    String,
    Option<String>,
    Option<String>,
    i32,
    Option<String>,
);

/// As psql asks: in text, by the simple protocol.
fn open_transactions(client: &mut Client) -> Vec<Row> {
    let text = format!("SELECT {COLUMNS} FROM anabranch.transactions");
    let answer = client.simple_query(&text).expect("it answers");
    let rows = answer.iter().filter_map(|message| match message {
        postgres::SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| {
        let text = |at: usize| row.get(at).map(str::to_owned);
        let number = |at: usize| row.get(at).and_then(|number| number.parse().ok());
        assert_eq!(row.get(1), Some("ann"));
        assert_eq!(row.get(9), row.get(10), "it began lately, if that is known");
        (
            number(0).expect("a pid"),
            text(4).expect("a state"),
            text(5),
            text(6),
            number(7).expect("replays"),
            text(8),
        )
    })
    .collect()
}

/// The rows, once they are so.
fn awaited(client: &mut Client, is_so: impl Fn(&[Row]) -> bool) -> Vec<Row> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let rows = open_transactions(client);
        if is_so(&rows) {
            return rows;
        }
        assert!(Instant::now() < until, "{rows:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn pid(client: &mut Client) -> i32 {
    let row = client.query_one("SELECT pg_backend_pid()", &[]);
    row.expect("it answers").get(0)
}

fn run(client: &mut Client, text: &str) {
    let done = client.batch_execute(text);
    done.unwrap_or_else(|error| panic!("{text}: {error:?}"));
}

fn filled(service: &Service) -> Client {
    let mut client = connect(service);
    run(
        &mut client,
        "INSERT INTO items VALUES (1, 'apple', 5), (2, 'pear', 7), (3, 'plum', 9)",
    );
    client
}

fn waits(rows: &[Row]) -> Vec<&Row> {
    rows.iter().filter(|row| row.1 == "waits").collect()
}

#[test]
fn a_blocked_transaction_is_shown_with_the_one_that_blocks_it() {
    let service = open();
    let mut eve = filled(&service);
    assert_eq!(open_transactions(&mut eve), [], "it does not show itself");
    // Each item in turn, so that the waits are at both nodes.
    for item in 1..=3 {
        let (mut ann, mut ben) = (connect(&service), connect(&service));
        let (of_ann, of_ben) = (pid(&mut ann), pid(&mut ben));
        run(&mut ann, "SET application_name = 'till'; BEGIN");
        let sells = format!("UPDATE items SET stock = stock - 1 WHERE id = {item}");
        run(&mut ann, &sells);
        let rows = open_transactions(&mut eve);
        let idle = (of_ann, "idle".to_owned(), None, None, 0, None);
        assert_eq!(rows, std::slice::from_ref(&idle));
        let till = "SELECT pid FROM anabranch.transactions WHERE application_name = 'till'";
        assert_eq!(eve.query(till, &[]).expect("it answers").len(), 1);
        let text = sells.clone();
        let blocked = std::thread::spawn(move || {
            run(&mut ben, &text);
            ben
        });
        let rows = awaited(&mut eve, |rows| !waits(rows).is_empty());
        let what = Some(format!("items (id = {item})"));
        let waits = (
            of_ben,
            "waits".to_owned(),
            what,
            Some(of_ann.to_string()),
            0,
            Some(sells),
        );
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert!(rows.contains(&idle) && rows.contains(&waits), "{rows:?}");
        run(&mut ann, "COMMIT");
        let ben = blocked.join().expect("it goes on");
        drop((ann, ben));
        awaited(&mut eve, <[Row]>::is_empty);
    }
    drop(eve);
    service.stop().expect("it stops");
}

#[test]
fn a_wounded_transaction_shows_that_it_was_run_again() {
    let service = open();
    let mut eve = filled(&service);
    let (mut ann, mut ben) = (connect(&service), connect(&service));
    run(&mut ann, "BEGIN; SELECT 1 FROM items WHERE id = 2");
    run(&mut ben, "BEGIN; UPDATE items SET stock = 0 WHERE id = 1");
    let of_ben = pid(&mut ben);
    // The older one wounds the younger, which is idle, and goes on.
    run(&mut ann, "UPDATE items SET name = 'fig' WHERE id = 1");
    run(&mut ann, "COMMIT");
    run(&mut ben, "UPDATE items SET stock = 1 WHERE id = 3");
    let rows = open_transactions(&mut eve);
    assert_eq!(rows, [(of_ben, "idle".to_owned(), None, None, 1, None)]);
    drop((ann, ben, eve));
    service.stop().expect("it stops");
}

#[test]
fn waits_for_the_gate_and_for_advisory_locks_are_shown() {
    let service = start_with(&[SHOP, PROCEDURES], Guarantee::Invariants, options());
    let mut eve = connect(&service);
    let (mut ann, mut ben, mut cleo) = (connect(&service), connect(&service), connect(&service));
    let (of_ann, of_ben, of_cleo) = (pid(&mut ann), pid(&mut ben), pid(&mut cleo));
    run(&mut ann, "CALL add_item(1, 'apple', 5)");
    run(&mut ann, "BEGIN; SELECT pg_advisory_xact_lock(5)");
    let locks = std::thread::spawn(move || {
        run(&mut ben, "BEGIN; SELECT pg_advisory_xact_lock(5); COMMIT");
        ben
    });
    let rows = awaited(&mut eve, |rows| !waits(rows).is_empty());
    let found = waits(&rows)[0].clone();
    assert_eq!((found.0, found.3), (of_ben, Some(of_ann.to_string())));
    assert_eq!(found.2.as_deref(), Some("advisory lock 5"));
    run(&mut ann, "COMMIT");
    let mut ben = locks.join().expect("it goes on");

    // A change of the schema waits for an open transaction, and others for it.
    run(&mut ann, "BEGIN; UPDATE items SET stock = 4 WHERE id = 1");
    let changes = std::thread::spawn(move || {
        run(&mut ben, "ALTER TABLE items ADD COLUMN colour text");
        ben
    });
    let rows = awaited(&mut eve, |rows| !waits(rows).is_empty());
    let found = waits(&rows)[0].clone();
    assert_eq!((found.0, found.3), (of_ben, Some(of_ann.to_string())));
    assert_eq!(
        found.2.as_deref(),
        Some("the end of all other transactions")
    );
    let (stop, stopped) = std::sync::mpsc::channel();
    let reads = std::thread::spawn(move || {
        // The first may come before the gate is closed.
        while stopped.try_recv().is_err() {
            run(&mut cleo, "SELECT 1 FROM items");
        }
        cleo
    });
    let rows = awaited(&mut eve, |rows| waits(rows).len() == 2);
    let rows = waits(&rows);
    let found = rows.iter().find(|row| row.0 == of_cleo);
    let found = found.expect("it waits");
    assert_eq!(found.3, Some(of_ben.to_string()));
    assert_eq!(found.2.as_deref(), Some("the end of what runs alone"));
    stop.send(()).expect("it reads");
    run(&mut ann, "COMMIT");
    let mut ben = changes.join().expect("it goes on");
    let cleo = reads.join().expect("it goes on");
    // What runs alone is shown as that, and blocks all others.
    run(&mut ben, "BEGIN; ALTER TABLE items DROP COLUMN colour");
    let rows = open_transactions(&mut eve);
    assert_eq!((rows.len(), rows[0].0, &*rows[0].1), (1, of_ben, "alone"));
    run(&mut ben, "COMMIT");
    drop((ann, ben, cleo, eve));
    service.stop().expect("it stops");
}
