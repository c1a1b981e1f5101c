//! A session's later reads include its writes; a row that a scan missed counts against it.

use anabranch_history::{Model, Phenomenon};

use crate::support::{found, history};

/// A committed transaction of the session `s` with these operations, as a line of JSON.
fn transaction(id: &str, operations: &str) -> String {
    format!(
        r#"{{"transaction":"{id}","session":"s","outcome":"committed","operations":[{operations}]}}"#
    ) + "\n"
}

/// A session wrote an item twice and then reads one of the two.
#[test]
fn the_last_of_a_sessions_writes_is_the_one_that_it_must_read() {
    let reads = |version: &str| {
        let read = format!(r#"{{"read":"x","version":"{version}"}}"#);
        let transactions = [
            transaction("T1", r#"{"write":"x"}"#),
            transaction("T2", r#"{"write":"x"}"#),
            transaction("T3", &read),
        ];
        found(&history(&transactions, &[("x", "1 2")]), Model::Sessions)
    };
    assert_eq!(reads("T2"), []);
    assert_eq!(reads("T1"), [Phenomenon::MissingYourWrites]);
}

/// A transaction writes an item and inserts a row; a reader reads the item and misses the row.
#[test]
fn a_scan_that_lacks_the_row_of_what_was_read_is_fractured() {
    let judge = |scan: &str| {
        let reads = format!(r#"{{"read":"x","version":"T1"}},{scan}"#);
        let transactions = [
            transaction("T1", r#"{"write":"x"},{"write":"t:5"}"#),
            transaction("T2", &reads),
        ];
        found(&history(&transactions, &[]), Model::ReadAtomic)
    };
    let whole = r#"{"scan":"t","found":[{"read":"t:5","version":"T1"}]}"#;
    assert_eq!(judge(whole), []);
    assert_eq!(judge(r#"{"scan":"t","lower":"6","found":[]}"#), []);
    let lacking = judge(r#"{"scan":"t","found":[]}"#);
    assert_eq!(lacking, [Phenomenon::PredicateManyPreceders]);
}

/// A row that a scan missed may not have existed yet, or no longer. If both are possible, nothing is concluded, and
/// the case is counted.
#[test]
fn absences_that_cannot_be_judged_are_counted() {
    let scan = |found: &str| {
        format!(
            "{{\"transaction\":\"T3\",\"outcome\":\"committed\",\"operations\":[{{\"scan\":\"t\",\"lower\":\"0\",\
             \"upper\":\"9\",\"found\":[{found}]}}]}}\n"
        )
    };
    let both = |name: &str, kind: &str| {
        format!(
            "{{\"transaction\":\"{name}\",\"outcome\":\"committed\",\"operations\":[{{\"write\":\"t:1\",\"kind\":\"{kind}\"}},\
             {{\"write\":\"t:2\",\"kind\":\"{kind}\"}}]}}\n"
        )
    };
    let one = "{\"read\":\"t:1\",\"version\":\"T1\"}";
    let orders = [("t:1", "1 2"), ("t:2", "1 2")];
    let deleted = [both("T1", "insert"), both("T2", "delete"), scan(one)];
    assert_eq!(history(&deleted, &orders).unjudged_absences(), 1);
    let inserted = [both("T1", "insert"), scan(one)];
    let inserted = history(&inserted, &[]);
    assert_eq!(inserted.unjudged_absences(), 0);
    assert!(!found(&inserted, Model::ReadAtomic).is_empty());
}
