//! What a transaction over several partitions has written: RAMP-Fast's metadata (ramp.txt §4.1).
//!
//! The paper keeps it beside each version. Here a participant keeps it once a transaction, for as
//! long as a reader may need it, and looks there for what it has read: a version can be replaced
//! where it is, and a row may go, without a trace of evidence to keep behind it.

use anabranch_storage::ItemTag;
use anabranch_types::{PartitionId, Timestamp};
use serde::{Deserialize, Serialize};

/// The write set of a transaction over several partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Siblings {
    /// The transaction.
    pub timestamp: Timestamp,
    /// What it wrote on each partition, sorted by partition; the items of each sorted.
    pub partitions: Box<[(PartitionId, Box<[ItemTag]>)]>,
}

impl Siblings {
    /// What the transaction wrote on one partition.
    pub fn on(&self, partition: PartitionId) -> &[ItemTag] {
        match self
            .partitions
            .binary_search_by_key(&partition, |(at, _)| *at)
        {
            Ok(found) => &self.partitions[found].1,
            Err(_) => &[],
        }
    }

    /// About how many bytes it takes in memory.
    pub fn approximate_bytes(&self) -> usize {
        let tags: usize = self.partitions.iter().map(|(_, tags)| tags.len()).sum();
        48 + self.partitions.len() * 40 + tags * size_of::<ItemTag>()
    }
}
