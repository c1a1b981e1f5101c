//! Filling stores with TPC-C's initial database.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anabranch_engine::PlannedApplication;
use anabranch_engine::routing::Target;
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::{PartitionId, Value};
use anabranch_workload::tpcc::load::{self, Sink, Table};
use anabranch_workload::tpcc::{self, DISTRICTS, Scale};

use crate::fill::{FillError, Filler, each_partition};

/// About how many rows the whole database has, for a progress bar; the number of order lines is random.
pub fn rows(scale: &Scale, partitions: u16) -> u64 {
    let customers = u64::from(scale.customers);
    let district = customers * 3 + customers * 10 + customers * 3 / 10;
    let warehouse = u64::from(scale.items) + district * DISTRICTS as u64;
    u64::from(scale.items) * u64::from(partitions) + u64::from(scale.warehouses) * warehouse
}

/// Fills one store for each partition; adds to `loaded` as rows are loaded.
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
    each_partition(planned, settings, loaded, |partition, filler| {
        let mut sink = Filling(filler);
        load::items(scale, seed, &mut sink)?;
        for warehouse in 1..=scale.warehouses {
            // Rows of other partitions are skipped; this saves generating them.
            if has_rows_of(planned, warehouse, partition) {
                load::warehouse(scale, seed, warehouse, &mut sink)?;
            }
        }
        Ok(())
    })
}

/// The partition of each warehouse, in order.
///
/// # Errors
/// When the schema is not TPC-C's.
pub fn homes(planned: &PlannedApplication, scale: &Scale) -> Result<Vec<u16>, FillError> {
    tpcc::homes(planned, scale).ok_or_else(|| FillError::Missing("its tables".to_owned()))
}

/// Whether the plan puts generated rows of a warehouse on a partition.
fn has_rows_of(planned: &PlannedApplication, warehouse: u32, partition: PartitionId) -> bool {
    // The items belong to no warehouse.
    let of_warehouses = Table::ALL.into_iter().filter(|table| *table != Table::Item);
    let mut found = of_warehouses.filter_map(|table| {
        let mut tables = planned.schema().tables.iter();
        let id = tables.find(|t| t.name == table.name())?.id;
        Some(tpcc::homes::place(planned, table, id, warehouse))
    });
    found.any(|place| match place {
        Target::One(place) => place == partition,
        Target::Anywhere | Target::Everywhere => true,
    })
}

struct Filling<'a, 'f>(&'a mut Filler<'f>);

impl Sink for Filling<'_, '_> {
    type Error = FillError;

    fn row(&mut self, table: Table, values: &[Value]) -> Result<(), FillError> {
        self.0.row(table.name(), table.columns(), values)
    }
}
