//! All code is formatted by rustfmt, so that a diff shows what changed.

use std::path::Path;

use super::toolchain::{relative, require};
use super::tree::Tree;
use super::{Finding, toolchain};
use crate::{Trouble, cargo};

pub(super) const NAME: &str = "rustfmt";

/// Runs rustfmt, which lists what it would change.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    require("rustfmt", "fmt")?;
    let output = cargo()
        .current_dir(&tree.root)
        .args(["fmt", "--all", "--", "--check", "--color", "never"])
        .output()
        .map_err(|error| Trouble::Tool(format!("starting cargo: {error}")))?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let findings: Vec<Finding> = stdout
        .lines()
        .filter_map(|line| difference(&tree.root, line))
        .collect();
    if findings.is_empty() && !output.status.success() {
        // It could not read a file; the ordinary output says which.
        let mut again = cargo();
        again.args(["fmt", "--all", "--", "--check"]);
        return toolchain::findings(&tree.root, NAME, "", &mut again);
    }
    Ok(findings)
}

/// Reads `Diff in PATH:LINE:`.
fn difference(root: &Path, line: &str) -> Option<Finding> {
    let place = line.strip_prefix("Diff in ")?.trim_end_matches(':');
    let (path, line) = place.rsplit_once(':')?;
    Some(Finding {
        path: relative(root, path),
        line: line.parse().ok()?,
        rule: NAME,
        message: "not formatted; run `cargo fmt`".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::toolchain::tests::package;
    use super::*;

    #[test]
    fn another_layout_is_flagged() {
        let package = package("//! A.\n\n/// B.\npub fn b( ) { }\n");
        let findings = check(&Tree::read(package.path()).unwrap()).unwrap();
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].path, "src/lib.rs");
        assert!((1..=4).contains(&findings[0].line), "{findings:?}");
    }

    #[test]
    fn its_own_layout_passes() {
        let package = package("//! A.\n\n/// B.\npub fn b() {}\n");
        assert_eq!(check(&Tree::read(package.path()).unwrap()).unwrap(), []);
    }
}
