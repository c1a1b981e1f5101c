//! Each Rust file opens with a `//!` comment that says what the file is for.
//!
//! A reader who opens any file learns from its head where they are. The compiler's `missing_docs`
//! requires this of public modules only.

use super::Finding;
use super::tree::Tree;
use crate::Trouble;

pub(super) const NAME: &str = "module-docs";

/// Looks at the first line that is not blank.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    Ok(tree
        .rust()
        .filter(|(file, _)| {
            let first = file
                .text
                .lines()
                .map(str::trim)
                .find(|line| !line.is_empty());
            !first.is_some_and(|line| line.starts_with("//! ") && line.len() > "//! x".len())
        })
        .map(|(file, _)| {
            let message = "has no `//!` comment at its head: say what the file is for".into();
            file.finding(NAME, 1, message)
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    #[test]
    fn a_file_without_a_head_is_flagged() {
        for text in ["use std::fmt;\n", "// A comment.\n", "//!\n", ""] {
            assert_eq!(
                found(check, &[("crates/sql/src/a.rs", text)]),
                [
                    "crates/sql/src/a.rs:1: has no `//!` comment at its head: say what the file is for"
                ]
            );
        }
    }

    #[test]
    fn a_file_with_a_head_passes() {
        let text = "\n//! What it is for.\n#![allow(x)]\n";
        assert_eq!(
            found(check, &[("crates/sql/src/a.rs", text)]),
            Vec::<String>::new()
        );
    }
}
