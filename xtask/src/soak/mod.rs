//! `cargo xtask soak`: the simulator for hours, over every workload, protocol and level of faults.
//!
//! Seeds are taken by shifts, a combination after the other, and where each stands is kept in
//! `target/soak/state`: the next soak goes on with the seeds after the last. So a night's soak may be
//! cut at any time, and no seed is run twice for the same commit. After every shift
//! `target/soak/summary.md` says what has been run and what was found; what fails leaves its minimised
//! case beside it.

mod state;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use self::state::{Combination, Failure, State, Told};
use crate::{Outcome, Trouble, cargo};

/// What the command line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// For how long.
    time: Duration,
    /// Whether to forget what earlier soaks have done.
    fresh: bool,
}

impl Options {
    /// Reads the command's arguments: `--minutes N [--fresh]`.
    ///
    /// # Errors
    /// Misuse, for anything else.
    pub(crate) fn parse(arguments: &[String]) -> Result<Options, Trouble> {
        let mut minutes = None;
        let mut fresh = false;
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
                other => return Err(Trouble::Misuse(format!("soak takes no `{other}`"))),
            }
        }
        let minutes = minutes.ok_or_else(|| {
            Trouble::Misuse("soak has to be told for how long: `--minutes N`".into())
        })?;
        Ok(Options {
            time: Duration::from_secs(minutes * 60),
            fresh,
        })
    }
}

/// Runs shifts until the time is over.
///
/// # Errors
/// When the command does not build, or its folder cannot be written.
pub(crate) fn run(root: &Path, options: &Options) -> Result<Outcome, Trouble> {
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
    'soak: loop {
        for number in 0..state.combinations.len() {
            if Instant::now() >= end {
                break 'soak;
            }
            let began = Instant::now();
            shift(&binary, &folder, &mut state, number)?;
            let took = began.elapsed();
            let combination = &mut state.combinations[number];
            combination.take_about(took);
            println!("  {combination}");
            replace(&path, &state.to_text()).map_err(tool)?;
            replace(&folder.join("summary.md"), &state.summary()).map_err(tool)?;
        }
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
    let told = Told::read(&text);
    match (output.status.code(), &told) {
        (Some(0 | 1 | 3 | 4), Some(_)) => {}
        (code, _) => {
            let code = code.map_or("no exit code".to_owned(), |code| {
                format!("exit code {code}")
            });
            return Err(Trouble::Tool(format!(
                "{command:?} ended with {code}:\n{text}"
            )));
        }
    }
    let told = told.unwrap_or_default();
    let arguments = combination.arguments().join(" ");
    let combination = &mut state.combinations[number];
    // It gives up after many failures.
    combination.next = from + told.seeds;
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

/// Every combination that is soaked.
fn combinations() -> Vec<Combination> {
    let workloads = [
        "register",
        "counter",
        "bank",
        "smallbank",
        "payroll",
        "tpcc",
    ];
    let protocols = ["ramp-fast", "locking"];
    let levels = ["none", "mild", "storm"];
    let mut all = Vec::new();
    // Storms first: they find most.
    for level in levels.iter().rev() {
        for workload in workloads {
            for protocol in protocols {
                all.push(Combination::new(workload, protocol, level));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Trouble> {
        Options::parse(&crate::words(line))
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
