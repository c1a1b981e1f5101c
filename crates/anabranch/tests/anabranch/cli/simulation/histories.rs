//! Histories from files and from standard input.

use std::io::Write;
use std::process::Stdio;

use crate::cli::{anabranch, command, refused_in_one_line, scratch, text};

const ABORTED: &str = r#"{"anabranch_history":1}
{"transaction":"T1","outcome":{"aborted":"conflict"},"operations":[{"write":"x"}]}
{"transaction":"T2","outcome":"committed","operations":[{"read":"x","version":"T1"}]}
{"end":{"transactions":2}}
"#;

#[test]
fn a_byte_order_mark_is_no_part_of_a_history_nor_is_a_pipe_another_one() {
    let path = scratch("marked").join("history.jsonl");
    std::fs::write(&path, format!("\u{feff}{ABORTED}")).expect("the file can be written");
    let from_file = anabranch(&["check", text(&path), "--model", "read-committed"]);
    assert_eq!(from_file.code, 1, "{}{}", from_file.out, from_file.err);
    // An aborted transaction has no version, and is reported all the same.
    for words in ["T1 (line 2): w x", "T2 (line 3): r x", "which aborted"] {
        assert!(from_file.out.contains(words), "{words}: {}", from_file.out);
    }
    let mut piped = command(&["check", "-", "--model", "read-committed"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = piped.stdin.take().expect("it is piped");
    input.write_all(ABORTED.as_bytes()).expect("it is read");
    drop(input);
    let output = piped.wait_with_output().expect("it ends");
    let out = String::from_utf8(output.stdout).expect("it prints text");
    assert_eq!(output.status.code(), Some(1), "{out}");
    let path = text(&path);
    assert_eq!(out.replace("standard input", path), from_file.out);
}

#[test]
fn a_dash_is_no_file_to_write() {
    refused_in_one_line(&["sim", "bank", "--history", "-"], &["standard output"]);
}
