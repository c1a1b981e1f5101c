//! The `anabranch` command.

// `print!` panics if it cannot write: see `cli::output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cli;
mod memory;

use std::io::{self, Write};
use std::process::ExitCode;

use cli::mistakes::{Refusal, parse};
use cli::output::{CLOSED_PIPE, OutputError};

/// One node's thread allocates a message and another's frees it. With the system's allocator this takes a fifth of the
/// time of distributed transactions. mimalloc needs a C compiler; `--no-default-features` builds without it.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match parse(std::env::args_os().collect()) {
        Ok(arguments) => arguments,
        Err(Refusal::One(message)) => {
            // Help and the version are such messages as well, for standard output.
            return match message.print() {
                Ok(()) => ExitCode::from(u8::from(message.use_stderr()) * 2),
                Err(error) => failed(&OutputError::from(error)),
            };
        }
        Err(several) => {
            cli::output::complain(&several.to_string());
            return ExitCode::from(2);
        }
    };
    match cli::run(arguments) {
        Ok(verdict) => ExitCode::from(verdict.exit_code()),
        Err(error) => failed(&*error),
    }
}

/// Reports the error of a command.
fn failed(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    let output = error.downcast_ref::<OutputError>();
    if output.is_some_and(OutputError::is_closed_pipe) {
        return ExitCode::from(CLOSED_PIPE);
    }
    // If standard error cannot be written, the exit code is all there is.
    let _ = writeln!(io::stderr(), "{error}");
    ExitCode::from(2)
}
