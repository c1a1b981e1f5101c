//! The project's development commands, in Rust so that they need only the toolchain.
//!
//! * `cargo xtask test` finds the programs that tests need, runs `tidy` and every test, and ends with one
//!   count. See [`mod@test`].
//! * `cargo xtask tidy` checks the rules of CONTRIBUTING.md and the invariants of ARCHITECTURE.md, each in a
//!   file of its own. See [`tidy`].
//! * `cargo xtask mutants` plants the bugs under `tests/mutants` one by one, and checks that the tests catch
//!   each. See [`mutants`].
//! * `cargo xtask chaos` kills a server again and again under load. See [`chaos`].
//! * `cargo xtask soak` runs the simulator for a given time. See [`soak`].
//!
//! Exit codes are those of the `anabranch` binary: 0 for nothing to report, 1 for a finding or a
//! failed test, 2 for misuse or a tool that could not run.

mod chaos;
mod mutants;
mod scratch;
mod soak;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
The project's development commands.

Usage: cargo xtask COMMAND

Commands:
  test [--quick] [-- ARGS]  Tidy, then every test; the last line is the count.
                            ARGS go to `cargo test`: a filter, `-p anabranch-sql`, `-- --nocapture`.
  test --clients            Only the programs under tests/clients: unmodified clients of PostgreSQL
                            against PostgreSQL and against ours.
  tidy [--quick]            Every rule of the project; findings as `path:line: rule: message`.
  mutants [--list] [--only NAME] [--jobs N] [--seconds N]
                            Plants each bug under tests/mutants in a copy of the working tree;
                            the tests that it names must fail. --only takes a part of a name, and
                            may be repeated; --seconds limits the time of each command (300).
  chaos --single --minutes N [--durability sync|batch|none]
  chaos --belt --minutes N
                            Kills a server with SIGKILL again and again while clients write;
                            nothing acknowledged may be lost.
  soak --minutes N [--fresh] [--plans | --wire]
                            Runs the simulator over every workload, protocol and level of faults,
                            and continues where the last soak of this commit ended; the summary is in
                            target/soak. --plans attacks the analyser's plans of generated
                            applications instead, and --wire sends hostile input to the state machine of
                            PostgreSQL's protocol; --fresh begins anew.
  help                      This text.

Options:
  --quick  Skips the rules that compile (clippy, rustdoc), and sets ANABRANCH_QUICK=1, which
           shortens long random runs of tests.

Exit codes: 0 nothing to report, 1 a finding or a failed test, 2 misuse or a failed tool.
";

/// The result of a command that could run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Nothing to report.
    Clean,
    /// A rule has findings, or a test fails.
    Findings,
}

/// Why a command could not run.
#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    /// The command line is not valid.
    Misuse(String),
    /// A program or file that is needed is missing, or failed.
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
        "test" | "tidy" | "mutants" | "chaos" | "soak"
            if rest.iter().any(|argument| argument == "--help") =>
        {
            print!("{HELP}");
            Ok(Outcome::Clean)
        }
        "test" => test::run(&root()?, &test::Options::parse(rest)?),
        "tidy" => tidy::run(&root()?, tidy::Depth::parse(rest)?),
        "mutants" => mutants::run(&root()?, &mutants::Options::parse(rest)?),
        "chaos" => {
            let options = chaos::Options::parse(rest)?;
            chaos::run(&root()?, &options, Built::No)
        }
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

/// The cargo that runs this program, so that `cargo +version xtask` keeps its version.
fn cargo() -> std::process::Command {
    std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Whether the programs and examples of the workspace are built. A build of all tests builds them, too; one of a package
/// alone may build all that it uses again, with other features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Built {
    /// They are, under the build folder's `debug`.
    Yes,
    /// They may be of an earlier state.
    No,
}

impl Built {
    /// Builds, unless all is built, what these arguments of `cargo build` name.
    ///
    /// # Errors
    /// When it does not build.
    fn or(self, root: &Path, arguments: &[&str]) -> Result<(), Trouble> {
        if self == Built::Yes {
            return Ok(());
        }
        let mut command = cargo();
        command.current_dir(root).args(["build", "--quiet"]);
        let status = command.args(arguments).status();
        match status
            .map_err(|error| Trouble::Tool(format!("running cargo: {error}")))?
            .success()
        {
            true => Ok(()),
            false => Err(Trouble::Tool("the server does not build".to_owned())),
        }
    }
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
    fn misuse_is_distinct_from_findings() {
        for line in ["", "tests", "tidy --fast", "test -p anabranch-sql"] {
            let outcome = run(&words(line));
            assert!(
                matches!(outcome, Err(Trouble::Misuse(_))),
                "{line}: {outcome:?}"
            );
        }
    }
}
