//! Unmodified clients of PostgreSQL, run against a server: the programs under `tests/clients`.
//!
//! Each program takes a host and a port, prints a line for each check (`ok NAME`, or `FAILED NAME: got … expected …`)
//! and, as its last line, the count. It runs first against PostgreSQL, which shows that the program is right, then
//! against ours. Each run gets a fresh database with `tests/clients/types.sql`. A program that runs fewer checks
//! against ours than against PostgreSQL fails.
//!
//! What a client needs is installed under the build folder's `clients`, in the versions that its folder pins. A client
//! whose runtime or packages cannot be had is skipped, with the reason.

mod client;
mod run;
mod server;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::counts::Counts;
use super::postgres::Postgres;
use crate::Trouble;
use client::{CLIENTS, Client, Unprepared};
use run::Report;
use server::{Kind, Server};

/// Runs every client against every server, and adds its checks to `counts`.
///
/// # Errors
/// When a server cannot be started.
pub(super) fn run(root: &Path, postgres: &Postgres, counts: &mut Counts) -> Result<(), Trouble> {
    let cache = cache(root);
    std::fs::create_dir_all(&cache)
        .map_err(|error| Trouble::Tool(format!("making {}: {error}", cache.display())))?;
    let servers = Kind::available(root)?;
    for client in CLIENTS {
        let command = match client.prepare(root, &cache.join(client.name)) {
            Ok(command) => command,
            Err(Unprepared::Missing(reason)) => {
                println!("{}: skipped: {reason}", client.name);
                counts.skip(format!("clients: {}: {reason}", client.name));
                continue;
            }
            Err(Unprepared::Broken(reason)) => {
                println!("{}: {reason}", client.name);
                counts.failed += 1;
                continue;
            }
        };
        let mut oracle = None;
        for kind in servers.iter().filter(|kind| client.runs_on(**kind)) {
            let log = cache.join(format!("{}-on-{}.log", client.name, kind.name()));
            let mut report = against(root, postgres, client, &command, kind, &log)?;
            match &oracle {
                None => oracle = Some(report.names.clone()),
                Some(oracle) => {
                    let with_transactions = kind.reads_beside_writes();
                    report.require(&missing(oracle, &report.names, with_transactions));
                }
            }
            println!(
                "{} on {}: {} passed, {} failed ({})",
                client.name,
                kind.title(),
                report.passed,
                report.failures.len(),
                log.display()
            );
            for failure in &report.failures {
                println!("  {failure}");
            }
            counts.passed += report.passed;
            counts.failed += report.failures.len() as u64;
        }
    }
    Ok(())
}

/// One run on a fresh server.
fn against(
    root: &Path,
    postgres: &Postgres,
    client: &Client,
    command: &[String],
    kind: &Kind,
    log: &Path,
) -> Result<Report, Trouble> {
    let server = Server::start(root, postgres, kind)?;
    let mut words = command.to_vec();
    words.extend(["127.0.0.1".into(), server.port().to_string()]);
    if kind.reads_beside_writes() {
        words.push("--transactions".into());
    }
    let mut report = run::run(root, client.name, &words, log)?;
    if *kind == Kind::Ring {
        let differs = server.ring_differs(&postgres.folder);
        report.note(
            "the servers of the ring have the same rows",
            match differs {
                Ok(None) => None,
                Ok(Some(table)) => Some(format!("{table} differs")),
                Err(error) => Some(error),
            },
        );
    }
    Ok(report)
}

/// The checks that ran against PostgreSQL and not here.
fn missing(
    oracle: &BTreeSet<String>,
    here: &BTreeSet<String>,
    with_transactions: bool,
) -> Vec<String> {
    oracle
        .difference(here)
        // A server under a plan has the one kind, a server that locks the other.
        .filter(|name| match with_transactions {
            true => !name.starts_with("serializable: "),
            false => !name.starts_with("transactions: "),
        })
        .cloned()
        .collect()
}

/// Where the clients' packages are kept from run to run.
fn cache(root: &Path) -> PathBuf {
    target(root).join("clients")
}

/// The build folder.
fn target(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root.join(folder),
        None => root.join("target"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_ran_against_postgres_alone_is_missing() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let all = ["types: a", "types: b", "transactions: c", "serializable: d"];
        let (oracle, here) = (names(&all), names(&["types: a"]));
        assert_eq!(
            missing(&oracle, &here, false),
            ["serializable: d", "types: b"]
        );
        assert_eq!(
            missing(&oracle, &here, true),
            ["transactions: c", "types: b"]
        );
    }
}
