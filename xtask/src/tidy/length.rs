//! No Rust file above 1,500 lines, and none above 1,000 that is not listed.
//!
//! `xtask/tidy/length.txt` lists files above 1,000 lines with their exact length, so that growth shows in review.
//! A listed file may only shrink: the rule compares the list with the last commit's, if there is one.

use std::collections::BTreeMap;
use std::process::Command;

use super::Finding;
use super::tree::Tree;
use crate::Trouble;

pub(super) const NAME: &str = "length";

const LINES_MAX: usize = 1_500;
const LINES_LISTED: usize = 1_000;
const RATCHET: &str = "xtask/tidy/length.txt";

/// Compares every Rust file with the limits and the list.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    let text = tree.file(RATCHET).map_or("", |file| file.text.as_str());
    let (listed, mut findings) = read(text);
    let lengths: BTreeMap<&str, usize> = tree
        .rust()
        .map(|(file, _)| (file.path.as_str(), file.text.lines().count()))
        .collect();
    let mut say = |path: &str, line, message: String| {
        findings.push(Finding {
            path: path.into(),
            line,
            rule: NAME,
            message,
        });
    };
    for (&path, &length) in &lengths {
        if length > LINES_MAX {
            say(
                path,
                LINES_MAX + 1,
                format!("{length} lines, more than {LINES_MAX}: split it"),
            );
        } else if length > LINES_LISTED && !listed.contains_key(path) {
            let message = format!(
                "{length} lines, more than {LINES_LISTED}: split it while it is easy, so that a \
                 newcomer finds the way"
            );
            say(path, LINES_LISTED + 1, message);
        }
    }
    for (path, entry) in &listed {
        match lengths.get(path.as_str()) {
            Some(&length) if length > entry.limit => {
                let message = format!("{length} lines, and the ratchet holds {}", entry.limit);
                say(path, entry.limit + 1, message);
            }
            Some(&length) if length <= LINES_LISTED => {
                say(
                    RATCHET,
                    entry.line,
                    format!("{path} is short now; take the entry out"),
                );
            }
            Some(&length) if length < entry.limit => {
                say(
                    RATCHET,
                    entry.line,
                    format!("{path} shrank; lower its entry to {length}"),
                );
            }
            Some(_) => {}
            None => say(
                RATCHET,
                entry.line,
                format!("{path} is gone; take the entry out"),
            ),
        }
    }
    let (committed, _) = read(&committed(tree));
    for (path, entry) in grown(&listed, &committed) {
        say(
            RATCHET,
            entry.line,
            format!("{path} was raised; the ratchet only ever shrinks"),
        );
    }
    Ok(findings)
}

/// One line of the ratchet.
struct Entry {
    /// Longest permitted, in lines.
    limit: usize,
    /// Line in the ratchet, from 1.
    line: usize,
}

/// Reads `path length` lines; `#` begins a comment.
fn read(text: &str) -> (BTreeMap<String, Entry>, Vec<Finding>) {
    let mut entries = BTreeMap::new();
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        match line
            .split_once(' ')
            .map(|(path, limit)| (path, limit.trim().parse()))
        {
            Some((path, Ok(limit))) => {
                entries.insert(
                    path.to_string(),
                    Entry {
                        limit,
                        line: index + 1,
                    },
                );
            }
            _ => findings.push(Finding {
                path: RATCHET.into(),
                line: index + 1,
                rule: NAME,
                message: "not a path and a number of lines".into(),
            }),
        }
    }
    (entries, findings)
}

/// The entries that are higher than they were. New ones are not: a reviewer sees those.
fn grown<'a>(
    now: &'a BTreeMap<String, Entry>,
    before: &BTreeMap<String, Entry>,
) -> Vec<(&'a String, &'a Entry)> {
    now.iter()
        .filter(|(path, entry)| before.get(*path).is_some_and(|old| entry.limit > old.limit))
        .collect()
}

/// The list as of the commit before, or nothing: an export of the sources has no history.
fn committed(tree: &Tree) -> String {
    let show = |revision: &str| {
        let output = Command::new("git")
            .current_dir(&tree.root)
            .args(["show", &format!("{revision}:{RATCHET}")])
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // A list that is not committed yet is compared with HEAD, a committed one with the commit before.
    let head = show("HEAD").unwrap_or_default();
    let now = tree.file(RATCHET).map_or("", |file| file.text.as_str());
    if head == now {
        show("HEAD^").unwrap_or_default()
    } else {
        head
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    fn long(lines: usize) -> String {
        "//! A.\n".repeat(lines)
    }

    #[test]
    fn long_files_are_flagged() {
        let findings = found(check, &[("crates/sql/src/a.rs", &long(1_501))]);
        assert_eq!(
            findings,
            ["crates/sql/src/a.rs:1501: 1501 lines, more than 1500: split it"]
        );
        let findings = found(check, &[("crates/sql/src/a.rs", &long(1_001))]);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("crates/sql/src/a.rs:1001: 1001 lines, more than 1000"));
        assert_eq!(
            found(check, &[("crates/sql/src/a.rs", &long(1_000))]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn the_ratchet_holds_and_shrinks() {
        let ratchet = "# path lines\ncrates/sql/src/a.rs 1100\n";
        let with = |lines| {
            found(
                check,
                &[("crates/sql/src/a.rs", &long(lines)), (RATCHET, ratchet)],
            )
        };
        assert_eq!(with(1_100), Vec::<String>::new());
        assert_eq!(
            with(1_101),
            ["crates/sql/src/a.rs:1101: 1101 lines, and the ratchet holds 1100"]
        );
        assert_eq!(
            with(1_050),
            ["xtask/tidy/length.txt:2: crates/sql/src/a.rs shrank; lower its entry to 1050"]
        );
        assert_eq!(
            with(900),
            ["xtask/tidy/length.txt:2: crates/sql/src/a.rs is short now; take the entry out"]
        );
        assert_eq!(
            found(check, &[(RATCHET, ratchet)]),
            ["xtask/tidy/length.txt:2: crates/sql/src/a.rs is gone; take the entry out"]
        );
        assert_eq!(
            found(check, &[(RATCHET, "nonsense\n")]),
            ["xtask/tidy/length.txt:1: not a path and a number of lines"]
        );
    }

    #[test]
    fn a_raised_entry_is_seen() {
        let (before, _) = read("a.rs 1100\nb.rs 1200\n");
        let (now, _) = read("a.rs 1101\nb.rs 1150\nc.rs 1300\n");
        let paths: Vec<&str> = grown(&now, &before)
            .iter()
            .map(|(path, _)| path.as_str())
            .collect();
        assert_eq!(paths, ["a.rs"]);
    }
}
