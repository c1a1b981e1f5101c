//! The timers of a RAMP node, one for each task that is not an answer to a message.

use crate::TimerId;

/// The timer that lets a node tell participants what is stable.
pub(crate) const ANNOUNCE: TimerId = TimerId(0);

/// The timer that looks for what has been prepared for too long.
pub(crate) const TERMINATE: TimerId = TimerId(1);

/// The timer that lets a node try again what it could not take over.
pub(crate) const RETRY_REMOTE: TimerId = TimerId(2);

/// The timer that looks whether own transactions have waited for what they follow for too long.
pub(crate) const AWAIT: TimerId = TimerId(3);

/// The timer that looks for reads that were not answered in time.
pub(crate) const RETRY: TimerId = TimerId(4);

/// The timer that lets a node tell how far its readers are.
pub(crate) const GOSSIP: TimerId = TimerId(5);
