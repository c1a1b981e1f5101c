//! An external solver program, which reads SMT-LIB 2 and prints `sat`, `unsat` or `unknown`.

use std::fmt;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anabranch_analysis::solve::{Answer, Decide, Formula, Problem, smtlib};

/// The interval of checks whether the program has ended.
const PAUSE: Duration = Duration::from_millis(2);

/// An error of a solver program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExternalError {
    /// The program cannot be run.
    NotRun {
        /// The program.
        program: PathBuf,
        /// Why.
        reason: String,
    },
    /// The program printed something else than an answer.
    Unexpected {
        /// The program.
        program: PathBuf,
        /// The output.
        output: String,
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
            ExternalError::Unexpected { program, output } => write!(
                f,
                "the solver {} printed neither sat nor unsat nor unknown: {output}",
                program.display()
            ),
        }
    }
}

impl std::error::Error for ExternalError {}

/// A solver program, and the timeout of its answers.
///
/// An [`Answer`] cannot hold an error of the program. The first error is kept for [`External::failure`]; the answers
/// are then unknown, which is safe.
#[derive(Clone, Debug)]
pub(crate) struct External {
    program: PathBuf,
    timeout: Duration,
    failure: Arc<Mutex<Option<ExternalError>>>,
}

impl External {
    /// Uses this program: `z3`, or the path of a program that reads SMT-LIB 2 from its standard input. Two easy
    /// problems check that it works.
    ///
    /// # Errors
    /// When it cannot be run, or answers an easy problem wrongly.
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
                    output: format!("{answer:?} where it should be {right:?}"),
                });
            }
        }
        Ok(external)
    }

    /// The first error, if there is one.
    pub(crate) fn failure(&self) -> Option<ExternalError> {
        self.failure.lock().ok()?.clone()
    }

    fn ask(&self, problem: &Problem) -> Result<Answer, ExternalError> {
        let text = match smtlib::print(problem) {
            Ok(text) => text,
            Err(overflow) => return Ok(Answer::Unknown(overflow.to_string())),
        };
        let Some(output) = self.run(&text)? else {
            return Ok(Answer::Unknown(format!(
                "{} has not answered within {:?}",
                self.program.display(),
                self.timeout
            )));
        };
        match output.trim() {
            "sat" => Ok(Answer::Satisfiable(None)),
            "unsat" => Ok(Answer::Unsatisfiable),
            "unknown" | "timeout" => Ok(Answer::Unknown(format!(
                "{} answered unknown",
                self.program.display()
            ))),
            _ => Err(ExternalError::Unexpected {
                program: self.program.clone(),
                output,
            }),
        }
    }

    /// The output of the program for this input; None after the timeout.
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
            command.arg("-in"); // Other solvers read their standard input by default.
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().map_err(not_run)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let text = text.to_owned();
        // Write and read concurrently, so that a full pipe does not block both processes.
        let writer = thread::spawn(move || match stdin {
            Some(mut stdin) => stdin.write_all(text.as_bytes()),
            None => Ok(()),
        });
        let reader = thread::spawn(move || {
            let mut output = String::new();
            match stdout {
                Some(mut stdout) => stdout.read_to_string(&mut output).map(|_| output),
                None => Ok(output),
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
        // A program may answer before it has read the whole input: an error of the writer is ignored.
        let _ = writer.join();
        match reader.join() {
            Ok(output) => output.map(Some).map_err(not_run),
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
    fn a_missing_program_is_refused() {
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
        let text = error.to_string();
        assert!(
            text.contains("printed neither sat nor unsat nor unknown: (set-logic"),
            "{text}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_timeout_gives_no_answer() {
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
