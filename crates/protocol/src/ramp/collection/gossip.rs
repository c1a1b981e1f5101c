//! Gossip of sibling metadata that no reader needs any more (ramp.txt §4.5), so that they go before the window is
//! over.
//!
//! A reader says what it knew to be stable when it began, and needs the metadata of all other transactions. So of a
//! coordinator's stable transactions those can be forgotten everywhere that every running reader at every node knew
//! to be stable: a reader that begins later knows at least as much. Each node reports to each coordinator how much
//! its own readers know, and each coordinator reports to all how much all readers know. Exceptions are left out, and
//! so are those that have become stable since the oldest list that some reader knows ([`super::former_exceptions`]). Both
//! reports are one message, sent from time to time while something stable is remembered.
//!
//! No guarantee rests on it. Owners know what they have forgotten and refuse a reader that may need it (RAMP-I6), as
//! after a restart, when a node knows less than it had reported. A silent node only costs memory: `retain` bounds
//! that, as without gossip. There is no gossip under causal RAMP, nor where several clusters have all partitions.

use anabranch_types::{NodeId, Ticks, Timestamp};

use crate::Outbox;
use crate::ramp::collection::stable_vector::StableVector;
use crate::ramp::core::coordinator::attempt::Phase;
use crate::ramp::core::message::{Message, ReadersKnow, Stamped};
use crate::ramp::node::{RampNode, nodes};
use crate::ramp::timer::GOSSIP;

impl StableVector {
    /// Of one node's transactions, for readers that know as much.
    pub(crate) fn of_readers(&self, node: usize) -> ReadersKnow {
        ReadersKnow {
            all: self.floor(node),
            but_exceptions: self.of(node),
            since: self
                .exceptions(node)
                .map_or(Timestamp::ZERO, |exceptions| exceptions.since),
        }
    }
}

impl RampNode {
    /// Sets the timer if something that is stable is remembered.
    #[inline]
    pub(crate) fn schedule_gossip(&mut self, out: &mut Outbox<Stamped>) {
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

    /// Reports to every other node how much of its transactions the readers here know, and how much of the own ones
    /// all readers know; forgets what other nodes have reported to be needless.
    pub(crate) fn gossip(&mut self, out: &mut Outbox<Stamped>) {
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
                least.but_exceptions = least.but_exceptions.min(knows.but_exceptions);
                least.since = least.since.min(knows.since);
            }
        }
        least
    }
}
