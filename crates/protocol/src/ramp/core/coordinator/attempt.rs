//! One attempt of one transaction, as its coordinator knows it.

use std::cell::OnceCell;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use anabranch_storage::{CommitSequence, ItemTag};
use anabranch_types::{Effect, NodeId, PartitionId, Read, Ticks, Timestamp};
use smallvec::SmallVec;

use crate::ramp::core::coordinator::inclusion::Inclusion;
use crate::ramp::core::coordinator::observed::Observed;
use crate::ramp::core::extension::ReplicatedWrite;
use crate::ramp::core::extension::StableVector;
use crate::ramp::core::extension::{CausalContext, SequenceVector};
use crate::ramp::core::extension::{LookUp, PendingAnswer, Round, UncertainRead};
use crate::ramp::core::message::{Decision, Got, Participants, Work};
use crate::ramp::core::metadata::{Siblings, read_tag};
use crate::{AbortReason, PartitionRead, Slots, Topology};

/// The tags under which reads count. They are computed at the first use: most transactions meet no sibling metadata,
/// and then never use them.
#[derive(Clone, Default)]
pub(crate) struct LazyReadSet(OnceCell<Box<[ItemTag]>>);

impl LazyReadSet {
    fn of<'r, I: Iterator<Item = &'r Read>>(&self, reads: impl FnOnce() -> I) -> &[ItemTag] {
        self.0.get_or_init(|| reads().map(read_tag).collect())
    }
}

/// Follows from the reads, so states do not differ by whether it is computed.
impl fmt::Debug for LazyReadSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("-")
    }
}

/// What was read on a partition.
#[derive(Clone, Default)]
pub(crate) struct Reads {
    list: Vec<Read>,
    read_set: LazyReadSet,
}

impl fmt::Debug for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list.fmt(f)
    }
}

impl Reads {
    /// What they count as.
    pub(crate) fn read_set(&self) -> &[ItemTag] {
        self.read_set.of(|| self.list.iter())
    }
}

impl Extend<Read> for Reads {
    fn extend<R: IntoIterator<Item = Read>>(&mut self, more: R) {
        self.read_set = LazyReadSet::default();
        self.list.extend(more);
    }
}

/// So many entries, of parts, views and what else a transaction gathers, are not many.
const SMALL: usize = 256;

/// What a coordinator knows of a transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attempt {
    /// One for each partition of which the procedure has been given rows.
    pub(crate) views: SmallVec<[View; 2]>,
    /// What it is to see in every snapshot.
    pub(crate) observed: Observed,
    /// The guards that were read.
    pub(crate) guards: Vec<(PartitionId, Read)>,
    /// What is read, or was last: see [`Attempt::fold_batch`].
    pub(crate) batch: Batch,
    pub(crate) phase: Phase,
    /// When it began to read, and what was known to be stable then; `None` before.
    pub(crate) began: Option<(Ticks, StableVector)>,
    /// Quorum operation: the answers that replicas owe.
    pub(crate) pending: Vec<PendingAnswer>,
    /// Quorum operation: what replicas have reported of transactions where metadata leave it open.
    pub(crate) uncertain: Vec<UncertainRead>,
}

impl Attempt {
    /// What was known to be stable when it began to read.
    pub(crate) fn known(&self) -> &StableVector {
        &self.began.as_ref().expect("set before the first read").1
    }

    /// A partition as the procedure has seen it, if it has.
    pub(crate) fn view(&self, partition: PartitionId) -> Option<&View> {
        let mut views = self.views.iter();
        views.find(|view| view.partition == partition)
    }

    pub(crate) fn view_mut(&mut self, partition: PartitionId) -> Option<&mut View> {
        let mut views = self.views.iter_mut();
        views.find(|view| view.partition == partition)
    }

    /// Whether it has no more memory than most.
    pub(crate) fn is_small(&self) -> bool {
        let places = self.views.capacity() + self.batch.parts.capacity();
        let others = self.observed.siblings.capacity() + self.guards.capacity();
        places + others + self.batch.asked.capacity() <= SMALL
    }

    /// Makes it as new, for another transaction.
    pub(crate) fn clear(&mut self) {
        // The pattern is exhaustive: a new field needs a line here.
        let Attempt {
            views,
            observed,
            guards,
            batch,
            phase,
            began,
            pending,
            uncertain,
        } = self;
        views.clear();
        observed.siblings.clear();
        observed.covered = SequenceVector::default();
        guards.clear();
        batch.clear();
        *phase = Phase::Idle;
        *began = None;
        pending.clear();
        uncertain.clear();
    }

    /// The batch that it waits for, if it waits for one.
    pub(crate) fn reading(&self) -> Option<&Batch> {
        matches!(self.phase, Phase::Reading).then_some(&self.batch)
    }

    /// Moves the batch that the procedure was given last into its views. This is put off until the views are needed:
    /// most transactions read one batch and end.
    pub(crate) fn fold_batch(&mut self) {
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
                        replica: part.replica,
                        took: part.took,
                        snapshot: got.snapshot,
                        reads: Reads {
                            list,
                            read_set: part.read_set,
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
pub(crate) struct View {
    pub(crate) partition: PartitionId,
    /// Which node's snapshot it is: the owner's, or in quorum operation the replica's that was read.
    pub(crate) replica: NodeId,
    /// In quorum operation: how long its first rows took, at most.
    pub(crate) took: Ticks,
    pub(crate) snapshot: CommitSequence,
    pub(crate) reads: Reads,
    pub(crate) includes: Inclusion,
}

/// What the attempt waits for.
#[derive(Clone, Debug, Default)]
pub(crate) enum Phase {
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
        /// What it depends on.
        causal_context: Option<Arc<CausalContext>>,
    },
    /// Votes. The transaction is installed nowhere.
    Preparing(Box<Deciding>),
    /// Prepare-F and quorums: replicas that prepare it. It is in the log, and installed nowhere.
    Replicating(Box<ReplicatedWrite>),
    /// Acknowledgements. All participants have voted yes, and the own one has committed.
    Committing(Box<Deciding>),
}

/// One batch of reads. The procedure is given its rows all at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    /// Sorted by partition.
    pub(crate) reads: Vec<PartitionRead>,
    /// By partition.
    pub(crate) parts: SmallVec<[Part; 2]>,
    /// Answers to come.
    pub(crate) waiting: usize,
    /// Repairs so far.
    pub(crate) rounds: u32,
    /// What was required of snapshots in Gets that are not answered.
    pub(crate) asked: Vec<(PartitionId, Timestamp)>,
    /// In quorum operation: when a snapshot that is fixed was asked about last, if one was.
    pub(crate) fixed_since: Option<Ticks>,
    /// Quorum operation: what replicas are asked about uncertain reads.
    pub(crate) look_ups: Vec<LookUp>,
}

/// The part of a batch that one partition answers.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) partition: PartitionId,
    /// The node that has answered, or is asked first: the owner, or in quorum operation a replica.
    pub(crate) replica: NodeId,
    /// In quorum operation: the round that is not answered.
    pub(crate) round: Option<Box<Round>>,
    /// In quorum operation: how long the last round took.
    pub(crate) took: Ticks,
    /// Which of the batch's reads these are.
    pub(crate) reads: Range<u32>,
    /// What they count as: see [`Part::read_set`].
    pub(crate) read_set: LazyReadSet,
    /// The snapshot that rows given earlier have fixed.
    pub(crate) fixed: Option<CommitSequence>,
    pub(crate) includes: Inclusion,
    pub(crate) got: Option<Got>,
}

impl Batch {
    /// Begins a batch, by partition. A partition that was read before is read from the same replica. The reads are
    /// sorted by partition.
    pub(crate) fn begin(&mut self, topology: &Topology, views: &[View], reads: Vec<PartitionRead>) {
        debug_assert!(self.parts.is_empty(), "the batch before was taken in");
        let mut from = 0;
        for run in reads.chunk_by(|left, right| left.partition == right.partition) {
            let partition = run[0].partition;
            let view = views.iter().find(|view| view.partition == partition);
            let to = from + run.len() as u32;
            self.parts.push(Part {
                partition,
                replica: view.map_or_else(|| topology.owner(partition), |view| view.replica),
                reads: from..to,
                round: None,
                took: Ticks(0),
                read_set: LazyReadSet::default(),
                fixed: view.map(|view| view.snapshot),
                includes: Inclusion::default(),
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
    pub(crate) fn part(&self, partition: PartitionId) -> Option<&Part> {
        let mut parts = self.parts.iter();
        parts.find(|part| part.partition == partition)
    }
}

impl Part {
    /// What is read, of all that the batch reads.
    pub(crate) fn list<'b>(
        &self,
        batch: &'b [PartitionRead],
    ) -> impl ExactSizeIterator<Item = &'b Read> + Clone {
        let Range { start, end } = self.reads;
        batch[start as usize..end as usize]
            .iter()
            .map(|read| &read.read)
    }

    /// The tags under which it is in a read set.
    pub(crate) fn read_set(&self, batch: &[PartitionRead]) -> &[ItemTag] {
        self.read_set.of(|| self.list(batch))
    }
}

/// A transaction on its way through two phases.
#[derive(Clone, Debug)]
pub(crate) struct Deciding {
    pub(crate) prepared: Timestamp,
    /// Zero before the decision.
    pub(crate) commit: Timestamp,
    /// The commit timestamp of its origin cluster, if another cluster has committed it.
    pub(crate) origin_commit: Option<Timestamp>,
    /// What other clusters have to apply when it is decided.
    pub(crate) to_replicate: Vec<(PartitionId, Vec<Effect>)>,
    /// The other nodes that take part.
    pub(crate) others: Participants,
    /// Causal RAMP: what it depends on, if anything.
    pub(crate) causal_context: Option<Arc<CausalContext>>,
    /// What it wrote where, if it writes on several partitions, or others may depend on it.
    pub(crate) siblings: Option<Arc<Siblings>>,
    /// What the own partition is to do, once all others have voted yes.
    pub(crate) own: Option<(Work, Option<Arc<Siblings>>)>,
    /// The lowest vote, and the node that gave it.
    pub(crate) lowest: Option<(Timestamp, NodeId)>,
    pub(crate) waiting: usize,
    /// The others that have answered in this phase.
    pub(crate) answered: SmallVec<[NodeId; 4]>,
    /// No client waits for a reply: it was decided in an earlier incarnation of this node, or its client was answered
    /// at the decision.
    pub(crate) no_reply: bool,
    /// Whether some participant produces values that the reply has to carry.
    pub(crate) has_outputs: bool,
    pub(crate) slots: Slots,
    /// A participant refused Commit: the transaction is in doubt.
    pub(crate) refused: Option<AbortReason>,
}

impl Deciding {
    /// The two timestamps under which participants know it.
    pub(crate) fn decided(&self) -> Decision {
        Decision {
            prepared: self.prepared,
            commit: self.commit,
        }
    }

    /// A transaction that was decided in an earlier incarnation, or is installed after its client was answered. No
    /// client waits for a reply, and no participant has acknowledged it.
    pub(crate) fn unanswered(decided: Decision, others: Participants) -> Deciding {
        Deciding {
            prepared: decided.prepared,
            commit: decided.commit,
            origin_commit: None,
            to_replicate: Vec::new(),
            lowest: None,
            waiting: others.len(),
            others,
            causal_context: None,
            siblings: None,
            own: None,
            answered: SmallVec::new(),
            no_reply: true,
            has_outputs: false,
            slots: Slots::new(),
            refused: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_types::{Access, Key, TableId};

    use super::*;

    /// A reused attempt keeps nothing of the transaction before it.
    #[test]
    fn a_reused_attempt_is_empty() {
        let (node, partition) = (NodeId(1), PartitionId(1));
        let timestamp = Timestamp::new(7, node);
        let decision = Decision {
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
            part.includes.include(timestamp);
            part.got = Some(Got {
                snapshot: CommitSequence(4),
                fetched: Vec::new(),
                metadata: None,
            });
        };
        answer(&mut attempt);
        attempt.fold_batch();
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
        attempt.observed.covered.raise(partition, CommitSequence(3));
        attempt
            .observed
            .siblings
            .push(crate::ramp::core::message::SiblingMetadata {
                commit: timestamp,
                siblings: Arc::new(crate::ramp::Metadata::Small.of(timestamp, std::iter::empty())),
                causal_context: None,
                alone: false,
            });
        let not_prepared = [decision.commit];
        crate::ramp::replication::quorum::state::deny(
            &mut attempt.uncertain,
            3,
            (partition, node),
            &not_prepared,
        );
        attempt.phase = Phase::Reading;
        attempt.began = Some((Ticks(1), StableVector::nothing(2)));
        assert!(attempt.is_small());
        attempt.clear();
        assert_eq!(format!("{attempt:?}"), format!("{:?}", Attempt::default()));
        attempt.guards.reserve(SMALL + 1);
        assert!(!attempt.is_small(), "a large attempt is not kept");
    }
}
