//! Exceptions at an owner: transactions below their coordinator's watermark that are not known to be stable
//! (RAMP-I6).
//!
//! Settled transactions leave the order of installation at its front. An exception must not keep the others there, so
//! it is kept here instead. A reader says which exceptions it knows of ([`StableVector`]); they need not be the same.

use anabranch_storage::{CommitSequence, ItemTag};
use anabranch_types::Timestamp;

use crate::ramp::collection::installed_exceptions::ExceptionsBy;
use crate::ramp::collection::stability::Stability;
use crate::ramp::collection::stable_vector::StableVector;
use crate::ramp::core::metadata::touches;
use crate::ramp::core::participant::installed::Installed;
use crate::ramp::core::participant::{Commits, Participant};

/// How many are looked at one by one to find the first.
const FEW: usize = 64;

impl Participant {
    /// Whether a reader that knows this to be stable may need sibling metadata that are forgotten. With true clocks
    /// it does not: it began after what was forgotten had become stable. But clocks jump.
    pub(crate) fn has_forgotten(&self, known: &StableVector, stability: &Stability) -> bool {
        let mut forgotten = self.forgotten.iter().enumerate();
        forgotten.any(|(node, forgotten)| known.of(node) < *forgotten)
            || self.has_forgotten_exceptions(known, stability)
    }

    /// Nothing up to here is remembered of an earlier incarnation, or of another primary's.
    pub(crate) fn forget_up_to(&mut self, settled: &StableVector) {
        for node in 0..self.forgotten.len() {
            let settled = settled.of(node);
            self.forgotten[node] = self.forgotten[node].max(settled);
            self.forgot_before(node, settled);
        }
    }

    /// Forgets the sibling metadata that no reader can need.
    pub(crate) fn settle(&mut self, stability: &Stability) {
        let settled = stability.long_known();
        for node in 0..self.installed.len() {
            while let Some(oldest) = self.installed[node].all().front()
                && oldest.commit <= settled.of(node)
            {
                let is_settled = settled.includes(oldest.commit);
                let oldest = self.installed[node].pop().expect("it has a front");
                match is_settled {
                    true => self.forget(&oldest),
                    false => self.except(oldest),
                }
            }
        }
        let oldest = self
            .installed
            .iter()
            .filter_map(|installed| installed.all().front());
        let since = oldest.map(|oldest| oldest.sequence).min();
        self.installed_since = since.unwrap_or_else(|| self.store.last());
        self.settle_exceptions(settled);
        if !self.commit_replies.is_empty() {
            self.commit_replies
                .retain(|commit, _| !stability.is_settled(*commit));
        }
    }

    /// Forgets one that is settled.
    pub(crate) fn forget(&mut self, installed: &Installed) {
        let forgotten = &mut self.forgotten[installed.commit.node().index()];
        *forgotten = installed.commit.max(*forgotten);
        self.settled = self.settled.max(installed.sequence);
        self.recent.remove(&installed.commit);
        for tag in installed.trace.written(self.partition) {
            self.writers.remove(*tag, installed.sequence);
        }
    }

    /// Keeps what is not settled, and stands before what is.
    pub(crate) fn except(&mut self, installed: Installed) {
        self.has_exceptions = true;
        let node = installed.commit.node().index();
        self.exceptions_by[node]
            .excepted
            .insert(installed.commit, installed);
    }

    /// Forgets those whose sibling metadata no reader can need.
    pub(crate) fn settle_exceptions(&mut self, settled: &StableVector) {
        for node in 0..self.exceptions_by.len() {
            let exceptions_by = &mut self.exceptions_by[node];
            if let Some(exceptions) = settled.exceptions(node) {
                exceptions_by.forgotten_since = exceptions_by.forgotten_since.max(exceptions.since);
            }
            if exceptions_by.excepted.is_empty() {
                continue;
            }
            let over = exceptions_by.excepted.keys();
            let over: Vec<Timestamp> = over.filter(|c| settled.includes(**c)).copied().collect();
            for commit in over {
                if let Some(installed) = self.exceptions_by[node].excepted.remove(&commit) {
                    self.forget(&installed);
                }
            }
        }
        self.has_exceptions = self
            .exceptions_by
            .iter()
            .any(|exceptions_by| !exceptions_by.excepted.is_empty());
    }

    /// An earlier incarnation has forgotten some of a coordinator's transactions up to here.
    pub(crate) fn forgot_before(&mut self, node: usize, settled: Timestamp) {
        self.exceptions_by[node].unsure = settled;
    }

    /// Whether a reader that knows of these exceptions may need sibling metadata that are forgotten.
    pub(crate) fn has_forgotten_exceptions(
        &self,
        known: &StableVector,
        stability: &Stability,
    ) -> bool {
        let is_older = |(node, exceptions_by): (usize, &ExceptionsBy)| {
            known.exceptions(node).is_some_and(|exceptions| {
                let mut unsure = exceptions
                    .commits
                    .iter()
                    .take_while(|c| **c <= exceptions_by.unsure);
                exceptions.since < exceptions_by.forgotten_since
                    || unsure.any(|c| stability.is_settled(*c) && !self.recent.contains_key(c))
            })
        };
        known.has_exceptions() && self.exceptions_by.iter().enumerate().any(is_older)
    }

    /// The first of those that were left out and that a reader does not know to be stable, or one before it.
    pub(crate) fn first_exception(&self, known: &StableVector) -> Option<CommitSequence> {
        if !self.has_exceptions {
            return None;
        }
        let all = self.exceptions_by.iter().flat_map(ExceptionsBy::excepted);
        if all.clone().nth(FEW).is_some() {
            return Some(CommitSequence::LOADED);
        }
        let unknown = all.filter(|installed| !known.includes(installed.commit));
        unknown.map(|installed| installed.sequence).min()
    }

    /// Whether a reader may need transactions below its watermark, or exceptions kept here.
    pub(crate) fn reads_exceptions(&self, known: &StableVector) -> bool {
        known.has_exceptions() || self.has_exceptions
    }

    /// Those that wrote something in a range, or in an older snapshot, and that a reader does not know to be stable.
    pub(crate) fn find_exceptions(
        &self,
        read_set: &[ItemTag],
        snapshot: CommitSequence,
        known: &StableVector,
        found: &mut Commits,
    ) {
        let has_written = |installed: &Installed| {
            installed.sequence <= snapshot
                && touches(installed.trace.written(self.partition), read_set)
        };
        for (node, exceptions_by) in self.exceptions_by.iter().enumerate() {
            let exceptions = known.exceptions(node).into_iter().flat_map(|s| &s.commits);
            let exceptions = exceptions.filter_map(|commit| self.remembered(*commit));
            let others = exceptions_by.excepted.values();
            let others = others.filter(|installed| !known.includes(installed.commit));
            let written = exceptions
                .chain(others)
                .filter(|installed| has_written(installed));
            found.extend(written.map(|installed| installed.commit));
        }
    }
}
