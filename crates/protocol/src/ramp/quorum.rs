//! Quorum operation (ramp.txt §6.2): nobody waits for a copy that is away, and reads may lag.
//!
//! Each partition has a copy in each cluster. A transaction is decided when a majority of the copies of each
//! partition that it writes has prepared it, and shown at each copy that has. The first round of a read asks one
//! copy, and another one as well if that is silent; the second round asks for what a reader has met elsewhere,
//! which of any majority of copies one has; where metadata do not say what that wrote, a majority does (`doubt`).
//! The page `docs/protocols/ramp-quorum.md` says what holds and why;
//! intents are Prepare-F's ([`super::prepare_f`]).

mod doubt;

use anabranch_types::{NodeId, PartitionId, Ticks, Timestamp};
use smallvec::SmallVec;

pub(super) use self::doubt::{Doubt, LookUp, deny, end_look_ups, settled};

use super::RampNode;
use super::attempt::{Attempt, Includes, Part, Phase, View, touches};
use super::message::{At, Demands, Message, Question, Refusal, Required, Slots, Stamped};
use super::prepare_f::Intent;
use super::record::RampRecord;
use crate::{AbortReason, Outbox, Record, Session, TimerId, TransactionId};

/// The timer that looks for reads that were not answered in time.
pub(super) const RETRY: TimerId = TimerId(4);

/// Who reads on in a copy waits for it so many times as long as who may ask another.
const PATIENCE: u64 = 8;

/// And so many times as long as its first rows took.
const SLOWER: u64 = 4;

/// For how long another copy is asked first in the place of one with which a read could not go on, or that was
/// silent, in times of what a copy is waited for.
const AVOIDED: u64 = 64;

/// A round of reads of one partition that is not answered.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// What a snapshot must include.
    require: Vec<Required>,
    /// What some copy has said to have been written there, among what is read, where metadata do not say it.
    wrote: SmallVec<[Timestamp; 2]>,
    /// When it began.
    began: Ticks,
    /// When a copy was asked last.
    since: Ticks,
    /// Who was asked: whoever was longest ago comes first.
    asked: SmallVec<[NodeId; 3]>,
}

/// An answer that a copy owes an attempt. It gives them in the order of the questions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owed {
    from: NodeId,
    partition: PartitionId,
    /// Nobody waits for it any more.
    is_late: bool,
}

impl Round {
    /// What is known to have been written among what is read.
    fn wrote(&self) -> &[Timestamp] {
        &self.wrote
    }
}

impl Part {
    /// Whether its rows may come from this node.
    pub(super) fn may_come_from(&self, node: NodeId) -> bool {
        let asked = |round: &Round| round.asked.contains(&node);
        self.copy == node || self.round.as_ref().is_some_and(|round| asked(round))
    }

    /// Whether it is known that one of these wrote what is read here.
    pub(super) fn needs_one_of(&self, absent: &[Timestamp]) -> bool {
        let round = self.round.as_ref();
        round.is_some_and(|round| round.wrote.iter().any(|commit| absent.contains(commit)))
    }

    /// Its rows come from this node. What is known of another copy's snapshot says nothing of this one's.
    pub(super) fn comes_from(&mut self, node: NodeId, now: Ticks) {
        if let Some(round) = self.round.take() {
            self.took = self.took.max(now.since(round.began));
        }
        if self.copy != node {
            self.copy = node;
            self.includes = Includes::default();
            self.got = None;
        }
    }
}

/// A partition's rows are there: nobody waits for what else was asked of its copies.
pub(super) fn is_answered(owed: &mut [Owed], partition: PartitionId) {
    for owed in owed.iter_mut().filter(|owed| owed.partition == partition) {
        owed.is_late = true;
    }
}

/// Whether an attempt waits for the copy of a snapshot that is fixed.
pub(super) fn waits_for_fixed(owed: &[Owed], views: &[View]) -> bool {
    let mut owed = owed.iter().filter(|owed| !owed.is_late);
    owed.any(|owed| views.iter().any(|view| view.partition == owed.partition))
}

/// Reads.
impl RampNode {
    /// A read cannot go on, and begins anew. The copies that it was fixed to may lag behind what others have
    /// shown, and nobody but its writer would tell them: others come first for a while.
    pub(super) fn cannot_read(
        &mut self,
        transaction: TransactionId,
        attempt: Option<&Attempt>,
        reason: AbortReason,
        out: &mut Outbox<Stamped>,
    ) {
        let lags = matches!(reason, AbortReason::Fractured | AbortReason::Restarted);
        if let (Some(_), Some(attempt), true) = (self.options.quorum, attempt, lags) {
            for view in &attempt.views {
                self.avoid(view.copy);
            }
        }
        self.abort(transaction, reason, out);
    }

    /// Others than this copy come first for a while.
    fn avoid(&mut self, copy: NodeId) {
        self.avoided.retain(|(avoided, _)| *avoided != copy);
        self.avoided.push((copy, self.context.now));
    }

    /// Since when others than this copy come first, if they still do.
    pub(super) fn avoided_since(&self, copy: NodeId) -> Option<Ticks> {
        let after = self.options.quorum?;
        let mut avoided = self.avoided.iter();
        let (_, since) = avoided.find(|(avoided, _)| *avoided == copy)?;
        (self.context.now.since(*since).0 < after.0.saturating_mul(AVOIDED)).then_some(*since)
    }

    /// Begins a round of one partition: asks the copy that was read there, or the near one.
    pub(super) fn ask_for(
        &mut self,
        transaction: TransactionId,
        attempt: &mut Attempt,
        index: usize,
        out: &mut Outbox<Stamped>,
    ) -> Result<(), Refusal> {
        let batch = &mut attempt.batch;
        let part = &mut batch.parts[index];
        // Everything that is known to have committed and to have written there: whichever copy answers, its
        // snapshot includes all of it.
        let (partition, read) = (part.partition, part.footprint(&batch.reads));
        let mut wrote = SmallVec::new();
        let seen = attempt.seen.evidence.iter().filter(|evidence| {
            match settled(&attempt.doubts, partition, evidence.commit) {
                None => evidence.siblings.may_touch(partition, read),
                Some(written) if touches(written, read) => {
                    wrote.push(evidence.commit);
                    true
                }
                Some(_) => false,
            }
        });
        let require: Vec<Required> = seen.map(|evidence| evidence.required()).collect();
        let required = require.iter().map(|required| required.commit);
        let required = required.map(|commit| (part.partition, commit));
        batch.asked.extend(required);
        is_answered(&mut attempt.owed, part.partition);
        part.round = Some(Box::new(Round {
            require,
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
        let copy = match part.fixed {
            Some(_) => part.copy,
            None => self.copy_with(attempt, part),
        };
        match self.ask_copy(transaction, attempt, (index, copy), out) {
            Err(Refusal::NotHere) => self.ask_next(transaction, attempt, index, out),
            asked => asked,
        }
    }

    /// Asks one copy; the own one answers at once.
    fn ask_copy(
        &mut self,
        transaction: TransactionId,
        attempt: &mut Attempt,
        (index, copy): (usize, NodeId),
        out: &mut Outbox<Stamped>,
    ) -> Result<(), Refusal> {
        let (copies, leaves_doubts) = (self.copies(), self.leaves_doubts());
        let batch = &mut attempt.batch;
        let part = &mut batch.parts[index];
        let round = part.round.as_mut().expect("a round has begun");
        let at = match (part.fixed, &part.got) {
            (Some(fixed), _) => At::Fixed(fixed),
            (None, Some(got)) if leaves_doubts && round.wrote.is_empty() && part.copy == copy => {
                At::Unless(got.snapshot)
            }
            (None, _) => At::Newest,
        };
        round.since = self.context.now;
        round.asked.retain(|asked| *asked != copy);
        round.asked.push(copy);
        let part = &batch.parts[index];
        let round = part.round.as_ref().expect("a round has begun");
        let (_, known) = attempt.began.as_ref().expect("set before the first read");
        if copy != self.topology.owner(self.partition) {
            let demands = Demands::of(round.require.clone(), None);
            let question = Question::of(part.list(&batch.reads), demands, known);
            let get = Message::Get {
                transaction,
                at,
                question,
            };
            attempt.owed.push(Owed {
                from: copy,
                partition: part.partition,
                is_late: false,
            });
            self.send(copy, get, out);
            self.retry_later(out);
            return Ok(());
        }
        let reads = part.list(&batch.reads);
        let (context, require) = (&mut self.context, &round.require);
        let mut got = (self.participant).get(context, at, reads, require, known, None)?;
        let part = &mut batch.parts[index];
        let (partition, absent) = (part.partition, got.take_absent());
        let settled = deny(&mut attempt.doubts, copies, (partition, copy), &absent);
        if part.fixed.is_none() && part.needs_one_of(&absent) {
            self.count_denied(settled);
            return Err(Refusal::NotHere);
        }
        part.comes_from(copy, self.context.now);
        let answered = batch.asked.extract_if(.., |(on, _)| *on == partition);
        let required = answered.map(|(_, commit)| commit);
        let required: SmallVec<[_; 8]> = required.filter(|one| !absent.contains(one)).collect();
        let renewed = part.accept(&mut attempt.seen, known, required, got);
        self.counters.repairs += u64::from(renewed);
        is_answered(&mut attempt.owed, partition);
        if !waits_for_fixed(&attempt.owed, &attempt.views) {
            batch.fixed_since = None;
        }
        batch.waiting -= 1;
        self.count_denied(settled);
        Ok(())
    }

    /// Asks another copy, as long as there is one that does not owe an answer: first who was not asked in
    /// this round, then who had not got it and may have by now.
    fn ask_next(
        &mut self,
        transaction: TransactionId,
        attempt: &mut Attempt,
        index: usize,
        out: &mut Outbox<Stamped>,
    ) -> Result<(), Refusal> {
        let part = &attempt.batch.parts[index];
        let partition = part.partition;
        let owes = |copy: &NodeId| {
            let mut owed = attempt.owed.iter();
            owed.any(|owed| owed.from == *copy && owed.partition == partition && !owed.is_late)
        };
        let copies = self.topology.everywhere();
        let copies = copies.map(|owners| owners[partition.index()]);
        let free: SmallVec<[NodeId; 4]> = copies.filter(|copy| !owes(copy)).collect();
        let was_asked = |copy: &NodeId| part.round.as_ref().is_some_and(|r| r.asked.contains(copy));
        let (mut again, mut new): (SmallVec<[NodeId; 4]>, SmallVec<[NodeId; 4]>) =
            free.into_iter().partition(was_asked);
        new.sort_by_key(|copy| self.avoided_since(*copy));
        // Whoever was asked longest ago: one that has not got it may never get it.
        let asked_at = |copy: &NodeId| {
            let mut asked = part.round.iter().flat_map(|round| &round.asked);
            asked.position(|asked| asked == copy)
        };
        again.sort_by_key(asked_at);
        // The own copy answers at once, and need not be asked twice in a row.
        let own = self.topology.owner(self.partition);
        let again = again
            .into_iter()
            .filter(|copy| *copy != own || new.is_empty());
        for copy in new.clone().into_iter().chain(again) {
            match self.ask_copy(transaction, attempt, (index, copy), out) {
                Err(Refusal::NotHere) => {}
                asked => return asked,
            }
        }
        Ok(())
    }

    /// Asks other copies for some parts of a batch, and goes on if all of it is there then.
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
                return self.cannot_read(transaction, Some(&attempt), refusal.into(), out);
            }
        }
        if attempt.batch.waiting == 0 {
            return self.close(transaction, attempt, out);
        }
        attempt.phase = Phase::Reading;
        self.wait(transaction, attempt);
    }

    /// A copy has not got what is required.
    pub(super) fn ask_another(
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
        let copies = self.topology.elsewhere.len() + 1;
        // Whoever has been asked and has not got it may get it: it is asked again in a while.
        if asked.is_some_and(|asked| asked.len() < copies) {
            self.counters.other_copies += 1;
            self.ask_others(transaction, &[index], out);
        }
    }

    /// An answer of a copy has come; whether the attempt waits for that one.
    pub(super) fn waits_for_copy(&mut self, transaction: TransactionId, from: NodeId) -> bool {
        let attempt = match &mut self.current {
            Some((current, attempt)) if *current == transaction => Some(attempt),
            _ => self.attempts.get_mut(&transaction),
        };
        attempt.is_some_and(|attempt| {
            let oldest = attempt.owed.iter().position(|owed| owed.from == from);
            oldest.is_some_and(|at| !attempt.owed.remove(at).is_late)
        })
    }

    /// A node has come back: what it owed is never answered.
    pub(super) fn owes_nothing(&mut self, node: NodeId) {
        let current = self.current.iter_mut().map(|(_, attempt)| attempt);
        // tidy: order-free because each is treated alike
        for attempt in self.attempts.values_mut().chain(current) {
            attempt.owed.retain(|owed| owed.from != node);
        }
    }

    /// A snapshot that is fixed is asked about: nobody but its copy knows.
    pub(super) fn asks_fixed(
        &mut self,
        attempt: &mut Attempt,
        (copy, partition): (NodeId, PartitionId),
        out: &mut Outbox<Stamped>,
    ) {
        attempt.batch.fixed_since = Some(self.context.now);
        attempt.owed.push(Owed {
            from: copy,
            partition,
            is_late: false,
        });
        self.retry_later(out);
    }

    pub(super) fn retry_later(&mut self, out: &mut Outbox<Stamped>) {
        if let Some(after) = self.options.quorum
            && !self.retrying
        {
            self.retrying = true;
            out.timers.push((self.context.now + after, RETRY));
        }
    }

    /// Asks other copies for what was not answered in time (speculative retry). Who reads on in a copy that
    /// stays silent begins anew.
    pub(super) fn retry(&mut self, out: &mut Outbox<Stamped>) {
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
                self.cannot_read(transaction, attempt.as_deref(), AbortReason::Restarted, out);
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
            silent.into_iter().for_each(|copy| self.avoid(copy));
            if !parts.is_empty() {
                self.counters.other_copies += parts.len() as u64;
                self.ask_others(transaction, &parts, out);
            }
            self.look_up_again(transaction, after, out);
        }
        if waits {
            self.retry_later(out);
        }
    }
}

/// Writes.
impl RampNode {
    /// A copy has prepared it: it is decided when a majority of each partition's has, and shown at each.
    pub(super) fn decide_by_majority(
        &mut self,
        transaction: TransactionId,
        from: NodeId,
        out: &mut Outbox<Stamped>,
    ) {
        let Some(Phase::Intending(intent)) = self.phase_of(transaction) else {
            return;
        };
        if intent.is_decided {
            return self.show_at(transaction, from, out);
        }
        if !self.has_majorities(intent, &intent.prepared) {
            return;
        }
        let prepared = intent.prepared.clone();
        if let Some(intent) = self.intent_mut(transaction) {
            intent.is_decided = true;
        }
        for node in prepared {
            self.show_at(transaction, node, out);
        }
    }

    /// Whether a transaction that some copies have refused may be prepared by a majority of each partition's all
    /// the same.
    pub(super) fn may_find_majorities(&self, transaction: TransactionId) -> bool {
        let Some(Phase::Intending(intent)) = self.phase_of(transaction) else {
            return false;
        };
        let all = self.owners_of(intent);
        let left = all.filter(|node| !intent.refused.contains(node));
        self.options.quorum.is_some() && self.has_majorities(intent, &left.collect::<Vec<_>>())
    }

    /// Whether these are a majority of the copies of each partition that a transaction writes.
    fn has_majorities(&self, intent: &Intent, nodes: &[NodeId]) -> bool {
        let copies = self.topology.elsewhere.len() + 1;
        let mut works = intent.works.iter();
        works.all(|(at, _)| {
            let clusters = self.topology.everywhere();
            let has = clusters.filter(|owners| nodes.contains(&owners[at.index()]));
            has.count() > copies / 2
        })
    }

    pub(super) fn intent_mut(&mut self, transaction: TransactionId) -> Option<&mut Intent> {
        match &mut self.attempts.get_mut(&transaction)?.phase {
            Phase::Intending(intent) => Some(intent),
            _ => None,
        }
    }

    /// Lets a copy show what is decided, if it has prepared it and is not known to show it.
    pub(super) fn show_at(
        &mut self,
        transaction: TransactionId,
        node: NodeId,
        out: &mut Outbox<Stamped>,
    ) {
        let Some(Phase::Intending(intent)) = self.phase_of(transaction) else {
            return;
        };
        let has = intent.prepared.contains(&node) && !intent.shown.contains(&node);
        if !intent.is_decided || !has {
            return;
        }
        let decided = intent.decided();
        if node == self.owner(self.partition) {
            let shown = self.participant.commit(&mut self.context, decided);
            return self.copy_shows(transaction, node, shown.is_ok(), out);
        }
        let commit = Message::Commit {
            transaction,
            decided,
        };
        self.send(node, commit, out);
    }

    /// A copy shows it: the client is answered when one of each partition does, and nothing is left to do
    /// when all do. One that cannot breaks RAMP-I1, and says so.
    pub(super) fn copy_shows(
        &mut self,
        transaction: TransactionId,
        from: NodeId,
        shows: bool,
        out: &mut Outbox<Stamped>,
    ) {
        if self.options.quorum.is_none() || !shows {
            return;
        }
        let Some(intent) = self.intent_mut(transaction) else {
            return;
        };
        if !intent.shown.contains(&from) {
            intent.shown.push(from);
        }
        let Some(Phase::Intending(intent)) = self.phase_of(transaction) else {
            return;
        };
        let (name, is_told) = (intent.name, intent.is_told);
        let everywhere = self
            .owners_of(intent)
            .all(|node| intent.shown.contains(&node));
        let mut works = intent.works.iter();
        let once = works.all(|(at, _)| {
            let mut clusters = self.topology.everywhere();
            clusters.any(|owners| intent.shown.contains(&owners[at.index()]))
        });
        if once && !is_told {
            self.counters.early_answers += u64::from(!everywhere);
            self.committed(transaction, name, Slots::new(), Session::default(), out);
            if let Some(intent) = self.intent_mut(transaction) {
                intent.is_told = true;
            }
        }
        if !everywhere {
            return;
        }
        self.attempts.remove(&transaction);
        self.context.stability.done(name);
        self.announce_later(out);
        if let Some(journal) = &mut self.context.journal {
            journal.write(Record::Ramp(RampRecord::Ended {
                transaction,
                commit: name,
                reach: None,
            }));
        }
    }

    /// QUORUM-I1, as its coordinator sees it.
    pub(super) fn check_decided(&self, attempt: &Attempt) -> Result<(), String> {
        match &attempt.phase {
            Phase::Intending(intent)
                if intent.is_decided && !self.has_majorities(intent, &intent.prepared) =>
            {
                let Intent { name, prepared, .. } = &**intent;
                Err(format!(
                    "QUORUM-I1: {name} is decided, and prepared at {prepared:?} alone"
                ))
            }
            _ => Ok(()),
        }
    }
}
