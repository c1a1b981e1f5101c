//! Own exceptions that have become stable, for as long as some reader may not know it.

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_types::Timestamp;

use crate::ramp::collection::stable_vector::Exceptions;

/// What a coordinator has found out of its own transactions by gossip.
pub(crate) struct Settled {
    /// All up to here are needed by no reader anywhere.
    pub(crate) anywhere: Timestamp,
    /// But for these.
    pub(crate) but: Option<Arc<Exceptions>>,
    /// Whether anything is settled, of whosever transactions, that was not.
    pub(crate) more: bool,
}

/// Own exceptions that have become stable. A reader that knows only a list which still has them may need their
/// sibling metadata.
#[derive(Clone, Debug, Default)]
pub(crate) struct FormerExceptions {
    /// Each with the time of the first list that does not have it, oldest first.
    pub(crate) left: VecDeque<(Timestamp, Timestamp)>,
    /// Those that the last published list still has.
    pub(crate) leaving: Vec<Timestamp>,
    /// All that have left a list since this one are here; `None` before the first list of this incarnation.
    pub(crate) complete_since: Option<Timestamp>,
    /// How many are kept at most.
    pub(crate) most: usize,
}

impl FormerExceptions {
    pub(crate) fn at_most(most: usize) -> FormerExceptions {
        FormerExceptions {
            most,
            ..FormerExceptions::default()
        }
    }

    /// How many are remembered.
    pub(crate) fn len(&self) -> usize {
        self.left.len()
    }

    /// One has become stable that the last published list still has.
    pub(crate) fn leaves(&mut self, commit: Timestamp) {
        if self.most > 0 {
            self.leaving.push(commit);
        }
    }

    /// A list is published that does not have those any more.
    pub(crate) fn published(&mut self, since: Timestamp) {
        if self.most == 0 {
            return;
        }
        self.complete_since.get_or_insert(since);
        self.left
            .extend(self.leaving.drain(..).map(|commit| (since, commit)));
        while self.left.len() > self.most
            && let Some((since, _)) = self.left.pop_front()
        {
            self.complete_since = Some(since);
        }
    }

    /// The exceptions, up to a commit timestamp, for readers that know the list of this time or a later one: those
    /// that are still in the list (`now`), and those that have left since. `None` if that is unknown. Those that left
    /// before are forgotten.
    pub(crate) fn unknown_to(
        &mut self,
        since: Timestamp,
        up_to: Timestamp,
        now: Option<&Exceptions>,
    ) -> Option<Exceptions> {
        let complete_since = self.complete_since.as_mut()?;
        if since < *complete_since {
            return None;
        }
        *complete_since = since;
        let known = self.left.partition_point(|(left, _)| *left <= since);
        self.left.drain(..known);
        let left = self.left.iter().map(|(_, commit)| commit);
        let now = now.into_iter().flat_map(|exceptions| &exceptions.commits);
        let mut commits: Vec<Timestamp> = left.chain(now).copied().collect();
        commits.retain(|commit| *commit <= up_to);
        commits.sort();
        Some(Exceptions {
            since,
            commits: commits.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use anabranch_types::{HybridClock, NodeId, Ticks};

    use super::*;

    /// The number of former exceptions is bounded: readers that know a list from before the oldest of them are waited
    /// for.
    #[test]
    fn the_number_of_former_exceptions_is_bounded() {
        let mut clock = HybridClock::new(NodeId(0));
        let mut next = || clock.next(Ticks(10));
        let commits: Vec<Timestamp> = (0..4).map(|_| next()).collect();
        let mut former_exceptions = FormerExceptions::at_most(2);
        let mut lists = vec![next()];
        former_exceptions.published(lists[0]);
        for commit in &commits {
            former_exceptions.leaves(*commit);
            lists.push(next());
            former_exceptions.published(*lists.last().expect("it was published"));
        }
        let last = commits[3];
        assert_eq!(
            former_exceptions.clone().unknown_to(lists[1], last, None),
            None
        );
        let mut unknown = |list: Timestamp, up_to| {
            let unknown = former_exceptions.unknown_to(list, up_to, None);
            unknown.map(|exceptions| exceptions.commits.to_vec())
        };
        assert_eq!(unknown(lists[2], last), Some(commits[2..].to_vec()));
        assert_eq!(unknown(lists[2], commits[2]), Some(vec![commits[2]]));
        assert_eq!(unknown(lists[4], last), Some(vec![]));
        assert_eq!(unknown(lists[3], last), None);
    }
}
