//! Uncertain reads in quorum operation: a majority settles what was written where metadata leave it open (RAMP-Small,
//! RAMP-Hybrid; ramp.txt §6.2).
//!
//! A reader that has met a transaction elsewhere asks a replica of another partition for it. RAMP-Fast's metadata say
//! that it wrote there, so a replica that has not prepared it lags, and another one is asked. Without such metadata
//! it may have written nothing there, and one replica cannot tell the difference. But what is visible anywhere is
//! prepared at a majority of the replicas of each partition that it writes (QUORUM-I1); so what a majority has not
//! prepared has written nothing there. The second round asks as many replicas as make a majority with the one that
//! was read. An answer stays true for ever, whatever the question was: it is kept for as long as the reader runs, and
//! none is too late.

use anabranch_types::{NodeId, PartitionId, Ticks, Timestamp};
use smallvec::SmallVec;

use crate::ramp::core::coordinator::attempt::{Attempt, Part, Phase};
use crate::ramp::core::message::{Decision, LookedUp, Message, Refusal, Stamped};
use crate::ramp::core::metadata::Metadata;
use crate::ramp::node::RampNode;
use crate::ramp::replication::quorum::state::{
    LookUp, UncertainRead, deny, end_look_ups, settled_writes, uncertain_read, uncertain_read_mut,
};
use crate::{Outbox, TransactionId};

impl RampNode {
    /// Another node's reader asks what this replica has of transactions that may have written here.
    pub(crate) fn handle_look_up(
        &mut self,
        from: NodeId,
        transaction: TransactionId,
        required: &[Decision],
        out: &mut Outbox<Stamped>,
    ) {
        let result = self.participant.look_up(&self.context, required);
        let looked_up = Message::LookedUp {
            transaction,
            result,
        };
        self.send(from, looked_up, out);
    }

    /// How many replicas each partition has.
    pub(crate) fn replicas(&self) -> usize {
        self.topology.elsewhere.len() + 1
    }

    /// Whether metadata leave it to replicas to say what was written.
    pub(crate) fn leaves_uncertain(&self) -> bool {
        self.options.quorum.is_some() && !self.options.metadata.is_exact()
    }

    /// The partition that a node has a replica of.
    fn partition_of(&self, node: NodeId) -> Option<PartitionId> {
        let mut clusters = self.topology.everywhere();
        let at = clusters.find_map(|owners| owners.iter().position(|owner| *owner == node))?;
        u16::try_from(at).ok().map(PartitionId)
    }

    /// Counts what a filter let pass and no replica has prepared.
    pub(crate) fn count_denied(&mut self, settled: u64) {
        if matches!(self.options.metadata, Metadata::Hybrid(_)) {
            self.counters.false_positives += settled;
        }
    }

    /// A replica has answered a Get, and has not prepared some of what was required. Whether its rows can be taken
    /// all the same: it has everything that another replica has reported to have written what is read.
    pub(crate) fn may_take(
        &mut self,
        transaction: TransactionId,
        from: NodeId,
        not_prepared: &[Timestamp],
    ) -> bool {
        let (replicas, partition) = (self.replicas(), self.partition_of(from));
        let (Some(attempt), Some(partition)) = (self.attempts.get_mut(&transaction), partition)
        else {
            return true;
        };
        let settled = deny(
            &mut attempt.uncertain,
            replicas,
            (partition, from),
            not_prepared,
        );
        let part = attempt.reading().and_then(|batch| batch.part(partition));
        let applied =
            part.is_none_or(|part| part.fixed.is_some() || !part.needs_one_of(not_prepared));
        self.count_denied(settled);
        applied
    }

    /// The replica to be asked first for a part: the one that was read, unless it lacks what is known to have been
    /// written there.
    pub(crate) fn replica_with(&self, attempt: &Attempt, part: &Part) -> NodeId {
        let wrote = part.round.iter().flat_map(|round| round.wrote());
        let uncertain =
            wrote.filter_map(|commit| uncertain_read(&attempt.uncertain, part.partition, *commit));
        let uncertain: SmallVec<[&UncertainRead; 2]> = uncertain.collect();
        let denies = |replica: &NodeId| {
            let denied = uncertain
                .iter()
                .filter(|uncertain_read| uncertain_read.denied.contains(replica));
            denied.count()
        };
        let clusters = self.topology.everywhere();
        let replicas = clusters.map(|owners| owners[part.partition.index()]);
        let avoided = |replica: &NodeId| self.avoided_since(*replica);
        let best = replicas
            .min_by_key(|replica| (denies(replica), avoided(replica), *replica != part.replica));
        best.unwrap_or(part.replica)
    }

    /// The second round for one partition in an uncertain read. What is known to have been written there is asked for
    /// as under RAMP-Fast; of all else a majority of the replicas has to say what it wrote.
    pub(crate) fn ask_majority(
        &mut self,
        transaction: TransactionId,
        attempt: &mut Attempt,
        (partition, decision): (PartitionId, &[Decision]),
        out: &mut Outbox<Stamped>,
    ) -> Result<(), Refusal> {
        let mut parts = attempt.batch.parts.iter();
        let part = parts.position(|part| part.partition == partition);
        let unread = part.filter(|at| attempt.batch.parts[*at].fixed.is_none());
        let wrote = |decision: &Decision| {
            settled_writes(&attempt.uncertain, partition, decision.commit).is_some()
        };
        if decision.iter().any(wrote) {
            return match unread {
                Some(at) => self.ask_any_replica(transaction, attempt, at, out),
                // It is not in the snapshot, and wrote what was read in it.
                None => Err(Refusal::Fractured),
            };
        }
        let read = match unread {
            Some(at) => attempt.batch.parts[at].replica,
            None => attempt.view(partition).expect("it was read").replica,
        };
        let has_denied = |decision: &&Decision| {
            let uncertain_read = uncertain_read(&attempt.uncertain, partition, decision.commit);
            uncertain_read.is_some_and(|uncertain_read| uncertain_read.denied.contains(&read))
        };
        let new = decision.iter().filter(|decision| !has_denied(decision));
        let new: Vec<Decision> = new.copied().collect();
        match unread {
            _ if new.is_empty() => {}
            Some(at) => self.ask_any_replica(transaction, attempt, at, out)?,
            None => self.verify_fixed(transaction, attempt, (partition, &new), out)?,
        }
        attempt.batch.look_ups.push(LookUp {
            partition,
            required: decision.to_vec(),
            asked: SmallVec::new(),
            read,
            since: self.context.now,
        });
        attempt.batch.waiting += 1;
        // The own replica answers at once, so there may be nothing left to ask.
        for _ in 0..self.replicas() / 2 {
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

    /// Asks another replica: the own one first; last the one that was read, which is asked anyway.
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
        let replicas = self.topology.everywhere();
        let replicas = replicas.map(|owners| owners[partition.index()]);
        let left = replicas.filter(|replica| !look_up.asked.contains(replica));
        let avoided = |replica: &NodeId| self.avoided_since(*replica);
        let next = left
            .min_by_key(|replica| (*replica == look_up.read, avoided(replica), *replica != own));
        let Some(next) = next else {
            return Ok(());
        };
        look_up.asked.push(next);
        let required = look_up.required.clone();
        if next == own {
            let reported = self.participant.look_up(&self.context, &required)?;
            self.learn_looked_up(attempt, (partition, own), reported);
            return Ok(());
        }
        let message = Message::LookUp {
            transaction,
            required,
        };
        self.send(next, message, out);
        self.schedule_retry(out);
        Ok(())
    }

    /// Takes note of what a replica has reported.
    fn learn_looked_up(
        &mut self,
        attempt: &mut Attempt,
        (partition, from): (PartitionId, NodeId),
        reported: LookedUp,
    ) {
        for wrote in reported.written {
            let uncertain_read =
                uncertain_read_mut(&mut attempt.uncertain, partition, wrote.commit);
            uncertain_read.written = Some(wrote.written);
        }
        let replicas = self.replicas();
        let settled = deny(
            &mut attempt.uncertain,
            replicas,
            (partition, from),
            &reported.not_prepared,
        );
        self.count_denied(settled);
    }

    /// A replica has answered what it has prepared.
    pub(crate) fn handle_looked_up(
        &mut self,
        transaction: TransactionId,
        from: NodeId,
        result: Result<LookedUp, Refusal>,
        out: &mut Outbox<Stamped>,
    ) {
        let Some(partition) = self.partition_of(from) else {
            return;
        };
        let Some(mut attempt) = self.take_reading(transaction) else {
            return;
        };
        match result {
            Ok(reported) => self.learn_looked_up(&mut attempt, (partition, from), reported),
            Err(refusal) => {
                if let Refusal::Forgotten(known) = &refusal {
                    self.context.stability.learn_vector(known);
                }
                return self.restart_read(transaction, Some(&attempt), refusal.into(), out);
            }
        }
        self.read_on(transaction, attempt, out);
    }

    /// An attempt that waits for answers to reads, if it does.
    pub(crate) fn take_reading(&mut self, transaction: TransactionId) -> Option<Box<Attempt>> {
        self.attempts.get(&transaction)?.reading()?;
        let mut attempt = self.attempts.remove(&transaction)?;
        attempt.phase = Phase::Idle;
        Some(attempt)
    }

    /// Finishes the round if the attempt waits for nothing any more.
    fn read_on(
        &mut self,
        transaction: TransactionId,
        mut attempt: Box<Attempt>,
        out: &mut Outbox<Stamped>,
    ) {
        end_look_ups(&mut attempt);
        self.wait_for_round(transaction, attempt, out);
    }

    /// Asks another replica where those that were asked do not answer.
    pub(crate) fn look_up_again(
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
        self.counters.other_replicas += late.len() as u64;
        for index in late {
            let asked = self.look_up_next(transaction, &mut attempt, index, out);
            if let Err(refusal) = asked {
                return self.restart_read(transaction, Some(&attempt), refusal.into(), out);
            }
        }
        self.read_on(transaction, attempt, out);
    }
}
