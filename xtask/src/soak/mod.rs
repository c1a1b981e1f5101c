//! `cargo xtask soak`: runs the simulator for hours, over all workloads, protocols, modes and fault profiles.
//!
//! Combinations take turns; a turn, a *shift*, runs some seeds of one combination. `target/soak/state` has
//! the next combination, and each combination's next seed, and the next soak continues there. So a soak
//! may be interrupted at any time, short soaks reach all combinations as a long one does, and no seed is
//! run twice for the same commit. After every shift `target/soak/summary.md` has what was run and found.
//! Each failure leaves its minimised case beside it.

mod mode;
mod plans;
mod progress;
mod state;
mod wire;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use self::mode::MODES;
use self::state::{Combination, Failure, Reported, State};
use crate::{Outcome, Trouble, cargo};

/// What a soak tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// The simulator's combinations.
    Simulator,
    /// The analyser's plans.
    Plans,
    /// The wire protocol.
    Wire,
}

/// The options of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The duration.
    time: Duration,
    /// Whether to discard the state of earlier soaks.
    fresh: bool,
    /// What is tried.
    subject: Subject,
}

impl Options {
    /// Parses the command's arguments: `--minutes N [--fresh] [--plans | --wire]`.
    ///
    /// # Errors
    /// Misuse, for other arguments.
    pub(crate) fn parse(arguments: &[String]) -> Result<Options, Trouble> {
        let mut minutes = None;
        let (mut fresh, mut subject) = (false, Subject::Simulator);
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
                "--plans" | "--wire" if subject != Subject::Simulator => {
                    let message = "soak tries one of `--plans` and `--wire`".into();
                    return Err(Trouble::Misuse(message));
                }
                "--plans" => subject = Subject::Plans,
                "--wire" => subject = Subject::Wire,
                other => return Err(Trouble::Misuse(format!("soak has no option `{other}`"))),
            }
        }
        let minutes = minutes
            .ok_or_else(|| Trouble::Misuse("soak needs its duration: `--minutes N`".into()))?;
        Ok(Options {
            time: Duration::from_secs(minutes * 60),
            fresh,
            subject,
        })
    }
}

/// Runs shifts until the time is over.
///
/// # Errors
/// If the command does not build, or its folder cannot be written.
pub(crate) fn run(root: &Path, options: &Options) -> Result<Outcome, Trouble> {
    match options.subject {
        Subject::Simulator => {}
        Subject::Plans => return plans::run(root, options.time, options.fresh),
        Subject::Wire => return wire::run(root, options.time, options.fresh),
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
                "{}:{line}: malformed; `--fresh` starts over",
                path.display()
            ))
        })?,
        _ => State::default(),
    };
    // Another commit starts with the first seeds again.
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

/// Replaces a file atomically: a process that is killed meanwhile leaves the old or the new file whole.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, path)
}

/// Runs one combination's next seeds.
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

/// Records the result of a combination's shift, from its output and its exit code.
///
/// # Errors
/// The exit code, if the command failed to run the seeds.
fn note(
    state: &mut State,
    number: usize,
    code: Option<i32>,
    text: &str,
    case: &Path,
) -> Result<(), String> {
    let (Some(0 | 1 | 3 | 4), Some(reported)) = (code, Reported::read(text)) else {
        return Err(match code {
            Some(code) => format!("exit code {code}"),
            None => "no exit code".to_owned(),
        });
    };
    let combination = &mut state.combinations[number];
    let arguments = combination.arguments().join(" ");
    // After many failures it does not run all seeds.
    combination.next += reported.seeds;
    combination.add(&reported);
    for (seed, what) in reported.failed {
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

/// The commit that is checked out, with a suffix if the tree has changes.
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

/// All combinations, storms first: they find most, so a round that is interrupted has run them in all modes.
fn combinations() -> Vec<Combination> {
    let mut all = Vec::new();
    for profile in ["storm", "permanent_loss", "long_outage", "mild", "none"] {
        for mode in MODES.iter().filter(|mode| mode.profiles.contains(&profile)) {
            for workload in mode.workloads {
                for protocol in mode.protocols {
                    all.push(Combination::new(workload, protocol, mode, profile));
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

    /// After many failures a shift ends early: its remaining seeds come next.
    #[test]
    fn seeds_that_were_not_run_are_run_next() {
        let mut state = State::new("abc");
        state.combinations[4].next = 40;
        let report = "seeds 3, of which 1 failed and 2 were weak\nseed 41 violated: it\n";
        let case = Path::new("a/case.jsonl");
        note(&mut state, 4, Some(1), report, case).expect("it has run");
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

    /// A failure of the tool counts neither as a failing nor as a passing seed.
    #[test]
    fn a_command_that_fails_to_run_is_not_a_shift() {
        let sum = "seeds 20, of which 0 failed and 0 were weak\n";
        let cases = [
            ("", Some(0)),
            ("error: no\n", Some(2)),
            (sum, Some(2)),
            (sum, Some(101)),
            (sum, None),
        ];
        for (report, code) in cases {
            let mut state = State::new("abc");
            let noted = note(&mut state, 0, code, report, Path::new("case.jsonl"));
            assert!(noted.is_err(), "{code:?}: {report}");
            assert_eq!(state, State::new("abc"), "{code:?}: {report}");
        }
    }

    /// A process that is killed while it writes leaves the old file.
    #[test]
    fn a_file_is_replaced_whole() {
        let scratch = Scratch::with(&[("state", "old")]);
        let path = scratch.path().join("state");
        // A folder blocks the new file, not the old one.
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
    fn the_duration_is_required() {
        let options = parse("--minutes 90 --fresh").expect("the arguments are valid");
        assert_eq!(options.time, Duration::from_secs(5_400));
        assert!(options.fresh);
        let options = parse("--wire --minutes 1").expect("the arguments are valid");
        assert_eq!(options.subject, Subject::Wire);
        for line in [
            "",
            "--fresh",
            "--minutes",
            "--minutes 0",
            "--minutes x",
            "--hours 1",
            "--minutes 1 --plans --wire",
        ] {
            assert!(matches!(parse(line), Err(Trouble::Misuse(_))), "{line}");
        }
    }
}
