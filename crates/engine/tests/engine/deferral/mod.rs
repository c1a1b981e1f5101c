//! UPDATEs whose row is read first and that the row's owner then evaluates: their result is used, and the row
//! is not locked in between.

use anabranch_engine::{AttemptOutcome, NodeOptions};
use anabranch_types::{Effect, TableId, Value};

use crate::support::{args, under_each, under_each_with};

const SHOP: &str = "
CREATE TABLE goods (id integer PRIMARY KEY, kind integer NOT NULL, sold integer NOT NULL);
CREATE TABLE kinds (kind integer PRIMARY KEY, total integer NOT NULL);

CREATE PROCEDURE sell(p_id integer, p_count integer) LANGUAGE plpgsql AS $$
DECLARE
    k integer;
BEGIN
    UPDATE goods SET sold = sold + p_count WHERE id = p_id RETURNING kind INTO k;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no goods %', p_id USING ERRCODE = 'APP02';
    END IF;
    UPDATE kinds SET total = total + p_count WHERE kind = k;
END;
$$;
";

/// Procedures that take goods away, and one that depends on how many were sold.
const CLEAR: &str = "
CREATE PROCEDURE clear(p_id integer) LANGUAGE plpgsql AS $$
DECLARE
    k integer;
    n integer;
BEGIN
    DELETE FROM goods WHERE id = p_id RETURNING kind, sold INTO k, n;
    UPDATE kinds SET total = total - n WHERE kind = k;
END;
$$;
";

fn rows() -> Vec<(u16, Vec<Value>)> {
    vec![
        (0, args([1, 7, 0]).to_vec()),
        (0, args([2, 7, 0]).to_vec()),
        (1, args([7, 0]).to_vec()),
    ]
}

#[test]
fn the_result_is_used_and_the_row_is_not_locked() {
    for partitions in 1..=3 {
        let options = NodeOptions {
            records: true,
            ..NodeOptions::default()
        };
        under_each_with(SHOP, partitions, &rows(), options, |cluster| {
            let entry = &cluster.planned().plan.entries[0];
            assert!(entry.guards.is_empty(), "{:?}", entry.guards);
            assert_eq!(entry.deferred.len(), 2);
            for count in 1..=10 {
                let node = count as u16 % partitions;
                cluster.begin(node, "sell", &args([1, count]));
            }
            let outcomes = cluster.run();
            assert!(outcomes.values().all(|outcome| outcome.result.is_ok()));
            let goods = "SELECT sold FROM goods ORDER BY id";
            assert_eq!(cluster.ints(0, goods), [[55], [0]]);
            assert_eq!(cluster.ints(0, "SELECT total FROM kinds"), [[55]]);
            let committed = cluster
                .attempts()
                .iter()
                .filter(|attempt| matches!(attempt.outcome, AttemptOutcome::Committed { .. }));
            // The effects have the amount added, and not the row's new value.
            let written: Vec<&Effect> = committed
                .flat_map(|attempt| &attempt.effects)
                .flat_map(|on| &on.effects)
                .collect();
            assert_eq!(written.len(), 20);
            let small = |value: &Value| matches!(value, Value::Int(1..=10));
            assert!(written.iter().all(
                |effect| matches!(effect, Effect::Update { arguments, .. } if arguments.iter().all(small))
            ));
            // A row that was found has to exist when the UPDATE is evaluated, and no more. Whether guards
            // ensure that as well depends on the plan.
            let goods = written.iter().filter(|effect| effect.table() == TableId(0));
            let must_be_there = |effect: &&Effect| matches!(effect, Effect::Update { outputs, .. } if outputs.is_some());
            assert_eq!(goods.clone().count(), 10);
            assert!(goods.copied().all(|effect| must_be_there(&effect)));
            assert_eq!(written.iter().copied().filter(must_be_there).count(), 10);
        });
    }
}

/// The same without RETURNING, where a procedure only checks FOUND.
#[test]
fn a_row_that_was_found_has_to_be_there() {
    let sql = "
        CREATE TABLE goods (id integer PRIMARY KEY, sold integer NOT NULL);
        CREATE PROCEDURE sell(p_id integer, p_count integer) LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE goods SET sold = sold + p_count WHERE id = p_id;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'no goods %', p_id USING ERRCODE = 'APP02';
            END IF;
        END;
        $$;";
    let rows = [(0, args([1, 0]).to_vec())];
    for partitions in 1..=2 {
        let options = NodeOptions {
            records: true,
            ..NodeOptions::default()
        };
        under_each_with(sql, partitions, &rows, options, |cluster| {
            assert_eq!(cluster.planned().plan.entries[0].deferred.len(), 1);
            for node in 0..partitions {
                cluster.begin(node, "sell", &args([1, 3]));
            }
            assert!(cluster.run().values().all(|outcome| outcome.result.is_ok()));
            let attempts = cluster.attempts().iter();
            let effects = attempts
                .flat_map(|attempt| &attempt.effects)
                .flat_map(|on| &on.effects);
            let effects: Vec<&Effect> = effects.collect();
            assert!(effects.len() >= usize::from(partitions));
            for effect in effects {
                assert!(
                    matches!(effect, Effect::Update { outputs, .. } if outputs.is_some()),
                    "{effect:?}"
                );
            }
        });
    }
}

#[test]
fn a_row_that_is_not_there_is_not_found() {
    for partitions in 1..=2 {
        under_each(SHOP, partitions, &rows(), |cluster| {
            let Err(anabranch_engine::CallError::Failed(error)) =
                cluster.call(0, "sell", &args([3, 1]))
            else {
                panic!("there are no such goods");
            };
            assert_eq!((error.code, &*error.message), ("APP02", "no goods 3"));
            assert_eq!(cluster.ints(0, "SELECT total FROM kinds"), [[0]]);
        });
    }
}

/// If a row is deleted between the read and the commit, its sale fails: the total is that of the remaining
/// goods, in either order.
#[test]
fn a_row_that_goes_in_between_is_noticed() {
    let sql = format!("{SHOP}{CLEAR}");
    // A call that clears the goods at their node commits before the others sell what they have read.
    let places = (1..=3).flat_map(|partitions| (0..partitions).map(move |at| (partitions, at)));
    for (partitions, at) in places {
        under_each(&sql, partitions, &rows(), |cluster| {
            for id in [1, 2] {
                for round in 0..6 {
                    cluster.begin(round % partitions, "sell", &args([id, 3]));
                    if round == id as u16 {
                        cluster.begin(at, "clear", &args([id]));
                    }
                }
            }
            cluster.run();
            let left: i64 = cluster
                .ints(0, "SELECT sold FROM goods")
                .iter()
                .map(|row| row[0])
                .sum();
            assert_eq!(cluster.ints(0, "SELECT total FROM kinds"), [[left]]);
        });
    }
}
