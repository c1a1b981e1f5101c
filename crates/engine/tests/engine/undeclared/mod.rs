//! Statements of clients that write, beside declared types and under their plan.

use std::cell::Cell;
use std::collections::BTreeMap;

use anabranch_analysis::Options;
use anabranch_engine::{CallError, CallId, NodeOptions, Refusal, UndeclaredTypes};
use anabranch_types::Value;
use fastrand::Rng;

use crate::support::{Answer, Cluster, args, under_each, under_each_with};

/// A hotel whose rooms hold three guests at most, and in which someone works. No declared type writes prices, removes
/// accounts or takes money from them.
const HOTEL: &str = "
CREATE TABLE staff (id integer PRIMARY KEY, shift integer NOT NULL);
CREATE TABLE guests (id integer PRIMARY KEY, room integer NOT NULL);
CREATE TABLE accounts (
    id integer PRIMARY KEY,
    balance integer NOT NULL,
    CONSTRAINT solvent CHECK (balance >= 0)
);
CREATE TABLE payments (
    id integer PRIMARY KEY,
    account integer NOT NULL,
    CONSTRAINT payments_account FOREIGN KEY (account) REFERENCES accounts (id)
);
CREATE TABLE prices (room integer PRIMARY KEY, price integer NOT NULL);

CREATE ASSERTION someone_works CHECK (EXISTS (SELECT * FROM staff));
CREATE ASSERTION no_room_is_full CHECK (
    NOT EXISTS (SELECT room FROM guests GROUP BY room HAVING count(*) > 3));

CREATE PROCEDURE leave(p_id integer) LANGUAGE SQL BEGIN ATOMIC
    DELETE FROM staff WHERE id = p_id;
END;
CREATE PROCEDURE check_in(p_id integer, p_room integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO guests (id, room) VALUES (p_id, p_room);
END;
CREATE PROCEDURE deposit(p_id integer, p_amount integer) LANGUAGE SQL BEGIN ATOMIC
    UPDATE accounts SET balance = balance + 5 WHERE id = p_id;
END;
CREATE PROCEDURE open_account(p_id integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO accounts (id, balance) VALUES (p_id, 0);
END;
CREATE PROCEDURE pay(p_id integer, p_account integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO payments (id, account) VALUES (p_id, p_account);
END;
CREATE FUNCTION price(p_room integer) RETURNS TABLE (price integer) LANGUAGE SQL BEGIN ATOMIC
    SELECT price FROM prices WHERE room = p_room;
END;
";

fn rows() -> Vec<(u16, Vec<Value>)> {
    let staff = (1..=3).map(|id| (0, args([id, 1]).to_vec()));
    let accounts = (1..=3).map(|id| (2, args([id, 10]).to_vec()));
    let prices = (1..=2).map(|room| (4, args([room, 50]).to_vec()));
    staff.chain(accounts).chain(prices).collect()
}

fn types(cluster: &dyn Cluster) -> UndeclaredTypes {
    UndeclaredTypes::new(cluster.planned().clone(), Options::default())
}

#[track_caller]
fn admitted(cluster: &mut dyn Cluster, types: &UndeclaredTypes, node: u16, sql: &str) -> Answer {
    let id = cluster.begin_admitted(node, types, sql, &[]);
    let id = id.unwrap_or_else(|refusal| panic!("{sql}: {refusal:?}"));
    let outcome = cluster.run().remove(&id).expect("it has ended");
    outcome.result.map(|result| result.rows)
}

#[track_caller]
fn refused(cluster: &mut dyn Cluster, types: &UndeclaredTypes, sql: &str) -> Box<Refusal> {
    let known = types.len();
    let refusal = cluster.begin_admitted(0, types, sql, &[]).expect_err(sql);
    assert_eq!(types.len(), known);
    refusal
}

#[track_caller]
fn violates(answer: &Answer, code: &str, constraint: &str) {
    let Err(CallError::Failed(error)) = answer else {
        panic!("{answer:?} should violate {constraint}");
    };
    assert_eq!(
        (error.code, error.constraint.as_deref()),
        (code, Some(constraint))
    );
}

#[test]
fn what_keeps_the_plan_runs_and_is_held_to_every_constraint() {
    under_each(HOTEL, 3, &rows(), |cluster| {
        let types = types(cluster);
        admitted(cluster, &types, 0, "DELETE FROM staff WHERE id = 1").unwrap();
        admitted(cluster, &types, 1, "DELETE FROM staff WHERE id = 2").unwrap();
        let last = admitted(cluster, &types, 2, "DELETE FROM staff WHERE id = 3");
        violates(&last, "23514", "someone_works");
        let all = admitted(cluster, &types, 2, "DELETE FROM staff");
        violates(&all, "23514", "someone_works");
        let spent = "UPDATE accounts SET balance = balance - 7 WHERE id = 1";
        admitted(cluster, &types, 1, spent).unwrap();
        violates(&admitted(cluster, &types, 2, spent), "23514", "solvent");
        let poor = "INSERT INTO accounts (id, balance) VALUES (9, -1)";
        violates(&admitted(cluster, &types, 0, poor), "23514", "solvent");
        let twice = "INSERT INTO accounts (id, balance) VALUES (2, 1)";
        violates(
            &admitted(cluster, &types, 0, twice),
            "23505",
            "accounts_pkey",
        );
        let unknown = "INSERT INTO payments (id, account) VALUES (1, 77)";
        violates(
            &admitted(cluster, &types, 0, unknown),
            "23503",
            "payments_account",
        );
        assert_eq!(cluster.ints(0, "SELECT id FROM staff"), [[3]]);
        let balances = "SELECT balance FROM accounts ORDER BY id";
        assert_eq!(cluster.ints(0, balances), [[3], [10], [10]]);
        cluster.assert_idle();
    });
}

#[test]
fn what_would_change_a_declared_type_is_refused_by_its_name_and_the_invariants() {
    under_each(HOTEL, 3, &rows(), |cluster| {
        let types = types(cluster);
        // `pay` would have to hold the account that it has found until it commits.
        let sql = "DELETE FROM accounts WHERE id = 1";
        let refusal = refused(cluster, &types, sql);
        assert_eq!(refusal.code, "55000");
        assert_eq!(refusal.transaction.as_deref(), Some("pay"));
        assert_eq!(refusal.invariant.as_deref(), Some("payments_account"));
        assert!(refusal.message.contains("\"pay\""), "{refusal:?}");
        assert!(
            refusal.message.contains("\"payments_account\""),
            "{refusal:?}"
        );
        let example = refusal.counterexample.as_ref().expect("a case is found");
        assert_eq!(example.invariant, "payments_account");
        assert_eq!(example.transactions, ["pay", "this_statement"]);
        let detail = refusal.detail.as_deref().expect("it says why");
        assert!(detail.contains("CALL pay("), "{detail}");
        // It stays refused, and is not analysed again.
        assert_eq!(refused(cluster, &types, sql), refusal);
        // `deposit` would have to leave alone the balances that it has looked at.
        let sql = "UPDATE accounts SET balance = balance - 9 WHERE balance > 9";
        let refusal = refused(cluster, &types, sql);
        assert_eq!(refusal.transaction.as_deref(), Some("deposit"));
        assert_eq!(refusal.invariant.as_deref(), Some("isolation(accounts)"));
        // No declared type writes prices, so every partition has a copy.
        let sql = "UPDATE prices SET price = 60 WHERE room = 1";
        let refusal = refused(cluster, &types, sql);
        assert_eq!(refusal.code, "0A000");
        assert!(refusal.message.contains("\"prices\""), "{refusal:?}");
        // Rows live by their keys.
        let refusal = refused(cluster, &types, "UPDATE guests SET id = id + 1");
        assert_eq!(refusal.code, "55000");
        assert!(refusal.message.contains("\"guests\""), "{refusal:?}");
        assert!(types.is_empty());
    });
}

#[test]
fn statements_that_differ_in_constants_are_one_type_and_readers_none() {
    let planned = crate::support::plan(HOTEL, 2);
    let types = UndeclaredTypes::new(planned.clone(), Options::default());
    let admit = |sql: &str| {
        let statement = planned.application.statement(sql).expect(sql);
        types.admit(sql, &statement).expect(sql)
    };
    for number in 0..20 {
        let entry = admit(&format!("DELETE FROM guests WHERE id = {number}"));
        assert!(entry.is_guarded());
    }
    assert_eq!(types.len(), 1);
    admit("DELETE FROM guests WHERE id = $1");
    admit("DELETE FROM guests WHERE room = 1");
    assert_eq!(types.len(), 3);
    let reader = admit("SELECT count(*) FROM guests");
    assert!(!reader.is_guarded() && reader.coordination().is_none());
    assert_eq!(types.len(), 3);
}

#[test]
fn a_writer_without_an_entry_is_refused_where_the_plan_keeps_the_guarantee() {
    let options = NodeOptions {
        needs_entries: true,
        ..NodeOptions::default()
    };
    under_each_with(HOTEL, 2, &rows(), options, |cluster| {
        assert_eq!(cluster.ints(0, "SELECT count(*) FROM staff"), [[3]]);
        let answer = cluster.statement(0, "DELETE FROM staff WHERE id = 1");
        let Err(error) = answer else {
            panic!("it has no entry");
        };
        assert_eq!(error.code(), "55000");
        let types = types(cluster);
        admitted(cluster, &types, 0, "DELETE FROM staff WHERE id = 1").unwrap();
        cluster.call(1, "leave", &args([2])).unwrap();
    });
}

/// Without an entry, under locks: the assertions on the tables that it writes.
#[test]
fn a_statement_without_an_entry_is_held_to_the_assertions_on_what_it_writes() {
    under_each(HOTEL, 2, &rows(), |cluster| {
        cluster
            .statement(0, "DELETE FROM staff WHERE id < 3")
            .unwrap();
        violates(
            &cluster.statement(1, "DELETE FROM staff"),
            "23514",
            "someone_works",
        );
        let guest = |id| format!("INSERT INTO guests (id, room) VALUES ({id}, 7)");
        for id in 1..=3 {
            cluster.statement(0, &guest(id)).unwrap();
        }
        violates(&cluster.statement(1, &guest(4)), "23514", "no_room_is_full");
    });
}

/// A statement by a seed, and its arguments.
fn draw_statement(rng: &mut Rng, id: i64) -> (&'static str, Vec<Value>) {
    let (staff, room) = (rng.i64(1..=3), rng.i64(0..2));
    match rng.u8(0..6) {
        0 => ("DELETE FROM staff WHERE id = $1", args([staff]).to_vec()),
        1 => (
            "DELETE FROM staff WHERE shift = 1 AND id <> $1",
            args([staff]).to_vec(),
        ),
        2 => (
            "INSERT INTO guests (id, room) VALUES ($1, $2)",
            args([1_000 + id, room]).to_vec(),
        ),
        // Guests who are there move: the range is read, and others may enter it.
        3 => (
            "UPDATE guests SET room = $1 WHERE room <> $1",
            args([room]).to_vec(),
        ),
        4 => (
            "UPDATE accounts SET balance = balance - $1 WHERE id = $2",
            args([rng.i64(1..9), staff]).to_vec(),
        ),
        _ => (
            "INSERT INTO payments (id, account) SELECT $1, id FROM accounts WHERE balance < $2 LIMIT 1",
            args([1_000 + id, rng.i64(0..9)]).to_vec(),
        ),
    }
}

/// Declared calls and undeclared statements at once, by many seeds: someone works, no room gets a fourth
/// guest, and every deposit and withdrawal counts.
#[test]
fn declared_calls_and_undeclared_statements_together_keep_every_invariant() {
    let (committed, refused) = (Cell::new(0), Cell::new(0));
    for seed in 0..60 {
        under_each(HOTEL, 3, &rows(), |cluster| {
            let mut rng = Rng::with_seed(seed);
            let types = types(cluster);
            let mut balance = 30;
            let mut amounts: BTreeMap<CallId, i64> = BTreeMap::new();
            for id in 0..24 {
                let node = rng.u16(0..3);
                if rng.bool() {
                    let (sql, arguments) = draw_statement(&mut rng, id);
                    let begun = cluster.begin_admitted(node, &types, sql, &arguments);
                    let begun = begun.unwrap_or_else(|refusal| panic!("{sql}: {refusal:?}"));
                    if let (true, Value::Int(amount)) = (sql.contains("balance -"), &arguments[0]) {
                        amounts.insert(begun, -amount);
                    }
                } else {
                    let (one, other) = (rng.i64(1..=3), rng.i64(0..2));
                    match rng.u8(0..3) {
                        0 => cluster.begin(node, "leave", &args([one])),
                        1 => cluster.begin(node, "check_in", &args([id, other])),
                        _ => {
                            let begun = cluster.begin(node, "deposit", &args([one, 5]));
                            amounts.insert(begun, 5);
                            begun
                        }
                    };
                }
                for _ in 0..rng.u8(0..6) {
                    cluster.advance();
                }
            }
            for (id, outcome) in cluster.run() {
                match outcome.result {
                    Ok(_) => {
                        balance += amounts.get(&id).copied().unwrap_or(0);
                        committed.set(committed.get() + 1);
                    }
                    Err(CallError::Failed(error)) if error.code == "23514" => {
                        refused.set(refused.get() + 1);
                    }
                    Err(other) => panic!("seed {seed}: {other}"),
                }
            }
            let sum = cluster.ints(0, "SELECT sum(balance) FROM accounts");
            assert_eq!(sum, [[balance]], "seed {seed}: an amount is lost");
            let staff = cluster.ints(0, "SELECT count(*) FROM staff");
            assert!(staff[0][0] >= 1, "seed {seed}: no one works");
            let full = "SELECT room FROM guests GROUP BY room HAVING count(*) > 3";
            let full = cluster.ints(0, full);
            assert!(full.is_empty(), "seed {seed}: {full:?}");
            let poor = cluster.ints(0, "SELECT id FROM accounts WHERE balance < 0");
            assert!(poor.is_empty(), "seed {seed}: {poor:?}");
            cluster.assert_idle();
        });
    }
    let (committed, refused) = (committed.get(), refused.get());
    assert!(
        committed > 1_000 && refused > 100,
        "{committed} and {refused}"
    );
}

#[test]
fn an_entry_explains_itself() {
    let planned = crate::support::plan(HOTEL, 2);
    let types = UndeclaredTypes::new(planned.clone(), Options::default());
    let sql = "DELETE FROM staff WHERE id = $1";
    let statement = planned.application.statement(sql).expect(sql);
    let entry = types.admit(sql, &statement).expect("it keeps the plan");
    let told = entry.coordination().expect("it writes");
    for part in [
        "DELETE FROM staff WHERE id = $1  global any node",
        "Its guards: everything that it reads and writes",
        "someone_works, before it commits",
        "✗ someone_works: ",
        "[nonempty-delete]",
        "✓ staff_pkey: ",
        "Protocol: ramp-fast",
    ] {
        assert!(told.text.contains(part), "{part} is not in\n{}", told.text);
    }
    let json: serde_json::Value = serde_json::from_str(&told.json).expect("it is JSON");
    assert_eq!(json["class"], "global");
    assert_eq!(json["checks"][0]["invariant"], "someone_works");
    assert_eq!(json["checks"][0]["guarded"], true);
    let deposit = planned.coordination("deposit").expect("it is declared");
    assert!(
        deposit.text.contains("deferred to commit"),
        "{}",
        deposit.text
    );
    let json: serde_json::Value = serde_json::from_str(&deposit.json).expect("it is JSON");
    assert_eq!(
        (&json["class"], &json["routing"][0]),
        (&"free".into(), &"p_id".into())
    );
    assert!(planned.coordination("nothing").is_none());
}
