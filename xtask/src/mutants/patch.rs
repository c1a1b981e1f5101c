//! A patch under `tests/mutants`: the bug that it plants, and the commands that must catch it.
//!
//! ```text
//! RAMP: a reader does not fetch missing siblings of what it has read.
//!
//! Caught-By: cargo test -p anabranch-models ramp_shows
//!
//! diff --git a/crates/protocol/src/ramp/reads.rs b/crates/protocol/src/ramp/reads.rs
//! …
//! ```

use std::path::{Path, PathBuf};

use crate::Trouble;

/// Where the patches are.
pub(super) const FOLDER: &str = "tests/mutants";

/// A planted bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mutant {
    /// The file's name without `.patch`.
    pub(super) name: String,
    /// One line that describes the bug.
    pub(super) about: String,
    /// The commands that must fail.
    pub(super) caught_by: Vec<Catcher>,
    /// The file's path.
    pub(super) path: PathBuf,
}

/// A command that must fail: `cargo test …` or `cargo run …`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Catcher(Vec<String>);

impl Catcher {
    fn parse(line: &str) -> Option<Catcher> {
        let mut words = line.split_whitespace().map(String::from);
        let is_cargo = words.next().as_deref() == Some("cargo");
        let words: Vec<String> = words.collect();
        let known = words
            .first()
            .is_some_and(|first| ["test", "run"].contains(&first.as_str()));
        (is_cargo && known).then_some(Catcher(words))
    }

    /// The arguments for cargo.
    pub(super) fn run(&self) -> &[String] {
        &self.0
    }

    /// The arguments with which cargo builds what [`Catcher::run`] runs.
    pub(super) fn build(&self) -> Vec<String> {
        let ours = self.0.iter().take_while(|word| *word != "--");
        let mut words: Vec<String> = ours.cloned().collect();
        match words[0].as_str() {
            "test" => words.insert(1, "--no-run".into()),
            _ => words[0] = "build".into(),
        }
        words
    }
}

impl std::fmt::Display for Catcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cargo {}", self.0.join(" "))
    }
}

/// Every patch under the workspace at `root`, sorted by name.
///
/// # Errors
/// When the folder cannot be read, or a patch has no valid header.
pub(super) fn read_all(root: &Path) -> Result<Vec<Mutant>, Trouble> {
    let folder = root.join(FOLDER);
    let failed = |error: std::io::Error| Trouble::Tool(format!("reading {FOLDER}: {error}"));
    let mut mutants = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "patch")
        {
            let text = std::fs::read_to_string(&path).map_err(failed)?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let mutant = parse(&name, &text, &path);
            mutants.push(mutant.map_err(|why| Trouble::Tool(format!("{FOLDER}/{name}: {why}")))?);
        }
    }
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mutants)
}

fn parse(name: &str, text: &str, path: &Path) -> Result<Mutant, String> {
    let header: Vec<&str> = text
        .lines()
        .take_while(|line| !line.starts_with("diff --git "))
        .collect();
    let about = header.first().filter(|line| !line.trim().is_empty());
    let about = about.ok_or("the first line does not describe the bug")?;
    let mut caught_by = Vec::new();
    for line in &header {
        if let Some(command) = line.strip_prefix("Caught-By: ") {
            let catcher = Catcher::parse(command);
            caught_by.push(catcher.ok_or_else(|| format!("`{command}` is no cargo test or run"))?);
        }
    }
    if caught_by.is_empty() {
        return Err("no `Caught-By:` line names a command that must fail".into());
    }
    if header.len() == text.lines().count() {
        return Err("it has no `diff --git`".into());
    }
    Ok(Mutant {
        name: name.into(),
        about: about.to_string(),
        caught_by,
        path: path.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
RAMP: no second round.

Caught-By: cargo test -p anabranch-protocol --test protocol every -- --nocapture
Caught-By: cargo run -p anabranch-models -- ramp

diff --git a/x b/x
";

    fn parsed(text: &str) -> Result<Mutant, String> {
        parse("deaf", text, Path::new("deaf.patch"))
    }

    #[test]
    fn a_header_says_what_is_wrong_and_what_catches_it() {
        let mutant = parsed(TEXT).unwrap();
        assert_eq!(mutant.about, "RAMP: no second round.");
        let [test, run] = &mutant.caught_by[..] else {
            panic!("two commands");
        };
        assert_eq!(
            test.to_string(),
            "cargo test -p anabranch-protocol --test protocol every -- --nocapture"
        );
        assert_eq!(
            test.build().join(" "),
            "test --no-run -p anabranch-protocol --test protocol every"
        );
        assert_eq!(run.build().join(" "), "build -p anabranch-models");
    }

    #[test]
    fn a_header_without_its_parts_is_refused() {
        let without = |part: &str| parsed(&TEXT.replace(part, "")).is_err();
        assert!(without("RAMP: no second round."));
        assert!(without("Caught-By: "));
        assert!(without("diff --git a/x b/x\n"));
        assert!(without("cargo run"));
    }
}
