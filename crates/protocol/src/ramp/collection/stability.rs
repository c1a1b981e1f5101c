//! Which transactions are known to be committed everywhere (ramp.txt §4.8, metadata collection).
//!
//! A coordinator issues commit timestamps in ascending order, so one number describes which of its transactions are
//! stable: the watermark below the oldest one that some participant has not acknowledged. It is part of every
//! message. A participant that gets no other message gets one of its own when a timer runs out.
//!
//! One transaction that a participant does not acknowledge (it is down, or its messages are lost) would hold the
//! watermark up, and readers would be given the metadata of everything since. So after a while it becomes one of the
//! *exceptions*: the watermark goes on, and the few transactions below it that are not stable are listed
//! ([`Exceptions`]).
//!
//! Stable is not yet forgettable. The paper drops a transaction's metadata once it is committed everywhere, since
//! readers that begin *from then on* see it. But a reader that has asked one partition before that, and asks another
//! after it, would get a fractured view and no sign of it. So a reader says what it knew to be stable when it began
//! ([`StableVector`]), and is given the sibling metadata of all other transactions. They are kept for a while after
//! the transaction has become stable, longer than any reader over several partitions may take; or until all nodes
//! have reported that their readers do not need them ([gossip](super::gossip)). Then the transaction is *settled*.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use anabranch_storage::CommitSequence;
use anabranch_types::{NodeId, PartitionId, Ticks, Timestamp};
use smallvec::SmallVec;

use crate::ramp::causal::context::{CausalContext, Frontier, SequenceVector};
use crate::ramp::collection::former_exceptions::{FormerExceptions, Settled};
use crate::ramp::collection::stable_vector::{Exceptions, StableVector, below};
use crate::ramp::core::message::ReadersKnow;
use crate::ramp::recovery::record::StabilityRecord;

/// When to look next. Follows from the rest, so states do not differ by it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Hint(pub(crate) Ticks);

impl fmt::Debug for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("-")
    }
}

/// The first moment that is more than `pause` after another.
pub(crate) fn after(at: Ticks, pause: Ticks) -> Ticks {
    Ticks(at.0.saturating_add(pause.0).saturating_add(1))
}

/// An own transaction that is not known to be stable.
#[derive(Clone, Debug)]
pub(crate) struct Unstable {
    pub(crate) commit: Timestamp,
    /// When it was decided.
    pub(crate) at: Ticks,
    /// Whether all participants have acknowledged it.
    pub(crate) done: bool,
    /// Causal RAMP: what it depends on.
    pub(crate) causal_context: Option<Arc<CausalContext>>,
    /// Its other participants.
    pub(crate) others: SmallVec<[NodeId; 2]>,
}

/// When a transaction becomes an exception.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExceptionPolicy {
    /// So long after it was decided.
    pub(crate) after: Ticks,
    /// If so many later ones wait for it.
    pub(crate) behind: usize,
    /// As long as no more have been.
    pub(crate) most: usize,
    /// How many are remembered at most that are none any more, for gossip.
    pub(crate) former_exceptions: usize,
}

/// What one node knows of stability.
#[derive(Clone, Debug)]
pub(crate) struct Stability {
    pub(crate) node: NodeId,
    /// Own transactions that have been decided, in order.
    pub(crate) deciding: VecDeque<Unstable>,
    /// When some of these become exceptions; `None`: never.
    pub(crate) exception_policy: Option<ExceptionPolicy>,
    /// How long the faster quarter of own transactions takes to be acknowledged.
    pub(crate) quick: Ticks,
    /// By node: the newest own transaction that it has acknowledged, if there may be exceptions.
    pub(crate) acknowledged: Vec<Timestamp>,
    /// Those that have been, in order, with their other participants.
    pub(crate) exceptions: BTreeMap<Timestamp, SmallVec<[NodeId; 2]>>,
    /// Those that were, as long as some reader may not know that they are no more.
    pub(crate) former_exceptions: FormerExceptions,
    /// Whether some have become stable since the last list was published.
    pub(crate) fewer_exceptions: bool,
    /// By node: whether it took part in one of those, and no message has gone to it since.
    pub(crate) pending: Vec<bool>,
    /// The time of this step.
    pub(crate) now: Hint,
    /// The highest commit timestamp issued to a transaction over several partitions.
    pub(crate) issued: Timestamp,
    /// By node: the highest watermark received. The own entry is the own watermark.
    pub(crate) known: StableVector,
    /// What was known when, oldest first; younger than `retain`.
    pub(crate) history: VecDeque<(Ticks, StableVector)>,
    /// What has been known for so long that no reader needs its sibling metadata.
    pub(crate) settled: StableVector,
    pub(crate) retain: Ticks,
    /// Before this nothing ages, unless a higher watermark arrives.
    pub(crate) next: Hint,
    /// By node: the watermark sent last, and the highest timestamp that it took part in.
    pub(crate) reported: Vec<(Timestamp, Timestamp)>,
    /// Under causal RAMP: what is known, with how far owners had come (CAUSAL-I1).
    pub(crate) frontier: Option<Arc<Frontier>>,
    /// By node: the newest transaction of its that it was asked about, since own ones wait for it.
    pub(crate) awaited: Vec<Timestamp>,
    /// The dependencies of own transactions up to here were asked about.
    pub(crate) looked_at: Timestamp,
    /// By node: how much of the own transactions its readers know, as reported.
    pub(crate) readers: Vec<ReadersKnow>,
    /// Whether more is known to be stable than is settled.
    pub(crate) remembers: bool,
    /// By node: which of its transactions no reader anywhere needs, as reported.
    pub(crate) unneeded: StableVector,
}

impl Stability {
    pub(crate) fn new(
        node: NodeId,
        nodes: usize,
        retain: Ticks,
        causal: bool,
        exception_policy: Option<ExceptionPolicy>,
    ) -> Stability {
        Stability {
            node,
            deciding: VecDeque::new(),
            exception_policy,
            quick: Ticks::default(),
            acknowledged: vec![Timestamp::ZERO; nodes],
            exceptions: BTreeMap::new(),
            former_exceptions: FormerExceptions::at_most(
                exception_policy.map_or(0, |exception_policy| exception_policy.former_exceptions),
            ),
            fewer_exceptions: false,
            pending: vec![false; nodes],
            now: Hint::default(),
            issued: Timestamp::ZERO,
            known: StableVector::nothing(nodes),
            history: VecDeque::new(),
            settled: StableVector::nothing(nodes),
            retain,
            next: Hint::default(),
            reported: vec![(Timestamp::ZERO, Timestamp::ZERO); nodes],
            awaited: vec![Timestamp::ZERO; nodes],
            looked_at: Timestamp::ZERO,
            readers: vec![ReadersKnow::default(); nodes],
            remembers: false,
            unneeded: StableVector::nothing(nodes),
            frontier: causal.then(|| {
                Arc::new(Frontier {
                    known: StableVector::nothing(nodes),
                    covered: SequenceVector::default(),
                })
            }),
        }
    }

    /// What is known to be stable by now.
    #[inline]
    pub(crate) fn known(&self) -> &StableVector {
        &self.known
    }

    /// Whether no reader can need the transaction's sibling metadata.
    #[inline]
    pub(crate) fn is_settled(&self, commit: Timestamp) -> bool {
        self.settled.includes(commit)
    }

    /// Takes note of the time. True if something has become settled.
    #[inline]
    pub(crate) fn age(&mut self, now: Ticks) -> bool {
        self.now = Hint(now);
        now >= self.next.0 && self.age_now(now)
    }

    fn age_now(&mut self, now: Ticks) -> bool {
        let pause = Ticks(self.retain.0 / 16);
        let is_news = |history: &VecDeque<(Ticks, StableVector)>| {
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
        let applied = match (news, self.history.back()) {
            (false, _) => Ticks(u64::MAX),
            (true, Some((at, _))) => after(*at, pause),
            (true, None) => Ticks::default(),
        };
        let settled = self.history.front();
        let settled = settled.map_or(Ticks(u64::MAX), |(at, _)| after(*at, self.retain));
        self.next = Hint(applied.min(settled));
        aged
    }

    /// All of this is settled.
    fn settle(&mut self, known: &StableVector) {
        for node in 0..self.reported.len() {
            self.settled
                .join(node, known.of(node), known.exceptions(node));
        }
    }

    // Gossip

    /// Whether something that is stable is remembered, as far as is known.
    #[inline]
    pub(crate) fn remembers_stable(&self) -> bool {
        self.remembers
    }

    /// A node has reported how much of the own transactions its readers know, and how much of its own all readers
    /// know.
    pub(crate) fn learn_unneeded(
        &mut self,
        from: NodeId,
        readers: ReadersKnow,
        anywhere: Timestamp,
        exceptions: Option<&Arc<Exceptions>>,
    ) {
        self.readers[from.index()] = readers;
        self.unneeded.join(from.index(), anywhere, exceptions);
    }

    /// Settles what no reader anywhere needs, given what the readers here know of own transactions and what other
    /// nodes have reported.
    pub(crate) fn settle_unneeded(&mut self, readers: ReadersKnow) -> Settled {
        let own = self.node.index();
        self.readers[own] = readers;
        let least = |of: fn(&ReadersKnow) -> Timestamp| {
            let least = self.readers.iter().map(of).min();
            least.expect("there is this node")
        };
        let (all, but_exceptions) = (least(|r| r.all), least(|r| r.but_exceptions));
        let (since, now) = (least(|r| r.since), self.known.exceptions(own));
        let but = self
            .former_exceptions
            .unknown_to(since, but_exceptions, now.map(|s| &**s));
        let but = but.map(Arc::new);
        let anywhere = but.as_ref().map_or(all, |_| but_exceptions);
        self.unneeded.join(own, anywhere, but.as_ref());
        let mut more = false;
        for node in 0..self.reported.len() {
            // No node reports more of others than their own watermarks, which came with it; but one that was an
            // exception then may have become stable.
            let unneeded = self.unneeded.of(node).min(self.known.of(node));
            let exceptions = self.unneeded.exceptions(node).cloned();
            self.raise(NodeId(node as u16), unneeded, exceptions.as_ref());
            more |= self.settled.join(node, unneeded, exceptions.as_ref());
        }
        let behind = |node: usize| {
            let exceptions = self.settled.exceptions(node).into_iter();
            let mut exceptions = exceptions.flat_map(|exceptions| &exceptions.commits);
            self.settled.of(node) < self.known.of(node)
                || exceptions.any(|c| self.known.includes(*c))
        };
        self.remembers = (0..self.reported.len()).any(behind);
        Settled {
            anywhere,
            but,
            more,
        }
    }

    /// The own watermark.
    #[inline]
    pub(crate) fn own(&self) -> Timestamp {
        self.known.of(self.node.index())
    }

    /// An own transaction has been decided, with these other nodes taking part. Its dependencies have to be stable
    /// before it is.
    pub(crate) fn decided(
        &mut self,
        commit: Timestamp,
        causal_context: Option<Arc<CausalContext>>,
        others: impl Iterator<Item = NodeId>,
    ) {
        debug_assert!(commit > self.issued, "commit timestamps ascend");
        self.issued = commit;
        let others: SmallVec<[NodeId; 2]> = others.collect();
        for node in &others {
            self.reported[node.index()].1 = commit;
        }
        self.deciding.push_back(Unstable {
            commit,
            at: self.since_now(),
            done: false,
            causal_context,
            others,
        });
    }

    /// Under causal RAMP: the own partition has installed an own transaction without other participants.
    pub(crate) fn decided_alone(
        &mut self,
        commit: Timestamp,
        causal_context: Option<Arc<CausalContext>>,
    ) {
        debug_assert!(commit > self.issued, "commit timestamps ascend");
        self.issued = commit;
        self.deciding.push_back(Unstable {
            commit,
            at: self.since_now(),
            done: true,
            causal_context,
            others: SmallVec::new(),
        });
        self.advance();
    }

    /// An own transaction has been acknowledged by all its participants.
    pub(crate) fn done(&mut self, commit: Timestamp) {
        if let Some(others) = self.exceptions.remove(&commit) {
            self.fewer_exceptions = true;
            self.former_exceptions.leaves(commit);
            for node in others {
                self.pending[node.index()] = true;
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

    /// Publishes the list of exceptions that is valid from now on (`since`).
    pub(crate) fn publish(&mut self, since: Timestamp) {
        self.fewer_exceptions = false;
        let exceptions = Exceptions {
            since,
            commits: self.exceptions.keys().copied().collect(),
        };
        let own = self.below_deciding().max(self.own());
        self.former_exceptions.published(since);
        if self
            .known
            .set(self.node.index(), own, Some(Arc::new(exceptions)))
        {
            self.next = Hint::default();
            self.remembers = true;
        }
    }

    /// Raises the own watermark over all that is done and has no dependency that is not stable.
    fn advance(&mut self) {
        while let Some(front) = self.deciding.front()
            && front.done
            && (front.causal_context.as_ref())
                .is_none_or(|causal_context| causal_context.is_known(&self.known))
        {
            let causal_context = self
                .deciding
                .pop_front()
                .and_then(|stable| stable.causal_context);
            if let (Some(causal_context), Some(frontier)) = (causal_context, &mut self.frontier)
                && !frontier.covered.covers(&causal_context.covered)
            {
                Arc::make_mut(frontier)
                    .covered
                    .merge(&causal_context.covered);
            }
            let own = self.below_deciding();
            let exceptions = self.known.exceptions(self.node.index()).cloned();
            self.raise(self.node, own, exceptions.as_ref());
        }
    }

    /// What lies below all that is not stable.
    fn below_deciding(&self) -> Timestamp {
        match self.deciding.front() {
            Some(oldest) => below(oldest.commit),
            None => self.issued,
        }
    }

    fn raise(&mut self, node: NodeId, watermark: Timestamp, exceptions: Option<&Arc<Exceptions>>) {
        if self.known.join(node.index(), watermark, exceptions) {
            self.next = Hint::default();
            self.remembers = true;
            if let Some(frontier) = &mut self.frontier {
                Arc::make_mut(frontier).known = self.known.clone();
            }
        }
    }

    /// A node has sent its watermark and its exceptions, and under causal RAMP those that it knows of others.
    #[inline]
    pub(crate) fn learn(
        &mut self,
        from: NodeId,
        watermark: Timestamp,
        exceptions: Option<&Arc<Exceptions>>,
        frontier: Option<&Arc<Frontier>>,
    ) {
        if let Some(theirs) = frontier {
            self.learn_frontier(theirs);
        }
        self.raise(from, watermark, exceptions);
        if self.frontier.is_some() {
            self.advance();
        }
    }

    /// An owner has sent all that it knows to be stable. Under causal RAMP every message does, with the sequences of
    /// owners.
    pub(crate) fn learn_vector(&mut self, theirs: &StableVector) {
        if self.frontier.is_some() {
            return;
        }
        for node in (0..self.reported.len() as u16).map(NodeId) {
            if node != self.node {
                let of = node.index();
                self.raise(node, theirs.of(of), theirs.exceptions(of));
            }
        }
    }

    fn learn_frontier(&mut self, theirs: &Frontier) {
        let Some(own) = &mut self.frontier else {
            return;
        };
        if !own.covered.covers(&theirs.covered) {
            Arc::make_mut(own).covered.merge(&theirs.covered);
        }
        // Of itself a node knows best: what it had reported before a crash it may have to find out again.
        for node in (0..self.reported.len() as u16).map(NodeId) {
            if node != self.node {
                let of = node.index();
                self.raise(node, theirs.known.of(of), theirs.known.exceptions(of));
            }
        }
    }

    // Causal RAMP

    /// What is known to be stable, and at which sequences; `None` without causal RAMP.
    #[inline]
    pub(crate) fn frontier(&self) -> Option<&Arc<Frontier>> {
        self.frontier.as_ref()
    }

    /// An owner has installed something at this sequence that clients may learn of.
    pub(crate) fn reached(&mut self, partition: PartitionId, sequence: CommitSequence) {
        if let Some(frontier) = &mut self.frontier
            && frontier.covered.of(partition) < sequence
        {
            Arc::make_mut(frontier).covered.raise(partition, sequence);
        }
    }

    /// The same, as it was written down.
    pub(crate) fn replay_covered(&mut self, covered: &SequenceVector) {
        if let Some(frontier) = &mut self.frontier {
            Arc::make_mut(frontier).covered.merge(covered);
        }
    }

    /// The oldest own transaction, if only its dependencies keep it from being stable, and their coordinators may
    /// have to be asked.
    #[inline]
    pub(crate) fn waiting(&self) -> Option<Timestamp> {
        let newest = self.deciding.back()?.commit;
        let oldest = self.deciding.front()?;
        (oldest.done && newest > self.looked_at).then_some(oldest.commit)
    }

    /// What own transactions wait for that its coordinators were not asked about: the newest of each. From
    /// now on they were.
    pub(crate) fn take_unasked(&mut self) -> Vec<Timestamp> {
        let looked_at = self.looked_at;
        let new = self
            .deciding
            .partition_point(|open| open.commit <= looked_at);
        let mut newest: BTreeMap<NodeId, Timestamp> = BTreeMap::new();
        for open in self.deciding.range(new..) {
            let dependencies = open
                .causal_context
                .iter()
                .flat_map(|causal_context| &*causal_context.dependencies);
            for commit in dependencies.map(|dependency| dependency.commit) {
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

    /// Another node waits for an own transaction. True if it is stable already; otherwise the node gets a message
    /// when it is.
    pub(crate) fn awaited(&mut self, by: NodeId, commit: Timestamp) -> bool {
        if commit > self.own() && commit <= self.issued {
            let took_part = &mut self.reported[by.index()].1;
            *took_part = commit.max(*took_part);
        }
        commit <= self.own()
    }

    /// A node has restarted, and has forgotten which nodes wait.
    pub(crate) fn await_again(&mut self, node: NodeId) {
        let awaited = &mut self.awaited[node.index()];
        if *awaited > self.known.of(node.index()) {
            self.looked_at = Timestamp::ZERO;
        }
        *awaited = Timestamp::ZERO;
    }

    /// How far owners had come, to be written down.
    pub(crate) fn covered(&self) -> Option<SequenceVector> {
        let frontier = self.frontier.as_ref()?;
        Some(frontier.covered.clone())
    }

    /// The watermark to put on a message to this node, and what is below it and not stable.
    #[inline]
    pub(crate) fn report(&mut self, to: NodeId) -> (Timestamp, Option<Arc<Exceptions>>) {
        let own = self.own();
        self.reported[to.index()].0 = own;
        if !self.fewer_exceptions {
            self.pending[to.index()] = false;
        }
        (own, self.known.exceptions(self.node.index()).cloned())
    }

    /// The nodes that need a message because something is stable by now.
    pub(crate) fn unreported(&self) -> impl Iterator<Item = NodeId> + '_ {
        let own = self.own();
        let waits = move |((reported, took_part), pending): (&(Timestamp, Timestamp), &bool)| {
            reported < took_part && *reported < own || *pending
        };
        (0u16..)
            .zip(self.reported.iter().zip(&self.pending))
            .filter(move |(_, reported)| waits(*reported))
            .map(|(node, _)| NodeId(node))
    }

    /// Whether every own transaction that was decided is done.
    pub(crate) fn is_idle(&self) -> bool {
        self.exceptions.is_empty() && self.deciding.iter().all(|open| open.done)
    }

    // Coming back

    /// What a checkpoint keeps; the rest of the record is the participant's.
    pub(crate) fn checkpoint(&self) -> StabilityRecord {
        StabilityRecord {
            known: self.known.floors(),
            settled: self.settled.watermarks(),
            exceptions: self.settled_exceptions(),
            issued: self.issued,
            covered: self.covered(),
            waiting: self
                .deciding
                .iter()
                .filter(|open| open.done && self.frontier.is_some())
                .map(|open| (open.commit, open.causal_context.clone()))
                .collect(),
            ..StabilityRecord::default()
        }
    }

    /// What has been stable for so long that no reader can need its sibling metadata.
    pub(crate) fn long_known(&self) -> &StableVector {
        &self.settled
    }

    /// By node: up to where all of its transactions are settled.
    pub(crate) fn settled(&self) -> Vec<Timestamp> {
        self.settled.floors()
    }

    /// The exceptions below the watermarks of what is settled, with the time of their list.
    fn settled_exceptions(&self) -> Vec<(Timestamp, Vec<Timestamp>)> {
        let nodes = 0..self.reported.len();
        let exceptions = nodes.filter_map(|node| self.settled.exceptions(node));
        exceptions.map(|s| (s.since, s.commits.to_vec())).collect()
    }

    /// What was settled in an earlier incarnation, or at the primary.
    pub(crate) fn replay_settled(&mut self, settled: Vec<Timestamp>) {
        for (node, watermark) in (0..).map(NodeId).zip(&settled) {
            self.raise(node, *watermark, None);
            self.settled.join(node.index(), *watermark, None);
        }
    }

    /// What a checkpoint has kept.
    pub(crate) fn replay(&mut self, known: &StabilityRecord) {
        self.next = Hint::default();
        self.settled = StableVector::up_to(known.settled.clone());
        for (since, commits) in &known.exceptions {
            let node = since.node().index();
            let exceptions = Exceptions {
                since: *since,
                commits: commits.as_slice().into(),
            };
            (self.settled).set(node, known.settled[node], Some(Arc::new(exceptions)));
        }
        self.known = self.settled.clone();
        for (node, watermark) in known.known.iter().enumerate() {
            self.known.join(node, *watermark, None);
        }
        self.issued = self.issued.max(known.issued);
        if let Some(covered) = &known.covered {
            self.replay_covered(covered);
        }
        if let Some(frontier) = &mut self.frontier {
            Arc::make_mut(frontier).known = self.known.clone();
        }
        // What is decided and not acknowledged has been replayed before this.
        let waiting = known.waiting.iter();
        self.deciding
            .extend(waiting.map(|(commit, causal_context)| Unstable {
                commit: *commit,
                at: Ticks::default(),
                done: true,
                causal_context: causal_context.clone(),
                others: SmallVec::new(),
            }));
        let ordered = self.deciding.make_contiguous();
        ordered.sort_unstable_by_key(|open| open.commit);
    }

    /// All has been replayed. What this node had coordinated and not decided has left no trace, and
    /// what has ended is stable.
    pub(crate) fn recover(&mut self) {
        self.advance();
        // Other nodes may know a list of an earlier incarnation, with a watermark that is not known here. The first
        // list of this one has a watermark that is no lower: all that is not acknowledged becomes an exception. The
        // join of the two is what the newer one says.
        while let Some(front) = self.deciding.front()
            && (self.exception_policy.is_some() || front.commit <= self.own())
        {
            let front = self.deciding.pop_front().expect("it has a front");
            if !front.done {
                self.exceptions.insert(front.commit, front.others);
            }
        }
        let own = self.below_deciding();
        self.raise(self.node, own, None);
    }

    /// RAMP-I6, as far as one node sees it.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        let own = self.node.index();
        let reported = self.known.exceptions(own);
        let unreported = self.exceptions.keys().find(|commit| {
            let reported = reported.is_some_and(|reported| reported.contain(**commit));
            **commit <= self.own() && !reported
        });
        if let Some(unreported) = unreported {
            return Err(format!(
                "RAMP-I6: {unreported} is not installed everywhere, and is reported as stable"
            ));
        }
        let mut before = self.own();
        for Unstable {
            commit,
            causal_context,
            ..
        } in &self.deciding
        {
            if *commit <= before {
                return Err(format!(
                    "RAMP-I6: {commit} is decided, yet {before} is not below it"
                ));
            }
            let newest = causal_context
                .as_ref()
                .and_then(|causal_context| causal_context.newest());
            if newest.is_some_and(|newest| newest >= *commit) {
                return Err(format!(
                    "CAUSAL-I5: {commit} depends on {newest:?}, which is not below it"
                ));
            }
            before = *commit;
        }
        match self.deciding.front() {
            Some(oldest)
                if oldest.done
                    && (oldest.causal_context.as_ref())
                        .is_none_or(|causal_context| causal_context.is_known(&self.known)) =>
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
        exception_policy: ExceptionPolicy,
        retain: Ticks,
    }

    impl Coordinator {
        fn new(node: NodeId, most: usize, retain: Ticks) -> Coordinator {
            let exception_policy = ExceptionPolicy {
                after: Ticks(100),
                behind: 2,
                most,
                former_exceptions: 4,
            };
            let mut clock = HybridClock::new(node);
            let mut stability = Stability::new(node, 2, retain, false, Some(exception_policy));
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
                exception_policy,
                retain,
            }
        }

        /// The state after a restart from a checkpoint taken now: `waiting` are not acknowledged at the checkpoint, and
        /// `ended` are by the end of the log.
        fn restart(&self, waiting: &[Timestamp], ended: &[Timestamp]) -> Stability {
            let node = self.stability.node;
            let record = self.stability.checkpoint();
            let mut again =
                Stability::new(node, 2, self.retain, false, Some(self.exception_policy));
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

    /// Whether all of these are settled.
    fn settled(stability: &Stability, commits: &[Timestamp]) -> Vec<bool> {
        commits.iter().map(|c| stability.is_settled(*c)).collect()
    }

    /// Checking the time only when something can age misses nothing that was learned meanwhile.
    #[test]
    fn a_stable_transaction_is_settled_once_it_has_aged() {
        let retain = Ticks(1_600);
        let mut stability = Stability::new(NodeId(0), 2, retain, false, None);
        let mut other = HybridClock::new(NodeId(1));
        for reported in [20, 5_000] {
            assert!(
                !stability.age(Ticks(reported - 1)),
                "nothing is there to age"
            );
            let commit = other.next(Ticks(reported));
            stability.learn(NodeId(1), commit, None, None);
            for early in [reported, reported + retain.0] {
                assert!(
                    !stability.age(Ticks(early)),
                    "reported at {reported}, now {early}"
                );
                assert!(!stability.is_settled(commit));
            }
            assert!(
                stability.age(Ticks(reported + retain.0 + 1)),
                "reported at {reported}"
            );
            assert!(stability.is_settled(commit));
        }
    }

    /// Gossip settles everything but the exceptions; a reader that knows an older list may still need what has left the
    /// list.
    #[test]
    fn gossip_settles_everything_but_exceptions() {
        let mut coordinator = Coordinator::new(NodeId(1), 2, Ticks(1 << 40));
        let (stability, commits) = (&mut coordinator.stability, &coordinator.commits);
        let clock = &mut coordinator.clock;
        stability.age(Ticks(111));
        stability.make_exceptions(clock.next(Ticks(111)));
        let learn_looked_up = |stability: &mut Stability, readers: &StableVector| {
            let reported = readers.of_readers(1);
            stability.learn_unneeded(NodeId(0), reported, Timestamp::ZERO, None);
            let own = stability.known().of_readers(1);
            stability.settle_unneeded(own)
        };
        let named = |found: &Settled| {
            let but = found.but.as_ref().expect("lists are compared");
            but.commits.to_vec()
        };
        // A reader that knows no list may need everything from the first exception on.
        let nothing = StableVector::nothing(2);
        let found = learn_looked_up(stability, &nothing);
        assert!(found.but.is_none() && !found.more && found.anywhere == Timestamp::ZERO);
        let with_both = stability.known().clone();
        let found = learn_looked_up(stability, &with_both);
        assert_eq!(
            (found.anywhere, named(&found)),
            (commits[3], commits[..2].to_vec())
        );
        assert_eq!(settled(stability, commits), [false, false, true, true]);
        // One is acknowledged, and the list is published; a reader began before the list arrived. Later transactions
        // are not kept for that reader.
        stability.done(commits[0]);
        let found = learn_looked_up(stability, &with_both);
        assert_eq!(named(&found), commits[..2]);
        stability.publish(clock.next(Ticks(200)));
        let found = learn_looked_up(stability, &with_both);
        assert_eq!(
            (found.anywhere, named(&found)),
            (commits[3], commits[..2].to_vec())
        );
        assert_eq!(settled(stability, commits), [false, false, true, true]);
        let with_one = stability.known().clone();
        let found = learn_looked_up(stability, &with_one);
        assert_eq!((named(&found), found.more), (commits[1..2].to_vec(), true));
        assert_eq!(settled(stability, commits), [true, false, true, true]);
        // No reader is given what has been forgotten: readers that know the older list are waited for.
        let found = learn_looked_up(stability, &with_both);
        assert!(found.but.is_none() && found.anywhere < commits[0]);
        // A restarted coordinator does not know what has left its earlier lists: it waits for readers that know only
        // those.
        let mut again = coordinator.restart(&coordinator.commits[1..2], &[]);
        again.publish(coordinator.clock.next(Ticks(300)));
        assert!(learn_looked_up(&mut again, &with_one).but.is_none());
        let now = again.known().clone();
        assert_eq!(
            named(&learn_looked_up(&mut again, &now)),
            coordinator.commits[1..2]
        );
        assert_eq!(
            settled(&again, &coordinator.commits),
            [true, false, true, true]
        );
    }

    /// One of two exceptions in a checkpoint is acknowledged after it: a restarted coordinator waits for the other.
    #[test]
    fn an_exception_acknowledged_after_the_checkpoint_is_dropped() {
        let mut coordinator = Coordinator::new(NodeId(0), 4, Ticks(1_600));
        let stability = &mut coordinator.stability;
        stability.age(Ticks(111));
        assert_eq!(
            stability.make_exceptions(coordinator.clock.next(Ticks(111))),
            2
        );
        for at in [200, 5_000] {
            stability.age(Ticks(at));
        }
        let commits = &coordinator.commits;
        let mut again = coordinator.restart(&commits[..2], &commits[1..2]);
        again.publish(coordinator.clock.next(Ticks(6_000)));
        again.done(commits[0]);
        assert!(again.is_idle());
        again.publish(coordinator.clock.next(Ticks(6_100)));
        assert!(commits.iter().all(|commit| again.known().includes(*commit)));
    }

    /// A participant that has acknowledged later transactions and not an earlier one is probably not slow: the earlier
    /// one becomes an exception after an eighth of the time. A participant that has not acknowledged the later ones,
    /// either, may be slow.
    #[test]
    fn an_overtaken_transaction_becomes_an_exception_sooner() {
        for (by, sooner) in [(&[1, 2][..], true), (&[1], false), (&[], false)] {
            let exception_policy = ExceptionPolicy {
                after: Ticks(800),
                behind: 2,
                most: 4,
                former_exceptions: 4,
            };
            let mut clock = HybridClock::new(NodeId(0));
            let mut stability =
                Stability::new(NodeId(0), 3, Ticks(9_000), false, Some(exception_policy));
            stability.age(Ticks(10));
            let commits: Vec<Timestamp> = (0..4).map(|_| clock.next(Ticks(10))).collect();
            for commit in &commits {
                stability.decided(*commit, None, [NodeId(1), NodeId(2)].into_iter());
            }
            for (node, commit) in by.iter().flat_map(|node| [(*node, 0), (*node, 2)]) {
                // One missing acknowledgement is enough to hold up the first.
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
            stability.make_exceptions(clock.next(Ticks(811)));
            assert!(!stability.known().includes(commits[0]));
        }
    }

    /// A transaction that is not acknowledged holds up others for a limited time. Then it is listed as an exception,
    /// and it is stable when it is acknowledged; also for a coordinator that restarts in between.
    #[test]
    fn exceptions_are_listed_by_name() {
        let mut coordinator = Coordinator::new(NodeId(0), 1, Ticks(1_600));
        let (stability, commits) = (&mut coordinator.stability, &coordinator.commits);
        let (clock, other) = (&mut coordinator.clock, NodeId(1));
        assert!(!stability.is_held_up(), "not yet");
        stability.age(Ticks(111));
        assert!(stability.is_held_up());
        assert_eq!(stability.make_exceptions(clock.next(Ticks(111))), 1);
        // Only one exception is allowed: the second transaction still holds up the others.
        assert_eq!(stability.own(), below(commits[1]));
        assert!(!stability.known().includes(commits[0]) && !stability.is_held_up());
        stability.done(commits[1]);
        assert_eq!(stability.own(), commits[3]);
        assert_eq!(stability.check_invariants(), Ok(()));
        let (reported, exceptions) = stability.report(other);
        assert_eq!(reported, commits[3]);
        assert_eq!(*exceptions.expect("there is one").commits, [commits[0]]);
        assert!(!stability.is_idle());

        // Everything but the exception is settled, and a checkpoint records that.
        for at in [200, 5_000] {
            stability.age(Ticks(at));
        }
        assert_eq!(settled(stability, commits), [false, true, true, true]);
        let mut again = coordinator.restart(&coordinator.commits[..1], &[]);
        let Coordinator {
            stability,
            commits,
            mut clock,
            ..
        } = coordinator;
        again.publish(clock.next(Ticks(6_000)));
        assert_eq!(settled(&again, &commits), [false, true, true, true]);
        assert_eq!((again.own(), again.is_idle()), (commits[3], false));
        assert_eq!(again.check_invariants(), Ok(()));

        for mut stability in [stability, again] {
            stability.done(commits[0]);
            assert!(stability.is_idle() && stability.has_fewer_exceptions());
            assert!(
                !stability.known().includes(commits[0]),
                "it is not reported yet"
            );
            stability.publish(clock.next(Ticks(6_000)));
            assert!(stability.known().includes(commits[0]));
            assert_eq!(stability.unreported().collect::<Vec<_>>(), [other]);
            let (_, exceptions) = stability.report(other);
            assert!(exceptions.expect("there were some").commits.is_empty());
            assert_eq!(stability.unreported().next(), None);
        }
    }
}
