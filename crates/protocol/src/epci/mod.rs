//! E-PCI: read atomic isolation by checks with each writer's coordinator (ramp.txt §5.1, after Eiger's
//! 2PC-PCI), the comparable approach that RAMP is measured against.
//!
//! A reader reads as of one timestamp, which its coordinator chooses. Writers prepare and then commit.
//! A pending transaction may commit at or below the reader's timestamp. Then the owner of the item
//! sends a *commit check* to that transaction's coordinator, an indirection that RAMP does not need.
//! Readers and writers do not wait for each other: the coordinator answers at once, and commits above
//! the reader's timestamp if it has not committed yet.
//!
//! * [`message`]: messages between nodes.
//! * `owner`: the owner of a partition: pending transactions, and reads as of a timestamp.
//! * this module: a node, and the transactions that it coordinates.
//!
//! `docs/protocols/baselines.md` has the message table, the numbered invariants and why they hold, and
//! the departures from the paper.
//!
//! Not supported: transactions with guards, and effects whose outputs are needed, are refused (SQLSTATE
//! `0A000`); nodes keep no log.

pub mod message;
mod owner;

use std::fmt;
use std::sync::Arc;

use anabranch_storage::Store;
use anabranch_types::{
    ActivityProbe, Effect, EffectError, Fetched, HybridClock, NodeId, PartitionId, Read,
    RowPrograms, Ticks, Timestamp,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    AbortReason, Counters, Durable, Input, NoRecords, Outbox, PartitionEffects, PartitionRead,
    Protocol, Record, ReplayError, Reply, Request, Session, Topology, TransactionId,
};
pub use message::Message;
use owner::{Context, Event, Owner};

/// A transaction's state at its coordinator.
#[derive(Clone, Debug)]
struct Attempt {
    /// Its read timestamp, once it has read.
    at: Option<Timestamp>,
    stage: AttemptStage,
}

/// A transaction's stage at its coordinator.
#[derive(Clone, Debug)]
enum AttemptStage {
    /// No request is open.
    Idle,
    /// Owners read: the answers so far.
    Reading(Vec<(PartitionId, Option<Vec<Fetched>>)>),
    /// The only participant commits.
    Alone,
    /// The participants vote.
    Preparing {
        /// The participants, without the own partition.
        others: SmallVec<[PartitionId; 4]>,
        /// Whether it is prepared on the own partition.
        has_own: bool,
        /// The number of participants that have not voted.
        awaited: usize,
    },
}

/// A node: the owner of one partition, and the coordinator of the transactions that run at it.
#[derive(Clone)]
pub struct EPciNode {
    partition: PartitionId,
    topology: Arc<Topology>,
    context: Context,
    owner: Owner,
    attempts: FxHashMap<TransactionId, Attempt>,
    counters: Counters,
}

/// The state that a step may depend on: see [`crate::ramp::RampNode`].
impl fmt::Debug for EPciNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EPciNode")
            .field("clock", &self.context.clock)
            .field("owner", &self.owner)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}

impl EPciNode {
    /// A node that owns the partition whose items `store` holds. The store's window limits how long a
    /// transaction may read.
    ///
    /// # Panics
    /// When the topology does not give the node exactly one partition.
    pub fn new(
        node: NodeId,
        topology: Arc<Topology>,
        store: Store,
        programs: Arc<dyn RowPrograms>,
    ) -> EPciNode {
        EPciNode {
            partition: topology.owned_by(node),
            topology,
            context: Context {
                node,
                now: Ticks(0),
                clock: HybridClock::new(node),
                probe: ActivityProbe::default(),
            },
            owner: Owner::new(store, programs),
            attempts: FxHashMap::default(),
            counters: Counters::default(),
        }
    }

    /// The partition's items.
    pub fn store(&self) -> &Store {
        &self.owner.store
    }

    /// The partition's items, for loading. They must not be written while transactions run.
    pub fn store_mut(&mut self) -> &mut Store {
        &mut self.owner.store
    }

    /// The store, without the node.
    pub fn into_store(self) -> Store {
        self.owner.store
    }

    /// Whether no transaction runs or is pending here and no read waits.
    pub fn is_idle(&self) -> bool {
        self.attempts.is_empty() && self.owner.is_idle()
    }

    fn send(&mut self, to: PartitionId, message: Message, out: &mut Outbox<Message>) {
        self.send_to_node(self.topology.owner(to), message, out);
    }

    fn send_to_node(&mut self, to: NodeId, message: Message, out: &mut Outbox<Message>) {
        self.counters.messages += 1;
        out.messages.push((to, message));
    }

    fn tick(&mut self) -> Timestamp {
        self.context.clock.next(self.context.now)
    }
}

/// The transactions that run here.
impl EPciNode {
    fn handle_request(&mut self, id: TransactionId, request: Request, out: &mut Outbox<Message>) {
        let attempt = self.attempts.remove(&id);
        let attempt = attempt.unwrap_or(Attempt {
            at: None,
            stage: AttemptStage::Idle,
        });
        match request {
            Request::Follow(_) | Request::WaitByAge(_) | Request::Global => {
                self.attempts.insert(id, attempt);
            }
            Request::Declare(_) => {
                self.attempts.insert(id, attempt);
                out.replies.push((id, Reply::Declared));
            }
            Request::Read(reads) => self.read(id, attempt, reads, out),
            Request::Commit(effects) => self.commit(id, attempt, effects, out),
            Request::CommitReads => self.commit(id, attempt, Vec::new(), out),
            // Its reads leave no state at their owners once they are answered.
            Request::Abort => self.counters.aborts += 1,
        }
    }

    fn read(
        &mut self,
        id: TransactionId,
        mut attempt: Attempt,
        reads: Vec<PartitionRead>,
        out: &mut Outbox<Message>,
    ) {
        if reads.iter().any(|read| read.access.guard) {
            return self.abort(id, unsupported("read a guard"), out);
        }
        let at = match attempt.at {
            Some(at) => at,
            None => self.tick(),
        };
        attempt.at = Some(at);
        let mut by_partition: Vec<(PartitionId, Vec<Read>)> = Vec::new();
        for read in reads {
            match by_partition.last_mut() {
                Some((partition, reads)) if *partition == read.partition => reads.push(read.read),
                _ => by_partition.push((read.partition, vec![read.read])),
            }
        }
        let awaited = by_partition.iter().map(|(partition, _)| (*partition, None));
        attempt.stage = AttemptStage::Reading(awaited.collect());
        self.attempts.insert(id, attempt);
        for (partition, reads) in by_partition {
            if partition == self.partition {
                self.owner.read(&mut self.context, id, at, reads);
                continue;
            }
            let get = Message::Get {
                transaction: id,
                at,
                reads,
            };
            self.send(partition, get, out);
        }
        self.deliver(id, out);
    }

    /// Handles an owner's answer to a read.
    fn handle_got(
        &mut self,
        id: TransactionId,
        partition: PartitionId,
        result: Result<Vec<Fetched>, AbortReason>,
        out: &mut Outbox<Message>,
    ) {
        let Some(Attempt {
            stage: AttemptStage::Reading(parts),
            ..
        }) = self.attempts.get_mut(&id)
        else {
            return; // It was aborted meanwhile.
        };
        match result {
            Ok(fetched) => {
                let part = parts.iter_mut().find(|(of, _)| *of == partition);
                part.expect("an answer comes from an owner that was asked")
                    .1 = Some(fetched);
                self.deliver(id, out);
            }
            Err(reason) => {
                self.attempts.remove(&id);
                self.abort(id, reason, out);
            }
        }
    }

    /// Replies to a read when all owners have answered.
    fn deliver(&mut self, id: TransactionId, out: &mut Outbox<Message>) {
        let Some(attempt) = self.attempts.get_mut(&id) else {
            return;
        };
        let AttemptStage::Reading(parts) = &mut attempt.stage else {
            return;
        };
        if parts.iter().all(|(_, fetched)| fetched.is_some()) {
            let fetched = parts.drain(..).filter_map(|(_, fetched)| fetched);
            let reply = Reply::Fetched(fetched.flatten().collect());
            attempt.stage = AttemptStage::Idle;
            out.replies.push((id, reply));
        }
    }

    fn commit(
        &mut self,
        id: TransactionId,
        attempt: Attempt,
        mut effects: Vec<PartitionEffects>,
        out: &mut Outbox<Message>,
    ) {
        effects.retain(|part| !part.effects.is_empty());
        if let Some(what) = effects.iter().find_map(cannot) {
            return self.abort(id, unsupported(what), out);
        }
        let only = match &effects[..] {
            [] => {
                let timestamp = self.tick();
                return self.committed(id, timestamp, out);
            }
            [only] => Some(only.partition),
            _ => None,
        };
        match only {
            Some(own) if own == self.partition => {
                let above = self.tick();
                let effects = effects.swap_remove(0).effects;
                let context = &mut self.context;
                match self.owner.commit_alone(context, id, effects, above) {
                    Ok(timestamp) => self.committed(id, timestamp, out),
                    Err(reason) => self.abort(id, reason, out),
                }
            }
            Some(other) => {
                let commit = Message::CommitAlone {
                    transaction: id,
                    effects: effects.swap_remove(0).effects,
                    above: self.tick(),
                };
                let stage = AttemptStage::Alone;
                self.attempts.insert(id, Attempt { stage, ..attempt });
                self.send(other, commit, out);
            }
            None => self.prepare(id, attempt, effects, out),
        }
    }

    fn prepare(
        &mut self,
        id: TransactionId,
        attempt: Attempt,
        effects: Vec<PartitionEffects>,
        out: &mut Outbox<Message>,
    ) {
        let (mut own, mut elsewhere) = (None, Vec::new());
        for part in effects {
            if part.partition == self.partition {
                own = Some(part.effects);
            } else {
                elsewhere.push(part);
            }
        }
        let has_own = own.is_some();
        if let Some(effects) = own
            && let Err(reason) = self.owner.prepare(&mut self.context, id, effects)
        {
            return self.abort(id, reason, out);
        }
        let stage = AttemptStage::Preparing {
            others: elsewhere.iter().map(|part| part.partition).collect(),
            has_own,
            awaited: elsewhere.len(),
        };
        self.attempts.insert(id, Attempt { stage, ..attempt });
        for PartitionEffects {
            partition, effects, ..
        } in elsewhere
        {
            let prepare = Message::Prepare {
                transaction: id,
                effects,
            };
            self.send(partition, prepare, out);
        }
    }

    fn handle_vote(
        &mut self,
        id: TransactionId,
        vote: Result<Timestamp, AbortReason>,
        out: &mut Outbox<Message>,
    ) {
        let Some(Attempt {
            stage:
                AttemptStage::Preparing {
                    others,
                    has_own,
                    awaited,
                },
            ..
        }) = self.attempts.get_mut(&id)
        else {
            return; // Another participant has refused it.
        };
        let (others, has_own) = (others.clone(), *has_own);
        match vote {
            Ok(above) => {
                self.context.clock.observe(above);
                *awaited -= 1;
                if *awaited == 0 {
                    self.decide(id, &others, has_own, out);
                }
            }
            Err(reason) => {
                self.attempts.remove(&id);
                for partition in others {
                    self.send(partition, Message::Abort { transaction: id }, out);
                }
                if has_own {
                    self.owner.abort(&mut self.context, id);
                }
                self.abort(id, reason, out);
            }
        }
    }

    /// Commits a transaction that all participants have voted for. Its timestamp is above all votes and
    /// above every reader's that a commit check has reported.
    fn decide(
        &mut self,
        id: TransactionId,
        others: &[PartitionId],
        has_own: bool,
        out: &mut Outbox<Message>,
    ) {
        self.attempts.remove(&id);
        let timestamp = self.tick();
        for &partition in others {
            let commit = Message::Commit {
                transaction: id,
                timestamp,
            };
            self.send(partition, commit, out);
        }
        if has_own {
            self.owner.commit(&mut self.context, id, timestamp);
        }
        self.committed(id, timestamp, out);
    }

    fn committed(&mut self, id: TransactionId, timestamp: Timestamp, out: &mut Outbox<Message>) {
        self.counters.commits += 1;
        let slots = Vec::new();
        let reply = Reply::Committed {
            timestamp,
            slots,
            session: Session::default(),
        };
        out.replies.push((id, reply));
    }

    fn abort(&mut self, id: TransactionId, reason: AbortReason, out: &mut Outbox<Message>) {
        self.counters.aborts += 1;
        out.replies.push((id, Reply::Aborted(reason)));
    }
}

/// Why a transaction cannot run under E-PCI.
fn unsupported(what: &str) -> AbortReason {
    AbortReason::Failed(EffectError::new(
        "0A000",
        format!(
            "e-pci cannot {what}: it orders writers at commit and takes no locks; use \
             ramp-fast, ramp-small, ramp-hybrid or locking"
        ),
    ))
}

/// The part of these effects that E-PCI cannot do, if any.
fn cannot(part: &PartitionEffects) -> Option<&'static str> {
    if !part.guards.is_empty() {
        return Some("write a guard");
    }
    part.effects.iter().find_map(|effect| match effect {
        Effect::Update {
            outputs: Some(_), ..
        } => Some("return what a deferred effect produced"),
        Effect::Insert { patches, .. } if !patches.is_empty() => {
            Some("insert a row whose key or value is drawn at commit")
        }
        _ => None,
    })
}

/// Messages.
impl EPciNode {
    fn handle_message(&mut self, from: NodeId, message: Message, out: &mut Outbox<Message>) {
        match message {
            Message::Get {
                transaction,
                at,
                reads,
            } => self.owner.read(&mut self.context, transaction, at, reads),
            Message::Got {
                transaction,
                result,
                clock,
            } => {
                self.context.clock.observe(clock);
                let partition = self.topology.owned_by(from);
                self.handle_got(transaction, partition, result, out);
            }
            Message::Prepare {
                transaction,
                effects,
            } => {
                let vote = self.owner.prepare(&mut self.context, transaction, effects);
                self.send_to_node(from, Message::Vote { transaction, vote }, out);
            }
            Message::Vote { transaction, vote } => self.handle_vote(transaction, vote, out),
            Message::Commit {
                transaction,
                timestamp,
            } => self.owner.commit(&mut self.context, transaction, timestamp),
            Message::Abort { transaction } => self.owner.abort(&mut self.context, transaction),
            Message::CommitAlone {
                transaction,
                effects,
                above,
            } => {
                let context = &mut self.context;
                let result = self
                    .owner
                    .commit_alone(context, transaction, effects, above);
                let committed = Message::CommittedAlone {
                    transaction,
                    result,
                };
                self.send_to_node(from, committed, out);
            }
            Message::CommittedAlone {
                transaction,
                result,
            } => {
                if self.attempts.remove(&transaction).is_some() {
                    match result {
                        Ok(timestamp) => {
                            self.context.clock.observe(timestamp);
                            self.committed(transaction, timestamp, out);
                        }
                        Err(reason) => self.abort(transaction, reason, out),
                    }
                }
            }
            Message::Check { transaction, at } => {
                // Later decisions are above the reader's timestamp.
                self.context.clock.observe(at);
                self.send_to_node(from, Message::Checked { transaction, at }, out);
            }
            Message::Checked { transaction, at } => {
                self.owner.checked(&mut self.context, transaction, at);
            }
        }
    }

    /// Sends the messages that the owner's events require.
    fn drain(&mut self, out: &mut Outbox<Message>) {
        for event in std::mem::take(&mut self.owner.events) {
            match event {
                Event::Check { transaction, at } => {
                    self.counters.commit_checks += 1;
                    self.send_to_node(transaction.node, Message::Check { transaction, at }, out);
                }
                Event::Answer { reader, result } if reader.node == self.context.node => {
                    self.handle_got(reader, self.partition, result, out);
                }
                Event::Answer { reader, result } => {
                    let got = Message::Got {
                        transaction: reader,
                        result,
                        clock: self.tick(),
                    };
                    self.send_to_node(reader.node, got, out);
                }
            }
        }
        self.counters.second_rounds += std::mem::take(&mut self.owner.delayed);
    }
}

impl Protocol for EPciNode {
    type Message = Message;

    fn step(&mut self, now: Ticks, input: Input<Message>, out: &mut Outbox<Message>) {
        self.context.now = now;
        match input {
            Input::Request {
                transaction,
                request,
            } => self.handle_request(transaction, request, out),
            Input::Message { from, message } => self.handle_message(from, message, out),
            Input::Timer(_) | Input::Restarted { .. } => {}
        }
        self.drain(out);
    }

    fn observe(&mut self, probe: ActivityProbe) {
        self.context.probe = probe;
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn check_invariants(&self) -> Result<(), String> {
        self.owner.check_invariants()
    }
}

/// E-PCI nodes have no log.
impl Durable for EPciNode {
    fn keep_records(&mut self) -> Result<(), NoRecords> {
        Err(NoRecords { protocol: "e-pci" })
    }

    fn replay(&mut self, _: Record) -> Result<(), ReplayError> {
        Err(ReplayError("e-pci keeps no records".to_owned()))
    }

    fn recover(&mut self, _: Ticks, _: &mut Outbox<Message>) {}

    fn items(&self) -> &Store {
        &self.owner.store
    }

    fn items_mut(&mut self) -> &mut Store {
        &mut self.owner.store
    }

    fn checkpoint_state(&self, _: &mut dyn FnMut(Record)) {}
}
