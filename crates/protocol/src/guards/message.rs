//! Messages of sites that order over guards. The network may lose, duplicate and reorder them.

use std::sync::Arc;

use crate::order::SiteId;

use super::commit::StreamCommit;

/// A message, over the orderer's.
#[derive(Clone, Debug)]
pub enum GuardMessage<M> {
    /// A message of the orderer.
    Order(M),
    /// A commit of a site's stream, durable at the sender.
    Commit {
        /// The site.
        origin: SiteId,
        /// The commit.
        commit: Arc<StreamCommit>,
    },
    /// How far the sender has each stream, durably. Answered by the same if the sender does not know how far the receiver
    /// has them.
    Received {
        /// By site.
        received: Vec<u64>,
        /// What the sender knows of the receiver, by site.
        known: Vec<u64>,
    },
    /// A request for the commits after these. Answered by [`GuardMessage::Commit`].
    Fetch {
        /// By site.
        received: Vec<u64>,
    },
}
