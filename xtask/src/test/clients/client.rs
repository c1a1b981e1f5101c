//! The clients: what each needs, and the command that runs it.
//!
//! Packages are those that the client's folder pins, taken from the registry that the machine's tools are set up for.

use std::path::Path;
use std::process::{Command, Stdio};

use super::super::installer::{Manager, manager_on, on_path, privilege};
use super::server::Kind;
use crate::cargo;

/// A client under `tests/clients`.
pub(super) struct Client {
    /// Its folder.
    pub(super) name: &'static str,
    /// The programs that it needs in PATH.
    programs: &'static [&'static str],
    /// Package managers and the commands that install them.
    managers: &'static [Manager],
    /// Installs what it needs and builds it; the words of the command that runs it.
    build: fn(&Build<'_>) -> Result<Vec<String>, Unprepared>,
}

/// Why a client cannot run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unprepared {
    /// Its runtime or its packages cannot be had: the client is skipped.
    Missing(String),
    /// Our program does not build: a failure.
    Broken(String),
}

/// The clients, in the order in which they run.
pub(super) const CLIENTS: &[Client] = &[
    Client {
        name: "tokio-postgres",
        programs: &[],
        managers: &[],
        build: tokio_postgres,
    },
    Client {
        name: "psycopg",
        programs: &["python3"],
        managers: PYTHON,
        build: psycopg,
    },
    Client {
        name: "pgjdbc",
        programs: &["java", "javac", "mvn"],
        managers: JAVA,
        build: pgjdbc,
    },
    Client {
        name: "node-postgres",
        programs: &["node", "npm"],
        managers: NODE,
        build: node_postgres,
    },
    Client {
        name: "pgx",
        programs: &["go"],
        managers: GO,
        build: pgx,
    },
    Client {
        name: "psql",
        programs: &["psql"],
        managers: &[],
        build: psql,
    },
];

const PYTHON: &[Manager] = &[
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
                "python3",
                "python3-venv",
            ],
        ],
    },
    Manager {
        program: "dnf",
        as_root: true,
        commands: &[&["dnf", "install", "-y", "python3"]],
    },
    Manager {
        program: "brew",
        as_root: false,
        commands: &[&["brew", "install", "python"]],
    },
];

const JAVA: &[Manager] = &[
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
                "default-jdk-headless",
                "maven",
            ],
        ],
    },
    Manager {
        program: "dnf",
        as_root: true,
        commands: &[&["dnf", "install", "-y", "java-17-openjdk-devel", "maven"]],
    },
    Manager {
        program: "brew",
        as_root: false,
        commands: &[&["brew", "install", "openjdk", "maven"]],
    },
];

const NODE: &[Manager] = &[
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
                "nodejs",
                "npm",
            ],
        ],
    },
    Manager {
        program: "dnf",
        as_root: true,
        commands: &[&["dnf", "install", "-y", "nodejs", "npm"]],
    },
    Manager {
        program: "brew",
        as_root: false,
        commands: &[&["brew", "install", "node"]],
    },
];

const GO: &[Manager] = &[
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
                "golang-go",
            ],
        ],
    },
    Manager {
        program: "dnf",
        as_root: true,
        commands: &[&["dnf", "install", "-y", "golang"]],
    },
    Manager {
        program: "brew",
        as_root: false,
        commands: &[&["brew", "install", "go"]],
    },
];

impl Client {
    /// Whether its program is for such a server. A ring refuses COPY and changes of the schema, of which psql's scripts are
    /// full.
    pub(super) fn runs_on(&self, kind: Kind) -> bool {
        !kind.is_ring() || self.name != "psql"
    }

    /// Installs what the client needs and builds it; the words of the command that runs it.
    ///
    /// # Errors
    /// When something is missing that cannot be installed, or the program does not build.
    pub(super) fn prepare(&self, root: &Path, cache: &Path) -> Result<Vec<String>, Unprepared> {
        self.find_programs()?;
        std::fs::create_dir_all(cache)
            .map_err(|error| Unprepared::Broken(format!("{}: {error}", cache.display())))?;
        let folder = root.join("tests/clients").join(self.name);
        (self.build)(&Build {
            root,
            folder: &folder,
            cache,
        })
    }

    fn find_programs(&self) -> Result<(), Unprepared> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let missing = || {
            let mut programs = self.programs.iter();
            programs.find(|program| !on_path(&path, program))
        };
        let Some(program) = missing() else {
            return Ok(());
        };
        let manager = manager_on(&path, self.managers).ok_or_else(|| {
            Unprepared::Missing(format!(
                "`{program}` is missing, and no known package manager is here"
            ))
        })?;
        let prefix = privilege(manager).ok_or_else(|| {
            Unprepared::Missing(format!("`{program}` is missing; type: {}", manager.line()))
        })?;
        println!(
            "{}: `{program}` is missing; installing it with {}",
            self.name, manager.program
        );
        manager.run(prefix);
        match missing() {
            None => Ok(()),
            Some(program) => Err(Unprepared::Missing(format!(
                "`{program}` is missing, and installing it did not help; type: {}",
                manager.line()
            ))),
        }
    }
}

/// Where a client is, and where its packages go.
struct Build<'a> {
    root: &'a Path,
    folder: &'a Path,
    cache: &'a Path,
}

impl Build<'_> {
    /// Runs `install` unless it has run for the same text of `pins`, the file that has the versions.
    fn once(
        &self,
        pins: &str,
        install: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), Unprepared> {
        let path = self.folder.join(pins);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| Unprepared::Broken(format!("{}: {error}", path.display())))?;
        let stamp = self.cache.join("installed");
        if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == text) {
            return Ok(());
        }
        install().map_err(Unprepared::Missing)?;
        std::fs::write(&stamp, text)
            .map_err(|error| Unprepared::Broken(format!("{}: {error}", stamp.display())))
    }
}

/// Runs a command that has to succeed; otherwise the end of what it printed.
fn succeed(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = lines[lines.len().saturating_sub(3)..].join(" | ");
    Err(format!("{program} ended with {}: {last}", output.status))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn tokio_postgres(build: &Build<'_>) -> Result<Vec<String>, Unprepared> {
    const PACKAGE: &str = "anabranch-client-tokio-postgres";
    let mut command = cargo();
    command
        .current_dir(build.root)
        .args(["build", "--quiet", "-p", PACKAGE]);
    succeed(&mut command).map_err(Unprepared::Broken)?;
    let target = build.cache.parent().and_then(Path::parent);
    let program = target.map(|target| target.join("debug").join(PACKAGE));
    let program = program.ok_or_else(|| Unprepared::Broken("there is no build folder".into()))?;
    Ok(vec![text(&program)])
}

fn psycopg(build: &Build<'_>) -> Result<Vec<String>, Unprepared> {
    let environment = build.cache.join("venv");
    let python = environment.join("bin/python");
    build.once("requirements.txt", || {
        let mut command = Command::new("python3");
        succeed(command.args(["-m", "venv", "--clear"]).arg(&environment))?;
        let mut command = Command::new(&python);
        command.args(["-m", "pip", "install", "--quiet", "--only-binary=:all:"]);
        succeed(command.arg("-r").arg(build.folder.join("requirements.txt")))
    })?;
    Ok(vec![text(&python), text(&build.folder.join("main.py"))])
}

fn pgjdbc(build: &Build<'_>) -> Result<Vec<String>, Unprepared> {
    /// The plugin that copies a project's dependencies; its version is pinned as theirs are.
    const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";
    let jars = build.cache.join("jars");
    build.once("pom.xml", || {
        if jars.exists() {
            std::fs::remove_dir_all(&jars)
                .map_err(|error| format!("{}: {error}", jars.display()))?;
        }
        let mut command = Command::new("mvn");
        command.args(["--quiet", "--batch-mode", COPY, "-DincludeScope=runtime"]);
        command.arg(format!("-DoutputDirectory={}", text(&jars)));
        succeed(command.arg("-f").arg(build.folder.join("pom.xml")))
    })?;
    let classes = build.cache.join("classes");
    std::fs::create_dir_all(&classes)
        .map_err(|error| Unprepared::Broken(format!("{}: {error}", classes.display())))?;
    let path = format!("{}:{}/*", text(&classes), text(&jars));
    let mut command = Command::new("javac");
    command.args(["-Xlint:all", "-Werror", "-encoding", "UTF-8"]);
    command.args(["-cp", &path, "-d"]).arg(&classes);
    for name in ["Checks.java", "Types.java", "Main.java"] {
        command.arg(build.folder.join(name));
    }
    succeed(&mut command).map_err(Unprepared::Broken)?;
    let words = ["java", "-Dstdout.encoding=UTF-8", "-cp", &path, "Main"];
    Ok(words.map(String::from).into())
}

fn node_postgres(build: &Build<'_>) -> Result<Vec<String>, Unprepared> {
    // Node looks for packages beside the program: so the program is copied to the packages.
    let copy = |name: &str| {
        std::fs::copy(build.folder.join(name), build.cache.join(name))
            .map_err(|error| format!("{}: {name}: {error}", build.folder.display()))
    };
    build.once("package-lock.json", || {
        copy("package.json")?;
        copy("package-lock.json")?;
        let mut command = Command::new("npm");
        command.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
        succeed(command.current_dir(build.cache))
    })?;
    for name in ["checks.js", "values.js", "main.js"] {
        copy(name).map_err(Unprepared::Broken)?;
    }
    Ok(vec!["node".into(), text(&build.cache.join("main.js"))])
}

fn pgx(build: &Build<'_>) -> Result<Vec<String>, Unprepared> {
    build.once("go.sum", || {
        let mut command = Command::new("go");
        succeed(command.current_dir(build.folder).args(["mod", "download"]))
    })?;
    let program = build.cache.join("pgx");
    let mut command = Command::new("go");
    command.current_dir(build.folder).args(["build", "-o"]);
    succeed(command.arg(&program).arg(".")).map_err(Unprepared::Broken)?;
    Ok(vec![text(&program)])
}

/// The major version of psql that the recorded output is of.
const PSQL: &str = "15";

fn psql(build: &Build<'_>) -> Result<Vec<String>, Unprepared> {
    let output = Command::new("psql").arg("--version").output();
    let output = output.map_err(|error| Unprepared::Missing(format!("psql: {error}")))?;
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_recorded = version
        .split_once(") ")
        .is_some_and(|(_, number)| number.split(['.', ' ']).next() == Some(PSQL));
    if !is_recorded {
        let reason = format!("its output was recorded with psql {PSQL}, and here is {version}");
        return Err(Unprepared::Missing(reason.trim_end().to_owned()));
    }
    Ok(vec!["sh".into(), text(&build.folder.join("run.sh"))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn packages_are_installed_once_for_the_same_pins() {
        let scratch = Scratch::with(&[("client/pins", "a==1\n"), ("cache/other", "")]);
        let build = Build {
            root: scratch.path(),
            folder: &scratch.path().join("client"),
            cache: &scratch.path().join("cache"),
        };
        let mut installs = 0;
        let mut install = |outcome: Result<(), String>| {
            build.once("pins", || {
                installs += 1;
                outcome
            })
        };
        let refused = install(Err("no network".into()));
        assert_eq!(refused, Err(Unprepared::Missing("no network".into())));
        assert_eq!(install(Ok(())), Ok(()));
        assert_eq!(install(Ok(())), Ok(()));
        scratch.write("client/pins", "a==2\n");
        assert_eq!(install(Ok(())), Ok(()));
        assert_eq!(installs, 3);
    }

    #[test]
    fn a_failed_command_says_how_it_ended() {
        let error = succeed(Command::new("sh").args(["-c", "echo first; echo second >&2; exit 3"]));
        let error = error.expect_err("it fails");
        assert!(
            error.contains("exit status: 3") && error.contains("first | second"),
            "{error}"
        );
    }

    #[test]
    fn each_client_has_a_folder_with_a_program() {
        let root = crate::root().expect("the tests run in the workspace");
        for client in CLIENTS {
            let folder = root.join("tests/clients").join(client.name);
            assert!(folder.is_dir(), "{}", client.name);
        }
    }
}
