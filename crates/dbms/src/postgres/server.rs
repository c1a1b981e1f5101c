//! One PostgreSQL server in a folder of its own.
//!
//! It listens on a socket in that folder, and on a port of 127.0.0.1 if set so, and trusts every client. When its
//! [`Server`] is dropped, server and folder are removed: at the end, on an error, and on a panic. PostgreSQL
//! refuses to run as root; if this process is root's, the server runs as the user `postgres`, or `nobody`.
//!
//! Settings are PostgreSQL's defaults except for these: `synchronous_commit` as the caller says (off where our store is in
//! memory, so that neither of the two waits for a disk), `shared_buffers` as the caller sizes it, the "C" collation,
//! UTF-8 and the time zone UTC.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

use super::programs::{Installation, NotInstalled};

/// How long a server may take until it accepts connections.
const START_MAX: Duration = Duration::from_secs(60);

/// The superuser that `initdb` creates.
const SUPERUSER: &str = "anabranch";

/// The port number in the name of its socket, if it listens on no port.
const PORT_OF_SOCKET: u16 = 5432;

/// Text is ordered by its bytes, as in our store; upper and lower case are Unicode's.
const CTYPE: &str = if cfg!(target_os = "macos") {
    "en_US.UTF-8"
} else {
    "C.UTF-8"
};

/// The settings of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `shared_buffers`, in MiB.
    pub shared_buffers_mib: u32,
    /// The most connections that it accepts.
    pub connections_max: u32,
    /// `max_prepared_transactions`: the most transactions that are prepared at a time.
    pub prepared_max: u32,
    /// `shared_preload_libraries`.
    pub preloaded: &'static str,
    /// Whether it listens on a port of 127.0.0.1 besides its socket.
    pub has_port: bool,
    /// `synchronous_commit`: whether a commit waits for the disk.
    pub synchronous_commit: bool,
}

impl Default for Settings {
    /// PostgreSQL's own defaults, but commits wait for no disk.
    fn default() -> Settings {
        Settings {
            shared_buffers_mib: 128,
            connections_max: 100,
            prepared_max: 0,
            preloaded: "",
            has_port: false,
            synchronous_commit: false,
        }
    }
}

/// Why a server did not start, or refused a connection.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// PostgreSQL is not installed.
    NotInstalled(NotInstalled),
    /// A call of the operating system failed.
    System {
        /// The attempted action.
        what: &'static str,
        /// The error of the operating system.
        error: io::Error,
    },
    /// One of PostgreSQL's programs failed.
    Program {
        /// The program.
        name: &'static str,
        /// Its exit status, if it has ended.
        status: Option<ExitStatus>,
        /// The last lines of its output.
        output: String,
    },
    /// The server refused a connection.
    Connection(postgres::Error),
}

impl std::fmt::Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ServerError::NotInstalled(error) => error.fmt(f),
            ServerError::System { what, error } => write!(f, "PostgreSQL: cannot {what}: {error}"),
            ServerError::Program {
                name,
                status: Some(status),
                output,
            } => {
                write!(f, "PostgreSQL: {name} ended with {status}:\n{output}")
            }
            ServerError::Program {
                name,
                status: None,
                output,
            } => write!(
                f,
                "PostgreSQL: {name} was not ready after {} s:\n{output}",
                START_MAX.as_secs()
            ),
            ServerError::Connection(error) => {
                write!(f, "PostgreSQL: cannot connect: {}", super::explain(error))
            }
        }
    }
}

impl std::error::Error for ServerError {}

impl From<NotInstalled> for ServerError {
    fn from(error: NotInstalled) -> ServerError {
        ServerError::NotInstalled(error)
    }
}

fn system(what: &'static str) -> impl Fn(io::Error) -> ServerError {
    move |error| ServerError::System { what, error }
}

/// A port that no process listens on at the moment.
fn free_port() -> io::Result<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    Ok(listener.local_addr()?.port())
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    installation: Installation,
    folder: PathBuf,
    owner: Option<Owner>,
    process: Option<Child>,
    port: u16,
    settings: Settings,
}

/// The user that the server runs as, if another than this process's.
#[derive(Clone, Copy, Debug)]
struct Owner {
    user: u32,
    group: u32,
}

impl Server {
    /// Creates a database cluster and starts a server on it; returns once it accepts connections.
    ///
    /// # Errors
    /// When PostgreSQL is not installed, or does not start.
    pub fn start(settings: Settings) -> Result<Server, ServerError> {
        let installation = Installation::find()?;
        let folder = make_folder()?;
        // From here on, dropping it removes all that was created.
        let mut server = Server {
            installation,
            folder,
            owner: None,
            process: None,
            port: PORT_OF_SOCKET,
            settings,
        };
        if settings.has_port {
            server.port = free_port().map_err(system("find a port"))?;
        }
        server.owner = server.give_away()?;
        server.run_initdb()?;
        server.process = Some(server.spawn()?);
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Kills the server (`kill -9`), and starts it again on what it has on disk; returns once it accepts connections.
    ///
    /// # Errors
    /// When it does not start.
    pub fn crash(&mut self) -> Result<(), ServerError> {
        if let Some(mut process) = self.process.take() {
            process.kill().map_err(system("be killed"))?;
            process.wait().map_err(system("be killed"))?;
        }
        let end = Instant::now() + START_MAX;
        loop {
            self.process = Some(self.spawn()?);
            match self.wait_until_ready() {
                // Children of the killed one are still there.
                Err(ServerError::Program {
                    status: Some(_), ..
                }) if Instant::now() < end => std::thread::sleep(Duration::from_millis(100)),
                other => return other,
            }
        }
    }

    /// The output of `postgres --version`.
    pub fn version(&self) -> &str {
        &self.installation.version
    }

    /// Opens a connection to the database `postgres`, as superuser.
    ///
    /// # Errors
    /// When the server refuses the connection.
    pub fn connect(&self) -> Result<Client, ServerError> {
        self.connect_to("postgres")
    }

    /// Opens a connection to the named database, as superuser.
    ///
    /// # Errors
    /// When the server refuses the connection.
    pub fn connect_to(&self, database: &str) -> Result<Client, ServerError> {
        postgres::Config::new()
            .host_path(&self.folder)
            .port(self.port)
            .user(SUPERUSER)
            .dbname(database)
            .connect(NoTls)
            .map_err(ServerError::Connection)
    }

    /// The address of the named database, for clients on this machine, as superuser.
    pub fn address(&self, database: &str) -> String {
        let folder = self.folder.display().to_string().replace('/', "%2F");
        let port = match self.port {
            PORT_OF_SOCKET => String::new(),
            port => format!(":{port}"),
        };
        format!("postgresql://{SUPERUSER}@{folder}{port}/{database}")
    }

    /// The name of its superuser.
    pub fn superuser(&self) -> &'static str {
        SUPERUSER
    }

    /// The port of 127.0.0.1 that it listens on, if its settings ask for one.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Writes a file into its data folder, readable by the server only: a certificate, a key, a `pg_hba.conf`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&self, name: &str, text: &str) -> Result<(), ServerError> {
        let path = self.data().join(name);
        let written = || -> io::Result<()> {
            std::fs::write(&path, text)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
            match self.owner {
                Some(owner) => std::os::unix::fs::chown(&path, Some(owner.user), Some(owner.group)),
                None => Ok(()),
            }
        };
        written().map_err(system("write a file of its"))
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Gives the folder to a user that PostgreSQL accepts, if this process is root's.
    fn give_away(&self) -> Result<Option<Owner>, ServerError> {
        // The new folder belongs to the user of this process.
        let us = std::fs::metadata(&self.folder)
            .map_err(system("look at its folder"))?
            .uid();
        if us != 0 {
            return Ok(None);
        }
        let users = std::fs::read_to_string("/etc/passwd").map_err(system("read the users"))?;
        let owner = ["postgres", "nobody"]
            .iter()
            .find_map(|name| user(&users, name));
        let owner = owner.ok_or_else(|| {
            let message = "it refuses to run as root, and there is no user postgres or nobody";
            system("be started")(io::Error::other(message))
        })?;
        std::os::unix::fs::chown(&self.folder, Some(owner.user), Some(owner.group))
            .map_err(system("give its folder away"))?;
        Ok(Some(owner))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.installation.program(program));
        command
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .env("TZ", "UTC")
            .env("LC_ALL", "C");
        if let Some(owner) = self.owner {
            command.uid(owner.user).gid(owner.group);
        }
        command
    }

    fn run_initdb(&self) -> Result<(), ServerError> {
        let output = self
            .command("initdb")
            .arg("--pgdata")
            .arg(self.data())
            .args(["--auth=trust", "--encoding=UTF8", "--no-sync"])
            .args(["--locale=C", &format!("--lc-ctype={CTYPE}")])
            .arg(format!("--username={SUPERUSER}"))
            .output()
            .map_err(system("run initdb"))?;
        if output.status.success() {
            return Ok(());
        }
        let text = [output.stdout, output.stderr].concat();
        Err(ServerError::Program {
            name: "initdb",
            status: Some(output.status),
            output: String::from_utf8_lossy(&text).into_owned(),
        })
    }

    fn spawn(&self) -> Result<Child, ServerError> {
        let settings = self.settings;
        let log = File::create(self.log()).map_err(system("write its log"))?;
        let log_too = log.try_clone().map_err(system("write its log"))?;
        let mut command = self.command("postgres");
        command
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(&self.folder);
        for setting in [
            match settings.has_port {
                true => "listen_addresses=127.0.0.1".to_owned(),
                false => "listen_addresses=".to_owned(),
            },
            format!("port={}", self.port),
            match settings.synchronous_commit {
                true => "synchronous_commit=on".to_owned(),
                false => "synchronous_commit=off".to_owned(),
            },
            "timezone=UTC".to_owned(),
            format!("shared_buffers={}MB", settings.shared_buffers_mib),
            format!("max_connections={}", settings.connections_max),
            format!("max_prepared_transactions={}", settings.prepared_max),
            format!("shared_preload_libraries={}", settings.preloaded),
        ] {
            command.arg("-c").arg(setting);
        }
        // In a process group of its own, so that an interrupt from the keyboard does not reach it directly.
        command.process_group(0);
        command
            .stdout(log)
            .stderr(log_too)
            .spawn()
            .map_err(system("be started"))
    }

    fn wait_until_ready(&mut self) -> Result<(), ServerError> {
        let end = Instant::now() + START_MAX;
        loop {
            let status = match &mut self.process {
                Some(process) => process.try_wait().map_err(system("be watched"))?,
                None => None,
            };
            if status.is_none() && self.connect().is_ok() {
                return Ok(());
            }
            if status.is_some() || Instant::now() > end {
                let output = last_lines(&self.log());
                return Err(ServerError::Program {
                    name: "postgres",
                    status,
                    output,
                });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn stop(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        // Without a checkpoint: this server is not started again.
        let asked = self
            .command("pg_ctl")
            .args(["stop", "--mode=immediate", "--silent", "--pgdata"])
            .arg(self.data())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !asked.is_ok_and(|status| status.success()) {
            // Its children end when they see that it has ended. An error means that it has ended already.
            let _ = process.kill();
        }
        let _ = process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        // A folder that cannot be removed stays in the system's folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Creates a folder for temporary files, accessible to this user only.
fn make_folder() -> Result<PathBuf, ServerError> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let parent = std::env::temp_dir();
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("anabranch-postgres-{}-{number}", std::process::id());
        let folder = parent.join(name);
        match std::fs::create_dir(&folder) {
            Ok(()) => {
                let mode = std::fs::Permissions::from_mode(0o700);
                std::fs::set_permissions(&folder, mode).map_err(system("close its folder"))?;
                return Ok(folder);
            }
            // Left behind by an earlier process of the same id.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(system("make a folder for it")(error)),
        }
    }
}

/// A user's id and group id, from the text of the password file.
fn user(users: &str, name: &str) -> Option<Owner> {
    let line = users
        .lines()
        .find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some(Owner {
        user: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
    })
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name() {
        let users = "root:x:0:0:root:/:/bin/sh\npostgres:x:101:104::/var/lib:/bin/sh\n";
        let owner = user(users, "postgres").expect("it is there");
        assert_eq!((owner.user, owner.group), (101, 104));
        assert!(user(users, "post").is_none());
    }

    #[test]
    fn a_server_answers_and_is_gone_when_dropped_even_on_a_panic() {
        let server = Server::start(Settings::default()).unwrap_or_else(|error| panic!("{error}"));
        let mut client = server.connect().unwrap_or_else(|error| panic!("{error}"));
        let row = client.query_one("SELECT current_setting('synchronous_commit')", &[]);
        assert_eq!(row.expect("it answers").get::<_, &str>(0), "off");
        let folder = server.folder.clone();
        let panicked = std::thread::spawn(move || {
            let _kept = server;
            std::panic::resume_unwind(Box::new("a panic"));
        });
        assert!(panicked.join().is_err());
        assert!(!folder.exists());
        assert!(client.simple_query("SELECT 1").is_err());
    }
}
