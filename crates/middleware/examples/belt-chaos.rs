//! `belt-chaos ANABRANCH SECONDS`: a ring of three PostgreSQL servers under load, whose middlewares and servers are killed at
//! random moments. Afterwards nothing acknowledged is lost, nothing was done twice, and all servers have the same rows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anabranch_dbms::postgres::{Server, Settings, explain};
use postgres::{Client, NoTls};

const NAMES: [&str; 3] = ["one", "two", "three"];
const ACCOUNTS: i64 = 20;
const CARTS: i64 = 64;
const CLIENTS: u64 = 6;

/// How soon operations have to succeed again after the last fault.
const PROGRESS_WITHIN: Duration = Duration::from_secs(10);

const APPLICATION: &str = "
CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE transfer (id bigint PRIMARY KEY, source bigint NOT NULL, target bigint NOT NULL);
CREATE TABLE cart (id bigint PRIMARY KEY, items bigint NOT NULL);
CREATE TABLE cart_entry (cart bigint NOT NULL, id bigint NOT NULL, PRIMARY KEY (cart, id));
CREATE PROCEDURE move_one(p_id bigint, p_source bigint, p_target bigint) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET balance = balance - 1 WHERE id = p_source;
    UPDATE account SET balance = balance + 1 WHERE id = p_target;
    INSERT INTO transfer (id, source, target) VALUES (p_id, p_source, p_target);
END $$;
CREATE PROCEDURE add_item(p_cart bigint, p_id bigint) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE cart SET items = items + 1 WHERE id = p_cart;
    INSERT INTO cart_entry (cart, id) VALUES (p_cart, p_id);
END $$;
";

/// What clients were told.
#[derive(Default)]
struct Told {
    /// Acknowledged transfers.
    transfers: Mutex<Vec<i64>>,
    /// Acknowledged entries of carts.
    entries: Mutex<Vec<(i64, i64)>>,
    /// Operations of which it is not known whether they were done, and those that failed.
    unknown: AtomicU64,
    failed: AtomicU64,
    /// By SQLSTATE, how often operations failed.
    codes: Mutex<BTreeMap<String, u64>>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, program, seconds] = &arguments[..] else {
        eprintln!("usage: belt-chaos ANABRANCH SECONDS");
        return ExitCode::from(2);
    };
    let Ok(seconds) = seconds.parse() else {
        eprintln!("usage: belt-chaos ANABRANCH SECONDS");
        return ExitCode::from(2);
    };
    match run(Path::new(program), Duration::from_secs(seconds)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("belt-chaos: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The files of a run, removed at its end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed stays among the temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A middleware, ended with the run.
struct Middleware(Child);

impl Drop for Middleware {
    fn drop(&mut self) {
        // It has ended already if it was killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Ring<'p> {
    program: &'p Path,
    folder: Folder,
    servers: Vec<Server>,
    ports: Vec<u16>,
    middlewares: Vec<Option<Middleware>>,
}

impl Ring<'_> {
    fn start(program: &Path) -> Result<Ring<'_>, String> {
        let folder =
            std::env::temp_dir().join(format!("anabranch-belt-chaos-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let folder = Folder(folder);
        let (mut servers, mut ports, mut text) = (Vec::new(), Vec::new(), String::new());
        for name in NAMES {
            let server = Server::start(Settings {
                synchronous_commit: true,
                has_port: true,
                shared_buffers_mib: 32,
                ..Settings::default()
            });
            let server = server.map_err(|error| error.to_string())?;
            let mut client = server.connect().map_err(|error| error.to_string())?;
            let rows = format!(
                "{APPLICATION} INSERT INTO account SELECT i, 1000 FROM generate_series(1, {ACCOUNTS}) i; \
                 INSERT INTO cart SELECT i, 0 FROM generate_series(1, {CARTS}) i"
            );
            client
                .batch_execute(&rows)
                .map_err(|error| explain(&error))?;
            let (listen, ring) = (free_port()?, free_port()?);
            text.push_str(&format!(
                "[[server]]\nname = \"{name}\"\ndatabase = \"postgresql://{}@127.0.0.1:{}/postgres\"\n\
                 listen = \"127.0.0.1:{listen}\"\nring = \"127.0.0.1:{ring}\"\n",
                server.superuser(),
                server.port()
            ));
            servers.push(server);
            ports.push(listen);
        }
        for (file, text) in [("servers.toml", text.as_str()), ("app.sql", APPLICATION)] {
            std::fs::write(folder.0.join(file), text).map_err(|error| error.to_string())?;
        }
        let mut ring = Ring {
            program,
            folder,
            servers,
            ports,
            middlewares: Vec::new(),
        };
        let installed = ring.command(&["belt", "install"]).output();
        let installed = installed.map_err(|error| error.to_string())?;
        if !installed.status.success() {
            return Err(String::from_utf8_lossy(&installed.stdout).into_owned());
        }
        for place in 0..NAMES.len() {
            let middleware = ring.middleware(place)?;
            ring.middlewares.push(Some(middleware));
        }
        Ok(ring)
    }

    /// A command over the ring's files.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command
            .args(words)
            .arg(self.folder.0.join("servers.toml"))
            .arg(self.folder.0.join("app.sql"))
            .stdin(Stdio::null());
        command
    }

    fn middleware(&self, place: usize) -> Result<Middleware, String> {
        let mut command = self.command(&["serve", "--at", NAMES[place], "--belt"]);
        let started = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        started.map(Middleware).map_err(|error| error.to_string())
    }

    /// Kills one thing, and has it start again.
    fn fault(&mut self, random: &mut fastrand::Rng) -> Result<&'static str, String> {
        let place = random.usize(0..NAMES.len());
        match random.u8(0..4) {
            0 => {
                self.servers[place]
                    .crash()
                    .map_err(|error| error.to_string())?;
                Ok("servers killed")
            }
            1 => {
                // Connections are cut, those of the belt among them.
                let mut client = self.servers[place]
                    .connect()
                    .map_err(|error| error.to_string())?;
                let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                           WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND random() < 0.5";
                client.execute(cut, &[]).map_err(|error| explain(&error))?;
                Ok("times that connections were cut")
            }
            _ => {
                // Without its memory, and while it may have the token.
                self.middlewares[place] = None;
                std::thread::sleep(Duration::from_millis(random.u64(0..1_500)));
                self.middlewares[place] = Some(self.middleware(place)?);
                Ok("middlewares killed")
            }
        }
    }

    fn database(&self, place: usize) -> Result<Client, String> {
        self.servers[place]
            .connect()
            .map_err(|error| error.to_string())
    }
}

fn free_port() -> Result<u16, String> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(|e| e.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    Ok(address.port())
}

fn run(program: &Path, duration: Duration) -> Result<(), String> {
    let mut ring = Ring::start(program)?;
    let ports = ring.ports.clone();
    let (told, is_over) = (&Told::default(), &AtomicBool::new(false));
    let mut faults: BTreeMap<&str, u64> = BTreeMap::new();
    let mut random = fastrand::Rng::with_seed(7);
    let end = Instant::now() + duration;
    std::thread::scope(|scope| -> Result<(), String> {
        for number in 0..CLIENTS {
            let port = ports[number as usize % ports.len()];
            scope.spawn(move || operate(port, number, told, is_over));
        }
        let done = (|| {
            // Operations run before anything is killed.
            std::thread::sleep(Duration::from_secs(3));
            while Instant::now() < end {
                std::thread::sleep(Duration::from_millis(random.u64(300..2_500)));
                *faults.entry(ring.fault(&mut random)?).or_default() += 1;
            }
            progress(told)
        })();
        is_over.store(true, Ordering::Relaxed);
        done
    })?;
    let summary: Vec<String> = faults
        .iter()
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    check(&ring, told)?;
    let count = |of: &Mutex<Vec<i64>>| of.lock().map_or(0, |of| of.len());
    println!(
        "{}: {} global and {} local operations acknowledged, none lost and none done twice; {} unknown, {} refused; the servers have \
         the same rows",
        summary.join(", "),
        count(&told.transfers),
        told.entries.lock().map_or(0, |of| of.len()),
        told.unknown.load(Ordering::Relaxed),
        told.failed.load(Ordering::Relaxed),
    );
    if let Ok(codes) = told.codes.lock() {
        let codes: Vec<String> = codes.iter().map(|(c, n)| format!("{c}: {n}")).collect();
        println!("by SQLSTATE: {}", codes.join(", "));
    }
    Ok(())
}

/// Waits until operations of both kinds are acknowledged again.
fn progress(told: &Told) -> Result<(), String> {
    let counts = || {
        let transfers = told.transfers.lock().map_or(0, |of| of.len());
        (transfers, told.entries.lock().map_or(0, |of| of.len()))
    };
    let (before, begun) = (counts(), Instant::now());
    while begun.elapsed() < PROGRESS_WITHIN {
        let now = counts();
        if now.0 > before.0 && now.1 > before.1 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(format!(
        "no progress within {} s after the last fault: {before:?}, then {:?}",
        PROGRESS_WITHIN.as_secs(),
        counts()
    ))
}

/// One client: operations of all kinds, each with a number of its own.
fn operate(port: u16, number: u64, told: &Told, is_over: &AtomicBool) {
    let mut random = fastrand::Rng::with_seed(number);
    let mut client: Option<Client> = None;
    let mut next = number as i64;
    while !is_over.load(Ordering::Relaxed) {
        if client.as_ref().is_none_or(Client::is_closed) {
            let address = format!(
                "host=127.0.0.1 port={port} user=anabranch dbname=postgres connect_timeout=5"
            );
            client = Client::connect(&address, NoTls).ok();
        }
        let Some(open) = &mut client else {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        next += CLIENTS as i64;
        let (from, to) = (random.i64(1..=ACCOUNTS), random.i64(1..=ACCOUNTS));
        let cart = random.i64(1..=CARTS);
        let kind = random.u8(0..4);
        let done = match kind {
            0 => open.execute("CALL move_one($1, $2, $3)", &[&next, &from, &to]),
            1 => by_hand(open, next, from, to),
            _ => open.execute("CALL add_item($1, $2)", &[&cart, &next]),
        };
        match done {
            Ok(_) if kind < 2 => {
                if let Ok(mut transfers) = told.transfers.lock() {
                    transfers.push(next);
                }
            }
            Ok(_) => {
                if let Ok(mut entries) = told.entries.lock() {
                    entries.push((cart, next));
                }
            }
            Err(error) => {
                let code = error.code().map_or("lost", |code| code.code());
                if let Ok(mut codes) = told.codes.lock() {
                    *codes.entry(code.to_owned()).or_default() += 1;
                }
                let is_unknown =
                    code == "lost" || code.starts_with("08") || code.starts_with("57P");
                let counter = if is_unknown {
                    &told.unknown
                } else {
                    &told.failed
                };
                counter.fetch_add(1, Ordering::Relaxed);
                if client.as_ref().is_some_and(Client::is_closed) {
                    client = None;
                }
            }
        }
    }
}

/// The same as `move_one`, statement by statement.
fn by_hand(client: &mut Client, id: i64, from: i64, to: i64) -> Result<u64, postgres::Error> {
    let mut open = client.transaction()?;
    let row = open.query_one("SELECT balance FROM account WHERE id = $1", &[&from])?;
    let balance: i64 = row.get(0);
    open.execute(
        "UPDATE account SET balance = $1 WHERE id = $2",
        &[&(balance - 1), &from],
    )?;
    open.execute(
        "UPDATE account SET balance = balance + 1 WHERE id = $1",
        &[&to],
    )?;
    open.execute(
        "INSERT INTO transfer (id, source, target) VALUES ($1, $2, $3)",
        &[&id, &from, &to],
    )?;
    open.commit()?;
    Ok(1)
}

/// Looks for what was acknowledged, and for what was done twice or in part.
fn check(ring: &Ring<'_>, told: &Told) -> Result<(), String> {
    let digest = "SELECT (SELECT md5(coalesce(string_agg(a::text, '|' ORDER BY id), '')) FROM account a) || \
                  (SELECT md5(coalesce(string_agg(t::text, '|' ORDER BY id), '')) FROM transfer t)";
    let begun = Instant::now();
    loop {
        let mut digests = Vec::new();
        for place in 0..NAMES.len() {
            let row = ring.database(place)?.query_one(digest, &[]);
            digests.push(row.map_err(|error| explain(&error))?.get::<_, String>(0));
        }
        if digests.windows(2).all(|pair| pair[0] == pair[1]) {
            break;
        }
        if begun.elapsed() > Duration::from_secs(30) {
            return Err("the servers have different rows 30 s after the end".to_owned());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let numbers = |place: usize, query: &str| -> Result<Vec<(i64, i64)>, String> {
        let rows = ring.database(place)?.query(query, &[]);
        let rows = rows.map_err(|error| explain(&error))?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    };
    let done = numbers(0, "SELECT id, 0::bigint FROM transfer")?;
    let done: std::collections::BTreeSet<i64> = done.into_iter().map(|(id, _)| id).collect();
    let transfers = told.transfers.lock().map_err(|_| "a client has panicked")?;
    let lost: Vec<&i64> = transfers.iter().filter(|id| !done.contains(id)).collect();
    if !lost.is_empty() {
        return Err(format!("acknowledged global operations are lost: {lost:?}"));
    }
    // Each transfer once, and as a whole.
    let wrong = numbers(
        0,
        "SELECT a.id, a.balance - 1000 - (SELECT count(*) FROM transfer t WHERE t.target = a.id) \
         + (SELECT count(*) FROM transfer t WHERE t.source = a.id) FROM account a",
    )?;
    let wrong: Vec<&(i64, i64)> = wrong.iter().filter(|(_, by)| *by != 0).collect();
    if !wrong.is_empty() {
        return Err(format!(
            "balances differ from their transfers (account, by): {wrong:?}"
        ));
    }
    let mut entries = std::collections::BTreeSet::new();
    for place in 0..NAMES.len() {
        entries.extend(numbers(place, "SELECT cart, id FROM cart_entry")?);
        let wrong = numbers(
            place,
            "SELECT c.id, c.items - (SELECT count(*) FROM cart_entry e WHERE e.cart = c.id) FROM cart c",
        )?;
        let wrong: Vec<&(i64, i64)> = wrong.iter().filter(|(_, by)| *by != 0).collect();
        if !wrong.is_empty() {
            return Err(format!(
                "carts differ from their entries (cart, by): {wrong:?}"
            ));
        }
    }
    let acknowledged = told.entries.lock().map_err(|_| "a client has panicked")?;
    let lost: Vec<&(i64, i64)> = acknowledged
        .iter()
        .filter(|e| !entries.contains(e))
        .collect();
    match lost.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "acknowledged local operations are lost (cart, entry): {lost:?}"
        )),
    }
}
