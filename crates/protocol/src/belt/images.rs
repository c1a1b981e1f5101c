//! The payload of updates over an [`anabranch_storage::Store`]: after-images of changed columns.
//!
//! A whole row would overwrite columns that the receiver's local operations own (traps of the paper's §5, which ships SQL
//! text instead).

use anabranch_storage::{LoggedChange, Store};
use anabranch_types::{
    ColumnIndex, ColumnSet, Key, Row, RowTooLong, TableId, TableSchema, Timestamp, Value,
};
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

    /// The image of a row's change; nothing if no column differs.
    pub fn between(
        schema: &TableSchema,
        key: Key,
        before: Option<&Row>,
        after: Option<&Row>,
    ) -> Option<RowImage> {
        let table = schema.id;
        match (before, after) {
            (None, None) => None,
            (Some(_), None) => Some(RowImage::Delete { table, key }),
            (None, Some(row)) => Some(RowImage::Insert {
                table,
                key,
                row: row.clone(),
            }),
            (Some(before), Some(row)) => {
                let columns = changed_columns(schema, before, row);
                (!columns.is_empty()).then_some(RowImage::Update {
                    table,
                    key,
                    columns,
                })
            }
        }
    }

    /// A row of the receiver after the change, which may not have the row before.
    ///
    /// # Errors
    /// When the row would be too long.
    pub fn applied(
        &self,
        schema: &TableSchema,
        before: Option<&Row>,
    ) -> Result<Option<Row>, RowTooLong> {
        match (self, before) {
            (RowImage::Insert { row, .. }, _) => Ok(Some(row.clone())),
            (RowImage::Delete { .. }, _) | (RowImage::Update { .. }, None) => Ok(None),
            (RowImage::Update { columns, .. }, Some(row)) => {
                row.with(&schema.layout, columns).map(Some)
            }
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
    /// Images of an operation whose database tells no timestamp.
    pub fn untimed(images: Vec<RowImage>) -> RowImages {
        RowImages {
            timestamp: Timestamp::ZERO,
            images,
        }
    }

    /// The images of changes that are about to be installed in `store`.
    pub fn of(store: &Store, timestamp: Timestamp, changes: &[LoggedChange]) -> RowImages {
        let images = changes.iter().filter_map(|change| {
            let before = newest(store, change.table, &change.key);
            let schema = store.schema(change.table);
            RowImage::between(schema, change.key.clone(), before, change.row.as_ref())
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
            if before.is_none() && !matches!(image, RowImage::Insert { .. }) {
                return None;
            }
            let row = image.applied(store.schema(table), before);
            let row = row.expect("the row had these values at its origin");
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
