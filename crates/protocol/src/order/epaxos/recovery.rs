//! Recovery of a batch, after EPaxos\*: promises, validation of a proposal that may have been decided fast, and the wait
//! for conflicting batches.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_types::Ticks;

use crate::order::{Ballot, BatchId, OutboxOf, Payload, SiteId, SiteSet};

use super::EpaxosSite;
use super::entry::{Decision, Proposal, Status};
use super::leader::{Led, Phase};
use super::message::{Message, Promised};
use super::record::EpaxosRecord;

impl<P: Payload> EpaxosSite<P> {
    /// Begins a new ballot of a batch that is not committed here, to decide it.
    pub fn recover_batch(&mut self, now: Ticks, id: BatchId, out: &mut OutboxOf<Self>) {
        if self.graph.pruned.contains(id) {
            return;
        }
        let sites = self.quorums.sites();
        let site = self.site;
        let entry = self.graph.entry(id, now);
        if entry.committed().is_some() {
            return;
        }
        entry.attempts += 1;
        entry.touched = now;
        let ballot = entry.promised.max(entry.refused).next_of(site, sites);
        self.counters.recoveries += 1;
        let phase = Phase::Preparing {
            ballot,
            promises: BTreeMap::new(),
        };
        self.lead(now, id, phase, SiteSet::default());
        for to in self.others() {
            self.send(to, Message::Prepare { id, ballot }, out);
        }
        self.handle_prepare(now, site, id, ballot, out);
    }

    /// Promises to take part in no earlier ballot, and answers with what is known here.
    pub(super) fn handle_prepare(
        &mut self,
        now: Ticks,
        from: SiteId,
        id: BatchId,
        ballot: Ballot,
        out: &mut OutboxOf<Self>,
    ) {
        let entry = self.graph.entry(id, now);
        if entry.committed().is_some() {
            return self.answer_committed(now, from, id, out);
        }
        if ballot <= entry.promised {
            let promised = entry.promised;
            return self.answer(now, from, Message::Refuse { id, promised }, out);
        }
        entry.promised = ballot;
        entry.touched = now;
        let known = match &entry.status {
            Status::Unknown => Promised::Nothing,
            Status::PreAccepted { dependencies } => {
                let proposal = entry.proposal.clone();
                let proposal = proposal.expect("a batch that was answered has a proposal");
                Promised::PreAccepted {
                    agrees: *dependencies == proposal.dependencies,
                    proposal,
                }
            }
            Status::Accepted { ballot, decision } => Promised::Accepted {
                ballot: *ballot,
                decision: decision.clone(),
                proposal: decision.dependencies().and(entry.proposal.clone()),
            },
            Status::Committed { .. } => unreachable!("answered above"),
        };
        self.leave_earlier(id, ballot);
        out.records.push(EpaxosRecord::Promised { id, ballot });
        self.answer(now, from, Message::Promise { id, ballot, known }, out);
    }

    /// Collects promises; those of a classic quorum say what the ballot may decide.
    pub(super) fn handle_promise(
        &mut self,
        now: Ticks,
        from: SiteId,
        id: BatchId,
        of: Ballot,
        known: Promised<P>,
        out: &mut OutboxOf<Self>,
    ) {
        let Some(led) = self.led.get_mut(&id) else {
            return;
        };
        let Phase::Preparing { ballot, promises } = &mut led.phase else {
            return;
        };
        if *ballot != of {
            return;
        }
        if known.proposal().is_some() {
            led.holders.insert(from);
        }
        promises.insert(from, known);
        if promises.len() < self.quorums.classic() {
            return;
        }
        let promises = std::mem::take(promises);
        let quorum: SiteSet = promises.keys().copied().collect();
        let proposal = promises.values().find_map(Promised::proposal).cloned();
        match chosen(&promises, id.site, self.quorums.recovered()) {
            Chosen::Decision(decision) => {
                if let (Some(proposal), true) = (&proposal, decision != Decision::NoOp) {
                    self.know(now, id, proposal, out);
                }
                self.start_accept(now, id, of, decision, out);
            }
            Chosen::Validate { agreeing } => {
                let proposal = proposal.expect("sites have answered the proposal");
                let phase = Phase::Validating {
                    ballot: of,
                    quorum,
                    agreeing,
                    answers: SiteSet::default(),
                    conflicts: BTreeMap::new(),
                };
                self.enter(now, id, phase);
                for site in self.others().filter(|site| quorum.contains(*site)) {
                    let validate = Message::Validate {
                        id,
                        ballot: of,
                        proposal: proposal.clone(),
                    };
                    self.send(site, validate, out);
                }
                // The own site is one of the quorum: it was the first to promise.
                self.handle_validate(now, self.site, id, of, &proposal, out);
            }
        }
    }

    /// Keeps a proposal that the site has not answered.
    fn know(&mut self, now: Ticks, id: BatchId, proposal: &Proposal<P>, out: &mut OutboxOf<Self>) {
        self.graph.entry(id, now);
        if self.graph.set_proposal(id, proposal) {
            let proposal = proposal.clone();
            out.records.push(EpaxosRecord::Proposed { id, proposal });
        }
    }

    /// Keeps a proposal that may have been decided fast, and answers with what contradicts that.
    pub(super) fn handle_validate(
        &mut self,
        now: Ticks,
        from: SiteId,
        id: BatchId,
        ballot: Ballot,
        proposal: &Proposal<P>,
        out: &mut OutboxOf<Self>,
    ) {
        let entry = self.graph.entry(id, now);
        entry.touched = now;
        if entry.committed().is_some() {
            return self.answer_committed(now, from, id, out);
        }
        if ballot < entry.promised {
            let promised = entry.promised;
            return self.answer(now, from, Message::Refuse { id, promised }, out);
        }
        debug_assert_eq!(ballot, entry.promised, "it has promised this ballot");
        self.know(now, id, proposal, out);
        let conflicts = self.graph.contradictions(id, proposal);
        let validated = Message::Validated {
            id,
            ballot,
            conflicts,
        };
        self.answer(now, from, validated, out);
    }

    /// Collects validations; all of the quorum say whether the proposal may be decided.
    pub(super) fn handle_validated(
        &mut self,
        now: Ticks,
        from: SiteId,
        id: BatchId,
        of: Ballot,
        found: &[(BatchId, bool)],
        out: &mut OutboxOf<Self>,
    ) {
        let Some(led) = self.led.get_mut(&id) else {
            return;
        };
        let Phase::Validating {
            ballot,
            quorum,
            agreeing,
            answers,
            conflicts,
        } = &mut led.phase
        else {
            return;
        };
        if *ballot != of || !quorum.contains(from) || !answers.insert(from) {
            return;
        }
        led.holders.insert(from);
        for (other, is_committed) in found {
            *conflicts.entry(*other).or_default() |= is_committed;
        }
        if answers.len() < quorum.len() {
            return;
        }
        let (quorum, agreeing, conflicts) = (*quorum, *agreeing, std::mem::take(conflicts));
        let is_least = agreeing == self.quorums.recovered();
        let site_is_away = |other: &BatchId| !quorum.contains(other.site);
        let is_contradicted = conflicts.values().any(|is_committed| *is_committed)
            || (is_least && conflicts.keys().any(site_is_away));
        if is_contradicted {
            return self.start_accept(now, id, of, Decision::NoOp, out);
        }
        for other in conflicts.keys() {
            // Its decision is waited for: a recovery ends the wait.
            if !self.graph.delivered.contains(*other) {
                self.graph.entry(*other, now);
            }
        }
        let phase = Phase::Waiting {
            ballot: of,
            agreeing,
            conflicts: conflicts.into_keys().collect(),
        };
        self.enter(now, id, phase);
        if self.end_wait(now, id, out) {
            return;
        }
        let waiting = Message::Waiting { id, agreeing };
        for site in self.others() {
            self.send(site, waiting.clone(), out);
        }
        self.handle_waiting(now, id, agreeing, out);
    }

    /// Ends the wait of a batch, if what is committed here decides it. Returns whether it does.
    fn end_wait(&mut self, now: Ticks, id: BatchId, out: &mut OutboxOf<Self>) -> bool {
        let Some(Led {
            phase: Phase::Waiting {
                ballot, conflicts, ..
            },
            ..
        }) = self.led.get_mut(&id)
        else {
            return false;
        };
        let ballot = *ballot;
        let mut contradicted = false;
        conflicts.retain(|other| {
            let entry = self.graph.get(*other);
            match entry.and_then(|entry| entry.committed()) {
                None => true,
                Some(Decision::NoOp) => false,
                Some(Decision::Deliver(dependencies)) => {
                    contradicted |= !dependencies.contains(&id);
                    false
                }
            }
        });
        let is_free = conflicts.is_empty();
        if contradicted {
            self.start_accept(now, id, ballot, Decision::NoOp, out);
        } else if is_free {
            let entry = self.graph.get(id).and_then(|it| it.proposal.as_ref());
            let proposed = entry.expect("it was validated").dependencies.clone();
            self.start_accept(now, id, ballot, Decision::Deliver(proposed), out);
        }
        contradicted || is_free
    }

    /// A batch is committed here: those that wait for it may go on.
    pub(super) fn settle_waiting(&mut self, now: Ticks, of: BatchId, out: &mut OutboxOf<Self>) {
        for id in self.waiting_for(of) {
            self.end_wait(now, id, out);
        }
    }

    /// The batches whose recovery here waits for another one.
    fn waiting_for(&self, of: BatchId) -> Vec<BatchId> {
        let waits = |led: &Led<P>| match &led.phase {
            Phase::Waiting { conflicts, .. } => conflicts.contains(&of),
            _ => false,
        };
        let led = self.led.iter().filter(|(_, led)| waits(led));
        led.map(|(id, _)| *id).collect()
    }

    /// The recovery of `other` waits, too. If more sites than a fast decision leaves out have answered it without a batch
    /// that waits for it, that batch was not decided fast.
    pub(super) fn handle_waiting(
        &mut self,
        now: Ticks,
        other: BatchId,
        agreeing: usize,
        out: &mut OutboxOf<Self>,
    ) {
        if agreeing <= self.quorums.recovered() {
            return;
        }
        for id in self.waiting_for(other) {
            let ballot = self.led[&id].phase.ballot();
            self.start_accept(now, id, ballot, Decision::NoOp, out);
        }
    }

    /// Another site has promised a later ballot than one in which this site leads, or led.
    pub(super) fn handle_refuse(&mut self, now: Ticks, id: BatchId, promised: Ballot) {
        let leads = self.led.get(&id);
        if leads.is_some_and(|led| led.phase.ballot() < promised)
            && let Some(entry) = self.graph.entries.get_mut(&id)
        {
            entry.refused = entry.refused.max(promised);
            entry.touched = now;
        }
        self.leave_earlier(id, promised);
    }

    /// The batches that recoveries at this site wait for.
    pub fn awaited(&self) -> BTreeSet<BatchId> {
        let conflicts = self.led.values().filter_map(|led| match &led.phase {
            Phase::Waiting { conflicts, .. } => Some(conflicts),
            _ => None,
        });
        conflicts.flatten().copied().collect()
    }
}

/// What the promises of a classic quorum permit.
enum Chosen {
    /// This decision.
    Decision(Decision),
    /// The proposal, which may have been decided fast, if its validation permits it; otherwise a no-op.
    Validate {
        /// The sites that had answered it with its own dependencies.
        agreeing: usize,
    },
}

/// The choice of a ballot.
///
/// 1. What was accepted in the highest *accepted* ballot: an earlier ballot may have decided it.
/// 2. Otherwise a no-op, if the batch's site is among them: it has decided nothing, and will not.
/// 3. Otherwise a no-op, if fewer than `recovered` have answered the proposal with its own dependencies: it was not
///    decided fast.
/// 4. Otherwise the proposal, once it is validated.
fn chosen<P>(promises: &BTreeMap<SiteId, Promised<P>>, leader: SiteId, recovered: usize) -> Chosen {
    let accepted = promises.values().filter_map(|known| match known {
        Promised::Accepted {
            ballot, decision, ..
        } => Some((*ballot, decision)),
        Promised::Nothing | Promised::PreAccepted { .. } => None,
    });
    if let Some((_, decision)) = accepted.max_by_key(|(ballot, _)| *ballot) {
        return Chosen::Decision(decision.clone());
    }
    let agrees = |known: &&Promised<P>| matches!(known, Promised::PreAccepted { agrees: true, .. });
    let agreeing = promises.values().filter(agrees).count();
    if promises.contains_key(&leader) || agreeing < recovered.max(1) {
        return Chosen::Decision(Decision::NoOp);
    }
    Chosen::Validate { agreeing }
}
