//! Each crate's `Cargo.toml` inherits from the workspace what all crates share.
//!
//! A crate that does not inherit the lints is not checked by them; one that names its own version of a dependency
//! brings a second copy into the build. This module also has the small reader of manifests that
//! [`super::dependencies`] uses: it reads the lines that manifests of this workspace have, not all of TOML.

use super::Finding;
use super::tree::Tree;
use crate::Trouble;

pub(super) const NAME: &str = "manifests";

/// The keys that every crate's `[package]` inherits.
const INHERITED: &[&str] = &[
    "version",
    "edition",
    "license",
    "repository",
    "rust-version",
];

/// The parts of a manifest that rules need.
pub(super) struct Manifest {
    pub(super) dependencies: Vec<Dependency>,
    /// Every other `key = value`, with its section.
    entries: Vec<(String, String, String)>,
}

/// One dependency.
pub(super) struct Dependency {
    /// The package's own name, which may differ from its name in this crate.
    pub(super) package: String,
    pub(super) section: Section,
    /// Whether the version is the workspace's.
    is_inherited: bool,
    /// Line, from 1.
    pub(super) line: usize,
}

/// The kind of a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Normal,
    Development,
    Build,
}

impl Manifest {
    /// Reads a manifest, line by line.
    pub(super) fn read(text: &str) -> Manifest {
        let mut manifest = Manifest {
            dependencies: Vec::new(),
            entries: Vec::new(),
        };
        let mut header = String::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if let Some(name) = line
                .strip_prefix('[')
                .and_then(|line| line.strip_suffix(']'))
            {
                header = name.trim().to_string();
                if let Some((table, name)) = header.rsplit_once('.')
                    && let Some(section) = section(table)
                {
                    let name = name.trim_matches('"');
                    manifest.dependency(section, name, "", index + 1);
                }
            } else if let Some((key, value)) = line.split_once('=') {
                let (key, value) = (key.trim(), value.trim());
                let table = header
                    .rsplit_once('.')
                    .and_then(|(table, _)| section(table));
                if let Some(section) = section(&header) {
                    manifest.dependency(section, key, value, index + 1);
                } else if table.is_some()
                    && let Some(dependency) = manifest.dependencies.last_mut()
                {
                    dependency.is_inherited |= key == "workspace" && value == "true";
                    if key == "package" {
                        dependency.package = value.trim_matches('"').to_string();
                    }
                } else {
                    manifest
                        .entries
                        .push((header.clone(), key.into(), value.into()));
                }
            }
        }
        manifest
    }

    /// Notes a dependency from `key = value`.
    fn dependency(&mut self, section: Section, key: &str, value: &str, line: usize) {
        let (name, dotted) = key.split_once('.').unwrap_or((key, ""));
        let spaceless: String = value.chars().filter(|c| !c.is_whitespace()).collect();
        let renamed = spaceless
            .split_once("package=\"")
            .and_then(|(_, rest)| rest.split_once('"'));
        let package = renamed
            .map_or(name, |(package, _)| package)
            .trim_matches('"')
            .to_string();
        let is_inherited = dotted == "workspace" || spaceless.contains("workspace=true");
        self.dependencies.push(Dependency {
            package,
            section,
            is_inherited,
            line,
        });
    }

    fn has(&self, section: &str, key: &str, value: &str) -> bool {
        self.entries
            .iter()
            .any(|(s, k, v)| s == section && k == key && v == value)
    }
}

/// The kind of dependencies that a table of this name lists, `[target.….dependencies]` included; none if it lists
/// none.
fn section(header: &str) -> Option<Section> {
    let last = header.rsplit('.').next().unwrap_or_default();
    if header != last && !header.starts_with("target.") {
        return None;
    }
    match last {
        "dependencies" => Some(Section::Normal),
        "dev-dependencies" => Some(Section::Development),
        "build-dependencies" => Some(Section::Build),
        _ => None,
    }
}

/// Checks every crate's manifest, and this crate's own.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let is_crate = file.is_in_crates() && file.path.matches('/').count() == 2;
        let is_beside = ["xtask/Cargo.toml", "models/Cargo.toml"].contains(&file.path.as_str());
        if !(file.path.ends_with("/Cargo.toml") && (is_crate || is_beside)) {
            continue;
        }
        let manifest = Manifest::read(&file.text);
        let mut say = |line, message: String| findings.push(file.finding(NAME, line, message));
        if !manifest.has("lints", "workspace", "true") {
            say(
                1,
                "`[lints] workspace = true` is missing: no lint checks this crate".into(),
            );
        }
        for key in INHERITED {
            if !manifest.has("package", &format!("{key}.workspace"), "true") {
                say(
                    1,
                    format!("`{key}.workspace = true` is missing: crates share it"),
                );
            }
        }
        if !manifest
            .entries
            .iter()
            .any(|(s, k, _)| s == "package" && k == "description")
        {
            say(
                1,
                "a `description` is missing: one line that says what the crate is for".into(),
            );
        }
        for dependency in manifest.dependencies.iter().filter(|d| !d.is_inherited) {
            say(
                dependency.line,
                format!(
                    "`{}` names its own version: dependencies are listed once, in the \
                     workspace's Cargo.toml, where their cost is weighed",
                    dependency.package
                ),
            );
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    const CLEAN: &str = "\
[package]
name = \"anabranch-types\"
description = \"Words\" # shared
version.workspace = true
edition.workspace = true
license.workspace = true
repository.workspace = true
rust-version.workspace = true

[lints]
workspace = true

[dependencies]
smallvec = { workspace = true }
serde.workspace = true
[dev-dependencies.proptest]
workspace = true
";

    #[test]
    fn a_manifest_that_shares_passes() {
        assert_eq!(
            found(check, &[("crates/types/Cargo.toml", CLEAN)]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn what_is_not_shared_is_flagged() {
        for (was, is, finding) in [
            (
                "[lints]\nworkspace = true\n",
                "",
                "1: `[lints] workspace = true` is missing",
            ),
            (
                "edition.workspace = true",
                "edition = \"2021\"",
                "1: `edition.workspace = true`",
            ),
            (
                "description",
                "# description",
                "1: a `description` is missing",
            ),
            (
                "serde.workspace = true",
                "serde = \"1\"",
                "15: `serde` names its own version",
            ),
            (
                "[dev-dependencies.proptest]\nworkspace",
                "[dev-dependencies.p]\nw",
                "16: `p` names",
            ),
        ] {
            let findings = found(
                check,
                &[("crates/types/Cargo.toml", &CLEAN.replace(was, is))],
            );
            assert_eq!(findings.len(), 1, "{is}: {findings:?}");
            assert!(
                findings[0].starts_with(&format!("crates/types/Cargo.toml:{finding}")),
                "{findings:?}"
            );
        }
    }

    #[test]
    fn dependencies_are_read_in_every_form() {
        let manifest = Manifest::read(
            "[dependencies]\na = \"1\"\nb = { package = \"anabranch-sql\", path = \"x\" }\n\
             [target.'cfg(unix)'.dev-dependencies]\nc.workspace = true\n\
             [build-dependencies.d]\npackage = \"e\"\n[features]\nf = []\n",
        );
        let read: Vec<(&str, Section, usize)> = manifest
            .dependencies
            .iter()
            .map(|d| (d.package.as_str(), d.section, d.line))
            .collect();
        assert_eq!(
            read,
            [
                ("a", Section::Normal, 2),
                ("anabranch-sql", Section::Normal, 3),
                ("c", Section::Development, 5),
                ("e", Section::Build, 6),
            ]
        );
    }
}
