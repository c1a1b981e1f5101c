//! Filling the stores of a cluster with an experiment's initial database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_engine::PlannedApplication;
use anabranch_engine::load::{Loader, RowError};
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::{PartitionId, TableId, Value};

/// Why the database was not filled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FillError {
    /// The schema lacks a table or column that the data needs.
    Missing(String),
    /// A row could not be loaded.
    Row(RowError),
}

impl std::fmt::Display for FillError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FillError::Missing(name) => {
                write!(
                    f,
                    "error: the schema lacks {name}, which the initial database needs"
                )
            }
            FillError::Row(error) => write!(f, "error: {error}"),
        }
    }
}

impl std::error::Error for FillError {}

/// Fills one store for each partition, each in a thread of its own; adds to `loaded` as rows are loaded.
///
/// # Errors
/// The first error of `fill`.
pub fn each_partition(
    planned: &Arc<PlannedApplication>,
    settings: StoreSettings,
    loaded: &AtomicU64,
    fill: impl Fn(PartitionId, &mut Filler<'_>) -> Result<(), FillError> + Sync,
) -> Result<Vec<Store>, FillError> {
    let partitions = (0..planned.execution.router.partitions()).map(PartitionId);
    std::thread::scope(|scope| {
        let fill = &fill;
        let threads: Vec<_> = partitions
            .map(|partition| {
                scope.spawn(move || {
                    let mut filler = Filler {
                        planned,
                        loader: Loader::new(Arc::clone(planned), partition, settings),
                        tables: Vec::new(),
                        loaded,
                        pending: 0,
                        values: Vec::new(),
                    };
                    fill(partition, &mut filler)?;
                    filler.report();
                    Ok(filler.loader.into_store())
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| match thread.join() {
                Ok(store) => store,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}

/// Loads rows into the store of one partition.
pub struct Filler<'f> {
    planned: &'f PlannedApplication,
    loader: Loader,
    /// Tables seen so far: their ids, and the index in the schema of each of their columns.
    tables: Vec<(String, TableId, Vec<usize>)>,
    loaded: &'f AtomicU64,
    pending: u64,
    values: Vec<Value>,
}

impl Filler<'_> {
    /// Loads a row, unless it belongs to another partition. `columns` has to be the same for every row of
    /// a table.
    ///
    /// # Errors
    /// When the schema lacks the table, has other columns, or refuses the row.
    pub fn row(
        &mut self,
        table: &str,
        columns: &[&str],
        values: &[Value],
    ) -> Result<(), FillError> {
        let known = self.tables.iter().position(|(name, ..)| name == table);
        let at = match known {
            Some(at) => at,
            None => {
                let (id, indexes) = column_indexes(self.planned, table, columns)?;
                self.tables.push((table.to_owned(), id, indexes));
                self.tables.len() - 1
            }
        };
        let (_, id, indexes) = &self.tables[at];
        self.values.clear();
        self.values.resize(values.len(), Value::Null);
        for (index, value) in indexes.iter().zip(values) {
            self.values[*index] = value.clone();
        }
        if self.loader.row(*id, &self.values).map_err(FillError::Row)? {
            self.pending += 1;
            if self.pending >= 4_096 {
                self.report();
            }
        }
        Ok(())
    }

    fn report(&mut self) {
        self.loaded.fetch_add(self.pending, Ordering::Relaxed);
        self.pending = 0;
    }
}

/// The table's id, and the index in the schema of each column.
fn column_indexes(
    planned: &PlannedApplication,
    table: &str,
    columns: &[&str],
) -> Result<(TableId, Vec<usize>), FillError> {
    let found = planned.schema().tables.iter().find(|t| t.name == table);
    let found = found.ok_or_else(|| FillError::Missing(format!("table \"{table}\"")))?;
    let indexes = columns.iter().map(|column| {
        let mut all = found.columns.iter();
        let missing = || FillError::Missing(format!("column \"{column}\" of table \"{table}\""));
        all.position(|c| c.name == *column).ok_or_else(missing)
    });
    let indexes = indexes.collect::<Result<Vec<usize>, FillError>>()?;
    if indexes.len() != found.columns.len() {
        return Err(FillError::Missing(format!(
            "data for every column of table \"{table}\""
        )));
    }
    Ok((found.id, indexes))
}
