//! Logging and recovery of a locking node: see `docs/protocols/durability.md`.

use std::collections::VecDeque;

use anabranch_storage::{LoggedChange, Store};
use anabranch_types::{NodeId, PartitionId, Ticks, Timestamp};
use smallvec::SmallVec;

use super::coordinator::{Transaction, TransactionStage};
use super::record::{DecidedRecord, LockingRecord};
use super::{LockingNode, Message};
use crate::contract::{AbortReason, Durable, Handover, Input, Outbox, TransactionId};
use crate::record::{Journal, NoRecords, Record, ReplayError};

/// Blocks lock requests at a recovered node until every other node has acknowledged the recovery:
/// undecided transactions may rely on locks of earlier incarnations.
#[derive(Clone, Debug)]
pub(super) struct RecoveryBarrier {
    /// The nodes that have not acknowledged the recovery.
    unacknowledged: Vec<NodeId>,
    /// Inputs that wait for it.
    deferred: VecDeque<Input<Message>>,
}

impl Handover for LockingNode {
    fn into_items(self) -> Store {
        self.into_store()
    }

    fn last_time(&self) -> u64 {
        self.participant.clock.last()
    }

    fn continue_after(&mut self, time: u64) {
        let clock = &mut self.participant.clock;
        clock.observe(Timestamp::new(time, NodeId(0)));
    }
}

impl Durable for LockingNode {
    fn keep_records(&mut self) -> Result<(), NoRecords> {
        let clock = &self.participant.clock;
        self.journal
            .get_or_insert_with(|| Box::new(Journal::new(clock)));
        Ok(())
    }

    fn replay(&mut self, record: Record) -> Result<(), ReplayError> {
        match record {
            Record::Clock(bound) => {
                let journal: &mut Box<Journal> = self.journal.get_or_insert_default();
                journal.replay_clock(bound, &mut self.participant.clock);
            }
            Record::Items { table, items } => self.participant.store.import(table, items),
            Record::Store { last } => self.participant.store.finish_import(last),
            Record::Locking(record) => self.replay_locking(record)?,
            record @ (Record::Ramp(_)
            | Record::Pob(_)
            | Record::MultiPaxos(_)
            | Record::Epaxos(_)
            | Record::Belt(_)
            | Record::Score(_)
            | Record::Guards(_)
            | Record::Certification(_)) => {
                return Err(ReplayError(format!(
                    "a locking node cannot replay {record:?}"
                )));
            }
        }
        Ok(())
    }

    fn recover(&mut self, now: Ticks, out: &mut Outbox<Message>) {
        let others = self.others();
        let clock = self.participant.tick(now);
        for &node in &others {
            self.send_to_node(node, Message::Returned { clock }, out);
        }
        if !others.is_empty() {
            self.barrier = Some(RecoveryBarrier {
                unacknowledged: others,
                deferred: VecDeque::new(),
            });
        }
        for transaction in self.remote_transactions_of(None) {
            self.send_to_node(transaction.node, Message::Inquire { transaction }, out);
        }
        for id in self.own_in_order() {
            self.resend_commit(id, None, out);
        }
        self.close_step(out);
    }

    /// What leads to a decision may leave at once: the decision itself waits, and so does all that a decision rests on
    /// (DUR-I13).
    fn waits_for_log(message: &Message) -> bool {
        match message {
            Message::Lock { .. }
            | Message::Wound { .. }
            | Message::Yield { .. }
            | Message::Prepare { .. }
            | Message::Confirm { .. }
            | Message::Release {
                committed: None, ..
            } => false,
            // A client may be told the reason of a failure.
            Message::Refused { reason, .. } => !reason.is_retryable(),
            Message::Granted { provisional, .. } => !provisional,
            _ => true,
        }
    }

    fn items(&self) -> &Store {
        &self.participant.store
    }

    fn items_mut(&mut self) -> &mut Store {
        &mut self.participant.store
    }

    fn checkpoint_state(&self, sink: &mut dyn FnMut(Record)) {
        let Some(journal) = &self.journal else {
            return;
        };
        sink(journal.clock_record());
        let mut locking = |record| sink(Record::Locking(record));
        for id in self.own_in_order() {
            if let TransactionStage::Committing { timestamp, awaited } =
                &self.transactions[&id].stage
            {
                locking(LockingRecord::Decided(Box::new(DecidedRecord {
                    transaction: id,
                    timestamp: *timestamp,
                    others: awaited.to_vec(),
                    changes: None,
                })));
            }
        }
        for id in self.remote_transactions_of(None) {
            let record = self
                .participant
                .prepared_record(self.remote_transactions[&id]);
            if let Some(record) = record {
                locking(LockingRecord::Prepared(Box::new(record)));
            }
        }
    }
}

/// Logging.
impl LockingNode {
    /// Ends a step: moves its records to the outbox, if the node keeps a log.
    #[inline]
    pub(super) fn close_step(&mut self, out: &mut Outbox<Message>) {
        if let Some(journal) = &mut self.journal {
            journal.close(&self.participant.clock, &mut out.records);
        }
    }

    pub(super) fn keeps_records(&self) -> bool {
        self.journal.is_some()
    }

    /// Adds a record, if the node keeps a log.
    pub(super) fn record(&mut self, record: impl FnOnce() -> LockingRecord) {
        if let Some(journal) = &mut self.journal {
            journal.write(Record::Locking(record()));
        }
    }

    /// Records the decision of a transaction of this node, with its after-images here.
    pub(super) fn record_decision(
        &mut self,
        transaction: TransactionId,
        timestamp: Timestamp,
        others: &[PartitionId],
        changes: Option<Vec<LoggedChange>>,
    ) {
        match (others.is_empty(), changes) {
            (false, changes) => self.record(|| {
                LockingRecord::Decided(Box::new(DecidedRecord {
                    transaction,
                    timestamp,
                    others: others.to_vec(),
                    changes,
                }))
            }),
            (true, Some(changes)) => self.record(|| LockingRecord::Alone { timestamp, changes }),
            (true, None) => {}
        }
    }
}

/// Recovery.
impl LockingNode {
    fn replay_locking(&mut self, record: LockingRecord) -> Result<(), ReplayError> {
        match record {
            LockingRecord::Alone { timestamp, changes } => {
                self.participant.redo(timestamp, changes);
            }
            LockingRecord::Prepared(record) => {
                let owner = self.participant.begin(record.transaction, None);
                self.remote_transactions.insert(record.transaction, owner);
                self.participant.restore_prepared(owner, *record)?;
            }
            LockingRecord::Committed {
                transaction,
                timestamp,
            } => {
                let Some(owner) = self.remote_transactions.remove(&transaction) else {
                    return Err(not_prepared(transaction));
                };
                self.participant.install(Ticks(0), owner, timestamp);
                self.participant.end(owner);
            }
            LockingRecord::Aborted { transaction } => {
                let Some(owner) = self.remote_transactions.remove(&transaction) else {
                    return Err(not_prepared(transaction));
                };
                self.participant.end(owner);
            }
            LockingRecord::Decided(record) => {
                let DecidedRecord {
                    transaction,
                    timestamp,
                    others,
                    changes,
                } = *record;
                if let Some(changes) = changes {
                    self.participant.redo(timestamp, changes);
                }
                let decided = Transaction::decided(transaction, timestamp, others.into());
                self.transactions.insert(transaction, decided);
            }
            LockingRecord::Ended { transaction } => {
                if self.transactions.remove(&transaction).is_none() {
                    let what = format!("{transaction:?} ends and was not decided");
                    return Err(ReplayError(what));
                }
            }
        }
        Ok(())
    }

    /// During recovery: defers inputs that may lead to new locks, and returns all others.
    pub(super) fn defer_during_recovery(
        &mut self,
        input: Input<Message>,
    ) -> Option<Input<Message>> {
        let Some(barrier) = &mut self.barrier else {
            return Some(input);
        };
        let waits = match &input {
            Input::Request { .. } => true,
            Input::Message { message, .. } => match message {
                Message::Lock { .. } | Message::Prepare { .. } => true,
                // It may cancel a request that is deferred here.
                Message::Release { transaction, .. } => {
                    !self.remote_transactions.contains_key(transaction)
                }
                _ => false,
            },
            Input::Restarted { node } => {
                let back = *node;
                barrier
                    .deferred
                    .retain(|input| !matches!(input, Input::Message { from, .. } if *from == back));
                false
            }
            Input::Timer(_) => false,
        };
        if waits {
            barrier.deferred.push_back(input);
            return None;
        }
        Some(input)
    }

    /// Handles [`Message::Returned`]: another node has recovered.
    pub(super) fn handle_returned(
        &mut self,
        now: Ticks,
        from: NodeId,
        clock: Timestamp,
        out: &mut Outbox<Message>,
    ) {
        self.participant.clock.observe(clock);
        for transaction in self.remote_transactions_of(Some(from)) {
            if !self
                .participant
                .is_prepared(self.remote_transactions[&transaction])
            {
                self.forget(transaction);
            }
        }
        let clock = self.participant.tick(now);
        self.send_to_node(from, Message::Noticed { clock }, out);
    }

    /// Handles [`Message::Noticed`]: no undecided transaction of that node relies on a lock of this node's
    /// earlier incarnations.
    pub(super) fn handle_noticed(
        &mut self,
        now: Ticks,
        from: NodeId,
        clock: Timestamp,
        out: &mut Outbox<Message>,
    ) {
        self.participant.clock.observe(clock);
        let Some(barrier) = &mut self.barrier else {
            return;
        };
        barrier.unacknowledged.retain(|node| *node != from);
        if !barrier.unacknowledged.is_empty() {
            return;
        }
        let deferred = std::mem::take(&mut barrier.deferred);
        self.barrier = None;
        for input in deferred {
            self.handle_input(now, input, out);
            self.resume_woken(now, out);
        }
    }

    /// Another node has restarted with its durable state.
    pub(super) fn handle_restarted(&mut self, now: Ticks, node: NodeId, out: &mut Outbox<Message>) {
        if let Some(barrier) = &self.barrier
            && barrier.unacknowledged.contains(&node)
        {
            let clock = self.participant.tick(now);
            self.send_to_node(node, Message::Returned { clock }, out);
        }
        // Earlier inquiries may have gone to a former incarnation, however long ago the node has sent
        // that it has recovered.
        for transaction in self.remote_transactions_of(Some(node)) {
            if self
                .participant
                .is_prepared(self.remote_transactions[&transaction])
            {
                self.send_to_node(node, Message::Inquire { transaction }, out);
            }
        }
        let partition = self.topology.owned_by(node);
        for id in self.own_in_order() {
            let transaction = self.transactions.get_mut(&id).expect("listed above");
            if let TransactionStage::Committing { .. } = transaction.stage {
                self.resend_commit(id, Some(partition), out);
            } else if transaction.relies_on(partition) {
                let mut transaction = self.transactions.remove(&id).expect("listed above");
                transaction.forget_remote(partition);
                match transaction.stage {
                    TransactionStage::Running => {
                        self.doom(transaction, AbortReason::Restarted, out);
                    }
                    _ => self.abort(transaction, Some(AbortReason::Restarted), out),
                }
            }
        }
    }

    /// Handles [`Message::Inquire`] about a prepared transaction.
    pub(super) fn handle_inquire(
        &mut self,
        from: NodeId,
        transaction: TransactionId,
        out: &mut Outbox<Message>,
    ) {
        match self
            .transactions
            .get(&transaction)
            .map(|known| &known.stage)
        {
            Some(TransactionStage::Committing { .. }) => {
                let partition = self.topology.owned_by(from);
                self.resend_commit(transaction, Some(partition), out);
            }
            Some(_) => {}
            // An unknown transaction was not decided: presumed abort.
            None => {
                let release = Message::Release {
                    transaction,
                    committed: None,
                };
                self.send_to_node(from, release, out);
            }
        }
    }

    /// Handles [`Message::Acknowledged`]: the participant has made a decided transaction durable.
    pub(super) fn handle_acknowledged(&mut self, from: NodeId, id: TransactionId) {
        let partition = self.topology.owned_by(from);
        let Some(transaction) = self.transactions.get_mut(&id) else {
            return; // After a restart of one of the two nodes, the message was sent twice.
        };
        let TransactionStage::Committing { awaited, .. } = &mut transaction.stage else {
            panic!("{id:?} is acknowledged before it is decided");
        };
        awaited.retain(|writer| *writer != partition);
        if awaited.is_empty() {
            self.transactions.remove(&id);
            self.record(|| LockingRecord::Ended { transaction: id });
        }
    }

    /// Sends [`Message::Commit`] to the writers that have not acknowledged it, or to one of them.
    fn resend_commit(
        &mut self,
        id: TransactionId,
        only: Option<PartitionId>,
        out: &mut Outbox<Message>,
    ) {
        let TransactionStage::Committing { timestamp, awaited } = &self.transactions[&id].stage
        else {
            return;
        };
        let timestamp = *timestamp;
        let meant = |writer: &PartitionId| only.is_none_or(|only| only == *writer);
        let writers: SmallVec<[PartitionId; 2]> = awaited.iter().copied().filter(meant).collect();
        for partition in writers {
            let commit = Message::Commit {
                transaction: id,
                timestamp,
            };
            self.send(partition, commit, out);
        }
    }

    /// Every node but this one.
    fn others(&self) -> Vec<NodeId> {
        let own = self.topology.owner(self.own);
        let mut others = self.topology.owners.clone();
        others.sort_unstable();
        others.retain(|node| *node != own);
        others
    }

    pub(super) fn own_in_order(&self) -> Vec<TransactionId> {
        // tidy: order-free because they are sorted below
        let mut all: Vec<TransactionId> = self.transactions.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// The known transactions of all other nodes, or of one, in order.
    fn remote_transactions_of(&self, node: Option<NodeId>) -> Vec<TransactionId> {
        // tidy: order-free because they are sorted below
        let all = self.remote_transactions.keys().copied();
        let mut all: Vec<TransactionId> = all
            .filter(|guest| node.is_none_or(|node| guest.node == node))
            .collect();
        all.sort_unstable();
        all
    }

    /// Checks what one node can see of DUR-I3 and DUR-I7.
    pub(super) fn check_records(&self) -> Result<(), String> {
        if let Some(journal) = &self.journal {
            journal.check_invariants(&self.participant.clock)?;
        }
        if self.barrier.is_none() {
            return Ok(());
        }
        for id in self.own_in_order() {
            if !matches!(
                self.transactions[&id].stage,
                TransactionStage::Committing { .. }
            ) {
                return Err(format!("DUR-I7: {id:?} runs at a node that is recovering"));
            }
        }
        for id in self.remote_transactions_of(None) {
            if !self.participant.is_prepared(self.remote_transactions[&id]) {
                return Err(format!(
                    "DUR-I7: {id:?} holds locks at a node that is recovering"
                ));
            }
        }
        Ok(())
    }
}

fn not_prepared(transaction: TransactionId) -> ReplayError {
    ReplayError(format!("{transaction:?} ends and was not prepared"))
}
