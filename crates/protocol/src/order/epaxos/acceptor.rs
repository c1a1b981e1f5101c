//! Every site's side: answers to proposals and decisions, and delivery.

use anabranch_types::Ticks;

use crate::order::{Ballot, BatchId, OutboxOf, Payload, SiteId};

use super::EpaxosSite;
use super::entry::{Decision, Proposal, Status};
use super::message::Message;
use super::record::EpaxosRecord;

impl<P: Payload> EpaxosSite<P> {
    /// Answers a proposal with the conflicting batches that are known here.
    pub(super) fn handle_pre_accept(
        &mut self,
        now: Ticks,
        from: SiteId,
        id: BatchId,
        proposal: &Proposal<P>,
        out: &mut OutboxOf<Self>,
    ) {
        debug_assert_eq!(from, id.site, "only the batch's site proposes");
        let entry = self.graph.entry(id, now);
        entry.touched = now;
        let promised = entry.promised;
        let dependencies = match &entry.status {
            Status::Committed { .. } => return self.answer_committed(now, from, id, out),
            _ if promised > Ballot::default() => {
                return self.answer(now, from, Message::Refuse { id, promised }, out);
            }
            // A repeated proposal gets the same answer.
            Status::PreAccepted { dependencies } => dependencies.clone(),
            // The leader has decided without this answer.
            Status::Accepted { .. } => return,
            Status::Unknown => {
                self.graph.set_proposal(id, proposal);
                let dependencies = self.graph.answer(id, proposal);
                self.graph.entry(id, now).status = Status::PreAccepted {
                    dependencies: dependencies.clone(),
                };
                out.records.push(EpaxosRecord::PreAccepted {
                    id,
                    proposal: proposal.clone(),
                    dependencies: dependencies.clone(),
                });
                dependencies
            }
        };
        let answer = Message::PreAccepted { id, dependencies };
        self.answer(now, from, answer, out);
    }

    /// Accepts a decision, unless the site has promised a later ballot.
    #[expect(clippy::too_many_arguments, reason = "the fields of the message")]
    pub(super) fn handle_accept(
        &mut self,
        now: Ticks,
        from: SiteId,
        id: BatchId,
        ballot: Ballot,
        decision: Decision,
        proposal: Option<Proposal<P>>,
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
        let is_new = match &proposal {
            Some(proposal) => self.graph.set_proposal(id, proposal),
            None => false,
        };
        let entry = self.graph.entry(id, now);
        if decision.dependencies().is_some() && entry.proposal.is_none() {
            // The proposal comes with the repeated message.
            return;
        }
        entry.promised = ballot;
        entry.status = Status::Accepted {
            ballot,
            decision: decision.clone(),
        };
        self.leave_earlier(id, ballot);
        out.records.push(EpaxosRecord::Accepted {
            id,
            ballot,
            decision,
            proposal: proposal.filter(|_| is_new),
        });
        self.answer(now, from, Message::Accepted { id, ballot }, out);
    }

    /// Answers with the decision of a batch that is committed here.
    pub(super) fn answer_committed(
        &mut self,
        now: Ticks,
        to: SiteId,
        id: BatchId,
        out: &mut OutboxOf<Self>,
    ) {
        let entry = self.graph.get(id).expect("a committed batch has an entry");
        let decision = entry.committed().expect("the batch is committed").clone();
        let commit = Message::Commit {
            id,
            decision,
            proposal: entry.proposal.clone(),
        };
        self.answer(now, to, commit, out);
    }

    /// The decision is final: delivers the batch once all that it depends on is committed.
    pub(super) fn handle_commit(
        &mut self,
        now: Ticks,
        id: BatchId,
        decision: Decision,
        proposal: Option<Proposal<P>>,
        out: &mut OutboxOf<Self>,
    ) {
        self.settle(now, id, decision, proposal, out);
        self.after_delivery();
    }

    /// The same without pruning.
    pub(super) fn settle(
        &mut self,
        now: Ticks,
        id: BatchId,
        decision: Decision,
        proposal: Option<Proposal<P>>,
        out: &mut OutboxOf<Self>,
    ) {
        let entry = self.graph.entry(id, now);
        if let Some(known) = entry.committed() {
            if *known != decision {
                let found = format!("EP-I2: {id} is decided as {known:?} and as {decision:?}");
                self.violation.get_or_insert(found);
            }
            return;
        }
        let is_new = match &proposal {
            Some(proposal) => self.graph.set_proposal(id, proposal),
            None => false,
        };
        let entry = self.graph.entry(id, now);
        if decision.dependencies().is_some() && entry.proposal.is_none() {
            // A later recovery or request brings the proposal.
            return;
        }
        let lost = match (&decision, &entry.proposal) {
            (Decision::NoOp, Some(proposal)) => Some(proposal.batch.clone()),
            _ => None,
        };
        self.led.remove(&id);
        out.records.push(EpaxosRecord::Committed {
            id,
            decision: decision.clone(),
            proposal: proposal.filter(|_| is_new),
        });
        self.counters.no_ops += u64::from(decision == Decision::NoOp);
        let before = out.deliveries.len();
        self.graph.commit(id, decision, now, &mut out.deliveries);
        self.counters.deliveries += (out.deliveries.len() - before) as u64;
        self.report_own();
        if self.own.remove(&id)
            && let Some(batch) = lost
        {
            // Validity: this site has not failed, so what it has broadcast is delivered.
            self.counters.rebroadcasts += 1;
            self.held_up.push_back(batch);
        }
        self.propose_held_up(now, out);
        self.settle_waiting(now, id, out);
    }

    /// Stops leading a batch in an earlier ballot than this.
    pub(super) fn leave_earlier(&mut self, id: BatchId, ballot: Ballot) {
        let leads = |led: &super::leader::Led<P>| led.phase.ballot() < ballot;
        if self.led.get(&id).is_some_and(leads) {
            self.led.remove(&id);
        }
    }
}
