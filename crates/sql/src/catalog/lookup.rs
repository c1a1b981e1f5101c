//! Lookup in the catalog by name.

use std::sync::Arc;

use anabranch_types::{ColumnIndex, DataType, TableId, TableSchema};

use super::{Assertion, Catalog, Check, ColumnDefault, Procedure, Sequence, Table, View};

impl Catalog {
    /// The table with this name (folded as the catalog keeps it: lower case unless quoted).
    pub fn table_by_name(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// The schema of the table with this name.
    pub fn table_schema(&self, name: &str) -> Option<&Arc<TableSchema>> {
        self.schema.tables.iter().find(|table| table.name == name)
    }

    /// The table with this number.
    ///
    /// # Panics
    /// When no such table exists: ids come from the catalog alone.
    pub fn table(&self, id: TableId) -> &Table {
        &self.tables[id.index()]
    }

    /// The procedure or function with this name.
    pub fn procedure_by_name(&self, name: &str) -> Option<&Arc<Procedure>> {
        self.procedures
            .iter()
            .find(|procedure| procedure.name == name)
    }

    /// The view with this name.
    pub fn view_by_name(&self, name: &str) -> Option<&View> {
        self.views.iter().find(|view| view.name == name)
    }

    /// The assertion with this name.
    pub fn assertion_by_name(&self, name: &str) -> Option<&Assertion> {
        self.assertions
            .iter()
            .find(|assertion| assertion.name == name)
    }

    /// The CHECK of a table with this name.
    pub fn check_by_name(&self, table: TableId, name: &str) -> Option<&Check> {
        self.table(table)
            .checks
            .iter()
            .find(|check| check.name == name)
    }

    /// Whether a sequence is the one that its owner, a serial column, implies.
    pub(super) fn implies(&self, sequence: &Sequence) -> bool {
        let Some((table, column)) = &sequence.owner else {
            return false;
        };
        let Some(table) = self.table_by_name(table) else {
            return false;
        };
        let column = self.column_by_name(table.id, column);
        let default = column.map(|column| &table.defaults[column.index()]);
        matches!(default, Some(ColumnDefault::Generated { .. }))
    }

    /// The column of a table with this name.
    pub fn column_by_name(&self, table: TableId, name: &str) -> Option<ColumnIndex> {
        let columns = &self.schema.table(table).columns;
        let position = columns.iter().position(|column| column.name == name)?;
        u16::try_from(position).ok().map(ColumnIndex)
    }
}

/// A type in PostgreSQL's words, for messages to people: `character varying(16)`.
pub fn describe(data_type: &DataType) -> String {
    data_type.to_string()
}

/// A type without its bounds, which PostgreSQL forgets of parameters and leaves out of messages.
pub(crate) fn plain_type(data_type: &DataType) -> String {
    let text = data_type.to_string();
    match text.split_once('(') {
        Some((name, rest)) => {
            let behind = rest.split_once(')').map_or("", |(_, behind)| behind);
            format!("{name}{behind}")
        }
        None => text,
    }
}
