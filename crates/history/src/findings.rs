//! The findings of a check in progress.

use std::collections::BTreeMap;

use crate::graph::Step;
use crate::history::History;
use crate::numbers::{ItemNumber, TransactionNumber};
use crate::phenomenon::Phenomenon;
use crate::verdict::{Anomaly, EXAMPLES_MAX, Verdict};
use crate::{Model, explain};

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
