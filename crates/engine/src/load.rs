//! Bulk loading of rows into a store that is not in use yet.

use std::sync::Arc;

use anabranch_storage::{LoadError, Store, StoreSettings};
use anabranch_types::{Key, PartitionId, RowLayout, TableId, Timestamp, Value, row::RowBuilder};

use crate::application::PlannedApplication;
use crate::routing::Target;

/// Fills the store of one partition. It ignores rows of other partitions, so that the same rows may be
/// passed to the loader of each partition. Constraints are not checked; assertions can be checked
/// afterwards.
pub struct Loader {
    planned: Arc<PlannedApplication>,
    partition: PartitionId,
    store: Store,
    builder: RowBuilder,
    rows: u64,
    hidden: u64,
}

/// Why a row was not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowError {
    /// A row with its key exists.
    Store(LoadError),
    /// The number of values differs from the table's number of columns.
    ColumnCount {
        /// The table.
        table: String,
        /// The expected number of values.
        expected: usize,
        /// The number of values found.
        found: usize,
    },
    /// It is too long to be stored.
    TooLong {
        /// The table.
        table: String,
    },
}

impl std::fmt::Display for RowError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RowError::Store(error) => error.fmt(f),
            RowError::ColumnCount {
                table,
                expected,
                found,
            } => {
                write!(
                    f,
                    "table \"{table}\" has {expected} columns, the row has {found} values"
                )
            }
            RowError::TooLong { table } => {
                write!(f, "a row of table \"{table}\" is too long to be stored")
            }
        }
    }
}

impl std::error::Error for RowError {}

impl Loader {
    /// A loader of an empty store for `partition`.
    pub fn new(
        planned: Arc<PlannedApplication>,
        partition: PartitionId,
        settings: StoreSettings,
    ) -> Loader {
        let store = Store::new(planned.schema(), settings);
        Loader {
            planned,
            partition,
            store,
            builder: RowBuilder::default(),
            rows: 0,
            hidden: 0,
        }
    }

    /// Loads a row, with one value for each column of the table in order of declaration, if it belongs to
    /// this partition. Returns whether it does.
    ///
    /// # Errors
    /// When it does not fit the table, or a row with its key exists.
    pub fn row(&mut self, table: TableId, values: &[Value]) -> Result<bool, RowError> {
        let planned = Arc::clone(&self.planned);
        let schema = planned.schema().table(table);
        if schema.columns.len() != values.len() {
            return Err(RowError::ColumnCount {
                table: schema.name.clone(),
                expected: schema.columns.len(),
                found: values.len(),
            });
        }
        let layout: &RowLayout = &schema.layout;
        let row = self
            .builder
            .build(layout, values)
            .map_err(|_| RowError::TooLong {
                table: schema.name.clone(),
            })?;
        match planned.execution.router.row(table, &row) {
            Target::One(partition) if partition != self.partition => return Ok(false),
            Target::One(_) | Target::Anywhere | Target::Everywhere => {}
        }
        let key = if schema.primary_key.is_empty() {
            self.hidden += 1;
            Key::hidden(
                Timestamp::ZERO,
                u64::from(self.partition.0) << 48 | self.hidden,
            )
        } else {
            let mut key = Key::empty();
            for column in &schema.primary_key {
                let declared = &schema.columns[column.index()];
                key.push_value(
                    &declared.data_type,
                    declared.nullable,
                    &values[column.index()],
                );
            }
            key
        };
        self.store.load(table, key, row).map_err(RowError::Store)?;
        self.rows += 1;
        Ok(true)
    }

    /// The number of rows loaded.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The filled store.
    pub fn into_store(self) -> Store {
        self.store
    }
}
