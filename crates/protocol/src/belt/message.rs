//! The messages between servers.

use serde::{Deserialize, Serialize};

use super::rows::Standing;
use super::token::{Epoch, Hop, ServerId, Token, Update};

/// A message. The network may lose, duplicate and reorder messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message<U> {
    /// The token, with as many of its updates as fit. Sent again until it is acknowledged.
    Token {
        /// The token; of its updates the first ones.
        token: Token<U>,
        /// The number of its updates.
        total: usize,
    },
    /// A request for the updates of a received token from this place on.
    Fetch {
        /// The token's epoch.
        epoch: Epoch,
        /// The token's hop.
        hop: Hop,
        /// How many updates the receiver has.
        have: usize,
    },
    /// More updates of a token.
    Part {
        /// The token's epoch.
        epoch: Epoch,
        /// The token's hop.
        hop: Hop,
        /// The place of the first one.
        from: usize,
        /// The updates.
        updates: Vec<Update<U>>,
    },
    /// The sender has received this hop, durably.
    Acknowledge {
        /// The token's epoch.
        epoch: Epoch,
        /// The token's hop.
        hop: Hop,
    },
    /// The sender has a global operation that waits for the token.
    Wish {
        /// The sender's epoch.
        epoch: Epoch,
    },
    /// A request to take part in no epoch before this one.
    Promise {
        /// The epoch that the sender begins.
        epoch: Epoch,
    },
    /// The promise, durable, and what the sender has.
    Promised {
        /// The promised epoch.
        epoch: Epoch,
        /// The sender's durable state.
        standing: Box<Standing<U>>,
    },
    /// The sender has promised a later epoch, and takes no part in this one.
    Refuse {
        /// The refused epoch.
        epoch: Epoch,
        /// The promised epoch.
        promised: Epoch,
    },
    /// A request to take part in an epoch. Sent again until it is answered.
    Install {
        /// The epoch.
        epoch: Epoch,
        /// Its servers, in the order of the ring.
        members: Vec<ServerId>,
    },
    /// The sender takes part in the epoch, durably.
    Installed {
        /// The epoch.
        epoch: Epoch,
    },
}
