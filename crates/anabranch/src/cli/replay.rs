//! `anabranch replay FILES…`

mod guards;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;

use anabranch_analysis::explore::{Counterexample, Effort};
use anabranch_analysis::plan::Plan;
use anabranch_analysis::report;
use anabranch_analysis::report::counterexample::render_one;
use anabranch_analysis::report::{sessions, two_sessions};
use anabranch_bench::table::counted;
use anabranch_sim::replay::{Replayed, Replayer};
use anabranch_sql::script::Skipped;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::counterexample::SEED;
use super::input::{Input, InputArguments};
use super::output::{check_replaceable, check_writable, say, write_file};
use super::shell::quoted;
use super::{Verdict, progress};

/// The version of the JSON format.
const VERSION: u32 = 1;

/// Exit code 1: an invariant held without coordination, or broke with the plan; or a part of the application was
/// skipped; with --guards also: a guard was not shown to be needed.
#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    #[command(flatten)]
    input: InputArguments,
    /// Run only this counterexample, by the ID that `analyze` prints; may be given several times
    #[arg(long, value_name = "ID")]
    counterexample: Vec<String>,
    /// Instead of counterexamples, show for each guard what breaks without it
    #[arg(long, conflicts_with_all = ["counterexample", "write_test"])]
    guards: bool,
    /// Show only this guard, by the ID that --guards prints; may be given several times
    #[arg(long, value_name = "ID", conflicts_with_all = ["counterexample", "write_test"])]
    guard: Vec<String>,
    /// How often to run each case with the plan, each time with different message delays
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    interleavings: u32,
    /// The format of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write the counterexamples as an SQL test of two sessions, for psql
    #[arg(long, value_name = "FILE")]
    write_test: Option<PathBuf>,
    /// Write the counterexamples of isolation as a script for two sessions of an unmodified PostgreSQL
    #[arg(long, value_name = "FILE", conflicts_with_all = ["guards", "guard"])]
    write_sessions: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// As text
    Text,
    /// As JSON (docs/schemas/replay.schema.json)
    Json,
}

pub(crate) fn run(arguments: &ReplayArguments) -> Result<Verdict, Box<dyn Error>> {
    if let Some(path) = &arguments.write_test {
        check_writable(Some(path))?;
        let is_own = |text: &str| text.starts_with(sessions::FIRST_LINE);
        check_replaceable(path, "was not written by anabranch replay", is_own)?;
    }
    if let Some(path) = &arguments.write_sessions {
        check_writable(Some(path))?;
        let is_own = |text: &str| text.starts_with(two_sessions::FIRST_LINE);
        check_replaceable(path, "was not written by anabranch replay", is_own)?;
    }
    let Input { script, plan, .. } = arguments.input.read()?;
    if plan.entries.is_empty() {
        return Err(arguments.input.nothing_found(&script).into());
    }
    let skipped = script.skipped;
    let again = arguments.input.script()?.application;
    let replayer = Replayer::new(script.application, again, plan).with_clients(script.clients);
    if arguments.guards || !arguments.guard.is_empty() {
        return guards::run(arguments, replayer, &skipped);
    }
    let plan = replayer.plan();
    let shown = progress::steps("replay", |step| {
        step("looking for counterexamples");
        replayer.counterexamples(SEED, Effort::default())
    });
    let chosen = chosen(&shown, &arguments.counterexample)?;
    let mut ran: Vec<(&Counterexample, Replayed)> = Vec::new();
    for one in &chosen {
        let replayed = progress::steps("replay", |step| {
            step(&one.id());
            replayer.replay(one, arguments.interleavings)
        });
        let failed = |error| format!("error: {} cannot be replayed: {error}", one.id());
        ran.push((one, replayed.map_err(failed)?));
    }
    if let Some(path) = &arguments.write_sessions {
        let mut command = format!("anabranch replay{}", arguments.input.typed());
        for id in &arguments.counterexample {
            let _ = write!(command, " --counterexample {}", quoted(id));
        }
        let _ = write!(
            command,
            " --write-sessions {}",
            quoted(&path.to_string_lossy())
        );
        write_file(path, two_sessions::render(&chosen, &command))?;
    }
    if let Some(path) = &arguments.write_test {
        let mut command = format!("anabranch replay{}", arguments.input.typed());
        for id in &arguments.counterexample {
            let _ = write!(command, " --counterexample {}", quoted(id));
        }
        let catalog = replayer.catalog();
        write_file(path, sessions::render(plan, catalog, &chosen, &command))?;
    }
    match arguments.format {
        Format::Text => {
            let skipped = report::skipped::render(&skipped, replayer.catalog());
            say!("{}{skipped}", text(plan, &ran))?;
        }
        Format::Json => {
            let report = json!({
                "version": VERSION,
                "interleavings": arguments.interleavings,
                "counterexamples": ran.iter().map(|(one, replayed)| as_json(one, replayed)).collect::<Vec<_>>(),
                "skipped": report::skipped::as_json(&skipped, replayer.catalog()),
            });
            say!("{report:#}\n")?;
        }
    }
    // Named counterexamples are judged by themselves.
    let is_complete = !arguments.counterexample.is_empty() || !misses_a_part(&skipped);
    let confirmed = ran.iter().all(|(_, replayed)| replayed.confirms_analysis());
    Ok(match confirmed && is_complete {
        true => Verdict::Fine,
        false => Verdict::Finding,
    })
}

/// Whether a part of the application is missing from the analysis.
fn misses_a_part(skipped: &[Skipped]) -> bool {
    skipped.iter().any(Skipped::is_missing)
}

/// The counterexamples with the IDs of the arguments; all if there are none.
fn chosen<'c>(
    shown: &'c [Counterexample],
    asked: &[String],
) -> Result<Vec<&'c Counterexample>, String> {
    let known: Vec<String> = shown.iter().map(Counterexample::id).collect();
    check_known("--counterexample", asked, &known)?;
    let is_asked = |one: &&Counterexample| asked.is_empty() || asked.contains(&one.id());
    Ok(shown.iter().filter(is_asked).collect())
}

/// Refuses an unknown ID, and lists the known ones.
fn check_known(option: &str, asked: &[String], known: &[String]) -> Result<(), String> {
    let Some(unknown) = asked.iter().find(|id| !known.contains(id)) else {
        return Ok(());
    };
    let known = match known.is_empty() {
        true => "none".to_owned(),
        false => known.join(", "),
    };
    Err(format!(
        "error: {option}: \"{unknown}\" does not exist; known are: {known}"
    ))
}

fn text(plan: &Plan, ran: &[(&Counterexample, Replayed)]) -> String {
    let mut out = String::new();
    for (one, replayed) in ran {
        render_one(plan, one, &mut out);
        out.push_str(&without_plan(one, replayed));
        out.push_str(&with_plan(one, replayed));
        out.push('\n');
    }
    let total = counted(ran.len() as u64, "counterexample");
    let broke = ran
        .iter()
        .filter(|(_, replayed)| replayed.without.is_broken)
        .count();
    let held = ran
        .iter()
        .filter(|(_, replayed)| replayed.with.broken.is_none())
        .count();
    let _ = match ran.is_empty() {
        true => writeln!(out, "Found no counterexample to run."),
        false => writeln!(
            out,
            "{total}: {broke} broke without coordination, {held} held with the plan."
        ),
    };
    out
}

/// Writes a line in the layout of [`render_one`].
fn line(out: &mut String, label: &str, text: &str) {
    let _ = writeln!(out, "  {label:<11}{text}");
}

fn without_plan(one: &Counterexample, replayed: &Replayed) -> String {
    let mut out = String::new();
    let result = &replayed.without;
    let failed: Vec<(usize, &String)> = refused(one, &result.refused);
    if let [(call, why), ..] = failed[..] {
        let replica = one.calls[call].replica + 1;
        line(
            &mut out,
            "without",
            &format!("not shown: a call of replica {replica} fails: {why}"),
        );
        return out;
    }
    let text = match result.is_broken {
        true => {
            "broken: two replicas ran the calls without coordination, and the merged rows violate the invariant"
        }
        false => {
            "not broken: two replicas ran the calls without coordination, and the merged rows violate nothing"
        }
    };
    line(&mut out, "without", text);
    if result.merged != one.merged {
        let mut label = "merged";
        for statement in &result.merged {
            line(&mut out, label, statement);
            label = "";
        }
    }
    out
}

/// The calls that failed, with the error of each.
fn refused<'r>(one: &Counterexample, refused: &'r [Option<String>]) -> Vec<(usize, &'r String)> {
    let calls = 0..one.calls.len();
    calls
        .zip(refused)
        .filter_map(|(call, why)| Some((call, why.as_ref()?)))
        .collect()
}

fn with_plan(one: &Counterexample, replayed: &Replayed) -> String {
    let mut out = String::new();
    let result = &replayed.with;
    let times = counted(u64::from(result.interleavings), "interleaving");
    match &result.broken {
        None => line(
            &mut out,
            "with plan",
            &format!("held in {times} of a cluster of two partitions"),
        ),
        Some(broken) => {
            line(
                &mut out,
                "with plan",
                &format!(
                    "broken with the delays of seed {}: {}",
                    broken.seed,
                    broken.violated.join(", ")
                ),
            );
            let mut label = "left";
            for statement in &broken.rows {
                line(&mut out, label, statement);
                label = "";
            }
        }
    }
    for (call, refused) in one.calls.iter().zip(&result.refused) {
        for (why, count) in refused {
            let replica = call.replica + 1;
            line(
                &mut out,
                "",
                &format!("a call of replica {replica} was refused in {count} of them: {why}"),
            );
        }
    }
    out
}

/// A counterexample and its results, for JSON.
fn as_json(one: &Counterexample, replayed: &Replayed) -> Value {
    let mut turns = [one.replicas[0].iter(), one.replicas[1].iter()];
    let counts = |refused: &BTreeMap<String, u32>| -> Vec<Value> {
        let each = refused.iter();
        each.map(|(why, count)| json!({ "message": why, "count": count }))
            .collect()
    };
    let calls: Vec<Value> = one
        .calls
        .iter()
        .zip(replayed.without.refused.iter().zip(&replayed.with.refused))
        .map(|(call, (without, with))| {
            json!({
                "replica": call.replica,
                "call": turns[call.replica].next(),
                "refused_without": without,
                "refused_with": counts(with),
            })
        })
        .collect();
    let broken = replayed.with.broken.as_ref().map(
        |broken| json!({ "seed": broken.seed, "rows": broken.rows, "violated": broken.violated }),
    );
    json!({
        "id": one.id(),
        "invariant": one.invariant,
        "transactions": one.transactions,
        "initial": one.initial,
        "calls": calls,
        "without": { "broken": replayed.without.is_broken, "merged": replayed.without.merged },
        "with": { "held": replayed.with.broken.is_none(), "broken": broken },
        "as_predicted": replayed.confirms_analysis(),
    })
}
