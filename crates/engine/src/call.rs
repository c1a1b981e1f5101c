//! What a client asks of a node, and what it gets.

use std::sync::Arc;

use anabranch_protocol::Session;
use anabranch_sql::application::{CompiledStatement, ResultSet};
use anabranch_types::{EffectError, Value};

/// Names a call among those of the client that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// One invocation of a procedure, or one statement.
#[derive(Clone, Debug)]
pub struct Call {
    /// Chosen by the client; comes back with the [`Outcome`].
    pub id: CallId,
    /// What is to be done.
    pub work: Work,
    /// Its input arguments, in order, already of the declared types.
    pub arguments: Arc<[Value]>,
    /// What its client has seen: the session of its last call that has committed. Empty for one that has
    /// seen nothing, and wherever the protocol gives out none.
    pub session: Session,
}

/// What a [`Call`] asks for.
#[derive(Clone, Debug)]
pub enum Work {
    /// The procedure at this place of the application's list.
    Procedure(usize),
    /// A statement that belongs to no procedure, compiled for this application. It has no entry in
    /// the plan: it takes no guard and defers nothing.
    Statement(Arc<CompiledStatement>),
}

/// What became of a [`Call`].
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which call.
    pub id: CallId,
    /// The procedure's result, once committed.
    pub result: Result<ResultSet, CallError>,
    /// Attempts that were aborted and retried, counted by reason.
    pub retries: Retries,
    /// What its client has seen with it, once committed: to be brought along by the next call. Empty if it
    /// was not committed: then the client has seen what it had.
    pub session: Session,
}

/// Attempts of one call that were aborted through nobody's fault, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retries {
    /// A guard or lock was held by another transaction.
    pub conflict: u32,
    /// The view could not be extended atomically.
    pub fractured: u32,
    /// Versions that it needed were collected.
    pub below_floor: u32,
    /// A deferred effect with outputs found no row.
    pub row_missing: u32,
    /// A node that it needed came back without what it had not made durable.
    pub restarted: u32,
}

impl Retries {
    /// All of them.
    pub fn total(&self) -> u32 {
        self.conflict + self.fractured + self.below_floor + self.row_missing + self.restarted
    }
}

/// Why a call did not commit. It left no trace, unless it is in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// The transaction itself failed: a constraint, an exception raised by the procedure.
    Failed(EffectError),
    /// It was retried as often as the settings allow. Trying again later may succeed.
    TooManyRetries {
        /// How often it was tried.
        attempts: u32,
        /// The last attempt's reason.
        reason: &'static str,
    },
    /// The one node that was to commit it was restarted meanwhile: it may have committed, or not.
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
                "gave up after {attempts} attempts, the last one ended by: {reason}; try again, \
                 or with fewer clients at once"
            ),
            CallError::InDoubt => f.write_str(
                "the node that was to commit it was restarted: it may have committed, or not; \
                 look before trying again",
            ),
        }
    }
}

impl std::error::Error for CallError {}
