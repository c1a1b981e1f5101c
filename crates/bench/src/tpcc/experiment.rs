//! What an experiment is, and what is refused before anything is loaded.

use std::time::Duration;

use anabranch_history::Model;
use anabranch_protocol::locking::ReadLocks;
use anabranch_protocol::ramp::{FilterSize, Metadata};
use anabranch_workload::tpcc::{Distribution, Mix, Scale};

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

/// One experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The size of the database.
    pub scale: Scale,
    /// Nodes with one partition each.
    pub partitions: u16,
    /// Calls under way at any time, over all driver threads.
    pub clients: usize,
    /// For how long to measure.
    pub duration: Duration,
    /// For how long to run before measuring.
    pub warmup: Duration,
    /// How many New-Orders are distributed.
    pub distribution: Distribution,
    /// The mix of transactions.
    pub mix: Mix,
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
}

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
        /// Warehouses asked for.
        warehouses: u32,
        /// About how much they take, in bytes.
        needed: u64,
        /// How much there is, in bytes.
        available: u64,
    },
}

impl std::fmt::Display for ExperimentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ExperimentError::Setting { name, message } => write!(f, "error: {name}: {message}"),
            ExperimentError::Memory {
                warehouses,
                needed,
                available,
            } => write!(
                f,
                "error: --warehouses: {warehouses} warehouses take about {:.1} GiB and this \
                 machine has {:.1} GiB to give; ask for at most {}",
                gibibytes(*needed),
                gibibytes(*available),
                (u128::from(*warehouses) * u128::from(*available) / u128::from((*needed).max(1)))
                    .max(1)
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

impl Experiment {
    /// Refuses what cannot be run, before anything is loaded.
    ///
    /// # Errors
    /// The first setting that makes no sense.
    pub fn check(&self) -> Result<(), ExperimentError> {
        let setting = |name, message: String| Err(ExperimentError::Setting { name, message });
        if self.partitions == 0 || self.partitions > PARTITIONS_MAX {
            return setting(
                "--partitions",
                format!(
                    "has to be between 1 and {PARTITIONS_MAX}, not {}",
                    self.partitions
                ),
            );
        }
        if self.scale.warehouses == 0 {
            return setting("--warehouses", "has to be at least 1".to_owned());
        }
        if self.clients == 0 {
            return setting("--clients", "has to be at least 1".to_owned());
        }
        if self.duration.is_zero() {
            return setting("--seconds", "has to be more than 0".to_owned());
        }
        if let Distribution::Percent(percent) = self.distribution {
            if !(0.0..=100.0).contains(&percent) {
                return setting(
                    "--remote-percent",
                    format!("has to be between 0 and 100, not {percent}"),
                );
            }
            if percent > 0.0 && (self.partitions == 1 || self.scale.warehouses == 1) {
                return setting(
                    "--remote-percent",
                    "orders can be distributed over at least two partitions with a warehouse \
                     each: ask for --partitions 2 --warehouses 2"
                        .to_owned(),
                );
            }
        }
        self.check_memory(available_memory())
    }

    fn check_memory(&self, available: Option<u64>) -> Result<(), ExperimentError> {
        // Half of it stays free for what the run adds, and for everybody else.
        let Some(available) = available.map(|bytes| bytes / 2) else {
            return Ok(());
        };
        if self.reserved > available {
            return Err(ExperimentError::Setting {
                name: "--reserve-mb",
                message: format!(
                    "this machine has {} MiB to give, not {}",
                    available >> 20,
                    self.reserved >> 20
                ),
            });
        }
        let needed = u64::from(self.scale.warehouses).saturating_mul(self.scale.warehouse_bytes());
        if needed > available {
            let warehouses = self.scale.warehouses;
            return Err(ExperimentError::Memory {
                warehouses,
                needed,
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
mod tests {
    use super::*;

    fn experiment() -> Experiment {
        Experiment {
            scale: Scale::specified(2),
            partitions: 2,
            clients: 8,
            duration: Duration::from_secs(1),
            warmup: Duration::ZERO,
            distribution: Distribution::Percent(100.0),
            mix: Mix::FULL,
            delay: Duration::ZERO,
            seed: 1,
            code_path: false,
            recorded: false,
            reserved: 0,
            filter: FilterSize::default(),
        }
    }

    fn refused(change: impl FnOnce(&mut Experiment)) -> String {
        let mut experiment = experiment();
        change(&mut experiment);
        experiment.check().expect_err("refused").to_string()
    }

    #[test]
    fn senseless_settings_are_refused_by_name() {
        assert_eq!(experiment().check(), Ok(()));
        assert!(refused(|e| e.partitions = 0).contains("--partitions"));
        assert!(refused(|e| e.scale.warehouses = 0).contains("--warehouses"));
        assert!(refused(|e| e.clients = 0).contains("--clients"));
        assert!(refused(|e| e.duration = Duration::ZERO).contains("--seconds"));
        assert!(
            refused(|e| e.distribution = Distribution::Percent(101.0)).contains("--remote-percent")
        );
        assert!(refused(|e| e.partitions = 1).contains("--remote-percent"));
    }

    #[test]
    fn a_database_that_memory_cannot_hold_is_refused_with_what_would_fit() {
        let mut experiment = experiment();
        experiment.scale.warehouses = 1_000_000;
        let error = experiment
            .check_memory(Some(8 << 30))
            .expect_err("refused")
            .to_string();
        assert!(error.contains("at most 16"), "{error}");
        experiment.scale.warehouses = 1;
        experiment.reserved = 5 << 30;
        let error = experiment
            .check_memory(Some(8 << 30))
            .expect_err("refused")
            .to_string();
        assert_eq!(
            error,
            "error: --reserve-mb: this machine has 4096 MiB to give, not 5120"
        );
    }
}
