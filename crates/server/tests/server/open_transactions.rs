//! `anabranch.transactions`: open transactions and what they wait for, through unmodified clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anabranch_server::service::{Guarantee, Service};
use postgres::Client;

use crate::support::*;

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

#[test]
fn a_copy_whose_client_is_silent_is_what_others_wait_for() {
    use std::io::Write;
    let service = open();
    let mut eve = filled(&service);
    let (mut ann, mut ben, mut cleo) = (connect(&service), connect(&service), connect(&service));
    let (of_ann, of_ben, of_cleo) = (pid(&mut ann), pid(&mut ben), pid(&mut cleo));
    let text = "COPY items FROM STDIN";
    let mut data = ann.copy_in(text).expect("it takes data");
    data.write_all(b"7\tfig\t3\n").expect("it takes a row");
    data.flush().expect("it takes a row");
    let idle = (
        of_ann,
        "idle".to_owned(),
        None,
        None,
        0,
        Some(text.to_owned()),
    );
    assert_eq!(open_transactions(&mut eve), [idle]);
    let changes = std::thread::spawn(move || {
        run(&mut ben, "ALTER TABLE items ADD COLUMN colour text");
    });
    let rows = awaited(&mut eve, |rows| !waits(rows).is_empty());
    let found = waits(&rows)[0];
    assert_eq!((found.0, &found.3), (of_ben, &Some(of_ann.to_string())));
    // What waits for the change has a text, too.
    let asks = "SELECT 1 FROM items WHERE id = 7";
    let reads = std::thread::spawn(move || run(&mut cleo, asks));
    let rows = awaited(&mut eve, |rows| waits(rows).len() == 2);
    let found = rows.iter().find(|row| row.0 == of_cleo);
    assert_eq!(found.and_then(|row| row.5.as_deref()), Some(asks));
    assert_eq!(data.finish().expect("it copies"), 1);
    changes.join().expect("it goes on");
    reads.join().expect("it goes on");
    drop((ann, eve));
    service.stop().expect("it stops");
}

#[test]
fn a_backup_is_what_a_change_of_the_schema_waits_for() {
    let scratch = Scratch::new("shown-backup");
    let data = scratch.0.join("data");
    let service = start_in(&[SHOP], Guarantee::Serializable, options(), Some(&data));
    let service = service.expect("it starts");
    let (mut ann, mut ben, mut eve) = (connect(&service), connect(&service), connect(&service));
    let (of_ann, of_ben) = (pid(&mut ann), pid(&mut ben));
    let long = "name".repeat(1 << 18);
    for id in 0..8 {
        run(
            &mut ann,
            &format!("INSERT INTO items VALUES ({id}, '{long}', 1)"),
        );
    }
    // Each backup and each change takes a moment, so that one soon waits for the other.
    let is_seen = Arc::new(AtomicBool::new(false));
    let threads = [Arc::clone(&is_seen), Arc::clone(&is_seen)];
    let [of_backups, of_changes] = threads;
    let backups = std::thread::spawn(move || {
        let mut number = 0;
        while !of_backups.load(Ordering::SeqCst) {
            number += 1;
            let to = scratch.0.join(format!("backup-{number}"));
            // It is refused while the schema changes.
            let _ = ann.batch_execute(&format!("BACKUP TO '{}'", to.display()));
            let _ = std::fs::remove_dir_all(&to);
        }
        scratch
    });
    let changes = std::thread::spawn(move || {
        while !of_changes.load(Ordering::SeqCst) {
            run(&mut ben, "CREATE TABLE more (id integer); DROP TABLE more");
        }
    });
    let rows = awaited(&mut eve, |rows| {
        rows.iter()
            .any(|row| row.0 == of_ben && row.3 == Some(of_ann.to_string()))
    });
    is_seen.store(true, Ordering::SeqCst);
    let backup = rows
        .iter()
        .find(|row| row.0 == of_ann)
        .expect("it is shown");
    let statement = backup.5.as_deref().unwrap_or_default();
    assert!(statement.starts_with("BACKUP TO"), "{rows:?}");
    changes.join().expect("it ends");
    let scratch = backups.join().expect("it ends");
    drop(eve);
    service.stop().expect("it stops");
    drop(scratch);
}

/// What looks and computes for long waits as any statement that runs at a node, so that what runs alone can end.
#[test]
fn a_look_that_computes_for_long_waits_for_the_gate() {
    let service = open();
    let mut eve = filled(&service);
    let mut ben = connect(&service);
    run(
        &mut eve,
        "SET lock_timeout = 300; SET statement_timeout = 20000",
    );
    run(&mut ben, "BEGIN; ALTER TABLE items ADD COLUMN colour text");
    // None of its pairs is kept: it computes for as long as it may, and holds no more than its two lists.
    let long = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b, anabranch.transactions
                WHERE a + b < 0";
    let refused = eve.batch_execute(long).expect_err("it waits");
    assert_eq!(code(&refused), "55P03", "{}", message(&refused));
    assert_eq!(open_transactions(&mut eve).len(), 1, "a short one does not");
    run(&mut ben, "COMMIT");
    run(&mut eve, "SET statement_timeout = 500");
    let refused = eve.batch_execute(long).expect_err("it computes");
    assert_eq!(code(&refused), "57014", "{}", message(&refused));
    drop((ben, eve));
    service.stop().expect("it stops");
}

/// While existing rows are verified, the nodes have their turns, and so have those who look.
#[test]
fn who_looks_does_not_wait_for_what_the_schema_changes() {
    let service = open();
    let mut eve = connect(&service);
    let mut ben = connect(&service);
    let rows: Vec<String> = (0..120).map(|id| format!("({id}, 'apple', 5)")).collect();
    run(
        &mut eve,
        &format!("INSERT INTO items VALUES {}", rows.join(", ")),
    );
    let of_ben = pid(&mut ben);
    let (done, is_done) = std::sync::mpsc::channel();
    let changes = std::thread::spawn(move || {
        let began = Instant::now();
        run(
            &mut ben,
            "CREATE ASSERTION enough CHECK (NOT EXISTS (SELECT 1 FROM items a, items b, items c \
             WHERE a.stock + b.stock + c.stock < 0))",
        );
        done.send(began.elapsed()).expect("it is taken");
    });
    let (mut longest, mut seen) = (Duration::ZERO, 0);
    let took = loop {
        if let Ok(took) = is_done.try_recv() {
            break took;
        }
        let began = Instant::now();
        let rows = open_transactions(&mut eve);
        longest = longest.max(began.elapsed());
        seen += usize::from(rows.iter().any(|row| row.0 == of_ben));
        std::thread::sleep(Duration::from_millis(2));
    };
    assert!(longest * 2 < took, "{longest:?} of {took:?}");
    assert!(seen > 0, "it was not seen");
    changes.join().expect("it ends");
    drop(eve);
    service.stop().expect("it stops");
}
