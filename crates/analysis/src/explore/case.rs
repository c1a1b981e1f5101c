//! One case: some rows, calls before and after replicas diverge, and what comes of merging.

use anabranch_sql::testing::ready;
use anabranch_types::{TableId, Value};

use super::World;
use super::merge::{Merged, merge};
use super::state::{Attempt, Log, State};
use super::validity::violated;

/// Where a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Before replicas diverge.
    Before,
    Left,
    Right,
}

/// One call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) procedure: usize,
    pub(super) arguments: Vec<Value>,
    pub(super) side: Side,
    /// Different in each call of a case.
    pub(super) number: u64,
}

/// Rows, and calls in the order of their timestamps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Case {
    pub(super) rows: Vec<(TableId, Vec<Value>)>,
    pub(super) calls: Vec<Call>,
}

/// What came of a case.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The rows violate something, a call fails or would violate something where it runs, or the
    /// plan orders two of the calls: such a case does not happen.
    Void,
    /// The merged state satisfies everything.
    Holds,
    /// It violates these.
    Broken(Vec<String>),
}

/// Runs a call on a state: what it leaves, and its log. `None` when it fails or leaves what
/// violates something: then it aborts (Definition 2). With `planned`, only if the plan has it looked
/// for: what no plan looks at, nobody aborts for.
pub(super) fn run(
    world: &World<'_>,
    state: &State,
    call: &Call,
    planned: bool,
) -> Option<(State, Log)> {
    let procedure = &world.application.procedures[call.procedure];
    let mut attempt = Attempt::new(world, state.clone(), call.number, planned);
    ready(procedure.call(&mut attempt, &call.arguments)).ok()?;
    let (state, log) = attempt.into_parts();
    let looked_for = |name: &String| !planned || world.is_looked_for(call.procedure, name);
    let violated = violated(world, &state);
    (!violated.iter().any(looked_for)).then_some((state, log))
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

    /// The state that replicas diverge from.
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

    /// Runs it. With `planned` the plan's guards are kept, and what it leaves to the rows' owners
    /// is left to them.
    pub(super) fn run(&self, world: &World<'_>, planned: bool) -> Outcome {
        self.try_run(world, planned).unwrap_or(Outcome::Void)
    }

    fn try_run(&self, world: &World<'_>, planned: bool) -> Option<Outcome> {
        let ancestor = self.ancestor(world, planned)?;
        let (mut left, mut right) = (ancestor.clone(), ancestor.clone());
        let mut logs: Vec<(&Call, Log)> = Vec::new();
        for call in &self.calls {
            let state = match call.side {
                Side::Before => continue,
                Side::Left => &mut left,
                Side::Right => &mut right,
            };
            let (next, log) = run(world, state, call, planned)?;
            *state = next;
            logs.push((call, log));
        }
        let apart = |a: &Call, b: &Call| a.side == Side::Left && b.side == Side::Right;
        let ordered =
            |(a, _): &(&Call, Log)| logs.iter().any(|(b, _)| apart(a, b) && world.orders(a, b));
        if planned && logs.iter().any(ordered) {
            return None;
        }
        let in_order: Vec<&Log> = logs.iter().map(|(_, log)| log).collect();
        let Merged::State(merged, broken) = merge(world, &ancestor, &in_order) else {
            return None;
        };
        let mut violated = violated(world, &merged);
        if let Some(broken) = broken
            && !violated.contains(&broken)
        {
            violated.insert(0, broken);
        }
        Some(if violated.is_empty() {
            Outcome::Holds
        } else {
            Outcome::Broken(violated)
        })
    }

    /// Whether this invariant breaks.
    pub(super) fn breaks(&self, world: &World<'_>, invariant: &str, planned: bool) -> bool {
        if let Some(table) = invariant.strip_prefix("isolation(") {
            return self.loses(world, table);
        }
        matches!(self.run(world, planned), Outcome::Broken(violated)
            if violated.iter().any(|v| v == invariant))
    }

    /// The merged state without guards, where there is one.
    pub(super) fn merged(&self, world: &World<'_>, planned: bool) -> Option<State> {
        let ancestor = self.ancestor(world, planned)?;
        let (mut left, mut right) = (ancestor.clone(), ancestor.clone());
        let mut logs = Vec::new();
        for call in self.calls.iter().filter(|c| c.side != Side::Before) {
            let state = match call.side {
                Side::Left => &mut left,
                _ => &mut right,
            };
            let (next, log) = run(world, state, call, planned)?;
            *state = next;
            logs.push(log);
        }
        match merge(world, &ancestor, &logs.iter().collect::<Vec<_>>()) {
            Merged::State(state, _) => Some(state),
            Merged::Impossible => None,
        }
    }

    /// Whether one call on each side leaves in a table (`isolation(table)`) what neither order of
    /// the two leaves there: an update is lost, or both acted on what only one could have found.
    pub(super) fn loses(&self, world: &World<'_>, invariant: &str) -> bool {
        self.try_loses(world, invariant).unwrap_or(false)
    }

    fn try_loses(&self, world: &World<'_>, invariant: &str) -> Option<bool> {
        let name = invariant
            .trim_start_matches("isolation(")
            .trim_end_matches(')');
        let table = world.schema().tables.iter().find(|t| t.name == name)?;
        let apart: Vec<&Call> = self
            .calls
            .iter()
            .filter(|c| c.side != Side::Before)
            .collect();
        let [first, second] = apart[..] else {
            return Some(false);
        };
        if first.side == second.side {
            return Some(false);
        }
        let merged = self.merged(world, false)?;
        let ancestor = self.ancestor(world, false)?;
        let rows = |state: &State| state.tables[table.id.index()].clone();
        for (a, b) in [(first, second), (second, first)] {
            let (state, _) = run(world, &ancestor, a, false)?;
            // One that fails where it comes second leaves what the first has left.
            let after = run(world, &state, b, false).map_or(state, |(state, _)| state);
            if rows(&after) == rows(&merged) {
                return Some(false);
            }
        }
        Some(true)
    }

    /// The same with the ancestor's rows in the place of the calls that made them.
    pub(super) fn settled(&self, world: &World<'_>, planned: bool) -> Option<Case> {
        let ancestor = self.ancestor(world, planned)?;
        let calls = self.calls.iter().filter(|c| c.side != Side::Before);
        Some(Case {
            rows: ancestor.rows(world.schema()),
            calls: calls.cloned().collect(),
        })
    }
}
