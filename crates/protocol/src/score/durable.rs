//! Logging and recovery of a SCORe node: see `docs/protocols/durability.md`.

use anabranch_storage::Store;
use anabranch_types::{NodeId, PartitionId, Ticks, Timestamp};

use super::ScoreNode;
use super::coordinator::{Stage, Transaction};
use super::message::Message;
use super::record::{DecidedRecord, ScoreRecord};
use crate::contract::{AbortReason, Durable, Handover, Outbox, TransactionId};
use crate::record::{Journal, NoRecords, Record, ReplayError};

impl Handover for ScoreNode {
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

impl Durable for ScoreNode {
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
            Record::Score(record) => self.replay_score(record)?,
            other => {
                return Err(ReplayError(format!("a SCORe node cannot replay {other:?}")));
            }
        }
        Ok(())
    }

    /// What was read here before, and which versions older snapshots need, is not known any more: snapshots below the
    /// clock are refused, and count as having read everything.
    fn recover(&mut self, now: Ticks, out: &mut Outbox<Message>) {
        self.read_floor = self.draw(now);
        if let Some(stamps) = &mut self.stamps {
            stamps.raise_all(self.read_floor);
        }
        for id in self.guests_of(None) {
            self.send_to_node(id.node, Message::Inquire { transaction: id }, out);
        }
        for id in self.own_in_order() {
            self.resend_commit(id, None, out);
        }
        self.close_step(out);
    }

    /// What leads to a decision may leave at once: votes and the decision wait.
    fn waits_for_log(message: &Message) -> bool {
        match message {
            Message::Read { .. }
            | Message::Prepare(_)
            | Message::Release { .. }
            | Message::Wound { .. } => false,
            // A client may be told the reason of a failure.
            Message::Refused { reason, .. } => !reason.is_retryable(),
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
        let mut score = |record| sink(Record::Score(record));
        for id in self.own_in_order() {
            if let Stage::Committing { commit, awaited } = &self.transactions[&id].stage {
                score(ScoreRecord::Decided(Box::new(DecidedRecord {
                    transaction: id,
                    commit: *commit,
                    others: awaited.to_vec(),
                    changes: None,
                })));
            }
        }
        let remote = self.guests_of(None).into_iter();
        for id in remote.filter(|id| id.node != self.node()) {
            if let Some(record) = self.voted_record(id) {
                score(ScoreRecord::Voted(Box::new(record)));
            }
        }
    }
}

/// Logging and recovery.
impl ScoreNode {
    /// Ends a step: moves its records to the outbox, if the node keeps a log.
    pub(super) fn close_step(&mut self, out: &mut Outbox<Message>) {
        if let Some(journal) = &mut self.journal {
            journal.close(&self.participant.clock, &mut out.records);
        }
    }

    fn replay_score(&mut self, record: ScoreRecord) -> Result<(), ReplayError> {
        match record {
            ScoreRecord::Alone { position, changes } => self.participant.redo(position, changes),
            ScoreRecord::Voted(record) => self.restore_vote(*record)?,
            ScoreRecord::Committed {
                transaction,
                commit,
            } => {
                if !self.guests.contains_key(&transaction) {
                    return Err(not_voted(transaction));
                }
                self.commit_here(Ticks::default(), transaction, commit);
            }
            ScoreRecord::Aborted { transaction } => {
                if !self.end_guest(transaction) {
                    return Err(not_voted(transaction));
                }
            }
            ScoreRecord::Decided(record) => {
                let DecidedRecord {
                    transaction,
                    commit,
                    others,
                    changes,
                } = *record;
                self.participant.clock.observe(commit.timestamp);
                if let Some(changes) = changes {
                    self.participant.redo(commit.position, changes);
                }
                let decided = Transaction::decided(transaction, commit, others.into());
                self.transactions.insert(transaction, decided);
            }
            ScoreRecord::Ended { transaction } => {
                if self.transactions.remove(&transaction).is_none() {
                    let what = format!("{transaction:?} ends and was not decided");
                    return Err(ReplayError(what));
                }
            }
        }
        Ok(())
    }

    /// Another node has restarted with its durable state.
    pub(super) fn handle_restarted(&mut self, node: NodeId, out: &mut Outbox<Message>) {
        self.forget_coordinator(node, out);
        let partition = self.topology.owned_by(node);
        for id in self.own_in_order() {
            let transaction = &self.transactions[&id];
            if let Stage::Committing { .. } = transaction.stage {
                self.resend_commit(id, Some(partition), out);
            } else if transaction.awaits(partition) {
                self.abort(id, Some(AbortReason::Restarted), out);
            }
        }
    }

    /// Handles [`Message::Inquire`] about a transaction that was voted on.
    pub(super) fn handle_inquire(
        &mut self,
        from: NodeId,
        id: TransactionId,
        out: &mut Outbox<Message>,
    ) {
        match self.transactions.get(&id).map(|known| &known.stage) {
            Some(Stage::Committing { .. }) => {
                let partition = self.topology.owned_by(from);
                self.resend_commit(id, Some(partition), out);
            }
            Some(_) => {}
            // An unknown transaction was not decided: presumed abort.
            None => self.send_to_node(from, Message::Release { transaction: id }, out),
        }
    }

    /// Handles [`Message::Acknowledged`]: the participant has made a decided transaction durable.
    pub(super) fn handle_acknowledged(&mut self, from: NodeId, id: TransactionId) {
        let partition = self.topology.owned_by(from);
        let Some(transaction) = self.transactions.get_mut(&id) else {
            return; // After a restart of one of the two nodes, the message was sent twice.
        };
        let Stage::Committing { awaited, .. } = &mut transaction.stage else {
            panic!("{id:?} is acknowledged before it is decided");
        };
        awaited.retain(|one| *one != partition);
        if awaited.is_empty() {
            self.transactions.remove(&id);
            self.record(|| ScoreRecord::Ended { transaction: id });
        }
    }

    /// Sends [`Message::Commit`] to the participants that have not acknowledged it, or to one of them.
    fn resend_commit(
        &mut self,
        id: TransactionId,
        only: Option<PartitionId>,
        out: &mut Outbox<Message>,
    ) {
        let Stage::Committing { commit, awaited } = &self.transactions[&id].stage else {
            return;
        };
        let commit = *commit;
        let meant = |one: &&PartitionId| only.is_none_or(|only| only == **one);
        let awaited: Vec<PartitionId> = awaited.iter().filter(meant).copied().collect();
        for partition in awaited {
            let message = Message::Commit {
                transaction: id,
                commit,
            };
            self.send(partition, message, out);
        }
    }

    fn own_in_order(&self) -> Vec<TransactionId> {
        // tidy: order-free because they are sorted below
        let mut all: Vec<TransactionId> = self.transactions.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// The guests of one coordinator, or of all, in order.
    pub(super) fn guests_of(&self, node: Option<NodeId>) -> Vec<TransactionId> {
        // tidy: order-free because they are sorted below
        let all = self.guests.keys().copied();
        let mut all: Vec<TransactionId> = all
            .filter(|guest| node.is_none_or(|node| guest.node == node))
            .collect();
        all.sort_unstable();
        all
    }

    /// Checks what one node can see of DUR-I3.
    pub(super) fn check_records(&self) -> Result<(), String> {
        match &self.journal {
            Some(journal) => journal.check_invariants(&self.participant.clock),
            None => Ok(()),
        }
    }
}

fn not_voted(transaction: TransactionId) -> ReplayError {
    ReplayError(format!("{transaction:?} ends and was not voted on"))
}
