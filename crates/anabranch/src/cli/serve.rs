//! `anabranch serve`: a server for PostgreSQL's clients.

use std::error::Error;
use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anabranch_bench::application;
use anabranch_bench::fill::each_partition;
use anabranch_bench::{pgbench, tpcc};
use anabranch_engine::PlannedApplication;
use anabranch_server::service::folder::{self, HeldDatabase};
use anabranch_server::service::plan_accepting;
use anabranch_server::service::{
    DATABASE, Guarantee, Served, Service, ServiceError, ServiceOptions, memory,
};
use anabranch_server::{DataFolder, Durability};
use anabranch_sql::application::Application;
use anabranch_sql::source::SourceFile;
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::TableId;
use anabranch_workload::tpcc::Scale;
use clap::{Args, ValueEnum};

use super::output::{complain, say};
use super::signals::signals;
use super::{Verdict, progress};

/// Serves an application to PostgreSQL's clients. Without --data, what is written is lost when the server ends.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArguments {
    /// The application: SQL files, or folders of them. Without any, an empty database, whose clients declare what is in
    /// it. A folder of --data that is not new holds the application itself
    #[arg(value_name = "FILES")]
    paths: Vec<PathBuf>,
    /// Keep the data in this folder: what is acknowledged is on disk. A new or empty one takes the application; later
    /// starts need nothing but the folder
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// When what is acknowledged is on disk [default: sync]
    #[arg(long, value_enum, requires = "data")]
    durability: Option<DurabilityArgument>,
    /// Under `--durability batch`: the time between two syncs, in milliseconds
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch_ms: u32,
    /// Load rows before the server starts: `tpcc:2` loads TPC-C's initial database with 2 warehouses, `pgbench:10` that
    /// of pgbench at scale 10
    #[arg(long, value_name = "WHAT:SIZE", value_parser = filling)]
    fill: Option<Filling>,
    /// Where to listen: an address of this machine alone, until there are passwords. Port 0 takes any free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5433")]
    listen: SocketAddr,
    /// What is promised of transactions [default: invariants if the application declares procedures, else serializable]
    #[arg(long, value_enum)]
    guarantee: Option<GuaranteeArgument>,
    /// Partitions, each with a thread of its own [default: half the number of processors]
    #[arg(long, value_name = "N")]
    partitions: Option<NonZeroU16>,
    /// Instead of a server, a middleware of the Conveyor Belt beside one of the PostgreSQL servers that this file
    /// describes; FILES are the application that the belt was installed for
    #[arg(long, value_name = "SERVERS", requires = "at", conflicts_with_all = ["data", "durability", "batch_ms", "fill", "listen", "guarantee", "partitions"])]
    belt: Option<PathBuf>,
    /// With --belt: the name of the own server
    #[arg(long, value_name = "NAME", requires = "belt")]
    at: Option<String>,
    /// Instead of a server, a ring of the Conveyor Belt: so many databases of our own in this process, in memory, each with a
    /// middleware. The first listens at --listen, the others at the next ports
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=i64::from(super::belt::SERVERS_MAX)), conflicts_with_all = ["belt", "data", "durability", "batch_ms", "fill", "guarantee", "partitions"])]
    belt_embedded: Option<u16>,
    /// With --belt-embedded: a file of SQL statements that each database runs before the ring begins, as one transaction
    #[arg(long, value_name = "FILE.sql", requires = "belt_embedded")]
    load: Option<PathBuf>,
    /// With --belt or --belt-embedded: the file of weights. With --belt it is the one that the belt was installed with
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    #[command(flatten)]
    limits: LimitArguments,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Limits")]
struct LimitArguments {
    /// The most connections at a time
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections_max: u32,
    /// How long a client may take to start up, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    startup_seconds_max: u32,
    /// The longest message of a client before it is let in, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(64..=1_000_000))]
    startup_bytes_max: u32,
    /// The longest message of a client, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    message_mib_max: u32,
    /// The most prepared statements of a connection
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    prepared_statements_max: u32,
    /// The most portals of a connection
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    portals_max: u32,
    /// The largest result of a statement, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    result_mib_max: u32,
    /// The most that a running statement holds at once of rows and values, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    statement_mib_max: u32,
    /// The most that is kept of a transaction's statements, so that they can be run again after a conflict, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u32).range(0..=4_096))]
    transaction_log_mib_max: u32,
    /// A client for which more than this waits is not read from, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(8..=1_048_576))]
    output_kib_max: u32,
    /// The most that waits of notifications for all listeners, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    notifications_mib_max: u32,
    /// The memory of the process above which inserts and updates are refused, such as 512MiB or 8GiB [default: 0.8 of
    /// what the machine has]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory_max: Option<u64>,
}

/// Parses a size in bytes.
fn size(text: &str) -> Result<u64, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let parsed = units.iter().find_map(|(unit, shift)| {
        let number: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        number.checked_mul(1 << shift)
    });
    match parsed {
        Some(bytes) if bytes >= 32 << 20 => Ok(bytes),
        Some(_) => Err("a server needs 32MiB at least".to_owned()),
        None => Err("not a whole number with a unit, such as 512MiB or 8GiB".to_owned()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DurabilityArgument {
    /// Before it is acknowledged
    Sync,
    /// Some milliseconds later: a crash may lose the last ones, and nothing before what it keeps
    Batch,
    /// When the operating system writes it: a crash of the process loses as little as under batch, a crash of the
    /// machine may damage the data
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GuaranteeArgument {
    /// Every transaction is serializable (two-phase locking)
    Serializable,
    /// Every invariant holds and every read is read atomic (the plan, by RAMP-Fast)
    Invariants,
}

/// Rows to load.
#[derive(Clone, Copy, Debug)]
enum Filling {
    /// TPC-C's initial database with this many warehouses.
    Tpcc(u32),
    /// That of `pgbench -i` at this scale.
    Pgbench(u32),
}

fn filling(text: &str) -> Result<Filling, String> {
    let (what, size) = text.split_once(':').unwrap_or((text, ""));
    match (what, size.parse::<u32>()) {
        ("tpcc", Ok(warehouses @ 1..=10_000)) => Ok(Filling::Tpcc(warehouses)),
        ("pgbench", Ok(scale @ 1..=1_000)) => Ok(Filling::Pgbench(scale)),
        ("pgbench", _) => Err("a scale belongs behind it: pgbench:10".to_owned()),
        ("tpcc", _) => Err("a number of warehouses belongs behind it: tpcc:2".to_owned()),
        _ => Err("tpcc:2 and pgbench:10 can be loaded".to_owned()),
    }
}

/// How often a failure of the server is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How long the server may take to end after it was asked to.
const END_WITHIN: Duration = Duration::from_millis(4_500);

pub(crate) fn run(arguments: &ServeArguments) -> Result<Verdict, Box<dyn Error>> {
    if let (Some(servers), Some(at)) = (&arguments.belt, &arguments.at) {
        let limits = &arguments.limits;
        return super::belt::serve(&super::belt::Middleware {
            servers,
            at,
            paths: &arguments.paths,
            weights: arguments.weights.as_deref(),
            connections_max: limits.connections_max as usize,
            message_bytes_max: (limits.message_mib_max as usize) << 20,
            answer_bytes_max: (limits.result_mib_max as usize) << 20,
        });
    }
    if let Some(servers) = arguments.belt_embedded {
        return super::belt::serve_embedded(&super::belt::Embedded {
            servers,
            listen: arguments.listen,
            paths: &arguments.paths,
            weights: arguments.weights.as_deref(),
            load: arguments.load.as_deref(),
            options: arguments.options(),
        });
    }
    if arguments.weights.is_some() {
        return Err("error: --weights belongs to --belt or --belt-embedded".into());
    }
    let held = match &arguments.data {
        Some(path) => folder::held(path).map_err(|error| format!("error: --data: {error}"))?,
        None => None,
    };
    let is_held = held.is_some();
    let files = arguments.files(held.as_ref())?;
    let compiled = application::compile(files.clone())?;
    let (guarantee, partitions) = arguments.choices(&compiled, held.as_ref())?;
    let planned = planned(compiled, (partitions, guarantee), held.as_ref());
    let data = match &arguments.data {
        Some(path) => Some(open(path, &planned, guarantee, &files, held.as_ref())?),
        None => None,
    };
    let stores = arguments.stores(&planned)?;
    let tables = (0..planned.schema().tables.len() as u16).map(TableId);
    let rows_of = |table: TableId| stores.iter().map(|store| store.rows(table)).sum::<usize>();
    let rows: usize = tables.map(rows_of).sum();
    let data_line = match &arguments.data {
        None => format!("{rows} rows, in memory: what is written is lost when the server ends"),
        Some(path) if is_held => format!("in {}: {}", path.display(), arguments.durability_line()),
        Some(path) => format!(
            "{rows} rows, in {}, which is new: {}",
            path.display(),
            arguments.durability_line()
        ),
    };
    let served = Served {
        planned: Arc::clone(&planned),
        guarantee,
        analysis: anabranch_analysis::Options::default(),
        stores,
        data,
    };
    // Signals are taken from here on, so that one that comes early ends the server in order.
    let ended = signals()?;
    let service =
        Service::start(served, arguments.options()).map_err(|error| format!("error: {error}"))?;
    describe(&service, &planned, guarantee, &data_line)?;
    loop {
        match ended.recv_timeout(LOOK_EVERY) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                if let Some(reason) = service.failure() {
                    return Err(format!("error: {reason}").into());
                }
            }
        }
    }
    end(service)
}

/// Stops the server; a second signal, or too long a wait, ends it at once.
fn end(service: Service) -> Result<Verdict, Box<dyn Error>> {
    let (sender, stopped) = channel();
    std::thread::spawn(move || {
        let result = service.stop().map_err(|error| error.to_string());
        // The receiver is gone if that has taken too long.
        let _ = sender.send(result);
    });
    match stopped.recv_timeout(END_WITHIN) {
        Ok(Ok(())) => {
            say!("Stopped.\n")?;
            Ok(Verdict::Fine)
        }
        Ok(Err(reason)) => Err(format!("error: {reason}").into()),
        Err(_) => Err("error: the server was ended before all its transactions had".into()),
    }
}

/// Plans an application, with what clients of the database that a folder holds have accepted. What there is no room for is
/// left out, with a warning: then its statements are refused, which is safe, and everything else is served.
pub(super) fn planned(
    compiled: Application,
    nodes: (u16, Guarantee),
    held: Option<&HeldDatabase>,
) -> Arc<PlannedApplication> {
    let rows = held.map(HeldDatabase::rows).unwrap_or_default();
    let accepted = held.map_or(&[][..], |held| &held.accepted);
    let (planned, lost) = plan_accepting(compiled, nodes, rows, accepted);
    let lost = lost
        .into_iter()
        .map(|(shape, reason)| (shape.title(), reason));
    let unread = held.map_or(&[][..], |held| &held.unread).iter().cloned();
    for (title, reason) in unread.chain(lost) {
        complain(&format!(
            "warning: \"{title}\" was accepted into the plan, and this version has no room for it: {reason}. It is refused \
             (55000) until a client accepts it again; the next change of the schema or of the plan forgets it."
        ));
    }
    planned
}

/// Opens a data folder for this database: the one that it holds, or a new one, which takes the application.
pub(super) fn open(
    path: &Path,
    planned: &PlannedApplication,
    guarantee: Guarantee,
    files: &[SourceFile],
    held: Option<&HeldDatabase>,
) -> Result<DataFolder, Box<dyn Error>> {
    let description = match held {
        Some(held) => held.description(planned, files),
        None => folder::description(planned, guarantee, files, 0),
    };
    let failed = |error: &dyn std::fmt::Display| format!("error: --data: {error}");
    let data = DataFolder::open(path, &description).map_err(|error| failed(&error))?;
    if data.is_new() {
        folder::write_application(path, files).map_err(|error| failed(&error))?;
    }
    let data = data.at_generation(held.map_or(0, |held| held.generation));
    data.map_err(|error| failed(&error).into())
}

fn describe(
    service: &Service,
    planned: &PlannedApplication,
    guarantee: Guarantee,
    data: &str,
) -> Result<(), Box<dyn Error>> {
    let application = &planned.application;
    let promise = match guarantee {
        Guarantee::Serializable => "serializable: every transaction, by two-phase locking",
        Guarantee::Invariants => {
            "invariants: every invariant holds, every read is read atomic; by the plan and RAMP-Fast"
        }
    };
    let address = service.address();
    say!(
        "Serving PostgreSQL's protocol on {address}, database \"{DATABASE}\"\n\n  \
         application  {} tables, {} procedures, {} assertions\n  \
         data         {data}\n  \
         partitions   {}\n  \
         guarantee    {promise}\n  \
         clients      any user name, without a password, from this machine alone\n\n  \
         psql -h {} -p {} {DATABASE}\n",
        application.schema().tables.len(),
        application.procedures.len(),
        application.assertions().len(),
        planned.execution.router.partitions(),
        address.ip(),
        address.port(),
    )?;
    Ok(())
}

impl ServeArguments {
    /// The application's files: those given, or those that the folder holds.
    fn files(&self, held: Option<&HeldDatabase>) -> Result<Vec<SourceFile>, Box<dyn Error>> {
        match (held, &self.data) {
            (Some(held), Some(path)) if !self.paths.is_empty() => {
                let given = application::read_sources(&self.paths)?;
                folder::check_same(path, &held.files, &given)
                    .map_err(|error| format!("error: {error}"))?;
                Ok(given)
            }
            (Some(held), _) => Ok(held.files.clone()),
            // An empty database: its clients declare what is in it.
            (None, _) if self.paths.is_empty() => Ok(Vec::new()),
            (None, _) => Ok(application::read_sources(&self.paths)?),
        }
    }

    /// The guarantee and the number of partitions.
    ///
    /// # Errors
    /// Every option that does not fit the folder, or no server.
    fn choices(
        &self,
        application: &Application,
        held: Option<&HeldDatabase>,
    ) -> Result<(Guarantee, u16), Box<dyn Error>> {
        let asked = self.guarantee.map(|asked| match asked {
            GuaranteeArgument::Serializable => Guarantee::Serializable,
            GuaranteeArgument::Invariants => Guarantee::Invariants,
        });
        let mut mistakes = Vec::new();
        if !self.listen.ip().is_loopback() {
            let refused = ServiceError::NotLoopback(self.listen);
            mistakes.push(format!("error: --listen: {refused}"));
        }
        let chosen = match held {
            None => {
                let default = match application.procedures.is_empty() {
                    true => Guarantee::Serializable,
                    false => Guarantee::Invariants,
                };
                (asked.unwrap_or(default), self.partitions())
            }
            Some(held) => {
                if asked.is_some_and(|asked| asked != held.guarantee) {
                    mistakes.push(format!(
                        "error: --guarantee: the folder's rows were written under {}, which cannot be changed",
                        held.guarantee.name()
                    ));
                }
                if (self.partitions).is_some_and(|asked| asked.get() != held.partitions) {
                    mistakes.push(format!(
                        "error: --partitions: the folder has {}, which cannot be changed",
                        held.partitions
                    ));
                }
                if self.fill.is_some() {
                    mistakes.push(
                        "error: --fill: the folder of --data holds rows already; leave it out"
                            .to_owned(),
                    );
                }
                (held.guarantee, held.partitions)
            }
        };
        match mistakes.is_empty() {
            true => Ok(chosen),
            false => Err(mistakes.join("\n").into()),
        }
    }

    /// The other half of the processors is for the system's share of each statement (sockets, syncs), and for clients on
    /// this machine. More partitions also make more transactions distributed.
    fn partitions(&self) -> u16 {
        let half = || {
            let found = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
            u16::try_from((found / 2).max(1)).unwrap_or(u16::MAX)
        };
        self.partitions.map_or_else(half, NonZeroU16::get)
    }

    fn durability(&self) -> Durability {
        match self.durability {
            None | Some(DurabilityArgument::Sync) => Durability::Sync,
            Some(DurabilityArgument::Batch) => {
                Durability::Batch(Duration::from_millis(self.batch_ms.into()))
            }
            Some(DurabilityArgument::None) => Durability::Never,
        }
    }

    /// What a crash leaves, in a few words.
    fn durability_line(&self) -> String {
        match self.durability() {
            Durability::Sync => "what is acknowledged is on disk".to_owned(),
            Durability::Batch(every) => format!(
                "what is acknowledged is on disk {} ms later",
                every.as_millis()
            ),
            Durability::Never => {
                "nothing is synced, and a crash of the machine may damage it".to_owned()
            }
        }
    }

    fn options(&self) -> ServiceOptions {
        let limits = &self.limits;
        ServiceOptions {
            connections_max: limits.connections_max as usize,
            startup_timeout: Duration::from_secs(limits.startup_seconds_max.into()),
            startup_message_bytes_max: limits.startup_bytes_max as usize,
            message_bytes_max: (limits.message_mib_max as usize) << 20,
            prepared_statements_max: limits.prepared_statements_max as usize,
            portals_max: limits.portals_max as usize,
            result_bytes_max: (limits.result_mib_max as usize) << 20,
            statement_bytes_max: (limits.statement_mib_max as usize) << 20,
            transaction_log_bytes_max: u64::from(limits.transaction_log_mib_max) << 20,
            output_bytes_max: (limits.output_kib_max as usize) << 10,
            notifications_bytes_max: (limits.notifications_mib_max as usize) << 20,
            durability: self.durability(),
            memory_max: limits.memory_max.or_else(memory::default_max),
            ..ServiceOptions::new(self.listen)
        }
    }

    /// The rows that the server begins with, a store for each partition.
    fn stores(&self, planned: &Arc<PlannedApplication>) -> Result<Vec<Store>, Box<dyn Error>> {
        let settings = StoreSettings::default();
        let loaded = Arc::new(AtomicU64::new(0));
        let stores = match self.fill {
            None => each_partition(planned, settings, &loaded, |_, _| Ok(()))?,
            Some(Filling::Tpcc(warehouses)) => {
                let scale = Scale::specified(warehouses);
                let partitions = planned.execution.router.partitions();
                let total = tpcc::fill::rows(&scale, partitions);
                progress::bar("loading TPC-C", total, &loaded, || {
                    tpcc::fill::fill(planned, &scale, 1, settings, &loaded)
                })?
            }
            Some(Filling::Pgbench(scale)) => {
                let total = pgbench::rows(scale) * u64::from(planned.execution.router.partitions());
                progress::bar("loading pgbench's tables", total, &loaded, || {
                    pgbench::fill(planned, scale, settings, &loaded)
                })?
            }
        };
        Ok(stores)
    }
}
