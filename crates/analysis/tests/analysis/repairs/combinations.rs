//! Combined repairs: each step changes what the steps before it have left.

use anabranch_analysis::repair::{Classes, STEPS_MAX};
use anabranch_analysis::report::html;
use anabranch_analysis::report::json::{self, Sections};
use anabranch_analysis::report::repairs::BestRepairs;
use anabranch_analysis::{Guarantee, Options};
use anabranch_sql::SourceFile;
use anabranch_types::Value;

use super::{ORDERS, analysed, left_by, of, offered, patched, read, repairs, repairs_of, shown};
use crate::schema::check;
use crate::support::example_files;

/// A repair that helps by itself goes further with the next: numbers drawn at commit and generated keys.
#[test]
fn the_next_step_removes_what_the_first_has_left() {
    let found = of(ORDERS);
    let first = &found.offered[0];
    assert_eq!(first.kind.code, "repair-combination", "{}", shown(&found));
    let steps: Vec<&str> = first.steps.iter().map(|step| step.kind.code).collect();
    assert_eq!(steps, ["repair-generated-key", "repair-take-number"]);
    // Everything that its steps accept, once; and one diff for what theirs say in two.
    for single in ["repair-generated-key", "repair-take-number"] {
        let single = offered(&found, single);
        assert!(single.steps.is_empty());
        for accepted in &single.accepts {
            let same = first.accepts.iter().filter(|a| *a == accepted);
            assert_eq!(same.count(), 1, "{}", shown(&found));
        }
        for place in &single.places {
            assert!(first.places.contains(place), "{place:?}: {}", shown(&found));
        }
        let changes = |diff: &str| -> Vec<String> {
            let lines = diff.lines().filter(|line| line.starts_with(['+', '-']));
            lines.map(str::to_owned).collect()
        };
        let of_all = changes(&first.diff);
        for line in changes(&single.diff) {
            assert!(of_all.contains(&line), "{line}: {}", first.diff);
        }
    }
}

/// For every example: the combination is better than each change by itself, and has few steps.
#[test]
fn a_combination_is_better_than_each_step() {
    let mut combined = 0;
    for name in ["payroll", "smallbank", "tpcc", "rubis", "tatp"] {
        for guarantee in [Guarantee::Invariants, Guarantee::Serializable] {
            let files = example_files(name);
            let found = repairs(&files, guarantee);
            let [first, rest @ ..] = found.offered.as_slice() else {
                continue;
            };
            assert!(rest.iter().all(|of| of.steps.is_empty()), "{name}");
            if first.steps.is_empty() {
                continue;
            }
            combined += 1;
            assert!((2..=STEPS_MAX).contains(&first.steps.len()), "{name}");
            let best = &rest[0];
            assert_eq!(best.title, first.steps[0].title, "{name}");
            let of = |classes: Classes| (classes.global, classes.local);
            assert!(of(first.change.after) <= of(best.change.after), "{name}");
            let report = |files: Vec<SourceFile>, options: &Options| analysed(files, options);
            let with_all = report(patched(&files, &first.diff), &first.options);
            let with_best = report(patched(&files, &best.diff), &best.options);
            assert_ne!(with_all, with_best, "{name}");
        }
    }
    assert!(combined >= 2, "{combined}");
}

/// One type computes what it writes, the other checks it: as long as either does, both are ordered.
const TWO: &str = "CREATE TABLE account (
    id integer PRIMARY KEY,
    balance integer
);

CREATE PROCEDURE deposit(p_id integer, p_amount integer)
LANGUAGE plpgsql AS $$
DECLARE
    had integer;
BEGIN
    SELECT balance INTO had FROM account WHERE id = p_id;
    UPDATE account SET balance = had + p_amount WHERE id = p_id;
END;
$$;

CREATE PROCEDURE withdraw(p_id integer, p_amount integer)
LANGUAGE plpgsql AS $$
DECLARE
    had integer;
BEGIN
    SELECT balance INTO had FROM account WHERE id = p_id;
    IF had >= p_amount THEN
        UPDATE account SET balance = balance - p_amount WHERE id = p_id;
    END IF;
END;
$$;
";

#[test]
fn two_that_save_nothing_apart_may_save_something_together() {
    let found = of(TWO);
    let [all] = found.offered.as_slice() else {
        panic!("{}", shown(&found));
    };
    let steps: Vec<&str> = all.steps.iter().map(|step| step.kind.code).collect();
    assert_eq!(steps, ["repair-increment", "repair-check-in-update"]);
    // Both are of use, and neither is listed as useless.
    for step in &all.steps {
        let is_step = found.considered.iter().any(|of| of.title == step.title);
        assert!(!is_step, "{}", shown(&found));
    }
    assert_eq!(all.change.after.free, 2, "{}", shown(&found));
    let rows = [
        "INSERT INTO account VALUES (1, 10)",
        "INSERT INTO account VALUES (2, 3)",
    ];
    let arguments: Vec<Vec<Value>> = (1..=3)
        .flat_map(|id| [4, 7].map(|n| vec![Value::Int(id), Value::Int(n)]))
        .collect();
    let calls: Vec<(&str, &[Value])> = arguments
        .iter()
        .flat_map(|of| [("withdraw", of.as_slice()), ("deposit", of.as_slice())])
        .collect();
    for count in 0..=calls.len() {
        let left = |files| left_by(files, &rows, &calls[..count], &["account"]);
        let was = left(vec![SourceFile::new("app.sql", TWO)]);
        assert_eq!(left(all.files.clone()), was, "{count}: {}", all.diff);
    }
}

/// Each report names the steps: the text by its golden file, the others here.
#[test]
fn every_report_lists_the_steps() {
    let files = vec![SourceFile::new("app.sql", ORDERS)];
    let script = read(files).unwrap_or_else(|error| panic!("{error}"));
    let (plan, found) = repairs_of(&script, 1, Guarantee::Invariants);
    let catalog = script.application.catalog();
    let repairs = Some(BestRepairs {
        repairs: &found,
        shown_max: 1,
    });
    let besides = Sections {
        repairs,
        ..Sections::default()
    };
    let json = json::render(&plan, catalog, &script.summaries, besides);
    let json: serde_json::Value = serde_json::from_str(&json).expect("the report is JSON");
    assert_eq!(check(&json), Vec::<String>::new());
    let of = &json["repairs"][0];
    assert_eq!(of["kind"], "repair-combination");
    let steps = of["steps"].as_array().expect("the steps");
    let page = html::Page {
        plan: &plan,
        catalog,
        summaries: &script.summaries,
        counterexamples: None,
        repairs,
        replayed_by: &|_| String::new(),
        findings: &[],
        skipped: &[],
        probable: &[],
        baseline: None,
    };
    let page = page.render();
    assert_eq!(steps.len(), found.offered[0].steps.len());
    for (told, step) in steps.iter().zip(&found.offered[0].steps) {
        assert_eq!(told["kind"], step.kind.code);
        assert_eq!(told["title"], step.title);
        let line = format!("<dd>{} [{}]</dd>", step.title, step.kind.code);
        assert!(page.contains(&line), "{line}: {page}");
    }
}

/// If a single change is best, the report lists it once.
#[test]
fn one_change_is_no_combination() {
    let found = of(super::BANK);
    let codes: Vec<&str> = found.offered.iter().map(|of| of.kind.code).collect();
    assert_eq!(codes, ["repair-increment"]);
}

/// Combined changes keep what the application does when its transactions run one after another.
#[test]
fn run_serially_the_combined_changes_give_the_same_rows() {
    let rows = [
        "INSERT INTO district VALUES (1, 1, 0.1, 3001)",
        "INSERT INTO district VALUES (1, 2, 0.2, 7)",
    ];
    let of_district = |d: i64| ("new_order", vec![Value::Int(1), Value::Int(d)]);
    let calls: Vec<(&str, Vec<Value>)> = [1, 2, 1, 3, 1].map(of_district).to_vec();
    let mut calls: Vec<(&str, &[Value])> = calls.iter().map(|(n, a)| (*n, a.as_slice())).collect();
    let amount = [Value::Int(5)];
    calls.push(("pay", &amount));
    calls.push(("pay", &amount));
    let found = of(ORDERS);
    let changed = offered(&found, "repair-combination").files.clone();
    let left = |files| left_by(files, &rows, &calls, &["district", "orders", "history"]);
    let was = left(vec![SourceFile::new("app.sql", ORDERS)]);
    assert_eq!(left(changed), was);
    assert_eq!((was[1].len(), was[2].len()), (4, 2), "{was:?}");
}
