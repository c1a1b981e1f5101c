//! `anabranch bench analyze`

use std::error::Error;
use std::time::Duration;

use anabranch_bench::applications;
use anabranch_bench::table::{Table, counted};
use anabranch_sql::source::SourceFile;
use anabranch_workload::tpcc::FILES;
use clap::Args;

use super::super::output::say;
use super::super::{Verdict, progress};

#[derive(Clone, Debug, Args)]
pub(super) struct AnalyzeArguments {
    /// The number of statements of the application, in procedures of three
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    statements: u32,
    /// The seed of the application
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

pub(super) fn run(arguments: &AnalyzeArguments) -> Result<Verdict, Box<dyn Error>> {
    let tpcc = FILES.map(|(name, text)| SourceFile::new(name, text));
    let measured = progress::steps("an application", |step| {
        applications::measure(arguments.seed, arguments.statements as usize, &tpcc, step)
    });
    let measured = measured.map_err(|wrong| {
        let wrong: Vec<String> = wrong.iter().map(|one| one.message.clone()).collect();
        format!("error: the generated application: {}", wrong.join("; "))
    })?;
    let millis = |duration: Duration| format!("{:.1}", duration.as_secs_f64() * 1e3);
    let mut table = Table::new(["", "milliseconds"]);
    for (what, took) in [
        ("reading it", measured.read),
        ("a plan that keeps invariants", measured.invariants),
        ("a plan that is serializable", measured.serializable),
        ("searching for counterexamples", measured.counterexamples),
        (
            "adding a transaction type to TPC-C, from its text",
            measured.one_more,
        ),
        ("  the analysis only", measured.one_more_analysis),
    ] {
        table.row([what.to_owned(), millis(took)]);
    }
    say!(
        "a generated application of {} in {} over {}, {} KB; {} of its types need coordination\n\n{table}",
        counted(measured.statements as u64, "statement"),
        counted(measured.types as u64, "procedure"),
        counted(measured.tables as u64, "table"),
        measured.bytes / 1_000,
        measured.ordered
    )?;
    Ok(Verdict::Fine)
}
