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
        /// What it wrote and follows, under causal RAMP.
        trace: Option<Trace>,
        /// Its place among the writers of a register, if another cluster has given it one.
        origin_commit: Option<Timestamp>,
    },
    /// A participant has voted yes.
    Prepared(Box<PreparedRecord>),
    /// What was prepared is shown.
    Committed {
        /// The transaction.
        decided: Decision,
        /// What it came to; none if it only read guards here.
        changes: Option<Vec<LoggedChange>>,
        /// What its deferred effects produced, in case that the coordinator asks again.
        slots: Slots,
    },
    /// A participant has said that it will never prepare this transaction, nor any other of the same
    /// coordinator with a lower name.
    Promised {
        /// The transaction.
        prepared: Timestamp,
    },
    /// What was prepared is forgotten.
    Aborted {
        /// The transaction.
        prepared: Timestamp,
    },
    /// A coordinator has decided to commit, and its own partition shows the transaction.
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
    /// Of sticky clusters: all of them show it.
    Replicated {
        /// What.
        origin_commit: Timestamp,
    },
    /// Every participant has acknowledged the decision: nobody will ask for it again.
    Ended {
        /// The transaction.
        transaction: TransactionId,
        /// Its commit timestamp.
        commit: Timestamp,
        /// Under causal RAMP: at or before which commits it was shown on its partitions.
        covered: Option<SequenceVector>,
    },
    /// Transactions that no reader needs evidence of have been forgotten: whoever follows the log
    /// forgets them as well.
    Settled {
        /// By node: up to where its transactions are settled.
        settled: Vec<Timestamp>,
        /// Under causal RAMP: at or before which commits they, and all that they follow, were shown.
        covered: Option<SequenceVector>,
    },
    /// Of a checkpoint: what is known of committed transactions.
    Stability(Box<StabilityRecord>),
    /// Of a checkpoint, of sticky clusters: what has been taken over from a node of another one.
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
    /// Whose.
    pub transaction: TransactionId,
    /// Its name among participants, given by its coordinator's clock.
    pub prepared: Timestamp,
    /// Everybody who has been sent Prepare.
    pub participants: Participants,
    /// What was answered.
    pub vote: Timestamp,
    /// The newest commit here at the vote.
    pub after: CommitSequence,
    /// What it will do here.
    pub effects: Vec<Effect>,
    /// What is known of its write set, if it writes here and elsewhere.
    pub siblings: Option<Arc<Siblings>>,
    /// What it follows, under causal RAMP, if anything.
    pub causal_context: Option<Arc<CausalContext>>,
    /// What is held for it.
    pub intents: RequestedIntents,
    /// Its place among the writers of a register, if another cluster has given it one.
    pub origin_commit: Option<Timestamp>,
}

/// See [`RampRecord::Decided`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DecidedRecord {
    /// Whose.
    pub transaction: TransactionId,
    /// Its name, and its place among the writers of a register.
    pub decided: Decision,
    /// The other participants.
    pub others: Vec<NodeId>,
    /// What it came to on the own partition; none if it did nothing there (or, in a checkpoint, if
    /// the rows show it already).
    pub changes: Option<Vec<LoggedChange>>,
    /// What is known of its write set, if it writes here and elsewhere.
    pub trace: Option<Trace>,
    /// What it follows, under causal RAMP, if anything.
    pub causal_context: Option<Arc<CausalContext>>,
    /// Its place among the writers of a register, if another cluster has given it one.
    pub origin_commit: Option<Timestamp>,
}

/// See [`RampRecord::Applied`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AppliedRecord {
    /// Who has decided it there.
    pub from: NodeId,
    /// Everything below this is shown here.
    pub below: Timestamp,
    /// What is decided here and not shown everywhere, by place, ascending.
    pub decided: Vec<Timestamp>,
    /// What is shown of the rest.
    pub installed: Vec<Timestamp>,
}

/// See [`RampRecord::ReplicatedWrite`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplicatedWriteRecord {
    /// Whose.
    pub transaction: TransactionId,
    /// Its only timestamp.
    pub name: Timestamp,
    /// What it will do on each partition, in every cluster.
    pub works: Vec<(PartitionId, Vec<Effect>)>,
    /// What is known of its write set, if it writes on several partitions.
    pub siblings: Option<Arc<Siblings>>,
}

/// See [`RampRecord::StableVector`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StabilityRecord {
    /// By node: up to where its transactions are known to be stable.
    pub known: Vec<Timestamp>,
    /// By node: up to where its transactions are settled, but for strays.
    pub settled: Vec<Timestamp>,
    /// Of each coordinator that has ever had some: when it said so, and its strays among what is settled.
    pub exceptions: Vec<(Timestamp, Vec<Timestamp>)>,
    /// Under causal RAMP: what is known to be stable was installed at or before this.
    pub covered: Option<SequenceVector>,
    /// Under causal RAMP: own transactions that all participants have acknowledged, and that follow some
    /// which are not known to be stable.
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

/// Of [`StabilityRecord`]: a transaction over several partitions that a reader may have to be told of.
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
