//! Sticky clusters (ramp.txt §6.1, Figure 7b): each runs RAMP by itself, and applies what the others have committed.
//!
//! Each cluster has all partitions, and a client stays with one. A transaction commits there as in one cluster, and
//! its client goes on. The node that has decided it (its coordinator, or the owner of the only partition that it
//! writes) then *replicates* it to the node with the same partition in every other cluster. That node coordinates it
//! there once more, by RAMP, so that it is seen whole or not at all in each cluster. Registers take the same
//! timestamp everywhere: the commit timestamp of the *origin* cluster. So all clusters converge to the same rows, in
//! whatever order transactions arrive. The page `docs/protocols/ramp-sticky.md` says what holds and why.
//!
//! What has to be replicated is in the log with the decision. It is sent again to a node that has restarted, until
//! that node reports that its cluster has installed it. It is applied once, however often it arrives: its origin
//! commit timestamp is in the log with the decision to apply it, and is remembered until the sender reports that it
//! will not send it any more.

pub(crate) mod state;

use std::collections::VecDeque;

use anabranch_types::{Effect, NodeId, PartitionId, Timestamp};
use smallvec::SmallVec;

use crate::ramp::core::coordinator::attempt::Deciding;
use crate::ramp::core::message::{Message, Replicate, Stamped, Work};
use crate::ramp::node::RampNode;
use crate::ramp::recovery::record::RampRecord;
use crate::ramp::replication::sticky::state::{Incoming, Outgoing, REMOTE};
use crate::ramp::timer::RETRY_REMOTE;
use crate::{AbortReason, Outbox, PartitionEffects, Record, TransactionId};

impl RampNode {
    /// How many applied transactions of other clusters this node remembers: those that may be sent again.
    pub fn remembered(&self) -> usize {
        self.sticky.as_ref().map_or(0, |sticky| sticky.remembered())
    }

    /// The nodes with this node's partition in the other clusters.
    fn counterparts(&self) -> SmallVec<[NodeId; 4]> {
        let others = self.topology.elsewhere.iter();
        others
            .map(|owners| owners[self.partition.index()])
            .collect()
    }

    /// Admits what a transaction is to do, where clusters replicate it to each other; each work learns the commit
    /// timestamp of its origin cluster.
    ///
    /// # Errors
    /// Another cluster could not apply it.
    pub(crate) fn admit_works(
        &self,
        works: &mut [(PartitionId, Work)],
        origin_commit: Option<Timestamp>,
    ) -> Result<(), AbortReason> {
        if self.sticky.is_none() {
            return Ok(());
        }
        if let Some(error) = self.refuses_across(works) {
            return Err(AbortReason::Failed(error));
        }
        for (_, work) in works {
            work.origin_commit = origin_commit;
        }
        Ok(())
    }

    /// What other clusters have to apply of a transaction of this one.
    pub(crate) fn effects_to_replicate<'w>(
        &self,
        works: impl Iterator<Item = (PartitionId, &'w Work)>,
    ) -> Vec<(PartitionId, Vec<Effect>)> {
        if self.sticky.is_none() {
            return Vec::new();
        }
        let own =
            works.filter(|(_, work)| work.origin_commit.is_none() && !work.effects.is_empty());
        own.map(|(at, work)| (at, work.effects.clone())).collect()
    }

    /// A transaction is decided: another cluster's will be installed here, an own one is replicated.
    pub(crate) fn replicate_decision(
        &mut self,
        deciding: &mut Deciding,
        out: &mut Outbox<Stamped>,
    ) {
        if let Some((sticky, origin_commit)) = self.sticky.as_mut().zip(deciding.origin_commit) {
            sticky.decided(origin_commit);
        }
        let to_replicate = std::mem::take(&mut deciding.to_replicate);
        self.replicate(deciding.commit, to_replicate, out);
    }

    /// A transaction of this cluster has been decided here: all others are to take it over.
    pub(crate) fn replicate(
        &mut self,
        origin_commit: Timestamp,
        works: Vec<(PartitionId, Vec<Effect>)>,
        out: &mut Outbox<Stamped>,
    ) {
        if works.is_empty() {
            return;
        }
        let replicate = Replicate {
            origin_commit,
            works,
        };
        if let Some(journal) = &mut self.context.journal {
            let record = Box::new(replicate.clone());
            journal.write(Record::Ramp(RampRecord::Replicate(record)));
        }
        self.replay_replicate(replicate);
        self.send_replicate(origin_commit, None, out);
    }

    /// The same, as it was written down.
    pub(crate) fn replay_replicate(&mut self, replicate: Replicate) {
        let waiting = self.counterparts();
        if let Some(sticky) = &mut self.sticky {
            let origin_commit = replicate.origin_commit;
            sticky
                .outgoing
                .insert(origin_commit, Outgoing { replicate, waiting });
        }
    }

    fn send_replicate(
        &mut self,
        origin_commit: Timestamp,
        only: Option<NodeId>,
        out: &mut Outbox<Stamped>,
    ) {
        let Some(outgoing) = (self.sticky.as_ref()).and_then(|s| s.outgoing.get(&origin_commit))
        else {
            return;
        };
        let (waiting, replicate) = (outgoing.waiting.clone(), outgoing.replicate.clone());
        for node in waiting {
            if only.is_none_or(|only| only == node) {
                let lowest = self.sticky.as_ref().map(|sticky| sticky.lowest_for(node));
                let message = Message::Replicate {
                    replicate: Box::new(replicate.clone()),
                    lowest: lowest.unwrap_or(Timestamp::ZERO),
                };
                self.send(node, message, out);
            }
        }
    }

    /// Sends again what a node, or all, may not have received.
    pub(crate) fn resend_replicate(&mut self, only: Option<NodeId>, out: &mut Outbox<Stamped>) {
        let Some(sticky) = &self.sticky else {
            return;
        };
        let places: Vec<Timestamp> = sticky.outgoing.keys().copied().collect();
        for origin_commit in places {
            self.send_replicate(origin_commit, only, out);
        }
    }

    /// Another cluster has installed it.
    pub(crate) fn handle_replicated(&mut self, from: NodeId, origin_commit: Timestamp) {
        let Some(sticky) = &mut self.sticky else {
            return;
        };
        let Some(outgoing) = sticky.outgoing.get_mut(&origin_commit) else {
            return;
        };
        outgoing.waiting.retain(|node| *node != from);
        if outgoing.waiting.is_empty() {
            sticky.outgoing.remove(&origin_commit);
            if let Some(journal) = &mut self.context.journal {
                journal.write(Record::Ramp(RampRecord::Replicated { origin_commit }));
            }
        }
    }

    /// Another cluster has committed this; it knows that this one has installed all that it has committed below
    /// `lowest`.
    pub(crate) fn handle_replicate(
        &mut self,
        from: NodeId,
        replicate: Replicate,
        lowest: Timestamp,
        out: &mut Outbox<Stamped>,
    ) {
        let origin_commit = replicate.origin_commit;
        if let Some(sticky) = &mut self.sticky {
            let applied = sticky.applied.entry(origin_commit.node()).or_default();
            applied.forget_below(lowest);
            if applied.remote_installed(origin_commit) {
                return self.send(from, Message::Replicated { origin_commit }, out);
            }
        }
        self.consider(Incoming { from, replicate }, out);
    }

    /// Takes it over, unless it is under way, or too early.
    fn consider(&mut self, incoming: Incoming, out: &mut Outbox<Stamped>) {
        let Incoming { from, replicate } = &incoming;
        let known = self.context.clock.last().max(self.context.now.as_micros());
        let ahead = replicate.origin_commit.logical().saturating_sub(known);
        let Some(sticky) = &self.sticky else {
            return;
        };
        if sticky.knows(*from, replicate.origin_commit) {
            return; // It is under way.
        }
        match ahead <= self.options.ahead_max.as_micros() {
            true => self.apply_remote(incoming, out),
            // It would take this cluster's clocks along.
            false => self.try_later(incoming, out),
        }
    }

    /// Commits it here, with its origin commit timestamp.
    fn apply_remote(&mut self, incoming: Incoming, out: &mut Outbox<Stamped>) {
        let own = self.owner(self.partition);
        let Some(sticky) = &mut self.sticky else {
            return;
        };
        let origin_commit = incoming.replicate.origin_commit;
        // Whatever is named here from now on comes behind it.
        self.context.clock.observe(origin_commit);
        // An earlier incarnation may have left attempts that are decided and have not ended.
        let number = self.context.clock.next(self.context.now).to_bits() & !REMOTE;
        let works = incoming.replicate.works.iter();
        let effects = works.map(|(partition, effects)| PartitionEffects {
            partition: *partition,
            effects: effects.clone(),
            guards: Vec::new(),
        });
        let effects = effects.collect();
        sticky.incoming.insert(number, incoming);
        let transaction = TransactionId {
            node: own,
            sequence: REMOTE | number,
        };
        self.commit_at(transaction, effects, Some(origin_commit), out);
    }

    /// This cluster has installed it.
    pub(crate) fn remote_committed(
        &mut self,
        transaction: TransactionId,
        out: &mut Outbox<Stamped>,
    ) {
        if let Some(Incoming { replicate, .. }) = self.end_attempt(transaction) {
            self.remote_installed(replicate.origin_commit, out);
        }
    }

    /// This cluster has installed what has this origin commit timestamp, and reports that to its origin.
    pub(crate) fn remote_installed(&mut self, origin_commit: Timestamp, out: &mut Outbox<Stamped>) {
        if let Some(sticky) = &mut self.sticky {
            sticky.installed(origin_commit);
            self.counters.applied_remote += 1;
            self.send(
                origin_commit.node(),
                Message::Replicated { origin_commit },
                out,
            );
        }
    }

    /// It was aborted here and is retried, for as long as it takes. If it was decided and a participant has broken
    /// its promise, it is in doubt for ever.
    pub(crate) fn remote_aborted(&mut self, transaction: TransactionId, out: &mut Outbox<Stamped>) {
        if let Some(incoming) = self.end_attempt(transaction)
            && let Some(sticky) = &self.sticky
            && !sticky.has_decided(incoming.replicate.origin_commit)
        {
            self.try_later(incoming, out);
        }
    }

    fn end_attempt(&mut self, transaction: TransactionId) -> Option<Incoming> {
        let number = transaction.sequence & !REMOTE;
        self.sticky.as_mut()?.incoming.remove(&number)
    }

    fn try_later(&mut self, incoming: Incoming, out: &mut Outbox<Stamped>) {
        let due = self.context.now + self.options.announce_after;
        if let Some(sticky) = &mut self.sticky {
            if sticky.again.is_empty() {
                out.timers.push((due, RETRY_REMOTE));
            }
            sticky.again.push_back((due, incoming));
        }
    }

    /// Tries again what is due.
    pub(crate) fn retry_remote(&mut self, out: &mut Outbox<Stamped>) {
        let Some(sticky) = &mut self.sticky else {
            return;
        };
        let later = std::mem::take(&mut sticky.again);
        let (due, later): (VecDeque<_>, VecDeque<_>) =
            (later.into_iter()).partition(|(due, _)| *due <= self.context.now);
        if let Some((next, _)) = later.front() {
            out.timers.push((*next, RETRY_REMOTE));
        }
        sticky.again = later;
        for (_, incoming) in due {
            self.consider(incoming, out);
        }
    }
}
