//! Runs the toolchain's own checks, and turns their output into findings.

use std::path::Path;
use std::process::Command;

use super::Finding;
use crate::{Trouble, cargo};

/// Makes sure that a component of the toolchain (`clippy`, `rustfmt`) is there: a minimal toolchain lacks it, and
/// rustup can add it.
///
/// # Errors
/// When it is missing and cannot be added; the message has the command to type.
pub(super) fn require(component: &str, command: &str) -> Result<(), Trouble> {
    let works = || {
        cargo()
            .args([command, "--version"])
            .output()
            .is_ok_and(|o| o.status.success())
    };
    if works() {
        return Ok(());
    }
    eprintln!("tidy: adding {component} to the toolchain");
    // The next call of cargo shows whether it helped.
    let _ = Command::new("rustup")
        .args(["component", "add", component])
        .status();
    if works() {
        return Ok(());
    }
    Err(Trouble::Tool(format!(
        "{component} is missing; type: rustup component add {component}"
    )))
}

/// Runs cargo in `root` and reads the `path:line:column: level: message` lines of its output.
///
/// # Errors
/// When cargo cannot be started.
pub(super) fn findings(
    root: &Path,
    rule: &'static str,
    reason: &str,
    command: &mut Command,
) -> Result<Vec<Finding>, Trouble> {
    if cfg!(test) {
        // Planted packages are temporary; their builds must not pile up in a shared folder.
        command.env("CARGO_TARGET_DIR", root.join("target"));
    }
    let output = command
        .current_dir(root)
        .env("CARGO_TERM_COLOR", "never")
        .output()
        .map_err(|error| Trouble::Tool(format!("starting cargo: {error}")))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let mut findings: Vec<Finding> = stderr
        .lines()
        .filter_map(|line| short_message(root, rule, reason, line))
        .collect();
    if output.status.success() {
        findings.clear(); // warnings that are not denied, of a dependency for example
    } else if findings.is_empty() {
        // Another failure, of a manifest or a build script: the whole output is the finding.
        findings.push(Finding {
            path: "Cargo.toml".into(),
            line: 1,
            rule,
            message: format!("cargo failed:\n{}", stderr.trim()),
        });
    }
    Ok(findings)
}

/// Reads one line of `--message-format short`.
fn short_message(root: &Path, rule: &'static str, reason: &str, line: &str) -> Option<Finding> {
    let (place, message) = line.split_once(": ")?;
    if !message.starts_with("error") {
        return None; // denied warnings are errors; other warnings belong to another rule
    }
    let mut parts = place.rsplitn(3, ':');
    let (_column, line, path) = (parts.next()?, parts.next()?, parts.next()?);
    Some(Finding {
        path: relative(root, path),
        line: line.parse().ok()?,
        rule,
        message: format!("{message} ({reason})"),
    })
}

/// The path from the workspace's folder, with `/` between its parts.
pub(super) fn relative(root: &Path, path: &str) -> String {
    let path = Path::new(path);
    path.strip_prefix(root)
        .unwrap_or(path)
        .to_string_lossy()
        .replace('\\', "/")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::scratch::Scratch;

    /// A package without dependencies whose library is `text`, and its build folder beside it.
    pub(in crate::tidy) fn package(text: &str) -> Scratch {
        let manifest = "[package]\nname = \"planted\"\nedition = \"2024\"\n\
                        [workspace]\n[lints.rust]\nmissing_docs = \"warn\"\n";
        Scratch::with(&[("Cargo.toml", manifest), ("src/lib.rs", text)])
    }

    #[test]
    fn short_messages_become_findings() {
        let read = |line| short_message(Path::new("/a"), "clippy", "why", line);
        let finding = read("crates/sql/src/a.rs:3:5: error[E0432]: no such thing").unwrap();
        assert_eq!(
            finding.to_string(),
            "crates/sql/src/a.rs:3: clippy: error[E0432]: no such thing (why)"
        );
        assert_eq!(read("/a/b.rs:1:1: error: odd").unwrap().path, "b.rs");
        assert_eq!(read("b.rs:1:1: warning: odd"), None);
        assert_eq!(read("error: could not compile `x`"), None);
        assert_eq!(read("    Checking anabranch-sql v0.1.0 (/x)"), None);
    }

    #[test]
    fn a_failure_without_a_place_is_still_a_finding() {
        let package = package("//! A.\n");
        package.write("Cargo.toml", "nonsense");
        let mut command = cargo();
        command.args(["metadata", "--format-version", "1"]);
        let findings = findings(package.path(), "clippy", "", &mut command).unwrap();
        assert_eq!(findings.len(), 1);
        assert!(findings[0].message.starts_with("cargo failed:"));
    }
}
