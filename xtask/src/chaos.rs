//! `cargo xtask chaos`: kills a server again and again under load, and looks for what was acknowledged.
//!
//! The work is done by the example `chaos` of the crate `server`, or, for a ring of the belt, `belt-chaos` of the crate
//! `middleware`: they have a client of PostgreSQL. This builds one of them and the command, and runs it for the given time.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Built, Outcome, Trouble};

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// One server of ours.
    Single,
    /// The middlewares and the PostgreSQL servers of a ring.
    Belt,
}

/// The options of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// What is killed.
    victim: Victim,
    /// The duration.
    seconds: u64,
    /// What is promised of acknowledged transactions.
    durability: String,
}

impl Options {
    /// Parses the command's arguments: `--single --minutes N [--durability sync|batch|none]`, or `--belt --minutes N`.
    ///
    /// # Errors
    /// Misuse, for other arguments.
    pub(crate) fn parse(arguments: &[String]) -> Result<Options, Trouble> {
        let (mut minutes, mut victim, mut durability) = (None, None, "sync".to_owned());
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--single" => victim = Some(Victim::Single),
                "--belt" => victim = Some(Victim::Belt),
                "--minutes" => {
                    let value = arguments.next().and_then(|text| text.parse::<u64>().ok());
                    minutes = value.filter(|minutes| (1..100_000).contains(minutes));
                    if minutes.is_none() {
                        let message = "`--minutes` needs a number from 1 to 99999".into();
                        return Err(Trouble::Misuse(message));
                    }
                }
                "--durability" => match arguments.next().map(String::as_str) {
                    Some(word @ ("sync" | "batch" | "none")) => durability = word.to_owned(),
                    _ => {
                        let message = "`--durability` is sync, batch or none".into();
                        return Err(Trouble::Misuse(message));
                    }
                },
                other => return Err(Trouble::Misuse(format!("chaos has no option `{other}`"))),
            }
        }
        let victim = victim.ok_or_else(|| {
            Trouble::Misuse("chaos has to know what it kills: `--single` or `--belt`".into())
        })?;
        if victim == Victim::Belt && durability != "sync" {
            let message = "PostgreSQL's servers are always durable: `--belt` has no `--durability`";
            return Err(Trouble::Misuse(message.into()));
        }
        let minutes = minutes
            .ok_or_else(|| Trouble::Misuse("chaos needs its duration: `--minutes N`".into()))?;
        Ok(Options {
            victim,
            seconds: minutes * 60,
            durability,
        })
    }

    /// A minute, which is part of `cargo xtask test`.
    pub(crate) fn minute() -> Options {
        Options {
            victim: Victim::Single,
            seconds: 60,
            durability: "sync".to_owned(),
        }
    }

    /// The same for a ring.
    pub(crate) fn minute_of_belt() -> Options {
        Options {
            victim: Victim::Belt,
            ..Options::minute()
        }
    }
}

/// Builds the server, unless it is, and kills it.
///
/// # Errors
/// When cargo cannot be started, or the server does not build.
pub(crate) fn run(root: &Path, options: &Options, built: Built) -> Result<Outcome, Trouble> {
    let (of, example) = match options.victim {
        Victim::Single => ("anabranch-server", "chaos"),
        Victim::Belt => ("anabranch-middleware", "belt-chaos"),
    };
    built.or(root, &["-p", "anabranch"])?;
    built.or(root, &["-p", of, "--example", example])?;
    let built = target(root).join("debug");
    let mut command = Command::new(built.join("examples").join(example));
    command
        .arg(built.join("anabranch"))
        .arg(options.seconds.to_string());
    match options.victim {
        Victim::Single => {
            println!(
                "chaos: killing a server for {} seconds, durability {}",
                options.seconds, options.durability
            );
            command.arg(&options.durability);
        }
        Victim::Belt => {
            println!("chaos: killing in a ring for {} seconds", options.seconds);
        }
    }
    let status = command
        .status()
        .map_err(|error| Trouble::Tool(format!("running chaos: {error}")))?;
    Ok(match status.success() {
        true => Outcome::Clean,
        false => Outcome::Findings,
    })
}

/// Cargo's folder for what it builds.
fn target(root: &Path) -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    root.join(named.unwrap_or_else(|| "target".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Trouble> {
        Options::parse(&crate::words(line))
    }

    #[test]
    fn a_duration_and_a_single_server_are_named() {
        let options = parse("--single --minutes 10").unwrap();
        assert_eq!((options.seconds, &*options.durability), (600, "sync"));
        let ring = parse("--belt --minutes 10").unwrap();
        assert_eq!((ring.victim, ring.seconds), (Victim::Belt, 600));
        let batch = parse("--minutes 1 --durability batch --single").unwrap();
        assert_eq!(batch.durability, "batch");
        for wrong in [
            "",
            "--single",
            "--minutes 1",
            "--single --minutes 0",
            "--single --minutes 1 --durability some",
            "--single --minutes 1 --fast",
            "--belt --minutes 1 --durability batch",
        ] {
            assert!(matches!(parse(wrong), Err(Trouble::Misuse(_))), "{wrong}");
        }
    }
}
