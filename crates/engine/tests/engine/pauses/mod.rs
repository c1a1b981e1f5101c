//! Statements and procedures that compute for long pause: other calls go on meanwhile, and a cancel ends them.

use anabranch_engine::{Call, CallError, CallId, NodeOptions, TransactionLimits, Work};
use anabranch_types::Value;
use std::sync::Arc;

use crate::support::{Cluster, args, under_each, under_each_with};

const THINGS: &str = "
CREATE TABLE things (id integer PRIMARY KEY, amount integer NOT NULL);
CREATE TABLE parts (id integer PRIMARY KEY);
CREATE PROCEDURE touch(p_id integer) LANGUAGE SQL BEGIN ATOMIC
    UPDATE things SET amount = amount + 1 WHERE id = p_id;
END;
CREATE PROCEDURE add_part(p_id integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO parts (id) VALUES (p_id);
END;
CREATE FUNCTION whiles(p_rounds integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE n integer := 0;
BEGIN
    UPDATE things SET amount = 100 WHERE id = 2;
    WHILE n < p_rounds LOOP n := n + 1; END LOOP;
    RETURN n;
END $$;
CREATE FUNCTION fors(p_rounds integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE n integer := 0;
BEGIN
    FOR i IN 1..p_rounds LOOP n := n + 1; END LOOP;
    RETURN n;
END $$;
CREATE FUNCTION grows(p_rounds integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE word text := 'x';
BEGIN
    FOR i IN 1..p_rounds LOOP word := word || word; END LOOP;
    RETURN length(word);
END $$;
";

fn things() -> Vec<(u16, Vec<Value>)> {
    let things = (1..=4).map(|id| (0, args([id, 0]).to_vec()));
    let parts = (1..=4).map(|id| (1, args([id]).to_vec()));
    things.chain(parts).collect()
}

fn begin_statement(cluster: &mut dyn Cluster, sql: &str) -> CallId {
    let statement = cluster.planned().application.statement(sql);
    let statement = statement.unwrap_or_else(|problems| panic!("{sql}: {problems:?}"));
    let call = Call::new(CallId(0), Work::statement(Arc::new(statement)), []);
    cluster.submit_call(0, call)
}

/// Queries that run for minutes and longer if nothing stops them, one for each kind of step.
const ENDLESS: [&str; 9] = [
    "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b",
    "SELECT sum(a + b) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b WHERE a <> b",
    "SELECT a % 3, count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b GROUP BY a % 3",
    "SELECT count(*) FROM parts, generate_series(1, 1000000) a, generate_series(1, 1000) b, parts c
     WHERE a + b < 0",
    "SELECT count(*) FROM generate_series(1, 1000000) a LEFT JOIN generate_series(1, 1000000) b ON a + b < 0",
    "SELECT count(*) FROM generate_series(1, 1000000) a
     WHERE a > ALL (SELECT -b FROM generate_series(1, 1000000) b)",
    "SELECT count(*) FROM generate_series(1, 1000000) a
     WHERE (SELECT count(*) FROM generate_series(1, 1000000) b WHERE b < a) < 0",
    "SELECT count(*) FROM (SELECT g % 2 AS k FROM generate_series(1, 1000000) g) a
     JOIN (SELECT g % 2 AS k FROM generate_series(1, 1000000) g) b ON a.k = b.k",
    "SELECT count(*) FROM generate_series(1, 1000000) a WHERE length(repeat('x', 60000000 + a % 2)) = 1",
];

#[test]
fn an_endless_query_lets_others_run_and_is_cancelled() {
    for sql in ENDLESS {
        under_each(THINGS, 1, &things(), |cluster| {
            let endless = begin_statement(cluster, sql);
            let mut done = Vec::new();
            for id in 1..=4 {
                done.push(cluster.begin(0, "touch", &args([id])));
            }
            let mut ended = 0;
            for _ in 0..200 {
                assert!(cluster.advance());
                let outcomes = cluster.take_outcomes();
                assert!(!outcomes.contains_key(&endless), "{sql} has an end");
                ended += outcomes.len();
                if ended == done.len() {
                    break;
                }
            }
            assert_eq!(ended, done.len(), "others wait for {sql}");
            cluster.cancel(0, endless);
            let outcome = cluster.run().remove(&endless).expect("it has ended");
            assert_eq!(outcome.result.map(|_| ()), Err(CallError::Cancelled));
            cluster.assert_idle();
            assert_eq!(cluster.ints(0, "SELECT sum(amount) FROM things"), [[4]]);
        });
    }
}

/// Each of these computes a hundred thousand tuples and more, in one step of its own kind.
const LONG: [&str; 6] = [
    "SELECT count(*) FROM generate_series(1, 400) a, generate_series(1, 400) b",
    "SELECT a FROM generate_series(1, 100) a, generate_series(1, 2000) b WHERE a = b ORDER BY a",
    "SELECT max(a) FROM generate_series(1, 100000) a",
    "SELECT a FROM generate_series(1, 100000) a ORDER BY -a LIMIT 1",
    "SELECT DISTINCT a % 5 FROM generate_series(1, 100000) a",
    "INSERT INTO parts SELECT a FROM generate_series(10, 30000) a",
];

#[test]
fn a_long_statement_ends_after_a_short_one_that_comes_later() {
    for sql in LONG {
        under_each(THINGS, 1, &things(), |cluster| {
            let long = begin_statement(cluster, sql);
            assert!(cluster.take_outcomes().is_empty(), "{sql} does not pause");
            let short = cluster.begin(0, "touch", &args([1]));
            let at_once = cluster.take_outcomes();
            assert!(at_once.contains_key(&short), "a call waits for {sql}");
            let outcomes = cluster.run();
            assert!(outcomes[&long].result.is_ok(), "{:?}", outcomes[&long]);
            cluster.assert_idle();
        });
    }
}

#[test]
fn two_endless_queries_take_turns_with_others() {
    under_each(THINGS, 1, &things(), |cluster| {
        let endless = [0, 1, 4].map(|number| begin_statement(cluster, ENDLESS[number]));
        let touch = cluster.begin(0, "touch", &args([1]));
        let count = begin_statement(
            cluster,
            "SELECT count(*) FROM generate_series(1, 100) a, generate_series(1, 1000) b",
        );
        let mut outcomes = cluster.take_outcomes();
        for _ in 0..100 {
            assert!(cluster.advance());
            outcomes.append(&mut cluster.take_outcomes());
        }
        assert!(outcomes[&touch].result.is_ok());
        let rows = &outcomes[&count].result.as_ref().expect("it ends").rows;
        assert_eq!(*rows, [[Value::Int(100_000)]]);
        assert_eq!(outcomes.len(), 2);
        for call in endless {
            cluster.cancel(0, call);
        }
        let cancelled = cluster.run();
        assert_eq!(cancelled.len(), 3);
        cluster.assert_idle();
    });
}

/// A loop holds what it has written or locked while it pauses, and gives it back when it is cancelled.
#[test]
fn an_endless_loop_is_cancelled_without_a_trace() {
    for procedure in ["whiles", "fors"] {
        under_each(THINGS, 1, &things(), |cluster| {
            let endless = cluster.begin(0, procedure, &args([i64::from(i32::MAX)]));
            for _ in 0..20 {
                assert!(cluster.advance());
            }
            assert!(cluster.take_outcomes().is_empty(), "it has an end");
            let waits = cluster.begin(0, "touch", &args([2]));
            cluster.advance();
            cluster.cancel(0, endless);
            let mut outcomes = cluster.run();
            let outcome = outcomes.remove(&endless);
            if let Some(outcome) = outcome {
                assert_eq!(outcome.result.map(|_| ()), Err(CallError::Cancelled));
            }
            if let Some(outcome) = outcomes.remove(&waits) {
                assert!(outcome.result.is_ok());
            }
            cluster.assert_idle();
            let amounts = cluster.ints(0, "SELECT amount FROM things WHERE id = 2");
            assert_eq!(amounts, [[1]]);
            let rounds = cluster
                .call(0, procedure, &args([100_000]))
                .expect("it ends");
            assert_eq!(rounds, [[Value::Int(100_000)]]);
        });
    }
}

#[test]
fn a_pause_does_not_change_a_result() {
    under_each(THINGS, 2, &things(), |cluster| {
        for (sql, expected) in [
            (
                "SELECT count(*), sum(a), min(a * b), max(a * b), count(DISTINCT a)
              FROM generate_series(1, 300) a, generate_series(1, 200) b",
                vec![vec![60_000, 9_030_000, 1, 60_000, 300]],
            ),
            (
                "SELECT a % 2, count(*), count(DISTINCT b) FROM generate_series(1, 300) a
              JOIN generate_series(1, 200) b ON b <> 7 WHERE a > 1 GROUP BY a % 2 ORDER BY 1",
                vec![vec![0, 29_850, 199], vec![1, 29_651, 199]],
            ),
            (
                "SELECT a FROM generate_series(1, 100000) a ORDER BY a % 10 DESC, a DESC LIMIT 2",
                vec![vec![99_999], vec![99_989]],
            ),
            (
                "SELECT count(*) FROM (SELECT DISTINCT a % 7 FROM generate_series(1, 100000) a) b",
                vec![vec![7]],
            ),
            (
                "SELECT count(*) FROM (SELECT a FROM generate_series(1, 60000) a
              EXCEPT SELECT b * 2 FROM generate_series(1, 60000) b) c",
                vec![vec![30_000]],
            ),
            (
                "SELECT count(*), count(b) FROM generate_series(1, 40000) a
              LEFT JOIN generate_series(1, 4) b ON a = b * 2 OR a = b * 3",
                vec![vec![40_001, 8]],
            ),
            (
                "SELECT (array_agg(a ORDER BY a DESC))[2], cardinality(array_agg(a))
              FROM generate_series(1, 50000) a",
                vec![vec![49_999, 50_000]],
            ),
            (
                "SELECT count(*) FROM generate_series(1, 20000) a, unnest(ARRAY[a, a + 1]) u(b) WHERE a < b",
                vec![vec![20_000]],
            ),
            (
                "SELECT count(*) FROM generate_series(1, 0) a, generate_series(1, 100000) b",
                vec![vec![0]],
            ),
        ] {
            let rows = cluster
                .statement(0, sql)
                .unwrap_or_else(|error| panic!("{sql}: {error}"));
            let found: Vec<Vec<i64>> = rows
                .iter()
                .map(|row| row.iter().map(int).collect())
                .collect();
            assert_eq!(found, expected, "{sql}");
        }
    });
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int(int) => *int,
        Value::Numeric(decimal) => decimal.to_string().parse().expect("a whole number"),
        other => panic!("{other:?} is no number"),
    }
}

#[test]
fn a_statement_that_holds_too_much_is_refused() {
    let limits = TransactionLimits {
        statement_bytes_max: 1 << 20,
        ..TransactionLimits::default()
    };
    let options = NodeOptions {
        limits,
        ..NodeOptions::default()
    };
    for sql in [
        "SELECT count(*) FROM generate_series(1, 1000000) a",
        "SELECT a FROM generate_series(1, 10000) a, generate_series(1, 1000) b",
        "SELECT a FROM generate_series(1, 10000) a, generate_series(1, 1000) b ORDER BY b LIMIT 1",
        "SELECT a + 10000 * b FROM generate_series(1, 10000) a, generate_series(1, 1000) b GROUP BY 1",
        "SELECT count(DISTINCT a + 10000 * b) FROM generate_series(1, 10000) a, generate_series(1, 1000) b",
        "SELECT array_agg(a) FROM generate_series(1, 10000) a, generate_series(1, 1000) b",
        "SELECT string_agg('x', ',') FROM generate_series(1, 10000) a, generate_series(1, 1000) b",
        "SELECT count(*) FROM generate_series(1, 1000) a, generate_series(1, 1000 + a % 2) b",
        "SELECT repeat('x', 600000) FROM generate_series(1, 2) a",
        "SELECT count(*) FROM (SELECT repeat('x', 100) || a AS w FROM generate_series(1, 10000) a) b",
        "WITH w AS (SELECT repeat('x', 100) AS w FROM generate_series(1, 10000) a) SELECT count(*) FROM w",
        "SELECT length(concat(repeat('x', 400000 + a), repeat('y', 200000))) FROM generate_series(1, 2) a",
        "SELECT count(*) FROM (VALUES (repeat('x', 600000)), (repeat('x', 600000))) v(w)",
    ] {
        under_each_with(THINGS, 1, &things(), options, |cluster| {
            let Err(CallError::Failed(error)) = cluster.statement(0, sql) else {
                panic!("{sql} is not refused");
            };
            assert_eq!(error.code, "53200", "{sql}: {error:?}");
            assert!(error.message.contains("statement_bytes_max"), "{error:?}");
            cluster.assert_idle();
        });
    }
    // What it does not hold at once is not limited.
    for sql in [
        "SELECT count(*) FROM generate_series(1, 10000) a, generate_series(1, 100) b",
        "SELECT sum(length(repeat('x', 100000))) FROM generate_series(1, 100) a",
        "SELECT sum(b) FROM generate_series(1, 1000) a, LATERAL (SELECT count(*) AS b FROM generate_series(1, 1000) c) d",
        "SELECT count(*) FROM generate_series(1, 100) a WHERE a < (SELECT count(*) FROM generate_series(1, 9999) b)",
    ] {
        under_each_with(THINGS, 1, &things(), options, |cluster| {
            cluster
                .statement(0, sql)
                .unwrap_or_else(|error| panic!("{sql}: {error}"));
        });
    }
}

#[test]
fn a_value_that_is_too_large_is_refused() {
    under_each(THINGS, 1, &things(), |cluster| {
        for sql in [
            "SELECT repeat('x', 1000000000)",
            "SELECT lpad('x', 1000000000)",
            "SELECT rpad('x', 60000000, 'é')",
            "SELECT replace(repeat('x', 10000), 'x', repeat('y', 10000))",
            "SELECT repeat('x', 40000000) || repeat('x', 40000000)",
            "SELECT concat(repeat('x', 40000000), repeat('x', 40000000))",
            "SELECT string_agg(repeat('x', 1000000), '') FROM generate_series(1, 100) a",
            "SELECT array(SELECT a FROM generate_series(1, 2900000) a)",
        ] {
            let Err(CallError::Failed(error)) = cluster.statement(0, sql) else {
                panic!("{sql} is not refused");
            };
            assert_eq!(error.code, "54000", "{sql}: {error:?}");
        }
        let Err(CallError::Failed(error)) = cluster.call(0, "grows", &args([40])) else {
            panic!("a word grows without end");
        };
        assert_eq!(error.code, "54000", "{error:?}");
        cluster.assert_idle();
    });
}
