//! What an owner remembers of transactions over several partitions, so that readers can be told of them:
//! until they have been stable for so long that no reader needs it (RAMP-I6).

use std::sync::Arc;

use anabranch_storage::{CommitSequence, ItemTag};
use anabranch_types::Timestamp;

use super::{Participant, Recent};
use crate::ramp::message::{Evidence, Known, Slots};
use crate::ramp::siblings::Trace;
use crate::ramp::stability::Stability;

impl Participant {
    /// The transactions in a snapshot that wrote what was read, except those that were known to be
    /// stable. Their tags tell, not the versions: a version may have been replaced since, and a row
    /// may have gone or left the range that was read.
    pub(super) fn evidence(
        &mut self,
        footprint: &[ItemTag],
        snapshot: CommitSequence,
        known: &Known,
    ) -> Vec<Evidence> {
        let mut evidence = Vec::new();
        for node in 0..self.shown.len() {
            let known = known.of(node);
            if self.shown_max[node] <= known {
                continue;
            }
            self.shown[node].find((known, snapshot), self.partition, footprint, |shown| {
                evidence.push(Evidence {
                    commit: shown.commit,
                    siblings: Arc::clone(&shown.trace.siblings),
                    past: shown.trace.past.clone(),
                    // Its name is its timestamp; so it is under Prepare-F, for all.
                    alone: self.causal && shown.trace.siblings.timestamp == shown.commit,
                });
            });
        }
        evidence
    }

    /// The first commit here of a transaction that somebody did not know to be stable.
    pub(super) fn first_unknown(&self, known: &Known) -> Option<CommitSequence> {
        let newest = self.shown_max.iter().enumerate();
        let first = newest.filter_map(|(node, newest)| {
            let (shown, known) = (&self.shown[node], known.of(node));
            if *newest <= known {
                return None;
            }
            let first = shown.all().get(shown.first_above(known))?;
            Some(first.sequence)
        });
        first.min()
    }

    /// Whether somebody who knows this to be stable may need evidence that is not there any more. By the
    /// clocks he does not: he began after what was forgotten had become stable. But clocks jump.
    pub(super) fn has_forgotten(&self, known: &Known) -> bool {
        let mut forgotten = self.forgotten.iter().enumerate();
        forgotten.any(|(node, forgotten)| known.of(node) < *forgotten)
    }

    /// Up to here nothing is remembered of an earlier life, or of another primary's.
    pub(in crate::ramp) fn forget_up_to(&mut self, settled: &Known) {
        for (node, forgotten) in self.forgotten.iter_mut().enumerate() {
            *forgotten = (*forgotten).max(settled.of(node));
        }
    }

    /// Forgets what no reader can need evidence of.
    pub(in crate::ramp) fn settle(&mut self, stability: &Stability) {
        for shown in &mut self.shown {
            while let Some(oldest) = shown.all().front()
                && stability.is_settled(oldest.commit)
            {
                self.settled = self.settled.max(oldest.sequence);
                let forgotten = &mut self.forgotten[oldest.commit.node().index()];
                *forgotten = oldest.commit.max(*forgotten);
                self.recent.remove(&oldest.commit);
                shown.pop();
            }
        }
        if !self.repeats.is_empty() {
            self.repeats
                .retain(|commit, _| !stability.is_settled(*commit));
        }
    }

    pub(super) fn remember(&mut self, sequence: CommitSequence, commit: Timestamp, trace: Trace) {
        let node = commit.node().index();
        self.shown_max[node] = self.shown_max[node].max(commit);
        self.shown[node].push(self.partition, sequence, commit, trace);
        let slots = Slots::new();
        self.recent.insert(commit, Recent { sequence, slots });
    }
}
