//! What a RAMP node makes durable. The page `docs/protocols/durability.md` has the table.

use std::sync::Arc;

use anabranch_storage::{CommitSequence, LoggedChange};
use anabranch_types::{Effect, NodeId, PartitionId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::ramp::causal::context::{CausalContext, SequenceVector};
use crate::ramp::core::message::{Decision, Participants, Replicate};
use crate::ramp::core::metadata::Siblings;
use crate::ramp::core::participant::intents::RequestedIntents;
use crate::ramp::core::trace::Trace;
use crate::{Slots, TransactionId};

/// A record of a RAMP node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum RampRecord {
    /// A transaction without another participant has committed here.
    Alone {
        /// Its timestamp.
        timestamp: Timestamp,
        /// What it came to.
        changes: Vec<LoggedChange>,
        /// Causal RAMP: what it wrote and depends on.
        trace: Option<Trace>,
        /// The commit timestamp of its origin cluster, if another cluster has committed it.
        origin_commit: Option<Timestamp>,
    },
    /// A participant has voted yes.
    Prepared(Box<PreparedRecord>),
    /// A prepared transaction is installed.
    Committed {
        /// The transaction.
        decided: Decision,
        /// What it came to; none if it only read guards here.
        changes: Option<Vec<LoggedChange>>,
        /// What its deferred effects produced, in case that the coordinator asks again.
        slots: Slots,
    },
    /// A participant has promised that it will never prepare this transaction, nor any other of the same coordinator
    /// with a lower name.
    Promised {
        /// The transaction.
        prepared: Timestamp,
    },
    /// What was prepared is forgotten.
    Aborted {
        /// The transaction.
        prepared: Timestamp,
    },
    /// A coordinator has decided to commit, and its own partition has installed the transaction.
    Decided(Box<DecidedRecord>),
    /// Under Prepare-F: a coordinator asks every cluster to prepare this.
    ReplicatedWrite(Box<ReplicatedWriteRecord>),
    /// Under Prepare-F: an owner has refused it before its client was answered, and all forget it.
    Withdrawn {
        /// The transaction.
        transaction: TransactionId,
        /// Its timestamp.
        name: Timestamp,
    },
    /// Of sticky clusters: this has been decided, and all other clusters are to take it over.
    Replicate(Box<Replicate>),
    /// Sticky clusters: all of them have installed it.
    Replicated {
        /// What.
        origin_commit: Timestamp,
    },
    /// Every participant has acknowledged the decision: none will ask for it again.
    Ended {
        /// The transaction.
        transaction: TransactionId,
        /// Its commit timestamp.
        commit: Timestamp,
        /// Causal RAMP: it was installed on its partitions at or before these sequences.
        covered: Option<SequenceVector>,
    },
    /// Sibling metadata that no reader needs have been forgotten. A replica that follows the log forgets them as
    /// well.
    Settled {
        /// By node: up to where its transactions are settled.
        settled: Vec<Timestamp>,
        /// Causal RAMP: they, and all their dependencies, were installed at or before these sequences.
        covered: Option<SequenceVector>,
    },
    /// Of a checkpoint: what is known of committed transactions.
    Stability(Box<StabilityRecord>),
    /// Checkpoint of sticky clusters: what has been applied of a node of another cluster.
    Applied(AppliedRecord),
}

impl RampRecord {
    /// See [`crate::Record::is_forced`].
    pub(crate) fn is_forced(&self) -> bool {
        !matches!(
            self,
            RampRecord::Aborted { .. }
                | RampRecord::Ended { .. }
                | RampRecord::Settled { .. }
                | RampRecord::Replicated { .. }
        )
    }
}

/// See [`RampRecord::Prepared`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PreparedRecord {
    /// The transaction.
    pub transaction: TransactionId,
    /// Its name among participants, given by its coordinator's clock.
    pub prepared: Timestamp,
    /// All nodes that were sent Prepare.
    pub participants: Participants,
    /// What was answered.
    pub vote: Timestamp,
    /// The newest commit here at the vote.
    pub after: CommitSequence,
    /// What it will do here.
    pub effects: Vec<Effect>,
    /// What is known of its write set, if it writes here and elsewhere.
    pub siblings: Option<Arc<Siblings>>,
    /// Causal RAMP: what it depends on, if anything.
    pub causal_context: Option<Arc<CausalContext>>,
    /// Its write intents.
    pub intents: RequestedIntents,
    /// The commit timestamp of its origin cluster, if another cluster has committed it.
    pub origin_commit: Option<Timestamp>,
}

/// See [`RampRecord::Decided`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DecidedRecord {
    /// The transaction.
    pub transaction: TransactionId,
    /// Its name and its commit timestamp.
    pub decided: Decision,
    /// The other participants.
    pub others: Vec<NodeId>,
    /// Its result on the own partition; none if it did nothing there (or, in a checkpoint, if the rows have it
    /// already).
    pub changes: Option<Vec<LoggedChange>>,
    /// What is known of its write set, if it writes here and elsewhere.
    pub trace: Option<Trace>,
    /// Causal RAMP: what it depends on, if anything.
    pub causal_context: Option<Arc<CausalContext>>,
    /// The commit timestamp of its origin cluster, if another cluster has committed it.
    pub origin_commit: Option<Timestamp>,
}

/// See [`RampRecord::Applied`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AppliedRecord {
    /// The node that has decided these in its cluster.
    pub from: NodeId,
    /// Everything below this is installed here.
    pub below: Timestamp,
    /// Those decided here and not installed everywhere, by origin commit timestamp, ascending.
    pub decided: Vec<Timestamp>,
    /// Those of the rest that are installed.
    pub installed: Vec<Timestamp>,
}

/// See [`RampRecord::ReplicatedWrite`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplicatedWriteRecord {
    /// The transaction.
    pub transaction: TransactionId,
    /// Its only timestamp.
    pub name: Timestamp,
    /// What it will do on each partition, in every cluster.
    pub works: Vec<(PartitionId, Vec<Effect>)>,
    /// What is known of its write set, if it writes on several partitions.
    pub siblings: Option<Arc<Siblings>>,
}

/// See [`RampRecord::Stability`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StabilityRecord {
    /// By node: up to where its transactions are known to be stable.
    pub known: Vec<Timestamp>,
    /// By node: up to where its transactions are settled, except for exceptions.
    pub settled: Vec<Timestamp>,
    /// Of each coordinator that has ever had some: the time of its list, and its exceptions among what is settled.
    pub exceptions: Vec<(Timestamp, Vec<Timestamp>)>,
    /// Under causal RAMP: what is known to be stable was installed at or before this.
    pub covered: Option<SequenceVector>,
    /// Causal RAMP: own transactions that all participants have acknowledged, and that have dependencies which are
    /// not known to be stable.
    pub waiting: Vec<(Timestamp, Option<Arc<CausalContext>>)>,
    /// Every settled transaction was installed at or before this.
    pub settled_here: CommitSequence,
    /// The highest commit timestamp that this coordinator has issued.
    pub issued: Timestamp,
    /// By node: the highest name of a transaction that was prepared, or never will be.
    pub prepared_max: Vec<Timestamp>,
    /// Transactions over several partitions that are not settled, in order of installation.
    pub recent: Vec<RecentRecord>,
    /// Of committed transactions that wrote nothing here, or nothing elsewhere: what their deferred
    /// effects produced.
    pub commit_replies: Vec<(Decision, Slots)>,
}

/// Part of [`StabilityRecord`]: a transaction over several partitions whose sibling metadata a reader may need.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecentRecord {
    /// When it was installed here.
    pub sequence: CommitSequence,
    /// Its commit timestamp.
    pub commit: Timestamp,
    /// What is known of its write set.
    pub trace: Trace,
    /// What its deferred effects produced.
    pub slots: Slots,
}
