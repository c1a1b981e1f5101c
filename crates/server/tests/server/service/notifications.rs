//! LISTEN, NOTIFY, UNLISTEN and `pg_notify`: what is delivered, to which clients, when, and in which order.

use std::collections::BTreeSet;
use std::io::Read;
use std::time::Duration;

use anabranch_server::service::{Guarantee, Service, ServiceOptions};
use postgres::Client;
use postgres::fallible_iterator::FallibleIterator;

use super::by_hand::{self, ByHand, bind, error_fields, execute, messages, parse, query, sync};
use crate::support::*;

const SCHEMA: &str = "
CREATE TABLE notes (id integer PRIMARY KEY, body text);
CREATE TABLE counts (id integer PRIMARY KEY, n integer NOT NULL);
";

const PROCEDURES: &str = "
CREATE PROCEDURE add_note(p_id integer, p_body text) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO notes VALUES (p_id, p_body);
END;
CREATE PROCEDURE add_count(p_id integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO counts VALUES (p_id, 0);
END;
CREATE PROCEDURE count_one(p_id integer) LANGUAGE SQL BEGIN ATOMIC
    UPDATE counts SET n = n + 1 WHERE id = p_id;
END;
";

fn services() -> [Service; 2] {
    [
        start_with(&[SCHEMA], Guarantee::Serializable, options()),
        start_with(&[SCHEMA, PROCEDURES], Guarantee::Invariants, options()),
    ]
}

fn limited(limit: impl FnOnce(&mut ServiceOptions)) -> Service {
    let mut options = options();
    limit(&mut options);
    start_with(&[SCHEMA], Guarantee::Serializable, options)
}

fn run(client: &mut Client, text: &str) {
    let done = client.batch_execute(text);
    done.unwrap_or_else(|error| panic!("{text}: {error:?}"));
}

fn refused(client: &mut Client, text: &str) -> (String, String) {
    let error = client.batch_execute(text).expect_err(text);
    (code(&error).to_owned(), message(&error).to_owned())
}

fn process(client: &mut Client) -> i32 {
    let row = client.query_one("SELECT pg_backend_pid()", &[]);
    row.expect("it has one").get(0)
}

type Received = (i32, String, String);

/// The next notification; `None` if none comes within this time.
fn next_within(client: &mut Client, limit: Duration) -> Option<Received> {
    let mut notifications = client.notifications();
    let next = notifications.timeout_iter(limit).next();
    let next = next.expect("the connection is open")?;
    let texts = (next.channel().to_owned(), next.payload().to_owned());
    Some((next.process_id(), texts.0, texts.1))
}

/// The payloads up to this one, which the client has to receive.
fn payloads_up_to(client: &mut Client, last: &str) -> Vec<String> {
    let mut payloads = Vec::new();
    loop {
        let next = next_within(client, Duration::from_secs(20));
        let (_, _, payload) = next.unwrap_or_else(|| panic!("{payloads:?} and no {last}"));
        if payload == last {
            return payloads;
        }
        payloads.push(payload);
    }
}

/// The payloads that have come with what was answered so far.
fn come(client: &mut Client) -> Vec<String> {
    let mut notifications = client.notifications();
    let come = notifications.iter().map(|of| Ok(of.payload().to_owned()));
    come.collect().expect("the connection is open")
}

const SHORT: Duration = Duration::from_millis(150);

#[test]
fn an_idle_listener_is_told_at_once() {
    for service in services() {
        let clients = || connect(&service);
        let (mut ann, mut ben, mut cia) = (clients(), clients(), clients());
        run(&mut ann, "LISTEN News");
        run(&mut cia, "LISTEN \"News\"");
        let notifier = process(&mut ben);
        run(&mut ben, "NOTIFY news, 'it''s here'");
        run(&mut ben, "NOTIFY \"News\"");
        let limit = Duration::from_secs(20);
        let expected = (notifier, "news".to_owned(), "it's here".to_owned());
        assert_eq!(next_within(&mut ann, limit), Some(expected));
        let expected = (notifier, "News".to_owned(), String::new());
        assert_eq!(next_within(&mut cia, limit), Some(expected));
        // A client that notifies itself is told before it is asked for more.
        run(&mut ben, "LISTEN news");
        let sent = ben.execute("SELECT pg_notify($1, $2)", &[&"news", &"own"]);
        assert_eq!(sent.expect("it notifies"), 1);
        run(&mut ben, "");
        assert_eq!(come(&mut ben), ["own"]);
        assert_eq!(payloads_up_to(&mut ann, "own"), [""; 0]);
        drop(ann);
        run(&mut ben, "NOTIFY news, 'after it has gone'");
        assert_eq!(come(&mut ben), ["after it has gone"]);
        service.stop().expect("it stops");
    }
}

#[test]
fn a_notification_is_delivered_at_commit_and_not_before() {
    for service in services() {
        let (mut ann, mut ben) = (connect(&service), connect(&service));
        run(&mut ann, "LISTEN a; LISTEN b");
        run(
            &mut ben,
            "BEGIN; NOTIFY a, '1'; INSERT INTO notes VALUES (1, 'x')",
        );
        run(&mut ben, "SELECT pg_notify('b', '2'); NOTIFY a, '3'");
        assert_eq!(next_within(&mut ann, SHORT), None);
        run(&mut ben, "COMMIT");
        assert_eq!(payloads_up_to(&mut ann, "3"), ["1", "2"]);
        let row = ann.query_one("SELECT body FROM notes WHERE id = 1", &[]);
        assert_eq!(row.expect("it is there").get::<_, String>(0), "x");
        // What changes the schema is committed elsewhere.
        run(
            &mut ben,
            "BEGIN; NOTIFY a, '4'; CREATE TABLE more (id integer PRIMARY KEY)",
        );
        assert_eq!(next_within(&mut ann, SHORT), None);
        run(&mut ben, "NOTIFY a, '5'; COMMIT");
        assert_eq!(payloads_up_to(&mut ann, "5"), ["4"]);
        run(
            &mut ben,
            "BEGIN READ ONLY; NOTIFY a, '6'; COMMIT AND CHAIN; NOTIFY a, '7'",
        );
        assert_eq!(payloads_up_to(&mut ann, "6"), [""; 0]);
        run(&mut ben, "COMMIT");
        assert_eq!(payloads_up_to(&mut ann, "7"), [""; 0]);
        service.stop().expect("it stops");
    }
}

#[test]
fn what_is_rolled_back_is_not_delivered() {
    for service in services() {
        let (mut ann, mut ben) = (connect(&service), connect(&service));
        run(&mut ann, "LISTEN a");
        run(&mut ben, "INSERT INTO notes VALUES (1, 'x')");
        run(
            &mut ben,
            "BEGIN; NOTIFY a, 'back'; SELECT pg_notify('a', 'back too'); ROLLBACK",
        );
        run(
            &mut ben,
            "BEGIN; NOTIFY a, '1'; SAVEPOINT s; NOTIFY a, 'back'; SAVEPOINT t; NOTIFY a, 'back too'; RELEASE t;
             ROLLBACK TO s; NOTIFY a, '2'; COMMIT",
        );
        // One that failed is gone until its savepoint.
        run(
            &mut ben,
            "BEGIN; NOTIFY a, '3'; INSERT INTO notes VALUES (2, 'x'); SAVEPOINT s; NOTIFY a, 'back'",
        );
        assert_eq!(
            refused(&mut ben, "INSERT INTO notes VALUES (1, 'x')").0,
            "23505"
        );
        for text in [
            "NOTIFY a",
            "LISTEN a",
            "UNLISTEN *",
            "SELECT pg_notify('a', '')",
        ] {
            assert_eq!(refused(&mut ben, text).0, "25P02", "{text}");
        }
        run(&mut ben, "ROLLBACK TO s; NOTIFY a, '4'; COMMIT");
        run(&mut ben, "BEGIN; NOTIFY a, 'back'");
        assert_eq!(refused(&mut ben, "SELECT 1/0").0, "22012");
        run(&mut ben, "COMMIT");
        // Without BEGIN, a text and a pipeline are one transaction.
        for text in [
            "NOTIFY a, 'back'; SELECT 1/0",
            "SELECT pg_notify('a', 'back'); INSERT INTO notes VALUES (1, 'x')",
        ] {
            refused(&mut ben, text);
        }
        assert_eq!(
            refused(
                &mut ben,
                "INSERT INTO notes VALUES (5, 'x'); SELECT pg_notify('', '')"
            )
            .0,
            "22023"
        );
        let rows = ben.query("SELECT id FROM notes WHERE id = 5", &[]);
        assert!(rows.expect("it reads").is_empty());
        let mut cia = ByHand::connect(service.address());
        let notify = |payload| {
            [
                parse("SELECT pg_notify('a', $1)"),
                bind(&[payload]),
                execute(),
            ]
            .concat()
        };
        let fails = [parse("SELECT 1/0"), bind(&[]), execute(), sync()].concat();
        let answer = cia.ask(&[notify("back"), fails].concat());
        assert_eq!(error_fields(&answer, b'C'), ["22012"]);
        let writes = [
            parse("INSERT INTO notes VALUES (6, 'x')"),
            bind(&[]),
            execute(),
        ]
        .concat();
        let answer = cia.ask(&[notify("5"), writes, notify("6"), sync()].concat());
        assert_eq!(error_fields(&answer, b'C'), [""; 0]);
        run(&mut ben, "INSERT INTO notes VALUES (7, 'x'); NOTIFY a, '7'");
        assert_eq!(
            payloads_up_to(&mut ann, "7"),
            ["1", "2", "3", "4", "5", "6"]
        );
        service.stop().expect("it stops");
    }
}

/// Deferred keys are checked at the commit.
#[test]
fn a_commit_that_fails_delivers_nothing() {
    const CHILDREN: &str = "
        CREATE TABLE children (id integer PRIMARY KEY, note integer REFERENCES notes DEFERRABLE INITIALLY DEFERRED);
    ";
    let service = start_with(&[SCHEMA, CHILDREN], Guarantee::Serializable, options());
    let (mut ann, mut ben) = (connect(&service), connect(&service));
    run(&mut ann, "LISTEN a");
    run(
        &mut ben,
        "BEGIN; NOTIFY a, 'back'; LISTEN a; INSERT INTO children VALUES (1, 1)",
    );
    assert_eq!(refused(&mut ben, "COMMIT").0, "23503");
    assert_eq!(channels(&mut ben), [""; 0]);
    let text = "INSERT INTO children VALUES (1, 1); NOTIFY a, 'back'";
    assert_eq!(refused(&mut ben, text).0, "23503");
    run(&mut ben, "NOTIFY a, 'end'");
    assert_eq!(payloads_up_to(&mut ann, "end"), [""; 0]);
    service.stop().expect("it stops");
}

#[test]
fn equal_notifications_of_a_transaction_are_delivered_once() {
    for service in services() {
        let (mut ann, mut ben) = (connect(&service), connect(&service));
        run(&mut ann, "LISTEN a; LISTEN b");
        run(
            &mut ben,
            "BEGIN; NOTIFY a, '1'; NOTIFY b, '1'; NOTIFY a, '2'; SELECT pg_notify('a', '1'), pg_notify('a', '1');
             SAVEPOINT s; NOTIFY a, '2'; RELEASE s; SAVEPOINT s; NOTIFY a, '1'; NOTIFY a, '3'; ROLLBACK TO s;
             NOTIFY a, '3'; COMMIT",
        );
        run(&mut ben, "NOTIFY a, '1'");
        run(&mut ben, "NOTIFY a, 'end'");
        assert_eq!(payloads_up_to(&mut ann, "end"), ["1", "1", "2", "3", "1"]);
        service.stop().expect("it stops");
    }
}

fn channels(client: &mut Client) -> Vec<String> {
    let rows = client.query("SELECT pg_listening_channels()", &[]);
    rows.expect("it reads")
        .iter()
        .map(|row| row.get(0))
        .collect()
}

#[test]
fn listening_begins_and_ends_with_a_commit() {
    for service in services() {
        let (mut ann, mut ben) = (connect(&service), connect(&service));
        run(&mut ann, "BEGIN; LISTEN a; ROLLBACK");
        run(
            &mut ann,
            "BEGIN; LISTEN a; SAVEPOINT s; LISTEN b; ROLLBACK TO s",
        );
        assert_eq!(channels(&mut ann), [""; 0]);
        run(&mut ben, "NOTIFY a, 'too early'");
        run(&mut ann, "NOTIFY a, 'own'; COMMIT");
        assert_eq!(
            come(&mut ann),
            ["own"],
            "what the transaction has sent itself"
        );
        assert_eq!(channels(&mut ann), ["a"]);
        run(&mut ann, "BEGIN; UNLISTEN a; ROLLBACK");
        run(&mut ben, "NOTIFY b, 'not to ann'");
        run(&mut ben, "NOTIFY a, '1'");
        assert_eq!(payloads_up_to(&mut ann, "1"), [""; 0]);
        run(&mut ann, "LISTEN b; LISTEN b; LISTEN c");
        assert_eq!(channels(&mut ann), ["a", "b", "c"]);
        // What has come in a transaction that ends the listening is not told.
        run(&mut ann, "BEGIN; UNLISTEN a; UNLISTEN nothing");
        run(&mut ben, "NOTIFY a, 'not any more'");
        run(&mut ben, "NOTIFY b, '2'");
        run(&mut ann, "COMMIT");
        assert_eq!(payloads_up_to(&mut ann, "2"), [""; 0]);
        for end in ["UNLISTEN *", "DISCARD ALL"] {
            run(&mut ann, end);
            assert_eq!(channels(&mut ann), [""; 0], "{end}");
            run(&mut ben, "NOTIFY b, 'not any more'");
            run(&mut ann, "LISTEN b");
            run(&mut ben, &format!("NOTIFY b, '{end}'"));
            assert_eq!(payloads_up_to(&mut ann, end), [""; 0]);
        }
        service.stop().expect("it stops");
    }
}

/// The letters of an answer, with the payloads of notifications.
fn shown(answer: &[u8]) -> Vec<String> {
    let shown = messages(answer).map(|(letter, body)| match letter {
        b'A' => {
            let payload = body[4..].split(|byte| *byte == 0).nth(1);
            format!("A {}", String::from_utf8_lossy(payload.expect("two texts")))
        }
        b'Z' => format!("Z {}", body[0] as char),
        letter => (letter as char).to_string(),
    });
    shown.collect()
}

#[test]
fn a_busy_listener_is_told_before_the_next_request_is_awaited() {
    for service in services() {
        let (mut ann, mut ben) = (ByHand::connect(service.address()), connect(&service));
        ann.ask(&query("LISTEN a"));
        // In a transaction, it is told at its end.
        ann.ask(&query("BEGIN"));
        run(&mut ben, "NOTIFY a, '1'");
        assert_eq!(shown(&ann.ask(&query("SELECT 1"))), ["T", "D", "C", "Z T"]);
        assert_eq!(shown(&ann.ask(&query("COMMIT"))), ["C", "A 1", "Z I"]);
        ann.ask(&query("BEGIN"));
        run(&mut ben, "NOTIFY a, '2'");
        assert_eq!(shown(&ann.ask(&query("SELECT 1/0"))), ["E", "Z E"]);
        assert_eq!(shown(&ann.ask(&query("ROLLBACK"))), ["C", "A 2", "Z I"]);
        // In a statement that waits, and in a pipeline.
        run(&mut ben, "SELECT pg_advisory_lock(1)");
        ann.send(&query("SELECT pg_advisory_lock(1)"));
        std::thread::sleep(SHORT);
        run(&mut ben, "NOTIFY a, '3'");
        run(&mut ben, "SELECT pg_advisory_unlock(1)");
        assert_eq!(shown(&ann.read_to_ready()), ["T", "D", "C", "A 3", "Z I"]);
        ann.send(
            &[
                parse("SELECT 1"),
                bind(&[]),
                execute(),
                by_hand::message(b'H', &[]),
            ]
            .concat(),
        );
        std::thread::sleep(SHORT);
        run(&mut ben, "NOTIFY a, '4'");
        std::thread::sleep(SHORT);
        assert_eq!(shown(&ann.ask(&sync())), ["1", "2", "D", "C", "A 4", "Z I"]);
        // Its own, in order behind what it has been told.
        let own = [
            parse("SELECT pg_notify('a', '5')"),
            bind(&[]),
            execute(),
            sync(),
        ]
        .concat();
        assert_eq!(shown(&ann.ask(&own)), ["1", "2", "D", "C", "A 5", "Z I"]);
        assert_eq!(
            shown(&ann.ask(&query("NOTIFY a, '6'; NOTIFY a, '7'"))),
            ["C", "C", "A 6", "A 7", "Z I"]
        );
        service.stop().expect("it stops");
    }
}

#[test]
fn names_and_payloads_have_their_limits() {
    let service = services().into_iter().next().expect("two");
    let (mut ann, mut ben) = (connect(&service), connect(&service));
    let (longest, cut) = ("c".repeat(63), "c".repeat(64));
    run(&mut ann, &format!("LISTEN {cut}; LISTEN a"));
    assert_eq!(channels(&mut ann), [longest.as_str(), "a"]);
    let payload = "p".repeat(7_999);
    run(&mut ben, &format!("NOTIFY {cut}, '{payload}'"));
    let notify = "SELECT pg_notify($1, $2)";
    let none: Option<&str> = None;
    ben.execute(notify, &[&longest, &none]).expect("no payload");
    ben.execute(notify, &[&"a", &"end"]).expect("it notifies");
    assert_eq!(payloads_up_to(&mut ann, "end"), [payload.as_str(), ""]);
    let long = "p".repeat(8_000);
    for (channel, payload, expected) in [
        (Some(cut.as_str()), "", "channel name too long"),
        (Some(""), "", "channel name cannot be empty"),
        (None, "", "channel name cannot be empty"),
        (Some("a"), long.as_str(), "payload string too long"),
    ] {
        let error = ben.execute(notify, &[&channel, &payload]);
        let error = error.expect_err(expected);
        assert_eq!((code(&error), message(&error)), ("22023", expected));
    }
    let found = refused(&mut ben, &format!("NOTIFY a, '{long}'"));
    assert_eq!(found, ("22023".into(), "payload string too long".into()));
    for text in [
        "SELECT pg_notify('a', body) FROM notes",
        "SELECT length(pg_notify('a', 'b')::text)",
        "INSERT INTO notes SELECT 1, pg_notify('a', 'b')::text",
    ] {
        assert_eq!(refused(&mut ben, text).0, "0A000", "{text}");
    }
    for text in [
        "LISTEN",
        "LISTEN *",
        "LISTEN a, b",
        "NOTIFY a 'b'",
        "NOTIFY a, b",
        "UNLISTEN",
    ] {
        assert_eq!(refused(&mut ben, text).0, "42601", "{text}");
    }
    run(
        &mut ben,
        "PREPARE n AS SELECT pg_notify($1, $2); EXECUTE n('a', 'executed')",
    );
    run(&mut ben, "EXPLAIN SELECT pg_notify('a', 'explained')");
    run(&mut ben, "NOTIFY a, 'end'");
    assert_eq!(payloads_up_to(&mut ann, "end"), ["executed"]);
    service.stop().expect("it stops");
}

/// Several clients notify at the same time; each listener has each transaction as a whole, all in the same order, and each
/// client's in the order of its commits. Conflicts run transactions again, and deliver nothing twice.
#[test]
fn all_listeners_have_one_order_and_a_retry_delivers_once() {
    const CLIENTS: usize = 4;
    const ROUNDS: usize = 25;
    for service in services() {
        let mut listeners = [connect(&service), connect(&service), connect(&service)];
        run(&mut listeners[0], "INSERT INTO counts VALUES (1, 0)");
        for listener in &mut listeners {
            run(listener, "LISTEN a");
        }
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let mut notifier = connect(&service);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let id = client * ROUNDS + round;
                        let text = format!(
                            "BEGIN; NOTIFY a, '{client} {round} 1'; UPDATE counts SET n = n + 1 WHERE id = 1;
                             INSERT INTO notes VALUES ({id}, 'x'); NOTIFY a, '{client} {round} 2'; COMMIT"
                        );
                        while let Err(error) = notifier.batch_execute(&text) {
                            assert_eq!(code(&error), "40001", "{error:?}");
                            run(&mut notifier, "ROLLBACK");
                        }
                    }
                });
            }
        });
        run(&mut connect(&service), "NOTIFY a, 'end'");
        let [first, second, third] = listeners.map(|mut of| payloads_up_to(&mut of, "end"));
        assert_eq!(first, second);
        assert_eq!(first, third);
        assert_eq!(first.len(), 2 * CLIENTS * ROUNDS);
        for pair in first.chunks(2) {
            assert_eq!(pair[0].strip_suffix('1'), pair[1].strip_suffix('2'));
        }
        for client in 0..CLIENTS {
            let prefix = format!("{client} ");
            let own = first.iter().filter(|of| of.starts_with(&prefix));
            let expected =
                (0..ROUNDS).flat_map(|round| [1, 2].map(|of| format!("{client} {round} {of}")));
            assert!(own.eq(expected.collect::<Vec<_>>().iter()));
        }
        service.stop().expect("it stops");
    }
}

/// The older transaction takes the lock of the younger, whose statements run again.
#[test]
fn a_transaction_that_is_run_again_notifies_once() {
    let service = services().into_iter().next().expect("two");
    let (mut ann, mut ben) = (connect(&service), connect(&service));
    run(&mut ann, "INSERT INTO counts VALUES (1, 0), (2, 0)");
    let mut listener = connect(&service);
    run(&mut listener, "LISTEN a");
    run(&mut ann, "BEGIN; UPDATE counts SET n = 1 WHERE id = 2");
    run(
        &mut ben,
        "BEGIN; SELECT pg_notify('a', gen_random_uuid()::text); NOTIFY a, 'b'",
    );
    run(
        &mut ben,
        "UPDATE counts SET n = 2 WHERE id = 1; SELECT pg_notify('a', 'c')",
    );
    run(&mut ann, "UPDATE counts SET n = 3 WHERE id = 1");
    let committed = std::thread::scope(|scope| {
        let committing = scope.spawn(|| ben.batch_execute("COMMIT"));
        std::thread::sleep(SHORT);
        assert_eq!(
            next_within(&mut listener, SHORT),
            None,
            "it waits for the older"
        );
        run(&mut ann, "COMMIT; NOTIFY a, 'first'");
        committing.join().expect("it ends")
    });
    committed.expect("its results are the same");
    run(&mut ann, "NOTIFY a, 'end'");
    let payloads = payloads_up_to(&mut listener, "end");
    assert_eq!(payloads.len(), 4, "{payloads:?}");
    let of = |payload: &str| payloads.iter().filter(|of| *of == payload).count();
    assert_eq!([of("first"), of("b"), of("c")], [1, 1, 1], "{payloads:?}");
    service.stop().expect("it stops");
}

/// A transaction whose client goes away while it commits has committed or not; its notification says which.
#[test]
fn a_client_that_goes_away_while_it_commits_notifies_if_it_has_committed() {
    let scratch = Scratch::new("notify-vanish");
    let service = start_in(
        &[SCHEMA],
        Guarantee::Serializable,
        options(),
        Some(&scratch.0),
    );
    let service = service.expect("it starts");
    let mut listener = connect(&service);
    run(&mut listener, "LISTEN a");
    for round in 0..60_u64 {
        let mut client = ByHand::connect(service.address());
        let text = format!("BEGIN; INSERT INTO notes VALUES ({round}, 'x'); NOTIFY a, '{round}'");
        client.ask(&query(&text));
        // An answer that is not read makes the end of the connection a reset, which the server notices at once.
        client.send(&query("SELECT 1"));
        std::thread::sleep(Duration::from_millis(3));
        client.send(&query("COMMIT"));
        std::thread::sleep(Duration::from_micros(50 * (round % 20)));
    }
    while service.open_transactions() != Some(0) {
        std::thread::sleep(Duration::from_millis(5));
    }
    // What is committed is durable, and told, by then.
    std::thread::sleep(Duration::from_millis(500));
    let rows = listener.query("SELECT id FROM notes ORDER BY id", &[]);
    let rows: Vec<i32> = rows
        .expect("it reads")
        .iter()
        .map(|row| row.get(0))
        .collect();
    run(&mut connect(&service), "NOTIFY a, 'end'");
    let told = payloads_up_to(&mut listener, "end");
    let told: Vec<i32> = told
        .iter()
        .map(|of| of.parse().expect("a number"))
        .collect();
    assert_eq!(
        told.iter().copied().collect::<BTreeSet<i32>>(),
        rows.iter().copied().collect()
    );
    assert_eq!(told.len(), rows.len(), "each once");
    assert!(!rows.is_empty());
    service.stop().expect("it stops");
}

#[test]
fn a_listener_that_is_too_far_behind_is_told_to_go() {
    let service = limited(|options| options.notifications_bytes_max = 64 << 10);
    let (mut ann, mut ben, mut cia) = (connect(&service), connect(&service), connect(&service));
    run(&mut ann, "LISTEN a");
    run(&mut ann, "BEGIN; INSERT INTO notes VALUES (1, 'x')");
    run(&mut cia, "LISTEN a");
    let payload = "p".repeat(7_000);
    for round in 0..40 {
        run(&mut ben, &format!("NOTIFY a, '{round} {payload}'"));
        let next = next_within(&mut cia, Duration::from_secs(20));
        assert!(next.is_some_and(|(_, _, of)| of.starts_with(&round.to_string())));
    }
    let mut answer = Ok(());
    for _ in 0..100 {
        answer = answer.and_then(|()| ann.batch_execute("SELECT 1"));
        std::thread::sleep(Duration::from_millis(5));
    }
    let error = answer.expect_err("it is told to go");
    let is_told = code(&error) == "53400" || ann.is_closed();
    assert!(is_told, "{error:?}");
    // Its transaction is gone with it.
    run(&mut ben, "INSERT INTO notes VALUES (1, 'x')");
    let many: Vec<String> = (0..3)
        .map(|of| format!("NOTIFY a, '{of} {payload}'"))
        .collect();
    let found = refused(&mut ben, &format!("BEGIN; {}", many.join("; ")));
    assert_eq!(
        found,
        (
            "54000".into(),
            "too many notifications in the NOTIFY queue".into()
        )
    );
    run(&mut ben, "ROLLBACK; NOTIFY a, 'end'");
    assert_eq!(payloads_up_to(&mut cia, "end"), [""; 0]);
    service.stop().expect("it stops");
}

#[test]
fn a_listener_that_reads_nothing_takes_no_more_than_the_limit() {
    let service = limited(|options| {
        options.notifications_bytes_max = 256 << 10;
        options.output_bytes_max = 8 << 10;
    });
    let mut ann = ByHand::connect(service.address());
    ann.ask(&query("LISTEN a"));
    let mut ben = connect(&service);
    let payload = "p".repeat(7_000);
    // More than the buffers of two sockets have.
    for round in 0..4_000 {
        run(&mut ben, &format!("NOTIFY a, '{round} {payload}'"));
    }
    let mut rest = Vec::new();
    ann.socket.read_to_end(&mut rest).expect("it is closed");
    assert_eq!(error_fields(&rest, b'C'), ["53400"]);
    let told = messages(&rest).filter(|(letter, _)| *letter == b'A');
    for (round, (_, body)) in told.enumerate() {
        assert!(
            body[6..].starts_with(format!("{round} ").as_bytes()),
            "in order"
        );
    }
    service.stop().expect("it stops");
}

#[test]
fn many_notifications_of_its_own_come_before_the_next_request_is_awaited() {
    let service = limited(|options| options.output_bytes_max = 8 << 10);
    let mut ann = ByHand::connect(service.address());
    ann.ask(&query("LISTEN a"));
    let payload = "p".repeat(1_000);
    ann.ask(&query("BEGIN"));
    for round in 0..100 {
        ann.ask(&query(&format!("NOTIFY a, '{round} {payload}'")));
    }
    let answer = shown(&ann.ask(&query("COMMIT")));
    assert_eq!(answer.len(), 102);
    for (round, of) in answer[1..101].iter().enumerate() {
        assert!(of.starts_with(&format!("A {round} ")), "{of}");
    }
    service.stop().expect("it stops");
}
