//! What a node tells of each attempt when it is asked to: for recorded histories.
//!
//! Off by default ([`crate::NodeOptions::records`]), and then nothing is gathered. When it is on,
//! each attempt leaves an [`AttemptRecord`] when it ends: what it read and, if its stores record
//! as well, from which versions; its effects as the protocol got them; and its outcome. Which
//! items were written is told by the stores ([`anabranch_storage::Installed`]): a deferred effect
//! knows its key only where it is installed.

use std::sync::Arc;

use anabranch_protocol::{AbortReason, PartitionEffects, TransactionId};
use anabranch_types::{Fetched, PartitionId, Read, Ticks, Timestamp, Value};

use crate::call::{CallId, Work};

/// One attempt of one call, from its first step to its end.
#[derive(Clone, Debug)]
pub struct AttemptRecord {
    /// Names the attempt in the cluster.
    pub transaction: TransactionId,
    /// The call that it was made for.
    pub call: CallId,
    /// What was called.
    pub work: Work,
    /// With these arguments.
    pub arguments: Arc<[Value]>,
    /// Counted from 1 for each call.
    pub attempt: u32,
    /// When the attempt began.
    pub began: Ticks,
    /// When it ended; none if it has not.
    pub ended: Option<Ticks>,
    /// What it read, in the order in which the answers were given to the procedure. Own writes are
    /// not in these answers.
    pub reads: Vec<RecordedRead>,
    /// Its effects, in order of execution on each partition; empty before it asks to commit.
    pub effects: Vec<PartitionEffects>,
    /// How it ended.
    pub outcome: AttemptOutcome,
}

/// One read of an attempt.
#[derive(Clone, Debug)]
pub struct RecordedRead {
    /// The partition that was asked.
    pub partition: PartitionId,
    /// What was asked.
    pub read: Read,
    /// The answer: [`Fetched::Recorded`] if the partition's store records.
    pub fetched: Fetched,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// It has committed at this timestamp.
    Committed(Timestamp),
    /// It left no trace.
    Aborted(AbortReason),
    /// It has not ended. If its node is lost, nobody will be told.
    Open,
}
