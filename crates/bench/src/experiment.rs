//! Experiments on the embedded cluster: protocols, settings, and their checks before anything is loaded.

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

/// The protocols of the embedded cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProtocolChoice {
    /// RAMP-Fast with the plan's guards: coordinates only where the plan requires it.
    RampFast,
    /// RAMP-Small: metadata are timestamps of transactions.
    RampSmall,
    /// RAMP-Hybrid: metadata are Bloom filters.
    RampHybrid,
    /// No concurrency control: the upper bound.
    Nwnr,
    /// Two-phase locking with long read locks and two-phase commit: serializable.
    Locking,
    /// Two-phase locking with short read locks: read committed.
    LockingShort,
    /// Write locks only: read committed.
    Lwnr,
    /// SCORe: snapshots without locks, validation at commit; serializable.
    Score,
    /// SCORe with Bumper's time-warping: what has read stale rows may commit at its snapshot; serializable.
    Bumper,
    /// Commit checks at coordinators: read atomic, for plans without guards.
    EPci,
}

impl ProtocolChoice {
    /// All protocols.
    pub const ALL: [ProtocolChoice; 10] = [
        ProtocolChoice::RampFast,
        ProtocolChoice::RampSmall,
        ProtocolChoice::RampHybrid,
        ProtocolChoice::Nwnr,
        ProtocolChoice::Locking,
        ProtocolChoice::LockingShort,
        ProtocolChoice::Lwnr,
        ProtocolChoice::Score,
        ProtocolChoice::Bumper,
        ProtocolChoice::EPci,
    ];

    /// The name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ProtocolChoice::RampFast => "ramp-fast",
            ProtocolChoice::RampSmall => "ramp-small",
            ProtocolChoice::RampHybrid => "ramp-hybrid",
            ProtocolChoice::Nwnr => "nwnr",
            ProtocolChoice::Locking => "locking",
            ProtocolChoice::LockingShort => "locking-short",
            ProtocolChoice::Lwnr => "lwnr",
            ProtocolChoice::Score => "score",
            ProtocolChoice::Bumper => "bumper",
            ProtocolChoice::EPci => "e-pci",
        }
    }

    /// RAMP's metadata under this protocol; none if it is no RAMP.
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

    /// How long read locks are held; none if the protocol takes no locks.
    pub fn read_locks(self) -> Option<ReadLocks> {
        match self {
            ProtocolChoice::Locking => Some(ReadLocks::Long),
            ProtocolChoice::LockingShort => Some(ReadLocks::Short),
            ProtocolChoice::Lwnr => Some(ReadLocks::None),
            _ => None,
        }
    }

    /// Whether it takes locks, and therefore needs a transaction's accesses before it runs.
    pub fn takes_locks(self) -> bool {
        self.read_locks().is_some()
    }

    /// Whether its nodes write a log, and can therefore keep their data in a folder.
    pub fn is_durable(self) -> bool {
        !matches!(self, ProtocolChoice::Nwnr | ProtocolChoice::EPci)
    }

    /// Whether it enforces guards, or needs none. If not, a plan with guards is refused.
    pub fn takes_guards(self) -> bool {
        self != ProtocolChoice::EPci
    }

    /// The models against which the history of a run is checked by default. No session guarantee is among
    /// them: clients switch between nodes.
    pub fn models(self) -> &'static [Model] {
        match self {
            ProtocolChoice::RampFast
            | ProtocolChoice::RampSmall
            | ProtocolChoice::RampHybrid
            | ProtocolChoice::Nwnr => &[Model::ReadAtomic],
            ProtocolChoice::Locking => &[Model::StrictSerializable],
            ProtocolChoice::Score | ProtocolChoice::Bumper => &[Model::Serializable],
            ProtocolChoice::LockingShort | ProtocolChoice::Lwnr => &[Model::ReadCommitted],
            ProtocolChoice::EPci => &[Model::ReadAtomic, Model::Causal],
        }
    }

    /// Finds the protocol of this name.
    pub fn by_name(name: &str) -> Option<ProtocolChoice> {
        ProtocolChoice::ALL
            .into_iter()
            .find(|choice| choice.name() == name)
    }
}

/// An application, its initial database, its calls and its settings.
pub trait Experiment {
    /// The application, and the answers that it permits.
    fn workload(&self) -> &dyn Workload;

    /// The settings of its run.
    fn settings(&self) -> &Settings;

    /// Item operations of a transaction, if throughput is counted in them.
    fn operations(&self) -> Option<usize> {
        None
    }

    /// The size of its database in words. Experiments that can share a data folder have the same.
    fn size(&self) -> String;

    /// About how many rows its database has, for a progress bar.
    fn rows(&self) -> u64;

    /// Fills one store for each partition; adds to `loaded` as rows are loaded.
    ///
    /// # Errors
    /// When the schema is not the experiment's.
    fn fill(
        &self,
        planned: &Arc<PlannedApplication>,
        settings: StoreSettings,
        loaded: &AtomicU64,
    ) -> Result<Vec<Store>, FillError>;

    /// The calls in order. One driver makes them, for all clients.
    ///
    /// # Errors
    /// When the schema is not the experiment's.
    fn caller(&self, planned: &PlannedApplication) -> Result<Box<dyn Caller>, FillError>;
}

/// The settings of an experiment.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The number of nodes; each has one partition.
    pub partitions: u16,
    /// Calls in flight at any time.
    pub clients: usize,
    /// How long to measure.
    pub duration: Duration,
    /// How long to run before measuring.
    pub warmup: Duration,
    /// One-way delay between partitions.
    pub delay: Duration,
    /// The seed of the database and of the calls.
    pub seed: u64,
    /// Whether to sample the nodes' activity while measuring.
    pub code_path: bool,
    /// Whether to record a history of the whole run, warm-up included.
    pub recorded: bool,
    /// Memory that the process reserves before the first run, in bytes.
    pub reserved: u64,
    /// The size of RAMP-Hybrid's filters.
    pub filter: FilterSize,
    /// For the experiment with blocked writes (ramp.txt §5.3): of a million RAMP transactions over several
    /// partitions, the number whose commit messages are lost. Their participants run the termination
    /// protocol.
    pub lost_commits: u32,
    /// How long a RAMP participant waits for the decision on a prepared transaction before it starts the
    /// termination protocol. The default is [`BLOCKED_AFTER`] if commits are lost, and otherwise that of
    /// [`anabranch_protocol::ramp::RampOptions::terminate_after`].
    pub terminate_after: Option<Duration>,
    /// One-phase writes, under RAMP: see [`anabranch_protocol::ramp::RampOptions::one_phase`].
    pub one_phase: bool,
    /// Causal consistency, under RAMP: see [`anabranch_protocol::ramp::RampOptions::causal`].
    pub causal: bool,
}

/// How long a participant waits for the decision on a blocked write by default. This is several times the latency
/// of a transaction on the embedded cluster with as many clients as figures have (the median is a millisecond, the
/// 99th percentile above four), so that no slow transaction counts as blocked. Waiting transactions cost memory,
/// which is what blocked writes cost there.
pub const BLOCKED_AFTER: Duration = Duration::from_millis(10);

/// Why an experiment cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExperimentError {
    /// A setting makes no sense.
    Setting {
        /// The option's name on the command line.
        name: &'static str,
        /// What is wrong and what to do.
        message: String,
    },
    /// The database does not fit into this machine's memory.
    Memory {
        /// The database.
        database: Database,
        /// The memory that is available, in bytes.
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
                "error: --{what}: {} {what} take about {:.1} GiB, and {:.1} GiB of this machine's memory can \
                 be used; ask for at most {}",
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

/// The most partitions that one process may run as threads.
pub const PARTITIONS_MAX: u16 = 256;

/// The size of a database, in units that an option sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Database {
    /// The unit in the plural; the option that sets it has the same name.
    pub what: &'static str,
    /// The number of units.
    pub count: u64,
    /// About how much memory a unit takes, in bytes.
    pub bytes_each: u64,
}

impl Database {
    fn bytes(&self) -> u64 {
        self.count.saturating_mul(self.bytes_each)
    }
}

/// Refuses a setting by its option's name on the command line.
///
/// # Errors
/// Always.
pub fn refuse<T>(name: &'static str, message: impl Into<String>) -> Result<T, ExperimentError> {
    let message = message.into();
    Err(ExperimentError::Setting { name, message })
}

impl Settings {
    /// Checks the settings for a database of this size, before anything is loaded.
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
        // Half of it stays free for rows that the run adds, and for other processes.
        let Some(available) = available.map(|bytes| bytes / 2) else {
            return Ok(());
        };
        if self.reserved > available {
            return refuse(
                "--reserve-mb",
                format!(
                    "{} MiB of this machine's memory can be used, not {}",
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

/// The machine's available memory in bytes, where the system reports it.
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
    fn invalid_settings_are_refused_by_name() {
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
    fn a_database_that_memory_cannot_hold_is_refused_with_the_largest_that_fits() {
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
            "error: --reserve-mb: 4096 MiB of this machine's memory can be used, not 5120"
        );
    }
}
