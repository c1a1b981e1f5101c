//! The project's own chores, in Rust so that they need nothing but the toolchain.
//!
//! * `cargo xtask test` finds what the tests need, runs `tidy`, runs every test and closes with
//!   one count. See [`mod@test`].
//! * `cargo xtask tidy` holds the habits of CONTRIBUTING.md and the invariants of
//!   ARCHITECTURE.md, one file a rule. See [`tidy`].
//! * `cargo xtask mutants` plants the bugs under `tests/mutants`, one after the other, and holds
//!   the tests to catching each. See [`mutants`].
//! * `cargo xtask soak` runs the simulator for as long as it is told. See [`soak`].
//!
//! Exit codes are those of the `anabranch` binary: 0 for nothing to report, 1 for a finding or a
//! failed test, 2 for misuse or a tool that could not run.

mod mutants;
mod scratch;
mod soak;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
The project's chores.

Usage: cargo xtask COMMAND

Commands:
  test [--quick] [-- ARGS]  Tidy, then every test; the last line is the count.
                            ARGS go to `cargo test`: a filter, `-p anabranch-sql`, `-- --nocapture`.
  tidy [--quick]            Every rule of the project; findings as `path:line: rule: message`.
  mutants [--list] [--only NAME] [--jobs N] [--seconds N]
                            Plants each bug under tests/mutants in a copy of the working tree;
                            the tests that it names must fail. --only takes a part of a name, and
                            may be repeated; --seconds is each command's time limit (300).
  soak --minutes N [--fresh] [--plans]
                            The simulator over every workload, protocol and level of faults, from
                            where the last soak of this commit has ended; a summary in target/soak.
                            --plans attacks the analyser's plans of made-up applications instead.
  help                      This text.

Options:
  --quick  Leaves out the rules that compile (clippy, rustdoc), and sets ANABRANCH_QUICK=1, by
           which tests with long random runs shorten them.

Exit codes: 0 nothing to report, 1 a finding or a failed test, 2 misuse or a tool that failed.
";

/// What a command found, when it could do its work at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Nothing to report.
    Clean,
    /// A rule or a test has something to say.
    Findings,
}

/// Why a command could not do its work.
#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    /// The command line made no sense.
    Misuse(String),
    /// A program or a file that is needed was not there, or failed.
    Tool(String),
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(Outcome::Clean) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(1),
        Err(Trouble::Misuse(message)) => {
            eprintln!("error: {message}\n\n{HELP}");
            ExitCode::from(2)
        }
        Err(Trouble::Tool(message)) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<Outcome, Trouble> {
    let Some((command, rest)) = arguments.split_first() else {
        return Err(Trouble::Misuse("a command is missing".into()));
    };
    match command.as_str() {
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(Outcome::Clean)
        }
        "test" | "tidy" | "mutants" | "soak"
            if rest.iter().any(|argument| argument == "--help") =>
        {
            print!("{HELP}");
            Ok(Outcome::Clean)
        }
        "test" => test::run(&root()?, &test::Options::parse(rest)?),
        "tidy" => tidy::run(&root()?, tidy::Depth::parse(rest)?),
        "mutants" => mutants::run(&root()?, &mutants::Options::parse(rest)?),
        "soak" => soak::run(&root()?, &soak::Options::parse(rest)?),
        other => Err(Trouble::Misuse(format!("there is no command `{other}`"))),
    }
}

/// The workspace's folder: the nearest one above the working directory that holds this crate.
fn root() -> Result<PathBuf, Trouble> {
    let here = std::env::current_dir().map_err(|error| Trouble::Tool(error.to_string()))?;
    here.ancestors()
        .find(|folder| folder.join("xtask/Cargo.toml").is_file())
        .map(Path::to_path_buf)
        .ok_or_else(|| Trouble::Tool("not inside the anabranch workspace".into()))
}

/// The cargo that runs us, so that `cargo +version xtask` stays with its version.
fn cargo() -> std::process::Command {
    std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A command line's words.
#[cfg(test)]
fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_no_finding() {
        assert_eq!(run(&words("help")), Ok(Outcome::Clean));
        assert_eq!(run(&words("test --help")), Ok(Outcome::Clean));
    }

    #[test]
    fn misuse_is_told_apart_from_findings() {
        for line in ["", "tests", "tidy --fast", "test -p anabranch-sql"] {
            let outcome = run(&words(line));
            assert!(
                matches!(outcome, Err(Trouble::Misuse(_))),
                "{line}: {outcome:?}"
            );
        }
    }
}
