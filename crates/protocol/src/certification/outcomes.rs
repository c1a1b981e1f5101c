//! What became of transactions in batches that their sites are not known to have delivered.
//!
//! A site that takes another one's state does not deliver the batches which that includes, its own among them. Then the
//! outcomes of its transactions are among these. They are few: a site that is away broadcasts nothing.

use std::collections::BTreeMap;

use anabranch_types::Timestamp;
use serde::{Deserialize, Serialize};

use crate::contract::{Slots, TransactionId};
use crate::order::{BatchId, Orderer};

/// A transaction that has committed. One of a delivered batch that has no outcome was aborted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommittedOutcome {
    /// Its batch.
    pub batch: BatchId,
    /// The transaction.
    pub transaction: TransactionId,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// The values that its deferred effects produced.
    pub slots: Slots,
}

/// The outcomes that a site keeps, by batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcomes {
    by_batch: BTreeMap<BatchId, Vec<CommittedOutcome>>,
    /// The number of batches at which old ones are looked for.
    look_at: usize,
}

/// Old outcomes are looked for after so many batches, or after as many as were left the last time.
const LOOK_MIN: usize = 64;

impl Outcomes {
    /// These outcomes alone.
    pub(super) fn of(all: Vec<CommittedOutcome>) -> Outcomes {
        let mut outcomes = Outcomes::default();
        all.into_iter().for_each(|one| outcomes.add(one));
        outcomes
    }

    /// Keeps an outcome.
    pub(super) fn add(&mut self, outcome: CommittedOutcome) {
        let batch = outcome.batch;
        self.by_batch.entry(batch).or_default().push(outcome);
    }

    /// Drops what its site is known to have delivered, now and then.
    pub(super) fn prune(&mut self, orderer: &impl Orderer) {
        if self.by_batch.len() < self.look_at.max(LOOK_MIN) {
            return;
        }
        self.by_batch
            .retain(|batch, _| !orderer.delivered_at(batch.site).contains(*batch));
        self.look_at = 2 * self.by_batch.len();
    }

    /// Those that another site may need.
    pub(super) fn needed(&self, orderer: &impl Orderer) -> Vec<CommittedOutcome> {
        let batches = self.by_batch.iter();
        let needed =
            batches.filter(|(batch, _)| !orderer.delivered_at(batch.site).contains(**batch));
        needed.flat_map(|(_, all)| all).cloned().collect()
    }
}
