//! Installs programs that tests need by a package manager: as root, or by a `sudo` that needs no password.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// A package manager and its commands. Homebrew runs as its user; the others as root.
pub(super) struct Manager {
    pub(super) program: &'static str,
    pub(super) as_root: bool,
    pub(super) commands: &'static [&'static [&'static str]],
}

impl Manager {
    /// The command line that a person would type.
    pub(super) fn line(&self) -> String {
        let prefix = if self.as_root { "sudo " } else { "" };
        let each: Vec<String> = self
            .commands
            .iter()
            .map(|command| format!("{prefix}{}", command.join(" ")))
            .collect();
        each.join(" && ")
    }

    /// Runs its commands behind `prefix`. The caller checks afterwards whether the program is there.
    pub(super) fn run(&self, prefix: &[&str]) {
        for command in self.commands {
            let words: Vec<&str> = prefix.iter().chain(command.iter()).copied().collect();
            let _ = Command::new(words[0])
                .args(&words[1..])
                .env("DEBIAN_FRONTEND", "noninteractive")
                .stdin(Stdio::null())
                .status();
        }
    }
}

/// The first of these package managers that is in PATH.
pub(super) fn manager_on<'m>(path: &OsStr, managers: &'m [Manager]) -> Option<&'m Manager> {
    managers
        .iter()
        .find(|manager| on_path(path, manager.program))
}

/// The prefix with which the manager's commands have the rights that they need; none if there is no way.
pub(super) fn privilege(manager: &Manager) -> Option<&'static [&'static str]> {
    let succeeds = |program: &str, arguments: &[&str]| {
        let output = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    if !manager.as_root || succeeds("id", &["-u"]).is_some_and(|id| id == "0") {
        Some(&[])
    } else if succeeds("sudo", &["-n", "true"]).is_some() {
        Some(&["sudo", "-n"])
    } else {
        None
    }
}

pub(super) fn on_path(path: &OsStr, program: &str) -> bool {
    std::env::split_paths(path).any(|folder| folder.join(program).is_file())
}
