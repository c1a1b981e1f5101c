//! Two-phase locking with two-phase commit: the coordination-intensive protocol that the others
//! are measured against (coordination-avoidance.txt §6.2).
//!
//! "Textbook two-phase locking", tuned as the paper's: lock requests are totally ordered across
//! servers so that nobody deadlocks, those for one server go in one message, and the reads and
//! writes that they are for go with them. Transactions are serializable; with
//! [`ReadLocks::Short`] or [`ReadLocks::None`], read committed: ramp.txt's LWLR, LWSR and LWNR (§5.1).
//!
//! * [`message`]: what nodes say to each other.
//! * `table`: the lock table, its order and its queues; `span`: what a range lock covers.
//! * `participant`: one partition's part in every transaction.
//! * `coordinator`: a transaction as its coordinator sees it.
//! * `durable`, [`record`]: what is made durable, and how a node comes back.
//!
//! The page `docs/protocols/locking.md` has the message table, the states, the numbered invariants
//! that [`LockingNode::check_invariants`] checks, and the arguments: why transactions are
//! serializable and why they never wait in a circle.
//!
//! What it deliberately does not do: it detects no deadlocks (there are none), and sets no timers.

mod coordinator;
mod durable;
pub mod message;
mod participant;
pub mod record;
mod span;
mod table;

use std::fmt;
use std::sync::Arc;

use anabranch_storage::Store;
use anabranch_types::{
    Access, ActivityProbe, Effect, NodeId, PartitionId, Read, RowPrograms, Schema, TableId, Ticks,
    Timestamp,
};
use rustc_hash::FxHashMap;

use crate::contract::{AbortReason, Counters, Input, Outbox, Protocol, Topology, TransactionId};
use crate::record::Journal;
use coordinator::Transaction;
use durable::Door;
pub use message::Message;
use participant::{Participant, Progress};
use record::LockingRecord;
use table::Owner;

/// For how long the locks of reads are held. What is read for writing, and what is read as a guard,
/// is held to the end under each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadLocks {
    /// To the end of the transaction: serializable.
    #[default]
    Long,
    /// Until the rows have been read: read committed, and what is read was the newest.
    Short,
    /// Not at all: read committed.
    None,
}

impl ReadLocks {
    /// Whether what such a read locks is held to the end of the transaction.
    fn keeps(self, access: Access) -> bool {
        self == ReadLocks::Long || access.for_write || access.guard
    }
}

/// How locking behaves.
#[derive(Clone, Debug, Default)]
pub struct LockingOptions {
    /// For how long the locks of reads are held.
    pub read_locks: ReadLocks,
    /// Tables that no transaction writes, such as those on every partition: read without locks.
    pub unlocked_tables: Vec<TableId>,
}

impl LockingOptions {
    fn is_unlocked(&self, table: TableId) -> bool {
        self.unlocked_tables.contains(&table)
    }
}

/// A node: coordinator of the transactions that run here, participant of the own partition.
///
/// Wants [`crate::Request::Declare`]: locks that are declared together are taken in their order,
/// and may be waited for; a lock that is asked for later out of order is had at once or not.
#[derive(Clone)]
pub struct LockingNode {
    own: PartitionId,
    topology: Arc<Topology>,
    read_locks: ReadLocks,
    participant: Participant,
    /// The transactions that this node coordinates and that have not ended.
    transactions: FxHashMap<TransactionId, Transaction>,
    /// The transactions of other coordinators that this partition knows of.
    guests: FxHashMap<TransactionId, Owner>,
    /// What has to be written down, in a node that keeps records.
    journal: Option<Box<Journal>>,
    /// There while the node, which has come back, is closed.
    door: Option<Door>,
    counters: Counters,
}

/// What a step may depend on: neither what is the same for ever nor what is only counted. So two
/// nodes that show the same go on alike; exhaustive exploration tells states apart by it.
impl fmt::Debug for LockingNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockingNode")
            .field("participant", &self.participant)
            .field("transactions", &self.transactions)
            .field("guests", &self.guests)
            .field("journal", &self.journal)
            .field("door", &self.door)
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
            guests: FxHashMap::default(),
            journal: None,
            door: None,
            counters: Counters::default(),
        }
    }

    /// The own partition's rows.
    pub fn store(&self) -> &Store {
        &self.participant.store
    }

    /// The own partition's rows, to load them. What transactions have locked must not be changed.
    pub fn store_mut(&mut self) -> &mut Store {
        &mut self.participant.store
    }

    /// Gives up the node for its partition's items.
    pub fn into_store(self) -> Store {
        self.participant.store
    }

    /// Whether no transaction is known here: none runs, no lock is held, and none is kept waiting
    /// since the node came back.
    pub fn is_idle(&self) -> bool {
        self.transactions.is_empty() && self.guests.is_empty() && self.door.is_none()
    }

    fn send(&mut self, to: PartitionId, message: Message, out: &mut Outbox<Message>) {
        self.say(self.topology.owner(to), message, out);
    }

    fn say(&mut self, to: NodeId, message: Message, out: &mut Outbox<Message>) {
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
                wait,
            } => {
                let owner = self.guest(transaction);
                let progress =
                    self.participant
                        .lock(now, owner, reads, wait, true, &mut self.counters);
                self.report(now, transaction, progress, out);
            }
            Message::Get { transaction, reads } => self.get(now, transaction, &reads, out),
            Message::Granted {
                transaction,
                rows,
                clock,
            }
            | Message::Got {
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

    /// Reads without locks; nothing of the transaction is known here afterwards.
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
        self.say(transaction.node, got, out);
    }

    /// Votes, as one of several writers.
    fn prepare(
        &mut self,
        now: Ticks,
        transaction: TransactionId,
        effects: Vec<Effect>,
        out: &mut Outbox<Message>,
    ) {
        let owner = self.guest(transaction);
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
                self.say(transaction.node, vote, out);
            }
            Err(reason) => self.refuse(transaction, reason, out),
        }
    }

    /// Installs what was prepared: it is decided.
    fn commit_prepared(
        &mut self,
        now: Ticks,
        transaction: TransactionId,
        timestamp: Timestamp,
        out: &mut Outbox<Message>,
    ) {
        match self.guests.remove(&transaction) {
            Some(owner) => {
                self.participant.install(now, owner, timestamp);
                self.participant.end(owner);
                self.record(|| LockingRecord::Committed {
                    transaction,
                    timestamp,
                });
            }
            // One of the two nodes had come back, and it was said twice.
            None => assert!(self.keeps_records(), "{transaction:?} was not prepared"),
        }
        if self.keeps_records() {
            let acknowledged = Message::Acknowledged { transaction };
            self.say(transaction.node, acknowledged, out);
        }
    }

    /// Commits if it can, as the only remote writer: the coordinator has left it to decide.
    fn decide(
        &mut self,
        now: Ticks,
        transaction: TransactionId,
        effects: Vec<Effect>,
        above: Timestamp,
        out: &mut Outbox<Message>,
    ) {
        let owner = self.guest(transaction);
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
                self.say(transaction.node, committed, out);
            }
            Err(reason) => self.refuse(transaction, reason, out),
        }
    }

    fn guest(&mut self, transaction: TransactionId) -> Owner {
        let participant = &mut self.participant;
        *self
            .guests
            .entry(transaction)
            .or_insert_with(|| participant.begin(transaction))
    }

    /// Releases what another node's transaction holds here. It may have been refused already.
    fn forget(&mut self, transaction: TransactionId) {
        if let Some(owner) = self.guests.remove(&transaction) {
            if self.participant.is_prepared(owner) {
                self.record(|| LockingRecord::Aborted { transaction });
            }
            self.participant.end(owner);
        }
    }

    /// Forgets a transaction whose locks here were short and are released: it has read, and holds
    /// nothing. Its coordinator does the same.
    fn forget_passing(&mut self, transaction: TransactionId) {
        if self.read_locks != ReadLocks::Long
            && let Some(&owner) = self.guests.get(&transaction)
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
        self.say(
            transaction.node,
            Message::Refused {
                transaction,
                reason,
            },
            out,
        );
    }

    /// Tells another node's transaction how far its request for locks has come.
    fn report(
        &mut self,
        now: Ticks,
        transaction: TransactionId,
        progress: Progress,
        out: &mut Outbox<Message>,
    ) {
        match progress {
            Progress::Granted(rows) => {
                self.forget_passing(transaction);
                let clock = self.participant.tick(now);
                self.say(
                    transaction.node,
                    Message::Granted {
                        transaction,
                        rows,
                        clock,
                    },
                    out,
                );
            }
            Progress::Waiting => {}
            Progress::Conflict => self.refuse(transaction, AbortReason::Conflict, out),
        }
    }

    fn take_in(&mut self, now: Ticks, input: Input<Message>, out: &mut Outbox<Message>) {
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

    /// Goes on with the requests that this step's releases have let in.
    fn resume_woken(&mut self, now: Ticks, out: &mut Outbox<Message>) {
        while let Some((owner, transaction)) = self.participant.next_woken() {
            let progress = self.participant.resume(now, owner, &mut self.counters);
            if self.guests.contains_key(&transaction) {
                self.report(now, transaction, progress, out);
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

impl Protocol for LockingNode {
    type Message = Message;

    fn step(&mut self, now: Ticks, input: Input<Message>, out: &mut Outbox<Message>) {
        if let Some(input) = self.postpone(input) {
            self.take_in(now, input, out);
        }
        self.resume_woken(now, out);
        self.write_down(out);
    }

    fn observe(&mut self, probe: ActivityProbe) {
        self.participant.probe = probe;
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn check_invariants(&self) -> Result<(), String> {
        self.participant.check_invariants()?;
        self.check_records()?;
        let mut known = 0;
        for (owner, id) in self.participant.transactions() {
            known += 1;
            let as_own = self
                .transactions
                .get(&id)
                .and_then(|transaction| transaction.owner);
            if self.guests.get(&id).copied().or(as_own) != Some(owner) {
                return Err(format!("LOCK-I4: {id:?} has ended and is still known"));
            }
        }
        // tidy: order-free because they are counted
        let own = self
            .transactions
            .values()
            .filter(|transaction| transaction.owner.is_some());
        if known != self.guests.len() + own.count() {
            return Err("LOCK-I4: a living transaction has lost its locks".to_string());
        }
        Ok(())
    }
}
