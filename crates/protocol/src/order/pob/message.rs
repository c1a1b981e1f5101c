//! Messages of partial order broadcast. The network may lose, duplicate or reorder them.

use crate::order::{Batch, BatchId, Prefix};

use super::entry::{Decision, Dependencies, Epoch, Pending, Slot};

/// A message.
#[derive(Clone, Debug, Hash)]
pub enum Message<P> {
    /// Leader to all: a position and dependencies for a new batch. Only the site that broadcasts a batch proposes, in
    /// epoch 0.
    Propose {
        /// The batch.
        id: BatchId,
        /// The least free position of the leader, and the conflicting batches before it.
        slot: Slot,
        /// The payloads.
        batch: Batch<P>,
    },
    /// Site to leader: the answer to a proposal, durable at the sender.
    AckPropose {
        /// The batch.
        id: BatchId,
        /// The least position of the leader that is not below the proposed one and above all conflicting batches that
        /// the sender knows; the proposed dependencies and those conflicting batches.
        slot: Slot,
    },
    /// Leader, or a site that recovers the batch, to all: a decision to accept.
    Accept {
        /// The batch.
        id: BatchId,
        /// The sender's epoch.
        epoch: Epoch,
        /// The decision.
        decision: Decision,
        /// The payloads, unless the receiver is known to have them or the decision is a no-op.
        batch: Option<Batch<P>>,
    },
    /// The answer: the decision is accepted, durably.
    AckAccept {
        /// The batch.
        id: BatchId,
        /// The epoch.
        epoch: Epoch,
        /// Dependencies that the decision lacks and the sender knows (the paper's *deltadeps*).
        delta: Dependencies,
    },
    /// The decision is final.
    Stable {
        /// The batch.
        id: BatchId,
        /// The decision.
        decision: Decision,
        /// The payloads, unless the receiver is known to have them or the decision is a no-op.
        batch: Option<Batch<P>>,
    },
    /// A site that recovers the batch to all: a request for a promise to take part in no earlier epoch.
    Prepare {
        /// The batch.
        id: BatchId,
        /// The sender's epoch.
        epoch: Epoch,
    },
    /// The answer, durable at the sender.
    Promise {
        /// The batch.
        id: BatchId,
        /// The epoch.
        epoch: Epoch,
        /// What the sender knows.
        known: Promised<P>,
    },
    /// The answer to a proposal, a decision or a request of an earlier epoch than the sender has promised.
    Refuse {
        /// The batch.
        id: BatchId,
        /// The promised epoch.
        promised: Epoch,
    },
    /// To each site, from time to time while they differ: what the sender has delivered.
    Report {
        /// What the sender has delivered.
        delivered: Prefix,
        /// What the receiver had delivered, as far as the sender knows.
        received: Prefix,
        /// Whether the sender does not know that the receiver knows what it has delivered: then it reports until it is
        /// answered.
        needs_answer: bool,
    },
    /// To a site that has delivered these batches: a request for their decisions.
    Fetch {
        /// The batches.
        ids: Vec<BatchId>,
    },
    /// About the cut after the last one that the sender knows to be chosen.
    Cut {
        /// The number of the last chosen cut that the sender knows.
        number: u64,
        /// That cut.
        chosen: Prefix,
        /// What the sender says of the next one.
        part: CutMessage,
    },
}

/// The messages of Paxos, about the cut after the last one that the sender knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CutMessage {
    /// A request to take part in no earlier epoch.
    Prepare {
        /// The sender's epoch.
        epoch: Epoch,
    },
    /// The answer, durable at the sender.
    Promise {
        /// The epoch.
        epoch: Epoch,
        /// What the sender has accepted, and in which epoch.
        accepted: Option<(Epoch, Prefix)>,
    },
    /// A cut to accept.
    Accept {
        /// The sender's epoch.
        epoch: Epoch,
        /// The cut.
        cut: Prefix,
    },
    /// The answer: the cut is accepted, durably.
    Accepted {
        /// The epoch.
        epoch: Epoch,
    },
    /// The answer to a request or a cut of an earlier epoch than the sender has promised.
    Refuse {
        /// The promised epoch.
        promised: Epoch,
    },
    /// Nothing but the last chosen cut: it is new, or the receiver does not know it.
    Chosen,
}

/// What a site knows of a batch when it promises an epoch. A site that has it STABLE answers with
/// [`Message::Stable`] instead.
#[derive(Clone, Debug, Hash)]
pub enum Promised<P> {
    /// Not even the payloads.
    Nothing,
    /// The sender has answered the leader's proposal.
    Pending {
        /// The proposal and the answer.
        pending: Pending,
        /// The payloads.
        batch: Batch<P>,
    },
    /// The sender has accepted a decision.
    Accepted {
        /// In this epoch.
        epoch: Epoch,
        /// The decision.
        decision: Decision,
        /// The payloads, unless the decision is a no-op.
        batch: Option<Batch<P>>,
    },
}

impl<P> Promised<P> {
    /// The payloads, if the promise has them.
    pub fn batch(&self) -> Option<&Batch<P>> {
        match self {
            Promised::Nothing => None,
            Promised::Pending { batch, .. } => Some(batch),
            Promised::Accepted { batch, .. } => batch.as_ref(),
        }
    }
}

impl<P> Message<P> {
    /// The batch that the message is about, if it is about one.
    pub fn id(&self) -> Option<BatchId> {
        match self {
            Message::Propose { id, .. }
            | Message::AckPropose { id, .. }
            | Message::Accept { id, .. }
            | Message::AckAccept { id, .. }
            | Message::Stable { id, .. }
            | Message::Prepare { id, .. }
            | Message::Promise { id, .. }
            | Message::Refuse { id, .. } => Some(*id),
            Message::Report { .. } | Message::Fetch { .. } | Message::Cut { .. } => None,
        }
    }
}
