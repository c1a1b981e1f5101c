//! Dependencies have permissive licences and need no C toolchain.
//!
//! Every package that is built for this machine, tests included, has a licence that requires no more than a
//! notice. None that a build without default features needs compiles C, except those of one crate: `source`,
//! which reads programs by grammars that are written in C, and which only the command uses. The rule reads
//! `cargo tree`, so features that are off do not count.

use super::tree::Tree;
use super::{Finding, toolchain};
use crate::{Trouble, cargo};

pub(super) const NAME: &str = "third-party";

/// Licences that require no more than a notice (SPDX identifiers).
const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages that build scripts use to compile or find C.
const C_TOOLCHAIN: &[&str] = &["cc", "cmake", "bindgen", "pkg-config", "vcpkg"];

/// The crate whose packages may compile C.
const GRAMMARS: &str = "anabranch-source";

/// Reads every package that is built, with its licence, from cargo.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    let mut findings = objections(tree, &[], |_, licence| foreign_licence(licence))?;
    // Tests may need more: those of TLS make certificates.
    let mut arguments = vec!["--no-default-features", "--edges", "normal,build"];
    if tree.file("crates/source/Cargo.toml").is_some() {
        arguments.extend(["--exclude", GRAMMARS, "--prune", GRAMMARS]);
    }
    findings.extend(objections(tree, &arguments, |name, _| c_toolchain(name))?);
    findings.sort();
    findings.dedup();
    Ok(findings)
}

/// The findings about packages that `cargo tree` lists with these arguments.
fn objections(
    tree: &Tree,
    arguments: &[&str],
    objection: impl Fn(&str, &str) -> Option<String>,
) -> Result<Vec<Finding>, Trouble> {
    let mut command = cargo();
    command.args([
        "tree",
        "--workspace",
        "--prefix",
        "none",
        "--format",
        "{p}|{l}",
    ]);
    command.args(arguments);
    let output = command
        .current_dir(&tree.root)
        .output()
        .map_err(|error| Trouble::Tool(format!("starting cargo: {error}")))?;
    if !output.status.success() {
        return toolchain::findings(&tree.root, NAME, "", &mut command);
    }
    let lock = tree
        .file("Cargo.lock")
        .map_or("", |file| file.text.as_str());
    let findings = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split_once('|'))
        .filter_map(|(package, licence)| {
            let name = package.split(' ').next().unwrap_or_default();
            Some(Finding {
                path: "Cargo.lock".into(),
                line: line_of(lock, name),
                rule: NAME,
                message: objection(name, licence.trim_end_matches(" (*)").trim())
                    .map(|what| format!("`{name}` {what}"))?,
            })
        })
        .collect();
    Ok(findings)
}

/// The objection to a package that is built without default features, if any.
fn c_toolchain(name: &str) -> Option<String> {
    C_TOOLCHAIN.contains(&name).then(|| {
        "compiles or finds C: without default features a Rust toolchain is all that a build may need"
            .to_owned()
    })
}

/// The objection to a licence, if any.
fn foreign_licence(licence: &str) -> Option<String> {
    let named = match licence {
        "" => "no licence",
        licence => licence,
    };
    (!is_permissive(licence))
        .then(|| format!("comes under {named}, which is not on this rule's list"))
}

/// Whether permissive licences alone satisfy a licence expression.
///
/// An expression is alternatives (`OR`, in old manifests `/`) of combinations (`AND`) of licences
/// and expressions in parentheses.
fn is_permissive(expression: &str) -> bool {
    alternatives(expression, &[" OR ", "/"])
        .iter()
        .any(|alternative| {
            alternatives(alternative, &[" AND "]).iter().all(|part| {
                let part = part.trim();
                match part
                    .strip_prefix('(')
                    .and_then(|part| part.strip_suffix(')'))
                {
                    Some(inner) => is_permissive(inner),
                    None => PERMISSIVE.contains(&part),
                }
            })
        })
}

/// Splits an expression at separators outside parentheses.
fn alternatives<'a>(expression: &'a str, separators: &[&str]) -> Vec<&'a str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, c) in expression.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        let separator = separators
            .iter()
            .find(|s| expression[at..].starts_with(**s));
        if let (0, Some(separator), true) = (depth, separator, at >= start) {
            parts.push(&expression[start..at]);
            start = at + separator.len();
        }
    }
    parts.push(&expression[start..]);
    parts
}

/// The line of a package in the lock file, from 1.
fn line_of(lock: &str, name: &str) -> usize {
    let entry = format!("name = \"{name}\"");
    lock.lines()
        .position(|line| line == entry)
        .map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn licences_are_weighed_as_expressions() {
        for permissive in [
            "MIT",
            "MIT/Apache-2.0",
            "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
            "GPL-3.0 OR (MIT AND Zlib)",
        ] {
            assert!(is_permissive(permissive), "{permissive}");
        }
        for not in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR ISC) AND MPL-2.0",
            "MIT-ish",
        ] {
            assert!(!is_permissive(not), "{not}");
        }
    }

    /// A workspace of one package with a second one of this name and licence beside it.
    fn using(name: &str, licence: &str) -> Vec<Finding> {
        let package = |name: &str, licence: &str, rest: &str| {
            format!("[package]\nname = \"{name}\"\nlicense = \"{licence}\"\n{rest}")
        };
        let uses = format!("[workspace]\n[dev-dependencies]\n{name} = {{ path = \"other\" }}\n");
        let scratch = Scratch::with(&[
            ("Cargo.toml", &package("planted", "MIT", &uses)),
            ("src/lib.rs", "//! A.\n"),
            ("other/Cargo.toml", &package(name, licence, "")),
            ("other/src/lib.rs", "//! B.\n"),
        ]);
        check(&Tree::read(scratch.path()).unwrap()).unwrap()
    }

    #[test]
    fn a_licence_that_asks_for_more_is_flagged() {
        let findings = using("other", "GPL-3.0-only");
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(
            findings[0]
                .message
                .starts_with("`other` comes under GPL-3.0-only")
        );
    }

    #[test]
    fn a_c_toolchain_is_flagged() {
        let findings = using("cc", "MIT");
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].message.starts_with("`cc` compiles or finds C"));
    }

    #[test]
    fn a_permissive_one_passes() {
        assert_eq!(using("other", "MIT OR Apache-2.0"), []);
    }
}
