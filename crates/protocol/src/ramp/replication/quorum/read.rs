//! Reads in quorum operation: any replica answers the first round.

use anabranch_types::{NodeId, PartitionId, Ticks, Timestamp};
use smallvec::SmallVec;

use crate::ramp::core::coordinator::attempt::{Attempt, Part};
use crate::ramp::core::message::{
    Decision, Got, Message, ReadPoint, ReadRequest, Refusal, Requirements, Stamped,
};
use crate::ramp::core::metadata::touches;
use crate::ramp::node::RampNode;
use crate::ramp::replication::quorum::state::{
    PendingAnswer, Round, deny, is_answered, settled_writes, waits_for_fixed,
};
use crate::ramp::replication::quorum::{AVOIDED, PATIENCE, SLOWER};
use crate::ramp::timer::RETRY;
use crate::{AbortReason, Outbox, TransactionId};

/// Reads.
impl RampNode {
    /// A read could not go on at these replicas. They may lag behind others, and only the writer's Commit would mend
    /// that: others are asked first for a while.
    pub(crate) fn avoid_replicas(&mut self, attempt: Option<&Attempt>, reason: &AbortReason) {
        let lags = matches!(reason, AbortReason::Fractured | AbortReason::Restarted);
        if let (Some(_), Some(attempt), true) = (self.options.quorum, attempt, lags) {
            for view in &attempt.views {
                self.avoid(view.replica);
            }
        }
    }

    /// Whether a transaction may begin to read at this replica.
    pub(crate) fn may_begin_at(&self, replica: NodeId) -> bool {
        self.avoided_since(replica).is_none()
    }

    /// Looks at an answer to a Get before the core takes it. In quorum operation the attempt may not wait for it any
    /// more, or has to ask another replica; then nothing is left to do. Otherwise returns which of the required
    /// transactions the replica has not prepared.
    pub(crate) fn admit_answer(
        &mut self,
        transaction: TransactionId,
        from: NodeId,
        result: &mut Result<Got, Refusal>,
        out: &mut Outbox<Stamped>,
    ) -> Option<Vec<Timestamp>> {
        if self.options.quorum.is_none() {
            return Some(Vec::new());
        }
        if !self.awaits_replica(transaction, from) {
            return None;
        }
        let not_prepared = (result.as_mut()).map_or_else(|_| Vec::new(), Got::take_not_prepared);
        let refused = matches!(result, Err(Refusal::NotHere));
        if refused || !not_prepared.is_empty() && !self.may_take(transaction, from, &not_prepared) {
            self.ask_another(transaction, from, out);
            return None;
        }
        Some(not_prepared)
    }

    /// The own replica has not prepared these transactions, which a fixed snapshot should include.
    pub(crate) fn deny_own(
        &mut self,
        attempt: &mut Attempt,
        partition: PartitionId,
        not_prepared: &[Timestamp],
    ) {
        let (replicas, own) = (self.replicas(), self.topology.owner(self.partition));
        let settled = deny(
            &mut attempt.uncertain,
            replicas,
            (partition, own),
            not_prepared,
        );
        self.count_denied(settled);
    }

    /// Asks other replicas than this one first for a while.
    fn avoid(&mut self, replica: NodeId) {
        self.avoided.retain(|(avoided, _)| *avoided != replica);
        self.avoided.push((replica, self.context.now));
    }

    /// Since when other replicas than this one are asked first, if they still are.
    pub(crate) fn avoided_since(&self, replica: NodeId) -> Option<Ticks> {
        let after = self.options.quorum?;
        let mut avoided = self.avoided.iter();
        let (_, since) = avoided.find(|(avoided, _)| *avoided == replica)?;
        (self.context.now.since(*since).0 < after.0.saturating_mul(AVOIDED)).then_some(*since)
    }

    /// Begins a round of one partition: asks the replica that was read there, or the near one.
    pub(crate) fn ask_any_replica(
        &mut self,
        transaction: TransactionId,
        attempt: &mut Attempt,
        index: usize,
        out: &mut Outbox<Stamped>,
    ) -> Result<(), Refusal> {
        let batch = &mut attempt.batch;
        let part = &mut batch.parts[index];
        // Everything that is known to have committed and to have written there: the snapshot of any replica that
        // answers includes all of it.
        let (partition, read) = (part.partition, part.read_set(&batch.reads));
        let mut wrote = SmallVec::new();
        let seen = attempt.observed.siblings.iter().filter(|seen| {
            match settled_writes(&attempt.uncertain, partition, seen.commit) {
                None => seen.siblings.may_touch(partition, read),
                Some(written) if touches(written, read) => {
                    wrote.push(seen.commit);
                    true
                }
                Some(_) => false,
            }
        });
        let required: Vec<Decision> = seen.map(|seen| seen.decision()).collect();
        let decision = required.iter().map(|decision| decision.commit);
        let decision = decision.map(|commit| (part.partition, commit));
        batch.asked.extend(decision);
        is_answered(&mut attempt.pending, part.partition);
        part.round = Some(Box::new(Round {
            required,
            wrote,
            began: self.context.now,
            since: self.context.now,
            asked: SmallVec::new(),
        }));
        if part.fixed.is_some() {
            batch.fixed_since = Some(self.context.now);
        }
        batch.waiting += 1;
        let part = &attempt.batch.parts[index];
        let replica = match part.fixed {
            Some(_) => part.replica,
            None => self.replica_with(attempt, part),
        };
        match self.ask_replica(transaction, attempt, (index, replica), out) {
            Err(Refusal::NotHere) => self.ask_next(transaction, attempt, index, out),
            asked => asked,
        }
    }

    /// Asks one replica; the own one answers at once.
    fn ask_replica(
        &mut self,
        transaction: TransactionId,
        attempt: &mut Attempt,
        (index, replica): (usize, NodeId),
        out: &mut Outbox<Stamped>,
    ) -> Result<(), Refusal> {
        let (replicas, leaves_uncertain) = (self.replicas(), self.leaves_uncertain());
        let batch = &mut attempt.batch;
        let part = &mut batch.parts[index];
        let round = part.round.as_mut().expect("a round has begun");
        let at = match (part.fixed, &part.got) {
            (Some(fixed), _) => ReadPoint::Fixed(fixed),
            (None, Some(got))
                if leaves_uncertain && round.wrote.is_empty() && part.replica == replica =>
            {
                ReadPoint::Revalidate(got.snapshot)
            }
            (None, _) => ReadPoint::Newest,
        };
        round.since = self.context.now;
        round.asked.retain(|asked| *asked != replica);
        round.asked.push(replica);
        let part = &batch.parts[index];
        let round = part.round.as_ref().expect("a round has begun");
        let (_, known) = attempt.began.as_ref().expect("set before the first read");
        if replica != self.topology.owner(self.partition) {
            let requirements = Requirements::of(round.required.clone(), None);
            let request = ReadRequest::of(part.list(&batch.reads), requirements, known);
            let get = Message::Get {
                transaction,
                at,
                request,
            };
            attempt.pending.push(PendingAnswer {
                from: replica,
                partition: part.partition,
                is_late: false,
            });
            self.send(replica, get, out);
            self.schedule_retry(out);
            return Ok(());
        }
        let reads = part.list(&batch.reads);
        let (context, required) = (&mut self.context, &round.required);
        let mut got = (self.participant).get(context, at, reads, required, known, None)?;
        let part = &mut batch.parts[index];
        let (partition, not_prepared) = (part.partition, got.take_not_prepared());
        let settled = deny(
            &mut attempt.uncertain,
            replicas,
            (partition, replica),
            &not_prepared,
        );
        if part.fixed.is_none() && part.needs_one_of(&not_prepared) {
            self.count_denied(settled);
            return Err(Refusal::NotHere);
        }
        part.comes_from(replica, self.context.now);
        let answered = batch.asked.extract_if(.., |(on, _)| *on == partition);
        let decision = answered.map(|(_, commit)| commit);
        let decision: SmallVec<[_; 8]> =
            decision.filter(|one| !not_prepared.contains(one)).collect();
        let renewed = part.accept(&mut attempt.observed, known, decision, got);
        self.counters.repairs += u64::from(renewed);
        is_answered(&mut attempt.pending, partition);
        if !waits_for_fixed(&attempt.pending, &attempt.views) {
            batch.fixed_since = None;
        }
        batch.waiting -= 1;
        self.count_denied(settled);
        Ok(())
    }

    /// Asks another replica, if there is one that does not owe an answer: first those not asked in this round, then
    /// those that lacked something, which may have arrived by now.
    fn ask_next(
        &mut self,
        transaction: TransactionId,
        attempt: &mut Attempt,
        index: usize,
        out: &mut Outbox<Stamped>,
    ) -> Result<(), Refusal> {
        let part = &attempt.batch.parts[index];
        let partition = part.partition;
        let owes = |replica: &NodeId| {
            let mut pending = attempt.pending.iter();
            pending.any(|pending| {
                pending.from == *replica && pending.partition == partition && !pending.is_late
            })
        };
        let replicas = self.topology.everywhere();
        let replicas = replicas.map(|owners| owners[partition.index()]);
        let free: SmallVec<[NodeId; 4]> = replicas.filter(|replica| !owes(replica)).collect();
        let was_asked = |replica: &NodeId| {
            part.round
                .as_ref()
                .is_some_and(|r| r.asked.contains(replica))
        };
        let (mut again, mut new): (SmallVec<[NodeId; 4]>, SmallVec<[NodeId; 4]>) =
            free.into_iter().partition(was_asked);
        new.sort_by_key(|replica| self.avoided_since(*replica));
        // The one asked longest ago comes first: a replica that lacks it may never get it.
        let asked_at = |replica: &NodeId| {
            let mut asked = part.round.iter().flat_map(|round| &round.asked);
            asked.position(|asked| asked == replica)
        };
        again.sort_by_key(asked_at);
        // The own replica answers at once, and need not be asked twice in a row.
        let own = self.topology.owner(self.partition);
        let again = again
            .into_iter()
            .filter(|replica| *replica != own || new.is_empty());
        for replica in new.clone().into_iter().chain(again) {
            match self.ask_replica(transaction, attempt, (index, replica), out) {
                Err(Refusal::NotHere) => {}
                asked => return asked,
            }
        }
        Ok(())
    }

    /// Asks other replicas for some parts of a batch, and finishes the round if all parts are there then.
    fn ask_others(
        &mut self,
        transaction: TransactionId,
        parts: &[usize],
        out: &mut Outbox<Stamped>,
    ) {
        let Some(mut attempt) = self.take_reading(transaction) else {
            return;
        };
        for &index in parts {
            let asked = self.ask_next(transaction, &mut attempt, index, out);
            if let Err(refusal) = asked {
                return self.restart_read(transaction, Some(&attempt), refusal.into(), out);
            }
        }
        self.wait_for_round(transaction, attempt, out);
    }

    /// A replica lacks something that is required.
    pub(crate) fn ask_another(
        &mut self,
        transaction: TransactionId,
        from: NodeId,
        out: &mut Outbox<Stamped>,
    ) {
        let attempt = self.attempts.get(&transaction);
        let Some(batch) = attempt.and_then(|attempt| attempt.reading()) else {
            return;
        };
        let mut parts = batch.parts.iter();
        let Some(index) = parts.position(|part| part.may_come_from(from)) else {
            return;
        };
        let asked = batch.parts[index].round.as_ref().map(|round| &round.asked);
        let replicas = self.topology.elsewhere.len() + 1;
        // A replica that was asked and lacks it may get it: it is asked again in a while.
        if asked.is_some_and(|asked| asked.len() < replicas) {
            self.counters.other_replicas += 1;
            self.ask_others(transaction, &[index], out);
        }
    }

    /// An answer of a replica has arrived; whether the attempt waits for that one.
    pub(crate) fn awaits_replica(&mut self, transaction: TransactionId, from: NodeId) -> bool {
        let attempt = match &mut self.current {
            Some((current, attempt)) if *current == transaction => Some(attempt),
            _ => self.attempts.get_mut(&transaction),
        };
        attempt.is_some_and(|attempt| {
            let oldest = attempt
                .pending
                .iter()
                .position(|pending| pending.from == from);
            oldest.is_some_and(|at| !attempt.pending.remove(at).is_late)
        })
    }

    /// A node has come back: what it owed is never answered.
    pub(crate) fn drop_pending(&mut self, node: NodeId) {
        let current = self.current.iter_mut().map(|(_, attempt)| attempt);
        // tidy: order-free because each is treated alike
        for attempt in self.attempts.values_mut().chain(current) {
            attempt.pending.retain(|pending| pending.from != node);
        }
    }

    /// A fixed snapshot is asked about: only its replica can answer.
    pub(crate) fn expect_fixed(
        &mut self,
        attempt: &mut Attempt,
        (replica, partition): (NodeId, PartitionId),
        out: &mut Outbox<Stamped>,
    ) {
        if self.options.quorum.is_none() {
            return;
        }
        attempt.batch.fixed_since = Some(self.context.now);
        attempt.pending.push(PendingAnswer {
            from: replica,
            partition,
            is_late: false,
        });
        self.schedule_retry(out);
    }

    pub(crate) fn schedule_retry(&mut self, out: &mut Outbox<Stamped>) {
        if let Some(after) = self.options.quorum
            && !self.retrying
        {
            self.retrying = true;
            out.timers.push((self.context.now + after, RETRY));
        }
    }

    /// Asks other replicas for what was not answered in time (speculative retry). A transaction that reads on at a
    /// silent replica restarts.
    pub(crate) fn retry(&mut self, out: &mut Outbox<Stamped>) {
        self.retrying = false;
        let Some(after) = self.options.quorum else {
            return;
        };
        let now = self.context.now;
        let mut waits = false;
        for transaction in self.attempts_in_order() {
            let attempt = self.attempts.get(&transaction);
            let Some(batch) = attempt.and_then(|attempt| attempt.reading()) else {
                continue;
            };
            let silent = |since: Ticks, times: u64| now.since(since).0 >= after.0 * times;
            // Where answers take longer, so does patience.
            let views = attempt.iter().flat_map(|attempt| &attempt.views);
            let took = views.map(|view| view.took).max().unwrap_or_default();
            let has_fallen_silent = |since: Ticks| {
                silent(since, PATIENCE) && now.since(since).0 >= took.0.saturating_mul(SLOWER)
            };
            if batch.fixed_since.is_some_and(has_fallen_silent) {
                let attempt = self.attempts.remove(&transaction);
                self.restart_read(transaction, attempt.as_deref(), AbortReason::Restarted, out);
                continue;
            }
            waits = true;
            let late = |part: &Part| {
                let round = part.round.as_ref().filter(|_| part.fixed.is_none());
                round.is_some_and(|round| silent(round.since, 1))
            };
            let parts = (0..).zip(&batch.parts).filter(|(_, part)| late(part));
            let parts: SmallVec<[usize; 4]> = parts.map(|(index, _)| index).collect();
            let last = |index: &usize| batch.parts[*index].round.as_ref()?.asked.last().copied();
            let silent: SmallVec<[NodeId; 4]> = parts.iter().filter_map(last).collect();
            silent.into_iter().for_each(|replica| self.avoid(replica));
            if !parts.is_empty() {
                self.counters.other_replicas += parts.len() as u64;
                self.ask_others(transaction, &parts, out);
            }
            self.look_up_again(transaction, after, out);
        }
        if waits {
            self.schedule_retry(out);
        }
    }
}
