//! `anabranch bench ycsb`

use std::error::Error;
use std::path::PathBuf;

use anabranch_bench::experiment::Experiment as _;
use anabranch_bench::ycsb::Experiment;
use anabranch_workload::ycsb::{Distribution, Form, Letter, Parameters, ZIPFIAN_CONSTANT};
use clap::Args;

use super::super::Verdict;
use super::{ClusterArguments, run_experiment, sources};

/// The defaults are those of the RAMP paper's evaluation: transactions of four operations over a million items, 95% of
/// them read-only. Exit code 1: an answer was wrong.
#[derive(Clone, Debug, Args)]
pub(crate) struct YcsbArguments {
    #[command(flatten)]
    cluster: ClusterArguments,
    /// Run a published workload of single operations, a to f, instead of transactions
    #[arg(long, value_name = "LETTER", value_parser = letter, conflicts_with_all = ["length", "reads"])]
    workload: Option<Letter>,
    /// The number of items at the start
    #[arg(long, value_name = "N", default_value_t = Parameters::RAMP.items)]
    items: u64,
    /// The number of operations of a transaction
    #[arg(long, value_name = "N", default_value_t = 4)]
    length: usize,
    /// The percentage of transactions that read; the others write
    #[arg(long, value_name = "PERCENT", default_value_t = 95.0)]
    reads: f64,
    /// The distribution of items: uniform, zipfian or latest [default: zipfian; latest for workload d]
    #[arg(long, value_name = "NAME", value_parser = distribution)]
    distribution: Option<Distribution>,
    /// The skew of zipfian and latest, between 0 and 1
    #[arg(long, value_name = "NUMBER", default_value_t = ZIPFIAN_CONSTANT)]
    zipfian_constant: f64,
    /// The size of a value, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Parameters::RAMP.value_bytes)]
    value_bytes: usize,
    /// Read the application from this folder [default: the built-in application]
    #[arg(long, value_name = "FOLDER")]
    files: Option<PathBuf>,
}

fn letter(name: &str) -> Result<Letter, String> {
    Letter::by_name(&name.to_lowercase())
        .ok_or_else(|| "unknown workload; known are: a, b, c, d, e, f".to_owned())
}

fn distribution(name: &str) -> Result<Distribution, String> {
    Distribution::by_name(name).ok_or_else(|| {
        let names = Distribution::ALL.map(Distribution::name).join(", ");
        format!("unknown distribution; known are: {names}")
    })
}

impl YcsbArguments {
    fn parameters(&self) -> Parameters {
        let usual = self
            .workload
            .map_or(Distribution::Zipfian, Letter::distribution);
        Parameters {
            items: self.items,
            form: match self.workload {
                Some(letter) => Form::Letter(letter),
                None => Form::Transactions {
                    length: self.length,
                    reads_percent: self.reads,
                },
            },
            distribution: self.distribution.unwrap_or(usual),
            zipfian_constant: self.zipfian_constant,
            value_bytes: self.value_bytes,
        }
    }

    fn describe(&self) -> serde_json::Value {
        let parameters = self.parameters();
        let mut described = serde_json::json!({
            "workload": "ycsb",
            "items": self.items,
            "distribution": parameters.distribution.name(),
            "zipfian_constant": self.zipfian_constant,
            "value_bytes": self.value_bytes,
        });
        match parameters.form {
            Form::Letter(letter) => described["letter"] = letter.name().into(),
            Form::Transactions {
                length,
                reads_percent,
            } => {
                described["length"] = length.into();
                described["reads_percent"] = reads_percent.into();
            }
        }
        described
    }
}

pub(super) fn run(arguments: &YcsbArguments) -> Result<Verdict, Box<dyn Error>> {
    let settings = arguments.cluster.settings()?;
    let experiment = Experiment::new(arguments.parameters(), settings.clone())?;
    let sources = sources(arguments.files.as_deref(), experiment.workload().files())?;
    let planned = arguments.cluster.begin(&settings, sources)?;
    let described = arguments.describe();
    run_experiment(&arguments.cluster, &planned, &experiment, None, described)
}
