//! What a node's coordinator and participant share: the time, the clock, what is stable, and the journal.

use anabranch_types::{ActivityProbe, EffectError, HybridClock, NodeId, Ticks, Timestamp};

use crate::ramp::core::extension::Stability;
use crate::record::Journal;

/// What a node's participant and coordinator share.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) now: Ticks,
    pub(crate) clock: HybridClock,
    /// How far ahead of it another node's may be.
    pub(crate) ahead_max: Ticks,
    pub(crate) stability: Stability,
    /// What has to be written down, in a node that keeps records.
    pub(crate) journal: Option<Box<Journal>>,
    pub(crate) probe: ActivityProbe,
}

impl Context {
    /// By how many microseconds a timestamp is ahead of this node's clock, if that is more than permitted.
    fn too_far_ahead(&self, timestamp: Timestamp) -> Option<u64> {
        let known = self.clock.last().max(self.now.as_micros());
        let ahead = timestamp.logical().saturating_sub(known);
        (ahead > self.ahead_max.as_micros()).then_some(ahead)
    }

    /// Why the clock does not follow a timestamp of another node's clock; `None` if it may.
    pub(crate) fn refuses_clock(&self, timestamp: Timestamp, node: NodeId) -> Option<EffectError> {
        let ahead = self.too_far_ahead(timestamp)?;
        let most = self.ahead_max.as_micros();
        Some(misnamed(format!(
            "{timestamp} is {ahead} us ahead of this node's clock, and at most {most} us are \
             permitted: set {node}'s clock right"
        )))
    }

    /// Lets the clock follow another node's, unless that one is too far ahead.
    pub(crate) fn follow_clock(&mut self, timestamp: Timestamp) {
        if self.too_far_ahead(timestamp).is_none() {
            self.clock.observe(timestamp);
        }
    }
}

/// What a transaction's name, or the clock that it is from, is refused with.
pub(crate) fn misnamed(message: String) -> EffectError {
    EffectError::new("58000", message)
}
