//! Fault plans as files: malformed plans are refused with the field, and drawn plans are valid.

use anabranch_sim::{FaultPlan, FaultProfile};
use anabranch_types::Ticks;

#[track_caller]
fn refused(line: &str, because: &str) {
    let error = FaultPlan::from_lines(&format!("\n{line}\n")).unwrap_err();
    assert_eq!(error.line, 2, "{line}");
    assert_eq!(error.reason, because, "{line}");
}

#[test]
fn malformed_faults_are_refused_by_field() {
    refused(
        r#"{"at_us":1,"for_us":2,"kind":"pause","node":0,"nodes":[1]}"#,
        "pause: unknown field `nodes`; it has at_us, for_us, kind, node",
    );
    refused(
        r#"{"at_us":1,"for_us":2,"kind":"loss","percent":100}"#,
        "loss: `percent` is 100: it has to be from 0 to 99",
    );
    refused(
        r#"{"at_us":1,"for_us":2,"kind":"slow_disk","node":0,"percent":99}"#,
        "slow_disk: `percent` is 99: it has to be from 100 to 100000",
    );
    for by_us in [i64::MAX, i64::MIN, 1_000_001, -1_000_001] {
        refused(
            &format!(r#"{{"at_us":1,"for_us":2,"kind":"clock_skew","node":0,"by_us":{by_us}}}"#),
            &format!("clock_skew: `by_us` is {by_us}: it has to be from -1000000 to 1000000"),
        );
    }
    refused(
        r#"{"at_us":1,"for_us":0,"kind":"pause","node":0}"#,
        "pause: `for_us` is 0: it has to be from 1 to 3600000000",
    );
    refused(
        r#"{"at_us":1,"for_us":2,"kind":"slow_link","from":1,"to":1,"extra_us":5}"#,
        "slow_link: `from` and `to` are both 1: they have to differ",
    );
    refused(
        r#"{"at_us":1,"for_us":2,"kind":"partition","from":[0],"to":[],"one_way":true}"#,
        "partition: `to` is empty: it has to name a node",
    );
    refused(
        r#"{"at_us":1,"for_us":2,"kind":"partition","from":[0,2],"to":[1,2],"one_way":true}"#,
        "partition: `from` and `to` both name 2: no node can be cut off from itself",
    );
    refused(
        r#"{"at_us":1,"for_us":2,"kind":"pause",node}"#,
        "column 38: key must be a string",
    );
    let death = r#"{"at_us":1,"for_us":0,"kind":"permanent_loss","node":0}"#;
    assert!(FaultPlan::from_lines(death).is_ok(), "it has no end");
}

#[test]
fn faults_of_missing_nodes_and_clients_are_refused_by_field() {
    let check = |line: &str| {
        let plan = FaultPlan::from_lines(line).unwrap();
        plan.check(3, 6).unwrap_err().to_string()
    };
    assert_eq!(
        check(r#"{"at_us":1,"for_us":2,"kind":"slow_link","from":0,"to":3,"extra_us":5}"#),
        "fault 1, slow_link: `to` is 3: it has to be from 0 to 2"
    );
    assert_eq!(
        check(r#"{"at_us":1,"for_us":2,"kind":"client_crash","client":6}"#),
        "fault 1, client_crash: `client` is 6: it has to be from 0 to 5"
    );
    // Each alone is permitted; together they would set a clock below 0.
    let back = r#"{"at_us":1,"for_us":2,"kind":"crash","node":1,"clock_us":-1000000}"#;
    assert_eq!(
        check(&[back; 10].join("\n")),
        "fault 10, crash: the clock of `node` 1 would be set by 10000000 us in all: at most \
         9000000 are permitted"
    );
}

/// Drawn plans are valid, in clusters of any size.
#[test]
fn drawn_plans_are_valid() {
    for nodes in [1, 2, 3, 8] {
        for seed in 0..300 {
            let horizon = Ticks::from_millis(20);
            for profile in FaultProfile::ALL {
                let plan = FaultPlan::draw(profile, seed, nodes, 6, horizon).stretched(6);
                let read = FaultPlan::from_lines(&plan.to_lines()).unwrap();
                assert_eq!(read, plan);
                plan.check(nodes, 6).unwrap();
            }
        }
    }
}
