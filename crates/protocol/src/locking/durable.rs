//! How a locking node writes down what it does, and how it comes back:
//! `docs/protocols/durability.md`.

use std::collections::VecDeque;

use anabranch_storage::LoggedChange;
use anabranch_types::{NodeId, PartitionId, Ticks, Timestamp};
use smallvec::SmallVec;

use super::coordinator::{Stage, Transaction};
use super::record::{DecidedRecord, LockingRecord};
use super::{LockingNode, Message};
use crate::contract::{AbortReason, Durable, Input, Outbox, TransactionId};
use crate::record::{Journal, NoRecords, Record, ReplayError, checkpoint_store};

/// A node that has come back is closed until every other node has noticed: locks of its lost lives
/// may still be relied upon.
#[derive(Clone, Debug)]
pub(super) struct Door {
    /// The nodes that have not noticed.
    unnoticed: Vec<NodeId>,
    /// What has come meanwhile.
    postponed: VecDeque<Input<Message>>,
}

impl Durable for LockingNode {
    fn keep_records(&mut self) -> Result<(), NoRecords> {
        self.journal.get_or_insert_default();
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
            Record::Ramp(record) => {
                return Err(ReplayError(format!("{record:?} is not locking's")));
            }
        }
        Ok(())
    }

    fn recover(&mut self, now: Ticks, out: &mut Outbox<Message>) {
        let others = self.others();
        let clock = self.participant.tick(now);
        for &node in &others {
            self.say(node, Message::Returned { clock }, out);
        }
        if !others.is_empty() {
            self.door = Some(Door {
                unnoticed: others,
                postponed: VecDeque::new(),
            });
        }
        for transaction in self.guests_of(None) {
            self.say(transaction.node, Message::Inquire { transaction }, out);
        }
        for id in self.own_in_order() {
            self.commit_again(id, None, out);
        }
        self.write_down(out);
    }

    fn checkpoint(&self, sink: &mut dyn FnMut(Record)) {
        let Some(journal) = &self.journal else {
            return;
        };
        sink(journal.clock_record());
        checkpoint_store(&self.participant.store, sink);
        let mut locking = |record| sink(Record::Locking(record));
        for id in self.own_in_order() {
            if let Stage::Committing { timestamp, awaited } = &self.transactions[&id].stage {
                locking(LockingRecord::Decided(Box::new(DecidedRecord {
                    transaction: id,
                    timestamp: *timestamp,
                    others: awaited.to_vec(),
                    changes: None,
                })));
            }
        }
        for id in self.guests_of(None) {
            let record = self.participant.prepared_record(self.guests[&id]);
            if let Some(record) = record {
                locking(LockingRecord::Prepared(Box::new(record)));
            }
        }
    }
}

/// What is written down.
impl LockingNode {
    /// Ends a step of a node that keeps records.
    #[inline]
    pub(super) fn write_down(&mut self, out: &mut Outbox<Message>) {
        if let Some(journal) = &mut self.journal {
            journal.close(&self.participant.clock, &mut out.records);
        }
    }

    pub(super) fn keeps_records(&self) -> bool {
        self.journal.is_some()
    }

    /// Adds a record, if the node keeps any.
    pub(super) fn record(&mut self, record: impl FnOnce() -> LockingRecord) {
        if let Some(journal) = &mut self.journal {
            journal.write(Record::Locking(record()));
        }
    }

    /// Writes down that a transaction of this node is decided, and what it came to here.
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

/// Coming back.
impl LockingNode {
    fn replay_locking(&mut self, record: LockingRecord) -> Result<(), ReplayError> {
        match record {
            LockingRecord::Alone { timestamp, changes } => {
                self.participant.redo(timestamp, changes);
            }
            LockingRecord::Prepared(record) => {
                let owner = self.participant.begin(record.transaction);
                self.guests.insert(record.transaction, owner);
                self.participant.prepare_again(owner, *record)?;
            }
            LockingRecord::Committed {
                transaction,
                timestamp,
            } => {
                let Some(owner) = self.guests.remove(&transaction) else {
                    return Err(not_prepared(transaction));
                };
                self.participant.install(Ticks(0), owner, timestamp);
                self.participant.end(owner);
            }
            LockingRecord::Aborted { transaction } => {
                let Some(owner) = self.guests.remove(&transaction) else {
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
                    let what = format!("{transaction:?} ends, and was not decided");
                    return Err(ReplayError(what));
                }
            }
        }
        Ok(())
    }

    /// While the node is closed: keeps what has to wait, and hands back the rest.
    pub(super) fn postpone(&mut self, input: Input<Message>) -> Option<Input<Message>> {
        let Some(door) = &mut self.door else {
            return Some(input);
        };
        let waits = match &input {
            Input::Request { .. } => true,
            Input::Message { message, .. } => match message {
                Message::Lock { .. } | Message::Prepare { .. } => true,
                // It may take back what waits here.
                Message::Release { transaction, .. } => !self.guests.contains_key(transaction),
                _ => false,
            },
            Input::Restarted { node } => {
                let back = *node;
                door.postponed
                    .retain(|input| !matches!(input, Input::Message { from, .. } if *from == back));
                false
            }
            Input::Timer(_) => false,
        };
        if waits {
            door.postponed.push_back(input);
            return None;
        }
        Some(input)
    }

    /// A node that has come back says so.
    pub(super) fn handle_returned(
        &mut self,
        now: Ticks,
        from: NodeId,
        clock: Timestamp,
        out: &mut Outbox<Message>,
    ) {
        self.participant.clock.observe(clock);
        for transaction in self.guests_of(Some(from)) {
            if !self.participant.is_prepared(self.guests[&transaction]) {
                self.forget(transaction);
            }
        }
        let clock = self.participant.tick(now);
        self.say(from, Message::Noticed { clock }, out);
    }

    /// Nothing undecided of that node's relies on a lock of this node's lost lives any more.
    pub(super) fn handle_noticed(
        &mut self,
        now: Ticks,
        from: NodeId,
        clock: Timestamp,
        out: &mut Outbox<Message>,
    ) {
        self.participant.clock.observe(clock);
        let Some(door) = &mut self.door else {
            return;
        };
        door.unnoticed.retain(|node| *node != from);
        if !door.unnoticed.is_empty() {
            return;
        }
        let postponed = std::mem::take(&mut door.postponed);
        self.door = None;
        for input in postponed {
            self.take_in(now, input, out);
            self.resume_woken(now, out);
        }
    }

    /// Another node has come back, with nothing but what it had made durable.
    pub(super) fn handle_restarted(&mut self, now: Ticks, node: NodeId, out: &mut Outbox<Message>) {
        if let Some(door) = &self.door
            && door.unnoticed.contains(&node)
        {
            let clock = self.participant.tick(now);
            self.say(node, Message::Returned { clock }, out);
        }
        // What was asked before may have been asked of the dead, however long ago the node has said
        // that it has returned.
        for transaction in self.guests_of(Some(node)) {
            if self.participant.is_prepared(self.guests[&transaction]) {
                self.say(node, Message::Inquire { transaction }, out);
            }
        }
        let partition = self.topology.owned_by(node);
        for id in self.own_in_order() {
            let transaction = self.transactions.get_mut(&id).expect("listed above");
            if let Stage::Committing { .. } = transaction.stage {
                self.commit_again(id, Some(partition), out);
            } else if transaction.relies_on(partition) {
                let mut transaction = self.transactions.remove(&id).expect("listed above");
                transaction.forget_remote(partition);
                match transaction.stage {
                    Stage::Running => self.doom(transaction, out),
                    _ => self.abort(transaction, Some(AbortReason::Restarted), out),
                }
            }
        }
    }

    /// A participant asks what has become of what it has prepared.
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
            Some(Stage::Committing { .. }) => {
                let partition = self.topology.owned_by(from);
                self.commit_again(transaction, Some(partition), out);
            }
            Some(_) => {}
            // Nothing is known of it: it was not decided.
            None => {
                let release = Message::Release {
                    transaction,
                    committed: None,
                };
                self.say(from, release, out);
            }
        }
    }

    /// A participant has made its part of a decided transaction durable.
    pub(super) fn handle_acknowledged(&mut self, from: NodeId, id: TransactionId) {
        let partition = self.topology.owned_by(from);
        let Some(transaction) = self.transactions.get_mut(&id) else {
            return; // One of the two had come back, and it was told twice.
        };
        let Stage::Committing { awaited, .. } = &mut transaction.stage else {
            panic!("{id:?} is acknowledged before it is decided");
        };
        awaited.retain(|writer| *writer != partition);
        if awaited.is_empty() {
            self.transactions.remove(&id);
            self.record(|| LockingRecord::Ended { transaction: id });
        }
    }

    /// Sends Commit to the writers that have not acknowledged it, or to one of them.
    fn commit_again(
        &mut self,
        id: TransactionId,
        only: Option<PartitionId>,
        out: &mut Outbox<Message>,
    ) {
        let Stage::Committing { timestamp, awaited } = &self.transactions[&id].stage else {
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

    fn own_in_order(&self) -> Vec<TransactionId> {
        // tidy: order-free because they are sorted below
        let mut all: Vec<TransactionId> = self.transactions.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// What this partition knows of other nodes' transactions, or of one node's.
    fn guests_of(&self, node: Option<NodeId>) -> Vec<TransactionId> {
        // tidy: order-free because they are sorted below
        let all = self.guests.keys().copied();
        let mut all: Vec<TransactionId> = all
            .filter(|guest| node.is_none_or(|node| guest.node == node))
            .collect();
        all.sort_unstable();
        all
    }

    /// What can be seen of DUR-I3 and DUR-I7.
    pub(super) fn check_records(&self) -> Result<(), String> {
        if let Some(journal) = &self.journal {
            journal.check_invariants(&self.participant.clock)?;
        }
        if self.door.is_none() {
            return Ok(());
        }
        for id in self.own_in_order() {
            if !matches!(self.transactions[&id].stage, Stage::Committing { .. }) {
                return Err(format!("DUR-I7: {id:?} runs at a node that is closed"));
            }
        }
        for id in self.guests_of(None) {
            if !self.participant.is_prepared(self.guests[&id]) {
                return Err(format!(
                    "DUR-I7: {id:?} holds locks at a node that is closed"
                ));
            }
        }
        Ok(())
    }
}

fn not_prepared(transaction: TransactionId) -> ReplayError {
    ReplayError(format!("{transaction:?} ends, and was not prepared"))
}
