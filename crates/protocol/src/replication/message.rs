//! Messages between the replicas of one node. The network may lose, duplicate or reorder them.

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

/// A period of the group with at most one primary: Viewstamped Replication's view, Raft's term.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct View(pub u64);

impl View {
    /// The view in which every group begins; its primary is replica 0.
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

/// Identifies a log entry (Raft's term and index). Of two logs, the one that ends at the higher id is
/// more up to date.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct LogId {
    /// The view whose primary appended the entry.
    pub view: View,
    /// The entry's index, from 1; 0 is before the first entry.
    pub index: u64,
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry<T> {
    /// Its view and index.
    pub id: LogId,
    /// Its content.
    pub payload: T,
}

/// A message. `view` is always the sender's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<T> {
    /// Primary to backup: the entries after `previous`. Without entries, a heartbeat: the sender is the
    /// primary of the view.
    Append {
        /// The view.
        view: View,
        /// The entry before the first of these.
        previous: LogId,
        /// Entries, in order; possibly none.
        entries: Vec<Entry<T>>,
        /// The committed index.
        committed: u64,
        /// The round of confirmation that this message belongs to.
        round: u64,
    },
    /// Backup to primary: the sender's log equals the primary's up to `matched`, durably.
    Appended {
        /// The view.
        view: View,
        /// The last index at which the logs are equal.
        matched: u64,
        /// The round that is confirmed: the sender was in the view when the round reached it.
        round: u64,
    },
    /// Backup to primary: the sender's log does not contain `previous`.
    Behind {
        /// The view.
        view: View,
        /// The highest index at which the two logs may agree.
        last: u64,
        /// The round that is confirmed.
        round: u64,
    },
    /// To a primary or candidate of an earlier view: a later view exists.
    Newer {
        /// The later view.
        view: View,
    },
    /// Candidate to all: a request to vote for the sender as the primary of `wanted`.
    RequestVote {
        /// The sender's view: equal to `wanted`, except in a pre-vote.
        view: View,
        /// The view that the sender wants to lead.
        wanted: View,
        /// The last entry of the sender's log.
        last: LogId,
        /// Whether this is a pre-vote: the answer binds nothing.
        pre: bool,
    },
    /// The answer to a vote request.
    Vote {
        /// The sender's view.
        view: View,
        /// The view of the request.
        wanted: View,
        /// Whether the request was a pre-vote.
        pre: bool,
        /// Whether the vote is granted.
        granted: bool,
    },
    /// Primary to a backup that lacks compacted entries: a part of the state at `base`.
    Install {
        /// The view.
        view: View,
        /// The last entry that the state includes.
        base: LogId,
        /// The part's number, from 0.
        part: u32,
        /// The number of parts.
        parts: u32,
        /// The part's content.
        payload: T,
    },
    /// Backup to primary: the part of the state that the sender waits for.
    Installed {
        /// The view.
        view: View,
        /// The last entry that the state includes.
        base: LogId,
        /// The next part's number.
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
