//! One call of a procedure in a case, with the log of what it did.

use anabranch_types::Value;

use super::state::Log;

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
