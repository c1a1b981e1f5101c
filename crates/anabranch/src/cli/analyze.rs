//! `anabranch analyze FILES…`

use std::error::Error;
use std::path::PathBuf;

use anabranch_analysis::explore::{Effort, Explorer};
use anabranch_analysis::{Guarantee, report};
use anabranch_bench::application;
use clap::{Args, ValueEnum};

use super::Verdict;
use super::output::say;

/// Where the search for counterexamples starts: the same files give the same report.
const SEED: u64 = 1;

/// Exit code 1 says that a transaction needs coordination.
#[derive(Debug, Args)]
pub(crate) struct AnalyzeArguments {
    /// SQL files, or folders of them: tables, assertions, procedures
    #[arg(required = true, value_name = "FILES")]
    paths: Vec<PathBuf>,
    /// What every committed state has to satisfy
    #[arg(long, value_enum, default_value_t = GuaranteeArgument::Invariants)]
    guarantee: GuaranteeArgument,
    /// How to report: for people, or for programs (docs/schemas/analyze.schema.json)
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Do not look for counterexamples to what needs coordination
    #[arg(long)]
    no_counterexamples: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum GuaranteeArgument {
    /// The declared invariants, and no lost updates
    Invariants,
    /// Serializability: every row read or written is a guard
    Serializable,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(crate) fn run(arguments: &AnalyzeArguments) -> Result<Verdict, Box<dyn Error>> {
    let files = application::read_sources(&arguments.paths)?;
    let compiled = application::compile(files)?;
    let catalog = compiled.catalog();
    if catalog.tables.is_empty() && catalog.procedures.is_empty() {
        let paths: Vec<String> = arguments
            .paths
            .iter()
            .map(|p| p.display().to_string())
            .collect();
        return Err(format!(
            "error: there is nothing to analyse in {}: no table and no procedure is declared",
            paths.join(", ")
        )
        .into());
    }
    let guarantee = match arguments.guarantee {
        GuaranteeArgument::Invariants => Guarantee::Invariants,
        GuaranteeArgument::Serializable => Guarantee::Serializable,
    };
    let plan = application::analyze(&compiled, guarantee);
    let look = || Explorer::new(&compiled, &plan).counterexamples(SEED, Effort::default());
    let found = (!arguments.no_counterexamples).then(look);
    match arguments.format {
        Format::Text => {
            let shown = found.map(|found| report::counterexample::render(&plan, &found));
            say!(
                "{}{}",
                report::text::render(&plan, compiled.catalog(), compiled.summaries()),
                shown.unwrap_or_default()
            )?
        }
        Format::Json => say!(
            "{}\n",
            report::json::render(
                &plan,
                compiled.catalog(),
                compiled.summaries(),
                found.as_deref()
            )
        )?,
    }
    Ok(if plan.needs_coordination() {
        Verdict::Finding
    } else {
        Verdict::Fine
    })
}
