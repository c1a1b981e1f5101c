//! Transactions that are too large are refused and have no effects.

use anabranch_engine::{CallError, NodeOptions, TransactionLimits};
use anabranch_types::Value;

use crate::support::{Cluster, args, under_each_with};

const NOTES: &str = "
CREATE TABLE notes (
    id integer PRIMARY KEY,
    body text NOT NULL
);
CREATE TABLE tags (
    tag text PRIMARY KEY
);
CREATE PROCEDURE note(p_id integer, p_body text) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO notes (id, body) VALUES (p_id, p_body);
END;
CREATE PROCEDURE rewrite(p_id integer, p_body text) LANGUAGE SQL BEGIN ATOMIC
    UPDATE notes SET body = p_body WHERE id = p_id;
END;
CREATE PROCEDURE tag(p_tag text) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO tags (tag) VALUES (p_tag);
END;
CREATE PROCEDURE fill(p_count integer) LANGUAGE plpgsql AS $$
DECLARE n integer := 0;
BEGIN
    WHILE n < p_count LOOP
        n := n + 1;
        INSERT INTO notes (id, body) VALUES (n, 'filled');
    END LOOP;
END $$;
CREATE PROCEDURE look(p_count integer) LANGUAGE plpgsql AS $$
DECLARE n integer := 0; found text;
BEGIN
    WHILE n < p_count LOOP
        n := n + 1;
        SELECT body INTO found FROM notes WHERE id = n + 0;
    END LOOP;
END $$;
";

const LIMITS: TransactionLimits = TransactionLimits {
    items_max: 20,
    bytes_max: 2_000,
    key_bytes_max: 100,
    row_bytes_max: 1_000,
    result_bytes_max: 500,
    statement_bytes_max: 10_000,
};

/// A text of this many letters.
fn text(letters: usize) -> Value {
    Value::Text("x".repeat(letters).into())
}

/// Asserts a refusal with 54000 whose message has the size and the limit.
#[track_caller]
fn refused(cluster: &mut dyn Cluster, procedure: &str, arguments: &[Value], what: &str) {
    let outcome = cluster.outcome(1, procedure, arguments);
    let Err(CallError::Failed(error)) = outcome.result else {
        panic!("{procedure}: {:?}", outcome.result);
    };
    assert_eq!(error.code, "54000", "{error:?}");
    assert!(error.message.contains(what), "{error:?}");
    assert_eq!(outcome.retries.total(), 0);
}

#[test]
fn what_is_too_large_is_refused_and_leaves_nothing() {
    let options = NodeOptions {
        limits: LIMITS,
        ..NodeOptions::default()
    };
    under_each_with(NOTES, 3, &[], options, |cluster| {
        refused(cluster, "note", &[Value::Int(1), text(1_001)], "a row has");
        refused(cluster, "tag", &[text(101)], "a key has");
        refused(
            cluster,
            "fill",
            &args([21]),
            "has 21 items, and the limit is 20",
        );
        assert!(cluster.ints(0, "SELECT id FROM notes").is_empty());
        // A transaction at the limit commits, also after a refused one.
        cluster
            .call(1, "note", &[Value::Int(1), text(900)])
            .unwrap();
        cluster.call(0, "tag", &[text(90)]).unwrap();
        refused(
            cluster,
            "rewrite",
            &[Value::Int(1), text(1_001)],
            "a row has",
        );
        cluster
            .call(2, "rewrite", &[Value::Int(1), text(1_000)])
            .unwrap();
        let count = "SELECT count(*) FROM notes";
        assert_eq!(cluster.ints(2, count), [[1]]);
    });
}

/// A result is refused at the first byte above the limit, and what its call has written is not kept.
#[test]
fn a_large_result_is_refused_before_its_call_commits() {
    const NOTE_AND_LIST: &str = "
        CREATE TABLE notes (id integer PRIMARY KEY, body text NOT NULL);
        CREATE FUNCTION note_and_list(p_id integer, p_body text) RETURNS TABLE (body text)
        LANGUAGE SQL BEGIN ATOMIC
            INSERT INTO notes (id, body) VALUES (p_id, p_body);
            SELECT body FROM notes;
        END;";
    let options = NodeOptions {
        limits: LIMITS,
        ..NodeOptions::default()
    };
    under_each_with(NOTE_AND_LIST, 2, &[], options, |cluster| {
        // Four rows of a value each: 4 * (8 + 117) = 500.
        for id in 1..=4 {
            let rows = cluster.call(1, "note_and_list", &[Value::Int(id), text(117)]);
            assert_eq!(rows.expect("it fits").len(), id as usize);
        }
        let error = cluster.call(1, "note_and_list", &[Value::Int(5), text(1)]);
        let error = error.expect_err("a fifth row is too much");
        assert_eq!(error, CallError::ResultTooLarge { bytes_max: 500 });
        assert_eq!(error.code(), "54000");
        assert!(error.to_string().contains("result_bytes_max"), "{error}");
        assert_eq!(cluster.ints(0, "SELECT count(*) FROM notes"), [[4]]);
        cluster.assert_idle();
    });
}

/// Three rows, each within its limit, are too large together; and so are too many reads.
#[test]
fn parts_add_up() {
    let limits = TransactionLimits {
        bytes_max: 60,
        ..LIMITS
    };
    let options = NodeOptions {
        limits,
        ..NodeOptions::default()
    };
    under_each_with(NOTES, 2, &[], options, |cluster| {
        refused(cluster, "fill", &args([20]), "bytes, and the limit is 60");
        cluster.call(0, "fill", &args([1])).unwrap();
    });
    let limits = TransactionLimits {
        items_max: 5,
        ..LIMITS
    };
    let options = NodeOptions {
        limits,
        ..NodeOptions::default()
    };
    under_each_with(NOTES, 2, &[], options, |cluster| {
        cluster.call(0, "look", &args([3])).unwrap();
        refused(
            cluster,
            "look",
            &args([9]),
            "has 6 items, and the limit is 5",
        );
    });
}
