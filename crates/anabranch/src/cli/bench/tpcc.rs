//! `anabranch bench tpcc`

use std::error::Error;
use std::path::PathBuf;

use anabranch_bench::tpcc::{Experiment, postgres};
use anabranch_engine::PlannedApplication;
use anabranch_sql::source::SourceFile;
use anabranch_workload::tpcc::{Distribution, FILES, Mix, Scale, Tpcc};
use clap::{Args, ValueEnum};

use super::super::{Verdict, progress};
use super::{ClusterArguments, Rival, run_experiment, sources};

/// Exit code 1: a consistency condition does not hold.
#[derive(Clone, Debug, Args)]
pub(crate) struct TpccArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    /// Warehouses, spread over the partitions
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) warehouses: u32,
    /// The percentage of New-Orders with a line from another partition [default: as specified, 1% of the lines come
    /// from another warehouse]
    #[arg(long, value_name = "PERCENT")]
    pub(crate) remote_percent: Option<f64>,
    /// The mix of transactions
    #[arg(long, value_enum, default_value_t = MixArgument::Full)]
    pub(crate) mix: MixArgument,
    /// Also run the same files on another database on this machine
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with_all = ["history", "data"])]
    pub(crate) versus: Option<Versus>,
    /// Read the application from this folder [default: the built-in application]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) files: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MixArgument {
    /// All five transactions: 45% New-Order, 43% Payment, 4% of each other
    Full,
    /// New-Order only
    NewOrder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Versus {
    /// A PostgreSQL server that is started for the run
    Postgres,
}

impl TpccArguments {
    pub(crate) fn experiment(&self) -> Result<Experiment, Box<dyn Error>> {
        let experiment = Experiment {
            tpcc: Tpcc {
                scale: Scale::specified(self.warehouses),
                distribution: self
                    .remote_percent
                    .map_or(Distribution::Specified, Distribution::Percent),
                mix: match self.mix {
                    MixArgument::Full => Mix::FULL,
                    MixArgument::NewOrder => Mix::NEW_ORDER,
                },
            },
            settings: self.cluster.settings()?,
        };
        experiment.check()?;
        Ok(experiment)
    }

    pub(crate) fn sources(&self) -> Result<Vec<SourceFile>, Box<dyn Error>> {
        sources(self.files.as_deref(), &FILES)
    }

    /// The other database, if `--versus` names one.
    pub(crate) fn rival<'r>(
        &self,
        planned: &'r PlannedApplication,
        experiment: &'r Experiment,
    ) -> Option<Box<Rival<'r>>> {
        self.versus.map(|Versus::Postgres| -> Box<Rival<'r>> {
            Box::new(move |of: &str| {
                Ok(progress::steps(&format!("postgres{of}"), |step| {
                    postgres::run(planned, experiment, step)
                })?)
            })
        })
    }

    fn describe(&self) -> serde_json::Value {
        serde_json::json!({
            "workload": "tpcc",
            "warehouses": self.warehouses,
            "remote_percent": self.remote_percent,
            "mix": match self.mix { MixArgument::Full => "full", MixArgument::NewOrder => "new-order" },
        })
    }
}

pub(super) fn run(arguments: &TpccArguments) -> Result<Verdict, Box<dyn Error>> {
    let experiment = arguments.experiment()?;
    let planned = arguments
        .cluster
        .begin(&experiment.settings, arguments.sources()?)?;
    let rival = arguments.rival(&planned, &experiment);
    let described = arguments.describe();
    run_experiment(&arguments.cluster, &planned, &experiment, rival, described)
}
