//! Transactions that their coordinators have set aside: below a watermark, and not known to be stable
//! (RAMP-I6).
//!
//! What is settled leaves the order in which it was shown at its front. One that was set aside, and still is, may
//! not keep the others there, and is kept here instead. A reader says which it knows of
//! ([`Known`]); they need not be the same.

use std::collections::BTreeMap;

use anabranch_storage::{CommitSequence, ItemTag};
use anabranch_types::Timestamp;

use super::shown::Shown;
use super::{Commits, Participant};
use crate::ramp::attempt::touches;
use crate::ramp::message::Known;
use crate::ramp::stability::Stability;

/// How many are looked at one by one to find the first.
const FEW: usize = 64;

/// One coordinator's.
#[derive(Clone, Debug, Default)]
pub(super) struct AsideBy {
    /// By commit timestamp.
    left_out: BTreeMap<Timestamp, Shown>,
    /// What has been forgotten here the coordinator had told of by then: whoever knows only what it said before
    /// may need it.
    forgotten_since: Timestamp,
    /// Up to here it is not known any more which lists an earlier life has forgotten by.
    unsure: Timestamp,
}

impl AsideBy {
    /// All of them.
    pub(super) fn left_out(&self) -> impl Iterator<Item = &Shown> + Clone {
        self.left_out.values()
    }

    /// One of them.
    pub(super) fn get(&self, commit: Timestamp) -> Option<&Shown> {
        self.left_out.get(&commit)
    }
}

impl Participant {
    /// Keeps what is not settled, and stands before what is.
    pub(super) fn leave_out(&mut self, shown: Shown) {
        self.has_aside = true;
        let node = shown.commit.node().index();
        self.aside[node].left_out.insert(shown.commit, shown);
    }

    /// Forgets those of which no reader can need evidence.
    pub(super) fn settle_aside(&mut self, settled: &Known) {
        for node in 0..self.aside.len() {
            let aside = &mut self.aside[node];
            if let Some(strays) = settled.strays(node) {
                aside.forgotten_since = aside.forgotten_since.max(strays.since);
            }
            if aside.left_out.is_empty() {
                continue;
            }
            let over = aside.left_out.keys();
            let over: Vec<Timestamp> = over.filter(|c| settled.includes(**c)).copied().collect();
            for commit in over {
                if let Some(shown) = self.aside[node].left_out.remove(&commit) {
                    self.forget(&shown);
                }
            }
        }
        self.has_aside = self.aside.iter().any(|aside| !aside.left_out.is_empty());
    }

    /// Of a coordinator's transactions up to here an earlier life has forgotten some.
    pub(super) fn forgot_before(&mut self, node: usize, settled: Timestamp) {
        self.aside[node].unsure = settled;
    }

    /// Whether a reader that knows of these strays may need evidence of some that are forgotten.
    pub(super) fn has_forgotten_aside(&self, known: &Known, stability: &Stability) -> bool {
        let is_older = |(node, aside): (usize, &AsideBy)| {
            known.strays(node).is_some_and(|strays| {
                let mut unsure = strays.commits.iter().take_while(|c| **c <= aside.unsure);
                strays.since < aside.forgotten_since
                    || unsure.any(|c| stability.is_settled(*c) && !self.recent.contains_key(c))
            })
        };
        known.has_strays() && self.aside.iter().enumerate().any(is_older)
    }

    /// The first of those that were left out and that a reader does not know to be stable, or one before it.
    pub(super) fn first_left_out(&self, known: &Known) -> Option<CommitSequence> {
        if !self.has_aside {
            return None;
        }
        let all = self.aside.iter().flat_map(AsideBy::left_out);
        if all.clone().nth(FEW).is_some() {
            return Some(CommitSequence::LOADED);
        }
        let unknown = all.filter(|shown| !known.includes(shown.commit));
        unknown.map(|shown| shown.sequence).min()
    }

    /// Whether a reader may have to be told of what is below its watermark, or of what was left out.
    pub(super) fn reads_aside(&self, known: &Known) -> bool {
        known.has_strays() || self.has_aside
    }

    /// Those that wrote something in a range, or in an older snapshot, and that a reader does not know to be stable.
    pub(super) fn find_aside(
        &self,
        footprint: &[ItemTag],
        snapshot: CommitSequence,
        known: &Known,
        found: &mut Commits,
    ) {
        let has_written = |shown: &Shown| {
            shown.sequence <= snapshot && touches(shown.trace.written(self.partition), footprint)
        };
        for (node, aside) in self.aside.iter().enumerate() {
            let strays = known.strays(node).into_iter().flat_map(|s| &s.commits);
            let strays = strays.filter_map(|commit| self.remembered(*commit));
            let others = aside.left_out.values();
            let others = others.filter(|shown| !known.includes(shown.commit));
            let written = strays.chain(others).filter(|shown| has_written(shown));
            found.extend(written.map(|shown| shown.commit));
        }
    }
}
