//! What storage, protocols and SQL must agree on about a table: columns, keys, indexes, placement.
//!
//! Names, defaults, checks and everything else that only SQL understands stay in the `sql` crate.

use std::sync::Arc;

use crate::{ColumnIndex, DataType, IndexId, RowLayout, TableId};

/// All tables, indexed by [`TableId`].
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// The tables; `tables[t.index()].id == t`.
    pub tables: Vec<Arc<TableSchema>>,
}

impl Schema {
    /// The table with this id.
    ///
    /// # Panics
    /// When no such table exists: ids come from the catalog alone.
    #[inline]
    pub fn table(&self, id: TableId) -> &TableSchema {
        &self.tables[id.index()]
    }
}

/// One table.
#[derive(Clone, Debug)]
pub struct TableSchema {
    /// Its number.
    pub id: TableId,
    /// Its name, for messages to people.
    pub name: String,
    /// Its columns, in order of declaration.
    pub columns: Vec<ColumnSchema>,
    /// The columns of the primary key, in key order. Empty for a table without one: its rows have
    /// a hidden key of 16 bytes, made by the inserting transaction (its unique row number).
    pub primary_key: Vec<ColumnIndex>,
    /// Secondary indexes, indexed by [`IndexId`].
    pub indexes: Vec<IndexSchema>,
    /// How its rows are encoded.
    pub layout: RowLayout,
}

impl TableSchema {
    /// The columns that statements can name.
    pub fn visible_columns(&self) -> &[ColumnSchema] {
        let is_hidden = |column: &ColumnSchema| column.is_hidden;
        let count = self.columns.iter().position(is_hidden);
        &self.columns[..count.unwrap_or(self.columns.len())]
    }

    /// The columns that make the key of `index` in this order (`None`: the primary key). A secondary key is followed
    /// by the primary key, so that every entry is distinct.
    pub fn key_columns(&self, index: Option<IndexId>) -> &[ColumnIndex] {
        match index {
            None => &self.primary_key,
            Some(index) => &self.indexes[index.index()].columns,
        }
    }
}

/// One column.
#[derive(Clone, Debug)]
pub struct ColumnSchema {
    /// Its name, for messages to people.
    pub name: String,
    /// Its declared type.
    pub data_type: DataType,
    /// Whether NULL may be stored in it.
    pub nullable: bool,
    /// Whether no statement can name it: it holds the values of an index of expressions, or of one with a condition.
    /// Hidden columns are behind all others.
    pub is_hidden: bool,
}

/// A secondary index. It lives beside the rows that it indexes, on their partition.
#[derive(Clone, Debug)]
pub struct IndexSchema {
    /// Its number within the table.
    pub id: IndexId,
    /// Its name, for messages to people.
    pub name: String,
    /// The indexed columns, in key order.
    pub columns: Vec<ColumnIndex>,
    /// Whether two rows may not agree on all indexed columns (rows with a NULL among them may).
    pub unique: bool,
}

/// Where a table's rows live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Replicated on every partition: no transaction type writes it.
    Replicated,
    /// On the partition that these columns choose. They are part of the primary key (or the table
    /// has a hidden key).
    Columns(Vec<ColumnIndex>),
    /// All on partition 0, if no better placement is known.
    Whole,
}
