//! `cargo xtask soak --wire`: hostile input to the wire protocol and to servers, for hours. The example `hostile_input` of
//! `anabranch-wire` makes conversations of a seed, mutated or from nothing, and holds what comes back to the protocol; the
//! example `hostile_statements` of `anabranch-server` sends mutated statements and rows to servers that run.
//!
//! `target/soak/wire` has the next seeds. The next soak continues there, unless the commit has changed. The output of a
//! shift that failed is stored beside it.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use super::progress::Progress;
use super::{commit, target};
use crate::{Outcome, Trouble, cargo};

/// An example that runs seeds.
struct Source {
    package: &'static str,
    example: &'static str,
    /// The number of seeds of a shift: some seconds.
    shift: u64,
}

const SOURCES: [Source; 2] = [
    Source {
        package: "anabranch-wire",
        example: "hostile_input",
        shift: 100_000,
    },
    Source {
        package: "anabranch-server",
        example: "hostile_statements",
        shift: 10_000,
    },
];

/// How long a shift may take: a hundred times what it needs, so that only a hang meets it.
const SHIFT_MAX: Duration = Duration::from_secs(600);

/// Runs shifts of each source in turn until the time is over.
///
/// # Errors
/// If an example does not build, or its folder cannot be written.
pub(super) fn run(root: &Path, time: Duration, fresh: bool) -> Result<Outcome, Trouble> {
    let folder = target(root).join("soak").join("wire");
    let tool = |error: std::io::Error| Trouble::Tool(format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(&folder).map_err(tool)?;
    let path = folder.join("state");
    let commit = commit(root);
    if fresh && path.exists() {
        std::fs::remove_file(&path).map_err(tool)?;
    }
    let mut progress = Progress::read(&path, &commit);
    for Source {
        package, example, ..
    } in SOURCES
    {
        let built = cargo()
            .current_dir(root)
            .args(["build", "-p", package, "--example", example])
            .status()
            .map_err(tool)?;
        if !built.success() {
            return Err(Trouble::Tool(format!("{example} does not build")));
        }
    }
    let end = Instant::now() + time;
    println!("hostile input, for {} minutes", time.as_secs() / 60);
    for Source {
        package,
        example,
        shift,
    } in SOURCES.iter().cycle()
    {
        if Instant::now() >= end {
            break;
        }
        let from = progress.next(example, 0);
        let log = folder.join(format!("{example}-{from}.txt"));
        let output = File::create(&log).map_err(tool)?;
        let errors = output.try_clone().map_err(tool)?;
        let program = target(root)
            .join("debug/examples")
            .join(format!("{example}{}", std::env::consts::EXE_SUFFIX));
        let child = Command::new(&program)
            .args([shift.to_string(), from.to_string()])
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(tool)?;
        let how = match ended(child, SHIFT_MAX).map_err(tool)? {
            Some(status) if status.success() => {
                std::fs::remove_file(&log).map_err(tool)?;
                "held"
            }
            status => {
                progress.failures.push(format!(
                    "cargo run -p {package} --example {example} -- {shift} {from}"
                ));
                if status.is_some() { "FAILED" } else { "HANGS" }
            }
        };
        progress.set_next(example, from + shift);
        println!("  {example} {from}..{}: {how}", from + shift);
        progress.write(&path).map_err(tool)?;
    }
    print!("\n{}", summary(&progress));
    Ok(match progress.failures.is_empty() {
        true => Outcome::Clean,
        false => Outcome::Findings,
    })
}

/// How a process ended; `None` if it had to be ended by force after this time.
fn ended(mut child: Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn summary(progress: &Progress) -> String {
    let mut text = String::new();
    for Source { example, .. } in SOURCES {
        let run = progress.next(example, 0);
        text.push_str(&format!("{run:>9} inputs  {example}\n"));
    }
    match progress.failures.len() {
        0 => text.push_str("no input broke anything\n"),
        _ => text.push_str("inputs broke something in these shifts:\n"),
    }
    for command in &progress.failures {
        text.push_str(&format!("  {command}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_hangs_is_ended() {
        let start = |words: &[&str]| Command::new("sh").arg("-c").args(words).spawn();
        let child = start(&["exit 3"]).expect("sh starts");
        let status = ended(child, Duration::from_secs(60)).expect("it ends");
        assert_eq!(status.and_then(|status| status.code()), Some(3));
        let child = start(&["exec sleep 1000"]).expect("sh starts");
        assert_eq!(ended(child, Duration::ZERO).expect("it is ended"), None);
    }

    #[test]
    fn the_summary_has_the_command_that_repeats_a_failure() {
        let mut progress = Progress::default();
        progress.set_next("hostile_input", 200_000);
        assert!(summary(&progress).starts_with("   200000 inputs  hostile_input\n"));
        progress.failures.push("cargo run".into());
        assert!(summary(&progress).ends_with("shifts:\n  cargo run\n"));
    }
}
