//! The records of a node's log.

use anabranch_protocol::Record;
use anabranch_types::{ColumnIndex, TableId};
use serde::{Deserialize, Serialize};

/// One record of a node's log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NodeRecord {
    /// The node's incarnation with this number begins.
    Incarnation(u64),
    /// A state change of the node's protocol.
    Protocol(Record),
    /// An identity column may have handed out numbers up to this one.
    Numbers(TableId, ColumnIndex, i64),
}
