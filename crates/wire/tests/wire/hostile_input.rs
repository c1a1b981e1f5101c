//! Hostile input: recorded conversations, mutated, and bytes from nothing. The same seed gives the same bytes.

use anabranch_types::SplitMix64;
use anabranch_wire::Limits;

use crate::{
    backend, frontend,
    session::{SECRET, Session},
};

/// Small limits, so that lengths beyond them are met often.
pub(crate) const LIMITS: Limits = Limits {
    startup_bytes_max: 300,
    message_bytes_max: 2_000,
};

/// The most bytes that a socket gives at once.
const PIECE_BYTES_MAX: u64 = 600;

/// What well-behaved clients send: conversations of flights, between which a client waits for answers.
pub(crate) fn conversations() -> Vec<Vec<Vec<u8>>> {
    use frontend::{bind, cancel_request, execute, flush, parse, query, startup, sync, target};
    let start = || {
        startup(
            0,
            &[
                "user",
                "ann",
                "database",
                "shop",
                "application_name",
                "test",
            ],
        )
    };
    let pipeline = [
        parse("s", "a", &[25, 0]),
        target(b'D', b'S', "s"),
        bind("p", "s", &[1], &[Some(b"one"), None], &[0, 1, 0]),
        target(b'D', b'P', "p"),
        execute("p", 1),
        flush(),
        execute("p", 0),
        target(b'C', b'P', "p"),
        target(b'C', b'S', "s"),
        sync(),
    ];
    let failing = [
        parse("", "fail", &[]),
        bind("", "", &[], &[], &[]),
        execute("", 0),
        query("skipped"),
        sync(),
        query("after"),
    ];
    let malformed = [
        frontend::message(b'B', b"\0\0\0\0\0\x01\0\0\0\x09short\0\0"),
        sync(),
        frontend::message(b'Q', b"no end"),
        frontend::message(b'd', &[0; 500]),
        query("b"),
        frontend::terminate(),
    ];
    vec![
        vec![
            frontend::ssl_request(),
            frontend::gss_request(),
            start(),
            query("x"),
        ],
        vec![
            start(),
            query(""),
            query("fail"),
            query("none"),
            frontend::terminate(),
        ],
        vec![
            startup(2, &["user", "bob"]),
            pipeline.concat(),
            pipeline.concat(),
        ],
        vec![
            startup(9_999, &["user", "bob", "_pq_.x", "1"]),
            failing.concat(),
        ],
        vec![[start(), malformed.concat()].concat()],
        vec![startup(0, &["user", "ann", "database", "missing"])],
        vec![cancel_request(7, &SECRET[..4])],
        vec![frontend::ssl_request(), cancel_request(7, &SECRET)],
        vec![frontend::packet(2, 0, b"user\0ann\0\0")],
    ]
}

/// A recorded conversation with mistakes in it.
pub(crate) fn mutated(random: &mut SplitMix64) -> Vec<Vec<u8>> {
    let conversations = conversations();
    let pick = |random: &mut SplitMix64| {
        conversations[random.below(conversations.len() as u64) as usize].clone()
    };
    let mut flights = pick(random);
    for _ in 0..random.between(1, 4) {
        let at = random.below(flights.len() as u64) as usize;
        match random.below(5) {
            // Another conversation's flight.
            0 => {
                let other = pick(random);
                let from = random.below(other.len() as u64) as usize;
                flights.insert(at + 1, other[from].clone());
            }
            1 => flights.swap(0, at),
            _ => mutate(random, &mut flights[at]),
        }
    }
    flights
}

fn mutate(random: &mut SplitMix64, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len() as u64) as usize;
    let end = (at + random.between(1, 8) as usize).min(bytes.len());
    match random.below(6) {
        // Bits, and the bytes at the ends of counts and lengths.
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xfe, 0xff][random.below(6) as usize],
        // A number of two or four bytes.
        2 => {
            let number = [
                0,
                1,
                3,
                4,
                5,
                300,
                2_000,
                2_001,
                u32::MAX,
                i32::MAX as u32,
                random.bits() as u32,
            ][random.below(11) as usize];
            let digits = number.to_be_bytes();
            let width = (end - at).min(4);
            bytes[at..at + width].copy_from_slice(&digits[4 - width..]);
        }
        3 => drop(bytes.drain(at..end)),
        4 => {
            let repeated = bytes[at..end].to_vec();
            bytes.splice(at..at, repeated);
        }
        _ => bytes.truncate(at),
    }
}

/// Bytes from nothing: letters of messages with bodies of noise, after a start or not.
pub(crate) fn from_nothing(random: &mut SplitMix64) -> Vec<Vec<u8>> {
    let mut flights = Vec::new();
    if random.percent(80) {
        flights.push(frontend::startup(random.below(4) as u16, &["user", "u"]));
    }
    for _ in 0..random.between(1, 8) {
        let count = [0, 1, 2, 5, 20, 100, 2_500][random.below(7) as usize];
        let body: Vec<u8> = (0..random.below(count + 1))
            .map(|_| match random.below(3) {
                0 => 0,
                1 => b'a' + random.below(26) as u8,
                _ => random.bits() as u8,
            })
            .collect();
        flights.push(if random.percent(85) {
            let letters = b"QPBDECHSXdcfFp";
            frontend::message(letters[random.below(letters.len() as u64) as usize], &body)
        } else {
            body
        });
    }
    flights
}

/// What inputs have led to, so that a run that met nothing does not pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) inputs: u64,
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) closed: u64,
}

/// Delivers one input, made from its seed, in random pieces.
///
/// # Panics
/// If the connection holds more than its limits permit, or sends what is no message of a server.
pub(crate) fn run(seed: u64, counts: &mut Counts) {
    let mut random = SplitMix64::stream(seed, "hostile", 0);
    let flights = if random.percent(70) {
        mutated(&mut random)
    } else {
        from_nothing(&mut random)
    };
    let mut session = Session::new(LIMITS);
    let mut output = Vec::new();
    let sends_late = random.percent(10);
    for byte_run in flights {
        let mut rest = byte_run.as_slice();
        while !rest.is_empty() && session.connection.wants_input() {
            let count = (random.between(1, PIECE_BYTES_MAX) as usize).min(rest.len());
            session.receive(&rest[..count]);
            rest = &rest[count..];
            let bound = LIMITS.message_bytes_max + PIECE_BYTES_MAX as usize;
            let buffered = session.connection.buffered();
            assert!(buffered <= bound, "seed {seed}: {buffered} bytes are held");
            if session.connection.is_closing() {
                assert_eq!(
                    buffered, 0,
                    "seed {seed}: a closing connection holds nothing"
                );
            }
            assert!(
                session.connection.is_closing() || session.connection.next_request().is_none(),
                "seed {seed}: every request is answered"
            );
            if !sends_late || random.percent(20) {
                send(&mut session, &mut output);
            }
        }
    }
    send(&mut session, &mut output);
    let messages = backend::read(&output, false)
        .unwrap_or_else(|error| panic!("seed {seed}: {error} in {}", output.escape_ascii()));
    counts.inputs += 1;
    counts.requests += session.requests.len() as u64;
    counts.errors += messages
        .iter()
        .filter(|message| message.letter == b'E')
        .count() as u64;
    counts.closed += u64::from(session.connection.is_closing());
}

fn send(session: &mut Session, output: &mut Vec<u8>) {
    output.extend(session.connection.output());
    let count = session.connection.output().len();
    session.connection.sent(count);
}
