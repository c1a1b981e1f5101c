//! The paper's Table 2, row by row, and the rules beside it.

use anabranch_analysis::plan::Confluence::{No, Unknown, Yes};
use anabranch_analysis::plan::{CoordinationClass, GuardKeeping, Plan};
use anabranch_analysis::rule::RULES;
use anabranch_sql::summary::ResultUse::{Carried, Used};

use crate::support::{Application, entry, expect, try_verdict};

fn is_free(plan: &Plan, name: &str) -> bool {
    entry(plan, name).class == CoordinationClass::Free
}

const USERS: &str = "CREATE TABLE users (id uuid PRIMARY KEY, last_name text NOT NULL, \
                     kind text CHECK (kind IN ('a', 'b')), n integer CHECK (n <> 7));";

#[test]
fn rows_1_and_2_equality_and_inequality_hold_under_any_operation() {
    let mut app = Application::new(USERS);
    app.transaction("rename", &["p_id", "p_name", "p_kind", "p_n"])
        .update(
            "users",
            &[("last_name", "p_name"), ("kind", "p_kind"), ("n", "p_n")],
            &[("id", "p_id")],
        )
        .done();
    let plan = app.plan();
    for invariant in ["users_not_null", "users_kind_check", "users_n_check"] {
        expect(&plan, "rename", invariant, Yes, "eq-any");
    }
    assert!(is_free(&plan, "rename"));
}

#[test]
fn row_2_inequality_fails_for_counters() {
    let mut app = Application::new(USERS);
    app.transaction("count", &["p_id"])
        .update("users", &[("n", "+=1")], &[("id", "p_id")])
        .done();
    app.transaction("reset", &["p_id"])
        .update("users", &[("n", "=0")], &[("id", "p_id")])
        .done();
    let plan = app.plan();
    expect(&plan, "count", "users_n_check", No, "eq-counter");
    // An assignment that may come between the check of an increment and its commit must be ordered, too.
    expect(&plan, "reset", "users_n_check", No, "eq-counter");
}

#[test]
fn row_3_a_chosen_key_needs_its_owner() {
    let mut app = Application::new(USERS);
    app.transaction("hire_as", &["p_id", "p_name"])
        .insert("users", &[("id", "p_id"), ("last_name", "p_name")])
        .done();
    let plan = app.plan();
    expect(&plan, "hire_as", "users_pkey", No, "unique-chosen");
    let hire = entry(&plan, "hire_as");
    assert_eq!(hire.class, CoordinationClass::Local);
    assert_eq!(hire.routing, [0]);
    assert_eq!(hire.guards[0].keeping, GuardKeeping::Validated);
    assert_eq!(hire.guarded_writes.len(), 1);
}

#[test]
fn row_4_a_generated_key_is_free() {
    let mut app = Application::new(USERS);
    app.transaction("hire", &["p_name"])
        .insert("users", &[("id", "fresh"), ("last_name", "p_name")])
        .done();
    app.transaction("fire", &["p_id"])
        .delete("users", &[("id", "p_id")])
        .done();
    let plan = app.plan();
    expect(&plan, "hire", "users_pkey", Yes, "unique-generated");
    expect(&plan, "fire", "users_pkey", Yes, "unique-delete");
    assert!(is_free(&plan, "hire") && is_free(&plan, "fire"));
    assert!(!plan.needs_coordination());
}

#[test]
fn one_type_that_chooses_keys_makes_all_non_confluent() {
    let mut app = Application::new(USERS);
    app.transaction("hire", &["p_name"])
        .insert("users", &[("id", "fresh")])
        .done();
    app.transaction("hire_as", &["p_id"])
        .insert("users", &[("id", "p_id")])
        .done();
    let plan = app.plan();
    expect(&plan, "hire", "users_pkey", No, "unique-chosen");
    expect(&plan, "hire_as", "users_pkey", No, "unique-chosen");
    assert_eq!(
        entry(&plan, "hire")
            .verdicts
            .iter()
            .find(|v| v.confluent == No)
            .map(|v| v.because.clone()),
        Some(vec!["hire".to_owned(), "hire_as".to_owned()])
    );
}

const NUMBERED: &str = "CREATE TABLE series (s integer PRIMARY KEY, next integer NOT NULL);
    CREATE TABLE entry (s integer REFERENCES series (s), n integer, body text, PRIMARY KEY (s, n));
    CREATE TABLE part (s integer, n integer, i integer, PRIMARY KEY (s, n, i),
                       FOREIGN KEY (s, n) REFERENCES entry (s, n));";

#[test]
fn row_5_sequential_ids_are_decided_at_commit_where_they_are_only_carried() {
    let mut app = Application::new(NUMBERED);
    app.transaction("append", &["p_s"])
        .update("series", &[("next", "+=1")], &[("s", "p_s")])
        .result(Carried)
        .insert("entry", &[("s", "p_s"), ("n", "#0.next-1")])
        .insert("part", &[("s", "p_s"), ("n", "#0.next-1"), ("i", "pure")])
        .done();
    let plan = app.plan();
    expect(&plan, "append", "entry_pkey", No, "sequential-insert");
    expect(&plan, "append", "part_pkey", No, "sequential-insert");
    let append = entry(&plan, "append");
    assert_eq!(append.class, CoordinationClass::Local);
    assert_eq!(append.guards.len(), 1);
    assert_eq!(append.guards[0].item, "series.next");
    assert_eq!(append.guards[0].keeping, GuardKeeping::AtCommit);
    assert!(append.guarded_reads.is_empty() && append.guarded_writes.is_empty());
}

#[test]
fn row_5_a_number_that_is_used_is_held() {
    let mut app = Application::new(NUMBERED);
    app.transaction("append", &["p_s"])
        .update("series", &[("next", "+=1")], &[("s", "p_s")])
        .result(Used)
        .insert("entry", &[("s", "p_s"), ("n", "#0.next-1")])
        .done();
    let plan = app.plan();
    let append = entry(&plan, "append");
    let guard = append
        .guards
        .iter()
        .find(|g| g.item == "series.next")
        .expect("a guard");
    assert_eq!(guard.keeping, GuardKeeping::Validated);
    assert!(!append.guarded_reads.is_empty());
}

#[test]
fn row_5_a_number_of_another_counter_is_chosen() {
    let mut app = Application::new(NUMBERED);
    // The entry is inserted into another series than the one whose number it takes.
    app.transaction("append", &["p_s", "p_t"])
        .update("series", &[("next", "+=1")], &[("s", "p_t")])
        .result(Carried)
        .insert("entry", &[("s", "p_s"), ("n", "#0.next-1")])
        .done();
    expect(&app.plan(), "append", "entry_pkey", No, "unique-chosen");
}

#[test]
fn row_5_a_counter_that_decreases_gives_numbers_twice() {
    let mut app = Application::new(NUMBERED);
    app.transaction("append", &["p_s"])
        .update("series", &[("next", "+=1")], &[("s", "p_s")])
        .result(Carried)
        .insert("entry", &[("s", "p_s"), ("n", "#0.next-1")])
        .done();
    app.transaction("undo", &["p_s"])
        .update("series", &[("next", "-=1")], &[("s", "p_s")])
        .done();
    expect(&app.plan(), "append", "entry_pkey", No, "unique-chosen");
}

#[test]
fn row_5_the_highest_and_one_is_a_guard_on_the_group() {
    let mut app = Application::new(NUMBERED);
    app.transaction("append", &["p_s"])
        .select("entry", &["n"], &[("s", "p_s")])
        .result(Used)
        .insert("entry", &[("s", "p_s"), ("n", "max@0.n+1")])
        .done();
    let plan = app.plan();
    expect(&plan, "append", "entry_pkey", No, "sequential-insert");
    let append = entry(&plan, "append");
    assert_eq!(append.class, CoordinationClass::Local);
    let key: Vec<&str> = append.guards[0]
        .key
        .iter()
        .map(|k| k.name.as_str())
        .collect();
    assert_eq!(key, ["s"]);
}

#[test]
fn a_key_that_holds_a_new_parents_key_is_derived() {
    let mut app = Application::new(
        "CREATE TABLE cart (id uuid PRIMARY KEY);
         CREATE TABLE line (cart uuid REFERENCES cart (id), n integer, PRIMARY KEY (cart, n));",
    );
    app.transaction("open", &["p_id"])
        .insert("cart", &[("id", "p_id")])
        .insert("line", &[("cart", "p_id"), ("n", "=1")])
        .done();
    expect(&app.plan(), "open", "line_pkey", Yes, "unique-derived");
    // Another type that adds lines to carts makes it non-confluent.
    app.transaction("add", &["p_id", "p_n"])
        .insert("line", &[("cart", "p_id"), ("n", "p_n")])
        .done();
    expect(&app.plan(), "open", "line_pkey", No, "unique-chosen");
}

fn departments(action: &str) -> Application {
    Application::new(&format!(
        "CREATE TABLE dept (id uuid PRIMARY KEY);
         CREATE TABLE emp (id uuid PRIMARY KEY, dept uuid REFERENCES dept (id) {action});",
    ))
}

#[test]
fn rows_6_and_7_references_are_free_unless_parents_are_deleted() {
    let mut app = departments("");
    app.transaction("hire", &["p_dept"])
        .insert("emp", &[("id", "fresh"), ("dept", "p_dept")])
        .done();
    expect(&app.plan(), "hire", "emp_dept_fkey", Yes, "fk-insert");
    assert!(is_free(&app.plan(), "hire"));
    app.transaction("close", &["p_dept"])
        .delete("dept", &[("id", "p_dept")])
        .done();
    let plan = app.plan();
    expect(&plan, "hire", "emp_dept_fkey", No, "fk-delete");
    expect(&plan, "close", "emp_dept_fkey", No, "fk-delete");
    // Both are ordered on the department.
    for name in ["hire", "close"] {
        let guard = entry(&plan, name)
            .guards
            .iter()
            .find(|g| g.item == "dept")
            .expect("a guard");
        assert_eq!(guard.key[0].from, "p_dept");
        assert_eq!(entry(&plan, name).class, CoordinationClass::Local);
    }
}

#[test]
fn row_7_deleting_is_free_without_references() {
    let mut app = departments("");
    app.transaction("close", &["p_dept"])
        .delete("dept", &[("id", "p_dept")])
        .done();
    app.transaction("found", &["p_dept"])
        .insert("emp", &[("id", "fresh"), ("dept", "null")])
        .done();
    expect(&app.plan(), "close", "emp_dept_fkey", Yes, "fk-unopposed");
    assert!(try_verdict(&app.plan(), "found", "emp_dept_fkey").is_none());
}

#[test]
fn row_8_a_cascade_needs_a_merge_that_cascades() {
    let mut app = departments("ON DELETE CASCADE");
    app.transaction("hire", &["p_dept"])
        .insert("emp", &[("id", "fresh"), ("dept", "p_dept")])
        .done();
    app.transaction("close", &["p_dept"])
        .delete("dept", &[("id", "p_dept")])
        .done();
    let plan = app.plan();
    expect(&plan, "hire", "emp_dept_fkey", No, "fk-cascade");
    expect(&plan, "close", "emp_dept_fkey", No, "fk-cascade");
}

#[test]
fn a_cascade_counts_as_what_it_does() {
    let mut app = Application::new(
        "CREATE TABLE dept (id uuid PRIMARY KEY);
         CREATE TABLE emp (id uuid PRIMARY KEY, dept uuid REFERENCES dept (id) ON DELETE CASCADE);
         CREATE ASSERTION staffed CHECK (EXISTS (SELECT * FROM emp));",
    );
    app.transaction("close", &["p_dept"])
        .delete("dept", &[("id", "p_dept")])
        .done();
    expect(&app.plan(), "close", "staffed", No, "nonempty-delete");
}

#[test]
fn row_9_indexes_follow_their_rows() {
    let mut app = Application::new(
        "CREATE TABLE t (id uuid PRIMARY KEY, v integer); CREATE INDEX t_by_v ON t (v);",
    );
    app.transaction("set", &["p_id", "p_v"])
        .update("t", &[("v", "p_v")], &[("id", "p_id")])
        .done();
    expect(&app.plan(), "set", "t_by_v", Yes, "index-update");
}

const TOTALS: &str = "CREATE TABLE dept (id uuid PRIMARY KEY, total integer NOT NULL);
    CREATE TABLE emp (id uuid PRIMARY KEY, dept uuid REFERENCES dept (id), pay integer NOT NULL,
                      active boolean);
    CREATE ASSERTION totals CHECK (NOT EXISTS (
        SELECT * FROM dept
        WHERE total <> (SELECT coalesce(sum(pay), 0) FROM emp WHERE emp.dept = dept.id)));";

fn hiring(app: &mut Application) {
    app.transaction("hire", &["p_dept", "p_pay"])
        .insert(
            "emp",
            &[("id", "fresh"), ("dept", "p_dept"), ("pay", "p_pay")],
        )
        .update("dept", &[("total", "+p_pay")], &[("id", "p_dept")])
        .done();
}

#[test]
fn row_10_views_kept_by_increments_are_free() {
    let mut app = Application::new(TOTALS);
    hiring(&mut app);
    app.transaction("raise", &["p_dept", "p_emp", "p_pay"])
        .update("emp", &[("pay", "+p_pay")], &[("id", "p_emp")])
        .update("dept", &[("total", "+p_pay")], &[("id", "p_dept")])
        .done();
    let plan = app.plan();
    expect(&plan, "hire", "totals", Yes, "mv-update");
    expect(&plan, "raise", "totals", Yes, "mv-update");
    assert!(is_free(&plan, "hire") && is_free(&plan, "raise"));
}

#[test]
fn row_10_a_view_that_is_overwritten_is_not() {
    let mut app = Application::new(TOTALS);
    hiring(&mut app);
    app.transaction("recount", &["p_dept", "p_total"])
        .update("dept", &[("total", "p_total")], &[("id", "p_dept")])
        .done();
    let plan = app.plan();
    expect(&plan, "recount", "totals", No, "mv-overwrite");
    expect(&plan, "hire", "totals", No, "mv-overwrite");
}

#[test]
fn row_10_a_side_changed_alone_is_unmaintained() {
    let mut app = Application::new(TOTALS);
    app.transaction("hire", &["p_dept", "p_pay"])
        .insert(
            "emp",
            &[("id", "fresh"), ("dept", "p_dept"), ("pay", "p_pay")],
        )
        .done();
    expect(&app.plan(), "hire", "totals", Unknown, "mv-unmaintained");
    assert!(app.plan().needs_coordination());
}

#[test]
fn row_10_amounts_and_groups_must_agree() {
    let mut app = Application::new(TOTALS);
    app.transaction("double", &["p_dept", "p_pay", "p_other"])
        .insert(
            "emp",
            &[("id", "fresh"), ("dept", "p_dept"), ("pay", "p_pay")],
        )
        .update("dept", &[("total", "+p_other")], &[("id", "p_dept")])
        .done();
    app.transaction("stray", &["p_dept", "p_pay", "p_other"])
        .insert(
            "emp",
            &[("id", "fresh"), ("dept", "p_dept"), ("pay", "p_pay")],
        )
        .update("dept", &[("total", "+p_pay")], &[("id", "p_other")])
        .done();
    expect(&app.plan(), "double", "totals", Unknown, "mv-unmaintained");
    expect(&app.plan(), "stray", "totals", Unknown, "mv-unmaintained");
}

#[test]
fn row_10_two_dismissals_of_one_employee_subtract_the_pay_twice() {
    let mut app = Application::new(TOTALS);
    hiring(&mut app);
    app.transaction("dismiss", &["p_emp", "p_dept"])
        .delete("emp", &[("id", "p_emp")])
        .update("dept", &[("total", "-?")], &[("id", "p_dept")])
        .done();
    let plan = app.plan();
    expect(&plan, "dismiss", "totals", No, "mv-transition");
    // Hiring is not affected: a new row cannot be dismissed before it exists.
    expect(&plan, "hire", "totals", Yes, "mv-update");
}

#[test]
fn row_10_a_dismissal_that_uses_what_it_deletes_is_ordered_already() {
    let mut app = Application::new(TOTALS);
    app.transaction("dismiss", &["p_emp", "p_dept"])
        .delete("emp", &[("id", "p_emp")])
        .reading(&["pay"])
        .result(Used)
        .update("dept", &[("total", "-?")], &[("id", "p_dept")])
        .done();
    let plan = app.plan();
    expect(&plan, "dismiss", "isolation(emp)", No, "read-check-write");
    expect(&plan, "dismiss", "totals", Yes, "mv-update");
    assert_eq!(entry(&plan, "dismiss").guards.len(), 1);
}

fn account(check: &str) -> Application {
    Application::new(&format!(
        "CREATE TABLE account (id uuid PRIMARY KEY, balance integer CHECK ({check}));
         CREATE FUNCTION deposit(p_id uuid, p_amount integer) RETURNS void LANGUAGE plpgsql AS $$
         BEGIN
             IF p_amount IS NULL THEN RAISE EXCEPTION 'how much?'; END IF;
             IF p_amount < 0 THEN RAISE EXCEPTION 'not a deposit'; END IF;
             UPDATE account SET balance = balance + p_amount WHERE id = p_id;
         END; $$;"
    ))
}

fn changes(app: &mut Application) {
    let row = [("id", "p_id")];
    app.transaction("up", &["p_id"])
        .update("account", &[("balance", "+=5")], &row)
        .done();
    app.transaction("down", &["p_id"])
        .update("account", &[("balance", "-=5")], &row)
        .done();
    app.transaction("change", &["p_id", "p_amount"])
        .update("account", &[("balance", "+p_amount")], &row)
        .done();
    app.transaction("deposit", &["p_id", "p_amount"])
        .update("account", &[("balance", "+p_amount")], &row)
        .done();
}

#[test]
fn rows_11_and_13_above_a_bound() {
    for check in [
        "balance >= 0",
        "balance > -1",
        "0 <= balance",
        "NOT (balance < 0)",
    ] {
        let mut app = account(check);
        changes(&mut app);
        let plan = app.plan();
        let name = "account_balance_check";
        expect(&plan, "up", name, Yes, "gt-increment");
        expect(&plan, "down", name, No, "gt-decrement");
        // A parameter may be negative, unless the procedure refuses that.
        expect(&plan, "change", name, No, "gt-decrement");
        expect(&plan, "deposit", name, Yes, "gt-increment");
        let down = entry(&plan, "down");
        assert_eq!(down.class, CoordinationClass::Local);
        assert_eq!(down.guarded_writes.len(), 1);
        assert!(is_free(&plan, "up") && is_free(&plan, "deposit"));
    }
}

#[test]
fn rows_12_and_14_below_a_bound() {
    let mut app = account("balance <= 100");
    changes(&mut app);
    let plan = app.plan();
    let name = "account_balance_check";
    expect(&plan, "up", name, No, "lt-increment");
    expect(&plan, "down", name, Yes, "lt-decrement");
    expect(&plan, "change", name, No, "lt-increment");
    expect(&plan, "deposit", name, No, "lt-increment");
}

#[test]
fn bounds_on_both_sides_get_the_worse_verdict() {
    let mut app = account("balance BETWEEN 0 AND 100");
    changes(&mut app);
    expect(
        &app.plan(),
        "up",
        "account_balance_check",
        No,
        "lt-increment",
    );
    expect(
        &app.plan(),
        "down",
        "account_balance_check",
        No,
        "gt-decrement",
    );
}

#[test]
fn thresholds_hold_under_assignment() {
    let mut app = account("balance >= 0");
    app.transaction("set", &["p_id", "p_to"])
        .update("account", &[("balance", "p_to")], &[("id", "p_id")])
        .done();
    expect(
        &app.plan(),
        "set",
        "account_balance_check",
        Yes,
        "threshold-assign",
    );
    assert!(is_free(&app.plan(), "set"));
    // … unless a change of another type is checked against the assigned value.
    changes(&mut app);
    expect(
        &app.plan(),
        "set",
        "account_balance_check",
        No,
        "gt-decrement",
    );
}

#[test]
fn a_bound_on_what_a_row_computes_is_unknown() {
    let mut app = account("balance >= 0");
    app.transaction("halve", &["p_id"])
        .update("account", &[("balance", "row")], &[("id", "p_id")])
        .done();
    expect(
        &app.plan(),
        "halve",
        "account_balance_check",
        Unknown,
        "bound-computed",
    );
}

#[test]
fn rows_15_and_16_contains_and_row_17_size() {
    let mut app = Application::new(
        "CREATE TABLE member (name text PRIMARY KEY, kind text);
         CREATE ASSERTION has_root CHECK (EXISTS (SELECT * FROM member WHERE name = 'root'));
         CREATE ASSERTION no_evil CHECK (NOT EXISTS (SELECT * FROM member WHERE kind = 'evil'));
         CREATE ASSERTION exactly_three CHECK ((SELECT count(*) FROM member) = 3);
         CREATE ASSERTION few CHECK ((SELECT count(*) FROM member) <= 9);
         CREATE ASSERTION many CHECK (2 <= (SELECT count(*) FROM member));",
    );
    app.transaction("leave", &["p_name"])
        .delete("member", &[("name", "p_name")])
        .done();
    app.transaction("join", &["p_name", "p_kind"])
        .insert("member", &[("name", "p_name"), ("kind", "p_kind")])
        .done();
    let plan = app.plan();
    expect(&plan, "leave", "has_root", Yes, "contains-any");
    expect(&plan, "join", "no_evil", Yes, "eq-any");
    expect(&plan, "leave", "exactly_three", No, "size-mutation");
    expect(&plan, "join", "exactly_three", No, "size-mutation");
    expect(&plan, "join", "few", No, "lt-increment");
    expect(&plan, "leave", "few", Yes, "lt-decrement");
    expect(&plan, "join", "many", Yes, "gt-increment");
    expect(&plan, "leave", "many", No, "gt-decrement");
}

#[test]
fn at_least_one_fails_under_deletion() {
    let mut app = Application::new(&format!(
        "{USERS} CREATE ASSERTION staffed CHECK (EXISTS (SELECT * FROM users));"
    ));
    app.transaction("fire", &["p_id"])
        .delete("users", &[("id", "p_id")])
        .done();
    app.transaction("hire", &[])
        .insert("users", &[("id", "fresh")])
        .done();
    let plan = app.plan();
    expect(&plan, "fire", "staffed", No, "nonempty-delete");
    expect(&plan, "hire", "staffed", Yes, "nonempty-insert");
    assert_eq!(entry(&plan, "fire").class, CoordinationClass::Global);
}

#[test]
fn columns_that_must_fit_together() {
    let sql = "CREATE TABLE span (id uuid PRIMARY KEY, a integer, b integer, CHECK (a <= b));";
    let mut app = Application::new(sql);
    app.transaction("set", &["p_id", "p_a", "p_b"])
        .update("span", &[("a", "p_a"), ("b", "p_b")], &[("id", "p_id")])
        .done();
    expect(&app.plan(), "set", "span_check", Yes, "row-together");
    app.transaction("move", &["p_id", "p_a"])
        .update("span", &[("a", "p_a")], &[("id", "p_id")])
        .done();
    expect(&app.plan(), "set", "span_check", No, "row-mixed");
    expect(&app.plan(), "move", "span_check", No, "row-mixed");
}

#[test]
fn an_unrecognised_invariant_orders_everything() {
    let mut app = Application::new(&format!(
        "{USERS} CREATE ASSERTION odd CHECK (NOT EXISTS (
             SELECT * FROM users AS a JOIN users AS b ON a.n = b.n WHERE a.kind <> b.kind));"
    ));
    app.transaction("set", &["p_id"])
        .update("users", &[("n", "=1")], &[("id", "p_id")])
        .done();
    let plan = app.plan();
    expect(&plan, "set", "odd", Unknown, "unrecognised");
    assert_eq!(entry(&plan, "set").class, CoordinationClass::Global);
}

/// The formula may read what its text names, and nothing else, unless it selects all.
#[test]
fn an_unrecognised_invariant_orders_only_columns_that_it_names() {
    for (columns, sees) in [
        ("lower(a.kind) = lower(b.kind) AND a.id < b.id", false),
        ("lower(a.kind) = lower(b.kind) AND a.n < b.id", true),
    ] {
        for list in ["1", "*"] {
            let mut app = Application::new(&format!(
                "{USERS} CREATE ASSERTION odd CHECK (NOT EXISTS (SELECT {list} FROM users AS a JOIN users AS b ON {columns}));"
            ));
            app.transaction("set", &["p_id"])
                .update("users", &[("n", "=1")], &[("id", "p_id")])
                .done();
            app.transaction("add", &["p_id"])
                .insert("users", &[("id", "p_id")])
                .done();
            let plan = app.plan();
            expect(&plan, "add", "odd", Unknown, "unrecognised");
            match sees || list == "*" {
                true => expect(&plan, "set", "odd", Unknown, "unrecognised"),
                false => assert!(entry(&plan, "set").guards.is_empty(), "{columns}"),
            }
        }
    }
}

#[test]
fn every_rule_is_distinct_and_explained() {
    for (i, rule) in RULES.iter().enumerate() {
        assert!(
            RULES[..i].iter().all(|r| r.code != rule.code),
            "{} stands twice",
            rule.code
        );
        assert!(
            !rule.proof.is_empty() && !rule.source.is_empty(),
            "{}",
            rule.code
        );
        if rule.verdict != "yes" {
            assert!(!rule.remedy.is_empty(), "{} has no remedy", rule.code);
        }
    }
}

#[test]
fn a_deleted_row_needs_no_equation() {
    let mut app = Application::new(TOTALS);
    app.transaction("close", &["p_id"])
        .delete("dept", &[("id", "p_id")])
        .done();
    app.transaction("open", &["p_id"])
        .insert("dept", &[("id", "fresh"), ("total", "=0")])
        .done();
    app.transaction("open_rich", &["p_id"])
        .insert("dept", &[("id", "fresh"), ("total", "=1")])
        .done();
    let plan = app.plan();
    assert!(try_verdict(&plan, "close", "totals").is_none());
    expect(&plan, "open", "totals", Yes, "mv-update");
    expect(&plan, "open_rich", "totals", Unknown, "mv-unmaintained");
}

#[test]
fn what_is_ordered_for_one_invariant_is_not_made_coarser_for_another() {
    let mut app = Application::new(&format!(
        "{USERS} CREATE ASSERTION staffed CHECK (EXISTS (SELECT * FROM users));"
    ));
    app.transaction("hire_as", &["p_id"])
        .insert("users", &[("id", "p_id")])
        .done();
    app.transaction("fire", &["p_id"])
        .delete("users", &[("id", "p_id")])
        .done();
    let plan = app.plan();
    assert_eq!(entry(&plan, "hire_as").class, CoordinationClass::Local);
    assert_eq!(entry(&plan, "fire").class, CoordinationClass::Global);
}

#[test]
fn every_rule_is_on_the_page_and_no_other() {
    let page = include_str!("../../../../docs/analysis.md");
    for rule in RULES {
        assert!(
            page.contains(&format!("| `{}` |", rule.code)),
            "{} is missing",
            rule.code
        );
        assert!(
            page.contains(rule.proof),
            "the proof of {} is another",
            rule.code
        );
    }
    let rules = page
        .split("## The rules")
        .nth(1)
        .and_then(|p| p.split("## Where rows").next());
    let lines = rules
        .expect("the section")
        .lines()
        .filter(|l| l.starts_with("| `"));
    assert_eq!(lines.count(), RULES.len());
}

#[test]
fn guards_for_different_invariants_order_nothing_between_them() {
    let mut app = Application::new(&format!(
        "{TOTALS} CREATE ASSERTION staffed CHECK (EXISTS (SELECT * FROM emp));"
    ));
    app.transaction("dismiss", &["p_emp", "p_dept"])
        .delete("emp", &[("id", "p_emp")])
        .update("dept", &[("total", "-?")], &[("id", "p_dept")])
        .done();
    // Any two dismissals are ordered, since an employee must stay.
    expect(&app.plan(), "dismiss", "totals", Yes, "mv-update");
    // A raise is ordered, too, but for what it checks itself.
    app.transaction("raise", &["p_emp", "p_dept", "p_pay"])
        .select("emp", &["pay"], &[("id", "p_emp")])
        .result(Used)
        .update("emp", &[("pay", "+p_pay")], &[("id", "p_emp")])
        .update("dept", &[("total", "+p_pay")], &[("id", "p_dept")])
        .done();
    let plan = app.plan();
    expect(&plan, "raise", "isolation(emp)", No, "read-check-write");
    expect(&plan, "dismiss", "totals", No, "mv-transition");
    expect(&plan, "raise", "totals", No, "mv-transition");
}
