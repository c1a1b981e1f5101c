//! Reads the output of test programs and sums their counts.

use std::fmt;

use crate::Outcome;

/// The numbers of passed, failed and skipped tests, over all test programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: u64,
    pub(super) failed: u64,
    skipped: u64,
    /// The names of skipped tests, with the reason where there is one.
    ignored: Vec<String>,
}

impl Counts {
    /// Reads one line of output.
    pub(super) fn read(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.passed += number_before(result, " passed");
            self.failed += number_before(result, " failed");
            self.skipped += number_before(result, " ignored");
        } else if let Some(test) = line.strip_prefix("test ")
            && let Some((name, reason)) = test.split_once(" ... ignored")
        {
            self.ignored.push(format!("{name}{reason}"));
        }
    }
}

impl Counts {
    /// Counts something that was skipped and that no test program reports.
    pub(super) fn skip(&mut self, what: String) {
        self.skipped += 1;
        self.ignored.push(what);
    }

    /// Prints what was skipped and, as the last line, the counts.
    pub(super) fn close(&self) -> Outcome {
        for name in &self.ignored {
            println!("skipped: {name}");
        }
        println!("{self}");
        match self.failed {
            0 => Outcome::Clean,
            _ => Outcome::Findings,
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            passed,
            failed,
            skipped,
            ..
        } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// The number before `word`, or 0.
fn number_before(text: &str, word: &str) -> u64 {
    text.split_once(word)
        .and_then(|(before, _)| before.rsplit([' ', ';', '.']).next()?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
running 3 tests
test value::tests::order ... ok
test oracle::tpcc ... ignored, takes an hour
test a ... FAILED

failures:
    a

test result: FAILED. 12 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

running 1 test
test crates/sql/src/lib.rs - lex (line 12) ... ignored

test result: ok. 30 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 1.01s
";

    #[test]
    fn results_are_summed_and_ignored_tests_named() {
        let mut counts = Counts::default();
        OUTPUT.lines().for_each(|line| counts.read(line));
        assert_eq!(counts.to_string(), "42 passed, 1 failed, 2 skipped");
        assert_eq!(
            counts.ignored,
            [
                "oracle::tpcc, takes an hour",
                "crates/sql/src/lib.rs - lex (line 12)"
            ]
        );
    }
}
