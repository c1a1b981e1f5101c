//! The phases of a batch at the site that leads it: the batch's own site in ballot 0, or one that recovers it.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_types::Ticks;

use crate::order::gathering::Gathered;
use crate::order::{Ballot, Batch, BatchId, OutboxOf, Payload, SiteSet};

use super::entry::{Decision, Proposal};
use super::graph::WINDOW;
use super::message::{Message, Promised};
use super::{EpaxosSite, SiteId, TIMER_BATCH, TIMER_FAST};

/// A batch that this site leads.
#[derive(Clone, Debug, Hash)]
pub(super) struct Led<P> {
    pub(super) phase: Phase<P>,
    /// When its messages were last sent.
    pub(super) sent: Ticks,
    /// The sites that are known to have the proposal.
    pub(super) holders: SiteSet,
}

/// What a leader waits for.
#[derive(Clone, Debug, Hash)]
pub(super) enum Phase<P> {
    /// For answers to its proposal, in ballot 0.
    PreAccepting {
        /// The answers.
        answers: BTreeMap<SiteId, BTreeSet<BatchId>>,
    },
    /// For a classic quorum that accepts a decision.
    Accepting {
        ballot: Ballot,
        decision: Decision,
        /// The sites that have accepted it.
        answers: SiteSet,
    },
    /// For promises of a classic quorum.
    Preparing {
        ballot: Ballot,
        promises: BTreeMap<SiteId, Promised<P>>,
    },
    /// For all of that quorum to validate the proposal.
    Validating {
        ballot: Ballot,
        /// The sites that have promised.
        quorum: SiteSet,
        /// How many of them had answered the proposal with its own dependencies.
        agreeing: usize,
        /// The sites that have validated it.
        answers: SiteSet,
        /// The contradictions that they know, and whether each is committed at one of them.
        conflicts: BTreeMap<BatchId, bool>,
    },
    /// For conflicting batches to be committed.
    Waiting {
        ballot: Ballot,
        /// See `Validating`.
        agreeing: usize,
        /// The batches that are not known to be committed.
        conflicts: BTreeSet<BatchId>,
    },
}

impl<P> Phase<P> {
    /// The ballot in which this site leads.
    pub(super) fn ballot(&self) -> Ballot {
        match self {
            Phase::PreAccepting { .. } => Ballot::default(),
            Phase::Accepting { ballot, .. }
            | Phase::Preparing { ballot, .. }
            | Phase::Validating { ballot, .. }
            | Phase::Waiting { ballot, .. } => *ballot,
        }
    }

    /// Whether a message of this phase that was lost would be missed at the site.
    fn lacks(&self, site: SiteId) -> bool {
        match self {
            Phase::PreAccepting { answers } => !answers.contains_key(&site),
            Phase::Accepting { answers, .. } => !answers.contains(site),
            // A site that has promised refuses; a new recovery takes a new ballot.
            Phase::Preparing { .. } => false,
            Phase::Validating {
                quorum, answers, ..
            } => quorum.contains(site) && !answers.contains(site),
            Phase::Waiting { .. } => true,
        }
    }
}

impl<P: Payload> EpaxosSite<P> {
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
        self.held_up.push_back(batch);
        self.propose_held_up(now, out);
    }

    /// Proposes batches that wait, as far as the window of batches that are not delivered here permits.
    pub(super) fn propose_held_up(&mut self, now: Ticks, out: &mut OutboxOf<Self>) {
        let has_room = |site: &Self| {
            let first = site.graph.delivered.first_missing(site.site).sequence;
            site.sequence + 1 - first < WINDOW
        };
        while has_room(self)
            && let Some(batch) = self.held_up.pop_front()
        {
            self.propose(now, batch, out);
        }
    }

    /// Proposes a new batch, with the conflicting batches that are known here as dependencies.
    fn propose(&mut self, now: Ticks, batch: Batch<P>, out: &mut OutboxOf<Self>) {
        self.sequence += 1;
        let id = BatchId {
            site: self.site,
            sequence: self.sequence,
        };
        self.counters.batches += 1;
        self.own.insert(id);
        self.report_own();
        let proposal = Proposal {
            dependencies: self.graph.conflicts_of_new(&batch),
            pruned: self.graph.pruned.clone(),
            depth: self.graph.deepest,
            batch,
        };
        let phase = Phase::PreAccepting {
            answers: BTreeMap::new(),
        };
        self.lead(now, id, phase, [self.site].into_iter().collect());
        let message = Message::PreAccept { id, proposal };
        // The own site first: its record has the batch.
        self.take(now, self.site, message.clone(), out);
        for site in self.others() {
            self.send(site, message.clone(), out);
        }
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

    /// Changes the phase of a batch that this site leads.
    pub(super) fn enter(&mut self, now: Ticks, id: BatchId, phase: Phase<P>) {
        let holders = self.led.get(&id).map(|led| led.holders);
        self.lead(now, id, phase, holders.unwrap_or_default());
    }

    pub(super) fn handle_pre_accepted(
        &mut self,
        now: Ticks,
        from: SiteId,
        id: BatchId,
        dependencies: BTreeSet<BatchId>,
        out: &mut OutboxOf<Self>,
    ) {
        let Some(led) = self.led.get_mut(&id) else {
            return;
        };
        let Phase::PreAccepting { answers } = &mut led.phase else {
            return;
        };
        led.holders.insert(from);
        answers.insert(from, dependencies);
        let classic = self.quorums.classic();
        if answers.len() == classic && classic < self.quorums.fast() {
            let due = Ticks(now.0 + self.options.fast_wait.0);
            out.timers.push((due, TIMER_FAST));
        }
        self.decide(now, id, false, out);
    }

    /// Commits a batch whose answers all agree, or begins its accept phase. Waits for a fast decision as long as one is
    /// possible, unless `at_once`.
    fn decide(&mut self, now: Ticks, id: BatchId, at_once: bool, out: &mut OutboxOf<Self>) {
        let Some(Led {
            phase: Phase::PreAccepting { answers },
            ..
        }) = self.led.get(&id)
        else {
            return;
        };
        let entry = self.graph.get(id).and_then(|it| it.proposal.as_ref());
        let proposed = &entry.expect("the leader has the proposal").dependencies;
        let agree = answers.values().all(|answer| answer == proposed);
        if agree && answers.len() >= self.quorums.fast() {
            let decision = Decision::Deliver(proposed.clone());
            self.counters.fast_decisions += 1;
            return self.announce(now, id, decision, out);
        }
        if answers.len() < self.quorums.classic() || (agree && !at_once) {
            return;
        }
        let union = answers.values().flatten().copied().collect();
        self.start_accept(now, id, Ballot::default(), Decision::Deliver(union), out);
    }

    /// Gives up waiting for a fast decision of a batch whose answers have come from a classic quorum.
    pub fn decide_classic(&mut self, now: Ticks, id: BatchId, out: &mut OutboxOf<Self>) {
        self.decide(now, id, true, out);
    }

    /// Whether this site waits for more answers than a classic quorum's, in hope of a fast decision.
    pub fn waits_for_fast(&self, id: BatchId) -> bool {
        self.led.get(&id).is_some_and(|led| match &led.phase {
            Phase::PreAccepting { answers } => answers.len() >= self.quorums.classic(),
            _ => false,
        })
    }

    /// Gives up waiting for fast decisions whose time is over.
    pub(super) fn end_fast_waits(&mut self, now: Ticks, out: &mut OutboxOf<Self>) {
        let wait = self.options.fast_wait.0;
        let over = |led: &Led<P>| {
            matches!(led.phase, Phase::PreAccepting { .. }) && now.0 >= led.sent.0 + wait
        };
        let led = self.led.iter().filter(|(_, led)| over(led));
        let ids: Vec<BatchId> = led.map(|(id, _)| *id).collect();
        for id in ids {
            self.decide_classic(now, id, out);
        }
    }

    /// The accept phase of a ballot. The own site has the proposal, unless the decision is a no-op.
    pub(super) fn start_accept(
        &mut self,
        now: Ticks,
        id: BatchId,
        ballot: Ballot,
        decision: Decision,
        out: &mut OutboxOf<Self>,
    ) {
        let phase = Phase::Accepting {
            ballot,
            decision: decision.clone(),
            answers: SiteSet::default(),
        };
        self.enter(now, id, phase);
        let holders = self.led[&id].holders;
        for site in self.others() {
            let accept = Message::Accept {
                id,
                ballot,
                decision: decision.clone(),
                proposal: self.proposal_for(id, &decision, holders.contains(site)),
            };
            self.send(site, accept, out);
        }
        self.handle_accept(now, self.site, id, ballot, decision, None, out);
    }

    /// The proposal for a site, unless that has it or needs none.
    fn proposal_for(&self, id: BatchId, decision: &Decision, has_it: bool) -> Option<Proposal<P>> {
        match decision {
            Decision::NoOp => None,
            Decision::Deliver(_) if has_it => None,
            Decision::Deliver(_) => self.graph.get(id)?.proposal.clone(),
        }
    }

    pub(super) fn handle_accepted(
        &mut self,
        now: Ticks,
        from: SiteId,
        id: BatchId,
        of: Ballot,
        out: &mut OutboxOf<Self>,
    ) {
        let Some(led) = self.led.get_mut(&id) else {
            return;
        };
        let Phase::Accepting {
            ballot,
            decision,
            answers,
        } = &mut led.phase
        else {
            return;
        };
        if *ballot != of || !answers.insert(from) {
            return;
        }
        if decision.dependencies().is_some() {
            led.holders.insert(from);
        }
        if answers.len() >= self.quorums.classic() {
            let decision = decision.clone();
            self.counters.classic_decisions += u64::from(of == Ballot::default());
            self.announce(now, id, decision, out);
        }
    }

    /// The decision is final: sends it to all.
    fn announce(&mut self, now: Ticks, id: BatchId, decision: Decision, out: &mut OutboxOf<Self>) {
        let holders = self.led.get(&id).map(|led| led.holders).unwrap_or_default();
        for site in self.others() {
            let commit = Message::Commit {
                id,
                decision: decision.clone(),
                proposal: self.proposal_for(id, &decision, holders.contains(site)),
            };
            self.send(site, commit, out);
        }
        self.handle_commit(now, id, decision, None, out);
    }

    /// Sends the messages of a phase again to the sites that may have missed them.
    pub(super) fn send_again(&mut self, now: Ticks, id: BatchId, out: &mut OutboxOf<Self>) {
        let Some(led) = self.led.get(&id) else {
            return;
        };
        let proposal = || self.graph.get(id).and_then(|it| it.proposal.clone());
        let ballot = led.phase.ballot();
        let message = match &led.phase {
            Phase::PreAccepting { .. } => {
                proposal().map(|proposal| Message::PreAccept { id, proposal })
            }
            Phase::Accepting { decision, .. } => Some(Message::Accept {
                id,
                ballot,
                decision: decision.clone(),
                proposal: self.proposal_for(id, decision, false),
            }),
            Phase::Preparing { .. } => None,
            Phase::Validating { .. } => proposal().map(|proposal| Message::Validate {
                id,
                ballot,
                proposal,
            }),
            Phase::Waiting { agreeing, .. } => Some(Message::Waiting {
                id,
                agreeing: *agreeing,
            }),
        };
        let to: Vec<SiteId> = self.others().filter(|it| led.phase.lacks(*it)).collect();
        if let Some(message) = message {
            for site in to {
                self.send(site, message.clone(), out);
            }
        }
        if let Some(led) = self.led.get_mut(&id) {
            led.sent = now;
        }
    }
}
