//! Reads at the coordinator (ramp.txt, Algorithm 1, GET_ALL).
//!
//! A batch of reads takes one round, and another one where its snapshots do not fit together:
//! [`RampNode::read`] → `first_round` → `send_get` … `handle_got` → `finish_round`, and from there to `deliver`, or
//! by `second_round` once more to `send_get`. What a snapshot lacks is asked for by the name of the transaction; the
//! owner answers from a newer snapshot, which also serves counters and ranges, where the paper fetches one version.
//!
//! A read of the own partition alone takes the short way, `read_own`.

use anabranch_storage::ItemTag;
use anabranch_types::{NodeId, PartitionId, Ticks, Timestamp};
use smallvec::SmallVec;

use crate::ramp::core::coordinator::attempt::{Attempt, Part, Phase, Reads, View};
use crate::ramp::core::coordinator::inclusion::Inclusion;
use crate::ramp::core::coordinator::observed::Observed;
use crate::ramp::core::extension::{
    StableVector, freshness, settle_answers, settled_writes, take_replica_answer,
};
use crate::ramp::core::message::{
    Decision, Freshness, Got, Message, ReadPoint, ReadRequest, Refusal, Requirements,
    SiblingMetadata, Stamped,
};
use crate::ramp::core::metadata::touches;
use crate::ramp::node::RampNode;
use crate::{AbortReason, Outbox, PartitionRead, Reply, TransactionId};

/// GET_ALL: the first round, and where it ends.
impl RampNode {
    /// Reads a batch, and answers with its rows, all from one atomic view with those of earlier batches.
    pub(crate) fn read(
        &mut self,
        transaction: TransactionId,
        reads: Vec<PartitionRead>,
        out: &mut Outbox<Stamped>,
    ) {
        let mut attempt = self.take_or_begin(transaction);
        if attempt.began.is_none() {
            let known = self.context.stability.known().clone();
            attempt.began = Some((self.context.now, known));
        }
        attempt.fold_batch();
        let here = self.owner(self.partition);
        let local = reads.iter().all(|read| read.partition == self.partition)
            && attempt.views.iter().all(|view| view.replica == here)
            && (!attempt.views.is_empty() || self.may_begin_at(here));
        match local {
            true => self.read_own(transaction, attempt, reads, out),
            false => self.first_round(transaction, attempt, reads, out),
        }
    }

    /// The hot path: the transaction has read nothing but the own partition. One snapshot is atomic by itself.
    fn read_own(
        &mut self,
        transaction: TransactionId,
        mut attempt: Box<Attempt>,
        reads: Vec<PartitionRead>,
        out: &mut Outbox<Stamped>,
    ) {
        let view = attempt.views.first();
        let at = view.map_or(ReadPoint::Newest, |view| ReadPoint::Fixed(view.snapshot));
        let asked = reads.iter().map(|read| &read.read);
        let (context, known) = (&mut self.context, attempt.known());
        let got = match self.participant.get(context, at, asked, &[], known, None) {
            Ok(got) => got,
            Err(refusal) => return self.abort(transaction, refusal.into(), out),
        };
        if attempt.views.is_empty() {
            attempt.views.push(View {
                partition: self.partition,
                replica: self.owner(self.partition),
                took: Ticks(0),
                snapshot: got.snapshot,
                reads: Reads::default(),
                includes: Inclusion::default(),
            });
        }
        for read in &reads {
            if read.access.guard {
                attempt.guards.push((read.partition, read.read.clone()));
            }
        }
        let view = &mut attempt.views[0];
        if self.topology.owners.len() > 1 {
            view.reads.extend(reads.into_iter().map(|read| read.read));
            let (_, known) = attempt.began.as_ref().expect("set before the first read");
            let siblings = got.metadata.map(|found| found.siblings).unwrap_or_default();
            (attempt.observed).add(known, &mut view.includes, siblings);
        }
        out.replies.push((transaction, Reply::Fetched(got.fetched)));
        self.keep_idle(transaction, attempt);
    }

    /// Asks each partition of the batch. The own one comes first, so that what its snapshot includes is required of
    /// the others at once.
    fn first_round(
        &mut self,
        transaction: TransactionId,
        mut attempt: Box<Attempt>,
        reads: Vec<PartitionRead>,
        out: &mut Outbox<Stamped>,
    ) {
        attempt.batch.begin(&self.topology, &attempt.views, reads);
        let own = |part: &Part| part.partition == self.partition;
        let own = attempt.batch.parts.iter().position(own).unwrap_or(0);
        for turn in 0..attempt.batch.parts.len() {
            let at = match turn {
                0 => own,
                turn if turn <= own => turn - 1,
                turn => turn,
            };
            if let Err(refusal) = self.send_get(transaction, &mut attempt, at, &[], out) {
                return self.restart_read(transaction, Some(&attempt), refusal.into(), out);
            }
        }
        self.wait_for_round(transaction, attempt, out);
    }

    /// Waits for the answers of a round; finishes it at once if none is to come.
    pub(crate) fn wait_for_round(
        &mut self,
        transaction: TransactionId,
        mut attempt: Box<Attempt>,
        out: &mut Outbox<Stamped>,
    ) {
        if attempt.batch.waiting == 0 {
            return self.finish_round(transaction, attempt, out);
        }
        attempt.phase = Phase::Reading;
        self.keep_waiting(transaction, attempt);
    }

    /// Takes an answer; with the last one of the round, finishes it.
    pub(crate) fn handle_got(
        &mut self,
        transaction: TransactionId,
        from: NodeId,
        stable: Timestamp,
        mut result: Result<Got, Refusal>,
        out: &mut Outbox<Stamped>,
    ) {
        let Some(not_prepared) = self.admit_answer(transaction, from, &mut result, out) else {
            return;
        };
        // Another answer of the same round may have aborted the transaction.
        let Some(attempt) = self.attempts.get_mut(&transaction) else {
            return;
        };
        if attempt.reading().is_none() {
            return;
        }
        match result {
            Ok(got) => {
                let stamp = (stable, self.context.now);
                let renewed = attempt.take_answer(from, stamp, &not_prepared, got);
                self.counters.repairs += u64::from(renewed);
            }
            Err(refusal) => {
                let attempt = self.attempts.remove(&transaction);
                if let Refusal::Forgotten(known) = &refusal {
                    self.context.stability.learn_vector(known);
                }
                return self.restart_read(transaction, attempt.as_deref(), refusal.into(), out);
            }
        }
        if attempt.batch.waiting == 0 {
            let mut attempt = (self.attempts.remove(&transaction)).expect("it was just found");
            attempt.phase = Phase::Idle;
            self.finish_round(transaction, attempt, out);
        }
    }

    /// All answers of a round are there. If they are an atomic view together with what the procedure has been
    /// given, it gets the rows; otherwise another round repairs them, or the transaction restarts.
    pub(crate) fn finish_round(
        &mut self,
        transaction: TransactionId,
        mut attempt: Box<Attempt>,
        out: &mut Outbox<Stamped>,
    ) {
        loop {
            let missing = self.missing(&attempt);
            if missing.is_empty() {
                return self.deliver(transaction, attempt, out);
            }
            attempt.batch.rounds += 1;
            self.counters.second_rounds += 1;
            if attempt.batch.rounds > self.options.rounds_max {
                return self.abort(transaction, AbortReason::Fractured, out);
            }
            for (partition, missing) in missing {
                let asked = self.second_round(transaction, &mut attempt, partition, &missing, out);
                if let Err(refusal) = asked {
                    return self.restart_read(transaction, Some(&attempt), refusal.into(), out);
                }
            }
            if attempt.batch.waiting > 0 {
                attempt.phase = Phase::Reading;
                return self.keep_waiting(transaction, attempt);
            }
        }
    }

    /// The snapshots cannot be made to fit together: the transaction restarts.
    pub(crate) fn restart_read(
        &mut self,
        transaction: TransactionId,
        attempt: Option<&Attempt>,
        reason: AbortReason,
        out: &mut Outbox<Stamped>,
    ) {
        self.avoid_replicas(attempt, &reason);
        self.abort(transaction, reason, out);
    }

    fn deliver(
        &mut self,
        transaction: TransactionId,
        mut attempt: Box<Attempt>,
        out: &mut Outbox<Stamped>,
    ) {
        let began = attempt.began.as_ref().map(|(began, _)| *began);
        let began = began.unwrap_or(self.context.now);
        if self.context.now.since(began) > self.options.retain {
            // Owners may have forgotten sibling metadata that these answers needed (RAMP-I6).
            return self.abort(transaction, AbortReason::BelowFloor, out);
        }
        let mut fetched = Vec::with_capacity(attempt.batch.reads.len());
        for part in &mut attempt.batch.parts {
            let got = part.got.as_mut();
            let got = got.expect("every part is answered before delivery");
            fetched.append(&mut got.fetched);
        }
        attempt.phase = Phase::Idle;
        out.replies.push((transaction, Reply::Fetched(fetched)));
        self.keep_idle(transaction, attempt);
    }
}

/// What one round asks of one partition.
impl RampNode {
    /// Asks the owner of one part for its rows, in a snapshot that includes `missing` and whatever else is known
    /// to have committed and to have written there.
    fn send_get(
        &mut self,
        transaction: TransactionId,
        attempt: &mut Attempt,
        index: usize,
        missing: &[Decision],
        out: &mut Outbox<Stamped>,
    ) -> Result<(), Refusal> {
        if self.options.quorum.is_some() {
            return self.ask_any_replica(transaction, attempt, index, out);
        }
        let part = &attempt.batch.parts[index];
        let partition = part.partition;
        let at = match (part.fixed, &part.got) {
            (Some(fixed), _) => ReadPoint::Fixed(fixed),
            (None, Some(got)) if !self.options.metadata.is_exact() || missing.is_empty() => {
                ReadPoint::Revalidate(got.snapshot)
            }
            (None, _) => ReadPoint::Newest,
        };
        let freshness = match at {
            ReadPoint::Newest => None,
            _ => freshness(attempt, partition, Some(part), attempt.view(partition)),
        };
        let required = self.required(attempt, index, at, missing)?;
        if partition == self.partition {
            return self.get_own(attempt, index, at, &required, freshness.as_ref());
        }
        let (_, known) = attempt.began.as_ref().expect("set before the first read");
        let batch = &mut attempt.batch;
        let commits = required.iter().map(|decision| (partition, decision.commit));
        batch.asked.extend(commits);
        batch.waiting += 1;
        let part = &batch.parts[index];
        let requirements = Requirements::of(required, freshness);
        let request = ReadRequest::of(part.list(&batch.reads), requirements, known);
        let get = Message::Get {
            transaction,
            at,
            request,
        };
        self.send(part.replica, get, out);
        Ok(())
    }

    /// The transactions that a part's snapshot has to include, as far as it is not known to.
    fn required(
        &self,
        attempt: &mut Attempt,
        index: usize,
        at: ReadPoint,
        missing: &[Decision],
    ) -> Result<Vec<Decision>, Refusal> {
        let (part, reads) = (&mut attempt.batch.parts[index], &attempt.batch.reads);
        let mut views = attempt.views.iter();
        let view = views.find(|view| view.partition == part.partition);
        let mut required: Vec<Decision> = missing.to_vec();
        for seen in &attempt.observed.siblings {
            let commit = seen.commit;
            if part.includes.contains(commit, part.replica)
                || view.is_some_and(|view| view.includes.contains(commit, part.replica))
                || required.iter().any(|decision| decision.commit == commit)
                || !(seen.siblings).may_touch(part.partition, part.read_set(reads))
            {
                continue;
            }
            if let Some(written) = view.and_then(|view| view.includes.lacks(commit)) {
                match touches(written, part.read_set(reads)) {
                    true => return Err(Refusal::Fractured),
                    false => continue,
                }
            }
            if at == ReadPoint::Newest && self.context.stability.known().includes(commit) {
                // It is installed there, so every snapshot from now on includes it.
                part.includes.include(commit);
            } else {
                required.push(seen.decision());
            }
        }
        Ok(required)
    }

    /// The same question to the own partition, answered at once.
    fn get_own(
        &mut self,
        attempt: &mut Attempt,
        index: usize,
        at: ReadPoint,
        required: &[Decision],
        freshness: Option<&Freshness>,
    ) -> Result<(), Refusal> {
        let (part, reads) = (&mut attempt.batch.parts[index], &attempt.batch.reads);
        let (_, known) = attempt.began.as_ref().expect("set before the first read");
        let (context, asked) = (&mut self.context, part.list(reads));
        let got = (self.participant).get(context, at, asked, required, known, freshness)?;
        let commits = required.iter().map(|decision| decision.commit);
        let unchanged_until = got.unchanged_until();
        let renewed = part.accept(&mut attempt.observed, known, commits, got);
        let (partition, is_fixed) = (part.partition, part.fixed.is_some());
        if is_fixed && let Some(view) = attempt.view_mut(partition) {
            view.includes.extend_unchanged(unchanged_until);
        }
        self.counters.repairs += u64::from(renewed);
        self.count_false_positives();
        Ok(())
    }

    /// The second round for one partition: a newer snapshot if the procedure has seen no rows of the older one;
    /// otherwise the question whether the fixed snapshot includes what is missing after all.
    fn second_round(
        &mut self,
        transaction: TransactionId,
        attempt: &mut Attempt,
        partition: PartitionId,
        missing: &[Decision],
        out: &mut Outbox<Stamped>,
    ) -> Result<(), Refusal> {
        if self.leaves_uncertain() {
            let missing = (partition, missing);
            return self.ask_majority(transaction, attempt, missing, out);
        }
        let mut parts = attempt.batch.parts.iter();
        let part = parts.position(|part| part.partition == partition);
        match part.filter(|at| attempt.batch.parts[*at].fixed.is_none()) {
            Some(at) => self.send_get(transaction, attempt, at, missing, out),
            None => self.verify_fixed(transaction, attempt, (partition, missing), out),
        }
    }

    /// Asks whether a snapshot that the procedure has been given rows of includes what is missing after all.
    pub(crate) fn verify_fixed(
        &mut self,
        transaction: TransactionId,
        attempt: &mut Attempt,
        (partition, missing): (PartitionId, &[Decision]),
        out: &mut Outbox<Stamped>,
    ) -> Result<(), Refusal> {
        let part = attempt.batch.part(partition);
        let view = attempt.view(partition);
        let freshness = freshness(attempt, partition, part, view);
        let view = view.expect("what is fixed has been given to the procedure");
        let is_lacking = |includes: &Inclusion| {
            let mut missing = missing.iter();
            missing.any(|decision| includes.lacks(decision.commit).is_some())
        };
        if is_lacking(&view.includes) || part.is_some_and(|part| is_lacking(&part.includes)) {
            // The owner has reported already that the snapshot lacks it, and it wrote what was read.
            return Err(Refusal::Fractured);
        }
        let (replica, at) = (view.replica, ReadPoint::Fixed(view.snapshot));
        if replica == self.topology.owner(self.partition) {
            return self.verify_own(attempt, partition, missing, freshness);
        }
        let batch = &mut attempt.batch;
        let commits = missing.iter().map(|decision| (partition, decision.commit));
        batch.asked.extend(commits);
        batch.waiting += 1;
        let (_, known) = attempt.began.as_ref().expect("set before the first read");
        let requirements = Requirements::of(missing.to_vec(), freshness);
        let request = ReadRequest::of(std::iter::empty(), requirements, known);
        let get = Message::Get {
            transaction,
            at,
            request,
        };
        self.expect_fixed(attempt, (replica, partition), out);
        self.send(replica, get, out);
        Ok(())
    }

    /// The same question to the own partition, answered at once.
    fn verify_own(
        &mut self,
        attempt: &mut Attempt,
        partition: PartitionId,
        missing: &[Decision],
        freshness: Option<Freshness>,
    ) -> Result<(), Refusal> {
        let not_prepared = self.participant.not_prepared(&self.context, missing);
        let view = attempt.view_mut(partition).expect("it is fixed");
        for decision in missing {
            if not_prepared.contains(&decision.commit) {
                continue;
            }
            let (context, snapshot) = (&mut self.context, view.snapshot);
            let lacks = self.participant.look_back(context, snapshot, *decision)?;
            let commit = std::iter::once(decision.commit);
            view.includes.learn(commit, lacks.into_iter().collect());
        }
        if let Some(freshness) = freshness {
            self.verify_freshness(attempt, partition, &freshness)?;
        }
        self.deny_own(attempt, partition, &not_prepared);
        Ok(())
    }
}

/// Whether the snapshots fit together.
impl RampNode {
    /// By partition, what the snapshot there has to include and is not known to: each transaction that another
    /// snapshot shows, or that one of these depends on, and that wrote, or may have written, what was read there.
    /// RAMP-I4 asks for none. A partition without any has a snapshot that is not known to be as new as the
    /// dependencies ask (CAUSAL-I4).
    pub(crate) fn missing(&self, attempt: &Attempt) -> Vec<(PartitionId, Vec<Decision>)> {
        let mut missing: Vec<(PartitionId, Vec<Decision>)> = Vec::new();
        if attempt.observed.is_empty() {
            return missing;
        }
        let batch = &attempt.batch;
        let unread = |view: &&View| batch.part(view.partition).is_none();
        let parts = batch.parts.iter();
        let parts = parts.map(|part| (part.partition, Some(part), attempt.view(part.partition)));
        let views = attempt.views.iter().filter(unread);
        let read = parts.chain(views.map(|view| (view.partition, None, Some(view))));
        let read: SmallVec<[_; 4]> = read.collect();
        for (partition, part, view) in &read {
            if freshness(attempt, *partition, *part, *view).is_some() {
                missing.push((*partition, Vec::new()));
            }
        }
        for seen in &attempt.observed.siblings {
            for (partition, part, view) in &read {
                let replica = (view.map(|view| view.replica)).or(part.map(|part| part.replica));
                let replica = replica.expect("it was read");
                let written = settled_writes(&attempt.uncertain, *partition, seen.commit);
                let part = part.map(|part| (part, &*batch.reads));
                if !is_missing(seen, replica, part, *view, written) {
                    continue;
                }
                match missing.iter_mut().find(|(at, _)| at == partition) {
                    Some((_, list)) => list.push(seen.decision()),
                    None => missing.push((*partition, vec![seen.decision()])),
                }
            }
        }
        missing
    }
}

/// Whether a partition's snapshot is not known to include a transaction that wrote what was read there, or may
/// have. What it wrote may be settled by replicas.
fn is_missing(
    seen: &SiblingMetadata,
    owner: NodeId,
    part: Option<(&Part, &[PartitionRead])>,
    view: Option<&View>,
    settled: Option<&[ItemTag]>,
) -> bool {
    let commit = seen.commit;
    let of_part = part.map(|(part, _)| &part.includes);
    let of_view = view.map(|view| &view.includes);
    let known = || [of_part, of_view].into_iter().flatten();
    if known().any(|includes| includes.contains(commit, owner)) {
        return false;
    }
    let written = known().find_map(|includes| includes.lacks(commit));
    let written = written.or(settled);
    let may_touch = |partition, read: &[ItemTag]| match written {
        Some(written) => touches(written, read),
        None => seen.siblings.may_touch(partition, read),
    };
    part.is_some_and(|(part, reads)| may_touch(part.partition, part.read_set(reads)))
        || view.is_some_and(|view| may_touch(view.partition, view.reads.read_set()))
}

impl Attempt {
    /// Takes a node's answer to a Get, sent when the node knew its transactions up to `stable` to be stable. Of what
    /// was required, the node has not prepared some. True if the answer replaces an earlier one.
    fn take_answer(
        &mut self,
        from: NodeId,
        (stable, now): (Timestamp, Ticks),
        not_prepared: &[Timestamp],
        got: Got,
    ) -> bool {
        let batch = &mut self.batch;
        batch.waiting -= 1;
        let mut parts = batch.parts.iter_mut();
        let part = parts.find(|part| part.may_come_from(from));
        let mut views = self.views.iter_mut();
        let view = views.find(|view| view.replica == from);
        let partition = (part.as_ref().map(|part| part.partition))
            .or(view.as_ref().map(|view| view.partition))
            .expect("only partitions that were read are asked");
        let mut required: SmallVec<[Timestamp; 8]> = SmallVec::new();
        if !batch.asked.is_empty() {
            let answered = batch.asked.extract_if(.., |(on, _)| *on == partition);
            let answered = answered.map(|(_, commit)| commit);
            required.extend(answered.filter(|one| !not_prepared.contains(one)));
        }
        let unchanged_until = got.unchanged_until();
        let mut renewed = false;
        match part {
            Some(part) => {
                take_replica_answer(part, &mut self.pending, from, now);
                let first = part.got.is_none();
                let (_, known) = self.began.as_ref().expect("set before the first read");
                renewed = part.accept(&mut self.observed, known, required, got);
                if let Some(view) = view {
                    // What was read before was asked about, too.
                    view.includes.extend_unchanged(unchanged_until);
                }
                if part.fixed.is_none() && (first || renewed) {
                    // What the owner knew when it took this snapshot, and no other.
                    part.includes.stable = stable;
                }
            }
            None => {
                let view = view.expect("only partitions that were read are asked");
                let missing = got.metadata.map(|found| found.missing);
                view.includes.learn(required, missing.unwrap_or_default());
                view.includes.extend_unchanged(unchanged_until);
            }
        }
        settle_answers(self);
        renewed
    }
}

impl Part {
    /// Takes an answer: the rows, what it says of the transactions that were required, and what its snapshot shows
    /// to be committed. True if it replaces an earlier one.
    pub(crate) fn accept(
        &mut self,
        observed: &mut Observed,
        known: &StableVector,
        required: impl IntoIterator<Item = Timestamp>,
        mut got: Got,
    ) -> bool {
        let earlier = self.got.as_ref().map(|earlier| earlier.snapshot);
        let renewed = earlier.is_some_and(|earlier| earlier != got.snapshot);
        if renewed {
            // What the earlier one lacked may be in this one.
            self.includes.renew();
        }
        self.includes.extend_unchanged(got.unchanged_until());
        match got.metadata.take() {
            None => self.includes.learn(required, Vec::new()),
            Some(found) => {
                self.includes.learn(required, found.missing);
                observed.add(known, &mut self.includes, found.siblings);
            }
        }
        if earlier.is_none() || renewed {
            self.got = Some(got);
        }
        renewed
    }
}
