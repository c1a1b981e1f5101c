//! Whether a guard is needed: what breaks if one type does without one of its guards.
//!
//! Safe plans may still order too much. So each guard is removed by itself, and the search looks for a case that
//! the full plan orders and the reduced plan does not, in which an invariant breaks or an update is lost. The keys
//! that two calls used where they ran decide whether a plan orders them ([`super::ordering`]). What one call breaks by
//! itself does not count. A search without a result proves nothing.

use super::call::Call;
use super::case::{Case, MergedCase, are_ordered};
use super::counterexample::{self, Counterexample};
use super::generate::{Generator, Source, ValidCase};
use super::state::Log;
use super::{Effort, Explorer, OTHERS_MAX, World, minimal};
use crate::plan::{GuardKeeping, InvariantKind, Plan};

/// What a guard is for.
#[derive(Clone, Debug, PartialEq)]
pub enum Purpose {
    /// This case's invariant breaks without it. No row and no call of the case can be left out, as far as that was
    /// tried.
    Keeps(Box<Counterexample>),
    /// The type was not analysed and cannot be called.
    DoesNotRun,
    /// No calls were found that only this guard orders: others order them, too, or may, where the log of a call
    /// does not determine a key.
    OrdersNothingAlone,
    /// No calls were found that it may order.
    NotMet,
    /// Calls were found that only this guard orders, and nothing broke.
    NotFound,
}

/// Returns the invariant that calls and their merge break, if any.
type Breaks<'b> = dyn Fn(MergedCase, &[&Call]) -> Option<String> + 'b;

impl Explorer<'_> {
    /// Looks for what breaks if a type (`entry`) does without its guard with this number. The same seed examines
    /// the same cases.
    pub fn purpose(&self, entry: usize, guard: usize, seed: u64, effort: Effort) -> Purpose {
        let application = self.world.application;
        let plan = self.world.plan;
        if entry >= application.procedures.len() {
            return Purpose::DoesNotRun;
        }
        let less = plan.without_guard(application.summaries(), entry, guard);
        // No guard is for what one call breaks by itself.
        let [whole, world] = [plan, &less].map(|plan| World {
            strict: true,
            ..World::new(application, plan, self.world.clients)
        });
        let whole = &whole;
        let types = meeting(whole, entry, guard);
        let makers = makers(whole, entry, guard);
        let source = Source::new(&world, seed).thorough();
        let mut met = (false, false);
        // Cases that only this guard may order, up to the first in which something breaks.
        let mut look = |planned: bool, effort: Effort, breaks: &Breaks<'_>| -> Option<Purpose> {
            let generator = Generator::new(&source, &types);
            let mut generator = generator.after(&types, makers.clone());
            for _ in 0..effort.cases {
                let Some(tried) = generator.case(&types, planned, effort) else {
                    continue;
                };
                let (calls, logs): (Vec<&Call>, Vec<&Log>) =
                    tried.calls.iter().map(|(call, log)| (call, log)).unzip();
                let calls_it = calls.iter().any(|call| call.procedure == entry);
                let may_order = || are_ordered(whole, &calls, &logs);
                if !calls_it || !(gives(whole.plan, entry, guard) || may_order()) {
                    continue;
                }
                met.0 = true;
                if are_ordered(&world, &calls, &logs) {
                    continue;
                }
                met.1 = true;
                let merged = MergedCase::new(&world, tried.ancestor.clone(), &logs, planned);
                if let Some(broken) = merged.and_then(|merged| breaks(merged, &calls))
                    && let Some(shown) = shown(whole, &world, &tried, &broken, planned)
                {
                    return Some(Purpose::Keeps(Box::new(shown)));
                }
            }
            None
        };
        // Constraints and assertions, where the rest of the plan is kept.
        let violated = look(true, effort, &|merged, _| {
            merged.violated(&world).into_iter().next()
        });
        if let Some(keeps) = violated {
            return keeps;
        }
        // Isolation: two calls that lead to a state that neither order of them leads to.
        let invariants = whole.plan.entries[entry].guards[guard].invariants.iter();
        let isolation: Vec<&str> = invariants
            .map(|i| &whole.plan.invariants[*i])
            .filter(|invariant| invariant.kind == InvariantKind::NoLostUpdate)
            .map(|invariant| invariant.name.as_str())
            .collect();
        let cases = if isolation.is_empty() {
            0
        } else {
            effort.cases
        };
        let single = Effort {
            calls_max: 1,
            cases,
            ..effort
        };
        let lost = look(false, single, &|merged, calls| {
            let lost = |name: &&&str| {
                merged
                    .loses(whole, name, calls)
                    .is_some_and(|lost| lost.is_lost())
            };
            isolation.iter().find(lost).map(|name| (*name).to_owned())
        });
        if let Some(keeps) = lost {
            return keeps;
        }
        match met {
            (_, true) => Purpose::NotFound,
            (true, false) => Purpose::OrdersNothingAlone,
            (false, false) => Purpose::NotMet,
        }
    }
}

/// Minimises a case in which an invariant breaks without a guard.
fn shown(
    whole: &World<'_>,
    less: &World<'_>,
    tried: &ValidCase,
    invariant: &str,
    planned: bool,
) -> Option<Counterexample> {
    // The whole plan decides what two calls merge into; the reduced plan decides what holds.
    let of = if planned { less } else { whole };
    let still = |case: &Case| {
        case.breaks(of, invariant, planned) && (planned || case.is_apart(of, less, planned))
    };
    let case = tried.case(whole);
    if !still(&case) {
        return None;
    }
    let least = minimal::minimal(of, &case, planned, still);
    counterexample::counterexample(of, &least, invariant, planned)
}

/// Whether the guard is a counter whose owner draws numbers at commit.
fn gives(plan: &Plan, entry: usize, guard: usize) -> bool {
    plan.entries[entry].guards[guard].keeping == GuardKeeping::AtCommit
}

/// The types that insert rows into the guard's table.
fn makers(world: &World<'_>, entry: usize, guard: usize) -> Vec<usize> {
    world.inserters(world.plan.entries[entry].guards[guard].table)
}

/// The type, and those analysed types that the guard may order it against.
fn meeting(world: &World<'_>, entry: usize, guard: usize) -> Vec<usize> {
    let plan = world.plan;
    let taken = &plan.entries[entry].guards[guard];
    let mut types: Vec<usize> = (0..world.application.procedures.len())
        .filter(|of| {
            plan.entries[*of].guards.iter().any(|other| {
                other.table == taken.table
                    && other
                        .invariants
                        .iter()
                        .any(|i| taken.invariants.contains(i))
            })
        })
        .filter(|of| *of != entry)
        .take(OTHERS_MAX)
        .collect();
    types.insert(0, entry);
    types
}
