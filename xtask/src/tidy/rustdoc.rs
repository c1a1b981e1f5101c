//! The documentation builds without a warning: every link in it leads somewhere.
//!
//! Private items are documented, too, since developers read the documentation most: a module's head may link to
//! any module of its crate.

use super::tree::Tree;
use super::{Finding, toolchain};
use crate::{Trouble, cargo};

pub(super) const NAME: &str = "rustdoc";

/// Builds every crate's documentation with warnings denied.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    eprintln!("tidy: rustdoc");
    let mut command = cargo();
    command.args([
        "doc",
        "--no-deps",
        "--workspace",
        "--document-private-items",
        "--message-format",
        "short",
    ]);
    command.env(
        "RUSTDOCFLAGS",
        "-D warnings -A rustdoc::private_intra_doc_links",
    );
    let reason = "documentation that misleads is worse than none";
    toolchain::findings(&tree.root, NAME, reason, &mut command)
}

#[cfg(test)]
mod tests {
    use super::super::toolchain::tests::package;
    use super::*;

    #[test]
    fn a_broken_link_is_flagged() {
        let package = package("//! See [`Nowhere`].\n");
        let findings = check(&Tree::read(package.path()).unwrap()).unwrap();
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(
            (findings[0].path.as_str(), findings[0].line),
            ("src/lib.rs", 1)
        );
    }

    #[test]
    fn a_module_may_link_to_a_private_module() {
        let package = package("//! See [`inner`].\n\nmod inner {\n    //! Here.\n}\n");
        assert_eq!(check(&Tree::read(package.path()).unwrap()).unwrap(), []);
    }

    #[test]
    fn a_link_that_leads_somewhere_passes() {
        let package = package("//! See [`Somewhere`].\n\n/// Here.\npub struct Somewhere;\n");
        assert_eq!(check(&Tree::read(package.path()).unwrap()).unwrap(), []);
    }
}
