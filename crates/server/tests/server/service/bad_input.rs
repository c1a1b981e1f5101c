//! What a client may do wrong: each mistake has PostgreSQL's SQLSTATE and a sentence that a person can act on, and the
//! connection goes on where it goes on in PostgreSQL.

use std::io::{Read, Write};
use std::net::SocketAddr;

use anabranch_server::service::{Guarantee, ServiceError, ServiceOptions};

use super::by_hand::{
    ByHand, bind, error_fields, execute, message, messages, open, packet, parse, query, start_up,
    sync,
};
use super::{SHOP, open as open_shop, start_in};

/// What a server answers to a packet before it closes the connection.
fn answer_of_start(address: SocketAddr, packet: &[u8]) -> Vec<u8> {
    let mut socket = open(address);
    socket.write_all(packet).expect("it sends");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).expect("it is closed");
    answer
}

fn fatal(address: SocketAddr, parameters: &[(&str, &str)]) -> (String, String, String) {
    let answer = answer_of_start(address, &start_up(parameters));
    let field = |letter| error_fields(&answer, letter).concat();
    assert_eq!(field(b'S'), "FATAL", "{}", answer.escape_ascii());
    (field(b'C'), field(b'M'), field(b'H'))
}

#[test]
fn a_port_that_is_taken_is_named() {
    let service = open_shop();
    let taken = ServiceOptions::new(service.address());
    let refused = start_in(&[SHOP], Guarantee::Serializable, taken, None);
    let error = refused.err().expect("another server listens there");
    assert!(matches!(error, ServiceError::Listen { .. }), "{error:?}");
    let text = error.to_string();
    let address = service.address().to_string();
    assert!(
        text.contains(&address) && text.contains("another program") && text.contains("choose"),
        "{text}"
    );
    service.stop().expect("it stops");
}

#[test]
fn a_client_of_another_protocol_is_told_in_its_own() {
    let service = open_shop();
    let address = service.address();
    // In protocol 2 an error is a text.
    let answer = answer_of_start(address, &packet(&[&[0, 2, 0, 0][..], &[0; 288]].concat()));
    let text = String::from_utf8_lossy(&answer);
    assert!(
        text.starts_with("EFATAL:  unsupported frontend protocol 2.0: server supports 3.0 to 3.2")
            && text.ends_with("\n\0"),
        "{text:?}"
    );
    let answer = answer_of_start(address, &packet(&[0, 4, 0, 0, 0]));
    assert_eq!(error_fields(&answer, b'C'), ["0A000"]);
    // HTTP: its first bytes are a length that no start-up packet has.
    let answer = answer_of_start(address, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(error_fields(&answer, b'C'), ["08P01"]);
    service.stop().expect("it stops");
}

#[test]
fn who_names_another_database_encoding_or_setting_is_not_let_in() {
    let service = open_shop();
    let address = service.address();
    let user = ("user", "ann");
    let (code, text, hint) = fatal(address, &[user, ("database", "other")]);
    assert_eq!(
        (&*code, &*text),
        ("3D000", "database \"other\" does not exist")
    );
    assert!(hint.contains("\"anabranch\""), "{hint}");
    // Without a name it is the user's.
    let (code, text, _) = fatal(address, &[user]);
    assert_eq!(
        (&*code, &*text),
        ("3D000", "database \"ann\" does not exist")
    );
    let anabranch = ("database", "anabranch");
    let (code, text, _) = fatal(address, &[anabranch]);
    assert_eq!(code, "28000", "{text}");
    let (code, text, hint) = fatal(address, &[user, anabranch, ("client_encoding", "LATIN1")]);
    assert_eq!((&*code, &*hint), ("0A000", "Use UTF8."), "{text}");
    let (code, text, _) = fatal(address, &[user, anabranch, ("client_encoding", "EBCDIC")]);
    assert_eq!(
        (&*code, &*text),
        (
            "22023",
            "invalid value for parameter \"client_encoding\": \"EBCDIC\""
        )
    );
    let (code, ..) = fatal(address, &[user, anabranch, ("nonsense", "1")]);
    assert_eq!(code, "42704");
    let (code, ..) = fatal(
        address,
        &[user, anabranch, ("options", "-c statement_timeout=soon")],
    );
    assert_eq!(code, "22023");
    let (code, text, _) = fatal(address, &[user, anabranch, ("replication", "true")]);
    assert_eq!(code, "0A000", "{text}");
    service.stop().expect("it stops");
}

/// Sends messages, and checks the SQLSTATE, a part of the error's message or hint, and that the connection goes on.
fn check_refused(client: &mut ByHand, name: &str, sent: &[u8], code: &str, part: &str) {
    let answer = client.ask(sent);
    assert_eq!(
        error_fields(&answer, b'C'),
        [code],
        "{name}: {:?} {:?}",
        error_fields(&answer, b'M'),
        error_fields(&answer, b'H')
    );
    let mut told = error_fields(&answer, b'M');
    told.extend(error_fields(&answer, b'H'));
    let told = told.join(" ");
    assert!(told.contains(part), "{name}: {told}");
    // A person reads it: it is short, and has no trace of the program.
    assert!(told.len() < 1_000, "{name}: {told}");
    for trace in ["panicked", ".rs:", "RUST_BACKTRACE", "unwrap"] {
        assert!(!told.contains(trace), "{name}: {told}");
    }
    let answer = client.ask(&query("SELECT 1"));
    let letters: Vec<u8> = messages(&answer).map(|(letter, _)| letter).collect();
    assert_eq!(letters, b"TDCZ", "{name}");
}

#[test]
fn an_encoding_cannot_be_changed_to_one_that_is_not_spoken() {
    let service = open_shop();
    let mut client = ByHand::connect(service.address());
    let set = |value: &str| query(&format!("SET client_encoding TO '{value}'"));
    check_refused(&mut client, "LATIN1", &set("LATIN1"), "0A000", "Use UTF8.");
    check_refused(&mut client, "EBCDIC", &set("EBCDIC"), "22023", "\"EBCDIC\"");
    for (name, shown) in [
        ("utf-8", "UTF8"),
        ("Unicode", "UTF8"),
        ("sql_ascii", "SQL_ASCII"),
    ] {
        let answer = client.ask(&set(name));
        let reported = messages(&answer).find(|(letter, _)| *letter == b'S');
        let expected = format!("client_encoding\0{shown}\0");
        let body = reported.map(|(_, body)| String::from_utf8_lossy(body).into_owned());
        // A value that is told already need not be told again.
        assert!(body.is_none_or(|body| body == expected), "{name}");
        let answer = client.ask(&query("SHOW client_encoding"));
        assert!(String::from_utf8_lossy(&answer).contains(shown), "{name}");
    }
    // Bytes that are no text.
    let latin = message(b'Q', &[b"SELECT 'gr\xfc\xdfe'\0"]);
    check_refused(&mut client, "Latin-1", &latin, "22021", "0xfc");
    service.stop().expect("it stops");
}

#[test]
fn parameters_beyond_what_a_message_can_say_are_refused() {
    let service = open_shop();
    let mut client = ByHand::connect(service.address());
    let prepared = |text: &str| [parse(text), sync()].concat();
    check_refused(
        &mut client,
        "$65536",
        &prepared("SELECT $65536::integer"),
        "42P02",
        "$1 to $65535",
    );
    let rows: Vec<String> = (0..65_536)
        .map(|number| format!("${}", number + 1))
        .collect();
    let many = format!("SELECT 1 WHERE 1 IN ({})", rows.join(","));
    check_refused(&mut client, "65,536", &prepared(&many), "42P02", "$65536");
    // One fewer is as many as there can be.
    let most = format!("SELECT 1 WHERE 7 IN ({})", rows[..65_535].join(","));
    let values: Vec<&str> = vec!["7"; 65_535];
    let answer = client.ask(&[parse(&most), bind(&values), execute(), sync()].concat());
    let letters: Vec<u8> = messages(&answer).map(|(letter, _)| letter).collect();
    assert_eq!(letters, b"12DCZ", "{:?}", error_fields(&answer, b'M'));
    // Fewer values than parameters.
    check_refused(
        &mut client,
        "one of two",
        &[parse("SELECT $1::text, $2::text"), bind(&["one"]), sync()].concat(),
        "08P01",
        "supplies 1 parameters, but prepared statement \"\" requires 2",
    );
    service.stop().expect("it stops");
}

#[test]
fn no_text_has_a_nul() {
    let service = open_shop();
    let mut client = ByHand::connect(service.address());
    let shown = "invalid byte sequence for encoding \"UTF8\": 0x00";
    check_refused(
        &mut client,
        "a parameter",
        &[parse("SELECT $1::text"), bind(&["a\0b"]), execute(), sync()].concat(),
        "22021",
        shown,
    );
    check_refused(
        &mut client,
        "a literal",
        &query("SELECT E'a\\000b'"),
        "22021",
        shown,
    );
    check_refused(
        &mut client,
        "chr",
        &query("SELECT chr(0)"),
        "54000",
        "null character",
    );
    // A statement ends at its NUL: what follows belongs to no message.
    let cut = message(b'Q', &[b"SELECT 1\0 + 1\0"]);
    check_refused(
        &mut client,
        "a statement",
        &cut,
        "08P01",
        "invalid message format",
    );
    service.stop().expect("it stops");
}

#[test]
fn a_numeric_of_39_digits_is_out_of_range() {
    let service = open_shop();
    let mut client = ByHand::connect(service.address());
    let digits = "123456789".repeat(5)[..39].to_owned();
    for (name, text) in [
        ("a literal", format!("SELECT {digits}")),
        ("a cast", format!("SELECT '{digits}'::numeric")),
        ("a fraction", format!("SELECT 1.{digits}")),
        (
            "a product",
            "SELECT 1e20::numeric * 1e20::numeric".to_owned(),
        ),
    ] {
        check_refused(&mut client, name, &query(&text), "22003", "38 digits");
    }
    let bound = [
        parse("SELECT $1::numeric"),
        bind(&[&digits]),
        execute(),
        sync(),
    ]
    .concat();
    check_refused(&mut client, "a parameter", &bound, "22003", "38 digits");
    // In binary: ten groups of four digits.
    let mut number = vec![0, 10, 0, 9, 0, 0, 0, 0];
    number.extend([4, 210].repeat(10));
    let length = (number.len() as u32).to_be_bytes();
    let value = message(
        b'B',
        &[b"\0\0\0\x01\0\x01\0\x01", &length, &number, b"\0\0"],
    );
    let bound = [parse("SELECT $1::numeric"), value, execute(), sync()].concat();
    check_refused(
        &mut client,
        "a binary parameter",
        &bound,
        "22003",
        "38 digits",
    );
    service.stop().expect("it stops");
}

#[test]
fn what_nests_too_deeply_is_refused_and_no_stack_overflows() {
    let service = open_shop();
    let mut client = ByHand::connect(service.address());
    let nested = |count: usize, before: &str, inner: &str, after: &str| {
        let (before, after) = (before.repeat(count), after.repeat(count));
        query(&format!("SELECT {before}{inner}{after}"))
    };
    let count = 10_000;
    for (name, sent) in [
        ("brackets", nested(count, "(", "1", ")")),
        ("open brackets", nested(count, "(", "1", "")),
        ("queries", nested(count, "(SELECT ", "1", ")")),
        ("EXISTS", nested(count, "EXISTS (SELECT ", "1", ")")),
        ("FROM", nested(count, "* FROM (SELECT ", "1", ") a")),
        ("calls", nested(count, "abs(", "1", ")")),
        ("CASE", nested(count, "CASE WHEN true THEN ", "1", " END")),
        ("casts", nested(count, "CAST(", "1", " AS integer)")),
        ("arrays", nested(count, "ARRAY[", "1", "]")),
        ("rows", nested(count, "ROW(", "1", ")")),
        ("NOT", nested(count, "NOT ", "true", "")),
        ("minus", nested(count, "- ", "1", "")),
        ("sums", nested(count, "1 + ", "1", "")),
        ("AND", nested(count, "true AND ", "true", "")),
        ("comparisons", nested(count, "1 = 1 OR ", "true", "")),
        ("double colons", nested(count, "", "1", "::integer")),
        ("IS NULL", nested(count, "", "1", " IS NULL")),
        ("subscripts", nested(count, "", "a", "[1]")),
        ("UNION", nested(count, "1 UNION SELECT ", "1", "")),
        (
            "joins",
            nested(count, "* FROM items a JOIN ", "items", " ON true"),
        ),
    ] {
        check_refused(&mut client, name, &sent, "54001", "");
    }
    let terms: Vec<String> = (0..count)
        .map(|at| format!("a{at} AS (SELECT 1)"))
        .collect();
    let with = query(&format!("WITH {} SELECT 1", terms.join(", ")));
    let answer = client.ask(&with);
    assert!(!messages(&answer).any(|(letter, _)| letter == b'N'));
    // Much that does not nest is not refused.
    let list = vec!["1"; count].join(",");
    for (name, text) in [
        ("a list", format!("SELECT 1 WHERE 1 IN ({list})")),
        ("an array", format!("SELECT cardinality(ARRAY[{list}])")),
        ("a text", format!("SELECT length('{}')", "(".repeat(count))),
        ("statements", "SELECT 1;".repeat(count)),
        ("a comment", format!("SELECT 1 /* {} */", "(".repeat(count))),
    ] {
        let answer = client.ask(&query(&text));
        assert!(
            error_fields(&answer, b'C').is_empty(),
            "{name}: {:?}",
            error_fields(&answer, b'M')
        );
    }
    let arrays = format!(
        "SELECT '{}1{}'::integer[]",
        "{".repeat(count),
        "}".repeat(count)
    );
    let answer = client.ask(&query(&arrays));
    assert_eq!(error_fields(&answer, b'C').len(), 1);
    service.stop().expect("it stops");
}
