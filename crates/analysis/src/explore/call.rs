//! One call of a procedure in a case, its run, and the log of what it did.

use anabranch_sql::testing::ready;
use anabranch_types::Value;

use super::World;
use super::state::{Attempt, Log, State};
use super::validity::{violated, violated_since};

/// Where a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Before the replicas diverge.
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

/// A call, with its log if it has run.
#[derive(Clone, Copy)]
pub(super) struct LoggedCall<'c> {
    pub(super) call: &'c Call,
    pub(super) log: Option<&'c Log>,
}

impl<'c> LoggedCall<'c> {
    /// A call of which only the arguments are known.
    pub(super) fn not_run(call: &'c Call) -> LoggedCall<'c> {
        LoggedCall { call, log: None }
    }
}

/// Runs a call on a state; returns the state that it leaves, and its log. `None` if it fails or leaves a state that
/// violates something: then it aborts (Definition 2). With `planned`, only violations that the plan checks for
/// abort it.
pub(super) fn run(
    world: &World<'_>,
    state: &State,
    call: &Call,
    planned: bool,
) -> Option<(State, Log)> {
    let procedure = &world.application.procedures[call.procedure];
    let mut attempt = Attempt::new(world, state.clone(), call.number, planned);
    let returned = ready(procedure.call(&mut attempt, &call.arguments)).ok()?;
    attempt.check_deferred().ok()?;
    let (after, mut log) = attempt.into_parts();
    log.returned = returned.rows;
    let looked_for = |name: &String| !planned || world.is_checked(call.procedure, name);
    // Invariants that no plan checks may have been violated before.
    let violated = match planned {
        true => violated(world, &after),
        false => violated_since(world, &after, state),
    };
    (!violated.iter().any(looked_for)).then_some((after, log))
}

/// The replica (0 or 1) of a call.
pub(super) fn replica(call: &Call) -> usize {
    usize::from(call.side == Side::Right)
}
