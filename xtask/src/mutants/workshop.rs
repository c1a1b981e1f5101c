//! A copy of the working tree in which bugs are planted, built and run.
//!
//! The copies of several jobs share one target folder: dependencies are built once, and the workspace's own
//! crates are distinguished by their paths. Only files that differ are written, so that cargo rebuilds only what
//! changed. A patched file is written back with the current time, so that cargo never takes a patched build for
//! the original's.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::patch::Catcher;
use crate::{Trouble, cargo};

/// The original copy of the working tree.
const ORIGINAL: &str = "target/mutants/original";

/// The copy of one job.
pub(super) struct Workshop {
    original: PathBuf,
    tree: PathBuf,
    build: PathBuf,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It passed.
    Passed,
    /// It failed; this is the first test that did, if there is one.
    Failed(Option<String>),
    /// It was still running at its time limit.
    OutOfTime,
}

/// Copies the working tree at `root`. All jobs copy from there, so that edits while they run have no effect.
///
/// # Errors
/// When git cannot list the files, or they cannot be copied.
pub(super) fn take_copy(root: &Path) -> Result<(), Trouble> {
    mirror(root, &listed(root)?, &root.join(ORIGINAL))
}

impl Workshop {
    /// A job's copy of what [`take_copy`] has copied.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub(super) fn open(root: &Path, job: usize) -> Result<Workshop, Trouble> {
        let folder = root.join("target/mutants");
        let workshop = Workshop {
            original: root.join(ORIGINAL),
            tree: folder.join(format!("tree-{job}")),
            // Cargo identifies packages by their place in the workspace: in one folder it would take the build of one
            // job for that of another.
            build: folder.join(format!("build-{job}")),
        };
        workshop.restore()?;
        Ok(workshop)
    }

    /// Makes the copy equal to the original again.
    ///
    /// # Errors
    /// As [`Workshop::open`].
    pub(super) fn restore(&self) -> Result<(), Trouble> {
        let mut paths = Vec::new();
        walk(&self.original, Path::new(""), &mut paths)
            .map_err(|error| Trouble::Tool(format!("{}: {error}", self.original.display())))?;
        mirror(&self.original, &paths.into_iter().collect(), &self.tree)
    }

    /// Plants a bug.
    ///
    /// # Errors
    /// Git's message when the patch does not apply.
    pub(super) fn apply(&self, patch: &Path) -> Result<(), String> {
        let output = Command::new("git")
            .args(["apply", "--recount", "-C1"])
            .arg(patch)
            .current_dir(&self.tree)
            // The copy is no repository, and git must not use the one around it.
            .env(
                "GIT_CEILING_DIRECTORIES",
                self.build.parent().unwrap_or(&self.build),
            )
            .env_remove("GIT_DIR")
            .output()
            .map_err(|error| format!("running git: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
        }
    }

    /// Builds what a command runs.
    ///
    /// # Errors
    /// The end of cargo's output when it does not build.
    pub(super) fn build(&self, catcher: &Catcher) -> Result<(), String> {
        let output = self
            .cargo(&catcher.build())
            .output()
            .map_err(|error| format!("running cargo: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let errors = text.lines().skip_while(|line| !line.starts_with("error"));
        Err(errors.take(12).collect::<Vec<_>>().join("\n"))
    }

    /// Runs a command for at most `limit`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn run(&self, catcher: &Catcher, limit: Duration) -> Result<Ending, Trouble> {
        let failed = |error: std::io::Error| Trouble::Tool(format!("running {catcher}: {error}"));
        let mut command = self.cargo(catcher.run());
        // A group of its own: cargo's children must end with it.
        command.process_group(0).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let stdout = child.stdout.take();
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(mut stdout) = stdout {
                let _ = stdout.read_to_end(&mut text); // a pipe that breaks ends the text
            }
            String::from_utf8_lossy(&text).into_owned()
        });
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                break Some(status);
            }
            if began.elapsed() > limit {
                stop(&mut child);
                break None;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let text = reader.join().unwrap_or_default();
        Ok(match status {
            None => Ending::OutOfTime,
            Some(status) if status.success() => Ending::Passed,
            Some(_) => Ending::Failed(first_failed(&text)),
        })
    }

    fn cargo(&self, arguments: &[String]) -> Command {
        let mut command = cargo();
        command
            .args(arguments)
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", &self.build)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        if arguments.iter().any(|word| word == "--no-run") || arguments[0] == "build" {
            command.stderr(Stdio::piped());
        }
        command
    }
}

/// Ends a child and its children.
fn stop(child: &mut Child) {
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-KILL", "--", &group]).status(); // it may have ended
    let _ = child.wait();
}

/// The name of the first test that failed.
fn first_failed(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let name = line.strip_prefix("test ")?.strip_suffix("FAILED")?;
        let name = name.split(" ... ").next()?.split(" - ").next()?;
        Some(name.trim().to_string())
    })
}

/// The files that git knows or would add.
fn listed(root: &Path) -> Result<BTreeSet<PathBuf>, Trouble> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .map_err(|error| Trouble::Tool(format!("running git: {error}")))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_string();
        return Err(Trouble::Tool(format!("git ls-files: {message}")));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let paths = text.split('\0').filter(|path| !path.is_empty());
    Ok(paths.map(PathBuf::from).collect())
}

/// Makes one folder equal to some files of another; writes only what differs.
fn mirror(from: &Path, wanted: &BTreeSet<PathBuf>, to: &Path) -> Result<(), Trouble> {
    let failed =
        |error: std::io::Error| Trouble::Tool(format!("copying to {}: {error}", to.display()));
    fs::create_dir_all(to).map_err(failed)?;
    let mut missing = BTreeSet::new();
    for path in wanted {
        let target = to.join(path);
        let Ok(text) = fs::read(from.join(path)) else {
            missing.insert(path); // deleted, and git does not know yet
            continue;
        };
        if fs::read(&target).is_ok_and(|there| there == text) {
            continue;
        }
        fs::create_dir_all(target.parent().expect("a path within the folder"))
            .and_then(|()| fs::write(&target, &text))
            .map_err(failed)?;
    }
    let mut there = Vec::new();
    walk(to, Path::new(""), &mut there).map_err(failed)?;
    for path in there {
        if !wanted.contains(&path) || missing.contains(&path) {
            fs::remove_file(to.join(path)).map_err(failed)?;
        }
    }
    Ok(())
}

/// The files below a folder, as paths from there.
fn walk(folder: &Path, prefix: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = prefix.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), &path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    const PATCH: &str = "\
A letter.

diff --git a/src/lib.rs b/src/lib.rs
--- a/src/lib.rs
+++ b/src/lib.rs
@@ -3,3 +3,3 @@
 one
-two
+too
 three
";

    fn workshop(files: &[(&str, &str)]) -> (Scratch, Workshop) {
        let scratch = Scratch::with(files);
        let mut init = Command::new("git");
        init.args(["init", "-q"]).current_dir(scratch.path());
        assert!(init.status().unwrap().success());
        scratch.write(".gitignore", "/target\n");
        take_copy(scratch.path()).unwrap();
        let workshop = Workshop::open(scratch.path(), 0).unwrap();
        (scratch, workshop)
    }

    #[test]
    fn a_copy_is_patched_and_restored_and_the_original_stays() {
        let (scratch, workshop) = workshop(&[
            ("src/lib.rs", "zero\none\ntwo\nthree\n"),
            ("p.patch", PATCH),
        ]);
        let read = |path: &Path| fs::read_to_string(path.join("src/lib.rs")).unwrap();
        workshop.apply(&scratch.path().join("p.patch")).unwrap();
        assert_eq!(read(&workshop.tree), "zero\none\ntoo\nthree\n");
        assert_eq!(read(scratch.path()), "zero\none\ntwo\nthree\n");
        workshop.restore().unwrap();
        assert_eq!(read(&workshop.tree), "zero\none\ntwo\nthree\n");
        assert!(
            !workshop.tree.join("target").exists(),
            "ignored files stay away"
        );
    }

    #[test]
    fn no_job_takes_what_another_has_built() {
        let (scratch, first) = workshop(&[("src/lib.rs", "one\n")]);
        let second = Workshop::open(scratch.path(), 1).unwrap();
        assert_ne!(first.build, second.build);
        assert_ne!(first.tree, second.tree);
    }

    #[test]
    fn a_patch_that_does_not_apply_is_told() {
        let (scratch, workshop) = workshop(&[("src/lib.rs", "one\nthree\n"), ("p.patch", PATCH)]);
        let error = workshop.apply(&scratch.path().join("p.patch")).unwrap_err();
        assert!(error.contains("src/lib.rs"), "{error}");
    }

    #[test]
    fn the_first_failure_is_named() {
        let text = "test a ... ok\ntest b::c ... FAILED\ntest d ... FAILED\n";
        assert_eq!(first_failed(text), Some("b::c".into()));
        let panics = "test b - should panic ... FAILED\n";
        assert_eq!(first_failed(panics), Some("b".into()));
        assert_eq!(first_failed("test a ... ok\n"), None);
    }
}
