//! What majorities settle where metadata do not say what was written (RAMP-Small, RAMP-Hybrid; ramp.txt §6.2).
//!
//! A reader that has met a transaction elsewhere asks a copy of another partition for it. RAMP-Fast's metadata
//! say that it wrote there, so a copy that has not prepared it is one that has not heard of it, and another one
//! is asked. Without them it may have written nothing there. One copy cannot tell; but whoever is shown anywhere
//! is prepared at a majority of the copies of each partition that it writes (QUORUM-I1), so what a majority has
//! not prepared has written nothing there. Copies are asked in the second round, as many as make a majority with
//! the one that was read. What one of them says is true for ever, whatever was asked: it is kept for as long as
//! the reader runs, and no answer is ever too late.

use anabranch_storage::ItemTag;
use anabranch_types::{NodeId, PartitionId, Ticks, Timestamp};
use smallvec::SmallVec;

use crate::ramp::attempt::{Attempt, Batch, Part, Phase};
use crate::ramp::message::{LookedUp, Message, Refusal, Required, Stamped};
use crate::ramp::{Metadata, RampNode};
use crate::{Outbox, TransactionId};

/// What the copies of a partition have said of a transaction that may have written there.
#[derive(Clone, Debug)]
pub(in crate::ramp) struct Doubt {
    partition: PartitionId,
    commit: Timestamp,
    /// Who has not prepared it.
    denied: SmallVec<[NodeId; 3]>,
    /// What it wrote there, once that is settled: nothing, if a majority has not prepared it.
    written: Option<Box<[ItemTag]>>,
}

/// Copies of a partition that are asked about transactions that may have written there.
#[derive(Clone, Debug)]
pub(in crate::ramp) struct LookUp {
    partition: PartitionId,
    require: Vec<Required>,
    /// Who was asked.
    asked: SmallVec<[NodeId; 3]>,
    /// The copy that was read, which is asked by a Get meanwhile.
    read: NodeId,
    /// When somebody was asked last.
    since: Ticks,
}

impl LookUp {
    /// Whether this node has been asked.
    pub(in crate::ramp) fn has_asked(&self, node: NodeId) -> bool {
        self.asked.contains(&node)
    }
}

/// What a transaction wrote on a partition, as far as that is settled.
pub(in crate::ramp) fn settled(
    doubts: &[Doubt],
    partition: PartitionId,
    commit: Timestamp,
) -> Option<&[ItemTag]> {
    doubt(doubts, partition, commit)?.written.as_deref()
}

fn doubt(doubts: &[Doubt], partition: PartitionId, commit: Timestamp) -> Option<&Doubt> {
    let mut doubts = doubts.iter();
    doubts.find(|doubt| doubt.partition == partition && doubt.commit == commit)
}

fn doubt_mut(doubts: &mut Vec<Doubt>, partition: PartitionId, commit: Timestamp) -> &mut Doubt {
    let is_it = |doubt: &Doubt| doubt.partition == partition && doubt.commit == commit;
    let at = doubts.iter().position(is_it).unwrap_or(doubts.len());
    if at == doubts.len() {
        doubts.push(Doubt {
            partition,
            commit,
            denied: SmallVec::new(),
            written: None,
        });
    }
    &mut doubts[at]
}

/// A copy has not prepared these. Returns how many of them a majority has not, as is known by now.
pub(in crate::ramp) fn deny(
    doubts: &mut Vec<Doubt>,
    copies: usize,
    (partition, from): (PartitionId, NodeId),
    absent: &[Timestamp],
) -> u64 {
    let mut settled = 0;
    for commit in absent {
        let doubt = doubt_mut(doubts, partition, *commit);
        if !doubt.denied.contains(&from) {
            doubt.denied.push(from);
        }
        if doubt.written.is_none() && doubt.denied.len() > copies / 2 {
            doubt.written = Some(Box::default());
            settled += 1;
        }
    }
    settled
}

/// Ends what was looked up and is settled by now, by whatever answer.
pub(in crate::ramp) fn end_look_ups(attempt: &mut Attempt) {
    let Attempt {
        batch,
        views,
        doubts,
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
        let part = part.map(|part| (&part.includes, part.copy));
        let view = view.map(|view| (&view.includes, view.copy));
        let is_open = |required: &Required| {
            let commit = required.commit;
            let mut known = [part, view].into_iter().flatten();
            settled(doubts, partition, commit).is_none()
                && !known.any(|(includes, copy)| {
                    includes.contains(commit, copy) || includes.lacks(commit).is_some()
                })
        };
        let is_open = look_up.require.iter().any(is_open);
        *waiting -= usize::from(!is_open);
        is_open
    });
}

impl RampNode {
    /// How many copies each partition has.
    pub(in crate::ramp) fn copies(&self) -> usize {
        self.topology.elsewhere.len() + 1
    }

    /// Whether metadata leave it to copies to say what was written.
    pub(in crate::ramp) fn leaves_doubts(&self) -> bool {
        self.options.quorum.is_some() && !self.options.metadata.is_exact()
    }

    /// Of which partition a node has a copy.
    fn copied_by(&self, node: NodeId) -> Option<PartitionId> {
        let mut clusters = self.topology.everywhere();
        let at = clusters.find_map(|owners| owners.iter().position(|owner| *owner == node))?;
        u16::try_from(at).ok().map(PartitionId)
    }

    /// Counts what a filter has let pass, and no copy has prepared.
    pub(in crate::ramp) fn count_denied(&mut self, settled: u64) {
        if matches!(self.options.metadata, Metadata::Hybrid(_)) {
            self.counters.false_positives += settled;
        }
    }

    /// A copy has answered a Get, and has not prepared some of what was required. Whether its rows can be
    /// taken all the same: it has everything of which another copy has said that it wrote what is read.
    pub(in crate::ramp) fn may_take(
        &mut self,
        transaction: TransactionId,
        from: NodeId,
        absent: &[Timestamp],
    ) -> bool {
        let (copies, partition) = (self.copies(), self.copied_by(from));
        let (Some(attempt), Some(partition)) = (self.attempts.get_mut(&transaction), partition)
        else {
            return true;
        };
        let settled = deny(&mut attempt.doubts, copies, (partition, from), absent);
        let part = attempt.reading().and_then(|batch| batch.part(partition));
        let taken = part.is_none_or(|part| part.fixed.is_some() || !part.needs_one_of(absent));
        self.count_denied(settled);
        taken
    }

    /// The copy to be asked first for a part: the one that was read, unless it has denied what is known to
    /// have been written there.
    pub(in crate::ramp) fn copy_with(&self, attempt: &Attempt, part: &Part) -> NodeId {
        let wrote = part.round.iter().flat_map(|round| round.wrote());
        let doubts = wrote.filter_map(|commit| doubt(&attempt.doubts, part.partition, *commit));
        let doubts: SmallVec<[&Doubt; 2]> = doubts.collect();
        let denies = |copy: &NodeId| {
            let denied = doubts.iter().filter(|doubt| doubt.denied.contains(copy));
            denied.count()
        };
        let clusters = self.topology.everywhere();
        let copies = clusters.map(|owners| owners[part.partition.index()]);
        let avoided = |copy: &NodeId| self.avoided_since(*copy);
        let best = copies.min_by_key(|copy| (denies(copy), avoided(copy), *copy != part.copy));
        best.unwrap_or(part.copy)
    }

    /// The second round for one partition where metadata leave a doubt: what is known to have been written
    /// there is asked for as under RAMP-Fast; of all else a majority of the copies has to say what it was.
    pub(in crate::ramp) fn repair_in_doubt(
        &mut self,
        transaction: TransactionId,
        attempt: &mut Attempt,
        (partition, required): (PartitionId, &[Required]),
        out: &mut Outbox<Stamped>,
    ) -> Result<(), Refusal> {
        let mut parts = attempt.batch.parts.iter();
        let part = parts.position(|part| part.partition == partition);
        let unread = part.filter(|at| attempt.batch.parts[*at].fixed.is_none());
        let wrote =
            |required: &Required| settled(&attempt.doubts, partition, required.commit).is_some();
        if required.iter().any(wrote) {
            return match unread {
                Some(at) => self.ask_for(transaction, attempt, at, out),
                // It is not in the snapshot, and wrote what was read in it.
                None => Err(Refusal::Fractured),
            };
        }
        let read = match unread {
            Some(at) => attempt.batch.parts[at].copy,
            None => attempt.view(partition).expect("it was read").copy,
        };
        let has_denied = |required: &&Required| {
            let doubt = doubt(&attempt.doubts, partition, required.commit);
            doubt.is_some_and(|doubt| doubt.denied.contains(&read))
        };
        let new = required.iter().filter(|required| !has_denied(required));
        let new: Vec<Required> = new.copied().collect();
        match unread {
            _ if new.is_empty() => {}
            Some(at) => self.ask_for(transaction, attempt, at, out)?,
            None => self.ask_fixed(transaction, attempt, (partition, &new), out)?,
        }
        attempt.batch.look_ups.push(LookUp {
            partition,
            require: required.to_vec(),
            asked: SmallVec::new(),
            read,
            since: self.context.now,
        });
        attempt.batch.waiting += 1;
        // The own copy answers at once, so there may be nothing left to ask.
        for _ in 0..self.copies() / 2 {
            end_look_ups(attempt);
            let mut open = attempt.batch.look_ups.iter();
            match open.position(|look_up| look_up.partition == partition) {
                Some(index) => self.look_up_next(transaction, attempt, index, out)?,
                None => return Ok(()),
            }
        }
        end_look_ups(attempt);
        Ok(())
    }

    /// Asks another copy: the own one first, and the one that was read last, which is asked anyway.
    fn look_up_next(
        &mut self,
        transaction: TransactionId,
        attempt: &mut Attempt,
        index: usize,
        out: &mut Outbox<Stamped>,
    ) -> Result<(), Refusal> {
        let own = self.topology.owner(self.partition);
        let look_up = &mut attempt.batch.look_ups[index];
        look_up.since = self.context.now;
        let partition = look_up.partition;
        let copies = self.topology.everywhere();
        let copies = copies.map(|owners| owners[partition.index()]);
        let left = copies.filter(|copy| !look_up.asked.contains(copy));
        let avoided = |copy: &NodeId| self.avoided_since(*copy);
        let next = left.min_by_key(|copy| (*copy == look_up.read, avoided(copy), *copy != own));
        let Some(next) = next else {
            return Ok(());
        };
        look_up.asked.push(next);
        let require = look_up.require.clone();
        if next == own {
            let told = self.participant.look_up(&self.context, &require)?;
            self.hear(attempt, (partition, own), told);
            return Ok(());
        }
        let message = Message::LookUp {
            transaction,
            require,
        };
        self.send(next, message, out);
        self.retry_later(out);
        Ok(())
    }

    /// Takes note of what a copy has said.
    fn hear(
        &mut self,
        attempt: &mut Attempt,
        (partition, from): (PartitionId, NodeId),
        told: LookedUp,
    ) {
        for wrote in told.written {
            let doubt = doubt_mut(&mut attempt.doubts, partition, wrote.commit);
            doubt.written = Some(wrote.written);
        }
        let copies = self.copies();
        let settled = deny(&mut attempt.doubts, copies, (partition, from), &told.absent);
        self.count_denied(settled);
    }

    /// A copy has said what it has got.
    pub(in crate::ramp) fn handle_looked_up(
        &mut self,
        transaction: TransactionId,
        from: NodeId,
        result: Result<LookedUp, Refusal>,
        out: &mut Outbox<Stamped>,
    ) {
        let Some(partition) = self.copied_by(from) else {
            return;
        };
        let Some(mut attempt) = self.take_reading(transaction) else {
            return;
        };
        match result {
            Ok(told) => self.hear(&mut attempt, (partition, from), told),
            Err(refusal) => {
                if let Refusal::Forgotten(known) = &refusal {
                    self.context.stability.heard_known(known);
                }
                return self.cannot_read(transaction, Some(&attempt), refusal.into(), out);
            }
        }
        self.read_on(transaction, attempt, out);
    }

    /// An attempt that waits for answers to reads, if it does.
    pub(in crate::ramp) fn take_reading(
        &mut self,
        transaction: TransactionId,
    ) -> Option<Box<Attempt>> {
        self.attempts.get(&transaction)?.reading()?;
        let mut attempt = self.attempts.remove(&transaction)?;
        attempt.phase = Phase::Idle;
        Some(attempt)
    }

    /// Something was settled, perhaps: gives the rows to the procedure if nothing is waited for any more.
    fn read_on(
        &mut self,
        transaction: TransactionId,
        mut attempt: Box<Attempt>,
        out: &mut Outbox<Stamped>,
    ) {
        end_look_ups(&mut attempt);
        if attempt.batch.waiting == 0 {
            return self.close(transaction, attempt, out);
        }
        attempt.phase = Phase::Reading;
        self.wait(transaction, attempt);
    }

    /// Asks another copy where those that were asked stay silent.
    pub(in crate::ramp) fn look_up_again(
        &mut self,
        transaction: TransactionId,
        after: Ticks,
        out: &mut Outbox<Stamped>,
    ) {
        let now = self.context.now;
        let attempt = self.attempts.get(&transaction);
        let Some(batch) = attempt.and_then(|attempt| attempt.reading()) else {
            return;
        };
        let is_late = |look_up: &LookUp| now.since(look_up.since).0 >= after.0;
        let late = (0..).zip(&batch.look_ups).filter(|(_, one)| is_late(one));
        let late: SmallVec<[usize; 2]> = late.map(|(index, _)| index).collect();
        if late.is_empty() {
            return;
        }
        let Some(mut attempt) = self.take_reading(transaction) else {
            return;
        };
        self.counters.other_copies += late.len() as u64;
        for index in late {
            let asked = self.look_up_next(transaction, &mut attempt, index, out);
            if let Err(refusal) = asked {
                return self.cannot_read(transaction, Some(&attempt), refusal.into(), out);
            }
        }
        self.read_on(transaction, attempt, out);
    }
}
