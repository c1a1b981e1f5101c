//! Each file opens with what it is for.
//!
//! The first thing in a Rust file is its `//!` chapter: a reader who opens it at random must learn
//! in a breath where they are. `missing_docs` asks this of public modules only.

use super::Finding;
use super::tree::Tree;
use crate::Trouble;

pub(super) const NAME: &str = "chapters";

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
            let message = "opens without a `//!` chapter: say what the file is for".into();
            file.finding(NAME, 1, message)
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    #[test]
    fn a_file_without_a_chapter_is_flagged() {
        for text in ["use std::fmt;\n", "// A comment.\n", "//!\n", ""] {
            assert_eq!(
                found(check, &[("crates/sql/src/a.rs", text)]),
                ["crates/sql/src/a.rs:1: opens without a `//!` chapter: say what the file is for"]
            );
        }
    }

    #[test]
    fn one_with_a_chapter_passes() {
        let text = "\n//! What it is for.\n#![allow(x)]\n";
        assert_eq!(
            found(check, &[("crates/sql/src/a.rs", text)]),
            Vec::<String>::new()
        );
    }
}
