//! `anabranch analyze FILES…`

use std::error::Error;
use std::fmt::Write;
use std::io;
use std::path::{Component, Path, PathBuf};

use anabranch_analysis::explore::{Effort, Explorer};
use anabranch_analysis::report::findings::{Baseline, Finding, findings};
use anabranch_analysis::{Guarantee, Topology, analyze, report};
use anabranch_bench::application;
use anabranch_sql::script;
use clap::{Args, ValueEnum};

use super::Verdict;
use super::output::{check_writable, say, write_file};

/// Where the search for counterexamples starts: the same files give the same report.
const SEED: u64 = 1;

/// Exit code 1 says that a transaction needs coordination.
#[derive(Debug, Args)]
pub(crate) struct AnalyzeArguments {
    /// SQL files, or folders of them: tables, assertions, procedures, named queries, transactions from
    /// BEGIN to COMMIT, loose statements
    #[arg(required = true, value_name = "FILES")]
    paths: Vec<PathBuf>,
    /// Tables and procedures that the files rely on
    #[arg(long, value_name = "FILE")]
    schema: Vec<PathBuf>,
    /// Assertions, and queries that must return no row
    #[arg(long, value_name = "FILE")]
    invariants: Vec<PathBuf>,
    /// Go on without what cannot be read, and tell what that means, also where nothing but declarations
    /// is given
    #[arg(long)]
    leave_out: bool,
    /// What every committed state has to satisfy
    #[arg(long, value_enum, default_value_t = GuaranteeArgument::Invariants)]
    guarantee: GuaranteeArgument,
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
    let relative = |paths: &[PathBuf]| paths.iter().map(|p| relative(p)).collect::<Vec<_>>();
    let mut paths = relative(&arguments.schema);
    paths.extend(relative(&arguments.paths));
    let mut files = application::read_sources(&paths)?;
    let beside = application::read_sources(&relative(&arguments.invariants))?;
    files.extend(beside.iter().map(script::invariants));
    let read = application::read_script(files.clone())?;
    if !read.left_out.is_empty() && !read.has_clients && !arguments.leave_out {
        // What is written for anabranch alone has to be right.
        application::compile(files)?;
    }
    let compiled = &read.application;
    let catalog = compiled.catalog();
    if catalog.tables.is_empty() && read.summaries.is_empty() {
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
    let plan = analyze(catalog, &read.summaries, Topology::Partitioned, guarantee);
    let found = findings(&plan, catalog);
    let written = arguments.write_baseline.as_deref().map(|path| {
        let now = Baseline::of(&found);
        write_file(path, now.render()).map(|()| now)
    });
    let known = written.transpose()?.or(known);
    let look = || Explorer::new(compiled, &plan).counterexamples(SEED, Effort::default());
    let shows = matches!(arguments.format, Format::Text | Format::Json | Format::Html);
    let counterexamples = (shows && !arguments.no_counterexamples).then(look);
    let summaries = &read.summaries;
    match arguments.format {
        Format::Text => {
            let shown = counterexamples.map(|list| report::counterexample::render(&plan, &list));
            say!(
                "{}{}{}{}",
                report::text::render(&plan, catalog, summaries),
                shown.unwrap_or_default(),
                report::left_out::render(&read.left_out, catalog),
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
                counterexamples.as_deref(),
                known.as_ref().map(|baseline| (baseline, found.as_slice())),
                &read.left_out,
            )
        )?,
        Format::Sarif => say!("{}", report::sarif::render(&found, known.as_ref()))?,
        Format::Html => {
            let page = report::html::Page {
                plan: &plan,
                catalog,
                summaries,
                counterexamples: counterexamples.as_deref(),
                findings: &found,
                baseline: known.as_ref(),
            };
            say!("{}", page.render())?
        }
        Format::Github => say!("{}", report::github::render(&found, known.as_ref()))?,
    }
    let tells = matches!(arguments.format, Format::Text | Format::Json);
    if !tells && !read.left_out.is_empty() {
        let note = format_args!(
            "note: {} pieces of the files are left out: --format text says which, and what that means\n",
            read.left_out.len()
        );
        // Whoever does not read it has the results all the same.
        let _ = io::Write::write_fmt(&mut io::stderr(), note);
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
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("error: cannot read {shown}: {error}"))?;
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

/// A path as reports name it: from the current folder where it lies in it, so that reports of two
/// machines are alike, and by its whole path where it does not.
fn relative(path: &Path) -> PathBuf {
    let here = std::env::current_dir().ok();
    let climbs = path.components().any(|part| part == Component::ParentDir);
    let whole = climbs.then(|| path.canonicalize().ok()).flatten();
    let path = whole.as_deref().unwrap_or(path);
    let inside = here
        .as_deref()
        .and_then(|here| path.strip_prefix(here).ok());
    match inside {
        Some(rest) if rest.as_os_str().is_empty() => PathBuf::from("."),
        Some(rest) => rest.to_owned(),
        None => path.to_owned(),
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
