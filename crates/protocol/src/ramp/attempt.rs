//! One attempt of one transaction, as its coordinator knows it.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use anabranch_storage::{CommitSequence, ItemTag};
use anabranch_types::{Effect, NodeId, PartitionId, Read, Ticks, Timestamp};
use smallvec::SmallVec;

use super::message::{Got, Known, Lacking, Participants, Required, Slots, Work};
use super::past::{Past, Reach, Seen};
use super::prepare_f::Intent;
use super::quorum::{Doubt, LookUp, Owed, Round};
use super::siblings::Siblings;
use crate::{AbortReason, PartitionRead, Topology};

/// The items that were read on a partition; a range counts as its whole table.
pub(super) type Footprint = SmallVec<[ItemTag; 8]>;

/// What reads count as in a footprint. It is found out when somebody first asks: as long as nothing was
/// seen that others may have had a part in, nobody does.
#[derive(Clone, Default)]
pub(super) struct Footprinted(OnceCell<Box<[ItemTag]>>);

impl Footprinted {
    fn of<'r, I: Iterator<Item = &'r Read>>(&self, reads: impl FnOnce() -> I) -> &[ItemTag] {
        self.0.get_or_init(|| reads().map(footprint_of).collect())
    }
}

/// It follows from the reads, so that states are not told apart by whether it is known.
impl fmt::Debug for Footprinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("-")
    }
}

/// What was read on a partition.
#[derive(Clone, Default)]
pub(super) struct Reads {
    list: Vec<Read>,
    footprint: Footprinted,
}

impl fmt::Debug for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list.fmt(f)
    }
}

impl Reads {
    /// What they count as.
    pub(super) fn footprint(&self) -> &[ItemTag] {
        self.footprint.of(|| self.list.iter())
    }
}

impl Extend<Read> for Reads {
    fn extend<R: IntoIterator<Item = Read>>(&mut self, more: R) {
        self.footprint = Footprinted::default();
        self.list.extend(more);
    }
}

/// So many entries, of parts, views and what else a transaction gathers, are not many.
const SMALL: usize = 256;

/// What a coordinator knows of a transaction.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempt {
    /// One for each partition whose rows the procedure has been given.
    pub(super) views: SmallVec<[View; 2]>,
    /// What it is to see in every snapshot.
    pub(super) seen: Seen,
    /// The guards that were read.
    pub(super) guards: Vec<(PartitionId, Read)>,
    /// What is read, or was last: see [`Attempt::take_in`].
    pub(super) batch: Batch,
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

    /// Whether it has no more memory than most.
    pub(super) fn is_small(&self) -> bool {
        let places = self.views.capacity() + self.batch.parts.capacity();
        let others = self.seen.evidence.capacity() + self.guards.capacity();
        places + others + self.batch.asked.capacity() <= SMALL
    }

    /// Makes it as new, for another transaction.
    pub(super) fn clear(&mut self) {
        // Whoever adds a field says here what becomes of it.
        let Attempt {
            views,
            seen,
            guards,
            batch,
            phase,
            began,
            owed,
            doubts,
        } = self;
        views.clear();
        seen.evidence.clear();
        seen.reach = Reach::default();
        guards.clear();
        batch.clear();
        *phase = Phase::Idle;
        *began = None;
        owed.clear();
        doubts.clear();
    }

    /// The batch that it waits for, if it waits for one.
    pub(super) fn reading(&self) -> Option<&Batch> {
        matches!(self.phase, Phase::Reading).then_some(&self.batch)
    }

    /// Makes what the procedure was given last part of its views. This is put off until somebody asks for
    /// them: most transactions read one batch, and end.
    pub(super) fn take_in(&mut self) {
        if self.batch.parts.is_empty() {
            return;
        }
        let Batch { reads, parts, .. } = std::mem::take(&mut self.batch);
        let mut reads = reads.into_iter();
        for part in parts {
            let of_part = reads.by_ref().take(part.reads.len());
            let guards = &mut self.guards;
            let of_part = of_part.map(|read| {
                if read.access.guard {
                    guards.push((read.partition, read.read.clone()));
                }
                read.read
            });
            let mut views = self.views.iter_mut();
            match views.find(|view| view.partition == part.partition) {
                Some(view) => {
                    view.reads.extend(of_part);
                    view.includes.merge(part.includes);
                }
                None => {
                    let list = of_part.collect();
                    let got = part
                        .got
                        .expect("what the procedure was given has been answered");
                    self.views.push(View {
                        partition: part.partition,
                        copy: part.copy,
                        took: part.took,
                        snapshot: got.snapshot,
                        reads: Reads {
                            list,
                            footprint: part.footprint,
                        },
                        includes: part.includes,
                    });
                }
            }
        }
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
    /// The owner's watermark when it took the snapshot: of its own transactions, all up to here.
    pub(super) stable: Timestamp,
    /// For what was read, the snapshot is as good as one of this sequence. Of causal RAMP.
    pub(super) reach: CommitSequence,
    /// What is known by name; most readers meet nothing of which they have to.
    by_name: Option<Box<ByName>>,
}

/// What a snapshot is known to include, and not to.
#[derive(Clone, Debug, Default)]
struct ByName {
    /// By commit timestamp.
    included: BTreeSet<Timestamp>,
    /// What it does not include, and what that wrote there: as the owner says where metadata do not.
    lacking: Vec<Lacking>,
}

impl Includes {
    pub(super) fn contains(&self, commit: Timestamp, owner: NodeId) -> bool {
        (commit.node() == owner && commit <= self.stable)
            || (self.by_name.as_ref()).is_some_and(|known| known.included.contains(&commit))
    }

    /// What a transaction wrote there, if the snapshot is known to lack it.
    pub(super) fn lacks(&self, commit: Timestamp) -> Option<&[ItemTag]> {
        let mut lacking = self.by_name.as_ref()?.lacking.iter();
        let lacking = lacking.find(|lacking| lacking.commit == commit);
        lacking.map(|lacking| &*lacking.written)
    }

    /// It includes this one.
    pub(super) fn name(&mut self, commit: Timestamp) {
        self.by_name.get_or_insert_default().included.insert(commit);
    }

    /// The owner has answered what was required of the snapshot.
    pub(super) fn learn(
        &mut self,
        required: impl IntoIterator<Item = Timestamp>,
        lacking: Vec<Lacking>,
    ) {
        let mut required = required.into_iter().peekable();
        if required.peek().is_none() && lacking.is_empty() {
            return;
        }
        let known = self.by_name.get_or_insert_default();
        if lacking.is_empty() {
            // So the snapshot has all that was required.
            known.included.extend(required);
            return;
        }
        let lacks = |commit: &Timestamp| lacking.iter().any(|lacking| lacking.commit == *commit);
        known
            .included
            .extend(required.filter(|commit| !lacks(commit)));
        let new = |old: &Lacking| !lacking.iter().any(|new| new.commit == old.commit);
        known.lacking.retain(new);
        known.lacking.extend(lacking);
    }

    /// The snapshot was replaced by a newer one, which may include what it lacked.
    pub(super) fn renew(&mut self) {
        if let Some(known) = &mut self.by_name {
            known.lacking.clear();
        }
    }

    /// What is known of the same snapshot from reading on in it.
    fn merge(&mut self, more: Includes) {
        self.reach = self.reach.min(more.reach);
        if let Some(more) = more.by_name {
            let known = self.by_name.get_or_insert_default();
            known.included.extend(more.included);
            known.lacking.extend(more.lacking);
        }
    }
}

/// What the attempt waits for.
#[derive(Clone, Debug, Default)]
pub(super) enum Phase {
    /// The next request. Everything given to the procedure is an atomic view.
    #[default]
    Idle,
    /// Answers to reads: to those of its batch.
    Reading,
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

/// One batch of reads. The procedure is given its rows all at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    /// Sorted by partition.
    pub(super) reads: Vec<PartitionRead>,
    /// By partition.
    pub(super) parts: SmallVec<[Part; 2]>,
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
    /// Which of the batch's reads these are.
    pub(super) reads: Range<u32>,
    /// What they count as: see [`Part::footprint`].
    pub(super) footprint: Footprinted,
    /// The snapshot that rows given earlier have fixed.
    pub(super) fixed: Option<CommitSequence>,
    pub(super) includes: Includes,
    pub(super) got: Option<Got>,
}

impl Batch {
    /// Begins a batch, by partition; where one was read before, from the same copy. The reads come sorted by
    /// partition.
    pub(super) fn begin(&mut self, topology: &Topology, views: &[View], reads: Vec<PartitionRead>) {
        debug_assert!(self.parts.is_empty(), "the batch before was taken in");
        let mut from = 0;
        for run in reads.chunk_by(|left, right| left.partition == right.partition) {
            let partition = run[0].partition;
            let view = views.iter().find(|view| view.partition == partition);
            let to = from + run.len() as u32;
            self.parts.push(Part {
                partition,
                copy: view.map_or_else(|| topology.owner(partition), |view| view.copy),
                reads: from..to,
                round: None,
                took: Ticks(0),
                footprint: Footprinted::default(),
                fixed: view.map(|view| view.snapshot),
                includes: Includes::default(),
                got: None,
            });
            from = to;
        }
        self.reads = reads;
    }

    fn clear(&mut self) {
        let Batch {
            reads,
            parts,
            waiting,
            rounds,
            asked,
            fixed_since,
            look_ups,
        } = self;
        *reads = Vec::new();
        parts.clear();
        (*waiting, *rounds) = (0, 0);
        asked.clear();
        *fixed_since = None;
        look_ups.clear();
    }

    /// The part that a partition answers.
    pub(super) fn part(&self, partition: PartitionId) -> Option<&Part> {
        let mut parts = self.parts.iter();
        parts.find(|part| part.partition == partition)
    }
}

impl Part {
    /// What is read, of all that the batch reads.
    pub(super) fn list<'b>(
        &self,
        batch: &'b [PartitionRead],
    ) -> impl ExactSizeIterator<Item = &'b Read> + Clone {
        let Range { start, end } = self.reads;
        batch[start as usize..end as usize]
            .iter()
            .map(|read| &read.read)
    }

    /// What that counts as in a footprint.
    pub(super) fn footprint(&self, batch: &[PartitionRead]) -> &[ItemTag] {
        self.footprint.of(|| self.list(batch))
    }
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

#[cfg(test)]
mod tests {
    use anabranch_types::{Access, Key, TableId};

    use super::*;

    /// Nothing is left of the transaction before, whatever it had come to know.
    #[test]
    fn an_attempt_that_is_used_again_is_as_new() {
        let (node, partition) = (NodeId(1), PartitionId(1));
        let timestamp = Timestamp::new(7, node);
        let required = Required {
            prepared: timestamp,
            commit: timestamp,
        };
        let access = Access {
            guard: true,
            ..Access::default()
        };
        let read = Read::Point {
            table: TableId(0),
            key: Key::from_bytes(b"key"),
        };
        let reads = || {
            let read = read.clone();
            vec![PartitionRead {
                partition,
                read,
                access,
            }]
        };
        let mut attempt = Attempt::default();
        let answer = |attempt: &mut Attempt| {
            let topology = Topology::one_each(2);
            attempt.batch.begin(&topology, &attempt.views, reads());
            let part = &mut attempt.batch.parts[0];
            part.includes.name(timestamp);
            part.got = Some(Got {
                snapshot: CommitSequence(4),
                fetched: Vec::new(),
                findings: None,
            });
        };
        answer(&mut attempt);
        attempt.take_in();
        assert_eq!((attempt.views.len(), attempt.guards.len()), (1, 1));
        assert!(attempt.views[0].includes.contains(timestamp, NodeId(0)));
        answer(&mut attempt);
        let Batch {
            waiting,
            rounds,
            asked,
            fixed_since,
            ..
        } = &mut attempt.batch;
        (*waiting, *rounds, *fixed_since) = (2, 3, Some(Ticks(5)));
        asked.push((partition, timestamp));
        attempt.seen.reach.raise(partition, CommitSequence(3));
        attempt.seen.evidence.push(super::super::message::Evidence {
            commit: timestamp,
            siblings: Arc::new(super::super::Metadata::Small.of(timestamp, std::iter::empty())),
            past: None,
            alone: false,
        });
        let absent = [required.commit];
        super::super::quorum::deny(&mut attempt.doubts, 3, (partition, node), &absent);
        attempt.phase = Phase::Reading;
        attempt.began = Some((Ticks(1), Known::nothing(2)));
        assert!(attempt.is_small());
        attempt.clear();
        assert_eq!(format!("{attempt:?}"), format!("{:?}", Attempt::default()));
        attempt.guards.reserve(SMALL + 1);
        assert!(!attempt.is_small(), "nobody keeps what is large");
    }
}
