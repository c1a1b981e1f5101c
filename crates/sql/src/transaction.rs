//! The interface between compiled statements and the system that runs them.
//!
//! A compiled statement runs over a [`Transaction`] and depends on nothing behind it: one store in a test, a protocol
//! among many nodes in a cluster, the simulator. Reads are awaited, so that a procedure is an ordinary `async fn` that
//! the engine polls without a runtime. Writes are effects, collected until commit; later reads of the same transaction
//! see them.

use std::{future::Future, rc::Rc};

use anabranch_types::{
    ColumnIndex, Effect, EffectError, Fetched, Key, LockPolicy, Patch, Read, SlotId, TableId,
    TimeZone, Value,
};

use crate::{deferred::DeferredChecks, sequence::ResolvedSequence, summary::StatementId};

/// Why a transaction cannot go on. The engine ends it, and reports this to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransactionError {
    /// A constraint, a division by zero, a RAISE EXCEPTION: running it again changes nothing.
    Failed(EffectError),
    /// The protocol gave it up in favour of another, or its reads were overtaken: run it again.
    Retry(&'static str),
}

/// Sequences as a transaction uses them. As in PostgreSQL, a number that was given out is not given out again, also if
/// the transaction that asked for it aborts; and what `setval` has set stays.
pub trait Sequences: std::fmt::Debug {
    /// The next number of a sequence; `None` behind its last one.
    fn next(&self, sequence: &ResolvedSequence) -> Option<i64>;

    /// The last number of a sequence in this connection, if it has drawn or set one: `currval`.
    fn current(&self, _: &ResolvedSequence) -> Option<i64> {
        None
    }

    /// The last number of the sequence from which this connection has drawn last: `lastval`.
    fn last(&self) -> Option<i64> {
        None
    }

    /// Sets a sequence: the next number follows `number`, or is `number` itself unless it counts as given.
    ///
    /// # Errors
    /// Why it stays as it is.
    fn set(&self, _: &ResolvedSequence, _: i64, _: bool) -> Result<(), SequenceError> {
        Err(SequenceError::Unsupported)
    }

    /// The last number that was given or set, whatever connection did it, and whether it counts as given.
    fn state(&self, sequence: &ResolvedSequence) -> (i64, bool) {
        (sequence.options.start, false)
    }
}

/// Why a sequence is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SequenceError {
    /// Nodes count without knowing of each other.
    Unsupported,
    /// Numbers would come again, and the plan relies on that they do not.
    Backward,
}

/// No sequence gives anything: for what only reads.
#[derive(Clone, Copy, Debug)]
pub struct NoSequences;

impl Sequences for NoSequences {
    fn next(&self, _: &ResolvedSequence) -> Option<i64> {
        None
    }
}

/// The default of [`Transaction::statement_bytes_max`]: 256 MiB.
pub const STATEMENT_BYTES_MAX: u64 = 256 << 20;

/// The interface that a compiled statement runs over.
pub trait Transaction {
    /// Reads all of `reads` in this transaction's view, including its own writes. `for_write` marks rows that the
    /// statement may write. The results are in the order of `reads`.
    fn read(
        &mut self,
        statement: StatementId,
        for_write: bool,
        reads: Vec<Read>,
    ) -> impl Future<Output = Result<Vec<Fetched>, TransactionError>>;

    /// Whether the rows that this transaction reads for a write are locked, so that NOWAIT and SKIP LOCKED matter.
    fn locks_rows(&self) -> bool {
        false
    }

    /// Reads as [`Transaction::read`] does, with another policy about locks. Called only where
    /// [`Transaction::locks_rows`].
    fn read_with_policy(
        &mut self,
        statement: StatementId,
        for_write: bool,
        reads: Vec<Read>,
        _policy: LockPolicy,
    ) -> impl Future<Output = Result<Vec<Fetched>, TransactionError>> {
        self.read(statement, for_write, reads)
    }

    /// The column whose value determines where a row of the table is, if the row's key does not.
    fn placed_by(&self, _table: TableId) -> Option<ColumnIndex> {
        None
    }

    /// The same for reads of one table, of which only the rows are wanted in which the column that [places
    /// them](Transaction::placed_by) has the value that is encoded in `placing`. Other rows may be missing in the results.
    fn read_placed(
        &mut self,
        statement: StatementId,
        for_write: bool,
        reads: Vec<Read>,
        _placing: Key,
    ) -> impl Future<Output = Result<Vec<Fetched>, TransactionError>> {
        self.read(statement, for_write, reads)
    }

    /// Adds an effect, to be applied when the transaction commits.
    ///
    /// # Errors
    /// If the effect is already known to fail (a duplicate among the transaction's own).
    fn write(&mut self, statement: StatementId, effect: Effect) -> Result<(), TransactionError>;

    /// Whether the plan has this statement's UPDATE evaluated by the owner at commit, without a read before. Called
    /// only for statements that can be deferred (see [`crate::summary::StatementSummary::deferral`]).
    fn defers(&self, statement: StatementId) -> bool;

    /// Whether an UPDATE that is not deferred, and has read its rows, still writes the program that computes the new
    /// values from the row, instead of the values: where copies of a row merge the effects of concurrent transactions, an
    /// assignment of the values would discard those of the others.
    fn writes_programs(&self) -> bool {
        false
    }

    /// Whether the row with this key is known to exist without a read: the transaction has inserted
    /// it, or has read it and no transaction type of the application deletes from that table. A
    /// foreign key that points to it needs no look-up.
    ///
    /// `pending` are the columns of the key with values that are known only at commit (the key was
    /// encoded with 0 in their place): such a row is known only if this transaction inserts it with
    /// the same pending values.
    fn is_known(&mut self, table: TableId, key: &Key, pending: &[Patch]) -> bool;

    /// A slot for a value that a deferred effect will produce, new in this transaction; the next
    /// `count - 1` slots are the caller's too.
    fn slots(&mut self, count: u16) -> SlotId;

    /// A number that no other call in any transaction of the cluster gets: hidden keys,
    /// `gen_random_uuid()`. The high 64 bits are unique to the transaction.
    fn unique(&mut self) -> u128;

    /// The sequences of identity and serial columns.
    fn sequences(&self) -> Rc<dyn Sequences>;

    /// The value of `now()` and `CURRENT_TIMESTAMP` in this transaction: microseconds since
    /// 2000-01-01 00:00:00 UTC, fixed at its start.
    fn timestamp(&self) -> i64;

    /// Lets other work have its turn. A statement or procedure that computes for long calls this each time it has
    /// done a bounded amount of work. Ready at once by default.
    ///
    /// # Errors
    /// If the transaction cannot go on.
    fn pause(&mut self) -> impl Future<Output = Result<(), TransactionError>> {
        std::future::ready(Ok(()))
    }

    /// The most bytes of tuples, values and groups that a statement may hold at once. A statement beyond it fails
    /// with SQLSTATE `53200`.
    fn statement_bytes_max(&self) -> u64 {
        STATEMENT_BYTES_MAX
    }

    /// The checks of foreign keys that wait for the end of the transaction. They are run before it
    /// commits, by [`crate::Application::check_deferred`]. Without one, every foreign key is checked at its statement.
    fn deferred_checks(&mut self) -> Option<&mut DeferredChecks> {
        None
    }

    /// Notes the result of a statement of a procedure: its rows, and the number of rows that it returned, inserted,
    /// updated or deleted. Kept by what compares results of runs; ignored by default.
    fn note_result(&mut self, _: StatementId, _rows: &[Vec<Value>], _count: u64) {}

    /// The time zone of the session that runs this transaction.
    fn time_zone(&self) -> TimeZone {
        TimeZone::UTC
    }
}
