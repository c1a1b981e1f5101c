//! The contract that every protocol keeps, and what crosses it.
//!
//! A node is driven through [`Protocol::step`] alone: an [`Input`] and the time go in; messages,
//! replies and timers come out in an [`Outbox`]. A message to the own node never leaves the step:
//! it is a function call. So a transaction that touches the own partition alone is answered within
//! the step that asks, and a procedure whose every access is local runs without interleaving.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use anabranch_storage::{ApplyError, Store};
use anabranch_types::{
    Access, ActivityProbe, Effect, EffectError, Fetched, IndexId, Key, NodeId, PartitionId, Read,
    SlotId, TableId, Ticks, Timestamp, Value,
};
use serde::{Deserialize, Serialize};

use crate::record::{NoRecords, Record, ReplayError, checkpoint_store};

/// A protocol's node.
pub trait Protocol {
    /// Its messages: one enum, a struct variant for each.
    type Message: Clone + fmt::Debug + Send;

    /// Takes one input at time `now`, and puts all output into `out`.
    fn step(&mut self, now: Ticks, input: Input<Self::Message>, out: &mut Outbox<Self::Message>);

    /// Drops up to `budget` versions that nothing needs any more. Nodes do so as they commit; where nothing is committed,
    /// because memory or the disk has no room, this is what frees it. The default is for nodes that are only simulated.
    fn collect_versions(&mut self, _now: Ticks, _budget: usize) {}

    /// From now on reports to this probe when the node is at work in the store or at guards, rather than in its own
    /// bookkeeping.
    fn observe(&mut self, probe: ActivityProbe);

    /// What has been counted at this node so far.
    fn counters(&self) -> &Counters;

    /// The transactions, of any coordinator, that wait for others at this node's partition or are prepared there, as of
    /// now. For people: nothing depends on it. The default is for protocols whose transactions do not wait.
    fn open_transactions(&self) -> OpenTransactions {
        OpenTransactions::default()
    }

    /// Checks every numbered invariant of the protocol's page that one node can see.
    ///
    /// # Errors
    /// The invariant's name, such as `RAMP-I2`, and what contradicts it.
    fn check_invariants(&self) -> Result<(), String>;
}

/// Transactions that have not ended at one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenTransactions {
    /// Those that wait for a lock.
    pub waits: Vec<LockWait>,
    /// Those that have voted to commit and do not know the decision.
    pub prepared: Vec<TransactionId>,
}

/// A transaction that waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWait {
    /// The transaction.
    pub transaction: TransactionId,
    /// The table.
    pub table: TableId,
    /// The secondary index; `None` for the primary key.
    pub index: Option<IndexId>,
    /// The key at which it waits.
    pub key: Key,
    /// Those that hold a conflicting lock there, then those that are before it in the queue. Each once.
    pub blockers: Vec<TransactionId>,
}

/// A protocol whose nodes can restart from what they had made durable.
///
/// A node that restarts is made anew, with an empty store. It is made to [keep records](Durable::keep_records), is
/// given every record in order by [`Durable::replay`], and is then made to [recover](Durable::recover).
pub trait Durable: Protocol {
    /// From now on outboxes have records. To be called before anything else.
    ///
    /// # Errors
    /// When the protocol has none.
    fn keep_records(&mut self) -> Result<(), NoRecords>;

    /// Applies a record again. Produces no output.
    ///
    /// # Errors
    /// When the record is another protocol's, or contradicts those before it.
    fn replay(&mut self, record: Record) -> Result<(), ReplayError>;

    /// All records have been replayed: goes on with what was under way. What is put into `out` belongs to the new
    /// incarnation, and precedes all its other output.
    fn recover(&mut self, now: Ticks, out: &mut Outbox<Self::Message>);

    /// Whether a message leaves only when the records before it are durable, which every message may. One that does not
    /// wait overtakes others that do. What it leads to at its receiver must not outlast a crash of this node, unless
    /// the receiver has had it confirmed by a message that waits.
    fn waits_for_log(_: &Self::Message) -> bool {
        true
    }

    /// The store of its partition, whose items a checkpoint exports.
    fn items(&self) -> &Store;

    /// The same, to pin a snapshot.
    fn items_mut(&mut self) -> &mut Store;

    /// Passes to `sink` the records that rebuild the node's state beside its items: clock, open transactions, what is
    /// known of committed ones. Replay needs the items first. To be called between two steps, with an empty outbox.
    fn checkpoint_state(&self, sink: &mut dyn FnMut(Record));

    /// Passes to `sink` records that rebuild the node as it is, in place of all so far. To be called between two
    /// steps, with an empty outbox.
    fn checkpoint(&self, sink: &mut dyn FnMut(Record)) {
        checkpoint_store(self.items(), sink);
        self.checkpoint_state(sink);
    }
}

/// A node that can hand its partition over to a successor, between two transactions: the schema has changed, and a node
/// for the new one takes its place.
pub trait Handover: Durable {
    /// Gives up the node for its partition's items. No transaction may be under way.
    fn into_items(self) -> Store;

    /// The highest logical time that the node has issued or seen, in microseconds.
    fn last_time(&self) -> u64;

    /// Continues a predecessor's time: issues only timestamps above this one. To be called first.
    fn continue_after(&mut self, time: u64);
}

/// Names one attempt of one transaction in the cluster; chosen by the engine of the node that
/// coordinates it, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TransactionId {
    /// The node that coordinates it.
    pub node: NodeId,
    /// Unique at that node.
    pub sequence: u64,
}

/// How old a transaction is that waits for locks by age: the smaller, the older. It keeps its age through all its
/// attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Age {
    /// When it began, by its coordinator's clock.
    pub began: Ticks,
    /// Its first attempt.
    pub transaction: TransactionId,
}

/// Names a timer among those of one node's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub u64);

/// What a node is given.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Input<M> {
    /// From the engine above, for a transaction that this node coordinates.
    Request {
        /// Which.
        transaction: TransactionId,
        /// What is asked.
        request: Request,
    },
    /// From another node's protocol.
    Message {
        /// Which node.
        from: NodeId,
        /// The message.
        message: M,
    },
    /// A timer that this node's protocol set has run out. It may be late, never early.
    Timer(TimerId),
    /// Another node has restarted: it knows what it had made durable, and nothing else. Messages to it that had not
    /// arrived are lost, and of those that had arrived nothing need be left. Precedes the first message of its new
    /// incarnation, and follows the last of the one before.
    Restarted {
        /// Which node.
        node: NodeId,
    },
}

/// A request of the engine to the protocol for one transaction. One request of a transaction is open at a time, and
/// each is answered by exactly one [`Reply`] (Follow, WaitByAge, Global and Abort by none).
///
/// The protocol may abort a transaction that has no open request. Its next request but Abort is then answered by
/// [`Reply::Aborted`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Request {
    /// The transaction comes after what its client has seen, for a protocol that knows what to make of
    /// that. Before all others. Not answered.
    Follow(Session),
    /// The transaction declares nothing, and waits for locks by age (`docs/protocols/interactive.md`). Before all
    /// others but Follow. Protocols without locks ignore it. Not answered.
    WaitByAge(Age),
    /// The transaction is a global operation (`docs/protocols/belt.md`): it runs when its server has the token. Before
    /// all others. Protocols other than the Conveyor Belt ignore it. Not answered.
    Global,
    /// The reads and writes that are known before the procedure runs, sorted by partition, each item once. A protocol
    /// that takes locks takes these now, in order, and may fetch the rows in the same round. Sent at most once,
    /// first, and only where [`Protocol`]'s constructor asks for it. Answered by [`Reply::Declared`].
    Declare(Vec<PartitionRead>),
    /// One batch of reads, sorted by partition. Answered by [`Reply::Fetched`].
    Read(Vec<PartitionRead>),
    /// The transaction's effects, one entry a partition, sorted by partition. Empty for a
    /// transaction that only read. Answered by [`Reply::Committed`].
    Commit(Vec<PartitionEffects>),
    /// The transaction has no effects, and what it has read need not be validated, guards included. Answered by
    /// [`Reply::Committed`], or [`Reply::Aborted`].
    CommitReads,
    /// The procedure gave up: forget the transaction, release its locks. Not answered. Not to be sent after a commit
    /// request, nor after an [`Reply::Aborted`].
    Abort,
}

/// What a client has seen, which its next transaction must see at whichever node it runs. A protocol that
/// promises causal consistency hands it out with each commit; under other protocols it is empty. Opaque to
/// clients. A new client starts with an empty session.
#[derive(Clone, Debug, Default)]
pub struct Session {
    token: Option<Arc<dyn SessionToken>>,
}

/// The content of a [`Session`], which only the protocol that made it understands.
pub trait SessionToken: Any + fmt::Debug + Send + Sync {}

impl Session {
    /// A session with this content.
    pub fn of(token: Arc<dyn SessionToken>) -> Session {
        Session { token: Some(token) }
    }

    /// Its content; `None` if it is empty, or another protocol's.
    pub fn token<T: SessionToken>(&self) -> Option<&T> {
        let token: &dyn Any = &**self.token.as_ref()?;
        token.downcast_ref()
    }

    /// Whether it has no content.
    pub fn is_empty(&self) -> bool {
        self.token.is_none()
    }
}

/// A read and the partition it is meant for. A range that lies on several partitions becomes one
/// of these for each.
#[derive(Clone, Debug)]
pub struct PartitionRead {
    /// The partition to ask. For a table that is on every partition, the own one.
    pub partition: PartitionId,
    /// What to read.
    pub read: Read,
    /// Why.
    pub access: Access,
}

/// A transaction's effects on one partition, in order of execution.
#[derive(Clone, Debug)]
pub struct PartitionEffects {
    /// The partition.
    pub partition: PartitionId,
    /// What to do.
    pub effects: Vec<Effect>,
    /// Which of the effects (indexes, ascending) write guards: from prepare to commit their rows are protected
    /// against every other transaction that has them as guards.
    pub guards: Vec<u32>,
}

/// The values that a transaction's deferred effects produced.
pub type Slots = Vec<(SlotId, Value)>;

/// The protocol's answer to a [`Request`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Reply {
    /// What was declared is locked.
    Declared,
    /// One answer a read, in the order asked.
    Fetched(Vec<Fetched>),
    /// The transaction has committed; all later reads see it.
    Committed {
        /// Its timestamp.
        timestamp: Timestamp,
        /// The values that its deferred effects produced.
        slots: Slots,
        /// What its client has seen with it.
        session: Session,
    },
    /// The transaction has ended without a trace.
    Aborted(AbortReason),
}

/// Why a transaction was aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbortReason {
    /// A conflict with another transaction on a guard, or on a lock out of order.
    Conflict,
    /// What it had already read could not be extended to an atomic view: read again.
    Fractured,
    /// It ran for longer than overwritten versions are kept: read again.
    BelowFloor,
    /// A deferred effect with outputs found no row: run again without deferral, so that the
    /// procedure sees that there is none.
    RowMissing,
    /// A node that it needed restarted without what it had not made durable.
    Restarted,
    /// The one node that was to commit it has restarted, and may have committed it before: another attempt might do
    /// it twice.
    InDoubt,
    /// An effect violates a constraint or a type's domain.
    Failed(EffectError),
}

impl From<ApplyError> for AbortReason {
    fn from(error: ApplyError) -> AbortReason {
        match error.into_effect_error() {
            Some(error) => AbortReason::Failed(error),
            None => AbortReason::RowMissing,
        }
    }
}

impl AbortReason {
    /// Whether running the transaction again may succeed.
    pub fn is_retryable(&self) -> bool {
        !matches!(self, AbortReason::Failed(_) | AbortReason::InDoubt)
    }

    /// A short name for tables and JSON.
    pub fn name(&self) -> &'static str {
        match self {
            AbortReason::Conflict => "conflict",
            AbortReason::Fractured => "fractured",
            AbortReason::BelowFloor => "below_floor",
            AbortReason::RowMissing => "row_missing",
            AbortReason::Restarted => "restarted",
            AbortReason::InDoubt => "in_doubt",
            AbortReason::Failed(_) => "failed",
        }
    }
}

/// All output of one or more steps. The driver empties it after each batch.
///
/// **Output commit**: nothing else of an outbox leaves the node before its [forced records](Record::is_forced), and
/// all those of earlier outboxes, are durable, but for [messages that may](Durable::waits_for_log). So whatever another
/// node or a client relies on can be found again after a crash. A node that keeps no records makes none, and everything
/// may leave at once.
#[derive(Clone, Debug)]
pub struct Outbox<M> {
    /// To be appended to the node's log, in order.
    pub records: Vec<Record>,
    /// To other nodes, in order for each destination.
    pub messages: Vec<(NodeId, M)>,
    /// To the engine above.
    pub replies: Vec<(TransactionId, Reply)>,
    /// Timers to set: when, and which.
    pub timers: Vec<(Ticks, TimerId)>,
}

impl<M> Default for Outbox<M> {
    fn default() -> Self {
        Outbox {
            records: Vec::new(),
            messages: Vec::new(),
            replies: Vec::new(),
            timers: Vec::new(),
        }
    }
}

/// Which node has which partition.
#[derive(Clone, Debug)]
pub struct Topology {
    /// The owner of each partition, in the cluster that this topology is for.
    pub owners: Vec<NodeId>,
    /// The other clusters, each of which has all partitions: their owners there.
    pub elsewhere: Vec<Vec<NodeId>>,
}

impl Topology {
    /// `count` nodes with one partition each.
    pub fn one_each(count: u16) -> Topology {
        Topology {
            owners: (0..count).map(NodeId).collect(),
            elsewhere: Vec::new(),
        }
    }

    /// `count` clusters of `partitions` nodes with one partition each, as the cluster of this number
    /// sees them. Node *n* is in cluster *n* modulo `count`, so that in a network of as many sites
    /// each cluster is at a site of its own.
    ///
    /// # Panics
    /// When there is no such cluster.
    pub fn clusters(count: u16, partitions: u16, cluster: u16) -> Topology {
        assert!(cluster < count, "cluster {cluster} of {count}");
        let owners = |of: u16| (0..partitions).map(move |at| NodeId(at * count + of));
        let others = (0..count).filter(|other| *other != cluster);
        Topology {
            owners: owners(cluster).collect(),
            elsewhere: others.map(|other| owners(other).collect()).collect(),
        }
    }

    /// The owners of each cluster, the own one first.
    pub fn everywhere(&self) -> impl Iterator<Item = &[NodeId]> {
        std::iter::once(&self.owners)
            .chain(&self.elsewhere)
            .map(Vec::as_slice)
    }

    /// The nodes of clusters with one partition each, in the order of their numbers: each of them has all the data
    /// (`docs/protocols/alvin.md`: a *site*).
    ///
    /// # Panics
    /// When a cluster has several partitions.
    pub fn sites(&self) -> Vec<NodeId> {
        let mut sites: Vec<NodeId> = self
            .everywhere()
            .map(|owners| match owners {
                [site] => *site,
                _ => panic!("a cluster of {} nodes is no site", owners.len()),
            })
            .collect();
        sites.sort_unstable();
        sites
    }

    /// The node that owns `partition`.
    #[inline]
    pub fn owner(&self, partition: PartitionId) -> NodeId {
        self.owners[partition.index()]
    }

    /// The partition that `node` owns.
    ///
    /// # Panics
    /// When it owns none, or several.
    pub fn owned_by(&self, node: NodeId) -> PartitionId {
        let mut owned = (0..)
            .map(PartitionId)
            .zip(&self.owners)
            .filter(|(_, owner)| **owner == node);
        let (partition, _) = owned.next().expect("a node owns a partition");
        assert!(owned.next().is_none(), "{node} owns one partition");
        partition
    }
}

/// What a node counts. Sums over nodes give the cluster's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages sent to other nodes.
    pub messages: u64,
    /// Transactions committed, by their coordinator.
    pub commits: u64,
    /// Transactions aborted, by their coordinator, whatever the reason.
    pub aborts: u64,
    /// Rounds of reads after the first of a batch, which repaired a fracture or asked whether there
    /// was one.
    pub second_rounds: u64,
    /// Answers that a later round replaced: fractures that were repaired.
    pub repairs: u64,
    /// Times that a Bloom filter let a reader ask for a transaction that had written nothing of what
    /// it read.
    pub false_positives: u64,
    /// Prepared transactions that ended after their participant had asked the others what had become
    /// of them.
    pub terminations: u64,
    /// Transactions that became exceptions, so that the watermark went on without them.
    pub exceptions: u64,
    /// Clients that were answered before every cluster had what they wrote; in quorum operation, showed it.
    pub early_answers: u64,
    /// Times that another replica was asked because one was silent, or lacked what was required.
    pub other_replicas: u64,
    /// Transactions committed, by their coordinator, once other nodes had ordered them.
    pub ordered: u64,
    /// Transactions of other clusters that have been applied.
    pub applied_remote: u64,
    /// Times that an owner asked a transaction's coordinator whether it has committed, for a reader.
    pub commit_checks: u64,
    /// Times that a request waited for another transaction at a participant.
    pub waits: u64,
    /// For how long, in all, in nanoseconds.
    pub blocked_ticks: u64,
}

impl Counters {
    /// Adds another node's counts.
    pub fn add(&mut self, other: &Counters) {
        self.messages += other.messages;
        self.commits += other.commits;
        self.aborts += other.aborts;
        self.second_rounds += other.second_rounds;
        self.repairs += other.repairs;
        self.false_positives += other.false_positives;
        self.terminations += other.terminations;
        self.exceptions += other.exceptions;
        self.early_answers += other.early_answers;
        self.other_replicas += other.other_replicas;
        self.ordered += other.ordered;
        self.applied_remote += other.applied_remote;
        self.commit_checks += other.commit_checks;
        self.waits += other.waits;
        self.blocked_ticks += other.blocked_ticks;
    }
}
