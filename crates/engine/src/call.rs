//! Calls of clients, and their outcomes.

use std::sync::Arc;

use anabranch_protocol::Session;
use anabranch_sql::application::{CompiledStatement, ResultSet};
use anabranch_types::{EffectError, Value};

/// Identifies a call among those of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// One invocation of a procedure, or one statement.
#[derive(Clone, Debug)]
pub struct Call {
    /// Chosen by the client, and repeated in the [`Outcome`].
    pub id: CallId,
    /// The procedure or statement to run.
    pub work: Work,
    /// The input arguments, in order, of the declared types.
    pub arguments: Arc<[Value]>,
    /// The session of the client's last committed call. Opaque to clients. A new client starts with an empty
    /// session, and most protocols use none.
    pub session: Session,
}

/// The work of a [`Call`].
#[derive(Clone, Debug)]
pub enum Work {
    /// The procedure with this index in the application's list.
    Procedure(usize),
    /// A statement outside any procedure, compiled for this application. It has no plan entry, so it takes
    /// no guard and defers nothing.
    Statement(Arc<CompiledStatement>),
}

/// The outcome of a [`Call`].
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The call.
    pub id: CallId,
    /// The procedure's result, if it committed.
    pub result: Result<ResultSet, CallError>,
    /// The aborted and retried attempts, by reason.
    pub retries: Retries,
    /// The session for the client's next call, if the call committed. Empty otherwise: the client keeps its
    /// session.
    pub session: Session,
}

/// The aborted and retried attempts of one call, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retries {
    /// Another transaction held a conflicting guard or lock.
    pub conflict: u32,
    /// The reads could not form one atomic view.
    pub fractured: u32,
    /// Versions that a read needed had been collected.
    pub below_floor: u32,
    /// A deferred effect with outputs found no row: retried without deferral.
    pub row_missing: u32,
    /// A node that took part restarted without its volatile state.
    pub restarted: u32,
}

impl Retries {
    /// The sum of all reasons.
    pub fn total(&self) -> u32 {
        self.conflict + self.fractured + self.below_floor + self.row_missing + self.restarted
    }
}

/// Why a call did not commit. It has no effects, unless it is in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// The transaction failed: a constraint, or an exception raised by the procedure.
    Failed(EffectError),
    /// The limit of attempts was reached. A later call may succeed.
    TooManyRetries {
        /// The number of attempts.
        attempts: u32,
        /// The reason of the last abort.
        reason: &'static str,
    },
    /// The only node that knew the outcome restarted: the transaction committed or aborted.
    InDoubt,
}

impl CallError {
    /// Whether calling again may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(self, CallError::TooManyRetries { .. })
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallError::Failed(error) => write!(f, "{} (SQLSTATE {})", error.message, error.code),
            CallError::TooManyRetries { attempts, reason } => write!(
                f,
                "all {attempts} attempts were aborted, the last one by: {reason}; retry later, or \
                 with fewer concurrent clients"
            ),
            CallError::InDoubt => f.write_str(
                "the outcome is unknown, because the node that decides it restarted: the call \
                 committed or aborted; check before you retry",
            ),
        }
    }
}

impl std::error::Error for CallError {}
