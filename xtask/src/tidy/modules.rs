//! The modules of each crate and what they import from each other.
//!
//! A module is a file; an inline `mod` belongs to its file. Paths are followed from `crate`, `self`,
//! `super` and a module's own children, through re-exports, to the module that defines what is named:
//! `use crate::report::Page` leads to `report::page` where `report` only passes it on.
//!
//! This is done by name, without types. What a macro builds and what `use super::*` brings in unseen
//! are not followed. Code under `#[cfg(test)]` is left aside: a test may look at anything.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::lexer::Code;
use super::paths::{NamedPath, paths};
use super::tree::Tree;

/// A module's path within its crate; empty for the root.
pub(super) type Name = Vec<String>;

/// How many re-exports a path may pass through before it is given up: more are a circle.
const REEXPORTS_MAX: usize = 16;

/// The modules under one `src` folder.
pub(super) struct Package {
    /// The `src` folder, from the workspace's.
    pub(super) folder: String,
    pub(super) modules: BTreeMap<Name, Module>,
}

/// One module.
pub(super) struct Module {
    /// Its file's path, from the workspace's folder.
    pub(super) path: String,
    /// What it names of its own crate, resolved, in the order of the code.
    pub(super) imports: Vec<Import>,
}

/// One path that leads to another module of the crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    /// The module that defines what is named.
    pub(super) target: Name,
    /// The path as it stands.
    pub(super) named: String,
    /// Line, from 1.
    pub(super) line: usize,
}

/// What a module's tokens say, before its paths are resolved.
struct Outline {
    path: String,
    /// Paths outside tests, each with the inline modules around it.
    paths: Vec<(NamedPath, Name)>,
    /// Names of items defined in the file.
    items: BTreeSet<String>,
    /// Child files that are compiled for tests only.
    test_children: BTreeSet<String>,
}

/// Reads the modules of every crate in the tree.
pub(super) fn packages(tree: &Tree) -> Vec<Package> {
    let mut outlines: BTreeMap<String, BTreeMap<Name, Outline>> = BTreeMap::new();
    for (file, code) in tree.rust() {
        let Some((folder, name)) = place(&file.path) else {
            continue;
        };
        // A package with both has two crates; the library is the one with modules.
        let has_library = tree.file(&format!("{folder}/lib.rs")).is_some();
        if file.path == format!("{folder}/main.rs") && has_library {
            continue;
        }
        let outline = Outline::read(&file.path, code);
        outlines.entry(folder).or_default().insert(name, outline);
    }
    outlines
        .into_iter()
        .map(|(folder, outlines)| resolve_all(folder, outlines))
        .collect()
}

/// The `src` folder that a file lies under, and its module's name.
fn place(path: &str) -> Option<(String, Name)> {
    let (folder, rest) = match path.strip_prefix("src/") {
        Some(rest) => ("src".to_string(), rest),
        None => {
            let (before, rest) = path.split_once("/src/")?;
            (format!("{before}/src"), rest)
        }
    };
    let mut name: Name = rest
        .strip_suffix(".rs")?
        .split('/')
        .map(String::from)
        .collect();
    let last = name.last().map(String::as_str);
    if last == Some("mod") || (name.len() == 1 && matches!(last, Some("lib" | "main"))) {
        name.pop();
    }
    Some((folder, name))
}

impl Outline {
    fn read(path: &str, code: &Code) -> Outline {
        let (tests, test_children) = tests(code);
        let inline = inline_modules(code);
        let is_test = |token: usize| tests.iter().any(|range| range.contains(&token));
        let around = |token: usize| -> Name {
            inline
                .iter()
                .filter(|(_, range)| range.contains(&token))
                .map(|(name, _)| name.clone())
                .collect()
        };
        let paths = paths(code)
            .into_iter()
            // A lone word outside an import is a variable, or declares a module.
            .filter(|path| path.is_import || path.segments.len() > 1)
            .filter(|path| !is_test(path.token))
            .map(|path| {
                let around = around(path.token);
                (path, around)
            })
            .collect();
        let items = (0..code.tokens.len())
            .filter(|&at| DEFINING.contains(&code.text(at)) && code.is_word(at + 1))
            .map(|at| code.text(at + 1).to_string())
            .collect();
        Outline {
            path: path.into(),
            paths,
            items,
            test_children,
        }
    }

    /// The imports of the file itself, as opposed to those of its inline modules.
    fn bindings(&self) -> impl Iterator<Item = &NamedPath> {
        self.paths
            .iter()
            .filter(|(path, around)| path.is_import && around.is_empty())
            .map(|(path, _)| path)
    }
}

/// Keywords that a name follows when they define an item.
const DEFINING: &[&str] = &[
    "struct", "enum", "union", "trait", "type", "fn", "const", "static",
];

/// The token ranges under `#[cfg(test)]`, and the child files declared there.
fn tests(code: &Code) -> (Vec<Range<usize>>, BTreeSet<String>) {
    let mut ranges = Vec::new();
    let mut children = BTreeSet::new();
    let mut at = 0;
    while at < code.tokens.len() {
        if code.matches(at, &["#", "[", "cfg", "(", "test", ")", "]"]) {
            let end = item_end(code, at + 7);
            for token in at + 7..end {
                if code.text(token) == "mod" && code.text(token + 2) == ";" {
                    children.insert(code.text(token + 1).to_string());
                }
            }
            ranges.push(at..end);
            at = end;
        } else {
            at += 1;
        }
    }
    (ranges, children)
}

/// Where the item that begins at `start` ends: after its block, or after its `;`.
fn item_end(code: &Code, start: usize) -> usize {
    let mut depth = 0_usize;
    let mut is_use = false;
    for at in start..code.tokens.len() {
        match code.text(at) {
            "use" if depth == 0 => is_use = true,
            "{" | "(" | "[" => depth += 1,
            closing @ ("}" | ")" | "]") => {
                depth = depth.saturating_sub(1);
                if depth == 0 && closing == "}" && !is_use {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.tokens.len()
}

/// The inline modules with the token ranges of their blocks, outer before inner.
fn inline_modules(code: &Code) -> Vec<(String, Range<usize>)> {
    (0..code.tokens.len())
        .filter(|&at| code.text(at) == "mod" && code.text(at + 2) == "{")
        .map(|at| (code.text(at + 1).to_string(), at..item_end(code, at)))
        .collect()
}

/// Resolves every path of a package.
fn resolve_all(folder: String, mut outlines: BTreeMap<Name, Outline>) -> Package {
    let tests: Vec<Name> = outlines
        .iter()
        .flat_map(|(name, outline)| {
            outline.test_children.iter().map(move |child| {
                let mut name = name.clone();
                name.push(child.clone());
                name
            })
        })
        .collect();
    outlines.retain(|name, _| !tests.iter().any(|test| name.starts_with(test)));
    let resolver = Resolver {
        outlines: &outlines,
    };
    let modules = outlines
        .iter()
        .map(|(name, outline)| {
            let imports = outline
                .paths
                .iter()
                .filter_map(|(path, around)| {
                    let from: Name = name.iter().chain(around).cloned().collect();
                    let target = resolver.target(&from, &path.segments, 0)?;
                    (target != *name).then(|| Import {
                        target,
                        named: path.segments.join("::"),
                        line: path.line,
                    })
                })
                .collect();
            let module = Module {
                path: outline.path.clone(),
                imports,
            };
            (name.clone(), module)
        })
        .collect();
    Package { folder, modules }
}

struct Resolver<'a> {
    outlines: &'a BTreeMap<Name, Outline>,
}

impl Resolver<'_> {
    /// The module that a path leads to from within the module `from`, which may be an inline one;
    /// none for a path out of the crate.
    fn target(&self, from: &[String], segments: &[String], depth: usize) -> Option<Name> {
        if depth > REEXPORTS_MAX {
            return None;
        }
        let (first, rest) = segments.split_first()?;
        match first.as_str() {
            "crate" => self.walk(&[], rest, depth),
            "self" => self.walk(self.file(from), rest, depth),
            "super" => {
                let supers = segments.iter().take_while(|name| *name == "super").count();
                let above = from.get(..from.len().checked_sub(supers)?)?;
                self.walk(self.file(above), &segments[supers..], depth)
            }
            _ => {
                let file = self.file(from);
                self.child(file, first)
                    .filter(|_| file.len() == from.len())
                    .and_then(|child| self.walk(&child, rest, depth))
            }
        }
    }

    /// The file around a module that may be an inline one.
    fn file<'b>(&self, module: &'b [String]) -> &'b [String] {
        (0..=module.len())
            .rev()
            .map(|length| &module[..length])
            .find(|name| self.outlines.contains_key(*name))
            .unwrap_or(&[])
    }

    fn child(&self, module: &[String], name: &str) -> Option<Name> {
        let mut child = module.to_vec();
        child.push(name.to_string());
        // A folder without a file of its own counts by what is in it.
        self.outlines
            .keys()
            .any(|other| other.starts_with(&child))
            .then_some(child)
    }

    /// Where the rest of a path leads from a module of the crate.
    fn walk(&self, module: &[String], rest: &[String], depth: usize) -> Option<Name> {
        let Some((first, deeper)) = rest.split_first() else {
            return Some(module.to_vec());
        };
        if let Some(child) = self.child(module, first) {
            return self.walk(&child, deeper, depth);
        }
        let Some(outline) = self.outlines.get(module) else {
            return Some(module.to_vec());
        };
        if outline.items.contains(first) || first == "*" {
            return Some(module.to_vec());
        }
        if let Some(binding) = outline.bindings().find(|path| path.name == *first) {
            let onward: Vec<String> = binding.segments.iter().chain(deeper).cloned().collect();
            return self.target(module, &onward, depth + 1);
        }
        let through_glob = outline
            .bindings()
            .filter(|path| path.name == "*")
            .find_map(|glob| {
                let opened = &glob.segments[..glob.segments.len() - 1];
                let target = self.target(module, opened, depth + 1)?;
                let opens = target != module
                    && self.outlines.get(&target).is_some_and(|other| {
                        other.items.contains(first)
                            || other.bindings().any(|path| path.name == *first)
                    });
                opens.then(|| self.walk(&target, rest, depth + 1))?
            });
        Some(through_glob.unwrap_or_else(|| module.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    /// The imports of the modules of a crate, as `from -> to` with `::` between names.
    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let scratch = Scratch::with(files);
        let tree = Tree::read(scratch.path()).expect("the planted files can be read");
        packages(&tree)
            .iter()
            .flat_map(|package| &package.modules)
            .flat_map(|(name, module)| {
                let from = name.join("::");
                module
                    .imports
                    .iter()
                    .map(move |import| format!("{from} -> {}", import.target.join("::")))
            })
            .collect()
    }

    #[test]
    fn paths_lead_to_modules() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\nmod c;\nuse std::fmt;\n"),
            (
                "crates/a/src/b/mod.rs",
                "mod d;\nuse crate::c::C;\nfn f() { d::g(); }\n",
            ),
            (
                "crates/a/src/b/d.rs",
                "use super::super::c;\nfn g() { super::f(); }\n",
            ),
            (
                "crates/a/src/c.rs",
                "struct C;\nfn f() { crate::b::d::g(); }\n",
            ),
        ];
        assert_eq!(
            imports(&files),
            ["b -> c", "b -> b::d", "b::d -> c", "b::d -> b", "c -> b::d"]
        );
    }

    #[test]
    fn re_exports_are_followed() {
        let files = [
            (
                "crates/a/src/lib.rs",
                "mod b;\nmod c;\nmod d;\npub use b::{B as Bee};\npub use c::*;\npub use std::fmt;\n",
            ),
            ("crates/a/src/b.rs", "pub struct B;\n"),
            ("crates/a/src/c.rs", "pub struct C;\n"),
            (
                "crates/a/src/d.rs",
                "use crate::{Bee, C, fmt};\nuse super::Unknown;\n",
            ),
        ];
        let of_d: Vec<String> = imports(&files)
            .into_iter()
            .filter(|line| line.starts_with("d "))
            .collect();
        assert_eq!(of_d, ["d -> b", "d -> c", "d -> "]);
    }

    #[test]
    fn tests_and_inline_modules_are_left_aside() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\nmod c;\n"),
            (
                "crates/a/src/b.rs",
                "mod inner { use super::f; }\n#[cfg(test)]\nmod tests {\n    use crate::c;\n}\n\
                 #[cfg(test)]\nmod more;\nfn f() {}\n",
            ),
            ("crates/a/src/b/more.rs", "use crate::c;\n"),
            ("crates/a/src/c.rs", "#[cfg(test)]\nuse crate::b::{f};\n"),
        ];
        assert_eq!(imports(&files), Vec::<String>::new());
    }
}
