//! The timers of a RAMP node, one for each task that is not an answer to a message.

use crate::TimerId;

/// Reports the watermark to participants that no other message has brought it to.
pub(crate) const ANNOUNCE: TimerId = TimerId(0);

/// The timer that looks for what has been prepared for too long.
pub(crate) const TERMINATE: TimerId = TimerId(1);

/// Retries to apply transactions of other clusters.
pub(crate) const RETRY_REMOTE: TimerId = TimerId(2);

/// Checks for own transactions that have waited too long for their dependencies.
pub(crate) const AWAIT: TimerId = TimerId(3);

/// The timer that looks for reads that were not answered in time.
pub(crate) const RETRY: TimerId = TimerId(4);

/// Gossips how much this node's readers know to be stable.
pub(crate) const GOSSIP: TimerId = TimerId(5);
