//! What the steps of a site cost, in processor time.
//!
//! Sites certify batches, so a step's cost is a line over the number of transactions that it certifies.
//! [`SiteCosts::built_in`] is one measurement (`crates/bench/alvin-costs.json`):
//!
//! ```text
//! cargo test --release -p anabranch-bench --lib -- --ignored --nocapture prints_costs_of_sites
//! ```
//!
//! prints the file anew.

#[cfg(test)]
mod measure;

use anabranch_sim::ProtocolName;
use anabranch_sim::cost::{Costs, StepCost};
use serde::{Deserialize, Serialize};

/// The steps of one workload under one protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Measured {
    /// The workload: `tpcc` or `bank`.
    pub(super) workload: String,
    /// The protocol.
    pub(super) protocol: String,
    /// By kind of step.
    pub(super) steps: Vec<StepCost>,
}

/// All costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SiteCosts {
    /// Where, when and with which build they were measured.
    pub(super) measured: String,
    /// Nanoseconds to send, and again to receive, one message between sites.
    pub(super) message_nanos: f64,
    /// Nanoseconds to receive a client's call, and again to send its answer.
    pub(super) client_nanos: f64,
    /// The steps.
    pub(super) steps: Vec<Measured>,
}

impl SiteCosts {
    /// The built-in measurement.
    ///
    /// # Panics
    /// Never: a test reads it.
    pub(super) fn built_in() -> SiteCosts {
        let text = include_str!("../../../alvin-costs.json");
        serde_json::from_str(text).expect("the built-in costs are JSON")
    }

    /// The costs of a workload under a protocol.
    ///
    /// # Panics
    /// When it has none: the built-in costs have all, as a test shows.
    pub(super) fn of(&self, workload: &str, protocol: ProtocolName) -> Costs {
        let protocol = protocol.name();
        let mut all = self.steps.iter();
        let found = all.find(|it| it.workload == workload && it.protocol == protocol);
        let found = found.unwrap_or_else(|| panic!("no costs of {workload} under {protocol}"));
        Costs {
            calibration: self.measured.clone(),
            message_nanos: self.message_nanos,
            client_nanos: self.client_nanos,
            // Certification has no guarded increments.
            guard_nanos: 0.0,
            steps: found.steps.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::System;
    use super::*;

    #[test]
    fn the_built_in_costs_have_every_protocol() {
        let costs = SiteCosts::built_in();
        for workload in ["tpcc", "bank"] {
            for system in System::ALL {
                let of = costs.of(workload, system.protocol());
                let certifies = |it: &&StepCost| it.certified_nanos > 100.0;
                assert!(of.steps.iter().any(|it| certifies(&it)), "{system:?}");
            }
        }
    }
}
