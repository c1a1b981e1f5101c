//! The leader's side: batching, the proposal, decision, accept and delivery phases of the paper's §4.1.

use std::collections::BTreeMap;

use anabranch_types::Ticks;

use crate::order::gathering::Gathered;
use crate::order::{Batch, BatchId, OutboxOf, Payload, SiteId, SiteSet};

use super::entry::{Decision, Epoch, Slot};
use super::message::{Message, Promised};
use super::{FastDecisions, PobSite, TIMER_BATCH, TIMER_FAST};

/// A batch that this site leads: as its sender in epoch 0, or in a later epoch to recover it.
#[derive(Clone, Debug, Hash)]
pub(super) struct Led<P> {
    pub(super) phase: Phase<P>,
    /// When its messages were last sent.
    pub(super) sent: Ticks,
    /// The sites that are known to have the payloads.
    pub(super) holders: SiteSet,
}

/// What a leader waits for.
#[derive(Clone, Debug, Hash)]
pub(super) enum Phase<P> {
    /// For answers to its proposal, in epoch 0.
    Proposing {
        /// The proposal.
        proposed: Slot,
        /// The answers.
        answers: BTreeMap<SiteId, Slot>,
    },
    /// For a classic quorum that accepts a decision.
    Accepting {
        /// The epoch.
        epoch: Epoch,
        /// The decision, with the dependencies that have been answered so far.
        decision: Decision,
        /// The sites that have accepted it.
        answers: SiteSet,
    },
    /// For a classic quorum of promises.
    Recovering {
        /// The epoch.
        epoch: Epoch,
        /// The promises.
        promises: BTreeMap<SiteId, Promised<P>>,
    },
}

impl<P> Phase<P> {
    /// The epoch in which this site leads.
    pub(super) fn epoch(&self) -> Epoch {
        match self {
            Phase::Proposing { .. } => Epoch::INITIAL,
            Phase::Accepting { epoch, .. } | Phase::Recovering { epoch, .. } => *epoch,
        }
    }

    /// The sites that have answered.
    pub(super) fn answered(&self) -> SiteSet {
        match self {
            Phase::Proposing { answers, .. } => answers.keys().copied().collect(),
            Phase::Accepting { answers, .. } => *answers,
            Phase::Recovering { promises, .. } => promises.keys().copied().collect(),
        }
    }
}

impl<P: Payload> PobSite<P> {
    /// Adds a payload to the next batch, and proposes that once it is full or its window is over.
    pub(super) fn gather(&mut self, now: Ticks, payload: P, out: &mut OutboxOf<Self>) {
        self.counters.payloads += 1;
        match self.gathering.add(now, payload, self.options.batching()) {
            Gathered::Complete => self.propose_gathered(now, out),
            Gathered::Begins(due) => out.timers.push((due, TIMER_BATCH)),
            Gathered::Waits => {}
        }
    }

    /// Proposes what is gathered.
    pub(super) fn propose_gathered(&mut self, now: Ticks, out: &mut OutboxOf<Self>) {
        let batch = self.gathering.take();
        self.propose(now, batch, out);
    }

    /// The proposal phase: gives a new batch a position above all that this site has seen.
    pub(super) fn propose(&mut self, now: Ticks, batch: Batch<P>, out: &mut OutboxOf<Self>) {
        self.sequence += 1;
        let id = BatchId {
            site: self.site,
            sequence: self.sequence,
        };
        let position = self.highest.next_of(self.site, self.quorums.sites());
        self.used = position;
        self.counters.batches += 1;
        self.own.insert(id);
        let slot = Slot {
            position,
            dependencies: self.queue.before_new(id, &batch, position),
        };
        let phase = Phase::Proposing {
            proposed: slot.clone(),
            answers: BTreeMap::new(),
        };
        self.lead(now, id, phase, [self.site].into_iter().collect());
        let propose = Message::Propose { id, slot, batch };
        self.send_all(now, propose, out);
    }

    /// From now on leads a batch in this phase.
    pub(super) fn lead(&mut self, now: Ticks, id: BatchId, phase: Phase<P>, holders: SiteSet) {
        let led = Led {
            phase,
            sent: now,
            holders,
        };
        self.led.insert(id, led);
    }

    /// Sends a message to all sites, the own one last.
    fn send_all(&mut self, now: Ticks, message: Message<P>, out: &mut OutboxOf<Self>) {
        for site in self.others() {
            self.send(site, message.clone(), out);
        }
        self.take(now, self.site, message, out);
    }

    /// An answer to the proposal.
    pub(super) fn handle_ack_propose(
        &mut self,
        now: Ticks,
        from: SiteId,
        id: BatchId,
        slot: Slot,
        out: &mut OutboxOf<Self>,
    ) {
        let Some(led) = self.led.get_mut(&id) else {
            return;
        };
        let Phase::Proposing { answers, .. } = &mut led.phase else {
            return;
        };
        self.highest = self.highest.max(slot.position);
        led.holders.insert(from);
        answers.insert(from, slot);
        let is_quorum = answers.len() == self.quorums.classic();
        if self.options.fast != FastDecisions::Off && is_quorum {
            let due = Ticks(now.0 + self.options.fast_wait.0);
            out.timers.push((due, TIMER_FAST));
        }
        self.decide(now, id, self.options.fast == FastDecisions::Off, out);
    }

    /// The decision phase. Waits for a fast decision as long as one is possible, unless `at_once`.
    fn decide(&mut self, now: Ticks, id: BatchId, at_once: bool, out: &mut OutboxOf<Self>) {
        let Some(led) = self.led.get(&id) else {
            return;
        };
        let Phase::Proposing { proposed, answers } = &led.phase else {
            return;
        };
        let agree = answers.values().all(|answer| answer == proposed);
        let is_fast = self.options.fast == FastDecisions::AllSites
            && agree
            && answers.len() == usize::from(self.quorums.sites());
        if is_fast {
            let decision = Decision::Deliver(proposed.clone());
            self.counters.fast_decisions += 1;
            return self.announce(now, id, decision, out);
        }
        if answers.len() < self.quorums.classic() || (agree && !at_once) {
            return;
        }
        let mut slot = proposed.clone();
        for answer in answers.values() {
            slot.position = slot.position.max(answer.position);
            slot.dependencies.merge(&answer.dependencies);
        }
        // Rule 1: a position that is not the proposed one may have been used for another batch of this site.
        if slot.position != proposed.position && slot.position <= self.used {
            slot.position = self.used.next_of(self.site, self.quorums.sites());
        }
        self.used = self.used.max(slot.position);
        let holders = led.holders;
        let decision = Decision::Deliver(slot);
        self.start_accept(now, id, Epoch::INITIAL, decision, None, holders, out);
    }

    /// Gives up waiting for a fast decision of a batch whose answers have come from a classic quorum.
    pub fn decide_classic(&mut self, now: Ticks, id: BatchId, out: &mut OutboxOf<Self>) {
        self.decide(now, id, true, out);
    }

    /// Whether this site waits for more answers than a classic quorum's, in hope of a fast decision.
    pub fn waits_for_fast(&self, id: BatchId) -> bool {
        self.led.get(&id).is_some_and(|led| match &led.phase {
            Phase::Proposing { answers, .. } => answers.len() >= self.quorums.classic(),
            _ => false,
        })
    }

    /// Gives up waiting for fast decisions whose time is over.
    pub(super) fn end_fast_waits(&mut self, now: Ticks, out: &mut OutboxOf<Self>) {
        let wait = self.options.fast_wait.0;
        let over = |led: &Led<P>| now.0 >= led.sent.0 + wait;
        let led = self.led.iter().filter(|(_, led)| over(led));
        let ids: Vec<BatchId> = led.map(|(id, _)| *id).collect();
        for id in ids {
            self.decide_classic(now, id, out);
        }
    }

    /// The accept phase. `batch` has the payloads if the own site does not have them yet.
    #[expect(
        clippy::too_many_arguments,
        reason = "what an epoch accepts, and who has it"
    )]
    pub(super) fn start_accept(
        &mut self,
        now: Ticks,
        id: BatchId,
        epoch: Epoch,
        decision: Decision,
        batch: Option<Batch<P>>,
        holders: SiteSet,
        out: &mut OutboxOf<Self>,
    ) {
        let phase = Phase::Accepting {
            epoch,
            decision: decision.clone(),
            answers: SiteSet::default(),
        };
        self.lead(now, id, phase, holders);
        // The own site first: it keeps payloads that a promise has brought, with a record.
        self.handle_accept(now, self.site, id, epoch, decision.clone(), batch, out);
        for site in self.others() {
            let batch = self.batch_for(id, &decision, holders.contains(site));
            let accept = Message::Accept {
                id,
                epoch,
                decision: decision.clone(),
                batch,
            };
            self.send(site, accept, out);
        }
    }

    /// The payloads that go with a decision, unless the receiver has them.
    fn batch_for(&self, id: BatchId, decision: &Decision, has_it: bool) -> Option<Batch<P>> {
        let entry = self.queue.get(id).filter(|_| !has_it)?;
        decision.slot().and(entry.batch.clone())
    }

    /// An answer to a decision.
    pub(super) fn handle_ack_accept(
        &mut self,
        now: Ticks,
        from: SiteId,
        id: BatchId,
        epoch: Epoch,
        delta: &super::entry::Dependencies,
        out: &mut OutboxOf<Self>,
    ) {
        let Some(led) = self.led.get_mut(&id) else {
            return;
        };
        let Phase::Accepting {
            epoch: current,
            decision,
            answers,
        } = &mut led.phase
        else {
            return;
        };
        if *current != epoch || !answers.insert(from) {
            return;
        }
        led.holders.insert(from);
        if let Decision::Deliver(slot) = decision {
            slot.dependencies.merge(delta);
        }
        if answers.len() >= self.quorums.classic() {
            let decision = decision.clone();
            self.counters.classic_decisions += u64::from(epoch == Epoch::INITIAL);
            self.announce(now, id, decision, out);
        }
    }

    /// The delivery phase: the decision is final.
    pub(super) fn announce(
        &mut self,
        now: Ticks,
        id: BatchId,
        decision: Decision,
        out: &mut OutboxOf<Self>,
    ) {
        let holders = self.led.get(&id).map(|led| led.holders).unwrap_or_default();
        for site in self.others() {
            let batch = self.batch_for(id, &decision, holders.contains(site));
            let stable = Message::Stable {
                id,
                decision: decision.clone(),
                batch,
            };
            self.send(site, stable, out);
        }
        self.handle_stable(now, id, decision, None, out);
    }

    /// Sends the messages of a phase again to the sites that have not answered. Promises are not asked for again: a
    /// site that has promised refuses, and a new recovery takes a new epoch.
    pub(super) fn send_again(&mut self, now: Ticks, id: BatchId, out: &mut OutboxOf<Self>) {
        let Some(led) = self.led.get(&id) else {
            return;
        };
        let answered = led.phase.answered();
        let message = match &led.phase {
            Phase::Proposing { proposed, .. } => {
                let entry = self.queue.get(id).expect("the leader has an entry");
                let batch = entry.batch.clone().expect("the leader has the payloads");
                Message::Propose {
                    id,
                    slot: proposed.clone(),
                    batch,
                }
            }
            Phase::Accepting {
                epoch, decision, ..
            } => Message::Accept {
                id,
                epoch: *epoch,
                decision: decision.clone(),
                batch: self.batch_for(id, decision, false),
            },
            Phase::Recovering { .. } => return,
        };
        for site in self.others() {
            if !answered.contains(site) {
                self.send(site, message.clone(), out);
            }
        }
        if let Some(led) = self.led.get_mut(&id) {
            led.sent = now;
        }
    }
}
