//! `anabranch replay --guards`: for each guard of a plan, a case that breaks without it.

use std::error::Error;
use std::fmt::Write;

use anabranch_analysis::explore::{Counterexample, Effort, Purpose};
use anabranch_analysis::plan::{Guard, Plan};
use anabranch_analysis::report;
use anabranch_analysis::report::counterexample::render_case;
use anabranch_bench::table::counted;
use anabranch_sim::replay::{Replayed, Replayer};
use anabranch_sql::script::Skipped;
use serde_json::{Value, json};

use super::{
    Format, ReplayArguments, VERSION, as_json, check_known, line, misses_a_part, with_plan,
    without_plan,
};
use crate::cli::counterexample::SEED;
use crate::cli::output::say;
use crate::cli::{Verdict, progress};

/// The index of a guard: of its type in the plan, and of the guard in the type.
#[derive(Clone, Copy)]
struct GuardIndex {
    entry: usize,
    guard: usize,
}

/// The result for a guard.
enum Outcome {
    /// A case breaks without the guard; the nodes of a cluster ran it with this result.
    Keeps(Box<Counterexample>, Box<Replayed>),
    /// No case was found.
    NotShown(Reason),
}

/// Why a guard was not shown to be needed.
#[derive(Clone, Copy)]
struct Reason {
    /// The code in JSON.
    code: &'static str,
    /// The text.
    words: &'static str,
}

const NOT_AS_PREDICTED: Reason = Reason {
    code: "not-as-predicted",
    words: "the search found a case that breaks without it, but on the nodes it did not break, or it broke with the whole plan",
};

impl Outcome {
    fn is_needed(&self) -> bool {
        matches!(self, Outcome::Keeps(_, replayed) if replayed.confirms_analysis())
    }
}

pub(super) fn run(
    arguments: &ReplayArguments,
    mut replayer: Replayer,
    skipped: &[Skipped],
) -> Result<Verdict, Box<dyn Error>> {
    let plan = replayer.plan().clone();
    if plan.entries.iter().any(|entry| entry.serializable) {
        let why = "error: --guards: with --guarantee serializable everything is ordered, and guards are not tied to \
                   invariants; leave out --guarantee serializable";
        return Err(why.into());
    }
    let entries = plan.entries.iter().enumerate();
    let all: Vec<(GuardIndex, String)> = entries
        .flat_map(|(entry, of)| (0..of.guards.len()).map(move |guard| GuardIndex { entry, guard }))
        .map(|index| (index, plan.guard_id(index.entry, index.guard)))
        .collect();
    let known: Vec<String> = all.iter().map(|(_, id)| id.clone()).collect();
    check_known("--guard", &arguments.guard, &known)?;
    let is_asked = |id: &String| arguments.guard.is_empty() || arguments.guard.contains(id);
    let mut ran: Vec<(GuardIndex, String, Outcome)> = Vec::new();
    for (index, id) in all.into_iter().filter(|(_, id)| is_asked(id)) {
        let GuardIndex { entry, guard } = index;
        let (purpose, less, replayed) = progress::steps("replay", |step| {
            step(&id);
            let purpose = replayer.purpose(entry, guard, SEED, Effort::FOR_GUARDS);
            let Purpose::Keeps(shown) = &purpose else {
                return (purpose, replayer, None);
            };
            let less = replayer.without_guard(entry, guard);
            let replayed = less.replay(shown, arguments.interleavings);
            (purpose, less, Some(replayed))
        });
        replayer = less;
        let outcome = match (purpose, replayed) {
            (Purpose::Keeps(shown), Some(replayed)) => {
                let failed = |error| format!("error: {id} cannot be replayed: {error}");
                Outcome::Keeps(shown, Box::new(replayed.map_err(failed)?))
            }
            (purpose, _) => Outcome::NotShown(reason(&purpose)),
        };
        ran.push((index, id, outcome));
    }
    match arguments.format {
        Format::Text => {
            let skipped = report::skipped::render(skipped, replayer.catalog());
            say!("{}{skipped}", text(&plan, &ran))?;
        }
        Format::Json => {
            let each = ran.iter();
            let guards: Vec<Value> = each.map(|one| guard_as_json(&plan, one)).collect();
            let report = json!({
                "version": VERSION,
                "interleavings": arguments.interleavings,
                "counterexamples": [],
                "guards": guards,
                "skipped": report::skipped::as_json(skipped, replayer.catalog()),
            });
            say!("{report:#}\n")?;
        }
    }
    let is_complete = !arguments.guard.is_empty() || !misses_a_part(skipped);
    let all_needed = ran.iter().all(|(_, _, outcome)| outcome.is_needed());
    Ok(match all_needed && is_complete {
        true => Verdict::Fine,
        false => Verdict::Finding,
    })
}

fn guard_of(plan: &Plan, index: GuardIndex) -> &Guard {
    &plan.entries[index.entry].guards[index.guard]
}

/// The names of the invariants that need the guard.
fn invariants<'p>(plan: &'p Plan, guard: &Guard) -> Vec<&'p str> {
    let invariants = guard.invariants.iter();
    invariants
        .map(|index| plan.invariants[*index].name.as_str())
        .collect()
}

fn reason(purpose: &Purpose) -> Reason {
    let (code, words) = match purpose {
        Purpose::OrdersNothingAlone => (
            "orders-nothing-alone",
            "other guards order, or may order, all calls that were tried and that it orders",
        ),
        Purpose::NotMet => ("not-exercised", "the search tried no calls that it orders"),
        Purpose::DoesNotRun => (
            "not-callable",
            "the transaction type was not analysed, so it cannot be called",
        ),
        _ => (
            "not-found",
            "the search tried calls that only this guard orders, and nothing broke",
        ),
    };
    Reason { code, words }
}

fn text(plan: &Plan, ran: &[(GuardIndex, String, Outcome)]) -> String {
    let mut out = String::new();
    for (index, id, outcome) in ran {
        let guard = guard_of(plan, *index);
        let name = &plan.entries[index.entry].name;
        let _ = writeln!(out, "{name}: {guard}");
        line(&mut out, "guard", id);
        line(&mut out, "keeps", &invariants(plan, guard).join(", "));
        match outcome {
            Outcome::Keeps(shown, replayed) => {
                let types = shown.transactions.join(", ");
                let label = match replayed.without.is_broken {
                    true => "needed",
                    false => "not shown",
                };
                let broken = format!("without it {} breaks: {types}", shown.invariant);
                line(&mut out, label, &broken);
                render_case(plan, shown, &mut out);
                out.push_str(&without_plan(shown, replayed));
                out.push_str(&with_plan(shown, replayed));
            }
            Outcome::NotShown(reason) => line(&mut out, "not shown", reason.words),
        }
        out.push('\n');
    }
    let needed = ran
        .iter()
        .filter(|(_, _, outcome)| outcome.is_needed())
        .count();
    let total = counted(ran.len() as u64, "guard");
    let _ = match ran.is_empty() {
        true => writeln!(
            out,
            "The plan has no guards: no transaction type needs coordination."
        ),
        false => writeln!(
            out,
            "{total}: {needed} needed (broke without, held with the plan), {} not shown.",
            ran.len() - needed
        ),
    };
    out
}

/// A guard and its result, for JSON.
fn guard_as_json(plan: &Plan, (index, id, outcome): &(GuardIndex, String, Outcome)) -> Value {
    let guard = guard_of(plan, *index);
    let key = guard.key.iter();
    let (case, reason) = match outcome {
        Outcome::Keeps(shown, replayed) => (
            Some(as_json(shown, replayed)),
            (!replayed.confirms_analysis()).then_some(NOT_AS_PREDICTED),
        ),
        Outcome::NotShown(reason) => (None, Some(*reason)),
    };
    json!({
        "id": id,
        "transaction": plan.entries[index.entry].name,
        "item": guard.item,
        "key": key.map(|k| json!({ "column": k.name, "from": k.from })).collect::<Vec<_>>(),
        "guard": guard.to_string(),
        "invariants": invariants(plan, guard),
        "needed": outcome.is_needed(),
        "case": case,
        "not_shown": reason.map(|why| json!({ "reason": why.code, "description": why.words })),
    })
}
