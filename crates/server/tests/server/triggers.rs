//! Triggers, over a restart, under both guarantees, and by COPY.

use anabranch_server::service::Guarantee;
use postgres::Client;

use crate::schema::{refused, rows, run};
use crate::support::*;

const SCHEMA: &str = "
    CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN NEW.changes := coalesce(OLD.changes, 0) + 1; NEW.changed_at := now(); RETURN NEW; END $$;
    CREATE TABLE p (id integer PRIMARY KEY);
    CREATE TABLE t (
        id integer PRIMARY KEY, p integer REFERENCES p ON UPDATE CASCADE, changes integer, changed_at timestamptz
    );
    CREATE TRIGGER touch BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION touch();
    INSERT INTO p VALUES (1), (2);
    INSERT INTO t (id, p) VALUES (1, 1), (2, 2)";

/// Each row, without its time, which every row has.
fn shown(client: &mut Client) -> Vec<String> {
    let found = rows(
        client,
        "SELECT concat_ws(' ', id, p, changes, changed_at IS NOT NULL) AS row FROM t ORDER BY id",
    );
    found.iter().map(|row| row.get("row")).collect()
}

#[test]
fn triggers_outlive_a_restart() {
    let scratch = Scratch::new("schema-triggers");
    let service = start_in(&[], Guarantee::Serializable, options(), Some(&scratch.0));
    let service = service.expect("it starts");
    let mut ann = connect(&service);
    run(&mut ann, SCHEMA);
    run(&mut ann, "UPDATE t SET changes = 100 WHERE id = 1");
    assert_eq!(shown(&mut ann), ["1 1 2 t", "2 2 1 t"]);
    service.stop().expect("it stops");
    let service = restart(&scratch);
    let mut ann = connect(&service);
    run(&mut ann, "UPDATE p SET id = 30 WHERE id = 2");
    let mut copy = ann.copy_in("COPY t (id, p) FROM STDIN").expect("it copies");
    std::io::Write::write_all(&mut copy, b"3\t30\n4\t\\N\n").expect("it is sent");
    assert_eq!(copy.finish().expect("it is copied"), 2);
    assert_eq!(
        shown(&mut ann),
        ["1 1 2 t", "2 30 2 t", "3 30 1 t", "4 1 t"]
    );
    // Into a table that the transaction itself has emptied.
    run(&mut ann, "BEGIN; TRUNCATE t");
    let mut copy = ann
        .copy_in("COPY t (id, changes) FROM STDIN")
        .expect("it copies");
    std::io::Write::write_all(&mut copy, b"5\t50\n").expect("it is sent");
    copy.finish().expect("it is copied");
    run(&mut ann, "COMMIT");
    assert_eq!(shown(&mut ann), ["5 1 t"]);
    let definition = rows(
        &mut ann,
        "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 't'::regclass",
    );
    let definition: String = definition[0].get(0);
    assert_eq!(
        definition,
        "CREATE TRIGGER touch BEFORE INSERT OR UPDATE ON public.t FOR EACH ROW EXECUTE FUNCTION touch()"
    );
    let (code, _) = refused(&mut ann, "DROP FUNCTION touch()");
    assert_eq!(code, "2BP01");
    run(&mut ann, "DROP TRIGGER touch ON t; DROP FUNCTION touch()");
    run(&mut ann, "UPDATE t SET changes = 7");
    assert_eq!(shown(&mut ann), ["5 7 t"]);
    service.stop().expect("it stops");
}

/// A prepared statement fires the triggers that there are when it runs.
#[test]
fn triggers_fire_for_prepared_statements() {
    for guarantee in [Guarantee::Serializable, Guarantee::Invariants] {
        let service = start_with(&[], guarantee, options());
        let mut ann = connect(&service);
        run(
            &mut ann,
            "CREATE TABLE t (id integer PRIMARY KEY, n integer, m integer)",
        );
        run(&mut ann, "INSERT INTO t VALUES (1, 0, 0)");
        let statement = ann
            .prepare("UPDATE t SET n = n + $1 WHERE id = 1")
            .expect("it is prepared");
        assert_eq!(ann.execute(&statement, &[&1]).expect("it runs"), 1);
        run(
            &mut ann,
            "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.m := NEW.n; RETURN NEW; END';
             CREATE TRIGGER f BEFORE UPDATE OF n ON t FOR EACH ROW EXECUTE FUNCTION f()",
        );
        assert_eq!(ann.execute(&statement, &[&4]).expect("it runs"), 1);
        let found = rows(&mut ann, "SELECT n, m FROM t");
        assert_eq!(
            (found[0].get::<_, i32>(0), found[0].get::<_, i32>(1)),
            (5, 5)
        );
        service.stop().expect("it stops");
    }
}

/// Declared procedures fire them, also where an UPDATE is deferred to the owner of the row.
#[test]
fn declared_procedures_fire_triggers() {
    const FILE: &str = "
        CREATE TABLE t (id integer PRIMARY KEY, n integer NOT NULL, last integer, seen timestamptz);
        CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN NEW.last := OLD.n; NEW.seen := now(); RETURN NEW; END $$;
        CREATE TRIGGER remember BEFORE INSERT OR UPDATE OF n ON t FOR EACH ROW EXECUTE FUNCTION remember();
        CREATE PROCEDURE put(i integer, x integer) LANGUAGE SQL BEGIN ATOMIC
            INSERT INTO t (id, n, last) VALUES (i, x, x); END;
        CREATE PROCEDURE grow(i integer, x integer) LANGUAGE SQL BEGIN ATOMIC
            UPDATE t SET n = n + x WHERE id = i; END;";
    for guarantee in [Guarantee::Serializable, Guarantee::Invariants] {
        let service = start_with(&[FILE], guarantee, options());
        let mut ann = connect(&service);
        run(&mut ann, "CALL put(1, 10)");
        let of = |client: &mut Client| {
            let found = rows(client, "SELECT n, last, seen IS NOT NULL FROM t");
            let row = &found[0];
            (
                row.get::<_, i32>(0),
                row.get::<_, Option<i32>>(1),
                row.get::<_, bool>(2),
            )
        };
        assert_eq!(of(&mut ann), (10, None, true));
        run(&mut ann, "CALL grow(1, 5)");
        assert_eq!(of(&mut ann), (15, Some(10), true));
        run(&mut ann, "UPDATE t SET last = 7");
        assert_eq!(of(&mut ann), (15, Some(7), true));
        let found = rows(
            &mut ann,
            "SELECT trigger_name, event_manipulation, action_order, action_statement
             FROM information_schema.triggers ORDER BY 2",
        );
        let events: Vec<String> = found.iter().map(|row| row.get(1)).collect();
        assert_eq!(events, ["INSERT", "UPDATE"]);
        assert_eq!(found[0].get::<_, String>(3), "EXECUTE FUNCTION remember()");
        service.stop().expect("it stops");
    }
}
