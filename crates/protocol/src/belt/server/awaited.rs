//! What a server waits for, for people who look why a ring stands still.

use std::fmt;

use super::{BeltServer, Phase};
use crate::belt::token::{Hop, Payload, ServerId};

/// What a server of the ring waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Awaited {
    /// The token, for operations that wait.
    Token {
        /// How many operations.
        operations: usize,
        /// The server that it comes from.
        from: ServerId,
    },
    /// The rest of a token's updates.
    Updates {
        /// The token's hop.
        hop: Hop,
        /// The server that has them.
        from: ServerId,
    },
    /// The database, which receives a token.
    Receive {
        /// The token's hop.
        hop: Hop,
    },
    /// Operations that run with the token.
    Operations {
        /// The hold.
        hop: Hop,
        /// How many operations.
        operations: usize,
    },
    /// The database, which closes a hold.
    Pass {
        /// The hold.
        hop: Hop,
    },
    /// That the next server has received the token.
    Acknowledgement {
        /// The token's hop.
        hop: Hop,
        /// The next server.
        from: ServerId,
    },
    /// What other servers have to do before one is removed.
    Removal {
        /// The servers that have not answered.
        from: Vec<ServerId>,
    },
}

impl Awaited {
    /// Whether it is the same wait as an earlier one, perhaps of more or fewer operations.
    pub fn continues(&self, before: &Awaited) -> bool {
        match (self, before) {
            (Awaited::Token { .. }, Awaited::Token { .. })
            | (Awaited::Removal { .. }, Awaited::Removal { .. }) => true,
            (Awaited::Operations { hop, .. }, Awaited::Operations { hop: before, .. }) => {
                hop == before
            }
            (one, other) => one == other,
        }
    }
}

impl<U: Payload, O: Ord + Clone + fmt::Debug> BeltServer<U, O> {
    /// What this server waits for; nothing if no operation waits here, and no token is under way to or from here.
    pub fn awaits(&self) -> Option<Awaited> {
        if let Some(removal) = &self.removal {
            return Some(Awaited::Removal {
                from: removal.unanswered(),
            });
        }
        let hop = self.received;
        match &self.phase {
            Phase::Away if self.queue.is_empty() => None,
            Phase::Away => Some(Awaited::Token {
                operations: self.queue.len(),
                from: self.predecessor(),
            }),
            Phase::Fetching { from, token, .. } => Some(Awaited::Updates {
                hop: token.hop,
                from: *from,
            }),
            Phase::Receiving { token, .. } => Some(Awaited::Receive { hop: token.hop }),
            Phase::Holding { running, .. } if running.is_empty() => None,
            Phase::Holding { running, .. } => Some(Awaited::Operations {
                hop,
                operations: running.len(),
            }),
            Phase::Passing => Some(Awaited::Pass { hop }),
            Phase::Sending { token } => Some(Awaited::Acknowledgement {
                hop: token.hop,
                from: self.successor(),
            }),
        }
    }
}
