//! One column, assigned by some transactions and incremented by others: a sweep of seeds.
//!
//! Timestamps decide a row's value, in any order of arrival: the last assignment, and the increments after it.
//! So the committed calls, replayed in the order of their timestamps, have to give the rows of the cluster: a
//! lost update, or one counted twice, shows. A pot must not be overdrawn in any intermediate state.

use std::collections::BTreeMap;

use anabranch_engine::{AttemptOutcome, NodeOptions};
use anabranch_types::{Timestamp, Value};
use fastrand::Rng;

use crate::support::{args, under_each_with};

const POTS: &str = "
CREATE TABLE pots (
    id integer PRIMARY KEY,
    amount bigint NOT NULL,
    calls bigint NOT NULL,
    CONSTRAINT not_overdrawn CHECK (amount >= 0)
);
CREATE PROCEDURE add(p_id integer, p_amount bigint) LANGUAGE SQL BEGIN ATOMIC
    UPDATE pots SET amount = amount + p_amount, calls = calls + 1 WHERE id = p_id;
END;
CREATE PROCEDURE put(p_id integer, p_amount bigint) LANGUAGE SQL BEGIN ATOMIC
    UPDATE pots SET amount = p_amount, calls = calls + 1 WHERE id = p_id;
END;
CREATE PROCEDURE put_and_add(p_id integer, p_amount bigint, p_other integer, p_more bigint)
LANGUAGE SQL BEGIN ATOMIC
    UPDATE pots SET amount = p_amount, calls = calls + 1 WHERE id = p_id;
    UPDATE pots SET amount = amount + p_more, calls = calls + 1 WHERE id = p_other;
    UPDATE pots SET amount = amount + 1, calls = calls + 1 WHERE id = p_id;
END;
";

const POTS_COUNT: i64 = 3;
const BEGINNING: i64 = 20;

/// What a call does to one pot.
#[derive(Clone, Copy, Debug)]
enum Change {
    Put(i64),
    Add(i64),
}

/// A call, and what it does if it commits.
fn draw(rng: &mut Rng) -> (&'static str, Vec<Value>, Vec<(i64, Change)>) {
    let (pot, other) = (rng.i64(0..POTS_COUNT), rng.i64(0..POTS_COUNT));
    let (put, add) = (rng.i64(-2..30), rng.i64(-12..10));
    match rng.u8(0..6) {
        0..3 => (
            "add",
            args([pot, add]).to_vec(),
            vec![(pot, Change::Add(add))],
        ),
        3..5 => (
            "put",
            args([pot, put]).to_vec(),
            vec![(pot, Change::Put(put))],
        ),
        _ => (
            "put_and_add",
            args([pot, put, other, add]).to_vec(),
            vec![
                (pot, Change::Put(put)),
                (other, Change::Add(add)),
                (pot, Change::Add(1)),
            ],
        ),
    }
}

#[test]
fn no_update_of_a_column_that_is_assigned_and_incremented_is_lost() {
    let rows: Vec<_> = (0..POTS_COUNT)
        .map(|id| (0, args([id, BEGINNING, 0]).to_vec()))
        .collect();
    let options = NodeOptions {
        records: true,
        ..NodeOptions::default()
    };
    let (committed, refused) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    for seed in 0..40 {
        under_each_with(POTS, 3, &rows, options, |cluster| {
            let mut rng = Rng::with_seed(seed);
            let mut changes: BTreeMap<Timestamp, Vec<(i64, Change)>> = BTreeMap::new();
            for _ in 0..6 {
                let recorded = cluster.attempts().len();
                let mut begun = BTreeMap::new();
                for _ in 0..rng.u32(1..12) {
                    let (procedure, arguments, change) = draw(&mut rng);
                    let id = cluster.begin(rng.u16(0..3), procedure, &arguments);
                    begun.insert(id, change);
                }
                for (id, outcome) in cluster.run() {
                    if let Err(error) = outcome.result {
                        assert!(error.to_string().contains("not_overdrawn"), "{error}");
                        begun.remove(&id);
                        refused.set(refused.get() + 1);
                    }
                }
                for attempt in &cluster.attempts()[recorded..] {
                    let AttemptOutcome::Committed(timestamp) = attempt.outcome else {
                        continue;
                    };
                    let change = begun.remove(&attempt.call).expect("it has committed once");
                    assert!(changes.insert(timestamp, change).is_none());
                    committed.set(committed.get() + 1);
                }
                assert!(begun.is_empty(), "{begun:?} have no record of their end");
                let mut pots = vec![vec![BEGINNING, 0]; POTS_COUNT as usize];
                for (pot, change) in changes.values().flatten() {
                    let pot = &mut pots[*pot as usize];
                    pot[1] += 1;
                    let amount = &mut pot[0];
                    match change {
                        Change::Put(to) => *amount = *to,
                        Change::Add(by) => *amount += by,
                    }
                    assert!(*amount >= 0, "seed {seed}: overdrawn on the way");
                }
                let seen = cluster.ints(0, "SELECT amount, calls FROM pots ORDER BY id");
                assert_eq!(seen, pots, "seed {seed}: {changes:?}");
            }
        });
    }
    let (committed, refused) = (committed.get(), refused.get());
    assert!(committed > 500 && refused > 50, "{committed}, {refused}");
}
