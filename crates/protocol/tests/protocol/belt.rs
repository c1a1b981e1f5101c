//! The Conveyor Belt's state machine over tiny databases in memory.

mod images;
mod ring;

mod storms {
    //! Random schedules: messages are lost, repeated and reordered, databases abort, middlewares crash and return,
    //! transactions of a crashed middleware go on.

    use anabranch_protocol::belt::{Acknowledge, BeltOptions};

    use crate::belt::ring::{Ring, Storm};

    fn run(seeds: std::ops::Range<u64>, servers: u16, options: BeltOptions, storm: Storm) {
        for seed in seeds {
            let mut ring = Ring::new(seed, servers, options);
            ring.storm(storm);
            ring.heal();
            if let Err(what) = ring.check_at_rest() {
                panic!("seed {seed}, {servers} servers: {what}");
            }
        }
    }

    #[test]
    fn with_crashes() {
        for servers in 1..=4 {
            run(0..300, servers, BeltOptions::default(), Storm::default());
        }
    }

    #[test]
    fn with_updates_larger_than_a_message() {
        let options = BeltOptions {
            token_bytes_max: 3,
            operations_max: 3,
            ..BeltOptions::default()
        };
        run(0..400, 3, options, Storm::default());
    }

    #[test]
    fn that_answer_when_the_next_has_the_update() {
        let options = BeltOptions {
            acknowledge: Acknowledge::Next,
            ..BeltOptions::default()
        };
        run(0..400, 3, options, Storm::default());
    }

    #[test]
    fn with_a_server_removed_for_good() {
        for servers in 2..=4 {
            let storm = Storm {
                removes: true,
                ..Storm::default()
            };
            run(0..400, servers, BeltOptions::default(), storm);
        }
    }

    #[test]
    fn with_a_server_removed_that_answers_when_the_next_has_the_update() {
        let options = BeltOptions {
            acknowledge: Acknowledge::Next,
            ..BeltOptions::default()
        };
        let storm = Storm {
            removes: true,
            ..Storm::default()
        };
        run(0..400, 3, options, storm);
    }
}

mod scripts {
    //! One situation each.

    use std::collections::BTreeSet;

    use anabranch_protocol::belt::{BeltOptions, Hop, Payload, Rows, ServerId};

    use crate::belt::ring::Ring;

    #[test]
    fn an_idle_ring_sends_nothing() {
        let mut ring = Ring::new(1, 3, BeltOptions::default());
        ring.heal();
        let before = ring.sent;
        ring.pass_time(1_000);
        assert_eq!(ring.sent, before);
        assert!(ring.is_at_rest());
    }

    #[test]
    fn a_wish_wakes_an_idle_ring_and_the_token_parks_again() {
        let mut ring = Ring::new(1, 3, BeltOptions::default());
        ring.heal();
        ring.submit(2);
        ring.heal();
        ring.check_at_rest().expect("the operation is everywhere");
        assert_eq!(ring.answered(), 1);
        let before = ring.sent;
        ring.pass_time(1_000);
        assert_eq!(ring.sent, before);
    }

    #[test]
    fn an_operation_whose_deadline_has_passed_never_runs() {
        let mut ring = Ring::new(1, 2, BeltOptions::default());
        ring.crash(0);
        ring.submit(1);
        ring.pass_time(2_000);
        assert_eq!(ring.expired(), 1);
        ring.restart(0);
        ring.heal();
        ring.check_at_rest().expect("it has not run");
        assert_eq!(ring.answered(), 0);
    }

    /// A ring at rest, the server with the parked token, and another one.
    fn parked(servers: u16) -> (Ring, u16, u16) {
        let mut ring = Ring::new(1, servers, BeltOptions::default());
        ring.heal();
        let holder = ring.holder();
        (ring, holder, (holder + 1) % servers)
    }

    #[test]
    fn a_transaction_of_a_crashed_middleware_cannot_commit_after_the_pass() {
        let (mut ring, holder, other) = parked(2);
        let operation = ring.submit(holder);
        ring.run_requests(holder);
        ring.crash(holder);
        ring.restart(holder);
        ring.heal_without_operations();
        assert!(ring.received(ServerId(other)) > ring.received(ServerId(holder)));
        assert!(!ring.finish(holder, operation, true));
        ring.heal();
        ring.check_at_rest().expect("it has not committed");
    }

    #[test]
    fn a_restart_in_a_hold_passes_what_has_committed() {
        let (mut ring, holder, _) = parked(2);
        let operation = ring.submit(holder);
        ring.run_requests(holder);
        ring.crash(holder);
        assert!(ring.finish(holder, operation, true));
        ring.restart(holder);
        ring.heal();
        ring.check_at_rest().expect("it is everywhere");
        assert_eq!(ring.copies(operation), 2);
    }

    /// Found by a storm: the parked hold of a restarted middleware got an update that it was not told of.
    #[test]
    fn an_operation_of_a_crashed_middleware_that_commits_after_the_restart_travels() {
        let (mut ring, holder, _) = parked(2);
        let operation = ring.submit(holder);
        ring.run_requests(holder);
        ring.crash(holder);
        ring.restart(holder);
        assert!(ring.finish(holder, operation, true));
        ring.heal();
        ring.check_at_rest().expect("both databases are equal");
        assert_eq!(ring.copies(operation), 2);
    }

    /// An operation's update.
    #[derive(Clone, Debug)]
    struct Marker;

    impl Payload for Marker {
        fn bytes(&self) -> usize {
            1
        }
    }

    /// Local operations may have changed the rows since.
    #[test]
    fn a_server_does_not_apply_its_own_updates_again() {
        let members: Vec<ServerId> = (0..3).map(ServerId).collect();
        let mut first = Rows::new(ServerId(0), members.clone());
        let mut second = Rows::new(ServerId(1), members);
        let number = first.draw();
        first
            .commit_operation(Hop(1), number, Marker)
            .expect("the hold is open");
        let token = first.pass(Hop(1), BTreeSet::new()).expect("it is open");
        let applied = second.receive(token.clone()).expect("it is new");
        assert_eq!(applied.len(), 1);
        let token = second.pass(Hop(2), BTreeSet::new()).expect("it is open");
        assert_eq!(token.updates.len(), 1, "the third has not applied it");
        let applied = first.receive(token.clone()).expect("it is new");
        assert!(applied.is_empty());
    }

    #[test]
    fn updates_travel_in_the_order_of_their_numbers() {
        let (mut ring, holder, _) = parked(2);
        let waits = (holder + 1) % 2;
        let operations: Vec<u32> = (0..3).map(|_| ring.submit(waits)).collect();
        ring.heal_without_operations();
        let [first, other, second] = operations[..] else {
            panic!("three operations");
        };
        // The first and the second append to one row; the other draws before the second, and ends last.
        assert!(ring.draw(waits, first) && ring.draw(waits, other));
        assert!(!ring.draw(waits, second), "the row is locked");
        assert!(ring.finish(waits, first, true) && ring.finish(waits, second, true));
        assert!(ring.finish(waits, other, true));
        ring.heal();
        ring.check_at_rest().expect("both databases are equal");
    }

    #[test]
    fn a_token_of_an_epoch_that_has_ended_is_refused() {
        let (mut ring, holder, _) = parked(3);
        ring.submit(holder);
        ring.settle(holder);
        ring.run_requests(holder);
        let token = ring.delay(holder);
        assert!(!token.is_empty(), "it has passed");
        ring.lose(holder);
        // The predecessor removes it; the token was for the successor.
        ring.remove((holder + 2) % 3, holder);
        ring.heal();
        ring.arrive(token);
        ring.heal();
        ring.check_at_rest().expect("one server holds the token");
    }

    #[test]
    fn removal_names_the_last_update_that_the_others_have() {
        let (mut ring, holder, other) = parked(3);
        let known = ring.submit(holder);
        ring.heal();
        ring.submit(other);
        ring.heal();
        while ring.holder() != holder {
            ring.submit(holder);
            ring.heal();
        }
        let lost = ring.submit(holder);
        ring.run_requests(holder);
        assert!(ring.finish(holder, lost, true));
        ring.lose(holder);
        ring.remove(other, holder);
        ring.heal();
        ring.check_at_rest().expect("the others agree");
        assert_eq!((ring.copies(known), ring.copies(lost)), (2, 0));
        assert!(ring.removed_through(holder).is_some_and(|it| it.0 > 0));
    }
}
