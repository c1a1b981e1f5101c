//! Runs one program and reads the lines of its checks.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::Trouble;

/// How long a program may run: a hundred times what it needs, so that only a hang meets it.
const TIME_MAX: Duration = Duration::from_secs(300);

/// What a program's lines say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// The checks that ran, by name.
    pub(super) names: BTreeSet<String>,
    pub(super) passed: u64,
    /// A line for each failure.
    pub(super) failures: Vec<String>,
    /// The program's own count, its last line.
    count: Option<String>,
}

impl Report {
    /// Reads one line of output.
    pub(super) fn read(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("ok ") {
            self.passed += 1;
            self.names.insert(name.to_owned());
        } else if let Some(failure) = line.strip_prefix("FAILED ") {
            let name = failure
                .split_once(": got ")
                .map_or(failure, |(name, _)| name);
            self.names.insert(name.to_owned());
            self.failures.push(failure.to_owned());
        } else if is_count(line) {
            self.count = Some(line.to_owned());
        }
    }

    /// Adds a failure for each check that had to run and did not.
    pub(super) fn require(&mut self, missing: &[String]) {
        let lines = missing.iter().map(|name| format!("{name}: did not run"));
        self.failures.extend(lines);
    }

    /// Adds a check of the harness's own, and why it failed, if it did.
    pub(super) fn note(&mut self, name: &str, failure: Option<String>) {
        self.names.insert(name.to_owned());
        match failure {
            None => self.passed += 1,
            Some(failure) => self.failures.push(format!("{name}: {failure}")),
        }
    }

    /// Compares the lines with how the program ended.
    fn finish(&mut self, ended: &str, succeeded: bool) {
        let count = format!("{} passed, {} failed", self.passed, self.failures.len());
        if self.count.as_ref() != Some(&count) {
            let own = self.count.as_deref().unwrap_or("no count");
            let failure = format!("the program: {ended}, {own}, but its lines say {count}");
            self.failures.push(failure);
        } else if succeeded != self.failures.is_empty() || self.passed == 0 {
            self.failures
                .push(format!("the program: {ended} after {count}"));
        }
    }
}

/// Whether a line is `N passed, N failed`.
fn is_count(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    let is_number = |word: &str| word.parse::<u64>().is_ok();
    matches!(words.as_slice(), [a, "passed,", b, "failed"] if is_number(a) && is_number(b))
}

/// Runs a program to its end; its output goes into `log`, line by line.
///
/// # Errors
/// When it cannot be started, or the log not be written.
pub(super) fn run(
    root: &Path,
    name: &str,
    words: &[String],
    log: &Path,
) -> Result<Report, Trouble> {
    let failed = |error: std::io::Error| Trouble::Tool(format!("running {name}: {error}"));
    let mut file = File::create(log).map_err(failed)?;
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .current_dir(root)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("TZ", "UTC")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(file.try_clone().map_err(failed)?)
        .spawn()
        .map_err(failed)?;
    let (sender, lines) = mpsc::channel();
    let stdout = child.stdout.take();
    let reader = std::thread::spawn(move || {
        for line in stdout
            .into_iter()
            .flat_map(|stdout| BufReader::new(stdout).split(b'\n'))
        {
            let Ok(line) = line else { break };
            // The receiver has gone after the time limit.
            if sender
                .send(String::from_utf8_lossy(&line).into_owned())
                .is_err()
            {
                break;
            }
        }
    });
    let mut report = Report::default();
    let end = Instant::now() + TIME_MAX;
    let ended = loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                let line = line.trim_end();
                writeln!(file, "{line}").map_err(failed)?;
                report.read(line);
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break child.wait().map_err(failed)?,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                // An error means that it has just ended.
                let _ = child.kill();
                let _ = child.wait();
                let last = report.names.len();
                let limit = TIME_MAX.as_secs();
                let failure =
                    format!("the program: ended by force after {limit} s and {last} checks");
                report.failures.push(failure);
                return Ok(report);
            }
        }
    };
    // It ends with the program's output.
    let _ = reader.join();
    report.finish(&format!("ended with {ended}"), ended.success());
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lines: &str, succeeded: bool) -> Report {
        let mut report = Report::default();
        lines.lines().for_each(|line| report.read(line));
        report.finish("ended", succeeded);
        report
    }

    #[test]
    fn lines_are_counted_and_failures_kept() {
        let lines =
            "server_version: 15\nok a: b\nFAILED a: c: got 1 expected 2\n1 passed, 1 failed\n";
        let report = report(lines, false);
        assert_eq!(report.passed, 1);
        assert_eq!(report.failures, ["a: c: got 1 expected 2"]);
        assert!(report.names.contains("a: b") && report.names.contains("a: c"));
    }

    #[test]
    fn a_program_that_ends_early_fails() {
        let crashed = report("ok a\n", false);
        assert_eq!(
            crashed.failures,
            ["the program: ended, no count, but its lines say 1 passed, 0 failed"]
        );
        let silent = report("0 passed, 0 failed\n", true);
        assert_eq!(
            silent.failures,
            ["the program: ended after 0 passed, 0 failed"]
        );
        let lying = report(
            "ok a\nFAILED b: got 1 expected 2\n1 passed, 1 failed\n",
            true,
        );
        assert_eq!(lying.failures.len(), 2);
        let short = report("ok a\n2 passed, 0 failed\n", true);
        assert_eq!(short.failures.len(), 1);
        assert_eq!(report("ok a\n1 passed, 0 failed\n", true).failures.len(), 0);
    }

    #[test]
    fn a_check_that_did_not_run_is_a_failure() {
        let mut report = report("ok a\n1 passed, 0 failed\n", true);
        report.require(&["b".to_owned()]);
        assert_eq!(report.failures, ["b: did not run"]);
    }
}
