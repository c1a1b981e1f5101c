//! The payload of updates over an [`anabranch_storage::Store`]: after-images of changed columns.
//!
//! A whole row would overwrite columns that the receiver's local operations own (traps of the paper's §5, which ships SQL
//! text instead).

use anabranch_storage::{LoggedChange, Store};
use anabranch_types::{ColumnIndex, ColumnSet, Key, Row, TableId, TableSchema, Timestamp, Value};
use serde::{Deserialize, Serialize};

use super::token::Payload;

/// The change of one row by a global operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RowImage {
    /// A new row.
    Insert {
        /// Its table.
        table: TableId,
        /// Its primary key.
        key: Key,
        /// The row.
        row: Row,
    },
    /// Other values in some columns. Nothing if the receiver does not have the row: the origin's local operations own it.
    Update {
        /// Its table.
        table: TableId,
        /// Its primary key.
        key: Key,
        /// The columns that have changed, with their values.
        columns: Vec<(ColumnIndex, Value)>,
    },
    /// A removed row. Nothing if the receiver does not have it.
    Delete {
        /// Its table.
        table: TableId,
        /// Its primary key.
        key: Key,
    },
}

impl RowImage {
    /// The changed row's table and primary key.
    pub fn item(&self) -> (TableId, &Key) {
        match self {
            RowImage::Insert { table, key, .. }
            | RowImage::Update { table, key, .. }
            | RowImage::Delete { table, key } => (*table, key),
        }
    }

    fn bytes(&self) -> usize {
        let (_, key) = self.item();
        let content = match self {
            RowImage::Insert { row, .. } => row.as_bytes().len(),
            RowImage::Update { columns, .. } => columns.len() * VALUE_BYTES,
            RowImage::Delete { .. } => 0,
        };
        key.as_bytes().len() + content
    }
}

/// The size of a column's value, roughly.
const VALUE_BYTES: usize = 16;

/// What a global operation has changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowImages {
    /// The timestamp of the operation's transaction at its origin.
    pub timestamp: Timestamp,
    /// The changed rows, each once.
    pub images: Vec<RowImage>,
}

impl Payload for RowImages {
    fn bytes(&self) -> usize {
        self.images.iter().map(RowImage::bytes).sum()
    }
}

impl RowImages {
    /// The images of changes that are about to be installed in `store`.
    pub fn of(store: &Store, timestamp: Timestamp, changes: &[LoggedChange]) -> RowImages {
        let images = changes.iter().filter_map(|change| {
            let (table, key) = (change.table, change.key.clone());
            let before = newest(store, table, &key);
            Some(match (before, &change.row) {
                (None, None) => return None,
                (_, None) => RowImage::Delete { table, key },
                (None, Some(row)) => RowImage::Insert {
                    table,
                    key,
                    row: row.clone(),
                },
                (Some(before), Some(row)) => {
                    let columns = changed_columns(store.schema(table), before, row);
                    if columns.is_empty() {
                        return None;
                    }
                    RowImage::Update {
                        table,
                        key,
                        columns,
                    }
                }
            })
        });
        RowImages {
            timestamp,
            images: images.collect(),
        }
    }

    /// The changes that these images make of the newest rows in `store`.
    pub fn merged(&self, store: &Store) -> Vec<LoggedChange> {
        let merged = self.images.iter().filter_map(|image| {
            let (table, key) = image.item();
            let before = newest(store, table, key);
            let row = match image {
                RowImage::Insert { row, .. } => Some(row.clone()),
                RowImage::Delete { .. } => {
                    before?;
                    None
                }
                RowImage::Update { columns, .. } => {
                    let layout = &store.schema(table).layout;
                    let row = before?.with(layout, columns);
                    Some(row.expect("the row had these values at its origin"))
                }
            };
            Some(LoggedChange {
                table,
                key: key.clone(),
                row,
                assigned: match image {
                    RowImage::Update { .. } => ColumnSet::EMPTY,
                    RowImage::Insert { .. } | RowImage::Delete { .. } => ColumnSet::ALL,
                },
            })
        });
        merged.collect()
    }
}

/// The newest row with a key.
fn newest<'s>(store: &'s Store, table: TableId, key: &Key) -> Option<&'s Row> {
    store.item(table, key)?.latest().row()
}

/// The columns in which two rows differ, with the values of the second.
fn changed_columns(schema: &TableSchema, before: &Row, after: &Row) -> Vec<(ColumnIndex, Value)> {
    let columns = (0..schema.columns.len() as u16).map(ColumnIndex);
    let layout = &schema.layout;
    let differs = |column: &ColumnIndex| {
        before.is_null(layout, *column) != after.is_null(layout, *column)
            || before.get(layout, *column) != after.get(layout, *column)
    };
    let changed = columns.filter(differs);
    changed
        .map(|column| (column, after.get(layout, column)))
        .collect()
}
