//! What operations cost a PostgreSQL server, in processor time of the connection's process.
//!
//! `measure` calls every operation of both applications over a benchmark's data, alone; inside a hold of the belt, with its
//! capture; and applies what it has captured on a second server. [`Costs::built_in`] is one such measurement
//! (`crates/bench/belt-costs.json`), which simulated figures use:
//!
//! ```text
//! cargo test -p anabranch-bench --lib -- --ignored --nocapture prints_costs
//! ```
//!
//! prints the file anew.

#[cfg(test)]
mod measure;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::traffic::Application;

/// Cores of a server: those of the paper's T2 Medium.
pub(super) const CORES: u16 = 2;

/// What one operation costs, in nanoseconds of processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OperationCosts {
    /// Run alone, as a serializable transaction.
    pub(super) plain: u64,
    /// Run inside a hold, captured. 0 if it only reads.
    pub(super) global: u64,
    /// Applied on another server. 0 if it only reads.
    pub(super) apply: u64,
    /// Changed rows.
    pub(super) rows: u16,
}

/// All costs, in nanoseconds of processor time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Costs {
    /// Where they were measured.
    pub(super) measured: String,
    /// By procedure; the names of both applications differ.
    pub(super) operations: BTreeMap<String, OperationCosts>,
    /// A transaction of one statement that changes a row by its key.
    pub(super) statement: u64,
    /// PREPARE TRANSACTION.
    pub(super) prepare: u64,
    /// COMMIT PREPARED.
    pub(super) commit_prepared: u64,
    /// The transaction that receives a token, without its updates.
    pub(super) receive: u64,
    /// The transaction that passes a token.
    pub(super) pass: u64,
    /// What a middleware adds to an operation.
    pub(super) middleware: u64,
    /// An operation of §7.3, besides its sleep.
    pub(super) fixed: u64,
    /// What capturing adds to it.
    pub(super) fixed_capture: u64,
    /// Applying it.
    pub(super) fixed_apply: u64,
}

impl Costs {
    /// The built-in measurement.
    ///
    /// # Panics
    /// Never: a test reads it.
    pub(super) fn built_in() -> Costs {
        let text = include_str!("../../../belt-costs.json");
        serde_json::from_str(text).expect("the built-in costs are JSON")
    }

    /// The costs of an operation.
    pub(super) fn of(&self, _: Application, name: &str) -> &OperationCosts {
        self.of_name(name)
    }

    /// The costs of an operation.
    ///
    /// # Panics
    /// When it has none: the built-in costs have all, as a test shows.
    pub(super) fn of_name(&self, name: &str) -> &OperationCosts {
        let found = self.operations.get(name);
        found.unwrap_or_else(|| panic!("no costs of {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_costs_have_every_operation() {
        let costs = Costs::built_in();
        for application in Application::ALL {
            for name in application.workload().procedures() {
                let of = costs.of_name(name);
                assert!(of.plain > 10_000, "{name}: {of:?}");
                assert!(of.global == 0 || of.global > of.plain / 2, "{name}: {of:?}");
            }
        }
        assert!(costs.operations["do_buy_confirm"].apply > 0);
        assert!(costs.prepare > 0 && costs.receive > 0 && costs.pass > 0);
    }
}
