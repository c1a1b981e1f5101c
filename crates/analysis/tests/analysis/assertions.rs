//! Assertions are recognised by their meaning, however they are written; for any other text, the analyser neither
//! panics nor calls it safe.

use anabranch_analysis::plan::Confluence::{No, Unknown, Yes};
use anabranch_analysis::plan::InvariantKind;

use crate::support::{Application, entry, expect, verdict};

const TABLES: &str = "
    CREATE TABLE a (id integer PRIMARY KEY, total integer NOT NULL, n integer NOT NULL, state text);
    CREATE TABLE b (id uuid PRIMARY KEY, a integer REFERENCES a (id), x integer NOT NULL,
                    y integer NOT NULL, done text);
    CREATE VIEW sums (owner, amount) AS SELECT a, sum(x) FROM b GROUP BY a;";

fn app(condition: &str) -> Application {
    Application::new(&format!(
        "{TABLES} CREATE ASSERTION it CHECK ({condition});"
    ))
}

fn kind(condition: &str) -> InvariantKind {
    app(condition).plan().invariants[0].kind
}

#[test]
fn sums_are_found_in_every_way_of_writing() {
    for condition in [
        "NOT EXISTS (SELECT * FROM a WHERE total <> (SELECT sum(x) FROM b WHERE b.a = a.id))",
        "NOT EXISTS (SELECT 1 FROM a WHERE (SELECT coalesce(sum(x), 0) FROM b WHERE a.id = b.a) <> total)",
        "NOT EXISTS (SELECT 1 FROM a WHERE NOT (total = (SELECT sum(b.x) FROM b WHERE b.a = a.id)))",
        "NOT EXISTS (SELECT 1 FROM a WHERE total IS DISTINCT FROM (SELECT sum(x) FROM b WHERE b.a = a.id))",
        "NOT EXISTS (SELECT 1 FROM a AS v JOIN (SELECT a AS o, sum(x) AS s FROM b GROUP BY a) AS w \
                     ON w.o = v.id WHERE v.total <> w.s)",
        "NOT EXISTS (SELECT 1 FROM a JOIN sums ON owner = id WHERE total <> amount)",
        "NOT (EXISTS (SELECT * FROM a WHERE total - (SELECT sum(x) FROM b WHERE b.a = a.id) <> 0))",
    ] {
        let mut app = app(condition);
        app.transaction("add", &["p_a", "p_x"])
            .insert(
                "b",
                &[("id", "fresh"), ("a", "p_a"), ("x", "p_x"), ("y", "=0")],
            )
            .update("a", &[("total", "+p_x")], &[("id", "p_a")])
            .done();
        app.transaction("half", &["p_a", "p_x"])
            .insert(
                "b",
                &[("id", "fresh"), ("a", "p_a"), ("x", "p_x"), ("y", "=0")],
            )
            .done();
        let plan = app.plan();
        assert_eq!(
            plan.invariants[0].kind,
            InvariantKind::MaterializedView,
            "{condition}"
        );
        expect(&plan, "add", "it", Yes, "mv-update");
        expect(&plan, "half", "it", Unknown, "mv-unmaintained");
    }
}

#[test]
fn kinds_are_distinguished() {
    use InvariantKind::*;
    for (condition, expected) in [
        (
            "NOT EXISTS (SELECT a FROM b GROUP BY a HAVING max(x) - min(x) + 1 <> count(*))",
            SequentialId,
        ),
        (
            "NOT EXISTS (SELECT 1 FROM a WHERE n <> (SELECT max(x) FROM b WHERE b.a = a.id))",
            SequentialId,
        ),
        (
            "NOT EXISTS (SELECT 1 FROM a WHERE (state IS NULL) <> EXISTS (SELECT * FROM b WHERE b.a = a.id))",
            Existence,
        ),
        (
            "NOT EXISTS (SELECT 1 FROM a JOIN b ON b.a = a.id WHERE (state IS NULL) <> (done IS NULL))",
            Existence,
        ),
        (
            "NOT EXISTS (SELECT 1 FROM b WHERE NOT EXISTS (SELECT * FROM a WHERE a.id = b.a))",
            Existence,
        ),
        (
            "NOT EXISTS (SELECT 1 FROM b LEFT JOIN a ON a.id = b.a WHERE a.id IS NULL)",
            Existence,
        ),
        ("NOT EXISTS (SELECT 1 FROM a WHERE total < 0)", LowerBound),
        ("NOT EXISTS (SELECT 1 FROM a WHERE total > 9)", UpperBound),
        ("NOT EXISTS (SELECT 1 FROM a WHERE total < n)", RowCheck),
        (
            "NOT EXISTS (SELECT 1 FROM a WHERE (SELECT sum(x) FROM b WHERE b.a = a.id) > 5)",
            UpperBound,
        ),
        ("(SELECT count(*) FROM b) >= 2", LowerBound),
        ("EXISTS (SELECT * FROM a)", NonEmpty),
        ("(SELECT count(*) FROM a) = 4", Size),
        // What is not recognised is reported as such.
        (
            "NOT EXISTS (SELECT 1 FROM a WHERE total <> (SELECT avg(x) FROM b WHERE b.a = a.id))",
            Other,
        ),
        (
            "NOT EXISTS (SELECT 1 FROM a WHERE total <> (SELECT count(DISTINCT x) FROM b WHERE b.a = a.id))",
            Other,
        ),
        ("NOT EXISTS (SELECT 1 FROM a, b WHERE total = x)", Other),
        (
            "NOT EXISTS (SELECT 1 FROM a WHERE total * n <> 4 * (SELECT sum(x) FROM b))",
            Other,
        ),
        ("NOT EXISTS (SELECT count(*) FROM a WHERE total < 0)", Other),
        ("EXISTS (SELECT max(id) FROM a)", Other),
        (
            "NOT EXISTS (SELECT 1 FROM a AS c(id, total, n) WHERE total < 0)",
            Other,
        ),
        ("1 = 1 OR 2 = 2", Other),
        ("(SELECT x FROM b LIMIT 1) = 3", Other),
    ] {
        assert_eq!(kind(condition), expected, "{condition}");
    }
}

#[test]
fn a_filter_that_a_row_moves_through_counts() {
    let condition = "NOT EXISTS (SELECT 1 FROM a WHERE total <> (SELECT coalesce(sum(x), 0) FROM b \
                     WHERE b.a = a.id AND done IS NOT NULL))";
    let mut app = app(condition);
    app.transaction("open", &["p_a", "p_x"])
        .insert(
            "b",
            &[("id", "fresh"), ("a", "p_a"), ("x", "p_x"), ("y", "=0")],
        )
        .done();
    let finish = |app: &mut Application, name: &str| {
        app.transaction(name, &["p_a", "p_b"])
            .update("b", &[("done", "=1")], &[("id", "p_b")])
            .update("a", &[("total", "+?")], &[("id", "p_a")])
            .done();
    };
    finish(&mut app, "finish");
    let plan = app.plan();
    // A new row is not in the sum, whatever its values; finishing one twice counts it twice.
    assert!(plan.entry("open").is_some_and(|e| e.verdict(0).is_none()));
    expect(&plan, "finish", "it", No, "mv-transition");
    let finish = entry(&plan, "finish");
    assert_eq!(finish.guards.iter().filter(|g| g.item == "b").count(), 1);
}

#[test]
fn both_ways_of_an_equivalence_need_order() {
    let condition = "NOT EXISTS (SELECT 1 FROM a JOIN b ON b.a = a.id \
                     WHERE (state IS NULL) <> (done IS NULL))";
    let mut app = app(condition);
    let set = |app: &mut Application, name: &str, to: &str| {
        app.transaction(name, &["p_a"])
            .update("a", &[("state", to)], &[("id", "p_a")])
            .update("b", &[("done", to)], &[("a", "p_a")])
            .done();
    };
    set(&mut app, "close", "=1");
    expect(&app.plan(), "close", "it", Yes, "iff-one-way");
    set(&mut app, "reopen", "null");
    expect(&app.plan(), "close", "it", No, "iff-two-way");
    expect(&app.plan(), "reopen", "it", No, "iff-two-way");
}

#[test]
fn a_row_inserted_during_a_closing_breaks_an_equivalence() {
    let condition = "NOT EXISTS (SELECT 1 FROM a JOIN b ON b.a = a.id \
                     WHERE (state IS NULL) <> (done IS NULL))";
    let mut app = app(condition);
    app.transaction("close", &["p_a"])
        .update("a", &[("state", "=1")], &[("id", "p_a")])
        .update("b", &[("done", "=1")], &[("a", "p_a")])
        .done();
    app.transaction("add", &["p_a"])
        .insert(
            "b",
            &[("id", "fresh"), ("a", "p_a"), ("x", "=1"), ("y", "=1")],
        )
        .done();
    expect(&app.plan(), "add", "it", No, "iff-two-way");
    expect(&app.plan(), "close", "it", No, "iff-two-way");
}

#[test]
fn one_side_of_an_equivalence_changed_alone_is_unmaintained() {
    let condition = "NOT EXISTS (SELECT 1 FROM a WHERE (state IS NULL) <> EXISTS (\
                     SELECT * FROM b WHERE b.a = a.id))";
    let mut app = app(condition);
    app.transaction("turn", &["p_a"])
        .update("a", &[("state", "=1")], &[("id", "p_a")])
        .done();
    expect(&app.plan(), "turn", "it", Unknown, "iff-unmaintained");
}

#[test]
fn gaps_and_other_ends_of_a_sequence() {
    let condition =
        "NOT EXISTS (SELECT a FROM b GROUP BY a HAVING max(x) - min(x) + 1 <> count(*))";
    let mut app = app(condition);
    app.transaction("append", &["p_a"])
        .update("a", &[("n", "+=1")], &[("id", "p_a")])
        .result(anabranch_sql::summary::ResultUse::Carried)
        .insert(
            "b",
            &[("id", "fresh"), ("a", "p_a"), ("x", "#0.n"), ("y", "=0")],
        )
        .done();
    let plan = app.plan();
    expect(&plan, "append", "it", No, "sequential-insert");
    assert_eq!(entry(&plan, "append").guards.len(), 1);
    // Deleting rows anywhere must be ordered with appending.
    app.transaction("remove", &["p_b"])
        .delete("b", &[("id", "p_b")])
        .done();
    let plan = app.plan();
    expect(&plan, "remove", "it", No, "sequential-delete");
    assert!(entry(&plan, "append").guards.iter().any(|g| g.item == "b"));
    assert_eq!(verdict(&plan, "append", "it").because, ["append", "remove"]);
}

#[test]
fn strange_catalogs_do_no_harm() {
    let mut app = Application::new(
        "CREATE TABLE nothing ();
         CREATE TABLE loose (a integer, b integer);
         CREATE TABLE self (id integer PRIMARY KEY, up integer REFERENCES self (id) ON DELETE CASCADE);
         CREATE TABLE wide (id integer PRIMARY KEY, v integer,
             CHECK (v > (CASE WHEN id > 3 THEN 1 ELSE 2 END)), CHECK (true), CHECK (NULL));
         CREATE ASSERTION tautology CHECK (1 = 1);
         CREATE ASSERTION deep CHECK (NOT EXISTS (SELECT * FROM loose WHERE a = 1 OR b = 2 AND a < b));",
    );
    app.transaction("nothing", &[]).done();
    app.transaction("prune", &["p_id"])
        .delete("self", &[("id", "p_id")])
        .done();
    app.transaction("graft", &["p_id", "p_up"])
        .insert("self", &[("id", "p_id"), ("up", "p_up")])
        .done();
    app.transaction("log", &["p_a"])
        .insert("loose", &[("a", "p_a"), ("b", "?")])
        .done();
    app.transaction("widen", &["p_id"])
        .update("wide", &[("v", "row")], &[("id", "p_id")])
        .done();
    let plan = app.plan();
    expect(&plan, "prune", "self_up_fkey", No, "fk-cascade");
    assert!(entry(&plan, "nothing").guards.is_empty());
    let text = anabranch_analysis::report::text::render(&plan, &app.catalog, &app.types);
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
}
