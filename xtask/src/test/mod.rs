//! `cargo xtask test`: finds the programs that tests need, runs tidy, every test and the clients of other people
//! (see [`clients`]), and prints one count.
//!
//! A minute of [`chaos`] counts as one test, and one in a ring as another. The count sums the `test result:` lines of the test programs. Tidy counts as one test, and a build that fails
//! before it reports anything as one failure, so that count and exit code agree. Nothing is skipped in silence:
//! ignored tests are counted and named, and the output says what `--quick` skips.

mod clients;
mod counts;
mod installer;
mod postgres;
mod programs;
mod z3;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use crate::tidy::{self, Depth};
use crate::{Built, Outcome, Trouble, cargo, chaos};
use counts::Counts;

/// The folder with PostgreSQL's server programs, for the tests that compare with it.
const POSTGRES_BIN: &str = "ANABRANCH_POSTGRES_BIN";

/// Z3, for the tests that compare with it.
const Z3: &str = "ANABRANCH_Z3";

/// Set to 1 to shorten random runs.
const QUICK: &str = "ANABRANCH_QUICK";

/// The options of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    depth: Depth,
    /// Only the programs under `tests/clients`.
    only_clients: bool,
    /// Arguments of `cargo test`.
    arguments: Vec<String>,
}

impl Options {
    /// Reads the command's arguments: `--clients`, or `[--quick] [-- ARGS]`.
    ///
    /// # Errors
    /// Misuse, for anything else before `--`.
    pub(crate) fn parse(arguments: &[String]) -> Result<Options, Trouble> {
        let end = arguments.iter().position(|argument| argument == "--");
        let (ours, theirs) = match end {
            Some(end) => (&arguments[..end], &arguments[end + 1..]),
            None => (arguments, &[][..]),
        };
        let (depth, only_clients) = match ours {
            [] => (Depth::Full, false),
            [one] if one == "--quick" => (Depth::Quick, false),
            [one] if one == "--clients" && theirs.is_empty() => (Depth::Quick, true),
            _ => {
                let message = format!("test takes no `{}`; `--` goes before it", ours.join(" "));
                return Err(Trouble::Misuse(message));
            }
        };
        Ok(Options {
            depth,
            only_clients,
            arguments: theirs.to_vec(),
        })
    }

    /// The arguments for cargo: the whole workspace, unless packages are named.
    fn cargo_arguments(&self) -> Vec<&str> {
        let mut arguments = vec!["test", "--no-fail-fast"];
        let ours = self
            .arguments
            .iter()
            .take_while(|argument| *argument != "--");
        let mut names =
            ours.filter(|argument| argument.starts_with("-p") || argument.starts_with("--package"));
        if names.next().is_none() {
            arguments.push("--workspace");
        }
        arguments.extend(self.arguments.iter().map(String::as_str));
        arguments
    }
}

/// Runs everything in the workspace at `root`; the last line printed is the count.
///
/// # Errors
/// When PostgreSQL is missing and cannot be installed, or cargo cannot be started.
pub(crate) fn run(root: &Path, options: &Options) -> Result<Outcome, Trouble> {
    let postgres = postgres::find_or_install()?;
    println!(
        "PostgreSQL: {} in {}",
        postgres.version,
        postgres.folder.display()
    );
    if options.only_clients {
        let mut counts = Counts::default();
        clients::run(root, &postgres, Built::No, &mut counts)?;
        return Ok(counts.close());
    }

    let z3 = z3::find_or_install();
    match &z3 {
        Ok(program) => println!("Z3: {}", program.display()),
        Err(reason) => println!("Z3: not found ({reason}): skipping the comparisons with it"),
    }

    let tidied = tidy::run(root, options.depth)?;
    let mut counts = Counts::default();

    let mut settings = vec![(POSTGRES_BIN, postgres.folder.as_path())];
    if let Ok(program) = &z3 {
        settings.push((Z3, program));
    }
    if options.depth == Depth::Quick {
        settings.push((QUICK, Path::new("1")));
    }
    let built = match options.arguments.is_empty() {
        true => {
            let built = programs::run(root, &settings, &mut counts)?;
            let examples = ["test", "--no-fail-fast", "--workspace", "--doc"];
            run_cargo(root, &examples, &settings, &mut counts)?;
            built
        }
        false => {
            run_cargo(root, &options.cargo_arguments(), &settings, &mut counts)?;
            Built::No
        }
    };
    match tidied {
        Outcome::Clean => counts.passed += 1,
        Outcome::Findings => counts.failed += 1,
    }
    // A filter names tests of cargo's.
    if options.arguments.is_empty() {
        clients::run(root, &postgres, built, &mut counts)?;
        if options.depth == Depth::Full {
            for options in [chaos::Options::minute(), chaos::Options::minute_of_belt()] {
                match chaos::run(root, &options, built)? {
                    Outcome::Clean => counts.passed += 1,
                    Outcome::Findings => counts.failed += 1,
                }
            }
        }
    }

    if options.depth == Depth::Quick {
        println!("--quick: shortened random runs, and skipped chaos and tidy's rules that compile");
    }
    if let Err(reason) = z3 {
        counts.skip(format!("comparisons with Z3: {reason}"));
    }
    Ok(counts.close())
}

/// Runs tests by cargo with these arguments.
fn run_cargo(
    root: &Path,
    arguments: &[&str],
    settings: &[(&str, &Path)],
    counts: &mut Counts,
) -> Result<(), Trouble> {
    let mut command = cargo();
    command.current_dir(root).args(arguments);
    command
        .envs(settings.iter().copied())
        .stdout(Stdio::piped());
    let failed = |error: std::io::Error| Trouble::Tool(format!("running cargo test: {error}"));
    let mut child = command.spawn().map_err(failed)?;
    if let Some(stdout) = child.stdout.take() {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).map_err(failed)? > 0 {
            let text = String::from_utf8_lossy(&line);
            print!("{text}");
            counts.read(text.trim_end());
            line.clear();
        }
    }
    let status = child.wait().map_err(failed)?;
    if !status.success() && counts.failed == 0 {
        println!("cargo test ended with {status} before its tests could report");
        counts.failed += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Trouble> {
        Options::parse(&crate::words(line))
    }

    #[test]
    fn arguments_after_the_dashes_are_cargos() {
        let plain = parse("").unwrap();
        assert_eq!(
            plain.cargo_arguments(),
            ["test", "--no-fail-fast", "--workspace"]
        );
        let one = parse("--quick -- -p anabranch-sql binder -- --nocapture").unwrap();
        assert_eq!(one.depth, Depth::Quick);
        assert_eq!(
            one.cargo_arguments(),
            [
                "test",
                "--no-fail-fast",
                "-p",
                "anabranch-sql",
                "binder",
                "--",
                "--nocapture"
            ]
        );
        let passed_on = parse("-- -- -p").unwrap();
        assert!(passed_on.cargo_arguments().contains(&"--workspace"));
    }

    #[test]
    fn clients_run_alone_when_named() {
        assert!(parse("--clients").unwrap().only_clients);
        assert!(!parse("--quick").unwrap().only_clients);
    }

    #[test]
    fn anything_else_is_misuse() {
        assert!(matches!(parse("binder"), Err(Trouble::Misuse(_))));
        assert!(matches!(parse("--quick --fast"), Err(Trouble::Misuse(_))));
        assert!(matches!(
            parse("--clients -- binder"),
            Err(Trouble::Misuse(_))
        ));
    }
}
