//! The records of a node's log.

use anabranch_protocol::Record;
use anabranch_types::{SequenceId, SequencePoint};
use serde::{Deserialize, Serialize};

/// One record of a node's log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NodeRecord {
    /// The node's incarnation with this number begins.
    Incarnation(u64),
    /// A state change of the node's protocol.
    Protocol(Record),
    /// A sequence may have come up to this point.
    Numbers(SequenceId, SequencePoint),
}
