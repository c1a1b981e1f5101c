//! `cargo xtask soak --plans`: attacks the analyser's plans for hours. The analyser's tests generate applications from
//! seeds and attack their plans; the tests take turns.
//!
//! `target/soak/plans` has the next seed of each test. The next soak continues there, unless the commit has changed.
//! The output of a test that found a broken plan is stored beside it.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::progress::Progress;
use super::{commit, target};
use crate::{Outcome, Trouble, cargo};

/// The tests that generate applications, each of another kind.
const TESTS: [&str; 7] = [
    "soundness::no_plan_is_broken",
    "nested_keys::no_plan_over_keys_in_keys_is_broken",
    "forms::no_plan_in_other_forms_is_broken",
    "applications::no_plan_of_such_applications_is_broken",
    "nulls::no_plan_over_numbers_that_may_be_null_is_broken",
    "absence::no_check_for_rows_is_disturbed",
    "absence::no_check_of_a_bound_is_disturbed",
];

/// The first seed: every run of the tests tries the seeds below it.
const FIRST: u64 = 10_000;

/// The number of seeds of a shift: about a minute.
const SHIFT: u64 = 20_000;

fn summary(progress: &Progress) -> String {
    let mut text = String::new();
    for test in TESTS {
        let tried = progress.next(test, FIRST) - FIRST;
        text.push_str(&format!("{tried:>9} applications  {test}\n"));
    }
    match progress.failures.len() {
        0 => text.push_str("no plan broke\n"),
        _ => text.push_str("plans broke in these shifts:\n"),
    }
    for command in &progress.failures {
        text.push_str(&format!("  {command}\n"));
    }
    text
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
    if fresh && path.exists() {
        std::fs::remove_file(&path).map_err(tool)?;
    }
    let mut progress = Progress::read(&path, &commit(root));
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
        let from = progress.next(test, FIRST);
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
            progress.failures.push(format!(
                "ANABRANCH_ANALYSIS_SEEDS={seeds} cargo {} {test} -- --exact",
                arguments.join(" ")
            ));
        }
        progress.set_next(test, from + SHIFT);
        let how = if held { "held" } else { "BROKEN" };
        println!("  {test} {seeds}: {how}");
        progress.write(&path).map_err(tool)?;
    }
    print!("\n{}", summary(&progress));
    Ok(match progress.failures.is_empty() {
        true => Outcome::Clean,
        false => Outcome::Findings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_what_was_tried() {
        let mut progress = Progress::default();
        progress.set_next(TESTS[0], FIRST + SHIFT);
        progress.failures.push("A=1..2 cargo test".into());
        let summary = summary(&progress);
        assert!(summary.contains("    20000 applications  soundness::no_plan_is_broken\n"));
        assert!(
            summary.ends_with("shifts:\n  A=1..2 cargo test\n"),
            "{summary}"
        );
    }
}
