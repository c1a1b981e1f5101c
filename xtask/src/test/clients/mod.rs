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
use crate::{Built, Trouble};
use client::{CLIENTS, Client, Unprepared};
use run::Report;
use server::{Kind, Server};

/// Runs every client against every server, and adds its checks to `counts`.
///
/// # Errors
/// When a server cannot be started.
pub(super) fn run(
    root: &Path,
    postgres: &Postgres,
    built: Built,
    counts: &mut Counts,
) -> Result<(), Trouble> {
    let cache = cache(root);
    std::fs::create_dir_all(&cache)
        .map_err(|error| Trouble::Tool(format!("making {}: {error}", cache.display())))?;
    let servers = Kind::available(root, built)?;
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
                    report.require(&missing(oracle, &report.names, kind));
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
    if kind.changes_schema() {
        words.push("--schema".into());
    }
    let mut report = run::run(root, client.name, &words, log)?;
    if kind.is_ring() {
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

/// The checks that ran against PostgreSQL and not here, without those that such a server is not asked for.
fn missing(oracle: &BTreeSet<String>, here: &BTreeSet<String>, kind: &Kind) -> Vec<String> {
    let is_left_out = |name: &str| {
        // A server under a plan has the one kind, a server that locks the other.
        let by_guarantee = match kind.reads_beside_writes() {
            true => name.starts_with("serializable: "),
            false => name.starts_with("transactions: "),
        };
        by_guarantee || (name.starts_with("schema: ") && !kind.changes_schema())
    };
    oracle
        .difference(here)
        .filter(|name| !is_left_out(name))
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
        let all = [
            "types: a",
            "types: b",
            "transactions: c",
            "serializable: d",
            "schema: e",
        ];
        let (oracle, here) = (names(&all), names(&["types: a"]));
        let serializable = Kind::Anabranch(server::Guarantee::Serializable);
        assert_eq!(
            missing(&oracle, &here, &serializable),
            ["schema: e", "serializable: d", "types: b"]
        );
        let invariants = Kind::Anabranch(server::Guarantee::Invariants);
        assert_eq!(
            missing(&oracle, &here, &invariants),
            ["schema: e", "transactions: c", "types: b"]
        );
        assert_eq!(
            missing(&oracle, &here, &Kind::Ring),
            ["transactions: c", "types: b"]
        );
        assert_eq!(
            missing(&oracle, &here, &Kind::EmbeddedRing),
            ["serializable: d", "types: b"]
        );
    }
}
