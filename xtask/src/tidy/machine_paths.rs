//! No absolute path of one machine, in any text file.
//!
//! An absolute path into a person's home works for that person only.

use super::Finding;
use super::tree::Tree;
use crate::Trouble;

pub(super) const NAME: &str = "machine-paths";

/// Folders that are one person's or one machine's; in two parts, so that this file passes.
const FOLDERS: &[&str] = &[
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/Us", "ers/"),
];

/// Looks at every line of every text file.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(folder) = FOLDERS.iter().find(|folder| has_path(line, folder)) {
                let message = format!(
                    "an absolute path (`{folder}…`) of one machine: write it relative to the \
                     repository, or by an environment variable"
                );
                findings.push(file.finding(NAME, index + 1, message));
            }
        }
    }
    Ok(findings)
}

/// Whether an absolute path into `folder` begins in the line, other than within a longer path.
fn has_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~}/".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    #[test]
    fn a_path_of_one_machine_is_flagged() {
        for folder in FOLDERS {
            let text = format!("# How\n\nRun `{folder}ada/anabranch`.\n");
            let findings = found(check, &[("README.md", &text)]);
            assert_eq!(findings.len(), 1);
            assert!(
                findings[0].starts_with("README.md:3: an absolute path"),
                "{findings:?}"
            );
        }
    }

    #[test]
    fn paths_of_every_machine_pass() {
        let text = format!(
            "crates{0}x, $HOME{0}x, ~{0}x, ${{A}}{0}, a.b{0} /usr/lib/postgresql/15/bin\n",
            FOLDERS[2]
        );
        assert_eq!(found(check, &[("README.md", &text)]), Vec::<String>::new());
    }
}
