//! Effects: what a transaction does to the data when it commits, on the partition that owns it.
//!
//! Every UPDATE is shipped as a *row program* and its arguments, and evaluated by the owner on the
//! row as it then is. Whether that happens "late" (a deferred effect: the program reads the row) or
//! is a plain assignment of values computed earlier is the program's business alone. So increments
//! by concurrent transactions add up without a lock, and what is contended runs last, at its owner.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::{ColumnIndex, Key, ProgramId, Row, SlotId, TableId, Value};

/// One change to one row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Effect {
    /// A new row. If the key (or a unique index's key) is taken, the transaction cannot commit.
    Insert {
        /// The table.
        table: TableId,
        /// The primary key, before `patches`.
        key: Key,
        /// The row, before `patches`.
        row: Row,
        /// Columns that hold a value known only at commit (see [`crate::Value::Pending`]).
        patches: SmallVec<[Patch; 1]>,
    },
    /// A row program run on the row with this key. Nothing happens where there is no such row,
    /// unless the program has outputs: then the transaction cannot commit.
    Update {
        /// The table.
        table: TableId,
        /// The primary key, which a program never changes (an UPDATE of key columns is a delete
        /// and an insert).
        key: Key,
        /// What to compute.
        program: ProgramId,
        /// The program's arguments.
        arguments: Box<[Value]>,
        /// Where the program's outputs go: the first to this slot, the next to the one after.
        /// `None` when nobody asks for them.
        outputs: Option<SlotId>,
    },
    /// The row with this key goes; nothing happens where there is none.
    Delete {
        /// The table.
        table: TableId,
        /// The primary key.
        key: Key,
    },
}

impl Effect {
    /// The table that is changed.
    #[inline]
    pub fn table(&self) -> TableId {
        match self {
            Effect::Insert { table, .. }
            | Effect::Update { table, .. }
            | Effect::Delete { table, .. } => *table,
        }
    }

    /// The primary key of the row that is changed; not final for an insert with patches.
    #[inline]
    pub fn key(&self) -> &Key {
        match self {
            Effect::Insert { key, .. }
            | Effect::Update { key, .. }
            | Effect::Delete { key, .. } => key,
        }
    }
}

/// A column of an inserted row whose value a slot holds at commit: the slot's integer plus
/// `offset`. The row and the key were encoded with 0 in its place; both are patched in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patch {
    /// Where the value is found.
    pub slot: SlotId,
    /// Added to it.
    pub offset: i64,
    /// The column of the row that gets it (an integer column).
    pub column: ColumnIndex,
}

/// A set of columns. Columns from 63 on share one bit: a set is exact for narrower tables and an
/// over-approximation for wider ones, which every user of it must be content with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnSet(pub u64);

impl ColumnSet {
    /// No column.
    pub const EMPTY: ColumnSet = ColumnSet(0);
    /// Every column.
    pub const ALL: ColumnSet = ColumnSet(u64::MAX);
    /// Of tables with at most so many columns a set is exact.
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

    /// Whether all columns of the other one are in this one, of tables where sets are exact.
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

/// What a row program made of a row.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The new row.
    pub row: Row,
    /// The values of the program's RETURNING list, if it has one.
    pub outputs: SmallVec<[Value; 1]>,
}

/// Why an effect cannot be applied: the transaction must abort, and this is what its user is told.
/// The `sql` crate makes these; lower rooms only carry them. `code` is its SQLSTATE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectError {
    /// The SQLSTATE that PostgreSQL gives for it, such as `23514` for a CHECK.
    pub code: &'static str,
    /// What happened, in PostgreSQL's words where it has some.
    pub message: String,
    /// The violated constraint's name, if it has one.
    pub constraint: Option<String>,
}

/// How what a program writes comes together with what other transactions write, where copies of a row
/// install them in different orders and none of them may refuse (ramp.txt §3.1 leaves the merge function
/// open; last writer wins is its default).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// It only assigns, and whoever has the highest place stands. Run twice at one place it does what it
    /// does when it is run once.
    LastWriter,
    /// It also adds to columns, or takes them to the greatest or the least of what they were and a value.
    /// Rows are the same in whatever order such programs have run, if each has run once.
    Commuting,
}

/// The row programs of an application: `sql` compiles one or two for each UPDATE statement. They
/// are pure: the same row and arguments give the same result on every machine.
pub trait RowPrograms: Send + Sync {
    /// Runs a program on a row.
    ///
    /// `skip` are columns that a later transaction has assigned already: the program leaves them
    /// as they are (last writer wins, for each column).
    ///
    /// # Errors
    /// When the new row would violate a CHECK, NOT NULL or the domain of a type.
    fn apply(
        &self,
        program: ProgramId,
        row: &Row,
        arguments: &[Value],
        skip: ColumnSet,
    ) -> Result<Applied, EffectError>;

    /// The columns that the program assigns without reading their old value (registers, for which
    /// the highest timestamp wins). The others it computes from the row, in the order of commits.
    fn assigned(&self, program: ProgramId) -> ColumnSet;

    /// The columns that the program assigns, if it does nothing else: it computes no column from the row, and
    /// returns nothing. Whoever had assigned some of these alone before has left no trace in the row.
    fn replaces(&self, program: ProgramId) -> Option<ColumnSet>;

    /// Whether the program can break a declared constraint depending on the row it meets, so that
    /// a transaction over several partitions must hold the row between prepare and commit.
    fn may_violate(&self, program: ProgramId) -> bool;

    /// How the program merges with every other one of the application, whatever row it meets: `None` if the
    /// order matters, if a CHECK or a unique index looks at what it writes, or if it returns something. It
    /// is refused for its arguments, or not at all (but for a row that would become too long, and for a sum
    /// that leaves its type's range).
    fn merging(&self, program: ProgramId) -> Option<Merging>;

    /// Whether these programs can run on a row in any order, each at most once, without one that
    /// fails: what transactions that are prepared side by side promise each other. Each of them
    /// runs on the row as it is. `false` too where it cannot be told.
    ///
    /// None of them [may violate](RowPrograms::may_violate) a constraint.
    fn fit_together(&self, row: &Row, programs: &[(ProgramId, &[Value])]) -> bool;
}
