//! No warning of clippy or the compiler, in any target.
//!
//! The workspace's lints, `missing_docs` and `unreachable_pub` among them, are warnings in ordinary builds and
//! errors here. A warning that stays teaches developers to overlook warnings.

use super::tree::Tree;
use super::{Finding, toolchain};
use crate::{Trouble, cargo};

pub(super) const NAME: &str = "clippy";

/// Runs clippy over every target of every crate.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    toolchain::require("clippy", "clippy")?;
    eprintln!("tidy: clippy, all targets");
    let mut command = cargo();
    command.args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--message-format",
        "short",
    ]);
    command.args(["--", "-D", "warnings"]);
    let reason = "a warning that stays teaches developers to overlook warnings";
    toolchain::findings(&tree.root, NAME, reason, &mut command)
}

#[cfg(test)]
mod tests {
    use super::super::toolchain::tests::package;
    use super::*;

    #[test]
    fn a_lint_and_a_missing_doc_are_flagged() {
        let text =
            "//! A.\n\n/// B.\npub fn b(x: bool) -> bool {\n    x == true\n}\npub fn c() {}\n";
        let package = package(text);
        let findings = check(&Tree::read(package.path()).unwrap()).unwrap();
        let lines: Vec<(&str, usize)> = findings
            .iter()
            .map(|finding| (finding.path.as_str(), finding.line))
            .collect();
        assert!(lines.contains(&("src/lib.rs", 5)), "{findings:?}");
        assert!(lines.contains(&("src/lib.rs", 7)), "{findings:?}");
    }

    #[test]
    fn documented_code_passes() {
        let package = package("//! A.\n\n/// B.\npub fn b(x: bool) -> bool {\n    !x\n}\n");
        assert_eq!(check(&Tree::read(package.path()).unwrap()).unwrap(), []);
    }
}
