//! Gossip of what no reader needs any more (ramp.txt §4.5): evidence goes as soon as nobody can ask for it, and not
//! only when the window is over.
//!
//! A reader says what it knew to be stable when it began, and is told of all else. So of a coordinator's transactions
//! that are stable those can be forgotten everywhere that all readers under way knew to be, at every node: whoever
//! begins later knows at least as much. Each node tells each coordinator how far that is for its own readers, and
//! each coordinator tells everybody how far it is for all. Where it has strays, these are left out, and those that have
//! become stable since the oldest list that some reader knows ([`Parted`]). Both ride on one message, from time to
//! time, while something that is stable is remembered.
//!
//! Nothing rests on it. Owners know what they have forgotten and refuse whoever may need it (RAMP-I6): a node that
//! has come back, and knows less than it has said. One that is silent holds up nothing but room: `retain`
//! bounds that, as without gossip. It says nothing under causal RAMP, nor where several clusters have all partitions.

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_types::{NodeId, Ticks, Timestamp};

use super::attempt::Phase;
use super::message::{Known, Message, ReadersKnow, Stamped, Strays};
use super::{RampNode, nodes};
use crate::{Outbox, TimerId};

/// The timer that lets a node tell how far its readers are.
pub(super) const GOSSIP: TimerId = TimerId(5);

/// What a coordinator has found out of its own transactions by gossip.
pub(super) struct Settled {
    /// All up to here are needed by no reader anywhere.
    pub(super) anywhere: Timestamp,
    /// But for these.
    pub(super) but: Option<Arc<Strays>>,
    /// Whether anything is settled, of whosever transactions, that was not.
    pub(super) more: bool,
}

/// Own strays that have become stable: whoever knows only a list that still names them may need evidence of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Parted {
    /// With when the first list was told that does not name them, oldest first.
    left: VecDeque<(Timestamp, Timestamp)>,
    /// Those that the list which was told last still names.
    leaving: Vec<Timestamp>,
    /// All are here that have left a list since this one; nothing, before any was told in this life.
    complete_since: Option<Timestamp>,
    /// How many are kept at most.
    most: usize,
}

impl Parted {
    pub(super) fn at_most(most: usize) -> Parted {
        Parted {
            most,
            ..Parted::default()
        }
    }

    /// How many are remembered.
    pub(super) fn len(&self) -> usize {
        self.left.len()
    }

    /// One has become stable, which the list that was told last still names.
    pub(super) fn leaves(&mut self, commit: Timestamp) {
        if self.most > 0 {
            self.leaving.push(commit);
        }
    }

    /// A list is told that does not name those any more.
    pub(super) fn told(&mut self, since: Timestamp) {
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

    /// The strays, up to a commit timestamp, of whoever knows the list of this time or a later one: those that are
    /// still told (`now`), and those that have left since. None if that is not known any more. What left before is
    /// forgotten.
    pub(super) fn unknown_to(
        &mut self,
        since: Timestamp,
        up_to: Timestamp,
        now: Option<&Strays>,
    ) -> Option<Strays> {
        let complete_since = self.complete_since.as_mut()?;
        if since < *complete_since {
            return None;
        }
        *complete_since = since;
        let known = self.left.partition_point(|(left, _)| *left <= since);
        self.left.drain(..known);
        let left = self.left.iter().map(|(_, commit)| commit);
        let now = now.into_iter().flat_map(|strays| &strays.commits);
        let mut commits: Vec<Timestamp> = left.chain(now).copied().collect();
        commits.retain(|commit| *commit <= up_to);
        commits.sort();
        Some(Strays {
            since,
            commits: commits.into(),
        })
    }
}

impl Known {
    /// Of one node's transactions, for readers that know as much.
    pub(super) fn of_readers(&self, node: usize) -> ReadersKnow {
        ReadersKnow {
            all: self.floor(node),
            but_strays: self.of(node),
            since: self
                .strays(node)
                .map_or(Timestamp::ZERO, |strays| strays.since),
        }
    }
}

impl RampNode {
    /// Sets the timer if something that is stable is remembered.
    #[inline]
    pub(super) fn gossip_later(&mut self, out: &mut Outbox<Stamped>) {
        if self.gossiping || !self.context.stability.remembers_stable() {
            return;
        }
        if let Some(after) = self.options.gossips_after() {
            self.gossiping = true;
            let others = nodes(&self.topology).saturating_sub(1) as u64;
            let longer = self.context.stability.longer_between_lists();
            let after = after.0.saturating_mul(others).saturating_mul(longer);
            let due = self.context.now + Ticks(after);
            out.timers.push((due, GOSSIP));
        }
    }

    /// Tells every other node how far its transactions are known to the readers here, and how far own ones are
    /// known to all; and forgets what others have said that of.
    pub(super) fn gossip(&mut self, out: &mut Outbox<Stamped>) {
        self.gossiping = false;
        let readers = self.readers_know();
        let own = self.topology.owner(self.partition);
        let settled = self.context.stability.settle_unneeded(readers[own.index()]);
        let others = (0..nodes(&self.topology) as u16).map(NodeId);
        for node in others.filter(|node| *node != own) {
            let gossip = Message::Gossip {
                readers: readers[node.index()],
                anywhere: settled.anywhere,
                but: settled.but.clone(),
            };
            self.send(node, gossip, out);
        }
        if settled.more {
            self.participant.settle(&self.context.stability);
            self.record_settled();
        }
    }

    /// What every reader knows that is under way here, by coordinator. One that waits for votes or
    /// acknowledgements reads no more.
    fn readers_know(&self) -> Vec<ReadersKnow> {
        let readers = self.attempts.values();
        let readers = readers.chain(self.current.iter().map(|(_, attempt)| attempt));
        let readers =
            readers.filter(|attempt| matches!(attempt.phase, Phase::Idle | Phase::Reading));
        let mut last = self.context.stability.known();
        let mut least: Vec<ReadersKnow> = (0..nodes(&self.topology))
            .map(|node| last.of_readers(node))
            .collect();
        for known in readers.filter_map(|attempt| Some(&attempt.began.as_ref()?.1)) {
            if known.is_same(last) {
                continue;
            }
            last = known;
            for (node, least) in least.iter_mut().enumerate() {
                let knows = known.of_readers(node);
                least.all = least.all.min(knows.all);
                least.but_strays = least.but_strays.min(knows.but_strays);
                least.since = least.since.min(knows.since);
            }
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use anabranch_types::HybridClock;

    use super::*;

    /// No more are remembered of those that were strays than there may be: whoever knows a list from before the
    /// oldest of them is waited for.
    #[test]
    fn few_that_were_strays_are_remembered() {
        let mut clock = HybridClock::new(NodeId(0));
        let mut next = || clock.next(Ticks(10));
        let commits: Vec<Timestamp> = (0..4).map(|_| next()).collect();
        let mut parted = Parted::at_most(2);
        let mut lists = vec![next()];
        parted.told(lists[0]);
        for commit in &commits {
            parted.leaves(*commit);
            lists.push(next());
            parted.told(*lists.last().expect("it was told"));
        }
        let last = commits[3];
        assert_eq!(parted.clone().unknown_to(lists[1], last, None), None);
        let mut unknown = |list: Timestamp, up_to| {
            let unknown = parted.unknown_to(list, up_to, None);
            unknown.map(|strays| strays.commits.to_vec())
        };
        assert_eq!(unknown(lists[2], last), Some(commits[2..].to_vec()));
        assert_eq!(unknown(lists[2], commits[2]), Some(vec![commits[2]]));
        assert_eq!(unknown(lists[4], last), Some(vec![]));
        assert_eq!(unknown(lists[3], last), None);
    }
}
