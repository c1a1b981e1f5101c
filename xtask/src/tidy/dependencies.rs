//! A room uses only the rooms listed beside it.
//!
//! The table is ARCHITECTURE.md's, and this is where it is held (page and rule must agree): what
//! decides must not come to know what drives it, nor a protocol the SQL above it. Tests may use
//! more rooms, as long as no circle closes. Third-party crates that bring clocks, threads, sockets
//! or chance stay out of the rooms below `server`, where no source may name them either
//! (`banned-symbols`).

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::manifests::{Manifest, Section};
use super::tree::{BELOW_SERVER, Tree};
use crate::Trouble;

pub(super) const NAME: &str = "dependencies";

/// Each room and what it may use.
const ROOMS: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("sql", &["types"]),
    ("source", &["sql"]),
    ("analysis", &["types", "sql"]),
    ("storage", &["types"]),
    ("protocol", &["types", "storage"]),
    (
        "engine",
        &["types", "sql", "analysis", "storage", "protocol"],
    ),
    (
        "server",
        &["types", "sql", "analysis", "storage", "protocol", "engine"],
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
            "types", "sql", "analysis", "storage", "protocol", "engine", "history", "server",
            "workload", "sim",
        ],
    ),
    (
        "anabranch",
        &[
            "types", "sql", "source", "analysis", "storage", "protocol", "engine", "history",
            "server", "workload", "sim", "bench",
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

/// Holds every `crates/*/Cargo.toml` against the table.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    let mut findings = Vec::new();
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in &tree.files {
        let Some(room) = file
            .path
            .strip_prefix("crates/")
            .and_then(|p| p.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        let permitted = ROOMS
            .iter()
            .find(|(name, _)| *name == room)
            .map(|(_, uses)| *uses);
        if permitted.is_none() {
            let message = format!(
                "room `{room}` is not in the table of this rule; add it there and in \
                 ARCHITECTURE.md, with what it may use"
            );
            findings.push(file.finding(NAME, 1, message));
        }
        for dependency in Manifest::read(&file.text).dependencies {
            let line = dependency.line;
            if let Some(other) = dependency.package.strip_prefix("anabranch-") {
                graph
                    .entry(room.to_string())
                    .or_default()
                    .insert(other.to_string());
                let refused = permitted.is_some_and(|uses| !uses.contains(&other));
                if refused && dependency.section != Section::Development {
                    let message = format!(
                        "`{room}` may not use `{other}`: rooms use only those that \
                         ARCHITECTURE.md lists beside them, so that each can be understood alone"
                    );
                    findings.push(file.finding(NAME, line, message));
                }
            } else if BELOW_SERVER.contains(&room)
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
            let message = format!("a circle of rooms, tests included: {}", circle.join(" -> "));
            findings.push(file.finding(NAME, 1, message));
        }
    }
    Ok(findings)
}

/// Where the page's table says something else than this rule's.
fn page_differences(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file("ARCHITECTURE.md") else {
        return Vec::new(); // a planted tree; that the real one has it, `links` asks
    };
    let mut findings = Vec::new();
    for (room, uses) in ROOMS {
        let start = format!("| [`{room}`](crates/{room}) |");
        let row = page
            .text
            .lines()
            .enumerate()
            .find(|(_, line)| line.starts_with(&start));
        let Some((index, row)) = row else {
            findings.push(page.finding(NAME, 1, format!("the rooms' table lacks `{room}`")));
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
                "`{room}` uses {} here and {} in the rule that holds it",
                listed.join(", "),
                uses.join(", ")
            );
            findings.push(page.finding(NAME, index + 1, message));
        }
    }
    findings
}

/// The first circle in the graph, its first room repeated at the end.
fn circle(graph: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn visit<'a>(
        room: &'a str,
        graph: &'a BTreeMap<String, BTreeSet<String>>,
        way: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> Option<Vec<String>> {
        if let Some(start) = way.iter().position(|&passed| passed == room) {
            let mut circle: Vec<String> =
                way[start..].iter().map(|name| name.to_string()).collect();
            circle.push(room.to_string());
            return Some(circle);
        }
        if !done.insert(room) {
            return None;
        }
        way.push(room);
        for other in graph.get(room).into_iter().flatten() {
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
        .find_map(|room| visit(room, graph, &mut Vec::new(), &mut done))
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
    fn a_driver_below_server_and_an_unknown_room_are_flagged() {
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
        assert!(findings[0].contains("room `cellar` is not in the table"));
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
            findings[0].ends_with("a circle of rooms, tests included: sql -> workload -> sql"),
            "{findings:?}"
        );
    }

    #[test]
    fn a_page_that_says_something_else_is_flagged() {
        let row = |(room, uses): &(&str, &[&str])| {
            let uses = if uses.is_empty() {
                "–".to_string()
            } else {
                uses.join(", ")
            };
            format!("| [`{room}`](crates/{room}) | what it is | {uses} |\n")
        };
        let page: String = ROOMS.iter().map(row).collect();
        assert_eq!(
            found(check, &[("ARCHITECTURE.md", &page)]),
            Vec::<String>::new()
        );
        let other = page.replace("| types, storage |", "| types, sql, storage |");
        assert_eq!(
            found(check, &[("ARCHITECTURE.md", &other)]),
            [
                "ARCHITECTURE.md:6: `protocol` uses types, sql, storage here and types, storage \
                 in the rule that holds it"
            ]
        );
        let lacking = page.replace("[`sql`]", "sql");
        assert_eq!(
            found(check, &[("ARCHITECTURE.md", &lacking)]),
            ["ARCHITECTURE.md:1: the rooms' table lacks `sql`"]
        );
    }

    #[test]
    fn the_table_itself_has_no_circle_and_names_only_rooms() {
        let graph = ROOMS
            .iter()
            .map(|(room, uses)| {
                (
                    room.to_string(),
                    uses.iter().map(|u| u.to_string()).collect(),
                )
            })
            .collect();
        assert_eq!(circle(&graph), None);
        for (_, uses) in ROOMS {
            assert!(
                uses.iter()
                    .all(|other| ROOMS.iter().any(|(room, _)| room == other))
            );
        }
    }
}
