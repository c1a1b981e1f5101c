//! A durable node on a full disk.
//!
//! The log gives up its reserve when an append does not fit, so what has begun can end. From then on the node refuses
//! writes: first all but deletions, and all when half of the reserve is used, so that the rest is left for a checkpoint.
//! If even the reserve is too small, records and the output that depends on them wait in memory.
//!
//! The driver calls [`DurableNode::make_room`] from time to time. It repeats what waits, fills the reserve again, and
//! begins a checkpoint, which frees the log below it.

use anabranch_protocol::Durable;
use anabranch_storage::{LogError, Media, Room};

use super::DurableNode;
use crate::admission::{Admission, Shortage};
use crate::node::NodeOutbox;

/// On a full disk a checkpoint that did not fit is tried again after this many bytes of log, or after so many looks
/// for room: meanwhile versions have been collected, or other files were removed.
const RETRY_BYTES: u64 = 64 << 10;
const RETRY_LOOKS: u32 = 16;

impl<P: Durable, D: Media> DurableNode<P, D> {
    /// Which transactions its disk has room for.
    pub fn admission(&self) -> Admission {
        if !self.unlogged.is_empty() {
            return Admission::Reads(Shortage::Disk);
        }
        match self.log.room() {
            Room::Enough => Admission::All,
            Room::Reserve { left } if left >= self.options.log.reserve_bytes / 2 => {
                Admission::Deletes(Shortage::Disk)
            }
            Room::Reserve { .. } => Admission::Reads(Shortage::Disk),
        }
    }

    /// Continues as far as there is room now. The driver calls it from time to time while [`DurableNode::admission`]
    /// refuses something.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn make_room(&mut self, out: &mut NodeOutbox<P::Message>) -> Result<(), LogError> {
        if self.admission() == Admission::All {
            return Ok(());
        }
        self.flush(out)?;
        if self.unlogged.is_empty() && !self.log.refill_reserve()? && self.checkpoint.is_none() {
            self.looks += 1;
            let since = self.abandoned_at.map(|at| self.log.end().0 - at.0);
            let is_time =
                since.is_none_or(|since| since >= RETRY_BYTES) || self.looks >= RETRY_LOOKS;
            if self.log.since_checkpoint() > 0 && is_time {
                self.looks = 0;
                // The segments that are complete are removed with the checkpoint.
                self.log.rotate()?;
                self.wants_checkpoint = true;
            }
        }
        self.admit();
        Ok(())
    }

    /// Passes on to the node what the disk has room for.
    pub(super) fn admit(&mut self) {
        let admission = self.admission().and(self.other_admission);
        self.node.admit(admission);
    }

    /// Lets the node commit no more than this, whatever its disk has room for.
    pub fn limit_admission(&mut self, admission: Admission) {
        self.other_admission = admission;
        self.admit();
    }

    /// Removes the checkpoint under way, since the disk is full.
    pub(super) fn abandon_checkpoint(&mut self) -> Result<(), LogError> {
        if let Some(mut running) = self.checkpoint.take() {
            running.end(self.node.protocol_mut());
        }
        self.wants_checkpoint = false;
        self.abandoned_at = Some(self.log.end());
        self.log.abandon_checkpoint()
    }
}
