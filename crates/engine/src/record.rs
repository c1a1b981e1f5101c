//! Records of attempts, for recorded histories.
//!
//! They are off by default ([`crate::NodeOptions::records`]). When they are on, each attempt outputs an
//! [`AttemptRecord`] when it ends: its reads and, if the stores record as well, the versions that they
//! returned; its effects as sent to the protocol; and its outcome. The items written are recorded by the
//! stores ([`anabranch_storage::Installed`]), since a deferred effect has its key only where it is
//! installed.

use std::sync::Arc;

use anabranch_protocol::{AbortReason, PartitionEffects, PartitionRead, TransactionId};
use anabranch_sql::StatementResult;
use anabranch_types::{Fetched, PartitionId, Read, Ticks, Timestamp, Value};

use crate::call::{CallId, Work};

/// One attempt of one call, from its first step to its end.
#[derive(Clone, Debug)]
pub struct AttemptRecord {
    /// The attempt's name in the cluster.
    pub transaction: TransactionId,
    /// Its call.
    pub call: CallId,
    /// The procedure or statement.
    pub work: Work,
    /// Its arguments.
    pub arguments: Arc<[Value]>,
    /// The attempt's number within its call, from 1.
    pub attempt: u32,
    /// When the attempt began.
    pub began: Ticks,
    /// When it ended; `None` if it has not.
    pub ended: Option<Ticks>,
    /// Its reads, in the order in which the procedure got the answers. The answers do not include own
    /// writes.
    pub reads: Vec<RecordedRead>,
    /// The results of its procedure's statements, in order of execution.
    pub results: Vec<StatementResult>,
    /// Its effects, in order of execution on each partition; empty before its commit request.
    pub effects: Vec<PartitionEffects>,
    /// Its outcome.
    pub outcome: AttemptOutcome,
}

/// One read of an attempt.
#[derive(Clone, Debug)]
pub struct RecordedRead {
    /// The partition.
    pub partition: PartitionId,
    /// The read.
    pub read: Read,
    /// Whether it is a guard.
    pub guard: bool,
    /// The answer: [`Fetched::Recorded`] if the partition's store records.
    pub fetched: Fetched,
}

impl RecordedRead {
    /// The record of a read that has no answer yet.
    pub(crate) fn asked(asked: &PartitionRead) -> RecordedRead {
        RecordedRead {
            partition: asked.partition,
            read: asked.read.clone(),
            guard: asked.access.guard,
            fetched: Fetched::Range(Vec::new()),
        }
    }
}

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// It has committed at this timestamp.
    Committed(Timestamp),
    /// It has aborted, without effects.
    Aborted(AbortReason),
    /// It has not ended. If its node is lost, its client gets no answer.
    Open,
}
