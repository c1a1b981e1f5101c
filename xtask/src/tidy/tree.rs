//! The workspace's text files, read once; Rust files also as tokens.

use std::fs;
use std::path::{Path, PathBuf};

use super::Finding;
use super::lexer::{self, Code};
use crate::Trouble;

/// The crates below `server`, which run the same in a process, across machines and in the simulator. The rules
/// about determinism apply to them.
pub(super) const BELOW_SERVER: &[&str] = &[
    "types", "sql", "wire", "analysis", "storage", "protocol", "engine", "history", "sim",
];

/// Every text file of a workspace, sorted by path.
pub(super) struct Tree {
    /// The workspace's folder.
    pub(super) root: PathBuf,
    pub(super) files: Vec<File>,
}

/// One text file.
pub(super) struct File {
    /// Path from the workspace's folder, with `/` between its parts.
    pub(super) path: String,
    pub(super) text: String,
    /// The tokens of a `.rs` file, without comments and literals.
    pub(super) code: Option<Code>,
}

impl Tree {
    /// Reads every text file under `root`, except build folders and version control.
    ///
    /// # Errors
    /// When a folder or a file cannot be read.
    pub(super) fn read(root: &Path) -> Result<Tree, Trouble> {
        let mut files = Vec::new();
        read_folder(root, "", &mut files)
            .map_err(|error| Trouble::Tool(format!("reading {}: {error}", root.display())))?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Tree {
            root: root.to_path_buf(),
            files,
        })
    }

    /// The Rust files with their tokens.
    pub(super) fn rust(&self) -> impl Iterator<Item = (&File, &Code)> {
        self.files
            .iter()
            .filter_map(|file| Some((file, file.code.as_ref()?)))
    }

    /// The Rust files under `src` of the crates below `server`.
    pub(super) fn rust_below_server(&self) -> impl Iterator<Item = (&File, &Code)> {
        self.rust().filter(|(file, _)| {
            let mut parts = file.path.split('/');
            parts.next() == Some("crates")
                && parts
                    .next()
                    .is_some_and(|name| BELOW_SERVER.contains(&name))
                && parts.next() == Some("src")
        })
    }

    /// The file at this path, if there is one.
    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }
}

impl File {
    /// A finding of `rule` at a line of this file.
    pub(super) fn finding(&self, rule: &'static str, line: usize, message: String) -> Finding {
        Finding {
            path: self.path.clone(),
            line,
            rule,
            message,
        }
    }

    /// Whether the file belongs to a crate of the product.
    pub(super) fn is_in_crates(&self) -> bool {
        self.path.starts_with("crates/")
    }
}

fn read_folder(folder: &Path, prefix: &str, files: &mut Vec<File>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if name == ".git" || name == "target" {
            continue; // `.git` is a file in a linked worktree
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            // Cargo marks its build folders, of any name, with a CACHEDIR.TAG.
            if !entry.path().join("CACHEDIR.TAG").exists() {
                read_folder(&entry.path(), &format!("{path}/"), files)?;
            }
        } else if kind.is_file() {
            // A file that is not UTF-8 is not text, and no rule applies to it.
            let Ok(text) = String::from_utf8(fs::read(entry.path())?) else {
                continue;
            };
            let code = name.ends_with(".rs").then(|| lexer::strip(&text));
            files.push(File { path, text, code });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn build_folders_and_binaries_are_left_out() {
        let scratch = Scratch::with(&[
            ("crates/sql/src/lib.rs", "//! A.\n"),
            ("crates/sql/tests/sql/main.rs", "//! B.\n"),
            ("crates/server/src/lib.rs", "//! C.\n"),
            ("target/debug/lib.rs", "no\n"),
            ("built/CACHEDIR.TAG", "Signature\n"),
            ("built/lib.rs", "no\n"),
            (".git/config", "no\n"),
            (".ci/run", "yes\n"),
        ]);
        fs::write(scratch.path().join("picture.png"), [0xff, 0xfe, 0x00]).unwrap();
        let tree = Tree::read(scratch.path()).unwrap();
        let paths: Vec<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                ".ci/run",
                "crates/server/src/lib.rs",
                "crates/sql/src/lib.rs",
                "crates/sql/tests/sql/main.rs"
            ]
        );
        let below: Vec<&str> = tree
            .rust_below_server()
            .map(|(file, _)| file.path.as_str())
            .collect();
        assert_eq!(below, ["crates/sql/src/lib.rs"]);
    }
}
