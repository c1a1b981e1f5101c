//! Clients' own transactions, through unmodified clients and bytes by hand.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use postgres::{Client, SimpleQueryMessage};

use crate::support::*;

fn stock(client: &mut Client, id: i32) -> Option<i32> {
    let rows = client
        .query("SELECT stock FROM items WHERE id = $1", &[&id])
        .expect("it reads");
    rows.first().map(|row| row.get(0))
}

fn fill(client: &mut Client) {
    client
        .batch_execute("INSERT INTO items VALUES (1, 'apple', 5), (2, 'pear', 7)")
        .expect("it fills");
}

#[test]
fn a_transaction_is_seen_as_a_whole_or_not_at_all() {
    for service in [open(), planned()] {
        let (mut ann, mut ben) = (connect(&service), connect(&service));
        fill(&mut ann);
        let mut transaction = ann.transaction().expect("it begins");
        let written = transaction
            .execute("UPDATE items SET stock = stock + 1 WHERE id = 1", &[])
            .expect("it writes");
        assert_eq!(written, 1);
        let row = transaction
            .query_one("SELECT stock FROM items WHERE id = 1", &[])
            .expect("it reads its own write");
        assert_eq!(row.get::<_, i32>(0), 6);
        transaction
            .execute("INSERT INTO sales (item, quantity) VALUES (1, 1)", &[])
            .expect("it inserts");
        transaction.commit().expect("it commits");
        assert_eq!(stock(&mut ben, 1), Some(6));
        let mut transaction = ann.transaction().expect("it begins");
        transaction
            .execute("INSERT INTO sales (item, quantity) VALUES (2, 9)", &[])
            .expect("it inserts");
        transaction
            .execute("UPDATE items SET stock = 0 WHERE id = 1", &[])
            .expect("it writes");
        transaction.rollback().expect("it rolls back");
        assert_eq!(stock(&mut ben, 1), Some(6));
        let row = ben
            .query_one("SELECT count(*) FROM sales", &[])
            .expect("it counts");
        assert_eq!(row.get::<_, i64>(0), 1);
    }
}

#[test]
fn an_error_fails_the_transaction_until_it_goes_back() {
    let service = open();
    let mut client = connect(&service);
    fill(&mut client);
    client
        .batch_execute("BEGIN; UPDATE items SET stock = 50 WHERE id = 1; SAVEPOINT a")
        .expect("it begins");
    let failed = client.batch_execute("INSERT INTO items VALUES (2, 'plum', 1)");
    let failed = failed.expect_err("the key is taken");
    assert_eq!(
        code(&failed),
        "23505",
        "at the statement: {}",
        message(&failed)
    );
    let ignored = client.batch_execute("SELECT 1").expect_err("it has failed");
    assert_eq!(code(&ignored), "25P02");
    let ignored = client
        .query("SELECT 1", &[])
        .expect_err("prepared ones, too");
    assert_eq!(code(&ignored), "25P02");
    client.batch_execute("ROLLBACK TO a").expect("it goes back");
    let failed = client
        .batch_execute("UPDATE items SET stock = stock - 8 WHERE id = 2")
        .expect_err("a CHECK");
    assert_eq!(code(&failed), "23514", "at the statement");
    client
        .batch_execute("ROLLBACK TO SAVEPOINT a")
        .expect("it goes back again");
    client
        .batch_execute("SAVEPOINT b; UPDATE items SET stock = 60 WHERE id = 1; SAVEPOINT a")
        .expect("names may repeat");
    client
        .batch_execute("UPDATE items SET stock = 70 WHERE id = 1; ROLLBACK TO a")
        .expect("to the second one");
    assert_eq!(stock(&mut client, 1), Some(60));
    client
        .batch_execute("RELEASE a; ROLLBACK TO b; RELEASE b")
        .expect("the first one is still there");
    let unknown = client.batch_execute("RELEASE b").expect_err("it is gone");
    assert_eq!(code(&unknown), "3B001");
    client
        .batch_execute("ROLLBACK TO a; COMMIT")
        .expect("it commits");
    assert_eq!(stock(&mut client, 1), Some(50));
    let failed = client.batch_execute("BEGIN; INSERT INTO items VALUES (3, 'fig', 1); SELECT 1/0");
    assert_eq!(code(&failed.expect_err("a division")), "22012");
    let messages = client.simple_query("COMMIT").expect("it ends");
    assert_eq!(messages.len(), 1);
    assert_eq!(
        stock(&mut client, 3),
        None,
        "COMMIT of a failed transaction rolls back"
    );
}

#[test]
fn a_text_and_a_pipeline_are_one_transaction() {
    let service = open();
    let mut client = connect(&service);
    fill(&mut client);
    let text = "INSERT INTO items VALUES (3, 'fig', 1); INSERT INTO items VALUES (3, 'kiwi', 1)";
    let failed = client
        .batch_execute(text)
        .expect_err("the second one fails");
    assert_eq!(code(&failed), "23505");
    assert_eq!(stock(&mut client, 3), None);
    client
        .batch_execute(
            "INSERT INTO items VALUES (3, 'fig', 1); UPDATE items SET stock = 2 WHERE id = 3",
        )
        .expect("both");
    assert_eq!(stock(&mut client, 3), Some(2));
    let mut socket = connect_by_hand(service.address());
    let bind = |text: &str| {
        let mut bytes = message_of(b'P', format!("\0{text}\0\0\0").as_bytes());
        bytes.extend(message_of(b'B', b"\0\0\0\0\0\0\0\0"));
        bytes.extend(message_of(b'E', b"\0\0\0\0\0"));
        bytes
    };
    let mut pipeline = bind("UPDATE items SET stock = 9 WHERE id = 3");
    pipeline.extend(bind("INSERT INTO items VALUES (1, 'again', 1)"));
    pipeline.extend(bind("UPDATE items SET stock = 10 WHERE id = 3"));
    pipeline.extend(message_of(b'S', b""));
    socket.write_all(&pipeline).expect("it sends");
    let answer = read_to_ready(&mut socket);
    assert!(answer.contains("23505"), "{answer}");
    assert!(answer.ends_with("Z\0\0\0\u{5}I"), "{answer}");
    assert_eq!(
        stock(&mut client, 3),
        Some(2),
        "all of the pipeline or nothing"
    );
    let mut pipeline = bind("UPDATE items SET stock = 9 WHERE id = 3");
    pipeline.extend(bind("UPDATE items SET stock = stock + 1 WHERE id = 3"));
    pipeline.extend(message_of(b'S', b""));
    socket.write_all(&pipeline).expect("it sends");
    read_to_ready(&mut socket);
    assert_eq!(stock(&mut client, 3), Some(10));
}

#[test]
fn transactions_that_conflict_are_run_again_unless_their_clients_would_notice() {
    for service in [open(), planned()] {
        let mut setup = connect(&service);
        fill(&mut setup);
        let counters: Vec<_> = (0..4)
            .map(|_| {
                let mut client = connect(&service);
                std::thread::spawn(move || {
                    let mut done = 0;
                    while done < 25 {
                        let mut run = || -> Result<(), postgres::Error> {
                            let mut transaction = client.transaction()?;
                            let row = transaction
                                .query_one("SELECT stock FROM items WHERE id = 1", &[])?;
                            let next = row.get::<_, i32>(0) + 1;
                            transaction
                                .execute("UPDATE items SET stock = $1 WHERE id = 1", &[&next])?;
                            transaction.commit()
                        };
                        match run() {
                            Ok(()) => done += 1,
                            Err(error) => assert_eq!(code(&error), "40001", "{error:?}"),
                        }
                    }
                })
            })
            .collect();
        // Nothing that these are shown depends on others, so that they never fail.
        let adders: Vec<_> = (0..2)
            .map(|_| {
                let mut client = connect(&service);
                std::thread::spawn(move || {
                    for _ in 0..25 {
                        client
                            .batch_execute(
                                "BEGIN; UPDATE items SET stock = stock + 1 WHERE id = 1; \
                                 UPDATE items SET stock = stock + 1 WHERE id = 2; COMMIT",
                            )
                            .expect("its client notices no conflict");
                    }
                })
            })
            .collect();
        for thread in counters.into_iter().chain(adders) {
            thread.join().expect("it ends");
        }
        assert_eq!(
            stock(&mut setup, 1),
            Some(5 + 100 + 50),
            "no update is lost"
        );
        assert_eq!(stock(&mut setup, 2), Some(7 + 50));
    }
}

#[test]
fn a_client_that_goes_leaves_nothing_behind() {
    let service = open();
    let (mut ann, mut ben) = (connect(&service), connect(&service));
    fill(&mut ann);
    ben.batch_execute("BEGIN; UPDATE items SET stock = 1 WHERE id = 1")
        .expect("it writes");
    drop(ben);
    ann.batch_execute("UPDATE items SET stock = stock + 1 WHERE id = 1")
        .expect("the lock is free");
    assert_eq!(stock(&mut ann, 1), Some(6));
    let mut cid = connect(&service);
    cid.batch_execute(
        "SET idle_in_transaction_session_timeout = 100; BEGIN; DELETE FROM items WHERE id = 1",
    )
    .expect("it writes");
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(stock(&mut ann, 1), Some(6));
    let gone = cid
        .batch_execute("SELECT 1")
        .expect_err("it was told to go");
    assert!(gone.is_closed() || code(&gone) == "25P03", "{gone:?}");
}

#[test]
fn the_time_and_the_settings_belong_to_the_transaction() {
    let service = open();
    let mut client = connect(&service);
    fill(&mut client);
    let shown = |client: &mut Client, text: &str| {
        let messages = client.simple_query(text).expect("it runs");
        let row = messages.into_iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
            _ => None,
        });
        row.expect("a row")
    };
    client
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        .expect("it begins");
    assert_eq!(
        shown(&mut client, "SHOW transaction_isolation"),
        "serializable"
    );
    assert_eq!(shown(&mut client, "SHOW transaction_read_only"), "on");
    let before = shown(&mut client, "SELECT now()");
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(
        shown(&mut client, "SELECT now() FROM items WHERE id = 1"),
        before
    );
    let refused = client
        .batch_execute("DELETE FROM items")
        .expect_err("it only reads");
    assert_eq!(code(&refused), "25006");
    client.batch_execute("ROLLBACK").expect("it ends");
    assert_ne!(shown(&mut client, "SELECT now()"), before);
    client
        .batch_execute(
            "BEGIN; SET LOCAL TimeZone = 'Asia/Tokyo'; SET application_name = 'a'; COMMIT",
        )
        .expect("it sets");
    assert_eq!(shown(&mut client, "SHOW TimeZone"), "UTC");
    assert_eq!(shown(&mut client, "SHOW application_name"), "a");
    client
        .batch_execute("BEGIN; SET application_name = 'b'; SAVEPOINT s; SET application_name = 'c'; ROLLBACK TO s")
        .expect("it sets");
    assert_eq!(shown(&mut client, "SHOW application_name"), "b");
    client.batch_execute("ROLLBACK").expect("it ends");
    assert_eq!(shown(&mut client, "SHOW application_name"), "a");
}

fn message_of(letter: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![letter];
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn connect_by_hand(address: std::net::SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(address).expect("it connects");
    let timeout = Some(Duration::from_secs(20));
    socket
        .set_read_timeout(timeout)
        .expect("it takes a timeout");
    let mut start = 196_608u32.to_be_bytes().to_vec();
    start.extend(b"user\0ann\0database\0anabranch\0\0");
    let length = (start.len() as u32 + 4).to_be_bytes();
    socket
        .write_all(&[&length[..], &start].concat())
        .expect("it sends");
    read_to_ready(&mut socket);
    socket
}

/// What comes up to the next ReadyForQuery, as text.
fn read_to_ready(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let end = bytes.len().saturating_sub(6);
        if bytes[end..].starts_with(&[b'Z', 0, 0, 0, 5]) {
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        let mut more = [0; 4096];
        let count = socket.read(&mut more).expect("it reads");
        assert!(
            count > 0,
            "closed after {:?}",
            String::from_utf8_lossy(&bytes)
        );
        bytes.extend(&more[..count]);
    }
}

/// What is said by RAISE arrives once, before the result, as far as the client wants to know.
#[test]
fn messages_of_procedures_are_sent() {
    let service = open();
    let (mut ann, messages) = told(&service);
    ann.batch_execute(
        "CREATE FUNCTION say(n integer) RETURNS integer LANGUAGE plpgsql AS $$
         BEGIN
           RAISE DEBUG 'debug';
           RAISE LOG 'log';
           RAISE INFO 'info';
           RAISE NOTICE 'n is %, 100%%', n USING DETAIL = 'a detail', HINT = 'a hint';
           RAISE WARNING 'careful' USING ERRCODE = '01P01';
           IF n < 0 THEN RAISE EXCEPTION 'negative'; END IF;
           RETURN n;
         END $$",
    )
    .expect("it is created");
    take(&messages);
    let all = ["info: ", "n is 1, 100%: a detail", "careful: "];
    ann.query("SELECT say(1)", &[]).expect("it runs");
    assert_eq!(take(&messages), all);
    ann.batch_execute("BEGIN; SELECT say(1); COMMIT")
        .expect("it runs");
    assert_eq!(take(&messages), all);
    ann.batch_execute("SET client_min_messages = error; SELECT say(1)")
        .expect("it runs");
    assert_eq!(take(&messages), ["info: "]);
    ann.batch_execute("SET client_min_messages = debug; SELECT say(1)")
        .expect("it runs");
    assert_eq!(take(&messages).len(), 5);
    let failed = ann.query("SELECT say(-1)", &[]);
    assert!(failed.is_err());
    assert_eq!(
        take(&messages),
        [""; 0],
        "a function that fails has said nothing"
    );
}
