//! YCSB on the embedded cluster: the transactions of ramp.txt §5.1, or one of the published workloads.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anabranch_engine::PlannedApplication;
use anabranch_storage::{Store, StoreSettings};
use anabranch_workload::ycsb::{Parameters, Ycsb};
use anabranch_workload::{Caller, ClientPlacement, Workload};

use crate::experiment::{self, Database, ExperimentError, Settings};
use crate::fill::{FillError, each_partition};

/// An experiment with YCSB.
#[derive(Clone, Debug)]
pub struct Experiment {
    ycsb: Ycsb,
    settings: Settings,
}

/// About the memory of an item beside its value, in bytes; measured.
const ITEM_BYTES: u64 = 150;

impl Experiment {
    /// Makes an experiment, and checks its settings.
    ///
    /// # Errors
    /// The first setting or parameter that makes no sense.
    pub fn new(parameters: Parameters, settings: Settings) -> Result<Experiment, ExperimentError> {
        settings.check(Database {
            what: "items",
            count: parameters.items,
            bytes_each: ITEM_BYTES.saturating_add(parameters.value_bytes as u64),
        })?;
        let ycsb = Ycsb::with(parameters).map_err(|error| ExperimentError::Setting {
            name: option(error.name),
            message: format!("has to be {}", error.permitted),
        })?;
        Ok(Experiment { ycsb, settings })
    }

    /// The database and the operations.
    pub fn parameters(&self) -> &Parameters {
        self.ycsb.parameters()
    }
}

/// The option that sets a parameter.
fn option(parameter: &str) -> &'static str {
    match parameter {
        "items" => "--items",
        "length" => "--length",
        "reads" => "--reads",
        "zipfian-constant" => "--zipfian-constant",
        _ => "--value-bytes",
    }
}

impl experiment::Experiment for Experiment {
    fn workload(&self) -> &dyn Workload {
        &self.ycsb
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn operations(&self) -> Option<usize> {
        Some(self.parameters().operations())
    }

    fn size(&self) -> String {
        format!("{} items", self.parameters().items)
    }

    fn rows(&self) -> u64 {
        self.parameters().items
    }

    fn fill(
        &self,
        planned: &Arc<PlannedApplication>,
        settings: StoreSettings,
        loaded: &AtomicU64,
    ) -> Result<Vec<Store>, FillError> {
        each_partition(planned, settings, loaded, |_, filler| {
            let mut failed = None;
            self.ycsb
                .rows(self.settings.seed, &mut |table, columns, values| {
                    if failed.is_none() {
                        failed = filler.row(table, columns, values).err();
                    }
                });
            failed.map_or(Ok(()), Err)
        })
    }

    fn caller(&self, planned: &PlannedApplication) -> Result<Box<dyn Caller>, FillError> {
        let place = ClientPlacement {
            client: 0,
            node: 0,
            nodes: self.settings.partitions,
        };
        Ok(self
            .ycsb
            .caller(self.settings.seed ^ 0x5eed, place, planned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senseless_parameters_are_refused_by_their_options() {
        let made = |change: fn(&mut Parameters)| {
            let mut parameters = Parameters {
                items: 100,
                ..Parameters::RAMP
            };
            change(&mut parameters);
            Experiment::new(parameters, Settings::small())
        };
        assert!(made(|_| ()).is_ok());
        let refused = |change| made(change).expect_err("refused").to_string();
        assert_eq!(
            refused(|p| p.zipfian_constant = 1.5),
            "error: --zipfian-constant: has to be above 0 and below 1 (uniform is a distribution of its own)"
        );
        let error = refused(|p| p.items = 1 << 39);
        assert!(
            error.starts_with("error: --items: 549755813888 items take"),
            "{error}"
        );
        assert!(refused(|p| p.items = 3).starts_with("error: --items: has to be between 8"));
    }
}
