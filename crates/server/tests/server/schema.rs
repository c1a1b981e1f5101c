//! A schema that changes while clients are connected: exclusive mode, through unmodified clients.

use std::sync::mpsc::channel;
use std::time::Duration;

use anabranch_server::service::folder::RowsBefore;
use anabranch_server::service::{Guarantee, Service, plan_application};
use anabranch_sql::{Application, SourceFile};
use anabranch_types::{ColumnIndex, Placement};
use postgres::error::SqlState;
use postgres::types::Kind;
use postgres::{Client, NoTls, Row};

use crate::support::*;

fn empty() -> Service {
    start_with(&[], Guarantee::Serializable, options())
}

pub(crate) fn run(client: &mut Client, text: &str) {
    let done = client.batch_execute(text);
    done.unwrap_or_else(|error| panic!("{text}: {error:?}"));
}

/// The SQLSTATE and the message of a text that is refused.
pub(crate) fn refused(client: &mut Client, text: &str) -> (String, String) {
    let error = client.batch_execute(text).expect_err(text);
    let error = error.as_db_error().expect("the server answers");
    (error.code().code().to_owned(), error.message().to_owned())
}

pub(crate) fn rows(client: &mut Client, text: &str) -> Vec<Row> {
    client
        .query(text, &[])
        .unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

fn count(client: &mut Client, table: &str) -> i64 {
    rows(client, &format!("SELECT count(*) FROM {table}"))[0].get(0)
}

/// Whether a table is there, as another client sees it.
fn is_there(client: &mut Client, table: &str) -> bool {
    match client.query(&format!("SELECT 1 FROM {table}"), &[]) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.code(), Some(&SqlState::UNDEFINED_TABLE));
            false
        }
    }
}

const TABLE: &str = "CREATE TABLE t (id integer PRIMARY KEY, name text)";

#[test]
fn tables_come_and_go_under_open_connections() {
    let service = empty();
    let (mut ann, mut ben) = (connect(&service), connect(&service));
    run(&mut ann, TABLE);
    run(&mut ben, "INSERT INTO t VALUES (1, 'one'), (2, 'two')");
    run(
        &mut ann,
        "CREATE TABLE u (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, t integer REFERENCES t)",
    );
    run(&mut ben, "INSERT INTO u (t) VALUES (1), (2), (2)");
    assert_eq!(count(&mut ann, "t"), 2, "other tables keep their rows");
    let (code, _) = refused(&mut ann, "DROP TABLE t");
    assert_eq!(code, "2BP01");
    run(&mut ann, "DROP TABLE t CASCADE");
    assert!(!is_there(&mut ben, "t"));
    assert_eq!(count(&mut ben, "u"), 3);
    run(&mut ben, "INSERT INTO u (t) VALUES (99)");
    let last = rows(&mut ben, "SELECT max(id) FROM u")[0].get::<_, i64>(0);
    assert!(last > 3, "identity numbers go on");
    run(&mut ben, TABLE);
    assert_eq!(count(&mut ann, "t"), 0, "a new table has no old rows");
    service.stop().expect("it stops");
}

/// The number of the table changes with the tables before it. A statement that is compiled for one schema and run under
/// another would meet the wrong rows.
#[test]
fn statements_and_changes_at_the_same_time_meet_the_right_tables() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    let scratch = Scratch::new("schema-race");
    for (folder, rounds) in [(None, 60), (Some(&*scratch.0), 15)] {
        let service = start_in(&[], Guarantee::Serializable, options(), folder).expect("it starts");
        let mut ann = connect(&service);
        run(
            &mut ann,
            "CREATE TABLE a0 (id integer PRIMARY KEY, n integer)",
        );
        run(
            &mut ann,
            "CREATE TABLE t (id integer PRIMARY KEY, n integer)",
        );
        run(
            &mut ann,
            "INSERT INTO t VALUES (0, 0), (1, 0), (2, 0), (3, 0)",
        );
        let ends = Arc::new(AtomicBool::new(false));
        let counting = (0..4).map(|id| {
            let (mut client, ends) = (connect(&service), Arc::clone(&ends));
            std::thread::spawn(move || {
                let update = client.prepare("UPDATE t SET n = n + 1 WHERE id = $1");
                let update = update.expect("it prepares");
                let mut done = 0;
                while !ends.load(Ordering::Relaxed) {
                    let updated = client.execute(&update, &[&id]).expect("it updates");
                    assert_eq!(updated, 1);
                    done += 1;
                    let seen = rows(&mut client, &format!("SELECT n FROM t WHERE id = {id}"));
                    assert_eq!(seen[0].get::<_, i32>(0), done);
                }
                done
            })
        });
        let counting: Vec<_> = counting.collect();
        for round in 0..rounds {
            let next = round + 1;
            run(
                &mut ann,
                &format!(
                    "CREATE TABLE a{next} (id integer PRIMARY KEY, n integer); \
                     INSERT INTO a{next} VALUES (0, 0), (1, 0), (2, 0), (3, 0); DROP TABLE a{round}"
                ),
            );
        }
        ends.store(true, Ordering::Relaxed);
        for (id, thread) in counting.into_iter().enumerate() {
            let done = thread.join().expect("it counts");
            let found = rows(&mut ann, &format!("SELECT n FROM t WHERE id = {id}"));
            assert_eq!(found[0].get::<_, i32>(0), done, "client {id}");
        }
        let others = rows(&mut ann, &format!("SELECT sum(n) FROM a{rounds}"));
        assert_eq!(others[0].get::<_, i64>(0), 0, "no other table was written");
        drop(ann);
        service.stop().expect("it stops");
    }
}

/// As a dump is loaded: rows with numbers, then the primary key.
#[test]
fn a_sequence_goes_on_above_the_rows_that_were_there() {
    let service = empty();
    let mut ann = connect(&service);
    run(&mut ann, "CREATE TABLE s (id serial, n integer)");
    run(&mut ann, "INSERT INTO s VALUES (50, 1), (51, 2)");
    run(&mut ann, "ALTER TABLE s ADD PRIMARY KEY (id)");
    run(&mut ann, "INSERT INTO s (n) VALUES (3)");
    let last = rows(&mut ann, "SELECT max(id) FROM s")[0].get::<_, i32>(0);
    assert!(last > 51);
    service.stop().expect("it stops");
}

/// Rows of a table without a primary key have keys that are made of their transactions' names.
#[test]
fn transactions_after_a_change_have_names_of_their_own() {
    let service = empty();
    let mut ann = connect(&service);
    run(&mut ann, "CREATE TABLE log (n integer)");
    for round in 1..=4_i64 {
        for n in 0..20 {
            run(&mut ann, &format!("INSERT INTO log VALUES ({n})"));
        }
        run(
            &mut ann,
            &format!("CREATE TABLE t{round} (id integer PRIMARY KEY)"),
        );
        assert_eq!(count(&mut ann, "log"), 20 * round);
    }
    run(&mut ann, "ALTER TABLE log ADD COLUMN id serial PRIMARY KEY");
    run(&mut ann, "ALTER TABLE log DROP CONSTRAINT log_pkey");
    for n in 0..20 {
        run(&mut ann, &format!("INSERT INTO log VALUES ({n})"));
    }
    let found = rows(&mut ann, "SELECT count(*), count(DISTINCT id) FROM log");
    assert_eq!(
        (found[0].get::<_, i64>(0), found[0].get::<_, i64>(1)),
        (100, 100)
    );
    service.stop().expect("it stops");
}

#[test]
fn rows_are_mapped_to_changed_columns() {
    let service = empty();
    let mut ann = connect(&service);
    run(&mut ann, TABLE);
    for id in 0..500 {
        run(&mut ann, &format!("INSERT INTO t VALUES ({id}, '{id}')"));
    }
    run(
        &mut ann,
        "ALTER TABLE t ADD COLUMN price integer NOT NULL DEFAULT 7",
    );
    run(
        &mut ann,
        "ALTER TABLE t ALTER COLUMN name TYPE integer USING name::integer + 1",
    );
    run(&mut ann, "ALTER TABLE t DROP CONSTRAINT t_pkey");
    run(&mut ann, "ALTER TABLE t ADD PRIMARY KEY (name)");
    run(&mut ann, "CREATE INDEX by_price ON t (price, id)");
    let sums = rows(
        &mut ann,
        "SELECT count(*), sum(id), sum(name), sum(price) FROM t",
    );
    let sums: (i64, i64, i64, i64) = (
        sums[0].get(0),
        sums[0].get(1),
        sums[0].get(2),
        sums[0].get(3),
    );
    assert_eq!(sums, (500, 124_750, 125_250, 3_500));
    let one = rows(&mut ann, "SELECT id FROM t WHERE name = 42");
    assert_eq!(one[0].get::<_, i32>(0), 41);
    let found = rows(&mut ann, "SELECT id FROM t WHERE price = 7 AND id = 300");
    assert_eq!(found.len(), 1);
    let (code, _) = refused(&mut ann, "INSERT INTO t VALUES (1000, 42)");
    assert_eq!(code, "23505");
    run(&mut ann, "TRUNCATE t");
    assert_eq!(count(&mut ann, "t"), 0);
    service.stop().expect("it stops");
}

#[test]
fn a_transaction_with_changes_is_one_or_none() {
    let scratch = Scratch::new("schema-transaction");
    for folder in [None, Some(&*scratch.0)] {
        let start =
            || start_in(&[], Guarantee::Serializable, options(), folder).expect("it starts");
        let service = start();
        let (mut ann, mut ben) = (connect(&service), connect(&service));
        run(&mut ann, TABLE);
        run(&mut ann, "INSERT INTO t VALUES (1, 'one')");
        let changes = "INSERT INTO t VALUES (2, 'two'); \
             ALTER TABLE t ADD COLUMN more integer; \
             UPDATE t SET more = id; \
             CREATE TABLE u (id integer PRIMARY KEY); \
             INSERT INTO u SELECT id FROM t; \
             ALTER TABLE u RENAME TO v; \
             DELETE FROM t WHERE id = 1";
        for end in ["ROLLBACK", "COMMIT"] {
            run(&mut ann, "BEGIN");
            run(&mut ann, changes);
            let seen = rows(&mut ann, "SELECT more FROM t");
            assert_eq!(seen[0].get::<_, i32>(0), 2, "it sees its own changes");
            run(&mut ann, end);
            let is_committed = end == "COMMIT";
            assert_eq!(is_there(&mut ben, "v"), is_committed);
            assert_eq!(count(&mut ben, "t"), 1);
            let id = rows(&mut ben, "SELECT id FROM t")[0].get::<_, i32>(0);
            assert_eq!(id, if is_committed { 2 } else { 1 });
            assert_eq!(ben.query("SELECT more FROM t", &[]).is_ok(), is_committed);
        }
        run(&mut ben, "INSERT INTO t VALUES (3, 'three', 3)");
        drop((ann, ben));
        service.stop().expect("it stops");
        if folder.is_some() {
            let service = restart(&scratch);
            let mut ann = connect(&service);
            assert_eq!(count(&mut ann, "t"), 2);
            assert_eq!(count(&mut ann, "v"), 2);
            run(&mut ann, "DROP TABLE v");
            drop(ann);
            service.stop().expect("it stops");
            let service = restart(&scratch);
            let mut ann = connect(&service);
            assert!(!is_there(&mut ann, "v"));
            drop(ann);
            service.stop().expect("it stops");
        }
    }
}

#[test]
fn a_change_that_fails_leaves_everything_as_it_was() {
    let scratch = Scratch::new("schema-failure");
    for folder in [None, Some(&*scratch.0)] {
        let service = start_in(&[], Guarantee::Serializable, options(), folder).expect("it starts");
        let mut ann = connect(&service);
        run(&mut ann, "CREATE TABLE a (id integer, n integer)");
        run(&mut ann, "CREATE TABLE p (id integer PRIMARY KEY)");
        run(&mut ann, "INSERT INTO a VALUES (1, 1), (1, 2), (3, NULL)");
        for (change, code) in [
            ("ALTER TABLE a ADD PRIMARY KEY (id)", "23505"),
            ("ALTER TABLE a ADD UNIQUE (id)", "23505"),
            ("CREATE UNIQUE INDEX i ON a (id)", "23505"),
            ("ALTER TABLE a ALTER COLUMN n SET NOT NULL", "23502"),
            ("ALTER TABLE a ADD CHECK (id < 3)", "23514"),
            ("ALTER TABLE a ADD FOREIGN KEY (id) REFERENCES p", "23503"),
            (
                "ALTER TABLE a ALTER COLUMN n TYPE integer USING 1 / (n - 1)",
                "22012",
            ),
            ("CREATE TABLE a (id integer)", "42P07"),
        ] {
            let (found, message) = refused(&mut ann, change);
            assert_eq!(found, code, "{change}: {message}");
            run(&mut ann, "BEGIN");
            run(&mut ann, "INSERT INTO a VALUES (9, 9)");
            assert_eq!(refused(&mut ann, change).0, code, "{change}");
            assert_eq!(refused(&mut ann, "SELECT 1").0, "25P02");
            run(&mut ann, "ROLLBACK");
            assert_eq!(count(&mut ann, "a"), 3, "after {change}");
        }
        run(&mut ann, "INSERT INTO a VALUES (1, 1)");
        drop(ann);
        service.stop().expect("it stops");
    }
}

#[test]
fn a_change_waits_for_open_transactions_and_others_wait_for_it() {
    let service = empty();
    let (mut ann, mut ben, mut cleo) = (connect(&service), connect(&service), connect(&service));
    run(&mut ann, TABLE);
    run(&mut ben, "BEGIN; INSERT INTO t VALUES (1, 'one')");
    run(&mut ann, "SET lock_timeout = 100");
    let (code, _) = refused(&mut ann, "ALTER TABLE t ADD COLUMN more integer");
    assert_eq!(code, "55P03", "it does not wait for longer");
    run(&mut cleo, "SELECT 1 FROM t WHERE id = 2");
    run(&mut ann, "SET lock_timeout = 0");
    let (sender, changed) = channel();
    let altering = std::thread::spawn(move || {
        run(&mut ann, "ALTER TABLE t ADD COLUMN more integer");
        sender.send(()).expect("it is waited for");
        ann
    });
    std::thread::sleep(Duration::from_millis(100));
    assert!(changed.try_recv().is_err(), "it waits");
    let reading = std::thread::spawn(move || {
        let found = rows(&mut cleo, "SELECT more FROM t");
        (cleo, found.len())
    });
    std::thread::sleep(Duration::from_millis(100));
    assert!(!reading.is_finished(), "others wait for the change");
    run(&mut ben, "INSERT INTO t VALUES (2, 'two'); COMMIT");
    changed
        .recv_timeout(Duration::from_secs(20))
        .expect("it goes on");
    let (_, found) = reading.join().expect("it reads");
    assert_eq!(found, 2);
    drop(altering.join().expect("it changes"));
    service.stop().expect("it stops");
}

#[test]
fn two_transactions_that_wait_for_each_other_do_not_wait_for_ever() {
    let service = empty();
    let (mut ann, mut ben) = (connect(&service), connect(&service));
    run(&mut ann, TABLE);
    run(&mut ann, "INSERT INTO t VALUES (1, 'one')");
    run(&mut ann, "BEGIN; UPDATE t SET name = 'ann' WHERE id = 1");
    run(&mut ben, "BEGIN; SELECT 1 FROM t WHERE id = 7");
    let altering = std::thread::spawn(move || {
        run(&mut ann, "ALTER TABLE t ADD COLUMN a integer");
        run(&mut ann, "COMMIT");
    });
    std::thread::sleep(Duration::from_millis(100));
    let (code, _) = refused(&mut ben, "ALTER TABLE t ADD COLUMN b integer");
    assert_eq!(code, "40P01");
    run(&mut ben, "ROLLBACK");
    altering.join().expect("it changes");
    let name = rows(&mut ben, "SELECT name, a FROM t")[0].get::<_, String>(0);
    assert_eq!(
        name, "ann",
        "what ran before the change is committed with it"
    );
    service.stop().expect("it stops");
}

/// More than a statement may hold, by a client that changes the schema; a rollback takes back what has been written.
#[test]
fn a_copy_of_any_size_fits_where_no_other_session_looks() {
    use std::io::Write;
    let mut limited = options();
    limited.statement_bytes_max = 12 << 20;
    let service = start_with(&[], Guarantee::Serializable, limited);
    let mut ann = connect(&service);
    run(&mut ann, TABLE);
    run(&mut ann, "CREATE TABLE u (id integer PRIMARY KEY)");
    run(&mut ann, "INSERT INTO t VALUES (-1, 'kept')");
    let copy = |client: &mut Client, lines: i32| -> Result<u64, postgres::Error> {
        let mut writer = client.copy_in("COPY t FROM STDIN")?;
        for id in 0..lines {
            let line = format!("{id}\t{}\n", "x".repeat(200));
            writer.write_all(line.as_bytes()).expect("it is buffered");
        }
        writer.finish()
    };
    // Fewer rows at a time than a statement may hold.
    let count_all = |client: &mut Client| -> i64 {
        let parts = (-1..8).map(|part| {
            let from = part * 10_000;
            let query = format!("t WHERE id >= {from} AND id < {from} + 10000");
            count(client, &query)
        });
        parts.sum()
    };
    run(&mut ann, "BEGIN; INSERT INTO u VALUES (1)");
    let error = copy(&mut ann, 80_000).expect_err("it is too large");
    assert_eq!(error.code().map(SqlState::code), Some("53200"));
    run(&mut ann, "ROLLBACK");
    // By itself it becomes a transaction that runs alone.
    let mut ben = connect(&service);
    assert_eq!(copy(&mut ann, 80_000).expect("it fits"), 80_000);
    assert_eq!(count_all(&mut ben), 80_001);
    let error = copy(&mut ann, 80_000).expect_err("the rows are there");
    assert_eq!(error.code().map(SqlState::code), Some("23505"));
    assert_eq!(count_all(&mut ben), 80_001);
    run(&mut ben, "TRUNCATE t");
    run(&mut ann, "INSERT INTO t VALUES (-1, 'kept')");
    for end in ["ROLLBACK", "COMMIT"] {
        run(
            &mut ann,
            "BEGIN; INSERT INTO u VALUES (1); TRUNCATE t; INSERT INTO u VALUES (2)",
        );
        assert_eq!(copy(&mut ann, 80_000).expect("it fits"), 80_000);
        assert_eq!(count_all(&mut ann), 80_000);
        run(&mut ann, "UPDATE t SET name = 'y' WHERE id = 7");
        run(&mut ann, end);
        let expected = if end == "COMMIT" { (80_000, 2) } else { (1, 0) };
        assert_eq!((count_all(&mut ann), count(&mut ann, "u")), expected);
    }
    run(&mut ann, "BEGIN; ALTER TABLE u ADD COLUMN more integer");
    let error = copy(&mut ann, 80_000).expect_err("the rows are there");
    assert_eq!(error.code().map(SqlState::code), Some("23505"));
    run(&mut ann, "ROLLBACK");
    assert_eq!(count_all(&mut ann), 80_000);
    service.stop().expect("it stops");
}

/// The first transaction has no locks while it waits for the second, which writes what the first has read.
#[test]
fn a_waiting_change_holds_nothing_and_notices_what_has_changed() {
    let service = empty();
    let (mut ann, mut ben) = (connect(&service), connect(&service));
    run(&mut ann, TABLE);
    run(&mut ann, "INSERT INTO t VALUES (1, 'one')");
    run(&mut ben, "BEGIN; INSERT INTO t VALUES (5, 'five')");
    run(&mut ann, "BEGIN");
    assert_eq!(rows(&mut ann, "SELECT name FROM t WHERE id = 1").len(), 1);
    let altering = std::thread::spawn(move || {
        let code = refused(&mut ann, "ALTER TABLE t ADD COLUMN a integer").0;
        run(&mut ann, "ROLLBACK");
        (ann, code)
    });
    std::thread::sleep(Duration::from_millis(100));
    run(&mut ben, "UPDATE t SET name = 'ben' WHERE id = 1; COMMIT");
    let (mut ann, code) = altering.join().expect("it is answered");
    assert_eq!(code, "40001", "its client has seen another name");
    assert!(ann.query("SELECT a FROM t", &[]).is_err());
    assert_eq!(count(&mut ann, "t"), 2);
    service.stop().expect("it stops");
}

#[test]
fn a_client_that_goes_away_leaves_no_change_behind() {
    let service = empty();
    let mut ann = connect(&service);
    let config = format!(
        "host=127.0.0.1 port={} user=ben dbname=anabranch",
        service.address().port()
    );
    for _ in 0..5 {
        let mut ben = Client::connect(&config, NoTls).expect("it connects");
        run(&mut ben, "BEGIN");
        run(&mut ben, TABLE);
        run(&mut ben, "INSERT INTO t VALUES (1, 'one')");
        drop(ben);
        assert!(!is_there(&mut ann, "t"));
    }
    run(&mut ann, TABLE);
    service.stop().expect("it stops");
}

#[test]
fn prepared_statements_follow_the_schema() {
    let service = empty();
    let (mut ann, mut ben) = (connect(&service), connect(&service));
    run(&mut ann, TABLE);
    let insert = ben
        .prepare("INSERT INTO t (id, name) VALUES ($1, $2)")
        .expect("it prepares");
    let all = ben.prepare("SELECT * FROM t").expect("it prepares");
    let names = ben.prepare("SELECT name FROM t").expect("it prepares");
    ben.execute(&insert, &[&1, &"one"]).expect("it inserts");
    run(&mut ann, "CREATE TABLE a (id integer PRIMARY KEY)");
    ben.execute(&insert, &[&2, &"two"]).expect("it inserts");
    assert_eq!(ben.query(&all, &[]).expect("it reads").len(), 2);
    run(&mut ann, "ALTER TABLE t ADD COLUMN more integer");
    ben.execute(&insert, &[&3, &"three"]).expect("it inserts");
    assert_eq!(ben.query(&names, &[]).expect("it reads").len(), 3);
    let error = ben.query(&all, &[]).expect_err("it has a column more");
    assert_eq!(
        error.code(),
        Some(&SqlState::FEATURE_NOT_SUPPORTED),
        "{error:?}"
    );
    run(&mut ann, "DROP TABLE t");
    let error = ben
        .execute(&insert, &[&4, &"four"])
        .expect_err("it is gone");
    assert_eq!(error.code(), Some(&SqlState::UNDEFINED_TABLE));
    service.stop().expect("it stops");
}

/// The driver asks the catalogs for a type that it does not know, and sends labels under the type's number.
#[test]
fn enumerations_outlive_a_restart() {
    let scratch = Scratch::new("schema-enumerations");
    let service = start_in(&[], Guarantee::Serializable, options(), Some(&scratch.0));
    let service = service.expect("it starts");
    let mut ann = connect(&service);
    // One text: the table names a type of the statement before it.
    run(
        &mut ann,
        "CREATE TYPE mood AS ENUM ('sad', 'happy');
         CREATE TABLE t (id integer PRIMARY KEY, m mood NOT NULL DEFAULT 'happy'::mood);
         CREATE INDEX ON t (m);
         INSERT INTO t VALUES (1, 'happy'), (2, 'sad')",
    );
    run(&mut ann, "ALTER TYPE mood ADD VALUE 'ok' BEFORE 'happy'");
    run(&mut ann, "INSERT INTO t VALUES (3, 'ok')");
    service.stop().expect("it stops");
    let service = restart(&scratch);
    let mut ann = connect(&service);
    let (code, message) = refused(&mut ann, "INSERT INTO t VALUES (4, 'bad')");
    assert_eq!(code, "22P02");
    assert_eq!(message, "invalid input value for enum mood: \"bad\"");
    let ids = |client: &mut Client, text: &str| -> Vec<i32> {
        let found = rows(client, text);
        found.iter().map(|row| row.get("id")).collect()
    };
    let in_order = ids(&mut ann, "SELECT id, m FROM t ORDER BY m");
    assert_eq!(in_order, [2, 3, 1]);
    let above = ids(&mut ann, "SELECT id FROM t WHERE m > 'sad' ORDER BY m DESC");
    assert_eq!(above, [1, 3]);
    let statement = ann
        .prepare("SELECT m FROM t WHERE m = $1")
        .expect("it prepares");
    let labels = ["sad", "ok", "happy"].map(str::to_owned).to_vec();
    for of in [&statement.params()[0], statement.columns()[0].type_()] {
        assert_eq!(
            (of.name(), of.kind()),
            ("mood", &Kind::Enum(labels.clone()))
        );
    }
    assert_eq!(refused(&mut ann, "DROP TYPE mood").0, "2BP01");
    run(&mut ann, "DROP TABLE t; DROP TYPE mood");
    assert_eq!(refused(&mut ann, "SELECT 'ok'::mood").0, "42704");
    service.stop().expect("it stops");
}

/// A table that no declared type writes may be written by clients, also after a restart.
#[test]
fn a_planned_application_changes_too() {
    let scratch = Scratch::new("schema-planned");
    let files = [SHOP, PROCEDURES];
    let folder = Some(&*scratch.0);
    let service = start_in(&files, Guarantee::Invariants, options(), folder).expect("it starts");
    let mut ann = connect(&service);
    run(&mut ann, "CALL add_item(1, 'apple', 5)");
    run(
        &mut ann,
        "ALTER TABLE items ADD COLUMN colour text DEFAULT 'red'",
    );
    run(&mut ann, "CALL restock(1, 3)");
    let found = rows(&mut ann, "SELECT stock, colour FROM items");
    assert_eq!((found[0].get(0), found[0].get(1)), (8, "red"));
    run(
        &mut ann,
        "CREATE PROCEDURE paint(p_item integer, p_colour text) LANGUAGE SQL BEGIN ATOMIC \
         UPDATE items SET colour = p_colour WHERE id = p_item; END",
    );
    run(&mut ann, "CALL paint(1, 'green')");
    let found = rows(&mut ann, "SELECT colour FROM items");
    assert_eq!(found[0].get::<_, &str>(0), "green");
    run(
        &mut ann,
        "CREATE TABLE colours (name text PRIMARY KEY, code integer)",
    );
    run(&mut ann, "INSERT INTO colours VALUES ('green', 3)");
    drop(ann);
    service.stop().expect("it stops");
    let service = restart(&scratch);
    let mut ann = connect(&service);
    run(&mut ann, "INSERT INTO colours VALUES ('red', 1)");
    assert_eq!(count(&mut ann, "colours"), 2);
    drop(ann);
    service.stop().expect("it stops");
}

const STOCK: &str = "
CREATE TABLE colours (name text PRIMARY KEY, warm boolean NOT NULL);
CREATE TABLE items (id integer PRIMARY KEY, stock integer NOT NULL CHECK (stock >= 0), colour text REFERENCES colours);
CREATE TABLE sales (id serial PRIMARY KEY, item integer NOT NULL REFERENCES items);
CREATE ASSERTION few_items CHECK ((SELECT count(*) FROM items) < 4);
CREATE PROCEDURE sell(p_id integer) LANGUAGE SQL BEGIN ATOMIC
    UPDATE items SET stock = stock - 1 WHERE id = p_id;
END;
CREATE PROCEDURE add_item(p_id integer, p_stock integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO items (id, stock) VALUES (p_id, p_stock);
END;
CREATE PROCEDURE order_item(p_id integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO sales (item) VALUES (p_id);
END;
";

/// What the plan leaves no room for runs alone, in a transaction or by itself, and keeps what is declared.
#[test]
fn a_transaction_that_the_plan_has_no_room_for_runs_alone() {
    for guarantee in [Guarantee::Invariants, Guarantee::Serializable] {
        let is_planned = guarantee == Guarantee::Invariants;
        let service = start_with(&[STOCK], guarantee, options());
        let (mut ann, mut ben) = (connect(&service), connect(&service));
        run(&mut ann, "CALL add_item(1, 5); CALL add_item(2, 7)");
        // No procedure writes colours: each partition has a copy. None deletes items.
        let writes = "INSERT INTO colours VALUES ('red', true), ('blue', false)";
        assert_eq!(refused(&mut ann, writes).0, "0A000");
        let deletes = "DELETE FROM items WHERE id = 2";
        if is_planned {
            // A sale counts on its item, as long as no transaction type deletes items.
            assert_eq!(refused(&mut ann, deletes).0, "55000");
        }
        run(&mut ann, "SET anabranch.alone = on");
        run(&mut ann, writes);
        let mut hurried = connect(&service);
        run(&mut hurried, "SET lock_timeout = 100");
        run(&mut ann, "BEGIN");
        assert_eq!(count(&mut ann, "colours"), 2);
        run(&mut ann, deletes);
        run(
            &mut ann,
            "UPDATE colours SET warm = NOT warm WHERE name = 'blue'",
        );
        run(&mut ann, "UPDATE items SET colour = 'blue' WHERE id = 1");
        assert_eq!(count(&mut ann, "items"), 1);
        // Others wait, and see nothing of it.
        assert_eq!(refused(&mut hurried, "SELECT 1 FROM items").0, "55P03");
        let (sender, receiver) = channel();
        let waits = std::thread::spawn(move || {
            let seen = count(&mut ben, "items");
            sender.send(seen).expect("it is awaited");
            ben
        });
        assert!(receiver.recv_timeout(Duration::from_millis(300)).is_err());
        run(&mut ann, "ROLLBACK");
        assert_eq!(receiver.recv().expect("it comes"), 2);
        let mut ben = waits.join().expect("it ends");
        // What is declared holds for it, too.
        let too_many = "INSERT INTO items SELECT n, 1, 'red' FROM generate_series(10, 14) AS n";
        assert_eq!(refused(&mut ann, too_many).0, "23514");
        assert_eq!(refused(&mut ann, "UPDATE items SET stock = -1").0, "23514");
        assert_eq!(
            refused(&mut ann, "INSERT INTO colours VALUES ('red', false)").0,
            "23505"
        );
        assert_eq!(refused(&mut ann, "DELETE FROM nowhere").0, "42P01");
        run(&mut ann, deletes);
        run(&mut ann, "UPDATE colours SET warm = true");
        run(&mut ann, "UPDATE items SET colour = 'red' WHERE id = 1");
        run(&mut ann, "RESET anabranch.alone");
        // Every partition's copy: a connection's node reads its own.
        let mut others: Vec<Client> = (0..8).map(|_| connect(&service)).collect();
        for client in others.iter_mut().chain([&mut ben]) {
            let warm = rows(client, "SELECT name, warm FROM colours ORDER BY name");
            let warm: Vec<(String, bool)> =
                warm.iter().map(|row| (row.get(0), row.get(1))).collect();
            assert_eq!(warm, [("blue".to_owned(), true), ("red".to_owned(), true)]);
        }
        run(&mut ben, "CALL sell(1)");
        let left = rows(&mut ben, "SELECT stock FROM items WHERE colour = 'red'");
        assert_eq!(left[0].get::<_, i32>(0), 4);
        assert_eq!(refused(&mut ben, "SET anabranch.alnoe = on").0, "42704");
        drop(ann);
        service.stop().expect("it stops");
    }
}

/// Two that write alone, each by itself, wait for each other's end, and not for each other.
#[test]
fn transactions_that_run_alone_queue_up() {
    let service = start_with(&[STOCK], Guarantee::Invariants, options());
    let mut ann = connect(&service);
    run(&mut ann, "CALL add_item(1, 0)");
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let mut client = connect(&service);
            std::thread::spawn(move || {
                run(&mut client, "SET anabranch.alone = on");
                for _ in 0..10 {
                    run(
                        &mut client,
                        "UPDATE items SET stock = stock + 1 WHERE id = 1",
                    );
                }
            })
        })
        .collect();
    for client in clients {
        client.join().expect("no write is refused");
    }
    let stock = rows(&mut ann, "SELECT stock FROM items");
    assert_eq!(stock[0].get::<_, i32>(0), 40);
    drop(ann);
    service.stop().expect("it stops");
}

const RENTALS: &str = "
CREATE TABLE boat (id integer PRIMARY KEY);
CREATE TABLE rental (id serial PRIMARY KEY, boat integer NOT NULL, low integer NOT NULL, high integer NOT NULL);
CREATE PROCEDURE put(p_id integer, p_boat integer, p_low integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO rental (id, boat, low, high) VALUES (p_id, p_boat, p_low, p_low + 1);
END;
CREATE PROCEDURE cancel(p_id integer) LANGUAGE SQL BEGIN ATOMIC
    DELETE FROM rental WHERE id = p_id;
END;
";

const RENT: &str =
    "CREATE FUNCTION rent(p_boat integer, p_low integer, OUT rented integer) LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM rental WHERE boat = p_boat AND low < p_low + 1 AND high > p_low) THEN
        RAISE EXCEPTION 'taken';
    END IF;
    INSERT INTO rental (boat, low, high) VALUES (p_boat, p_low, p_low + 1) RETURNING id INTO rented;
END; $$";

/// Rows move to the column that guards name once all keys are drawn. Keys that were given before, or are given by what
/// runs alone, are never drawn.
#[test]
fn rows_apart_from_their_keys_have_one_each() {
    let scratch = Scratch::new("schema-apart");
    for folder in [None, Some(&*scratch.0)] {
        let service =
            start_in(&[RENTALS], Guarantee::Invariants, options(), folder).expect("it starts");
        let mut ann = connect(&service);
        keys_are_given_and_drawn(&mut ann);
        drop(ann);
        service.stop().expect("it stops");
    }
    let service = restart(&scratch);
    let mut ann = connect(&service);
    assert!(rent(&mut ann, 4, 20) > 62);
    let found = rows(&mut ann, "SELECT count(*), count(DISTINCT id) FROM rental");
    assert_eq!((found[0].get(0), found[0].get(1)), (14i64, 14i64));
    for id in [5, 12, 60] {
        run(&mut ann, &format!("CALL cancel({id})"));
        assert!(rows(&mut ann, &format!("SELECT 1 FROM rental WHERE id = {id}")).is_empty());
    }
    assert_eq!(count(&mut ann, "rental"), 11);
    drop(ann);
    service.stop().expect("it stops");
}

/// The key of a new rental.
fn rent(client: &mut Client, boat: i32, low: i32) -> i32 {
    rows(client, &format!("SELECT rent({boat}, {low})"))[0].get(0)
}

const GIVE: &str = "INSERT INTO rental (id, boat, low, high) VALUES (60, 9, 1, 2)";

fn keys_are_given_and_drawn(ann: &mut Client) {
    run(
        ann,
        "CALL put(5, 1, 1); CALL put(7, 2, 1); CALL put(12, 3, 1)",
    );
    run(ann, "SELECT setval('rental_id_seq', 6)");
    // Keys are given: the table is placed by them.
    run(ann, RENT);
    run(
        ann,
        "INSERT INTO rental (id, boat, low, high) VALUES (4, 4, 1, 2)",
    );
    run(ann, "DROP PROCEDURE put");
    // Now it is placed by boats.
    assert_eq!(refused(ann, GIVE).0, "55000");
    assert_eq!(
        refused(ann, "UPDATE rental SET boat = 2 WHERE id = 5").0,
        "55000"
    );
    let mut last = 12;
    for boat in 1..=6 {
        let id = rent(ann, boat, 5);
        assert!(id > last, "{id} after {last}");
        last = id;
    }
    assert!(refused(ann, "SELECT rent(3, 1)").1.contains("taken"));
    run(ann, "SET anabranch.alone = on");
    for boat in 1..=3 {
        let twice = format!("INSERT INTO rental (id, boat, low, high) VALUES (12, {boat}, 8, 9)");
        assert_eq!(refused(ann, &twice).0, "23505");
    }
    assert_eq!(
        refused(ann, "UPDATE rental SET boat = 2 WHERE id = 5").0,
        "0A000"
    );
    run(ann, GIVE);
    run(ann, "RESET anabranch.alone");
    // The next number of each node, whatever partition draws it.
    assert!(rent(ann, 2, 20) > 60);
    assert!(rent(ann, 9, 20) > 60);
    run(ann, "DELETE FROM rental WHERE boat = 9 AND low = 20");
    run(ann, "ALTER SEQUENCE rental_id_seq RESTART WITH 1");
    assert!(rent(ann, 3, 20) > 61);
}

/// Rows that another version has placed by their keys stay there until the schema changes. Then its client is told.
#[test]
fn rows_stay_where_a_folder_has_them_until_the_schema_changes() {
    let drawn = RENTALS.replace(
        "CREATE PROCEDURE put(p_id integer, p_boat integer, p_low integer)",
        "CREATE PROCEDURE put(p_boat integer, p_low integer)",
    );
    let drawn = drawn
        .replace("(id, boat, low, high)", "(boat, low, high)")
        .replace("(p_id, p_boat,", "(p_boat,");
    let scratch = Scratch::new("schema-held");
    let service = start_placed(
        &[&drawn, RENT],
        (Guarantee::Invariants, true),
        options(),
        Some(&scratch.0),
    );
    let service = service.expect("it starts");
    let mut ann = connect(&service);
    for boat in 1..=4 {
        rent(&mut ann, boat, 5);
    }
    run(&mut ann, GIVE);
    drop(ann);
    service.stop().expect("it stops");
    for _ in 0..2 {
        let service = restart(&scratch);
        let mut ann = connect(&service);
        assert_eq!(count(&mut ann, "rental"), 5);
        // The key places them, so that clients may give it.
        run(
            &mut ann,
            "INSERT INTO rental (id, boat, low, high) VALUES (70, 9, 3, 4)",
        );
        assert_eq!(refused(&mut ann, GIVE).0, "23505");
        run(&mut ann, "DELETE FROM rental WHERE id = 70");
        assert!(refused(&mut ann, "SELECT rent(3, 5)").1.contains("taken"));
        drop(ann);
        service.stop().expect("it stops");
    }
    let service = restart(&scratch);
    let (mut ann, notices) = told(&service);
    run(&mut ann, "CREATE TABLE harbour (id integer PRIMARY KEY)");
    let lines = take(&notices);
    assert_eq!(lines.len(), 1, "{lines:?}");
    let expected =
        "the rows of table \"rental\" move: they are placed by boat now, and were by id: ";
    assert!(lines[0].starts_with(expected), "{lines:?}");
    let is_local = "\"rent\" is local now, and was global";
    assert!(lines[0].contains(is_local), "{lines:?}");
    assert_eq!(
        refused(&mut ann, GIVE.replace("60", "61").as_str()).0,
        "55000"
    );
    assert!(rent(&mut ann, 3, 8) > 60);
    run(&mut ann, "ALTER TABLE harbour ADD COLUMN name text");
    assert_eq!(take(&notices), [""; 0], "it has moved");
    drop(ann);
    service.stop().expect("it stops");
    let service = restart(&scratch);
    let (mut ann, notices) = told(&service);
    assert_eq!(refused(&mut ann, GIVE).0, "55000");
    assert!(refused(&mut ann, "SELECT rent(3, 8)").1.contains("taken"));
    assert_eq!(count(&mut ann, "rental"), 6);
    // A procedure that gives keys takes them back.
    run(
        &mut ann,
        "CREATE PROCEDURE give(p_id integer) LANGUAGE SQL BEGIN ATOMIC
        INSERT INTO rental (id, boat, low, high) VALUES (p_id, 9, 30, 31); END",
    );
    let lines = take(&notices);
    assert_eq!(lines.len(), 1, "{lines:?}");
    for expected in [
        "placed by id now, and were by boat",
        "\"rent\" is global now",
    ] {
        assert!(lines[0].contains(expected), "{lines:?}");
    }
    drop(ann);
    service.stop().expect("it stops");
}

/// One partition sees all keys: nothing is asked of a client that gives one.
#[test]
fn one_partition_places_rows_by_their_keys() {
    let drawn = RENTALS.replace("CREATE PROCEDURE put", "CREATE PROCEDURE unused");
    let drawn = &drawn[..drawn.find("CREATE PROCEDURE unused").expect("it is there")];
    let place = |partitions: u16, guarantee: Guarantee| {
        let files = [drawn, RENT].map(|text| SourceFile::new("application.sql", text));
        let catalog = anabranch_sql::load(files.to_vec()).expect("it loads");
        let application = Application::compile(catalog).expect("it compiles");
        let planned = plan_application(application, (partitions, guarantee), RowsBefore::default());
        planned.plan.placements[1].clone()
    };
    let by = |column: u16| Placement::Columns(vec![ColumnIndex(column)]);
    assert_eq!(place(1, Guarantee::Invariants), by(0));
    assert_eq!(place(2, Guarantee::Invariants), by(1));
    assert_eq!(place(2, Guarantee::Serializable), by(0));
}
