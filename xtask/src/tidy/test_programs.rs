//! A crate's tests under `tests` are one program, `tests/CRATE/main.rs`.
//!
//! Each program is linked with all that it tests, which takes longer than to compile most of them. A program that needs
//! a process or features of its own is listed as `[[test]]` in the crate's `Cargo.toml`.

use super::Finding;
use super::tree::Tree;
use crate::Trouble;

pub(super) const NAME: &str = "test-programs";

/// Looks at the files from which cargo makes test programs.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    let is_listed = |folder: &str, program: &str| {
        let manifest = tree.file(&format!("crates/{folder}/Cargo.toml"));
        let entry = format!("[[test]]\nname = \"{program}\"\n");
        manifest.is_some_and(|manifest| manifest.text.contains(&entry))
    };
    let mut findings = Vec::new();
    for (file, _) in tree.rust() {
        let parts: Vec<&str> = file.path.split('/').collect();
        let (folder, program) = match parts[..] {
            ["crates", folder, "tests", file] => (folder, file.trim_end_matches(".rs")),
            ["crates", folder, "tests", program, "main.rs"] => (folder, program),
            _ => continue,
        };
        let is_main = program == folder && parts.len() == 5;
        if !is_main && !is_listed(folder, program) {
            let message = format!(
                "a test program of its own, linked with all that it tests: make it a module of \
                 crates/{folder}/tests/{folder}/main.rs, or list it as [[test]] if it needs a process of its own"
            );
            findings.push(file.finding(NAME, 1, message));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    #[test]
    fn a_second_program_is_flagged() {
        let files = [
            ("crates/sql/Cargo.toml", "[package]\n"),
            ("crates/sql/tests/script.rs", "//! A.\n"),
            ("crates/sql/tests/sql.rs", "//! B.\n"),
            ("crates/sql/tests/twin/main.rs", "//! C.\n"),
        ];
        let findings = found(check, &files);
        assert_eq!(findings.len(), 3, "{findings:?}");
        assert!(
            findings[0].starts_with("crates/sql/tests/script.rs:1: a test program of its own")
                && findings[0].contains("crates/sql/tests/sql/main.rs"),
            "{findings:?}"
        );
    }

    #[test]
    fn one_program_its_modules_and_those_that_are_listed_pass() {
        let manifest = "[package]\n\n[[test]]\nname = \"memory\"\nharness = false\n";
        let files = [
            ("crates/sql/Cargo.toml", manifest),
            ("crates/sql/tests/memory.rs", "//! A.\n"),
            ("crates/sql/tests/sql/main.rs", "//! B.\n"),
            ("crates/sql/tests/sql/script.rs", "//! C.\n"),
            ("crates/sql/tests/sql/support/mod.rs", "//! D.\n"),
        ];
        assert_eq!(found(check, &files), Vec::<String>::new());
    }
}
