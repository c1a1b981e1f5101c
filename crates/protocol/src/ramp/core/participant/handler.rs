//! What a node does on a coordinator's messages to its participant.

use anabranch_types::NodeId;

use crate::ramp::core::message::{Decision, Message, Stamped};
use crate::ramp::node::RampNode;
use crate::{Outbox, TransactionId};

impl RampNode {
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
            return; // It is shown by now, and perhaps forgotten.
        }
        let slots = self.participant.commit(&mut self.context, decided);
        let sequence = self.participant.store.last();
        self.context.stability.reached(self.partition, sequence);
        let slots = slots.map_err(Box::new);
        let committed = Message::Committed { transaction, slots };
        self.send(coordinator, committed, out);
    }
}
