//! The rules of the project, one file each.
//!
//! A rule reads a [`Tree`] (the workspace's text files, read once) or runs one of the toolchain's own checks, and
//! returns [`Finding`]s. Every message says what is wrong and why it matters. Every rule has a test that plants
//! what it forbids, and one that passes. Rules with lists read them from text files under `xtask/tidy`.
//!
//! Rules are for what the compiler cannot check. A rule about Rust code reads tokens (see [`lexer`]), not raw
//! lines, so that comments and strings do not mislead it.

mod banned_symbols;
mod clippy;
mod dependencies;
mod hash_order;
mod import_cycles;
mod leftovers;
mod length;
mod lexer;
mod links;
mod list;
mod machine_paths;
mod manifests;
mod module_docs;
mod modules;
mod paths;
mod protocol_core;
mod rustdoc;
mod rustfmt;
mod test_programs;
mod third_party;
mod toolchain;
mod tree;
mod unsafe_code;
mod words;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::{Outcome, Trouble};
use tree::Tree;

/// Which rules to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Every rule.
    Full,
    /// Only rules that need no compilation.
    Quick,
}

impl Depth {
    /// Reads the command's arguments.
    ///
    /// # Errors
    /// Misuse, for anything but `--quick`.
    pub(crate) fn parse(arguments: &[String]) -> Result<Depth, Trouble> {
        match arguments {
            [] => Ok(Depth::Full),
            [one] if one == "--quick" => Ok(Depth::Quick),
            _ => Err(Trouble::Misuse(format!(
                "tidy takes no `{}`",
                arguments.join(" ")
            ))),
        }
    }
}

/// One violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// Path from the workspace's folder, with `/` between its parts.
    path: String,
    /// Line, from 1.
    line: usize,
    rule: &'static str,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}: {}",
            self.path, self.line, self.rule, self.message
        )
    }
}

/// A rule: its name in findings, and its check.
struct Rule {
    name: &'static str,
    depth: Depth,
    check: fn(&Tree) -> Result<Vec<Finding>, Trouble>,
}

const RULES: &[Rule] = &[
    Rule {
        name: banned_symbols::NAME,
        depth: Depth::Quick,
        check: banned_symbols::check,
    },
    Rule {
        name: hash_order::NAME,
        depth: Depth::Quick,
        check: hash_order::check,
    },
    Rule {
        name: unsafe_code::NAME,
        depth: Depth::Quick,
        check: unsafe_code::check,
    },
    Rule {
        name: dependencies::NAME,
        depth: Depth::Quick,
        check: dependencies::check,
    },
    Rule {
        name: import_cycles::NAME,
        depth: Depth::Quick,
        check: import_cycles::check,
    },
    Rule {
        name: protocol_core::NAME,
        depth: Depth::Quick,
        check: protocol_core::check,
    },
    Rule {
        name: manifests::NAME,
        depth: Depth::Quick,
        check: manifests::check,
    },
    Rule {
        name: third_party::NAME,
        depth: Depth::Quick,
        check: third_party::check,
    },
    Rule {
        name: length::NAME,
        depth: Depth::Quick,
        check: length::check,
    },
    Rule {
        name: module_docs::NAME,
        depth: Depth::Quick,
        check: module_docs::check,
    },
    Rule {
        name: test_programs::NAME,
        depth: Depth::Quick,
        check: test_programs::check,
    },
    Rule {
        name: words::NAME,
        depth: Depth::Quick,
        check: words::check,
    },
    Rule {
        name: links::NAME,
        depth: Depth::Quick,
        check: links::check,
    },
    Rule {
        name: leftovers::NAME,
        depth: Depth::Quick,
        check: leftovers::check,
    },
    Rule {
        name: machine_paths::NAME,
        depth: Depth::Quick,
        check: machine_paths::check,
    },
    Rule {
        name: rustfmt::NAME,
        depth: Depth::Quick,
        check: rustfmt::check,
    },
    Rule {
        name: clippy::NAME,
        depth: Depth::Full,
        check: clippy::check,
    },
    Rule {
        name: rustdoc::NAME,
        depth: Depth::Full,
        check: rustdoc::check,
    },
];

/// Runs the rules over the workspace at `root`, prints each finding and then the counts.
///
/// # Errors
/// When a file cannot be read, or a tool of the toolchain is missing and cannot be added.
pub(crate) fn run(root: &Path, depth: Depth) -> Result<Outcome, Trouble> {
    let tree = Tree::read(root)?;
    let mut findings = Vec::new();
    let mut skipped = Vec::new();
    for rule in RULES {
        if rule.depth == Depth::Full && depth == Depth::Quick {
            skipped.push(rule.name);
        } else {
            findings.append(&mut (rule.check)(&tree)?);
        }
    }
    findings.sort();
    findings.dedup();
    for finding in &findings {
        println!("{finding}");
    }
    println!(
        "{}",
        summary(&findings, RULES.len() - skipped.len(), tree.files.len())
    );
    if !skipped.is_empty() {
        println!("tidy: skipped by --quick: {}", skipped.join(", "));
    }
    Ok(if findings.is_empty() {
        Outcome::Clean
    } else {
        Outcome::Findings
    })
}

/// One line of counts: findings by rule, or else the numbers of rules and files.
fn summary(findings: &[Finding], rules: usize, files: usize) -> String {
    if findings.is_empty() {
        return format!("tidy: no findings ({rules} rules, {files} files)");
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in findings {
        *counts.entry(finding.rule).or_default() += 1;
    }
    let each: Vec<String> = counts
        .iter()
        .map(|(rule, n)| format!("{rule} {n}"))
        .collect();
    let noun = if findings.len() == 1 {
        "finding"
    } else {
        "findings"
    };
    format!("tidy: {} {noun} ({})", findings.len(), each.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    /// The findings of `check` in a folder with these files, as `path:line: message` without the rule.
    pub(super) fn found(
        check: fn(&Tree) -> Result<Vec<Finding>, Trouble>,
        files: &[(&str, &str)],
    ) -> Vec<String> {
        let scratch = Scratch::with(files);
        let tree = Tree::read(scratch.path()).expect("the planted files can be read");
        let findings = check(&tree).expect("the rule can run");
        findings
            .iter()
            .map(|f| format!("{}:{}: {}", f.path, f.line, f.message))
            .collect()
    }

    #[test]
    fn a_finding_reads_as_path_line_rule_message() {
        let finding = Finding {
            path: "a/b.rs".into(),
            line: 3,
            rule: "length",
            message: "long".into(),
        };
        assert_eq!(finding.to_string(), "a/b.rs:3: length: long");
        assert_eq!(summary(&[finding], 12, 1), "tidy: 1 finding (length 1)");
        assert_eq!(summary(&[], 12, 7), "tidy: no findings (12 rules, 7 files)");
    }

    #[test]
    fn rules_have_names_of_their_own() {
        let mut names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
    }
}
