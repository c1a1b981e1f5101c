//! Clients' own transactions, statement by statement (`docs/protocols/interactive.md`).

mod skip_locked;

use std::sync::Arc;

use anabranch_engine::{
    BlockId, BlockOptions, Call, CallError, CallId, NodeOptions, SavepointId, StatementCode,
    StatementWork, Step, StepAction, Work,
};
use anabranch_types::Value;

use crate::support::{Cluster, args, ints, under_each, under_each_with};

const ACCOUNTS: &str = "
CREATE TABLE accounts (
    id integer PRIMARY KEY,
    owner integer NOT NULL,
    balance integer NOT NULL,
    email text,
    CONSTRAINT solvent CHECK (balance >= 0),
    CONSTRAINT one_email UNIQUE (id, email)
);
CREATE INDEX accounts_by_owner ON accounts (owner);
CREATE TABLE notes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account integer REFERENCES accounts, note text);
CREATE PROCEDURE open_account(p_id integer, p_owner integer, p_balance integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO accounts (id, owner, balance) VALUES (p_id, p_owner, p_balance);
END;
CREATE PROCEDURE put(p_id integer, p_balance integer) LANGUAGE SQL BEGIN ATOMIC
    UPDATE accounts SET balance = p_balance WHERE id = p_id;
END;
CREATE PROCEDURE move_owner(p_id integer, p_owner integer) LANGUAGE SQL BEGIN ATOMIC
    UPDATE accounts SET owner = p_owner WHERE id = p_id;
END;
CREATE PROCEDURE note(p_account integer, p_note text) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO notes (account, note) VALUES (p_account, p_note);
END;
CREATE PROCEDURE close_account(p_id integer) LANGUAGE SQL BEGIN ATOMIC
    DELETE FROM accounts WHERE id = p_id;
END;
";

const ALL: &str = "SELECT id, owner, balance FROM accounts ORDER BY id";

fn account(id: i64, owner: i64, balance: i64) -> (u16, Vec<Value>) {
    let mut row = args([id, owner, balance]).to_vec();
    row.push(Value::Null);
    (0, row)
}

/// A client with an open transaction at a node.
struct Block {
    node: u16,
    id: BlockId,
    options: BlockOptions,
}

impl Block {
    fn new(node: u16, id: u64) -> Block {
        Block {
            node,
            id: BlockId(id),
            options: BlockOptions::default(),
        }
    }

    fn begin(&self, cluster: &mut dyn Cluster, action: StepAction, arguments: &[Value]) -> CallId {
        let step = Step {
            block: self.id,
            options: self.options,
            action,
        };
        let call = Call::new(CallId(0), Work::Step(step), arguments).with_timestamp(77);
        cluster.submit_call(self.node, call)
    }

    fn begin_sql(&self, cluster: &mut dyn Cluster, sql: &str) -> CallId {
        let statement = cluster.planned().application.statement(sql);
        let statement = statement.unwrap_or_else(|problems| panic!("{sql}: {problems:?}"));
        let work = StatementWork {
            code: StatementCode::Statement(Arc::new(statement)),
            entry: None,
            timing: None,
        };
        self.begin(cluster, StepAction::Statement(work), &[])
    }

    fn step(
        &self,
        cluster: &mut dyn Cluster,
        action: StepAction,
    ) -> Result<Vec<Vec<Value>>, CallError> {
        let call = self.begin(cluster, action, &[]);
        outcome_of(cluster, call)
    }

    fn sql(&self, cluster: &mut dyn Cluster, sql: &str) -> Result<Vec<Vec<Value>>, CallError> {
        let call = self.begin_sql(cluster, sql);
        outcome_of(cluster, call)
    }

    #[track_caller]
    fn ints(&self, cluster: &mut dyn Cluster, sql: &str) -> Vec<Vec<i64>> {
        ints(&self.sql(cluster, sql).expect("it succeeds"))
    }

    fn commit(&self, cluster: &mut dyn Cluster) -> Result<Vec<Vec<Value>>, CallError> {
        self.step(cluster, StepAction::Commit)
    }
}

/// Lets time pass until the call ends. Others may wait for ever.
fn outcome_of(cluster: &mut dyn Cluster, call: CallId) -> Result<Vec<Vec<Value>>, CallError> {
    loop {
        if let Some(outcome) = cluster.take_outcomes().remove(&call) {
            return outcome.result.map(|result| result.rows);
        }
        assert!(cluster.advance(), "{call:?} waits for ever");
    }
}

#[track_caller]
fn code<T: std::fmt::Debug>(answer: Result<T, CallError>) -> &'static str {
    answer.expect_err("it should fail").code()
}

#[test]
fn a_block_reads_its_own_writes_and_shows_them_at_its_commit() {
    for partitions in 1..=2 {
        let rows = [account(1, 5, 50), account(2, 5, 20)];
        under_each(ACCOUNTS, partitions, &rows, |cluster| {
            let block = Block::new(0, 1);
            block
                .sql(
                    cluster,
                    "UPDATE accounts SET balance = balance - 30 WHERE id = 1",
                )
                .unwrap();
            block
                .sql(cluster, "INSERT INTO accounts VALUES (3, 5, 30, NULL)")
                .unwrap();
            let sum = block.ints(cluster, "SELECT sum(balance) FROM accounts WHERE owner = 5");
            assert_eq!(sum, [[70]]);
            block.commit(cluster).unwrap();
            assert_eq!(cluster.ints(0, ALL), [[1, 5, 20], [2, 5, 20], [3, 5, 30]]);
            let block = Block::new(partitions - 1, 2);
            block.sql(cluster, "DELETE FROM accounts").unwrap();
            assert_eq!(block.ints(cluster, ALL), [[0; 3]; 0]);
            block.step(cluster, StepAction::Rollback).unwrap();
            assert_eq!(cluster.ints(0, ALL).len(), 3);
            cluster.assert_idle();
        });
    }
}

#[test]
fn an_error_comes_at_its_statement_and_leaves_nothing_of_it() {
    for partitions in 1..=2 {
        let rows = [account(1, 5, 50), account(2, 5, 20)];
        under_each(ACCOUNTS, partitions, &rows, |cluster| {
            let block = Block::new(0, 1);
            block
                .sql(cluster, "INSERT INTO accounts VALUES (4, 6, 1, NULL)")
                .unwrap();
            let taken = "INSERT INTO accounts VALUES (3, 6, 1, NULL), (2, 6, 1, NULL)";
            assert_eq!(code(block.sql(cluster, taken)), "23505");
            let own = "INSERT INTO accounts VALUES (4, 6, 2, NULL)";
            assert_eq!(code(block.sql(cluster, own)), "23505", "an own row");
            let poor = "UPDATE accounts SET balance = balance - 21";
            assert_eq!(code(block.sql(cluster, poor)), "23514");
            let orphan = "INSERT INTO notes (account, note) VALUES (9, 'x')";
            assert_eq!(code(block.sql(cluster, orphan)), "23503");
            assert_eq!(
                block.ints(cluster, ALL),
                [[1, 5, 50], [2, 5, 20], [4, 6, 1]]
            );
            block.commit(cluster).unwrap();
            assert_eq!(cluster.ints(0, ALL), [[1, 5, 50], [2, 5, 20], [4, 6, 1]]);
            cluster.assert_idle();
        });
    }
}

#[test]
fn a_key_of_a_unique_index_is_refused_at_the_statement() {
    let rows = [account(1, 5, 50), account(2, 5, 20)];
    under_each(ACCOUNTS, 1, &rows, |cluster| {
        let block = Block::new(0, 1);
        let same = "UPDATE accounts SET email = 'a' WHERE id = 1";
        block.sql(cluster, same).unwrap();
        block.sql(cluster, same).unwrap();
        block
            .sql(cluster, "UPDATE accounts SET email = 'a' WHERE id = 2")
            .unwrap();
        block.commit(cluster).unwrap();
        cluster.assert_idle();
    });
    let unique = ACCOUNTS.replace("UNIQUE (id, email)", "UNIQUE (email)");
    under_each(&unique, 1, &rows, |cluster| {
        let block = Block::new(0, 1);
        block
            .sql(cluster, "UPDATE accounts SET email = 'a' WHERE id = 1")
            .unwrap();
        let taken = "UPDATE accounts SET email = 'a' WHERE id = 2";
        assert_eq!(
            code(block.sql(cluster, taken)),
            "23505",
            "an own row has it"
        );
        block.commit(cluster).unwrap();
        let block = Block::new(0, 2);
        assert_eq!(code(block.sql(cluster, taken)), "23505", "a row has it");
        block
            .sql(cluster, "UPDATE accounts SET email = 'b' WHERE id = 1")
            .unwrap();
        block.sql(cluster, taken).expect("it is free now");
        block.commit(cluster).unwrap();
        cluster.assert_idle();
    });
}

#[test]
fn going_back_to_a_savepoint_takes_back_effects_alone() {
    let rows = [account(1, 5, 50), account(2, 5, 20)];
    under_each(ACCOUNTS, 2, &rows, |cluster| {
        let block = Block::new(0, 1);
        let savepoint = |number| StepAction::Savepoint(SavepointId(number));
        let back = |number| StepAction::RollbackTo(SavepointId(number));
        block
            .sql(cluster, "UPDATE accounts SET balance = 1 WHERE id = 1")
            .unwrap();
        block.step(cluster, savepoint(1)).unwrap();
        block
            .sql(cluster, "UPDATE accounts SET balance = 2 WHERE id = 1")
            .unwrap();
        block.step(cluster, savepoint(2)).unwrap();
        block
            .sql(cluster, "INSERT INTO accounts VALUES (3, 1, 1, NULL)")
            .unwrap();
        block
            .sql(cluster, "INSERT INTO notes (account, note) VALUES (3, 'x')")
            .unwrap();
        block.step(cluster, back(2)).unwrap();
        let orphan = "INSERT INTO notes (account, note) VALUES (3, 'x')";
        assert_eq!(
            code(block.sql(cluster, orphan)),
            "23503",
            "its parent is taken back"
        );
        block.step(cluster, back(1)).unwrap();
        assert_eq!(code(block.step(cluster, back(2))), "3B001");
        assert_eq!(block.ints(cluster, ALL), [[1, 5, 1], [2, 5, 20]]);
        block.step(cluster, back(0)).unwrap();
        assert_eq!(block.ints(cluster, ALL), [[1, 5, 50], [2, 5, 20]]);
        block
            .sql(cluster, "UPDATE accounts SET balance = 3 WHERE id = 2")
            .unwrap();
        block.commit(cluster).unwrap();
        assert_eq!(cluster.ints(0, ALL), [[1, 5, 50], [2, 5, 3]]);
        cluster.assert_idle();
    });
}

/// Runs `between` in a block of its own while another block has run `shown`, then lets that one write and commit. Returns
/// whether `between` was committed first, and what the other block's COMMIT answers.
fn disturbed(
    cluster: &mut dyn Cluster,
    shown: &str,
    between: &str,
) -> (bool, Result<Vec<Vec<Value>>, CallError>) {
    let (one, other) = (Block::new(0, 1), Block::new(1, 2));
    one.sql(cluster, shown).unwrap();
    let call = other.begin_sql(cluster, between);
    // It may have to wait for the first block, which is older.
    for _ in 0..40 {
        cluster.advance();
    }
    let ended = cluster.take_outcomes();
    match ended.get(&call) {
        Some(outcome) => {
            outcome.result.as_ref().expect("it writes");
            other.commit(cluster).expect("nothing is in its way");
            let written = one.sql(
                cluster,
                "UPDATE accounts SET balance = balance + 1 WHERE id = 2",
            );
            (true, written.and_then(|_| one.commit(cluster)))
        }
        None => {
            one.sql(
                cluster,
                "UPDATE accounts SET balance = balance + 1 WHERE id = 2",
            )
            .expect("the other one waits");
            let committed = one.commit(cluster);
            cluster.run();
            other.commit(cluster).expect("its turn has come");
            (false, committed)
        }
    }
}

#[test]
fn a_conflict_that_the_client_would_notice_is_an_error() {
    let rows = [account(1, 5, 50), account(2, 5, 20)];
    let options = NodeOptions {
        records: true,
        ..NodeOptions::default()
    };
    let changes = [
        (
            "SELECT balance FROM accounts WHERE id = 1",
            "UPDATE accounts SET balance = 7 WHERE id = 1",
        ),
        (
            "SELECT count(*) FROM accounts WHERE owner = 5",
            "INSERT INTO accounts VALUES (3, 5, 1, NULL)",
        ),
        (
            "SELECT count(*) FROM accounts",
            "DELETE FROM accounts WHERE id = 1",
        ),
        (
            "SELECT id FROM accounts WHERE id = 9",
            "INSERT INTO accounts VALUES (9, 5, 1, NULL)",
        ),
    ];
    for (shown, between) in changes {
        under_each_with(ACCOUNTS, 2, &rows, options, |cluster| {
            let (is_late, committed) = disturbed(cluster, shown, between);
            match is_late {
                true => assert_eq!(code(committed), "40001", "{shown}"),
                false => assert!(committed.is_ok(), "{shown}: {committed:?}"),
            }
            let balance = cluster.ints(0, "SELECT balance FROM accounts WHERE id = 2");
            assert!(matches!(balance[0][0], 20 | 21), "{balance:?}");
            cluster.assert_idle();
        });
    }
    let same = [
        (
            "SELECT owner FROM accounts WHERE id = 1",
            "UPDATE accounts SET balance = 7 WHERE id = 1",
        ),
        (
            "SELECT count(*) FROM accounts",
            "UPDATE accounts SET balance = 7 WHERE id = 1",
        ),
        (
            "UPDATE accounts SET owner = 8 WHERE id = 1",
            "UPDATE accounts SET balance = 7 WHERE id = 1",
        ),
    ];
    for (shown, between) in same {
        under_each_with(ACCOUNTS, 2, &rows, options, |cluster| {
            let (_, committed) = disturbed(cluster, shown, between);
            committed.expect("its client notices nothing");
            assert_eq!(
                cluster.ints(0, "SELECT balance FROM accounts ORDER BY id"),
                [[7], [21]]
            );
            cluster.assert_idle();
        });
    }
}

#[test]
fn what_was_drawn_stays_when_a_block_is_run_again() {
    let rows = [account(1, 5, 50), account(2, 5, 20)];
    under_each(ACCOUNTS, 2, &rows, |cluster| {
        let block = Block::new(0, 1);
        let drawn = block.ints(
            cluster,
            "INSERT INTO notes (account, note) VALUES (1, 'a'), (1, 'b') RETURNING id",
        );
        let time = block
            .sql(
                cluster,
                "SELECT now()::timestamp FROM accounts WHERE id = 1",
            )
            .unwrap();
        let key = block
            .sql(
                cluster,
                "SELECT gen_random_uuid() FROM accounts WHERE id = 1",
            )
            .unwrap();
        assert_eq!(time, [[Value::Timestamp(77)]]);
        // The attempt is lost, and its numbers are drawn on by others.
        let call = block.begin_sql(cluster, "SELECT sum(balance) FROM accounts");
        cluster.cancel(0, call);
        cluster.run();
        cluster
            .call(0, "note", &[Value::Int(1), Value::text("other")])
            .unwrap();
        let again = block
            .sql(
                cluster,
                "SELECT gen_random_uuid() FROM accounts WHERE id = 1",
            )
            .unwrap();
        assert_ne!(again, key, "another statement draws another one");
        block.commit(cluster).unwrap();
        let mut kept = cluster.ints(0, "SELECT id FROM notes WHERE note <> 'other'");
        kept.sort_unstable();
        assert_eq!(kept, drawn, "they are what the client was shown");
        cluster.assert_idle();
    });
}

/// What a block has asked of sequences has the same answers when it is run again, and a sequence is set once.
#[test]
fn sequences_are_asked_once_when_a_block_is_run_again() {
    let rows = [account(1, 5, 50), account(2, 5, 20)];
    let schema = format!("CREATE SEQUENCE tickets;\n{ACCOUNTS}");
    under_each(&schema, 1, &rows, |cluster| {
        let next = "SELECT nextval('tickets')";
        let block = Block::new(0, 1);
        assert_eq!(block.ints(cluster, next), [[1]]);
        assert_eq!(block.ints(cluster, "SELECT setval('tickets', 10)"), [[10]]);
        assert_eq!(block.ints(cluster, next), [[11]]);
        // The attempt is lost within a statement that sets the sequence, and others draw on.
        let call = block.begin_sql(
            cluster,
            "SELECT setval('tickets', 20), sum(balance) FROM accounts",
        );
        cluster.cancel(0, call);
        cluster.run();
        let other = cluster.ints(0, next)[0][0];
        assert!(other == 12 || other == 21, "{other}");
        assert_eq!(
            block.ints(cluster, "SELECT last_value FROM tickets"),
            [[other]],
            "the replay has set nothing"
        );
        assert_eq!(block.ints(cluster, next), [[other + 1]]);
        block.commit(cluster).unwrap();
        assert_eq!(cluster.ints(0, next), [[other + 2]]);
        cluster.assert_idle();
    });
}

#[test]
fn a_log_that_is_too_large_makes_a_conflict_an_error() {
    let rows = [account(1, 5, 50), account(2, 5, 20)];
    under_each(ACCOUNTS, 2, &rows, |cluster| {
        let mut block = Block::new(0, 1);
        block.options.log_bytes_max = 300;
        block
            .sql(cluster, "SELECT 1 FROM accounts WHERE id = 1")
            .unwrap();
        block
            .sql(cluster, "SELECT 1 FROM accounts WHERE id = 1")
            .unwrap();
        let call = block.begin_sql(cluster, "SELECT sum(balance) FROM accounts");
        cluster.cancel(0, call);
        cluster.run();
        let answer = block.commit(cluster);
        assert_eq!(code(answer), "40001");
        cluster.assert_idle();
    });
}

#[test]
fn a_client_that_goes_leaves_nothing_wherever_its_block_is() {
    let rows = [account(1, 5, 50), account(2, 5, 20)];
    under_each(ACCOUNTS, 2, &rows, |cluster| {
        for advances in 0..12 {
            let block = Block::new(0, 100 + advances);
            block.begin_sql(cluster, "UPDATE accounts SET balance = balance + 1");
            for _ in 0..advances {
                cluster.advance();
            }
            block.begin(cluster, StepAction::Rollback, &[]);
            cluster.run();
            cluster.assert_idle();
            let block = Block::new(0, 200 + advances);
            block
                .sql(cluster, "UPDATE accounts SET balance = balance")
                .unwrap();
            block.begin(cluster, StepAction::Commit, &[]);
            for _ in 0..advances {
                cluster.advance();
            }
            block.begin(cluster, StepAction::Rollback, &[]);
            cluster.run();
            cluster.assert_idle();
        }
        assert_eq!(cluster.ints(0, ALL), [[1, 5, 50], [2, 5, 20]]);
    });
}
