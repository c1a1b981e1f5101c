//! No clock, thread, socket, file or unseeded randomness below `server`.
//!
//! The same code runs in one process, across machines and in the simulator, where a seed must give the same run
//! twice; so time, random numbers and messages come in through the contract's inputs. The rule reads paths:
//! imports are unfolded (`use std::{time::Instant}`), and an import that brings a banned name into reach
//! (`use std::time;`, `use std::*;`) counts as naming it. Tests in `src` are checked as well: a test that needs a
//! clock cannot be repeated. Tests under `tests/` are not.

use super::Finding;
use super::paths::{NamedPath, paths};
use super::tree::Tree;
use crate::Trouble;

pub(super) const NAME: &str = "banned-symbols";

/// A path, with all paths under it, and what it would bring in.
const BANNED: &[(&str, &str)] = &[
    ("std::time::Instant", CLOCK),
    ("std::time::SystemTime", CLOCK),
    ("std::time::UNIX_EPOCH", CLOCK),
    ("std::thread", THREAD),
    ("std::sync::mpsc", THREAD),
    ("std::sync::mpmc", THREAD),
    ("std::net", SOCKET),
    ("std::os::unix::net", SOCKET),
    ("std::random", CHANCE),
    ("std::fs", MACHINE),
    ("std::env", MACHINE),
    ("std::process", MACHINE),
    ("tokio", THREAD),
    ("rayon", THREAD),
    ("crossbeam", THREAD),
    ("mio", SOCKET),
    ("socket2", SOCKET),
    ("postgres", SOCKET),
    ("tokio_postgres", SOCKET),
    ("chrono", CLOCK),
    ("quanta", CLOCK),
    ("rand", CHANCE),
    ("fastrand", CHANCE),
    ("getrandom", CHANCE),
    ("uuid", CHANCE),
];

/// Names that need no path to be recognised.
const BANNED_WORDS: &[(&str, &str)] = &[
    ("thread_rng", CHANCE),
    ("from_entropy", CHANCE),
    ("from_os_rng", CHANCE),
    ("OsRng", CHANCE),
    ("RandomState", CHANCE),
];

const CLOCK: &str = "reads a clock; take `now: Ticks` from the caller";
const THREAD: &str = "brings in threads; the driver of a node, in `server`, has them";
const SOCKET: &str = "opens a socket; put the message into the outbox";
const MACHINE: &str = "touches the machine; take text and bytes from the caller";
const CHANCE: &str = "is chance without a seed; take a seeded generator from the caller";

/// Looks at every path in the sources of the crates below `server`.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    let mut findings = Vec::new();
    for (file, code) in tree.rust_below_server() {
        for path in paths(code) {
            if let Some(effect) = verdict(&path) {
                let name = path.segments.join("::");
                findings.push(file.finding(
                    NAME,
                    path.line,
                    format!("`{name}` {effect}: below `server` a seed must give the same run"),
                ));
            }
        }
    }
    Ok(findings)
}

/// What this path would bring in, if it is banned.
fn verdict(path: &NamedPath) -> Option<&'static str> {
    let segments: Vec<&str> = path.segments.iter().map(String::as_str).collect();
    let word = BANNED_WORDS
        .iter()
        .find(|(word, _)| segments.contains(word));
    let under = |banned: &str| {
        let banned: Vec<&str> = banned.split("::").collect();
        // A lone word outside an import is a variable, not a crate.
        let named = segments.starts_with(&banned) && (path.is_import || segments.len() > 1);
        let opened = path.is_import
            && match segments.split_last() {
                Some((&"*", module)) => banned.starts_with(module),
                _ => banned.len() > segments.len() && banned.starts_with(&segments),
            };
        named || opened
    };
    word.or_else(|| BANNED.iter().find(|(banned, _)| under(banned)))
        .map(|(_, effect)| *effect)
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        found(check, &[("crates/protocol/src/lib.rs", text)])
            .into_iter()
            .map(|line| line.split('`').nth(1).unwrap_or_default().to_string())
            .collect()
    }

    #[test]
    fn banned_symbols_are_flagged_however_they_are_named() {
        assert_eq!(lines("use std::time::Instant;"), ["std::time::Instant"]);
        assert_eq!(
            lines("use std::{fmt, time::{Duration, SystemTime as T}};"),
            ["std::time::SystemTime"]
        );
        assert_eq!(lines("use std::time;"), ["std::time"]);
        assert_eq!(lines("use std::time::{self, Duration};"), ["std::time"]);
        assert_eq!(lines("use std::time::*;"), ["std::time::*"]);
        assert_eq!(lines("use ::std::thread as t;"), ["std::thread"]);
        assert_eq!(lines("use std as s;"), ["std"]);
        assert_eq!(lines("extern crate rand;"), ["rand"]);
        assert_eq!(
            lines("fn f() { ::std::thread::spawn(g); }"),
            ["std::thread::spawn"]
        );
        assert_eq!(
            lines("fn f() { let x = rand::random(); }"),
            ["rand::random"]
        );
        assert_eq!(
            lines("fn f(s: std::net::TcpStream) {}"),
            ["std::net::TcpStream"]
        );
        assert_eq!(lines("fn f() { std::fs::read(p) }"), ["std::fs::read"]);
        assert_eq!(lines("fn f() { thread_rng() }"), ["thread_rng"]);
        assert_eq!(
            lines("use std::collections::hash_map::RandomState;"),
            ["std::collections::hash_map::RandomState"]
        );
    }

    #[test]
    fn the_finding_says_where_and_why() {
        let text = "//! A.\n\nfn now() {\n    std::time::Instant::now();\n}\n";
        assert_eq!(
            found(check, &[("crates/engine/src/lib.rs", text)]),
            [
                "crates/engine/src/lib.rs:4: `std::time::Instant::now` reads a clock; take `now: \
             Ticks` from the caller: below `server` a seed must give the same run"
            ]
        );
        let imports = "use std::{\n    fmt,\n    thread,\n};\n";
        let findings = found(check, &[("crates/engine/src/lib.rs", imports)]);
        assert!(
            findings[0].starts_with("crates/engine/src/lib.rs:3: "),
            "{findings:?}"
        );
    }

    #[test]
    fn what_only_looks_like_one_passes() {
        let clean = r##"
            //! Never `std::time::Instant`.
            use std::time::Duration;
            use std::io;
            use std::{collections::BTreeMap, fmt::{self, Display}};
            fn g(error: std::io::Error, file: &str) {}
            use crate::{time, rand::Seeded, thread::Thread};
            /* use std::thread; */
            fn f<'rand>(rand: &'rand str) -> impl Sized + use<'rand> {
                let text = "std::time::Instant::now()";
                let raw = r#"use rand::thread_rng;"#;
                let time = std::time::Duration::from_secs(1); // std::thread::sleep
                rand.len()
            }
        "##;
        assert_eq!(lines(clean), Vec::<String>::new());
    }

    #[test]
    fn server_and_integration_tests_may() {
        let text = "use std::time::Instant;";
        let files = [
            ("crates/server/src/lib.rs", text),
            ("crates/sql/tests/sql/oracle.rs", text),
        ];
        assert_eq!(found(check, &files), Vec::<String>::new());
    }
}
