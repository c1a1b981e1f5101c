//! What a node does on a coordinator's messages to its participant.

use anabranch_types::NodeId;

use crate::ramp::core::message::{
    CommitAlone, Decision, Message, Prepare, ReadPoint, ReadRequest, Stamped,
};
use crate::ramp::node::RampNode;
use crate::{AbortReason, Outbox, TransactionId};

impl RampNode {
    pub(crate) fn handle_get(
        &mut self,
        from: NodeId,
        transaction: TransactionId,
        (at, request): (ReadPoint, ReadRequest),
        out: &mut Outbox<Stamped>,
    ) {
        let (reads, required) = (request.reads.iter(), request.required());
        let freshness = request.requirements.as_ref();
        let freshness = freshness.and_then(|requirements| requirements.freshness.as_ref());
        let (context, known) = (&mut self.context, &request.known);
        let result = (self.participant).get(context, at, reads, required, known, freshness);
        self.count_false_positives();
        let got = Message::Got {
            transaction,
            result,
        };
        self.send(from, got, out);
    }

    pub(crate) fn handle_prepare(
        &mut self,
        from: NodeId,
        prepare: Prepare,
        out: &mut Outbox<Stamped>,
    ) {
        let transaction = prepare.transaction;
        let vote = match self.misnamed(from, transaction, prepare.prepared) {
            Some(error) => Err(AbortReason::Failed(error)),
            None => {
                self.context.clock.observe(prepare.prepared);
                let context = &mut self.context;
                match self.options.prepares_in_all_clusters() {
                    true => self.participant.prepare_replicated(context, prepare),
                    false => self.participant.prepare(context, prepare),
                }
            }
        };
        let vote = vote.map_err(Box::new);
        self.send(from, Message::Vote { transaction, vote }, out);
        self.schedule_termination(out);
    }

    pub(crate) fn handle_commit_alone(
        &mut self,
        from: NodeId,
        alone: CommitAlone,
        out: &mut Outbox<Stamped>,
    ) {
        let result = self.commit_own_alone(alone.work, alone.causal_context, out);
        let answer = Message::CommittedAlone {
            transaction: alone.transaction,
            result: result.map_err(Box::new),
        };
        self.send(from, answer, out);
    }

    /// Commit: from the coordinator, or from another participant that was asked.
    pub(crate) fn handle_commit(
        &mut self,
        from: NodeId,
        transaction: TransactionId,
        decided: Decision,
        out: &mut Outbox<Stamped>,
    ) {
        let coordinator = transaction.node;
        if from != coordinator && !self.participant.is_prepared(decided.prepared) {
            return; // It is installed by now, and perhaps forgotten.
        }
        let slots = self.participant.commit(&mut self.context, decided);
        let sequence = self.participant.store.last();
        self.context.stability.reached(self.partition, sequence);
        let slots = slots.map_err(Box::new);
        let committed = Message::Committed { transaction, slots };
        self.send(coordinator, committed, out);
    }
}
