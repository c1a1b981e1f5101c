//! No-write-no-read: no concurrency control at all (ramp.txt §5.1, NWNR), the upper bound.
//!
//! A read answers with the newest versions, a write is installed as it arrives, in one round. So
//! readers see fractures, and a transaction over several partitions that one of them refuses stays
//! installed on the others. Only what happens on one owner in one step is atomic: a transaction's
//! effects on one partition, deferred ids among them. Guards are ignored.
//!
//! It exists to be measured against, and as the self-test of the checkers: they must find its
//! fractures.

use std::fmt;
use std::sync::Arc;

use anabranch_storage::{Commit, SlotValues, Store};
use anabranch_types::{
    Activity, ActivityProbe, Effect, Fetched, HybridClock, NodeId, PartitionId, Read, RowPrograms,
};
use anabranch_types::{Ticks, Timestamp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    AbortReason, Counters, Durable, Input, NoRecords, Outbox, PartitionEffects, PartitionRead,
    Protocol, Record, ReplayError, Reply, Request, Session, Slots, Topology, TransactionId,
};

/// The messages.
#[derive(Clone, Debug)]
pub enum NwnrMessage {
    /// Coordinator to owner: read the newest versions.
    Get {
        /// The reading transaction.
        transaction: TransactionId,
        /// What to read.
        reads: Vec<Read>,
    },
    /// Owner to coordinator: the answer to Get, one a read, in order.
    Got {
        /// The reading transaction.
        transaction: TransactionId,
        /// The rows.
        fetched: Vec<Fetched>,
    },
    /// Coordinator to owner: install this.
    Write {
        /// The writing transaction.
        transaction: TransactionId,
        /// Its timestamp.
        timestamp: Timestamp,
        /// Its effects here.
        effects: Vec<Effect>,
    },
    /// Owner to coordinator: the answer to Write.
    Written {
        /// The writing transaction.
        transaction: TransactionId,
        /// The values of the deferred effects, or why nothing was installed here.
        result: Result<Slots, AbortReason>,
    },
}

/// What a transaction waits for.
#[derive(Clone, Debug)]
enum Waiting {
    /// Answers to reads, by partition.
    Reads {
        parts: Vec<(PartitionId, Vec<Fetched>)>,
        answers: usize,
    },
    /// Acknowledgements.
    Writes {
        timestamp: Timestamp,
        slots: Slots,
        refused: Option<AbortReason>,
        answers: usize,
    },
}

/// A node without concurrency control: the owner of one partition, and the coordinator of the
/// transactions that run at it.
#[derive(Clone)]
pub struct NwnrNode {
    partition: PartitionId,
    topology: Arc<Topology>,
    store: Store,
    programs: Arc<dyn RowPrograms>,
    clock: HybridClock,
    waiting: FxHashMap<TransactionId, Waiting>,
    counters: Counters,
    probe: ActivityProbe,
}

/// What a step may depend on: see [`crate::ramp::RampNode`].
impl fmt::Debug for NwnrNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NwnrNode")
            .field("store", &self.store)
            .field("clock", &self.clock)
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

impl NwnrNode {
    /// A node that owns the partition whose items `store` holds.
    ///
    /// # Panics
    /// When the topology does not give the node exactly one partition.
    pub fn new(
        node: NodeId,
        topology: Arc<Topology>,
        store: Store,
        programs: Arc<dyn RowPrograms>,
    ) -> NwnrNode {
        NwnrNode {
            partition: topology.owned_by(node),
            topology,
            store,
            programs,
            clock: HybridClock::new(node),
            waiting: FxHashMap::default(),
            counters: Counters::default(),
            probe: ActivityProbe::default(),
        }
    }

    /// The partition's items.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The partition's items, to load them. Not to be written while transactions run.
    pub fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }

    /// Gives up the node for its partition's items.
    pub fn into_store(self) -> Store {
        self.store
    }

    /// Whether no transaction waits for an answer here.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    fn send(&mut self, to: NodeId, message: NwnrMessage, out: &mut Outbox<NwnrMessage>) {
        self.counters.messages += 1;
        out.messages.push((to, message));
    }

    fn fetch<'r>(&self, reads: impl Iterator<Item = &'r Read>) -> Vec<Fetched> {
        let (mut fetched, mut touched) = (Vec::new(), SmallVec::new());
        let newest = || {
            self.store
                .fetch_all(reads, None, None, &mut fetched, &mut touched)
        };
        let found = self.probe.within(Activity::Storage, newest);
        found.expect("the newest versions are kept");
        fetched
    }

    fn read(
        &mut self,
        transaction: TransactionId,
        reads: Vec<PartitionRead>,
        out: &mut Outbox<NwnrMessage>,
    ) {
        if reads.iter().all(|read| read.partition == self.partition) {
            let fetched = self.fetch(reads.iter().map(|read| &read.read));
            out.replies.push((transaction, Reply::Fetched(fetched)));
            return;
        }
        let mut parts = Vec::new();
        let mut answers = 0;
        for part in reads.chunk_by(|left, right| left.partition == right.partition) {
            let partition = part[0].partition;
            let reads = part.iter().map(|read| &read.read);
            if partition == self.partition {
                parts.push((partition, self.fetch(reads)));
                continue;
            }
            parts.push((partition, Vec::new()));
            answers += 1;
            let get = NwnrMessage::Get {
                transaction,
                reads: reads.cloned().collect(),
            };
            self.send(self.topology.owner(partition), get, out);
        }
        self.waiting
            .insert(transaction, Waiting::Reads { parts, answers });
    }

    fn commit(
        &mut self,
        now: Ticks,
        transaction: TransactionId,
        effects: Vec<PartitionEffects>,
        out: &mut Outbox<NwnrMessage>,
    ) {
        let timestamp = self.clock.next(now);
        let mut slots = Slots::new();
        let mut elsewhere = Vec::new();
        for on in effects {
            if on.partition != self.partition {
                elsewhere.push(on);
                continue;
            }
            match self.install(now, timestamp, on.effects) {
                Ok(filled) => slots = filled,
                Err(reason) => return self.end(transaction, Err(reason), out),
            }
        }
        if elsewhere.is_empty() {
            return self.end(transaction, Ok((timestamp, slots)), out);
        }
        let answers = elsewhere.len();
        let writes = Waiting::Writes {
            timestamp,
            slots,
            refused: None,
            answers,
        };
        self.waiting.insert(transaction, writes);
        for on in elsewhere {
            let write = NwnrMessage::Write {
                transaction,
                timestamp,
                effects: on.effects,
            };
            self.send(self.topology.owner(on.partition), write, out);
        }
    }

    fn install(
        &mut self,
        now: Ticks,
        timestamp: Timestamp,
        effects: Vec<Effect>,
    ) -> Result<Slots, AbortReason> {
        self.clock.observe(timestamp);
        let budget = effects.len() + 1;
        let mut slots = SlotValues::default();
        let commit = Commit { timestamp, effects };
        // Reads take the newest versions. An effect that comes out of order may win a register here
        // that it would lose elsewhere; this protocol promises no order.
        self.store.discard_history(Timestamp::MAX);
        let applied = self.probe.within(Activity::Storage, || {
            let applied = self.store.apply(now, commit, &mut slots, &*self.programs);
            self.store.collect(now, budget);
            applied
        });
        applied?;
        Ok(slots.into_vec())
    }

    fn end(
        &mut self,
        transaction: TransactionId,
        result: Result<(Timestamp, Slots), AbortReason>,
        out: &mut Outbox<NwnrMessage>,
    ) {
        let reply = match result {
            Ok((timestamp, slots)) => {
                self.counters.commits += 1;
                Reply::Committed {
                    timestamp,
                    slots,
                    session: Session::default(),
                }
            }
            Err(reason) => {
                self.counters.aborts += 1;
                Reply::Aborted(reason)
            }
        };
        out.replies.push((transaction, reply));
    }

    fn handle_got(
        &mut self,
        transaction: TransactionId,
        from: NodeId,
        fetched: Vec<Fetched>,
        out: &mut Outbox<NwnrMessage>,
    ) {
        let Some(Waiting::Reads { parts, answers }) = self.waiting.get_mut(&transaction) else {
            return; // given up meanwhile
        };
        let owner = |partition| self.topology.owner(partition);
        let part = parts
            .iter_mut()
            .find(|(partition, _)| owner(*partition) == from);
        part.expect("only owners that were asked answer").1 = fetched;
        *answers -= 1;
        if *answers == 0
            && let Some(Waiting::Reads { parts, .. }) = self.waiting.remove(&transaction)
        {
            let fetched = parts.into_iter().flat_map(|(_, fetched)| fetched).collect();
            out.replies.push((transaction, Reply::Fetched(fetched)));
        }
    }

    fn handle_written(
        &mut self,
        transaction: TransactionId,
        result: Result<Slots, AbortReason>,
        out: &mut Outbox<NwnrMessage>,
    ) {
        let Some(Waiting::Writes {
            slots,
            refused,
            answers,
            ..
        }) = self.waiting.get_mut(&transaction)
        else {
            return;
        };
        match result {
            Ok(filled) => slots.extend(filled),
            Err(reason) => *refused = Some(reason),
        }
        *answers -= 1;
        if *answers == 0
            && let Some(Waiting::Writes {
                timestamp,
                slots,
                refused,
                ..
            }) = self.waiting.remove(&transaction)
        {
            self.end(
                transaction,
                refused.map_or(Ok((timestamp, slots)), Err),
                out,
            );
        }
    }
}

impl Protocol for NwnrNode {
    type Message = NwnrMessage;

    fn step(&mut self, now: Ticks, input: Input<NwnrMessage>, out: &mut Outbox<NwnrMessage>) {
        match input {
            Input::Request {
                transaction,
                request,
            } => match request {
                Request::Follow(_) | Request::WaitByAge(_) | Request::Global => {}
                Request::Declare(_) => out.replies.push((transaction, Reply::Declared)),
                Request::Read(reads) => self.read(transaction, reads, out),
                Request::Commit(effects) => self.commit(now, transaction, effects, out),
                Request::CommitReads => self.commit(now, transaction, Vec::new(), out),
                Request::Abort => {
                    self.waiting.remove(&transaction);
                    self.counters.aborts += 1;
                }
            },
            Input::Message { from, message } => match message {
                NwnrMessage::Get { transaction, reads } => {
                    let fetched = self.fetch(reads.iter());
                    self.send(
                        from,
                        NwnrMessage::Got {
                            transaction,
                            fetched,
                        },
                        out,
                    );
                }
                NwnrMessage::Got {
                    transaction,
                    fetched,
                } => {
                    self.handle_got(transaction, from, fetched, out);
                }
                NwnrMessage::Write {
                    transaction,
                    timestamp,
                    effects,
                } => {
                    let result = self.install(now, timestamp, effects);
                    self.send(
                        from,
                        NwnrMessage::Written {
                            transaction,
                            result,
                        },
                        out,
                    );
                }
                NwnrMessage::Written {
                    transaction,
                    result,
                } => {
                    self.handle_written(transaction, result, out);
                }
            },
            Input::Timer(_) | Input::Restarted { .. } => {}
        }
    }

    fn observe(&mut self, probe: ActivityProbe) {
        self.probe = probe;
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    /// There is nothing that could be broken.
    fn check_invariants(&self) -> Result<(), String> {
        Ok(())
    }
}

/// It promises nothing, and so it keeps nothing.
impl Durable for NwnrNode {
    fn keep_records(&mut self) -> Result<(), NoRecords> {
        Err(NoRecords { protocol: "nwnr" })
    }

    fn replay(&mut self, _: Record) -> Result<(), ReplayError> {
        Err(ReplayError("nwnr keeps no records".to_owned()))
    }

    fn recover(&mut self, _: Ticks, _: &mut Outbox<NwnrMessage>) {}

    fn items(&self) -> &Store {
        &self.store
    }

    fn items_mut(&mut self) -> &mut Store {
        &mut self.store
    }

    fn checkpoint_state(&self, _: &mut dyn FnMut(Record)) {}
}
