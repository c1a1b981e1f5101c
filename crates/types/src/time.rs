//! Virtual time and transaction timestamps.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Nanoseconds since the start of a run. The driver of a node supplies the time: a wall clock
/// in `server`, an event queue in the simulator. Nothing below reads a clock.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Ticks(pub u64);

impl Ticks {
    /// `micros` microseconds as ticks.
    pub const fn from_micros(micros: u64) -> Ticks {
        Ticks(micros * 1_000)
    }

    /// `millis` milliseconds as ticks.
    pub const fn from_millis(millis: u64) -> Ticks {
        Ticks(millis * 1_000_000)
    }

    /// Whole microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// The ticks from `earlier` to `self`, or none if the clock went backwards.
    pub const fn since(self, earlier: Ticks) -> Ticks {
        Ticks(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add for Ticks {
    type Output = Ticks;
    fn add(self, other: Ticks) -> Ticks {
        Ticks(self.0.saturating_add(other.0))
    }
}

const NODE_BITS: u32 = 10;

/// The most nodes a cluster can have: a timestamp keeps 10 bits for its node.
pub const NODES_MAX: u16 = 1 << NODE_BITS;

/// Names one transaction and orders it among the writers of an item.
///
/// A hybrid logical clock in 54 bits (microseconds, pushed ahead by what the node has observed)
/// above the 10 bits of the node that issued it. So timestamps are unique across nodes without
/// coordination (ramp.txt §4.5), and a new client's writes are not hidden behind a busy one's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Before every transaction: the timestamp of what was loaded.
    pub const ZERO: Timestamp = Timestamp(0);
    /// After every transaction.
    pub const MAX: Timestamp = Timestamp(u64::MAX);

    /// The timestamp with this logical time (54 bits, microseconds) from this node.
    pub const fn new(logical: u64, node: super::NodeId) -> Timestamp {
        Timestamp(logical << NODE_BITS | node.0 as u64)
    }

    /// The node that issued this timestamp.
    pub const fn node(self) -> super::NodeId {
        super::NodeId((self.0 & ((1 << NODE_BITS) - 1)) as u16)
    }

    /// The logical time, in microseconds of the issuing node's clock or ahead of it.
    pub const fn logical(self) -> u64 {
        self.0 >> NODE_BITS
    }

    /// The number that goes over the wire and into the log.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The inverse of [`Timestamp::to_bits`].
    pub const fn from_bits(bits: u64) -> Timestamp {
        Timestamp(bits)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.logical(), self.node())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A node's source of timestamps: never the same twice, never behind what it has observed.
#[derive(Clone, Debug)]
pub struct HybridClock {
    node: super::NodeId,
    last: u64,
}

impl HybridClock {
    /// A clock for `node` that has issued nothing yet.
    ///
    /// # Panics
    /// When `node` is not below [`NODES_MAX`].
    pub fn new(node: super::NodeId) -> HybridClock {
        assert!(node.0 < NODES_MAX, "node {node} does not fit a timestamp");
        HybridClock { node, last: 0 }
    }

    /// A new timestamp, above every one issued or observed before.
    pub fn next(&mut self, now: Ticks) -> Timestamp {
        self.last = (self.last + 1).max(now.as_micros());
        Timestamp::new(self.last, self.node)
    }

    /// The highest logical time issued or observed, in microseconds.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Takes note of a timestamp seen in a message, so that later ones are above it.
    pub fn observe(&mut self, seen: Timestamp) {
        self.last = self.last.max(seen.logical());
    }
}
