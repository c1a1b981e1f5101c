//! Who locks, where, and how.

/// A transaction at this partition: an index into the participant's transactions.
pub(crate) type LockOwner = u32;

/// The number of an index's space. A table's secondary indexes come before its primary key: a scan
/// of a secondary index locks its span first and then the rows that it found there.
pub(crate) type SpaceId = u32;

/// A lock's mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Excludes exclusive locks of other owners.
    Shared,
    /// Excludes all locks of other owners.
    Exclusive,
}

impl Mode {
    /// Whether locks of two owners exclude each other.
    pub(crate) fn conflicts(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }
}
