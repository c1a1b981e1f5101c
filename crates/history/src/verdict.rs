//! Verdicts: the result of a check.

use std::collections::BTreeMap;

use crate::graph::{Dependency, Step};
use crate::history::{History, ItemNumber, TransactionNumber};
use crate::phenomenon::Phenomenon;
use crate::{Model, explain};

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

/// Collects the findings of a check.
pub(crate) struct Findings<'h> {
    pub(crate) history: &'h History,
    counts: BTreeMap<Phenomenon, u64>,
    anomalies: Vec<Anomaly>,
}

impl<'h> Findings<'h> {
    pub(crate) fn new(history: &'h History) -> Findings<'h> {
        Findings {
            history,
            counts: BTreeMap::new(),
            anomalies: Vec::new(),
        }
    }

    /// Adds a cycle.
    pub(crate) fn add_cycle(&mut self, phenomenon: Phenomenon, cycle: &[Step]) {
        if self.counted(phenomenon) {
            let anomaly = explain::cycle(self.history, phenomenon, cycle);
            self.anomalies.push(anomaly);
        }
    }

    /// Adds a phenomenon of a single read or write.
    pub(crate) fn add_direct(
        &mut self,
        phenomenon: Phenomenon,
        transaction: TransactionNumber,
        item: ItemNumber,
        other: Option<TransactionNumber>,
    ) {
        if self.counted(phenomenon) {
            let anomaly = explain::direct(self.history, phenomenon, transaction, item, other);
            self.anomalies.push(anomaly);
        }
    }

    /// Counts a case. Returns whether it is to be explained.
    fn counted(&mut self, phenomenon: Phenomenon) -> bool {
        let count = self.counts.entry(phenomenon).or_default();
        *count += 1;
        *count <= EXAMPLES_MAX
    }

    pub(crate) fn has(&self, phenomenon: Phenomenon) -> bool {
        self.counts.contains_key(&phenomenon)
    }

    pub(crate) fn into_verdict(mut self, model: Model) -> Verdict {
        self.anomalies.sort_by_key(|anomaly| anomaly.phenomenon);
        Verdict {
            model,
            transactions: self.history.committed(),
            counts: self.counts,
            anomalies: self.anomalies,
        }
    }
}
