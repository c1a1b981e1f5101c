//! No circle of imports between the modules of a crate.
//!
//! Modules that import each other in a circle can only be understood together, and moved together.
//! Looked at are siblings: the files and folders directly in one folder, each with all that lies
//! under it. An import from anywhere under one sibling to anywhere under another ties the two. A
//! parent and its own children may import each other. `super::modules` says how imports are
//! followed.
//!
//! A circle is opened by moving what both need to a module of its own. What stays for now is listed
//! in `xtask/tidy/import-cycles.txt`, and the list only shrinks: `FROM => TO` is one import between
//! siblings that closes a circle (paths without `.rs`), `FOLDER` stands for every circle among the
//! siblings directly in a folder.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{self, Package};
use super::tree::Tree;
use super::{Finding, list};
use crate::Trouble;

pub(super) const NAME: &str = "import-cycles";

const LIST: &str = "xtask/tidy/import-cycles.txt";

/// What the list says stays.
#[derive(Default)]
struct Listed {
    /// Folders whose circles stay, with their lines.
    folders: BTreeMap<String, usize>,
    /// Siblings, the first importing the second, with their lines.
    ties: BTreeMap<(String, String), usize>,
}

/// Looks at the modules of every crate.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    let mut findings = Vec::new();
    let listed = read(tree);
    let mut needed = BTreeSet::new();
    for package in modules::packages(tree) {
        for (folder, graph) in siblings(&package) {
            let entry = |from: &str, to: &str| {
                let tie = (format!("{folder}/{from}"), format!("{folder}/{to}"));
                listed.ties.get(&tie).copied()
            };
            for circle in circles(&graph, |_, _| false) {
                needed.extend(listed.folders.get(&folder));
                needed
                    .extend(ties_within(&graph, &circle).filter_map(|(from, to)| entry(from, to)));
            }
            if !listed.folders.contains_key(&folder) {
                let is_listed = |from: &str, to: &str| entry(from, to).is_some();
                for circle in circles(&graph, is_listed) {
                    findings.push(describe(&graph, &circle, is_listed));
                }
            }
        }
    }
    for (line, entry) in list::entries(tree, LIST) {
        if !needed.contains(&line) {
            findings.push(Finding {
                path: LIST.into(),
                line,
                rule: NAME,
                message: format!("{entry}: no circle is there; take the entry out"),
            });
        }
    }
    Ok(findings)
}

fn read(tree: &Tree) -> Listed {
    let mut listed = Listed::default();
    for (line, entry) in list::entries(tree, LIST) {
        match entry.split_once(" => ") {
            Some((from, to)) => {
                listed.ties.insert((from.into(), to.into()), line);
            }
            None => {
                listed.folders.insert(entry.into(), line);
            }
        }
    }
    listed
}

/// An import that ties two siblings.
struct Tie {
    path: String,
    line: usize,
    named: String,
}

/// From each sibling to those that it imports from, with the first import of each.
type Graph = BTreeMap<String, BTreeMap<String, Tie>>;

/// The graph of the siblings in each folder of a package.
fn siblings(package: &Package) -> BTreeMap<String, Graph> {
    let mut graphs: BTreeMap<String, Graph> = BTreeMap::new();
    for (name, module) in &package.modules {
        for import in &module.imports {
            let common = name
                .iter()
                .zip(&import.target)
                .take_while(|(a, b)| a == b)
                .count();
            let (Some(from), Some(to)) = (name.get(common), import.target.get(common)) else {
                continue; // an ancestor and its descendant
            };
            let mut folder = package.folder.clone();
            for part in &name[..common] {
                folder.push('/');
                folder.push_str(part);
            }
            graphs
                .entry(folder)
                .or_default()
                .entry(from.clone())
                .or_default()
                .entry(to.clone())
                .or_insert_with(|| Tie {
                    path: module.path.clone(),
                    line: import.line,
                    named: import.named.clone(),
                });
        }
    }
    graphs
}

/// The sets of siblings that reach each other, when the ties that `is_cut` are cut.
fn circles(graph: &Graph, is_cut: impl Fn(&str, &str) -> bool) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = graph
        .keys()
        .map(|start| {
            let mut reached = BTreeSet::new();
            let mut waiting = vec![start];
            while let Some(from) = waiting.pop() {
                for to in graph.get(from).into_iter().flat_map(BTreeMap::keys) {
                    if !is_cut(from, to) && reached.insert(to) {
                        waiting.push(to);
                    }
                }
            }
            (start, reached)
        })
        .collect();
    let mut circles = BTreeSet::new();
    for (start, others) in &reached {
        if others.contains(start) {
            let circle: BTreeSet<String> = others
                .iter()
                .filter(|other| reached.get(*other).is_some_and(|back| back.contains(start)))
                .map(|other| other.to_string())
                .collect();
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

/// The ties between members of one circle.
fn ties_within<'a>(
    graph: &'a Graph,
    circle: &'a BTreeSet<String>,
) -> impl Iterator<Item = (&'a String, &'a String)> {
    graph
        .iter()
        .filter(|(from, _)| circle.contains(*from))
        .flat_map(|(from, ties)| ties.keys().map(move |to| (from, to)))
        .filter(|(_, to)| circle.contains(*to))
}

/// A finding with a shortest way around, at the first import on it.
fn describe(
    graph: &Graph,
    circle: &BTreeSet<String>,
    is_cut: impl Fn(&str, &str) -> bool,
) -> Finding {
    let way = circle
        .iter()
        .filter_map(|start| way_around(graph, start, &is_cut))
        .min_by_key(Vec::len)
        .unwrap_or_default();
    let ties: Vec<(&String, &Tie)> = way
        .windows(2)
        .filter_map(|pair| Some((pair[0], graph.get(pair[0])?.get(pair[1])?)))
        .collect();
    let steps: Vec<String> = ties
        .iter()
        .map(|(from, tie)| format!("{from} imports `{}` ({}:{})", tie.named, tie.path, tie.line))
        .collect();
    let others = circle.len() - ties.len();
    let more = if others == 0 {
        String::new()
    } else {
        format!(" ({others} more modules are tied to it)")
    };
    let message = format!(
        "a circle of imports: {}{more}; move what both need to a module of its own, so that each can \
         be read alone",
        steps.join(", ")
    );
    Finding {
        path: ties
            .first()
            .map_or(LIST.into(), |(_, tie)| tie.path.clone()),
        line: ties.first().map_or(1, |(_, tie)| tie.line),
        rule: NAME,
        message,
    }
}

/// The shortest way from a sibling back to itself, which it begins and ends with.
fn way_around<'a>(
    graph: &'a Graph,
    start: &'a String,
    is_cut: impl Fn(&str, &str) -> bool,
) -> Option<Vec<&'a String>> {
    let mut ways = std::collections::VecDeque::from([vec![start]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        let from = *way.last()?;
        for to in graph.get(from).into_iter().flat_map(BTreeMap::keys) {
            if is_cut(from, to) {
                continue;
            }
            let mut longer = way.clone();
            longer.push(to);
            if to == start {
                return Some(longer);
            }
            if seen.insert(to) {
                ways.push_back(longer);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    const PARENT: &str = "mod page;\nmod report;\nmod chart;\n";

    #[test]
    fn siblings_that_import_each_other_are_flagged() {
        let files = [
            ("crates/a/src/lib.rs", "mod figure;\n"),
            ("crates/a/src/figure/mod.rs", PARENT),
            (
                "crates/a/src/figure/page.rs",
                "use super::report::Report;\n",
            ),
            (
                "crates/a/src/figure/report.rs",
                "use super::chart;\nfn f() { super::page::render(); }\n",
            ),
            ("crates/a/src/figure/chart.rs", "struct Chart;\n"),
        ];
        assert_eq!(
            found(check, &files),
            [
                "crates/a/src/figure/page.rs:1: a circle of imports: page imports \
                 `super::report::Report` (crates/a/src/figure/page.rs:1), report imports \
                 `super::page::render` (crates/a/src/figure/report.rs:2); move what both need to a \
                 module of its own, so that each can be read alone"
            ]
        );
    }

    #[test]
    fn folders_are_tied_by_what_lies_in_them() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\nmod c;\n"),
            ("crates/a/src/b/mod.rs", "mod x;\nmod y;\n"),
            ("crates/a/src/b/x.rs", "use crate::c;\n"),
            ("crates/a/src/b/y.rs", "struct Y;\n"),
            ("crates/a/src/c.rs", "use crate::b::y::Y;\n"),
        ];
        let findings = found(check, &files);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("crates/a/src/b/x.rs:1: a circle of imports: b imports"));
    }

    #[test]
    fn a_parent_with_its_own_children_is_no_circle() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\nuse b::B;\nstruct A;\n"),
            (
                "crates/a/src/b.rs",
                "mod d;\nuse d::D;\nuse crate::A;\nstruct B;\n",
            ),
            (
                "crates/a/src/b/d.rs",
                "use super::B;\nuse crate::A;\nstruct D;\n",
            ),
        ];
        assert_eq!(found(check, &files), Vec::<String>::new());
    }

    #[test]
    fn the_list_holds_and_shrinks() {
        let circle = |entries| {
            [
                ("crates/a/src/lib.rs", "mod b;\nmod c;\nmod d;\n"),
                ("crates/a/src/b.rs", "use crate::c;\n"),
                ("crates/a/src/c.rs", "use crate::b;\n"),
                ("crates/a/src/d.rs", "use crate::b;\n"),
                (LIST, entries),
            ]
        };
        let listed = "# Why.\ncrates/a/src/c => crates/a/src/b\n";
        assert_eq!(found(check, &circle(listed)), Vec::<String>::new());
        let stale = "crates/a/src/c => crates/a/src/b\ncrates/a/src/d => crates/a/src/b\n";
        assert_eq!(
            found(check, &circle(stale)),
            [
                "xtask/tidy/import-cycles.txt:2: crates/a/src/d => crates/a/src/b: no circle is \
                 there; take the entry out"
            ]
        );
        assert_eq!(
            found(check, &circle("crates/a/src\n")),
            Vec::<String>::new()
        );
        let findings = found(check, &circle("crates/a/src\ncrates/a/src/b\n"));
        assert_eq!(
            findings,
            [
                "xtask/tidy/import-cycles.txt:2: crates/a/src/b: no circle is there; take the entry \
                 out"
            ]
        );
    }
}
