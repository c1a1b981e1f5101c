//! The catalog: everything that the DDL of an application declares.
//!
//! Its expressions (checks, defaults, views, assertions) are `sqlparser`'s syntax trees with their places; they are
//! bound where they are used.

mod alter;
pub(crate) mod builtin;
mod directive;
mod hidden;
mod load;
mod lookup;
pub(crate) mod names;
pub(crate) mod opaque;
pub(crate) mod tables;

use std::sync::{Arc, OnceLock};

use anabranch_types::{ColumnIndex, DataType, EnumType, IndexId, Schema, TableId};
use sqlparser::ast;

use crate::{
    sequence::SequenceOptions,
    source::{SourceFile, Span},
    system::System,
};
use opaque::OpaqueExpressions;

pub use crate::deferred::Deferrability;
pub use builtin::{builtins, is_builtin};
pub use load::load;
pub(crate) use load::{load_beside, load_translated};
pub use lookup::describe;
pub(crate) use lookup::plain_type;

/// Everything that an application declares, in order of declaration.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// The files it was loaded from, for diagnostics.
    pub files: Vec<SourceFile>,
    /// The tables as the lower crates see them; indexed by [`TableId`] like `tables`.
    pub schema: Schema,
    /// The properties of each table that only SQL has.
    pub tables: Vec<Table>,
    /// Enumerations, in the order of their declarations.
    pub types: Vec<Arc<EnumType>>,
    /// Sequences that no serial or identity column implies.
    pub sequences: Vec<Sequence>,
    /// Views.
    pub views: Vec<View>,
    /// `CREATE ASSERTION`s.
    pub assertions: Vec<Assertion>,
    /// Procedures and functions.
    pub procedures: Vec<Arc<Procedure>>,
    /// The functions of triggers, which nothing else calls.
    pub trigger_functions: Vec<TriggerFunction>,
    /// Triggers.
    pub triggers: Vec<Trigger>,
    /// Limits on its compilation.
    pub limits: Limits,
    /// Whether the expressions of statements may be opaque, and which were.
    pub(crate) opaque: Option<OpaqueExpressions>,
    /// The system catalogs, once a statement has named them. Nothing may be declared afterwards, except what they need
    /// not list.
    pub(crate) system: OnceLock<Arc<System>>,
}

/// Limits on the compilation of a catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of views that one statement may expand to, nested ones counted each time: thirty views that each name
    /// the previous one twice expand to a thousand million.
    pub views_expanded_max: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            views_expanded_max: 1_000,
        }
    }
}

/// The properties of a table that only SQL has. Names, types, keys and indexes are in its
/// [`anabranch_types::TableSchema`].
#[derive(Clone, Debug)]
pub struct Table {
    /// Its number.
    pub id: TableId,
    /// Its name as declared, folded to lower case unless quoted.
    pub name: String,
    /// The place of its declaration.
    pub span: Span,
    /// DEFAULT and identity of each column, in order. Hidden columns ([`anabranch_types::ColumnSchema::is_hidden`]) are
    /// [`ColumnDefault::Computed`].
    pub defaults: Vec<ColumnDefault>,
    /// CHECK constraints.
    pub checks: Vec<Check>,
    /// The name of the primary key constraint, where there is one.
    pub primary_key_name: Option<String>,
    /// The indexes that UNIQUE constraints made, rather than CREATE INDEX.
    pub unique_constraints: Vec<IndexId>,
    /// What each index is of, by [`IndexId`]. Of an index of expressions or with a WHERE, the
    /// [`anabranch_types::IndexSchema`] has hidden columns instead.
    pub indexes: Vec<IndexDefinition>,
    /// FOREIGN KEY constraints.
    pub foreign_keys: Vec<ForeignKey>,
}

/// What an index is of.
#[derive(Clone, Debug)]
pub struct IndexDefinition {
    /// The columns and expressions of its key, in order.
    pub parts: Vec<IndexPart>,
    /// The condition of a partial index, with its place.
    pub predicate: Option<(ast::Expr, Span)>,
}

/// A part of the key of an index.
#[expect(clippy::large_enum_variant, reason = "an application has few of them")]
#[derive(Clone, Debug)]
pub enum IndexPart {
    /// A column.
    Column(ColumnIndex),
    /// An expression over the row, with its place.
    Expression(ast::Expr, Span),
}

impl IndexDefinition {
    /// The index of these columns alone.
    pub(crate) fn plain(columns: &[ColumnIndex]) -> IndexDefinition {
        let parts = columns.iter().map(|column| IndexPart::Column(*column));
        IndexDefinition {
            parts: parts.collect(),
            predicate: None,
        }
    }

    /// Whether it is of columns alone, and of all rows.
    pub fn is_plain(&self) -> bool {
        let is_column = |part: &IndexPart| matches!(part, IndexPart::Column(_));
        self.predicate.is_none() && self.parts.iter().all(is_column)
    }
}

/// The value of a column for which an INSERT has none.
#[derive(Clone, Debug)]
pub enum ColumnDefault {
    /// NULL.
    Null,
    /// The value of an expression.
    Expression(ast::Expr, Span),
    /// A number chosen by the database: `serial`, `GENERATED … AS IDENTITY`.
    Generated {
        /// `GENERATED ALWAYS`: the user may not choose.
        always: bool,
        /// `serial`, or a DEFAULT that calls `nextval`, rather than an identity column.
        serial: bool,
    },
    /// The value of an expression over the other columns of the row, with the place of the expression: `GENERATED
    /// ALWAYS AS (…) STORED`. No statement gives the column another one.
    Computed(ast::Expr, Span),
}

/// A CHECK constraint.
#[derive(Clone, Debug)]
pub struct Check {
    /// Its name, PostgreSQL's default name where none was given.
    pub name: String,
    /// The condition: not satisfied only when false.
    pub expression: ast::Expr,
    /// The place of its declaration.
    pub span: Span,
}

/// A FOREIGN KEY constraint.
#[derive(Clone, Debug)]
pub struct ForeignKey {
    /// Its name, PostgreSQL's default name where none was given.
    pub name: String,
    /// The referencing columns of this table, in the order of `parent_columns`.
    pub columns: Vec<ColumnIndex>,
    /// The referenced table.
    pub parent: TableId,
    /// The referenced columns: all those of the parent's primary key or of a unique index, in that
    /// key's order.
    pub parent_columns: Vec<ColumnIndex>,
    /// The effect on a child when its parent is deleted.
    pub on_delete: ReferentialAction,
    /// The effect on a child when its parent's key changes.
    pub on_update: ReferentialAction,
    /// Whether its check may wait for the end of the transaction.
    pub deferrability: Deferrability,
    /// The place of its declaration.
    pub span: Span,
}

/// The effect on a child row when its parent is deleted or its key changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferentialAction {
    /// The statement fails (checked at its end).
    NoAction,
    /// The statement fails.
    Restrict,
    /// The child is deleted, or follows the change.
    Cascade,
    /// The child's columns become NULL.
    SetNull,
    /// The child's columns get their defaults.
    SetDefault,
}

/// A sequence of a `CREATE SEQUENCE`, unless it is just the one that a serial column implies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Its name.
    pub name: String,
    /// Its options.
    pub options: SequenceOptions,
    /// The table and the column that own it.
    pub owner: Option<(String, String)>,
}

/// A view: a named query.
#[derive(Clone, Debug)]
pub struct View {
    /// Its name.
    pub name: String,
    /// Names for its columns, where given.
    pub columns: Vec<String>,
    /// The query.
    pub query: Box<ast::Query>,
    /// The place of its declaration.
    pub span: Span,
}

/// An invariant over the whole database.
#[derive(Clone, Debug)]
pub struct Assertion {
    /// Its name.
    pub name: String,
    /// The condition, which every committed state satisfies.
    pub expression: ast::Expr,
    /// The place of its declaration.
    pub span: Span,
}

/// A procedure or function, parsed; `compile` makes it runnable.
#[derive(Clone, Debug)]
pub struct Procedure {
    /// Its name.
    pub name: String,
    /// Whether it was created as a procedure, which CALL calls, or as a function, which SELECT does.
    pub kind: RoutineKind,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
    /// Its result, beside its OUT parameters.
    pub returns: Returns,
    /// STRICT: a call with an argument that is NULL gives NULL, or no rows, and does not run it.
    pub is_strict: bool,
    /// Its body.
    pub body: Block,
    /// Assertions that a comment above it declares as kept when it runs alone.
    pub keeps: Vec<String>,
    /// The place of its declaration.
    pub span: Span,
}

impl Procedure {
    /// The types of its input parameters.
    pub(crate) fn input_types(&self) -> Vec<DataType> {
        let inputs = self.parameters.iter();
        let inputs = inputs.filter(|of| of.mode != ParameterMode::Out);
        inputs.map(|of| of.data_type.clone()).collect()
    }
}

/// The function of triggers: it assigns columns of the row that is written, and does nothing else.
#[derive(Clone, Debug)]
pub struct TriggerFunction {
    /// Its name.
    pub name: String,
    /// Its body: assignments to columns of NEW, IF, and RETURN NEW. Its names are looked up for each trigger.
    pub body: Block,
    /// The place of its declaration.
    pub span: Span,
}

/// A trigger, which runs its function for each row before an INSERT or an UPDATE writes it.
#[derive(Clone, Debug)]
pub struct Trigger {
    /// Its name, its own among the triggers of the table. They fire in the order of their names.
    pub name: String,
    /// Its table.
    pub table: TableId,
    /// Whether an INSERT fires it.
    pub on_insert: bool,
    /// Whether an UPDATE fires it.
    pub on_update: bool,
    /// `UPDATE OF`: an UPDATE fires it only if it names one of these columns. Empty: any UPDATE does.
    pub columns: Vec<ColumnIndex>,
    /// The condition of WHEN, with its place.
    pub condition: Option<(ast::Expr, Span)>,
    /// The name of its function.
    pub function: String,
    /// The place of its declaration.
    pub span: Span,
}

/// How a procedure was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutineKind {
    /// `CREATE FUNCTION`
    Function,
    /// `CREATE PROCEDURE`
    Procedure,
}

/// One parameter of a procedure.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its type, without the bounds of `numeric(p, s)` and `varchar(n)`, which PostgreSQL forgets.
    pub data_type: DataType,
    /// Its direction.
    pub mode: ParameterMode,
    /// Its default, where it has one.
    pub default: Option<ast::Expr>,
}

/// The direction of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterMode {
    /// Given by the caller.
    In,
    /// Part of the result.
    Out,
    /// Both.
    InOut,
}

/// The result of a procedure.
#[derive(Clone, Debug, PartialEq)]
pub enum Returns {
    /// Its OUT parameters as one row; nothing if it has none.
    Parameters,
    /// One value.
    Scalar(DataType),
    /// A set of rows (`RETURNS TABLE`, `SETOF`).
    Table(Vec<(String, DataType)>),
}

/// A block of statements with its variables.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Variables declared here, in order.
    pub variables: Vec<Variable>,
    /// The statements, in order.
    pub statements: Vec<(Statement, Span)>,
}

/// A declared variable.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its type.
    pub data_type: VariableType,
    /// Its initial value; NULL if none.
    pub default: Option<ast::Expr>,
    /// CONSTANT.
    pub constant: bool,
    /// The place of its declaration.
    pub span: Span,
}

/// The type of a variable.
#[derive(Clone, Debug, PartialEq)]
pub enum VariableType {
    /// A type, or a column's type by `%TYPE`, already resolved.
    Data(DataType),
    /// `record`: takes the columns of what is selected into it.
    Record,
    /// `table%ROWTYPE`: as `record`, and these columns, all of them NULL, before.
    Row(Vec<(String, DataType)>),
}

/// The level of a `RAISE`, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RaiseLevel {
    /// `DEBUG`
    Debug,
    /// `LOG`
    Log,
    /// `INFO`
    Info,
    /// `NOTICE`
    Notice,
    /// `WARNING`
    Warning,
    /// `EXCEPTION`
    Exception,
}

impl RaiseLevel {
    /// The SQLSTATE of a message whose statement names none.
    pub(crate) fn code(self) -> &'static str {
        match self {
            RaiseLevel::Exception => "P0001",
            RaiseLevel::Warning => "01000",
            _ => "00000",
        }
    }
}

/// A field of the error that `RAISE … USING` sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaiseField {
    /// `DETAIL`
    Detail,
    /// `HINT`
    Hint,
    /// `SCHEMA`
    Schema,
    /// `TABLE`
    Table,
    /// `COLUMN`
    Column,
    /// `DATATYPE`
    DataType,
    /// `CONSTRAINT`
    Constraint,
}

/// The values of a branch of CASE, and its statements.
pub type CaseBranch = (Vec<ast::Expr>, Vec<(Statement, Span)>);

/// A statement of a procedure's body.
#[expect(clippy::large_enum_variant, reason = "an application has few of them")]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Statement {
    /// SQL: SELECT, INSERT, UPDATE, DELETE, with where its result goes.
    Sql {
        /// The statement.
        statement: Box<ast::Statement>,
        /// INTO targets: names of variables or OUT parameters.
        into: Vec<String>,
        /// INTO STRICT: exactly one row.
        strict: bool,
    },
    /// `PERFORM query`.
    Perform(Box<ast::Query>),
    /// `target := expression`, the target possibly an array element.
    Assign {
        /// The variable or OUT parameter.
        target: String,
        /// An index, for `a[i] := …`.
        index: Option<ast::Expr>,
        /// The value.
        value: ast::Expr,
    },
    /// `IF … THEN … ELSIF … ELSE … END IF`.
    If {
        /// Conditions and their branches, in order.
        branches: Vec<(ast::Expr, Vec<(Statement, Span)>)>,
        /// The ELSE branch.
        otherwise: Vec<(Statement, Span)>,
    },
    /// `FOR i IN [REVERSE] a..b [BY c] LOOP`.
    ForRange {
        /// The loop variable, local to the loop.
        variable: String,
        /// The first value.
        from: ast::Expr,
        /// The last value.
        to: ast::Expr,
        /// The step; 1 if none.
        by: Option<ast::Expr>,
        /// Downwards.
        reverse: bool,
        /// The body.
        body: Vec<(Statement, Span)>,
    },
    /// `FOR target IN query LOOP`.
    ForQuery {
        /// A record variable, or a list of scalar ones.
        targets: Vec<String>,
        /// The query.
        query: Box<ast::Statement>,
        /// The body.
        body: Vec<(Statement, Span)>,
    },
    /// `FOREACH target IN ARRAY expression LOOP`.
    ForEach {
        /// The variable.
        target: String,
        /// The array.
        array: ast::Expr,
        /// The body.
        body: Vec<(Statement, Span)>,
    },
    /// `WHILE condition LOOP`, and `LOOP` with `true`.
    While {
        /// The condition.
        condition: ast::Expr,
        /// The body.
        body: Vec<(Statement, Span)>,
    },
    /// `EXIT [label] [WHEN condition]`.
    Exit {
        /// The number of loops around the innermost one that it leaves, too. A block with a label is a loop.
        levels: usize,
        /// The condition.
        condition: Option<ast::Expr>,
    },
    /// `CONTINUE [label] [WHEN condition]`.
    Continue {
        /// As that of `Exit`.
        levels: usize,
        /// The condition.
        condition: Option<ast::Expr>,
    },
    /// `CASE operand WHEN values THEN … ELSE … END CASE`.
    Case {
        /// The operand, which is evaluated once.
        operand: ast::Expr,
        /// The values and statements of each branch.
        branches: Vec<CaseBranch>,
        /// The statements of ELSE.
        otherwise: Vec<(Statement, Span)>,
    },
    /// `RAISE level 'format', arguments USING ERRCODE = …`.
    Raise {
        /// EXCEPTION ends the transaction; the others are messages.
        level: RaiseLevel,
        /// The format, with % for each argument.
        format: String,
        /// The arguments.
        arguments: Vec<ast::Expr>,
        /// The SQLSTATE; that of the level if none.
        code: Option<String>,
        /// The other fields of the error or message.
        fields: Vec<(RaiseField, ast::Expr)>,
    },
    /// `RETURN [expression]`.
    Return(Option<ast::Expr>),
    /// `RETURN QUERY query`. In a `LANGUAGE SQL` body it is the last statement, and its rows are the result: for a
    /// routine that returns one value or OUT parameters, the first of them, and NULLs if there is none.
    ReturnQuery(Box<ast::Statement>),
    /// `RETURN NEXT [expression]`.
    ReturnNext(Option<ast::Expr>),
    /// `GET DIAGNOSTICS target = ROW_COUNT`.
    RowCount(String),
    /// A nested `BEGIN … END` without handlers.
    Block(Block),
    /// `NULL;`
    Null,
}
