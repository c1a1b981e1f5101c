//! Read stamps: the highest position at which another transaction has read an item (bumper.txt §IV-B, `readStamp`).
//!
//! A stamp excludes the transaction that asks, so each place keeps the two highest positions of different transactions.
//! (The paper keeps one position and one transaction, and loses readers when a transaction reads an item twice.)
//!
//! Items share a fixed number of places by their hash. Items of one place are taken for read together: a transaction may
//! be told that what it writes was read although it was not, never the other way round.

use anabranch_storage::ItemTag;
use anabranch_types::{Key, Read, TableId, Timestamp};

use crate::contract::TransactionId;

/// The number of places for items; a power of two.
const PLACES: usize = 1 << 14;

/// The two highest positions of different readers.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    highest: Timestamp,
    reader: Option<TransactionId>,
    /// The highest of all other readers.
    second: Timestamp,
}

impl Place {
    fn raise(&mut self, position: Timestamp, reader: TransactionId) {
        if self.reader == Some(reader) {
            self.highest = self.highest.max(position);
        } else if position > self.highest {
            self.second = self.highest;
            (self.highest, self.reader) = (position, Some(reader));
        } else {
            self.second = self.second.max(position);
        }
    }

    fn of_others(&self, than: TransactionId) -> Timestamp {
        match self.reader == Some(than) {
            true => self.second,
            false => self.highest,
        }
    }
}

/// The read stamps of one partition.
#[derive(Clone, Debug)]
pub(super) struct ReadStamps {
    /// No stamp is lower: what was read before the node's last restart is not known.
    floor: Timestamp,
    items: Vec<Place>,
    /// Of ranges, by table. A range counts as a read of the whole table.
    ranges: Vec<Place>,
}

impl ReadStamps {
    /// Stamps for so many tables; nothing was read.
    pub(super) fn new(tables: usize) -> ReadStamps {
        ReadStamps {
            floor: Timestamp::ZERO,
            items: vec![Place::default(); PLACES],
            ranges: vec![Place::default(); tables],
        }
    }

    /// Everything counts as read at this position.
    pub(super) fn raise_all(&mut self, position: Timestamp) {
        self.floor = self.floor.max(position);
    }

    /// The transaction has read this at this position.
    pub(super) fn raise(&mut self, read: &Read, position: Timestamp, reader: TransactionId) {
        let place = match read {
            Read::Point { table, key } => &mut self.items[place_of(*table, key)],
            Read::Range { table, .. } => &mut self.ranges[table.index()],
        };
        place.raise(position, reader);
    }

    /// The highest position at which a transaction other than this one has read the item.
    pub(super) fn of_others(&self, table: TableId, key: &Key, than: TransactionId) -> Timestamp {
        let item = self.items[place_of(table, key)].of_others(than);
        let range = self.ranges[table.index()].of_others(than);
        item.max(range).max(self.floor)
    }
}

fn place_of(table: TableId, key: &Key) -> usize {
    ItemTag::of(table, key).to_bits() as usize % PLACES
}

#[cfg(test)]
mod tests {
    use anabranch_types::NodeId;

    use super::*;

    const TABLE: TableId = TableId(0);

    fn at(logical: u64) -> Timestamp {
        Timestamp::new(logical, NodeId(0))
    }

    fn reader(sequence: u64) -> TransactionId {
        TransactionId {
            node: NodeId(0),
            sequence,
        }
    }

    fn point() -> Read {
        Read::Point {
            table: TABLE,
            key: key(),
        }
    }

    fn key() -> Key {
        Key::from_bytes(b"k")
    }

    #[test]
    fn a_transaction_does_not_hide_another_reader_by_reading_again() {
        let mut stamps = ReadStamps::new(1);
        stamps.raise(&point(), at(5), reader(1));
        stamps.raise(&point(), at(7), reader(2));
        stamps.raise(&point(), at(9), reader(2));
        assert_eq!(stamps.of_others(TABLE, &key(), reader(2)), at(5));
        assert_eq!(stamps.of_others(TABLE, &key(), reader(1)), at(9));
        assert_eq!(stamps.of_others(TABLE, &key(), reader(3)), at(9));
        stamps.raise(&point(), at(6), reader(1));
        assert_eq!(stamps.of_others(TABLE, &key(), reader(2)), at(6));
        stamps.raise(&point(), at(10), reader(1));
        assert_eq!(stamps.of_others(TABLE, &key(), reader(1)), at(9));
    }

    #[test]
    fn nothing_is_known_below_the_floor() {
        let mut stamps = ReadStamps::new(1);
        stamps.raise_all(at(4));
        assert_eq!(stamps.of_others(TABLE, &key(), reader(1)), at(4));
    }
}
