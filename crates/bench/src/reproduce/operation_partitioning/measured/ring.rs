//! A ring of real processes: a PostgreSQL server with a database for each site, and `anabranch serve --belt` for each.

use std::fmt::Write as _;
use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anabranch_dbms::postgres::{Server, Settings, quoted};
use anabranch_workload::mix::SLOTS;
use postgres::{Client, NoTls};

use super::super::databases::{self, DatabaseError};
use super::super::network::{Links, Place};
use super::delay::Delay;

/// How long a middleware may take until it accepts connections.
const START_MAX: Duration = Duration::from_secs(60);

/// The application of a ring.
pub(super) struct Application<'a> {
    /// Its SQL: names and texts of files.
    pub(super) files: &'a [(&'static str, &'static str)],
    /// Loads its schema, rows and procedures.
    pub(super) fill: &'a dyn Fn(&mut Client) -> Result<(), DatabaseError>,
    /// Whether commits wait for the disk.
    pub(super) synchronous_commit: bool,
}

/// A running ring, or one server without it. It ends when it is dropped.
pub(super) struct Ring {
    /// The PostgreSQL server with all databases.
    pub(super) server: Server,
    /// The names of the databases, in the order of the ring.
    pub(super) databases: Vec<String>,
    /// Where clients connect, by server: the middleware, or PostgreSQL itself.
    pub(super) addresses: Vec<SocketAddr>,
    /// The latencies between servers, and from clients.
    pub(super) links: Links,
    middlewares: Vec<Child>,
    _delays: Vec<Delay>,
    folder: PathBuf,
}

impl Drop for Ring {
    fn drop(&mut self) {
        for middleware in &mut self.middlewares {
            let _ = middleware.kill();
            let _ = middleware.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn other(what: impl std::fmt::Display) -> DatabaseError {
    DatabaseError::Other(format!("error: {what}"))
}

fn free_address() -> Result<SocketAddr, DatabaseError> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(other)?;
    listener.local_addr().map_err(other)
}

impl Ring {
    /// So many servers without the belt.
    pub(super) fn without_belt(
        application: &Application<'_>,
        servers: u16,
        clients: u32,
    ) -> Result<Ring, DatabaseError> {
        let prepared_max = clients * u32::from(servers);
        let mut ring = Ring::databases(application, servers, clients, prepared_max)?;
        let address = SocketAddr::from(([127, 0, 0, 1], ring.server.port()));
        ring.addresses = vec![address; usize::from(servers)];
        Ok(ring)
    }

    /// A ring of so many servers, whose middlewares `program` runs; `writes` as in the file of the servers.
    pub(super) fn start(
        program: &Path,
        application: &Application<'_>,
        servers: u16,
        clients: u32,
        writes: &str,
    ) -> Result<Ring, DatabaseError> {
        let mut ring = Ring::databases(application, servers, clients, 0)?;
        let own = || -> Result<Vec<SocketAddr>, DatabaseError> {
            (0..servers).map(|_| free_address()).collect()
        };
        let (listens, rings) = (own()?, own()?);
        let mut files = Vec::new();
        for (name, text) in application.files {
            let short = Path::new(name).file_name().unwrap_or_default();
            let file = ring.folder.join(short);
            std::fs::write(&file, text).map_err(other)?;
            files.push(file);
        }
        let mut lists = Vec::new();
        for at in 0..usize::from(servers) {
            // As in the paper, where no operation waits for what its client has written elsewhere.
            let mut text =
                format!("slots = {SLOTS}\nwrites = \"{writes}\"\nread_own_writes = false\n");
            for to in 0..usize::from(servers) {
                let (mut listen, mut belt) = (listens[to], rings[to]);
                if to != at {
                    // Others are reached as late as their sites are far.
                    let takes = Duration::from_nanos(ring.links.between[at][to]);
                    for address in [&mut listen, &mut belt] {
                        let delay = Delay::start(*address, takes).map_err(other)?;
                        *address = delay.address();
                        ring._delays.push(delay);
                    }
                }
                let _ = write!(
                    text,
                    "[[server]]\nname = \"site{to}\"\ndatabase = \"postgresql://{}@127.0.0.1:{}/site{to}\"\n\
                     listen = \"{listen}\"\nring = \"{belt}\"\n",
                    ring.server.superuser(),
                    ring.server.port(),
                );
            }
            let list = ring.folder.join(format!("servers{at}.toml"));
            std::fs::write(&list, text).map_err(other)?;
            lists.push(list);
        }
        let installed = Command::new(program)
            .args(["belt", "install"])
            .arg(&lists[0])
            .args(&files)
            .output()
            .map_err(other)?;
        if !installed.status.success() {
            let text = String::from_utf8_lossy(&installed.stdout);
            let errors = String::from_utf8_lossy(&installed.stderr);
            let last: Vec<&str> = text.lines().rev().take(20).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            return Err(other(format!(
                "the belt was not installed:\n{}\n{errors}",
                last.join("\n")
            )));
        }
        for (at, list) in lists.iter().enumerate() {
            let log = ring.folder.join(format!("site{at}.log"));
            let log = File::create(log).map_err(other)?;
            let middleware = Command::new(program)
                .args(["serve", "--belt"])
                .arg(list)
                .args(["--at", &format!("site{at}")])
                .args(&files)
                .stdin(Stdio::null())
                .stdout(log.try_clone().map_err(other)?)
                .stderr(log)
                .spawn()
                .map_err(other)?;
            ring.middlewares.push(middleware);
        }
        ring.addresses.clone_from(&listens);
        ring.wait()?;
        Ok(ring)
    }

    /// The databases, each with all rows.
    fn databases(
        application: &Application<'_>,
        servers: u16,
        clients: u32,
        prepared_max: u32,
    ) -> Result<Ring, DatabaseError> {
        let server = Server::start(Settings {
            has_port: true,
            connections_max: clients * (1 + u32::from(servers)) + 20 * u32::from(servers) + 20,
            prepared_max,
            synchronous_commit: application.synchronous_commit,
            ..Settings::default()
        })?;
        let databases: Vec<String> = (0..servers).map(|place| format!("site{place}")).collect();
        databases::create(&server, &databases[0])?;
        let mut client = server.connect_to(&databases[0])?;
        (application.fill)(&mut client)?;
        client.batch_execute("ANALYZE")?;
        drop(client);
        let mut first = server.connect()?;
        for name in &databases[1..] {
            first.batch_execute(&format!(
                "CREATE DATABASE {} TEMPLATE {}",
                quoted(name),
                quoted(&databases[0])
            ))?;
        }
        let folder = std::env::temp_dir().join(format!(
            "anabranch-ring-{}-{}",
            std::process::id(),
            server.port()
        ));
        std::fs::create_dir_all(&folder).map_err(other)?;
        Ok(Ring {
            server,
            databases,
            addresses: Vec::new(),
            links: Links::new(Place::Sites, servers),
            middlewares: Vec::new(),
            _delays: Vec::new(),
            folder,
        })
    }

    fn wait(&mut self) -> Result<(), DatabaseError> {
        let begun = Instant::now();
        for place in 0..self.middlewares.len() {
            while TcpStream::connect(self.addresses[place]).is_err() {
                let ended = self.middlewares[place].try_wait().map_err(other)?;
                if ended.is_some() || begun.elapsed() > START_MAX {
                    let log = self.folder.join(format!("site{place}.log"));
                    let text = std::fs::read_to_string(log).unwrap_or_default();
                    return Err(other(format!(
                        "the middleware of site{place} does not accept connections:\n{text}"
                    )));
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// A client at a server.
    pub(super) fn connect(&self, server: u16) -> Result<Client, DatabaseError> {
        let place = usize::from(server);
        let address = self.addresses[place];
        let text = format!(
            "host={} port={} user={} dbname={}",
            address.ip(),
            address.port(),
            self.server.superuser(),
            self.databases[place]
        );
        let mut client = Client::connect(&text, NoTls)?;
        if self.middlewares.is_empty() {
            // A middleware does so by itself.
            client.batch_execute("SET default_transaction_isolation = serializable")?;
        }
        Ok(client)
    }

    /// What a query gives on each database: the texts of its first column.
    pub(super) fn on_each(&self, query: &str) -> Result<Vec<Vec<String>>, DatabaseError> {
        let mut found = Vec::new();
        for name in &self.databases {
            let rows = self.server.connect_to(name)?.query(query, &[])?;
            found.push(rows.iter().map(|row| row.get(0)).collect());
        }
        Ok(found)
    }

    /// Waits until every server has applied what all have done.
    pub(super) fn rest(&self) -> Result<(), DatabaseError> {
        let begun = Instant::now();
        loop {
            let lag =
                self.on_each("SELECT name || ' ' || applied FROM anabranch.lag ORDER BY name")?;
            if lag.windows(2).all(|pair| pair[0] == pair[1]) {
                return Ok(());
            }
            if begun.elapsed() > START_MAX {
                return Err(other(format!("the ring does not come to rest: {lag:?}")));
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}
