//! A solver that is a program: it reads SMT-LIB 2 and says `sat`, `unsat` or `unknown`.

use std::fmt;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anabranch_analysis::solve::{Answer, Decide, Formula, Problem, smtlib};

/// How often it is asked whether the program is done.
const PAUSE: Duration = Duration::from_millis(2);

/// What is wrong with a program that is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExternalError {
    /// It cannot be run.
    NotRun {
        /// The program.
        program: PathBuf,
        /// Why.
        reason: String,
    },
    /// It said something else than a solver says.
    Unexpected {
        /// The program.
        program: PathBuf,
        /// What it said.
        said: String,
    },
}

impl fmt::Display for ExternalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExternalError::NotRun { program, reason } => {
                write!(
                    f,
                    "the solver {} cannot be run: {reason}",
                    program.display()
                )
            }
            ExternalError::Unexpected { program, said } => write!(
                f,
                "the solver {} says neither sat nor unsat nor unknown: {said}",
                program.display()
            ),
        }
    }
}

impl std::error::Error for ExternalError {}

/// A program, and how long it may take for an answer.
///
/// [`Answer`]s have no room for what goes wrong with it: what first did is kept, and told by
/// [`External::failure`]. Until then all that it would have proved is unknown, so nothing is unsafe.
#[derive(Clone, Debug)]
pub(crate) struct External {
    program: PathBuf,
    timeout: Duration,
    failure: Arc<Mutex<Option<ExternalError>>>,
}

impl External {
    /// This program: `z3`, or a path to any that reads SMT-LIB 2 from its standard input. It is asked two
    /// easy questions first.
    ///
    /// # Errors
    /// Where it cannot be run, or answers these wrongly.
    pub(crate) fn new(
        program: impl Into<PathBuf>,
        timeout: Duration,
    ) -> Result<External, ExternalError> {
        let external = External {
            program: program.into(),
            timeout,
            failure: Arc::default(),
        };
        for (truth, right) in [
            (true, Answer::Satisfiable(None)),
            (false, Answer::Unsatisfiable),
        ] {
            let mut problem = Problem::default();
            let flag = problem.flag("easy");
            problem.assert(flag.clone());
            let other = if truth { flag } else { flag.negated() };
            problem.assert(Formula::all([other]));
            let answer = external.ask(&problem)?;
            if answer != right {
                return Err(ExternalError::Unexpected {
                    program: external.program,
                    said: format!("{answer:?} where it should be {right:?}"),
                });
            }
        }
        Ok(external)
    }

    /// What went wrong first, if anything has.
    pub(crate) fn failure(&self) -> Option<ExternalError> {
        self.failure.lock().ok()?.clone()
    }

    fn ask(&self, problem: &Problem) -> Result<Answer, ExternalError> {
        let text = match smtlib::print(problem) {
            Ok(text) => text,
            Err(overflow) => return Ok(Answer::Unknown(overflow.to_string())),
        };
        let Some(said) = self.run(&text)? else {
            return Ok(Answer::Unknown(format!(
                "{} has not answered within {:?}",
                self.program.display(),
                self.timeout
            )));
        };
        match said.trim() {
            "sat" => Ok(Answer::Satisfiable(None)),
            "unsat" => Ok(Answer::Unsatisfiable),
            "unknown" | "timeout" => Ok(Answer::Unknown(format!(
                "{} cannot tell",
                self.program.display()
            ))),
            _ => Err(ExternalError::Unexpected {
                program: self.program.clone(),
                said,
            }),
        }
    }

    /// What the program prints when it is given a text; none where it takes too long.
    fn run(&self, text: &str) -> Result<Option<String>, ExternalError> {
        let not_run = |error: std::io::Error| ExternalError::NotRun {
            program: self.program.clone(),
            reason: error.to_string(),
        };
        let mut command = Command::new(&self.program);
        let name = self
            .program
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy();
        if name.starts_with("z3") {
            command.arg("-in"); // Others read their standard input without being told.
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().map_err(not_run)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let text = text.to_owned();
        // Both ways at once, so that neither waits for the other.
        let writer = thread::spawn(move || match stdin {
            Some(mut stdin) => stdin.write_all(text.as_bytes()),
            None => Ok(()),
        });
        let reader = thread::spawn(move || {
            let mut said = String::new();
            match stdout {
                Some(mut stdout) => stdout.read_to_string(&mut said).map(|_| said),
                None => Ok(said),
            }
        });
        let started = Instant::now();
        while child.try_wait().map_err(not_run)?.is_none() {
            if started.elapsed() >= self.timeout {
                child.kill().map_err(not_run)?;
                child.wait().map_err(not_run)?;
                return Ok(None);
            }
            thread::sleep(PAUSE);
        }
        // One that has answered need not have read to the end.
        let _ = writer.join();
        match reader.join() {
            Ok(said) => said.map(Some).map_err(not_run),
            Err(_) => Ok(None),
        }
    }
}

impl Decide for External {
    fn decide(&self, problem: &Problem) -> Answer {
        self.ask(problem).unwrap_or_else(|error| {
            let unknown = Answer::Unknown(error.to_string());
            if let Ok(mut failure) = self.failure.lock() {
                failure.get_or_insert(error);
            }
            unknown
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    #[test]
    fn a_program_that_is_not_there_is_refused() {
        let absent = External::new("/nowhere/z3", TIMEOUT);
        assert!(
            matches!(absent, Err(ExternalError::NotRun { .. })),
            "{absent:?}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_is_no_solver_is_refused() {
        let echo = External::new("/bin/cat", TIMEOUT);
        let Err(error @ ExternalError::Unexpected { .. }) = echo else {
            panic!("{echo:?}");
        };
        let told = error.to_string();
        assert!(
            told.contains("says neither sat nor unsat nor unknown: (set-logic"),
            "{told}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn one_that_takes_too_long_knows_nothing() {
        let slow = External {
            program: PathBuf::from("/usr/bin/yes"),
            timeout: Duration::from_millis(1),
            failure: Arc::default(),
        };
        let Answer::Unknown(reason) = slow.decide(&Problem::default()) else {
            panic!("it has decided");
        };
        assert!(reason.contains("has not answered within 1ms"), "{reason}");
        assert_eq!(slow.failure(), None);
    }
}
