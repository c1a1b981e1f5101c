//! Finds the changes of a large transaction by item and by unique key.
//!
//! Small transactions, which are nearly all, search their changes one by one ([`crate::apply`]). From
//! [`INDEXED_FROM`] changes on, that would cost the square of their number.

use anabranch_types::{IndexId, Key, Row, TableId, TableSchema};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::index;

/// The number of changes from which on a transaction has an index of them.
pub(crate) const INDEXED_FROM: usize = 64;

/// Numbers of changes.
type Places = SmallVec<[u32; 1]>;

/// The changes of a transaction, by item and by unique key.
#[derive(Debug, Default)]
pub(crate) struct ChangeIndex {
    /// By the hash of their item.
    items: FxHashMap<u64, Places>,
    /// By the keys that their rows have, or have had, in unique indexes.
    keys: FxHashMap<(TableId, IndexId, Key), Places>,
}

impl ChangeIndex {
    /// Notes a change of a new item.
    pub(crate) fn note_item(&mut self, place: usize, hash: u64) {
        self.items.entry(hash).or_default().push(place as u32);
    }

    /// Notes the row that a change leaves.
    pub(crate) fn note_row(&mut self, place: usize, schema: &TableSchema, row: &Row) {
        for described in schema.indexes.iter().filter(|index| index.unique) {
            if index::has_null(schema, described, row) {
                continue;
            }
            let key = index::index_prefix(schema, described, row);
            let places = self.keys.entry((schema.id, described.id, key)).or_default();
            if !places.contains(&(place as u32)) {
                places.push(place as u32);
            }
        }
    }

    /// The changes whose item has this hash.
    pub(crate) fn of_item(&self, hash: u64) -> impl Iterator<Item = usize> + '_ {
        let places = self.items.get(&hash).into_iter().flatten();
        places.map(|place| *place as usize)
    }

    /// The changes whose rows may have this key in a unique index.
    pub(crate) fn of_key(
        &self,
        table: TableId,
        index: IndexId,
        key: &Key,
    ) -> impl Iterator<Item = usize> + '_ {
        let places = self.keys.get(&(table, index, key.clone()));
        places.into_iter().flatten().map(|place| *place as usize)
    }
}
