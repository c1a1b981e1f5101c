//! `cargo xtask soak`: the simulator for hours, over every workload, protocol, mode and level of faults.
//!
//! Seeds are taken by shifts, a combination after the other. Whose turn is next, and where each
//! stands, is kept in `target/soak/state`: the next soak goes on with the combination after the last,
//! and with the seeds after its last. So a soak may be cut at any time, short ones come to all
//! combinations as a long one does, and no seed is run twice for the same commit. After every shift
//! `target/soak/summary.md` says what has been run and what was found; what fails leaves its minimised
//! case beside it.

mod mode;
mod plans;
mod state;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use self::mode::MODES;
use self::state::{Combination, Failure, State, Told};
use crate::{Outcome, Trouble, cargo};

/// What the command line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// For how long.
    time: Duration,
    /// Whether to forget what earlier soaks have done.
    fresh: bool,
    /// Whether to attack the analyser's plans, and not to simulate.
    plans: bool,
}

impl Options {
    /// Reads the command's arguments: `--minutes N [--fresh] [--plans]`.
    ///
    /// # Errors
    /// Misuse, for anything else.
    pub(crate) fn parse(arguments: &[String]) -> Result<Options, Trouble> {
        let mut minutes = None;
        let (mut fresh, mut plans) = (false, false);
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--minutes" => {
                    let value = arguments.next().and_then(|text| text.parse::<u64>().ok());
                    minutes = value.filter(|minutes| (1..100_000).contains(minutes));
                    if minutes.is_none() {
                        let message = "`--minutes` needs a number from 1 to 99999".into();
                        return Err(Trouble::Misuse(message));
                    }
                }
                "--fresh" => fresh = true,
                "--plans" => plans = true,
                other => return Err(Trouble::Misuse(format!("soak takes no `{other}`"))),
            }
        }
        let minutes = minutes.ok_or_else(|| {
            Trouble::Misuse("soak has to be told for how long: `--minutes N`".into())
        })?;
        Ok(Options {
            time: Duration::from_secs(minutes * 60),
            fresh,
            plans,
        })
    }
}

/// Runs shifts until the time is over.
///
/// # Errors
/// When the command does not build, or its folder cannot be written.
pub(crate) fn run(root: &Path, options: &Options) -> Result<Outcome, Trouble> {
    if options.plans {
        return plans::run(root, options.time, options.fresh);
    }
    let binary = build(root)?;
    let folder = target(root).join("soak");
    let tool = |error: std::io::Error| Trouble::Tool(format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(&folder).map_err(tool)?;
    let commit = commit(root);
    let path = folder.join("state");
    let before = match std::fs::read_to_string(&path) {
        Ok(text) if !options.fresh => State::from_text(&text).map_err(|line| {
            Trouble::Tool(format!(
                "{}:{line}: not understood; `--fresh` begins anew",
                path.display()
            ))
        })?,
        _ => State::default(),
    };
    // Another commit is another program: its first seeds are worth running again.
    let mut state = if before.commit == commit {
        before
    } else {
        State::new(&commit)
    };
    let end = Instant::now() + options.time;
    println!(
        "{} combinations, for {} minutes; what was run is in {}",
        state.combinations.len(),
        options.time.as_secs() / 60,
        folder.display()
    );
    while Instant::now() < end {
        let began = Instant::now();
        let number = state.turn;
        shift(&binary, &folder, &mut state, number)?;
        state.end_turn(began.elapsed());
        println!("  {}", state.combinations[number]);
        replace(&path, &state.to_text()).map_err(tool)?;
        replace(&folder.join("summary.md"), &state.summary()).map_err(tool)?;
    }
    print!("\n{}", state.summary());
    Ok(if state.failures.is_empty() {
        Outcome::Clean
    } else {
        Outcome::Findings
    })
}

/// Writes a file in the place of another: whoever is killed meanwhile leaves one of the two whole.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, path)
}

/// One combination's next seeds.
fn shift(binary: &Path, folder: &Path, state: &mut State, number: usize) -> Result<(), Trouble> {
    let combination = &state.combinations[number];
    let (from, to) = (combination.next, combination.next + combination.shift);
    let case = folder.join(format!("{}-{from}.jsonl", combination.name()));
    let mut command = Command::new(binary);
    command
        .args(combination.arguments())
        .args(["--seeds", &format!("{from}..{to}")])
        .arg("--case")
        .arg(&case)
        .stderr(Stdio::null());
    let output = command
        .output()
        .map_err(|error| Trouble::Tool(format!("running {}: {error}", binary.display())))?;
    let text = String::from_utf8_lossy(&output.stdout);
    note(state, number, output.status.code(), &text, &case)
        .map_err(|what| Trouble::Tool(format!("{command:?} ended with {what}:\n{text}")))
}

/// Takes note of what a combination's shift has come to, which its text and its exit code tell.
///
/// # Errors
/// With the exit code in words, when the command could not do its work.
fn note(
    state: &mut State,
    number: usize,
    code: Option<i32>,
    text: &str,
    case: &Path,
) -> Result<(), String> {
    let (Some(0 | 1 | 3 | 4), Some(told)) = (code, Told::read(text)) else {
        return Err(match code {
            Some(code) => format!("exit code {code}"),
            None => "no exit code".to_owned(),
        });
    };
    let combination = &mut state.combinations[number];
    let arguments = combination.arguments().join(" ");
    // It gives up after many failures.
    combination.next += told.seeds;
    combination.add(&told);
    for (seed, what) in told.failed {
        state.failures.push(Failure {
            command: format!("anabranch {arguments} --seed {seed}"),
            what,
            case: case.display().to_string(),
        });
    }
    Ok(())
}

/// Builds the command.
fn build(root: &Path) -> Result<PathBuf, Trouble> {
    let mut command = cargo();
    command
        .current_dir(root)
        .args(["build", "--release", "-p", "anabranch"]);
    let status = command
        .status()
        .map_err(|error| Trouble::Tool(format!("running cargo: {error}")))?;
    if !status.success() {
        return Err(Trouble::Tool("the command does not build".into()));
    }
    let name = format!("anabranch{}", std::env::consts::EXE_SUFFIX);
    Ok(target(root).join("release").join(name))
}

fn target(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root.join(folder),
        None => root.join("target"),
    }
}

/// The commit that is checked out, and whether anything was changed since.
fn commit(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .current_dir(root)
            .args(arguments)
            .output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let head = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into());
    match git(&["status", "--porcelain"]) {
        Some(changes) if changes.is_empty() => head,
        _ => head + "-changed",
    }
}

/// Every combination that is soaked: each mode in turn, so that a round that is cut short has come to all of them
/// under storms, which find most.
fn combinations() -> Vec<Combination> {
    let mut all = Vec::new();
    for level in ["storm", "death", "absence", "mild", "none"] {
        for mode in MODES.iter().filter(|mode| mode.levels.contains(&level)) {
            for workload in mode.workloads {
                for protocol in mode.protocols {
                    all.push(Combination::new(workload, protocol, mode, level));
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn parse(line: &str) -> Result<Options, Trouble> {
        Options::parse(&crate::words(line))
    }

    /// It gives up after many failures: the seeds behind them come next time.
    #[test]
    fn seeds_that_were_not_run_are_run_next() {
        let mut state = State::new("abc");
        state.combinations[4].next = 40;
        let says = "seeds 3, of which 1 failed and 2 were weak\nseed 41 violated: it\n";
        let case = Path::new("a/case.jsonl");
        note(&mut state, 4, Some(1), says, case).expect("it has run");
        let nexts = [3, 4, 5].map(|number: usize| state.combinations[number].next);
        assert_eq!(nexts, [0, 43, 0]);
        let arguments = state.combinations[4].arguments().join(" ");
        let failure = Failure {
            command: format!("anabranch {arguments} --seed 41"),
            what: "violated: it".into(),
            case: "a/case.jsonl".into(),
        };
        assert_eq!(state.failures, [failure]);
    }

    /// A tool that fails is no seed that fails, and none that holds.
    #[test]
    fn a_command_that_could_not_do_its_work_is_no_shift() {
        let sum = "seeds 20, of which 0 failed and 0 were weak\n";
        let cases = [
            ("", Some(0)),
            ("error: no\n", Some(2)),
            (sum, Some(2)),
            (sum, Some(101)),
            (sum, None),
        ];
        for (says, code) in cases {
            let mut state = State::new("abc");
            let noted = note(&mut state, 0, code, says, Path::new("case.jsonl"));
            assert!(noted.is_err(), "{code:?}: {says}");
            assert_eq!(state, State::new("abc"), "{code:?}: {says}");
        }
    }

    /// Whoever is killed while it is written leaves the old one.
    #[test]
    fn a_file_is_replaced_whole() {
        let scratch = Scratch::with(&[("state", "old")]);
        let path = scratch.path().join("state");
        // What is in its way is in the way of the new file, not of the old one.
        std::fs::create_dir(path.with_extension("new")).expect("the folder is writable");
        assert!(replace(&path, "new").is_err());
        let left = std::fs::read_to_string(&path).expect("it is there");
        assert_eq!(left, "old");
        std::fs::remove_dir(path.with_extension("new")).expect("it is there");
        replace(&path, "new").expect("the folder is writable");
        let left = std::fs::read_to_string(&path).expect("it is there");
        assert_eq!(left, "new");
        assert!(!path.with_extension("new").exists());
    }

    #[test]
    fn the_time_has_to_be_told() {
        let options = parse("--minutes 90 --fresh").expect("it makes sense");
        assert_eq!(options.time, Duration::from_secs(5_400));
        assert!(options.fresh);
        for line in [
            "",
            "--fresh",
            "--minutes",
            "--minutes 0",
            "--minutes x",
            "--hours 1",
        ] {
            assert!(matches!(parse(line), Err(Trouble::Misuse(_))), "{line}");
        }
    }
}
