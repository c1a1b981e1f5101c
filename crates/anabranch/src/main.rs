//! The `anabranch` command.

// `print!` panics where nothing can be written: see `cli::output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cli;
mod memory;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use cli::output::{CLOSED_PIPE, OutputError};

/// Messages are made by one node's thread and dropped by another's, which costs the system's allocator
/// a fifth of what distributed transactions take. It is compiled by the C compiler that links Rust programs;
/// who has none builds with `--no-default-features`.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match cli::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(told) => {
            // Help and the version come this way too, on standard output.
            return match told.print() {
                Ok(()) => ExitCode::from(u8::from(told.use_stderr()) * 2),
                Err(error) => failed(&OutputError::from(error)),
            };
        }
    };
    match cli::run(arguments) {
        Ok(verdict) => ExitCode::from(verdict.exit_code()),
        Err(error) => failed(&*error),
    }
}

/// Says why nothing came of it.
fn failed(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    let output = error.downcast_ref::<OutputError>();
    if output.is_some_and(OutputError::is_closed_pipe) {
        return ExitCode::from(CLOSED_PIPE);
    }
    // Where not even this can be said, the exit code says it.
    let _ = writeln!(io::stderr(), "{error}");
    ExitCode::from(2)
}
