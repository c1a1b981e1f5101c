//! Writes at the coordinator (ramp.txt, Algorithm 1, PUT_ALL).
//!
//! [`RampNode::commit`] sorts a transaction's effects and guards by partition and chooses: nothing to do, one
//! participant (one step there), or several: `prepare` → `handle_vote` … `decide` → `handle_committed` … reply.
//!
//! The coordinator's own partition is not prepared. It is checked and installed at the decision, before any other,
//! so nothing has to be protected there meanwhile. (In the paper every partition is prepared.)

use std::sync::Arc;

use anabranch_types::{Effect, EffectError, NodeId, PartitionId, Timestamp};
use smallvec::SmallVec;

use crate::ramp::core::context::misnamed;
use crate::ramp::core::coordinator::attempt::{Attempt, Deciding, Phase};
use crate::ramp::core::extension::{CausalContext, Dependency, is_remote};
use crate::ramp::core::message::{CommitAlone, Message, Prepare, Stamped, Work};
use crate::ramp::core::metadata::{Siblings, tags};
use crate::ramp::core::trace::Trace;
use crate::ramp::node::RampNode;
use crate::ramp::options::RampOptions;
use crate::{AbortReason, Outbox, PartitionEffects, Reply, Session, Slots, TransactionId};

/// PUT_ALL: what has to be done where.
impl RampNode {
    pub(crate) fn commit(
        &mut self,
        transaction: TransactionId,
        effects: Vec<PartitionEffects>,
        out: &mut Outbox<Stamped>,
    ) {
        self.commit_at(transaction, effects, None, out);
    }

    /// Commits a transaction without effects that needs no validation: it has been given an atomic view.
    pub(crate) fn commit_reads(&mut self, transaction: TransactionId, out: &mut Outbox<Stamped>) {
        let mut attempt = self.take_or_begin(transaction);
        attempt.fold_batch();
        attempt.guards.clear();
        self.keep_idle(transaction, attempt);
        self.commit(transaction, Vec::new(), out);
    }

    /// Commits; the registers that it assigns take the timestamp of its origin cluster, if it has one.
    pub(crate) fn commit_at(
        &mut self,
        transaction: TransactionId,
        effects: Vec<PartitionEffects>,
        origin_commit: Option<Timestamp>,
        out: &mut Outbox<Stamped>,
    ) {
        let mut attempt = self.take_or_begin(transaction);
        if self.options.causal || attempt.batch.reads.iter().any(|read| read.access.guard) {
            // What it has seen counts: it depends on that, or is validated against it.
            attempt.fold_batch();
        }
        let mut works = works(&attempt, effects);
        if let Err(reason) = self.admit_works(&mut works, origin_commit) {
            return self.abort(transaction, reason, out);
        }
        let causal_context = match self.admit_dependencies(&attempt, &works) {
            Ok(causal_context) => causal_context,
            Err(reason) => return self.abort(transaction, reason, out),
        };
        if self.options.prepares_in_all_clusters() && !works.is_empty() {
            return self.begin_replicated(transaction, attempt, works, out);
        }
        match works.len() {
            0 => {
                let timestamp = self.context.clock.next(self.context.now);
                let session =
                    causal_context.map_or_else(Session::default, |seen| Session::of(seen));
                self.recycle(attempt);
                self.committed(transaction, timestamp, Slots::new(), session, out);
            }
            1 => {
                let (partition, work) = works.pop().expect("there is one");
                self.commit_on_one(transaction, attempt, (partition, work), causal_context, out);
            }
            _ => self.prepare(transaction, attempt, works, causal_context, out),
        }
    }

    /// Commits on the only partition that takes part: in one step there.
    fn commit_on_one(
        &mut self,
        transaction: TransactionId,
        mut attempt: Box<Attempt>,
        (partition, work): (PartitionId, Work),
        causal_context: Option<Arc<CausalContext>>,
        out: &mut Outbox<Stamped>,
    ) {
        if partition == self.partition {
            self.recycle(attempt);
            let result = self.commit_own_alone(work, causal_context.clone(), out);
            let causal_context = causal_context.as_deref();
            return self.answer_alone(transaction, causal_context, result, out);
        }
        let owner = self.owner(partition);
        attempt.phase = Phase::Alone {
            owner,
            writes: !work.effects.is_empty(),
            causal_context: causal_context.clone(),
        };
        self.keep_waiting(transaction, attempt);
        let alone = CommitAlone {
            transaction,
            work,
            causal_context,
        };
        self.send(owner, Message::CommitAlone(Box::new(alone)), out);
    }

    /// Commits a transaction whose only participant is this node.
    pub(crate) fn commit_own_alone(
        &mut self,
        work: Work,
        causal_context: Option<Arc<CausalContext>>,
        out: &mut Outbox<Stamped>,
    ) -> Result<(Timestamp, Slots), AbortReason> {
        let to_replicate = self.effects_to_replicate(std::iter::once((self.partition, &work)));
        let committed = (self.participant).commit_alone(&mut self.context, work, causal_context);
        let (timestamp, slots) = committed?;
        self.replicate(timestamp, to_replicate, out);
        Ok((timestamp, slots))
    }

    /// The only participant has answered.
    pub(crate) fn handle_committed_alone(
        &mut self,
        transaction: TransactionId,
        result: Result<(Timestamp, Slots), AbortReason>,
        out: &mut Outbox<Stamped>,
    ) {
        let causal_context = match self.take(transaction).map(|attempt| attempt.phase) {
            Some(Phase::Alone { causal_context, .. }) => causal_context,
            _ => None,
        };
        self.answer_alone(transaction, causal_context.as_deref(), result, out);
    }

    pub(crate) fn answer_alone(
        &mut self,
        transaction: TransactionId,
        causal_context: Option<&CausalContext>,
        result: Result<(Timestamp, Slots), AbortReason>,
        out: &mut Outbox<Stamped>,
    ) {
        match result {
            Ok((timestamp, slots)) => {
                // The timestamp is the owner's; no other version of this node depends on it.
                self.context.follow_clock(timestamp);
                let session = self.session(causal_context, None);
                self.committed(transaction, timestamp, slots, session, out);
            }
            Err(reason) => self.abort(transaction, reason, out),
        }
    }

    /// Answers the client of a transaction that has committed.
    pub(crate) fn committed(
        &mut self,
        transaction: TransactionId,
        timestamp: Timestamp,
        slots: Slots,
        session: Session,
        out: &mut Outbox<Stamped>,
    ) {
        if is_remote(transaction) {
            return self.remote_committed(transaction, out);
        }
        self.counters.commits += 1;
        let committed = Reply::Committed {
            timestamp,
            slots,
            session,
        };
        out.replies.push((transaction, committed));
    }
}

/// The first phase: every participant but the own partition prepares.
impl RampNode {
    fn prepare(
        &mut self,
        transaction: TransactionId,
        mut attempt: Box<Attempt>,
        works: Vec<(PartitionId, Work)>,
        causal_context: Option<Arc<CausalContext>>,
        out: &mut Outbox<Stamped>,
    ) {
        let prepared = self.context.clock.next(self.context.now);
        let siblings = siblings_of(&self.options, prepared, &works);
        let elsewhere = works.iter().filter(|(at, _)| *at != self.partition);
        let mut effects = elsewhere.flat_map(|(_, work)| &work.effects);
        let has_outputs = effects.any(produces);
        let all = works.iter().map(|(at, work)| (*at, work));
        let mut deciding = Box::new(Deciding {
            prepared,
            commit: Timestamp::ZERO,
            origin_commit: works.first().and_then(|(_, work)| work.origin_commit),
            to_replicate: self.effects_to_replicate(all),
            others: SmallVec::new(),
            causal_context,
            siblings: siblings.clone(),
            own: None,
            lowest: None,
            waiting: 0,
            answered: SmallVec::new(),
            no_reply: false,
            has_outputs,
            slots: Slots::new(),
            refused: None,
        });
        let mut elsewhere = Vec::with_capacity(works.len());
        for (partition, work) in works {
            let siblings = siblings.clone().filter(|_| !work.effects.is_empty());
            if partition != self.partition {
                elsewhere.push((self.owner(partition), work, siblings));
                continue;
            }
            if let Some(causal_context) = &deciding.causal_context {
                (self.participant).install_dependencies(&mut self.context, causal_context);
            }
            // No write intent is needed here: the decision checks once more.
            if let Err(reason) = self.participant.check_unprepared(&self.context, &work) {
                return self.abort(transaction, reason, out);
            }
            deciding.own = Some((work, siblings));
        }
        deciding.waiting = elsewhere.len();
        let others = elsewhere.iter().map(|(node, ..)| *node);
        deciding.others = others.collect();
        for (node, work, siblings) in elsewhere {
            let prepare = Prepare {
                transaction,
                prepared,
                work,
                siblings,
                causal_context: deciding.causal_context.clone(),
                participants: deciding.others.clone(),
            };
            self.send(node, Message::Prepare(Box::new(prepare)), out);
        }
        attempt.phase = Phase::Preparing(deciding);
        self.keep_waiting(transaction, attempt);
    }

    pub(crate) fn handle_vote(
        &mut self,
        transaction: TransactionId,
        from: NodeId,
        vote: Result<Timestamp, AbortReason>,
        out: &mut Outbox<Stamped>,
    ) {
        if self.options.prepares_in_all_clusters() {
            return self.handle_replicated_vote(transaction, from, vote, out);
        }
        // Another participant's no may have ended the transaction.
        let Some(attempt) = self.attempts.get_mut(&transaction) else {
            return;
        };
        let Phase::Preparing(deciding) = &mut attempt.phase else {
            return;
        };
        if deciding.answered.contains(&from) {
            return; // It has voted; whatever this answers is not what was asked.
        }
        let far = vote.as_ref().ok();
        let far = far.and_then(|vote| self.context.refuses_clock(*vote, from));
        // A participant that refuses has kept nothing; one whose clock is too far ahead has prepared it.
        let refused = far.is_none().then_some(from);
        let vote = far.map_or(vote, |error| Err(AbortReason::Failed(error)));
        match vote {
            Ok(vote) => {
                self.context.clock.observe(vote);
                let lowest = deciding.lowest.get_or_insert((vote, from));
                *lowest = (vote, from).min(*lowest);
                deciding.answered.push(from);
                deciding.waiting -= 1;
                if deciding.waiting > 0 {
                    return;
                }
                if let Phase::Preparing(deciding) = std::mem::take(&mut attempt.phase) {
                    self.decide(transaction, deciding, out);
                }
            }
            Err(reason) => {
                let phase = std::mem::take(&mut attempt.phase);
                self.attempts.remove(&transaction);
                if let Phase::Preparing(deciding) = phase {
                    self.give_up(transaction, *deciding, refused, reason, out);
                }
            }
        }
    }

    /// Aborts a transaction at all participants but the one that has refused it.
    pub(crate) fn give_up(
        &mut self,
        transaction: TransactionId,
        deciding: Deciding,
        refused: Option<NodeId>,
        reason: AbortReason,
        out: &mut Outbox<Stamped>,
    ) {
        let prepared = deciding.prepared;
        for node in deciding.others {
            if Some(node) != refused {
                self.send(node, Message::Abort { prepared }, out);
            }
        }
        self.abort(transaction, reason, out);
    }
}

/// The second phase: the own partition installs it, then all others do.
impl RampNode {
    /// All others have voted yes. The own partition comes first, checked and installed in one step: until then the
    /// transaction is visible nowhere, so the own partition had nothing to promise.
    fn decide(
        &mut self,
        transaction: TransactionId,
        mut deciding: Box<Deciding>,
        out: &mut Outbox<Stamped>,
    ) {
        let commit = self.context.clock.next(self.context.now);
        let own_trace = match self.commit_own(commit, &mut deciding) {
            Ok(trace) => trace,
            Err(reason) => {
                self.attempts.remove(&transaction);
                return self.give_up(transaction, *deciding, None, reason, out);
            }
        };
        deciding.commit = commit;
        self.note_decision(transaction, &mut deciding, own_trace, out);
        deciding.waiting = deciding.others.len();
        deciding.answered.clear();
        self.send_commits(transaction, &mut deciding, out);
        let attempt = self.attempts.get_mut(&transaction);
        attempt.expect("it waits for votes").phase = Phase::Committing(deciding);
    }

    /// Tells the extensions of a decision: collection, recovery, replication.
    fn note_decision(
        &mut self,
        transaction: TransactionId,
        deciding: &mut Deciding,
        own_trace: Option<Trace>,
        out: &mut Outbox<Stamped>,
    ) {
        let others = deciding.others.iter().copied();
        let causal_context = deciding.causal_context.clone();
        (self.context.stability).decided(deciding.commit, causal_context, others);
        let sequence = self.participant.store.last();
        self.context.stability.reached(self.partition, sequence);
        self.record_decision(transaction, deciding, own_trace);
        self.replicate_decision(deciding, out);
    }

    fn send_commits(
        &mut self,
        transaction: TransactionId,
        deciding: &mut Deciding,
        out: &mut Outbox<Stamped>,
    ) {
        if self.loses_commit(deciding) {
            return self.lose_commit(transaction, deciding, out);
        }
        let decided = deciding.decided();
        for node in deciding.others.clone() {
            let commit = Message::Commit {
                transaction,
                decided,
            };
            self.send(node, commit, out);
        }
        if self.options.one_phase && !deciding.has_outputs {
            self.answer_early(transaction, deciding, out);
        }
    }

    /// Checks a transaction on the own partition once more, and installs it there at this commit timestamp.
    fn commit_own(
        &mut self,
        commit: Timestamp,
        deciding: &mut Deciding,
    ) -> Result<Option<Trace>, AbortReason> {
        if let Some(error) = self.outruns(commit, deciding) {
            return Err(AbortReason::Failed(error));
        }
        let Some((work, siblings)) = deciding.own.take() else {
            return Ok(None);
        };
        let causal_context = deciding.causal_context.clone();
        let trace = siblings.map(|siblings| Trace::new(siblings, causal_context, &work.effects));
        let (context, kept) = (&mut self.context, trace.clone());
        deciding.slots = (self.participant).commit_first(context, commit, work, kept)?;
        Ok(trace)
    }

    /// Why a transaction cannot commit at this timestamp: this node's clock, or another participant's, has
    /// gone so far ahead since the lowest vote that it would take that participant's clock along.
    fn outruns(&self, commit: Timestamp, deciding: &Deciding) -> Option<EffectError> {
        let (vote, node) = deciding.lowest?;
        let ahead = commit.logical().saturating_sub(vote.logical());
        let most = self.options.ahead_max.as_micros();
        (ahead > most).then(|| {
            misnamed(format!(
                "{commit} is {ahead} us ahead of {node}'s clock, which showed {vote}, and at most \
                 {most} us are permitted: set the clocks right"
            ))
        })
    }

    /// Answers the client of a transaction that is decided. Later acknowledgements end it without a reply.
    pub(crate) fn answer_early(
        &mut self,
        transaction: TransactionId,
        deciding: &mut Deciding,
        out: &mut Outbox<Stamped>,
    ) {
        deciding.no_reply = true;
        let slots = std::mem::take(&mut deciding.slots);
        let commit = deciding.commit;
        let siblings = deciding.siblings.clone();
        let own = siblings.map(|siblings| Dependency { commit, siblings });
        let session = self.session(deciding.causal_context.as_deref(), own);
        self.committed(transaction, commit, slots, session, out);
    }

    /// A participant has installed it. The last one ends the transaction.
    pub(crate) fn handle_committed(
        &mut self,
        transaction: TransactionId,
        from: NodeId,
        slots: Result<Slots, EffectError>,
        out: &mut Outbox<Stamped>,
    ) {
        let Some(attempt) = self.attempts.get_mut(&transaction) else {
            return;
        };
        let deciding = match &mut attempt.phase {
            Phase::Committing(deciding) => deciding,
            Phase::Replicating(_) => {
                return self.replica_installed(transaction, from, slots.is_ok(), out);
            }
            _ => return,
        };
        if deciding.answered.contains(&from) {
            return; // The participant or this node has restarted, and the Commit was sent twice.
        }
        deciding.answered.push(from);
        self.context.stability.acknowledged(from, deciding.commit);
        match slots {
            Ok(slots) => deciding.slots.extend(slots),
            Err(error) => deciding.refused = Some(AbortReason::Failed(error)),
        }
        deciding.waiting -= 1;
        if deciding.waiting > 0 {
            return;
        }
        let phase = std::mem::take(&mut attempt.phase);
        if let Some(attempt) = self.attempts.remove(&transaction) {
            self.recycle(attempt);
        }
        if let Phase::Committing(deciding) = phase {
            self.end(transaction, *deciding, out);
        }
    }

    /// All participants have installed it.
    fn end(&mut self, transaction: TransactionId, deciding: Deciding, out: &mut Outbox<Stamped>) {
        if let Some(reason) = deciding.refused {
            // In doubt for ever: its metadata is kept, and readers are given it (RAMP-I1).
            if !deciding.no_reply {
                self.abort(transaction, reason, out);
            }
            return;
        }
        self.context.stability.done(deciding.commit);
        self.make_exceptions();
        self.schedule_announce(out);
        self.record_end(transaction, deciding.commit);
        if deciding.no_reply {
            if let Some(origin_commit) = deciding.origin_commit {
                self.remote_installed(origin_commit, out);
            }
            return;
        }
        let session = self.session(deciding.causal_context.as_deref(), None);
        self.committed(transaction, deciding.commit, deciding.slots, session, out);
    }
}

/// Whether the reply has to carry a value that this effect produces.
fn produces(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Update {
            outputs: Some(_),
            ..
        }
    )
}

/// What each participant is to do, sorted by partition.
fn works(attempt: &Attempt, effects: Vec<PartitionEffects>) -> Vec<(PartitionId, Work)> {
    let effects = effects.into_iter().filter(|on| !on.effects.is_empty());
    let works = effects.map(|on| {
        let work = Work {
            effects: on.effects,
            guards: on.guards,
            ..Work::default()
        };
        (on.partition, work)
    });
    let mut works: Vec<(PartitionId, Work)> = works.collect();
    for (partition, read) in &attempt.guards {
        let work = match works.binary_search_by_key(partition, |(at, _)| *at) {
            Ok(at) => &mut works[at].1,
            Err(at) => {
                works.insert(at, (*partition, Work::default()));
                &mut works[at].1
            }
        };
        work.snapshot = attempt.view(*partition).map(|view| view.snapshot);
        work.guard_reads.push(read.clone());
    }
    works
}

/// The metadata of a transaction that writes on several partitions, or that others may depend on.
pub(crate) fn siblings_of(
    options: &RampOptions,
    prepared: Timestamp,
    works: &[(PartitionId, Work)],
) -> Option<Arc<Siblings>> {
    let writing = || works.iter().filter(|(_, work)| !work.effects.is_empty());
    writing().nth(usize::from(!options.causal))?;
    let written = writing().map(|(partition, work)| (*partition, tags(&work.effects)));
    Some(Arc::new(options.metadata.of(prepared, written)))
}
