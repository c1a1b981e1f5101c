//! Plans that clients have accepted, through unmodified clients: `anabranch.accept_plan`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use anabranch_server::service::{Guarantee, Service, folder};
use anabranch_sql::SourceFile;
use postgres::{Client, NoTls};

use crate::support::*;

/// An order relies on its item, which no declared type removes. None writes colours.
const STOCK: &str = "
CREATE TABLE colours (name text PRIMARY KEY);
CREATE TABLE items (id integer PRIMARY KEY, stock integer NOT NULL CHECK (stock >= 0));
CREATE TABLE orders (id serial PRIMARY KEY, item integer NOT NULL CONSTRAINT orders_item REFERENCES items);
CREATE PROCEDURE add_item(p_id integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO items (id, stock) VALUES (p_id, 5);
END;
CREATE PROCEDURE order_item(p_id integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO orders (item) VALUES (p_id);
END;
CREATE FUNCTION warm(p_name text) RETURNS TABLE (name text) LANGUAGE SQL BEGIN ATOMIC
    SELECT name FROM colours WHERE name = p_name;
END;
";

const REMOVES: &str = "DELETE FROM items WHERE id = 1";

const ORPHANS: &str =
    "SELECT count(*) FROM orders LEFT JOIN items ON items.id = orders.item WHERE items.id IS NULL";

fn stock() -> Service {
    start_with(&[STOCK], Guarantee::Invariants, options())
}

fn run(client: &mut Client, text: &str) {
    let done = client.batch_execute(text);
    done.unwrap_or_else(|error| panic!("{text}: {error:?}"));
}

/// The SQLSTATE, the message and the hint of a text that is refused.
fn refused(client: &mut Client, text: &str) -> (String, String, String) {
    let error = client.batch_execute(text).expect_err(text);
    let error = error.as_db_error().expect("the server answers");
    (
        error.code().code().to_owned(),
        error.message().to_owned(),
        error.hint().unwrap_or_default().to_owned(),
    )
}

fn number(client: &mut Client, text: &str) -> i64 {
    let row = client.query_one(text, &[]);
    row.unwrap_or_else(|error| panic!("{text}: {error:?}"))
        .get(0)
}

fn value(client: &mut Client, text: &str) -> String {
    client.query_one(text, &[]).expect(text).get(0)
}

/// How a call is coordinated.
fn coordination(client: &mut Client, call: &str) -> String {
    let lines = client.query(&format!("EXPLAIN COORDINATION {call}"), &[]);
    let lines = lines.expect("it explains");
    let lines: Vec<String> = lines.iter().map(|row| row.get(0)).collect();
    lines.join("\n")
}

#[test]
fn the_setting_is_one_as_any_other() {
    let service = stock();
    let mut ann = connect(&service);
    let shown = "SHOW anabranch.accept_plan";
    assert_eq!(value(&mut ann, shown), "off");
    run(&mut ann, "SET anabranch.accept_plan = on");
    assert_eq!(value(&mut ann, shown), "on");
    run(&mut ann, "RESET anabranch.accept_plan");
    assert_eq!(value(&mut ann, shown), "off");
    run(&mut ann, "BEGIN; SET LOCAL anabranch.accept_plan = on");
    assert_eq!(value(&mut ann, shown), "on");
    run(&mut ann, "COMMIT");
    assert_eq!(value(&mut ann, shown), "off");
    let (code, ..) = refused(&mut ann, "SET anabranch.accept_plan = perhaps");
    assert_eq!(code, "22023");
    drop(ann);
    service.stop().expect("it stops");
}

#[test]
fn an_accepted_plan_is_that_of_all_until_it_is_taken_back() {
    let service = stock();
    let (mut ann, notices) = told(&service);
    let mut ben = connect(&service);
    run(
        &mut ann,
        "CALL add_item(1); CALL add_item(2); CALL add_item(3)",
    );
    let call = "CALL order_item(2)";
    let free = coordination(&mut ben, call);
    // A shape that the plan has room for, by itself and prepared.
    let sells = "UPDATE items SET stock = stock - 1 WHERE id = 2";
    run(&mut ben, sells);
    let prepared = ben
        .prepare("UPDATE items SET stock = stock - $1 WHERE id = $2")
        .expect("it is prepared");
    ben.execute(&prepared, &[&1i32, &2i32]).expect("it sells");

    let (code, message, hint) = refused(&mut ann, REMOVES);
    assert_eq!(code, "55000", "{message}");
    assert!(hint.contains("SET anabranch.accept_plan = on"), "{hint}");
    run(&mut ann, "SET anabranch.accept_plan = on");
    // What is only explained changes nothing.
    let explained = format!("EXPLAIN COORDINATION {REMOVES}");
    assert_eq!(refused(&mut ann, &explained).0, "55000");
    assert_eq!(coordination(&mut ben, call), free);
    assert_eq!(take(&notices), [""; 0]);

    run(&mut ann, REMOVES);
    let lines = take(&notices);
    assert_eq!(lines.len(), 1, "{lines:?}");
    let expected = format!("the plan has changed: \"{REMOVES}\" is accepted: ");
    assert!(lines[0].starts_with(&expected), "{lines:?}");
    assert!(lines[0].contains("\"order_item\""), "{lines:?}");
    assert!(lines[0].contains("orders_item"), "{lines:?}");
    assert!(!lines[0].contains("\"add_item\""), "{lines:?}");
    assert_eq!(number(&mut ben, "SELECT count(*) FROM items"), 2);

    // It is the plan of other connections, which need not accept it again, and of their prepared statements.
    let ordered = coordination(&mut ben, call);
    assert_ne!(ordered, free);
    run(&mut ben, "DELETE FROM items WHERE id = 3");
    run(&mut ben, call);
    let (code, ..) = refused(&mut ben, "DELETE FROM items WHERE id = 2");
    assert_eq!(code, "23503");
    run(&mut ben, sells);
    ben.execute(&prepared, &[&1i32, &2i32]).expect("it sells");
    assert_eq!(number(&mut ben, "SELECT stock::bigint FROM items"), 1);
    run(&mut ann, "CALL add_item(1)");
    run(&mut ann, REMOVES);
    assert_eq!(take(&notices), [""; 0], "it is accepted once");

    // It is taken back.
    assert_eq!(
        refused(&mut ann, "BEGIN; ALTER SYSTEM RESET anabranch.accept_plan").0,
        "25001"
    );
    run(&mut ann, "ROLLBACK");
    assert_eq!(refused(&mut ann, "ALTER SYSTEM RESET work_mem").0, "0A000");
    assert_eq!(
        refused(&mut ann, "ALTER SYSTEM RESET anabranch.nothing").0,
        "42704"
    );
    run(&mut ann, "ALTER SYSTEM RESET anabranch.accept_plan");
    let lines = take(&notices);
    assert!(lines[0].contains("\"order_item\""), "{lines:?}");
    assert_eq!(coordination(&mut ben, call), free);
    assert_eq!(refused(&mut ben, REMOVES).0, "55000");
    run(&mut ben, sells);
    run(&mut ann, "ALTER SYSTEM RESET ALL");
    assert_eq!(take(&notices), [""; 0], "there is nothing to take back");
    drop((ann, ben));
    service.stop().expect("it stops");
}

/// What is accepted holds beside declared types that did less before.
#[test]
fn no_transaction_commits_under_a_plan_that_does_not_know_it() {
    let service = stock();
    let mut ann = connect(&service);
    run(&mut ann, "SET anabranch.accept_plan = on");
    let items = 6;
    for id in 1..=items {
        run(&mut ann, &format!("CALL add_item({id})"));
    }
    let address = service.address();
    let clients: Vec<_> = (0..6)
        .map(|number| {
            std::thread::spawn(move || {
                let mut client = connect_to(address);
                run(&mut client, "SET anabranch.accept_plan = on");
                let (mut done, mut refusals) = (0, 0);
                for turn in 0..150 {
                    let id = (turn + number) % items + 1;
                    let texts = match number % 3 {
                        0 => vec![format!("CALL order_item({id})")],
                        1 => vec![
                            format!("CALL add_item({id})"),
                            format!("DELETE FROM orders WHERE item = {id}"),
                        ],
                        // The item may have been ordered since.
                        _ => vec![format!("DELETE FROM items WHERE id = {id}")],
                    };
                    for text in texts {
                        match client.batch_execute(&text) {
                            Ok(()) => done += 1,
                            Err(error) => {
                                let known = ["23503", "23505", "40001"];
                                assert!(known.contains(&code(&error)), "{text}: {error:?}");
                                refusals += 1;
                            }
                        }
                    }
                }
                (done, refusals)
            })
        })
        .collect();
    for client in clients {
        let (done, _) = client.join().expect("no client fails");
        assert!(done > 0, "each kind of transaction has committed");
    }
    assert_eq!(number(&mut ann, ORPHANS), 0, "orders without an item");
    drop(ann);
    service.stop().expect("it stops");
}

/// The plan changes at a barrier: not under a transaction that runs.
#[test]
fn a_plan_waits_for_open_transactions() {
    let service = stock();
    let (mut ann, mut ben) = (connect(&service), connect(&service));
    run(&mut ann, "CALL add_item(1); CALL add_item(2)");
    run(
        &mut ann,
        "SET anabranch.accept_plan = on; SET lock_timeout = 300",
    );
    // An order that relies on its item, and has not committed.
    run(&mut ben, "BEGIN; INSERT INTO orders (item) VALUES (1)");
    assert_eq!(refused(&mut ann, REMOVES).0, "55P03");
    // Nothing has changed by that.
    let mut cleo = connect(&service);
    assert_eq!(refused(&mut cleo, REMOVES).0, "55000");
    run(&mut ann, "SET lock_timeout = 0");
    let waits = std::thread::spawn(move || {
        let code = refused(&mut ann, REMOVES).0;
        (ann, code)
    });
    std::thread::sleep(Duration::from_millis(300));
    assert!(!waits.is_finished(), "the order is open still");
    run(&mut ben, "COMMIT");
    let (mut ann, code) = waits.join().expect("it ends");
    assert_eq!(code, "23503", "it was ordered");
    assert_eq!(number(&mut ann, ORPHANS), 0);
    // To take it back waits, too, and can be cancelled.
    run(&mut ben, "BEGIN; INSERT INTO orders (item) VALUES (2)");
    let cancel = ann.cancel_token();
    let waits = std::thread::spawn(move || {
        let code = refused(&mut ann, "ALTER SYSTEM RESET anabranch.accept_plan").0;
        (ann, code)
    });
    std::thread::sleep(Duration::from_millis(300));
    assert!(!waits.is_finished(), "the order is open still");
    cancel.cancel_query(NoTls).expect("it is sent");
    let (ann, code) = waits.join().expect("it ends");
    assert_eq!(code, "57014");
    run(&mut ben, "COMMIT");
    run(
        &mut cleo,
        "CALL add_item(3); DELETE FROM items WHERE id = 3",
    );
    drop((ann, ben, cleo));
    service.stop().expect("it stops");
}

/// A client without a library, which can vanish at any time.
struct Bare(TcpStream);

impl Bare {
    fn connect(service: &Service) -> Bare {
        let mut stream = TcpStream::connect(service.address()).expect("it connects");
        let parameters = b"user\0ann\0database\0anabranch\0\0";
        let length = 8 + parameters.len() as u32;
        let mut startup = length.to_be_bytes().to_vec();
        startup.extend(196_608u32.to_be_bytes());
        startup.extend(parameters);
        stream.write_all(&startup).expect("it is sent");
        let mut client = Bare(stream);
        client.until_ready();
        client
    }

    fn send(&mut self, text: &str) {
        let length = 5 + text.len() as u32;
        let mut query = vec![b'Q'];
        query.extend(length.to_be_bytes());
        query.extend(text.as_bytes());
        query.push(0);
        self.0.write_all(&query).expect("it is sent");
    }

    fn until_ready(&mut self) {
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).expect("the server answers");
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let mut body = vec![0; length - 4];
            self.0.read_exact(&mut body).expect("the server answers");
            assert_ne!(head[0], b'E', "{}", String::from_utf8_lossy(&body));
            if head[0] == b'Z' {
                return;
            }
        }
    }
}

/// A client that vanishes while its transaction waits to be alone ends no transaction but its own.
#[test]
fn a_client_that_vanishes_while_it_waits_takes_no_other_transaction_along() {
    let service = stock();
    let mut ann = connect(&service);
    run(&mut ann, "CALL add_item(1); CALL add_item(2)");
    run(&mut ann, "BEGIN; UPDATE items SET stock = 4 WHERE id = 2");
    let mut ben = Bare::connect(&service);
    ben.send("SET anabranch.accept_plan = on");
    ben.until_ready();
    ben.send("BEGIN; INSERT INTO orders (item) VALUES (1)");
    ben.until_ready();
    ben.send(REMOVES);
    std::thread::sleep(Duration::from_millis(300));
    drop(ben);
    std::thread::sleep(Duration::from_secs(3));
    run(&mut ann, "UPDATE items SET stock = 3 WHERE id = 1; COMMIT");
    let stock = "SELECT sum(stock)::bigint FROM items";
    assert_eq!(number(&mut ann, stock), 7);
    // Its transaction was given back to its node, and ended there.
    assert_eq!(service.open_transactions(), Some(0));
    // Its plan was not accepted.
    assert_eq!(refused(&mut ann, REMOVES).0, "55000");
    drop(ann);
    service.stop().expect("it stops");
}

/// What a plain EXPLAIN explains does not run, in a block either.
#[test]
fn what_is_only_explained_in_a_block_does_not_run() {
    let service = stock();
    let mut ann = connect(&service);
    run(&mut ann, "CALL add_item(1)");
    for begin in ["BEGIN", "BEGIN READ ONLY"] {
        run(&mut ann, begin);
        let explained = coordination(&mut ann, "UPDATE items SET stock = 0 WHERE id = 1");
        assert!(!explained.is_empty());
        run(&mut ann, "COMMIT");
    }
    run(&mut ann, "BEGIN; UPDATE items SET stock = 2 WHERE id = 1");
    coordination(&mut ann, "UPDATE items SET stock = stock - 1 WHERE id = 1");
    run(&mut ann, "COMMIT");
    assert_eq!(number(&mut ann, "SELECT stock::bigint FROM items"), 2);
    drop(ann);
    service.stop().expect("it stops");
}

/// What a transaction has done before stays, and it ends as any.
#[test]
fn an_open_transaction_goes_on_under_the_plan_that_it_accepts() {
    let service = stock();
    let (mut ann, notices) = told(&service);
    let mut ben = connect(&service);
    run(&mut ann, "CALL add_item(1); CALL add_item(2)");
    run(&mut ann, "BEGIN");
    run(&mut ann, "UPDATE items SET stock = stock - 2 WHERE id = 2");
    run(
        &mut ann,
        "SAVEPOINT a; SET LOCAL anabranch.accept_plan = on",
    );
    run(&mut ann, REMOVES);
    assert_eq!(take(&notices).len(), 1);
    assert_eq!(number(&mut ann, "SELECT stock::bigint FROM items"), 3);
    // Others go on meanwhile, and see nothing of it.
    assert_eq!(number(&mut ben, "SELECT sum(stock) FROM items"), 10);
    run(&mut ann, "ROLLBACK TO a");
    assert_eq!(number(&mut ann, "SELECT sum(stock) FROM items"), 8);
    run(&mut ann, "COMMIT");
    assert_eq!(value(&mut ann, "SHOW anabranch.accept_plan"), "off");
    assert_eq!(number(&mut ben, "SELECT sum(stock) FROM items"), 8);
    // The whole transaction's shape is what was accepted: any of its statements in any order.
    run(&mut ben, "BEGIN");
    run(&mut ben, "DELETE FROM items WHERE id = 2");
    run(&mut ben, "UPDATE items SET stock = stock - 1 WHERE id = 1");
    run(&mut ben, "COMMIT");
    assert_eq!(number(&mut ann, "SELECT stock::bigint FROM items"), 4);
    // A rollback takes nothing back of a plan.
    run(&mut ann, "ALTER SYSTEM RESET anabranch.accept_plan");
    assert_eq!(refused(&mut ben, REMOVES).0, "55000");
    run(&mut ann, "SET anabranch.accept_plan = on");
    take(&notices);
    run(&mut ann, "BEGIN");
    run(&mut ann, "INSERT INTO items VALUES (9, 1)");
    run(&mut ann, "DELETE FROM items WHERE id = 1");
    assert_eq!(take(&notices).len(), 1);
    run(&mut ann, "ROLLBACK");
    run(&mut ben, REMOVES);
    assert_eq!(number(&mut ben, "SELECT count(*) FROM items"), 0);
    drop((ann, ben));
    service.stop().expect("it stops");
}

/// Rows stay where they are.
#[test]
fn a_plan_for_which_rows_would_move_is_refused() {
    let service = stock();
    let mut ann = connect(&service);
    run(&mut ann, "SET anabranch.accept_plan = on");
    let (code, message, hint) = refused(&mut ann, "INSERT INTO colours VALUES ('red')");
    assert_eq!(code, "0A000");
    assert!(message.contains("table \"colours\""), "{message}");
    assert!(hint.contains("SET anabranch.alone = on"), "{hint}");
    let both = "BEGIN; DELETE FROM items WHERE id = 9; INSERT INTO colours VALUES ('red')";
    let (code, message, _) = refused(&mut ann, both);
    assert_eq!(code, "0A000");
    assert!(message.contains("table \"colours\""), "{message}");
    drop(ann);
    service.stop().expect("it stops");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("it is made");
    for entry in std::fs::read_dir(from).expect("it is read") {
        let entry = entry.expect("it is read");
        let to = to.join(entry.file_name());
        match entry.file_type().expect("it is known").is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).expect("it is copied")),
        }
    }
}

/// A restart has what was accepted, after an end in order and after none; and so has a backup.
#[test]
fn what_was_accepted_is_there_after_a_restart() {
    let scratch = Scratch::new("accepted");
    let start = start_in(&[STOCK], Guarantee::Invariants, options(), Some(&scratch.0));
    let service = start.expect("it starts");
    let mut ann = connect(&service);
    run(
        &mut ann,
        "CALL add_item(1); CALL add_item(2); CALL order_item(2)",
    );
    run(&mut ann, "SET anabranch.accept_plan = on");
    let before = Scratch::new("accepted-before");
    copy(&scratch.0, &before.0);
    let removes = ann
        .prepare("DELETE FROM items WHERE current_user = 'ann' AND id = $1")
        .expect("it is prepared");
    let removed = ann.execute(&removes, &[&1i32]).expect("it is accepted");
    assert_eq!(removed, 1);
    run(
        &mut ann,
        "BEGIN; SELECT 1 FROM items; DELETE FROM orders; DELETE FROM items; ROLLBACK",
    );
    let ordered = coordination(&mut ann, "CALL order_item(2)");
    // What a kill leaves: it was acknowledged, so it is on disk.
    let killed = Scratch::new("accepted-killed");
    copy(&scratch.0, &killed.0);
    let backup = Scratch::new("accepted-backup");
    run(&mut ann, &format!("BACKUP TO '{}'", backup.0.display()));
    drop(ann);
    service.stop().expect("it stops");
    for folder in [&killed, &scratch, &backup] {
        folder::verify(&folder.0).expect("nothing is damaged");
        let held = folder::held(&folder.0)
            .expect("it reads")
            .expect("it holds a database");
        assert_eq!(held.accepted.len(), 2);
        // The SQL files are those that were given; others are refused.
        let given = [SourceFile::new("application.sql", STOCK)];
        folder::check_same(&folder.0, &held.files, &given).expect("they are the same");
        let other = [SourceFile::new(
            "application.sql",
            STOCK.replace("warm", "cold"),
        )];
        folder::check_same(&folder.0, &held.files, &other).expect_err("they differ");
        let service = restart(folder);
        let mut ben = connect(&service);
        assert_eq!(coordination(&mut ben, "CALL order_item(2)"), ordered);
        run(&mut ben, "CALL add_item(7); DELETE FROM items WHERE id = 7");
        run(
            &mut ben,
            "BEGIN; DELETE FROM items WHERE id = 9; DELETE FROM orders WHERE id = 9",
        );
        run(&mut ben, "COMMIT");
        assert_eq!(number(&mut ben, ORPHANS), 0);
        drop(ben);
        service.stop().expect("it stops");
    }
    // What was taken back is not there again.
    let service = restart(&killed);
    let mut ben = connect(&service);
    run(&mut ben, "ALTER SYSTEM RESET anabranch.accept_plan");
    drop(ben);
    service.stop().expect("it stops");
    for folder in [&killed, &before] {
        let service = restart(folder);
        let mut ben = connect(&service);
        assert_eq!(refused(&mut ben, REMOVES).0, "55000");
        drop(ben);
        service.stop().expect("it stops");
    }
    // Damage is told.
    let held = folder::held(&scratch.0)
        .expect("it reads")
        .expect("it holds one");
    let path = scratch.0.join(format!(
        "generation-{}/application/accepted.json",
        held.generation
    ));
    let text = std::fs::read_to_string(&path).expect("it is there");
    std::fs::write(&path, text.replace("DELETE", "SELECT")).expect("it is written");
    let damaged = folder::verify(&scratch.0).expect_err("it is damaged");
    assert!(damaged.to_string().contains("accepted.json"), "{damaged}");
}

/// A change of the schema makes a new plan with what was accepted, as far as that means something still.
#[test]
fn what_was_accepted_outlives_changes_of_the_schema() {
    let service = stock();
    let (mut ann, notices) = told(&service);
    run(&mut ann, "CALL add_item(1); CALL add_item(2)");
    run(
        &mut ann,
        "ALTER TABLE items ADD COLUMN colour text DEFAULT 'red'",
    );
    run(&mut ann, "SET anabranch.accept_plan = on");
    let removes = "DELETE FROM items WHERE colour = 'green'";
    run(&mut ann, removes);
    let ordered = coordination(&mut ann, "CALL order_item(2)");
    run(&mut ann, "RESET anabranch.accept_plan");
    take(&notices);
    run(&mut ann, "ALTER TABLE items ADD COLUMN size integer");
    assert_eq!(take(&notices), [""; 0]);
    assert_eq!(coordination(&mut ann, "CALL order_item(2)"), ordered);
    run(&mut ann, removes);
    run(&mut ann, "BEGIN; ALTER TABLE items DROP COLUMN colour");
    let lines = take(&notices);
    let told = lines.iter().filter(|line| {
        line.starts_with(&format!("the plan has no room any more for \"{removes}\""))
    });
    assert_eq!(told.count(), 1, "{lines:?}");
    run(&mut ann, "ROLLBACK");
    run(&mut ann, removes);
    run(&mut ann, "ALTER TABLE items DROP COLUMN colour");
    assert_eq!(refused(&mut ann, REMOVES).0, "55000");
    drop(ann);
    service.stop().expect("it stops");
}

/// Rentals of boats, placed by their boats.
const RENTALS: &str = "
CREATE TABLE boat (id integer PRIMARY KEY);
CREATE TABLE rental (id serial PRIMARY KEY, boat integer NOT NULL CONSTRAINT rental_boat REFERENCES boat, low integer NOT NULL);
CREATE PROCEDURE add_boat(p_id integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO boat (id) VALUES (p_id);
END;
CREATE FUNCTION rent(p_boat integer, p_low integer, OUT rented integer) LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM rental WHERE boat = p_boat AND low > p_low - 2 AND low < p_low + 2) THEN
        RAISE EXCEPTION 'taken';
    END IF;
    INSERT INTO rental (boat, low) VALUES (p_boat, p_low) RETURNING id INTO rented;
END; $$;
CREATE PROCEDURE cancel(p_id integer) LANGUAGE SQL BEGIN ATOMIC
    DELETE FROM rental WHERE id = p_id;
END;
";

/// The key of a new rental.
fn rent(client: &mut Client, boat: i32, low: i32) -> i32 {
    let text = format!("SELECT rent({boat}, {low})");
    client.query_one(&text, &[]).expect("it is free").get(0)
}

/// What is accepted beside a table that its keys do not place leaves rows and keys as they are.
#[test]
fn what_is_accepted_gives_no_keys_that_are_drawn() {
    let scratch = Scratch::new("accepted-apart");
    let start = start_in(
        &[RENTALS],
        Guarantee::Invariants,
        options(),
        Some(&scratch.0),
    );
    let service = start.expect("it starts");
    let (mut ann, notices) = told(&service);
    for boat in 1..=4 {
        run(&mut ann, &format!("CALL add_boat({boat})"));
    }
    let first = rent(&mut ann, 1, 1);
    let second = rent(&mut ann, 2, 1);
    run(&mut ann, "SET anabranch.accept_plan = on");
    for text in [
        "INSERT INTO rental (id, boat, low) VALUES (77, 3, 1)",
        "UPDATE rental SET boat = 3 WHERE low = 1",
        "UPDATE rental SET id = 78 WHERE low = 1",
        "BEGIN; DELETE FROM rental WHERE id = 5; INSERT INTO rental (id, boat, low) VALUES (5, 3, 1)",
    ] {
        let (code, message, _) = refused(&mut ann, text);
        assert_eq!(code, "55000", "{text}: {message}");
        assert!(
            message.contains("rows of table \"rental\" would have to move"),
            "{text}: {message}"
        );
        run(&mut ann, "ROLLBACK");
    }
    take(&notices);
    // A boat may go now, and a rental has to see that.
    let (code, ..) = refused(&mut connect(&service), "DELETE FROM boat WHERE id = 4");
    assert_eq!(code, "55000");
    run(&mut ann, "DELETE FROM boat WHERE id = 4");
    let lines = take(&notices);
    assert!(
        lines[0].contains("\"rent\"") && lines[0].contains("rental_boat"),
        "{lines:?}"
    );
    assert_eq!(
        refused(&mut ann, "DELETE FROM boat WHERE id = 2").0,
        "23503"
    );
    // Rows are where they were: by boat, and by key wherever they are.
    run(&mut ann, "INSERT INTO rental (boat, low) VALUES (3, 9)");
    run(&mut ann, &format!("CALL cancel({second})"));
    run(&mut ann, "DELETE FROM boat WHERE id = 2");
    assert!(refused(&mut ann, "SELECT rent(1, 2)").1.contains("taken"));
    drop(ann);
    service.stop().expect("it stops");
    let service = restart(&scratch);
    let mut ann = connect(&service);
    let third = rent(&mut ann, 3, 1);
    assert!(third > second && second > first);
    run(&mut ann, "DELETE FROM boat WHERE id = 9");
    run(&mut ann, &format!("CALL cancel({first})"));
    run(&mut ann, "ALTER SYSTEM RESET anabranch.accept_plan");
    assert_eq!(
        refused(&mut ann, "DELETE FROM boat WHERE id = 1").0,
        "55000"
    );
    run(&mut ann, &format!("CALL cancel({third})"));
    let left = "SELECT count(*) FROM rental WHERE boat = 3";
    assert_eq!(number(&mut ann, left), 1);
    drop(ann);
    service.stop().expect("it stops");
}

const LABELS: &str = "
CREATE TABLE labels (id integer PRIMARY KEY, code char(5), name varchar(10), price numeric(6, 2));
CREATE PROCEDURE label(p_id integer, p_code text) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO labels (id, code, name) VALUES (p_id, p_code, p_code);
END;
";

/// A parameter has no length and no scale. So statements that clients have prepared go on under another plan.
#[test]
fn prepared_statements_outlive_a_change_of_the_plan_whatever_their_parameters() {
    let service = start_with(&[STOCK, LABELS], Guarantee::Invariants, options());
    let (mut ann, mut ben) = (connect(&service), connect(&service));
    run(&mut ann, "CALL add_item(1); CALL label(1, 'red')");
    let prepare = |client: &mut Client, text: &str| client.prepare(text).expect(text);
    let writes = prepare(&mut ann, "UPDATE labels SET code = $1 WHERE id = $2");
    let finds = prepare(&mut ann, "SELECT id FROM labels WHERE code = $1");
    let finds_any = prepare(&mut ann, "SELECT id FROM labels WHERE name = ANY ($1)");
    let mut use_all = |code: &str| {
        let written = ann.execute(&writes, &[&code, &1i32]);
        assert_eq!(written.expect("it writes"), 1);
        assert_eq!(ann.query(&finds, &[&code]).expect("it reads").len(), 1);
        let names = vec!["red", "a name of more than ten characters"];
        assert_eq!(ann.query(&finds_any, &[&names]).expect("it reads").len(), 1);
        // A longer text is another one, and does not fit.
        let longer = "a longer one";
        assert_eq!(ann.query(&finds, &[&longer]).expect("it reads").len(), 0);
        let refused = ann.execute(&writes, &[&longer, &1i32]);
        assert_eq!(
            crate::support::code(&refused.expect_err("it is too long")),
            "22001"
        );
    };
    use_all("blue");
    run(&mut ben, "SET anabranch.accept_plan = on");
    run(&mut ben, REMOVES);
    use_all("green");
    run(&mut ben, "ALTER SYSTEM RESET anabranch.accept_plan");
    use_all("grey");
    drop((ann, ben));
    service.stop().expect("it stops");
}

/// A statement that is refused is no part of what the transaction does after a ROLLBACK TO.
#[test]
fn a_transaction_goes_on_without_the_statement_that_was_refused() {
    let service = stock();
    let mut ann = connect(&service);
    run(&mut ann, "CALL add_item(1); CALL add_item(2)");
    run(
        &mut ann,
        "BEGIN; SELECT 1 FROM items WHERE id = 2; SAVEPOINT a",
    );
    assert_eq!(refused(&mut ann, REMOVES).0, "55000");
    run(&mut ann, "ROLLBACK TO a");
    run(&mut ann, "SELECT stock FROM items WHERE id = 1");
    run(&mut ann, "UPDATE items SET stock = 3 WHERE id = 2");
    // Nor is it accepted then.
    assert_eq!(refused(&mut ann, REMOVES).0, "55000");
    run(&mut ann, "ROLLBACK TO a");
    run(&mut ann, "UPDATE items SET stock = 4 WHERE id = 2; COMMIT");
    let stock = "SELECT sum(stock)::bigint FROM items";
    assert_eq!(number(&mut ann, stock), 9);
    drop(ann);
    service.stop().expect("it stops");
}

/// Its texts are kept in memory and in the folder.
#[test]
fn a_transaction_with_long_texts_is_not_accepted() {
    let service = stock();
    let mut ann = connect(&service);
    run(&mut ann, "CALL add_item(1); SET anabranch.accept_plan = on");
    let before = coordination(&mut ann, "CALL order_item(1)");
    let long = format!("{REMOVES} AND 'a' <> '{}'", "b".repeat(70_000));
    let (code, message, hint) = refused(&mut ann, &long);
    assert_eq!(code, "54000", "{message}");
    assert!(hint.contains("parameters"), "{hint}");
    assert_eq!(coordination(&mut ann, "CALL order_item(1)"), before);
    run(&mut ann, REMOVES);
    drop(ann);
    service.stop().expect("it stops");
}

#[test]
fn without_a_plan_there_is_nothing_to_accept() {
    let service = start_with(&[STOCK], Guarantee::Serializable, options());
    let (mut ann, notices) = told(&service);
    for statement in [
        "SET anabranch.accept_plan = on",
        "ALTER SYSTEM RESET anabranch.accept_plan",
    ] {
        run(&mut ann, statement);
        let lines = take(&notices);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("has no plan"), "{lines:?}");
    }
    run(&mut ann, "SET anabranch.accept_plan = off");
    assert_eq!(take(&notices), [""; 0]);
    drop(ann);
    service.stop().expect("it stops");
}

/// Replaces what a folder says was accepted.
fn accept_in(scratch: &Scratch, change: impl Fn(&mut Vec<serde_json::Value>)) {
    let checksum = |bytes: &[u8]| format!("{:08x}", crc32fast::hash(bytes));
    let cluster = scratch.0.join("cluster");
    let text = std::fs::read_to_string(&cluster).expect("it is there");
    let mut described: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let path = scratch.0.join(format!(
        "generation-{}/application/accepted.json",
        described["generation"]
    ));
    let text = std::fs::read_to_string(&path).expect("it is there");
    let mut shapes = serde_json::from_str(&text).expect("it is a list");
    change(&mut shapes);
    let text = format!("{}\n", serde_json::Value::from(shapes));
    std::fs::write(&path, &text).expect("it is written");
    described["accepted"] = checksum(text.as_bytes()).into();
    let all = described.as_object_mut().expect("it has keys");
    all.remove("checksum");
    described["checksum"] = checksum(described.to_string().as_bytes()).into();
    std::fs::write(&cluster, format!("{described}\n")).expect("it is written");
}

/// What another version has accepted may have no room under this one. The rest is served, and what is left out is refused.
#[test]
fn what_has_no_room_any_more_is_left_out_at_a_start() {
    let scratch = Scratch::new("lost");
    let start = start_in(&[STOCK], Guarantee::Invariants, options(), Some(&scratch.0));
    let service = start.expect("it starts");
    let mut ann = connect(&service);
    run(&mut ann, "CALL add_item(1); SET anabranch.accept_plan = on");
    run(&mut ann, "DELETE FROM items WHERE stock = 9");
    let of_all = coordination(&mut ann, "CALL order_item(1)");
    drop(ann);
    service.stop().expect("it stops");
    accept_in(&scratch, |shapes| {
        let mut meaningless = shapes[0].clone();
        meaningless["statements"][0]["text"] = "DELETE FROM drawers".into();
        let mut strange = shapes[0].clone();
        strange["statements"][0]["parameters"] = vec![869].into();
        shapes.extend([meaningless, strange]);
    });
    folder::verify(&scratch.0).expect("nothing is damaged");
    let (service, lost) = restart_losing(&scratch);
    assert_eq!(lost.len(), 2, "{lost:?}");
    assert!(lost.iter().any(|of| of.contains("drawers")), "{lost:?}");
    assert!(lost.iter().any(|of| of.contains("inet")), "{lost:?}");
    let mut ann = connect(&service);
    assert_eq!(coordination(&mut ann, "CALL order_item(1)"), of_all);
    run(&mut ann, "DELETE FROM items WHERE stock = 7");
    assert_eq!(number(&mut ann, "SELECT count(*) FROM items"), 1);
    // The next generation is written without them.
    run(&mut ann, "CREATE TABLE drawers (id integer PRIMARY KEY)");
    drop(ann);
    service.stop().expect("it stops");
    let service = restart(&scratch);
    service.stop().expect("it stops");
}
