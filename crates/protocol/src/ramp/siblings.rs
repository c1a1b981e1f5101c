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
}

/// Items in 16 bytes, so that most transactions that have nothing to do with a read are passed over
/// without a look at their write sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sketch(u128);

impl Sketch {
    /// Of what a transaction wrote on one partition.
    pub(super) fn of_writes(tags: &[ItemTag]) -> Sketch {
        let bits = tags
            .iter()
            .map(|tag| bit(*tag, 0) | bit(ItemTag::unknown(tag.table()), 1));
        Sketch(bits.fold(0, |all, bit| all | bit))
    }

    /// Of what was read on one partition: ranges, and points with it, by their tags.
    pub(super) fn of_reads(tags: &[ItemTag]) -> Sketch {
        let bits = tags.iter().map(|tag| match tag.is_unknown() {
            // Whatever was written in the table may be in the range.
            true => bit(*tag, 1),
            // The item, or some item of the table.
            false => bit(*tag, 0) | bit(ItemTag::unknown(tag.table()), 0),
        });
        Sketch(bits.fold(0, |all, bit| all | bit))
    }

    /// Whether what was written may be among what was read; if not, it is not.
    pub(super) fn meets(self, other: Sketch) -> bool {
        self.0 & other.0 != 0
    }
}

/// One of 128 bits. `kind` tells tags of items (0) from "anything of the table" (1).
fn bit(tag: ItemTag, kind: u64) -> u128 {
    let mixed = (tag.to_bits() ^ kind).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    1 << (mixed >> 57)
}

#[cfg(test)]
mod tests {
    use anabranch_types::{Key, TableId};

    use super::super::attempt::touches;
    use super::*;

    fn tag(table: u16, id: u8) -> ItemTag {
        let mut key = Key::empty();
        key.push_bytes(&[id]);
        ItemTag::of(TableId(table), &key)
    }

    #[test]
    fn a_sketch_meets_whatever_its_items_touch() {
        let some = |table, id: u8| match id {
            0 => ItemTag::unknown(TableId(table)),
            id => tag(table, id),
        };
        let (mut missed, mut touching) = (0, 0);
        for table in 0..4 {
            for id in 0..8 {
                for others in 0..64u8 {
                    let written = [some(u16::from(others % 4), others % 8), some(7, others)];
                    let read = [some(table, id)];
                    let meets = Sketch::of_reads(&read).meets(Sketch::of_writes(&written));
                    let touch = touches(&written, &read);
                    assert!(meets || !touch, "{written:?} touches {read:?}");
                    touching += u32::from(touch);
                    missed += u32::from(!meets);
                }
            }
        }
        // Reachability: it says yes where it must and no where it may.
        assert!(touching > 100 && missed > 1_000, "{touching} {missed}");
    }
}
