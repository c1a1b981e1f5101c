//! `cargo xtask soak --plans`: attacks the analyser's plans for hours. The analyser's tests generate applications from
//! seeds and attack their plans; the tests take turns.
//!
//! `target/soak/plans` has the next seed of each test. The next soak continues there, unless the commit has changed.
//! The output of a test that found a broken plan is stored beside it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{commit, replace, target};
use crate::{Outcome, Trouble, cargo};

/// The tests that generate applications, each of another kind.
const TESTS: [&str; 3] = [
    "soundness::no_plan_is_broken",
    "nested_keys::no_plan_over_keys_in_keys_is_broken",
    "forms::no_plan_in_other_forms_is_broken",
];

/// The first seed: every run of the tests tries the seeds below it.
const FIRST: u64 = 10_000;

/// The number of seeds of a shift: about a minute.
const SHIFT: u64 = 20_000;

/// The progress of all tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    commit: String,
    /// The next seed of each test.
    next: BTreeMap<String, u64>,
    /// Commands that repeat the shifts in which a plan broke.
    failures: Vec<String>,
}

impl State {
    fn from_text(text: &str) -> State {
        let mut state = State::default();
        for line in text.lines() {
            match line.split('\t').collect::<Vec<_>>().as_slice() {
                ["commit", commit] => state.commit = (*commit).to_owned(),
                ["next", test, next] => {
                    let next = next.parse().unwrap_or(FIRST);
                    state.next.insert((*test).to_owned(), next);
                }
                ["failed", command] => state.failures.push((*command).to_owned()),
                _ => {}
            }
        }
        state
    }

    fn to_text(&self) -> String {
        let mut text = format!("commit\t{}\n", self.commit);
        for (test, next) in &self.next {
            text.push_str(&format!("next\t{test}\t{next}\n"));
        }
        for command in &self.failures {
            text.push_str(&format!("failed\t{command}\n"));
        }
        text
    }

    fn next(&self, test: &str) -> u64 {
        self.next.get(test).copied().unwrap_or(FIRST)
    }

    fn summary(&self) -> String {
        let mut text = String::new();
        for test in TESTS {
            let tried = self.next(test) - FIRST;
            text.push_str(&format!("{tried:>9} applications  {test}\n"));
        }
        match self.failures.len() {
            0 => text.push_str("no plan broke\n"),
            _ => text.push_str("plans broke in these shifts:\n"),
        }
        for command in &self.failures {
            text.push_str(&format!("  {command}\n"));
        }
        text
    }
}

/// Runs shifts until the time is over.
///
/// # Errors
/// If the tests do not build, or their folder cannot be written.
pub(super) fn run(root: &Path, time: Duration, fresh: bool) -> Result<Outcome, Trouble> {
    let folder = target(root).join("soak").join("plans");
    let tool = |error: std::io::Error| Trouble::Tool(format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(&folder).map_err(tool)?;
    let path = folder.join("state");
    let mut state = match std::fs::read_to_string(&path) {
        Ok(text) if !fresh => State::from_text(&text),
        _ => State::default(),
    };
    let commit = commit(root);
    if state.commit != commit {
        state = State {
            commit,
            ..State::default()
        };
    }
    let arguments = ["test", "-p", "anabranch-analysis", "--test", "analysis"];
    let built = cargo()
        .current_dir(root)
        .args(arguments)
        .arg("--no-run")
        .status()
        .map_err(tool)?;
    if !built.success() {
        return Err(Trouble::Tool("the analyser's tests do not build".into()));
    }
    let end = Instant::now() + time;
    println!("plans, for {} minutes", time.as_secs() / 60);
    for test in TESTS.iter().cycle() {
        if Instant::now() >= end {
            break;
        }
        let from = state.next(test);
        let seeds = format!("{from}..{}", from + SHIFT);
        let output = cargo()
            .current_dir(root)
            .args(arguments)
            .args([test, "--", "--exact"])
            .env("ANABRANCH_ANALYSIS_SEEDS", &seeds)
            .stderr(Stdio::null())
            .output()
            .map_err(tool)?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !text.contains("running 1 test") {
            return Err(Trouble::Tool(format!("{test} did not run:\n{text}")));
        }
        let held = output.status.success();
        if !held {
            let kept = folder.join(format!("{}-{from}.txt", test.replace("::", "-")));
            std::fs::write(&kept, text.as_bytes()).map_err(tool)?;
            state.failures.push(format!(
                "ANABRANCH_ANALYSIS_SEEDS={seeds} cargo {} {test} -- --exact",
                arguments.join(" ")
            ));
        }
        state.next.insert((*test).to_owned(), from + SHIFT);
        let how = if held { "held" } else { "BROKEN" };
        println!("  {test} {seeds}: {how}");
        replace(&path, &state.to_text()).map_err(tool)?;
    }
    print!("\n{}", state.summary());
    Ok(match state.failures.is_empty() {
        true => Outcome::Clean,
        false => Outcome::Findings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_soak_of_plans_continues_where_the_last_one_ended() {
        let mut state = State {
            commit: "abc".into(),
            ..State::default()
        };
        assert_eq!(state.next(TESTS[0]), FIRST);
        state.next.insert(TESTS[0].to_owned(), FIRST + SHIFT);
        state.failures.push("A=1..2 cargo test".into());
        assert_eq!(State::from_text(&state.to_text()), state);
        let summary = state.summary();
        assert!(summary.contains("    20000 applications  soundness::no_plan_is_broken\n"));
        assert!(
            summary.ends_with("shifts:\n  A=1..2 cargo test\n"),
            "{summary}"
        );
    }
}
