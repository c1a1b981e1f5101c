//! Histories of transactions that clients run by hand on a server that speaks PostgreSQL's protocol: ours, a middleware
//! of the belt, or PostgreSQL.
//!
//! The workload is Jepsen's `list-append`: each key has a list, and a transaction reads lists and appends elements that
//! no other appends. A list that was read names all transactions that it shows, so the checkers need nothing of the
//! server. The history is written in Jepsen's form (`docs/histories.md`).

use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
pub use postgres::IsolationLevel;
use postgres::error::{DbError, Severity, SqlState};
use postgres::{Client, NoTls, Transaction};
use thiserror::Error;

/// The table that the transactions run on: it is made at the beginning and dropped at the end.
pub const TABLE: &str = "anabranch_history";

/// After so many appends a key is left for a new one, so that lists stay short.
const APPENDS_MAX: u64 = 100;

/// How long a client waits before it connects again.
const RECONNECT_AFTER: Duration = Duration::from_millis(100);

/// What the clients do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server's address: `host=… port=…` or `postgresql://…`.
    pub connect: String,
    /// Connections, each with one open transaction.
    pub connections: u32,
    /// How long they run.
    pub duration: Duration,
    /// Keys in use at a time; fewer keys, more conflicts.
    pub keys: u64,
    /// The most reads and appends of a transaction.
    pub operations_max: u64,
    /// The isolation level of every transaction.
    pub isolation: IsolationLevel,
    /// The seed of what the clients choose. The order in which the server runs it is its own.
    pub seed: u64,
    /// The table is there, and empty, and stays: for servers that refuse changes of the schema.
    pub keeps_table: bool,
}

/// How the transactions ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// The server has acknowledged the COMMIT.
    pub committed: u64,
    /// The client rolled back.
    pub rolled_back: u64,
    /// The server refused: the transaction has changed nothing.
    pub refused: u64,
    /// The connection broke before the COMMIT was answered.
    pub unknown: u64,
}

/// Why there is no history.
#[derive(Debug, Error)]
pub enum WireError {
    /// The server cannot be reached, or refuses what the workload needs.
    #[error("{doing}: {error}")]
    Server {
        /// What the client was doing.
        doing: String,
        /// The server's answer, or the connection's failure.
        error: String,
    },
    /// The history cannot be written.
    #[error("cannot write the history: {0}")]
    Write(#[from] io::Error),
}

fn server(doing: &str, error: &postgres::Error) -> WireError {
    let error = match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => error.to_string(),
    };
    WireError::Server {
        doing: doing.to_owned(),
        error,
    }
}

/// A read or an append.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Operation {
    /// Reads a key's list by a statement of its own.
    Read(u64),
    /// Reads two lists by one statement.
    ReadBoth(u64, u64),
    /// Appends an element by one statement.
    Append(u64, u64),
    /// Reads the list and writes a longer one: what another has appended in between is lost, unless the server orders
    /// the two.
    Rewrite(u64, u64),
}

/// What a transaction has read: the lists by key, in the order of its operations.
type Lists = Vec<Option<Vec<u64>>>;

/// The lines of the history, by all clients.
struct Lines<'w, W> {
    out: Mutex<(&'w mut W, u64)>,
    begun: Instant,
}

impl<W: Write> Lines<'_, W> {
    /// Writes one line: `kind` is `invoke`, `ok`, `fail` or `info`.
    fn put(&self, kind: &str, process: u64, value: &str) -> io::Result<()> {
        let mut guard = self
            .out
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let (out, index) = &mut *guard;
        // Taken with the lock held, so that the lines are in the order of their times.
        let time = self.begun.elapsed().as_nanos();
        writeln!(
            out,
            "{{:type :{kind}, :f :txn, :value [{value}], :process {process}, :index {index}, :time {time}}}"
        )?;
        *index += 1;
        Ok(())
    }
}

/// What is shared by the clients.
struct Shared {
    settings: Settings,
    /// Appends so far: the last element, from which the keys in use follow.
    appends: AtomicU64,
    /// The number of Jepsen's processes so far.
    processes: AtomicU64,
    until: Instant,
}

impl Shared {
    /// A key in use.
    fn key(&self, random: &mut Rng) -> u64 {
        let first = self.appends.load(Ordering::Relaxed) / (APPENDS_MAX * self.settings.keys);
        first * self.settings.keys + random.u64(..self.settings.keys)
    }

    /// Operations of a transaction. Elements are numbers that no other append has.
    fn operations(&self, random: &mut Rng) -> Vec<Operation> {
        let count = random.u64(1..=self.settings.operations_max);
        let append = || self.appends.fetch_add(1, Ordering::Relaxed) + 1;
        (0..count)
            .map(|_| match random.u32(..8) {
                0..=2 => Operation::Read(self.key(random)),
                3 => Operation::ReadBoth(self.key(random), self.key(random)),
                4..=5 => Operation::Append(self.key(random), append()),
                _ => Operation::Rewrite(self.key(random), append()),
            })
            .collect()
    }
}

/// The operations in Jepsen's form; `lists` are what was read, nothing before the transaction has run.
fn value_of(operations: &[Operation], lists: &[Option<Vec<u64>>]) -> String {
    let mut read = lists.iter();
    let mut list = |key: &u64| {
        let elements = read.next().and_then(Option::as_ref);
        let elements = elements.map_or_else(
            || "nil".to_owned(),
            |elements| format!("[{}]", join(elements, " ")),
        );
        format!("[:r {key} {elements}]")
    };
    let parts: Vec<String> = operations
        .iter()
        .map(|operation| match operation {
            Operation::Read(key) => list(key),
            Operation::ReadBoth(a, b) => format!("{} {}", list(a), list(b)),
            Operation::Append(key, element) => format!("[:append {key} {element}]"),
            Operation::Rewrite(key, element) => format!("{} [:append {key} {element}]", list(key)),
        })
        .collect();
    parts.join(" ")
}

fn join(elements: &[u64], separator: &str) -> String {
    let texts: Vec<String> = elements.iter().map(u64::to_string).collect();
    texts.join(separator)
}

/// The elements of a list as the table has it.
fn elements(text: &str) -> Vec<u64> {
    let numbers = text.split(',').filter(|number| !number.is_empty());
    // What is no number was not written by these clients: the checker refuses an element without its append.
    numbers
        .map(|number| number.parse().unwrap_or(u64::MAX))
        .collect()
}

/// Runs the operations in a transaction; what they read.
fn run(
    transaction: &mut Transaction<'_>,
    operations: &[Operation],
) -> Result<Lists, postgres::Error> {
    let mut lists = Lists::new();
    for operation in operations {
        match operation {
            Operation::Read(key) => lists.push(read(transaction, *key)?),
            Operation::ReadBoth(a, b) => {
                let query = format!("SELECT key, elements FROM {TABLE} WHERE key IN ($1, $2)");
                let rows = transaction.query(&query, &[&(*a as i64), &(*b as i64)])?;
                for key in [a, b] {
                    let row = rows.iter().find(|row| row.get::<_, i64>(0) == *key as i64);
                    lists.push(row.map(|row| elements(row.get(1))));
                }
            }
            Operation::Append(key, element) => {
                let append = format!(
                    "INSERT INTO {TABLE} AS h VALUES ($1, $2)
                     ON CONFLICT (key) DO UPDATE SET elements = h.elements || ',' || excluded.elements"
                );
                transaction.execute(&append, &[&(*key as i64), &element.to_string()])?;
            }
            Operation::Rewrite(key, element) => {
                let list = read(transaction, *key)?;
                let mut longer = list.clone().unwrap_or_default();
                longer.push(*element);
                let write = match list {
                    None => format!("INSERT INTO {TABLE} VALUES ($1, $2)"),
                    Some(_) => format!("UPDATE {TABLE} SET elements = $2 WHERE key = $1"),
                };
                transaction.execute(&write, &[&(*key as i64), &join(&longer, ",")])?;
                lists.push(list);
            }
        }
    }
    Ok(lists)
}

/// A key's list; `None` if there is none.
fn read(transaction: &mut Transaction<'_>, key: u64) -> Result<Option<Vec<u64>>, postgres::Error> {
    let query = format!("SELECT elements FROM {TABLE} WHERE key = $1");
    let row = transaction.query_opt(&query, &[&(key as i64)])?;
    Ok(row.map(|row| elements(row.get(0))))
}

/// Whether an error of COMMIT leaves its outcome open.
fn is_unknown(error: Option<&DbError>) -> bool {
    error.is_none_or(|error| {
        let code = error.code();
        let ends_connection = matches!(
            error.parsed_severity(),
            Some(Severity::Fatal | Severity::Panic)
        );
        ends_connection
            || code.code().starts_with("08")
            || *code == SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN
    })
}

/// How a transaction ended, and what it has read if it committed.
enum Outcome {
    Committed(Lists),
    RolledBack,
    Refused,
    Unknown,
}

/// Runs one transaction.
fn attempt(
    client: &mut Client,
    settings: &Settings,
    operations: &[Operation],
    gives_up: bool,
) -> Outcome {
    let transaction = client
        .build_transaction()
        .isolation_level(settings.isolation)
        .start();
    let Ok(mut transaction) = transaction else {
        return Outcome::Refused;
    };
    match run(&mut transaction, operations) {
        // Nothing commits that was not asked to.
        Err(_) => Outcome::Refused,
        Ok(_) if gives_up => match transaction.rollback() {
            Ok(()) => Outcome::RolledBack,
            Err(_) => Outcome::Refused,
        },
        Ok(lists) => match transaction.commit() {
            Ok(()) => Outcome::Committed(lists),
            Err(error) if is_unknown(error.as_db_error()) => Outcome::Unknown,
            Err(_) => Outcome::Refused,
        },
    }
}

/// One client, until the time is over.
fn client<W: Write>(
    number: u32,
    shared: &Shared,
    lines: &Lines<'_, W>,
) -> Result<Ended, io::Error> {
    let settings = &shared.settings;
    let mut random = Rng::with_seed(settings.seed.wrapping_mul(1 << 20) + u64::from(number));
    let mut ended = Ended::default();
    let mut connection: Option<(Client, u64)> = None;
    while Instant::now() < shared.until {
        let Some((client, process)) = &mut connection else {
            match Client::connect(&settings.connect, NoTls) {
                Ok(client) => {
                    // A process whose outcome is unknown does nothing more: so each connection is one.
                    let process = shared.processes.fetch_add(1, Ordering::Relaxed);
                    connection = Some((client, process));
                }
                // The server may be starting again.
                Err(_) => std::thread::sleep(RECONNECT_AFTER),
            }
            continue;
        };
        let operations = shared.operations(&mut random);
        let gives_up = random.u32(..50) == 0;
        let invoked = value_of(&operations, &[]);
        lines.put("invoke", *process, &invoked)?;
        let outcome = attempt(client, settings, &operations, gives_up);
        match &outcome {
            Outcome::Committed(lists) => {
                ended.committed += 1;
                lines.put("ok", *process, &value_of(&operations, lists))?;
            }
            Outcome::RolledBack => ended.rolled_back += 1,
            Outcome::Refused => ended.refused += 1,
            Outcome::Unknown => {
                ended.unknown += 1;
                lines.put("info", *process, &invoked)?;
            }
        }
        if let Outcome::RolledBack | Outcome::Refused = outcome {
            lines.put("fail", *process, &invoked)?;
        }
        if matches!(outcome, Outcome::Unknown) || client.is_closed() {
            connection = None;
        }
    }
    Ok(ended)
}

/// Runs clients on a server and writes their history, in Jepsen's form, to `out`; `tick` is called about ten times a
/// second.
///
/// # Errors
/// If the server cannot be reached at the beginning, its table not be made or read at the end, or the history not be
/// written. What happens to the server in between is part of the history.
pub fn record<W: Write + Send>(
    settings: &Settings,
    out: &mut W,
    mut tick: impl FnMut(),
) -> Result<Ended, WireError> {
    let mut first =
        Client::connect(&settings.connect, NoTls).map_err(|error| server("connecting", &error))?;
    if settings.keeps_table {
        let doing = format!("looking into the table {TABLE}");
        let first_row = first
            .query_opt(&format!("SELECT key FROM {TABLE} LIMIT 1"), &[])
            .map_err(|error| server(&doing, &error))?;
        if first_row.is_some() {
            return Err(WireError::Server {
                doing,
                error: "it has rows already; empty it first: elements have to be new".to_owned(),
            });
        }
    } else {
        let create =
            format!("CREATE TABLE {TABLE} (key bigint PRIMARY KEY, elements text NOT NULL)");
        let doing = format!("making the table {TABLE}");
        first
            .batch_execute(&create)
            .map_err(|error| server(&doing, &error))?;
    }
    let shared = Shared {
        settings: settings.clone(),
        appends: AtomicU64::new(0),
        processes: AtomicU64::new(0),
        until: Instant::now() + settings.duration,
    };
    let lines = Lines {
        out: Mutex::new((out, 0)),
        begun: Instant::now(),
    };
    let ended: Vec<Result<Ended, io::Error>> = std::thread::scope(|scope| {
        let (shared, lines) = (&shared, &lines);
        let clients: Vec<_> = (0..settings.connections)
            .map(|number| scope.spawn(move || client(number, shared, lines)))
            .collect();
        while clients.iter().any(|client| !client.is_finished()) {
            std::thread::sleep(Duration::from_millis(100));
            tick();
        }
        let joined = clients.into_iter().map(|client| client.join());
        joined
            .map(|ended| ended.unwrap_or_else(|_| Err(io::Error::other("a client has panicked"))))
            .collect()
    });
    let mut total = Ended::default();
    for ended in ended {
        let ended = ended?;
        total.committed += ended.committed;
        total.rolled_back += ended.rolled_back;
        total.refused += ended.refused;
        total.unknown += ended.unknown;
    }
    read_all(settings, &shared, &lines)?;
    Ok(total)
}

/// Reads every list once more, so that the last appends are seen, and drops the table.
fn read_all<W: Write>(
    settings: &Settings,
    shared: &Shared,
    lines: &Lines<'_, W>,
) -> Result<(), WireError> {
    let mut client = Client::connect(&settings.connect, NoTls)
        .map_err(|error| server("connecting at the end", &error))?;
    let failed = |error: &postgres::Error| server("reading the lists at the end", error);
    let process = shared.processes.fetch_add(1, Ordering::Relaxed);
    let last = shared.appends.load(Ordering::Relaxed) / (APPENDS_MAX * settings.keys) + 1;
    for key in 0..last * settings.keys {
        let operations = [Operation::Read(key)];
        lines.put("invoke", process, &value_of(&operations, &[]))?;
        let mut transaction = client.transaction().map_err(|error| failed(&error))?;
        let list = read(&mut transaction, key).map_err(|error| failed(&error))?;
        transaction.commit().map_err(|error| failed(&error))?;
        lines.put("ok", process, &value_of(&operations, &[list]))?;
    }
    if !settings.keeps_table {
        let doing = format!("dropping the table {TABLE}");
        client
            .batch_execute(&format!("DROP TABLE {TABLE}"))
            .map_err(|error| server(&doing, &error))?;
    }
    let (out, _) = &mut *lines
        .out
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_in_jepsens_form() {
        let operations = [
            Operation::ReadBoth(1, 2),
            Operation::Append(1, 7),
            Operation::Rewrite(3, 8),
        ];
        assert_eq!(
            value_of(&operations, &[]),
            "[:r 1 nil] [:r 2 nil] [:append 1 7] [:r 3 nil] [:append 3 8]"
        );
        let lists = [Some(vec![4, 5]), None, Some(vec![6])];
        assert_eq!(
            value_of(&operations, &lists),
            "[:r 1 [4 5]] [:r 2 nil] [:append 1 7] [:r 3 [6]] [:append 3 8]"
        );
    }
}
