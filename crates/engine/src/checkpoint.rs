//! A checkpoint that is written in slices, while its node goes on.
//!
//! It begins between two steps, when the log has all records so far. Then the store's snapshot is pinned, and the
//! state beside it, which is small, is copied: the protocol's open transactions, the sequences, the incarnation. The
//! slices write the snapshot's items first and the copied state last, since replay needs the items first. So the
//! checkpoint is the state at its begin, whatever happens while it is written.

use std::collections::VecDeque;

use anabranch_protocol::link::Incarnation;
use anabranch_protocol::{Durable, Record};
use anabranch_storage::SnapshotExport;

use crate::log_record::NodeRecord;
use crate::sequence::SequenceStarts;
use crate::state;

/// What [`crate::DurableNode::checkpoint_slice`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointProgress {
    /// Nothing: no checkpoint is due.
    NotDue,
    /// It has begun a checkpoint, or written a slice. More can be written at once.
    Written,
    /// The disk is full: what was written of the checkpoint is removed.
    Abandoned,
    /// Nothing: the checkpoint under way waits for a sync, of itself or of the log.
    Waits,
    /// The checkpoint has replaced the one before it, and the log below it is gone.
    Adopted,
}

/// The number of records of the copied state in one slice.
const STATE_RECORDS: usize = 64;

/// The part of a checkpoint that is not written yet.
pub(crate) struct RunningCheckpoint {
    /// `None` after the last item.
    items: Option<SnapshotExport>,
    state: VecDeque<NodeRecord>,
}

impl RunningCheckpoint {
    /// Begins a checkpoint of this state. The log must have all records so far.
    pub(crate) fn begin<P: Durable>(
        incarnation: Incarnation,
        numbers: &SequenceStarts,
        protocol: &mut P,
    ) -> RunningCheckpoint {
        let items = protocol.items_mut().begin_export();
        let last = items.snapshot();
        let mut state = VecDeque::from([NodeRecord::Protocol(Record::Store { last })]);
        state::write_state(incarnation, numbers, protocol, &mut |record| {
            state.push_back(record);
        });
        RunningCheckpoint {
            items: Some(items),
            state,
        }
    }

    /// The records of the next slice, of about `bytes`; none of a stretch of items that the snapshot does not see.
    /// `None` after the last slice.
    pub(crate) fn next_slice<P: Durable>(
        &mut self,
        protocol: &mut P,
        bytes: usize,
    ) -> Option<Vec<NodeRecord>> {
        if let Some(export) = &mut self.items {
            if let Some((table, items)) = protocol.items().export_slice(export, bytes) {
                let record = |items| NodeRecord::Protocol(Record::Items { table, items });
                let items = (!items.is_empty()).then_some(items);
                return Some(items.map(record).into_iter().collect());
            }
            self.end(protocol);
        }
        let count = self.state.len().min(STATE_RECORDS);
        let records: Vec<NodeRecord> = self.state.drain(..count).collect();
        (!records.is_empty()).then_some(records)
    }

    /// Releases the pinned snapshot.
    pub(crate) fn end<P: Durable>(&mut self, protocol: &mut P) {
        if let Some(export) = self.items.take() {
            protocol.items_mut().end_export(export);
        }
    }
}
