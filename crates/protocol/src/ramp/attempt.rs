//! One attempt of one transaction, as its coordinator knows it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use anabranch_storage::{CommitSequence, ItemTag};
use anabranch_types::{Effect, NodeId, PartitionId, Read, Ticks, Timestamp};
use smallvec::SmallVec;

use super::message::{Got, Known, Lacking, Participants, Required, Slots, Work};
use super::past::{Past, Seen};
use super::prepare_f::Intent;
use super::quorum::{Doubt, LookUp, Owed, Round};
use super::siblings::Siblings;
use crate::AbortReason;

/// The items that were read on a partition; a range counts as its whole table.
pub(super) type Footprint = SmallVec<[ItemTag; 8]>;

/// What was read on a partition. What it counts as in a footprint is found out when somebody first
/// asks: as long as nothing was seen that others may have had a part in, nobody does.
#[derive(Clone, Default)]
pub(super) struct Reads {
    list: Vec<Read>,
    footprint: OnceLock<Box<[ItemTag]>>,
}

/// The footprint follows from the reads, so that states are not told apart by whether it is known.
impl fmt::Debug for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list.fmt(f)
    }
}

impl Reads {
    /// None yet, and room for so many.
    pub(super) fn with_capacity(count: usize) -> Reads {
        Reads {
            list: Vec::with_capacity(count),
            footprint: OnceLock::new(),
        }
    }

    /// All of them, in order.
    pub(super) fn list(&self) -> &[Read] {
        &self.list
    }

    /// What they count as.
    pub(super) fn footprint(&self) -> &[ItemTag] {
        let found = || self.list.iter().map(footprint_of).collect();
        self.footprint.get_or_init(found)
    }
}

impl Extend<Read> for Reads {
    fn extend<R: IntoIterator<Item = Read>>(&mut self, more: R) {
        self.footprint.take();
        self.list.extend(more);
    }
}

impl IntoIterator for Reads {
    type Item = Read;
    type IntoIter = std::vec::IntoIter<Read>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

/// What a coordinator knows of a transaction.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempt {
    /// One for each partition whose rows the procedure has been given.
    pub(super) views: SmallVec<[View; 2]>,
    /// What it is to see in every snapshot.
    pub(super) seen: Seen,
    /// The guards that were read.
    pub(super) guards: Vec<(PartitionId, Read)>,
    pub(super) phase: Phase,
    /// When it began to read, and what was known to be stable then; `None` before.
    pub(super) began: Option<(Ticks, Known)>,
    /// In quorum operation: the answers that copies owe it.
    pub(super) owed: Vec<Owed>,
    /// In quorum operation: what copies have said of transactions where metadata do not.
    pub(super) doubts: Vec<Doubt>,
}

impl Attempt {
    /// What was known to be stable when it began to read.
    pub(super) fn known(&self) -> &Known {
        &self.began.as_ref().expect("set before the first read").1
    }

    /// A partition as the procedure has seen it, if it has.
    pub(super) fn view(&self, partition: PartitionId) -> Option<&View> {
        let mut views = self.views.iter();
        views.find(|view| view.partition == partition)
    }

    pub(super) fn view_mut(&mut self, partition: PartitionId) -> Option<&mut View> {
        let mut views = self.views.iter_mut();
        views.find(|view| view.partition == partition)
    }
}

/// A partition as the procedure has seen it. Its snapshot is fixed.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) partition: PartitionId,
    /// Whose snapshot it is: the owner's, or in quorum operation the copy's that was read.
    pub(super) copy: NodeId,
    /// In quorum operation: how long its first rows took, at most.
    pub(super) took: Ticks,
    pub(super) snapshot: CommitSequence,
    pub(super) reads: Reads,
    pub(super) includes: Includes,
}

/// The transactions that a snapshot is known to include: all that they wrote there, which may be
/// nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Includes {
    /// By commit timestamp.
    pub(super) named: BTreeSet<Timestamp>,
    /// What it is known not to include, and what that wrote there: as the owner says where metadata
    /// do not.
    pub(super) lacking: Vec<Lacking>,
    /// The owner's watermark when it took the snapshot: of its own transactions, all up to here.
    pub(super) stable: Timestamp,
    /// For what was read, the snapshot is as good as one of this sequence. Of causal RAMP.
    pub(super) reach: CommitSequence,
}

impl Includes {
    pub(super) fn contains(&self, commit: Timestamp, owner: NodeId) -> bool {
        (commit.node() == owner && commit <= self.stable) || self.named.contains(&commit)
    }

    /// What a transaction wrote there, if the snapshot is known to lack it.
    pub(super) fn lacks(&self, commit: Timestamp) -> Option<&[ItemTag]> {
        let lacking = self.lacking.iter().find(|lacking| lacking.commit == commit);
        lacking.map(|lacking| &*lacking.written)
    }

    /// The owner has answered what was required of the snapshot.
    pub(super) fn learn(
        &mut self,
        required: impl Iterator<Item = Timestamp>,
        lacking: Vec<Lacking>,
    ) {
        if lacking.is_empty() {
            // So the snapshot has all that was required.
            self.named.extend(required);
            return;
        }
        let lacks = |commit: &Timestamp| lacking.iter().any(|lacking| lacking.commit == *commit);
        self.named.extend(required.filter(|commit| !lacks(commit)));
        let new = |old: &Lacking| !lacking.iter().any(|new| new.commit == old.commit);
        self.lacking.retain(new);
        self.lacking.extend(lacking);
    }
}

/// What the attempt waits for.
#[derive(Clone, Debug, Default)]
pub(super) enum Phase {
    /// The next request. Everything given to the procedure is an atomic view.
    #[default]
    Idle,
    /// Answers to reads.
    Reading(Batch),
    /// The owner of the only partition that takes part.
    Alone {
        /// Which node.
        owner: NodeId,
        /// Whether there is anything to write.
        writes: bool,
        /// What it follows.
        past: Option<Arc<Past>>,
    },
    /// Votes. Nothing is shown anywhere.
    Preparing(Box<Deciding>),
    /// Under Prepare-F: all clusters, to prepare it. It is shown nowhere, and written down.
    Intending(Box<Intent>),
    /// Acknowledgements. All participants have voted yes, and the own one has committed.
    Committing(Box<Deciding>),
}

/// One batch of reads, none of whose rows the procedure has been given.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    pub(super) parts: Vec<Part>,
    /// Answers to come.
    pub(super) waiting: usize,
    /// Repairs so far.
    pub(super) rounds: u32,
    /// What was required of snapshots in Gets that are not answered.
    pub(super) asked: Vec<(PartitionId, Timestamp)>,
    /// In quorum operation: when a snapshot that is fixed was asked about last, if one was.
    pub(super) fixed_since: Option<Ticks>,
    /// In quorum operation: what copies are asked about where metadata leave a doubt.
    pub(super) look_ups: Vec<LookUp>,
}

/// The part of a batch that one partition answers.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) partition: PartitionId,
    /// Who has answered, or is to be asked first: the owner, or in quorum operation a copy.
    pub(super) copy: NodeId,
    /// In quorum operation: the round that is not answered.
    pub(super) round: Option<Box<Round>>,
    /// In quorum operation: how long the last round took.
    pub(super) took: Ticks,
    pub(super) reads: Reads,
    /// Which of the reads are of guards.
    pub(super) guards: SmallVec<[u32; 2]>,
    /// The snapshot that rows given earlier have fixed.
    pub(super) fixed: Option<CommitSequence>,
    pub(super) includes: Includes,
    pub(super) got: Option<Got>,
}

/// A transaction on its way through two phases.
#[derive(Clone, Debug)]
pub(super) struct Deciding {
    pub(super) prepared: Timestamp,
    /// Zero before the decision.
    pub(super) commit: Timestamp,
    /// Its place among the writers of a register, if another cluster has given it one.
    pub(super) place: Option<Timestamp>,
    /// What other clusters are to take over when it is decided.
    pub(super) forwards: Vec<(PartitionId, Vec<Effect>)>,
    /// The other nodes that take part.
    pub(super) others: Participants,
    /// What it follows, under causal RAMP, if anything.
    pub(super) past: Option<Arc<Past>>,
    /// What it wrote where, if it writes on several partitions, or somebody may follow it.
    pub(super) siblings: Option<Arc<Siblings>>,
    /// What the own partition is to do, once all others have voted yes.
    pub(super) own: Option<(Work, Option<Arc<Siblings>>)>,
    /// The lowest vote, and whose it is.
    pub(super) lowest: Option<(Timestamp, NodeId)>,
    pub(super) waiting: usize,
    /// The others that have answered in this phase.
    pub(super) answered: SmallVec<[NodeId; 4]>,
    /// Nobody waits for a reply: it was decided in an earlier life of this node, or its client was
    /// answered as it was decided.
    pub(super) answers_nobody: bool,
    /// Whether some participant produces values that the reply has to carry.
    pub(super) has_outputs: bool,
    pub(super) slots: Slots,
    /// A participant refused Commit: the outcome is in doubt.
    pub(super) refused: Option<AbortReason>,
}

impl Deciding {
    /// One that was decided in an earlier life, or is to be shown after its client was answered: nobody
    /// waits for a reply, and nobody has acknowledged it.
    pub(super) fn unanswered(decided: Required, others: Participants) -> Deciding {
        Deciding {
            prepared: decided.prepared,
            commit: decided.commit,
            place: None,
            forwards: Vec::new(),
            lowest: None,
            waiting: others.len(),
            others,
            past: None,
            siblings: None,
            own: None,
            answered: SmallVec::new(),
            answers_nobody: true,
            has_outputs: false,
            slots: Slots::new(),
            refused: None,
        }
    }
}

/// Whether what a transaction wrote may be among what was read on the same partition.
pub(super) fn touches(written: &[ItemTag], read: &[ItemTag]) -> bool {
    written.iter().any(|written| {
        read.iter().any(|read| {
            written == read
                || (written.table() == read.table() && (written.is_unknown() || read.is_unknown()))
        })
    })
}

/// What a read counts as in a footprint.
pub(super) fn footprint_of(read: &Read) -> ItemTag {
    match read {
        Read::Point { table, key } => ItemTag::of(*table, key),
        Read::Range { table, .. } => ItemTag::unknown(*table),
    }
}
