//! Counts checks and prints one line for each; the harness reads the lines.

use std::fmt::Debug;
use std::process::ExitCode;

use tokio_postgres::Error;

/// The result of a check's statement.
pub(crate) type Attempt<T> = Result<T, Error>;

/// The numbers of passed and failed checks.
#[derive(Default)]
pub(crate) struct Checks {
    passed: u32,
    failed: u32,
}

impl Checks {
    /// One check: `got` has to be `expected`. Both are compared as they are printed, so that NaN equals NaN and
    /// -0 is not 0.
    pub(crate) fn equal<T: Debug, U: Debug>(&mut self, name: &str, got: T, expected: U) {
        let (got, expected) = (format!("{got:?}"), format!("{expected:?}"));
        if got == expected {
            self.passed += 1;
            println!("ok {name}");
        } else {
            self.failed += 1;
            println!("FAILED {name}: got {got} expected {expected}");
        }
    }

    /// One check of a statement's result; an error is its failure, and the program goes on.
    pub(crate) fn attempt<T: Debug, U: Debug>(&mut self, name: &str, got: Attempt<T>, expected: U) {
        match got {
            Ok(got) => self.equal(name, got, expected),
            Err(error) => self.equal(name, described(&error), expected),
        }
    }

    /// Prints the count, and gives the program's exit code.
    pub(crate) fn finish(self) -> ExitCode {
        println!("{} passed, {} failed", self.passed, self.failed);
        match self.failed {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        }
    }
}

/// An error with its SQLSTATE and all its causes, in one line.
pub(crate) fn described(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    match error.code() {
        Some(code) => format!("{} {text}", code.code()),
        None => text,
    }
}
