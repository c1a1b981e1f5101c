//! Messages of EPaxos. The network may lose, duplicate or reorder them.

use std::collections::BTreeSet;

use crate::order::{Ballot, BatchId, Prefix};

use super::entry::{Decision, Proposal};

/// A message.
#[derive(Clone, Debug, Hash)]
pub enum Message<P> {
    /// The batch's site to all, in ballot 0: a new batch.
    PreAccept {
        /// The batch.
        id: BatchId,
        /// Its payloads and dependencies.
        proposal: Proposal<P>,
    },
    /// The answer, durable at the sender.
    PreAccepted {
        /// The batch.
        id: BatchId,
        /// The proposed dependencies, and the conflicting batches that the sender knows.
        dependencies: BTreeSet<BatchId>,
    },
    /// The batch's site, or a site that recovers the batch, to all: a decision to accept.
    Accept {
        /// The batch.
        id: BatchId,
        /// The sender's ballot.
        ballot: Ballot,
        /// The decision.
        decision: Decision,
        /// The proposal, unless the receiver is known to have it or the decision is a no-op.
        proposal: Option<Proposal<P>>,
    },
    /// The answer: the decision is accepted, durably.
    Accepted {
        /// The batch.
        id: BatchId,
        /// The ballot.
        ballot: Ballot,
    },
    /// The decision is final.
    Commit {
        /// The batch.
        id: BatchId,
        /// The decision.
        decision: Decision,
        /// The proposal, unless the receiver is known to have it or the decision is a no-op.
        proposal: Option<Proposal<P>>,
    },
    /// A site that recovers the batch to all: a request for a promise to take part in no earlier ballot.
    Prepare {
        /// The batch.
        id: BatchId,
        /// The sender's ballot.
        ballot: Ballot,
    },
    /// The answer, durable at the sender.
    Promise {
        /// The batch.
        id: BatchId,
        /// The ballot.
        ballot: Ballot,
        /// What the sender knows.
        known: Promised<P>,
    },
    /// A recovering site to the sites whose promises it has: the proposal, which may have been decided fast.
    Validate {
        /// The batch.
        id: BatchId,
        /// The ballot.
        ballot: Ballot,
        /// The proposal.
        proposal: Proposal<P>,
    },
    /// The answer: from now on the sender knows the proposal, durably.
    Validated {
        /// The batch.
        id: BatchId,
        /// The ballot.
        ballot: Ballot,
        /// Conflicting batches that are no dependencies of the batch and do not depend on it, as far as the sender
        /// knows; and whether they are committed there.
        conflicts: Vec<(BatchId, bool)>,
    },
    /// A recovering site to all: it waits until conflicting batches are committed.
    Waiting {
        /// The batch.
        id: BatchId,
        /// How many sites have promised and had answered the proposal with its own dependencies.
        agreeing: usize,
    },
    /// The answer to a message of an earlier ballot than the sender has promised.
    Refuse {
        /// The batch.
        id: BatchId,
        /// The promised ballot.
        promised: Ballot,
    },
    /// To each site, from time to time while they differ: what the sender has delivered.
    Report {
        /// What the sender has delivered.
        delivered: Prefix,
        /// The number of the sender's last batch.
        sequence: u64,
        /// The same two of the receiver, as far as the sender knows.
        received: (Prefix, u64),
        /// Whether the sender does not know that the receiver knows what it has delivered: then it reports until it is
        /// answered.
        needs_answer: bool,
    },
    /// To a site that has delivered these batches: a request for their decisions.
    Fetch {
        /// The batches.
        ids: Vec<BatchId>,
    },
}

/// What a site knows of a batch when it promises a ballot. A site where it is committed answers with
/// [`Message::Commit`] instead.
#[derive(Clone, Debug, Hash)]
pub enum Promised<P> {
    /// The sender has not answered the proposal.
    Nothing,
    /// The sender has answered the proposal.
    PreAccepted {
        /// The proposal.
        proposal: Proposal<P>,
        /// Whether the answer was the proposed dependencies.
        agrees: bool,
    },
    /// The sender has accepted a decision.
    Accepted {
        /// In this ballot.
        ballot: Ballot,
        /// The decision.
        decision: Decision,
        /// The proposal, unless the decision is a no-op.
        proposal: Option<Proposal<P>>,
    },
}

impl<P> Promised<P> {
    /// The proposal, if the promise has it.
    pub fn proposal(&self) -> Option<&Proposal<P>> {
        match self {
            Promised::Nothing => None,
            Promised::PreAccepted { proposal, .. } => Some(proposal),
            Promised::Accepted { proposal, .. } => proposal.as_ref(),
        }
    }
}

impl<P> Message<P> {
    /// The batch that the message is about, if it is about one.
    pub fn id(&self) -> Option<BatchId> {
        match self {
            Message::PreAccept { id, .. }
            | Message::PreAccepted { id, .. }
            | Message::Accept { id, .. }
            | Message::Accepted { id, .. }
            | Message::Commit { id, .. }
            | Message::Prepare { id, .. }
            | Message::Promise { id, .. }
            | Message::Validate { id, .. }
            | Message::Validated { id, .. }
            | Message::Waiting { id, .. }
            | Message::Refuse { id, .. } => Some(*id),
            Message::Report { .. } | Message::Fetch { .. } => None,
        }
    }
}
