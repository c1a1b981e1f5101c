//! What a type is shown to keep when it runs alone, and what is evaluated before it commits.

use anabranch_analysis::explore::{Effort, Explorer};
use anabranch_analysis::plan::Plan;
use anabranch_analysis::{Guarantee, Topology, analyze};
use anabranch_sql::SourceFile;

use crate::support::entry;

const BANK: &str = "
    CREATE TABLE branch (id integer PRIMARY KEY, funds integer NOT NULL DEFAULT 0);
    CREATE TABLE account (id integer PRIMARY KEY, branch integer NOT NULL REFERENCES branch (id),
                          balance integer NOT NULL, bonus integer);
    CREATE TABLE entry (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
                        account integer NOT NULL REFERENCES account (id), amount integer NOT NULL);
    CREATE ASSERTION funds_add_up CHECK (NOT EXISTS (SELECT * FROM branch WHERE funds <>
        (SELECT coalesce(sum(balance), 0) FROM account WHERE account.branch = branch.id)));";

/// Returns the plan of one procedure over a bank, after an attack on it.
fn plan_of(schema: &str, procedure: &str) -> Plan {
    let files = vec![SourceFile::new(
        "test.sql",
        format!("{schema}\n{procedure}"),
    )];
    let application = anabranch_sql::load(files.clone())
        .and_then(anabranch_sql::Application::compile)
        .unwrap_or_else(|found| panic!("{}", anabranch_sql::render(&found, &files)));
    let plan = analyze(
        application.catalog(),
        application.summaries(),
        Topology::Partitioned,
        Guarantee::Invariants,
    );
    let effort = Effort {
        cases: 2_000,
        before_max: 0,
        calls_max: 1,
    };
    let found = Explorer::new(&application, &plan).attack(1, effort);
    assert_eq!(found, None, "{procedure}");
    plan
}

fn checked(schema: &str, procedure: &str) -> bool {
    let plan = plan_of(schema, procedure);
    !entry(&plan, "t").checks.is_empty()
}

fn plpgsql(parameters: &str, body: &str) -> String {
    format!(
        "CREATE PROCEDURE t({parameters}) LANGUAGE plpgsql AS $$
         DECLARE v integer; w integer; BEGIN {body} END; $$;"
    )
}

#[test]
fn statements_that_run_together_keep_a_sum() {
    for body in [
        // A group without its own total is not compared.
        "INSERT INTO account (id, branch, balance) VALUES (a, b, n);
         UPDATE branch SET funds = funds + n WHERE id = b;",
        // If the row is not found, RETURNING gives NULL, and no total is found by NULL.
        "UPDATE account SET balance = balance + n WHERE id = a RETURNING branch INTO v;
         UPDATE branch SET funds = funds + n WHERE id = v;",
        "DELETE FROM account WHERE id = a RETURNING branch, balance INTO v, w;
         UPDATE branch SET funds = funds - w WHERE id = v;",
        "IF n > 0 THEN
             INSERT INTO account (id, branch, balance) VALUES (a, b, 1);
             UPDATE branch SET funds = funds + 1 WHERE id = b;
         END IF;",
        "INSERT INTO branch (id) VALUES (b);",
    ] {
        assert!(
            !checked(BANK, &plpgsql("a integer, b integer, n integer", body)),
            "{body}"
        );
    }
}

#[test]
fn statements_that_may_not_run_or_find_nothing_are_checked() {
    for body in [
        // An account that may not exist.
        "UPDATE account SET balance = balance + n WHERE id = a AND branch = b;
         UPDATE branch SET funds = funds + n WHERE id = b;",
        // An account that exists only under a condition.
        "SELECT branch INTO v FROM account WHERE id = a AND branch = b;
         UPDATE account SET balance = balance + n WHERE id = a;
         UPDATE branch SET funds = funds + n WHERE id = v;",
        "INSERT INTO account (id, branch, balance) VALUES (a, b, n);
         IF n > 1 THEN UPDATE branch SET funds = funds + n WHERE id = b; END IF;",
        "INSERT INTO account (id, branch, balance) VALUES (a, b, n);
         IF n > 1 THEN RETURN; END IF;
         UPDATE branch SET funds = funds + n WHERE id = b;",
        "INSERT INTO account (id, branch, balance) VALUES (a, b, n) ON CONFLICT DO NOTHING;
         UPDATE branch SET funds = funds + n WHERE id = b;",
        "INSERT INTO account (id, branch, balance) SELECT a, b, n WHERE n > 1;
         UPDATE branch SET funds = funds + n WHERE id = b;",
        "INSERT INTO account (id, branch, balance) VALUES (a, b, n);
         UPDATE branch SET funds = funds + n WHERE id = b AND funds > 0;",
        "FOR i IN 1..n LOOP
             UPDATE branch SET funds = funds + 1 WHERE id = b;
         END LOOP;
         INSERT INTO account (id, branch, balance) VALUES (a, b, 1);",
        "INSERT INTO branch (id, funds) VALUES (b, n);",
        "DELETE FROM account WHERE branch = b;
         UPDATE branch SET funds = 0 WHERE id = b;",
    ] {
        assert!(
            checked(BANK, &plpgsql("a integer, b integer, n integer", body)),
            "{body}"
        );
    }
}

#[test]
fn a_row_that_an_insert_refers_to_exists() {
    let of_entries = BANK.replace("funds_add_up", "of_branches")
        + "CREATE ASSERTION of_entries CHECK (NOT EXISTS (SELECT * FROM account WHERE balance <>
               (SELECT coalesce(sum(amount), 0) FROM entry WHERE entry.account = account.id)));";
    let body = "INSERT INTO entry (account, amount) VALUES (a, n);
        UPDATE account SET balance = balance + n WHERE id = a RETURNING branch INTO v;
        UPDATE branch SET funds = funds + n WHERE id = v;";
    assert!(!checked(
        &of_entries,
        &plpgsql("a integer, n integer", body)
    ));
    // Both sides are rows of other tables: the account surely exists, since an entry refers to it.
    let two_sums = "CREATE TABLE grp (id integer PRIMARY KEY);
        CREATE TABLE one (id integer PRIMARY KEY, g integer NOT NULL, n integer NOT NULL);
        CREATE TABLE two (id integer PRIMARY KEY, g integer NOT NULL, n integer NOT NULL);
        CREATE TABLE log (one integer NOT NULL REFERENCES one (id));
        CREATE ASSERTION same CHECK (NOT EXISTS (SELECT * FROM grp WHERE
            (SELECT coalesce(sum(n), 0) FROM one WHERE one.g = grp.id)
            <> (SELECT coalesce(sum(n), 0) FROM two WHERE two.g = grp.id)));";
    let body = "UPDATE one SET n = n + k WHERE id = a; UPDATE two SET n = n + k WHERE id = a;";
    assert!(checked(two_sums, &plpgsql("a integer, k integer", body)));
}

#[test]
fn steps_away_from_a_bound_are_kept_and_first_rows_are_checked() {
    let table = "CREATE TABLE part (id integer PRIMARY KEY, n integer NOT NULL CHECK (n >= 0));";
    let insert = "CREATE PROCEDURE t(p integer, k integer) LANGUAGE SQL BEGIN ATOMIC
        INSERT INTO part (id, n) VALUES (p, 1); END;";
    let with = |condition: &str| format!("{table} CREATE ASSERTION it CHECK ({condition});");
    // The sum of no rows is NULL, which satisfies every bound, or the value of coalesce.
    assert!(checked(&with("(SELECT sum(n) FROM part) >= 2"), insert));
    assert!(checked(
        &with("(SELECT coalesce(sum(n), 3) FROM part) >= 2"),
        insert
    ));
    assert!(!checked(&with("(SELECT count(*) FROM part) >= 2"), insert));
    assert!(checked(&with("(SELECT count(*) FROM part) <= 2"), insert));
    let step = "CREATE PROCEDURE t(p integer) LANGUAGE SQL BEGIN ATOMIC
        UPDATE part SET n = n + 1 WHERE id = p; END;";
    assert!(!checked(&with("(SELECT sum(n) FROM part) >= 2"), step));
}

#[test]
fn an_author_may_declare_an_assertion_kept() {
    let body = "UPDATE account SET balance = balance + n WHERE id = a AND branch = b;
        UPDATE branch SET funds = funds + n WHERE id = b;";
    let procedure = plpgsql("a integer, b integer, n integer", body);
    let says = format!("-- Accounts are there.\n-- anabranch: keeps funds_add_up\n{procedure}");
    let files = vec![SourceFile::new("test.sql", format!("{BANK}\n{says}"))];
    let catalog = anabranch_sql::load(files).expect("it loads");
    let application = anabranch_sql::Application::compile(catalog).expect("it compiles");
    let plan = analyze(
        application.catalog(),
        application.summaries(),
        Topology::Partitioned,
        Guarantee::Invariants,
    );
    let of = entry(&plan, "t");
    assert!(of.checks.is_empty());
    let declared_by_author: Vec<&str> = of
        .declared_by_author
        .iter()
        .map(|i| plan.invariants[*i].name.as_str())
        .collect();
    assert_eq!(declared_by_author, ["funds_add_up"]);
    for (wrong, code) in [
        ("keeps funds_ad_up", "42704"),
        ("trusts funds_add_up", "42601"),
    ] {
        let text = format!("{BANK}\n-- anabranch: {wrong}\n{procedure}");
        let problems = anabranch_sql::load(vec![SourceFile::new("test.sql", text)]).unwrap_err();
        assert_eq!(problems[0].code, code, "{problems:?}");
    }
}
