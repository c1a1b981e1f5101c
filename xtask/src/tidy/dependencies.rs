//! A crate uses only the crates listed beside it.
//!
//! The table is that of ARCHITECTURE.md, and the two must agree. It keeps the code that decides from
//! depending on the code that drives it, and a protocol from depending on SQL. Tests may use more
//! crates, as long as no circle closes. Third-party crates that bring clocks, threads, sockets or
//! chance stay out of the crates below `server`; sources there may not name them either
//! (`banned-symbols`).

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::manifests::{Manifest, Section};
use super::tree::{BELOW_SERVER, Tree};
use crate::Trouble;

pub(super) const NAME: &str = "dependencies";

/// Each crate of the workspace and those that it may use.
const CRATES: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("sql", &["types"]),
    ("wire", &["types"]),
    ("source", &["sql"]),
    ("analysis", &["types", "sql"]),
    ("storage", &["types"]),
    ("protocol", &["types", "storage"]),
    ("dbms", &["protocol"]),
    (
        "middleware",
        &["types", "sql", "wire", "analysis", "protocol", "dbms"],
    ),
    (
        "engine",
        &["types", "sql", "analysis", "storage", "protocol"],
    ),
    (
        "server",
        &[
            "types", "sql", "wire", "analysis", "storage", "protocol", "engine",
        ],
    ),
    ("history", &["types"]),
    ("workload", &["types", "sql", "engine"]),
    (
        "sim",
        &[
            "types", "sql", "analysis", "storage", "protocol", "engine", "history", "workload",
        ],
    ),
    (
        "bench",
        &[
            "types", "sql", "analysis", "storage", "protocol", "engine", "history", "dbms",
            "server", "workload", "sim",
        ],
    ),
    (
        "anabranch",
        &[
            "types",
            "sql",
            "source",
            "analysis",
            "storage",
            "protocol",
            "engine",
            "history",
            "dbms",
            "middleware",
            "server",
            "workload",
            "sim",
            "bench",
        ],
    ),
];

/// What would bring a clock, a thread, a socket or chance below `server`.
const DRIVERS: &[&str] = &[
    "tokio",
    "mio",
    "socket2",
    "rayon",
    "crossbeam",
    "parking_lot",
    "postgres",
    "tokio-postgres",
    "chrono",
    "time",
    "quanta",
    "rand",
    "fastrand",
    "getrandom",
    "uuid",
    "indicatif",
];

/// Compares every `crates/*/Cargo.toml` with the table.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    let mut findings = Vec::new();
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in &tree.files {
        let Some(name) = file
            .path
            .strip_prefix("crates/")
            .and_then(|p| p.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        let permitted = CRATES
            .iter()
            .find(|(listed, _)| *listed == name)
            .map(|(_, uses)| *uses);
        if permitted.is_none() {
            let message = format!(
                "crate `{name}` is not in the table of this rule; add it there and in \
                 ARCHITECTURE.md, with what it may use"
            );
            findings.push(file.finding(NAME, 1, message));
        }
        for dependency in Manifest::read(&file.text).dependencies {
            let line = dependency.line;
            if let Some(other) = dependency.package.strip_prefix("anabranch-") {
                graph
                    .entry(name.to_string())
                    .or_default()
                    .insert(other.to_string());
                let refused = permitted.is_some_and(|uses| !uses.contains(&other));
                if refused && dependency.section != Section::Development {
                    let message = format!(
                        "`{name}` may not use `{other}`: crates use only those that \
                         ARCHITECTURE.md lists beside them, so that each can be understood alone"
                    );
                    findings.push(file.finding(NAME, line, message));
                }
            } else if BELOW_SERVER.contains(&name)
                && dependency.section != Section::Development
                && DRIVERS.contains(&dependency.package.as_str())
            {
                let message = format!(
                    "`{}` brings clocks, threads, sockets or chance below `server`, where the \
                     same seed must give the same run",
                    dependency.package
                );
                findings.push(file.finding(NAME, line, message));
            }
        }
    }
    findings.extend(page_differences(tree));
    if let Some(circle) = circle(&graph) {
        let path = format!("crates/{}/Cargo.toml", circle[0]);
        if let Some(file) = tree.file(&path) {
            let message = format!(
                "a circle of crates, tests included: {}",
                circle.join(" -> ")
            );
            findings.push(file.finding(NAME, 1, message));
        }
    }
    Ok(findings)
}

/// Where the table in ARCHITECTURE.md differs from this rule's.
fn page_differences(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file("ARCHITECTURE.md") else {
        return Vec::new(); // a planted tree; `links` checks that the real tree has it
    };
    let mut findings = Vec::new();
    for (name, uses) in CRATES {
        let start = format!("| [`{name}`](crates/{name}) |");
        let row = page
            .text
            .lines()
            .enumerate()
            .find(|(_, line)| line.starts_with(&start));
        let Some((index, row)) = row else {
            findings.push(page.finding(NAME, 1, format!("the table of crates lacks `{name}`")));
            continue;
        };
        let cell = row
            .trim_end_matches(['|', ' '])
            .rsplit('|')
            .next()
            .unwrap_or_default();
        let listed: Vec<&str> = cell
            .split(',')
            .map(str::trim)
            .filter(|name| *name != "–")
            .collect();
        if listed != *uses {
            let message = format!(
                "`{name}` uses {} here, and {} in the rule's table",
                listed.join(", "),
                uses.join(", ")
            );
            findings.push(page.finding(NAME, index + 1, message));
        }
    }
    findings
}

/// The first circle in the graph, its first crate repeated at the end.
fn circle(graph: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn visit<'a>(
        name: &'a str,
        graph: &'a BTreeMap<String, BTreeSet<String>>,
        way: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> Option<Vec<String>> {
        if let Some(start) = way.iter().position(|&passed| passed == name) {
            let mut circle: Vec<String> =
                way[start..].iter().map(|name| name.to_string()).collect();
            circle.push(name.to_string());
            return Some(circle);
        }
        if !done.insert(name) {
            return None;
        }
        way.push(name);
        for other in graph.get(name).into_iter().flatten() {
            if let Some(circle) = visit(other, graph, way, done) {
                return Some(circle);
            }
        }
        way.pop();
        None
    }
    let mut done = BTreeSet::new();
    graph
        .keys()
        .find_map(|name| visit(name, graph, &mut Vec::new(), &mut done))
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    #[test]
    fn a_dependency_against_the_table_is_flagged() {
        let text = "[package]\nname = \"x\"\n[dependencies]\nanabranch-sql.workspace = true\n";
        let findings = found(check, &[("crates/protocol/Cargo.toml", text)]);
        assert_eq!(findings.len(), 1);
        assert!(
            findings[0].starts_with("crates/protocol/Cargo.toml:4: `protocol` may not use `sql`"),
            "{findings:?}"
        );
    }

    #[test]
    fn a_driver_below_server_and_an_unknown_crate_are_flagged() {
        let text = "[dependencies]\nrand = \"0.10\"\n";
        let findings = found(
            check,
            &[
                ("crates/bench/Cargo.toml", text),
                ("crates/engine/Cargo.toml", text),
                ("crates/cellar/Cargo.toml", ""),
            ],
        );
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].contains("crate `cellar` is not in the table"));
        assert!(findings[1].starts_with("crates/engine/Cargo.toml:2: `rand` brings clocks"));
    }

    #[test]
    fn tests_may_use_more_but_close_no_circle() {
        let engine = "[dependencies]\nanabranch-sql = { workspace = true }\n";
        let upward = "[dev-dependencies]\nanabranch-workload = { workspace = true }\n";
        let above = "[dependencies]\nanabranch-sql = { workspace = true }\n";
        let fine = [
            ("crates/engine/Cargo.toml", engine),
            ("crates/analysis/Cargo.toml", upward),
            ("crates/workload/Cargo.toml", above),
        ];
        assert_eq!(found(check, &fine), Vec::<String>::new());
        let circle = [
            ("crates/engine/Cargo.toml", engine),
            ("crates/sql/Cargo.toml", upward),
            ("crates/workload/Cargo.toml", above),
        ];
        let findings = found(check, &circle);
        assert_eq!(findings.len(), 1);
        assert!(
            findings[0].ends_with("a circle of crates, tests included: sql -> workload -> sql"),
            "{findings:?}"
        );
    }

    #[test]
    fn a_page_that_says_something_else_is_flagged() {
        let row = |(name, uses): &(&str, &[&str])| {
            let uses = if uses.is_empty() {
                "–".to_string()
            } else {
                uses.join(", ")
            };
            format!("| [`{name}`](crates/{name}) | what it is | {uses} |\n")
        };
        let page: String = CRATES.iter().map(row).collect();
        assert_eq!(
            found(check, &[("ARCHITECTURE.md", &page)]),
            Vec::<String>::new()
        );
        let other = page.replace("| types, storage |", "| types, sql, storage |");
        assert_eq!(
            found(check, &[("ARCHITECTURE.md", &other)]),
            [
                "ARCHITECTURE.md:7: `protocol` uses types, sql, storage here, and types, storage \
                 in the rule's table"
            ]
        );
        let lacking = page.replace("[`sql`]", "sql");
        assert_eq!(
            found(check, &[("ARCHITECTURE.md", &lacking)]),
            ["ARCHITECTURE.md:1: the table of crates lacks `sql`"]
        );
    }

    #[test]
    fn the_table_itself_has_no_circle_and_names_only_crates() {
        let graph = CRATES
            .iter()
            .map(|(name, uses)| {
                (
                    name.to_string(),
                    uses.iter().map(|u| u.to_string()).collect(),
                )
            })
            .collect();
        assert_eq!(circle(&graph), None);
        for (_, uses) in CRATES {
            assert!(
                uses.iter()
                    .all(|other| CRATES.iter().any(|(name, _)| name == other))
            );
        }
    }
}
