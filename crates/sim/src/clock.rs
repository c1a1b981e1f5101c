//! The nodes' clocks.

use anabranch_types::Ticks;

/// The reading of every clock at virtual time 0. It is so high that a clock that is set back never reads below 0.
pub(crate) const EPOCH: i64 = 10_000_000_000;

/// The reading of a node's clock at virtual time `now`. `skew` is the clock's offset, in nanoseconds.
pub(crate) fn local(now: Ticks, skew: i64) -> Ticks {
    Ticks((now.0 as i64 + skew).max(0) as u64)
}
