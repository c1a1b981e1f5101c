//! Bulk loading: rows into a store that nobody uses yet.

use std::sync::Arc;

use anabranch_storage::{LoadError, Store, StoreSettings};
use anabranch_types::{Key, PartitionId, RowLayout, TableId, Timestamp, Value, row::RowBuilder};

use crate::application::PlannedApplication;
use crate::routing::Target;

/// Fills the store of one partition. Rows that live elsewhere are passed over, so that the same
/// rows may be offered to the loader of each partition. Values are taken as they are: what loads is
/// trusted to satisfy the constraints, and the assertions can be checked afterwards.
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
    /// Its key is there already.
    Store(LoadError),
    /// It has another number of values than the table has columns.
    ColumnCount {
        /// The table.
        table: String,
        /// How many there should be.
        expected: usize,
        /// How many there are.
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

    /// Offers a row: one value for each column of the table, in order of declaration. True if it
    /// lives on this partition and was loaded.
    ///
    /// # Errors
    /// When it does not fit the table or its key is taken.
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

    /// Rows loaded so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The filled store.
    pub fn into_store(self) -> Store {
        self.store
    }
}
