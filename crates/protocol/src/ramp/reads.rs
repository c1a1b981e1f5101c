//! The rounds of reads of the transactions that run at a node (ramp.txt, Algorithm 1, GET_ALL).

use std::borrow::Cow;

use anabranch_storage::ItemTag;
use anabranch_types::{NodeId, PartitionId, Ticks, Timestamp};
use smallvec::SmallVec;

use super::attempt::{Attempt, Includes, Part, Phase, Reads, View, touches};
use super::message::{At, Demands, Evidence, Got, Known, Message, Refusal};
use super::message::{Question, Required, Stamped, UpTo};
use super::past::Seen;
use super::quorum::{deny, end_look_ups, is_answered, settled, waits_for_fixed};
use super::sticky::is_taken_over;
use super::{RampNode, SPARE};
use crate::{AbortReason, Outbox, PartitionRead, Reply, TransactionId};

impl RampNode {
    // Attempts

    pub(super) fn take(&mut self, transaction: TransactionId) -> Option<Box<Attempt>> {
        match &self.current {
            Some((current, _)) if *current == transaction => self.current.take().map(|(_, a)| a),
            _ if self.attempts.is_empty() => None,
            _ => self.attempts.remove(&transaction),
        }
    }

    /// The attempt of a transaction, or a new one.
    pub(super) fn take_or_begin(&mut self, transaction: TransactionId) -> Box<Attempt> {
        let begun = self.take(transaction);
        begun.unwrap_or_else(|| self.spare.pop().unwrap_or_default())
    }

    /// An attempt is over.
    pub(super) fn let_go(&mut self, mut attempt: Box<Attempt>) {
        if self.spare.len() < SPARE && attempt.is_small() {
            attempt.clear();
            self.spare.push(attempt);
        }
    }

    /// Keeps an attempt that waits for its procedure.
    pub(super) fn keep(&mut self, transaction: TransactionId, attempt: Box<Attempt>) {
        if let Some((other, idle)) = self.current.replace((transaction, attempt)) {
            self.attempts.insert(other, idle);
        }
    }

    /// Keeps an attempt that waits for other nodes.
    pub(super) fn wait(&mut self, transaction: TransactionId, attempt: Box<Attempt>) {
        self.attempts.insert(transaction, attempt);
    }

    /// The procedure gave up. Answers that are under way will find nobody.
    pub(super) fn forget(&mut self, transaction: TransactionId) {
        if let Some(attempt) = self.take(transaction) {
            self.let_go(attempt);
        }
        self.counters.aborts += 1;
    }

    pub(super) fn abort(
        &mut self,
        transaction: TransactionId,
        reason: AbortReason,
        out: &mut Outbox<Stamped>,
    ) {
        self.counters.aborts += 1;
        if is_taken_over(transaction) {
            return self.not_taken_over(transaction, out);
        }
        out.replies.push((transaction, Reply::Aborted(reason)));
    }

    // Reads

    pub(super) fn read(
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
        attempt.take_in();
        let own = self.partition;
        let here = self.owner(own);
        let local = reads.iter().all(|read| read.partition == own)
            && attempt.views.iter().all(|view| view.copy == here)
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
        let at = view.map_or(At::Newest, |view| At::Fixed(view.snapshot));
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
                copy: self.owner(self.partition),
                took: Ticks(0),
                snapshot: got.snapshot,
                reads: Reads::default(),
                includes: Includes::default(),
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
            let evidence = got.findings.map(|found| found.evidence);
            attempt
                .seen
                .add(known, &mut view.includes, evidence.unwrap_or_default());
        }
        out.replies.push((transaction, Reply::Fetched(got.fetched)));
        self.keep(transaction, attempt);
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
        self.wait(transaction, attempt);
    }

    /// Asks the owner of one part for its rows, in a snapshot that includes whatever is known to
    /// have committed and to have written there, and `missing`.
    fn ask(
        &mut self,
        transaction: TransactionId,
        attempt: &mut Attempt,
        index: usize,
        missing: &[Required],
        out: &mut Outbox<Stamped>,
    ) -> Result<(), Refusal> {
        if self.options.quorum.is_some() {
            return self.ask_for(transaction, attempt, index, out);
        }
        let part = &attempt.batch.parts[index];
        let owner = part.copy;
        let view = attempt
            .views
            .iter()
            .find(|view| view.partition == part.partition);
        let at = match (part.fixed, &part.got) {
            (Some(fixed), _) => At::Fixed(fixed),
            (None, Some(got)) if !self.options.metadata.is_exact() || missing.is_empty() => {
                At::Unless(got.snapshot)
            }
            (None, _) => At::Newest,
        };
        let up_to = match at {
            At::Newest => None,
            _ => up_to(attempt, part.partition, Some(part), view),
        };
        let (part, reads) = (&mut attempt.batch.parts[index], &attempt.batch.reads);
        let mut require: Vec<Required> = missing.to_vec();
        for evidence in &attempt.seen.evidence {
            if part.includes.contains(evidence.commit, owner)
                || view.is_some_and(|view| view.includes.contains(evidence.commit, owner))
                || require
                    .iter()
                    .any(|required| required.commit == evidence.commit)
                || !evidence
                    .siblings
                    .may_touch(part.partition, part.footprint(reads))
            {
                continue;
            }
            if let Some(written) = view.and_then(|view| view.includes.lacks(evidence.commit)) {
                match touches(written, part.footprint(reads)) {
                    true => return Err(Refusal::Fractured),
                    false => continue,
                }
            }
            if at == At::Newest && self.context.stability.known().includes(evidence.commit) {
                // It is committed there; whatever snapshot is taken from now on includes it.
                part.includes.name(evidence.commit);
            } else {
                require.push(evidence.required());
            }
        }
        if part.partition == self.partition {
            let reads = part.list(reads);
            let (_, known) = attempt.began.as_ref().expect("set before the first read");
            let (context, up_to) = (&mut self.context, up_to.as_ref());
            let got = self
                .participant
                .get(context, at, reads, &require, known, up_to)?;
            let required = require.iter().map(|required| required.commit);
            let reach = got.reach();
            let renewed = part.accept(&mut attempt.seen, known, required, got);
            let (partition, is_fixed) = (part.partition, part.fixed.is_some());
            if is_fixed && let Some(view) = attempt.view_mut(partition) {
                view.includes.reach = view.includes.reach.max(reach);
            }
            self.counters.repairs += u64::from(renewed);
            self.count_false_positives();
        } else {
            let (_, known) = attempt.began.as_ref().expect("set before the first read");
            let (partition, asked) = (part.partition, part.list(reads));
            let required = require.iter().map(|required| (partition, required.commit));
            attempt.batch.asked.extend(required);
            attempt.batch.waiting += 1;
            let question = Question::of(asked, Demands::of(require, up_to), known);
            let get = Message::Get {
                transaction,
                at,
                question,
            };
            self.send(owner, get, out);
        }
        Ok(())
    }

    pub(super) fn handle_got(
        &mut self,
        transaction: TransactionId,
        from: NodeId,
        stable: Timestamp,
        result: Result<Got, Refusal>,
        out: &mut Outbox<Stamped>,
    ) {
        if self.options.quorum.is_some() && !self.waits_for_copy(transaction, from) {
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
                    self.context.stability.heard_known(known);
                }
                return self.cannot_read(transaction, attempt.as_deref(), refusal.into(), out);
            }
        };
        let batch = &mut attempt.batch;
        batch.waiting -= 1;
        let mut parts = batch.parts.iter_mut();
        let part = parts.find(|part| part.may_come_from(from));
        let mut views = attempt.views.iter_mut();
        let view = views.find(|view| view.copy == from);
        let partition = (part.as_ref().map(|part| part.partition))
            .or(view.as_ref().map(|view| view.partition))
            .expect("only partitions that were read are asked");
        let mut required: SmallVec<[Timestamp; 8]> = SmallVec::new();
        if !batch.asked.is_empty() {
            let answered = batch.asked.extract_if(.., |(on, _)| *on == partition);
            let answered = answered.map(|(_, commit)| commit);
            required.extend(answered.filter(|one| !absent.contains(one)));
        }
        let reach = got.reach();
        match part {
            Some(part) => {
                part.comes_from(from, self.context.now);
                is_answered(&mut attempt.owed, partition);
                let first = part.got.is_none();
                let (_, known) = attempt.began.as_ref().expect("set before the first read");
                let renewed = part.accept(&mut attempt.seen, known, required, got);
                if let Some(view) = view {
                    // What was read before was asked about, too.
                    view.includes.reach = view.includes.reach.max(reach);
                }
                if part.fixed.is_none() && (first || renewed) {
                    // What the owner knew when it took this snapshot, and no other.
                    part.includes.stable = stable;
                }
                self.counters.repairs += u64::from(renewed);
            }
            None => {
                let view = view.expect("only partitions that were read are asked");
                let lacking = got.findings.map(|found| found.lacking);
                view.includes.learn(required, lacking.unwrap_or_default());
                view.includes.reach = view.includes.reach.max(reach);
            }
        }
        if !waits_for_fixed(&attempt.owed, &attempt.views) {
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
    pub(super) fn close(
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
            for (partition, required) in missing {
                let repaired = self.repair(transaction, &mut attempt, partition, &required, out);
                if let Err(refusal) = repaired {
                    return self.cannot_read(transaction, Some(&attempt), refusal.into(), out);
                }
            }
            if attempt.batch.waiting > 0 {
                attempt.phase = Phase::Reading;
                return self.wait(transaction, attempt);
            }
        }
    }

    /// By partition: what some snapshot includes or follows, and the snapshot there is not known to include
    /// although it wrote what was read there, or may have (RAMP-I4 asks for none). A partition without
    /// any has a snapshot that is not known to be as good as what is followed (CAUSAL-I4).
    fn missing(&self, attempt: &Attempt) -> Vec<(PartitionId, Vec<Required>)> {
        let mut missing: Vec<(PartitionId, Vec<Required>)> = Vec::new();
        if attempt.seen.is_empty() {
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
            if up_to(attempt, *partition, *part, *view).is_some() {
                missing.push((*partition, Vec::new()));
            }
        }
        for evidence in &attempt.seen.evidence {
            for (partition, part, view) in &read {
                let copy = (view.map(|view| view.copy)).or(part.map(|part| part.copy));
                let copy = copy.expect("it was read");
                let written = settled(&attempt.doubts, *partition, evidence.commit);
                let part = part.map(|part| (part, &*batch.reads));
                if !is_lacking(evidence, copy, part, *view, written) {
                    continue;
                }
                let required = evidence.required();
                match missing.iter_mut().find(|(at, _)| at == partition) {
                    Some((_, list)) => list.push(required),
                    None => missing.push((*partition, vec![required])),
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
        required: &[Required],
        out: &mut Outbox<Stamped>,
    ) -> Result<(), Refusal> {
        if self.leaves_doubts() {
            let doubtful = (partition, required);
            return self.repair_in_doubt(transaction, attempt, doubtful, out);
        }
        let mut parts = attempt.batch.parts.iter();
        let part = parts.position(|part| part.partition == partition);
        match part.filter(|at| attempt.batch.parts[*at].fixed.is_none()) {
            Some(at) => self.ask(transaction, attempt, at, required, out),
            None => self.ask_fixed(transaction, attempt, (partition, required), out),
        }
    }

    /// Asks whether the snapshot that the procedure has been given rows of includes what is missing after all.
    pub(super) fn ask_fixed(
        &mut self,
        transaction: TransactionId,
        attempt: &mut Attempt,
        (partition, required): (PartitionId, &[Required]),
        out: &mut Outbox<Stamped>,
    ) -> Result<(), Refusal> {
        let (part, view) = (attempt.batch.part(partition), attempt.view(partition));
        let up_to = up_to(attempt, partition, part, view);
        let (_, known) = attempt.began.as_ref().expect("set before the first read");
        let mut views = attempt.views.iter_mut();
        let view = views
            .find(|view| view.partition == partition)
            .expect("what is fixed has been given to the procedure");
        let mut parts = attempt.batch.parts.iter_mut();
        let part = parts.find(|part| part.partition == partition);
        let part = part.map(|part| &mut part.includes);
        let is_known = |includes: &Includes| {
            let mut lacked = required.iter();
            lacked.any(|required| includes.lacks(required.commit).is_some())
        };
        if is_known(&view.includes) || part.as_deref().is_some_and(is_known) {
            // It wrote what was read there: nobody needs to be asked.
            return Err(Refusal::Fractured);
        }
        let copy = view.copy;
        if copy == self.topology.owner(self.partition) {
            let absent = self.participant.absent(&self.context, required);
            let here = required
                .iter()
                .filter(|required| !absent.contains(&required.commit));
            for required in here {
                let (context, snapshot) = (&mut self.context, view.snapshot);
                let lacks = self.participant.look_back(context, snapshot, *required)?;
                let commit = std::iter::once(required.commit);
                view.includes.learn(commit, lacks.into_iter().collect());
            }
            if let Some(up_to) = up_to {
                if !self.participant.is_unchanged(view.snapshot, &up_to)? {
                    return Err(Refusal::Fractured);
                }
                view.includes.reach = up_to.sequence;
                if let Some(part) = part {
                    part.reach = up_to.sequence;
                }
            }
            let copies = self.copies();
            let settled = deny(&mut attempt.doubts, copies, (partition, copy), &absent);
            self.count_denied(settled);
            return Ok(());
        }
        let at = At::Fixed(view.snapshot);
        let batch = &mut attempt.batch;
        batch
            .asked
            .extend(required.iter().map(|required| (partition, required.commit)));
        batch.waiting += 1;
        let demands = Demands::of(required.to_vec(), up_to);
        let question = Question::of(std::iter::empty(), demands, known);
        let get = Message::Get {
            transaction,
            at,
            question,
        };
        if self.options.quorum.is_some() {
            self.asks_fixed(attempt, (copy, partition), out);
        }
        self.send(copy, get, out);
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
        self.keep(transaction, attempt);
    }

    // Invariants

    /// The invariants that a coordinator can see.
    pub(super) fn check_attempts(&self) -> Result<(), String> {
        let mut attempts: Vec<_> = self
            .attempts
            .iter()
            .map(|(id, attempt)| (*id, attempt))
            .collect();
        attempts.extend(self.current.as_ref().map(|(id, attempt)| (*id, attempt)));
        attempts.sort_unstable_by_key(|(id, _)| *id);
        for (id, attempt) in attempts {
            self.check_decided(attempt)?;
            let mut attempt = Cow::Borrowed(&**attempt);
            if matches!(attempt.phase, Phase::Idle) {
                if !attempt.batch.parts.is_empty() {
                    attempt.to_mut().take_in();
                }
                if !self.missing(&attempt).is_empty() && attempt.views.len() > 1 {
                    return Err(format!("RAMP-I4: {id:?} has been given a fractured view"));
                }
            }
            let mut partitions: Vec<_> = attempt.views.iter().map(|view| view.partition).collect();
            partitions.sort_unstable();
            partitions.dedup();
            if partitions.len() != attempt.views.len() {
                return Err(format!(
                    "RAMP-I3: {id:?} reads a partition in two snapshots"
                ));
            }
        }
        Ok(())
    }
}

impl Part {
    /// Takes an answer, what it says of what was required, and what it shows to be committed. True
    /// if it replaces an earlier one.
    pub(super) fn accept(
        &mut self,
        seen: &mut Seen,
        known: &Known,
        required: impl IntoIterator<Item = Timestamp>,
        mut got: Got,
    ) -> bool {
        let earlier = self.got.as_ref().map(|earlier| earlier.snapshot);
        let renewed = earlier.is_some_and(|earlier| earlier != got.snapshot);
        if renewed {
            // What the earlier one lacked may be in this one.
            self.includes.renew();
        }
        self.includes.reach = self.includes.reach.max(got.reach());
        match got.findings.take() {
            None => self.includes.learn(required, Vec::new()),
            Some(found) => {
                self.includes.learn(required, found.lacking);
                seen.add(known, &mut self.includes, found.evidence);
            }
        }
        if earlier.is_none() || renewed {
            self.got = Some(got);
        }
        renewed
    }
}

/// What is to be asked of a partition's snapshot that is not known to be as good as what is followed.
fn up_to(
    attempt: &Attempt,
    partition: PartitionId,
    part: Option<&Part>,
    view: Option<&View>,
) -> Option<UpTo> {
    if attempt.seen.reach.is_empty() {
        return None;
    }
    let sequence = attempt.seen.reach.of(partition);
    let part = part.filter(|part| part.got.is_some() || part.fixed.is_some());
    let fixed = |part: &Part| part.fixed.unwrap_or_default();
    let new = part.map(|part| part.includes.reach.max(fixed(part)));
    let old = view.map(|view| view.includes.reach.max(view.snapshot));
    let mut both = [new, old].into_iter().flatten();
    if both.all(|reach| reach >= sequence) {
        return None;
    }
    let new = part.map(|part| part.footprint(&attempt.batch.reads));
    let old = view.map(|view| view.reads.footprint());
    let read = [new, old].into_iter().flatten().flatten().copied();
    Some(UpTo {
        sequence,
        read: read.collect(),
    })
}

/// Whether a partition's snapshot is not known to include a transaction that wrote what was read
/// there, or may have. Copies may have settled what it wrote.
fn is_lacking(
    evidence: &Evidence,
    owner: NodeId,
    part: Option<(&Part, &[PartitionRead])>,
    view: Option<&View>,
    settled: Option<&[ItemTag]>,
) -> bool {
    let commit = evidence.commit;
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
        None => evidence.siblings.may_touch(partition, read),
    };
    part.is_some_and(|(part, reads)| may_touch(part.partition, part.footprint(reads)))
        || view.is_some_and(|view| may_touch(view.partition, view.reads.footprint()))
}
