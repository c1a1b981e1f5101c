//! What a site has committed alone, as it is sent to the others.

use anabranch_types::{Effect, Timestamp};
use serde::{Deserialize, Serialize};

use crate::certification::Seen;
use crate::contract::TransactionId;

/// A transaction that a site has committed alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StreamCommit {
    /// Its number in the site's stream, from 1, without gaps.
    pub number: u64,
    /// The transaction; `None` if this only says how far the site's clock is.
    pub transaction: Option<TransactionId>,
    /// Its timestamp. They ascend in a stream.
    pub timestamp: Timestamp,
    /// What the site had applied.
    pub seen: Seen,
    /// No transaction of the site at or below this is still to come: neither in its stream nor from the orderer.
    pub floor: Timestamp,
    /// Its effects, in order of execution. They have no slots.
    pub effects: Vec<Effect>,
}
