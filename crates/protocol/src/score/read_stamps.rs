//! Read stamps: the highest position at which a transaction has read an item (bumper.txt §IV-B, `readStamp`).
//!
//! A transaction asks whether another one has read an item *after its own snapshot*. Its own reads are stamped with the
//! snapshot itself, which is no other transaction's position: so a stamp above the snapshot is another's. (The paper stamps
//! with the node's last commit, and so has to tell the readers apart; with one name for each stamp, a transaction that
//! reads an item twice hides another reader.)
//!
//! Items share a fixed number of stamps by their hash. Items of one stamp are taken for read together: a transaction may
//! be told that what it writes was read although it was not, never the other way round.

use anabranch_storage::ItemTag;
use anabranch_types::{Key, Read, TableId, Timestamp};

/// The number of stamps for items; a power of two.
const STAMPS: usize = 1 << 14;

/// The read stamps of one partition.
#[derive(Clone, Debug)]
pub(super) struct ReadStamps {
    /// No stamp is lower: what was read before the node's last restart is not known.
    floor: Timestamp,
    items: Vec<Timestamp>,
    /// Of ranges, by table. A range counts as a read of the whole table.
    ranges: Vec<Timestamp>,
}

impl ReadStamps {
    /// Stamps for so many tables; nothing was read.
    pub(super) fn new(tables: usize) -> ReadStamps {
        ReadStamps {
            floor: Timestamp::ZERO,
            items: vec![Timestamp::ZERO; STAMPS],
            ranges: vec![Timestamp::ZERO; tables],
        }
    }

    /// Everything counts as read at this position.
    pub(super) fn raise_all(&mut self, position: Timestamp) {
        self.floor = self.floor.max(position);
    }

    /// This was read at this position.
    pub(super) fn raise(&mut self, read: &Read, position: Timestamp) {
        let stamp = match read {
            Read::Point { table, key } => &mut self.items[stamp_of(*table, key)],
            Read::Range { table, .. } => &mut self.ranges[table.index()],
        };
        *stamp = position.max(*stamp);
    }

    /// The highest position at which a transaction has read the item.
    pub(super) fn of(&self, table: TableId, key: &Key) -> Timestamp {
        let item = self.items[stamp_of(table, key)];
        item.max(self.ranges[table.index()]).max(self.floor)
    }
}

fn stamp_of(table: TableId, key: &Key) -> usize {
    ItemTag::of(table, key).to_bits() as usize % STAMPS
}
