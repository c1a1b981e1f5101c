//! The modes that are soaked: what of the simulator's options goes with which protocols, workloads and faults.

/// A way to run protocols.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mode {
    /// What it is called in the state, the summary and the names of cases.
    pub(super) name: &'static str,
    /// What `anabranch sim` is told beside the workload, the protocol and the faults.
    pub(super) arguments: &'static [&'static str],
    pub(super) workloads: &'static [&'static str],
    pub(super) protocols: &'static [&'static str],
    pub(super) levels: &'static [&'static str],
}

const RAMPS: &[&str] = &["ramp-fast", "ramp-small", "ramp-hybrid"];
const PROTOCOLS: &[&str] = &["ramp-fast", "ramp-small", "ramp-hybrid", "locking"];

/// Those that assign columns of rows that are there, which is all that copies run.
const BLIND: &[&str] = &["register", "ycsb"];

/// Those whose columns merge in any order, which is what clusters run that take over from each other.
const MERGING: &[&str] = &["register", "ycsb", "tally"];

const LEVELS: &[&str] = &["none", "mild", "absence", "storm"];

/// All of them.
pub(super) const MODES: &[Mode] = &[
    Mode {
        name: "plain",
        arguments: &[],
        workloads: &[
            "register",
            "tally",
            "replies",
            "ycsb",
            "counter",
            "bank",
            "departments",
            "smallbank",
            "payroll",
            "tpcc",
        ],
        protocols: PROTOCOLS,
        levels: LEVELS,
    },
    Mode {
        name: "roaming",
        arguments: &["--roaming"],
        workloads: &["register", "counter", "bank"],
        protocols: PROTOCOLS,
        levels: &["storm"],
    },
    Mode {
        name: "one-phase",
        arguments: &["--one-phase", "--roaming"],
        workloads: &["register", "counter", "bank", "tpcc"],
        protocols: RAMPS,
        levels: &["storm", "absence"],
    },
    Mode {
        name: "causal",
        arguments: &["--causal", "--roaming"],
        workloads: &["register", "ycsb", "counter", "bank"],
        protocols: RAMPS,
        levels: &["storm", "absence"],
    },
    // For clients that bring along what they have seen and written.
    Mode {
        name: "causal-one-phase",
        arguments: &["--causal", "--roaming", "--one-phase"],
        workloads: &["replies", "register"],
        protocols: RAMPS,
        levels: LEVELS,
    },
    Mode {
        name: "replicas",
        arguments: &["--replicas", "3"],
        workloads: &[
            "register",
            "counter",
            "bank",
            "departments",
            "smallbank",
            "tpcc",
        ],
        protocols: PROTOCOLS,
        levels: &["mild", "absence", "death", "storm"],
    },
    Mode {
        name: "sticky",
        arguments: &["--clusters", "2"],
        workloads: MERGING,
        protocols: RAMPS,
        levels: LEVELS,
    },
    Mode {
        name: "sticky-roaming",
        arguments: &["--clusters", "3", "--roaming"],
        workloads: MERGING,
        protocols: RAMPS,
        levels: &["storm"],
    },
    Mode {
        name: "prepare-f",
        arguments: &["--clusters", "3", "--prepare-f", "1"],
        workloads: MERGING,
        protocols: RAMPS,
        levels: LEVELS,
    },
    Mode {
        name: "quorum",
        arguments: &["--clusters", "3", "--quorum=5000"],
        workloads: BLIND,
        protocols: RAMPS,
        levels: LEVELS,
    },
    Mode {
        name: "quorum-roaming",
        arguments: &[
            "--clusters",
            "5",
            "--nodes",
            "2",
            "--quorum=1000",
            "--roaming",
        ],
        workloads: BLIND,
        protocols: RAMPS,
        levels: &["storm", "absence"],
    },
];

impl Mode {
    /// The one of this name.
    pub(super) fn named(name: &str) -> Option<&'static Mode> {
        MODES.iter().find(|mode| mode.name == name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::combinations;
    use super::*;

    /// A mode that is in no round, or two that write the same state, would not be noticed.
    #[test]
    fn every_mode_has_turns_of_its_own() {
        let all = combinations();
        let names: BTreeSet<String> = all.iter().map(|one| one.name()).collect();
        assert_eq!(names.len(), all.len(), "two have one name");
        for mode in MODES {
            let of_it = all.iter().filter(|one| one.mode == mode);
            let count = mode.workloads.len() * mode.protocols.len() * mode.levels.len();
            assert_eq!(of_it.count(), count, "{}", mode.name);
            assert_eq!(Mode::named(mode.name), Some(mode));
        }
    }
}
