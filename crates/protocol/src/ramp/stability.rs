//! Which transactions are known to be committed everywhere (ramp.txt §4.8, metadata collection).
//!
//! A coordinator issues commit timestamps in ascending order, so one number says of all its
//! transactions what is stable: the watermark below its oldest one that some participant has not
//! acknowledged. It rides on every message; a participant that would not hear of it otherwise gets
//! a message of its own when a timer runs out.
//!
//! Stable is not yet forgettable. The paper drops a transaction's metadata once it is committed
//! everywhere, since whoever reads *from then on* sees it. A reader that has asked one partition
//! before that, and asks the other after it, would be given a fracture without a trace. So a
//! reader says what it knew to be stable when it began ([`Known`]), and gets evidence of all else;
//! and evidence is kept for a while after its transaction has become stable, longer than any
//! reader over several partitions is allowed to take.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use anabranch_storage::CommitSequence;
use anabranch_types::{NodeId, PartitionId, Ticks, Timestamp};

use super::past::{Frontier, Past, Reach};
use super::record::KnownRecord;

/// Watermarks by node, as somebody knew them at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known(Arc<Vec<Timestamp>>);

impl Known {
    /// Nothing is known to be stable.
    pub fn nothing(nodes: usize) -> Known {
        Known(Arc::new(vec![Timestamp::ZERO; nodes]))
    }

    /// Whether the transaction was known to be committed on all its partitions.
    #[inline]
    pub fn includes(&self, commit: Timestamp) -> bool {
        commit <= self.0[commit.node().index()]
    }

    /// The watermark of one node.
    #[inline]
    pub fn of(&self, node: usize) -> Timestamp {
        self.0[node]
    }
}

/// When to look next. It follows from the rest, so that states are not told apart by it.
#[derive(Clone, Copy, Default)]
struct Hint(Ticks);

impl fmt::Debug for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("-")
    }
}

/// The first moment that is more than `pause` after another.
fn after(at: Ticks, pause: Ticks) -> Ticks {
    Ticks(at.0.saturating_add(pause.0).saturating_add(1))
}

/// An own transaction that is not known to be stable.
#[derive(Clone, Debug)]
struct Unstable {
    commit: Timestamp,
    /// Whether all participants have acknowledged it.
    done: bool,
    /// What it follows, under causal RAMP.
    past: Option<Arc<Past>>,
}

/// What one node knows of stability.
#[derive(Clone, Debug)]
pub(super) struct Stability {
    node: NodeId,
    /// Own transactions that have been decided, in order.
    deciding: VecDeque<Unstable>,
    /// The highest commit timestamp issued to a transaction over several partitions.
    issued: Timestamp,
    /// By node: the highest watermark heard of. The own entry is the own watermark.
    known: Known,
    /// What was known when, oldest first; younger than `retain`.
    history: VecDeque<(Ticks, Known)>,
    /// What has been known for so long that no reader needs evidence of it.
    settled: Known,
    retain: Ticks,
    /// Before this nothing ages, unless somebody tells a higher watermark.
    next: Hint,
    /// By node: the watermark told last, and the highest timestamp that it took part in.
    told: Vec<(Timestamp, Timestamp)>,
    /// Under causal RAMP: what is known, with how far owners had come (CAUSAL-I1).
    frontier: Option<Arc<Frontier>>,
    /// By node: the newest transaction of its that it was asked about, since own ones wait for it.
    awaited: Vec<Timestamp>,
    /// Of own transactions up to here, all that they follow was asked about.
    looked_at: Timestamp,
}

impl Stability {
    pub(super) fn new(node: NodeId, nodes: usize, retain: Ticks, causal: bool) -> Stability {
        Stability {
            node,
            deciding: VecDeque::new(),
            issued: Timestamp::ZERO,
            known: Known::nothing(nodes),
            history: VecDeque::new(),
            settled: Known::nothing(nodes),
            retain,
            next: Hint::default(),
            told: vec![(Timestamp::ZERO, Timestamp::ZERO); nodes],
            awaited: vec![Timestamp::ZERO; nodes],
            looked_at: Timestamp::ZERO,
            frontier: causal.then(|| {
                Arc::new(Frontier {
                    known: Known::nothing(nodes),
                    reach: Reach::default(),
                })
            }),
        }
    }

    /// What is known to be stable by now.
    #[inline]
    pub(super) fn known(&self) -> &Known {
        &self.known
    }

    /// Whether no reader can need evidence of the transaction.
    #[inline]
    pub(super) fn is_settled(&self, commit: Timestamp) -> bool {
        self.settled.includes(commit)
    }

    /// Takes note of the time. True if something has become settled.
    #[inline]
    pub(super) fn age(&mut self, now: Ticks) -> bool {
        now >= self.next.0 && self.age_now(now)
    }

    fn age_now(&mut self, now: Ticks) -> bool {
        let pause = Ticks(self.retain.0 / 16);
        let is_news = |history: &VecDeque<(Ticks, Known)>| {
            let last = history.back().map_or(&self.settled, |(_, known)| known);
            *last != self.known
        };
        let due = self.history.back().map(|(at, _)| after(*at, pause));
        if due.is_none_or(|due| now >= due) && is_news(&self.history) {
            self.history.push_back((now, self.known.clone()));
        }
        let news = is_news(&self.history);
        let mut aged = false;
        while let Some((at, _)) = self.history.front()
            && now >= after(*at, self.retain)
        {
            (_, self.settled) = self.history.pop_front().expect("it has a front");
            aged = true;
        }
        let taken = match (news, self.history.back()) {
            (false, _) => Ticks(u64::MAX),
            (true, Some((at, _))) => after(*at, pause),
            (true, None) => Ticks::default(),
        };
        let settled = self.history.front();
        let settled = settled.map_or(Ticks(u64::MAX), |(at, _)| after(*at, self.retain));
        self.next = Hint(taken.min(settled));
        aged
    }

    /// The own watermark.
    #[inline]
    pub(super) fn own(&self) -> Timestamp {
        self.known.of(self.node.index())
    }

    /// An own transaction has been decided, with these other nodes taking part. What it follows has to be
    /// stable before it is.
    pub(super) fn decided(
        &mut self,
        commit: Timestamp,
        past: Option<Arc<Past>>,
        others: impl Iterator<Item = NodeId>,
    ) {
        debug_assert!(commit > self.issued, "commit timestamps ascend");
        self.issued = commit;
        self.deciding.push_back(Unstable {
            commit,
            done: false,
            past,
        });
        for node in others {
            self.told[node.index()].1 = commit;
        }
    }

    /// Under causal RAMP: the own partition has installed an own transaction without other participants.
    pub(super) fn decided_alone(&mut self, commit: Timestamp, past: Option<Arc<Past>>) {
        debug_assert!(commit > self.issued, "commit timestamps ascend");
        self.issued = commit;
        self.deciding.push_back(Unstable {
            commit,
            done: true,
            past,
        });
        self.advance();
    }

    /// An own transaction has been acknowledged by all its participants.
    pub(super) fn done(&mut self, commit: Timestamp) {
        let at = self
            .deciding
            .binary_search_by_key(&commit, |open| open.commit);
        self.deciding[at.expect("a transaction is decided before it is done")].done = true;
        self.advance();
    }

    /// Raises the own watermark over all that is done and follows nothing that is not stable.
    fn advance(&mut self) {
        while let Some(front) = self.deciding.front()
            && front.done
            && (front.past.as_ref()).is_none_or(|past| past.is_known(&self.known))
        {
            let past = self.deciding.pop_front().and_then(|stable| stable.past);
            if let (Some(past), Some(frontier)) = (past, &mut self.frontier)
                && !frontier.reach.covers(&past.reach)
            {
                Arc::make_mut(frontier).reach.merge(&past.reach);
            }
            let own = self.below_deciding();
            self.raise(self.node, own);
        }
    }

    /// What lies below all that is not stable.
    fn below_deciding(&self) -> Timestamp {
        match self.deciding.front() {
            Some(oldest) => Timestamp::from_bits(oldest.commit.to_bits() - 1),
            None => self.issued,
        }
    }

    fn raise(&mut self, node: NodeId, watermark: Timestamp) {
        if watermark > self.known.of(node.index()) {
            self.next = Hint::default();
            Arc::make_mut(&mut self.known.0)[node.index()] = watermark;
            if let Some(frontier) = &mut self.frontier {
                Arc::make_mut(frontier).known = self.known.clone();
            }
        }
    }

    /// A node has told its watermark, and under causal RAMP those that it knows.
    #[inline]
    pub(super) fn heard(
        &mut self,
        from: NodeId,
        watermark: Timestamp,
        frontier: Option<&Arc<Frontier>>,
    ) {
        if let Some(theirs) = frontier {
            self.heard_of_all(theirs);
        }
        self.raise(from, watermark);
        if self.frontier.is_some() {
            self.advance();
        }
    }

    /// An owner has told all that it knows to be stable. Under causal RAMP every message does, and how far
    /// owners had come.
    pub(super) fn heard_known(&mut self, theirs: &Known) {
        if self.frontier.is_some() {
            return;
        }
        for node in (0..self.told.len() as u16).map(NodeId) {
            if node != self.node {
                self.raise(node, theirs.of(node.index()));
            }
        }
    }

    fn heard_of_all(&mut self, theirs: &Frontier) {
        let Some(own) = &mut self.frontier else {
            return;
        };
        if !own.reach.covers(&theirs.reach) {
            Arc::make_mut(own).reach.merge(&theirs.reach);
        }
        // Of itself a node knows best: what it had said before a crash it may have to find out again.
        for node in (0..self.told.len() as u16).map(NodeId) {
            if node != self.node {
                self.raise(node, theirs.known.of(node.index()));
            }
        }
    }

    // Causal RAMP

    /// What is known, and how far owners had come; nothing if nobody follows anything.
    #[inline]
    pub(super) fn frontier(&self) -> Option<&Arc<Frontier>> {
        self.frontier.as_ref()
    }

    /// An owner has come this far with what somebody is to be told of.
    pub(super) fn reached(&mut self, partition: PartitionId, sequence: CommitSequence) {
        if let Some(frontier) = &mut self.frontier
            && frontier.reach.of(partition) < sequence
        {
            Arc::make_mut(frontier).reach.raise(partition, sequence);
        }
    }

    /// The same, as it was written down.
    pub(super) fn replay_reach(&mut self, reach: &Reach) {
        if let Some(frontier) = &mut self.frontier {
            Arc::make_mut(frontier).reach.merge(reach);
        }
    }

    /// The oldest own transaction, if only what it follows keeps it from being stable, and somebody may have
    /// to be asked about that.
    #[inline]
    pub(super) fn waiting(&self) -> Option<Timestamp> {
        let newest = self.deciding.back()?.commit;
        let oldest = self.deciding.front()?;
        (oldest.done && newest > self.looked_at).then_some(oldest.commit)
    }

    /// What own transactions wait for that its coordinators were not asked about: the newest of each. From
    /// now on they were.
    pub(super) fn take_unasked(&mut self) -> Vec<Timestamp> {
        let looked_at = self.looked_at;
        let new = self
            .deciding
            .partition_point(|open| open.commit <= looked_at);
        let mut newest: BTreeMap<NodeId, Timestamp> = BTreeMap::new();
        for open in self.deciding.range(new..) {
            let named = open.past.iter().flat_map(|past| &*past.named);
            for commit in named.map(|named| named.commit) {
                let node = commit.node();
                let asked = self.awaited[node.index()].max(self.known.of(node.index()));
                if node != self.node && commit > asked {
                    let of_node = newest.entry(node).or_insert(commit);
                    *of_node = commit.max(*of_node);
                }
            }
        }
        for (node, commit) in &newest {
            self.awaited[node.index()] = *commit;
        }
        self.looked_at = self.deciding.back().map_or(looked_at, |last| last.commit);
        newest.into_values().collect()
    }

    /// Another node waits for an own transaction. True if it can be told at once; otherwise it is when
    /// the transaction is stable.
    pub(super) fn awaited(&mut self, by: NodeId, commit: Timestamp) -> bool {
        if commit > self.own() && commit <= self.issued {
            let took_part = &mut self.told[by.index()].1;
            *took_part = commit.max(*took_part);
        }
        commit <= self.own()
    }

    /// A node has come back, and remembers nobody who waits.
    pub(super) fn await_again(&mut self, node: NodeId) {
        let awaited = &mut self.awaited[node.index()];
        if *awaited > self.known.of(node.index()) {
            self.looked_at = Timestamp::ZERO;
        }
        *awaited = Timestamp::ZERO;
    }

    /// How far owners had come, to be written down.
    pub(super) fn reach(&self) -> Option<Reach> {
        let frontier = self.frontier.as_ref()?;
        Some(frontier.reach.clone())
    }

    /// The watermark to put on a message to this node.
    #[inline]
    pub(super) fn tell(&mut self, to: NodeId) -> Timestamp {
        let own = self.own();
        self.told[to.index()].0 = own;
        own
    }

    /// The nodes that wait to be told of something that is stable by now.
    pub(super) fn untold(&self) -> impl Iterator<Item = NodeId> + '_ {
        let own = self.own();
        let waits =
            move |(told, took_part): &(Timestamp, Timestamp)| told < took_part && *told < own;
        (0u16..)
            .zip(&self.told)
            .filter(move |(_, told)| waits(told))
            .map(|(node, _)| NodeId(node))
    }

    /// Whether every own transaction that was decided is done.
    pub(super) fn is_idle(&self) -> bool {
        self.deciding.iter().all(|open| open.done)
    }

    // Coming back

    /// What a checkpoint keeps; the rest of the record is the participant's.
    pub(super) fn checkpoint(&self) -> KnownRecord {
        KnownRecord {
            known: self.known.0.to_vec(),
            settled: self.settled.0.to_vec(),
            issued: self.issued,
            reach: self.reach(),
            waiting: self
                .deciding
                .iter()
                .filter(|open| open.done && self.frontier.is_some())
                .map(|open| (open.commit, open.past.clone()))
                .collect(),
            ..KnownRecord::default()
        }
    }

    /// What has been stable for so long that no reader can need evidence of it.
    pub(super) fn long_known(&self) -> &Known {
        &self.settled
    }

    /// By node: up to where its transactions are settled.
    pub(super) fn settled(&self) -> Vec<Timestamp> {
        self.settled.0.to_vec()
    }

    /// What was settled in an earlier life, or at the primary.
    pub(super) fn replay_settled(&mut self, settled: Vec<Timestamp>) {
        for (node, watermark) in (0..).map(NodeId).zip(&settled) {
            self.raise(node, *watermark);
        }
        self.settled = Known(Arc::new(settled));
    }

    /// What a checkpoint has kept.
    pub(super) fn replay(&mut self, known: &KnownRecord) {
        self.next = Hint::default();
        self.known = Known(Arc::new(known.known.clone()));
        self.settled = Known(Arc::new(known.settled.clone()));
        self.issued = self.issued.max(known.issued);
        if let Some(reach) = &known.reach {
            self.replay_reach(reach);
        }
        if let Some(frontier) = &mut self.frontier {
            Arc::make_mut(frontier).known = self.known.clone();
        }
        // What is decided and not acknowledged has been replayed before this.
        let waiting = known.waiting.iter();
        self.deciding.extend(waiting.map(|(commit, past)| Unstable {
            commit: *commit,
            done: true,
            past: past.clone(),
        }));
        let ordered = self.deciding.make_contiguous();
        ordered.sort_unstable_by_key(|open| open.commit);
    }

    /// All has been replayed. What this node had coordinated and not decided has left no trace, and
    /// what has ended is stable.
    pub(super) fn recover(&mut self) {
        self.advance();
        let own = self.below_deciding();
        self.raise(self.node, own);
    }

    /// RAMP-I6, as far as one node sees it.
    pub(super) fn check_invariants(&self) -> Result<(), String> {
        let mut before = self.own();
        for Unstable { commit, past, .. } in &self.deciding {
            if *commit <= before {
                return Err(format!(
                    "RAMP-I6: {commit} is decided, yet {before} is not below it"
                ));
            }
            let newest = past.as_ref().and_then(|past| past.newest());
            if newest.is_some_and(|newest| newest >= *commit) {
                return Err(format!(
                    "CAUSAL-I5: {commit} follows {newest:?}, which is not below it"
                ));
            }
            before = *commit;
        }
        match self.deciding.front() {
            Some(oldest)
                if oldest.done
                    && (oldest.past.as_ref()).is_none_or(|past| past.is_known(&self.known)) =>
            {
                let oldest = oldest.commit;
                Err(format!("RAMP-I6: {oldest} is done and still oldest"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_types::HybridClock;

    use super::*;

    /// Looking at the time only when something can age forgets nothing that was told meanwhile.
    #[test]
    fn what_is_told_is_settled_when_it_has_been_known_for_long_enough() {
        let retain = Ticks(1_600);
        let mut stability = Stability::new(NodeId(0), 2, retain, false);
        let mut other = HybridClock::new(NodeId(1));
        for told in [20, 5_000] {
            assert!(!stability.age(Ticks(told - 1)), "nothing is there to age");
            let commit = other.next(Ticks(told));
            stability.heard(NodeId(1), commit, None);
            for early in [told, told + retain.0] {
                assert!(!stability.age(Ticks(early)), "told at {told}, now {early}");
                assert!(!stability.is_settled(commit));
            }
            assert!(stability.age(Ticks(told + retain.0 + 1)), "told at {told}");
            assert!(stability.is_settled(commit));
        }
    }
}
