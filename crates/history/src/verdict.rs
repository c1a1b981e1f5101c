//! What a check comes to.

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
    /// How many transactions have committed, and so were judged.
    pub transactions: usize,
    /// How many cases of each phenomenon were found. A knot of many cycles counts once.
    pub counts: BTreeMap<Phenomenon, u64>,
    /// Some of them, explained: at most [`EXAMPLES_MAX`] of each.
    pub anomalies: Vec<Anomaly>,
}

/// One case of a phenomenon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Its name.
    pub phenomenon: Phenomenon,
    /// The transactions concerned, in the order in which the cycle meets them.
    pub transactions: Vec<Participant>,
    /// The cycle, each step with its reason; for a phenomenon without a cycle, the one step that
    /// is wrong.
    pub steps: Vec<AnomalyStep>,
}

/// A transaction of an anomaly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant {
    /// Its name.
    pub name: String,
    /// The procedure that was called, with its arguments.
    pub call: Option<String>,
    /// Its line in the file; 0 where it came from elsewhere.
    pub line: u64,
    /// What it did that matters here, in order: `r x = T1`, `w y`.
    pub operations: Vec<String>,
}

/// One step of a cycle: `from` comes before `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnomalyStep {
    /// Place in [`Anomaly::transactions`].
    pub from: usize,
    /// Place in [`Anomaly::transactions`].
    pub to: usize,
    /// Why.
    pub dependency: Dependency,
    /// The item, where it is about one.
    pub item: Option<String>,
    /// The reason in words.
    pub words: String,
}

impl Verdict {
    /// Whether the history satisfies the model.
    pub fn is_satisfied(&self) -> bool {
        self.counts.is_empty()
    }
}

/// Gathers what a check finds.
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

    /// Adds a case that is a cycle.
    pub(crate) fn add_cycle(&mut self, phenomenon: Phenomenon, cycle: &[Step]) {
        if self.counted(phenomenon) {
            let anomaly = explain::cycle(self.history, phenomenon, cycle);
            self.anomalies.push(anomaly);
        }
    }

    /// Adds a case that one step shows.
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

    /// Counts a case; whether it is to be explained.
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
