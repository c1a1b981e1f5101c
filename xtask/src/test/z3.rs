//! Finds Z3, with which the analyser's proofs are compared, and installs it if it may.
//!
//! Unlike PostgreSQL it is optional: the built-in solver is tested without it, and the skipped comparison is
//! reported and counted.

use std::path::PathBuf;

use super::installer::{Manager, manager_on, on_path, privilege};

/// Package managers and their commands.
const MANAGERS: &[Manager] = &[
    Manager {
        program: "apt-get",
        as_root: true,
        commands: &[
            &["apt-get", "update"],
            &["apt-get", "install", "-y", "--no-install-recommends", "z3"],
        ],
    },
    Manager {
        program: "dnf",
        as_root: true,
        commands: &[&["dnf", "install", "-y", "z3"]],
    },
    Manager {
        program: "pacman",
        as_root: true,
        commands: &[&["pacman", "-Sy", "--noconfirm", "z3"]],
    },
    Manager {
        program: "apk",
        as_root: true,
        commands: &[&["apk", "add", "z3"]],
    },
    Manager {
        program: "brew",
        as_root: false,
        commands: &[&["brew", "install", "z3"]],
    },
];

/// Finds the program; installs it if needed. An error is the reason why it is not there.
pub(super) fn find_or_install() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os(super::Z3) {
        return Ok(PathBuf::from(named));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let find = || on_path(&path, "z3").then(|| PathBuf::from("z3"));
    if let Some(found) = find() {
        return Ok(found);
    }
    let manager = manager_on(&path, MANAGERS).ok_or("no known package manager is here")?;
    let prefix = privilege(manager).ok_or_else(|| format!("type: {}", manager.line()))?;
    println!("Z3: not found; installing it with {}", manager.program);
    manager.run(prefix);
    find().ok_or_else(|| format!("installing it did not help; type: {}", manager.line()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_manager_installs_it() {
        for manager in MANAGERS {
            assert!(manager.line().ends_with(" z3"), "{}", manager.line());
            assert!(manager.line().contains(manager.program));
        }
    }
}
