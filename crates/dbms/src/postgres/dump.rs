//! The schema of a database, in another one, by PostgreSQL's own `pg_dump` and `psql`.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::Address;
use super::programs::Installation;

/// Makes the schema of the database `from` in the empty database `to`, without rows and without the belt, in one transaction.
///
/// # Errors
/// When the programs are not there, or a database refuses it: then nothing was made.
pub fn copy_schema(from: &Address, to: &Address) -> Result<(), String> {
    let dump = command("pg_dump", from)
        .args(["--schema-only", "--dbname", &from.typed])
        .output()
        .map_err(|error| missing("pg_dump", &error))?;
    if !dump.status.success() {
        return Err(failed("pg_dump", from, &dump.stderr));
    }
    // Triggers of the belt are in it, and go with its schema.
    let mut load = command("psql", to)
        .args(["--no-psqlrc", "--quiet", "--single-transaction"])
        .args(["--set", "ON_ERROR_STOP=1", "--dbname", &to.typed])
        .args(["--file", "-", "--command"])
        .arg("SET client_min_messages = warning; DROP SCHEMA IF EXISTS anabranch CASCADE")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| missing("psql", &error))?;
    let mut input = load.stdin.take();
    let writer = std::thread::spawn(move || {
        // A psql that ends early says why itself.
        input.as_mut().map(|input| input.write_all(&dump.stdout))
    });
    let loaded = load
        .wait_with_output()
        .map_err(|error| missing("psql", &error))?;
    drop(writer.join());
    match loaded.status.success() {
        true => Ok(()),
        false => Err(failed("psql", to, &loaded.stderr)),
    }
}

/// One of PostgreSQL's programs, with the password of an address where no other user sees it.
fn command(name: &str, address: &Address) -> Command {
    let folder = Installation::find().ok();
    let program = folder.map(|found| found.program(name));
    let program = program.filter(|path| path.is_file());
    let mut command = Command::new(program.unwrap_or_else(|| PathBuf::from(name)));
    if let Some(password) = address.password() {
        command.env("PGPASSWORD", password);
    }
    // Names in it are complete, and messages are those that manuals have.
    command.env("LC_ALL", "C").env("PGOPTIONS", "");
    command
}

fn missing(name: &str, error: &std::io::Error) -> String {
    format!(
        "error: {name}: {error}; it is a program of PostgreSQL: install it (ANABRANCH_POSTGRES_BIN names its folder), or load the \
         schema of the other servers yourself"
    )
}

fn failed(name: &str, address: &Address, errors: &[u8]) -> String {
    format!(
        "error: {name}: {}: {}",
        address.typed,
        String::from_utf8_lossy(errors).trim()
    )
}
