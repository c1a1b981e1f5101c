//! The results of runs as JSON (`docs/schemas/bench.schema.json`).

use std::collections::BTreeMap;

use serde::Serialize;

/// All runs of one experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The version of the format.
    pub version: u32,
    /// The parameters, the same for all runs.
    pub experiment: serde_json::Value,
    /// One run for each protocol, in the order of the runs.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The protocol's name on the command line, or `postgres`.
    pub protocol: String,
    /// Committed transactions of all types a second.
    pub transactions_per_s: f64,
    /// Committed New-Orders a second; absent where the workload has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_orders_per_s: Option<f64>,
    /// Item operations of committed transactions a second; absent where the workload has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations_per_s: Option<f64>,
    /// Latency of committed transactions at their clients.
    pub latency_ms: Latency,
    /// Transactions rolled back and attempts retried, by reason.
    pub aborts: BTreeMap<String, u64>,
    /// Messages between nodes for each committed transaction; absent where they are not counted.
    pub messages_per_transaction: Option<f64>,
    /// How long requests waited for other transactions, for each committed transaction, in milliseconds;
    /// absent where it is not counted.
    pub blocked_ms_per_transaction: Option<f64>,
    /// Rounds of reads after the first, for each committed transaction: they repaired a fractured read, or
    /// checked for one.
    pub second_rounds_per_transaction: Option<f64>,
    /// False positives of Bloom filters, for each committed transaction: needless second-round requests.
    pub false_positives_per_transaction: Option<f64>,
    /// How long the run was measured, in seconds.
    pub seconds: f64,
    /// Transactions that committed while the run was measured.
    pub transactions: u64,
    /// Each consistency condition after the run: whether it held.
    pub conditions: BTreeMap<String, bool>,
    /// The share (0 to 1) of busy nodes' time in each activity; present if the experiment samples it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_path: Option<BTreeMap<String, f64>>,
}

/// Latency in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
}

impl Run {
    /// The rate by which runs are compared: New-Orders, item operations, or else transactions a second.
    pub fn rate(&self) -> f64 {
        self.new_orders_per_s
            .or(self.operations_per_s)
            .unwrap_or(self.transactions_per_s)
    }

    /// Whether every condition held (true also when none was checked).
    pub fn is_consistent(&self) -> bool {
        self.conditions.values().all(|held| *held)
    }
}
