//! A protocol's core imports its extensions at named points only.
//!
//! RAMP's core is the algorithm of its paper: coordinator, participant, metadata, messages. What
//! extends it (collection of metadata, termination, recovery, replication, causal reads) lies in
//! folders beside it. A reader who knows the paper must find the algorithm without them, so each
//! import of an extension by a core file is listed.
//!
//! `xtask/tidy/protocol-core.txt` holds the lists: `core FOLDER`, `extension FOLDER`, and
//! `permit FILE => MODULE` for one core file and an extension's module (its path without `.rs`) with
//! all that lies under it. `port FILE` names a core file that may import any extension: it is the list
//! of the points where the core meets them, and other core files may import what it passes on, by its
//! path. Methods need no import, so the port's comments also name, between backticks, each function of an
//! extension that the core calls; names that the core defines too are not looked at. A folder or port without Rust files and a permit that is not used are findings, so that the
//! lists stay true.

use std::collections::BTreeSet;

use super::lexer::Code;
use super::tree::{File, Tree};
use super::{Finding, list, modules};
use crate::Trouble;

pub(super) const NAME: &str = "protocol-core";

const LIST: &str = "xtask/tidy/protocol-core.txt";

/// The lists, each entry with its line.
#[derive(Default)]
struct Lists<'a> {
    core: Vec<(usize, &'a str)>,
    extensions: Vec<(usize, &'a str)>,
    /// A core file, and the module that it may import.
    permits: Vec<(usize, &'a str, &'a str)>,
    /// Core files that pass extensions on.
    ports: Vec<(usize, &'a str)>,
}

/// Looks at the imports of every core file.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    let mut findings = Vec::new();
    let lists = read(tree, &mut findings);
    let mut used = BTreeSet::new();
    for package in modules::packages(tree) {
        for module in package.modules.values() {
            if !lists
                .core
                .iter()
                .any(|(_, core)| is_under(&module.path, core))
            {
                continue;
            }
            let mut seen = BTreeSet::new();
            for import in &module.imports {
                let target = format!("{}/{}", package.folder, import.target.join("/"));
                let is_extension = lists
                    .extensions
                    .iter()
                    .any(|(_, extension)| is_under(&target, extension));
                let is_port = |(_, port): &(usize, &str)| {
                    *port == module.path || passes_on(port, &package.folder, &import.named)
                };
                if !is_extension || lists.ports.iter().any(is_port) {
                    continue;
                }
                let permit = lists
                    .permits
                    .iter()
                    .find(|(_, file, to)| *file == module.path && is_under(&target, to));
                match permit {
                    Some((line, ..)) => {
                        used.insert(*line);
                    }
                    None if seen.insert((import.line, target.clone())) => {
                        let message = format!(
                            "`{}` is of an extension ({target}): the core is the paper's algorithm \
                             and reads without it; pass it in, or list the import in {LIST}",
                            import.named
                        );
                        findings.push(Finding {
                            path: module.path.clone(),
                            line: import.line,
                            rule: NAME,
                            message,
                        });
                    }
                    None => {}
                }
            }
        }
    }
    for (_, port) in &lists.ports {
        findings.extend(unlisted_calls(tree, &lists, port));
    }
    let mut say = |line: usize, message: String| {
        findings.push(Finding {
            path: LIST.into(),
            line,
            rule: NAME,
            message,
        });
    };
    for (line, folder) in lists
        .core
        .iter()
        .chain(&lists.extensions)
        .chain(&lists.ports)
    {
        if !tree.rust().any(|(file, _)| is_under(&file.path, folder)) {
            say(
                *line,
                format!("{folder} holds no Rust file; mend the entry or take it out"),
            );
        }
    }
    for (line, file, to) in &lists.permits {
        if !used.contains(line) {
            say(
                *line,
                format!("{file} imports nothing of {to}; take the entry out"),
            );
        }
    }
    Ok(findings)
}

fn read<'a>(tree: &'a Tree, findings: &mut Vec<Finding>) -> Lists<'a> {
    let mut lists = Lists::default();
    for (line, entry) in list::entries(tree, LIST) {
        let (kind, rest) = entry.split_once(' ').unwrap_or((entry, ""));
        match (kind, rest.split_once(" => ")) {
            ("core", None) if !rest.is_empty() => lists.core.push((line, rest)),
            ("extension", None) if !rest.is_empty() => lists.extensions.push((line, rest)),
            ("port", None) if !rest.is_empty() => lists.ports.push((line, rest)),
            ("permit", Some((file, to))) => lists.permits.push((line, file, to)),
            _ => findings.push(Finding {
                path: LIST.into(),
                line,
                rule: NAME,
                message:
                    "not `core FOLDER`, `extension FOLDER`, `port FILE` or `permit FILE => MODULE`"
                        .into(),
            }),
        }
    }
    lists
}

/// The calls from the core to functions that only extensions define and that the port does not name.
fn unlisted_calls(tree: &Tree, lists: &Lists<'_>, port: &str) -> Vec<Finding> {
    let Some(port) = tree.file(port) else {
        return Vec::new();
    };
    let within = |folders: &[(usize, &str)], path: &str| {
        folders.iter().any(|(_, folder)| is_under(path, folder))
    };
    let files = |folders| {
        tree.rust()
            .filter(move |(file, _)| within(folders, &file.path))
    };
    let core = || files(&lists.core).filter(|(file, _)| file.path != port.path);
    let defined = |files: &mut dyn Iterator<Item = (&File, &Code)>| -> BTreeSet<String> {
        files
            .flat_map(|(_, code)| functions(code, |code, at| code.text(at.wrapping_sub(1)) == "fn"))
            .map(|(name, _)| name.to_string())
            .collect()
    };
    let of_core = defined(&mut core());
    let of_extensions = defined(&mut files(&lists.extensions));
    let mut findings = Vec::new();
    for (file, code) in core() {
        let mut seen = BTreeSet::new();
        for (name, line) in functions(code, |code, at| {
            code.text(at + 1) == "(" && code.text(at.wrapping_sub(1)) != "fn"
        }) {
            let foreign = of_extensions.contains(name) && !of_core.contains(name);
            if foreign && !port.text.contains(&format!("`{name}`")) && seen.insert(name) {
                let message = format!(
                    "the core calls `{name}` of an extension, which {} does not list",
                    port.path
                );
                findings.push(file.finding(NAME, line, message));
            }
        }
    }
    findings
}

/// The words of a file, outside its tests, that pass a test of their place among its tokens; each with its line.
fn functions(
    code: &Code,
    is_one: impl Fn(&Code, usize) -> bool,
) -> impl Iterator<Item = (&str, usize)> {
    let tests = ["#", "[", "cfg", "(", "test", ")", "]"];
    let end = (0..code.tokens.len()).find(|at| code.matches(*at, &tests));
    let words = 0..end.unwrap_or(code.tokens.len());
    let words = words.filter(move |at| code.is_word(*at) && is_one(code, *at));
    words.map(|at| (code.text(at), code.tokens[at].line))
}

/// Whether a path that stands in a source (`crate::…`) goes by way of the module of this file.
fn passes_on(port: &str, package: &str, named: &str) -> bool {
    let module = port
        .strip_prefix(package)
        .and_then(|rest| rest.strip_suffix(".rs"));
    module.is_some_and(|module| {
        let module = format!("crate{}::", module.replace('/', "::"));
        named.starts_with(&module)
    })
}

/// Whether a path is `folder`, a file of that name, or lies under it.
fn is_under(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest == ".rs")
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    const FOLDERS: &str = "core crates/p/src/ramp/core\nextension crates/p/src/ramp/causal\n";

    fn check_with(list: &str, participant: &str) -> Vec<String> {
        let files = [
            ("crates/p/src/lib.rs", "mod ramp;\n"),
            ("crates/p/src/ramp/mod.rs", "mod causal;\nmod core;\n"),
            (
                "crates/p/src/ramp/core/mod.rs",
                "mod message;\nmod participant;\n",
            ),
            ("crates/p/src/ramp/core/message.rs", "struct Message;\n"),
            ("crates/p/src/ramp/core/participant.rs", participant),
            (
                "crates/p/src/ramp/causal/mod.rs",
                "mod context;\npub use context::Context;\nuse super::core::message::Message;\n",
            ),
            (
                "crates/p/src/ramp/causal/context.rs",
                "pub struct Context;\n",
            ),
            (LIST, list),
        ];
        found(check, &files)
    }

    #[test]
    fn a_core_file_that_imports_an_extension_is_flagged() {
        let findings = check_with(
            FOLDERS,
            "use super::message::Message;\nuse crate::ramp::causal::Context;\n",
        );
        assert_eq!(
            findings,
            [
                "crates/p/src/ramp/core/participant.rs:2: `crate::ramp::causal::Context` is of an \
                 extension (crates/p/src/ramp/causal/context): the core is the paper's algorithm and \
                 reads without it; pass it in, or list the import in xtask/tidy/protocol-core.txt"
            ]
        );
        let inline = check_with(FOLDERS, "fn f() { super::super::causal::g(); }\n");
        assert_eq!(inline.len(), 1, "{inline:?}");
    }

    #[test]
    fn a_listed_import_passes() {
        let list = format!(
            "{FOLDERS}# The hook.\npermit crates/p/src/ramp/core/participant.rs => \
             crates/p/src/ramp/causal/context\n"
        );
        let participant = "use crate::ramp::causal::Context;\n";
        assert_eq!(check_with(&list, participant), Vec::<String>::new());
        assert_eq!(
            check_with(&list, "struct Participant;\n"),
            [
                "xtask/tidy/protocol-core.txt:4: crates/p/src/ramp/core/participant.rs imports \
                 nothing of crates/p/src/ramp/causal/context; take the entry out"
            ]
        );
    }

    #[test]
    fn what_a_port_passes_on_may_be_imported_by_its_path() {
        let list = format!("{FOLDERS}port crates/p/src/ramp/core/message.rs\n");
        let participant = "use crate::ramp::core::message::Context;\n";
        let files = |message: &'static str, participant: &'static str| {
            let files = [
                ("crates/p/src/lib.rs", "mod ramp;\n"),
                ("crates/p/src/ramp/mod.rs", "mod causal;\nmod core;\n"),
                (
                    "crates/p/src/ramp/core/mod.rs",
                    "mod message;\nmod participant;\n",
                ),
                ("crates/p/src/ramp/core/message.rs", message),
                ("crates/p/src/ramp/core/participant.rs", participant),
                ("crates/p/src/ramp/causal/mod.rs", "pub struct Context;\n"),
                (LIST, list.as_str()),
            ];
            found(check, &files)
        };
        let message = "pub use crate::ramp::causal::Context;\n";
        assert_eq!(files(message, participant), Vec::<String>::new());
        let around = files(message, "use crate::ramp::causal::Context;\n");
        assert_eq!(around.len(), 1, "{around:?}");
    }

    #[test]
    fn a_call_of_an_extension_that_the_port_does_not_list_is_flagged() {
        let list = format!("{FOLDERS}port crates/p/src/ramp/core/message.rs\n");
        let calls = |message: &'static str| {
            let files = [
                ("crates/p/src/lib.rs", "mod ramp;\n"),
                ("crates/p/src/ramp/mod.rs", "mod causal;\nmod core;\n"),
                (
                    "crates/p/src/ramp/core/mod.rs",
                    "mod message;\nmod participant;\n",
                ),
                ("crates/p/src/ramp/core/message.rs", message),
                (
                    "crates/p/src/ramp/core/participant.rs",
                    "impl P {\n    fn get(&self) {\n        self.follow();\n        self.get();\n    }\n}\n",
                ),
                (
                    "crates/p/src/ramp/causal/mod.rs",
                    "impl P {\n    fn follow(&self) {}\n    fn get(&self) {}\n}\n",
                ),
                (LIST, list.as_str()),
            ];
            found(check, &files)
        };
        assert_eq!(
            calls("//! Nothing.\n"),
            [
                "crates/p/src/ramp/core/participant.rs:3: the core calls `follow` of an extension, \
                 which crates/p/src/ramp/core/message.rs does not list"
            ]
        );
        assert_eq!(calls("//! It calls `follow`.\n"), Vec::<String>::new());
    }

    #[test]
    fn lists_that_are_not_true_are_flagged() {
        let list = format!("{FOLDERS}extension crates/p/src/gone\npermit nonsense\n");
        assert_eq!(
            check_with(&list, ""),
            [
                "xtask/tidy/protocol-core.txt:4: not `core FOLDER`, `extension FOLDER`, `port FILE` or \
                 `permit FILE => MODULE`",
                "xtask/tidy/protocol-core.txt:3: crates/p/src/gone holds no Rust file; mend the \
                 entry or take it out"
            ]
        );
    }
}
