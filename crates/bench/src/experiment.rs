//! What an experiment on the embedded cluster is, and what is refused before anything is loaded.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anabranch_engine::PlannedApplication;
use anabranch_history::Model;
use anabranch_protocol::locking::ReadLocks;
use anabranch_protocol::ramp::{FilterSize, Metadata};
use anabranch_storage::{Store, StoreSettings};
use anabranch_workload::{Caller, Workload};

use crate::fill::FillError;

/// How the embedded cluster coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProtocolChoice {
    /// RAMP-Fast with the plan's guards: coordination only where the plan asks for it.
    RampFast,
    /// The same, whose metadata are names of transactions.
    RampSmall,
    /// The same, whose metadata are Bloom filters.
    RampHybrid,
    /// No concurrency control: the upper bound.
    Nwnr,
    /// Two-phase locking with long read locks and two-phase commit: serializable.
    Locking,
    /// Two-phase locking whose read locks are short: read committed.
    LockingShort,
    /// Locks for writes alone: read committed.
    Lwnr,
    /// Commit checks at coordinators: read atomic, for plans without guards.
    EPci,
}

impl ProtocolChoice {
    /// All of them.
    pub const ALL: [ProtocolChoice; 8] = [
        ProtocolChoice::RampFast,
        ProtocolChoice::RampSmall,
        ProtocolChoice::RampHybrid,
        ProtocolChoice::Nwnr,
        ProtocolChoice::Locking,
        ProtocolChoice::LockingShort,
        ProtocolChoice::Lwnr,
        ProtocolChoice::EPci,
    ];

    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ProtocolChoice::RampFast => "ramp-fast",
            ProtocolChoice::RampSmall => "ramp-small",
            ProtocolChoice::RampHybrid => "ramp-hybrid",
            ProtocolChoice::Nwnr => "nwnr",
            ProtocolChoice::Locking => "locking",
            ProtocolChoice::LockingShort => "locking-short",
            ProtocolChoice::Lwnr => "lwnr",
            ProtocolChoice::EPci => "e-pci",
        }
    }

    /// Which RAMP it is, if it is one.
    pub fn ramp(self, filter: FilterSize) -> Option<Metadata> {
        match self {
            ProtocolChoice::RampFast => Some(Metadata::Fast),
            ProtocolChoice::RampSmall => Some(Metadata::Small),
            ProtocolChoice::RampHybrid => Some(Metadata::Hybrid(filter)),
            _ => None,
        }
    }

    /// Whether it is one of the three RAMPs.
    pub fn is_ramp(self) -> bool {
        self.ramp(FilterSize::default()).is_some()
    }

    /// For how long reads are locked, if it is one of the three that lock writes.
    pub fn read_locks(self) -> Option<ReadLocks> {
        match self {
            ProtocolChoice::Locking => Some(ReadLocks::Long),
            ProtocolChoice::LockingShort => Some(ReadLocks::Short),
            ProtocolChoice::Lwnr => Some(ReadLocks::None),
            _ => None,
        }
    }

    /// Whether it takes locks, and so wants to know a transaction's accesses before it runs.
    pub fn takes_locks(self) -> bool {
        self.read_locks().is_some()
    }

    /// Whether its nodes keep records, and so can keep their data in a folder.
    pub fn is_durable(self) -> bool {
        !matches!(self, ProtocolChoice::Nwnr | ProtocolChoice::EPci)
    }

    /// Whether it keeps guards, or needs none. One that does not is refused where a plan has some.
    pub fn takes_guards(self) -> bool {
        self != ProtocolChoice::EPci
    }

    /// What the history of a run is held against if nobody says otherwise. Of the session guarantees
    /// none is promised: clients go from node to node.
    pub fn models(self) -> &'static [Model] {
        match self {
            ProtocolChoice::RampFast
            | ProtocolChoice::RampSmall
            | ProtocolChoice::RampHybrid
            | ProtocolChoice::Nwnr => &[Model::ReadAtomic],
            ProtocolChoice::Locking => &[Model::StrictSerializable],
            ProtocolChoice::LockingShort | ProtocolChoice::Lwnr => &[Model::ReadCommitted],
            ProtocolChoice::EPci => &[Model::ReadAtomic, Model::Causal],
        }
    }

    /// The protocol with this name.
    pub fn by_name(name: &str) -> Option<ProtocolChoice> {
        ProtocolChoice::ALL
            .into_iter()
            .find(|choice| choice.name() == name)
    }
}

/// An application with its data and its calls, and how it is run.
pub trait Experiment {
    /// The application, and which answers it permits.
    fn workload(&self) -> &dyn Workload;

    /// How it is run.
    fn settings(&self) -> &Settings;

    /// Item operations of a transaction, if its throughput is told in them.
    fn operations(&self) -> Option<usize> {
        None
    }

    /// How large its database is, in words: the same for all that can go on with one data folder.
    fn size(&self) -> String;

    /// How many rows its database has, about. For a progress bar.
    fn rows(&self) -> u64;

    /// Fills one store for each partition. `loaded` counts rows on the way.
    ///
    /// # Errors
    /// When the schema is another.
    fn fill(
        &self,
        planned: &Arc<PlannedApplication>,
        settings: StoreSettings,
        loaded: &AtomicU64,
    ) -> Result<Vec<Store>, FillError>;

    /// All calls that are made, in order: one driver makes them, for all clients.
    ///
    /// # Errors
    /// When the schema is another.
    fn caller(&self, planned: &PlannedApplication) -> Result<Box<dyn Caller>, FillError>;
}

/// How an experiment is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Nodes with one partition each.
    pub partitions: u16,
    /// Calls under way at any time.
    pub clients: usize,
    /// For how long to measure.
    pub duration: Duration,
    /// For how long to run before measuring.
    pub warmup: Duration,
    /// One-way delay between partitions.
    pub delay: Duration,
    /// The seed of the database and of the calls.
    pub seed: u64,
    /// Whether to take samples of what the nodes are at while they are measured.
    pub code_path: bool,
    /// Whether to record a history of all of the run, warm-up included.
    pub recorded: bool,
    /// Memory that the process takes from the system before the first run, in bytes.
    pub reserved: u64,
    /// How large RAMP-Hybrid's filters are.
    pub filter: FilterSize,
    /// For the experiment with blocked writes (ramp.txt §5.3): of a million of RAMP's transactions over
    /// several partitions, how many are decided without telling the participants; these have to ask.
    pub lost_commits: u32,
    /// For how long a participant of RAMP's waits for the end of what it has prepared before it asks. Without it
    /// [`BLOCKED_AFTER`] where commits are left unsent, and else what is usual
    /// ([`anabranch_protocol::ramp::RampOptions::terminate_after`]).
    pub terminate_after: Option<Duration>,
    /// One-phase writes, under RAMP: see [`anabranch_protocol::ramp::RampOptions::one_phase`].
    pub one_phase: bool,
    /// Causal consistency, under RAMP: see [`anabranch_protocol::ramp::RampOptions::causal`].
    pub causal: bool,
}

/// For how long a participant waits for the end of a blocked write, unless something else is asked for: several times
/// as long as a transaction takes on the embedded cluster with as many clients as figures have (the median is a
/// millisecond, and one of a hundred takes more than four), so that nobody asks for what is only slow. What waits
/// costs room, which is what blocked writes cost there.
pub const BLOCKED_AFTER: Duration = Duration::from_millis(10);

/// Why an experiment cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExperimentError {
    /// A setting makes no sense.
    Setting {
        /// Its name on the command line.
        name: &'static str,
        /// What is wrong and what to do.
        message: String,
    },
    /// The database does not fit into this machine's memory.
    Memory {
        /// What was asked for.
        database: Database,
        /// How much there is, in bytes.
        available: u64,
    },
}

impl std::fmt::Display for ExperimentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ExperimentError::Setting { name, message } => write!(f, "error: {name}: {message}"),
            ExperimentError::Memory {
                database,
                available,
            } => write!(
                f,
                "error: --{what}: {} {what} take about {:.1} GiB and this machine has {:.1} GiB to \
                 give; ask for at most {}",
                database.count,
                gibibytes(database.bytes()),
                gibibytes(*available),
                (*available / database.bytes_each.max(1)).max(1),
                what = database.what,
            ),
        }
    }
}

impl std::error::Error for ExperimentError {}

fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / (1u64 << 30) as f64
}

/// The most partitions that one process is asked to run as threads.
pub const PARTITIONS_MAX: u16 = 256;

/// How much of something is in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Database {
    /// What is counted, in the plural; the option that asks for it has the same name.
    pub what: &'static str,
    /// How many there are.
    pub count: u64,
    /// About how much memory each takes, in bytes.
    pub bytes_each: u64,
}

impl Database {
    fn bytes(&self) -> u64 {
        self.count.saturating_mul(self.bytes_each)
    }
}

/// A setting that makes no sense, by its name on the command line.
///
/// # Errors
/// Always.
pub fn refuse<T>(name: &'static str, message: impl Into<String>) -> Result<T, ExperimentError> {
    let message = message.into();
    Err(ExperimentError::Setting { name, message })
}

impl Settings {
    /// Refuses what cannot be run over such a database, before anything is loaded.
    ///
    /// # Errors
    /// The first setting that makes no sense.
    pub fn check(&self, database: Database) -> Result<(), ExperimentError> {
        if self.partitions == 0 || self.partitions > PARTITIONS_MAX {
            return refuse(
                "--partitions",
                format!(
                    "has to be between 1 and {PARTITIONS_MAX}, not {}",
                    self.partitions
                ),
            );
        }
        if self.clients == 0 {
            return refuse("--clients", "has to be at least 1");
        }
        if self.duration.is_zero() {
            return refuse("--seconds", "has to be more than 0");
        }
        self.check_memory(database, available_memory())
    }

    fn check_memory(
        &self,
        database: Database,
        available: Option<u64>,
    ) -> Result<(), ExperimentError> {
        // Half of it stays free for what the run adds, and for everybody else.
        let Some(available) = available.map(|bytes| bytes / 2) else {
            return Ok(());
        };
        if self.reserved > available {
            return refuse(
                "--reserve-mb",
                format!(
                    "this machine has {} MiB to give, not {}",
                    available >> 20,
                    self.reserved >> 20
                ),
            );
        }
        if database.bytes() > available {
            return Err(ExperimentError::Memory {
                database,
                available,
            });
        }
        Ok(())
    }
}

/// Memory that this machine can still give, in bytes, where the system tells.
fn available_memory() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
impl Settings {
    /// Settings that can be run.
    pub(crate) fn small() -> Settings {
        Settings {
            partitions: 2,
            clients: 8,
            duration: Duration::from_secs(1),
            warmup: Duration::ZERO,
            delay: Duration::ZERO,
            seed: 1,
            code_path: false,
            recorded: false,
            reserved: 0,
            filter: FilterSize::default(),
            lost_commits: 0,
            terminate_after: None,
            one_phase: false,
            causal: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAREHOUSES: Database = Database {
        what: "warehouses",
        count: 1_000_000,
        bytes_each: 250 << 20,
    };

    #[test]
    fn senseless_settings_are_refused_by_name() {
        let refused = |change: fn(&mut Settings)| {
            let mut settings = Settings::small();
            change(&mut settings);
            let few = Database {
                count: 1,
                ..WAREHOUSES
            };
            settings.check(few).expect_err("refused").to_string()
        };
        assert!(refused(|s| s.partitions = 0).contains("--partitions"));
        assert!(refused(|s| s.clients = 0).contains("--clients"));
        assert!(refused(|s| s.duration = Duration::ZERO).contains("--seconds"));
    }

    #[test]
    fn a_database_that_memory_cannot_hold_is_refused_with_what_would_fit() {
        let mut settings = Settings::small();
        let refused = |settings: &Settings, database| {
            let error = settings.check_memory(database, Some(8 << 30));
            error.expect_err("refused").to_string()
        };
        let error = refused(&settings, WAREHOUSES);
        assert!(
            error.contains("--warehouses: 1000000 warehouses"),
            "{error}"
        );
        assert!(error.contains("at most 16"), "{error}");
        settings.reserved = 5 << 30;
        let few = Database {
            count: 1,
            ..WAREHOUSES
        };
        assert_eq!(
            refused(&settings, few),
            "error: --reserve-mb: this machine has 4096 MiB to give, not 5120"
        );
    }
}
