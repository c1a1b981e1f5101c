//! Kills a server again and again under load, and looks for what it had acknowledged.
//!
//! `chaos BINARY SECONDS sync|batch|none`. Clients transfer money, half of them by one call, half by statements of a
//! transaction of their own, while another client changes the schema, one version after the other. After each kill the
//! server starts on the same folder, and:
//!
//! * every transfer is there as a whole or not at all: each balance is what the transfers make of it;
//! * under `sync` every acknowledged transfer is there;
//! * otherwise what is lost is the end: a transfer is there if a later one of its client is;
//! * the schema is that of one version, with that version's rows, and no older one than was acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anabranch_types::SplitMix64;
use postgres::{Client, NoTls};

const ACCOUNTS: i32 = 12;
const CLIENTS: i32 = 6;
const BALANCE: i64 = 1_000_000;

const APPLICATION: &str = "
CREATE TABLE accounts (id integer PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE transfers (
    client integer NOT NULL,
    number integer NOT NULL,
    source integer NOT NULL,
    target integer NOT NULL,
    amount bigint NOT NULL,
    PRIMARY KEY (client, number)
);
CREATE PROCEDURE open_account(p_id integer, p_balance bigint) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO accounts VALUES (p_id, p_balance);
END;
CREATE PROCEDURE transfer(p_client integer, p_number integer, p_source integer, p_target integer, p_amount bigint)
LANGUAGE SQL BEGIN ATOMIC
    UPDATE accounts SET balance = balance - p_amount WHERE id = p_source;
    UPDATE accounts SET balance = balance + p_amount WHERE id = p_target;
    INSERT INTO transfers VALUES (p_client, p_number, p_source, p_target, p_amount);
END;
";

/// What can go wrong, in words.
type Wrong = Box<dyn Error + Send + Sync>;

/// A running server. Killed when it is dropped.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start(binary: &str, folder: &Path, durability: &str) -> Result<Server, Wrong> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new(binary);
        command.arg("serve");
        let data = folder.join("data");
        if !data.join("cluster").exists() {
            command.arg(folder.join("application"));
        }
        command.arg("--data").arg(data);
        command.args(["--guarantee", "serializable", "--durability", durability]);
        command.args(["--listen", &format!("127.0.0.1:{port}")]);
        command.stdout(Stdio::null());
        let process = command.spawn()?;
        let mut server = Server { process, port };
        let until = Instant::now() + Duration::from_secs(60);
        while server.connect().is_err() {
            if let Some(status) = server.process.try_wait()? {
                return Err(format!("the server ended with {status} at its start").into());
            }
            if Instant::now() > until {
                return Err("the server does not listen after 60 s".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn connect(&self) -> Result<Client, postgres::Error> {
        let port = self.port;
        let text = format!("host=127.0.0.1 port={port} user=chaos dbname=anabranch");
        Client::connect(&text, NoTls)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGKILL; it may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Transfers until the server is killed. Returns the numbers that were acknowledged, from `first` on.
fn transfer(
    mut client: Client,
    number: i32,
    first: i32,
    seed: u64,
    ends: &AtomicBool,
) -> Result<Vec<i32>, Wrong> {
    let mut random = SplitMix64::stream(seed, "transfers", number as u64);
    let mut acknowledged = Vec::new();
    for place in first.. {
        let source = random.below(ACCOUNTS as u64) as i32;
        let target = (source + 1 + random.below(ACCOUNTS as u64 - 1) as i32) % ACCOUNTS;
        let amount = 1 + random.below(100) as i64;
        let done = if number % 2 == 0 {
            let arguments: [&(dyn postgres::types::ToSql + Sync); 5] =
                [&number, &place, &source, &target, &amount];
            client
                .execute("CALL transfer($1, $2, $3, $4, $5)", &arguments)
                .map(drop)
        } else {
            by_hand(&mut client, (number, place), (source, target), amount)
        };
        match done {
            Ok(()) => acknowledged.push(place),
            // The same number again: it has no effect.
            Err(error) if error.code().is_some_and(|code| code.code() == "40001") => {}
            Err(_) if ends.load(Ordering::Relaxed) => break,
            Err(error) => return Err(format!("client {number}: {error}").into()),
        }
    }
    Ok(acknowledged)
}

fn by_hand(
    client: &mut Client,
    (number, place): (i32, i32),
    (source, target): (i32, i32),
    amount: i64,
) -> Result<(), postgres::Error> {
    let mut transaction = client.transaction()?;
    let row = transaction.query_one("SELECT balance FROM accounts WHERE id = $1", &[&source])?;
    let left = row.get::<_, i64>(0) - amount;
    transaction.execute(
        "UPDATE accounts SET balance = $2 WHERE id = $1",
        &[&source, &left],
    )?;
    transaction.execute(
        "UPDATE accounts SET balance = balance + $2 WHERE id = $1",
        &[&target, &amount],
    )?;
    transaction.execute(
        "INSERT INTO transfers VALUES ($1, $2, $3, $4, $5)",
        &[&number, &place, &source, &target, &amount],
    )?;
    transaction.commit()
}

/// Changes the schema from version to version until the server is killed. Returns the last that was acknowledged.
fn migrate(mut client: Client, from: i32, ends: &AtomicBool) -> Result<i32, Wrong> {
    let mut version = from;
    loop {
        let next = version + 1;
        let statements = format!(
            "BEGIN;
             CREATE TABLE version_{next} (id integer PRIMARY KEY);
             INSERT INTO version_{next} VALUES ({next});
             ALTER TABLE accounts ADD COLUMN is_{next} integer NOT NULL DEFAULT {next};
             DROP TABLE IF EXISTS version_{version};
             ALTER TABLE accounts DROP COLUMN IF EXISTS is_{version};
             UPDATE accounts SET is_{next} = is_{next} + 1;
             COMMIT"
        );
        match client.batch_execute(&statements) {
            Ok(()) => version = next,
            Err(_) if ends.load(Ordering::Relaxed) => return Ok(version),
            Err(error) => return Err(format!("version {next}: {error}").into()),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The version of the schema, if all of it is there.
fn version(client: &mut Client) -> Result<i32, Wrong> {
    let of =
        |rows: Vec<postgres::Row>| -> Vec<String> { rows.iter().map(|row| row.get(0)).collect() };
    let tables = of(client.query(
        "SELECT table_name::text FROM information_schema.tables WHERE table_name LIKE 'version%'",
        &[],
    )?);
    let columns = of(client.query(
        "SELECT column_name::text FROM information_schema.columns WHERE table_name = 'accounts' AND column_name LIKE 'is%'",
        &[],
    )?);
    let number = |name: &str| {
        name.rsplit('_')
            .next()
            .and_then(|it| it.parse::<i32>().ok())
    };
    let (version, column) = match (tables.as_slice(), columns.as_slice()) {
        ([], []) => return Ok(0),
        ([table], [column]) => (number(table), number(column)),
        _ => return Err(format!("the schema is none: {tables:?}, {columns:?}").into()),
    };
    let (Some(version), true) = (version, version == column) else {
        return Err(format!("the schema is of two versions: {tables:?}, {columns:?}").into());
    };
    let held = client.query(&format!("SELECT id FROM version_{version}"), &[])?;
    let updated = client.query(
        &format!("SELECT id FROM accounts WHERE is_{version} = {version} + 1"),
        &[],
    )?;
    if held.len() != 1 || updated.len() != ACCOUNTS as usize {
        return Err(format!("version {version} lacks rows").into());
    }
    Ok(version)
}

/// The transfers that are there, by client, if they and the balances agree.
fn look(client: &mut Client) -> Result<BTreeMap<i32, BTreeSet<i32>>, Wrong> {
    let mut expected: BTreeMap<i32, i64> = (0..ACCOUNTS).map(|id| (id, BALANCE)).collect();
    let mut found: BTreeMap<i32, BTreeSet<i32>> = BTreeMap::new();
    for row in client.query(
        "SELECT client, number, source, target, amount FROM transfers",
        &[],
    )? {
        let (source, target, amount): (i32, i32, i64) = (row.get(2), row.get(3), row.get(4));
        *expected.entry(source).or_default() -= amount;
        *expected.entry(target).or_default() += amount;
        found.entry(row.get(0)).or_default().insert(row.get(1));
    }
    let rows = client.query("SELECT id, balance FROM accounts", &[])?;
    let balances: BTreeMap<i32, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    if balances != expected {
        return Err(format!("a transfer is there in part: {balances:?}, not {expected:?}").into());
    }
    Ok(found)
}

/// Whether what was acknowledged is there, as far as the durability promises it.
fn check(
    found: &BTreeMap<i32, BTreeSet<i32>>,
    acknowledged: &BTreeMap<i32, Vec<i32>>,
    durability: &str,
) -> Result<(), Wrong> {
    for (client, numbers) in acknowledged {
        let nothing = BTreeSet::new();
        let there = found.get(client).unwrap_or(&nothing);
        let last = there.last().copied().unwrap_or(-1);
        let lost =
            |number: &&i32| !there.contains(number) && (durability == "sync" || **number < last);
        if let Some(number) = numbers.iter().find(lost) {
            return Err(format!(
                "transfer {number} of client {client} was acknowledged, and is lost"
            )
            .into());
        }
    }
    Ok(())
}

fn run(binary: &str, seconds: u64, durability: &str, folder: &Path) -> Result<String, Wrong> {
    let application = folder.join("application");
    std::fs::create_dir_all(&application)?;
    std::fs::write(application.join("application.sql"), APPLICATION)?;
    let seed = u64::from(std::process::id());
    let mut random = SplitMix64::stream(seed, "chaos", 0);
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut acknowledged: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    let (mut kills, mut first, mut schema) = (0_u64, 0, 0);
    let mut server = Server::start(binary, folder, durability)?;
    let mut client = server.connect()?;
    for id in 0..ACCOUNTS {
        client.execute("CALL open_account($1, $2)", &[&id, &BALANCE])?;
    }
    if durability != "sync" {
        // What is not synced may be lost; the accounts are not part of the experiment.
        std::thread::sleep(Duration::from_millis(500));
    }
    while Instant::now() < until {
        let ends = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for number in 0..CLIENTS {
            let (client, ends) = (server.connect()?, Arc::clone(&ends));
            let work = move || transfer(client, number, first, seed ^ first as u64, &ends);
            threads.push((number, std::thread::spawn(work)));
        }
        let (client, told) = (server.connect()?, Arc::clone(&ends));
        let migrating = std::thread::spawn(move || migrate(client, schema, &told));
        std::thread::sleep(Duration::from_millis(200 + random.below(800)));
        ends.store(true, Ordering::Relaxed);
        drop(server);
        kills += 1;
        for (number, thread) in threads {
            let done = thread.join().map_err(|_| "a client panicked")??;
            acknowledged.entry(number).or_default().extend(done);
        }
        let acknowledged_schema = migrating.join().map_err(|_| "a client panicked")??;
        server = Server::start(binary, folder, durability)?;
        schema =
            version(&mut server.connect()?).map_err(|wrong| format!("kill {kills}: {wrong}"))?;
        if schema < acknowledged_schema {
            return Err(format!(
                "kill {kills}: version {acknowledged_schema} of the schema was acknowledged, and is lost: it is {schema}"
            )
            .into());
        }
        let found = look(&mut server.connect()?)?;
        check(&found, &acknowledged, durability)
            .map_err(|wrong| format!("kill {kills}: {wrong}"))?;
        // What is lost is not looked for again.
        for (number, numbers) in &mut acknowledged {
            numbers.retain(|place| found.get(number).is_some_and(|there| there.contains(place)));
        }
        let last = found.values().filter_map(|there| there.last()).max();
        let tried = acknowledged
            .values()
            .filter_map(|numbers| numbers.last())
            .max();
        first = last.max(tried).map_or(0, |last| last + 1_000);
    }
    let transfers: usize = acknowledged.values().map(Vec::len).sum();
    Ok(format!(
        "{kills} kills under durability {durability}: {transfers} transfers and {schema} versions of the \
         schema, none lost and none in part"
    ))
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [binary, seconds, durability] = arguments.as_slice() else {
        eprintln!("usage: chaos BINARY SECONDS sync|batch|none");
        std::process::exit(2);
    };
    let Ok(seconds) = seconds.parse() else {
        eprintln!("{seconds} is no number of seconds");
        std::process::exit(2);
    };
    let folder: PathBuf =
        std::env::temp_dir().join(format!("anabranch-chaos-{}", std::process::id()));
    match run(binary, seconds, durability, &folder) {
        Ok(told) => {
            println!("{told}");
            // What is left is in the folder for temporary files.
            let _ = std::fs::remove_dir_all(&folder);
        }
        Err(wrong) => {
            eprintln!(
                "chaos: {wrong}; the server's folder is {}",
                folder.display()
            );
            std::process::exit(1);
        }
    }
}
