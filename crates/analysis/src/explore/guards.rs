//! Whether a guard is needed: what goes wrong once one type does without one of its guards.
//!
//! Safe plans may still order too much. So each guard is taken away by itself: a case counts that the plan
//! orders, and the plan without the guard does not, in which an invariant breaks or an update is lost.
//! That nothing is found proves nothing.

use anabranch_sql::summary::TransactionSummary;

use super::case::{Call, Lost, Met, are_ordered};
use super::generate::{Generator, Source};
use super::state::Log;
use super::{Effort, Explorer, OTHERS_MAX, World};
use crate::plan::{GuardKeeping, InvariantKind, Plan, gives_numbers};

/// What a guard is there for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// This invariant breaks without it.
    Keeps(String),
    /// No calls were met that it alone orders: other guards order them, too, or may, where a key is known only in
    /// the course of a call.
    OrdersNothingAlone,
    /// No calls were met that it may order.
    NotMet,
    /// Calls were met that it alone orders, and nothing broke.
    NotFound,
}

impl Explorer<'_> {
    /// What breaks where a type (`entry`) does without its guard with this number. The same seed looks at the
    /// same cases.
    pub fn purpose(&self, entry: usize, guard: usize, seed: u64, effort: Effort) -> Purpose {
        let whole = &self.world;
        let plan = without(whole.plan, whole.application.summaries(), entry, guard);
        let world = World::new(whole.application, &plan);
        let types = meeting(whole.plan, entry, guard);
        let source = Source::new(&world, seed);
        // Constraints and assertions, where everything else of the plan is kept.
        let mut generator = Generator::new(&source, &types);
        let ordered = |calls: &[&Call]| {
            calls.iter().any(|call| call.procedure == entry)
                && (are_ordered(whole, calls) || gives(whole.plan, entry, guard))
        };
        let (mut met_ordered, mut met_alone) = (false, false);
        for _ in 0..effort.cases {
            let Some(tried) = generator.case(&types, true, effort) else {
                continue;
            };
            let (calls, logs): (Vec<&Call>, Vec<&Log>) =
                tried.calls.iter().map(|(call, log)| (call, log)).unzip();
            if !ordered(&calls) {
                continue;
            }
            met_ordered = true;
            if are_ordered(&world, &calls) {
                continue;
            }
            met_alone = true;
            let met = Met::new(&world, tried.ancestor.clone(), &logs, true);
            let violated = met.map_or_else(Vec::new, |met| met.violated(&world));
            if let Some(invariant) = violated.into_iter().next() {
                return Purpose::Keeps(invariant);
            }
        }
        // Isolation: two calls that come to what neither order of them comes to.
        let invariants = whole.plan.entries[entry].guards[guard].invariants.iter();
        let isolation: Vec<&str> = invariants
            .map(|i| &whole.plan.invariants[*i])
            .filter(|invariant| invariant.kind == InvariantKind::NoLostUpdate)
            .map(|invariant| invariant.name.as_str())
            .collect();
        let mut generator = Generator::new(&source, &types);
        let single = Effort {
            calls_max: 1,
            cases: if isolation.is_empty() {
                0
            } else {
                effort.cases
            },
            ..effort
        };
        for _ in 0..single.cases {
            let Some(tried) = generator.case(&types, false, single) else {
                continue;
            };
            let (calls, logs): (Vec<&Call>, Vec<&Log>) =
                tried.calls.iter().map(|(call, log)| (call, log)).unzip();
            if !ordered(&calls) {
                continue;
            }
            met_ordered = true;
            if are_ordered(&world, &calls) {
                continue;
            }
            met_alone = true;
            let Some(met) = Met::new(&world, tried.ancestor.clone(), &logs, false) else {
                continue;
            };
            let lost = |name: &&&str| met.loses(whole, name, &calls) == Some(Lost::Yes);
            if let Some(name) = isolation.iter().find(lost) {
                return Purpose::Keeps((*name).to_owned());
            }
        }
        match (met_ordered, met_alone) {
            (_, true) => Purpose::NotFound,
            (true, false) => Purpose::OrdersNothingAlone,
            (false, false) => Purpose::NotMet,
        }
    }
}

/// Whether the guard is an owner's, who gives a number at commit.
fn gives(plan: &Plan, entry: usize, guard: usize) -> bool {
    plan.entries[entry].guards[guard].keeping == GuardKeeping::AtCommit
}

/// The plan without a guard. Where an owner gives numbers for it, nobody does.
fn without(plan: &Plan, summaries: &[TransactionSummary], entry: usize, guard: usize) -> Plan {
    let mut plan = plan.clone();
    let taken = plan.entries[entry].guards.remove(guard);
    if taken.keeping == GuardKeeping::AtCommit {
        let statements = &summaries[entry].statements;
        let numbers = |id| {
            let mut of_it = statements.iter().filter(|statement| statement.id == id);
            of_it.any(|statement| {
                gives_numbers(statement)
                    && statement.accesses.iter().any(|a| a.table == taken.table)
            })
        };
        plan.entries[entry].deferred.retain(|id| !numbers(*id));
    }
    plan
}

/// The type, and those that the guard may order it against.
fn meeting(plan: &Plan, entry: usize, guard: usize) -> Vec<usize> {
    let taken = &plan.entries[entry].guards[guard];
    let mut types: Vec<usize> = (0..plan.entries.len())
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
