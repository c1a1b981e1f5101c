//! Sequences by their identifiers, and how far one has come.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ColumnIndex, TableId};

/// A sequence of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SequenceId {
    /// The sequence that a serial or identity column implies.
    Column(TableId, ColumnIndex),
    /// A sequence that `CREATE SEQUENCE` has made, numbered densely from 0 in order of declaration.
    Named(u16),
}

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SequenceId::Column(table, column) => write!(f, "sequence of {table}.{column}"),
            SequenceId::Named(number) => write!(f, "sequence {number}"),
        }
    }
}

/// How far a sequence has come. Of two points of one sequence, the greater one is the later one.
///
/// Numbers are counted in steps from a base. `setval` and RESTART begin a new epoch with a base of its own, so that a
/// point of an earlier epoch never counts beside one of a later epoch, however high its numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SequencePoint {
    /// The number of times that the sequence was set.
    pub epoch: u64,
    /// The steps from `base` that are given out: 0 if `base` itself is still to come.
    pub drawn: u64,
    /// The first number of the epoch.
    pub base: i64,
}

impl SequencePoint {
    /// The point of a sequence that has given no number, and begins with this one.
    pub fn first(base: i64) -> SequencePoint {
        SequencePoint {
            epoch: 0,
            drawn: 0,
            base,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_epoch_is_later_whatever_was_drawn() {
        let before = SequencePoint {
            epoch: 1,
            drawn: 900,
            base: 1,
        };
        let after = SequencePoint {
            epoch: 2,
            drawn: 0,
            base: 5,
        };
        assert!(after > before);
        assert!(SequencePoint { drawn: 1, ..after } > after);
    }
}
