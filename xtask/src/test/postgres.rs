//! Finds PostgreSQL's server programs, and installs them if it may.
//!
//! Tests compare this project's answers with PostgreSQL's, and start servers in folders of their own; so they
//! need the programs, not a running server. The programs are searched in PATH, then where distributions keep
//! them (Debian and its derivatives do not put them into PATH), newest first. If there are none, the system's
//! package manager installs them, as root or by a `sudo` that needs no password. Otherwise the error gives the
//! command to type.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::installer::{Manager, manager_on, privilege};
use crate::Trouble;

/// The oldest major version whose answers ours are compared with.
const VERSION_MIN: u32 = 15;

/// The programs of a server.
const PROGRAMS: &[&str] = &["initdb", "postgres", "pg_ctl"];

/// Where distributions keep the programs; `*` stands for one name with a version in it.
const USUAL: &[&str] = &[
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/libexec/postgresql*",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/usr/local/pgsql*/bin",
];

/// Package managers and their commands. Homebrew runs as its user; the others as root.
const MANAGERS: &[Manager] = &[
    Manager {
        program: "apt-get",
        as_root: true,
        commands: &[
            &["apt-get", "update"],
            &[
                "apt-get",
                "install",
                "-y",
                "--no-install-recommends",
                "postgresql",
            ],
        ],
    },
    Manager {
        program: "dnf",
        as_root: true,
        commands: &[&["dnf", "install", "-y", "postgresql-server"]],
    },
    Manager {
        program: "pacman",
        as_root: true,
        commands: &[&["pacman", "-Sy", "--noconfirm", "postgresql"]],
    },
    Manager {
        program: "apk",
        as_root: true,
        commands: &[&["apk", "add", "postgresql"]],
    },
    Manager {
        program: "brew",
        as_root: false,
        commands: &[&["brew", "install", "postgresql@17"]],
    },
];

/// An installation of PostgreSQL's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Postgres {
    /// The folder of its programs.
    pub(super) folder: PathBuf,
    /// The output of `postgres --version`.
    pub(super) version: String,
}

/// Finds a usable installation; installs one if there is none.
///
/// # Errors
/// When there is none and none can be installed; the message has the command to type.
pub(super) fn find_or_install() -> Result<Postgres, Trouble> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = || {
        let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
        places.extend(usual_folders(Path::new("/")));
        places
    };
    if let Some(found) = places().iter().find_map(|folder| inspect(folder)) {
        return Ok(found);
    }
    let missing = format!(
        "PostgreSQL {VERSION_MIN} or newer is not installed (its server: initdb, postgres, pg_ctl)"
    );
    let Some(manager) = manager_on(&path, MANAGERS) else {
        return Err(Trouble::Tool(format!(
            "{missing}, and no known package manager is here; see https://www.postgresql.org/download/"
        )));
    };
    let Some(prefix) = privilege(manager) else {
        return Err(Trouble::Tool(format!(
            "{missing}; type: {}",
            manager.line()
        )));
    };
    println!(
        "PostgreSQL: not found; installing it with {}",
        manager.program
    );
    // The search below shows whether it helped: a failed update may still leave a usable package list.
    manager.run(prefix);
    places()
        .iter()
        .find_map(|folder| inspect(folder))
        .ok_or_else(|| {
            Trouble::Tool(format!(
                "{missing}, and installing it did not help; type: {}",
                manager.line()
            ))
        })
}

/// The installation in this folder, if it is complete and new enough. Links are followed to the folder that holds
/// the other programs.
fn inspect(folder: &Path) -> Option<Postgres> {
    let initdb = folder.join("initdb").canonicalize().ok()?;
    let folder = initdb.parent()?.to_path_buf();
    if !PROGRAMS
        .iter()
        .all(|program| folder.join(program).is_file())
    {
        return None;
    }
    let output = Command::new(folder.join("postgres"))
        .arg("--version")
        .output()
        .ok()?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_string();
    (major(&version)? >= VERSION_MIN).then_some(Postgres { folder, version })
}

/// The major version in `postgres (PostgreSQL) 15.13 (Debian …)`.
fn major(version: &str) -> Option<u32> {
    let number = version.split_once("(PostgreSQL) ")?.1;
    number
        .split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

/// The folders under `root` where distributions keep the programs, newest version first.
fn usual_folders(root: &Path) -> Vec<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for pattern in USUAL {
        let pattern = pattern.trim_start_matches('/');
        let Some((before, after)) = pattern.split_once('*') else {
            continue;
        };
        let (parent, prefix) = before.rsplit_once('/').unwrap_or(("", before));
        let below = after.trim_start_matches('/');
        let Ok(entries) = std::fs::read_dir(root.join(parent)) else {
            continue;
        };
        for entry in entries.flatten() {
            let file_name = entry.file_name().to_string_lossy().into_owned();
            let Some(version) = file_name.strip_prefix(prefix) else {
                continue;
            };
            let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
            let folder = entry.path();
            let folder = if below.is_empty() {
                folder
            } else {
                folder.join(below)
            };
            found.push((digits.parse().unwrap_or(0), folder));
        }
    }
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, folder)| folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn versions_are_read() {
        assert_eq!(
            major("postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)"),
            Some(15)
        );
        assert_eq!(major("postgres (PostgreSQL) 18beta1"), Some(18));
        assert_eq!(major("postgres"), None);
    }

    #[test]
    fn the_newest_of_the_usual_folders_comes_first() {
        let scratch = Scratch::with(&[
            ("usr/lib/postgresql/9.6/bin/initdb", ""),
            ("usr/lib/postgresql/15/bin/initdb", ""),
            ("usr/pgsql-17/bin/initdb", ""),
            ("usr/libexec/postgresql16/initdb", ""),
            ("usr/libexec/other/initdb", ""),
        ]);
        let folders: Vec<String> = usual_folders(scratch.path())
            .iter()
            .map(|folder| {
                folder
                    .strip_prefix(scratch.path())
                    .unwrap()
                    .display()
                    .to_string()
            })
            .collect();
        assert_eq!(
            folders,
            [
                "usr/pgsql-17/bin",
                "usr/libexec/postgresql16",
                "usr/lib/postgresql/15/bin",
                "usr/lib/postgresql/9.6/bin"
            ]
        );
    }

    #[cfg(unix)]
    #[test]
    fn only_a_whole_and_new_enough_installation_will_do() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = Scratch::new();
        let plant = |folder: &str, version: &str| {
            for program in PROGRAMS {
                let path = format!("{folder}/{program}");
                scratch.write(
                    &path,
                    &format!("#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n"),
                );
                let mode = std::fs::Permissions::from_mode(0o755);
                std::fs::set_permissions(scratch.path().join(&path), mode).unwrap();
            }
        };
        plant("old", "14.9");
        plant("new", "16.1");
        plant("part", "16.1");
        std::fs::remove_file(scratch.path().join("part/pg_ctl")).unwrap();
        std::fs::create_dir(scratch.path().join("links")).unwrap();
        let (target, link) = (
            scratch.path().join("new/initdb"),
            scratch.path().join("links/initdb"),
        );
        std::os::unix::fs::symlink(target, link).unwrap();

        assert_eq!(inspect(&scratch.path().join("old")), None);
        assert_eq!(inspect(&scratch.path().join("part")), None);
        assert_eq!(inspect(&scratch.path().join("nowhere")), None);
        for folder in ["new", "links"] {
            let found = inspect(&scratch.path().join(folder)).expect("it is whole");
            assert_eq!(found.folder, scratch.path().join("new"));
            assert_eq!(found.version, "postgres (PostgreSQL) 16.1");
        }
    }

    #[test]
    fn the_line_to_type_is_whole() {
        assert_eq!(
            MANAGERS[0].line(),
            "sudo apt-get update && sudo apt-get install -y --no-install-recommends postgresql"
        );
        assert_eq!(MANAGERS[4].line(), "brew install postgresql@17");
    }
}
