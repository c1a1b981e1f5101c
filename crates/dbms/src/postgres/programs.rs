//! Finds PostgreSQL's server programs.
//!
//! It looks in the folder that [`FOLDER_VARIABLE`] names, or else in PATH, then where distributions keep the
//! programs (Debian and its derivatives do not put them into PATH). It never installs them: the error says
//! which command does.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable that names the folder with the programs. If it is set, no other folder is searched.
pub const FOLDER_VARIABLE: &str = "ANABRANCH_POSTGRES_BIN";

/// The oldest major version whose answers ours are compared with.
pub const VERSION_MIN: u32 = 15;

/// Folders with a folder for each version, and the path below that.
const VERSIONED: [(&str, &str); 5] = [
    ("/usr/lib/postgresql", "bin"),
    ("/usr/libexec", ""),
    ("/usr", "bin"),
    ("/opt/homebrew/opt", "bin"),
    ("/usr/local/opt", "bin"),
];

/// The programs of an installed PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The folder that holds them.
    pub folder: PathBuf,
    /// The output of `postgres --version`.
    pub version: String,
}

/// No usable PostgreSQL server was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotInstalled {
    /// The folder that [`FOLDER_VARIABLE`] names, if it is set.
    named: Option<PathBuf>,
}

impl std::fmt::Display for NotInstalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.named {
            Some(folder) => write!(
                f,
                "{FOLDER_VARIABLE} names {}, which does not hold initdb, postgres and pg_ctl of \
                 PostgreSQL {VERSION_MIN} or newer; ",
                folder.display()
            )?,
            None => write!(
                f,
                "PostgreSQL {VERSION_MIN} or newer is not installed (its server: initdb, \
                 postgres, pg_ctl); "
            )?,
        }
        write!(
            f,
            "type: sudo apt-get install -y --no-install-recommends postgresql (or your system's \
             like), or set {FOLDER_VARIABLE} to the folder that holds its programs"
        )
    }
}

impl std::error::Error for NotInstalled {}

impl Installation {
    /// Finds the installation that the environment names, or else the first usable one.
    ///
    /// # Errors
    /// When there is no usable one.
    pub fn find() -> Result<Installation, NotInstalled> {
        if let Some(named) = std::env::var_os(FOLDER_VARIABLE).filter(|name| !name.is_empty()) {
            let named = PathBuf::from(named);
            return inspect(&named).ok_or(NotInstalled { named: Some(named) });
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        places(&path)
            .iter()
            .find_map(|folder| inspect(folder))
            .ok_or(NotInstalled { named: None })
    }

    /// The path of one of its programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

fn places(path: &OsStr) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = std::env::split_paths(path).collect();
    for (parent, below) in VERSIONED {
        let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir(parent)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name();
                let version = name
                    .to_str()?
                    .trim_start_matches("postgresql")
                    .trim_start_matches('@')
                    .trim_start_matches("pgsql-")
                    .parse()
                    .ok()?;
                Some((version, entry.path().join(below)))
            })
            .collect();
        // First the version that answers are compared with, then newer ones, then older ones.
        versions.sort_by_key(|(version, _)| (*version < VERSION_MIN, *version));
        places.extend(versions.into_iter().map(|(_, folder)| folder));
    }
    places
}

/// The installation in this folder, if it is complete and new enough. Links are followed to the folder that
/// holds the other programs.
fn inspect(folder: &Path) -> Option<Installation> {
    let postgres = folder.join("postgres").canonicalize().ok()?;
    let folder = postgres.parent()?.to_path_buf();
    if !["initdb", "pg_ctl"]
        .iter()
        .all(|program| folder.join(program).is_file())
    {
        return None;
    }
    let output = Command::new(&postgres).arg("--version").output().ok()?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (major(&version)? >= VERSION_MIN).then_some(Installation { folder, version })
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_missing_installation_is_reported_with_the_command_that_installs_it() {
        assert_eq!(inspect(Path::new("/nowhere")), None);
        let text = NotInstalled { named: None }.to_string();
        assert!(text.contains("type: sudo apt-get install"), "{text}");
        let text = NotInstalled {
            named: Some("/nowhere".into()),
        }
        .to_string();
        assert!(
            text.starts_with("ANABRANCH_POSTGRES_BIN names /nowhere"),
            "{text}"
        );
    }
}
