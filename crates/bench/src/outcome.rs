//! What a run measured, in the form that other programs read
//! (`docs/schemas/bench.schema.json`).

use std::collections::BTreeMap;

use serde::Serialize;

/// All runs of one experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The version of this form.
    pub version: u32,
    /// What was asked for, the same for all runs.
    pub experiment: serde_json::Value,
    /// One run a protocol, in the order run.
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
    /// Item operations of committed transactions a second; absent where nobody counts in them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations_per_s: Option<f64>,
    /// Latency of committed transactions as clients saw it.
    pub latency_ms: Latency,
    /// Transactions rolled back and attempts retried, by reason.
    pub aborts: BTreeMap<String, u64>,
    /// Messages between nodes for each committed transaction; absent where they are not counted.
    pub messages_per_transaction: Option<f64>,
    /// For how long requests waited for other transactions, for each committed transaction, in
    /// milliseconds; absent where it is not counted.
    pub blocked_ms_per_transaction: Option<f64>,
    /// Rounds of reads after the first, for each committed transaction: they repaired a fracture, or
    /// asked whether there was one.
    pub second_rounds_per_transaction: Option<f64>,
    /// Times that a Bloom filter let a reader ask in vain, for each committed transaction.
    pub false_positives_per_transaction: Option<f64>,
    /// For how long was measured, in seconds.
    pub seconds: f64,
    /// Committed transactions while measured.
    pub transactions: u64,
    /// Each consistency condition after the run: whether it held.
    pub conditions: BTreeMap<String, bool>,
    /// The share (0 to 1) of busy nodes' time that went into each activity; absent unless asked
    /// for.
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
    /// By what runs are compared: New-Orders, item operations, or else transactions a second.
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
