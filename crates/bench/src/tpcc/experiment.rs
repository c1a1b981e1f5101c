//! TPC-C as an experiment, and the checks of its settings before anything is loaded.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anabranch_engine::PlannedApplication;
use anabranch_storage::{Store, StoreSettings};
use anabranch_workload::tpcc::{CallGenerator, Distribution, Tpcc};
use anabranch_workload::{Caller, Workload};

use super::fill;
use crate::experiment::{self, Database, ExperimentError, Settings, refuse};
use crate::fill::FillError;

/// An experiment with TPC-C.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The database and the transactions.
    pub tpcc: Tpcc,
    /// The settings of its run.
    pub settings: Settings,
}

impl Experiment {
    /// Checks the settings before anything is loaded.
    ///
    /// # Errors
    /// The first setting that makes no sense.
    pub fn check(&self) -> Result<(), ExperimentError> {
        let warehouses = self.tpcc.scale.warehouses;
        self.settings.check(Database {
            what: "warehouses",
            count: warehouses.into(),
            bytes_each: self.tpcc.scale.warehouse_bytes(),
        })?;
        if warehouses == 0 {
            return refuse("--warehouses", "has to be at least 1");
        }
        if let Distribution::Percent(percent) = self.tpcc.distribution {
            if !(0.0..=100.0).contains(&percent) {
                return refuse(
                    "--remote-percent",
                    format!("has to be between 0 and 100, not {percent}"),
                );
            }
            if percent > 0.0 && (self.settings.partitions == 1 || warehouses == 1) {
                return refuse(
                    "--remote-percent",
                    "orders can be distributed over at least two partitions with a warehouse \
                     each: ask for --partitions 2 --warehouses 2",
                );
            }
        }
        Ok(())
    }

    /// The calls, drawn from the experiment's seed.
    ///
    /// # Errors
    /// When the schema is not TPC-C's.
    pub fn calls(&self, planned: &PlannedApplication) -> Result<CallGenerator, FillError> {
        let Tpcc {
            scale,
            distribution,
            mix,
        } = self.tpcc;
        let homes = fill::homes(planned, &scale)?;
        let seed = self.settings.seed ^ 0x5eed;
        Ok(CallGenerator::new(scale, mix, distribution, homes, seed))
    }
}

impl experiment::Experiment for Experiment {
    fn workload(&self) -> &dyn Workload {
        &self.tpcc
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn size(&self) -> String {
        format!("{} warehouses", self.tpcc.scale.warehouses)
    }

    fn rows(&self) -> u64 {
        fill::rows(&self.tpcc.scale, self.settings.partitions)
    }

    fn fill(
        &self,
        planned: &Arc<PlannedApplication>,
        settings: StoreSettings,
        loaded: &AtomicU64,
    ) -> Result<Vec<Store>, FillError> {
        let (scale, seed) = (&self.tpcc.scale, self.settings.seed);
        fill::fill(planned, scale, seed, settings, loaded)
    }

    fn caller(&self, planned: &PlannedApplication) -> Result<Box<dyn Caller>, FillError> {
        Ok(Box::new(self.calls(planned)?))
    }
}

#[cfg(test)]
mod tests {
    use anabranch_workload::tpcc::{Mix, Scale};

    use super::*;

    fn experiment() -> Experiment {
        Experiment {
            tpcc: Tpcc {
                scale: Scale::specified(2),
                distribution: Distribution::Percent(100.0),
                mix: Mix::FULL,
            },
            settings: Settings::small(),
        }
    }

    fn refused(change: impl FnOnce(&mut Experiment)) -> String {
        let mut experiment = experiment();
        change(&mut experiment);
        experiment.check().expect_err("refused").to_string()
    }

    #[test]
    fn invalid_settings_are_refused_by_name() {
        assert_eq!(experiment().check(), Ok(()));
        assert!(refused(|e| e.tpcc.scale.warehouses = 0).contains("--warehouses"));
        assert!(
            refused(|e| e.tpcc.distribution = Distribution::Percent(101.0))
                .contains("--remote-percent")
        );
        assert!(refused(|e| e.settings.partitions = 1).contains("--remote-percent"));
        assert!(refused(|e| e.settings.clients = 0).contains("--clients"));
    }
}
