//! `anabranch analyze FILES…`

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anabranch_analysis::explore::{Counterexample, Effort, Explorer};
use anabranch_analysis::repair::{Subject, propose};
use anabranch_analysis::report;
use anabranch_analysis::report::counterexample::ReplayedBy;
use anabranch_analysis::report::findings::{Baseline, Finding, findings};
use anabranch_analysis::report::json::Besides;
use anabranch_analysis::report::repairs::Shown;
use clap::{Args, ValueEnum};

use super::input::{Input, InputArguments};
use super::output::{check_writable, say, write_file};
use super::text::read_text;
use super::{Verdict, replay};

/// Where the search for counterexamples starts: the same files give the same report.
pub(super) const SEED: u64 = 1;

/// Exit code 1 says that a transaction needs coordination.
#[derive(Debug, Args)]
pub(crate) struct AnalyzeArguments {
    #[command(flatten)]
    input: InputArguments,
    /// How to report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Tell what this file has not: exit code 1 says that something new needs coordination
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write what needs coordination now, for --baseline
    #[arg(long, value_name = "FILE", conflicts_with = "baseline")]
    write_baseline: Option<PathBuf>,
    /// Do not look for counterexamples to what needs coordination
    #[arg(long)]
    no_counterexamples: bool,
    /// Look for changes of the SQL under which less has to be ordered, try each, and show the best N
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "3")]
    repairs: Option<usize>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// The whole plan for programs (docs/schemas/analyze.schema.json)
    Json,
    /// What needs coordination, as a SARIF 2.1.0 log for code scanning
    Sarif,
    /// What needs coordination, as GitHub's workflow commands
    Github,
    /// All of it as one page, with the coordination graph
    Html,
}

pub(crate) fn run(arguments: &AnalyzeArguments) -> Result<Verdict, Box<dyn Error>> {
    let known = match &arguments.baseline {
        Some(path) => Some(read_baseline(path)?),
        None => None,
    };
    if let Some(path) = &arguments.write_baseline {
        check_writable(Some(path))?;
        check_replaceable(path)?;
    }
    let Input {
        script: read,
        plan,
        options,
        sources,
    } = arguments.input.read()?;
    let compiled = &read.application;
    let catalog = compiled.catalog();
    let found = findings(&plan, catalog);
    let written = arguments.write_baseline.as_deref().map(|path| {
        let now = Baseline::of(&found);
        write_file(path, now.render()).map(|()| now)
    });
    let known = written.transpose()?.or(known);
    let look = || Explorer::new(compiled, &plan).search(SEED, Effort::default());
    let shows = matches!(arguments.format, Format::Text | Format::Json | Format::Html);
    let counterexamples = (shows && !arguments.no_counterexamples).then(look);
    let summaries = &read.summaries;
    let changed = |files| sources.read_changed(files);
    let look = || {
        propose(Subject {
            catalog,
            summaries,
            plan: &plan,
            options: &options,
            files: sources.own,
            read: &changed,
        })
    };
    let repairs = arguments.repairs.filter(|_| shows).map(|n| (look(), n));
    let repairs = repairs.as_ref().map(|(repairs, shown_max)| Shown {
        repairs,
        shown_max: *shown_max,
    });
    let replayed_by = |shown: &Counterexample| replay::command(&arguments.input, shown);
    match arguments.format {
        Format::Text => {
            let shown = counterexamples
                .as_ref()
                .map(|search| report::counterexample::render(&plan, search, &replayed_by));
            say!(
                "{}{}{}{}{}{}",
                report::text::render(&plan, catalog, summaries),
                shown.unwrap_or_default(),
                repairs.map(report::repairs::render).unwrap_or_default(),
                report::left_out::render(&read.skipped, catalog),
                report::probable::render(&read.probable, catalog),
                known
                    .as_ref()
                    .map_or_else(String::new, |b| compared(b, &found)),
            )?
        }
        Format::Json => say!(
            "{}\n",
            report::json::render(
                &plan,
                catalog,
                summaries,
                Besides {
                    counterexamples: counterexamples
                        .as_ref()
                        .map(|search| (search, &replayed_by as &ReplayedBy<'_>)),
                    repairs,
                    baseline: known.as_ref().map(|baseline| (baseline, found.as_slice())),
                    left_out: &read.skipped,
                    probable: &read.probable,
                },
            )
        )?,
        Format::Sarif => say!(
            "{}",
            report::sarif::render(&found, known.as_ref(), &read.skipped, catalog)
        )?,
        Format::Html => {
            let page = report::html::Page {
                plan: &plan,
                catalog,
                summaries,
                counterexamples: counterexamples.as_ref(),
                repairs,
                replayed_by: &replayed_by,
                findings: &found,
                left_out: &read.skipped,
                probable: &read.probable,
                baseline: known.as_ref(),
            };
            say!("{}", page.render())?
        }
        Format::Github => say!(
            "{}",
            report::github::render(&found, known.as_ref(), &read.skipped, catalog)
        )?,
    }
    let needs = match &known {
        Some(baseline) => found.iter().any(|finding| !baseline.knows(finding)),
        None => plan.needs_coordination(),
    };
    Ok(if needs {
        Verdict::Finding
    } else {
        Verdict::Fine
    })
}

fn read_baseline(path: &Path) -> Result<Baseline, String> {
    let shown = path.display();
    let text = read_text(path)?;
    Baseline::parse(&text).map_err(|error| format!("error: {shown}: {error}"))
}

/// Nothing but a baseline is written over by one.
fn check_replaceable(path: &Path) -> Result<(), String> {
    if !path.is_file() {
        return Ok(()); // A pipe or a device holds nothing that could be lost.
    }
    match std::fs::read_to_string(path) {
        Ok(text) if text.is_empty() || Baseline::parse(&text).is_ok() => Ok(()),
        _ => Err(format!(
            "error: {} is there, and is no baseline of anabranch: it would be lost; name another file",
            path.display()
        )),
    }
}

/// What is new, and what is gone.
fn compared(baseline: &Baseline, found: &[Finding<'_>]) -> String {
    let new: Vec<&Finding<'_>> = found.iter().filter(|f| !baseline.knows(f)).collect();
    let gone = baseline.gone(found);
    let title = "Against the baseline";
    let mut out = format!("\n{title}\n{}\n", "─".repeat(title.chars().count()));
    if new.is_empty() {
        out.push_str("  nothing new needs coordination\n");
    }
    for finding in new {
        let _ = writeln!(out, "  new   {} [{}]", finding.message(), finding.rule.code);
    }
    for fingerprint in gone {
        let _ = writeln!(out, "  gone  {fingerprint}: found no more");
    }
    out
}
