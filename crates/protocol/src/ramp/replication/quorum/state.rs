//! What an attempt knows of replicas in quorum operation: which were asked, which owe an answer, and what they have
//! reported.

use anabranch_storage::ItemTag;
use anabranch_types::{NodeId, PartitionId, Ticks, Timestamp};
use smallvec::SmallVec;

use crate::ramp::core::coordinator::attempt::{Attempt, Batch, Part, View};
use crate::ramp::core::coordinator::inclusion::Inclusion;
use crate::ramp::core::message::Decision;

/// A round of reads of one partition that is not answered.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    /// What a snapshot must include.
    pub(crate) required: Vec<Decision>,
    /// What some replica has reported to have been written there, among what is read, where metadata leave it open.
    pub(crate) wrote: SmallVec<[Timestamp; 2]>,
    /// When it began.
    pub(crate) began: Ticks,
    /// When a replica was asked last.
    pub(crate) since: Ticks,
    /// The replicas that were asked, the one asked longest ago first.
    pub(crate) asked: SmallVec<[NodeId; 3]>,
}

/// An answer that a replica owes an attempt. It answers in the order of the questions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingAnswer {
    pub(crate) from: NodeId,
    pub(crate) partition: PartitionId,
    /// The attempt does not wait for it any more.
    pub(crate) is_late: bool,
}

impl Round {
    /// What is known to have been written among what is read.
    pub(crate) fn wrote(&self) -> &[Timestamp] {
        &self.wrote
    }
}

impl Part {
    /// Whether its rows may come from this node.
    pub(crate) fn may_come_from(&self, node: NodeId) -> bool {
        let asked = |round: &Round| round.asked.contains(&node);
        self.replica == node || self.round.as_ref().is_some_and(|round| asked(round))
    }

    /// Whether it is known that one of these wrote what is read here.
    pub(crate) fn needs_one_of(&self, not_prepared: &[Timestamp]) -> bool {
        let round = self.round.as_ref();
        round.is_some_and(|round| {
            round
                .wrote
                .iter()
                .any(|commit| not_prepared.contains(commit))
        })
    }

    /// The rows come from this node. What is known of another replica's snapshot does not hold for this one.
    pub(crate) fn comes_from(&mut self, node: NodeId, now: Ticks) {
        if let Some(round) = self.round.take() {
            self.took = self.took.max(now.since(round.began));
        }
        if self.replica != node {
            self.replica = node;
            self.includes = Inclusion::default();
            self.got = None;
        }
    }
}

/// A part's rows come from this node. Answers that other replicas owe for it are late from now on.
pub(crate) fn take_replica_answer(
    part: &mut Part,
    pending: &mut [PendingAnswer],
    from: NodeId,
    now: Ticks,
) {
    part.comes_from(from, now);
    is_answered(pending, part.partition);
}

/// An answer has been taken: ends what the attempt need not wait for any more.
pub(crate) fn settle_answers(attempt: &mut Attempt) {
    if !waits_for_fixed(&attempt.pending, &attempt.views) {
        attempt.batch.fixed_since = None;
    }
    if !attempt.batch.look_ups.is_empty() {
        end_look_ups(attempt);
    }
}

/// A partition's rows are there: the attempt does not wait for other answers of its replicas.
pub(crate) fn is_answered(pending: &mut [PendingAnswer], partition: PartitionId) {
    for pending in pending
        .iter_mut()
        .filter(|pending| pending.partition == partition)
    {
        pending.is_late = true;
    }
}

/// Whether an attempt waits for the replica of a fixed snapshot.
pub(crate) fn waits_for_fixed(pending: &[PendingAnswer], views: &[View]) -> bool {
    let mut pending = pending.iter().filter(|pending| !pending.is_late);
    pending.any(|pending| views.iter().any(|view| view.partition == pending.partition))
}

/// What the replicas of a partition have reported of a transaction that may have written there.
#[derive(Clone, Debug)]
pub(crate) struct UncertainRead {
    pub(crate) partition: PartitionId,
    pub(crate) commit: Timestamp,
    /// The replicas that have not prepared it.
    pub(crate) denied: SmallVec<[NodeId; 3]>,
    /// What it wrote there, once that is settled: nothing, if a majority has not prepared it.
    pub(crate) written: Option<Box<[ItemTag]>>,
}

/// A question to the replicas of a partition: what did these transactions write there?
#[derive(Clone, Debug)]
pub(crate) struct LookUp {
    pub(crate) partition: PartitionId,
    pub(crate) required: Vec<Decision>,
    /// The replicas that were asked.
    pub(crate) asked: SmallVec<[NodeId; 3]>,
    /// The replica that was read, which is asked by a Get meanwhile.
    pub(crate) read: NodeId,
    /// When a replica was asked last.
    pub(crate) since: Ticks,
}

impl LookUp {
    /// Whether this node has been asked.
    pub(crate) fn has_asked(&self, node: NodeId) -> bool {
        self.asked.contains(&node)
    }
}

/// What a transaction wrote on a partition, as far as that is settled.
pub(crate) fn settled_writes(
    uncertain: &[UncertainRead],
    partition: PartitionId,
    commit: Timestamp,
) -> Option<&[ItemTag]> {
    uncertain_read(uncertain, partition, commit)?
        .written
        .as_deref()
}

pub(crate) fn uncertain_read(
    uncertain: &[UncertainRead],
    partition: PartitionId,
    commit: Timestamp,
) -> Option<&UncertainRead> {
    let mut uncertain = uncertain.iter();
    uncertain.find(|uncertain_read| {
        uncertain_read.partition == partition && uncertain_read.commit == commit
    })
}

pub(crate) fn uncertain_read_mut(
    uncertain: &mut Vec<UncertainRead>,
    partition: PartitionId,
    commit: Timestamp,
) -> &mut UncertainRead {
    let is_it = |uncertain_read: &UncertainRead| {
        uncertain_read.partition == partition && uncertain_read.commit == commit
    };
    let at = uncertain.iter().position(is_it).unwrap_or(uncertain.len());
    if at == uncertain.len() {
        uncertain.push(UncertainRead {
            partition,
            commit,
            denied: SmallVec::new(),
            written: None,
        });
    }
    &mut uncertain[at]
}

/// A replica has not prepared these. Returns how many of them a majority has not, as is known by now.
pub(crate) fn deny(
    uncertain: &mut Vec<UncertainRead>,
    replicas: usize,
    (partition, from): (PartitionId, NodeId),
    not_prepared: &[Timestamp],
) -> u64 {
    let mut settled = 0;
    for commit in not_prepared {
        let uncertain_read = uncertain_read_mut(uncertain, partition, *commit);
        if !uncertain_read.denied.contains(&from) {
            uncertain_read.denied.push(from);
        }
        if uncertain_read.written.is_none() && uncertain_read.denied.len() > replicas / 2 {
            uncertain_read.written = Some(Box::default());
            settled += 1;
        }
    }
    settled
}

/// Ends what was looked up and is settled by now, by whatever answer.
pub(crate) fn end_look_ups(attempt: &mut Attempt) {
    let Attempt {
        batch,
        views,
        uncertain,
        ..
    } = attempt;
    let Batch {
        parts,
        look_ups,
        waiting,
        ..
    } = batch;
    look_ups.retain(|look_up| {
        let partition = look_up.partition;
        let part = parts.iter().find(|part| part.partition == partition);
        let view = views.iter().find(|view| view.partition == partition);
        let part = part.map(|part| (&part.includes, part.replica));
        let view = view.map(|view| (&view.includes, view.replica));
        let is_open = |decision: &Decision| {
            let commit = decision.commit;
            let mut known = [part, view].into_iter().flatten();
            settled_writes(uncertain, partition, commit).is_none()
                && !known.any(|(includes, replica)| {
                    includes.contains(commit, replica) || includes.lacks(commit).is_some()
                })
        };
        let is_open = look_up.required.iter().any(is_open);
        *waiting -= usize::from(!is_open);
        is_open
    });
}
