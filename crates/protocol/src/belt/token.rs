//! The token, what it carries, and the names of servers, hops and updates.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// Names a server of the ring.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct ServerId(pub u16);

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// A period with one set of servers. A removal begins the next one. The server that coordinates the removal is part
/// of the name, so that no two removals begin the same epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Epoch {
    /// Its number, from 0.
    pub number: u64,
    /// The server that began it.
    pub server: ServerId,
}

/// A hop of the token: from 1, one higher each time that the token is passed. A server that has received hop *h* has
/// *hold* h.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Hop(pub u64);

impl Hop {
    /// The next hop.
    #[must_use]
    pub fn next(self) -> Hop {
        Hop(self.0 + 1)
    }
}

/// The number of an update among those of its origin, from 1: drawn after the operation's last statement and before
/// its COMMIT. A COMMIT that fails leaves a gap.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Sequence(pub u64);

/// By origin: the highest update that a server has applied.
pub type Positions = BTreeMap<ServerId, Sequence>;

/// What an update changes, as the database made it.
pub trait Payload: Clone + fmt::Debug {
    /// Its size in a token, in bytes.
    fn bytes(&self) -> usize;
}

/// The update of one global operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Update<U> {
    /// The server that ran the operation.
    pub origin: ServerId,
    /// The hold in which it ran.
    pub hop: Hop,
    /// Its number at the origin.
    pub sequence: Sequence,
    /// What it changes.
    pub payload: U,
}

impl<U> Update<U> {
    /// Its place in the order of all updates: no two have the same.
    pub fn place(&self) -> (Hop, Sequence) {
        (self.hop, self.sequence)
    }
}

/// The token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Token<U> {
    /// The epoch in which it was passed.
    pub epoch: Epoch,
    /// The hop that it makes.
    pub hop: Hop,
    /// The updates that some server is not known to have applied, in the order of [`Update::place`].
    pub updates: Vec<Update<U>>,
    /// The watermark of each server: what it had applied when it last held the token.
    pub applied: BTreeMap<ServerId, Positions>,
    /// Servers with global operations that wait.
    pub wishes: BTreeSet<ServerId>,
}

impl<U> Token<U> {
    /// Whether each of these servers is known to have applied an update.
    pub fn is_applied_by_all(&self, members: &[ServerId], update: &Update<U>) -> bool {
        members.iter().all(|member| {
            let positions = self.applied.get(member);
            let position = positions.and_then(|it| it.get(&update.origin));
            position.is_some_and(|position| *position >= update.sequence)
        })
    }
}
