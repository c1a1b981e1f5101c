//! Space-time diagrams of runs.

use crate::cli::{anabranch, refused, scratch, text};

/// The command for the diagram in `docs/protocols/ramp.md`.
#[test]
fn a_race_is_drawn() {
    let picture = scratch("race").join("race.svg");
    let ran = anabranch(&[
        "sim",
        "register",
        "--nodes",
        "3",
        "--clients",
        "2",
        "--transactions",
        "4",
        "--faults",
        "none",
        "--seed",
        "101",
        "--diagram",
        text(&picture),
    ]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let svg = std::fs::read_to_string(&picture).expect("it is drawn");
    for words in [
        " with T",
        "Commit T",
        "Prepare T",
        "read_group",
        "write_group",
    ] {
        assert!(
            svg.contains(words),
            "{words} is missing: a new seed has to be found"
        );
    }
}

#[test]
fn an_explicit_window_is_drawn_with_its_faults() {
    let folder = scratch("window");
    let (picture, plan) = (folder.join("window.svg"), folder.join("plan.jsonl"));
    let faults = [
        r#"{"at_us":1000,"for_us":1500,"kind":"crash","node":1,"clock_us":0}"#,
        r#"{"at_us":1500,"for_us":2000,"kind":"loss","percent":20}"#,
        r#"{"at_us":9000,"for_us":100,"kind":"pause","node":0}"#,
    ];
    std::fs::write(&plan, faults.join("\n")).expect("the file can be written");
    let run = ["sim", "bank", "--seed", "3", "--faults", text(&plan)];
    let asked = ["--diagram", text(&picture), "--window", "500..4000"];
    let ran = anabranch(&[&run[..], &asked].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let svg = std::fs::read_to_string(&picture).expect("it is drawn");
    for words in [
        ">down</text>",
        ">20% lost</text>",
        "500 to 4,000 us",
        "T1  ",
    ] {
        assert!(svg.contains(words), "{words} is missing");
    }
    assert!(!svg.contains(">paused</text>"), "that is later");
    refused(&["sim", "bank", "--window", "1..2"], &["--diagram"]);
    refused(
        &[
            "sim",
            "bank",
            "--diagram",
            text(&picture),
            "--window",
            "7..7",
        ],
        &["the first below the second"],
    );
}
