//! A client that goes away or cancels, at each message of a pipeline and in the middle of each, and others that ask
//! meanwhile: none sees a byte, an error or a cancel that is not its own.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anabranch_server::service::{Guarantee, Service};

use super::by_hand::{
    ByHand, bind, cancel, describe, error_fields, execute, message, messages, parse, query, sync,
};
use super::{PROCEDURES, SHOP, options, start_with};

/// A procedure writes the table: one that none writes would be on every partition, and not be written.
const MARKS: &str = "
CREATE TABLE marks (id integer PRIMARY KEY, mark text NOT NULL);
CREATE PROCEDURE put_mark(p_id integer, p_mark text) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO marks VALUES (p_id, p_mark);
END;
";

/// The number of connections that ask all the time: each node's thread has some.
const WITNESSES: usize = 4;

/// A mark that no other connection and no other turn has. All marks have the same length.
fn mark(name: &str, turn: usize) -> String {
    format!("<{name:_>10}-{turn:08}>")
}

/// What a connection asks in a turn: reads, writes, errors, in one text and in a pipeline. Each answer has the mark.
fn questions(id: usize, mark: &str) -> Vec<Vec<u8>> {
    let id = id.to_string();
    vec![
        query(&format!("SELECT '{mark}', 'A' || '{mark}'")),
        [
            parse("SELECT $1::text, mark FROM marks WHERE id = $2"),
            bind(&[mark, &id]),
            describe(),
            execute(),
            parse("SELECT $1::text FROM generate_series(1, 20)"),
            bind(&[mark]),
            execute(),
            sync(),
        ]
        .concat(),
        query(&format!("SELECT '{mark}'::integer")),
        [
            parse("UPDATE marks SET mark = $1 WHERE id = $2 RETURNING mark"),
            bind(&[mark, &id]),
            execute(),
            sync(),
        ]
        .concat(),
    ]
}

/// Asks until it is told to end, and compares each answer, byte for byte, with those of its first turn.
fn witness(address: SocketAddr, id: usize, ends: &AtomicBool, turns: &AtomicUsize) {
    let name = format!("witness{id}");
    let mut client = ByHand::connect(address);
    let first = mark(&name, 0);
    client.ask(&query(&format!(
        "INSERT INTO marks VALUES ({id}, '{first}')"
    )));
    let answers: Vec<Vec<u8>> = questions(id, &first)
        .iter()
        .map(|question| client.ask(question))
        .collect();
    for answer in &answers {
        assert!(holds(answer, &first), "{}", shown(answer));
    }
    let mut before = first.clone();
    let mut turn = 0;
    while !ends.load(Ordering::Relaxed) {
        turn += 1;
        let now = mark(&name, turn);
        for (place, (question, answer)) in questions(id, &now).iter().zip(&answers).enumerate() {
            let mut expected = replaced(answer, &first, &now);
            if place == 1 {
                // The row has the mark of the turn before.
                expected = replaced_last_in_first_row(&expected, &now, &before);
            }
            let got = client.ask(question);
            assert!(
                got == expected,
                "{name} in turn {turn}:\n got      {}\n expected {}",
                shown(&got),
                shown(&expected)
            );
        }
        before = now;
        turns.fetch_add(1, Ordering::Relaxed);
    }
}

fn holds(answer: &[u8], mark: &str) -> bool {
    answer
        .windows(mark.len())
        .any(|window| window == mark.as_bytes())
}

fn replaced(answer: &[u8], from: &str, to: &str) -> Vec<u8> {
    let mut answer = answer.to_vec();
    let mut at = 0;
    while at + from.len() <= answer.len() {
        if answer[at..].starts_with(from.as_bytes()) {
            answer[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
        at += 1;
    }
    answer
}

/// The second occurrence of a mark is that of the row.
fn replaced_last_in_first_row(answer: &[u8], from: &str, to: &str) -> Vec<u8> {
    let mut places = answer
        .windows(from.len())
        .enumerate()
        .filter(|(_, window)| *window == from.as_bytes())
        .map(|(at, _)| at);
    let at = places.nth(1).expect("the row has a mark");
    let mut answer = answer.to_vec();
    answer[at..at + to.len()].copy_from_slice(to.as_bytes());
    answer
}

fn shown(answer: &[u8]) -> String {
    answer.escape_ascii().to_string()
}

/// It has no end: it is cancelled, or its client goes away.
const ENDLESS: &str =
    "SELECT count(*), $1::text FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b";

/// A pipeline that reads, writes, and sends many rows. The place of the message that runs without an end, if it does.
fn pipeline(mark: &str, id: usize, endless: bool) -> (Vec<Vec<u8>>, Option<usize>) {
    let id = id.to_string();
    let mut messages = vec![
        parse("SELECT $1::text, mark FROM marks WHERE id = $2"),
        bind(&[mark, &id]),
        describe(),
        execute(),
        sync(),
        parse("INSERT INTO marks VALUES ($1, $2)"),
        bind(&[&id, mark]),
        execute(),
        sync(),
        parse("SELECT $1::text || n FROM generate_series(1, 5000) n"),
        bind(&[mark]),
        execute(),
        sync(),
    ];
    let place = endless.then(|| {
        messages.extend([parse(ENDLESS), bind(&[mark]), execute(), sync()]);
        messages.len() - 2
    });
    messages.extend([query(&format!("SELECT '{mark}'"))]);
    (messages, place)
}

/// Marks that are in an answer, but not this one.
fn foreign_marks(answer: &[u8], own: &str) -> Vec<String> {
    let starts = answer.windows(own.len()).filter(|window| {
        window.starts_with(b"<") && window.ends_with(b">") && *window != own.as_bytes()
    });
    starts.map(shown).collect()
}

/// Asks on a new connection: it may have the place of one that has just gone.
fn check_newcomer(address: SocketAddr, turn: usize) {
    let own = mark("newcomer", turn);
    let mut client = ByHand::connect(address);
    for _ in 0..3 {
        let answer = client.ask(&query(&format!(
            "SELECT '{own}' FROM generate_series(1, 3)"
        )));
        let letters: Vec<u8> = messages(&answer).map(|(letter, _)| letter).collect();
        assert_eq!(letters, b"TDDDCZ", "{}", shown(&answer));
        assert!(foreign_marks(&answer, &own).is_empty());
    }
}

/// Runs `disturb` while witnesses ask.
fn with_witnesses(guarantee: Guarantee, disturb: impl FnOnce(SocketAddr)) {
    let service: Service = start_with(&[SHOP, PROCEDURES, MARKS], guarantee, options());
    let address = service.address();
    let (ends, turns) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let witnesses: Vec<_> = (0..WITNESSES)
            .map(|id| {
                scope.spawn({
                    let (ends, turns) = (&ends, &turns);
                    move || witness(address, id, ends, turns)
                })
            })
            .collect();
        let disturbed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| disturb(address)));
        ends.store(true, Ordering::Relaxed);
        for witness in witnesses {
            if let Err(reason) = witness.join() {
                std::panic::resume_unwind(reason);
            }
        }
        if let Err(reason) = disturbed {
            std::panic::resume_unwind(reason);
        }
    });
    let turns = turns.into_inner();
    assert!(
        turns >= 5 * WITNESSES,
        "the witnesses had {turns} turns only"
    );
    let begun = Instant::now();
    service.stop().expect("it stops");
    assert!(begun.elapsed() < Duration::from_secs(4), "something ran on");
}

#[test]
fn a_client_that_goes_away_at_any_byte_of_a_pipeline_disturbs_no_other() {
    for guarantee in [Guarantee::Serializable, Guarantee::Invariants] {
        with_witnesses(guarantee, |address| {
            let (messages, _) = pipeline(&mark("any", 0), 1_000, true);
            let mut turn = 0;
            for sent in 0..=messages.len() {
                // Between messages, in the middle of the next, and before its last byte.
                for part in 0..3 {
                    for reads in [false, true] {
                        turn += 1;
                        let own = mark("leaver", turn);
                        let (messages, _) = pipeline(&own, 1_000 + turn, true);
                        let mut bytes = messages[..sent].concat();
                        if let Some(next) = messages.get(sent) {
                            let length = match part {
                                0 => 0,
                                1 => next.len() / 2,
                                _ => next.len() - 1,
                            };
                            bytes.extend(&next[..length]);
                        } else if part > 0 {
                            continue;
                        }
                        let mut client = ByHand::connect(address);
                        client.send(&bytes);
                        if reads && sent > 4 {
                            // Unread bytes make the socket's end a reset; here all or some are read.
                            let mut answer = vec![0; 1_000];
                            let count = client.socket.read(&mut answer).expect("it is answered");
                            assert!(foreign_marks(&answer[..count], &own).is_empty());
                        }
                        drop(client);
                        check_newcomer(address, turn);
                    }
                }
            }
        });
    }
}

#[test]
fn a_cancel_at_any_message_of_a_pipeline_meets_its_own_statement_alone() {
    for guarantee in [Guarantee::Serializable, Guarantee::Invariants] {
        with_witnesses(guarantee, |address| {
            let (messages_of_all, endless) = pipeline(&mark("any", 0), 1_000, true);
            let endless = endless.expect("it has one");
            for sent in 0..=messages_of_all.len() {
                let own = mark("canceller", sent);
                let runs_on = sent > endless;
                let (messages_sent, _) = pipeline(&own, 2_000 + sent, runs_on);
                let sent = sent.min(messages_sent.len());
                let mut client = ByHand::connect(address);
                client.send(&messages_sent[..sent].concat());
                if runs_on {
                    // What comes before it has run when its answers are there.
                    for _ in 0..3 {
                        let answer = client.read_to_ready();
                        assert!(foreign_marks(&answer, &own).is_empty());
                    }
                }
                // The statement may run, or not have begun: then the cancel meets nothing, and is sent again.
                let (mut answers, mut readies) = (Vec::new(), 3);
                cancel(address, &client.key);
                client.send(&messages_sent[sent..].concat());
                if runs_on {
                    let key = client.key.clone();
                    let done = AtomicBool::new(false);
                    std::thread::scope(|scope| {
                        scope.spawn(|| {
                            while !done.load(Ordering::Relaxed) {
                                cancel(address, &key);
                                std::thread::sleep(Duration::from_millis(20));
                            }
                        });
                        let answer = client.read_to_ready();
                        done.store(true, Ordering::Relaxed);
                        assert_eq!(error_fields(&answer, b'C'), ["57014"], "{}", shown(&answer));
                    });
                    readies = 0;
                }
                for _ in 0..=readies {
                    answers.push(client.read_to_ready());
                }
                for answer in &answers {
                    assert!(foreign_marks(answer, &own).is_empty(), "{}", shown(answer));
                    for code in error_fields(answer, b'C') {
                        assert_eq!(code, "57014", "{}", shown(answer));
                    }
                }
                // No cancel is left for what comes next.
                let next = mark("next", sent);
                for _ in 0..3 {
                    let answer = client.ask(&query(&format!(
                        "SELECT '{next}' FROM marks, generate_series(1, 100)"
                    )));
                    assert!(error_fields(&answer, b'C').is_empty(), "{}", shown(&answer));
                }
                // Nor is its key another's when it has gone.
                let key = client.key.clone();
                drop(client);
                let mut newcomer = ByHand::connect(address);
                newcomer.send(&query(&format!(
                    "SELECT '{next}' FROM generate_series(1, 30000)"
                )));
                cancel(address, &key);
                let answer = newcomer.read_to_ready();
                assert!(error_fields(&answer, b'C').is_empty(), "{}", shown(&answer));
                assert!(foreign_marks(&answer, &next).is_empty());
            }
        });
    }
}

/// What a client holds goes when it does, wherever it was: in the data of a COPY, or with a part of a message that comes
/// together with the end.
#[test]
fn a_client_that_ends_within_a_copy_or_a_message_leaves_nothing() {
    let service = start_with(
        &[SHOP, PROCEDURES, MARKS],
        Guarantee::Serializable,
        options(),
    );
    let address = service.address();
    let copies = [
        query("COPY marks FROM STDIN"),
        query("BEGIN; INSERT INTO marks VALUES (1, 'a'); COPY marks FROM STDIN"),
        query("BEGIN; CREATE TABLE other (id integer); COPY other FROM STDIN"),
    ];
    for start in &copies {
        for rest in [&b""[..], &message(b'd', &[b"7\tx\n8"]), b"d\0\0\0\x20abc"] {
            let mut client = ByHand::connect(address);
            client.send(start);
            // CopyInResponse is the last that comes.
            let mut head = [0; 5];
            while head[0] != b'G' {
                client.socket.read_exact(&mut head).expect("it answers");
                let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
                let mut body = vec![0; length as usize - 4];
                client.socket.read_exact(&mut body).expect("it answers");
            }
            client.send(rest);
            drop(client);
            let mut other = ByHand::connect(address);
            let text =
                "SET lock_timeout = 20000; CREATE TABLE other (id integer); DROP TABLE other";
            let answer = other.ask(&query(text));
            let failed = messages(&answer).any(|(letter, _)| letter == b'E');
            assert!(!failed, "{}", shown(&answer));
        }
    }
    for turn in 0..100 {
        let mut client = ByHand::connect(address);
        client.ask(&query("BEGIN; INSERT INTO marks VALUES (1, 'a')"));
        client.send(&query("SELECT 1")[..5 + turn % 5]);
        drop(client);
        let mut other = ByHand::connect(address);
        let answer = other.ask(&query(
            "SET lock_timeout = 20000; SELECT count(*) FROM marks",
        ));
        let failed = messages(&answer).any(|(letter, _)| letter == b'E');
        assert!(!failed, "turn {turn}: {}", shown(&answer));
    }
    service.stop().expect("it stops");
}
