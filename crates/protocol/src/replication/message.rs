//! What the replicas of one node say to each other. Any of it may be lost, doubled or overtaken.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Names a replica among those of its node, from 0.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct ReplicaId(pub u8);

impl ReplicaId {
    /// The number as an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// A view: a span of the group's life with at most one primary. Raft's term.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct View(pub u64);

impl View {
    /// The view in which every group begins; its primary is replica 0, by decree.
    pub const FIRST: View = View(1);

    /// The view after this one.
    pub fn next(self) -> View {
        View(self.0 + 1)
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "view {}", self.0)
    }
}

/// A place in the log. Of two logs the one that ends at the higher place knows more.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Place {
    /// The view whose primary has written the entry.
    pub view: View,
    /// Its number, from 1; 0 is before every entry.
    pub index: u64,
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry<T> {
    /// Where it stands.
    pub place: Place,
    /// What it says.
    pub payload: T,
}

/// A message. `view` is always the sender's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<T> {
    /// Primary to backup: what comes after `previous`; and, without entries as well, that the sender
    /// is the primary of the view.
    Append {
        /// The view.
        view: View,
        /// The entry before the first of these.
        previous: Place,
        /// Entries, in order; possibly none.
        entries: Vec<Entry<T>>,
        /// Everything up to this index is committed.
        committed: u64,
        /// The round of confirmation that this belongs to.
        round: u64,
    },
    /// Backup to primary: the log up to `matched` is the primary's, and durable here.
    Appended {
        /// The view.
        view: View,
        /// Up to which index.
        matched: u64,
        /// The round that is confirmed: this replica was in the view when it came.
        round: u64,
    },
    /// Backup to primary: what comes before the entries is not here, or is another.
    Behind {
        /// The view.
        view: View,
        /// No later than here the two logs part.
        last: u64,
        /// The round that is confirmed.
        round: u64,
    },
    /// To a primary or candidate of an earlier view: there is a later one.
    Newer {
        /// The later view.
        view: View,
    },
    /// Candidate to all: make me the primary of `wanted`.
    RequestVote {
        /// The sender's view: `wanted`, but for a pre-vote.
        view: View,
        /// The view that it would be the primary of.
        wanted: View,
        /// Where its log ends.
        last: Place,
        /// Only whether the receiver would (a pre-vote): it binds nobody.
        pre: bool,
    },
    /// The answer.
    Vote {
        /// The sender's view.
        view: View,
        /// The view that was asked for.
        wanted: View,
        /// Whether it answers a pre-vote.
        pre: bool,
        /// Yes or no.
        granted: bool,
    },
    /// Primary to backup that lacks what the primary keeps no longer: a part of the state at `base`.
    Install {
        /// The view.
        view: View,
        /// Where the log goes on from this state.
        base: Place,
        /// Which part, from 0.
        part: u32,
        /// How many there are.
        parts: u32,
        /// The part.
        payload: T,
    },
    /// Backup to primary: it waits for this part.
    Installed {
        /// The view.
        view: View,
        /// Of the state at this place.
        base: Place,
        /// Which part is next.
        next: u32,
    },
}

impl<T> Message<T> {
    /// The sender's view.
    pub fn view(&self) -> View {
        match self {
            Message::Append { view, .. }
            | Message::Appended { view, .. }
            | Message::Behind { view, .. }
            | Message::Newer { view }
            | Message::RequestVote { view, .. }
            | Message::Vote { view, .. }
            | Message::Install { view, .. }
            | Message::Installed { view, .. } => *view,
        }
    }
}
