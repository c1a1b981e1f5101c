//! Which writes a node admits: all, unless it lacks room.
//!
//! A transaction is refused before its effects reach the protocol, so nothing of it stays anywhere. Transactions that
//! have reached it go on: their decisions and acknowledgements need room too, which the driver keeps in reserve.

use anabranch_protocol::PartitionEffects;
use anabranch_types::{Effect, TableId};

/// What a node lacks room in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The disk of its log.
    Disk,
    /// Memory.
    Memory,
}

/// The transactions that a node lets commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// All.
    #[default]
    All,
    /// Those that write nothing, and those that only delete: they need little room, and free some.
    Deletes(Shortage),
    /// Those that write nothing.
    Reads(Shortage),
}

impl Admission {
    /// Why a transaction with these effects is refused; those on tables that do not count are left out.
    pub(crate) fn refuses(
        self,
        effects: &[PartitionEffects],
        counts: impl Fn(TableId) -> bool,
    ) -> Option<Shortage> {
        let all = effects.iter().flat_map(|part| &part.effects);
        let mut all = all.filter(|effect| counts(effect.table()));
        let (is_refused, shortage) = match self {
            Admission::All => return None,
            Admission::Deletes(shortage) => (
                all.any(|effect| !matches!(effect, Effect::Delete { .. })),
                shortage,
            ),
            Admission::Reads(shortage) => (all.next().is_some(), shortage),
        };
        is_refused.then_some(shortage)
    }

    /// The narrower of two.
    #[must_use]
    pub fn and(self, other: Admission) -> Admission {
        match (self, other) {
            (Admission::All, other) => other,
            (Admission::Deletes(_), reads @ Admission::Reads(_)) => reads,
            (admission, _) => admission,
        }
    }
}
