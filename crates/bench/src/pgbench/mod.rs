//! PostgreSQL's `pgbench`: its initial database, for a server that it is run against, and the [program] itself.

pub mod program;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anabranch_engine::PlannedApplication;
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::Value;

use crate::fill::{FillError, each_partition};

/// The file with the schema: its name and text.
pub const SCHEMA: (&str, &str) = (
    "schema.sql",
    include_str!("../../../../examples/pgbench/schema.sql"),
);

/// The rows of a scale of 1, as pgbench's documentation has them.
const TELLERS: u32 = 10;
const ACCOUNTS: u32 = 100_000;

/// The number of rows at a scale.
pub fn rows(scale: u32) -> u64 {
    u64::from(scale) * u64::from(1 + TELLERS + ACCOUNTS)
}

/// Fills one store for each partition as `pgbench -i` fills a database; adds to `loaded` as rows are loaded.
///
/// # Errors
/// When the schema is not pgbench's.
pub fn fill(
    planned: &Arc<PlannedApplication>,
    scale: u32,
    settings: StoreSettings,
    loaded: &AtomicU64,
) -> Result<Vec<Store>, FillError> {
    // Numbers count from 1, and each branch has as many of the others.
    let rows_of = |count: u32| {
        (0..scale * count).map(move |row| (row as i64 + 1, i64::from(row / count) + 1))
    };
    each_partition(planned, settings, loaded, |_, filler| {
        for (number, _) in rows_of(1) {
            let values = [Value::Int(number), Value::Int(0), Value::Null];
            filler.row("pgbench_branches", &["bid", "bbalance", "filler"], &values)?;
        }
        for (number, branch) in rows_of(TELLERS) {
            let values = [
                Value::Int(number),
                Value::Int(branch),
                Value::Int(0),
                Value::Null,
            ];
            filler.row(
                "pgbench_tellers",
                &["tid", "bid", "tbalance", "filler"],
                &values,
            )?;
        }
        for (number, branch) in rows_of(ACCOUNTS) {
            // pgbench writes spaces; a char(n) is held without its padding.
            let filler_text = Value::text("");
            let values = [
                Value::Int(number),
                Value::Int(branch),
                Value::Int(0),
                filler_text,
            ];
            filler.row(
                "pgbench_accounts",
                &["aid", "bid", "abalance", "filler"],
                &values,
            )?;
        }
        Ok(())
    })
}
