//! One schema and its calls, over one node and over several, under each protocol.

use std::collections::BTreeMap;

use anabranch_engine::routing::Target;
use anabranch_engine::{AttemptOutcome, AttemptRecord, CallError, NodeOptions};
use anabranch_types::{Fetched, Key, PartitionId, Read, TableId, Timestamp, Value};

use crate::support::{Cluster, args, ints, plan, under_each, under_each_with};

/// Accounts by number, some with a friend, and a procedure for each test below.
const ACCOUNTS: &str = "
CREATE TABLE accounts (
    id integer PRIMARY KEY,
    owner integer NOT NULL,
    balance integer NOT NULL,
    CONSTRAINT solvent CHECK (balance >= 0)
);
CREATE INDEX accounts_by_owner ON accounts (owner);
CREATE TABLE cards (
    id integer PRIMARY KEY,
    account_id integer NOT NULL,
    CONSTRAINT cards_account FOREIGN KEY (account_id) REFERENCES accounts (id)
);

CREATE PROCEDURE open_account(p_id integer, p_owner integer, p_balance integer)
LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO accounts (id, owner, balance) VALUES (p_id, p_owner, p_balance);
END;

CREATE PROCEDURE open_card(p_id integer, p_account integer)
LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO cards (id, account_id) VALUES (p_id, p_account);
END;

CREATE PROCEDURE transfer(p_from integer, p_to integer, p_amount integer)
LANGUAGE SQL BEGIN ATOMIC
    UPDATE accounts SET balance = balance - p_amount WHERE id = p_from;
    UPDATE accounts SET balance = balance + p_amount WHERE id = p_to;
END;

CREATE PROCEDURE open_and_refuse(p_id integer)
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO accounts (id, owner, balance) VALUES (p_id, 1, 1);
    UPDATE accounts SET balance = balance + 5 WHERE id = 1;
    RAISE EXCEPTION 'no account today' USING ERRCODE = 'APP01';
END;
$$;

-- Own writes, then every way to read them again.
CREATE FUNCTION own_writes(OUT by_key integer, OUT ranged bigint, OUT by_owner bigint,
                           OUT smallest integer, OUT gone bigint)
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO accounts (id, owner, balance) VALUES (10, 7, 100);
    UPDATE accounts SET balance = balance + 1, owner = 7 WHERE id = 2;
    DELETE FROM accounts WHERE id = 1;
    SELECT balance INTO by_key FROM accounts WHERE id = 10;
    SELECT sum(balance) INTO ranged FROM accounts WHERE id BETWEEN 1 AND 20;
    SELECT count(*) INTO by_owner FROM accounts WHERE owner = 7;
    SELECT id INTO smallest FROM accounts ORDER BY id LIMIT 1;
    SELECT count(*) INTO gone FROM accounts WHERE id = 1;
END;
$$;
";

fn account(id: i64, owner: i64, balance: i64) -> (u16, Vec<Value>) {
    (0, args([id, owner, balance]).to_vec())
}

const ALL: &str = "SELECT id, owner, balance FROM accounts ORDER BY id";

#[track_caller]
fn failure(answer: Result<Vec<Vec<Value>>, CallError>) -> anabranch_types::EffectError {
    match answer {
        Err(CallError::Failed(error)) => error,
        other => panic!("it should fail: {other:?}"),
    }
}

#[test]
fn a_call_changes_what_later_calls_see_at_any_node() {
    for partitions in 1..=3 {
        let rows = [account(1, 5, 50), account(2, 5, 20)];
        under_each(ACCOUNTS, partitions, &rows, |cluster| {
            let other = partitions - 1;
            cluster.call(0, "open_account", &args([3, 6, 7])).unwrap();
            cluster.call(other, "transfer", &args([1, 2, 30])).unwrap();
            let all = cluster.ints(other, ALL);
            assert_eq!(all, [[1, 5, 20], [2, 5, 50], [3, 6, 7]]);
        });
    }
}

#[test]
fn own_writes_are_seen_by_later_reads() {
    for partitions in 1..=2 {
        let rows = [account(1, 7, 50), account(2, 5, 20), account(3, 5, 30)];
        under_each(ACCOUNTS, partitions, &rows, |cluster| {
            let answer = cluster.call(0, "own_writes", &[]).unwrap();
            // Accounts 2, 3 and 10 remain: 21 + 30 + 100; 2 and 10 belong to 7.
            assert_eq!(ints(&answer), [[100, 151, 2, 2, 0]]);
            let all = cluster.ints(0, ALL);
            assert_eq!(all, [[2, 7, 21], [3, 5, 30], [10, 7, 100]]);
        });
    }
}

#[test]
fn an_exception_leaves_no_trace() {
    for partitions in 1..=2 {
        under_each(ACCOUNTS, partitions, &[account(1, 5, 50)], |cluster| {
            let error = failure(cluster.call(0, "open_and_refuse", &args([2])));
            assert_eq!(
                (error.code, error.message.as_str()),
                ("APP01", "no account today")
            );
            assert_eq!(cluster.ints(0, ALL), [[1, 5, 50]]);
        });
    }
}

#[test]
fn a_violated_constraint_is_named_and_nothing_is_done() {
    for partitions in 1..=2 {
        let rows = [account(1, 5, 50), account(2, 5, 20)];
        under_each(ACCOUNTS, partitions, &rows, |cluster| {
            let violations: [(&str, &[Value], &str, &str); 4] = [
                ("open_account", &args([1, 6, 7]), "23505", "accounts_pkey"),
                ("open_account", &args([3, 6, -7]), "23514", "solvent"),
                ("transfer", &args([1, 2, 51]), "23514", "solvent"),
                ("open_card", &args([1, 3]), "23503", "cards_account"),
            ];
            for (procedure, arguments, code, constraint) in violations {
                let error = failure(cluster.call(0, procedure, arguments));
                assert_eq!(error.code, code, "{procedure}: {error:?}");
                assert_eq!(error.constraint.as_deref(), Some(constraint), "{error:?}");
            }
            assert_eq!(cluster.ints(0, ALL), [[1, 5, 50], [2, 5, 20]]);
            let cards = cluster.ints(0, "SELECT id, account_id FROM cards");
            assert!(cards.is_empty(), "{cards:?}");
            cluster.call(0, "open_card", &args([1, 2])).unwrap();
        });
    }
}

#[test]
fn ranges_over_partitions_come_in_order_whatever_their_direction_and_limit() {
    let rows: Vec<_> = (1..=20).map(|id| account(id, id % 2, 1)).collect();
    for partitions in 1..=3 {
        under_each(ACCOUNTS, partitions, &rows, |cluster| {
            let ids = |cluster: &mut dyn Cluster, rest: &str| -> Vec<i64> {
                let sql = format!("SELECT id FROM accounts {rest}");
                cluster.ints(0, &sql).concat()
            };
            assert_eq!(ids(cluster, "ORDER BY id"), (1..=20).collect::<Vec<_>>());
            assert_eq!(ids(cluster, "ORDER BY id LIMIT 3"), [1, 2, 3]);
            assert_eq!(ids(cluster, "ORDER BY id DESC LIMIT 4"), [20, 19, 18, 17]);
            assert_eq!(ids(cluster, "WHERE id > 5 ORDER BY id LIMIT 2"), [6, 7]);
            let odd = ids(cluster, "WHERE owner = 1 ORDER BY id DESC LIMIT 2");
            assert_eq!(odd, [19, 17]);
        });
    }
}

/// Own writes beside rows that were there, read from the end.
const BACKWARDS: &str = "
CREATE TABLE accounts (
    id integer PRIMARY KEY,
    owner integer NOT NULL,
    balance integer NOT NULL
);
CREATE INDEX accounts_by_owner ON accounts (owner);
CREATE FUNCTION backwards() RETURNS TABLE (question integer, id integer)
LANGUAGE plpgsql AS $$
DECLARE
    found_id integer;
BEGIN
    INSERT INTO accounts (id, owner, balance) VALUES (12, 7, 1), (1, 9, 1), (5, 7, 1);
    UPDATE accounts SET owner = 7, balance = 3 WHERE accounts.id = 6;
    UPDATE accounts SET owner = 8 WHERE accounts.id = 10;
    DELETE FROM accounts WHERE accounts.id = 8;
    FOR found_id IN SELECT a.id FROM accounts a ORDER BY a.id DESC LIMIT 4 LOOP
        question := 1; id := found_id; RETURN NEXT;
    END LOOP;
    FOR found_id IN SELECT a.id FROM accounts a WHERE a.id < 10 ORDER BY a.id DESC LOOP
        question := 2; id := found_id; RETURN NEXT;
    END LOOP;
    FOR found_id IN
        SELECT a.id FROM accounts a WHERE a.owner = 7 ORDER BY a.owner DESC, a.id DESC LIMIT 3
    LOOP
        question := 3; id := found_id; RETURN NEXT;
    END LOOP;
    FOR found_id IN SELECT a.id FROM accounts a ORDER BY a.owner DESC LIMIT 2 LOOP
        question := 4; id := found_id; RETURN NEXT;
    END LOOP;
END;
$$;
";

#[test]
fn own_writes_are_seen_by_scans_from_the_end() {
    let rows = [2, 4, 6, 8, 10].map(|id| account(id, if id == 10 { 7 } else { 5 }, 1));
    for partitions in 1..=3 {
        under_each(BACKWARDS, partitions, &rows, |cluster| {
            let answer = ints(&cluster.call(0, "backwards", &[]).unwrap());
            let of = |question: i64| -> Vec<i64> {
                let rows = answer.iter().filter(|row| row[0] == question);
                rows.map(|row| row[1]).collect()
            };
            // There are 1 (of 9), 2 and 4 (of 5), 5, 6 and 12 (of 7), 10 (of 8).
            assert_eq!(of(1), [12, 10, 6, 5], "from the end of all");
            assert_eq!(of(2), [6, 5, 4, 2, 1], "from the end of a range");
            assert_eq!(of(3), [12, 6, 5], "from the end of an owner's");
            assert_eq!(of(4), [1, 10], "from the last owner");
        });
    }
}

/// Counters that numbers are drawn from, as TPC-C's districts.
const ORDERS: &str = "
CREATE TABLE districts (id integer PRIMARY KEY, next integer NOT NULL);
CREATE TABLE orders (
    district_id integer NOT NULL, number integer NOT NULL, note integer NOT NULL,
    PRIMARY KEY (district_id, number)
);
CREATE TABLE lines (
    district_id integer NOT NULL, number integer NOT NULL, line integer NOT NULL,
    PRIMARY KEY (district_id, number, line),
    CONSTRAINT lines_order FOREIGN KEY (district_id, number)
        REFERENCES orders (district_id, number)
);
CREATE ASSERTION no_gap CHECK (
    NOT EXISTS (SELECT * FROM districts
                WHERE next - 1 <> (SELECT coalesce(max(number), 0) FROM orders
                                   WHERE district_id = districts.id))
);
CREATE FUNCTION place(p_district integer, p_note integer, OUT p_number integer)
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE districts SET next = next + 1 WHERE id = p_district
    RETURNING next - 1 INTO p_number;
    INSERT INTO orders (district_id, number, note) VALUES (p_district, p_number, p_note);
    INSERT INTO lines (district_id, number, line) VALUES (p_district, p_number, 1);
END;
$$;
";

#[test]
fn numbers_are_given_once_and_without_gap() {
    for partitions in 1..=2 {
        let rows = [(0, args([1, 1]).to_vec()), (0, args([2, 1]).to_vec())];
        under_each(ORDERS, partitions, &rows, |cluster| {
            for note in 0..60 {
                let node = note as u16 % partitions;
                cluster.begin(node, "place", &args([1 + note / 2 % 2, note]));
            }
            let mut given: Vec<i64> = Vec::new();
            for outcome in cluster.run().into_values() {
                let result = outcome.result.expect("nothing stands against it");
                given.extend(ints(&result.rows).concat());
            }
            given.sort_unstable();
            let twice: Vec<i64> = (1..=30).flat_map(|number| [number, number]).collect();
            assert_eq!(given, twice, "each of two districts gives 1 to 30 once");
            let sql = "SELECT id, next FROM districts ORDER BY id";
            assert_eq!(cluster.ints(0, sql), [[1, 31], [2, 31]]);
            let sql = "SELECT district_id, count(*) FROM lines GROUP BY district_id ORDER BY 1";
            assert_eq!(cluster.ints(0, sql), [[1, 30], [2, 30]]);
        });
    }
}

#[test]
fn a_deferred_update_that_finds_no_row_is_run_again_without_deferral() {
    for partitions in 1..=2 {
        under_each(ORDERS, partitions, &[], |cluster| {
            let outcome = cluster.outcome(0, "place", &args([1, 0]));
            assert!(outcome.retries.row_missing <= 1, "{:?}", outcome.retries);
            // PostgreSQL: no row, so the number is NULL, which an order may not have.
            let error = failure(outcome.result.map(|result| result.rows));
            assert_eq!(error.code, "23502", "{error:?}");
            assert!(cluster.ints(0, "SELECT number FROM orders").is_empty());
        });
    }
}

/// A log without a primary key, as TPC-C's history.
const LOG: &str = "
CREATE TABLE log (site integer NOT NULL, kind integer NOT NULL, amount integer NOT NULL);
CREATE INDEX log_by_site ON log (site, kind);
CREATE TABLE rates (kind integer PRIMARY KEY, rate integer NOT NULL);
CREATE PROCEDURE note(p_site integer, p_kind integer, p_amount integer)
LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO log (site, kind, amount)
    SELECT p_site, p_kind, p_amount * rate FROM rates WHERE kind = p_kind;
END;
CREATE FUNCTION site_total(p_site integer, OUT total bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT coalesce(sum(amount), 0) INTO total FROM log WHERE site = p_site;
END;
$$;
CREATE PROCEDURE correct(p_kind integer, p_by integer)
LANGUAGE SQL BEGIN ATOMIC
    UPDATE log SET amount = amount + p_by WHERE kind = p_kind;
END;
CREATE PROCEDURE forget(p_kind integer)
LANGUAGE SQL BEGIN ATOMIC
    DELETE FROM log WHERE kind = p_kind;
END;
";

#[test]
fn rows_without_a_key_live_on_every_partition() {
    let rows = [(1, args([1, 10]).to_vec()), (1, args([2, 100]).to_vec())];
    for partitions in 1..=3 {
        under_each(LOG, partitions, &rows, |cluster| {
            for site in 1..=4 {
                let node = site as u16 % partitions;
                cluster.call(node, "note", &args([site, 1, site])).unwrap();
                cluster.call(0, "note", &args([site, 2, site])).unwrap();
                // The same row twice is two rows.
                cluster.call(0, "note", &args([site, 2, site])).unwrap();
            }
            let total = |cluster: &mut dyn Cluster, site: i64| {
                ints(&cluster.call(0, "site_total", &args([site])).unwrap())[0][0]
            };
            assert_eq!(total(cluster, 3), 630);
            cluster.call(0, "correct", &args([2, 1])).unwrap();
            assert_eq!(total(cluster, 3), 632);
            cluster.call(0, "forget", &args([2])).unwrap();
            assert_eq!(total(cluster, 3), 30);
            let left = cluster.ints(0, "SELECT site, kind FROM log ORDER BY site");
            assert_eq!(left, [[1, 1], [2, 1], [3, 1], [4, 1]]);
        });
    }
}

#[test]
fn a_table_on_every_partition_refuses_writes() {
    let rows = [(1, args([1, 10]).to_vec())];
    under_each(LOG, 2, &rows, |cluster| {
        let sql = "INSERT INTO rates (kind, rate) VALUES (3, 1)";
        let error = failure(cluster.statement(1, sql));
        assert_eq!(error.code, "0A000");
        assert!(error.message.contains("\"rates\""), "{}", error.message);
        assert_eq!(cluster.ints(1, "SELECT kind, rate FROM rates"), [[1, 10]]);
    });
}

#[test]
fn concurrent_updates_are_all_made() {
    for partitions in 1..=2 {
        let rows = [account(1, 5, 1_000), account(2, 5, 1_000)];
        under_each(ACCOUNTS, partitions, &rows, |cluster| {
            for call in 0..40 {
                let (from, to) = if call % 4 < 2 { (1, 2) } else { (2, 1) };
                let node = call as u16 % partitions;
                cluster.begin(node, "transfer", &args([from, to, 1 + call % 4]));
            }
            for outcome in cluster.run().into_values() {
                assert!(outcome.result.is_ok(), "{outcome:?}");
            }
            // Ten calls each of 1 and 2 one way, of 3 and 4 the other.
            assert_eq!(cluster.ints(0, ALL), [[1, 5, 1_040], [2, 5, 960]]);
        });
    }
}

#[test]
fn a_call_that_conflicts_too_often_fails() {
    let rows = [account(1, 5, 1_000), account(2, 5, 1_000)];
    let options = NodeOptions {
        attempts_max: 1,
        ..NodeOptions::default()
    };
    let given_up = std::cell::Cell::new(0);
    under_each_with(ACCOUNTS, 2, &rows, options, |cluster| {
        for call in 0..40 {
            let (from, to) = if call % 4 < 2 { (1, 2) } else { (2, 1) };
            cluster.begin(call as u16 % 2, "transfer", &args([from, to, 1]));
        }
        for outcome in cluster.run().into_values() {
            match outcome.result {
                Ok(_) => assert_eq!(outcome.retries.total(), 0),
                Err(error) => {
                    assert!(error.is_retryable(), "{error}");
                    assert_eq!(outcome.retries.total(), 1);
                    given_up.set(given_up.get() + 1);
                }
            }
        }
        // Failed calls have no effects.
        let sum = "SELECT sum(balance) FROM accounts";
        assert_eq!(cluster.ints(0, sum), [[2_000]]);
    });
    assert!(given_up.get() > 0, "no call conflicted");
}

/// The writers of the versions that an attempt read, by account.
fn versions_read(attempt: &AttemptRecord) -> BTreeMap<Key, Timestamp> {
    let mut versions = BTreeMap::new();
    for read in &attempt.reads {
        let Fetched::Recorded(recorded) = &read.fetched else {
            panic!("{:?} has no recorded version", read.fetched);
        };
        match (&read.read, &recorded.answer) {
            (Read::Point { key, .. }, Fetched::Point(_)) => {
                versions.extend(recorded.versions.first().map(|of| (key.clone(), *of)));
            }
            (_, Fetched::Range(rows)) => {
                assert_eq!(rows.len(), recorded.versions.len());
                let keys = rows.iter().map(|(key, _)| key.clone());
                versions.extend(keys.zip(recorded.versions.iter().copied()));
            }
            other => panic!("{other:?}"),
        }
    }
    versions
}

#[test]
fn a_recording_node_records_the_versions_read() {
    let rows = [account(1, 5, 50), account(2, 5, 20), account(3, 5, 1)];
    let options = NodeOptions {
        records: true,
        ..NodeOptions::default()
    };
    under_each_with(ACCOUNTS, 2, &rows, options, |cluster| {
        cluster.call(0, "transfer", &args([1, 2, 30])).unwrap();
        cluster.call(1, "transfer", &args([2, 3, 5])).unwrap();
        cluster.ints(0, ALL);
        let attempts = cluster.attempts();
        assert_eq!(attempts.len(), 3);
        let committed: Vec<Timestamp> = attempts
            .iter()
            .map(|attempt| match attempt.outcome {
                AttemptOutcome::Committed(timestamp) => timestamp,
                ref other => panic!("{other:?}"),
            })
            .collect();
        assert!(
            attempts[0]
                .effects
                .iter()
                .any(|part| !part.effects.is_empty())
        );
        let read: Vec<Timestamp> = versions_read(&attempts[2]).into_values().collect();
        assert_eq!(read, [committed[0], committed[1], committed[1]]);
    });
}

#[test]
fn a_node_that_does_not_record_gathers_nothing() {
    let rows = [account(1, 5, 50), account(2, 5, 20)];
    under_each(ACCOUNTS, 2, &rows, |cluster| {
        cluster.call(0, "transfer", &args([1, 2, 30])).unwrap();
        assert!(cluster.attempts().is_empty());
    });
}

/// Customers of branches, found by name.
const BRANCHES: &str = "
CREATE TABLE customers (
    branch integer NOT NULL,
    id integer NOT NULL,
    name integer NOT NULL,
    balance integer NOT NULL,
    PRIMARY KEY (branch, id)
);
CREATE INDEX customers_by_name ON customers (branch, name);

-- Reads alone: nothing is a guard.
CREATE FUNCTION second_of(p_branch integer, p_name integer,
                          OUT namesakes bigint, OUT second integer, OUT amount integer)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT count(*) INTO namesakes FROM customers WHERE branch = p_branch AND name = p_name;
    SELECT id INTO second FROM customers WHERE branch = p_branch AND name = p_name
    ORDER BY id LIMIT 1 OFFSET 1;
    SELECT balance INTO amount FROM customers WHERE branch = p_branch AND id = second;
END;
$$;

CREATE FUNCTION first_of(p_branch integer, p_name integer, OUT first integer, OUT namesakes bigint)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT id INTO first FROM customers WHERE branch = p_branch AND name = p_name
    ORDER BY id LIMIT 1;
    SELECT count(*) INTO namesakes FROM customers WHERE branch = p_branch AND name = p_name;
END;
$$;

-- What is counted before a row comes is a guard.
CREATE FUNCTION add(p_branch integer, p_name integer, p_id integer,
                    OUT before bigint, OUT after bigint)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT count(*) INTO before FROM customers WHERE branch = p_branch AND name = p_name;
    INSERT INTO customers (branch, id, name, balance) VALUES (p_branch, p_id, p_name, 0);
    SELECT count(*) INTO after FROM customers WHERE branch = p_branch AND name = p_name;
END;
$$;
";

/// At the own partition, where a read is a function call, each read is made. A range of another partition is
/// requested once, unless the answer was limited or is a guard.
#[test]
fn another_partition_is_asked_for_a_range_once() {
    let customer = |id, name, balance| (0, args([1, id, name, balance]).to_vec());
    let rows = [
        customer(1, 5, 10),
        customer(2, 6, 20),
        customer(3, 5, 30),
        customer(4, 5, 40),
    ];
    let options = NodeOptions {
        records: true,
        ..NodeOptions::default()
    };
    under_each_with(BRANCHES, 2, &rows, options, |cluster| {
        let mut reads = |node, function: &str, arguments: &[i64], expected: &[i64]| {
            let arguments: Vec<Value> = arguments.iter().map(|int| Value::Int(*int)).collect();
            let answer = cluster.call(node, function, &arguments).unwrap();
            assert_eq!(ints(&answer), [expected]);
            cluster.attempts().last().expect("it records").reads.len()
        };
        let (home, elsewhere) = (1, 0);
        assert_eq!(reads(home, "second_of", &[1, 5], &[3, 3, 30]), 3);
        assert_eq!(reads(elsewhere, "second_of", &[1, 5], &[3, 3, 30]), 1);
        assert_eq!(reads(home, "first_of", &[1, 5], &[1, 3]), 2);
        assert_eq!(reads(elsewhere, "first_of", &[1, 5], &[1, 3]), 2);
        assert_eq!(reads(home, "add", &[1, 5, 8], &[3, 4]), 2);
        assert_eq!(reads(elsewhere, "add", &[1, 5, 9], &[4, 5]), 2);
    });
}

/// Boxes by name and parcels by number: each type's routing parameter is the second.
const PLACED: &str = "
CREATE TABLE boxes (name text PRIMARY KEY, parcels integer NOT NULL);
CREATE TABLE parcels (id bigint PRIMARY KEY, weight integer NOT NULL);
CREATE PROCEDURE fill_box(p_parcels integer, p_name text)
LANGUAGE SQL BEGIN ATOMIC
    UPDATE boxes SET parcels = parcels + p_parcels WHERE name = p_name;
END;
CREATE PROCEDURE weigh(p_weight integer, p_id integer)
LANGUAGE SQL BEGIN ATOMIC
    UPDATE parcels SET weight = p_weight WHERE id = p_id;
END;
CREATE FUNCTION weights(p_ids integer[]) RETURNS SETOF integer
LANGUAGE SQL STABLE BEGIN ATOMIC
    SELECT weight FROM parcels WHERE id = ANY (p_ids);
END;
CREATE PROCEDURE clear()
LANGUAGE SQL BEGIN ATOMIC
    DELETE FROM parcels;
END;
";

#[test]
fn a_call_belongs_where_the_plan_routes_it() {
    let partitions = 3;
    let planned = plan(PLACED, partitions);
    let execution = &planned.execution;
    let row_at = |table: u16, values: &[Value]| {
        let layout = &planned.schema().table(TableId(table)).layout;
        let row = layout.encode(values).expect("short");
        match execution.router.row(TableId(table), &row) {
            Target::One(partition) => Some(partition),
            other => panic!("{other:?}"),
        }
    };
    let mut seen = std::collections::BTreeSet::new();
    for number in -20i64..20 {
        let name = Value::text(format!("box {number}"));
        let of_box = execution.home(0, &[Value::Int(1), name.clone()], 0);
        assert_eq!(of_box, row_at(0, &[name, Value::Int(0)]));
        let of_parcel = execution.home(1, &[Value::Int(1), Value::Int(number)], 0);
        assert_eq!(of_parcel, row_at(1, &[Value::Int(number), Value::Int(0)]));
        seen.extend(of_box);
    }
    assert_eq!(seen.len(), usize::from(partitions));
    assert_eq!(execution.home(0, &[Value::Int(1), Value::Null], 0), None);
    assert_eq!(execution.home(3, &[], 0), None);
    let in_turn = |ids: &[i64], turn| {
        let elements = ids.iter().map(|id| match id {
            -1 => Value::Null,
            id => Value::Int(*id),
        });
        execution.home(2, &[Value::Array(elements.collect())], turn)
    };
    let of_all = |ids: &[i64]| in_turn(ids, 0);
    // Numbers modulo three: the partition of most of them, and none without elements.
    assert_eq!(of_all(&[0, 1, 4, 2]), Some(PartitionId(1)));
    assert_eq!(of_all(&[2, 1, 4, 5]), Some(PartitionId(2)));
    assert_eq!(of_all(&[-1, -1, 1]), Some(PartitionId(1)));
    // Partitions with equal shares take turns.
    let turns = [0, 1, 2, 3].map(|turn| in_turn(&[4, 2, 1, 5, 3], turn));
    assert_eq!(turns, [1, 2, 1, 2].map(|one| Some(PartitionId(one))));
    assert_eq!(of_all(&[]), None);
    assert_eq!(of_all(&[-1]), None);
    assert_eq!(execution.home(2, &[Value::Null], 0), None);
    // Of a long list only the first elements count.
    let long: Vec<i64> = (0..1_000).map(|n| if n < 16 { 3 } else { 1 }).collect();
    assert_eq!(of_all(&long), Some(PartitionId(0)));
}
