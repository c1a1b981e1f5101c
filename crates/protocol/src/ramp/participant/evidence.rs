//! What an owner remembers of transactions over several partitions, so that readers can be told of them:
//! until they have been stable for so long that no reader needs it (RAMP-I6).

use std::sync::Arc;

use anabranch_storage::{CommitSequence, ItemTag};
use anabranch_types::Timestamp;
use smallvec::SmallVec;

use super::shown::Shown;
use super::writers::Assigned;
use super::{Commits, Participant, Recent};
use crate::ramp::attempt::Footprint;
use crate::ramp::message::{Evidence, Known, Slots};
use crate::ramp::siblings::Trace;
use crate::ramp::stability::Stability;

/// Of so many coordinators it is looked up at each read what the reader may have to be told of.
const COORDINATORS_FEW: usize = 8;

impl Participant {
    /// The transactions in a snapshot that wrote what was read and can be seen there, except those that were
    /// known to be stable. What they wrote tells, not the versions: a version may have been replaced since,
    /// and a row may have gone or left the range that was read.
    pub(super) fn evidence(
        &mut self,
        footprint: &[ItemTag],
        snapshot: CommitSequence,
        known: &Known,
    ) -> Vec<Evidence> {
        let mut found = Commits::new();
        let mut searched: Footprint = SmallVec::new();
        for tag in footprint {
            let unknown = |commit| {
                if !known.includes(commit) {
                    found.push(commit);
                }
            };
            if !self.writers.find(*tag, snapshot, unknown) {
                searched.push(*tag);
            }
        }
        if !searched.is_empty() {
            self.search(&searched, snapshot, known, &mut found);
        }
        found.sort_unstable();
        found.dedup();
        let shown = found.iter().filter_map(|commit| self.remembered(*commit));
        shown.map(|shown| self.evidence_of(shown)).collect()
    }

    /// Looks for those that wrote what was read among all.
    fn search(
        &mut self,
        footprint: &[ItemTag],
        snapshot: CommitSequence,
        known: &Known,
        found: &mut Commits,
    ) {
        for node in 0..self.shown.len() {
            let known = known.of(node);
            if self.shown_max[node] <= known {
                continue;
            }
            self.shown[node].find((known, snapshot), self.partition, footprint, |shown| {
                found.push(shown.commit);
            });
        }
        if self.reads_aside(known) {
            self.find_aside(footprint, snapshot, known, found);
        }
    }

    /// One that is remembered.
    pub(super) fn remembered(&self, commit: Timestamp) -> Option<&Shown> {
        let node = commit.node().index();
        let recent = self.recent.get(&commit)?;
        let shown = self.shown[node].at(recent.sequence);
        shown.or_else(|| self.aside[node].get(commit))
    }

    /// How many are.
    pub(in crate::ramp) fn evidence_kept(&self) -> usize {
        self.recent.len()
    }

    fn evidence_of(&self, shown: &Shown) -> Evidence {
        Evidence {
            commit: shown.commit,
            siblings: Arc::clone(&shown.trace.siblings),
            past: shown.trace.past.clone(),
            // Its name is its timestamp; so it is under Prepare-F, for all.
            alone: self.causal && shown.trace.siblings.timestamp == shown.commit,
        }
    }

    /// The first commit here of a transaction that somebody did not know to be stable, or an earlier one; none
    /// if there is none. Whoever reads nothing newer needs no evidence.
    pub(super) fn first_unknown(&self, known: &Known) -> Option<CommitSequence> {
        // News of each of many coordinators come seldom, so that most have something here that a reader
        // does not know to be stable. To find the first of all would take a cache miss or two for each
        // coordinator, at each read; it is cheaper to look at the few items that were written since
        // anything is remembered.
        let first = match self.shown.len() {
            0..=COORDINATORS_FEW => self.first_shown(known),
            _ => (!self.recent.is_empty()).then_some(self.shown_since),
        };
        match self.first_left_out(known) {
            Some(left_out) => Some(first.map_or(left_out, |first| first.min(left_out))),
            None => first,
        }
    }

    /// The first commit in `shown` of a transaction that somebody did not know to be stable.
    fn first_shown(&self, known: &Known) -> Option<CommitSequence> {
        let newest = self.shown_max.iter().enumerate();
        let first = newest.filter_map(|(node, newest)| {
            let (shown, known) = (&self.shown[node], known.floor(node));
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
    pub(super) fn has_forgotten(&self, known: &Known, stability: &Stability) -> bool {
        let mut forgotten = self.forgotten.iter().enumerate();
        forgotten.any(|(node, forgotten)| known.of(node) < *forgotten)
            || self.has_forgotten_aside(known, stability)
    }

    /// Up to here nothing is remembered of an earlier life, or of another primary's.
    pub(in crate::ramp) fn forget_up_to(&mut self, settled: &Known) {
        for node in 0..self.forgotten.len() {
            let settled = settled.of(node);
            self.forgotten[node] = self.forgotten[node].max(settled);
            self.forgot_before(node, settled);
        }
    }

    /// Forgets what no reader can need evidence of.
    pub(in crate::ramp) fn settle(&mut self, stability: &Stability) {
        let settled = stability.long_known();
        for node in 0..self.shown.len() {
            while let Some(oldest) = self.shown[node].all().front()
                && oldest.commit <= settled.of(node)
            {
                let is_settled = settled.includes(oldest.commit);
                let oldest = self.shown[node].pop().expect("it has a front");
                match is_settled {
                    true => self.forget(&oldest),
                    false => self.leave_out(oldest),
                }
            }
        }
        let oldest = self.shown.iter().filter_map(|shown| shown.all().front());
        let since = oldest.map(|oldest| oldest.sequence).min();
        self.shown_since = since.unwrap_or_else(|| self.store.last());
        self.settle_aside(settled);
        if !self.repeats.is_empty() {
            self.repeats
                .retain(|commit, _| !stability.is_settled(*commit));
        }
    }

    /// Forgets one that is settled.
    pub(super) fn forget(&mut self, shown: &Shown) {
        let forgotten = &mut self.forgotten[shown.commit.node().index()];
        *forgotten = shown.commit.max(*forgotten);
        self.settled = self.settled.max(shown.sequence);
        self.recent.remove(&shown.commit);
        for tag in shown.trace.written(self.partition) {
            self.writers.remove(*tag, shown.sequence);
        }
    }

    /// Remembers one that was installed, of which these rows were assigned.
    pub(super) fn remember(
        &mut self,
        sequence: CommitSequence,
        commit: Timestamp,
        trace: Trace,
        assigned: &[Assigned],
    ) {
        let node = commit.node().index();
        for tag in trace.written(self.partition) {
            let assigned = assigned.iter().find(|row| row.tag == *tag);
            self.writers.add(*tag, sequence, commit, assigned);
        }
        self.shown_max[node] = self.shown_max[node].max(commit);
        self.shown_since = self.shown_since.min(sequence);
        self.shown[node].push(self.partition, sequence, commit, trace);
        let slots = Slots::new();
        self.recent.insert(commit, Recent { sequence, slots });
    }
}
