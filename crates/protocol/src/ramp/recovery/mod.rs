//! How a RAMP node comes back: `docs/protocols/durability.md`.

mod participant;
pub mod record;

use anabranch_storage::Store;
use anabranch_types::{NodeId, Ticks, Timestamp};
use smallvec::SmallVec;

use crate::ramp::core::context::Context;
use crate::ramp::core::coordinator::attempt::{Attempt, Deciding, Phase};
use crate::ramp::core::message::{Decision, Message, Participants, Stamped};
use crate::ramp::core::trace::Trace;
use crate::ramp::node::RampNode;
use crate::ramp::recovery::record::{DecidedRecord, RampRecord, StabilityRecord};
use crate::record::{Journal, NoRecords};
use crate::{AbortReason, Durable, Handover, Outbox, Record, ReplayError, TransactionId};

impl Context {
    /// Ends a step of a node that keeps records.
    #[inline]
    pub(crate) fn write_records(&mut self, out: &mut Outbox<Stamped>) {
        if let Some(journal) = &mut self.journal {
            journal.close(&self.clock, &mut out.records);
        }
    }

    /// Writes down that a transaction without another participant has committed here.
    pub(crate) fn record_alone(
        &mut self,
        timestamp: Timestamp,
        trace: Option<Trace>,
        origin_commit: Option<Timestamp>,
    ) {
        if let Some(journal) = &mut self.journal {
            let changes = journal.take_changes().unwrap_or_default();
            journal.write(Record::Ramp(RampRecord::Alone {
                timestamp,
                changes,
                trace,
                origin_commit,
            }));
        }
    }

    /// Writes down that a prepared transaction is forgotten.
    pub(crate) fn record_aborted(&mut self, prepared: Timestamp) {
        if let Some(journal) = &mut self.journal {
            journal.write(Record::Ramp(RampRecord::Aborted { prepared }));
        }
    }
}

/// What the coordinator writes down.
impl RampNode {
    /// A transaction is decided; `trace` is what the own partition keeps of it.
    pub(crate) fn record_decision(
        &mut self,
        transaction: TransactionId,
        deciding: &Deciding,
        trace: Option<Trace>,
    ) {
        if let Some(journal) = &mut self.context.journal {
            let changes = journal.take_changes();
            journal.write(Record::Ramp(RampRecord::Decided(Box::new(DecidedRecord {
                transaction,
                decided: deciding.decided(),
                others: deciding.others.to_vec(),
                trace: trace.filter(|_| changes.is_some()),
                changes,
                causal_context: deciding.causal_context.clone(),
                origin_commit: deciding.origin_commit,
            }))));
        }
    }

    /// All participants have installed a transaction.
    pub(crate) fn record_end(&mut self, transaction: TransactionId, commit: Timestamp) {
        if let Some(journal) = &mut self.context.journal {
            journal.write(Record::Ramp(RampRecord::Ended {
                transaction,
                commit,
                covered: self.context.stability.covered(),
            }));
        }
    }
}

impl Handover for RampNode {
    fn into_items(self) -> Store {
        self.into_store()
    }

    fn last_time(&self) -> u64 {
        self.context.clock.last()
    }

    fn continue_after(&mut self, time: u64) {
        let clock = &mut self.context.clock;
        clock.observe(Timestamp::new(time, NodeId(0)));
    }
}

impl Durable for RampNode {
    fn keep_records(&mut self) -> Result<(), NoRecords> {
        let Context { journal, clock, .. } = &mut self.context;
        journal.get_or_insert_with(|| Box::new(Journal::new(clock)));
        Ok(())
    }

    fn replay(&mut self, record: Record) -> Result<(), ReplayError> {
        let store = &mut self.participant.store;
        match record {
            Record::Clock(bound) => {
                let Context { journal, clock, .. } = &mut self.context;
                let journal: &mut Box<Journal> = journal.get_or_insert_default();
                journal.replay_clock(bound, clock);
            }
            Record::Items { table, items } => store.import(table, items),
            Record::Store { last } => store.finish_import(last),
            Record::Ramp(record) => self.replay_ramp(record)?,
            record @ (Record::Locking(_)
            | Record::Pob(_)
            | Record::MultiPaxos(_)
            | Record::Epaxos(_)
            | Record::Belt(_)
            | Record::Guards(_)
            | Record::Score(_)
            | Record::Certification(_)) => {
                return Err(ReplayError(format!("{record:?} is not RAMP's")));
            }
        }
        Ok(())
    }

    fn recover(&mut self, now: Ticks, out: &mut Outbox<Stamped>) {
        self.context.now = now;
        self.participant.store.invalidate_snapshots();
        let sequence = self.participant.store.last();
        self.context.stability.reached(self.partition, sequence);
        self.context.stability.recover();
        if self.context.stability.makes_exceptions() {
            // The exceptions of an earlier incarnation must not be mistaken for those of this one.
            let since = self.context.clock.next(now);
            self.context.stability.publish(since);
        }
        let settled = self.context.stability.long_known();
        self.participant.forget_up_to(settled);
        for node in self.others() {
            // Participants of transactions that have ended, and that have not received the watermark since.
            self.send(node, Message::Stable, out);
        }
        let own = self.owner(self.partition);
        for (transaction, prepared) in self.participant.all_prepared() {
            if transaction.node == own && !self.attempts.contains_key(&transaction) {
                // Under Prepare-F: withdrawn, and not yet forgotten here.
                self.participant.abort(&mut self.context, prepared);
            }
            self.inquire(transaction.node, transaction, prepared, out);
        }
        self.schedule_termination(out);
        self.resend_replicate(None, out);
        for transaction in self.attempts_in_order() {
            self.send_prepares(transaction, None, out);
            self.resend_commit(transaction, None, out);
        }
        if self.options.causal {
            self.schedule_await(out);
        }
        self.context.write_records(out);
    }

    fn items(&self) -> &Store {
        &self.participant.store
    }

    fn items_mut(&mut self) -> &mut Store {
        &mut self.participant.store
    }

    fn checkpoint_state(&self, sink: &mut dyn FnMut(Record)) {
        let Some(journal) = &self.context.journal else {
            return;
        };
        sink(journal.clock_record());
        let mut ramp = |record| sink(Record::Ramp(record));
        let mut open: Vec<(Timestamp, RampRecord)> = self.open_replicated();
        open.extend(self.open_decisions().into_iter().map(|record| {
            let commit = record.decided.commit;
            (commit, RampRecord::Decided(Box::new(record)))
        }));
        open.sort_unstable_by_key(|(commit, _)| *commit);
        for (_, record) in open {
            ramp(record);
        }
        let mut known = self.context.stability.checkpoint();
        self.participant.checkpoint_known(&mut known);
        ramp(RampRecord::Stability(Box::new(known)));
        for replicate in self.sticky.iter().flat_map(|sticky| sticky.outgoing()) {
            ramp(RampRecord::Replicate(Box::new(replicate.clone())));
        }
        for applied in self.sticky.iter().flat_map(|sticky| sticky.applied()) {
            ramp(RampRecord::Applied(applied));
        }
        for record in self.participant.checkpoint_prepared() {
            ramp(RampRecord::Prepared(Box::new(record)));
        }
    }
}

impl RampNode {
    fn others(&self) -> Vec<NodeId> {
        let everywhere = self.topology.everywhere();
        let mut others: Vec<NodeId> = everywhere.flatten().copied().collect();
        others.sort_unstable();
        others.dedup();
        let own = self.owner(self.partition);
        others.retain(|node| *node != own);
        others
    }

    pub(crate) fn attempts_in_order(&self) -> Vec<TransactionId> {
        // tidy: order-free because they are sorted below
        let mut all: Vec<TransactionId> = self.attempts.keys().copied().collect();
        all.sort_unstable();
        all
    }

    fn replay_ramp(&mut self, record: RampRecord) -> Result<(), ReplayError> {
        match record {
            RampRecord::Alone {
                timestamp,
                changes,
                trace,
                origin_commit,
            } => {
                if let Some(trace) = &trace {
                    let causal_context = trace.causal_context.clone();
                    self.context
                        .stability
                        .decided_alone(timestamp, causal_context);
                }
                if let Some((sticky, origin_commit)) = self.sticky.as_mut().zip(origin_commit) {
                    sticky.installed(origin_commit);
                }
                let origin_commit = origin_commit.unwrap_or(timestamp);
                (self.participant).replay_installed(timestamp, origin_commit, Some(changes), trace);
            }
            RampRecord::Prepared(record) => self.participant.replay_prepared(*record),
            RampRecord::Committed {
                decided,
                changes,
                slots,
            } => self.participant.replay_committed(decided, changes, slots)?,
            RampRecord::Promised { prepared } => self.participant.replay_promised(prepared),
            RampRecord::Aborted { prepared } => self.participant.replay_aborted(prepared)?,
            RampRecord::Decided(record) => self.replay_decided(*record),
            RampRecord::Replicate(replicate) => self.replay_replicate(*replicate),
            RampRecord::Replicated { origin_commit } => {
                if let Some(sticky) = &mut self.sticky {
                    sticky.replay_replicated(origin_commit);
                }
            }
            RampRecord::Applied(applied) => {
                if let Some(sticky) = &mut self.sticky {
                    sticky.replay_applied(applied);
                }
            }
            RampRecord::ReplicatedWrite(record) => self.replay_replicated_write(*record),
            RampRecord::Withdrawn { transaction, name } => {
                self.attempts.remove(&transaction);
                self.context.stability.done(name);
            }
            RampRecord::Ended {
                transaction,
                commit,
                covered,
            } => {
                if let Some(covered) = &covered {
                    self.context.stability.replay_covered(covered);
                }
                let Some(attempt) = self.attempts.remove(&transaction) else {
                    return Err(ReplayError(format!(
                        "{transaction:?} ends, and was not decided"
                    )));
                };
                if let Phase::Committing(deciding) = &attempt.phase
                    && let Some((sticky, origin_commit)) =
                        self.sticky.as_mut().zip(deciding.origin_commit)
                {
                    sticky.installed(origin_commit);
                }
                self.context.stability.done(commit);
            }
            RampRecord::Settled { settled, covered } => {
                if let Some(covered) = &covered {
                    self.context.stability.replay_covered(covered);
                }
                self.context.stability.replay_settled(settled);
                self.participant.settle(&self.context.stability);
            }
            RampRecord::Stability(known) => {
                let StabilityRecord { recent, .. } = &*known;
                let ascends = recent.is_sorted_by_key(|recent| recent.sequence);
                if !ascends {
                    return Err(ReplayError("what is known is out of order".to_owned()));
                }
                self.context.stability.replay(&known);
                self.participant.replay_known(&known);
            }
        }
        Ok(())
    }

    /// Writes down what has been forgotten, since a replica may follow a log for longer than a node lives.
    pub(crate) fn record_settled(&mut self) {
        let settled = self.context.stability.settled();
        let covered = self.context.stability.covered();
        if let Some(journal) = &mut self.context.journal {
            journal.write(Record::Ramp(RampRecord::Settled { settled, covered }));
        }
    }

    fn replay_decided(&mut self, record: DecidedRecord) {
        let DecidedRecord {
            transaction,
            decided,
            others,
            changes,
            trace,
            causal_context,
            origin_commit,
        } = record;
        let commit = decided.commit;
        if let Some((sticky, origin_commit)) = self.sticky.as_mut().zip(origin_commit) {
            sticky.decided(origin_commit);
        }
        let at = origin_commit.unwrap_or(commit);
        self.participant
            .replay_installed(commit, at, changes, trace);
        let others: Participants = others.into();
        let dependencies = causal_context.clone();
        let all = others.iter().copied();
        self.context.stability.decided(commit, dependencies, all);
        let deciding = Deciding {
            origin_commit,
            causal_context,
            ..Deciding::unanswered(decided, others)
        };
        let attempt = Box::new(Attempt {
            phase: Phase::Committing(Box::new(deciding)),
            ..Attempt::default()
        });
        self.attempts.insert(transaction, attempt);
    }

    /// What is to be prepared by every cluster and is not yet.
    fn open_replicated(&self) -> Vec<(Timestamp, RampRecord)> {
        // tidy: order-free because the caller sorts them
        let all = self.attempts.iter();
        let open = all.filter_map(|(transaction, attempt)| match &attempt.phase {
            Phase::Replicating(replicated) => {
                let record = Box::new(replicated.record(*transaction));
                Some((replicated.name, RampRecord::ReplicatedWrite(record)))
            }
            _ => None,
        });
        open.collect()
    }

    /// What is decided and not acknowledged by all, in the order of decisions.
    fn open_decisions(&self) -> Vec<DecidedRecord> {
        // tidy: order-free because they are sorted below
        let all = self.attempts.iter();
        let open = all.filter_map(|(transaction, attempt)| match &attempt.phase {
            Phase::Committing(deciding) => Some(DecidedRecord {
                transaction: *transaction,
                decided: Decision {
                    prepared: deciding.prepared,
                    commit: deciding.commit,
                },
                others: deciding.others.to_vec(),
                changes: None,
                trace: None,
                causal_context: deciding.causal_context.clone(),
                origin_commit: deciding.origin_commit,
            }),
            _ => None,
        });
        let mut open: Vec<DecidedRecord> = open.collect();
        open.sort_unstable_by_key(|record| record.decided.commit);
        open
    }

    /// Sends Commit to the participants that have not acknowledged it, or to one of them.
    pub(crate) fn resend_commit(
        &mut self,
        transaction: TransactionId,
        only: Option<NodeId>,
        out: &mut Outbox<Stamped>,
    ) {
        let Some(attempt) = self.attempts.get(&transaction) else {
            return;
        };
        let Phase::Committing(deciding) = &attempt.phase else {
            return;
        };
        let decided = Decision {
            prepared: deciding.prepared,
            commit: deciding.commit,
        };
        let waits = |node: &NodeId| {
            !deciding.answered.contains(node) && only.is_none_or(|only| only == *node)
        };
        let waiting: SmallVec<[NodeId; 4]> =
            deciding.others.iter().copied().filter(waits).collect();
        for node in waiting {
            let commit = Message::Commit {
                transaction,
                decided,
            };
            self.send(node, commit, out);
        }
    }

    /// Another node has come back, with nothing but what it had made durable.
    pub(crate) fn handle_restarted(&mut self, node: NodeId, out: &mut Outbox<Stamped>) {
        let unanswered: Vec<_> = self.participant.unanswered_by(node).collect();
        for (transaction, prepared) in unanswered {
            self.inquire(node, transaction, prepared, out);
        }
        self.resend_replicate(Some(node), out);
        self.context.stability.await_again(node);
        self.drop_pending(node);
        for transaction in self.attempts_in_order() {
            let Some(attempt) = self.attempts.get_mut(&transaction) else {
                continue;
            };
            match &attempt.phase {
                Phase::Idle => {}
                Phase::Reading => {
                    let batch = &attempt.batch;
                    let asked = batch.parts.iter().any(|part| part.may_come_from(node))
                        || batch.look_ups.iter().any(|one| one.has_asked(node))
                        || attempt.views.iter().any(|view| view.replica == node);
                    if asked {
                        self.attempts.remove(&transaction);
                        self.abort(transaction, AbortReason::Restarted, out);
                    }
                }
                Phase::Alone { owner, writes, .. } => {
                    if *owner == node {
                        let reason = match writes {
                            true => AbortReason::InDoubt,
                            false => AbortReason::Restarted,
                        };
                        self.attempts.remove(&transaction);
                        self.abort(transaction, reason, out);
                    }
                }
                Phase::Preparing(deciding) => {
                    if deciding.others.contains(&node) && !deciding.answered.contains(&node) {
                        let phase = std::mem::take(&mut attempt.phase);
                        self.attempts.remove(&transaction);
                        if let Phase::Preparing(deciding) = phase {
                            let reason = AbortReason::Restarted;
                            self.give_up(transaction, *deciding, None, reason, out);
                        }
                    }
                }
                Phase::Replicating(_) => {
                    self.send_prepares(transaction, Some(node), out);
                    self.install_at(transaction, node, out);
                }
                Phase::Committing(_) => self.resend_commit(transaction, Some(node), out),
            }
        }
    }
}
