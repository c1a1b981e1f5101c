//! The commits of the transactions that run at a node (ramp.txt, Algorithm 1, PUT_ALL).

use std::sync::Arc;

use anabranch_types::{Effect, EffectError, NodeId, PartitionId, Timestamp};
use smallvec::SmallVec;

use crate::ramp::causal::context::{CausalContext, Dependency};
use crate::ramp::core::context::misnamed;
use crate::ramp::core::coordinator::attempt::{Attempt, Deciding, Phase};
use crate::ramp::core::message::{CommitAlone, Decision, Message, Prepare, Stamped, Work};
use crate::ramp::core::metadata::{Siblings, tags};
use crate::ramp::core::trace::Trace;
use crate::ramp::node::RampNode;
use crate::ramp::options::RampOptions;
use crate::ramp::recovery::record::{DecidedRecord, RampRecord};
use crate::ramp::replication::sticky::state::is_remote;
use crate::{AbortReason, Outbox, PartitionEffects, Record, Reply, Session, Slots, TransactionId};

impl RampNode {
    pub(crate) fn commit(
        &mut self,
        transaction: TransactionId,
        effects: Vec<PartitionEffects>,
        out: &mut Outbox<Stamped>,
    ) {
        self.commit_at(transaction, effects, None, out);
    }

    /// Commits, at a place among the writers of registers that another cluster has given it, if one has.
    pub(crate) fn commit_at(
        &mut self,
        transaction: TransactionId,
        effects: Vec<PartitionEffects>,
        origin_commit: Option<Timestamp>,
        out: &mut Outbox<Stamped>,
    ) {
        let mut attempt = self.take_or_begin(transaction);
        if self.options.causal || attempt.batch.reads.iter().any(|read| read.access.guard) {
            // It follows what it has seen; what it has to be alone with is checked.
            attempt.fold_batch();
        }
        let mut works = works(&attempt, effects);
        if self.sticky.is_some() {
            if let Some(error) = self.refuses_across(&works) {
                return self.abort(transaction, AbortReason::Failed(error), out);
            }
            for (_, work) in &mut works {
                work.origin_commit = origin_commit;
            }
        }
        let causal_context = self.causal_context(&attempt);
        if let Some(causal_context) = &causal_context {
            if !works.is_empty()
                && causal_context.dependencies.len() > self.options.dependencies_max as usize
            {
                return self.abort(transaction, AbortReason::Conflict, out);
            }
            if let Err(error) = causal_context.advance_clock(&mut self.context) {
                return self.abort(transaction, AbortReason::Failed(error), out);
            }
        }
        if self.options.prepares_in_all_clusters() && !works.is_empty() {
            return self.begin_replicated(transaction, attempt, works, out);
        }
        match works.len() {
            0 => {
                let timestamp = self.context.clock.next(self.context.now);
                let session =
                    causal_context.map_or_else(Session::default, |context| Session::of(context));
                self.recycle(attempt);
                self.committed(transaction, timestamp, Slots::new(), session, out);
            }
            1 => {
                let (partition, work) = works.pop().expect("there is one");
                if partition == self.partition {
                    self.recycle(attempt);
                    let result = self.commit_alone(work, causal_context.clone(), out);
                    self.handle_committed_alone(
                        transaction,
                        causal_context.as_deref(),
                        result,
                        out,
                    );
                } else {
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
            }
            _ => self.prepare(transaction, attempt, works, causal_context, out),
        }
    }

    /// Commits a transaction whose only participant is this node.
    pub(crate) fn commit_alone(
        &mut self,
        work: Work,
        causal_context: Option<Arc<CausalContext>>,
        out: &mut Outbox<Stamped>,
    ) -> Result<(Timestamp, Slots), AbortReason> {
        let to_replicate = self.sticky.is_some() && work.origin_commit.is_none();
        let to_replicate = to_replicate.then(|| work.effects.clone());
        let (timestamp, slots) =
            self.participant
                .commit_alone(&mut self.context, work, causal_context)?;
        if let Some(effects) = to_replicate.filter(|effects| !effects.is_empty()) {
            self.replicate(timestamp, vec![(self.partition, effects)], out);
        }
        Ok((timestamp, slots))
    }

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

    pub(crate) fn handle_committed_alone(
        &mut self,
        transaction: TransactionId,
        causal_context: Option<&CausalContext>,
        result: Result<(Timestamp, Slots), AbortReason>,
        out: &mut Outbox<Stamped>,
    ) {
        match result {
            Ok((timestamp, slots)) => {
                // It is the owner's, and nothing of this node's stands beside it.
                self.context.follow_clock(timestamp);
                let session = self.session(causal_context, None);
                self.committed(transaction, timestamp, slots, session, out);
            }
            Err(reason) => self.abort(transaction, reason, out),
        }
    }

    /// The first phase, of all participants but the own partition.
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
        let mut deciding = Box::new(Deciding {
            prepared,
            commit: Timestamp::ZERO,
            origin_commit: works.first().and_then(|(_, work)| work.origin_commit),
            to_replicate: self.effects_to_replicate(&works),
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
            let siblings = if work.effects.is_empty() {
                None
            } else {
                siblings.clone()
            };
            if partition != self.partition {
                elsewhere.push((self.owner(partition), work, siblings));
                continue;
            }
            if let Some(causal_context) = &deciding.causal_context {
                self.participant
                    .install_dependencies(&mut self.context, causal_context);
            }
            // Nothing is held here: what changes until the decision is found by looking again.
            if let Err(reason) = self.participant.refuses(&self.context, &work) {
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

    /// What other clusters are to take over of a transaction of this one.
    fn effects_to_replicate(
        &self,
        works: &[(PartitionId, Work)],
    ) -> Vec<(PartitionId, Vec<Effect>)> {
        let own = |(_, work): &&(PartitionId, Work)| {
            self.sticky.is_some() && work.origin_commit.is_none() && !work.effects.is_empty()
        };
        let effects = works.iter().filter(own);
        effects
            .map(|(at, work)| (*at, work.effects.clone()))
            .collect()
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
        let far = far.and_then(|seen| self.context.refuses_clock(*seen, from));
        // Who refuses has forgotten it; who is too far ahead has it prepared.
        let refused = far.is_none().then_some(from);
        let vote = far.map_or(vote, |error| Err(AbortReason::Failed(error)));
        let phase = match vote {
            Ok(seen) => {
                self.context.clock.observe(seen);
                let lowest = deciding.lowest.get_or_insert((seen, from));
                *lowest = (seen, from).min(*lowest);
                deciding.answered.push(from);
                deciding.waiting -= 1;
                if deciding.waiting > 0 {
                    return;
                }
                std::mem::take(&mut attempt.phase)
            }
            Err(reason) => {
                let phase = std::mem::take(&mut attempt.phase);
                let Phase::Preparing(deciding) = phase else {
                    unreachable!()
                };
                self.attempts.remove(&transaction);
                return self.give_up(transaction, *deciding, refused, reason, out);
            }
        };
        let Phase::Preparing(deciding) = phase else {
            unreachable!()
        };
        self.decide(transaction, deciding, out);
    }

    /// All others have voted yes: the second phase. The own partition comes first, checked and shown
    /// in one step: until then nothing is shown anywhere, so it has nothing to promise and to hold.
    fn decide(
        &mut self,
        transaction: TransactionId,
        mut deciding: Box<Deciding>,
        out: &mut Outbox<Stamped>,
    ) {
        let commit = self.context.clock.next(self.context.now);
        if let Some(error) = self.outruns(commit, &deciding) {
            self.attempts.remove(&transaction);
            return self.give_up(
                transaction,
                *deciding,
                None,
                AbortReason::Failed(error),
                out,
            );
        }
        deciding.commit = commit;
        let decided = Decision {
            prepared: deciding.prepared,
            commit,
        };
        let mut own_trace = None;
        if let Some((work, siblings)) = deciding.own.take() {
            let causal_context = deciding.causal_context.clone();
            let trace =
                siblings.map(|siblings| Trace::new(siblings, causal_context, &work.effects));
            own_trace.clone_from(&trace);
            let context = &mut self.context;
            match self.participant.commit_first(context, commit, work, trace) {
                Ok(slots) => deciding.slots = slots,
                Err(reason) => {
                    self.attempts.remove(&transaction);
                    return self.give_up(transaction, *deciding, None, reason, out);
                }
            }
        }
        let others = deciding.others.iter().copied();
        let causal_context = deciding.causal_context.clone();
        self.context
            .stability
            .decided(commit, causal_context, others);
        let sequence = self.participant.store.last();
        self.context.stability.reached(self.partition, sequence);
        if let Some(journal) = &mut self.context.journal {
            let changes = journal.take_changes();
            journal.write(Record::Ramp(RampRecord::Decided(Box::new(DecidedRecord {
                transaction,
                decided,
                others: deciding.others.to_vec(),
                trace: own_trace.filter(|_| changes.is_some()),
                changes,
                causal_context: deciding.causal_context.clone(),
                origin_commit: deciding.origin_commit,
            }))));
        }
        if let Some((sticky, origin_commit)) = self.sticky.as_mut().zip(deciding.origin_commit) {
            sticky.decided(origin_commit);
        }
        let to_replicate = std::mem::take(&mut deciding.to_replicate);
        self.replicate(commit, to_replicate, out);
        deciding.waiting = deciding.others.len();
        deciding.answered.clear();
        if self.loses_commit(&deciding) {
            self.lose_commit(transaction, &mut deciding, out);
        } else {
            for node in deciding.others.clone() {
                let commit = Message::Commit {
                    transaction,
                    decided,
                };
                self.send(node, commit, out);
            }
            if self.options.one_phase && !deciding.has_outputs {
                self.answer_early(transaction, &mut deciding, out);
            }
        }
        let attempt = self
            .attempts
            .get_mut(&transaction)
            .expect("it waits for votes");
        attempt.phase = Phase::Committing(deciding);
    }

    /// Why a transaction cannot commit at this timestamp: this node's clock, or another participant's, has
    /// gone so far ahead since one of them voted that it would take that one's along.
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

    /// Answers the client of a transaction that is decided; who acknowledges it later answers nobody.
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
        if let Phase::Replicating(_) = &attempt.phase {
            return self.replica_installed(transaction, from, slots.is_ok(), out);
        }
        let Phase::Committing(deciding) = &mut attempt.phase else {
            return;
        };
        if deciding.answered.contains(&from) {
            return; // One of them had come back, and was told twice.
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
        let Phase::Committing(deciding) = std::mem::take(&mut attempt.phase) else {
            unreachable!()
        };
        if let Some(attempt) = self.attempts.remove(&transaction) {
            self.recycle(attempt);
        }
        if let Some(reason) = deciding.refused {
            // In doubt for ever: its metadata is kept, and readers are told of it (RAMP-I1).
            if !deciding.no_reply {
                self.abort(transaction, reason, out);
            }
            return;
        }
        self.context.stability.done(deciding.commit);
        self.make_exceptions();
        self.schedule_announce(out);
        if let Some(journal) = &mut self.context.journal {
            let commit = deciding.commit;
            journal.write(Record::Ramp(RampRecord::Ended {
                transaction,
                commit,
                covered: self.context.stability.covered(),
            }));
        }
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
    let mut works: Vec<(PartitionId, Work)> = effects
        .into_iter()
        .filter(|on| !on.effects.is_empty())
        .map(|on| {
            (
                on.partition,
                Work {
                    effects: on.effects,
                    guards: on.guards,
                    ..Work::default()
                },
            )
        })
        .collect();
    for (partition, read) in &attempt.guards {
        let work = match works.binary_search_by_key(partition, |(at, _)| *at) {
            Ok(at) => &mut works[at].1,
            Err(at) => {
                works.insert(at, (*partition, Work::default()));
                &mut works[at].1
            }
        };
        let view = attempt
            .views
            .iter()
            .find(|view| view.partition == *partition);
        work.snapshot = view.map(|view| view.snapshot);
        work.guard_reads.push(read.clone());
    }
    works
}

/// The metadata of a transaction that writes on several partitions, or that somebody may follow.
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
