//! `anabranch replay --guards`: what each guard of a plan is for.

use std::error::Error;
use std::fmt::Write;

use anabranch_analysis::explore::{Counterexample, Effort, Purpose};
use anabranch_analysis::plan::{Guard, Plan};
use anabranch_analysis::report::counterexample::render_case;
use anabranch_bench::table::counted;
use anabranch_sim::replay::{Replayed, Replayer};
use serde_json::{Value, json};

use super::{Format, ReplayArguments, VERSION, check_known, line, told, with, without};
use crate::cli::analyze::SEED;
use crate::cli::output::say;
use crate::cli::{Verdict, progress};

/// A guard: its type and its place among the type's.
#[derive(Clone, Copy)]
struct Place {
    entry: usize,
    guard: usize,
}

/// What a guard came to.
enum Came {
    /// This breaks without it, and came to this where nodes ran it.
    Keeps(Box<Counterexample>, Box<Replayed>),
    /// It was not shown.
    NotShown(Reason),
}

/// Why it was not shown what a guard is for.
#[derive(Clone, Copy)]
struct Reason {
    /// For programs.
    code: &'static str,
    /// For people.
    words: &'static str,
}

const NOT_AS_TOLD: Reason = Reason {
    code: "not-as-told",
    words: "calls were found that break something without it, and where nodes ran them they did not, or with the whole plan",
};

impl Came {
    fn is_needed(&self) -> bool {
        matches!(self, Came::Keeps(_, replayed) if replayed.is_as_told())
    }
}

pub(super) fn run(
    arguments: &ReplayArguments,
    mut replayer: Replayer,
) -> Result<Verdict, Box<dyn Error>> {
    let plan = replayer.plan().clone();
    if plan.entries.iter().any(|entry| entry.serializable) {
        let why = "error: --guards: with --guarantee serializable everything is ordered, whatever it is for: there \
                   is no invariant that would break";
        return Err(why.into());
    }
    let entries = plan.entries.iter().enumerate();
    let all: Vec<(Place, String)> = entries
        .flat_map(|(entry, of)| (0..of.guards.len()).map(move |guard| Place { entry, guard }))
        .map(|place| (place, plan.guard_id(place.entry, place.guard)))
        .collect();
    let known: Vec<String> = all.iter().map(|(_, id)| id.clone()).collect();
    check_known("--guard", &arguments.guard, &known)?;
    let is_asked = |id: &String| arguments.guard.is_empty() || arguments.guard.contains(id);
    let mut ran: Vec<(Place, String, Came)> = Vec::new();
    for (place, id) in all.into_iter().filter(|(_, id)| is_asked(id)) {
        let Place { entry, guard } = place;
        let (purpose, less, replayed) = progress::steps("replay", |step| {
            step(&id);
            let purpose = replayer.purpose(entry, guard, SEED, Effort::OF_GUARDS);
            let Purpose::Keeps(shown) = &purpose else {
                return (purpose, replayer, None);
            };
            let less = replayer.but_for(entry, guard);
            let replayed = less.replay(shown, arguments.interleavings);
            (purpose, less, Some(replayed))
        });
        replayer = less;
        let came = match (purpose, replayed) {
            (Purpose::Keeps(shown), Some(replayed)) => {
                let failed = |error| format!("error: {id} cannot be replayed: {error}");
                Came::Keeps(shown, Box::new(replayed.map_err(failed)?))
            }
            (purpose, _) => Came::NotShown(reason(&purpose)),
        };
        ran.push((place, id, came));
    }
    match arguments.format {
        Format::Text => say!("{}", text(&plan, &ran))?,
        Format::Json => {
            let each = ran.iter();
            let guards: Vec<Value> = each.map(|one| guard_told(&plan, one)).collect();
            let report = json!({
                "version": VERSION,
                "interleavings": arguments.interleavings,
                "counterexamples": [],
                "guards": guards,
            });
            say!("{report:#}\n")?;
        }
    }
    Ok(match ran.iter().all(|(_, _, came)| came.is_needed()) {
        true => Verdict::Fine,
        false => Verdict::Finding,
    })
}

fn guard_of(plan: &Plan, place: Place) -> &Guard {
    &plan.entries[place.entry].guards[place.guard]
}

/// The names of the invariants for which there is a guard.
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
            "of all calls that were tried, other guards order those that it orders, or may",
        ),
        Purpose::NotMet => ("not-met", "no calls were tried that it orders"),
        Purpose::DoesNotRun => (
            "does-not-run",
            "the type is not understood, so that nobody can call it",
        ),
        _ => (
            "not-found",
            "calls were tried that it alone orders, and nothing broke",
        ),
    };
    Reason { code, words }
}

fn text(plan: &Plan, ran: &[(Place, String, Came)]) -> String {
    let mut out = String::new();
    for (place, id, came) in ran {
        let guard = guard_of(plan, *place);
        let name = &plan.entries[place.entry].name;
        let _ = writeln!(out, "{name}: {guard}");
        line(&mut out, "guard", id);
        line(&mut out, "keeps", &invariants(plan, guard).join(", "));
        match came {
            Came::Keeps(shown, replayed) => {
                let types = shown.transactions.join(", ");
                let said = match replayed.without.is_broken {
                    true => "needed",
                    false => "not shown",
                };
                let broken = format!("without it {} breaks: {types}", shown.invariant);
                line(&mut out, said, &broken);
                render_case(plan, shown, &mut out);
                out.push_str(&without(shown, replayed));
                out.push_str(&with(shown, replayed));
            }
            Came::NotShown(reason) => line(&mut out, "not shown", reason.words),
        }
        out.push('\n');
    }
    let needed = ran.iter().filter(|(_, _, came)| came.is_needed()).count();
    let total = counted(ran.len() as u64, "guard");
    let _ = match ran.is_empty() {
        true => writeln!(out, "There is no guard: no transaction type is ordered."),
        false => writeln!(
            out,
            "{total}: {needed} needed (broke without, held with the plan), {} not shown.",
            ran.len() - needed
        ),
    };
    out
}

/// A guard and what it came to, for programs.
fn guard_told(plan: &Plan, (place, id, came): &(Place, String, Came)) -> Value {
    let guard = guard_of(plan, *place);
    let key = guard.key.iter();
    let (case, reason) = match came {
        Came::Keeps(shown, replayed) => (
            Some(told(shown, replayed)),
            (!replayed.is_as_told()).then_some(NOT_AS_TOLD),
        ),
        Came::NotShown(reason) => (None, Some(*reason)),
    };
    json!({
        "id": id,
        "transaction": plan.entries[place.entry].name,
        "item": guard.item,
        "key": key.map(|k| json!({ "column": k.name, "from": k.from })).collect::<Vec<_>>(),
        "guard": guard.to_string(),
        "invariants": invariants(plan, guard),
        "needed": came.is_needed(),
        "case": case,
        "not_shown": reason.map(|why| json!({ "reason": why.code, "description": why.words })),
    })
}
