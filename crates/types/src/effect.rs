//! Effects: the changes that a transaction makes at commit, on the partition that owns the data.
//!
//! Every UPDATE is sent as a *row program* with its arguments, and the owner evaluates it on the current row. A
//! program that reads the row is a deferred effect; one that assigns values computed earlier is a plain assignment.
//! The program alone makes the difference. So concurrent increments add up without a lock, and contended work runs
//! last, at its owner.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::{ColumnIndex, Key, ProgramId, Row, SlotId, TableId, Value};

/// One change to one row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Effect {
    /// A new row. If the primary key or a unique key exists, the transaction cannot commit.
    Insert {
        /// The table.
        table: TableId,
        /// The primary key, before `patches`.
        key: Key,
        /// The row, before `patches`.
        row: Row,
        /// Columns with values known only at commit (see [`crate::Value::Pending`]).
        patches: SmallVec<[Patch; 1]>,
    },
    /// A row program, run on the row with this key. A missing row is ignored, unless the program has outputs: then
    /// the transaction cannot commit.
    Update {
        /// The table.
        table: TableId,
        /// The primary key, which a program never changes (an UPDATE of key columns is a delete
        /// and an insert).
        key: Key,
        /// The program.
        program: ProgramId,
        /// The program's arguments.
        arguments: Box<[Value]>,
        /// Where the program's outputs go: the first to this slot, the next to the one after.
        /// `None` if no statement uses them.
        outputs: Option<SlotId>,
    },
    /// Removes the row with this key; a missing row is ignored.
    Delete {
        /// The table.
        table: TableId,
        /// The primary key.
        key: Key,
    },
}

impl Effect {
    /// The changed table.
    #[inline]
    pub fn table(&self) -> TableId {
        match self {
            Effect::Insert { table, .. }
            | Effect::Update { table, .. }
            | Effect::Delete { table, .. } => *table,
        }
    }

    /// The primary key of the changed row; not final for an insert with patches.
    #[inline]
    pub fn key(&self) -> &Key {
        match self {
            Effect::Insert { key, .. }
            | Effect::Update { key, .. }
            | Effect::Delete { key, .. } => key,
        }
    }
}

/// A column of an inserted row that gets its value at commit: the slot's integer plus `offset`. The row and the key
/// were encoded with 0 in its place; both are patched in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patch {
    /// The slot with the value.
    pub slot: SlotId,
    /// The number added to the value.
    pub offset: i64,
    /// The column of the row that gets it (an integer column).
    pub column: ColumnIndex,
}

/// A set of columns. Columns from 63 on share one bit: a set is exact for narrower tables and an over-approximation
/// for wider ones, which is safe for every use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnSet(pub u64);

impl ColumnSet {
    /// No column.
    pub const EMPTY: ColumnSet = ColumnSet(0);
    /// Every column.
    pub const ALL: ColumnSet = ColumnSet(u64::MAX);
    /// The most columns of a table for which a set is exact.
    pub const EXACT_MAX: u16 = 64;

    /// This set with one more column.
    #[must_use]
    pub fn with(self, column: ColumnIndex) -> ColumnSet {
        ColumnSet(self.0 | 1 << column.0.min(63))
    }

    /// Whether the column may be in the set.
    pub fn contains(self, column: ColumnIndex) -> bool {
        self.0 & (1 << column.0.min(63)) != 0
    }

    /// The columns in either.
    #[must_use]
    pub fn union(self, other: ColumnSet) -> ColumnSet {
        ColumnSet(self.0 | other.0)
    }

    /// Whether this set contains all columns of the other, for tables where sets are exact.
    pub fn covers(self, other: ColumnSet) -> bool {
        other.0 & !self.0 == 0
    }

    /// Whether the two may share a column.
    #[inline]
    pub fn intersects(self, other: ColumnSet) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether no column is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The result of a row program.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The new row.
    pub row: Row,
    /// The values of the program's RETURNING list, if it has one.
    pub outputs: SmallVec<[Value; 1]>,
}

/// Why an effect cannot be applied; the transaction aborts and its client gets this error. The `sql` crate creates
/// these errors; lower crates only pass them on. `code` is its SQLSTATE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectError {
    /// The SQLSTATE that PostgreSQL gives for it, such as `23514` for a CHECK.
    pub code: &'static str,
    /// The message, in PostgreSQL's wording where it has one.
    pub message: String,
    /// The violated constraint's name, if it has one.
    pub constraint: Option<String>,
    /// The other fields of PostgreSQL's errors. Boxed: most errors have none, and results stay small.
    pub fields: Option<Box<EffectErrorFields>>,
}

/// Fields of PostgreSQL's errors beside the message: explanations, and the names of what is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectErrorFields {
    /// What happened, with values: `Key (id)=(1) already exists.`
    pub detail: Option<String>,
    /// What to do.
    pub hint: Option<String>,
    /// The schema of the table.
    pub schema: Option<String>,
    /// The table.
    pub table: Option<String>,
    /// The column.
    pub column: Option<String>,
    /// The data type.
    pub data_type: Option<String>,
}

/// The schema of all tables.
const SCHEMA: &str = "public";

impl EffectError {
    /// An error with a SQLSTATE and a message, of no constraint.
    pub fn new(code: &'static str, message: impl Into<String>) -> EffectError {
        EffectError {
            code,
            message: message.into(),
            constraint: None,
            fields: None,
        }
    }

    /// The same error, of a constraint.
    #[must_use]
    pub fn of_constraint(mut self, name: impl Into<String>) -> EffectError {
        self.constraint = Some(name.into());
        self
    }

    /// The same error, of a table.
    #[must_use]
    pub fn of_table(mut self, name: impl Into<String>) -> EffectError {
        let fields = self.fields_mut();
        fields.schema = Some(SCHEMA.to_owned());
        fields.table = Some(name.into());
        self
    }

    /// The same error, of a column.
    #[must_use]
    pub fn of_column(mut self, name: impl Into<String>) -> EffectError {
        self.fields_mut().column = Some(name.into());
        self
    }

    /// The same error, with a detail.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> EffectError {
        self.fields_mut().detail = Some(detail.into());
        self
    }

    /// The same error, with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> EffectError {
        self.fields_mut().hint = Some(hint.into());
        self
    }

    /// The fields, to be set.
    pub fn fields_mut(&mut self) -> &mut EffectErrorFields {
        self.fields.get_or_insert_default()
    }

    /// The detail, if there is one.
    pub fn detail(&self) -> Option<&str> {
        self.fields.as_ref()?.detail.as_deref()
    }
}

/// How a program's writes merge with other transactions' writes, where copies of a row install them in different
/// orders and none may refuse (ramp.txt §3.1 leaves the merge function open; its default is last writer wins).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// The program only assigns, and the write with the highest position wins. Running it twice at one position has
    /// the same effect as running it once.
    LastWriter,
    /// The program also adds to columns, or sets them to the maximum or minimum of their value and another. Rows are
    /// equal after such programs in any order, if each has run once.
    Commuting,
}

/// The row programs of an application: `sql` compiles one or two for each UPDATE statement. They
/// are pure: the same row and arguments give the same result on every machine.
pub trait RowPrograms: Send + Sync {
    /// Runs a program on a row.
    ///
    /// `skip` are columns that a later transaction has assigned already. The program leaves them unchanged (last
    /// writer wins, for each column).
    ///
    /// # Errors
    /// If the new row violates a CHECK, NOT NULL or the domain of a type.
    fn apply(
        &self,
        program: ProgramId,
        row: &Row,
        arguments: &[Value],
        skip: ColumnSet,
    ) -> Result<Applied, EffectError>;

    /// The columns that the program assigns without reading their old value: registers, for which the highest
    /// timestamp wins. It computes the others from the row, in commit order.
    fn assigned(&self, program: ProgramId) -> ColumnSet;

    /// All columns that the program may change. It may name too many.
    fn changed(&self, _program: ProgramId) -> ColumnSet {
        ColumnSet::ALL
    }

    /// The columns that the program assigns, if it does nothing else: it computes no column from the row and returns
    /// nothing. Earlier writers of only these columns leave no trace in the row.
    fn replaces(&self, program: ProgramId) -> Option<ColumnSet>;

    /// Whether the program can violate a declared constraint, depending on the row. A transaction over several
    /// partitions must then hold a write intent on the row between prepare and commit.
    fn may_violate(&self, program: ProgramId) -> bool;

    /// How the program merges with every other program of the application, on any row. `None` if the order matters,
    /// if a CHECK or a unique index depends on its writes, or if it returns something. A program with a merge fails
    /// by its arguments or not at all (except for a row that becomes too long, and for a sum out of range).
    fn merging(&self, program: ProgramId) -> Option<Merging>;

    /// Whether these programs can run on a row in any order, each at most once, without failure: the condition for
    /// preparing transactions concurrently. Each runs on the row as it is. `false` if that is not known.
    ///
    /// None of them [may violate](RowPrograms::may_violate) a constraint.
    fn are_compatible(&self, row: &Row, programs: &[(ProgramId, &[Value])]) -> bool;
}
