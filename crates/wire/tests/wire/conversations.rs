//! Conversations whose point is an order or an amount, which a transcript would not show.

use anabranch_wire::{Connection, ErrorFields, Limits, Request, TEXT_BYTES_MAX, TransactionStatus};

use crate::{backend, frontend, hostile_input::LIMITS, session::Session};

fn names(session: &mut Session) -> Vec<String> {
    let output = session.connection.output().to_vec();
    session.connection.sent(output.len());
    let messages = backend::read(&output, true).unwrap();
    messages
        .iter()
        .map(|message| message.text.split(' ').next().unwrap().to_owned())
        .collect()
}

fn started(limits: Limits) -> Session {
    let mut session = Session::new(limits);
    session.receive(&frontend::startup(0, &["user", "ann"]));
    assert_eq!(names(&mut session).last().unwrap(), "ReadyForQuery");
    session
}

#[test]
fn an_error_in_a_pipeline_skips_to_sync() {
    let mut session = started(Limits::default());
    let parts = [
        frontend::parse("s", "a", &[]),
        frontend::bind("", "missing", &[], &[], &[]),
        frontend::execute("", 0),
        frontend::parse("t", "b", &[]),
        frontend::query("skipped, too"),
        frontend::sync(),
        frontend::bind("", "s", &[], &[], &[]),
        frontend::execute("", 0),
        frontend::bind("", "t", &[], &[], &[]),
        frontend::sync(),
        frontend::query("c"),
    ];
    session.receive(&parts.concat());
    let expected = "ParseComplete ErrorResponse ReadyForQuery \
         BindComplete DataRow CommandComplete ErrorResponse ReadyForQuery \
         RowDescription DataRow CommandComplete ReadyForQuery";
    assert_eq!(names(&mut session).join(" "), expected);
}

#[test]
fn an_error_in_a_simple_query_skips_nothing() {
    let mut session = started(Limits::default());
    let parts = [
        frontend::query("fail"),
        frontend::query("none"),
        frontend::parse("", "a", &[]),
    ];
    session.receive(&parts.concat());
    let expected = "ErrorResponse ReadyForQuery CommandComplete ReadyForQuery ParseComplete";
    assert_eq!(names(&mut session).join(" "), expected);
}

#[test]
fn the_next_request_waits_for_the_answer_to_the_last() {
    let mut session = started(Limits::default());
    let connection = &mut session.connection;
    connection.receive(&[frontend::query("a"), frontend::query("b")].concat());
    assert!(matches!(connection.next_request(), Some(Request::Query { text }) if text == "a"));
    assert!(connection.next_request().is_none());
    connection.command_complete("A");
    assert!(
        connection.next_request().is_none(),
        "more statements may follow"
    );
    connection.ready(TransactionStatus::Idle);
    assert!(matches!(connection.next_request(), Some(Request::Query { text }) if text == "b"));
}

#[test]
fn a_message_beyond_the_limit_is_not_waited_for() {
    for (limits, prefix, length) in [
        (Limits::default(), &b""[..], 10_005_u32),
        (Limits::default(), b"Q", (64 << 20) + 1),
        (Limits::default(), b"E", 10_001),
        (LIMITS, b"d", 2_001),
    ] {
        let mut session = match prefix {
            b"" => Session::new(limits),
            _ => started(limits),
        };
        session.receive(prefix);
        session.receive(&(length - 1).to_be_bytes());
        assert!(
            !session.connection.is_closing(),
            "{length} is the first too long"
        );

        let mut session = match prefix {
            b"" => Session::new(limits),
            _ => started(limits),
        };
        session.receive(prefix);
        session.receive(&length.to_be_bytes());
        assert_eq!(names(&mut session), ["ErrorResponse"], "{length}");
        assert!(session.connection.is_closing());
        session.receive(&[0; 10_000]);
        assert_eq!(session.connection.buffered(), 0);
        assert!(!session.connection.wants_input());
    }
}

#[test]
fn what_is_skipped_is_not_held() {
    let mut session = started(Limits::default());
    session.receive(&frontend::execute("missing", 0));
    assert_eq!(names(&mut session), ["ErrorResponse"]);
    // A statement of 60 MB that nothing will read.
    session.receive(&[b"Q".as_slice(), &60_000_000_u32.to_be_bytes()].concat());
    let mut left = 60_000_000 - 4;
    while left > 0 {
        let piece = left.min(65_536);
        session.receive(&vec![b'x'; piece]);
        left -= piece;
        assert_eq!(session.connection.buffered(), 0);
    }
    session.receive(&frontend::sync());
    assert_eq!(names(&mut session), ["ReadyForQuery"]);
}

#[test]
fn reading_ahead_ends_while_a_request_is_under_way() {
    let mut connection = started(Limits::default()).connection;
    let mut sent = 0;
    connection.receive(&frontend::query("slow"));
    assert!(connection.next_request().is_some());
    while connection.wants_input() {
        connection.receive(&frontend::query(&"x".repeat(1_000)));
        sent += 1;
        assert!(sent < 100, "a client that sends on is not read from");
    }
    assert!(connection.buffered() < 70_000);
    // A message larger than what is read ahead does come in as a whole.
    let mut connection = started(Limits::default()).connection;
    let long = frontend::query(&"x".repeat(1_000_000));
    let mut rest = long.as_slice();
    while !rest.is_empty() {
        assert!(connection.wants_input());
        connection.receive(&rest[..rest.len().min(65_536)]);
        rest = &rest[rest.len().min(65_536)..];
        if !rest.is_empty() {
            assert!(connection.next_request().is_none());
        }
    }
    assert!(connection.next_request().is_some());
}

#[test]
fn a_refused_message_fails_the_transaction() {
    let mut connection = started(Limits::default()).connection;
    connection.receive(&frontend::query("BEGIN"));
    connection.next_request().unwrap();
    connection.ready(TransactionStatus::Open);
    assert!(!connection.take_refused());
    connection.receive(&frontend::message(b'Q', b"no end"));
    assert!(connection.next_request().is_none());
    assert!(connection.take_refused());
    assert!(!connection.take_refused(), "it is told once");
    assert_eq!(connection.status(), TransactionStatus::Failed);
}

#[test]
fn texts_are_cut_where_clients_would_give_up() {
    let mut connection = started(Limits::default()).connection;
    let count = connection.output().len();
    connection.sent(count);
    connection.receive(&frontend::query(""));
    connection.next_request().unwrap();
    let text = "ä".repeat(100_000);
    connection.parameter_status(&text, &text);
    connection.notice(&ErrorFields::error("01000", &text).with_detail("x".repeat(TEXT_BYTES_MAX)));
    connection.command_complete(&format!("x{text}"));
    connection.ready(TransactionStatus::Idle);
    let messages = backend::read(connection.output(), true).unwrap();
    let lengths: Vec<usize> = messages.iter().map(|message| message.bytes.len()).collect();
    let cut = TEXT_BYTES_MAX + "…".len() + 1;
    assert_eq!(lengths[0], 5 + 2 * cut);
    assert_eq!(lengths[2], 5 + cut - 1, "between characters");
    assert!(
        messages[1]
            .text
            .ends_with(&format!("{}\"", "x".repeat(TEXT_BYTES_MAX)))
    );
}

#[test]
fn the_longest_packet_of_the_start_comes_in() {
    let mut connection = Connection::new(Limits::default());
    let fixed = frontend::startup(0, &["user", "ann", "x", ""]).len();
    let packet = frontend::startup(0, &["user", "ann", "x", &"y".repeat(10_004 - fixed)]);
    assert_eq!(packet.len(), 10_004);
    for byte in &packet {
        assert!(connection.wants_input());
        assert!(connection.next_request().is_none());
        connection.receive(&[*byte]);
    }
    assert!(matches!(connection.next_request(), Some(Request::Start(_))));
    // What comes before the client is let in is held, but not more and more.
    let mut more = 0;
    while connection.wants_input() {
        connection.receive(&[0; 100]);
        more += 100;
        assert!(more < 11_000);
    }
}
