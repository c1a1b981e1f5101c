//! Calls of clients, and their outcomes.

use std::sync::Arc;

use anabranch_protocol::{AbortReason, Session};
use anabranch_sql::application::{CompiledStatement, ResultSet};
use anabranch_sql::sequence::SessionSequences;
use anabranch_types::{EffectError, Ticks, TimeZone, Value};

use crate::admission::Shortage;
use crate::belt::BeltWork;
use crate::step::Step;
use crate::undeclared::StatementEntry;

/// Identifies a call among those of its client. Where calls are to be cancelled, no two open calls at a node
/// have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// One invocation of a procedure, or one statement. Made by [`Call::new`] and the methods that follow it.
#[derive(Clone, Debug)]
#[non_exhaustive]
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
    /// The value of `now()` in microseconds since 2000-01-01 00:00:00 UTC, if the client has fixed it: so an
    /// argument that was computed from `now()` equals the procedure's own. `None`: the time of the first
    /// attempt. Retries keep it either way.
    pub timestamp: Option<i64>,
    /// The time zone of the client's session.
    pub time_zone: TimeZone,
    /// The longest wait for one answer of the protocol, which is mostly a wait for a lock. A call that waits longer
    /// ends with [`CallError::LockTimeout`].
    pub lock_timeout: Option<Ticks>,
    /// What the client's connection has drawn from sequences, for `currval` and `lastval`. `None`: nothing, and nothing is
    /// noted.
    pub sequences: Option<Arc<SessionSequences>>,
    /// Whether it is a global operation under the Conveyor Belt: each of its attempts waits for the token.
    pub is_global: bool,
}

impl Call {
    /// A call in an empty session and in UTC, whose `now()` is the time of its first attempt.
    pub fn new(id: CallId, work: Work, arguments: impl Into<Arc<[Value]>>) -> Call {
        Call {
            id,
            work,
            arguments: arguments.into(),
            session: Session::default(),
            timestamp: None,
            time_zone: TimeZone::UTC,
            lock_timeout: None,
            sequences: None,
            is_global: false,
        }
    }

    /// The same call in this session.
    #[must_use]
    pub fn with_session(self, session: Session) -> Call {
        Call { session, ..self }
    }

    /// The same call with this value of `now()`, in microseconds since 2000-01-01 00:00:00 UTC.
    #[must_use]
    pub fn with_timestamp(self, micros: i64) -> Call {
        Call {
            timestamp: Some(micros),
            ..self
        }
    }

    /// The same call in a session with this time zone.
    #[must_use]
    pub fn with_time_zone(self, time_zone: TimeZone) -> Call {
        Call { time_zone, ..self }
    }

    /// The same call of a connection that has drawn this from sequences.
    #[must_use]
    pub fn with_sequences(self, sequences: Arc<SessionSequences>) -> Call {
        Call {
            sequences: Some(sequences),
            ..self
        }
    }

    /// The same call as a global operation, or not ([`anabranch_analysis::partition::OperationRouter`]).
    #[must_use]
    pub fn with_global(self, is_global: bool) -> Call {
        Call { is_global, ..self }
    }

    /// The same call, which waits no longer than this for a lock.
    #[must_use]
    pub fn with_lock_timeout(self, lock_timeout: Option<Ticks>) -> Call {
        Call {
            lock_timeout,
            ..self
        }
    }
}

/// The work of a [`Call`].
#[derive(Clone, Debug)]
pub enum Work {
    /// The procedure with this index in the application's list.
    Procedure(usize),
    /// A statement outside any procedure, compiled for this application. It defers nothing.
    Statement {
        /// The statement.
        statement: Arc<CompiledStatement>,
        /// Its plan entry ([`crate::undeclared::UndeclaredTypes::admit`]), which says what it guards and which
        /// assertions are evaluated before it commits. Without one it takes no guard, and every assertion on a
        /// table that it writes is evaluated: enough where every access takes a lock, and for one that only reads.
        entry: Option<Arc<StatementEntry>>,
    },
    /// A step of a client's own transaction.
    Step(Step),
    /// A transaction of the Conveyor Belt, which all others give way to; its result is read by
    /// [`BeltAnswer::of`](crate::BeltAnswer::of).
    Belt(Arc<BeltWork>),
}

impl Work {
    /// A statement without a plan entry.
    pub fn statement(statement: Arc<CompiledStatement>) -> Work {
        Work::Statement {
            statement,
            entry: None,
        }
    }
}

/// The outcome of a [`Call`].
#[derive(Clone, Debug)]
#[non_exhaustive]
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
    /// What it took.
    pub cost: Cost,
    /// Whether it answers a step of a block that is not committed by it: what it says holds once COMMIT is answered.
    /// So it leaves without waiting for the log.
    pub provisional: bool,
}

impl Outcome {
    /// An outcome without retries, in an empty session, that took nothing.
    pub fn new(id: CallId, result: Result<ResultSet, CallError>) -> Outcome {
        Outcome {
            id,
            result,
            retries: Retries::default(),
            session: Session::default(),
            cost: Cost::default(),
            provisional: false,
        }
    }
}

/// What a call took: the work of its last attempt, and the time of all. For `EXPLAIN ANALYZE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The number of attempts, the last one included. 0 if the call never ran.
    pub attempts: u32,
    /// The time between the begin of the first attempt and the outcome.
    pub elapsed: Ticks,
    /// The part of it that passed in pauses between attempts.
    pub backoff: Ticks,
    /// The batches of reads that the procedure waited for.
    pub read_rounds: u32,
    /// The points and ranges read. A range counts once for each partition.
    pub items_read: u32,
    /// The rows that these reads returned, before the transaction's own writes.
    pub rows_read: u64,
    /// The rows inserted, updated or deleted. A row that is written twice counts twice.
    pub effects: u32,
    /// The partitions on which these rows are.
    pub partitions_written: u16,
    /// The messages to other nodes that left with its requests. What a protocol sends later for the same
    /// transaction (further rounds of a read, decisions, acknowledgements) is not included.
    pub messages: u32,
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

    /// Counts an attempt that was aborted for this reason.
    pub(crate) fn add(&mut self, reason: &AbortReason) {
        match reason {
            AbortReason::Restarted => self.restarted += 1,
            AbortReason::Fractured => self.fractured += 1,
            AbortReason::BelowFloor => self.below_floor += 1,
            AbortReason::RowMissing => self.row_missing += 1,
            _ => self.conflict += 1,
        }
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
    /// The call was cancelled before it committed ([`crate::NodeInput::Cancel`]).
    Cancelled,
    /// It waited for a lock for longer than [`Call::lock_timeout`].
    LockTimeout,
    /// The result has more bytes than [`crate::TransactionLimits::result_bytes_max`].
    ResultTooLarge {
        /// The limit.
        bytes_max: u64,
    },
    /// The transaction writes, and its node lacks room for that ([`crate::Admission`]).
    Shortage(Shortage),
}

impl CallError {
    /// Whether calling again may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(self, CallError::TooManyRetries { .. })
    }

    /// Its SQLSTATE.
    pub fn code(&self) -> &'static str {
        match self {
            CallError::Failed(error) => error.code,
            CallError::TooManyRetries { .. } => "40001",
            CallError::InDoubt => "08007",
            CallError::Cancelled => "57014",
            CallError::LockTimeout => "55P03",
            CallError::ResultTooLarge { .. } => "54000",
            CallError::Shortage(Shortage::Disk) => "53100",
            CallError::Shortage(Shortage::Memory) => "53200",
        }
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
            CallError::Cancelled => f.write_str("canceling statement due to user request"),
            CallError::LockTimeout => f.write_str("canceling statement due to lock timeout"),
            CallError::ResultTooLarge { bytes_max } => write!(
                f,
                "the result has more than {bytes_max} bytes (the limit result_bytes_max): ask for \
                 fewer rows or columns, or raise the limit"
            ),
            CallError::Shortage(Shortage::Disk) => f.write_str(
                "the disk of the data folder is full: free some of it, or delete rows and wait for the next \
                 checkpoint; reads go on, and writes do as soon as there is room",
            ),
            CallError::Shortage(Shortage::Memory) => f.write_str(
                "the server has reached its limit of memory (memory_max): delete rows, or start it with more; \
                 reads go on, and writes do as soon as there is room",
            ),
        }
    }
}

impl std::error::Error for CallError {}
