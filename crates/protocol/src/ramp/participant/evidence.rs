//! What an owner remembers of transactions over several partitions, so that readers can be told of them:
//! until they have been stable for so long that no reader needs it (RAMP-I6).

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_storage::{CommitSequence, ItemTag};
use anabranch_types::Timestamp;

use super::{Participant, Recent, Shown};
use crate::ramp::attempt::touches;
use crate::ramp::message::{Evidence, Known, Slots};
use crate::ramp::siblings::{Sketch, Trace};
use crate::ramp::stability::Stability;

/// How many of a node's transactions are looked at one by one before the others are searched.
const NEAR: usize = 6;

impl Participant {
    /// The transactions in a snapshot that wrote what was read, except those that were known to be
    /// stable. Their tags tell, not the versions: a version may have been replaced since, and a row
    /// may have gone or left the range that was read.
    pub(super) fn evidence(
        &self,
        footprint: &[ItemTag],
        snapshot: CommitSequence,
        known: &Known,
    ) -> Vec<Evidence> {
        let mut evidence = Vec::new();
        let read = Sketch::of_reads(footprint);
        for (shown, known) in self.unknown(known) {
            let at = first_above(shown, known);
            let news = shown
                .range(at..)
                .take_while(|next| next.sequence <= snapshot);
            for next in news.filter(|next| next.commit > known) {
                if read.meets(next.sketch) && touches(next.trace.written(self.partition), footprint)
                {
                    evidence.push(Evidence {
                        commit: next.commit,
                        siblings: Arc::clone(&next.trace.siblings),
                        past: next.trace.past.clone(),
                        // Its name is its timestamp; so it is under Prepare-F, for all.
                        alone: self.causal && next.trace.siblings.timestamp == next.commit,
                    });
                }
            }
        }
        evidence
    }

    /// The first commit here of a transaction that somebody did not know to be stable.
    pub(super) fn first_unknown(&self, known: &Known) -> Option<CommitSequence> {
        let first = |(shown, known): (&VecDeque<Shown>, Timestamp)| {
            let first = shown.get(first_above(shown, known))?;
            Some(first.sequence)
        };
        self.unknown(known).filter_map(first).min()
    }

    /// What was shown of each coordinator of which somebody does not know all of it to be stable, and
    /// up to where they know it.
    fn unknown(&self, known: &Known) -> impl Iterator<Item = (&VecDeque<Shown>, Timestamp)> {
        let news = self.shown_max.iter().enumerate();
        let news = news.filter_map(move |(node, max)| {
            let known = known.of(node);
            (*max > known).then_some((node, known))
        });
        news.map(|(node, known)| (&self.shown[node], known))
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
            while let Some(oldest) = shown.front()
                && stability.is_settled(oldest.commit)
            {
                self.settled = self.settled.max(oldest.sequence);
                let forgotten = &mut self.forgotten[oldest.commit.node().index()];
                *forgotten = oldest.commit.max(*forgotten);
                self.recent.remove(&oldest.commit);
                shown.pop_front();
            }
        }
        if !self.repeats.is_empty() {
            self.repeats
                .retain(|commit, _| !stability.is_settled(*commit));
        }
    }

    pub(super) fn remember(&mut self, sequence: CommitSequence, commit: Timestamp, trace: Trace) {
        let sketch = Sketch::of_writes(trace.written(self.partition));
        let node = commit.node().index();
        self.shown_max[node] = self.shown_max[node].max(commit);
        let shown = &mut self.shown[node];
        let before = shown.back().map_or(Timestamp::ZERO, |last| last.commit_max);
        shown.push_back(Shown {
            sequence,
            commit,
            commit_max: before.max(commit),
            trace,
            sketch,
        });
        let slots = Slots::new();
        self.recent.insert(commit, Recent { sequence, slots });
    }
}

/// The first of what was shown up to which something has committed above a timestamp. Mostly it is
/// among the last few, since all that is older is known to be stable.
fn first_above(shown: &VecDeque<Shown>, known: Timestamp) -> usize {
    let is_known = |earlier: &Shown| earlier.commit_max <= known;
    let near = shown.len().saturating_sub(NEAR);
    for at in (near..shown.len()).rev() {
        if is_known(&shown[at]) {
            return at + 1;
        }
    }
    shown.partition_point(is_known)
}
