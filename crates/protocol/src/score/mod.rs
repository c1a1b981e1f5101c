//! SCORe: transactions over partitions that read from a snapshot without locks, and validate at commit; with Bumper's
//! time-warping, what has read stale rows commits at its snapshot where that is right (bumper.txt §IV).
//!
//! Every snapshot and every commit has a position in one serial order: a timestamp. A transaction that only reads never
//! aborts for a conflict, and sends nothing when it commits. One that writes locks what it has read and writes when it
//! asks to commit, and is decided by two-phase commit among the partitions that it has accessed and no others.
//!
//! * [`message`]: messages between nodes.
//! * `participant`: a partition's side: reads of snapshots, votes. [`locks`](crate::locks): its locks and rows.
//! * `read_stamps`: who has read what, for time-warping.
//! * `coordinator`: a transaction's state at its coordinator.
//! * `durable`, [`record`]: log records and recovery.
//!
//! The page `docs/protocols/score.md` has the algorithm, the states, the numbered invariants, why they hold, and where this
//! departs from the paper.

mod coordinator;
mod durable;
pub mod message;
mod participant;
mod read_stamps;
pub mod record;

use std::fmt;
use std::sync::Arc;

use anabranch_storage::Store;
use anabranch_types::{
    ActivityProbe, NodeId, PartitionId, RowPrograms, Schema, TableId, Ticks, Timestamp,
};
use rustc_hash::FxHashMap;

use crate::contract::{Counters, Input, Outbox, Protocol, Topology, TransactionId};
use crate::locks::{LockingOptions, Participant, ReadLocks};
use crate::record::{Journal, Record};
use coordinator::{Stage, Transaction};
pub use message::Message;
use participant::{BlockedRead, Guest};
use read_stamps::ReadStamps;
use record::ScoreRecord;

/// Options of SCORe.
#[derive(Clone, Debug, Default)]
pub struct ScoreOptions {
    /// Whether transactions that have read stale rows may commit at their snapshot (Bumper's time-warping). Otherwise they
    /// are aborted.
    pub time_warping: bool,
    /// Tables that no transaction writes, such as replicated ones: reads of them are not validated.
    pub unlocked_tables: Vec<TableId>,
}

/// A node: coordinator of the transactions that run here, participant of the own partition.
#[derive(Clone)]
pub struct ScoreNode {
    own: PartitionId,
    topology: Arc<Topology>,
    options: ScoreOptions,
    participant: Participant,
    /// Present with time-warping.
    stamps: Option<ReadStamps>,
    /// No snapshot below it is read here: versions that it needs may have been lost with a former incarnation.
    read_floor: Timestamp,
    /// The transactions that this node coordinates and that have not ended.
    transactions: FxHashMap<TransactionId, Transaction>,
    /// The transactions that want to commit and that this partition is a participant of.
    guests: FxHashMap<TransactionId, Guest>,
    /// The number of guests that this participant has voted on.
    voted: usize,
    /// Reads that wait for decisions, in the order of arrival.
    blocked: Vec<BlockedRead>,
    /// Whether this step has released locks, so that blocked reads may go on.
    released: bool,
    /// The records of the current step; `None` if the node keeps no log.
    journal: Option<Box<Journal>>,
    counters: Counters,
    /// The transactions that this node has committed at their snapshot, in this incarnation.
    warped: u64,
}

/// The state that a step may depend on, without constants and counters. Two nodes with equal output behave alike;
/// exhaustive exploration tells states apart by it.
impl fmt::Debug for ScoreNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScoreNode")
            .field("participant", &self.participant)
            .field("stamps", &self.stamps)
            .field("read_floor", &self.read_floor)
            .field("transactions", &self.transactions)
            .field("guests", &self.guests)
            .field("blocked", &self.blocked)
            .field("journal", &self.journal)
            .finish_non_exhaustive()
    }
}

/// The position of a transaction that commits at its snapshot. Clocks issue even logical times alone, so no other
/// transaction has it. Positions of other nodes may lie between: what has changed at one of these is too close.
fn just_after(snapshot: Timestamp) -> Timestamp {
    Timestamp::new(snapshot.logical() + 1, snapshot.node())
}

impl ScoreNode {
    /// A node with the partition that the topology gives it. `store` holds that partition's rows, `schema` describes all
    /// tables, and `programs` runs the row programs of effects.
    ///
    /// # Panics
    /// When the topology does not give the node exactly one partition.
    pub fn new(
        node: NodeId,
        topology: Arc<Topology>,
        schema: Arc<Schema>,
        store: Store,
        programs: Arc<dyn RowPrograms>,
        options: ScoreOptions,
    ) -> ScoreNode {
        let stamps = options
            .time_warping
            .then(|| ReadStamps::new(schema.tables.len()));
        let locking = LockingOptions {
            read_locks: ReadLocks::Long,
            unlocked_tables: options.unlocked_tables.clone(),
        };
        let mut participant = Participant::new(node, schema, store, programs, locking);
        participant.keep_history();
        ScoreNode {
            own: topology.owned_by(node),
            topology,
            options,
            participant,
            stamps,
            read_floor: Timestamp::ZERO,
            transactions: FxHashMap::default(),
            guests: FxHashMap::default(),
            voted: 0,
            blocked: Vec::new(),
            released: false,
            journal: None,
            counters: Counters::default(),
            warped: 0,
        }
    }

    /// The transactions of this node that have committed at their snapshot, since they had read stale rows.
    pub fn warped(&self) -> u64 {
        self.warped
    }

    /// The own partition's rows.
    pub fn store(&self) -> &Store {
        &self.participant.store
    }

    /// The own partition's rows, for loading. They must not be changed while transactions run.
    pub fn store_mut(&mut self) -> &mut Store {
        &mut self.participant.store
    }

    /// The store, without the node.
    pub fn into_store(self) -> Store {
        self.participant.store
    }

    /// Whether no transaction is known here: none runs, none holds a lock, and no read waits.
    pub fn is_idle(&self) -> bool {
        self.transactions.is_empty() && self.guests.is_empty() && self.blocked.is_empty()
    }

    fn node(&self) -> NodeId {
        self.topology.owner(self.own)
    }

    /// A new timestamp above all seen here: even.
    fn draw(&mut self, now: Ticks) -> Timestamp {
        let drawn = self.participant.tick(now);
        match drawn.logical() % 2 {
            0 => drawn,
            _ => self.participant.tick(now),
        }
    }

    fn send(&mut self, to: PartitionId, message: Message, out: &mut Outbox<Message>) {
        self.send_to_node(self.topology.owner(to), message, out);
    }

    fn send_to_node(&mut self, to: NodeId, message: Message, out: &mut Outbox<Message>) {
        self.counters.messages += 1;
        out.messages.push((to, message));
    }

    fn keeps_records(&self) -> bool {
        self.journal.is_some()
    }

    /// Adds a record, if the node keeps a log.
    fn record(&mut self, record: impl FnOnce() -> ScoreRecord) {
        if let Some(journal) = &mut self.journal {
            journal.write(Record::Score(record()));
        }
    }

    /// Drops the reads of a transaction that wait here.
    fn drop_blocked(&mut self, id: TransactionId) {
        self.blocked.retain(|read| read.transaction() != id);
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
            Message::Read {
                transaction,
                snapshot,
                is_first,
                reads,
            } => self.read_here(now, transaction, (snapshot, is_first), reads, out),
            Message::Fetched {
                transaction,
                snapshot,
                rows,
            } => {
                self.participant.clock.observe(snapshot);
                self.handle_fetched(transaction, partition, snapshot, rows, out);
            }
            Message::Refused {
                transaction,
                reason,
                clock,
            } => {
                self.participant.clock.observe(clock);
                self.handle_refused(transaction, partition, reason, out);
            }
            Message::Prepare(preparation) => self.prepare_here(now, *preparation, out),
            Message::Voted { transaction, vote } => {
                self.handle_voted(now, transaction, partition, vote, out);
            }
            Message::Commit {
                transaction,
                commit,
            } => self.handle_commit(now, transaction, commit, out),
            Message::Acknowledged { transaction } => self.handle_acknowledged(from, transaction),
            Message::Release { transaction } => self.handle_release(transaction),
            Message::Wound { transaction } => self.handle_wound(transaction, out),
            Message::Inquire { transaction } => self.handle_inquire(from, transaction, out),
        }
    }
}

impl Protocol for ScoreNode {
    type Message = Message;

    fn collect_versions(&mut self, now: Ticks, budget: usize) {
        self.participant.store.collect(now, budget);
    }

    fn step(&mut self, now: Ticks, input: Input<Message>, out: &mut Outbox<Message>) {
        match input {
            Input::Request {
                transaction,
                request,
            } => self.handle_request(now, transaction, request, out),
            Input::Message { from, message } => self.handle_message(now, from, message, out),
            Input::Restarted { node } => self.handle_restarted(node, out),
            Input::Timer(_) => {}
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

    fn check_invariants(&self) -> Result<(), String> {
        self.participant.check_invariants()?;
        self.check_records()?;
        let voted = self
            .guests_of(None)
            .into_iter()
            .filter(|id| self.guests[id].has_voted());
        if voted.count() != self.voted {
            return Err("SCORE-I4: the votes are miscounted".to_owned());
        }
        let mut known = 0;
        for (owner, id) in self.participant.transactions() {
            known += 1;
            if self.guests.get(&id).map(|guest| guest.owner) != Some(owner) {
                return Err(format!("SCORE-I4: {id:?} has ended and still holds locks"));
            }
        }
        if known != self.guests.len() {
            return Err("SCORE-I4: a transaction has not ended and its locks are gone".to_owned());
        }
        self.check_own_guests()
    }
}

impl ScoreNode {
    /// SCORE-I4: what holds locks here for this node's own transactions is a transaction that wants to commit.
    fn check_own_guests(&self) -> Result<(), String> {
        let own = self.guests_of(Some(self.node()));
        let is_voting = |id: &TransactionId| {
            let known = self.transactions.get(id);
            known.is_some_and(|known| matches!(known.stage, Stage::Voting(_)))
        };
        match own.into_iter().find(|id| !is_voting(id)) {
            Some(id) => Err(format!("SCORE-I4: {id:?} holds locks and is not voted on")),
            None => Ok(()),
        }
    }
}
