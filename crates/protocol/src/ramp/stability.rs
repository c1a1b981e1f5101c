//! Which transactions are known to be committed everywhere (ramp.txt §4.8, metadata collection).
//!
//! A coordinator issues commit timestamps in ascending order, so one number says of all its
//! transactions what is stable: the watermark below its oldest one that some participant has not
//! acknowledged. It rides on every message; a participant that would not hear of it otherwise gets
//! a message of its own when a timer runs out.
//!
//! One transaction that a participant does not acknowledge (it is down, or its messages are lost) would hold
//! the watermark up, and readers would be told of everything since. So a coordinator sets it aside after a
//! while: the watermark goes on, and the few below it that are *strays* are told by name ([`Strays`]).
//!
//! Stable is not yet forgettable. The paper drops a transaction's metadata once it is committed
//! everywhere, since whoever reads *from then on* sees it. A reader that has asked one partition
//! before that, and asks the other after it, would be given a fracture without a trace. So a
//! reader says what it knew to be stable when it began ([`Known`]), and gets evidence of all else;
//! and evidence is kept for a while after its transaction has become stable, longer than any
//! reader over several partitions is allowed to take, or until all nodes have said that no reader of theirs
//! needs it ([gossip](super::gossip)).

mod aside;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use anabranch_storage::CommitSequence;
use anabranch_types::{NodeId, PartitionId, Ticks, Timestamp};
use smallvec::SmallVec;

use super::gossip::{Parted, Settled};
use super::known::{Known, Strays, below};
use super::message::ReadersKnow;
use super::past::{Frontier, Past, Reach};
use super::record::KnownRecord;

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
    /// When it was decided.
    at: Ticks,
    /// Whether all participants have acknowledged it.
    done: bool,
    /// What it follows, under causal RAMP.
    past: Option<Arc<Past>>,
    /// Its other participants.
    others: SmallVec<[NodeId; 2]>,
}

/// When a transaction is set aside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aside {
    /// So long after it was decided.
    pub(super) after: Ticks,
    /// If so many later ones wait for it.
    pub(super) behind: usize,
    /// As long as no more have been.
    pub(super) most: usize,
    /// How many are remembered at most that are none any more, for gossip.
    pub(super) parted: usize,
}

/// What one node knows of stability.
#[derive(Clone, Debug)]
pub(super) struct Stability {
    node: NodeId,
    /// Own transactions that have been decided, in order.
    deciding: VecDeque<Unstable>,
    /// When some of these are set aside; never, if nothing is said.
    aside: Option<Aside>,
    /// How long the faster quarter of own transactions takes to be acknowledged.
    quick: Ticks,
    /// By node: the newest own transaction that it has acknowledged, if some are ever set aside.
    acknowledged: Vec<Timestamp>,
    /// Those that have been, in order, with their other participants.
    strays: BTreeMap<Timestamp, SmallVec<[NodeId; 2]>>,
    /// Those that were, as long as some reader may not know that they are no more.
    parted: Parted,
    /// Whether some have become stable that others have not been told of.
    fewer: bool,
    /// By node: whether it took part in some that have, and has not been told.
    owed: Vec<bool>,
    /// The time of this step.
    now: Hint,
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
    /// By node: what its readers know of own transactions, as it has said.
    readers: Vec<ReadersKnow>,
    /// Whether more is known to be stable than is settled.
    remembers: bool,
    /// By node: of which of its transactions no reader anywhere needs evidence, as it has said.
    unneeded: Known,
}

impl Stability {
    pub(super) fn new(
        node: NodeId,
        nodes: usize,
        retain: Ticks,
        causal: bool,
        aside: Option<Aside>,
    ) -> Stability {
        Stability {
            node,
            deciding: VecDeque::new(),
            aside,
            quick: Ticks::default(),
            acknowledged: vec![Timestamp::ZERO; nodes],
            strays: BTreeMap::new(),
            parted: Parted::at_most(aside.map_or(0, |aside| aside.parted)),
            fewer: false,
            owed: vec![false; nodes],
            now: Hint::default(),
            issued: Timestamp::ZERO,
            known: Known::nothing(nodes),
            history: VecDeque::new(),
            settled: Known::nothing(nodes),
            retain,
            next: Hint::default(),
            told: vec![(Timestamp::ZERO, Timestamp::ZERO); nodes],
            awaited: vec![Timestamp::ZERO; nodes],
            looked_at: Timestamp::ZERO,
            readers: vec![ReadersKnow::default(); nodes],
            remembers: false,
            unneeded: Known::nothing(nodes),
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
        self.now = Hint(now);
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
            let (_, known) = self.history.pop_front().expect("it has a front");
            self.settle(&known);
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

    /// All of this is settled.
    fn settle(&mut self, known: &Known) {
        for node in 0..self.told.len() {
            self.settled.join(node, known.of(node), known.strays(node));
        }
    }

    // Gossip

    /// Whether something that is stable is remembered, as far as is known.
    #[inline]
    pub(super) fn remembers_stable(&self) -> bool {
        self.remembers
    }

    /// A node has said what its readers know of own transactions, and how far all readers know its.
    pub(super) fn heard_unneeded(
        &mut self,
        from: NodeId,
        readers: ReadersKnow,
        anywhere: Timestamp,
        strays: Option<&Arc<Strays>>,
    ) {
        self.readers[from.index()] = readers;
        self.unneeded.join(from.index(), anywhere, strays);
    }

    /// Settles what no reader anywhere needs, where those here know so much of own transactions, as far as it was
    /// said.
    pub(super) fn settle_unneeded(&mut self, readers: ReadersKnow) -> Settled {
        let own = self.node.index();
        self.readers[own] = readers;
        let least = |of: fn(&ReadersKnow) -> Timestamp| {
            let least = self.readers.iter().map(of).min();
            least.expect("there is this node")
        };
        let (all, but_strays) = (least(|r| r.all), least(|r| r.but_strays));
        let (since, now) = (least(|r| r.since), self.known.strays(own));
        let but = self.parted.unknown_to(since, but_strays, now.map(|s| &**s));
        let but = but.map(Arc::new);
        let anywhere = but.as_ref().map_or(all, |_| but_strays);
        self.unneeded.join(own, anywhere, but.as_ref());
        let mut more = false;
        for node in 0..self.told.len() {
            // Nobody says more of others' than their own watermarks, which came with it; but one that was a
            // stray then may be none any more.
            let unneeded = self.unneeded.of(node).min(self.known.of(node));
            let strays = self.unneeded.strays(node).cloned();
            self.raise(NodeId(node as u16), unneeded, strays.as_ref());
            more |= self.settled.join(node, unneeded, strays.as_ref());
        }
        let behind = |node: usize| {
            let strays = self.settled.strays(node).into_iter();
            let mut strays = strays.flat_map(|strays| &strays.commits);
            self.settled.of(node) < self.known.of(node) || strays.any(|c| self.known.includes(*c))
        };
        self.remembers = (0..self.told.len()).any(behind);
        Settled {
            anywhere,
            but,
            more,
        }
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
        let others: SmallVec<[NodeId; 2]> = others.collect();
        for node in &others {
            self.told[node.index()].1 = commit;
        }
        self.deciding.push_back(Unstable {
            commit,
            at: self.since_now(),
            done: false,
            past,
            others,
        });
    }

    /// Under causal RAMP: the own partition has installed an own transaction without other participants.
    pub(super) fn decided_alone(&mut self, commit: Timestamp, past: Option<Arc<Past>>) {
        debug_assert!(commit > self.issued, "commit timestamps ascend");
        self.issued = commit;
        self.deciding.push_back(Unstable {
            commit,
            at: self.since_now(),
            done: true,
            past,
            others: SmallVec::new(),
        });
        self.advance();
    }

    /// An own transaction has been acknowledged by all its participants.
    pub(super) fn done(&mut self, commit: Timestamp) {
        if let Some(others) = self.strays.remove(&commit) {
            self.fewer = true;
            self.parted.leaves(commit);
            for node in others {
                self.owed[node.index()] = true;
            }
            self.took(Ticks(u64::MAX));
            return;
        }
        let at = self
            .deciding
            .binary_search_by_key(&commit, |open| open.commit);
        let open = &mut self.deciding[at.expect("a transaction is decided before it is done")];
        open.done = true;
        let took = Ticks(self.now.0.0.saturating_sub(open.at.0));
        self.took(took);
        self.advance();
    }

    /// What is told of own transactions from now on (`since`).
    pub(super) fn say(&mut self, since: Timestamp) {
        self.fewer = false;
        let strays = Strays {
            since,
            commits: self.strays.keys().copied().collect(),
        };
        let own = self.below_deciding().max(self.own());
        self.parted.told(since);
        if self
            .known
            .set(self.node.index(), own, Some(Arc::new(strays)))
        {
            self.next = Hint::default();
            self.remembers = true;
        }
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
            let strays = self.known.strays(self.node.index()).cloned();
            self.raise(self.node, own, strays.as_ref());
        }
    }

    /// What lies below all that is not stable.
    fn below_deciding(&self) -> Timestamp {
        match self.deciding.front() {
            Some(oldest) => below(oldest.commit),
            None => self.issued,
        }
    }

    fn raise(&mut self, node: NodeId, watermark: Timestamp, strays: Option<&Arc<Strays>>) {
        if self.known.join(node.index(), watermark, strays) {
            self.next = Hint::default();
            self.remembers = true;
            if let Some(frontier) = &mut self.frontier {
                Arc::make_mut(frontier).known = self.known.clone();
            }
        }
    }

    /// A node has told its watermark and its strays, and under causal RAMP those that it knows.
    #[inline]
    pub(super) fn heard(
        &mut self,
        from: NodeId,
        watermark: Timestamp,
        strays: Option<&Arc<Strays>>,
        frontier: Option<&Arc<Frontier>>,
    ) {
        if let Some(theirs) = frontier {
            self.heard_of_all(theirs);
        }
        self.raise(from, watermark, strays);
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
                let of = node.index();
                self.raise(node, theirs.of(of), theirs.strays(of));
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
                let of = node.index();
                self.raise(node, theirs.known.of(of), theirs.known.strays(of));
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

    /// The watermark to put on a message to this node, and what is below it and not stable.
    #[inline]
    pub(super) fn tell(&mut self, to: NodeId) -> (Timestamp, Option<Arc<Strays>>) {
        let own = self.own();
        self.told[to.index()].0 = own;
        if !self.fewer {
            self.owed[to.index()] = false;
        }
        (own, self.known.strays(self.node.index()).cloned())
    }

    /// The nodes that wait to be told of something that is stable by now.
    pub(super) fn untold(&self) -> impl Iterator<Item = NodeId> + '_ {
        let own = self.own();
        let waits = move |((told, took_part), owed): (&(Timestamp, Timestamp), &bool)| {
            told < took_part && *told < own || *owed
        };
        (0u16..)
            .zip(self.told.iter().zip(&self.owed))
            .filter(move |(_, told)| waits(*told))
            .map(|(node, _)| NodeId(node))
    }

    /// Whether every own transaction that was decided is done.
    pub(super) fn is_idle(&self) -> bool {
        self.strays.is_empty() && self.deciding.iter().all(|open| open.done)
    }

    // Coming back

    /// What a checkpoint keeps; the rest of the record is the participant's.
    pub(super) fn checkpoint(&self) -> KnownRecord {
        KnownRecord {
            known: self.known.floors(),
            settled: self.settled.watermarks(),
            strays: self.settled_strays(),
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

    /// By node: up to where all of its transactions are settled.
    pub(super) fn settled(&self) -> Vec<Timestamp> {
        self.settled.floors()
    }

    /// What is below the watermarks of what is settled and is not, with when that was said.
    fn settled_strays(&self) -> Vec<(Timestamp, Vec<Timestamp>)> {
        let nodes = 0..self.told.len();
        let strays = nodes.filter_map(|node| self.settled.strays(node));
        strays.map(|s| (s.since, s.commits.to_vec())).collect()
    }

    /// What was settled in an earlier life, or at the primary.
    pub(super) fn replay_settled(&mut self, settled: Vec<Timestamp>) {
        for (node, watermark) in (0..).map(NodeId).zip(&settled) {
            self.raise(node, *watermark, None);
            self.settled.join(node.index(), *watermark, None);
        }
    }

    /// What a checkpoint has kept.
    pub(super) fn replay(&mut self, known: &KnownRecord) {
        self.next = Hint::default();
        self.settled = Known::up_to(known.settled.clone());
        for (since, commits) in &known.strays {
            let node = since.node().index();
            let strays = Strays {
                since: *since,
                commits: commits.as_slice().into(),
            };
            (self.settled).set(node, known.settled[node], Some(Arc::new(strays)));
        }
        self.known = self.settled.clone();
        for (node, watermark) in known.known.iter().enumerate() {
            self.known.join(node, *watermark, None);
        }
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
            at: Ticks::default(),
            done: true,
            past: past.clone(),
            others: SmallVec::new(),
        }));
        let ordered = self.deciding.make_contiguous();
        ordered.sort_unstable_by_key(|open| open.commit);
    }

    /// All has been replayed. What this node had coordinated and not decided has left no trace, and
    /// what has ended is stable.
    pub(super) fn recover(&mut self) {
        self.advance();
        // Others may know a list of strays of an earlier life, with a watermark that is not known here. The first one
        // of this life has a watermark that is no lower: all that is not acknowledged is set aside, and told
        // by name. Whoever joins the two then knows all that the newer one says.
        while let Some(front) = self.deciding.front()
            && (self.aside.is_some() || front.commit <= self.own())
        {
            let front = self.deciding.pop_front().expect("it has a front");
            if !front.done {
                self.strays.insert(front.commit, front.others);
            }
        }
        let own = self.below_deciding();
        self.raise(self.node, own, None);
    }

    /// RAMP-I6, as far as one node sees it.
    pub(super) fn check_invariants(&self) -> Result<(), String> {
        let own = self.node.index();
        let told = self.known.strays(own);
        let untold = self.strays.keys().find(|commit| {
            let told = told.is_some_and(|told| told.contain(**commit));
            **commit <= self.own() && !told
        });
        if let Some(untold) = untold {
            return Err(format!(
                "RAMP-I6: {untold} is not shown everywhere, and told to be stable"
            ));
        }
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

    /// A coordinator of two nodes, and four transactions that it has decided at 10, the last two of which have been
    /// acknowledged.
    struct Coordinator {
        stability: Stability,
        commits: Vec<Timestamp>,
        clock: HybridClock,
        aside: Aside,
        retain: Ticks,
    }

    impl Coordinator {
        fn new(node: NodeId, most: usize, retain: Ticks) -> Coordinator {
            let aside = Aside {
                after: Ticks(100),
                behind: 2,
                most,
                parted: 4,
            };
            let mut clock = HybridClock::new(node);
            let mut stability = Stability::new(node, 2, retain, false, Some(aside));
            stability.age(Ticks(10));
            let commits: Vec<Timestamp> = (0..4).map(|_| clock.next(Ticks(10))).collect();
            let other = NodeId(1 - node.0);
            for commit in &commits {
                stability.decided(*commit, None, std::iter::once(other));
            }
            for commit in &commits[2..] {
                stability.done(*commit);
            }
            Coordinator {
                stability,
                commits,
                clock,
                aside,
                retain,
            }
        }

        /// The same as it comes back from a checkpoint of now, of whom these have not been acknowledged by then, and
        /// these have by the end of its log.
        fn come_back(&self, waiting: &[Timestamp], ended: &[Timestamp]) -> Stability {
            let node = self.stability.node;
            let record = self.stability.checkpoint();
            let mut again = Stability::new(node, 2, self.retain, false, Some(self.aside));
            for commit in waiting {
                again.decided(*commit, None, std::iter::once(NodeId(1 - node.0)));
            }
            again.replay(&record);
            for commit in ended {
                again.done(*commit);
            }
            again.recover();
            again
        }
    }

    /// Whether no reader needs evidence of these.
    fn settled(stability: &Stability, commits: &[Timestamp]) -> Vec<bool> {
        commits.iter().map(|c| stability.is_settled(*c)).collect()
    }

    /// Looking at the time only when something can age forgets nothing that was told meanwhile.
    #[test]
    fn what_is_told_is_settled_when_it_has_been_known_for_long_enough() {
        let retain = Ticks(1_600);
        let mut stability = Stability::new(NodeId(0), 2, retain, false, None);
        let mut other = HybridClock::new(NodeId(1));
        for told in [20, 5_000] {
            assert!(!stability.age(Ticks(told - 1)), "nothing is there to age");
            let commit = other.next(Ticks(told));
            stability.heard(NodeId(1), commit, None, None);
            for early in [told, told + retain.0] {
                assert!(!stability.age(Ticks(early)), "told at {told}, now {early}");
                assert!(!stability.is_settled(commit));
            }
            assert!(stability.age(Ticks(told + retain.0 + 1)), "told at {told}");
            assert!(stability.is_settled(commit));
        }
    }

    /// By gossip all but the strays is settled; a reader that knows an older list may still need what has left it.
    #[test]
    fn strays_alone_are_left_out_of_gossip() {
        let mut coordinator = Coordinator::new(NodeId(1), 2, Ticks(1 << 40));
        let (stability, commits) = (&mut coordinator.stability, &coordinator.commits);
        let clock = &mut coordinator.clock;
        stability.age(Ticks(111));
        stability.set_aside(clock.next(Ticks(111)));
        let hear = |stability: &mut Stability, readers: &Known| {
            let told = readers.of_readers(1);
            stability.heard_unneeded(NodeId(0), told, Timestamp::ZERO, None);
            let own = stability.known().of_readers(1);
            stability.settle_unneeded(own)
        };
        let named = |found: &Settled| {
            let but = found.but.as_ref().expect("lists are compared");
            but.commits.to_vec()
        };
        // Whoever knows no list may need all from the first stray on.
        let nothing = Known::nothing(2);
        let found = hear(stability, &nothing);
        assert!(found.but.is_none() && !found.more && found.anywhere == Timestamp::ZERO);
        let with_both = stability.known().clone();
        let found = hear(stability, &with_both);
        assert_eq!(
            (found.anywhere, named(&found)),
            (commits[3], commits[..2].to_vec())
        );
        assert_eq!(settled(stability, commits), [false, false, true, true]);
        // One is acknowledged, and told so; a reader there began before that was heard, and later ones of what
        // comes after are not kept for it.
        stability.done(commits[0]);
        let found = hear(stability, &with_both);
        assert_eq!(named(&found), commits[..2]);
        stability.say(clock.next(Ticks(200)));
        let found = hear(stability, &with_both);
        assert_eq!(
            (found.anywhere, named(&found)),
            (commits[3], commits[..2].to_vec())
        );
        assert_eq!(settled(stability, commits), [false, false, true, true]);
        let with_one = stability.known().clone();
        let found = hear(stability, &with_one);
        assert_eq!((named(&found), found.more), (commits[1..2].to_vec(), true));
        assert_eq!(settled(stability, commits), [true, false, true, true]);
        // What has been forgotten nobody is told of any more: whoever knows the older list is waited for.
        let found = hear(stability, &with_both);
        assert!(found.but.is_none() && found.anywhere < commits[0]);
        // A coordinator that has come back knows nothing of who has left before: it waits for those who know only
        // what it said then.
        let mut again = coordinator.come_back(&coordinator.commits[1..2], &[]);
        again.say(coordinator.clock.next(Ticks(300)));
        assert!(hear(&mut again, &with_one).but.is_none());
        let now = again.known().clone();
        assert_eq!(named(&hear(&mut again, &now)), coordinator.commits[1..2]);
        assert_eq!(
            settled(&again, &coordinator.commits),
            [true, false, true, true]
        );
    }

    /// One of two strays of a checkpoint has ended since: a coordinator that comes back waits for the other alone.
    #[test]
    fn a_stray_that_has_ended_since_the_checkpoint_is_none() {
        let mut coordinator = Coordinator::new(NodeId(0), 4, Ticks(1_600));
        let stability = &mut coordinator.stability;
        stability.age(Ticks(111));
        assert_eq!(stability.set_aside(coordinator.clock.next(Ticks(111))), 2);
        for at in [200, 5_000] {
            stability.age(Ticks(at));
        }
        let commits = &coordinator.commits;
        let mut again = coordinator.come_back(&commits[..2], &commits[1..2]);
        again.say(coordinator.clock.next(Ticks(6_000)));
        again.done(commits[0]);
        assert!(again.is_idle());
        again.say(coordinator.clock.next(Ticks(6_100)));
        assert!(commits.iter().all(|commit| again.known().includes(*commit)));
    }

    /// Whoever has acknowledged later ones is not slow to acknowledge an earlier one: it is waited for an eighth as
    /// long. One of two participants that has not may be slow.
    #[test]
    fn what_others_have_overtaken_is_set_aside_sooner() {
        for (by, sooner) in [(&[1, 2][..], true), (&[1], false), (&[], false)] {
            let aside = Aside {
                after: Ticks(800),
                behind: 2,
                most: 4,
                parted: 4,
            };
            let mut clock = HybridClock::new(NodeId(0));
            let mut stability = Stability::new(NodeId(0), 3, Ticks(9_000), false, Some(aside));
            stability.age(Ticks(10));
            let commits: Vec<Timestamp> = (0..4).map(|_| clock.next(Ticks(10))).collect();
            for commit in &commits {
                stability.decided(*commit, None, [NodeId(1), NodeId(2)].into_iter());
            }
            for (node, commit) in by.iter().flat_map(|node| [(*node, 0), (*node, 2)]) {
                // One of two is enough for the first not to be acknowledged by all.
                if (node, commit) != (2, 0) {
                    stability.acknowledged(NodeId(node), commits[commit]);
                }
            }
            stability.age(Ticks(110));
            assert!(!stability.is_held_up(), "{by:?}: not yet");
            stability.age(Ticks(111));
            assert_eq!(stability.is_held_up(), sooner, "{by:?}");
            stability.age(Ticks(811));
            assert!(stability.is_held_up(), "{by:?}: late is late");
            stability.set_aside(clock.next(Ticks(811)));
            assert!(!stability.known().includes(commits[0]));
        }
    }

    /// One that is not acknowledged holds nobody up for longer than it may, is told by name, and is stable when
    /// it has been acknowledged; so it is for a coordinator that comes back in between.
    #[test]
    fn what_is_set_aside_is_told_by_name() {
        let mut coordinator = Coordinator::new(NodeId(0), 1, Ticks(1_600));
        let (stability, commits) = (&mut coordinator.stability, &coordinator.commits);
        let (clock, other) = (&mut coordinator.clock, NodeId(1));
        assert!(!stability.is_held_up(), "not yet");
        stability.age(Ticks(111));
        assert!(stability.is_held_up());
        assert_eq!(stability.set_aside(clock.next(Ticks(111))), 1);
        // Only one may be aside: the second keeps the others waiting.
        assert_eq!(stability.own(), below(commits[1]));
        assert!(!stability.known().includes(commits[0]) && !stability.is_held_up());
        stability.done(commits[1]);
        assert_eq!(stability.own(), commits[3]);
        assert_eq!(stability.check_invariants(), Ok(()));
        let (told, strays) = stability.tell(other);
        assert_eq!(told, commits[3]);
        assert_eq!(*strays.expect("there is one").commits, [commits[0]]);
        assert!(!stability.is_idle());

        // All but the stray is settled, and a checkpoint says so.
        for at in [200, 5_000] {
            stability.age(Ticks(at));
        }
        assert_eq!(settled(stability, commits), [false, true, true, true]);
        let mut again = coordinator.come_back(&coordinator.commits[..1], &[]);
        let Coordinator {
            stability,
            commits,
            mut clock,
            ..
        } = coordinator;
        again.say(clock.next(Ticks(6_000)));
        assert_eq!(settled(&again, &commits), [false, true, true, true]);
        assert_eq!((again.own(), again.is_idle()), (commits[3], false));
        assert_eq!(again.check_invariants(), Ok(()));

        for mut stability in [stability, again] {
            stability.done(commits[0]);
            assert!(stability.is_idle() && stability.has_fewer());
            assert!(!stability.known().includes(commits[0]), "nobody was told");
            stability.say(clock.next(Ticks(6_000)));
            assert!(stability.known().includes(commits[0]));
            assert_eq!(stability.untold().collect::<Vec<_>>(), [other]);
            let (_, strays) = stability.tell(other);
            assert!(strays.expect("there were some").commits.is_empty());
            assert_eq!(stability.untold().next(), None);
        }
    }
}
