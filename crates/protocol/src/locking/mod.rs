//! Two-phase locking with two-phase commit: the coordination-intensive protocol that the others
//! are measured against (coordination-avoidance.txt §6.2).
//!
//! "Textbook two-phase locking" with the paper's tuning: lock requests are totally ordered across
//! servers, so there are no deadlocks; all requests to one server share a message; and reads and writes
//! travel with the lock requests. Transactions are serializable. With [`ReadLocks::Short`] or
//! [`ReadLocks::None`] they are read committed. The three are ramp.txt's LWLR, LWSR and LWNR (§5.1).
//!
//! * [`message`]: messages between nodes.
//! * [`locks`](crate::locks): one partition's locks, reads and effects for all transactions.
//! * `coordinator`: a transaction's state at its coordinator.
//! * `durable`, [`record`]: log records and recovery.
//!
//! The page `docs/protocols/locking.md` has the message table, the states, the numbered invariants
//! that [`LockingNode::check_invariants`] checks, and the proofs that transactions are serializable and
//! never deadlock.
//!
//! It has no deadlock detection, since there are no deadlocks, and sets no timers.

mod coordinator;
mod durable;
pub mod message;
pub mod record;

use std::fmt;
use std::sync::Arc;

use anabranch_storage::Store;
use anabranch_types::{
    ActivityProbe, Effect, NodeId, PartitionId, Read, RowPrograms, Schema, Ticks, Timestamp,
};
use rustc_hash::FxHashMap;

use crate::contract::{
    AbortReason, Age, Counters, Input, OpenTransactions, Outbox, Protocol, Slots, Topology,
    TransactionId,
};
use crate::locks::{LockOwner, Participant, Progress, Signal};
pub use crate::locks::{LockingOptions, ReadLocks};
use crate::record::Journal;
use coordinator::Transaction;
use durable::RecoveryBarrier;
pub use message::Message;
use record::LockingRecord;

/// A node: coordinator of the transactions that run here, participant of the own partition.
///
/// It profits from [`crate::Request::Declare`]: locks that are declared together are acquired in lock
/// order and may wait. A lock requested later and out of order is granted at once or refused.
#[derive(Clone)]
pub struct LockingNode {
    own: PartitionId,
    topology: Arc<Topology>,
    read_locks: ReadLocks,
    participant: Participant,
    /// The transactions that this node coordinates and that have not ended.
    transactions: FxHashMap<TransactionId, Transaction>,
    /// The transactions of other coordinators that this partition participates in.
    remote_transactions: FxHashMap<TransactionId, LockOwner>,
    /// The records of the current step; `None` if the node keeps no log.
    journal: Option<Box<Journal>>,
    /// Present after a recovery until the node may grant locks again.
    barrier: Option<RecoveryBarrier>,
    counters: Counters,
}

/// The state that a step may depend on, without constants and counters. Two nodes with equal output
/// behave alike; exhaustive exploration tells states apart by it.
impl fmt::Debug for LockingNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockingNode")
            .field("participant", &self.participant)
            .field("transactions", &self.transactions)
            .field("remote_transactions", &self.remote_transactions)
            .field("journal", &self.journal)
            .field("barrier", &self.barrier)
            .finish_non_exhaustive()
    }
}

impl LockingNode {
    /// A node with the partition that the topology gives it. `store` holds that partition's rows,
    /// `schema` describes all tables, and `programs` runs the row programs of effects.
    ///
    /// # Panics
    /// When the topology does not give the node exactly one partition.
    pub fn new(
        node: NodeId,
        topology: Arc<Topology>,
        schema: Arc<Schema>,
        store: Store,
        programs: Arc<dyn RowPrograms>,
        options: LockingOptions,
    ) -> LockingNode {
        LockingNode {
            own: topology.owned_by(node),
            topology,
            read_locks: options.read_locks,
            participant: Participant::new(node, schema, store, programs, options),
            transactions: FxHashMap::default(),
            remote_transactions: FxHashMap::default(),
            journal: None,
            barrier: None,
            counters: Counters::default(),
        }
    }

    /// The own partition's rows.
    pub fn store(&self) -> &Store {
        &self.participant.store
    }

    /// The own partition's rows, for loading. Rows that transactions have locked must not be changed.
    pub fn store_mut(&mut self) -> &mut Store {
        &mut self.participant.store
    }

    /// The store, without the node.
    pub fn into_store(self) -> Store {
        self.participant.store
    }

    /// Whether no transaction is known here: none runs, no lock is held, and no input is deferred by a
    /// recovery.
    pub fn is_idle(&self) -> bool {
        self.transactions.is_empty()
            && self.remote_transactions.is_empty()
            && self.barrier.is_none()
    }

    fn send(&mut self, to: PartitionId, message: Message, out: &mut Outbox<Message>) {
        self.send_to_node(self.topology.owner(to), message, out);
    }

    fn send_to_node(&mut self, to: NodeId, message: Message, out: &mut Outbox<Message>) {
        self.counters.messages += 1;
        out.messages.push((to, message));
    }

    fn handle_message(
        &mut self,
        now: Ticks,
        from: NodeId,
        message: Message,
        out: &mut Outbox<Message>,
    ) {
        let partition = self.topology.owned_by(from);
        match message {
            Message::Lock {
                transaction,
                reads,
                age,
                wait,
            } => {
                let owner = self.remote_owner(transaction, age);
                let progress =
                    self.participant
                        .lock(now, owner, reads, wait, true, &mut self.counters);
                self.send_progress(now, transaction, progress, out);
            }
            Message::Wound { transaction } => self.handle_wound(transaction, out),
            Message::Yield { transaction } => self.handle_yield(transaction, out),
            Message::Get { transaction, reads } => self.get(now, transaction, &reads, out),
            Message::Granted {
                transaction,
                rows,
                clock,
                provisional,
            } => {
                self.participant.clock.observe(clock);
                if provisional {
                    self.note_provisional(transaction, partition);
                }
                self.handle_granted(now, transaction, partition, rows, out);
            }
            Message::Got {
                transaction,
                rows,
                clock,
            } => {
                self.participant.clock.observe(clock);
                self.handle_granted(now, transaction, partition, rows, out);
            }
            Message::Refused {
                transaction,
                reason,
            } => {
                self.handle_refused(transaction, partition, reason, out);
            }
            Message::Prepare {
                transaction,
                effects,
            } => {
                self.prepare(now, transaction, effects, out);
            }
            Message::Prepared {
                transaction,
                slots,
                clock,
            } => {
                self.participant.clock.observe(clock);
                self.handle_prepared(now, transaction, partition, slots, out);
            }
            Message::Confirm { transaction } => {
                self.send_to_node(from, Message::Confirmed { transaction }, out);
            }
            Message::Confirmed { transaction } => {
                self.handle_prepared(now, transaction, partition, Slots::new(), out);
            }
            Message::Commit {
                transaction,
                timestamp,
            } => self.commit_prepared(now, transaction, timestamp, out),
            Message::Acknowledged { transaction } => self.handle_acknowledged(from, transaction),
            Message::Decide {
                transaction,
                effects,
                above,
            } => {
                self.decide(now, transaction, effects, above, out);
            }
            Message::Committed {
                transaction,
                timestamp,
                slots,
            } => {
                self.participant.clock.observe(timestamp);
                self.handle_committed(now, transaction, timestamp, slots, out);
            }
            Message::Release {
                transaction,
                committed,
            } => {
                if let Some(timestamp) = committed {
                    self.participant.clock.observe(timestamp);
                }
                self.forget(transaction);
            }
            Message::Inquire { transaction } => self.handle_inquire(from, transaction, out),
            Message::Returned { clock } => self.handle_returned(now, from, clock, out),
            Message::Noticed { clock } => self.handle_noticed(now, from, clock, out),
        }
    }

    /// Handles [`Message::Get`]: reads without locks. The participant keeps no state of the transaction.
    fn get(
        &mut self,
        now: Ticks,
        transaction: TransactionId,
        reads: &[Read],
        out: &mut Outbox<Message>,
    ) {
        let rows = self.participant.read_unlocked(reads);
        let clock = self.participant.tick(now);
        let got = Message::Got {
            transaction,
            rows,
            clock,
        };
        self.send_to_node(transaction.node, got, out);
    }

    /// Handles [`Message::Prepare`]: votes, as one of several writers.
    fn prepare(
        &mut self,
        now: Ticks,
        transaction: TransactionId,
        effects: Vec<Effect>,
        out: &mut Outbox<Message>,
    ) {
        let owner = self.remote_owner(transaction, None);
        match self.participant.stage(owner, effects, true) {
            Ok(slots) => {
                if self.keeps_records()
                    && let Some(record) = self.participant.prepared_record(owner)
                {
                    self.record(|| LockingRecord::Prepared(Box::new(record)));
                }
                let clock = self.participant.tick(now);
                let vote = Message::Prepared {
                    transaction,
                    slots,
                    clock,
                };
                self.send_to_node(transaction.node, vote, out);
            }
            Err(reason) => self.refuse(transaction, reason, out),
        }
    }

    /// Handles [`Message::Commit`]: installs the prepared effects.
    fn commit_prepared(
        &mut self,
        now: Ticks,
        transaction: TransactionId,
        timestamp: Timestamp,
        out: &mut Outbox<Message>,
    ) {
        match self.remote_transactions.remove(&transaction) {
            Some(owner) => {
                self.participant.install(now, owner, timestamp);
                self.participant.end(owner);
                self.record(|| LockingRecord::Committed {
                    transaction,
                    timestamp,
                });
            }
            // After a restart of one of the two nodes, the message was sent twice.
            None => assert!(self.keeps_records(), "{transaction:?} was not prepared"),
        }
        if self.keeps_records() {
            let acknowledged = Message::Acknowledged { transaction };
            self.send_to_node(transaction.node, acknowledged, out);
        }
    }

    /// Handles [`Message::Decide`]: commits if possible, as the last agent.
    fn decide(
        &mut self,
        now: Ticks,
        transaction: TransactionId,
        effects: Vec<Effect>,
        above: Timestamp,
        out: &mut Outbox<Message>,
    ) {
        let owner = self.remote_owner(transaction, None);
        match self.participant.stage(owner, effects, false) {
            Ok(slots) => {
                self.participant.clock.observe(above);
                let timestamp = self.participant.tick(now);
                self.participant.install(now, owner, timestamp);
                self.forget(transaction);
                let committed = Message::Committed {
                    transaction,
                    timestamp,
                    slots,
                };
                self.send_to_node(transaction.node, committed, out);
            }
            Err(reason) => self.refuse(transaction, reason, out),
        }
    }

    fn remote_owner(&mut self, transaction: TransactionId, age: Option<Age>) -> LockOwner {
        let participant = &mut self.participant;
        *self
            .remote_transactions
            .entry(transaction)
            .or_insert_with(|| participant.begin(transaction, age))
    }

    /// Releases all locks of another node's transaction and forgets it, unless it was refused before.
    fn forget(&mut self, transaction: TransactionId) {
        if let Some(owner) = self.remote_transactions.remove(&transaction) {
            if self.participant.is_prepared(owner) {
                self.record(|| LockingRecord::Aborted { transaction });
            }
            self.participant.end(owner);
        }
    }

    /// Forgets a transaction that has read here and whose short locks are released. Its coordinator does
    /// the same.
    fn forget_if_lockless(&mut self, transaction: TransactionId) {
        if self.read_locks != ReadLocks::Long
            && let Some(&owner) = self.remote_transactions.get(&transaction)
            && self.participant.holds_nothing(owner)
        {
            self.forget(transaction);
        }
    }

    fn refuse(
        &mut self,
        transaction: TransactionId,
        reason: AbortReason,
        out: &mut Outbox<Message>,
    ) {
        self.forget(transaction);
        self.send_to_node(
            transaction.node,
            Message::Refused {
                transaction,
                reason,
            },
            out,
        );
    }

    /// Sends the result of a lock request to another node's transaction.
    fn send_progress(
        &mut self,
        now: Ticks,
        transaction: TransactionId,
        progress: Progress,
        out: &mut Outbox<Message>,
    ) {
        match progress {
            Progress::Granted(rows) => {
                self.forget_if_lockless(transaction);
                let owner = self.remote_transactions.get(&transaction);
                let provisional = self.keeps_records()
                    && self.read_locks == ReadLocks::Long
                    && owner.is_some_and(|owner| self.participant.waits_by_age(*owner));
                let clock = self.participant.tick(now);
                self.send_to_node(
                    transaction.node,
                    Message::Granted {
                        transaction,
                        rows,
                        clock,
                        provisional,
                    },
                    out,
                );
            }
            Progress::Waiting => {}
            Progress::Conflict => self.refuse(transaction, AbortReason::Conflict, out),
        }
    }

    fn handle_input(&mut self, now: Ticks, input: Input<Message>, out: &mut Outbox<Message>) {
        match input {
            Input::Request {
                transaction,
                request,
            } => {
                self.handle_request(now, transaction, request, out);
            }
            Input::Message { from, message } => self.handle_message(now, from, message, out),
            Input::Restarted { node } => self.handle_restarted(now, node, out),
            Input::Timer(_) => {}
        }
    }

    /// Continues the lock requests that this step's releases have granted, and gives transactions the signals that
    /// waits of this step cause.
    fn resume_woken(&mut self, now: Ticks, out: &mut Outbox<Message>) {
        loop {
            if let Some((transaction, signal)) = self.participant.next_signal(false) {
                self.give_signal(transaction, signal, out);
                continue;
            }
            let Some((owner, transaction)) = self.participant.next_woken() else {
                return;
            };
            let progress = self.participant.resume(now, owner, &mut self.counters);
            if self.remote_transactions.contains_key(&transaction) {
                self.send_progress(now, transaction, progress, out);
                continue;
            }
            match progress {
                Progress::Granted(rows) => {
                    self.handle_granted(now, transaction, self.own, rows, out);
                }
                Progress::Waiting => {}
                Progress::Conflict => {
                    self.handle_refused(transaction, self.own, AbortReason::Conflict, out);
                }
            }
        }
    }
}

/// Waits by age: `docs/protocols/interactive.md`.
impl LockingNode {
    /// Gives a signal to a transaction's coordinator.
    fn give_signal(
        &mut self,
        transaction: TransactionId,
        signal: Signal,
        out: &mut Outbox<Message>,
    ) {
        let is_remote = self.remote_transactions.contains_key(&transaction);
        match (signal, is_remote) {
            (Signal::Wound, false) => self.handle_wound(transaction, out),
            (Signal::Yield, false) => self.handle_yield(transaction, out),
            (Signal::Wound, true) => {
                self.send_to_node(transaction.node, Message::Wound { transaction }, out);
            }
            (Signal::Yield, true) => {
                self.send_to_node(transaction.node, Message::Yield { transaction }, out);
            }
        }
    }

    /// INT-I7 and INT-I8 at the coordinator: a transaction that was given a signal at the own partition heeds it.
    fn check_signals(&self) -> Result<(), String> {
        for id in self.own_in_order() {
            let transaction = &self.transactions[&id];
            let signal = transaction
                .owner
                .and_then(|owner| self.participant.signal_of(owner));
            match signal {
                Some(Signal::Wound) if !transaction.is_committing() => {
                    return Err(format!("INT-I7: {id:?} is wounded and goes on"));
                }
                Some(Signal::Yield) if !transaction.is_committing() && !transaction.yields() => {
                    return Err(format!("INT-I8: {id:?} has to yield and does not know"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Protocol for LockingNode {
    type Message = Message;

    fn collect_versions(&mut self, now: Ticks, budget: usize) {
        self.participant.store.collect(now, budget);
    }

    fn step(&mut self, now: Ticks, input: Input<Message>, out: &mut Outbox<Message>) {
        if let Some(input) = self.defer_during_recovery(input) {
            self.handle_input(now, input, out);
        }
        self.resume_woken(now, out);
        self.close_step(out);
    }

    fn observe(&mut self, probe: ActivityProbe) {
        self.participant.probe = probe;
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn open_transactions(&self) -> OpenTransactions {
        self.participant.open_transactions()
    }

    fn check_invariants(&self) -> Result<(), String> {
        self.participant.check_invariants()?;
        self.check_records()?;
        self.check_signals()?;
        let mut known = 0;
        for (owner, id) in self.participant.transactions() {
            known += 1;
            let as_own = self
                .transactions
                .get(&id)
                .and_then(|transaction| transaction.owner);
            if self.remote_transactions.get(&id).copied().or(as_own) != Some(owner) {
                return Err(format!(
                    "LOCK-I4: {id:?} has ended and the participant still knows it"
                ));
            }
        }
        // tidy: order-free because they are counted
        let own = self
            .transactions
            .values()
            .filter(|transaction| transaction.owner.is_some());
        if known != self.remote_transactions.len() + own.count() {
            return Err("LOCK-I4: a transaction has not ended and its locks are gone".to_string());
        }
        Ok(())
    }
}
