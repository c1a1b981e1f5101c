//! `anabranch check FILE`

use std::error::Error;
use std::path::PathBuf;

use anabranch_bench::table;
use anabranch_history::{Anomaly, History, Model, Phenomenon, Verdict as Judgement, drawing};
use clap::Args;
use serde_json::{Value, json};

use super::Verdict;
use super::output::{check_outputs, say, write_file};
use super::text;

/// Exit code 1: the history violates a model. Exit code 2, with the line: the history is truncated, not valid, in a
/// newer format, or contradicts itself.
#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// A recorded history (docs/histories.md), or a Jepsen EDN history of list-append or rw-register; - is standard
    /// input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The models to check, separated by commas: read-committed, read-atomic, sessions (or one session guarantee:
    /// monotonic-reads, monotonic-writes, read-your-writes, writes-follow-reads), causal, snapshot,
    /// update-serializable, serializable, strict-serializable [default: the models that the history's header promises]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    model: Vec<Model>,
    /// Draw an example of each phenomenon that was found: its transactions, and the cycle between them
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Report as JSON (docs/schemas/check.schema.json)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &CheckArguments) -> Result<Verdict, Box<dyn Error>> {
    let name = text::name(&arguments.file);
    check_outputs(&[("--svg", arguments.svg.as_deref())], &[&arguments.file])?;
    let history = History::read(text::open(&arguments.file)?)
        .map_err(|error| format!("error: {name}: {error}"))?;
    let promised = &history.header().models;
    let models = match (&arguments.model[..], &promised[..]) {
        ([], []) => {
            return Err(format!(
                "error: {name}: the history's header promises no model; name one: --model {}",
                Model::ALL.map(Model::name).join("|")
            )
            .into());
        }
        ([], promised) => promised,
        (asked, _) => asked,
    };
    let mut judgements: Vec<Judgement> = Vec::with_capacity(models.len());
    for model in models {
        if judgements.iter().any(|known| known.model == *model) {
            continue; // Named twice.
        }
        let judgement = anabranch_history::check(&history, *model)
            .map_err(|error| format!("error: {name}: {error}"))?;
        judgements.push(judgement);
    }
    let examples = examples(&judgements);
    if let (Some(path), false) = (&arguments.svg, examples.is_empty()) {
        write_file(path, drawing::svg(&examples))?;
    }
    if arguments.json {
        say!("{:#}\n", as_json(&history, &judgements))?;
    } else {
        say!("{}", as_text(&name, &history, &judgements))?;
        if let Some(path) = arguments.svg.as_ref().filter(|_| examples.is_empty()) {
            say!(
                "\n{} is not written: no phenomenon was found\n",
                path.display()
            )?;
        }
    }
    if judgements.iter().all(Judgement::is_satisfied) {
        Ok(Verdict::Fine)
    } else {
        Ok(Verdict::Finding)
    }
}

/// The shortest explained anomaly of each phenomenon.
fn examples(judgements: &[Judgement]) -> Vec<&Anomaly> {
    let mut examples: Vec<&Anomaly> = Vec::new();
    for anomaly in judgements.iter().flat_map(|judgement| &judgement.anomalies) {
        let same = |known: &&mut &Anomaly| known.phenomenon == anomaly.phenomenon;
        match examples.iter_mut().find(same) {
            Some(known) if anomaly.steps.len() < known.steps.len() => *known = anomaly,
            Some(_) => {}
            None => examples.push(anomaly),
        }
    }
    examples
}

fn counted(phenomenon: Phenomenon, count: u64) -> String {
    match count {
        1 => phenomenon.to_string(),
        _ => format!("{phenomenon} ({} cases)", table::grouped(count as f64)),
    }
}

fn as_text(name: &str, history: &History, judgements: &[Judgement]) -> String {
    let mut text = format!(
        "{name}: {}, of which {} committed\n\n",
        table::counted(history.transactions() as u64, "transaction"),
        table::grouped(history.committed() as f64)
    );
    if history.unjudged_absences() > 0 {
        text += &format!(
            "  {} cannot be judged: scans skipped items with several versions that mark absence, and the history does \
             not say which one was read (the field `at` does)\n\n",
            table::counted(history.unjudged_absences(), "absence")
        );
    }
    for judgement in judgements {
        let counts = judgement.counts.iter();
        let found: Vec<String> = counts.map(|(p, n)| counted(*p, *n)).collect();
        let words = match judgement.is_satisfied() {
            true => "satisfied".to_owned(),
            false => format!("violated: {}", found.join(", ")),
        };
        text += &format!("  {:<20} {words}\n", judgement.model.name());
    }
    for anomaly in examples(judgements) {
        text += &format!("\n{}", anomaly.to_text());
    }
    text
}

fn as_json(history: &History, judgements: &[Judgement]) -> Value {
    let verdicts = judgements.iter().map(|judgement| {
        let counts = judgement.counts.iter();
        let counts: serde_json::Map<String, Value> = counts
            .map(|(phenomenon, count)| (phenomenon.to_string(), json!(count)))
            .collect();
        json!({
            "model": judgement.model.name(),
            "satisfied": judgement.is_satisfied(),
            "phenomena": counts,
            "anomalies": judgement.anomalies.iter().map(anomaly).collect::<Vec<_>>(),
        })
    });
    json!({
        "transactions": history.transactions(),
        "committed": history.committed(),
        "unjudged_absences": history.unjudged_absences(),
        "verdicts": verdicts.collect::<Vec<_>>(),
    })
}

fn anomaly(anomaly: &Anomaly) -> Value {
    let transactions = anomaly.transactions.iter().map(|transaction| {
        json!({
            "name": transaction.name,
            "call": transaction.call,
            "line": transaction.line,
            "operations": transaction.operations,
        })
    });
    let steps = anomaly.steps.iter().map(|step| {
        json!({
            "from": anomaly.transactions[step.from].name,
            "to": anomaly.transactions[step.to].name,
            "dependency": step.dependency.name(),
            "item": step.item,
            "reason": step.reason,
        })
    });
    json!({
        "phenomenon": anomaly.phenomenon.name(),
        "meaning": anomaly.phenomenon.meaning(),
        "transactions": transactions.collect::<Vec<_>>(),
        "steps": steps.collect::<Vec<_>>(),
    })
}
