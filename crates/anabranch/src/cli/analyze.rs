//! `anabranch analyze FILES…`

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anabranch_analysis::explore::{Counterexample, Effort, Explorer, Search};
use anabranch_analysis::repair::{Repairs, Subject, propose};
use anabranch_analysis::report;
use anabranch_analysis::report::counterexample::ReplayedBy;
use anabranch_analysis::report::findings::{Baseline, Finding, findings};
use anabranch_analysis::report::json::Sections;
use anabranch_analysis::report::repairs::BestRepairs;
use anabranch_sql::script::Skipped;
use clap::{Args, ValueEnum};

use super::Verdict;
use super::counterexample::{SEED, replay_command};
use super::input::{Input, InputArguments};
use super::output::{OutputError, check_replaceable, check_writable, complain, say, write_file};
use super::text::read_text;

#[derive(Debug, Args)]
pub(crate) struct AnalyzeArguments {
    #[command(flatten)]
    input: InputArguments,
    /// The format of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Compare with the known findings in this file; exit code 1 then means that there are new ones
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write all findings to this file, for --baseline
    #[arg(long, value_name = "FILE", conflicts_with = "baseline")]
    write_baseline: Option<PathBuf>,
    /// Do not search for counterexamples
    #[arg(long)]
    no_counterexamples: bool,
    /// Search for changes of the SQL that need less coordination, try each, and report the best N
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "3")]
    repairs: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The plan as text
    Text,
    /// The plan as JSON (docs/schemas/analyze.schema.json)
    Json,
    /// The findings as a SARIF 2.1.0 log, for code scanning
    Sarif,
    /// The findings as GitHub workflow commands
    Github,
    /// The plan as one HTML page, with the coordination graph
    Html,
}

impl Format {
    /// Whether the report has counterexamples and repairs.
    fn has_details(self) -> bool {
        matches!(self, Format::Text | Format::Json | Format::Html)
    }
}

pub(crate) fn run(arguments: &AnalyzeArguments) -> Result<Verdict, Box<dyn Error>> {
    let given = match &arguments.baseline {
        Some(path) => Some(read_baseline(path)?),
        None => None,
    };
    if let Some(path) = &arguments.write_baseline {
        check_writable(Some(path))?;
        let is_baseline = |text: &str| Baseline::parse(text).is_ok();
        check_replaceable(path, "is not a baseline of anabranch", is_baseline)?;
    }
    let input = arguments.input.read()?;
    let catalog = input.script.application.catalog();
    let found = findings(&input.plan, catalog);
    let baseline = match &arguments.write_baseline {
        Some(path) => {
            let written = Baseline::of(&found, &input.script.skipped, catalog);
            write_file(path, written.render())?;
            Some(written)
        }
        None => given,
    };
    let details = arguments.format.has_details();
    let counterexamples = (details && !arguments.no_counterexamples).then(|| {
        let explorer = Explorer::new(&input.script.application, &input.plan);
        let explorer = explorer.with_clients(&input.script.clients);
        explorer.search(SEED, Effort::default())
    });
    let repairs = arguments.repairs.filter(|_| details);
    let repairs = repairs.map(|shown_max| (search_repairs(&input), shown_max));
    let report = Report {
        input: &input,
        findings: &found,
        baseline: baseline.as_ref(),
        counterexamples: counterexamples.as_ref(),
        repairs: repairs.as_ref().map(|(repairs, shown_max)| BestRepairs {
            repairs,
            shown_max: *shown_max,
        }),
        replayed_by: &|one: &Counterexample| replay_command(&arguments.input, one),
    };
    report.print(arguments.format)?;
    if input.plan.entries.is_empty() {
        complain(&arguments.input.nothing_found(&input.script));
        return Ok(Verdict::NothingAnalysed);
    }
    let skipped = &input.script.skipped;
    let has_finding = match &baseline {
        Some(baseline) => {
            found.iter().any(|finding| !baseline.knows(finding))
                || baseline.new_skipped(skipped, catalog).next().is_some()
        }
        None => input.plan.needs_coordination() || skipped.iter().any(Skipped::is_missing),
    };
    Ok(match has_finding {
        true => Verdict::Finding,
        false => Verdict::Fine,
    })
}

fn search_repairs(input: &Input) -> Repairs {
    propose(Subject {
        catalog: input.script.application.catalog(),
        summaries: &input.script.summaries,
        plan: &input.plan,
        options: &input.options,
        files: input.sources.own,
        read: &|files| input.sources.read_changed(files),
    })
}

/// The contents of a report, in whichever format.
struct Report<'r> {
    input: &'r Input,
    findings: &'r [Finding<'r>],
    baseline: Option<&'r Baseline>,
    counterexamples: Option<&'r Search>,
    repairs: Option<BestRepairs<'r>>,
    replayed_by: &'r ReplayedBy<'r>,
}

impl Report<'_> {
    fn print(&self, format: Format) -> Result<(), OutputError> {
        let Input { script, plan, .. } = self.input;
        let catalog = script.application.catalog();
        let summaries = &script.summaries;
        let analysed = !plan.entries.is_empty();
        match format {
            Format::Text => say!("{}", self.text()),
            Format::Json => {
                let sections = Sections {
                    counterexamples: self
                        .counterexamples
                        .map(|search| (search, self.replayed_by)),
                    repairs: self.repairs,
                    baseline: self.baseline.map(|baseline| (baseline, self.findings)),
                    skipped: &script.skipped,
                    probable: &script.probable,
                };
                let text = report::json::render(plan, catalog, summaries, sections);
                say!("{text}\n")
            }
            Format::Sarif => {
                let log = report::sarif::render(
                    self.findings,
                    self.baseline,
                    &script.skipped,
                    catalog,
                    analysed,
                );
                say!("{log}")
            }
            Format::Github => {
                let commands = report::github::render(
                    self.findings,
                    self.baseline,
                    &script.skipped,
                    catalog,
                    analysed,
                );
                say!("{commands}")
            }
            Format::Html => {
                let page = report::html::Page {
                    plan,
                    catalog,
                    summaries,
                    counterexamples: self.counterexamples,
                    repairs: self.repairs,
                    replayed_by: self.replayed_by,
                    findings: self.findings,
                    skipped: &script.skipped,
                    probable: &script.probable,
                    baseline: self.baseline,
                };
                say!("{}", page.render())
            }
        }
    }

    fn text(&self) -> String {
        let Input { script, plan, .. } = self.input;
        let catalog = script.application.catalog();
        let mut text = report::text::render(plan, catalog, &script.summaries);
        if let Some(search) = self.counterexamples {
            text += &report::counterexample::render(plan, search, self.replayed_by);
        }
        if let Some(repairs) = self.repairs {
            text += &report::repairs::render(repairs);
        }
        text += &report::skipped::render(&script.skipped, catalog);
        text += &report::probable::render(&script.probable, catalog);
        if let Some(baseline) = self.baseline {
            let skipped = baseline
                .new_skipped(&script.skipped, catalog)
                .collect::<Vec<_>>();
            text += &compared(baseline, self.findings, &skipped);
        }
        text
    }
}

fn read_baseline(path: &Path) -> Result<Baseline, String> {
    let text = read_text(path)?;
    Baseline::parse(&text).map_err(|error| format!("error: {}: {error}", path.display()))
}

/// The section on new findings, on pieces that are newly skipped, and on known findings that are gone.
fn compared(baseline: &Baseline, found: &[Finding<'_>], skipped: &[&Skipped]) -> String {
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
    for piece in skipped {
        let _ = writeln!(out, "  new   skipped: {}", piece.diagnostic.message);
    }
    for fingerprint in gone {
        let _ = writeln!(out, "  gone  {fingerprint}: not found any more");
    }
    out
}
