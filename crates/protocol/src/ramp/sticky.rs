//! Sticky clusters (ramp.txt §6.1, Figure 7b): each runs RAMP by itself, and takes over what the others
//! have committed.
//!
//! Each cluster has all partitions, and a client stays with one. A transaction commits there as in one
//! cluster, and its client goes on. Whoever has decided it (its coordinator, or the owner of the only
//! partition that it writes) then *forwards* it to the node with the same partition in every other
//! cluster, which coordinates it there once more: prepared and shown by RAMP, so that it is seen whole
//! or not at all in each cluster. Everywhere it has the same *place* among the writers of a register, the
//! commit timestamp of its own cluster; so in the end all clusters have the same rows, whatever came
//! where in which order. The page `docs/protocols/ramp-sticky.md` says what holds and why.
//!
//! What is to be forwarded is written down with the decision, and sent again to a node that has come
//! back, until it says that its cluster shows it. It is taken over once, however often it comes: the place
//! is written down with the decision to take it over, and remembered until the sender says that it will not
//! send it any more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_types::{Effect, NodeId, PartitionId, Ticks, Timestamp};
use smallvec::SmallVec;

use super::RampNode;
use super::message::{Forward, Message, Stamped};
use super::record::{RampRecord, TakenRecord};
use crate::{Outbox, PartitionEffects, Record, TimerId, TransactionId};

/// The timer that lets a node try again what it could not take over.
pub(super) const AGAIN: TimerId = TimerId(2);

/// What tells a transaction that is taken over from those of the engine above.
const TAKEN_OVER: u64 = 1 << 63;

/// What is between this node and other clusters.
#[derive(Clone, Debug, Default)]
pub(super) struct Sticky {
    /// By place: what other clusters do not show yet, as far as is known.
    outgoing: BTreeMap<Timestamp, Outgoing>,
    /// By number of the attempt, which no life uses twice: what is on its way into this cluster.
    incoming: BTreeMap<u64, Incoming>,
    /// What could not be taken over at once, and when it is tried again.
    again: VecDeque<(Ticks, Incoming)>,
    /// By node that forwards: what this cluster has of it.
    taken: BTreeMap<NodeId, Taken>,
}

/// What has been taken over of what a node of another cluster has decided.
#[derive(Clone, Debug, Default)]
struct Taken {
    /// Everything below this is shown here, as far as it was ever forwarded here.
    below: Timestamp,
    /// Decided here, and not shown everywhere.
    decided: BTreeSet<Timestamp>,
    /// Shown.
    shown: BTreeSet<Timestamp>,
}

impl Taken {
    fn shows(&self, place: Timestamp) -> bool {
        place < self.below || self.shown.contains(&place)
    }

    /// What lies below will not be forwarded again but by somebody who does not know that it is shown.
    fn forget_below(&mut self, lowest: Timestamp) {
        if lowest > self.below {
            self.below = lowest;
            self.shown = self.shown.split_off(&lowest);
        }
    }
}

#[derive(Clone, Debug)]
struct Outgoing {
    forward: Forward,
    /// Who has not said that its cluster shows it.
    waiting: SmallVec<[NodeId; 4]>,
}

#[derive(Clone, Debug)]
struct Incoming {
    from: NodeId,
    forward: Forward,
}

impl Sticky {
    /// Whether every cluster has everything, as far as this node has to do with it.
    pub(super) fn is_idle(&self) -> bool {
        self.outgoing.is_empty() && self.incoming.is_empty() && self.again.is_empty()
    }

    /// What other clusters have to take over still, to be written into a checkpoint.
    pub(super) fn outgoing(&self) -> impl Iterator<Item = &Forward> {
        self.outgoing.values().map(|outgoing| &outgoing.forward)
    }

    /// Every cluster shows it, as it was written down.
    pub(super) fn replay_forwarded(&mut self, place: Timestamp) {
        self.outgoing.remove(&place);
    }

    fn knows(&self, from: NodeId, place: Timestamp) -> bool {
        let again = self.again.iter().map(|(_, incoming)| incoming);
        let mut known = self.incoming.values().chain(again);
        known.any(|incoming| incoming.from == from && incoming.forward.place == place)
            || self.has_decided(place)
    }

    /// Whether this cluster will show what has this place elsewhere, or does.
    fn has_decided(&self, place: Timestamp) -> bool {
        let taken = self.taken.get(&place.node());
        taken.is_some_and(|taken| taken.decided.contains(&place) || taken.shows(place))
    }

    /// This cluster will show it, whatever happens.
    pub(super) fn decided(&mut self, place: Timestamp) {
        self.taken
            .entry(place.node())
            .or_default()
            .decided
            .insert(place);
    }

    /// This cluster shows it.
    pub(super) fn shown(&mut self, place: Timestamp) {
        let taken = self.taken.entry(place.node()).or_default();
        taken.decided.remove(&place);
        if !taken.shows(place) {
            taken.shown.insert(place);
        }
    }

    /// What has been taken over, to be written into a checkpoint.
    pub(super) fn taken(&self) -> impl Iterator<Item = TakenRecord> {
        self.taken.iter().map(|(from, taken)| TakenRecord {
            from: *from,
            below: taken.below,
            decided: taken.decided.iter().copied().collect(),
            shown: taken.shown.iter().copied().collect(),
        })
    }

    /// The same, as it was written down.
    pub(super) fn replay_taken(&mut self, record: TakenRecord) {
        let taken = self.taken.entry(record.from).or_default();
        taken.forget_below(record.below);
        taken.decided.extend(record.decided);
        taken.shown.extend(record.shown);
    }

    /// How many places are remembered of what has been taken over.
    pub(super) fn remembered(&self) -> usize {
        let each = self.taken.values();
        each.map(|taken| taken.decided.len() + taken.shown.len())
            .sum()
    }

    /// Up to where, exclusively, a node shows everything that is forwarded here. It stays so: what is
    /// decided later has a place above all that the clock has shown.
    fn lowest_for(&self, node: NodeId) -> Timestamp {
        let mut waiting = self
            .outgoing
            .iter()
            .filter(|(_, out)| out.waiting.contains(&node));
        waiting.next().map_or(Timestamp::ZERO, |(place, _)| *place)
    }
}

/// Whether a transaction is another cluster's, taken over by this node.
pub(super) fn is_taken_over(transaction: TransactionId) -> bool {
    transaction.sequence & TAKEN_OVER != 0
}

impl RampNode {
    /// How many transactions of other clusters this node remembers to have taken over: those that may be
    /// forwarded again.
    pub fn remembered(&self) -> usize {
        self.sticky.as_ref().map_or(0, |sticky| sticky.remembered())
    }

    /// Who has this node's partition in the other clusters.
    fn counterparts(&self) -> SmallVec<[NodeId; 4]> {
        let others = self.topology.elsewhere.iter();
        others
            .map(|owners| owners[self.partition.index()])
            .collect()
    }

    /// A transaction of this cluster has been decided here: all others are to take it over.
    pub(super) fn forward(
        &mut self,
        place: Timestamp,
        works: Vec<(PartitionId, Vec<Effect>)>,
        out: &mut Outbox<Stamped>,
    ) {
        if works.is_empty() {
            return;
        }
        let forward = Forward { place, works };
        if let Some(journal) = &mut self.context.journal {
            let record = Box::new(forward.clone());
            journal.write(Record::Ramp(RampRecord::Forward(record)));
        }
        self.replay_forward(forward);
        self.send_forward(place, None, out);
    }

    /// The same, as it was written down.
    pub(super) fn replay_forward(&mut self, forward: Forward) {
        let waiting = self.counterparts();
        if let Some(sticky) = &mut self.sticky {
            let place = forward.place;
            sticky.outgoing.insert(place, Outgoing { forward, waiting });
        }
    }

    fn send_forward(&mut self, place: Timestamp, only: Option<NodeId>, out: &mut Outbox<Stamped>) {
        let Some(outgoing) = (self.sticky.as_ref()).and_then(|s| s.outgoing.get(&place)) else {
            return;
        };
        let (waiting, forward) = (outgoing.waiting.clone(), outgoing.forward.clone());
        for node in waiting {
            if only.is_none_or(|only| only == node) {
                let lowest = self.sticky.as_ref().map(|sticky| sticky.lowest_for(node));
                let message = Message::Forward {
                    forward: Box::new(forward.clone()),
                    lowest: lowest.unwrap_or(Timestamp::ZERO),
                };
                self.send(node, message, out);
            }
        }
    }

    /// Forwards again what a node, or all, may not have got.
    pub(super) fn forward_again(&mut self, only: Option<NodeId>, out: &mut Outbox<Stamped>) {
        let Some(sticky) = &self.sticky else {
            return;
        };
        let places: Vec<Timestamp> = sticky.outgoing.keys().copied().collect();
        for place in places {
            self.send_forward(place, only, out);
        }
    }

    /// Another cluster shows it.
    pub(super) fn handle_forwarded(&mut self, from: NodeId, place: Timestamp) {
        let Some(sticky) = &mut self.sticky else {
            return;
        };
        let Some(outgoing) = sticky.outgoing.get_mut(&place) else {
            return;
        };
        outgoing.waiting.retain(|node| *node != from);
        if outgoing.waiting.is_empty() {
            sticky.outgoing.remove(&place);
            if let Some(journal) = &mut self.context.journal {
                journal.write(Record::Ramp(RampRecord::Forwarded { place }));
            }
        }
    }

    /// Another cluster has committed this; it knows that this one shows all that it has committed below
    /// `lowest`.
    pub(super) fn handle_forward(
        &mut self,
        from: NodeId,
        forward: Forward,
        lowest: Timestamp,
        out: &mut Outbox<Stamped>,
    ) {
        let place = forward.place;
        if let Some(sticky) = &mut self.sticky {
            let taken = sticky.taken.entry(place.node()).or_default();
            taken.forget_below(lowest);
            if taken.shows(place) {
                return self.send(from, Message::Forwarded { place }, out);
            }
        }
        self.consider(Incoming { from, forward }, out);
    }

    /// Takes it over, unless it is under way, or too early.
    fn consider(&mut self, incoming: Incoming, out: &mut Outbox<Stamped>) {
        let Incoming { from, forward } = &incoming;
        let known = self.context.clock.last().max(self.context.now.as_micros());
        let ahead = forward.place.logical().saturating_sub(known);
        let Some(sticky) = &self.sticky else {
            return;
        };
        if sticky.knows(*from, forward.place) {
            return; // It is under way.
        }
        match ahead <= self.options.ahead_max.as_micros() {
            true => self.take_over(incoming, out),
            // It would take this cluster's clocks along.
            false => self.try_later(incoming, out),
        }
    }

    /// Commits it here, at its place.
    fn take_over(&mut self, incoming: Incoming, out: &mut Outbox<Stamped>) {
        let own = self.owner(self.partition);
        let Some(sticky) = &mut self.sticky else {
            return;
        };
        let place = incoming.forward.place;
        // Whatever is named here from now on comes behind it.
        self.context.clock.observe(place);
        // Of an earlier life there may be attempts that are decided and not at their end.
        let number = self.context.clock.next(self.context.now).to_bits() & !TAKEN_OVER;
        let works = incoming.forward.works.iter();
        let effects = works.map(|(partition, effects)| PartitionEffects {
            partition: *partition,
            effects: effects.clone(),
            guards: Vec::new(),
        });
        let effects = effects.collect();
        sticky.incoming.insert(number, incoming);
        let transaction = TransactionId {
            node: own,
            sequence: TAKEN_OVER | number,
        };
        self.commit_at(transaction, effects, Some(place), out);
    }

    /// This cluster shows it.
    pub(super) fn taken_over(&mut self, transaction: TransactionId, out: &mut Outbox<Stamped>) {
        if let Some(Incoming { forward, .. }) = self.end_attempt(transaction) {
            self.shows(forward.place, out);
        }
    }

    /// This cluster shows what has this place in another one, whose node is told so.
    pub(super) fn shows(&mut self, place: Timestamp, out: &mut Outbox<Stamped>) {
        if let Some(sticky) = &mut self.sticky {
            sticky.shown(place);
            self.counters.taken_over += 1;
            self.send(place.node(), Message::Forwarded { place }, out);
        }
    }

    /// It was aborted here: it is tried again, for as long as it takes; unless it was decided, and somebody
    /// has not done as he had promised: then it is in doubt for ever.
    pub(super) fn not_taken_over(&mut self, transaction: TransactionId, out: &mut Outbox<Stamped>) {
        if let Some(incoming) = self.end_attempt(transaction)
            && let Some(sticky) = &self.sticky
            && !sticky.has_decided(incoming.forward.place)
        {
            self.try_later(incoming, out);
        }
    }

    fn end_attempt(&mut self, transaction: TransactionId) -> Option<Incoming> {
        let number = transaction.sequence & !TAKEN_OVER;
        self.sticky.as_mut()?.incoming.remove(&number)
    }

    fn try_later(&mut self, incoming: Incoming, out: &mut Outbox<Stamped>) {
        let due = self.context.now + self.options.announce_after;
        if let Some(sticky) = &mut self.sticky {
            if sticky.again.is_empty() {
                out.timers.push((due, AGAIN));
            }
            sticky.again.push_back((due, incoming));
        }
    }

    /// Tries again what is due.
    pub(super) fn take_over_again(&mut self, out: &mut Outbox<Stamped>) {
        let Some(sticky) = &mut self.sticky else {
            return;
        };
        let later = std::mem::take(&mut sticky.again);
        let (due, later): (VecDeque<_>, VecDeque<_>) =
            (later.into_iter()).partition(|(due, _)| *due <= self.context.now);
        if let Some((next, _)) = later.front() {
            out.timers.push((*next, AGAIN));
        }
        sticky.again = later;
        for (_, incoming) in due {
            self.consider(incoming, out);
        }
    }
}
