//! The server through its socket: an unmodified client, and bytes by hand where a client would not misbehave.

mod bad_input;
mod by_hand;
mod disk;
mod isolation;
mod notifications;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_analysis::{Guarantee as Kept, Topology as Shape, analyze};
use anabranch_engine::PlannedApplication;
use anabranch_engine::load::Loader;
use anabranch_server::service::folder;
use anabranch_server::service::{Guarantee, Served, Service, ServiceError, ServiceOptions};
use anabranch_sql::{Application, SourceFile};
use anabranch_storage::StoreSettings;
use anabranch_types::PartitionId;
use postgres::{Client, NoTls, SimpleQueryMessage};

use crate::support::*;

#[test]
fn a_client_writes_and_reads() {
    let service = open();
    let mut client = connect(&service);
    let inserted = client
        .execute(
            "INSERT INTO items VALUES ($1, $2, $3), (2, 'pear', 0)",
            &[&1i32, &"apple", &5i32],
        )
        .expect("it inserts");
    assert_eq!(inserted, 2);
    let rows = client
        .query(
            "SELECT id, name, stock FROM items WHERE stock < $1 ORDER BY id",
            &[&10i32],
        )
        .expect("it reads");
    let read: Vec<(i32, String, i32)> = rows
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .collect();
    assert_eq!(
        read,
        [(1, "apple".to_owned(), 5), (2, "pear".to_owned(), 0)]
    );
    let updated = client
        .execute("UPDATE items SET stock = stock + 1", &[])
        .expect("it updates");
    assert_eq!(updated, 2);
    let simple = client
        .simple_query("SELECT sum(stock) FROM items")
        .expect("it reads");
    let SimpleQueryMessage::Row(row) = &simple[1] else {
        panic!("{simple:?}");
    };
    assert_eq!(row.get(0), Some("7"));
    service.stop().expect("it stops");
}

#[test]
fn procedures_are_called_in_every_way() {
    let service = planned();
    let mut client = connect(&service);
    client
        .execute("CALL add_item(1, 'apple', 10)", &[])
        .expect("CALL");
    client
        .simple_query("CALL restock(1, 5)")
        .expect("CALL in a simple query");
    let row = client
        .query_one("SELECT * FROM sell($1, $2)", &[&1i32, &3i32])
        .expect("FROM");
    assert_eq!(
        (row.get::<_, i32>(0), row.get::<_, String>("o_name")),
        (12, "apple".to_owned())
    );
    let simple = client.simple_query("SELECT sell(1, 2)").expect("a record");
    let SimpleQueryMessage::Row(row) = &simple[1] else {
        panic!("{simple:?}");
    };
    assert_eq!(row.get(0), Some("(10,apple)"));
    let refused = client
        .execute("CALL add_item(2, 'pear', -1)", &[])
        .expect_err("a CHECK");
    assert_eq!(code(&refused), "23514");
    let error = refused.as_db_error().expect("it is the server's");
    assert_eq!(error.constraint(), Some("stock_is_positive"));
    let missing = client
        .execute("CALL nothing(1)", &[])
        .expect_err("no such procedure");
    assert_eq!(code(&missing), "42883");
    service.stop().expect("it stops");
}

/// What tools send without need: names with a schema of the catalogs, the unit of date_trunc as a parameter, UNLISTEN.
#[test]
fn what_tools_send_is_taken() {
    let service = open();
    let mut client = connect(&service);
    client
        .batch_execute("UNLISTEN *")
        .expect("nothing is listened to");
    let named = "SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class WHERE pg_catalog.pg_class.relname = 'items'";
    let row = client.query_one(named, &[]).expect("it reads");
    assert_eq!(row.get::<_, String>(0), "items");
    let truncated = "SELECT date_trunc($1, $2::text::timestamp)::text";
    let row = client
        .query_one(truncated, &[&"Month", &"2024-02-29 12:34:56"])
        .expect("it computes");
    assert_eq!(row.get::<_, String>(0), "2024-02-01 00:00:00");
    let refused = client.query(truncated, &[&"moon", &"2024-02-29"]);
    let refused = refused.expect_err("no such unit");
    assert_eq!(code(&refused), "22023");
    assert_eq!(
        message(&refused),
        "unit \"moon\" not recognized for type timestamp without time zone"
    );
    service.stop().expect("it stops");
}

#[test]
fn errors_have_their_place_and_the_connection_goes_on() {
    let service = open();
    let mut client = connect(&service);
    for (text, expected, position) in [
        ("SELECT nam FROM items", "42703", Some(8)),
        ("SELECT 'ä', nam FROM items", "42703", Some(13)),
        ("SELECT * FROM nowhere", "42P01", Some(15)),
        ("SELEC 1", "42601", Some(1)),
        ("SELECT 1/0", "22012", None),
        ("LOCK TABLE items", "0A000", None),
        ("SAVEPOINT a", "25P01", None),
        ("INSERT INTO items VALUES (1, NULL, 1)", "23502", None),
        ("SET nonsense = 1", "42704", None),
    ] {
        let refused = client.batch_execute(text).expect_err(text);
        assert_eq!(code(&refused), expected, "{text}: {refused}");
        let found = refused
            .as_db_error()
            .and_then(|error| match error.position() {
                Some(postgres::error::ErrorPosition::Original(at)) => Some(*at),
                _ => None,
            });
        if position.is_some() {
            assert_eq!(found, position, "{text}");
        }
        let row = client
            .query_one("SELECT 1", &[])
            .expect("the connection works");
        assert_eq!(row.get::<_, i32>(0), 1);
    }
    service.stop().expect("it stops");
}

#[test]
fn settings_are_kept_and_told() {
    let service = open();
    let mut client = connect(&service);
    let show = |client: &mut Client, name: &str| {
        let row = client
            .query_one(&format!("SHOW {name}"), &[])
            .expect("SHOW");
        row.get::<_, String>(0)
    };
    assert!(show(&mut client, "server_version").starts_with("15."));
    assert_eq!(show(&mut client, "transaction_isolation"), "serializable");
    client
        .batch_execute("SET statement_timeout = '3s'; SET TIME ZONE 'Europe/Berlin'")
        .expect("SET");
    assert_eq!(show(&mut client, "statement_timeout"), "3s");
    assert_eq!(show(&mut client, "TimeZone"), "Europe/Berlin");
    let row = client
        .query_one("SELECT '2026-07-01 12:00'::timestamptz::text, current_setting('TimeZone'), current_user", &[])
        .expect("it reads");
    assert_eq!(row.get::<_, String>(0), "2026-07-01 12:00:00+02");
    assert_eq!(row.get::<_, String>(1), "Europe/Berlin");
    assert_eq!(row.get::<_, String>(2), "ann");
    client.batch_execute("DISCARD ALL").expect("DISCARD");
    assert_eq!(show(&mut client, "TimeZone"), "UTC");
    service.stop().expect("it stops");
}

/// Runs until something stops it. The first reads a table, the second is evaluated by the session at first.
const ENDLESS: [&str; 2] = [
    "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b, items",
    "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b",
];

#[test]
fn a_running_statement_is_cancelled_by_its_client_and_by_its_timeout() {
    for service in [open(), planned()] {
        let mut other = connect(&service);
        other
            .batch_execute("INSERT INTO items VALUES (1, 'a', 1)")
            .expect("it inserts");
        for endless in ENDLESS {
            let mut client = connect(&service);
            client
                .batch_execute("SET statement_timeout = 200")
                .expect("SET");
            let timed_out = client.batch_execute(endless).expect_err("it has no end");
            assert_eq!(code(&timed_out), "57014");
            assert!(message(&timed_out).contains("statement timeout"));
            client
                .batch_execute("RESET statement_timeout")
                .expect("RESET");
            let token = client.cancel_token();
            let running = std::thread::spawn(move || {
                let error = client.query(endless, &[]).expect_err("it has no end");
                // The connection is as good as before.
                client
                    .query("SELECT name FROM items", &[])
                    .expect("it reads");
                error
            });
            // Others are served meanwhile.
            for _ in 0..20 {
                let rows = other.query("SELECT stock FROM items WHERE id = 1", &[]);
                assert_eq!(rows.expect("it reads").len(), 1);
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(!running.is_finished(), "{endless} has an end");
            token.cancel_query(NoTls).expect("the request is sent");
            let cancelled = running.join().expect("it ends");
            assert_eq!(code(&cancelled), "57014");
            assert!(message(&cancelled).contains("user request"));
        }
        drop(other);
        service.stop().expect("it stops");
    }
}

#[test]
fn a_long_statement_without_tables_ends_and_one_that_holds_too_much_is_refused() {
    let service = start_with(
        &[SHOP],
        Guarantee::Serializable,
        ServiceOptions {
            statement_bytes_max: 1 << 20,
            ..options()
        },
    );
    let mut client = connect(&service);
    let row = client
        .query_one(
            "SELECT count(*) FROM generate_series(1, $1::integer) a, generate_series(1, 1000) b WHERE a <> b",
            &[&200i32],
        )
        .expect("it ends");
    assert_eq!(row.get::<_, i64>(0), 199_800);
    for sql in [
        "SELECT count(*) FROM generate_series(1, 1000000) a",
        "SELECT a FROM generate_series(1, 10000) a, generate_series(1, 10000) b",
    ] {
        let refused = client.query(sql, &[]).expect_err("it holds too much");
        assert_eq!(code(&refused), "53200");
        assert!(message(&refused).contains("statement_bytes_max"));
    }
    drop(client);
    service.stop().expect("it stops");
}

#[test]
fn a_write_from_outside_keeps_the_plan_or_is_refused() {
    let service = planned();
    let mut client = connect(&service);
    client
        .batch_execute("CALL add_item(1, 'apple', 10)")
        .expect("a declared type");
    // A name is in no invariant.
    let renamed = client.execute(
        "UPDATE items SET name = $2 WHERE id = $1",
        &[&1i32, &"pear"],
    );
    assert_eq!(renamed.expect("it keeps the plan"), 1);
    // A sale need not coordinate on its item's existence as long as no transaction type deletes items.
    let refused = client
        .execute("DELETE FROM items WHERE id = 1", &[])
        .expect_err("it changes the plan");
    assert_eq!(code(&refused), "55000", "{refused}");
    let error = refused.as_db_error().expect("it is the server's");
    assert!(
        error.message().contains("restock") || error.message().contains("sell"),
        "{error:?}"
    );
    assert!(error.hint().is_some());
    let row = client
        .query_one("SELECT name, stock FROM items", &[])
        .expect("it reads");
    assert_eq!(
        (row.get::<_, String>(0), row.get::<_, i32>(1)),
        ("pear".to_owned(), 10)
    );
    let explained = client
        .query("EXPLAIN COORDINATION SELECT * FROM sell(1, 1)", &[])
        .expect("it explains");
    let text: Vec<String> = explained.iter().map(|row| row.get(0)).collect();
    assert!(text.join("\n").contains("stock_is_positive"), "{text:#?}");
    service.stop().expect("it stops");
}

#[test]
fn who_may_not_enter_is_told_why() {
    let few = ServiceOptions {
        connections_max: 1,
        ..options()
    };
    let service = start_with(&[SHOP], Guarantee::Serializable, few);
    let port = service.address().port();
    let refused = Client::connect(
        &format!("host=127.0.0.1 port={port} user=ann dbname=other"),
        NoTls,
    );
    assert_eq!(code(&refused.err().expect("another database")), "3D000");
    let own = format!("host=127.0.0.1 port={port} user=ann dbname=anabranch");
    // The server notices a moment later that the connection which it has refused is closed.
    let noticed_by = Instant::now() + Duration::from_secs(10);
    let first = loop {
        match Client::connect(&own, NoTls) {
            Ok(client) => break client,
            Err(error) => {
                assert_eq!(code(&error), "53300");
                assert!(Instant::now() < noticed_by, "its place is never free");
            }
        }
    };
    let second = Client::connect(&own, NoTls);
    assert_eq!(code(&second.err().expect("one too many")), "53300");
    drop(first);
    service.stop().expect("it stops");
}

#[test]
fn what_was_acknowledged_is_there_after_a_restart() {
    for guarantee in [Guarantee::Serializable, Guarantee::Invariants] {
        let scratch = Scratch::new(guarantee.name());
        assert!(folder::held(&scratch.0).expect("it reads").is_none());
        let start = || {
            let started = start_in(&[SHOP, PROCEDURES], guarantee, options(), Some(&scratch.0));
            started.expect("it starts")
        };
        for round in 1..=3i64 {
            let service = start();
            let mut client = connect(&service);
            let id = round as i32;
            client
                .execute(&format!("CALL add_item({id}, 'item', 10)"), &[])
                .expect("it inserts");
            client
                .execute(&format!("SELECT sell({id}, 4)"), &[])
                .expect("it sells");
            let row = client
                .query_one("SELECT count(*), sum(stock) FROM items", &[])
                .expect("it reads");
            assert_eq!(
                (row.get::<_, i64>(0), row.get::<_, i64>(1)),
                (round, round * 6)
            );
            let ids = client.query("SELECT id FROM sales", &[]).expect("it reads");
            assert_eq!(ids.len() as i64, round, "no number is drawn twice");
            service.stop().expect("it stops");
        }
        let held = folder::held(&scratch.0)
            .expect("it reads")
            .expect("it holds one");
        assert_eq!((held.guarantee, held.partitions), (guarantee, PARTITIONS));
        assert_eq!(&*held.files[0].text, SHOP);
        let other = [
            held.files[0].clone(),
            SourceFile::new("p.sql", PROCEDURES.replace("+ p_q", "+  p_q")),
        ];
        let refused = folder::check_same(&scratch.0, &held.files, &other).expect_err("it differs");
        assert!(refused.to_string().contains("line 3"), "{refused}");
    }
}

#[test]
fn only_this_machine_is_listened_to() {
    let far = ServiceOptions::new(SocketAddr::from(([0, 0, 0, 0], 0)));
    let files = vec![SourceFile::new("application.sql", SHOP)];
    let application =
        Application::compile(anabranch_sql::load(files).expect("it loads")).expect("it compiles");
    let plan = analyze(
        application.catalog(),
        application.summaries(),
        Shape::Partitioned,
        Kept::Invariants,
    );
    let planned = PlannedApplication::new(application, plan, 1);
    let store = Loader::new(
        Arc::clone(&planned),
        PartitionId(0),
        StoreSettings::default(),
    )
    .into_store();
    let served = Served {
        planned,
        guarantee: Guarantee::Serializable,
        analysis: anabranch_analysis::Options::default(),
        stores: vec![store],
        data: None,
    };
    let refused = Service::start(served, far);
    assert!(matches!(refused, Err(ServiceError::NotLoopback(_))));
}

/// A client that writes its bytes by hand, and has been let in.
fn connect_by_hand(address: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(address).expect("it connects");
    let start = b"\0\0\0\x08\0\x03\0\0user\0ann\0database\0anabranch\0\0";
    let mut message = start.to_vec();
    message[..4].copy_from_slice(&(start.len() as u32).to_be_bytes());
    socket.write_all(&message).expect("it sends");
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("it is set");
    read_to_ready(&mut socket);
    socket
}

/// Reads up to ReadyForQuery.
fn read_to_ready(socket: &mut TcpStream) -> String {
    let mut received = vec![0; 4_096];
    let mut count = 0;
    while !received[..count].ends_with(&[b'Z', 0, 0, 0, 5, b'I']) {
        let read = socket.read(&mut received[count..]).expect("it is answered");
        assert!(read > 0, "the connection stays open");
        count += read;
    }
    String::from_utf8_lossy(&received[..count]).into_owned()
}

#[test]
fn a_message_that_is_refused_is_answered_at_once() {
    let service = open();
    let mut socket = connect_by_hand(service.address());
    // The text has no end.
    socket.write_all(b"Q\0\0\0\x0aSELECT").expect("it sends");
    let answer = read_to_ready(&mut socket);
    assert!(answer.contains("08P01"), "{answer}");
    socket
        .write_all(b"Q\0\0\0\x0dSELECT 1\0")
        .expect("it sends");
    let answer = read_to_ready(&mut socket);
    assert!(answer.contains("SELECT 1"), "{answer}");
}

#[test]
fn a_server_that_ends_tells_its_clients() {
    let service = open();
    let address = service.address();
    let mut socket = connect_by_hand(address);
    service.stop().expect("it stops");
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).expect("it is closed");
    let text = String::from_utf8_lossy(&rest);
    assert!(text.contains("57P01") && text.contains("FATAL"), "{text}");
    assert!(TcpStream::connect(address).is_err(), "it listens no more");
}

/// Sends data of a COPY, in pieces; the number of rows, or the error.
fn copy_in(client: &mut Client, statement: &str, pieces: &[&[u8]]) -> Result<u64, postgres::Error> {
    let mut writer = client.copy_in(statement)?;
    for piece in pieces {
        writer.write_all(piece).expect("it is sent");
        writer.flush().expect("it is sent");
    }
    writer.finish()
}

fn copy_out(client: &mut Client, statement: &str) -> String {
    let mut data = Vec::new();
    let mut reader = client.copy_out(statement).expect("it copies");
    reader.read_to_end(&mut data).expect("it comes");
    String::from_utf8_lossy(&data).into_owned()
}

#[test]
fn rows_are_copied_in_and_out() {
    for (service, is_planned) in [(open(), false), (planned(), true)] {
        let mut client = connect(&service);
        let text: [&[u8]; 3] = [b"1\tapple\t5\n2\tpe", b"ar\t", b"0\n"];
        let count = copy_in(&mut client, "COPY items FROM STDIN", &text).expect("it copies");
        assert_eq!(count, 2);
        let csv: [&[u8]; 1] = [b"stock,id,name\n7,3,\"a, \"\"b\"\"\"\n"];
        let statement = "COPY items (stock, id, name) FROM STDIN (FORMAT csv, HEADER)";
        assert_eq!(copy_in(&mut client, statement, &csv).expect("it copies"), 1);
        let all = copy_out(
            &mut client,
            "COPY (SELECT * FROM items ORDER BY id) TO STDOUT",
        );
        assert_eq!(all, "1\tapple\t5\n2\tpear\t0\n3\ta, \"b\"\t7\n");
        let named = copy_out(&mut client, "COPY items (name) TO STDOUT CSV HEADER");
        assert_eq!(named.lines().count(), 4, "{named}");
        // Binary data goes from one table's form to another's unread.
        let mut binary = Vec::new();
        let statement = "COPY (SELECT id + 10, name, stock FROM items) TO STDOUT (FORMAT binary)";
        let mut reader = client.copy_out(statement).expect("it copies");
        reader.read_to_end(&mut binary).expect("it comes");
        drop(reader);
        let pieces: Vec<&[u8]> = binary.chunks(7).collect();
        let statement = "COPY items FROM STDIN (FORMAT binary)";
        assert_eq!(
            copy_in(&mut client, statement, &pieces).expect("it copies"),
            3
        );
        // An identity column takes what comes, unless the plan counts on its numbers; it counts where nothing comes.
        let given: [&[u8]; 1] = [b"77\t1\t2\n"];
        let copied = copy_in(&mut client, "COPY sales FROM STDIN", &given);
        match is_planned {
            false => assert_eq!(copied.expect("it copies"), 1),
            true => assert_eq!(code(&copied.expect_err("it is refused")), "55000"),
        }
        let drawn: [&[u8]; 1] = [b"2\n3\n"];
        copy_in(&mut client, "COPY sales (item) FROM STDIN", &drawn).expect("it copies");
        let rows = client.query("SELECT id FROM sales WHERE quantity IS NULL", &[]);
        assert_eq!(rows.expect("it reads").len(), 2);
        service.stop().expect("it stops");
    }
}

/// A COPY is one transaction: what is wrong with a row leaves nothing of the others.
#[test]
fn a_copy_that_fails_leaves_nothing() {
    let service = open();
    let mut client = connect(&service);
    for (data, wanted, context) in [
        (
            "1\ta\t1\nx\tb\t2\n",
            "22P02",
            Some("COPY items, line 2, column id: \"x\""),
        ),
        (
            "1\ta\t1\n2\tb\n",
            "22P04",
            Some("COPY items, line 2: \"2\tb\""),
        ),
        (
            "1\ta\t1\t1\n",
            "22P04",
            Some("COPY items, line 1: \"1\ta\t1\t1\""),
        ),
        ("1\ta\t1\n2\tb\t-1\n", "23514", None),
        ("1\ta\t1\n1\tb\t1\n", "23505", None),
        ("1\ta\t1\n2\t\\N\t1\n", "23502", None),
    ] {
        let refused = copy_in(&mut client, "COPY items FROM STDIN", &[data.as_bytes()]);
        let refused = refused.expect_err(data);
        assert_eq!(code(&refused), wanted, "{data}");
        let found = refused.as_db_error().and_then(|error| error.where_());
        assert_eq!(found, context, "{data}");
    }
    // A writer that is dropped gives its COPY up.
    let mut writer = client.copy_in("COPY items FROM STDIN").expect("it begins");
    writer.write_all(b"5\te\t1\n").expect("it is sent");
    drop(writer);
    for (statement, wanted) in [
        ("COPY items FROM '/etc/passwd'", "0A000"),
        ("COPY items TO PROGRAM 'cat'", "0A000"),
        ("COPY nothing FROM STDIN", "42P01"),
        ("COPY items (nothing) FROM STDIN", "42703"),
        ("COPY items FROM STDIN (FORMAT xml)", "22023"),
        ("COPY items FROM STDIN (DELIMITER 'a')", "22023"),
        ("COPY items FROM STDIN (QUOTE 'a')", "0A000"),
        ("COPY (DELETE FROM items) TO STDOUT", "0A000"),
    ] {
        let refused = client.batch_execute(statement).expect_err(statement);
        assert_eq!(code(&refused), wanted, "{statement}");
    }
    let left = client.query_one("SELECT count(*) FROM items", &[]);
    assert_eq!(left.expect("it reads").get::<_, i64>(0), 0);
    service.stop().expect("it stops");
}

/// A COPY holds no more than a statement may.
#[test]
fn a_copy_is_limited() {
    let options = ServiceOptions {
        statement_bytes_max: 1 << 20,
        ..options()
    };
    let service = start_with(&[SHOP], Guarantee::Serializable, options);
    let mut client = connect(&service);
    let line = format!("1\t{}\t1\n", "x".repeat(1_000));
    let data = line.repeat(2_000);
    let refused = copy_in(&mut client, "COPY items FROM STDIN", &[data.as_bytes()]);
    let refused = refused.expect_err("it is too much");
    assert_eq!(code(&refused), "53200");
    assert_eq!(
        message(&refused),
        "a COPY is one transaction, which holds at most 1 MiB"
    );
    client
        .batch_execute("SELECT 1")
        .expect("the connection goes on");
    service.stop().expect("it stops");
}
