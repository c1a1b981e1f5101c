//! How far a soak has come that runs seeds of several sources in turn: a file that the next soak reads.

use std::collections::BTreeMap;
use std::path::Path;

use super::replace;

/// The progress of all sources of seeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// The commit that has run them.
    pub(super) commit: String,
    /// The next seed of each source that has run.
    next: BTreeMap<String, u64>,
    /// Commands that repeat the shifts that have failed.
    pub(super) failures: Vec<String>,
}

impl Progress {
    /// The progress that a file has, if it is this commit's; otherwise none.
    pub(super) fn read(path: &Path, commit: &str) -> Progress {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let read = Progress::from_text(&text);
        match read.commit == commit {
            true => read,
            false => Progress {
                commit: commit.to_owned(),
                ..Progress::default()
            },
        }
    }

    /// Writes it into a file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn write(&self, path: &Path) -> std::io::Result<()> {
        replace(path, &self.to_text())
    }

    /// The next seed of a source; `first` if it has not run.
    pub(super) fn next(&self, source: &str, first: u64) -> u64 {
        self.next.get(source).copied().unwrap_or(first)
    }

    /// Sets the next seed of a source.
    pub(super) fn set_next(&mut self, source: &str, next: u64) {
        self.next.insert(source.to_owned(), next);
    }

    fn from_text(text: &str) -> Progress {
        let mut progress = Progress::default();
        for line in text.lines() {
            match line.split('\t').collect::<Vec<_>>().as_slice() {
                ["commit", commit] => progress.commit = (*commit).to_owned(),
                ["next", source, next] => {
                    if let Ok(next) = next.parse() {
                        progress.set_next(source, next);
                    }
                }
                ["failed", command] => progress.failures.push((*command).to_owned()),
                _ => {}
            }
        }
        progress
    }

    fn to_text(&self) -> String {
        let mut text = format!("commit\t{}\n", self.commit);
        for (source, next) in &self.next {
            text.push_str(&format!("next\t{source}\t{next}\n"));
        }
        for command in &self.failures {
            text.push_str(&format!("failed\t{command}\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_soak_continues_where_the_last_one_of_its_commit_ended() {
        let mut progress = Progress {
            commit: "abc".into(),
            ..Progress::default()
        };
        assert_eq!(progress.next("one", 7), 7);
        progress.set_next("one", 20_007);
        progress.failures.push("A=1..2 cargo test".into());
        assert_eq!(Progress::from_text(&progress.to_text()), progress);
        let scratch = crate::scratch::Scratch::with(&[("state", &progress.to_text())]);
        let path = scratch.path().join("state");
        assert_eq!(Progress::read(&path, "abc"), progress);
        let anew = Progress::read(&path, "other");
        assert_eq!((anew.next("one", 7), anew.failures.len()), (7, 0));
    }
}
