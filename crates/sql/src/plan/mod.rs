//! Plans: how a statement is executed, step by step.
//!
//! A query is a pipeline. It begins with one tuple (or one for each tuple of the enclosing query), and each step
//! widens, filters or groups all tuples at once. A step that reads a table first computes the keys of all tuples, and
//! then issues one batch of reads: all reads that a statement can know at once go out at once.

pub(crate) mod access;
pub(crate) mod integers;
pub(crate) mod join;
pub(crate) mod rows;
pub(crate) mod statement;
pub(crate) mod walk;
pub(crate) mod window;

use std::{ops::Range, sync::Arc};

use anabranch_types::{ColumnIndex, DataType, EnumType, IndexId, ProgramId, TableSchema, Value};

use crate::{
    bind::{aggregate::Aggregate, term::RawTerm},
    expression::{Expression, Relation, integer::Integer},
};

/// A result column: its name and type.
pub(crate) type OutputColumn = (String, DataType);

/// A query with the common table expressions that it declares.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    /// Common table expressions to evaluate first, by number.
    pub(crate) ctes: Vec<(usize, Query)>,
    pub(crate) body: Body,
    pub(crate) columns: Vec<OutputColumn>,
    /// Whether it refers to the enclosing query.
    pub(crate) correlated: bool,
    /// The origin of each column, for the analyser.
    pub(crate) terms: Vec<RawTerm>,
}

impl Query {
    /// Whether rows of its own, or of an arm of it, are left out because others have locked them.
    pub(crate) fn skips_locked(&self) -> bool {
        match &self.body {
            Body::Select(select) => select.skipping().is_some(),
            Body::SetOperation(of) => of.left.skips_locked() || of.right.skips_locked(),
            Body::Recursive(_) => false,
        }
    }

    /// A query with the same columns that gives no rows.
    pub(crate) fn without_rows(&self) -> Query {
        let select = Select {
            stride: 1,
            steps: vec![Step::Filter(vec![Expression::Constant(Value::Bool(false))])],
            projection: self.columns.iter().map(|_| Expression::NULL).collect(),
            finish: Finish {
                visible: self.columns.len(),
                ..Finish::default()
            },
            uniques: 0,
        };
        Query {
            ctes: Vec::new(),
            body: Body::Select(Box::new(select)),
            columns: self.columns.clone(),
            correlated: false,
            terms: self.terms.clone(),
        }
    }

    /// Its distinct rows.
    pub(crate) fn distinct(self) -> Query {
        let visible = self.columns.len();
        Query {
            ctes: Vec::new(),
            columns: self.columns.clone(),
            correlated: self.correlated,
            terms: self.terms.clone(),
            body: Body::SetOperation(Box::new(SetOperation {
                operator: SetOperator::Union,
                all: false,
                right: self.without_rows(),
                left: self,
                finish: Finish {
                    visible,
                    ..Finish::default()
                },
            })),
        }
    }
}

/// The body of a query.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Select(Box<Select>),
    SetOperation(Box<SetOperation>),
    Recursive(Box<Recursive>),
}

/// A query of WITH RECURSIVE that reads its own rows.
#[derive(Clone, Debug)]
pub(crate) struct Recursive {
    /// Its number among the common table expressions: what the step reads under it are the rows added last.
    pub(crate) number: usize,
    /// UNION ALL: whether equal rows stay.
    pub(crate) all: bool,
    pub(crate) base: Query,
    pub(crate) step: Query,
    /// The common table expressions within the step, which are computed anew each time.
    pub(crate) nested: Range<usize>,
}

/// UNION, INTERSECT, EXCEPT.
#[derive(Clone, Debug)]
pub(crate) struct SetOperation {
    pub(crate) operator: SetOperator,
    pub(crate) all: bool,
    pub(crate) left: Query,
    pub(crate) right: Query,
    pub(crate) finish: Finish,
}

/// The kind of a set operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetOperator {
    Union,
    Intersect,
    Except,
}

/// A SELECT, or VALUES.
#[derive(Clone, Debug)]
pub(crate) struct Select {
    /// Indices in a tuple: the parent's and one for each source.
    pub(crate) stride: usize,
    pub(crate) steps: Vec<Step>,
    /// The output, hidden columns for ORDER BY and DISTINCT ON behind it.
    pub(crate) projection: Vec<Expression>,
    pub(crate) finish: Finish,
    /// Numbers that one tuple's projection draws.
    pub(crate) uniques: usize,
}

impl Select {
    /// The read whose locked rows are left out: SKIP LOCKED.
    pub(crate) fn skipping(&self) -> Option<&TableRead> {
        self.steps.iter().find_map(|step| match step {
            Step::Read(read) if read.when_locked == WhenLocked::Skip => Some(&**read),
            _ => None,
        })
    }
}

/// The last operations on the rows of a result, in this order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Finish {
    /// Columns that the user sees; those behind are cut off at the end.
    pub(crate) visible: usize,
    pub(crate) distinct: Distinct,
    pub(crate) order: Vec<Order>,
    pub(crate) limit: Option<Expression>,
    pub(crate) offset: Option<Expression>,
}

/// DISTINCT.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Distinct {
    #[default]
    None,
    /// Over all visible columns.
    All,
    /// Over these columns, the first row of each kept after ordering.
    On(Vec<usize>),
}

/// One key of ORDER BY.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Order {
    /// The column of the projection.
    pub(crate) column: usize,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
    /// The enumeration whose labels are in the column: its values have their order.
    pub(crate) labels: Option<Arc<EnumType>>,
}

/// One step of a pipeline.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Keeps the tuples for which all are true.
    Filter(Vec<Expression>),
    /// Joins a table.
    Read(Box<TableRead>),
    /// Joins a table function's rows.
    Function(Box<FunctionStep>),
    /// Joins the rows of VALUES.
    Rows {
        source: usize,
        rows: Vec<Vec<Expression>>,
        join: Join,
    },
    /// Joins the rows of a derived table or of a common table expression.
    Query(Box<QueryStep>),
    /// Adds a subquery's value to each tuple.
    Subquery {
        source: usize,
        subquery: Box<Subquery>,
    },
    /// Adds the values of window functions to each tuple.
    Window(Box<window::WindowStep>),
    /// Groups the tuples; one of each group goes on, with the aggregates' values as a source.
    Group {
        source: usize,
        keys: Vec<Expression>,
        aggregates: Vec<Aggregate>,
        grand: bool,
    },
}

/// How a source is joined to the tuples before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Join {
    /// A LEFT JOIN: a tuple without a match goes on, once, with NULLs.
    pub(crate) left: bool,
    /// A FULL JOIN, which is a LEFT JOIN, too: a row of the source without a match goes on, once, with NULLs.
    pub(crate) full: bool,
    /// The conditions of a match (the ON clause of a LEFT JOIN).
    pub(crate) matches: Vec<Expression>,
    /// The conditions on the joined tuple.
    pub(crate) filters: Vec<Expression>,
}

impl Join {
    /// Whether every match goes on, without filters or NULLs.
    pub(crate) fn is_plain(&self) -> bool {
        !self.left && self.matches.is_empty() && self.filters.is_empty()
    }
}

/// A table joined by reading it.
#[derive(Clone, Debug)]
pub(crate) struct TableRead {
    pub(crate) source: usize,
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) path: Path,
    /// Columns that have one value in all rows that are wanted: where rows are placed by such a column, they are at one
    /// partition.
    pub(crate) fixed: Vec<KeyPart>,
    pub(crate) join: Join,
    /// Whether the statement may write the rows.
    pub(crate) for_write: bool,
    /// Whether the rows' primary keys are needed.
    pub(crate) wants_keys: bool,
    /// What it does about rows that other transactions have locked.
    pub(crate) when_locked: WhenLocked,
}

/// What a SELECT … FOR UPDATE or FOR SHARE does about rows that other transactions have locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WhenLocked {
    /// It waits for them.
    #[default]
    Wait,
    /// NOWAIT: it fails.
    Fail,
    /// SKIP LOCKED: it leaves them out.
    Skip,
}

/// How a table's rows are found.
#[derive(Clone, Debug)]
pub(crate) enum Path {
    /// One row for each tuple, by the full primary key.
    Point { key: Vec<KeyPart> },
    /// A range of the primary key or of an index for each tuple.
    Range(Box<RangePath>),
    /// All rows, read once; tuples find theirs through a hash table where `keys` are given: the
    /// row's expression and the tuple's.
    Scan { hash: Vec<(Expression, Expression)> },
}

/// A range for each tuple.
#[derive(Clone, Debug)]
pub(crate) struct RangePath {
    pub(crate) index: Option<IndexId>,
    pub(crate) prefix: Vec<KeyPart>,
    pub(crate) lower: Option<(KeyPart, /* inclusive */ bool)>,
    pub(crate) upper: Option<(KeyPart, /* inclusive */ bool)>,
    /// Whether the bounded column may be NULL, which no bound includes.
    pub(crate) reverse: bool,
    /// At most this many rows: LIMIT plus OFFSET, if nothing filters after the read.
    pub(crate) limit: Option<(Expression, Option<Expression>)>,
    /// Equalities behind the prefix, the row's expression and the tuple's: where all tuples have one range, they find their
    /// rows in it through a hash table. They are among the join's conditions as well.
    pub(crate) hash: Vec<(Expression, Expression)>,
}

/// One column of a key and the expression that it equals.
#[derive(Clone, Debug)]
pub(crate) struct KeyPart {
    pub(crate) column: ColumnIndex,
    pub(crate) data_type: DataType,
    pub(crate) nullable: bool,
    pub(crate) value: Expression,
    /// The value compiled for integers, if it is one.
    pub(crate) integer: Option<integers::IntegerKey>,
}

/// A table function in FROM.
#[derive(Clone, Debug)]
pub(crate) struct FunctionStep {
    pub(crate) source: usize,
    pub(crate) function: TableFunction,
    pub(crate) arguments: Vec<Expression>,
    pub(crate) ordinality: bool,
    pub(crate) join: Join,
}

/// Functions that give rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableFunction {
    /// One column for each array.
    Unnest,
    /// One column for each array, of equal length: the distinct rows without a NULL, in their order. It turns
    /// `column = ANY (array)` and `(a, b) IN (rows)` into look-ups.
    Elements,
    /// Integers from, to, by.
    GenerateSeries,
}

/// A derived table or common table expression.
#[derive(Clone, Debug)]
pub(crate) struct QueryStep {
    pub(crate) source: usize,
    pub(crate) rows: RowsOf,
    /// Hash keys: the row's expression and the tuple's.
    pub(crate) hash: Vec<(Expression, Expression)>,
    pub(crate) join: Join,
}

/// The origin of a [`QueryStep`]'s rows.
#[derive(Clone, Debug)]
pub(crate) enum RowsOf {
    Query(Query),
    Cte {
        number: usize,
        width: usize,
    },
    /// Values, `width` to a row.
    Constant {
        values: Arc<Vec<Value>>,
        width: usize,
    },
}

/// A subquery in an expression.
#[derive(Clone, Debug)]
pub(crate) struct Subquery {
    /// The source that holds its value.
    pub(crate) source: usize,
    pub(crate) kind: SubqueryKind,
    pub(crate) query: Query,
    /// Columns of this query that the subquery, or its left operand, refers to.
    pub(crate) references: Vec<(usize, usize)>,
    /// After grouping.
    pub(crate) grouped: bool,
}

/// What a subquery makes of its rows.
#[derive(Clone, Debug)]
pub(crate) enum SubqueryKind {
    /// The value of its one row, NULL without rows.
    Scalar,
    /// Whether it has rows.
    Exists { negated: bool },
    /// `left op ANY (rows)` or ALL; IN is `= ANY`, NOT IN is `<> ALL`.
    Quantified {
        left: Vec<Expression>,
        relation: Relation,
        all: bool,
    },
    /// ARRAY(SELECT …).
    Array,
}

/// An UPDATE that its owner can evaluate at commit.
#[derive(Clone, Debug)]
pub(crate) struct DeferredUpdate {
    /// Steps over pure sources alone.
    pub(crate) stride: usize,
    pub(crate) steps: Vec<Step>,
    pub(crate) key: Vec<KeyPart>,
    pub(crate) program: ProgramId,
    /// The program's arguments, over a tuple.
    pub(crate) arguments: Vec<Argument>,
    /// The number of outputs of the program.
    pub(crate) outputs: u16,
    /// Whether the program may fail on another row than the statement sees.
    pub(crate) may_fail: bool,
}

/// An argument of a row program.
#[derive(Clone, Debug)]
pub(crate) struct Argument {
    pub(crate) value: Expression,
    /// The value compiled for integers, if it is computed and of an integer type.
    pub(crate) integer: Option<Integer>,
}
