//! The same bytes give the same requests and answers, however the network cuts them.

use anabranch_types::SplitMix64;
use anabranch_wire::Limits;

use crate::{
    hostile_input::{LIMITS, conversations, mutated},
    session::Session,
};

/// Delivers a conversation in pieces. Each flight's output is sent before the next begins, as real clients wait for
/// the answer to a request for encryption.
fn deliver(
    flights: &[Vec<u8>],
    limits: Limits,
    mut piece: impl FnMut(usize) -> usize,
) -> (Vec<String>, Vec<u8>, bool) {
    let mut session = Session::new(limits);
    let mut output = Vec::new();
    for flight in flights {
        let mut rest = flight.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(piece(rest.len()).clamp(1, rest.len()));
            session.receive(now);
            rest = later;
        }
        output.extend(session.connection.output());
        let count = session.connection.output().len();
        session.connection.sent(count);
    }
    (session.requests, output, session.connection.is_closing())
}

#[test]
fn a_byte_at_a_time_gives_the_same_as_all_at_once() {
    for (number, flights) in conversations().iter().enumerate() {
        let whole = deliver(flights, Limits::default(), |rest| rest);
        assert!(!whole.0.is_empty() || !whole.1.is_empty(), "{number}");
        assert_eq!(
            whole,
            deliver(flights, Limits::default(), |_| 1),
            "{number}"
        );
    }
}

#[test]
fn random_pieces_of_random_conversations_give_the_same() {
    for seed in 0..3_000 {
        let mut random = SplitMix64::stream(seed, "delivery", 0);
        let flights = mutated(&mut random);
        let whole = deliver(&flights, LIMITS, |rest| rest);
        assert_eq!(whole, deliver(&flights, LIMITS, |_| 1), "seed {seed}");
        let pieces = deliver(&flights, LIMITS, |_| random.between(1, 40) as usize);
        assert_eq!(whole, pieces, "seed {seed}");
    }
}
