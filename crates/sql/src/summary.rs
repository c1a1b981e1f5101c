//! Summaries: what each statement of a procedure reads, writes and depends on. The analyser needs nothing else of SQL
//! after binding. Branches and loops are not followed: every statement that could run counts
//! (operation-partitioning.txt §3.1).

use anabranch_types::{ColumnIndex, DataType, TableId, Value};

use crate::source::Span;

/// One SQL statement of the application, numbered densely over all procedures in order of
/// declaration. The plan, the transaction and the compiled code name statements by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatementId(pub u32);

/// A transaction type: one procedure.
#[derive(Clone, Debug)]
pub struct TransactionSummary {
    /// The procedure's name.
    pub name: String,
    /// The place of its declaration.
    pub span: Span,
    /// Its input parameters.
    pub parameters: Vec<(String, DataType)>,
    /// Every SQL statement in it, of every branch.
    pub statements: Vec<StatementSummary>,
    /// Whether it may commit before its last statement: a RETURN, EXIT or CONTINUE
    /// before that, or a call of another procedure, which may have one.
    pub may_end_early: bool,
    /// Assertions that its author declares as kept when it runs alone (`-- anabranch: keeps NAME`).
    pub keeps: Vec<String>,
    /// Why it was not analysed, or not completely; then this summary is the most that it may do.
    pub unknown: Option<String>,
    /// Whether it may do anything to every table, since it was not analysed: more than in `statements`
    /// ([`crate::script::anything`] is such a statement).
    pub may_change_any_table: bool,
    /// Whether it is known to write to no table, even if it was not analysed.
    pub only_reads: bool,
}

/// One SQL statement.
#[derive(Clone, Debug)]
pub struct StatementSummary {
    /// Its number.
    pub id: StatementId,
    /// Its place.
    pub span: Span,
    /// Whether it stands in a loop, and so may run more than once a call.
    pub in_loop: bool,
    /// The enclosing branches and loop bodies, outermost first, each with a number of its own. If a statement runs, so
    /// do the earlier statements with a path that is a prefix of its own.
    pub path: Vec<u32>,
    /// Whether it is an INSERT that may skip rows (`ON CONFLICT`).
    pub may_skip_rows: bool,
    /// Whether it is an INSERT that puts exactly one row there, or fails, whenever it runs.
    pub inserts_one: bool,
    /// Whether it is a query that finds no row in each call that writes anything: a call in which it finds one fails, or
    /// returns before its first write.
    pub finds_none: bool,
    /// Every table it touches, once for each mention (a table joined with itself counts twice; a
    /// subquery's and a view's tables are included; foreign keys and cascades are not: the
    /// analyser adds them from the catalog).
    pub accesses: Vec<TableAccess>,
    /// How the statement's result is used by the rest of the procedure.
    pub result: ResultUse,
    /// Whether, and how, the owner of the row can evaluate it at commit.
    pub deferral: Deferral,
    /// Whether it is an UPDATE of rows by their full primary key, whose new values a program can compute from the row
    /// and from values known before the statement runs.
    pub has_program: bool,
    /// Whether that program may fail, or give a value that does not fit its column, on a row that others have changed. A
    /// number beyond its domain, and a violated CHECK, do not count.
    pub may_fail: bool,
}

/// Whether the owner of its row can evaluate an UPDATE at commit.
///
/// It can when the UPDATE is of one row by its full primary key (or of one row for each tuple of
/// pure sources: parameters, `unnest` of parameters, constants), when its new values depend on the
/// row itself and on values known before the statement runs, and when nothing reads the table
/// afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deferral {
    /// It cannot, or it is no UPDATE.
    #[default]
    None,
    /// It can, and the row need not be read: its result is unused, or used only as
    /// [`ResultUse::Carried`].
    Unread,
    /// It can, once the row has been read: what is used of its result depends on columns alone that
    /// it leaves as they are ([`TableAccess::columns_returned`]), and on whether the row is there.
    AfterReading,
}

/// How a statement's result is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultUse {
    /// Nothing of it is used (no INTO, no RETURNING, no FOUND, no row count).
    Unused,
    /// It is only copied, or shifted by constants, into rows that the same procedure inserts and
    /// into the procedure's output: nothing is computed from it or decided by it.
    Carried,
    /// Something is computed from it or decided by it.
    Used,
}

/// One table of a statement.
#[derive(Clone, Debug)]
pub struct TableAccess {
    /// The table.
    pub table: TableId,
    /// The operation on it.
    pub role: Role,
    /// Columns that are read: returned, compared, joined on, aggregated, or used in a new value.
    /// For an UPDATE, columns used only in their own deferrable new value count too.
    pub columns_read: Vec<ColumnIndex>,
    /// For an UPDATE, the columns that its RETURNING depends on, with their new values if it writes
    /// them.
    pub columns_returned: Vec<ColumnIndex>,
    /// Columns that are written, and how. For an INSERT all of them, for a DELETE none.
    pub writes: Vec<ColumnWrite>,
    /// Conjuncts `column op term` that every row touched satisfies.
    pub conditions: Vec<Condition>,
    /// Whether the WHERE clause has more than `conditions`.
    pub has_other_conditions: bool,
    /// Further conjuncts `column = ANY (parameter)`: the column, and the array parameter's index. They determine where
    /// rows are found, but are not among `conditions`, since elements of two lists do not correspond as those of one
    /// `unnest` do ([`Term::Element`]).
    pub listed: Vec<(ColumnIndex, usize)>,
    /// Whether it is an INSERT that draws the key of each row from the sequence of the key column (serial, identity), and
    /// the primary key is that column alone.
    pub draws_key: bool,
    /// The place of the table's name in the statement.
    pub span: Span,
}

/// The operation of a statement on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Rows are read.
    Read,
    /// Rows are inserted.
    Insert,
    /// Rows are updated in place.
    Update,
    /// Rows are deleted.
    Delete,
}

/// `column op term`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The column.
    pub column: ColumnIndex,
    /// The comparison.
    pub comparison: Comparison,
    /// The other operand.
    pub term: Term,
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `IS NULL`; the term is NULL
    IsNull,
    /// `IS NOT NULL`; the term is NULL
    IsNotNull,
}

/// The origin of a value, as far as it can be determined without running anything.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// A constant.
    Constant(Value),
    /// The procedure's input parameter with this index, never assigned in the body.
    Parameter(usize),
    /// An element of the array parameter with this index. Elements of the same tuple of one
    /// `unnest` go together.
    Element(usize),
    /// The column of a row that an earlier statement, or this one, reads.
    Column {
        /// The statement that reads it.
        statement: StatementId,
        /// Its index among [`StatementSummary::accesses`].
        access: usize,
        /// The column.
        column: ColumnIndex,
    },
    /// A column that an UPDATE of this procedure increments and returns: `RETURNING n - 1` after
    /// `SET n = n + 1`.
    Incremented {
        /// The UPDATE.
        statement: StatementId,
        /// The incremented column.
        column: ColumnIndex,
        /// Added to the column's new value.
        offset: i64,
    },
    /// An aggregate over rows that a statement reads: `max(id)`, `count(*)`; `offset` is added.
    Aggregate {
        /// The function's name in lower case.
        function: String,
        /// The statement that computes it.
        statement: StatementId,
        /// The access that it aggregates, if that is one.
        access: Option<usize>,
        /// The column it aggregates; `None` for `count(*)`.
        column: Option<ColumnIndex>,
        /// Added to it.
        offset: i64,
    },
    /// A value that is unique by construction: `gen_random_uuid()`, identity, serial.
    Generated,
    /// `now()` and its kin.
    Now,
    /// Minus the procedure's input parameter with this index.
    Negated(usize),
    /// Computed from parameters and constants alone, in some way.
    Pure,
    /// Computed from data that was read, or opaque.
    Unknown,
}

/// How a column is written.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnWrite {
    /// The column.
    pub column: ColumnIndex,
    /// How.
    pub class: WriteClass,
    /// If the new value is computed from the row ([`WriteClass::FromRow`]): the columns that decide whether it is NULL.
    pub null_by: Vec<ColumnIndex>,
    /// If the column is incremented ([`WriteClass::Add`]): the values of which one is NULL if the amount is. `None` if
    /// that is not known: then the amount may be NULL.
    pub amount_null_by: Option<Vec<Term>>,
}

/// The kinds of write that confluence distinguishes (coordination-avoidance.txt §5).
#[derive(Clone, Debug, PartialEq)]
pub enum WriteClass {
    /// Set to a value that does not depend on the row's own columns.
    Assign(Term),
    /// `c = c + term` (or `c - term`: then `negated`).
    Add {
        /// The increment.
        term: Term,
        /// Subtracted rather than added.
        negated: bool,
    },
    /// A function of the row's own columns and of values known before the statement.
    FromRow,
    /// A function of the row and of other data read by the same statement or earlier ones.
    FromData,
}
