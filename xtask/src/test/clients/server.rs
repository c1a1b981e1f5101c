//! The servers that the clients talk to: PostgreSQL's and ours, each with a folder of its own that is removed at its end.
//!
//! PostgreSQL refuses to run as root; if this process is root's, the server runs as the user `postgres` or `nobody`.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::super::postgres::Postgres;
use super::target;
use crate::{Built, Trouble};

/// How long a server may take until it accepts connections.
const START_MAX: Duration = Duration::from_secs(60);

/// The application that every server has loaded.
const APPLICATION: &str = "tests/clients/types.sql";

/// The application that a ring is installed for.
const BELT_APPLICATION: &str = "tests/clients/belt.sql";

/// What is declared beside it in an embedded ring.
const EMBEDDED_APPLICATION: &str = "tests/clients/embedded.sql";

/// The databases of a ring; clients connect to the first one's middleware.
const RING: [&str; 3] = [NAME, "second", "third"];

/// The tables of the application.
const TABLES: [&str; 5] = ["every_type", "every_array", "customers", "orders", "notes"];

/// How long the servers of a ring may take until they have the same rows.
const EQUAL_MAX: Duration = Duration::from_secs(20);

/// User and database of the clients.
const NAME: &str = "anabranch";

/// Which server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// PostgreSQL, the oracle.
    Postgres,
    /// Ours, with this guarantee.
    Anabranch(Guarantee),
    /// A middleware of the Conveyor Belt over three databases of PostgreSQL's.
    Ring,
    /// The same over three databases of ours, in one process.
    EmbeddedRing,
}

/// What our server promises of transactions: the values of `--guarantee`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guarantee {
    /// Two-phase locking.
    Serializable,
    /// The plan, by RAMP-Fast: what clients write is analysed.
    Invariants,
}

impl Guarantee {
    fn name(self) -> &'static str {
        match self {
            Guarantee::Serializable => "serializable",
            Guarantee::Invariants => "invariants",
        }
    }
}

impl Kind {
    /// The servers that there are, the oracle first. Ours is built, unless it is.
    ///
    /// # Errors
    /// When ours does not build.
    pub(super) fn available(root: &Path, built: Built) -> Result<Vec<Kind>, Trouble> {
        built.or(root, &["-p", "anabranch", "--bin", "anabranch"])?;
        Ok(vec![
            Kind::Postgres,
            Kind::Anabranch(Guarantee::Serializable),
            Kind::Anabranch(Guarantee::Invariants),
            Kind::Ring,
            Kind::EmbeddedRing,
        ])
    }

    /// Its name in names of files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Postgres => "postgres",
            Kind::Anabranch(guarantee) => guarantee.name(),
            Kind::Ring => "ring",
            Kind::EmbeddedRing => "embedded-ring",
        }
    }

    /// Its name for people.
    pub(super) fn title(self) -> String {
        match self {
            Kind::Postgres => "PostgreSQL".to_owned(),
            Kind::Anabranch(guarantee) => format!("anabranch ({})", guarantee.name()),
            Kind::Ring => "a ring of three".to_owned(),
            Kind::EmbeddedRing => "an embedded ring of three".to_owned(),
        }
    }

    /// Whether a connection reads while another one's transaction has written the same rows. Under locks it waits, and a
    /// program that has both connections waits for itself.
    pub(super) fn reads_beside_writes(self) -> bool {
        !matches!(
            self,
            Kind::Anabranch(Guarantee::Serializable) | Kind::EmbeddedRing
        )
    }

    /// Whether clients may change its schema, and copy rows in and out. A ring refuses both.
    pub(super) fn changes_schema(self) -> bool {
        !self.is_ring()
    }

    /// Whether it is several servers, which have the same rows at the end.
    pub(super) fn is_ring(self) -> bool {
        matches!(self, Kind::Ring | Kind::EmbeddedRing)
    }
}

/// A running server with the application loaded. Dropped, it ends.
pub(super) struct Server {
    folder: PathBuf,
    process: Option<Child>,
    port: u16,
    /// The middlewares of a ring that are processes of their own.
    middlewares: Vec<Child>,
    /// The port of the first middleware of a ring.
    middleware_port: Option<u16>,
    /// By server of a ring: the port and the name of its database.
    ring: Vec<(u16, &'static str)>,
}

impl Server {
    /// Starts a server with an empty database and loads the application.
    ///
    /// # Errors
    /// When it does not start, or refuses the application.
    pub(super) fn start(root: &Path, postgres: &Postgres, kind: &Kind) -> Result<Server, Trouble> {
        let tool =
            |what: &str, error: String| Trouble::Tool(format!("{}: {what}: {error}", kind.title()));
        let port = free_port().map_err(|error| tool("finding a port", error.to_string()))?;
        let folder =
            std::env::temp_dir().join(format!("anabranch-clients-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|error| tool("making a folder", error.to_string()))?;
        let mut server = Server {
            folder,
            process: None,
            port,
            middlewares: Vec::new(),
            middleware_port: None,
            ring: Vec::new(),
        };
        match kind {
            Kind::Postgres | Kind::Ring => {
                let started = server.start_postgres(&postgres.folder);
                started.map_err(|error| tool("starting it", error))?;
                let databases = match kind {
                    Kind::Ring => &RING[..],
                    _ => &RING[..1],
                };
                for database in databases {
                    let loaded = server.load(root, &postgres.folder, database);
                    loaded.map_err(|error| tool("loading the application", error))?;
                }
                if *kind == Kind::Ring {
                    let started = server.start_ring(root);
                    started.map_err(|error| tool("starting the middlewares", error))?;
                }
            }
            Kind::Anabranch(guarantee) => {
                let started = server.start_anabranch(root, *guarantee);
                started.map_err(|error| tool("starting it", error))?;
            }
            Kind::EmbeddedRing => {
                let started = server.start_embedded_ring(root);
                started.map_err(|error| tool("starting it", error))?;
            }
        }
        Ok(server)
    }

    /// The port of 127.0.0.1 that clients connect to.
    pub(super) fn port(&self) -> u16 {
        self.middleware_port.unwrap_or(self.port)
    }

    /// Loads the application into a database, which is created unless it is the clients'.
    fn load(&self, root: &Path, programs: &Path, database: &str) -> Result<(), String> {
        if database != NAME {
            let create = format!("CREATE DATABASE {database}");
            self.psql(programs, "postgres", &["-c", &create])?;
        }
        let file = root.join(APPLICATION);
        self.psql(programs, database, &["-f", &file.to_string_lossy()])
    }

    /// Installs the belt on the databases, and starts a middleware beside each.
    fn start_ring(&mut self, root: &Path) -> Result<(), String> {
        let port = || free_port().map_err(|error| error.to_string());
        let mut text = String::new();
        let mut listens = Vec::new();
        for database in RING {
            let (listen, ring) = (port()?, port()?);
            text.push_str(&format!(
                "[[server]]\nname = \"{database}\"\ndatabase = \"postgresql://{NAME}@127.0.0.1:{}/{database}\"\n\
                 listen = \"127.0.0.1:{listen}\"\nring = \"127.0.0.1:{ring}\"\n",
                self.port
            ));
            listens.push(listen);
        }
        let file = self.folder.join("servers.toml");
        std::fs::write(&file, text).map_err(|error| error.to_string())?;
        let program = target(root).join("debug/anabranch");
        let application = root.join(BELT_APPLICATION);
        let installed = Command::new(&program)
            .args(["belt", "install"])
            .arg(&file)
            .arg(&application)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| error.to_string())?;
        if !installed.status.success() {
            return Err(String::from_utf8_lossy(&installed.stdout).into_owned()
                + &String::from_utf8_lossy(&installed.stderr));
        }
        for database in RING {
            let path = self.folder.join(format!("{database}.log"));
            let log = std::fs::File::create(path).map_err(|error| error.to_string())?;
            let errors = log.try_clone().map_err(|error| error.to_string())?;
            let mut command = Command::new(&program);
            command
                .args(["serve", "--at", database, "--belt"])
                .arg(&file)
                .arg(&application)
                .process_group(0)
                .stdin(Stdio::null())
                .stdout(log)
                .stderr(errors);
            let started = command.spawn().map_err(|error| error.to_string())?;
            self.middlewares.push(started);
        }
        let end = Instant::now() + START_MAX;
        for (listen, database) in listens.iter().zip(RING) {
            while TcpStream::connect(("127.0.0.1", *listen)).is_err() {
                if Instant::now() > end {
                    let log = self.folder.join(format!("{database}.log"));
                    return Err(std::fs::read_to_string(log).unwrap_or_default());
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        self.middleware_port = listens.first().copied();
        self.ring = RING.map(|database| (self.port, database)).to_vec();
        Ok(())
    }

    /// Starts a ring of three databases of ours.
    fn start_embedded_ring(&mut self, root: &Path) -> Result<(), String> {
        let path = self.folder.join("log");
        let log = std::fs::File::create(&path).map_err(|error| error.to_string())?;
        let errors = log.try_clone().map_err(|error| error.to_string())?;
        let mut command = Command::new(target(root).join("debug/anabranch"));
        command
            .args(["serve", "--belt-embedded", &RING.len().to_string()])
            .args(["--listen", "127.0.0.1:0"])
            .arg(root.join(APPLICATION))
            .arg(root.join(EMBEDDED_APPLICATION))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors);
        let mut process = command.spawn().map_err(|error| error.to_string())?;
        let end = Instant::now() + START_MAX;
        loop {
            let printed = std::fs::read_to_string(&path).unwrap_or_default();
            let ports = ports(&printed);
            if ports.len() == RING.len() {
                self.middleware_port = ports.first().copied();
                self.ring = ports.into_iter().map(|port| (port, NAME)).collect();
                self.process = Some(process);
                return Ok(());
            }
            let ended = process.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || Instant::now() > end {
                // An error means that it has ended.
                let _ = process.kill();
                let _ = process.wait();
                return Err(printed);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the servers of a ring have the same rows. Returns what differs if they do not get there.
    pub(super) fn ring_differs(&self, programs: &Path) -> Result<Option<String>, String> {
        let end = Instant::now() + EQUAL_MAX;
        loop {
            let differing = self.differing_table(programs)?;
            match differing {
                Some(_) if Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                found => return Ok(found),
            }
        }
    }

    fn differing_table(&self, programs: &Path) -> Result<Option<String>, String> {
        for table in TABLES {
            let query = format!("SELECT * FROM {table} ORDER BY id");
            let mut rows = Vec::new();
            for at in &self.ring {
                rows.push(psql(programs, *at, &["-At", "-c", &query])?);
            }
            if rows.windows(2).any(|pair| pair[0] != pair[1]) {
                return Ok(Some(table.to_owned()));
            }
        }
        Ok(None)
    }

    fn start_postgres(&mut self, programs: &Path) -> Result<(), String> {
        let owner = self.owner()?;
        let command = |program: &str| {
            let mut command = Command::new(programs.join(program));
            command
                .current_dir(&self.folder)
                .env("LC_ALL", "C")
                .stdin(Stdio::null());
            if let Some((user, group)) = owner {
                command.uid(user).gid(group);
            }
            command
        };
        let data = self.folder.join("data");
        let mut initdb = command("initdb");
        initdb.arg("--pgdata").arg(&data);
        // Text is ordered by its bytes, as in our store; upper and lower case are Unicode's.
        let ctype = match cfg!(target_os = "macos") {
            true => "--lc-ctype=en_US.UTF-8",
            false => "--lc-ctype=C.UTF-8",
        };
        initdb.args([
            "--auth=trust",
            "--encoding=UTF8",
            "--no-sync",
            "--locale=C",
            ctype,
        ]);
        initdb.arg(format!("--username={NAME}"));
        let output = initdb
            .output()
            .map_err(|error| format!("initdb: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let log =
            std::fs::File::create(self.folder.join("log")).map_err(|error| error.to_string())?;
        let mut postgres = command("postgres");
        postgres.arg("-D").arg(&data).arg("-k").arg(&self.folder);
        for setting in [
            "listen_addresses=127.0.0.1",
            &format!("port={}", self.port),
            "fsync=off",
            "timezone=UTC",
        ] {
            postgres.args(["-c", setting]);
        }
        // In a process group of its own, so that an interrupt from the keyboard does not reach it directly.
        postgres.process_group(0).stdout(Stdio::null()).stderr(log);
        self.process = Some(postgres.spawn().map_err(|error| error.to_string())?);
        let end = Instant::now() + START_MAX;
        let create = format!("CREATE DATABASE {NAME}");
        while let Err(error) = self.psql(programs, "postgres", &["-c", &create]) {
            if Instant::now() > end {
                let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(format!("{error}\n{log}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Starts our server, which loads the application itself.
    fn start_anabranch(&mut self, root: &Path, guarantee: Guarantee) -> Result<(), String> {
        let path = self.folder.join("log");
        let log = std::fs::File::create(&path).map_err(|error| error.to_string())?;
        let errors = log.try_clone().map_err(|error| error.to_string())?;
        let mut command = Command::new(target(root).join("debug/anabranch"));
        command
            .arg("serve")
            .arg(root.join(APPLICATION))
            .args(["--listen", &format!("127.0.0.1:{}", self.port)])
            .args(["--guarantee", guarantee.name(), "--partitions", "2"])
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors);
        let mut process = command.spawn().map_err(|error| error.to_string())?;
        let end = Instant::now() + START_MAX;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let ended = process.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || Instant::now() > end {
                // An error means that it has ended.
                let _ = process.kill();
                let _ = process.wait();
                return Err(std::fs::read_to_string(path).unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.process = Some(process);
        Ok(())
    }

    /// Runs psql on a database of PostgreSQL's, which has to succeed.
    fn psql(&self, programs: &Path, database: &str, arguments: &[&str]) -> Result<(), String> {
        psql(programs, (self.port, database), arguments).map(drop)
    }

    /// The user that PostgreSQL is to run as, if this process is root's; its folder is given to it.
    fn owner(&self) -> Result<Option<(u32, u32)>, String> {
        // The new folder belongs to the user of this process.
        let metadata = std::fs::metadata(&self.folder).map_err(|error| error.to_string())?;
        if metadata.uid() != 0 {
            return Ok(None);
        }
        let users = std::fs::read_to_string("/etc/passwd").map_err(|error| error.to_string())?;
        let owner = ["postgres", "nobody"]
            .iter()
            .find_map(|name| user(&users, name));
        let (user, group) = owner.ok_or(
            "it refuses to run as root, and there is no user postgres or nobody".to_owned(),
        )?;
        std::os::unix::fs::chown(&self.folder, Some(user), Some(group))
            .map_err(|error| error.to_string())?;
        Ok(Some((user, group)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for mut middleware in self.middlewares.drain(..) {
            // An error means that it has ended already.
            let _ = middleware.kill();
            let _ = middleware.wait();
        }
        if let Some(mut process) = self.process.take() {
            // Its children end when they see that it has ended; an error means that it has ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
        // A folder that cannot be removed stays in the system's folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Runs psql, which has to succeed. Returns what it prints.
fn psql(
    programs: &Path,
    (port, database): (u16, &str),
    arguments: &[&str],
) -> Result<String, String> {
    // Some distributions keep clients elsewhere than servers.
    let program = match programs.join("psql") {
        found if found.is_file() => found,
        _ => PathBuf::from("psql"),
    };
    let output = Command::new(program)
        .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1"])
        .args(["-p", &port.to_string(), "-U", NAME, "-d", database])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("psql: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// The ports of an embedded ring, from the lines `site1   psql -h 127.0.0.1 -p 5433 anabranch` that it prints, each with its
/// end.
fn ports(printed: &str) -> Vec<u16> {
    let lines = printed
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    let port = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|word| *word != "-p");
        words.nth(1)?.parse().ok()
    };
    lines.filter_map(port).collect()
}

/// A port that no process listens on at the moment.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// A user's id and group id, from the text of the password file.
fn user(users: &str, name: &str) -> Option<(u32, u32)> {
    let line = users
        .lines()
        .find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_of_a_ring_are_read_once_they_are_printed() {
        let printed = "A ring of 2 databases\n\n  site1   psql -h 127.0.0.1 -p 5433 anabranch\n  site2   psql -h 127.0.0.1 -p 54";
        assert_eq!(ports(printed), [5433]);
        assert_eq!(ports(&format!("{printed}34 anabranch\n")), [5433, 5434]);
    }

    #[test]
    fn users_are_found_by_name() {
        let users = "root:x:0:0::/:/bin/sh\npostgres:x:101:104::/var/lib:/bin/sh\n";
        assert_eq!(user(users, "postgres"), Some((101, 104)));
        assert_eq!(user(users, "post"), None);
    }
}
