//! Fault plans: drawn, written, read, and refused.

use serde_json::Value;

use crate::cli::{refused, refused_in_one_line, scratch, simulated, text};

/// The parts of a report that identify a run, apart from the source of its plan.
fn essence(sum: &Value) -> Vec<&Value> {
    let fields = [
        "trace",
        "verdict",
        "transactions",
        "events",
        "faults",
        "sometimes",
    ];
    let mut all: Vec<&Value> = fields.iter().map(|field| &sum[field]).collect();
    all.push(&sum["parameters"]["plan"]);
    all
}

#[test]
fn a_drawn_plan_gives_the_same_run_from_its_file() {
    let folder = scratch("plan-drawn");
    let file = folder.join("my plan.jsonl");
    let cases: [&[&str]; 5] = [
        &["register", "--faults", "storm", "--seed", "9"],
        &["counter", "--faults", "long_outage", "--seed", "4"],
        &[
            "bank",
            "--faults",
            "permanent_loss",
            "--replicas",
            "3",
            "--seed",
            "2",
        ],
        &["register", "--protocol", "e-pci", "--faults", "storm"],
        &["register", "--faults", "none"],
    ];
    for case in cases {
        let small = [case, &["--transactions", "60"]].concat();
        let drawn = [&small[..], &["--plan", text(&file)]].concat();
        let (code, out, first) = simulated("plan-first", &drawn);
        assert_eq!(code, 0, "{out}");
        let level = case.iter().position(|word| *word == "--faults").unwrap() + 1;
        let mut again = small.clone();
        again[level] = text(&file);
        let (code, out, second) = simulated("plan-second", &again);
        assert_eq!(code, 0, "{out}");
        assert_eq!(essence(&first), essence(&second), "{case:?}");
        let lines = std::fs::read_to_string(&file).expect("it is written");
        let lines: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).expect("each line is JSON"))
            .collect();
        let (faults, end) = lines[1..].split_at(lines.len() - 2);
        assert_eq!(lines[0]["anabranch_plan"], 1, "{case:?}");
        assert_eq!(end[0]["end"]["faults"], faults.len(), "{case:?}");
        assert_eq!(first["parameters"]["plan"], Value::from(faults), "{case:?}");
    }
    // A plan that is truncated at the end of a line is refused.
    std::fs::write(&file, "{\"anabranch_plan\":1}\n").expect("the file can be written");
    refused_in_one_line(
        &["sim", "register", "--faults", text(&file)],
        &["line 1", "the plan is truncated"],
    );
    refused(
        &["sim", "register", "--seeds", "0..2", "--plan", text(&file)],
        &["--plan", "--seeds", "cannot be used with"],
    );
    let (_, _, many) = simulated("plan-many", &["register", "--seeds", "0..2"]);
    assert_eq!(many["parameters"]["plan"], Value::Null);
}

#[test]
fn a_malformed_plan_is_refused_by_file_line_and_field() {
    let file = scratch("plan-refused").join("storm.jsonl");
    let good = r#"{"at_us":1,"for_us":2,"kind":"pause","node":0}"#;
    let cases: [(&str, &[&str]); 5] = [
        (
            r#"{"at_us":1,"for_us":2,"kind":"pause","node":0,"nodes":1}"#,
            &["line 2: pause: unknown field `nodes`; it has at_us, for_us, kind, node"],
        ),
        (
            r#"{"at_us":1,"for_us":2,"kind":"pause","node":}"#,
            &["line 2: column 45: expected value"],
        ),
        (
            r#"{"at_us":1,"for_us":2,"kind":"loss","percent":200}"#,
            &["line 2: loss: `percent` is 200: it has to be from 0 to 99"],
        ),
        (
            r#"{"at_us":1,"for_us":2,"kind":"clock_skew","node":0,"by_us":9223372036854775807}"#,
            &["line 2: clock_skew: `by_us` is 9223372036854775807: it has to be from -1000000"],
        ),
        (
            r#"{"at_us":1,"for_us":2,"kind":"crash","node":3,"clock_us":0}"#,
            &["fault 2, crash: `node` is 3: it has to be from 0 to 2"],
        ),
    ];
    for (bad, because) in cases {
        std::fs::write(&file, format!("{good}\n{bad}\n")).expect("the file can be written");
        let because = [because, &[text(&file)]].concat();
        refused_in_one_line(&["sim", "register", "--faults", text(&file)], &because);
    }
}

/// The last answer comes long before the last timer.
#[test]
fn the_times_to_the_last_answer_and_to_the_end_are_reported() {
    let calm = ["register", "--faults", "none", "--transactions", "60"];
    let (_, out, sum) = simulated("plan-calm", &calm);
    let [answered, simulated] = ["answered_us", "simulated_us"].map(|name| {
        let time = sum[name].as_u64().expect("a time");
        time as f64 / 1e3
    });
    assert!(answered < 100.0 && simulated > 5_000.0, "{out}");
    let told =
        format!("{answered:.1} ms simulated to the last answer, {simulated:.1} ms to the end;");
    assert!(out.contains(&told), "{told}: {out}");
}

/// A run is weak if its faults did not cause what they should; many runs are weak if none reached a situation.
#[test]
fn runs_are_not_weak_for_what_only_some_of_them_can_show() {
    for workload in ["counter", "payroll", "ycsb"] {
        let calm = [workload, "--faults", "none", "--seeds", "0..40"];
        let (_, out, sum) = simulated("plan-weak", &calm);
        assert_eq!(sum["weak_runs"], 0, "{workload}: {out}");
        assert_eq!(sum["never"], serde_json::json!({}), "{workload}: {out}");
    }
    // A single client has no races.
    let alone = [
        "register",
        "--faults",
        "none",
        "--clients",
        "1",
        "--seeds",
        "0..3",
    ];
    let (_, out, sum) = simulated("plan-alone", &alone);
    assert_eq!(sum["weak_runs"], 3, "{out}");
    assert!(
        out.contains("a reader met a race, which was repaired or retried: 3"),
        "{out}"
    );
}

/// After a violation the run is checked at rest, so that running transactions do not count as lost.
#[test]
fn a_wrong_answer_does_not_count_as_a_lost_commit() {
    let bank = ["bank", "--protocol", "lwnr", "--replicas", "3"];
    let death = [
        "--faults",
        "permanent_loss",
        "--transactions",
        "120",
        "--seed",
        "1",
    ];
    let (code, out, sum) = simulated("plan-lwnr", &[&bank[..], &death].concat());
    assert_eq!(code, 1, "{out}");
    assert_eq!(sum["runs_not_at_rest"], 0, "{out}");
    let found = sum["failures"][0]["found"].as_array().expect("findings");
    let lost = |what: &&Value| {
        what.as_str()
            .is_some_and(|what| what.contains("never installed"))
    };
    assert_eq!(found.iter().find(lost), None, "{out}");
    assert!(
        out.contains("declared constraints on the merged state"),
        "{out}"
    );
}
