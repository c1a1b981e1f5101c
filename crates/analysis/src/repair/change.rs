//! How a repair changes the plan, and whether the new plan is better.

use std::collections::BTreeMap;

use anabranch_sql::summary::TransactionSummary;

use crate::plan::{CoordinationClass, GuardKeeping, Plan, PlanEntry};

/// How much a plan coordinates: the first field counts most, less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost {
    global: usize,
    local: usize,
    /// Guards that are held from prepare to commit.
    held: usize,
    /// Those of them that are not on one row or group.
    whole: usize,
    /// Guards that their owner decides at commit.
    pub(super) at_commit: usize,
    /// Assertions that are evaluated.
    checks: usize,
}

impl Cost {
    /// The cost of a plan.
    pub(super) fn of(plan: &Plan) -> Cost {
        let classes = |class| plan.entries.iter().filter(|e| e.class == class).count();
        let guards = || plan.entries.iter().flat_map(|entry| &entry.guards);
        let kept = |keeping| guards().filter(move |guard| guard.keeping == keeping);
        Cost {
            global: classes(CoordinationClass::Global),
            local: classes(CoordinationClass::Local),
            held: kept(GuardKeeping::Validated).count(),
            whole: kept(GuardKeeping::Validated)
                .filter(|guard| guard.key.is_empty())
                .count(),
            at_commit: kept(GuardKeeping::AtCommit).count(),
            checks: plan.entries.iter().map(|entry| entry.checks.len()).sum(),
        }
    }
}

/// How many transaction types a plan has of each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classes {
    /// Ordered on nothing.
    pub free: usize,
    /// Ordered on one partition.
    pub local: usize,
    /// Ordered on several.
    pub global: usize,
}

impl Classes {
    fn of(plan: &Plan) -> Classes {
        let of = |class| plan.entries.iter().filter(|e| e.class == class).count();
        Classes {
            free: of(CoordinationClass::Free),
            local: of(CoordinationClass::Local),
            global: of(CoordinationClass::Global),
        }
    }
}

/// The difference of two plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanChange {
    /// The classes of its types before.
    pub before: Classes,
    /// The classes of its types after.
    pub after: Classes,
    /// The types whose plan changes, in order of declaration.
    pub types: Vec<TypeChange>,
}

/// A type whose plan changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeChange {
    /// Its name.
    pub name: String,
    /// Its plan.
    pub before: TypePlan,
    /// Its plan with the repair.
    pub after: TypePlan,
}

/// The plan of one type, as the report prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypePlan {
    /// Its class.
    pub class: CoordinationClass,
    /// The parameters by which it is routed.
    pub routing: Vec<String>,
    /// Without any, the array by whose elements it is routed.
    pub routing_array: Option<String>,
    /// What it is ordered on, without duplicates.
    pub guards: Vec<String>,
    /// Assertions that are evaluated before it commits.
    pub checks: Vec<String>,
}

impl TypePlan {
    fn of(plan: &Plan, entry: &PlanEntry, summary: &TransactionSummary) -> TypePlan {
        let mut guards: Vec<String> = Vec::new();
        for guard in &entry.guards {
            let line = guard.to_string();
            if !guards.contains(&line) {
                guards.push(line);
            }
        }
        let checks = entry.checks.iter();
        let name = |parameter: &usize| summary.parameters[*parameter].0.clone();
        TypePlan {
            class: entry.class,
            routing: entry.routing.iter().map(name).collect(),
            routing_array: entry.routing_array.as_ref().map(name),
            guards,
            checks: checks
                .map(|check| plan.invariants[check.invariant].name.clone())
                .collect(),
        }
    }
}

/// A plan with the summaries that it was made from.
#[derive(Clone, Copy)]
pub(super) struct Planned<'p> {
    pub(super) plan: &'p Plan,
    pub(super) summaries: &'p [TransactionSummary],
}

impl<'p> Planned<'p> {
    fn types(self) -> impl Iterator<Item = (&'p str, TypePlan)> {
        let Planned { plan, summaries } = self;
        plan.entries
            .iter()
            .zip(summaries)
            .map(move |(entry, summary)| (entry.name.as_str(), TypePlan::of(plan, entry, summary)))
    }
}

/// The difference of two plans. `None` if they have different types.
pub(super) fn change(before: Planned<'_>, after: Planned<'_>) -> Option<PlanChange> {
    let mut new: BTreeMap<&str, TypePlan> = after.types().collect();
    if before.plan.entries.len() != after.plan.entries.len() {
        return None;
    }
    let mut types = Vec::new();
    for (name, before) in before.types() {
        let after = new.remove(name)?;
        if before != after {
            let name = name.to_owned();
            types.push(TypeChange {
                name,
                before,
                after,
            });
        }
    }
    Some(PlanChange {
        before: Classes::of(before.plan),
        after: Classes::of(after.plan),
        types,
    })
}
