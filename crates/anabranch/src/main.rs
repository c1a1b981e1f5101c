//! The `anabranch` command.

mod cli;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::run(cli::Arguments::parse()) {
        Ok(cli::Verdict::Fine) => ExitCode::SUCCESS,
        Ok(cli::Verdict::Finding) => ExitCode::from(1),
        Ok(cli::Verdict::NoProgress) => ExitCode::from(3),
        Ok(cli::Verdict::Crash) => ExitCode::from(4),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
