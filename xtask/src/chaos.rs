//! `cargo xtask chaos`: kills a server again and again under load, and looks for what was acknowledged.
//!
//! The work is done by the example `chaos` of the crate `server`, which has a client of PostgreSQL; this builds it and
//! the command, and runs it for the given time.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, Trouble, cargo};

/// The options of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The duration.
    seconds: u64,
    /// What is promised of acknowledged transactions.
    durability: String,
}

impl Options {
    /// Parses the command's arguments: `--single --minutes N [--durability sync|batch|none]`.
    ///
    /// # Errors
    /// Misuse, for other arguments.
    pub(crate) fn parse(arguments: &[String]) -> Result<Options, Trouble> {
        let (mut minutes, mut single, mut durability) = (None, false, "sync".to_owned());
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--single" => single = true,
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
        if !single {
            let message = "only one server can be killed so far: `--single`".into();
            return Err(Trouble::Misuse(message));
        }
        let minutes = minutes
            .ok_or_else(|| Trouble::Misuse("chaos needs its duration: `--minutes N`".into()))?;
        Ok(Options {
            seconds: minutes * 60,
            durability,
        })
    }

    /// A minute, which is part of `cargo xtask test`.
    pub(crate) fn minute() -> Options {
        Options {
            seconds: 60,
            durability: "sync".to_owned(),
        }
    }
}

/// Builds the server and kills it.
///
/// # Errors
/// When cargo cannot be started, or the server does not build.
pub(crate) fn run(root: &Path, options: &Options) -> Result<Outcome, Trouble> {
    let failed = |error: std::io::Error| Trouble::Tool(format!("running cargo: {error}"));
    for arguments in [
        &["build", "--quiet", "-p", "anabranch"][..],
        &[
            "build",
            "--quiet",
            "-p",
            "anabranch-server",
            "--example",
            "chaos",
        ],
    ] {
        let built = cargo().current_dir(root).args(arguments).status();
        if !built.map_err(failed)?.success() {
            return Err(Trouble::Tool("the server does not build".to_owned()));
        }
    }
    let built = target(root).join("debug");
    println!(
        "chaos: killing a server for {} seconds, durability {}",
        options.seconds, options.durability
    );
    let status = Command::new(built.join("examples/chaos"))
        .arg(built.join("anabranch"))
        .arg(options.seconds.to_string())
        .arg(&options.durability)
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
        let batch = parse("--minutes 1 --durability batch --single").unwrap();
        assert_eq!(batch.durability, "batch");
        for wrong in [
            "",
            "--single",
            "--minutes 1",
            "--single --minutes 0",
            "--single --minutes 1 --durability some",
            "--single --minutes 1 --fast",
        ] {
            assert!(matches!(parse(wrong), Err(Trouble::Misuse(_))), "{wrong}");
        }
    }
}
