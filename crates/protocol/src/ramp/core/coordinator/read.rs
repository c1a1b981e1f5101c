//! The rounds of reads of the transactions that run at a node (ramp.txt, Algorithm 1, GET_ALL).

use anabranch_storage::ItemTag;
use anabranch_types::{NodeId, PartitionId, Ticks, Timestamp};
use smallvec::SmallVec;

use crate::ramp::collection::stable_vector::StableVector;
use crate::ramp::core::coordinator::attempt::{Attempt, Inclusion, Part, Phase, Reads, View};
use crate::ramp::core::coordinator::observed::Observed;
use crate::ramp::core::message::{
    Decision, Freshness, Got, Message, ReadPoint, ReadRequest, Refusal, Requirements,
    SiblingMetadata, Stamped,
};
use crate::ramp::core::metadata::touches;
use crate::ramp::node::RampNode;
use crate::ramp::replication::quorum::state::{
    deny, end_look_ups, is_answered, settled, waits_for_fixed,
};
use crate::{AbortReason, Outbox, PartitionRead, Reply, TransactionId};

impl RampNode {
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
        let own = self.partition;
        let here = self.owner(own);
        let local = reads.iter().all(|read| read.partition == own)
            && attempt.views.iter().all(|view| view.replica == here)
            && (!attempt.views.is_empty() || self.avoided_since(here).is_none());
        if local {
            self.read_here(transaction, attempt, reads, out);
        } else {
            self.read_batch(transaction, attempt, reads, out);
        }
    }

    /// The hot path: nothing but the own partition is known of the transaction.
    fn read_here(
        &mut self,
        transaction: TransactionId,
        mut attempt: Box<Attempt>,
        reads: Vec<PartitionRead>,
        out: &mut Outbox<Stamped>,
    ) {
        let view = attempt.views.first();
        let at = view.map_or(ReadPoint::Newest, |view| ReadPoint::Fixed(view.snapshot));
        let asked = reads.iter().map(|read| &read.read);
        let got =
            match self
                .participant
                .get(&mut self.context, at, asked, &[], attempt.known(), None)
            {
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
            let seen = got.metadata.map(|found| found.siblings);
            attempt
                .observed
                .add(known, &mut view.includes, seen.unwrap_or_default());
        }
        out.replies.push((transaction, Reply::Fetched(got.fetched)));
        self.keep_idle(transaction, attempt);
    }

    /// The first round of a batch that reaches beyond the own partition.
    fn read_batch(
        &mut self,
        transaction: TransactionId,
        mut attempt: Box<Attempt>,
        reads: Vec<PartitionRead>,
        out: &mut Outbox<Stamped>,
    ) {
        attempt.batch.begin(&self.topology, &attempt.views, reads);
        // The own partition first: what it shows can be required of the others at once.
        let own = |part: &Part| part.partition == self.partition;
        let own = attempt.batch.parts.iter().position(own).unwrap_or(0);
        for turn in 0..attempt.batch.parts.len() {
            let at = match turn {
                0 => own,
                turn if turn <= own => turn - 1,
                turn => turn,
            };
            if let Err(refusal) = self.ask(transaction, &mut attempt, at, &[], out) {
                return self.cannot_read(transaction, Some(&attempt), refusal.into(), out);
            }
        }
        if attempt.batch.waiting == 0 {
            return self.close(transaction, attempt, out);
        }
        attempt.phase = Phase::Reading;
        self.keep_waiting(transaction, attempt);
    }

    /// Asks the owner of one part for its rows, in a snapshot that includes whatever is known to
    /// have committed and to have written there, and `missing`.
    fn ask(
        &mut self,
        transaction: TransactionId,
        attempt: &mut Attempt,
        index: usize,
        missing: &[Decision],
        out: &mut Outbox<Stamped>,
    ) -> Result<(), Refusal> {
        if self.options.quorum.is_some() {
            return self.ask_for(transaction, attempt, index, out);
        }
        let part = &attempt.batch.parts[index];
        let owner = part.replica;
        let view = attempt
            .views
            .iter()
            .find(|view| view.partition == part.partition);
        let at = match (part.fixed, &part.got) {
            (Some(fixed), _) => ReadPoint::Fixed(fixed),
            (None, Some(got)) if !self.options.metadata.is_exact() || missing.is_empty() => {
                ReadPoint::Revalidate(got.snapshot)
            }
            (None, _) => ReadPoint::Newest,
        };
        let freshness = match at {
            ReadPoint::Newest => None,
            _ => freshness(attempt, part.partition, Some(part), view),
        };
        let (part, reads) = (&mut attempt.batch.parts[index], &attempt.batch.reads);
        let mut required: Vec<Decision> = missing.to_vec();
        for seen in &attempt.observed.siblings {
            if part.includes.contains(seen.commit, owner)
                || view.is_some_and(|view| view.includes.contains(seen.commit, owner))
                || required
                    .iter()
                    .any(|decision| decision.commit == seen.commit)
                || !seen
                    .siblings
                    .may_touch(part.partition, part.read_set(reads))
            {
                continue;
            }
            if let Some(written) = view.and_then(|view| view.includes.lacks(seen.commit)) {
                match touches(written, part.read_set(reads)) {
                    true => return Err(Refusal::Fractured),
                    false => continue,
                }
            }
            if at == ReadPoint::Newest && self.context.stability.known().includes(seen.commit) {
                // It is committed there; whatever snapshot is taken from now on includes it.
                part.includes.name(seen.commit);
            } else {
                required.push(seen.decision());
            }
        }
        if part.partition == self.partition {
            let reads = part.list(reads);
            let (_, known) = attempt.began.as_ref().expect("set before the first read");
            let (context, freshness) = (&mut self.context, freshness.as_ref());
            let got = self
                .participant
                .get(context, at, reads, &required, known, freshness)?;
            let decision = required.iter().map(|decision| decision.commit);
            let unchanged_until = got.unchanged_until();
            let renewed = part.accept(&mut attempt.observed, known, decision, got);
            let (partition, is_fixed) = (part.partition, part.fixed.is_some());
            if is_fixed && let Some(view) = attempt.view_mut(partition) {
                view.includes.unchanged_until = view.includes.unchanged_until.max(unchanged_until);
            }
            self.counters.repairs += u64::from(renewed);
            self.count_false_positives();
        } else {
            let (_, known) = attempt.began.as_ref().expect("set before the first read");
            let (partition, asked) = (part.partition, part.list(reads));
            let decision = required.iter().map(|decision| (partition, decision.commit));
            attempt.batch.asked.extend(decision);
            attempt.batch.waiting += 1;
            let request = ReadRequest::of(asked, Requirements::of(required, freshness), known);
            let get = Message::Get {
                transaction,
                at,
                request,
            };
            self.send(owner, get, out);
        }
        Ok(())
    }

    pub(crate) fn handle_got(
        &mut self,
        transaction: TransactionId,
        from: NodeId,
        stable: Timestamp,
        result: Result<Got, Refusal>,
        out: &mut Outbox<Stamped>,
    ) {
        if self.options.quorum.is_some() && !self.awaits_replica(transaction, from) {
            return;
        }
        let mut result = result;
        let absent = (result.as_mut()).map_or_else(|_| Vec::new(), Got::take_absent);
        if !absent.is_empty() && !self.may_take(transaction, from, &absent) {
            return self.ask_another(transaction, from, out);
        }
        // The transaction may have been aborted by another answer of the same round.
        let Some(attempt) = self.attempts.get_mut(&transaction) else {
            return;
        };
        if attempt.reading().is_none() {
            return;
        }
        if let Err(Refusal::NotHere) = result {
            return self.ask_another(transaction, from, out);
        }
        let got = match result {
            Ok(got) => got,
            Err(refusal) => {
                let attempt = self.attempts.remove(&transaction);
                if let Refusal::Forgotten(known) = &refusal {
                    self.context.stability.learn_vector(known);
                }
                return self.cannot_read(transaction, attempt.as_deref(), refusal.into(), out);
            }
        };
        let batch = &mut attempt.batch;
        batch.waiting -= 1;
        let mut parts = batch.parts.iter_mut();
        let part = parts.find(|part| part.may_come_from(from));
        let mut views = attempt.views.iter_mut();
        let view = views.find(|view| view.replica == from);
        let partition = (part.as_ref().map(|part| part.partition))
            .or(view.as_ref().map(|view| view.partition))
            .expect("only partitions that were read are asked");
        let mut decision: SmallVec<[Timestamp; 8]> = SmallVec::new();
        if !batch.asked.is_empty() {
            let answered = batch.asked.extract_if(.., |(on, _)| *on == partition);
            let answered = answered.map(|(_, commit)| commit);
            decision.extend(answered.filter(|one| !absent.contains(one)));
        }
        let unchanged_until = got.unchanged_until();
        match part {
            Some(part) => {
                part.comes_from(from, self.context.now);
                is_answered(&mut attempt.pending, partition);
                let first = part.got.is_none();
                let (_, known) = attempt.began.as_ref().expect("set before the first read");
                let renewed = part.accept(&mut attempt.observed, known, decision, got);
                if let Some(view) = view {
                    // What was read before was asked about, too.
                    view.includes.unchanged_until =
                        view.includes.unchanged_until.max(unchanged_until);
                }
                if part.fixed.is_none() && (first || renewed) {
                    // What the owner knew when it took this snapshot, and no other.
                    part.includes.stable = stable;
                }
                self.counters.repairs += u64::from(renewed);
            }
            None => {
                let view = view.expect("only partitions that were read are asked");
                let missing = got.metadata.map(|found| found.missing);
                view.includes.learn(decision, missing.unwrap_or_default());
                view.includes.unchanged_until = view.includes.unchanged_until.max(unchanged_until);
            }
        }
        if !waits_for_fixed(&attempt.pending, &attempt.views) {
            batch.fixed_since = None;
        }
        if !attempt.batch.look_ups.is_empty() {
            end_look_ups(attempt);
        }
        if attempt.batch.waiting == 0 {
            let mut attempt = self
                .attempts
                .remove(&transaction)
                .expect("it was just found");
            attempt.phase = Phase::Idle;
            self.close(transaction, attempt, out);
        }
    }

    /// All answers are there: gives them to the procedure if they are an atomic view together with
    /// what it has been given before, and repairs or restarts otherwise.
    pub(crate) fn close(
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
            for (partition, decision) in missing {
                let repaired = self.repair(transaction, &mut attempt, partition, &decision, out);
                if let Err(refusal) = repaired {
                    return self.cannot_read(transaction, Some(&attempt), refusal.into(), out);
                }
            }
            if attempt.batch.waiting > 0 {
                attempt.phase = Phase::Reading;
                return self.keep_waiting(transaction, attempt);
            }
        }
    }

    /// By partition: what some snapshot includes or follows, and the snapshot there is not known to include
    /// although it wrote what was read there, or may have (RAMP-I4 asks for none). A partition without
    /// any has a snapshot that is not known to be as good as what is followed (CAUSAL-I4).
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
                let written = settled(&attempt.uncertain, *partition, seen.commit);
                let part = part.map(|part| (part, &*batch.reads));
                if !is_missing(seen, replica, part, *view, written) {
                    continue;
                }
                let decision = seen.decision();
                match missing.iter_mut().find(|(at, _)| at == partition) {
                    Some((_, list)) => list.push(decision),
                    None => missing.push((*partition, vec![decision])),
                }
            }
        }
        missing
    }

    /// The second round for one partition: a newer snapshot if nobody has seen the older one,
    /// otherwise the question whether the fixed one includes what is missing after all.
    fn repair(
        &mut self,
        transaction: TransactionId,
        attempt: &mut Attempt,
        partition: PartitionId,
        decision: &[Decision],
        out: &mut Outbox<Stamped>,
    ) -> Result<(), Refusal> {
        if self.leaves_uncertain() {
            let uncertain = (partition, decision);
            return self.repair_uncertain(transaction, attempt, uncertain, out);
        }
        let mut parts = attempt.batch.parts.iter();
        let part = parts.position(|part| part.partition == partition);
        match part.filter(|at| attempt.batch.parts[*at].fixed.is_none()) {
            Some(at) => self.ask(transaction, attempt, at, decision, out),
            None => self.ask_fixed(transaction, attempt, (partition, decision), out),
        }
    }

    /// Asks whether the snapshot that the procedure has been given rows of includes what is missing after all.
    pub(crate) fn ask_fixed(
        &mut self,
        transaction: TransactionId,
        attempt: &mut Attempt,
        (partition, decision): (PartitionId, &[Decision]),
        out: &mut Outbox<Stamped>,
    ) -> Result<(), Refusal> {
        let (part, view) = (attempt.batch.part(partition), attempt.view(partition));
        let freshness = freshness(attempt, partition, part, view);
        let (_, known) = attempt.began.as_ref().expect("set before the first read");
        let mut views = attempt.views.iter_mut();
        let view = views
            .find(|view| view.partition == partition)
            .expect("what is fixed has been given to the procedure");
        let mut parts = attempt.batch.parts.iter_mut();
        let part = parts.find(|part| part.partition == partition);
        let part = part.map(|part| &mut part.includes);
        let is_known = |includes: &Inclusion| {
            let mut lacked = decision.iter();
            lacked.any(|decision| includes.lacks(decision.commit).is_some())
        };
        if is_known(&view.includes) || part.as_deref().is_some_and(is_known) {
            // It wrote what was read there: nobody needs to be asked.
            return Err(Refusal::Fractured);
        }
        let replica = view.replica;
        if replica == self.topology.owner(self.partition) {
            let absent = self.participant.absent(&self.context, decision);
            let here = decision
                .iter()
                .filter(|decision| !absent.contains(&decision.commit));
            for decision in here {
                let (context, snapshot) = (&mut self.context, view.snapshot);
                let lacks = self.participant.look_back(context, snapshot, *decision)?;
                let commit = std::iter::once(decision.commit);
                view.includes.learn(commit, lacks.into_iter().collect());
            }
            if let Some(freshness) = freshness {
                if !self.participant.is_unchanged(view.snapshot, &freshness)? {
                    return Err(Refusal::Fractured);
                }
                view.includes.unchanged_until = freshness.sequence;
                if let Some(part) = part {
                    part.unchanged_until = freshness.sequence;
                }
            }
            let replicas = self.replicas();
            let settled = deny(
                &mut attempt.uncertain,
                replicas,
                (partition, replica),
                &absent,
            );
            self.count_denied(settled);
            return Ok(());
        }
        let at = ReadPoint::Fixed(view.snapshot);
        let batch = &mut attempt.batch;
        batch
            .asked
            .extend(decision.iter().map(|decision| (partition, decision.commit)));
        batch.waiting += 1;
        let requirements = Requirements::of(decision.to_vec(), freshness);
        let request = ReadRequest::of(std::iter::empty(), requirements, known);
        let get = Message::Get {
            transaction,
            at,
            request,
        };
        if self.options.quorum.is_some() {
            self.asks_fixed(attempt, (replica, partition), out);
        }
        self.send(replica, get, out);
        Ok(())
    }

    fn deliver(
        &mut self,
        transaction: TransactionId,
        mut attempt: Box<Attempt>,
        out: &mut Outbox<Stamped>,
    ) {
        let began = attempt
            .began
            .as_ref()
            .map_or(self.context.now, |(began, _)| *began);
        if self.context.now.since(began) > self.options.retain {
            // Owners may have forgotten what these answers should have told (RAMP-I6).
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

impl Part {
    /// Takes an answer, what it says of what was required, and what it shows to be committed. True
    /// if it replaces an earlier one.
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
        self.includes.unchanged_until = self.includes.unchanged_until.max(got.unchanged_until());
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

/// What is to be asked of a partition's snapshot that is not known to be as good as what is followed.
fn freshness(
    attempt: &Attempt,
    partition: PartitionId,
    part: Option<&Part>,
    view: Option<&View>,
) -> Option<Freshness> {
    if attempt.observed.covered.is_empty() {
        return None;
    }
    let sequence = attempt.observed.covered.of(partition);
    let part = part.filter(|part| part.got.is_some() || part.fixed.is_some());
    let fixed = |part: &Part| part.fixed.unwrap_or_default();
    let new = part.map(|part| part.includes.unchanged_until.max(fixed(part)));
    let old = view.map(|view| view.includes.unchanged_until.max(view.snapshot));
    let mut both = [new, old].into_iter().flatten();
    if both.all(|unchanged_until| unchanged_until >= sequence) {
        return None;
    }
    let new = part.map(|part| part.read_set(&attempt.batch.reads));
    let old = view.map(|view| view.reads.read_set());
    let read = [new, old].into_iter().flatten().flatten().copied();
    Some(Freshness {
        sequence,
        read: read.collect(),
    })
}

/// Whether a partition's snapshot is not known to include a transaction that wrote what was read
/// there, or may have. Copies may have settled what it wrote.
pub(crate) fn is_missing(
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
