//! Filling stores with TPC-C's initial database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_engine::PlannedApplication;
use anabranch_engine::load::{Loader, RowError};
use anabranch_engine::routing::Target;
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::{PartitionId, TableId, Value};
use anabranch_workload::tpcc::load::{self, Sink, Table};
use anabranch_workload::tpcc::{self, DISTRICTS, Scale};

/// Why the database was not filled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FillError {
    /// A table or column that TPC-C has is not in the schema.
    Missing(String),
    /// A row did not load.
    Row(RowError),
}

impl std::fmt::Display for FillError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FillError::Missing(name) => {
                write!(
                    f,
                    "error: the schema lacks {name}, which TPC-C's data needs"
                )
            }
            FillError::Row(error) => write!(f, "error: {error}"),
        }
    }
}

impl std::error::Error for FillError {}

/// How many rows the whole database has, about: order lines are random in number. For a progress
/// bar.
pub fn rows(scale: &Scale, partitions: u16) -> u64 {
    let customers = u64::from(scale.customers);
    let district = customers * 3 + customers * 10 + customers * 3 / 10;
    let warehouse = u64::from(scale.items) + district * DISTRICTS as u64;
    u64::from(scale.items) * u64::from(partitions) + u64::from(scale.warehouses) * warehouse
}

/// Fills one store for each partition, each in a thread of its own. `loaded` counts rows on the
/// way.
///
/// # Errors
/// When the schema is not TPC-C's.
pub fn fill(
    planned: &Arc<PlannedApplication>,
    scale: &Scale,
    seed: u64,
    settings: StoreSettings,
    loaded: &AtomicU64,
) -> Result<Vec<Store>, FillError> {
    let places = Places::new(planned)?;
    let partitions = planned.execution.router.partitions();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..partitions)
            .map(|partition| {
                let places = &places;
                scope.spawn(move || {
                    let loader = Loader::new(Arc::clone(planned), PartitionId(partition), settings);
                    let mut sink = StoreSink {
                        places,
                        loader,
                        loaded,
                        pending: 0,
                        values: Vec::new(),
                    };
                    load::items(scale, seed, &mut sink)?;
                    for warehouse in 1..=scale.warehouses {
                        // The loader passes over what is not its own; this only saves making it.
                        if places.has_rows_of(planned, warehouse, PartitionId(partition)) {
                            load::warehouse(scale, seed, warehouse, &mut sink)?;
                        }
                    }
                    sink.report();
                    Ok(sink.loader.into_store())
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

/// The partition of each warehouse, the first one's first.
///
/// # Errors
/// When the schema is not TPC-C's.
pub fn homes(planned: &PlannedApplication, scale: &Scale) -> Result<Vec<u16>, FillError> {
    tpcc::homes(planned, scale).ok_or_else(|| FillError::Missing("its tables".to_owned()))
}

/// Where each generated column goes in the schema's tables.
struct Places {
    tables: Vec<(TableId, Vec<usize>)>,
}

impl Places {
    fn new(planned: &PlannedApplication) -> Result<Places, FillError> {
        let schema = planned.schema();
        let mut tables = Vec::new();
        for table in Table::ALL {
            let found = schema.tables.iter().find(|t| t.name == table.name());
            let found =
                found.ok_or_else(|| FillError::Missing(format!("table \"{}\"", table.name())))?;
            let places = table.columns().iter().map(|column| {
                found
                    .columns
                    .iter()
                    .position(|c| c.name == *column)
                    .ok_or_else(|| {
                        FillError::Missing(format!(
                            "column \"{column}\" of table \"{}\"",
                            table.name()
                        ))
                    })
            });
            let places = places.collect::<Result<Vec<usize>, FillError>>()?;
            if places.len() != found.columns.len() {
                return Err(FillError::Missing(format!(
                    "data for every column of table \"{}\"",
                    table.name()
                )));
            }
            tables.push((found.id, places));
        }
        Ok(Places { tables })
    }

    /// Whether the plan puts generated rows of a warehouse on a partition.
    fn has_rows_of(
        &self,
        planned: &PlannedApplication,
        warehouse: u32,
        partition: PartitionId,
    ) -> bool {
        Table::ALL.into_iter().any(|table| {
            // The catalogue belongs to no warehouse.
            table != Table::Item
                && match tpcc::homes::place(
                    planned,
                    table,
                    self.tables[table as usize].0,
                    warehouse,
                ) {
                    Target::One(place) => place == partition,
                    Target::Anywhere | Target::Everywhere => true,
                }
        })
    }
}

struct StoreSink<'f> {
    places: &'f Places,
    loader: Loader,
    loaded: &'f AtomicU64,
    pending: u64,
    values: Vec<Value>,
}

impl StoreSink<'_> {
    fn report(&mut self) {
        self.loaded.fetch_add(self.pending, Ordering::Relaxed);
        self.pending = 0;
    }
}

impl Sink for StoreSink<'_> {
    type Error = FillError;

    fn row(&mut self, table: Table, values: &[Value]) -> Result<(), FillError> {
        let (id, places) = &self.places.tables[table as usize];
        self.values.clear();
        self.values.resize(values.len(), Value::Null);
        for (place, value) in places.iter().zip(values) {
            self.values[*place] = value.clone();
        }
        if self.loader.row(*id, &self.values).map_err(FillError::Row)? {
            self.pending += 1;
            if self.pending >= 4_096 {
                self.report();
            }
        }
        Ok(())
    }
}
