//! Secondary indexes: an entry for each distinct value of an item's retained versions.
//!
//! An entry's key is the indexed columns' encoding followed by the primary key, so every entry is
//! distinct and names its item. Entries are multi-version: one exists while *any* retained version has
//! its values, and a read through the index returns an item only at the entry of its visible version.
//! So a read finds an item once, at the right key, in every snapshot.

use anabranch_types::{IndexSchema, Key, Row, TableSchema};

use crate::tree::Tree;

/// One secondary index: entries, each with the offset of the primary key in its key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    pub(crate) entries: Tree<u32>,
    pub(crate) bytes: usize,
}

impl Index {
    /// Adds the row's entry, unless it exists.
    pub(crate) fn add(&mut self, schema: &TableSchema, index: &IndexSchema, row: &Row, key: &Key) {
        let (entry, offset) = entry_key(schema, index, row, key);
        let len = entry.len();
        if self.entries.insert(entry, offset).is_none() {
            self.bytes += heap_bytes(len);
        }
    }

    pub(crate) fn remove(&mut self, entry: &Key) {
        if self.entries.remove(entry).is_some() {
            self.bytes -= heap_bytes(entry.len());
        }
    }
}

/// The heap memory of a key of this length.
pub(crate) fn heap_bytes(key_len: usize) -> usize {
    if key_len <= 16 { 0 } else { key_len + 16 }
}

/// The indexed columns' encoding.
pub fn index_prefix(schema: &TableSchema, index: &IndexSchema, row: &Row) -> Key {
    let mut prefix = Key::empty();
    for column in &index.columns {
        let declared = &schema.columns[column.index()];
        let value = row.get(&schema.layout, *column);
        prefix.push_value(&declared.data_type, declared.nullable, &value);
    }
    prefix
}

/// A row's entry in an index, and the offset of the primary key in it.
pub(crate) fn entry_key(
    schema: &TableSchema,
    index: &IndexSchema,
    row: &Row,
    key: &Key,
) -> (Key, u32) {
    let mut entry = index_prefix(schema, index, row);
    let offset = entry.len() as u32;
    entry.push_bytes(key.as_bytes());
    (entry, offset)
}

/// The primary key that an entry names.
pub(crate) fn primary_key(entry: &Key, offset: u32) -> Key {
    Key::from_bytes(&entry.as_bytes()[offset as usize..])
}

/// Whether two rows with the same primary key have the same entry. May return false for equal entries.
pub(crate) fn same_entry(
    schema: &TableSchema,
    index: &IndexSchema,
    left: &Row,
    right: &Row,
) -> bool {
    let layout = &schema.layout;
    index.columns.iter().all(|column| {
        left.column_bytes(layout, *column) == right.column_bytes(layout, *column)
            && left.is_null(layout, *column) == right.is_null(layout, *column)
    })
}

/// Whether an indexed column is NULL: such a row equals no other.
pub(crate) fn has_null(schema: &TableSchema, index: &IndexSchema, row: &Row) -> bool {
    index
        .columns
        .iter()
        .any(|column| row.is_null(&schema.layout, *column))
}
