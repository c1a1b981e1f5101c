//! A call is cancelled at each of its steps; what it took, and what time it sees.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use anabranch_engine::{Call, CallError, CallId, NodeOptions, Work};
use anabranch_types::{Ticks, Value};

use crate::support::{Cluster, DELAY, args, ints, under_each, under_each_with};

/// `move_amount` reads both pots before it writes them, so two calls on the same pots conflict or wait.
const POTS: &str = "
CREATE TABLE pots (
    id integer PRIMARY KEY,
    amount integer NOT NULL,
    CONSTRAINT not_overdrawn CHECK (amount >= 0)
);
CREATE TABLE moves (id integer PRIMARY KEY, moved timestamp NOT NULL);
CREATE PROCEDURE move_amount(p_id integer, p_from integer, p_to integer) LANGUAGE plpgsql AS $$
DECLARE a integer; b integer;
BEGIN
    SELECT amount INTO a FROM pots WHERE id = p_from;
    SELECT amount INTO b FROM pots WHERE id = p_to;
    UPDATE pots SET amount = a - 1 WHERE id = p_from;
    UPDATE pots SET amount = b + 1 WHERE id = p_to;
    INSERT INTO moves (id, moved) VALUES (p_id, now()::timestamp);
END $$;
";

fn pots() -> Vec<(u16, Vec<Value>)> {
    (1..=2).map(|id| (0, args([id, 10]).to_vec())).collect()
}

/// Begins a call at each node, lets the cluster take `steps` steps, and cancels the call at the node `victim`.
/// Returns how it ended, after how many attempts, and whether the cluster had come to rest before.
fn cancel_after(
    cluster: &mut dyn Cluster,
    victim: u16,
    steps: usize,
) -> (Result<(), CallError>, u32, bool) {
    let calls: Vec<CallId> = (0..3)
        .map(|node| cluster.begin(node, "move_amount", &args([i64::from(node), 1, 2])))
        .collect();
    let at_rest = !(0..steps).all(|_| cluster.advance());
    cluster.cancel(victim, calls[usize::from(victim)]);
    let mut outcomes = cluster.run();
    let cancelled = outcomes.remove(&calls[usize::from(victim)]);
    let cancelled = cancelled.expect("it has ended");
    assert_eq!(outcomes.len(), 2);
    for other in outcomes.into_values() {
        other.result.expect("only one call is cancelled");
    }
    // A call that is cancelled in a pause has no attempt after its last retried one.
    let attempts = cancelled.cost.attempts;
    assert!(attempts - cancelled.retries.total() <= 1, "{cancelled:?}");
    let ended = cancelled.result.map(|_| ());
    let moved = 2 + i64::from(ended.is_ok());
    let amounts = cluster.ints(1, "SELECT amount FROM pots ORDER BY id");
    assert_eq!(amounts, [[10 - moved], [10 + moved]], "after {steps} steps");
    cluster.assert_idle();
    // Nothing is left that a later call could meet.
    for node in 0..3 {
        let next = cluster.outcome(node, "move_amount", &args([3 + i64::from(node), 2, 1]));
        assert!(next.result.is_ok(), "{:?}", next.result);
        assert_eq!(next.retries.total(), 0, "after {steps} steps");
    }
    (ended, attempts, at_rest)
}

#[test]
fn a_cancel_at_any_step_ends_the_call_whole_or_without_a_trace() {
    let ends = RefCell::new(BTreeSet::new());
    for victim in 0..3 {
        for steps in 0.. {
            let at_rest = Cell::new(true);
            under_each(POTS, 3, &pots(), |cluster| {
                let (ended, attempts, rested) = cancel_after(cluster, victim, steps);
                at_rest.set(at_rest.get() && rested);
                let name = match ended {
                    Ok(()) => "committed",
                    Err(CallError::Cancelled) => "cancelled",
                    Err(other) => panic!("after {steps} steps: {other}"),
                };
                ends.borrow_mut().insert((name, attempts > 1));
            });
            if at_rest.get() {
                break;
            }
        }
    }
    // In the first attempt, in a later one or a pause before it, and too late.
    let ends = ends.into_inner();
    for end in [
        ("cancelled", false),
        ("cancelled", true),
        ("committed", true),
    ] {
        assert!(ends.contains(&end), "{end:?} is not among {ends:?}");
    }
}

#[test]
fn a_cancelled_call_has_its_own_error_and_a_cancel_of_an_ended_call_does_nothing() {
    under_each(POTS, 2, &pots(), |cluster| {
        let id = cluster.begin(0, "move_amount", &args([1, 1, 2]));
        cluster.cancel(1, id);
        cluster.cancel(0, id);
        let outcome = cluster.run().remove(&id).expect("it has ended");
        let error = outcome.result.expect_err("it was cancelled");
        assert_eq!((error.code(), error.is_retryable()), ("57014", false));
        cluster.cancel(0, id);
        assert!(cluster.run().is_empty(), "a call ends once");
        cluster.call(0, "move_amount", &args([1, 1, 2])).unwrap();
    });
}

/// `now()` is what the client says, or else the time of the first attempt, whatever is tried again.
#[test]
fn a_retry_does_not_move_now() {
    let options = NodeOptions {
        epoch_micros: 5_000_000,
        ..NodeOptions::default()
    };
    let retried = Cell::new(0);
    under_each_with(POTS, 3, &pots(), options, |cluster| {
        let calls: Vec<CallId> = (0..3)
            .map(|node| cluster.begin(node, "move_amount", &args([i64::from(node), 1, 2])))
            .collect();
        let procedures = &cluster.planned().application.procedures;
        let number = procedures.iter().position(|p| p.name() == "move_amount");
        let work = Work::Procedure(number.expect("it is declared"));
        let call = Call::new(CallId(0), work, args([7, 1, 2])).with_timestamp(77);
        let fixed = cluster.submit_call(0, call);
        let outcomes = cluster.run();
        for id in calls.iter().chain([&fixed]) {
            assert!(outcomes[id].result.is_ok());
            retried.set(retried.get() + outcomes[id].retries.total());
        }
        // All began when the clock of the test stood at 1 ms.
        let moves = cluster.statement(0, "SELECT id, moved FROM moves ORDER BY id");
        let moved = |id, micros| vec![Value::Int(id), Value::Timestamp(micros)];
        let expected = [
            moved(0, 5_001_000),
            moved(1, 5_001_000),
            moved(2, 5_001_000),
            moved(7, 77),
        ];
        assert_eq!(moves.expect("it answers"), expected);
    });
    assert!(retried.get() > 0, "nothing was retried");
}

#[test]
fn an_outcome_tells_what_its_call_took() {
    under_each(POTS, 2, &pots(), |cluster| {
        // At node 1, where pot 1 and move 1 are; pot 2 is at node 0.
        let outcome = cluster.outcome(1, "move_amount", &args([1, 1, 2]));
        assert!(outcome.result.is_ok());
        let cost = outcome.cost;
        assert_eq!((cost.attempts, cost.backoff), (1, Ticks(0)));
        assert!(cost.elapsed.0 >= 2 * DELAY.0, "{cost:?}");
        assert_eq!((cost.effects, cost.partitions_written), (3, 2));
        assert!(cost.read_rounds >= 2 && cost.rows_read >= 2, "{cost:?}");
        assert!(cost.items_read >= cost.read_rounds, "{cost:?}");
        assert!(cost.messages >= 2, "{cost:?}");
        let rows = cluster.statement(0, "SELECT count(*) FROM pots");
        assert_eq!(ints(&rows.expect("it answers")), [[2]]);
    });
}
