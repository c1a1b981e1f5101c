//! The modes of a soak: options of the simulator, with the protocols, workloads and fault profiles that support them.

/// A mode.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mode {
    /// Its name in the state, the summary and the names of cases.
    pub(super) name: &'static str,
    /// Arguments of `anabranch sim`, beside the workload, the protocol and the faults.
    pub(super) arguments: &'static [&'static str],
    pub(super) workloads: &'static [&'static str],
    pub(super) protocols: &'static [&'static str],
    pub(super) profiles: &'static [&'static str],
}

const RAMPS: &[&str] = &["ramp-fast", "ramp-small", "ramp-hybrid"];
const PROTOCOLS: &[&str] = &["ramp-fast", "ramp-small", "ramp-hybrid", "locking"];

const ALL: &[&str] = &[
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
];

/// Workloads that only assign columns of existing rows: quorums support no others.
const ASSIGNING: &[&str] = &["register", "ycsb"];

/// Workloads with updates that commute: sticky clusters and Prepare-F support no others.
const MERGING: &[&str] = &["register", "ycsb", "tally"];

const PROFILES: &[&str] = &["none", "mild", "long_outage", "storm"];

/// All modes.
pub(super) const MODES: &[Mode] = &[
    Mode {
        name: "plain",
        arguments: &[],
        workloads: ALL,
        protocols: PROTOCOLS,
        profiles: PROFILES,
    },
    Mode {
        name: "switching",
        arguments: &["--clients-switch-nodes"],
        workloads: &["register", "counter", "bank"],
        protocols: PROTOCOLS,
        profiles: &["storm"],
    },
    Mode {
        name: "one-phase",
        arguments: &["--one-phase", "--clients-switch-nodes"],
        workloads: &["register", "counter", "bank", "tpcc"],
        protocols: RAMPS,
        profiles: &["storm", "long_outage"],
    },
    Mode {
        name: "causal",
        arguments: &["--causal", "--clients-switch-nodes"],
        workloads: &["register", "ycsb", "counter", "bank"],
        protocols: RAMPS,
        profiles: &["storm", "long_outage"],
    },
    // Clients that carry their causal context to other nodes.
    Mode {
        name: "causal-one-phase",
        arguments: &["--causal", "--clients-switch-nodes", "--one-phase"],
        workloads: &["replies", "register"],
        protocols: RAMPS,
        profiles: PROFILES,
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
        profiles: &["mild", "long_outage", "permanent_loss", "storm"],
    },
    Mode {
        name: "sticky",
        arguments: &["--clusters", "2"],
        workloads: MERGING,
        protocols: RAMPS,
        profiles: PROFILES,
    },
    Mode {
        name: "sticky-switching",
        arguments: &["--clusters", "3", "--clients-switch-nodes"],
        workloads: MERGING,
        protocols: RAMPS,
        profiles: &["storm"],
    },
    Mode {
        name: "prepare-f",
        arguments: &["--clusters", "3", "--prepare-f", "1"],
        workloads: MERGING,
        protocols: RAMPS,
        profiles: PROFILES,
    },
    Mode {
        name: "quorum",
        arguments: &["--clusters", "3", "--quorum=5000"],
        workloads: ASSIGNING,
        protocols: RAMPS,
        profiles: PROFILES,
    },
    Mode {
        name: "quorum-switching",
        arguments: &[
            "--clusters",
            "5",
            "--nodes",
            "2",
            "--quorum=1000",
            "--clients-switch-nodes",
        ],
        workloads: ASSIGNING,
        protocols: RAMPS,
        profiles: &["storm", "long_outage"],
    },
    // Sites, each with all of the data.
    Mode {
        name: "sites",
        arguments: &[],
        workloads: ALL,
        protocols: &["alvin", "epaxos", "multipaxos"],
        profiles: PROFILES,
    },
    Mode {
        name: "sites-eus",
        arguments: &["--consistency", "eus"],
        workloads: ALL,
        protocols: &["alvin", "epaxos", "multipaxos"],
        profiles: &["storm", "long_outage"],
    },
    Mode {
        name: "sites-guards",
        arguments: &["--order-over", "guards", "--nodes", "5"],
        workloads: ALL,
        protocols: &["alvin", "epaxos", "multipaxos"],
        profiles: PROFILES,
    },
    Mode {
        name: "sites-fast",
        arguments: &[
            "--fast-decisions",
            "on",
            "--nodes",
            "5",
            "--clients-switch-nodes",
        ],
        workloads: ALL,
        protocols: &["alvin"],
        profiles: PROFILES,
    },
    // Sites that were away take another one's state.
    Mode {
        name: "sites-transfers",
        arguments: &["--retained-max", "2"],
        workloads: ALL,
        protocols: &["alvin"],
        profiles: &["storm", "long_outage"],
    },
    Mode {
        name: "sites-transfers-eus",
        arguments: &["--retained-max", "0", "--consistency", "eus"],
        workloads: ALL,
        protocols: &["alvin"],
        profiles: &["storm", "long_outage"],
    },
];

impl Mode {
    /// The mode of this name.
    pub(super) fn named(name: &str) -> Option<&'static Mode> {
        MODES.iter().find(|mode| mode.name == name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::combinations;
    use super::*;

    /// Otherwise a mode without a turn, or two with the same name, would go unnoticed.
    #[test]
    fn every_mode_has_turns_of_its_own() {
        let all = combinations();
        let names: BTreeSet<String> = all.iter().map(|one| one.name()).collect();
        assert_eq!(
            names.len(),
            all.len(),
            "two combinations have the same name"
        );
        for mode in MODES {
            let of_it = all.iter().filter(|one| one.mode == mode);
            let count = mode.workloads.len() * mode.protocols.len() * mode.profiles.len();
            assert_eq!(of_it.count(), count, "{}", mode.name);
            assert_eq!(Mode::named(mode.name), Some(mode));
        }
    }
}
