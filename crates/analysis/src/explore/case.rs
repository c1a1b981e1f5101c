//! One case: some rows, calls before and after replicas diverge, and the merged state.

use std::collections::BTreeSet;

use anabranch_types::{ColumnIndex, Effect, Key, TableId, Value};

use super::World;
use super::call::{Call, LoggedCall, Side, run};
use super::merge::{Broken, FurtherViolations, Merged, merge, violated_by};
use super::serial::PairOutcome;
use super::state::{Log, State};
use super::validity::{violated, violated_since};

/// Rows, and calls in the order of their timestamps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Case {
    pub(super) rows: Vec<(TableId, Vec<Value>)>,
    pub(super) calls: Vec<Call>,
}

/// The outcome of a case.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The rows violate something, a call fails or would violate something where it runs, or the plan orders two of
    /// the calls: such a case cannot occur.
    Void,
    /// The merged state satisfies every invariant.
    Holds,
    /// The merged state violates these.
    Broken(Vec<String>),
}

/// Whether the plan orders a call of one side against one of the other, by the keys that they used where they ran:
/// `logs` are those of the calls.
pub(super) fn are_ordered(world: &World<'_>, calls: &[&Call], logs: &[&Log]) -> bool {
    let ran = calls.iter().zip(logs).map(|(call, log)| LoggedCall {
        call,
        log: Some(log),
    });
    let of = |side: Side| ran.clone().filter(move |ran| ran.call.side == side);
    of(Side::Left).any(|a| of(Side::Right).any(|b| world.orders(a, b)))
}

/// Whether two calls fail to be isolated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// No serial order leaves their rows.
    Rows,
    /// No serial order leaves their rows and gives their answers.
    Answers,
    /// They do not.
    No,
    /// They break this invariant, for which the plan orders them.
    Violates(String),
}

impl Lost {
    /// Whether they fail to be isolated.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self, Lost::Rows | Lost::Answers)
    }
}

/// The merged state of replicas that have diverged.
pub(super) struct MergedCase {
    ancestor: State,
    merged: State,
    /// What the merge itself found violated.
    broken: Option<Broken>,
    /// Whether the ancestor may violate what no plan checks.
    planned: bool,
}

impl MergedCase {
    /// Merges the effects of calls on this ancestor, in the order of timestamps.
    pub(super) fn new(
        world: &World<'_>,
        ancestor: State,
        logs: &[&Log],
        planned: bool,
    ) -> Option<MergedCase> {
        match merge(world, &ancestor, logs) {
            Merged::State(merged, broken) => Some(MergedCase {
                ancestor,
                merged,
                broken,
                planned,
            }),
            Merged::Impossible => None,
        }
    }

    /// The invariants that the merged state violates.
    pub(super) fn violated(&self, world: &World<'_>) -> Vec<String> {
        violated_by(self.broken.as_ref(), || match self.planned {
            true => violated(world, &self.merged),
            false => violated_since(world, &self.merged, &self.ancestor),
        })
    }

    /// Whether this state shows that an invariant breaks between the calls that ran apart.
    pub(super) fn shows(&self, world: &World<'_>, invariant: &str, apart: &[&Call]) -> bool {
        if !self.violated(world).iter().any(|name| name == invariant) {
            return false;
        }
        let counts = match &self.broken {
            Some(broken) if !self.planned && broken.invariant != invariant => broken.further,
            _ => FurtherViolations::All,
        };
        let are_ordered = || {
            apart.iter().enumerate().any(|(place, one)| {
                let mut others = apart[place + 1..].iter();
                others.any(|other| {
                    one.side != other.side
                        && world.has_edge(one.procedure, other.procedure, invariant)
                })
            })
        };
        counts == FurtherViolations::All || are_ordered()
    }

    /// Whether two calls on two sides led to a state that neither order of them leads to: see [`Case::loses`].
    pub(super) fn loses(
        &self,
        world: &World<'_>,
        invariant: &str,
        apart: &[&Call],
    ) -> Option<Lost> {
        let [first, second] = *apart else {
            return Some(Lost::No);
        };
        if first.side == second.side {
            return Some(Lost::No);
        }
        let table = world.isolated_table(invariant)?;
        let joins = |invariant: &str| world.has_edge(first.procedure, second.procedure, invariant);
        if let Some(violated) = self.violated(world).into_iter().find(|name| joins(name)) {
            return Some(Lost::Violates(violated));
        }
        let [one, other] = [first, second].map(LoggedCall::not_run);
        let ordered = world.orders(one, other) || world.orders(other, one);
        if ordered && !joins(invariant) && world.isolates(first.procedure, second.procedure) {
            return Some(Lost::No);
        }
        let pair = [first, second];
        let mut orders = Vec::new();
        for first in [0, 1] {
            orders.push(PairOutcome::serial(
                world,
                &self.ancestor,
                pair,
                first,
                table,
            )?);
        }
        if !joins(invariant) {
            let after: Vec<State> = orders.into_iter().map(|order| order.state).collect();
            return self.loses_a_write(world, table, pair, &after);
        }
        let mut answers = Vec::new();
        for call in pair {
            let (_, mut log) = run(world, &self.ancestor, call, false)?;
            if world.ends_without_a_write(&mut log) {
                return Some(Lost::No);
            }
            answers.push(Some(world.answers(call.procedure, &log, table)));
        }
        let leaves_others = |order: &PairOutcome| match ordered {
            true => order.state != self.merged,
            false => order.state.of_table(table) != self.merged.of_table(table),
        };
        let answers_others = |order: &PairOutcome| order.answers[..] != answers[..];
        let differs = |order: &PairOutcome| leaves_others(order) || answers_others(order);
        Some(match orders.iter().all(leaves_others) {
            true => Lost::Rows,
            false if orders.iter().all(differs) => Lost::Answers,
            false => Lost::No,
        })
    }

    /// The state from which the replicas diverged.
    pub(super) fn ancestor(&self) -> &State {
        &self.ancestor
    }

    /// The merged state.
    pub(super) fn state(&self) -> &State {
        &self.merged
    }

    /// The same for two calls that the plan does not order for this invariant. Each may act on what the other
    /// changes, or look for rows that the other inserts: that was not checked, and no guarantee covers it. But a
    /// column of a row that both write has the value that it has after one of the two orders.
    fn loses_a_write(
        &self,
        world: &World<'_>,
        table: TableId,
        apart: [&Call; 2],
        after: &[State],
    ) -> Option<Lost> {
        let schema = world.schema().table(table);
        let mut written: [BTreeSet<(&Key, ColumnIndex)>; 2] = Default::default();
        let mut logs = Vec::new();
        for call in apart {
            logs.push(run(world, &self.ancestor, call, false)?.1);
        }
        for (log, written) in logs.iter().zip(&mut written) {
            for done in &log.effects {
                if let Effect::Update { key, .. } = &done.effect
                    && done.effect.table() == table
                {
                    // A value computed for the row that was found is refused by a node once the row has changed.
                    let columns = world.written(done, schema).into_iter();
                    let kept =
                        columns.filter(|c| !world.is_computed_from_found_row(done, table, *c));
                    written.extend(kept.map(|column| (key, column)));
                }
            }
        }
        let [one, other] = &written;
        let is_lost = one.intersection(other).any(|(key, column)| {
            let value = |state: &State| {
                let row = state.of_table(table).get(*key);
                row.map(|row| row.get(&schema.layout, *column))
            };
            after
                .iter()
                .all(|state| value(state) != value(&self.merged))
        });
        Some(if is_lost { Lost::Rows } else { Lost::No })
    }
}

impl Case {
    /// Whether a type runs after replicas have diverged.
    pub(super) fn involves(&self, procedure: usize) -> bool {
        let apart = |c: &&Call| c.side != Side::Before;
        self.calls
            .iter()
            .filter(apart)
            .any(|c| c.procedure == procedure)
    }

    /// The state from which replicas diverge.
    pub(super) fn ancestor(&self, world: &World<'_>, planned: bool) -> Option<State> {
        let mut state = State::of(world.schema(), &self.rows)?;
        if !violated(world, &state).is_empty() {
            return None;
        }
        for call in self.calls.iter().filter(|c| c.side == Side::Before) {
            state = run(world, &state, call, planned)?.0;
        }
        Some(state)
    }

    /// Runs the case. With `planned`, the plan's guards are kept and deferred updates are deferred.
    pub(super) fn run(&self, world: &World<'_>, planned: bool) -> Outcome {
        self.try_run(world, planned).unwrap_or(Outcome::Void)
    }

    fn try_run(&self, world: &World<'_>, planned: bool) -> Option<Outcome> {
        let violated = self.merge_apart(world, planned)?.violated(world);
        Some(if violated.is_empty() {
            Outcome::Holds
        } else {
            Outcome::Broken(violated)
        })
    }

    /// The merged state, unless the plan would have ordered the calls.
    fn merge_apart(&self, world: &World<'_>, planned: bool) -> Option<MergedCase> {
        let (ancestor, logs) = self.ran(world, planned)?;
        if planned && self.orders(world, &logs) {
            return None;
        }
        MergedCase::new(world, ancestor, &logs.iter().collect::<Vec<_>>(), planned)
    }

    /// The calls that run after replicas have diverged, in the order of timestamps.
    pub(super) fn concurrent(&self) -> Vec<&Call> {
        let apart = self.calls.iter().filter(|c| c.side != Side::Before);
        apart.collect()
    }

    /// Whether a plan orders a call of one side against one of the other, given what calls have done.
    fn orders(&self, world: &World<'_>, logs: &[Log]) -> bool {
        are_ordered(world, &self.concurrent(), &logs.iter().collect::<Vec<_>>())
    }

    /// Whether the case runs under `world`, and the plan of `less` orders none of its calls.
    pub(super) fn is_apart(&self, world: &World<'_>, less: &World<'_>, planned: bool) -> bool {
        let ran = self.ran(world, planned);
        ran.is_some_and(|(_, logs)| !self.orders(less, &logs))
    }

    /// Runs the calls, each on its side, and merges their effects.
    pub(super) fn merge(&self, world: &World<'_>, planned: bool) -> Option<MergedCase> {
        let (ancestor, logs) = self.ran(world, planned)?;
        MergedCase::new(world, ancestor, &logs.iter().collect::<Vec<_>>(), planned)
    }

    /// Runs the calls, each on its side; returns the ancestor and the logs of the calls that ran after divergence.
    pub(super) fn ran(&self, world: &World<'_>, planned: bool) -> Option<(State, Vec<Log>)> {
        let ancestor = self.ancestor(world, planned)?;
        let (mut left, mut right) = (ancestor.clone(), ancestor.clone());
        let mut logs = Vec::new();
        for call in &self.calls {
            let state = match call.side {
                Side::Before => continue,
                Side::Left => &mut left,
                Side::Right => &mut right,
            };
            let (next, log) = run(world, state, call, planned)?;
            *state = next;
            logs.push(log);
        }
        Some((ancestor, logs))
    }

    /// Whether this invariant breaks.
    pub(super) fn breaks(&self, world: &World<'_>, invariant: &str, planned: bool) -> bool {
        if invariant.starts_with("isolation(") {
            return self.loses(world, invariant).is_lost();
        }
        self.merge_apart(world, planned)
            .is_some_and(|merged| merged.shows(world, invariant, &self.concurrent()))
    }

    /// The merged state, where there is one.
    pub(super) fn merged(&self, world: &World<'_>, planned: bool) -> Option<State> {
        Some(self.merge(world, planned)?.merged)
    }

    /// Whether one call on each side leaves in a table (`isolation(table)`) what neither order of the two leaves
    /// there: an update is lost, or both acted on what only one could have found.
    ///
    /// The difference may appear in another table than the one that was read. It counts there if the plan orders
    /// the two for the sake of this table; what is ordered for the sake of another is attributed to that one. If a
    /// declared invariant breaks for which the plan orders the two, then that is the failure: the second of them
    /// would have been refused for it, whatever it has read.
    pub(super) fn loses(&self, world: &World<'_>, invariant: &str) -> Lost {
        self.try_loses(world, invariant).unwrap_or(Lost::No)
    }

    fn try_loses(&self, world: &World<'_>, invariant: &str) -> Option<Lost> {
        let apart = self.concurrent();
        let loses = |planned| {
            let met = self.merge(world, planned)?;
            met.loses(world, invariant, &apart)
        };
        let ordered_for_it = match apart[..] {
            [first, second] => world.has_edge(first.procedure, second.procedure, invariant),
            _ => false,
        };
        // Without guards no owner draws numbers at commit, and two calls that read the same number lose an update.
        // If the plan orders the two for another reason, the update must be lost with drawn numbers, too.
        let lost = loses(false)?;
        if !lost.is_lost() || ordered_for_it {
            return Some(lost);
        }
        loses(true)
    }

    /// The same case with the ancestor's rows in place of the calls that made them.
    pub(super) fn with_ancestor_rows(&self, world: &World<'_>, planned: bool) -> Option<Case> {
        let ancestor = self.ancestor(world, planned)?;
        let calls = self.calls.iter().filter(|c| c.side != Side::Before);
        Some(Case {
            rows: ancestor.rows(world.schema()),
            calls: calls.cloned().collect(),
        })
    }
}
