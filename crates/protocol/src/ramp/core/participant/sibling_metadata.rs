//! The sibling metadata that an owner remembers, until the transactions have been stable for so long that no reader
//! needs them (RAMP-I6).

use std::sync::Arc;

use anabranch_storage::{CommitSequence, ItemTag};
use anabranch_types::Timestamp;
use smallvec::SmallVec;

use crate::Slots;
use crate::ramp::core::extension::StableVector;
use crate::ramp::core::message::SiblingMetadata;
use crate::ramp::core::metadata::ReadSet;
use crate::ramp::core::participant::installed::Installed;
use crate::ramp::core::participant::writers::Assigned;
use crate::ramp::core::participant::{Commits, Participant, Recent};
use crate::ramp::core::trace::Trace;

/// With at most so many coordinators each read looks for the first transaction that its reader may need.
const COORDINATORS_FEW: usize = 8;

impl Participant {
    /// The sibling metadata of the transactions in a snapshot that wrote what was read and can be seen there, except
    /// those known to be stable. Write sets decide this, not versions: a version may have been replaced since, and a
    /// row may have been deleted or have left the range that was read.
    pub(crate) fn sibling_metadata(
        &mut self,
        read_set: &[ItemTag],
        snapshot: CommitSequence,
        known: &StableVector,
    ) -> Vec<SiblingMetadata> {
        let mut found = Commits::new();
        let mut searched: ReadSet = SmallVec::new();
        for tag in read_set {
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
        let installed = found.iter().filter_map(|commit| self.remembered(*commit));
        installed
            .map(|installed| self.metadata_of(installed))
            .collect()
    }

    /// Looks for those that wrote what was read among all.
    fn search(
        &mut self,
        read_set: &[ItemTag],
        snapshot: CommitSequence,
        known: &StableVector,
        found: &mut Commits,
    ) {
        for node in 0..self.installed.len() {
            let known = known.of(node);
            if self.installed_max[node] <= known {
                continue;
            }
            self.installed[node].find((known, snapshot), self.partition, read_set, |installed| {
                found.push(installed.commit);
            });
        }
        if self.reads_exceptions(known) {
            self.find_exceptions(read_set, snapshot, known, found);
        }
    }

    /// One that is remembered.
    pub(crate) fn remembered(&self, commit: Timestamp) -> Option<&Installed> {
        let node = commit.node().index();
        let recent = self.recent.get(&commit)?;
        let installed = self.installed[node].at(recent.sequence);
        installed.or_else(|| self.exceptions_by[node].get(commit))
    }

    /// How many are.
    pub(crate) fn metadata_kept(&self) -> usize {
        self.recent.len()
    }

    fn metadata_of(&self, installed: &Installed) -> SiblingMetadata {
        SiblingMetadata {
            commit: installed.commit,
            siblings: Arc::clone(&installed.trace.siblings),
            causal_context: installed.trace.causal_context.clone(),
            // Its name is its timestamp; so it is under Prepare-F, for all.
            alone: self.causal && installed.trace.siblings.timestamp == installed.commit,
        }
    }

    /// The first commit here of a transaction that is not known to be stable, or an earlier one; `None` if there is
    /// none. A reader of nothing newer needs no sibling metadata.
    pub(crate) fn first_unknown(&self, known: &StableVector) -> Option<CommitSequence> {
        // News of each of many coordinators come seldom, so that most have something here that a reader
        // does not know to be stable. To find the first of all would take a cache miss or two for each
        // coordinator, at each read; it is cheaper to look at the few items that were written since
        // anything is remembered.
        let first = match self.installed.len() {
            0..=COORDINATORS_FEW => self.first_installed(known),
            _ => (!self.recent.is_empty()).then_some(self.installed_since),
        };
        match self.first_exception(known) {
            Some(excepted) => Some(first.map_or(excepted, |first| first.min(excepted))),
            None => first,
        }
    }

    /// The first commit in `installed` of a transaction that is not known to be stable.
    fn first_installed(&self, known: &StableVector) -> Option<CommitSequence> {
        let newest = self.installed_max.iter().enumerate();
        let first = newest.filter_map(|(node, newest)| {
            let (installed, known) = (&self.installed[node], known.floor(node));
            if *newest <= known {
                return None;
            }
            let first = installed.all().get(installed.first_above(known))?;
            Some(first.sequence)
        });
        first.min()
    }

    /// Remembers one that was installed, of which these rows were assigned.
    pub(crate) fn remember(
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
        self.installed_max[node] = self.installed_max[node].max(commit);
        self.installed_since = self.installed_since.min(sequence);
        self.installed[node].push(self.partition, sequence, commit, trace);
        let slots = Slots::new();
        self.recent.insert(commit, Recent { sequence, slots });
    }
}
