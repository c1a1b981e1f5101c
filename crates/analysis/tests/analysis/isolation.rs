//! Isolation beside invariants: what is read, computed and written must not be lost.

use anabranch_analysis::plan::Confluence::{No, Yes};
use anabranch_analysis::plan::{CoordinationClass, MergePolicy, Plan};
use anabranch_sql::source::SourceFile;
use anabranch_sql::summary::ResultUse::{Carried, Used};

use crate::regressions::explored;
use crate::support::{Application, entry, expect};

fn app() -> Application {
    Application::new("CREATE TABLE t (id uuid PRIMARY KEY, n integer, m integer, state text);")
}

const ROW: [(&str, &str); 1] = [("id", "p_id")];

fn merge(app: &Application, plan: &Plan, column: &str) -> MergePolicy {
    let table = app.table("t");
    let column = app.column(table, column);
    let found = plan
        .columns
        .iter()
        .find(|c| c.table == table && c.column == column);
    found.expect("a policy").policy
}

#[test]
fn increments_and_functions_of_the_row_lose_nothing() {
    let mut app = app();
    app.transaction("add", &["p_id"])
        .update("t", &[("n", "+=1")], &ROW)
        .done();
    app.transaction("double", &["p_id"])
        .update("t", &[("m", "row")], &ROW)
        .done();
    app.transaction("put", &["p_id", "p_s"])
        .update("t", &[("state", "p_s")], &ROW)
        .done();
    let plan = app.plan();
    expect(&plan, "add", "isolation(t)", Yes, "commutative-update");
    expect(&plan, "double", "isolation(t)", Yes, "owner-order");
    expect(&plan, "put", "isolation(t)", Yes, "blind-write");
    assert_eq!(merge(&app, &plan, "n"), MergePolicy::Counter);
    assert_eq!(merge(&app, &plan, "m"), MergePolicy::OwnerOrder);
    assert_eq!(merge(&app, &plan, "state"), MergePolicy::LastWriter);
}

#[test]
fn a_register_written_from_what_was_read_loses_updates() {
    let mut app = app();
    app.transaction("bump", &["p_id"])
        .select("t", &["n"], &ROW)
        .result(Used)
        .update("t", &[("n", "@0.n")], &ROW)
        .done();
    let plan = app.plan();
    expect(&plan, "bump", "isolation(t)", No, "lost-update");
    assert_eq!(merge(&app, &plan, "n"), MergePolicy::Guarded);
    let bump = entry(&plan, "bump");
    assert_eq!(bump.class, CoordinationClass::Local);
    assert_eq!(
        (bump.guarded_reads.len(), bump.guarded_writes.len()),
        (1, 1)
    );
}

#[test]
fn so_does_one_written_from_data_that_the_statement_reads() {
    let mut app = app();
    app.transaction("bump", &["p_id"])
        .update("t", &[("n", "data")], &ROW)
        .reading(&["n"])
        .done();
    expect(&app.plan(), "bump", "isolation(t)", No, "lost-update");
}

#[test]
fn a_read_check_write_is_ordered_with_every_other_change() {
    let mut app = app();
    app.transaction("withdraw", &["p_id", "p_x"])
        .select("t", &["n"], &ROW)
        .result(Used)
        .update("t", &[("n", "-p_x")], &ROW)
        .done();
    app.transaction("deposit", &["p_id", "p_x"])
        .update("t", &[("n", "+p_x")], &ROW)
        .done();
    app.transaction("label", &["p_id", "p_x"])
        .update("t", &[("state", "p_x")], &ROW)
        .done();
    let plan = app.plan();
    expect(&plan, "withdraw", "isolation(t)", No, "read-check-write");
    expect(&plan, "deposit", "isolation(t)", No, "read-check-write");
    expect(&plan, "label", "isolation(t)", Yes, "blind-write");
}

#[test]
fn reading_for_the_client_alone_is_free() {
    let mut app = app();
    app.transaction("show", &["p_id"])
        .update("t", &[("n", "+=1")], &ROW)
        .select("t", &["n"], &ROW)
        .result(Carried)
        .done();
    assert_eq!(entry(&app.plan(), "show").class, CoordinationClass::Free);
}

#[test]
fn a_claim_by_compare_and_set_is_ordered() {
    let mut app = app();
    app.transaction("claim", &["p_id"])
        .update("t", &[("state", "=1")], &[("id", "p_id"), ("state", "=0")])
        .result(Used)
        .done();
    expect(&app.plan(), "claim", "isolation(t)", No, "read-check-write");
}

#[test]
fn two_calls_cannot_take_the_same_row_from_a_queue() {
    let mut app = Application::new(
        "CREATE TABLE queue (shop integer, n integer, PRIMARY KEY (shop, n));
         CREATE TABLE done (id uuid PRIMARY KEY, n integer);",
    );
    app.transaction("take", &["p_shop"])
        .select("queue", &["n"], &[("shop", "p_shop")])
        .result(Used)
        .delete("queue", &[("shop", "p_shop"), ("n", "min@0.n")])
        .insert("done", &[("id", "fresh"), ("n", "min@0.n")])
        .done();
    let plan = app.plan();
    expect(&plan, "take", "isolation(queue)", No, "read-check-write");
    let take = entry(&plan, "take");
    assert_eq!(take.class, CoordinationClass::Local);
    let key: Vec<&str> = take.guards[0].key.iter().map(|k| k.name.as_str()).collect();
    assert_eq!(key, ["shop"]);
    assert_eq!(take.guarded_writes.len(), 1);
    // A type that puts chosen numbers into the queue may change which is the least.
    app.transaction("put", &["p_shop", "p_n"])
        .insert("queue", &[("shop", "p_shop"), ("n", "p_n")])
        .done();
    expect(
        &app.plan(),
        "put",
        "isolation(queue)",
        No,
        "read-check-write",
    );
}

#[test]
fn a_delete_whose_result_is_unused_is_idempotent() {
    let mut app = app();
    app.transaction("drop", &["p_id"]).delete("t", &ROW).done();
    assert_eq!(entry(&app.plan(), "drop").class, CoordinationClass::Free);
}

/// `caller` does nothing but call; the called procedure is declared, too.
fn calling(called: &str) -> Plan {
    let text = format!(
        "CREATE TABLE t (id integer PRIMARY KEY, n integer NOT NULL);
         CREATE TABLE gone (id integer PRIMARY KEY, n integer NOT NULL);
         {called}
         CREATE FUNCTION caller(p_id integer, p_n integer) RETURNS void LANGUAGE plpgsql AS $$
         BEGIN PERFORM called(p_id, p_n); END; $$;"
    );
    Application::compiled(vec![SourceFile::new("test.sql", text)]).plan()
}

#[test]
fn a_call_is_ordered_as_what_it_does() {
    let plan = calling(
        "CREATE FUNCTION called(p_id integer, p_n integer) RETURNS void LANGUAGE plpgsql AS $$
         DECLARE v integer;
         BEGIN
             SELECT n INTO v FROM t WHERE id = p_id;
             IF v > 0 THEN v := p_n; END IF;
             UPDATE t SET n = v + p_n WHERE id = p_id;
         END; $$;",
    );
    for name in ["called", "caller"] {
        expect(&plan, name, "isolation(t)", No, "lost-update");
        let found = entry(&plan, name);
        assert_eq!(found.class, CoordinationClass::Local, "{name}");
        assert_eq!(found.routing, [0], "{name}");
        assert!(!found.read_only, "{name}");
    }
    assert_ne!(
        entry(&plan, "called").guarded_writes,
        entry(&plan, "caller").guarded_writes
    );
}

#[test]
fn what_a_delete_returns_is_used() {
    let plan = calling(
        "CREATE FUNCTION called(p_id integer, p_n integer) RETURNS void LANGUAGE plpgsql AS $$
         DECLARE v integer;
         BEGIN
             DELETE FROM t WHERE id = p_id RETURNING n INTO v;
             INSERT INTO gone VALUES (p_id, v + 1);
         END; $$;
         CREATE FUNCTION more(p_id integer, p_n integer) RETURNS void LANGUAGE SQL BEGIN ATOMIC
             UPDATE t SET n = n + p_n WHERE id = p_id;
         END;",
    );
    // An amount that is added between the DELETE's read and its commit would be in neither table.
    expect(&plan, "called", "isolation(t)", No, "read-check-write");
    expect(&plan, "more", "isolation(t)", No, "read-check-write");
}

const RAISES: &str = "
CREATE TABLE people (id integer PRIMARY KEY, team integer NOT NULL, pay integer NOT NULL);
CREATE TABLE teams (id integer PRIMARY KEY, total integer NOT NULL);
CREATE PROCEDURE pay_more(p integer, amount integer) LANGUAGE plpgsql AS $$
DECLARE
    t integer;
BEGIN
    UPDATE people SET pay = pay + amount WHERE id = p RETURNING team INTO t;
    UPDATE teams SET total = total + amount WHERE id = t;
END $$;";

/// An UPDATE relies on the columns that it returns, not on all that it reads: an increment whose row's team is
/// returned needs no guard, and is deferred to the row's owner.
#[test]
fn an_update_relies_on_the_columns_that_it_returns() {
    let compiled = |more: &str| {
        let file = SourceFile::new("raises.sql", format!("{RAISES}{more}"));
        Application::compiled(vec![file]).plan()
    };
    let alone = compiled("");
    expect(
        &alone,
        "pay_more",
        "isolation(people)",
        Yes,
        "commutative-update",
    );
    assert!(entry(&alone, "pay_more").guards.is_empty());
    assert_eq!(entry(&alone, "pay_more").deferred.len(), 2);
    // If a type changes teams, what was returned may change before the commit: the row must be as it was read, and
    // the UPDATE is not deferred.
    let moving = compiled(
        "
CREATE PROCEDURE join_team(p integer, t integer) LANGUAGE SQL BEGIN ATOMIC
    UPDATE people SET team = t WHERE id = p;
END;",
    );
    assert_eq!(entry(&moving, "pay_more").deferred.len(), 1);
    // If the new pay itself is used, it is a guard.
    let used = compiled(
        "
CREATE PROCEDURE pay_less(p integer) LANGUAGE plpgsql AS $$
DECLARE
    left_over integer;
BEGIN
    UPDATE people SET pay = pay - 1 WHERE id = p RETURNING pay INTO left_over;
    IF left_over < 0 THEN
        RAISE EXCEPTION 'too little';
    END IF;
END $$;",
    );
    expect(
        &used,
        "pay_less",
        "isolation(people)",
        No,
        "read-check-write",
    );
}

/// Rows that a type has read, acts on, and takes away by a cascade: two calls would both act on them (seed 74664 of forms).
#[test]
fn what_a_cascade_takes_away_is_not_read_by_two() {
    let sql = "CREATE TABLE acct (id integer PRIMARY KEY, n bigint NOT NULL DEFAULT 0, owner integer);
         CREATE TABLE link (a integer REFERENCES acct (id) ON DELETE CASCADE ON UPDATE CASCADE, b integer,
             PRIMARY KEY (a, b));
         CREATE PROCEDURE fold(p integer, q integer) LANGUAGE plpgsql AS $$
         DECLARE v bigint;
         BEGIN BODY END $$;";
    for body in [
        "UPDATE acct SET n = (SELECT count(*) FROM link WHERE b = p) WHERE id = p; DELETE FROM acct WHERE owner = p;",
        "SELECT count(*) INTO v FROM link WHERE b = p; UPDATE acct SET n = v WHERE id = p; DELETE FROM acct WHERE owner = p;",
        "SELECT count(*) INTO v FROM link WHERE b = p; IF v = 0 THEN RAISE EXCEPTION 'no'; END IF;
             DELETE FROM acct WHERE owner = p;",
        "SELECT max(a) INTO v FROM link WHERE b = p; UPDATE acct SET n = v WHERE id = p; UPDATE acct SET id = q WHERE id = p;",
    ] {
        let plan = explored(&sql.replace("BODY", body));
        expect(&plan, "fold", "isolation(link)", No, "read-check-write");
        assert!(!entry(&plan, "fold").guards.is_empty(), "{body}");
    }
    // What is read for the client alone decides nothing.
    let body = "DELETE FROM acct WHERE owner = p;";
    let plan = explored(&sql.replace("BODY", body));
    expect(&plan, "fold", "isolation(link)", Yes, "blind-write");
}
