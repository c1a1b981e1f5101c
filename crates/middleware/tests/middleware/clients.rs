//! Applications at three middlewares over three PostgreSQL databases: what they ask for is answered as one database would, and
//! all servers have the same rows.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anabranch_dbms::postgres::explain;
use bytes::BytesMut;
use postgres::{Client, NoTls, SimpleQueryMessage};
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;

use crate::world::{World, run};

/// The servers of a test.
const SERVERS: u16 = 3;

fn code(error: &postgres::Error) -> &str {
    error.code().map_or("", |code| code.code())
}

#[test]
fn an_operation_runs_on_its_server() {
    let world = World::new(SERVERS);
    let mut clients: Vec<Client> = (0..3).map(|place| world.connect(place)).collect();
    // Each cart's rows change on its own server alone, from whichever middleware.
    for cart in 0..8 {
        for client in &mut clients {
            let n: i32 = client
                .query_one("SELECT add_item($1, 1)", &[&cart])
                .unwrap_or_else(|error| panic!("{}", explain(&error)))
                .get(0);
            assert!(n > 0);
        }
        // With four slots, the fourth belongs to the first server.
        let owner = (cart as u16 % 4) % SERVERS;
        for place in 0..SERVERS {
            let items = world.rows(
                place,
                &format!("SELECT items::text FROM cart WHERE id = {cart}"),
            );
            assert_eq!(
                items,
                [if place == owner { "3" } else { "0" }],
                "cart {cart} at {place}"
            );
        }
        let items: i32 = clients[1]
            .query_one("SELECT items($1)", &[&cart])
            .expect("it runs")
            .get(0);
        assert_eq!(items, 3);
    }
    // A global one runs on the cart's server, and all get what it changes elsewhere.
    for (cart, client) in (0..6).zip([0, 1, 2, 0, 1, 2]) {
        run(&mut clients[client], &format!("CALL pay({cart}, 3, 5)"));
    }
    world.all("SELECT balance::text FROM account WHERE id = 3", &["70"]);
    world.all("SELECT count(*)::text FROM entry", &["6"]);
    for cart in 0..6 {
        let items: i32 = clients[0]
            .query_one("SELECT items($1)", &[&cart])
            .expect("it runs")
            .get(0);
        assert_eq!(items, 0);
    }
    // Where, and why.
    for (statement, words) in [
        ("SELECT add_item(1, 1)", ["local", "site1"]),
        ("CALL pay(2, 3, 4)", ["global", "site2"]),
    ] {
        let messages = clients[0].simple_query(&format!("EXPLAIN COORDINATION {statement}"));
        let messages = messages.unwrap_or_else(|error| panic!("{}", explain(&error)));
        let text: String = messages
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            })
            .collect();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
}

/// What a global operation has written at another server is found at once: by the next operation at the own server, by one
/// at a third, by a transaction by hand. No one waits for a global operation that has written nothing.
#[test]
fn a_client_finds_what_it_has_written() {
    let world = World::new(SERVERS);
    let mut client = world.connect(0);
    let balance = |client: &mut Client, query: &str| -> i32 {
        let row = client.query_one(query, &[]);
        row.unwrap_or_else(|error| panic!("{query}: {}", explain(&error)))
            .get(0)
    };
    for round in 1..=20 {
        // Carts 1 and 2 belong to sites 1 and 2.
        run(&mut client, "CALL pay(1, 3, 1)");
        let found = balance(&mut client, "SELECT balance_of(3)");
        assert_eq!(found, 100 - round, "after an operation");
        run(
            &mut client,
            "BEGIN; SELECT add_item(2, 1); CALL pay(2, 4, 1); COMMIT",
        );
        run(&mut client, "BEGIN");
        let found = balance(&mut client, "SELECT balance FROM account WHERE id = 4");
        run(&mut client, "COMMIT");
        assert_eq!(found, 100 - round, "after a transaction by hand");
        // At site 1, what was written at site 2.
        run(&mut client, "CALL pay(2, 5, 1)");
        run(&mut client, "BEGIN; SELECT items FROM cart WHERE id = 1");
        let found = balance(&mut client, "SELECT balance FROM account WHERE id = 5");
        run(&mut client, "COMMIT");
        assert_eq!(found, 100 - round, "at a third server");
    }
    let begun = Instant::now();
    run(
        &mut client,
        "BEGIN; UPDATE cart SET items = 7 WHERE id = 2; UPDATE account SET balance = 0 WHERE id = 999; COMMIT",
    );
    let found = balance(&mut client, "SELECT balance_of(5)");
    assert_eq!(found, 80);
    assert!(begun.elapsed() < Duration::from_secs(10));
    let error = client
        .batch_execute("BEGIN; CALL anabranch.catch_up(1)")
        .expect_err("a transaction is open");
    assert_eq!(code(&error), "25001");
    run(&mut client, "ROLLBACK");
    // A hop that there has not been.
    let error = client
        .batch_execute("CALL anabranch.catch_up(1000000000)")
        .expect_err("the ring is not there yet");
    assert_eq!(code(&error), "22023");
}

#[test]
fn a_query_runs_on_all_servers() {
    let world = World::new(SERVERS);
    let mut one = world.connect(0);
    let mut two = world.connect(2);
    run(
        &mut one,
        "UPDATE account SET balance = balance - 10 WHERE id = 1",
    );
    run(
        &mut two,
        "UPDATE account SET balance = balance - 10 WHERE id = 1; UPDATE account SET balance = balance + 20 WHERE id = 2",
    );
    world.all(
        "SELECT id || ':' || balance FROM account WHERE id IN (1, 2) ORDER BY id",
        &["1:80", "2:120"],
    );
    // Parameters, and rows.
    let changed = one.execute(
        "UPDATE account SET balance = balance + $1 WHERE id = $2",
        &[&5, &1],
    );
    assert_eq!(changed.expect("it runs"), 1);
    let rows = two.query(
        "SELECT id, balance FROM account WHERE id < $1 ORDER BY id",
        &[&2],
    );
    let rows = rows.unwrap_or_else(|error| panic!("{}", explain(&error)));
    assert_eq!(rows.len(), 2);
    // An error is the database's.
    let error = one
        .batch_execute("UPDATE account SET balance = -1 WHERE id = 3")
        .expect_err("a check");
    assert_eq!(code(&error), "23514");
    let error = one
        .execute("SELECT 1 / $1::int", &[&0])
        .expect_err("a division");
    assert_eq!(code(&error), "22012");
    let error = one.batch_execute("SELEC 1").expect_err("a syntax error");
    assert_eq!(code(&error), "42601");
    world.all("SELECT balance::text FROM account WHERE id = 3", &["100"]);
}

#[test]
fn a_transaction_by_hand_is_one_operation() {
    let world = World::new(SERVERS);
    let mut one = world.connect(0);
    let mut two = world.connect(1);
    let mut open = one.transaction().expect("it begins");
    open.execute("UPDATE account SET balance = balance - 1 WHERE id = 4", &[])
        .expect("it runs");
    let balance: i32 = open
        .query_one("SELECT balance FROM account WHERE id = 4", &[])
        .expect("it runs")
        .get(0);
    assert_eq!(balance, 99);
    // Another server is not blocked by it, and does not see it.
    run(
        &mut two,
        "UPDATE account SET balance = balance + 7 WHERE id = 5",
    );
    let seen: i32 = two
        .query_one("SELECT balance FROM account WHERE id = 4", &[])
        .expect("it runs")
        .get(0);
    assert_eq!(seen, 100);
    open.commit().expect("it commits");
    world.all(
        "SELECT id || ':' || balance FROM account WHERE id IN (4, 5) ORDER BY id",
        &["4:99", "5:107"],
    );
    // What it has read has changed: it is refused.
    let mut open = one.transaction().expect("it begins");
    let before: i32 = open
        .query_one("SELECT balance FROM account WHERE id = 6", &[])
        .expect("it runs")
        .get(0);
    open.execute(
        "UPDATE account SET balance = $1 WHERE id = 6",
        &[&(before + 1)],
    )
    .expect("it runs");
    run(
        &mut two,
        "UPDATE account SET balance = balance + 50 WHERE id = 6",
    );
    let error = open.commit().expect_err("its read is stale");
    assert_eq!(code(&error), "40001", "{}", explain(&error));
    world.all("SELECT balance::text FROM account WHERE id = 6", &["150"]);
    // Rolled back, and with a savepoint.
    let mut open = one.transaction().expect("it begins");
    open.execute("UPDATE account SET balance = 0 WHERE id = 6", &[])
        .expect("it runs");
    open.rollback().expect("it ends");
    let mut open = one.transaction().expect("it begins");
    open.execute("UPDATE account SET balance = balance - 1 WHERE id = 7", &[])
        .expect("it runs");
    let mut inner = open.transaction().expect("a savepoint");
    inner
        .execute("UPDATE account SET balance = -5 WHERE id = 7", &[])
        .expect_err("a check");
    inner.rollback().expect("it goes back");
    open.execute("UPDATE account SET balance = balance - 1 WHERE id = 7", &[])
        .expect("it runs");
    open.commit().expect("it commits");
    world.all(
        "SELECT id || ':' || balance FROM account WHERE id IN (6, 7) ORDER BY id",
        &["6:150", "7:98"],
    );
}

#[test]
fn a_transaction_that_runs_again_keeps_its_numbers() {
    let world = World::new(SERVERS);
    let mut one = world.connect(0);
    let mut two = world.connect(1);
    for round in 0..4 {
        // Each draws a number in between, so that the second run would draw another.
        let mut open = one.transaction().expect("it begins");
        let mut seen = Vec::new();
        for amount in [1, 2] {
            let row = open.query_one(
                "INSERT INTO entry (account, amount) VALUES (1, $1) RETURNING id",
                &[&amount],
            );
            seen.push(
                row.unwrap_or_else(|error| panic!("{}", explain(&error)))
                    .get::<_, i64>(0),
            );
            run(
                &mut two,
                "INSERT INTO entry (account, amount) VALUES (2, 1)",
            );
        }
        let mut inner = open.transaction().expect("a savepoint");
        inner
            .execute("INSERT INTO entry (account, amount) VALUES (3, 1)", &[])
            .expect("it runs");
        inner.rollback().expect("it goes back");
        let next: i64 = open
            .query_one("SELECT nextval('entry_id_seq')", &[])
            .expect("it runs")
            .get(0);
        let row = open.query_one(
            "INSERT INTO entry (id, account, amount) VALUES ($1, 1, 9) RETURNING id",
            &[&next],
        );
        seen.push(
            row.unwrap_or_else(|error| panic!("{}", explain(&error)))
                .get::<_, i64>(0),
        );
        open.commit()
            .unwrap_or_else(|error| panic!("round {round}: {}", explain(&error)));
        let seen: Vec<String> = seen.iter().map(i64::to_string).collect();
        world.all(
            &format!(
                "SELECT count(*)::text FROM entry WHERE account = 1 AND id IN ({})",
                seen.join(", ")
            ),
            &["3"],
        );
    }
    world.all("SELECT count(*)::text FROM entry WHERE account = 2", &["8"]);
    world.all("SELECT count(*)::text FROM entry WHERE account = 3", &["0"]);
    // Each number tells the server that gave it.
    world.all(
        "SELECT DISTINCT (id % 4)::text FROM entry ORDER BY 1",
        &["0", "1"],
    );
}

#[test]
fn a_transaction_gives_way_to_what_others_have_done() {
    let world = &World::new(SERVERS);
    let mut one = world.connect(0);
    let mut two = world.connect(1);
    let mut open = one.transaction().expect("it begins");
    open.execute("UPDATE account SET balance = balance + 1 WHERE id = 8", &[])
        .expect("it runs");
    // Of two operations inside one hold, the one that blocks the other does not give way.
    std::thread::scope(|scope| {
        let same = "UPDATE account SET balance = balance + 1 WHERE id = 5; SELECT pg_sleep(0.5)";
        // While another server has the token, both wait for it, and run inside the same hold.
        let elsewhere =
            "UPDATE account SET balance = balance + 1 WHERE id = 6; SELECT pg_sleep(0.5)";
        scope.spawn(move || run(&mut world.connect(1), elsewhere));
        std::thread::sleep(Duration::from_millis(250));
        for _ in 0..2 {
            scope.spawn(move || run(&mut world.connect(0), same));
        }
    });
    // The row is locked on the first server while its client thinks, and the other one's change has to get in.
    run(
        &mut two,
        "UPDATE account SET balance = balance + 10 WHERE id = 8",
    );
    let begun = Instant::now();
    while world.rows(0, "SELECT balance::text FROM account WHERE id = 8") != ["110"] {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "the transaction does not give way"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    // An operation of the same server inside a hold does not wait for it either.
    let mut three = world.connect(0);
    run(
        &mut three,
        "UPDATE account SET balance = balance + 10 WHERE id = 8",
    );
    // What it has done is done again, and nothing that it has seen has changed.
    open.execute("UPDATE account SET balance = balance + 1 WHERE id = 9", &[])
        .expect("it runs");
    open.commit()
        .unwrap_or_else(|error| panic!("{}", explain(&error)));
    world.all(
        "SELECT id || ':' || balance FROM account WHERE id > 7 ORDER BY id",
        &["8:121", "9:101"],
    );
}

#[test]
fn clients_of_all_servers_leave_one_database() {
    let world = World::new(SERVERS);
    let (world, committed) = (&world, &std::sync::atomic::AtomicI32::new(0));
    std::thread::scope(|scope| {
        for number in 0..9_u64 {
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(number);
                let mut client = world.connect((number % 3) as usize);
                for _ in 0..25 {
                    let (cart, from, to) =
                        (random.i32(0..12), random.i32(0..10), random.i32(0..10));
                    let done = match random.u8(0..4) {
                        0 => client
                            .execute("SELECT add_item($1, 1)", &[&cart])
                            .map(|_| 0),
                        1 => client
                            .execute("CALL pay($1, $2, 1)", &[&cart, &from])
                            .map(|_| 1),
                        2 => client
                            .execute(
                                "UPDATE account SET balance = balance - 1 WHERE id = $1",
                                &[&from],
                            )
                            .map(|_| 1),
                        _ => {
                            let by_hand = |client: &mut Client| {
                                let mut open = client.transaction()?;
                                let row = open.query_one(
                                    "SELECT balance FROM account WHERE id = $1",
                                    &[&from],
                                )?;
                                let balance: i32 = row.get(0);
                                open.execute(
                                    "UPDATE account SET balance = $1 WHERE id = $2",
                                    &[&(balance - 1), &from],
                                )?;
                                open.execute(
                                    "UPDATE account SET balance = balance + 1 WHERE id = $1",
                                    &[&to],
                                )?;
                                open.commit()?;
                                Ok(0)
                            };
                            by_hand(&mut client)
                        }
                    };
                    match done {
                        Ok(taken) => {
                            committed.fetch_add(taken, std::sync::atomic::Ordering::Relaxed);
                        }
                        // What it has read has changed, or an account is empty.
                        Err(error) => assert!(
                            matches!(code(&error), "40001" | "23514"),
                            "{}",
                            explain(&error)
                        ),
                    }
                }
            });
        }
    });
    let taken = committed.load(std::sync::atomic::Ordering::Relaxed);
    world.all(
        "SELECT sum(balance)::text FROM account",
        &[&(1_000 - taken).to_string()],
    );
    let first = world.rows(0, "SELECT a::text FROM account a ORDER BY id");
    let first: Vec<&str> = first.iter().map(String::as_str).collect();
    world.all("SELECT a::text FROM account a ORDER BY id", &first);
    let entries = world.rows(0, "SELECT e::text FROM entry e ORDER BY id");
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    world.all("SELECT e::text FROM entry e ORDER BY id", &entries);
}

#[test]
fn a_transaction_that_has_failed_keeps_nothing() {
    let world = World::new(SERVERS);
    let mut client = world.connect(0);
    // What is refused here fails the transaction, as what the database refuses does.
    for refused in [
        "NOTIFY a",
        "SELECT setval('entry_id_seq', 1)",
        "EXECUTE unknown",
        "SELECT 1 / 0",
    ] {
        run(&mut client, "BEGIN");
        run(
            &mut client,
            "INSERT INTO entry (account, amount) VALUES (7, 1)",
        );
        client.batch_execute(refused).expect_err(refused);
        for goes_on in [
            "SAVEPOINT s",
            "SET CONSTRAINTS ALL IMMEDIATE",
            "SELECT 1",
            "BEGIN",
        ] {
            let error = client.batch_execute(goes_on).expect_err(goes_on);
            assert_eq!(code(&error), "25P02", "{refused}, {goes_on}");
        }
        run(&mut client, "COMMIT");
    }
    // What is prepared by SQL is recognised when it is executed, also within the same transaction.
    run(
        &mut client,
        "BEGIN; /* x */ PREPARE \"W\" (int) AS INSERT INTO entry (account, amount) VALUES ($1, 5); EXECUTE \"W\" (8); COMMIT",
    );
    run(&mut client, "EXECUTE \"W\" (9)");
    world.all(
        "SELECT account::text FROM entry ORDER BY account",
        &["8", "9"],
    );
}

#[test]
fn settings_reach_all_servers_and_the_client_hears_of_them() {
    let world = World::new(SERVERS);
    let mut client = world.connect(0);
    let zone = |client: &mut Client, cart: i32| -> (String, String) {
        let home: String = client
            .query_one("SHOW TimeZone", &[])
            .expect("it runs")
            .get(0);
        let there: String = client
            .query_one("SELECT zone_at($1)", &[&cart])
            .unwrap_or_else(|error| panic!("{}", explain(&error)))
            .get(0);
        (home, there)
    };
    let both = |zone: &str| (zone.to_owned(), zone.to_owned());
    // Cart 1 is on the second server.
    assert_eq!(zone(&mut client, 1), both("UTC"));
    run(&mut client, "SET TimeZone = 'Asia/Tokyo'");
    assert_eq!(zone(&mut client, 1), both("Asia/Tokyo"));
    run(&mut client, "DISCARD ALL");
    assert_eq!(zone(&mut client, 1), both("UTC"));
    // Within a transaction of the other server.
    run(
        &mut client,
        "BEGIN; SELECT add_item(1, 1); SET TimeZone = 'Europe/Rome'; COMMIT",
    );
    assert_eq!(zone(&mut client, 1), both("Europe/Rome"));
}

#[test]
fn the_middleware_speaks_as_the_database() {
    let world = World::new(SERVERS);
    let mut client = world.connect(0);
    // Several statements in a text, with a transaction in it.
    let messages = client
        .simple_query("SELECT 1; BEGIN; UPDATE account SET balance = 1 WHERE id = 0; ROLLBACK; SELECT balance FROM account WHERE id = 0")
        .unwrap_or_else(|error| panic!("{}", explain(&error)));
    let rows: Vec<&str> = messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        })
        .collect();
    assert_eq!(rows, ["1", "100"]);
    // A failed transaction is refused further statements, and its COMMIT rolls back.
    run(&mut client, "BEGIN");
    client
        .batch_execute("SELECT 1 / 0")
        .expect_err("a division");
    let error = client.batch_execute("SELECT 1").expect_err("it has failed");
    assert_eq!(code(&error), "25P02");
    run(&mut client, "COMMIT");
    // Settings stay, also over DISCARD.
    run(&mut client, "SET application_name = 'shop'; DISCARD ALL");
    run(
        &mut client,
        "UPDATE account SET balance = balance + 1 WHERE id = 0",
    );
    world.all("SELECT balance::text FROM account WHERE id = 0", &["101"]);
    for (text, wanted) in [
        ("COPY account FROM STDIN", "0A000"),
        ("LISTEN a", "0A000"),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT 1", "0A000"),
        ("CREATE TABLE t (a int)", "0A000"),
        ("SET anabranch.hop = '1'", "42501"),
        ("SET \"anabranch.hop\" = '1'", "42501"),
        ("SET session_replication_role = replica", "42501"),
        ("SELECT 'a", "42601"),
    ] {
        let error = client.batch_execute(text).expect_err(text);
        assert_eq!(code(&error), wanted, "{text}: {}", explain(&error));
    }
    let level: String = client
        .query_one("SHOW transaction_isolation", &[])
        .expect("it runs")
        .get(0);
    assert_eq!(level, "serializable");
    // Cursors within a transaction.
    let mut open = client.transaction().expect("it begins");
    let portal = open
        .bind("SELECT id FROM account ORDER BY id", &[])
        .expect("it runs");
    let first = open.query_portal(&portal, 4).expect("it runs");
    let second = open.query_portal(&portal, 4).expect("it runs");
    assert_eq!((first.len(), second[0].get::<_, i32>(0)), (4, 4));
    open.commit()
        .unwrap_or_else(|error| panic!("{}", explain(&error)));
    // What runs is cancelled.
    let cancel = client.cancel_token();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        cancel.cancel_query(NoTls).expect("it is reached");
    });
    let error = client
        .batch_execute("SELECT pg_sleep(20)")
        .expect_err("it is cancelled");
    assert_eq!(code(&error), "57014");
    canceller.join().expect("it ends");
    run(&mut client, "SELECT 1");
    // Only the own database is served.
    let address = world.addresses[0];
    let other = format!(
        "host={} port={} user=anabranch dbname=other",
        address.ip(),
        address.port()
    );
    let error = Client::connect(&other, NoTls)
        .err()
        .expect("another database");
    assert_eq!(code(&error), "3D000");
    drop(world.services);
}

/// A driver may describe an unnamed statement before it binds it: in between, it is there.
#[test]
fn an_unnamed_statement_lives_until_the_next_one() {
    let world = World::new(SERVERS);
    let mut stream = TcpStream::connect(world.addresses[0]).expect("it listens");
    let parameters = [("user", "anabranch"), ("database", "site0")];
    let mut out = BytesMut::new();
    frontend::startup_message(parameters, &mut out).expect("it fits");
    assert_eq!(answered(&mut stream, &mut out), "");
    // Once for all servers, then once more after the statements of the hold.
    for _ in 0..2 {
        let text = "UPDATE account SET balance = balance + $1";
        frontend::parse("", text, [23], &mut out).expect("it fits");
        frontend::describe(b'S', "", &mut out).expect("it fits");
        frontend::sync(&mut out);
        assert_eq!(answered(&mut stream, &mut out), "");
        for amount in ["1", "2"] {
            let value = |value: &str, out: &mut BytesMut| {
                out.extend_from_slice(value.as_bytes());
                Ok(IsNull::No)
            };
            let bound = frontend::bind("", "", [0], [amount], value, [0], &mut out);
            assert!(bound.is_ok());
            frontend::execute("", 0, &mut out).expect("it fits");
            frontend::sync(&mut out);
            assert_eq!(answered(&mut stream, &mut out), "");
        }
    }
    world.all("SELECT min(balance)::text FROM account", &["106"]);
}

/// Sends what is in `out` and reads until the server is ready; the errors that it tells.
fn answered(stream: &mut TcpStream, out: &mut BytesMut) -> String {
    stream.write_all(&out.split()).expect("it is sent");
    let mut errors = String::new();
    loop {
        let mut head = [0; 5];
        if stream.read_exact(&mut head).is_err() {
            return errors + "the connection has ended";
        }
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; length as usize - 4];
        stream.read_exact(&mut body).expect("it answers");
        match head[0] {
            b'E' => errors += &String::from_utf8_lossy(&body),
            b'Z' => return errors,
            _ => {}
        }
    }
}

/// Over PostgreSQL the belt's view has what the middleware says that the ring waits for.
#[test]
fn the_view_of_the_ring_says_what_it_waits_for() {
    let world = World::new(SERVERS);
    let mut looking = world.connect(0);
    let waits = "SELECT coalesce(waits_for, '') FROM anabranch.ring WHERE is_own";
    let mut told = |is_it: &dyn Fn(&str) -> bool| {
        let begun = Instant::now();
        loop {
            let found = looking.query_one(waits, &[]);
            let found = found.unwrap_or_else(|error| panic!("{}", explain(&error)));
            let found: String = found.get(0);
            if is_it(&found) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{found}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    told(&|found| found.is_empty());
    let mut client = world.connect(0);
    let cancel = client.cancel_token();
    let long = "UPDATE account SET balance = 5 WHERE id = 1 AND pg_catalog.pg_sleep(60)::text = ''";
    std::thread::scope(|scope| {
        let held = scope.spawn(|| client.batch_execute(long));
        told(&|found| found.starts_with("1 operation under hop ") && found.ends_with(" s"));
        cancel.cancel_query(NoTls).expect("it is cancelled");
        let error = held.join().expect("it runs").expect_err("it was cancelled");
        assert_eq!(code(&error), "57014");
    });
    told(&|found| found.is_empty());
}
