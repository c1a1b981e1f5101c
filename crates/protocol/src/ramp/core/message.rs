//! The messages of RAMP. The page `docs/protocols/ramp.md` has the table.

use std::sync::Arc;

use anabranch_storage::{CommitSequence, ItemTag};
use anabranch_types::{Effect, EffectError, Fetched, NodeId, PartitionId, Read, Timestamp};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::ramp::core::extension::{CausalContext, Frontier};
pub use crate::ramp::core::extension::{Exceptions, StableVector};
use crate::ramp::core::metadata::Siblings;
use crate::{AbortReason, Slots, TransactionId};

/// A message, and what its sender knows to be stable.
#[derive(Clone, Debug)]
pub struct Stamped {
    /// The sender's watermark: every transaction over several partitions that the sender coordinated, with a commit
    /// timestamp up to this one, is committed on all its partitions (or was aborted), except for `exceptions`.
    pub stable: Timestamp,
    /// Those that may not be, if there ever were any.
    pub exceptions: Option<Arc<Exceptions>>,
    /// Under causal RAMP: what the sender knows of all nodes.
    pub frontier: Option<Arc<Frontier>>,
    /// The message.
    pub message: Message,
}

/// A message is moved several times on its way, with its receiver and in what goes into a step. Compilers move up to
/// 128 bytes in place, and more by a call, so what few messages have is boxed.
const _: () = assert!(size_of::<(NodeId, Stamped)>() <= 112);

/// The messages.
#[derive(Clone, Debug)]
pub enum Message {
    /// Coordinator to owner: read in one snapshot (ramp.txt, Algorithm 1, GET, for several items).
    Get {
        /// The reading transaction.
        transaction: TransactionId,
        /// In which snapshot.
        at: ReadPoint,
        /// What.
        request: Box<ReadRequest>,
    },
    /// Owner to coordinator: the answer to Get.
    Got {
        /// The reading transaction.
        transaction: TransactionId,
        /// The rows, or why there are none.
        result: Result<Got, Refusal>,
    },
    /// Quorum operation, where metadata do not say what was written: coordinator to a replica that it does not read
    /// from: which of these transactions have you prepared, and what do they write on your partition?
    LookUp {
        /// The reading transaction.
        transaction: TransactionId,
        /// Transactions that have committed elsewhere.
        required: Vec<Decision>,
    },
    /// Replica to coordinator: the answer to LookUp.
    LookedUp {
        /// The reading transaction.
        transaction: TransactionId,
        /// What the replica has, or why it cannot say any more.
        result: Result<LookedUp, Refusal>,
    },
    /// Coordinator to participant: check the effects, protect them by write intents, do not install them (PREPARE).
    Prepare(Box<Prepare>),
    /// Participant to coordinator: the answer to Prepare. Yes with a timestamp above everything committed there so
    /// far; or no with the reason, and then the participant keeps nothing.
    Vote {
        /// The prepared transaction.
        transaction: TransactionId,
        /// Yes or no.
        vote: Result<Timestamp, Box<AbortReason>>,
    },
    /// Coordinator to participant: install it (COMMIT). From one participant to another: the answer to Inquire of one
    /// that has installed it. Answered to the coordinator.
    Commit {
        /// The transaction.
        transaction: TransactionId,
        /// What was prepared, and at which timestamp it commits.
        decided: Decision,
    },
    /// Participant to coordinator: it is installed.
    Committed {
        /// The transaction.
        transaction: TransactionId,
        /// The values that its deferred effects produced there; an error breaks RAMP-I1.
        slots: Result<Slots, Box<EffectError>>,
    },
    /// Coordinator to participant: forget what was prepared. Not answered; a participant that
    /// voted no, or never will vote yes, may get it too. From one participant to another: the answer
    /// to Inquire of one that has not prepared it and never will.
    Abort {
        /// The timestamp of Prepare.
        prepared: Timestamp,
    },
    /// Coordinator to owner: check, and commit at once. The transaction has no other participant.
    CommitAlone(Box<CommitAlone>),
    /// Owner to coordinator: the answer to CommitAlone.
    CommittedAlone {
        /// The transaction.
        transaction: TransactionId,
        /// The timestamp that the owner gave it and its deferred values, or why it is aborted.
        result: Result<(Timestamp, Slots), Box<AbortReason>>,
    },
    /// To a participant of an earlier transaction, and to a node that awaits one, when no other message has brought
    /// the news that it is stable (ramp.txt §4.8, the third round). The news is the watermark. Not answered.
    Stable,
    /// To every other node, from time to time (ramp.txt §4.5): which sibling metadata no reader needs any more. Not
    /// answered.
    Gossip {
        /// What every reader of the sender's, under way or to come, knows of the receiver's transactions.
        readers: ReadersKnow,
        /// Of the sender's transactions: all up to here are known to be stable to every reader anywhere.
        anywhere: Timestamp,
        /// But for these; none where the coordinator does not know which would have to be named.
        but: Option<Arc<Exceptions>>,
    },
    /// Causal RAMP, to the coordinator of a transaction that own ones depend on: they wait until it is known to be
    /// stable. Answered by Stable, once it is.
    Await {
        /// Its commit timestamp.
        commit: Timestamp,
    },
    /// From one cluster to the node of the same partition in another (ramp.txt §6.1): this transaction has committed
    /// here, and has to be applied there. Answered by Replicated.
    Replicate {
        /// What.
        replicate: Box<Replicate>,
        /// Every transaction of the sender with a lower commit timestamp is installed in the receiver's cluster.
        lowest: Timestamp,
    },
    /// The answer to Replicate: the cluster has installed it.
    Replicated {
        /// What.
        origin_commit: Timestamp,
    },
    /// Participant to coordinator, after one of them has restarted, and to all participants when the decision does
    /// not arrive (ramp.txt §4.6): what has become of this prepared transaction? Answered by Commit or Abort. Not
    /// answered yet by a coordinator that gathers votes, nor by a participant that is in doubt itself.
    Inquire {
        /// The transaction.
        transaction: TransactionId,
        /// The timestamp of Prepare.
        prepared: Timestamp,
    },
}

/// What all readers at one node know of another one's transactions, at least. See [`Message::Gossip`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadersKnow {
    /// All up to here are stable.
    pub all: Timestamp,
    /// All up to here are stable except for the exceptions of their coordinator.
    pub but_exceptions: Timestamp,
    /// When the coordinator named these; zero if it never had any.
    pub since: Timestamp,
}

/// See [`Message::Replicate`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replicate {
    /// Its commit timestamp in its origin cluster, which registers take in every cluster.
    pub origin_commit: Timestamp,
    /// What it has done on each partition.
    pub works: Vec<(PartitionId, Vec<Effect>)>,
}

/// The snapshot that a read is to be answered in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPoint {
    /// One of now, with all that is required.
    Newest,
    /// The one of an earlier round, of which the procedure has been given no rows. If it lacks nothing that is
    /// required and wrote what was read, it stands, and its rows are not sent again; otherwise a newest one. For
    /// metadata that do not say what a transaction wrote (RAMP-Small, RAMP-Hybrid).
    Revalidate(CommitSequence),
    /// The one of which the procedure has been given rows.
    Fixed(CommitSequence),
}

/// See [`Message::Get`].
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// What to read.
    pub reads: SmallVec<[Read; 2]>,
    /// What else the snapshot has to be, beside one of `at`; mostly nothing.
    pub requirements: Option<Box<Requirements>>,
    /// What the coordinator knew to be stable when the transaction began. The answer needs sibling metadata of all
    /// other transactions.
    pub known: StableVector,
}

impl ReadRequest {
    /// What the snapshot must include: see [`Requirements::required`].
    pub fn required(&self) -> &[Decision] {
        let requirements = self.requirements.as_ref();
        requirements.map_or(&[], |requirements| &requirements.required)
    }

    /// Asks for these.
    pub(crate) fn of<'r>(
        reads: impl Iterator<Item = &'r Read>,
        requirements: Option<Box<Requirements>>,
        known: &StableVector,
    ) -> Box<ReadRequest> {
        let mut request = Box::new(ReadRequest {
            reads: SmallVec::new(),
            requirements,
            known: known.clone(),
        });
        // They are written where they stay.
        reads.for_each(|read| request.reads.push(read.clone()));
        request
    }
}

/// What a snapshot has to include, and be as good as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Transactions that have committed elsewhere, and must be in the snapshot if they wrote
    /// here (under RAMP-Fast they did).
    pub required: Vec<Decision>,
    /// Under causal RAMP: up to where a snapshot of before has to be as good as one of now. A newest
    /// one is.
    pub freshness: Option<Freshness>,
}

impl Requirements {
    /// `None` if there is nothing in it.
    pub(crate) fn of(
        required: Vec<Decision>,
        freshness: Option<Freshness>,
    ) -> Option<Box<Requirements>> {
        let any = !required.is_empty() || freshness.is_some();
        any.then(|| {
            Box::new(Requirements {
                required,
                freshness,
            })
        })
    }
}

/// Nothing of what was read may have been written up to a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// The sequence.
    pub sequence: CommitSequence,
    /// What was read; a range counts as its whole table.
    pub read: SmallVec<[ItemTag; 8]>,
}

/// A transaction that has committed somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The timestamp under which it was prepared: its name.
    pub prepared: Timestamp,
    /// The timestamp under which it commits, which registers take.
    pub commit: Timestamp,
}

/// A transaction seen in a snapshot, which readers of its siblings must see too.
#[derive(Clone, Debug)]
pub struct SiblingMetadata {
    /// Its commit timestamp.
    pub commit: Timestamp,
    /// What it wrote where; names it by the timestamp of Prepare.
    pub siblings: Arc<Siblings>,
    /// Causal RAMP: what it depends on, if anything.
    pub causal_context: Option<Arc<CausalContext>>,
    /// Under causal RAMP: it has committed in one step, and has no siblings.
    pub alone: bool,
}

impl SiblingMetadata {
    /// The transaction.
    pub fn decision(&self) -> Decision {
        Decision {
            prepared: self.siblings.timestamp,
            commit: self.commit,
        }
    }
}

/// A transaction that was required and that the snapshot lacks, where metadata do not say what it wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingWrites {
    /// Its commit timestamp.
    pub commit: Timestamp,
    /// What it wrote at this owner.
    pub written: Box<[ItemTag]>,
}

/// Rows from one snapshot.
#[derive(Clone, Debug)]
pub struct Got {
    /// The snapshot.
    pub snapshot: CommitSequence,
    /// One answer a read, in order; none if the snapshot of an earlier round stands.
    pub fetched: Vec<Fetched>,
    /// What its owner has found beside the rows, if anything.
    pub metadata: Option<Box<ReadMetadata>>,
}

impl Got {
    /// The transactions over several partitions that it shows: see [`ReadMetadata::siblings`].
    pub fn siblings(&self) -> &[SiblingMetadata] {
        let found = self.metadata.as_ref();
        found.map_or(&[], |found| &found.siblings)
    }

    /// Takes out what this replica has not prepared: see [`ReadMetadata::not_prepared`].
    pub(crate) fn take_not_prepared(&mut self) -> Vec<Timestamp> {
        let found = self.metadata.as_mut();
        found.map_or_else(Vec::new, |found| std::mem::take(&mut found.not_prepared))
    }

    /// For what was read the snapshot is as good as one of this sequence.
    pub fn unchanged_until(&self) -> CommitSequence {
        let further = self.metadata.as_ref().map(|found| found.unchanged_until);
        further.map_or(self.snapshot, |further| further.max(self.snapshot))
    }
}

/// What an owner reports of transactions with the rows.
#[derive(Clone, Debug, Default)]
pub struct ReadMetadata {
    /// For what was read the snapshot is as good as one of this sequence, if that is later.
    pub unchanged_until: CommitSequence,
    /// Of what was required, what the snapshot lacks. All else is in it, or wrote nothing here.
    pub missing: Vec<MissingWrites>,
    /// Quorum operation, where metadata do not say what was written: of what was required, what this replica has not
    /// prepared. The transaction may have written here all the same.
    pub not_prepared: Vec<Timestamp>,
    /// The transactions over several partitions that wrote what was read and can be seen there, as far
    /// as they are not known to be stable. Each once.
    pub siblings: Vec<SiblingMetadata>,
}

impl ReadMetadata {
    /// `None` if there is nothing in it.
    pub(crate) fn some(self) -> Option<Box<ReadMetadata>> {
        let none =
            self.missing.is_empty() && self.not_prepared.is_empty() && self.siblings.is_empty();
        (!none || self.unchanged_until > CommitSequence::LOADED).then(|| Box::new(self))
    }
}

/// What a replica reports of transactions that may have written on its partition. See [`Message::LookUp`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookedUp {
    /// Transactions that it has prepared or installed, or knows to have written nothing here.
    pub written: Vec<MissingWrites>,
    /// What it has not prepared, by commit timestamp.
    pub not_prepared: Vec<Timestamp>,
}

/// Why a read got no rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The fixed snapshot lacks a required transaction.
    Fractured,
    /// The snapshot, or a required transaction, is older than what is kept.
    BelowFloor,
    /// Quorum operation: this replica has not prepared something that is required. Another one has.
    NotHere,
    /// The owner has forgotten sibling metadata that this reader may need. The owner knows all of this to be stable;
    /// with it the transaction can begin again.
    Forgotten(Box<StableVector>),
}

impl Refusal {
    /// The reader does not know all of this to be stable.
    pub(crate) fn forgotten(stable: &StableVector) -> Refusal {
        Refusal::Forgotten(Box::new(stable.clone()))
    }
}

impl From<Refusal> for AbortReason {
    fn from(refusal: Refusal) -> AbortReason {
        match refusal {
            Refusal::Fractured | Refusal::NotHere => AbortReason::Fractured,
            Refusal::BelowFloor | Refusal::Forgotten(_) => AbortReason::BelowFloor,
        }
    }
}

/// What one participant is to do for a transaction.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// The effects, in order of execution.
    pub effects: Vec<Effect>,
    /// Which of them write guards, ascending.
    pub guards: Vec<u32>,
    /// The guards read here, each still to be as it was in `snapshot`.
    pub guard_reads: Vec<Read>,
    /// The snapshot of the transaction's reads here; `None` if it read nothing.
    pub snapshot: Option<CommitSequence>,
    /// The commit timestamp of its origin cluster, if another cluster has committed it: registers take it instead of
    /// the commit timestamp.
    pub origin_commit: Option<Timestamp>,
}

/// See [`Message::Prepare`].
#[derive(Clone, Debug)]
pub struct Prepare {
    /// The transaction.
    pub transaction: TransactionId,
    /// Names the transaction among participants.
    pub prepared: Timestamp,
    /// What to do.
    pub work: Work,
    /// The whole write set; `None` when the transaction writes on one partition alone.
    pub siblings: Option<Arc<Siblings>>,
    /// Causal RAMP: what it depends on, if anything.
    pub causal_context: Option<Arc<CausalContext>>,
    /// All nodes that are sent Prepare: they are asked when the coordinator does not answer.
    pub participants: Participants,
}

/// The nodes that prepare a transaction: all that take part but its coordinator.
pub type Participants = SmallVec<[NodeId; 4]>;

/// See [`Message::CommitAlone`].
#[derive(Clone, Debug)]
pub struct CommitAlone {
    /// The transaction.
    pub transaction: TransactionId,
    /// What to do.
    pub work: Work,
    /// Causal RAMP: what it depends on, if anything.
    pub causal_context: Option<Arc<CausalContext>>,
}
