//! The `anabranch` command.

mod cli;

use std::process::ExitCode;

use clap::Parser;

/// Messages are made by one node's thread and dropped by another's, which costs the system's allocator
/// a fifth of what distributed transactions take. It is compiled by the C compiler that links Rust programs;
/// who has none builds with `--no-default-features`.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match cli::run(cli::Arguments::parse()) {
        Ok(verdict) => ExitCode::from(verdict.exit_code()),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
