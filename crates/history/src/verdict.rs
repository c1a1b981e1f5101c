//! Verdicts: the result of a check.

use std::collections::BTreeMap;

use crate::Model;
use crate::graph::Dependency;
use crate::phenomenon::Phenomenon;

/// How many examples of one phenomenon are explained; the others are counted.
pub const EXAMPLES_MAX: u64 = 3;

/// Whether a history satisfies a model, and if not, why.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The model.
    pub model: Model,
    /// The number of committed transactions, which are the ones checked.
    pub transactions: usize,
    /// The number of cases of each phenomenon. A strongly connected component counts once.
    pub counts: BTreeMap<Phenomenon, u64>,
    /// Explained cases: at most [`EXAMPLES_MAX`] of each phenomenon.
    pub anomalies: Vec<Anomaly>,
}

/// One case of a phenomenon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Its name.
    pub phenomenon: Phenomenon,
    /// The transactions involved, in the order of the cycle.
    pub transactions: Vec<Participant>,
    /// The cycle, each step with its reason; a single step for a phenomenon without a cycle.
    pub steps: Vec<AnomalyStep>,
}

/// A transaction of an anomaly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant {
    /// Its name.
    pub name: String,
    /// The procedure that was called, with its arguments.
    pub call: Option<String>,
    /// Its line in the file; 0 if it has none.
    pub line: u64,
    /// Its relevant operations in order: `r x = T1`, `w y`.
    pub operations: Vec<String>,
}

/// One step of a cycle: `from` precedes `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnomalyStep {
    /// Place in [`Anomaly::transactions`].
    pub from: usize,
    /// Place in [`Anomaly::transactions`].
    pub to: usize,
    /// The kind of dependency.
    pub dependency: Dependency,
    /// The item, for dependencies on an item.
    pub item: Option<String>,
    /// The reason in words.
    pub reason: String,
}

impl Verdict {
    /// Whether the history satisfies the model.
    pub fn is_satisfied(&self) -> bool {
        self.counts.is_empty()
    }
}
